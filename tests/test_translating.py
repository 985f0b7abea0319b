"""What a trained translator does: looked at, changed, asked what if."""

import json
from pathlib import Path

import pytest
import torch

import regard
from regard.cli import main
from regard.errors import UserError
from regard.inside.page import page
from regard.probabilities.quality import paired
from regard.probabilities.translation import _text
from regard.tokens.words import WordTokenizer


def test_one_link_is_moved_and_the_rest_is_said_again(taught: Path, capsys):
    before, after = regard.what_if(taught / "run", "I love you a lot", (4, 1))
    assert before.text == "Te amo mucho"
    assert after.tokens[0] == "Te"
    assert after.attention["attention"][0, 1].tolist() == pytest.approx(
        [0, 0, 0, 0, 1, 0]
    )  # "lot", and nothing else
    assert after.attention["attention"][0, 0].tolist() == pytest.approx(
        before.attention["attention"][0, 0].tolist(), abs=1e-5
    )
    _, turned = regard.what_if(
        taught / "back", "Te amo mucho", (1, 0)
    )  # several layers and heads, all made to look there
    assert all(
        weights[:, 0].tolist() == [pytest.approx([0, 1, 0, 0])] * len(weights)
        for weights in turned.attention.values()
    )
    assert main(["translate", str(taught / "run"), "I love you a lot", "--what-if", "4-1", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["after"]["text"] == after.text
    for arguments, words in (
        (["I love you", "--what-if", "9-0"], "9-0 lies outside: source words go from 0 to 3"),
        (["I love you", "--what-if", "1"], "'1' is not a link"),
        (["I love you", "--what-if", "0-0 1-1"], "--what-if is one link"),
        (["I", "you", "--what-if", "0-0"], "one link of one sentence"),
    ):
        assert main(["translate", str(taught / "run"), *arguments]) == 2
        assert words in capsys.readouterr().err


def test_an_unknown_word_is_copied_from_where_it_looks():
    target = WordTokenizer([b"te", b"amo"], "line")
    looked = {
        "one": torch.tensor([[[0.1, 0.8, 0.1], [0.2, 0.3, 0.5]]]),
        "two": torch.tensor([[[0.2, 0.7, 0.1], [0.4, 0.3, 0.3]]]),
    }
    # the end, the third column, is no word; the average of the second row is [0.3, 0.3, 0.4], the first of the two
    assert _text(target, [target.unknown, target.unknown], ["Ann", "Strickland"], looked) == "Strickland Ann"
    assert _text(target, [2, target.unknown], ["Ann", "Strickland"], looked) == "te Ann"
    assert (
        _text(target, [2, target.unknown], ["Ann", "Strickland"], {}) == "te <unk>"
    )  # without attention nothing says which


def test_names_are_copied_through(tmp_path: Path):
    """Names seen once are unknown with a cutoff of 2, in training as later: what is learned is to say <unk> and where to look."""
    known = {"Ann": "Ana", "Bob": "Beto", "Joe": "Pepe"}
    lines = []
    for number in range(
        400
    ):  # either name, both or none are known, and the order is turned round: it has to look
        one, other = (
            [*known, *[f"Name{number}{part}"] * 3][number // step % 6] for part, step in (("a", 1), ("b", 6))
        )
        lines.append(f"{one} loves {other}\t{known.get(other, other)} ama {known.get(one, one)}\n")
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    options = {"cutoff": 2, "steps": 300, "width": 64, "batch_tokens": 256, "dropout": 0.0}
    trained = regard.train(
        "recurrent-translator", pairs=str(tmp_path / "pairs.tsv"), out=str(tmp_path / "run"), **options
    )
    (best,) = regard.translate(trained.run, "Strickland loves Bob")[0]
    assert (best.text, best.tokens[2]) == ("Beto ama Strickland", "<unk>")
    assert regard.translate(trained.run, "Ann loves Strickland")[0][0].text == "Strickland ama Ana"


def test_two_translators_are_told_apart_or_not(taught: Path, capsys):
    same = paired(["a b c d"] * 20, ["a b c d"] * 20, ["a b c d"] * 20)["bleu"]
    assert (same.score, same.difference, same.p_value) == (pytest.approx(100), 0, 1)
    better = paired(["a b x y"] * 20, ["a b c d"] * 20, ["a b c d"] * 20)["bleu"]
    assert better.difference > 50
    assert better.p_value < 0.05
    files = ["--source", str(taught / "en.txt"), "--target", str(taught / "es.txt")]
    assert main(["evaluate", str(taught / "run"), *files, "--against", str(taught / "run"), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["against"]["bleu"]["p_value"] == 1
    assert main(["evaluate", str(taught / "run"), *files, "--against", str(taught / "run")]) == 0
    assert "+0.00 (p = 1.000, paired bootstrap)" in capsys.readouterr().out


def test_edits_on_edits_are_both_made(taught: Path):
    """A model under edits can be edited again, also at the same site: the inner edit comes first."""
    first = '{"do": "set", "site": "attention", "rows": [2], "columns": [0], "value": 1.0}'
    second = '{"do": "set", "site": "attention", "rows": [1], "columns": [4], "value": 1.0}'
    both = regard.edited(taught / "run", f"[{first}, {second}]")
    nested = regard.edited(regard.edited(taught / "run", first), second)
    weights = [
        regard.look(run, "I love you a lot", target="Te amo mucho").weights["attention"]
        for run in (both, nested)
    ]
    torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=0)
    assert weights[1][0, 1, 4] == weights[1][0, 2, 0] == 1


def test_a_look_under_edits_is_at_the_same_words(taught: Path, capsys):
    edit = '{"do": "set", "site": "attention", "rows": [0], "columns": [4], "value": 1.0}'  # another sentence is said
    assert main(["look", str(taught / "run"), "--text", "I love you a lot", "--edit", edit]) == 0
    told = capsys.readouterr().out
    assert "past the text's last" not in told  # the fourth column is "lot"
    edited = regard.look(regard.edited(taught / "run", edit), "I love you a lot")
    before = regard.look(taught / "run", "I love you a lot", target=edited.ids)
    assert before.tokens == edited.tokens
    assert f"({edited.surprisal[0] - before.surprisal[0]:+.2f})" in told


def test_a_translator_looks_at_itself_too(taught: Path):
    source = regard.look(
        taught / "back", "Te amo mucho", target="I love you a lot", sites=["source.layer0.attention"]
    )
    assert (source.tokens, source.columns) == (["Te", "amo", "mucho", "</s>"], None)
    assert source.weights["source.layer0.attention"].shape[1:] == (4, 4)
    target = regard.look(
        taught / "back", "Te amo mucho", target="I love you a lot", sites=["layer1.attention"]
    )
    assert target.tokens == ["<s>", "I", "love", "you", "a", "lot"]
    assert float(target.weights["layer1.attention"][:, 0, 0].min()) == 1  # the first sees itself alone
    with pytest.raises(UserError, match="do not look at the same words"):
        regard.look(taught / "back", "Te amo mucho", sites=["layer1.attention", "layer1.cross"])
    long = "Te " * 200
    for text, said, words in (
        (long, "I", "the text has 201 tokens"),
        ("Te amo", "I " * 200, "the target has 201 tokens"),
    ):
        with pytest.raises(UserError, match=words):
            regard.look(taught / "back", text, target=said)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["I", "--what-if", "0-0\n1-1"], "--what-if has 2 lines"),
        (["I", "--what-if", "\u00b2-0"], "is not a link"),
        (["I", "--length-penalty", "nan"], "--length-penalty lies between"),
        (["I", "--beam", "0"], "--count and --beam must be 1 or more"),
        (["I love\nyou"], "has a line end in it"),
        (["--out", "x.svg"], "--out draws one sentence"),
    ],
)
def test_what_cannot_be_translated_is_told(
    taught: Path, tmp_path: Path, monkeypatch, capsys, arguments, words
):
    monkeypatch.chdir(tmp_path)
    assert main(["translate", str(taught / "run"), *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert words in told.err


def test_a_file_keeps_its_lines(taught: Path, tmp_path: Path, capsys):
    (tmp_path / "en").write_bytes(b"I love you a lot\r\n\r\nWe spoke well\r\n\n\n")
    assert main(["translate", str(taught / "run"), "--file", str(tmp_path / "en")]) == 0
    assert capsys.readouterr().out == "Te amo mucho\n\nHablamos bien\n\n\n"


def test_a_translator_is_looked_at_and_changed_like_others(taught: Path, capsys, tmp_path: Path):
    found = regard.look(taught / "run", "I love you a lot")
    assert found.tokens == ["Te", "amo", "mucho", "</s>"]
    assert found.columns == ["I", "love", "you", "a", "lot", "</s>"]
    (best,) = regard.translate(taught / "run", "I love you a lot")
    torch.testing.assert_close(found.weights["attention"], best[0].attention["attention"])
    assert -sum(found.surprisal) == pytest.approx(best[0].log_prob, abs=1e-4)
    made = regard.look(taught / "run", "I love you a lot", target="Te mucho")
    assert made.tokens == ["Te", "mucho", "</s>"]
    for ending in ("html", "svg", "png", "json"):
        assert (
            main(
                [
                    "look",
                    str(taught / "run"),
                    "--text",
                    "I love you",
                    "--out",
                    str(tmp_path / f"look.{ending}"),
                ]
            )
            == 0
        )
    assert "source: 0 I  1 love  2 you  3 </s>" in capsys.readouterr().out
    blind = '{"do": "silence", "site": "attention"}'
    edited = regard.edited(taught / "run", blind)
    assert regard.look(edited, "I love you a lot", target="Te amo mucho").surprisal != found.surprisal
    assert float(regard.look(edited, "I love you a lot").weights["attention"].sum()) == 0
    assert main(["translate", str(taught / "run"), "I love you a lot", "--edit", blind]) == 0
    # one row looks at "lot": what came before is said as before
    move = '{"do": "set", "site": "attention", "rows": [1], "columns": [4], "value": 0.9}'
    moved = regard.look(regard.edited(taught / "run", move), "I love you a lot", target="Te amo mucho")
    assert moved.surprisal[0] == pytest.approx(found.surprisal[0])
    assert moved.surprisal[1] != found.surprisal[1]
    with pytest.raises(UserError, match="not for translators"):
        regard.edited(taught / "run", '{"do": "patch", "site": "hidden", "text": "I"}')
    with pytest.raises(UserError, match="nothing to look at"):
        regard.look(taught / "run", " ")


def test_the_page_of_a_translation_shades_its_source(taught: Path, tmp_path: Path, open_page):
    found = regard.look(taught / "back", "Te amo mucho")
    (tmp_path / "page.html").write_text(page(found, "a translation"))
    opened = open_page(tmp_path / "page.html")
    assert opened.locator("#source button").all_inner_texts() == found.columns
    assert opened.locator("#text button").all_inner_texts() == found.tokens
    opened.locator("#text button").first.click()
    titles = opened.locator("#source button").evaluate_all("all => all.map(one => Number(one.title))")
    assert titles == pytest.approx(found.weights["layer0.cross"][0, 0].tolist(), abs=1 / 255 + 0.0005)
    assert "It might have said" in opened.locator("#next").inner_text()


def test_half_the_digits_say_the_same(taught: Path, capsys):
    lines = (taught / "en.txt").read_text().splitlines()[:7]
    whole, half = (
        regard.translate(taught / "run", lines, precision=precision) for precision in ("fp32", "bf16")
    )
    assert [said[0].text for said in half] == [said[0].text for said in whole]
    assert [said[0].score for said in half] != [said[0].score for said in whole]
    assert [said[0].score for said in half] == pytest.approx([said[0].score for said in whole], abs=0.01)
    assert main(["translate", str(taught / "run"), lines[0], "--precision", "auto"]) == 0
    assert capsys.readouterr().out.strip() == whole[0][0].text
    with pytest.raises(UserError, match="--precision is one of auto, fp32, bf16"):
        regard.translate(taught / "run", lines, precision="fp16")
