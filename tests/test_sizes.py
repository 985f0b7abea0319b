"""Sizes that no machine can hold are refused before their memory is taken, with the figure."""

import resource
import time

import numpy as np
import pytest
import torch
from torch import nn
from trainings import TEXT

import regard
from regard.cli import main
from regard.errors import UserError
from regard.machine import memory
from regard.machine.memory import check_memory, usable_memory
from regard.models import FAMILIES, family_class
from regard.models.building import _counted, build_model
from regard.models.wrappers.neural_cache import NeuralCache
from regard.probabilities.beams import beam_search
from regard.probabilities.measures import token_losses
from regard.tokens import bpe_training, subwords
from regard.tokens.contract import Encoded
from regard.tokens.schedule import LaneSchedule, epoch_generator
from regard.tokens.subwords import SubwordTokenizer

HUGE = 10**30


@pytest.mark.parametrize(
    ("family", "options", "words"),
    [
        ("lstm", {"width": HUGE}, r"`width` must be at most 2147483647"),
        ("transformer", {"context": HUGE}, r"`context` must be at most 2147483647"),
        ("attentive", {"lookback": HUGE}, r"`lookback` must be at most 2147483647"),
        ("lstm", {"batch": HUGE}, r"`batch` must be at most 2147483647"),
        ("lstm", {"accumulate": 10**6}, "`accumulate` must be at most"),
        ("lstm", {"width": 10**6}, r"this lstm with its weights needs at least [\d,]+\.\d GB of memory"),
        ("window", {"window": 10**9}, r"this window with its weights needs at least [\d,]+\.\d GB"),
        ("transformer", {"context": 10**9}, "fewer than the `context` of 1000000000"),
        ("ngram", {"order": 10**6}, "`order` must be at most"),
    ],
)
def test_a_size_is_refused_at_once_and_leaves_nothing(tmp_path, text, family, options, words):
    began, before = time.process_time(), peak()
    with pytest.raises(UserError, match=words):
        regard.train(family, text=text, tokens="char", out=tmp_path / "run", **options)
    assert time.process_time() - began < 10
    assert peak() - before < 1 << 30
    assert not (tmp_path / "run").exists()


