"""The widget of the page. Only a notebook imports this module, because it needs the extra `notebook`."""

from pathlib import Path
from typing import Any, final

import anywidget
import traitlets

from regard.page.desk import Desk
from regard.page.notebook import Cell

BUNDLE = Path(__file__).parent / "bundle"


@final
class PageWidget(anywidget.AnyWidget):
    """The page in an output cell. Where scripts do not run, a still picture stands for it."""

    _esm = BUNDLE / "lab.js"
    sheet = traitlets.Unicode().tag(sync=True)  # the styles of the page, which has a shadow root of its own
    start = traitlets.Unicode().tag(sync=True)  # the view that opens, as in the address bar of the lab

    def __init__(self, desk: Desk, start: str, still: str):
        super().__init__(sheet=(BUNDLE / "lab.css").read_text("utf-8"), start=start)
        self._still = still
        self._cell = Cell(desk, self.send)
        self.on_msg(lambda _, message, __: self._cell.receive(message))

    def _repr_mimebundle_(self, **options: Any) -> tuple[dict[str, Any], dict[str, Any]]:
        data, metadata = super()._repr_mimebundle_(**options) or ({}, {})
        still = {"image/svg+xml": self._still} if self._still else {}
        return {**data, **still, "text/plain": "regard lab: a page for notebooks that run scripts"}, metadata
