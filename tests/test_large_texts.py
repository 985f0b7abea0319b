"""Laws of large texts: read, split and encoded in pieces, they give the ids that the whole text gives."""

import bz2
import gzip
import json
import lzma
import os
import signal
import subprocess
import sys
import time
import zipfile
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers

import regard
from regard.errors import MachineError, Notice, UserError
from regard.machine.disk import absolute
from regard.text import documents, files
from regard.text.documents import ROW, split, split_pieces
from regard.text.files import Source, hold_out_files, read
from regard.tokens import shards, subwords
from regard.tokens.choose import TokenOptions, train_on_sources, train_tokenizer
from regard.tokens.shards import encode_sources, shards_folder
from regard.tokens.streams import sample, vocabulary

TEXT = "The cat's 12 mats, sat—on naïve mats.\n\nthe end <unk> café 数学。很好\n \t\n\x0bend\r\n"
KINDS = {"char": {}, "byte": {}, "word": {}, "bpe": {"bpe_size": 290}}
DOCUMENTS = ["file", "line", "blank", "row"]
LETTERS = [*sorted(set(TEXT)), "\n", "\n", " ", "'", ROW]
MARKED = st.text(alphabet=LETTERS, min_size=1, max_size=150) | st.text(
    alphabet=["a", "b", "\n", " "], min_size=20, max_size=150
)


def tokenizer(kind: str, document: str):
    return train_tokenizer([TEXT * 2], TokenOptions(tokens=kind, document=document, **KINDS[kind]))[0]


MADE = {(kind, document): tokenizer(kind, document) for kind in KINDS for document in DOCUMENTS}


@pytest.fixture
def small_pieces(monkeypatch):
    monkeypatch.setattr(documents, "PIECE", 7)
    monkeypatch.setattr(files, "LARGE", 50)


@pytest.fixture
def cache(monkeypatch, tmp_path):
    monkeypatch.setenv("REGARD_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache" / "shards"


def strings_of(text: str, size: int):
    return [text[place : place + size] for place in range(0, len(text), size)]


def in_pieces(tokenizer, text: str, size: int):
    """(ids, ends) of a text that comes in strings of `size` characters."""
    ids, ends, count = [], [], 0
    for piece in split_pieces(strings_of(text, size), tokenizer.document, tokenizer.cut):
        own_ids, own_ends = tokenizer.encode_piece(piece)
        ids.append(own_ids)
        ends.append(own_ends + count)
        count += len(own_ids)
    return np.concatenate(ids).tolist(), np.concatenate(ends).tolist()


@pytest.mark.parametrize("document", DOCUMENTS)
@pytest.mark.parametrize("kind", KINDS)
def test_pieces_have_the_ids_of_the_whole_text(kind: str, document: str, monkeypatch):
    monkeypatch.setattr(documents, "PIECE", 7)
    monkeypatch.setattr(subwords, "PIECE", 5)
    monkeypatch.setattr(subwords, "WORD", 11)
    made = MADE[kind, document]

    @given(MARKED, st.sampled_from([1, 3, 19, 1000]))
    def law(text: str, size: int):
        text = text if document == "row" else text.replace(ROW, "\n")
        whole = made.encode(text)
        assert in_pieces(made, text, size) == (whole.ids_N.tolist(), whole.ends_D.tolist())

    law()


@pytest.mark.parametrize("kind", KINDS)
def test_a_long_line_is_cut_into_many_pieces(kind: str, monkeypatch):
    monkeypatch.setattr(documents, "PIECE", 101)
    monkeypatch.setattr(subwords, "PIECE", 31)
    monkeypatch.setattr(subwords, "WORD", 47)
    made = MADE[kind, "file"]
    text = "the cat sat mats, " * 97 + ("x" * 401 if kind != "word" else "xx") + " end 12"
    pieces = [*split_pieces(strings_of(text, 89), "file", made.cut)]
    assert len(pieces) > 11
    assert max(len(piece.documents[0]) for piece in pieces) < 401
    whole = made.encode(text)
    assert in_pieces(made, text, 89) == (whole.ids_N.tolist(), whole.ends_D.tolist())


@given(MARKED, st.integers(1, 9), st.sampled_from(DOCUMENTS))
def test_the_parts_of_documents_are_the_documents(text: str, size: int, document: str):
    text = text if document == "row" else text.replace(ROW, "\n")
    joined, goes_on = [], False
    for piece in split_pieces(strings_of(text, size), document, MADE["char", document].cut):
        first, *others = piece.documents
        joined = [*joined[:-1], joined[-1] + first, *others] if goes_on else [*joined, first, *others]
        goes_on = piece.unfinished
    assert joined == split(text, document)


LOADED = {
    "cuts at spaces": (pre_tokenizers.ByteLevel(add_prefix_space=False), None),
    "adds a space": (pre_tokenizers.ByteLevel(add_prefix_space=True), None),
    "cuts nowhere": (pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False), None),
    "cuts after full stops": (
        pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(".", "merged_with_previous"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        ),
        None,
    ),
    "lower case": (pre_tokenizers.ByteLevel(add_prefix_space=False), normalizers.Lowercase()),
}


