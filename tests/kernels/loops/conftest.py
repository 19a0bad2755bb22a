"""The array libraries by which operators with compiled loops run: NumPy, and CuPy as emulated without a GPU."""

from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels
from tests.helpers.guarded import guarded_backend


@pytest.fixture(params=[nullcontext, guarded_backend], ids=["NumPy", "emulated CuPy"])
def backend(request: pytest.FixtureRequest) -> Callable[[], AbstractContextManager[object]]:
    """A context in which new Tensors have arrays of the library."""
    return request.param


@pytest.fixture
def on_backend(backend: Callable[[], AbstractContextManager[object]]) -> Callable[..., None]:
    """Check a function of Tensors and its gradients on the library against the references on NumPy."""

    def check(function: Callable[..., rg.Tensor], *arrays: np.ndarray, rtol: float = 1e-5, atol: float = 1e-5) -> None:
        def run() -> list[np.ndarray]:
            device = rg.get_default_device()
            xs = [rg.tensor(x, device=device, requires_grad=x.dtype.kind == "f") for x in arrays]
            y = function(*xs)
            assert y.device.type == device.type
            leaves = [x for x in xs if x.requires_grad and y.requires_grad]
            gradients = rg.autograd.grad((y * y).sum(), leaves, allow_unused=True) if leaves else ()
            return [y.detach().numpy(), *[g.numpy() for g in gradients if g is not None]]

        wanted = kernels.by_reference(run, (), {})
        with backend():
            found = run()
        for one, other in zip(found, wanted, strict=True):
            assert one.dtype == other.dtype
            np.testing.assert_allclose(one, other, rtol=rtol, atol=atol * max(1, np.abs(other).max(initial=0)))

    return check
