"""Runs code in processes of its own: of a native library that can abort, so that only that process dies, and
of work that all cores share.
"""

import os
import queue
import signal
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from typing import final

from regard.errors import MachineError, UserError

HEAD = struct.Struct("<?Q")  # of an answer: whether it is a UserError's message; the number of bytes


def run_child(code: str, data: bytes, what: str) -> bytes:
    """Run Python code that reads standard input and writes standard output. `what` names it in an error."""
    done = subprocess.run(_command(code), input=data, capture_output=True, env=_environment())
    if done.returncode == 0:
        return done.stdout
    raise _failure(what, done.returncode, done.stderr)


def map_on_all_cores(code: str, first: bytes, asked: Iterable[bytes], what: str) -> Iterator[bytes]:
    """Yield the answer to each request, in order. A process on each core answers one request at a time.

    The processes run `code`, which calls `answer_requests`. Each of them is given `first` at the start.
    """
    cores = usable_cores()
    with ExitStack() as stack:
        idle = queue.SimpleQueue[Child]()
        children = [Child(code, what) for _ in range(cores)]
        for child in children:
            stack.callback(child.close)
        pool = stack.enter_context(ThreadPoolExecutor(cores))
        for _ in pool.map(lambda child: child.ask(first), children):
            pass
        for child in children:
            idle.put(child)

        def ask(data: bytes) -> bytes:
            child = idle.get()
            try:
                return child.ask(data)
            finally:
                idle.put(child)

        waiting = deque[Future[bytes]]()
        for data in asked:
            waiting.append(pool.submit(ask, data))
            if len(waiting) > 2 * cores:
                yield waiting.popleft().result()
        while waiting:
            yield waiting.popleft().result()


@final
class Child:
    """A process that answers requests, and ends when its standard input ends."""

    def __init__(self, code: str, what: str):
        self._what = what
        self._process = subprocess.Popen(
            _command(code),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            start_new_session=True,  # Ctrl-C stops this process, which closes the children's input
            env={**_environment(), "OMP_NUM_THREADS": "1", "TOKENIZERS_PARALLELISM": "false"},
        )

    def ask(self, data: bytes) -> bytes:
        sink, source = self._process.stdin, self._process.stdout
        assert sink is not None
        assert source is not None
        try:
            sink.write(HEAD.pack(False, len(data)) + data)
            sink.flush()
            refused, size = HEAD.unpack(source.read(HEAD.size))
            answer = source.read(size)
        except (BrokenPipeError, struct.error):
            answer, size = b"", 1
        if len(answer) < size:
            _, errors = self._process.communicate()
            raise _failure(self._what, self._process.returncode, errors)
        if refused:
            raise UserError(answer.decode())
        return answer

    def close(self) -> None:
        self._process.kill()
        self._process.communicate()


def answer_requests(make: Callable[[bytes], Callable[[bytes], bytes]]) -> None:
    """Answer requests from standard input. The first request is given to `make`, which makes the answerer."""
    source, sink = sys.stdin.buffer, sys.stdout.buffer
    answer: Callable[[bytes], bytes] | None = None
    while head := source.read(HEAD.size):
        _, size = HEAD.unpack(head)
        data, refused, out = source.read(size), False, b""
        try:
            if answer is None:
                answer = make(data)
            else:
                out = answer(data)
        except UserError as error:
            refused, out = True, str(error).encode()
        sink.write(HEAD.pack(refused, len(out)))
        sink.write(out)
        sink.flush()


def usable_cores() -> int:
    """The number of cores that this process may use."""
    if sys.platform == "linux":
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _command(code: str) -> list[str]:
    return [sys.executable, "-P", "-c", code]


def _environment() -> dict[str, str]:
    paths = [path for path in sys.path if path]  # without the current folder
    return {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}


def _failure(what: str, code: int, errors: bytes) -> MachineError:
    if code < 0:
        name = signal.Signals(-code).name
        return MachineError(f"{what} stopped with {name}: it probably needs more memory than it may have")
    reason = next(iter(errors.decode(errors="replace").strip().splitlines()[-1:]), "no reason is known")
    return MachineError(f"{what} failed ({reason[:300]})")
