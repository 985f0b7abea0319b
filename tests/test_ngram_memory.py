"""n-grams within a memory budget: the same model to the bit, the budget kept, and bad input."""

import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load_file, save_file

import regard
from regard.errors import UserError
from regard.machine import sorting
from regard.machine.columns import Column, TensorFile
from regard.machine.disk import BEGUN
from regard.machine.spill import parse_size
from regard.models import ngram_scoring
from regard.models.ngram import Ngram
from regard.models.ngram_scoring import TablesInFile, TextScorer
from regard.models.ngram_spilled import Packing, windows, write_counts
from regard.models.ngram_streams import FileEstimator
from regard.probabilities.measures import token_losses
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.contract import Encoded

LINES = "the cat sat on the mat\nthe dog sat on the log\na cat and a dog\n"
LINES += "the cat saw the dog on a mat\n\nthe the the\n"
SMOOTHINGS = ["maximum-likelihood", "add-k", "kneser-ney", "modified-kneser-ney"]
MB = 10**6


def in_files(text: Encoded, model: Ngram, folder: Path, rows: int, size: int) -> bytes:
    """The file of a model that is estimated from pieces of `rows` windows and ranges of `size` n-grams."""
    packing = Packing(model.vocabulary_size, model.order)
    ordered = sorting.sort_rows(windows(text, packing, rows), packing.columns, folder, 100 * MB, rows)
    words, tables = write_counts(ordered, packing, folder, torch.int32)
    config, size = model.config, max(size, model.vocabulary_size + 1)
    estimator = FileEstimator(model.vocabulary_size, model._smoothing(), config.prune, folder, size)
    return estimator.estimate(words, tables).read_bytes()


def in_memory(text: Encoded, model: Ngram, path: Path) -> bytes:
    model.fit(text)
    save_file({name: tensor.contiguous() for name, tensor in model.tensors().items()}, path)
    return path.read_bytes()


@pytest.mark.parametrize("document", ["line", "file"])
@pytest.mark.parametrize("order", [1, 2, 3, 5])
@pytest.mark.parametrize(
    ("smoothing", "prune"),
    [*((smoothing, (0,)) for smoothing in SMOOTHINGS), (SMOOTHINGS[-1], (0, 0, 1)), (SMOOTHINGS[-1], (0, 2))],
)
def test_a_model_estimated_in_files_is_that_in_memory(
    tmp_path, document: str, order: int, smoothing: str, prune: tuple[int, ...]
):
    tokenizer, text = train_tokenizer([LINES * 2], TokenOptions(tokens="word", document=document))
    model = Ngram(tokenizer.size, Ngram.Config(order=order, smoothing=smoothing, prune=prune))
    expected = in_memory(text, model, tmp_path / "expected")
    for rows, size in ((7, 1), (13, 19), (1009, 1013)):
        assert in_files(text, model, tmp_path, rows, size) == expected


@given(st.lists(st.lists(st.integers(0, 4), max_size=13), min_size=1, max_size=7), st.integers(1, 4))
def test_any_text_gives_the_same_tables(tmp_path_factory, documents: list[list[int]], order: int):
    """Documents of any length end with token 5; the words 6 and 7 never occur."""
    folder = tmp_path_factory.mktemp("counts")
    ids_N = torch.tensor([token for document in documents for token in (*document, 5)], dtype=torch.int32)
    ends_D = torch.tensor([len(document) + 1 for document in documents]).cumsum(0)
    text, model = Encoded(ids_N, ends_D, 1, 0), Ngram(8, Ngram.Config(order=order))
    expected = in_memory(text, model, folder / "expected")
    assert in_files(text, model, folder, 3, 11) == expected


def test_long_n_grams_take_several_columns(tmp_path):
    """23 words of 5 bits: 12 in the first column, 11 in the second."""
    tokenizer, text = train_tokenizer([LINES], TokenOptions(tokens="word", document="line"))
    assert Packing(tokenizer.size, 23).columns == 2
    model = Ngram(tokenizer.size, Ngram.Config(order=23))
    assert in_files(text, model, tmp_path, 5, 17) == in_memory(text, model, tmp_path / "expected")


@pytest.mark.usefixtures("double")
def test_double_precision_too(tmp_path):
    tokenizer, text = train_tokenizer([LINES], TokenOptions(tokens="word", document="line"))
    model = Ngram(tokenizer.size, Ngram.Config(order=3))
    assert in_files(text, model, tmp_path, 5, 17) == in_memory(text, model, tmp_path / "expected")


