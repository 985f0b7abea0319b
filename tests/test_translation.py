"""Translators: parallel text, batches, beams, the verbs, and alignments whose truth is known."""

import itertools
import json
from pathlib import Path

import pytest
import torch

import regard
from regard import models
from regard.cli import main
from regard.errors import UserError
from regard.models.recurrent_translator import RecurrentTranslator
from regard.models.transformer_translator import TransformerTranslator
from regard.probabilities.beams import beam_search
from regard.text import parallel
from regard.text.grammar import Phrase, english_spanish, sentence
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.pairs import PairSchedule, encode_pairs, source_rows
from regard.training.options import LENGTHS, option_classes, read_options

V = 5


def test_the_grammar_says_what_the_lecture_says():
    first, second = english_spanish(2)
    assert (first.source, first.target) == ("I love you a lot", "Te amo mucho")
    assert first.alignment == {(0, 1), (1, 1), (2, 0), (3, 2), (4, 2)}  # "I" is in the ending of "amo"
    assert (second.source, second.target) == ("The dog ran really fast", "El perro corrió muy rápido")
    assert second.alignment == {(n, n) for n in range(5)}
    seen = sentence(Phrase("the", "big", "dog"), ("see", "sees"), Phrase("the", "young", "king"))
    assert (seen.source, seen.target) == (
        "The big dog sees the young king",
        "El perro grande ve al rey joven",
    )
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
        train_tokenizer(["\n".join(side)], TokenOptions(tokens="word", document="line"))[0]
        for side in (pairs.sources, pairs.targets)
    )
    return pairs, source, target, encode_pairs(pairs, source, target, 100)[0]


def test_every_pair_is_read_once_an_epoch_within_the_budget():
    _, _, _, encoded = some_pairs()
    schedule = PairSchedule(encoded, 37, seed=3)
    for epoch in (0, 1):
        places, read = [], 0
        for step in range(schedule.steps(epoch)):
            place_BT, fresh_B = schedule.places(epoch, step)
            source_BS = source_rows(encoded.source, schedule.chosen(epoch, step), padding=-1)
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
        found = beam_search(
            model,
            model.begin(SOURCES),
            end,
            beam=V**longest,
            longest_B=torch.full((3,), longest),
            penalty=0.0,
        )
        for row in range(3):
            best = max(_all(model, SOURCES[row : row + 1], end, longest), key=lambda one: one[1])
            assert found[row][0].ids == best[0]
            assert found[row][0].log_prob == pytest.approx(best[1], abs=1e-10)


def _all(model, source, end, longest):
    """Every sentence that ends within so many steps, or is cut there, with its log-probability."""
    for length in range(longest + 1):
        for ids in itertools.product(range(1, V), repeat=length):
            steps = [*ids, end] if length < longest else list(ids)
            log_probs = model(torch.tensor([[model.start, *steps[:-1]]]), model.begin(source))[0].log_probs()[
                0
            ]
            yield list(ids), float(sum(log_probs[t, token] for t, token in enumerate(steps)))


@pytest.mark.parametrize("name", TRANSLATORS)
def test_a_sentence_in_a_batch_is_translated_as_alone(name: str, double):
    model = TRANSLATORS[name]()
    with torch.no_grad():
        together = beam_search(model, model.begin(SOURCES), 0, beam=3, longest_B=torch.tensor([9, 5, 7]))
        for row, longest in enumerate((9, 5, 7)):
            alone = beam_search(
                model, model.begin(SOURCES[row : row + 1]), 0, beam=3, longest_B=torch.tensor([longest])
            )[0]
            assert [one.ids for one in alone] == [one.ids for one in together[row]]
            assert [one.score for one in alone] == pytest.approx(
                [one.score for one in together[row]], abs=1e-10
            )


