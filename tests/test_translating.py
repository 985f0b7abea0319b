"""What a trained translator does: looked at, changed, asked what if."""

import json
from pathlib import Path

import pytest
import torch

import regard
from regard.cli import main
from regard.errors import Notice, UserError
from regard.models.contract import LanguageModel, Padded, State
from regard.models.given import Sentences
from regard.models.predictions import SoftmaxPrediction
from regard.parts.look import Look, Site, declare
from regard.probabilities.quality import paired_bootstrap
from regard.probabilities.translation import Search, translate
from regard.tokens.words import WordTokenizer


def test_one_link_is_moved_and_the_rest_is_said_again(taught: Path, capsys):
    moved = regard.translate(taught / "run", "I love you a lot", what_if="4-1")
    before, after = moved.before, moved.after
    assert before.text == "Te amo mucho"
    assert after.tokens[0] == "Te"
    assert after.attention["attention"][0, 1].tolist() == pytest.approx(
        [0, 0, 0, 0, 1, 0]
    )  # "lot", and nothing else
    assert after.attention["attention"][0, 0].tolist() == pytest.approx(
        before.attention["attention"][0, 0].tolist(), abs=1e-5
    )
    # several layers and heads, all made to look there
    turned = regard.translate(taught / "back", "Te amo mucho", what_if="1-0").after
    assert set(turned.attention) == {"layer0.cross", "layer1.cross"}
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


class Saying(LanguageModel):
    """Its translations are always the same tokens, and so are the weights of its sites while it says them."""

    family = "saying"
    given = Sentences(7)

    def __init__(self, says: list[int], weights: dict[str, list[list[float]]]):
        super().__init__(5, None)
        self.weights = {site: torch.tensor([[rows]]) for site, rows in weights.items()}
        self.register_buffer("logits_TV", 9.0 * torch.eye(5)[says])

    def sites(self) -> dict[str, Site]:
        return declare(*(Site(name, "BHTS", "weights", columns="given") for name in self.weights))

    def begin(self, given, look: Look | None = None) -> State:
        return State(torch.zeros(len(given), dtype=torch.long))

    def forward(self, tokens_BT, state: State, look: Look | None = None, padded: Padded = "anywhere"):
        position_BT = state.position_B.unsqueeze(1) + torch.arange(tokens_BT.shape[1])
        for name, weights in self.weights.items() if look is not None else ():
            look.watch(name, lambda weights=weights: weights)
        prediction = SoftmaxPrediction(self.logits_TV[position_BT], torch.eye(5), torch.zeros(5))
        return prediction, State(state.position_B + tokens_BT.shape[1])


def test_an_unknown_word_is_copied_from_where_it_looks():
    source, target = WordTokenizer([b"Ann"], "line"), WordTokenizer([b"te", b"amo"], "line")
    end, unknown, te = target.end, target.unknown, 2
    looks = {
        "one": [[0.1, 0.8, 0.1], [0.2, 0.3, 0.5], [1.0, 0.0, 0.0]],
        "two": [[0.2, 0.7, 0.1], [0.4, 0.3, 0.3], [1.0, 0.0, 0.0]],
    }

    def translated(says: list[int], weights: dict[str, list[list[float]]]) -> str:
        ((best,),) = translate(Saying(says, weights), source, target, ["Ann Strickland"], Search(beam=1))
        assert best.ids == says
        return best.text

    # the end, the third column, is no word; the second row's average is [0.3, 0.3, 0.4]: the first of the two
    assert translated([unknown, unknown, end], looks) == "Strickland Ann"
    assert translated([te, unknown, end], looks) == "te Ann"
    assert translated([te, unknown, end], {}) == "te <unk>"  # without attention nothing says which


def test_names_are_copied_through(tmp_path: Path):
    """Names seen once are unknown with a cutoff of 2, in training as later.

    The model learns to say <unk>, and where to look.
    """
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
    with pytest.warns(Notice, match="1 of 3 tokens were never seen in training"):
        (best,) = regard.translate(trained.run, "Strickland loves Bob")[0]
    assert (best.text, best.tokens[2]) == ("Beto ama Strickland", "<unk>")
    with pytest.warns(Notice, match="1 of 3 tokens were never seen in training"):
        (best,) = regard.translate(trained.run, "Ann loves Strickland")[0]
    assert best.text == "Strickland ama Ana"


def test_two_translators_are_told_apart_or_not(taught: Path, capsys):
    same = paired_bootstrap(["a b c d"] * 20, ["a b c d"] * 20, ["a b c d"] * 20)["bleu"]
    assert (same.score, same.difference, same.p_value) == (pytest.approx(100), 0, 1)
    better = paired_bootstrap(["a b x y"] * 20, ["a b c d"] * 20, ["a b c d"] * 20)["bleu"]
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
        regard.look(run, "I love you a lot", target="Te amo mucho").record.map("attention").numbers
        for run in (both, nested)
    ]
    torch.testing.assert_close(weights[0], weights[1], rtol=0, atol=0)
    assert weights[1][0, 1, 4] == weights[1][0, 2, 0] == 1


