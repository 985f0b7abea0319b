"""The one line and the exit code in which a command ends, for every error."""

import errno
import re

from regard.errors import Interrupted, MachineError, UserError
from regard.tables import harmless
from regard.verbs.help import flags

USER, MACHINE, INTERRUPTED = 2, 1, 130
LONGEST = 100  # letters of a name in a message; the rest of a longer one is cut out
OUT_OF_MEMORY = (
    "out of memory: lower --order, --context, --lookback, --window, --distant, --width or --batch, "
    "raise --cutoff for a smaller vocabulary, or give less text"
)
MEMORY_ERRORS = (
    "not enough memory",
    "can't allocate memory",
    "out of memory",
)  # of torch, on a CPU and on a GPU
SIZE_ERRORS = ("overflow", "Overflow", "exceeds the maximum", "too large")  # of torch, for products of sizes
FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


def describe(error: BaseException) -> tuple[str, int]:
    """The message and the exit code of an error."""
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
        case OSError():
            return _of_the_system(error)
        case RuntimeError() if any(words in str(error) for words in MEMORY_ERRORS):
            return OUT_OF_MEMORY, MACHINE
        case OverflowError():
            return f"a number is too large for this machine ({error}): give a smaller one", USER
        case RuntimeError() if any(words in str(error) for words in SIZE_ERRORS):
            return f"a size is too large for this machine ({_first_line(error)}): give a smaller one", USER
        case UnicodeEncodeError():
            return "the name of a file or folder is not UTF-8: rename it first", USER
        case RecursionError():
            return "an input is nested too deeply, or refers to itself; --debug shows where", MACHINE
    reason = f"{type(error).__name__}: {_first_line(error)}".rstrip(": ")
    return f"an error inside regard ({reason}); run the command again with --debug to see where", MACHINE


def _of_the_system(error: OSError) -> tuple[str, int]:
    """The message and the exit code of an error of files and folders."""
    name = f"{error.filename}" if error.filename else ""
    if error.errno in FULL:
        place = f" ({name})" if name else ""
        return f"the disk is full{place}: free some room or write elsewhere with --out", MACHINE
    reason = error.strerror or str(error)
    if error.errno == errno.ENAMETOOLONG:
        return f"{name}: the name is too long; choose a shorter one", USER
    if isinstance(error, FileNotFoundError | NotADirectoryError | IsADirectoryError | PermissionError):
        return f"{name or 'a file'}: {reason}; name another, or make its folder first", USER
    if error.errno == errno.EBADF and not name:
        return "standard input or output is closed: open it, or name a file", MACHINE
    return f"{name or 'the system'}: {reason}", MACHINE


def _first_line(error: BaseException) -> str:
    return next(iter(str(error).strip().splitlines()), "")[:300]


def one_line(message: str) -> str:
    """Make a message one line without control characters. Very long names are cut in the middle."""
    words = harmless(" ".join(re.split(r"[ \t\r\n]+", message.strip())), kept="")
    return re.sub(rf"[^\s/]{{{LONGEST + 24},}}", lambda name: f"{name[0][:LONGEST]}...{name[0][-20:]}", words)
