"""Methods of sparse arrays: elementwise functions of NumPy, comparisons, and counts, which have no derivative.

NumPy and SciPy look up two more methods on a sparse array: ``__array__``, which raises an error that names the
alternative, and ``matvec``, by which SciPy accepts the array as a linear operator.
``with_scipys`` implements Python's operators between a Tensor and a sparse matrix of SciPy.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Callable

import numpy as np

from ...core.arrays import Array
from ...core.errors import ConversionError, describe
from ...core.tensor.tensor import Tensor, new_tensor
from ...ops.numpy.bare_arrays import sparse_advice
from ..decorators import detached
from .arrays import (
    MatrixLike,
    ScipyMatrix,
    SparseArray,
    as_sparse,
    coo_array,
    coo_matrix,
    csc_array,
    csc_matrix,
    csr_array,
    csr_matrix,
    sparse,
)

# Functions with f(0) = 0, which are methods of SciPy's arrays.
_KEEPING_ZERO = (
    "arcsin arcsinh arctan arctanh ceil deg2rad expm1 floor log1p rad2deg rint sign sin sinh sqrt tan tanh trunc"
)


def _method(name: str) -> Callable[[SparseArray], SparseArray]:
    def call(self: SparseArray) -> SparseArray:
        array = self.sum_duplicates()
        return array.with_data(getattr(np, name)(array.data))

    call.__name__, call.__doc__ = name, f"Return ``np.{name}`` of each value."
    return call


# SciPy compares the numbers. A sparse array keeps its hash by identity, as Tensors do.


def _comparison(name: str) -> Callable[[SparseArray, MatrixLike], MatrixLike]:
    compare: Callable[[ScipyMatrix, MatrixLike], MatrixLike] = getattr(operator, name)

    def call(self: SparseArray, other: MatrixLike) -> MatrixLike:
        found = as_sparse(other)
        theirs = detached(other) if found is None else found.detach().to_scipy()
        result = compare(self.detach().to_scipy(), theirs)
        if isinstance(result, np.ndarray):
            return new_tensor(result)
        if not hasattr(result, "tocsr"):  # the result for a value that SciPy does not compare with
            return result
        return csr_matrix(result.tocsr()) if self.is_matrix else csr_array(result.tocsr())

    call.__name__ = f"__{name}__"
    call.__doc__ = f"Return where ``operator.{name}`` holds, a sparse array of bools as SciPy's, without a gradient."
    return call


def _count(name: str) -> Callable[..., MatrixLike]:
    def call(self: SparseArray, *args: int | None, **kwargs: int | None) -> MatrixLike:
        return getattr(self.detach().to_scipy(), name)(*args, **kwargs)

    call.__name__, call.__doc__ = name, f"Return SciPy's ``{name}``: positions or counts, which have no gradient."
    return call


def _extreme(name: str) -> Callable[[SparseArray, MatrixLike], MatrixLike]:
    function: Callable[..., Tensor] = getattr(np, name)

    def call(self: SparseArray, other: MatrixLike) -> MatrixLike:
        found = as_sparse(other)
        if found is None and np.ndim(other):
            return function(self.toarray(), other)
        result = function(self.toarray(), other if found is None else found.toarray())
        return csr_matrix(result) if self.is_matrix else csr_array(result)

    call.__name__ = name
    call.__doc__ = f"Return ``np.{name}`` of each element, a Tensor unless the other operand is sparse or a number."
    return call


def _array(self: SparseArray, dtype: object = None, copy: bool | None = None) -> Array:
    """Raise an error that names the alternative; without this method NumPy would create a 0-d array of one object."""
    raise ConversionError(f"a sparse array of Tensors cannot become a NumPy array: {sparse_advice(sys._getframe(1))}")


def _matvec(self: SparseArray, x: MatrixLike) -> Tensor:
    """Return ``A @ x``. SciPy accepts objects with this method as linear operators."""
    return self @ x


def _rmatvec(self: SparseArray, x: MatrixLike) -> Tensor:
    """Return ``A^H @ x``."""
    return self.T.conj() @ x


# Operators of a Tensor and a sparse array; there is no quotient, as in SciPy.
_OPERATORS = ("add", "sub", "mul", "matmul", "eq", "ne", "lt", "le", "gt", "ge")


def with_scipys(name: str, x: Tensor, matrix: ScipyMatrix) -> MatrixLike:
    """Return the result of an operator between a Tensor and a sparse matrix of SciPy, which is a constant.

    Args:
        name: ``add`` for ``x + matrix``, ``radd`` for ``matrix + x``, ``iadd`` for ``x += matrix``.

    Raises:
        ValueError: the matrix does not have two dimensions.
    """
    if matrix.ndim != 2:
        raise ValueError(
            f"{name}: a sparse array of SciPy must have 2 dimensions in an operation with {describe(x)}, got shape "
            f"{matrix.shape}; use reshape, or toarray()"
        )
    ours = as_sparse(matrix, isinstance(matrix, sparse().spmatrix))
    assert ours is not None
    if name in ("iadd", "isub"):
        return getattr(operator, name)(x, ours.toarray())
    if name in _OPERATORS:
        return getattr(operator, name)(x, ours)
    reflected = name.removeprefix("r")
    return getattr(operator, reflected)(ours, x) if reflected in (*_OPERATORS, "truediv") else NotImplemented


for _name in _KEEPING_ZERO.split():
    setattr(SparseArray, _name, _method(_name))
for _name, _function in (("__array__", _array), ("matvec", _matvec), ("rmatvec", _rmatvec)):
    setattr(SparseArray, _name, _function)
for _name in ("maximum", "minimum"):
    setattr(SparseArray, _name, _extreme(_name))
for _name in ("eq", "ne", "lt", "le", "gt", "ge"):
    setattr(SparseArray, f"__{_name}__", _comparison(_name))
for _name in ("argmax", "argmin", "count_nonzero", "nonzero"):
    setattr(SparseArray, _name, _count(_name))
for _kind in (coo_array, csc_array, coo_matrix, csr_matrix, csc_matrix):
    _kind.__doc__ = f"""{_kind.__doc__}

    >>> A = rg.scipy.sparse.{_kind.__name__}((rg.tensor([1.0, 2.0]), ([0, 1], [1, 0])))
    >>> A {"*" if _kind.is_matrix else "@"} rg.tensor([3.0, 4.0])
    tensor([4., 6.])
    """
