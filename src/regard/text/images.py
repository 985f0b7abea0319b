"""Reads image files, and fits them into the frame of a model.

Shape legend: Y and X pixels.
"""

import io
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import BinaryIO

import numpy as np
from PIL import Image, ImageOps

from regard.errors import UserError
from regard.machine.inputs import open_input

# Pillow reads these formats itself. Others, such as EPS, would start another program.
FORMATS = ("PNG", "JPEG", "GIF", "BMP", "WEBP", "TIFF", "PPM")
MOST_PIXELS = 1 << 26  # a larger image is refused: a small file can describe an image that fills the memory
ORIENTATION = 0x0112  # the EXIF tag
LONGEST = 64  # the default of the longer side of a frame, in pixels


@dataclass(frozen=True)
class Fitted:
    """An image in a frame. It stands in the upper left corner; black pixels fill the rest."""

    pixels: np.ndarray  # (Y, X, 3), bytes
    filled: tuple[int, int]  # the height and the width of the image in the frame


def open_image(path: str | Path) -> Image.Image:
    """Read an image file as RGB. Grey, palette and other modes are converted; transparency becomes white."""
    with _opened(path) as file:
        file.load()
        return _as_rgb(ImageOps.exif_transpose(file))


def read_image(data: bytes, name: str, most: int) -> Image.Image:
    """Read the bytes of an image file of at most `most` pixels as RGB."""
    with _opened(name, io.BytesIO(data), most) as file:
        file.load()
        return _as_rgb(ImageOps.exif_transpose(file))


def image_size(path: str | Path) -> tuple[int, int]:
    """Return the width and the height of an image, as it is shown, without reading its pixels."""
    with _opened(path) as file:
        width, height = file.size
        turned = file.getexif().get(ORIENTATION, 1) >= 5  # a camera held upright stores its image lying
        return (height, width) if turned else (width, height)


@contextmanager
def _opened(path: str | Path, data: BinaryIO | None = None, most: int = MOST_PIXELS) -> Iterator[Image.Image]:
    """Open an image file, or its bytes. Every mistake in the file is a UserError."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of Pillow, on large images and on damaged metadata
            with data or open_input(path) as opened, Image.open(opened, formats=FORMATS) as file:
                width, height = file.size
                if width * height > most:
                    size = f"{width:,} x {height:,} pixels are more than {most:,}"
                    raise UserError(f"{path}: {size}; give a smaller copy of the image")
                yield file
    except FileNotFoundError:
        raise UserError(f"{path}: no such image file") from None
    except Image.DecompressionBombError:
        raise UserError(f"{path}: has too many pixels; give a smaller copy of the image") from None
    except Image.UnidentifiedImageError:
        known = ", ".join(FORMATS)
        raise UserError(f"{path}: is not an image in one of the formats {known}") from None
    except (PermissionError, IsADirectoryError) as error:
        raise UserError(f"{path}: cannot be read ({error.strerror})") from None
    except (OSError, SyntaxError, ValueError, EOFError, LookupError, TypeError, OverflowError) as error:
        reason = " ".join(str(error).split()) or type(error).__name__
        raise UserError(f"{path}: is damaged or cut off ({reason}); make the file again") from None


def _as_rgb(image: Image.Image) -> Image.Image:
    if image.mode.startswith(("I", "F")):  # 16 bits or more: Pillow would cut off at 255
        values = np.asarray(image, np.float64)
        most = 65535.0 if image.mode.startswith("I") and values.max(initial=0) > 255 else 255.0
        image = Image.fromarray((values / most * 255).clip(0, 255).astype(np.uint8))
    if image.has_transparency_data:
        image = image.convert("RGBA")
        white = Image.new("RGBA", image.size, "white")
        image = Image.alpha_composite(white, image)
    return image.convert("RGB")


def frame_of(sizes: Sequence[tuple[int, int]], longest: int) -> tuple[int, int]:
    """Return height and width of the frame for images of these sizes (width, height).

    Every image fits into the frame without being made smaller, unless its longer side is above `longest`.
    """
    width, height = max(size[0] for size in sizes), max(size[1] for size in sizes)
    scale = min(1.0, longest / max(width, height))
    return max(1, round(height * scale)), max(1, round(width * scale))


def fit(image: Image.Image, height: int, width: int) -> Fitted:
    """Scale an image, without changing its shape, until it fills the height or the width of the frame."""
    scale = min(height / image.height, width / image.width)
    size = min(width, max(1, round(image.width * scale))), min(height, max(1, round(image.height * scale)))
    if size != image.size:
        image = image.resize(size, Image.Resampling.BILINEAR, reducing_gap=3.0)
    pixels = np.zeros((height, width, 3), np.uint8)
    pixels[: size[1], : size[0]] = np.asarray(image)
    return Fitted(pixels, (size[1], size[0]))
