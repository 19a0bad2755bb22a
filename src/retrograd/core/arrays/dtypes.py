"""The dtypes, the default floating dtype, and PyTorch's rules of type promotion.

A dtype in this module is NumPy's; ``public_dtypes`` defines the objects that users see. Promotion differs from NumPy's:
an operand of a higher category (bool < integer < floating < complex) decides the category but not the precision, and
0-d tensors and Python numbers count only if their category is higher than that of every tensor with dimensions.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np

from ..errors import call_error, describe
from ..missing_names import provided
from ..named_tuples import NamedTuple
from . import Array
from .devices import NUMPY, backend_of, is_array
from .public_dtypes import DType as DType
from .public_dtypes import dtype as PublicDType
from .python_numbers import wrapped

bool_ = np.dtype(np.bool_)
uint8 = np.dtype(np.uint8)
int8 = np.dtype(np.int8)
int16 = np.dtype(np.int16)
int32 = np.dtype(np.int32)
int64 = np.dtype(np.int64)
float16 = np.dtype(np.float16)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
complex64 = np.dtype(np.complex64)
complex128 = np.dtype(np.complex128)

# The kinds of floating dtypes, and of all differentiable dtypes. bfloat16 has kind V, like all dtypes that NumPy does
# not define; no other dtype of kind V passes ``is_number_dtype``.
FLOATING, INEXACT = "fV", "fcV"

_CATEGORY = {"b": 0, "u": 1, "i": 1, "f": 2, "V": 2, "c": 3}
_COMPLEX_OF: dict[object, DType] = {float16: complex64, float32: complex64, float64: complex128}

_default_float = float32


def get_default_dtype() -> DType:
    """Return the dtype of Tensors made from Python floats, and of floating results of operators on integers."""
    return _default_float


def set_default_dtype(dtype: object) -> None:
    """Set the default floating dtype for the whole process, as PyTorch does.

    Args:
        dtype: a floating dtype.

    >>> rg.set_default_dtype(rg.float64)
    >>> rg.tensor(0.5).dtype
    retrograd.float64
    >>> rg.set_default_dtype(rg.float32)

    Raises:
        TypeError: ``dtype`` is not a floating dtype.
    """
    global _default_float
    dtype = as_dtype(dtype)
    if dtype.kind not in FLOATING or not is_number_dtype(dtype):
        raise TypeError(f"set_default_dtype: expected a floating dtype, got {dtype}")
    _default_float = dtype


def category(dtype: DType) -> int:
    """Return 0 for bool, 1 for integers, 2 for floating, 3 for complex; raise TypeError for other dtypes."""
    try:
        return _CATEGORY[dtype.kind]
    except KeyError:
        raise TypeError(f"dtype {dtype} is not supported; use a bool, integer, floating or complex dtype") from None


def is_differentiable(dtype: DType) -> bool:
    """Return whether numbers of this dtype have gradients: floating and complex numbers."""
    return dtype.kind in INEXACT


def is_number_dtype(dtype: DType) -> bool:
    """Return whether Tensors can have this dtype. The first call with bfloat16 enables its arithmetic."""
    return dtype.kind in "biufc" or dtype.name == "bfloat16" and provided["bfloat16"](dtype)


def as_dtype(dtype: Any) -> DType:
    """Return NumPy's dtype for a dtype, its name or its type. The first call with bfloat16 enables its arithmetic."""
    if type(legacy := getattr(dtype, "dtype", None)) is PublicDType:  # a legacy class such as FloatTensor
        dtype = legacy
    result: DType = dtype.dtype if type(dtype) is PublicDType else np.dtype(dtype)
    if result.kind == "V":
        is_number_dtype(result)
    return result


def with_own_dtype(array: Array) -> Array:
    """Return the array in native byte order with NumPy's built-in dtype object, on the same memory if possible.

    Unpickled arrays, such as those from data loader workers, have an equal but distinct dtype object. Fast paths
    compare dtypes by identity.
    """
    own = np.dtype(array.dtype.type)
    if array.dtype is own:
        return array
    return array.view(own) if array.dtype.isnative else array.astype(own)


