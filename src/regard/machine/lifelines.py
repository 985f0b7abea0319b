"""Lifelines: a connection from every rank to rank 0, which breaks when a process dies.

A rank that waits for the numbers of another one cannot know why they do not come. The system closes the
connections of a process that was killed, so rank 0 knows at once which rank was lost, prints one line and
ends; the others end when they hear it, or when the connection to rank 0 breaks. A machine that no longer
answers is noticed by the system's own probes (TCP keep-alive), whatever Python is doing.

A message is a line of JSON. The first one is {"rank", "token"}; the last one is {"code", "message"}, which
says that the process ends, and why; code 0 is the end of the work.
"""

import json
import os
import selectors
import socket
import sys
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, final

from regard.errors import Interrupted, MachineError, OneLine, UserError

GRACE = 10.0  # seconds in which a rank ends by itself after another one was lost
REASON = 3.0  # seconds in which the news of a lost rank may come after the error that follows from it
LATE = 15.0  # seconds in which every rank must connect, after it has found the others
PROBES = {"TCP_KEEPIDLE": 5, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}  # seconds, seconds, unanswered probes
Describe = Callable[[BaseException], tuple[str, int]]


@dataclass(order=True)
class End:
    """The reason for which a rank has ended. The cause of the others comes first."""

    order: int  # 0: it was lost; 1: an error of its own; 2: an error that may follow from another rank's end
    rank: int = field(compare=False)
    code: int = field(compare=False)
    message: str = field(compare=False)


class Lifeline(ABC):
    """The end of one rank's connections."""

    def __init__(self) -> None:
        self._advice = "start the ranks again"
        self._ends_itself = threading.Event()  # the main thread is ending, and says why
        self._lock = threading.Lock()
        self._spoken = False

    def advise(self, advice: str) -> None:
        """Say what the user can do when a rank is lost from now on."""
        self._advice = advice

    @abstractmethod
    def explain(self, error: BaseException, describe: Describe) -> BaseException:
        """Tell the other ranks that this one ends. Return the error that explains it best."""

    @abstractmethod
    def close(self) -> None:
        """Tell the other ranks that the work of this one is done."""

    def _lost(self, rank: int, where: str) -> str:
        why = "it was killed, or its machine does not answer"
        return f"rank {rank} ({where}) was lost: {why}; {self._advice}"

    def _tell(self, line: str) -> None:
        """Print one line, once, even if this rank is silent."""
        with self._lock:
            if not self._spoken and sys.__stderr__ is not None:
                with suppress(OSError, ValueError):
                    print(f"regard: {line}", file=sys.__stderr__, flush=True)
            self._spoken = True


@final
class Center(Lifeline):
    """The connections of rank 0 to all others."""

    def __init__(self, host: str, places: Mapping[int, str]):
        """`host` is the name by which the others know this machine, `places` says where each rank is."""
        super().__init__()
        self._places, self._ends = dict(places), list[End]()
        self._server = _listen(host)
        self.port, self.token = self._server.getsockname()[1], os.urandom(16).hex()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._server, selectors.EVENT_READ)
        self._late, self._ended_at = time.monotonic() + LATE, float("inf")
        self._peers: dict[socket.socket, _Peer] = {}
        self._closed = False
        threading.Thread(target=self._watch, name="lifelines", daemon=True).start()

    def explain(self, error: BaseException, describe: Describe) -> BaseException:
        if not isinstance(error, UserError | MachineError):
            end = self._cause(1.0 if isinstance(error, KeyboardInterrupt) else REASON)
            if end is not None and not (isinstance(error, KeyboardInterrupt) and end.code == 130):
                error = _error(end)
        self._ends_itself.set()
        self._farewell(describe(error)[1])
        return error

    def close(self) -> None:
        self._ends_itself.set()
        self._closed = True
        self._farewell(0)

    def _cause(self, seconds: float) -> End | None:
        """Wait for the end of another rank, which is the reason for an error here."""
        until = time.monotonic() + seconds
        while not self._ends and time.monotonic() < until:
            time.sleep(0.02)
        if self._ends and self._ends[0].order == 2:  # a better reason may follow
            time.sleep(0.5)
        return min(self._ends, default=None)

    def _watch(self) -> None:
        while not self._closed:
            for key, _ in self._selector.select(timeout=0.1):
                if key.fileobj is self._server:
                    self._accept()
                else:
                    self._hear(self._peers[key.fileobj])  # type: ignore[index]
            now = time.monotonic()
            if now > self._late:
                known = {peer.rank for peer in self._peers.values()} | {end.rank for end in self._ends}
                for rank in self._places.keys() - known:
                    self._note(End(0, rank, 1, self._lost(rank, self._places[rank])))
                self._late = float("inf")
            if now > self._ended_at + GRACE and not self._ends_itself.is_set():
                end = min(self._ends)
                self._tell(end.message)
                self._farewell(end.code)
                os._exit(end.code)

    def _accept(self) -> None:
        connection, _ = self._server.accept()
        _keep_alive(connection)
        self._peers[connection] = _Peer(connection)
        self._selector.register(connection, selectors.EVENT_READ)

    def _hear(self, peer: "_Peer") -> None:
        messages = peer.read()
        for message in messages or ():
            if peer.rank is None:
                if message.get("token") != self.token or message.get("rank") not in self._places:
                    messages = None
                    break
                peer.rank = message["rank"]
            else:
                peer.ended = True
                if message["code"]:
                    said = f"rank {peer.rank}: {message['message']}"
                    self._note(End(message["order"], peer.rank, message["code"], said))
        if messages is None:
            self._selector.unregister(peer.connection)
            peer.connection.close()
            if peer.rank is not None and not peer.ended:
                self._note(End(0, peer.rank, 1, self._lost(peer.rank, self._places[peer.rank])))
                peer.ended = True

    def _note(self, end: End) -> None:
        self._ends.append(end)
        self._ended_at = min(self._ended_at, time.monotonic())

    def _farewell(self, code: int) -> None:
        for connection in list(self._peers):
            _send(connection, {"code": code})


