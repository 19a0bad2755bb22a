"""Einstein summation."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from math import prod
from operator import index as as_integer
from operator import is_
from types import EllipsisType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import conversion_advice
from ....core.errors import InvalidValue, describe
from ....core.graph.primitive import Primitive, apply, operand
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor, new_tensor
from ...shape.permutation import permute
from ...shape.views import diagonal
from ...table.registry import operator
from ...table.types import Operand
from .matmul import MATMUL

if TYPE_CHECKING:
    from ....core.mapping.batching import Call


_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def _einsum_examples(call: Call) -> Any:
    """Batch einsum by an additional letter for the examples."""
    equation = call.params["equation"]
    letter = next(c for c in _LETTERS if c not in equation)
    terms, out = _parse(equation)
    named = [letter + "".join(term) if flag else "".join(term) for term, flag in zip(terms, call.mapped)]
    return call.below(call.values, {"equation": ",".join(named) + "->" + letter + "".join(out)})


def _einsum_shape(make: Callable[..., ndarray], *xs: ndarray, equation: str) -> ndarray:
    terms, out = _parse(equation)
    lengths: dict[str, int] = {}
    for term, x in zip(terms, xs, strict=True):
        for letter, length in zip(term, x.shape, strict=True):
            if lengths.setdefault(letter, length) in (1, length):
                lengths[letter] = length
            elif length != 1:
                raise ValueError(f"subscript {letter} has lengths {lengths[letter]} and {length}")
    return make(tuple([lengths[letter] for letter in out]), np.result_type(*xs))


def _einsum_pair_shape(make: Callable[..., ndarray], x: ndarray, y: ndarray, equation: str) -> ndarray:
    if _product(equation, x.shape, y.shape) is None:
        return _einsum_shape(make, x, y, equation=equation)
    return _einsum_pair(equation, x, y)


EINSUM = Primitive(
    "einsum",
    lambda *xs, equation: np.einsum(equation, *xs, optimize=True),
    "*xs",
    vjp=lambda g, xs, equation, needs: [
        _einsum_vjp(g, xs, equation, index) if need else None for index, need in enumerate(needs)
    ],
    contiguous=True,
    batch=_einsum_examples,
    shaped=_einsum_shape,
)
EINSUM2 = Primitive(
    "einsum",
    lambda x, y, equation: _einsum_pair(equation, x, y),
    "x y",
    [
        lambda g, y, equation, x_shape: _einsum_pair_vjp(g, y, equation, x_shape, 0),
        lambda g, x, equation, y_shape: _einsum_pair_vjp(g, x, equation, y_shape, 1),
    ],
    promote="same",
    batch=_einsum_examples,
    shaped=_einsum_pair_shape,
)


class _Product(NamedTuple):
    """An einsum of two operands as one batched matrix product, with the transformations of operands and result."""

    turned: bool  # the second operand comes first
    x_gone: tuple[int, ...]
    x_order: tuple[int, ...]
    x_shape: tuple[int, ...]
    y_gone: tuple[int, ...]
    y_order: tuple[int, ...]
    y_shape: tuple[int, ...]
    shape: tuple[int, ...]
    order: tuple[int, ...]


@lru_cache(maxsize=512)
def _product(equation: str, x_shape: tuple[int, ...], y_shape: tuple[int, ...]) -> _Product | None:
    (a, b), out = _parse(equation)
    common = set(a) & set(b)
    if len(set(a)) != len(a) or len(set(b)) != len(b) or not common:
        return None
    batch = [c for c in out if c in common]
    summed = [c for c in a if c in common and c not in out]
    left = [c for c in a if c not in common]
    right = [c for c in b if c not in common]
    sizes = dict(zip(a, x_shape, strict=True)) | dict(zip(b, y_shape, strict=True))
    if any(x_shape[a.index(c)] != y_shape[b.index(c)] for c in common) or not summed:
        return None
    if out == batch + [c for c in right if c in out] + [c for c in left if c in out] and set(left) & set(out):
        turned = _product(f"{''.join(b)},{''.join(a)}->{''.join(out)}", y_shape, x_shape)
        return None if turned is None else turned._replace(turned=True)  # swapped operands give this order of letters
    x_gone = tuple([a.index(c) for c in left if c not in out])
    y_gone = tuple([b.index(c) for c in right if c not in out])
    a = [c for c in a if c in common or c in out]
    left = [c for c in left if c in out]
    b = [c for c in b if c in common or c in out]
    right = [c for c in right if c in out]

    def lengths(letters: list[str]) -> tuple[int, ...]:
        return tuple([sizes[c] for c in letters])

    n, k, m = prod(lengths(left)), prod(lengths(summed)), prod(lengths(right))
    order = batch + left + right
    return _Product(
        False,
        x_gone,
        tuple([a.index(c) for c in batch + left + summed]),
        (*lengths(batch), n, k),
        y_gone,
        tuple([b.index(c) for c in batch + summed + right]),
        (*lengths(batch), k, m),
        lengths(order),
        tuple([order.index(c) for c in out]),
    )


def _einsum_pair(equation: str, x: Array, y: Array) -> Array:
    """Compute an einsum of two operands, if possible as a batched matrix product, faster than NumPy's loops."""
    product = _product(equation, x.shape, y.shape)
    if product is None:
        return np.einsum(equation, x, y)
    if product.turned:
        x, y = y, x
    x = x.sum(axis=product.x_gone) if product.x_gone else x
    y = y.sum(axis=product.y_gone) if product.y_gone else y
    x = x.transpose(product.x_order).reshape(product.x_shape)
    y = y.transpose(product.y_order).reshape(product.y_shape)
    return MATMUL.forward(x, y).reshape(product.shape).transpose(product.order)


