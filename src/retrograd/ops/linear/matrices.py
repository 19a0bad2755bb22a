"""Helpers of operators on stacks of matrices."""

from __future__ import annotations

from itertools import pairwise
from math import prod
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import all_examples, array_module
from ...core.arrays.dtypes import INEXACT
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor
from ...kernels.loops.layout import copies
from ..table.types import Operand


def transposed(x: Any) -> Any:
    """Return x with its last two axes swapped."""
    return x.T if len(x.shape) == 2 else np.swapaxes(x, -1, -2)


def as_rows(x: Any) -> Any:
    """Merge all axes but the last; without elements, reshape cannot infer -1."""
    if type(x) is np.ndarray and x.size >= copies.LARGE and not x.flags.c_contiguous and not are_rows(x):
        x = copies.copied(x)
    return x.reshape((prod(x.shape[:-1]), x.shape[-1]))


def are_rows(x: Array) -> bool:
    """Return whether all axes but the last can be merged without a copy: rows are evenly spaced in memory."""
    axes = [(length, step) for length, step in zip(x.shape[:-1], x.strides, strict=False) if length > 1]
    return all(outer == length * inner for (_, outer), (length, inner) in pairwise(axes))


def finite(x: Array) -> Array:
    """Check matrices before LAPACK's SVD, which may not terminate if an element is not finite."""
    numbers = all_examples(x)
    if not array_module(numbers).isfinite(numbers).all():
        raise np.linalg.LinAlgError(
            "the algorithm failed to converge because the input matrix contained non-finite values"
        )
    return x


def identity_like(x: Any) -> Any:
    """Return the identity matrix of the size of x's last axis."""
    return array_module(x).eye(x.shape[-1], dtype=x.dtype)


def lower_part(x: Array, diagonal: float) -> Array:
    """Return the lower triangle, with the diagonal times a factor."""
    xp = array_module(x)
    n = x.shape[-1]
    weights = xp.tri(n, n, -1, dtype=x.dtype) + diagonal * xp.eye(n, dtype=x.dtype)
    return x * weights


def upper_part(x: Array) -> Array:
    """Return the upper triangle."""
    return transposed(lower_part(transposed(x), 1.0))


def adjoint(x: Array) -> Array:
    """Return the conjugate transpose over the last two axes."""
    return transposed(x.conj())


def hermitian(x: Array) -> Array:
    """Return the Hermitian part of each matrix; for real matrices this is the symmetric part."""
    return (x + adjoint(x)) / 2


def matrices(value: Operand, argument: str = "A", *, square: bool = False) -> Tensor:
    """Return the argument as a stack of floating matrices."""
    x = operand(value, argument)
    if x.array.ndim < 2:
        raise RuntimeError(f"the input tensor {argument} must have at least 2 dimensions, got {describe(x)}")
    if square and x.array.shape[-1] != x.array.shape[-2]:
        raise RuntimeError(f"{argument} must be batches of square matrices, got {describe(x)}")
    if x.dtype.kind not in INEXACT or x.dtype == np.float16:
        raise RuntimeError(f"expected float32, float64 or complex numbers, got {describe(x)}")
    return x


def is_vector_batch(a: Tensor, b: Tensor) -> bool:
    """PyTorch's rule: b is a batch of vectors when it has one axis, or exactly a's shape without its last axis."""
    return b.array.ndim == 1 or (b.array.ndim == a.array.ndim - 1 and b.array.shape == a.array.shape[:-1])