@pytest.mark.parametrize("name", TRANSLATORS)
def test_beams_share_their_source(name: str, double):
    """Picking beams of a sentence keeps its memory once, and what follows is what each would say alone."""
    model = TRANSLATORS[name]()
    with torch.no_grad():
        state = model.begin(SOURCES).pick(torch.tensor([0, 0, 1, 1, 2, 2]))
        assert len(state.source_BS) == 3
        tokens = torch.tensor([[model.start, 1], [model.start, 2]] * 3)
        shared, state = model(tokens, state)
        plain, _ = model(tokens, model.begin(SOURCES.repeat_interleave(2, 0)))
        torch.testing.assert_close(shared.log_probs(), plain.log_probs(), rtol=0, atol=1e-10)
        mixed = state.pick(torch.tensor([5, 0, 1]))  # no equal groups: each row has a source of its own
        assert len(mixed.source_BS) == 3
        more, _ = model(torch.tensor([[3], [3], [3]]), mixed)
        again, _ = model(
            torch.cat([tokens, torch.full((6, 1), 3)], 1), model.begin(SOURCES.repeat_interleave(2, 0))
        )
        torch.testing.assert_close(
            more.log_probs()[:, 0], again.log_probs()[[5, 0, 1], 2], rtol=0, atol=1e-10
        )


def test_what_was_said_stays_and_the_rest_is_searched_for():
    model = make(RecurrentTranslator, width=6)
    end, longest_B = 0, torch.full((3,), 4)
    every = beam_search(model, model.begin(SOURCES), end, beam=V**4, longest_B=longest_B, penalty=0.0)
    for row, found in enumerate(
        beam_search(
            model, model.begin(SOURCES), end, beam=V**4, longest_B=longest_B, penalty=0.0, prefix=[2, 1]
        )
    ):
        assert all(one.ids[:2] == [2, 1] for one in found)
        best = next(one for one in every[row] if one.ids[:2] == [2, 1])  # the best of all that begin so
        assert found[0].ids == best.ids
        assert found[0].log_prob == pytest.approx(best.log_prob, abs=1e-5)


def test_what_did_not_end_has_no_end(taught: Path):
    model = make(RecurrentTranslator, width=6)
    never = 99  # an end that is never said
    for one in beam_search(model, model.begin(SOURCES), never, beam=2, longest_B=torch.full((3,), 4))[0]:
        assert (one.ended, len(one.ids)) == (False, 4)


def test_no_state_is_an_error():
    for make_one in TRANSLATORS.values():
        with pytest.raises(ValueError, match="needs what its state begins with"):
            make_one().begin(1)
        with pytest.raises(ValueError, match="needs what its state begins with"):
            make_one().read_from_start(torch.tensor([[V]]))


def test_it_learns_by_heart_and_every_verb_answers(taught: Path, regard_cli):
    first = regard_cli("translate", taught / "run", "I love you a lot", "We spoke well")
    assert first.stdout == "Te amo mucho\nHablamos bien\n"
    measured = json.loads(
        regard_cli(
            "evaluate", taught / "run", "--source", taught / "en.txt", "--target", taught / "es.txt", "--json"
        ).stdout
    )
    assert measured["bleu"] > 90
    assert measured["signatures"]["bleu"].startswith("nrefs:1|case:mixed")
    assert (measured["sentences"], measured["left_out"]) == (60, 0)
    lines = (taught / "en.txt").read_text()
    out = regard_cli("translate", taught / "run", "--beam", "1", stdin=(lines + "\n").encode()).stdout
    said = regard_cli("translate", taught / "run", "--file", taught / "en.txt", "--beam", "1").stdout
    assert out == said + "\n"  # a filter keeps the order, and an empty line stays one
    best = json.loads(
        regard_cli("translate", taught / "run", "I love you a lot", "--count", "3", "--json").stdout
    )
    (one,) = best["translations"]
    assert [two["score"] for two in one["translations"]] == sorted(
        (two["score"] for two in one["translations"]), reverse=True
    )
    weights = torch.tensor(one["translations"][0]["attention"]["attention"])
    assert weights.shape == (1, 4, 6)  # Te amo mucho </s>, I love you a lot </s>
    torch.testing.assert_close(weights.sum(2), torch.ones(1, 4))
    assert one["translations"][0]["tokens"] == ["Te", "amo", "mucho", "</s>"]
    sampled = [
        regard_cli(
            "translate", taught / "run", "I love you a lot", "--temperature", "2", "--seed", str(seed)
        ).stdout
        for seed in (1, 1, 5)
    ]
    assert sampled[0] == sampled[1]
    assert regard_cli("translate", taught / "run", "I love you", "--out", "grid.svg").returncode == 0
    (two,) = regard.translate(taught / "back", "Te amo mucho")
    assert set(two[0].attention) == {"layer0.cross", "layer1.cross"}


