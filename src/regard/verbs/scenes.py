"""regard scenes FOLDER: write the built-in scenes as image files, with captions and boxes."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Interval
from PIL import Image

from regard.boundary import check_ranges
from regard.errors import UserError
from regard.machine.disk import write_atomically
from regard.ranges import Rows, Seed
from regard.tables import Table, TableRows
from regard.text.scenes import Scene, draw, make_scenes
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, tell

Pixels = Annotated[int, Interval(ge=8, le=2048)]
BATCH = 64  # scenes that are drawn at a time
Folder = Annotated[str | Path, Argument(str, positional=True, metavar="FOLDER")]


@dataclass(frozen=True)
class Written(Table):
    """The scenes that were written."""

    folder: str
    captions: dict[str, str]  # of each file

    def to_json(self) -> dict[str, Any]:
        return {"folder": self.folder, "captions": self.captions}

    def rows(self) -> TableRows:
        """A row for each file, with its caption."""
        return [{"file": file, "caption": caption} for file, caption in self.captions.items()]


@check_ranges
def scenes(
    folder: Folder, *, count: Rows = 20, size: Pixels = 128, unseen: bool = False, seed: Seed = 4
) -> Written:
    """Write built-in scenes as PNG files, with captions.tsv and boxes.tsv beside them.

    Change captions.tsv to caption the scenes in your own words or language, and train on the folder:
    regard train captioner --images FOLDER --captions FOLDER/captions.tsv.

    >>> regard.scenes("scenes", count=100)  # doctest: +SKIP

    Args:
        folder: The folder, which must be new or empty.
        count: Number of scenes.
        size: Pixels on a side of a scene.
        unseen: Neighbouring shapes are combinations that the built-in training scenes never have.
        seed: The seed of the scenes. The training scenes have seed 1, and those of evaluate 3.
    """
    out = Path(folder)
    if out.exists() and (not out.is_dir() or any(out.iterdir())):
        raise UserError(f"{out}: is not an empty folder; choose another")
    made = make_scenes(count, seed, unseen)
    out.mkdir(parents=True, exist_ok=True)
    width = len(str(count - 1))
    names = [f"{number:0{width}}.png" for number in range(count)]
    for first in range(0, count, BATCH):
        pictures = draw(made[first : first + BATCH], size)
        for name, picture in zip(names[first : first + BATCH], pictures, strict=True):
            Image.fromarray(picture).save(out / name)
    captions = {name: scene.caption() for name, scene in zip(names, made, strict=True)}
    lines = [f"{name}\t{caption}\n" for name, caption in captions.items()]
    write_atomically(out / "captions.tsv", "".join(lines).encode())
    boxes = [line for number, scene in enumerate(made, 1) for line in _boxes(number, scene, size)]
    write_atomically(out / "boxes.tsv", "".join(boxes).encode())
    return Written(str(out), captions)


def _boxes(number: int, scene: Scene, size: int) -> list[str]:
    """Return the lines of a scene's boxes."""
    lines = list[str]()
    for box in scene.boxes():
        edges = (max(0.0, min(1.0, edge)) * size for edge in (box.left, box.top, box.right, box.bottom))
        columns = [str(number), str(box.word), *(f"{edge:.1f}" for edge in edges), box.kind]
        lines.append("\t".join(columns) + "\n")
    return lines


def main(arguments: list[str]) -> None:
    call = parse(scenes, arguments)
    result = scenes(**call.values)
    if call.json:
        print_json(result.to_json())
        return
    for file, caption in [*result.captions.items()][:10]:
        print(f"{file}\t{caption}")
    if len(result.captions) > 10:
        print(f"... and {len(result.captions) - 10} more")
    tell(
        f"\nnext: regard train captioner --images {result.folder} --captions {result.folder}/captions.tsv "
        f"--boxes {result.folder}/boxes.tsv"
    )
