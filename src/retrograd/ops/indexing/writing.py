"""Checked writes at an index, out of place or in place."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from inspect import signature
from typing import Any
from warnings import warn

import numpy as np

from ...core.arrays.devices import all_examples, backend_of
from ...core.arrays.dtypes import DType
from ...core.arrays.fp_warnings import silenced
from ...core.arrays.python_numbers import converted
from ...core.errors import describe
from ...core.graph.plan import Params
from ...core.graph.primitive import Primitive, apply
from ...core.named_tuples import NamedTuple
from ...core.tensor.mutation import apply_inplace
from ...core.tensor.tensor import Tensor, new_tensor, tensor_method, to_array
from ..table.registry import inplace_method


class Write(NamedTuple):
    """A checked write of ``value`` at ``index`` of ``x``."""

    primitive: Primitive
    x: Tensor
    value: Any
    params: Params


def byte_mask(array: object) -> Any:
    """Return a uint8 array as a mask: PyTorch reads uint8 indices as masks, NumPy as positions."""
    warn(
        "uint8 as a mask is deprecated, also in an index; use a bool Tensor, or convert positions to int64",
        stacklevel=2,
    )
    return array != 0


def refuse_filling_bytes(index: object, value: object) -> None:
    """Raise an error if one value is written at a uint8 mask; PyTorch requires as many values as selected elements."""
    items = index if isinstance(index, (tuple, list)) else (index,)
    arrays = [item.array if isinstance(item, Tensor) else item for item in items if hasattr(item, "dtype")]
    if len(arrays) != 1 or arrays[0].dtype.char != "B" or not arrays[0].ndim:
        return
    size = len(value) if isinstance(value, (list, tuple)) else getattr(getattr(value, "array", value), "size", 1)
    if size == 1:
        raise RuntimeError(
            f"a single value can be written only at a mask of dtype bool, got {describe(arrays[0])}; use mask.bool(), "
            "or convert positions to int64"
        )


def check_range_of_value(value: Tensor, dtype: DType) -> None:
    """Check that a 0-d Tensor (inside ``vmap``, its value in each example) can be converted to the dtype that it fills.

    Raises:
        RuntimeError: a number is out of the dtype's range, or it is complex and the dtype is real.
    """
    numbers = all_examples(value.array)
    if type(numbers) is np.ndarray:
        for number in numbers.ravel().tolist():
            converted(number, dtype)


def written_value(x: Tensor, value: object, item: bool = False) -> Any:
    """Prepare a value to be written into x: check its range and drop leading dimensions of length 1.

    In half precision, a number assigned by ``item`` may overflow to infinity; PyTorch raises an error in other writes.
    Complex Tensors are written into real ones without the imaginary part, with a warning.
    """
    if isinstance(value, (bool, int, float, complex)):
        dtype = x.array.dtype
        if item and dtype.kind in "fV" and dtype.itemsize == 2 and not isinstance(value, complex):
            return float(silenced(dtype.type, value))
        return converted(value, dtype)
    if not isinstance(value, Tensor):
        value = new_tensor(to_array(value, copy=False))
    array = value.array
    if array.dtype.kind == "c" and x.array.dtype.kind not in "cb":
        warn("casting complex values to real discards the imaginary part", stacklevel=2)
        value = value.real
        array = value.array
    if backend_of(array).name != backend_of(x.array).name:
        if array.ndim:
            raise RuntimeError(f"the value {describe(value)} is on {value.device}, the written Tensor on {x.device}")
        return array.item()
    if array.ndim and array.shape[0] == 1:
        ones = next((place for place, length in enumerate(array.shape) if length != 1), array.ndim)
        value = value.reshape(array.shape[ones:])
    return value


def result(write: Write) -> Tensor:
    """Return a copy of the input with the values written."""
    return apply(write.primitive, (write.x, write.value), write.params)


def in_place(name: str, prepare: Callable[..., Write]) -> None:
    """Add the method ``name_`` to Tensor, which performs in place the write that ``prepare`` returns."""

    @wraps(prepare)
    def method(self: Tensor, *args: object, **kwargs: object) -> Tensor:
        write = prepare(self, *args, **kwargs)
        apply_inplace(write.primitive, write.x, write.value, **write.params)
        return self

    method.__signature__ = signature(prepare).replace(return_annotation=Tensor)  # type: ignore[attr-defined]
    tensor_method(inplace_method(name, method), name + "_")
