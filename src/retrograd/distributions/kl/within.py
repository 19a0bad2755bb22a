"""Divergences between distributions of one family."""

from __future__ import annotations

import math

from ..._generated.functional import logsigmoid
from ..._generated.linalg import solve_triangular
from ...core.tensor.tensor import Tensor
from ..distribution import ExponentialFamily
from ..families.binary import Bernoulli, Binomial, ContinuousBernoulli, Geometric, Poisson
from ..families.categorical import Categorical, OneHotCategorical
from ..families.multivariate import (
    LowRankMultivariateNormal,
    MultivariateNormal,
    Wishart,
    half_log_det,
    mahalanobis,
    trace_of_square,
)
from ..families.positive import Exponential, Gamma, Pareto
from ..families.real_line import Cauchy, Gumbel, HalfNormal, Laplace, Normal, Uniform
from ..families.simplex import Beta, Dirichlet
from ..independent import Independent
from ..transformed_distribution import TransformedDistribution
from ..utils import choose, euler_constant, sum_rightmost
from .registry import kl_divergence, register_kl


def infinite_unless(condition: Tensor, value: Tensor) -> Tensor:
    """Return the value where the support of q contains the support of p (``condition``), else infinity."""
    return choose(condition, value, math.inf)


# Discrete families


@register_kl(Bernoulli, Bernoulli)
def _bernoulli(p: Bernoulli, q: Bernoulli) -> Tensor:
    success = p.probs * (logsigmoid(p.logits) - logsigmoid(q.logits))
    failure = (1 - p.probs) * (logsigmoid(-p.logits) - logsigmoid(-q.logits))
    success = choose(p.probs == 0, 0.0, infinite_unless(q.probs > 0, success))
    failure = choose(p.probs == 1, 0.0, infinite_unless(q.probs < 1, failure))
    return success + failure


@register_kl(Binomial, Binomial)
def _binomial(p: Binomial, q: Binomial) -> Tensor:
    if bool((p.total_count < q.total_count).any()):
        raise NotImplementedError("KL between Binomials where q.total_count > p.total_count is not implemented")
    one = _bernoulli(p, q)  # type: ignore[arg-type]
    return infinite_unless(p.total_count == q.total_count, p.total_count * one)


@register_kl(Geometric, Geometric)
def _geometric(p: Geometric, q: Geometric) -> Tensor:
    return -p.entropy() - (-q.probs).log1p() / p.probs - q.logits


@register_kl(Poisson, Poisson)
def _poisson(p: Poisson, q: Poisson) -> Tensor:
    return p.rate.xlogy(p.rate) - p.rate.xlogy(q.rate) - (p.rate - q.rate)


@register_kl(Categorical, Categorical)
@register_kl(OneHotCategorical, OneHotCategorical)
def _categorical(p: Categorical, q: Categorical) -> Tensor:
    terms = infinite_unless(q.probs > 0, p.probs * (p.logits - q.logits))
    return choose(p.probs == 0, 0.0, terms).sum(-1)


# Families on the real line and its parts


@register_kl(Normal, Normal)
def _normal(p: Normal, q: Normal) -> Tensor:
    ratio = (p.scale / q.scale).square()
    return 0.5 * (ratio + ((p.loc - q.loc) / q.scale).square() - 1 - ratio.log())


@register_kl(HalfNormal, HalfNormal)
def _half_normal(p: HalfNormal, q: HalfNormal) -> Tensor:
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(Laplace, Laplace)
def _laplace(p: Laplace, q: Laplace) -> Tensor:
    ratio, distance = p.scale / q.scale, (p.loc - q.loc).abs()
    return distance / q.scale + ratio * (-distance / p.scale).exp() - ratio.log() - 1


@register_kl(Cauchy, Cauchy)
def _cauchy(p: Cauchy, q: Cauchy) -> Tensor:
    """Return the formula of F. Chyzak and F. Nielsen, "A closed-form formula for the KL divergence ..." (2019)."""
    return ((p.scale + q.scale).square() + (p.loc - q.loc).square()).log() - (4 * p.scale * q.scale).log()


