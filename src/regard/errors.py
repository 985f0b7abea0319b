"""Errors, told apart by whose mistake they are, and notices. The command line turns each into one line and an exit code."""

import warnings


class UserError(Exception):
    """The user's mistake (exit code 2). The message is one line that says what to do."""


class Busy(UserError):
    """Another process writes into the folder."""


class MachineError(Exception):
    """The machine's trouble: disk, memory, NaN (exit code 1). The message says what to free or lower."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C after everything was saved (exit code 130). The message says how to go on."""


class Notice(UserWarning):
    """Something that the person should know while the work goes on, such as a damaged checkpoint that was set aside."""


def notify(text: str) -> None:
    """Tell the person. From Python it is a warning; the command line writes it as one line on standard error."""
    warnings.warn(Notice(text), stacklevel=3)
