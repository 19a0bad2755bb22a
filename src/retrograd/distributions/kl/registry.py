"""The registry of functions that compute a divergence, by the classes of the two distributions."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, TypeVar

from ...core.tensor.tensor import Tensor
from ..distribution import Distribution

Divergence = TypeVar("Divergence", bound=Callable[..., Tensor])
Pair = tuple[type, type]

_registry: dict[Pair, Callable[..., Tensor]] = {}


def register_kl(type_p: type, type_q: type) -> Callable[[Divergence], Divergence]:
    """Return a decorator that registers a function of p and q as their KL divergence.

    The most specific match for both classes is used. If the most specific matches for p and for q differ, a
    RuntimeWarning names the pair to register.

    Args:
        type_p: a class of distributions. It may also be a base class that does not derive from ``Distribution``.
        type_q: a class of distributions.

    Raises:
        TypeError: an argument is not a class.

    >>> class Shifted(rg.distributions.Normal):
    ...     pass
    >>> @rg.distributions.register_kl(Shifted, rg.distributions.Uniform)
    ... def divergence(p, q):
    ...     return rg.tensor(7.0)
    >>> rg.distributions.kl_divergence(Shifted(0.0, 1.0), rg.distributions.Uniform(0.0, 1.0))
    tensor(7.)
    """
    for kind in (type_p, type_q):
        if not isinstance(kind, type):
            raise TypeError(f"register_kl: expected a class of distributions, got {kind!r}")

    def enter(function: Divergence) -> Divergence:
        _registry[type_p, type_q] = function
        return function

    return enter


def _rank(kind: type, ancestor: type) -> int:
    return kind.__mro__.index(ancestor)


def _function_for(p: type, q: type) -> Callable[..., Tensor] | None:
    fitting = [pair for pair in _registry if issubclass(p, pair[0]) and issubclass(q, pair[1])]
    if not fitting:
        return None
    by_p = min(fitting, key=lambda pair: (_rank(p, pair[0]), _rank(q, pair[1])))
    by_q = min(fitting, key=lambda pair: (_rank(q, pair[1]), _rank(p, pair[0])))
    if _registry[by_p] is not _registry[by_q]:
        warnings.warn(
            f"Ambiguous kl_divergence({p.__name__}, {q.__name__}). "
            f"Please register_kl({by_p[0].__name__}, {by_q[1].__name__})",
            RuntimeWarning,
            stacklevel=3,
        )
    return _registry[by_p]


def kl_divergence(p: Distribution, q: Distribution) -> Tensor:
    """Return the Kullback-Leibler divergence KL(p || q), the mean of log p(x) - log q(x) for samples x of p.

    Args:
        p: a distribution.
        q: a distribution.

    Returns:
        The divergences, in the broadcast batch shape.

    Raises:
        NotImplementedError: no function is registered for the pair.

    >>> normal = rg.distributions.Normal
    >>> rg.distributions.kl_divergence(normal(0.0, 1.0), normal(1.0, 1.0))
    tensor(0.5)
    """
    function: Any = _function_for(type(p), type(q))
    if function is None:
        raise NotImplementedError(
            f"No KL(p || q) is implemented for p type {type(p).__name__} and q type {type(q).__name__}"
        )
    return function(p, q)
