"""The drawn scenes that a captioner can look at in the lab. No training scene has their neighbours.

`regard scenes FOLDER --unseen --count 12` writes the same images, so that a command can repeat what the page
shows.
"""

from functools import cache

import numpy as np
from PIL import Image

from regard.errors import UserError
from regard.models.given import Images
from regard.runs.captioned import NamedImages, fit_images
from regard.text.scenes import draw, make_scenes

COUNT, SIDE, SEED = 12, 128, 4  # the size and the seed are the defaults of `regard scenes`


@cache
def scenes() -> tuple[list[np.ndarray], list[str]]:
    """Return the pictures of the scenes, and their right captions."""
    made = make_scenes(COUNT, SEED, unseen=True)
    return list(draw(made, SIDE)), [scene.caption() for scene in made]


def chosen_image(given: Images, number: int | None) -> NamedImages:
    """Return a scene in the frame of a captioner."""
    if given.grid is None:
        raise UserError(
            "this run reads given features, not pixels: regard look RUN --image FILE.npz shows it"
        )
    pictures, _ = scenes()
    if number is None or not number < len(pictures):
        raise UserError(f"there are the scenes 0 to {len(pictures) - 1}: choose one")
    return fit_images(given, [str(number)], [Image.fromarray(pictures[number])])
