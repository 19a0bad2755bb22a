"""Normalization and losses."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import _generated
from ...core.tensor.tensor import Tensor
from ...nn import functional as F
from ..table import Attributes, operator

rg = _generated.toplevel


@operator("BatchNormalization")
def batch_norm(at: Attributes, x: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, variance: Tensor) -> Any:
    eps = at("epsilon", 1e-5)
    if not at("training_mode", 0):
        dtype = x.dtype
        return F.batch_norm(x, mean.to(dtype), variance.to(dtype), scale.to(dtype), bias.to(dtype), False, 0.0, eps)
    axes = [axis for axis in range(x.ndim) if axis != 1]
    shape, momentum = (1, -1, *[1] * (x.ndim - 2)), at("momentum", 0.9)
    here, spread = rg.mean(x, axes), rg.var(x, axes, unbiased=False)
    y = (x - here.reshape(shape)) / rg.sqrt(spread.reshape(shape) + eps) * scale.reshape(shape) + bias.reshape(shape)
    if at.outputs == 1:
        return y
    return y, mean * momentum + here * (1 - momentum), variance * momentum + spread * (1 - momentum)


@operator("InstanceNormalization")
def instance_norm(at: Attributes, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    return F.instance_norm(x, weight=scale, bias=bias, eps=at("epsilon", 1e-5))


@operator("LayerNormalization")
def layer_norm(at: Attributes, x: Tensor, scale: Tensor, bias: Tensor | None = None) -> Tensor | tuple[Tensor, ...]:
    axis, eps = at("axis", -1) % x.ndim, at("epsilon", 1e-5)
    if at.outputs == 1:
        shape = x.shape[axis:]
        if scale.shape == shape and (bias is None or bias.shape == shape):
            return F.layer_norm(x, shape, scale, bias, eps)
    axes = list(range(axis, x.ndim))
    mean = rg.mean(x, axes, keepdim=True)
    inverse = 1 / rg.sqrt(rg.mean((x - mean) ** 2, axes, keepdim=True) + eps)
    y = (x - mean) * inverse * scale
    y = y if bias is None else y + bias
    return (y, mean, inverse)[: at.outputs] if at.outputs > 1 else y


@operator("RMSNormalization")
def rms_norm(at: Attributes, x: Tensor, scale: Tensor) -> Tensor:
    axis = at("axis", -1) % x.ndim
    return x / rg.sqrt(rg.mean(x * x, list(range(axis, x.ndim)), keepdim=True) + at("epsilon", 1e-5)) * scale


@operator("GroupNormalization")
def group_norm(at: Attributes, x: Tensor, scale: Tensor, bias: Tensor) -> Tensor:
    groups, eps = at("num_groups"), at("epsilon", 1e-5)
    if at.version >= 21:  # scale and bias are per channel; before opset 21, per group
        return F.group_norm(x, groups, scale, bias, eps)
    y = F.group_norm(x, groups, eps=eps).reshape(x.shape[0], groups, -1)
    return (y * scale.reshape(1, -1, 1) + bias.reshape(1, -1, 1)).reshape(x.shape)


@operator("MeanVarianceNormalization")
def mean_variance(at: Attributes, x: Tensor) -> Tensor:
    axes = at("axes", [0, 2, 3])
    mean = rg.mean(x, axes, keepdim=True)
    return (x - mean) / (rg.sqrt(rg.mean((x - mean) ** 2, axes, keepdim=True)) + 1e-9)


@operator("LpNormalization")
def lp_norm(at: Attributes, x: Tensor) -> Tensor:
    axis, p = at("axis", -1), at("p", 2)
    norm = rg.sum(rg.abs(x), axis, keepdim=True) if p == 1 else rg.sqrt(rg.sum(x * x, axis, keepdim=True))
    return rg.where(norm == 0, rg.zeros_like(x), x / rg.where(norm == 0, rg.ones_like(norm), norm))


@operator("LRN")
def local_response(at: Attributes, x: Tensor) -> Tensor:
    size = at("size")
    before, after = (size - 1) // 2, size - 1 - (size - 1) // 2
    square = F.pad((x * x).reshape(x.shape[0], 1, x.shape[1], -1), (0, 0, before, after))
    ones = rg.ones(1, 1, size, 1, dtype=x.dtype, device=x.device)
    total = F.conv2d(square, ones).reshape(x.shape)
    return x / (at("bias", 1.0) + at("alpha", 1e-4) / size * total) ** at("beta", 0.75)


@operator("SoftmaxCrossEntropyLoss")
def cross_entropy(at: Attributes, scores: Tensor, labels: Tensor, weight: Tensor | None = None) -> Any:
    logarithms = F.log_softmax(scores, 1)
    loss = negative_log_likelihood(at, logarithms, labels, weight)
    return (loss, logarithms) if at.outputs > 1 else loss


@operator("NegativeLogLikelihoodLoss")
def negative_log_likelihood(at: Attributes, x: Tensor, labels: Tensor, weight: Tensor | None = None) -> Tensor:
    ignored = at("ignore_index", -100)
    return F.nll_loss(x, labels.to(np.int64), weight, ignore_index=ignored, reduction=at("reduction", "mean"))
