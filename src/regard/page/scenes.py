"""The images for a captioner in the lab: of its own data, drawn scenes, and images that a person adds.

No training scene has the neighbours of the drawn scenes: `regard scenes FOLDER --unseen --count 12` writes
the same images, so that a command can repeat what the page shows.
"""

import base64
import binascii
import hashlib
from collections import OrderedDict
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import final

import numpy as np
from PIL import Image

from regard.errors import UserError
from regard.inside.image_pictures import png_uri
from regard.page import protocol
from regard.runs.captioned import NamedImages, fit_images, given_images, own_files
from regard.runs.run import Run
from regard.text.images import open_image, read_image
from regard.text.scenes import draw, make_scenes

COUNT, SIDE, SEED = 12, 128, 4  # the size and the seed are the defaults of `regard scenes`
OWN = 12  # images of the run's own data that are offered
ADDED = 8  # images of persons that are kept
MOST_PIXELS = 1 << 21  # of an added image
THUMB = 128  # pixels on the longer side of an offered image


@cache
def scenes() -> tuple[list[np.ndarray], list[str]]:
    """Return the pictures of the scenes, and their right captions."""
    made = make_scenes(COUNT, SEED, unseen=True)
    return list(draw(made, SIDE)), [scene.caption() for scene in made]


@dataclass(frozen=True)
class Choice:
    """An image that can be chosen."""

    scene: protocol.Scene
    file: str = ""  # of the run's own data; read when it is chosen
    image: Image.Image | None = None


@final
class Gallery:
    """The images of one run. Only one thread may use it."""

    def __init__(self, run: Run):
        self._run = run
        self._offered: dict[str, Choice] | None = None
        self._added = OrderedDict[str, Choice]()

    def offered(self) -> protocol.Scenes:
        """Return what can be chosen: added images first, the run's own, and the drawn scenes."""
        choices = self._choices().values()
        return protocol.Scenes([one.scene for one in (*reversed(self._added.values()), *choices)])

    def add(self, name: str, data: bytes) -> protocol.Scene:
        """Keep an image that a person adds, until ADDED newer ones came."""
        number = f"file-{hashlib.sha256(data).hexdigest()[:16]}"
        if number not in self._added:
            image = read_image(data, name, MOST_PIXELS)
            self._added[number] = Choice(_scene(number, image, name, name), image=image)
        return self._kept(number)

    def add_file(self, path: Path) -> protocol.Scene:
        """Keep the image of a file on this machine."""
        number, image = f"file-{hashlib.sha256(str(path).encode()).hexdigest()[:16]}", open_image(path)
        self._added[number] = Choice(_scene(number, image, path.name, str(path)), image=image)
        return self._kept(number)

    def _kept(self, number: str) -> protocol.Scene:
        self._added.move_to_end(number)
        while len(self._added) > ADDED:
            self._added.popitem(last=False)
        return self._added[number].scene

    def chosen(self, run: Run, scene: str | int | None) -> NamedImages:
        """Return an image in the frame of the captioner; without a number, the first one."""
        choices = self._choices()
        number = next(iter(choices)) if scene is None else str(scene)
        choice = self._added.get(number) or choices.get(number)
        if choice is None:
            raise UserError("this image is not among those of this run: choose one, or add it again")
        image = open_image(choice.file) if choice.image is None else choice.image
        return fit_images(given_images(run), [number], [image])

    def _choices(self) -> dict[str, Choice]:
        """Return the run's own images that are still there, then the drawn scenes."""
        if self._offered is None:
            if given_images(self._run).grid is None:
                how = "regard look RUN --image FILE.npz shows it"
                raise UserError(f"this run reads given features, not pixels: {how}")
            made = [*_own(self._run), *_drawn()]
            self._offered = {one.scene.id: one for one in made}
        return self._offered


def decoded(question: protocol.AddQuestion) -> bytes:
    try:
        return base64.b64decode(question.data, validate=True)
    except binascii.Error:
        raise UserError(f"{question.name}: did not arrive as it was sent; choose it again") from None


def _own(run: Run) -> list[Choice]:
    made = list[Choice]()
    try:
        for number, (file, caption) in enumerate(own_files(run, OWN)):
            made.append(Choice(_scene(f"own-{number}", open_image(file), caption, file), file))
    except UserError:  # the data were moved or changed since the training
        return []
    return made


def _drawn() -> list[Choice]:
    pictures = zip(*scenes(), strict=True)
    return [
        Choice(
            protocol.Scene(str(number), png_uri(pixels), caption, None),
            image=Image.fromarray(pixels),
        )
        for number, (pixels, caption) in enumerate(pictures)
    ]


def _scene(number: str, image: Image.Image, caption: str, file: str) -> protocol.Scene:
    small = image.copy()
    small.thumbnail((THUMB, THUMB))
    return protocol.Scene(number, png_uri(np.asarray(small)), caption, file)
