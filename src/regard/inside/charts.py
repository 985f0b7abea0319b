"""Charts of a comparison, and its page, which opens offline."""

from typing import Any

import altair

from regard.inside.drawing import chart_to_html
from regard.tables import as_html, visible

COLOURS = [
    "#0072B2",
    "#D55E00",
    "#009E73",
    "#CC79A7",
    "#E69F00",
    "#56B4E9",
    "#000000",
    "#882255",
    "#999933",
    "#888888",
]  # Okabe and Ito without yellow, then Tol: safe for the colour-blind

STYLE = (
    "body{font:16px/1.5 system-ui,sans-serif;margin:2rem auto;max-width:60rem;padding:0 1rem;color:#222}"
    "div.wide{overflow-x:auto}div.wide svg,div.wide canvas{flex:none;max-width:none!important}"
    "table{border-collapse:collapse}"
    "td,th{padding:.3rem .8rem;text-align:right;white-space:nowrap;border-bottom:1px solid #ccc}"
    "td:first-child,th:first-child{text-align:left}"
    ".ladder td,.ladder th{padding:.1rem .6rem;border:0;font-variant-numeric:tabular-nums}"
    ".ladder tfoot td,.ladder tfoot th{border-top:2px solid #222}"
    ".ladder tbody th{font-family:monospace;font-weight:400}"
    "dl{display:grid;grid-template-columns:max-content 1fr;gap:.1rem 1rem}dt{color:#666}"
    "dd{margin:0;overflow-wrap:anywhere}"
    # Charts have dark ink on a white ground. In a dark page the inversion keeps their hues.
    "@media(prefers-color-scheme:dark){body{background:#16181c;color:#ddd}dt{color:#999}"
    "td,th{border-color:#444}.ladder tfoot td,.ladder tfoot th{border-color:#ddd}"
    ".drawn{filter:invert(.91) hue-rotate(180deg)}}"
)


def bars(rows: list[dict[str, Any]]) -> altair.Chart:
    """Draw bits per byte of each run, the best first. Rows: name, bits_per_byte."""
    base = altair.Chart(altair.Data(values=rows)).encode(
        y=altair.Y(
            "name:N", sort=[row["name"] for row in rows], title=None, axis=altair.Axis(labelLimit=300)
        ),
        x=altair.X("bits_per_byte:Q", title="bits per byte (lower is better)"),
        color=altair.Color(
            "name:N", sort=[row["name"] for row in rows], scale=altair.Scale(range=COLOURS), legend=None
        ),
    )
    figures = base.mark_text(align="left", dx=4).encode(
        text=altair.Text("bits_per_byte:Q", format=".3f"), color=altair.value("#222")
    )
    return (base.mark_bar() + figures).properties(width=560, height=28 * len(rows), title="Held-out text")


def shares(rows: list[dict[str, Any]]) -> altair.LayerChart:
    """Draw the accuracy of each model with its interval, the best first. Rows: name, accuracy, low, high."""
    order = [row["name"] for row in rows]
    base = altair.Chart(altair.Data(values=rows)).encode(
        y=altair.Y("name:N", sort=order, title=None, axis=altair.Axis(labelLimit=300)),
        x=altair.X("accuracy:Q", title="accuracy (95% interval)", scale=altair.Scale(domain=[0, 1])),
        color=altair.Color("name:N", sort=order, scale=altair.Scale(range=COLOURS), legend=None),
    )
    spread = base.mark_rule(color="#222").encode(x="low:Q", x2="high:Q", color=altair.value("#222"))
    figures = base.mark_text(align="left", dx=4).encode(
        x="high:Q", text=altair.Text("accuracy:Q", format=".3f"), color=altair.value("#222")
    )
    drawn = base.mark_bar() + spread + figures
    return drawn.properties(width=480, height=28 * len(rows), title="Held-out texts")


def accuracies(rows: list[dict[str, Any]], measure: str) -> altair.FacetChart:
    """Draw accuracy against length with intervals, a small chart for each family.

    Rows: family, length, accuracy, low, high.
    """
    order = list(dict.fromkeys(row["family"] for row in rows))
    ends = [min(row["length"] for row in rows), max(row["length"] for row in rows)]
    base = altair.Chart().encode(
        x=altair.X("length:Q", title=measure, scale=altair.Scale(type="log", domain=ends))
    )
    shares = altair.Y("accuracy:Q", title="share of right answers", scale=altair.Scale(domain=[0, 1]))
    drawn = base.mark_rule(color=COLOURS[0]).encode(y="low:Q", y2="high:Q") + base.mark_line(
        point=True, color=COLOURS[0]
    ).encode(y=shares)
    layered = altair.layer(drawn, data=altair.Data(values=rows)).properties(width=130, height=110)
    return layered.facet(facet=altair.Facet("family:N", sort=order, title=None), columns=4)


