"""Looking at a captioner: the reading of an image and a caption, and its weights as text."""

from pathlib import Path

import numpy as np

from regard.errors import UserError
from regard.inside.image_pictures import region_maps
from regard.inside.observe import Reading
from regard.inside.record import Record, ShownImage
from regard.models.given import Images
from regard.probabilities.captioning import caption_images
from regard.runs.captioned import given_images, read_images
from regard.runs.run import Run
from regard.verbs.printing import show, show_token

SHADES = " ░▒▓█"
ACROSS = 5  # grids beside each other


def caption_reading(run: Run, image: str | Path | None, text: str) -> Reading:
    """Return the reading of an image and a caption, end included. Without a text, the run's own caption."""
    given = given_images(run)
    if image is None:
        raise UserError("name the image to look at with `image` FILE")
    found = read_images(run, [image])
    if len(found.names) > 1:
        raise UserError(f"{image}: holds {len(found.names)} arrays; name one, such as {found.names[0]}")
    tokenizer = run.tokenizer
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


def print_regions(record: Record) -> None:
    """Print the weights of each word as a small grid; the region with the highest weight has its number."""
    assert record.image is not None
    columns = record.image.columns
    for site_map in region_maps(record):
        numbers_TR = site_map.numbers.mean(0)
        heads = f", mean of {len(site_map.heads)} heads" if len(site_map.heads) > 1 else ""
        print(f"\n{site_map.site.name}{heads}, over the {len(record.given or ())} regions of the image:")
        grids = []
        for word, weights_R in zip(site_map.row_names, numbers_TR.tolist(), strict=True):
            best = max(range(len(weights_R)), key=weights_R.__getitem__)
            marks = [SHADES[min(4, round(weight * 4 + 0.3))] * 2 for weight in weights_R]
            lines = ["".join(marks[first : first + columns]) for first in range(0, len(marks), columns)]
            grids.append([show_token(word), f"{best}: {weights_R[best]:.2f}", *lines])
        width = max(2 * columns, 12)
        for first in range(0, len(grids), ACROSS):
            for line in zip(*grids[first : first + ACROSS], strict=True):
                show(" │ ".join(f"{part[:width]:<{width}}" for part in line).rstrip())
            print()
