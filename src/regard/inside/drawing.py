"""The drawing engine (a browser's) in a process of its own, because it aborts if memory runs out."""

import json
from typing import Any

from regard.machine.child import run_child
from regard.tables import harmless

ENGINE = "the drawing engine"
READ = "import sys; given = sys.stdin.buffer.read().decode()\n"
TO_PNG = "import vl_convert; sys.stdout.buffer.write(vl_convert.svg_to_png(given, scale=2))"
TO_SVG = "import vl_convert; sys.stdout.buffer.write(vl_convert.vegalite_to_svg(given).encode())"
TO_HTML = """
import altair, json
from altair.utils.html import spec_to_html
page = spec_to_html(
    json.loads(given), mode="vega-lite", template="inline", fullhtml=False, embed_options={"actions": False},
    vega_version=altair.VEGA_VERSION, vegalite_version=altair.VEGALITE_VERSION,
    vegaembed_version=altair.VEGAEMBED_VERSION,
)
sys.stdout.buffer.write(page.encode())
"""


def svg_to_png(svg: str) -> bytes:
    """Convert a picture to PNG at twice its size."""
    return run_child(READ + TO_PNG, svg.encode(), ENGINE)


def chart_to_svg(chart: Any) -> str:
    """Draw an altair chart."""
    return run_child(READ + TO_SVG, _specification(chart), ENGINE).decode()


def chart_to_html(chart: Any) -> str:
    """Make a part of a page that draws an altair chart and fetches nothing."""
    return run_child(READ + TO_HTML, _specification(chart), ENGINE).decode()


def _specification(chart: Any) -> bytes:
    """Write a chart as JSON. Names from outside, such as those of runs, lose what commands a reader."""
    return json.dumps(_harmless(chart.to_dict())).encode()


def _harmless(value: Any) -> Any:
    match value:
        case str():
            return harmless(value)
        case dict():
            return {name: _harmless(item) for name, item in value.items()}
        case list():
            return [_harmless(item) for item in value]
    return value
