"""Loss functions of predictions and targets, reduced to a number or (``reduction="none"``) per element.

``x`` is the input, ``y`` the target. Every loss has

* ``reduction``: ``"mean"``, ``"sum"`` or ``"none"``, applied to the terms of the formula.
* ``size_average`` and ``reduce``: deprecated flags, translated to a reduction.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import KW_ONLY, InitVar
from typing import ClassVar

from ...core.tensor.tensor import Tensor
from ...ops.nn.losses.reduction import reduction_of
from ...ops.table.documentation import like
from .. import functional as F
from ..base.fields import calls, calls_with_fields, init_from_fields
from ..base.module import Module
from ..layers.distance import PairwiseDistance


class _Loss(Module):
    """A loss with a reduction. Subclasses declare all fields, inherited ones included, in PyTorch's order."""

    _settings: ClassVar[tuple[str, ...]] = ("reduction",)

    reduction: str

    def __init__(self, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean") -> None:
        super().__init__()
        self.reduction = reduction
        self.__post_init__(size_average, reduce)

    def __post_init__(self, size_average: bool | None = None, reduce: bool | None = None) -> None:
        if size_average is not None or reduce is not None:
            self.reduction = reduction_of(self.reduction, size_average, reduce)

    def extra_repr(self) -> str:
        return ""


class _WeightedLoss(_Loss):
    """A loss with a weight per class, which is a buffer."""

    _settings: ClassVar[tuple[str, ...]] = ("weight", "reduction")

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


@calls(F.l1_loss)
class L1Loss(_Loss):
    """``|x - y|`` for input and target of one shape ``(*)``.

    >>> rg.nn.L1Loss()(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    tensor(1.)
    """


@calls(F.mse_loss)
class MSELoss(_Loss):
    """``(x - y)^2`` for input and target of one shape ``(*)``; arguments as ``L1Loss``.

    >>> rg.nn.MSELoss()(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    tensor(2.)
    """


@calls_with_fields(F.smooth_l1_loss)
class SmoothL1Loss(_Loss):
    """``(x - y)^2 / (2 beta)`` where ``|x - y| < beta``, ``|x - y| - beta / 2`` elsewhere, for x and y ``(*)``.

    Raises:
        RuntimeError: when called, ``beta`` is negative.

    Source: Girshick, Fast R-CNN, 2015.

    >>> rg.nn.SmoothL1Loss()(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    tensor(0.75)
    """

    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"
    beta: float = 1.0


@calls_with_fields(F.huber_loss)
class HuberLoss(_Loss):
    """``(x - y)^2 / 2`` where ``|x - y| < delta``, ``delta * (|x - y| - delta / 2)`` elsewhere, for x and y ``(*)``.

    Raises:
        RuntimeError: when called, ``delta`` is not positive.

    Source: Huber, Robust estimation of a location parameter, 1964.

    >>> rg.nn.HuberLoss()(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 4.0]))
    tensor(0.75)
    """

    reduction: str = "mean"
    delta: float = 1.0


@calls_with_fields(F.cross_entropy)
class CrossEntropyLoss(_WeightedLoss):
    """``-log softmax(x)[y]`` for logits and classes, ``- sum_c y_c log softmax(x)_c`` for logits and probabilities.

    Logits are ``(N, C, *)`` or ``(C,)``, classes are integers ``(N, *)`` or ``()``, probabilities are like the logits.

    >>> rg.nn.CrossEntropyLoss()(rg.zeros(3, 2), rg.tensor([0, 1, 1]))
    tensor(0.6931)
    """

    weight: Tensor | None = None
    size_average: InitVar[bool | None] = None
    ignore_index: int = -100
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"
    label_smoothing: float = 0.0


@calls_with_fields(F.nll_loss)
class NLLLoss(_WeightedLoss):
    """``-x[y]`` for log-probabilities ``(N, C, *)`` or ``(C,)`` and classes ``(N, *)`` or ``()``.

    >>> rg.nn.NLLLoss()(rg.tensor([[-0.5, -1.0]]), rg.tensor([1]))
    tensor(1.)
    """

    weight: Tensor | None = None
    size_average: InitVar[bool | None] = None
    ignore_index: int = -100
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"


@calls(F.binary_cross_entropy)
class BCELoss(_WeightedLoss):
    """``-(y * log(x) + (1 - y) * log(1 - x))`` for probabilities and targets of one shape ``(*)``.

    Logarithms are clamped to at least -100.

    Raises:
        RuntimeError: when called, an element of ``x`` is outside ``[0, 1]``.

    >>> rg.nn.BCELoss()(rg.tensor([0.5]), rg.tensor([1.0]))
    tensor(0.6931)
    """


@calls_with_fields(F.binary_cross_entropy_with_logits)
class BCEWithLogitsLoss(_Loss):
    """Numerically stable ``BCELoss`` of ``sigmoid(x)`` for logits and targets of one shape ``(*)``.

    >>> rg.nn.BCEWithLogitsLoss()(rg.tensor([0.0]), rg.tensor([1.0]))
    tensor(0.6931)
    """

    weight: Tensor | None = None
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"
    pos_weight: Tensor | None = None


@calls_with_fields(F.kl_div)
class KLDivLoss(_Loss):
    """Kullback-Leibler divergence ``y * (log(y) - x)`` for log-probabilities and probabilities of one shape ``(*)``.

    >>> rg.nn.KLDivLoss(reduction="batchmean")(rg.zeros(1, 2), rg.ones(1, 2))
    tensor(0.)
    """

    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"
    log_target: bool = False


@init_from_fields
class PoissonNLLLoss(_Loss):
    """``exp(x) - y * x`` for logarithms x of Poisson rates and counts y, of the same shape ``(*)``.

    Args:
        log_input: if False, the inputs are the rates: ``x - y * log(x + eps)``.
        full: add Stirling's approximation of ``log(y!)`` where ``y > 1``.
        eps: added in the logarithm for numerical stability.

    >>> rg.nn.PoissonNLLLoss()(rg.zeros(2), rg.ones(2))
    tensor(1.)
    """

    log_input: bool = True
    full: bool = False
    size_average: InitVar[bool | None] = None
    eps: float = 1e-8
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"

    def forward(self, log_input: Tensor, target: Tensor) -> Tensor:
        return F.poisson_nll_loss(
            log_input, target, log_input=self.log_input, full=self.full, eps=self.eps, reduction=self.reduction
        )


@calls_with_fields(F.gaussian_nll_loss)
class GaussianNLLLoss(_Loss):
    """``(log(max(var, eps)) + (x - y)^2 / max(var, eps)) / 2`` for means, targets and variances of shape ``(*)``.

    The variance may also be a number, or a Tensor whose last dimension is 1 or missing.

    Raises:
        ValueError: when called, a variance is negative.

    Source: Nix and Weigend, Estimating the mean and variance of the target probability distribution, 1994.

    >>> rg.nn.GaussianNLLLoss()(rg.zeros(2), rg.ones(2), rg.ones(2))
    tensor(0.5)
    """

    _: KW_ONLY
    full: bool = False
    eps: float = 1e-6
    reduction: str = "mean"


@calls(F.soft_margin_loss)
class SoftMarginLoss(_Loss):
    """``log(1 + exp(-y * x))`` for inputs and targets 1 or -1 of one shape ``(*)``; arguments as ``L1Loss``.

    >>> rg.nn.SoftMarginLoss()(rg.zeros(2), rg.ones(2))
    tensor(0.6931)
    """


@calls_with_fields(F.hinge_embedding_loss)
class HingeEmbeddingLoss(_Loss):
    """``x`` where the target is 1, ``max(0, margin - x)`` where the target is -1, for inputs and targets ``(*)``.

    >>> rg.nn.HingeEmbeddingLoss()(rg.tensor([0.5, 0.5]), rg.tensor([1.0, -1.0]))
    tensor(0.5)
    """

    margin: float = 1.0
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"


@calls_with_fields(F.cosine_embedding_loss)
class CosineEmbeddingLoss(_Loss):
    """``1 - cos(x1, x2)`` where the target is 1, ``max(0, cos(x1, x2) - margin)`` where it is -1.

    The vectors are ``(N, D)`` and the targets ``(N,)``, or ``(D,)`` and ``()``.

    >>> rg.nn.CosineEmbeddingLoss()(rg.ones(1, 2), rg.ones(1, 2), rg.tensor([-1.0]))
    tensor(1.)
    """

    margin: float = 0.0
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"


@calls_with_fields(F.margin_ranking_loss)
class MarginRankingLoss(_Loss):
    """``max(0, -y * (x1 - x2) + margin)`` for scores and targets 1 (x1 ranks higher) or -1 of one shape ``(N,)``.

    >>> rg.nn.MarginRankingLoss()(rg.zeros(1), rg.ones(1), rg.ones(1))
    tensor(1.)
    """

    margin: float = 0.0
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"


@calls_with_fields(F.multi_margin_loss)
class MultiMarginLoss(_WeightedLoss):
    """``sum_(i != y) max(0, margin - x[y] + x[i])^p / C``: the multi-class hinge loss.

    Scores are ``(N, C)`` or ``(C,)``, classes ``(N,)`` or ``()``.

    Raises:
        ValueError: ``p`` is not 1 or 2, or the weight is not a vector.

    >>> rg.nn.MultiMarginLoss()(rg.zeros(1, 2), rg.tensor([0]))
    tensor(0.5)
    """

    p: int = 1
    margin: float = 1.0
    weight: Tensor | None = None
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"

    def __post_init__(self, size_average: bool | None = None, reduce: bool | None = None) -> None:
        super().__post_init__(size_average, reduce)
        if self.p not in (1, 2):
            raise ValueError(f"MultiMarginLoss: only p 1 and 2 are supported, got {self.p}")
        if self.weight is not None and self.weight.ndim != 1:
            raise ValueError(f"MultiMarginLoss: weight must have one dimension, got {self.weight.ndim}")


@calls(F.multilabel_margin_loss)
class MultiLabelMarginLoss(_Loss):
    """``sum_ij max(0, 1 - x[y_j] + x[i]) / C``: y_j are the target's classes, up to the first -1, and i the others.

    Scores and targets are ``(N, C)`` or ``(C,)``. Arguments as ``L1Loss``.

    >>> rg.nn.MultiLabelMarginLoss()(rg.zeros(1, 2), rg.tensor([[0, -1]]))
    tensor(0.5)
    """


@calls(F.multilabel_soft_margin_loss)
class MultiLabelSoftMarginLoss(_WeightedLoss):
    """The mean over classes of ``BCEWithLogitsLoss`` for logits and targets ``(N, C)``.

    >>> rg.nn.MultiLabelSoftMarginLoss()(rg.zeros(1, 2), rg.ones(1, 2))
    tensor(0.6931)
    """


@calls_with_fields(F.triplet_margin_loss)
class TripletMarginLoss(_Loss):
    """``max(0, |a - p| - |a - n| + margin)`` for anchors, positives and negatives ``(N, D)`` or ``(D,)``.

    Raises:
        ValueError: ``margin`` is not greater than 0.

    Source: Balntas et al., Learning local feature descriptors with triplets and shallow convolutional networks, 2016.

    >>> rg.nn.TripletMarginLoss()(rg.zeros(1, 2), rg.zeros(1, 2), rg.zeros(1, 2))
    tensor(1.)
    """

    margin: float = 1.0
    p: float = 2.0
    eps: float = 1e-6
    swap: bool = False
    size_average: InitVar[bool | None] = None
    reduce: InitVar[bool | None] = None
    reduction: str = "mean"

    def __post_init__(self, size_average: bool | None = None, reduce: bool | None = None) -> None:
        super().__post_init__(size_average, reduce)
        _check_margin(self, self.margin)


@like(TripletMarginLoss, raises="ValueError")
@calls_with_fields(F.triplet_margin_with_distance_loss)
class TripletMarginWithDistanceLoss(_Loss):
    """``max(0, d(a, p) - d(a, n) + margin)`` for anchors, positives and negatives, with a distance ``d``.

    >>> rg.nn.TripletMarginWithDistanceLoss()(rg.zeros(1, 2), rg.zeros(1, 2), rg.zeros(1, 2))
    tensor(1.)
    """

    _: KW_ONLY
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None
    margin: float = 1.0
    swap: bool = False
    reduction: str = "mean"

    def __post_init__(self, size_average: bool | None = None, reduce: bool | None = None) -> None:
        _check_margin(self, self.margin)
        if self.distance_function is None:
            self.distance_function = PairwiseDistance()


def _check_margin(loss: Module, margin: float) -> None:
    if margin <= 0:
        raise ValueError(f"{type(loss).__name__}: expected margin to be greater than 0, got {margin}")


@calls_with_fields(F.ctc_loss)
class CTCLoss(_Loss):
    """Connectionist temporal classification: minus the log-probability of all alignments of the target to the input.

    Log-probabilities are ``(T, N, C)`` or ``(T, C)``; targets ``(N, S)``, or concatenated in one
    vector; the lengths of inputs and targets ``(N,)`` or ``()``.

    Source: Graves et al., Connectionist temporal classification, 2006.

    >>> log_probs = rg.log_softmax(rg.zeros(4, 1, 3), 2)
    >>> rg.nn.CTCLoss(reduction="sum")(log_probs, rg.tensor([[1, 2]]), [4], [2])
    tensor(1.6864)
    """

    blank: int = 0
    reduction: str = "mean"
    zero_infinity: bool = False
