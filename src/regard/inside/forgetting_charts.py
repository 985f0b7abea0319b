"""Charts of the forgetting of several runs in one picture."""

from collections.abc import Sequence
from typing import Any, Literal

import altair

from regard.inside.charts import COLOURS
from regard.inside.forgetting import Forgetting

WIDTH, HEIGHT = 420, 260
SMALLEST = 1e-16  # of a relative gradient in the picture; what is less is in the numbers


def chart(results: Sequence[Forgetting]) -> altair.VConcatChart:
    """Draw gradients and speed in the first row, and the rises of the loss in the second."""
    order = [result.name for result in results]
    colour = altair.Color(
        "name:N",
        sort=order,
        title=None,
        scale=altair.Scale(domain=order, range=COLOURS),
        legend=altair.Legend(labelLimit=300),
    )
    gradients = [
        {"name": result.name, "k": k, "value": value}
        for result in results
        for k, value in result.reach.items()
        if value >= SMALLEST
    ]
    seconds = [
        {"name": result.name, "k": speed.length, "value": speed.seconds}
        for result in results
        for speed in result.speeds
    ]
    rises = {
        change: [
            {"name": result.name, "k": rise.beyond, "value": rise.rise}
            for result in results
            for rise in result.rises
            if rise.change == change
        ]
        for change in ("cut", "shuffled")
    }
    upper = altair.hconcat(
        _lines(
            gradients,
            colour,
            "Gradient of the loss by a word, relative to the last one",
            "tokens back",
            "log",
        ),
        _lines(seconds, colour, "Seconds to read a text", "tokens", "log"),
    )
    lower = altair.hconcat(
        _lines(
            rises["cut"], colour, "Rise of the loss when the context is cut", "tokens that stay", "linear"
        ),
        _lines(
            rises["shuffled"],
            colour,
            "… when what lies further back is shuffled",
            "tokens that stay",
            "linear",
        ),
    )
    return altair.vconcat(upper, lower)


def _lines(
    points: list[dict[str, Any]],
    colour: altair.Color,
    title: str,
    across: str,
    scale: Literal["linear", "log"],
) -> altair.Chart:
    up = altair.Y(
        "value:Q",
        title="nats a token" if scale == "linear" else None,
        scale=altair.Scale(type=scale),
        axis=altair.Axis(format=".1e") if scale == "log" else altair.Axis(),
    )
    return (
        altair.Chart(altair.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=altair.X("k:Q", title=across, scale=altair.Scale(type="log", nice=False)), y=up, color=colour
        )
        .properties(width=WIDTH, height=HEIGHT, title=title)
    )
