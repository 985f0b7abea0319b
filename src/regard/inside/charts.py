"""Charts of a comparison, as one page that opens offline."""

import html
from typing import Any

import altair

COLOURS = [
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#F0E442",
]  # Okabe and Ito: safe for the colour-blind


def bars(rows: list[dict[str, Any]]) -> altair.Chart:
    """Bits per byte a run, the best first. Rows: name, bits_per_byte."""
    base = altair.Chart(altair.Data(values=rows)).encode(
        y=altair.Y("name:N", sort=[row["name"] for row in rows], title=None, axis=altair.Axis(labelLimit=300)),
        x=altair.X("bits_per_byte:Q", title="bits per byte (lower is better)"),
        color=altair.Color("name:N", sort=[row["name"] for row in rows], scale=altair.Scale(range=COLOURS), legend=None),
    )
    figures = base.mark_text(align="left", dx=4).encode(text=altair.Text("bits_per_byte:Q", format=".3f"), color=altair.value("#222"))
    return (base.mark_bar() + figures).properties(width=560, height=28 * len(rows), title="Held-out text")


def curves(points: list[dict[str, Any]], order: list[str]) -> altair.Chart:
    """Validation loss against training time. Points: name, seconds, valid_loss."""
    colour = altair.Color("name:N", sort=order, scale=altair.Scale(domain=order, range=COLOURS), title=None)
    return (
        altair.Chart(altair.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=altair.X("seconds:Q", title="seconds of training"),
            y=altair.Y("valid_loss:Q", title="validation loss (nats a token)", scale=altair.Scale(zero=False)),
            color=colour,
            tooltip=["name:N", "seconds:Q", "valid_loss:Q"],
        )
        .properties(width=560, height=320, title="Loss against time")
    )


def page(title: str, charts: list[altair.Chart], table: list[dict[str, Any]], notes: list[str]) -> str:
    """Charts, a table and notes in one HTML file with nothing to fetch."""
    chart = altair.vconcat(*charts).resolve_scale(color="independent")  # each with its own legend
    header = "".join(f"<th>{html.escape(str(name))}</th>" for name in table[0])
    body = "".join("<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in row.values()) + "</tr>" for row in table)
    said = "".join(f"<p>{html.escape(note)}</p>" for note in notes)
    drawn = chart.to_html(inline=True, fullhtml=False, embed_options={"actions": False})
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{html.escape(title)}</title>"
        "<meta name='viewport' content='width=device-width'>"
        "<style>body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#222}"
        "div.wide{overflow-x:auto}table{border-collapse:collapse}td,th{padding:.3rem .8rem;text-align:right;border-bottom:1px solid #ccc}"
        "td:first-child,th:first-child{text-align:left}</style></head><body>"
        f"<h1>{html.escape(title)}</h1><div class='wide'><table><thead><tr>{header}</tr></thead><tbody>{body}</tbody></table></div>"
        f"{said}<div class='wide'>{drawn}</div></body></html>"
    )
