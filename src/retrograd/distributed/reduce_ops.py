"""Reduction operations, and the dtypes in which MPI and NCCL compute them."""

from __future__ import annotations

from enum import Enum
from typing import Any, ClassVar

import numpy as np

from ..core.arrays.dtypes import INEXACT


class ReduceOp(Enum):
    """How a collective combines the Tensors of all ranks, elementwise.

    ``AVG`` is the sum divided by the number of ranks, rounded down for integers. For bools ``SUM`` is a logical or,
    and ``PRODUCT`` a logical and.

    >>> from retrograd.distributed import ReduceOp
    >>> ReduceOp.SUM
    <ReduceOp.SUM: 'sum'>
    """

    SUM = "sum"
    AVG = "avg"
    PRODUCT = "product"
    MIN = "min"
    MAX = "max"
    BAND = "band"
    BOR = "bor"
    BXOR = "bxor"

    RedOpType: ClassVar[type[ReduceOp]]  # the name of PyTorch's class


ReduceOp.RedOpType = ReduceOp

_BITS = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
_OF_BOOLS = {ReduceOp.SUM: ReduceOp.MAX, ReduceOp.PRODUCT: ReduceOp.MIN}


def check_reduction(name: str, dtype: Any, op: object) -> None:
    """Check that the dtype supports the reduction.

    Raises:
        TypeError: ``op`` is not a ReduceOp.
        RuntimeError: the dtype does not support ``op``.
    """
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}: op must be a ReduceOp, got {op!r}")
    if dtype.kind == "c" and op not in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT):
        raise RuntimeError(f"{name}: {op.name} is not defined for complex numbers, got {dtype}")
    if op in _BITS and dtype.kind in INEXACT:
        raise RuntimeError(f"{name}: {op.name} needs an integer or bool dtype, got {dtype}")
    if dtype.kind == "b" and op is ReduceOp.AVG:
        raise RuntimeError(f"{name}: AVG is not defined for bools; convert the Tensor with .float()")


def widened(array: Any, op: ReduceOp) -> tuple[Any, ReduceOp]:
    """Return the array in the dtype of the reduction, and the operation: float16 becomes float32, bool uint8."""
    if array.dtype.kind == "b":
        return array.astype(np.uint8), _OF_BOOLS.get(op, op)
    if array.dtype.itemsize == 2 and array.dtype.kind in INEXACT:
        array = array.astype(np.float32)
    return array, ReduceOp.SUM if op is ReduceOp.AVG else op


def narrowed(result: Any, dtype: object, op: ReduceOp, size: int) -> Any:
    """Convert the result of a reduction over ``size`` ranks back to ``dtype``, and divide it for ``AVG``."""
    if op is ReduceOp.AVG:
        result = result // size if result.dtype.kind in "iu" else result / size
    return result.astype(dtype, copy=False)
