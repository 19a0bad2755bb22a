"""Slices reduced into the positions of a dimension."""

from __future__ import annotations

from typing import Literal

from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor
from ..table.arguments import dimension
from ..table.registry import operator
from .positions import check_range
from .scatter import scatter_reduce


@operator(inplace=True)
def index_reduce(
    input: Tensor,
    dim: int,
    index: Tensor,
    source: Tensor,
    reduce: Literal["prod", "mean", "amax", "amin"],
    *,
    include_self: bool = True,
) -> Tensor:
    """``input`` with the slices of ``source`` reduced into positions along ``dim``: as ``index_add``, other than sums.

    Derivative: input, source: that of the reduction; for amax and amin divided equally among all that equal the
    extreme value.
    Shape: input any; index ``(n,)``; source the input's with n along ``dim``; the result has the input's.
    Dtype: input and source one; index integers.

    Args:
        index: which position each slice of the source goes to; one may occur several times.
        source: the slices.
        reduce: how values for one position are put together.
        include_self: whether the input's values take part where something is written.

    Raises:
        IndexError: a position is out of range.
        RuntimeError: the source does not fit, the dtypes differ, or the reduction is unknown.

    >>> rg.index_reduce(rg.ones(2), 0, rg.tensor([0, 0, 1]), rg.tensor([2.0, 3.0, 4.0]), "prod")
    tensor([6., 4.])
    """
    if reduce not in ("prod", "mean", "amax", "amin"):
        raise RuntimeError(f"reduce must be prod, mean, amax or amin, got {reduce!r}")
    x, index, source = operand(input), operand(index, "index"), operand(source, "source")
    if index.array.dtype.kind not in "iu" or index.array.ndim > 1:
        raise RuntimeError(f"index must be a vector of integers, got {describe(index)}")
    if not x.array.ndim:
        result = index_reduce(x.reshape(1), dim, index, source.reshape(1), reduce, include_self=include_self)
        return result.reshape(())
    place, count = dimension(dim, x.array.ndim), index.array.size
    wanted = (*x.array.shape[:place], count, *x.array.shape[place + 1 :])
    if source.array.shape != wanted:
        raise RuntimeError(
            f"source must have shape {wanted} for {count} positions in {describe(x)}, got {describe(source)}"
        )
    check_range(index, 0, x.array.shape[place], place, x)
    column = index.reshape([count if axis == place else 1 for axis in range(x.array.ndim)])
    return scatter_reduce(x, place, column.expand(*wanted), source, reduce, include_self=include_self)
