"""Products of matrices and vectors, and everything that is one: linear layers, einsum, tensordot."""

from __future__ import annotations

import string
from collections.abc import Sequence
from math import prod
from operator import index as as_integer
from typing import Any

import numpy as np
from numpy import ndarray

from ...core.devices import array_module
from ...core.errors import InvalidValue, describe
from ...core.primitive import Primitive, apply, apply2, operand
from ...core.summation import accurate_sum
from ...core.tensor import Tensor
from ..table.python_operators import deferring
from ..table.registry import named_errors, operator


def _transposed(x: Any) -> Any:
    """The last two axes swapped."""
    return x.T if x.ndim == 2 else np.swapaxes(x, -1, -2)


def as_rows(x: Any) -> Any:
    """All axes but the last as one. Where there are no elements, -1 would not say how long it is."""
    return x.reshape((prod(x.shape[:-1]), x.shape[-1]))


def _matmul(x: Any, y: Any) -> Any:
    if x.dtype.kind == "f" and y.ndim == 2:
        # For two matrices ndarray.dot is the same product at half the call's cost; a batch of them is one tall matrix.
        if x.ndim == 2:
            return x.dot(y)
        if x.ndim > 2:
            return as_rows(x).dot(y).reshape(x.shape[:-1] + y.shape[1:])
    return np.matmul(x, y)


def _matmul_vjp_x(g: Any, y: Any, x_ndim: Any) -> Any:
    if y.ndim == 1:
        return g * y if x_ndim == 1 else np.expand_dims(g, -1) * y
    if x_ndim == 1:
        g = np.expand_dims(g, -2)
        product = MATMUL(g, _transposed(y))
        return product.reshape(product.shape[:-2] + product.shape[-1:])
    return MATMUL(g, _transposed(y))


def _matmul_vjp_y(g: Any, x: Any, y_ndim: Any) -> Any:
    if x.ndim == 1:
        return g * x if y_ndim == 1 else np.expand_dims(x, -1) * np.expand_dims(g, -2)
    if y_ndim == 1:
        product = MATMUL(_transposed(x), np.expand_dims(g, -1))
        return product.reshape(product.shape[:-1])
    if x.ndim > 2 and y_ndim == 2:
        # One product over all of the batch, instead of one per matrix and a sum.
        return MATMUL(_transposed(as_rows(x)), as_rows(g))
    return MATMUL(_transposed(x), g)


# For two matrices, the case that counts calls, the rules on NumPy's arrays are the bare products.
MM: Primitive = Primitive(
    "mm",
    lambda x, y: x.dot(y),
    "x y",
    [
        lambda g, y: g.dot(y.T) if type(g) is ndarray else MM(g, y.T),
        lambda g, x: x.T.dot(g) if type(g) is ndarray else MM(x.T, g),
    ],
    promote="strict",
)
MATMUL = Primitive(
    "matmul",
    _matmul,
    "x y",
    [
        lambda g, y, x_shape: _matmul_vjp_x(g, y, len(x_shape)),
        lambda g, x, y_shape: _matmul_vjp_y(g, x, len(y_shape)),
    ],
    promote="strict",
)


def _product(x: Tensor, y: Tensor) -> Tensor:
    if x.array.ndim == 2 and y.array.ndim == 2:
        return apply2(MM, x, y)
    return apply(MATMUL, (x, y), {})


@operator(numpy=np.matmul, also=("linalg.matmul",))
def matmul(input: Tensor, other: Tensor) -> Tensor:
    """The matrix product, with batch axes broadcast: ``(..., n, k) @ (..., k, m) -> (..., n, m)``.

    A vector on the left is a row, on the right a column, and its axis is gone from the result; two vectors give their
    inner product.

    Raises:
        RuntimeError: the inner lengths differ, an input is 0-d, or the dtypes differ.

    >>> rg.tensor([[1.0, 2.0], [3.0, 4.0]]) @ rg.tensor([1.0, 1.0])
    tensor([3., 7.])
    """
    x, y = operand(input), operand(other, "other")
    return _product(x, y)


