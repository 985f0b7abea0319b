"""Looking: one record for every family, from Python, the command line and a browser, without changing what is seen."""

import json
import re
import shutil
from pathlib import Path

import pytest
import torch

import regard
from regard.errors import UserError
from regard.inside.page import page
from regard.inside.record import record
from regard.models import FAMILIES, family_class
from regard.models.contract import LanguageModel
from regard.models.ngram import Ngram
from regard.tokens.choose import TokenOptions, train_tokenizer

TEXT = "the cat saw the dog and the dog saw the cat\n" * 5
SMALL = {
    "transformer": {"layers": 2, "width": 12, "heads": 3, "context": 31},
    "backpack": {"width": 12, "heads": 2, "senses": 3, "context": 31},
}


def make(family: str, **options) -> tuple[LanguageModel, object]:
    tokenizer, text = train_tokenizer([TEXT], TokenOptions(tokens="word"))
    kind = family_class(family)
    torch.manual_seed(1)
    model = kind(tokenizer.size, kind.Config(**SMALL.get(family, {}), **options))
    if isinstance(model, Ngram):
        model.fit(text, lambda model: None)
    return model.eval(), tokenizer


@pytest.mark.parametrize("family", FAMILIES)
def test_a_record_says_what_the_model_says(family):
    model, tokenizer = make(family)
    found = record(model, tokenizer, "the dog saw the", top=3)
    assert found.tokens == ["<s>", "the", "dog", "saw", "the"]
    ids = torch.tensor([[tokenizer.start, *tokenizer.prompt("the dog saw the")]])
    with torch.no_grad():
        log_probs_TV = model(ids)[0].log_probs()[0]
    assert found.surprisal[0] is None
    expected = [-float(log_probs_TV[t, token]) for t, token in enumerate(ids[0, 1:].tolist())]
    assert found.surprisal[1:] == pytest.approx(expected)
    for position, likeliest in enumerate(found.likeliest):
        assert [p for _, p in likeliest] == pytest.approx(log_probs_TV[position].exp().topk(3).values.tolist())
    for weights_HQK in found.weights.values():
        sums = weights_HQK.sum(2)
        assert bool(((sums - 1).abs().lt(1e-5) | (sums == 0)).all())
    json.dumps(found.to_json(), allow_nan=False)


def test_families_that_attend_show_it_and_ngrams_their_chain():
    sites = {family: set(record(*make(family), "the dog").weights) for family in FAMILIES}
    assert sites["attentive"] == {"attention"}
    assert sites["transformer"] == {"layer0.attention", "layer1.attention"}
    assert sites["backpack"] == {"layer0.attention", "layer1.attention", "senses.attention"}
    model, tokenizer = make("ngram", order=3)
    found = record(model, tokenizer, "the dog saw")
    for nll, chain in zip(found.surprisal[1:], found.chains, strict=True):
        assert sum(link.share for link in chain) == pytest.approx(torch.tensor(-nll).exp().item(), rel=1e-5)


def test_rows_and_heads_that_are_asked_for():
    model, tokenizer = make("transformer")
    whole = record(model, tokenizer, "the dog saw the cat")
    part = record(model, tokenizer, "the dog saw the cat", sites=["layer1.attention"], rows=[-1, 2], heads=[2])
    assert part.rows == [5, 2]
    assert set(part.weights) == {"layer1.attention"}
    # another shape of the same product: float32 rounds differently
    torch.testing.assert_close(part.weights["layer1.attention"], whole.weights["layer1.attention"][[2]][:, [5, 2]], rtol=1e-5, atol=1e-6)
    values = record(model, tokenizer, "the dog", sites=["layer0.feed"]).values
    assert values["layer0.feed"].shape == (3, 12)


def test_what_is_copied_is_told():
    model, tokenizer = make("attentive", copy="gate")
    found = record(model, tokenizer, "the dog saw the")
    assert found.weights["attention"].shape == (1, 5, 6)  # five positions and the sentinel
    for share, copied in zip(found.gate, found.copied, strict=True):
        assert share + float(copied.sum()) == pytest.approx(1)


