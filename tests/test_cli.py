"""The command line as a person meets it: what it prints, what it exits with, and what a mistake costs."""

import contextlib
import errno
import itertools
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from regard import cli
from regard.errors import MachineError
from regard.models import FAMILIES, family_class
from regard.verbs.train_options import train_options

TEXT = "the cat sat on the mat\nthe dog sat on the log\n" * 9


@pytest.fixture
def run(tmp_path, regard_cli) -> Path:
    (tmp_path / "text.txt").write_text(TEXT)
    done = regard_cli(
        *("train", "ngram", "--text", "text.txt", "--document", "line", "--hold", "0"),
        *("--order", "3", "--out", "run", "--json"),
    )
    assert done.returncode == 0, done.stderr
    return tmp_path / "run"


def refused(done: subprocess.CompletedProcess[str], *words: str, code: int = 2) -> None:
    """One clear line on standard error, nothing on standard output."""
    assert done.returncode == code, (done.returncode, done.stderr)
    assert done.stdout == ""
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    for word in words:
        assert word in lines[0]


def test_bytes_that_are_not_utf8_are_told(capsys):
    assert cli.main(["generate", "run", "--prompt", "a\udcff"]) == 2  # as Python hands on the byte 0xff
    assert "an argument is not UTF-8 (at letter 1" in capsys.readouterr().err


def test_train_evaluate_score_generate_list(run: Path, regard_cli):
    config = json.loads((run / "config.json").read_text())
    assert config["model"] == {"order": 3, "smoothing": "modified-kneser-ney", "k": 1.0, "prune": [0]}
    assert config["texts"]["train"][0]["bytes"] == len(TEXT)
    measured = json.loads(regard_cli("evaluate", "run", "--text", "text.txt", "--json").stdout)
    assert measured["tokens"] == 9 * 14
    assert measured["bytes"] == len(TEXT)
    assert measured["unknown_tokens"] == 0
    assert measured["protocol"] == {
        "tokens": "word",
        "document": "line",
        "context": None,
        "stride": None,
        "cache": None,
        "mixture": None,
    }
    scored = json.loads(regard_cli("score", "run", "--text", "text.txt", "--json").stdout)["documents"]
    assert len(scored) == 18
    total = -sum(token["log_prob"] for document in scored for token in document)
    assert total / measured["tokens"] == pytest.approx(measured["loss"], rel=1e-6)
    plain = regard_cli("score", "run", "--text", "-", stdin=b"the cat\n").stdout.splitlines()
    assert [line.split("\t")[0] for line in plain] == ["the", "cat", "</s>", ""]
    assert float(plain[0].split("\t")[1]) < 0
    explained = regard_cli("score", "run", "--text", "-", "--explain", stdin=b"the cat\n").stdout
    assert explained.count("3-gram") == 3
    assert set(json.loads(regard_cli("list", "--json").stdout)) == {
        "families",
        "recipes",
        "lessons",
        "puzzles",
        "benchmarks",
    }


def test_the_built_in_text_needs_no_options(regard_cli, tmp_path):
    done = regard_cli("train", "ngram", "--json")
    trained = json.loads(done.stdout)
    assert "the last 10% of the text is held out" in done.stderr
    assert trained["out"] == "runs/ngram"
    assert set(trained) == {"out", "family", "parameters", "steps", "tokens", "seconds", "loss"}
    assert trained["loss"] > 0
    done = regard_cli("train", "ngram", "--hold", "0", "--out", "counted", "--json")
    counted = json.loads(done.stdout)
    assert done.stderr == ""
    assert counted["loss"] is None
    assert counted["tokens"] > trained["tokens"]
    assert json.loads(regard_cli("train", "ngram", "--order", "2", "--json").stdout)["out"] == "runs/ngram-2"


def test_generate_is_repeatable_streams_and_stops_at_the_end(run: Path, regard_cli):
    options = ("generate", "run", "--prompt", "the", "--length", "30", "--json")
    first, again, other = (
        json.loads(regard_cli(*options, "--seed", seed).stdout)["texts"] for seed in ("3", "3", "4")
    )
    assert first == again
    assert first != other
    greedy = json.loads(regard_cli(*options, "--temperature", "0", "--count", "2").stdout)["texts"]
    assert greedy[0] == greedy[1]
    assert greedy[0].endswith("\n")  # a line is a document here: its end ends the text
    assert regard_cli("generate", "run", "--temperature", "0", "--prompt", "the").stdout == "the" + greedy[0]
    only_one = json.loads(regard_cli(*options, "--top-k", "1").stdout)["texts"]
    assert only_one == greedy[:1]
    assert json.loads(regard_cli(*options, "--top-p", "0.0001").stdout)["texts"] == greedy[:1]


