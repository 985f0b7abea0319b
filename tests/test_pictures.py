"""Pictures: weights as drawn, the same bytes every time, legible; nothing in a word is taken for a mark."""

import json
import re
import struct
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest

import regard
from regard.errors import UserError
from regard.inside.drawing import svg_to_png
from regard.inside.pictures import Panel, arcs, bars, draw, heat_map, mosaic, shown
from regard.page.files import write_drawing

SVG = "{http://www.w3.org/2000/svg}"
WORDS = ["<s>", "the", "</text><script>", "&amp;", "\n"]


def lower(size: int) -> np.ndarray:
    return np.tril(np.ones((size, size))) / np.arange(1, size + 1)[:, None]


def words_of(svg: str) -> list[str]:
    return [element.text for element in ElementTree.fromstring(svg).iter(f"{SVG}text")]


def test_a_map_names_every_word_and_shades_every_weight():
    svg = heat_map(lower(5), WORDS, WORDS, "head 0")
    assert words_of(svg) == [*(shown(word, 28) for word in WORDS), *(shown(word) for word in WORDS), "head 0"]
    squares = [
        one for one in ElementTree.fromstring(svg).iter(f"{SVG}rect") if one.find(f"{SVG}title") is not None
    ]
    assert [float(one.find(f"{SVG}title").text) for one in squares] == pytest.approx(
        [w for w in lower(5).ravel() if w > 0], abs=5e-4
    )
    # white at 0, (0, 80, 150) at 1: a half lies between, 255 - 127.5 and so on, rounded to even
    assert {squares[0].get("fill"), squares[1].get("fill")} == {"#005096", "#80a8ca"}


