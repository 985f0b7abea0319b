"""Files that Hypothesis writes from the grammars of all formats: each is read, or refused in one line.

bench/fuzz.py runs the same for an hour with random seeds. Each failure that it found is in FOUND.
"""

import io
import zipfile

import pytest
from grammar_targets import Grammar, grammar_targets

EACH, FEW = 30, 8  # files of each format, and of those whose reading takes time


def unknown_method() -> bytes:
    """An archive that says that its part is compressed by a method that nobody knows."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        archive.writestr("weights.npy", b"x")
    data = bytearray(file.getvalue())
    data[data.index(b"PK\x01\x02") + 10] = 99
    return bytes(data)


FOUND: list[tuple[str, bytes]] = [  # names of grammars and contents of files
    ("links", b"0-" + 5000 * b"9" + b"\n"),  # Python refuses to read so many digits
    ("draw .npz", b""),  # NumPy raises an EOFError
    ("draw .npz", unknown_method()),
    ("draw .json", b'{"\\n": null}'),  # the message had two lines, as it had in the next one
    ("lstm/tokenizer.json", b'{"kind": "\\n", "document": "file", "characters": "a"}'),
    ("list of the lab", b'{"family": "lstm", "loss": 1' + 400 * b"0" + b"}"),  # float() overflows
    ("draw .json", 400 * b"9"),  # float() overflows
    ("labelled/labels-plan.json", b'{"names": [], "minutes": null, "seeds": 1, "labels": []}'),
    ("labelled/labels-plan.json", b'{"names": ["../x"], "minutes": null, "seeds": 1, "labels": []}'),
]


@pytest.fixture(scope="module")
def grammars(tmp_path_factory) -> list[Grammar]:
    return grammar_targets(tmp_path_factory.mktemp("grammars"))


def test_every_reader_reads_or_refuses_what_a_grammar_writes(grammars: list[Grammar]):
    for grammar in grammars:
        came = list[str]()
        grammar.hunt(7, FEW if grammar.slow else EACH, came.append)
        assert grammar.slow or "read" in came, grammar.name


def test_what_the_long_run_found(grammars: list[Grammar]):
    by_name = {grammar.name: grammar for grammar in grammars}
    for name, content in FOUND:
        by_name[name].attempt(content)
