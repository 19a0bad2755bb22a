"""The mathematics of a derivative rule: the formula from the operator's documentation, and one element worked out."""

from __future__ import annotations

import re
from functools import cache
from typing import Protocol

import numpy as np

from ...core.arrays.devices import is_array
from ...core.tensor.tensor import Tensor
from ...ops.table.registry import OPERATORS, Operator
from ..drawing.figures import number, numbers_of


class Step(Protocol):
    """What is known of one operator of a backward pass: see ``Event``."""

    operator: str
    inputs: tuple[str, ...]
    incoming: Tensor | tuple[Tensor | None, ...]
    outgoing: list[Tensor | None]
    summed_over: list[tuple[int, ...]]

    @property
    def read(self) -> dict[str, object]:
        """The values that the rule read, by name."""

    def read_for(self, place: int) -> list[str]:
        """Return the names of those that the rule of one input read."""


_DERIVATIVE = re.compile(r"^Derivatives?: (.*?)(?=^\s*$|^[A-Z][a-z]+:|\Z)", re.MULTILINE | re.DOTALL)
_TERMS = 3  # of a sum


def formula(operator: str, call: str) -> str:
    """Return the derivative that the operator's documentation states; "" if there is none.

    >>> formula("mm", "matmul")
    'input: g @ mat2^T; mat2: input^T @ g.'
    """
    for name in (operator, call):
        found = _by_name().get(name)
        stated = None if found is None else _DERIVATIVE.search(found.function.__doc__ or "")
        if stated is not None:
            return " ".join(stated[1].replace("``", "").split())
    return ""


@cache
def _by_name() -> dict[str, Operator]:
    """Return the operators by name and by alias, without namespace."""
    usual = ("nn.functional", "")  # of two operators with one name, that of the last of these namespaces
    ranked = sorted(OPERATORS.values(), key=lambda one: usual.index(one.namespace) if one.namespace in usual else -1)
    found = {alias: one for one in ranked for alias in one.aliases}
    return found | {one.name: one for one in ranked}


def worked_element(event: Step) -> str:
    """Return how the largest element of the gradient of an input follows from what the rule read; "" if none does."""
    for place, g in enumerate(event.outgoing):
        if g is None or not g.array.size:
            continue
        values = numbers_of(g)
        at = np.unravel_index(int(np.argmax(np.where(np.isnan(values), np.inf, np.abs(values)))), values.shape)
        index = tuple([int(i) for i in at])
        name = event.inputs[place]
        result = f"gradient of {_at(name, index)} = {_number(values[index])}"
        came = event.incoming if isinstance(event.incoming, Tensor) else None
        upstream = None if came is None else numbers_of(came)
        read = event.read
        arrays = {key: numbers_of(read[key]) for key in event.read_for(place) if is_array(read[key])}
        product = None if upstream is None else _product(event.operator, place, index, upstream, arrays)
        if product is not None:
            return f"{result} = {product}"
        shape = values.shape
        parts = [] if upstream is None else _element("g", upstream, index, shape, event.summed_over[place])
        for key, array in arrays.items():
            parts += _element(key, array, index, shape, event.summed_over[place])
        return f"{result}, from {', '.join(parts)}" if parts else result
    return ""


def _product(
    operator: str, place: int, index: tuple[int, ...], g: np.ndarray, arrays: dict[str, np.ndarray]
) -> str | None:
    """Return the sum of products that gives an element of the gradient of a matrix product."""
    if operator == "linear" and place < 2:
        if place == 0 and "w" in arrays:
            return _dot(("g", g[index[:-1]]), ("w", arrays["w"][:, index[-1]]))
        if place == 1 and "x" in arrays and g.ndim:
            rows = arrays["x"].reshape(-1, arrays["x"].shape[-1])
            return _dot(("g", g.reshape(-1, g.shape[-1])[:, index[0]]), ("x", rows[:, index[1]]))
    if operator == "mm" and g.ndim == 2:
        if place == 0 and "y" in arrays:
            return _dot(("g", g[index[0]]), ("y", arrays["y"][index[1]]))
        if place == 1 and "x" in arrays:
            return _dot(("x", arrays["x"][:, index[0]]), ("g", g[:, index[1]]))
    return None


def _dot(a: tuple[str, np.ndarray], b: tuple[str, np.ndarray]) -> str:
    """Return the inner product of two vectors, with its largest terms."""
    (_, x), (_, y) = a, b
    order = np.argsort(-np.abs(x * y), kind="stable")[:_TERMS]
    terms = " + ".join(f"{_number(x[k])} * {_number(y[k])}" for k in order)
    rest = f" + {len(x) - len(order)} smaller terms" if len(x) > len(order) else ""
    return f"sum of {a[0]} * {b[0]} over {len(x)}: {terms}{rest}"


def _element(
    name: str, array: np.ndarray, index: tuple[int, ...], shape: tuple[int, ...], summed: tuple[int, ...]
) -> list[str]:
    """Return the element of an array that belongs to an element of the gradient, if shapes say which."""
    if array.shape == () and array.dtype.kind in "fiuc":
        return [f"{name} = {_number(array[()])}"]
    if summed:
        count = int(np.prod([array.shape[axis] for axis in summed if axis < array.ndim]))
        return [f"the sum of {count:,} elements of {name}"] if name == "g" and array.ndim > max(summed) else []
    if array.shape == shape and array.dtype.kind in "fiucb":
        return [f"{_at(name, index)} = {_number(array[index])}"]
    return []


def _at(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def _number(value: object) -> str:
    return number(float(value)) if isinstance(value, (int, float, np.integer, np.floating)) else str(value)