def test_the_command_writes_the_same_run(tmp_path):
    plain = regard.train("ngram", order=3, out=str(tmp_path / "plain"))
    small = regard.train("ngram", order=3, memory="8GB", out=str(tmp_path / "small"))
    assert small.run.fingerprint == plain.run.fingerprint
    assert small.loss == plain.loss
    assert regard.load(tmp_path / "small").model.parameter_count() == plain.run.model.parameter_count()
    assert {path.name for path in (tmp_path / "small").iterdir()} == {
        path.name for path in (tmp_path / "plain").iterdir()
    }


def test_a_column_is_read_in_pieces(tmp_path):
    column, draw = Column(tmp_path / "column", torch.long), torch.Generator().manual_seed(1)
    values_G = torch.randint(0, 10**6, (101,), generator=draw).unique()
    for part in values_G.split(29):
        column.append(part)
    place_M = torch.randint(0, len(values_G), (37,), generator=draw)
    for size in (1, 7, 103):
        assert torch.equal(column.take(place_M, size), values_G[place_M])
        assert torch.equal(column.find(values_G[place_M], size), place_M)
        assert torch.equal(torch.cat([part for _, part in column.ranges(size)]), values_G)
    assert len(column.take(place_M[:0], 7)) == 0
    assert column.read(97, 200).tolist() == values_G[97:].tolist()


def test_a_tensor_file_has_the_bytes_of_safetensors(tmp_path):
    tensors = {
        "b": torch.arange(7),
        "a": torch.arange(5).float(),
        "key_10": torch.arange(3),
        "key_2": torch.zeros(0).long(),
    }
    file = TensorFile(tmp_path / "ours", {name: (value.dtype, len(value)) for name, value in tensors.items()})
    for name, value in tensors.items():
        for part in value.split(2):
            file.append(name, part)
    save_file(tensors, tmp_path / "theirs")
    assert (tmp_path / "ours").read_bytes() == (tmp_path / "theirs").read_bytes()
    assert load_file(tmp_path / "ours")["b"].tolist() == tensors["b"].tolist()


@pytest.mark.parametrize(
    ("text", "size"),
    [("4GB", 4 * 10**9), ("1.5 GB", 15 * 10**8), ("800mb", 8 * 10**8), ("2GiB", 2**31), ("1TB", 10**12)],
)
def test_sizes_have_units(text: str, size: int):
    assert parse_size(text) == size


@pytest.mark.parametrize("memory", ["4", "many", "", "-4GB", "4GB of it", "1e3MB"])
def test_a_budget_without_a_unit_is_refused(memory: str):
    with pytest.raises(UserError, match="`memory` must be a number with a unit, such as 800MB"):
        regard.train("ngram", memory=memory)


def test_a_budget_that_is_too_small_says_the_least(tmp_path, regard_cli):
    """Each command is a new process: the resident memory of this one depends on the tests before."""
    command = ("train", "ngram", "--order", "2", "--out", "run", "--memory")
    refused = regard_cli(*command, "10MB")
    least = re.search(r"--memory 10MB is too small .*: give (\S+) or more", refused.stderr)
    assert least is not None, refused.stderr
    assert refused.returncode == 2
    assert not (tmp_path / "run").exists()
    assert regard_cli(*command, least[1]).returncode == 0
    assert regard.load(str(tmp_path / "run")).config.loss


def test_without_duckdb_the_extra_is_named(monkeypatch):
    monkeypatch.setattr(sorting, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'regard\[large\]'"):
        regard.train("ngram", memory="2GB")


def test_families_that_learn_otherwise_have_no_budget():
    with pytest.raises(UserError, match="lstm has no option 'memory'; it belongs to ngram"):
        regard.train("lstm", memory="2GB")


def test_a_full_disk_is_one_line(tmp_path):
    """Files of at most 2 MB, as on a full disk: first DuckDB meets the limit, then our own files."""
    text = tmp_path / "text.txt"
    text.write_text(" ".join(map(str, np.random.default_rng(1).integers(0, 9973, 300_000))))
    code = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (2 << 20,) * 2)\n"
    code += (
        "import runpy; sys.argv = ['regard', *sys.argv[1:]]; runpy.run_module('regard', run_name='__main__')"
    )
    command = ["train", "ngram", "--memory", "2GB", "--text", str(text), "--out", str(tmp_path / "run")]
    done = subprocess.run([sys.executable, "-c", code, *command], capture_output=True, text=True)
    assert done.returncode == 1
    assert done.stderr.splitlines()[-1].startswith(
        f"regard: the disk is full while the text is counted in {tmp_path / 'run'}"
    )
    assert not (tmp_path / "run").exists()


