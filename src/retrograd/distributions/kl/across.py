"""Divergences between distributions of different families: -H(p) - E[log q(x)] for samples x of p.

E[log q(x)] is computed from the expectations of x, x^2, log(x), log(1 - x) and exp(-t x) under p.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import product
from typing import Any

from ..._generated.special import erf
from ..._generated.toplevel import ones_like
from ...core.tensor.tensor import Tensor
from ..distribution import Distribution
from ..families.binary import Bernoulli, Binomial, ContinuousBernoulli, Poisson
from ..families.positive import Exponential, Gamma, Pareto
from ..families.real_line import LOG_SQRT_TAU, Gumbel, Laplace, Normal, Uniform
from ..families.simplex import Beta
from ..utils import broadcast_shapes, euler_constant
from .registry import register_kl
from .within import infinite_unless

# Expectations under p

Expectation = Callable[..., Tensor]


def _mean_log_between(low: Tensor, high: Tensor) -> Tensor:
    return (high.xlogy(high) - low.xlogy(low)) / (high - low) - 1


_MEAN_LOG: dict[type[Distribution], Expectation] = {
    Beta: lambda p: p.concentration1.digamma() - (p.concentration1 + p.concentration0).digamma(),
    Exponential: lambda p: -euler_constant - p.rate.log(),
    Gamma: lambda p: p.concentration.digamma() - p.rate.log(),
    Pareto: lambda p: p.scale.log() + 1 / p.alpha,
    Uniform: lambda p: _mean_log_between(p.low, p.high),
}

# E[exp(-t x)]
_LAPLACE_TRANSFORM: dict[type[Distribution], Expectation] = {
    Exponential: lambda p, t: p.rate / (p.rate + t),
    Gamma: lambda p, t: (1 + t / p.rate).pow(-p.concentration),
    Normal: lambda p, t: (0.5 * (t * p.scale).square() - t * p.loc).exp(),
    Uniform: lambda p, t: ((-t * p.low).exp() - (-t * p.high).exp()) / (t * (p.high - p.low)),
}


def _of_family(table: dict[type[Distribution], Any], d: Distribution) -> Any:
    """Return the table's entry for the class of the distribution, or else for its nearest base class."""
    return next((table[kind] for kind in type(d).__mro__ if kind in table), None)


def _mean_log(p: Distribution) -> Tensor:
    return _of_family(_MEAN_LOG, p)(p)


# -E[log q(x)], by the family of q


def _to_normal(p: Distribution, q: Normal) -> Tensor:
    spread = p.variance + (p.mean - q.loc).square()
    return LOG_SQRT_TAU + q.scale.log() + 0.5 * spread / q.scale.square()


def _to_gamma(p: Distribution, q: Gamma) -> Tensor:
    a = q.concentration
    return a.lgamma() - a * q.rate.log() + q.rate * p.mean - (a - 1) * _mean_log(p)


def _to_beta(p: Uniform, q: Beta) -> Tensor:
    a, b = q.concentration1, q.concentration0
    log_beta = a.lgamma() + b.lgamma() - (a + b).lgamma()
    return log_beta - (a - 1) * _mean_log(p) - (b - 1) * _mean_log_between(1 - p.high, 1 - p.low)


def _to_gumbel(p: Distribution, q: Gumbel) -> Tensor:
    shifted = (q.loc / q.scale).exp() * _of_family(_LAPLACE_TRANSFORM, p)(p, 1 / q.scale)
    return q.scale.log() + (p.mean - q.loc) / q.scale + shifted


def _to_laplace(p: Normal, q: Laplace) -> Tensor:
    """Use the mean of the folded normal distribution for E|x - loc|."""
    z = (p.loc - q.loc) / p.scale
    distance = p.scale * (math.sqrt(2 / math.pi) * (-0.5 * z.square()).exp() + z * erf(math.sqrt(0.5) * z))
    return (2 * q.scale).log() + distance / q.scale


# Bounds of the support of p, by its family

_BOUNDS: dict[type[Distribution], Callable[[Any], tuple[Tensor | float, Tensor | float]]] = {
    Beta: lambda d: (0.0, 1.0),
    ContinuousBernoulli: lambda d: (0.0, 1.0),
    Exponential: lambda d: (0.0, math.inf),
    Gamma: lambda d: (0.0, math.inf),
    Pareto: lambda d: (d.scale, math.inf),
    Uniform: lambda d: (d.low, d.high),
}


def _divergence(minus_mean_log_q: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """KL(p || q) from -E[log q(x)], infinite if the support of p is not contained in the support of q."""

    def divergence(p: Distribution, q: Distribution) -> Tensor:
        value = minus_mean_log_q(p, q) - p.entropy()
        p_bounds, q_bounds = _of_family(_BOUNDS, p), _of_family(_BOUNDS, q)
        if p_bounds is None or q_bounds is None:
            return value
        (p_low, p_high), (q_low, q_high) = p_bounds(p), q_bounds(q)
        inside = ones_like(value, dtype=bool) & (p_low >= q_low) & (p_high <= q_high)
        return infinite_unless(inside, value)

    return divergence


def _infinite(p: Distribution, q: Distribution) -> Tensor:
    """Return infinity: no p of this family has its support within the support of any q."""
    return p.mean.new_full(broadcast_shapes(p.batch_shape, q.batch_shape), math.inf)


_UNIT = (Beta, ContinuousBernoulli)
_ON_REALS = (Gumbel, Laplace, Normal)

_FINITE: list[tuple[tuple[type[Distribution], ...], type[Distribution], Callable[..., Tensor]]] = [
    ((*_UNIT, Exponential, Gamma, Gumbel, Laplace, Pareto, Uniform), Normal, _to_normal),
    ((*_UNIT, Gamma, Pareto, Uniform), Exponential, lambda p, q: q.rate * p.mean - q.rate.log()),
    ((Beta, Exponential, Pareto, Uniform), Gamma, _to_gamma),
    ((Exponential, Gamma, Normal, Uniform), Gumbel, _to_gumbel),
    (_UNIT, Uniform, lambda p, q: (q.high - q.low).log()),
    ((Uniform,), Beta, _to_beta),
    ((Uniform, Beta), ContinuousBernoulli, lambda p, q: -p.mean * q.logits - (-q.probs).log1p() - q._log_norm()),
    ((Uniform,), Pareto, lambda p, q: (q.alpha + 1) * _mean_log(p) - q.alpha.log() - q.alpha * q.scale.log()),
    ((Normal,), Laplace, _to_laplace),
    ((Bernoulli,), Poisson, lambda p, q: q.rate - p.probs.xlogy(q.rate)),
]
_INFINITE: list[tuple[tuple[type[Distribution], ...], tuple[type[Distribution], ...]]] = [
    (_ON_REALS, (*_UNIT, Exponential, Gamma, Pareto, Uniform)),
    ((Exponential, Gamma), (*_UNIT, Pareto, Uniform)),
    ((Pareto,), (*_UNIT, Uniform)),
    (_UNIT, (Pareto,)),
    ((Poisson,), (Bernoulli, Binomial)),
]

for _families, _q, _function in _FINITE:
    for _p in _families:
        register_kl(_p, _q)(_divergence(_function))

for _families, _others in _INFINITE:
    for _p, _q in product(_families, _others):
        register_kl(_p, _q)(_infinite)
