"""What can go wrong, told apart by whose mistake it is: the command line turns these into one line and an exit code."""


class UserError(Exception):
    """The user's mistake (exit code 2). The message is one line that says what to do."""


class MachineError(Exception):
    """The machine's trouble: disk, memory, NaN (exit code 1). The message says what to free or lower."""


class Interrupted(KeyboardInterrupt):
    """Ctrl-C after everything was saved (exit code 130). The message says how to go on."""
