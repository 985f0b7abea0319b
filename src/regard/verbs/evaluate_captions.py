"""The figures of `regard evaluate` for captioners."""

import math
import time
from dataclasses import asdict, dataclass
from typing import Any

from regard.models.given import Images
from regard.probabilities.captioning import Pointing, caption_texts, play_pointing, quality
from regard.probabilities.measures import token_losses
from regard.runs.captioned import given_images, own_captions
from regard.runs.run import Run
from regard.tables import Table, TableRows
from regard.text.captions import Captioned, read
from regard.tokens.captions import encode_captions, load_images
from regard.verbs.arguments import File


@dataclass(frozen=True)
class CaptionMeasure(Table):
    """The figures of a captioner on images."""

    bleu: float
    exact: float  # share of captions that equal a caption of their image, word for word
    loss: float
    perplexity: float
    images: int
    captions: int
    tokens: int
    unknown_tokens: int
    seconds: float
    pointing: Pointing | None  # None without boxes, or without attention

    def to_json(self) -> dict[str, Any]:
        """Return the figures; those of the pointing game stand under names that begin with pointing."""
        data = asdict(self)
        found = data.pop("pointing")
        if found is None:
            return data
        by_kind = {f"pointing_{kind or 'other'}": share for kind, share in found["by_kind"].items()}
        names = {"share": "pointing", "mass": "pointing_mass", "chance": "pointing_chance"}
        return (
            data
            | {name: found[key] for key, name in names.items()}
            | by_kind
            | {"pointing_words": found["words"]}
        )

    def rows(self) -> TableRows:
        """One row with every figure."""
        return [self.to_json()]


def evaluate_captions(
    run: Run, *, images: File, captions: File, boxes: File, features: File, beam: int | None
) -> CaptionMeasure:
    """Measure a captioner on these images, or on those that were held out in its training."""
    given, captioned = given_images(run), read(images, captions, features, boxes)
    return _measured(run, captioned, given, 5 if beam is None else beam)


def _measured(run: Run, captioned: Captioned | None, given: Images, beam: int) -> CaptionMeasure:
    if captioned is None:
        captioned, images = own_captions(run)
    else:
        images = load_images(captioned, given.size)
    encoded = encode_captions(captioned, images, run.tokenizer)
    began = time.perf_counter()
    texts = caption_texts(run.language_model, run.tokenizer, images, beam)
    seconds = time.perf_counter() - began
    loss = float(token_losses(run.language_model, encoded).mean())
    return CaptionMeasure(
        **quality(texts, captioned),
        loss=loss,
        perplexity=math.exp(loss),
        images=len(images),
        captions=len(captioned),
        tokens=len(encoded.target),
        unknown_tokens=encoded.target.unknown,
        seconds=seconds,
        pointing=play_pointing(run.language_model, run.tokenizer, encoded, captioned),
    )
