"""Doubt of masked readers: the row of a blank decides its word, and the words stand on both sides of it."""

import json
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import regard
from regard.errors import UserError
from regard.inside import moved_attention as moving
from regard.inside.attribution import attention_scores, integrated_gradients, occlusion, value_zeroing
from regard.inside.blank_subject import WordOfBlank, blank_subject
from regard.inside.edit_model import edit_model
from regard.inside.least_change import least_changes
from regard.inside.moved_attention import attention_rows
from regard.inside.observe import Reading
from regard.models.reader import Reader
from regard.parts.edits import Uniform
from regard.tokens.choose import TokenOptions, train_tokenizer

TEXT = "the cat chases the bird and the dog sleeps"
BLANK, OTHER = 3, 6  # positions of two blanks


def make() -> WordOfBlank:
    tokenizer, _ = train_tokenizer([f"{TEXT}\n" * 5], TokenOptions(tokens="word"))
    torch.manual_seed(5)
    model = Reader(tokenizer.size, Reader.Config(encoder="transformer", layers=2, heads=2, width=12)).eval()
    ids = [*tokenizer.prompt(TEXT), tokenizer.end]
    ids[BLANK] = ids[OTHER] = model.blank
    names = [*TEXT.split(), "</s>"]
    return blank_subject(model, tokenizer, Reading(ids, names), None, BLANK)


def test_the_words_are_all_others_and_the_blanks_row_weighs_them(double):
    subject = make()
    assert subject.names == tuple(word for place, word in enumerate(TEXT.split()) if place != BLANK)
    rows = attention_rows(subject)
    assert [*rows] == ["layer0.attention", "layer1.attention"]
    own = subject.model
    for name, row in rows.items():
        with torch.no_grad():
            record = moving.Recorder([own.sites()[name]])
            own(torch.tensor([subject.ids]), record.look())
        whole_HQK = record.weighings[name].weights_BHQK[0]
        torch.testing.assert_close(row.weights_HK, whole_HQK[:, BLANK])
    # the blank itself and the end of the text have weight, and are no words
    assert 0 < float(attention_scores(subject, rows).sum()) < 1


def test_occlusion_leaves_one_word_out_and_keeps_both_blanks(double):
    subject = make()
    scores = occlusion(subject)
    for number, without in enumerate(subject.positions):
        ids = [token for place, token in enumerate(subject.ids) if place != without]
        at = BLANK - (without < BLANK)
        with torch.no_grad():
            features_1TD = subject.model(torch.tensor([ids]))
            log_prob = subject.model.words(features_1TD[:, at]).log_probs()[0, 0, subject.target]
        assert float(scores[number]) == pytest.approx(subject.log_prob - float(log_prob), abs=1e-9)


def test_integrated_gradients_are_complete_and_values_are_zeroed(double):
    subject = make()
    _, gap = integrated_gradients(subject, nodes=128)
    assert abs(gap) < 1e-6
    zeroed = value_zeroing(subject, list(attention_rows(subject)))
    assert zeroed is not None
    assert float(zeroed.abs().max()) > 0


def test_weights_that_are_put_are_those_of_an_edit(double):
    subject = make()
    rows = attention_rows(subject)
    uniform = {name: row.uniform().unsqueeze(0) for name, row in rows.items()}
    put = subject.step(subject.prefix(1), moving.put(uniform, subject.deciding))
    tokenizer, _ = train_tokenizer([f"{TEXT}\n" * 5], TokenOptions(tokens="word"))
    edits = [Uniform(site=name, rows=(BLANK,)) for name in rows]
    edited = replace(subject, model=edit_model(subject.model, tokenizer, edits))
    torch.testing.assert_close(put, edited.log_probs(), rtol=1e-9, atol=1e-9)


def test_a_least_change_says_the_word(double):
    subject = make()
    tokenizer, _ = train_tokenizer([f"{TEXT}\n" * 5], TokenOptions(tokens="word"))
    with torch.no_grad():
        second = int(subject.log_probs()[0].argsort(descending=True)[1])
    names = {"read": [*TEXT.split(), "</s>"]}
    found = list(least_changes(subject, attention_rows(subject), tokenizer, (second, "x"), names))
    reached = [one for one in found if one.moved is not None]
    for one in reached:
        assert {move.rows for move in one.edits} == {(BLANK,)}
        changed = replace(subject, model=edit_model(subject.model, tokenizer, one.edits))
        assert int(changed.log_probs()[0].argmax()) == second


def test_the_verb_doubts_a_blank(tmp_path: Path, regard_cli):
    (tmp_path / "text.txt").write_text(f"{TEXT}\n" * 30)
    options = {"encoder": "transformer", "heads": 2, "width": 12, "context": 31, "steps": 3, "batch": 4}
    regard.train("reader", text=str(tmp_path / "text.txt"), out=str(tmp_path / "run"), hold=0, **options)
    text = "the ___ chases the ___ sleeps"
    first, second = (regard.doubt(tmp_path / "run", text, position=place) for place in (None, 4))
    assert first.words == ["the", "chases", "the", "___", "sleeps"]
    assert second.words == ["the", "___", "chases", "the", "sleeps"]
    done = regard_cli("doubt", str(tmp_path / "run"), "--text", text, "--position", "2")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no blank at position 2; the blanks stand at: 1, 4" in done.stderr
    done = regard_cli("doubt", str(tmp_path / "run"), "--text", text, "--word", "dog", "--json")
    assert json.loads(done.stdout)["target"] == "dog"
    with pytest.raises(UserError, match="there is no blank"):
        regard.doubt(tmp_path / "run", "the cat")
