"""Translation of sentences with any translator: batches, beam search or sampling, and attention weights.

Shape legend: B sentences, S source positions, T target positions, H heads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models.contract import LanguageModel, State
from regard.models.given import as_sentences
from regard.parts.look import Look
from regard.probabilities.beams import Hypothesis, beam_search
from regard.probabilities.decoder import ENDED, Writing, generate
from regard.probabilities.sampling import Sampling
from regard.text.parallel import words
from regard.tokens.batches import shift_right
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.pairs import GivenExamples, encode_lines, source_rows, target_rows

BUDGET = 1 << 12  # the maximal number of source tokens in a batch, times the number of beams


@dataclass(frozen=True)
class Translation:
    """A translation of one sentence."""

    text: str  # an unknown word is replaced by the source word with the highest attention weight
    log_prob: float
    score: float  # hypotheses are ranked by the score
    ids: list[int]  # includes the end token, unless the length limit was reached
    tokens: list[str]  # the names of the ids
    source_tokens: list[str]
    # For each site (H, T, S): row t belongs to the state that predicted token t.
    attention: dict[str, Tensor] = field(repr=False)


@dataclass(frozen=True, kw_only=True)
class Search:
    """The settings of the search for translations."""

    beam: int = 5
    penalty: float = 1.0  # the exponent of the length in the score: log P / length ** penalty
    count: int = 1  # translations of each sentence
    sampling: Sampling | None = None  # sample translations instead of beam search
    seed: int = 1
    prefix: tuple[int, ...] = ()  # every translation begins with these tokens

    def __post_init__(self) -> None:
        if self.count < 1 or self.beam < 1:
            raise UserError("`count` and `beam` must be 1 or more")
        if self.count > self.beam and self.sampling is None:
            raise UserError(f"`count` {self.count} needs a `beam` of {self.count} or more, not {self.beam}")


def crossing_sites(model: LanguageModel) -> list[str]:
    """Return the names of the sites that hold attention weights over the source."""
    return [name for name, site in model.sites().items() if site.crosses]


def translate(
    model: LanguageModel,
    source: Tokenizer,
    target: Tokenizer,
    lines: Sequence[str],
    search: Search = Search(),  # noqa: B008 (a frozen value)
    attention: bool = True,
) -> list[list[Translation]]:
    """Return the best translations of each line, in order. `attention` adds attention weights."""
    if not lines:
        return []
    encoded = encode_lines(source, list(lines))
    _check(model, encoded, lines)
    given = as_sentences(model.given)
    translations: list[list[Translation]] = [[] for _ in lines]
    for places_B in _batches(encoded.lengths_D, search.beam):
        source_BS = source_rows(encoded, places_B, given.padding).to(model.device)
        best = find(model, source_BS, target, 2 * encoded.lengths_D[places_B] + 10, places_B, search)
        unknown = any(target.unknown in hypothesis.ids for hypotheses in best for hypothesis in hypotheses)
        maps = attention_of(model, source_BS, best) if attention or unknown else {}
        for row, place in enumerate(places_B.tolist()):
            names = [
                source.name(token)
                for token in encoded.ids_N[encoded.starts_D[place] : encoded.ends_D[place]].tolist()
            ]
            for number, hypothesis in enumerate(best[row]):
                ids = [*hypothesis.ids, target.end] if hypothesis.ended else hypothesis.ids
                weights = {site: rows[row][number] for site, rows in maps.items()}
                text = _text(target, hypothesis.ids, words(lines[place]), weights)
                tokens = [target.name(token) for token in ids]
                log_prob, score = hypothesis.log_prob, hypothesis.score
                translations[place].append(Translation(text, log_prob, score, ids, tokens, names, weights))
    return translations


def translate_lines(
    model: LanguageModel, source: Tokenizer, target: Tokenizer, lines: Sequence[str], beam: int = 5
) -> list[str]:
    """Return the text of the best translation of each line."""
    return [
        best[0].text for best in translate(model, source, target, lines, Search(beam=beam), attention=False)
    ]


def _check(model: LanguageModel, encoded: Encoded, lines: Sequence[str]) -> None:
    assert model.given is not None
    longest = model.given.longest
    for line, length in zip(lines, encoded.lengths_D.tolist(), strict=True):
        if length == 1:
            raise UserError("a sentence is empty: there is nothing to translate")
        if "\n" in line:
            raise UserError(f"{line[:40]!r} contains a line end: give one sentence at a time")
        if longest is not None and length > longest:
            limit = f"has {length} tokens including its end, and the model reads at most {longest}"
            raise UserError(f"{line[:40]!r}... {limit}: split it into sentences")


def _batches(length_B: Tensor, beam: int) -> Iterator[Tensor]:
    """Yield batches of sentence indices: similar lengths together, at most BUDGET tokens in a batch."""
    order_B = length_B.argsort(descending=True, stable=True)
    start = 0
    while start < len(order_B):
        stop = start + max(1, BUDGET // (beam * int(length_B[order_B[start]])))
        yield order_B[start:stop]
        start = stop


@torch.inference_mode()
def find(
    model: LanguageModel,
    given: Tensor,
    target: Tokenizer,
    longest_B: Tensor,
    places_B: Tensor,
    search: Search,
) -> list[list[Hypothesis]]:
    """Return the best texts for each source or image of a batch, the best first.

    `longest_B` limits the number of tokens. `places_B` are the numbers of the rows among all that are read;
    samples depend on them, and not on the batch.
    """
    longest_B = longest_B.clamp(max=model.context or 1 << 30)
    state = model.begin(given)
    if search.sampling is None:
        best = beam_search(
            model, state, target.end, search.beam, longest_B, search.penalty, prefix=search.prefix
        )
        return [hypotheses[: search.count] for hypotheses in best]
    rows = torch.arange(len(given), device=model.device).repeat_interleave(search.count)
    numbers = [place * search.count + sample for place in places_B.tolist() for sample in range(search.count)]
    samples = _sampled(model, state.pick(rows), target.end, longest_B[rows.cpu()].tolist(), numbers, search)
    groups = (samples[first : first + search.count] for first in range(0, len(samples), search.count))
    return [sorted(group, key=lambda hypothesis: -hypothesis.score) for group in groups]


def _sampled(
    model: LanguageModel, state: State, end: int, longest: list[int], numbers: list[int], search: Search
) -> list[Hypothesis]:
    """Sample a translation for each row."""
    assert search.sampling is not None
    ids, log_probs = [list[int]() for _ in longest], [0.0] * len(longest)
    prompts = [[model.start]] * len(longest)
    writing = Writing(length=max(longest), end=end, sampling=search.sampling, seed=search.seed)
    for written in generate(model, state, prompts, writing, numbers):
        for row, (token, log_prob) in enumerate(
            zip(written.tokens, written.log_prob_B.tolist(), strict=True)
        ):
            if token != ENDED and len(ids[row]) < longest[row]:
                ids[row].append(token)
                log_probs[row] += log_prob
    hypotheses = list[Hypothesis]()
    for tokens, log_prob in zip(ids, log_probs, strict=True):
        ended = tokens[-1] == end
        hypotheses.append(
            Hypothesis(tokens[:-1] if ended else tokens, log_prob, log_prob / len(tokens), ended)
        )
    return hypotheses


@torch.inference_mode()
def attention_of(
    model: LanguageModel, given: Tensor, best: list[list[Hypothesis]]
) -> dict[str, list[list[Tensor]]]:
    """Return the attention weights of each hypothesis. The model reads each hypothesis once more."""
    assert model.given is not None
    sites = crossing_sites(model)
    if not sites:
        return {}
    rows = [(row, hypothesis) for row, hypotheses in enumerate(best) for hypothesis in hypotheses]
    source = given[[row for row, _ in rows]]
    longest = max(len(hypothesis.ids) for _, hypothesis in rows) + 1
    padded = [[*hypothesis.ids, *[model.padding] * (longest - len(hypothesis.ids))] for _, hypothesis in rows]
    tokens = shift_right(torch.tensor(padded, device=source.device), model.start)
    if model.context is not None:
        tokens = tokens[:, : model.context]
    look = Look(sites)
    model.read_from_start(tokens, source, look)
    lengths = model.given.lengths(given)
    maps: dict[str, list[list[Tensor]]] = {}
    for site, weights in look.maps.items():
        rest = iter(weights().cpu())
        maps[site] = [
            [next(rest)[:, : len(hypothesis.ids) + hypothesis.ended, :length] for hypothesis in hypotheses]
            for length, hypotheses in zip(lengths, best, strict=True)
        ]
    return maps


def _text(target: Tokenizer, ids: list[int], source: list[str], attention: dict[str, Tensor]) -> str:
    """Return the text of a translation.

    Each unknown word is replaced by the source word with the highest attention weight, averaged over layers
    and heads. Names and numbers are thus copied (Luong et al. 2015, "Addressing the rare word problem").
    """
    if target.kind != "word" or target.unknown not in ids or not attention:
        return target.decode(ids)
    weights_TS = torch.stack([weights_HTS.mean(0) for weights_HTS in attention.values()]).mean(0)[
        :, : len(source)
    ]
    best_T = weights_TS.argmax(1).tolist()
    return " ".join(
        source[best_T[place]] if token == target.unknown else target.name(token)
        for place, token in enumerate(ids)
    )


@torch.inference_mode()
def forced_attention(model: LanguageModel, pairs: GivenExamples, places_B: Tensor) -> dict[str, Tensor]:
    """For each site (B, H, T, S): the attention weights while the model reads the texts of the examples.

    Row t belongs to the state that predicts token t.
    """
    assert model.given is not None
    given = model.given.rows(pairs, places_B).to(model.device)
    look = Look(crossing_sites(model))
    rows = target_rows(pairs.target, places_B, model.start, model.padding)
    model.read_from_start(rows.tokens_BT.to(model.device), given, look)
    return {site: weights().cpu() for site, weights in look.maps.items()}