@register_kl(Gumbel, Gumbel)
def _gumbel(p: Gumbel, q: Gumbel) -> Tensor:
    ratio, shift = p.scale / q.scale, (p.loc - q.loc) / q.scale
    return shift - ratio.log() + ratio * euler_constant + ((1 + ratio).lgamma() - shift).exp() - 1 - euler_constant


@register_kl(Uniform, Uniform)
def _uniform(p: Uniform, q: Uniform) -> Tensor:
    inside = (q.low <= p.low) & (q.high >= p.high)
    return infinite_unless(inside, ((q.high - q.low) / (p.high - p.low)).log())


@register_kl(Exponential, Exponential)
def _exponential(p: Exponential, q: Exponential) -> Tensor:
    ratio = q.rate / p.rate
    return ratio - ratio.log() - 1


@register_kl(Gamma, Gamma)
def _gamma(p: Gamma, q: Gamma) -> Tensor:
    a, b = p.concentration, q.concentration
    return (
        b * (p.rate / q.rate).log() + b.lgamma() - a.lgamma() + (a - b) * a.digamma() + (q.rate - p.rate) * (a / p.rate)
    )


@register_kl(Pareto, Pareto)
def _pareto(p: Pareto, q: Pareto) -> Tensor:
    ratio = q.alpha / p.alpha
    value = q.alpha * (p.scale / q.scale).log() - ratio.log() + ratio - 1
    return infinite_unless(p.scale >= q.scale, value)


@register_kl(ContinuousBernoulli, ContinuousBernoulli)
def _continuous_bernoulli(p: ContinuousBernoulli, q: ContinuousBernoulli) -> Tensor:
    of_p, of_q = p._log_norm() + (-p.probs).log1p(), q._log_norm() + (-q.probs).log1p()
    return p.mean * (p.logits - q.logits) + of_p - of_q


@register_kl(Beta, Beta)
def _beta(p: Beta, q: Beta) -> Tensor:
    a, b, c, d = p.concentration1, p.concentration0, q.concentration1, q.concentration0
    norms = c.lgamma() + d.lgamma() - (c + d).lgamma() - a.lgamma() - b.lgamma() + (a + b).lgamma()
    return norms + (a - c) * a.digamma() + (b - d) * b.digamma() + (c + d - a - b) * (a + b).digamma()


@register_kl(Dirichlet, Dirichlet)
def _dirichlet(p: Dirichlet, q: Dirichlet) -> Tensor:
    a, b = p.concentration, q.concentration
    total = a.sum(-1)
    norms = total.lgamma() - b.sum(-1).lgamma() - (a.lgamma() - b.lgamma()).sum(-1)
    return norms + ((a - b) * (a.digamma() - total.digamma().unsqueeze(-1))).sum(-1)


# Vectors and matrices


NormalVectors = MultivariateNormal | LowRankMultivariateNormal


def _same_event(p: NormalVectors, q: NormalVectors) -> int:
    if p.event_shape != q.event_shape:
        raise ValueError(
            "KL-divergence between two (Low Rank) Multivariate Normals with different event shapes cannot be computed: "
            f"{tuple(p.event_shape)} and {tuple(q.event_shape)}"
        )
    return p.event_shape[0]


@register_kl(MultivariateNormal, MultivariateNormal)
def _multivariate_normal(p: MultivariateNormal, q: MultivariateNormal) -> Tensor:
    n = _same_event(p, q)
    p_tril, q_tril = p._unbroadcasted_scale_tril, q._unbroadcasted_scale_tril
    trace = trace_of_square(solve_triangular(q_tril, p_tril, upper=False))
    distance = mahalanobis(q_tril, q.loc - p.loc)
    return half_log_det(q_tril) - half_log_det(p_tril) + 0.5 * (trace + distance - n)


