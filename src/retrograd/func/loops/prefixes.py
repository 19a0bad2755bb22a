"""``associative_scan``: all prefix results of an associative function, in logarithmically many steps."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...core.errors import describe
from ...core.tensor.tensor import Tensor
from ...ops.shape.arrangement import flip
from ...ops.shape.joining import cat, stack
from ..nests import Mismatch
from .leaves import tensors_of


def associative_scan(fn: Callable[[Any, Any], object], elems: object, reverse: bool = False, axis: int = 0) -> Any:
    """Return the results of combining the first ``1, 2, ..., n`` elements with an associative function.

    For addition this is ``cumsum``. It takes about ``2 log2(n)`` calls of ``fn`` on whole arrays, ``2 n`` combinations
    in all, instead of ``n`` steps one after another (Blelloch 1990).

    Args:
        fn: ``fn(a, b)`` takes two nests like ``elems`` with any length along ``axis``, and combines them elementwise
            along ``axis``. It must be associative.
        elems: a nest of Tensors with the same length along ``axis``.
        reverse: combine from the last element to the first.
        axis: the dimension along which the elements are combined.

    Returns:
        A nest like ``elems``.

    Raises:
        TypeError: ``fn`` returns another structure, shape or dtype.
        ValueError: ``elems`` has no leaves, or leaves with different lengths along ``axis``.

    >>> from retrograd.func import associative_scan
    >>> associative_scan(rg.mul, rg.tensor([1.0, 2.0, 3.0, 4.0]))
    tensor([ 1.,  2.,  6., 24.])
    """
    if not callable(fn):
        raise TypeError(f"associative_scan: fn must be a function of two arguments, got {describe(fn)}")
    leaves, structure = tensors_of("associative_scan", elems, "elems")
    if not leaves:
        raise ValueError("associative_scan: elems has no leaves; pass at least one Tensor")
    paths = structure.paths("elems")
    for x, path in zip(leaves, paths, strict=True):
        if not -x.ndim <= axis < x.ndim:
            raise ValueError(f"associative_scan: axis {axis} is out of range for {path}, {describe(x)}")
        if x.shape[axis] != leaves[0].shape[axis]:
            raise ValueError(
                f"associative_scan: the leaves of elems must have the same length along axis {axis}; {paths[0]} is "
                f"{describe(leaves[0])}, {path} is {describe(x)}"
            )
    leaves = [x.movedim(axis, 0) for x in leaves]
    if reverse:
        leaves = [flip(x, 0) for x in leaves]

    def combine(a: Sequence[Tensor], b: Sequence[Tensor]) -> list[Tensor]:
        if reverse:
            a, b = [flip(x, 0) for x in a], [flip(x, 0) for x in b]
        rebuilt = [structure.unflatten([x.movedim(0, axis) for x in side]) for side in (a, b)]
        try:
            found = structure.leaves_of(fn(*rebuilt), "fn(a, b)")
        except Mismatch as error:
            raise TypeError(f"associative_scan: fn must return a nest like elems; {error}") from None
        results = []
        for y, x, path in zip(found, a, structure.paths("fn(a, b)"), strict=True):
            if not isinstance(y, Tensor) or y.ndim != x.ndim or y.dtype != x.dtype:
                raise TypeError(
                    f"associative_scan: fn must keep shapes and dtypes; {path} is {describe(y)}, its arguments are "
                    f"{describe(x.movedim(0, axis))}"
                )
            y = y.movedim(axis, 0)
            if y.shape != x.shape:
                raise TypeError(f"associative_scan: fn must keep shapes; {path} is {describe(y)}, not {describe(x)}")
            results.append(flip(y, 0) if reverse else y)
        return results

    found = _prefixes(combine, leaves)
    if reverse:
        found = [flip(x, 0) for x in found]
    return structure.unflatten([x.movedim(0, axis) for x in found])


def _prefixes(combine: Callable[[list[Tensor], list[Tensor]], list[Tensor]], xs: list[Tensor]) -> list[Tensor]:
    """Combine pairs of neighbors, compute the prefixes of the pairs by recursion, and insert those of odd length."""
    length = len(xs[0])
    if length < 2:
        return xs
    pairs = combine([x[: length - 1 : 2] for x in xs], [x[1::2] for x in xs])
    odd = _prefixes(combine, pairs)  # at positions 1, 3, ...
    later = [x[2::2] for x in xs]
    if len(later[0]):
        even = combine([x[: len(later[0])] for x in odd], later)
        even = [cat([x[:1], y]) for x, y in zip(xs, even, strict=True)]
    else:
        even = [x[:1] for x in xs]
    return [_interleaved(a, b) for a, b in zip(even, odd, strict=True)]


def _interleaved(even: Tensor, odd: Tensor) -> Tensor:
    count = len(odd)
    both = stack([even[:count], odd], 1).reshape(2 * count, *odd.shape[1:])
    return both if len(even) == count else cat([both, even[count:]])
