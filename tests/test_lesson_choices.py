"""Lessons beyond the lectures' own numbers: kernels, maps to values, subwords of names, sampling, padding."""

import math

import pytest
import torch

import regard
from regard.lessons.places import FEATURES
from regard.lessons.shipped import ids_of, shipped
from regard.lessons.walks_choice import DRAWS, gpt2_parameters
from regard.models.transformer import Transformer
from regard.parts.look import Look
from regard.text.stories import lines, made_names, strangers


def test_kernels_are_attention():
    shown = regard.lesson(
        "kernels", set={"keys": (0.0, 2.0), "values": (1.0, 3.0), "query": 0.0, "width": 1.0}
    )
    power = math.exp(-2)  # e^(-2^2 / 2)
    assert shown.value("weights") == pytest.approx([1 / (1 + power), power / (1 + power)])
    assert shown.value("guess") == pytest.approx((1 + 3 * power) / (1 + power))
    assert shown.value("output") == pytest.approx(shown.value("guess"))
    assert shown.value("largest difference of weights") < 1e-15
    assert set(shown.value("error when left out").values()) == {2}  # each is guessed by the other alone
    assert shown.value("guesses")["boxcar"] == 1  # the other key is farther than the width
    errors = regard.lesson("kernels").value("error when left out")
    assert min(errors, key=lambda name: errors[name]) == "w = 3"  # neither the narrowest nor the widest


def test_a_key_can_be_its_own_value():
    torch.manual_seed(1)
    options = {"layers": 1, "width": 6, "heads": 3, "context": 5, "positions": "none"}
    model = Transformer(7, Transformer.Config(**options, projections="key-is-value"))
    look = Look(["layer0.attention.key", "layer0.attention.value"])
    model.read_from_start(torch.tensor([[1, 2, 3]]), look=look)
    key, value = (look.values[f"layer0.attention.{part}"] for part in ("key", "value"))
    assert torch.equal(key, value)
    learned = Transformer(7, Transformer.Config(**options))
    sizes = [sum(weight.numel() for weight in each.parameters()) for each in (learned, model)]
    assert sizes[0] - sizes[1] == 6 * 6 + 6  # W_v and its bias


@pytest.mark.parametrize("projections", ["learned", "key-is-value", "none"])
def test_why_not_average_the_keys(projections: str):
    step = regard.lesson("self-attention", set={"projections": projections}).steps[-1]
    right = step.values["right"]
    assert min(right["learned"], right["key-is-value"]) > 0.98
    assert right["none"] < 0.65  # two names stand in each story, so guessing between them gives a half
    numbers = step.values["numbers"]
    assert numbers["learned"] - numbers["key-is-value"] == 2 * (16 * 16 + 16)  # W_v and its bias, two layers
    assert f"The model with {projections} says" in step.says
    assert step.question is not None
    assert step.question.right.text == "yes"


def test_names_that_no_story_has_are_copied_as_subwords():
    known, strange = made_names()
    assert strange[:4] == ["Yellen", "Yelwell", "Marson", "Marsky"]  # what the shipped run has never read
    stories = " ".join(lines(strangers, 4000, seed=1)).split()
    assert not {*strange} & {*stories}
    assert {*known} <= {*stories}
    values = regard.lesson("copying").steps[-1].values
    assert values["unknown as a word"] == 1
    assert min(values["P(subword)"]) > 0.9
    assert min(values["from the pointer"]) > 0.9
    copied, tried = values["unseen names copied whole"]
    assert tried == len(strange)
    assert copied > 0.9 * tried
    known_word = regard.lesson("copying", set={"text": "Ms. Corlen slept", "word": "Corlen"}).steps[-1]
    assert "stands in the stories" in known_word.says


def test_temperature_and_top_k():
    step = next(
        step
        for step in regard.lesson("walk", set={"temperature": 4.0, "top_k": 2}).steps
        if step.title == "Choose a word"
    )
    run = shipped("walk-transformer")
    ids_1T = ids_of(run, "Olga called David in the garden . he sang . that was")
    with torch.no_grad():
        chances_V = run.language_model.double().read_from_start(ids_1T)[0].log_probs()[0, -1].exp()
    for temperature in (0.5, 1.0, 2.0, 4.0):
        powers_V = chances_V ** (1 / temperature)
        expected = float(powers_V.max() / powers_V.sum())
        assert step.values["P at each temperature"][f"T = {temperature:g}"] == pytest.approx(expected)
    first, second = (chances_V**0.25).topk(2).values.tolist()
    expected, drawn = first / (first + second), step.values["drawn"]
    assert sum(drawn.values()) == DRAWS
    assert [count > 0 for count in drawn.values()] == [True, True, False, False, False]
    five_sigma = 5 * math.sqrt(DRAWS * expected * (1 - expected))
    assert abs(drawn["David"] - DRAWS * expected) < five_sigma


def test_the_numbers_of_a_model():
    assert gpt2_parameters(12, 768, 50257, 1024) == 124_439_808  # the sum of the sizes in its checkpoint
    shown = regard.lesson("walk")
    parts = shown.value("parts")
    assert sum(parts.values()) == shown.value("parameters")
    assert parts["attention (W_q, W_k, W_v, W_o)"] == 2 * (4 * 16 * 16 + 4 * 16)
    assert parts["feed-forward"] == 2 * (2 * 16 * 64 + 64 + 16)


def test_sines_tell_the_distance():
    shown = regard.lesson("positions")
    products = shown.value("product at distance")
    for k in (0, 1, 7):
        terms = (math.cos(k * 10000 ** (-2 * i / FEATURES)) for i in range(FEATURES // 2))
        assert products[k] == pytest.approx(sum(terms))
    assert shown.value("largest difference from another start") < 1e-12


def test_padding_is_hidden():
    step = next(
        step for step in regard.lesson("masking").steps if step.title == "Sentences of different lengths"
    )
    assert step.values["difference from the sentence alone"] < 1e-15
    assert step.picture is not None
    for row in step.picture.to_json()["values"]:
        assert row[2:] == [0, 0]
        assert sum(row) == pytest.approx(1)


def test_a_beam_ends_with_several_sentences():
    step = regard.lesson("translation", set={"beam": 3}).steps[-1]
    assert step.values["sentences"][0] == "Te amo mucho"
    assert step.values["scores"] == sorted(step.values["scores"], reverse=True)
    assert len({*step.values["sentences"]}) == 3
