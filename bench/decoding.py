"""The speed of writing on a CPU, beside `generate` of Hugging Face with its cache.

    OMP_NUM_THREADS=1 taskset -c 0 python bench/decoding.py [--only rows vocabulary groups length families]

rows: 4 layers of width 128, context 256, 67 tokens, 200 written, at batch 1 and 16.
vocabulary: the same with 50,257 tokens at batch 64: plain sampling, and top-k 50 with top-p 0.9.
groups: keys and values of one head, at batch 16 and 64. Tokens a second must not fall.
length: the same model with a context of 2,048: milliseconds of a token around positions 10 and 1,000.
families: other families by both bodies, at batch 1 and 16.

All ways take turns, in fp32, on random weights, on one thread. A line shows the median and the range of the
passes, in seconds of the processor, so that other processes on the core count for little.
"""

import argparse
import statistics
import time
from collections.abc import Callable

import torch

from regard.benchmarks.peers import hugging_face
from regard.machine.device import describe_machine
from regard.machine.timing import Work, interleaved
from regard.models.backpack import Backpack
from regard.models.contract import LanguageModel
from regard.models.ngram import Ngram
from regard.models.recurrent import Gru, Lstm
from regard.models.transformer import Transformer
from regard.probabilities.decoder import Writing, generate
from regard.probabilities.packaged import PackagedBody
from regard.probabilities.sampling import Sampling
from regard.probabilities.step import Body, EagerBody, Step
from regard.tokens.contract import Encoded

SYMBOLS, WORDS, WIDTH, CONTEXT, LONG = 65, 50_257, 128, 256, 2048
PLAIN, TRUNCATED = Sampling(), Sampling(top_k=50, top_p=0.9)
BODIES: dict[str, Callable[[Step], Body]] = {"eager": EagerBody, "packaged": PackagedBody}


def transformer(vocabulary: int = SYMBOLS, **options: int) -> LanguageModel:
    torch.manual_seed(1)
    options = {"layers": 4, "width": WIDTH, "context": CONTEXT, **options}
    return Transformer(vocabulary, Transformer.Config(**options)).eval()


def ours(
    model: LanguageModel,
    rows: int,
    length: int,
    body: Callable[[Step], Body],
    sampling: Sampling = PLAIN,
) -> Work:
    def work() -> float:
        writing = Writing(length=length, end=None, sampling=sampling, body=body)
        for _ in generate(model, model.begin(rows), [[model.start]] * rows, writing):
            pass
        return rows * length

    return work


def theirs(rows: int, length: int, vocabulary: int, sampling: Sampling = PLAIN) -> Work:
    face = hugging_face(vocabulary, 4, 4, WIDTH, CONTEXT)
    if face is None:
        raise SystemExit("install transformers: it is the peer")
    face.set_attn_implementation("sdpa")  # its default
    limits = {"top_k": sampling.top_k or 0, "top_p": sampling.top_p or 1.0}
    prompt_BT = torch.zeros(rows, 1, dtype=torch.long)

    def work() -> float:
        with torch.inference_mode():
            face.generate(
                prompt_BT,
                attention_mask=torch.ones_like(prompt_BT),
                max_new_tokens=length,
                do_sample=True,
                pad_token_id=0,
                **limits,
            )
        return rows * length

    return work


def show(title: str, ways: dict[str, Work], passes: int, peer: str | None = None) -> None:
    speeds = interleaved(ways, passes, time.process_time)
    for name in ways:
        spread = speeds.spread(name)
        line = f"{title}, {name}: {spread.median:,.0f} [{spread.low:,.0f}-{spread.high:,.0f}] tokens/s"
        if peer is not None and name != peer:
            times = speeds.ratio(name, peer)
            line += f", {times.median:.2f} [{times.low:.2f}-{times.high:.2f}] times {peer}"
        print(line, flush=True)


def rows(passes: int) -> None:
    for count in (1, 16):
        model = transformer()
        ways = {name: ours(model, count, 200, body) for name, body in BODIES.items()}
        ways["Hugging Face"] = theirs(count, 200, SYMBOLS + 2)
        show(f"batch {count}", ways, passes, "Hugging Face")


def vocabulary(passes: int) -> None:
    model = transformer(WORDS)
    for name, sampling in (("plain sampling", PLAIN), ("top-k 50, top-p 0.9", TRUNCATED)):
        ways = {way: ours(model, 64, 20, body, sampling) for way, body in BODIES.items()}
        ways["Hugging Face"] = theirs(64, 20, WORDS + 2, sampling)
        show(f"{WORDS:,} tokens, batch 64, {name}", ways, passes, "Hugging Face")


def groups(passes: int) -> None:
    for heads in (4, 1):
        model = transformer(key_value_heads=heads)
        ways = {
            f"batch {count}, {name}": ours(model, count, 200, body)
            for name, body in BODIES.items()
            for count in (16, 64)
        }
        show(f"{heads} heads of keys and values", ways, passes)


def length(passes: int) -> None:
    """The median time of a token among the 21 around a position."""
    model = transformer(context=LONG)
    for name, body in BODIES.items():
        for count in (1, 16):
            found: dict[int, list[float]] = {10: [], 1000: []}
            for _ in range(passes):
                writing = Writing(length=1011, end=None, body=body)
                steps = generate(model, model.begin(count), [[model.start]] * count, writing)
                seconds, began = list[float](), time.process_time()
                for _ in steps:
                    ended = time.process_time()
                    seconds.append(ended - began)
                    began = ended
                for place, times in found.items():
                    times.append(statistics.median(seconds[place - 10 : place + 11]))
            near, far = (1000 * statistics.median(times) for times in found.values())
            print(
                f"context {LONG:,}, batch {count}, {name}: {near:.3f} ms at position 10, {far:.3f} ms at "
                f"position 1,000: {far / near:.2f} times",
                flush=True,
            )


def families(passes: int) -> None:
    torch.manual_seed(1)
    ids_N = torch.randint(0, SYMBOLS, (50_000,), dtype=torch.int32)
    counts = Ngram(SYMBOLS, Ngram.Config(order=4))
    counts.fit(Encoded(ids_N, torch.tensor([len(ids_N)]), len(ids_N), 0))
    made: dict[str, LanguageModel] = {
        "lstm, 2 layers of 200": Lstm(SYMBOLS, Lstm.Config(layers=2, width=200)),
        "gru, 1 layer of 256": Gru(SYMBOLS, Gru.Config()),
        "backpack, 4 layers of 128": Backpack(SYMBOLS, Backpack.Config(layers=4, context=CONTEXT)),
        "ngram of order 4": counts,
    }
    for name, model in made.items():
        for count in (1, 16):
            bodies = BODIES if model.learns == "descent" else {"eager": EagerBody}
            ways = {way: ours(model.eval(), count, 100, body) for way, body in bodies.items()}
            show(f"{name}, batch {count}", ways, passes, "eager")


PARTS = {
    "rows": rows,
    "vocabulary": vocabulary,
    "groups": groups,
    "length": length,
    "families": families,
}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", nargs="+", choices=list(PARTS), default=list(PARTS))
    parser.add_argument("--passes", type=int, default=5)
    options = parser.parse_args()
    print(describe_machine(), flush=True)
    for name in options.only:
        PARTS[name](options.passes)


if __name__ == "__main__":
    main()
