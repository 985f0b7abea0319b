"""The laws of the contracts as functions, for the tests of families from outside.

    from regard import testing

    for name, law in testing.LAWS.items():
        law(lambda: MyFamily(11, MyFamily.Config(width=7)))

`LAWS` are those of language models, and `ROW_LAWS` those of models that read whole rows (classifiers, masked
readers, word embeddings). The argument of a law is a function that makes a small model with random weights. A
law raises an AssertionError if the model breaks the law. The laws run in float64 with a tolerance of 1e-10.
The sizes of the model should be distinct primes, so that a transposed axis cannot pass.
"""

from collections.abc import Callable

from regard.testing.case import Case, Make, MakeRows, RowCase, law
from regard.testing.laws import CHECKS
from regard.testing.row_laws import ROW_CHECKS

LAWS: dict[str, Callable[[Make], None]] = {check.__name__: law(check, Case) for check in CHECKS}
ROW_LAWS: dict[str, Callable[[MakeRows], None]] = {
    check.__name__: law(check, RowCase) for check in ROW_CHECKS
}
