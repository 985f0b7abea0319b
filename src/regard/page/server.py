"""The lab's server. Questions are POST requests with JSON; writing is a stream of server-sent events.

An answer that takes longer than PATIENCE seconds gets a ticket, with which the page asks again: no request
hangs on a long computation.
"""

import asyncio
import secrets
import sys
import traceback
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from importlib.resources import files
from operator import attrgetter
from typing import Any, final

from fastapi import FastAPI, Request, Response
from starlette.responses import StreamingResponse

from regard.boundary import parse_json
from regard.errors import MachineError, UserError
from regard.page import messages, protocol, recorded
from regard.page.catalogue import Catalogue
from regard.page.protocol import Answer, Runs, to_json
from regard.page.training import Training
from regard.serving.workers import Worker

PATIENCE = 8.0  # seconds until an answer gets a ticket
FORGET = 30.0  # seconds until an answer for which nobody asks is forgotten
STREAMS = 8  # texts that are written at a time
TYPES = {"lab.js": "text/javascript", "lab.css": "text/css"}
# The questions that have one answer, and those whose answers come piece by piece, with their methods.
ASKED = {
    "read": (protocol.ReadQuestion, "readings.read"),
    "rows": (protocol.RowsQuestion, "readings.rows"),
    "tile": (protocol.TileQuestion, "readings.tile"),
    "mosaic": (protocol.MosaicQuestion, "readings.mosaic"),
    "next": (protocol.NextQuestion, "readings.next"),
    "scenes": (protocol.ScenesQuestion, "readings.scenes"),
    "trained": (messages.TrainedQuestion, "readings.trained"),
    "senses": (messages.SensesQuestion, "measures.senses"),
    "course": (messages.CourseQuestion, "course"),
    "lesson": (messages.LessonQuestion, "lesson"),
}
STREAMED = {
    "write": (protocol.WriteQuestion, "readings.write"),
    "doubt": (messages.DoubtQuestion, "measures.doubt"),
    "say": (messages.SayQuestion, "measures.say"),
    "heads": (messages.HeadsQuestion, "measures.heads"),
    "forget": (messages.ForgetQuestion, "measures.forget"),
}
LESSONS = "lessons"  # the worker of the lessons, beside those of the runs


