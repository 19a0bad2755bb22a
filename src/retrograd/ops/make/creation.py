"""Tensors from data."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from ...core.arrays import Array, memory
from ...core.arrays.devices import Device, Wrapping, backend_for, is_array
from ...core.arrays.dtypes import FLOATING, DType, as_dtype, get_default_dtype, is_differentiable
from ...core.arrays.summation import LARGE
from ...core.errors import InvalidValue, describe
from ...core.graph.modes import modes, watchers
from ...core.tensor import tensor as tensor_module
from ...core.tensor.storage import storage_of
from ...core.tensor.tensor import Tensor, new_tensor, to_array
from ...kernels import share
from ..table.arguments import integers, number
from ..table.registry import operator
from ..table.types import DeviceLike, DTypeLike, Number, Operand, Size
from .dlpack import from_dlpack

# Helpers of all functions that create Tensors


def create(
    make: Callable[[Any], Any], device: DeviceLike | None = None, requires_grad: bool = False, repeatable: bool = False
) -> Tensor:
    """Return a new leaf with the array ``make(xp)`` on the device; ``repeatable`` if ``make`` is deterministic."""
    place = None if device is None else Device(device)
    xp = backend_for(place).xp
    if modes.tracer is not None:
        xp = modes.tracer.module(xp)
    try:
        if place is not None and place.index is not None:
            with xp.cuda.Device(place.index):
                array = make(xp)
        else:
            array = make(xp)
    except NotImplementedError:
        if xp is np:
            raise
        array = xp.asarray(make(np))  # the device meta cannot compute a shape that depends on data
    except ValueError as error:
        raise RuntimeError(f"{error}") from None
    if array.size >= memory.LARGE and type(array) is np.ndarray:
        _meet(array)
    out = new_tensor(array)
    if watchers:
        created(out)
        if repeatable and place is None and not requires_grad:
            for observer in modes.observers:
                observer.made(array, partial(make, xp))
    return with_grad(out, requires_grad)


def _meet(array: Array) -> None:
    """Enable multi-threading when the first large array is created."""
    memory.large_array_met()
    if array.size >= LARGE and array.dtype.kind in FLOATING:
        share()


def with_grad(x: Tensor, requires_grad: bool) -> Tensor:
    """Set ``requires_grad`` on a new leaf and return it."""
    if requires_grad:
        if not is_differentiable(x.array.dtype):
            raise RuntimeError(f"only floating and complex Tensors can require gradients, not {x.array.dtype}")
        x._requires = True
    return x


def created(x: Tensor) -> Tensor:
    """Return a Tensor with its own memory; inside ``vmap``, mapped values may be written to it."""
    if watchers and modes.level is not None:
        storage_of(x).created_in = modes.level
    return x


def shape_of(size: tuple[Size, ...], keywords: dict[str, Size] | None = None) -> tuple[int, ...]:
    """Return a shape given as ``f(2, 3)``, ``f((2, 3))``, ``f(size=(2, 3))`` or NumPy's ``f(shape=(2, 3))``.

    Raises:
        RuntimeError: a length is negative.
        TypeError: a length is not an integer, or there are other keywords.
    """
    if keywords:
        keyword, *others = keywords
        if others or keyword not in ("size", "shape"):
            raise TypeError(f"got an unexpected keyword argument {[*others, keyword][0]!r}")
        if size:
            raise TypeError(f"got the size twice, {size} and {keywords[keyword]}")
        size = (keywords[keyword],)
    lengths = integers(size)
    for length in lengths:
        if length < 0:
            raise RuntimeError(f"a size must not be negative, got {lengths}")
    return lengths


def dtype_or_default(dtype: DTypeLike | None) -> DType:
    """Return the dtype, or the default dtype for None."""
    return get_default_dtype() if dtype is None else as_dtype(dtype)


def python_number(value: Operand | None, argument: str) -> Number:
    """Return a number, or the number in a 0-d Tensor or array, as a Python number.

    Raises:
        TypeError: the value is not a number.
    """
    found = number(value, argument)
    return found.item() if hasattr(found, "item") else found


# From data


@operator(
    method=False,
    differentiable=False,
    shape="data",
    dtype="data",
    args="dtype as above, device of data",
    raises="data, ragged",
)
def tensor(
    data: object, *, dtype: DTypeLike | None = None, device: DeviceLike | None = None, requires_grad: bool = False
) -> Tensor:
    """``data`` as a new leaf Tensor with its own memory.

    Derivative: none; the result has no history.

    Raises:
        RuntimeError: ``requires_grad`` is set for integers or bools.

    >>> rg.tensor([[1.0, 2.0], [3.0, 4.0]])
    tensor([[1., 2.],
            [3., 4.]])
    """
    array = to_array(data, dtype, device, copy=True)
    if array.size >= memory.LARGE and type(array) is np.ndarray:
        _meet(array)
    return with_grad(created(new_tensor(array)), requires_grad)


@operator(
    method=False,
    differentiable=False,
    shape="data",
    dtype="data",
    args="dtype as above, device of data",
    raises="data, ragged",
)
def as_tensor(data: object, dtype: DTypeLike | None = None, device: DeviceLike | None = None) -> Tensor:
    """``data`` as a Tensor, on the same memory if possible; a Tensor of this dtype and device is returned itself.

    Derivative: ``g`` for a Tensor; none for other data.

    >>> array = np.zeros(2)
    >>> rg.as_tensor(array).array is array
    True
    """
    if isinstance(data, Tensor):
        same_dtype = dtype is None or np.dtype(dtype) == data.array.dtype
        if same_dtype and (device is None or _is_on(data, Device(device))):
            return data
        return data.to(device=device, dtype=dtype)
    x = new_tensor(to_array(data, dtype, device, copy=False))
    return x if is_array(data) else created(x)


def _is_on(x: Tensor, device: Device) -> bool:
    own = x.device
    return own.type == device.type and (device.index is None or own.index == device.index)


@operator(method=False, differentiable=False, shape="data", dtype="data", args="device of data")
def asarray(
    obj: object,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    copy: bool | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``obj`` as a Tensor, on the same memory or a copy, according to ``copy``.

    Derivative: ``g`` for a Tensor that is not copied and whose ``requires_grad`` is unchanged; else none.

    Args:
        obj: a number, nested sequences of numbers, an array, a Tensor, a DLPack capsule, or bytes, which are read as
            numbers; a memoryview is also read as numbers if ``dtype`` is given.
        dtype: the dtype; the default is that under ``Dtype``, for bytes the default dtype.
        copy: True always copies, False never does, None copies only if memory cannot be shared.

    Raises:
        RuntimeError: ``copy=False`` for a NumPy scalar.
        ValueError: ``copy=False`` and memory cannot be shared, or the number of bytes is not a multiple of the element
            size.

    >>> rg.asarray([1, 2])
    tensor([1, 2])
    """
    if type(obj).__name__ == "PyCapsule":
        obj = from_dlpack(obj).array
    if isinstance(obj, (bytes, bytearray)) or isinstance(obj, memoryview) and (obj.format == "B" or dtype is not None):
        try:
            obj = np.frombuffer(obj, dtype_or_default(dtype))
        except ValueError as error:
            raise InvalidValue(f"the buffer of {len(obj)} bytes is not a whole number of elements: {error}") from None
    if copy:
        x = created(new_tensor(to_array(obj, dtype, device, copy=True)))
    else:
        x = as_tensor(obj, dtype, device)
        if copy is False:
            source = obj.array if isinstance(obj, Tensor) else obj
            if isinstance(source, np.generic):
                raise RuntimeError(f"a NumPy scalar, {source!r}, has no memory that can be shared")
            if not is_array(source) or (x.array is not source and x.array.base is not source):
                raise InvalidValue(f"the memory of {describe(obj)} can't be shared with dtype {dtype}, device {device}")
        if isinstance(obj, Tensor) and requires_grad != obj._requires:
            x = x.detach()
    return with_grad(x, requires_grad) if requires_grad else x


