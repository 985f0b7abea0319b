import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.errors import UserError
from regard.text.documents import Document
from regard.tokens import batches, words
from regard.tokens.batches import window_batches, window_slices
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.contract import Tokenizer
from regard.tokens.saved import parse_tokenizer
from regard.tokens.subwords import SubwordTokenizer

TEXT = "the cat sat\non the mat\n\nthe end <unk> café\n"
UNICODE = st.text(
    alphabet=st.characters(exclude_characters="\0", exclude_categories=["Cs"]), min_size=1, max_size=60
)


def trained(kind: str, document: Document = "file", text: str = TEXT, **more) -> Tokenizer:
    return train_tokenizer([text], TokenOptions(tokens=kind, document=document, **more))[0]


BPE = trained("bpe", bpe_size=300)
SMALLEST = {"char": {}, "byte": {}, "word": {}, "bpe": {"bpe_size": 257}}


@given(UNICODE)
def test_bytes_and_subwords_give_back_any_text(text: str):
    for tokenizer in (trained("byte"), BPE):
        encoded = tokenizer.encode(text)
        assert tokenizer.decode(encoded.ids_N.tolist()) == text
        assert encoded.bytes == len(text.encode())
        assert encoded.unknown == 0
        assert int(encoded.ids_N.max()) < tokenizer.size
        assert tokenizer.start == tokenizer.size
        assert tokenizer.padding == tokenizer.size + 1


@given(st.text(alphabet=sorted(set(TEXT)), max_size=60))
def test_characters_give_back_what_they_have_seen(text: str):
    tokenizer = trained("char")
    assert tokenizer.decode(tokenizer.encode(text).ids_N.tolist()) == text


@given(UNICODE, st.sampled_from(["char", "byte", "bpe", "word"]), st.sampled_from(["file", "line", "blank"]))
def test_every_document_ends_with_its_end_and_nothing_else_does(text: str, kind: str, document: Document):
    tokenizer, encoded = train_tokenizer(
        [text], TokenOptions(tokens=kind, document=document, **SMALLEST[kind])
    )
    ids = encoded.ids_N.numpy()
    ends = encoded.ends_D.numpy()
    assert ends[-1] == len(ids)
    assert (np.diff(ends, prepend=0) > 0).all()
    assert (ids[ends - 1] == tokenizer.end).all()
    if kind != "word":
        assert (ids == tokenizer.end).sum() == len(ends)
    assert np.array_equal(ids, tokenizer.encode(text).ids_N.numpy())
    again = parse_tokenizer(json.dumps(tokenizer.to_json()).encode(), "tokenizer.json")
    assert np.array_equal(ids, again.encode(text).ids_N.numpy())


@given(st.text(alphabet="ab \n\t\x0b", min_size=1, max_size=50))
def test_words_and_line_ends_are_the_same_tokens_under_every_document(text: str):
    kinds: list[Document] = ["file", "line", "blank"]
    encoded = {document: trained("word", document, text).encode(text) for document in kinds}
    lines = text.split("\n") if not text.endswith("\n") else text[:-1].split("\n")
    for one in encoded.values():
        assert len(one) == len(text.split()) + len(lines)
        assert np.array_equal(one.ids_N, encoded["file"].ids_N)
    assert len(encoded["line"].ends_D) == len(lines)
    assert len(encoded["file"].ends_D) == 1


def test_words_split_at_ascii_white_space_alone():
    tokenizer = trained("word", text="a\u00a0b c\u2003d\x1ce\x85f\tg\x0bh\fi\rj\n")
    assert [word.decode() for word in tokenizer.words] == [
        "a\u00a0b",
        "c\u2003d\x1ce\x85f",
        "g",
        "h",
        "i",
        "j",
    ]


def test_long_texts_are_split_in_chunks_like_short_ones(monkeypatch):
    text = "".join(f"w{number % 17} " + "\n" * (number % 5 == 0) for number in range(1000))
    whole = trained("word", "line", text).encode(text)
    monkeypatch.setattr(words, "CHUNK", 11)
    chunked = trained("word", "line", text).encode(text)
    assert np.array_equal(whole.ids_N, chunked.ids_N)
    assert np.array_equal(whole.ends_D, chunked.ends_D)


