"""Where a Transformer's prediction comes from: what each layer would say, what each part adds, which states carry it.

Shape legend: T positions, D width, V vocabulary, H heads, E head width, L layers.
"""

from dataclasses import dataclass
from functools import partial

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models.contract import LanguageModel
from regard.models.transformer import Transformer
from regard.models.trunk import Block
from regard.parts.look import Look, Place
from regard.tokens.contract import Tokenizer


@dataclass(frozen=True)
class Traced:
    """Numbers with a name for each row and each column."""

    rows: list[str]
    columns: list[str]
    values: Tensor
    words: list[list[str]] | None = None  # beside each number, the word it is of


@torch.inference_mode()
def lens(model: LanguageModel, tokenizer: Tokenizer, text: str) -> Traced:
    """The likeliest next word at every position, and its probability, if each layer were the last (the logit lens).

    The state after each layer takes the place of the last one's: the final norm and the readout are the model's own.
    """
    model, ids = _transformer(model), _ids(model, tokenizer, text)
    names = ["embedding", *(f"layer{number}.residual" for number in range(model.config.layers))]
    look = Look(names)
    model(ids, look=look)
    words, values = [], []
    for name in names:
        prediction, _ = model(ids, look=Look(changes={names[-1]: partial(_instead, look.seen[name])}))
        best = prediction.log_probs()[0].max(1)
        words.append([tokenizer.name(token) for token in best.indices.tolist()])
        values.append(best.values.exp())
    return Traced(names, _names(tokenizer, ids), torch.stack(values).cpu(), words)


@torch.inference_mode()
def contributions(model: LanguageModel, tokenizer: Tokenizer, text: str, word: str, position: int = -1) -> Traced:
    """What the embedding, every head, every feed-forward layer and every bias adds to the score of a word at a position.

    Pre-norm: the last state is the sum of what was written to it, and with the final norm's mean and scale held as they were, so is the
    score: score = sum over parts p of (p - mean(p)) / sigma * g . W_word, + b . W_word + bias_word. The terms sum to it.
    """
    model, ids = _transformer(model), _ids(model, tokenizer, text)
    if model.config.norm != "pre" or model.config.projections != "learned" or not isinstance(model.narrow, torch.nn.Identity):
        raise UserError("contributions are for --norm pre with learned projections: elsewhere the parts do not simply add up")
    token, place = _token(tokenizer, word), _place(position, ids)
    look = Look(["embedding", "*.heads", "*.feed", "*.residual"])
    prediction, _ = model(ids, look=look)
    parts = {"embedding": look.seen["embedding"][0, place]}
    for block in model.trunk.blocks:
        assert isinstance(block, Block)
        heads_HE = look.seen[f"{block.name}.heads"][0, :, place]
        for head, (mixed_E, weight_DE) in enumerate(zip(heads_HE, block.out.weight.chunk(len(heads_HE), 1), strict=True)):
            parts[f"{block.name} head {head}"] = weight_DE @ mixed_E
        parts[f"{block.name} attention bias"] = block.out.bias
        parts[f"{block.name} feed-forward"] = look.seen[f"{block.name}.feed"][0, place]
    norm, last_D = model.trunk.final_norm, look.seen[f"layer{model.config.layers - 1}.residual"][0, place]
    assert isinstance(norm, torch.nn.LayerNorm)
    sigma = (last_D.var(correction=0) + norm.eps).sqrt()
    direction_D = model.readout(prediction.features_BTD, model.embedding).weight_VD[token]
    values = {name: (part_D - part_D.mean()) / sigma * norm.weight @ direction_D for name, part_D in parts.items()}
    values["final norm bias"] = norm.bias @ direction_D
    values["readout bias"] = model.readout.bias[token]
    return Traced(list(values), [tokenizer.name(token)], torch.stack(list(values.values())).unsqueeze(1).cpu())


@torch.inference_mode()
def sweep(model: LanguageModel, tokenizer: Tokenizer, text: str, other: str, word: str) -> Traced:
    """How much likelier a word becomes after `text` when one state, of one layer at one position, is taken from `other`.

    In nats of log-probability: (layers x positions). Both texts need as many tokens.
    """
    model, ids, others = _transformer(model), _ids(model, tokenizer, text), _ids(model, tokenizer, other)
    if ids.shape != others.shape:
        raise UserError(f"the texts have {ids.shape[1]} and {others.shape[1]} tokens; a sweep needs as many in both")
    names = ["embedding", *(f"layer{number}.residual" for number in range(model.config.layers))]
    look, token = Look(names), _token(tokenizer, word)
    model(others, look=look)
    plain = model(ids)[0].log_probs()[0, -1, token]
    found_LT = torch.empty(len(names), ids.shape[1])
    for row, name in enumerate(names):
        for place in range(ids.shape[1]):

            def patch(tensor: Tensor, _: object, place: int = place, taken: Tensor = look.seen[name]) -> Tensor:
                patched = tensor.clone()
                patched[:, place] = taken[:, place]
                return patched

            found_LT[row, place] = model(ids, look=Look(changes={name: patch}))[0].log_probs()[0, -1, token] - plain
    return Traced(names, _names(tokenizer, ids), found_LT)


def _instead(value: Tensor, tensor: Tensor, place: Place) -> Tensor:
    return value


def _transformer(model: LanguageModel) -> Transformer:
    if not isinstance(model, Transformer):
        raise UserError(f"tracing is for transformers: {model.family} has no stack of states that add up")
    return model


def _ids(model: LanguageModel, tokenizer: Tokenizer, text: str) -> Tensor:
    ids = [tokenizer.start, *tokenizer.prompt(text)]
    if len(ids) == 1:
        raise UserError("there is nothing to trace: give some text")
    if model.context is not None and len(ids) > model.context:
        raise UserError(f"the text has {len(ids)} tokens and the model sees {model.context}: shorten it")
    return torch.tensor([ids], device=model.device)


def _token(tokenizer: Tokenizer, word: str) -> int:
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
