"""The bodies for GPUs, on a CPU: recorded steps run without a recording, kernels in Triton's interpreter."""

import os
import subprocess
import sys

import pytest
import torch
import torch.nn.functional as F
from families import MODELS
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode

from regard.machine.device import Machine
from regard.models.recurrent import Lstm
from regard.models.transformer import Transformer
from regard.parts import cached_attention
from regard.parts.cross_entropy import linear_cross_entropy
from regard.probabilities.captured import CapturedBody
from regard.probabilities.decoder import Writing, generate
from regard.probabilities.sampling import Sampling
from regard.probabilities.step import EagerBody
from regard.tokens.contract import Encoded
from regard.tokens.schedule import Corpus, LaneSchedule, WindowSchedule
from regard.training.gradients import EagerGradients, RecordedGradients
from regard.training.muon import Muon, orthogonalise
from regard.training.task import Step
from regard.training.tasks.plain_text import TextBatches

CPU = torch.device("cpu")
STEADY = [
    name
    for name, make in MODELS.items()
    if (model := make()).steady and model.given is None and model.learns == "descent"
]
HOST_QUESTIONS = ("_local_scalar_dense", "nonzero", "masked_select", "unique")


@pytest.mark.parametrize("name", STEADY)
def test_the_static_body_writes_what_the_eager_body_writes(name: str):
    model = MODELS[name]()
    prompts = [[model.start, 5, 6], [model.start], [model.start, 3]]
    for sampling in (Sampling(), Sampling(top_k=3), Sampling(temperature=0)):
        texts = []
        for body in (EagerBody, CapturedBody):
            writing = Writing(length=19, end=2, sampling=sampling, likeliest=2, body=body)
            texts.append(list(generate(model, model.begin(3), prompts, writing)))
        assert [step.tokens for step in texts[0]] == [step.tokens for step in texts[1]]
        for eager, static in zip(*texts, strict=True):
            torch.testing.assert_close(static.log_prob_B, eager.log_prob_B, atol=1e-5, rtol=0)
            assert torch.equal(static.likeliest_BK, eager.likeliest_BK)


