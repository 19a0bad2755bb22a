"""Copies of views: ``permute_copy(x, dims)`` is ``permute(x, dims).clone()``, and so on.

Each operator has the arguments, errors and derivative of the view; the result is contiguous.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...core.arrays.devices import array_module
from ...core.errors import describe
from ...core.graph.primitive import Primitive, apply1, operand
from ...core.tensor.tensor import Tensor
from ..math.complex_numbers import view_as_complex, view_as_real
from ..table import batching
from ..table.arguments import dimension
from ..table.registry import operator
from ..table.types import Dims, Size
from .expansion import expand
from .joining import chunk, split, split_with_sizes, unbind
from .permutation import permute, t, transpose
from .shape import reshape, squeeze, unsqueeze
from .views import as_strided, diagonal, narrow, select, unfold

COPY = Primitive(
    "view_copy", lambda x: array_module(x).array(x, order="C", copy=True), "x", [lambda g: g], batch=batching.in_front
)


def _copied(view: Tensor) -> Tensor:
    return apply1(COPY, view)


@operator(method=False, derivative="g")
def alias_copy(input: Tensor) -> Tensor:
    """``input``, copied.

    >>> rg.alias_copy(rg.tensor([1, 2]))
    tensor([1, 2])
    """
    return _copied(operand(input))


@operator(method=False, like=as_strided)
def as_strided_copy(input: Tensor, size: Size, stride: Size, storage_offset: int | None = None) -> Tensor:
    """``as_strided(input, size, stride, storage_offset)``, copied.

    >>> rg.as_strided_copy(rg.arange(4), (2, 2), (1, 2))
    tensor([[0, 2],
            [1, 3]])
    """
    return _copied(as_strided(input, size, stride, storage_offset))


@operator(method=False, differentiable=False)
def detach_copy(input: Tensor) -> Tensor:
    """``input.detach()``, copied.

    Shape: that of ``detach``.
    Dtype: that of ``detach``.

    >>> rg.detach_copy(rg.ones(2, requires_grad=True)).requires_grad
    False
    """
    return _copied(operand(input).detach())


@operator(method=False, like=diagonal)
def diagonal_copy(input: Tensor, offset: int = 0, dim1: int = 0, dim2: int = 1) -> Tensor:
    """``diagonal(input, offset, dim1, dim2)``, copied.

    >>> rg.diagonal_copy(rg.tensor([[1, 2], [3, 4]]))
    tensor([1, 4])
    """
    return _copied(diagonal(input, offset, dim1, dim2))


@operator(method=False, like=expand)
def expand_copy(input: Tensor, size: Size, *, implicit: bool = False) -> Tensor:
    """``expand(input, size)``, copied.

    Args:
        size: the new lengths.
        implicit: accepted for compatibility, without effect.

    >>> rg.expand_copy(rg.tensor([[1], [2]]), (2, 2))
    tensor([[1, 1],
            [2, 2]])
    """
    return _copied(expand(input, size))


@operator(like=narrow)
def narrow_copy(input: Tensor, dim: int, start: int, length: int) -> Tensor:
    """``narrow(input, dim, start, length)``, copied.

    >>> rg.narrow_copy(rg.arange(4), 0, 1, 2)
    tensor([1, 2])
    """
    return _copied(narrow(input, dim, start, length))


@operator(method=False, like=permute)
def permute_copy(input: Tensor, dims: Dims) -> Tensor:
    """``permute(input, dims)``, copied.

    >>> rg.permute_copy(rg.tensor([[1, 2]]), (1, 0))
    tensor([[1],
            [2]])
    """
    return _copied(permute(input, dims))


@operator(method=False, like=select)
def select_copy(input: Tensor, dim: int, index: int) -> Tensor:
    """``select(input, dim, index)``, copied.

    >>> rg.select_copy(rg.tensor([[1, 2], [3, 4]]), 0, 1)
    tensor([3, 4])
    """
    return _copied(select(input, dim, index))


@operator(method=False, args="start slice")
def slice_copy(input: Tensor, dim: int = 0, start: int | None = None, end: int | None = None, step: int = 1) -> Tensor:
    """``input[..., start:end:step, ...]`` along ``dim``, copied.

    Derivative: ``g`` at the slices, 0 elsewhere.
    Shape: any with a dimension; the result has the input's shape except along ``dim``.

    Args:
        end: the position after the last slice.
        step: the distance between slices, positive.

    Raises:
        RuntimeError: the step is not positive, or there is no dimension.

    >>> rg.slice_copy(rg.arange(5), 0, 1, None, 2)
    tensor([1, 3])
    """
    x = operand(input)
    if not x.array.ndim or step <= 0:
        raise RuntimeError(f"expected at least 1 dimension and step > 0, got {describe(x)} and step {step}")
    place = dimension(dim, x.array.ndim)
    return _copied(x[(*(slice(None),) * place, slice(start, end, step))])


@operator(method=False, like=squeeze)
def squeeze_copy(input: Tensor, dim: Dims | None = None) -> Tensor:
    """``squeeze(input, dim)``, copied.

    >>> rg.squeeze_copy(rg.tensor([[1, 2]]))
    tensor([1, 2])
    """
    return _copied(squeeze(input) if dim is None else squeeze(input, dim))


@operator(method=False, like=t)
def t_copy(input: Tensor) -> Tensor:
    """``t(input)``, copied.

    >>> rg.t_copy(rg.tensor([[1, 2]]))
    tensor([[1],
            [2]])
    """
    return _copied(t(input))


@operator(method=False, like=transpose)
def transpose_copy(input: Tensor, dim0: int, dim1: int) -> Tensor:
    """``transpose(input, dim0, dim1)``, copied.

    >>> rg.transpose_copy(rg.tensor([[1, 2]]), 0, 1)
    tensor([[1],
            [2]])
    """
    return _copied(transpose(input, dim0, dim1))


@operator(method=False, like=unfold)
def unfold_copy(input: Tensor, dimension: int, size: int, step: int) -> Tensor:
    """``input.unfold(dimension, size, step)``, copied.

    >>> rg.unfold_copy(rg.arange(3), 0, 2, 1)
    tensor([[0, 1],
            [1, 2]])
    """
    return _copied(unfold(operand(input), dimension, size, step))


@operator(method=False, like=unsqueeze)
def unsqueeze_copy(input: Tensor, dim: int) -> Tensor:
    """``unsqueeze(input, dim)``, copied.

    >>> rg.unsqueeze_copy(rg.tensor([1, 2]), 0)
    tensor([[1, 2]])
    """
    return _copied(unsqueeze(input, dim))


@operator(method=False, like=view_as_real)
def view_as_real_copy(input: Tensor) -> Tensor:
    """``view_as_real(input)``, copied.

    >>> rg.view_as_real_copy(rg.tensor([1 + 2j]))
    tensor([[1., 2.]])
    """
    return _copied(view_as_real(input))


@operator(method=False, like=view_as_complex)
def view_as_complex_copy(input: Tensor) -> Tensor:
    """``view_as_complex(input)``, copied.

    >>> rg.view_as_complex_copy(rg.tensor([[1.0, 2.0]]))
    tensor([1.+2.j], dtype=complex64)
    """
    return _copied(view_as_complex(input))


@operator(method=False)
def view_copy(input: Tensor, size: Size) -> Tensor:
    """``input.view(size)``, copied.

    Derivative: ``reshape``'s.
    Shape: any to ``size``, with the same number of elements; one length may be -1.

    >>> rg.view_copy(rg.arange(4), (2, 2))
    tensor([[0, 1],
            [2, 3]])
    """
    return _copied(reshape(input, size))


@operator(method=False, like=unbind)
def unbind_copy(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """``unbind(input, dim)``, a copy of each slice.

    >>> rg.unbind_copy(rg.tensor([1, 2]))
    (tensor(1), tensor(2))
    """
    return tuple(map(_copied, unbind(input, dim)))


@operator(method=False, like=split)
def split_copy(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """``split(input, split_size, dim)``, a copy of each piece.

    >>> rg.split_copy(rg.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return tuple(map(_copied, split(input, split_size, dim)))


@operator(method=False, like=split_copy)
def split_with_sizes_copy(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """``split_with_sizes(input, split_sizes, dim)``, a copy of each piece.

    >>> rg.split_with_sizes_copy(rg.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return tuple(map(_copied, split_with_sizes(input, split_sizes, dim)))


# PyTorch's unsafe forms do not detect writes to other pieces. Here they behave like the safe forms.


@operator(like=split_copy)
def unsafe_split(input: Tensor, split_size: int, dim: int = 0) -> tuple[Tensor, ...]:
    """``split(input, split_size, dim)``; the pieces are views.

    >>> rg.unsafe_split(rg.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return tuple(split(input, split_size, dim))


@operator(like=split_copy)
def unsafe_split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """``split_with_sizes(input, split_sizes, dim)``; the pieces are views.

    >>> rg.unsafe_split_with_sizes(rg.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    return tuple(split_with_sizes(input, split_sizes, dim))


@operator(like=chunk)
def unsafe_chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """``chunk(input, chunks, dim)``; the pieces are views.

    >>> rg.unsafe_chunk(rg.arange(3), 2)
    (tensor([0, 1]), tensor([2]))
    """
    return tuple(chunk(input, chunks, dim))


@operator(like=as_strided)
def as_strided_scatter(
    input: Tensor, src: Tensor, size: Size, stride: Size, storage_offset: int | None = None
) -> Tensor:
    """A copy of ``input`` in which ``src`` replaces the elements of ``as_strided(input, size, stride, ...)``.

    Derivative: input: ``g``, 0 at these elements; src: ``g`` there.
    Shape: src ``size``; the result has the input's shape.

    Args:
        src: the values to write.

    Raises:
        RuntimeError: src has another shape, or the view exceeds the memory of the input.

    >>> rg.as_strided_scatter(rg.zeros(4), rg.ones(2), (2,), (2,))
    tensor([1., 0., 1., 0.])
    """
    src = operand(src, "src")
    out = batching.copy_to_write(operand(input), src)
    part = as_strided(out, size, stride, storage_offset)
    if src.array.shape != part.array.shape:
        raise RuntimeError(f"expected src to have shape {part.array.shape}, the view's, got {describe(src)}")
    part.copy_(src)
    return out
