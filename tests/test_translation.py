"""Translators: parallel text, batches, beams, the verbs, and alignments whose truth is known."""

import itertools
import json
import shutil
from pathlib import Path

import pytest
import torch

import regard
from regard import models
from regard.cli import main
from regard.errors import UserError
from regard.inside.page import page
from regard.models.recurrent_translator import RecurrentTranslator
from regard.models.transformer_translator import TransformerTranslator
from regard.probabilities.beams import beam_search
from regard.probabilities.quality import paired
from regard.probabilities.translating import _text
from regard.runs.training import option_kinds, split_options
from regard.text import parallel
from regard.text.grammar import Phrase, english_spanish, sentence
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.pairs import PairSchedule, encode_pairs
from regard.tokens.words import WordTokenizer

V = 5


def test_the_grammar_says_what_the_lecture_says():
    first, second = english_spanish(2)
    assert (first.source, first.target) == ("I love you a lot", "Te amo mucho")
    assert first.alignment == {(0, 1), (1, 1), (2, 0), (3, 2), (4, 2)}  # "I" is in the ending of "amo"
    assert (second.source, second.target) == ("The dog ran really fast", "El perro corrió muy rápido")
    assert second.alignment == {(n, n) for n in range(5)}
    seen = sentence(Phrase("the", "big", "dog"), ("see", "sees"), Phrase("the", "young", "king"))
    assert (seen.source, seen.target) == ("The big dog sees the young king", "El perro grande ve al rey joven")
    assert seen.alignment == {(0, 0), (1, 2), (2, 1), (3, 3), (4, 4), (5, 6), (6, 5)}


def test_the_grammar_makes_thousands_of_sentences_with_one_translation_each():
    pairs = english_spanish()
    assert len(pairs) == len({pair.source for pair in pairs}) == 5000
    for pair in pairs:
        source, target = pair.source.split(), pair.target.split()
        assert all(i < len(source) and j < len(target) for i, j in pair.alignment)
        assert {i for i, _ in pair.alignment} == set(range(len(source)))  # every English word is said
    assert sum(len(pair.source.split()) != len(pair.target.split()) for pair in pairs) > 1000


def some_pairs(count: int = 40):
    pairs = parallel.built_in().part(range(count))
    source, target = (
        train_tokenizer(["\n".join(side)], TokenOptions(tokens="word", document="line"))[0] for side in (pairs.sources, pairs.targets)
    )
    return pairs, source, target, encode_pairs(pairs, source, target, 100)[0]


def test_every_pair_is_read_once_an_epoch_within_the_budget():
    _, _, _, encoded = some_pairs()
    schedule = PairSchedule(encoded, 37, seed=3, source_padding=-1)
    for epoch in (0, 1):
        places, read = [], 0
        for step in range(schedule.steps(epoch)):
            place_BT, fresh_B = schedule.places(epoch, step)
            source_BS = schedule.sources(epoch, step)
            assert len(source_BS) == len(place_BT) == len(fresh_B)
            assert max(source_BS.numel(), place_BT.numel()) <= 37 or len(place_BT) == 1
            places += place_BT[place_BT >= 0].tolist()
            read += int((source_BS >= 0).sum())
        assert sorted(places) == list(range(len(encoded.target)))
        assert read == len(encoded.source)
    assert not torch.equal(schedule.places(0, 0)[0], schedule.places(1, 0)[0])


def make(kind, **options):
    torch.manual_seed(5)
    model = kind(V, kind.Config(**options), 7).eval()
    for parameter in model.parameters():  # large enough that sentences differ
        torch.nn.init.normal_(parameter, std=0.5)
    return model


