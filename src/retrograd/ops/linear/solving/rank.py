"""The numerical rank of matrices."""

from __future__ import annotations

import numpy as np

from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import precision
from ....core.graph.primitive import operand
from ....core.tensor.tensor import Tensor, new_tensor
from ...table.registry import also_named, operator
from ...table.types import Operand
from ..matrices import finite, matrices


@operator(namespace="linalg", method=False, differentiable=False)
@also_named(input="A")
def matrix_rank(
    A: Tensor,
    tol: Operand | None = None,
    hermitian: bool = False,
    *,
    atol: Operand | None = None,
    rtol: Operand | None = None,
) -> Tensor:
    """How many singular values of each matrix exceed ``max(atol, rtol * largest)``.

    Shape: ``(..., m, n)``; ``(...)``.
    Dtype: float32, float64 and complex; int64.

    Args:
        tol: an older name of ``atol``.
        hermitian: whether A is symmetric or Hermitian, of which the lower triangle is read.
        atol: the absolute tolerance, by default 0.
        rtol: the relative tolerance, by default ``max(m, n)`` times the dtype's eps, or 0 where there is an ``atol``.

    Raises:
        RuntimeError: A is not a matrix, or both ``tol`` and ``atol`` are given.

    >>> rg.linalg.matrix_rank(rg.tensor([[1.0, 2.0], [2.0, 4.0]]))
    tensor(1)
    """
    x = matrices(A)
    if tol is not None and atol is not None:
        raise RuntimeError("got both tol and atol")
    absolute = tol if atol is None else atol
    xp = array_module(x)
    if not x.array.size:
        return new_tensor(xp.zeros(x.array.shape[:-2], np.int64))
    if hermitian:
        x = matrices(x, square=True)
        values = xp.abs(np.linalg.eigvalsh(x.array, UPLO="L"))
    else:
        values = np.linalg.svd(finite(x.array), compute_uv=False)
    if rtol is None:
        rtol = max(x.array.shape[-2:]) * precision(x.dtype) if absolute is None else 0.0
    low = operand(0.0 if absolute is None else absolute, "atol").array
    cut = xp.maximum(low, operand(rtol, "rtol").array * values.max(axis=-1))
    return new_tensor(xp.asarray((values > cut[..., None]).sum(axis=-1), dtype=np.int64))
