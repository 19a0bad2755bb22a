"""Statistics of samples."""

from __future__ import annotations

import math

from ..._generated import toplevel as ops
from ...core.named_tuples import NamedTuple
from ...core.tensor.tensor import Tensor
from ...ops.numpy.scipy_special import RULES
from ..arguments import ArrayLike, differentiable, floats

stats = differentiable("scipy.stats")
Axis = int | None


def _sample(a: ArrayLike, axis: Axis, nan_policy: str = "propagate") -> tuple[Tensor, int]:
    """Return a sample and its axis; for ``axis=None`` the sample is flattened.

    Raises:
        NotImplementedError: NaNs are to be left out.
    """
    if nan_policy != "propagate":
        raise NotImplementedError(f"scipy.stats of Tensors: nan_policy must be 'propagate', got {nan_policy!r}")
    (x,) = floats(a)
    return (x.reshape(-1), 0) if axis is None else (x, axis)


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
    sample, dim = _sample(others, axis, nan_policy)
    mean = sample.mean(dim, keepdim=axis is not None)
    spread = ops.std(sample, dim, correction=ddof, keepdim=axis is not None)
    if sample.ndim and sample.shape[dim] <= ddof:
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
    x, dim = _sample(a, axis, nan_policy)
    return ops.std(x, dim, correction=ddof, keepdim=keepdims) / math.sqrt(x.shape[dim])


@stats
def variation(
    a: ArrayLike, axis: Axis = 0, nan_policy: str = "propagate", ddof: int = 0, *, keepdims: bool = False
) -> Tensor:
    """Return the standard deviation divided by the mean.

    >>> rg.scipy.stats.variation(rg.tensor([1.0, 3.0]))
    tensor(0.5)
    """
    x, dim = _sample(a, axis, nan_policy)
    return ops.std(x, dim, correction=ddof, keepdim=keepdims) / x.mean(dim, keepdim=keepdims)


def _centered_moment(x: Tensor, dim: int, order: int, keepdims: bool = False) -> Tensor:
    centered = x - x.mean(dim, keepdim=True)
    return (centered**order).mean(dim, keepdim=keepdims)


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
    """Return the moment of an order about the mean, or about ``center``.

    >>> rg.scipy.stats.moment(rg.tensor([0.0, 2.0]), 2)
    tensor(1.)
    """
    x, dim = _sample(a, axis, nan_policy)
    if center is None:
        return _centered_moment(x, dim, order, keepdims)
    return ((x - center) ** order).mean(dim, keepdim=keepdims)


@stats
def skew(
    a: ArrayLike, axis: Axis = 0, bias: bool = True, nan_policy: str = "propagate", *, keepdims: bool = False
) -> Tensor:
    """Return the skewness: the third moment divided by the standard deviation cubed.

    >>> rg.scipy.stats.skew(rg.tensor([0.0, 0.0, 3.0]))
    tensor(0.7071)
    """
    x, dim = _sample(a, axis, nan_policy)
    second, third = [_centered_moment(x, dim, order, keepdims) for order in (2, 3)]
    value = third / second**1.5
    n = x.shape[dim]
    return value if bias or n < 3 else value * (math.sqrt(n * (n - 1)) / (n - 2))


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
    x, dim = _sample(a, axis, nan_policy)
    second, fourth = [_centered_moment(x, dim, order, keepdims) for order in (2, 4)]
    value = fourth / second**2
    n = x.shape[dim]
    if not bias and n > 3:
        value = ((n * n - 1) * value - 3 * (n - 1) ** 2) / ((n - 2) * (n - 3)) + 3
    return value - 3 if fisher else value


def _weighted_mean(x: Tensor, dim: int, weights: ArrayLike | None, keepdims: bool) -> Tensor:
    if weights is None:
        return x.mean(dim, keepdim=keepdims)
    x, share = floats(x, weights)
    return (x * share).sum(dim, keepdim=keepdims) / ops.broadcast_to(share, tuple(x.shape)).sum(dim, keepdim=keepdims)


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
    x, dim = _sample(a, axis, nan_policy)
    return ops.exp(_weighted_mean(ops.log(x), dim, weights, keepdims))


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
    x, dim = _sample(a, axis, nan_policy)
    return 1 / _weighted_mean(1 / x, dim, weights, keepdims)


