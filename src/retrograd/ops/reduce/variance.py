"""Variances, standard deviations, covariances and correlations."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import all_examples
from ...core.arrays.dtypes import FLOATING, INEXACT
from ...core.arrays.summation import accurate_sum
from ...core.errors import describe
from ...core.graph.primitive import Primitive, operand
from ...core.named_tuples import NamedTuple
from ...core.tensor.tensor import Tensor, new_tensor
from ...kernels.chunked import by_lanes
from ...kernels.loops.statistics import moments
from ..math.bounds import clamp
from ..math.complex_numbers import conj, real
from ..math.powers import sqrt
from ..shape.views import diagonal
from ..table import batching
from ..table.blocks import in_single
from ..table.composites import one_node
from ..table.registry import operator
from ..table.types import Dims, Operand
from .common import count, floating, kept, reduce_
from .reductions import MEAN


def _var(x: Array, dim: tuple[int, ...] | None = None, correction: float = 1, keepdim: bool = False) -> Array:
    if x.dtype.char == "e":
        return _var(x.astype(np.float32), dim, correction, keepdim).astype(np.float16)
    freedom = max(0.0, count(x.shape, dim) - correction)
    total = moments.squares(x, dim, keepdim, True)
    if total is None:
        away = x - MEAN.forward(x, dim, True)
        total = accurate_sum(away.real**2 + away.imag**2 if x.dtype.kind == "c" else away * away, dim, keepdim)
    if total.__class__ is np.ndarray:
        total /= freedom  # in place, so that a 0-d result stays an array
        return total
    return total / total.dtype.type(freedom)


@in_single
def _std(x: Array, dim: tuple[int, ...] | None = None, correction: float = 1, keepdim: bool = False) -> Array:
    variance = _var(x, dim, correction, keepdim)
    return np.sqrt(variance, variance) if variance.__class__ is np.ndarray else np.sqrt(variance)


def _var_vjp(g: Array, x: Array, dim: tuple[int, ...] | None, correction: float, keepdim: bool) -> Array:
    """The gradient ``2 (x - mean) / (n - correction)``, also for a negative divisor.

    Over all elements and with n <= correction, the gradient is infinite (NaN at the mean) and constant, as in PyTorch.
    """
    freedom = count(x.shape, dim) - correction
    g = kept(g, x.shape, dim, keepdim)
    mean = MEAN(x, dim=dim, keepdim=True)
    if dim is None and freedom <= 0:
        return g * np.where(x == mean, np.nan, np.inf).astype(x.dtype)
    away = x - mean
    return g * (2 / freedom if freedom else np.inf) * (np.conj(away) if away.dtype.kind == "c" else away)


def _std_vjp(g: Array, x: Array, ans: Array, dim: tuple[int, ...] | None, correction: float, keepdim: bool) -> Array:
    """The gradient ``(x - mean) / (std (n - correction))``; 0 where the standard deviation is 0, as in PyTorch."""
    zero = ans == 0
    return _var_vjp(np.where(zero, 0, g) / np.where(zero, 1, 2 * ans), x, dim, correction, keepdim)


VAR = Primitive(
    "var", by_lanes(_var), "x", [_var_vjp], signals=True, contiguous=True, batch=batching.along("dim"), by_rows=True
)
STD = Primitive(
    "std", by_lanes(_std), "x", [_std_vjp], signals=True, contiguous=True, batch=batching.along("dim"), by_rows=True
)


def _about_mean(
    primitive: Primitive,
    input: Operand,
    dim: Dims | bool | None,
    unbiased: bool | None,
    keepdim: bool,
    correction: float | None,
) -> Tensor:
    """Apply ``f(x, unbiased)``, ``f(x, dim, unbiased, keepdim)`` or ``f(x, dim, correction=..., keepdim=...)``."""
    if isinstance(dim, bool):
        dim, unbiased = None, dim
    if unbiased is not None and correction is not None:
        raise TypeError("pass unbiased or correction, got both")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    return reduce_(primitive, floating(input), dim, keepdim, correction=correction)


_var_mean_node, _std_mean_node = one_node("var_mean"), one_node("std_mean")


class VarMean(NamedTuple):
    """A variance and a mean."""

    var: Tensor
    mean: Tensor


class StdMean(NamedTuple):
    """A standard deviation and a mean."""

    std: Tensor
    mean: Tensor


@operator(dtype="magnitude")
def var(
    input: Operand,
    dim: Dims | bool | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """``sum_i |x_i - mean|^2 / (n - correction)`` over all dimensions, one, or several.

    Derivative: ``2 g (x - mean) / (n - correction)``. Where ``correction`` is ``n`` or more, the variance is infinite
    and the derivative is PyTorch's: over all elements infinite (NaN at the mean), along dimensions the derivative of
    the formula.

    Args:
        dim: a dimension or several, all of them by default; a bool is interpreted as ``unbiased``.
        unbiased: PyTorch's older argument: False means ``correction=0``.
        correction: the number to subtract from the count, 1 by default (the unbiased estimate), also if ``dim`` is
            passed as ``axis``. ``np.var`` and ``np.std`` of a Tensor use 0, as for arrays.

    Raises:
        RuntimeError: the input holds integers.
        TypeError: both ``unbiased`` and ``correction`` are given.

    >>> rg.var(rg.tensor([1.0, 2.0, 3.0])), rg.var(rg.tensor([1.0, 3.0]), correction=0)
    (tensor(1.), tensor(1.))
    """
    return _about_mean(VAR, input, dim, unbiased, keepdim, correction)


@operator(like=var)
def std(
    input: Operand,
    dim: Dims | bool | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> Tensor:
    """``sqrt(sum_i |x_i - mean|^2 / (n - correction))`` over all dimensions, one, or several.

    Derivative: ``g (x - mean) / (std (n - correction))``; 0 where the deviation is 0.

    >>> rg.std(rg.tensor([1.0, 2.0, 3.0]))
    tensor(1.)
    """
    return _about_mean(STD, input, dim, unbiased, keepdim, correction)


@operator(method=False, like=var)
def var_mean(
    input: Operand,
    dim: Dims | bool | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> VarMean:
    """``(var(input), mean(input))`` over all dimensions, one, or several.

    Derivative: those of ``var`` and ``mean``.
    Shape: any; the reduced dimensions are removed from both results, or have length 1 with ``keepdim``.
    Dtype: floating and complex, whose variance is real.

    Args:
        correction: the number to subtract from the count, 1 by default.

    Returns:
        The named tuple ``(var, mean)``.

    >>> rg.var_mean(rg.tensor([1.0, 2.0, 3.0]))
    VarMean(var=tensor(1.), mean=tensor(2.))
    """
    variance = _about_mean(VAR, input, dim, unbiased, keepdim, correction)
    mean = reduce_(MEAN, operand(input), None if isinstance(dim, bool) else dim, keepdim)
    return VarMean(*_var_mean_node(variance, mean))


@operator(method=False, like=var_mean)
def std_mean(
    input: Operand,
    dim: Dims | bool | None = None,
    unbiased: bool | None = None,
    keepdim: bool = False,
    *,
    correction: float | None = None,
) -> StdMean:
    """``(std(input), mean(input))`` over all dimensions, one, or several.

    Derivative: those of ``std`` and ``mean``; that of the deviation is 0 where the deviation is 0.
    Dtype: floating and complex, whose deviation is real.

    Returns:
        The named tuple ``(std, mean)``.

    >>> rg.std_mean(rg.tensor([1.0, 2.0, 3.0]))
    StdMean(std=tensor(1.), mean=tensor(2.))
    """
    deviation = _about_mean(STD, input, dim, unbiased, keepdim, correction)
    mean = reduce_(MEAN, operand(input), None if isinstance(dim, bool) else dim, keepdim)
    return StdMean(*_std_mean_node(deviation, mean))


# Covariance


@operator(dtype="float or complex")
def cov(
    input: Operand, *, correction: int = 1, fweights: Tensor | None = None, aweights: Tensor | None = None
) -> Tensor:
    """``C_ij = sum_k (x_ik - mean_i) (x_jk - mean_j)^* / (n - correction)``: the covariances of the rows.

    Derivative: the derivative of the formula.
    Shape: (variables, observations) to (variables, variables); a single variable, (n) or 0-d, gives a 0-d result.

    Args:
        input: the observations, one row per variable.
        correction: the number to subtract from the number of observations.
        fweights: how often each observation is repeated, integers (n).
        aweights: the relative weight of each observation, (n).

    Raises:
        RuntimeError: the input has more than 2 dimensions or holds bools, or weights are negative or have a wrong
            shape.

    >>> rg.cov(rg.tensor([[0.0, 2.0], [0.0, 4.0]]))
    tensor([[2., 4.],
            [4., 8.]])
    """
    x = operand(input)
    if x.array.ndim > 2:
        raise RuntimeError(f"expected at most 2 dimensions, got {describe(x)}")
    if x.array.dtype.kind == "b":
        raise RuntimeError(f"bools are not supported, got {describe(x)}")
    x = x if x.array.dtype.kind in INEXACT else x * 1.0
    rows = x.reshape((1, -1)) if x.array.ndim < 2 else x
    observations = rows.array.shape[1]
    weights = _observation_weights(fweights, aweights, observations)
    norm: Any
    if weights is None:
        centered = rows - rows.mean(1, True)
        weighted, norm = centered, max(0, observations - correction)
    else:
        total = weights.sum()
        centered = rows - (rows * weights).sum(1, True) / total
        weighted = centered * weights
        norm = total - correction if aweights is None else total - correction * (weights * aweights).sum() / total
        norm = new_tensor(np.maximum(norm.array, 0)) if not norm.requires_grad else norm
    product = weighted @ conj(centered).transpose(0, 1)
    return (product / norm).squeeze()


def _observation_weights(fweights: Tensor | None, aweights: Tensor | None, observations: int) -> Tensor | None:
    for name, weights, kinds in (("fweights", fweights, "integer"), ("aweights", aweights, "floating")):
        if weights is not None:
            if weights.shape != (observations,):
                raise RuntimeError(f"{name} must have shape ({observations},), got {describe(weights)}")
            if weights.dtype.kind not in ("iu" if kinds == "integer" else FLOATING):
                raise RuntimeError(f"{name} must have {kinds} dtype, got {describe(weights)}")
            if bool((all_examples(operand(weights).array) < 0).any()):
                raise RuntimeError(f"{name} must not be negative")
    if fweights is None:
        return None if aweights is None else operand(aweights, "aweights")
    return operand(fweights) if aweights is None else operand(fweights) * aweights


@operator(dtype="float or complex", like=cov)
def corrcoef(input: Operand) -> Tensor:
    """``R_ij = C_ij / sqrt(C_ii C_jj)``: the correlation coefficients of the rows, from their covariances ``C``.

    Derivative: the derivative of the formula; NaN for a row with deviation 0. For real numbers it is 0 where rounding
    made a coefficient exceed 1.

    Raises:
        RuntimeError: the input has more than 2 dimensions, or holds bools.

    >>> rg.corrcoef(rg.tensor([[0.0, 2.0, 1.0], [0.0, 4.0, 2.0]]))
    tensor([[1., 1.],
            [1., 1.]])
    """
    c = cov(input)
    if c.array.ndim == 0:
        return c / c
    deviations = sqrt(real(diagonal(c)))
    r = c / deviations.reshape((-1, 1)) / deviations
    return r if r.dtype.kind == "c" else clamp(r, -1, 1)
