"""bfloat16: every operator that takes float16 takes it, and is as exact as eight bits are."""

from dataclasses import replace

import pytest

from retrograd.ops.table.registry import OPERATORS
from retrograd.testing import harness
from retrograd.testing.cases import all_cases
from tests.helpers.together import check_each, namespaces

ml_dtypes = pytest.importorskip("ml_dtypes")

CASES = {case.name: replace(case, dtypes=("bfloat16",)) for case in all_cases() if "float16" in case.dtypes}


NAMES = namespaces(CASES)


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_operators_keep_bfloat16_and_are_as_exact_as_it_is(names):
    check_each(lambda name: harness.check_dtypes(OPERATORS[name], CASES[name]), names)
