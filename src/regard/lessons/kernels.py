"""The lesson about attention as kernel regression: an average whose weights fall with the distance.

Shape legend: Q queries, K keys.
"""

from collections.abc import Callable

import torch
from torch import Tensor

from regard.lessons.attention import as_row
from regard.lessons.drawing import Bars, Curves, Grid, Row
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, numbers, vector
from regard.lessons.question import ask
from regard.parts.attention import attend, weigh
from regard.parts.masks import everything
from regard.parts.scores import Near

HOURS = (6.0, 8.0, 10.0, 12.0, 14.0, 16.0, 18.0, 20.0, 22.0)
DEGREES = (8.0, 12.0, 11.0, 18.0, 17.0, 22.0, 18.0, 18.0, 11.0)
PLACES = 17  # at which guesses are drawn
Kernel = Callable[[Tensor], Tensor]


def kernels(
    keys: tuple[float, ...] = HOURS,
    values: tuple[float, ...] = DEGREES,
    query: float = 14.5,
    width: float = 3.0,
) -> list[Step]:
    """Attention without words: guess a temperature from those at other hours; the nearest count most."""
    need(len(keys) == len(values) > 1, "give as many values as keys, and at least two")
    need(len(set(keys)) == len(keys), "each key stands once")
    need(width > 0, "the width of a kernel is above 0")
    key_K1 = torch.tensor(keys, dtype=torch.float64).unsqueeze(1)
    value_K1 = torch.tensor(values, dtype=torch.float64).unsqueeze(1)
    query_11 = torch.tensor([[query]], dtype=torch.float64)
    powers_K = gaussian((query - key_K1[:, 0]) / width)
    return [
        _average(keys, values, query),
        _nearness(keys, values, query, width, powers_K),
        _as_attention(query_11, key_K1, value_K1, width, powers_K),
        _widths(key_K1, value_K1, width),
        _other_kernels(keys, values, query, width),
    ]


def gaussian(distance: Tensor) -> Tensor:
    return (-(distance**2) / 2).exp()


def boxcar(distance: Tensor) -> Tensor:
    return (distance.abs() <= 1).to(distance.dtype)


def triangular(distance: Tensor) -> Tensor:
    return (1 - distance.abs()).clamp(min=0)


KERNELS: dict[str, Kernel] = {"Gaussian": gaussian, "boxcar": boxcar, "triangular": triangular}


def _names(keys: tuple[float, ...]) -> list[str]:
    return [f"{key:g}" for key in keys]


def _average(keys: tuple[float, ...], values: tuple[float, ...], query: float) -> Step:
    mean = sum(values) / len(values)
    return Step(
        "Pairs of a key and a value",
        "f(q) = 1/n sum_i v_i",
        f"The plain average of the values is {mean:.4g}, for {query:g} and for every other query: an "
        "average does not ask where the query lies.",
        {"average": mean},
        Bars(values, _names(keys), "value of each key"),
        latex=r"f(q) = \frac{1}{n} \sum_i v_i",
        intro=f"A bad thermometer was read at {len(keys)} hours of a day: the hours are keys, the degrees "
        f"are "
        f"values. How warm was it at hour {query:g}, the query? No word is involved yet: only pairs, and a "
        "question.",
        question=ask(
            f"What does the plain average answer at {query:g}, and what at {keys[0]:g}?",
            ("the same", "The query does not enter the formula."),
            (f"more at {query:g}", "The query does not enter the formula."),
        ),
    )


