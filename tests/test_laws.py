"""The laws, over every family: in float64 at 1e-10, and in float32 within a budget.

Shape legend: B rows, T positions, V vocabulary.
"""

import dataclasses
import itertools

import pytest
import torch
from families import MODELS, V
from hypothesis import given
from hypothesis import strategies as st
from safetensors.torch import load, save
from torch import Tensor

from regard.models import FAMILIES, TRANSLATORS
from regard.models.contract import LanguageModel

EXACT = 1e-10  # float64: some hundred operations on numbers of order one, at 2e-16 each, with room for exp and log
START, PADDING = V, V + 1

TEXTS = st.lists(st.integers(0, V - 1), min_size=1, max_size=17)


@pytest.fixture(params=MODELS)
def model(request, double) -> LanguageModel:
    return MODELS[request.param]()


def row(ids: list[int]) -> Tensor:
    return torch.tensor([[START, *ids]])


def close(first: Tensor, second: Tensor) -> None:
    torch.testing.assert_close(first, second, rtol=EXACT, atol=EXACT)


def test_every_family_stands_under_the_laws():
    assert set(FAMILIES | TRANSLATORS) <= {make().family for make in MODELS.values()}


@given(ids=TEXTS)
def test_probabilities_sum_to_one(model: LanguageModel, ids: list[int]):
    prediction, _ = model(row(ids))
    log_probs_BTV = prediction.log_probs()
    assert log_probs_BTV.shape == (1, len(ids) + 1, V)
    close(log_probs_BTV.exp().sum(2), torch.ones(1, len(ids) + 1))


def test_probabilities_sum_to_one_in_single_precision(model: LanguageModel):
    ids = [3, 1, 4, 1, 5, 9, 2, 6]
    log_probs_BTV = model.float()(row(ids))[0].log_probs()
    # V float32 terms, each with a relative error of some 2^-24 from exp, log and the sum's own rounding
    torch.testing.assert_close(log_probs_BTV.exp().sum(2), torch.ones(1, len(ids) + 1, dtype=torch.float32), rtol=0, atol=V * 2**-21)


@given(ids=TEXTS, cuts=st.lists(st.integers(0, 17), max_size=4))
def test_whole_equals_split(model: LanguageModel, ids: list[int], cuts: list[int]):
    tokens_BT = row(ids)
    whole, whole_state = model(tokens_BT)
    edges = sorted({0, tokens_BT.shape[1], *(min(cut, tokens_BT.shape[1]) for cut in cuts)})
    state, parts = None, []
    for a, b in itertools.pairwise(edges):
        prediction, state = model(tokens_BT[:, a:b], state)
        parts.append(prediction.log_probs())
    close(torch.cat(parts, 1), whole.log_probs())
    assert torch.equal(state.position_B, whole_state.position_B)
    assert int(state.position_B) == len(ids) + 1


@given(ids=TEXTS, place=st.integers(0, 16), other=st.integers(0, V - 1))
def test_the_future_does_not_leak_by_perturbation(model: LanguageModel, ids: list[int], place: int, other: int):
    place = min(place, len(ids) - 1)
    changed = [*ids[:place], other, *ids[place + 1 :]]
    before, after = (model(row(text))[0].log_probs()[:, : place + 1] for text in (ids, changed))
    close(before, after)


def test_the_future_does_not_leak_by_gradient(model: LanguageModel):
    embedded = list[Tensor]()
    for name, module in model.named_modules():
        if isinstance(module, torch.nn.Embedding) and "source" not in name:  # a source is read before: nothing of it is the future
            module.register_forward_hook(lambda module, inputs, output: embedded.append(output))
    if not embedded and not any(True for _ in model.parameters()):
        pytest.skip("a counted model has no gradients")
    ids = [3, 1, 4, 1, 5, 9, 2]
    log_probs_BTV = model(row(ids))[0].log_probs()
    for t in range(len(ids) + 1):
        for gradient in torch.autograd.grad(log_probs_BTV[0, t].square().sum(), embedded, retain_graph=True):
            assert float(gradient[0, t + 1 :].abs().sum()) == 0
            assert float(gradient[0, t].abs().sum()) > 0


@given(texts=st.lists(TEXTS, min_size=2, max_size=5), more=TEXTS, data=st.data())
def test_a_batch_row_equals_that_row_alone(model: LanguageModel, texts: list[list[int]], more: list[int], data: st.DataObject):
    """Padded anywhere, and when the padded batch is continued."""
    longest = max(map(len, texts)) + 1
    padded = []
    for ids in texts:
        tokens = [START, *ids]
        for _ in range(longest - len(tokens)):
            tokens.insert(data.draw(st.integers(0, len(tokens))), PADDING)
        padded.append(tokens)
    batch, state = model(torch.tensor(padded))
    batch_BTV = batch.log_probs()
    more_BTV = model(torch.tensor([more] * len(texts)), state.copy())[0].log_probs()
    for place, ids in enumerate(texts):
        alone, alone_state = model(row(ids))
        real_T = torch.tensor(padded[place]) != PADDING
        close(batch_BTV[place][real_T], alone.log_probs()[0])
        assert int(state.position_B[place]) == int(alone_state.position_B)
        close(more_BTV[place], model(torch.tensor([more]), alone_state)[0].log_probs()[0])


