"""regard senses RUN WORD...: read and edit the sense vectors of a Backpack."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import torch

from regard import tables
from regard.boundary import check_ranges
from regard.errors import UserError, notify
from regard.inside.edit_model import edited, save_edits
from regard.inside.pictures import heat_map
from regard.inside.pictures import table as picture_of_table
from regard.inside.residual_stream import single_token
from regard.inside.sense_table import (
    FEATURES,
    SENSES,
    Contributions,
    Sense,
    Similarity,
    bias_ratio,
    contributions,
    direction,
    require_senses,
    sense_numbers,
    sense_vectors,
    senses_of,
)
from regard.inside.sheet import Heading, Part, Picture, Prose, Table, check_sheet, text_table, write_sheet
from regard.parts.edit_kinds import Project, Steer, Swap
from regard.parts.edits import Edit, Scale, Zero
from regard.ranges import Finite, Rows
from regard.runs.run import Run
from regard.text.parallel import read_lines
from regard.verbs.arguments import Edits, File, Names, Numbers, Out, RunLike
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, tell

Words = Annotated[str | Sequence[str], Argument(tuple[str, ...], positional=True, metavar="WORD")]
Do = Literal["scale", "remove", "swap", "project", "steer"]


@dataclass(frozen=True)
class Senses(tables.Table):
    """The senses of words, and the effects of an edit."""

    words: list[str]
    senses: list[list[Sense]]  # of each word
    similarities: list[Similarity]
    contributions: Contributions | None = None
    before: Contributions | None = None  # without the edit
    bias: tuple[float, float] | None = None  # the bias ratio before and after the edit
    edits: list[Edit] = field(default_factory=list)

    def rows(self) -> tables.TableRows:
        """A row for each word and sense: the words that the sense raises most, and the most similar words."""
        return [
            {
                "word": word,
                "sense": sense.number,
                "says": " ".join(_visible(name) for name, _ in sense.says),
                "alike": " ".join(_visible(name) for name, _ in sense.alike),
            }
            for word, own in zip(self.words, self.senses, strict=True)
            for sense in own
        ]

    def to_json(self) -> dict[str, Any]:
        tables = zip(self.words, self.senses, strict=True)
        return {
            "words": [
                {"word": word, "senses": [sense.to_json() for sense in table]} for word, table in tables
            ],
            "similarities": [one.to_json() for one in self.similarities],
            "contributions": None if self.contributions is None else self.contributions.to_json(),
            "before": None if self.before is None else self.before.to_json(),
            "bias": None if self.bias is None else {"before": self.bias[0], "after": self.bias[1]},
        }


@check_ranges
def senses(
    run: RunLike,
    words: Words,
    *,
    text: str | None = None,
    following: str | None = None,
    top: Rows = 6,
    do: Do | None = None,
    sense: Numbers = None,
    by: Finite = 0.0,
    direction_of: Names = (),
    every_word: bool = False,
    prompts: File = None,
    contrast: Names = (),
    edit: Edits = None,
    save: Out = None,
    out: Out = None,
) -> Senses:
    """Show what each sense of some words says, and edit the senses of these words, or of every word.

    >>> regard.senses("runs/backpack", ["trick", "sick"]).senses[0][2].says  # doctest: +SKIP

    Args:
        run: The run folder of a Backpack.
        words: Words of the vocabulary.
        text: A text. Show the term of each sense of each of its words in the score of every next word.
        following: The word after the text; without it, the likeliest.
        top: The number of words shown for each sense.
        do: Edit senses: scale them (--by), remove them, swap two, project a direction out of them, or steer
            all predictions by one.
        sense: The senses that are edited, from 0; all without it.
        by: The factor of scale, or of steer.
        direction_of: The direction of project: a word, or two whose difference it is.
        every_word: Edit these senses of every word, not of the named ones alone.
        prompts: A file with a prompt in each line. Show the bias ratio of --contrast after them.
        contrast: Two words whose probabilities after the prompts are compared.
        edit: A patch that was saved before, or any other edits; comes before --do.
        save: Write the edit to a JSON file, a patch, which --edit of every verb loads.
        out: Write it to a file: .html, .svg, .png or .json.
    """
    check_sheet(out)
    named = _named(words)
    if do is None and (sense is not None or direction_of or every_word):
        raise UserError("`sense`, `direction_of` and `every_word` go with `do`, which says what to change")
    plain = edited(run, None)
    require_senses(plain.language_model)
    start = edited(run, edit)
    edits = [] if do is None else [_edit(start, named, do, sense, by, direction_of, every_word)]
    if save is not None:
        _save(plain, edits, save)
    changed = edited(start, edits) if edits else start
    tables, similarities = senses_of(changed, named, top)
    has_changed = bool(edits) or edit is not None
    after = None if text is None else contributions(changed, text, following)
    before = None if text is None or not has_changed else contributions(plain, text, following)
    if text is not None and edits and do != "steer" and not every_word:
        _tell_absent(plain, named, text)
    bias = _bias(plain, changed, prompts, contrast)
    result = Senses(named, tables, similarities, after, before, bias, edits)
    if out is not None:
        _write(result, out)
    return result


def _named(words: Words) -> list[str]:
    named = [words] if isinstance(words, str) else list(words)
    if not named:
        raise UserError("which words? regard senses RUN WORD...")
    return named


def _tell_absent(run: Run, words: list[str], text: str) -> None:
    """Notify the user of an edit of words of which none stands in the text."""
    read = set(run.tokenizer.prompt(text))
    if not read & {single_token(run.tokenizer, word) for word in words}:
        notify("none of the edited words is a token of the text: mind a space before it (' the')")


def _save(run: Run, edits: list[Edit], path: str | Path) -> None:
    if not edits:
        raise UserError("`save` goes with `do`, which says what to change")
    save_edits(run, edits, path)


def _write(result: Senses, out: str | Path) -> None:
    title = f"The senses of {', '.join(result.words)}"
    write_sheet(out, title, _page(result), _picture(result), result.to_json())


def _edit(
    run: Run, words: list[str], do: Do, sense: Numbers, by: float, direction_of: Names, every_word: bool
) -> Edit:
    numbers = None if sense is None else sense_numbers(run.language_model, sense)
    where: dict[str, Any] = {"site": SENSES, "heads": numbers, "words": None if every_word else tuple(words)}
    match do:
        case "scale":
            return Scale(**where, by=by)
        case "remove":
            return Zero(**where)
        case "swap":
            if numbers is None or len(set(numbers)) != 2:
                raise UserError("swap: name the two senses that change places with `sense`")
            return Swap(**where)
        case "project":
            names = [direction_of] if isinstance(direction_of, str) else list(direction_of)
            return Project(**where, direction=direction(run.language_model, run.tokenizer, names))
        case "steer":
            if numbers is None or len(numbers) != 1 or len(words) != 1:
                raise UserError("steer: name one word, and with `sense` the one of its senses that steers")
            if by == 0:
                raise UserError("steer: say with `by` how much of the sense is added")
            token = single_token(run.tokenizer, words[0])
            vector = sense_vectors(run.language_model, torch.tensor([token]))[0, numbers[0]]
            return Steer(site=FEATURES, direction=tuple(vector.tolist()), by=by)


def _bias(plain: Run, changed: Run, prompts: File, contrast: Names) -> tuple[float, float] | None:
    if prompts is None:
        if contrast:
            raise UserError(
                "`contrast` goes with `prompts`, a file of texts after which one of the words comes"
            )
        return None
    lines = [line for line in read_lines(str(prompts)) if line.strip()]
    two = [contrast] if isinstance(contrast, str) else list(contrast)
    return bias_ratio(plain, lines, two), bias_ratio(changed, lines, two)


def _table(result: Senses, place: int) -> Table:
    rows = [
        [
            str(sense.number),
            " ".join(_visible(word) for word, _ in sense.says),
            f"{sense.says[0][1]:.2f}",
            " ".join(_visible(word) for word, _ in sense.alike),
            f"{sense.alike[0][1]:.2f}",
        ]
        for sense in result.senses[place]
    ]
    return Table(
        [f"“{result.words[place]}”, sense", "says (score raised most)", "by", "alike", "cosine"], rows
    )


def _visible(word: str) -> str:
    return word.strip() or repr(word)[1:-1]


def _similarities(result: Senses) -> Table:
    count = len(result.senses[0])
    rows = [
        [
            " ~ ".join(one.words),
            *(f"{cosine:+.2f}" for cosine in one.cosines),
            f"{max(one.cosines):+.2f}",
            f"{min(one.cosines):+.2f}",
        ]
        for one in result.similarities
    ]
    return Table(["cosine", *(f"sense {number}" for number in range(count)), "best", "least"], rows)


def _terms(found: Contributions) -> Table:
    """Make a table of context words and senses: their shares in the score of the last next word."""
    values_LT = found.values_TLT[-1]
    rows = [
        [f"{place} {_visible(token)}", *(f"{value:+.2f}" for value in values_LT[:, place].tolist())]
        for place, token in enumerate(found.tokens)
    ]
    rows.append(["sum", *(f"{value:+.2f}" for value in values_LT.sum(1).tolist())])
    total = float(values_LT.sum()) + found.bias[-1]
    columns = (f"sense {number}" for number in range(len(values_LT)))
    return Table([f"score of “{found.next[-1]}” {total:+.2f} (bias {found.bias[-1]:+.2f})", *columns], rows)


def _next(result: Senses) -> Table:
    assert result.contributions is not None
    after, before = result.contributions, result.before
    rows = [
        [f"{place} {_visible(token)}", following, f"{after.probabilities[place]:.3g}"]
        + ([] if before is None else [f"{before.probabilities[place]:.3g}", before.next[place]])
        for place, (token, following) in enumerate(zip(after.tokens, after.next, strict=True))
    ]
    more = [] if before is None else ["P before the edit", "its next word"]
    return Table(["read", "next word", "P", *more], rows)


def _tables(result: Senses) -> list[Table]:
    tables = [_table(result, place) for place in range(len(result.words))]
    tables += [_similarities(result)] if result.similarities else []
    if result.contributions is not None:
        tables += [_terms(result.contributions), _next(result)]
    return tables


def _picture(result: Senses) -> str:
    """Draw the words that each sense raises most, or, for a text, the share of each sense of each word."""
    if result.contributions is not None:
        found = result.contributions
        values = found.values_TLT[-1].T.numpy()
        names = [f"sense {number}" for number in range(values.shape[1])]
        return heat_map(values, found.tokens, names, f"the score of “{found.next[-1]}”, by sense")
    rows, words, shares = [], [], []
    for word, table in zip(result.words, result.senses, strict=True):
        for sense in table:
            rows.append(f"{word} {sense.number}")
            words.append([_visible(name) for name, _ in sense.says])
            shares.append([score for _, score in sense.says])
    scores = np.array(shares)
    columns = [str(place + 1) for place in range(scores.shape[1])]
    scaled = np.clip(scores / max(float(scores.max()), 1e-9), 0, 1)
    return picture_of_table(
        scaled, rows, columns, words, "What each sense says (darker: raises the score more)"
    )


def _page(result: Senses) -> list[Part]:
    about = (
        "A sense vector belongs to a word alone, whatever stands around it. “Says” lists the words whose "
        "score it raises most, above the mean word's; “alike” the words whose sense of the same number "
        "points the same way. How much of a sense is used depends on the text."
    )
    bias = [] if result.bias is None else [Prose(_bias_line(result.bias))]
    return [Picture(_picture(result)), Prose(about), *bias, Heading("Numbers"), *_tables(result)]


def _bias_line(bias: tuple[float, float]) -> str:
    return f"Bias ratio over the prompts: {bias[0]:.3f} before, {bias[1]:.3f} after the edit (1 is none)."


def main(arguments: list[str]) -> None:
    call = parse(senses, arguments)
    result = senses(**call.values)
    for name in ("out", "save"):
        if call.values[name] is not None:
            tell(f"{call.values[name]} is written.")
    if call.json:
        print_json(result.to_json())
        return
    print("\n\n".join(text_table(table) for table in _tables(result)))
    if result.bias is not None:
        print(f"\n{_bias_line(result.bias)}")
