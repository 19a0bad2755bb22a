"""Normalization by the statistics of a batch, of each example, or of each group of channels."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from ..core.errors import describe
from ..core.tensor import Tensor
from ..ops.make.creation import tensor
from ..ops.make.filled import ones, zeros
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter, new_parameter


class _RunningNorm(Module):
    """Normalization per channel that may keep running statistics; ``ranks`` are the numbers of dimensions it takes."""

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
        device: Any,
        dtype: Any,
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

    def reset_running_stats(self) -> None:
        """Forget the running statistics."""
        if self.track_running_stats:
            self.running_mean.zero_()  # type: ignore[union-attr]
            self.running_var.fill_(1)  # type: ignore[union-attr]
            self.num_batches_tracked.zero_()  # type: ignore[union-attr]

    def reset_parameters(self) -> None:
        """Set factors to one, offsets to zero, and forget the running statistics."""
        self.reset_running_stats()
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def _check_input(self, input: Tensor) -> None:
        if input.ndim not in self.ranks:
            wanted = " or ".join(f"{rank}D" for rank in self.ranks)
            raise ValueError(f"{type(self).__name__}: expected {wanted} input, got {describe(input)}")

    def extra_repr(self) -> str:
        return (
            f"{self.num_features}, eps={self.eps}, momentum={self.momentum}, affine={self.affine}, "
            f"bias={self.bias is not None}, track_running_stats={self.track_running_stats}"
        )


class _BatchNorm(_RunningNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input(input)
        momentum = self.momentum
        mean, var = self.running_mean, self.running_var
        by_batch = self.training or mean is None
        if self.training and self.num_batches_tracked is not None:
            self.num_batches_tracked.add_(1)
            if momentum is None:  # the plain average of all batches
                momentum = 1.0 / float(self.num_batches_tracked.item())
        if self.training and not self.track_running_stats:
            mean = var = None
        return F.batch_norm(
            input, mean, var, self.weight, self.bias, by_batch, 0.0 if momentum is None else momentum, self.eps
        )


class BatchNorm1d(_BatchNorm):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` per channel (Ioffe and Szegedy, 2015).

    Takes ``(N, C)`` or ``(N, C, L)``; in training with the statistics of the batch, in evaluation with running averages
    of them.

    Args:
        num_features: the number of channels C.
        eps: added to the variance.
        momentum: the weight of the batch in the running averages; None averages all batches alike.
        affine: whether there are factors and offsets.
        track_running_stats: whether running averages are kept; else evaluation uses the batch, too.
        bias: whether there are offsets.

    Attributes:
        weight, bias: ``(C,)``, one and zero at first, or None.
        running_mean, running_var, num_batches_tracked: buffers, or None.

    >>> import retrograd as rg
    >>> rg.nn.BatchNorm1d(2, affine=False)(rg.tensor([[1.0, 10.0], [3.0, 30.0]]))
    tensor([[-1., -1.],
            [ 1.,  1.]])
    """

    ranks = (2, 3)


