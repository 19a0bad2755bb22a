"""NumPy's type promotion, for NumPy's functions on Tensors; functions with PyTorch's names use PyTorch's promotion.

``np.sin`` of int64 is float64, and so is ``np.add`` of float32 and int64. Python's and NumPy's scalars are weak: they
adopt the dtype of the arrays, if it supports their kind of number.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import lru_cache
from typing import Any, TypeAlias

import numpy as np

from ...core.arrays.devices import Wrapping, is_array
from ...core.arrays.dtypes import INEXACT, DType, promote_types
from ...core.tensor.tensor import Tensor

Kind: TypeAlias = DType | type[int] | type[float] | type[complex]  # a dtype, or the type of a weak number

_BOOL = np.dtype(bool)


def kind_of(value: Any) -> Kind:
    """Return the dtype of a Tensor or an array, or the type of a number, which is weak."""
    if isinstance(value, Tensor):
        return value.array.dtype
    if isinstance(value, (bool, np.bool_)):
        return _BOOL
    if isinstance(value, (int, np.integer)):
        return int
    if isinstance(value, (float, np.floating)):
        return float
    if isinstance(value, (complex, np.complexfloating)):
        return complex
    return value.dtype


@lru_cache(1024)
def loop_of(ufunc: np.ufunc, kinds: tuple[Kind, ...]) -> tuple[DType, ...]:
    """Return the input and output dtypes of the ufunc loop that NumPy chooses for operands of these kinds.

    Raises:
        TypeError: NumPy has no loop for these kinds.
    """
    return ufunc.resolve_dtypes((*kinds, *[None] * ufunc.nout))


def common_dtype(dtypes: Iterable[DType]) -> DType:
    """Return the common dtype by NumPy's rules, or by PyTorch's if one is bfloat16, which NumPy lacks."""
    found: DType | None = None
    for dtype in dtypes:
        if found is None or found is dtype:
            found = dtype
        elif "V" in (found.kind, dtype.kind):
            found = promote_types(found, dtype)
        else:
            found = np.promote_types(found, dtype)
    assert found is not None
    return found


def summed_dtype(dtype: DType) -> DType:
    """Return the dtype of NumPy's sums and products: integers have at least 64 bits and keep their sign."""
    if dtype.kind in "bi":
        return np.promote_types(dtype, np.int64)
    return np.promote_types(dtype, np.uint64) if dtype.kind == "u" else dtype


def without_gradient(values: Iterable[object]) -> bool:
    """Return whether NumPy itself may compute on the arrays: no Tensor is floating, complex, mapped or traced."""
    for value in values:
        if isinstance(value, Tensor):
            if value.array.dtype.kind in INEXACT or isinstance(value.array, Wrapping):
                return False
        elif isinstance(value, (list, tuple)):
            if not without_gradient(value):
                return False
        elif is_array(value) and isinstance(value, Wrapping):
            return False
    return True
