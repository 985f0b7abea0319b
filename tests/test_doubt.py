"""Doubt: planted truths, parity with captum, every family that attends, and what is refused."""

import json
import math

import captum.attr
import numpy as np
import pytest
import torch
from torch import Tensor, nn

from regard.errors import UserError
from regard.inside import moved_attention as moving
from regard.inside.attribution import (
    attributions,
    disagreement,
    gradient_times_input,
    integrated_gradients,
    judgements,
    occlusion,
    value_zeroing,
)
from regard.inside.doubt import doubt_prediction
from regard.inside.moved_attention import Row, attention_rows, divergence, moved_attention
from regard.inside.observe import Reading
from regard.inside.subject import NextToken, Subject, make_subject
from regard.inside.word_vectors import changed_vectors
from regard.models import family_class
from regard.models.contract import LanguageModel
from regard.models.predictions import SoftmaxPrediction
from regard.text.puzzles import PUZZLES
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.training.tasks.questions import train_on_puzzle

TEXT = "the cat saw the dog and the dog saw the cat in a tree\n" * 5
WORDS = "the cat saw the dog and the dog"


@pytest.fixture
def short_search(monkeypatch):
    monkeypatch.setattr(moving, "STEPS", 20)


def made(family: str, **options) -> LanguageModel:
    tokenizer, text = train_tokenizer([TEXT], TokenOptions(tokens="word"))
    torch.manual_seed(11)
    kind = family_class(family)
    model = kind(tokenizer.size, kind.Config(**options))
    if model.learns == "counting":
        model.fit(text)
    return model.eval()


def subject_of(model: LanguageModel, text: str = WORDS, **more) -> Subject:
    tokenizer, _ = train_tokenizer([TEXT], TokenOptions(tokens="word"))
    ids = [tokenizer.start, *tokenizer.prompt(text)]
    return make_subject(model, tokenizer, Reading(ids, [tokenizer.name(token) for token in ids]), **more)


