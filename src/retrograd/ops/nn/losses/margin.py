"""Losses with a margin: hinges, rankings, embeddings and triplets."""

from __future__ import annotations

from collections.abc import Callable

from ....core.arrays import Array
from ....core.errors import InvalidValue, describe
from ....core.graph.primitive import Primitive, apply, apply2, operand
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels.loops.elements import elementwise
from ...math.exponential import SIGMOID
from ...table.arguments import floating_operand
from ...table.batching import summed_up
from ...table.elementwise_primitives import KEEP
from ...table.registry import operator
from ...table.types import Operand
from ..activations.smooth import log1p_exp
from ..similarity import pairwise_distance
from .entropy import BCE_WITH_LOGITS
from .reduction import reduced, reduced_array, reduction_of, share_of


def _where(mask: Array, x: Tensor) -> Tensor:
    return apply2(KEEP, x, new_tensor(mask))


@operator(namespace="nn.functional", method=False, shape="loss", dtype="real floating", args="target signs")
def hinge_embedding_loss(
    input: Tensor,
    target: Tensor,
    margin: float = 1.0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``input`` where the target is 1, ``max(0, margin - input)`` where it is -1.

    Derivative: input: ``g`` where the target is 1; ``-g`` where it is -1 and ``input <= margin``, else 0.

    Args:
        input: distances.
        margin: pairs with target -1 have no loss at distances beyond it.

    >>> F.hinge_embedding_loss(rg.tensor([0.25, 0.25]), rg.tensor([1.0, -1.0]), reduction="none")
    tensor([0.25, 0.75])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x, y = operand(input), operand(target, "target").array
    return reduced(_where(y != 1, (margin - x).clamp(min=0)) + _where(y != -1, x), reduction)


@operator(namespace="nn.functional", method=False, dtype="real floating")
def margin_ranking_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin - y (x1 - x2))``: x1 should exceed x2 for ``y = 1``, and x2 should exceed x1 for ``y = -1``.

    Derivative: input1: ``-g y`` where the loss is positive or at the kink, else 0; input2: the negative of that;
    target: ``-g (x1 - x2)`` where the loss is positive or at the kink, else 0.
    Shape: the three Tensors broadcast; the result is 0-d, or with reduction ``"none"`` has the common shape.

    Args:
        input1, input2: x1 and x2.
        target: y, of 1 and -1.
        margin: a pair has no loss if x1 and x2 differ by more than the margin in the right direction.

    Raises:
        RuntimeError: the inputs have different numbers of dimensions.

    >>> F.margin_ranking_loss(rg.tensor([1.0]), rg.tensor([3.0]), rg.tensor([1.0]), margin=0.5)
    tensor(2.5)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x1, x2, y = operand(input1, "input1"), operand(input2, "input2"), operand(target, "target")
    if not x1.array.ndim == x2.array.ndim == y.array.ndim:
        raise RuntimeError(
            f"all inputs should have the same number of dimensions, got input1 {describe(x1)}, "
            f"input2 {describe(x2)}, target {describe(y)}"
        )
    return reduced((-y * (x1 - x2) + margin).clamp(min=0), reduction)