@stats
def entropy(
    pk: ArrayLike,
    qk: ArrayLike | None = None,
    base: float | None = None,
    axis: int = 0,
    *,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> Tensor:
    """Return the entropy of probabilities, which are normalized, or the relative entropy with respect to ``qk``.

    >>> rg.scipy.stats.entropy(rg.tensor([1.0, 1.0]), base=2)
    tensor(1.)
    """
    if qk is None:
        p, dim = _sample(pk, axis, nan_policy)
        value = RULES["entr"](p / p.sum(dim, keepdim=True))
    else:
        p, q = ops.broadcast_tensors(*floats(pk, qk))
        (p, dim), (q, _) = _sample(p, axis, nan_policy), _sample(q, axis, nan_policy)
        p = p / p.sum(dim, keepdim=True)
        value = RULES["rel_entr"](p, q / q.sum(dim, keepdim=True))
    total: Tensor = value.sum(dim, keepdim=keepdims)
    return total if base is None else total / math.log(base)


class PearsonRResult(NamedTuple):
    """The correlation coefficient, and the p-value of the hypothesis that it is 0."""

    statistic: Tensor
    pvalue: Tensor


@stats
def pearsonr(
    x: ArrayLike, y: ArrayLike, *, alternative: str = "two-sided", method: None = None, axis: int = 0
) -> PearsonRResult:
    """Return Pearson's correlation coefficient and the two-sided p-value.

    >>> rg.scipy.stats.pearsonr(rg.tensor([0.0, 1.0, 2.0]), [0.0, 2.0, 4.0]).statistic
    tensor(1.)
    """
    if alternative != "two-sided" or method is not None:
        raise NotImplementedError("scipy.stats.pearsonr of Tensors: only alternative='two-sided' and method=None")
    a, b = floats(x, y)
    if a.shape[axis] != b.shape[axis] or a.shape[axis] < 2:
        raise ValueError("`x` and `y` must have the same length, at least 2, along `axis`.")
    a, b = a - a.mean(axis, keepdim=True), b - b.mean(axis, keepdim=True)
    r = (a * b).sum(axis) / ops.sqrt((a * a).sum(axis) * (b * b).sum(axis))
    half = ops.full_like(r.detach(), a.shape[axis] / 2 - 1)
    if a.shape[axis] == 2:
        return PearsonRResult(r, ops.ones_like(r))
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
    axis: int = 0,
    nan_policy: str = "propagate",
    keepdims: bool = False,
) -> LinregressResult:
    """Return the line of least squares through points.

    >>> rg.scipy.stats.linregress([0.0, 1.0, 2.0], rg.tensor([1.0, 3.0, 5.0])).slope
    tensor(2.)
    """
    if alternative != "two-sided" or nan_policy != "propagate" or keepdims:
        raise NotImplementedError("scipy.stats.linregress of Tensors: alternative, nan_policy, keepdims: the defaults")
    a, b = floats(x, y)
    if a.ndim != b.ndim or a.shape[axis] != b.shape[axis]:
        raise ValueError(f"x and y must have equally many points along axis {axis}, got {a.shape} and {b.shape}")
    n = a.shape[axis]
    mean_x, mean_y = a.mean(axis, keepdim=True), b.mean(axis, keepdim=True)
    a, b = a - mean_x, b - mean_y
    mean_x, mean_y = mean_x.sum(axis), mean_y.sum(axis)
    xx, yy, xy = (a * a).mean(axis), (b * b).mean(axis), (a * b).mean(axis)
    slope, r = xy / xx, xy / ops.sqrt(xx * yy)
    freedom = n - 2
    t = r * ops.sqrt(freedom / ((1 - r + 1e-20) * (1 + r + 1e-20)))
    p = 2 * RULES["stdtr"](ops.full_like(t.detach(), freedom), -ops.abs(t))
    error = ops.sqrt((1 - r * r) * yy / xx / freedom)
    if n == 2:  # SciPy's p-value of a line through two points, which has no error
        p, error = 1.0 - (ops.diff(b, dim=axis).sum(axis) != 0).astype(p.dtype), ops.zeros_like(error)
    result = LinregressResult(slope, mean_y - slope * mean_x, r, p, error)
    result.intercept_stderr = error * ops.sqrt(xx + mean_x * mean_x)
    return result
