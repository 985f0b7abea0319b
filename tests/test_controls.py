"""The controls of doubt: trained on the run's own text, each against what it is known to be."""

import json
from pathlib import Path

import pytest
import torch

import regard
from regard.errors import UserError
from regard.inside.controls import (
    Adversary,
    WithoutContext,
    _divergence_kl,
    read_with_maps,
    run_controls,
    training_text,
)

LINES = "".join(f"the cat{n % 7} saw dog{n % 11} and bird{n % 5} sang\n" for n in range(400))


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("controls")
    (folder / "text.txt").write_text(LINES)
    regard.train(
        "transformer",
        text=str(folder / "text.txt"),
        out=str(folder / "run"),
        tokens="word",
        layers=1,
        width=8,
        heads=2,
        context=13,
        batch=4,
        steps=3,
        evaluate_every=3,
        dropout=0.0,
    )
    return folder


def test_all_controls_are_trained_and_measured(folder):
    results = run_controls(regard.load(folder / "run"), 0.01)
    by_name = {one.name: one for one in results}
    assert len(results) == 8
    itself, uniform = results[0], by_name["uniform weights"]
    assert (itself.divergence, itself.variation) == (pytest.approx(0, abs=1e-6), pytest.approx(0, abs=1e-6))
    assert uniform.divergence is not None
    assert all(one.loss > 0 and one.steps > 0 for one in results)
    assert by_name["words alone, mixed by uniform weights"].divergence is None
    json.dumps([one.to_json() for one in results], allow_nan=False)


def test_the_adversarys_loss_is_its_formula(folder):
    run = regard.load(folder / "run")
    torch.manual_seed(1)
    other = type(run.model)(run.model.vocabulary_size, run.model.config).eval()
    tokens = torch.tensor([[run.model.start, 3, 1, 4]])
    targets = torch.tensor([[3, 1, 4, -1]])
    loss, state = Adversary(other, run.model, 0.3)(tokens, targets, None)
    own, own_maps = read_with_maps(other, tokens)
    base, base_maps = read_with_maps(run.model, tokens)
    variation = (own.exp() - base.exp()).abs().sum(2)[0, :3].mean() / 2
    first, second = own_maps["layer0.attention"][0], base_maps["layer0.attention"][0]
    kl = torch.stack(
        [
            (a * (a / b).log()).nan_to_num().sum()
            for a, b in zip(first.flatten(0, 1), second.flatten(0, 1), strict=True)
        ]
    )
    assert loss.item() == pytest.approx(float(3 * (variation - 0.3 * kl.mean()).detach()), rel=1e-4)
    assert state is None
    assert float(_divergence_kl(second[None], second[None]).detach()) == 0


def test_words_alone_see_others_through_the_given_weights_only(folder):
    model = regard.load(folder / "run").model.eval()
    inner = WithoutContext(model, 6, 2, uniform=True)
    tokens = torch.tensor([[model.start, 3, 1, 4], [model.start, 3, 2, 4]])
    with torch.no_grad():
        inner.value.weight.zero_()
        alone = inner(tokens)
    assert torch.equal(alone[0, 3], alone[1, 3])  # the same word, another context, no way in
    assert not torch.equal(alone[0, 2], alone[1, 2])


def test_a_training_text_that_is_gone_is_told(folder, regard_cli):
    run = regard.load(folder / "run")
    assert LINES.startswith("".join(training_text(run)))
    (folder / "text.txt").write_text(LINES.replace("cat", "cow"))
    try:
        shown = regard_cli("doubt", folder / "run", "--text", "the dog1 saw", "--controls")
        assert (shown.returncode, shown.stdout) == (2, "")
        assert "controls need the run's own training text" in shown.stderr
    finally:
        (folder / "text.txt").write_text(LINES)
    with pytest.raises(UserError, match="above 0"):
        run_controls(run, 0)