TRANSLATORS = {
    "recurrent": lambda: make(RecurrentTranslator, width=6),
    "feed": lambda: make(RecurrentTranslator, width=6, feed=True, cell="gru"),
    "transformer": lambda: make(TransformerTranslator, width=8, heads=2, layers=2, context=23),
}
SOURCES = torch.tensor([[1, 2, 3, 7], [4, 0, 7, 7], [5, 1, 6, 2]])


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_beam_wide_enough_finds_the_best_of_all(name: str, double):
    model, end, longest = TRANSLATORS[name](), 0, 3
    with torch.no_grad():
        found = beam_search(model, model.read(SOURCES), end, beam=V**longest, longest_B=torch.full((3,), longest), penalty=0.0)
        for row in range(3):
            best = max(_all(model, SOURCES[row : row + 1], end, longest), key=lambda one: one[1])
            assert found[row][0].ids == best[0]
            assert found[row][0].log_prob == pytest.approx(best[1], abs=1e-10)


def _all(model, source, end, longest):
    """Every sentence that ends within so many steps, or is cut there, with its log-probability."""
    for length in range(longest + 1):
        for ids in itertools.product(range(1, V), repeat=length):
            steps = [*ids, end] if length < longest else list(ids)
            log_probs = model(torch.tensor([[model.start, *steps[:-1]]]), model.read(source))[0].log_probs()[0]
            yield list(ids), float(sum(log_probs[t, token] for t, token in enumerate(steps)))


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_sentence_in_a_batch_is_translated_as_alone(name: str, double):
    model = TRANSLATORS[name]()
    with torch.no_grad():
        together = beam_search(model, model.read(SOURCES), 0, beam=3, longest_B=torch.tensor([9, 5, 7]))
        for row, longest in enumerate((9, 5, 7)):
            alone = beam_search(model, model.read(SOURCES[row : row + 1]), 0, beam=3, longest_B=torch.tensor([longest]))[0]
            assert [one.ids for one in alone] == [one.ids for one in together[row]]
            assert [one.score for one in alone] == pytest.approx([one.score for one in together[row]], abs=1e-10)


@pytest.mark.parametrize("name", TRANSLATORS)
def test_beams_share_their_source(name: str, double):
    """Picking beams of a sentence keeps its memory once, and what follows is what each would say alone."""
    model = TRANSLATORS[name]()
    with torch.no_grad():
        state = model.read(SOURCES).pick(torch.tensor([0, 0, 1, 1, 2, 2]))
        assert len(state.source_BS) == 3
        tokens = torch.tensor([[model.start, 1], [model.start, 2]] * 3)
        shared, state = model(tokens, state)
        plain, _ = model(tokens, model.read(SOURCES.repeat_interleave(2, 0)))
        torch.testing.assert_close(shared.log_probs(), plain.log_probs(), rtol=0, atol=1e-10)
        mixed = state.pick(torch.tensor([5, 0, 1]))  # no equal groups: each row has a source of its own
        assert len(mixed.source_BS) == 3
        more, _ = model(torch.tensor([[3], [3], [3]]), mixed)
        again, _ = model(torch.cat([tokens, torch.full((6, 1), 3)], 1), model.read(SOURCES.repeat_interleave(2, 0)))
        torch.testing.assert_close(more.log_probs()[:, 0], again.log_probs()[[5, 0, 1], 2], rtol=0, atol=1e-10)


def test_no_state_is_an_error():
    with pytest.raises(ValueError, match="goes on from a source"):
        TRANSLATORS["recurrent"]()(torch.tensor([[V]]))


