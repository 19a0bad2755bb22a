"""Python's binary operators on Tensors, which return NotImplemented for operands of other libraries.

For ``tensor + dataarray``, Python then calls the other operand's ``__radd__``, or raises TypeError if it has none.
SciPy's sparse matrices do not accept Tensors; ``retrograd.scipy.sparse`` has sparse matrices that do.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar

from ...core.errors import answers, describe
from ...core.graph.primitive import Primitive, apply2, is_operand
from ...core.missing_names import provided
from ...core.tensor.mutation import apply_inplace
from ...core.tensor.tensor import Tensor, tensor_method
from .types import Operand

Method = TypeVar("Method", bound=Callable[..., Tensor])


_MIRRORED = {"lt": "__gt__", "le": "__ge__", "gt": "__lt__", "ge": "__le__", "eq": "__eq__", "ne": "__ne__"}


def left_to(other: object, name: str, x: Tensor, form: str = "") -> Any:
    """Return ``NotImplemented``, so that Python tries the other operand; raise an error for a list or a tuple.

    ``form`` is ``r`` for a reflected operator and ``i`` for an in-place one.
    """
    repeats = "mul" in name and x.array.size == 1 and x.array.dtype.kind in "biu"
    if type(other) not in (list, tuple) or repeats:
        return ask(other, name, x, form)
    kind = type(other).__name__
    raise TypeError(
        f"{name} of {describe(x)} and a {kind}: a {kind} cannot be an operand of a Tensor; convert it by "
        f"retrograd.tensor({describe(other)}), or call NumPy's function, which accepts lists"
    )


def ask(other: object, name: str, x: Tensor, form: str = "") -> Any:
    """Return the result of the other operand's ``__torch_function__``, if it has one but lacks the operator."""
    own = f"__{name}__" if form == "r" else _MIRRORED.get(name, f"__r{name}__")
    kind = type(other)
    if kind.__module__.startswith("scipy.sparse."):
        return provided["scipy_operator"](f"{form}{name}", x, other)
    if not hasattr(kind, "__torch_function__") or getattr(kind, own, None) is not getattr(object, own, None):
        return NotImplemented
    method = getattr(Tensor, f"__{form}{name}__")
    if not form:  # like PyTorch, pass ``Tensor.add``, if it exists, not ``__add__``
        method = getattr(Tensor, {"truediv": "div", "mod": "remainder"}.get(name, name), method)
    for answer in answers:
        result = answer(name, method, (x, other), {})
        if result is not NotImplemented:
            return result
    return NotImplemented


def python_operator(name: str, primitive: Primitive, module: str) -> None:
    """Give Tensor a binary operator with its reflected and in-place forms, as methods with this ``__module__``."""

    # Small operators are called through these methods; a try block costs nothing unless an error is raised.
    def method(self: Tensor, other: Operand) -> Tensor:
        try:
            return apply2(primitive, self, other)
        except TypeError:
            if is_operand(other):
                raise
            return left_to(other, name, self)

    def reflected(self: Tensor, other: Operand) -> Tensor:
        try:
            return apply2(primitive, other, self)
        except TypeError:
            if is_operand(other):
                raise
            return left_to(other, name, self, "r")

    def in_place(self: Tensor, other: Operand) -> Tensor:
        try:
            return apply_inplace(primitive, self, other)
        except TypeError:
            if is_operand(other):
                raise
            return left_to(other, name, self, "i")

    for form, function in (("", method), ("r", reflected), ("i", in_place)):
        function.__name__, function.__module__ = f"__{form}{name}__", module
        tensor_method(function)


def deferring(method: Method, name: str, form: str = "") -> Method:
    """Wrap the method of a binary operator so that it returns NotImplemented for an operand of another library."""

    @wraps(method)
    def deferred(self: Tensor, other: Operand) -> Tensor:
        try:
            return method(self, other)
        except TypeError:
            if is_operand(other):
                raise
            return left_to(other, name, self, form)

    return deferred  # type: ignore[return-value]
