"""Products of matrices and vectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import TYPE_CHECKING

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.devices import is_array
from ....core.arrays.dtypes import FLOATING, float32, result_type
from ....core.arrays.layout import cast
from ....core.arrays.python_numbers import converted
from ....core.errors import InvalidValue, describe
from ....core.graph.modes import watchers
from ....core.graph.primitive import ZEROS, Primitive, apply, apply2, is_operand, operand
from ....core.tensor.tensor import Tensor, tensor_method
from ....kernels import USEFUL, compiled, suits
from ....kernels.loops.matrices import rows as row_kernels
from ....kernels.loops.matrices.products import dot as product
from ....kernels.loops.matrices.products import stack
from ...table.arguments import factor
from ...table.python_operators import deferring
from ...table.registry import also_named, operator
from ...table.types import Number, Operand
from ..matrices import as_rows, transposed

if TYPE_CHECKING:
    from ....core.mapping.batching import Call


def _matmul(x: Array, y: Array) -> Array:
    if x.dtype.kind in FLOATING and y.ndim == 2:
        # For two matrices, ndarray.dot has half the overhead of matmul; a batch of matrices becomes one tall matrix.
        if x.ndim == 2:
            return product(x, y)
        if x.ndim > 2:
            return product(as_rows(x), y).reshape(x.shape[:-1] + y.shape[1:])
    return stack(x, y)


def _matmul_vjp_x(g: Array, y: Array, x_ndim: int) -> Array:
    if y.ndim == 1:
        return g * y if x_ndim == 1 else np.expand_dims(g, -1) * y
    if x_ndim == 1:
        g = np.expand_dims(g, -2)
        product = MATMUL(g, transposed(y))
        return product.reshape(product.shape[:-2] + product.shape[-1:])
    return MATMUL(g, transposed(y))


def _matmul_vjp_y(g: Array, x: Array, y_ndim: int) -> Array:
    if x.ndim == 1:
        return g * x if y_ndim == 1 else np.expand_dims(x, -1) * np.expand_dims(g, -2)
    if y_ndim == 1:
        product = MATMUL(transposed(x), np.expand_dims(g, -1))
        return product.reshape(product.shape[:-1])
    if x.ndim > 2 and y_ndim == 2:
        # One product over the whole batch instead of one product per matrix and a sum.
        return MATMUL(transposed(as_rows(x)), as_rows(g))
    return MATMUL(transposed(x), g)


def _outer(x: Array, y: Array) -> Array:
    """Multiply columns by rows without BLAS, and without broadcasting, which would write the result twice."""
    if type(x) is not ndarray or type(y) is not ndarray or x.ndim != 3 or y.ndim != 3 or len(x) != len(y):
        return x * y
    columns, rows = x[:, :, 0], y[:, 0]
    if len(x) * x.shape[1] * y.shape[2] >= USEFUL and suits(columns) and suits(rows) and compiled() is not None:
        return row_kernels.outer(columns, rows)
    return np.einsum("bi,bj->bij", columns, rows)


OUTER: Primitive = Primitive(
    "outer", _outer, "x y", [lambda g, y: g * y, lambda g, x: g * x], promote="strict", elementwise=True
)


def _matmul_examples(call: Call) -> Tensor:
    """Batch as a product of stacks, or of one tall matrix if the right factor is the same for all examples."""
    (x, y), (x_mapped, y_mapped) = call.values, call.mapped
    m, n = call.ndim(0), call.ndim(1)
    if n == 2 and not y_mapped:
        return call.below([x, y], {}, MM if m == 1 else MATMUL)
    if m == 2 and n == 1 and not x_mapped:
        return call.below([y, x.mT], {}, MM)
    if x_mapped and y_mapped and m == n == 1:
        return (x * y).sum(-1)
    # Vectors become matrices, and both stacks get the same number of dimensions.
    depth = max(m, n, 2)
    left = x.unsqueeze(-2) if m == 1 else x
    right = y.unsqueeze(-1) if n == 1 else y
    left, right = [
        z.reshape((z.array.shape[0],) + (1,) * (depth + 1 - z.array.ndim) + z.array.shape[1:]) if flag else z
        for z, flag in zip((left, right), call.mapped, strict=True)
    ]
    out = call.below([left, right], {}, OUTER if left.array.shape[-1] == 1 else MATMUL)
    if n == 1:
        out = out.squeeze(-1)
    return out.squeeze(-1 if n == 1 else -2) if m == 1 else out


FEW = 1 << 12  # up to this number of elements, NumPy multiplies directly, without control of BLAS threads


def _mm(x: Array, y: Array) -> Array:
    return x.dot(y) if x.size < FEW > y.size and type(x) is ndarray else product(x, y)


def _mm_vjp_x(g: Array, y: Array) -> Array:
    return MM.forward(g, y.T) if type(g) is ndarray else MM(g, y.T)


def _mm_vjp_y(g: Array, x: Array) -> Array:
    return MM.forward(x.T, g) if type(g) is ndarray else MM(x.T, g)


def _halves(x: Array, y: Array) -> Array:
    """Return the product of bfloat16 arrays: by a compiled loop if y is one matrix, else in float32."""
    from ....kernels.loops.matrices.pairs import dot

    if y.ndim == 2 <= x.ndim:
        return dot(as_rows(x), y).reshape(x.shape[:-1] + y.shape[1:])
    return cast(_matmul(cast(x, float32), cast(y, float32)), x.dtype)


def _matmul_shape(make: Callable[..., ndarray], x: ndarray, y: ndarray) -> ndarray:
    """Return an array of the result's shape from ``make``, after a check of the multiplied axes."""
    if x.shape[-1] != y.shape[-2 if y.ndim > 1 else 0]:
        raise ValueError(f"the multiplied axes have lengths {x.shape[-1]} and {y.shape[-2 if y.ndim > 1 else 0]}")
    lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
    return make((*lead, *x.shape[-2:-1], *(y.shape[-1:] if y.ndim > 1 else ())), x.dtype)


