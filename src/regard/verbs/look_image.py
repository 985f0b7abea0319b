"""Looking at a captioner: the reading of an image file and a caption, and its weights as text."""

from pathlib import Path

from regard.errors import UserError
from regard.inside.caption_reading import caption_reading
from regard.inside.image_pictures import region_maps
from regard.inside.observe import Reading
from regard.inside.record import Record
from regard.runs.captioned import given_images, read_images
from regard.runs.run import Run
from regard.verbs.printing import show, show_token

SHADES = " ░▒▓█"
ACROSS = 5  # grids beside each other


def image_reading(run: Run, image: str | Path | None, text: str) -> Reading:
    """Return the reading of an image file and a caption. Without a text, the run's own caption."""
    given_images(run)  # refuses a run that does not caption images
    if image is None:
        raise UserError("name the image to look at with `image` FILE")
    found = read_images(run, [image])
    if len(found.names) > 1:
        raise UserError(f"{image}: holds {len(found.names)} arrays; name one, such as {found.names[0]}")
    return caption_reading(run, found, text)


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