def test_infinite_perplexity_is_null(tmp_path, regard_cli):
    (tmp_path / "text.txt").write_text("a b\n")
    smoothing = ("--smoothing", "maximum-likelihood")
    done = regard_cli("train", "ngram", "--text", "text.txt", "--hold", "0", *smoothing, "--out", "run")
    assert done.returncode == 0
    measured = json.loads(regard_cli("evaluate", "run", "--text", "-", "--json", stdin=b"b a\n").stdout)
    assert measured["perplexity"] is None
    assert measured["loss"] is None
    assert measured["zero_tokens"] == 3  # b first, a after b, the end after a
    assert regard_cli("evaluate", "run", "--text", "-", stdin=b"b a\n").returncode == 0


def test_a_run_remembers_its_own_test_text(tmp_path, regard_cli):
    (tmp_path / "text.txt").write_text(TEXT)
    (tmp_path / "test.txt").write_text("the cat\n")
    trained = regard_cli(
        "train",
        "ngram",
        "--text",
        "text.txt",
        "--valid",
        "text.txt",
        "--test",
        "test.txt",
        "--out",
        "run",
        "--json",
    )
    assert json.loads(trained.stdout)["loss"] > 0
    assert json.loads(regard_cli("evaluate", "run", "--json").stdout)["tokens"] == 3
    (tmp_path / "test.txt").write_text("the dog\n")
    refused(regard_cli("evaluate", "run"), "test.txt", "changed")


def test_arpa_round_trip_and_mixing(run: Path, regard_cli):
    assert regard_cli("export", "run", "--to", "model.arpa").returncode == 0
    refused(regard_cli("export", "run", "--to", "model.arpa"), "exists already")
    assert regard_cli("export", "model.arpa", "--to", "back", "--json").returncode == 0
    losses = [
        json.loads(regard_cli("evaluate", r, "--text", "text.txt", "--json").stdout)["loss"]
        for r in ("run", "model.arpa", "back")
    ]
    assert losses == pytest.approx([losses[0]] * 3, rel=1e-6)
    mixed = json.loads(
        regard_cli(
            "evaluate", "run", "--mix", "back", "--valid", "text.txt", "--text", "text.txt", "--json"
        ).stdout
    )
    assert mixed["loss"] == pytest.approx(losses[0], rel=1e-6)
    refused(regard_cli("evaluate", "run", "--mix", "back"), "--valid")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["trian"], ["'trian'", "train"]),
        (["train", "ngrm"], ["'ngrm'", "did you mean ngram"]),
        (["train", "--order", "3"], ["family first"]),
        (["train", "ngram", "--ordr", "3"], ["--ordr", "did you mean --order?"]),
        (["train", "ngram", "--order", "x"], ["--order", "'x'"]),
        (["generate", "none", "--temp", "0.8"], ["did you mean --temperature?"]),
        (["compare", "--families", "lstm", "ngram,lsmt"], ["did you mean lstm"]),
        (
            ["train", "ngram", "--heads", "2"],
            ["--heads is not an option of regard train ngram", "belongs to regard train transformer"],
        ),
        (["train", "lstm", "--smoothing", "add-k"], ["--smoothing", "belongs to regard train ngram"]),
        (["train", "transformer", "--width", "10", "--heads", "3"], ["cannot be divided"]),
        (["train", "lstm", "--steps", "3", "--minutes", "1"], ["not both"]),
        (["train", "lstm", "--out", "filled", "--resume"], ["no training to resume"]),
        (["compare", "--families", "lsmt"], ["did you mean lstm"]),
        (["train", "lstm", "--copy", "gate"], ["--copy", "attentive, transformer"]),
        (["train", "--recipe", "nothing"], ["unknown recipe", "wikitext2-lstm-650"]),
        (
            ["train", "--recipe", "wikitext2-lstm-650", "--data", "nowhere"],
            ["nowhere/wikitext-2/train.txt", "name its folder with --data"],
        ),
        (["train", "--recipe"], ["--recipe needs a value"]),
        (["train", "lstm", "--recipe", "wikitext2-lstm-650"], ["leave out lstm"]),
        (["train", "lstm", "--data", "here"], ["--data goes with --recipe"]),
        (["train", "ngram", "--order", "0"], ["--order", "1 or more"]),
        (["train", "ngram", "--order"], ["--order"]),
        (["train", "ngram", "--smoothing", "none"], ["--smoothing", "kneser-ney"]),
        (["train", "ngram", "--k", "0"], ["--k"]),
        (["train", "ngram", "--prune", "1"], ["--prune"]),
        (["train", "ngram", "--prune", "0", "1", "--smoothing", "add-k"], ["Kneser-Ney"]),
        (["train", "ngram", "--tokens", "syllable"], ["--tokens"]),
        (["train", "ngram", "--cutoff", "0"], ["--cutoff"]),
        (["train", "ngram", "--text", "none.txt"], ["none.txt", "no such file"]),
        (["train", "ngram", "--text", "empty.txt"], ["empty.txt", "empty"]),
        (["train", "ngram", "--text", "binary.txt"], ["binary.txt", "binary"]),
        (["train", "ngram", "--text", "latin.txt"], ["latin.txt", "byte 3", "iconv"]),
        (["train", "ngram", "stray"], ["stray"]),
        (["train", "ngram", "--out", "filled"], ["filled", "not an empty folder"]),
        (["evaluate"], ["RUN"]),
        (["evaluate", "none"], ["none", "no such run"]),
        (["evaluate", "filled"], ["not a run"]),
        (["generate", "none", "--temperature", "-1"], ["--temperature"]),
        (["generate", "none", "--top-p", "2"], ["--top-p"]),
        (["generate", "none", "--top-k", "0"], ["--top-k"]),
        (["generate", "none", "--temperature", "1e-310"], ["--temperature", "0.001"]),
    ],
)
def test_mistakes_get_one_line(tmp_path, regard_cli, arguments: list[str], words: list[str]):
    (tmp_path / "empty.txt").write_bytes(b"")
    (tmp_path / "binary.txt").write_bytes(b"PK\x03\x04\0\0")
    (tmp_path / "latin.txt").write_bytes("caf\xe9 noir".encode("latin1"))
    (tmp_path / "filled").mkdir()
    (tmp_path / "filled" / "thesis.tex").write_text("mine")
    refused(regard_cli(*arguments), *words)
    assert (tmp_path / "filled" / "thesis.tex").read_text() == "mine"


