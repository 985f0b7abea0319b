"""Several ranks train the model that one process trains, and stop together."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from ranked import train_in_double, train_on_ranks
from safetensors.torch import load_file
from trainings import TEXT

import regard
from regard.errors import UserError
from regard.machine.device import Machine
from regard.machine.ranks import ALONE, RANKS, Joined, Ranks
from regard.tokens.choose import TokenOptions, train_tokenizer
from regard.tokens.schedule import Corpus, LaneSchedule, WindowSchedule
from regard.training.tasks.plain_text import TextBatches

TRAINED = {
    "steps": 20,
    "evaluate_every": 20,
    "precision": "fp32",
    "dropout": 0.0,
    "width": 12,
}
CHARACTERS = {**TRAINED, "text": "text.txt", "tokens": "char", "document": "line", "batch": 6, "layers": 1}
WINDOWS = {**CHARACTERS, "context": 17, "heads": 2}
LANES = {**CHARACTERS, "segment": 7}
PAIRS = {**TRAINED, "pairs": "pairs.tsv", "batch_tokens": 90}
# The options of one process. Each of N ranks has an Nth of `batch`, `batch_tokens`.
JOBS: dict[str, dict[str, Any]] = {
    "lstm": {**LANES, "family": "lstm"},
    "lstm-muon": {**LANES, "family": "lstm", "optimiser": "muon", "accumulate": 2},
    "transformer": {**WINDOWS, "family": "transformer", "copy": "gate"},
    "recurrent-translator": {**PAIRS, "family": "recurrent-translator"},
    "classifier": {
        **TRAINED,
        "family": "classifier",
        "labelled": "labels.tsv",
        "batch": 6,
        "word_dropout": 0.3,
    },
}
MORE: dict[str, dict[str, Any]] = {
    "dan": {**LANES, "family": "dan", "lookback": 3},
    "window": {**LANES, "family": "window", "window": 3},
    "gru": {**LANES, "family": "gru"},
    "rnn-sgd": {**LANES, "family": "rnn", "optimiser": "sgd", "learning_rate": 1.0, "weight_decay": 0.0},
    "attentive": {**LANES, "family": "attentive", "lookback": 5},
    "backpack": {**WINDOWS, "family": "backpack", "senses": 2},
    "transformer-translator": {**PAIRS, "family": "transformer-translator", "heads": 2},
    "transformer-captioner": {
        **TRAINED, "family": "transformer-captioner", "features": "regions.npz", "captions": "captions.tsv",
        "batch": 6, "heads": 2,
    },
    "reader": {**TRAINED, "family": "reader", "text": "text.txt", "context": 17, "batch": 6},
    "embedding": {
        "family": "embedding", "steps": 20, "text": "text.txt", "width": 6, "batch": 4, "segment": 3,
        "cutoff": 1,
    },
}  # fmt: skip


@pytest.fixture
def folder(tmp_path, monkeypatch) -> Path:
    """A folder with a text, pairs and labelled texts of uneven lengths."""
    (tmp_path / "text.txt").write_text(TEXT)
    pairs = (f"line {n} {'says ' * (n % 7)}a b\tb a {'says ' * (n % 5)}{n} line\n" for n in range(61))
    (tmp_path / "pairs.tsv").write_text("".join(pairs))
    labels = (
        f"{'good' if n % 3 else 'bad'}\tthe {'very ' * (n % 7)}{n % 5} {n % 3} end\n" for n in range(47)
    )
    (tmp_path / "labels.tsv").write_text("".join(labels))
    regions = np.random.default_rng(5).normal(size=(47, 3, 5))
    np.savez(tmp_path / "regions.npz", **{str(n): regions[n, : 1 + n % 3] for n in range(47)})
    captions = (f"{n}\ta {'very ' * (n % 7)}nice scene {n % 5}\n" for n in range(47))
    (tmp_path / "captions.tsv").write_text("".join(captions))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def share(options: dict[str, Any], ranks: int) -> dict[str, Any]:
    """The options of each of N ranks that read together what one process reads."""
    sizes = {name: value // ranks for name, value in options.items() if name in ("batch", "batch_tokens")}
    return {**options, **sizes}


def distance(one: Path, other: Path) -> float:
    """The largest difference of two runs' weights."""
    weights, others = (load_file(run / "model.safetensors") for run in (one, other))
    return max(float((weights[name] - others[name]).abs().max()) for name in weights)


