"""Dropout: in training, set random elements to zero and scale the others so that the mean is preserved."""

from __future__ import annotations

from ...ops.table.documentation import like
from .. import functional as F
from ..base.fields import calls, init_from_fields
from ..base.module import Module


@init_from_fields
class _DropoutNd(Module):
    p: float = 0.5
    inplace: bool = False

    def __post_init__(self) -> None:
        if not 0 <= self.p <= 1:
            raise ValueError(f"{type(self).__name__}: p must be between 0 and 1, got {self.p}")

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


_DropoutNd._settings += ("training",)


@calls(F.dropout)
class Dropout(_DropoutNd):
    """Each element is zero with probability ``p``, else ``x / (1 - p)``; in evaluation the result is ``x``.

    Shape: any, preserved.

    Raises:
        ValueError: ``p`` is outside ``[0, 1]``.

    Source: Srivastava et al., Dropout: a simple way to prevent neural networks from overfitting, 2014.

    >>> rg.nn.Dropout(0.5).eval()(rg.ones(3))
    tensor([1., 1., 1.])
    """


@calls(F.dropout1d)
class Dropout1d(_DropoutNd):
    """Whole channels of ``(N, C, L)`` or ``(C, L)`` are zero with probability ``p``; arguments as ``Dropout``.

    Source: Tompson et al., Efficient object localization using convolutional networks, 2015.

    >>> rg.nn.Dropout1d(1.0)(rg.ones(1, 2, 1)).flatten()
    tensor([0., 0.])
    """


@calls(F.dropout2d)
class Dropout2d(_DropoutNd):
    """Whole channels of ``(N, C, H, W)`` are zero with probability ``p``; arguments as ``Dropout``.

    >>> rg.nn.Dropout2d(1.0)(rg.ones(1, 2, 1, 1)).flatten()
    tensor([0., 0.])
    """


@calls(F.dropout3d)
class Dropout3d(_DropoutNd):
    """Whole channels of ``(N, C, D, H, W)`` are zero with probability ``p``; arguments as ``Dropout``.

    >>> rg.nn.Dropout3d(1.0)(rg.ones(1, 2, 1, 1, 1)).flatten()
    tensor([0., 0.])
    """


@like(Dropout, raises="ValueError")
@calls(F.alpha_dropout)
class AlphaDropout(_DropoutNd):
    """Dropout for SELU networks: elements saturate with probability ``p``; mean and variance are preserved.

    Source: Klambauer et al., Self-normalizing neural networks, 2017.

    >>> rg.nn.AlphaDropout(0.5).eval()(rg.ones(3))
    tensor([1., 1., 1.])
    """


@calls(F.feature_alpha_dropout)
class FeatureAlphaDropout(_DropoutNd):
    """``AlphaDropout`` of whole channels of ``(N, C, *)``.

    >>> rg.nn.FeatureAlphaDropout(0.5).eval()(rg.ones(1, 2, 1)).flatten()
    tensor([1., 1.])
    """