@pytest.mark.parametrize("name", LOADED)
def test_a_loaded_tokenizer_is_cut_where_its_own_pre_tokenizer_cuts(name: str, monkeypatch):
    monkeypatch.setattr(documents, "PIECE", 7)
    monkeypatch.setattr(subwords, "PIECE", 5)
    words, normalizer = LOADED[name]
    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    pairs = [("a", "Ġ"), ("aĠ", "b"), ("b", "Ċ"), ("bĊ", "a"), ("b", "."), ("b.", "a")]
    vocabulary = [*letters, *("".join(pair) for pair in pairs)]
    library = Library(models.BPE({token: place for place, token in enumerate(vocabulary)}, pairs))
    library.pre_tokenizer, library.decoder = words, decoders.ByteLevel()
    if normalizer is not None:
        library.normalizer = normalizer
    made = subwords.SubwordTokenizer(library, "file")
    text = "a b\nab.a b.b\nb a b.a\n" * 5
    expected = library.encode(text, add_special_tokens=False).ids
    ids, ends = in_pieces(made, text, 13)
    assert (ids[:-1], ends) == (expected, [len(ids)])


@given(MARKED, st.lists(st.integers(0, 40), max_size=3), st.floats(0.01, 0.5))
def test_held_out_text_does_not_depend_on_the_size_of_pieces(text: str, cuts: list[int], share: float):
    text = text.replace(ROW, "\n")
    places = [0, *sorted(min(cut, len(text)) for cut in cuts), len(text)]
    sources = [Source(str(a), text[a:b]) for a, b in pairwise(places) if a < b]
    cut = int(len(text) * (1 - share))
    limit = cut + int(len(text) * share / 2)
    ends = [place + 1 for mark in "\n " if (place := text.find(mark, cut, limit)) >= 0]
    train, valid = hold_out_files(sources, share)
    assert "".join(source.text for source in train) == text[: ends[0] if ends else cut]
    assert "".join(source.text for source in train + valid) == text


def test_a_large_text_is_read_in_parts(tmp_path, small_pieces):
    path = tmp_path / "text.txt"
    path.write_bytes((TEXT * 9).encode())
    (small,), (large,) = [Source("x", TEXT * 9)], read(path)
    assert (small.in_memory, large.in_memory) == (True, False)
    assert len(large) == len(small)
    assert (large.text, large.size, large.sha256) == (small.text, small.size, small.sha256)
    one, other = hold_out_files([small]), hold_out_files([large])
    for ours, theirs in zip(one[0] + one[1], other[0] + other[1], strict=True):
        assert (ours.text, ours.first, ours.sha256) == (theirs.text, theirs.first, theirs.sha256)


@pytest.mark.parametrize("change", ["longer", "shorter", "other letters"])
def test_a_text_that_changes_while_it_is_read_is_an_error(tmp_path, small_pieces, change: str):
    path = tmp_path / "log.txt"
    path.write_text("line\n" * 30)
    (source,) = read(path)
    if change == "other letters":
        assert source.sha256
    path.write_text({"longer": "line\n" * 31, "shorter": "line\n" * 29}.get(change, "LINE\n" * 30))
    with pytest.raises(UserError, match=r"log.txt: has changed while it was read; give a copy"):
        [*source.strings()]


def large_source(tmp_path, text: str = TEXT * 60, name: str = "text.txt"):
    path = tmp_path / name
    path.write_bytes(text.encode())
    sources = read(path)
    assert not sources[0].in_memory
    return sources


