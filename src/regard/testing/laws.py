"""The checks of the laws. A check tests a random case and raises an AssertionError if the law is broken.

Shape legend: B rows, T positions, V vocabulary.
"""

import itertools
import random

import torch
from torch import Tensor

from regard.models.contract import State
from regard.models.wrappers.edited import Edited
from regard.parts.edits import Scale
from regard.parts.look import Look
from regard.probabilities.decoder import Writing, generate
from regard.probabilities.measures import token_losses
from regard.probabilities.sampling import Sampling
from regard.testing.case import LONGEST, Case, close, row_of
from regard.tokens.contract import Encoded
from regard.tokens.pairs import GivenExamples


def probabilities_sum_to_one(case: Case) -> None:
    """The probabilities of all tokens sum to one at every position."""
    ids = case.text()
    log_probs_BTV = case.log_probs(ids, case.given(1))
    assert log_probs_BTV.shape == (1, len(ids) + 1, case.size)
    close(log_probs_BTV.exp().sum(2), torch.ones(1, len(ids) + 1))


def whole_equals_split(case: Case) -> None:
    """A text that is read in pieces gives the same predictions and position as the text read at once."""
    ids, given = case.text(), case.given(1)
    tokens_BT = torch.tensor([[case.model.start, *ids]])
    whole, whole_state = case.read(ids, given)
    cuts = {case.random.randint(0, tokens_BT.shape[1]) for _ in range(4)}
    if case.random.random() < 0.3:
        cuts = set(range(tokens_BT.shape[1]))  # one token at a time
    state, parts = case.begin(given), []
    for begin, end in itertools.pairwise(sorted({0, tokens_BT.shape[1], *cuts})):
        prediction, state = case.model(tokens_BT[:, begin:end], state)
        parts.append(prediction.log_probs())
    close(torch.cat(parts, 1), whole.log_probs())
    assert torch.equal(state.position_B, whole_state.position_B)
    assert int(state.position_B) == len(ids) + 1


def no_leak_by_perturbation(case: Case) -> None:
    """A change of the token at a position changes no prediction before this position."""
    ids, given = case.text(), case.given(1)
    place, other = case.random.randrange(len(ids)), case.random.randrange(case.size)
    changed = [*ids[:place], other, *ids[place + 1 :]]
    before, after = (case.log_probs(text, given)[:, : place + 1] for text in (ids, changed))
    close(before, after)


def no_leak_by_gradient(case: Case) -> None:
    """A prediction has a gradient at the embedding of its own token, and none at those of later tokens."""
    embedded = list[Tensor]()
    for name, module in case.model.named_modules():
        # Predictions may depend on the whole source.
        if isinstance(module, torch.nn.Embedding) and "source" not in name:
            module.register_forward_hook(lambda module, inputs, output: embedded.append(output))
    ids = case.text(7)
    log_probs_BTV = case.log_probs(ids, case.given(1))
    # Leave out embeddings of stored words, which have other shapes.
    calls = [call for call in embedded if call.shape[1] == len(ids) + 1]
    for t in range(len(ids) + 1):
        target = log_probs_BTV[0, t].square().sum()
        for gradient in torch.autograd.grad(target, calls, retain_graph=True) if calls else ():
            assert float(gradient[0, t + 1 :].abs().sum()) == 0, f"position {t} sees a later position"
            assert float(gradient[0, t].abs().sum()) > 0, f"position {t} does not see its own token"


def a_row_equals_that_row_alone(case: Case) -> None:
    """A row in a batch, with padding anywhere, gives the same predictions as the row alone.

    The same holds for a later call that continues the batch.
    """
    texts = [case.text() for _ in range(case.random.randint(2, 4))]
    given, more = case.given(len(texts)), case.text(5)
    rows = case.padded([[case.model.start, *text] for text in texts], case.model.padding)
    batch, state = case.model(torch.tensor(rows), case.begin(given))
    batch_BTV = batch.log_probs()
    more_BTV = case.model(torch.tensor([more] * len(texts)), state.copy())[0].log_probs()
    for number, text in enumerate(texts):
        alone, alone_state = case.read(text, row_of(given, number))
        real_T = torch.tensor(rows[number]) != case.model.padding
        close(batch_BTV[number][real_T], alone.log_probs()[0])
        assert int(state.position_B[number]) == int(alone_state.position_B)
        close(more_BTV[number], case.model(torch.tensor([more]), alone_state)[0].log_probs()[0])


