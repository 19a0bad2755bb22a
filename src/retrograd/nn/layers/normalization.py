"""Normalization by the statistics of a batch, of each example, or of each group of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ...core.errors import describe
from ...core.tensor.tensor import Tensor
from ...ops.make.creation import tensor
from ...ops.make.filled import ones, zeros
from ...ops.table.documentation import like
from .. import functional as F
from .. import init
from ..base.arguments import DeviceLike, DTypeLike
from ..base.fields import calls_with_fields
from ..base.module import Module
from ..parameter import Parameter, new_parameter


class _Affine(Module):
    """A module with optional ``weight`` and ``bias``."""

    def reset_parameters(self) -> None:
        """Set ``weight`` to one and ``bias`` to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)


class _NormBase(_Affine):
    """Normalization per channel, with optional running statistics; ``ranks`` are the allowed numbers of dimensions."""

    ranks: ClassVar[tuple[int, ...]]
    weight: Parameter | None
    bias: Parameter | None
    running_mean: Tensor | None
    running_var: Tensor | None
    num_batches_tracked: Tensor | None

    def __init__(
        self,
        num_features: int,
        eps: float,
        momentum: float | None,
        affine: bool,
        track_running_stats: bool,
        device: DeviceLike,
        dtype: DTypeLike,
        bias: bool,
    ) -> None:
        super().__init__()
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self.affine = affine
        self.track_running_stats = track_running_stats
        shape = (num_features,)
        self.register_parameter("weight", new_parameter(shape, device, dtype) if affine else None)
        self.register_parameter("bias", new_parameter(shape, device, dtype) if affine and bias else None)
        tracked = track_running_stats
        self.register_buffer("running_mean", zeros(shape, device=device, dtype=dtype) if tracked else None)
        self.register_buffer("running_var", ones(shape, device=device, dtype=dtype) if tracked else None)
        count = tensor(0, dtype=np.int64, device=device) if tracked else None
        self.register_buffer("num_batches_tracked", count)
        self.reset_parameters()

    _version = 2  # the version in PyTorch; version 1 had no num_batches_tracked

    def _load_from_state_dict(
        self, state_dict: dict[str, Any], prefix: str, local_metadata: dict[str, Any], *args: Any
    ) -> None:
        """Load the state; keep ``num_batches_tracked`` if the dictionary is of version 1, which lacks it."""
        key = f"{prefix}num_batches_tracked"
        older = (local_metadata.get("version") or 1) < 2
        if older and self.num_batches_tracked is not None and key not in state_dict:
            state_dict[key] = self.num_batches_tracked
        super()._load_from_state_dict(state_dict, prefix, local_metadata, *args)

    def reset_running_stats(self) -> None:
        """Reset the running statistics."""
        for buffer, value in ((self.running_mean, 0), (self.running_var, 1), (self.num_batches_tracked, 0)):
            if buffer is not None:
                buffer.fill_(value)

    def reset_parameters(self) -> None:
        """Set ``weight`` to one and ``bias`` to zero, and reset the running statistics."""
        self.reset_running_stats()
        super().reset_parameters()

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            wanted = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ValueError(f"{type(self).__name__}: expected {wanted} input, got {describe(input)}")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        momentum = self.momentum
        mean, var = self.running_mean, self.running_var
        by_batch = self.training or mean is None
        if self.training and self.track_running_stats and (batches := self.num_batches_tracked) is not None:
            batches.add_(1)
            if momentum is None:  # the cumulative average over all batches
                momentum = 1.0 / float(batches.item())
        if self.training and not self.track_running_stats:
            mean = var = None
        return F.batch_norm(
            input, mean, var, self.weight, self.bias, by_batch, 0.0 if momentum is None else momentum, self.eps
        )


