"""Edits: what each does to a row of weights, as files, through every verb, and what is refused."""

import json
import re
from pathlib import Path

import pytest
import torch

import regard
from regard.errors import UserError
from regard.inside.edit_files import edits_from_json, edits_to_json
from regard.parts.edits import (
    EDITS,
    Edit,
    Mean,
    Move,
    Patch,
    Permute,
    Scale,
    Set,
    Shift,
    Silence,
    Uniform,
    Zero,
)
from regard.parts.look import Place

AT = {"site": "attention", "rows": (2,)}
ROW = [0.2, 0.3, 0.5]  # of the row at 2, which sees all three words
POSITIONS = torch.arange(3).unsqueeze(0)


def changed(edit: Edit) -> list[float]:
    weights = torch.tensor(
        [[[[1.0, 0, 0], [0.25, 0.75, 0], ROW], [[1.0, 0, 0], [0.5, 0.5, 0], [0.6, 0.1, 0.3]]]],
        dtype=torch.float64,
    )
    place = Place(POSITIONS, POSITIONS, torch.ones(1, 3, 3).tril().bool(), "weights")
    after = edit(weights, place)
    assert torch.equal(after[:, :, :2], weights[:, :, :2])  # the other rows to the bit
    return after[0, 0, 2].tolist()


@pytest.mark.parametrize(
    ("edit", "row"),
    [
        (
            Set(**AT, columns=(1,), value=0.6),
            [0.4 * 2 / 7, 0.6, 0.4 * 5 / 7],
        ),  # the others share 0.4 as 2 : 5
        (Zero(**AT, columns=(1,)), [2 / 7, 0, 5 / 7]),
        (Zero(**AT), [0, 0, 0]),
        (Silence(**AT), [0, 0, 0]),
        (Silence(**AT, heads=(1,)), ROW),
        (Scale(**AT, columns=(2,), by=3), [0.2 / 2, 0.3 / 2, 1.5 / 2]),  # 0.2 + 0.3 + 1.5 = 2
        (Uniform(**AT), [1 / 3, 1 / 3, 1 / 3]),
        (Uniform(**AT, columns=(0, 2)), [0.35, 0.3, 0.35]),
        (Move(**AT, source=2, to=0), [0.7, 0.3, 0]),
        (Move(**AT, source=2, to=0, share=0.4), [0.4, 0.3, 0.3]),
        (Permute(**AT, columns=(0, 1, 2), order=(2, 0, 1)), [0.5, 0.2, 0.3]),
        (Mean(**AT), [0.4, 0.2, 0.4]),  # of two heads
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Edit) else "",
)
def test_what_an_edit_makes_of_a_row(edit: Edit, row: list[float]):
    assert changed(edit) == pytest.approx(row, abs=1e-15)


def test_what_a_row_cannot_see_stays_hidden():
    weights = torch.tensor([[[[1.0, 0, 0], [0.25, 0.75, 0], ROW]]])
    place = Place(POSITIONS, POSITIONS, torch.ones(1, 3, 3).tril().bool(), "weights")
    for edit in (
        Set(site="attention", columns=(2,), value=0.5),
        Uniform(site="attention"),
        Move(site="attention", source=0, to=2),
        Permute(site="attention", columns=(0, 2), order=(2, 0)),
    ):
        after = edit(weights, place)[0, 0]
        assert after[0].tolist() == [1, 0, 0]
        assert float(after[1, 2]) == 0
        torch.testing.assert_close(after.sum(1), torch.ones(3), rtol=0, atol=1e-6)