def _wants_ndim(argument: str, x: Tensor, ndim: int) -> None:
    if x.array.ndim != ndim:
        raise RuntimeError(f"{argument} must have {ndim} dimensions, got {describe(x)}")


@operator()
def mm(input: Tensor, mat2: Tensor) -> Tensor:
    """The product of two matrices: ``(n, k) @ (k, m) -> (n, m)``.

    >>> rg.mm(rg.ones(2, 3), rg.ones(3, 1))
    tensor([[3.],
            [3.]])
    """
    x, y = operand(input), operand(mat2, "mat2")
    _wants_ndim("input", x, 2)
    _wants_ndim("mat2", y, 2)
    return apply2(MM, x, y)


@operator()
def bmm(input: Tensor, mat2: Tensor) -> Tensor:
    """A batch of matrix products: ``(b, n, k) @ (b, k, m) -> (b, n, m)``, without broadcasting.

    >>> rg.bmm(rg.ones(4, 2, 3), rg.ones(4, 3, 1)).shape
    (4, 2, 1)
    """
    x, y = operand(input), operand(mat2, "mat2")
    _wants_ndim("input", x, 3)
    _wants_ndim("mat2", y, 3)
    if x.array.shape[0] != y.array.shape[0]:
        raise RuntimeError(f"the batches differ in length: {describe(x)} and {describe(y)}")
    return apply(MATMUL, (x, y), {})


@operator()
def mv(input: Tensor, vec: Tensor) -> Tensor:
    """The product of a matrix and a vector: ``(n, k) @ (k,) -> (n,)``.

    >>> rg.mv(rg.ones(2, 3), rg.ones(3))
    tensor([3., 3.])
    """
    x, y = operand(input), operand(vec, "vec")
    _wants_ndim("input", x, 2)
    _wants_ndim("vec", y, 1)
    return apply(MATMUL, (x, y), {})


@operator()
def dot(input: Tensor, tensor: Tensor) -> Tensor:
    """The inner product of two vectors of one length, without conjugation.

    >>> rg.dot(rg.tensor([1.0, 2.0]), rg.tensor([3.0, 4.0]))
    tensor(11.)
    """
    x, y = operand(input), operand(tensor, "tensor")
    _wants_ndim("input", x, 1)
    _wants_ndim("tensor", y, 1)
    return apply(MATMUL, (x, y), {})


@operator()
def vdot(input: Tensor, other: Tensor) -> Tensor:
    """The inner product of two vectors, the first one conjugated.

    >>> rg.vdot(rg.tensor([1.0, 2.0]), rg.tensor([3.0, 4.0]))
    tensor(11.)
    """
    x = operand(input)
    return dot(x.conj() if x.dtype.kind == "c" else x, other)


@operator(aliases=("ger",))
def outer(input: Tensor, vec2: Tensor) -> Tensor:
    """The outer product of two vectors: ``result[i, j] = input[i] * vec2[j]``.

    >>> rg.outer(rg.tensor([1.0, 2.0]), rg.tensor([3.0, 4.0]))
    tensor([[3., 4.],
            [6., 8.]])
    """
    x, y = operand(input), operand(vec2, "vec2")
    _wants_ndim("input", x, 1)
    _wants_ndim("vec2", y, 1)
    return x[:, None] * y


@operator()
def inner(input: Tensor, other: Tensor) -> Tensor:
    """The sum of products over the last axis of both: ``result[..., ...'] = sum_k input[..., k] other[...', k]``.

    >>> rg.inner(rg.tensor([[1.0, 2.0], [3.0, 4.0]]), rg.tensor([1.0, 1.0]))
    tensor([3., 7.])
    """
    x, y = operand(input), operand(other, "other")
    if x.array.ndim == 0 or y.array.ndim == 0:
        return x * y
    if x.array.shape[-1] != y.array.shape[-1]:
        raise RuntimeError(f"the last axes differ: {describe(x)} and {describe(y)}")
    return tensordot(x, y, dims=([x.array.ndim - 1], [y.array.ndim - 1]))