def test_what_a_killed_process_left_is_removed_and_nothing_else(tmp_path):
    out, elsewhere = tmp_path / "run", tmp_path / "elsewhere"
    left, mixed = out / f"{BEGUN}spilled.1.tmp", out / f"{BEGUN}spilled.2.tmp"
    for folder in (left, mixed, elsewhere):
        folder.mkdir(parents=True)
    for file in (left / "key_2", mixed / "part_3.sorted", mixed / "thesis.tex", elsewhere / "key_2"):
        file.write_text("12345678")
    (out / f"{BEGUN}spilled.3.tmp").symlink_to(elsewhere)
    regard.train("ngram", order=2, memory="8GB", out=str(out))
    assert not left.exists()
    assert [path.name for path in mixed.iterdir()] == ["thesis.tex"]
    assert [path.name for path in elsewhere.iterdir()] == ["key_2"]
    assert not list(out.glob(f"{BEGUN}spilled.*[!123].tmp"))  # and nothing of its own stays


@pytest.mark.slow
def test_the_budget_is_kept(tmp_path):
    """Two million words, nearly all n-grams of which are new: 700 MB in memory."""
    text, budget = tmp_path / "text.txt", 480
    text.write_text(" ".join(map(str, np.random.default_rng(1).zipf(1.3, 2_000_000) % 50_021)))
    code = "import resource, regard, sys; regard.train('ngram', hold=0, text=sys.argv[1], out=sys.argv[2], "
    code += "memory=sys.argv[3] or None); print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)"

    def peak(memory: str) -> float:
        command = [sys.executable, "-c", code, str(text), str(tmp_path / f"run{memory}"), memory]
        return int(subprocess.run(command, capture_output=True, text=True, check=True).stdout) / MB

    assert peak("") > budget
    assert peak(f"{budget}MB") <= budget


@pytest.mark.parametrize("order", [1, 2, 5])
@pytest.mark.parametrize("smoothing", SMOOTHINGS)
def test_losses_from_a_file_are_those_of_the_model(tmp_path, order: int, smoothing: str):
    """Random tokens, so that what follows the end of a document also follows inside documents."""
    draw = torch.Generator().manual_seed(1)
    text, other = (
        Encoded(torch.randint(0, 4, (length,), generator=draw), torch.tensor([7, 8, 31, length]), 1, 0)
        for length in (211, 101)
    )
    model = Ngram(6, Ngram.Config(order=order, smoothing=smoothing))
    in_memory(text, model, tmp_path / "model")
    expected = token_losses(model.eval(), other)
    for size in (7, 11, 1009):
        scorer = TextScorer(6, order, TablesInFile(tmp_path / "model", size))
        assert torch.equal(torch.cat([*scorer.losses(other)]), expected)


def test_a_column_says_what_it_does_not_hold(tmp_path):
    column = Column(tmp_path / "column", torch.long)
    column.append(torch.arange(0, 60, 3))
    for size in (1, 7, 103):
        assert column.find(torch.tensor([57, 58, 0, 1, -3, 30, 60]), size).tolist() == [
            19,
            -1,
            0,
            -1,
            -1,
            10,
            -1,
        ]
    assert Column(tmp_path / "none", torch.long).find(torch.tensor([5]), 7).tolist() == [-1]


def test_the_validation_loss_is_measured_from_the_file(tmp_path, monkeypatch):
    """The mapped tensors are not read while the budget holds, and are read afterwards."""
    plain = regard.train("ngram", order=3, out=str(tmp_path / "plain"))
    with monkeypatch.context() as patched:
        patched.setattr(Ngram, "find", None)
        patched.setattr(ngram_scoring, "TablesInMemory", None)
        small = regard.train("ngram", order=3, memory="8GB", out=str(tmp_path / "small"))
    assert small.loss == plain.loss
    assert regard.evaluate(small.run).loss == regard.evaluate(plain.run).loss
