"""One model of the lab: its readings of texts, with and without edits.

Every number comes from the same functions as `regard look`: observe, edited, by_words. The last readings are
kept, so that the parts of a map are asked for one by one.

Shape legend: H heads, Q rows, K columns, V vocabulary.
"""

import copy
import dataclasses
import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from typing import Any, TypeVar, final

from torch import Tensor

from regard.errors import UserError
from regard.inside.by_words import by_words
from regard.inside.caption_reading import caption_reading
from regard.inside.edit_model import edited
from regard.inside.observe import Reading, Wanted, distribution, observe, plain_reading
from regard.inside.observe_blanks import blank_distribution, observe_blanks
from regard.inside.observe_labels import observe_labels
from regard.inside.record import Record
from regard.inside.source_reading import translation_reading
from regard.inside.training_film import load_frame
from regard.models.model import Model
from regard.page import messages, protocol
from regard.page.answers import compared, digits, next_of, read_of
from regard.page.cells import band, small_maps, tile
from regard.page.recorded import RecordedModel
from regard.page.recording import recorded
from regard.page.scenes import Gallery, decoded
from regard.page.training import trained
from regard.probabilities.decoder import Writing, generate
from regard.probabilities.sampling import Sampling
from regard.runs.captioned import given_images
from regard.runs.labelled import require_labeller
from regard.runs.run import Run
from regard.training.film import frames

KEPT = 6  # records and edited models that are remembered
BANDS = 24  # bands of rows of maps that are remembered
T = TypeVar("T")


@final
class Recent:
    """A dictionary of the values that were used last."""

    def __init__(self, size: int = KEPT):
        self._size, self._values = size, OrderedDict[Hashable, Any]()

    def get(self, key: Hashable, make: Callable[[], T]) -> T:
        if key not in self._values:
            self._values[key] = make()
        self._values.move_to_end(key)
        while len(self._values) > self._size:
            self._values.popitem(last=False)
        return self._values[key]