def test_damaged_runs_are_told_from_whole_ones(run: Path, regard_cli):
    refused(regard_cli("train", "ngram", "--text", "text.txt", "--out", "run"), "run", "holds another run")
    config = (run / "config.json").read_text()
    (run / "config.json").write_text(config[: len(config) // 2])
    refused(regard_cli("evaluate", "run", "--text", "text.txt"), "config.json is damaged")
    (run / "config.json").write_text(config.replace('"format": 3', '"format": 99'))
    refused(regard_cli("evaluate", "run", "--text", "text.txt"), "format 99")
    (run / "config.json").write_text(config.replace('"family": "ngram"', '"family": "oracle"'))
    refused(regard_cli("evaluate", "run", "--text", "text.txt"), "oracle")
    (run / "config.json").write_text(config.replace('"order": 3', '"order": "three"'))
    refused(regard_cli("evaluate", "run", "--text", "text.txt"), "does not fit")
    for gone in ("texts", "files"):
        (run / "config.json").write_text(
            json.dumps({name: value for name, value in json.loads(config).items() if name != gone})
        )
        refused(regard_cli("evaluate", "run", "--text", "text.txt"), "config.json is damaged")
    (run / "config.json").write_text(config)
    weights = (run / "model.safetensors").read_bytes()
    (run / "model.safetensors").write_bytes(weights[:-1] + b"\0")
    refused(regard_cli("evaluate", "run", "--text", "text.txt"), "model.safetensors was changed")
    (run / "model.safetensors").unlink()
    refused(regard_cli("evaluate", "run", "--text", "text.txt"), "half written")


def test_one_very_long_line_and_odd_tokens(tmp_path, regard_cli):
    (tmp_path / "long.txt").write_text("<script>alert(1)</script> x " * 50_000)
    assert regard_cli("train", "ngram", "--text", "long.txt", "--order", "2", "--out", "run").returncode == 0
    measured = json.loads(regard_cli("evaluate", "run", "--text", "long.txt", "--json").stdout)
    assert measured["tokens"] == 100_001


def test_a_model_that_the_memory_cannot_hold_is_refused_with_the_figure(tmp_path):
    """The weights of the recurrent layer alone are 2 x 4 x width^2 numbers of 4 bytes, far above 4 GiB."""
    (tmp_path / "text.txt").write_text("the cat saw the dog\n" * 50)
    limited = (
        "import resource, sys; resource.setrlimit(resource.RLIMIT_AS, (4 << 30,) * 2)\n"
        "from regard.cli import main; sys.exit(main())"
    )
    arguments = ["train", "lstm", "--text", "text.txt", "--width", str(1 << 28), "--out", "run"]
    done = subprocess.run(
        [sys.executable, "-c", limited, *arguments], cwd=tmp_path, capture_output=True, text=True
    )
    refused(done, "GB of memory, and this machine has 4.3; choose a smaller number", code=2)


def test_a_full_disk_says_so_and_leaves_nothing(tmp_path):
    command = f"ulimit -f 64; exec {sys.executable} -m regard train ngram --out run"
    done = subprocess.run(
        ["bash", "-c", command],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        preexec_fn=lambda: signal.signal(signal.SIGXFSZ, signal.SIG_IGN),
    )
    refused(done, "free some room", code=1)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (
            OSError(errno.ENOSPC, "No space left on device", "run/model"),
            1,
            "the disk is full (run/model): free some room",
        ),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "nope/x.svg"),
            2,
            "nope/x.svg: No such file or directory; name another",
        ),
        (MemoryError(), 1, "out of memory: lower"),
        (
            RuntimeError("DefaultCPUAllocator: not enough memory: you tried to allocate"),
            1,
            "out of memory: lower",
        ),
        (MachineError("the loss is not a number"), 1, "the loss is not a number"),
        (KeyboardInterrupt(), 130, "stopped"),
    ],
)
def test_the_machines_trouble_has_the_same_manners(
    monkeypatch, capsys, error: BaseException, code: int, words: str
):
    def fails(arguments):
        raise error

    monkeypatch.setattr("regard.verbs.list.main", fails)
    assert cli.main(["list"]) == code
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.strip().count("\n") == 0
    assert words in captured.err