def test_the_vocabularys_column_beside_the_words_gives_and_takes():
    """The vocabulary is weighed in the same softmax: its column is no position. Rows keep their sums."""
    weights = torch.tensor([[[[0.2, 0.3, 0.5]]]])
    place = Place(torch.tensor([[1]]), torch.tensor([[0, 1]]), torch.ones(1, 1, 2).bool(), "weights")
    after = Zero(site="attention", columns=(0,))(weights, place)[0, 0, 0].tolist()
    assert after == pytest.approx([0, 0.3 / 0.8, 0.5 / 0.8])


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("edited")
    (folder / "text.txt").write_text("the cat saw the dog and the dog saw the cat\n" * 40)
    for name, seed in (("run", 1), ("other", 2)):
        regard.train(
            "transformer", text=str(folder / "text.txt"), out=str(folder / name), tokens="word", seed=seed,
            layers=2, width=12, heads=3, context=31, batch=2, steps=3, evaluate_every=3,
        )  # fmt: skip
    return folder


ALL: list[Edit] = [
    Set(site="layer0.attention", heads=(1,), rows=(3,), columns=(1,), value=0.25),
    Scale(site="layer1.feed", rows=(2,), features=(0, 5), by=-2.0),
    Zero(site="layer0.attended", rows=(1,)),
    Mean(site="layer1.residual", rows=(3,), text="the dog saw the cat"),
    Uniform(site="layer1.attention", heads=(0,)),
    Permute(site="layer0.attention", heads=(2,), columns=(0, 1), order=(1, 0)),
    Move(site="layer1.attention", rows=(3,), source=0, to=2, share=0.5),
    Silence(site="layer0.attention", heads=(0,)),
    Shift(site="layer1.attention.scores", rows=(2,), columns=(1,), by=1.5),
    Patch(site="layer1.attention", heads=(1,), rows=(2,), text="cat the dog"),
    Patch(site="embedding", rows=(2,), text="saw cat dog"),
]


def test_an_edit_file_is_done_again_to_the_bit_by_every_verb(run: Path, regard_cli):
    assert {edit.name() for edit in ALL} == set(EDITS)
    regard.save_edits(run / "run", ALL, run / "edits.json")
    text = "the dog saw the"
    plain = regard.look(run / "run", text).record
    direct, replayed = (regard.look(run / "run", text, edit=edits) for edits in (ALL, run / "edits.json"))
    assert direct.record.surprisal == replayed.record.surprisal
    assert direct.record.surprisal != plain.surprisal
    assert direct.before.surprisal == plain.surprisal
    line = ("look", run / "run", "--text", text, "--edit", run / "edits.json", "--json")
    shown = json.loads(regard_cli(*line).stdout)
    assert shown["surprisal"] == direct.record.surprisal
    assert regard.look(run / "run", text).record.surprisal == plain.surprisal  # undoing is going back
    for edit in ALL:  # none of them does nothing
        changed = regard.look(regard.edited(run / "run", [edit]), text).record
        assert changed.likeliest != plain.likeliest, edit

    (run / "other.txt").write_text("the dog saw the cat")
    edited = regard.edited(run / "run", [ALL[0], ALL[7]])
    measured = regard.evaluate(edited, str(run / "other.txt"))
    (scored,) = regard.score(edited, str(run / "other.txt"))
    assert measured.loss == pytest.approx(-sum(token.log_prob for token in scored) / len(scored))
    regard.save_edits(run / "run", [ALL[0], ALL[7]], run / "two.json")
    line = ["--edit", str(run / "two.json"), "--json"]
    shown = regard_cli("evaluate", run / "run", "--text", run / "other.txt", *line)
    assert json.loads(shown.stdout)["loss"] == measured.loss
    texts = regard.generate(edited, prompt="the dog", length=7, temperature=0)
    greedy = ["--prompt", "the dog", "--length", "7", "--temperature", "0"]
    shown = regard_cli("generate", run / "run", *greedy, *line)
    assert json.loads(shown.stdout)["texts"] == texts