def curves(points: list[dict[str, Any]], order: list[str], of: str = "token") -> altair.Chart:
    """Draw validation loss against training time. Points: name, seconds, valid_loss; `of` has the loss."""
    colour = altair.Color("name:N", sort=order, scale=altair.Scale(domain=order, range=COLOURS), title=None)
    return (
        altair.Chart(altair.Data(values=points))
        .mark_line(point=True)
        .encode(
            x=altair.X("seconds:Q", title="seconds of training"),
            y=altair.Y(
                "valid_loss:Q", title=f"validation loss (nats a {of})", scale=altair.Scale(zero=False)
            ),
            color=colour,
            tooltip=["name:N", "seconds:Q", "valid_loss:Q"],
        )
        .properties(width=560, height=320, title="Loss against time")
    )


Passage = tuple[list[str], list[str], list[list[float]]]  # tokens, names of models, surprisals in nats


def ladder(passage: Passage) -> str:
    """Make a table with a row for each token and a column for each model.

    The darker a cell, the larger the surprisal. The smallest surprisal of a row is bold.
    """
    tokens, names, rows = passage
    head = "".join(f"<th scope='col'>{as_html(name)}</th>" for name in names)
    body = []
    for token, row in zip(tokens, rows, strict=True):
        cells = "".join(_cell(nll, nll == min(row)) for nll in row)
        body.append(f"<tr><th scope='row'>{as_html(visible(token))}</th>{cells}</tr>")
    sums = "".join(f"<td>{sum(column):.1f}</td>" for column in zip(*rows, strict=True))
    return (
        "<h2>Surprisal of each token</h2><p>In nats, on the part of the test text where the models differ "
        "most. The files ladder*.tsv hold the whole text; each of their columns sums to a model's loss times "
        f"its tokens.</p><div class='wide'><table class='ladder'><thead><tr><th></th>{head}</tr></thead>"
        f"<tbody>{''.join(body)}</tbody><tfoot><tr><th scope='row'>sum</th>{sums}</tr></tfoot></table></div>"
    )


def _cell(nll: float, best: bool) -> str:
    depth = min(1.0, nll / 10)  # white at 0, the darkest blue at 10 nats or more
    red, green, blue = (round(255 - depth * (255 - end)) for end in (0, 80, 150))
    ink, weight = "#fff" if depth > 0.5 else "#222", ";font-weight:700" if best else ""
    return f"<td style='background:rgb({red},{green},{blue});color:{ink}{weight}'>{nll:.2f}</td>"


def page(
    title: str,
    facts: dict[str, str],
    charts: list[Any],
    table: list[dict[str, Any]],
    notes: list[str],
    passages: list[Passage],
) -> str:
    """Put facts, charts, a table and notes into one HTML file that fetches nothing."""
    chart = altair.vconcat(*charts).resolve_scale(color="independent")  # each chart has its own legend
    header = "".join(f"<th>{as_html(str(name))}</th>" for name in table[0])
    body = "".join(
        "<tr>" + "".join(f"<td>{as_html(str(value))}</td>" for value in row.values()) + "</tr>"
        for row in table
    )
    terms = "".join(f"<dt>{as_html(name)}</dt><dd>{as_html(fact)}</dd>" for name, fact in facts.items())
    paragraphs = "".join(f"<p>{as_html(note)}</p>" for note in notes)
    drawn = chart_to_html(chart)
    return (
        f"<!doctype html><html lang='en'><head><meta charset='utf-8'><title>{as_html(title)}</title>"
        "<meta name='viewport' content='width=device-width'>"
        f"<style>{STYLE}</style></head><body>"
        f"<h1>{as_html(title)}</h1><dl>{terms}</dl>"
        f"<div class='wide'><table><thead><tr>{header}</tr></thead>"
        f"<tbody>{body}</tbody></table></div>{paragraphs}"
        f"<div class='wide drawn'>{drawn}</div>"
        f"{''.join(map(ladder, passages))}</body></html>"
    )
