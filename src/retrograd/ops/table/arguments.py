"""Check common arguments: dimensions, shapes given as numbers or tuples, lists of Tensors, options.

Options are the arguments that a signature declares as ``bool``. In Python every object has a truth value: unchecked,
``keepdim="no"`` would mean True, and so would the second dimension of ``x.sum(0, 1)``. PyTorch's operators accept only
bools, NumPy's functions also NumPy's bools and ``keepdims=1``: an option given by name may be any of these.
Constructors also accept what has a numeric truth value, as PyTorch's do.

>>> def total(x, keepdim: bool = False): ...
>>> check_options(bool_options(total), (1.0,), {"keepdim": "no"})
Traceback (most recent call last):
TypeError: argument 'keepdim' must be bool, not str
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import wraps
from operator import index as as_integer
from types import NoneType
from typing import Any

import numpy as np

from ...core.arrays.dtypes import FLOATING, INEXACT, DType
from ...core.arrays.python_numbers import converted
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor
from .types import Number, Operand

_BOOLS: dict[str, tuple[type, ...]] = {"bool": (bool, np.bool_), "bool | None": (bool, np.bool_, NoneType)}
_BY_NAME = (int, np.integer)
_IN_CONSTRUCTORS = (int, float, np.generic, NoneType)
_KEYWORD_ONLY = 1 << 30
_CONSTRUCTOR = "__init__"

# By name: the position of the argument, and the types that it may have.
Options = dict[str, tuple[int, tuple[type, ...]]]


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


def bool_options(function: Callable[..., object], also: tuple[type, ...] = ()) -> Options:
    """Return the options of ``function``, which may also have the types ``also``."""
    kinds = {name: kind for name, kind in function.__annotations__.items() if kind in _BOOLS and name != "return"}
    if not kinds:
        return {}
    code = getattr(function, "__wrapped__", function).__code__
    places = {name: place for place, name in enumerate(code.co_varnames[: code.co_argcount])}
    return {name: (places.get(name, _KEYWORD_ONLY), _BOOLS[kind] + also) for name, kind in kinds.items()}


def first_option(options: Options) -> int:
    """Return the number of positional arguments that include no option."""
    return min((place for place, _ in options.values()), default=_KEYWORD_ONLY)


def check_options(options: Options, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Check the arguments of a call.

    Raises:
        TypeError: an option is not a bool.
    """
    for name, (place, types) in options.items():
        by_name = place >= len(args)
        value = kwargs.get(name, False) if by_name else args[place]
        if not isinstance(value, types) and not (by_name and isinstance(value, _BY_NAME)):
            raise TypeError(f"argument {name!r} must be bool, not {type(value).__name__}")


def with_checked_options(init: Callable[..., None]) -> Callable[..., None]:
    """Return a constructor that checks its options."""
    options = bool_options(init, _IN_CONSTRUCTORS)
    if not options:
        return init

    @wraps(init)
    def __init__(self: Any, *args: object, **kwargs: object) -> None:
        try:
            check_options(options, (self, *args), kwargs)
        except TypeError as error:
            raise TypeError(f"{type(self).__name__}: {error}") from None
        init(self, *args, **kwargs)

    return __init__


class ChecksOptions:
    """Base of classes of this package whose constructors check their options; a user's subclass is not changed."""

    def __init_subclass__(cls, **keywords: object) -> None:
        super().__init_subclass__(**keywords)
        if cls.__module__.partition(".")[0] == __name__.partition(".")[0] and _CONSTRUCTOR in cls.__dict__:
            setattr(cls, _CONSTRUCTOR, with_checked_options(cls.__dict__[_CONSTRUCTOR]))
