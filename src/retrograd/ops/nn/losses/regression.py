"""Regression losses: squared and absolute differences, Poisson and Gaussian likelihoods.

Losses of a difference are fused with their reduction: one primitive computes the mean, its rule the complete gradient.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import all_examples, array_module
from ....core.arrays.dtypes import FLOATING
from ....core.arrays.layout import broadcast_shapes
from ....core.errors import InvalidValue, describe
from ....core.graph.primitive import Primitive, apply, operand
from ....core.source_location import user_level
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels.loops.elements import elementwise
from ...table.batching import summed_up
from ...table.composites import raw
from ...table.elementwise_primitives import KEEP
from ...table.registry import operator
from ...table.types import Operand
from .reduction import reduced, reduced_array, reduction_of, share_of


def _clipped(d: Array, limit: float) -> Array:
    """Clip d to [-limit, limit]; outside and at the limits the derivative is 0."""
    if not isinstance(d, Tensor):
        return np.clip(d, -limit, limit)
    inside = np.abs(d.array) < limit
    outside = np.where(inside, 0, np.sign(d.array) * limit).astype(d.array.dtype)
    return KEEP(d, inside) + outside


def _quadratic_then_linear(d: Array, bound: float, divisor: float) -> Array:
    """``d^2 / 2`` within the bound, else ``bound * (|d| - bound / 2)``, divided first to avoid overflow."""
    a = np.abs(d)
    return np.where(a < bound, 0.5 * d * (d / divisor), bound / divisor * (a - 0.5 * bound)).astype(d.dtype, copy=False)


def _difference(
    name: str,
    kind: int,
    value: Callable[..., Any],
    derivative: Callable[..., Any],
    divides: bool = False,
    piecewise_linear: bool = False,
) -> Primitive:
    """A loss of ``x - y``: its value, a function of the difference and of one parameter, and its derivative times the
    upstream gradient, which is given first.

    Compiled loops identify the loss by its ``kind`` and by whether the parameter divides it.
    """

    def forward(x: Any, y: Any, reduction: str, bound: float) -> Any:
        out = elementwise.loss(kind, x, y, reduction, bound, bound if divides else 1.0)
        return reduced_array(value(x - y, bound), reduction) if out is None else out

    def slope(share: Array, x: Array, y: Array, bound: float) -> Array:
        out = elementwise.slope(kind, share, x, y, bound, bound if divides else 1.0)
        return derivative(share, x - y, bound) if out is None else out

    return Primitive(
        name,
        forward,
        "x y",
        [
            lambda g, x, y, reduction, bound: slope(share_of(g, x, reduction), x, y, bound),
            lambda g, x, y, reduction, bound: slope(-share_of(g, x, reduction), x, y, bound),
        ],
        promote="same",
        signals=True,
        piecewise_linear=piecewise_linear,
        batch=summed_up,
    )


# Multiply g by 2 first: 2 * d may overflow where the gradient of a mean does not.
MSE = _difference("mse_loss", elementwise.SQUARE, lambda d, _: np.square(d), lambda g, d, _: (2 * g) * d)
L1 = _difference(
    "l1_loss",
    elementwise.ABSOLUTE,
    lambda d, _: np.abs(d),
    lambda g, d, _: g * np.sign(raw(d)),
    piecewise_linear=True,
)
SMOOTH_L1 = _difference(
    "smooth_l1_loss",
    elementwise.QUADRATIC_THEN_LINEAR,
    lambda d, beta: _quadratic_then_linear(d, beta, beta),
    lambda g, d, beta: g * (_clipped(d, beta) / beta),
    divides=True,
)
HUBER = _difference(
    "huber_loss",
    elementwise.QUADRATIC_THEN_LINEAR,
    lambda d, delta: _quadratic_then_linear(d, delta, 1),
    lambda g, d, delta: g * _clipped(d, delta),
)


def _broadcast(x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    """Return prediction and target; if their shapes differ, broadcast them with PyTorch's warning."""
    if x.array.shape == y.array.shape:
        return x, y
    shown = f"input {describe(x)} and target {describe(y)}"
    try:
        shape = broadcast_shapes(x.array.shape, y.array.shape)
    except ValueError:
        raise RuntimeError(f"{shown} do not broadcast") from None
    warnings.warn(f"{shown} differ in shape and are broadcast; reshape one if not intended", stacklevel=user_level())
    return x.expand(shape), y.expand(shape)


