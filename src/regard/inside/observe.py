"""A model reads a text, and a record of the watched sites and the predictions is made.

A text longer than the context is read in windows that overlap by half, so that every token is predicted.
The maps show one window.

Shape legend: T positions, V vocabulary, H heads, Q rows that are computed, K columns, D features.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import final

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.record import Map, Record, ShownImage, checked
from regard.models.contract import LanguageModel, Parts, Prediction, State
from regard.models.model import Model
from regard.parts.look import Look, Site
from regard.probabilities.measures import check_log_probs
from regard.tokens.contract import Tokenizer

ALL_ROWS = 512  # for a longer text only the last row is computed, unless rows are named
SLICE = 1 << 24  # the maximal number of probabilities in memory


@dataclass(frozen=True)
class Reading:
    """The input of a watched model."""

    ids: list[int]  # the first is the start token
    tokens: list[str]
    given: Tensor | None = None  # the source sentence (1, S) or the image that the state begins with
    given_names: tuple[str, ...] = ()
    image: ShownImage | None = None
    ended: bool = False  # the last token ends the document: the model predicts it and does not read it
    notes: tuple[str, ...] = ()
    given_pieces: tuple[bytes, ...] = ()  # the bytes of the source's tokens


@dataclass(frozen=True)
class Wanted:
    """The parts of the record that are kept."""

    sites: Sequence[str] = ()  # names or patterns of sites; without them, default_sites()
    rows: Sequence[int] | None = None
    heads: Sequence[int] | None = None
    top: int = 5


def plain_reading(tokenizer: Tokenizer, text: str) -> Reading:
    ids = [tokenizer.start, *tokenizer.prompt(text)]
    if len(ids) == 1:
        raise UserError("there is nothing to look at: give some text")
    unknown = sum(token == tokenizer.unknown for token in ids)
    note = f"{unknown} of the text's {len(ids) - 1} tokens are not in the vocabulary and were read as <unk>"
    return Reading(ids, [tokenizer.name(token) for token in ids], notes=(note,) if unknown else ())


@torch.inference_mode()
def observe(model: LanguageModel, tokenizer: Tokenizer, reading: Reading, wanted: Wanted) -> Record:
    """Read a text and make its record. Watching changes no number; only the wanted rows are computed."""
    sites = model.sites()
    patterns = list(wanted.sites) or default_sites(model)
    look = Look(patterns)
    if wanted.sites:
        look.check(sites)
    ids = reading.ids[:-1] if reading.ended else reading.ids
    first, last = _window(len(ids), model.context, wanted.rows)
    notes = list(reading.notes)
    if (first, last) != (0, len(ids)):
        seen = f"the text has {len(ids)} tokens and the model sees {model.context}"
        notes.append(f"{seen}: maps are of positions {first} to {last - 1}")
    tokens_BT = torch.tensor([ids[first:last]], device=model.device)
    prediction, _ = model(tokens_BT, _begin(model, reading, look), look)
    told = _Told()
    for part, start, stop in _predictions(model, reading, ids, prediction, (first, last)):
        told.add(part, start, stop, reading.ids, tokenizer, wanted.top)
    places = _parts_places(len(reading.ids), wanted.rows, first, last)
    parts = _parts(prediction, reading.ids, places, first, model) if places else None
    return Record(
        tokens=reading.tokens,
        ids=reading.ids,
        surprisal=told.surprisal,
        likeliest=told.likeliest,
        ranks=told.ranks,
        given=list(reading.given_names) or None,
        pieces=tuple(map(tokenizer.piece, reading.ids)),
        given_pieces=reading.given_pieces,
        image=reading.image,
        maps=maps_of(look, sites, reading, wanted, first, last),
        parts=parts,
        parts_at=places,
        parts_first=first,
        notes=notes,
    )


def default_sites(model: Model) -> list[str]:
    """Return the sites that hold weights, or only those over the source if there is a source.

    For a family without weights, return its gates, cells and hidden states instead.
    """
    sites = model.sites()
    weights = [name for name, site in sites.items() if site.holds == "weights"]
    crossing = [name for name in weights if sites[name].crosses]
    return crossing or weights or [name for name, site in sites.items() if site.remembers]


def _begin(model: LanguageModel, reading: Reading, look: Look | None = None) -> State:
    return model.begin(1 if reading.given is None else reading.given, look)


def maps_of(
    look: Look, sites: dict[str, Site], reading: Reading, wanted: Wanted, first: int, last: int
) -> dict[str, Map]:
    """Return the maps of the watched sites, for the window from position `first` to `last`."""
    maps = {}
    for name, site in sites.items():  # in the order of the model, not of the calls
        if name in look.maps:
            maps[name] = _weight_map(site, look, reading, wanted, first, last)
        elif name in look.values:
            maps[name] = _value_map(site, look.values[name], reading, wanted, first)
    return maps


def _rows_of(site: Site, reading: Reading, first: int) -> tuple[int, Sequence[str]]:
    """Return the position of a site's first row, and the names of its rows by position."""
    match site.rows:
        case "read":
            return first, reading.tokens
        case "given":
            return 0, reading.given_names
        case "whole":
            return 0, ("whole text",)