def padding_is_a_property_of_the_rows(case: Case) -> None:
    """The model's training mode does not change the meaning of padding."""
    texts = [case.text() for _ in range(3)]
    given = case.given(3)
    alone = [case.log_probs(text, row_of(given, number))[0] for number, text in enumerate(texts)]
    case.model.train()
    start = case.model.start
    tokens_BT = torch.tensor([[start, 1, 2, 3]])
    first, second = (case.model.read_from_start(tokens_BT, _first(given))[0].log_probs() for _ in "ab")
    if not torch.equal(first, second):
        return  # a model with dropout: each call gives other predictions
    for side, padded in (("anywhere", "anywhere"), ("right", "anywhere"), ("right", "right")):
        rows = case.padded([[start, *text] for text in texts], case.model.padding, side)
        prediction, _ = case.model(torch.tensor(rows), case.begin(given), padded=padded)
        log_probs_BTV = prediction.log_probs()
        for number, expected_TV in enumerate(alone):
            real_T = torch.tensor(rows[number]) != case.model.padding
            close(log_probs_BTV[number][real_T], expected_TV)


def _first(given: int | Tensor) -> Tensor | None:
    return None if isinstance(given, int) else given[:1]


def padding_alone_changes_nothing(case: Case) -> None:
    """A call that reads only padding does not change the state."""
    given = case.given(1)
    _, state = case.read(case.text(), given)
    position = int(state.position_B)
    next_BT = torch.tensor([[case.random.randrange(case.size)]])
    expected = case.model(next_BT, state.copy())[0].log_probs()
    _, padded = case.model(torch.full((1, 2), case.model.padding), state)
    assert int(padded.position_B) == position
    close(case.model(next_BT, padded)[0].log_probs(), expected)


def _batch(case: Case) -> tuple[State, int]:
    """Read a random batch. Return the state and the number of rows."""
    texts = [case.text() for _ in range(case.random.randint(1, 3))]
    rows = case.padded([[case.model.start, *text] for text in texts], case.model.padding)
    return case.model(torch.tensor(rows), case.begin(case.given(len(texts))))[1], len(texts)


def picked_rows_go_on_like_the_rows_they_came_from(case: Case) -> None:
    """The rows of `state.pick(rows)` give the same predictions as the original rows. Rows may be repeated."""
    state, count = _batch(case)
    rows = torch.tensor([case.random.randrange(count) for _ in range(case.random.randint(1, 5))])
    more_BT = torch.tensor([[2, 7]])
    expected = case.model(more_BT.expand(count, -1), state.copy())[0].log_probs()
    picked = case.model(more_BT.expand(len(rows), -1), state.pick(rows))[0].log_probs()
    close(picked, expected[rows])


def joined_rows_go_on_like_the_rows_they_came_from(case: Case) -> None:
    """The rows of joined states give the same predictions as before, also if the states differ in length."""
    states = [_batch(case) for _ in range(3)]
    more_BT = torch.tensor([[2, 7, 1]])
    expected = torch.cat(
        [case.model(more_BT.expand(count, -1), state.copy())[0].log_probs() for state, count in states]
    )
    joined = State.join([state for state, _ in states])
    close(case.model(more_BT.expand(len(expected), -1), joined)[0].log_probs(), expected)


def a_state_with_room_goes_on_like_the_state(case: Case) -> None:
    """Buffers of a fixed size change no prediction. The states of a steady model keep their shapes."""
    state, count = _batch(case)
    room = int(state.position_B.max()) + 7
    fixed = case.model.with_room(state.copy(), room)
    shapes = [tensor.shape for tensor in fixed.tensors()]
    for _ in range(7):
        token_B1 = torch.tensor([[case.random.randrange(case.size)] for _ in range(count)])
        expected, state = case.model(token_B1, state)
        prediction, fixed = case.model(token_B1, fixed, padded="right")
        close(prediction.log_probs(), expected.log_probs())
        assert not case.model.steady or [tensor.shape for tensor in fixed.tensors()] == shapes
    close(case.model(token_B1, fixed.trimmed())[0].log_probs(), case.model(token_B1, state)[0].log_probs())


def a_reset_row_begins_anew(case: Case) -> None:
    """A row that was reset gives the predictions of a new row, and other rows continue.

    The law is not checked for models with a source.
    """
    if case.model.given is not None:
        return
    ids = case.text()
    _, state = case.model(torch.tensor([[case.model.start, 1, 2], [case.model.start, 3, 4]]), case.begin(2))
    continued = case.model(torch.tensor([ids]), state.copy().pick(torch.tensor([1])))[0].log_probs()
    fresh = case.model(torch.tensor([ids]), case.begin(1))[0].log_probs()
    both = case.model(torch.tensor([ids, ids]), state.reset(torch.tensor([True, False])))[0].log_probs()
    close(both, torch.cat([fresh, continued]))


