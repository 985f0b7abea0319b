"""The sense vectors of words and their exact contributions: the score is linear in them.

The score of a word w after position i is b_w + sum over positions j and senses l of
alpha_{l,i,j} C(x_j)_l . E_w (Hewitt et al. 2023). The vectors C and the directions E are read
through the model's sites.

Shape legend: N words, L senses, D width, V vocabulary, T positions.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from regard.errors import UserError
from regard.inside.residual_stream import single_token
from regard.models.contract import LanguageModel
from regard.parts.look import Look
from regard.runs.run import Run
from regard.tokens.contract import Tokenizer

SENSES = "senses"  # the site of the sense vectors
FEATURES = "features"
WORDS = 1 << 12  # words that are read at a time


@dataclass(frozen=True)
class Sense:
    number: int
    says: list[
        tuple[str, float]
    ]  # the words whose score it raises most, and how much more than the mean word's
    alike: list[tuple[str, float]]  # the words whose sense of the same number is nearest, and the cosine

    def to_json(self) -> dict[str, Any]:
        return {
            "sense": self.number,
            "says": [{"word": word, "score": score} for word, score in self.says],
            "alike": [{"word": word, "cosine": cosine} for word, cosine in self.alike],
        }


@dataclass(frozen=True)
class Similarity:
    """The cosines of two words, one for each sense."""

    words: tuple[str, str]
    cosines: list[float]

    def to_json(self) -> dict[str, Any]:
        own = {"words": list(self.words), "cosines": self.cosines}
        return {**own, "best": max(self.cosines), "least": min(self.cosines)}


@dataclass(frozen=True)
class Contributions:
    """The share of each sense of each word of a text in the score of the next word, at every position."""

    tokens: list[str]
    next: list[str]  # the word after each position
    probabilities: list[float]  # of it
    values_TLT: Tensor  # (position, sense, word of the context)
    bias: list[float]

    def to_json(self) -> dict[str, Any]:
        return {
            "tokens": self.tokens,
            "next": self.next,
            "probabilities": self.probabilities,
            "values": self.values_TLT.tolist(),
            "bias": self.bias,
        }


def require_senses(model: LanguageModel) -> int:
    """Return the number of senses of a word. A family without senses raises an error."""
    site = model.sites().get(SENSES)
    if site is None:
        raise UserError(
            f"{model.family} has no senses; train a backpack, whose words have several vectors each"
        )
    return len(site.parts)


def sense_numbers(model: LanguageModel, numbers: Sequence[int]) -> tuple[int, ...]:
    many = require_senses(model)
    for number in numbers:
        if not 0 <= number < many:
            raise UserError(f"there is no sense {number}: they go from 0 to {many - 1}")
    return tuple(numbers)


@torch.inference_mode()
def sense_vectors(model: LanguageModel, ids_N: Tensor) -> Tensor:
    """(N, L, D): C(x) of each word. The senses do not depend on the context, so each word is read alone."""
    require_senses(model)
    parts = []
    for ids in ids_N.split(WORDS):
        look = Look([SENSES])
        model.read_from_start(ids.unsqueeze(1).to(model.device), look=look)
        parts.append(look.values[SENSES][:, :, -1].cpu())
    return torch.cat(parts)


@torch.inference_mode()
def said(model: LanguageModel, vectors_ND: Tensor) -> Tensor:
    """(N, V): the amount by which each vector raises the score of each word, minus the mean over words."""
    vectors_N1D = vectors_ND.to(model.device).unsqueeze(1)
    start_N1 = torch.full((len(vectors_ND) + 1, 1), model.start, device=model.device)
    both_N1D = torch.cat([torch.zeros_like(vectors_N1D[:1]), vectors_N1D])
    look = Look(changes={FEATURES: lambda tensor, place: both_N1D.to(tensor.dtype)})
    scores_NV = model.read_from_start(start_N1, look=look)[0].log_probs()[:, 0].cpu()
    raised_NV = scores_NV[1:] - scores_NV[:1]  # the bias is in both
    return raised_NV - raised_NV.mean(1, keepdim=True)


def direction(model: LanguageModel, tokenizer: Tokenizer, words: Sequence[str]) -> tuple[float, ...]:
    """Return the gradient of the first word's score, minus that of the second word or of the mean word."""
    if not 1 <= len(words) <= 2:
        raise UserError("`direction_of` takes one word, or two whose difference it is (he she)")
    ids = [single_token(tokenizer, word) for word in words]
    point_11D: list[Tensor] = []

    def leaf(tensor: Tensor, place: object) -> Tensor:
        point_11D.append(torch.zeros_like(tensor).requires_grad_())
        return point_11D[0]

    start_11 = torch.tensor([[model.start]], device=model.device)
    log_probs_V = model.read_from_start(start_11, look=Look(changes={FEATURES: leaf}))[0].log_probs()[0, 0]
    other = log_probs_V.mean() if len(ids) == 1 else log_probs_V[ids[1]]
    (gradient,) = torch.autograd.grad(log_probs_V[ids[0]] - other, point_11D)
    return tuple(gradient.flatten().tolist())