def _weight_map(site: Site, look: Look, reading: Reading, wanted: Wanted, first: int, last: int) -> Map:
    weights, coarse = look.maps[site.name], look.coarse.get(site.name)
    sides = {"read": reading.tokens[first:last], "given": list(reading.given_names)}
    begin, rows = _rows_of(site, reading, first)
    end = last if site.rows == "read" else len(rows)
    last_only = wanted.rows is None and end - begin > ALL_ROWS
    wanted_rows = [-1] if last_only or site.rows == "whole" else wanted.rows
    chosen = checked(wanted_rows, end, "row", begin)

    def compute(places: Sequence[int]) -> Tensor:
        with torch.inference_mode():
            return weights(torch.tensor(places) - begin)[0].cpu()

    def largest(block: int) -> Tensor:
        assert coarse is not None
        with torch.inference_mode():
            return coarse(block)[0].cpu()[heads]

    numbers_HQK = compute(chosen)
    heads = checked(wanted.heads, len(numbers_HQK), "head")
    columns = [*sides[site.columns], *([site.extra] if site.extra and site.columns == "read" else [])]
    # A row over the source has the name of the token that is predicted there.
    ahead = int(site.crosses and reading.ended)
    names = rows[ahead:]
    return Map(
        site=site,
        heads=tuple(site.part(head) for head in heads),
        rows=tuple(chosen),
        row_names=tuple(names[row] for row in chosen),
        column_names=tuple(columns[: numbers_HQK.shape[2]]),
        numbers=numbers_HQK[heads],
        first=first if site.columns == "read" else 0,
        ahead=ahead,
        more=lambda places: compute(places)[heads],
        largest=None if coarse is None else largest,
    )


def _value_map(site: Site, values: Tensor, reading: Reading, wanted: Wanted, first: int) -> Map:
    numbers = values[0].cpu()
    numbers_HTD = numbers.unsqueeze(0) if numbers.dim() == 2 else numbers
    begin, names = _rows_of(site, reading, first)
    end = min(begin + numbers_HTD.shape[1], len(names))
    chosen = checked([-1] if site.rows == "whole" else wanted.rows, end, "row", begin)
    heads = checked(wanted.heads, len(numbers_HTD), "head") if len(site.axes) == 4 else [0]
    return Map(
        site=site,
        heads=tuple(site.part(head) for head in heads),
        rows=tuple(chosen),
        row_names=tuple(names[row] for row in chosen),
        column_names=tuple(str(feature) for feature in range(numbers_HTD.shape[2])),
        numbers=numbers_HTD[heads][:, [row - begin for row in chosen]],
    )


def _parts_places(length: int, rows: Sequence[int] | None, first: int, last: int) -> list[int]:
    """Return the positions whose predictions are split into terms: those in the window with a next token."""
    end = min(last, length - 1)
    if rows is not None:
        return [row for row in checked(rows, last, "row", first) if row < end]
    return list(range(first, end)) if end - first <= ALL_ROWS else [end - 1]


def _parts(
    prediction: Prediction, ids: list[int], places: list[int], first: int, model: LanguageModel
) -> Parts:
    at_K = torch.tensor([[place - first for place in places]], device=model.device)
    targets_K = torch.tensor([[ids[place + 1] for place in places]], device=model.device)
    return prediction.at(at_K).parts(targets_K)


