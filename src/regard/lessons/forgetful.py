"""The lesson about forgetting, measured on trained models."""

import time
from statistics import median

import torch

from regard.inside.forgetting import gradient_reach, power_norms, sequential_steps
from regard.lessons.drawing import Curves, Row
from regard.lessons.lesson import Step
from regard.lessons.question import ask
from regard.lessons.shipped import shipped
from regard.runs.run import Run
from regard.text.builtin import built_in_text

FAMILIES = ("rnn", "lstm", "attentive", "transformer")
ROWS, READ = 8, 502  # rows of text, and the tokens of each with the start mark and the last, predicted one
LENGTHS = (16, 64, 256, 512)
SHOWN = (1, 10, 50, 500)
SMALLEST = 1e-12


def forgetting(families: tuple[str, ...] = FAMILIES) -> list[Step]:
    """The influence of a word 1 to 500 steps back: gradients of trained models, powers of V, and time."""
    runs = {family: shipped(f"long-{family}") for family in families}
    reach = {}
    for name, run in runs.items():
        reach[name], _ = gradient_reach(run.language_model.float(), _rows(run))
    powers = power_norms(runs["rnn"].language_model)["layer0"] if "rnn" in runs else {}
    return [_gradients(reach, powers), *_powers(runs, powers), _time(runs)]


def _rows(run: Run) -> torch.Tensor:
    """(B, T): rows of the built-in text, each with the start mark."""
    text = built_in_text().text
    ids = run.tokenizer.prompt(text[: ROWS * READ * 4])[: ROWS * (READ - 1)]
    rows = torch.tensor(ids).view(ROWS, READ - 1)
    return torch.cat([rows.new_full((ROWS, 1), run.language_model.start), rows], 1)


def _points(curve: dict[int, float]) -> list[tuple[float, float]]:
    """Return the points of a curve that a picture can show."""
    return [(float(k), value) for k, value in curve.items() if value >= SMALLEST]


def _gradients(reach: dict[str, dict[int, float]], powers: dict[int, float]) -> Step:
    lines = {name: _points(curve) for name, curve in reach.items()}
    if powers:
        lines["V^k of the rnn"] = _points(powers)
    far = {name: curve[max(curve)] for name, curve in reach.items()}
    fifty = {name: curve[50] for name, curve in reach.items()}
    most, least = max(far, key=lambda name: far[name]), min(far, key=lambda name: far[name])
    return Step(
        "Gradient against distance",
        "|| dL_t / dw_{t-k} ||, relative to k = 1",
        "; ".join(
            f"{name}: {fifty[name]:.1e} at 50 characters and {far[name]:.1e} at {max(reach[name])}"
            for name in reach
        )
        + f". The farthest reach has the {most}, the shortest the {least}: attention gives the past a direct "
        "path for the gradient.",
        {name: [curve[k] for k in SHOWN if k in curve] for name, curve in reach.items()},
        Curves(
            lines,
            "characters back",
            "relative gradient",
            "what is left of a character",
            log_x=True,
            log_y=True,
        ),
        latex=r"\frac{\lVert \partial L_t / \partial w_{t-k} \rVert}{\lVert \partial L_t / \partial w_{t-1} "
        r"\rVert}",
        intro="Small character models, trained for a minute on the built-in text. How much would the loss "
        "change if a character k steps back changed a little?",
        question=ask(
            "Which model's gradient vanishes first?",
            (least, f"At {max(reach[least])} characters it is {far[least]:.1e} of that at 1."),
            *(
                (name, f"At {max(reach[name])} characters it still has {far[name]:.1e}.")
                for name in reach
                if name != least
            ),
        ),
    )


def _powers(runs: dict[str, Run], curve: dict[int, float]) -> list[Step]:
    """|| V^k || of the trained RNN, if it is one of the families."""
    if not curve:
        return []
    layer = next(module for module in runs["rnn"].language_model.modules() if type(module) is torch.nn.RNN)
    largest = float(torch.linalg.eigvals(layer.get_parameter("weight_hh_l0").detach().double()).abs().max())
    grows = curve[max(curve)] > 1
    return [
        Step(
            "V^k of the trained RNN",
            "h_i is about sum_j V^(i-j) W w_j",
            f"The largest eigenvalue of V has size {largest:.3f}. The norm of V^k is {curve[1]:.2g} at k = "
            f"1, {curve[50]:.2g} at 50 and {curve[500]:.2g} at 500. "
            + (
                "It grows, and tanh, whose slope is at most 1, keeps the states bounded and cuts the "
                "gradient down."
                if grows
                else "It vanishes, and with it what the state knows of old words."
            ),
            {"largest eigenvalue": largest, "V^k": [curve[k] for k in SHOWN]},
            Curves(
                {"V^k": _points(curve)}, "k", "norm of V^k", "powers of a trained V", log_x=True, log_y=True
            ),
            latex=r"h_i \approx \sum_j V^{i-j} W w_j",
            intro="The matrix V of the RNN above, multiplied by itself.",
        )
    ]


def _time(runs: dict[str, Run]) -> Step:
    """Sequential steps and measured time against length."""
    steps, seconds = {}, {}
    for name, run in runs.items():
        lengths = [length for length in LENGTHS if length <= (run.language_model.context or LENGTHS[-1])]
        steps[name] = [
            (float(length), float(sequential_steps(run.language_model, length))) for length in lengths
        ]
        seconds[name] = [(float(length), _milliseconds(run, length)) for length in lengths]
    longest = LENGTHS[-1]
    return Step(
        "Sequential steps, and time",
        "recurrent: n steps one after the other;  attention: one step, n^2 products",
        "At "
        + f"{longest} characters: "
        + "; ".join(
            f"{name} {_steps(int(points[-1][1]))}, {seconds[name][-1][1]:.1f} ms"
            for name, points in steps.items()
        )
        + ". On a GPU, which computes many products at once, the number of sequential steps decides. The "
        "path "
        "of a word to a prediction k words later is as long: k states in a recurrent model, one weight in "
        "attention.",
        {f"steps of {name}": [count for _, count in points] for name, points in steps.items()},
        Row(
            [
                Curves(_joined(steps), "characters", "sequential steps", log_x=True, log_y=True),
                Curves(
                    seconds, "characters", "milliseconds", "measured on this machine", log_x=True, log_y=True
                ),
            ]
        ),
        latex=r"\text{RNN: } O(n) \text{ sequential steps}, \qquad \text{self-attention: } O(1)",
        intro="Reading a text of n characters.",
    )


def _joined(lines: dict[str, list[tuple[float, float]]]) -> dict[str, list[tuple[float, float]]]:
    """Join the names of equal lines, which would hide each other in a picture."""
    names: dict[tuple[tuple[float, float], ...], list[str]] = {}
    for name, points in lines.items():
        names.setdefault(tuple(points), []).append(name)
    return {", ".join(same): list(points) for points, same in names.items()}


def _steps(count: int) -> str:
    return "1 sequential step" if count == 1 else f"{count} sequential steps"


@torch.inference_mode()
def _milliseconds(run: Run, length: int) -> float:
    tokens_1T = _rows(run)[:1, :length]
    times = []
    for _ in range(4):
        began = time.perf_counter()
        run.language_model.read_from_start(tokens_1T)
        times.append(time.perf_counter() - began)
    return 1000 * median(times[1:])
