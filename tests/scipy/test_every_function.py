"""Every function of ``retrograd.scipy`` through the operator harness: values are SciPy's, derivatives differences."""

from dataclasses import replace
from functools import partial
from itertools import islice

import pytest

from retrograd.testing import harness, mapping
from retrograd.testing.scipy_cases import scipy_cases
from tests.helpers.together import check_all

pytest.importorskip("scipy", minversion="1.15")

CASES = [pytest.param(*pair, id=pair[1].name) for pair in scipy_cases()]


@pytest.fixture
def some(pytestconfig):
    """Keep the first calls of a case, for costly checks; all of them with ``--long``."""
    if pytestconfig.getoption("--long"):
        return lambda case, count: case
    return lambda case, count: replace(case, calls=lambda rng: islice(case.calls(rng), count))


def check(operator, case, **columns):
    check_all((column, partial(function, operator, case)) for column, function in columns.items())


@pytest.mark.every(2)
@pytest.mark.parametrize("operator, case", CASES)
def test_values_and_derivatives(operator, case, some):
    check(
        operator,
        case,
        forward=harness.check_forward,
        dtypes=harness.check_dtypes,
        gradient=partial(harness.check_gradient, quick=True),
    )
    check(operator, some(case, 2), forward_mode=harness.check_forward_mode)


@pytest.mark.slow
@pytest.mark.every(5)
@pytest.mark.parametrize("operator, case", CASES)
def test_second_order(operator, case, some):
    harness.check_second_order(operator, some(case, 2), 1)


@pytest.mark.slow
@pytest.mark.every(5)
@pytest.mark.parametrize("operator, case", CASES)
def test_vmap(operator, case, some):
    mapping.check_vmap(operator, some(case, 1))