def test_it_learns_by_heart_and_every_verb_answers(taught: Path, regard_cli):
    first = regard_cli("translate", taught / "run", "I love you a lot", "We spoke well")
    assert first.stdout == "Te amo mucho\nHablamos bien\n"
    measured = json.loads(
        regard_cli("evaluate", taught / "run", "--source", taught / "en.txt", "--target", taught / "es.txt", "--json").stdout
    )
    assert measured["bleu"] > 90
    assert measured["signatures"]["bleu"].startswith("nrefs:1|case:mixed")
    assert (measured["sentences"], measured["left_out"]) == (60, 0)
    lines = (taught / "en.txt").read_text()
    out = regard_cli("translate", taught / "run", "--beam", "1", stdin=(lines + "\n").encode()).stdout
    said = regard_cli("translate", taught / "run", "--file", taught / "en.txt", "--beam", "1").stdout
    assert out == said + "\n"  # a filter keeps the order, and an empty line stays one
    best = json.loads(regard_cli("translate", taught / "run", "I love you a lot", "--count", "3", "--json").stdout)
    (one,) = best["translations"]
    assert [two["score"] for two in one["translations"]] == sorted((two["score"] for two in one["translations"]), reverse=True)
    weights = torch.tensor(one["translations"][0]["attention"]["attention"])
    assert weights.shape == (1, 4, 6)  # Te amo mucho </s>, I love you a lot </s>
    torch.testing.assert_close(weights.sum(2), torch.ones(1, 4))
    assert one["translations"][0]["tokens"] == ["Te", "amo", "mucho", "</s>"]
    sampled = [
        regard_cli("translate", taught / "run", "I love you a lot", "--temperature", "2", "--seed", str(seed)).stdout for seed in (1, 1, 5)
    ]
    assert sampled[0] == sampled[1]
    assert regard_cli("translate", taught / "run", "I love you", "--out", "grid.svg").returncode == 0
    (two,) = regard.translate(taught / "back", "Te amo mucho")
    assert set(two[0].attention) == {"layer0.cross", "layer1.cross"}


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
        assert main(["look", str(taught / "run"), "--text", "I love you", "--out", str(tmp_path / f"look.{ending}")]) == 0
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


def test_the_page_of_a_translation_shades_its_source(taught: Path, tmp_path: Path):
    chromium = shutil.which("chromium")
    if chromium is None:
        pytest.skip("chromium is not installed")
    from playwright.sync_api import sync_playwright

    found = regard.look(taught / "back", "Te amo mucho")
    (tmp_path / "page.html").write_text(page(found, "a translation"))
    errors = list[object]()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox", "--disable-background-networking"])
        opened = browser.new_page(viewport={"width": 360, "height": 640})
        opened.on("pageerror", lambda error: errors.append(error))
        opened.goto((tmp_path / "page.html").as_uri())
        opened.wait_for_selector("body[data-ready]")
        assert opened.locator("#source button").all_inner_texts() == found.columns
        assert opened.locator("#text button").all_inner_texts() == found.tokens
        opened.locator("#text button").first.click()
        titles = opened.locator("#source button").evaluate_all("all => all.map(one => Number(one.title))")
        assert titles == pytest.approx(found.weights["layer0.cross"][0, 0].tolist(), abs=1 / 255 + 0.0005)
        assert "It might have said" in opened.locator("#next").inner_text()
        assert opened.evaluate("document.documentElement.scrollWidth") <= 360
        browser.close()
    assert errors == []


def test_options_of_translators_are_options_of_training(tmp_path: Path):
    pairs = parallel.built_in().part(range(40))
    (tmp_path / "pairs.tsv").write_text("".join(f"eng\tspa\t{s}\t{t}\n" for s, t in zip(pairs.sources, pairs.targets, strict=True)))
    trained = regard.train(
        "transformer-translator",
        pairs=str(tmp_path / "pairs.tsv"), out=str(tmp_path / "run"), tokens="bpe", bpe_size=300, shared=True,
        layers=1, width=16, heads=2, steps=6, evaluate_every=2, label_smoothing=0.1, average=3, stop_on="bleu", patience=5,
        batch_tokens=200,
    )  # fmt: skip
    assert trained.run.source.to_json() == trained.run.tokenizer.to_json()
    assert "bleu" in trained.to_json()
    assert all("judged" in json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines())
    again = regard.load(tmp_path / "run")
    assert regard.translate(again, "I love you")[0][0].text == regard.translate(trained.run, "I love you")[0][0].text


