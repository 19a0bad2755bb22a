"""Statistics of samples."""

from __future__ import annotations

import math
from operator import index

import numpy as np

from ..._generated import toplevel as ops
from ...core.named_tuples import NamedTuple
from ...core.tensor.tensor import Tensor
from ...ops.numpy.scipy_special import RULES
from ..decorators import ArrayLike, differentiable, floats

stats = differentiable("scipy.stats")
Axis = int | tuple[int, ...] | None


def _samples(axis: Axis, *values: ArrayLike, nan_policy: str = "propagate") -> tuple[list[Tensor], list[int]]:
    """Return samples of one shape with their elements along the last dimension, and the shape for ``keepdims``.

    Raises:
        AxisError: an axis is out of range.
        NotImplementedError: ``nan_policy`` is not ``"propagate"``.
        TypeError: an axis is not an integer.
        ValueError: there is no axis, or an axis is repeated.
    """
    if nan_policy != "propagate":
        raise NotImplementedError(f"scipy.stats of Tensors: nan_policy must be 'propagate', got {nan_policy!r}")
    tensors = [x if x.ndim else x.reshape(1) for x in ops.broadcast_tensors(*floats(*values))]
    shape = tensors[0].shape
    axes = _axes(axis, len(shape))
    others = [place for place in range(len(shape)) if place not in axes]
    ordered = [*[shape[place] for place in others], math.prod([shape[place] for place in axes])]
    samples = [x.permute(*others, *axes).reshape(ordered) for x in tensors]
    return samples, [1 if place in axes else length for place, length in enumerate(shape)]


def _axes(axis: Axis, ndim: int) -> list[int]:
    if axis is None:
        return list(range(ndim))
    given = [index(place) for place in (axis if isinstance(axis, tuple) else (axis,))]
    for place in given:
        if not -ndim <= place < ndim:
            raise np.exceptions.AxisError(place, ndim)
    axes = [place % ndim for place in given]
    if not axes or len(set(axes)) < len(axes):
        raise ValueError(f"axis must be an integer, None, or a tuple of different integers, got {axis!r}")
    return axes


def _kept(statistic: Tensor, shape: list[int], keepdims: bool) -> Tensor:
    return statistic.reshape(shape) if keepdims else statistic


@stats
def zscore(a: ArrayLike, axis: Axis = 0, ddof: int = 0, nan_policy: str = "propagate") -> Tensor:
    """Return the distances from the mean in standard deviations.

    >>> rg.scipy.stats.zscore(rg.tensor([0.0, 2.0]))
    tensor([-1.,  1.])
    """
    return _zmap(a, a, axis, ddof, nan_policy)


@stats
def zmap(scores: ArrayLike, compare: ArrayLike, axis: Axis = 0, ddof: int = 0, nan_policy: str = "propagate") -> Tensor:
    """Return the distances of ``scores`` from the mean of ``compare`` in standard deviations of ``compare``.

    >>> rg.scipy.stats.zmap(rg.tensor([3.0]), [0.0, 2.0])
    tensor([2.])
    """
    return _zmap(scores, compare, axis, ddof, nan_policy)


def _zmap(scores: ArrayLike, compare: ArrayLike, axis: Axis, ddof: int, nan_policy: str) -> Tensor:
    values, others = floats(scores, compare)
    if not others.ndim and axis is not None:
        raise np.exceptions.AxisError(0, 0)
    (sample,), shape = _samples(axis, others, nan_policy=nan_policy)
    mean = _kept(sample.mean(-1), shape, axis is not None)
    spread = _kept(ops.std(sample, -1, correction=ddof), shape, axis is not None)
    if sample.shape[-1] <= ddof:
        spread = spread * math.nan
    return (values - mean) / spread


