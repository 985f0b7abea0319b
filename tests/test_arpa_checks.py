"""ARPA files from outside: impossible numbers are refused when the file is read, and named by line."""

import gzip
import math
import warnings
from pathlib import Path

import pytest
import torch

import regard
from regard.errors import Notice, UserError

UNIGRAMS = {"</s>": -0.5, "<unk>": -1.0, "a": -0.6, "b": -0.7}


def write(folder: Path, *changes: tuple[str, str], name: str = "model.arpa") -> Path:
    """A file of order 2 whose probabilities after every context sum to one, with lines replaced.

    The backoff of a context is (1 - sum of the probabilities after it) / (1 - sum of the same words below).
    """
    below = {word: 10**number for word, number in UNIGRAMS.items()}
    rest = 1 - sum(below.values())
    below["b"] += rest  # so that the 1-grams sum to one
    after_a = {"b": 0.3, "</s>": 0.1}
    backoff = math.log10((1 - sum(after_a.values())) / (1 - sum(below[word] for word in after_a)))
    lines = ["\\data\\", "ngram 1=5", "ngram 2=2", "", "\\1-grams:", "-99\t<s>\t0"]
    for word, probability in below.items():
        lines.append(f"{math.log10(probability):.9f}\t{word}" + (f"\t{backoff:.9f}" if word == "a" else ""))
    lines += ["", "\\2-grams:", *(f"{math.log10(p):.9f}\ta {word}" for word, p in after_a.items())]
    text = "\n".join([*lines, "", "\\end\\", ""])
    for old, new in changes:
        assert old in text
        text = text.replace(old, new)
    (folder / name).write_text(text)
    return folder / name


def after_a(run: regard.Run) -> torch.Tensor:
    ids = torch.tensor([run.tokenizer.prompt("a")])
    return run.model.read_from_start(ids)[0].log_probs()[0, -1].exp()


def test_a_backoff_above_one_is_right_where_the_sum_is_one(tmp_path: Path):
    run = regard.load(write(tmp_path))
    assert float(run.model.get_buffer("backoff_1").max()) > 0.1  # e to its power: the backoff is above one
    torch.testing.assert_close(after_a(run).sum(), torch.tensor(1.0))


LINE_A = "\ta\t"


@pytest.mark.parametrize(
    ("old", "new", "message"),
    [
        ("-0.600000000\ta", "300\ta", "line 9: '300' is above 0"),
        ("-0.600000000\ta", "nan\ta", "line 9: 'nan' is not a number"),
        ("-0.600000000\ta", "inf\ta", "line 9: 'inf' is not a number"),
        ("-0.600000000\ta", "-inf\ta", "line 9: '-inf' is not a number"),
        ("-0.600000000\ta", "-1e999\ta", "line 9: '-1e999' is not a number"),
        ("-0.600000000\ta", f"-{'9' * 50}\ta", "is not a number"),
        ("-0.600000000\ta", "-0.1\ta", "the probabilities of the 1-grams sum to"),
        ("\ta\t", "\ta\t1", "line 9: the probabilities after this n-gram sum to"),
        ("\ta\t", "\ta\tnan ", "expected a number"),
        ("-0.522878745\ta b", "-0.01\ta b", "line 9: the probabilities after this n-gram sum to"),
        ("-0.522878745\ta b", "0.5\ta b", "line 13: '0.5' is above 0"),
        ("ngram 2=2", "ngram 2=2000000000000000000000000", "expected 'ngram 2=COUNT'"),
        ("ngram 2=2", "ngram 2=999999999999", "line 15: expected a number"),
        ("\tb\n", f"\t{'b' * (1 << 20)}\n", "more than 1,048,576 bytes"),
        ("\\data\\", "\\data\\" + " " * (1 << 20), "more than 1,048,576 bytes"),
    ],
)
def test_impossible_numbers_name_their_line(tmp_path: Path, old: str, new: str, message: str):
    path = write(tmp_path, (old, new))
    with pytest.raises(UserError) as error:
        regard.load(path)
    assert "model.arpa, line " in str(error.value)
    assert message in str(error.value)


def test_other_encodings_and_zero_bytes_name_their_line(tmp_path: Path):
    path = write(tmp_path)
    for letter, message in ((b"\xe9", "line 10: a word is not UTF-8"), (b"\0", "zero byte")):
        (tmp_path / "other.arpa").write_bytes(path.read_bytes().replace(b"\tb\n", b"\t" + letter + b"\n"))
        with pytest.raises(UserError, match=message):
            regard.load(tmp_path / "other.arpa")


def test_what_a_file_lacks_is_said_when_it_is_opened(tmp_path: Path):
    nothing_follows_b = write(tmp_path, ("\tb\n", "\tb\t0.2\n"), name="after.arpa")
    with pytest.warns(Notice, match="line 10 has a backoff above 0 where nothing follows"):
        regard.load(nothing_follows_b)
    without = write(tmp_path, ("-1.000000000\t<unk>\n", ""), ("ngram 1=5", "ngram 1=4"))
    with pytest.warns(Notice, match="holds no <unk>"):
        run = regard.load(without)
    (tmp_path / "text").write_text("zebra\n")
    measure = regard.evaluate(run, tmp_path / "text")
    assert (measure.loss, measure.zero_tokens, measure.unknown_tokens) == (None, 1, 1)


def test_the_content_tells_an_arpa_file_not_its_name(tmp_path: Path):
    path = write(tmp_path)
    (tmp_path / "model.lm").write_bytes(path.read_bytes())
    (tmp_path / "model").write_bytes(b"made by hand\n\n" + path.read_bytes())
    (tmp_path / "model.lm.gz").write_bytes(gzip.compress(path.read_bytes()))
    (tmp_path / "not-gzip.arpa.gz").write_bytes(path.read_bytes())
    expected = after_a(regard.load(path))
    for name in ("model.lm", "model", "model.lm.gz", "not-gzip.arpa.gz"):
        assert torch.equal(after_a(regard.load(tmp_path / name)), expected)
    (tmp_path / "text.txt").write_text("a b\n")
    with pytest.raises(UserError, match="not a run"):
        regard.load(tmp_path / "text.txt")


def test_export_says_when_the_figures_will_change(tmp_path: Path):
    (tmp_path / "text").write_text("a b a\nb a b\n" * 5)
    options = {"order": 2, "hold": 0, "text": str(tmp_path / "text")}
    for document in ("file", "blank"):
        run = regard.train("ngram", out=str(tmp_path / document), document=document, **options).run
        with pytest.warns(Notice, match=f"each line as a document .* {document}: its figures change"):
            regard.export(run, tmp_path / f"{document}.arpa")
    run = regard.train("ngram", out=str(tmp_path / "line"), document="line", **options).run
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        regard.export(run, tmp_path / "line.arpa")
    ours, theirs = (regard.evaluate(one, tmp_path / "text").loss for one in (run, tmp_path / "line.arpa"))
    assert theirs == pytest.approx(ours, rel=1e-6)