def test_ctrl_c_is_130(tmp_path):
    process = subprocess.Popen(
        [sys.executable, "-m", "regard", "train", "ngram", "--text", "-"],
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
        cwd=tmp_path,
    )
    time.sleep(3)  # it now waits for its text
    process.send_signal(signal.SIGINT)
    _, error = process.communicate(timeout=60)
    assert process.returncode == 130
    assert error.decode().strip().splitlines()[-1] == "regard: stopped"


def test_a_reader_that_goes_away_is_no_error(run: Path):
    command = f"{sys.executable} -m regard score run --text text.txt | head -n 1"
    done = subprocess.run(
        ["bash", "-c", f"set -o pipefail; {command}"], capture_output=True, text=True, cwd=run.parent
    )
    assert done.stdout.startswith("the\t")
    assert done.stderr == ""


def loaded_by(code: str, heavy: tuple[str, ...]) -> list[str]:
    """Those of the modules that a program of its own has imported."""
    done = subprocess.run(
        [
            sys.executable,
            "-c",
            f"import sys; {code}\nprint(*(name for name in {heavy} if name in sys.modules))",
        ],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": "src"},
    )
    return done.stdout.splitlines()[-1].split()


def test_help_is_quick_and_loads_nothing_heavy():
    heavy = ("torch", "numpy", "tyro", "rich")
    assert loaded_by("from regard import cli; cli.main(['--help'])", heavy) == []


def test_measuring_loads_nothing_that_draws():
    # altair is a second of every command that imports it
    assert (
        loaded_by("import regard; regard.evaluate; regard.score", ("altair", "rich", "PIL.ImageDraw")) == []
    )


@pytest.mark.parametrize("verb", [*cli.VERBS, *(f"train {family}" for family in FAMILIES)])
def test_help_fits_80_columns_and_says_what_every_option_does(monkeypatch, capsys, verb: str):
    monkeypatch.setenv("COLUMNS", "80")
    with contextlib.suppress(SystemExit):
        cli.main([*verb.split(), "--help"])
    page = capsys.readouterr().out
    assert page.startswith(f"usage: regard {verb}")
    assert max(map(len, page.splitlines())) <= 80
    assert not re.search(r"None|\(\)|`", page), page  # types and defaults of Python, names in backticks
    lines = page.splitlines()
    for line, after in itertools.pairwise(lines):
        if line.startswith("  --"):  # the help stands in the column after the flag, or below it
            assert line[28:] or after.startswith(" " * 28 + after.strip()[:1]), line


def test_help_groups_options_the_common_ones_first():
    options = train_options(family_class("transformer"))
    groups = list(dict.fromkeys(option.group for option in options))
    assert groups == ["text", "model", "training", "machine", "output"]
    first = {group: next(option.name for option in options if option.group == group) for group in groups}
    assert first == {
        "text": "text",
        "model": "layers",
        "training": "steps",
        "machine": "size",
        "output": "json",
    }


def test_the_help_of_a_no_flag_says_what_the_flag_does():
    for family in FAMILIES:
        for option in train_options(family_class(family)):
            assert option.about, f"{family}: {option.flag} has no help"
            assert "Off:" not in option.about
            if option.flag.startswith("--no-"):
                assert re.match("(Give|Leave out|Read) ", option.about), option


def test_usual_short_names_are_answered_with_ours(capsys):
    for short, ours in {"--lr": "--learning-rate", "--bs": "--batch"}.items():
        assert cli.main(["train", "transformer", short, "3"]) == 2
        assert f"has no option {short}; did you mean {ours}?" in capsys.readouterr().err
