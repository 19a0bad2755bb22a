"""What the functions of this package have in common: when SciPy's own is called, its errors, its other names."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

import numpy as np

from ..core.arrays.devices import Wrapping
from ..core.graph.primitive import Primitive, apply
from ..core.tensor.tensor import Tensor
from ..ops.numpy.arguments import alike, floating, tensor
from ..ops.table.types import Operand

# An argument that SciPy makes an array of, and the functions here a Tensor.
ArrayLike: TypeAlias = Operand | Sequence[Any]

# A function of the user: what it returns becomes a Tensor.
Function: TypeAlias = Callable[..., ArrayLike]

Decorated = TypeVar("Decorated", bound=Callable[..., object])


def scipys(module: str) -> ModuleType:
    """Return a module of SciPy.

    Raises:
        ImportError: SciPy is not installed.
    """
    try:
        return import_module(module)
    except ModuleNotFoundError as error:
        if error.name != "scipy":
            raise
        raise ImportError(f"retrograd.{module} needs SciPy: pip install 'retrograd[special]'") from None


def other_names(module: str, refused: type | tuple[()] = (), advice: str = "") -> Callable[[str], Any]:
    """Return the ``__getattr__`` of ``retrograd.scipy.NAME``, which finds what it does not define in SciPy.

    Args:
        refused: a class whose objects SciPy's functions do not take, and ``advice`` for the error.
    """
    original = module.removeprefix("retrograd.")

    def __getattr__(name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(f"module {module!r} has no attribute {name!r}")
        found = getattr(scipys(original), name)
        if refused == () or not callable(found) or isinstance(found, type):
            return found

        @functools.wraps(found)
        def call(*args: object, **kwargs: object) -> object:
            if any(isinstance(x, refused) for x in (*args, *kwargs.values())):
                raise NotImplementedError(f"{original}.{name}: {advice}")
            return found(*args, **kwargs)

        return call

    return __getattr__


def name_of(function: str, distribution: str = "") -> str:
    """Return the name in this package of a function of SciPy, or of a distribution's method; empty for none."""
    home, _, name = function.rpartition(".")
    try:
        module = import_module(f"retrograd.{home}")
    except ModuleNotFoundError:
        return ""
    if distribution:
        has_method = distribution in module.__all__ and hasattr(type(getattr(module, distribution)), name)
        return f"retrograd.{home}.{distribution}.{name}" if has_method else ""
    return f"retrograd.{function}" if name in module.__all__ else ""


def has_tensor(values: Iterable[object]) -> bool:
    """Return whether a Tensor is among the values, also inside of lists, tuples and dictionaries."""
    for value in values:
        if isinstance(value, Tensor):
            return True
        if isinstance(value, (list, tuple)) and has_tensor(value):
            return True
        if isinstance(value, dict) and has_tensor(value.values()):
            return True
    return False


def detached(value: Any) -> Any:
    """Return an argument with NumPy arrays in place of Tensors."""
    if isinstance(value, Tensor):
        return value.detach().cpu().numpy()
    if type(value) in (list, tuple):
        return type(value)(detached(item) for item in value)
    if type(value) is dict:
        return {key: detached(item) for key, item in value.items()}
    return value


def floating_tensor(value: ArrayLike) -> Tensor:
    """Return an array-like argument as a Tensor, integers and bools in float64."""
    return floating(tensor(value))


def floats(*values: ArrayLike) -> tuple[Tensor, ...]:
    """Return array-like arguments in one floating or complex dtype, in which lists and numbers follow the Tensors."""
    return tuple([floating(x) for x in alike(*values)])