@pytest.mark.parametrize("kind", KINDS)
def test_a_shard_has_the_ids_of_the_text(tmp_path, cache, small_pieces, kind: str):
    sources = large_source(tmp_path)
    made = MADE[kind, "blank"]
    ours, theirs = encode_sources(made, sources), made.encode_texts([source.text for source in sources])
    assert ours.ids_N.dtype == torch.uint16
    assert ours.ids_N.tolist() == theirs.ids_N.tolist()
    assert ours.ends_D.tolist() == theirs.ends_D.tolist()
    assert (ours.bytes, ours.unknown) == (theirs.bytes, theirs.unknown)
    ours.release()
    assert ours.first(11).ids_N.tolist() == theirs.first(11).ids_N.tolist()
    assert not [path for path in cache.iterdir() if path.suffix in (".tmp", ".lock")]


@pytest.mark.parametrize("kind", ["char", "word"])
def test_a_tokenizer_is_the_same_from_a_stream(tmp_path, cache, small_pieces, kind: str):
    text = TEXT * 3 + "rare mats"
    sources = large_source(tmp_path, text)
    options = TokenOptions(tokens=kind, **({"cutoff": 2} if kind == "word" else {}))
    streamed, encoded, notes = train_on_sources(sources, options, seed=1)
    whole, expected = train_tokenizer([text], options)
    assert streamed.to_json() == whole.to_json()
    assert encoded.ids_N.tolist() == expected.ids_N.tolist()
    assert notes == []


def test_words_are_counted_in_parts_that_end_between_words(tmp_path, small_pieces, monkeypatch):
    monkeypatch.setattr("regard.tokens.streams.COUNTED", 23)
    sources = large_source(tmp_path)
    expected = train_tokenizer([TEXT * 60], TokenOptions(tokens="word"))[0].to_json()["words"]
    assert [word.decode() for word in vocabulary(sources, 1)] == expected


def test_the_sample_of_subwords_is_bounded_and_seeded(tmp_path, small_pieces, monkeypatch):
    monkeypatch.setattr("regard.tokens.streams.SAMPLE", 200)
    sources = large_source(tmp_path, "".join(f"word{number} " for number in range(400)))
    first = sample(sources, 1)
    assert 100 < sum(map(len, first)) <= 200
    assert first == sample(sources, 1) != sample(sources, 2)
    assert all(part.startswith("word") and part.endswith(" ") for part in first)


def test_a_damaged_shard_is_made_again(tmp_path, cache, small_pieces):
    sources, made = large_source(tmp_path), MADE["byte", "file"]
    expected = encode_sources(made, sources).ids_N.tolist()
    (folder,) = cache.iterdir()
    for damage in ("flip", "cut", "description", "missing"):
        ids = folder / "ids.bin"
        if damage == "flip":
            ids.write_bytes(b"\xff" + ids.read_bytes()[1:])
        elif damage == "cut":
            os.truncate(ids, 10)
        elif damage == "missing":
            ids.unlink()
        else:
            (folder / "shard.json").write_text("{")
        with pytest.warns(Notice, match="is damaged; the text is encoded again"):
            again = encode_sources(made, sources)
        assert again.ids_N.tolist() == expected
    before = (folder / "ids.bin").stat().st_ino
    assert encode_sources(made, sources).ids_N.tolist() == expected  # without a notice
    assert (folder / "ids.bin").stat().st_ino == before


def test_a_full_disk_says_where_the_shards_are(tmp_path, cache, small_pieces, monkeypatch):
    def full(*_):
        raise OSError(28, "No space left on device")

    sources = large_source(tmp_path)
    monkeypatch.setattr(shards, "_write_ids", full)
    with pytest.raises(MachineError, match=rf"full while the text is encoded into {cache}.*REGARD_CACHE"):
        encode_sources(MADE["byte", "file"], sources)
    assert [*cache.iterdir()] == []


MAKE = """
import sys
from regard.text import files
files.LARGE = 50
from regard.tokens.raw_bytes import ByteTokenizer
from regard.tokens.shards import encode_sources
print("begins", flush=True)
print(int(encode_sources(ByteTokenizer("file"), files.read(sys.argv[1])).ids_N.long().sum()))
"""


