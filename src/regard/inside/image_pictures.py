"""Pictures of an image with the weights of each word over it.

The image is darkened where a word gives little weight, so that what the word attends to stays bright. The
region with the highest weight has a frame.

Shape legend: T words, R regions.
"""

import base64
import io
from collections.abc import Mapping, Sequence

import numpy as np
from PIL import Image

from regard.inside.pictures import ACCENT, FONT, svg_of, text_mark, title_mark, title_width
from regard.inside.record import Map, Record, ShownImage

SIDE, GAP, ACROSS = 128, 14, 6  # pixels of a panel's longer side; panels in a row
LONGEST_NAME = 20  # letters under a panel
CRISP = 'shape-rendering="crispEdges"'  # no lines between the regions
VEIL = 0.82  # the opacity over a region without weight


def overlays(record: Record, title: str = "") -> str:
    """Draw the image once for each word of the caption, under the weights of the step that predicts it."""
    assert record.image is not None
    maps = region_maps(record)
    weights_TR = np.mean([head for site_map in maps for head in site_map.numbers.numpy()], 0)
    return _panels(record.image, maps[0].row_names, weights_TR, title)


def panels(image: ShownImage, weights: Mapping[str, np.ndarray], title: str = "") -> str:
    """Draw the image once for each name, under the name's weights of the regions (none below 0)."""
    return _panels(image, list(weights), np.stack([*weights.values()]), title)


def _panels(image: ShownImage, names: Sequence[str], weights_TR: np.ndarray, title: str) -> str:
    height, width, _ = image.pixels.shape
    scale = SIDE / max(height, width)
    wide, high = width * scale, height * scale
    top = 2.2 * FONT if title else 0.5 * FONT
    marks = [f'<defs><image id="whole" width="{wide:.1f}" height="{high:.1f}" {_href(image)}/></defs>']
    marks += [title_mark(title)] if title else []
    for number, (name, weights_R) in enumerate(zip(names, weights_TR, strict=True)):
        x = 8 + number % ACROSS * (SIDE + GAP)
        y = top + number // ACROSS * (high + 2.4 * FONT)
        panel = '<use href="#whole"/>' + _veil(weights_R, image, scale)
        marks.append(f'<g transform="translate({x:.0f} {y:.0f})" {CRISP}>{panel}</g>')
        marks.append(text_mark(x + wide / 2, y + high + FONT, name, "middle", longest=LONGEST_NAME))
    rows = -(-len(names) // ACROSS)
    across = 8 + min(len(names), ACROSS) * (SIDE + GAP)
    return svg_of(max(across, title_width(title)), top + rows * (high + 2.4 * FONT), marks)


def region_maps(record: Record) -> list[Map]:
    """Return the maps that hold weights over the regions."""
    return [site_map for site_map in record.maps.values() if site_map.site.crosses]


def _veil(weights_R: np.ndarray, image: ShownImage, scale: float) -> str:
    most, best = max(float(weights_R.max()), 1e-9), int(weights_R.argmax())
    marks = list[str]()
    for weight, box in zip(weights_R.tolist(), image.boxes, strict=True):
        opacity = VEIL * (1 - weight / most)
        if opacity > 0.005:
            marks.append(
                f'<rect {_place(box, scale)} opacity="{opacity:.2f}"><title>{weight:.3f}</title></rect>'
            )
    frame = f'fill="none" stroke="{ACCENT}" stroke-width="2"'
    return "".join([*marks, f"<rect {_place(image.boxes[best], scale)} {frame}/>"])


def _place(box: Sequence[float], scale: float) -> str:
    left, top, right, bottom = (edge * scale for edge in box)
    size = f'width="{right - left:.1f}" height="{bottom - top:.1f}"'
    return f'x="{left:.1f}" y="{top:.1f}" {size}'


def _href(image: ShownImage) -> str:
    return f'href="{data_uri(image)}" preserveAspectRatio="none"'


def data_uri(image: ShownImage) -> str:
    """Return the image as a PNG in a link."""
    return png_uri(image.pixels)


def png_uri(pixels: np.ndarray) -> str:
    file = io.BytesIO()
    Image.fromarray(pixels).save(file, "PNG", optimize=True)
    return f"data:image/png;base64,{base64.b64encode(file.getvalue()).decode()}"
