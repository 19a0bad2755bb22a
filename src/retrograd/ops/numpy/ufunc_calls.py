"""Calls of NumPy's and SciPy's ufuncs on Tensors: find the operator, convert dtypes, and write results to ``out``.

NumPy's ufuncs are looked up in ``registry.UFUNCS``, SciPy's by name in the table of ``scipy_special``.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from types import FrameType
from typing import Any

import numpy as np

from ..._generated import toplevel as ops
from ...core.arrays import Array
from ...core.arrays.devices import Wrapping, is_array
from ...core.arrays.dtypes import INEXACT, DType
from ...core.errors import call_error, describe
from ...core.tensor.tensor import Tensor
from ..table.registry import UFUNCS, assign
from . import scipy_bessel as scipy_bessel  # the import adds rules to those of scipy_special
from . import scipy_special
from .arguments import tensor, wrapped
from .bare_arrays import refuse_examples
from .promotion import common_dtype, kind_of, loop_of, without_gradient
from .rules import linear_algebra, mathematics

# Ufuncs whose operator has a different name.
UFUNC_NAMES = {
    "absolute": "abs",
    "arccos": "acos",
    "arccosh": "acosh",
    "arcsin": "asin",
    "arcsinh": "asinh",
    "arctan": "atan",
    "arctan2": "atan2",
    "arctanh": "atanh",
    "conjugate": "conj",
    "degrees": "rad2deg",
    "divide": "div",
    "equal": "eq",
    "fabs": "abs",
    "greater": "gt",
    "greater_equal": "ge",
    "invert": "bitwise_not",
    "left_shift": "bitwise_left_shift",
    "less": "lt",
    "less_equal": "le",
    "multiply": "mul",
    "negative": "neg",
    "not_equal": "ne",
    "power": "pow",
    "radians": "deg2rad",
    "right_shift": "bitwise_right_shift",
    "rint": "round",
    "subtract": "sub",
}

# Ufuncs that differ from the operators with PyTorch's names, or are missing there. Other NumPy versions may lack some.
UFUNCS.update(
    (getattr(np, name), rule)
    for name, rule in {**mathematics.UFUNC_RULES, **linear_algebra.UFUNC_RULES}.items()
    if hasattr(np, name)
)


def ufunc_name(ufunc: np.ufunc) -> str:
    """Return the public name, such as ``np.exp``; for ufuncs of other libraries the bare name."""
    name = ufunc.__name__
    if getattr(np, name, None) is ufunc:
        return f"np.{name}"
    return f"scipy.special.{name.lstrip('_')}" if scipy_special.is_scipys(ufunc) else name


def ufunc_rule(ufunc: np.ufunc) -> Callable[..., Any] | None:
    """Return the rule of a ufunc on Tensors, or None."""
    function = UFUNCS.get(ufunc)
    if function is None:
        name = ufunc_name(ufunc)
        if name.startswith("np."):
            public = UFUNC_NAMES.get(ufunc.__name__, ufunc.__name__)
            if public in ops.__all__:
                operator = getattr(ops, public)  # importing its module may register another function for the ufunc
                function = UFUNCS.get(ufunc, operator)
        elif name.startswith("scipy."):
            return scipy_special.RULES.get(ufunc.__name__)  # not cached in UFUNCS, since dtypes follow SciPy's loops
        if function is not None:
            UFUNCS[ufunc] = function
    return function


def no_rule(name: str) -> TypeError:
    return TypeError(f"{name} has no rule for Tensors; use a function of retrograd, or tensor.detach().numpy()")


def called(name: str, ufunc: np.ufunc, inputs: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Call a ufunc on Tensors, in the dtypes of the loop that NumPy chooses."""
    dtype = kwargs.pop("dtype", None)
    axis = {key: kwargs.pop(key) for key in ("axis",) if key in kwargs and ufunc.signature is not None}
    if kwargs:
        raise TypeError(f"{name} on Tensors: unexpected arguments {', '.join(kwargs)}")
    if without_gradient(inputs):
        options = axis if dtype is None else {**axis, "dtype": dtype}
        return wrapped(numpys(name, ufunc, [weak(x) for x in inputs], options))
    if dtype is not None:
        inputs = tuple([x.astype(dtype, copy=False) if isinstance(x, Tensor) or is_array(x) else x for x in inputs])
    function = ufunc_rule(ufunc)
    if function is None:
        raise no_rule(name)
    kinds = tuple([kind_of(x) for x in inputs])
    if any(isinstance(kind, np.dtype) and kind.kind == "V" for kind in kinds):
        return function(*inputs, **axis)
    if scipy_special.is_scipys(ufunc):  # by the order of SciPy's loops, numbers would become float64
        known = [kind for kind in kinds if isinstance(kind, np.dtype) and kind.kind in INEXACT]
        real = np.zeros(0, common_dtype(known)).real.dtype if known else float
        kinds = tuple([real if kind is float else kind for kind in kinds])
    try:
        loop = loop_of(ufunc, kinds)
    except TypeError as error:
        raise TypeError(f"{name} of {', '.join(map(describe, inputs))}: {error}") from None
    plain = not any(isinstance(x.array, Wrapping) for x in inputs if isinstance(x, Tensor))
    if plain and ufunc.nout == 1 and loop[-1].kind not in INEXACT:
        return wrapped(numpys(name, ufunc, [weak(x) for x in inputs], axis))  # bools and integers have no gradient
    inputs = tuple([_in_dtype(x, wanted) for x, wanted in zip(inputs, loop, strict=False)])
    result = function(*inputs, **axis)
    if isinstance(result, tuple) or result.array.dtype is loop[-1]:
        return result
    return result.astype(loop[-1], copy=False)


