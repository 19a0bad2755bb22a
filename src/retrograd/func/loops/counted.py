"""``cond``, and loops without stacked results: ``fori_loop`` with a known number of steps, and ``while_loop``."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar, cast

from ...core.arrays.devices import Wrapping
from ...core.errors import describe
from ...core.graph.modes import modes
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor
from ...ops.indexing.selection import where
from ...ops.make.ranges import arange
from ...ops.table.types import Number
from .leaves import Carry, tensors_of
from .scan import scan

Result = TypeVar("Result")


def cond(
    pred: Tensor | Number, true_fun: Callable[..., Result], false_fun: Callable[..., Result], *operands: object
) -> Result:
    """Return ``true_fun(*operands)`` if ``pred`` is true, else ``false_fun(*operands)``.

    Only the chosen function runs. If the value of ``pred`` is not known, because it differs between the examples of a
    ``vmap`` or is computed in a compiled function, both functions run and ``where`` selects the result, as in JAX under
    ``vmap``. Both functions must be defined for all values then: a NaN gradient of either makes the gradient NaN.

    Args:
        pred: a bool or a one-element Tensor.
        true_fun, false_fun: take ``operands`` and return nests with the same structure, shapes and dtypes.
        operands: nests of Tensors.

    Raises:
        TypeError: ``pred`` has more than one element, or the results of both functions differ in structure, shapes or
            dtypes.

    >>> from retrograd.func import cond
    >>> x = rg.tensor(3.0)
    >>> cond(x > 0, lambda x: x**2, lambda x: -x, x)
    tensor(9.)
    """
    for name, function in (("true_fun", true_fun), ("false_fun", false_fun)):
        if not callable(function):
            raise TypeError(f"cond: {name} must be a function, got {describe(function)}")
    unknown = modes.tracer is not None and modes.tracer.depends_on_elements(pred)
    chosen, mapped = (None, cast(Tensor, pred)) if unknown else predicate("cond", pred, "pred")
    if mapped is None:
        return (true_fun if chosen else false_fun)(*operands)
    found, structure = tensors_of("cond", true_fun(*operands), "true_fun(...)")
    other = false_fun(*operands)
    others, form = tensors_of("cond", other, "false_fun(...)")
    if form != structure:
        raise TypeError(
            f"cond: true_fun and false_fun must return nests of the same structure, got {structure!r} and {form!r}"
        )
    for a, b, path in zip(found, others, structure.paths(), strict=True):
        if (a.shape, a.dtype) != (b.shape, b.dtype):
            raise TypeError(
                "cond: true_fun and false_fun must return the same shapes and dtypes; "
                f"true_fun(...){path} is {describe(a)}, false_fun(...){path} is {describe(b)}"
            )
    test = mapped.reshape(()).to(dtype=bool)
    return structure.unflatten([where(test, a, b) for a, b in zip(found, others, strict=True)])


def predicate(caller: str, value: object, name: str) -> tuple[bool, Tensor | None]:
    """Return whether a condition is true for any example of ``vmap``; and the condition, if examples can differ.

    Raises:
        TypeError: the condition is not a single bool or number.
    """
    if isinstance(value, Tensor):
        if value.array.size != 1:
            raise TypeError(f"{caller}: {name} must have one element, got {describe(value)}")
        array = value.array
        if isinstance(array, Wrapping):
            return bool((array.examples != 0).any()), value.reshape(()).to(dtype=bool)
        return bool(value), None
    if getattr(value, "size", 1) != 1 or not hasattr(value, "__bool__") and not hasattr(value, "__len__"):
        raise TypeError(f"{caller}: {name} must be a bool or a Tensor with one element, got {describe(value)}")
    return bool(value), None


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

    It is ``scan`` over ``arange(lower, upper)`` without results: every mode differentiates it, and it can be compiled.

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

    It runs as a Python loop, and the graph contains the steps that were run. Forward and reverse mode both work; JAX
    supports only forward mode here. Inside ``vmap`` the loop runs until the condition is false for all examples, and
    an example keeps its value once its condition is false. In a compiled function, each number of steps is compiled
    separately; ``fori_loop`` with a fixed number of steps and ``where`` is compiled once.

    Args:
        cond_fun: takes the value and returns a bool, or a bool Tensor with one element.
        body_fun: takes the value and returns the next value, with the same structure, shapes and dtypes.
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
