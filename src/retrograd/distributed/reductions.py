"""How Tensors of several processes are combined, and in which dtype a library that has no such numbers does it."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from ..core.arrays.dtypes import INEXACT


class ReduceOp(Enum):
    """How the Tensors of all ranks are combined, element by element.

    ``AVG`` is the sum over the number of ranks, of integers rounded down. ``SUM`` of bools is whether any is true,
    ``PRODUCT`` whether all are.

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


_BITS = (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR)
_OF_BOOLS = {ReduceOp.SUM: ReduceOp.MAX, ReduceOp.PRODUCT: ReduceOp.MIN}


def check_reduction(name: str, dtype: Any, op: Any) -> None:
    """Refuse what has no meaning.

    Raises:
        TypeError: ``op`` is no ReduceOp.
        RuntimeError: the dtype has no order, or no bits.
    """
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{name}: op must be a ReduceOp, got {op!r}")
    if dtype.kind == "c" and op not in (ReduceOp.SUM, ReduceOp.AVG, ReduceOp.PRODUCT):
        raise RuntimeError(f"{name}: complex numbers have no {op.name}, got {dtype}")
    if op in _BITS and dtype.kind in INEXACT:
        raise RuntimeError(f"{name}: {op.name} is for integers and bools, got {dtype}")
    if dtype.kind == "b" and op is ReduceOp.AVG:
        raise RuntimeError(f"{name}: bools have no AVG")


def widened(array: Any, op: ReduceOp) -> tuple[Any, ReduceOp]:
    """The array as numbers that are added without loss, and what is done with them: half precision in single."""
    if array.dtype.kind == "b":
        return array.astype(np.uint8), _OF_BOOLS.get(op, op)
    if array.dtype.itemsize == 2 and array.dtype.kind in INEXACT:
        array = array.astype(np.float32)
    return array, ReduceOp.SUM if op is ReduceOp.AVG else op


def narrowed(result: Any, dtype: Any, op: ReduceOp, size: int) -> Any:
    """What ``widened`` numbers have come to, of ``size`` ranks, in the dtype that they came from."""
    if op is ReduceOp.AVG:
        result = result // size if result.dtype.kind in "iu" else result / size
    return result.astype(dtype, copy=False)
