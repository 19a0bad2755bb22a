"""Dropout: in training, values are set to zero at random and the others scaled up so that the mean stays."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .module import Module


class _Dropout(Module):
    def __init__(self, p: float = 0.5, inplace: bool = False) -> None:
        super().__init__()
        if not 0 <= p <= 1:
            raise ValueError(f"{type(self).__name__}: p must be between 0 and 1, got {p}")
        self.p = p
        self.inplace = inplace

    def extra_repr(self) -> str:
        return f"p={self.p}, inplace={self.inplace}"


class Dropout(_Dropout):
    """Each element is zero with probability ``p``, else ``x / (1 - p)``; in evaluation x (Hinton et al., 2012).

    >>> import retrograd as rg
    >>> rg.nn.Dropout(0.5).eval()(rg.ones(3))
    tensor([1., 1., 1.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout(input, self.p, self.training, self.inplace)


class Dropout1d(_Dropout):
    """Whole channels of ``(N, C, L)`` or ``(C, L)`` are zero with probability ``p`` (Tompson et al., 2014).

    >>> import retrograd as rg
    >>> rg.nn.Dropout1d(1.0)(rg.ones(1, 2, 1)).flatten()
    tensor([0., 0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout1d(input, self.p, self.training, self.inplace)


class Dropout2d(_Dropout):
    """Whole channels of ``(N, C, H, W)`` are zero with probability ``p``.

    >>> import retrograd as rg
    >>> rg.nn.Dropout2d(1.0)(rg.ones(1, 2, 1, 1)).flatten()
    tensor([0., 0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout2d(input, self.p, self.training, self.inplace)


class Dropout3d(_Dropout):
    """Whole channels of ``(N, C, D, H, W)`` are zero with probability ``p``.

    >>> import retrograd as rg
    >>> rg.nn.Dropout3d(1.0)(rg.ones(1, 2, 1, 1, 1)).flatten()
    tensor([0., 0.])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.dropout3d(input, self.p, self.training, self.inplace)
