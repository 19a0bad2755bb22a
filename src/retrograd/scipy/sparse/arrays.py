"""Sparse arrays with SciPy's interface whose values are a Tensor: ``csr_array``, ``csc_array``, ``coo_array``.

Values are differentiable, their positions are constant. For a slice or a conversion, SciPy is applied to a matrix with
the values 1, 2, ...; its result tells where each value of the new array comes from.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType
from typing import Any, ClassVar, Literal, Self, TypeAlias

import numpy as np

from ..._generated import toplevel as ops
from ...core.arrays import Array
from ...core.arrays.public_dtypes import dtype as PublicDType
from ...core.errors import describe
from ...core.graph.primitive import apply
from ...core.tensor.tensor import Tensor, new_tensor
from ...ops.linear.sparse.products import SPMM, Places
from ...ops.linear.sparse.products import ScipyMatrix as ScipyMatrix
from ...ops.linear.sparse.sparse import SparseTensor
from ...ops.numpy.arguments import tensor as joined
from ...ops.table.types import DTypeLike
from ..decorators import has_tensor, scipys

Format: TypeAlias = Literal["coo", "csr", "csc"]
# An argument that is accepted as a matrix: Tensors, and whatever SciPy accepts, which has no type annotations.
MatrixLike: TypeAlias = Any


def sparse() -> ModuleType:
    """Return ``scipy.sparse``."""
    return scipys("scipy.sparse")


def tensor(value: MatrixLike) -> Tensor:
    """Return a dense argument as a Tensor, which shares its memory unless it is a list of Tensors."""
    if isinstance(value, (list, tuple)) and has_tensor(value):
        return joined(value)
    return value if isinstance(value, Tensor) else new_tensor(np.asarray(value))


def _indices(values: MatrixLike, name: str, length: int) -> Array:
    array: Array = values.detach().numpy() if isinstance(values, Tensor) else np.asarray(values)
    if array.dtype.kind == "f" and (array == np.floor(array)).all():  # np.kron with np.ones gives float indices
        array = array.astype(np.int64)
    if array.ndim != 1 or array.size and array.dtype.kind not in "iu":
        raise ValueError(f"{name} must be a vector of integers, got {describe(array)}")
    if array.size and not 0 <= int(array.min()) <= int(array.max()) < length:
        raise ValueError(f"{name} must lie in [0, {length}), got {int(array.min())} to {int(array.max())}")
    return array if array.size else array.astype(np.int32)


class SparseArray:
    """The base class of sparse arrays with SciPy's interface and differentiable values.

    ``data`` is the Tensor of values; ``indices`` and ``indptr``, or ``row`` and ``col``, are NumPy arrays. Values at
    the same place add up. A single row or column, ``A[i]``, is a dense Tensor.

    >>> assert isinstance(rg.scipy.sparse.csr_array(rg.eye(2)), rg.scipy.sparse.SparseArray)
    """

    format: ClassVar[Format]
    is_matrix: ClassVar[bool] = False  # whether ``*`` is the matrix product

    __array_ufunc__ = None
    __array_priority__ = 1000
    ndim = 2

    data: Tensor
    shape: tuple[int, int]
    _stored: Places  # positions in the matrix, or in its transpose if columns are compressed

    def __init__(
        self, arg1: MatrixLike, shape: Sequence[int] | None = None, dtype: DTypeLike | None = None, copy: bool = False
    ) -> None:
        size = None if shape is None else _shape(shape)
        if isinstance(arg1, tuple) and len(arg1) == 2 and all(isinstance(n, (int, np.integer)) for n in arg1):
            height, width = _shape(arg1)
            none = np.zeros(0, np.int32)
            self._set_coordinates(ops.zeros(0, dtype=dtype or np.float64), none, none, (height, width))
        elif isinstance(arg1, tuple) and len(arg1) == 2:
            data, (rows, columns) = arg1
            if size is None:
                size = _smallest(rows), _smallest(columns)
            self._set_coordinates(tensor(data), _indices(rows, "row", size[0]), _indices(columns, "col", size[1]), size)
        elif isinstance(arg1, tuple) and len(arg1) == 3 and self.format != "coo":
            self._set_compressed(*arg1, size)
        elif isinstance(arg1, SparseArray):
            self._adopt(arg1.asformat(self.format))
        elif isinstance(arg1, SparseTensor):
            if arg1.ndim != 2 or arg1.dense_dim():
                raise ValueError(f"a sparse array has two dimensions, got {describe(arg1)}")
            rows, columns = arg1._indices().numpy()
            self._set_coordinates(arg1._values(), rows, columns, (arg1.shape[0], arg1.shape[1]))
        elif sparse().issparse(arg1):
            self._adopt_scipy(arg1.asformat(self.format))
        else:
            dense = tensor(arg1)
            if dense.ndim != 2:
                raise ValueError(f"expected a dense array of two dimensions, got {describe(dense)}")
            rows, columns = dense.detach().numpy().nonzero()
            self._set_coordinates(dense[rows, columns], rows, columns, (dense.shape[0], dense.shape[1]))
        if size is not None and self.shape != size:
            raise ValueError(f"the shape is {self.shape}, but shape={size} was given")
        if dtype is not None:
            self.data = self.data.to(dtype)
        if copy:
            self.data = self.data.clone()

    @classmethod
    def _of(cls, data: Tensor, stored: Places, shape: tuple[int, int]) -> Self:
        made = object.__new__(cls)
        made.data, made._stored, made.shape = data, stored, shape
        return made

    def _adopt(self, other: SparseArray) -> None:
        self.data, self._stored, self.shape = other.data, other._stored, other.shape

    def _adopt_scipy(self, matrix: ScipyMatrix) -> None:
        """Set the arrays to the arrays of a SciPy matrix, so that both share memory."""
        height, width = matrix.shape
        self.data, self.shape = new_tensor(matrix.data), (height, width)
        if self.format == "coo":
            self._stored = Places(matrix.row, matrix.col, height, width)
        else:
            major, minor = (height, width) if self.format == "csr" else (width, height)
            self._stored = Places(None, matrix.indices, major, minor, matrix.indptr)
        self.places.source = matrix

    def _set_coordinates(self, data: Tensor, rows: Array, columns: Array, shape: tuple[int, int]) -> None:
        if not data.shape == rows.shape == columns.shape:
            given = f"{describe(data)}, {describe(rows)} and {describe(columns)}"
            raise ValueError(f"data, row and col must be vectors of one length, got {given}")
        coo = coo_array._of(data, Places(rows, columns, *shape), shape)
        self._adopt(coo if self.format == "coo" else coo.asformat(self.format))

    def _set_compressed(
        self, data: MatrixLike, indices: MatrixLike, indptr: MatrixLike, shape: tuple[int, int] | None
    ) -> None:
        values, starts = tensor(data), _indices(indptr, "indptr", np.iinfo(np.int64).max)
        if shape is None:
            minor, major = _smallest(indices), len(starts) - 1
            shape = (major, minor) if self.format == "csr" else (minor, major)
        major, minor = shape if self.format == "csr" else shape[::-1]
        columns = _indices(indices, "indices", minor)
        count = len(columns)
        if len(starts) != major + 1 or int(starts[0]) or int(starts[-1]) != count or (np.diff(starts) < 0).any():
            raise ValueError(
                f"indptr must have {major + 1} numbers that ascend from 0 to {count}, the number of indices, "
                f"got {describe(starts)}"
            )
        if values.shape != columns.shape:
            raise ValueError(
                f"data and indices must be vectors of one length, got {describe(values)} and {count} indices"
            )
        rows = np.repeat(np.arange(major, dtype=columns.dtype), np.diff(starts))
        self.data, self.shape = values, shape
        self._stored = Places(rows, columns, major, minor, starts)

    @property
    def places(self) -> Places:
        """The rows and columns of the values."""
        return self._stored.transposed if self.format == "csc" else self._stored

    def with_data(self, data: Tensor) -> Self:
        """Return an array with other values at the same positions."""
        return self._of(data, self._stored, self.shape)

    def __repr__(self) -> str:
        grad = ", requires_grad=True" if self.data.requires_grad else ""
        return f"<{type(self).__name__} of shape {self.shape} with {self.nnz} values of {self.dtype.name}{grad}>"

    @property
    def nnz(self) -> int:
        """The number of values."""
        return self.data.shape[0]

    size = nnz

    @property
    def dtype(self) -> PublicDType:
        """The dtype of the values."""
        return self.data.dtype

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to the values."""
        return self.data.requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> Self:
        """Set whether gradients flow to the values."""
        self.data.requires_grad_(requires_grad)
        return self

    def detach(self) -> Self:
        """Return the array without a history."""
        return self.with_data(self.data.detach())

    def copy(self) -> Self:
        """Return a copy, through which gradients flow."""
        return self.with_data(self.data.clone())

    def astype(self, dtype: DTypeLike) -> Self:
        """Return the array in another dtype."""
        return self.with_data(self.data.to(dtype))

    def __len__(self) -> int:
        raise TypeError("the length of a sparse array is ambiguous; use shape[0] or nnz")

    def to_scipy(self) -> ScipyMatrix:
        """Return a sparse array of SciPy that shares this array's memory.

        Raises:
            RuntimeError: the values require a gradient; call ``detach()`` first.
        """
        values = self.data.numpy()
        kind = getattr(sparse(), f"{self.format}_{'matrix' if self.is_matrix else 'array'}")
        if self.format == "coo":
            return kind((values, (self._stored.rows, self._stored.columns)), shape=self.shape, copy=False)
        return kind((values, self._stored.columns, self._stored._starts), shape=self.shape, copy=False)

    def to_sparse_coo(self) -> SparseTensor:
        """Return the array as PyTorch's sparse Tensor with coordinates."""
        indices = np.stack([self.places.rows, self.places.columns]).astype(np.int64)
        return SparseTensor(new_tensor(indices), self.data, self.shape)

    def to_sparse_csr(self) -> SparseTensor:
        """Return the array as PyTorch's sparse Tensor with compressed rows."""
        return self.to_sparse_coo().to_sparse_csr()

    def _numbered(self, start: int = 1) -> ScipyMatrix:
        """Return a SciPy matrix with this array's positions, whose values are ``start``, ``start + 1``, ..."""
        numbers = np.arange(start, start + self.nnz)
        return self.with_data(new_tensor(numbers)).to_scipy()

    def _moved(self, move: Callable[[ScipyMatrix], ScipyMatrix]) -> SparseArray:
        """Return the array rearranged by a function of SciPy; values at one position are added first."""
        array = self.sum_duplicates()
        return gathered(move(array._numbered()), array.data, self.is_matrix)

    def asformat(self, format: Format | None, copy: bool = False) -> SparseArray:
        """Return the array in another format; values at the same place are added.

        Raises:
            ValueError: the format is none of "coo", "csr" and "csc".
        """
        if format not in ("coo", "csr", "csc", None):
            raise ValueError(f"asformat: expected 'coo', 'csr' or 'csc', got {format!r}")
        if format in (None, self.format):
            return self.copy() if copy else self
        kind = _CLASSES[format or "csr", self.is_matrix]
        if self.format != "coo" and format == "coo":
            return kind._of(self.data, Places(self.places.rows, self.places.columns, *self.shape), self.shape)
        return self._moved(lambda matrix: matrix.asformat(format))

    def tocsr(self, copy: bool = False) -> SparseArray:
        """Return the array with compressed rows."""
        return self.asformat("csr", copy)

    def tocsc(self, copy: bool = False) -> SparseArray:
        """Return the array with compressed columns."""
        return self.asformat("csc", copy)

    def tocoo(self, copy: bool = False) -> SparseArray:
        """Return the array with coordinates."""
        return self.asformat("coo", copy)

    def sum_duplicates(self) -> Self:
        """Return an array with one value per position, sorted; SciPy's method modifies its array instead."""
        stored = self._stored
        key = stored.rows.astype(np.int64) * stored.width + stored.columns
        if not (key[1:] <= key[:-1]).any():
            return self
        found, position = np.unique(key, return_inverse=True)
        summed = self.data.new_zeros(len(found)).index_add(0, new_tensor(position.reshape(-1)), self.data)
        kind = stored.columns.dtype
        rows, columns = (found // stored.width).astype(kind), (found % stored.width).astype(kind)
        starts = None if self.format == "coo" else np.searchsorted(rows, np.arange(stored.height + 1)).astype(kind)
        return self._of(summed, Places(rows, columns, stored.height, stored.width, starts), self.shape)

    def toarray(self) -> Tensor:
        """Return the dense Tensor."""
        places = self.places
        flat = places.rows.astype(np.int64) * places.width + places.columns
        zeros = self.data.new_zeros(places.height * places.width)
        return zeros.index_add(0, new_tensor(flat), self.data).reshape(self.shape)

    todense = toarray

    def transpose(self) -> SparseArray:
        """Return the transpose, in compressed columns for compressed rows, without moving a value."""
        shape = self.shape[1], self.shape[0]
        if self.format == "coo":
            return self._of(self.data, self._stored.transposed, shape)
        other: Format = "csc" if self.format == "csr" else "csr"
        return _CLASSES[other, self.is_matrix]._of(self.data, self._stored, shape)

    @property
    def T(self) -> SparseArray:
        """The transpose."""
        return self.transpose()

    def conj(self) -> Self:
        """Return the complex conjugate."""
        return self.with_data(self.data.conj())

    def reshape(self, *shape: int | Sequence[int]) -> SparseArray:
        """Return the elements in another shape of two dimensions."""
        return self._moved(lambda matrix: matrix.reshape(*shape))

    def __getitem__(self, key: object) -> Any:
        keys = [k.detach().numpy() if isinstance(k, Tensor) else k for k in (key if isinstance(key, tuple) else (key,))]
        keys += [slice(None)] * (2 - len(keys))
        if all(isinstance(k, (int, np.integer)) for k in keys):
            return self[[keys[0]], :][:, [keys[1]]].toarray()[0, 0]
        number = [isinstance(k, (int, np.integer)) for k in keys]
        if any(number):  # one row or column
            block = self[tuple([k] if one else k for k, one in zip(keys, number, strict=True))]
            return block if self.is_matrix else block.toarray().reshape(-1)
        form: SparseArray = self if self.format != "coo" else self.tocsr()
        if all(not isinstance(k, slice) and np.ndim(k) == 1 for k in keys):  # single elements
            array = form.sum_duplicates()
            found = array._numbered()[tuple(keys)]
            numbers = np.asarray(found.toarray() if hasattr(found, "toarray") else found).reshape(-1)
            return ops.cat([array.data.new_zeros(1), array.data])[numbers]
        return form._moved(lambda matrix: matrix[tuple(keys)])

    def diagonal(self, k: int = 0) -> Tensor:
        """Return a diagonal as a dense Tensor."""
        array = self.sum_duplicates()
        places = array.places
        length = max(0, min(self.shape[0] + min(k, 0), self.shape[1] - max(k, 0)))
        at = np.flatnonzero(places.columns.astype(np.int64) - places.rows == k)
        return array.data.new_zeros(length).index_add(0, new_tensor(places.rows[at] + min(k, 0)), array.data[at])

    def trace(self, offset: int = 0) -> Tensor:
        """Return the sum of a diagonal."""
        return self.diagonal(offset).sum()

    # Arithmetic

    def __neg__(self) -> Self:
        return self.with_data(-self.data)

    def __abs__(self) -> SparseArray:
        array = self.sum_duplicates()
        return array.with_data(array.data.abs())

    def power(self, n: float) -> SparseArray:
        """Return the power of each value."""
        if n <= 0:
            raise NotImplementedError(
                f"power: the exponent must be positive, got {n}; otherwise the zeros of the array would not remain 0"
            )
        array = self.sum_duplicates()
        return array.with_data(array.data**n)

    def multiply(self, other: MatrixLike) -> SparseArray:
        """Return the product element by element: with a number, a dense array that broadcasts, or a sparse array."""
        found = as_sparse(other)
        if found is not None:
            if found.shape != self.shape:
                raise ValueError(f"multiply: inconsistent shapes {self.shape} and {found.shape}")
            return self._from_torch(self.to_sparse_coo() * found.to_sparse_coo())
        dense = tensor(other)
        if dense.ndim == 0:
            return self.with_data(self.data * dense)
        if dense.ndim > 2 or np.broadcast_shapes(self.shape, tuple(dense.shape)) != self.shape:
            raise ValueError(f"multiply: cannot broadcast {describe(dense)} to {self.shape}")
        dense = dense.expand(self.shape)
        return self.with_data(self.data * dense[self.places.rows, self.places.columns])

    def _from_torch(self, result: SparseTensor) -> SparseArray:
        coo = coo_array(result.coalesce())
        return _CLASSES["csr", self.is_matrix](coo)

    def __mul__(self, other: MatrixLike) -> SparseArray | Tensor:
        if self.is_matrix and (as_sparse(other) is not None or tensor(other).ndim):
            return self @ other
        return self.multiply(other)

    def __rmul__(self, other: MatrixLike) -> SparseArray | Tensor:
        if self.is_matrix and tensor(other).ndim:
            return other @ self
        return self.multiply(other)

    def __truediv__(self, other: MatrixLike) -> SparseArray:
        if as_sparse(other) is not None:
            raise TypeError("the quotient of two sparse arrays is not sparse; use toarray()")
        divisor = tensor(other)
        if divisor.array.dtype.kind in "biu":
            divisor = divisor.double()  # as in NumPy; PyTorch's reciprocal of an integer is float32
        return self.multiply(1 / divisor)

    def _added(self, other: MatrixLike, sign: int) -> SparseArray | Tensor:
        found = as_sparse(other)
        if found is None:
            dense = tensor(other)
            if not dense.ndim:
                raise NotImplementedError("adding a number to a sparse array gives a dense array; use toarray()")
            return self.toarray() + sign * dense
        if found.shape != self.shape:
            raise ValueError(f"inconsistent shapes {self.shape} and {found.shape}")
        return self._from_torch(self.to_sparse_coo() + (found if sign > 0 else -found).to_sparse_coo())

    def __add__(self, other: MatrixLike) -> SparseArray | Tensor:
        return self._added(other, 1)

    __radd__ = __add__

    def __sub__(self, other: MatrixLike) -> SparseArray | Tensor:
        return self._added(other, -1)

    def __rsub__(self, other: MatrixLike) -> SparseArray | Tensor:
        return (-self)._added(other, 1)

    def __matmul__(self, other: MatrixLike) -> Any:
        """Return the product with a sparse array, which is sparse, or with a vector or matrix, a Tensor."""
        found = as_sparse(other)
        if found is not None:
            if self.shape[1] != found.shape[0]:
                raise ValueError(
                    f"matmul: expected {self.shape[1]} rows for {self.shape}, got an array of shape {found.shape}"
                )
            return self._from_torch(self.to_sparse_coo() @ found.to_sparse_coo())
        dense = tensor(other)
        if dense.ndim not in (1, 2) or dense.shape[0] != self.shape[1]:
            instead = "; use * for a number" if not dense.ndim else ""
            raise ValueError(
                f"matmul: a sparse array of shape {self.shape} cannot be multiplied by {describe(dense)}{instead}"
            )
        data, dense = promoted(self.data, dense)
        columns = dense[:, None] if dense.ndim == 1 else dense
        result: Tensor = apply(SPMM, (data, columns), {"places": self.places})
        return result.reshape((self.shape[0], *dense.shape[1:]))

    dot = __matmul__

    def __rmatmul__(self, other: MatrixLike) -> Any:
        dense = tensor(other)
        return (self.T @ dense.mT).mT if dense.ndim == 2 else self.T @ dense

    def sum(self, axis: int | None = None) -> Tensor:
        """Return the sum of all values, or the sums of the columns (axis 0) or rows (axis 1), as a dense Tensor."""
        if axis is None:
            return self.data.sum()
        if axis not in (0, 1, -1, -2):
            raise ValueError(f"sum: axis must be 0, 1 or None, got {axis}")
        rows = axis % 2 == 1
        kept = self.places.rows if rows else self.places.columns
        sums = self.data.new_zeros(self.shape[0 if rows else 1]).index_add(0, new_tensor(kept), self.data)
        return sums.reshape((-1, 1) if rows else (1, -1)) if self.is_matrix else sums

    def mean(self, axis: int | None = None) -> Tensor:
        """Return the sum divided by the number of elements."""
        count = self.shape[0] * self.shape[1] if axis is None else self.shape[axis]
        sums = self.sum(axis)
        return (sums.double() if sums.array.dtype.kind in "biu" else sums) / count


class _Coordinates(SparseArray):
    format = "coo"

    @property
    def row(self) -> Array:
        """The row of each value."""
        return self._stored.rows

    @property
    def col(self) -> Array:
        """The column of each value."""
        return self._stored.columns

    @property
    def coords(self) -> tuple[Array, Array]:
        """The row and the column of each value."""
        return self.row, self.col


class _Compressed(SparseArray):
    @property
    def indices(self) -> Array:
        """The column of each value; with compressed columns, the row."""
        return self._stored.columns

    @property
    def indptr(self) -> Array:
        """The index of the first value of each row, or column, followed by the number of values."""
        starts = self._stored._starts
        assert starts is not None
        return starts


class coo_array(_Coordinates):
    """A sparse array of coordinates: ``coo_array((data, (row, col)), shape=(m, n))``."""


class csr_array(_Compressed):
    """A sparse array with compressed rows: ``csr_array((data, indices, indptr), shape=(m, n))``.

    Args:
        arg1: a tuple ``(data, indices, indptr)`` or ``(data, (row, col))``, a dense Tensor or array, a sparse array of
            SciPy, with which memory is shared, or a sparse Tensor; a shape gives an array without values.
        shape: the shape; by default the smallest that contains all indices.
        dtype: the dtype of the values.
        copy: whether to copy the values.

    Raises:
        ValueError: indices are out of range, ``indptr`` does not ascend, or lengths differ.

    >>> A = rg.scipy.sparse.csr_array((rg.tensor([1.0, 2.0, 3.0]), ([0, 1, 1], [0, 0, 1])), shape=(2, 2))
    >>> A @ rg.ones(2), A.T.toarray()
    (tensor([1., 5.]), tensor([[1., 2.],
            [0., 3.]]))
    """

    format = "csr"


class csc_array(_Compressed):
    """A sparse array with compressed columns: ``csc_array((data, indices, indptr), shape=(m, n))``."""

    format = "csc"


class coo_matrix(_Coordinates):
    """A ``coo_array`` whose ``*`` is the matrix product."""

    is_matrix = True


class csr_matrix(_Compressed):
    """A ``csr_array`` whose ``*`` is the matrix product."""

    format, is_matrix = "csr", True


class csc_matrix(_Compressed):
    """A ``csc_array`` whose ``*`` is the matrix product."""

    format, is_matrix = "csc", True


_CLASSES: dict[tuple[Format, bool], type[SparseArray]] = {
    (kind.format, kind.is_matrix): kind
    for kind in (coo_array, csr_array, csc_array, coo_matrix, csr_matrix, csc_matrix)
}


def _shape(shape: Sequence[int]) -> tuple[int, int]:
    if len(shape) != 2 or min(shape) < 0:
        raise ValueError(f"a sparse array has a shape of two lengths that are not negative, got {tuple(shape)}")
    return int(shape[0]), int(shape[1])


def _smallest(indices: MatrixLike) -> int:
    return int(np.max(np.asarray(indices), initial=-1)) + 1


def promoted(data: Tensor, dense: Tensor) -> tuple[Tensor, Tensor]:
    """Return two Tensors in the dtype in which NumPy multiplies them."""
    dtype = np.result_type(data.dtype.dtype, dense.dtype.dtype)
    return data.astype(dtype, copy=False), dense.astype(dtype, copy=False)


def as_sparse(value: object, is_matrix: bool = False) -> SparseArray | None:
    """Return a sparse array of SciPy, or a sparse Tensor, as a SparseArray; None for other objects.

    Args:
        is_matrix: whether ``*`` is the matrix product in a result that is converted from SciPy.
    """
    if isinstance(value, SparseArray):
        return value
    if isinstance(value, SparseTensor):
        return coo_array(value)
    if isinstance(value, (Tensor, np.ndarray, int, float, complex)) or not sparse().issparse(value):
        return None
    return _CLASSES[_format_of(value), is_matrix](value)


def _format_of(matrix: ScipyMatrix) -> Format:
    """Return the format of a SciPy matrix, or ``"csr"`` if this package lacks its format."""
    return matrix.format if matrix.format in ("coo", "csr", "csc") else "csr"


def gathered(numbered: ScipyMatrix, data: Tensor, is_matrix: bool = False) -> SparseArray:
    """Return the positions of a result of ``_numbered``, with the elements of ``data`` that its values refer to."""
    format = _format_of(numbered)
    pattern = _CLASSES[format, is_matrix](numbered.asformat(format))
    return pattern.with_data(data[pattern.data.detach().numpy() - 1])


__all__ = ["SparseArray", "coo_array", "coo_matrix", "csc_array", "csc_matrix", "csr_array", "csr_matrix"]
