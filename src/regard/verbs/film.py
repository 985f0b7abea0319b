"""regard film RUN: show how attention heads change during a training."""

from collections import Counter
from pathlib import Path

from regard.inside.head_scores import KINDS, Head
from regard.inside.sheet import Heading, Part, Picture, Prose, Table, check_sheet, text_table, write_sheet
from regard.inside.training_film import TrainingFilm, training_film
from regard.runs.formats import as_run
from regard.text.files import read
from regard.verbs.arguments import Files, Out, RunLike
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json, tell

READING = (
    "Each line is a head; heads of one site have one colour. Step 0 is the model before training. A score is "
    "the share of a head's weight on the positions of its definition; entropy is 1 for uniform weights. The "
    "film shows every validation of the training, and the finished run holds the weights of the best one."
)


def film(run: RunLike, *, text: Files = (), out: Out = None) -> TrainingFilm:
    """Show entropy, scores and labels of every attention head over a training that kept its film.

    >>> regard.train("transformer", film=True, out="runs/filmed")  # doctest: +SKIP
    >>> regard.film("runs/filmed").frames[-1].heads[0].label  # doctest: +SKIP

    Args:
        run: A run folder of a training with the option `film`.
        text: Text in which delimiters and entropy are measured. Without it, the run's own held-out text.
        out: Write it to a file: .html, .svg, .png or .json.
    """
    check_sheet(out)
    measured = training_film(as_run(run), read(text))
    if out is not None:
        title = f"The training of {run if isinstance(run, str | Path) else 'a run'}"
        write_sheet(out, title, _page(measured), _svg(measured), measured.to_json())
    return measured


def _table(measured: TrainingFilm) -> Table:
    """Make a row for each step: the loss, and the strongest head of each kind."""
    rows = []
    errors = any(frame.alignment_error is not None for frame in measured.frames)
    for frame in measured.frames:
        entropy = sum(head.entropy for head in frame.heads) / len(frame.heads)
        most = [
            f"{max(head.scores[kind].value for head in frame.heads if kind in head.scores):.2f}"
            for kind in measured.kinds
        ]
        error = [_number(frame.alignment_error)] if errors else []
        rows.append(
            [str(frame.step), _number(frame.loss), *error, f"{entropy:.2f}", *most, _labels(frame.heads)]
        )
    names = ["step", "loss", *(["alignment error"] if errors else []), "entropy"]
    return Table([*names, *(f"most {kind}" for kind in measured.kinds), "labels"], rows)


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.2f}"


def _labels(heads: list[Head]) -> str:
    counted = Counter(head.label for head in heads if head.label is not None)
    return ", ".join(f"{label} {count}" for label, count in counted.items()) or "none"


def _svg(measured: TrainingFilm) -> str:
    import vl_convert

    from regard.inside.film_charts import chart

    return vl_convert.vegalite_to_svg(chart(measured).to_json())


def _page(measured: TrainingFilm) -> list[Part]:
    definitions = [Prose(f"{kind.capitalize()}: {KINDS[kind]}.") for kind in measured.kinds]
    notes = [Prose(note) for note in measured.notes]
    parts: list[Part] = [
        *notes,
        Picture(_svg(measured)),
        Prose(READING),
        Heading("Numbers"),
        _table(measured),
    ]
    return [*parts, Heading("Definitions"), *definitions]


def main(arguments: list[str]) -> None:
    call = parse(film, arguments)
    measured = film(**call.values)
    if call.values["out"] is not None:
        tell(f"{call.values['out']} shows it.")
    if call.json:
        print_json(measured.to_json())
        return
    for note in measured.notes:
        tell(note)
    print(text_table(_table(measured)))
    print("\nmost: the score of the strongest head of each kind; entropy: the mean over heads")
