"""Batch normalization over the examples of all processes."""

from __future__ import annotations

from ..._generated.toplevel import cat
from ...core.errors import describe
from ...core.tensor.tensor import Tensor
from ..base.arguments import DeviceLike, DTypeLike
from ..base.module import Module
from .normalization import _BatchNorm


class SyncBatchNorm(_BatchNorm):
    """Batch normalization with mean and variance over the batches of all ranks.

    In training, gradients flow to the examples of all ranks, whose batches may differ in size. Shape: ``(N, C, *)``,
    preserved. Without a process group, only the batch of this process is used.

    Args:
        num_features, eps, momentum, affine, track_running_stats: as for ``BatchNorm1d``.
        process_group: the participating ranks, by default all.
        device, dtype, bias: as for ``BatchNorm1d``.

    Raises:
        ValueError: when called, the input has fewer than 2 dimensions, or only one value per channel in training.

    >>> rg.nn.SyncBatchNorm(2)(rg.ones(3, 2, 4)).shape
    (3, 2, 4)
    """

    def __init__(
        self,
        num_features: int,
        eps: float = 1e-5,
        momentum: float | None = 0.1,
        affine: bool = True,
        track_running_stats: bool = True,
        process_group: object = None,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
        *,
        bias: bool = True,
    ) -> None:
        super().__init__(num_features, eps, momentum, affine, track_running_stats, device, dtype, bias=bias)
        self.process_group = process_group

    def _check_input_dim(self, input: Tensor) -> None:
        if input.ndim < 2:
            raise ValueError(f"{type(self).__name__}: expected at least 2D input, got {describe(input)}")

    def forward(self, input: Tensor) -> Tensor:
        if not self.training:
            return super().forward(input)
        from ...distributed.groups import get_world_size, is_initialized

        if not is_initialized() or get_world_size(self.process_group) <= 1:
            return super().forward(input)
        return self._over_all_ranks(input)

    def _over_all_ranks(self, input: Tensor) -> Tensor:
        from ...distributed.nn.functional import all_reduce

        self._check_input_dim(input)
        rows = input.transpose(0, 1).reshape(input.shape[1], -1)
        count = input.new_tensor([float(rows.shape[1])])
        # Compute the mean before the variance: the mean of squares minus the squared mean would lose precision.
        sums = all_reduce(cat([rows.sum(1), count]), group=self.process_group)
        total = sums[-1].detach()
        shape = (1, input.shape[1]) + (1,) * (input.ndim - 2)
        centered = input - (sums[:-1] / total).reshape(shape)
        squares = centered.transpose(0, 1).reshape(rows.shape).square().sum(1)
        var = all_reduce(squares, group=self.process_group) / total
        self._track(sums[:-1].detach() / total, var.detach(), float(total.item()))
        result = centered * (var + self.eps).rsqrt().reshape(shape)
        if self.weight is not None:
            result = result * self.weight.reshape(shape)
        return result if self.bias is None else result + self.bias.reshape(shape)

    def _track(self, mean: Tensor, var: Tensor, count: float) -> None:
        if self.running_mean is None or self.running_var is None or self.num_batches_tracked is None:
            return
        if count <= 1:
            raise ValueError(f"SyncBatchNorm: expected more than 1 value per channel when training, got {count:g}")
        self.num_batches_tracked.add_(1)
        rate = 1.0 / float(self.num_batches_tracked.item()) if self.momentum is None else self.momentum
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), rate)
        self.running_var.lerp_((var * (count / (count - 1))).to(self.running_var.dtype), rate)

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: object = None) -> Module:
        """Replace every ``BatchNorm`` in a module by ``SyncBatchNorm`` with the same Parameters, and return the module.

        Args:
            module: the module; for a ``BatchNorm``, the result is a new module.
            process_group: the process group of the new modules.

        >>> rg.nn.SyncBatchNorm.convert_sync_batchnorm(rg.nn.Sequential(rg.nn.BatchNorm1d(3)))[0]
        SyncBatchNorm(3, eps=1e-05, momentum=0.1, affine=True, bias=True, track_running_stats=True)
        """
        converted = module
        if isinstance(module, _BatchNorm):
            converted = cls(
                module.num_features,
                module.eps,
                module.momentum,
                module.affine,
                module.track_running_stats,
                process_group,
                bias=module.bias is not None,
            )
            for table in ("_parameters", "_buffers"):
                getattr(converted, table).update(getattr(module, table))
            converted.training = module.training
        for name, child in module.named_children():
            converted.add_module(name, cls.convert_sync_batchnorm(child, process_group))
        return converted
