"""Normalization: batches, layers, groups, instances, root mean squares, and vectors to unit norm.

All but the last are one fused operator: with statistics over some axes,

    y = (x - mean) * rstd * weight + bias,        rstd = 1 / sqrt(var + eps)

which keeps x, mean and rstd, and whose backward kernel computes

    dx = rstd * (u - mean(u) - xhat * mean(u * xhat)),        u = dy * weight,  xhat = (x - mean) * rstd

(Ioffe and Szegedy, 2015; Ba, Kiros and Hinton, 2016). Without centring (rms_norm; Zhang and Sennrich, 2019) the means
of x and u are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from ...core.errors import InvalidValue, describe
from ...core.modes import no_grad
from ...core.primitive import Primitive, apply, operand
from ...core.summation import accurate_sum
from ...core.tensor import Tensor
from ...kernels import planes, rows, takes
from ..reduce.common import count
from ..table.arguments import dimension, integers, number
from ..table.composites import second_order, spread
from ..table.registry import operator


class Layout(NamedTuple):
    """How the fused operator reads its arrays.

    ``x`` is reshaped to ``view`` (None: as it is), its statistics are over ``axes``, and weight and bias are reshaped
    to ``affine`` (None: as they are), which broadcasts with the view.
    """

    view: tuple[int, ...] | None
    axes: tuple[int, ...]
    affine: tuple[int, ...] | None
    centred: bool = True


OVER_LAST = Layout(None, (-1,), None)


def _loops(layout: Layout, x: Any, *others: Any) -> Any:
    """The module of compiled loops that normalizes so, if one is to be used on these arrays."""
    module: Any
    if layout == OVER_LAST:
        module = rows
    elif layout.view is None and layout.axes[0] == 0 and count(x.shape[2:], None) >= planes.SHORTEST:
        module = planes
    else:
        return None
    return module if takes(x, *[array for array in others if array is not None]) else None


def _viewed(x: Any, layout: Layout) -> Any:
    """x laid out for its statistics, in single precision at least."""
    if x.dtype == np.float16:
        x = x.astype(np.float32)
    return x if layout.view is None else x.reshape(layout.view)


def _broadcastable(w: Any, layout: Layout) -> Any:
    return w if layout.affine is None else w.reshape(layout.affine)


def _mean(x: Any, axes: tuple[int, ...]) -> Any:
    """The mean over the axes, which are kept."""
    return accurate_sum(x, tuple([axis % x.ndim for axis in axes]), True) / x.dtype.type(count(x.shape, axes))


def _forward(x: Any, w: Any, b: Any, layout: Layout, eps: float) -> tuple[Any, Any, Any]:
    loops = _loops(layout, x, w, b)
    if loops:
        return loops.normalize(x, w, b, eps)
    view = _viewed(x, layout)
    mean = None
    if layout.centred:
        mean = _mean(view, layout.axes)
        y = view - mean
        rstd = 1 / np.sqrt(_mean(np.square(y), layout.axes) + view.dtype.type(eps))
        y *= rstd
    else:
        rstd = 1 / np.sqrt(_mean(np.square(view), layout.axes) + view.dtype.type(eps))
        y = view * rstd
    if w is not None:
        y *= _broadcastable(w, layout)
    if b is not None:
        y += _broadcastable(b, layout)
    return y.reshape(x.shape).astype(x.dtype, copy=False), mean, rstd


def _backward(
    dy: Any, x: Any, w: Any, b: Any, mean: Any, rstd: Any, layout: Layout, eps: float, wanted: tuple[bool, ...]
) -> tuple[Any, ...]:
    """The gradients of the wanted ones among x, w and b."""
    loops = _loops(layout, x, w, dy)
    if loops:
        found = loops.normalize_backward(dy, x, w, mean, rstd)
        return tuple([gradient for gradient, want in zip(found, wanted, strict=True) if want])
    u = _viewed(dy, layout)
    view = _viewed(x, layout)
    xhat = view - mean if layout.centred else view
    xhat = xhat * rstd
    gradients = []
    if wanted[1]:
        gradients.append(_sum_to(u * xhat, w, layout))
    if wanted[2]:
        gradients.append(_sum_to(u, b, layout))
    if wanted[0]:
        if w is not None:
            u = u * _broadcastable(w, layout)
        xhat *= _mean(u * xhat, layout.axes)
        du = u - xhat
        if layout.centred:
            du -= _mean(u, layout.axes)
        du *= rstd
        gradients.insert(0, du.reshape(x.shape).astype(x.dtype, copy=False))
    return tuple(gradients)


def _sum_to(g: Any, w: Any, layout: Layout) -> Any:
    """Sum over the axes along which weight or bias was broadcast."""
    shape = w.shape if layout.affine is None else layout.affine
    extra = g.ndim - len(shape)
    axes = tuple(range(extra)) + tuple(extra + i for i, n in enumerate(shape) if n == 1 and g.shape[extra + i] != 1)
    return (accurate_sum(g, axes) if axes else g.copy()).reshape(w.shape).astype(w.dtype, copy=False)


def _composite(x: Tensor, w: Tensor | None, b: Tensor | None, layout: Layout, eps: float) -> Tensor:
    y = x if layout.view is None else x.reshape(layout.view)
    if layout.centred:
        y = y - y.mean(layout.axes, keepdim=True)
    y = y / ((y * y).mean(layout.axes, keepdim=True) + eps).sqrt()
    if w is not None:
        y = y * (w if layout.affine is None else w.reshape(layout.affine))
    if b is not None:
        y = y + (b if layout.affine is None else b.reshape(layout.affine))
    return y.reshape(x.shape)


def _fused(name: str) -> Primitive:
    """The fused operator under a name of its own, for graphs and errors."""
    kernel = Primitive(
        name + "_backward",
        _backward,
        "dy x w b",
        vjp=lambda g, dy, x, w, b, layout, eps, wanted, needs: second_order(
            partial(_composite, layout=layout, eps=eps), g, dy, (x, w, b), wanted, needs
        ),
        outputs=-1,
    )
    return Primitive(
        name,
        _forward,
        "x w b",
        vjp=lambda g, x, w, b, mean, rstd, layout, eps, needs: spread(
            kernel(g, x, w, b, mean=mean, rstd=rstd, layout=layout, eps=eps, wanted=needs), needs
        ),
        residuals="mean rstd",
        signals=True,
    )


LAYER_NORM = _fused("layer_norm")
RMS_NORM = _fused("rms_norm")
GROUP_NORM = _fused("group_norm")
BATCH_NORM = _fused("batch_norm")
INSTANCE_NORM = _fused("instance_norm")


def _input(input: Any) -> Tensor:
    x = operand(input)
    if x.array.dtype.kind != "f":
        raise NotImplementedError(f"wanted a floating input, got {describe(x)}")
    return x


def _affine(argument: str, value: Any, x: Tensor, shape: tuple[int, ...], meaning: str) -> Tensor | None:
    """A weight or bias, checked against the shape it must have."""
    if value is None:
        return None
    w = operand(value, argument)
    if w.array.shape != shape:
        raise RuntimeError(f"wanted {argument} of shape {shape}, {meaning}, got {describe(w)} for {describe(x)}")
    if w.array.dtype != x.array.dtype and (x.array.dtype.itemsize != 2 or w.array.dtype != np.float32):
        raise RuntimeError(f"wanted {argument} in the dtype of the input, got {describe(w)} for {describe(x)}")
    return w


def _normalized_shape(x: Tensor, normalized_shape: Any) -> tuple[int, ...]:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    if not shape:
        raise RuntimeError(f"wanted a normalized_shape of at least one dimension, got {normalized_shape}")
    if x.array.shape[max(x.array.ndim - len(shape), 0) :] != shape:
        shape = integers(shape, "normalized_shape")
        raise RuntimeError(f"wanted an input (*, {', '.join(map(str, shape))}) for normalized_shape, got {describe(x)}")
    return shape


@operator(namespace="nn.functional", method=False)
def layer_norm(
    input: Tensor,
    normalized_shape: Sequence[int],
    weight: Tensor | None = None,
    bias: Tensor | None = None,
    eps: float = 1e-5,
) -> Tensor:
    """``(x - mean) / sqrt(var + eps) * weight + bias``, statistics per example (Ba, Kiros and Hinton, 2016).

    Args:
        input: ``(*, *normalized_shape)``.
        normalized_shape: the trailing dimensions that mean and (biased) variance are taken over.
        weight, bias: factors and offsets of that shape.
        eps: added to the variance.

    Raises:
        RuntimeError: the shapes do not match.

    >>> F.layer_norm(rg.tensor([[1.0, 3.0], [10.0, 30.0]]), (2,))
    tensor([[-1.,  1.],
            [-1.,  1.]])
    """
    x = _input(input)
    shape = _normalized_shape(x, normalized_shape)
    w = _affine("weight", weight, x, shape, "the normalized shape")
    b = _affine("bias", bias, x, shape, "the normalized shape")
    layout = Layout(None, tuple(range(-len(shape), 0)), None)
    return apply(LAYER_NORM, (x, w, b), {"layout": layout, "eps": number(eps, "eps")})


@operator(namespace="nn.functional", method=False)
def rms_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None = None, eps: float | None = None
) -> Tensor:
    """``x / sqrt(mean(x^2) + eps) * weight`` (Zhang and Sennrich, 2019); eps is by default the machine epsilon.

    Args:
        input: ``(*, *normalized_shape)``.
        normalized_shape: the trailing dimensions that the mean is taken over.
        weight: factors of that shape.
        eps: added to the mean square.

    Raises:
        RuntimeError: the shapes do not match.

    >>> F.rms_norm(rg.tensor([[3.0, 3.0, -3.0]]), (3,))
    tensor([[ 1.,  1., -1.]])
    """
    x = _input(input)
    shape = _normalized_shape(x, normalized_shape)
    w = _affine("weight", weight, x, shape, "the normalized shape")
    layout = Layout(None, tuple(range(-len(shape), 0)), None, centred=False)
    eps = float(np.finfo(x.array.dtype).eps) if eps is None else number(eps, "eps")
    return apply(RMS_NORM, (x, w, None), {"layout": layout, "eps": eps})


@operator(namespace="nn.functional", method=False)
def group_norm(
    input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None, eps: float = 1e-5
) -> Tensor:
    """Normalize each example's groups of channels: statistics over ``C / num_groups`` channels (Wu and He, 2018).

    Args:
        input: ``(N, C, *)``.
        num_groups: a divisor of C.
        weight, bias: factors and offsets per channel, ``(C,)``.
        eps: added to the variance.

    Raises:
        RuntimeError: ``num_groups`` does not divide C, or the shapes do not match.
        ValueError: a group has a single value.

    >>> F.group_norm(rg.tensor([[1.0, 3.0, 10.0, 30.0]]), 2)
    tensor([[-1.,  1., -1.,  1.]])
    """
    x = _input(input)
    if x.array.ndim < 2:
        raise RuntimeError(f"wanted an input (N, C, *), got {describe(x)}")
    n, c = x.array.shape[:2]
    if num_groups < 1 or c % num_groups:
        raise RuntimeError(f"num_groups={num_groups} does not divide the channels of {describe(x)}")
    w = _affine("weight", weight, x, (c,), "one per channel")
    b = _affine("bias", bias, x, (c,), "one per channel")
    per_channel = int(np.prod(x.array.shape[2:], dtype=np.int64))
    if n * (c // num_groups) * per_channel == 1:
        raise InvalidValue(f"expected more than 1 value per channel when training, got {describe(x)}")
    group = c // num_groups
    layout = Layout((n, num_groups, group, per_channel), (2, 3), (1, num_groups, group, 1))
    return apply(GROUP_NORM, (x, w, b), {"layout": layout, "eps": number(eps, "eps")})


def _check_running(argument: str, value: Tensor | None, channels: int) -> None:
    if value is not None and value.array.shape != (channels,):
        raise RuntimeError(f"{argument} should contain {channels} elements, one per channel, got {describe(value)}")


def _moments(x: Any, axes: tuple[int, ...]) -> tuple[Any, Any, int]:
    """Mean and sum of squared deviations over the axes, and how many numbers went into each."""
    if x.dtype == np.float16:
        x = x.astype(np.float32)
    if axes[0] == 0 and takes(x) and count(x.shape[2:], None) >= planes.SHORTEST:
        return *planes.moments(x), count(x.shape, axes)
    mean = _mean(x, axes)
    return mean, accurate_sum(np.square(x - mean), axes), count(x.shape, axes)


def _update_running(
    x: Tensor, axes: tuple[int, ...], running_mean: Tensor | None, running_var: Tensor | None, momentum: float
) -> None:
    """``running = (1 - momentum) * running + momentum * statistic``, with the unbiased variance."""
    if x.array.size == 0:
        return
    mean, squares, number = _moments(x.array, axes)
    mean = mean.reshape(squares.shape)
    variance = squares / max(number - 1, 1) if number > 1 else squares * np.nan
    if mean.ndim == 2:  # instance_norm: the average over the batch
        mean, variance = mean.mean(axis=0), variance.mean(axis=0)
    with no_grad():
        for running, statistic in ((running_mean, mean), (running_var, variance)):
            if running is not None:
                dtype = running.array.dtype
                running.mul_(1 - momentum).add_((momentum * statistic).astype(dtype, copy=False))


def _scaled(x: Tensor, mean: Tensor, var: Tensor, w: Tensor | None, b: Tensor | None, eps: float) -> Tensor:
    """Normalize with given statistics: a factor and an offset per channel."""
    channels = (1, x.array.shape[1]) + (1,) * (x.array.ndim - 2)
    scale = (var + eps).rsqrt()
    if w is not None:
        scale = scale * w
    shift = -mean * scale
    if b is not None:
        shift = shift + b
    result = x * scale.reshape(channels) + shift.reshape(channels)
    return result if result.array.dtype == x.array.dtype else result.astype(x.array.dtype)


@operator(namespace="nn.functional", method=False)
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
    """``(x - mean) / sqrt(var + eps) * weight + bias`` per channel (Ioffe and Szegedy, 2015).

    In training the statistics are those of the batch (with the biased variance), and the running ones are updated in
    place, ``running = (1 - momentum) * running + momentum * batch``, with the unbiased variance. Otherwise the running
    ones serve.

    Args:
        input: ``(N, C, *)``.
        running_mean, running_var: ``(C,)``, both or neither.
        weight, bias: ``(C,)``.

    Raises:
        RuntimeError: the shapes do not match, or the running statistics are missing when not training.
        ValueError: a channel has a single value in training, or eps is negative.

    >>> F.batch_norm(rg.tensor([[1.0, 10.0], [3.0, 30.0]]), None, None, training=True)
    tensor([[-1., -1.],
            [ 1.,  1.]])
    """
    x = _input(input)
    shape = x.array.shape
    if len(shape) < 2:
        raise IndexError(f"wanted an input (N, C, *), got {describe(x)}")
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
    elif running_mean is None or running_var is None:
        raise RuntimeError("running_mean and running_var must be defined in evaluation mode")
    _check_running("running_mean", running_mean, channels)
    _check_running("running_var", running_var, channels)
    w = _affine("weight", weight, x, (channels,), "one per channel")
    b = _affine("bias", bias, x, (channels,), "one per channel")
    if not training:
        assert running_mean is not None and running_var is not None
        return _scaled(x, running_mean, running_var, w, b, eps)
    axes = (0, *range(2, len(shape)))
    if running_mean is not None:
        _update_running(x, axes, running_mean, running_var, momentum)
    layout = Layout(None, axes, (1, channels) + (1,) * (len(shape) - 2))
    return apply(BATCH_NORM, (x, w, b), {"layout": layout, "eps": eps})


@operator(namespace="nn.functional", method=False)
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
    """``(x - mean) / sqrt(var + eps) * weight + bias`` per example and channel (Ulyanov et al., 2016).

    With ``use_input_stats`` the statistics are over the spatial dimensions of each example, and the running ones, where
    given, are updated with their average over the batch; otherwise the running ones serve.

    Args:
        input: ``(N, C, *)``.
        running_mean, running_var, weight, bias: ``(C,)``.

    Raises:
        ValueError: there is a single value per example and channel.
        RuntimeError: the shapes do not match, or statistics are missing.

    >>> F.instance_norm(rg.tensor([[[1.0, 3.0], [10.0, 30.0]]]))
    tensor([[[-1.,  1.],
             [-1.,  1.]]])
    """
    x = _input(input)
    shape = x.array.shape
    spatial = int(np.prod(shape[2:], dtype=np.int64))
    if use_input_stats and (len(shape) < 2 or spatial == 1):
        raise InvalidValue(f"expected more than 1 spatial element when training, got {describe(x)}")
    if len(shape) < 2:
        raise IndexError(f"wanted an input (N, C, *), got {describe(x)}")
    channels = shape[1]
    _check_running("running_mean", running_mean, channels)
    _check_running("running_var", running_var, channels)
    w = _affine("weight", weight, x, (channels,), "one per channel")
    b = _affine("bias", bias, x, (channels,), "one per channel")
    if not use_input_stats:
        if running_mean is None or running_var is None:
            raise RuntimeError("expected running_mean and running_var to be defined when use_input_stats=False")
        return _scaled(x, running_mean, running_var, w, b, eps)
    axes = tuple(range(2, len(shape)))
    if running_mean is not None or running_var is not None:
        _update_running(x, axes, running_mean, running_var, momentum)
    layout = Layout(None, axes, (1, channels) + (1,) * (len(shape) - 2))
    return apply(INSTANCE_NORM, (x, w, b), {"layout": layout, "eps": number(eps, "eps")})


@operator(namespace="nn.functional", method=False, note="zero vectors stay zero, with gradient g / eps")
def normalize(input: Tensor, p: float = 2.0, dim: int = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """``x / max(||x||_p, eps)``: vectors along ``dim`` scaled to unit p-norm.

    Raises:
        IndexError: ``dim`` is out of range.

    >>> F.normalize(rg.tensor([[3.0, 4.0]]))
    tensor([[0.6, 0.8]])
    """
    x = operand(input)
    if not isinstance(dim, (tuple, list)):
        dim = dimension(dim, x.array.ndim)
    result = x / x.norm(p, dim, keepdim=True).clamp(min=eps)
    if out is None:
        return result
    return out.copy_(result)
