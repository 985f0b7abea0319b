"""Whole texts are scored by hash tables: the same ids and the same numbers, to the bit, as word by word."""

import json
import math
from itertools import chain

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import regard
from regard.errors import UserError
from regard.models import ngram, ngram_scoring
from regard.models.ngram import Ngram
from regard.probabilities.measures import read_examples, token_losses
from regard.tokens import lookup, word_table, words
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.contract import Encoded
from regard.tokens.lookup import FACTORS, Lookup
from regard.tokens.word_table import WordTable
from regard.tokens.words import END, FIRST, UNKNOWN, WordTokenizer
from regard.verbs import score

TEXT = "the cat sat on the mat\nthe dog sat on the log\na cat and a dog\n"
TEXT += "the cat saw the dog on a mat\n\nthe the the\n"
OTHER = "a cat sat on the log\nthe mat and the cat\n\nunheard dog the the the the\nthe cat sat on the mat"
INVERSE = pow(FACTORS[0], -1, 1 << 64)  # of a product of 64 bits


def as_int64(numbers: list[int]) -> np.ndarray:
    return np.array([number % (1 << 64) for number in numbers], np.uint64).view(np.int64)


def check_lookup(keys: list[int], others: list[int]) -> None:
    table = Lookup(as_int64(keys))
    places = {key: place for place, key in enumerate(as_int64(keys).tolist())}
    wanted = as_int64([*others, *keys])
    hit_N, place_N = table.find(wanted)
    assert hit_N.tolist() == [key in places for key in wanted.tolist()]
    assert place_N[hit_N].tolist() == [places[key] for key in wanted.tolist() if key in places]


@given(st.sets(st.integers(-40, 40) | st.integers(-(1 << 63), (1 << 63) - 1)), st.lists(st.integers(-40, 40)))
def test_a_lookup_finds_the_place_of_each_key(keys: set[int], others: list[int]):
    check_lookup(list(keys), others)


@pytest.mark.parametrize("levels", [1, 2, 3])
def test_a_lookup_finds_keys_whose_homes_are_the_same(levels: int, monkeypatch):
    # The home of a key is the highest bits of key x factor. Here the products are consecutive numbers, so
    # all keys have one home in the levels with this factor: a level has a slot for one key only.
    monkeypatch.setattr(lookup, "FACTORS", FACTORS[:1] * levels + FACTORS[levels:])
    keys = [INVERSE * number for number in range(101)]
    check_lookup(keys, [INVERSE * number for number in range(101, 151)])


def test_a_lookup_takes_8_to_20_bytes_a_key(monkeypatch):
    monkeypatch.setattr(lookup, "AT_A_TIME", 17)
    for size in (64, 65, 1009):
        check_lookup([7 * key for key in range(size)], [7 * key + 1 for key in range(size)])
        assert 8 * size <= Lookup(7 * np.arange(size)).bytes <= 20 * size


LETTERS = "abé中\U0001f600\u00a0\x1c"
BLANKS = " \t\n\r\v\f"


@given(
    st.sets(st.text(LETTERS, min_size=1, max_size=9), min_size=1),
    st.text(LETTERS + BLANKS, max_size=60),
    st.data(),
)
def test_the_ids_of_a_text_are_those_of_its_words(vocabulary: set[str], text: str, data):
    known = st.lists(st.sampled_from(sorted(vocabulary)) | st.sampled_from(sorted(BLANKS)))
    text = " ".join([text, *data.draw(known)])
    known_words = [word.encode() for word in sorted(vocabulary)]
    ids = {word: FIRST + place for place, word in enumerate(known_words)} | {b"\0": END}
    expected = [ids.get(word, UNKNOWN) for word in text.encode().replace(b"\n", b" \0 ").split()]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(word_table, "CHUNK", 13)
        table = WordTable(
            [*known_words, b"\0"], np.array([*range(FIRST, FIRST + len(known_words)), END]), UNKNOWN
        )
        assert table.ids(text.encode(), b"\0").tolist() == expected


