"""Every operator on real CuPy arrays, wherever a GPU answers."""

import pytest

from retrograd.core.arrays.devices import is_cuda_available
from retrograd.ops.table.registry import OPERATORS
from retrograd.testing.cases import all_cases
from tests.helpers.on_device import compare_with_numpy

CASES = {case.name: case for case in all_cases()}
KNOWN = sorted(name for name in CASES if name in OPERATORS)

pytestmark = pytest.mark.gpu
if not is_cuda_available():
    pytest.skip("no GPU answers", allow_module_level=True)


@pytest.fixture
def gpu_by_default():
    from retrograd.core.arrays.devices import get_default_device, set_default_device

    before = get_default_device()
    set_default_device("cuda")
    yield
    set_default_device(before)


@pytest.mark.parametrize("name", KNOWN)
def test_operator_on_cupy(name, gpu_by_default):
    """The same numbers as on NumPy, forward, first and second order."""
    import cupy

    compare_with_numpy(OPERATORS[name], CASES[name], cupy, tolerance=1e-9)
