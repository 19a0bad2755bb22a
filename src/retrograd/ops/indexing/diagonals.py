"""Diagonals filled in place."""

from __future__ import annotations

from math import prod

from ...core.errors import describe
from ...core.tensor.tensor import Tensor
from ..shape.views import as_strided
from ..table.registry import operator
from ..table.types import Number


@operator(namespace="Tensor", name="fill_diagonal_")
def fill_diagonal_(self: Tensor, fill_value: Number, wrap: bool = False) -> Tensor:
    """``self[i, i, ...] = fill_value``, in place; the Tensor is returned.

    Derivative: ``g``, 0 on the diagonal.
    Shape: two dimensions, or more of one length.
    Dtype: all.

    Args:
        fill_value: the number.
        wrap: let the diagonal of a tall matrix begin anew after each square block and a row between.

    Raises:
        RuntimeError: there are fewer than two dimensions, or more of several lengths.

    >>> rg.zeros(2, 3).fill_diagonal_(5)
    tensor([[5., 0., 0.],
            [0., 5., 0.]])
    """
    shape = self.array.shape
    if len(shape) < 2 or len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError(f"wanted two dimensions, or more of one length, got {describe(self)}")
    steps = tuple(stride // self.array.dtype.itemsize for stride in self.array.strides)
    if not prod(shape):
        return self
    as_strided(self, (min(shape),), (sum(steps),)).fill_(fill_value)
    if wrap and len(shape) == 2 and shape[0] > shape[1] + 1:
        self[shape[1] + 1 :].fill_diagonal_(fill_value, True)
    return self
