"""Comparing: one text, one budget, a fair table, and a report that opens offline."""

import dataclasses
import html
import json
import re
import signal
from datetime import datetime
from pathlib import Path

import pytest
import torch

import regard
from regard.cli import main
from regard.errors import UserError
from regard.machine.disk import lock_folder
from regard.machine.threads import WaitingTime
from regard.probabilities.ladder import PASSAGE, Ladder
from regard.probabilities.measures import Measure, Protocol
from regard.probabilities.ranking import Result, comparable, ranked_rows
from regard.verbs.compare import Comparison

TEXT = "".join(
    f"line {number % 13} says {'abc' * (number % 5)} and <script>alert({number % 3})</script> ends\n"
    for number in range(300)
)


@pytest.fixture(scope="module")
def comparison(tmp_path_factory) -> Comparison:
    folder = tmp_path_factory.mktemp("compared")
    (folder / "text.txt").write_text(TEXT)
    return regard.compare(
        text=folder / "text.txt",
        families=["ngram", "rnn", "transformer"],
        tokens="char",
        tokens_each=3000,
        seeds=2,
        out=folder / "out",
    )


def test_the_table_is_ranked_by_bits_per_byte_with_intervals_over_seeds(comparison: Comparison):
    table = comparison.table()
    assert {row["name"] for row in table} == {"ngram", "rnn", "transformer"}
    assert [row["rank"] for row in table] == [1, 2, 3]
    assert [row["bits_per_byte"] for row in table] == sorted(row["bits_per_byte"] for row in table)
    assert {row["name"]: row["interval"] is None for row in table} == {
        "ngram": True,
        "rnn": False,
        "transformer": False,
    }
    assert [result.seed for result in comparison.results] == [1, 1, 2, 1, 2]


def test_every_run_saw_the_same_text_and_can_be_measured_again(comparison: Comparison):
    parts = [(comparison.out / "text" / f"{name}.txt").read_text() for name in ("train", "valid", "test")]
    assert "".join(parts) == TEXT
    for result in comparison.results:
        assert regard.evaluate(result.folder).loss == pytest.approx(result.measure.loss)
        assert result.measure.bytes == len(parts[2])


