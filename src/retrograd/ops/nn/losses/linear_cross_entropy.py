"""Cross entropy of a linear layer's output."""

from __future__ import annotations

from math import prod

from ....core.errors import describe
from ....core.graph.primitive import operand
from ....core.tensor.tensor import Tensor
from ...linear.products.affine import linear
from ...table.registry import operator
from .classes import cross_entropy


@operator(namespace="nn.functional", method=False)
def linear_cross_entropy(
    input: Tensor,
    linear_weight: Tensor,
    target: Tensor,
    *,
    linear_bias: Tensor | None = None,
    weight: Tensor | None = None,
    reduction: str = "mean",
    ignore_index: int | None = None,
    label_smoothing: float = 0.0,
    options: object = None,
) -> Tensor:
    """``cross_entropy(linear(input, linear_weight, linear_bias), target)``, with the options of ``cross_entropy``.

    Derivative: that of the two.
    Shape: input ``(N, F)`` or ``(F,)``; linear_weight ``(C, F)`` or ``(C, d1, ..., F)``; target ``(N,)``, ``()`` or
        ``(N, d1, ...)``, or as the logits; the result is 0-d, or with reduction ``"none"`` has the shape of class
        indices.
    Dtype: floating, all one; class indices are integers.

    Args:
        input: what the layer is given.
        linear_weight: the layer's weight.
        target: class indices, or probabilities.
        linear_bias: the layer's offset, in the weight's shape without F.
        weight: a weight for each class.
        ignore_index: the class index that does not count, by default -100.
        label_smoothing: how much of each target is spread evenly over the classes.
        options: how PyTorch divides the work; its settings change no result and are not needed here.

    Raises:
        RuntimeError: the shapes do not fit, or ``ignore_index`` is given for probabilities.

    >>> F.linear_cross_entropy(rg.zeros(2, 3), rg.ones(4, 3), rg.tensor([0, 3]))
    tensor(1.3863)
    """
    x, w, t = operand(input), operand(linear_weight, "linear_weight"), operand(target, "target")
    if x.array.ndim not in (1, 2):
        raise RuntimeError(f"expected input with 1 or 2 dimensions, got {describe(x)}")
    if w.array.ndim < 2 or w.array.shape[-1] != x.array.shape[-1]:
        raise RuntimeError(f"linear_weight {describe(w)} does not fit input {describe(x)}")
    outputs = w.array.shape[:-1]
    if linear_bias is not None and operand(linear_bias, "linear_bias").array.shape != outputs:
        raise RuntimeError(f"expected linear_bias of shape {outputs}, got {describe(linear_bias)}")
    if len(outputs) > 1 and x.array.ndim == 1:
        raise RuntimeError(f"linear_weight {describe(w)} requires batched input, got {describe(x)}")
    logits_shape = (*x.array.shape[:-1], *outputs)
    if t.array.shape == logits_shape and ignore_index is not None:
        raise RuntimeError("ignore_index cannot be specified when target contains probabilities")
    flat_bias = None if linear_bias is None else linear_bias.reshape(prod(outputs))
    logits = linear(x, w.reshape((prod(outputs), w.array.shape[-1])), flat_bias).reshape(logits_shape)
    return cross_entropy(
        logits,
        t,
        weight=weight,
        reduction=reduction,
        ignore_index=-100 if ignore_index is None else ignore_index,
        label_smoothing=label_smoothing,
    )
