"""The command line: the verb is chosen before its module is imported; every mistake is one line and an exit code."""

import errno
import sys
import warnings
from importlib import import_module

from regard import __version__
from regard.errors import Interrupted, MachineError, Notice, UserError
from regard.machine.threads import limit_spinning

VERBS = {
    "train": ("regard.commands.train", "train a model on a text"),
    "compare": ("regard.commands.compare", "several families on one text, under one budget"),
    "evaluate": ("regard.commands.evaluate", "measure a run on a text"),
    "score": ("regard.commands.score", "every token with its log-probability"),
    "generate": ("regard.commands.generate", "write text with a run"),
    "translate": ("regard.commands.translate", "sentences in another language"),
    "align": ("regard.commands.align", "which word stands for which, and how right that is"),
    "look": ("regard.commands.look", "what a run expects and weighs while it reads a text"),
    "trace": ("regard.commands.trace", "where a Transformer's prediction comes from"),
    "lesson": ("regard.commands.lesson", "the lectures' worked examples, step by step"),
    "puzzle": ("regard.commands.puzzle", "who can solve what, at which length"),
    "draw": ("regard.commands.draw", "a picture of weights from any tool"),
    "export": ("regard.commands.export", "a run in another form (ARPA, GPT-2)"),
    "list": ("regard.commands.listing", "families, recipes, lessons, puzzles"),
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
        return _say(str(error), USER)
    except MachineError as error:
        return _say(str(error), MACHINE)
    except Interrupted as stop:
        return _say(str(stop), INTERRUPTED)
    except KeyboardInterrupt:
        return _say("stopped", INTERRUPTED)
    except BrokenPipeError:  # the reader of our output has gone (| head): nothing is wrong
        sys.stdout = None
        return 0
    except MemoryError:
        return _say(_OUT_OF_MEMORY, MACHINE)
    except (FileNotFoundError, NotADirectoryError, IsADirectoryError, PermissionError) as error:  # a path that was given does not do
        return _say(f"{error.filename or 'a file'}: {error.strerror or error}; name another, or make its folder first", USER)
    except OSError as error:
        return _say(_disk(error), MACHINE)
    except RuntimeError as error:
        # torch's words on a CPU, old and new, and on a GPU
        if any(words in str(error) for words in ("not enough memory", "can't allocate memory", "out of memory")):
            return _say(_OUT_OF_MEMORY, MACHINE)
        raise


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Notices are one line each; what libraries warn of is for programmers."""
    if issubclass(category, Notice):
        print(f"regard: {' '.join(str(message).split())}", file=sys.stderr, flush=True)


def _check_utf8(arguments: list[str]) -> None:
    """Bytes that are not UTF-8 come as halves of surrogate pairs, which nothing can write."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            raise UserError(f"an argument is not UTF-8 (at letter {error.start} of {argument[:40]!a}); convert it first") from None


_OUT_OF_MEMORY = (
    "out of memory: lower --order, --context, --lookback, --window, --distant, --width or --batch, "
    "raise --cutoff for a smaller vocabulary, or give less text"
)


def _disk(error: OSError) -> str:
    if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG):
        return f"the disk is full{f' ({error.filename})' if error.filename else ''}: free some room or write elsewhere with --out"
    return f"{error.filename or 'the system'}: {error.strerror or error}"


def _module(verb: str) -> str:
    if verb not in VERBS:
        from difflib import get_close_matches

        near = get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"regard has no verb {verb!r}; {hint}see regard --help")
    return VERBS[verb][0]


def _help() -> str:
    verbs = "\n".join(f"  {name:<10} {what}" for name, (_, what) in VERBS.items())
    return f"usage: regard VERB ...\n\nTrain, compare and open up language models.\n\n{verbs}\n\nregard VERB --help says more."


def _say(message: str, code: int) -> int:
    print(f"regard: {' '.join(message.split())}", file=sys.stderr)
    return code