class Limits(NamedTuple):
    """The machine epsilon, the smallest normal number and the largest number of a dtype."""

    eps: float
    tiny: float
    max: float


def limits(dtype: DType) -> Limits:
    """Return the limits of a floating or complex dtype; ``np.finfo`` does not take bfloat16."""
    if dtype.kind == "V":
        return Limits(2.0**-7, 2.0**-126, 2.0**128 - 2.0**120)
    found = np.finfo(dtype)
    return Limits(float(found.eps), float(found.tiny), float(found.max))


def precision(dtype: DType) -> float:
    """Return the machine epsilon of a floating or complex dtype."""
    return limits(dtype).eps


def complex_of(dtype: DType) -> DType:
    """Return the complex dtype whose parts have the given floating dtype."""
    return _COMPLEX_OF.get(dtype, complex64)  # complex64 for bfloat16, as in PyTorch


def promote_types(first: Any, second: Any) -> DType:
    """Return the smallest dtype to which both convert, by PyTorch's table."""
    return _promote(np.dtype(first), np.dtype(second))


def _promote(first: DType, second: DType) -> DType:
    if first == second:
        return first
    higher, lower = first, second
    if category(first) < category(second):
        higher, lower = second, first
    if category(higher) == category(lower) and "V" in (higher.kind, lower.kind):
        other = lower if higher.kind == "V" else higher
        return float32 if other == float16 else other
    if category(higher) == category(lower) or higher.kind == "c" and lower.kind == "f":
        return np.dtype(np.promote_types(first, second))
    return higher


def _combine(higher: DType | None, lower: DType | None) -> DType | None:
    """Combine the dtypes of two priorities: the lower one changes the result only if its category is higher."""
    if higher is None or lower is None:
        return higher or lower
    if category(higher) >= category(lower):
        return higher
    if higher.kind in FLOATING and lower.kind == "c":
        return complex_of(higher)
    return promote_types(higher, lower)


def is_bool(value: object) -> bool:
    """Return whether the value is a bool, or an array or Tensor of bools."""
    return value.dtype.kind == "b" if hasattr(value, "dtype") else isinstance(value, bool)


def scalar_dtype(value: object) -> DType:
    """Return the dtype of a 0-d Tensor made from a Python or NumPy number."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    if isinstance(value, (float, np.floating)):
        return _default_float
    if isinstance(value, (complex, np.complexfloating)):
        return complex_of(_default_float)
    raise TypeError(f"expected a number, a Tensor or an array, got {type(value).__name__}")


def result_type(*operands: Any) -> DType:
    """Return the dtype of arithmetic on arrays, Tensors and Python numbers, by PyTorch's rules."""
    kinds = []
    for operand in operands:
        shape = getattr(operand, "shape", None)
        if shape is None or isinstance(operand, np.generic):
            kinds.append((_NUMBER, scalar_dtype(operand)))
        else:
            kinds.append((_DIMENSIONED if len(shape) else _ZERO_DIM, np.dtype(operand.dtype)))
    return _result_type(*kinds)


_DIMENSIONED, _ZERO_DIM, _NUMBER = range(3)  # in order of decreasing priority


@lru_cache(maxsize=512)
def _result_type(*kinds: tuple[int, DType]) -> DType:
    found: list[DType | None] = [None, None, None]
    for place, dtype in kinds:
        known = found[place]
        found[place] = dtype if known is None else promote_types(known, dtype)
    result = _combine(found[_DIMENSIONED], _combine(found[_ZERO_DIM], found[_NUMBER]))
    if result is None:
        raise TypeError("result_type: expected at least one operand")
    return result


def can_cast(source: Any, target: Any) -> bool:
    """Return whether an in-place operator may write results of dtype ``source`` to a Tensor of dtype ``target``.

    >>> can_cast(float64, float32), can_cast(float32, int64), can_cast(int64, bool_)
    (True, False, False)
    """
    return category(np.dtype(source)) <= category(np.dtype(target))