def peak() -> int:
    """Bytes of memory that this process had at most."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss << 10


def test_very_many_weights_are_refused():
    """Of a family from outside, whose config has no ranges."""

    def make_many() -> None:
        with _counted("this one"):
            for _ in range(5_001):
                nn.Linear(1, 1)

    with pytest.raises(UserError, match=r"this one has more than 10,000 tensors"):
        make_many()


@pytest.mark.parametrize("family", FAMILIES)
def test_the_check_changes_no_random_number(family):
    kind, sizes = family_class(family), [11] if "translator" in family else []
    torch.manual_seed(1)
    plain, after = kind(13, kind.Config(), *sizes), torch.rand(1)
    torch.manual_seed(1)
    built, again = build_model(kind, 13, kind.Config(), *sizes), torch.rand(1)
    assert after == again
    for name, tensor in plain.state_dict().items():
        assert torch.equal(tensor, built.state_dict()[name])


def test_a_limit_of_the_process_counts():
    before = usable_memory()
    soft, hard = resource.getrlimit(resource.RLIMIT_AS)
    resource.setrlimit(resource.RLIMIT_AS, (before - 4096, hard))
    try:
        assert usable_memory() == before - 4096
        with pytest.raises(UserError, match=r"it needs at least [\d.,]+ GB of memory, and this machine has"):
            check_memory(before, "it")
    finally:
        resource.setrlimit(resource.RLIMIT_AS, (soft, hard))
    check_memory(before, "it")


@pytest.mark.parametrize("count", ["1000000000", str(HUGE)])
def test_texts_that_cannot_be_held_are_not_begun(tmp_path, text, capsys, count):
    regard.train("ngram", text=text, tokens="char", out=tmp_path / "run", order=2)
    assert main(["generate", str(tmp_path / "run"), "--count", count]) == 2
    told = capsys.readouterr()
    assert told.out == ""
    assert told.err.startswith("regard: --count")


def test_the_largest_seed_trains(tmp_path, text):
    seed = 2**63 - 1
    trained = regard.train(
        "lstm", text=text, tokens="char", width=2, steps=1, seed=seed, out=tmp_path / "run"
    )
    assert trained.run.config.seed == seed
    assert epoch_generator(7, 2).initial_seed() == 7 * 1_000_003 + 2  # as before for usual seeds


def test_a_segment_longer_than_the_text_is_the_text():
    encoded = subwords.SubwordTokenizer.train([TEXT], "file", 300).encode(TEXT)
    places = [LaneSchedule(encoded, segment, 2, 1).places(0, 0)[0] for segment in (10**6, 2**31 - 1)]
    assert torch.equal(*places)


MIXED = "The cat's  sat\n\n  on 12 é字中 \t don't… \u2003!? \r\n" * 40


@pytest.mark.parametrize("piece", [1, 7, 100])
def test_a_document_in_pieces_has_the_same_tokens(monkeypatch, piece):
    tokenizer = SubwordTokenizer.train([MIXED], "file", 400)
    whole, ends = tokenizer.encode_documents([MIXED, "", "x"])
    assert tokenizer.decode(whole[: ends[0] - 1]) == MIXED
    monkeypatch.setattr(subwords, "PIECE", piece)
    monkeypatch.setattr(subwords, "BATCH", 50)
    again, again_ends = tokenizer.encode_documents([MIXED, "", "x"])
    assert np.array_equal(whole, again)
    assert np.array_equal(ends, again_ends)


def test_long_lines_and_words_are_learned_in_pieces(monkeypatch):
    usual = SubwordTokenizer.train([MIXED], "file", 400).to_json()
    monkeypatch.setattr(bpe_training, "LINE", 20)
    assert SubwordTokenizer.train([MIXED.replace("\n", " ")], "file", 280).size == 280
    word = "ab" * 10**6  # as one piece, the library needs the square of its length
    began = time.process_time()
    assert SubwordTokenizer.train([word], "file", 300).decode([0]) != ""
    assert time.process_time() - began < 20
    monkeypatch.undo()
    monkeypatch.setattr(bpe_training, "LARGE", 1)  # in a process of its own
    assert SubwordTokenizer.train([MIXED], "file", 400).to_json() == usual


def test_a_beam_whose_scores_do_not_fit_is_refused(monkeypatch):
    model = family_class("lstm")(13, family_class("lstm").Config(width=2, layers=1)).eval()

    def search():
        return beam_search(model, model.begin(1), end=0, beam=7, longest_B=torch.tensor([3]))

    needed = 8 * 7 * 13  # the scores of 7 beams and 13 tokens, twice
    monkeypatch.setattr(memory, "usable_memory", lambda: needed)  # the state needs memory as well
    with pytest.raises(UserError, match=r"`beam` 7 needs at least [\d.]+ GB of memory"):
        search()
    monkeypatch.setattr(memory, "usable_memory", lambda: needed + 10_000)
    assert len(search()[0]) == 7


def test_a_cache_of_any_size_reads_a_text_in_small_calls():
    size, tokens = 2**31 - 1, 331
    torch.manual_seed(1)
    model = family_class("lstm")(13, family_class("lstm").Config(width=5, layers=1)).eval()
    sizes = [NeuralCache(model, size, 0.3, 0.2) for size in (2000, 8192, 16384, size)]
    assert [(cached.batch_tokens, cached.row_tokens) for cached in sizes] == [
        (4096, 1024), (4096, 1024), (2048, 1024), (128, 128)
    ]  # fmt: skip
    ids_N = torch.randint(0, 13, (tokens,), dtype=torch.int32)
    encoded = Encoded(ids_N, torch.tensor([tokens]), tokens, 0)
    whole, large = (token_losses(NeuralCache(model, most, 0.3, 0.2), encoded) for most in (tokens, size))
    assert torch.allclose(whole, large, rtol=0, atol=1e-5)  # sums of at most 331 shares in another order
    with pytest.raises(UserError, match=r"`cache_size` 2147483647 needs at least [\d.,]+ GB"):
        sizes[-1].with_room(sizes[-1].begin(1), 3)


@pytest.mark.parametrize(
    ("name", "family", "length", "words"),
    [
        ("ab", "lstm", 0, "`tests.0` must be 1 or more"),
        ("ab", "lstm", HUGE, "must be at most"),
        ("ab", "lstm", 2**31 - 1, r"`tests` 2147483647 needs at least [\d.,]+ GB"),
        ("ab", "attentive", 10**6, r"`tests` 1000000 needs at least [\d.,]+ GB"),
        ("ab", "transformer", 2000, "transformer reads at most 1100 tokens here, and these are 2002"),
        ("recall", "lstm", 17, "recall asks for at most 16 pairs"),
    ],
)
def test_questions_that_cannot_be_asked_are_refused_before_training(name, family, length, words):
    began = time.process_time()
    with pytest.raises(UserError, match=words):
        regard.puzzle(name, families=[family], steps=10**6, tests=[length])
    assert time.process_time() - began < 10