@stats
def sem(
    a: ArrayLike, axis: Axis = 0, ddof: int = 1, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Tensor:
    """Return the standard error of the mean.

    >>> rg.scipy.stats.sem(rg.tensor([0.0, 2.0]))
    tensor(1.)
    """
    (x,), shape = _samples(axis, a, nan_policy=nan_policy)
    return _kept(ops.std(x, -1, correction=ddof) / math.sqrt(x.shape[-1]), shape, keepdims)


@differentiable("scipy.stats", real=True)
def variation(
    a: ArrayLike, axis: Axis = 0, nan_policy: str = "propagate", ddof: int = 0, *, keepdims: bool = False
) -> Tensor:
    """Return the standard deviation divided by the mean.

    >>> rg.scipy.stats.variation(rg.tensor([1.0, 3.0]))
    tensor(0.5)
    """
    (x,), shape = _samples(axis, a, nan_policy=nan_policy)
    return _kept(ops.std(x, -1, correction=ddof) / x.mean(-1), shape, keepdims)


def _centered_moment(x: Tensor, order: int) -> Tensor:
    return ((x - x.mean(-1, keepdim=True)) ** order).mean(-1)


@stats
def moment(
    a: ArrayLike,
    order: int = 1,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    *,
    center: float | None = None,
    keepdims: bool = False,
) -> Tensor:
    """Return the moment of the given order about the mean, or about ``center``.

    >>> rg.scipy.stats.moment(rg.tensor([0.0, 2.0]), 2)
    tensor(1.)
    """
    (x,), shape = _samples(axis, a, nan_policy=nan_policy)
    value = _centered_moment(x, order) if center is None else ((x - center) ** order).mean(-1)
    return _kept(value, shape, keepdims)


@stats
def skew(
    a: ArrayLike, axis: Axis = 0, bias: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Tensor:
    """Return the skewness: the third moment divided by the standard deviation cubed.

    >>> rg.scipy.stats.skew(rg.tensor([0.0, 0.0, 3.0]))
    tensor(0.7071)
    """
    (x,), shape = _samples(axis, a, nan_policy=nan_policy)
    value = _centered_moment(x, 3) / _centered_moment(x, 2) ** 1.5
    n = x.shape[-1]
    if not bias and n > 2:
        value = value * (math.sqrt(n * (n - 1)) / (n - 2))
    return _kept(value, shape, keepdims)


@stats
def kurtosis(
    a: ArrayLike,
    axis: Axis = 0,
    fisher: bool = True,
    bias: bool = True,
    nan_policy: str = "propagate",
    *,
    keepdims: bool = False,
) -> Tensor:
    """Return the fourth moment divided by the squared variance; minus 3 unless ``fisher`` is False.

    >>> rg.scipy.stats.kurtosis(rg.tensor([0.0, 2.0]))
    tensor(-2.)
    """
    (x,), shape = _samples(axis, a, nan_policy=nan_policy)
    value = _centered_moment(x, 4) / _centered_moment(x, 2) ** 2
    n = x.shape[-1]
    if not bias and n > 3:
        value = ((n * n - 1) * value - 3 * (n - 1) ** 2) / ((n - 2) * (n - 3)) + 3
    return _kept(value - 3 if fisher else value, shape, keepdims)


def _weighted_mean(x: Tensor, weights: list[Tensor]) -> Tensor:
    return (x * weights[0]).sum(-1) / weights[0].sum(-1) if weights else x.mean(-1)


@stats
def gmean(
    a: ArrayLike,
    axis: Axis = 0,
    dtype: None = None,
    weights: ArrayLike | None = None,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Tensor:
    """Return the geometric mean.

    >>> rg.scipy.stats.gmean(rg.tensor([1.0, 4.0]))
    tensor(2.)
    """
    (x, *shares), shape = _samples(axis, *((a,) if weights is None else (a, weights)), nan_policy=nan_policy)
    return _kept(ops.exp(_weighted_mean(ops.log(x), shares)), shape, keepdims)


@stats
def hmean(
    a: ArrayLike,
    axis: Axis = 0,
    dtype: None = None,
    *,
    weights: ArrayLike | None = None,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Tensor:
    """Return the harmonic mean.

    >>> rg.scipy.stats.hmean(rg.tensor([1.0, 1.0]))
    tensor(1.)
    """
    (x, *shares), shape = _samples(axis, *((a,) if weights is None else (a, weights)), nan_policy=nan_policy)
    return _kept(1 / _weighted_mean(1 / x, shares), shape, keepdims)


@stats
def entropy(
    pk: ArrayLike,
    qk: ArrayLike | None = None,
    base: float | None = None,
    axis: Axis = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Tensor:
    """Return the entropy of probabilities, which are normalized, or the relative entropy with respect to ``qk``.

    >>> rg.scipy.stats.entropy(rg.tensor([1.0, 1.0]), base=2)
    tensor(1.)
    """
    (p, *others), shape = _samples(axis, *((pk,) if qk is None else (pk, qk)), nan_policy=nan_policy)
    p = p / p.sum(-1, keepdim=True)
    terms = [RULES["rel_entr"](p, q / q.sum(-1, keepdim=True)) for q in others] or [RULES["entr"](p)]
    total: Tensor = terms[0].sum(-1)
    return _kept(total if base is None else total / math.log(base), shape, keepdims)


class PearsonRResult(NamedTuple):
    """The correlation coefficient, and the p-value of the hypothesis that it is 0."""

    statistic: Tensor
    pvalue: Tensor


@stats
def pearsonr(
    x: ArrayLike, y: ArrayLike, *, alternative: str = "two-sided", method: None = None, axis: int | None = 0
) -> PearsonRResult:
    """Return Pearson's correlation coefficient and the two-sided p-value.

    >>> rg.scipy.stats.pearsonr(rg.tensor([0.0, 1.0, 2.0]), [0.0, 2.0, 4.0]).statistic
    tensor(1.)
    """
    if alternative != "two-sided" or method is not None:
        raise NotImplementedError("scipy.stats.pearsonr of Tensors: alternative must be 'two-sided' and method None")
    a, b = floats(x, y)
    if axis is None:
        a, b, axis = a.reshape(-1), b.reshape(-1), 0
    n = a.shape[axis]
    if n != b.shape[axis] or n < 2:
        raise ValueError("`x` and `y` must have the same length, at least 2, along `axis`.")
    a, b = a - a.mean(axis, keepdim=True), b - b.mean(axis, keepdim=True)
    r = (a * b).sum(axis) / ops.sqrt((a * a).sum(axis) * (b * b).sum(axis))
    if n == 2:
        return PearsonRResult(r, ops.ones_like(r))
    half = ops.full_like(r.detach(), n / 2 - 1)
    return PearsonRResult(r, 2 * RULES["betainc"](half, half, (1 - ops.abs(r)) / 2))


class _Line(NamedTuple):
    slope: Tensor
    intercept: Tensor
    rvalue: Tensor
    pvalue: Tensor
    stderr: Tensor


class LinregressResult(_Line):
    """The line through points: slope, intercept, correlation, p-value and standard error of the slope.

    ``intercept_stderr`` is the standard error of the intercept.
    """

    intercept_stderr: Tensor


@stats
def linregress(
    x: ArrayLike,
    y: ArrayLike,
    alternative: str = "two-sided",
    *,
    axis: Axis = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> LinregressResult:
    """Return the line of least squares through points.

    >>> rg.scipy.stats.linregress([0.0, 1.0, 2.0], rg.tensor([1.0, 3.0, 5.0])).slope
    tensor(2.)
    """
    if alternative != "two-sided":
        raise NotImplementedError(f"scipy.stats.linregress: alternative must be 'two-sided', got {alternative!r}")
    a, b = floats(x, y)
    if a.ndim != b.ndim or any(a.shape[place] != b.shape[place] for place in _axes(axis, a.ndim)):
        raise ValueError(f"x and y must have the same number of points along axis {axis}, got {a.shape} and {b.shape}")
    (a, b), shape = _samples(axis, a, b, nan_policy=nan_policy)
    n = a.shape[-1]
    mean_x, mean_y = a.mean(-1), b.mean(-1)
    a, b = a - mean_x.unsqueeze(-1), b - mean_y.unsqueeze(-1)
    xx, yy, xy = (a * a).mean(-1), (b * b).mean(-1), (a * b).mean(-1)
    slope, r = xy / xx, xy / ops.sqrt(xx * yy)
    freedom = n - 2
    t = r * ops.sqrt(freedom / ((1 - r + 1e-20) * (1 + r + 1e-20)))
    p = 2 * RULES["stdtr"](ops.full_like(t.detach(), freedom), -ops.abs(t))
    error = ops.sqrt((1 - r * r) * yy / xx / freedom)
    if n == 2:  # SciPy's p-value for two points, where the residual is 0
        p, error = 1.0 - (ops.diff(b, dim=-1).sum(-1) != 0).astype(p.dtype), ops.zeros_like(error)
    line = slope, mean_y - slope * mean_x, r, p, error, error * ops.sqrt(xx + mean_x * mean_x)
    *first, intercept_stderr = [_kept(value, shape, keepdims) for value in line]
    result = LinregressResult(*first)
    result.intercept_stderr = intercept_stderr
    return result