def _in_dtype(value: Array, dtype: DType) -> Any:
    """Convert an operand to the dtype of a loop; Python numbers need no conversion."""
    if isinstance(value, Tensor):
        return value if value.array.dtype is dtype else value.astype(dtype, copy=False)
    if is_array(value):
        return value.astype(dtype, copy=False)
    number = weak(value)
    return int(number) if isinstance(number, bool) and dtype.kind != "b" else number


def weak(value: object) -> Any:
    """Return the array of a Tensor, or a NumPy scalar as a Python number, which is weak."""
    if isinstance(value, Tensor):
        return value.array
    return value.item() if isinstance(value, np.generic) else value


def numpys(name: str, function: Callable[..., object], arguments: Sequence[object], options: dict[str, Any]) -> Any:
    """Call the NumPy function on the arrays.

    Warnings are not suppressed, since an integer result cannot show a division by zero as infinity.
    """
    try:
        return function(*arguments, **options)
    except Warning:
        raise
    except Exception as error:
        kind = next((kind for kind in (TypeError, IndexError, OverflowError) if isinstance(error, kind)), RuntimeError)
        raise call_error(kind, name, tuple(arguments), options, str(error)) from error


def writable(name: str, target: object, sources: Any) -> Tensor:
    """Return the target of a write, a Tensor or an array, as a Tensor.

    Raises:
        TypeError: the target is an array, which cannot have a history, and a source requires grad.
    """
    if not isinstance(target, Tensor):
        needing = [x for x in sources if isinstance(x, Tensor) and x.requires_grad]
        if needing:
            raise _bare(name, needing[0])
        for source in sources:
            refuse_examples(target, source)
    return tensor(target)


def _bare(name: str, source: Tensor) -> Exception:
    """Return the error for a write to a bare array; inside a SciPy function, it names an alternative."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_globals.get("__name__", "").startswith("retrograd."):
        frame = frame.f_back
    if frame is not None and frame.f_globals.get("__name__", "").startswith("scipy."):
        from .bare_arrays import would_lose_gradient

        return would_lose_gradient(frame)
    return TypeError(
        f"{name}: the result {describe(source)} requires grad and cannot be written to a bare array (out=, or an "
        "in-place operator such as array += tensor); write array = array + tensor, or use tensor.detach()"
    )


def write_out(name: str, out: Any, result: Any) -> Any:
    """Write a result to ``out``: a Tensor gets the result's history, which an array cannot have."""
    if isinstance(out, Tensor):
        return assign(name, out, result)
    if result.requires_grad:
        raise _bare(name, result)
    refuse_examples(out, result)
    np.copyto(out, result.array, casting="same_kind")
    return out