# For two NumPy matrices, where overhead dominates, the rules are the bare products.
MM: Primitive = Primitive(
    "mm",
    _mm,
    "x y",
    [_mm_vjp_x, _mm_vjp_y],
    jvps=[lambda t, y: MM(t, y), lambda t, x: MM(x, t)],
    promote="strict",
    batch=_matmul_examples,
    shaped=_matmul_shape,
    halves=_halves,
    computes="x @ y",
)
MATMUL: Primitive = Primitive(
    "matmul",
    _matmul,
    "x y",
    [
        lambda g, y, x_shape: _matmul_vjp_x(g, y, len(x_shape)),
        lambda g, x, y_shape: _matmul_vjp_y(g, x, len(y_shape)),
    ],
    jvps=[lambda t, y: MATMUL(t, y), lambda t, x: MATMUL(x, t)],
    promote="strict",
    batch=_matmul_examples,
    shaped=_matmul_shape,
    halves=_halves,
    computes="x @ y",
)


@operator(numpy=np.matmul, also=("linalg.matmul",), dtype="equal")
def matmul(input: Operand, other: Operand) -> Tensor:
    """``y_ij = sum_k input_ik other_kj``: the product of matrices, vectors, and stacks of matrices.

    Derivative: input: ``g @ other^T``; other: ``input^T @ g``.
    Shape: (..., n, k) and (..., k, m) to (..., n, m), batches broadcast. A vector (k) on the left counts as a row, on
    the right as a column, and its dimension is dropped from the result; two vectors give their inner product.

    Args:
        input: the factor on the left.

    Raises:
        RuntimeError: the inner lengths differ, an input is 0-d, or the dtypes differ.

    >>> rg.tensor([[1.0, 2.0], [3.0, 4.0]]) @ rg.tensor([1.0, 1.0])
    tensor([3., 7.])
    """
    x, y = operand(input), operand(other, "other")
    if x.array.ndim == 2 and y.array.ndim == 2:
        return apply2(MM, x, y)
    return apply(MATMUL, (x, y), {})


