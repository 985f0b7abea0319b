"""The images of a run that captions them: its own held-out images, and those that a user names."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from PIL import Image

from regard.errors import UserError
from regard.models.given import Images, as_images
from regard.runs.run import Run
from regard.text import captions
from regard.text.captions import Captioned, read_features
from regard.text.images import fit, open_image
from regard.tokens.captions import Features, ImageRows, Pixels, load_images, pad_features, record_of

LARGEST = 512  # pixels on the longer side of a picture of an image


@dataclass(frozen=True)
class NamedImages:
    """Images that a user names."""

    names: list[str]
    rows: ImageRows
    # The picture of each image, with more pixels than the model sees; none for given features.
    pictures: list[np.ndarray]

    def every(self) -> torch.Tensor:
        """Return the numbers of all images."""
        return torch.arange(len(self.names))


def require_captioner(run: Run) -> Run:
    """Return the run, if its state begins with an image."""
    if run.model.reads != "captions":
        raise UserError(f"{run.model.family} does not caption images; train a captioner")
    return run


def given_images(run: Run) -> Images:
    """Return what the states of the run begin with."""
    return as_images(require_captioner(run).language_model.given)


def own_captions(run: Run) -> tuple[Captioned, ImageRows]:
    """Return the test images of a run's training, or the validation images, read again."""
    given, texts = given_images(run), run.config.texts
    part, record = ("test", texts.test[0]) if texts.test else ("valid", texts.valid[0])
    if record.files:
        found = captions.reread(record.paths(run.folder))
        found = captions.hold_out(found)[1] if record.held_out else found
    else:
        found = captions.built_in(part, record.pairs or captions.TEST)
    images = load_images(found, given.size)
    if record_of(found, images)["sha256"] != record.sha256:
        raise UserError(
            f"{record.name}: has changed since the run was trained; name the images with `images` and "
            "`captions`"
        )
    return found, images


def own_files(run: Run, most: int) -> list[tuple[str, str]]:
    """Return some files of a run's test or validation images, each with a caption; none of drawn scenes."""
    texts = run.config.texts
    record = next(iter((*texts.test, *texts.valid)), None)
    if record is None or not record.files:
        return []
    found = captions.reread(record.paths(run.folder))
    found = captions.hold_out(found)[1] if record.held_out else found
    return [(name, said[0]) for name, said in zip(found.names[:most], found.references(), strict=False)]


def read_images(run: Run, paths: Sequence[str | Path]) -> NamedImages:
    """Read image files; for a run on given features, .npz files or arrays of such files (FILE.npz:NAME)."""
    given = given_images(run)
    if not paths:
        raise UserError("name an image: regard caption RUN IMAGE...")
    if given.grid is None:
        arrays = dict(item for path in paths for item in _arrays(str(path)).items())
        return NamedImages([*arrays], Features(pad_features([*arrays.values()], given.size)), [])
    return fit_images(given, [str(path) for path in paths], map(open_image, paths))


def fit_images(given: Images, names: list[str], images: Iterable[Image.Image]) -> NamedImages:
    """Fit images into the frame of a model that reads pixels."""
    _, height, width = given.size
    fitted, pictures = [], list[np.ndarray]()
    for image in images:
        fitted.append(fit(image, height, width))
        scale = max(1, LARGEST // max(height, width))
        filled = fitted[-1].filled
        shown = np.asarray(image.resize((filled[1] * scale, filled[0] * scale)))
        pictures.append(shown)
    return NamedImages(names, Pixels.of(fitted), pictures)


def _arrays(path: str) -> dict[str, np.ndarray]:
    file, _, name = path.partition(".npz:")
    if not name:
        return {f"{path}:{name}": array for name, array in read_features(path).items()}
    features = read_features(f"{file}.npz")
    if name not in features:
        raise UserError(f"{file}.npz: has no array {name}; there are: {', '.join([*features][:20])}")
    return {path: features[name]}