def nll_loss_and_at_agree_with_log_probs(case: Case) -> None:
    """The methods of a prediction give consistent numbers."""
    ids = case.text()
    prediction, _ = case.read(ids, case.given(1))
    log_probs_BTV = prediction.log_probs().detach()
    # A target may be the next token of the call, another token, or none (-1).
    targets = [case.random.choice([token, 0, case.size - 1, -1]) for token in [*ids, 0]]
    targets_BT = torch.tensor([targets])
    expected = torch.tensor(
        [[-float(log_probs_BTV[0, t, y]) if y >= 0 else 0.0 for t, y in enumerate(targets)]]
    )
    close(prediction.nll(targets_BT), expected)
    real = sum(y >= 0 for y in targets)
    if bool(expected.isfinite().all()):
        loss, weight = prediction.loss(targets_BT)
        close(loss.detach(), expected.sum())
        assert float(weight) == real
    places_BK = torch.tensor([[len(ids), 0]])
    close(prediction.at(places_BK).log_probs(), log_probs_BTV[:, [len(ids), 0]])
    few = prediction.at(places_BK).nll(torch.tensor([[case.size - 1, 0]]))
    close(few, -torch.stack([log_probs_BTV[:, -1, case.size - 1], log_probs_BTV[:, 0, 0]], 1))


def parts_sum(case: Case) -> None:
    """The parts of a probability sum to the probability.

    The sums of the parts of two scores differ by the difference of the log-probabilities.
    """
    ids = case.text()
    prediction, _ = case.read(ids, case.given(1))
    first_BT, second_BT = (
        torch.tensor([[case.random.randrange(case.size) for _ in [0, *ids]]]) for _ in "ab"
    )
    parts, other = prediction.parts(first_BT), prediction.parts(second_BT)
    if parts.of == "probability":
        close(parts.total().double(), (-prediction.nll(first_BT)).exp().double())
        return
    close(parts.total() - other.total(), prediction.nll(second_BT) - prediction.nll(first_BT))


def accumulated_batches_equal_one_batch(case: Case) -> None:
    """The losses and weights of the rows of a batch add up to the loss and weight of the batch."""
    texts = [case.text() for _ in range(3)]
    given = case.given(3)
    rows = torch.tensor(
        case.padded([[case.model.start, *text] for text in texts], case.model.padding, "right")
    )
    targets = torch.tensor(case.padded([[*text, 0] for text in texts], -1, "right"))
    for smoothing in (0.0, 0.1):
        prediction, _ = case.model(rows, case.begin(given))
        if not bool(prediction.log_probs().isfinite().all()):
            return
        loss, weight = prediction.loss(targets, smoothing=smoothing)
        parts = [
            case.model(rows[n : n + 1], case.begin(row_of(given, n)))[0].loss(
                targets[n : n + 1], smoothing=smoothing
            )
            for n in range(3)
        ]
        close(loss, torch.stack([part for part, _ in parts]).sum())
        assert float(weight) == sum(float(part) for _, part in parts) == sum(len(text) + 1 for text in texts)


def gradients_are_finite(case: Case) -> None:
    """Gradients are finite, also for targets that cannot be copied from the context."""
    parameters = [parameter for parameter in case.model.parameters() if parameter.requires_grad]
    if not parameters:
        return
    padding, last = case.model.padding, case.size - 1
    tokens_BT = torch.tensor(
        [[case.model.start, 1, 2, 1, padding], [case.model.start, 3, padding, padding, padding]]
    )
    targets_BT = torch.tensor([[1, 2, 1, last, -1], [last - 1, last, -1, -1, -1]])
    for smoothing in (0.0, 0.1):
        loss, _ = case.model(tokens_BT, case.begin(case.given(2)))[0].loss(targets_BT, smoothing=smoothing)
        for gradient in torch.autograd.grad(loss, parameters, allow_unused=True):
            assert gradient is None or bool(gradient.isfinite().all())


def the_same_call_gives_the_same_bits(case: Case) -> None:
    """Two equal calls give the same result to the bit, and copying a state changes nothing."""
    given, ids = case.given(1), case.text()
    first, state = case.read(ids, given)
    assert torch.equal(first.log_probs(), case.log_probs(ids, given))
    more_BT = torch.tensor([case.text(3)])
    copied = state.copy()
    again = case.model(more_BT, state.copy())[0].log_probs()
    assert torch.equal(case.model(more_BT, copied)[0].log_probs(), again)
    same = state.with_tensors(state.tensors())
    assert torch.equal(case.model(more_BT, same)[0].log_probs(), again)


