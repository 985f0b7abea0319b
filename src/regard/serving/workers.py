"""A worker is a thread that owns one value, such as a model, and answers questions about it one at a time.

A question belongs to a view. A newer question of the same view replaces an older one that still waits, so
that a person who types quickly waits for the last text only. A stream gives way to other questions after
each of its pieces.
"""

import threading
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any, Generic, TypeVar, final

from regard.errors import UserError

T = TypeVar("T")
MOST_WAITING = 64  # questions to one worker


class Dropped(Exception):
    """A newer question of the same view has replaced the question, or nobody waits for the answer."""


@final
class Stream:
    """A sequence of pieces that a worker computes. `stop` may be called from any thread."""

    def __init__(self, pieces: Callable[[Any], Iterator[Any]], send: Callable[[Any], None]):
        self._make, self._send = pieces, send
        self._pieces: Iterator[Any] | None = None
        self._stopped = threading.Event()

    def stop(self) -> None:
        self._stopped.set()

    def step(self, value: Any) -> bool:
        """Compute and send one piece. Return whether there is another one; an error is the last piece."""
        if self._stopped.is_set():
            return False
        try:
            if self._pieces is None:
                self._pieces = self._make(value)
            piece = next(self._pieces)
        except StopIteration:
            self._send(None)
            return False
        except Exception as error:
            self._send(error)
            return False
        self._send(piece)
        return True


@final
class Job:
    """A question that waits, or that is being answered."""

    def __init__(self, view: str, work: Callable[[Any], Any]):
        self.view, self.work, self.future = view, work, Future[Any]()

    def step(self, value: Any) -> bool:
        if self.future.set_running_or_notify_cancel():
            try:
                self.future.set_result(self.work(value))
            except Exception as error:
                self.future.set_exception(error)
        return False

    def stop(self) -> None:
        self.future.cancel()


@final
class Worker(Generic[T]):
    """A thread that makes its value at the first question."""

    def __init__(self, make: Callable[[], T]):
        self._make, self._changed = make, threading.Condition()
        self._waiting = deque[Job | Stream]()
        threading.Thread(target=self._run, daemon=True).start()

    def ask(self, view: str, work: Callable[[T], Any]) -> Future[Any]:
        """Return the answer to come. A waiting question of the same view is cancelled."""
        job = Job(view, work)
        with self._changed:
            older = [one for one in self._waiting if isinstance(one, Job) and one.view == view]
            for one in older:
                self._waiting.remove(one)
                one.stop()
            self._add(job)
        return job.future

    def stream(self, pieces: Callable[[T], Iterator[Any]], send: Callable[[Any], None]) -> Stream:
        """Send each piece, then None or the error that ended the stream."""
        stream = Stream(pieces, send)
        with self._changed:
            self._add(stream)
        return stream

    def _add(self, one: Job | Stream) -> None:
        if len(self._waiting) >= MOST_WAITING:
            raise UserError("this model has too many questions at once: wait a moment")
        self._waiting.append(one)
        self._changed.notify()

    def _run(self) -> None:
        value: T | None = None
        while True:
            with self._changed:
                while not self._waiting:
                    self._changed.wait()
                one = self._waiting.popleft()
            if value is None:
                try:
                    value = self._make()
                except Exception as error:  # the run cannot be opened: each question is told so
                    one = _failing(one, error)
            if one.step(value):
                with self._changed:
                    self._waiting.append(one)


def _failing(one: Job | Stream, error: Exception) -> Job | Stream:
    """Return a job that ends with the error."""

    def fail(_: Any) -> Any:
        raise error

    if isinstance(one, Job):
        one.work = fail
        return one
    return Stream(fail, one._send)