@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        (("a\nb\n", "c\n"), [], "en.txt has 2 lines and es.txt 1"),
        (("\n\n", "c\nd\n"), [], "no pair has words on both sides"),
        (("a b c\nd e f\n" * 9, "g\nh\n" * 9), ["--longest", "2"], "every pair has more than 2 tokens on a side"),
        (("a\n" * 4, "b\n" * 4), [], "one sentence cannot be split"),
        (("a\nb\n" * 9, "c\nd\n" * 9), ["--shared"], "--shared is for --tokens bpe"),
        (("a\nb\n" * 9, "c\nd\n" * 9), ["--batch", "8"], "give --batch-tokens instead of --batch"),
        (("a\nb\n" * 9, "c\nd\n" * 9), ["--batch-tokens", "0"], "--batch-tokens must be 1 or more"),
        (("a\nb\n" * 9, "c\nd\n" * 9), ["--text", "en.txt"], "--text is not an option of regard train recurrent-translator"),
    ],
)
def test_parallel_text_that_does_not_fit_is_told(tmp_path: Path, regard_cli, files, options, words):
    for name, text in zip(("en.txt", "es.txt"), files, strict=True):
        (tmp_path / name).write_text(text)
    done = regard_cli("train", "recurrent-translator", "--source", "en.txt", "--target", "es.txt", "--steps", "2", *options)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_what_is_left_out_is_counted(tmp_path: Path):
    lines = [f"a w{number}" if number % 4 else "a b c d e f" + f" w{number}" for number in range(40)]
    (tmp_path / "en.txt").write_text("\n".join(["", *lines, ""]) + "\n")
    (tmp_path / "es.txt").write_text("k l\n" * 42)
    paths = {"source": str(tmp_path / "en.txt"), "target": str(tmp_path / "es.txt")}
    trained = regard.train("recurrent-translator", **paths, out=str(tmp_path / "run"), longest=5, steps=2, width=8)
    assert any("10 pairs have more than 5 tokens" in note for note in trained.run.config["notes"])
    assert any("2 pairs have nothing on one side" in note for note in trained.run.config["notes"])


def test_lines_that_say_nothing_stay_lines(taught: Path, capsys, tmp_path: Path, regard_cli):
    (tmp_path / "en").write_text("I love you a lot\n\nWe spoke well\n")
    (tmp_path / "es").write_text("Te amo mucho\nfoo\nHablamos bien\n")
    assert main(["align", str(taught / "run"), "--source", str(tmp_path / "en"), "--target", str(tmp_path / "es")]) == 0
    told = capsys.readouterr()
    lines = told.out.split("\n")
    assert (len(lines), lines[1], lines[3]) == (4, "", "")
    assert "1 pairs are empty on a side" in told.err
    assert main(["evaluate", str(taught / "run"), "--source", str(tmp_path / "en"), "--target", str(tmp_path / "es"), "--json"]) == 0
    measured = json.loads(capsys.readouterr().out)
    assert (measured["sentences"], measured["left_out"]) == (2, 1)
    assert main(["translate", str(taught / "run"), "--file", str(tmp_path / "en")]) == 0
    assert capsys.readouterr().out == "Te amo mucho\n\nHablamos bien\n"
    refused = regard_cli("translate", taught / "run", stdin=b"\xff\xfe\n")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "line 1: byte 0 (0xff) is not UTF-8" in refused.stderr


