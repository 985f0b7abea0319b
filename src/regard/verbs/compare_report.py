"""The report of a comparison: report.md, report.html, comparison.svg and ladder.tsv in its folder."""

import json
from pathlib import Path
from typing import Any

from regard.errors import UserError
from regard.inside import charts
from regard.inside.output import write_chart
from regard.machine.disk import write_atomically
from regard.probabilities.ladder import Ladder
from regard.probabilities.ranking import Result
from regard.tables import harmless
from regard.training.log import METRICS, TIMING
from regard.verbs.compare_plan import MINUTES, Plan

DOCUMENTS = {"file": "file", "line": "line", "blank": "part between blank lines"}
REPORT = ("report.md", "ladder.tsv", "comparison.svg", "report.html")


def for_people(row: dict[str, Any]) -> dict[str, str]:
    """A row of the table, as it is printed."""
    interval = f" ± {row['interval']:.3f}" if row["interval"] is not None else ""
    return {
        "family": row["name"],
        "rank": str(row["rank"] or "-"),
        "bits per byte": "-" if row["bits_per_byte"] is None else f"{row['bits_per_byte']:.3f}{interval}",
        "perplexity": "-" if row["perplexity"] is None else f"{row['perplexity']:,.2f}",
        "parameters": f"{row['parameters']:,}",
        "seconds": f"{row['seconds']:.1f}",
        "tokens/s": f"{row['tokens_per_second']:,.0f}",
    }


def conditions(plan: Plan, results: list[Result]) -> dict[str, str]:
    """Return the conditions under which the figures hold, by name."""
    measure = results[0].measure
    tokens = f"{plan.tokens_each:,} training tokens" if plan.tokens_each is not None else None
    budget = f"{tokens or f'{plan.minutes or MINUTES:g} minutes'} each"
    seeds = "one seed" if plan.seeds == 1 else f"{plan.seeds} seeds"
    return {
        "Text": f"{', '.join(map(harmless, plan.sources))}; measured on {measure.bytes:,} bytes of it",
        "Tokens": f"{plan.tokens}; a document is a {DOCUMENTS[plan.document]}",
        "Budget": f"{budget}, {seeds}",
        "Machine": harmless(plan.machine),
        "Date": harmless(plan.began),
    }


def training_curve(folder: Path) -> list[dict[str, float]]:
    """Return validation loss against seconds of training, from the log of a run."""
    if not (folder / METRICS).exists():
        return []
    try:
        lines = [
            [json.loads(line) for line in (folder / name).read_text("utf-8").splitlines()]
            for name in (METRICS, TIMING)
        ]
        return [
            {"seconds": timing["seconds"], "valid_loss": metric["valid_loss"]}
            for metric, timing in zip(*lines, strict=True)
        ]
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f"{folder}: {METRICS} or {TIMING} is damaged; remove both to go on without a curve"
        ) from None


def write_report(
    out: Path,
    table: list[dict[str, Any]],
    notes: list[str],
    results: list[Result],
    ladders: list[Ladder],
    facts: dict[str, str],
) -> None:
    """Draw and write everything but results.json, which is written before: drawings can be made again."""
    shown = [for_people(row) for row in table]
    write_markdown(out, facts, shown, notes)
    for number, ladder in enumerate(ladders, 1):
        ladder.write(out / ("ladder.tsv" if number == 1 else f"ladder-{number}.tsv"))
    bars = charts.bars([row for row in table if row["rank"] is not None])
    write_chart(bars, out / "comparison.svg")
    points = [{"name": result.name, **point} for result in results for point in result.curve]
    parts = [bars] + ([charts.curves(points, [row["name"] for row in table])] if points else [])
    several = [
        ladder.passage() for ladder in ladders if len(ladder.names) > 1
    ]  # one model alone is compared with nobody
    passages = [(ladder.tokens, ladder.names, ladder.nll_NM.tolist()) for ladder in several]
    page = charts.page("Comparison", facts, parts, shown, notes, passages)
    write_atomically(out / "report.html", page.encode())


def write_markdown(out: Path, facts: dict[str, str], shown: list[dict[str, str]], notes: list[str]) -> None:
    """Write report.md: the conditions, the table, and the notes."""
    lines = ["| " + " | ".join(shown[0]) + " |", "|" + " --- |" * len(shown[0])]
    lines += ["| " + " | ".join(row.values()) + " |" for row in shown]
    listed = [f"- {name}: {fact}" for name, fact in facts.items()]
    report = ["# Comparison", "", *listed, "", *lines, "", *notes, ""]
    write_atomically(out / "report.md", "\n".join(report).encode())