@final
class Readings:
    """A run, opened, and what was read with it. Only one thread may use it."""

    def __init__(self, run: Run):
        self.run, self.gallery = run, Gallery(run)
        self._edited, self._records, self._inputs = Recent(), Recent(), Recent(2 * KEPT)
        self._bands, self._chances, self._steps = Recent(BANDS), Recent(), Recent()

    def model_under(self, question: protocol.ReadQuestion, with_edits: bool = True) -> Run:
        """Return the run at the step of the question, with or without its edits."""
        step = question.step
        run = self.run if step is None else self._steps.get(step, lambda: self._at(step))
        if not question.edits or not with_edits:
            return run
        text = json.dumps(question.edits)
        return self._edited.get((step, text), lambda: edited(run, text))

    def _at(self, step: int) -> Run:
        """Return the run with the weights of a kept step of its training."""
        kept = {} if self.run.folder is None else dict(frames(self.run.folder))
        if step not in kept:
            raise UserError(f"the training kept no weights of step {step}: reload the page")
        model = copy.deepcopy(self.run.model)
        load_frame(model, kept[step])
        return dataclasses.replace(self.run, model=model.eval())

    def reading(self, question: protocol.ReadQuestion) -> Reading:
        """Return the input. Without a target, a model with a source reads its own words under the edits."""

        def make() -> Reading:
            if self.run.language_model.given is None:
                return plain_reading(self.run.tokenizer, question.text)
            own = question.target is None or not question.target.strip()
            changed = self.model_under(question, with_edits=own)
            if self.run.model.reads == "captions":
                image = self.gallery.chosen(changed, question.scene)
                return caption_reading(changed, image, "" if own else question.target or "")
            return translation_reading(changed, question.text, None if own else question.target)

        edits = json.dumps(question.edits) if self.run.language_model.given is not None else ""
        return self._inputs.get((question.text, question.target, question.scene, question.step, edits), make)

    def record(self, question: protocol.ReadQuestion, with_edits: bool = True) -> Record:
        """Return the record of a text, with or without the edits of the question."""

        def make() -> Record:
            run = self.model_under(question, with_edits)
            wanted = Wanted(_sites(run.model), top=question.top)
            if run.model.reads == "blanks":
                record = observe_blanks(run, question.text, wanted)
            elif run.model.label_count is None:
                record = observe(run.language_model, run.tokenizer, self.reading(question), wanted)
            else:
                names = run.config.labels
                every = dataclasses.replace(wanted, top=len(names))
                record = observe_labels(require_labeller(run), run.tokenizer, names, question.text, every)
            return by_words(record) if self._joined(question) else record

        if not with_edits and self.run.model.source_size is None:
            return self._records.get((True, _key(dataclasses.replace(question, edits=()))), make)
        # a model with a source may read words that it wrote under the edits, also without them
        return self._records.get((with_edits, _key(question)), make)

    def _joined(self, question: protocol.ReadQuestion) -> bool:
        subwords = self.run.tokenizer.kind != "word"
        return question.words and subwords and self.run.model.reads != "captions"

    def read(self, question: protocol.ReadQuestion) -> protocol.Read:
        record = self.record(question)
        before = self.record(question, with_edits=False) if question.edits else None
        return read_of(record, before, self.run.tokenizer.kind, self.run.tokenizer.size, question.words)

    def recorded(self, info: protocol.RunInfo, question: protocol.ReadQuestion) -> RecordedModel:
        """Return all answers about a text, for a file."""
        before, next = None, list[protocol.Next]()
        if question.edits:
            before = self.record(question, with_edits=False)
            if self.run.model.label_count is None and self.run.model.reads != "blanks":
                plain = self.model_under(question, with_edits=False).language_model
                changed = self.model_under(question).language_model
                next = compared(plain, changed, self.reading(question), self.run.tokenizer, question.top)
        return recorded(
            info, self.record(question), before, next, self.run.tokenizer.size, words=question.words
        )

    def rows(self, question: protocol.RowsQuestion) -> protocol.Rows:
        part_HQK = self.record(question.of).map(question.site).tile(list(question.rows))
        return protocol.Rows([[[digits(n) for n in row] for row in head] for head in part_HQK.tolist()])

    def tile(self, question: protocol.TileQuestion) -> bytes:
        """Return a byte for each block of cells, row by row; cells past the end of the map are 0."""
        site_map = self.record(question.of).map(question.site)
        shift = (question.column - site_map.first) % question.block
        # All tiles of a band of rows are cut from the same numbers: the rows are computed once.
        shape = (question.site, question.head, question.row, question.rows, question.block, shift)
        band_QK = self._bands.get((_key(question.of), shape), lambda: band(site_map, question, shift))
        return tile(band_QK, site_map, question)

    def mosaic(self, question: protocol.MosaicQuestion) -> bytes:
        """Return (sites, heads, size, size) bytes. Rows and columns are pooled, the largest is kept."""
        record = self.record(question.of)
        return b"".join(small_maps(record.map(site), question) for site in question.sites)

    def next(self, question: protocol.NextQuestion) -> protocol.Next:
        if self.run.model.reads == "blanks":
            runs = [self.model_under(question.of, with_edits) for with_edits in (False, True)]
            before_V, after_V = (blank_distribution(run, question.of.text, question.place) for run in runs)
            return next_of(before_V, after_V, self.run.tokenizer.name, None, question.top)
        reading, of = self.reading(question.of), question.of

        def probabilities(with_edits: bool) -> Tensor:
            model = self.model_under(of, with_edits).language_model
            edits = json.dumps(of.edits if with_edits else ())
            key = (reading.ids, reading.given_names, of.scene, of.step, edits, question.place)
            return self._chances.get(str(key), lambda: distribution(model, reading, question.place).exp())

        before_V, after_V = probabilities(False), probabilities(True)
        true = reading.ids[question.place + 1] if question.place + 1 < len(reading.ids) else None
        return next_of(before_V, after_V, self.run.tokenizer.name, true, question.top)

    def scenes(self, question: protocol.ScenesQuestion) -> protocol.Scenes:
        """Return the images to choose from."""
        return self.gallery.offered()

    def add(self, question: protocol.AddQuestion) -> protocol.Scene:
        """Add an image to those to choose from."""
        given_images(self.run)  # refuses a run that sees no image
        return self.gallery.add(question.name, decoded(question))

    def trained(self, question: messages.TrainedQuestion) -> messages.Trained:
        """Return the record of the training."""
        return messages.Trained([], [], []) if self.run.folder is None else trained(self.run.folder)

    def write(self, question: protocol.WriteQuestion) -> Iterator[protocol.Piece]:
        """Yield one token after the other, as `regard generate` writes them."""
        of = protocol.ReadQuestion(question.run, question.prompt, edits=question.edits)
        run, tokenizer = self.model_under(of), self.run.tokenizer
        if run.language_model.given is not None:
            does = run.language_model.does
            raise UserError(f"this run {does} and does not go on from a text: see its Reading and Attention")
        if any(token >= tokenizer.size for token in question.ids):
            raise UserError("this text was written by another model: begin again")
        ids = [tokenizer.start, *tokenizer.prompt(question.prompt)]
        decode = tokenizer.decoder(ids[-1])
        for token in question.ids:
            decode(token)
        sampling = Sampling(temperature=question.temperature, top_k=question.top_k)
        settings = Writing(
            length=question.length,
            end=tokenizer.stop,
            sampling=sampling,
            seed=question.seed,
            likeliest=min(question.top, tokenizer.size),
        )
        state = run.language_model.begin(1)
        for written in generate(run.language_model, state, [[*ids, *question.ids]], settings):
            (token,) = written.tokens
            best = zip(
                written.likeliest_BK[0].tolist(), written.likeliest_log_prob_BK[0].exp().tolist(), strict=True
            )
            yield protocol.Piece(
                id=token,
                token=tokenizer.name(token),
                text=decode(token),
                probability=digits(float(written.log_prob_B[0].exp())),
                likeliest=[(number, tokenizer.name(number), digits(p)) for number, p in best],
                ended=token == tokenizer.stop,
            )


def _sites(model: Model) -> list[str]:
    """Return the sites that the lab shows: those with weights, and those that carry memory."""
    return [name for name, site in model.sites().items() if site.holds == "weights" or site.remembers]


def _key(question: protocol.ReadQuestion) -> Hashable:
    edits = json.dumps(question.edits)
    of = (question.text, question.target, question.scene, question.step)
    return *of, question.words, question.top, edits