def test_wrong_alignments_and_sentences_are_told(taught: Path, tmp_path: Path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "a").write_text("0-0 1-1\n\n2?1\n")
    (tmp_path / "b").write_text("0-0\n\n")
    (tmp_path / "c").write_text("0-0 x\n\n\n")
    (tmp_path / "d").write_text("0-0\n\n1-0\n")
    (tmp_path / "three").write_text("w v\nw\nw\n")
    for arguments, words in (
        (["--score", "a", "--gold", "b"], "a has 3 lines and b 2"),
        (["--score", "c", "--gold", "a"], "c: line 1: 'x' is not a link"),
        (["--score", "a", "--gold", "a", "--index", "1"], "line 1: '0-0' lies below the first word"),
        (["--score", "a", "--gold", "d", "--source", "three", "--target", "three"], "a: line 3: 2-1 lies outside its sentence"),
        (["--score", "a"], "is measured against --gold"),
        ([], "name a run"),
    ):
        assert main(["align", *arguments]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert words in told.err
    for arguments, words in (
        (["translate", taught / "run", ""], "a sentence is empty"),
        (["translate", taught / "run", "a", "--count", "0"], "--count and --beam must be 1 or more"),
        (["generate", taught / "run", "--prompt", "a"], "this run translates; use regard translate"),
        (["score", taught / "run", "--text", taught / "en.txt"], "this run translates"),
        (
            [
                "align",
                taught / "run",
                "--source",
                taught / "en.txt",
                "--target",
                taught / "es.txt",
                "--reverse",
                taught / "run",
            ],
            "translates back",
        ),
        (["translate", taught / "run", "a", "--count", "9"], "5 hypotheses with --beam 5"),
        (["translate", taught / "back", " ".join("x" * 200)], "and the model reads 128"),
        (["evaluate", taught / "run", "--source", taught / "en.txt"], "--source and --target go together"),
        (["evaluate", taught / "run", "--text", taught / "en.txt"], "a translator is measured on --source and --target"),
    ):
        assert main([str(one) for one in arguments]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert words in told.err
    assert main(["translate", str(taught / "run"), "zebra love you"]) == 0  # a word never seen is read as <unk>
    (tmp_path / "text.txt").write_text("a b\n" * 9)
    counted = regard.train("ngram", text=str(tmp_path / "text.txt"), out=str(tmp_path / "ngram")).run
    with pytest.raises(UserError, match="does not translate"):
        regard.translate(counted, "a")


def test_what_was_said_stays_and_the_rest_is_searched_for():
    model = make(RecurrentTranslator, width=6)
    end, longest_B = 0, torch.full((3,), 4)
    every = beam_search(model, model.read(SOURCES), end, beam=V**4, longest_B=longest_B, penalty=0.0)
    for row, found in enumerate(beam_search(model, model.read(SOURCES), end, beam=V**4, longest_B=longest_B, penalty=0.0, said=[2, 1])):
        assert all(one.ids[:2] == [2, 1] for one in found)
        best = next(one for one in every[row] if one.ids[:2] == [2, 1])  # the best of all that begin so
        assert found[0].ids == best.ids
        assert found[0].log_prob == pytest.approx(best.log_prob, abs=1e-5)


def test_one_link_is_moved_and_the_rest_is_said_again(taught: Path, capsys):
    before, after = regard.what_if(taught / "run", "I love you a lot", (4, 1))
    assert before.text == "Te amo mucho"
    assert after.tokens[0] == "Te"
    assert after.attention["attention"][0, 1].tolist() == pytest.approx([0, 0, 0, 0, 1, 0])  # "lot", and nothing else
    assert after.attention["attention"][0, 0].tolist() == pytest.approx(before.attention["attention"][0, 0].tolist(), abs=1e-5)
    _, turned = regard.what_if(taught / "back", "Te amo mucho", (1, 0))  # several layers and heads, all made to look there
    assert all(weights[:, 0].tolist() == [pytest.approx([0, 1, 0, 0])] * len(weights) for weights in turned.attention.values())
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
    looked = {"one": torch.tensor([[[0.1, 0.8, 0.1], [0.2, 0.3, 0.5]]]), "two": torch.tensor([[[0.2, 0.7, 0.1], [0.4, 0.3, 0.3]]])}
    # the end, the third column, is no word; the average of the second row is [0.3, 0.3, 0.4], the first of the two
    assert _text(target, [target.unknown, target.unknown], ["Ann", "Strickland"], looked) == "Strickland Ann"
    assert _text(target, [2, target.unknown], ["Ann", "Strickland"], looked) == "te Ann"
    assert _text(target, [2, target.unknown], ["Ann", "Strickland"], {}) == "te <unk>"  # without attention nothing says which


def test_names_are_copied_through(tmp_path: Path):
    """Names seen once are unknown with a cutoff of 2, in training as later: what is learned is to say <unk> and where to look."""
    known = {"Ann": "Ana", "Bob": "Beto", "Joe": "Pepe"}
    lines = []
    for number in range(400):  # either name, both or none are known, and the order is turned round: it has to look
        one, other = ([*known, *[f"Name{number}{part}"] * 3][number // step % 6] for part, step in (("a", 1), ("b", 6)))
        lines.append(f"{one} loves {other}\t{known.get(other, other)} ama {known.get(one, one)}\n")
    (tmp_path / "pairs.tsv").write_text("".join(lines))
    options = {"cutoff": 2, "steps": 300, "width": 64, "batch_tokens": 256, "dropout": 0.0}
    trained = regard.train("recurrent-translator", pairs=str(tmp_path / "pairs.tsv"), out=str(tmp_path / "run"), **options)
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


def test_minutes_are_for_every_family():
    for family in models.FAMILIES | models.TRANSLATORS:
        kind = models.family_class(family)
        if kind.training_defaults is not None:
            assert option_kinds(kind)[-1](minutes=1.0).steps is None


def test_medium_translators_are_larger():
    for family in models.TRANSLATORS:
        kind = models.family_class(family)
        _, _, config, training = split_options(family, kind.medium, *option_kinds(kind))
        assert kind(11, config, 7).sizes() > kind(11, kind.Config(), 7).sizes()
        assert training.label_smoothing == 0.1


def test_edits_on_edits_are_both_made(taught: Path):
    """A model under edits can be edited again, also at the same site: the inner edit comes first."""
    first = '{"do": "set", "site": "attention", "rows": [2], "columns": [0], "value": 1.0}'
    second = '{"do": "set", "site": "attention", "rows": [1], "columns": [4], "value": 1.0}'
    both = regard.edited(taught / "run", f"[{first}, {second}]")
    nested = regard.edited(regard.edited(taught / "run", first), second)
    weights = [regard.look(run, "I love you a lot", target="Te amo mucho").weights["attention"] for run in (both, nested)]
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
    source = regard.look(taught / "back", "Te amo mucho", target="I love you a lot", sites=["source.layer0.attention"])
    assert (source.tokens, source.columns) == (["Te", "amo", "mucho", "</s>"], None)
    assert source.weights["source.layer0.attention"].shape[1:] == (4, 4)
    target = regard.look(taught / "back", "Te amo mucho", target="I love you a lot", sites=["layer1.attention"])
    assert target.tokens == ["<s>", "I", "love", "you", "a", "lot"]
    assert float(target.weights["layer1.attention"][:, 0, 0].min()) == 1  # the first sees itself alone
    with pytest.raises(UserError, match="do not look at the same words"):
        regard.look(taught / "back", "Te amo mucho", sites=["layer1.attention", "layer1.cross"])
    long = "Te " * 200
    for text, said, words in ((long, "I", "the text has 201 tokens"), ("Te amo", "I " * 200, "the target has 201 tokens")):
        with pytest.raises(UserError, match=words):
            regard.look(taught / "back", text, target=said)


def test_what_did_not_end_has_no_end(taught: Path):
    model = make(RecurrentTranslator, width=6)
    never = 99  # an end that is never said
    for one in beam_search(model, model.read(SOURCES), never, beam=2, longest_B=torch.full((3,), 4))[0]:
        assert (one.ended, len(one.ids)) == (False, 4)


def test_validation_pairs_may_be_the_training_pairs(taught: Path, capsys):
    assert main(["evaluate", str(taught / "run"), "--json"]) == 0  # it was trained so
    assert json.loads(capsys.readouterr().out)["sentences"] == 60


def test_pairs_exactly_as_long_as_the_limit_fit():
    _, source, target, _ = some_pairs()
    three = parallel.Parallel((), ["I love", "I love you"], ["Te amo", "Te amo mucho"])
    encoded, kept = encode_pairs(three, source, target, 3)
    assert (kept.targets, encoded.too_long) == (["Te amo"], 1)  # with its end it has three tokens


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
def test_what_cannot_be_translated_is_told(taught: Path, tmp_path: Path, monkeypatch, capsys, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert main(["translate", str(taught / "run"), *arguments]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert words in told.err


def test_a_file_keeps_its_lines(taught: Path, tmp_path: Path, capsys):
    (tmp_path / "en").write_bytes(b"I love you a lot\r\n\r\nWe spoke well\r\n\n\n")
    assert main(["translate", str(taught / "run"), "--file", str(tmp_path / "en")]) == 0
    assert capsys.readouterr().out == "Te amo mucho\n\nHablamos bien\n\n\n"
