"""Decorate the functions of this package, so that they fall back to SciPy's functions and raise SciPy's errors."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from types import ModuleType
from typing import Any, NoReturn, TypeAlias, TypeVar, cast

import numpy as np

from .._generated import toplevel as ops
from ..core.arrays import Array
from ..core.arrays.devices import Wrapping
from ..core.errors import describe
from ..core.graph.modes import modes
from ..core.graph.primitive import Primitive, apply
from ..core.tensor.tensor import Tensor
from ..ops.numpy.arguments import alike, floating, tensor
from ..ops.table.types import Operand

# An argument that SciPy converts to an array, and this package to a Tensor.
ArrayLike: TypeAlias = Operand | Sequence[Any]

# A function of the user, whose result is converted to a Tensor.
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
    """Return the ``__getattr__`` of ``retrograd.scipy.NAME``, which looks undefined names up in SciPy.

    Args:
        refused: a class that SciPy's functions do not accept.
        advice: the error's text for arguments of this class.
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
    """Return this package's name for a function of SciPy, or a distribution's method; empty if there is none."""
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
    """Return array-like arguments in one floating or complex dtype: the dtype of the Tensors if there are any."""
    return tuple([floating(x) for x in alike(*values)])


def located(module: str, places: Sequence[ArrayLike], *values: ArrayLike) -> tuple[Tensor, ...]:
    """Return points (or knots, coordinates) and values in one precision; only the values may be complex.

    Raises:
        ValueError: a point is complex. Some functions of SciPy drop the imaginary part, which has no derivative.
    """
    found = floats(*places, *values)
    if found[0].array.dtype.kind != "c":
        return found
    for place in map(tensor, places):
        if place.array.dtype.kind == "c":
            raise ValueError(
                f"{module}: points, knots and coordinates must be real, got {describe(place)}; pass the real part, "
                "x.real; values may be complex"
            )
    return (*[x.real for x in found[: len(places)]], *found[len(places) :])


def differentiable(
    module: str, name: str = "", *, images: bool = False, real: bool = False
) -> Callable[[Decorated], Decorated]:
    """Decorate a function with the name and signature of SciPy's so that it accepts Tensors.

    Without a Tensor among the arguments, SciPy's function is called instead. If all Tensors contain integers, which
    have no derivative, SciPy's result is returned as Tensors, in SciPy's dtypes. If the decorated function fails and
    SciPy's function fails for the same numbers, SciPy's error is raised.

    SciPy's function is called before the decorated function if a Tensor has no elements, since the derivative is then
    zero, or if the first argument is a 0-d Tensor. SciPy's function is called after the decorated function if that
    raised NotImplementedError, or another error on complex numbers or 0-d Tensors; SciPy's result is returned if no
    argument requires a gradient.

    Args:
        module: the module of SciPy's function, ``"scipy.linalg"``.
        name: the name of SciPy's function, by default the decorated function's.
        images: the first argument is an image, whose dtype the result has. SciPy's function is called for an image of
            integers, unless another Tensor requires a gradient.
        real: SciPy's function rejects complex numbers.
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
            numbers = [x.array for x in _tensors_in(given)]
            decides = real and any(x.dtype.kind == "c" for x in numbers) or not all(x.size for x in numbers)
            is_number = isinstance(given[0], Tensor) and not given[0].array.ndim  # some functions reject 0-d Tensors
            try:
                if decides or is_number:
                    original = getattr(scipys(module), public)
                    result = _without_derivative(original, args, kwargs)
                    if decides and result is not None and (real or _is_determined(result, numbers, images)):
                        return result
                found = function(*args, **kwargs)
            except Exception as error:
                original = getattr(scipys(module), public, None)
                if original is None:
                    raise NotImplementedError(f"{module}.{public} is not in this version of SciPy") from error
                try:
                    result = _without_derivative(original, args, kwargs)
                except _PLAIN as theirs:
                    raise type(theirs)(f"{module}.{public}: {theirs}") from error
                unusual = any(x.dtype.kind == "c" or not x.ndim for x in numbers) and type(error) is not ValueError
                if result is None or not (unusual or isinstance(error, NotImplementedError)):
                    raise
                return result
            return _as_image(found, given[0]) if images else found

        return cast(Decorated, call)

    return decorate


def _without_derivative(function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Return the Tensors of SciPy's result if it has no derivative, and None otherwise.

    The derivative is zero if only Tensors without elements are differentiated, or if the result has no elements.

    Raises:
        ValueError: SciPy's function fails; likewise for the other types in ``_PLAIN``.
    """
    given = [*args, *kwargs.values()]
    if is_mapped(given) or modes.tracer is not None:
        return None
    try:
        result = function(*detached(args), **detached(kwargs))
    except _PLAIN as error:
        if type(error) not in _PLAIN:
            return None
        raise
    except Exception:
        return None
    wanted = [x for x in _tensors_in(given) if x.requires_grad]
    found = None if has_function(given) else _tensors(result)
    if all(x.array.dtype.char in "fFe" for x in _tensors_in(given) if x.array.dtype.kind in "fc"):
        found = _in_single_precision(found)
    if not wanted or found is None:
        return found
    empty = all(not x.array.size for x in _tensors_in([found]))
    if not empty and any(x.array.size for x in wanted):
        return None
    return _depending(found, ops.stack([x.real.sum().double() for x in wanted]).sum())


