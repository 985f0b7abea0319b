"""The command line: choose the verb, import its module, report a mistake as one line and an exit code."""

import errno
import sys
import warnings
from importlib import import_module

from regard import __version__
from regard.errors import Interrupted, MachineError, Notice, UserError
from regard.machine.threads import limit_spinning
from regard.verbs.help import flags

VERBS = {
    "train": "train a model on a text",
    "compare": "train several families on one text, under one budget",
    "evaluate": "measure how well a run predicts a text, or translates",
    "score": "print the log-probability of every token of a text",
    "generate": "write text with a run",
    "translate": "translate sentences",
    "caption": "caption images",
    "align": "link the words of sentence pairs, or measure such links",
    "look": "show what a run predicts and attends to in a text",
    "trace": "show which parts of a model make a prediction",
    "doubt": "test what attention explains in a prediction",
    "heads": "show what each attention head does",
    "senses": "read and edit the sense vectors of a Backpack",
    "forget": "measure how far back models remember",
    "lesson": "run the lectures' worked examples, step by step",
    "puzzle": "test which families solve a puzzle, at which length",
    "scenes": "write the built-in scenes as images with captions",
    "draw": "draw a picture of attention weights from any tool",
    "export": "write a run in another format (ARPA, GPT-2)",
    "list": "list families, recipes, lessons and puzzles",
}
USER, MACHINE, INTERRUPTED = 2, 1, 130
HELP = """usage: regard VERB [OPTIONS]

Train, compare and open up language models.

{verbs}

  $ regard compare                                  every family on the built-in text
  $ regard train lstm --text book.txt --out runs/book
  $ regard look runs/book --text "It was" --out map.html

regard VERB --help lists the options of a verb."""
OUT_OF_MEMORY = (
    "out of memory: lower --order, --context, --lookback, --window, --distant, --width or --batch, "
    "raise --cutoff for a smaller vocabulary, or give less text"
)
MEMORY_ERRORS = (
    "not enough memory",
    "can't allocate memory",
    "out of memory",
)  # of torch, on a CPU and on a GPU


def main(arguments: list[str] | None = None) -> int:
    """Run one verb. Exit code 0; 2: user's mistake; 1: machine's trouble (disk, memory, NaN); 130: Ctrl-C."""
    limit_spinning()
    try:
        _run(sys.argv[1:] if arguments is None else arguments)
        sys.stdout.flush()
        return 0
    except BrokenPipeError:  # the reader of the output has closed it (| head), which is no mistake
        sys.stdout = None
        return 0
    except (Exception, KeyboardInterrupt) as error:
        line = _line(error)
        if line is None:
            raise
        message, code = line
        print(f"regard: {' '.join(message.split())}", file=sys.stderr)
        return code


def _run(arguments: list[str]) -> None:
    verb, *rest = arguments or ["--help"]
    if verb == "help" and rest:  # regard help train
        verb, *rest = [*rest, "--help"]
    if verb in ("--help", "-h", "help"):
        print(HELP.format(verbs="\n".join(f"  {name:<10} {about}" for name, about in VERBS.items())))
        return
    if verb == "--version":
        print(f"regard {__version__}")
        return
    _check_utf8(arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("always", Notice)
        warnings.showwarning = _show_warning
        import_module(_module(verb)).main(rest)


def _line(error: BaseException) -> tuple[str, int] | None:
    """The line and the exit code for an error. None for an error that is a fault of this program."""
    match error:
        case UserError():
            return flags(str(error)), USER
        case MachineError():
            return flags(str(error)), MACHINE
        case Interrupted():
            return str(error), INTERRUPTED
        case KeyboardInterrupt():
            return "stopped", INTERRUPTED
        case MemoryError():
            return OUT_OF_MEMORY, MACHINE
        case FileNotFoundError() | NotADirectoryError() | IsADirectoryError() | PermissionError():
            path = error.filename or "a file"
            return f"{path}: {error.strerror or error}; name another, or make its folder first", USER
        case OSError():
            return _disk(error), MACHINE
        case RuntimeError() if any(words in str(error) for words in MEMORY_ERRORS):
            return OUT_OF_MEMORY, MACHINE
    return None


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Print a notice as one line. Warnings of libraries are for programmers and are not printed."""
    if issubclass(category, Notice):
        print(f"regard: {flags(' '.join(str(message).split()))}", file=sys.stderr, flush=True)


def _check_utf8(arguments: list[str]) -> None:
    """Refuse arguments that are not UTF-8: Python reads their bytes as surrogates, which no file can hold."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            place = f"at letter {error.start} of {argument[:40]!a}"
            raise UserError(f"an argument is not UTF-8 ({place}); convert it first") from None


def _disk(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        place = f" ({error.filename})" if error.filename else ""
        return f"the disk is full{place}: free some room or write elsewhere with --out"
    return f"{error.filename or 'the system'}: {error.strerror or error}"


def _module(verb: str) -> str:
    if verb not in VERBS:
        from difflib import get_close_matches

        near = get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"regard has no verb {verb!r}; {hint}see regard --help")
    return f"regard.verbs.{verb}"
