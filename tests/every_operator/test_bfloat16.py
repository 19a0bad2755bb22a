"""bfloat16: every operator that takes float16 takes it, and is as exact as eight bits are."""

from dataclasses import replace

import pytest

import retrograd as rg
from retrograd.core.graph.primitive import Primitive, apply
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


def test_a_primitive_declares_how_it_takes_bfloat16():
    seen = []

    def forward(x, w):
        seen.append(str(x.dtype))
        return x * w

    x, w = rg.ones(2, dtype=rg.bfloat16), rg.ones(2)
    dtypes = [
        str(apply(Primitive("scaled", forward, "x w", bfloat16=how), (x, w), {}).array.dtype)
        for how in ("rounded", "first", "native")
    ]
    assert seen == ["float32", "float32", "bfloat16"]
    assert dtypes == ["float32", "bfloat16", "float32"]
