"""Join and split Tensors."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.adjacent import joined
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import result_type
from ...core.arrays.layout import row_major
from ...core.errors import InvalidValue, describe
from ...core.graph.primitive import Primitive, apply, operand
from ...core.tensor.tensor import Tensor, new_tensor, tensor_method
from ...kernels.loops.layout import copies
from ..indexing.indexing import GETITEM
from ..table import batching
from ..table.arguments import dimension, integer, integers, tensor_list
from ..table.registry import also_named, operator
from ..table.types import Dims, Operand
from .shape import apply_views, atleast_1d, atleast_2d, atleast_3d, reshape

if TYPE_CHECKING:
    from ...core.mapping.batching import Call


def _concatenate(*xs: Array, dim: int) -> Array:
    if len(xs) * xs[0].size + xs[-1].size >= copies.LARGE:
        return copies.joined(xs, dim)
    return row_major(array_module(xs[0]).concatenate(xs, dim))


def _stack(*xs: Array, dim: int) -> Array:
    xp, new = array_module(xs[0]), (slice(None),) * dim + (None,)
    try:
        return row_major(xp.concatenate([x[new] for x in xs], dim))
    except (ValueError, IndexError):
        return row_major(xp.stack(xs, axis=dim))  # the slower general path raises the error


def _split_cotangent(g: Array, dim: int, xs_shape: tuple[tuple[int, ...], ...], needs: tuple[bool, ...]) -> list[Any]:
    pieces = []
    start = 0
    before = (slice(None),) * dim
    for shape, need in zip(xs_shape, needs):
        stop = start + shape[dim]
        pieces.append(GETITEM(g, index=(*before, slice(start, stop), Ellipsis)) if need else None)
        start = stop
    return pieces


def _unbind_cotangent(g: Array, dim: int, needs: tuple[bool, ...]) -> list[Any]:
    before = (slice(None),) * dim
    return [GETITEM(g, index=(*before, place, Ellipsis)) if need else None for place, need in enumerate(needs)]


CAT: Primitive = Primitive(
    "cat", _concatenate, "*xs", vjp=_split_cotangent, batch=batching.joined, shaped=True, computes="join"
)
STACK: Primitive = Primitive(
    "stack", _stack, "*xs", vjp=_unbind_cotangent, batch=batching.joined, shaped=True, computes="join"
)


def of_one_dtype(xs: list[Tensor]) -> tuple[Tensor, ...]:
    """Convert Tensors to their common dtype."""
    dtype = xs[0].array.dtype
    for x in xs:
        if x.array.dtype is not dtype:
            dtype = result_type(*[x.array for x in xs])
            return tuple([x if x.array.dtype == dtype else x.to(dtype) for x in xs])
    return tuple(xs)


@operator(method=False, aliases=("concat", "concatenate"), dtype="promoted", derivative="piece")
def cat(tensors: Sequence[Operand], dim: int = 0) -> Tensor:
    """``[x_1, ..., x_n]``: the Tensors concatenated along an existing dimension.

    Shape: equal except in ``dim``, whose lengths are added; a Tensor of shape (0,) is compatible with any.

    Raises:
        ValueError: the list is empty.
        RuntimeError: a Tensor is 0-d, or the shapes differ in a dimension other than ``dim``.

    >>> rg.cat([rg.tensor([1, 2]), rg.tensor([3])])
    tensor([1, 2, 3])
    """
    if isinstance(tensors, (list, tuple)) and not tensors:
        raise InvalidValue("expected a non-empty list of Tensors")
    xs = tensor_list(tensors)
    shapes = [x.array.shape for x in xs]
    if () in shapes:
        raise RuntimeError(f"zero-dimensional tensor (at position {shapes.index(())}) cannot be concatenated")
    parts = of_one_dtype(xs)
    if (0,) in shapes:  # As in PyTorch, Tensors of shape (0,) are ignored.
        others = tuple([x for x in parts if x.array.shape != (0,)])
        parts, dim = (others, dim) if others else (parts[:1], 0)
    return apply(CAT, parts, {"dim": dimension(dim, parts[0].array.ndim)})


@operator(method=False, dtype="promoted", raises="list")
def stack(tensors: Sequence[Operand], dim: int = 0) -> Tensor:
    """``out[.., i, ..] = tensors[i]``: Tensors of one shape joined along a new dimension.

    Derivative: each Tensor's slice of ``g``.
    Shape: equal; the result has a new dimension ``dim``, whose length is the number of Tensors.

    Args:
        dim: the position of the new dimension.

    >>> rg.stack([rg.tensor([1, 2]), rg.tensor([3, 4])], dim=1)
    tensor([[1, 3],
            [2, 4]])
    """
    xs = tensor_list(tensors)
    return apply(STACK, of_one_dtype(xs), {"dim": dimension(dim, xs[0].array.ndim + 1)})


def _joined(tensors: Sequence[Operand], least: int, widen: Callable[[Tensor], Tensor], dim: int) -> Tensor:
    xs = [x if x.array.ndim >= least else widen(x) for x in tensor_list(tensors)]
    return cat(xs, dim if xs[0].array.ndim > dim else 0)


@operator(method=False, dtype="promoted", derivative="piece", args="tensors", raises="list")
def hstack(tensors: Sequence[Operand]) -> Tensor:
    """``cat(tensors, 1)``, for vectors ``cat(tensors, 0)``.

    Shape: as ``cat``; () counts as (1,).

    >>> rg.hstack([rg.tensor([1, 2]), rg.tensor([3])])
    tensor([1, 2, 3])
    """
    return _joined(tensors, 1, atleast_1d, 1)


@operator(method=False, aliases=("row_stack",), like=hstack, args="tensors")
def vstack(tensors: Sequence[Operand]) -> Tensor:
    """``cat(tensors, 0)``, with vectors as rows.

    Shape: as ``cat``; (n,) counts as (1, n).

    >>> rg.vstack([rg.tensor([1, 2]), rg.tensor([3, 4])])
    tensor([[1, 2],
            [3, 4]])
    """
    return _joined(tensors, 2, atleast_2d, 0)


@operator(method=False, like=hstack, args="tensors")
def dstack(tensors: Sequence[Operand]) -> Tensor:
    """``cat(tensors, 2)``.

    Shape: as ``cat``; inputs are extended to three dimensions as by ``atleast_3d``.

    >>> rg.dstack([rg.tensor([1, 2]), rg.tensor([3, 4])]).shape
    (1, 2, 2)
    """
    return _joined(tensors, 3, atleast_3d, 2)


@operator(method=False, like=hstack, args="tensors")
def column_stack(tensors: Sequence[Operand]) -> Tensor:
    """``cat(tensors, 1)``, with vectors as columns.

    Shape: as ``cat``; (n,) counts as (n, 1).

    >>> rg.column_stack([rg.tensor([1, 2]), rg.tensor([3, 4])])
    tensor([[1, 3],
            [2, 4]])
    """
    return _joined(tensors, 2, lambda x: reshape(x, (x.array.size, 1)), 1)


def _block_diag(*xs: Array) -> Array:
    out = array_module(xs[0]).zeros((sum(x.shape[0] for x in xs), sum(x.shape[1] for x in xs)), xs[0].dtype)
    for x, key in zip(xs, _blocks(tuple([x.shape for x in xs]))):
        out[key] = x
    return out


def _blocks(shapes: tuple[tuple[int, ...], ...]) -> list[tuple[slice, slice]]:
    keys = []
    row = column = 0
    for rows, columns in shapes:
        keys.append((slice(row, row + rows), slice(column, column + columns)))
        row, column = row + rows, column + columns
    return keys


def _block_diag_examples(call: Call) -> Any:
    xs = [call.full(index) for index in range(len(call.values))]
    width = sum(x.array.shape[2] for x in xs)
    rows, start = [], 0
    for x in xs:
        _, height, own = x.array.shape
        xp = array_module(x)
        left = xp.zeros((call.size, height, start), x.array.dtype)
        right = xp.zeros((call.size, height, width - start - own), x.array.dtype)
        rows.append(call.below([left, x, right], {"dim": 2}, CAT))
        start += own
    return call.below(rows, {"dim": 1}, CAT)


BLOCK_DIAG: Primitive = Primitive(
    "block_diag",
    _block_diag,
    "*xs",
    vjp=lambda g, xs_shape, needs: [
        GETITEM(g, index=(*key, Ellipsis)) if need else None for key, need in zip(_blocks(xs_shape), needs)
    ],
    promote="same",
    batch=_block_diag_examples,
)


@operator(method=False, dtype="promoted")
def block_diag(*tensors: Operand) -> Tensor:
    """``diag(A_1, ..., A_n)``: a matrix with the given matrices on its diagonal and zeros elsewhere.

    Derivative: each matrix's block of ``g``.
    Shape: (m_i, n_i) to (sum_i m_i, sum_i n_i); (n,) stands for (1, n) and () for (1, 1).

    Args:
        tensors: the matrices, as separate arguments.

    Raises:
        RuntimeError: a Tensor has more than two dimensions.

    >>> rg.block_diag(rg.tensor([[1, 2]]), rg.tensor(3))
    tensor([[1, 2, 0],
            [0, 0, 3]])
    """
    xs = [operand(x, "tensors") for x in tensors]
    for place, x in enumerate(xs):
        if x.ndim > 2:
            raise RuntimeError(f"expected at most 2 dimensions, got {describe(x)} at position {place}")
    return apply(BLOCK_DIAG, tuple(map(atleast_2d, xs)) or (new_tensor(np.zeros((1, 0), np.float32)),), {})


# Splitting


def _split(x: Array, sizes: tuple[int, ...], dim: int) -> tuple[Any, ...]:
    before = (slice(None),) * dim
    pieces = []
    start = 0
    for size in sizes:
        pieces.append(x[(*before, slice(start, start + size))])
        start += size
    return tuple(pieces)


def _unbind(x: Any, dim: int) -> tuple[Any, ...]:
    before = (slice(None),) * dim
    return tuple([x[(*before, place, Ellipsis)] for place in range(x.shape[dim])])


def _split_vjp(g: tuple[Any, ...], dim: int) -> Array:
    return joined(g, dim, CAT, new=False)


def _unbind_vjp(g: tuple[Any, ...], dim: int) -> Array:
    return joined(g, dim, STACK, new=True)


SPLIT: Primitive = Primitive("split", _split, "x", [_split_vjp], view=True, outputs=-1, batch=batching.along("dim"))
UNBIND: Primitive = Primitive("unbind", _unbind, "x", [_unbind_vjp], view=True, outputs=-1, batch=batching.along("dim"))


def _pieces(x: Tensor, sizes: tuple[int, ...], dim: int) -> tuple[Tensor, ...]:
    return apply_views(SPLIT, x, {"sizes": sizes, "dim": dim}) if sizes else ()


def _with_dimensions(input: Operand, least: int = 1) -> Tensor:
    x = operand(input)
    if x.array.ndim < least:
        raise RuntimeError(f"expected at least {least} dimension{'s' * (least > 1)}, got {describe(x)}")
    return x


@operator(derivative="joined")
def split(tensor: Tensor, split_size_or_sections: Dims, dim: int = 0) -> tuple[Tensor, ...]:
    """``input[.., i * size : (i + 1) * size, ..]``: views of pieces along a dimension; the last one may be smaller.

    Shape: (*, n, *) to pieces (*, size, *).

    Args:
        tensor: a Tensor of at least one dimension.
        split_size_or_sections: the length of each piece, or a list of lengths that add up to n.

    Raises:
        RuntimeError: a length is negative, or the sum of the lengths is not n.

    >>> rg.split(rg.arange(5), 2)
    (tensor([0, 1]), tensor([2, 3]), tensor([4]))
    """
    if isinstance(split_size_or_sections, (tuple, list)):
        return split_with_sizes(tensor, split_size_or_sections, dim)
    x = _with_dimensions(tensor)
    size = integer(split_size_or_sections, "split_size_or_sections")
    place = dimension(dim, x.array.ndim)
    length = x.array.shape[place]
    if size < 0 or size == 0 and length:
        raise RuntimeError(f"the size of the pieces must be positive, got {size} for {describe(x)}")
    return _pieces(x, _even(length, size), place)


def _even(length: int, size: int) -> tuple[int, ...]:
    """Return the sizes of the pieces, the last of which may be smaller; a length of 0 gives one empty piece."""
    if length == 0:
        return (0,)
    return tuple([min(size, length - start) for start in range(0, length, size)])


@operator(like=split)
def split_with_sizes(input: Tensor, split_sizes: Sequence[int], dim: int = 0) -> tuple[Tensor, ...]:
    """``[x[:n_1], x[n_1:n_1 + n_2], ...]``: views of pieces of the given lengths along a dimension.

    Shape: (*, n, *) to pieces (*, split_sizes[i], *).

    Args:
        input: a Tensor of at least one dimension.
        split_sizes: the lengths, which add up to n.

    >>> rg.split_with_sizes(rg.arange(3), [1, 2])
    (tensor([0]), tensor([1, 2]))
    """
    x = _with_dimensions(input)
    sizes = integers((split_sizes,), "split_sizes")
    place = dimension(dim, x.array.ndim)
    if any(size < 0 for size in sizes) or sum(sizes) != x.array.shape[place]:
        raise RuntimeError(
            f"the sizes {sizes} must not be negative and must add up to {x.array.shape[place]}, the "
            f"length of dimension {dim} of {describe(x)}"
        )
    return _pieces(x, sizes, place)


@operator(derivative="joined", args="input 1-d")
def chunk(input: Tensor, chunks: int, dim: int = 0) -> tuple[Tensor, ...]:
    """Views of at most ``chunks`` pieces of equal length along a dimension; the last one may be smaller.

    Shape: (*, n, *) to pieces (*, ceil(n / chunks), *).

    Args:
        chunks: the number of pieces.

    Raises:
        RuntimeError: ``chunks`` is not positive.

    >>> rg.chunk(rg.arange(5), 2)
    (tensor([0, 1, 2]), tensor([3, 4]))
    """
    x = _with_dimensions(input)
    count = integer(chunks, "chunks")
    if count <= 0:
        raise RuntimeError(f"chunks must be greater than 0, got {count}")
    place = dimension(dim, x.array.ndim)
    length = x.array.shape[place]
    sizes = _even(length, -(-length // count)) if length else (0,) * count
    return _pieces(x, sizes, place)


@operator(like=split_with_sizes, derivative="in places", args="sections")
@also_named(indices="indices_or_sections", sections="indices_or_sections")
def tensor_split(input: Tensor, indices_or_sections: Dims | Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """``[x[:a], x[a:b], ...]``: views of nearly equal pieces along a dimension, or pieces between given positions.

    Shape: (*, n, *) to pieces (*, n // count or one more, *).

    Raises:
        RuntimeError: the number of pieces is not positive, or ``indices_or_sections`` is a Tensor that is not int64
            or has more than one dimension.

    >>> rg.tensor_split(rg.arange(5), 2), rg.tensor_split(rg.arange(5), (1, 4))
    ((tensor([0, 1, 2]), tensor([3, 4])), (tensor([0]), tensor([1, 2, 3]), tensor([4])))
    """
    return _tensor_split(_with_dimensions(input), indices_or_sections, dim)


def _tensor_split(x: Tensor, indices_or_sections: Dims | Tensor, dim: int) -> tuple[Tensor, ...]:
    place = dimension(dim, x.array.ndim)
    length = x.array.shape[place]
    if isinstance(indices_or_sections, Tensor):
        if indices_or_sections.array.dtype != np.int64 or indices_or_sections.array.ndim > 1:
            raise RuntimeError(
                f"indices_or_sections must be an int64 Tensor of 0 or 1 dimensions, got {describe(indices_or_sections)}"
            )
        indices_or_sections = indices_or_sections.tolist()
    if not isinstance(indices_or_sections, (tuple, list)):
        count = integer(indices_or_sections, "indices_or_sections")
        if count <= 0:
            raise RuntimeError(f"the number of sections must be larger than 0, got {count}")
        short, longer = divmod(length, count)
        return _pieces(x, (short + 1,) * longer + (short,) * (count - longer), place)
    cuts = integers((indices_or_sections,), "indices_or_sections")
    bounds = [0, *[slice(cut).indices(length)[1] for cut in cuts], length]
    if bounds == sorted(bounds):
        return _pieces(x, tuple([stop - start for start, stop in zip(bounds, bounds[1:])]), place)
    before = (slice(None),) * place  # the pieces may overlap or leave gaps
    return tuple([x[(*before, slice(start, stop))] for start, stop in zip(bounds, bounds[1:])])


def _split_along(input: Operand, indices_or_sections: Dims | Tensor, least: int, dim: int) -> tuple[Tensor, ...]:
    x = _with_dimensions(input, least)
    if isinstance(indices_or_sections, int) and x.array.shape[dim] % (indices_or_sections or 1):
        raise RuntimeError(
            f"dimension {dim} of {describe(x)} is not divisible by the number of sections {indices_or_sections}"
        )
    return _tensor_split(x, indices_or_sections, dim)


@operator(derivative="in places", args="sections")
@also_named(indices="indices_or_sections", sections="indices_or_sections")
def hsplit(input: Tensor, indices_or_sections: Dims | Tensor) -> tuple[Tensor, ...]:
    """``[x[:, :a], x[:, a:b], ...]``: views of equal pieces along dimension 1, or pieces between given positions.

    Vectors are split along dimension 0.

    Shape: each piece has the input's shape except along this dimension.

    Raises:
        RuntimeError: the input is 0-d, or the length is not a multiple of the number of pieces.

    >>> rg.hsplit(rg.arange(4), 2)
    (tensor([0, 1]), tensor([2, 3]))
    """
    return _split_along(input, indices_or_sections, 1, 1 if operand(input).ndim > 1 else 0)


@operator(like=hsplit)
@also_named(indices="indices_or_sections", sections="indices_or_sections")
def vsplit(input: Tensor, indices_or_sections: Dims | Tensor) -> tuple[Tensor, ...]:
    """``[x[:a], x[a:b], ...]``: views of equal pieces along dimension 0, or pieces between given positions.

    Raises:
        RuntimeError: there are fewer than two dimensions, or the length is not a multiple of the number of pieces.

    >>> [x.shape for x in rg.vsplit(rg.zeros(4, 3), 2)]
    [(2, 3), (2, 3)]
    """
    return _split_along(input, indices_or_sections, 2, 0)


@operator(like=hsplit)
@also_named(indices="indices_or_sections", sections="indices_or_sections")
def dsplit(input: Tensor, indices_or_sections: Dims | Tensor) -> tuple[Tensor, ...]:
    """``[x[:, :, a:b], ...]``: views of equal pieces along dimension 2, or pieces between given positions.

    Raises:
        RuntimeError: there are fewer than three dimensions, or the length is not a multiple of the number of pieces.

    >>> [x.shape for x in rg.dsplit(rg.zeros(1, 2, 4), 2)]
    [(1, 2, 2), (1, 2, 2)]
    """
    return _split_along(input, indices_or_sections, 3, 2)


@operator(args="input 1-d")
def unbind(input: Tensor, dim: int = 0) -> tuple[Tensor, ...]:
    """``input[.., i, ..]`` for every i: views of the slices along a dimension.

    Derivative: the slices' ``g`` stacked.
    Shape: (*, n, *) to n slices (*, *).

    Raises:
        IndexError: ``dim`` is out of range, or the input is 0-d.

    >>> rg.unbind(rg.arange(2))
    (tensor(0), tensor(1))
    """
    x = operand(input)
    if not x.array.ndim:
        raise IndexError(f"expected at least one dimension, got {describe(x)}")
    place = dimension(dim, x.array.ndim)
    return apply_views(UNBIND, x, {"dim": place}) if x.array.shape[place] else ()


def _iterate(self: Tensor) -> Iterator[Tensor]:
    if not self.array.ndim:
        raise TypeError("iteration over a 0-d tensor")
    if sys._getframe(1).f_globals.get("__name__", "").startswith("pandas."):
        return iter(np.asarray(self))  # pandas would compare Tensors as objects, by identity: Series.isin, for example
    return iter(unbind(self))


def _contains(self: Tensor, element: Operand) -> bool:
    found = self == element
    if not isinstance(found, Tensor):
        raise RuntimeError(f"in: expected a Tensor, array or number as element, got {type(element).__name__}")
    return bool(found.array.any())


tensor_method(_iterate, "__iter__")
tensor_method(_contains, "__contains__")
