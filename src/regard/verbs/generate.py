"""regard generate RUN: write text after a prompt."""

import sys
from collections.abc import Iterator

from regard.errors import UserError, notify
from regard.inside.edit_model import edited
from regard.probabilities import decoder
from regard.probabilities.decoder import Writing
from regard.probabilities.sampling import Sampling
from regard.ranges import check_seed
from regard.runs.run import Run, require_plain_text
from regard.tables import visible
from regard.tokens.contract import Tokenizer
from regard.verbs.arguments import Edits, RunLike
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, show_text


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
    """Write text after a prompt. Each returned text begins after the prompt.

    >>> regard.generate("runs/ngram", prompt="The", length=20)  # doctest: +SKIP

    Args:
        run: A run folder, an ARPA file, or a GPT-2 checkpoint.
        prompt: The beginning of the text.
        length: The maximal number of new tokens. The model may end the document before.
        temperature: Below 1, likely tokens are preferred; above 1, less so. 0 takes the likeliest token.
        top_k: Sample from the k likeliest tokens.
        top_p: Sample from the smallest set of likeliest tokens whose probabilities sum to this share.
        count: The number of texts.
        seed: The same seed gives the same texts. The first of several texts does not depend on `count`.
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
    """Yield the next piece of each of `count` texts."""
    require_plain_text(run)
    if length < 1 or count < 1:
        raise UserError("`length` and `count` must be 1 or more")
    tokenizer, model = run.tokenizer, run.model
    prompt_ids = tokenizer.prompt(prompt)
    unknown = sum(token == tokenizer.unknown for token in prompt_ids)
    if unknown:
        kind = "characters" if tokenizer.kind == "char" else "tokens"
        seen = "were never seen in training and are read as <unk>"
        notify(f"{unknown} of the prompt's {len(prompt_ids)} {kind} {seen}{_names(tokenizer, prompt)}")
    ids = [tokenizer.start, *prompt_ids]
    decoders = [tokenizer.decoder(ids[-1]) for _ in range(count)]
    writing = Writing(length=length, end=tokenizer.stop, sampling=sampling, seed=check_seed(seed))
    steps = decoder.generate(model, model.begin(count), [ids] * count, writing)
    for written in steps:
        tokens = zip(decoders, written.token_B.tolist(), strict=True)
        yield ["" if token == decoder.ENDED else decode(token) for decode, token in tokens]


def _names(tokenizer: Tokenizer, prompt: str) -> str:
    """List the unknown characters of a prompt, in a message. Other tokens are not listed."""
    if tokenizer.kind != "char":
        return ""
    unknown = [letter for letter in dict.fromkeys(prompt) if tokenizer.prompt(letter) == [tokenizer.unknown]]
    return f": {' '.join(visible(letter) for letter in unknown[:10])}"


def main(arguments: list[str]) -> None:
    call = parse(generate, arguments)
    prompt, count = call.values["prompt"], call.values["count"]
    if call.json:
        print_json({"prompt": prompt, "texts": generate(**call.values)})
    elif count == 1:
        _print_live(**call.values)
    else:
        print("\n---\n".join(show_text(prompt + text) for text in generate(**call.values)))


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
    """Print each piece as soon as the model has written it."""
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    piece = ""
    for number, (piece,) in enumerate(stream(edited(run, edit), prompt, length, count, seed, sampling)):
        print(show_text(prompt * (number == 0) + piece), end="", flush=True)
    sys.stdout.write("" if piece.endswith("\n") else "\n")
