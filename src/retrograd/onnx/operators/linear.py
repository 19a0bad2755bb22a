"""Matrix products and quantization."""

from __future__ import annotations

import numpy as np

from ..._generated import linalg
from ..._generated import toplevel as rg
from ...core.tensor.tensor import Tensor
from ..table import OPERATORS, Attributes, operator, plain

OPERATORS.update({"MatMul": plain(rg.matmul), "Det": plain(linalg.det)})


@operator("Gemm")
def gemm(at: Attributes, a: Tensor, b: Tensor, c: Tensor | None = None) -> Tensor:
    if at("transA", 0):
        a = a.transpose(0, 1)
    if at("transB", 0):
        b = b.transpose(0, 1)
    alpha, beta = at("alpha", 1.0), at("beta", 1.0)
    if a.dtype.kind not in "fV":
        alpha, beta = int(alpha), int(beta)
    y = a @ b
    y = y if alpha == 1 else y * alpha
    return y if c is None else y + (c if beta == 1 else c * beta)


@operator("Einsum")
def einsum(at: Attributes, *xs: Tensor) -> Tensor:
    return rg.einsum(at("equation"), *xs)


@operator("MatMulInteger")
def matmul_integer(
    at: Attributes, a: Tensor, b: Tensor, a_zero: Tensor | None = None, b_zero: Tensor | None = None
) -> Tensor:
    a, b = a.to(np.int32), b.to(np.int32)
    if a_zero is not None:
        zero = a_zero.to(np.int32)
        a = a - (zero.unsqueeze(-1) if zero.ndim == 1 and zero.numel() > 1 else zero)
    if b_zero is not None:
        b = b - b_zero.to(np.int32)
    return (a @ b).to(np.int32)


def _per_axis(value: Tensor, x: Tensor, axis: int) -> Tensor:
    if value.ndim != 1 or value.numel() == 1:
        return value
    shape = [1] * x.ndim
    shape[axis] = value.numel()
    return value.reshape(shape)


@operator("DequantizeLinear")
def dequantize(at: Attributes, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    if at("block_size", 0):
        raise ValueError("DequantizeLinear: block_size is not supported")
    axis = at("axis", 1)
    y = x.to(scale.dtype)
    if zero is not None:
        y = y - _per_axis(zero.to(scale.dtype), x, axis)
    return y * _per_axis(scale, x, axis)


@operator("QuantizeLinear")
def quantize(at: Attributes, x: Tensor, scale: Tensor, zero: Tensor | None = None) -> Tensor:
    if at("block_size", 0):
        raise ValueError("QuantizeLinear: block_size is not supported")
    axis = at("axis", 1)
    dtype = zero.dtype if zero is not None else at.dtype("output_dtype", 2) if at("output_dtype", 0) else np.dtype("u1")
    y = rg.round(x / _per_axis(scale, x, axis))
    if zero is not None:
        y = y + _per_axis(zero.to(y.dtype), x, axis)
    limits = np.iinfo(dtype)
    return rg.clamp(y, int(limits.min), int(limits.max)).to(dtype)


@operator("DynamicQuantizeLinear")
def dynamic_quantize(at: Attributes, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    low, high = rg.clamp(x.min(), max=0), rg.clamp(x.max(), min=0)
    scale = (high - low) / 255
    zero = rg.clamp(rg.round(-low / scale), 0, 255)
    return rg.clamp(rg.round(x / scale) + zero, 0, 255).to(np.uint8), scale, zero.to(np.uint8)