def _nearness(
    keys: tuple[float, ...], values: tuple[float, ...], query: float, width: float, powers_K: Tensor
) -> Step:
    total = float(powers_K.sum())
    need(total > 0, f"no key is near {query:g}: the width {width:g} is too small")
    weights = numbers(powers_K / total)
    guess = sum(weight * value for weight, value in zip(weights, values, strict=True))
    best = max(range(len(keys)), key=lambda i: weights[i])
    far = min(range(len(keys)), key=lambda i: weights[i])
    return Step(
        "Nearer keys count more",
        "a_i = K(q - k_i) / sum_j K(q - k_j),  K(d) = e^(-d^2 / (2 w^2));  f(q) = sum_i a_i v_i",
        f"The nearest key, {keys[best]:g}, has {weights[best]:.3f} of the weight, the farthest, "
        f"{keys[far]:g}, has {weights[far]:.1g}. The weighted average of the values is {guess:.4g}.",
        {"weights": weights, "guess": guess},
        Bars(weights, _names(keys), f"weight of each key for q = {query:g}"),
        latex=r"a_i = \frac{K(q - k_i)}{\sum_j K(q - k_j)}, \quad K(d) = e^{-d^2 / 2 w^2}; \qquad "
        r"f(q) = \sum_i a_i v_i",
        intro="Nadaraya and Watson (1964): average the values, and weigh each by how near its key is to "
        f"the query. The kernel K falls with the distance; its width is w = {width:g}.",
        question=ask(
            f"Which key has most weight for the query {query:g}?",
            (f"{keys[best]:g}", f"It is {abs(query - keys[best]):g} away: no key is nearer."),
            *(
                (f"{keys[i]:g}", f"It is {abs(query - keys[i]):g} away; {keys[best]:g} is nearer.")
                for i in sorted({far, max(range(len(keys)), key=lambda i: values[i])})
            ),
        ),
    )


def _as_attention(query_11: Tensor, key_K1: Tensor, value_K1: Tensor, width: float, powers_K: Tensor) -> Step:
    """The same numbers from the library's attention, whose score is the logarithm of the kernel."""
    score = Near(width)
    weights_QK = weigh(as_row(query_11), as_row(key_K1), score=score, mask=everything)[0, 0]
    out = attend(as_row(query_11), as_row(key_K1), as_row(value_K1), score=score, mask=everything)
    scores = numbers(score(as_row(query_11), as_row(key_K1))[0, 0, 0])
    difference = float((weights_QK[0] - powers_K / powers_K.sum()).abs().max())
    names = _names(tuple(numbers(key_K1[:, 0])))
    return Step(
        "The same as attention",
        "score s_i = -(q - k_i)^2 / (2 w^2);  a = softmax(s);  output = sum_i a_i v_i",
        f"Scores, softmax, weighted average of the values: {float(out):.4g}, as before (the weights differ "
        f"by {difference:.0e}). Written out, s_i = q k_i / w^2 - k_i^2 / (2 w^2) and a term of q alone, "
        f"which "
        "the softmax divides away. So for keys of equal length a Gaussian kernel is a softmax of dot "
        "products, which is what a Transformer computes, with keys that it learns.",
        {"scores": scores, "largest difference of weights": difference, "output": float(out)},
        Grid([scores, numbers(weights_QK[0])], ["score", "weight"], names),
        latex=r"s_i = -\frac{(q - k_i)^2}{2 w^2}, \qquad a = \mathrm{softmax}(s), \qquad o = \sum_i a_i v_i",
        intro="The kernel is e to the power of a score, and dividing by the sum is a softmax. The library's "
        "own attention is asked for the same guess.",
    )