def losses(run: Path) -> list[float]:
    rows = [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]
    return [row[name] for row in rows for name in ("train_loss", "valid_loss") if row[name] is not None]


@pytest.mark.parametrize(("ranks", "jobs"), [(2, JOBS | MORE), (3, JOBS)], ids=["2", "3"])
def test_ranks_train_the_model_of_one_process(folder, ranks, jobs):
    """20 steps add up some 20 rounding errors of 1e-16, of numbers below 10, amplified by the training."""
    train_in_double({f"{name}-1": options for name, options in jobs.items()})
    train_on_ranks(
        ranks, {f"{name}-{ranks}": share(options, ranks) for name, options in jobs.items()}, folder
    )
    for name in jobs:
        one, several = (folder / f"{name}-{count}" for count in (1, ranks))
        assert distance(one, several) < 1e-9, name
        assert losses(several) == pytest.approx(losses(one), abs=1e-9), name
        assert {path.name for path in one.iterdir()} == {path.name for path in several.iterdir()}


def test_a_training_goes_on_with_another_number_of_ranks(folder):
    """6 lanes are divided anew: from 3 ranks to 2, and to one process."""
    jobs = {name: {**(JOBS | MORE)[name], "evaluate_every": 10} for name in ("lstm", "attentive")}
    stopped = {
        f"{name}-{to}": share(options, 3) | {"stop": 10} for name, options in jobs.items() for to in (1, 2)
    }
    resumed = {name: {"family": options["family"], "resume": True} for name, options in jobs.items()}
    train_on_ranks(3, stopped, folder)
    train_in_double(jobs | {f"{name}-1": options for name, options in resumed.items()})
    train_on_ranks(2, {f"{name}-2": options for name, options in resumed.items()}, folder)
    for name in jobs:
        for to in (1, 2):
            assert distance(folder / name, folder / f"{name}-{to}") < 1e-9, (name, to)
            assert losses(folder / f"{name}-{to}") == pytest.approx(losses(folder / name), abs=1e-9)


def test_all_ranks_have_the_clock_of_rank_0(folder):
    """With clocks of their own, the ranks would have other learning rates and end at other steps."""
    options = {name: value for name, value in JOBS["lstm"].items() if name != "steps"}
    train_on_ranks(2, {"timed": {**options, "minutes": 0.01, "fast": True}}, folder)
    seconds = json.loads((folder / "timed" / "timing.jsonl").read_text().splitlines()[-1])["seconds"]
    assert seconds >= 0.6


@pytest.mark.parametrize("kind", [WindowSchedule, LaneSchedule])
@pytest.mark.parametrize("count", [2, 3, 5])
def test_every_token_is_read_by_one_rank(kind, count):
    tokenizer, text = train_tokenizer([TEXT], TokenOptions(tokens="char", document="line"))
    schedule = kind(text, 11, 7, seed=5)
    corpus = Corpus.of(text, tokenizer.start, torch.device("cpu"))

    def batches(ranks: Ranks) -> TextBatches:
        return TextBatches(
            schedule, corpus, tokenizer.padding, Machine(torch.device("cpu"), False, 1.0, 1, ranks)
        )

    whole, parts = batches(ALONE), [batches(Joined(rank, count, 1, lifeline=None)) for rank in range(count)]
    for step in range(whole.steps(0)):
        batch, own = whole.batch(0, step), [part.batch(0, step) for part in parts]
        assert {(part.weight, part.tokens) for part in own} == {(batch.weight, batch.tokens)}
        for name, rows in batch.inputs.items():
            for place, row in enumerate(rows):
                assert torch.equal(own[place % count].inputs[name][place // count], row)
        assert sum(len(part.fresh_B) for part in own) == len(batch.fresh_B)


def test_a_rank_without_a_row_repeats_one_that_does_not_count():
    ranks = Joined(4, 5, 1, lifeline=None)
    rows = torch.arange(3)
    assert ranks.own(rows).tolist() == [0]
    assert not ranks.reads(3)
    with pytest.raises(UserError, match="a step has 3 rows, fewer than the 5 ranks"):
        ranks.rows(3)


def test_counting_is_refused_before_anything_is_written(tmp_path):
    ranks = RANKS.set(Joined(0, 2, 2, lifeline=None))
    with pytest.raises(UserError, match="ngram is not trained by descent: start it without torchrun"):
        regard.train("ngram", out=tmp_path / "run")
    RANKS.reset(ranks)
    assert not list(tmp_path.iterdir())
