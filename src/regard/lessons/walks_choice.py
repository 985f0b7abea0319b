"""The end of each walk: a word is chosen from the probabilities, and the model's numbers are counted.

Shape legend: V vocabulary, N draws.
"""

import torch
from torch import Tensor

from regard.lessons.drawing import Bars, Grid
from regard.lessons.lesson import Step, numbers
from regard.lessons.question import ask
from regard.lessons.walks import Walk
from regard.probabilities.sampling import Sampling

TEMPERATURES = (0.5, 1.0, 2.0, 4.0)
PARTS = {  # a sign in the name of a parameter: the part of the model
    "embedding": "embedding and readout",
    "readout": "embedding and readout",
    "norm": "norms",
    "project": "attention (W_q, W_k, W_v, W_o)",
    "out": "attention (W_q, W_k, W_v, W_o)",
    "feed": "feed-forward",
}
SHOWN, DRAWS = 5, 1000


def choose_a_word(walk: Walk) -> Step:
    """Temperature and top-k, and how often each word is drawn."""
    own, _ = walk.run.language_model.read_from_start(walk.ids_1T)
    log_probs_V = own.log_probs()[0, -1]
    best = log_probs_V.topk(SHOWN).indices
    words = [walk.run.tokenizer.name(token) for token in best.tolist()]
    rows = {
        f"T = {temperature:g}": (log_probs_V / temperature).softmax(0)
        for temperature in sorted({*TEMPERATURES, walk.temperature})
    }
    kept = min(walk.top_k, len(log_probs_V))
    cut_V = torch.full_like(log_probs_V, -torch.inf)
    cut_V[log_probs_V.topk(kept).indices] = 0
    label = f"T = {walk.temperature:g}, top {kept}"
    rows[label] = (log_probs_V / walk.temperature + cut_V).softmax(0)
    drawn = _drawn(log_probs_V, Sampling(temperature=walk.temperature, top_k=kept))
    told = {words[place]: int((drawn == token).sum()) for place, token in enumerate(best.tolist())}
    first = words[0]
    low, high = (float(rows[f"T = {edge:g}"][best[0]]) for edge in (TEMPERATURES[0], TEMPERATURES[-1]))
    return Step(
        "Choose a word",
        "P_T(w) = e^(s_w / T) / sum e^(s_w' / T);  top-k: only the k likeliest words",
        f"T = {TEMPERATURES[0]:g} gives '{first}' {low:.3f}, and T = {TEMPERATURES[-1]:g} gives it "
        f"{high:.3f}: "
        f"the scores stay, their differences are divided by T. Of {DRAWS} draws with {label}, "
        f"{told[first]} are "
        f"'{first}'" + (f" and {DRAWS - sum(told.values())} are none of the five." if kept > SHOWN else "."),
        {"drawn": told, "P at each temperature": {name: float(row[best[0]]) for name, row in rows.items()}},
        Grid([numbers(row[best]) for row in rows.values()], list(rows), words, "P(next word)"),
        latex=r"P_T(w) = \frac{e^{s_w / T}}{\sum_{w'} e^{s_{w'} / T}}",
        intro="The model gives probabilities; somebody has to pick. Temperature 0 takes the likeliest word. "
        "Other temperatures T draw one, from scores that are divided by T before the softmax.",
        question=ask(
            f"The temperature rises from 1 to {TEMPERATURES[-1]:g}. What happens to the likeliest word?",
            (
                "it stays the likeliest, with a smaller probability",
                f"From {float(rows['T = 1'][best[0]]):.3f} to {high:.3f}: all differences of scores "
                f"shrink alike.",
            ),
            ("another word becomes the likeliest", "Dividing all scores by T keeps their order."),
            ("nothing", "Only a softmax of equal scores does not change with T."),
        ),
    )


def _drawn(log_probs_V: Tensor, sampling: Sampling) -> Tensor:
    """(N,): tokens that the library's sampling draws, each with a random number of its own."""
    uniform_N = torch.rand(DRAWS, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    return sampling.choose(log_probs_V.expand(DRAWS, -1), uniform_N)


def count_the_numbers(walk: Walk) -> Step:
    """The parameters of each part of the model, beside those of GPT-2."""
    model = walk.run.language_model
    parts = dict.fromkeys(PARTS.values(), 0)
    for name, weight in model.named_parameters():
        parts[next(part for sign, part in PARTS.items() if sign in name)] += weight.numel()
    total, largest = sum(parts.values()), max(parts, key=lambda part: parts[part])
    gpt2 = gpt2_parameters(12, 768, 50257, 1024)
    return Step(
        "How many numbers",
        "a layer of width d has 12 d^2 + 13 d numbers: W_q, W_k, W_v, W_o, two maps of 4 d, biases and norms",
        f"{total:,} numbers, most of them for {largest} ({parts[largest]:,}). The same parts at the sizes of "
        f"GPT-2 small (12 layers, width 768, 50,257 tokens, 1,024 positions) make {gpt2:,}: nothing new is "
        "in it but size.",
        {"parameters": total, "GPT-2 small": gpt2, "parts": parts},
        Bars([float(count) for count in parts.values()], list(parts), "numbers in each part"),
        latex=r"12 d^2 + 13 d \text{ in each layer}, \qquad V d \text{ in the embedding}",
        intro="Every number of this walk was computed from the text and from these weights.",
    )


def gpt2_parameters(layers: int, width: int, vocabulary: int, positions: int) -> int:
    """Return the number of weights of GPT-2, whose readout shares the embedding.

    >>> gpt2_parameters(12, 768, 50257, 1024)
    124439808
    """
    return layers * (12 * width**2 + 13 * width) + 2 * width + (vocabulary + positions) * width
