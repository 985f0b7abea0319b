"""Senses: read off exactly, edited by word, patches that load again and are refused by another model."""

import json
from pathlib import Path

import pytest
import torch

import regard
from regard.errors import Notice, UserError
from regard.inside.edit_model import tensor_hashes
from regard.inside.sense_table import bias_ratio, contributions, direction, said, sense_vectors

TEXT = "the cat saw the dog and the dog saw the cat\na bird sang in a tree and he ran but she sat\n" * 20
WITH, WITHOUT = "the dog saw the", "a bird sang in a tree"


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("senses")
    (folder / "text.txt").write_text(TEXT)
    for name, seed in (("run", 1), ("other", 2)):
        regard.train(
            "backpack",
            text=str(folder / "text.txt"),
            out=str(folder / name),
            tokens="word",
            document="line",
            seed=seed,
            layers=1,
            width=12,
            heads=2,
            senses=3,
            context=19,
            batch=2,
            steps=3,
            evaluate_every=3,
        )
    return folder


def log_probs(run, text: str) -> torch.Tensor:
    ids = torch.tensor([[run.tokenizer.start, *run.tokenizer.prompt(text)]])
    with torch.no_grad():
        return run.model.read_from_start(ids)[0].log_probs()[0]


def test_contributions_sum_to_the_score(folder):
    run = regard.load(folder / "run")
    found = contributions(run, WITH, "cat")
    assert found.next == ["the", "dog", "saw", "the", "cat"]
    totals = found.values_TLT.sum((1, 2)) + torch.tensor(found.bias)
    # scores of two words after one text differ as their log-probabilities do
    other = contributions(run, WITH, "bird")
    difference = float(totals[-1] - other.values_TLT[-1].sum()) - other.bias[-1]
    cat, bird = (run.tokenizer.prompt(word)[0] for word in ("cat", "bird"))
    own = log_probs(run, WITH)[-1]
    assert difference == pytest.approx(float(own[cat] - own[bird]), abs=1e-5)


def test_a_sense_is_the_vector_that_the_model_computes_and_says_what_it_reads_out(folder):
    model = regard.load(folder / "run").model
    ids = torch.tensor([3, 5, 7])
    with torch.no_grad():
        expected = model.senses(model.embedding(ids.unsqueeze(1)))[:, :, 0]
        scores = expected[1] @ model.embedding.weight[: model.vocabulary_size].T
    torch.testing.assert_close(sense_vectors(model, ids), expected, rtol=1e-5, atol=1e-6)
    centred = scores - scores.mean(1, keepdim=True)
    torch.testing.assert_close(said(model, expected[1]), centred, rtol=1e-4, atol=1e-5)


def test_a_direction_is_the_difference_of_two_readouts(folder):
    run = regard.load(folder / "run")
    he, she = (run.tokenizer.prompt(word)[0] for word in ("he", "she"))
    expected = run.model.embedding.weight[he] - run.model.embedding.weight[she]
    torch.testing.assert_close(
        torch.tensor(direction(run.model, run.tokenizer, ["he", "she"])), expected.detach()
    )


@pytest.mark.parametrize(
    "edit",
    [
        {"do": "scale", "by": 3.0, "sense": [1]},
        {"do": "remove", "sense": [0, 2]},
        {"do": "swap", "sense": [0, 2]},
        {"do": "project", "direction_of": ["he", "she"]},
    ],
    ids=lambda edit: edit["do"],
)
def test_only_texts_with_the_word_change_and_a_patch_loads_again(folder, edit):
    patch = folder / f"{edit['do']}.json"
    result = regard.senses(folder / "run", "dog", save=patch, **edit)
    plain = regard.load(folder / "run")
    direct, loaded = regard.edited(plain, result.edits), regard.edited(plain, patch)
    assert torch.equal(log_probs(direct, WITHOUT), log_probs(plain, WITHOUT))
    assert not torch.equal(log_probs(direct, WITH), log_probs(plain, WITH))
    assert torch.equal(log_probs(direct, WITH), log_probs(loaded, WITH))
    before = log_probs(plain, WITH)
    assert torch.equal(log_probs(direct, WITH)[:2], before[:2])  # ahead of the word
    every = regard.senses(folder / "run", "dog", every_word=True, **edit).edits
    assert not torch.equal(log_probs(regard.edited(plain, every), WITHOUT), log_probs(plain, WITHOUT))


def test_generated_texts_know_the_word_wherever_it_stands(folder):
    """Token by token, in new windows and padded beside a longer row: the same as reading the text whole."""
    plain = regard.load(folder / "run")
    edited = regard.edited(plain, regard.senses(folder / "run", "dog", do="scale", by=5.0).edits)
    ids = [edited.tokenizer.start, *edited.tokenizer.prompt(WITH)]
    whole, state = log_probs(edited, WITH), edited.model.begin(2)
    rows = torch.tensor([[edited.model.padding, *ids], [ids[0], *ids]])[:, :-1]
    with torch.no_grad():
        padded, state = edited.model(rows, state)
        last, _ = edited.model(torch.tensor([[ids[-1]], [ids[-1]]]), state)
    torch.testing.assert_close(padded.log_probs()[0, 1:], whole[:-1], rtol=0, atol=1e-5)
    torch.testing.assert_close(last.log_probs()[0, 0], whole[-1], rtol=0, atol=1e-5)
    assert len(regard.generate(edited, prompt="the dog", length=25, temperature=0)[0].split()) > 19


