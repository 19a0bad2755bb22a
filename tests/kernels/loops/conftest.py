"""The array libraries by which operators with compiled loops run: NumPy, and CuPy as emulated without a GPU."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import pytest

from tests.helpers.guarded import guarded_backend


@pytest.fixture(params=[nullcontext, guarded_backend], ids=["NumPy", "emulated CuPy"])
def backend(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[object]]:
    """A context in which new Tensors have arrays of the library."""
    return request.param
