"""Speed on one GPU beside the peers, in one process.

    PYTHONPATH=src:carry/site python3 bench/gpu_speed.py --nanogpt carry/nanoGPT --examples carry/examples
        [--only parity train generate lstm] [--profile]

train: tokens/s of a 124M Transformer (12 layers, 12 heads, width 768, vocabulary 50,257 of random tokens)
beside nanoGPT's model in its own loop: autocast in bf16, fused AdamW, clipping, compiled.
generate: 256 new tokens at batch 1, 32 and 256 with the same model in bf16, beside Hugging Face's `generate`.
lstm: words/s of 2 layers of 650, tied, 33,278 words, segments of 35, beside a plain loop over
    pytorch/examples' model.
parity: the bodies for GPUs against their specifications.
"""

import argparse
import statistics
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import torch
from torch import nn

from regard.machine.device import Machine
from regard.models.recurrent import Lstm
from regard.models.transformer import Transformer
from regard.parts import cached_attention, cross_entropy
from regard.probabilities.captured import CapturedBody
from regard.probabilities.decoder import Writing, generate
from regard.probabilities.sampling import Sampling
from regard.probabilities.step import EagerBody
from regard.tokens.contract import Encoded
from regard.tokens.schedule import Corpus, LaneSchedule, WindowSchedule
from regard.training.gradients import EagerGradients, RecordedGradients
from regard.training.optimisers import make_optimisers
from regard.training.options import TrainingOptions
from regard.training.task import Step
from regard.training.tasks.plain_text import TextBatches

VOCABULARY, CONTEXT, WORDS, SEGMENT = 50257, 1024, 33278, 35
DEVICE = torch.device("cuda")
MACHINE = Machine(DEVICE, bf16=True, peak=1.0, threads=1)
PASSES = 3


def random_text(tokens: int, vocabulary: int) -> Encoded:
    ids_N = torch.randint(0, vocabulary, (tokens,), generator=torch.Generator().manual_seed(1))
    return Encoded(ids_N.int(), torch.tensor([tokens]), bytes=tokens, unknown=0)


def timed(step: Callable[[], object], steps: int, warm_up: int) -> list[float]:
    """Seconds of one step, in each of a few passes."""
    for _ in range(warm_up):
        step()
    seconds = []
    for _ in range(PASSES):
        torch.cuda.synchronize()
        started = time.perf_counter()
        for _ in range(steps):
            step()
        torch.cuda.synchronize()
        seconds.append((time.perf_counter() - started) / steps)
    return seconds


def show(name: str, tokens: int, seconds: list[float]) -> None:
    rates = [tokens / each for each in seconds]
    print(
        f"{name:58} {statistics.median(rates):>11,.0f} [{min(rates):,.0f}-{max(rates):,.0f}] tokens/s",
        flush=True,
    )


def our_step(model, batches: TextBatches, options: TrainingOptions, compiles: bool, records: bool):
    model.to(DEVICE).train()
    objective = Step(model)
    if compiles:
        objective = torch.compile(objective)
    gradients = EagerGradients(objective, MACHINE)
    if records:
        gradients = RecordedGradients(gradients, model, DEVICE)
    optimisers, memory = make_optimisers(model, options), {"state": None, "place": 0}

    def step() -> None:
        batch = batches.batch(0, memory["place"] % batches.steps(0))
        memory["place"] += 1
        _, memory["state"] = gradients.of([batch], memory["state"])
        nn.utils.clip_grad_norm_(model.parameters(), options.clip)
        for optimiser in optimisers:
            optimiser.step()
            optimiser.zero_grad(set_to_none=True)

    return step


def transformer(**options) -> Transformer:
    sizes = {"layers": 12, "heads": 12, "width": 768, "context": CONTEXT, "dropout": 0.0}
    return Transformer(VOCABULARY, Transformer.Config(**sizes, **options))


