"""Checks of numeric options.

A message names an option by its field in backticks; the command line spells the flag.
"""

import dataclasses
from typing import Any

from regard.errors import UserError

LARGEST = 2**31  # sizes stay below, so that products of two sizes fit into 64 bits


def check_sizes(options: Any) -> None:
    """Refuse whole numbers in a dataclass that no machine can work with. A seed may be larger."""
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        numbers = value if isinstance(value, tuple | list) else (value,)
        if field.name != "seed":
            for number in numbers:
                check_size(field.name, number)


def check_size(name: str, value: object) -> None:
    if isinstance(value, int) and abs(value) >= LARGEST:
        shown = value if abs(value) < 10**20 else "much more"
        raise UserError(f"`{name}` must be below 2 ** 31; not {shown}")


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
