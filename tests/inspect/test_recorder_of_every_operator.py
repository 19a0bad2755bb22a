"""Every operator of the table leaves a record, with the values that it gave, whichever way it takes."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import inspect
from retrograd.core.graph.modes import no_grad
from retrograd.ops.table.registry import OPERATORS
from retrograd.testing.cases import all_cases
from retrograd.testing.programs import programs
from tests.helpers.together import check_each, namespaces

CASES = {case.name: case for case in all_cases() if case.name in OPERATORS}

# They may give back what they were given, or what is left of it in a graph of its own.
THE_SAME = {"Tensor.long", "detach"}
# They write their result in parts, each of which has a record.
IN_PARTS = {"Tensor.fill_diagonal_", "as_strided_scatter", "diagonal_scatter"}


def tensors(result):
    if isinstance(result, rg.Tensor):
        return [result]
    return [x for value in result for x in tensors(value)] if isinstance(result, (list, tuple)) else []


NAMES = namespaces(CASES)


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_a_call_leaves_a_record_of_its_result(names):
    check_each(check_record, names)


def check_record(name):
    for program in programs(OPERATORS[name], CASES[name]):
        inputs = program.inputs(False)
        with no_grad(), inspect.trace() as t:
            result = program(*inputs)
        made = [x for x in tensors(result) if all(x is not value for value in inputs)]
        for x in made[:1]:
            record = t.record_of(x)
            assert record is not None or name in THE_SAME, program.call
            if name in THE_SAME | IN_PARTS:
                continue
            assert record.shape == x.shape or isinstance(record.dtype, tuple)
            if record.dtype == x.dtype and x.array.size and x.dtype.kind == "f":
                finite = x.array[np.isfinite(x.array)].astype(np.float64)
                if finite.size:
                    np.testing.assert_allclose(record.values.mean, finite.mean(), rtol=1e-9, atol=1e-9)
        break
