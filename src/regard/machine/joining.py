"""Joins the processes that torchrun has started: they find each other, compare versions, and connect."""

import json
import os
import platform
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from itertools import count

import torch
import torch.distributed as dist

from regard import __version__
from regard.errors import Interrupted, MachineError, UserError, notify
from regard.machine.lifelines import Center, Describe, Lifeline, Spoke
from regard.machine.ranks import RANKS, Joined, Ranks, current_ranks
from regard.machine.torchrun import Place, read_place, several_ranks

NOTICE = 30.0  # seconds after which rank 0 names the ranks that it waits for
PATIENCE = 600.0  # seconds after which it gives up
# Lifelines notice a rank that is lost; numbers that are late have no limit of their own.
FOREVER = timedelta(days=365)
GREETINGS = count()  # a process may join the same ranks again


def plain(error: BaseException) -> tuple[str, int]:
    """The message and the exit code of an error that Python prints itself."""
    return str(error) or type(error).__name__, 2 if isinstance(error, UserError) else 1


@contextmanager
def joined(describe: Describe = plain) -> Iterator[Ranks]:
    """Join the other ranks inside the context. Without torchrun, or inside another such context: nothing.

    `describe` returns the message and the exit code of an error, which rank 0 prints for all.
    """
    if not several_ranks() or current_ranks().count > 1:
        yield current_ranks()
        return
    place = read_place()
    store = dist.PrefixStore(f"regard/{place.attempt}/{next(GREETINGS)}", open_store(place))
    lifeline = _greet(place, store)
    try:
        _choose_gpu(place)
        backend = "cpu:gloo,cuda:nccl" if torch.cuda.is_available() else "gloo"
        dist.init_process_group(
            backend, store=store, rank=place.rank, world_size=place.ranks, timeout=FOREVER
        )
        token = RANKS.set(Joined(place.rank, place.ranks, place.ranks, lifeline=lifeline))
        try:
            yield current_ranks()
        finally:
            RANKS.reset(token)
    except BaseException as error:
        explained = lifeline.explain(error, describe)
        if explained is error:
            raise
        raise explained from error
    lifeline.close()
    dist.destroy_process_group()


def open_store(place: Place) -> dist.Store:
    """Connect to the store in which the ranks find each other: torchrun's, or one of rank 0."""
    where = f"{place.host}:{place.port}"
    try:
        return dist.TCPStore(
            place.host,
            place.port,
            is_master=place.rank == 0 and not place.served,
            wait_for_workers=False,
            timeout=timedelta(seconds=PATIENCE),
        )
    except (dist.DistError, RuntimeError) as error:
        if "EADDRINUSE" in str(error):
            other = "choose another with torchrun --master-port"
            raise UserError(f"port {place.port} of {place.host} is in use: {other}") from None
        reason = str(error).partition("\n")[0][:200]
        raise MachineError(f"rank {place.rank} cannot reach rank 0 at {where} ({reason})") from None


def _greet(place: Place, store: dist.Store) -> Lifeline:
    """Tell rank 0 who this is, and connect if it finds that all ranks run the same versions."""
    versions = {"regard": __version__, "torch": torch.__version__, "Python": platform.python_version()}
    where = f"process {os.getpid()} on {socket.gethostname()}"
    store.set(f"hello/{place.rank}", json.dumps({"versions": versions, "where": where}))
    if place.rank:
        answer = json.loads(_answer(store))
        if answer["error"]:
            raise UserError(answer["error"])
        return Spoke(place.rank, place.host, answer["port"], answer["token"], answer["where"])
    error = wait_for_all(store, place.ranks)
    hellos = {} if error else {rank: json.loads(store.get(f"hello/{rank}")) for rank in range(place.ranks)}
    error = error or _different_versions(hellos)
    if error:
        store.set("answer", json.dumps({"error": error}))
        raise UserError(error)
    center = Center(place.host, {rank: hello["where"] for rank, hello in hellos.items() if rank})
    answer = {"error": "", "port": center.port, "token": center.token, "where": where}
    store.set("answer", json.dumps(answer))
    return center


def _answer(store: dist.Store) -> bytes:
    """Wait for the answer of rank 0, in steps: inside the store, Ctrl-C is not heard."""
    until = time.monotonic() + 2 * PATIENCE
    while not store.check(["answer"]):
        if time.monotonic() > until:
            raise MachineError(f"rank 0 did not answer for {2 * PATIENCE:.0f} seconds")
        time.sleep(0.02)
    return store.get("answer")


def wait_for_all(store: dist.Store, ranks: int) -> str:
    """Wait until every rank has come. Return a mistake, or nothing."""
    missing, began, noticed = list(range(ranks)), time.monotonic(), False
    while missing := [rank for rank in missing if not store.check([f"hello/{rank}"])]:
        waited, names = time.monotonic() - began, ", ".join(map(str, missing))
        if waited > PATIENCE:
            return f"rank {names} did not come within {PATIENCE:.0f} seconds: start it, or start fewer ranks"
        if waited > NOTICE and not noticed:
            noticed = True
            notify(f"waiting for rank {names} of {ranks}")
        try:
            time.sleep(0.02)
        except KeyboardInterrupt:  # torchrun stops all ranks if one of them ends
            raise Interrupted(f"stopped while waiting for rank {names}") from None
    return ""


def _different_versions(hellos: dict[int, dict]) -> str:
    ours = hellos[0]["versions"]
    for rank, hello in hellos.items():
        for name, version in hello["versions"].items():
            if version != ours[name]:
                both = f"rank {rank} ({hello['where']}) runs {name} {version}, and rank 0 {name} {ours[name]}"
                return f"{both}: install the same versions everywhere"
    return ""


def _choose_gpu(place: Place) -> None:
    """Each process of a machine has a GPU of its own, if there are any."""
    if not torch.cuda.is_available():
        return
    if place.local >= torch.cuda.device_count():
        here = f"{socket.gethostname()} has {torch.cuda.device_count()} GPUs"
        raise UserError(f"{here}, fewer than the processes that torchrun starts: lower --nproc-per-node")
    torch.cuda.set_device(place.local)