def _widths(key_K1: Tensor, value_K1: Tensor, width: float) -> Step:
    """The guess over all hours, and the error when each key is left out, for several widths."""
    widths = sorted({width / 4, width / 2, width, 2 * width, 4 * width})
    first, last = float(key_K1.min()), float(key_K1.max())
    places_Q1 = torch.linspace(first, last, PLACES, dtype=torch.float64).unsqueeze(1)
    measured = list(zip(numbers(key_K1[:, 0]), numbers(value_K1[:, 0]), strict=True))
    lines, errors = dict[str, list[tuple[float, float]]](), dict[str, float]()
    for each in widths:
        guess_Q = _guess(places_Q1, key_K1, value_K1, each)
        lines[f"w = {each:g}"] = list(zip(numbers(places_Q1[:, 0]), numbers(guess_Q), strict=True))
        errors[f"w = {each:g}"] = _left_out(key_K1, value_K1, each)
    best = min(errors, key=lambda name: errors[name])
    return Step(
        "The width",
        "a small w takes the nearest value, a large w the average of all",
        f"Each value, guessed from the other {len(key_K1) - 1}, is off by {errors[best]:.3g} on average with "
        f"{best}, the best of these. A wider kernel asks more keys and blurs them; a narrower one listens to "
        "one key. In a model nobody chooses the width: longer queries and keys make sharper weights, and "
        "both are learned.",
        {"error when left out": errors},
        Row(
            [
                Curves(
                    {"measured": measured} | {name: lines[name] for name in list(lines)[::2]}, "key", "guess"
                ),
                Bars(list(errors.values()), list(errors), "mean error of a value that is left out"),
            ]
        ),
        latex=r"w \to 0: f(q) = v_{\mathrm{nearest}}, \qquad w \to \infty: f(q) = \frac{1}{n} \sum_i v_i",
        intro=f"The guess at every hour, with kernels of {len(widths)} widths.",
        question=ask(
            "What does a very wide kernel answer?",
            (
                "the average of all values",
                "All distances become small beside the width, so weights are equal.",
            ),
            ("the nearest value", "That is a very narrow kernel."),
            ("0", "Weights always sum to 1."),
        ),
    )


def _guess(query_Q1: Tensor, key_K1: Tensor, value_K1: Tensor, width: float) -> Tensor:
    keys, values = as_row(key_K1), as_row(value_K1)
    return attend(as_row(query_Q1), keys, values, score=Near(width), mask=everything)[0, 0, :, 0]


def _left_out(key_K1: Tensor, value_K1: Tensor, width: float) -> float:
    errors = []
    for place in range(len(key_K1)):
        others = torch.arange(len(key_K1)) != place
        guess_Q = _guess(key_K1[place : place + 1], key_K1[others], value_K1[others], width)
        errors.append(float((guess_Q - value_K1[place]).abs()))
    return sum(errors) / len(errors)


def _other_kernels(keys: tuple[float, ...], values: tuple[float, ...], query: float, width: float) -> Step:
    key_K, value_K = (torch.tensor(row, dtype=torch.float64) for row in (keys, values))
    rows, guesses = {}, dict[str, float]()
    for name, kernel in KERNELS.items():
        powers_K = kernel((query - key_K) / width)
        weights_K = powers_K / powers_K.sum() if bool(powers_K.sum() > 0) else powers_K
        rows[name] = numbers(weights_K)
        guesses[name] = float(weights_K @ value_K)
    empty = [name for name, row in rows.items() if not sum(row)]
    told = (
        f" No key lies within {width:g} of the query, so {' and '.join(empty)} have no weight to give."
        if empty
        else ""
    )
    return Step(
        "Other kernels",
        "boxcar: 1 up to the distance w, else 0;  triangular: 1 - d / w;  Gaussian: never 0",
        f"The guesses are {', '.join(f'{guesses[name]:.4g} ({name})' for name in rows)}.{told} A boxcar is a "
        "window: keys inside count alike, keys outside not at all. A Gaussian, like a softmax, never gives "
        "exactly 0.",
        {"guesses": guesses, "weights of all kernels": list(rows.values())},
        Grid(list(rows.values()), list(rows), _names(keys), f"weights for q = {query:g}, w = {width:g}"),
        latex=r"K(d) = 1_{|d| \le w}, \qquad K(d) = \max(0, 1 - |d| / w), \qquad K(d) = e^{-d^2 / 2 w^2}",
        intro=f"Weights fall with the distance in other ways, too. Values: {vector(values)}.",
    )