def test_options_of_translators_are_options_of_training(tmp_path: Path):
    pairs = parallel.built_in().part(range(40))
    (tmp_path / "pairs.tsv").write_text(
        "".join(f"eng\tspa\t{s}\t{t}\n" for s, t in zip(pairs.sources, pairs.targets, strict=True))
    )
    trained = regard.train(
        "transformer-translator",
        pairs=str(tmp_path / "pairs.tsv"), out=str(tmp_path / "run"), tokens="bpe", bpe_size=300, shared=True,
        layers=1, width=16, heads=2, steps=6, evaluate_every=2, label_smoothing=0.1, average=3,
        stop_on="bleu", patience=5, batch_tokens=200,
    )  # fmt: skip
    assert trained.run.source.to_json() == trained.run.tokenizer.to_json()
    assert "bleu" in trained.to_json()
    assert all(
        "judged" in json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    )
    again = regard.load(tmp_path / "run")
    assert (
        regard.translate(again, "I love you")[0][0].text
        == regard.translate(trained.run, "I love you")[0][0].text
    )


@pytest.mark.parametrize(
    ("files", "options", "words"),
    [
        (("a\nb\n", "c\n"), [], "en.txt has 2 lines and es.txt has 1"),
        (("\n\n", "c\nd\n"), [], "no pair has words on both sides"),
        (
            ("a b c\nd e f\n" * 9, "g\nh\n" * 9),
            ["--longest", "2"],
            "every pair has more than 2 tokens on a side",
        ),
        (("a\n" * 4, "b\n" * 4), [], "one sentence cannot be split"),
        (("a\nb\n" * 9, "c\nd\n" * 9), ["--shared"], "--shared is for --tokens bpe"),
        (
            ("a\nb\n" * 9, "c\nd\n" * 9),
            ["--batch", "8"],
            "recurrent-translator has no --batch: it reads pairs; give --batch-tokens",
        ),
        (("a\nb\n" * 9, "c\nd\n" * 9), ["--batch-tokens", "0"], "--batch-tokens must be 1 or more"),
        (
            ("a\nb\n" * 9, "c\nd\n" * 9),
            ["--text", "en.txt"],
            "--text is not an option of regard train recurrent-translator",
        ),
    ],
)
def test_parallel_text_that_does_not_fit_is_told(tmp_path: Path, regard_cli, files, options, words):
    for name, text in zip(("en.txt", "es.txt"), files, strict=True):
        (tmp_path / name).write_text(text)
    done = regard_cli(
        "train", "recurrent-translator", "--source", "en.txt", "--target", "es.txt", "--steps", "2", *options
    )
    assert (done.returncode, done.stdout) == (2, "")
    assert words in done.stderr


def test_what_is_left_out_is_counted(tmp_path: Path):
    lines = [f"a w{number}" if number % 4 else "a b c d e f" + f" w{number}" for number in range(40)]
    (tmp_path / "en.txt").write_text("\n".join(["", *lines, ""]) + "\n")
    (tmp_path / "es.txt").write_text("k l\n" * 42)
    paths = {"source": str(tmp_path / "en.txt"), "target": str(tmp_path / "es.txt")}
    trained = regard.train(
        "recurrent-translator", **paths, out=str(tmp_path / "run"), longest=5, steps=2, width=8
    )
    assert any("10 pairs have more than 5 tokens" in note for note in trained.run.config.notes)
    assert any("2 pairs have nothing on one side" in note for note in trained.run.config.notes)


