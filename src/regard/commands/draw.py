"""regard draw FILE: a picture of weights that any tool has made."""

import json
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import numpy as np
import tyro

from regard.commands.parsing import parse
from regard.errors import UserError
from regard.inside.output import write_drawing


@dataclass(frozen=True, kw_only=True)
class Draw:
    """Draw an array of weights: one row, a map, a map for each head, or for each layer and head (1 to 4 axes)."""

    file: Annotated[
        tyro.conf.Positional[Path], tyro.conf.arg(metavar="FILE", help=".npz with weights and tokens (or rows and columns), .npy, .json")
    ]
    out: Path
    """What to write: .svg, .png, or .html, which opens offline."""
    tokens: tuple[str, ...] | None = None
    """The words, where the file does not hold them."""
    title: str | None = None
    """What stands above it; without it, the file's name."""


def main(arguments: list[str]) -> None:
    options = parse(Draw, arguments, "draw")
    found = _read(options.file)
    tokens = list(options.tokens) if options.tokens is not None else found.get("tokens")
    write_drawing(
        found["weights"], options.out, found.get("rows", tokens), found.get("columns", tokens), options.title or options.file.name
    )
    print(f"{options.out} shows it.")


def _read(path: Path) -> dict[str, Any]:
    """weights, and tokens, rows and columns where they are there. Nothing is ever unpickled."""
    try:
        if path.suffix == ".json":
            data = json.loads(path.read_text(encoding="utf-8"))
            held = data if isinstance(data, dict) else {"weights": data}
        else:
            loaded = np.load(path, allow_pickle=False)
            held = dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else {"weights": loaded}
        arrays = {name: np.asarray(array) for name, array in held.items()}
        weights = arrays.pop("weights", None)
        if weights is None:
            raise UserError(f"{path}: holds no 'weights' (it holds: {', '.join(held)})")
        if np.iscomplexobj(weights):
            raise UserError(f"{path}: the weights are complex numbers; give real ones")
        words = {name: [str(word) for word in array.tolist()] for name, array in arrays.items() if name in ("tokens", "rows", "columns")}
        return {"weights": weights.astype(np.float64), **words}
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except (ValueError, TypeError, zipfile.BadZipFile) as error:
        raise UserError(f"{path}: is not an array of numbers ({_why(error)}); give .npz, .npy or .json") from None


def _why(error: Exception) -> str:
    said = str(error).splitlines()[0]
    return "it is no such file, or holds objects" if "pickle" in said else said