def _window(length: int, context: int | None, rows: Sequence[int] | None) -> tuple[int, int]:
    """(first, last) of the window that the maps show. It ends with the last wanted row."""
    if context is None or length <= context:
        return 0, length
    last = 1 + max(checked(rows or [-1], length, "row"))
    return max(0, last - context), max(last, context)


def _predictions(
    model: LanguageModel, reading: Reading, ids: list[int], prediction: Prediction, window: tuple[int, int]
) -> Iterator[tuple[Prediction, int, int]]:
    """Yield (prediction, first, last) for all positions of the text in order, a slice at a time."""
    step = max(1, SLICE // model.vocabulary_size)
    stride = max(1, (model.context or len(ids)) // 2)
    done = 0
    while done < len(ids):
        if window[0] <= done < window[1] and (done - window[0] >= stride or window[0] == 0):
            start, end, whole = window[0], window[1], prediction
        else:  # read a new window that begins half a context before the next position
            start = max(0, done - stride)
            end = min(len(ids), start + (model.context or len(ids)))
            whole, _ = model(torch.tensor([ids[start:end]], device=model.device), _begin(model, reading))
        for begin in range(done, end, step):
            stop = min(end, begin + step)
            positions_1T = torch.arange(begin - start, stop - start, device=model.device).unsqueeze(0)
            yield whole.at(positions_1T), begin, stop
        done = end


@final
class _Told:
    """The figures of each token and of each position, in the order of the text."""

    def __init__(self) -> None:
        self.surprisal = list[float | None]([None])
        self.ranks = list[int | None]([None])
        self.likeliest = list[list[tuple[str, float]]]()

    def add(
        self, prediction: Prediction, start: int, stop: int, ids: list[int], tokenizer: Tokenizer, top: int
    ) -> None:
        """Add the positions from `start` to `stop`, and the figures of the token after each position."""
        log_probs_TV = prediction.log_probs()[0].cpu()
        check_log_probs(log_probs_TV)
        best = log_probs_TV.exp().topk(min(top, log_probs_TV.shape[1]), 1)
        for indices, values in zip(best.indices.tolist(), best.values.tolist(), strict=True):
            self.likeliest.append(
                [(tokenizer.name(token), p) for token, p in zip(indices, values, strict=True)]
            )
        following = ids[start + 1 : stop + 1]
        token_T1 = torch.tensor(following, dtype=torch.long).unsqueeze(1)
        known_T = (token_T1 < log_probs_TV.shape[1])[:, 0].tolist()
        log_probs_TV = log_probs_TV[: len(following)]
        own_T1 = log_probs_TV.gather(1, token_T1.clamp(max=log_probs_TV.shape[1] - 1))
        ranks_T = 1 + (log_probs_TV > own_T1).sum(1)
        for own, rank, known in zip(own_T1[:, 0].tolist(), ranks_T.tolist(), known_T, strict=True):
            self.surprisal.append(-own if known else None)
            self.ranks.append(rank if known else None)


@torch.inference_mode()
def distributions(model: LanguageModel, reading: Reading) -> Iterator[Tensor]:
    """Yield (T, V), slice by slice: the log-probabilities of the token after each position of the text."""
    ids = reading.ids[:-1] if reading.ended else reading.ids
    first, last = _window(len(ids), model.context, None)
    prediction, _ = model(torch.tensor([ids[first:last]], device=model.device), _begin(model, reading))
    for part, _, _ in _predictions(model, reading, ids, prediction, (first, last)):
        yield part.log_probs()[0].cpu()


@torch.inference_mode()
def distribution(model: LanguageModel, reading: Reading, place: int) -> Tensor:
    """(V): the log-probabilities of the token after a position, as `observe` computes them."""
    ids = reading.ids[:-1] if reading.ended else reading.ids
    checked([place], len(ids), "position")
    first, last = _window(len(ids), model.context, None)
    prediction, _ = model(torch.tensor([ids[first:last]], device=model.device), _begin(model, reading))
    for part, start, stop in _predictions(model, reading, ids, prediction, (first, last)):
        if start <= place < stop:
            return part.at(torch.tensor([[place - start]], device=model.device)).log_probs()[0, 0].cpu()
    raise AssertionError("_predictions yields every position")
