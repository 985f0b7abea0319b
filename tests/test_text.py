import gzip
import os
import socket
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import UserError
from regard.machine import inputs
from regard.text.builtin import built_in_text
from regard.text.documents import split
from regard.text.files import Source, hold_out_files, read


def test_files_folders_globs_and_gzip(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "b.txt").write_bytes("été\r\n".encode())
    (tmp_path / "inner" / "a.txt").write_text("one\n")
    (tmp_path / "c.txt.gz").write_bytes(gzip.compress(b"zipped"))
    (tmp_path / ".hidden").write_bytes(b"\xff")
    texts = {source.name.removeprefix(f"{tmp_path}/"): source.text for source in read([str(tmp_path)])}
    assert texts == {"b.txt": "été\r\n", "c.txt.gz": "zipped", "inner/a.txt": "one\n"}  # newlines as they are
    assert [source.text for source in read([f"{tmp_path}/*.txt", f"{tmp_path}/inner"])] == [
        "été\r\n",
        "one\n",
    ]


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("empty.txt", b"", "is empty"),
        ("binary.bin", b"ab\0cd", "byte 2 is zero"),
        (
            "latin.txt",
            "caf\xe9".encode("latin1"),
            "byte 3 (0xe9) is not UTF-8; convert it first, for example: iconv",
        ),
        ("broken.gz", b"no gzip", "not a whole gzip file"),
        ("cut.gz", gzip.compress(b"some words" * 99, mtime=0)[:-9], "not a whole gzip file"),
    ],
)
def test_bad_files_are_named_with_a_remedy(tmp_path, name: str, data: bytes, words: str):
    (tmp_path / name).write_bytes(data)
    with pytest.raises(UserError, match=name) as error:
        read([str(tmp_path / name)])
    assert words in str(error.value)


def test_missing_paths(tmp_path):
    with pytest.raises(UserError, match="no such file"):
        read([str(tmp_path / "none.txt")])
    with pytest.raises(UserError, match="no file matches"):
        read([str(tmp_path / "*.none")])
    with pytest.raises(UserError, match="holds no files"):
        read([str(tmp_path)])


def test_the_built_in_text_is_half_a_megabyte_of_english():
    source = built_in_text()
    assert 400_000 < len(source.text) < 1_000_000
    assert "The standard comparisons" in source.text or "assert" in source.text
    assert source.record()["sha256"] == built_in_text().sha256


@given(st.text(alphabet="ab \n\t\r", max_size=40))
def test_documents_lose_nothing(text: str):
    assert "".join(split(text, "blank")) == text
    assert split(text, "file") == [text]
    lines = split(text, "line")
    assert "".join(line + "\n" for line in lines) == (
        text if text.endswith("\n") or not text else text + "\n"
    )


def test_an_empty_line_is_an_empty_document():
    assert split("a\n\n\nb", "line") == ["a", "", "", "b"]
    assert split("\n", "line") == [""]


def test_blank_lines_end_a_document_and_belong_to_it():
    assert split("a\nb\n \t\n\nc\n", "blank") == ["a\nb\n \t\n\n", "c\n"]


def hold_out(text: str) -> tuple[str, ...]:
    return tuple(source.text for part in hold_out_files([Source("text", text)]) for source in part)


def test_held_out_text_is_the_end_cut_at_a_line():
    text = "".join(f"line {number}\n" for number in range(100))
    first, last = hold_out(text)
    assert first + last == text
    assert last.startswith("line 9")
    assert 0.08 < len(last) / len(text) <= 0.1


def test_held_out_text_of_long_lines_is_cut_between_words():
    text = "slowly " * 300 + "\nend"
    first, last = hold_out(text)
    assert first + last == text
    assert first.endswith("slowly ")
    assert len(last) == pytest.approx(0.1 * len(text), abs=7)
    assert hold_out("x" * 100) == ("x" * 90, "x" * 10)


def test_held_out_files_stay_apart():
    sources = [Source("a", "a" * 50), Source("b", "b" * 30), Source("c", "c" * 20)]
    kept, rest = hold_out_files(sources)
    assert [(source.name, len(source.text), source.first) for source in kept] == [
        ("a", 50, 0),
        ("b", 30, 0),
        ("c", 10, 0),
    ]
    assert [(source.name, len(source.text), source.first) for source in rest] == [("c", 10, 10)]
    again, valid = hold_out_files(hold_out_files(rest)[1])
    assert [source.first for source in (*again, *valid)] == [19]


def test_a_pipe_is_read_and_a_pipe_without_a_writer_is_refused(tmp_path, monkeypatch):
    monkeypatch.setattr(inputs, "WAIT", 0.2)
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    with pytest.raises(UserError, match="no program wrote into this pipe for 0 seconds; start it first"):
        read(pipe)
    text = "é and more\n" * inputs.CHUNK  # longer than a chunk, and than what a pipe holds
    writer = threading.Thread(target=pipe.write_text, args=(text,), kwargs={"encoding": "utf-8"})
    writer.start()
    assert read(pipe)[0].text == text
    writer.join()


def test_an_endless_device_ends():
    with pytest.raises(UserError, match=r"/dev/zero: a binary file \(byte 0 is zero\)"):
        read("/dev/zero")
    with pytest.raises(UserError, match="/dev/null: the file is empty"):
        read("/dev/null")


def test_a_socket_is_no_text(tmp_path):
    with socket.socket(socket.AF_UNIX) as made:
        made.bind(str(tmp_path / "socket"))
        with pytest.raises(UserError, match="socket: cannot be read"):
            read(tmp_path / "socket")
