"""NumPy's protocols, by which ``np.exp(t)``, ``np.sum(t, axis=0)`` and ``array + t`` call operators on Tensors.

``ufuncs`` handles ufuncs; other functions are looked up in the table of ``function_table``. A function without a rule
raises TypeError: a Tensor is never silently converted to a bare array.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from ...core.arrays.devices import is_array_type
from ...core.graph.primitive import is_operand
from ...core.tensor.tensor import Tensor
from ..table.errors import failure
from .arguments import unwrapped, wrapped
from .function_table import COMPUTED, name_of, place_of_out, rule_of
from .promotion import without_gradient
from .rules import creation
from .ufunc_calls import write_out


def with_arrays(value: Any) -> Any:
    """Replace pandas columns, and other objects that NumPy would convert, by arrays, also in lists and tuples."""
    if isinstance(value, (list, tuple)):
        items = [with_arrays(item) for item in value]
        if all(item is before for item, before in zip(items, value, strict=True)):
            return value
        return items if isinstance(value, list) else tuple(items)
    if isinstance(value, type) or is_operand(value) or hasattr(value, "__array_function__"):
        return value
    return np.asarray(value) if hasattr(value, "__array__") else value


def array_function(
    self: Tensor, function: Callable[..., object], types: Any, args: tuple[object, ...], kwargs: dict[str, Any]
) -> Any:
    """Call the rule of a NumPy function with Tensors among its arguments."""
    for kind in types:
        if not issubclass(kind, Tensor) and not is_array_type(kind):
            return NotImplemented
    rule = rule_of(function)
    name = f"{function.__module__}.{function.__name__}".replace("numpy", "np", 1)
    if rule is None and function in creation.RULES:
        rule = functools.partial(creation.RULES[function], self)
    if rule is None:
        raise TypeError(
            f"{name} has no rule for Tensors; use a function of retrograd, or tensor.detach().numpy() where no "
            "gradient is needed"
        )
    out = kwargs.pop("out", None)
    place = place_of_out(function)
    if place is not None and len(args) > place:
        out, args = args[place], (*args[:place], *args[place + 1 :])
    given = {key: value for key, value in kwargs.items() if value is not np._NoValue}
    try:
        if name_of(function) in COMPUTED and without_gradient(args) and without_gradient(given.values()):
            result = wrapped(function(*unwrapped(args), **unwrapped(given)))
        else:
            result = rule(*args, **given)
    except Exception as error:
        plain, options = with_arrays(args), {key: with_arrays(value) for key, value in given.items()}
        if plain is args and all(options[key] is given[key] for key in given):
            raise failure(name, rule, args, given, error)  # noqa: B904  its cause is set
        return array_function(self, function, types, plain, options if out is None else {**options, "out": out})
    return result if out is None else write_out(name, out, result)