@final
class Lab:
    """The routes of the server."""

    def __init__(self, catalogue: Catalogue, training: Training):
        self._catalogue, self._training = catalogue, training
        self._workers = dict[str, Worker[Any]]()
        self._tickets = dict[str, Future[Any]]()
        self._streams = 0
        self._files = ThreadPoolExecutor(1)  # puts what the workers recorded into files

    def app(self) -> FastAPI:
        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        app.add_api_route("/", self.shell, methods=["GET"])
        for name in TYPES:
            app.add_api_route(f"/{name}", _static(name), methods=["GET"])
        app.add_api_route("/api/runs", self.runs, methods=["GET"])
        app.add_api_route("/api/training", self.progress, methods=["GET"])
        app.add_api_route("/api/train", self.train, methods=["POST"])
        app.add_api_route("/api/wait", self.wait, methods=["POST"])
        app.add_api_route("/api/save", self.save, methods=["POST"])
        for name, (kind, method) in ASKED.items():
            app.add_api_route(f"/api/{name}", self._asker(kind, method), methods=["POST"])
        for name, (kind, method) in STREAMED.items():
            app.add_api_route(f"/api/{name}", self._streamer(kind, method), methods=["POST"])
        return app

    async def shell(self) -> Response:
        return Response(_bundled("index.html"), media_type="text/html; charset=utf-8")

    async def runs(self) -> Response:
        return _json(Runs(self._catalogue.infos(), self._training.on))

    async def progress(self) -> Response:
        return _json(self._training.progress())

    async def train(self) -> Response:
        self._training.begin()
        return _json(self._training.progress())

    def _asker(self, kind: type[Any], method: str) -> Callable[[Request], Any]:
        async def ask(request: Request) -> Response:
            try:
                question = parse_json(kind, await request.body(), "the question")
                view = request.headers.get("x-lab-view", "")[:100]
                work = _worded(lambda opened: attrgetter(method)(opened)(question))
                future = self._worker(_run_of(question)).ask(view, work)
            except UserError as error:
                return _json(Answer("failed", error=_reason(error)))
            return await self._answer(future, request)

        return ask

    async def wait(self, request: Request) -> Response:
        try:
            ticket = parse_json(protocol.WaitQuestion, await request.body(), "the question").ticket
        except UserError as error:
            return _json(Answer("failed", error=_reason(error)))
        future = self._tickets.pop(ticket, None)
        return _json(Answer("dropped")) if future is None else await self._answer(future, request)

    async def save(self, request: Request) -> Response:
        """Answer with a file that opens offline."""
        try:
            question = parse_json(recorded.SaveQuestion, await request.body(), "the question")
            view = request.headers.get("x-lab-view", "")[:100]
            infos = {info.id: info for info in self._catalogue.infos()}
            futures = []
            for of in question.of:
                worker = self._worker(of.run)  # refuses a run that is not in the list
                futures.append(worker.ask(f"{view}/{of.run}", _recording(infos[of.run], of)))
        except UserError as error:
            return _json(Answer("failed", error=_reason(error)))
        return await self._answer(self._files.submit(_file, question.view, futures), request)

    async def _answer(self, future: Future[Any], request: Request) -> Response:
        """Wait for an answer, but not long, and not if the page is gone."""
        gone = asyncio.ensure_future(_disconnected(request))
        answer = asyncio.ensure_future(asyncio.wrap_future(future))
        await asyncio.wait({answer, gone}, timeout=PATIENCE, return_when=asyncio.FIRST_COMPLETED)
        if not gone.done():
            gone.cancel()
        elif not answer.done():
            future.cancel()
            return Response(status_code=204)
        if not answer.done():
            ticket = secrets.token_urlsafe(12)
            self._tickets[ticket] = future
            asyncio.get_running_loop().call_later(FORGET, self._forget, ticket)
            return _json(Answer("working", ticket=ticket))
        return _told(answer)

    def _forget(self, ticket: str) -> None:
        future = self._tickets.pop(ticket, None)
        if future is not None:
            future.cancel()

    def _streamer(self, kind: type[Any], method: str) -> Callable[[Request], Any]:
        """Return a route that sends each piece of an answer as soon as it is there."""

        async def stream(request: Request) -> Response:
            try:
                question = parse_json(kind, await request.body(), "the question")
                worker = self._worker(_run_of(question))
                if self._streams >= STREAMS:
                    raise UserError("too many texts and measurements are made at once: stop one first")
            except UserError as error:
                return _json(Answer("failed", error=_reason(error)))
            work = _worded(lambda opened: attrgetter(method)(opened)(question))
            return StreamingResponse(self._pieces(worker, work), media_type="text/event-stream")

        return stream

    async def _pieces(self, worker: Worker[Any], work: Callable[[Any], Any]) -> AsyncIterator[str]:
        """Yield server-sent events. The stream stops when the page goes away: then `finally` runs."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Any]()

        def send(piece: Any) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, piece)

        self._streams += 1
        stream = None
        try:
            stream = worker.stream(work, send)
            while (piece := await queue.get()) is not None:
                if isinstance(piece, Exception):
                    yield _event(Answer("failed", error=_reason(piece)))
                    return
                if not isinstance(piece, protocol.Piece | messages.Stage):
                    yield _event(Answer("done", result=piece))
                    return
                yield _event(Answer("working", result=piece))
            yield _event(Answer("done"))
        except UserError as error:
            yield _event(Answer("failed", error=_reason(error)))
        finally:
            self._streams -= 1
            if stream is not None:
                stream.stop()

    def _worker(self, run: str) -> Worker[Any]:
        if run not in self._workers:
            self._workers[run] = Worker(_open_lessons if run == LESSONS else self._opener(run))
        return self._workers[run]

    def _opener(self, run: str) -> Callable[[], Any]:
        path = self._catalogue.path(run)

        def open_run() -> Any:
            from regard.page.measures import Opened  # imports torch, in the worker's thread

            return Opened(path)

        return open_run

    def warm(self) -> None:
        """Open the first run before the first question."""
        for info in self._catalogue.infos()[:1]:
            self._worker(info.id).ask("warm", lambda opened: None)


def _file(view: str, futures: list[Future[Any]]) -> bytes:
    from regard.page.recording import page  # imports torch

    models = [future.result() for future in futures]
    title = " · ".join(model.info.name for model in models)
    return page(recorded.Recording(title, view, models), f"regard · {title}").encode()


def _recording(info: protocol.RunInfo, of: protocol.ReadQuestion) -> Callable[[Any], Any]:
    return _worded(lambda opened: opened.readings.recorded(info, of))


def _open_lessons() -> Any:
    from regard.page.lessons import Lessons  # imports torch, in the worker's thread

    return Lessons()


def _run_of(question: Any) -> str:
    """Return the worker of a question: the run that it names, or that of its reading, or the lessons."""
    if isinstance(question, messages.CourseQuestion | messages.LessonQuestion):
        return LESSONS
    return str(question.run if isinstance(question, messages.OF_RUN) else question.of.run)


def _worded(work: Callable[[Any], Any]) -> Callable[[Any], Any]:
    """Return the work, with errors of memory in words. (Warnings of a worker have no reader.)"""

    def worded(opened: Any) -> Any:
        try:
            return work(opened)
        except (MemoryError, RuntimeError) as error:
            if isinstance(error, MemoryError) or "memory" in str(error):
                raise UserError("the machine has too little memory for this text: shorten it") from None
            raise

    return worded


def _told(answer: "asyncio.Future[Any]") -> Response:
    try:
        result = answer.result()
    except (CancelledError, asyncio.CancelledError):
        return _json(Answer("dropped"))
    except Exception as error:
        return _json(Answer("failed", error=_reason(error)))
    if isinstance(result, bytes):
        return Response(result, media_type="application/octet-stream")
    return _json(Answer("done", result=result))


def _reason(error: Exception) -> str:
    if isinstance(error, UserError | MachineError | OSError):
        return str(error).replace("`", "")
    traceback.print_exception(error, file=sys.stderr)
    return "the lab made a mistake here; the terminal says which"


async def _disconnected(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass


def _static(name: str) -> Callable[[], Any]:
    async def send() -> Response:
        return Response(_bundled(name), media_type=f"{TYPES[name]}; charset=utf-8")

    return send


def _bundled(name: str) -> bytes:
    return files("regard.page").joinpath("bundle", name).read_bytes()


def _event(answer: Answer) -> str:
    return f"data: {to_json(answer)}\n\n"


def _json(value: Any) -> Response:
    return Response(to_json(value), media_type="application/json")