def test_long_words_and_their_beginnings_are_different_words():
    whole = b"abcdefghijklmnopqrstuvw"  # 23 letters: pieces of 8, 4, 4, 4 and 3
    vocabulary = [whole[:size] for size in range(1, 24, 2)]
    table = WordTable(vocabulary, np.arange(FIRST, FIRST + 12), UNKNOWN)
    text = [whole[:size] for size in range(1, 24)] + [whole + b"x", b"abcdefgX", b"abcdefghiX", b"Xbcdefghi"]
    expected = [FIRST + size // 2 if size % 2 else UNKNOWN for size in range(1, 24)] + [UNKNOWN] * 4
    assert table.ids(b" ".join(text), b"\0").tolist() == expected


@pytest.mark.parametrize("document", ["file", "line", "blank"])
@pytest.mark.parametrize("text", [TEXT, "a b", "a b\n", "\n", "\n\na\n\n\nb c", "a\r\nb\n \n"])
def test_a_text_is_encoded_as_its_documents_are(document: str, text: str, monkeypatch):
    monkeypatch.setattr(words, "CHUNK", 3)
    tokenizer, trained = train_tokenizer([text], TokenOptions(tokens="word", document=document))
    encoded = tokenizer.encode(text)
    documents = words_of_documents(tokenizer, text)
    assert encoded.ids_N.tolist() == trained.ids_N.tolist() == [*chain.from_iterable(documents)]
    assert encoded.ends_D.tolist() == trained.ends_D.tolist() == np.cumsum([*map(len, documents)]).tolist()
    assert (encoded.bytes, encoded.unknown) == (len(text), 0)


def words_of_documents(tokenizer: WordTokenizer, text: str) -> list[list[int]]:
    ids = {word: FIRST + place for place, word in enumerate(tokenizer.words)}
    lines = (text if text.endswith("\n") else text + "\n").split("\n")[:-1]
    read = [[*(ids[word] for word in line.encode().split()), END] for line in lines]
    if tokenizer.document == "line":
        return read
    if tokenizer.document == "file":
        return [[*chain.from_iterable(read)]]
    documents, blank = [[]], False
    for line, of_line in zip(lines, read, strict=True):  # a document begins after blank lines
        if blank and line.strip(" \t\r"):
            documents.append([])
        blank = not line.strip(" \t\r") and bool(documents[-1])
        documents[-1] += of_line
    return documents


def by_rows(model: Ngram, text: Encoded) -> torch.Tensor:
    """-log P of every token, by the search in the sorted keys."""
    nll_N = torch.full((len(text),), float("nan"), dtype=torch.float64)
    for rows, prediction in read_examples(model, text):
        scored_BT = rows.places_BT >= 0
        nll_N[rows.places_BT[scored_BT]] = prediction.nll(rows.targets_BT)[scored_BT].double()
    return nll_N


def check_equal(model: Ngram, text: Encoded, monkeypatch) -> None:
    monkeypatch.setattr(ngram, "NGRAMS_PER_TOKEN", 10**9)
    expected = by_rows(model, text)
    for chunk in (1, 5, 1 << 16):
        monkeypatch.setattr(ngram_scoring, "CHUNK", chunk)
        whole = model.losses_of_text(text)
        assert whole is not None
        assert torch.equal(torch.cat([*whole]), expected)
    assert torch.equal(token_losses(model, text), expected)


@pytest.mark.parametrize("document", ["file", "line", "blank"])
@pytest.mark.parametrize("order", [1, 2, 3, 5, 11])
@pytest.mark.parametrize(
    "options",
    [{}, {"smoothing": "maximum-likelihood"}, {"smoothing": "add-k"}, {"prune": (0, 1)}],
)
def test_a_text_is_scored_as_its_rows_are(document: str, order: int, options: dict, monkeypatch):
    tokenizer, trained = train_tokenizer([TEXT], TokenOptions(tokens="word", document=document))
    model = Ngram(tokenizer.size, Ngram.Config(order=order, **options))
    model.fit(trained)
    # In one document, "the" follows "mat" and the line's end; here it begins the next document.
    check_equal(model, tokenizer.encode_texts([OTHER, TEXT]), monkeypatch)


@pytest.mark.usefixtures("double")
def test_a_text_is_scored_in_double_precision(monkeypatch):
    tokenizer, trained = train_tokenizer([TEXT], TokenOptions(tokens="word"))
    model = Ngram(tokenizer.size, Ngram.Config(order=3))
    model.fit(trained)
    assert model.get_buffer("log_prob_3").dtype == torch.float64
    check_equal(model, tokenizer.encode(OTHER), monkeypatch)


def test_ids_of_a_mapped_text_are_scored(monkeypatch):
    tokenizer, trained = train_tokenizer([TEXT], TokenOptions(tokens="char"))
    model = Ngram(tokenizer.size, Ngram.Config(order=5))
    model.fit(trained)
    released = list[bool]()
    ids_N = trained.ids_N.to(torch.uint16)  # as in a shard
    text = Encoded(ids_N, trained.ends_D, trained.bytes, 0, lambda: released.append(True))
    check_equal(model, text, monkeypatch)
    assert len(released) > len(text)


def test_an_ngram_without_its_shorter_ngrams_is_scored(tmp_path, monkeypatch):
    """Pruned ARPA files of other tools hold "a b a" without "b a"."""
    (tmp_path / "model.arpa").write_text(
        "\\data\\\nngram 1=5\nngram 2=1\nngram 3=1\n\n\\1-grams:\n-99\t<s>\t-0.3\n-0.5\t</s>\n-1\t<unk>\n"
        "-0.5\ta\t-0.2\n-0.6\tb\t-0.1\n\n\\2-grams:\n-0.1\ta b\t-0.4\n\n\\3-grams:\n-0.05\ta b a\n\n\\end\\\n"
    )
    run = regard.load(tmp_path / "model.arpa")
    text = run.tokenizer.encode("a b a b a\nb a b b\n")
    check_equal(run.language_model, text, monkeypatch)
    # a | <s>: -0.3 - 0.5; b | a: -0.1; a | a b: -0.05
    expected = np.array([-0.8, -0.1, -0.05]) * np.log(10)
    assert (-token_losses(run.language_model, text))[:3].tolist() == pytest.approx(expected, rel=1e-6)


def test_hash_tables_are_made_when_they_pay(monkeypatch):
    tokenizer, trained = train_tokenizer([TEXT], TokenOptions(tokens="word", document="line"))
    model = Ngram(tokenizer.size, Ngram.Config(order=3))
    model.fit(trained)
    text = tokenizer.encode("the cat\n")  # three tokens
    ngrams = sum(len(model.get_buffer(f"key_{order}")) for order in (2, 3))
    monkeypatch.setattr(
        ngram, "NGRAMS_PER_TOKEN", ngrams // 7
    )  # so that seven tokens are too few, nine enough
    assert [model.losses_of_text(text) is None for _ in range(2)] == [True, True]
    monkeypatch.setattr(ngram, "usable_memory", lambda: 80 * ngrams - 1)  # a quarter of it is not enough
    assert model.losses_of_text(text) is None
    monkeypatch.setattr(ngram, "usable_memory", lambda: 80 * ngrams)
    assert model.losses_of_text(text) is not None
    model.take([])
    assert model._lookups is None


@pytest.mark.parametrize("at_a_time", [1, 2, 5, 1 << 16])
def test_what_is_printed_is_what_the_documents_hold(at_a_time: int, tmp_path, monkeypatch, capsys):
    (tmp_path / "text").write_text(TEXT)
    (tmp_path / "other").write_text(OTHER)
    options = {"document": "line", "hold": 0, "order": 3, "smoothing": "maximum-likelihood"}
    regard.train("ngram", text=str(tmp_path / "text"), out=str(tmp_path / "run"), **options)
    files = [str(tmp_path / "run"), "--text", str(tmp_path / "other"), str(tmp_path / "text")]
    monkeypatch.setattr(score, "AT_A_TIME", at_a_time)
    capsys.readouterr()

    def printed(*more: str) -> str:
        score.main([*files, *more])
        return capsys.readouterr().out

    for explain in (False, True):
        more = ["--explain"] if explain else []
        documents = [*regard.score(files[0], files[2:], explain=explain)]
        assert [len(document) for document in documents] == [7, 6, 1, 7, 7, 7, 7, 6, 9, 1, 4]
        log_probs = [[token.log_prob for token in document] for document in documents]
        assert -math.inf in log_probs[3]  # the first unheard word
        as_json = [[token.to_json() for token in document] for document in documents]
        assert json.loads(printed(*more, "--json")) == {"documents": as_json}
        lines = [line.split("\n") for line in printed(*more).removesuffix("\n\n").split("\n\n")]
        tokens = [[f"{one.token}\t{one.log_prob:.6f}" for one in document] for document in documents]
        assert [[line for line in own if "\t" in line] for own in lines] == tokens
        assert [len(own) for own in lines] == [len(own) * (1 + 4 * explain) for own in tokens]
    totals = [*regard.score(files[0], files[2:]).totals()]
    assert [total.log_prob for total in totals] == pytest.approx([sum(own) for own in log_probs], rel=1e-12)
    assert [total.tokens for total in totals] == [len(own) for own in log_probs]
    assert json.loads(printed("--totals", "--json")) == {"documents": [total.to_json() for total in totals]}
    assert printed("--totals") == "".join(f"{total.log_prob:.6f}\t{total.tokens}\n" for total in totals)
    rows = regard.score(files[0], files[2:], totals=True).rows()
    assert rows == [{"document": number, **total.to_json()} for number, total in enumerate(totals)]


def test_totals_have_no_terms_to_explain(tmp_path):
    with pytest.raises(UserError, match="leave out one of them"):
        regard.score(str(tmp_path), totals=True, explain=True)


def test_words_that_no_text_holds_are_never_found():
    """Vectors of other tools may have them. A zero byte stands for the end of a line."""
    tokenizer = WordTokenizer([b"", b"\0", b"a\0", b"a\0long word", b"b"], "line")
    assert tokenizer.prompt("a b") == [1, 6]
    assert tokenizer.encode("a\nb\n").ids_N.tolist() == [1, 0, 6, 0]
