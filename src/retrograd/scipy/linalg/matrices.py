"""Convert matrix arguments, and apply SciPy's functions to each matrix of a stack."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import Wrapping, array_module
from ...core.tensor.tensor import Tensor
from ...ops.numpy.arguments import alike, floating, tensor
from ..decorators import ArrayLike, differentiable, scipys

linalg = differentiable("scipy.linalg")


def matrix(value: ArrayLike, check_finite: bool = True, square: bool = False) -> Tensor:
    """Return an argument as a stack of floating matrices, a number as a matrix of one element.

    Raises:
        ValueError: the argument has one dimension, is not square although ``square``, or has an infinity or a NaN.
    """
    x = floating(tensor(value))
    if not x.ndim:
        x = x.reshape(1, 1)
    if x.ndim < 2:
        raise ValueError(f"expected a matrix, got shape {tuple(x.shape)}")
    if square and x.shape[-1] != x.shape[-2]:
        raise ValueError(f"expected a square matrix, got shape {tuple(x.shape)}")
    return finite(x) if check_finite else x


def finite(x: Tensor) -> Tensor:
    """Return the Tensor after a check of its numbers, which inside ``vmap`` are not checked.

    Raises:
        ValueError: the Tensor has an infinity or a NaN.
    """
    if not isinstance(x.array, Wrapping) and not bool(array_module(x.array).isfinite(x.array).all()):
        raise ValueError("array must not contain infs or NaNs")
    return x


def pair(a: ArrayLike, b: ArrayLike, check_finite: bool = True) -> tuple[Tensor, Tensor]:
    """Return two arguments in one floating or complex dtype."""
    x, y = alike(*[floating(tensor(value)) for value in (a, b)])
    return (finite(x), finite(y)) if check_finite else (x, y)


def each(name: str, *arrays: Array, **options: object) -> Array:
    """Call a function of scipy.linalg with the matrices of stacks whose leading dimensions broadcast."""
    function: Callable[..., Array] = getattr(scipys("scipy.linalg"), name)
    lead = np.broadcast_shapes(*[x.shape[:-2] for x in arrays])
    if not lead:
        return np.asarray(function(*arrays, **options))
    stacks = [np.broadcast_to(x, (*lead, *x.shape[-2:])) for x in arrays]
    results = [np.asarray(function(*[stack[index] for stack in stacks], **options)) for index in np.ndindex(*lead)]
    if not results:
        return np.empty(stacks[-1].shape, np.result_type(*arrays))
    joined = np.stack(results)
    return joined.reshape(*lead, *joined.shape[1:])


def as_columns(b: Tensor) -> tuple[Tensor, bool]:
    """Return right-hand sides as matrices, and whether ``b`` is a vector."""
    return (b[:, None], True) if b.ndim == 1 else (b, False)
