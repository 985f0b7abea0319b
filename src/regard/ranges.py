"""The ranges of numbers from outside: types of options, of config fields and of arguments of verbs.

boundary.py checks a value against its type, so that a number out of range is one line that names the field.
"""

import dataclasses
from typing import Annotated, Any

from annotated_types import Ge, Gt, Interval, Le, Lt

from regard.errors import UserError

MOST = 2**31 - 1  # products of two sizes fit into 64 bits


def check_sizes(options: Any) -> None:
    """Refuse whole numbers in a dataclass that no machine can work with. A seed may be larger."""
    for field in dataclasses.fields(options):
        value = getattr(options, field.name)
        numbers = value if isinstance(value, tuple | list) else (value,)
        if field.name != "seed":
            for number in numbers:
                check_size(field.name, number)


def check_size(name: str, value: object) -> None:
    if isinstance(value, int) and abs(value) > MOST:
        raise UserError(f"`{name}` must be at most {MOST}")


Count = Annotated[int, Interval(ge=1, le=MOST)]
Number = Annotated[int, Interval(ge=0, le=MOST)]
Whole = Annotated[int, Interval(ge=-MOST, le=MOST)]
Layers = Annotated[int, Interval(ge=1, le=1000)]  # a model of so many layers is still made within seconds
Depth = Annotated[int, Interval(ge=0, le=30)]  # of spans that double
MOST_ORDERS = 100
Order = Annotated[int, Interval(ge=1, le=MOST_ORDERS)]
Beam = Annotated[int, Interval(ge=1, le=10_000)]
Index = Annotated[int, Interval(ge=0, le=1)]  # the number of the first word
Finite = Annotated[float, Interval(ge=-1e9, le=1e9)]
Rows = Annotated[int, Interval(ge=1, le=1_000_000)]  # rows of one batch: texts, hypotheses
Seed = Annotated[int, Ge(0), Lt(2**63)]
Size = Seed  # bytes and tokens of texts
Share = Annotated[float, Ge(0), Lt(1)]
Part = Annotated[float, Gt(0), Le(1)]
UpToOne = Annotated[float, Ge(0), Le(1)]
UpToHalf = Annotated[float, Ge(0), Le(0.5)]
Positive = Annotated[float, Interval(gt=0, le=1e9)]
NotNegative = Annotated[float, Interval(ge=0, le=1e9)]
