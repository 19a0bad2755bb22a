"""Conversions of Tensors to bare arrays and Python numbers, which raise an error if a gradient would be lost silently.

NumPy calls ``__array__`` and ``__float__`` where it does not dispatch (lists of Tensors, ``np.array``, ``np.r_``,
``array[i] = t``), and functions of ``math`` and functions of SciPy that are not ufuncs call them, too. The error says
what to use instead. An explicit ``float(t)`` in the program warns, as in PyTorch; inside a transform of ``func`` it
raises an error.
"""

from __future__ import annotations

import itertools
import re
import sys
from types import FrameType
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import Wrapping
from ...core.errors import (
    ConversionError,
    conversion_behind,
    describe,
    no_single_number,
    real_number,
    warn_of_lost_gradient,
)
from ...core.graph.modes import modes, watchers
from ...core.mapping.batched import Batched
from ...core.tensor.copies import KEEP_HISTORY
from ...core.tensor.tensor import Tensor

if TYPE_CHECKING:
    from .callers import Caller

STORE = (
    "a bare array holds numbers without a gradient: make the array with np.zeros_like(x) of a Tensor x, which is "
    "differentiated as it is written, or collect the values in a list and join them with np.stack; "
    "store tensor.detach() where no gradient is wanted"
)

_STORE_EXAMPLES = (
    "vmap: a bare array has one memory for all examples, and cannot store a value that differs between them: write to "
    "a Tensor that the function makes, np.zeros_like(x), np.array(array, like=x) or tensor.clone() for example, or "
    "collect the values in a list and join them with np.stack"
)

# Functions of math whose results have no derivative, so converting the argument to a number loses nothing.
_FACTS = {"isnan", "isinf", "isfinite", "isclose", "floor", "ceil", "trunc"}

# NumPy's names for functions of math.
_NUMPYS_NAMES = {
    **{name: f"arc{name[1:]}" for name in ("acos", "acosh", "asin", "asinh", "atan", "atan2", "atanh")},
    "dist": "linalg.norm",
    "fsum": "sum",
    "pow": "power",
}

# NumPy's functions that create an array from numbers, and differentiable alternatives.
_CREATING = {
    "arange": "x * np.arange(n) or np.linspace(0, x, n) for a Tensor x, since the length n is a constant",
    "full": "np.full(shape, x, like=x) or x * np.ones(shape) for a Tensor x",
}

# NumPy's functions that convert an argument to an array.
_MAKING = {"array", "asarray", "asanyarray", "ascontiguousarray", "asfortranarray", "require", "matrix", "asmatrix"}

# Patterns, compiled when needed: the names of distribution classes, and the TypeError of compiled SciPy functions.
_DISTRIBUTION = r"\w+_gen|(?!rv_)\w+_frozen"
_COMPILED = r"must be numpy\.ndarray, not \w*Tensor$"

KEEP_HISTORY.add("xarray")  # methods of xarray such as sortby call deepcopy on a Tensor that has a history


def _public(module: str) -> str:
    return ".".join(itertools.takewhile(lambda part: not part.startswith("_"), module.split(".")))


def _named_in(frame: FrameType, module: str) -> str:
    """Return the public function that a frame of NumPy or SciPy executes or wraps, or an empty string."""
    public, name = _public(module), frame.f_code.co_name
    if name == "__init__":
        name = type(frame.f_locals.get("self")).__name__
    elif name == "__new__":
        name = getattr(frame.f_locals.get("subtype"), "__name__", name)
    elif name == "__call__":  # a callable object that wraps a function
        name = getattr(frame.f_locals.get("self"), "__name__", None) or name
    if public.startswith("numpy.") and not public.startswith("numpy.polynomial") and hasattr(np, name):
        return f"numpy.{name}"
    if hasattr(sys.modules[public], name):
        return f"{public}.{name}"
    if "wrap" in frame.f_code.co_name:
        for value in frame.f_locals.values():  # one local variable is the wrapped function
            home = _public(getattr(value, "__module__", None) or "")
            wrapped = getattr(value, "__name__", None) or getattr(value, "name", None)
            if not home.startswith("scipy.") or not isinstance(wrapped, str) or wrapped.startswith("__"):
                continue
            if hasattr(sys.modules[home], wrapped):
                return f"{home}.{wrapped}"
    return ""


