"""A chart of the film of a training: a line for each head over the steps, in a panel for each figure."""

from typing import Any

import altair

from regard.inside.charts import COLOURS
from regard.inside.training_film import TrainingFilm

WIDTH, HEIGHT, COLUMNS = 300, 180, 2


def chart(film: TrainingFilm) -> altair.VConcatChart:
    """Draw the loss, the alignment error, the entropy, and each kind of score. Sites differ in colour."""
    sites = list(dict.fromkeys(head.site for head in film.frames[-1].heads))
    colour = altair.Color(
        "site:N",
        sort=sites,
        title=None,
        scale=altair.Scale(domain=sites, range=COLOURS),
        legend=altair.Legend(labelLimit=300, orient="top", columns=COLUMNS),
    )
    panels = []
    losses = [_point(frame.step, frame.loss) for frame in film.frames if frame.loss is not None]
    errors = [
        _point(frame.step, frame.alignment_error)
        for frame in film.frames
        if frame.alignment_error is not None
    ]
    panels += [_panel(losses, "Loss (nats a token)", None)] if losses else []
    panels += [_panel(errors, "Alignment error of the best head", None)] if errors else []
    for name in ("entropy", *film.kinds):
        points = [
            _point(frame.step, head.entropy if name == "entropy" else head.scores[name].value)
            | {"site": head.site, "head": f"{head.site} {head.name}"}
            for frame in film.frames
            for head in frame.heads
            if name == "entropy" or name in head.scores
        ]
        title = (
            "Entropy of the weights in text (share of the most)" if name == "entropy" else name.capitalize()
        )
        panels.append(_panel(points, title, colour))
    rows = [altair.hconcat(*panels[first : first + COLUMNS]) for first in range(0, len(panels), COLUMNS)]
    return altair.vconcat(*rows)


def _point(step: int, value: float) -> dict[str, Any]:
    return {"step": step, "value": value}


def _panel(points: list[dict[str, Any]], title: str, colour: altair.Color | None) -> altair.Chart:
    """Draw lines over the steps. Shares go from 0 to 1; a figure of the whole model has one dark line."""
    scale = altair.Scale(zero=False) if colour is None else altair.Scale(domain=[0, 1])
    lines = altair.Chart(altair.Data(values=points)).encode(
        x=altair.X("step:Q", title="step"), y=altair.Y("value:Q", title=None, scale=scale)
    )
    if colour is None:
        drawn = lines.mark_line(point=altair.OverlayMarkDef(size=20, color="#222"), color="#222")
    else:
        drawn = lines.mark_line(point=altair.OverlayMarkDef(size=12), strokeWidth=1.5).encode(
            color=colour, detail="head:N"
        )
    return drawn.properties(width=WIDTH, height=HEIGHT, title=title)