class BatchNorm2d(_BatchNorm):
    """As ``BatchNorm1d``, for ``(N, C, H, W)``.

    >>> import retrograd as rg
    >>> rg.nn.BatchNorm2d(3)(rg.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    ranks = (4,)


class BatchNorm3d(_BatchNorm):
    """As ``BatchNorm1d``, for ``(N, C, D, H, W)``.

    >>> import retrograd as rg
    >>> rg.nn.BatchNorm3d(3)(rg.ones(2, 3, 2, 2, 2)).shape
    (2, 3, 2, 2, 2)
    """

    ranks = (5,)


class _InstanceNorm(_RunningNorm):
    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float = 0.1,
        affine: bool = False,
        track_running_stats: bool = False,
        device: Any = None,
        dtype: Any = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias)

    def forward(self, input: Tensor) -> Tensor:
        self._check_input(input)
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
    """As ``BatchNorm1d``, with the statistics of each example: ``(N, C, L)`` or ``(C, L)`` (Ulyanov et al., 2016).

    By default without factors, offsets and running statistics.

    >>> import retrograd as rg
    >>> rg.nn.InstanceNorm1d(1)(rg.tensor([[[1.0, 3.0]], [[10.0, 30.0]]])).flatten()
    tensor([-1.,  1., -1.,  1.])
    """

    ranks = (2, 3)


class InstanceNorm2d(_InstanceNorm):
    """As ``InstanceNorm1d``, for ``(N, C, H, W)`` or ``(C, H, W)``.

    >>> import retrograd as rg
    >>> rg.nn.InstanceNorm2d(3)(rg.ones(2, 3, 4, 4)).shape
    (2, 3, 4, 4)
    """

    ranks = (3, 4)


class InstanceNorm3d(_InstanceNorm):
    """As ``InstanceNorm1d``, for ``(N, C, D, H, W)`` or ``(C, D, H, W)``.

    >>> import retrograd as rg
    >>> rg.nn.InstanceNorm3d(3)(rg.ones(2, 3, 2, 2, 2)).shape
    (2, 3, 2, 2, 2)
    """

    ranks = (4, 5)


class LayerNorm(Module):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over the trailing dimensions (Ba, Kiros and Hinton, 2016).

    Args:
        normalized_shape: the lengths of those dimensions; one number for the last alone.
        eps: added to the variance.
        elementwise_affine: whether there are factors and offsets.
        bias: whether there are offsets.

    Attributes:
        weight, bias: of that shape, one and zero at first, or None.

    >>> import retrograd as rg
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
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter("weight", new_parameter(shape, device, dtype) if elementwise_affine else None)
        self.register_parameter("bias", new_parameter(shape, device, dtype) if elementwise_affine and bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set factors to one and offsets to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.layer_norm(input, self.normalized_shape, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        return (
            f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}, "
            f"bias={self.bias is not None}"
        )


class RMSNorm(Module):
    """``x / sqrt(mean(x^2) + eps) * weight`` over the trailing dimensions (Zhang and Sennrich, 2019).

    Args:
        normalized_shape: the lengths of those dimensions; one number for the last alone.
        eps: added to the mean square; by default the dtype's machine epsilon.
        elementwise_affine: whether there are factors.

    >>> import retrograd as rg
    >>> rg.nn.RMSNorm(3, elementwise_affine=False)(rg.tensor([[3.0, 3.0, -3.0]]))
    tensor([[ 1.,  1., -1.]])
    """

    weight: Parameter | None

    def __init__(
        self,
        normalized_shape: int | Sequence[int],
        eps: float | None = None,
        elementwise_affine: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        self.normalized_shape = shape
        self.eps = eps
        self.elementwise_affine = elementwise_affine
        self.register_parameter("weight", new_parameter(shape, device, dtype) if elementwise_affine else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Set factors to one."""
        if self.weight is not None:
            init.ones_(self.weight)

    def forward(self, x: Tensor) -> Tensor:
        return F.rms_norm(x, self.normalized_shape, self.weight, self.eps)

    def extra_repr(self) -> str:
        return f"{self.normalized_shape}, eps={self.eps}, elementwise_affine={self.elementwise_affine}"


class GroupNorm(Module):
    """``(x - mean) / sqrt(var + eps) * weight + bias`` over groups of channels of each example (Wu and He, 2018).

    Args:
        num_groups: a divisor of num_channels.
        num_channels: C of the input ``(N, C, *)``.
        eps: added to the variance.
        affine: whether there are factors and offsets per channel.
        bias: whether there are offsets.

    >>> import retrograd as rg
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
        device: Any = None,
        dtype: Any = None,
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

    def reset_parameters(self) -> None:
        """Set factors to one and offsets to zero."""
        if self.weight is not None:
            init.ones_(self.weight)
        if self.bias is not None:
            init.zeros_(self.bias)

    def forward(self, input: Tensor) -> Tensor:
        return F.group_norm(input, self.num_groups, self.weight, self.bias, self.eps)

    def extra_repr(self) -> str:
        bias = self.bias is not None
        return f"{self.num_groups}, {self.num_channels}, eps={self.eps}, affine={self.affine}, bias={bias}"


class LocalResponseNorm(Module):
    """``x / (k + alpha * mean of x^2 over size neighbouring channels)^beta`` (Krizhevsky et al., 2012).

    >>> import retrograd as rg
    >>> rg.nn.LocalResponseNorm(2, alpha=1.0, beta=1.0)(rg.ones(1, 2, 1)).flatten()
    tensor([0.6667, 0.5   ])
    """

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> None:
        super().__init__()
        self.size = size
        self.alpha = alpha
        self.beta = beta
        self.k = k

    def forward(self, input: Tensor) -> Tensor:
        return F.local_response_norm(input, self.size, self.alpha, self.beta, self.k)

    def extra_repr(self) -> str:
        return f"{self.size}, alpha={self.alpha}, beta={self.beta}, k={self.k}"