def _calling_function(frame: FrameType | None) -> tuple[str, str]:
    """Return the outermost running function of NumPy or SciPy, and the distribution of which it is a method."""
    found = distribution = ""
    while frame is not None and (module := frame.f_globals.get("__name__", "")).startswith(("numpy.", "scipy.")):
        owner = type(frame.f_locals.get("self")).__name__
        if named := _named_in(frame, module):
            found, distribution = named, ""
        elif module.startswith("scipy.stats.") and re.fullmatch(_DISTRIBUTION, owner):
            found, distribution = f"scipy.stats.{frame.f_code.co_name}", owner.rpartition("_")[0]
        elif _public(module).startswith("scipy."):
            found = found or _public(module) + "."
        frame = frame.f_back
    return found, distribution


def _package_that_takes_numbers(frame: FrameType | None) -> tuple[str, FrameType | None]:
    """Return the plotting or table package that called NumPy, and its frame; an empty string for none."""
    while frame is not None:
        package = str(frame.f_globals.get("__name__", "")).partition(".")[0]
        if package in ("matplotlib", "seaborn", "plotly", "PIL", "pandas", "xarray", "polars"):
            return package, frame
        if package not in ("numpy", "scipy"):
            break
        frame = frame.f_back
    return "", None


def _advice_on_xarray(frame: FrameType | None) -> str:
    """Return advice for a conversion by xarray, for its own purpose or for a function of SciPy that it calls."""
    while frame is not None and str(frame.f_globals.get("__name__", "")).startswith("xarray."):
        frame = frame.f_back
    from .alternatives import alternative

    function, distribution = _calling_function(frame)
    if not function.startswith("scipy."):
        return (
            "xarray converts to an array of NumPy here; array.data is the Tensor, and tensor.detach() has the numbers"
        )
    return (
        f"xarray calls {function}, which computes with bare arrays; use {alternative(function, distribution)} "
        "with array.data, also through xarray.apply_ufunc, or tensor.detach()"
    )


def _numpys_object(frame: FrameType | None) -> object:
    found = None
    while frame is not None and frame.f_globals.get("__name__", "").startswith("numpy."):
        found, frame = frame.f_locals.get("self"), frame.f_back
    return found


def refuse_examples(target: object, source: object) -> None:
    """Raise an error if a result of ``vmap`` that differs between the examples is to be written to a bare array."""
    array = source.array if isinstance(source, Tensor) else source
    if isinstance(array, Batched) and array.mapped and isinstance(target, np.ndarray):
        raise ConversionError(_STORE_EXAMPLES)


def _advice_on_polynomials(function: str, owner: object) -> str:
    """Return advice on what to use instead of a function or class of ``numpy.polynomial``."""
    if owner is not None:
        function = f"numpy.polynomial.{type(owner).__name__}"
    ours = function.replace("numpy", "retrograd", 1)
    if hasattr(owner, "coef"):  # the polynomial exists already, so the Tensor is a point of evaluation
        ours = f"{ours}(p.coef, p.domain, p.window) for p"
    elif "polyutils" in function:
        ours = "the classes of retrograd.polynomial"
    return f"{function} computes with bare arrays; use {ours}, which takes Tensors, or tensor.detach()"


def advice(frame: FrameType) -> str:
    """Return advice on what to write instead of the call in this frame."""
    from .callers import caller_of

    inside = str(frame.f_globals.get("__name__", "")).startswith("scipy.")
    if caller_of(frame).stores and not inside:
        return STORE
    package, within = _package_that_takes_numbers(frame)
    if package == "xarray":
        return _advice_on_xarray(within)
    if package:
        return f"{package} takes numbers; give it tensor.detach()"
    function, distribution = _calling_function(frame)
    if function.startswith("scipy"):
        method = f"{distribution}.{function.rpartition('.')[2]}" if distribution else ""
        shown = (f"scipy.stats.{method}" if method else function.rstrip(".")).removesuffix(".__call__")
        from .alternatives import alternative

        instead = alternative(function, distribution).removesuffix(".__call__")
        return f"{shown} computes with bare arrays; use {instead or 'NumPy functions'}, or tensor.detach()"
    caller = caller_of(frame)
    name = frame.f_code.co_name if frame.f_globals.get("__name__") == "numpy._core.numeric" else caller.name
    if caller.module.startswith("numpy.random"):
        return (
            "random numbers are drawn with constant parameters; use mean + std * np.random.normal(size=n), or "
            "tensor.detach() where no gradient is wanted"
        )
    if name in _CREATING:
        return f"np.{name} makes a bare array; use {_CREATING[name]}, or tensor.item() for a constant"
    if isinstance(owner := _numpys_object(frame), np.vectorize):
        return (
            "np.vectorize calls its function on the elements of an array; use retrograd.func.vectorize, which has its "
            "arguments, or call the function on the whole Tensor if it consists of operators"
        )
    if function.startswith("numpy.polynomial"):
        return _advice_on_polynomials(function, owner)
    return _advice_on_numpy(function.removeprefix("numpy.") or name)


