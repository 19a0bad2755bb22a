"""Losses that compare a prediction with a target element by element: squared, absolute, likelihoods of several kinds.

The common ones are fused with their reduction: one primitive gives the mean, and its rule the whole gradient.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.devices import array_module
from ....core.errors import InvalidValue, describe
from ....core.primitive import Primitive, apply, operand
from ....core.tensor import Tensor, new_tensor
from ...reduce.common import divided
from ...table.composites import raw
from ...table.masks import KEEP
from ...table.registry import operator


def reduction_of(reduction: Any, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """The reduction asked for, by its name or by PyTorch's older pair of flags.

    Raises:
        ValueError: it is none of none, mean and sum.
    """
    if size_average is not None or reduce is not None:
        if reduce is False:
            reduction = "none"
        else:
            reduction = "sum" if size_average is False else "mean"
        warnings.warn(f"size_average and reduce are deprecated; use reduction={reduction!r} instead", stacklevel=4)
    if reduction not in ("none", "mean", "sum"):
        raise InvalidValue(f"{reduction} is not a valid value for reduction; wanted 'none', 'mean' or 'sum'")
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """The loss as it is, its mean, or its sum."""
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def _reduce(loss: Any, reduction: str) -> Any:
    if reduction == "none":
        return loss
    if loss.dtype == np.float16:  # neither sum nor count may overflow where the mean does not
        return _reduce(loss.astype(np.float32), reduction).astype(np.float16)
    total = loss.sum()
    return total if reduction == "sum" else total / total.dtype.type(loss.size)


def _share(g: Any, x: Any, reduction: str) -> Any:
    """What each element gets of the cotangent."""
    return divided(g, math.prod(x.shape)) if reduction == "mean" else g


def _sign(d: Any) -> Any:
    return np.sign(raw(d))


def _clipped(d: Any, limit: float) -> Any:
    """d between -limit and limit; the derivative outside, and at the limits, is 0."""
    if not isinstance(d, Tensor):
        return np.clip(d, -limit, limit)
    inside = np.abs(d.array) < limit
    outside = np.where(inside, 0, np.sign(d.array) * limit).astype(d.array.dtype)
    return KEEP(d, inside) + outside


def _quadratic_then_linear(d: Any, bound: float) -> Any:
    """``d^2 / 2`` within the bound, beyond it the tangent ``bound * (|d| - bound / 2)``."""
    a = np.abs(d)
    return np.where(a < bound, 0.5 * d * d, bound * (a - 0.5 * bound)).astype(d.dtype, copy=False)


def _difference(
    name: str, value: Callable[..., Any], derivative: Callable[..., Any], parameter: bool = False
) -> Primitive:
    """A loss of ``x - y``: its value and its derivative, both functions of the difference (and of one parameter)."""
    if parameter:
        return Primitive(
            name,
            lambda x, y, reduction, bound: _reduce(value(x - y, bound), reduction),
            "x y",
            [
                lambda g, x, y, reduction, bound: _share(g, x, reduction) * derivative(x - y, bound),
                lambda g, x, y, reduction, bound: -_share(g, x, reduction) * derivative(x - y, bound),
            ],
            promote="same",
            signals=True,
        )
    return Primitive(
        name,
        lambda x, y, reduction: _reduce(value(x - y), reduction),
        "x y",
        [
            lambda g, x, y, reduction: _share(g, x, reduction) * derivative(x - y),
            lambda g, x, y, reduction: -_share(g, x, reduction) * derivative(x - y),
        ],
        promote="same",
        signals=True,
    )


MSE = _difference("mse_loss", np.square, lambda d: 2 * d)
L1 = _difference("l1_loss", np.abs, _sign)  # the derivative at 0 is 0
SMOOTH_L1 = _difference(
    "smooth_l1_loss", lambda d, b: _quadratic_then_linear(d, b) / b, lambda d, b: _clipped(d, b) / b, parameter=True
)
HUBER = _difference("huber_loss", _quadratic_then_linear, _clipped, parameter=True)


def _logistic(x: Any) -> Any:
    """1 / (1 + exp(-x)), without overflow."""
    return np.tanh(x * 0.5) * 0.5 + 0.5


def _softplus(x: Any) -> Any:
    """log(1 + exp(x)), without overflow."""
    return np.maximum(x, 0) + np.log1p(np.exp(-np.abs(x)))


def _bce_with_logits(x: Any, y: Any, reduction: str) -> Any:
    """``log(1 + exp(x)) - x y``, without overflow, and without cancellation for sure labels: |x| counts if mistaken."""
    size = np.abs(x)
    return _reduce(size * np.where(x > 0, 1 - y, y) + np.log1p(np.exp(-size)), reduction)


BCE_WITH_LOGITS = Primitive(
    "binary_cross_entropy_with_logits",
    _bce_with_logits,
    "x y",
    [
        lambda g, x, y, reduction: _share(g, x, reduction) * (_logistic(x) - y),
        lambda g, x, reduction: -_share(g, x, reduction) * x,
    ],
    promote="same",
    signals=True,
)
SOFT_MARGIN = Primitive(
    "soft_margin_loss",
    lambda x, y, reduction: _reduce(_softplus(-x * y), reduction),
    "x y",
    [
        lambda g, x, y, reduction: -_share(g, x, reduction) * y * _logistic(-x * y),
        lambda g, x, y, reduction: -_share(g, x, reduction) * x * _logistic(-x * y),
    ],
    promote="same",
    signals=True,
)


def _bce(x: Any, y: Any, reduction: str) -> Any:
    # The logarithms are bounded by -100, so that the loss is finite (as PyTorch).
    limit = x.dtype.type(-100)
    return _reduce((y - 1) * np.maximum(np.log1p(-x), limit) - y * np.maximum(np.log(x), limit), reduction)


def _bce_vjp_x(g: Any, x: Any, y: Any, reduction: str) -> Any:
    return _share(g, x, reduction) * (x - y) / np.maximum(x * (1 - x), 1e-12)


def _bce_vjp_y(g: Any, x: Any, reduction: str) -> Any:
    return _share(g, x, reduction) * (np.log1p(-x) - np.log(x))


BCE = Primitive("binary_cross_entropy", _bce, "x y", [_bce_vjp_x, _bce_vjp_y], promote="strict", signals=True)


def floating(name: str, input: Any, argument: str = "input") -> Tensor:
    """The argument as a Tensor of floating numbers."""
    x = operand(input, argument)
    if x.array.dtype.kind != "f":
        raise NotImplementedError(f"wanted a floating {argument}, got {describe(x)}")
    return x


def same_size(name: str, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Prediction and target, broadcast (with PyTorch's warning) where their shapes differ."""
    if x.array.shape == y.array.shape:
        return x, y
    try:
        shape = np.broadcast_shapes(x.array.shape, y.array.shape)
    except ValueError:
        raise RuntimeError(f"input {describe(x)} and target {describe(y)} do not broadcast") from None
    warnings.warn(
        f"{name}: input {describe(x)} and target {describe(y)} differ in shape and are broadcast; is that meant?",
        stacklevel=5,
    )
    return x.expand(shape), y.expand(shape)


