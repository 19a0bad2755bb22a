"""Sparse matrices under PyTorch's names: ``sparse_coo_tensor`` and its products."""

from typing import TYPE_CHECKING

from .core.missing_names import legacy_names
from .core.tensor.tensor import Tensor
from .ops.linear.sparse.invariants import check_sparse_tensor_invariants
from .ops.linear.sparse.sparse import SparseTensor, mm

__all__ = ["SparseTensor", "addmm", "check_sparse_tensor_invariants", "mm", "sum"]


def addmm(mat: Tensor, mat1: SparseTensor, mat2: Tensor, *, beta: float = 1, alpha: float = 1) -> Tensor:
    """Return ``beta * mat + alpha * mat1 @ mat2`` for a sparse ``mat1``.

    >>> a = rg.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    >>> rg.sparse.addmm(rg.ones(2, 1), a, rg.ones(2, 1))
    tensor([[3.],
            [4.]])
    """
    return mat * beta + mm(mat1, mat2) * alpha


def sum(input: SparseTensor, dim: int | None = None) -> Tensor | SparseTensor:
    """Return the sum of all elements, or the sums along one dimension as a sparse Tensor.

    >>> rg.sparse.sum(rg.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2)))
    tensor(5.)
    """
    return input.sum(dim)


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