def require_ndim(argument: str, x: Tensor, ndim: int) -> None:
    if x.array.ndim != ndim:
        raise RuntimeError(f"{argument} must have {ndim} dimensions, got {describe(x)}")


@operator(dtype="equal", raises="dtypes")
def mm(input: Operand, mat2: Operand) -> Tensor:
    """``y_ij = sum_k input_ik mat2_kj``: the product of two matrices.

    Derivative: input: ``g @ mat2^T``; mat2: ``input^T @ g``.
    Shape: (n, k) and (k, m) to (n, m).

    Args:
        input: the matrix on the left.
        mat2: the matrix on the right.

    >>> rg.mm(rg.ones(2, 3), rg.ones(3, 1))
    tensor([[3.],
            [3.]])
    """
    x, y = operand(input), operand(mat2, "mat2")
    require_ndim("input", x, 2)
    require_ndim("mat2", y, 2)
    return apply2(MM, x, y)


@operator(dtype="equal", raises="dtypes")
def bmm(input: Operand, mat2: Operand) -> Tensor:
    """``y_bij = sum_k input_bik mat2_bkj``: a batch of products of matrices, without broadcasting.

    Derivative: input: ``g @ mat2^T``; mat2: ``input^T @ g``, for each matrix.
    Shape: (b, n, k) and (b, k, m) to (b, n, m).

    Args:
        input: the matrices on the left.
        mat2: the matrices on the right.

    >>> rg.bmm(rg.ones(4, 2, 3), rg.ones(4, 3, 1)).shape
    (4, 2, 1)
    """
    x, y = operand(input), operand(mat2, "mat2")
    require_ndim("input", x, 3)
    require_ndim("mat2", y, 3)
    if x.array.shape[0] != y.array.shape[0]:
        raise RuntimeError(f"the batches differ in length: {describe(x)} and {describe(y)}")
    return apply(MATMUL, (x, y), {})


@operator(dtype="equal", raises="dtypes", args="vec")
def mv(input: Operand, vec: Operand) -> Tensor:
    """``y_i = sum_k input_ik vec_k``: the product of a matrix and a vector.

    Derivative: input: ``outer(g, vec)``; vec: ``input^T @ g``.
    Shape: (n, k) and (k) to (n).

    Args:
        input: the matrix.

    >>> rg.mv(rg.ones(2, 3), rg.ones(3))
    tensor([3., 3.])
    """
    x, y = operand(input), operand(vec, "vec")
    require_ndim("input", x, 2)
    require_ndim("vec", y, 1)
    return apply(MATMUL, (x, y), {})


@operator(dtype="equal", raises="dtypes", args="input one vector")
def dot(input: Operand, tensor: Operand) -> Tensor:
    """``sum_k input_k tensor_k`` of two vectors, without conjugation.

    Derivative: input: ``g tensor``; tensor: ``g input``.
    Shape: (n) and (n) to ().

    Args:
        tensor: the other vector.

    >>> rg.dot(rg.tensor([1.0, 2.0]), rg.tensor([3.0, 4.0]))
    tensor(11.)
    """
    x, y = operand(input), operand(tensor, "tensor")
    for argument, value in (("input", x), ("tensor", y)):
        if value.array.ndim != 1:
            raise RuntimeError(
                f"{argument} must be a vector, got {describe(value)}; np.dot(input, tensor) takes matrices, and "
                "input @ tensor multiplies them"
            )
    return apply(MATMUL, (x, y), {})


