"""regard lab: a page on this machine, where one sees what a model weighs, and changes it."""

import secrets
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Annotated, Any

import uvicorn

from regard.errors import MachineError, UserError
from regard.page.catalogue import Catalogue
from regard.page.notebook import in_notebook, view_of_runs
from regard.page.safety import Guard
from regard.page.server import Lab
from regard.page.training import Training
from regard.runs.run import Run
from regard.verbs.options import Argument
from regard.verbs.parsing import parse
from regard.verbs.printing import print_json

RunPath = Run | str | Path
RunPaths = Annotated[RunPath | Sequence[RunPath], Argument(tuple[str, ...], positional=True, metavar="PATH")]
LOCAL = "127.0.0.1"


def lab(runs: RunPaths = (), *, port: int = 0, host: str = LOCAL, browser: bool = True) -> Any:
    """Open a page that shows what models weigh, and changes it. The server runs until Ctrl-C.

    One line on standard output has the page's address, with the token that the page needs. In a notebook,
    the page stands in the output cell instead, and the kernel answers it; runs may then be open already.

    >>> regard.lab(("runs/book",))  # doctest: +SKIP

    Args:
        runs: Runs, or folders with runs. Without any, the runs below this folder; if there are none, a small
            model is trained on the built-in text.
        port: The port; 0 takes a free one.
        host: The address to bind to. Any other than 127.0.0.1 lets other machines with the token in.
        browser: Open the page in the browser. Off: Do not open the page in the browser.
    """
    listed = [runs] if isinstance(runs, Run | str | Path) else list(runs)
    if in_notebook():
        return view_of_runs(listed)
    if any(isinstance(run, Run) and run.folder is None for run in listed):
        raise UserError("the lab opens runs from their folders: save this run, or show it in a notebook")
    paths = [str(run.folder if isinstance(run, Run) else run) for run in listed]
    return _run(paths, port, host, browser, print)


def _run(runs: Sequence[str], port: int, host: str, browser: bool, tell: Callable[[str], None]) -> None:
    catalogue = Catalogue(runs, Path("."))
    training = Training(_free(Path("runs")), catalogue.add, wanted=not catalogue.infos())
    listening = _listen(host, port)
    name = f"[{host}]" if ":" in host else host
    token = secrets.token_urlsafe(24)
    address = f"http://{name}:{listening.getsockname()[1]}/?token={token}"
    try:
        _serve(Lab(catalogue, training), listening, token, lambda: _opened(address, browser, tell))
    finally:
        listening.close()
        training.stop()


def _free(runs: Path) -> Path:
    """Return the first folder without files: nothing that took time is replaced."""
    number = 1
    while (path := runs / ("lab" if number == 1 else f"lab-{number}")).exists():
        number += 1
    return path


def _listen(host: str, port: int) -> socket.socket:
    if not 0 <= port < 1 << 16:
        raise UserError(f"`port` must be between 0 and {(1 << 16) - 1}; not {port}")
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        listening = socket.socket(family, socket.SOCK_STREAM)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind((host, port))
    except socket.gaierror:
        raise UserError(f"`host` {host!r} is no address of this machine") from None
    except OSError as error:
        raise MachineError(
            f"{host}:{port} cannot be used ({error.strerror}); choose another `port`"
        ) from None
    return listening


def _opened(address: str, browser: bool, tell: Callable[[str], None]) -> None:
    tell(address)
    sys.stdout.flush()
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()


def _serve(lab: Lab, listening: socket.socket, token: str, opened: Callable[[], None]) -> None:
    host, port = listening.getsockname()[:2]
    guarded = Guard(lab.app(), token, port, {host, socket.gethostname()})
    config = uvicorn.Config(
        guarded, log_level="critical", access_log=False, lifespan="off", timeout_graceful_shutdown=2
    )
    listening.listen(128)  # the browser can connect from here on
    opened()
    threading.Thread(target=lab.desk.warm, daemon=True).start()
    uvicorn.Server(config).run(sockets=[listening])


def main(arguments: list[str]) -> None:
    call = parse(lab, arguments)
    tell: Callable[[str], None] = print
    if call.json:
        tell = lambda address: print_json({"address": address})  # noqa: E731
    _run(**call.values, tell=tell)
