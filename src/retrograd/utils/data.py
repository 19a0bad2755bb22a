"""`retrograd.data` under PyTorch's name: `from retrograd.utils.data import DataLoader, TensorDataset`."""

from ..data import *  # noqa: F403
from ..data import __all__ as __all__