def test_a_literal_unk_is_a_word_and_unknown_words_are_counted():
    tokenizer = trained("word")
    encoded = tokenizer.encode("the <unk> dog café bird\n")
    assert encoded.unknown == 2
    assert tokenizer.decode(encoded.ids_N.tolist()) == "the <unk> <unk> café <unk>\n"
    assert len(set(encoded.ids_N.tolist())) == 5  # the, the word <unk>, the unknown class, café, the end


def test_cutoff_and_vocabulary_close_the_vocabulary(tmp_path):
    assert trained("word", cutoff=2).words == [b"the"]
    (tmp_path / "words").write_text("cat\nmat cat")
    assert trained("word", vocabulary=str(tmp_path / "words")).words == [b"cat", b"mat"]
    with pytest.raises(UserError, match="`tokens` word"):
        trained("char", cutoff=2)
    with pytest.raises(UserError, match="257"):
        trained("bpe", bpe_size=10)
    with pytest.raises(UserError, match="`tokens` bpe"):
        trained("word", bpe_size=300)


def test_a_prompt_of_words_keeps_the_end_of_a_whole_line():
    tokenizer = trained("word")
    assert tokenizer.decode(tokenizer.prompt("the cat\n")) == "the cat\n"
    assert tokenizer.decode(tokenizer.prompt("the cat")) == "the cat"
    assert tokenizer.prompt("") == []
    assert (trained("word", "line").stop, tokenizer.stop, BPE.stop) == (tokenizer.end, None, BPE.end)


def test_the_newline_is_the_end_of_a_line_document():
    for kind in ("char", "byte", "bpe", "word"):
        tokenizer = trained(kind, "line", "ab\n\nb\n", **SMALLEST[kind])
        ids = tokenizer.encode("ab\n\nb\n").ids_N.tolist()
        assert ids.count(tokenizer.end) == 3
        assert tokenizer.decode(ids) == "ab\n\nb\n"


@pytest.mark.parametrize("tokens", [1 << 20, 6, 1])
@pytest.mark.parametrize(("context", "stride"), [(None, None), (5, 5), (5, 2), (7, 1)])
def test_every_token_is_a_target_once_whatever_the_windows(context, stride, tokens: int, monkeypatch):
    monkeypatch.setattr(batches, "SLICE", tokens)
    text = "ab\ncdefghijklmnopq\n\nrstuv\n"
    tokenizer = trained("char", "line", text)
    encoded = tokenizer.encode(text)
    places, targets, starts = [], [], 0
    sizes = {"start": tokenizer.start, "padding": tokenizer.padding, "segment": 3, "budget": 13}
    slices = [*window_slices(encoded, context, stride)]
    assert len(slices) > 1 or tokens > len(text)
    for windows in slices:
        own = []
        for batch in window_batches(encoded, windows, **sizes):
            for rows in batch.segments:
                assert rows.tokens_BT.shape[0] == batch.given
                scored = rows.places_BT >= 0
                own += rows.places_BT[scored].tolist()
                targets += rows.targets_BT[scored].tolist()
                assert bool(((rows.targets_BT >= 0) == scored).all())
                starts += int((rows.tokens_BT == tokenizer.start).sum())
        places += own
        assert sorted(own) == list(range(int(windows.scored_W[0]), int(windows.last_W[-1])))
    assert sorted(places) == list(range(len(encoded)))
    assert [target for _, target in sorted(zip(places, targets, strict=True))] == encoded.ids_N.tolist()
    assert starts == 4  # one start mark a document


def test_a_character_that_was_split_shows_its_bytes():
    tokenizer = SubwordTokenizer.train(["cat " * 50], "file", 258)
    names = [tokenizer.name(token) for token in tokenizer.prompt("é猫")]
    assert names == ["<c3>", "<a9>", "<e7>", "<8c>", "<ab>"]
