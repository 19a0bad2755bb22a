"""Check common arguments of operators: dimensions, shapes given as numbers or tuples, lists of Tensors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from operator import index as as_integer
from typing import Any

from ...core.arrays.dtypes import FLOATING, INEXACT, DType
from ...core.arrays.python_numbers import converted
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor
from .types import Number, Operand


def dimension(dim: object, ndim: int) -> int:
    """Return ``dim`` as a nonnegative index for ``ndim`` dimensions (0-d counts as one).

    Raises:
        IndexError: ``dim`` is out of range.
        TypeError: ``dim`` is not an integer.
    """
    place = dim if type(dim) is int else integer(dim, "dim")
    count = ndim or 1
    if not -count <= place < count:
        raise IndexError(
            f"dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {place})"
        )
    return place + count if place < 0 else place


def dimensions(dims: object, ndim: int) -> tuple[int, ...]:
    """Return one dimension or a sequence of dimensions as nonnegative indices.

    Raises:
        IndexError: a dimension is out of range.
        RuntimeError: a dimension appears twice.
    """
    if not isinstance(dims, (tuple, list)):
        return (dimension(dims, ndim),)
    places = tuple([dimension(dim, ndim) for dim in dims])
    if len(set(places)) < len(places):
        raise RuntimeError(f"a dimension appears more than once in {tuple(dims)}")
    return places


def integer(value: Any, argument: str) -> int:
    """Return an integer argument as a Python int."""
    if isinstance(value, bool):
        raise TypeError(f"argument {argument!r} must be an integer, not bool")
    try:
        return as_integer(value)
    except TypeError:
        raise TypeError(f"argument {argument!r} must be an integer, not {type(value).__name__}") from None


def number(value: object, argument: str) -> Any:
    """Return a number, or the number in a Tensor or array with one element."""
    if isinstance(value, (int, float, complex)) or getattr(value, "ndim", None) == 0:
        return value
    raise TypeError(f"argument {argument!r} must be a number, not {type(value).__name__}")


def factor(alpha: Number, dtype: DType, argument: str = "alpha") -> Number:
    """Check that the factor ``alpha`` of a sum is not of a higher category than the dtype of the sum."""
    if isinstance(alpha, bool) and dtype.kind != "b":
        raise RuntimeError(f"{argument} may be a bool only if the result has dtype bool, got {alpha} for {dtype}")
    if isinstance(alpha, (float, complex)) and dtype.kind not in INEXACT:
        raise RuntimeError(f"{argument} must not be a floating number if input and other are integers, got {alpha}")
    return converted(alpha, dtype)


def floating_operand(value: Operand) -> Tensor:
    """Return an argument as a Tensor, for operators that are defined only for real floating numbers."""
    x = value if isinstance(value, Tensor) else operand(value, "input")
    if x.array.dtype.kind not in FLOATING:
        raise NotImplementedError(f"expected a floating input, got {describe(x)}")
    return x


def integers(values: Sequence[Any], argument: str = "size") -> tuple[int, ...]:
    """Return integers given as separate arguments, ``f(2, 3)``, or as a sequence, ``f((2, 3))``.

    Raises:
        TypeError: an element is not an integer, or there is none.
    """
    if not values:
        raise TypeError(f"missing argument {argument!r}")
    if len(values) == 1:
        first = values[0]
        kind = type(first)
        if (
            kind is tuple
            or kind is list
            or kind is not int
            and isinstance(first, Iterable)
            and getattr(first, "ndim", 1) != 0
        ):
            values = tuple(first)
    try:
        return tuple(map(as_integer, values))
    except TypeError:
        kinds = ", ".join(type(value).__name__ for value in values)
        raise TypeError(f"argument {argument!r} must be integers, not ({kinds})") from None


def only_keyword(keyword: str, positional: tuple[object, ...], keywords: dict[str, Any]) -> Any:
    """Return variable positional arguments that were given by the keyword instead."""
    if positional or list(keywords) != [keyword]:
        raise TypeError(f"pass the argument {keyword!r} once, got {positional} and {', '.join(keywords)}")
    return keywords[keyword]


def tensor_list(tensors: object, argument: str = "tensors") -> list[Tensor]:
    """Return a sequence of Tensors, arrays and numbers as a list of Tensors."""
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"argument {argument!r} must be a list or tuple of Tensors, not {type(tensors).__name__}")
    if not tensors:
        raise RuntimeError("expected a non-empty list of Tensors")
    return [value if isinstance(value, Tensor) else operand(value, argument) for value in tensors]
