"""regard caption RUN IMAGE...: caption images, also with a model that was changed."""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any

from regard.boundary import check_ranges
from regard.inside.edit_files import edits_in_words
from regard.inside.edit_model import edited, given_edits
from regard.probabilities.captioning import Caption, caption_images
from regard.probabilities.sampling import Sampling
from regard.probabilities.translation import Search
from regard.ranges import Beam, NotNegative, Seed
from regard.runs.captioned import given_images, read_images
from regard.runs.formats import as_run
from regard.tables import Table, TableRows
from regard.verbs.arguments import Edits, RunLike
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, show

ImageFiles = Annotated[
    str | Path | Sequence[str | Path], Argument(tuple[str, ...], positional=True, metavar="IMAGE")
]


@dataclass(frozen=True)
class Captioned:
    """The captions of one image, the best first."""

    image: str
    captions: list[Caption]
    before: list[Caption] | None = None  # without the edits


@dataclass(frozen=True)
class Captions(Table, Sequence[list[Caption]]):
    """The captions of each image, the best first."""

    images: list[Captioned]
    # Left, top, right and bottom of each region, in pixels of the model's frame; None for given features.
    regions: list[tuple[float, float, float, float]] | None
    edits: str | None = None  # in one line

    def __len__(self) -> int:
        return len(self.images)

    def __getitem__(self, place: Any) -> Any:
        return self.images[place].captions

    def to_json(self) -> dict[str, Any]:
        found = []
        for image in self.images:
            data: dict[str, Any] = {"image": image.image, "captions": [*map(_data, image.captions)]}
            if image.before is not None:
                data["before"] = [*map(_data, image.before)]
            found.append(data)
        edits = {} if self.edits is None else {"edits": self.edits}
        return {"captions": found, "regions": self.regions, **edits}

    def rows(self) -> TableRows:
        """A row for each caption: the image, the caption, its score and its log-probability."""
        return [
            {
                "image": image.image,
                "caption": found.text,
                "score": found.score,
                "log_prob": found.log_prob,
            }
            for image in self.images
            for found in image.captions
        ]


@check_ranges
def caption(
    run: RunLike,
    image: ImageFiles,
    *,
    beam: Beam = 5,
    length_penalty: NotNegative = 1.0,
    count: Beam = 1,
    temperature: NotNegative | None = None,
    seed: Seed = 1,
    edit: Edits = None,
) -> Captions:
    """Caption images with a trained captioner.

    >>> regard.caption("runs/captioner", "scenes/0.png")[0][0].text  # doctest: +SKIP
    'a red circle left of a blue square'

    Args:
        run: A captioner's run folder.
        image: Image files; for a run on given features, .npz files or FILE.npz:NAME.
        beam: The number of hypotheses of the beam search; 1 is greedy search.
        length_penalty: Hypotheses are ranked by log P / length ** penalty. 0 prefers short captions.
        count: The number of captions of each image, the best first.
        temperature: Sample captions at this temperature instead of the search.
        seed: The seed of sampled captions.
        edit: Change the model: a JSON file of edits, or the JSON itself. The captions before and after are
            shown.
    """
    opened = as_run(run)
    given = given_images(opened)
    paths = [image] if isinstance(image, str | Path) else list(image)
    sampling = None if temperature is None else Sampling(temperature=temperature)
    search = Search(beam=beam, penalty=length_penalty, count=count, sampling=sampling, seed=seed)
    edits = None if edit is None else given_edits(opened, edit)
    changed = edited(opened, edits)
    images = read_images(opened, paths)
    best = caption_images(changed.language_model, opened.tokenizer, images.rows, search)
    found = [Captioned(name, own) for name, own in zip(images.names, best, strict=True)]
    if edits is not None:
        before = caption_images(opened.language_model, opened.tokenizer, images.rows, search)
        found = [replace(after, before=own) for after, own in zip(found, before, strict=True)]
    regions = None if given.grid is None else given.grid.boxes()
    return Captions(found, regions, None if edits is None else edits_in_words(edits))


def _data(found: Caption) -> dict[str, Any]:
    return {
        "text": found.text,
        "score": found.score,
        "log_prob": found.log_prob,
        "tokens": found.tokens,
        "attention": {site: weights_HTR.tolist() for site, weights_HTR in found.attention.items()},
    }


def main(arguments: list[str]) -> None:
    call = parse(caption, arguments)
    result = caption(**call.values)
    if call.json:
        print_json(result.to_json())
        return
    for image in result.images:
        name = f"{image.image}: " if len(result) > 1 else ""
        for label, captions in (("before  ", image.before), ("after   ", image.captions)):
            for found in captions or []:
                score = f"{found.score:8.3f}  " if call.values["count"] > 1 else ""
                show(f"{name}{label if image.before is not None else ''}{score}{found.text}")
