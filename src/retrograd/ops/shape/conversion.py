"""Conversion to other dtypes and devices, and copies."""

from __future__ import annotations

from typing import Any, overload

import numpy as np
from numpy import ndarray

from ...core.arrays import Array, dtypes
from ...core.arrays.devices import Device, backend_for, backend_of
from ...core.arrays.dtypes import INEXACT, DType, as_dtype, is_number_dtype
from ...core.arrays.layout import casts, order_like
from ...core.arrays.public_dtypes import DTYPES
from ...core.arrays.public_dtypes import dtype as PublicDType
from ...core.errors import InvalidValue
from ...core.graph.primitive import Primitive, apply, apply1, operand
from ...core.tensor.tensor import Tensor
from ...kernels.loops.layout import copies
from ..table.batching import in_front
from ..table.registry import operator
from ..table.types import DeviceLike, DTypeLike

_LARGE_HALVES = 1 << 12  # from this number of bfloat16 elements on, a loop is faster than NumPy


def _cast(x: Array, dtype: DType) -> Array:
    """Cast large arrays with several threads, and bfloat16, which NumPy casts element by element, with a loop."""
    if type(x) is ndarray and x.size >= (_LARGE_HALVES if "V" in (x.dtype.kind, dtype.kind) else copies.LARGE):
        return copies.converted(x, dtype)
    return x.astype(dtype, order=order_like(x))


casts[:] = [_cast]


def _clone(x: Array) -> Array:
    return copies.cloned(x) if type(x) is ndarray and x.size >= copies.LARGE else x.copy(order=order_like(x))


def _contiguous(x: Array) -> Array:
    return copies.copied(x) if type(x) is ndarray and x.size >= copies.LARGE else x.copy(order="C")


# The engine casts a gradient to the dtype of its input, so the rule of a cast is the identity.
CAST = Primitive("cast", _cast, "x", [lambda g: g], elementwise=True, signals=True, bfloat16="native", computes="copy")
DISCRETE_CAST = Primitive("cast", _cast, "x", signals=True, batch=in_front, bfloat16="native", computes="copy")
CLONE = Primitive("clone", _clone, "x", [lambda g: g], elementwise=True, bfloat16="native", computes="copy")
CONTIGUOUS = Primitive(
    "contiguous", _contiguous, "x", [lambda g: g], elementwise=True, bfloat16="native", computes="copy"
)


def _transfer(x: Array, device: Device) -> tuple[Array, Device]:
    source = backend_of(x)
    target = backend_for(device)
    array = x if source is target else source.to_numpy(x)
    return target.asarray(array, device=device), source.device(x)


TRANSFER: Primitive = Primitive(
    "transfer",
    _transfer,
    "x",
    [lambda g, source: TRANSFER(g, device=source)],
    elementwise=True,
    residuals="source",
    shaped=lambda make, x, device: _transfer(x, device),  # from and to any device
    bfloat16="native",
)


def _as_dtype(dtype: DTypeLike) -> DType:
    if type(dtype) is PublicDType or type(getattr(dtype, "dtype", None)) is PublicDType:
        return as_dtype(dtype)
    try:
        result = np.dtype(dtype)
    except TypeError:
        result = None
    if result is None or not is_number_dtype(result) or dtype is None:
        raise TypeError(f"expected a dtype, got {dtype!r}")
    return result


def _converted(x: Tensor, dtype: DType | None = None, device: Device | None = None, copy: bool = False) -> Tensor:
    """Convert x to a dtype and device; return x itself if nothing changes and no copy is requested."""
    y = x
    if device is not None:
        here = x.device
        if here.type != device.type or device.index not in (None, here.index):
            y = apply(TRANSFER, (y,), {"device": device})
    if dtype is not None and y.array.dtype != dtype:
        y = apply(CAST if dtype.kind in INEXACT else DISCRETE_CAST, (y,), {"dtype": dtype})
    return apply1(CLONE, x) if copy and y is x else y


@operator(namespace="Tensor", dtype="to dtype")
def astype(self: Tensor, dtype: DTypeLike, copy: bool = True) -> Tensor:
    """``self`` in another dtype: NumPy's name for ``to(dtype)``, but it copies by default.

    Derivative: ``g`` in the input's dtype; none for integers and bools.

    Args:
        dtype: the dtype to convert to.
        copy: copy even if the dtype is the same.

    Raises:
        TypeError: ``dtype`` is not a numeric dtype.

    >>> rg.tensor([1.7, -1.7]).astype("int32")
    tensor([ 1, -1], dtype=int32)
    """
    return _converted(operand(self), _as_dtype(dtype), copy=copy)