def test_edits_are_kept_with_the_run_they_were_made_for(run: Path, regard_cli):
    written = '{"do": "silence", "site": "layer*.attention", "heads": [1]}'
    shown = regard_cli(
        "look", run / "run", "--text", "the dog", "--edit", written, "--save-edit", run / "kept.json"
    )
    assert shown.returncode == 0
    assert re.search(r"the +\d\.\d\d \([+-]\d\.\d\d\)", shown.stdout)
    kept = json.loads((run / "kept.json").read_text())
    assert kept["edits"] == [{"site": "layer*.attention", "do": "silence", "heads": [1]}]
    refused = regard_cli("generate", run / "other", "--edit", run / "kept.json")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "made for another run" in refused.stderr
    late = regard_cli(
        "look", run / "run", "--text", "the dog", "--edit", '{"do": "zero", "site": "embedding", "rows": [9]}'
    )
    assert "the edits name positions [9], and the text ends at 2" in late.stderr


def test_json_there_and_back():
    kept = json.loads(json.dumps(edits_to_json(ALL, "abc")))
    assert edits_from_json(kept, "abc", "file") == ALL
    with pytest.raises(UserError, match="made for another run"):
        edits_from_json(kept, "abd", "file")


@pytest.mark.parametrize(
    ("written", "words"),
    [
        ("nowhere.json", "nowhere.json: cannot be read"),
        ("[1", "`edit`: is not JSON"),
        ("", "`edit` is empty"),
        ('{"do": "scale", "site": "embedding", "by": NaN}', "NaN is no number"),
        ('{"do": "scale", "site": "embedding", "by": 1e39}', "do not go so far"),
        ('{"do": "zero", "site": "embedding", "rows": [31]}', "no position 31: the model sees 31 tokens"),
        ('{"do": "burn", "site": "embedding"}', "the edits are: set, scale"),
        ('{"do": "zero"}', "zero: 'site' is missing; it has: site, heads"),
        ('{"do": "scale", "site": "embedding"}', "scale: 'by' is missing"),
        (
            '{"do": "zero", "site": "embedding", "row": [1]}',
            "zero: 'row' is not known here; it has: site, heads",
        ),
        ('{"do": "zero", "site": "embedding", "rows": 1}', "'rows' must be a list; not 1"),
        ('{"do": "zero", "site": "layer9.feed"}', "no site matches 'layer9.feed'; there are: embedding"),
        (
            '{"do": "zero", "site": "layer0.attention", "heads": [3]}',
            "layer0.attention has heads from 0 to 2; there is no 3",
        ),
        ('{"do": "zero", "site": "embedding", "heads": [0]}', "embedding has no heads"),
        ('{"do": "zero", "site": "embedding", "columns": [0]}', "embedding has no columns"),
        ('{"do": "zero", "site": "embedding", "features": [12]}', "features from 0 to 11; there is no 12"),
        ('{"do": "uniform", "site": "embedding"}', "uniform changes weights; embedding holds values"),
        (
            '{"do": "shift", "site": "layer0.attention", "by": 1}',
            "shift changes scores or values; layer0.attention holds weights",
        ),
        ('{"do": "set", "site": "layer0.attention", "value": 1.5}', "makes a row sum to more than 1"),
        ('{"do": "mean", "site": "embedding"}', "name the text over whose positions"),
        (
            '{"do": "permute", "site": "layer0.attention", "columns": [0], "order": [1]}',
            "must name the same positions",
        ),
        (
            '{"do": "patch", "site": "embedding", "text": "the", "rows": [5]}',
            "the other text has positions 0 to 1, but the edit needs position 5",
        ),
    ],
)
def test_what_does_not_fit_is_told(run: Path, written: str, words: str):
    with pytest.raises(UserError, match=re.escape(words)):
        regard.look(regard.edited(run / "run", written), "the dog saw the cat and")


def test_counts_cannot_be_edited(tmp_path: Path):
    (tmp_path / "text.txt").write_text("a b c\n" * 9)
    trained = regard.train("ngram", text=str(tmp_path / "text.txt"), out=str(tmp_path / "run"))
    with pytest.raises(UserError, match="ngram has no sites"):
        regard.edited(trained.run, [Zero(site="attention")])
