"""The laws over every family and every wrapper, and a planted fault for each law."""

from random import Random

import pytest
import torch
from families import MODELS, ROWS, WRAPPED, V

from regard import testing
from regard.models import FAMILIES

START, PADDING = V, V + 1


@pytest.mark.parametrize("law", testing.LAWS)
@pytest.mark.parametrize("name", MODELS | WRAPPED)
def test_law(name: str, law: str):
    testing.LAWS[law]((MODELS | WRAPPED)[name])


@pytest.mark.parametrize("law", testing.ROW_LAWS)
@pytest.mark.parametrize("name", ROWS)
def test_law_of_rows(name: str, law: str):
    testing.ROW_LAWS[law](ROWS[name])


def test_every_family_stands_under_the_laws():
    assert set(FAMILIES) <= {make().family for make in (MODELS | ROWS).values()}


@pytest.mark.parametrize("name", MODELS)
def test_probabilities_sum_to_one_in_single_precision(name: str):
    model = MODELS[name]()
    given = None if model.given is None else model.given.random(1, Random(5))
    log_probs_BTV = model.read_from_start(torch.tensor([[START, 3, 1, 4, 1, 5, 9, 2, 6]]), given)[
        0
    ].log_probs()
    # V float32 terms, each with a relative error of some 2^-24 from exp, log and the sum's own rounding
    torch.testing.assert_close(log_probs_BTV.exp().sum(2), torch.ones(1, 9), rtol=0, atol=V * 2**-21)