def test_the_same_budget_of_tokens(comparison: Comparison):
    for result in comparison.results:
        if result.family != "ngram":
            steps = json.loads((Path(result.folder) / "config.json").read_text())["steps"]
            training = json.loads((Path(result.folder) / "config.json").read_text())["training"]
            length = 64 if result.family == "transformer" else training["segment"]
            assert steps == -(-3000 // (training["batch"] * length))


def test_the_ladder_stands_on_every_models_own_loss(comparison: Comparison):
    (ladder,) = comparison.ladders
    assert ladder.names == ["ngram", "rnn", "transformer"]
    lines = (comparison.out / "ladder.tsv").read_text().splitlines()
    assert lines[0].split("\t") == ["token", *ladder.names]
    assert len(lines) - 1 == len(ladder.tokens)
    firsts = [result for result in comparison.results if result.seed == 1]
    for column, result in enumerate(firsts):
        total = sum(float(line.split("\t")[column + 1]) for line in lines[1:])
        # the sum of N numbers that were written with six digits
        assert total == pytest.approx(result.measure.loss * result.measure.tokens, abs=0.5e-6 * len(lines))


def test_the_passage_is_where_the_models_differ_most():
    nll = torch.zeros(30, 2)
    nll[17:20, 1] = 3.0
    ladder = Ladder([str(number) for number in range(30)], ["one", "two"], nll)
    assert ladder.passage(3).tokens == ["17", "18", "19"]
    assert len(ladder.passage(99).tokens) == 30


def test_the_interval_is_students():
    def row(figures: list[float]) -> dict:
        same = {"name": "lstm", "family": "lstm", "folder": "", "parameters": 1, "seconds": 1.0, "curve": []}
        (row,) = ranked_rows(
            [
                Result(
                    **same, seed=seed, training_tokens_per_second=1.0, measure=measure(bits_per_byte=figure)
                )
                for seed, figure in enumerate(figures, 1)
            ]
        )
        return row

    # three figures with standard deviation 1: 4.303 / sqrt 3
    assert row([1.0, 2.0, 3.0])["interval"] == pytest.approx(4.303 / 3**0.5)
    assert row([1.0, 2.0, 3.0])["bits_per_byte"] == pytest.approx(2.0)
    assert row([1.0])["interval"] is None


def test_reports_say_the_same_as_the_results(comparison: Comparison):
    results = json.loads((comparison.out / "results.json").read_text())
    markdown = (comparison.out / "report.md").read_text()
    page = (comparison.out / "report.html").read_text()
    for row in results["table"]:
        figure = f"{row['bits_per_byte']:.3f}"
        assert figure in markdown
        assert figure in page
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", page)


def test_reports_say_under_which_conditions_the_figures_hold(comparison: Comparison):
    plan = json.loads((comparison.out / "plan.json").read_text())
    read = comparison.results[0].measure.bytes
    for name in ("report.md", "report.html"):
        report = (comparison.out / name).read_text()
        for fact in (*plan["sources"], f"{read:,} bytes", plan["machine"], plan["began"], plan["tokens"]):
            assert html.escape(fact) in report, (name, fact)
    assert datetime.fromisoformat(plan["began"]).date() <= datetime.now().astimezone().date()


def test_the_report_opens_offline_in_a_browser(comparison: Comparison, open_page):
    page = open_page(comparison.out / "report.html", "canvas, svg.marks")
    assert page.locator("table").first.locator("tbody tr").count() == 3
    assert page.locator("table.ladder tbody tr").count() == PASSAGE


def measure(**change) -> Measure:
    protocol = {"tokens": "word", "document": "file", "context": None, "stride": None, "cache": None}
    protocol |= {
        name: change.pop(name) for name in list(change) if name in protocol and name != "tokens_count"
    }
    base = Measure(2.0, 7.4, 1.0, 100, 500, 0, 0, 1.0, Protocol(**protocol))
    return dataclasses.replace(base, **change)


@pytest.mark.parametrize(
    ("first", "second", "why"),
    [
        ({}, {}, None),
        ({"tokens": "char"}, {"tokens": "bpe"}, None),  # bits per byte are fair across tokenizers
        ({"context": 64, "stride": 64}, {}, None),
        ({"bytes": 499}, {}, "different texts"),
        ({"document": "line"}, {}, "different texts or documents"),
        ({"unknown_tokens": 3}, {}, "unknown words"),
        ({"unknown_tokens": 3}, {"unknown_tokens": 3}, None),  # the same words replaced in both
        ({"unknown_tokens": 3}, {"unknown_tokens": 4}, "unknown words"),
        ({"context": 64, "stride": 32}, {}, "overlapped"),
        ({"cache": {"size": 3}}, {}, "cache"),
        ({"bits_per_byte": None}, {}, "no probability"),
    ],
)
def test_what_must_not_be_ranked_together(first, second, why):
    answer = comparable(measure(**first), measure(**second))
    assert (answer is None) if why is None else (why in str(answer))


def test_unknown_words_are_not_ranked_and_it_says_why(tmp_path):
    words = "".join(f"word{number} is {number % 7}\n" for number in range(300))
    (tmp_path / "text.txt").write_text(words)
    compared = regard.compare(
        text=tmp_path / "text.txt", families=["ngram", "ngram:word"], tokens="char", out=tmp_path / "out"
    )
    assert [(row["name"], row["rank"]) for row in compared.table()] == [("ngram", 1), ("ngram:word", None)]
    assert compared.notes == [
        "ngram:word is not ranked with ngram: unknown words were replaced by <unk>, "
        "which is easier to predict than the words."
    ]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"families": ["lsmt"]}, "did you mean lstm"),
        ({"families": ["ngram:syllable"]}, "tokens are char"),
        ({"minutes": 1.0, "tokens_each": 5}, "not both"),
        ({"seeds": 0}, "must be 1 or more"),
        ({"minutes": 0.0}, "`minutes` must be above 0"),
        ({"families": ["ngram", "ngram"]}, "ngram is named twice"),
        ({"families": ["recurrent-translator"]}, "recurrent-translator reads pairs, not text"),
    ],
)
def test_mistakes(tmp_path, options, words):
    with pytest.raises(UserError, match=words):
        regard.compare(out=tmp_path / "out", **options)
    assert list(tmp_path.iterdir()) == []