@operator(like=dot, args="other vector")
def vdot(input: Operand, other: Operand) -> Tensor:
    """``sum_k conj(input_k) other_k`` of two vectors.

    Derivative: input: ``conj(g) other``; other: ``g input`` (PyTorch's convention for gradients).

    Args:
        input: the vector that is conjugated.

    >>> rg.vdot(rg.tensor([1.0, 2.0]), rg.tensor([3.0, 4.0]))
    tensor(11.)
    """
    x = operand(input)
    return dot(x.conj() if x.dtype.kind == "c" else x, other)


@operator(aliases=("ger",), dtype="promoted", args="vec2 columns")
def outer(input: Operand, vec2: Operand) -> Tensor:
    """``y_ij = input_i vec2_j`` of two vectors.

    Derivative: input: ``g @ vec2``; vec2: ``input @ g``.
    Shape: (n) and (m) to (n, m).

    Args:
        input: the vector of the rows.

    Raises:
        RuntimeError: input or vec2 is not a vector.

    >>> rg.outer(rg.tensor([1.0, 2.0]), rg.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    x, y = operand(input), operand(vec2, "vec2")
    require_ndim("input", x, 1)
    require_ndim("vec2", y, 1)
    return x[:, None] * y


@operator(dtype="equal", raises="dtypes")
def inner(input: Operand, other: Operand) -> Tensor:
    """``y[..., ...'] = sum_k input[..., k] other[...', k]``: over the last dimension of both.

    Derivative: input: the sum over ``...'`` of ``g other``; other: the sum over ``...`` of ``g input``.
    Shape: (..., k) and (...', k) to (..., ...'); a 0-d input multiplies.

    >>> rg.inner(rg.tensor([[1.0, 2.0], [3.0, 4.0]]), rg.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    x, y = operand(input), operand(other, "other")
    if x.array.ndim == 0 or y.array.ndim == 0:
        return x * y
    if x.array.shape[-1] != y.array.shape[-1]:
        raise RuntimeError(f"the last axes differ in length: {describe(x)} and {describe(y)}")
    return tensordot(x, y, dims=([x.array.ndim - 1], [y.array.ndim - 1]))


@operator(method=False, dtype="equal")
@also_named(axes="dims")
def tensordot(a: Operand, b: Operand, dims: int | Tensor | Sequence[Sequence[int] | int] = 2) -> Tensor:
    """``y[..., ...'] = sum_k a[..., k] b[k, ...']``: over pairs of dimensions.

    Derivative: a: ``tensordot`` of ``g`` with ``b`` over the dimensions of b that are not summed; b: likewise with
    ``a``.
    Shape: the dimensions of a that are not summed, then those of b; a dimension of length 1 pairs with any.

    Args:
        a: the factor on the left.
        b: the factor on the right.
        dims: n to sum over the last n dimensions of a and the first n of b; or a pair of lists, the dimensions of a and
            of b.

    Raises:
        RuntimeError: paired dimensions, or the two lists, differ in length.
        ValueError: ``dims`` is a sequence, but not a pair.

    >>> rg.tensordot(rg.ones(2, 3, 4), rg.ones(3, 4, 5)).shape
    (2, 5)
    """
    x, y = operand(a, "a"), operand(b, "b")
    m, n = x.array.ndim, y.array.ndim
    dims = dims.tolist() if isinstance(dims, Tensor) else dims
    left: list[int]
    right: list[int]
    if isinstance(dims, int):
        if not 0 <= dims <= min(m, n):
            raise RuntimeError(f"dims must be from 0 to {min(m, n)} for {describe(x)} and {describe(y)}, got {dims}")
        left, right = list(range(m - dims, m)), list(range(dims))
    else:
        if not isinstance(dims, (list, tuple)):
            raise RuntimeError(f"dims must be a number or a pair of lists, got {dims!r}")
        if len(dims) != 2:
            raise InvalidValue(f"dims must be a pair of lists, got {dims!r}")
        left, right = ([axes] if isinstance(axes, int) else list(axes) for axes in dims)
    if len(left) != len(right):
        raise RuntimeError(f"dims must name as many axes of a as of b, got {len(left)} and {len(right)}")
    for axis, other in zip(left, right, strict=True):
        if not -m <= axis < m or not -n <= other < n:
            raise IndexError(f"axis {axis} of {describe(x)} or axis {other} of {describe(y)} is out of range")
        if x.array.shape[axis] == 1 != y.array.shape[other]:  # the single element broadcasts, as in PyTorch
            y = y.sum(other, keepdim=True)
        elif y.array.shape[other] == 1 != x.array.shape[axis]:
            x = x.sum(axis, keepdim=True)
        elif x.array.shape[axis] != y.array.shape[other]:
            raise RuntimeError(f"axis {axis} of {describe(x)} and axis {other} of {describe(y)} differ in length")
    left, right = [axis % m for axis in left], [axis % n for axis in right]
    kept_x = [axis for axis in range(m) if axis not in left]
    kept_y = [axis for axis in range(n) if axis not in right]
    shape = tuple(x.array.shape[axis] for axis in kept_x) + tuple(y.array.shape[axis] for axis in kept_y)
    size = prod(x.array.shape[axis] for axis in left)
    rows, columns = prod(shape[: len(kept_x)]), prod(shape[len(kept_x) :])
    flat_x = x.permute((*kept_x, *left)).reshape(rows, size)
    flat_y = y.permute((*right, *kept_y)).reshape(size, columns)
    return mm(flat_x, flat_y).reshape(shape)


def _scaled_sum(input: Operand, product: Tensor, beta: Number, alpha: Number) -> Tensor:
    input = operand(input)
    shape, own = product.array.shape, input.array.shape
    if own != shape and (len(own) > len(shape) or any(m not in (1, n) for m, n in zip(own[::-1], shape[::-1]))):
        raise RuntimeError(f"input {describe(input)} cannot be broadcast to the product, {describe(product)}")
    if alpha is not beta or alpha != 1:
        dtype = result_type(input.array, product.array)
        wide = float32 if dtype.itemsize == 2 and dtype.kind in FLOATING else dtype
        beta, alpha = converted(beta, wide), converted(alpha, wide)
    if alpha != 1:
        product = product * alpha
    if beta == 0:  # as in PyTorch, input is then ignored, including NaN and infinities, and its gradient is 0
        return product + ZEROS(input) if input._requires else product
    return (input if beta == 1 else input * beta) + product


@operator(inplace=True, like=mm)
def addmm(input: Operand, mat1: Operand, mat2: Operand, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)``.

    Derivative: input: ``beta g``; mat1: ``alpha g @ mat2^T``; mat2: ``alpha mat1^T @ g``.
    Shape: (n, k) and (k, m) to (n, m); input broadcasts to the product.

    Args:
        input: the Tensor that is added to the product.
        mat1: the matrix on the left.
        beta: the factor of the input; with 0 the input is ignored, even where it is NaN.
        alpha: the factor of the product.

    >>> rg.addmm(rg.ones(2), rg.ones(2, 3), rg.ones(3, 2))
    tensor([[4., 4.],
            [4., 4.]])
    """
    return _scaled_sum(input, mm(mat1, mat2), beta, alpha)


@operator(inplace=True, like=addmm, args="vec")
def addmv(input: Operand, mat: Operand, vec: Operand, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """``beta * input + alpha * (mat @ vec)``.

    Derivative: input: ``beta g``; mat: ``alpha outer(g, vec)``; vec: ``alpha mat^T @ g``.
    Shape: (n, k) and (k) to (n); input broadcasts to the product.

    Args:
        mat: the matrix.

    >>> rg.addmv(rg.ones(2), rg.ones(2, 3), rg.ones(3))
    tensor([4., 4.])
    """
    return _scaled_sum(input, mv(mat, vec), beta, alpha)


@operator(inplace=True, like=addmm, args="vec2 columns")
def addr(input: Operand, vec1: Operand, vec2: Operand, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``.

    Derivative: input: ``beta g``; vec1: ``alpha g @ vec2``; vec2: ``alpha vec1 @ g``.
    Shape: (n) and (m) to (n, m); input broadcasts to the product.

    Args:
        vec1: the vector of the rows.

    >>> rg.addr(rg.zeros(2, 2), rg.ones(2), rg.tensor([1.0, 2.0]))
    tensor([[1., 2.],
            [1., 2.]])
    """
    x, product = operand(input), outer(vec1, vec2)
    if alpha is not beta or type(alpha) is bool or alpha != 1:
        dtype = result_type(x.array, product.array)
        beta, alpha = factor(beta, dtype, "beta"), factor(alpha, dtype)
    return _scaled_sum(x, product, beta, alpha)


@operator(inplace=True, like=addmm)
def baddbmm(input: Operand, batch1: Operand, batch2: Operand, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """``beta * input + alpha * (batch1 @ batch2)``, a product per batch element.

    Derivative: input: ``beta g``; batch1: ``alpha g @ batch2^T``; batch2: ``alpha batch1^T @ g``.
    Shape: (b, n, k) and (b, k, m) to (b, n, m); input broadcasts to the product.

    Args:
        batch1: the matrices on the left.
        batch2: the matrices on the right.

    >>> rg.baddbmm(rg.ones(1), rg.ones(4, 2, 3), rg.ones(4, 3, 2)).shape
    (4, 2, 2)
    """
    return _scaled_sum(input, bmm(batch1, batch2), beta, alpha)


@operator(inplace=True, like=baddbmm)
def addbmm(input: Operand, batch1: Operand, batch2: Operand, *, beta: Number = 1, alpha: Number = 1) -> Tensor:
    """``beta * input + alpha * sum_b(batch1[b] @ batch2[b])``.

    Derivative: input: ``beta g``; batch1: ``alpha g @ batch2[b]^T``; batch2: ``alpha batch1[b]^T @ g``.
    Shape: (b, n, k) and (b, k, m) to (n, m); input broadcasts to the product.

    >>> rg.addbmm(rg.zeros(2, 2), rg.ones(4, 2, 3), rg.ones(4, 3, 2))
    tensor([[12., 12.],
            [12., 12.]])
    """
    x, y = operand(batch1, "batch1"), operand(batch2, "batch2")
    require_ndim("batch1", x, 3)
    require_ndim("batch2", y, 3)
    if x.array.shape[0] != y.array.shape[0]:
        raise RuntimeError(f"the batches differ in length: {describe(x)} and {describe(y)}")
    return _scaled_sum(input, tensordot(x, y, dims=([0, 2], [0, 1])), beta, alpha)


# The operator @


_matmul_method = deferring(matmul, "matmul")


@tensor_method
def __matmul__(self: Tensor, other: Operand) -> Tensor:
    """``self @ other``. The errors for two matrices are those of ``matmul``."""
    if isinstance(other, Tensor) and self.array.ndim == 2 == other.array.ndim and not watchers:
        try:
            return apply2(MM, self, other)
        except Exception:
            return _matmul_method(self, other)
    if isinstance(other, np.ndarray) and other.dtype is not self.array.dtype and is_array(other):
        return np.matmul(self, other)  # NumPy's matmul, which promotes dtypes, as for ``array @ tensor``
    return _matmul_method(self, other)


def _reflected_matmul(self: Tensor, other: Operand) -> Tensor:
    if not is_operand(other):
        raise TypeError  # caught by `deferring`; the error of `matmul` would take longer to create than a small product
    return matmul(other, self)


tensor_method(deferring(_reflected_matmul, "matmul", "r"), "__rmatmul__")
