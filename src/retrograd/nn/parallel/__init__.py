"""Modules for several devices or processes, as in ``torch.nn.parallel``.

``data_parallel`` splits a batch among devices, ``distributed`` averages gradients among processes, in buckets; the
other modules have PyTorch's helper functions. Only programs, ``training`` and the command import it.
"""

from typing import TYPE_CHECKING

from ...core.missing_names import legacy_names
from .data_parallel import DataParallel, data_parallel
from .distributed import DistributedDataParallel
from .parallel_apply import parallel_apply
from .replicate import replicate
from .scatter_gather import gather, scatter

__all__ = [
    "DataParallel", "DistributedDataParallel", "data_parallel", "gather", "parallel_apply", "replicate", "scatter",
]  # fmt: skip

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
