"""Losses: how far predictions are from their targets, as one number or (``reduction="none"``) per element."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.tensor import Tensor
from ..ops.nn.losses.common import reduction_of
from . import functional as F
from .distance import PairwiseDistance
from .module import Module


class _Loss(Module):
    """A loss with a reduction: ``"mean"``, ``"sum"`` or ``"none"``; the older flags are translated to it."""

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        older = size_average is not None or reduce is not None
        self.reduction = reduction_of(reduction, size_average, reduce) if older else reduction


class _WeightedLoss(_Loss):
    """A loss with a weight per class, which moves with the module as a buffer."""

    weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)


class L1Loss(_Loss):
    """``|x - y|``.

    >>> import retrograd as rg
    >>> rg.nn.L1Loss()(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    tensor(1.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.l1_loss(input, target, reduction=self.reduction)


class MSELoss(_Loss):
    """``(x - y)^2``.

    >>> import retrograd as rg
    >>> rg.nn.MSELoss()(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    tensor(2.)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.mse_loss(input, target, reduction=self.reduction)


class SmoothL1Loss(_Loss):
    """``(x - y)^2 / (2 beta)`` where ``|x - y| < beta``, ``|x - y| - beta / 2`` elsewhere (Girshick, 2015).

    >>> import retrograd as rg
    >>> rg.nn.SmoothL1Loss()(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    tensor(0.75)
    """

    def __init__(
        self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean", beta: float = 1.0
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.beta = beta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.smooth_l1_loss(input, target, reduction=self.reduction, beta=self.beta)


class HuberLoss(_Loss):
    """``(x - y)^2 / 2`` where ``|x - y| < delta``, ``delta * (|x - y| - delta / 2)`` elsewhere (Huber, 1964).

    >>> import retrograd as rg
    >>> rg.nn.HuberLoss()(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    tensor(0.75)
    """

    def __init__(self, reduction: str = "mean", delta: float = 1.0) -> None:
        super().__init__(reduction=reduction)
        self.delta = delta

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.huber_loss(input, target, reduction=self.reduction, delta=self.delta)


class CrossEntropyLoss(_WeightedLoss):
    """``-log softmax(x)[y]`` for scores ``(N, C, *)`` and classes ``(N, *)``, or probabilities ``(N, C, *)``.

    Args:
        weight: a factor per class, ``(C,)``.
        ignore_index: targets of this class do not count.
        reduction: "mean", "sum" or "none".
        label_smoothing: the share of a target that is spread evenly over all classes.

    >>> import retrograd as rg
    >>> rg.nn.CrossEntropyLoss()(rg.zeros(3, 2), rg.tensor([0, 1, 1]))
    tensor(0.6931)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
        label_smoothing: float = 0.0,
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.cross_entropy(
            input,
            target,
            weight=self.weight,
            ignore_index=self.ignore_index,
            reduction=self.reduction,
            label_smoothing=self.label_smoothing,
        )


class NLLLoss(_WeightedLoss):
    """``-x[y]`` for log-probabilities ``(N, C, *)`` and classes ``(N, *)``; arguments as ``CrossEntropyLoss``.

    >>> import retrograd as rg
    >>> rg.nn.NLLLoss()(rg.tensor([[-0.5, -1.0]]), rg.tensor([1]))
    tensor(1.)
    """

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        ignore_index: int = -100,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        self.ignore_index = ignore_index

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.nll_loss(input, target, weight=self.weight, ignore_index=self.ignore_index, reduction=self.reduction)


class BCELoss(_WeightedLoss):
    """``-(y * log(x) + (1 - y) * log(1 - x))`` for probabilities x, the logarithms not below -100.

    >>> import retrograd as rg
    >>> rg.nn.BCELoss()(rg.tensor([0.5]), rg.tensor([1.0]))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy(input, target, weight=self.weight, reduction=self.reduction)


class BCEWithLogitsLoss(_Loss):
    """``BCELoss`` of ``sigmoid(x)``, computed stably; ``pos_weight`` is a factor on the positive targets.

    >>> import retrograd as rg
    >>> rg.nn.BCEWithLogitsLoss()(rg.tensor([0.0]), rg.tensor([1.0]))
    tensor(0.6931)
    """

    weight: Tensor | None
    pos_weight: Tensor | None

    def __init__(
        self,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        pos_weight: Tensor | None = None,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.register_buffer("weight", weight)
        self.register_buffer("pos_weight", pos_weight)

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.binary_cross_entropy_with_logits(
            input, target, weight=self.weight, reduction=self.reduction, pos_weight=self.pos_weight
        )


class KLDivLoss(_Loss):
    """``y * (log(y) - x)`` for log-probabilities x; the reduction may be "batchmean".

    >>> import retrograd as rg
    >>> rg.nn.KLDivLoss(reduction="batchmean")(rg.zeros(1, 2), rg.ones(1, 2))
    tensor(0.)
    """

    def __init__(
        self,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
        log_target: bool = False,
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_target = log_target

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.kl_div(input, target, reduction=self.reduction, log_target=self.log_target)


class PoissonNLLLoss(_Loss):
    """``exp(x) - y * x``, or ``x - y * log(x + eps)`` without ``log_input``; ``full`` adds Stirling's term.

    >>> import retrograd as rg
    >>> rg.nn.PoissonNLLLoss()(rg.zeros(2), rg.ones(2))
    tensor(1.)
    """

    def __init__(
        self,
        log_input: bool = True,
        full: bool = False,
        size_average: bool | None = None,
        eps: float = 1e-8,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.log_input = log_input
        self.full = full
        self.eps = eps

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


class GaussianNLLLoss(_Loss):
    """``(log(max(var, eps)) + (x - y)^2 / max(var, eps)) / 2``; ``full`` adds the constant.

    >>> import retrograd as rg
    >>> rg.nn.GaussianNLLLoss()(rg.zeros(2), rg.ones(2), rg.ones(2))
    tensor(0.5)
    """

    def __init__(self, *, full: bool = False, eps: float = 1e-6, reduction: str = "mean") -> None:
        super().__init__(reduction=reduction)
        self.full = full
        self.eps = eps

    def forward(self, input: Tensor, target: Tensor, var: Tensor | float) -> Tensor:
        return F.gaussian_nll_loss(input, target, var, full=self.full, eps=self.eps, reduction=self.reduction)


class SoftMarginLoss(_Loss):
    """``log(1 + exp(-y * x))`` for targets 1 and -1.

    >>> import retrograd as rg
    >>> rg.nn.SoftMarginLoss()(rg.zeros(2), rg.ones(2))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.soft_margin_loss(input, target, reduction=self.reduction)


class HingeEmbeddingLoss(_Loss):
    """``x`` where the target is 1, ``max(0, margin - x)`` where it is -1.

    >>> import retrograd as rg
    >>> rg.nn.HingeEmbeddingLoss()(rg.tensor([0.5, 0.5]), rg.tensor([1.0, -1.0]))
    tensor(0.5)
    """

    def __init__(
        self,
        margin: float = 1.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.hinge_embedding_loss(input, target, margin=self.margin, reduction=self.reduction)


class CosineEmbeddingLoss(_Loss):
    """``1 - cos(x1, x2)`` where the target is 1, ``max(0, cos(x1, x2) - margin)`` where it is -1.

    >>> import retrograd as rg
    >>> rg.nn.CosineEmbeddingLoss()(rg.ones(1, 2), rg.ones(1, 2), rg.tensor([-1.0]))
    tensor(1.)
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.cosine_embedding_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MarginRankingLoss(_Loss):
    """``max(0, -y * (x1 - x2) + margin)`` for targets 1 and -1.

    >>> import retrograd as rg
    >>> rg.nn.MarginRankingLoss()(rg.zeros(1), rg.ones(1), rg.ones(1))
    tensor(1.)
    """

    def __init__(
        self,
        margin: float = 0.0,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        self.margin = margin

    def forward(self, input1: Tensor, input2: Tensor, target: Tensor) -> Tensor:
        return F.margin_ranking_loss(input1, input2, target, margin=self.margin, reduction=self.reduction)


class MultiMarginLoss(_WeightedLoss):
    """``sum over i != y of max(0, margin - x[y] + x[i])^p / C`` for scores ``(N, C)`` and classes ``(N,)``.

    >>> import retrograd as rg
    >>> rg.nn.MultiMarginLoss()(rg.zeros(1, 2), rg.tensor([0]))
    tensor(0.5)
    """

    def __init__(
        self,
        p: int = 1,
        margin: float = 1.0,
        weight: Tensor | None = None,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(weight, size_average, reduce, reduction)
        if p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: only p 1 and 2 are supported, got {p}")
        if weight is not None and weight.ndim != 1:
            raise ValueError(f"MultiMarginLoss: weight must have one dimension, got {weight.ndim}")
        self.p = p
        self.margin = margin

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multi_margin_loss(
            input, target, p=self.p, margin=self.margin, weight=self.weight, reduction=self.reduction
        )


class MultiLabelMarginLoss(_Loss):
    """``sum of max(0, 1 - x[y_j] + x[i]) / C`` over the classes y_j of the target, which -1 ends, and the others i.

    >>> import retrograd as rg
    >>> rg.nn.MultiLabelMarginLoss()(rg.zeros(1, 2), rg.tensor([[0, -1]]))
    tensor(0.5)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_margin_loss(input, target, reduction=self.reduction)


class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of ``BCEWithLogitsLoss`` for scores and targets ``(N, C)``.

    >>> import retrograd as rg
    >>> rg.nn.MultiLabelSoftMarginLoss()(rg.zeros(1, 2), rg.ones(1, 2))
    tensor(0.6931)
    """

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        return F.multilabel_soft_margin_loss(input, target, weight=self.weight, reduction=self.reduction)


class TripletMarginLoss(_Loss):
    """``max(0, |a - p| - |a - n| + margin)`` with p-norms; ``swap`` takes the nearer of a and p to n.

    >>> import retrograd as rg
    >>> rg.nn.TripletMarginLoss()(rg.zeros(1, 2), rg.zeros(1, 2), rg.zeros(1, 2))
    tensor(1.)
    """

    def __init__(
        self,
        margin: float = 1.0,
        p: float = 2.0,
        eps: float = 1e-6,
        swap: bool = False,
        size_average: bool | None = None,
        reduce: bool | None = None,
        reduction: str = "mean",
    ) -> None:
        super().__init__(size_average, reduce, reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginLoss: expected margin to be greater than 0, got {margin}")
        self.margin = margin
        self.p = p
        self.eps = eps
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_loss(
            anchor,
            positive,
            negative,
            margin=self.margin,
            p=self.p,
            eps=self.eps,
            swap=self.swap,
            reduction=self.reduction,
        )


class TripletMarginWithDistanceLoss(_Loss):
    """``max(0, d(a, p) - d(a, n) + margin)`` with a distance of one's own, by default the Euclidean.

    >>> import retrograd as rg
    >>> rg.nn.TripletMarginWithDistanceLoss()(rg.zeros(1, 2), rg.zeros(1, 2), rg.zeros(1, 2))
    tensor(1.)
    """

    def __init__(
        self,
        *,
        distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
        margin: float = 1.0,
        swap: bool = False,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        if margin <= 0:
            raise ValueError(f"TripletMarginWithDistanceLoss: expected margin to be greater than 0, got {margin}")
        self.distance_function: Any = PairwiseDistance() if distance_function is None else distance_function
        self.margin = margin
        self.swap = swap

    def forward(self, anchor: Tensor, positive: Tensor, negative: Tensor) -> Tensor:
        return F.triplet_margin_with_distance_loss(
            anchor,
            positive,
            negative,
            distance_function=self.distance_function,
            margin=self.margin,
            swap=self.swap,
            reduction=self.reduction,
        )


class CTCLoss(_Loss):
    """Minus the log-probability that any alignment of the target to the input steps has (Graves et al., 2006).

    Args:
        blank: the class that stands for no label.
        reduction: "mean" divides by the lengths of the targets first.
        zero_infinity: take 0 where a target does not fit in its input.

    >>> import retrograd as rg
    >>> log_probs = rg.log_softmax(rg.zeros(4, 1, 3), 2)
    >>> rg.nn.CTCLoss(reduction="sum")(log_probs, rg.tensor([[1, 2]]), [4], [2])
    tensor(1.6864)
    """

    def __init__(self, blank: int = 0, reduction: str = "mean", zero_infinity: bool = False) -> None:
        super().__init__(reduction=reduction)
        self.blank = blank
        self.zero_infinity = zero_infinity

    def forward(self, log_probs: Tensor, targets: Tensor, input_lengths: Any, target_lengths: Any) -> Tensor:
        return F.ctc_loss(
            log_probs, targets, input_lengths, target_lengths, self.blank, self.reduction, self.zero_infinity
        )
