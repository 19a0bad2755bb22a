"""`retrograd.utils.data` is `retrograd.data` under PyTorch's name."""

from . import data as data
