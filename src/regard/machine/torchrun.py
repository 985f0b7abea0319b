"""The variables that `torchrun` sets for the processes that it starts. Nothing here imports torch."""

import os
import sys
from dataclasses import dataclass
from typing import NoReturn

from regard.errors import UserError
from regard.machine.streams import flush_or_discard


@dataclass(frozen=True)
class Place:
    """The place of this process among the ranks."""

    rank: int
    ranks: int
    local: int  # the number of the process on its machine
    host: str  # of rank 0
    port: int
    served: bool  # torchrun itself answers at the port; otherwise rank 0 does
    attempt: str  # of torchrun's restarts


def several_ranks() -> bool:
    """Whether torchrun has started this process together with others."""
    return "RANK" in os.environ and os.environ.get("WORLD_SIZE", "1") != "1"


def is_silent() -> bool:
    """Whether this is one of several ranks and not rank 0, which speaks for all."""
    return several_ranks() and os.environ["RANK"] != "0"


def silence() -> None:
    """Drop what this process prints. Native libraries, which write past Python, are still heard."""
    sys.stdout = sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115 - open to the end


def end_process(code: int) -> NoReturn:
    """End this process. One of several ranks leaves out the end of the interpreter.

    There, a thread of PyTorch has aborted rank 0 after its work was done ("terminate called without an active
    exception"), and torchrun reported a failure.
    """
    if several_ranks():
        flush_or_discard(sys.stdout)
        flush_or_discard(sys.stderr)
        os._exit(code)
    sys.exit(code)


def read_place() -> Place:
    """Read the variables that torchrun sets."""
    try:
        place = Place(
            rank=int(os.environ["RANK"]),
            ranks=int(os.environ["WORLD_SIZE"]),
            local=int(os.environ.get("LOCAL_RANK", "0")),
            host=os.environ["MASTER_ADDR"],
            port=int(os.environ["MASTER_PORT"]),
            served=os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
            attempt=os.environ.get("TORCHELASTIC_RESTART_COUNT", "0"),
        )
    except (KeyError, ValueError) as error:
        reason = f"is missing: {error}" if isinstance(error, KeyError) else f"is no number ({error})"
        raise UserError(f"a variable of torchrun {reason}; start regard with torchrun") from None
    if not 0 <= place.rank < place.ranks:
        raise UserError(f"RANK is {place.rank} and WORLD_SIZE {place.ranks}; start regard with torchrun")
    return place
