"""regard translate RUN: sentences in another language."""

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import tyro

from regard.commands.parsing import EditFile, RunPath, parse
from regard.commands.printing import print_json
from regard.errors import UserError
from regard.inside.links import parse_line
from regard.inside.output import PICTURES, check_ending, write_picture
from regard.inside.pictures import heat_map
from regard.machine.device import Precision
from regard.probabilities.translation import Translation
from regard.runs.folder import Run
from regard.runs.looking import under
from regard.runs.translations import translate, what_if
from regard.text.files import decode
from regard.text.parallel import read_lines


@dataclass(frozen=True, kw_only=True)
class Translate:
    """Translate sentences: those given, those of a file, or standard input as a filter: one line in, one line out, at once."""

    run: RunPath
    text: Annotated[
        tyro.conf.Positional[tuple[str, ...]], tyro.conf.arg(metavar="TEXT", help="Sentences; without any, standard input.")
    ] = ()
    file: str | None = None
    """A file of sentences, a line each."""
    beam: int = 5
    """How many hypotheses are kept; 1 is greedy."""
    length_penalty: float = 1.0
    """Scores are log P / length ** this: above 0 long translations are not held back."""
    count: int = 1
    """How many translations of each sentence, the best first."""
    temperature: float | None = None
    """Sample instead of searching."""
    seed: int = 1
    """For sampling."""
    what_if: str | None = None
    """A link i-j, from 0: target word j is made to look at source word i; the words before it stay, the rest is said again."""
    precision: Precision = "fp32"
    """bf16 is up to twice as fast where a processor knows it, at the price of the scores' last digits; auto measures."""
    out: Path | None = None
    """Draw where the best translation of the first sentence looked: .svg or .png."""
    edit: EditFile = None
    json: bool = False
    """One JSON object on standard output."""


def main(arguments: list[str]) -> None:
    options = parse(Translate, arguments, "translate")
    if options.text and options.file is not None:
        raise UserError("give sentences or --file, not both")
    if options.out is not None:
        check_ending(options.out, PICTURES)
    run = under(options.run, options.edit)
    how: dict[str, Any] = {
        "beam": options.beam, "penalty": options.length_penalty, "count": options.count,
        "temperature": options.temperature, "seed": options.seed,
        "precision": options.precision,
    }  # fmt: skip
    if not options.text and options.file is None and not options.json and options.what_if is None:
        if options.out is not None:
            raise UserError("--out draws one sentence: give it, or --file")
        for number, data in enumerate(sys.stdin.buffer, 1):  # a filter: what comes in goes out before the next is read
            line = decode(data, f"standard input, line {number}").rstrip("\r\n")
            _print(translate(run, line, **how)[0] if line.strip() else [], options.count)
            _warn(run, [line])
        return
    if options.what_if is not None:
        _what_if(run, options)
        return
    lines = list(options.text) or read_lines(options.file or "-")
    filled = [line for line in lines if line.strip()]
    if (options.text and len(filled) < len(lines)) or not filled:
        raise UserError("a sentence is empty: there is nothing to translate")
    answers = iter(translate(run, filled, **how))
    found = [next(answers) if line.strip() else [] for line in lines]  # an empty line stays one
    _warn(run, filled)
    if options.out is not None:
        _draw(next(said for said in found if said)[0], options.out)
        print(f"{options.out} shows it.", file=sys.stderr)
    if options.json:
        print_json(
            {
                "translations": [
                    {"source": line, "translations": [_data(one) for one in said]} for line, said in zip(lines, found, strict=True)
                ]
            }
        )
        return
    for said in found:
        _print(said, options.count)


def _print(said: list[Translation], count: int) -> None:
    if not said:  # an empty line stays one
        print(flush=True)
    for one in said:
        print(one.text if count == 1 else f"{one.score:8.3f}  {one.text}", flush=True)


def _what_if(run: Run, options: Translate) -> None:
    if len(options.text) != 1 or options.count != 1 or options.temperature is not None:
        raise UserError("--what-if moves one link of one sentence: give one, without --count and --temperature")
    sure, possible = parse_line(options.what_if or "", "--what-if")
    if len(sure) != 1 or possible:
        raise UserError("--what-if is one link: i-j, source word i and target word j, from 0")
    before, after = what_if(run, options.text[0], next(iter(sure)), beam=options.beam, penalty=options.length_penalty)
    if options.out is not None:
        _draw(after, options.out)
        print(f"{options.out} shows it.", file=sys.stderr)
    if options.json:
        print_json({"source": options.text[0], "before": _data(before), "after": _data(after)})
    else:
        print(f"{before.score:8.3f}  {before.text}\n{after.score:8.3f}  {after.text}")


def _warn(run: Run, lines: list[str]) -> None:
    """Words never seen are told, on standard error."""
    if run.source is None or run.source.unknown is None:
        return
    ids = [token for line in lines for token in run.source.prompt(line)]
    unknown = sum(token == run.source.unknown for token in ids)
    if unknown:
        print(f"{unknown} of {len(ids)} tokens were never seen and are read as <unk>", file=sys.stderr)


def _data(one: Translation) -> dict[str, object]:
    weights = {site: weights_HTS.tolist() for site, weights_HTS in one.attention.items()}
    return {
        "text": one.text, "score": one.score, "log_prob": one.log_prob,
        "tokens": one.tokens, "source_tokens": one.source_tokens, "attention": weights,
    }  # fmt: skip


def _draw(one: Translation, out: Path) -> None:
    if not one.attention:
        raise UserError("this translator has no attention (--score none): there is nothing to draw")
    site, weights_HTS = list(one.attention.items())[-1]
    grid = heat_map(
        weights_HTS.mean(0).numpy(),
        one.tokens,
        one.source_tokens,
        site if len(weights_HTS) == 1 else f"{site}, mean of {len(weights_HTS)} heads",
    )
    write_picture(grid, out)