def maker(path: Path) -> subprocess.Popen:
    return subprocess.Popen(
        [sys.executable, "-c", MAKE, str(path)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def test_two_processes_make_one_shard(tmp_path, cache):
    path = tmp_path / "text.txt"
    path.write_text("ab\n" * 700_000)
    expected = (97 + 98 + 10) * 700_000 + 256
    makers = [maker(path), maker(path)]
    assert [int(each.communicate()[0].split()[1]) for each in makers] == [expected, expected]
    assert len([*cache.glob("[0-9a-f]*")]) == 1


def test_a_killed_process_leaves_nothing_that_is_read(tmp_path, cache):
    path = tmp_path / "text.txt"
    path.write_text("ab\n" * 700_000)
    killed = maker(path)
    deadline = time.monotonic() + 60
    while not [*cache.glob(".regard-*.tmp/ids.bin")] and killed.poll() is None:
        assert time.monotonic() < deadline
        time.sleep(0.005)
    killed.send_signal(signal.SIGKILL)
    killed.communicate()
    assert killed.returncode == -signal.SIGKILL
    assert not [*cache.glob("[0-9a-f]*/shard.json")]
    again, _ = maker(path).communicate()
    assert int(again.split()[1]) == (97 + 98 + 10) * 700_000 + 256
    assert [path.name[0] != "." and path.is_dir() for path in cache.iterdir()] == [True]


@pytest.mark.parametrize(
    ("family", "options"),
    [
        ("transformer", {"tokens": "char", "document": "line", "context": 13, "layers": 1, "width": 8}),
        ("lstm", {"tokens": "word", "width": 8, "segment": 7}),
        ("reader", {"tokens": "byte", "context": 11, "layers": 1, "width": 8}),
        ("ngram", {"tokens": "word", "order": 2}),
        ("embedding", {"width": 5, "epochs": 1}),
    ],
)
def test_a_training_on_a_large_text_is_the_training_on_the_text(
    family: str, options: dict, tmp_path, cache, monkeypatch
):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"the cat number {n % 7} sat on mat {n % 5}\n" for n in range(60)))
    steps = {"steps": 3, "batch": 3} if family in ("transformer", "lstm", "reader") else {}
    options = {**options, **steps, "text": str(path)}
    small = regard.train(family, out=str(tmp_path / "small"), **options)
    monkeypatch.setattr(files, "LARGE", 50)
    large = regard.train(family, out=str(tmp_path / "large"), **options)
    assert len([*cache.glob("[0-9a-f]*/ids.bin")]) > 0
    assert large.loss == small.loss
    weights = zip(large.run.model.state_dict().values(), small.run.model.state_dict().values(), strict=True)
    assert all(torch.equal(one, other) for one, other in weights)
    assert large.run.config.texts.train[0].sha256 == small.run.config.texts.train[0].sha256
    if family in ("transformer", "lstm", "ngram"):
        measured = regard.evaluate(large.run)
        assert measured.loss == pytest.approx(small.loss, rel=1e-12)
        assert measured.bytes == small.run.config.texts.valid[0].bytes
        one, other = (regard.score(run.run, str(path)) for run in (small, large))
        assert [*one] == [*other]


def test_measuring_in_slices_gives_every_loss_once(tmp_path, monkeypatch):
    path = tmp_path / "text.txt"
    path.write_text("".join(f"the cat {n % 7} sat\n" for n in range(40)))
    sizes = {"steps": 2, "batch": 2, "layers": 1, "width": 8}
    runs = [
        regard.train(
            "transformer", text=str(path), context=9, tokens="word", out=str(tmp_path / "a"), **sizes
        ),
        regard.train("lstm", text=str(path), tokens="word", out=str(tmp_path / "b"), **sizes),
    ]
    mixed = regard.mix(runs[0].run, runs[1].run, valid=str(path))
    for run in (runs[0].run, runs[1].run, mixed):
        monkeypatch.setattr("regard.tokens.batches.SLICE", 1 << 20)
        whole = [token.log_prob for document in regard.score(run, str(path)) for token in document]
        monkeypatch.setattr("regard.tokens.batches.SLICE", 17)
        parts = [token.log_prob for document in regard.score(run, str(path)) for token in document]
        assert parts == pytest.approx(whole, abs=1e-5)  # float32: other batches, other last bits


