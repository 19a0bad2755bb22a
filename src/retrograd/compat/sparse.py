"""``sparse.FloatTensor(indices, values, size)`` and its kind."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.tensor import Tensor
from ..ops.linear.sparse import SparseTensor, sparse_coo_tensor


class _Legacy:
    """A constructor of one dtype."""

    def __init__(self, name: str, dtype: str) -> None:
        self.__name__, self.dtype = name, dtype

    def __call__(self, *args: Any) -> SparseTensor:
        if len(args) in (2, 3) and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
            made: SparseTensor = sparse_coo_tensor(*args, dtype=self.dtype)
            return made
        size = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        size = tuple(size) or (0,)
        empty: SparseTensor = sparse_coo_tensor(np.zeros((len(size), 0), np.int64), np.zeros(0), size, dtype=self.dtype)
        return empty


FloatTensor, DoubleTensor, LongTensor, IntTensor = (
    _Legacy(name, dtype)
    for name, dtype in (
        ("FloatTensor", "float32"),
        ("DoubleTensor", "float64"),
        ("LongTensor", "int64"),
        ("IntTensor", "int32"),
    )
)
__all__ = ["DoubleTensor", "FloatTensor", "IntTensor", "LongTensor"]
