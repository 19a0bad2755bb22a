"""Loops without stacked results: ``fori_loop`` with a known number of steps, and ``while_loop``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor
from ...ops.indexing.selection import where
from ...ops.make.ranges import arange
from .branches import predicate
from .leaves import Carry
from .scan import scan


def fori_loop(
    lower: int | Tensor,
    upper: int | Tensor,
    body_fun: Callable[[Any, Any], object],
    init_val: object,
    *,
    unroll: int | bool | None = None,
    checkpoint: bool | int = False,
) -> Any:
    """Run ``val = body_fun(i, val)`` for ``i`` from ``lower`` to ``upper - 1``; return the last ``val``.

    It is ``scan`` over ``arange(lower, upper)`` without results, so every derivative works, in a compiled function too.

    Args:
        lower, upper: the first index, and the index after the last one.
        body_fun: takes the index, an int64 Tensor without dimensions, and the value; returns the next value, which has
            the same structure, shapes and dtypes.
        init_val: the initial value, a nest of Tensors, arrays and numbers.
        unroll: accepted for compatibility with JAX.
        checkpoint: as for ``scan``.

    Raises:
        TypeError: a bound is not an integer, or the value changes its structure, a shape or a dtype.

    >>> from retrograd.func import fori_loop
    >>> fori_loop(1, 5, lambda i, product: product * i, rg.tensor(1.0))
    tensor(24.)
    """
    start, stop = _bound(lower, "lower"), _bound(upper, "upper")

    def step(value: object, i: Tensor) -> tuple[object, None]:
        return body_fun(i, value), None

    return scan(step, init_val, arange(start, max(start, stop)), checkpoint=checkpoint)[0]


def _bound(value: int | Tensor, name: str) -> int:
    x = operand(value, name)
    if x.shape or x.dtype.kind not in "iu":
        raise TypeError(f"fori_loop: {name} must be an integer, got {describe(value)}")
    return int(x.item())


def while_loop(cond_fun: Callable[[Any], object], body_fun: Callable[[Any], object], init_val: object) -> Any:
    """Run ``val = body_fun(val)`` while ``cond_fun(val)`` is true; return the last ``val``.

    It runs as a Python loop, and the graph has the steps that were run. So reverse mode works as well as forward mode,
    where JAX offers forward mode only. Inside ``vmap`` the loop runs until the condition is false for all examples, and
    an example keeps its value once its condition is false. A compiled function has one program per number of steps;
    ``fori_loop`` with a fixed number of steps and ``where`` has one for all.

    Args:
        cond_fun: takes the value and returns a bool, or a bool Tensor with one element.
        body_fun: takes the value and returns the next one, with the same structure, shapes and dtypes.
        init_val: the value before the first step, a nest of Tensors, arrays and numbers.

    Raises:
        TypeError: the value changes its structure, a shape or a dtype, or the condition is not a single bool.

    >>> from retrograd.func import while_loop
    >>> def halve(x):
    ...     return while_loop(lambda x: x > 1.0, lambda x: x / 2, x)
    >>> rg.func.grad(halve)(rg.tensor(10.0))
    tensor(0.0625)
    """
    carry = Carry("while_loop", init_val, "init_val", "body_fun")
    value, rebuild = carry.value, carry.structure.unflatten
    leaves = carry.leaves
    while True:
        going, mapped = predicate("while_loop", cond_fun(value), "cond_fun(val)")
        if not going:
            return value
        following = body_fun(value)
        carry.adopt(following)
        found = carry.checked(following)
        if mapped is not None:
            found = [where(mapped, new, old) for new, old in zip(found, leaves, strict=True)]
        value, leaves = rebuild(found), found