def senses_of(run: Run, words: Sequence[str], top: int) -> tuple[list[list[Sense]], list[Similarity]]:
    """Return the senses of each word, and the similarity of each pair of words."""
    model, tokenizer = run.language_model, run.tokenizer
    ids = [single_token(tokenizer, word) for word in words]
    every_VLD = sense_vectors(model, torch.arange(tokenizer.size))
    unit_VLD = torch.nn.functional.normalize(every_VLD, dim=2)
    tables = []
    for token in ids:
        raised_LV = said(model, every_VLD[token])
        cosine_LV = torch.einsum("ld,vld->lv", unit_VLD[token], unit_VLD)
        cosine_LV[:, token] = -2
        tables.append(
            [
                Sense(number, _best(tokenizer, raised_V, top), _best(tokenizer, cosine_V, top))
                for number, (raised_V, cosine_V) in enumerate(zip(raised_LV, cosine_LV, strict=True))
            ]
        )
    pairs = [(i, j) for i in range(len(ids)) for j in range(i + 1, len(ids))]
    cosines = [(unit_VLD[ids[i]] * unit_VLD[ids[j]]).sum(1).tolist() for i, j in pairs]
    names = [(words[i], words[j]) for i, j in pairs]
    return tables, [Similarity(pair, own) for pair, own in zip(names, cosines, strict=True)]


def _best(tokenizer: Tokenizer, scores_V: Tensor, top: int) -> list[tuple[str, float]]:
    best = scores_V.topk(min(top, len(scores_V)))
    return [
        (tokenizer.name(token), score)
        for token, score in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    ]


@torch.inference_mode()
def contributions(run: Run, text: str, following: str | None) -> Contributions:
    """Return the exact terms of the score of every next word.

    The last word is `following`, or the likeliest word.
    """
    model, tokenizer = run.language_model, run.tokenizer
    many = require_senses(model)
    ids = [tokenizer.start, *tokenizer.prompt(text)]
    if model.context is not None and len(ids) > model.context:
        raise UserError(f"the text has {len(ids)} tokens and the model sees {model.context}: shorten it")
    prediction, _ = model.read_from_start(torch.tensor([ids], device=model.device))
    log_probs_TV = prediction.log_probs()[0].cpu()
    last = int(log_probs_TV[-1].argmax()) if following is None else single_token(tokenizer, following)
    targets = [*ids[1:], last]
    parts = prediction.parts(torch.tensor([targets], device=model.device))
    terms = {part.name: part.value[0].cpu() for part in parts.terms}
    values_TLT = torch.stack([terms[f"sense {number}"] for number in range(many)], 1)
    rest = [value for name, value in terms.items() if not name.startswith("sense ")]
    return Contributions(
        [tokenizer.name(token) for token in ids],
        [tokenizer.name(token) for token in targets],
        log_probs_TV.gather(1, torch.tensor(targets).unsqueeze(1)).squeeze(1).exp().tolist(),
        values_TLT,
        torch.stack(rest).sum(0).tolist(),
    )


@torch.inference_mode()
def bias_ratio(run: Run, prompts: Sequence[str], contrast: Sequence[str]) -> float:
    """Return the mean over prompts of max(p(a)/p(b), p(b)/p(a)). 1 means no bias.

    (Hewitt et al. 2023, section 5.2)
    """
    if len(contrast) != 2:
        raise UserError("`contrast` takes the two words whose probabilities are compared (he she)")
    if not prompts:
        raise UserError("the file of `prompts` has no line with a text; give one prompt a line")
    first, second = (single_token(run.tokenizer, word) for word in contrast)
    ratios = []
    for prompt in prompts:
        ids = [run.tokenizer.start, *run.tokenizer.prompt(prompt)]
        prediction, _ = run.language_model.read_from_start(
            torch.tensor([ids], device=run.language_model.device)
        )
        log_probs_V = prediction.at(
            torch.tensor([[len(ids) - 1]], device=run.language_model.device)
        ).log_probs()[0, 0]
        ratios.append(float((log_probs_V[first] - log_probs_V[second]).abs().double().exp()))
    return sum(ratios) / len(ratios)
