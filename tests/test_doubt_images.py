"""Doubt of captioners: the words of a sheet are the regions of an image."""

import json
import math
from dataclasses import replace

import pytest
import torch
from torch import Tensor

import regard
from regard.errors import UserError
from regard.inside import moved_attention as moving
from regard.inside.attribution import (
    attention_scores,
    gradient_times_input,
    integrated_gradients,
    occlusion,
    value_zeroing,
)
from regard.inside.edit_model import edit_model
from regard.inside.image_subject import NextOfCaption, caption_subject
from regard.inside.least_change import least_changes
from regard.inside.moved_attention import attention_rows
from regard.inside.observe import Reading
from regard.models import family_class
from regard.parts.look import Look, Place
from regard.tokens.choose import TokenOptions, train_tokenizer

WORDS = "a red circle left of a blue square"
SIDE, PATCH, FILLED = 16, 4, 11  # pixels; the image fills 3 of 4 columns of regions, the last not wholly


@pytest.fixture
def short_search(monkeypatch):
    monkeypatch.setattr(moving, "STEPS", 20)


def subject_of(family: str, **options) -> NextOfCaption:
    tokenizer, _ = train_tokenizer([f"{WORDS}\n" * 5], TokenOptions(tokens="word"))
    torch.manual_seed(11)
    kind = family_class(family)
    config = kind.Config(width=8, dropout=0.0, patch=PATCH, **options)
    model = kind(tokenizer.size, config, (3, SIDE, SIDE)).eval()
    image = torch.rand(1, 3, SIDE, SIDE) * 2 - 1
    image[..., FILLED:] = torch.nan
    ids = [tokenizer.start, *tokenizer.prompt(WORDS), tokenizer.end]
    names = [tokenizer.name(token) for token in ids]
    reading = Reading(ids, names, image, model.given.region_names(), ended=True)
    return caption_subject(model, tokenizer, reading, position=2)


CAPTIONERS = [("captioner", {}), ("captioner", {"state": "before"}), ("transformer-captioner", {"heads": 2})]


@pytest.mark.parametrize(("family", "options"), CAPTIONERS)
def test_regions_outside_the_image_are_no_words(double, family, options):
    subject = subject_of(family, **options)
    assert subject.names == tuple(str(4 * y + x) for y in range(4) for x in range(3))
    assert subject.target_name.strip() == "circle"
    # The words' own attention is all of the attention.
    scores = attention_scores(subject, attention_rows(subject))
    torch.testing.assert_close(scores.sum().double(), torch.tensor(1.0).double(), atol=1e-6, rtol=0)


@pytest.mark.parametrize(("family", "options"), CAPTIONERS)
def test_integrated_gradients_of_regions_are_complete(double, family, options):
    subject = subject_of(family, **options)
    scores, gap = integrated_gradients(subject, nodes=64)

    def nothing(regions: Tensor, place: Place) -> Tensor:
        hidden = torch.zeros_like(regions)
        return hidden + regions * (place.row_BT < 0).unsqueeze(2)

    with torch.no_grad():
        empty = float(subject.log_probs(look=Look(changes={"regions": nothing}))[0, subject.target])
    assert float(scores.sum()) == pytest.approx(subject.log_prob - empty, abs=1e-6)
    assert abs(gap) < 1e-6
    assert float(gradient_times_input(subject).abs().max()) > 0


def test_a_region_that_is_left_out_is_a_region_that_no_head_sees(double):
    # A patch holds its own pixels alone, so leaving it out is the same as scores of -inf in every layer.
    subject = subject_of("transformer-captioner", heads=2)
    expected = []
    for region in subject.positions:

        def hidden(scores: Tensor, place: Place, region: int = region) -> Tensor:
            assert place.column_BK is not None
            return scores.masked_fill((place.column_BK == region)[:, None, None], -math.inf)

        sites = [name for name in subject.model.sites() if name.endswith("cross.scores")]
        assert sites
        with torch.no_grad():
            left = subject.log_probs(look=Look(changes=dict.fromkeys(sites, hidden)))[0, subject.target]
        expected.append(subject.log_prob - float(left))
    scores = occlusion(subject)
    torch.testing.assert_close(scores, torch.tensor(expected), rtol=1e-9, atol=1e-12)
    assert float(scores.abs().max()) > 1e-4


