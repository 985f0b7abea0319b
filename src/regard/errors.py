"""Errors, by who has to act, and notices. The command line turns each into one line and an exit code."""

import warnings


class OneLine(Exception):
    """An error whose message stays one line, also if it quotes a name with line ends from a file."""

    def __init__(self, message: str):
        super().__init__(" ".join(message.splitlines()))


class UserError(OneLine):
    """The user's mistake (exit code 2). The message is one line that says what to do."""


class Busy(UserError):
    """Another process writes into the folder."""


class MachineError(OneLine):
    """A failure of the machine: disk, memory, NaN (exit code 1). The message says what to free or lower."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C after the work so far was saved (exit code 130). The message says how to resume."""


class Notice(UserWarning):
    """A message for the user while the work goes on, such as the name of a damaged checkpoint."""


def notify(text: str) -> None:
    """Show a notice: a warning in Python, one line on standard error on the command line."""
    warnings.warn(Notice(text), stacklevel=3)
