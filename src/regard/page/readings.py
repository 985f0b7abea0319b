"""One model of the lab: its readings of texts, with and without edits.

Every number comes from the same functions as `regard look`: observe, edited, by_words. The last readings are
kept, so that the parts of a map are asked for one by one.

Shape legend: H heads, Q rows, K columns, V vocabulary.
"""

import copy
import dataclasses
import json
from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterator, Sequence
from pathlib import Path
from typing import Any, TypeVar, final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.by_words import by_words
from regard.inside.caption_reading import caption_reading
from regard.inside.edit_model import edited
from regard.inside.image_pictures import png_uri
from regard.inside.observe import Reading, Wanted, distribution, observe, plain_reading
from regard.inside.observe_labels import observe_labels
from regard.inside.record import Map, Record, ShownImage
from regard.inside.source_reading import translation_reading
from regard.inside.training_film import load_frame
from regard.models.model import Model
from regard.page import messages, protocol
from regard.page.scenes import chosen_image, scenes
from regard.page.tiles import as_bytes, band, coarse
from regard.page.training import trained
from regard.probabilities.decoder import Writing, generate
from regard.probabilities.sampling import Sampling
from regard.runs.captioned import given_images
from regard.runs.formats import load
from regard.runs.labelled import require_labeller
from regard.runs.run import Run
from regard.tokens.word_groups import word_groups
from regard.training.film import frames