def would_lose_gradient(frame: FrameType) -> ConversionError:
    """Return the error for a frame that converts a Tensor that requires grad to a NumPy array."""
    return ConversionError(
        f"a Tensor that requires grad cannot become a NumPy array without losing its gradient: {advice(frame)}"
    )


def sparse_advice(frame: FrameType) -> str:
    """Return advice on what to write instead of the call in this frame, whose argument is a sparse array of Tensors."""
    function, _ = _calling_function(frame)
    if function.startswith("scipy."):
        return advice(frame)
    return "use A @ x and its other methods, or A.toarray() for a dense Tensor"


def _advice_on_numpy(name: str) -> str:
    join = "np.stack, np.concatenate, retrograd.r_, retrograd.c_ or np.array([...], like=tensor)"
    if name.startswith("ndarray."):
        method = name.removeprefix("ndarray.")
        instead = f"np.{method}(array, tensor)" if hasattr(np, method) else "a function of NumPy"
        instead += " or array @ tensor" if method == "dot" else ""
        return f"the method {method} of an array takes bare arrays; use {instead}, or tensor.detach()"
    if isinstance(getattr(np, name, None), type) and name != "matrix":
        return f"np.{name} makes a number; use the Tensor itself, or tensor.item() for a constant"
    if name in _MAKING:
        what = f"np.{name} makes a bare array; use a single Tensor as it is, and join Tensors with {join}"
    elif name and hasattr(np, name.partition(".")[0]):
        what = f"np.{name} computes with bare arrays here; join the Tensors of a list first, with {join}"
    else:
        what = (
            f"NumPy computes with bare arrays here; use np.dot(array, tensor) for array.dot(tensor), and so on, {join}"
        )
    return f"{what}; tensor.detach().numpy() has the numbers without a gradient"


def explained(error: Exception) -> Exception:
    """Return the ConversionError that caused an error, or the error itself.

    If a function of NumPy or SciPy fails on a Tensor before converting it to an array, a note on alternatives is added
    to the error.
    """
    found = conversion_behind(error)
    place = error.__traceback__
    if found is not error or hasattr(error, "__notes__") or place is None:
        return found
    while place.tb_next is not None:
        place = place.tb_next
    frame = place.tb_frame
    if frame.f_globals.get("__name__", "").startswith(("numpy.", "scipy.")):
        if any(hasattr(value, "requires_grad") for value in frame.f_locals.values()):
            error.add_note(f"an argument is a Tensor: {advice(frame)}")
    elif re.search(_COMPILED, str(error)):
        error.add_note(
            "a compiled function accepts only bare arrays; use the function of the same name in retrograd.scipy: "
            "retrograd.scipy.sparse.linalg.splu(A).solve(b), for example, or tensor.detach().numpy()"
        )
    return error


# The operator methods in which SciPy's sparse matrices check the type of the other operand.
_ASKING = {"__mul__", "__matmul__", "__truediv__", "__eq__", "__ne__", "__lt__", "__gt__", "__le__", "__ge__"}


def _in_place_of(x: Tensor, frame: FrameType) -> Array | None:
    """Return an array that makes SciPy's sparse matrices call the Tensor's operators; None in other methods.

    For an object array, their operators return NotImplemented, so Python calls the Tensor's method. ``coo_array.dot``
    only inspects the array, then applies an operator to the Tensor itself.
    """
    if frame.f_code.co_name == "dot":
        return np.broadcast_to(np.float64("nan"), x.array.shape)
    caller: FrameType | None = frame
    while caller is not None and caller.f_globals.get("__name__", "").startswith("scipy.sparse."):
        if caller.f_code.co_name in _ASKING:
            return np.empty((), object)
        caller = caller.f_back
    return None