def differentiable(module: str, name: str = "", *, images: bool = False) -> Callable[[Decorated], Decorated]:
    """Decorate a function that has the name and signature of one of SciPy's, and takes Tensors.

    Without a Tensor among its arguments, SciPy's function is called; with Tensors of integers only, which have no
    derivative, it gives the Tensors of the result, in SciPy's dtypes. If the function fails and SciPy's fails for the
    same numbers, SciPy's error is raised.

    Args:
        module: the module of SciPy's function, ``"scipy.linalg"``.
        name: the name of SciPy's function, by default the decorated function's.
        images: the result has the dtype of the first argument, so that SciPy's function is called with an image of
            integers unless another Tensor requires a gradient.
    """

    def decorate(function: Decorated) -> Decorated:
        public = name or function.__name__.rstrip("_")

        @functools.wraps(function)
        def call(*args: object, **kwargs: object) -> object:
            if not has_tensor(args) and not has_tensor(kwargs.values()):
                return getattr(scipys(module), public)(*args, **kwargs)
            given = [*args, *kwargs.values()]
            if is_constant(given[:1] if images else given) and (not images or is_constant(given[1:], floats=True)):
                result = _tensors(getattr(scipys(module), public)(*detached(args), **detached(kwargs)))
                if result is not None:
                    return result
            try:
                return function(*args, **kwargs)
            except Exception as error:
                original = getattr(scipys(module), public, None)
                if original is None:
                    raise NotImplementedError(f"{module}.{public} is not in this version of SciPy") from error
                theirs = _scipys_error(original, args, kwargs)
                if theirs is None:
                    raise
                raise type(theirs)(f"{module}.{public}: {theirs}") from error

        return cast(Decorated, call)

    return decorate


def _scipys_error(
    function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]
) -> Exception | None:
    """Return the error that SciPy's function raises for the same numbers, if it is of a plain type."""
    if is_mapped(args) or is_mapped(kwargs.values()):
        return None
    try:
        function(*detached(args), **detached(kwargs))
    except _PLAIN as error:
        return error if type(error) in _PLAIN else None
    except Exception:
        return None
    return None


def is_constant(values: Iterable[object], floats: bool = False) -> bool:
    """Return whether all Tensors have integers or bools, and no value is a function, which may read other Tensors.

    Args:
        values: the arguments of a call.
        floats: Tensors that do not require a gradient are constant, too.
    """
    for value in values:
        if isinstance(value, Tensor):
            if type(value.array) is not np.ndarray or value.requires_grad:
                return False
            if value.array.dtype.kind in "fc" and not floats:
                return False
        elif isinstance(value, (list, tuple)):
            if not is_constant(value, floats):
                return False
        elif callable(value) and not isinstance(value, type):
            return False
    return True


def _tensors(value: object) -> object:
    """Return a result of SciPy with Tensors in place of arrays; None if other objects are in it."""
    if isinstance(value, (np.ndarray, np.generic)):
        return tensor(value) if value.dtype.kind in "biufc" else None
    if isinstance(value, (bool, int, float, complex)):
        return value
    if type(value) not in (tuple, list):
        return None
    found = [_tensors(item) for item in cast("Sequence[object]", value)]
    if any(item is None for item in found):
        return None
    return tuple(found) if isinstance(value, tuple) else found


_PLAIN = (ValueError, TypeError, IndexError, np.linalg.LinAlgError, NotImplementedError, np.exceptions.AxisError)


def is_mapped(values: Iterable[object]) -> bool:
    """Return whether the numbers of some Tensor cannot be read: inside ``vmap``, for example."""
    for value in values:
        if isinstance(value, Tensor):
            if isinstance(value.array, Wrapping):
                return True
        elif isinstance(value, (list, tuple)) and is_mapped(value):
            return True
    return False


def _refuse(g: object, message: str) -> NoReturn:
    raise RuntimeError(message)


_UNSOLVED = Primitive("unsolved", lambda x, value, message: x, "x value", [None, _refuse])


def unsolved(x: Tensor, value: Tensor, message: str) -> Tensor:
    """Return a point that is not a solution; a derivative of it by what ``value`` depends on raises a RuntimeError."""
    return apply(_UNSOLVED, (x, value), {"message": message})