class BatchNorm1d(_BatchNorm):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` per channel, with mean and variance of the batch.

    Evaluation uses running averages over the batches instead. Shape: ``(N, C)`` or ``(N, C, L)``, preserved.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: the weight of the batch in the running averages; None uses a cumulative average.
        affine: whether to learn ``weight`` and ``bias``.
        track_running_stats: whether to maintain running averages; else evaluation also uses the batch.

    Raises:
        ValueError: when called, the input has a wrong number of dimensions, or only one value per channel in training.
        RuntimeError: when called, the input has a wrong number of channels.

    Attributes:
        weight: ``(C,)``, initially one, or None.
        bias: ``(C,)``, initially zero, or None.
        running_mean: ``(C,)``, the average of the batches' means, or None.
        running_var: ``(C,)``, the average of the batches' variances, or None.
        num_batches_tracked: the number of batches, or None.

    Source: Ioffe and Szegedy, Batch normalization, 2015.

    >>> rg.nn.BatchNorm1d(2, affine=False)(rg.tensor([[1.0, 10.0], [3.0, 30.0]]))
    tensor([[-1., -1.],
            [ 1.,  1.]])
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """As ``BatchNorm1d``, for ``(N, C, H, W)``; the shape is preserved.

    >>> rg.nn.BatchNorm2d(3)(rg.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """As ``BatchNorm1d``, for ``(N, C, D, H, W)``; the shape is preserved.

    >>> rg.nn.BatchNorm3d(3)(rg.ones(2, 3, 2, 2, 2)).shape
    (2, 3, 2, 2, 2)
    """

    ranks = (5,)


class _InstanceNorm(_NormBase):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input_dim(input)
        unbatched = input.ndim == self.ranks[0]
        channels = input.shape[0 if unbatched else 1]
        if self.affine and channels != self.num_features:
            raise ValueError(f"{type(self).__name__}: expected {self.num_features} channels, got {describe(input)}")
        result = F.instance_norm(
            input.unsqueeze(0) if unbatched else input,
            self.running_mean,
            self.running_var,
            self.weight,
            self.bias,
            self.training or not self.track_running_stats,
            0.0 if self.momentum is None else self.momentum,
            self.eps,
        )
        return result.squeeze(0) if unbatched else result


class InstanceNorm1d(_InstanceNorm):
    """As ``BatchNorm1d``, with mean and variance of each example, for ``(N, C, L)`` or ``(C, L)``.

    Arguments as ``BatchNorm1d``; by default without ``weight``, ``bias`` and running averages.

    Source: Ulyanov, Vedaldi and Lempitsky, Instance normalization, 2016.

    >>> rg.nn.InstanceNorm1d(1)(rg.tensor([[[1.0, 3.0]], [[10.0, 30.0]]])).flatten()
    tensor([-1.,  1., -1.,  1.])
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """As ``InstanceNorm1d``, for ``(N, C, H, W)`` or ``(C, H, W)``; the shape is preserved.

    >>> rg.nn.InstanceNorm2d(3)(rg.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """As ``InstanceNorm1d``, for ``(N, C, D, H, W)`` or ``(C, D, H, W)``; the shape is preserved.

    >>> rg.nn.InstanceNorm3d(3)(rg.ones(2, 3, 2, 2, 2)).shape
    (2, 3, 2, 2, 2)
    """

    ranks = (4, 5)


@like(BatchNorm1d)
class LayerNorm(_Affine):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the trailing dimensions; shape and dtype are preserved.

    Args:
        normalized_shape: the lengths of the trailing dimensions; a number normalizes the last dimension only.
        elementwise_affine: whether to learn ``weight`` and ``bias``.

    Raises:
        RuntimeError: when called, the trailing dimensions of the input do not have these lengths.

    Attributes:
        weight: a Parameter of shape ``normalized_shape``, initially one, or None.
        bias: a Parameter of shape ``normalized_shape``, initially zero, or None.

    Source: Ba, Kiros and Hinton, Layer normalization, 2016.

    >>> rg.nn.LayerNorm(2, elementwise_affine=False)(rg.tensor([[1.0, 3.0], [10.0, 30.0]]))
    tensor([[-1.,  1.],
            [-1.,  1.]])
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float = 1e-5,
        elementwise_affine: bool = True,
        bias: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter("weight", new_parameter(shape, device, dtype) if elementwise_affine else None)
        self.register_parameter("bias", new_parameter(shape, device, dtype) if elementwise_affine and bias else None)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


@like(LayerNorm, raises="RuntimeError")
class RMSNorm(Module):
    """``x / sqrt(mean(x^2) + eps) * weight`` over the trailing dimensions; shape and dtype are preserved.

    Args:
        eps: added to the mean square; by default the machine epsilon of the dtype, or of float32 for 16-bit dtypes.
        elementwise_affine: whether to learn ``weight``.

    Attributes:
        weight: a Parameter of shape ``normalized_shape``, initially one; or None.

    Source: Zhang and Sennrich, Root mean square layer normalization, 2019.

    >>> rg.nn.RMSNorm(3, elementwise_affine=False)(rg.tensor([[3.0, 3.0, -3.0]]))
    tensor([[ 1.,  1., -1.]])
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter("weight", new_parameter(shape, device, dtype) if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set ``weight`` to one."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


@like(BatchNorm1d)
class GroupNorm(_Affine):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over groups of channels of each example.

    Shape: ``(N, C, *)``, preserved.

    Args:
        num_groups: a divisor of num_channels.
        num_channels: ``C``.
        affine: whether to learn ``weight`` and ``bias`` per channel.

    Raises:
        ValueError: ``num_groups`` does not divide ``num_channels``.

    Attributes:
        weight: one per channel, initially 1, or None.
        bias: one per channel, initially 0, or None.

    Source: Wu and He, Group normalization, 2018.

    >>> rg.nn.GroupNorm(2, 4)(rg.ones(1, 4, 3)).shape
    (1, 4, 3)
    """

    weight: Parameter | None
    bias: Parameter | None

    def __init__(
        self,
        num_groups: int,
        num_channels: int,
        eps: float = 1e-5,
        affine: bool = True,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__()
        if num_groups <= 0 or num_channels % num_groups:
            raise ValueError(f"GroupNorm: num_channels={num_channels} must be divisible by num_groups={num_groups}")
        self.num_groups = num_groups
        self.num_channels = num_channels
        self.eps = eps
        self.affine = affine
        shape = (num_channels,)
        self.register_parameter("weight", new_parameter(shape, device, dtype) if affine else None)
        self.register_parameter("bias", new_parameter(shape, device, dtype) if affine and bias else None)
        self.reset_parameters()

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        bias = self.bias is not None
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={bias}"


@calls_with_fields(F.local_response_norm)
class LocalResponseNorm(Module):
    """``x / (k + alpha * mean_c x_c^2)^beta``, with the mean over neighboring channels c, for ``(N, C, *)``.

    Source: Krizhevsky, Sutskever and Hinton, ImageNet classification with deep convolutional neural networks, 2012.

    >>> rg.nn.LocalResponseNorm(2, alpha=1.0, beta=1.0)(rg.ones(1, 2, 1)).flatten()
    tensor([0.6667, 0.5   ])
    """

    size: int
    alpha: float = 1e-4
    beta: float = 0.75
    k: float = 1.0

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
