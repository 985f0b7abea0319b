"""Workers: one question at a time, the newest of a view, streams that give way."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from regard.errors import UserError
from regard.serving.workers import MOST_WAITING, Worker


class Held:
    """A worker whose first question waits until it is let go."""

    def __init__(self) -> None:
        self.go, self.began = threading.Event(), threading.Event()
        self.worker = Worker(lambda: "model")
        self.first = self.worker.ask("held", self._wait)
        assert self.began.wait(10)

    def _wait(self, model: str) -> str:
        self.began.set()
        assert self.go.wait(10)
        return model


def test_the_newest_question_of_a_view_wins():
    held = Held()
    asked = [held.worker.ask("a", lambda _, number=number: number) for number in range(3)]
    other = held.worker.ask("b", lambda _: "b")
    held.go.set()
    assert [held.first.result(10), asked[2].result(10), other.result(10)] == ["model", 2, "b"]
    assert [future.cancelled() for future in asked] == [True, True, False]


def test_a_question_that_is_being_answered_is_not_replaced():
    held = Held()
    newer = held.worker.ask("held", lambda _: "newer")
    held.go.set()
    assert [held.first.result(10), newer.result(10)] == ["model", "newer"]


def test_a_stream_gives_way_to_questions_and_stops():
    worker, seen, ended = Worker(lambda: 0), list[Any](), threading.Event()

    def pieces(_: int) -> Iterator[int]:
        yield from range(1000)

    def send(piece: Any) -> None:
        seen.append(piece)
        if piece == 3:
            stream.stop()
            ended.set()

    held = threading.Event()
    worker.ask("held", lambda _: held.wait(10))
    stream = worker.stream(pieces, send)
    asked = worker.ask("a", lambda _: len(seen))
    held.set()
    assert ended.wait(10)
    assert asked.result(10) == 1  # answered after the first piece
    assert worker.ask("b", lambda _: list(seen)).result(10) == [0, 1, 2, 3]


@pytest.mark.parametrize("error", [UserError("no such run"), ValueError("a fault")])
def test_errors_reach_the_asker_and_the_worker_lives_on(error):
    fails = [True]

    def make() -> str:
        if fails.pop():
            fails.append(False)
            raise error
        return "model"

    worker = Worker(make)
    with pytest.raises(type(error)):
        worker.ask("a", str).result(10)
    assert worker.ask("a", str).result(10) == "model"

    def broken(_: str) -> Iterator[str]:
        yield "piece"
        raise error

    got, done = list[Any](), Future[None]()

    def send(piece: Any) -> None:
        got.append(piece)
        if piece is error:
            done.set_result(None)

    worker.stream(broken, send)
    done.result(10)
    assert got == ["piece", error]


def test_there_is_a_limit_of_waiting_questions():
    held = Held()
    for number in range(MOST_WAITING):
        held.worker.ask(str(number), str)
    with pytest.raises(UserError, match="too many questions"):
        held.worker.ask("one more", str)
    held.go.set()