def a_row_is_written_as_if_alone(case: Case) -> None:
    """The text that is generated for a row does not depend on other rows, also after the context is full."""
    model, length = case.model, 9
    if model.context is not None and not model.carries:
        length = model.context + 5 - LONGEST // 2
    texts = [case.text(5) for _ in range(3)]
    given = case.given(3)
    together = _written(case, given, texts, length)
    for number, text in enumerate(texts):
        assert _written(case, row_of(given, number), [text], length, number) == [together[number]]


def _written(
    case: Case, given: int | Tensor, texts: list[list[int]], length: int, number: int = 0
) -> list[list[int]]:
    """Generate a text for each row. `number` is the number of the first row."""
    prompts = [[case.model.start, *text] for text in texts]
    numbers = list(range(number, number + len(texts)))
    writing = Writing(length=length, end=None, sampling=Sampling(top_p=0.9), seed=3)
    steps = generate(case.model, case.begin(given), prompts, writing, numbers)
    return [list(row) for row in zip(*(step.token_B.tolist() for step in steps), strict=True)]


def watching_changes_no_bit(case: Case) -> None:
    """Every declared site is reached and has the declared axes, and watching sites changes no bit."""
    sites, ids, given = case.model.sites(), case.text(6), case.given(1)
    look = Look(["*"])
    assert torch.equal(case.log_probs(ids, given, look), case.log_probs(ids, given))
    assert look.maps.keys() | look.values.keys() == sites.keys()
    for name, weights in look.maps.items():
        assert sites[name].holds != "values", name
        whole_BHTK = weights()
        assert whole_BHTK.dim() == len(sites[name].axes), name
        rows = torch.tensor([whole_BHTK.shape[2] - 1, 0])
        close(weights(rows), whole_BHTK[:, :, rows])
        if sites[name].holds == "weights":
            sums = whole_BHTK.sum(3)
            assert bool(((sums - 1).abs().lt(1e-9) | (sums == 0)).all()), (
                f"{name}: rows sum to neither 1 nor 0"
            )
    for name, value in look.values.items():
        assert sites[name].holds == "values", name
        assert value.dim() == len(sites[name].axes), name


def an_edit_that_changes_nothing_changes_no_figure(case: Case) -> None:
    """Scaling a site by one changes no prediction, no measured loss and no generated text."""
    sites = list(case.model.sites())
    if not sites:
        return
    name = case.random.choice(sites)
    edited = Edited(case.model, {name: Scale(site=name, by=1.0)})
    ids, given = case.text(), case.given(1)
    tokens_BT = torch.tensor([[case.model.start, *ids]])
    close(edited(tokens_BT, edited.begin(given))[0].log_probs(), case.log_probs(ids, given))
    close(token_losses(edited, _examples(case)), token_losses(case.model, _examples(case)))
    text, other = _written(case, given, [ids[:3]], 9), None
    case.model = edited
    other = _written(case, given, [ids[:3]], 9)
    assert text == other


def _examples(case: Case) -> Encoded | GivenExamples:
    """Return the same documents, or documents with what their states begin with, in each call."""
    generator = random.Random(5)
    given = case.model.given
    lengths = [generator.randint(1, 29 if given is None else 7) for _ in range(5)]
    ids = torch.tensor([generator.randrange(case.size) for _ in range(sum(lengths))])
    target = Encoded(ids, torch.tensor(lengths).cumsum(0), bytes=len(ids), unknown=0)
    return target if given is None else given.random_examples(target, generator)


CHECKS = (
    probabilities_sum_to_one,
    whole_equals_split,
    no_leak_by_perturbation,
    no_leak_by_gradient,
    a_row_equals_that_row_alone,
    padding_is_a_property_of_the_rows,
    padding_alone_changes_nothing,
    picked_rows_go_on_like_the_rows_they_came_from,
    joined_rows_go_on_like_the_rows_they_came_from,
    a_state_with_room_goes_on_like_the_state,
    a_reset_row_begins_anew,
    nll_loss_and_at_agree_with_log_probs,
    parts_sum,
    accumulated_batches_equal_one_batch,
    gradients_are_finite,
    the_same_call_gives_the_same_bits,
    a_row_is_written_as_if_alone,
    watching_changes_no_bit,
    an_edit_that_changes_nothing_changes_no_figure,
)
