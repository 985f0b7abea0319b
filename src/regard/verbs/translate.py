"""regard translate RUN: translate sentences, or move a link of the attention and translate again."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

from regard.boundary import check_ranges
from regard.errors import UserError, notify
from regard.inside.edit_model import edited
from regard.inside.output import PICTURES, check_ending, write_picture
from regard.inside.pictures import heat_map
from regard.machine.device import Precision, in_precision
from regard.models.wrappers.edited import Edited
from regard.parts.edits import Set
from regard.probabilities import translation
from regard.probabilities.links import parse_line
from regard.probabilities.sampling import Sampling
from regard.probabilities.translation import Search, Translation, crossing_sites
from regard.ranges import Beam, NotNegative, Seed
from regard.runs.run import Run, require_translator
from regard.tables import Table, TableRows
from regard.text.files import decode
from regard.text.parallel import read_lines
from regard.tokens.word_groups import line_groups, word_groups
from regard.verbs.arguments import Edits, File, Out, RunLike
from regard.verbs.options import Argument
from regard.verbs.parsing import Call, parse
from regard.verbs.printing import print_json, show, show_text, tell

MOST_PENALTY = 10
Sentences = Annotated[str | Sequence[str], Argument(tuple[str, ...], positional=True, metavar="TEXT")]


@dataclass(frozen=True)
class Translations(Table, Sequence[list[Translation]]):
    """The translations of each sentence, the best first. An empty line has none."""

    sources: list[str]
    best: list[list[Translation]]

    def __len__(self) -> int:
        return len(self.best)

    def __getitem__(self, place: Any) -> Any:
        return self.best[place]

    def to_json(self) -> dict[str, Any]:
        pairs = zip(self.sources, self.best, strict=True)
        return {
            "translations": [{"source": line, "translations": list(map(_data, best))} for line, best in pairs]
        }

    def rows(self) -> TableRows:
        """A row for each translation: the source, the translation, its score and its log-probability."""
        return [
            _row(line, translated)
            for line, best in zip(self.sources, self.best, strict=True)
            for translated in best
        ]


@dataclass(frozen=True)
class WhatIf(Table):
    """A translation before and after a link was moved."""

    source: str
    before: Translation
    after: Translation

    def to_json(self) -> dict[str, Any]:
        return {"source": self.source, "before": _data(self.before), "after": _data(self.after)}

    def rows(self) -> TableRows:
        """Two rows: the translation before and after."""
        return [_row(self.source, self.before), _row(self.source, self.after)]


@check_ranges
def translate(
    run: RunLike,
    text: Sentences = (),
    *,
    file: File = None,
    beam: Beam = 5,
    length_penalty: NotNegative = 1.0,
    count: Beam = 1,
    temperature: NotNegative | None = None,
    seed: Seed = 1,
    what_if: str | None = None,
    precision: Precision = "fp32",
    out: Out = None,
    edit: Edits = None,
) -> Translations | WhatIf:
    """Translate sentences: arguments, the lines of a file, or the lines of standard input.

    >>> regard.translate("runs/recurrent-translator", "I love you a lot")[0][0].text  # doctest: +SKIP
    'Te amo mucho'

    Args:
        run: A translator's run folder.
        text: Sentences. Without sentences, standard input.
        file: A file with a sentence in each line.
        beam: The number of hypotheses of the beam search; 1 is greedy search.
        length_penalty: Hypotheses are ranked by log P / length ** penalty. 0 prefers short translations.
        count: The number of translations of each sentence, the best first.
        temperature: Sample translations at this temperature instead of the search.
        seed: The seed of sampled translations.
        what_if: A link i-j, from 0: target word j must attend to source word i. The words before word j stay,
            and the search finds the rest.
        precision: bf16 is faster on processors that have it, and gives scores of three digits; auto measures.
        out: Draw the attention of the first sentence's best translation (.svg or .png).
        edit: Change the model: a JSON file of edits, or the JSON itself.
    """
    opened = require_translator(edited(run, edit))
    if out is not None:
        check_ending(Path(out), PICTURES)
    if not abs(length_penalty) <= MOST_PENALTY:
        raise UserError(f"`length_penalty` lies between -{MOST_PENALTY} and {MOST_PENALTY}")
    lines = _lines(text, file)
    filled = [line for line in lines if line.strip()]
    sampling = _sampling(temperature)
    search = Search(beam=beam, penalty=length_penalty, count=count, sampling=sampling, seed=seed)
    _tell_unknown(opened, filled)
    if what_if is not None:
        if len(lines) != 1 or count != 1 or temperature is not None:
            single = "give one sentence, without `count` and `temperature`"
            raise UserError(f"`what_if` moves one link of one sentence: {single}")
        moved = _what_if(opened, lines[0], what_if, search)
        if out is not None:
            _draw(moved.after, out)
        return moved
    sides = opened.both_tokenizers()
    with in_precision(precision):
        answers = iter(translation.translate(opened.language_model, *sides, filled, search))
    best = [next(answers) if line.strip() else [] for line in lines]
    if out is not None:
        _draw(next(hypotheses for hypotheses in best if hypotheses)[0], out)
    return Translations(lines, best)


def _lines(text: Sentences, file: File) -> list[str]:
    """Return the sentences. A file may have empty lines between sentences."""
    if text and file is not None:
        raise UserError("give sentences or `file`, not both")
    given = [text] if isinstance(text, str) else list(text)
    lines = given or read_lines("-" if file is None else str(file))
    if not any(line.strip() for line in lines) or not all(line.strip() for line in given):
        raise UserError("a sentence is empty: there is nothing to translate")
    return lines


def _sampling(temperature: float | None) -> Sampling | None:
    return None if temperature is None else Sampling(temperature=temperature)


def _what_if(run: Run, text: str, link: str, search: Search) -> WhatIf:
    """Translate, then translate again with the attention of one target word set to one source word.

    The words before the target word stay, and the search finds the rest. The attention is set in every layer
    and head. Of a word of several tokens, the attention of the first token is set.
    """
    source, target = run.both_tokenizers()
    sites = crossing_sites(run.language_model)
    if not sites:
        raise UserError("this translator has no attention (`score` none): there is no link to move")
    sure, possible = parse_line(link, "`what_if`")
    if len(sure) != 1 or possible:
        raise UserError("`what_if` is one link: i-j, source word i and target word j, from 0")
    ((i, j),) = sure
    ((before, *_),) = translation.translate(run.language_model, source, target, [text], search)
    looked_at, written = line_groups(text, source), word_groups(before.tokens, target.kind)
    looked_at.append(range(looked_at[-1].stop, looked_at[-1].stop + 1))  # the end token of the source
    if not (0 <= i < len(looked_at) and 0 <= j < len(written)):
        last = f"source words go from 0 to {len(looked_at) - 1}, target words from 0 to {len(written) - 1}"
        raise UserError(f"{i}-{j} lies outside: {last}")
    columns, row = tuple(looked_at[i]), written[j].start
    changes = {site: Set(site=site, rows=(row,), columns=columns, value=1 / len(columns)) for site in sites}
    again = Search(beam=search.beam, penalty=search.penalty, prefix=tuple(before.ids[:row]))
    ((after, *_),) = translation.translate(Edited(run.language_model, changes), source, target, [text], again)
    return WhatIf(text, before, after)


def _tell_unknown(run: Run, lines: list[str]) -> None:
    assert run.source is not None
    if run.source.unknown is None:
        return
    ids = [token for line in lines for token in run.source.prompt(line)]
    unknown = sum(token == run.source.unknown for token in ids)
    if unknown:
        notify(f"{unknown} of {len(ids)} tokens were never seen in training and are read as <unk>")


def _row(source: str, translated: Translation) -> dict[str, Any]:
    return {
        "source": source,
        "translation": translated.text,
        "score": translated.score,
        "log_prob": translated.log_prob,
    }


def _draw(translated: Translation, out: Any) -> None:
    if not translated.attention:
        raise UserError("this translator has no attention (`score` none): there is nothing to draw")
    site, weights_HTS = list(translated.attention.items())[-1]
    title = site if len(weights_HTS) == 1 else f"{site}, mean of {len(weights_HTS)} heads"
    write_picture(
        heat_map(weights_HTS.mean(0).numpy(), translated.tokens, translated.source_tokens, title), out
    )


def main(arguments: list[str]) -> None:
    call = parse(translate, arguments)
    values = call.values
    if not values["text"] and values["file"] is None and not call.json and values["what_if"] is None:
        _filter(call)
        return
    result = translate(**values)
    if values["out"] is not None:
        tell(f"{values['out']} shows it.")
    if isinstance(result, WhatIf):
        _print_what_if(result, call.json)
        return
    if call.json:
        print_json(result.to_json())
        return
    for best in result:
        _print(best, values["count"])


def _filter(call: Call) -> None:
    """Translate standard input line by line. Each translation is printed before the next line is read."""
    if call.values["out"] is not None:
        raise UserError("`out` draws the first sentence: give sentences, or `file`")
    run = require_translator(edited(call.values["run"], call.values["edit"]))
    rest = {name: value for name, value in call.values.items() if name not in ("run", "text", "edit")}
    for number, data in enumerate(sys.stdin.buffer, 1):
        line = decode(data, f"standard input, line {number}").rstrip("\r\n")
        best = translate(run, line, **rest)[0] if line.strip() else []  # type: ignore[index]
        _print(best, call.values["count"])


def _print(best: list[Translation], count: int) -> None:
    if not best:  # the translation of an empty line is an empty line
        print(flush=True)
    for translated in best:
        text = translated.text if count == 1 else f"{translated.score:8.3f}  {translated.text}"
        print(show_text(text), flush=True)


def _print_what_if(result: WhatIf, json: bool) -> None:
    if json:
        print_json(result.to_json())
    else:
        for translated in (result.before, result.after):
            show(f"{translated.score:8.3f}  {translated.text}")


def _data(translated: Translation) -> dict[str, object]:
    return {
        "text": translated.text,
        "score": translated.score,
        "log_prob": translated.log_prob,
        "tokens": translated.tokens,
        "source_tokens": translated.source_tokens,
        "attention": {site: weights_HTS.tolist() for site, weights_HTS in translated.attention.items()},
    }
