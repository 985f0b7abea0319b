"""The lesson about the mask: a language model must not see the next word.

Shape legend: T positions, V vocabulary.
"""

import torch
from torch import Tensor

from regard.lessons.attention import Matrix, as_row, scores_of
from regard.lessons.drawing import Bars, Grid
from regard.lessons.inputs import need
from regard.lessons.lesson import Step, numbers
from regard.lessons.question import ask
from regard.lessons.shipped import shipped
from regard.models.predictions import SoftmaxPrediction
from regard.parts.attention import attend, weigh
from regard.parts.masks import causal, everything, padding
from regard.parts.scores import Dot
from regard.probabilities.decoder import Writing, generate
from regard.probabilities.sampling import Sampling
from regard.runs.run import Run
from regard.text.stories import lines, pronouns

WEIGHTS = ((1.0, 0.0, 0.0), (0.3, 0.7, 0.0), (0.3, 0.5, 0.2))
WORDS = ("students", "opened", "their", "books")
SHORT = "people walked"
SURE = 4.0  # the readout of the worked example adds this score to the right word per unit of a feature


def masking(weights: Matrix = WEIGHTS) -> list[Step]:
    """A language model must not see the next word: the mask, all rows at once, and a model without a mask."""
    count = len(weights)
    need(len(weights[0]) == count > 1, "the weights need as many columns as rows, and at least two")
    values = torch.eye(count, dtype=torch.float64)  # v_1, v_2, ... are unit vectors: outputs equal weights
    queries, keys = scores_of(weights), torch.eye(count, dtype=torch.float64)
    once = attend(as_row(queries), as_row(keys), as_row(values), score=Dot(), mask=causal)[0, 0]
    alone = torch.cat(
        [
            attend(
                as_row(queries[t : t + 1]),
                as_row(keys[: t + 1]),
                as_row(values[: t + 1]),
                score=Dot(),
                mask=everything,
            )[0, 0]
            for t in range(count)
        ]
    )
    return [
        _mask(count),
        _all_rows(once, weights),
        Step(
            "One row at a time",
            "the same sums",
            "Training computes all rows in parallel. Generation computes one row after the other, because "
            "row t needs word t, which row t - 1 has just produced.",
            {"largest difference": float((once - alone).abs().max())},
            latex=r"h_t = \sum_{j \le t} a_{tj} v_j",
            intro="Each row again, from the words up to it alone, without a mask.",
        ),
        _losses(once),
        _padding(),
        _cheating(count, keys),
        _trained_without_mask(),
    ]


def _mask(count: int) -> Step:
    return Step(
        "The mask",
        "row t sees 1..t",
        f"{count * (count - 1) // 2} of {count * count} squares are hidden: no q_2 . k_3, which would be "
        "cheating.",
        {"visible": causal.visible(count, count)[0].int().tolist()},
        Grid(
            causal.visible(count, count)[0].double().tolist(),
            [f"row {t + 1}" for t in range(count)],
            [str(t + 1) for t in range(count)],
            "1: may be seen",
            0,
        ),
        latex=r"S_{tj} = -\infty \text{ for } j > t",
        intro="All scores are computed at once, as one matrix. The mask sets those of the future to minus "
        "infinity.",
        question=ask(
            "How many positions does row 2 see?",
            ("2", "Itself and the first."),
            ("1", "A position may see itself: its word has been read. It must not see the next word."),
            (str(count), "Then row 2 would see the word that it is to predict."),
        ),
    )


def _all_rows(once: Tensor, weights: Matrix) -> Step:
    last = len(weights)
    said = " + ".join(f"{weight:g} v_{place}" for place, weight in enumerate(weights[-1], 1) if weight)
    return Step(
        "All rows at once",
        f"h_{last} = {said}",
        f"h_{last} = {said}. Hidden positions have weight 0.",
        {f"h_{t + 1}": numbers(once[t]) for t in range(last)},
        Grid(numbers(once), [f"h_{t + 1}" for t in range(last)], [f"v_{t + 1}" for t in range(last)]),
        latex=r"h_t = \sum_j \mathrm{softmax}_j(S_{tj})\, v_j",
        intro="The scores are chosen to give the lecture's weights. v_1, v_2, ... are unit vectors, so that "
        "each h shows its weights.",
    )


