"""Training on captions: the words of a caption are predicted, given the image.

Shape legend: B rows, T positions, P captions.
"""

from typing import Any, final

from regard.errors import UserError
from regard.machine.device import Machine
from regard.models.building import build_model
from regard.models.contract import LanguageModel
from regard.probabilities.captioning import caption_texts, play_pointing, quality
from regard.probabilities.measures import token_losses
from regard.text import captions
from regard.text.captions import Captioned
from regard.tokens.captions import (
    CaptionSchedule,
    EncodedCaptions,
    encode_captions,
    load_images,
    record_of,
    size_of,
)
from regard.tokens.choose import train_tokenizer
from regard.tokens.contract import Encoded
from regard.training.options import CaptionOptions, Options, TrainingOptions
from regard.training.task import Batches, Step, TextTask
from regard.training.tasks.given_batches import GivenBatches

SAMPLES = 3  # the number of images in a sample


@final
class CaptionedImages(TextTask[LanguageModel]):
    """Training, validation and test images with their captions."""

    def __init__(self, options: Options):
        self._options: CaptionOptions = options.data
        parts = _parts(self._options)
        train = parts["train"]
        self.tokenizer, _ = train_tokenizer(["\n".join(train.captions)], options.tokens)
        self.size = size_of(train, self._options.side)
        self._parts: dict[str, tuple[Captioned, EncodedCaptions]] = {}
        for name, part in parts.items():
            encoded = encode_captions(part, load_images(part, self.size), self.tokenizer)
            self._parts[name] = (part, encoded)
        self.notes = []
        if options.family.bounded:
            for part, encoded in self._parts.values():
                _check_lengths(part, encoded, options.model.context)

    def texts(self) -> dict[str, list[dict[str, Any]]]:
        held_out = self._options.valid_captions is None and bool(self._parts["train"][0].files)
        records = {name: [record_of(part, encoded.images)] for name, (part, encoded) in self._parts.items()}
        records["valid"] = [record | {"held_out": held_out} for record in records["valid"]]
        return {"test": []} | records

    def make(self, family: type[LanguageModel], config: Any) -> LanguageModel:
        return build_model(family, self.tokenizer.size, config, self.size)

    def encoded(self) -> Encoded:
        return self._parts["train"][1].target

    def batches(self, model: LanguageModel, options: TrainingOptions, seed: int, machine: Machine) -> Batches:
        schedule = CaptionSchedule(self._parts["train"][1], machine.ranks.rows(options.batch), seed)
        return GivenBatches.of(schedule, model, machine)

    def objective(self, model: LanguageModel, options: TrainingOptions) -> Step:
        return Step(model, options.label_smoothing)

    def validate(self, model: LanguageModel) -> float:
        return float(token_losses(model, self._parts["valid"][1]).mean())

    def loss(self, model: LanguageModel) -> float:
        return self.validate(model)

    def report(self, model: LanguageModel) -> dict[str, float]:
        """Return the figures of the test images, or of the validation images."""
        captioned, encoded = self._parts.get("test", self._parts["valid"])
        figures = quality(caption_texts(model, self.tokenizer, encoded.images), captioned)
        pointing = play_pointing(model, self.tokenizer, encoded, captioned)
        return figures if pointing is None else {**figures, "pointing": pointing.share}

    def sample(self, model: LanguageModel) -> str:
        captioned, encoded = self._parts["valid"]
        some = captioned.part(range(min(SAMPLES, len(captioned.names))))
        texts = caption_texts(model, self.tokenizer, encoded.images.part(len(some.names)), beam=1)
        return "\n".join(
            f"{right[0]}\n  {text}" for right, text in zip(some.references(), texts, strict=True)
        )


def _check_lengths(captioned: Captioned, encoded: EncodedCaptions, context: int) -> None:
    longest = int(encoded.target.lengths_D.argmax())
    tokens = int(encoded.target.lengths_D[longest])
    if tokens > context:
        raise UserError(
            f"{captioned.name}: a caption has {tokens} tokens, its end counted, more than the `context` of "
            f"{context}: {captioned.captions[longest][:40]!r}"
        )


def _parts(options: CaptionOptions) -> dict[str, Captioned]:
    """Read the parts of the text. Without validation captions, a tenth of the images is held out."""
    whole = captions.read(options.images, options.captions, options.features, options.boxes)
    if whole is None:
        return {
            "train": captions.built_in("train", options.scenes),
            "valid": captions.built_in("valid", captions.VALID),
            "test": captions.built_in("test", captions.TEST),
        }
    if options.valid_captions is None:
        train, valid = captions.hold_out(whole)
    else:
        found = captions.read(options.images, options.valid_captions, options.features)
        assert found is not None
        train, valid = whole, found
    return {"train": train, "valid": valid}
