"""The factors of packed LU decompositions."""

from __future__ import annotations

import numpy as np

from ....core.arrays.devices import array_module
from ....core.errors import describe
from ....core.graph.primitive import operand
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor, new_tensor
from ...table.composites import one_node
from ...table.registry import operator
from ..matrices import matrices
from .lu import permutation_matrix, within_rows

_lu_unpack_node = one_node("lu_unpack")


class LUParts(NamedTuple):
    """The factors of ``A = P @ L @ U``; factors that were not requested are empty."""

    P: Tensor
    L: Tensor
    U: Tensor


@operator(method=False)
def lu_unpack(LU_data: Tensor, LU_pivots: Tensor, unpack_data: bool = True, unpack_pivots: bool = True) -> LUParts:
    """P, L and U of what ``linalg.lu_factor`` packed: ``A = P @ L @ U``.

    Derivative: LU_data: ``tril(gL, -1) + triu(gU)``; the permutation has none.
    Shape: ``(..., m, n)`` and ``(..., k)`` with ``k = min(m, n)``; ``(..., m, m)``, ``(..., m, k)``, ``(..., k, n)``.
    Dtype: float32, float64 and complex; the results have that of LU_data.

    Args:
        LU_data: L below the diagonal, U on and above it.
        LU_pivots: the row interchanges, counted from 1, as int32.
        unpack_data: whether L and U are wanted.
        unpack_pivots: whether P is wanted.

    Returns: (P, L, U); what is not wanted is empty.

    Raises:
        RuntimeError: the pivots do not belong to such matrices.

    >>> packed, pivots = rg.linalg.lu_factor(rg.tensor([[1.0, 2.0], [2.0, 2.0]]))
    >>> rg.lu_unpack(packed, pivots).U
    tensor([[2., 2.],
            [0., 1.]])
    """
    packed, swaps = matrices(LU_data, "LU_data"), operand(LU_pivots, "LU_pivots").array
    rows, columns = packed.array.shape[-2:]
    k = min(rows, columns)
    fits = swaps.shape[:-1] == packed.array.shape[:-2] and swaps.ndim and swaps.shape[-1] <= rows
    if unpack_pivots and (swaps.dtype != np.int32 or not fits):
        raise RuntimeError(f"LU_pivots must be int32 of {describe(packed)}, as from lu_factor, got {describe(swaps)}")
    if unpack_pivots and not within_rows(swaps, rows):
        raise RuntimeError(f"LU_pivots must be between 1 and {rows}; are they those of lu_factor?")
    xp = array_module(packed)
    empty = new_tensor(xp.empty((0,), packed.dtype))
    p, lower, upper = empty, empty, empty
    if unpack_pivots:
        p = new_tensor(permutation_matrix(swaps[..., :k], rows, packed.dtype))
    if unpack_data:
        lower = packed[..., :k].tril(-1) + new_tensor(xp.eye(rows, k, dtype=packed.dtype))
        upper = packed[..., :k, :].triu()
        lower, upper = _lu_unpack_node(lower, upper)
    return LUParts(p, lower, upper)
