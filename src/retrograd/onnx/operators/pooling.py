"""Pooling: of windows and of everything."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import _generated
from ...core.tensor.tensor import Tensor
from ...nn import functional as F
from ..table import Attributes, constant, ints, operator
from .convolution import padded, pads_of, with_ceiling

rg = _generated.toplevel
_MAXIMA: dict[int, Any] = {1: F.max_pool1d, 2: F.max_pool2d, 3: F.max_pool3d}
_CONVOLUTIONS: dict[int, Any] = {1: F.conv1d, 2: F.conv2d, 3: F.conv3d}


def _windows(at: Attributes, x: Tensor) -> tuple[Any, Any, Any, list[tuple[int, int]]]:
    kernel = at("kernel_shape")
    rank = len(kernel)
    if rank not in _MAXIMA:
        raise ValueError(f"{at.type}: {rank} spatial dimensions are not supported")
    strides, dilations = at("strides", [1] * rank), at("dilations", [1] * rank)
    return kernel, strides, dilations, pads_of(at, x.shape[2:], kernel, strides, dilations)


@operator("MaxPool")
def max_pool(at: Attributes, x: Tensor) -> Any:
    kernel, strides, dilations, pads = _windows(at, x)
    dtype, sizes = x.dtype, x.shape[2:]
    if at("ceil_mode", 0):
        pads = with_ceiling(pads, sizes, kernel, strides, dilations)
    least = -np.inf if dtype.kind in "fV" else float(np.iinfo(dtype).min)
    y = padded(x if dtype.kind in "fV" else x.to(np.float64), pads, least)
    function = _MAXIMA[len(kernel)]
    if at.outputs == 1:
        return function(y, kernel, strides, 0, dilations).to(dtype)
    lengths = y.shape[2:]
    y, places = function(y, kernel, strides, 0, dilations, return_indices=True)
    found = np.stack(np.unravel_index(places.array, tuple(lengths)))
    found = found - np.asarray([before for before, _ in pads]).reshape(-1, *[1] * places.ndim)
    order = found[::-1] if at("storage_order", 0) else found
    shape = tuple(sizes)[::-1] if at("storage_order", 0) else tuple(sizes)
    flat = np.ravel_multi_index(tuple(order), shape, mode="clip")
    plane = np.arange(x.shape[0] * x.shape[1]).reshape(x.shape[0], x.shape[1], *[1] * len(sizes))
    return y.to(dtype), constant(flat + plane * int(np.prod(sizes)), np.int64, x)


def _sums(x: Tensor, kernel: Any, strides: Any, dilations: Any) -> Tensor:
    """The sums of windows: a convolution with ones, plane by plane."""
    ones = rg.ones(1, 1, *kernel, dtype=x.dtype, device=x.device)
    y = _CONVOLUTIONS[len(kernel)](x.reshape(-1, 1, *x.shape[2:]), ones, None, strides, 0, dilations)
    return y.reshape(*x.shape[:2], *y.shape[2:])


@operator("AveragePool")
def average_pool(at: Attributes, x: Tensor) -> Tensor:
    kernel, strides, dilations, pads = _windows(at, x)
    inside = rg.ones(1, 1, *x.shape[2:], dtype=x.dtype, device=x.device)
    if at("count_include_pad", 0):
        inside = padded(inside, pads, 1.0)
    x = padded(x, pads)
    if at("ceil_mode", 0):
        sizes = x.shape[2:]
        whole = with_ceiling(
            pads, [n - b - e for n, (b, e) in zip(sizes, pads, strict=True)], kernel, strides, dilations
        )
        more = [(0, after - given) for (_, after), (_, given) in zip(whole, pads, strict=True)]
        x, inside = padded(x, more), padded(inside, more if at("count_include_pad", 0) else whole)
    elif not at("count_include_pad", 0):
        inside = padded(inside, pads)
    return _sums(x, kernel, strides, dilations) / _sums(inside, kernel, strides, dilations)


@operator("LpPool")
def lp_pool(at: Attributes, x: Tensor) -> Tensor:
    kernel, strides, dilations, pads = _windows(at, x)
    if at("ceil_mode", 0):
        pads = with_ceiling(pads, x.shape[2:], kernel, strides, dilations)
    p = at("p", 2)
    return _sums(padded(rg.abs(x) ** p, pads), kernel, strides, dilations) ** (1 / p)


@operator("GlobalAveragePool")
def global_average_pool(at: Attributes, x: Tensor) -> Tensor:
    return rg.mean(x, list(range(2, x.ndim)), keepdim=True)


@operator("GlobalMaxPool")
def global_max_pool(at: Attributes, x: Tensor) -> Tensor:
    return rg.amax(x, list(range(2, x.ndim)), keepdim=True)


@operator("GlobalLpPool")
def global_lp_pool(at: Attributes, x: Tensor) -> Tensor:
    p = at("p", 2)
    return rg.sum(rg.abs(x) ** p, list(range(2, x.ndim)), keepdim=True) ** (1 / p)


@operator("MaxUnpool")
def max_unpool(at: Attributes, x: Tensor, places: Tensor, wanted: Tensor | None = None) -> Tensor:
    kernel = at("kernel_shape")
    rank = len(kernel)
    strides, pads = at("strides", [1] * rank), at("pads", [0] * (2 * rank))
    inferred = [
        (n - 1) * s + k - pads[i] - pads[rank + i]
        for i, (n, s, k) in enumerate(zip(x.shape[2:], strides, kernel, strict=True))
    ]
    shape = [*x.shape[:2], *inferred]
    flat = rg.zeros(int(np.prod(shape)), dtype=x.dtype, device=x.device)
    y = rg.scatter(flat, 0, places.reshape(-1), x.reshape(-1)).reshape(shape)
    if wanted is None:
        return y
    whole = ints(wanted)
    return padded(y, [(0, n - m) for n, m in zip(whole[2:], inferred, strict=True)])
