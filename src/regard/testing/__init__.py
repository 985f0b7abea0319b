"""The laws that every language model keeps, as functions: run them over a family of your own.

    from regard import testing

    for name, law in testing.LAWS.items():
        law(lambda: MyFamily(11, MyFamily.Config(width=7)))

The argument of a law is a function that gives a new, small model with random weights. A law raises an AssertionError that
says what it found. The laws run in float64 at 1e-10. Sizes should be distinct primes, so that a transposed axis
cannot pass.
"""

from collections.abc import Callable

from regard.testing.case import Make, law
from regard.testing.laws import CHECKS

LAWS: dict[str, Callable[[Make], None]] = {check.__name__: law(check) for check in CHECKS}