@given(texts=st.lists(TEXTS, min_size=1, max_size=4), data=st.data())
def test_picked_rows_go_on_like_the_rows_they_came_from(model: LanguageModel, texts: list[list[int]], data: st.DataObject):
    rows = data.draw(st.lists(st.integers(0, len(texts) - 1), min_size=1, max_size=5))
    longest = max(map(len, texts))
    tokens_BT = torch.tensor([[START, *ids, *[PADDING] * (longest - len(ids))] for ids in texts])
    _, state = model(tokens_BT)
    more_BT = torch.tensor([[2, 7]] * len(texts))
    expected = model(more_BT, state.copy())[0].log_probs()
    picked = model(more_BT[:1].expand(len(rows), -1), state.pick(torch.tensor(rows)))[0].log_probs()
    close(picked, expected[torch.tensor(rows)])


@given(ids=TEXTS, data=st.data())
def test_nll_loss_and_at_agree_with_log_probs(model: LanguageModel, ids: list[int], data: st.DataObject):
    tokens_BT = row(ids)
    prediction, _ = model(tokens_BT)
    log_probs_BTV = prediction.log_probs().detach()
    # targets that are read next, that are not, and that are left out
    targets = [data.draw(st.sampled_from([token, 0, V - 1, -1])) for token in [*ids, 0]]
    targets_BT = torch.tensor([targets])
    expected = torch.tensor([[-float(log_probs_BTV[0, t, y]) if y >= 0 else 0.0 for t, y in enumerate(targets)]])
    close(prediction.nll(targets_BT), expected)
    real = sum(y >= 0 for y in targets)
    if real and bool(expected.isfinite().all()):
        close(prediction.loss(targets_BT), expected.sum() / real)
    places_BK = torch.tensor([[len(ids), 0]])
    close(prediction.at(places_BK).log_probs(), log_probs_BTV[:, [len(ids), 0]])
    close(
        prediction.at(places_BK).nll(torch.tensor([[V - 1, 0]])),
        -torch.stack([log_probs_BTV[:, -1, V - 1], log_probs_BTV[:, 0, 0]], 1),
    )


def test_gradients_are_finite_also_for_targets_outside_the_context(model: LanguageModel):
    parameters = [parameter for parameter in model.parameters() if parameter.requires_grad]
    if not parameters:
        pytest.skip("a counted model has no gradients")
    tokens_BT = torch.tensor([[START, 1, 2, 1, PADDING], [START, 3, PADDING, PADDING, PADDING]])
    targets_BT = torch.tensor([[1, 2, 1, 10, -1], [9, 10, -1, -1, -1]])
    for smoothing in (0.0, 0.1):
        loss = model(tokens_BT)[0].loss(targets_BT, smoothing=smoothing)
        for gradient in torch.autograd.grad(loss, parameters, allow_unused=True):
            assert gradient is None or bool(gradient.isfinite().all())


def test_saved_and_loaded_is_equal_to_the_bit(model: LanguageModel):
    tokens_BT = row([3, 1, 4, 1, 5, 9, 2, 6])
    if model.config is None:
        pytest.skip("a cache is put on a model when it is measured and never saved")
    again = type(model)(V, model.config)
    again.assign(load(save({name: tensor.contiguous() for name, tensor in model.tensors().items()})))
    assert torch.equal(again.eval()(tokens_BT)[0].log_probs(), model(tokens_BT)[0].log_probs())


def test_padding_alone_changes_nothing(model: LanguageModel):
    _, state = model(row([3, 1]))
    expected = model(torch.tensor([[4]]), state.copy())[0].log_probs()
    _, padded = model(torch.tensor([[PADDING, PADDING]]), state)
    assert int(padded.position_B) == 3
    close(model(torch.tensor([[4]]), padded)[0].log_probs(), expected)


@given(ids=TEXTS)
def test_a_state_of_zeros_is_a_beginning(model: LanguageModel, ids: list[int]):
    if model.family in TRANSLATORS:
        pytest.skip("a translator begins with a source")
    _, state = model(torch.tensor([[START, 1, 2], [START, 3, 4]]))
    begun = state.copy().begin(torch.tensor([True, False]))
    assert begun.position_B.tolist() == [0, 3]
    both = model(torch.tensor([[START, *ids]] * 2), begun)[0].log_probs()
    close(both[0], model(row(ids))[0].log_probs()[0])
    close(both[1], model(torch.tensor([[START, *ids]] * 2), state)[0].log_probs()[1])


def test_training_rows_padded_on_the_right_are_those_rows_alone(model: LanguageModel):
    """The short way that training takes gives the same loss as the long way."""
    tokens_BT = torch.tensor([[START, 1, 2, 1, 5], [START, 3, PADDING, PADDING, PADDING]])
    targets_BT = torch.tensor([[1, 2, 1, 5, 0], [3, 0, -1, -1, -1]])
    expected = model(tokens_BT)[0].loss(targets_BT)
    close(_without_dropout(model.train())(tokens_BT)[0].loss(targets_BT), expected)


def _without_dropout(model: LanguageModel) -> LanguageModel:
    for module in model.modules():
        for name in ("dropout", "config"):
            value = module.__dict__.get(name)
            if name == "dropout" and isinstance(value, float):
                module.dropout = 0.0
            elif name == "config" and getattr(value, "dropout", None) is not None:
                module.config = dataclasses.replace(value, dropout=0.0)
    return model
