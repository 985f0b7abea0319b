"""The command line: choose the verb, import its module, report a mistake as one line and an exit code."""

import sys
import traceback
import warnings
from importlib import import_module

from regard import __version__
from regard.endings import describe, one_line
from regard.errors import Notice, UserError
from regard.machine.signals import stop_on_signals
from regard.machine.streams import discard, flush_or_discard, open_streams, tell
from regard.machine.threads import limit_spinning
from regard.machine.torchrun import is_silent, several_ranks, silence
from regard.verbs.help import flags

VERBS = {
    "train": "train a model on a text",
    "compare": "train several families on one text, under one budget",
    "evaluate": "measure how well a run predicts a text, or translates",
    "score": "print the log-probability of every token of a text",
    "generate": "write text with a run",
    "translate": "translate sentences",
    "classify": "label texts",
    "fill": "fill the blanks of texts",
    "caption": "caption images",
    "align": "link the words of sentence pairs, or measure such links",
    "look": "show what a run predicts and attends to in a text",
    "lab": "open a page that shows what models attend to, and changes it",
    "trace": "show which parts of a model make a prediction",
    "doubt": "test what attention explains in a prediction",
    "heads": "show what each attention head does",
    "film": "show how attention heads change during a training",
    "words": "ask word vectors: nearest words, analogies, similarity",
    "senses": "read and edit the sense vectors of a Backpack",
    "forget": "measure how far back models remember",
    "lesson": "run the lectures' worked examples, step by step",
    "puzzle": "test which families solve a puzzle, at which length",
    "scenes": "write the built-in scenes as images with captions",
    "draw": "draw a picture of attention weights from any tool",
    "export": "write a run in another format (ARPA, GPT-2, word2vec)",
    "shards": "list and remove the encoded texts that are kept for the next training",
    "bench": "measure the speed of this machine, and of regard on it beside peers",
    "list": "list families, recipes, lessons, puzzles and benchmarks",
}
HELP = """usage: regard VERB [OPTIONS]

Train, compare and open up language models.

{verbs}

  $ regard compare                                  every family on the built-in text
  $ regard train lstm --text book.txt --out runs/book
  $ regard look runs/book --text "It was" --out map.html

regard VERB --help lists the options of a verb. With --debug, a mistake is shown with Python's traceback."""
DEBUG = "--debug"
ON_RANKS = ("train",)  # the verbs that several processes of torchrun run together


def main(arguments: list[str] | None = None) -> int:
    """Run one verb. Exit code 0; 2: user's mistake; 1: machine's trouble (disk, memory, NaN); 130: Ctrl-C."""
    limit_spinning()
    open_streams()
    typed = sys.argv[1:] if arguments is None else arguments
    debug = DEBUG in typed
    if is_silent() and not debug:
        silence()
    try:
        with stop_on_signals():
            return _run_whole([argument for argument in typed if argument != DEBUG])
    except BrokenPipeError:  # the reader of the output has closed it (| head), which is no mistake
        discard(sys.stdout)
        return 0
    except BaseException as error:  # a panic of a Rust library is no Exception
        flush_or_discard(sys.stdout)
        message, code = describe(error)
        if debug:
            tell("".join(traceback.format_exception(error)), end="")
        tell(f"regard: {one_line(message)}")
        return code


def _run_whole(arguments: list[str]) -> int:
    """Run one verb and write out everything that it printed."""
    code: object = 0
    try:
        _run(arguments)
    except SystemExit as ended:  # --help
        code = ended.code
    sys.stdout.flush()
    return int(code) if isinstance(code, int) else 0


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
        if several_ranks():
            _run_on_ranks(verb, rest)
        else:
            import_module(_module(verb)).main(rest)


def _run_on_ranks(verb: str, rest: list[str]) -> None:
    """Run a verb as one of the processes of torchrun."""
    module = _module(verb)
    if verb not in ON_RANKS:
        raise UserError(f"regard {verb} is one process: start it without torchrun")
    from regard.machine.joining import joined

    with joined(describe):
        import_module(module).main(rest)


def _show_warning(message: Warning | str, category: type[Warning], *_: object, **__: object) -> None:
    """Print a notice as one line. Warnings of libraries are for programmers and are not printed."""
    if issubclass(category, Notice):
        tell(f"regard: {one_line(flags(str(message)))}")


def _check_utf8(arguments: list[str]) -> None:
    """Refuse arguments that are not UTF-8: Python reads their bytes as surrogates, which no file can hold."""
    for argument in arguments:
        try:
            argument.encode()
        except UnicodeEncodeError as error:
            place = f"at letter {error.start} of {argument[:40]!a}"
            raise UserError(f"an argument is not UTF-8 ({place}); convert it first") from None


def _module(verb: str) -> str:
    if verb not in VERBS:
        from difflib import get_close_matches

        near = get_close_matches(verb, VERBS, n=1)
        hint = f"did you mean {near[0]}? " if near else ""
        raise UserError(f"regard has no verb {verb!r}; {hint}see regard --help")
    return f"regard.verbs.{verb}"
