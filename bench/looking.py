"""What looking costs: pages, forward time while a site is watched, memory of a very long text; BertViz beside
it where it is installed.

python bench/looking.py [--only page long watch memory bertviz]
"""

import argparse
import resource
import statistics
import subprocess
import sys
import time

import torch

from regard.inside.observe import Wanted, observe, plain_reading
from regard.models.transformer import Transformer
from regard.page.recording import Source, file_of
from regard.parts.look import Look
from regard.tokens.choose import TokenOptions, train_tokenizer

LETTERS = "abcdefghijklmnopqrstuvwxyz \n"


def make(layers: int, width: int, heads: int, context: int):
    tokenizer, _ = train_tokenizer([LETTERS * 3], TokenOptions(tokens="char"))
    torch.manual_seed(1)
    model = Transformer(
        tokenizer.size, Transformer.Config(layers=layers, width=width, heads=heads, context=context)
    ).eval()
    for block in model.trunk.blocks:  # sharper than at the start, so that maps are not all alike
        torch.nn.init.normal_(block.project.weight, std=0.1)
    return model, tokenizer


def text_of(tokens: int) -> str:
    generator = torch.Generator().manual_seed(2)
    return "".join(
        LETTERS[number]
        for number in torch.randint(0, len(LETTERS) - 1, (tokens - 1,), generator=generator).tolist()
    )


def record(model, tokenizer, text: str, **wanted):
    return observe(model, tokenizer, plain_reading(tokenizer, text), Wanted(**wanted))


def pages(tokens: int, limit: str) -> None:
    model, tokenizer = make(12, 768, 12, tokens)
    text = text_of(tokens)
    record(model, tokenizer, text[:50])
    began, used = time.perf_counter(), time.process_time()
    recorded = record(model, tokenizer, text)
    read = time.perf_counter() - began
    written = file_of("a page", recorded, None, Source("a page"))
    print(
        f"page, 12 layers x 12 heads x {tokens} tokens: {time.perf_counter() - began:.2f} s "
        f"({read:.2f} s to read the text; {time.process_time() - used:.2f} CPU seconds in all), "
        f"{len(written.encode()) / 2**20:.2f} MB (wanted: {limit})",
        flush=True,
    )


def bertviz() -> None:
    """The same shape through transformers and BertViz's model view."""
    try:
        from bertviz import model_view
        from transformers import GPT2Config, GPT2Model
    except ImportError as error:
        print(f"bertviz: not measured ({error})")
        return
    config = GPT2Config(n_positions=256, attn_implementation="eager")  # type: ignore[call-arg]
    model = GPT2Model(config).eval()
    tokens = list(text_of(257))
    began = time.perf_counter()
    with torch.no_grad():
        attention = model(torch.randint(0, 50000, (1, 256)), output_attentions=True).attentions
    written = model_view(attention, tokens, html_action="return").data
    print(
        f"bertviz model_view, 12 x 12 x 256: {time.perf_counter() - began:.2f} s, "
        f"{len(written.encode()) / 2**20:.2f} MB",
        flush=True,
    )


@torch.inference_mode()
def watch() -> None:
    model, tokenizer = make(12, 384, 6, 1024)
    ids = torch.tensor([[tokenizer.start, *tokenizer.prompt(text_of(1024))]])
    rows = torch.arange(0, 1000, 100)

    def plain() -> None:
        model.read_from_start(ids)

    def ten_rows() -> None:
        look = Look(["layer5.attention"])
        model.read_from_start(ids, look=look)
        look.maps["layer5.attention"](rows)

    def whole_map() -> None:
        look = Look(["layer5.attention"])
        model.read_from_start(ids, look=look)
        look.maps["layer5.attention"]()

    seconds = {body.__name__: list[float]() for body in (plain, ten_rows, whole_map)}
    for _ in range(12):
        for body in (plain, ten_rows, whole_map):
            began = time.perf_counter()
            body()
            seconds[body.__name__].append(time.perf_counter() - began)
    middle = {name: statistics.median(times[2:]) for name, times in seconds.items()}
    for name in ("ten_rows", "whole_map"):
        wanted = {"ten_rows": 1.10, "whole_map": 1.30}[name]
        print(
            f"forward of 1,024 tokens, 12 layers of 384, one site watched, {name.replace('_', ' ')}: "
            f"{middle[name] / middle['plain']:.3f} times ({middle[name] * 1e3:.0f} ms; wanted {wanted})",
            flush=True,
        )


def memory() -> None:
    model, tokenizer = make(12, 384, 6, 32768)
    text = text_of(32768)
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    began = time.perf_counter()
    recorded = record(model, tokenizer, text, rows=[-1])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    shapes = {tuple(shown.numbers.shape) for shown in recorded.weights().values()}
    print(
        f"one row of every map of 32,768 tokens, 12 layers of 384: {time.perf_counter() - began:.0f} s, "
        f"peak {peak:.1f} GiB ({before:.1f} before; maps {shapes}; wanted: under 24)",
        flush=True,
    )
    began = time.perf_counter()
    tile = recorded.map("layer7.attention").tile(range(20000, 20064), range(10000, 10064))
    print(f"any tile of it, 64 x 64: {time.perf_counter() - began:.2f} s, {tuple(tile.shape)}", flush=True)


PARTS = {
    "page": lambda: pages(256, "2 s, 5 MB"),
    "long": lambda: pages(4096, "20 MB"),
    "bertviz": bertviz,
    "watch": watch,
    "memory": memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", choices=list(PARTS))
    options = parser.parse_args()
    chosen = options.only or list(PARTS)
    if len(chosen) == 1:
        PARTS[chosen[0]]()
        return
    for name in chosen:  # each in a process of its own: peaks of memory do not add up
        subprocess.run([sys.executable, __file__, "--only", name], check=True)


if __name__ == "__main__":
    main()
