"""``_C`` and ``_utils``: what programs ask of PyTorch's inside."""

from __future__ import annotations

from typing import Any

from ..autograd.function import Function
from ..core.arrays.devices import Device
from ..core.arrays.dtypes import DType
from ..core.tensor.tensor import Size, Tensor
from ..ops.make.generators import Generator

TensorBase = Tensor
_TensorBase = Tensor
device = Device
dtype = DType
_FunctionBase = Function
__all__ = ["Generator", "Size", "TensorBase", "device", "dtype"]


def _get_tracing_state() -> None:
    return None


def _log_api_usage_once(message: str) -> None:
    """PyTorch counts who uses it; nothing is counted here."""


def _element_size(dtype: DType) -> int:
    """The bytes of one element."""
    return dtype.itemsize


def _flatten_dense_tensors(tensors: Any) -> Tensor:
    from .._generated.toplevel import cat

    return cat([x.contiguous().view(-1) for x in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Any) -> tuple[Tensor, ...]:
    result, offset = [], 0
    for x in tensors:
        result.append(flat[offset : offset + x.numel()].view(x.shape))
        offset += x.numel()
    return tuple(result)
