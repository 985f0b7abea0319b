"""regard generate RUN: text that goes on from a prompt."""

import sys
from dataclasses import dataclass

from regard.commands.parsing import EditFile, RunPath, parse
from regard.commands.printing import print_json
from regard.probabilities.decoder import Sampling
from regard.runs.looking import under
from regard.runs.using import stream, writer


@dataclass(frozen=True, kw_only=True)
class Generate:
    """Write text with a run. One text is streamed as it is written; several come one after the other."""

    run: RunPath
    prompt: str = ""
    """What the text begins with."""
    length: int = 200
    """The most tokens to write; a document that ends, ends before."""
    temperature: float = 1.0
    """Below 1 bolder, above 1 wilder; 0 always takes the likeliest token."""
    top_k: int | None = None
    """Choose among the k likeliest tokens."""
    top_p: float | None = None
    """Choose among the fewest tokens that hold this share of the probability."""
    count: int = 1
    """How many texts."""
    seed: int = 1
    """The same seed gives the same texts."""
    edit: EditFile = None
    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    options = parse(Generate, arguments, "generate")
    sampling = Sampling(temperature=options.temperature, top_k=options.top_k, top_p=options.top_p)
    run = writer(under(options.run, options.edit))
    texts = [""] * options.count
    live = options.count == 1 and not options.json
    for number, pieces in enumerate(stream(run, options.prompt, options.length, options.count, options.seed, sampling)):
        if live:
            print(options.prompt * (number == 0) + pieces[0], end="", flush=True)
        texts = [text + piece for text, piece in zip(texts, pieces, strict=True)]
    if options.json:
        print_json({"prompt": options.prompt, "texts": texts})
    elif live:
        sys.stdout.write("" if texts[0].endswith("\n") else "\n")
    else:
        print("\n---\n".join(options.prompt + text for text in texts))
