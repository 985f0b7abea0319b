"""The figures of a classifier: accuracy, macro-F1, calibration and the confusion table."""

from pathlib import Path

import torch

from regard.errors import UserError
from regard.probabilities.labels import LabelMeasure, measure_labels
from regard.runs.labelled import own_labelled, require_labeller
from regard.runs.run import Run
from regard.tables import as_text
from regard.text.labelled import check_known, read_labelled
from regard.tokens.rows import encode_rows
from regard.verbs.arguments import Files
from regard.verbs.printing import print_lines, print_table, show_text

MOST = 10  # with more labels, the most frequent mistakes are printed instead of the confusion table


def evaluate_labels(run: Run, *, labelled: Files, columns: str | None) -> LabelMeasure:
    """Label texts, and compare the labels with the true ones."""
    model, names = require_labeller(run), run.config.labels
    files = [labelled] if isinstance(labelled, str | Path) else labelled
    if columns is not None and not files:
        raise UserError("`columns` goes with `labelled`: name the file that has these columns")
    texts = (
        read_labelled([*map(str, files)], columns.split(",") if columns else ())
        if files
        else own_labelled(run)
    )
    check_known(texts, names)
    rows = encode_rows(run.tokenizer, texts.texts, model.context)
    return measure_labels(model, rows, torch.tensor(texts.numbers(names)), names)


def print_labels(result: LabelMeasure) -> None:
    """Print the figures, then those of each label, then the confusions."""
    figures = {name: value for name, value in result.to_json().items() if name not in ("labels", "confusion")}
    low, high = figures.pop("accuracy_interval")
    figures["accuracy"] = f"{result.accuracy:.4f} (95%: {low:.4f} to {high:.4f})"
    print_lines(figures)
    names = [show_text(one.label) for one in result.labels]
    print()
    print_table(
        [
            {
                "label": name,
                "texts": as_text(one.texts),
                "precision": as_text(one.precision),
                "recall": as_text(one.recall),
                "F1": as_text(one.f1),
            }
            for name, one in zip(names, result.labels, strict=True)
        ]
    )
    if len(names) > MOST:
        _print_mistakes(names, result.confusion)
        return
    print("\na row for each true label, a column for each chosen label:\n")
    print_table(
        [
            {"": name, **{other: as_text(count) for other, count in zip(names, counts, strict=True)}}
            for name, counts in zip(names, result.confusion, strict=True)
        ]
    )


def _print_mistakes(names: list[str], confusion: tuple[tuple[int, ...], ...]) -> None:
    """Print the most frequent mistakes."""
    mistakes = [
        (count, true, chosen)
        for true, counts in zip(names, confusion, strict=True)
        for chosen, count in zip(names, counts, strict=True)
        if count and true != chosen
    ]
    print()
    for count, true, chosen in sorted(mistakes, reverse=True)[:MOST]:
        print(f"{count:6,}  {true} was labelled {chosen}")
