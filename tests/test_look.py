"""Looking: one record for every family, from Python, the command line and a browser."""

import json
import re
from pathlib import Path

import pytest
import torch

import regard
from regard.errors import UserError
from regard.inside.observe import Wanted, observe, plain_reading
from regard.inside.record import Record
from regard.models import families_that_read, family_class
from regard.models.contract import LanguageModel
from regard.page.recording import Source, file_of
from regard.parts.look import Look
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.contract import Tokenizer

TEXT = "the cat saw the dog and the dog saw the cat\n" * 5
SMALL = {
    "transformer": {"layers": 2, "width": 12, "heads": 3, "context": 31},
    "backpack": {"width": 12, "heads": 2, "senses": 3, "context": 31},
}
FAMILIES = families_that_read("text")


def make(family: str, **options) -> tuple[LanguageModel, Tokenizer]:
    tokenizer, text = train_tokenizer([TEXT], TokenOptions(tokens="word"))
    kind = family_class(family)
    torch.manual_seed(1)
    model = kind(tokenizer.size, kind.Config(**SMALL.get(family, {}), **options))
    if model.learns == "counting":
        model.fit(text)
    return model.eval(), tokenizer


def record(model: LanguageModel, tokenizer: Tokenizer, text: str, **wanted) -> Record:
    return observe(model, tokenizer, plain_reading(tokenizer, text), Wanted(**wanted))


def log_probs(model: LanguageModel, tokens_BT: torch.Tensor) -> torch.Tensor:
    with torch.no_grad():
        return model.read_from_start(tokens_BT)[0].log_probs()


@pytest.mark.parametrize("family", FAMILIES)
def test_a_record_says_what_the_model_says(family):
    model, tokenizer = make(family)
    looked = record(model, tokenizer, "the dog saw the", top=3)
    assert looked.tokens == ["<s>", "the", "dog", "saw", "the"]
    ids = torch.tensor([[tokenizer.start, *tokenizer.prompt("the dog saw the")]])
    log_probs_TV = log_probs(model, ids)[0]
    assert looked.surprisal[0] is None
    expected = [-float(log_probs_TV[t, token]) for t, token in enumerate(ids[0, 1:].tolist())]
    assert looked.surprisal[1:] == pytest.approx(expected)
    for position, likeliest in enumerate(looked.likeliest):
        assert [p for _, p in likeliest] == pytest.approx(
            log_probs_TV[position].exp().topk(3).values.tolist()
        )
    for weights in looked.weights().values():
        sums = weights.numbers.sum(2)
        assert bool(((sums - 1).abs().lt(1e-5) | (sums == 0)).all())
    json.dumps(looked.to_json(), allow_nan=False)


def test_families_that_attend_show_it_and_ngrams_their_chain():
    sites = {family: set(record(*make(family), "the dog").weights()) for family in FAMILIES}
    assert sites["attentive"] == {"attention"}
    assert sites["transformer"] == {"layer0.attention", "layer1.attention"}
    assert sites["backpack"] == {"layer0.attention", "layer1.attention", "senses.attention"}
    model, tokenizer = make("ngram", order=3)
    looked = record(model, tokenizer, "the dog saw")
    assert (looked.parts.of, looked.parts_at) == ("probability", [0, 1, 2])
    for place, nll in enumerate(looked.surprisal[1:]):
        terms = dict(looked.terms(place))
        assert list(terms) == ["3-gram", "2-gram", "1-gram", "uniform"]
        assert sum(terms.values()) == pytest.approx(torch.tensor(-nll).exp().item(), rel=1e-5)


def test_rows_and_heads_that_are_asked_for():
    model, tokenizer = make("transformer")
    whole = record(model, tokenizer, "the dog saw the cat")
    part = record(
        model, tokenizer, "the dog saw the cat", sites=["layer1.attention"], rows=[-1, 2], heads=[2]
    )
    assert set(part.weights()) == {"layer1.attention"}
    assert part.map("layer1.attention").rows == (5, 2)
    # another shape of the same product: float32 rounds differently
    torch.testing.assert_close(
        part.map("layer1.attention").numbers,
        whole.map("layer1.attention").numbers[[2]][:, [5, 2]],
        rtol=1e-5,
        atol=1e-6,
    )
    values = record(model, tokenizer, "the dog", sites=["layer0.feed"]).map("layer0.feed")
    assert values.site.holds == "values"
    assert values.numbers.shape == (1, 3, 12)


def test_what_is_copied_is_told():
    model, tokenizer = make("attentive", copy="gate")
    looked = record(model, tokenizer, "the dog saw the")
    weights = looked.map("attention")
    assert weights.numbers.shape == (1, 5, 6)  # five positions and the sentinel
    assert weights.column_names == ("<s>", "the", "dog", "saw", "the", "(vocabulary)")
    torch.testing.assert_close(weights.numbers.sum(2), torch.ones(1, 5))  # what is not copied is the gate
    assert looked.parts.of == "probability"
    for place, nll in enumerate(looked.surprisal[1:]):
        terms = dict(looked.terms(place))
        assert "vocabulary" in terms
        assert sum(terms.values()) == pytest.approx(torch.tensor(-nll).exp().item())
    # the fourth word is the first again
    assert set(dict(looked.terms(3))) == {"vocabulary", "copy from the (1)"}


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
    model, tokenizer = make("transformer")
    with pytest.raises(UserError, match=re.escape(words)):
        record(model, tokenizer, text, **options)