def test_shards_are_listed_and_removed(tmp_path, cache, small_pieces):
    assert regard.shards().shards == ()
    sources = large_source(tmp_path)
    for kind in ("byte", "char"):
        encode_sources(MADE[kind, "file"], sources)
    kept = regard.shards()
    assert kept.folder == shards_folder() == cache
    assert {shard.kind for shard in kept.shards} == {"byte", "char"}
    assert all(shard.files == (str(tmp_path / "text.txt"),) for shard in kept.shards)
    with pytest.raises(UserError, match="no encoded text has this name"):
        regard.shards(remove="zz")
    left = regard.shards(remove=kept.shards[0].name[:12])
    assert left.removed == (kept.shards[0].name,)
    assert [shard.name for shard in left.shards] == [kept.shards[1].name]
    assert regard.shards(remove="all").shards == ()


def test_only_files_of_a_shard_are_removed(tmp_path, cache, small_pieces):
    sources, made = large_source(tmp_path), MADE["byte", "file"]
    expected = encode_sources(made, sources).ids_N.tolist()
    (shard,) = cache.iterdir()
    (cache / "thesis").mkdir()
    mine = cache / "thesis" / "ids.bin", shard / "notes.txt"
    for path in mine:
        path.write_text("mine")
    assert [each.name for each in regard.shards().shards] == [shard.name]
    with pytest.raises(UserError, match="holds files that regard did not write"):
        regard.shards(remove="all")
    with (  # the shard is not whole any more
        pytest.warns(Notice, match="is damaged"),
        pytest.raises(UserError, match="holds files that regard did not write"),
    ):
        encode_sources(made, sources)
    assert [path.read_text() for path in mine] == ["mine", "mine"]
    mine[1].unlink()
    with pytest.warns(Notice, match="is damaged"):
        assert encode_sources(made, sources).ids_N.tolist() == expected


def test_what_a_killed_process_left_is_removed(tmp_path, cache, small_pieces):
    sources, made = large_source(tmp_path), MADE["byte", "file"]
    encode_sources(made, sources)
    (shard,) = cache.iterdir()
    left = cache / f".regard-{shard.name}.7.tmp"
    left.mkdir()
    (left / ".regard-shard.json.7.tmp").write_text("{")
    (shard / "ids.bin").unlink()
    with pytest.warns(Notice, match="is damaged"):
        encode_sources(made, sources)
    assert [path.name for path in cache.iterdir()] == [shard.name]


def test_the_verb_prints_shards(regard_cli, tmp_path, cache, small_pieces):
    encode_sources(MADE["byte", "file"], large_source(tmp_path))
    assert "tokens (byte, a document is a file)" in regard_cli("shards").stdout
    shown = json.loads(regard_cli("shards", "--remove", "all", "--json").stdout)
    assert (shown["shards"], len(shown["removed"])) == ([], 1)


def packed(path: Path, data: bytes) -> Path:
    pack = {".gz": gzip.compress, ".bz2": bz2.compress, ".xz": lzma.compress}
    if path.suffix == ".zst":
        path.write_bytes(pytest.importorskip("zstandard").compress(data))
    else:
        path.write_bytes(pack[path.suffix](data))
    return path


@pytest.mark.parametrize("ending", [".gz", ".bz2", ".xz", ".zst"])
def test_compressed_texts_are_read_and_damaged_ones_are_told(tmp_path, ending: str):
    path = packed(tmp_path / f"a.txt{ending}", TEXT.encode())
    assert [source.text for source in read(path)] == [TEXT]
    rows = packed(tmp_path / f"a.jsonl{ending}", b'{"text": "one"}\n{"text": "two"}\n')
    assert [source.text for source in read(rows, rows=True)] == [f"one{ROW}two{ROW}"]
    path.write_bytes(path.read_bytes()[:-5])
    with pytest.raises(UserError, match=rf"a.txt{ending}: not a whole"):
        read(path)


def test_the_files_of_a_zip_archive_are_texts(tmp_path, small_pieces):
    path = tmp_path / "texts.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("b.txt", "second " * 20)
        archive.writestr("a/one.txt", "first")
    sources = read(path)
    assert [source.name for source in sources] == [f"zip://a/one.txt::{path}", f"zip://b.txt::{path}"]
    assert [source.text for source in sources] == ["first", "second " * 20]
    assert absolute(sources[0].name) == sources[0].name
    assert read(sources[0].name)[0].text == "first"
    path.write_bytes(b"no archive")
    with pytest.raises(UserError, match="not a whole zip file"):
        read(path)


