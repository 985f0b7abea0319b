"""One way out: whatever is raised, one line on standard error and the right exit code."""

import dataclasses
import errno
import io
import os
import signal
import subprocess
import sys

import numpy as np
import pytest

from regard import cli
from regard.endings import describe, one_line
from regard.errors import MachineError, UserError
from regard.inside import charts, drawing, pictures, scatter, sheet
from regard.inside.record import Record
from regard.lessons import page as lesson_page
from regard.lessons.lesson import run_lesson
from regard.machine import child, streams
from regard.machine.disk import make_folder
from regard.page.recording import Source, file_of
from regard.tables import cell_width, fit, harmless, html_table, visible


def raises(monkeypatch, error: BaseException) -> None:
    def fail(arguments):
        raise error

    monkeypatch.setattr("regard.verbs.list.main", fail)


CLOSED = "standard input: cannot be read (Bad file descriptor)"
FULL = "the disk is full: free some room or write elsewhere with --out"


class Panic(BaseException):
    """As a panic of a Rust library arrives in Python."""


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (RecursionError("maximum recursion depth exceeded"), 1, "nested too deeply"),
        (OverflowError("int too big to convert"), 2, "too large for this machine"),
        (RuntimeError("Storage size calculation overflowed with sizes=[26, 4]"), 2, "too large"),
        (RuntimeError("first line\nsecond line"), 1, "inside regard (RuntimeError: first line)"),
        (KeyError("n_head"), 1, "inside regard (KeyError: 'n_head'); run the command again with --debug"),
        (AssertionError(), 1, "inside regard (AssertionError)"),
        (Panic("the library panicked"), 1, "inside regard (Panic: the library panicked)"),
        (OSError(errno.EBADF, "Bad file descriptor"), 1, "standard input or output is closed"),
        (OSError(errno.ENAMETOOLONG, "File name too long", "x" * 5000), 2, "x...x"),
        (OSError(errno.EIO, "Input/output error", "disk/run"), 1, "disk/run: Input/output error"),
        (UnicodeEncodeError("utf-8", "a\udcff", 1, 2, "surrogates not allowed"), 2, "is not UTF-8"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, BaseException) else None,
)
def test_every_error_is_one_line_with_its_exit_code(monkeypatch, capsys, error, code, words):
    raises(monkeypatch, error)
    assert cli.main(["list"]) == code
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.count("\n") == 1
    assert len(told.err) < 500
    assert words.replace("x...x", "x" * 100 + "..." + "x" * 19) in told.err


def test_debug_shows_the_traceback_and_changes_nothing_else(monkeypatch, capsys):
    raises(monkeypatch, UserError("`order` must be 1 or more"))
    assert cli.main(["list", "--debug"]) == 2
    told = capsys.readouterr().err
    assert told.startswith("Traceback")
    assert told.splitlines()[-1] == "regard: --order must be 1 or more"


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_signals_stop_like_ctrl_c(monkeypatch, capsys, number):
    monkeypatch.setattr("regard.verbs.list.main", lambda arguments: signal.raise_signal(number))
    before = signal.getsignal(number)
    assert cli.main(["list"]) == 130
    assert capsys.readouterr().err == "regard: stopped\n"
    assert signal.getsignal(number) == before


def test_a_signal_that_the_caller_ignores_stays_ignored(monkeypatch):
    """As under nohup."""
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        monkeypatch.setattr("regard.verbs.list.main", lambda arguments: signal.raise_signal(signal.SIGHUP))
        assert cli.main(["list"]) == 0
    finally:
        signal.signal(signal.SIGHUP, before)