def test_a_family_that_cannot_be_trained_is_left_out_and_said_so(tmp_path):
    (tmp_path / "text.txt").write_text("a b c d\n" * 12)
    options = {"text": str(tmp_path / "text.txt"), "tokens": "word", "tokens_each": 100}
    compared = regard.compare(**options, families=["ngram", "transformer"], out=tmp_path / "out")
    assert [row["name"] for row in compared.table()] == ["ngram"]
    assert compared.notes[-1].startswith("transformer is not in the table: the training text")
    with pytest.raises(UserError, match="training text"):
        regard.compare(**options, families=["transformer"], out=tmp_path / "alone")
    assert not (tmp_path / "alone").exists()


def test_files_stay_documents_of_their_own(tmp_path):
    for name, text in {"a.txt": "x y z\n" * 70 + "sat", "b.txt": "dog x y\n" * 70}.items():
        (tmp_path / name).write_text(text)
    compared = regard.compare(
        text=(tmp_path / "a.txt", tmp_path / "b.txt"),
        families=["ngram"],
        tokens="word",
        out=tmp_path / "out",
    )
    run = regard.load(compared.results[0].folder)
    assert b"satdog" not in run.tokenizer.words
    assert regard.evaluate(run).loss == pytest.approx(compared.results[0].measure.loss)
    assert len(run.config.texts.train) == 2


def test_a_comparison_that_was_stopped_goes_on(tmp_path, capsys):
    (tmp_path / "text.txt").write_text(TEXT)
    options = {"families": ["ngram", "rnn", "gru"], "tokens": "char", "tokens_each": 3000}
    whole = regard.compare(text=tmp_path / "text.txt", **options, out=tmp_path / "whole")

    def stop(result) -> None:
        if result.name == "rnn":
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        regard.compare(text=tmp_path / "text.txt", **options, out=tmp_path / "out", finished=stop)
    trained = (tmp_path / "out" / "rnn" / "model.safetensors").stat().st_mtime_ns
    assert main(["compare", "--out", str(tmp_path / "out"), "--resume", "--seeds", "2"]) == 2
    assert "give --out alone" in capsys.readouterr().err
    assert main(["compare", "--out", str(tmp_path / "out"), "--resume", "--json"]) == 0
    again = json.loads(capsys.readouterr().out)
    assert (tmp_path / "out" / "rnn" / "model.safetensors").stat().st_mtime_ns == trained
    assert [row["perplexity"] for row in again["table"]] == pytest.approx(
        [row["perplexity"] for row in whole.table()]
    )
    for folder, words in {"out": "is finished", "none": "no comparison to resume"}.items():
        assert main(["compare", "--out", str(tmp_path / folder), "--resume"]) == 2
        assert words in capsys.readouterr().err


def stopped_comparison(tmp_path: Path, after: str = "ngram") -> Path:
    """A comparison of an n-gram and an LSTM that was stopped once `after` was measured."""
    (tmp_path / "text.txt").write_text(TEXT)

    def stop(result) -> None:
        if result.name == after:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        regard.compare(
            text=tmp_path / "text.txt",
            families=["ngram", "lstm"],
            tokens="char",
            tokens_each=300,
            out=tmp_path / "out",
            finished=stop,
        )
    return tmp_path / "out"