@register_kl(LowRankMultivariateNormal, MultivariateNormal)
def _low_rank_to_full(p: LowRankMultivariateNormal, q: MultivariateNormal) -> Tensor:
    n = _same_event(p, q)
    tril = q._unbroadcasted_scale_tril
    factor, diag = p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag.sqrt().diag_embed()
    trace = sum_of_traces(solve_triangular(tril, factor, upper=False), solve_triangular(tril, diag, upper=False))
    return 0.5 * (2 * half_log_det(tril) - p.log_det() + trace + mahalanobis(tril, q.loc - p.loc) - n)


@register_kl(MultivariateNormal, LowRankMultivariateNormal)
def _full_to_low_rank(p: MultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    n = _same_event(p, q)
    tril = p._unbroadcasted_scale_tril
    trace = _trace_by_precision(q, tril)
    return 0.5 * (q.log_det() - 2 * half_log_det(tril) + trace + q.mahalanobis(q.loc - p.loc) - n)


@register_kl(LowRankMultivariateNormal, LowRankMultivariateNormal)
def _low_rank(p: LowRankMultivariateNormal, q: LowRankMultivariateNormal) -> Tensor:
    n = _same_event(p, q)
    factor, diag = p._unbroadcasted_cov_factor, p._unbroadcasted_cov_diag
    root = q._precision_root()
    of_diag = (diag / q._unbroadcasted_cov_diag).sum(-1) - trace_of_square(root * diag.sqrt().unsqueeze(-2))
    trace = of_diag + _trace_by_precision(q, factor)
    return 0.5 * (q.log_det() - p.log_det() + trace + q.mahalanobis(q.loc - p.loc) - n)


def sum_of_traces(*matrices: Tensor) -> Tensor:
    """Return the sum of tr(X X^T) over the matrices."""
    total = trace_of_square(matrices[0])
    for matrix in matrices[1:]:
        total = total + trace_of_square(matrix)
    return total


def _trace_by_precision(q: LowRankMultivariateNormal, factor: Tensor) -> Tensor:
    """Return tr(covariance_q^-1 F F^T) = tr(D^-1 F F^T) - tr(A F (A F)^T)."""
    weighted = factor * q._unbroadcasted_cov_diag.rsqrt().unsqueeze(-1)
    return trace_of_square(weighted) - trace_of_square(q._precision_root() @ factor)


@register_kl(Wishart, Wishart)
def _wishart(p: Wishart, q: Wishart) -> Tensor:
    side = p.event_shape[-1]
    ratio = solve_triangular(q._unbroadcasted_scale_tril, p._unbroadcasted_scale_tril, upper=False)
    trace = trace_of_square(ratio)
    return (p.df - q.df) / 2 * p.expected_log_det() + p.df / 2 * (trace - side) - p.log_norm() + q.log_norm()


# Distributions composed of other distributions


@register_kl(Independent, Independent)
def _independent(p: Independent, q: Independent) -> Tensor:
    if p.reinterpreted_batch_ndims != q.reinterpreted_batch_ndims:
        raise NotImplementedError(
            "KL between Independents of different reinterpreted_batch_ndims: "
            f"{p.reinterpreted_batch_ndims} and {q.reinterpreted_batch_ndims}"
        )
    return sum_rightmost(kl_divergence(p.base_dist, q.base_dist), p.reinterpreted_batch_ndims)


@register_kl(TransformedDistribution, TransformedDistribution)
def _transformed(p: TransformedDistribution, q: TransformedDistribution) -> Tensor:
    if p.transforms != q.transforms or p.event_shape != q.event_shape:
        raise NotImplementedError("KL between TransformedDistributions of different transforms or event shapes")
    return kl_divergence(p.base_dist, q.base_dist)


@register_kl(ExponentialFamily, ExponentialFamily)
def _exponential_family(p: ExponentialFamily, q: ExponentialFamily) -> Tensor:
    if type(p) is not type(q):
        raise NotImplementedError(
            "The KL divergence between different exponential families cannot be computed by Bregman divergences: "
            f"{type(p).__name__} and {type(q).__name__}"
        )
    return p.cross_entropy_to(q) - p.cross_entropy_to(p)
