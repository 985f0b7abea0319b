"""regard draw FILE: a picture of weights from any tool."""

import lzma
import struct
import zipfile
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Any

import numpy as np

from regard.boundary import read_json
from regard.errors import UserError
from regard.machine.inputs import open_input
from regard.page.files import write_drawing
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, show

# NumPy and the standard library raise these for damaged numbers, headers and archives. Some archives name a
# method that Python does not know (NotImplementedError) or say that they are encrypted (RuntimeError).
UNREADABLE = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    RuntimeError,
    EOFError,
    SyntaxError,
    struct.error,
    zlib.error,
    lzma.LZMAError,
    zipfile.BadZipFile,
)
Weights = Annotated[str | Path | np.ndarray, Argument(Path, positional=True, metavar="FILE")]
Words = Annotated[Sequence[str] | None, Argument(tuple[str, ...] | None, metavar="WORD")]
Picture = Annotated[str | Path, Argument(Path, metavar="FILE")]


def draw(weights: Weights, out: Picture, *, tokens: Words = None, title: str | None = None) -> Path:
    """Draw an array of weights: a row, a map, a map for each head, or for each layer and head (1 to 4 axes).

    >>> import numpy
    >>> regard.draw(numpy.eye(2), out="map.svg", tokens=["the", "poor"]).name
    'map.svg'

    Args:
        weights: An array, or a file: .npz with weights and tokens (or rows and columns), .npy or .json.
        out: The file to write: .svg, .png, or .html, which opens offline.
        tokens: The words, if the file does not hold them.
        title: The title. Without it, the name of the file.
    """
    held: dict[str, Any] = {"weights": weights} if isinstance(weights, np.ndarray) else _read(Path(weights))
    words = list(tokens) if tokens is not None else held.get("tokens")
    name = title or ("" if isinstance(weights, np.ndarray) else Path(weights).name)
    write_drawing(held["weights"], Path(out), held.get("rows", words), held.get("columns", words), name)
    return Path(out)


def _read(path: Path) -> dict[str, Any]:
    """Read the weights, and the tokens, rows and columns that the file holds. Nothing is unpickled."""
    try:
        if path.suffix == ".json":
            data = read_json(path, str(path))
            held = data if isinstance(data, dict) else {"weights": data}
        else:
            with open_input(path) as file:
                loaded = np.load(file, allow_pickle=False)
                held = dict(loaded) if isinstance(loaded, np.lib.npyio.NpzFile) else {"weights": loaded}
        arrays = {name: np.asarray(array) for name, array in held.items()}
        weights = arrays.pop("weights", None)
        if weights is None:
            raise UserError(f"{path}: holds no 'weights' (it holds: {', '.join(map(repr, held))})")
        if np.iscomplexobj(weights):
            raise UserError(f"{path}: the weights are complex numbers; give real ones")
        names = ("tokens", "rows", "columns")
        words = {
            name: [str(word) for word in array.tolist()] for name, array in arrays.items() if name in names
        }
        return {"weights": weights.astype(np.float64), **words}
    except OSError as error:
        raise UserError(f"{path}: cannot be read ({error.strerror or error})") from None
    except UNREADABLE as error:
        raise UserError(
            f"{path}: is not an array of numbers ({_why(error)}); give .npz, .npy or .json"
        ) from None


def _why(error: Exception) -> str:
    reason = next(iter(str(error).splitlines()), type(error).__name__)
    return "it is no such file, or holds objects" if "pickle" in reason else reason


def main(arguments: list[str]) -> None:
    call = parse(draw, arguments)
    out = draw(**call.values)
    if call.json:
        print_json({"out": str(out)})
    else:
        show(f"{out} shows it.")
