"""Sentences to translations, batched over different lengths, with the attention of what is given back.

Shape legend: B sentences, S source positions, T target positions, H heads.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from regard.errors import UserError
from regard.models.contract import LanguageModel
from regard.models.translation import Translator
from regard.parts.look import Look
from regard.probabilities.beams import Hypothesis, beam_search
from regard.probabilities.decoding import Sampling
from regard.text.parallel import words
from regard.tokens.contract import Encoded, Tokenizer
from regard.tokens.pairs import encode_lines, gather, source_rows

BUDGET = 1 << 12  # source tokens a batch, beams counted


@dataclass(frozen=True)
class Translation:
    text: str  # a word that is not in the vocabulary is the source word it looked at most
    log_prob: float
    score: float  # what hypotheses are ranked by
    ids: list[int]  # the end included, unless there was no more room for it
    tokens: list[str]  # the same by name
    source_tokens: list[str]
    attention: dict[str, Tensor] = field(repr=False)  # a site: (H, T, S): row t is where the model looked when it said token t


def translate(
    model: LanguageModel, source: Tokenizer | None, target: Tokenizer, lines: Sequence[str], *, beam: int = 5, penalty: float = 1.0,
    count: int = 1, sampling: Sampling | None = None, seed: int = 1, attention: bool = True, said: Sequence[int] = (),
) -> Iterator[list[Translation]]:  # fmt: skip
    """The `count` best translations of each line, in the order of the lines; a search begins with what was `said`."""
    model, source = _translator(model, source)
    if count < 1 or beam < 1:
        raise UserError("--count and --beam must be 1 or more")
    if count > beam:
        raise UserError(f"there are {beam} hypotheses with --beam {beam}: ask for no more than that")
    if not lines:
        return
    encoded = encode_lines(source, list(lines))
    _check(model, encoded, lines)
    length_B = encoded.ends_D - encoded.starts_D
    found: list[list[Translation]] = [[] for _ in lines]
    generator = torch.Generator().manual_seed(seed)
    for places_B in _batches(length_B, beam):
        source_BS = source_rows(encoded, places_B, model.source_padding).to(model.device)
        longest_B = (2 * length_B[places_B] + 10).clamp(max=model.context or 1 << 30)
        state = _read(model, source_BS)
        if sampling is None:
            hypotheses = beam_search(model, state, target.end, beam, longest_B, penalty, said=said)
        else:
            hypotheses = _sampled(model, state, target.end, longest_B, count, sampling, generator)
        best = [one[:count] for one in hypotheses]
        unknown = any(target.unknown in one.ids for ones in best for one in ones)
        maps = _attention(model, source_BS, best, target.end) if model.crossing and (attention or unknown) else {}
        for row, place in enumerate(places_B.tolist()):
            names = [source.name(token) for token in encoded.ids_N[encoded.starts_D[place] : encoded.ends_D[place]].tolist()]
            for number, one in enumerate(best[row]):
                ids = [*one.ids, target.end] if one.ended else one.ids
                weights = {site: rows[row][number] for site, rows in maps.items()}
                text = _text(target, one.ids, words(lines[place]), weights)
                tokens = [target.name(token) for token in ids]
                found[place].append(Translation(text, one.log_prob, one.score, ids, tokens, names, weights))
    yield from found


def _text(target: Tokenizer, ids: list[int], source: list[str], attention: dict[str, Tensor]) -> str:
    """The text; a word that is not in the vocabulary becomes the one it looked at most, on average over layers and heads: names and
    numbers are copied through (Luong et al. 2015, "Addressing the rare word problem")."""
    if target.kind != "word" or target.unknown not in ids or not attention:
        return target.decode(ids)
    looked_TS = torch.stack([weights_HTS.mean(0) for weights_HTS in attention.values()]).mean(0)[:, : len(source)]
    best_T = looked_TS.argmax(1).tolist()
    return " ".join(source[best_T[place]] if token == target.unknown else target.name(token) for place, token in enumerate(ids))


def translate_lines(model: LanguageModel, source: Tokenizer | None, target: Tokenizer, lines: Sequence[str], beam: int = 5) -> list[str]:
    """Only the best text of each."""
    return [best[0].text for best in translate(model, source, target, lines, beam=beam, attention=False)]


@torch.inference_mode()
def _read(model: Translator, source_BS: Tensor):
    return model.read(source_BS)


def _translator(model: LanguageModel, source: Tokenizer | None) -> tuple[Translator, Tokenizer]:
    if not isinstance(model, Translator) or source is None:
        raise UserError(f"{model.family} does not translate; train a recurrent-translator or a transformer-translator")
    return model, source


def _check(model: Translator, encoded: Encoded, lines: Sequence[str]) -> None:
    for line, length in zip(lines, (encoded.ends_D - encoded.starts_D).tolist(), strict=True):
        if length == 1:
            raise UserError("a sentence is empty: there is nothing to translate")
        if "\n" in line:
            raise UserError(f"{line[:40]!r} has a line end in it: give one sentence at a time")
        if model.source_limit is not None and length > model.source_limit:
            raise UserError(
                f"{line[:40]!r}... has {length} tokens, the end counted, and the model reads {model.source_limit}: cut it into sentences"
            )


def _batches(length_B: Tensor, beam: int) -> Iterator[Tensor]:
    """Like lengths together, a budget of tokens a batch."""
    order_B = length_B.argsort(descending=True, stable=True)
    start = 0
    while start < len(order_B):
        stop = start + max(1, BUDGET // (beam * int(length_B[order_B[start]])))
        yield order_B[start:stop]
        start = stop


@torch.inference_mode()
def _sampled(
    model: Translator, state, end: int, longest_B: Tensor, count: int, sampling: Sampling, generator: torch.Generator
) -> list[list[Hypothesis]]:
    rows = len(longest_B) * count
    state = state.pick(torch.arange(len(longest_B), device=model.device).repeat_interleave(count))
    token_B = torch.full((rows,), model.start)
    ids, log_prob = [list[int]() for _ in range(rows)], [0.0] * rows
    ended, full = [False] * rows, [False] * rows
    for _ in range(int(longest_B.max())):
        prediction, state = model(token_B.unsqueeze(1).to(model.device), state)
        log_probs_BV = prediction.log_probs()[:, 0].cpu()
        token_B = sampling.choose(log_probs_BV, generator)
        for row, token in enumerate(token_B.tolist()):
            if not ended[row] and not full[row]:
                log_prob[row] += float(log_probs_BV[row, token])
                ended[row] = token == end
                ids[row] += [] if token == end else [token]
                full[row] = len(ids[row]) >= int(longest_B[row // count])
        if all(done or no_room for done, no_room in zip(ended, full, strict=True)):
            break
    made = [Hypothesis(one, p, p / (len(one) + done), done) for one, p, done in zip(ids, log_prob, ended, strict=True)]
    return [sorted(made[first : first + count], key=lambda one: -one.score) for first in range(0, rows, count)]


@torch.inference_mode()
def _attention(model: Translator, source_BS: Tensor, best: list[list[Hypothesis]], end: int) -> dict[str, list[list[Tensor]]]:
    """The maps of what is given back, by reading it once: row t is the state that said token t."""
    rows = [(row, one) for row, hypotheses in enumerate(best) for one in hypotheses]
    source = source_BS[[row for row, _ in rows]]
    longest = max(len(one.ids) for _, one in rows) + 1
    tokens = torch.tensor(
        [[model.start, *one.ids, *[model.padding] * (longest - 1 - len(one.ids))] for _, one in rows], device=source.device
    )
    if model.context is not None:
        tokens = tokens[:, : model.context]
    look = Look(model.crossing)
    model(tokens, model.read(source), look)
    found: dict[str, list[list[Tensor]]] = {}
    for site, weights in look.seen.items():
        maps = iter(weights().cpu())
        read_B = (source_BS != model.source_padding).sum(1).tolist()
        found[site] = [[next(maps)[:, : len(one.ids) + one.ended, :read] for one in ones] for read, ones in zip(read_B, best, strict=True)]
    return found


def forced(model: Translator, source: Encoded, target: Encoded, places_B: Tensor) -> dict[str, Tensor]:
    """A site: (B, H, T, S): where a model looks when it is made to say the given translations. Row t is the state that says token t."""
    source_BS = source_rows(source, places_B, model.source_padding).to(model.device)
    ids_BT, place_BT = gather(target, places_B, model.padding)
    tokens_BT = torch.cat([torch.full_like(ids_BT[:, :1], model.start), ids_BT[:, :-1]], 1)
    tokens_BT = torch.where(place_BT >= 0, tokens_BT, model.padding).to(model.device)
    look = Look(model.crossing)
    with torch.inference_mode():
        model(tokens_BT, model.read(source_BS), look)
        return {site: weights().cpu() for site, weights in look.seen.items()}
