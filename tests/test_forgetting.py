"""Forgetting: what is known of planted models is what is measured."""

import json
import math

import pytest
import torch
from torch import nn

from regard.errors import UserError
from regard.inside.forgetting import (
    DISTANCES,
    context_rises,
    forgetting,
    gate_products,
    gradient_reach,
    power_norms,
    sequential_steps,
)
from regard.models import family_class
from regard.models.contract import LanguageModel
from regard.runs.run import Run, describe
from regard.text.files import Source
from regard.tokens.choose import TokenOptions, train_tokenizer

TEXT = " ".join(f"w{n * n % 31}" for n in range(1, 700))


def make(family: str, **options) -> Run:
    tokenizer, text = train_tokenizer([TEXT], TokenOptions(tokens="word"))
    torch.manual_seed(5)
    kind = family_class(family)
    model = kind(tokenizer.size, kind.Config(**options))
    if model.learns == "counting":
        model.fit(text)
    return Run(model.eval(), tokenizer, describe(model))


def rows(model: LanguageModel, length: int = 47, count: int = 5) -> torch.Tensor:
    generator = torch.Generator().manual_seed(2)
    drawn = torch.randint(0, model.vocabulary_size, (count, length), generator=generator)
    return torch.cat([torch.full((count, 1), model.start), drawn], 1)


def test_an_average_of_all_words_gives_all_words_the_same_gradient(double):
    model = make("dan", width=7, lookback=0, dropout=0.0).model
    reach, first = gradient_reach(model, rows(model))
    assert first is not None
    assert first > 0
    assert list(reach) == [k for k in DISTANCES if k <= 46]
    assert list(reach.values()) == pytest.approx([1.0] * len(reach), rel=1e-10)


def test_a_window_has_no_gradient_beyond_it(double):
    model = make("window", width=7, window=5, distant=0, dropout=0.0).model
    reach, _ = gradient_reach(model, rows(model))
    assert all((value == 0) == (k > 5) for k, value in reach.items()), reach


def test_an_ngram_loses_exactly_nothing_with_words_beyond_its_order():
    run = make("ngram", order=3)
    model, words = run.model, run.tokenizer.encode(TEXT).ids_N.long()[: 7 * 97].view(7, 97)
    rows_BT = torch.cat([torch.full((7, 1), model.start), words], 1)
    assert gradient_reach(model, rows_BT) == ({}, None)
    _, rises = context_rises(model, rows_BT)
    beyond = {(rise.change, rise.beyond): rise.rise for rise in rises}
    assert {rise for (_, k), rise in beyond.items() if k >= 2} == {0.0}
    assert beyond["cut", 1] != 0


def test_powers_of_a_planted_matrix():
    model = make("rnn", width=7, layers=2).model
    for layer in model.modules():
        if isinstance(layer, nn.RNN):
            layer.weight_hh_l0.data = 0.5 * torch.eye(7)
    assert power_norms(model) == {f"layer{number}": {k: 0.5**k for k in DISTANCES} for number in (0, 1)}
    assert power_norms(make("lstm", width=7).model) == {}


@pytest.mark.parametrize(("family", "part", "place"), [("lstm", "forget", 1), ("gru", "update", 1)])
def test_a_gate_that_keeps_half_keeps_half_to_the_power_of_k(double, family, part, place):
    model = make(family, width=7).model
    for layer in model.modules():
        if isinstance(layer, nn.RNNBase):
            for parameter in layer.parameters():
                nn.init.zeros_(parameter)
            layer.bias_ih_l0.data[7 * place : 7 * (place + 1)] = math.log(3)  # sigmoid(log 3) = 3/4
    (curve,) = gate_products(model, rows(model)[:, :-1]).values()
    assert curve == pytest.approx({k: 0.75**k for k in DISTANCES if k <= 47}, rel=1e-9)
    assert list(gate_products(model, rows(model))) == [f"layer0.gates {part}"]


def test_steps_that_have_to_wait():
    assert sequential_steps(make("lstm", layers=3, width=7).model, 17) == 51
    assert sequential_steps(make("transformer", width=8, heads=2).model, 17) == 1


@pytest.mark.parametrize("family", ["rnn", "attentive", "transformer", "backpack"])
def test_every_family_is_measured(family):
    options = {"context": 23, "heads": 2} if family in ("transformer", "backpack") else {}
    measured = forgetting(make(family, width=8, **options), family, [Source("text", TEXT)])
    assert measured.reach[1] == 1
    assert max(measured.reach) == (20 if options else 70)
    assert measured.words == (22 if options else 86)
    assert {rise.change for rise in measured.rises} == {"cut", "shuffled", "thinned"}
    json.dumps(measured.to_json(), allow_nan=False)


def test_the_verb_draws_all_runs_in_one_picture(tmp_path, regard_cli, text):
    shared = ("--text", "text.txt", "--tokens", "char", "--steps", "2", "--width", "8", "--layers", "1")
    for family in ("rnn", "transformer"):
        done = regard_cli("train", family, *shared, "--out", family)
        assert done.returncode == 0, done.stderr
    shown = regard_cli("forget", "rnn", "transformer", "--out", "forget.html", "--json")
    assert [run["name"] for run in json.loads(shown.stdout)["runs"]] == ["rnn", "transformer"]
    assert "<svg" in (tmp_path / "forget.html").read_text()
    plain = regard_cli("forget", "rnn", "--out", "forget.svg").stdout
    assert "‖V^k‖" in plain
    assert (tmp_path / "forget.svg").read_text().startswith("<svg")


def test_what_cannot_be_measured_is_refused(regard_cli):
    kind = family_class("recurrent-translator")
    run = make("rnn", width=7)
    translator = Run(kind(11, kind.Config(width=5), 13), run.tokenizer, run.config, source=run.tokenizer)
    with pytest.raises(UserError, match="go on from a text, not on recurrent-translator"):
        forgetting(translator, "it", [Source("text", TEXT)])
    with pytest.raises(UserError, match="too short"):
        forgetting(run, "rnn", [Source("text", "w1")])
    assert regard_cli("forget").returncode == 2
