"""Long measurements of the lab, by the functions of `regard doubt`, `heads` and `forget`.

Each is an iterator: a stage before each part of the work, so that the page shows what is done and other
questions are answered in between, and at last the result.
"""

from collections.abc import Generator, Iterator
from typing import TypeVar, final

from regard.inside import doubt, forgetting
from regard.inside.attention_rows import weight_sites
from regard.inside.attribution import RANDOM
from regard.inside.doubted_run import changes_of, doubted_blank, doubted_label, doubted_prediction
from regard.inside.head_scores import KINDS, HeadReport, head_report
from regard.inside.least_change import LeastChange
from regard.inside.moved_attention import attention_rows
from regard.inside.observe import Reading
from regard.inside.sense_table import contributions, require_senses, senses_of
from regard.inside.stages import Stage
from regard.inside.subject import Subject
from regard.page import messages, protocol
from regard.page.answers import picture_of
from regard.page.readings import Readings
from regard.runs.run import Run

T = TypeVar("T")


@final
class Opened:
    """A run with its readings and its measurements. Only one thread may use it."""

    def __init__(self, run: Run):
        self.readings = Readings(run)
        self.measures = Measures(self.readings)


@final
class Measures:
    """The measurements of one run. Those that no text changes are kept."""

    def __init__(self, readings: Readings):
        self._readings = readings
        self._heads: messages.Heads | None = None
        self._forgotten: messages.Forgotten | None = None

    def doubt(self, question: messages.DoubtQuestion) -> Iterator[messages.Stage | messages.Doubted]:
        _, reading, subject = self._prediction(question.of, question.place, question.word)
        found = yield from _told(doubt.doubt_stages(subject, question.epsilon))
        yield _doubted(found, reading)

    def say(self, question: messages.SayQuestion) -> Iterator[messages.Stage | messages.Said]:
        run, reading, subject = self._prediction(question.of, question.place, None)
        names = list(attention_rows(subject))
        names += ["all of them at once"] if len(names) > 1 else []
        found = list[LeastChange]()
        searched = changes_of(run, subject, reading, question.say)
        for name in names:
            yield messages.Stage(f"changes of {name} are searched", len(found) / len(names))
            found.append(next(searched))
        yield messages.Said(question.say, list(map(_least_change, found)))

    def heads(self, question: messages.HeadsQuestion) -> Iterator[messages.Stage | messages.Heads]:
        if self._heads is None:
            weight_sites(self._readings.run.language_model, "whose heads could be measured")
            yield messages.Stage("the heads read random sequences and text", None)
            self._heads = _heads(head_report(self._readings.run))
        yield self._heads

    def forget(self, question: messages.ForgetQuestion) -> Iterator[messages.Stage | messages.Forgotten]:
        if self._forgotten is None:
            run = self._readings.run
            stages = forgetting.forgetting_stages(run, str(run), *forgetting.own_sources(run))
            self._forgotten = _forgotten((yield from _told(stages)))
        yield self._forgotten

    def senses(self, question: messages.SensesQuestion) -> messages.Senses:
        run = self._readings.model_under(question.of)
        require_senses(run.language_model)
        ((own,), _) = senses_of(run, [question.word], question.top)
        found = contributions(run, question.of.text, None)
        place = min(question.place, len(found.tokens) - 1)
        return messages.Senses(
            [messages.Sense(one.number, one.says, one.alike) for one in own],
            found.tokens,
            found.next[place],
            found.probabilities[place],
            found.values_TLT[place].tolist(),
            found.bias[place],
        )

    def _prediction(
        self, of: protocol.ReadQuestion, place: int, word: str | None
    ) -> tuple[Run, Reading, Subject]:
        """Return the run under the edits, what it reads, and the prediction that is doubted."""
        run = self._readings.model_under(of)
        if run.model.label_count is not None:
            return run, *doubted_label(run, of.text, word)
        if run.model.reads == "blanks":
            return run, *doubted_blank(run, of.text, word, place)
        reading = self._readings.reading(of)
        return run, reading, doubted_prediction(run, reading, word, place)


def _told(stages: Generator[Stage, None, T]) -> Generator[messages.Stage, None, T]:
    """Tell each stage to the page, and return the result."""
    while True:
        try:
            stage = next(stages)
        except StopIteration as end:
            return end.value
        yield messages.Stage(stage.about, stage.done)


def _doubted(found: doubt.Doubt, reading: Reading) -> messages.Doubted:
    judged = {one.method: one for one in found.judgements}
    scores = {one.method: one.scores for one in found.attributions} | {RANDOM: []}
    return messages.Doubted(
        words=found.words,
        target=found.target,
        probability=found.probability,
        epsilon=found.epsilon,
        moved=[
            messages.MovedWeights(
                one.name,
                one.divergence,
                one.most,
                one.variation,
                one.entropy,
                one.permuted_divergence,
                one.permuted_variation,
                one.uniform_divergence,
                one.uniform_variation,
            )
            for one in found.moved
        ],
        own=found.attributions[0].scores,
        farthest=found.moved_words,
        methods=[
            messages.Method(name, own, judged[name].comprehensiveness, judged[name].sufficiency)
            for name, own in scores.items()
        ],
        disagreements=found.disagreements,
        image=picture_of(reading.image),
    )


def _least_change(found: LeastChange) -> messages.LeastChange:
    moves = [
        messages.LeastMove(move.site, None if move.heads is None else move.heads[0], source, to, move.share)
        for move, (source, to) in zip(found.edits, found.words, strict=True)
    ]
    edits = found.to_json()["edits"]
    return messages.LeastChange(found.name, found.moved, found.before, found.probability, moves, edits)


def _heads(report: HeadReport) -> messages.Heads:
    """Return the report with the number of each head in its site."""
    numbers = dict[str, int]()
    heads = list[messages.HeadInfo]()
    for head in report.heads:
        number = numbers[head.site] = numbers.get(head.site, -1) + 1
        scores = [messages.HeadScore(kind, one.value, one.chance) for kind, one in head.scores.items()]
        heads.append(messages.HeadInfo(head.site, number, head.label, head.entropy, scores))
    return messages.Heads(heads, dict(KINDS), report.notes)


def _forgotten(found: forgetting.Forgetting) -> messages.Forgotten:
    return messages.Forgotten(
        loss=found.loss,
        words=found.words,
        reach=list(found.reach.items()),
        rises=[messages.Rise(one.change, one.beyond, one.rise, one.error) for one in found.rises],
        holds={name: list(curve.items()) for name, curve in found.holds.items()},
        notes=found.notes,
    )
