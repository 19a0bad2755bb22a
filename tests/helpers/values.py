"""Values and gradients for tests of operators."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import retrograd as rg


def gradients(function: Callable[..., rg.Tensor], *values: object) -> list[np.ndarray]:
    """Return the gradients of the sum of a function of float64 leaves with these values."""
    leaves = [rg.Tensor(np.array(value, dtype=np.float64), requires_grad=True) for value in values]
    function(*leaves).sum().backward()
    return [leaf.grad.numpy() for leaf in leaves]


def complex_normal(*shape: int) -> np.ndarray:
    """Return complex numbers with standard normal parts, the same in each call."""
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)
