"""Sparse matrices in coordinate (COO) and compressed row (CSR) layout, and their products with dense matrices."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ....core.arrays.devices import Device, array_module
from ....core.arrays.public_dtypes import dtype as PublicDType
from ....core.errors import describe
from ....core.graph.primitive import apply, operand
from ....core.missing_names import provided
from ....core.tensor.tensor import Size as Shape
from ....core.tensor.tensor import Tensor, new_tensor, tensor_method
from ...make.creation import as_tensor
from ...table.arguments import dimension, integer, integers
from ...table.registry import operator
from ...table.types import DeviceLike, DTypeLike, Number, Operand
from ..products.matmul import mm as dense_mm
from .invariants import check_order
from .methods import SparseMethods
from .products import SPMM, Places


class SparseTensor(SparseMethods):
    """A matrix, or a Tensor of more dimensions, that stores the elements at some coordinates; the others are zero.

    Created by ``sparse_coo_tensor`` and ``Tensor.to_sparse``. Values at one coordinate add up. Gradients flow to the
    values and, in products, to dense matrices. A SparseTensor is an instance of Tensor; attributes of Tensor that it
    lacks raise an error that is both a NotImplementedError and a TypeError.

    >>> a = rg.sparse_coo_tensor([[0, 1], [2, 0]], [3.0, 4.0], (2, 3))
    >>> a @ rg.ones(3, 1)
    tensor([[3.],
            [4.]])
    """

    __array_priority__ = 1000
    __array_ufunc__ = None

    is_sparse = True

    def __init__(self, indices: Tensor, values: Tensor, size: tuple[int, ...], coalesced: bool = False) -> None:
        self._at = indices
        self._elements = values
        self._shape = Shape(size)
        self._coalesced = coalesced
        self._no_slots()

    # Coordinates, values and attributes

    def __repr__(self) -> str:
        size, nnz = tuple(self.shape), self._nnz()
        return f"sparse_coo_tensor(indices={self._at}, values={self._elements}, size={size}, nnz={nnz})"

    def indices(self) -> Tensor:
        """The coordinates ``(ndim, nnz)``, each once.

        Raises:
            RuntimeError: the Tensor is not coalesced.
        """
        self._want_coalesced("indices")
        return self._at

    def values(self) -> Tensor:
        """The values ``(nnz,)`` at the coordinates.

        Raises:
            RuntimeError: the Tensor is not coalesced.
        """
        self._want_coalesced("values")
        return self._elements

    def _want_coalesced(self, name: str) -> None:
        if not self._coalesced:
            raise RuntimeError(f"{name}: coordinates may occur several times; call coalesce() first")

    def _indices(self) -> Tensor:
        return self._at

    def _values(self) -> Tensor:
        return self._elements

    def _nnz(self) -> int:
        return self._at.array.shape[1]

    def is_coalesced(self) -> bool:
        """Return whether every coordinate occurs once, in row-major order."""
        return self._coalesced

    def size(self, dim: int | None = None) -> Shape | int:
        """The shape, or the length of one dimension."""
        return self.shape if dim is None else self.shape[dim]

    @property
    def ndim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    def dim(self) -> int:
        """The number of dimensions."""
        return len(self.shape)

    ndimension = dim

    def sparse_dim(self) -> int:
        """Return the number of dimensions of the coordinates."""
        return self._at.array.shape[0]

    def dense_dim(self) -> int:
        """Return the number of dimensions of each value."""
        return self._elements.array.ndim - 1

    @property
    def layout(self) -> Any:
        """``sparse_coo``."""
        return provided["layout"]("sparse_coo")

    def numel(self) -> int:
        """The number of elements, zeros included."""
        return prod(self.shape)

    @property
    def dtype(self) -> PublicDType:
        """The dtype of the values."""
        return self._elements.dtype

    @property
    def device(self) -> Device:
        """The device of the values."""
        return self._elements.device

    @property
    def requires_grad(self) -> bool:
        """Whether gradients flow to the values."""
        return self._elements.requires_grad

    def requires_grad_(self, requires_grad: bool = True) -> SparseTensor:
        """Set whether gradients flow to the values."""
        self._elements.requires_grad_(requires_grad)
        return self

    @property
    def grad(self) -> SparseTensor | None:
        """The gradient that the values have accumulated, at their coordinates."""
        gradient = self._elements._grad
        return None if gradient is None else self._with(gradient)

    @grad.setter
    def grad(self, gradient: SparseTensor | None) -> None:
        if gradient is not None:
            if not isinstance(gradient, SparseTensor):
                raise RuntimeError(f"grad: expected a SparseTensor or None, got {describe(gradient)}")
            if gradient.shape != self.shape or not np.array_equal(gradient._at.numpy(), self._at.numpy()):
                raise RuntimeError(
                    f"grad: expected the size {tuple(self.shape)} and the coordinates of the Tensor, "
                    f"got the size {tuple(gradient.shape)} and {gradient._nnz()} coordinates"
                )
        self._elements.grad = None if gradient is None else gradient._elements

    # Conversions

    def _with(self, values: Tensor) -> SparseTensor:
        return SparseTensor(self._at, values, self.shape, self._coalesced)

    def _new_coo(self, indices: object, values: Tensor, size: Sequence[int]) -> SparseTensor:
        return SparseTensor(new_tensor(indices), values, tuple(size))

    def _distinct(self) -> SparseTensor:
        return self.coalesce()

    def _flat(self) -> Any:
        """Return the coordinates as positions in the flattened Tensor."""
        flat = array_module(self._elements).zeros(self._nnz(), np.int64)
        for length, index in zip(self.shape, self._at.array, strict=False):
            flat = flat * length + index
        return flat

    def _split(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Return the lengths of the sparse dimensions and of the dense ones."""
        return tuple(self.shape[: self.sparse_dim()]), tuple(self.shape[self.sparse_dim() :])

    def coalesce(self) -> SparseTensor:
        """Add values at equal coordinates, and sort the coordinates in row-major order.

        >>> rg.sparse_coo_tensor([[0, 0]], [1.0, 2.0], (3,)).coalesce().values()
        tensor([3.])
        """
        if self._coalesced:
            return self
        xp = array_module(self._elements)
        flat, inverse = xp.unique(self._flat(), return_inverse=True)
        lengths, rest = self._split()
        summed = self._elements.new_zeros((len(flat), *rest)).index_add(
            0, new_tensor(inverse.reshape(-1)), self._elements
        )
        indices = xp.stack([xp.asarray(index, dtype=np.int64) for index in xp.unravel_index(flat, lengths)])
        return SparseTensor(new_tensor(indices), summed, self.shape, True)

    def to_dense(self) -> Tensor:
        """The dense Tensor, including zeros."""
        lengths, rest = self._split()
        flat = self._elements.new_zeros((prod(lengths), *rest)).index_add(0, new_tensor(self._flat()), self._elements)
        return flat.reshape(tuple(self.shape))

    def to_sparse_coo(self) -> SparseTensor:
        """The same Tensor in coordinate layout."""
        return SparseTensor(self._at, self._elements, self.shape, self._coalesced)

    def to_sparse_csr(self) -> SparseTensor:
        """The same matrix with compressed rows."""
        return compressed(self)

    def t(self) -> SparseTensor:
        """The transpose of a matrix."""
        return self.transpose(0, 1)

    @property
    def T(self) -> SparseTensor:
        """The transpose of a matrix."""
        return self.t()

    @property
    def mT(self) -> SparseTensor:
        """The transpose of each matrix: the last two dimensions swapped."""
        return self.transpose(-2, -1)

    def transpose(self, dim0: int, dim1: int) -> SparseTensor:
        """The Tensor with two of its sparse dimensions swapped."""
        order = list(range(self.ndim))
        order[dim0], order[dim1] = order[dim1], order[dim0]
        if order[self.sparse_dim() :] != list(range(self.sparse_dim(), self.ndim)):
            raise RuntimeError(f"transpose: expected two of the {self.sparse_dim()} dimensions of the coordinates")
        places = order[: self.sparse_dim()]
        return SparseTensor(self._at[places], self._elements, tuple(self.shape[d] for d in order))

    def to(self, *args: Any, **kwargs: Any) -> SparseTensor:
        """The Tensor in another dtype or on another device."""
        values = self._elements.to(*args, **kwargs)
        return SparseTensor(self._at.to(values.device), values, self.shape, self._coalesced)

    def float(self) -> SparseTensor:
        """The Tensor in float32."""
        return self.to(np.float32)

    def double(self) -> SparseTensor:
        """The Tensor in float64."""
        return self.to(np.float64)

    def cpu(self) -> SparseTensor:
        """The Tensor on the CPU."""
        return self.to("cpu")

    def cuda(self, device: DeviceLike | None = None) -> SparseTensor:
        """The Tensor on a GPU."""
        return self.to("cuda" if device is None else device)

    def detach(self) -> SparseTensor:
        """The Tensor detached from the computational graph."""
        return self._with(self._elements.detach())

    def clone(self) -> SparseTensor:
        """A copy, through which gradients flow."""
        return self._with(self._elements.clone())

    # Arithmetic

    def __neg__(self) -> SparseTensor:
        return self._with(-self._elements)

    def __mul__(self, other: Number | Tensor | SparseTensor) -> SparseTensor:
        """``self * other``, elementwise; for two sparse matrices, at the positions that both store."""
        if isinstance(other, SparseTensor):
            return _intersection(self, other)
        dense = operand(other)
        if not dense.array.ndim:
            return self._with(self._elements * other)
        if dense.array.shape != tuple(self.shape):
            raise RuntimeError(f"mul: the shapes differ: sparse {tuple(self.shape)} and dense {describe(dense)}")
        return self._with(self._elements * dense[tuple(self._at[d] for d in range(self.sparse_dim()))])

    __rmul__ = mul = multiply = __mul__

    def __truediv__(self, other: Number | Tensor) -> SparseTensor:
        if isinstance(other, SparseTensor) or np.ndim(getattr(other, "array", other)):
            return NotImplemented
        return self._with(self._elements / other)

    def __add__(self, other: SparseTensor | Tensor) -> Any:
        """``self + alpha * other``, elementwise."""
        if not isinstance(other, SparseTensor):
            if isinstance(other, Tensor):
                raise RuntimeError("add: sparse + dense is not supported; use dense + sparse")
            return NotImplemented
        if other.shape != self.shape:
            raise RuntimeError(f"add: the shapes differ: {tuple(self.shape)} and {tuple(other.shape)}")
        from ...shape.joining import cat

        indices = cat([self._at, other._at], 1)
        return SparseTensor(indices, cat([self._elements, other._elements]), self.shape)

    def add(self, other: SparseTensor | Tensor, *, alpha: Number = 1) -> Any:
        """``self + alpha * other``, elementwise."""
        return self + (other if alpha == 1 else other * alpha)

    def __radd__(self, other: Tensor) -> Tensor:
        return other + self.to_dense() if isinstance(other, Tensor) else NotImplemented

    def __sub__(self, other: SparseTensor | Tensor) -> Any:
        """``self - alpha * other``, elementwise."""
        return self + -other if isinstance(other, Tensor) else NotImplemented

    def sub(self, other: SparseTensor | Tensor, *, alpha: Number = 1) -> Any:
        """``self - alpha * other``, elementwise."""
        return self - (other if alpha == 1 else other * alpha)

    def __rsub__(self, other: Tensor) -> Tensor:
        return other - self.to_dense() if isinstance(other, Tensor) else NotImplemented

    def sum(self, dim: int | None = None) -> Tensor | SparseTensor:
        """The sum of all elements, or the sums along one dimension, as a sparse Tensor of the other dimensions."""
        if dim is None:
            return self._elements.sum()
        dim = dimension(dim, self.ndim)
        if dim >= self.sparse_dim():
            values = self._elements.sum(dim - self.sparse_dim() + 1)
            return SparseTensor(self._at, values, self.shape[:dim] + self.shape[dim + 1 :])
        places = [d for d in range(self.sparse_dim()) if d != dim]
        if not places:
            return self._elements.sum(0)
        shape = (*(self.shape[d] for d in places), *self._split()[1])
        return SparseTensor(self._at[places], self._elements, shape).coalesce()

    def __matmul__(self, other: Tensor | SparseTensor) -> Any:
        return sparse_product(self, other) if isinstance(other, SparseTensor) else product(self, other)

    def __rmatmul__(self, other: Tensor) -> Tensor:
        return product(self.t(), operand(other).mT).mT

    def matmul(self, other: Tensor | SparseTensor) -> Any:
        """The product with a matrix or a vector. The product of two sparse matrices is sparse."""
        return self @ other

    mm = spmm = matmul

    def mv(self, vec: Tensor) -> Tensor:
        """The product with a vector.

        Raises:
            RuntimeError: ``vec`` does not have one dimension.
        """
        if operand(vec, "vec").array.ndim != 1:
            raise RuntimeError(f"mv: vec must have 1 dimension, got {describe(vec)}")
        return product(self, vec)


