"""The laws of models that read whole rows (models/rows.py). They carry no state and predict no next token.

Shape legend: B rows, T positions, D numbers.
"""

import torch
from torch import Tensor

from regard.parts.edits import Scale
from regard.parts.look import Look
from regard.testing.case import RowCase, close


def _read(case: RowCase, rows: list[list[int]], look: Look | None = None) -> list[Tensor]:
    """Return the numbers of each row: those of its real positions, or those of the row."""
    model, tokens_BT = case.model, torch.tensor(rows)
    numbers = model(tokens_BT, look)
    assert len(numbers) == len(rows)
    if model.answers == "rows":
        return list(numbers)
    assert numbers.shape[:2] == tokens_BT.shape
    return [row[tokens_T != model.padding] for row, tokens_T in zip(numbers, tokens_BT, strict=True)]


def a_row_equals_that_row_alone(case: RowCase) -> None:
    """A row in a batch, with padding anywhere, gives the same numbers as the row alone."""
    texts = [case.text() for _ in range(case.random.randint(2, 4))]
    batch = _read(case, case.padded(texts, case.model.padding))
    for text, numbers in zip(texts, batch, strict=True):
        close(numbers, _read(case, [text])[0])


def padding_is_a_property_of_the_rows(case: RowCase) -> None:
    """The model's training mode does not change the meaning of padding."""
    texts = [case.text() for _ in range(3)]
    alone = [_read(case, [text])[0] for text in texts]
    case.model.train()
    first, second = (_read(case, [[1, 2, 3]])[0] for _ in "ab")
    if not torch.equal(first, second):
        return  # a model with dropout: each call gives other numbers
    for side in ("anywhere", "right"):
        for numbers, expected in zip(
            _read(case, case.padded(texts, case.model.padding, side)), alone, strict=True
        ):
            close(numbers, expected)


def a_row_of_padding_gives_finite_numbers(case: RowCase) -> None:
    """A row without any token gives finite numbers, and does not change the other rows."""
    text, padding = case.text(), case.model.padding
    model = case.model
    numbers = model(torch.tensor([text, [padding] * len(text)]))
    assert bool(numbers.isfinite().all())
    close(numbers[0], model(torch.tensor([text]))[0])


def the_same_call_gives_the_same_bits(case: RowCase) -> None:
    """Two equal calls give the same result to the bit."""
    text = case.text()
    assert torch.equal(_read(case, [text])[0], _read(case, [text])[0])


def saved_tensors_give_the_same_bits(case: RowCase) -> None:
    """A model that takes the saved tensors of another gives the same numbers to the bit."""
    text, model = case.text(), case.model
    before, saved = _read(case, [text])[0], {name: value.clone() for name, value in model.tensors().items()}
    for value in model.tensors().values():
        if value.is_floating_point():
            value.data.uniform_(-1, 1)
    model.assign(saved)
    assert torch.equal(_read(case, [text])[0], before)


def watching_changes_no_bit(case: RowCase) -> None:
    """Every declared site is reached and has the declared axes, and watching sites changes no bit."""
    sites, text, look = case.model.sites(), case.text(6), Look(["*"])
    assert torch.equal(_read(case, [text], look)[0], _read(case, [text])[0])
    assert look.maps.keys() | look.values.keys() == sites.keys()
    for name, weights in look.maps.items():
        assert sites[name].holds != "values", name
        whole_BHQK = weights()
        assert whole_BHQK.dim() == len(sites[name].axes), name
        if sites[name].holds == "weights":
            sums = whole_BHQK.sum(3)
            assert bool(((sums - 1).abs().lt(1e-9) | (sums == 0)).all()), (
                f"{name}: rows sum to neither 1 nor 0"
            )
    for name, value in look.values.items():
        assert sites[name].holds == "values", name
        assert value.dim() == len(sites[name].axes), name


def an_edit_that_changes_nothing_changes_no_figure(case: RowCase) -> None:
    """Scaling a site by one changes no number, also on top of an edit that changes something."""
    text, sites = case.text(), list(case.model.sites())
    if not sites:
        return
    name, other = case.random.choice(sites), case.random.choice(sites)
    plain, same = case.model, {name: Scale(site=name, by=1.0)}
    before = _read(case, [text])[0]
    case.model = plain.with_changes(same)
    close(_read(case, [text])[0], before)
    halved = plain.with_changes({other: Scale(site=other, by=0.5)})
    case.model = halved
    changed = _read(case, [text])[0]
    case.model = halved.with_changes(same)
    close(_read(case, [text])[0], changed)
    case.model = plain
    assert torch.equal(_read(case, [text])[0], before), "the edit changed the model itself"


ROW_CHECKS = (
    a_row_equals_that_row_alone,
    padding_is_a_property_of_the_rows,
    a_row_of_padding_gives_finite_numbers,
    the_same_call_gives_the_same_bits,
    saved_tensors_give_the_same_bits,
    watching_changes_no_bit,
    an_edit_that_changes_nothing_changes_no_figure,
)
