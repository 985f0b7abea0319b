"""The least change of attention: planted truths, the edits that replay it, and what cannot be reached."""

import json
import math
from dataclasses import replace
from itertools import product

import pytest
import torch
from test_doubt import made, subject_of
from torch import Tensor

import regard
from regard.errors import UserError
from regard.inside import moved_attention
from regard.inside.edit_model import edit_model
from regard.inside.inverse import LEAD, Search, Weights
from regard.inside.least_change import least_changes, moves_to, transport
from regard.inside.moved_attention import Row, attention_rows, put
from regard.parts.look import Place
from regard.tokens.choose import TokenOptions, train_tokenizer

TEXT = "the cat saw the dog and the dog saw the cat in a tree\n" * 5
NAMES = {"read": ["<s>", "the", "cat", "saw", "the", "dog", "and", "the", "dog"], "given": []}


def linear_search(weights_HK: Tensor, gains_HK: Tensor, offset: float = 0.0) -> Search:
    """Word 1 leads word 0 by the sum of weights times gains, plus the offset."""

    def predict(weights: Weights) -> Tensor:
        lead_W = (weights["attention"] * gains_HK).sum((1, 2)) + offset
        return torch.stack([torch.zeros_like(lead_W), lead_W], 1).log_softmax(1)

    seen = torch.ones_like(weights_HK, dtype=torch.bool)
    row = Row(weights_HK, seen, torch.arange(weights_HK.shape[1]))
    return Search(predict, {"attention": row}, 1)


def test_the_least_change_of_a_linear_model_is_the_missing_lead_over_the_best_gain(double):
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]])
    gains = torch.tensor([[-1.0, 0.0, 2.0], [-1.0, 0.0, 1.0]])
    search = linear_search(weights, gains, offset=-0.3)
    # the lead is -0.5 + 0.4 - 0.1 + 0.3 - 0.3 = -0.2; from column 0 to column 2 of head 0, each unit gains 3
    expected = (0.2 + LEAD) / 3
    found = search.least()
    assert found is not None
    assert float(search.size(found)) == pytest.approx(expected, abs=1e-5)
    (move,) = moves_to(found, search.rows, 7)
    assert (move.heads, move.rows, move.source, move.to) == ((0,), (7,), 0, 2)
    assert move.share == pytest.approx(expected / 0.5, abs=1e-4)


def test_what_no_weights_reach_is_not_reached(double):
    weights = torch.tensor([[0.5, 0.3, 0.2], [0.1, 0.6, 0.3]])
    search = linear_search(weights, torch.tensor([[-1.0, -0.1, -2.0], [-1.0, 0.0, -1.0]]))
    assert search.least() is None
    assert search.highest == pytest.approx(1 / (1 + math.exp(0.1)), abs=1e-9)  # the best corner leads by -0.1


def test_no_coarse_grid_of_weights_holds_a_smaller_change(double):
    """Two heads that see three positions, against every point of a grid over both simplices."""
    model = made("transformer", width=8, heads=2, layers=1, context=23, dropout=0.0)
    model.trunk.blocks[0].project.weight.data[16:] *= 300  # what is attended to decides
    subject = subject_of(model, "cat saw")
    rows = attention_rows(subject)
    (row,) = rows.values()
    steps = 12
    simplex = [(a, b, steps - a - b) for a in range(steps + 1) for b in range(steps + 1 - a)]
    worlds = torch.tensor(list(product(simplex, simplex))).to(row.weights_HK) / steps
    with torch.no_grad():
        says_W = subject.step(subject.prefix(len(worlds)), put({"layer0.attention": worlds})).argmax(1)
        own = int(subject.log_probs()[0].argmax())
    size_W = (worlds - row.weights_HK).abs().sum((1, 2)) / 2
    tokenizer, _ = train_tokenizer([TEXT], TokenOptions(tokens="word"))
    others = [word for word in says_W.unique().tolist() if word != own]
    assert others, "the planted model must say several words"
    for word in others:
        (change,) = least_changes(subject, rows, tokenizer, (word, "it"), NAMES)
        assert change.moved is not None
        # 3% for a local search, and 3% for fewer moves
        assert change.moved <= 1.06 * float(size_W[says_W == word].min())


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("attentive", {"width": 7}),
        ("attentive", {"width": 7, "copy": "average"}),
        ("backpack", {"width": 8, "heads": 2, "senses": 2, "context": 23}),
    ],
)
def test_the_change_of_all_sites_is_the_least_and_replays_in_the_whole_text(family, options):
    """The figures are those of the edits, which `edit_model` applies while the whole text is read again."""
    model = made(family, **options)
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)  # so that words compete
    subject = subject_of(model)
    tokenizer, _ = train_tokenizer([TEXT], TokenOptions(tokens="word"))
    second = int(subject.log_probs()[0].argsort(descending=True)[1])
    *alone, together = least_changes(subject, attention_rows(subject), tokenizer, (second, "it"), NAMES)
    assert together.moved is not None
    assert together.moved <= min([one.moved for one in alone if one.moved is not None], default=math.inf)
    changed = replace(subject, model=edit_model(model, tokenizer, together.edits)).log_probs()[0].detach()
    assert int(changed.argmax()) == second
    assert together.probability == pytest.approx(float(changed[second].exp()))
    assert len(together.edits) == len(together.words)