@pytest.mark.parametrize(
    ("command", "code", "out", "err"),
    [
        ("--help >&-", 1, "", "regard: standard input or output is closed: open it, or name a file\n"),
        (
            "--help >/dev/full",
            1,
            "",
            f"regard: {FULL}\n",
        ),
        ("nosuch 2>&-", 2, "", ""),
        ("nosuch 2>/dev/full", 2, "", ""),
        ("--version <&- 2>&-", 0, "regard ", ""),
        (
            "train ngram --text - --out run <&-",
            2,
            "",
            f"regard: {CLOSED}\n",
        ),
    ],
)
def test_closed_and_full_streams(tmp_path, command, code, out, err):
    whole = f"{sys.executable} -m regard {command}"
    done = subprocess.run(["bash", "-c", whole], capture_output=True, text=True, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert done.stdout.startswith(out)
    assert bool(done.stdout) == bool(out)
    assert done.stderr == err
    assert list(tmp_path.iterdir()) == []


class Broken(io.StringIO):
    def write(self, text: str) -> int:
        raise BrokenPipeError(errno.EPIPE, "Broken pipe")


def test_a_message_that_cannot_be_written_stops_no_work(monkeypatch):
    monkeypatch.setattr(sys, "stderr", Broken())
    streams.tell("step 3")  # raises nothing


def test_long_names_are_cut_and_control_characters_are_shown():
    message = f"\x1b[31mred\x1b[0m {'a' * 300}/b\r\n: no such run"
    assert one_line(message) == f"<1b>[31mred<1b>[0m {'a' * 100}...{'a' * 20}/b : no such run"
    assert describe(UserError("`top_k` is 0")) == ("--top-k is 0", 2)


@pytest.mark.parametrize("letter", ["\x1b", "\x7f", "\x9b", "\u202e", "\u2066", "\u2028", "\r", "\x00"])
def test_what_commands_a_terminal_has_a_code(letter):
    code = f"<{ord(letter):x}>"
    assert harmless(f"a{letter}b") == visible(f"a{letter}b") == f"a{code}b"


def test_tokens_without_a_shape_are_seen():
    assert visible("\u200d") == "<200d>"  # joins emoji
    assert visible("\ufe0f") == "<fe0f>"  # chooses a picture
    assert visible("\u0301") == "◌\u0301"  # an accent without its letter
    assert harmless("می‌خواهم 👩‍💻") == "می‌خواهم 👩‍💻"  # running text keeps its joiners


def test_columns_of_a_terminal():
    assert [cell_width(text) for text in ("cat", "猫", "e\u0301", "")] == [3, 2, 1, 0]
    for text in ("cat", "猫猫猫", "e\u0301e\u0301", ""):
        assert cell_width(fit(text, 5)) == cell_width(fit(text, 5, right=True)) == 5
    assert fit("猫猫猫", 5) == "猫猫 "


def test_a_library_that_aborts_takes_only_its_own_process():
    with pytest.raises(child.MachineError, match="the engine stopped with SIGABRT"):
        child.run_child("import os; os.abort()", b"", "the engine")
    with pytest.raises(child.MachineError, match=r"the engine failed .ValueError: odd"):
        child.run_child("raise ValueError('odd')", b"", "the engine")
    assert child.run_child("import sys; print(sys.stdin.read()[::-1], end='')", b"abc", "it") == b"cba"


def test_the_current_folder_gives_a_child_no_modules(tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise SystemExit(3)")
    monkeypatch.chdir(tmp_path)
    assert child.run_child("import json; print(json.dumps(1), end='')", b"", "it") == b"1"
    assert os.getcwd() == str(tmp_path)


WILD = "a\x1b[31m\x9b\u202eb\u2028<script>"


@pytest.mark.parametrize("kind", ["look", "sheet", "lesson", "table", "picture", "points", "report"])
def test_texts_from_outside_command_nothing_in_pages_and_pictures(monkeypatch, kind):
    monkeypatch.setattr(charts, "chart_to_html", lambda chart: drawing._specification(chart).decode())
    if kind == "look":
        record = Record([WILD], [0], [None], [[]], notes=[WILD])
        made = file_of(WILD, record, None, Source(name=WILD)).partition('<script type="application/json"')[0]
    elif kind == "sheet":
        parts = [sheet.Heading(WILD), sheet.Prose(WILD), sheet.Table([WILD], [[WILD]])]
        made = sheet.page(WILD, parts)
    elif kind == "lesson":
        lesson = run_lesson("averaging")
        step = dataclasses.replace(lesson.steps[0], title=WILD, intro=WILD, says=WILD, values={WILD: WILD})
        lesson = dataclasses.replace(lesson, about=WILD, steps=[step])
        made = lesson_page.page(lesson).partition("<script>")[0] + lesson._repr_html_()
    elif kind == "table":
        made = html_table([{WILD: WILD}, {WILD: WILD}])
    elif kind == "picture":
        made = pictures.before_and_after(*[pictures.bars(np.array([1.0]), [WILD], WILD)] * 2, WILD)
    elif kind == "points":
        points = [scatter.Point(WILD, 0.0, 0.0, 0, True), scatter.Point("b", 1.0, 1.0, 1, False)]
        made = scatter.scatter(points, [], WILD, (WILD, WILD))
    else:
        chart = charts.accuracies([{"family": WILD, "length": 1, "accuracy": 1, "low": 0, "high": 1}], "x")
        row = {WILD: WILD}
        made = charts.page(WILD, {WILD: WILD}, [chart], [row], [WILD], [([WILD], [WILD], [[1.0]])])
        assert "\\u" not in made  # in JSON, codes of characters would be read again
    assert "&lt;script&gt;" in made
    assert not set(made) & set("\x1b\x9b\u202e\u2028")
    assert "<script>" not in made or kind == "report"


def test_a_message_that_quotes_a_line_end_stays_one_line():
    for kind in (UserError, MachineError):
        assert str(kind("'two\nlines' is\r\nno name")) == "'two lines' is no name"


def test_a_folder_below_a_file_is_the_users_mistake(tmp_path):
    (tmp_path / "file").touch()
    for name in ("run", "more/run"):
        with pytest.raises(UserError, match="a part of this path is a file, not a folder; choose another"):
            make_folder(tmp_path / "file" / name)