def nanogpt_step(folder: Path, batch: int):
    sys.path.insert(0, str(folder))
    from model import GPT, GPTConfig

    peer = GPT(
        GPTConfig(
            block_size=CONTEXT, vocab_size=50304, n_layer=12, n_head=12, n_embd=768, dropout=0.0, bias=False
        )
    )
    sys.path.pop(0)
    del sys.modules["model"]
    peer.to(DEVICE)
    optimiser = peer.configure_optimizers(0.1, 6e-4, (0.9, 0.95), "cuda")
    compiled = torch.compile(peer)
    data = torch.randint(0, VOCABULARY, (1 << 22,))

    def draw() -> tuple[torch.Tensor, torch.Tensor]:
        places = torch.randint(len(data) - CONTEXT, (batch,))
        x = torch.stack([data[place : place + CONTEXT] for place in places])
        y = torch.stack([data[place + 1 : place + 1 + CONTEXT] for place in places])
        return x.pin_memory().to(DEVICE, non_blocking=True), y.pin_memory().to(DEVICE, non_blocking=True)

    memory = {"batch": draw()}

    def step() -> None:  # as in its train.py
        with torch.autocast("cuda", torch.bfloat16):
            _, loss = compiled(*memory["batch"])
        memory["batch"] = draw()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(peer.parameters(), 1.0)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)

    return step


def train(options: argparse.Namespace) -> None:
    text = random_text(1 << 22, VOCABULARY)
    for batch, steps in ((12, 20), (64, 6)):
        schedule = WindowSchedule(text, CONTEXT, batch, seed=1)
        batches = TextBatches(schedule, Corpus.of(text, VOCABULARY, DEVICE), VOCABULARY + 1, MACHINE)
        makers = {
            "nanoGPT, AdamW": partial(nanogpt_step, options.nanogpt, batch),
            "ours, AdamW, learned positions": partial(
                our_step,
                transformer(positions="learned", readout_bias=False),
                batches,
                TrainingOptions(),
                True,
                True,
            ),
            "ours, Muon, learned positions": partial(
                our_step,
                transformer(positions="learned", readout_bias=False),
                batches,
                TrainingOptions(optimiser="muon"),
                True,
                True,
            ),
        }
        for name, make in makers.items():
            started = time.perf_counter()
            step = make()
            step()
            torch.cuda.synchronize()
            print(f"  ({time.perf_counter() - started:.0f} s to the first step)")
            show(f"train 124M, {batch} x {CONTEXT}: {name}", batch * CONTEXT, timed(step, steps, 5))
            if options.profile and batch == 12:
                profile(step)
            del step
            torch.cuda.empty_cache()


def profile(step: Callable[[], object], steps: int = 1) -> None:
    """Print the kernels of a call that runs `steps` steps."""
    step()
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as profiler:
        step()
        torch.cuda.synchronize()
    kernels = [event for event in profiler.key_averages() if event.self_device_time_total > 0]
    kernels.sort(key=lambda event: -event.self_device_time_total)
    total = sum(event.self_device_time_total for event in kernels)
    count = sum(event.count for event in kernels)
    print(f"  {count / steps:.0f} kernels of one step: {total / 1000 / steps:.3f} ms")
    for event in kernels[:24]:
        milliseconds = event.self_device_time_total / 1000 / steps
        print(f"    {milliseconds:8.4f} ms {event.count / steps:6.1f} x {event.key[:90]}")


def generating(options: argparse.Namespace) -> None:
    model = transformer(positions="learned", readout_bias=False).to(DEVICE).eval().bfloat16()
    new = 256
    for batch in (1, 32, 256):
        prompts = [[model.start]] * batch

        def ours(body, prompts=prompts, batch=batch) -> float:
            writing = Writing(length=new, end=None, sampling=Sampling(), seed=1, body=body)
            torch.cuda.synchronize()
            started = time.perf_counter()
            for _ in generate(model, model.begin(batch), prompts, writing):
                pass
            torch.cuda.synchronize()
            return time.perf_counter() - started

        started = ours(CapturedBody)
        print(f"  (the first text, recording included: {started:.2f} s)")
        show(f"generate 124M, batch {batch}: ours", batch * new, [ours(CapturedBody) for _ in range(PASSES)])
        if options.profile and batch != 32:
            profile(lambda: ours(CapturedBody), 256)
        compiled = partial(CapturedBody, compiles=True)
        print(f"  (the first text, compiling included: {ours(compiled):.2f} s)")
        show(
            f"generate 124M, batch {batch}: ours, compiled",
            batch * new,
            [ours(compiled) for _ in range(PASSES)],
        )
        if options.profile and batch != 32:
            profile(partial(ours, compiled), 256)
        if batch == 1:
            show(f"generate 124M, batch {batch}: ours, eagerly", batch * new, [ours(EagerBody)])
        hugging_face(batch, 64)