def test_an_unknown_word_is_told():
    assert (
        "1 of the text's 2 tokens are not in the vocabulary"
        in record(*make("transformer"), "the zebra").notes[0]
    )


@pytest.mark.parametrize(("rows", "first"), [(None, 10), ([12, 3], 0), ([33, 35], 5)])
def test_a_text_longer_than_the_context_slides(rows, first):
    model, tokenizer = make("transformer")  # which sees 31 tokens; the text has 41
    text = ("the dog saw the cat and the " * 6).split()[:40]
    looked = record(model, tokenizer, " ".join(text), rows=rows)
    assert (
        f"41 tokens and the model sees 31: maps are of positions {first} to {first + 30}" in looked.notes[0]
    )
    assert len(looked.tokens) == len(looked.surprisal) == len(looked.likeliest) == 41
    ids = torch.tensor([[tokenizer.start, *tokenizer.prompt(" ".join(text))]])
    weights_HTK = model_weights(model, ids[:, first : first + 31])
    chosen = list(range(31)) if rows is None else [row - first for row in rows]
    torch.testing.assert_close(
        looked.map("layer1.attention").numbers, weights_HTK[:, chosen], rtol=1e-5, atol=1e-6
    )
    # the window that predicts a token has half a context before it, or the text's beginning
    expected = dict[int, float]()
    for start, places in slides(first):
        log_probs_TV = log_probs(model, ids[:, start : start + 31])[0]
        expected |= {place: -float(log_probs_TV[place - 1 - start, ids[0, place]]) for place in places}
    assert list(expected) == list(range(1, 41))
    assert looked.surprisal[1:] == pytest.approx(list(expected.values()), rel=1e-5)


def slides(first: int) -> list[tuple[int, range]]:
    """Where windows begin, and the tokens that each predicts.

    A new window begins half a context (15) before its first position. The maps' window is read once.
    """
    later = {
        0: [(16, range(32, 41))],
        5: [(5, range(32, 37)), (21, range(37, 41))],
        10: [(10, range(32, 41))],
    }
    return [(0, range(1, 32)), *later[first]]


def model_weights(model: LanguageModel, ids: torch.Tensor) -> torch.Tensor:
    look = Look(["layer1.attention"])
    with torch.no_grad():
        model.read_from_start(ids, look=look)
    return look.maps["layer1.attention"]()[0]


def test_any_tile_and_coarser_levels():
    model, tokenizer = make("transformer")
    looked = record(model, tokenizer, "the dog saw the cat and the dog", rows=[-1])
    whole = model_weights(
        model, torch.tensor([[tokenizer.start, *tokenizer.prompt("the dog saw the cat and the dog")]])
    )
    close = {"rtol": 1e-5, "atol": 1e-6}
    attention = looked.map("layer1.attention")
    torch.testing.assert_close(
        attention.tile([7, 2], [0, 3], heads=[1]), whole[[1]][:, [7, 2]][:, :, [0, 3]], **close
    )
    coarse = attention.pooled(size=4)  # 9 positions in blocks of 3
    assert coarse.shape == (3, 3, 3)
    torch.testing.assert_close(coarse[1, 2, 1], whole[1, 6:9, 3:6].max(), **close)
    torch.testing.assert_close(
        attention.pooled(size=4, how="mean")[2, 1, 0], whole[2, 3:6, 0:3].mean(), **close
    )
    torch.testing.assert_close(attention.pooled(size=9), attention.tile(range(9)), **close)
    with pytest.raises(UserError, match=r"no map of 'layer7.attention' was kept; there are: layer0"):
        looked.map("layer7.attention")


def test_gates_and_cells_are_those_of_the_kernel():
    """h = o tanh(c), and c = f c_before + i g: worked out on the side, they give the kernel's states."""
    model, tokenizer = make("lstm", layers=2, width=7)
    looked = record(model, tokenizer, "the dog saw the cat", sites=["*"])
    gates, (cell,) = looked.map("layer1.gates"), looked.map("layer1.cell").numbers
    assert gates.heads == ("input", "forget", "candidate", "output")
    enter, keep, new, show = gates.numbers
    torch.testing.assert_close(show * cell.tanh(), looked.map("hidden").numbers[0], rtol=1e-5, atol=1e-6)
    torch.testing.assert_close(keep[1:] * cell[:-1] + (enter * new)[1:], cell[1:], rtol=1e-5, atol=1e-6)