def contents(folder: Path) -> dict[str, bytes]:
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def damage(out: Path, how: str) -> str:
    """Damages a stopped comparison, and gives the words that name the damage."""
    plan = json.loads((out / "plan.json").read_text())
    match how:
        case "test text gone":
            (out / "text" / "test.txt").unlink()
            return "test.txt: is missing"
        case "text changed":
            (out / "text" / "train.txt").write_text("other")
            return "train.txt: has changed"
        case "weights flipped":
            data = bytearray((out / "ngram" / "model.safetensors").read_bytes())
            data[-5] ^= 1
            (out / "ngram" / "model.safetensors").write_bytes(data)
            return "was changed after it was saved"
        case "plan without families":
            (out / "plan.json").write_text(json.dumps({**plan, "families": []}))
            return "name at least one family"
        case "plan of another document":
            (out / "plan.json").write_text(json.dumps({**plan, "document": "../x"}))
            return "document"
        case _:
            (out / "plan.json").write_text(json.dumps([]))
            return "damaged"


@pytest.mark.parametrize(
    "how",
    [
        "test text gone",
        "text changed",
        "weights flipped",
        "plan without families",
        "plan of another document",
        "plan is a list",
    ],
)
def test_a_comparison_that_cannot_be_resumed_loses_nothing(tmp_path, capsys, how):
    out = stopped_comparison(tmp_path)
    words = damage(out, how)
    before = contents(out)
    assert main(["compare", "--out", str(out), "--resume"]) == 2
    assert words in capsys.readouterr().err
    assert contents(out) == before


def test_a_second_process_does_not_touch_a_comparison(tmp_path, capsys):
    out = stopped_comparison(tmp_path)
    with lock_folder(out):
        before = contents(out)
        assert main(["compare", "--out", str(out), "--resume"]) == 2
        assert "another process is writing into this folder" in capsys.readouterr().err
        assert contents(out) == before


def test_a_moved_comparison_is_finished_from_another_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.txt").write_text(TEXT)
    options = {"families": ["ngram", "lstm"], "tokens": "char", "tokens_each": 3000, "out": "here/B"}
    with pytest.raises(KeyboardInterrupt):
        regard.compare(
            text="text.txt", **options, finished=lambda result: (_ for _ in ()).throw(KeyboardInterrupt)
        )
    stop = {
        "out": "here/B/lstm",
        "text": "here/B/text/train.txt",
        "valid": "here/B/text/valid.txt",
        "test": "here/B/text/test.txt",
    }
    with pytest.raises(KeyboardInterrupt):  # stopped in the middle of a training
        regard.train(
            "lstm", tokens="char", steps=6, listener=lambda _: signal.raise_signal(signal.SIGINT), **stop
        )
    (tmp_path / "other").mkdir()
    monkeypatch.chdir(tmp_path / "other")
    (tmp_path / "here" / "B").rename(tmp_path / "moved")
    comparison = regard.compare(out="../moved", resume=True)
    assert {row["name"] for row in comparison.table()} == {"lstm", "ngram"}
    assert not any("not in the table" in note for note in comparison.notes)


@pytest.mark.parametrize(
    ("waited", "budget", "told"),
    [(0.7, {"minutes": 0.001}, True), (0.1, {"minutes": 0.001}, False), (0.7, {"tokens_each": 300}, False)],
)
def test_a_busy_machine_is_told(tmp_path, monkeypatch, waited, budget, told):
    """Where the budget is a time: a busy machine takes nothing from a budget of tokens."""
    (tmp_path / "text.txt").write_text(TEXT)
    monkeypatch.setattr(WaitingTime, "share", lambda self: waited)
    options = {"families": ["ngram", "dan"], "tokens": "char", **budget}
    compared = regard.compare(text=tmp_path / "text.txt", out=tmp_path / "out", **options)
    busy = [note for note in compared.notes if note.startswith("The machine was busy: ")]
    assert ["waited 0.7 seconds for a core" in note for note in busy] == [True] * told