def _losses(once: Tensor) -> Step:
    """On to the softmax: each h_t predicts word t + 1, and L is the average of the losses."""
    count = len(once)
    words = [*WORDS, *(f"word {place}" for place in range(len(WORDS) + 1, count + 2))][: count + 1]
    # Row t + 1 of the readout points in the direction of h_t, so h_t gives word t + 1 the highest score.
    weight_VT = torch.cat(
        [torch.zeros(1, count, dtype=torch.float64), SURE * once / once.norm(dim=1, keepdim=True)]
    )
    bias_V = torch.zeros(count + 1, dtype=torch.float64)
    prediction = SoftmaxPrediction(once[None], weight_VT, bias_V)
    chances = prediction.log_probs()[0].exp()
    nll = prediction.nll(torch.arange(1, count + 1)[None])[0]
    loss = float(nll.mean())
    names = [f"L_{t + 1}" for t in range(count)]
    sure = chances[torch.arange(count), torch.arange(1, count + 1)]
    return Step(
        "From h to the next word",
        "P(w_{t+1}) = softmax(U h_t);  L_t = -log P(w_{t+1});  L = (L_1 + L_2 + L_3) / 3",
        "; ".join(f"h_{t + 1} gives '{words[t + 1]}' {sure[t]:.3f}" for t in range(count))
        + f". L = {loss:.3f}: all {count} predictions are trained at once, in one pass.",
        {name: float(value) for name, value in zip(names, nll, strict=True)} | {"L": loss},
        Grid(numbers(chances), [f"from h_{t + 1}" for t in range(count)], words, "P(next word)"),
        latex=r"P(w_{t+1}) = \mathrm{softmax}(U h_t), \quad L = \frac{1}{T}\sum_t -\log P(w_{t+1})",
        intro=f"'{' '.join(words)}': h_1 predicts '{words[1]}', h_2 predicts '{words[2]}', and so on. U is "
        "chosen so that each h points at its word.",
        question=ask(
            "Which word does h_2 predict?",
            (words[2], "Row t predicts word t + 1: h_2 has read two words."),
            (words[1], f"h_2 has read '{words[1]}' already. It predicts the word after it."),
        ),
    )


def _padding() -> Step:
    """Sentences of different lengths in one batch: padding is hidden, and a row equals that row alone."""
    torch.manual_seed(1)
    count, short = len(WORDS), SHORT.split()
    position_BT = torch.tensor([list(range(count)), [*range(len(short)), *[-1] * (count - len(short))]])
    query, key = torch.randn(2, 2, 1, count, 3, dtype=torch.float64)
    mask = (causal & padding).over(position_BT, position_BT)
    weights_TT = weigh(query, key, score=Dot(), mask=mask)[1, 0]
    alone_TT = weigh(query[1:, :, : len(short)], key[1:, :, : len(short)], score=Dot(), mask=causal)[0, 0]
    difference = float((weights_TT[: len(short), : len(short)] - alone_TT).abs().max())
    words = [*short, *["<pad>"] * (count - len(short))]
    return Step(
        "Sentences of different lengths",
        "S_tj = -inf for j > t, and for j that is padding",
        f"'{SHORT}' has {len(short)} words beside {count} of the longer sentence. Its rows are what they are "
        f"for the sentence alone (largest difference {difference:.0g}): a softmax over hidden scores gives "
        "them exactly 0. Rows of padding are never used.",
        {"lengths": [count, len(short)], "difference from the sentence alone": difference},
        Grid(numbers(weights_TT[: len(short)]), short, words, "weights of the shorter sentence", 3),
        latex=r"S_{tj} = -\infty \text{ for } j > t \text{ and for } j > n",
        intro=f"A batch is a rectangle: '{' '.join(WORDS)}' and '{SHORT}' are filled up to the same "
        f"length. The "
        "weights here are those of random queries and keys.",
        question=ask(
            f"How much weight does a word of '{SHORT}' give to <pad>?",
            ("0", "Its score is -inf, and e to the power of -inf is 0."),
            ("a little", "That would be so if padding had an ordinary score: it is hidden."),
            (f"{1 / count:g}", "That would be uniform attention over the rectangle."),
        ),
    )


