"""Training on sentence pairs: the tokens of the target are predicted, given the source sentence.

Shape legend: B rows, S source positions, T target positions, P pairs.
"""

from typing import Any, final

from regard.errors import UserError
from regard.machine.device import Machine
from regard.models.building import build_model
from regard.models.contract import LanguageModel
from regard.probabilities.attention_links import attention_error_rate
from regard.probabilities.measures import token_losses
from regard.probabilities.quality import bleu
from regard.probabilities.translation import translate_lines
from regard.text import parallel
from regard.text.parallel import Parallel
from regard.tokens.choose import train_tokenizer
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.pairs import PairSchedule, encode_pairs
from regard.training.options import Options, PairOptions, TrainingOptions
from regard.training.task import Batches, Step, TextTask
from regard.training.tasks.given_batches import GivenBatches

VALID_SENTENCES = 200  # the number of sentences that a validation translates, with `stop_on` bleu


@final
class SentencePairs(TextTask[LanguageModel]):
    """Training and validation pairs."""

    source_tokenizer: Tokenizer

    def __init__(self, options: Options):
        self._options: PairOptions = options.data
        self.train, self.valid = _pairs(self._options)
        sides = (self.train.sources, self.train.targets)
        if self._options.shared and options.tokens.tokens != "bpe":
            raise UserError("`shared` is for `tokens` bpe, which learns one vocabulary from both sides")
        texts = ["\n".join(side) for side in sides]
        if self._options.shared:
            texts = ["\n".join([*sides[0], *sides[1]])] * 2
        self.source_tokenizer, self.tokenizer = (train_tokenizer([text], options.tokens)[0] for text in texts)
        self._limit = min(
            self._options.longest, options.model.context if options.family.bounded else self._options.longest
        )
        both = (self.source_tokenizer, self.tokenizer, self._limit)
        self._encoded, self.train = encode_pairs(self.train, *both)
        self._valid, self.valid = encode_pairs(self.valid, *both, "validation pair")
        self.notes = self._left_out()

    def _left_out(self) -> list[str]:
        """Return notes on the pairs that were left out."""
        notes, too_long = [], self._encoded.too_long + self._valid.too_long
        if too_long:
            notes.append(f"{too_long:,} pairs have more than {self._limit} tokens on a side and are left out")
        if self.train.empty + self.valid.empty:
            notes.append(
                f"{self.train.empty + self.valid.empty:,} pairs have nothing on one side and are left out"
            )
        return notes

    def texts(self) -> dict[str, list[dict[str, Any]]]:
        held_out = self._options.valid_source is None
        return {
            "train": [self.train.record()],
            "valid": [self.valid.record() | {"held_out": held_out}],
            "test": [],
        }

    def known(self) -> dict[str, Any]:
        return {"longest": self._limit}

    def make(self, family: type[LanguageModel], config: Any) -> LanguageModel:
        return build_model(family, self.tokenizer.size, config, self.source_tokenizer.size)

    def encoded(self) -> Encoded:
        return self._encoded.target

    def batches(self, model: LanguageModel, options: TrainingOptions, seed: int, machine: Machine) -> Batches:
        schedule = PairSchedule(self._encoded, self._options.batch_tokens * machine.ranks.shares, seed)
        return GivenBatches.of(schedule, model, machine)

    def objective(self, model: LanguageModel, options: TrainingOptions) -> Step:
        return Step(model, options.label_smoothing)

    def validate(self, model: LanguageModel) -> float:
        return float(token_losses(model, self._valid).mean())

    def judge(self, model: LanguageModel, valid_loss: float) -> float:
        if self._options.stop_on == "loss":
            return valid_loss
        part = self.valid.part(range(min(VALID_SENTENCES, len(self.valid))))
        return -bleu(self._translate(model, part.sources, beam=1), part.targets).score

    def loss(self, model: LanguageModel) -> float:
        return float(token_losses(model, self._valid).mean())

    def report(self, model: LanguageModel) -> dict[str, float]:
        figures = {"bleu": bleu(self._translate(model, self.valid.sources), self.valid.targets).score}
        aer = attention_error_rate(model, self.source_tokenizer, self.tokenizer, self._valid, self.valid)
        return figures if aer is None else {**figures, "aer": aer}

    def sample(self, model: LanguageModel) -> str:
        sources = self.valid.sources[:3]
        pairs = zip(sources, self._translate(model, sources, beam=1), strict=True)
        return "\n".join(f"{source}\n  {target}" for source, target in pairs)

    def _translate(self, model: LanguageModel, lines: list[str], beam: int = 5) -> list[str]:
        return translate_lines(model, self.source_tokenizer, self.tokenizer, lines, beam)


def _pairs(options: PairOptions) -> tuple[Parallel, Parallel]:
    """Read training and validation pairs. Without validation files, a tenth of the sources is held out."""
    whole = parallel.read_pairs(options.source, options.target, options.pairs) or parallel.built_in()
    if (options.valid_source is None) != (options.valid_target is None):
        raise UserError(
            "`valid_source` and `valid_target` belong together: give a file of sentences and a file of their "
            "translations"
        )
    valid = parallel.read_pairs(options.valid_source, options.valid_target, None)
    return (whole, valid) if valid is not None else parallel.hold_out(whole)
