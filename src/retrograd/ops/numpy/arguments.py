"""Convert arguments of NumPy's functions to Tensors, and array results to Tensors.

Python numbers, and lists of them, are weak: they adopt the dtype of floating Tensors and arrays; with integer
Tensors and arrays they are promoted by NumPy's rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any, TypeAlias, TypeVar

import numpy as np

from ..._generated import toplevel as ops
from ...core.arrays.devices import backend_of, is_array
from ...core.arrays.dtypes import FLOATING, INEXACT, DType, complex_of, is_number_dtype
from ...core.errors import ConversionError, describe
from ...core.graph.modes import modes
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor, new_tensor
from ..table.arguments import dimension
from .promotion import common_dtype

Arrays: TypeAlias = Sequence[Any]
Result = TypeVar("Result")
Rules: TypeAlias = dict[str, Callable[..., Any]]


def tensor(value: object) -> Tensor:
    """Return an array-like argument (a Tensor, an array, a number, a list of them) as a Tensor."""
    return value if isinstance(value, Tensor) else tensors(value)[0]


def tensors(*values: object, beside: Tensor | None = None) -> list[Tensor]:
    """Return array-like arguments of one computation as Tensors, with numbers on the device of the first array.

    If there is no array, the device is that of the Tensor ``beside``.
    """
    kept = list(_leaves(values))
    dtype: DType | None = None
    for leaf in kept:
        if leaf.dtype is not dtype:
            dtype = leaf.dtype if dtype is None else common_dtype((dtype, leaf.dtype))
    if dtype is not None and dtype.kind not in INEXACT:
        dtype = None
    beside = next((leaf for leaf in kept if isinstance(leaf, Tensor)), beside)
    return [_as_tensor(value, dtype, beside) for value in values]


def alike(*values: object, beside: Tensor | None = None) -> tuple[Tensor, ...]:
    """Return the arguments as ``tensors`` does, in NumPy's common dtype."""
    xs = tensors(*values, beside=beside)
    first = xs[0].array.dtype
    for x in xs:
        if x.array.dtype is not first:
            dtype = common_dtype(x.array.dtype for x in xs)
            return tuple([x if x.array.dtype is dtype else x.astype(dtype, copy=False) for x in xs])
    return tuple(xs)


def _leaves(values: Iterable[object]) -> Iterable[Any]:
    """Yield the values that have a dtype, including those in lists."""
    for value in values:
        if isinstance(value, (list, tuple)):
            yield from _leaves(value)
        elif isinstance(value, (Tensor, np.generic)) or is_array(value):
            yield value


def _as_tensor(value: object, dtype: DType | None, beside: Tensor | None) -> Tensor:
    if isinstance(value, (list, tuple)):
        if any(isinstance(leaf, Tensor) for leaf in _leaves(value)):
            return ops.stack([_as_tensor(item, dtype, beside) for item in value])
        weak = not any(True for _ in _leaves(value))
    elif isinstance(value, (bool, int, float, complex)):
        weak = True
    else:
        return operand(value)
    array = np.asarray(value)
    if not is_number_dtype(array.dtype):
        raise TypeError(f"expected numbers, got elements of {array.dtype}")
    if weak and dtype is not None:
        array = array.astype(complex_of(dtype) if array.dtype.kind == "c" and dtype.kind in FLOATING else dtype)
    return new_tensor(array if beside is None else backend_of(beside.array).asarray(array))


def floating(x: Tensor) -> Tensor:
    """Convert integers and bools to float64, as NumPy's statistics and linear algebra do."""
    return x if x.array.dtype.kind in INEXACT else x.astype(np.float64)


def doubles(*values: object) -> list[Tensor]:
    """Return array-like arguments in float64 or complex128."""
    beside = next((leaf for leaf in _leaves(values) if isinstance(leaf, Tensor)), None)
    return [in_double(_as_tensor(value, np.dtype(np.float64), beside)) for value in values]


def in_double(x: Tensor) -> Tensor:
    """Convert to float64 or complex128, for NumPy functions that always compute in double precision."""
    return x.astype(np.complex128 if x.array.dtype.kind == "c" else np.float64, copy=False)


def axes_of(x: Tensor, axis: object) -> tuple[int, ...]:
    """Return one axis, several, or None for all, as nonnegative indices."""
    if axis is None:
        return tuple(range(x.ndim))
    return tuple(dimension(place, x.ndim) for place in (axis if isinstance(axis, (tuple, list)) else (axis,)))


def flat(a: object, axis: int | None) -> tuple[Tensor, int]:
    """Return the operand and axis of a function that flattens for ``axis=None``."""
    x = tensor(a)
    return (ops.reshape(x, (-1,)), 0) if axis is None else (x, axis)


def only(name: str, argument: str, value: object, *accepted: object) -> None:
    """Check an argument for which NumPy accepts more values than these rules."""
    if not any(value is other or value == other for other in accepted):
        raise TypeError(f"np.{name} on Tensors: {argument}={value!r} is not supported")


def unwrapped(value: object) -> Any:
    """Replace Tensors by their arrays, also in lists, tuples and dictionaries."""
    if isinstance(value, Tensor):
        return value.array
    if isinstance(value, (list, tuple)):
        return type(value)(unwrapped(item) for item in value)
    if isinstance(value, dict):
        return {key: unwrapped(item) for key, item in value.items()}
    return value


def wrapped(value: object) -> Any:
    """Replace arrays by Tensors, also in lists and tuples."""
    if is_array(value):
        return new_tensor(value)
    if isinstance(value, (np.generic, int)):  # bools and counts
        return operand(value)
    if isinstance(value, (list, tuple)):
        items = [wrapped(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def without_derivative(function: Callable[..., object]) -> Callable[..., Any]:
    """Wrap a function that returns indices, counts or bools, so that it is computed on the arrays."""

    def rule(*args: object, **kwargs: object) -> Any:
        return wrapped(function(*unwrapped(args), **unwrapped(kwargs)))

    return rule


def about(function: Callable[..., Result]) -> Callable[..., Result]:
    """Wrap a function that returns a property of arrays as Python values."""

    def rule(*args: object, **kwargs: object) -> Result:
        return function(*unwrapped(args), **unwrapped(kwargs))

    return rule


def without_gradient(function: Callable[..., object]) -> Callable[..., object]:
    """Wrap a function that writes arrays to a file; Tensors that require grad raise an error."""
    write = about(function)

    def rule(*args: object, **kwargs: object) -> object:
        if modes.grad_enabled:
            for value in (*args, *kwargs.values()):
                if isinstance(value, Tensor) and value.requires_grad:
                    raise ConversionError(
                        f"np.{function.__name__}: a file cannot store a gradient, and {describe(value)} requires grad; "
                        "use tensor.detach()"
                    )
        return write(*args, **kwargs)

    return rule