def test_a_notebook_shows_a_record_as_a_picture():
    assert record(*make("transformer"), "the dog")._repr_html_().startswith("<svg")


def test_a_long_texts_page_is_coarse_and_small():
    kind = family_class("transformer")
    tokenizer, _ = train_tokenizer([TEXT], TokenOptions(tokens="word"))
    model = kind(tokenizer.size, kind.Config(layers=1, width=12, heads=3, context=1031)).eval()
    looked = record(model, tokenizer, "the dog saw a cat " * 200)
    assert looked.map("layer0.attention").rows == (1000,)
    assert looked.map("layer0.attention").numbers.shape == (3, 1, 1001)
    file = file_of("long", looked, None, Source("long"))
    (model,) = json.loads(re.search(r'id="recording">(.*?)</script>', file, re.DOTALL)[1])["models"]
    drawn, (site,) = model["after"]["maps"]["layer0.attention"], model["after"]["read"]["sites"]
    assert drawn["numbers"]["shape"] == [3, 1, 1001]
    assert (drawn["coarse"]["shape"], site["block"]) == ([3, 251, 251], 4)
    assert (site["first"], site["known"]) == (0, [1000])
    assert len(model["after"]["read"]["axes"][site["rows"]]) == 1001


def test_the_same_record_gives_the_same_bytes_and_asks_for_nothing():
    model, tokenizer = make("transformer")
    title, source = "</title><script>", Source("a run")
    files = [file_of(title, record(model, tokenizer, "the dog"), None, source) for _ in range(2)]
    assert files[0] == files[1]
    assert "<title>&lt;/title&gt;&lt;script&gt;</title>" in files[0]
    policy = re.search(r'content="(default-src[^"]*)"', files[0])
    assert policy is not None
    assert policy[1].startswith("default-src 'none'; script-src 'sha256-")
    assert "connect-src" not in policy[1]
    assert not re.search(r'(src|href)="(https?:)?//', files[0])


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("looked")
    (folder / "text.txt").write_text("a <script>alert(1)</script> b </script> c\n" * 60)
    sizes = {"layers": 1, "width": 12, "heads": 3, "context": 31, "batch": 2}
    regard.train(
        "transformer",
        text=str(folder / "text.txt"),
        out=str(folder / "run"),
        tokens="word",
        steps=3,
        evaluate_every=3,
        **sizes,
    )
    return folder


def test_the_verb_prints_writes_and_refuses(run: Path, regard_cli):
    shown = regard_cli("look", run / "run", "--text", "a b c", "--out", "map.html")
    assert shown.returncode == 0
    assert "layer0.attention, head 2" in shown.stdout
    data = json.loads(
        regard_cli("look", run / "run", "--text", "a b c", "--rows", "-1", "--heads", "1", "--json").stdout
    )
    attention = data["maps"]["layer0.attention"]
    assert [len(attention["numbers"]), len(attention["numbers"][0])] == [1, 1]
    assert (attention["heads"], attention["rows"]) == (["head 1"], [len(data["tokens"]) - 1])
    scores = regard_cli("look", run / "run", "--text", "a b c", "--sites", "layer0.*")
    assert (scores.returncode, scores.stderr) == (0, "")
    assert "numbers, in --json: layer0.attention.scores" in scores.stdout
    refusals = (
        (["--out", "map.gif"], "--out writes .svg, .png, .html, .tsv or .json"),
        (["--sites", "nowhere"], "no site matches"),
        (["--form", "map"], "--form chooses a picture"),
    )
    for arguments, words in refusals:
        refused = regard_cli("look", run / "run", "--text", "a", *arguments)
        assert (refused.returncode, refused.stdout) == (2, "")
        assert words in refused.stderr


def test_the_file_opens_offline_and_answers_the_keyboard(run: Path, open_page):
    text = "a <script>alert(1)</script> b </script> c"
    looked = regard.look(str(run / "run"), text, out=run / "page.html").record
    opened = open_page(run / "page.html", ".from .chosen")
    assert opened.locator(".from .word").all_inner_texts() == looked.tokens
    opened.locator(".heads button").nth(1).click()  # the first is the mean of the three heads
    opened.locator(".from .chosen").focus()
    opened.keyboard.press("ArrowUp")
    assert opened.locator(".from .chosen").inner_text() == "</script>"
    weights = looked.map("layer0.attention").numbers[0, 4].tolist()
    opened.wait_for_selector(".weights .line .number:not(:empty)")
    shown = [float(number) for number in opened.locator(".weights .line .number").all_inner_texts()]
    assert shown == pytest.approx(weights, abs=0.0051)  # two digits are shown, and 16 bits are recorded
    assert opened.locator(".glance").inner_text().split()[1] == looked.likeliest[4][0][0]
    assert opened.locator("[role=slider], .mute").count() == 0  # a file has no model to change
    opened.locator("#tab-attend").press("ArrowLeft")
    assert opened.locator(".tokens [data-place]").all_inner_texts()[:-1] == looked.tokens[1:]
