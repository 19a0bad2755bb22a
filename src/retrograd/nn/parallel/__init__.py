"""Modules that compute on several devices or in several processes, as in ``torch.nn.parallel``."""

from typing import TYPE_CHECKING

from ...core.fallback import legacy_names
from .devices import DataParallel, data_parallel, gather, parallel_apply, replicate, scatter
from .distributed import DistributedDataParallel

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
