"""The command line: the verb is chosen before its module is imported, and every mistake is one line and an exit code."""

import errno
import re
import sys
import warnings
from importlib import import_module

from regard import __version__
from regard.errors import Interrupted, MachineError, Notice, UserError
from regard.machine.threads import limit_spinning

VERBS = {
    "train": "train a model on a text",
    "compare": "train several families on one text, under one budget",
    "evaluate": "measure a run on a text",
    "score": "every token of a text with its log-probability",
    "generate": "write text with a run",
    "translate": "translate sentences",
    "align": "which word stands for which, and the error rate of that",
    "look": "what a run predicts and weighs while it reads a text",
    "trace": "where a prediction comes from",
    "lesson": "the lectures' worked examples, step by step",
    "puzzle": "which family solves what, at which length",
    "draw": "a picture of weights from any tool",
    "export": "a run in another format (ARPA, GPT-2)",
    "list": "families, recipes, lessons, puzzles",
}
USER, MACHINE, INTERRUPTED = 2, 1, 130


def main(arguments: list[str] | None = None) -> int:
    """Run one verb. Exit 0; 2 for the user's mistake; 1 for the machine's (disk, memory, NaN); 130 for Ctrl-C."""
    arguments = sys.argv[1:] if arguments is None else arguments
    limit_spinning()
    try:
        if not arguments or arguments[0] in ("--help", "-h", "help"):
            print(_help())
            return 0
        if arguments[0] == "--version":
            print(f"regard {__version__}")
            return 0
        _check_utf8(arguments)
        with warnings.catch_warnings():
            warnings.simplefilter("always", Notice)
            warnings.showwarning = _show_warning
            import_module(_module(arguments[0])).main(arguments[1:])
        sys.stdout.flush()
        return 0
    except UserError as error:
        return _tell(flags(str(error)), USER)
    except MachineError as error:
        return _tell(flags(str(error)), MACHINE)
    except Interrupted as stop:
        return _tell(str(stop), INTERRUPTED)
    except KeyboardInterrupt:
        return _tell("stopped", INTERRUPTED)
    except BrokenPipeError:  # the reader of the output has gone (| head): nothing is wrong
        sys.stdout = None
        return 0
    except MemoryError:
        return _tell(OUT_OF_MEMORY, MACHINE)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:
        path = error.filename or "a file"
        return _tell(f"{path}: {error.strerror or error}; name another, or make its folder first", USER)
    except OSError as error:
        return _tell(_disk(error), MACHINE)
    except RuntimeError as error:
        # torch's words on a CPU, old and new, and on a GPU
        if any(
            words in str(error) for words in ("not enough memory", "can't allocate memory", "out of memory")
        ):
            return _tell(OUT_OF_MEMORY, MACHINE)
        raise


def flags(message: str) -> str:
    """A message whose options, named in backticks, are spelled as flags.

    >>> flags("`top_k` must be 1 or more")
    '--top-k must be 1 or more'
    """
    return re.sub(r"`([a-z][a-z_]*)`", lambda name: f"--{name[1].replace('_', '-')}", message)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Notices are one line each. Warnings of libraries are for programmers."""
    if issubclass(category, Notice):
        print(f"regard: {' '.join(str(message).split())}", file=sys.stderr, flush=True)


def _check_utf8(arguments: list[str]) -> None:
    """Bytes that are not UTF-8 arrive as halves of surrogate pairs, which nothing can write."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            where = f"at letter {error.start} of {argument[:40]!a}"
            raise UserError(f"an argument is not UTF-8 ({where}); convert it first") from None


OUT_OF_MEMORY = (
    "out of memory: lower --order, --context, --lookback, --window, --distant, --width or --batch, "
    "raise --cutoff for a smaller vocabulary, or give less text"
)


def _disk(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        where = f" ({error.filename})" if error.filename else ""
        return f"the disk is full{where}: free some room or write elsewhere with --out"
    return f"{error.filename or 'the system'}: {error.strerror or error}"


def _module(verb: str) -> str:
    if verb not in VERBS:
        from difflib import get_close_matches

        near = get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"regard has no verb {verb!r}; {hint}see regard --help")
    return f"regard.verbs.{verb}"


def _help() -> str:
    verbs = "\n".join(f"  {name:<10} {about}" for name, about in VERBS.items())
    return f"usage: regard VERB ...\n\nTrain, compare and open up language models.\n\n{verbs}\n\nregard VERB --help says more."


def _tell(message: str, code: int) -> int:
    print(f"regard: {' '.join(message.split())}", file=sys.stderr)
    return code
