"""Every operator against PyTorch in float64: forward and gradients of its calls, on several draws of arguments."""

import pytest

from retrograd.ops.table.registry import OPERATORS
from retrograd.testing.cases import all_cases
from tests.against_torch import check_attached, check_memory, check_torch, torch_function

pytest.importorskip("torch")

CASES = {case.name: case for case in all_cases() if not case.random and case.torch != ""}
KNOWN = sorted(name for name in CASES if name in OPERATORS)
SEEDS = range(1, 6)


@pytest.mark.parametrize("name", KNOWN)
def test_operator_against_pytorch(name):
    operator, case = OPERATORS[name], CASES[name]
    assert callable(torch_function(operator, case))
    assert check_torch(operator, case, SEEDS) <= 1e-10


# PyTorch conjugates when the result is read; until then it shares the input's memory. Ours are new numbers.
CONJUGATES = {"conj", "conj_physical"}


@pytest.mark.parametrize("name", [name for name in KNOWN if name not in CONJUGATES])
def test_memory_is_shared_as_in_pytorch(name):
    check_memory(OPERATORS[name], CASES[name])


# PyTorch attaches even the gradients of running statistics, which nobody differentiates.
RUNNING = {"nn.functional.batch_norm", "nn.functional.instance_norm"}


@pytest.mark.parametrize("name", [name for name in KNOWN if CASES[name].order >= 1 and name not in RUNNING])
def test_gradients_are_attached_as_in_pytorch(name):
    check_attached(OPERATORS[name], CASES[name])


def test_most_operators_are_compared():
    """Only few have no counterpart in PyTorch, or are random."""
    assert len(KNOWN) >= 0.85 * len(OPERATORS)
