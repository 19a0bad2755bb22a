"""Multivariate distributions, and kernel density estimates."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from ..._generated import linalg as ours
from ..._generated import special
from ..._generated import toplevel as ops
from ...core.tensor.tensor import Tensor
from ..decorators import ArrayLike, floats, has_tensor, is_mapped, scipys


def _theirs(name: str) -> Any:
    return getattr(scipys("scipy.stats"), name)


_LOG_ROOT = math.log(2 * math.pi) / 2


def _degenerate_logpdf(rows: Tensor, cov: Tensor) -> Tensor:
    """Return the logarithm of the density in the subspace in which the distribution varies; -inf outside of it."""
    values, vectors = ours.eigh(cov.detach())
    limit = 1e6 * np.finfo(cov.array.dtype).eps
    kept = values > limit * ops.abs(values).max()
    inverse = ours.pinv(cov, hermitian=True, rtol=limit)
    spectrum = ours.eigvalsh(cov)
    logarithms = ops.log(ops.where(kept, spectrum, 1.0)).sum() + 2 * _LOG_ROOT * kept.sum().astype(cov.dtype)
    energy = ((rows @ inverse) * rows).sum(-1)
    outside = ops.sqrt((ops.where(kept, 0.0, rows.detach() @ vectors) ** 2).sum(-1)) >= limit * ops.abs(values).max()
    return ops.where(outside, -math.inf, -(energy + logarithms) / 2)


class MultivariateNormal:
    """The multivariate normal distribution, differentiable with respect to points, mean and covariance.

    >>> rg.scipy.stats.multivariate_normal.logpdf(rg.tensor([0.0, 0.0]), [0.0, 0.0])
    tensor(-1.8379)
    """

    def __call__(
        self, mean: ArrayLike | None = None, cov: ArrayLike = 1.0, allow_singular: bool = False
    ) -> FrozenNormal:
        return FrozenNormal(mean, cov, allow_singular)

    def __getattr__(self, name: str) -> Any:
        return getattr(_theirs("multivariate_normal"), name)

    def logpdf(
        self, x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1.0, allow_singular: bool = False
    ) -> Tensor:
        """Return the logarithm of the density at vectors along the last axis of ``x``.

        Raises:
            LinAlgError: the covariance is not positive definite, and ``allow_singular`` is not set.
        """
        if not has_tensor((x, mean, cov)):
            return _theirs("multivariate_normal").logpdf(x, mean, cov, allow_singular)
        points, center, spread = floats(x, 0.0 if mean is None else mean, cov)
        size = center.shape[-1] if center.ndim else spread.shape[-1] if spread.ndim == 2 else 1
        if spread.ndim == 0 or size == 1 and spread.ndim == 1:
            spread = spread * ops.eye(size, dtype=spread.dtype)
        elif spread.ndim == 1:
            spread = ops.diag(spread)
        if spread.shape != (size, size):
            raise ValueError(
                f"scipy.stats.multivariate_normal: cov must be ({size}, {size}), got {tuple(spread.shape)}"
            )
        if points.ndim == 0:
            points = points[None]
        elif points.ndim == 1:
            points = points[:, None] if size == 1 else points[None]
        difference = points - center
        rows = difference.reshape(-1, size)
        spread = (spread + spread.mT) / 2
        if allow_singular:
            value = _degenerate_logpdf(rows, spread)
        else:
            factor = ours.cholesky(spread)
            white = ours.solve_triangular(factor, rows.mT, upper=False)
            value = -(white * white).sum(0) / 2 - ops.log(ops.diagonal(factor)).sum() - size * _LOG_ROOT
        return value.reshape(tuple(difference.shape[:-1])).squeeze()

    def pdf(
        self, x: ArrayLike, mean: ArrayLike | None = None, cov: ArrayLike = 1.0, allow_singular: bool = False
    ) -> Tensor:
        """Return the density at vectors along the last axis of ``x``."""
        if not has_tensor((x, mean, cov)):
            return _theirs("multivariate_normal").pdf(x, mean, cov, allow_singular)
        return ops.exp(self.logpdf(x, mean, cov, allow_singular))

    def entropy(self, mean: ArrayLike | None = None, cov: ArrayLike = 1.0) -> Tensor:
        """Return the differential entropy, differentiable with respect to the covariance."""
        if not has_tensor((mean, cov)):
            return _theirs("multivariate_normal").entropy(mean, cov)
        center, spread = floats(0.0 if mean is None else mean, cov)
        size = center.shape[-1] if center.ndim else spread.shape[-1] if spread.ndim == 2 else 1
        if spread.ndim < 2:
            spread = ops.diag(ops.broadcast_to(spread, (size,)))
        factor = ours.cholesky((spread + spread.mT) / 2)
        return ops.log(ops.diagonal(factor)).sum() + size * (_LOG_ROOT + 0.5) + 0 * center.sum()


class FrozenNormal:
    """A multivariate normal distribution with a fixed mean and covariance."""

    def __init__(self, mean: ArrayLike | None, cov: ArrayLike, allow_singular: bool) -> None:
        self.mean, self.cov, self.allow_singular = mean, cov, allow_singular

    def __getattr__(self, name: str) -> Any:
        return getattr(_theirs("multivariate_normal")(self.mean, self.cov, self.allow_singular), name)

    def logpdf(self, x: ArrayLike) -> Tensor:
        """Return the logarithm of ``pdf``, with its arguments."""
        return multivariate_normal.logpdf(x, self.mean, self.cov, self.allow_singular)

    def entropy(self) -> Tensor:
        """Return the differential entropy."""
        return multivariate_normal.entropy(self.mean, self.cov)

    def pdf(self, x: ArrayLike) -> Tensor:
        """Return the density of the frozen distribution at vectors along the last axis of ``x``."""
        return multivariate_normal.pdf(x, self.mean, self.cov, self.allow_singular)


class Dirichlet:
    """The Dirichlet distribution, differentiable with respect to points and concentrations.

    >>> rg.scipy.stats.dirichlet.logpdf(rg.tensor([0.5, 0.5]), [1.0, 1.0])
    tensor(0.)
    """

    def __call__(self, alpha: ArrayLike) -> FrozenDirichlet:
        return FrozenDirichlet(alpha)

    def __getattr__(self, name: str) -> Any:
        return getattr(_theirs("dirichlet"), name)

    def logpdf(self, x: ArrayLike, alpha: ArrayLike) -> Tensor:
        """Return the logarithm of the density at vectors along the first axis of ``x``; their last element can be
        omitted.

        Raises:
            ValueError: the parts are negative or do not sum to 1, or a concentration is not positive.
        """
        if not has_tensor((x, alpha)):
            return _theirs("dirichlet").logpdf(x, alpha)
        points, weights = floats(x, alpha)
        if weights.ndim != 1 or points.shape[0] not in (weights.shape[0], weights.shape[0] - 1):
            raise ValueError(
                f"scipy.stats.dirichlet: alpha must be a vector with a number for each component of x, or one more, "
                f"got alpha {tuple(weights.shape)} and x {tuple(points.shape)}"
            )
        if points.shape[0] == weights.shape[0] - 1:
            points = ops.cat([points, 1 - points.sum(0, keepdim=True)])
        if not is_mapped([points, weights]):
            if bool((weights.detach() <= 0).any()):
                raise ValueError("All parameters must be greater than 0")
            if bool((points.detach() < 0).any()) or bool((ops.abs(points.detach().sum(0) - 1) > 1e-6).any()):
                raise ValueError("The input vector 'x' must lie within the normal simplex.")
        shape = (-1,) + (1,) * (points.ndim - 1)
        constant = special.gammaln(weights.sum()) - special.gammaln(weights).sum()
        return constant + special.xlogy((weights - 1).reshape(shape), points).sum(0)

    def pdf(self, x: ArrayLike, alpha: ArrayLike) -> Tensor:
        """Return the density at vectors along the first axis of ``x``."""
        if not has_tensor((x, alpha)):
            return _theirs("dirichlet").pdf(x, alpha)
        return ops.exp(self.logpdf(x, alpha))


class FrozenDirichlet:
    """A Dirichlet distribution with fixed concentrations."""

    def __init__(self, alpha: ArrayLike) -> None:
        self.alpha = alpha

    def __getattr__(self, name: str) -> Any:
        return getattr(_theirs("dirichlet")(self.alpha), name)

    def logpdf(self, x: ArrayLike) -> Tensor:
        """Return the logarithm of the density at vectors along the first axis of ``x``."""
        return dirichlet.logpdf(x, self.alpha)

    def pdf(self, x: ArrayLike) -> Tensor:
        """Return the density of the frozen distribution at vectors along the first axis of ``x``."""
        return dirichlet.pdf(x, self.alpha)


multivariate_normal = MultivariateNormal()
dirichlet = Dirichlet()


class gaussian_kde:
    """A Gaussian kernel density estimate, differentiable with respect to points and samples.

    Args:
        dataset: samples along the last axis, of shape ``(n,)`` or ``(d, n)``.
        bw_method: ``"scott"``, ``"silverman"``, or a number that multiplies the standard deviation of the samples.
        weights: weights of the samples.

    >>> rg.scipy.stats.gaussian_kde(rg.tensor([0.0, 1.0, 2.0]))([1.0])
    tensor([0.3182])
    """

    def __init__(
        self, dataset: ArrayLike, bw_method: str | float | None = None, weights: ArrayLike | None = None
    ) -> None:
        data, share = floats(dataset, 1.0 if weights is None else weights)
        self.dataset = data[None] if data.ndim == 1 else data
        self.d, self.n = self.dataset.shape
        if self.n < 2:
            raise ValueError("`dataset` input should have multiple elements.")
        if weights is None:
            share = ops.ones_like(self.dataset[0])
        self.weights = share / share.sum()
        effective = 1 / (self.weights * self.weights).sum()
        if bw_method is None or bw_method == "scott":
            self.factor = effective ** (-1.0 / (self.d + 4))
        elif bw_method == "silverman":
            self.factor = (effective * (self.d + 2) / 4) ** (-1.0 / (self.d + 4))
        elif isinstance(bw_method, (int, float)):
            self.factor = bw_method * ops.ones_like(effective)
        else:
            raise ValueError("`bw_method` should be 'scott', 'silverman', or a scalar")
        centered = self.dataset - (self.dataset * self.weights).sum(1, keepdim=True)
        covariance = (centered * self.weights) @ centered.mT / (1 - (self.weights * self.weights).sum())
        self.covariance = covariance * self.factor**2
        self._factor = ours.cholesky(self.covariance)

    def logpdf(self, x: ArrayLike) -> Tensor:
        """Return the logarithm of the density at points, of shape ``(m,)`` or ``(d, m)``."""
        points, samples = floats(x, self.dataset)
        if points.ndim < 2:
            points = points.reshape(1, -1) if self.d == 1 else points.reshape(-1, 1)
        if points.shape[0] != self.d:
            raise ValueError(f"points have dimension {points.shape[0]}, dataset has dimension {self.d}")
        white = ours.solve_triangular(self._factor, ops.cat([points, samples], 1), upper=False)
        count = points.shape[1]
        difference = white[:, :count, None] - white[:, None, count:]
        energy = (difference * difference).sum(0) / 2
        constant = ops.log(ops.diagonal(self._factor)).sum() + self.d * math.log(2 * math.pi) / 2
        return ops.logsumexp(ops.log(self.weights) - energy, 1) - constant

    def evaluate(self, points: ArrayLike) -> Tensor:
        """Return the density at points."""
        return ops.exp(self.logpdf(points))

    pdf = evaluate
    __call__ = evaluate
