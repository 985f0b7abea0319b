"""regard bench: interleaved speeds, their ratios, and growth that is counted."""

import pytest
import torch

import regard
from regard.benchmarks import contests
from regard.benchmarks.growth import _counting, _training_step
from regard.benchmarks.limits import Limits
from regard.machine import timing


def test_ways_take_turns_and_a_ratio_is_that_of_a_pass():
    now, order = [0.0], []
    loads = iter([1, 1, 2, 2, 5, 5])  # the load of the machine, the same for both ways of a pass

    def way(name, seconds):
        def work():
            order.append(name)
            now[0] += seconds * next(loads)
            return 6.0

        return work

    speeds = timing.interleaved(
        {"fast": way("fast", 1.0), "slow": way("slow", 3.0)}, passes=2, clock=lambda: now[0]
    )
    assert order == ["fast", "slow"] * 3
    assert speeds.passes == {"fast": [3.0, 1.2], "slow": [1.0, pytest.approx(0.4)]}
    ratio = speeds.ratio("fast", "slow")
    assert (ratio.low, ratio.median, ratio.high) == pytest.approx((3.0, 3.0, 3.0))


def test_a_benchmark_has_ours_the_peer_and_the_limit():
    figures = regard.bench("evaluate", passes=1)
    (row,) = figures.rows()
    assert row["ratio"] == pytest.approx(row["ours"] / row["peer"])
    assert row["unit"] == "tokens/s"
    weights = contests.Transformer(contests.SYMBOLS, contests.Transformer.Config(layers=contests.LAYERS))
    expected = figures.limits["operations"] / (2 * sum(each.numel() for each in weights.parameters()))
    assert row["limit"] == pytest.approx(expected)
    assert regard.bench.__doc__ is not None


def test_a_peer_that_is_not_installed_is_absent(monkeypatch, capsys):
    monkeypatch.setattr(contests, "find_spec", lambda name: None)
    monkeypatch.setattr(contests, "hugging_face", lambda *sizes: None)
    limits = Limits(1e9, 1e9, 1e9)
    assert contests.look(limits).peer is None
    assert contests.generate_rows(1)(limits).peer is None


def test_an_untied_embedding_does_not_multiply():
    model = torch.nn.Sequential(torch.nn.Embedding(7, 5), torch.nn.Linear(5, 3, bias=False))
    assert contests._weights(model) == 7 * 5 + 5 * 3
    assert contests._weights(model, tied=False) == 5 * 3


def test_memory_of_a_step_is_counted():
    """Activations are proportional to the batch; weights that are kept are the same for every batch."""
    kept = {size: _training_step("lstm", "batch", size).bytes for size in (1, 2, 3)}
    assert kept[3] - kept[2] == kept[2] - kept[1] > 0


def test_more_words_make_larger_tables():
    assert _counting(1 << 9).bytes < _counting(1 << 11).bytes


def test_an_unknown_name_is_one_line():
    with pytest.raises(regard.UserError, match=r"no benchmark 'trian'; choose from train-transformer"):
        regard.bench("trian")
