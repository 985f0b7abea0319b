"""The page in the output cell of a notebook: anywidget shows it, and the kernel answers its questions.

Questions and answers are the widget's custom messages. A question is {id, kind, view, question}; kind `stop`
ends a stream. An answer is {id, answer}, an Answer; bytes follow as a buffer.
"""

import importlib.util
import json
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from pathlib import Path
from typing import Any, final
from urllib.parse import urlencode

from regard.errors import UserError
from regard.page.answers import info_of
from regard.page.catalogue import Catalogue
from regard.page.desk import STREAMED, Desk, is_piece, reason
from regard.page.protocol import Answer, ReadQuestion, Runs, to_json
from regard.runs.formats import load
from regard.runs.run import Run
from regard.serving.workers import Stream

SAMPLE = "The value of the object is the name of the class"  # the page's own first texts (store.ts)
SAMPLES = {
    "pairs": "The tall cat sees you",
    "blanks": "The value of the ___ is the name of the class",
    "labels": "the ending was not bad , and the music was wonderful",
    "captions": "",
}
Reply = Callable[[dict[str, Any], list[bytes]], None]


def in_notebook() -> bool:
    """Return whether this code runs in the kernel of a notebook."""
    ipython = sys.modules.get("IPython")
    shell = None if ipython is None else ipython.get_ipython()
    return getattr(shell, "kernel", None) is not None


def has_widgets() -> bool:
    """Return whether the extra `notebook` is installed."""
    return importlib.util.find_spec("anywidget") is not None


@final
class Cell:
    """Answers the messages of a page in an output cell."""

    def __init__(self, desk: Desk, reply: Reply):
        self._desk, self._reply = desk, reply
        self._streams = dict[int, Stream]()

    def receive(self, message: dict[str, Any]) -> None:
        """Answer a question, as soon as its worker has the answer."""
        number, kind = int(message["id"]), str(message["kind"])
        body = json.dumps(message.get("question")).encode()
        try:
            if kind == "stop":
                stream = self._streams.pop(number, None)
                if stream is not None:
                    stream.stop()
            elif kind == "runs":
                self._send(number, Answer("done", result=Runs(self._desk.infos(), training=False)))
            elif kind in STREAMED:
                self._streams[number] = self._desk.stream(kind, body)(
                    lambda piece: self._piece(number, piece)
                )
            else:
                future = self._desk.ask(kind, body, str(message.get("view", ""))[:100])
                future.add_done_callback(lambda done: self._done(number, done))
        except UserError as error:
            self._send(number, Answer("failed", error=reason(error)))

    def _done(self, number: int, future: Future[Any]) -> None:
        try:
            result = future.result()
        except CancelledError:
            self._send(number, Answer("dropped"))
        except Exception as error:
            self._send(number, Answer("failed", error=reason(error)))
        else:
            buffers = [result] if isinstance(result, bytes) else []
            self._send(number, Answer("done", result=None if buffers else result), buffers)

    def _piece(self, number: int, piece: Any) -> None:
        if isinstance(piece, Exception):
            self._send(number, Answer("failed", error=reason(piece)))
        elif is_piece(piece):
            self._send(number, Answer("working", result=piece))
        else:
            self._send(number, Answer("done", result=piece))

    def _send(self, number: int, answer: Answer, buffers: Sequence[bytes] = ()) -> None:
        self._reply({"id": number, "answer": json.loads(to_json(answer))}, list(buffers))


def view_of_runs(runs: Sequence[Run | str | Path]) -> Any:
    """Return the lab of some runs as a widget. Runs may be open, or be named by their folders."""
    require_widgets()
    opened = {f"o{number}": run for number, run in enumerate(runs) if isinstance(run, Run)}
    named = [str(run) for run in runs if not isinstance(run, Run)]
    catalogue = None if opened and not named else Catalogue(named, Path("."))
    infos = [info_of(run, number) for number, run in opened.items()]
    infos += [] if catalogue is None else catalogue.infos()
    if not infos:
        raise UserError("there is no run below this folder: regard.train makes one")

    def opener(number: str) -> Callable[[], Any]:
        if number in opened:
            return lambda: _opened(opened[number])
        if catalogue is None:
            raise UserError("this run is not in the notebook's list")
        path = catalogue.path(number)
        return lambda: _opened(load(path))

    first = next(iter(opened.values()), None) or load(Path(infos[0].path))
    return widget(Desk(lambda: infos, opener), "", _still(first))


def view_of_text(run: Run, items: dict[str, str], still: str, image: Path | None = None) -> Any:
    """Return the attention of a run on a text, or on an image and its caption, as a widget."""
    info, opened = info_of(run, "o0"), _opened(run)
    if image is not None:
        items = {**items, "scene": opened.readings.gallery.add_file(image).id}
    start = f"#attend?{urlencode({'run': info.name, **items})}"
    return widget(Desk(lambda: [info], lambda _: lambda: opened), start, still)


def require_widgets() -> None:
    if not has_widgets():
        raise UserError("the lab in a notebook needs anywidget: pip install 'regard[notebook]'")


def widget(desk: Desk, start: str, still: str) -> Any:
    """Return a page that asks a desk. `start` is the view that opens, and `still` its picture."""
    require_widgets()
    from regard.page.widget import PageWidget

    return PageWidget(desk, start, still)


def _opened(run: Run) -> Any:
    from regard.page.measures import Opened

    return Opened(run)


def _still(run: Run) -> str:
    """Return a picture of the run's attention on a sample, or of its first prediction."""
    from regard.inside.output import picture

    text = SAMPLES.get(info_of(run).reads, SAMPLE)
    try:
        record = _opened(run).readings.record(ReadQuestion("o0", text))
        return picture(replace(record, maps=record.weights() or record.maps), title=str(run))
    except UserError:  # word vectors, and captioners of given features, have no picture of a text
        return ""