@pytest.mark.parametrize(
    ("text", "options", "words"),
    [
        ("", {}, "nothing to look at"),
        ("the", {"rows": [2]}, "no row 2: they go from 0 to 1"),
        ("the", {"heads": [3]}, "no head 3: they go from 0 to 2"),
        ("the", {"sites": ["layer7.*"]}, "no site matches 'layer7.*'; there are: embedding"),
    ],
)
def test_what_is_not_there_is_told(text, options, words):
    with pytest.raises(UserError, match=re.escape(words)):
        record(*make("transformer"), text, **options)


def test_a_long_text_and_an_unknown_word_are_told():
    model, tokenizer = make("transformer")
    found = record(model, tokenizer, "the dog " * 20)
    assert len(found.tokens) == 31
    assert "41 tokens and the model sees 31" in found.notes[0]
    assert "1 of the text's 2 tokens are not in the vocabulary" in record(model, tokenizer, "the zebra").notes[0]


def test_the_same_record_gives_the_same_bytes_and_asks_for_nothing():
    model, tokenizer = make("transformer")
    pages = [page(record(model, tokenizer, "the dog"), "</title><script>") for _ in range(2)]
    assert pages[0] == pages[1]
    assert "<title>&lt;/title&gt;&lt;script&gt;</title>" in pages[0]
    assert not re.search(r"(https?:)?//[a-z]", pages[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("looked")
    (folder / "text.txt").write_text("a <script>alert(1)</script> b </script> c\n" * 60)
    options = {"layers": 1, "width": 12, "heads": 3, "context": 31, "batch": 2, "steps": 3, "evaluate_every": 3}
    regard.train("transformer", text=str(folder / "text.txt"), out=str(folder / "run"), **options)
    return folder


def test_the_verb_prints_writes_and_refuses(run: Path, regard_cli):
    shown = regard_cli("look", run / "run", "--text", "a b c", "--out", "map.html")
    assert shown.returncode == 0
    assert "layer0.attention, head 2" in shown.stdout
    data = json.loads(regard_cli("look", run / "run", "--text", "a b c", "--rows", "-1", "--heads", "1", "--json").stdout)
    assert [len(data["weights"]["layer0.attention"]), len(data["weights"]["layer0.attention"][0])] == [1, 1]
    for arguments, words in ((["--out", "map.gif"], ".html or .json"), (["--sites", "nowhere"], "no site matches")):
        refused = regard_cli("look", run / "run", "--text", "a", *arguments)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert words in refused.stderr


def test_the_page_opens_offline_and_answers_the_keyboard(run: Path):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    found = regard.look(str(run / "run"), "a <script>alert(1)</script> b </script> c")
    (run / "page.html").write_text(page(found, "a run"))
    asked, errors = list[str](), list[object]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-background-networking"])
        opened = browser.new_page(viewport={"width": 360, "height": 640})
        opened.on("request", lambda request: asked.append(request.url))
        opened.on("pageerror", lambda error: errors.append(error))
        opened.on("dialog", lambda dialog: errors.append(dialog))
        opened.goto((run / "page.html").as_uri())
        opened.wait_for_selector("body[data-ready]")
        assert opened.locator("#text button").all_inner_texts() == found.tokens
        assert opened.locator("#heads button").count() == 3
        assert opened.locator("#text button[aria-pressed=true]").inner_text() == "c"
        opened.locator("#text button").last.focus()
        opened.keyboard.press("ArrowLeft")
        assert opened.locator("#text button[aria-pressed=true]").inner_text() == "</script>"
        weights = found.weights["layer0.attention"][0, 4].tolist()
        titles = opened.locator("#text button").evaluate_all("all => all.map(one => Number(one.title))")
        assert titles == pytest.approx(weights, abs=0.5 / 255 + 0.0005)  # 8 bits, three digits
        assert opened.evaluate("document.documentElement.scrollWidth") <= 360
        browser.close()
    assert errors == []
    assert [url for url in asked if not url.startswith(("file:", "data:", "blob:"))] == []