def test_zeroed_values_count_once_for_each_region(double):
    # The first layer's values are linear in the regions: zeroing all of them one by one changes something.
    scores = value_zeroing(subject_of("transformer-captioner", heads=2), ["layer0.cross"])
    assert scores is not None
    assert len(scores) == 12
    assert float(scores.abs().max()) > 0


def test_the_step_is_the_same_as_the_whole(double):
    for family, options in CAPTIONERS:
        subject = subject_of(family, **options)
        uniform = {name: row.uniform().repeat(3, 1, 1) for name, row in attention_rows(subject).items()}
        one, copies = subject.prefix(3), subject.copied(subject.prefix(1), 3)
        steps = [subject.step(state, moving.put(uniform)) for state in (one, copies)]
        torch.testing.assert_close(*steps, rtol=1e-10, atol=1e-10)
        step = subject.step(subject.prefix(3))
        torch.testing.assert_close(step, subject.log_probs(3), rtol=1e-10, atol=1e-10)


def test_the_least_change_replays_in_the_whole_caption():
    for family, options in CAPTIONERS:
        subject = subject_of(family, **options)
        with torch.no_grad():
            for parameter in subject.model.parameters():
                parameter.mul_(3)  # so that words compete
        tokenizer, _ = train_tokenizer([f"{WORDS}\n" * 5], TokenOptions(tokens="word"))
        rows = attention_rows(subject)
        uniform = {name: row.uniform().unsqueeze(0) for name, row in rows.items()}
        said = subject.log_probs(look=moving.put(uniform))[0].argsort(descending=True)
        own = int(subject.log_probs()[0].argmax())
        word = next(token for token in said.tolist() if token != own)
        names = {"read": WORDS.split(), "given": [str(region) for region in range(16)]}
        for change in least_changes(subject, rows, tokenizer, (word, "it"), names):
            # The steps see one row alone, and the edits are applied while the whole caption is read again.
            changed = replace(subject, model=edit_model(subject.model, tokenizer, change.edits))
            again = changed.log_probs()[0].detach()
            assert (change.moved is None) == (int(again.argmax()) == own)
            if change.moved is not None:
                assert int(again.argmax()) == word


@pytest.mark.parametrize("family", ["captioner", "transformer-captioner"])
def test_the_verb_reads_an_image(tmp_path, short_search, family):
    regard.scenes(tmp_path / "scenes", count=20, size=32)
    table = tmp_path / "scenes" / "captions.tsv"
    small = {"width": 8, "steps": 2, "batch": 4, "evaluate_every": 2, "side": 16}
    more = {"heads": 2} if family == "transformer-captioner" else {}
    folder = str(tmp_path / "run")
    regard.train(family, images=tmp_path / "scenes", captions=table, out=folder, **small, **more)
    image = tmp_path / "scenes" / "00.png"
    text = table.read_text().splitlines()[0].split("\t")[1]
    doubted = regard.doubt(folder, text, image=image, out=tmp_path / "sheet.html")
    assert doubted.parts == "regions"
    assert len(doubted.words) == 16
    methods = [one.method for one in doubted.attributions]
    expected = ["attention", "gradient x input", "integrated gradients", "occlusion", "value-zeroing"]
    assert [one for one in expected if one in methods] == methods
    page = (tmp_path / "sheet.html").read_text()
    assert page.count('href="#whole"') == len(methods) + 1
    assert "regions of the image" in page
    json.dumps(doubted.to_json(), allow_nan=False)
    for wrong, words in (
        ({}, "name the image"),
        ({"image": image, "target": "ein"}, "for translators"),
        ({"image": image, "controls": True}, "`controls` are for language models"),
        ({"image": image, "word": "zebra"}, "not one token"),
    ):
        with pytest.raises(UserError, match=words):
            regard.doubt(folder, text, **wrong)


def test_an_image_is_for_captioners(tmp_path):
    regard.train("transformer", out=str(tmp_path / "run"), steps=1, layers=1, width=8, heads=2, context=13)
    with pytest.raises(UserError, match="does not read images"):
        regard.doubt(tmp_path / "run", "the cat", image=tmp_path / "no.png")
