"""Distances and similarities between vectors."""

from __future__ import annotations

from dataclasses import field

from ...core.tensor.tensor import Tensor
from .. import functional as F
from ..base.fields import calls_with_fields
from ..base.module import Module


@calls_with_fields(F.cosine_similarity)
class CosineSimilarity(Module):
    """``x1 @ x2 / max(|x1| |x2|, eps)`` along a dimension: two inputs ``(*, D, *)`` to ``(*, *)``.

    >>> rg.nn.CosineSimilarity()(rg.tensor([[3.0, 4.0]]), rg.tensor([[4.0, 3.0]]))
    tensor([0.96])
    """

    dim: int = field(default=1, repr=False)
    eps: float = field(default=1e-8, repr=False)


class PairwiseDistance(Module):
    """The p-norm of ``x1 - x2 + eps`` along the last dimension: two inputs ``(*, D)`` to ``(*)``.

    Args:
        p: the order of the norm; the attribute is ``norm``.
        eps: added to the differences, so that the norm is differentiable.
        keepdim: keep the dimension, with length 1.

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