@operator(namespace="Tensor", dtype="to dtype", like=astype, reads_elements=True)
def to(
    self: Tensor,
    *args: Tensor | DTypeLike | DeviceLike | bool | None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    non_blocking: bool = False,
    copy: bool = False,
    memory_format: object = None,
) -> Tensor:
    """``self`` with another dtype or device, or both; ``self`` itself if nothing changes.

    Called as ``to(dtype)``, ``to(device)``, ``to(device, dtype)`` or ``to(other)``, each followed by ``non_blocking``
    and ``copy``.

    Derivative: ``g`` in the input's dtype and on its device; none for integers and bools.

    Args:
        device: ``"cpu"``, ``"cuda"``, ``"cuda:1"``.
        copy: copy even if nothing changes.

    Raises:
        RuntimeError: the device does not exist.
        TypeError: an argument is not a dtype, a device or a Tensor.

    >>> x = rg.tensor([1.0, 2.0])
    >>> x.to(rg.float64)
    tensor([1., 2.], dtype=float64)
    >>> x.to("cpu") is x
    True
    """
    rest: list[Any] = list(args)
    if rest and isinstance(rest[0], Tensor):
        other = rest.pop(0)
        dtype, device = other.array.dtype, other.device
    else:
        if rest and (rest[0] is None or isinstance(rest[0], (str, Device))):
            device = rest.pop(0)
        if rest and not isinstance(rest[0], bool):
            dtype = rest.pop(0)
    if rest:
        non_blocking = rest.pop(0)
    if rest:
        copy = rest.pop(0)
    if rest or not isinstance(non_blocking, bool) or not isinstance(copy, bool):
        raise TypeError(
            "expected to(dtype), to(device), to(device, dtype) or to(other), with non_blocking and copy, got "
            f"{', '.join(map(repr, args))}"
        )
    return _converted(
        self, None if dtype is None else _as_dtype(dtype), None if device is None else Device(device), copy
    )


_TYPE_NAMES = {
    "bool": "BoolTensor",
    "uint8": "ByteTensor",
    "int8": "CharTensor",
    "int16": "ShortTensor",
    "int32": "IntTensor",
    "int64": "LongTensor",
    "uint16": "UInt16Tensor",
    "uint32": "UInt32Tensor",
    "uint64": "UInt64Tensor",
    "float16": "HalfTensor",
    "bfloat16": "BFloat16Tensor",
    "float32": "FloatTensor",
    "float64": "DoubleTensor",
    "complex64": "ComplexFloatTensor",
    "complex128": "ComplexDoubleTensor",
}


@overload
def type_(self: Tensor, dtype: None = None, non_blocking: bool = False) -> str: ...
@overload
def type_(self: Tensor, dtype: DTypeLike, non_blocking: bool = False) -> Tensor: ...
@operator(namespace="Tensor", like=astype)
def type_(self: Tensor, dtype: DTypeLike | None = None, non_blocking: bool = False) -> Tensor | str:
    """``self.to(dtype)``; without a dtype, the name of the Tensor's type.

    Args:
        dtype: the dtype, or a legacy type such as ``"torch.LongTensor"``; the class ``Tensor`` means the default
            dtype; None returns the name.

    Returns: a Tensor, or a string such as ``"retrograd.FloatTensor"``.

    >>> rg.tensor([1.5]).type(rg.int64)
    tensor([1])
    >>> rg.tensor([1.5]).type()
    'torch.FloatTensor'
    >>> rg.tensor([1.5]).type("torch.LongTensor")
    tensor([1])
    >>> rg.tensor([1]).type(rg.Tensor)
    tensor([1.])
    """
    if dtype is None:
        module = "torch.cuda" if self.is_cuda else "torch"
        name = self.array.dtype.name
        return f"{module}.{_TYPE_NAMES.get(name, name)}"
    device = None
    if dtype is Tensor or isinstance(dtype, str) and dtype.endswith(".Tensor"):  # means the default dtype
        dtype, device = dtypes.get_default_dtype(), Device("cpu")
    elif isinstance(dtype, str) and dtype.endswith("Tensor"):
        module, _, legacy = dtype.rpartition(".")
        device = Device("cuda" if module.endswith("cuda") else "cpu")
        dtype = next((name for name, each in _TYPE_NAMES.items() if each == legacy), dtype)
    elif hasattr(dtype, "is_cuda"):  # a legacy type: FloatTensor, cuda.FloatTensor
        device = Device("cuda" if dtype.is_cuda else "cpu")
    return _converted(self, _as_dtype(dtype), device)


@operator(namespace="Tensor", shape="same")
def type_as(self: Tensor, other: Tensor) -> Tensor:
    """``self.to(other.device, other.dtype)``.

    Derivative: ``g`` in the input's dtype; none to ``other``.
    Dtype: any to the dtype of ``other``.

    Args:
        other: a Tensor with the dtype and device of the result.

    Raises:
        TypeError: ``other`` is not a Tensor.

    >>> rg.tensor([1, 2]).type_as(rg.tensor(0.5))
    tensor([1., 2.])
    """
    if not isinstance(other, Tensor):
        raise TypeError(f"expected a Tensor, got {type(other).__name__}")
    return _converted(self, other.array.dtype, other.device)


