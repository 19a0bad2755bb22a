"""Reductions of consecutive runs of elements."""

from __future__ import annotations

from typing import Literal

import numpy as np

from ...core.arrays.devices import all_examples, array_module
from ...core.arrays.dtypes import FLOATING
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor, new_tensor
from ..indexing.scatter import scatter_reduce
from ..table.arguments import dimension
from ..table.registry import operator
from ..table.types import Dim, Number, Operand

_IDENTITY = {"sum": 0.0, "mean": 0.0, "max": -np.inf, "min": np.inf, "prod": 1.0}
_SCATTERED = {"sum": "sum", "mean": "sum", "max": "amax", "min": "amin", "prod": "prod"}


@operator(method=False, dtype="floating")
def segment_reduce(
    data: Operand,
    reduce: Literal["sum", "mean", "max", "min", "prod"],
    *,
    lengths: Tensor | None = None,
    indices: Tensor | None = None,
    offsets: Tensor | None = None,
    axis: Dim = 0,
    unsafe: bool = False,
    initial: Number | None = None,
) -> Tensor:
    """``data`` with each segment along ``axis`` reduced to one element; segments are consecutive.

    Derivative: data: that of the reduction; for max and min, equal extremes share ``g`` evenly.
    Shape: data (..., n, ...), lengths (..., s) with data's leading dimensions; the result has s in place of n.

    Args:
        data: the values to reduce.
        reduce: ``"sum"``, ``"mean"``, ``"max"``, ``"min"`` or ``"prod"``.
        lengths: the lengths of the segments, which add up to n.
        indices: not supported, as in PyTorch.
        offsets: instead of lengths, the start of each segment and the end of the last one, (..., s + 1).
        axis: the dimension of the segments.
        unsafe: do not check that the lengths add up to n.
        initial: the start value of each reduction, which is the result for an empty segment; by default the neutral
            element, and NaN for the mean of an empty segment.

    Raises:
        NotImplementedError: indices are given, or the data are not real floating numbers.
        RuntimeError: ``reduce`` is unknown, the lengths do not add up to n, or their shape is wrong.

    >>> rg.segment_reduce(rg.tensor([1.0, 2.0, 3.0, 4.0]), "max", lengths=rg.tensor([1, 3]))
    tensor([1., 4.])
    """
    if indices is not None:
        raise NotImplementedError("indices are not supported; use scatter_reduce")
    if reduce not in _IDENTITY:
        raise RuntimeError(f"expected reduce to be one of {', '.join(_IDENTITY)}, got {reduce!r}")
    x = operand(data, "data")
    if x.dtype.kind not in FLOATING:
        raise NotImplementedError(f"expected real floating numbers, got {describe(x)}")
    if not x.array.ndim:
        raise RuntimeError("expected at least one dimension, got a 0-d Tensor")
    place = dimension(axis, x.array.ndim)
    if (lengths is None) == (offsets is None):
        raise RuntimeError("pass exactly one of lengths and offsets")
    given = operand(lengths if offsets is None else offsets, "lengths")
    if given.dtype.kind not in "iu" or given.array.shape[:-1] != x.array.shape[:place] or given.array.ndim != place + 1:
        expected = ", ".join([*map(str, x.array.shape[:place]), "segments"])
        raise RuntimeError(
            f"expected integers ({expected}) for lengths or offsets, got {describe(given)} for {describe(x)}"
        )
    xp = array_module(x)
    counts = given.array if offsets is None else xp.diff(given.array, axis=-1)
    n, s = x.array.shape[place], counts.shape[-1]
    each = all_examples(counts)
    if not unsafe and x.device.type != "meta" and (bool((each < 0).any()) or bool((each.sum(axis=-1) != n).any())):
        raise RuntimeError(
            f"the lengths of the segments must be at least 0 and add up to {n}, the length of dim {place}"
        )
    ends = xp.cumsum(counts, axis=-1)
    run = (xp.arange(n)[:, None] >= ends[..., None, :]).sum(axis=-1)
    rest = (1,) * (x.array.ndim - place - 1)
    index = new_tensor(xp.broadcast_to(run.reshape(*run.shape, *rest), x.array.shape).astype(np.int64))
    start = _IDENTITY[reduce] if initial is None else float(initial)  # type: ignore[arg-type]
    shape = (*x.array.shape[:place], s, *x.array.shape[place + 1 :])
    out = scatter_reduce(new_tensor(xp.full(shape, start, x.dtype)), place, index, x, _SCATTERED[reduce])
    if reduce != "mean":
        return out
    divisor = counts.reshape(*counts.shape, *rest)
    if initial is not None:
        return out / new_tensor(xp.maximum(divisor, 1).astype(x.dtype))
    return out / new_tensor(divisor.astype(x.dtype))
