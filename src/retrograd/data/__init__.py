"""Data sets, samplers and the DataLoader, as in ``torch.utils.data``, and the named data sets.

``loader`` and ``worker`` load batches, optionally in worker processes or threads; ``named`` and ``download`` fetch and
cache public data sets. The packages ``training``, ``sklearn`` and ``cli`` import this package.
"""

from typing import TYPE_CHECKING

from ..core.missing_names import legacy_names
from .collate import default_collate, default_convert
from .dataset import (
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    StackDataset,
    Subset,
    TensorDataset,
    random_split,
)
from .distributed import DistributedSampler
from .download import DataCorrupt, DataError, DataUnavailable, cache_folder
from .loader import DataLoader
from .named import (
    FASHION_MNIST_CLASSES,
    HOUSING_COLUMNS,
    HousingData,
    ImageData,
    fashion_mnist,
    housing,
    mnist,
    names,
    shakespeare,
)
from .sampler import (
    BatchSampler,
    RandomSampler,
    Sampler,
    SequentialSampler,
    SubsetRandomSampler,
    WeightedRandomSampler,
)
from .worker import WorkerInfo, batch_generator, get_worker_info

__all__ = [
    "FASHION_MNIST_CLASSES",
    "HOUSING_COLUMNS",
    "BatchSampler",
    "ChainDataset",
    "ConcatDataset",
    "DataCorrupt",
    "DataError",
    "DataLoader",
    "DataUnavailable",
    "Dataset",
    "DistributedSampler",
    "HousingData",
    "ImageData",
    "IterableDataset",
    "RandomSampler",
    "Sampler",
    "SequentialSampler",
    "StackDataset",
    "Subset",
    "SubsetRandomSampler",
    "TensorDataset",
    "WeightedRandomSampler",
    "WorkerInfo",
    "batch_generator",
    "cache_folder",
    "default_collate",
    "default_convert",
    "fashion_mnist",
    "get_worker_info",
    "housing",
    "mnist",
    "names",
    "random_split",
    "shakespeare",
]

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
