"""Replace slices or a diagonal by a Tensor of the same shape; fill diagonals in place."""

from __future__ import annotations

from math import prod

from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply, operand
from ...core.tensor.tensor import Tensor
from ..shape.views import as_strided, diagonal
from ..table.arguments import dimension, integer
from ..table.batching import copy_to_write
from ..table.registry import operator
from ..table.types import Number, Operand
from .indexing import Index, setting

SELECT_SCATTER, SLICE_SCATTER = setting("select_scatter"), setting("slice_scatter")


def _replaced(primitive: Primitive, x: Tensor, src: Operand, key: tuple[object, ...]) -> Tensor:
    src = operand(src, "src")
    shape = x.array[key].shape
    if src.array.shape != shape:
        raise RuntimeError(f"expected src to have shape {shape}, the slice's, got {describe(src)}")
    return apply(primitive, (x, src), {"index": Index(key)})


@operator(args="input 1-d")
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """``out[.., index, ..] = src``, in a copy of the input.

    Derivative: input: ``g``, 0 in the slice. src: the slice of ``g``.
    Shape: the input's, preserved; src has the input's shape without ``dim``.

    Args:
        src: the values of the slice.
        index: the position of the slice; negative numbers count from the end.

    Raises:
        RuntimeError: src does not have the shape of the slice.
        IndexError: ``dim`` or ``index`` is out of range.

    >>> rg.select_scatter(rg.zeros(2, 2), rg.ones(2), 0, 1)
    tensor([[0., 0.],
            [1., 1.]])
    """
    x = operand(input)
    place = dimension(dim, x.array.ndim)
    position = integer(index, "index")
    if not x.array.ndim or not -x.array.shape[place] <= position < x.array.shape[place]:
        raise IndexError(f"index {position} is out of range of dimension {dim} of {describe(x)}")
    return _replaced(SELECT_SCATTER, x, src, (*(slice(None),) * place, position, Ellipsis))


@operator(args="input 1-d")
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """``out[.., start:end:step, ..] = src``, in a copy of the input.

    Derivative: input: ``g``, 0 in the slices. src: the slices of ``g``.
    Shape: the input's, preserved; src has the shape of the slices.

    Args:
        src: the values of the slices.
        start: the first slice; None for 0.
        end: the slice to stop before; None for all.
        step: the distance between slices.

    Raises:
        RuntimeError: src does not have the shape of the slices, or step is not positive.

    >>> rg.slice_scatter(rg.zeros(4), rg.ones(2), start=1, end=3)
    tensor([0., 1., 1., 0.])
    """
    x = operand(input)
    if not x.array.ndim or step <= 0:
        raise RuntimeError(f"expected at least 1 dimension and step > 0, got {describe(x)} and step {step}")
    place = dimension(dim, x.array.ndim)
    return _replaced(SLICE_SCATTER, x, src, (*(slice(None),) * place, slice(start, end, step), Ellipsis))


@operator(like=diagonal)
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """``diagonal(out, offset, dim1, dim2) = src``, in a copy of the input.

    Derivative: input: ``g``, 0 on the diagonal. src: the diagonal of ``g``.
    Shape: the input's, preserved; src has the shape of ``diagonal(input, offset, dim1, dim2)``.

    Args:
        src: the values of the diagonal.

    Raises:
        RuntimeError: src does not have the shape of the diagonal, or the two dimensions are the same.

    >>> rg.diagonal_scatter(rg.zeros(2, 2), rg.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    src = operand(src, "src")
    out = copy_to_write(operand(input), src)
    part = diagonal(out, offset, dim1, dim2)
    if src.array.shape != part.array.shape:
        raise RuntimeError(f"expected src to have shape {part.array.shape}, the diagonal's, got {describe(src)}")
    part.copy_(src)
    return out


@operator(namespace="Tensor", name="fill_diagonal_")
def fill_diagonal_(self: Tensor, fill_value: Number, wrap: bool = False) -> Tensor:
    """``self[i, i, ...] = fill_value``, in place; the Tensor is returned.

    Derivative: ``g``, 0 on the diagonal.
    Shape: two dimensions, or more dimensions of equal length.
    Dtype: any.

    Args:
        fill_value: the number.
        wrap: continue in a tall matrix: a new diagonal begins one row after each square block.

    Raises:
        RuntimeError: there are fewer than two dimensions, or more than two of different lengths.

    >>> rg.zeros(2, 3).fill_diagonal_(5)
    tensor([[5., 0., 0.],
            [0., 5., 0.]])
    """
    shape = self.array.shape
    if len(shape) < 2 or len(shape) > 2 and len(set(shape)) > 1:
        raise RuntimeError(f"expected two dimensions, or more dimensions of equal length, got {describe(self)}")
    steps = tuple(stride // self.array.dtype.itemsize for stride in self.array.strides)
    if not prod(shape):
        return self
    as_strided(self, (min(shape),), (sum(steps),)).fill_(fill_value)
    if wrap and len(shape) == 2 and shape[0] > shape[1] + 1:
        self[shape[1] + 1 :].fill_diagonal_(fill_value, True)
    return self