def hugging_face(batch: int, new: int) -> None:
    from transformers import GPT2Config, GPT2LMHeadModel

    peer = GPT2LMHeadModel(GPT2Config()).to(DEVICE).eval().bfloat16()
    ids = torch.full((batch, 1), 50256, device=DEVICE)

    def write() -> None:
        peer.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            do_sample=True,
            top_k=0,
            max_new_tokens=new,
            min_new_tokens=new,
            pad_token_id=50256,
        )

    write()
    torch.cuda.synchronize()
    started = time.perf_counter()
    write()
    torch.cuda.synchronize()
    show(
        f"generate 124M, batch {batch}: Hugging Face ({new} tokens)",
        batch * new,
        [time.perf_counter() - started],
    )


def lstm(options: argparse.Namespace) -> None:
    text = random_text(1 << 21, WORDS)
    for batch in (20, 256):
        schedule = LaneSchedule(text, SEGMENT, batch, seed=1)
        batches = TextBatches(schedule, Corpus.of(text, WORDS, DEVICE), WORDS + 1, MACHINE)
        sizes = {"layers": 2, "width": 650, "dropout": 0.5}
        for name, records in (("ours", True), ("ours, eagerly", False)):
            model = Lstm(WORDS, Lstm.Config(**sizes))
            step = our_step(model, batches, TrainingOptions(), False, records)
            show(f"lstm 2x650, batch {batch}: {name}, AdamW, bf16", batch * SEGMENT, timed(step, 60, 10))
            if options.profile and records:
                profile(step)
        for bf16 in (False, True):
            step = plain_lstm(options.examples, batch, bf16)
            name = f"a plain loop, SGD, {'bf16' if bf16 else 'fp32 (TF32)'}"
            show(f"lstm 2x650, batch {batch}: {name}", batch * SEGMENT, timed(step, 60, 10))


def plain_lstm(folder: Path, batch: int, bf16: bool):
    sys.path.insert(0, str(folder))
    from model import RNNModel

    sys.path.pop(0)
    del sys.modules["model"]
    peer = RNNModel("LSTM", WORDS, 650, 650, 2, 0.5, True).to(DEVICE).train()
    optimiser = torch.optim.SGD(peer.parameters(), 20.0, fused=True)
    data = torch.randint(0, WORDS, (SEGMENT * 200, batch), device=DEVICE)
    memory = {"hidden": peer.init_hidden(batch), "place": 0}

    def step() -> None:
        place = memory["place"] % (len(data) - SEGMENT - 1)
        x, y = data[place : place + SEGMENT], data[place + 1 : place + 1 + SEGMENT].reshape(-1)
        with torch.autocast("cuda", torch.bfloat16, enabled=bf16):
            output, hidden = peer(x, tuple(part.detach() for part in memory["hidden"]))
            loss = nn.functional.nll_loss(output, y)
        loss.backward()
        nn.utils.clip_grad_norm_(peer.parameters(), 0.25)
        optimiser.step()
        optimiser.zero_grad(set_to_none=True)
        memory.update(hidden=hidden, place=place + SEGMENT)

    return step