def _cheating(count: int, keys: Tensor) -> Step:
    """Each query asks for the next position: with the future hidden it finds nothing, else the answer."""
    wanted = torch.eye(count, dtype=torch.float64).roll(1, 1) * 20
    losses = {}
    for name, mask in (("future hidden", causal), ("future seen", everything)):
        seen = attend(as_row(wanted), as_row(keys), as_row(keys), score=Dot(), mask=mask)[0]
        prediction = SoftmaxPrediction(
            seen[:, :-1] * 20, torch.eye(count, dtype=torch.float64), torch.zeros(count, dtype=torch.float64)
        )
        losses[name] = float(prediction.nll(torch.arange(1, count)[None]).mean())
    return Step(
        "Cheating",
        "no q_2 . k_3",
        "Without the mask, a query for the next word finds the next word: the loss falls to "
        f"{losses['future seen']:.2g}, from {losses['future hidden']:.3g}.",
        losses,
        Bars(list(losses.values()), list(losses), "loss"),
        latex=r"q_2 \cdot k_3",
        intro="Each query asks for the position after its own.",
    )


def _trained_without_mask() -> Step:
    """Two models with the same options and text: one trained with the mask, one without."""
    masked, open_run = shipped("walk-transformer"), shipped("unmasked")
    open_run.language_model.trunk.causal = False  # type: ignore[union-attr]
    losses = {"trained with the mask": _loss(masked), "trained without, read without": _loss(open_run)}
    open_run.language_model.trunk.causal = True  # type: ignore[union-attr]
    losses["trained without, read with it"] = _loss(open_run)
    texts = {"with the mask": _written(masked), "without": _written(open_run)}
    without = losses["trained without, read without"]
    return Step(
        "A model trained without its mask",
        "loss on 100 stories; then both models write with the mask, as generation must",
        f"The model without a mask has a loss of {without:.3f}, and it has learned to copy the next word. "
        "When it writes, there is no next word: its loss is "
        f"{losses['trained without, read with it']:.2f}. It writes '{texts['without']}'; the model "
        f"trained with the mask writes '{texts['with the mask']}'.",
        losses,
        Bars(list(losses.values()), list(losses), "loss (nats a word)"),
        latex=r"L_{\mathrm{train}} \to 0 \;\not\Rightarrow\; \text{a language model}",
        intro="Two Transformers with the same options, trained on stories such as "
        f"'{lines(pronouns, 1, 5)[0]}'.",
        question=ask(
            "Which of the two has the lower training loss?",
            ("the one without a mask", f"It sees the answer: {without:.3f} nats a word."),
            (
                "the one with the mask",
                f"It has to predict: {losses['trained with the mask']:.3f} nats a word.",
            ),
        ),
    )


@torch.no_grad()
def _loss(run: Run) -> float:
    ids_BT = torch.tensor(
        [[run.language_model.start, *run.tokenizer.prompt(line)] for line in lines(pronouns, 100, seed=5)]
    )
    prediction, _ = run.language_model.double().read_from_start(ids_BT[:, :-1])
    return float(prediction.nll(ids_BT[:, 1:]).mean())


def _written(run: Run) -> str:
    """Write a story with the likeliest words, from its first word."""
    prompt = [run.language_model.start, *run.tokenizer.prompt("Olga called David")]
    writing = Writing(length=10, sampling=Sampling(temperature=0.0), end=run.tokenizer.end)
    steps = generate(run.language_model, run.language_model.begin(1), [prompt], writing)
    return run.tokenizer.decode([*prompt[1:], *(step.tokens[0] for step in steps)]).strip()
