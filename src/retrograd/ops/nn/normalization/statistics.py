"""Normalization by mean and variance: of layers, groups, batches and instances, and by root mean squares."""

from __future__ import annotations

from functools import cache
from math import prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import all_examples, array_module
from ....core.arrays.dtypes import conversion_advice, float32, precision
from ....core.arrays.fp_warnings import silently
from ....core.arrays.summation import accurate_sum
from ....core.errors import InvalidValue, describe
from ....core.graph.modes import modes, watchers
from ....core.graph.primitive import Primitive, apply, operand
from ....core.opaque_calls import whole
from ....core.tensor.mutation import apply_inplace, memory_of_its_own
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels import SEVERAL, or_reference, suits, takes, takes_halves
from ....kernels.loops.statistics import norms
from ...math.arithmetic import ADD, MUL
from ...math.powers import RSQRT
from ...reduce.common import count
from ...reduce.reductions import SUM
from ...table.arguments import floating_operand, integers, number
from ...table.batching import composed
from ...table.blocks import wide
from ...table.registry import operator
from ...table.types import Operand, Size
from .fused import BATCH_NORM, GROUP_NORM, INSTANCE_NORM, LAYER_NORM, RMS_NORM, Layout, mean_over

# Given statistics, as in batch norm in evaluation mode, are a factor and an offset per channel:
# y = x * scale + shift, with scale = weight / sqrt(var + eps) and shift = bias - mean * scale.


def _channels(x: Array) -> tuple[int, ...]:
    return (1, x.shape[1]) + (1,) * (x.ndim - 2)


def _scale(var: Array, w: Array | None, eps: float) -> Array:
    rstd = RSQRT(var + eps)
    return rstd if w is None else rstd * w


def normalized(x: Any, mean: Any, var: Any, w: Any, b: Any, eps: float) -> Any:
    """Return ``x * scale + shift``, for arrays or, by operators, for Tensors."""
    scale = _scale(var, w, eps)
    shift = -mean * scale
    if b is not None:
        shift = shift + b
    channels = _channels(x)
    out = ADD(MUL(x, scale.reshape(channels)), shift.reshape(channels))
    return out if out.dtype == x.dtype else out.astype(x.dtype)


def _sum(g: Array) -> Array:
    return SUM(g, dim=(0, *range(2, g.ndim)), keepdim=False)


def _moment(g: Array, x: Array, mean: Array) -> Array:
    """Return the sum per channel of g times the deviation from the mean."""
    return _sum(g * (x - mean.reshape(_channels(x))))


GIVEN_NORM = Primitive(
    "batch_norm_given",
    normalized,
    "x mean var w b",
    [
        lambda g, var, w, eps: MUL(g, _scale(var, w, eps).reshape(_channels(g))),
        lambda g, var, w, eps: -_sum(g) * _scale(var, w, eps),
        lambda g, x, mean, var, w, eps: _moment(g, x, mean) * _scale(var, w, eps) / (var + eps) * -0.5,
        lambda g, x, mean, var, eps: _moment(g, x, mean) * RSQRT(var + eps),
        _sum,
    ],
    signals=True,
    piecewise_linear=True,
    contiguous=True,
    batch=composed(normalized),
    bfloat16="first",
)


def _affine(argument: str, value: Operand | None, x: Tensor, shape: tuple[int, ...], meaning: str) -> Tensor | None:
    """Check that a weight or bias has the expected shape and dtype, and return it as a Tensor."""
    if value is None:
        return None
    w = operand(value, argument)
    if w.array.shape != shape:
        raise RuntimeError(f"expected {argument} of shape {shape}, {meaning}, got {describe(w)} for {describe(x)}")
    if w.array.dtype != x.array.dtype and (x.array.dtype.itemsize != 2 or w.array.dtype != np.float32):
        given = f"{describe(w)} for {describe(x)}{conversion_advice(x, w)}"
        raise RuntimeError(f"expected {argument} in the dtype of the input, got {given}")
    return w


@cache
def _of_last_axes(count: int, centered: bool) -> Layout:
    return Layout(None, tuple(range(-count, 0)), None, centered)


def _normalized_shape(x: Tensor, normalized_shape: Size) -> tuple[int, ...]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape:
        raise RuntimeError(f"expected a normalized_shape of at least one dimension, got {normalized_shape}")
    if x.array.shape[max(x.array.ndim - len(shape), 0) :] != shape:
        shape = integers(shape, "normalized_shape")
        raise RuntimeError(f"expected input (*, {', '.join(map(str, shape))}) for normalized_shape, got {describe(x)}")
    return shape


