"""Head labels: planted heads are recovered without error, heads of random models get none."""

import json
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

import regard
from regard.errors import UserError
from regard.inside.head_scores import KINDS, Score, head_report
from regard.models import family_class
from regard.models.contract import LanguageModel, Padded, Prediction, State
from regard.models.wrappers.wrapper import Wrapper
from regard.parts.look import Look, Place
from regard.runs.run import Run, describe
from regard.text.files import Source
from regard.tokens.choose import TokenOptions, train_tokenizer

TEXT = "".join(f"the cat{n % 31} saw, and the dog{n % 29} ran . a bird{n % 37} sang\n" for n in range(97))
SOURCES = [Source("text", TEXT)]
SMALL: dict[str, dict[str, Any]] = {
    "transformer": {"layers": 2, "width": 20, "heads": 5, "context": 61},
    "backpack": {"layers": 2, "width": 12, "heads": 2, "senses": 3, "context": 61},
    "attentive": {"width": 7, "lookback": 61},
}


def tokens_and_text():
    return train_tokenizer([TEXT], TokenOptions(tokens="word"))


def make_run(
    family: str = "transformer", change: Callable[[LanguageModel], LanguageModel] = lambda m: m
) -> Run:
    tokenizer, text = tokens_and_text()
    torch.manual_seed(3)
    kind = family_class(family)
    model = kind(tokenizer.size, kind.Config(**SMALL.get(family, {})))
    if model.learns == "counting":
        model.fit(text)
    return Run(change(model.eval()), tokenizer, describe(model))


PLANTED = ["previous token", "induction", "same token", "delimiter or sink", "position"]


class Planted(Wrapper):
    """Each head of layer0.attention does what its number in PLANTED says, with 0.9 of its weight."""

    family = "planted"

    def begin(self, given: int | Tensor, look: Look | None = None) -> State:
        return self.model.begin(given, look)

    def forward(
        self, tokens_BT: Tensor, state: Any, look: Look | None = None, padded: Padded = "anywhere"
    ) -> tuple[Prediction, State]:
        length = tokens_BT.shape[1]
        column, row = torch.arange(length), torch.arange(length).unsqueeze(1)
        same = (tokens_BT.unsqueeze(2) == tokens_BT.unsqueeze(1)) & (column < row)
        wanted = torch.stack(
            [
                (column == row - 1).expand_as(same),
                torch.nn.functional.pad(same, (1, 0))[..., :-1] & (column <= row),
                same,
                (column == 0).expand_as(same),
                (column == row - 5).expand_as(same),
            ],
            1,
        )

        def plant(weights_BHQK: Tensor, place: Place) -> Tensor:
            assert place.visible_BTK is not None
            seen = place.visible_BTK.unsqueeze(1).expand_as(weights_BHQK)
            uniform = seen / seen.sum(3, keepdim=True)
            there = (wanted & seen).double()
            aimed = 0.9 * there / there.sum(3, keepdim=True).clamp(min=1) + 0.1 * uniform
            return torch.where(there.any(3, keepdim=True), aimed, uniform).to(weights_BHQK.dtype)

        look = (look or Look()).with_changes({"layer0.attention": plant})
        return self.model(tokens_BT, state, look, padded)


def test_planted_heads_are_recovered_without_error():
    run = make_run(change=Planted)
    report = head_report(run, SOURCES, control=make_run().model)
    labels = [report.label("layer0.attention", head) for head in range(5)]
    assert labels == PLANTED
    assert [report.label("layer1.attention", head) for head in range(5)] == [None] * 5
    first = report.heads[0].scores["previous token"]
    # the rows at t >= 2 see t + 1 columns: 0.9 and an even share of the other 0.1
    rows = range(2, 2 * 24 + 1)
    assert first.value == pytest.approx(0.9 + 0.1 * sum(1 / (t + 1) for t in rows) / len(rows), rel=1e-5)
    assert report.heads[4].offset == 5
    json.dumps(report.to_json(), allow_nan=False)


@pytest.mark.parametrize("family", ["transformer", "backpack", "attentive", "dan"])
def test_heads_of_a_random_model_get_no_label(family):
    report = head_report(make_run(family), SOURCES)
    assert report.heads
    assert [head.label for head in report.heads] == [None] * len(report.heads)
    assert all(0 <= head.entropy <= 1 + 1e-6 for head in report.heads)


def test_flat_attention_has_all_the_entropy_and_no_share():
    report = head_report(make_run("dan"), SOURCES)
    assert [head.entropy for head in report.heads] == [pytest.approx(1, abs=1e-6)]
    assert report.heads[0].scores["previous token"].share == pytest.approx(0, abs=1e-6)


def test_a_share_is_the_way_from_chance_to_one():
    assert Score(0.7, 0.4).share == pytest.approx(0.5)


def test_heads_of_a_translator_are_measured_on_both_sides(taught):
    report = regard.heads(taught / "back")
    sites = {head.site for head in report.heads}
    assert {"layer0.attention", "layer0.cross", "source.layer0.attention"} <= sites
    cross = next(head for head in report.heads if head.site == "layer0.cross")
    assert set(cross.scores) == {"delimiter or sink", "alignment", "position"}
    assert isinstance(report.heads[0].scores["induction"], Score)


def test_a_translator_that_has_learned_pairs_by_heart_aligns(taught):
    (head,) = regard.heads(taught / "run").heads
    assert head.site == "attention"
    assert head.scores["alignment"].share > 0.1  # half of the way is for better translators


def test_the_verb_writes_a_page_a_picture_and_numbers(tmp_path, regard_cli, text):
    options = ("--text", "text.txt", "--tokens", "char", "--steps", "3", "--layers", "1", "--width", "12")
    assert regard_cli("train", "transformer", *options, "--heads", "2", "--out", "run").returncode == 0
    shown = regard_cli("heads", "run", "--out", "heads.html", "--json")
    data = json.loads(shown.stdout)
    assert [head["label"] for head in data["heads"]] == [None, None]
    assert set(data["kinds"]) == set(KINDS)
    assert "previous token" in (tmp_path / "heads.html").read_text()
    plain = regard_cli("heads", "run", "--out", "heads.svg").stdout
    assert plain.splitlines()[1].startswith("layer0.attention head 0")
    assert (tmp_path / "heads.svg").read_text().startswith("<svg")
    (tmp_path / "text.txt").unlink()
    gone = regard_cli("heads", "run", "--json")
    assert "the built-in text" in json.loads(gone.stdout)["notes"][0]
    assert regard_cli("heads", "run", "--out", "heads.pdf").returncode == 2


@pytest.mark.parametrize(("family", "words"), [("ngram", "ngram has no attention"), ("lstm", "layer0.gates")])
def test_a_family_without_attention_says_what_it_has_instead(family, words):
    with pytest.raises(UserError, match=words):
        head_report(make_run(family), SOURCES)