def _parse(equation: str) -> tuple[list[list[str]], list[str]]:
    left, _, out = equation.partition("->")
    return [list(term) for term in left.split(",")], list(out)


def _einsum_pair_vjp(g: Array, other: Array, equation: str, shape: tuple[int, ...], index: int) -> Array:
    terms, out = _parse(equation)
    return _einsum_cotangent(g, [other], [terms[1 - index]], out, terms[index], shape)


def _einsum_vjp(g: Array, xs: tuple[Array, ...], equation: str, index: int) -> Array:
    terms, out = _parse(equation)
    others = [x for place, x in enumerate(xs) if place != index]
    return _einsum_cotangent(g, others, terms[:index] + terms[index + 1 :], out, terms[index], tuple(xs[index].shape))


def _einsum_cotangent(
    g: Array, others: list[Array], letters: list[list[str]], out: list[str], wanted: list[str], shape: tuple[int, ...]
) -> Array:
    """Return the cotangent of one operand: the einsum of g and the others, broadcast along letters that these lack."""
    unique = list(dict.fromkeys(wanted))
    available = set(out).union(*letters) if letters else set(out)
    found = [c for c in unique if c in available]
    equation = ",".join("".join(term) for term in [out, *letters]) + "->" + "".join(found)
    result = EINSUM2(g, others[0], equation=equation) if len(others) == 1 else EINSUM(g, *others, equation=equation)
    sizes = dict(zip(wanted, shape, strict=True))
    if found != unique:
        places = tuple(slice(None) if c in available else None for c in unique)
        result = np.broadcast_to(result[places], tuple(sizes[c] for c in unique))
    if len(unique) != len(wanted):
        # A repeated letter selects a diagonal: its cotangent goes to the diagonal.
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
    left = list(enumerate(have))
    order = []
    for c in want:
        position = next(index for index, (_, letter) in enumerate(left) if letter == c)
        order.append(left.pop(position)[0])
    return order


def _explicit(equation: str, operands: list[Tensor]) -> str:
    """Return the equation with explicit output and letters in place of ellipses."""
    equation = equation.replace(" ", "")
    inputs, arrow, out = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(operands):
        raise RuntimeError(f"{equation!r} names {len(terms)} operands, got {len(operands)}")
    named = set(inputs) | set(out)
    if not named <= set(_LETTERS) | set(".,"):
        raise RuntimeError(f"{equation!r} has a subscript that is not a letter")
    free = [c for c in _LETTERS if c not in named]
    broadcast = 0
    for term, x in zip(terms, operands, strict=True):
        if "..." in term:
            broadcast = max(broadcast, x.array.ndim - (len(term) - 3))
        elif len(term) != x.array.ndim:
            raise RuntimeError(f"{equation!r} has {len(term)} subscripts for {describe(x)}")
        if "." in term.replace("...", "", 1):
            raise RuntimeError(f"{equation!r} has a '.' that is not part of a '...'")
    letters = free[:broadcast]
    filled = []
    for term, x in zip(terms, operands, strict=True):
        count = x.array.ndim - (len(term) - 3)
        if "..." in term and count < 0:
            raise RuntimeError(f"{equation!r} has too many subscripts for {describe(x)}")
        filled.append(term.replace("...", "".join(letters[broadcast - count :])))
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
    """Drop axes of length 1 whose letter has a longer axis in another operand: they broadcast."""
    terms, out = _parse(equation)
    sizes: dict[str, int] = {}
    for term, x in zip(terms, operands, strict=True):
        for c, length in zip(term, x.array.shape, strict=True):
            if x.array.shape[term.index(c)] != length:
                raise RuntimeError(f"{equation!r} repeats the subscript {c!r} over different lengths in {describe(x)}")
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