class CompressedTensor(SparseTensor):
    """A sparse matrix with compressed rows, which stores where each row begins.

    >>> a = rg.sparse_csr_tensor([0, 1, 3], [1, 0, 1], [2.0, 3.0, 4.0], (2, 2))
    >>> a @ rg.ones(2, 1)
    tensor([[2.],
            [7.]])
    """

    is_sparse = False
    is_sparse_csr = True

    def __repr__(self) -> str:
        return (
            f"sparse_csr_tensor(crow_indices={self.crow_indices()}, col_indices={self.col_indices()}, "
            f"values={self._elements}, size={tuple(self.shape)}, nnz={self._nnz()})"
        )

    @property
    def layout(self) -> Any:
        """``sparse_csr``."""
        return provided["layout"]("sparse_csr")

    def crow_indices(self) -> Tensor:
        """The position of each row's first value, and the end of the last row, ``(rows + 1,)``."""
        xp = array_module(self._elements)
        return new_tensor(xp.searchsorted(self._at.array[0], xp.arange(self.shape[0] + 1)).astype(np.int64))

    def col_indices(self) -> Tensor:
        """The columns of the values, ``(nnz,)``."""
        return self._at[1]

    def values(self) -> Tensor:
        """The values ``(nnz,)``, row by row."""
        return self._elements

    def _with(self, values: Tensor) -> SparseTensor:
        return CompressedTensor(self._at, values, self.shape, True)

    def __matmul__(self, other: Tensor | SparseTensor) -> Any:
        return _rows_compressed(super().__matmul__(other))

    def __add__(self, other: SparseTensor | Tensor) -> Any:
        return _rows_compressed(super().__add__(other))

    def __mul__(self, other: Number | Tensor | SparseTensor) -> SparseTensor:
        return _rows_compressed(super().__mul__(other))

    __rmul__ = mul = multiply = __mul__

    def coalesce(self) -> SparseTensor:
        """Return the matrix itself, in which each coordinate occurs once."""
        return self