@operator(namespace="nn.functional", method=False, like=margin_ranking_loss, args="target signs")
def cosine_embedding_loss(
    input1: Tensor,
    input2: Tensor,
    target: Tensor,
    margin: float = 0,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``1 - cos(x1, x2)`` where the target is 1, ``max(0, cos(x1, x2) - margin)`` where it is -1.

    Derivative: the derivative of the formula, at the kink the derivative from above; finite at zero vectors, since
    1e-12 is added to squared norms.
    Shape: inputs ``(N, D)`` or ``(D,)``, target ``(N,)`` or 0-d; the result is 0-d, or with reduction ``"none"`` has
    the target's shape.

    Args:
        margin: pairs with target -1 have no loss if their cosine is below it.

    Raises:
        RuntimeError: the shapes do not match.

    >>> x, y = rg.tensor([[1.0, 0.0], [3.0, 4.0]]), rg.tensor([[0.0, 1.0], [3.0, 4.0]])
    >>> F.cosine_embedding_loss(x, y, rg.tensor([1, -1]), reduction="none")
    tensor([1., 1.])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x1, x2, t = operand(input1, "input1"), operand(input2, "input2"), operand(target, "target")
    if t.array.ndim > 1 or x1.array.ndim != t.array.ndim + 1 or x2.array.ndim != t.array.ndim + 1:
        raise RuntimeError(
            f"expected inputs (N, D) and target (N,), or (D,) and (), got input1 {describe(x1)}, "
            f"input2 {describe(x2)}, target {describe(t)}"
        )
    tiny = 1e-12  # as in PyTorch, keeps the derivative finite at zero vectors
    dot, one, two = (x1 * x2).sum(-1), (x1 * x1).sum(-1) + tiny, (x2 * x2).sum(-1) + tiny
    cosine = dot / (one * two).sqrt()
    y = t.array
    if y.ndim and y.shape[0] not in (1, cosine.array.shape[0]):
        raise RuntimeError(
            f"expected a target for each of {cosine.array.shape[0]} pairs, or one for all, got {describe(t)}"
        )
    return reduced(_where(y == 1, 1 - cosine) + _where(y == -1, (cosine - margin).clamp(min=0)), reduction)


def _soft_margin(x: Array, y: Array, reduction: str) -> Array:
    out = elementwise.loss(elementwise.SOFT_MARGIN, x, y, reduction)
    return reduced_array(log1p_exp(-x * y), reduction) if out is None else out


def _soft_margin_vjp_x(g: Array, x: Array, y: Array, reduction: str) -> Array:
    share = share_of(g, x, reduction)
    out = elementwise.slope(elementwise.SOFT_MARGIN, share, x, y)
    return -share * y * SIGMOID(-x * y) if out is None else out


SOFT_MARGIN = Primitive(
    "soft_margin_loss",
    _soft_margin,
    "x y",
    [_soft_margin_vjp_x, lambda g, x, y, reduction: -share_of(g, x, reduction) * x * SIGMOID(-x * y)],
    promote="same",
    signals=True,
    batch=summed_up,
)


@operator(namespace="nn.functional", method=False, real=True, like=hinge_embedding_loss, dtype="target")
def soft_margin_loss(
    input: Tensor, target: Tensor, size_average: bool | None = None, reduce: bool | None = None, reduction: str = "mean"
) -> Tensor:
    """``log(1 + exp(-target * input))`` for targets of 1 and -1, accurate for inputs of any size.

    Derivative: input: ``-g target sigmoid(-target input)``; target: ``-g input sigmoid(-target input)``.
    Shape: input and target have the same shape, or the target is 0-d; the result is 0-d, or with reduction ``"none"``
        has the input's shape.

    Args:
        input: scores.

    Raises:
        RuntimeError: the shapes differ.
        NotImplementedError: the input is not real floating.

    >>> F.soft_margin_loss(rg.tensor([0.0, 100.0]), rg.tensor([1.0, -1.0]), reduction="none")
    tensor([  0.6931, 100.    ])
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x, y = floating_operand(input), operand(target, "target")
    if y.array.ndim == 0:
        y = y.expand(x.array.shape)
    if x.array.shape != y.array.shape:
        raise RuntimeError(f"input and target must have the same shape, got {describe(x)} and {describe(y)}")
    return apply(SOFT_MARGIN, (x, y), {"reduction": reduction})


@operator(namespace="nn.functional", method=False, dtype="real", args="input scores", raises="shapes")
def multilabel_soft_margin_loss(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-mean_c(y_c log sigmoid(x_c) + (1 - y_c) log sigmoid(-x_c))`` over the classes, the last dimension.

    Derivative: input: ``g (sigmoid(x) - y) / C``; target: ``-g x / C``.
    Shape: input and target ``(*, C)``; the result is 0-d, or with reduction ``"none"`` has the shape without C.

    Args:
        target: y, in ``[0, 1]``.
        weight: factors that broadcast with the loss of each class.

    Raises:
        IndexError: the input is 0-d.

    >>> F.multilabel_soft_margin_loss(rg.zeros(1, 2), rg.tensor([[1.0, 0.0]]))
    tensor(0.6931)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x, y = floating_operand(input), operand(target, "target")
    if x.array.ndim == 0:
        raise IndexError(f"expected an input (N, C) or (C,), got {describe(x)}")
    if y.array.ndim == 0:
        y = y.expand(x.array.shape)
    if x.array.shape != y.array.shape:
        raise RuntimeError(f"input and target must be (N, C), or both (C,), got {describe(x)} and {describe(y)}")
    loss = apply(BCE_WITH_LOGITS, (x, y), {"reduction": "none"})
    if weight is not None:
        loss = loss * operand(weight, "weight")
    return reduced(loss.mean(-1), reduction)


def _triplet(
    tensors: tuple[Operand, Operand, Operand],
    distance: Callable[[Tensor, Tensor], Tensor],
    margin: float,
    swap: bool,
    reduction: str,
) -> Tensor:
    if margin <= 0:
        raise InvalidValue(f"margin must be greater than 0, got {margin}")
    a, p, n = (operand(x, which) for x, which in zip(tensors, ("anchor", "positive", "negative"), strict=True))
    if not a.array.ndim == p.array.ndim == n.array.ndim:
        raise RuntimeError(
            f"anchor, positive and negative should have the same number of dimensions, got {describe(a)}, "
            f"{describe(p)}, {describe(n)}"
        )
    near, far = distance(a, p), distance(a, n)
    if swap:
        far = far.minimum(distance(p, n))
    return reduced((margin + near - far).clamp(min=0), reduction)


@operator(namespace="nn.functional", method=False, dtype="real floating", args="p norm, eps of differences")
def triplet_margin_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    margin: float = 1.0,
    p: float = 2,
    eps: float = 1e-6,
    swap: bool = False,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))`` with ``d(x, y) = ||x - y + eps||_p``.

    Derivative: that of the distances where the loss is positive or at the kink, else 0.
    Shape: ``(*, D)``, the three Tensors broadcast; the result is 0-d, or with reduction ``"none"`` ``(*,)``.

    Args:
        anchor, positive, negative: vectors; the positive should be nearer to the anchor than the negative.
        margin: triplets have no loss if the distances differ by at least this margin; positive.
        swap: use the distance between positive and negative instead of ``d(anchor, negative)`` where it is smaller.

    Raises:
        ValueError: the margin is not positive, or ``reduction`` is unknown.
        RuntimeError: the tensors have different numbers of dimensions.

    Source: Balntas, Riba, Ponsa, Mikolajczyk, "Learning local feature descriptors with triplets", 2016.

    >>> F.triplet_margin_loss(rg.tensor([[0.0]]), rg.tensor([[1.0]]), rg.tensor([[1.5]]), eps=0.0)
    tensor(0.5)
    """
    reduction = reduction_of(reduction, size_average, reduce)

    def distance(x: Tensor, y: Tensor) -> Tensor:
        return pairwise_distance(x, y, p, eps)

    return _triplet((anchor, positive, negative), distance, margin, swap, reduction)


@operator(namespace="nn.functional", method=False, like=triplet_margin_loss)
def triplet_margin_with_distance_loss(
    anchor: Tensor,
    positive: Tensor,
    negative: Tensor,
    *,
    distance_function: Callable[[Tensor, Tensor], Tensor] | None = None,
    margin: float = 1.0,
    swap: bool = False,
    reduction: str = "mean",
) -> Tensor:
    """``max(0, margin + d(anchor, positive) - d(anchor, negative))`` with any distance d.

    Shape: any that ``distance_function`` accepts; the result is 0-d, or with reduction ``"none"`` has the shape of
    the distances.

    Args:
        anchor, positive, negative: as in ``triplet_margin_loss``.
        distance_function: returns the distances of two Tensors; by default ``pairwise_distance``.
        margin: a positive number, as in ``triplet_margin_loss``.
        swap: as in ``triplet_margin_loss``.

    >>> a, p, n = rg.tensor([[0.0]]), rg.tensor([[1.0]]), rg.tensor([[1.5]])
    >>> F.triplet_margin_with_distance_loss(a, p, n, distance_function=lambda x, y: (x - y).abs().sum(-1))
    tensor(0.5)
    """
    reduction = reduction_of(reduction)
    return _triplet((anchor, positive, negative), distance_function or pairwise_distance, margin, swap, reduction)