@operator(method=False, differentiable=False)
def from_numpy(array: np.ndarray) -> Tensor:
    """``array`` as a Tensor on its memory: a write to one is seen in the other.

    A Tensor, which NumPy's functions return for Tensors, is returned unchanged. An array that is not writable is copied
    at the first write; PyTorch programs also get PyTorch's warning.

    Shape: the array's.
    Dtype: the array's: bools, integers, floating or complex.

    Args:
        array: a NumPy array.

    Raises:
        TypeError: ``array`` is not a NumPy array, or has no numeric dtype.

    >>> rg.from_numpy(np.arange(3))
    tensor([0, 1, 2])
    """
    if isinstance(array, Tensor):
        return array
    if type(array) is np.ndarray and not array.flags.writeable and not tensor_module.arrays_keep_dtype:
        text = "from_numpy: the array is not writable: writes to the Tensor will not be seen in it; copy the array to "
        warnings.warn(f"{text}silence this warning for a non-writable array", UserWarning, stacklevel=3)
    if not isinstance(array, (np.ndarray, Wrapping)):
        raise TypeError(f"expected a numpy.ndarray, got {type(array).__name__}")
    if array.size >= memory.LARGE and type(array) is np.ndarray:
        _meet(array)
    return new_tensor(to_array(array, device="cpu", copy=False))


@operator(
    namespace="Tensor",
    name="new_tensor",
    differentiable=False,
    like=as_tensor,
    args="dtype of tensor, device of tensor",
)
def new_tensor_(
    self: Tensor,
    data: object,
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> Tensor:
    """``data`` as a new leaf with its own memory, in this Tensor's dtype and on its device.

    Derivative: none.
    Dtype: this Tensor's.

    >>> rg.zeros(1).new_tensor([1, 2])
    tensor([1., 2.])
    """
    place = self.device if device is None else device
    array = to_array(data, self.array.dtype if dtype is None else dtype, place, copy=True)
    return with_grad(created(new_tensor(array)), requires_grad)


@operator(method=False, differentiable=False, shape="any")
def is_tensor(obj: object) -> bool:
    """``isinstance(obj, Tensor)``: whether the object is a Tensor.

    Dtype: any; the result is a Python bool.

    Args:
        obj: any object.

    >>> rg.is_tensor(rg.zeros(1)), rg.is_tensor(1.0)
    (True, False)
    """
    return isinstance(obj, Tensor)
