"""Every operator of the table under the smallest memory budget: what can be computed again is, and no bit changes."""

import re

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd.gradcheck import differentiable_outputs, random_like
from retrograd.core.arrays.fp_warnings import silent
from retrograd.core.graph.primitive import apply1
from retrograd.core.tensor.mutation import COPY, apply_inplace
from retrograd.core.tensor.storage import overlaps_itself
from retrograd.ops.table.registry import OPERATORS
from retrograd.testing.cases import all_cases
from retrograd.testing.harness import CLONE, aliased
from retrograd.testing.programs import make_tensor, programs

CASES = {case.name: case for case in all_cases() if case.name in OPERATORS and case.order >= 1}

MOST_CALLS = 4  # of one operator, without ``--long``


def gradients(program, order, writes_constants=False):
    """First and second derivatives, as bytes, of the squares of an operator's results; its inputs are results, too.

    The inputs, and where it is asked for the constants, are written over before the walk.
    """
    constants = []

    def make(array):
        constants.append(make_tensor(array))
        return constants[-1]

    leaves = program.inputs()
    program.make = make
    with silent():
        inputs = [apply1(CLONE, x) for x in leaves]
        outputs = differentiable_outputs(program(*inputs))
        if not outputs:
            return None
        for x in (*inputs, *(constants if writes_constants else ())):
            if not any(aliased(x, y) for y in outputs) and not overlaps_itself(x.array):
                apply_inplace(COPY, x, 0)
        squares = [y * y for y in outputs]
        cotangents = random_like(squares, np.random.default_rng(3))
        del inputs, outputs
        found = rg.autograd.grad(squares, leaves, cotangents, allow_unused=True, create_graph=order > 1)
        if order > 1:
            firsts = [g for g in found if g is not None and g.requires_grad]
            if firsts:
                ones = random_like(firsts, np.random.default_rng(4))
                found += rg.autograd.grad(firsts, leaves, ones, allow_unused=True)
    return [None if g is None else g.detach().array.tobytes() for g in found]


@pytest.mark.every(4)
@pytest.mark.parametrize("name", sorted(CASES))
def test_gradients_are_the_same_to_the_last_bit(name, pytestconfig):
    case, long = CASES[name], pytestconfig.getoption("--long")
    order, calls = case.order if long else 1, list(programs(OPERATORS[name], case))
    for program in calls if long else calls[:: 1 + len(calls) // MOST_CALLS]:
        plain = gradients(program, order)
        writes = gradients(program, order, writes_constants=True) == plain
        limit = 1
        for _ in range(8):  # each walk may name a number of its own
            try:
                with rg.memory_budget(limit):
                    bounded = gradients(program, order, writes)
                break
            except RuntimeError as error:
                limit = int(re.search(r"a budget of (\d+) bytes", str(error))[1])
        else:
            pytest.fail(f"{program}: no budget is large enough")
        assert bounded == plain, program
