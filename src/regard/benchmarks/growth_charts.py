"""The picture of growth: seconds and bytes against each size, on logarithmic axes."""

from typing import Any

import altair

from regard.inside.charts import COLOURS

FAMILIES = ("transformer", "lstm", "ngram")
WIDTH, HEIGHT = 190, 150


def chart(points: list[dict[str, Any]]) -> altair.VConcatChart:
    """Draw a row of panels for seconds and one for bytes. A line of slope 1 is linear growth."""
    kinds = list(dict.fromkeys(point["grows"] for point in points))
    of_kind = {kind: [point for point in points if point["grows"] == kind] for kind in kinds}
    rows = [
        altair.hconcat(*(_panel(some, kind, what) for kind, some in of_kind.items()))
        for what in ("seconds", "bytes")
    ]
    return altair.vconcat(*rows)


def _panel(points: list[dict[str, Any]], kind: str, what: str) -> altair.Chart:
    colour = altair.Color(
        "family:N", title=None, scale=altair.Scale(domain=list(FAMILIES), range=COLOURS[: len(FAMILIES)])
    )
    log, marks = altair.Scale(type="log"), altair.Axis(format="~s", tickCount=3, gridOpacity=0.4)
    across = altair.X("size:Q", title=kind, scale=log, axis=marks)
    up = altair.Y(f"{what}:Q", title=what, scale=log, axis=marks)
    drawn = altair.Chart(altair.Data(values=points)).mark_line(point=True)
    return drawn.encode(x=across, y=up, color=colour).properties(width=WIDTH, height=HEIGHT)
