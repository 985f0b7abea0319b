"""Ranges of options. A message names an option by its field in backticks; the command line spells it as a flag."""

from regard.errors import UserError


def check_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise UserError("`seed` is a whole number, 0 or more and below 2 ** 63")
    return seed


def check_at_least(lowest: int, **options: int) -> None:
    for name, value in options.items():
        if value < lowest:
            raise UserError(f"`{name}` must be {lowest} or more")


def check_share(**options: float) -> None:
    for name, value in options.items():
        if not 0 <= value < 1:
            raise UserError(f"`{name}` must be 0 or more and below 1")