def test_fsspec_opens_urls(tmp_path):
    fsspec = pytest.importorskip("fsspec")
    with fsspec.open("memory://texts/a.txt", "wb") as file:
        file.write(TEXT.encode())
    assert [source.text for source in read("memory://texts/a.txt")] == [TEXT]
    assert absolute("memory://texts/a.txt") == "memory://texts/a.txt"
    with pytest.raises(UserError, match=r"memory://texts/none\.txt: cannot be read"):
        read("memory://texts/none.txt")
    with pytest.raises(UserError, match=r"nosuch://a\.txt: cannot be opened"):
        read("nosuch://a.txt")


def test_rows_of_json_lines_are_documents(tmp_path):
    path = tmp_path / "texts.jsonl"
    texts = [f"row {number}\nthe cat sat on mat {number % 3}" for number in range(40)]
    path.write_text("".join(json.dumps({"id": 1, "text": text}) + "\n" for text in texts))
    (source,) = read(path, rows=True)
    assert source.text == "".join(text + ROW for text in texts)
    assert read(path)[0].text == "".join(text + "\n" for text in texts)
    sizes = {"order": 2, "tokens": "char"}
    run = regard.train("ngram", text=str(path), out=str(tmp_path / "rows"), **sizes).run
    assert run.tokenizer.document == "row"
    held = regard.evaluate(run)
    assert held.tokens == held.bytes == sum(len(text) + 1 for text in texts[-3:])  # with one end of each row
    assert len([*regard.score(run, str(path))]) == 40
    other = regard.train("ngram", text=str(path), out=str(tmp_path / "file"), document="file", **sizes).run
    assert len([*regard.score(other, str(path))]) == 1
    plain = tmp_path / "plain.txt"
    plain.write_text("a text\n" * 9)
    with pytest.raises(UserError, match=r"`document` row is for JSON lines \(.jsonl\) and Parquet"):
        regard.train("ngram", text=str(plain), document="row", out=str(tmp_path / "no"))
    with pytest.raises(UserError, match="some of the files hold rows"):
        regard.train("ngram", text=[str(plain), str(path)], out=str(tmp_path / "no"))


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ('{"label": 1, "title": "x"}', "line 2 has no field 'text'; it has: label, title"),
        ("[1]", "line 2 has no field 'text'; it has: list"),
        ("text", "line 2 is not JSON"),
        ('{"text": 3}', "line 2: the field 'text' holds no text but 3"),
        ('{"text": "a\\u0000"}', "line 2: the text holds a zero character"),
        ('{"text": "\\ud800"}', "line 2: the text holds half of a surrogate pair"),
    ],
)
def test_rows_without_a_text_are_told(tmp_path, line: str, words: str):
    path = tmp_path / "texts.jsonl"
    path.write_text('{"text": "one"}\n' + line)
    with pytest.raises(UserError) as error:
        read(path)
    assert words in str(error.value)


def test_parquet_needs_a_column_of_texts(tmp_path, small_pieces):
    arrow, parquet = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = tmp_path / "texts.parquet"
    texts = [f"row {number}" for number in range(5000)]
    parquet.write_table(arrow.table({"id": [*range(5000)], "text": texts}), path)
    (source,) = read(path, rows=True)
    assert source.text == "".join(text + ROW for text in texts)
    assert not source.in_memory
    parquet.write_table(arrow.table({"id": [1], "content": ["a"]}), path)
    with pytest.raises(UserError, match=r"texts.parquet: has no column 'text'; its columns are: id, content"):
        read(path)
    path.write_bytes(b"PAR1")
    with pytest.raises(UserError, match="not a whole Parquet file"):
        read(path)


def test_standard_input_is_read_once_and_used_often(tmp_path, cache):
    path = tmp_path / "text.txt"
    path.write_bytes((TEXT * 20).encode())
    code = "from regard.text import files, opening; files.LARGE = 50; opening.IN_MEMORY = 100;"
    code += "s = files.read('-')[0]; print(s.in_memory, s.sha256, len(s.text) == len(s))"
    with path.open("rb") as stream:
        done = subprocess.run([sys.executable, "-c", code], stdin=stream, capture_output=True, text=True)
    assert done.stdout.split() == ["False", Source("", TEXT * 20).sha256, "True"], done.stderr
