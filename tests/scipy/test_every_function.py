"""Every function of ``retrograd.scipy`` through the operator harness: values are SciPy's, derivatives differences."""

from functools import partial

import pytest

from retrograd.testing import harness, mapping
from retrograd.testing.scipy_cases import scipy_cases
from tests.helpers.together import check_all

pytest.importorskip("scipy", minversion="1.15")

CASES = [pytest.param(*pair, id=pair[1].name) for pair in scipy_cases()]


def check(operator, case, **columns):
    check_all((column, partial(function, operator, case)) for column, function in columns.items())


@pytest.mark.parametrize("operator, case", CASES)
def test_values_and_derivatives(operator, case):
    check(
        operator,
        case,
        forward=harness.check_forward,
        dtypes=harness.check_dtypes,
        gradient=partial(harness.check_gradient, most=6),
        forward_mode=harness.check_forward_mode,
    )


@pytest.mark.slow
@pytest.mark.parametrize("operator, case", [case for case in CASES if case.values[1].order == 2])
def test_second_order(operator, case):
    harness.check_second_order(operator, case, 3)


@pytest.mark.slow
@pytest.mark.parametrize("operator, case", CASES)
def test_vmap(operator, case):
    mapping.check_vmap(operator, case)
