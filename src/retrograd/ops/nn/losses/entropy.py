"""Losses of probabilities: binary cross entropy and the Kullback-Leibler divergence.

Binary cross entropy is fused with its reduction: one primitive computes the mean, and its rule the complete gradient.
"""

from __future__ import annotations

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import all_examples
from ....core.errors import InvalidValue, describe
from ....core.graph.primitive import Primitive, apply, apply1, operand
from ....core.tensor.tensor import Tensor
from ....kernels.loops.elements import elementwise
from ...math.exponential import SIGMOID
from ...table.arguments import floating_operand
from ...table.batching import summed_up
from ...table.registry import operator
from ..activations.smooth import LOGSIGMOID, log1p_exp
from .reduction import reduced, reduced_array, reduction_of, share_of


def _bce_with_logits(x: Array, y: Array, reduction: str) -> Array:
    """``log(1 + exp(x)) - x y``, without overflow, and without cancellation for labels 0 and 1."""
    out = elementwise.loss(elementwise.LOGITS, x, y, reduction)
    if out is not None:
        return out
    size = np.abs(x)
    return reduced_array(size * np.where(x > 0, 1 - y, y) + log1p_exp(-size), reduction)


def _bce_with_logits_vjp_x(g: Array, x: Array, y: Array, reduction: str) -> Array:
    share = share_of(g, x, reduction)
    out = elementwise.slope(elementwise.LOGITS, share, x, y)
    return share * (SIGMOID(x) - y) if out is None else out


BCE_WITH_LOGITS = Primitive(
    "binary_cross_entropy_with_logits",
    _bce_with_logits,
    "x y",
    [_bce_with_logits_vjp_x, lambda g, x, reduction: -share_of(g, x, reduction) * x],
    promote="same",
    signals=True,
    batch=summed_up,
)


def _bce(x: Array, y: Array, reduction: str) -> Array:
    # The logarithms are at least -100, so that the loss is finite (as in PyTorch).
    limit = x.dtype.type(-100)
    return reduced_array((y - 1) * np.maximum(np.log1p(-x), limit) - y * np.maximum(np.log(x), limit), reduction)


BCE = Primitive(
    "binary_cross_entropy",
    _bce,
    "x y",
    [
        lambda g, x, y, reduction: share_of(g, x, reduction) * (x - y) / np.maximum(x * (1 - x), 1e-12),
        lambda g, x, reduction: share_of(g, x, reduction) * (np.log1p(-x) - np.log(x)),
    ],
    promote="strict",
    signals=True,
    batch=summed_up,
)


@operator(namespace="nn.functional", method=False, dtype="equal real", raises="real")
def binary_cross_entropy(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Tensor:
    """``-(y log(p) + (1 - y) log(1 - p))`` for probabilities p and targets y; the logarithms are at least -100.

    Derivative: input: ``g (p - y) / max(p (1 - p), 1e-12)``, finite at 0 and 1; target: ``g (log(1 - p) - log(p))``,
    which is not bounded.
    Shape: input and target have the same shape; the result is 0-d, or with reduction ``"none"`` has that shape.

    Args:
        input: the probabilities p.
        target: the targets y, in ``[0, 1]``.
        weight: factors that broadcast with the loss.

    Raises:
        ValueError: input and target differ in shape, or ``reduction`` is unknown.
        RuntimeError: an element of the input is not between 0 and 1.

    >>> F.binary_cross_entropy(rg.tensor([0.5, 0.5]), rg.tensor([1.0, 0.0]))
    tensor(0.6931)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x, y = floating_operand(input), operand(target, "target")
    if x.array.shape != y.array.shape:
        raise InvalidValue(f"input {describe(x)} and target {describe(y)} must have the same size")
    probabilities = all_examples(x.array)
    if probabilities.size and not bool(((probabilities >= 0) & (probabilities <= 1)).all()):
        raise RuntimeError(f"all elements of input must be between 0 and 1, got others in {describe(x)}")
    if weight is None:
        return apply(BCE, (x, y), {"reduction": reduction})
    w = operand(weight, "weight")
    return reduced(apply(BCE, (x, y), {"reduction": "none"}) * w, reduction)


def _refuse_integers(target: Tensor) -> None:
    if target.array.dtype.kind in "biu":
        raise RuntimeError(f"the target must be floating, got {describe(target)}")


@operator(namespace="nn.functional", method=False, like=binary_cross_entropy, dtype="target", args="input logits")
def binary_cross_entropy_with_logits(
    input: Tensor,
    target: Tensor,
    weight: Tensor | None = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Tensor | None = None,
) -> Tensor:
    """``-(pos_weight * y log(p) + (1 - y) log(1 - p))`` for ``p = sigmoid(input)``, accurate for logits of any size.

    Derivative: input: ``g (p - y)`` without ``pos_weight``; target: ``-g input``.

    Args:
        pos_weight: factors of the positive term, which broadcast with the target.

    Raises:
        RuntimeError: the target holds integers.

    >>> F.binary_cross_entropy_with_logits(rg.tensor([0.0, 1000.0]), rg.tensor([1.0, 1.0]))
    tensor(0.3466)
    """
    reduction = reduction_of(reduction, size_average, reduce)
    x, y = floating_operand(input), operand(target, "target")
    if x.array.shape != y.array.shape:
        raise InvalidValue(f"target size {describe(y)} must be the same as input size {describe(x)}")
    _refuse_integers(y)
    if weight is None and pos_weight is None:
        return apply(BCE_WITH_LOGITS, (x, y), {"reduction": reduction})
    loss = apply(BCE_WITH_LOGITS, (x, y), {"reduction": "none"})
    if pos_weight is not None:
        # y log p has the factor pos_weight: the loss contains the term once; add pos_weight - 1 times the term.
        loss = loss - (operand(pos_weight, "pos_weight") - 1) * y * apply1(LOGSIGMOID, x)
    if weight is not None:
        loss = loss * operand(weight, "weight")
    return reduced(loss, reduction)


@operator(
    namespace="nn.functional",
    method=False,
    real=True,
    shape="loss",
    args="input log-probabilities",
    raises="target of integers",
)
def kl_div(
    input: Tensor,
    target: Tensor,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    log_target: bool = False,
) -> Tensor:
    """``y (log(y) - input)``: the Kullback-Leibler divergence of targets y from log-probabilities.

    Derivative: input: ``-g y``; target: ``g (log(y) + 1 - input)``, or with ``log_target`` ``g y (target + 1
    - input)``.
    Dtype: real floating.

    Args:
        target: probabilities, or with ``log_target`` their logarithms.
        reduction: ``"none"``, ``"mean"``, ``"sum"``, or ``"batchmean"``: the sum divided by the length of the first
            dimension, which is the mean divergence of the distributions in a batch.
        log_target: whether the target holds logarithms.

    Raises:
        NotImplementedError: the input is not real floating.

    Source: Kullback, Leibler, "On information and sufficiency", 1951.

    >>> F.kl_div(rg.tensor([[0.5, 0.5]]).log(), rg.tensor([[1.0, 0.0]]), reduction="batchmean")
    tensor(0.6931)
    """
    batchmean = reduction == "batchmean" and size_average is None and reduce is None
    reduction = reduction_of("sum" if batchmean else reduction, size_average, reduce)
    x, y = floating_operand(input), operand(target, "target")
    _refuse_integers(y)
    loss = y.exp() * (y - x) if log_target else y.xlogy(y) - y * x
    loss = reduced(loss, reduction)
    return loss / x.array.shape[0] if batchmean and x.array.ndim else loss
