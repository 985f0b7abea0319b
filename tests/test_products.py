"""Linear layers by oneDNN: equal to torch's, in value and gradients, wherever they are used."""

import pytest
import torch
import torch.nn.functional as F

from regard.parts import products

ROWS, INPUTS, OUTPUTS = 37, 17, 41


@pytest.fixture
def onednn(monkeypatch):
    """The choice of a machine on which oneDNN is faster."""
    products.onednn_is_faster()
    if not torch.backends.mkldnn.is_available():
        pytest.skip("this torch contains no oneDNN")
    monkeypatch.setattr(products, "onednn_is_faster", lambda: True)


def case(*rows):
    draw = torch.Generator().manual_seed(3)
    tensors = torch.randn(*rows, INPUTS, generator=draw), torch.randn(OUTPUTS, INPUTS, generator=draw)
    return [tensor.requires_grad_() for tensor in (*tensors, torch.randn(OUTPUTS, generator=draw))]


@pytest.mark.parametrize("rows", [(ROWS,), (2, 3, 7)])
@pytest.mark.parametrize("bias", [True, False])
def test_values_and_gradients_are_those_of_torch(onednn, rows, bias):
    x, weight, b = case(*rows)
    inputs = [x, weight, *([b] if bias else [])]
    weights = torch.linspace(-1, 1, OUTPUTS)
    found, expected = (
        (out, *torch.autograd.grad((out * weights).sum(), inputs))
        for out in (function(*inputs) for function in (products.linear, F.linear))
    )
    assert found[0].grad_fn.name() == "_LinearBackward"  # oneDNN computed it
    for ours, theirs in zip(found, expected, strict=True):
        # sums of at most 42 products of numbers near 1: 42 roundings of 6e-8 each
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-5)


def test_a_gradient_can_be_differentiated_again(onednn):
    x, weight, b = case(ROWS)
    seconds = []
    for function in (products.linear, F.linear):
        (first,) = torch.autograd.grad(function(x, weight, b).pow(2).sum(), x, create_graph=True)
        seconds.append(torch.autograd.grad(first.sum(), weight)[0])
    torch.testing.assert_close(*seconds, rtol=1e-4, atol=1e-3)


@pytest.mark.parametrize(
    ("x", "why"),
    [
        (torch.ones(products.FEWEST_ROWS - 1, INPUTS), "too few rows"),
        (torch.ones(ROWS, INPUTS, dtype=torch.float64), "another precision"),
        (torch.ones(INPUTS), "a vector"),
    ],
)
def test_other_products_are_left_to_torch(onednn, monkeypatch, x, why):
    monkeypatch.setattr(products, "_by_onednn", None)  # a call would fail
    weight = torch.ones(OUTPUTS, INPUTS, dtype=x.dtype)
    assert torch.equal(products.linear(x, weight), F.linear(x, weight)), why


def test_lower_precision_is_left_to_torch(onednn, monkeypatch):
    monkeypatch.setattr(products, "_by_onednn", None)
    with torch.autocast("cpu", torch.bfloat16):
        assert products.linear(torch.ones(ROWS, INPUTS), torch.ones(OUTPUTS, INPUTS)).dtype is torch.bfloat16


def test_the_switch_of_torch_turns_it_off(onednn, monkeypatch):
    monkeypatch.setattr(products, "_by_onednn", None)
    monkeypatch.setattr(torch.backends.mkldnn, "enabled", False)
    assert products.linear(torch.ones(ROWS, INPUTS), torch.ones(OUTPUTS, INPUTS)).shape == (ROWS, OUTPUTS)


@pytest.mark.parametrize(("torchs", "onednns", "faster"), [(1.0, 0.5, True), (1.0, 0.9, False)])
def test_the_choice_is_measured(monkeypatch, torchs, onednns, faster):
    seconds = {F.linear: torchs, products._by_onednn: onednns}
    monkeypatch.setattr(products, "_seconds", lambda product, square: seconds[product])
    assert products.onednn_is_faster.__wrapped__() is faster
