"""Fold batch normalization in evaluation mode into the convolution or linear layer before it."""

from __future__ import annotations

from copy import deepcopy
from functools import partial
from typing import Any, TypeVar

from ...core.graph.modes import no_grad
from ...core.tensor.tensor import Tensor
from ...ops.make.filled import ones_like, zeros
from ...ops.math.powers import rsqrt
from ..base.module import Module
from ..layers.linear import Linear
from ..parameter import Parameter

__all__ = ["fuse_conv_bn_eval", "fuse_conv_bn_weights", "fuse_linear_bn_eval", "fuse_linear_bn_weights"]

M = TypeVar("M", bound=Module)
L = TypeVar("L", bound=Linear)


def fuse_conv_bn_eval(conv: M, bn: object, transpose: bool = False) -> M:
    """Return a copy of a convolution that computes ``bn(conv(x))``.

    Args:
        conv: a convolution in evaluation mode.
        bn: batch normalization in evaluation mode, with running statistics.
        transpose: whether ``conv`` is transposed, so that dimension 1 of its weight is the output channels.

    Raises:
        AssertionError: a module is in training mode, or ``bn`` has no running statistics.

    >>> conv, bn = rg.nn.Conv2d(1, 2, 3).eval(), rg.nn.BatchNorm2d(2).eval()
    >>> x = rg.ones(1, 1, 4, 4)
    >>> rg.allclose(rg.nn.utils.fusion.fuse_conv_bn_eval(conv, bn)(x), bn(conv(x)))
    True
    """
    return _fused(conv, bn, partial(fuse_conv_bn_weights, transpose=transpose))


def fuse_linear_bn_eval(linear: L, bn: Any) -> L:
    """Return a copy of a linear layer that computes ``bn(linear(x))``.

    Args:
        linear: a linear layer in evaluation mode.
        bn: batch normalization in evaluation mode, with running statistics, with a channel per output or one channel.

    Raises:
        AssertionError: a module is in training mode, ``bn`` has no running statistics or another number of channels.

    >>> linear, bn = rg.nn.Linear(3, 2).eval(), rg.nn.BatchNorm1d(2).eval()
    >>> x = rg.ones(4, 3)
    >>> rg.allclose(rg.nn.utils.fusion.fuse_linear_bn_eval(linear, bn)(x), bn(linear(x)))
    True
    """
    if bn.num_features not in (1, linear.out_features):
        raise AssertionError(
            f"fuse_linear_bn_eval: expected batch normalization of 1 or {linear.out_features} channels, got "
            f"{bn.num_features}"
        )
    return _fused(linear, bn, fuse_linear_bn_weights)


def fuse_conv_bn_weights(
    conv_w: Tensor,
    conv_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
    transpose: bool = False,
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of a convolution with batch normalization in evaluation mode folded in.

    With ``s = bn_w / sqrt(bn_rv + bn_eps)``, the results are ``conv_w * s`` and ``(conv_b - bn_rm) * s + bn_b``, in the
    dtypes of ``conv_w`` and ``conv_b``. They require grad if ``conv_w`` and ``conv_b`` do.

    Args:
        conv_w, conv_b: weight and bias of the convolution; None for a bias of zero.
        bn_rm, bn_rv: the running mean and variance.
        bn_eps: added to the variance.
        bn_w, bn_b: scale and shift; None for one and zero.
        transpose: whether the output channels are dimension 1 of ``conv_w``.

    >>> one = rg.ones(1)
    >>> rg.nn.utils.fusion.fuse_conv_bn_weights(rg.ones(1, 1, 1), None, one, 4 * one, 0.0, one, None)[1]
    Parameter containing:
    tensor([-0.5])
    """
    shape = [1] * conv_w.array.ndim
    shape[1 if transpose else 0] = -1
    return _folded(conv_w, conv_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, shape)


def fuse_linear_bn_weights(
    linear_w: Tensor,
    linear_b: Tensor | None,
    bn_rm: Tensor,
    bn_rv: Tensor,
    bn_eps: float,
    bn_w: Tensor | None,
    bn_b: Tensor | None,
) -> tuple[Parameter, Parameter]:
    """Return the weight and bias of a linear layer with batch normalization in evaluation mode folded in.

    Args:
        linear_w, linear_b: weight and bias of the linear layer.
        bn_rm, bn_rv, bn_eps, bn_w, bn_b: as for ``fuse_conv_bn_weights``.

    >>> one = rg.ones(1)
    >>> rg.nn.utils.fusion.fuse_linear_bn_weights(rg.ones(1, 1), one, one, 4 * one, 0.0, one, one)[0]
    Parameter containing:
    tensor([[0.5]])
    """
    return _folded(linear_w, linear_b, bn_rm, bn_rv, bn_eps, bn_w, bn_b, [-1, 1])


def _fused(module: Any, bn: Any, weights: Any) -> Any:
    if module.training or bn.training:
        raise AssertionError("expected both modules in evaluation mode; call .eval() first")
    if bn.running_mean is None or bn.running_var is None:
        raise AssertionError("expected batch normalization with running statistics, got track_running_stats=False")
    result = deepcopy(module)
    result.weight, result.bias = weights(
        result.weight, result.bias, bn.running_mean, bn.running_var, bn.eps, bn.weight, bn.bias
    )
    return result


def _folded(
    weight: Tensor, bias: Tensor | None, mean: Tensor, var: Tensor, eps: float, factor: Tensor | None,
    offset: Tensor | None, shape: list[int],
) -> tuple[Parameter, Parameter]:  # fmt: skip
    with no_grad():
        scale = rsqrt(var + eps) * (ones_like(mean) if factor is None else factor)
        channels = weight.array.shape[shape.index(-1)]
        moved = (zeros(channels, device=mean.device) if bias is None else bias) - mean
        added = moved * scale if offset is None else moved * scale + offset
        new_weight = (weight * scale.reshape(shape)).to(weight.dtype)
        new_bias = added.to(weight.dtype if bias is None else bias.dtype)
    return (
        Parameter(new_weight, requires_grad=weight.requires_grad),
        Parameter(new_bias, requires_grad=bias is not None and bias.requires_grad),
    )
