"""A slice, several, or a diagonal replaced by a Tensor of its shape."""

from __future__ import annotations

from typing import Any

from ...core.errors import describe
from ...core.primitive import Primitive, apply, operand
from ...core.tensor import Tensor
from ..shape.views import diagonal
from ..table.arguments import dimension, integer
from ..table.registry import numpy_names, operator
from .indexing import Index, setting

SELECT_SCATTER, SLICE_SCATTER = setting("select_scatter"), setting("slice_scatter")


def _replaced(primitive: Primitive, x: Tensor, src: Any, key: tuple[Any, ...]) -> Tensor:
    src = operand(src, "src")
    shape = x.array[key].shape
    if src.array.shape != shape:
        raise RuntimeError(f"expected src to have shape {shape}, the slice's, got {describe(src)}")
    return apply(primitive, (x, src), {"index": Index(key)})


@operator()
@numpy_names
def select_scatter(input: Tensor, src: Tensor, dim: int, index: int) -> Tensor:
    """A copy with ``src`` as the slice at ``index`` along ``dim``.

    Raises:
        RuntimeError: src has not the slice's shape.
        IndexError: ``index`` is out of range.

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


@operator()
@numpy_names
def slice_scatter(
    input: Tensor, src: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1
) -> Tensor:
    """A copy with ``src`` as the slices ``start:end:step`` along ``dim``.

    Raises:
        RuntimeError: src has not the slices' shape, or step is not positive.

    >>> rg.slice_scatter(rg.zeros(4), rg.ones(2), start=1, end=3)
    tensor([0., 1., 1., 0.])
    """
    x = operand(input)
    if not x.array.ndim or step <= 0:
        raise RuntimeError(f"wanted at least 1 dimension and step > 0, got {describe(x)} and step {step}")
    place = dimension(dim, x.array.ndim)
    return _replaced(SLICE_SCATTER, x, src, (*(slice(None),) * place, slice(start, end, step), Ellipsis))


@operator()
def diagonal_scatter(input: Tensor, src: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """A copy with ``src`` as the diagonal (see ``diagonal``).

    Raises:
        RuntimeError: src has not the diagonal's shape.

    >>> rg.diagonal_scatter(rg.zeros(2, 2), rg.ones(2))
    tensor([[1., 0.],
            [0., 1.]])
    """
    out = operand(input).clone()
    part, src = diagonal(out, offset, dim1, dim2), operand(src, "src")
    if src.array.shape != part.array.shape:
        raise RuntimeError(f"expected src to have shape {part.array.shape}, the diagonal's, got {describe(src)}")
    part.copy_(src)
    return out