def _of_difference(
    name: str, primitive: Primitive, input: Any, target: Any, reduction: str, weight: Any, **params: Any
) -> Tensor:
    x, y = operand(input), operand(target, "target")
    if x.array.dtype.kind != "f" and y.array.dtype.kind != "f":
        raise NotImplementedError(f"wanted a floating input, got {describe(x)} and target {describe(y)}")
    shape = x.array.shape
    x, y = same_size(name, x, y)
    if weight is None:
        return apply(primitive, (x, y), {"reduction": reduction, **params})
    w = operand(weight, "weight")
    if w.array.shape != shape:
        raise InvalidValue(f"weight and input must have the same size, got {describe(w)} and {describe(x)}")
    loss = apply(primitive, (x, y), {"reduction": "none", **params}) * w
    if reduction == "mean" and primitive is not HUBER:  # PyTorch's huber_loss alone does not divide by the weights
        return loss.sum() / w.sum()
    return reduced(loss, reduction)


@operator(namespace="nn.functional", method=False, real=True)
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The squared error ``(input - target)^2``, its mean or sum; with ``weight`` the weighted one.

    Raises:
        ValueError: an unknown reduction, or a weight of another size.

    >>> F.mse_loss(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    tensor(2.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    return _of_difference("mse_loss", MSE, input, target, reduction, weight)


@operator(namespace="nn.functional", method=False, note="derivative 0 where input equals target")
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """The absolute error ``|input - target|``, its mean or sum; with ``weight`` the weighted one.

    Raises:
        ValueError: an unknown reduction, or a weight of another size.

    >>> F.l1_loss(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    tensor(1.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    return _of_difference("l1_loss", L1, input, target, reduction, weight)


@operator(namespace="nn.functional", method=False, real=True)
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """``d^2 / (2 beta)`` where ``|d| < beta``, else ``|d| - beta / 2``, for d = input - target (Girshick, 2015).

    Raises:
        RuntimeError: beta is negative.
        ValueError: an unknown reduction.

    >>> F.smooth_l1_loss(rg.tensor([0.0, 0.0]), rg.tensor([1.0, 4.0]), reduction="none")
    tensor([0.5, 3.5])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError(f"does not support negative values for beta, got {beta}")
    if beta == 0:
        return _of_difference("smooth_l1_loss", L1, input, target, reduction, None)
    return _of_difference("smooth_l1_loss", SMOOTH_L1, input, target, reduction, None, bound=beta)


@operator(namespace="nn.functional", method=False, real=True)
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """``d^2 / 2`` where ``|d| < delta``, else ``delta * (|d| - delta / 2)``, for d = input - target (Huber, 1964).

    Raises:
        RuntimeError: delta is not positive.
        ValueError: an unknown reduction, or a weight of another size.

    >>> F.huber_loss(rg.tensor([0.0, 0.0]), rg.tensor([1.0, 4.0]), delta=2.0, reduction="none")
    tensor([0.5, 6. ])
    """
    reduction = reduction_of(reduction)
    if delta <= 0:
        raise RuntimeError(f"does not support non-positive values for delta, got {delta}")
    return _of_difference("huber_loss", HUBER, input, target, reduction, weight, bound=delta)


@operator(namespace="nn.functional", method=False, note="logarithms bounded by -100")
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-(y log p + (1 - y) log(1 - p))`` for probabilities p and targets y; the logarithms are at least -100.

    Raises:
        ValueError: input and target differ in size; an unknown reduction.
        RuntimeError: an input is not between 0 and 1.

    >>> F.binary_cross_entropy(rg.tensor([0.5, 0.5]), rg.tensor([1.0, 0.0]))
    tensor(0.6931)
    """
    name = "binary_cross_entropy"
    reduction = reduction_of(reduction, size_average, reduce)
    x, y = floating(name, input), operand(target, "target")
    if x.array.shape != y.array.shape:
        raise InvalidValue(f"input {describe(x)} and target {describe(y)} must have the same size")
    if x.array.size and not bool(((x.array >= 0) & (x.array <= 1)).all()):
        raise RuntimeError(f"all elements of input should be between 0 and 1, in {describe(x)}")
    if weight is None:
        return apply(BCE, (x, y), {"reduction": reduction})
    w = operand(weight, "weight")
    return reduced(apply(BCE, (x, y), {"reduction": "none"}) * w, reduction)


@operator(namespace="nn.functional", method=False)
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """``-(pos_weight * y log p + (1 - y) log(1 - p))`` for p = sigmoid(input), accurate for logits of any size.

    Args:
        input: logits.
        target: of the same shape, in [0, 1].
        weight: a factor per element, broadcast.
        pos_weight: a factor for the positive term, broadcast.

    Raises:
        ValueError: input and target differ in size; an unknown reduction.

    >>> F.binary_cross_entropy_with_logits(rg.tensor([0.0, 1000.0]), rg.tensor([1.0, 1.0]))
    tensor(0.3466)
    """
    name = "binary_cross_entropy_with_logits"
    reduction = reduction_of(reduction, size_average, reduce)
    x, y = floating(name, input), operand(target, "target")
    if x.array.shape != y.array.shape:
        raise InvalidValue(f"target size {describe(y)} must be the same as input size {describe(x)}")
    if weight is None and pos_weight is None:
        return apply(BCE_WITH_LOGITS, (x, y), {"reduction": reduction})
    loss = apply(BCE_WITH_LOGITS, (x, y), {"reduction": "none"})
    if pos_weight is not None:
        # y log p has the factor pos_weight: once is in the loss, the rest is added.
        zero = new_tensor(array_module(x).zeros(x.array.shape, x.array.dtype))
        softplus = apply(BCE_WITH_LOGITS, (-x, zero), {"reduction": "none"})
        loss = loss + (operand(pos_weight, "pos_weight") - 1) * y * softplus
    if weight is not None:
        loss = loss * operand(weight, "weight")
    return reduced(loss, reduction)


@operator(namespace="nn.functional", method=False, real=True)
def soft_margin_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``log(1 + exp(-y x))`` for targets y of 1 and -1, accurate for inputs of any size.

    Raises:
        ValueError: an unknown reduction.

    >>> F.soft_margin_loss(rg.tensor([0.0, 100.0]), rg.tensor([1.0, -1.0]), reduction="none")
    tensor([  0.6931, 100.    ])
    """
    name = "soft_margin_loss"
    reduction = reduction_of(reduction, size_average, reduce)
    x, y = floating(name, input), operand(target, "target")
    if x.array.shape != y.array.shape:
        raise RuntimeError(f"input and target must have one shape, got {describe(x)} and {describe(y)}")
    return apply(SOFT_MARGIN, (x, y), {"reduction": reduction})


@operator(namespace="nn.functional", method=False, real=True)
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """The Kullback-Leibler divergence ``y (log y - x)`` of targets y from log-probabilities ``input`` = x.

    Args:
        input: log-probabilities.
        target: probabilities, or with ``log_target`` their logarithms.
        reduction: none, mean, sum, or ``"batchmean"``: the sum over the length of the first dimension, which is the
            divergence of distributions.

    Raises:
        ValueError: an unknown reduction.

    >>> F.kl_div(rg.tensor([[0.5, 0.5]]).log(), rg.tensor([[1.0, 0.0]]), reduction="batchmean")
    tensor(0.6931)
    """
    batchmean = reduction == "batchmean" and size_average is None and reduce is None
    reduction = reduction_of("sum" if batchmean else reduction, size_average, reduce)
    x, y = floating("kl_div", input), operand(target, "target")
    loss = y.exp() * (y - x) if log_target else y.xlogy(y) - y * x
    loss = reduced(loss, reduction)
    return loss / x.array.shape[0] if batchmean and x.array.ndim else loss


@operator(namespace="nn.functional", method=False, real=True)
def poisson_nll_loss(
    input: Tensor,
    target: Tensor,
    log_input: bool = True,
    full: bool = False,
    size_average: bool | None = None,
    eps: float = 1e-8,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """The negative log-likelihood of counts under a Poisson distribution: ``exp(x) - y x``, without ``log(y!)``.

    Args:
        input: the log of the rate; with ``log_input=False`` the rate: ``x - y log(x + eps)``.
        target: counts.
        full: add Stirling's approximation ``y log y - y + log(2 pi y) / 2`` of log(y!) where y > 1.

    Raises:
        ValueError: an unknown reduction.

    >>> F.poisson_nll_loss(rg.tensor([0.0]), rg.tensor([2.0]))
    tensor(1.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x, y = operand(input), operand(target, "target")
    loss = x.exp() - y * x if log_input else x - y * (eps + x).log()
    if full:
        large = y.array > 1
        safe = y.masked_fill(new_tensor(~large), 1.0)  # where no term is added, one that is finite
        stirling = safe * safe.log() - safe + 0.5 * (2 * math.pi * safe).log()
        loss = loss + stirling.masked_fill(new_tensor(~large), 0.0)
    return reduced(loss, reduction)


@operator(namespace="nn.functional", method=False, note="the gradient of var is that at max(var, eps)", real=True)
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """The negative log-likelihood of normal variables: ``(log v + (input - target)^2 / v) / 2``, v = max(var, eps).

    Args:
        input: means.
        var: variances: a number, of the input's shape, or without (or with 1 in) one of its dimensions.
        full: add the constant ``log(2 pi) / 2``.

    Raises:
        ValueError: a negative variance, one of another size, or an unknown reduction.

    >>> F.gaussian_nll_loss(rg.tensor([0.0]), rg.tensor([2.0]), rg.tensor([1.0]))
    tensor(2.)
    """
    x, y = operand(input), operand(target, "target")
    if isinstance(var, (int, float)):
        v = new_tensor(array_module(x).full(x.array.shape, var, x.array.dtype))
    else:
        v = operand(var, "var")
    if v.array.dtype.kind == "b":
        raise RuntimeError(f"bools cannot be a variance, got {describe(v)}")
    if v.array.size and bool((v.array < 0).any()):
        raise InvalidValue(f"var has negative entries, in {describe(v)}")
    shape = x.array.shape
    if v.array.shape != shape:
        if v.array.shape == shape[:-1]:
            v = v.unsqueeze(-1)
        elif len(shape) != v.array.ndim or [n for m, n in zip(shape, v.array.shape, strict=True) if m != n] != [1]:
            raise InvalidValue(f"var is of incorrect size: {describe(v)} for input {describe(x)}")
    if reduction not in ("none", "mean", "sum"):
        raise InvalidValue(f"{reduction} is not a valid value for reduction")
    v = v + (np.maximum(v.array, v.array.dtype.type(eps)) - v.array)
    loss = 0.5 * (v.log() + (x - y) * (x - y) / v)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)