def _dtype_method(name: str, dtype: str) -> None:
    target = np.dtype(dtype)

    def method(self: Tensor, memory_format: object = None) -> Tensor:
        return self if self.array.dtype is target else _converted(self, target)

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"""``self.to({dtype})``; itself where it has that dtype already.

    Derivative: {"``g`` in the input's dtype" if target.kind in INEXACT else "none"}.
    Shape: any, preserved.
    Dtype: any to {dtype}.

    Args:
        memory_format: accepted for compatibility, without effect.

    >>> rg.tensor([0, 1]).{name}().dtype
    retrograd.{dtype}
    """
    operator(namespace="Tensor", differentiable=target.kind in INEXACT)(method)


for _name, _dtype in {
    "float": "float32",
    "double": "float64",
    "half": "float16",
    "int": "int32",
    "long": "int64",
    "short": "int16",
    "char": "int8",
    "byte": "uint8",
    "bool": "bool",
    "cfloat": "complex64",
    "cdouble": "complex128",
}.items():
    _dtype_method(_name, _dtype)


@operator(namespace="Tensor", derivative="moved", reads_elements=True)
def cpu(self: Tensor, memory_format: object = None) -> Tensor:
    """``out = self``, on the CPU; ``self`` itself if it is on the CPU already.

    >>> rg.ones(2).cpu().device
    device(type='cpu')
    """
    return _converted(self, device=Device("cpu"))


@operator(namespace="Tensor", derivative="moved", reads_elements=True)
def cuda(
    self: Tensor, device: int | DeviceLike | None = None, non_blocking: bool = False, memory_format: object = None
) -> Tensor:
    """``out = self``, on a GPU; ``self`` itself if it is on that GPU already.

    Args:
        device: the number of the GPU or ``"cuda:N"``; None for the current GPU.

    Raises:
        RuntimeError: CuPy is not installed, no GPU is available, or ``device`` is not a CUDA device.

    >>> rg.ones(2).cuda().device  # doctest: +SKIP
    device(type='cuda', index=0)
    """
    if device is None or isinstance(device, int):
        place = Device("cuda", device)
    else:
        place = Device(device)
    if place.type != "cuda":
        raise RuntimeError(f"expected a CUDA device, got {device!r}")
    return _converted(self, device=place)


@operator(direct=True, derivative="g")
def clone(input: Tensor, *, memory_format: object = None) -> Tensor:
    """``out = input``, copied.

    >>> x = rg.ones(2, requires_grad=True)
    >>> x.clone().sum().backward()
    >>> x.grad
    tensor([1., 1.])
    """
    return apply1(CLONE, input)


@operator(namespace="Tensor", derivative="g")
def copy(self: Tensor, order: str = "C") -> Tensor:
    """``out = self``, copied: NumPy's name for ``clone()``.

    Args:
        order: accepted for compatibility with NumPy, without effect; the layout is that of ``clone``.

    Raises:
        ValueError: ``order`` is not C, F, A or K.

    >>> x = rg.ones(2)
    >>> y = x.copy()
    >>> y[0] = 5
    >>> x
    tensor([1., 1.])
    """
    if order not in ("C", "F", "A", "K"):
        raise InvalidValue(f"order must be one of C, F, A and K, got {order!r}")
    return apply1(CLONE, self)


@operator(namespace="Tensor", derivative="g")
def contiguous(self: Tensor, memory_format: object = None) -> Tensor:
    """``self`` in row-major order in memory: ``self`` itself if it is contiguous, else a copy.

    Args:
        memory_format: accepted for compatibility, without effect.

    >>> rg.ones(2, 3).transpose(0, 1).contiguous().is_contiguous()
    True
    """
    return self if self.array.flags.c_contiguous else apply1(CONTIGUOUS, self)


@operator(method=False, differentiable=False)
def detach(input: Tensor) -> Tensor:
    """``out = input`` on the same memory, detached from the graph.

    >>> rg.detach(rg.ones(2, requires_grad=True)).requires_grad
    False
    """
    return operand(input).detach()


# Functions on public dtypes


def get_default_dtype() -> PublicDType:
    """The dtype of Tensors created from Python floats, and of results of floating operators on integers.

    >>> rg.get_default_dtype()
    retrograd.float32
    """
    return DTYPES[dtypes.get_default_dtype()]


def promote_types(first: DTypeLike, second: DTypeLike) -> PublicDType:
    """The smallest dtype to which both dtypes can be converted, by PyTorch's table.

    Args:
        first, second: dtypes.

    Raises:
        TypeError: a dtype is not numeric.

    >>> rg.promote_types(rg.int64, rg.float32), rg.promote_types(rg.uint8, rg.int8)
    (retrograd.float32, retrograd.int16)
    """
    return DTYPES[dtypes.promote_types(first, second)]


def result_type(*operands: object) -> PublicDType:
    """The result dtype of arithmetic on operands (arrays, Tensors, Python numbers), by PyTorch's rules.

    >>> rg.result_type(np.ones(3, np.float32), np.float64(2.0) * np.ones(()))
    retrograd.float32
    >>> rg.result_type(np.ones(3, np.int64), 1.5)
    retrograd.float32
    """
    return DTYPES[dtypes.result_type(*operands)]
