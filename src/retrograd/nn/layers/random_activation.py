"""Layers that draw random numbers in training beside dropout: slopes of rectifiers, dropout for SELU networks."""

from __future__ import annotations

from .. import functional as F
from ..base.fields import calls, init_from_fields
from ..base.module import Module
from .dropout import _DropoutNd


@init_from_fields
class _RReLU(Module):
    lower: float = 1.0 / 8
    upper: float = 1.0 / 3
    inplace: bool = False


_RReLU._settings += ("training",)


@calls(F.rrelu)
class RReLU(_RReLU):
    """``x`` where it is positive, else ``a x``: a is drawn from ``[lower, upper)`` in training, else their mean.

    Shape: any, kept.

    Args:
        lower, upper: the least and the greatest slope.

    Source: Xu et al., Empirical evaluation of rectified activations in convolutional network, 2015.

    >>> rg.nn.RReLU(0.25, 0.75).eval()(rg.tensor([-1.0, 2.0]))
    tensor([-0.5,  2. ])
    """


@calls(F.alpha_dropout)
class AlphaDropout(_DropoutNd):
    """Dropout for SELU networks: elements saturate with probability ``p``; mean and variance stay. Shape: any, kept.

    Args:
        p: the probability, in ``[0, 1]``.

    Raises:
        ValueError: ``p`` is outside ``[0, 1]``.

    Source: Klambauer et al., Self-normalizing neural networks, 2017.

    >>> rg.nn.AlphaDropout(0.5).eval()(rg.ones(3))
    tensor([1., 1., 1.])
    """


@calls(F.feature_alpha_dropout)
class FeatureAlphaDropout(_DropoutNd):
    """As ``AlphaDropout``, of whole channels of ``(N, C, *)``.

    >>> rg.nn.FeatureAlphaDropout(0.5).eval()(rg.ones(1, 2, 1)).flatten()
    tensor([1., 1.])
    """