@final
class Spoke(Lifeline):
    """The connection of another rank to rank 0."""

    def __init__(self, rank: int, host: str, port: int, token: str, center: str):
        """`center` says where rank 0 is."""
        super().__init__()
        self._rank, self._center = rank, center
        self._peer = _Peer(socket.create_connection((host, port), timeout=LATE))
        self._peer.connection.settimeout(None)
        _keep_alive(self._peer.connection)
        _send(self._peer.connection, {"rank": rank, "token": token})
        self._gone = threading.Event()  # rank 0 was lost
        threading.Thread(target=self._watch, name="lifeline", daemon=True).start()

    def explain(self, error: BaseException, describe: Describe) -> BaseException:
        self._ends_itself.set()
        message, code = describe(error)
        order = 1 if isinstance(error, OneLine | KeyboardInterrupt | MemoryError | OSError) else 2
        _send(self._peer.connection, {"code": code, "message": message, "order": order})
        if not isinstance(error, OneLine) and self._gone.wait(REASON):
            self._tell_of_center()
        return error

    def close(self) -> None:
        self._ends_itself.set()
        _send(self._peer.connection, {"code": 0, "message": "", "order": 1})

    def _watch(self) -> None:
        messages: list[dict[str, Any]] | None = []
        while messages is not None and not messages:
            messages = self._peer.read()
        code = messages[0]["code"] if messages else 1
        if code == 0:
            return
        if not messages:
            self._gone.set()
        if not self._ends_itself.wait(GRACE):
            if not messages:
                self._tell_of_center()
            os._exit(code)

    def _tell_of_center(self) -> None:
        if self._rank == 1:
            self._tell(self._lost(0, self._center))


@final
@dataclass
class _Peer:
    """A connection, and what was read from it."""

    connection: socket.socket
    rank: int | None = None  # once it has said its name
    ended: bool = False  # after its last message
    _buffer: bytes = b""

    def read(self) -> list[dict[str, Any]] | None:
        """Wait for messages and return them, or None if the connection has ended."""
        try:
            data = self.connection.recv(1 << 16)
            if not data:
                return None
            *lines, self._buffer = (self._buffer + data).split(b"\n")
            return [json.loads(line) for line in lines]
        except (OSError, ValueError):
            return None


def _listen(host: str) -> socket.socket:
    """Listen at a free port: on this machine only if the others name it so."""
    if host in ("localhost", "127.0.0.1"):
        return socket.create_server(("127.0.0.1", 0))
    if socket.has_dualstack_ipv6():
        return socket.create_server(("", 0), family=socket.AF_INET6, dualstack_ipv6=True)
    return socket.create_server(("", 0))


def _keep_alive(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for name, value in PROBES.items():
        if name in vars(socket):  # not every system has them
            connection.setsockopt(socket.IPPROTO_TCP, vars(socket)[name], value)


def _send(connection: socket.socket, message: Mapping[str, Any]) -> None:
    with suppress(OSError):
        connection.sendall(json.dumps(message).encode() + b"\n")


def _error(end: End) -> BaseException:
    kind = {2: UserError, 130: Interrupted}.get(end.code, MachineError)
    return kind(end.message)