def _loss_of_difference(
    primitive: Primitive,
    input: Operand,
    target: Operand,
    reduction: str,
    weight: Operand | None = None,
    bound: float = 0.0,
) -> Tensor:
    x, y = operand(input), operand(target, "target")
    distance = primitive is L1 and "c" in (x.array.dtype.kind, y.array.dtype.kind)
    if not distance and x.array.dtype.kind not in FLOATING and y.array.dtype.kind not in FLOATING:
        raise NotImplementedError(f"expected a floating input, got {describe(x)} and target {describe(y)}")
    shape = x.array.shape
    x, y = _broadcast(x, y)
    if weight is None:
        if distance:
            return reduced(abs(x - y), reduction)
        return apply(primitive, (x, y), {"reduction": reduction, "bound": bound})
    w = operand(weight, "weight")
    if w.array.shape != shape:
        raise InvalidValue(f"weight and input must have the same size, got {describe(w)} and {describe(x)}")
    each = abs(x - y) if distance else apply(primitive, (x, y), {"reduction": "none", "bound": bound})
    loss = each * w
    # The weighted mean divides by the sum of the weights, except in huber_loss, as in PyTorch.
    if reduction == "mean" and primitive is not HUBER:
        return loss.sum() / w.sum()
    return reduced(loss, reduction)