@operator(namespace="nn.functional", method=False, raises="dtypes, real")
def layer_norm(
    input: Tensor, normalized_shape: Size, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with the mean and the biased variance of each example.

    Squares that overflow float32 are recomputed in double precision. On a GPU, in small compiled steps, and if squares
    overflow double precision, the result is NaN instead.

    Derivative: input: ``rstd (u - mean(u) - xhat mean(u xhat))`` with ``u = g weight``, ``rstd = 1 / sqrt(var + eps)``
    and ``xhat = (x - mean) rstd``; weight: the sum of ``g xhat`` over the examples; bias: the sum of ``g``.
    Shape: ``(*, *normalized_shape)``; the result has the input's shape.
    Dtype: real floating, preserved; weight and bias have the input's dtype, or are float32 for float16 and bfloat16.

    Args:
        normalized_shape: the lengths of the trailing dimensions over which mean and variance are computed.
        weight, bias: factors and offsets of shape ``normalized_shape``; by default none.
        eps: added to the variance.

    Source: Ba, Kiros, Hinton, "Layer normalization", 2016.

    >>> F.layer_norm(rg.tensor([[1.0, 3.0], [10.0, 30.0]]), (2,))
    tensor([[-1.,  1.],
            [-1.,  1.]])
    """
    x = floating_operand(input)
    shape = _normalized_shape(x, normalized_shape)
    w = _affine("weight", weight, x, shape, "the normalized shape")
    b = _affine("bias", bias, x, shape, "the normalized shape")
    layout = _of_last_axes(len(shape), True)
    return apply(LAYER_NORM, (x, w, b), {"layout": layout, "eps": number(eps, "eps")})


@operator(namespace="nn.functional", method=False, like=layer_norm)
def rms_norm(input: Tensor, normalized_shape: Size, weight: Tensor | None = None, eps: float | None = None) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * weight`` with the mean of each example.

    Derivative: input: ``r (u - xhat mean(u xhat))`` with ``u = g weight``, ``r = 1 / sqrt(mean(x^2) + eps)`` and
    ``xhat = x r``; weight: the sum of ``g xhat`` over the examples.
    Dtype: real floating, preserved; weight is converted to the input's dtype.

    Args:
        normalized_shape: the lengths of the trailing dimensions over which the mean is computed.
        weight: factors of shape ``normalized_shape``; by default none.
        eps: added to the mean square, by default the machine epsilon of the input's dtype (of float32 for float16 and
            bfloat16).

    Source: Zhang, Sennrich, "Root mean square layer normalization", 2019.

    >>> F.rms_norm(rg.tensor([[3.0, 3.0, -3.0]]), (3,))
    tensor([[ 1.,  1., -1.]])
    """
    x = floating_operand(input)
    shape = _normalized_shape(x, normalized_shape)
    if weight is not None and (given := operand(weight, "weight")).array.dtype != x.array.dtype:
        weight = given.to(x.array.dtype)
    w = _affine("weight", weight, x, shape, "the normalized shape")
    layout = _of_last_axes(len(shape), False)
    if eps is None:
        eps = precision(float32 if x.array.dtype.itemsize == 2 else x.array.dtype)
    eps = number(eps, "eps")
    return apply(RMS_NORM, (x, w, None), {"layout": layout, "eps": eps})


@operator(
    namespace="nn.functional", method=False, shape="channels", like=layer_norm, args="weight and bias per channel"
)
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with the statistics of each example's groups of channels.

    Derivative: that of ``layer_norm``, with means over a group; weight and bias: sums over all dimensions but the
    channels.

    Args:
        num_groups: the number of groups; divides C.
        eps: added to the (biased) variance.

    Raises:
        RuntimeError: ``num_groups`` does not divide C, or the shapes or dtypes do not match.
        ValueError: a group has a single value.

    Source: Wu, He, "Group normalization", 2018.

    >>> F.group_norm(rg.tensor([[1.0, 3.0, 10.0, 30.0]]), 2)
    tensor([[-1.,  1., -1.,  1.]])
    """
    x = floating_operand(input)
    if x.array.ndim < 2:
        raise RuntimeError(f"expected an input (N, C, *), got {describe(x)}")
    n, c = x.array.shape[:2]
    if num_groups < 1 or c % num_groups:
        raise RuntimeError(f"num_groups={num_groups} does not divide the channels of {describe(x)}")
    w = _affine("weight", weight, x, (c,), "one per channel")
    b = _affine("bias", bias, x, (c,), "one per channel")
    per_channel = prod(x.array.shape[2:])
    if n * (c // num_groups) * per_channel == 1:
        raise InvalidValue(f"expected more than 1 value per channel when training, got {describe(x)}")
    group = c // num_groups
    layout = Layout((n, num_groups, group, per_channel), (2, 3), (1, num_groups, group, 1))
    return apply(GROUP_NORM, (x, w, b), {"layout": layout, "eps": number(eps, "eps")})


def _check_running(argument: str, value: Tensor | None, channels: int) -> None:
    if value is not None and value.array.shape != (channels,):
        raise RuntimeError(f"{argument} should contain {channels} elements, one per channel, got {describe(value)}")


@whole
def _moments(x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
    if axes[0] == 0 and (takes(x, least=SEVERAL) or takes_halves(x)) and norms.along_channels(x):
        return norms.channel_moments(x)
    x = wide(x)
    mean = mean_over(x, axes)
    squares = accurate_sum(np.square(x - mean), axes)
    if x.dtype == np.float32 and array_module(x) is np and not np.isfinite(squares).all():
        return _moments(x.astype(np.float64), axes)  # NaN if squares overflow, as in the fused operator
    return mean.reshape(squares.shape), squares


@or_reference
def _moments_and_running(
    x: Tensor, axes: tuple[int, ...], running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> tuple[Array, Array] | None:
    """Compute ``_moments`` with a loop that also updates the running statistics; None if the loop cannot be used."""
    if watchers or running_mean is None or running_var is None or running_mean is running_var or axes[0] != 0:
        return None
    arrays = x.array, running_mean.array, running_var.array
    halves = takes_halves(x.array) and all(map(suits, arrays[1:]))
    if not (halves or takes(*arrays, least=SEVERAL)) or not norms.along_channels(x.array):
        return None
    running = memory_of_its_own(running_mean), memory_of_its_own(running_var)
    return None if running[0] is None or running[1] is None else norms.channel_moments(x.array, running, momentum)


@silently
def _update_running(
    x: Tensor, axes: tuple[int, ...], running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> dict[str, object]:
    """``running = (1 - momentum) * running + momentum * statistic``, with the unbiased variance.

    Return the moments as an argument of the fused operator, so that they are not computed twice.
    """
    if x.array.size == 0:
        return {}
    at_once = _moments_and_running(x, axes, running_mean, running_var, momentum)
    if at_once is not None:
        return {"moments": at_once}
    mean, squares = moments = _moments(x.array, axes)
    number = count(x.array.shape, axes)
    variance = squares / max(number - 1, 1) if number > 1 else squares * np.nan
    if mean.ndim == 2:  # instance_norm: the average over the batch
        mean, variance = mean.mean(axis=0), variance.mean(axis=0)
    for running, statistic in ((running_mean, mean), (running_var, variance)):
        if running is not None:
            share = (momentum * statistic).astype(running.array.dtype, copy=False)
            kept = running.detach() if running._requires else running
            apply_inplace(MUL, kept, 1 - momentum)
            apply_inplace(ADD, kept, share)
    traced = modes.tracer is not None and x.device.type == "cpu" and all_examples(moments[0]) is moments[0]
    return {"moments": moments} if traced or type(moments[0]) is np.ndarray else {}


@cache
def _of_channels(ndim: int, channels: int) -> Layout:
    return Layout(None, (0, *range(2, ndim)), (1, channels) + (1,) * (ndim - 2))


def _normalize_with(x: Tensor, mean: Tensor, var: Tensor, w: Tensor | None, b: Tensor | None, eps: float) -> Tensor:
    if watchers and modes.tracer is not None:  # the compiler fuses plain operators with those around them
        return normalized(x, mean, var, w, b, float(number(eps, "eps")))
    return apply(GIVEN_NORM, (x, mean, var, w, b), {"eps": float(number(eps, "eps"))})


@operator(
    namespace="nn.functional", method=False, shape="channels", like=layer_norm, args="weight and bias per channel"
)
def batch_norm(
    input: Tensor,
    running_mean: Tensor | None,
    running_var: Tensor | None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    training: bool = False,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with the statistics of each channel.

    In training the statistics are computed from the batch (with the biased variance), and the running statistics are
    updated in place, ``running = (1 - momentum) * running + momentum * batch``, with the unbiased variance. Otherwise
    the running statistics are used.

    Derivative: in training that of ``layer_norm``, with means over a channel, and none for the running statistics; else
    the derivative of the formula. weight and bias: sums over all dimensions but the channels.

    Args:
        running_mean, running_var: the running statistics, ``(C,)``; pass both or neither.
        training: compute the statistics from the batch.
        momentum: the share of the batch in the updated statistics.

    Raises:
        RuntimeError: shapes or dtypes do not match, or the running statistics are missing when not training.
        ValueError: a channel has a single value in training, or ``eps`` is negative (in training: not positive).
        IndexError: the input has fewer than two dimensions.

    Source: Ioffe, Szegedy, "Batch normalization", 2015.

    >>> F.batch_norm(rg.tensor([[1.0, 10.0], [3.0, 30.0]]), None, None, training=True)
    tensor([[-1., -1.],
            [ 1.,  1.]])
    """
    x = floating_operand(input)
    shape = x.array.shape
    if len(shape) < 2:
        if shape != (0,):
            raise IndexError(f"expected an input (N, C, *), got {describe(x)}")
        return x * 1  # as in PyTorch, a vector without elements is accepted
    channels = shape[1]
    if training:
        if eps <= 0:
            raise InvalidValue(f"eps must be positive during training, got {eps}")
        if shape[0] * count(shape[2:], None) == 1:
            raise InvalidValue(f"expected more than 1 value per channel when training, got {describe(x)}")
        if (running_mean is None) != (running_var is None):
            raise InvalidValue("running_mean and running_var must either both be None or neither be None")
    elif eps < 0:
        raise InvalidValue(f"eps must be non-negative, got {eps}")
    elif (running_mean is None or running_var is None) and x.array.size:
        raise RuntimeError(
            "running_mean and running_var must be defined in evaluation mode; pass both, or training=True"
        )
    _check_running("running_mean", running_mean, channels)
    _check_running("running_var", running_var, channels)
    w = _affine("weight", weight, x, (channels,), "one per channel")
    b = _affine("bias", bias, x, (channels,), "one per channel")
    if not training:
        if running_mean is None or running_var is None:  # the input is empty, so the statistics are not used
            running_mean = running_var = new_tensor(array_module(x).ones(channels, x.array.dtype))
        return _normalize_with(x, running_mean, running_var, w, b, eps)
    layout = _of_channels(len(shape), channels)
    known = {} if running_mean is None else _update_running(x, layout.axes, running_mean, running_var, momentum)
    return apply(BATCH_NORM, (x, w, b), {"layout": layout, "eps": eps, **known})


@operator(
    namespace="nn.functional", method=False, shape="channels", like=layer_norm, args="weight and bias per channel"
)
def instance_norm(
    input: Tensor,
    running_mean: Tensor | None = None,
    running_var: Tensor | None = None,
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    use_input_stats: bool = True,
    momentum: float = 0.1,
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias`` with the statistics of each example's channels.

    With ``use_input_stats`` the statistics are computed over the spatial dimensions, and running statistics, if given,
    are updated with the average over the batch; otherwise the running statistics are used.

    Derivative: that of ``batch_norm``, with means over one channel of one example.

    Args:
        running_mean, running_var: the running statistics, ``(C,)``; may be None with ``use_input_stats``.
        use_input_stats: compute the statistics from the input.
        momentum: the share of the input in the updated statistics.

    Raises:
        ValueError: there is a single value per example and channel.
        RuntimeError: shapes or dtypes do not match, or statistics are missing.

    Source: Ulyanov, Vedaldi, Lempitsky, "Instance normalization", 2016.

    >>> F.instance_norm(rg.tensor([[[1.0, 3.0], [10.0, 30.0]]]))
    tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """
    x = floating_operand(input)
    shape = x.array.shape
    spatial = prod(shape[2:])
    if use_input_stats and (len(shape) < 2 or spatial == 1):
        raise InvalidValue(f"expected more than 1 spatial element when training, got {describe(x)}")
    if len(shape) < 2:
        raise IndexError(f"expected an input (N, C, *), got {describe(x)}")
    channels = shape[1]
    _check_running("running_mean", running_mean, channels)
    _check_running("running_var", running_var, channels)
    w = _affine("weight", weight, x, (channels,), "one per channel")
    b = _affine("bias", bias, x, (channels,), "one per channel")
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("expected running_mean and running_var to be defined when use_input_stats=False")
        return _normalize_with(x, running_mean, running_var, w, b, eps)
    axes = tuple(range(2, len(shape)))
    if running_mean is not None or running_var is not None:
        _update_running(x, axes, running_mean, running_var, momentum)
    layout = Layout(None, axes, (1, channels) + (1,) * (len(shape) - 2))
    return apply(INSTANCE_NORM, (x, w, b), {"layout": layout, "eps": number(eps, "eps")})
