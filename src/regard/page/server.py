"""The lab's server. Questions are POST requests with JSON; writing is a stream of server-sent events.

An answer that takes longer than PATIENCE seconds gets a ticket, with which the page asks again: no request
hangs on a long computation.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from concurrent.futures import CancelledError, Future
from importlib.resources import files
from typing import Any, final

from fastapi import FastAPI, Request, Response
from starlette.responses import StreamingResponse

from regard.boundary import parse_json
from regard.errors import UserError
from regard.page import protocol
from regard.page.catalogue import Catalogue
from regard.page.desk import ASKED, SAVE, STREAMED, Desk, Send, is_piece, reason
from regard.page.protocol import Answer, Runs, to_json
from regard.page.training import Training
from regard.serving.workers import Stream

PATIENCE = 8.0  # seconds until an answer gets a ticket
FORGET = 30.0  # seconds until an answer for which nobody asks is forgotten
STREAMS = 8  # texts that are written at a time
TYPES = {"lab.js": "text/javascript", "lab.css": "text/css"}


@final
class Lab:
    """The routes of the server."""

    def __init__(self, catalogue: Catalogue, training: Training):
        self._catalogue, self._training = catalogue, training
        self.desk = Desk(catalogue.infos, self._opener)
        self._tickets = dict[str, Future[Any]]()
        self._streams = 0

    def app(self) -> FastAPI:
        app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)
        app.add_api_route("/", self.shell, methods=["GET"])
        for name in TYPES:
            app.add_api_route(f"/{name}", _static(name), methods=["GET"])
        app.add_api_route("/api/runs", self.runs, methods=["GET"])
        app.add_api_route("/api/training", self.progress, methods=["GET"])
        app.add_api_route("/api/train", self.train, methods=["POST"])
        app.add_api_route("/api/wait", self.wait, methods=["POST"])
        for name in (*ASKED, SAVE):
            app.add_api_route(f"/api/{name}", self._asker(name), methods=["POST"])
        for name in STREAMED:
            app.add_api_route(f"/api/{name}", self._streamer(name), methods=["POST"])
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

    def _opener(self, run: str) -> Callable[[], Any]:
        path = self._catalogue.path(run)

        def open_run() -> Any:
            from regard.page.measures import Opened  # imports torch, in the worker's thread
            from regard.runs.formats import load

            return Opened(load(path))

        return open_run

    def _asker(self, name: str) -> Callable[[Request], Any]:
        async def ask(request: Request) -> Response:
            try:
                view = request.headers.get("x-lab-view", "")[:100]
                future = self.desk.ask(name, await request.body(), view)
            except UserError as error:
                return _json(Answer("failed", error=reason(error)))
            return await self._answer(future, request)

        return ask

    async def wait(self, request: Request) -> Response:
        try:
            ticket = parse_json(protocol.WaitQuestion, await request.body(), "the question").ticket
        except UserError as error:
            return _json(Answer("failed", error=reason(error)))
        future = self._tickets.pop(ticket, None)
        return _json(Answer("dropped")) if future is None else await self._answer(future, request)

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

    def _streamer(self, name: str) -> Callable[[Request], Any]:
        """Return a route that sends each piece of an answer as soon as it is there."""

        async def stream(request: Request) -> Response:
            try:
                begin = self.desk.stream(name, await request.body())
                if self._streams >= STREAMS:
                    raise UserError("too many texts and measurements are made at once: stop one first")
            except UserError as error:
                return _json(Answer("failed", error=reason(error)))
            return StreamingResponse(self._pieces(begin), media_type="text/event-stream")

        return stream

    async def _pieces(self, begin: Callable[[Send], Stream]) -> AsyncIterator[str]:
        """Yield server-sent events. The stream stops when the page goes away: then `finally` runs."""
        loop, queue = asyncio.get_running_loop(), asyncio.Queue[Any]()

        def send(piece: Any) -> None:
            loop.call_soon_threadsafe(queue.put_nowait, piece)

        self._streams += 1
        stream = None
        try:
            stream = begin(send)
            while (piece := await queue.get()) is not None:
                if isinstance(piece, Exception):
                    yield _event(Answer("failed", error=reason(piece)))
                    return
                if not is_piece(piece):
                    yield _event(Answer("done", result=piece))
                    return
                yield _event(Answer("working", result=piece))
            yield _event(Answer("done"))
        except UserError as error:
            yield _event(Answer("failed", error=reason(error)))
        finally:
            self._streams -= 1
            if stream is not None:
                stream.stop()


def _told(answer: "asyncio.Future[Any]") -> Response:
    try:
        result = answer.result()
    except (CancelledError, asyncio.CancelledError):
        return _json(Answer("dropped"))
    except Exception as error:
        return _json(Answer("failed", error=reason(error)))
    if isinstance(result, bytes):
        return Response(result, media_type="application/octet-stream")
    return _json(Answer("done", result=result))


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