@operator(namespace="nn.functional", method=False, real=True, raises="broadcast")
def mse_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``(input - target)^2``: the squared error, its mean or its sum, weighted if ``weight`` is given.

    Derivative: input: ``2 g (input - target)``; target: the negative of that.
    Shape: input and target should have the same shape, and are otherwise broadcast with a warning; the result is 0-d,
    or with reduction ``"none"`` has the common shape.
    Dtype: real floating; one of the two may hold integers.

    Args:
        input: the prediction.
        target: the true values.
        weight: factors of the input's shape; the mean then divides by their sum.

    Raises:
        ValueError: ``reduction`` is unknown, or ``weight`` has another shape.
        NotImplementedError: neither input nor target is real floating.

    >>> F.mse_loss(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    tensor(2.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    return _loss_of_difference(MSE, input, target, reduction, weight)


@operator(namespace="nn.functional", method=False, like=mse_loss)
def l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    weight: Tensor | None = None,
) -> Tensor:
    """``|input - target|``: the absolute error, its mean or its sum, weighted if ``weight`` is given.

    Derivative: input: ``g sign(input - target)``, 0 where they are equal; target: the negative of that.
    Dtype: floating or complex; one of the two may hold integers. The result is real.

    Raises:
        NotImplementedError: neither input nor target is floating or complex.

    >>> F.l1_loss(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    tensor(1.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    return _loss_of_difference(L1, input, target, reduction, weight)


@operator(namespace="nn.functional", method=False, real=True, like=mse_loss)
def smooth_l1_loss(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    beta: float = 1.0,
) -> Tensor:
    """``d^2 / (2 beta)`` where ``|d| < beta``, else ``|d| - beta / 2``, for ``d = input - target``.

    Derivative: input: ``g d / beta`` where ``|d| < beta``, else ``g sign(d)``, and with ``beta = 0`` 0 at 0; target:
    the negative of that. The second derivative at the bounds is 0.

    Args:
        beta: the absolute error at which the loss changes from quadratic to linear; not negative.

    Raises:
        RuntimeError: ``beta`` is negative, or input and target do not broadcast.
        ValueError: ``reduction`` is unknown.

    Source: Girshick, "Fast R-CNN", 2015.

    >>> F.smooth_l1_loss(rg.tensor([0.0, 0.0]), rg.tensor([1.0, 4.0]), reduction="none")
    tensor([0.5, 3.5])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    if beta < 0:
        raise RuntimeError(f"does not support negative values for beta, got {beta}")
    if beta == 0:
        return _loss_of_difference(L1, input, target, reduction)
    return _loss_of_difference(SMOOTH_L1, input, target, reduction, bound=beta)


@operator(namespace="nn.functional", method=False, real=True, like=mse_loss)
def huber_loss(
    input: Tensor, target: Tensor, reduction: str = "mean", delta: float = 1.0, weight: Tensor | None = None
) -> Tensor:
    """``d^2 / 2`` where ``|d| < delta``, else ``delta * (|d| - delta / 2)``, for ``d = input - target``.

    Derivative: input: ``g d`` where ``|d| < delta``, else ``g delta sign(d)``; target: the negative of that. The second
    derivative at the bounds is 0.

    Args:
        delta: the absolute error at which the loss changes from quadratic to linear; positive.
        weight: factors of the input's shape; as in PyTorch, the mean divides by the number of elements.

    Raises:
        RuntimeError: ``delta`` is not positive, or input and target do not broadcast.

    Source: Huber, "Robust estimation of a location parameter", 1964.

    >>> F.huber_loss(rg.tensor([0.0, 0.0]), rg.tensor([1.0, 4.0]), delta=2.0, reduction="none")
    tensor([0.5, 6. ])
    """
    reduction = reduction_of(reduction)
    if delta <= 0:
        raise RuntimeError(f"does not support non-positive values for delta, got {delta}")
    return _loss_of_difference(HUBER, input, target, reduction, weight, bound=delta)


@operator(namespace="nn.functional", method=False, real=True, shape="loss", raises="broadcast", dtype="real floating")
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
    """``exp(input) - target * input``: the negative log-likelihood of Poisson counts, without ``log(target!)``.

    Derivative: input: ``g (exp(input) - target)``, or ``g (1 - target / (input + eps))``; target: ``-g input``, or
    ``-g log(input + eps)``; with ``full`` and ``target > 1`` also ``g (log(target) + 1 / (2 target))``.

    Args:
        input: the logarithm of the rate; with ``log_input=False`` the rate, and the loss is ``input - target *
            log(input + eps)``.
        target: counts.
        log_input: whether the input is the logarithm of the rate.
        full: add Stirling's approximation ``y log y - y + log(2 pi y) / 2`` of ``log(y!)`` where the target y
            exceeds 1.
        eps: added to the rate in the logarithm, which is then finite at rate 0.

    >>> F.poisson_nll_loss(rg.tensor([0.0]), rg.tensor([2.0]))
    tensor(1.)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x, y = operand(input), operand(target, "target")
    loss = x.exp() - y * x if log_input else x - y * (eps + x).log()
    if full:
        large = y.array > 1
        safe = y.masked_fill(new_tensor(~large), 1.0)  # a finite value for elements to which the term is not added
        stirling = safe * safe.log() - safe + 0.5 * (2 * math.pi * safe).log()
        loss = loss + stirling.masked_fill(new_tensor(~large), 0.0)
    return reduced(loss, reduction)


@operator(namespace="nn.functional", method=False, real=True, like=poisson_nll_loss)
def gaussian_nll_loss(
    input: Tensor, target: Tensor, var: Tensor | float, full: bool = False, eps: float = 1e-6, reduction: str = "mean"
) -> Tensor:
    """``(log v + (input - target)^2 / v) / 2``, ``v = max(var, eps)``: the negative log-likelihood of normal variables.

    Derivative: input: ``g (input - target) / v``; target: the negative of that; var: ``g (1 / v - (input - target)^2 /
    v^2) / 2``, also where ``var < eps``.

    Args:
        input: means.
        target: the observed values.
        var: the variances: a number, or a Tensor of the input's shape, in which one dimension may have length 1 or be
            missing.
        full: add the constant ``log(2 pi) / 2``.
        eps: the least variance.

    Raises:
        ValueError: a variance is negative, ``var`` has another shape, or ``reduction`` is unknown.
        RuntimeError: ``var`` holds bools.

    Source: Nix, Weigend, "Estimating the mean and variance of the target probability distribution", 1994.

    >>> F.gaussian_nll_loss(rg.tensor([0.0]), rg.tensor([2.0]), rg.tensor([1.0]))
    tensor(2.)
    """
    reduction = reduction_of(reduction)
    x, y = operand(input), operand(target, "target")
    if isinstance(var, (int, float)):
        v = new_tensor(array_module(x).full(x.array.shape, var, x.array.dtype))
    else:
        v = operand(var, "var")
    if v.array.dtype.kind == "b":
        raise RuntimeError(f"bools cannot be a variance, got {describe(v)}")
    if bool((all_examples(v.array) < 0).any()):
        raise InvalidValue(f"var has negative entries, in {describe(v)}")
    shape = x.array.shape
    if v.array.shape != shape:
        if v.array.shape == shape[:-1]:
            v = v.unsqueeze(-1)
        elif len(shape) != v.array.ndim or [n for m, n in zip(shape, v.array.shape, strict=True) if m != n] != [1]:
            raise InvalidValue(f"var is of incorrect size: {describe(v)} for input {describe(x)}")
    v = v + (np.maximum(v.array, v.array.dtype.type(eps)) - v.array)
    loss = 0.5 * (v.log() + (x - y) * (x - y) / v)
    return reduced(loss + 0.5 * math.log(2 * math.pi) if full else loss, reduction)