def test_a_look_under_edits_is_at_the_same_words(taught: Path, capsys):
    # another sentence is said
    edit = '{"do": "set", "site": "attention", "rows": [0], "columns": [4], "value": 1.0}'
    assert main(["look", str(taught / "run"), "--text", "I love you a lot", "--edit", edit]) == 0
    told = capsys.readouterr()
    assert "past the text's last" not in told.out + told.err  # the fourth column is "lot"
    edited = regard.look(regard.edited(taught / "run", edit), "I love you a lot").record
    # without the start mark
    before = regard.look(taught / "run", "I love you a lot", target=edited.ids[1:]).record
    assert before.tokens == edited.tokens
    assert f"({edited.surprisal[1] - before.surprisal[1]:+.2f})" in told.out


def test_a_translator_looks_at_itself_too(taught: Path):
    both = {"target": "I love you a lot"}
    site = "source.layer0.attention"
    source = regard.look(taught / "back", "Te amo mucho", sites=[site], **both).record.map(site)
    assert source.row_names == source.column_names == ("Te", "amo", "mucho", "</s>")
    assert source.numbers.shape[1:] == (4, 4)
    target = regard.look(taught / "back", "Te amo mucho", sites=["layer1.attention"], **both).record
    own = target.map("layer1.attention")
    assert own.row_names == own.column_names == ("<s>", "I", "love", "you", "a", "lot")
    assert float(own.numbers[:, 0, 0].min()) == 1  # the first sees itself alone
    every = regard.look(
        taught / "back", "Te amo mucho", sites=["layer1.attention", "layer1.cross"], **both
    ).record
    torch.testing.assert_close(every.map("layer1.attention").numbers, own.numbers, rtol=0, atol=0)
    crossing = every.map("layer1.cross")  # each map has its own rows and columns
    assert crossing.row_names == ("I", "love", "you", "a", "lot", "</s>")  # a row predicts its word
    assert crossing.column_names == ("Te", "amo", "mucho", "</s>")
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
        (["I", "--length-penalty", "nan"], "--length-penalty must be a finite number"),
        (["I", "--beam", "0"], "--beam must be 1 or more"),
        (["I love\nyou"], "contains a line end"),
        (["--out", "x.svg"], "--out draws the first sentence"),
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
    found = regard.look(taught / "run", "I love you a lot").record
    assert found.tokens == ["<s>", "Te", "amo", "mucho", "</s>"]
    attention = found.map("attention")
    assert attention.row_names == ("Te", "amo", "mucho", "</s>")
    assert attention.column_names == ("I", "love", "you", "a", "lot", "</s>")
    (best,) = regard.translate(taught / "run", "I love you a lot")
    torch.testing.assert_close(attention.numbers, best[0].attention["attention"])
    assert found.surprisal[0] is None
    assert -sum(found.surprisal[1:]) == pytest.approx(best[0].log_prob, abs=1e-4)
    made = regard.look(taught / "run", "I love you a lot", target="Te mucho").record
    assert made.tokens == ["<s>", "Te", "mucho", "</s>"]
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
    changed = regard.look(edited, "I love you a lot", target="Te amo mucho").record
    assert changed.surprisal != found.surprisal
    assert float(regard.look(edited, "I love you a lot").record.map("attention").numbers.sum()) == 0
    assert main(["translate", str(taught / "run"), "I love you a lot", "--edit", blind]) == 0
    # one row looks at "lot": what came before is said as before
    move = '{"do": "set", "site": "attention", "rows": [1], "columns": [4], "value": 0.9}'
    moved = regard.look(regard.edited(taught / "run", move), "I love you a lot", target="Te amo mucho").record
    assert moved.surprisal[1] == pytest.approx(found.surprisal[1])
    assert moved.surprisal[2] != found.surprisal[2]
    with pytest.raises(UserError, match="not for models whose state begins with a source"):
        regard.edited(taught / "run", '{"do": "patch", "site": "hidden", "text": "I"}')
    with pytest.raises(UserError, match="nothing to look at"):
        regard.look(taught / "run", " ")


def test_the_file_of_a_translation_holds_the_weights_over_its_source(taught: Path, tmp_path, open_page):
    found = regard.look(taught / "back", "Te amo mucho", out=tmp_path / "page.html").record
    opened = open_page(tmp_path / "page.html", ".from .chosen")
    assert opened.locator(".weights .word").all_inner_texts() == found.given
    assert opened.locator(".from .word").all_inner_texts() == found.tokens[1:]

    def shown() -> list[float]:
        opened.wait_for_selector(".weights .line .number:not(:empty)")
        return [float(number) for number in opened.locator(".weights .line .number").all_inner_texts()]

    def weights(site: str) -> list[float]:
        """The mean over the heads, of the state that predicted the first word."""
        return found.map(site).numbers[:, 0].mean(0).tolist()

    opened.locator(".from .word").first.click()
    assert shown() == pytest.approx(weights("layer0.cross"), abs=0.0051)
    opened.locator("select").select_option("layer1.cross")
    assert shown() == pytest.approx(weights("layer1.cross"), abs=0.0051)


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
    with pytest.raises(UserError, match="`precision` must be one of auto, fp32, bf16"):
        regard.translate(taught / "run", lines, precision="fp16")
