"""Captioned images: a folder of images and a table of captions, given features, or the built-in scenes.

    captions    file TAB caption, a caption in each line; the file's path is relative to the folder
    boxes       line TAB word TAB left TAB top TAB right TAB bottom [TAB kind]: the line of a caption, from 1;
                a word of it, from 0; and the part of the image that the word names, in pixels
    features    an .npz file with an array (regions, features) for each name in the captions

Shape legend: N images, P captions, R regions, D features.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from regard.errors import UserError
from regard.machine.inputs import open_input
from regard.text.images import image_size
from regard.text.parallel import read_lines
from regard.text.scenes import Box, Scene, make_scenes

BUILT_IN = "built-in scenes"
SEEDS = {"train": 1, "valid": 2, "test": 3}  # of the built-in scenes
VALID, TEST = 200, 1000  # numbers of built-in scenes


@dataclass(frozen=True)
class Captioned:
    """Images and their captions. The images themselves are read later (tokens/captions.py)."""

    files: tuple[str, ...]  # images or features, captions, and boxes if they are known; none for scenes
    names: tuple[str, ...]  # the path of each image, the name of its features, or the number of a scene
    captions: list[str]
    image_P: list[int]  # the image of each caption
    boxes: list[tuple[Box, ...]] | None = None  # of each caption
    scenes: tuple[Scene, ...] = ()
    features: dict[str, np.ndarray] | None = None

    def __len__(self) -> int:
        return len(self.captions)

    @property
    def name(self) -> str:
        return " ".join(self.files) or BUILT_IN

    def part(self, images: Sequence[int]) -> "Captioned":
        """Return these images and their captions."""
        new = {image: number for number, image in enumerate(images)}
        places = [place for place, image in enumerate(self.image_P) if image in new]
        return replace(
            self,
            names=tuple(self.names[image] for image in images),
            captions=[self.captions[place] for place in places],
            image_P=[new[self.image_P[place]] for place in places],
            boxes=None if self.boxes is None else [self.boxes[place] for place in places],
            scenes=tuple(self.scenes[image] for image in images) if self.scenes else (),
        )

    def references(self) -> list[list[str]]:
        """Return the captions of each image."""
        of_images: list[list[str]] = [[] for _ in self.names]
        for caption, image in zip(self.captions, self.image_P, strict=True):
            of_images[image].append(caption)
        return of_images


def built_in(part: str, count: int) -> Captioned:
    """Return built-in scenes for a part of the text: train, valid or test."""
    scenes = make_scenes(count, SEEDS[part], unseen=part == "test")
    return Captioned(
        (),
        tuple(str(number) for number in range(count)),
        [scene.caption() for scene in scenes],
        list(range(count)),
        [scene.boxes() for scene in scenes],
        tuple(scenes),
    )


def read(
    images: str | Path | None,
    captions: str | Path | None,
    features: str | Path | None = None,
    boxes: str | Path | None = None,
) -> Captioned | None:
    """Read captions of images or of features. The result is None if no file is named."""
    if images is None and features is None and captions is None and boxes is None:
        return None
    if captions is None or (images is None) == (features is None):
        raise UserError(
            "`captions` goes with `images`, the folder of its files, or with `features`: give both"
        )
    if features is not None:
        if boxes is not None:
            raise UserError("`boxes` are parts of images: give `images`, not `features`")
        return _with_features(str(features), str(captions))
    return _with_images(str(images), str(captions), None if boxes is None else str(boxes))


def reread(files: Sequence[str]) -> Captioned:
    """Read the files that a run has stored."""
    if files[0].endswith(".npz"):
        return _with_features(files[0], files[1])
    return _with_images(files[0], files[1], files[2] if len(files) > 2 else None)


def hold_out(captioned: Captioned, share: float = 0.1, seed: int = 7) -> tuple[Captioned, Captioned]:
    """Return (training, validation) images with their captions."""
    order = list(range(len(captioned.names)))
    random.Random(seed).shuffle(order)
    held_out = max(1, int(len(order) * share))
    if held_out == len(order):
        raise UserError(
            f"{captioned.name}: one image cannot be split into training and validation; give more images"
        )
    return captioned.part(sorted(order[held_out:])), captioned.part(sorted(order[:held_out]))


def _with_images(folder: str, captions: str, boxes: str | None) -> Captioned:
    if not Path(folder).is_dir():
        raise UserError(f"{folder}: no such folder; `images` is the folder of the files in `captions`")
    inside, paths, rows = Path(folder).resolve(), dict[str, int](), _table(captions)
    sizes = list[tuple[int, int]]()
    for line, (name, _) in rows.items():
        path = Path(folder) / name
        if not path.resolve().is_relative_to(inside):
            raise UserError(f"{captions}: line {line} names {name}, which lies outside {folder}")
        if str(path) in paths:
            continue
        try:
            sizes.append(image_size(path))
        except UserError as error:
            raise UserError(f"{captions}: line {line}: {error}") from None
        paths[str(path)] = len(paths)
    image_P = [paths[str(Path(folder) / name)] for name, _ in rows.values()]
    texts = [caption for _, caption in rows.values()]
    known = None if boxes is None else _boxes(boxes, rows, [sizes[image] for image in image_P])
    files = (folder, captions) if boxes is None else (folder, captions, boxes)
    return Captioned(files, tuple(paths), texts, image_P, known)


def _with_features(file: str, captions: str) -> Captioned:
    features, rows = read_features(file), _table(captions)
    names = dict[str, int]()
    for line, (name, _) in rows.items():
        if name not in features:
            raise UserError(f"{captions}: line {line} names {name}, and {file} has no such array")
        names.setdefault(name, len(names))
    image_P = [names[name] for name, _ in rows.values()]
    texts = [caption for _, caption in rows.values()]
    return Captioned((file, captions), tuple(names), texts, image_P, features=features)


def read_features(file: str | Path) -> dict[str, np.ndarray]:
    """Read an .npz file of arrays (regions, features), all with the same number of features."""
    try:
        with open_input(file) as opened, np.load(opened, allow_pickle=False) as arrays:
            features = {name: np.asarray(arrays[name]) for name in arrays.files}
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror or 'not an .npz file'})") from None
    except (ValueError, KeyError, EOFError, AttributeError) as error:
        raise UserError(f"{file}: is not an .npz file of numbers ({error})") from None
    except Exception as error:  # a damaged archive: zipfile and zlib have errors of their own
        raise UserError(f"{file}: is damaged ({error}); make the file again") from None
    if not features:
        raise UserError(f"{file}: holds no arrays; give an array (regions, features) for each image")
    widths = {array.shape[-1] if array.ndim else 0 for array in features.values()}
    for name, array in features.items():
        if array.ndim != 2 or 0 in array.shape or len(widths) > 1 or not _finite(array):
            raise UserError(
                f"{file}: {name} has shape {array.shape}; each array needs (regions, features), finite "
                "numbers, and the same number of features"
            )
    return {name: array.astype(np.float32) for name, array in features.items()}


def _finite(array: np.ndarray) -> bool:
    return array.dtype.kind in "fiu" and bool(np.isfinite(array).all())


def _table(name: str) -> dict[int, tuple[str, str]]:
    """Return (file, caption) for each line of a table with a caption, by the number of the line."""
    rows = dict[int, tuple[str, str]]()
    for number, line in enumerate(read_lines(name), 1):
        if not line.strip():
            continue
        columns = line.split("\t")
        if len(columns) != 2:
            raise UserError(
                f"{name}: line {number} has {_counted(len(columns), 'column')}; write: file TAB caption"
            )
        if not all(column.strip() for column in columns):
            raise UserError(f"{name}: line {number} has an empty column; write: file TAB caption")
        rows[number] = (columns[0].strip(), columns[1].strip())
    if not rows:
        raise UserError(f"{name}: holds no captions; write: file TAB caption")
    return rows


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" + ("" if number == 1 else "s")


def _boxes(
    name: str, rows: dict[int, tuple[str, str]], sizes: list[tuple[int, int]]
) -> list[tuple[Box, ...]]:
    """Return the boxes of each caption, as shares of the image's width and height."""
    found: dict[int, list[Box]] = {line: [] for line in rows}
    size_of = dict(zip(rows, sizes, strict=True))
    form = "write: line TAB word TAB left TAB top TAB right TAB bottom, and TAB kind if you like"
    for number, text in enumerate(read_lines(name), 1):
        if not text.strip():
            continue
        columns = text.split("\t")
        try:
            line, word = int(columns[0]), int(columns[1])
            left, top, right, bottom = (float(column) for column in columns[2:6])
        except ValueError:
            raise UserError(f"{name}: line {number} is not a box; {form}") from None
        except IndexError:
            raise UserError(f"{name}: line {number} is not a box; {form}") from None
        if len(columns) > 7:
            raise UserError(f"{name}: line {number} has {len(columns)} columns; {form}")
        if line not in rows or not 0 <= word < len(rows[line][1].split()):
            raise UserError(f"{name}: line {number} names word {word} of line {line}, which is no caption's")
        width, height = size_of[line]
        if not (0 <= left < right <= width and 0 <= top < bottom <= height):
            raise UserError(f"{name}: line {number}: the box does not lie in the image ({width} x {height})")
        kind = columns[6] if len(columns) > 6 else ""
        found[line].append(Box(word, left / width, top / height, right / width, bottom / height, kind))
    return [tuple(boxes) for boxes in found.values()]
