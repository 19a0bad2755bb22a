"""Batch normalization over the examples of all processes."""

from __future__ import annotations

from typing import Any

from ..core.errors import describe
from ..core.tensor import Tensor
from .arguments import DeviceLike, DTypeLike
from .module import Module
from .normalization import _BatchNorm


class SyncBatchNorm(_BatchNorm):
    """``BatchNorm`` for any number of dimensions from 2, over the batches of all processes; of one: over its own.

    Shape: ``(N, C, *)``, which is kept. Without distributed training there is one process.

    Args:
        num_features, eps, momentum, affine, track_running_stats: those of ``BatchNorm1d``.
        process_group: which processes; None, or the one there is.
        device, dtype, bias: those of ``BatchNorm1d``.

    Raises:
        ValueError: when called, the input has fewer than 2 dimensions, or in training one value per channel.

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
        process_group: Any = None,
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

    @classmethod
    def convert_sync_batchnorm(cls, module: Module, process_group: Any = None) -> Module:
        """The module with every ``BatchNorm`` of its tree replaced by one of this class, on the same Parameters.

        Args:
            module: the module; a single ``BatchNorm`` is itself replaced.
            process_group: that of the new modules.

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
