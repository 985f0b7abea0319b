"""Built-in scenes: two to four coloured shapes with a caption, and the box of every word that names a shape.

The caption names the shapes from left to right. Between two shapes stands the relation of the first to the
second: above or below if their centres differ more in height than in width, left of otherwise. A scene whose
caption would be a close call (two centres almost above each other, or on a diagonal) is not used, and most
of every shape is visible. Every scene therefore has one right caption.

A tenth of the combinations of two shapes with their colours never occur in a training scene: no such scene
has both a red circle and a blue square, say. In a test scene, all neighbours in the caption are such
combinations.

Shape legend: N scenes, K shapes of a scene, Y and X pixels.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

COLOURS = {
    "red": (214, 39, 40),
    "green": (44, 160, 44),
    "blue": (31, 119, 220),
    "yellow": (240, 200, 20),
    "purple": (148, 60, 190),
    "black": (30, 30, 30),
}
SHAPES = ("circle", "square", "triangle", "cross", "ring")
KINDS = tuple((colour, name) for colour in COLOURS for name in SHAPES)
MOST = 4  # shapes in a scene
# The shares of two, three and four shapes among the scenes that are drawn up. Few of those with four shapes
# have a clear caption; a sixth of the scenes that are left have four shapes.
DRAWN_UP = (0.016, 0.086, 0.898)
RADII = (0.11, 0.19)  # of a shape, as shares of the side of the picture
APART = 0.14  # the least distance of two centres from left to right
CLEAR = 0.12  # the least difference between the distances of two centres in height and in width
VISIBLE = 0.7  # the least share of a shape that others do not cover
TRIED = 4096  # scenes that are drawn up at a time
PAPER = 245.0  # the brightness of the background, of 255
SLOPE = 5**0.5  # the sides of a triangle rise by 2 for a step of 1 to the side
COARSE = 32  # the pixels of a side when the visible parts are measured


@dataclass(frozen=True)
class Shape:
    """A shape of a scene. Lengths are shares of the side of the picture."""

    colour: str
    name: str
    x: float
    y: float
    radius: float


@dataclass(frozen=True)
class Box:
    """The part of a picture that a word of a caption names."""

    word: int  # the number of the word in the caption, from 0
    left: float  # shares of the width and of the height of the picture
    top: float
    right: float
    bottom: float
    kind: str = ""  # the kind of the word, such as colour


@dataclass(frozen=True)
class Scene:
    """The shapes from left to right, and the order in which they are drawn."""

    shapes: tuple[Shape, ...]
    order: tuple[int, ...]

    def caption(self) -> str:
        """Return the caption, such as: a red circle left of a blue square."""
        words = list[str]()
        for number, shape in enumerate(self.shapes):
            if number:
                words.append(_relation(self.shapes[number - 1], shape))
            words.append(f"a {shape.colour} {shape.name}")
        return " ".join(words)

    def boxes(self) -> tuple[Box, ...]:
        """Return the boxes of the colour words and the shape words."""
        boxes, place = list[Box](), 0
        for number, shape in enumerate(self.shapes):
            if number:
                place += len(_relation(self.shapes[number - 1], shape).split())
            edges = (
                shape.x - shape.radius,
                shape.y - shape.radius,
                shape.x + shape.radius,
                shape.y + shape.radius,
            )
            boxes += [Box(place + 1, *edges, "colour"), Box(place + 2, *edges, "shape")]
            place += 3
        return tuple(boxes)


def _relation(first: Shape, second: Shape) -> str:
    if abs(second.y - first.y) < abs(second.x - first.x):
        return "left of"
    return "above" if first.y < second.y else "below"


def make_scenes(count: int, seed: int, unseen: bool = False) -> list[Scene]:
    """Make training scenes; or test scenes, whose neighbours are combinations that training never sees."""
    generator = np.random.default_rng(seed)
    scenes = list[Scene]()
    while len(scenes) < count:
        scenes += _possible(generator, unseen)
    return scenes[:count]


def unseen_combinations() -> np.ndarray:
    """(kinds, kinds): True for the combinations of two kinds of shapes that training never sees.

    Every kind has three partners: its neighbours on a ring of all kinds in random order, and the kind on the
    other side of the ring. These are a tenth of all combinations.
    """
    ring = np.random.default_rng(1).permutation(len(KINDS))
    unseen = np.zeros((len(KINDS), len(KINDS)), bool)
    for step in (1, len(KINDS) // 2, len(KINDS) - 1):
        unseen[ring, np.roll(ring, step)] = True
    return unseen


def _possible(generator: np.random.Generator, unseen: bool) -> list[Scene]:
    """Draw up scenes at random, and return those with a clear caption and visible shapes."""
    shape = (TRIED, MOST)
    count_N = generator.choice(np.arange(2, MOST + 1), TRIED, p=DRAWN_UP)
    radius_NK = generator.uniform(*RADII, shape)
    x_NK, y_NK = (radius_NK + generator.random(shape) * (1 - 2 * radius_NK) for _ in "xy")
    order_NK = generator.random(shape).argsort(1)
    present_NK = np.arange(MOST) < count_N[:, None]
    by_x_NK = np.where(present_NK, x_NK, np.inf).argsort(1)
    x_NK, y_NK, radius_NK = (np.take_along_axis(each, by_x_NK, 1) for each in (x_NK, y_NK, radius_NK))
    kind_NK = _kinds(generator, unseen)
    right_NK, down_NK = np.abs(np.diff(x_NK, axis=1)), np.abs(np.diff(y_NK, axis=1))
    clear_NK = (right_NK >= APART) & (np.abs(right_NK - down_NK) >= CLEAR)
    good_N = (clear_NK | ~present_NK[:, 1:]).all(1)
    if not unseen:
        both_NKK = present_NK[:, :, None] & present_NK[:, None]
        good_N &= ~(unseen_combinations()[kind_NK[:, :, None], kind_NK[:, None]] & both_NKK).any((1, 2))
    scenes = list[Scene]()
    for n in np.flatnonzero(good_N):
        places = zip(
            x_NK[n].tolist(), y_NK[n].tolist(), radius_NK[n].tolist(), kind_NK[n].tolist(), strict=True
        )
        shapes = tuple(Shape(*KINDS[int(kind)], x, y, radius) for x, y, radius, kind in places)[: count_N[n]]
        scenes.append(Scene(shapes, tuple(int(k) for k in order_NK[n] if k < count_N[n])))
    return [scene for scene, visible in zip(scenes, _visible(scenes), strict=True) if visible]


def _kinds(generator: np.random.Generator, unseen: bool) -> np.ndarray:
    """(N, K): the kind of each shape. With `unseen`, neighbours are unseen combinations."""
    kind_NK = generator.integers(0, len(KINDS), (TRIED, MOST))
    if unseen:
        allowed = unseen_combinations()
        for k in range(1, MOST):
            chances_NV = generator.random((TRIED, len(KINDS))) * allowed[kind_NK[:, k - 1]]
            kind_NK[:, k] = chances_NV.argmax(1)
    return kind_NK


def draw(scenes: Sequence[Scene], size: int = COARSE) -> np.ndarray:
    """(N, Y, X, 3): the pictures, as bytes."""
    picture_NYX3 = np.full((len(scenes), size, size, 3), PAPER, np.float32)
    for place, cover_NYX, colour_N3 in _layers(scenes, size):
        below_NYX3 = picture_NYX3[place]
        picture_NYX3[place] = below_NYX3 + cover_NYX[..., None] * (colour_N3[:, None, None] - below_NYX3)
    return picture_NYX3.round().astype(np.uint8)


def _visible(scenes: Sequence[Scene]) -> np.ndarray:
    """(N): True for scenes in which enough of every shape is visible."""
    enough_N = np.ones(len(scenes), bool)
    above_NYX = np.zeros((len(scenes), COARSE, COARSE), np.float32)
    for place, cover_NYX, _ in reversed([*_layers(scenes, COARSE)]):  # the last layer is on top
        seen_N = (cover_NYX * (1 - above_NYX[place])).sum((1, 2))
        enough_N[place[0][:, 0, 0]] &= seen_N >= VISIBLE * cover_NYX.sum((1, 2))
        above_NYX[place] = np.maximum(above_NYX[place], cover_NYX)
    return enough_N


def _layers(scenes: Sequence[Scene], size: int) -> Iterator[tuple[Any, np.ndarray, np.ndarray]]:
    """Yield (place, cover, colour) for each layer of shapes, from the lowest to the topmost.

    `place` indexes the pixels around each shape of the layer; the cover of a pixel lies between 0 and 1.
    """
    window = min(size, int(2 * RADII[1] * size) + 3)
    step = np.arange(window)
    for layer in range(MOST):
        there = np.array([n for n, scene in enumerate(scenes) if layer < len(scene.order)], int)
        if not len(there):
            return
        shapes = [scenes[n].shapes[scenes[n].order[layer]] for n in there]
        x_N, y_N, radius_N = (
            np.array([getattr(shape, name) for shape in shapes], np.float32)[:, None] * size
            for name in ("x", "y", "radius")
        )
        column_NX, row_NY = (
            np.clip((centre_N - radius_N).astype(int) - 1, 0, size - window) + step for centre_N in (x_N, y_N)
        )
        # Positions relative to the shape's own centre, in radii.
        right_NYX = ((column_NX + 0.5 - x_N) / radius_N).astype(np.float32)[:, None]
        down_NYX = ((row_NY + 0.5 - y_N) / radius_N).astype(np.float32)[:, :, None]
        cover_NYX = np.empty((len(there), window, window), np.float32)
        names_N = np.array([shape.name for shape in shapes])
        for name in SHAPES:
            own = np.flatnonzero(names_N == name)
            distance_NYX = _distance(name, right_NYX[own], down_NYX[own]) * radius_N[own, :, None]
            cover_NYX[own] = np.clip(0.5 - distance_NYX, 0, 1)  # soft edges, one pixel wide
        colour_N3 = np.array([COLOURS[shape.colour] for shape in shapes], np.float32)
        yield (there[:, None, None], row_NY[:, :, None], column_NX[:, None]), cover_NYX, colour_N3


def _distance(name: str, right: np.ndarray, down: np.ndarray) -> np.ndarray:
    """Return the distance to the edge of a shape of radius 1, below 0 inside (about, at corners)."""
    match name:
        case "circle":
            return np.sqrt(right**2 + down**2) - 1
        case "ring":
            return np.abs(np.sqrt(right**2 + down**2) - 0.72) - 0.28
        case "square":
            return np.maximum(np.abs(right), np.abs(down)) - 0.88
        case "cross":
            wide, narrow = np.maximum(np.abs(right), np.abs(down)), np.minimum(np.abs(right), np.abs(down))
            return np.maximum(wide - 1, narrow - 0.32)
        case _:  # a triangle that stands on its base
            return np.maximum((2 * np.abs(right) - down - 1) / SLOPE, down - 0.9)