def test_attention_that_is_not_used_makes_the_model_say_nothing_else(double):
    """All values are equal, so the mixed value does not depend on the weights."""
    model = made("transformer", width=8, heads=2, layers=1, context=23, dropout=0.0)
    model.trunk.blocks[0].project.weight.data[16:] = 0
    subject = subject_of(model)
    tokenizer, _ = train_tokenizer([TEXT], TokenOptions(tokens="word"))
    second = int(subject.log_probs()[0].argsort(descending=True)[1])
    (change,) = least_changes(subject, attention_rows(subject), tokenizer, (second, "it"), NAMES)
    assert change.moved is None
    assert change.edits == ()
    assert change.probability == pytest.approx(change.before, abs=1e-12)


def test_transport_makes_the_new_weights():
    generator = torch.Generator().manual_seed(5)
    own_K, new_K = torch.rand(2, 7, generator=generator, dtype=torch.float64)
    own_K, new_K = own_K / own_K.sum(), new_K / new_K.sum()
    row = Row(own_K.unsqueeze(0), torch.ones(1, 7, dtype=torch.bool), torch.arange(7))
    weights = own_K.view(1, 1, 1, 7)
    seen = torch.ones(1, 1, 7, dtype=torch.bool)
    place = Place(torch.tensor([[4]]), torch.arange(7).unsqueeze(0), seen, holds="weights")
    for move in moves_to({"attention": new_K.view(1, 1, 7)}, {"attention": row}, 4):
        weights = move(weights, place)
    # a share has six digits, and at most 6 moves leave or reach a position
    torch.testing.assert_close(weights.flatten(), new_K, rtol=0, atol=6e-6)
    assert list(transport([0.5, 0.5], [0.5, 0.5])) == []


def test_an_edit_that_doubt_saves_makes_look_say_the_word(tmp_path, regard_cli, text, monkeypatch):
    monkeypatch.setattr(moved_attention, "STEPS", 5)  # the sheet is not what is tested
    options = ("--text", "text.txt", "--tokens", "char", "--steps", "30", "--copy", "average", "--width", "8")
    assert regard_cli("train", "attentive", *options, "--out", "run").returncode == 0
    run = regard.load(tmp_path / "run")
    looked = regard.look(run, "line 1 li", top=run.tokenizer.size)
    candidates = [word for word, _ in looked.record.likeliest[-1][1:]]
    for word in candidates:
        if regard.doubt(run, "line 1 li", say=word).least is not None:
            break
    doubted = regard.doubt(run, "line 1 li", say=word, save_edit=tmp_path / "edit.json")
    assert doubted.least is not None
    shown = regard_cli("look", "run", "--text", "line 1 li", "--edit", "edit.json", "--json")
    first = json.loads(shown.stdout)["likeliest"][-1][0]
    assert first["token"] == doubted.least.word
    assert first["probability"] == pytest.approx(doubted.least.probability, abs=1e-6)
    with pytest.raises(UserError, match="already"):
        regard.doubt(run, "line 1 li", say=looked.record.likeliest[-1][0][0])
    for wrong, words in (
        (("--say", "ab"), "not one token"),
        (("--save-edit", "edit.json"), "goes with --say"),
    ):
        refused = regard_cli("doubt", "run", "--text", "line", *wrong)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
        assert words in refused.stderr


def test_a_label_is_doubted_and_its_edit_replays(tmp_path, regard_cli, monkeypatch):
    """The pooling decides a label; `regard classify` replays the least change that gives another."""
    monkeypatch.setattr(moved_attention, "STEPS", 5)
    (tmp_path / "labelled.tsv").write_text(
        "".join(f"{w}\tthe {w} film {n % 7}\n" for n in range(60) for w in "ab")
    )
    options = {"labelled": str(tmp_path / "labelled.tsv"), "encoder": "dan", "layers": 1, "pool": "attention"}
    regard.train("classifier", out=str(tmp_path / "run"), steps=60, evaluate_every=60, width=7, **options)
    other = {"a": "b", "b": "a"}[regard.classify(tmp_path / "run", "the a b")[0].label]
    doubted = regard.doubt(tmp_path / "run", "the a b", say=other, save_edit=tmp_path / "edit.json")
    assert [one.sites for one in doubted.moved] == [("pooling",)]
    (integrated,) = [one for one in doubted.attributions if one.method == "integrated gradients"]
    assert abs(integrated.gap) < 0.01
    assert doubted.least is not None
    shown = regard.classify(tmp_path / "run", "the a b", edit=tmp_path / "edit.json")[0]
    assert shown.label == doubted.least.word
    assert shown.probability == pytest.approx(doubted.least.probability, abs=1e-6)
    for wrong, words in (
        (("--word", "c"), "the labels are: a, b"),
        (("--position", "1"), "--position are for"),
    ):
        refused = regard_cli("doubt", "run", "--text", "the a b", *wrong)
        assert (refused.returncode, refused.stdout, refused.stderr.count("\n")) == (2, "", 1)
        assert words in refused.stderr
