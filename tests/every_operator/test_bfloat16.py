"""bfloat16: every operator that takes float16 takes it, and is as exact as eight bits are."""

import math
from dataclasses import replace

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd.arithmetic import rule_forward, shown
from retrograd.core.graph.primitive import Primitive, apply
from retrograd.inspect.stepping.events import summary
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


def drawn(*shape, **options):
    return rg.tensor(np.linspace(0.5, 2, math.prod(shape)).reshape(shape), dtype=rg.bfloat16, **options)


def test_functions_beside_the_operators_treat_bfloat16_as_a_floating_dtype():
    x = drawn(4)
    assert rg.func.while_loop(lambda c: c < 3, lambda c: 5.0, drawn(1).sum()).dtype is rg.bfloat16
    assert rg.func.vectorize(lambda x: 2.0)(x).dtype is rg.bfloat16
    assert rg.cov(drawn(2, 4), aweights=x).dtype is rg.bfloat16
    assert np.append(x, [1j])[-1] == 1j
    assert x.is_signed()


def test_the_adjoint_of_an_equation_has_gradients_by_arguments_of_bfloat16():
    w = drawn(1, requires_grad=True)
    rg.ode.solve(lambda t, y, w: -w * y, drawn(1), [0.0, 1.0], (w,), adjoint="backsolve").y[-1].sum().backward()
    assert w.grad.item() < 0


def test_explanations_and_summaries_include_bfloat16():
    assert shown(rg.tensor(math.nan, dtype=rg.bfloat16).array) == "NaN"
    assert summary(drawn(10)) == "bfloat16(10,) from 0.5 to 2, mean 1.25"
    x = rg.tensor([[1.0, math.nan]], dtype=rg.bfloat16)
    assert rule_forward("add", [x.array[0], x.array[0]], math.nan, rg.bfloat16, {}).place == 1
    runs = []
    for factor in (1, 1 + 2**-7, 1 + 2**-4):
        with rg.inspect.trace() as run:
            drawn(4) * rg.tensor(factor, dtype=rg.bfloat16)
        runs.append(run)
    assert not runs[0].diff(runs[1]) and runs[0].diff(runs[2])