def is_array_or_number(value: object) -> bool:
    """Return whether the value is an array of a known library, or a Python or NumPy number."""
    return is_array(value) or isinstance(value, (bool, int, float, complex, np.generic))


def promoted(name: str, rule: str | None, inputs: tuple[object, ...], arrays: tuple[Any, ...]) -> tuple[Any, ...]:
    """Convert the inputs of operator ``name`` to their result type, by the rule ``Primitive.promote``.

    Python numbers are not converted if NumPy's promotion gives the same result for them.
    """
    if rule is None:
        return arrays
    kind, alike = type(arrays[0]), getattr(arrays[0], "dtype", None)
    if alike is not None and (alike.kind in INEXACT or rule != "float"):
        for value in arrays:
            if type(value) is not kind or value.dtype is not alike:
                if alike.kind == "f" and (type(value) is float or type(value) is int) and len(arrays) == 2:
                    return arrays
                break
        else:
            return arrays
    for value in arrays:
        if not is_array_or_number(value):
            raise TypeError(
                f"{name}: expected a Tensor, an array or a number, got {type(value).__name__} "
                f"in ({', '.join(map(describe, inputs))})"
            )
    if rule == "strict":
        kinds = {array.dtype for array in arrays if is_array(array)}
        if len(kinds) > 1:
            given = ", ".join(map(describe, inputs))
            raise RuntimeError(f"{name}: inputs must have one dtype, got {given}{conversion_advice(*arrays)}")
        return arrays
    if rule == "no bool" and any(map(is_bool, arrays)):
        reason = "bools are not subtracted; ~ or logical_not() inverts a mask, ^ or logical_xor() finds what differs"
        raise call_error(RuntimeError, name, inputs, None, reason)
    dtype = result_type(*arrays)
    if rule == "float" and dtype.kind not in INEXACT:
        dtype = get_default_dtype()
    return tuple([_cast(value, dtype) for value in arrays])


_CONVERSIONS = {"float32": ".float()", "float64": ".double()", "float16": ".half()", "bfloat16": ".bfloat16()"}


def conversion_advice(*arrays: object) -> str:
    """Return the end of an error message that says how to give arrays or Tensors one dtype.

    >>> from retrograd.core.arrays.dtypes import conversion_advice
    >>> conversion_advice(np.zeros(2), np.zeros(2, np.float32))
    '; call .float() on the float64 Tensor, or .double() on the float32 Tensor or its module'
    """
    found = [getattr(x, "array", x).dtype.name for x in arrays if hasattr(x, "dtype")]
    floats = sorted({name for name in found if name in _CONVERSIONS}, reverse=True)
    others = sorted({name for name in found if name not in _CONVERSIONS})
    if others and floats:
        return f"; call {_CONVERSIONS[floats[-1]]} on the Tensor of {' and '.join(others)}"
    if len(floats) == 2:
        high, low = floats
        down, up = _CONVERSIONS[low], _CONVERSIONS[high]
        return f"; call {down} on the {high} Tensor, or {up} on the {low} Tensor or its module"
    return ""


def _cast(value: Any, dtype: DType) -> Any:
    if is_array(value):
        if isinstance(value, np.ndarray) and backend_of(value) is NUMPY:
            value = np.asarray(value)  # np.matrix redefines products.
        return value if value.dtype is dtype else value.astype(dtype, copy=False)
    # NumPy also converts a Python number of the same or a lower category to the dtype of the arrays.
    kind = scalar_dtype(value).kind
    if isinstance(value, np.generic):
        value = value.item()
    if kind == "i" and dtype.kind in "iu":
        return wrapped(value, dtype)
    if kind in "if" and dtype.kind == "V":
        return float(dtype.type(float(value)))
    if kind == dtype.kind or kind == "i" and dtype.kind in "fc" or kind == "b" or kind == "f" and dtype.kind == "c":
        return value
    return dtype.type(value)
