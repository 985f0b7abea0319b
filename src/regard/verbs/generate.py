"""regard generate RUN: text that goes on from a prompt."""

import sys
from collections.abc import Iterator

from regard.errors import UserError, notify
from regard.inside.edit_model import edited
from regard.probabilities import decoder
from regard.probabilities.decoder import Writing
from regard.probabilities.sampling import Sampling
from regard.ranges import check_seed
from regard.runs.run import Run, require_plain_text
from regard.verbs.arguments import Edits, RunLike
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json


def generate(
    run: RunLike,
    prompt: str = "",
    *,
    length: int = 200,
    temperature: float = 1.0,
    top_k: int | None = None,
    top_p: float | None = None,
    count: int = 1,
    seed: int = 1,
    edit: Edits = None,
) -> list[str]:
    """Write text with a run. One text is streamed as it is written; several come one after the other.

    >>> regard.generate("runs/ngram", prompt="The", length=20)  # doctest: +SKIP

    Args:
        run: A run folder, an ARPA file, or a GPT-2 checkpoint.
        prompt: The beginning of the text.
        length: The most tokens to write. A document may end before.
        temperature: Below 1 bolder, above 1 wilder; 0 always takes the likeliest token.
        top_k: Choose among the k likeliest tokens.
        top_p: Choose among the smallest set of likeliest tokens whose probabilities sum to this share or more.
        count: How many texts.
        seed: The same seed gives the same texts. The first of several texts is the text that is written alone.
        edit: Change the model: a JSON file of edits, or the JSON itself.
    """
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    texts = [""] * count
    for pieces in stream(edited(run, edit), prompt, length, count, seed, sampling):
        texts = [text + piece for text, piece in zip(texts, pieces, strict=True)]
    return texts


def stream(
    run: Run, prompt: str, length: int, count: int, seed: int, sampling: Sampling
) -> Iterator[list[str]]:
    """`count` texts at once, piece by piece as they are written."""
    require_plain_text(run)
    if length < 1 or count < 1:
        raise UserError("`length` and `count` must be 1 or more")
    tokenizer, model = run.tokenizer, run.model
    prompt_ids = tokenizer.prompt(prompt)
    unknown = sum(token == tokenizer.unknown for token in prompt_ids)
    if unknown:
        notify(
            f"{unknown} of the prompt's {len(prompt_ids)} tokens were never seen in training and are read as <unk>"
        )
    ids = [tokenizer.start, *prompt_ids]
    decoders = [tokenizer.decoder(ids[-1]) for _ in range(count)]
    writing = Writing(length=length, end=tokenizer.stop, sampling=sampling, seed=check_seed(seed))
    steps = decoder.generate(model, model.begin(count), [ids] * count, writing)
    for written in steps:
        tokens = zip(decoders, written.token_B.tolist(), strict=True)
        yield ["" if token == decoder.ENDED else decode(token) for decode, token in tokens]


def main(arguments: list[str]) -> None:
    call = parse(generate, arguments)
    prompt, count = call.values["prompt"], call.values["count"]
    if call.json:
        print_json({"prompt": prompt, "texts": generate(**call.values)})
    elif count == 1:
        _print_live(**call.values)
    else:
        print("\n---\n".join(prompt + text for text in generate(**call.values)))


def _print_live(
    run: str,
    prompt: str,
    length: int,
    temperature: float,
    top_k: int | None,
    top_p: float | None,
    count: int,
    seed: int,
    edit: str | None,
) -> None:
    """Write each piece as soon as it is there."""
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    piece = ""
    for number, (piece,) in enumerate(stream(edited(run, edit), prompt, length, count, seed, sampling)):
        print(prompt * (number == 0) + piece, end="", flush=True)
    sys.stdout.write("" if piece.endswith("\n") else "\n")
