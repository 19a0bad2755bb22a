"""``cond``: one of two functions, chosen by a value."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

from ...core.arrays.devices import Wrapping
from ...core.errors import describe
from ...core.graph.modes import modes
from ...core.tensor.tensor import Tensor
from ...ops.indexing.selection import where
from .leaves import tensors_of

Result = TypeVar("Result")


def cond(pred: Any, true_fun: Callable[..., Result], false_fun: Callable[..., Result], *operands: object) -> Result:
    """Return ``true_fun(*operands)`` if ``pred`` is true, else ``false_fun(*operands)``.

    Only the chosen function runs. If the value of ``pred`` is not known, because it differs between the examples of a
    ``vmap`` or is computed in a compiled function, both functions run and ``where`` selects the result, as in JAX under
    ``vmap``. Both functions must be defined for all values then: a NaN gradient of either makes the gradient NaN.

    Args:
        pred: a bool or a one-element Tensor.
        true_fun, false_fun: take ``operands`` and return nests with the same structure, shapes and dtypes.
        operands: nests of Tensors.

    Raises:
        TypeError: ``pred`` has more than one element, or the results of both functions differ in their forms.

    >>> from retrograd.func import cond
    >>> x = rg.tensor(3.0)
    >>> cond(x > 0, lambda x: x**2, lambda x: -x, x)
    tensor(9.)
    """
    for name, function in (("true_fun", true_fun), ("false_fun", false_fun)):
        if not callable(function):
            raise TypeError(f"cond: {name} must be a function, got {describe(function)}")
    unknown = modes.tracer is not None and modes.tracer.depends_on_elements(pred)
    chosen, mapped = (None, pred) if unknown else predicate("cond", pred, "pred")
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