def _depending(result: object, total: Tensor) -> object:
    """Return the Tensors of a result; Tensors of floating dtype depend on ``total`` with a derivative of zero."""
    if isinstance(result, Tensor):
        return (result + 0 * total).astype(result.dtype) if result.array.dtype.kind in "fc" else result
    return type(result)(_depending(item, total) for item in result) if isinstance(result, (list, tuple)) else result


def _is_determined(result: object, given: list[Array], images: bool) -> bool:
    """Return whether SciPy has initialized the memory of its result, if an argument is an empty array.

    Functions of ``ndimage`` return uninitialized memory for an empty image, some filters and solvers for an empty
    argument.
    """
    empty = not any(x.array.size for x in _tensors_in([result]))
    return empty or not images and not any(x.size for x in given if x.dtype.kind in "fc")


def _in_single_precision(result: object) -> object:
    """Cast the Tensors of a result, which SciPy computed in double precision, to single precision."""
    if isinstance(result, Tensor):
        return result.astype({"d": np.float32, "D": np.complex64}.get(result.array.dtype.char, result.dtype))
    return type(result)(map(_in_single_precision, result)) if isinstance(result, (list, tuple)) else result


def _as_image(result: object, image: object) -> object:
    """Return a result in the dtype of the image, where both are real or both complex."""
    if not isinstance(result, Tensor) or not hasattr(image, "dtype"):
        return result
    kind = result.array.dtype.kind
    dtype = image.array.dtype if isinstance(image, Tensor) else image.dtype
    return result.astype(dtype, copy=False) if kind == dtype.kind and kind in "fc" else result


def _tensors_in(values: Iterable[object]) -> list[Tensor]:
    found = []
    for value in values:
        if isinstance(value, Tensor):
            found.append(value)
        elif isinstance(value, (list, tuple)):
            found += _tensors_in(value)
    return found


def has_function(values: Iterable[object]) -> bool:
    """Return whether a function, which may read other Tensors, is among the values."""
    for value in values:
        if isinstance(value, (list, tuple)):
            if has_function(value):
                return True
        elif callable(value) and not isinstance(value, (type, Tensor)):
            return True
    return False


def is_constant(values: Iterable[object], floats: bool = False) -> bool:
    """Return whether all Tensors contain integers or bools, and no value is a function, which may read other Tensors.

    Args:
        values: the arguments of a call.
        floats: also treat floating Tensors that do not require a gradient as constant.
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
    """Return ``x``, which is not a solution; its derivatives, which would flow to ``value``, raise RuntimeError."""
    return apply(_UNSOLVED, (x, value), {"message": message})
