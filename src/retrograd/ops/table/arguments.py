"""What the arguments of operators have in common: dimensions, shapes given as numbers or tuples, lists of Tensors."""

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


def dimension(dim: Any, ndim: int) -> int:
    """``dim`` counted from the front, for ``ndim`` dimensions (0-d counts as one).

    Raises:
        IndexError: it is out of range.
        TypeError: it is not an integer.
    """
    place = dim if type(dim) is int else integer(dim, "dim")
    count = ndim or 1
    if not -count <= place < count:
        raise IndexError(
            f"dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {place})"
        )
    return place + count if place < 0 else place


def dimensions(dims: Any, ndim: int) -> tuple[int, ...]:
    """One dimension or a sequence of them, counted from the front.

    Raises:
        IndexError: one is out of range.
        RuntimeError: one appears twice.
    """
    if not isinstance(dims, (tuple, list)):
        return (dimension(dims, ndim),)
    places = tuple([dimension(dim, ndim) for dim in dims])
    if len(set(places)) < len(places):
        raise RuntimeError(f"a dimension appears more than once in {tuple(dims)}")
    return places


def integer(value: Any, argument: str) -> int:
    """One integer.

    Raises:
        TypeError: it is none, or a bool.
    """
    if isinstance(value, bool):
        raise TypeError(f"argument {argument!r} must be an integer, not bool")
    try:
        return as_integer(value)
    except TypeError:
        raise TypeError(f"argument {argument!r} must be an integer, not {type(value).__name__}") from None


def number(value: Any, argument: str) -> Any:
    """A number, or a Tensor or array that holds one.

    Raises:
        TypeError: it is none.
    """
    if isinstance(value, (int, float, complex)) or getattr(value, "ndim", None) == 0:
        return value
    raise TypeError(f"argument {argument!r} must be a number, not {type(value).__name__}")


def factor(alpha: Number, dtype: DType, argument: str = "alpha") -> Number:
    """A factor of what is added up in a dtype: no bool, floating or complex number where the sum is not of these.

    Raises:
        RuntimeError: it is of another kind, or beyond the dtype's range.
    """
    if isinstance(alpha, bool) and dtype.kind != "b":
        raise RuntimeError(f"{argument} may be a bool only where the result is of bools, got {alpha} for {dtype}")
    if isinstance(alpha, (float, complex)) and dtype.kind not in INEXACT:
        raise RuntimeError(f"{argument} must not be a floating number where input and other are integers, got {alpha}")
    return converted(alpha, dtype)


def floating_operand(value: Operand, argument: str = "input") -> Tensor:
    """An argument of an operator that is defined on real floating numbers only, as a Tensor.

    Raises:
        NotImplementedError: it holds other numbers.
    """
    x = operand(value, argument)
    if x.array.dtype.kind not in FLOATING:
        raise NotImplementedError(f"wanted a floating {argument}, got {describe(x)}")
    return x


def integers(values: Sequence[Any], argument: str = "size") -> tuple[int, ...]:
    """Integers given one by one, ``f(2, 3)``, or as one sequence, ``f((2, 3))``.

    Raises:
        TypeError: one of them is no integer, or there is none.
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


def only_keyword(keyword: str, positional: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
    """The value of a variable number of arguments that was given by its one name instead."""
    if positional or list(keywords) != [keyword]:
        raise TypeError(f"wanted the argument {keyword!r} once, got {positional} and {', '.join(keywords)}")
    return keywords[keyword]


def tensor_list(tensors: Any, argument: str = "tensors") -> list[Tensor]:
    """A sequence of Tensors, arrays and numbers as a list of Tensors.

    Raises:
        TypeError: it is not a list or tuple, or an element is no Tensor.
        RuntimeError: it is empty.
    """
    if not isinstance(tensors, (list, tuple)):
        raise TypeError(f"argument {argument!r} must be a list or tuple of Tensors, not {type(tensors).__name__}")
    if not tensors:
        raise RuntimeError("expected a non-empty list of Tensors")
    return [value if isinstance(value, Tensor) else operand(value, argument) for value in tensors]