def test_five_hundred_words_are_one_image_and_every_nth_is_named():
    words = [f"word{number}" for number in range(500)]
    svg = heat_map(lower(500), words, words, "long")
    rows = words_of(svg)[: len(words_of(svg)) // 2]
    assert 30 < len(rows) < 70  # 720 pixels, thirteen a name
    assert words_of(svg)[-1] == "long (shaded by square roots)"
    (image,) = ElementTree.fromstring(svg).iter(f"{SVG}image")
    assert pixels(image.get("href"))[499].tolist() == [round(255 * (1 / 500) ** 0.5)] * 500


def pixels(href: str) -> np.ndarray:
    """The levels in a palette image, read by the specification."""
    import base64

    data = base64.b64decode(href.removeprefix("data:image/png;base64,"))
    place, held = 8, b""
    while place < len(data):
        (size,), kind = struct.unpack(">I", data[place : place + 4]), data[place + 4 : place + 8]
        body = data[place + 8 : place + 8 + size]
        assert struct.unpack(">I", data[place + 8 + size : place + 12 + size])[0] == zlib.crc32(kind + body)
        if kind == b"IHDR":
            width, height = struct.unpack(">II", body[:8])
        held += body if kind == b"IDAT" else b""
        place += 12 + size
    return np.frombuffer(zlib.decompress(held), np.uint8).reshape(height, width + 1)[:, 1:]


@pytest.mark.parametrize(
    "svg",
    [
        lambda: heat_map(lower(5), WORDS, WORDS, "<b>"),
        lambda: arcs(lower(5), WORDS, WORDS, "<b>"),
        lambda: mosaic([Panel("<layer0>", np.stack([lower(5)] * 3), ["<i>"] * 3)] * 2, "<b>"),
        lambda: bars(lower(5)[4], WORDS, "<b>"),
        lambda: heat_map(lower(70), ["w"] * 70, ["w"] * 70, "<b>"),
    ],
    ids=["map", "arcs", "mosaic", "bars", "image"],
)
def test_the_same_bytes_every_time_and_nothing_to_fetch(svg):
    assert svg() == svg()
    assert svg_to_png(svg()) == svg_to_png(svg())
    assert svg_to_png(svg()).startswith(b"\x89PNG")
    ElementTree.fromstring(svg())
    assert not re.search(r'href="(?!data:)|<script|<b>', svg())


def test_below_zero_bars_go_left_and_squares_turn_orange():
    svg = bars(np.array([2.0, -1.0]), ["up", "down"], "parts")
    up, down = [rect for rect in ElementTree.fromstring(svg).iter(f"{SVG}rect") if rect.get("height") == "12"]
    zero = float(up.get("x"))
    assert float(down.get("x")) + float(down.get("width")) == pytest.approx(zero, abs=0.1)
    assert float(up.get("width")) == pytest.approx(2 * float(down.get("width")), abs=0.01)
    assert "#d55e00" in heat_map(np.array([[1.0, -1.0]]), ["a"], ["b", "c"], "signed")  # orange at -1


def test_arrays_of_rank_one_to_four():
    assert words_of(draw(lower(5)[4], columns=WORDS))[::2] == [shown(word, 28) for word in WORDS]
    assert len(words_of(draw(lower(5)))) == 10  # numbers where there are no words
    assert "head 2" in words_of(draw(np.stack([lower(5)] * 3)))
    assert "layer 1" in words_of(draw(np.stack([np.stack([lower(5)] * 3)] * 2)))
    for array, options, words in (
        (np.ones(()), {}, "1 to 4 axes"),
        (np.ones((2, 0)), {}, "none of them empty"),
        (np.array([[np.nan]]), {}, "infinities or NaN"),
        (np.array([[np.inf]]), {}, "infinities or NaN"),
        (lower(5), {"columns": ["a"]}, "1 words for 5 columns"),
    ):
        with pytest.raises(UserError, match=words):
            draw(array, **options)


def test_weights_from_elsewhere_are_drawn(tmp_path: Path, regard_cli):
    np.savez(tmp_path / "w.npz", weights=np.stack([lower(5)] * 2), tokens=np.array(WORDS))
    for ending in (".svg", ".png", ".html"):
        done = regard_cli("draw", "w.npz", "--out", f"w{ending}")
        assert (done.returncode, done.stderr) == (0, "")
        assert (tmp_path / f"w{ending}").stat().st_size > 1000
    np.savez(
        tmp_path / "cross.npz",
        weights=np.ones((2, 3)) / 3,
        rows=np.array(["Te", "amo"]),
        columns=np.array(["I", "love", "you"]),
    )
    assert regard_cli("draw", "cross.npz", "--out", "cross.svg").returncode == 0
    assert words_of((tmp_path / "cross.svg").read_text())[:5] == ["Te", "amo", "I", "love", "you"]
    drawn = regard_cli("draw", "cross.npz", "--out", "cross.svg", "--json")
    assert (json.loads(drawn.stdout), drawn.stderr) == ({"out": "cross.svg"}, "")
    (tmp_path / "list.json").write_text(json.dumps([0.25, 0.75]))
    assert regard_cli("draw", "list.json", "--out", "list.svg", "--tokens", "a", "b").returncode == 0
    (tmp_path / "bad.npz").write_bytes(b"no zip")
    np.save(tmp_path / "complex.npy", np.array([1j]))
    np.save(tmp_path / "pickled.npy", np.array([object()]), allow_pickle=True)
    for arguments, words in (
        (["bad.npz", "--out", "x.svg"], "is not an array of numbers"),
        (["pickled.npy", "--out", "x.svg"], "is not an array of numbers"),
        (["gone.npz", "--out", "x.svg"], "cannot be read"),
        (["complex.npy", "--out", "x.svg"], "complex numbers"),
        (["w.npz", "--out", "x.gif"], "--out writes .svg, .png or .html"),
        (["cross.npz", "--out", "x.html"], "the page is for a text that looks at itself"),
    ):
        refused = regard_cli("draw", *arguments)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert words in refused.stderr


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("pictured")
    (folder / "text.txt").write_text("the cat saw the dog and the dog saw the cat\n" * 40)
    options = {
        "text": str(folder / "text.txt"),
        "tokens": "word",
        "width": 12,
        "steps": 3,
        "evaluate_every": 3,
        "batch": 2,
    }
    regard.train("transformer", out=str(folder / "transformer"), layers=2, heads=3, context=31, **options)
    regard.train("attentive", out=str(folder / "attentive"), copy="gate", **options)
    regard.train("ngram", out=str(folder / "ngram"), text=str(folder / "text.txt"), tokens="word")
    return folder


def test_looks_are_drawn_in_every_form(run: Path, regard_cli, tmp_path: Path):
    def drawn(family: str, *more: str) -> list[str]:
        done = regard_cli("look", run / family, "--text", "the dog saw", "--out", "out.svg", *more)
        assert (done.returncode, done.stderr.strip()) == (0, "out.svg shows it.")
        return words_of((tmp_path / "out.svg").read_text())

    assert {"layer0.attention", "layer1.attention", "head 2"} <= set(drawn("transformer"))
    one = drawn("transformer", "--sites", "layer1.attention", "--heads", "2")
    assert one == ["<s>", "the", "dog", "saw", "<s>", "the", "dog", "saw", "layer1.attention, head 2"]
    assert (
        drawn("transformer", "--sites", "layer1.attention", "--heads", "2", "--form", "arcs")[0]
        == "layer1.attention, head 2"
    )
    terms = drawn("attentive", "--form", "parts")
    assert "the probability of “saw” (3) is the sum of" in terms
    assert "vocabulary" in terms
    assert drawn("attentive")[8] == "(vocabulary)"  # behind four rows and four columns
    chain = drawn("ngram")
    assert "the probability of “saw” (3) is the sum of" in chain
    assert {"5-gram", "4-gram", "3-gram", "2-gram", "1-gram", "uniform"} <= set(chain)
    refused = regard_cli("look", run / "ngram", "--text", "the", "--out", "x.svg", "--form", "map")
    assert "there are no maps at these sites" in refused.stderr


def test_a_page_of_weights_from_elsewhere_opens(tmp_path: Path, open_page):
    write_drawing(np.stack([np.stack([lower(5)] * 3)] * 2), tmp_path / "w.html", WORDS, WORDS, "w")
    opened = open_page(tmp_path / "w.html", ".from .chosen")
    opened.get_by_role("radio", name="All").click()
    assert opened.locator(".piece").count() == 6
    opened.locator(".piece .open").nth(5).click()
    assert opened.locator("select").input_value() == "layer1"
    assert opened.locator(".expected").count() == 0  # nothing was predicted
    assert opened.locator(".heads [aria-pressed=true]").inner_text() == "2"
    assert opened.locator(".tabs button").all_inner_texts() == ["Attention"]
