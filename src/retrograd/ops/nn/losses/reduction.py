"""Reductions of losses: none, mean or sum."""

from __future__ import annotations

import math
import warnings

import numpy as np

from ....core.arrays import Array
from ....core.arrays.summation import total_of
from ....core.errors import InvalidValue
from ....core.source_location import user_level
from ....core.tensor.tensor import Tensor
from ...reduce.common import divided


def reduction_of(reduction: str, size_average: bool | None = None, reduce: bool | None = None) -> str:
    """Return the reduction, given by its name or by PyTorch's older pair of flags.

    Raises:
        ValueError: the name is not none, mean or sum.
    """
    if size_average is not None or reduce is not None:
        if reduce is False:
            reduction = "none"
        else:
            reduction = "sum" if size_average is False else "mean"
        warnings.warn(
            f"size_average and reduce are deprecated; use reduction={reduction!r} instead", stacklevel=user_level()
        )
    if reduction not in ("none", "mean", "sum"):
        raise InvalidValue(f"{reduction} is not a valid value for reduction; expected 'none', 'mean' or 'sum'")
    return reduction


def reduced(loss: Tensor, reduction: str) -> Tensor:
    """Return the loss, its mean, or its sum."""
    return loss if reduction == "none" else loss.mean() if reduction == "mean" else loss.sum()


def reduced_array(loss: Array, reduction: str) -> Array:
    """``reduced`` on an array."""
    if reduction == "none":
        return loss
    if loss.dtype.char == "e":  # sum and count must not overflow if the mean does not
        return reduced_array(loss.astype(np.float32), reduction).astype(np.float16)
    total = total_of(loss)
    return total if reduction == "sum" else total / total.dtype.type(loss.size)


def share_of(g: Array, x: Array, reduction: str) -> Array:
    """Return each element's share of the cotangent."""
    return divided(g, math.prod(x.shape)) if reduction == "mean" else g