KEPT = 6  # records and edited models that are remembered
BANDS = 24  # bands of rows of maps that are remembered
TERMS = 12  # the largest terms of a prediction
REGIONS = "regions"  # the site of the regions of an image
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
        self._bands, self._chances, self._steps = Recent(BANDS), Recent(), Recent()

    def model_under(self, question: protocol.ReadQuestion, with_edits: bool = True) -> Run:
        """Return the run at the step of the question, with or without its edits."""
        run = (
            self.run
            if question.step is None
            else self._steps.get(question.step, lambda: self._at(question.step))
        )
        if not question.edits or not with_edits:
            return run
        text = json.dumps(question.edits)
        return self._edited.get((question.step, text), lambda: edited(run, text))

    def _at(self, step: int | None) -> Run:
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
                image = chosen_image(given_images(changed), question.scene)
                return caption_reading(changed, image, "" if own else question.target or "")
            return translation_reading(changed, question.text, None if own else question.target)

        edits = json.dumps(question.edits) if self.run.language_model.given is not None else ""
        return self._inputs.get((question.text, question.target, question.scene, question.step, edits), make)

    def record(self, question: protocol.ReadQuestion, with_edits: bool = True) -> Record:
        """Return the record of a text, with or without the edits of the question."""
        edits = question.edits if with_edits else ()

        def make() -> Record:
            if self._joined(question):
                return by_words(self.record(dataclasses.replace(question, words=False), with_edits))
            run = self.model_under(question, with_edits)
            wanted = Wanted(_sites(run.model), top=question.top)
            if run.model.label_count is not None:
                names = run.config.labels
                every = dataclasses.replace(wanted, top=len(names))
                return observe_labels(require_labeller(run), run.tokenizer, names, question.text, every)
            return observe(run.language_model, run.tokenizer, self.reading(question), wanted)

        if with_edits or self.run.model.source_size is None:
            return self._records.get((True, _key(dataclasses.replace(question, edits=edits))), make)
        # a model with a source may read words that it wrote under the edits
        return self._records.get((False, _key(question)), make)

    def _joined(self, question: protocol.ReadQuestion) -> bool:
        subwords = self.run.tokenizer.kind != "word"
        return question.words and subwords and self.run.model.reads != "captions"

    def read(self, question: protocol.ReadQuestion) -> protocol.Read:
        record = self.record(question)
        before = self.record(question, with_edits=False) if question.edits else None
        run, axes = self.run, list[list[str]]()
        joined = self.record(dataclasses.replace(question, words=False)) if self._joined(question) else None
        causal = run.model.label_count is None
        sites = [_site(site_map, axes, causal) for site_map in record.maps.values()]
        return protocol.Read(
            tokens=record.tokens,
            word=_word_numbers(record.tokens, "word" if question.words else run.tokenizer.kind),
            spans=None if joined is None else _spans(joined.tokens),
            given_spans=None if joined is None or joined.given is None else _spans(joined.given),
            surprisal=_short(record.surprisal),
            ranks=record.ranks,
            likeliest=[[(token, _digits(p)) for token, p in place] for place in record.likeliest],
            given=record.given,
            before=None if before is None else _short(before.surprisal),
            # the first note of a labelled text tells the labels, which have an answer of their own
            notes=record.notes if record.labels is None else record.notes[1:],
            kind=run.tokenizer.kind,
            vocabulary=run.tokenizer.size,
            axes=axes,
            sites=sites,
            terms=[_terms(record, place - 1) for place in range(len(record.tokens))],
            terms_of=None if record.parts is None else record.parts.of,
            labels=_labels(run.config.labels, record, before or record),
            image=picture_of(record.image),
        )

    def scenes(self, question: protocol.ScenesQuestion) -> protocol.Scenes:
        """Return the scenes to choose from."""
        pictures, captions = scenes()
        given_images(self.run)  # refuses a run that sees no image
        return protocol.Scenes(
            [
                protocol.Scene(number, png_uri(pixels), caption)
                for number, (pixels, caption) in enumerate(zip(pictures, captions, strict=True))
            ]
        )

    def rows(self, question: protocol.RowsQuestion) -> protocol.Rows:
        part_HQK = self.record(question.of).map(question.site).tile(list(question.rows))
        return protocol.Rows([[[_digits(n) for n in row] for row in head] for head in part_HQK.tolist()])

    def tile(self, question: protocol.TileQuestion) -> bytes:
        """Return a byte for each block of cells, row by row; cells past the end of the map are 0."""
        site_map, block = self.record(question.of).map(question.site), question.block
        first, shift = divmod(question.column - site_map.first, block)
        # All tiles of a band of rows are cut from the same numbers: the rows are computed once.
        key = (_key(question.of), question.site, question.head, question.row, question.rows, block, shift)
        band_QK = self._bands.get(key, lambda: band(site_map, question, shift))
        part_QK = band_QK[:, first : first + -(-question.columns // block)]
        missing = -(-question.columns // block) - part_QK.shape[1]
        below = -(-question.rows // block) - part_QK.shape[0]
        return as_bytes(torch.nn.functional.pad(part_QK, (0, missing, 0, below)), site_map, question.gain)

    def mosaic(self, question: protocol.MosaicQuestion) -> bytes:
        """Return (sites, heads, size, size) bytes. Rows and columns are pooled, the largest is kept."""
        parts, record = list[bytes](), self.record(question.of)
        for site in question.sites:
            site_map = record.map(site)
            for head_QK in coarse(site_map, question.size):
                parts.append(as_bytes(head_QK, site_map, question.gain))
        return b"".join(parts)

    def next(self, question: protocol.NextQuestion) -> protocol.Next:
        reading, of = self.reading(question.of), question.of

        def probabilities(with_edits: bool) -> Tensor:
            model = self.model_under(of, with_edits).language_model
            edits = json.dumps(of.edits if with_edits else ())
            key = (reading.ids, reading.given_names, of.scene, of.step, edits, question.place)
            return self._chances.get(str(key), lambda: distribution(model, reading, question.place).exp())

        before_V, after_V = probabilities(False), probabilities(True)
        largest = torch.maximum(before_V, after_V).topk(min(question.top, len(before_V)))

        def chance(token: int) -> protocol.Chance:
            name = self.run.tokenizer.name(token)
            return protocol.Chance(token, name, float(before_V[token]), float(after_V[token]))

        true = reading.ids[question.place + 1] if question.place + 1 < len(reading.ids) else None
        known = true is not None and true < len(before_V)

        def rank(p_V: Tensor) -> int | None:
            return int((p_V > p_V[true]).sum()) + 1 if known else None

        return protocol.Next(
            chances=sorted(map(chance, largest.indices.tolist()), key=lambda one: -one.after),
            true=chance(int(true)) if known and true is not None else None,
            true_rank_before=rank(before_V),
            true_rank_after=rank(after_V),
            moved=float((after_V - before_V).abs().sum() / 2),
        )

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
                probability=_digits(float(written.log_prob_B[0].exp())),
                likeliest=[(number, tokenizer.name(number), _digits(p)) for number, p in best],
                ended=token == tokenizer.stop,
            )


def _sites(model: Model) -> list[str]:
    """Return the sites that the lab shows: those with weights, and those that carry memory."""
    return [name for name, site in model.sites().items() if site.holds == "weights" or site.remembers]


def _site(site_map: Map, axes: list[list[str]], causal: bool) -> protocol.SiteInfo:
    def axis(names: tuple[str, ...]) -> int:
        if list(names) not in axes:
            axes.append(list(names))
        return axes.index(list(names))

    site = site_map.site
    whole = site_map.more is not None and len(site_map.rows) == 1
    # A long text has only its last row computed; the other rows are computed when they are looked at.
    square = whole and site.rows == site.columns
    return protocol.SiteInfo(
        name=site.name,
        holds="weights" if site_map.weighs else "values",
        heads=list(site_map.heads),
        rows=axis(site_map.column_names[: site_map.rows[-1] + 1] if square else site_map.row_names),
        columns=axis(site_map.column_names) if site_map.weighs else -site_map.numbers.shape[2],
        row_side=site.rows,
        column_side=site.columns,
        causal=causal and site_map.weighs and site.rows == site.columns == "read",
        first=site_map.first if square else site_map.rows[0],
        first_column=site_map.first,
        ahead=site_map.ahead,
        extra=site.extra is not None and site.columns == "read",
        most=1.0 if site_map.weighs else _digits(float(site_map.numbers.abs().max())),
    )


def _labels(names: Sequence[str], record: Record, before: Record) -> protocol.Next | None:
    """Return the distribution of all labels, before and after the edits."""
    if record.labels is None or before.labels is None:
        return None
    after, was = dict(record.labels), dict(before.labels)
    chances = [protocol.Chance(names.index(name), name, was[name], share) for name, share in record.labels]
    moved = sum(abs(after[name] - was[name]) for name in names) / 2
    return protocol.Next(chances, None, None, None, moved)


def picture_of(image: ShownImage | None) -> protocol.Picture | None:
    if image is None:
        return None
    height, width, _ = image.pixels.shape
    return protocol.Picture(png_uri(image.pixels), width, height, image.columns, list(image.boxes), REGIONS)


def _word_numbers(tokens: list[str], kind: str) -> list[int]:
    numbers = [0] * len(tokens)
    for number, group in enumerate(word_groups(tokens, kind)):
        for place in group:
            numbers[place] = number
    return numbers


def _spans(tokens: Sequence[str]) -> list[tuple[int, int]]:
    return [(group.start, group.stop) for group in word_groups(tokens)]


def _terms(record: Record, place: int) -> list[tuple[str, float]]:
    terms = sorted(record.terms(place), key=lambda term: -abs(term[1]))
    rest = sum(value for _, value in terms[TERMS:])
    short = [(name, _digits(value)) for name, value in terms[:TERMS]]
    return [*short, (f"{len(terms) - TERMS} smaller", _digits(rest))] if len(terms) > TERMS else short


def _key(question: protocol.ReadQuestion) -> Hashable:
    edits = json.dumps(question.edits)
    of = (question.text, question.target, question.scene, question.step)
    return *of, question.words, question.top, edits


def _short(numbers: list[float | None]) -> list[float | None]:
    return [None if number is None else _digits(number) for number in numbers]


def _digits(number: float) -> float:
    return float(f"{number:.6g}")
