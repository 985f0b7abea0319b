"""regard generate RUN: write text after a prompt."""

import copy
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from regard.boundary import check_ranges
from regard.errors import UserError, notify
from regard.inside.edit_model import edited
from regard.machine.device import Precision, check_precision
from regard.machine.memory import check_memory
from regard.probabilities import decoder
from regard.probabilities.captured import body_for, compiled_body_for
from regard.probabilities.decoder import Writing
from regard.probabilities.sampling import Sampling
from regard.probabilities.stop_text import StopText
from regard.ranges import Count, NotNegative, Part, Rows, Seed
from regard.runs.derived import to_best_device
from regard.runs.run import Run, require_plain_text
from regard.tables import visible
from regard.tokens.contract import Tokenizer
from regard.verbs.arguments import Edits, RunLike
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, show_text


@check_ranges
def generate(
    run: RunLike,
    prompt: str = "",
    *,
    length: Count = 200,
    temperature: NotNegative = 1.0,
    top_k: Count | None = None,
    top_p: Part | None = None,
    stop: str | None = None,
    count: Rows = 1,
    seed: Seed = 1,
    edit: Edits = None,
    precision: Precision = "fp32",
    compile: bool = False,
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
        stop: End a text before this string.
        count: The number of texts.
        seed: The same seed gives the same texts. The first of several texts does not depend on `count`.
        edit: Change the model: a JSON file of edits, or the JSON itself.
        precision: The precision of the weights. auto: bf16 on a GPU, fp32 elsewhere.
        compile: Compile the decoder's step. The first text waits for the compiler; long and many texts gain.
            On a CPU the result is kept, and later calls use it.
    """
    options: dict[str, Any] = {
        "temperature": temperature,
        "top_k": top_k,
        "top_p": top_p,
        "stop": stop,
        "count": count,
    }
    options |= {"seed": seed, "edit": edit, "precision": precision, "compile": compile}
    texts = [""] * count
    for pieces in stream(run, prompt, length=length, **options):
        texts = [text + piece for text, piece in zip(texts, pieces, strict=True)]
    return texts


def _prepared(run: Run, precision: Precision) -> Run:
    """The run on the best device, with its weights in the precision."""
    check_precision(precision)
    to_best_device(run.language_model)
    halves = precision == "bf16" or (precision == "auto" and run.language_model.device.type == "cuda")
    if not halves or any(member.model.learns != "descent" for member in run.language_model.members()):
        return run
    return dataclasses.replace(run, model=copy.deepcopy(run.language_model).bfloat16())


@check_ranges
def stream(
    run: Run | str | Path,
    prompt: str,
    *,
    length: Count,
    temperature: NotNegative,
    top_k: Count | None,
    top_p: Part | None,
    stop: str | None,
    count: Rows,
    seed: Seed,
    edit: Any,
    precision: Precision,
    compile: bool,
) -> Iterator[list[str]]:
    """Yield the next piece of each of `count` texts. The options are those of generate()."""
    sampling = Sampling(temperature=temperature, top_k=top_k, top_p=top_p)
    if stop == "":
        raise UserError("`stop` must not be empty; leave it out to stop nowhere")
    opened = _prepared(require_plain_text(edited(run, edit)), precision)
    tokenizer, model = opened.tokenizer, opened.language_model
    check_memory(4 * count * model.vocabulary_size, f"`count` {count}")  # a logit for each text and token
    ids = [tokenizer.start, *_prompt_ids(tokenizer, prompt)]
    decoders = [tokenizer.decoder(ids[-1]) for _ in range(count)]
    texts = [StopText(stop) for _ in range(count)]
    body = compiled_body_for if compile else body_for
    writing = Writing(length=length, end=tokenizer.stop, sampling=sampling, seed=seed, body=body)
    for written in decoder.generate(model, model.begin(count), [ids] * count, writing):
        rows = zip(texts, decoders, written.tokens, strict=True)
        yield [text.add("" if token == decoder.ENDED else decode(token)) for text, decode, token in rows]
        if all(text.ended for text in texts):
            return
    yield [text.rest() for text in texts]


def _prompt_ids(tokenizer: Tokenizer, prompt: str) -> list[int]:
    """Encode the prompt. A notice names what the model has not seen in training."""
    ids = tokenizer.prompt(prompt)
    unknown = sum(token == tokenizer.unknown for token in ids)
    if unknown:
        kind = "characters" if tokenizer.kind == "char" else "tokens"
        seen = "were never seen in training and are read as <unk>"
        notify(f"{unknown} of the prompt's {len(ids)} {kind} {seen}{_names(tokenizer, prompt)}")
    return ids


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


def _print_live(run: str, prompt: str, **options: Any) -> None:
    """Print each piece as soon as the model has written it. The prompt is printed with the first piece."""
    shown, piece = prompt, prompt
    for (new,) in stream(run, prompt, **options):
        piece = new or piece
        print(show_text(shown + new), end="", flush=True)
        shown = ""
    sys.stdout.write("" if piece.endswith("\n") else "\n")
