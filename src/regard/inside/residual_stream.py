"""Trace a prediction: the logit lens, the term of each part in a score, and patches of single states.

Shape legend: T positions, D width, V vocabulary, L layers.
"""

from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.pictures import bars, heat_map, table
from regard.models.contract import LanguageModel
from regard.parts.look import Look, Place
from regard.probabilities.measures import check_log_probs
from regard.tables import Table, TableRows
from regard.tokens.contract import Tokenizer


@dataclass(frozen=True)
class Traced(Table):
    """Numbers with a name for each row and each column."""

    about: str
    row_names: list[str]
    column_names: list[str]
    values: Tensor
    words: list[list[str]] | None = None  # the token that each number belongs to

    def rows(self) -> TableRows:
        """A row for each number, with the names of its row and column."""
        rows = []
        for place, (row, values) in enumerate(zip(self.row_names, self.values.tolist(), strict=True)):
            for column, (name, value) in enumerate(zip(self.column_names, values, strict=True)):
                word = {} if self.words is None else {"word": self.words[place][column]}
                rows.append({"row": row, "column": name, "value": value, **word})
        return rows

    def picture(self) -> str:
        """Draw the numbers as SVG: words in squares for the lens, bars for terms, a heat map for patches."""
        values, rows, columns = self.values.numpy(), self.row_names, self.column_names
        if self.words is not None:
            return table(values, rows, columns, self.words, f"{self.about} (darker: more probable)")
        if len(columns) == 1:
            return bars(values[:, 0], rows, f"{self.about}: {values.sum():.3f} in all")
        return heat_map(values, rows, columns, self.about)

    def _repr_html_(self) -> str:
        return self.picture()

    def to_json(self) -> dict[str, Any]:
        return {
            "about": self.about,
            "rows": self.row_names,
            "columns": self.column_names,
            "values": self.values.tolist(),
            "words": self.words,
        }


@torch.inference_mode()
def lens(model: LanguageModel, tokenizer: Tokenizer, text: str) -> Traced:
    """Predict the next token at every position from the state after each layer (the logit lens).

    The state after each layer takes the place of the state after the last layer. The final norm and the
    readout are the model's own.
    """
    ids, names = _ids(model, tokenizer, text), _layers(model)
    look = Look(names)
    model.read_from_start(ids, look=look)
    words, values = [], []
    for name in names:
        change = Look(changes={names[-1]: partial(_instead, look.values[name])})
        prediction, _ = model.read_from_start(ids, look=change)
        best = prediction.log_probs()[0].max(1)
        check_log_probs(best.values)
        words.append([tokenizer.name(token) for token in best.indices.tolist()])
        values.append(best.values.exp())
    about = "the likeliest word after each layer"
    return Traced(about, names, _names(tokenizer, ids), torch.stack(values).cpu(), words)


@torch.inference_mode()
def contributions(
    model: LanguageModel, tokenizer: Tokenizer, text: str, word: str, position: int = -1
) -> Traced:
    """Split the score (or the probability) of a word after a position into terms that sum to it.

    Each part of the model has a term.
    """
    ids, token = _ids(model, tokenizer, text), single_token(tokenizer, word)
    terms = model.contributions(ids, _place(position, ids), token)
    names = _names(tokenizer, ids)
    rows = [
        f"{term.name} from {names[term.position]} ({term.position})"
        if term.position is not None
        else term.name
        for term in terms
    ]
    about = f"the {terms[0].of} of “{tokenizer.name(token)}”, by part"
    return Traced(
        about,
        rows,
        [tokenizer.name(token)],
        torch.tensor([[term.value] for term in terms], dtype=torch.float64),
    )


@torch.inference_mode()
def sweep(model: LanguageModel, tokenizer: Tokenizer, text: str, other: str, word: str) -> Traced:
    """Measure the change of a word's log-probability after `text` when one state is copied from `other`.

    The result is (layers x positions) in nats. Both texts need the same number of tokens.
    """
    ids, others = _ids(model, tokenizer, text), _ids(model, tokenizer, other)
    if ids.shape != others.shape:
        lengths = f"{ids.shape[1]} and {others.shape[1]} tokens"
        raise UserError(f"the texts have {lengths}; a sweep needs the same number in both")
    names, token = _layers(model), single_token(tokenizer, word)
    look = Look(names)
    model.read_from_start(others, look=look)
    plain = model.read_from_start(ids)[0].log_probs()[0, -1, token]
    change_LT = torch.empty(len(names), ids.shape[1])
    for row, name in enumerate(names):
        for place in range(ids.shape[1]):
            patched = Look(changes={name: partial(_patch, look.values[name], place)})
            change_LT[row, place] = (
                model.read_from_start(ids, look=patched)[0].log_probs()[0, -1, token] - plain
            )
    about = f"change of log P(“{tokenizer.name(token)}”) when a state is taken from the other text"
    return Traced(about, names, _names(tokenizer, ids), change_LT)


def _instead(value: Tensor, tensor: Tensor, place: Place) -> Tensor:
    return value


def _patch(taken: Tensor, place: int, tensor: Tensor, _: Place) -> Tensor:
    patched = tensor.clone()
    patched[:, place] = taken[:, place]
    return patched


def _layers(model: LanguageModel) -> list[str]:
    names = model.layer_sites()
    if not names:
        raise UserError(
            f"{model.family} has no stack of layers to trace; give a `word` to trace its score instead"
        )
    return names


def _ids(model: LanguageModel, tokenizer: Tokenizer, text: str) -> Tensor:
    if model.given is not None:
        raise UserError(f"trace is for models that go on from a text; {model.family} {model.does}")
    ids = [tokenizer.start, *tokenizer.prompt(text)]
    if len(ids) == 1:
        raise UserError("there is nothing to trace: give some text")
    if model.context is not None and len(ids) > model.context:
        raise UserError(f"the text has {len(ids)} tokens and the model sees {model.context}: shorten it")
    return torch.tensor([ids], device=model.device)


def single_token(tokenizer: Tokenizer, word: str) -> int:
    special = {"</s>": tokenizer.end, "<unk>": tokenizer.unknown}.get(word)
    if special is not None:
        return special
    ids = tokenizer.prompt(word)
    if len(ids) != 1 or ids[0] == tokenizer.unknown:
        parts = ", ".join(repr(tokenizer.name(token)) for token in ids)
        hint = "" if tokenizer.kind == "word" else "; mind a space before it"
        raise UserError(f"{word!r} is not one token of this vocabulary (it reads {parts or 'nothing'}){hint}")
    return ids[0]


def _place(position: int, ids: Tensor) -> int:
    length = ids.shape[1]
    if not -length <= position < length:
        raise UserError(f"there is no position {position}: they go from 0 to {length - 1}")
    return position % length


def _names(tokenizer: Tokenizer, ids: Tensor) -> list[str]:
    return [tokenizer.name(token) for token in ids[0].tolist()]
