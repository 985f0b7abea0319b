"""Numbers that options may have, with errors that name the option."""

from regard.errors import UserError


def check_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise UserError("--seed is a whole number, 0 or more and below 2 ** 63")
    return seed


def at_least(lowest: int, **options: int) -> None:
    for name, value in options.items():
        if value < lowest:
            raise UserError(f"--{name.replace('_', '-')} must be {lowest} or more")


def share(**options: float) -> None:
    for name, value in options.items():
        if not 0 <= value < 1:
            raise UserError(f"--{name.replace('_', '-')} must be 0 or more and below 1")