@operator(method=False)
def tensordot(a: Tensor, b: Tensor, dims: Any = 2) -> Tensor:
    """The sum of products over pairs of axes: the last ``dims`` of ``a`` with the first of ``b``, or ``dims = (of_a,
    of_b)``.

    Raises:
        RuntimeError: paired axes differ in length, or the lists of axes do.

    >>> rg.tensordot(rg.ones(2, 3, 4), rg.ones(3, 4, 5)).shape
    (2, 5)
    """
    x, y = operand(a, "a"), operand(b, "b")
    m, n = x.array.ndim, y.array.ndim
    if isinstance(dims, Tensor):
        dims = dims.tolist()
    if isinstance(dims, int):
        if not 0 <= dims <= min(m, n):
            raise RuntimeError(f"dims={dims} for {describe(x)} and {describe(y)}")
        left, right = list(range(m - dims, m)), list(range(dims))
    else:
        left, right = ([axes] if isinstance(axes, int) else list(axes) for axes in dims)
    if len(left) != len(right):
        raise RuntimeError(f"dims pair {len(left)} axes of a with {len(right)} of b")
    for axis, other in zip(left, right, strict=True):
        if not -m <= axis < m or not -n <= other < n:
            raise IndexError(f"axes {axis} and {other} for {describe(x)} and {describe(y)}")
        if x.array.shape[axis] != y.array.shape[other]:
            raise RuntimeError(f"axis {axis} of {describe(x)} and axis {other} of {describe(y)} differ")
    left, right = [axis % m for axis in left], [axis % n for axis in right]
    kept_x = [axis for axis in range(m) if axis not in left]
    kept_y = [axis for axis in range(n) if axis not in right]
    shape = tuple(x.array.shape[axis] for axis in kept_x) + tuple(y.array.shape[axis] for axis in kept_y)
    size = int(np.prod([x.array.shape[axis] for axis in left], dtype=np.int64))
    rows = int(np.prod([x.array.shape[axis] for axis in kept_x], dtype=np.int64))
    columns = int(np.prod([y.array.shape[axis] for axis in kept_y], dtype=np.int64))
    flat_x = x.permute((*kept_x, *left)).reshape(rows, size)
    flat_y = y.permute((*right, *kept_y)).reshape(size, columns)
    return mm(flat_x, flat_y).reshape(shape)


def _scaled_sum(input: Any, product: Tensor, beta: Any, alpha: Any) -> Tensor:
    input = operand(input)
    shape, own = product.array.shape, input.array.shape
    if own != shape and (len(own) > len(shape) or any(m not in (1, n) for m, n in zip(own[::-1], shape[::-1]))):
        raise RuntimeError(f"input {describe(input)} cannot be broadcast to the product, {describe(product)}")
    if alpha != 1:
        product = product * alpha
    if beta == 0:  # as PyTorch: the values of input are then ignored, NaN and infinities included
        return product
    return (input if beta == 1 else input * beta) + product


