"""Cross entropy with its own linear layer."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod

from ...core.arrays.dtypes import DType
from ...core.errors import describe
from ...core.tensor.tensor import Tensor
from ...ops.table.documentation import like
from .. import functional as F
from ..base.arguments import DeviceLike, DTypeLike
from ..base.module import Module
from ..layers.linear import Linear


@dataclass(frozen=True, kw_only=True)
class LinearCrossEntropyOptions:
    """PyTorch's options for dividing the work of ``linear_cross_entropy``; accepted for compatibility, without effect.

    Args:
        batch_chunk_size: the number of examples per chunk.
        chunking_method: how to choose ``batch_chunk_size``.
        acc_policy: which sums are accumulated in higher precision.
        acc_dtype: the dtype of these sums.
        allow_retain_graph: whether ``backward(retain_graph=True)`` is allowed; here it always is.

    >>> rg.nn.LinearCrossEntropyOptions().chunking_method
    'auto'
    """

    batch_chunk_size: int | None = None
    chunking_method: str | None = "auto"
    acc_policy: str = "auto"
    acc_dtype: DType | None = None
    allow_retain_graph: bool = False


@like(F.linear_cross_entropy)
class LinearCrossEntropyLoss(Module):
    """``cross_entropy(linear(input), target)`` with a linear layer owned by the loss: ``(N, F)`` to ``()``.

    Args:
        in_features: ``F``, the length of an input.
        num_classes: the number of classes.
        out_features: ``(d1, ...)`` for targets ``(N, d1, ...)``.
        bias: whether the layer has a bias.
        device, dtype: device and dtype of the parameters.
        options: see ``LinearCrossEntropyOptions``.

    Raises:
        RuntimeError: weight or label_smoothing is invalid; when called, a shape is wrong.

    Attributes:
        linear: the linear layer.

    >>> rg.nn.LinearCrossEntropyLoss(3, 4)(rg.zeros(2, 3), rg.tensor([0, 3])).detach()
    tensor(1.3863)
    """

    weight: Tensor | None

    def __init__(
        self,
        in_features: int,
        num_classes: int,
        *,
        out_features: tuple[int, ...] = (),
        bias: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        reduction: str = "mean",
        weight: Tensor | None = None,
        ignore_index: int | None = None,
        label_smoothing: float = 0.0,
        options: LinearCrossEntropyOptions | None = None,
    ) -> None:
        if weight is not None and weight.shape != (num_classes,):
            raise RuntimeError(
                f"LinearCrossEntropyLoss: weight must have shape {(num_classes,)}, got {describe(weight)}"
            )
        if not 0 <= label_smoothing <= 1:
            raise RuntimeError(f"LinearCrossEntropyLoss: label_smoothing must be in [0, 1], got {label_smoothing}")
        super().__init__()
        self.register_buffer("weight", weight)
        self.reduction = reduction
        self.num_classes = num_classes
        self.out_features = tuple(out_features)
        self.ignore_index = ignore_index
        self.label_smoothing = label_smoothing
        self.linear = Linear(in_features, prod(self.out_features, start=num_classes), bias, device, dtype)
        self.options = options

    def forward(self, input: Tensor, target: Tensor) -> Tensor:
        outputs = (self.num_classes, *self.out_features)
        bias = self.linear.bias
        return F.linear_cross_entropy(
            input,
            self.linear.weight.reshape((*outputs, self.linear.in_features)),
            target,
            linear_bias=None if bias is None else bias.reshape(outputs),
            weight=self.weight,
            reduction=self.reduction,
            ignore_index=self.ignore_index,
            label_smoothing=self.label_smoothing,
            options=self.options,
        )