def test_integrated_gradients_of_a_linear_function_are_w_times_x(double, monkeypatch):
    model = made("dan", width=7, layers=1, lookback=0, dropout=0.0)
    # One linear map of the mean, and scores instead of log-probabilities:
    # f(x) = sum over j of (w / T) . x_j + b
    monkeypatch.setattr(nn.functional, "gelu", lambda x: x)
    monkeypatch.setattr(
        SoftmaxPrediction,
        "log_probs",
        lambda self: nn.functional.linear(self.features_BTD, self.weight_VD, self.bias_V),
    )
    subject = subject_of(model)
    layer, target = model.layers[0], subject.target
    w_D = model.embedding.weight[target] @ layer.weight / len(subject.ids)
    expected = model.embedding.weight[list(subject.ids[1:])] @ w_D
    scores, gap = integrated_gradients(subject, nodes=2)
    torch.testing.assert_close(scores, expected.detach(), rtol=1e-12, atol=1e-12)
    assert gap == pytest.approx(0, abs=1e-12)
    torch.testing.assert_close(gradient_times_input(subject), expected.detach(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("family", ["attentive", "transformer", "backpack"])
def test_gradients_agree_with_captum(double, family):
    options = {"width": 8, "dropout": 0.0} | ({} if family == "attentive" else {"heads": 2, "context": 23})
    subject = subject_of(made(family, **options))
    model = subject.model
    tokens = torch.tensor([subject.ids])
    vectors = model.embedding(tokens).detach()
    ahead = torch.zeros_like(vectors)
    ahead[:, 0] = vectors[:, 0]  # the start mark stays

    def forward(embedded_BTD: Tensor) -> Tensor:
        ids = tokens.expand(len(embedded_BTD), -1)
        with changed_vectors(model, ids, lambda number, _: embedded_BTD):
            return model.read_from_start(ids)[0].log_probs()[:, -1, subject.target]

    theirs = captum.attr.IntegratedGradients(forward).attribute(vectors, ahead, n_steps=13)
    ours, gap = integrated_gradients(subject, nodes=13)
    # captum keeps the nodes of the quadrature in single precision
    torch.testing.assert_close(ours, theirs[0, 1:].sum(1), rtol=1e-6, atol=1e-8)
    whole, none = (forward(point).item() for point in (vectors, ahead))
    assert gap == pytest.approx(float(ours.sum()) - (whole - none), abs=1e-10)
    products = captum.attr.InputXGradient(forward).attribute(vectors.requires_grad_())
    torch.testing.assert_close(
        gradient_times_input(subject), products[0, 1:].sum(1).detach(), rtol=1e-9, atol=1e-10
    )
    assert abs(integrated_gradients(subject)[1]) < 0.01


def test_attention_that_is_not_used_moves_as_far_as_any_can(double, short_search):
    """All values are equal, so the mixed value does not depend on the weights."""
    model = made("transformer", width=8, heads=2, layers=1, context=23, dropout=0.0)
    block = model.trunk.blocks[0]
    block.project.weight.data[16:] = 0  # values are the bias, at every position
    block.project.weight.data[:16] *= 40  # weights that are far from flat
    subject = subject_of(model)
    (moved,) = moved_attention(subject, attention_rows(subject), 0.01)
    assert moved.variation == pytest.approx(0, abs=1e-12)
    assert moved.divergence == pytest.approx(moved.most, abs=1e-9)
    assert moved.permuted_variation == pytest.approx(0, abs=1e-12)
    assert value_zeroing(subject, ["layer0.attention"]) is not None


def test_the_most_is_the_farthest_corner():
    weights = torch.tensor([[0.5, 0.3, 0.2, 0.0]], dtype=torch.float64)
    row = Row(weights, torch.tensor([[True, True, True, False]]), torch.arange(4))
    corners = torch.eye(4, dtype=torch.float64)[:3]
    assert float(row.most_H()) == pytest.approx(float(divergence(corners, weights).max()))
    random = torch.rand(1000, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    assert float(divergence(torch.nn.functional.pad(random, (0, 1)), weights).max()) < float(row.most_H())
    # all mass moved to a position of weight 0: ln 2
    assert float(divergence(weights, torch.tensor([[0.0, 0, 0, 1]]))) == pytest.approx(math.log(2))
    half = -0.75 * math.log(0.75) - 0.25 * math.log(0.25) - math.log(2) / 2
    assert float(divergence(torch.tensor([0.5, 0.5]), torch.tensor([1.0, 0.0]))) == pytest.approx(half)


def test_moved_weights_are_weights_and_replay_to_the_variation_that_is_told(double, short_search):
    subject = subject_of(made("transformer", width=8, heads=2, layers=2, context=23, dropout=0.0))
    rows = attention_rows(subject)
    for moved in moved_attention(subject, rows, 0.01):
        assert moved.variation <= 0.01
        assert 0 < moved.divergence <= moved.most + 1e-12
        for name in moved.sites:
            sums = moved.weights[name].sum(1)
            torch.testing.assert_close(sums, torch.ones_like(sums), rtol=1e-9, atol=1e-9)
        look = moving.put({name: weights.unsqueeze(0) for name, weights in moved.weights.items()})
        with torch.no_grad():
            own, other = subject.log_probs(), subject.log_probs(look=look)
        assert float((own.exp() - other.exp()).abs().sum() / 2) == pytest.approx(moved.variation, abs=1e-9)


def test_words_beyond_the_order_of_an_ngram_count_exactly_nothing():
    subject = subject_of(made("ngram", order=3), word="saw")
    scores = occlusion(subject).tolist()
    assert scores[:-2] == [0.0] * 6
    assert all(scores[-2:])


@pytest.fixture(scope="module")
def single_b() -> list[tuple[Subject, int]]:
    """Questions of the puzzle `ab` with one B, and the place of the B. Without the B, the answer is A."""
    puzzle = PUZZLES["ab"]
    model = train_on_puzzle(puzzle, "transformer", 150, 1)
    asked = puzzle.training_questions(4, 60, torch.Generator().manual_seed(9))
    chosen = []
    for tokens, right, answer in zip(
        asked.tokens_NT.tolist(),
        asked.right_NT[:, -1].tolist(),
        asked.targets_NT[:, -1].tolist(),
        strict=True,
    ):
        if right >= 0:
            names = tuple(puzzle.vocabulary[token] for token in tokens)
            chosen.append((NextToken(model, (model.start, *tokens), None, answer, "B", names, 1), right))
    return chosen[:7]


def test_the_letter_that_decides_is_what_mattered(single_b):
    hits = dict[str, list[bool]]()
    for subject, right in single_b:
        assert math.exp(subject.log_prob) > 0.9
        for one in attributions(
            subject, attention_rows(subject)
        ):  # the question mark asks, it does not decide
            hits.setdefault(one.method, []).append(int(np.argmax(one.scores[:-1])) == right)
    shares = {method: sum(hit) / len(hit) for method, hit in hits.items()}
    assert shares["occlusion"] == 1
    assert shares["integrated gradients"] == 1


def test_the_right_order_beats_random_orders(single_b):
    subject, _ = single_b[0]
    judged = {one.method: one for one in judgements(subject, attributions(subject, attention_rows(subject)))}
    best, floor = judged["occlusion"], judged["random order"]
    # the B comes first in every share: without it the answer is A
    assert best.comprehensiveness > 0.8 > floor.comprehensiveness
    assert all(one.comprehensiveness <= 1 for one in judged.values())


def test_disagreement_counts_pairs():
    assert disagreement([1, 2, 3], [10, 20, 30]) == 0
    assert disagreement([1, 2, 3], [3, 2, 1]) == 1
    assert disagreement([1, 2, 3], [1, 1, 1]) == 0.5


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("attentive", {"width": 7, "copy": "gate"}),
        ("attentive", {"width": 7, "lookback": 3}),
        ("transformer", {"width": 8, "heads": 2, "context": 23, "copy": "average"}),
        ("transformer", {"width": 8, "heads": 2, "context": 23}),
        ("backpack", {"width": 8, "heads": 2, "senses": 2, "context": 23}),
        ("dan", {"width": 7}),
    ],
)
def test_every_family_with_attention_has_a_sheet(short_search, family, options):
    doubted = doubt_prediction(subject_of(made(family, **options)), 0.05)
    for moved in doubted.moved:
        assert moved.variation <= 0.05
        assert 0 <= moved.divergence <= moved.most + 1e-6
        assert 0 <= moved.entropy <= 1 + 1e-6
    methods = [one.method for one in doubted.attributions]
    assert methods[0] == "attention"
    assert {"gradient x input", "integrated gradients", "occlusion"} <= set(methods)
    assert ("rollout" in methods) == (family == "transformer" and options.get("copy") is None)
    assert [one.method for one in doubted.judgements] == [*methods, "random order"]
    json.dumps(doubted.to_json(), allow_nan=False)


def test_the_step_is_the_same_as_the_whole(double):
    for family, options in (
        ("attentive", {}),
        ("transformer", {"heads": 2, "context": 23}),
        ("backpack", {"heads": 2}),
    ):
        subject = subject_of(made(family, width=8, dropout=0.0, **options))
        step = subject.step(subject.prefix(3))
        torch.testing.assert_close(step, subject.log_probs(3), rtol=1e-10, atol=1e-10)


def test_the_verb_on_the_command_line(tmp_path, regard_cli, text):
    options = ("--text", "text.txt", "--tokens", "char", "--steps", "2", "--layers", "1", "--width", "8")
    assert regard_cli("train", "transformer", *options, "--heads", "2", "--out", "run").returncode == 0
    shown = regard_cli("doubt", "run", "--text", "line 1", "--out", "sheet.html")
    assert shown.returncode == 0, shown.stderr
    assert "layer0.attention" in shown.stdout
    assert "do not explain the prediction" in (tmp_path / "sheet.html").read_text()
    for wrong, words in (
        (("--text", "l"), "one token"),
        (("--text", "line", "--epsilon", "1"), "above 0 and below 1"),
        (("--text", "line", "--word", "ab"), "not one token"),
        (("--text", "line", "--position", "9"), "no position 9"),
        (("--text", "line", "--target", "e"), "for translators"),
    ):
        refused = regard_cli("doubt", "run", *wrong)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert words in refused.stderr
        assert refused.stderr.count("\n") == 1


def test_a_family_without_attention_is_refused_with_what_it_has():
    for family, words in (("lstm", "layer0.gates"), ("ngram", "regard look")):
        with pytest.raises(UserError, match=f"{family} has no attention to doubt; .*{words}"):
            doubt_prediction(subject_of(made(family, **({"width": 7} if family == "lstm" else {}))), 0.01)
