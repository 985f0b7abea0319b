"""One model of the lab: its readings of texts, with and without edits.

Every number comes from the same functions as `regard look`: observe, edited, by_words. The last readings are
kept, so that the parts of a map are asked for one by one.

Shape legend: H heads, Q rows, K columns, V vocabulary.
"""

import dataclasses
import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator
from pathlib import Path
from typing import Any, TypeVar, final

from torch import Tensor

from regard.errors import UserError
from regard.inside.by_words import by_words
from regard.inside.edit_model import edited
from regard.inside.observe import Reading, Wanted, distribution, observe, plain_reading
from regard.inside.record import Record
from regard.inside.source_reading import translation_reading
from regard.models.contract import LanguageModel
from regard.page import protocol
from regard.page.answers import digits, next_of, read_of
from regard.page.cells import band, small_maps, tile
from regard.probabilities.decoder import Writing, generate
from regard.probabilities.sampling import Sampling
from regard.runs.formats import load
from regard.runs.run import Run

KEPT = 4  # records and edited models that are remembered
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

    def __init__(self, path: Path):
        self.run = load(path)
        self._edited, self._records, self._inputs = Recent(), Recent(), Recent(2 * KEPT)
        self._bands, self._chances = Recent(BANDS), Recent()

    def model_under(self, edits: tuple[dict[str, Any], ...]) -> Run:
        if not edits:
            return self.run
        text = json.dumps(edits)
        return self._edited.get(text, lambda: edited(self.run, text))

    def _reading(self, question: protocol.ReadQuestion) -> Reading:
        """Return the input. A translator without a target reads its own translation under the edits."""

        def make() -> Reading:
            if self.run.language_model.given is None:
                return plain_reading(self.run.tokenizer, question.text)
            own = question.target is None or not question.target.strip()
            changed = self.model_under(question.edits if own else ())
            return translation_reading(changed, question.text, None if own else question.target)

        edits = json.dumps(question.edits) if self.run.language_model.given is not None else ""
        return self._inputs.get((question.text, question.target, edits), make)

    def record(self, question: protocol.ReadQuestion, with_edits: bool = True) -> Record:
        """Return the record of a text, with or without the edits of the question."""
        edits = question.edits if with_edits else ()
        key = _key(question if with_edits else dataclasses.replace(question, edits=()))

        def make() -> Record:
            reading, run = self._reading(question), self.model_under(edits)
            record = observe(
                run.language_model,
                run.tokenizer,
                reading,
                Wanted(_sites(run.language_model), top=question.top),
            )
            return by_words(record) if self._joined(question) else record

        return self._records.get(key, make)

    def _joined(self, question: protocol.ReadQuestion) -> bool:
        return question.words and self.run.tokenizer.kind != "word"

    def read(self, question: protocol.ReadQuestion) -> protocol.Read:
        record = self.record(question)
        before = self.record(question, with_edits=False) if question.edits else None
        run = self.run
        return read_of(record, before, run.tokenizer.kind, run.tokenizer.size, question.words)

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
        reading, of = self._reading(question.of), question.of

        def probabilities(edits: protocol.Edits) -> Tensor:
            model = self.model_under(edits).language_model
            key = (reading.ids, reading.given_names, json.dumps(edits), question.place)
            return self._chances.get(str(key), lambda: distribution(model, reading, question.place).exp())

        before_V, after_V = probabilities(()), probabilities(of.edits)
        true = reading.ids[question.place + 1] if question.place + 1 < len(reading.ids) else None
        return next_of(before_V, after_V, self.run.tokenizer.name, true, question.top)

    def write(self, question: protocol.WriteQuestion) -> Iterator[protocol.Piece]:
        """Yield one token after the other, as `regard generate` writes them."""
        run, tokenizer = self.model_under(question.edits), self.run.tokenizer
        if run.language_model.given is not None:
            raise UserError("a translator does not go on from a text: read a sentence with it instead")
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


def _sites(model: LanguageModel) -> list[str]:
    """Return the sites that the lab shows: those with weights, and those that carry memory."""
    return [name for name, site in model.sites().items() if site.holds == "weights" or site.remembers]


def _key(question: protocol.ReadQuestion) -> Hashable:
    edits = json.dumps(question.edits)
    return question.text, question.target, question.words, question.top, edits
