"""Distances and similarities between vectors."""

from __future__ import annotations

from ..core.tensor import Tensor
from . import functional as F
from .module import Module


class CosineSimilarity(Module):
    """``x1 @ x2 / max(|x1| |x2|, eps)`` along a dimension.

    >>> import retrograd as rg
    >>> rg.nn.CosineSimilarity()(rg.tensor([[3.0, 4.0]]), rg.tensor([[4.0, 3.0]]))
    tensor([0.96])
    """

    def __init__(self, dim: int = 1, eps: float = 1e-8) -> None:
        super().__init__()
        self.dim = dim
        self.eps = eps

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.cosine_similarity(x1, x2, self.dim, self.eps)


class PairwiseDistance(Module):
    """The p-norm of ``x1 - x2 + eps`` along the last dimension.

    >>> import retrograd as rg
    >>> rg.nn.PairwiseDistance()(rg.tensor([[3.0, 4.0]]), rg.zeros(1, 2))
    tensor([5.])
    """

    def __init__(self, p: float = 2.0, eps: float = 1e-6, keepdim: bool = False) -> None:
        super().__init__()
        self.norm = p
        self.eps = eps
        self.keepdim = keepdim

    def forward(self, x1: Tensor, x2: Tensor) -> Tensor:
        return F.pairwise_distance(x1, x2, self.norm, self.eps, self.keepdim)