def test_lines_that_say_nothing_stay_lines(taught: Path, capsys, tmp_path: Path, regard_cli):
    (tmp_path / "en").write_text("I love you a lot\n\nWe spoke well\n")
    (tmp_path / "es").write_text("Te amo mucho\nfoo\nHablamos bien\n")
    assert (
        main(
            ["align", str(taught / "run"), "--source", str(tmp_path / "en"), "--target", str(tmp_path / "es")]
        )
        == 0
    )
    told = capsys.readouterr()
    lines = told.out.split("\n")
    assert (len(lines), lines[1], lines[3]) == (4, "", "")
    assert "1 pairs are empty on a side" in told.err
    assert (
        main(
            [
                "evaluate",
                str(taught / "run"),
                "--source",
                str(tmp_path / "en"),
                "--target",
                str(tmp_path / "es"),
                "--json",
            ]
        )
        == 0
    )
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
        (["--score", "a", "--gold", "a", "--index", "1"], "line 1: '0-0' is before the first word"),
        (
            ["--score", "a", "--gold", "d", "--source", "three", "--target", "three"],
            "a: line 3: 2-1 lies outside its sentence",
        ),
        (["--score", "a"], "is measured against --gold"),
        ([], "attention needs a run: regard align RUN; count without"),
    ):
        assert main(["align", *arguments]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert words in told.err
    for arguments, words in (
        (["translate", taught / "run", ""], "a sentence is empty"),
        (["translate", taught / "run", "a", "--count", "0"], "--count must be 1 or more"),
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
        (["translate", taught / "run", "a", "--count", "9"], "needs a --beam of 9 or more"),
        (["translate", taught / "back", " ".join("x" * 200)], "and the model reads at most 128"),
        (["evaluate", taught / "run", "--source", taught / "en.txt"], "--source and --target go together"),
        (
            ["evaluate", taught / "run", "--text", taught / "en.txt"],
            "a translator is measured on --source and --target",
        ),
    ):
        assert main([str(one) for one in arguments]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        assert words in told.err
    assert (
        main(["translate", str(taught / "run"), "zebra love you"]) == 0
    )  # a word never seen is read as <unk>
    (tmp_path / "text.txt").write_text("a b\n" * 9)
    counted = regard.train("ngram", text=str(tmp_path / "text.txt"), out=str(tmp_path / "ngram")).run
    with pytest.raises(UserError, match="does not translate"):
        regard.translate(counted, "a")


def test_minutes_are_for_every_family():
    kinds = [models.family_class(family) for family in models.FAMILIES]
    descending = [kind for kind in kinds if kind.learns == "descent"]
    assert len(descending) == len(kinds) - 1  # all but the counted one
    for kind in descending:
        training = read_options(kind, {"minutes": 1.0}).training
        assert (training.minutes, training.steps) == (1.0, None)
        if not {*LENGTHS} & kind.training_defaults.keys():  # read_options() replaces a family's own length
            assert option_classes(kind)[-1](minutes=1.0).steps is None


def test_medium_translators_are_larger():
    for family in models.families_that_read("pairs"):
        kind = models.family_class(family)
        options = read_options(kind, {"size": "medium"})
        assert kind(11, options.model, 7).parameter_count() > kind(11, kind.Config(), 7).parameter_count()
        assert options.training.label_smoothing == 0.1


def test_validation_pairs_may_be_the_training_pairs(taught: Path, capsys):
    assert main(["evaluate", str(taught / "run"), "--json"]) == 0  # it was trained so
    assert json.loads(capsys.readouterr().out)["sentences"] == 60


def test_pairs_exactly_as_long_as_the_limit_fit():
    _, source, target, _ = some_pairs()
    three = parallel.Parallel((), ["I love", "I love you"], ["Te amo", "Te amo mucho"])
    encoded, kept = encode_pairs(three, source, target, 3)
    assert (kept.targets, encoded.too_long) == (["Te amo"], 1)  # with its end it has three tokens