def parity(options: argparse.Namespace) -> None:
    torch.manual_seed(1)
    for dtype in (torch.float32, torch.bfloat16):
        size, columns = 50257, 50304
        logits = 3 * torch.randn(257, columns, device=DEVICE).to(dtype)
        weights = torch.rand(257, device=DEVICE)
        targets = torch.randint(0, size, (257,), device=DEVICE)
        from regard.parts.kernels.cross_entropy import loss_and_gradient

        expected_loss, expected = cross_entropy.specification(
            logits[:, :size].double(), size, targets, weights.double(), 0.1
        )
        loss, grad = loss_and_gradient(logits.clone(), size, targets, weights, 0.1)
        worst = [float((loss - expected_loss).abs().max()), float((grad[:, :size] - expected).abs().max())]
        beyond = float(grad[:, size:].abs().max())
        print(
            f"cross-entropy kernel, {dtype}: losses off by {worst[0]:.1e}, gradients by {worst[1]:.1e}; "
            f"gradient beyond V: {beyond}"
        )
    for dtype in (torch.float32, torch.bfloat16):
        tensors = [torch.randn(7, heads, 64, device=DEVICE, dtype=dtype) for heads in (12, 4, 4)]
        buffers = [torch.randn(7, 4, 389, 64, device=DEVICE, dtype=dtype) for _ in range(2)]
        position_B = torch.tensor([0, 1, 63, 64, 65, 200, 388], device=DEVICE)
        wide = [tensor.double() for tensor in (*tensors, *buffers)]
        query, key, value, keys, values = wide
        expected = cached_attention.specification(query, key, value, keys, values, position_B, 0.125)
        worst = (
            (cached_attention.attend_to_cache(*tensors, *buffers, position_B, 0.125) - expected).abs().max()
        )
        print(f"cached attention kernel, {dtype}: off by {float(worst):.1e}")
    model = transformer(positions="learned").to(DEVICE).eval()
    texts = []
    for body in (EagerBody, CapturedBody):
        for prompts in ([[model.start]] * 3, [[model.start, 5, 6], [model.start]]):
            writing = Writing(length=40, end=None, sampling=Sampling(temperature=0), body=body)
            steps = list(generate(model, model.begin(len(prompts)), prompts, writing))
            texts.append(torch.stack([step.token_B for step in steps]))
    print(
        "captured body equals eager body:", torch.equal(texts[0], texts[2]), torch.equal(texts[1], texts[3])
    )
    text = random_text(1 << 16, WORDS)
    for name, family, config, schedule in (
        ("lstm", Lstm, Lstm.Config(layers=2, width=64, dropout=0.0), LaneSchedule(text, SEGMENT, 20, seed=1)),
        (
            "transformer",
            Transformer,
            Transformer.Config(context=64, dropout=0.0),
            WindowSchedule(text, 64, 20, seed=1),
        ),
    ):
        batches = TextBatches(schedule, Corpus.of(text, WORDS, DEVICE), WORDS + 1, MACHINE)
        trained = list[torch.Tensor]()
        for records in (False, True):
            torch.manual_seed(3)
            model = family(WORDS, config)
            step = our_step(model, batches, TrainingOptions(optimiser="muon"), False, records)
            for _ in range(20):
                step()
            trained.append(torch.cat([parameter.detach().flatten() for parameter in model.parameters()]))
        difference = float((trained[0] - trained[1]).abs().max())
        print(f"recorded gradients, {name}: weights after 20 steps differ by {difference:.1e}")


PARTS = {"parity": parity, "generate": generating, "lstm": lstm, "train": train}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--nanogpt", type=Path, required=True, help="a checkout of nanoGPT")
    parser.add_argument(
        "--examples", type=Path, required=True, help="word_language_model of pytorch/examples"
    )
    parser.add_argument("--only", nargs="+", choices=PARTS, default=list(PARTS))
    parser.add_argument("--profile", action="store_true")
    options = parser.parse_args()
    torch.set_float32_matmul_precision("high")
    print(torch.cuda.get_device_name(), torch.__version__)
    for name in options.only:
        started = time.perf_counter()
        try:
            PARTS[name](options)
        except Exception as error:  # one part that fails must not cost the others' GPU time
            import traceback

            traceback.print_exc()
            print(f"{name} failed: {error}")
        print(f"({name}: {time.perf_counter() - started:.0f} s)", flush=True)


if __name__ == "__main__":
    main()
