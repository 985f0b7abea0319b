"""Checks of numeric options.

A message names an option by its field in backticks; the command line spells the flag.
"""

from regard.errors import UserError


def check_seed(seed: int) -> int:
    if not 0 <= seed < 2**63:
        raise UserError("`seed` must be a whole number from 0 to 2 ** 63 - 1")
    return seed


def check_at_least(lowest: int, **options: int) -> None:
    for name, value in options.items():
        if value < lowest:
            raise UserError(f"`{name}` must be {lowest} or more")


def check_share(**options: float) -> None:
    for name, value in options.items():
        if not 0 <= value < 1:
            raise UserError(f"`{name}` must be 0 or more and below 1")
