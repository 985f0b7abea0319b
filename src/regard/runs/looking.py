"""Looking inside a finished run."""

from collections.abc import Sequence
from pathlib import Path

from regard.inside.record import Record, record
from regard.runs.folder import Run, load


def look(
    run: Run | str | Path,
    text: str,
    *,
    sites: Sequence[str] = (),
    rows: Sequence[int] | None = None,
    heads: Sequence[int] | None = None,
    top: int = 5,
) -> Record:
    """What a run does with a text, in one form for every family: predictions at each position, and what was weighed.

    `sites` are names or patterns (`layer1.*`); without them, every site that holds weights. `rows` are positions, `heads` heads, from 0.

    >>> regard.look("runs/transformer", "The game was", sites=["layer0.attention"], rows=[-1]).weights  # doctest: +SKIP
    """
    opened = run if isinstance(run, Run) else load(run)
    return record(opened.model, opened.tokenizer, text, [sites] if isinstance(sites, str) else sites, rows, heads, top)
