"""``sparse``: products with sparse matrices, which are dense here."""

from __future__ import annotations

from ..core.tensor import Tensor


def mm(mat1: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices."""
    return mat1 @ mat2


def sum(input: Tensor, dim: int | None = None, dtype: object = None) -> Tensor:
    """The sum of the elements."""
    return input.sum() if dim is None else input.sum(dim)
