"""Write page/src/protocol.ts, the types of the lab's messages, from src/regard/page/protocol.py,
messages.py and recorded.py.

    python page/protocol.py > page/src/protocol.ts

tests/test_lab.py fails if the file is not what this script writes.
"""

import dataclasses
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from regard.page import messages, protocol, recorded

PLAIN = {str: "string", int: "number", float: "number", bool: "boolean", NoneType: "null", Any: "unknown"}


def typescript() -> str:
    parts = ["// Written by page/protocol.py from protocol.py, messages.py and recorded.py. Do not edit."]
    for module in (protocol, messages, recorded):
        for kind in (*module.QUESTIONS, *module.ANSWERS):
            parts.append(_interface(kind, optional=kind in module.QUESTIONS))
    return "\n\n".join(parts) + "\n"


def _interface(kind: type, optional: bool) -> str:
    hints, lines = get_type_hints(kind), []
    for field in dataclasses.fields(kind):
        left_out = optional and field.default is not dataclasses.MISSING
        lines.append(f"  {field.name}{'?' if left_out else ''}: {_type(hints[field.name])};")
    about = (kind.__doc__ or "").splitlines()[0]
    return f"/** {about} */\nexport interface {kind.__name__} {{\n" + "\n".join(lines) + "\n}"


def _type(hint: Any) -> str:
    origin, parts = get_origin(hint), get_args(hint)
    if origin is Annotated:
        return _type(parts[0])
    if origin is Literal:
        return " | ".join(f'"{part}"' for part in parts)
    if origin in (Union, UnionType):
        return " | ".join(map(_type, parts))
    if origin is dict:
        return f"Record<string, {_type(parts[1])}>"
    if origin is list or (origin is tuple and parts[-1] is Ellipsis):
        inner = _type(parts[0])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if origin is tuple:
        return f"[{', '.join(map(_type, parts))}]"
    return PLAIN.get(hint) or hint.__name__


if __name__ == "__main__":
    print(typescript(), end="")
