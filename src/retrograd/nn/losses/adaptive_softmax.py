"""Adaptive softmax: an efficient softmax over many classes, with clusters of rare classes."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from ...core.errors import describe
from ...core.tensor.tensor import Tensor
from ...ops.indexing.selection import where
from ...ops.shape.joining import cat
from .. import functional as F
from ..base.arguments import DeviceLike, DTypeLike
from ..base.containers import ModuleList, Sequential
from ..base.module import Module
from ..layers.linear import Linear


class _ASMoutput(NamedTuple):
    """The log-probability of each target, and the mean negative log-probability."""

    output: Tensor
    loss: Tensor


class AdaptiveLogSoftmaxWithLoss(Module):
    """Cross entropy over many classes that are sorted by frequency; rare classes are in clusters.

    The head predicts the frequent classes and the clusters; a tail per cluster, with smaller layers for rarer
    classes, predicts its classes. Maps inputs ``(N, in_features)`` and targets ``(N,)``, or both without N, to the
    output ``(N,)`` and the loss ``()``.

    Args:
        in_features: the length of an input.
        n_classes: the number of classes; class 0 is the most frequent one.
        cutoffs: the first class after the head, and the first class after each cluster except the last; ascending.
        div_value: the hidden size of cluster i is ``in_features / div_value**i``, for i = 1, 2, ...
        head_bias: whether the head has a bias.

    Raises:
        ValueError: the cutoffs are not ascending numbers between 1 and ``n_classes - 1``.
        RuntimeError: when called, a shape is wrong or a target is out of range.

    Source: Grave et al., Efficient softmax approximation for GPUs, 2017.

    >>> layer = rg.nn.AdaptiveLogSoftmaxWithLoss(16, 20, [5, 10])
    >>> layer.log_prob(rg.ones(3, 16)).exp().sum(1).round(decimals=4)
    tensor([1., 1., 1.], grad_fn=<round>)
    """

    def __init__(
        self,
        in_features: int,
        n_classes: int,
        cutoffs: Sequence[int],
        div_value: float = 4.0,
        head_bias: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        bounds = list(cutoffs)
        ascending = all(low < high for low, high in pairwise((0, *bounds, n_classes)))
        if not bounds or not ascending or any(int(bound) != bound for bound in bounds):
            raise ValueError(
                "AdaptiveLogSoftmaxWithLoss: cutoffs must be unique, ascending integers between 1 and n_classes - 1, "
                f"got {bounds} for n_classes={n_classes}"
            )
        self.in_features = in_features
        self.n_classes = n_classes
        self.cutoffs = [*bounds, n_classes]
        self.div_value = div_value
        self.head_bias = head_bias
        self.shortlist_size = self.cutoffs[0]
        self.n_clusters = len(self.cutoffs) - 1
        self.head_size = self.shortlist_size + self.n_clusters
        self.head = Linear(in_features, self.head_size, head_bias, device, dtype)
        self.tail = ModuleList()
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            hidden = int(in_features // div_value ** (i + 1))
            self.tail.append(
                Sequential(
                    Linear(in_features, hidden, False, device, dtype), Linear(hidden, high - low, False, device, dtype)
                )
            )

    def reset_parameters(self) -> None:
        """Initialize the parameters."""
        for module in self.modules():
            if isinstance(module, Linear):
                module.reset_parameters()

    def forward(self, input_: Tensor, target_: Tensor) -> _ASMoutput:
        if target_.ndim > 1 or input_.ndim != target_.ndim + 1:
            raise RuntimeError(
                "AdaptiveLogSoftmaxWithLoss: expected inputs (N, in_features) and targets (N,), or both without N, "
                f"got {describe(input_)} and {describe(target_)}"
            )
        if target_.ndim and input_.shape[0] != target_.shape[0]:
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: {describe(input_)} and {describe(target_)} differ in the batch dimension"
            )
        input, target = (input_, target_) if target_.ndim else (input_.unsqueeze(0), target_.unsqueeze(0))
        if target.numel() and not 0 <= int(target.min()) <= int(target.max()) < self.n_classes:
            raise RuntimeError(
                f"AdaptiveLogSoftmaxWithLoss: targets must be in [0, {self.n_classes - 1}], "
                f"got {int(target.min())} to {int(target.max())}"
            )
        head = F.log_softmax(self.head(input), dim=1)
        chosen = target.clone()
        within = input.new_zeros(target.shape[0])
        for i, (low, high) in enumerate(pairwise(self.cutoffs)):
            rows = ((target >= low) & (target < high)).nonzero().squeeze(1)
            if not rows.numel():
                continue
            cluster = F.log_softmax(self.tail[i](input.index_select(0, rows)), dim=1)
            places = (target.index_select(0, rows) - low).unsqueeze(1)
            within = within.index_copy(0, rows, cluster.gather(1, places).squeeze(1))
            chosen = chosen.index_fill(0, rows, self.shortlist_size + i)
        output = head.gather(1, chosen.unsqueeze(1)).squeeze(1) + within
        loss = -output.mean()
        return _ASMoutput(output if target_.ndim else output.squeeze(0), loss)

    def log_prob(self, input: Tensor) -> Tensor:
        """Return the log-probabilities of all classes: ``(N, in_features)`` to ``(N, n_classes)``."""
        head = F.log_softmax(self.head(input), dim=1)
        parts = [head[:, : self.shortlist_size]]
        for i in range(self.n_clusters):
            place = self.shortlist_size + i
            parts.append(F.log_softmax(self.tail[i](input), dim=1) + head[:, place : place + 1])
        return cat(parts, 1)

    def predict(self, input: Tensor) -> Tensor:
        """Return the most probable class: ``(N, in_features)`` to ``(N,)``."""
        found = self.head(input).argmax(1)
        rare = found >= self.shortlist_size
        if not rare.any():
            return found
        # If the head's best entry is a cluster, a class outside of the cluster may still be more probable.
        return where(rare, self.log_prob(input).argmax(1), found)
