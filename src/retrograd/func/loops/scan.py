"""``scan``: a loop with a carried value over slices of arrays, whose results are stacked."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import repeat
from math import isqrt
from typing import Any

from ...autograd import checkpoint as checkpoints
from ...core.errors import describe
from ...core.graph.modes import modes, no_grad
from ...core.tensor.tensor import Tensor
from ...ops.make.filled import zeros
from ...ops.shape.joining import cat, stack, unbind
from ...ops.table.types import Operand
from ..nests import LEAF, Mismatch, Structure, flatten
from .leaves import Carry, tensors_of


def scan(
    f: Callable[[Any, Any], tuple[object, object]],
    init: object,
    xs: object = None,
    length: int | None = None,
    reverse: bool = False,
    unroll: int | bool = 1,
    *,
    checkpoint: bool | int = False,
) -> tuple[Any, Any]:
    """Run ``carry, y = f(carry, x)`` for each slice ``x`` of ``xs``; return the last carry and the stacked ``y``.

    Outside of ``compile`` this is a Python loop, to which all derivatives and ``vmap`` apply as to any other program.
    Inside ``compile`` the body is compiled once, whatever the number of steps, and so is the body of the loop in the
    backward pass.

    Args:
        f: takes the carry and a slice of ``xs``, and returns the next carry and a nest of results, or None. It must
            be a pure function: in a compiled function it is traced once.
        init: the initial carry, a nest of Tensors, arrays and numbers. Every carry has its structure, shapes and
            dtypes. Numbers take the dtype that the first step returns.
        xs: a nest of Tensors with the same first dimension, which is sliced; None with ``length``.
        length: the number of steps; needed if ``xs`` has no leaves, else it must be the length of the leaves.
        reverse: run from the last slice to the first; results are stacked in the order of ``xs``.
        unroll: accepted for compatibility with JAX.
        checkpoint: save only the carries between segments of the loop, and recompute each segment in the backward
            pass. True takes segments of about the square root of the number of steps, so that memory grows with the
            square root; an integer is the number of steps of a segment.

    Returns:
        A pair of the last carry and the results, each stacked along a new first dimension.

    Raises:
        TypeError: ``f`` does not return a pair, or the carry changes its structure, a shape or a dtype.
        ValueError: the leaves of ``xs`` have different lengths, or neither ``xs`` nor ``length`` gives the length.

    >>> from retrograd.func import scan
    >>> def step(total, x):
    ...     total = total + x
    ...     return total, total * total
    >>> scan(step, 0.0, rg.tensor([1.0, 2.0, 3.0]))
    (tensor(6.), tensor([ 1.,  9., 36.]))
    >>> rg.func.grad(lambda a: scan(lambda c, _: (a * c, None), rg.tensor(1.0), length=3)[0])(rg.tensor(2.0))
    tensor(12.)
    """
    if not callable(f):
        raise TypeError(f"scan: f must be a function of (carry, x), got {describe(f)}")
    leaves, structure = tensors_of("scan", xs, "xs")
    steps = _length(leaves, structure, length)
    carry = Carry("scan", init, "init", "f")
    if steps == 0:
        return carry.value, _empty(f, carry, leaves, structure)
    if carry.loose:
        with no_grad():
            first, _ = _pair(f(carry.value, structure.unflatten([x[0] for x in leaves])))
        carry.adopt(first)
    run_segment = None
    if modes.tracer is not None:
        run_segment = modes.tracer.rolled(f, carry, leaves, structure, reverse)
    if run_segment is None:

        def run_segment(value: object, leaves: Sequence[Tensor], count: int) -> tuple[Any, Any]:
            return _segment(f, carry, value, leaves, structure, count, reverse)

    size = segment_length(steps, checkpoint)
    if size >= steps or not modes.grad_enabled:
        return run_segment(carry.value, leaves, steps)
    value, parts = carry.value, []
    for start in range(0, steps, size):
        stop = min(start + size, steps)
        at = slice(steps - stop, steps - start) if reverse else slice(start, stop)
        value, ys = checkpoints.run(run_segment, (value, [x[at] for x in leaves], stop - start), {})
        parts.append(flatten(ys))
    found = [cat(pieces) for pieces in zip(*[part[0] for part in (parts[::-1] if reverse else parts)], strict=True)]
    return value, parts[0][1].unflatten(found)


def segment_length(steps: int, checkpoint: bool | int) -> int:
    """Return the number of steps of a segment.

    Raises:
        ValueError: ``checkpoint`` is neither a bool nor a positive integer.
    """
    if checkpoint is True:
        return max(1, isqrt(steps - 1) + 1)
    if checkpoint is False:
        return steps
    if not isinstance(checkpoint, int) or checkpoint < 1:
        raise ValueError(f"scan: checkpoint must be a bool or a positive number of steps, got {checkpoint!r}")
    return checkpoint


def _length(leaves: Sequence[Tensor], structure: Structure, length: int | None) -> int:
    if length is not None and (isinstance(length, bool) or not hasattr(length, "__index__")):
        raise TypeError(f"scan: length must be an integer, got {describe(length)}")
    paths = structure.paths("xs")
    for x, path in zip(leaves, paths, strict=True):
        if not x.shape:
            raise ValueError(
                f"scan: {path} has no dimension to slice along, got {describe(x)}; pass xs=None with length"
            )
    if not leaves:
        if length is None:
            raise ValueError("scan: xs has no leaves, so the number of steps is unknown; pass length")
        if length < 0:
            raise ValueError(f"scan: length must not be negative, got {length}")
        return int(length)
    for x, path in zip(leaves, paths, strict=True):
        if len(x) != len(leaves[0]):
            raise ValueError(
                f"scan: the leaves of xs must have the same first dimension; {paths[0]} is {describe(leaves[0])}, "
                f"{path} is {describe(x)}"
            )
    if length is not None and length != len(leaves[0]):
        raise ValueError(f"scan: length is {length}, but {paths[0]} is {describe(leaves[0])}")
    return len(leaves[0])


def _pair(result: object) -> tuple[Any, Any]:
    if not isinstance(result, tuple) or len(result) != 2:
        raise TypeError(f"scan: f must return a pair (carry, y), got {describe(result)}")
    return result


def _segment(
    f: Callable[[Any, Any], object],
    carry: Carry,
    value: object,
    leaves: Sequence[Tensor],
    structure: Structure,
    steps: int,
    reverse: bool,
) -> tuple[Any, Any]:
    slices = [unbind(x) for x in leaves]
    items: Any = repeat(structure.unflatten(()), steps) if not slices else zip(*slices, strict=True)
    if slices:
        items = slices[0] if structure is LEAF else [structure.unflatten(item) for item in items]
        items = reversed(items) if reverse else items
    columns: list[list[Operand]] = []
    results: Structure | None = None
    rebuild = carry.structure.unflatten
    for x in items:
        following, y = _pair(f(value, x))
        value = rebuild(carry.checked(following))
        found, form = flatten(y)
        if results is None:
            results = form
            columns = [[] for _ in found]
        elif form is not results and form != results:
            found = _same_results(results, y)
        for column, leaf in zip(columns, found, strict=True):
            column.append(leaf)
    assert results is not None
    return value, results.unflatten([stack(column[::-1] if reverse else column) for column in columns])


def _same_results(structure: Structure, y: object) -> list[Any]:
    try:
        return structure.leaves_of(y, "y")
    except Mismatch as error:
        raise TypeError(f"scan: f must return a y with the same structure in every step; {error}") from None


def _empty(f: Callable[[Any, Any], object], carry: Carry, leaves: Sequence[Tensor], structure: Structure) -> Any:
    """Return the results of no step: ``f`` is called on zeros to find their shapes."""
    with no_grad():
        x = structure.unflatten([zeros(x.shape[1:], dtype=x.dtype, device=x.device) for x in leaves])
        following, y = _pair(f(carry.value, x))
        carry.checked(following)
        found, form = tensors_of("scan", y, "y")
    return form.unflatten([zeros((0, *leaf.shape), dtype=leaf.dtype, device=leaf.device) for leaf in found])


def map(f: Callable[[Any], object], xs: object) -> Any:
    """Apply ``f`` to each slice of ``xs`` along the first dimension, one after another, and stack the results.

    As in JAX this is a ``scan`` without a carry. It needs the memory of one slice at a time; ``vmap`` is faster.

    Args:
        f: takes a slice of ``xs`` and returns a nest of Tensors.
        xs: a nest of Tensors with the same first dimension.

    Returns:
        The results of ``f``, each stacked along a new first dimension.

    Raises:
        ValueError: ``xs`` has no leaves, or leaves with different lengths.

    >>> rg.func.map(lambda x: x * x, rg.tensor([1.0, 2.0, 3.0]))
    tensor([1., 4., 9.])
    """
    return scan(lambda _, x: (None, f(x)), None, xs)[1]