@operator(inplace=True)
def addmm(input: Tensor, mat1: Tensor, mat2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (mat1 @ mat2)``.

    >>> rg.addmm(rg.ones(2), rg.ones(2, 3), rg.ones(3, 2))
    tensor([[4., 4.],
            [4., 4.]])
    """
    return _scaled_sum(input, mm(mat1, mat2), beta, alpha)


@operator(inplace=True)
def addmv(input: Tensor, mat: Tensor, vec: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (mat @ vec)``.

    >>> rg.addmv(rg.ones(2), rg.ones(2, 3), rg.ones(3))
    tensor([4., 4.])
    """
    return _scaled_sum(input, mv(mat, vec), beta, alpha)


@operator(inplace=True)
def addr(input: Tensor, vec1: Tensor, vec2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * outer(vec1, vec2)``.

    >>> rg.addr(rg.zeros(2, 2), rg.ones(2), rg.tensor([1.0, 2.0]))
    tensor([[1., 2.],
            [1., 2.]])
    """
    return _scaled_sum(input, outer(vec1, vec2), beta, alpha)


@operator(inplace=True)
def baddbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * (batch1 @ batch2)``, a product per batch element.

    >>> rg.baddbmm(rg.ones(1), rg.ones(4, 2, 3), rg.ones(4, 3, 2)).shape
    (4, 2, 2)
    """
    return _scaled_sum(input, bmm(batch1, batch2), beta, alpha)


@operator(inplace=True)
def addbmm(input: Tensor, batch1: Tensor, batch2: Tensor, *, beta: Any = 1, alpha: Any = 1) -> Tensor:
    """``beta * input + alpha * sum_b(batch1[b] @ batch2[b])``.

    >>> rg.addbmm(rg.zeros(2, 2), rg.ones(4, 2, 3), rg.ones(4, 3, 2))
    tensor([[12., 12.],
            [12., 12.]])
    """
    x, y = operand(batch1, "batch1"), operand(batch2, "batch2")
    _wants_ndim("batch1", x, 3)
    _wants_ndim("batch2", y, 3)
    if x.array.shape[0] != y.array.shape[0]:
        raise RuntimeError(f"the batches differ in length: {describe(x)} and {describe(y)}")
    return _scaled_sum(input, tensordot(x, y, dims=([0, 2], [0, 1])), beta, alpha)


# A linear layer saves the transposed views that `x @ w.T + b` would make, and sums the batch in one product.


def _linear(x: Any, w: Any, b: Any = None) -> Any:
    if x.ndim == 2:
        out = x.dot(w.T)
    elif x.ndim > 2:
        out = as_rows(x).dot(w.T).reshape(x.shape[:-1] + w.shape[:1])
    else:
        out = np.matmul(x, w.T)
    if b is not None:
        out += b
    return out


def _linear_vjp_w(g: Any, x: Any) -> Any:
    if x.ndim == 1:
        return np.expand_dims(g, -1) * x
    if x.ndim > 2:
        g, x = as_rows(g), as_rows(x)
    return MM(g.T, x)


def _linear_vjp_b(g: Any) -> Any:
    rows = g if g.ndim == 2 else as_rows(g)
    return rows.sum(axis=0) if isinstance(g, Tensor) else accurate_sum(rows, (0,))


LINEAR = Primitive(
    "linear",
    _linear,
    "x w b",
    [lambda g, w: MATMUL(g, w), _linear_vjp_w, _linear_vjp_b],
    promote="strict",
)
LINEAR_NO_BIAS = Primitive("linear", _linear, "x w", [lambda g, w: MATMUL(g, w), _linear_vjp_w], promote="strict")


@operator(namespace="nn.functional", method=False)
def linear(input: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``input @ weight.T + bias``: ``(..., in)`` with ``weight (out, in)`` and ``bias (out,)`` gives ``(..., out)``.

    Raises:
        RuntimeError: the lengths do not match, or the dtypes differ.

    >>> F.linear(rg.ones(2, 3), rg.ones(4, 3), rg.ones(4)).shape
    (2, 4)
    """
    x, w = operand(input), operand(weight, "weight")
    if w.array.ndim == 1 and bias is None:
        return matmul(x, w)
    if x.array.ndim == 0 or w.array.ndim != 2 or x.array.shape[-1] != w.array.shape[1]:
        raise RuntimeError(f"wanted input (..., in) and weight (out, in), got {describe(x)} and {describe(w)}")
    if bias is None:
        return apply(LINEAR_NO_BIAS, (x, w), {})
    b = operand(bias, "bias")
    if b.array.shape != w.array.shape[:1]:
        if b.array.ndim == 0 or b.array.shape == (1,):
            return apply(LINEAR_NO_BIAS, (x, w), {}) + b
        raise RuntimeError(f"wanted bias ({w.array.shape[0]},) for weight {describe(w)}, got {describe(b)}")
    return apply(LINEAR, (x, w, b), {})


@operator(namespace="nn.functional", method=False)
def bilinear(input1: Tensor, input2: Tensor, weight: Tensor, bias: Tensor | None = None) -> Tensor:
    """``result[..., o] = sum_ij input1[..., i] weight[o, i, j] input2[..., j] + bias[o]``.

    >>> F.bilinear(rg.ones(5, 2), rg.ones(5, 3), rg.ones(4, 2, 3)).shape
    (5, 4)
    """
    x, y = operand(input1, "input1"), operand(input2, "input2")
    w = operand(weight, "weight")
    _wants_ndim("weight", w, 3)
    out, left, right = w.array.shape
    batch = x.array.shape[:-1]
    if x.array.shape != (*batch, left) or y.array.shape != (*batch, right):
        raise RuntimeError(
            f"wanted inputs (..., {left}) and (..., {right}) for weight {describe(w)}, got {describe(x)} and "
            f"{describe(y)}"
        )
    batch = x.array.shape[:-1]
    product = mm(as_rows(x), w.permute(1, 0, 2).reshape(left, out * right))
    result = (product.reshape(*batch, out, right) * y.unsqueeze(-2)).sum(-1)
    if bias is None:
        return result
    b = operand(bias, "bias")
    if b.array.shape != (out,):
        raise RuntimeError(f"wanted bias ({out},) for weight {describe(w)}, got {describe(b)}")
    return result + b


# Einstein summation

EINSUM = Primitive(
    "einsum",
    lambda *xs, equation: np.einsum(equation, *xs, optimize=len(xs) > 2),
    "*xs",
    vjp=lambda g, xs, equation, needs: [
        _einsum_vjp(g, xs, equation, index) if need else None for index, need in enumerate(needs)
    ],
)
EINSUM2 = Primitive(
    "einsum",
    lambda x, y, equation: _einsum_pair(equation, x, y),
    "x y",
    [
        lambda g, y, equation, x_shape: _einsum_pair_vjp(g, y, equation, x_shape, 0),
        lambda g, x, equation, y_shape: _einsum_pair_vjp(g, x, equation, y_shape, 1),
    ],
    promote="strict",
)


def _einsum_pair(equation: str, x: Any, y: Any) -> Any:
    """Two operands, as one batched matrix product where the letters allow: far faster than NumPy's own loops."""
    (a, b), out = _parse(equation)
    common = set(a) & set(b)
    if len(set(a)) != len(a) or len(set(b)) != len(b) or not common:
        return np.einsum(equation, x, y)
    batch = [c for c in out if c in common]
    summed = [c for c in a if c in common and c not in out]
    left = [c for c in a if c not in common]
    right = [c for c in b if c not in common]
    sizes = dict(zip(a, x.shape, strict=True)) | dict(zip(b, y.shape, strict=True))
    if any(x.shape[a.index(c)] != y.shape[b.index(c)] for c in common) or not summed:
        return np.einsum(equation, x, y)
    x = x.sum(axis=tuple(a.index(c) for c in left if c not in out)) if set(left) - set(out) else x
    a = [c for c in a if c in common or c in out]
    left = [c for c in left if c in out]
    y = y.sum(axis=tuple(b.index(c) for c in right if c not in out)) if set(right) - set(out) else y
    b = [c for c in b if c in common or c in out]
    right = [c for c in right if c in out]

    def size(letters: Sequence[str]) -> int:
        product = 1
        for c in letters:
            product *= sizes[c]
        return product

    batch_shape = [sizes[c] for c in batch]
    x = np.transpose(x, [a.index(c) for c in batch + left + summed]).reshape(batch_shape + [size(left), size(summed)])
    y = np.transpose(y, [b.index(c) for c in batch + summed + right]).reshape(batch_shape + [size(summed), size(right)])
    result = _matmul(x, y).reshape(batch_shape + [sizes[c] for c in left] + [sizes[c] for c in right])
    order = batch + left + right
    return np.transpose(result, [order.index(c) for c in out])


def _parse(equation: str) -> tuple[list[list[str]], list[str]]:
    left, _, out = equation.partition("->")
    return [list(term) for term in left.split(",")], list(out)


def _einsum_pair_vjp(g: Any, other: Any, equation: str, shape: tuple[int, ...], index: int) -> Any:
    terms, out = _parse(equation)
    return _einsum_cotangent(g, [other], [terms[1 - index]], out, terms[index], shape)


def _einsum_vjp(g: Any, xs: tuple[Any, ...], equation: str, index: int) -> Any:
    terms, out = _parse(equation)
    others = [x for place, x in enumerate(xs) if place != index]
    return _einsum_cotangent(g, others, terms[:index] + terms[index + 1 :], out, terms[index], tuple(xs[index].shape))


def _einsum_cotangent(
    g: Any, others: list[Any], letters: list[list[str]], out: list[str], wanted: list[str], shape: tuple[int, ...]
) -> Any:
    """The cotangent of one operand: the einsum of g with the other operands, spread along letters only it has."""
    unique = list(dict.fromkeys(wanted))
    available = set(out).union(*letters) if letters else set(out)
    found = [c for c in unique if c in available]
    equation = ",".join("".join(term) for term in [out, *letters]) + "->" + "".join(found)
    result = EINSUM(g, *others, equation=equation) if len(others) != 1 else EINSUM2(g, others[0], equation=equation)
    sizes = dict(zip(wanted, shape, strict=True))
    if found != unique:
        places = tuple(slice(None) if c in available else None for c in unique)
        result = np.broadcast_to(result[places], tuple(sizes[c] for c in unique))
    if len(unique) != len(wanted):
        # A repeated letter took a diagonal: its cotangent goes back there.
        for c in unique:
            while wanted.count(c) > unique.count(c):
                axis = unique.index(c)
                eye = array_module(result).eye(sizes[c], dtype=result.dtype)
                result = np.expand_dims(result, axis)
                view = [1] * (len(unique) + 1)
                view[axis], view[axis + 1] = sizes[c], sizes[c]
                result = result * eye.reshape(tuple(view))
                unique.insert(axis, c)
        order = _stable_order(unique, wanted)
        result = np.transpose(result, order)
    return result


def _stable_order(have: list[str], want: list[str]) -> list[int]:
    """The permutation that brings the letters ``have`` into the order ``want``, repeats kept in order."""
    left = list(enumerate(have))
    order = []
    for c in want:
        position = next(index for index, (_, letter) in enumerate(left) if letter == c)
        order.append(left.pop(position)[0])
    return order


def _explicit(equation: str, operands: list[Tensor]) -> str:
    """The equation with its output written out and its ellipses replaced by letters."""
    equation = equation.replace(" ", "")
    inputs, arrow, out = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(f"{equation!r} names {len(terms)} operands, got {len(operands)}")
    named = set(inputs) | set(out)
    if not named <= set(string.ascii_letters) | set(".,"):
        raise RuntimeError(f"{equation!r} has a subscript that is not a letter")
    free = [c for c in string.ascii_letters if c not in named]
    spread = 0
    for term, x in zip(terms, operands, strict=True):
        if "..." in term:
            spread = max(spread, x.array.ndim - (len(term) - 3))
        elif len(term) != x.array.ndim:
            raise RuntimeError(f"{equation!r} has {len(term)} subscripts for {describe(x)}")
        if "." in term.replace("...", "", 1):
            raise RuntimeError(f"{equation!r} has a '.' that is not part of one '...'")
    letters = free[:spread]
    filled = []
    for term, x in zip(terms, operands, strict=True):
        count = x.array.ndim - (len(term) - 3)
        if "..." in term and count < 0:
            raise RuntimeError(f"{equation!r} has too many subscripts for {describe(x)}")
        filled.append(term.replace("...", "".join(letters[spread - count :])))
    if arrow:
        out = out.replace("...", "".join(letters))
    else:
        counts = "".join(filled)
        out = "".join(letters) + "".join(sorted(c for c in set(counts) - set(letters) if counts.count(c) == 1))
    for c in out:
        if out.count(c) > 1:
            raise RuntimeError(f"{equation!r} repeats the output subscript {c!r}")
        if not any(c in term for term in filled):
            raise RuntimeError(f"{equation!r} has an output subscript {c!r} that no operand has")
    return ",".join(filled) + "->" + out


def _one_length(equation: str, operands: list[Tensor]) -> tuple[str, list[Tensor]]:
    """Axes of length 1 against a longer axis of the same letter are broadcast: they are dropped from their operand."""
    terms, out = _parse(equation)
    sizes: dict[str, int] = {}
    for term, x in zip(terms, operands, strict=True):
        for c, length in zip(term, x.array.shape, strict=True):
            known = sizes.get(c, 1)
            if known != 1 and length not in (1, known):
                shapes = ", ".join(map(describe, operands))
                raise RuntimeError(f"{equation!r}: subscript {c!r} has lengths {known} and {length} in {shapes}")
            sizes[c] = max(known, length) if length != 0 and known != 0 else min(known, length)
    changed = []
    for index, (term, x) in enumerate(zip(terms, operands, strict=True)):
        drop = [axis for axis, c in enumerate(term) if x.array.shape[axis] != sizes[c]]
        if drop:
            x = x[tuple(0 if axis in drop else slice(None) for axis in range(len(term)))]
            terms[index] = [c for axis, c in enumerate(term) if axis not in drop]
        changed.append(x)
    missing = [c for c in out if not any(c in term for term in terms)]
    assert not missing, "every letter keeps its longest axis"
    return ",".join("".join(term) for term in terms) + "->" + "".join(out), changed


def _from_sublists(args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """``a, [0, 1], b, [1, 2], [0, 2]`` as ``"AB,BC->AC"`` and ``(a, b)``."""
    *operands, output = args[::2] if len(args) % 2 else (*args[::2], None)
    sublists = args[1::2] if output is None else (*args[1::2], output)
    if not operands or not all(isinstance(sublist, (list, tuple)) for sublist in sublists):
        given = ", ".join(type(each).__name__ for each in args)
        raise TypeError(f"wanted an equation and operands, or operands each with a list of numbers, got {given}")
    terms = ["".join(_subscript(number) for number in sublist) for sublist in sublists]
    return ",".join(terms[: len(operands)]) + ("" if output is None else "->" + terms[-1]), tuple(operands)


def _subscript(number: Any) -> str:
    if number is Ellipsis:
        return "..."
    number = as_integer(number)
    if not 0 <= number < 52:
        raise InvalidValue(f"subscripts must be from 0 to 51, got {number}")
    return (string.ascii_uppercase + string.ascii_lowercase)[number]


@operator(method=False)
def einsum(equation: Any, *operands: Any) -> Tensor:
    """Sums of products by Einstein's convention: ``einsum("bij,bjk->bik", a, b)``.

    Letters shared by operands are multiplied, letters absent from the output summed; a letter twice in one operand
    takes
    its diagonal; ``...`` stands for broadcast axes. Without ``->`` the output has the letters that occur once, sorted.
    The letters may be given as lists of numbers, too: ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.

    Raises:
        RuntimeError: the equation does not fit the operands.

    >>> rg.einsum("ij,j->i", rg.ones(2, 3), rg.tensor([1.0, 2.0, 3.0]))
    tensor([6., 6.])
    """
    if not isinstance(equation, str):
        equation, operands = _from_sublists((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    tensors = [operand(x, f"operands[{index}]") for index, x in enumerate(operands)]
    equation, tensors = _one_length(_explicit(equation, tensors), tensors)
    if len(tensors) == 2:
        return apply(EINSUM2, tuple(tensors), {"equation": equation})
    return apply(EINSUM, tuple(tensors), {"equation": equation})


# The operator @


def _matmul_operator(self: Tensor, other: Any) -> Tensor:
    if isinstance(other, Tensor) and self.array.ndim == 2 and other.array.ndim == 2:
        return apply2(MM, self, other)
    return matmul(self, other)


def _reflected_matmul(self: Tensor, other: Any) -> Tensor:
    return matmul(other, self)


Tensor.__matmul__ = deferring(named_errors("matmul", _matmul_operator))  # type: ignore[method-assign, assignment]
Tensor.__rmatmul__ = deferring(_reflected_matmul)  # type: ignore[method-assign, assignment]
