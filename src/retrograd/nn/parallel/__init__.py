"""Modules for several devices or processes, as in ``torch.nn.parallel``.

``data_parallel`` splits a batch among devices, and ``distributed`` averages gradients among processes in ``buckets``.
``compat.legacy_names`` has PyTorch's other module paths (``nn.parallel.scatter_gather``). Inside Retrograd, only
``training`` and ``cli`` import this package.
"""

from typing import TYPE_CHECKING

from ...core.missing_names import legacy_names
from .data_parallel import DataParallel, data_parallel, gather, parallel_apply, replicate, scatter
from .distributed import DistributedDataParallel

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
