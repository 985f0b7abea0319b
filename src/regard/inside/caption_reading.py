"""The input of a watched captioner: an image and a caption of it."""

import numpy as np

from regard.errors import UserError
from regard.inside.observe import Reading
from regard.inside.record import ShownImage
from regard.models.given import Images
from regard.probabilities.captioning import caption_images
from regard.runs.captioned import NamedImages, given_images
from regard.runs.run import Run


def caption_reading(run: Run, found: NamedImages, text: str) -> Reading:
    """Return the reading of the first image and a caption, end included. Without a text: the run's own."""
    given, tokenizer = given_images(run), run.tokenizer
    if text.strip():
        ids = [*tokenizer.prompt(text), tokenizer.end]
    else:
        ((best, *_),) = caption_images(run.language_model, tokenizer, found.rows, attention=False)
        ids = best.ids
    limit = run.model.context
    if limit is not None and len(ids) > limit:
        raise UserError(f"the caption has {len(ids)} tokens, its end counted, and the model reads {limit}")
    unknown = sum(token == tokenizer.unknown for token in ids)
    outside = f"{unknown} of the caption's words are not in the vocabulary and were read as <unk>"
    ids = [tokenizer.start, *ids]
    return Reading(
        ids,
        [tokenizer.name(token) for token in ids],
        found.rows.rows(found.every()).to(run.model.device),
        given.region_names(),
        _shown(given, found.pictures[0], found.rows.filled(0)) if found.pictures else None,
        ended=True,
        notes=(outside,) if unknown else (),
    )


def _shown(given: Images, pixels: np.ndarray, filled: tuple[int, int]) -> ShownImage:
    """Return the image with its regions, in its own pixels."""
    assert given.grid is not None
    down, right = pixels.shape[0] / filled[0], pixels.shape[1] / filled[1]
    boxes = [
        (
            min(box[0], filled[1]) * right,
            min(box[1], filled[0]) * down,
            min(box[2], filled[1]) * right,
            min(box[3], filled[0]) * down,
        )
        for box in given.grid.boxes()
    ]
    return ShownImage(pixels, given.grid.columns, tuple(boxes))