def test_a_removed_sense_adds_nothing(folder):
    edits = regard.senses(folder / "run", "dog", do="remove", sense=[1]).edits
    found = contributions(regard.edited(folder / "run", edits), WITH, None)
    place = found.tokens.index("dog")
    assert not found.values_TLT[:, 1, place].any()
    assert found.values_TLT[-1, 0, place] != 0


def test_a_direction_that_is_projected_out_says_nothing(folder):
    run = regard.load(folder / "run")
    edits = regard.senses(run, "dog", do="project", direction_of=["he", "she"]).edits
    he, she, dog = (run.tokenizer.prompt(word)[0] for word in ("he", "she", "dog"))
    raised = said(run.model, sense_vectors(regard.edited(run, edits).model, torch.tensor([dog]))[0])
    torch.testing.assert_close(raised[:, he], raised[:, she], rtol=0, atol=1e-5)


def test_bias_and_steering(folder):
    run = regard.load(folder / "run")
    own = log_probs(run, "a bird")[-1]
    he, she = (run.tokenizer.prompt(word)[0] for word in ("he", "she"))
    ratio = float((own[he] - own[she]).abs().exp())
    assert bias_ratio(run, ["a bird"], ["he", "she"]) == pytest.approx(ratio, rel=1e-5)
    (folder / "prompts.txt").write_text("a bird\nthe dog saw\n")
    result = regard.senses(
        run,
        "dog",
        do="project",
        direction_of=["he", "she"],
        every_word=True,
        prompts=folder / "prompts.txt",
        contrast=["he", "she"],
    )
    assert result.bias is not None
    steered = regard.senses(run, "cat", do="steer", sense=[0], by=20.0, text=WITHOUT)
    assert steered.contributions is not None
    word, _ = regard.senses(run, "cat").senses[0][0].says[0]
    assert steered.contributions.next[-1] == word  # the word that the sense says is the likeliest now


def test_a_patch_of_another_model_names_the_tensor(folder, regard_cli):
    patch = folder / "patch.json"
    regard.senses(folder / "run", "dog", do="remove", sense=[1], save=patch)
    shown = regard_cli("generate", folder / "other", "--edit", patch)
    assert (shown.returncode, shown.stdout) == (2, "")
    assert "made for another run (trunk.blocks.0.attention_norm.weight differs; 30 of 30" in shown.stderr
    assert json.loads(patch.read_text())["tensors"] == tensor_hashes(regard.load(folder / "run").model)
    assert regard_cli("generate", folder / "run", "--edit", patch, "--length", "3").returncode == 0
    sheet = folder / "sheet.html"
    shown = regard_cli(
        "senses", folder / "run", "dog", "cat", "--text", WITH, "--edit", patch, "--out", sheet
    )
    assert shown.returncode == 0, shown.stderr
    assert "dog ~ cat" in shown.stdout
    assert "before the edit" in sheet.read_text()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"words": "dog", "do": "remove", "sense": [3]}, "there is no sense 3: they go from 0 to 2"),
        ({"words": "the dog"}, "not one token"),
        ({"words": "dog", "do": "swap", "sense": [1]}, "name the two senses"),
        ({"words": "dog", "do": "project"}, "`direction_of` takes one word, or two"),
        ({"words": "dog", "sense": [1]}, "go with `do`"),
        ({"words": "dog", "do": "steer", "sense": [1]}, "say with `by`"),
        ({"words": "dog", "do": "steer"}, "name one word"),
        ({"words": "dog", "save": "patch.json"}, "`save` goes with `do`"),
        ({"words": "dog", "contrast": ["he", "she"]}, "`contrast` goes with `prompts`"),
        ({"words": []}, "which words"),
    ],
)
def test_what_is_refused(folder, options, words):
    with pytest.raises(UserError, match=words):
        regard.senses(folder / "run", **options)


def test_an_edit_of_no_word_of_the_text_is_told(folder):
    with pytest.warns(Notice, match="none of the edited words"):
        regard.senses(folder / "run", "dog", do="remove", text=WITHOUT)
    regard.senses(folder / "run", "dog", do="remove", text=WITH)  # no notice: warnings are errors


def test_a_family_without_senses_is_refused(tmp_path, text):
    regard.train("ngram", text=str(text), tokens="char", out=str(tmp_path / "run"))
    with pytest.raises(UserError, match="ngram has no senses; train a backpack"):
        regard.senses(tmp_path / "run", "a")