@lru_cache(maxsize=512)
def _settled(equation: str, shapes: tuple[tuple[int, ...], ...]) -> str | None:
    """Return the explicit equation for operands of these shapes; None if axes must be dropped or shapes do not fit."""
    operands = [new_tensor(np.broadcast_to(0, shape)) for shape in shapes]
    try:
        explicit, changed = _one_length(_explicit(equation, operands), operands)
    except RuntimeError:
        return None  # the general path raises an error that describes the operands
    return explicit if all(map(is_, changed, operands)) else None


def _from_sublists(args: tuple[Any, ...]) -> tuple[str, tuple[Any, ...]]:
    """Convert ``a, [0, 1], b, [1, 2], [0, 2]`` to ``"AB,BC->AC"`` and ``(a, b)``."""
    *operands, output = args[::2] if len(args) % 2 else (*args[::2], None)
    sublists = args[1::2] if output is None else (*args[1::2], output)
    if not operands or not all(isinstance(sublist, (list, tuple)) for sublist in sublists):
        given = ", ".join(type(value).__name__ for value in args)
        raise TypeError(f"expected an equation and operands, or operands each with a list of numbers, got {given}")
    terms = ["".join(_subscript(number) for number in sublist) for sublist in sublists]
    return ",".join(terms[: len(operands)]) + ("" if output is None else "->" + terms[-1]), tuple(operands)


def _subscript(number: Any) -> str:
    if number is Ellipsis:
        return "..."
    number = as_integer(number)
    if not 0 <= number < 52:
        raise InvalidValue(f"subscripts must be from 0 to 51, got {number}")
    return _LETTERS[number]


def _view(equation: str, x: Tensor) -> Tensor:
    """Compute an einsum of one operand: diagonals of repeated letters, sums over letters that the output lacks.

    Without a sum the result is a view, as in PyTorch.
    """
    ((term,), out) = _parse(equation)
    for c in dict.fromkeys(term):
        while term.count(c) > 1:
            first = term.index(c)
            second = term.index(c, first + 1)
            x = diagonal(x, 0, first, second)
            term = [*term[:first], *term[first + 1 : second], *term[second + 1 :], c]
    gone = [axis for axis, c in enumerate(term) if c not in out]
    if gone:
        x = x.sum(gone)
        term = [c for c in term if c in out]
    return permute(x, [term.index(c) for c in out])


def _sums_products(equation: str) -> bool:
    """Return whether a letter of both operands is summed; dtypes are not promoted for such matrix products."""
    (a, b), out = _parse(equation)
    return not set(a) & set(b) <= set(out)


@operator(method=False)
def einsum(equation: str | Operand, *operands: Operand | Sequence[int | EllipsisType] | Sequence[Operand]) -> Tensor:
    """``y_ik = sum_j a_ij b_jk``, written "ij,jk->ik", and similar sums of products: Einstein summation.

    In ``"bij,bjk->bik"`` each operand has a letter per dimension. Operands are multiplied along the letters that they
    share, and summed over letters absent from the output; a letter that occurs twice in one operand selects its
    diagonal; ``...`` stands for dimensions that broadcast. Without ``->`` the output has the broadcast dimensions, then
    the letters that occur once, in alphabetical order.

    Derivative: each operand: the einsum of ``g`` with the other operands, whose output has the letters of the operand.
    Shape: given by the equation; dimensions of length 1 broadcast. For a single operand and no sum the result is a
    view.
    Dtype: any, the same for all operands and the result; two operands of which no shared letter is summed may differ in
    dtype and are promoted.

    Args:
        equation: the letters; or the first operand, if each operand is followed by a list of numbers in place of
            letters and the last list is the output: ``einsum(a, [0, 1], b, [1, 2], [0, 2])``.
        operands: the factors, as separate arguments or as one list.

    Raises:
        RuntimeError: the equation does not fit the operands, or the dtypes differ.
        TypeError: operands and lists of numbers do not alternate.
        ValueError: a number is not in 0 to 51.

    Source: A. Einstein, Die Grundlage der allgemeinen Relativitätstheorie, 1916.

    >>> rg.einsum("ij,j->i", rg.ones(2, 3), rg.tensor([1.0, 2.0, 3.0]))
    tensor([6., 6.])
    """
    if not isinstance(equation, str):
        equation, operands = _from_sublists((equation, *operands))
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    tensors = [operand(x, f"operands[{index}]") for index, x in enumerate(operands)]
    settled = _settled(equation, tuple([x.array.shape for x in tensors]))
    if settled is None:
        equation, tensors = _one_length(_explicit(equation, tensors), tensors)
    else:
        equation = settled
    if len(tensors) == 1:
        return _view(equation, tensors[0])
    if len(tensors) == 2:
        if tensors[0].array.dtype != tensors[1].array.dtype and _sums_products(equation):
            given = ", ".join(map(describe, tensors))
            raise RuntimeError(f"operands must have the same dtype, got {given}{conversion_advice(*tensors)}")
        return apply(EINSUM2, tuple(tensors), {"equation": equation})
    return apply(EINSUM, tuple(tensors), {"equation": equation})
