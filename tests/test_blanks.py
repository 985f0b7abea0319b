"""Masked readers: hidden words, pseudo-perplexity, regard fill; and regard compare --labelled."""

import json
import math
import re
from pathlib import Path

import pytest
import torch

import regard
from regard import cli
from regard.errors import UserError
from regard.models.reader import Reader
from regard.parts.edits import Scale
from regard.probabilities.blanks import fill, hidden_loss, measure_blanks
from regard.runs.blanks import blank_ids
from regard.tokens.blanks import SHARE, hide
from regard.tokens.contract import Encoded
from regard.tokens.rows import window_rows, windows

V = 11
SENTENCES = "".join(
    f"the {who} {verb} the {what}\n"
    for who, verb in (("cat", "chases"), ("dog", "chews"), ("girl", "reads"))
    for what in {"chases": ("mouse", "bird"), "chews": ("bone", "stick"), "reads": ("book", "letter")}[verb]
)


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A small reader that has learned which verb goes with which noun."""
    folder = tmp_path_factory.mktemp("blanks")
    (folder / "text.txt").write_text(SENTENCES * 20)
    options = {
        "steps": 150,
        "evaluate_every": 75,
        "batch": 16,
        "width": 16,
        "learning_rate": 0.02,
        "optimiser": "adamw",
    }
    regard.train("reader", text=str(folder / "text.txt"), out=str(folder / "run"), dropout=0.0, **options)
    return folder / "run"


def some_text(lengths: list[int]) -> Encoded:
    ids_N = torch.randint(V, (sum(lengths),), generator=torch.Generator().manual_seed(3))
    return Encoded(ids_N, torch.tensor(lengths).cumsum(0), bytes=len(ids_N), unknown=0)


def test_a_share_of_words_is_hidden_and_nothing_else_changes():
    generator = torch.Generator().manual_seed(1)
    ids_BT = torch.randint(V, (200, 50), generator=generator)
    real_BT = torch.arange(50) < torch.tensor([50, 30] * 100).unsqueeze(1)
    tokens_BT, targets_BT = hide(ids_BT, real_BT, V + 2, V, generator)
    chosen_BT = targets_BT >= 0
    assert not bool((chosen_BT & ~real_BT).any())
    assert torch.equal(tokens_BT[~chosen_BT], ids_BT[~chosen_BT])
    assert torch.equal(targets_BT[chosen_BT], ids_BT[chosen_BT])
    words = int(real_BT.sum())
    # five standard deviations of a binomial count
    assert abs(int(chosen_BT.sum()) - SHARE * words) < 5 * math.sqrt(SHARE * (1 - SHARE) * words)
    blanks = float((tokens_BT[chosen_BT] == V + 2).float().mean())
    assert abs(blanks - 0.8) < 5 * math.sqrt(0.8 * 0.2 / int(chosen_BT.sum()))
    one = hide(torch.tensor([[4]]), torch.tensor([[True]]), V + 2, V, generator)
    assert int((one[1] >= 0).sum()) == 1  # at least one word of a batch


def test_every_token_is_in_one_window():
    text = some_text([5, 1, 12])
    assert [text.ids_N[row].tolist() for row in windows(text, 5)] == [
        text.ids_N[first:last].tolist() for first, last in ((0, 5), (5, 6), (6, 11), (11, 16), (16, 18))
    ]
    rows = [row[row < V].tolist() for batch in window_rows(text, 5, V + 1, 10) for row in batch]
    assert sorted(rows) == sorted(text.ids_N[row].tolist() for row in windows(text, 5))


@pytest.mark.parametrize("encoder", ["bigru", "transformer"])
def test_a_pseudo_perplexity_hides_each_word_alone(double, encoder):
    torch.manual_seed(2)
    model = Reader(V, Reader.Config(encoder=encoder, width=12, heads=3, context=5, dropout=0.0)).eval()
    text = some_text([4, 7])
    expected = 0.0
    for row in windows(text, 5):
        for place in range(row.stop - row.start):
            ids = text.ids_N[row].clone()
            ids[place] = model.blank
            log_probs_V = model.words(model(ids.unsqueeze(0))[0]).log_probs()[0, place]
            expected -= float(log_probs_V[text.ids_N[row][place]].detach())
    measure = measure_blanks(model, text, {})
    assert measure.pseudo_loss == pytest.approx(expected / 11, rel=1e-10)
    assert measure.pseudo_perplexity == pytest.approx(math.exp(expected / 11), rel=1e-10)
    assert (measure.tokens, measure.text_tokens) == (11, 11)


def test_a_hidden_word_does_not_see_itself(double):
    """The prediction at a blank is the same whatever word was hidden, and depends on both sides."""
    torch.manual_seed(2)
    model = Reader(V, Reader.Config(width=6, dropout=0.0)).eval()
    best = fill(model, torch.tensor([3, model.blank, 4]), V)[0]
    assert sum(p for _, p in best) == pytest.approx(1)
    for other in ([5, model.blank, 4], [3, model.blank, 5]):
        assert fill(model, torch.tensor(other), V)[0] != best


def test_it_fills_blanks(run, capsys):
    filled = regard.fill(run, ["the girl ___ the book", "the ___ chews the ___"])
    assert filled[0].best == "the girl reads the book"
    assert filled[1].blanks[0][0].word == "dog"
    assert {word.word for word in filled[1].blanks[1][:2]} == {"bone", "stick"}
    assert cli.main(["fill", str(run), "the girl ____ the book", "--top", "2", "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    (blank,) = told["texts"][0]["blanks"]
    assert blank[0]["word"] == "reads"
    assert len(blank) == 2
    assert cli.main(["fill", str(run), "the girl ___ the book"]) == 0
    assert capsys.readouterr().out.startswith("the girl reads the book\n  1: reads 0.")
    without = regard.fill(
        run, "the girl ___ the book", edit=[Scale(site="embedding", words=("girl",), by=0.0)]
    )
    assert without[0].blanks[0][0].probability < filled[0].blanks[0][0].probability


def test_look_shows_every_site_and_the_words_of_blanks(run, capsys, tmp_path):
    text = "the girl ___ the ___"
    looked = regard.look(run, text, top=3)
    filled = regard.fill(run, text, top=3)[0]
    record = looked.record
    assert record.tokens == ["the", "girl", "___", "the", "___", "</s>"]
    blanks = {2: filled.blanks[0], 4: filled.blanks[1]}
    for place, words in enumerate(record.likeliest):
        expected = [(one.word, pytest.approx(one.probability)) for one in blanks.get(place, [])]
        assert words == expected
    every = regard.look(run, text, sites="*").record
    assert set(every.maps) == set(regard.load(run).model.sites())
    without = [Scale(site="embedding", words=("girl",), by=0.0)]
    edited = regard.look(run, text, edit=without, top=3)
    changed = regard.fill(run, text, edit=without)[0]
    assert edited.record.likeliest[2][0][1] == pytest.approx(changed.blanks[0][0].probability)
    assert edited.before.likeliest == record.likeliest
    edit = json.dumps({"do": "scale", "site": "embedding", "words": ["girl"], "by": 0.0})
    assert cli.main(["look", str(run), "--text", text, "--edit", edit]) == 0
    line, *_ = [line for line in capsys.readouterr().out.splitlines() if line.startswith("   2 ___")]
    assert re.search(r"is \w+ 0\.\d\d, .*; before the edits is reads \d\.", line)
    for ending in ("html", "svg", "json", "tsv"):
        assert cli.main(["look", str(run), "--text", text, "--out", str(tmp_path / f"a.{ending}")]) == 0
    assert (
        cli.main(["look", str(run), "--text", text, "--form", "parts", "--out", str(tmp_path / "b.svg")]) == 0
    )
    assert "likeliest words of “___” (4)" in (tmp_path / "b.svg").read_text()
    assert json.loads((tmp_path / "a.json").read_text())["likeliest"][0] == []


def test_the_page_of_a_reader_shows_the_words_of_the_chosen_blank(run, tmp_path, open_page):
    edit = [Scale(site="embedding", words=("girl",), by=0.0)]
    regard.look(run, "the girl ___ the ___", sites="*", edit=edit, out=tmp_path / "page.html")
    filled = regard.fill(run, "the girl ___ the ___", edit=edit)[0].blanks[0]
    words, chance = [one.word for one in filled], filled[0].probability
    page = open_page(tmp_path / "page.html", "section[aria-label='Words of the blank'] td")
    blank = page.locator("section[aria-label='Words of the blank']")
    shown = blank.inner_text()  # of the first blank, which is chosen
    assert all(word in shown for word in words)
    assert f"{100 * chance:.0f}%" in shown
    sites = page.locator("select").first.locator("option").all_inner_texts()
    assert sites == list(regard.load(run).model.sites())


@pytest.mark.parametrize("tokens", ["bpe", "char", "byte"])
def test_blanks_are_looked_at_in_every_kind_of_token(tmp_path, tokens):
    (tmp_path / "text.txt").write_text(SENTENCES * 5)
    options = {"encoder": "transformer", "width": 8, "heads": 2, "steps": 1, "tokens": tokens}
    out = regard.train("reader", text=str(tmp_path / "text.txt"), out=str(tmp_path / "run"), **options).run
    looked = regard.look(out, "the girl ___ the book", words=True)
    assert looked.record.tokens == ["the", "girl", "___", "the", "book", "</s>"]
    assert [bool(words) for words in looked.record.likeliest] == [False, False, True, False, False, False]
    weights = looked.record.maps["layer0.attention"].numbers
    assert weights.shape == (2, 6, 6)
    torch.testing.assert_close(weights.sum(2), torch.ones(2, 6))


def test_evaluate_gives_a_pseudo_perplexity_under_its_own_key(run, capsys):
    assert cli.main(["evaluate", str(run), "--json"]) == 0
    figures = json.loads(capsys.readouterr().out)
    assert figures["pseudo_perplexity"] == pytest.approx(math.exp(figures["pseudo_loss"]))
    assert "perplexity" not in figures
    opened = regard.load(run)
    source = opened.own_text()[0]
    assert opened.config.loss == pytest.approx(
        hidden_loss(opened.model, opened.tokenizer.encode_texts([source.text])), rel=1e-5
    )


def test_a_blank_takes_the_space_before_it(run):
    opened = regard.load(run)
    ids = blank_ids(opened, "the ___ reads")
    the, reads = (opened.tokenizer.prompt(word)[0] for word in ("the", "reads"))
    assert ids == [the, opened.model.blank, reads, opened.tokenizer.end]


def test_bad_input_is_refused_in_one_line(run, capsys, tmp_path, text):
    for arguments, words in (
        (["look", run, "--text", " "], "there is nothing to look at"),
        (["look", run, "--text", "a ___", "--target", "b"], "for translators; reader does not translate"),
        (["look", run, "--text", "a ___", "--image", text], "--image is for captioners"),
        (
            ["look", run, "--text", "a b", "--form", "parts", "--out", tmp_path / "a.svg"],
            "no word of this text",
        ),
        (["fill", run, "no blank here"], "there is no blank in 'no blank here': write ___"),
        (["fill", run, "a ___", "--top", "0"], "--top must be 1 or more"),
        (["fill", run, "___ " * 70], "the text has 71 tokens and the model reads 64"),
        (["generate", run], "this run (reader) fills blanks: use regard fill"),
        (["classify", run, "a"], "this run (reader) fills blanks: use regard fill"),
        (["evaluate", run, "--stride", "3"], "a reader is measured on --text"),
        (["train", "reader", "--text", text, "--encoder", "lstm", "--out", tmp_path / "r"], "encoder"),
        (["compare", "--families", "reader", "--text", text, "--out", tmp_path / "c"], "compare is for"),
    ):
        assert cli.main([str(argument) for argument in arguments]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert words in told.err
        assert len(told.err.strip().splitlines()) == 1


def test_encoders_and_poolings_are_compared(tmp_path, capsys):
    path, out = tmp_path / "a.tsv", tmp_path / "out"
    lines = [f"{('up', 'down')[n % 2]}\t{('fine', 'dull')[n % 2]} thing {n}\n" for n in range(60)]
    path.write_text("".join(lines))
    arguments = [
        "--families",
        "dan:mean",
        "gru:last",
        "--seeds",
        "2",
        "--minutes",
        "0.005",
        "--out",
        str(out),
    ]
    assert cli.main(["compare", "--labelled", str(path), *arguments, "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert [row["rank"] for row in told["table"]] == [1, 2]
    assert {row["name"] for row in told["table"]} == {"dan:mean", "gru:last"}
    assert all(row["interval"] is not None for row in told["table"])
    assert {result["measure"]["texts"] for result in told["results"]} == {6}
    parts = [(out / f"text/{part}.jsonl").read_text() for part in ("train", "test")]
    texts = [json.loads(line)["text"] for line in "".join(parts).splitlines()]
    assert len(texts) == len(set(texts)) == 60
    with pytest.raises(UserError, match="is not an empty folder"):
        regard.compare(labelled=str(path), out=out)
    with pytest.raises(UserError, match="name an encoder"):
        regard.compare(labelled=str(path), families="lstn", out=tmp_path / "other")
    assert not (tmp_path / "other").exists()


def test_a_comparison_of_classifiers_has_a_report(tmp_path, open_page):
    path, out = tmp_path / "a.tsv", tmp_path / "out"
    path.write_text(
        "".join(f"{('up', 'down')[n % 2]}\t{('fine', 'dull')[n % 2]} thing {n}\n" for n in range(60))
    )
    options = {"families": ["dan:mean", "dan:max"], "seeds": 2, "minutes": 0.003}
    table = regard.compare(labelled=str(path), out=out, **options).table()
    page = open_page(out / "report.html", "canvas, svg.marks")  # 360 pixels wide, without sideways scroll
    page.emulate_media(color_scheme="dark")
    said = page.inner_text("body")
    assert "0.003 minutes, each; 2 seeds" in said
    assert "measured on 6 of them" in said
    assert "2: down, up" in said
    assert all(row["name"] in said and f"± {row['interval']:.3f}" in said for row in table)
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(22, 24, 28)"
    assert "accuracy (95% interval)" in (out / "comparison.svg").read_text()
    assert "- Labels: 2: down, up" in (out / "report.md").read_text()


def test_a_stopped_comparison_of_classifiers_goes_on(tmp_path, monkeypatch):
    path, out = tmp_path / "a.tsv", tmp_path / "out"
    lines = [f"{('up', 'down')[n % 2]}\t{('fine', 'dull')[n % 2]} thing {n}\n" for n in range(60)]
    path.write_text("".join(lines))
    seen = []

    def stop(result):
        seen.append(result.name)
        raise KeyboardInterrupt

    options = {"families": ["dan:mean", "dan:max"], "minutes": 0.003}
    with pytest.raises(KeyboardInterrupt):
        regard.compare(labelled=str(path), **options, out=out, finished=stop)
    assert seen == ["dan:mean"]
    finished = []
    result = regard.compare(out=out, resume=True, finished=lambda one: finished.append(one.name))
    assert finished == ["dan:mean", "dan:max"]
    assert len(result.table()) == 2