class HostQuestions(TorchDispatchMode):
    """Collects the calls that read a tensor's values on the host: a recording cannot hold them."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[str] = []

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        if any(question in str(function) for question in HOST_QUESTIONS):
            self.calls.append(str(function))
        return function(*args, **(kwargs or {}))


@pytest.mark.parametrize("name", STEADY)
def test_a_training_step_asks_the_host_nothing(name: str):
    model = MODELS[name]().train()
    tokens_BT = torch.tensor([[model.start, 3, 4, 5, 6], [model.start, 7, 8, *[model.padding] * 2]])
    targets_BT = torch.tensor([[3, 4, 5, 6, 0], [7, 8, 0, -1, -1]])
    step, state = Step(model), None
    with HostQuestions() as questions:
        for _ in range(2):
            loss, state = step(tokens_BT, targets_BT, state)
            loss.backward()
    assert questions.calls == []


def test_the_host_question_is_seen():
    with HostQuestions() as questions:
        bool(torch.ones(2).all())
    assert questions.calls


@pytest.mark.parametrize("family", [Lstm, Transformer])
def test_recorded_gradients_equal_eager_ones_to_the_bit(family):
    """The schedule ends with segments of other lengths, so both ways run in turn."""
    ids_N = torch.randint(0, 11, (331,), generator=torch.Generator().manual_seed(2), dtype=torch.int32)
    text = Encoded(ids_N, torch.tensor([120, 331]), bytes=331, unknown=0)
    weights = []
    for records in (False, True):
        torch.manual_seed(5)
        options = {"context": 13} if family is Transformer else {"layers": 2}
        model = family(11, family.Config(width=8, dropout=0.2, **options)).train()
        schedule = LaneSchedule(text, 7, 3, 1) if family is Lstm else WindowSchedule(text, 13, 3, 1)
        machine = Machine(CPU, bf16=False, peak=1.0, threads=1)
        batches = TextBatches(schedule, Corpus.of(text, model.start, CPU), model.padding, machine)
        gradients = EagerGradients(Step(model), machine)
        if records:
            gradients = RecordedGradients(gradients, model, CPU)
        optimiser, state = torch.optim.AdamW(model.parameters(), 0.01), None
        for epoch in range(2):
            for place in range(batches.steps(epoch)):
                _, state = gradients.of([batches.batch(epoch, place)], state)
                optimiser.step()
                optimiser.zero_grad(set_to_none=True)
        weights.append([parameter.detach().clone() for parameter in model.parameters()])
    assert all(torch.equal(*pair) for pair in zip(*weights, strict=True))


def test_muon_over_stacks_equals_torch_muon():
    """Five steps of bf16 products: the order of the sums differs, so an update differs by its last bits."""
    shapes = [(7, 13), (13, 7), (7, 13), (11, 11)]
    ours, theirs = ([nn.Parameter(torch.ones(shape) / 10) for shape in shapes] for _ in range(2))
    options = {"lr": 0.02, "weight_decay": 0.1}
    optimisers = Muon(ours, **options), torch.optim.Muon(theirs, **options, adjust_lr_fn="match_rms_adamw")
    generator = torch.Generator().manual_seed(3)
    for _ in range(5):
        for one, other in zip(ours, theirs, strict=True):
            one.grad = other.grad = torch.randn(one.shape, generator=generator)
        for optimiser in optimisers:
            optimiser.step()
    for one, other in zip(ours, theirs, strict=True):
        # an update is 0.02 * 0.2 * sqrt(13) * U, the entries of U are below 1, and bf16 has 8 bits
        torch.testing.assert_close(one, other, atol=5 * 0.015 * 2**-7, rtol=0)


def test_orthogonalise_moves_singular_values_towards_one():
    stack_PMN = torch.randn(3, 5, 17, generator=torch.Generator().manual_seed(1))
    values = torch.linalg.svdvals(orthogonalise(stack_PMN).float())
    assert bool(((values > 0.6) & (values < 1.3)).all())  # the range of the five steps (Jordan et al. 2024)


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
def test_the_readout_and_its_loss_have_the_gradients_of_cross_entropy(double, smoothing: float, monkeypatch):
    monkeypatch.setattr("regard.parts.cross_entropy.SLICE", 3 * 13)  # three positions in a slice
    generator = torch.Generator().manual_seed(4)
    readout = [
        torch.randn(size, generator=generator, requires_grad=True) for size in ((7, 5), (13, 5), (13,))
    ]
    targets_N = torch.tensor([3, 0, -1, 12, 5, 5, 1])
    weights_N = torch.rand(7, generator=generator) * (targets_N >= 0)
    total = linear_cross_entropy(*readout, targets_N, weights_N, smoothing)
    grads = torch.autograd.grad(3 * total, readout)
    features_ND, weight_VD, bias_V = readout
    loss_N = F.cross_entropy(
        F.linear(features_ND, weight_VD, bias_V),
        targets_N,
        ignore_index=-1,
        reduction="none",
        label_smoothing=smoothing,
    )
    expected = (loss_N * weights_N).sum()
    torch.testing.assert_close(total, expected)
    for grad, other in zip(grads, torch.autograd.grad(3 * expected, readout), strict=True):
        torch.testing.assert_close(grad, other)


def test_attention_to_the_cache_is_attention_over_the_filled_slots(double):
    query, key, value = torch.randn(2, 6, 5), torch.randn(2, 3, 5), torch.randn(2, 3, 5)
    keys, values = torch.randn(2, 3, 7, 5), torch.randn(2, 3, 7, 5)
    out_BHE = cached_attention.attend_to_cache(query, key, value, keys, values, torch.tensor([0, 4]), 0.3)
    torch.testing.assert_close(out_BHE[0], value[0].repeat_interleave(2, 0))  # one slot has all the weight
    for head in range(6):
        weights_S = (keys[1, head // 2, :5] @ query[1, head] * 0.3).softmax(0)
        torch.testing.assert_close(out_BHE[1, head], weights_S @ values[1, head // 2, :5])
    assert torch.equal(keys[1, :, 4], key[1])
    assert torch.equal(values[0, :, 0], value[0])


KERNELS = """
import torch
from regard.parts import cached_attention, cross_entropy
from regard.parts.kernels import cached_attention as attention_kernel, cross_entropy as loss_kernel

torch.manual_seed(0)
for size, columns, smoothing in ((53, 64, 0.0), (5003, 5056, 0.1)):
    logits = torch.randn(7, columns)
    targets, weights = torch.randint(0, size, (7,)), torch.rand(7)
    targets[3], weights[3] = -1, 0.0
    expected = cross_entropy.specification(logits[:, :size].clone(), size, targets, weights, smoothing)
    loss, grad = loss_kernel.loss_and_gradient(logits, size, targets, weights, smoothing)
    print(float((loss - expected[0]).abs().max()), float((grad[:, :size] - expected[1]).abs().max()))
    print(float(grad[:, size:].abs().max()), 0.0)
for heads, groups, width, slots in ((3, 3, 5, 131), (6, 2, 8, 197), (4, 1, 64, 67)):
    tokens = [torch.randn(5, count, width) for count in (heads, groups, groups)]
    buffers = [torch.randn(5, groups, slots, width) for _ in range(2)]
    others = [buffer.clone() for buffer in buffers]
    position_B = torch.tensor([0, 1, slots - 1, 64, 63])
    out = attention_kernel.attend_to_cache(*tokens, *buffers, position_B, 0.3)
    expected = cached_attention.specification(*tokens, *others, position_B, 0.3)
    same = all(map(torch.equal, buffers, others))
    print(float((out - expected).abs().max()), 0.0 if same else 1.0)
"""


def test_the_kernels_equal_their_specifications():
    pytest.importorskip("triton", reason="Triton is installed on Linux only")
    done = subprocess.run(
        [sys.executable, "-c", KERNELS],
        env={**os.environ, "TRITON_INTERPRET": "1", "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    errors = [float(word) for word in done.stdout.split()]
    assert len(errors) == 14
    assert max(errors) < 1e-5  # float32 sums over 5,003 columns or 197 slots