def _rows_compressed(result: object) -> Any:
    return compressed(result) if type(result) is SparseTensor and result.ndim == 2 else result


def compressed(a: SparseTensor) -> CompressedTensor:
    """Return a sparse matrix with compressed rows."""
    if a.ndim != 2 or a.dense_dim():
        raise RuntimeError(f"to_sparse_csr: expected a sparse matrix, got one of shape {tuple(a.shape)}")
    a = a.coalesce()
    return CompressedTensor(a._indices(), a._elements, a.shape, True)


def product(a: SparseTensor, x: Operand) -> Tensor:
    """Return the product of a sparse matrix and a dense matrix or vector."""
    dense = operand(x, "mat2")
    if a.ndim != 2 or dense.array.ndim not in (1, 2) or dense.array.shape[0] != a.shape[1]:
        raise RuntimeError(f"a sparse matrix of shape {tuple(a.shape)} cannot be multiplied by {describe(dense)}")
    column = dense if dense.array.ndim == 2 else dense.unsqueeze(1)
    rows, columns = a._indices().array
    result: Tensor = apply(SPMM, (a._elements, column), {"places": Places(rows, columns, *a.shape)})
    return result if dense.array.ndim == 2 else result.squeeze(1)


def _intersection(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Return the elementwise product of two sparse Tensors, at the coordinates of both."""
    if a.shape != b.shape or a.sparse_dim() != b.sparse_dim():
        raise RuntimeError(f"mul: the shapes or sparse_dim() differ: {tuple(a.shape)} and {tuple(b.shape)}")
    a, b = a.coalesce(), b.coalesce()
    _, first, second = array_module(a._elements).intersect1d(a._flat(), b._flat(), True, True)
    mine = new_tensor(first)
    return SparseTensor(a._at[:, mine], a._elements[mine] * b._elements[new_tensor(second)], a.shape, True)


def sparse_product(a: SparseTensor, b: SparseTensor) -> SparseTensor:
    """Return the product of two sparse matrices: each value of a is multiplied by a row of b."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0] or a.dense_dim() or b.dense_dim():
        raise RuntimeError(f"sparse matrices of shapes {tuple(a.shape)} and {tuple(b.shape)} cannot be multiplied")
    b = b.coalesce()
    xp = array_module(a._elements)
    starts = xp.searchsorted(b._at.array[0], xp.arange(b.shape[0] + 1))
    rows, inner = a._at.array
    counts = (starts[1:] - starts[:-1])[inner]
    left = xp.repeat(xp.arange(len(inner)), counts)
    first = xp.repeat(starts[inner] - xp.cumsum(counts) + counts, counts)
    right = first + xp.arange(len(left))
    indices = new_tensor(xp.stack([rows[left], b._at.array[1][right]]))
    values = a._elements[new_tensor(left)] * b._elements[new_tensor(right)]
    return SparseTensor(indices, values, (a.shape[0], b.shape[1])).coalesce()


@operator(
    method=False,
    args="dtype of values, values at indices, device given, requires_grad of values",
    dtype="of values",
    reads_elements=True,
)
def sparse_coo_tensor(
    indices: Operand | Sequence[Any],
    values: Operand | Sequence[object],
    size: Sequence[int] | None = None,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    check_invariants: bool | None = None,
    is_coalesced: bool | None = None,
) -> SparseTensor:
    """``A[indices[:, k]] = values[k]``, summed where a coordinate is repeated, and 0 elsewhere: a SparseTensor.

    Derivative: values: ``g`` at the coordinates.
    Shape: indices ``(d, nnz)``; values ``(nnz, ...)``; the result ``size``, which ends with the values' own dimensions.

    Args:
        indices: the coordinates of the values, one column per value.
        size: the shape, by default the smallest that contains all coordinates.
        check_invariants: check also ``is_coalesced``; by default ``sparse.check_sparse_tensor_invariants`` decides.
        is_coalesced: promises that every coordinate occurs once, in row-major order.

    Raises:
        RuntimeError: the shapes do not match, or a coordinate is out of range.

    >>> rg.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2)).to_dense()
    tensor([[0., 2.],
            [3., 0.]])
    """
    at = as_tensor(indices, device=device)
    v = as_tensor(values, dtype=dtype, device=device)
    if at.array.size and at.array.dtype.kind not in "iu":
        raise RuntimeError(f"indices must be integers, got {describe(at)}")
    at = at.to(np.int64)
    if at.array.ndim != 2 or v.array.ndim < 1 or v.array.shape[0] != at.array.shape[1]:
        raise RuntimeError(f"expected indices (d, nnz) and values (nnz, ...), got {describe(at)} and {describe(v)}")
    count, rest = len(at.array), v.array.shape[1:]
    if size is None:
        size = (*(map(int, at.array.max(axis=1) + 1) if at.array.size else [0] * count), *rest)
    lengths = integers((size,), "size")
    if len(lengths) != count + len(rest) or lengths[count:] != rest:
        raise RuntimeError(f"expected a size of {count} lengths and the shape {rest} of a value, got {lengths}")
    if at.array.size:
        least, most = at.array.min(axis=1), at.array.max(axis=1)
        for d, length in enumerate(lengths[:count]):
            if int(least[d]) < 0 or int(most[d]) >= length:
                reach = f"{int(least[d])} to {int(most[d])}"
                raise RuntimeError(f"coordinates {reach} lie outside of dimension {d} of size {lengths}")
    if is_coalesced:
        check_order(check_invariants, at.array, lengths, "coordinates to ascend in row-major order")
    v = v.detach().requires_grad_() if requires_grad else v
    return SparseTensor(at, v, lengths, bool(is_coalesced))


@operator(namespace="sparse", method=False, dtype="equal floating", raises="dtypes")
def mm(mat1: Any, mat2: Any) -> Any:
    """``out_ik = sum_j A_ij x_jk``: the product of two matrices, dense or sparse; sparse if both are.

    Derivative: values: ``sum_k g_ik x_jk`` at their coordinates; dense: ``A^T g``.
    Shape: ``(n, m)`` and ``(m, k)`` or ``(m,)`` to ``(n, k)`` or ``(n,)``.

    Args:
        mat1: a SparseTensor, or a dense matrix.
        mat2: a dense matrix, or a SparseTensor.

    >>> a = rg.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2))
    >>> rg.sparse.mm(a, rg.ones(2, 1))
    tensor([[2.],
            [3.]])
    """
    if isinstance(mat1, SparseTensor):
        return mat1 @ mat2
    return mat2.__rmatmul__(mat1) if isinstance(mat2, SparseTensor) else dense_mm(mat1, mat2)


@operator(method=False, dtype="equal floating", raises="broadcast, input")
def spmm(input: object, mat2: Tensor) -> Tensor:
    """``out_ik = sum_j A_ij x_jk``: ``sparse.mm``; for two dense matrices, ``mm``.

    Derivative: ``sparse.mm``'s.
    Shape: ``(n, m)`` and ``(m, k)`` to ``(n, k)``.

    Args:
        mat2: a dense matrix.

    >>> rg.spmm(rg.sparse_coo_tensor([[0, 1], [1, 0]], [2.0, 3.0], (2, 2)), rg.ones(2, 1))
    tensor([[2.],
            [3.]])
    """
    return mm(input, mat2)


@operator(namespace="Tensor", reads_elements=True)
def to_sparse(self: Tensor, sparse_dim: int | None = None, *, layout: object = None) -> Any:
    """``self[i, j, ..]`` where it is not 0: a SparseTensor of the elements and their coordinates.

    Derivative: ``g`` at the coordinates.
    Shape: any with a dimension, preserved.

    Args:
        sparse_dim: the number of sparse dimensions, by default all dimensions.
        layout: ``sparse_coo``, or for a matrix ``sparse_csr`` or ``sparse_csc``.

    Raises:
        RuntimeError: the Tensor has no dimension, or ``sparse_dim`` is not between 1 and the number of dimensions.

    >>> rg.tensor([[0.0, 2.0]]).to_sparse().indices()
    tensor([[0],
            [1]])
    """
    count = self.array.ndim if sparse_dim is None else integer(sparse_dim, "sparse_dim")
    if self.array.ndim == 0:
        raise RuntimeError(f"expected a Tensor with dimensions, got {describe(self)}")
    if not 1 <= count <= self.array.ndim:
        raise RuntimeError(f"expected 1 <= sparse_dim <= {self.array.ndim}, the number of dimensions, got {count}")
    there = self.array != 0
    there = there.any(axis=tuple(range(count, there.ndim))) if count < there.ndim else there
    found = tuple(new_tensor(index) for index in there.nonzero())
    indices = new_tensor(array_module(self).stack([index.array for index in found]))
    result: Any = SparseTensor(indices, self[found], self.array.shape, True)
    return result if layout is None else result.to_sparse(layout=layout)


def _is_sparse(self: Tensor) -> bool:
    """Whether only some elements are stored, as by SparseTensor."""
    return False


tensor_method(property(_is_sparse), "is_sparse")