def _array(self: Tensor, dtype: Any = None, copy: bool | None = None) -> np.ndarray[Any, Any]:
    frame = sys._getframe(1)
    if frame.f_globals.get("__name__", "").startswith("scipy.sparse._"):
        replaced = _in_place_of(self, frame)
        if replaced is not None:
            return replaced
    # Integers have no gradient, and inside no_grad none is computed.
    if self.requires_grad and modes.grad_enabled and (dtype is None or np.dtype(dtype).kind not in "biu"):
        raise would_lose_gradient(sys._getframe(1))
    if isinstance(self.array, Wrapping):
        try:
            return self.array.__array__(dtype, copy)  # type: ignore[attr-defined]
        except RuntimeError as error:
            instead = advice(sys._getframe(1))
            if instead is STORE and isinstance(self.array, Batched):
                raise ConversionError(_STORE_EXAMPLES) from None
            raise ConversionError(f"{str(error).rstrip('.')}: {instead}") from None
    if not isinstance(self.array, np.ndarray) or self.device.type != "cpu":
        raise TypeError(f"can't convert a Tensor on {self.device} to a NumPy array; use tensor.cpu() first")
    if copy is False and dtype is not None and np.dtype(dtype) != self.array.dtype:
        raise ValueError(
            f"np.asarray: copy=False, but a copy is needed to convert {self.array.dtype} to {np.dtype(dtype)}"
        )
    array = self.array if dtype is None else self.array.astype(dtype, copy=False)
    return array.copy() if copy and array is self.array else array


_length = Tensor.__len__


def _len(self: Tensor) -> int:
    refuse_diagonals(sys._getframe(1))
    return _length(self)


def refuse_diagonals(frame: FrameType) -> None:
    """Raise an error if SciPy's ``diags`` is running, which would read each element of a Tensor as a diagonal."""
    if frame.f_code.co_name == "diags_array" and frame.f_globals.get("__name__", "").startswith("scipy."):
        raise ConversionError(f"a Tensor cannot be a diagonal of a sparse array of SciPy: {advice(frame)}.numpy()")


def _float(self: Tensor) -> float:
    if self.array.size != 1:
        raise no_single_number("float", self)
    if self._requires or watchers:
        number = _number(self, "float", sys._getframe(1))
    else:
        number = self.array.item()
    return real_number("float", number) if type(number) is complex else float(number)


def _complex(self: Tensor) -> complex:
    if self.array.size != 1:
        raise no_single_number("complex", self)
    if self._requires or watchers:
        return complex(_number(self, "complex", sys._getframe(1)))
    return complex(_only(self).item())


def _only(x: Tensor) -> Tensor:
    if x.array.size != 1:
        raise ValueError(f"only a Tensor of one element can be converted to a Python number, got {describe(x)}")
    return x


def _number(x: Tensor, kind: str, frame: FrameType) -> Any:
    """Return the Python number of a Tensor, for ``__float__`` and similar methods, called from the frame."""
    from .callers import caller_of

    if x._requires and modes.grad_enabled:
        caller = caller_of(frame)
        lost = f"a Tensor that requires grad, {describe(x)}, cannot become a Python number without losing its gradient"
        if caller.stores:
            raise ConversionError(f"{lost}: {STORE}")
        if caller.library and caller.name not in _FACTS:
            raise ConversionError(f"{lost}: {_instead_of_number(frame, caller)}")
        if modes.transform and caller.operation == "CALL" and caller.name not in _FACTS:
            raise ConversionError(
                f"{modes.transform}: {lost}: compute with the Tensor itself, or use tensor.item() for a number that "
                "is a constant of the differentiated function"
            )
    if x._requires:
        warn_of_lost_gradient(4)
    try:
        return _only(x).item()
    except RuntimeError as error:
        if isinstance(x.array, Batched) and caller_of(frame).stores:
            raise ConversionError(_STORE_EXAMPLES) from None
        if isinstance(x.array, Wrapping) and caller_of(frame).stores:
            raise ConversionError(f"{str(error).rstrip('.')}: {STORE}") from None
        raise


def _instead_of_number(frame: FrameType, caller: Caller) -> str:
    """Return advice on what to use instead of a function of math, NumPy or SciPy that computes with Python numbers."""
    from ..._generated import special
    from ..._generated import toplevel as ops

    if caller.library not in ("math", "cmath"):
        return advice(frame)
    name = _NUMPYS_NAMES.get(caller.name, caller.name)
    if hasattr(np, name.partition(".")[0]):
        instead = f"np.{name}, which Tensors follow"
    elif caller.name in ops.__all__:
        instead = f"retrograd.{caller.name}"
    elif caller.name in special.__all__:
        instead = f"retrograd.special.{caller.name}"
    else:
        instead = "functions of NumPy or of retrograd"
    return f"{caller.module}.{caller.name} computes with Python numbers; use {instead}, or tensor.item() for a constant"


Tensor.__array__ = _array  # type: ignore[method-assign,assignment]
Tensor.__len__ = _len  # type: ignore[method-assign]
Tensor.__float__ = _float  # type: ignore[method-assign,assignment]
Tensor.__complex__ = _complex  # type: ignore[method-assign,assignment]
