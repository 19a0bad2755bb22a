"""Copies with rearranged elements: repetition, flips and rotations, rolls, triangles, grids."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from functools import lru_cache
from itertools import combinations as _combinations
from itertools import combinations_with_replacement as _combinations_with_replacement
from math import prod
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module, backend_of
from ...core.arrays.layout import order_like, row_major
from ...core.errors import describe
from ...core.graph.fitting import unbroadcast
from ...core.graph.primitive import Primitive, apply, operand
from ...core.tensor import tensor
from ...core.tensor.tensor import Tensor, new_tensor, tensor_method
from ...kernels.loops.layout import copies
from ...kernels.runtime.result_arrays import empty
from ..indexing.indexing import Index, reading
from ..table import batching
from ..table.arguments import dimension, dimensions, integer, integers, only_keyword, tensor_list
from ..table.registry import also_named, operator
from ..table.types import Dims, Operand, Size
from .expansion import broadcast_tensors
from .joining import stack
from .shape import flatten, reshape

if TYPE_CHECKING:
    from ...core.mapping.batching import Call

# Repeating


def _repeat(x: Array, sizes: tuple[int, ...]) -> Array:
    return array_module(x).tile(x, sizes)


def _repeat_rule(g: Array, sizes: tuple[int, ...], x_shape: tuple[int, ...]) -> Array:
    """Sum over the copies: each dimension of g is split into (copies, length)."""
    lengths = (1,) * (len(sizes) - len(x_shape)) + x_shape
    split = tuple([length for pair in zip(sizes, lengths) for length in pair])
    return g.reshape(split).sum(axis=tuple(range(0, len(split), 2))).reshape(x_shape)


def _repeat_examples(call: Call) -> Any:
    x, sizes = call.full(0), call.params["sizes"]
    shape = x.array.shape
    x = x.reshape((shape[0],) + (1,) * (len(sizes) + 1 - len(shape)) + shape[1:])
    return call.below([x], {"sizes": (1,) * (x.array.ndim - len(sizes)) + tuple(sizes)})


REPEAT: Primitive = Primitive("repeat", _repeat, "x", [_repeat_rule], batch=_repeat_examples)


@operator(namespace="Tensor", derivative="summed over copies")
def repeat(self: Tensor, *repeats: Size, **keywords: Size) -> Tensor:
    """``out[i, j, ..] = self[i % m, j % n, ..]``: tiled copies.

    Shape: (m, n, ..) to (repeats[0] m, repeats[1] n, ..); further numbers prepend dimensions.

    Args:
        repeats: the number of copies per dimension, as separate arguments or as a sequence.

    Raises:
        RuntimeError: there are fewer numbers than dimensions, or a number is negative.

    >>> rg.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    if keywords:
        repeats = (only_keyword("repeats", repeats, keywords),)
    sizes = integers(repeats, "repeats")
    if len(sizes) < self.array.ndim:
        raise RuntimeError(f"expected a number for each of the dimensions of {describe(self)}, got {sizes}")
    return _tiled(self, sizes)


def _tiled(x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    if any(size < 0 for size in sizes):
        raise RuntimeError(f"the numbers of repeats must not be negative, got {sizes}")
    return apply(REPEAT, (x,), {"sizes": sizes})


@operator(derivative="summed over copies")
def tile(input: Tensor, *dims: Size, **keywords: Size) -> Tensor:
    """``input.repeat(dims)``, with ones prepended to ``dims`` if it is shorter than the shape.

    Shape: as in ``repeat``.

    Args:
        dims: the number of copies per dimension, as separate arguments or as a sequence.

    Raises:
        RuntimeError: a number is negative.

    >>> rg.tile(rg.tensor([[1], [2]]), (3,))
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    if keywords:
        dims = (only_keyword("dims", dims, keywords),)
    x = operand(input)
    sizes = integers(dims, "dims")
    return _tiled(x, (1,) * (x.array.ndim - len(sizes)) + sizes)


def _repeat_interleave_rule(g: Array, repeats: int, dim: int, x_shape: tuple[int, ...]) -> Array:
    before, after = x_shape[: dim + 1], x_shape[dim + 1 :]
    return unbroadcast(g.reshape((*before, repeats, *after)), (*before, 1, *after)).reshape(x_shape)


def _repeat_interleave(x: Array, repeats: int, dim: int) -> Array:
    if type(x) is not np.ndarray or x.size < copies.LARGE:
        return x.repeat(repeats, axis=dim)
    out = empty((*x.shape[:dim], x.shape[dim] * repeats, *x.shape[dim + 1 :]), x.dtype)
    for start in range(repeats):
        copies.write(out[(*(slice(None),) * dim, slice(start, None, repeats))], x)
    return out


REPEAT_INTERLEAVE: Primitive = Primitive(
    "repeat_interleave", _repeat_interleave, "x", [_repeat_interleave_rule], batch=batching.along("dim")
)
REPEAT_BY_COUNTS: Primitive = reading("repeat_interleave")


@operator(reads_elements=True)
def repeat_interleave(
    input: Tensor, repeats: Dims | Tensor | None = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Repeat each element ``repeats`` times in succession; ``repeats`` may be a vector with a number per element.

    ``repeat_interleave(repeats)`` repeats the positions 0, 1, .. instead.

    Derivative: ``g`` summed over the copies of each element.
    Shape: (*, n, *) to (*, sum_i repeats_i, *); without ``dim`` the input is flattened first.

    Args:
        repeats: a number, or a vector with one number per element along ``dim``.
        dim: the dimension; None flattens the input.
        output_size: the sum of the repeats, which is checked.

    Raises:
        RuntimeError: a number of repeats is negative, or there is not one number per element along ``dim``.

    >>> rg.repeat_interleave(rg.tensor([1, 2]), 2), rg.repeat_interleave(rg.tensor([1, 2]), rg.tensor([1, 2]))
    (tensor([1, 1, 2, 2]), tensor([1, 2, 2]))
    """
    if repeats is None:
        counts = operand(input)
        return repeat_interleave(new_tensor(array_module(counts).arange(counts.array.size)), counts, 0)
    x = operand(input)
    if dim is None:
        x, dim = flatten(x), 0
    place = dimension(dim, x.array.ndim)
    if not x.array.ndim:
        x = reshape(x, (1,))
    if not isinstance(repeats, (Tensor, list, tuple, np.ndarray)):
        count = integer(repeats, "repeats")
        if count < 0:
            raise RuntimeError(f"repeats must not be negative, got {count}")
        return apply(REPEAT_INTERLEAVE, (x,), {"repeats": count, "dim": place})
    counts = repeats.array if isinstance(repeats, Tensor) else backend_of(x.array).asarray(repeats)
    length = x.array.shape[place]
    if counts.dtype.kind not in "iu" or counts.ndim > 1 or counts.size not in (1, length):
        raise RuntimeError(f"expected {length} integers for the repeats of {describe(x)}, got {describe(counts)}")
    source = _repeated_positions(new_tensor(counts), length, output_size)
    return apply(REPEAT_BY_COUNTS, (x,), {"index": Index((*(slice(None),) * place, source.array))})


@batching.called_per_example
def _repeated_positions(repeats: Tensor, length: int, total: int | None) -> Tensor:
    """Return the positions 0, 1, .. ``length - 1``, each repeated ``repeats`` times."""
    counts, xp = repeats.array, array_module(repeats)
    if counts.size and int(counts.min().item()) < 0:
        raise RuntimeError(f"repeats must not be negative, got {describe(repeats)}")
    ends = xp.broadcast_to(counts, (length,)).cumsum()
    found = int(ends[-1].item()) if length else 0
    if total is not None and total != found:
        raise RuntimeError(f"output_size {total} does not match the sum of repeats {found}")
    return new_tensor(xp.searchsorted(ends, xp.arange(found), side="right"))


# Flips, rotations and rolls


def _flip(x: Array, dims: tuple[int, ...]) -> Array:
    backwards, same = slice(None, None, -1), slice(None)
    view = x[tuple([backwards if dim in dims else same for dim in range(x.ndim)])]
    return copies.cloned(view) if type(x) is np.ndarray and x.size >= copies.LARGE else view.copy(order=order_like(x))


def _roll(x: Array, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Array:
    xp = array_module(x)
    if len(dims) > 1:
        return xp.roll(x, shifts, dims)
    before, length = (slice(None),) * dims[0], x.shape[dims[0]]
    start = -shifts[0] % length if length else 0
    return copies.joined((x[(*before, slice(start, None))], x[(*before, slice(start))]), dims[0])


FLIP: Primitive = Primitive(
    "flip", _flip, "x", [lambda g, dims: FLIP(g, dims=dims)], batch=batching.along("dims"), shaped=True
)
ROLL: Primitive = Primitive(
    "roll",
    _roll,
    "x",
    [lambda g, shifts, dims: ROLL(g, shifts=tuple([-shift for shift in shifts]), dims=dims)],
    contiguous=True,
    batch=batching.along("dims"),
    shaped=True,
)
ROT90: Primitive = Primitive(
    "rot90",
    lambda x, k, dims: array_module(x).rot90(x, k, dims).copy(),
    "x",
    [lambda g, k, dims: ROT90(g, k=-k, dims=dims)],
    batch=batching.along("dims"),
    shaped=True,
)


@operator(raises="dimension, repeated dimension", derivative="flipped")
@also_named(axis="dims")
def flip(input: Tensor, *dims: Size, **keywords: Size) -> Tensor:
    """``out[.., i, ..] = input[.., n - 1 - i, ..]``: a copy, reversed along the given dimensions.

    Args:
        dims: the dimensions, as separate arguments or as a sequence.

    >>> rg.flip(rg.tensor([[1, 2], [3, 4]]), (0,))
    tensor([[3, 4],
            [1, 2]])
    """
    if keywords:
        dims = (only_keyword("dims", dims, keywords),)
    x = operand(input)
    return apply(FLIP, (x,), {"dims": dimensions(integers(dims, "dims"), x.ndim)})


@tensor_method
def __reversed__(self: Tensor) -> Tensor:
    """``flip(0)``, for Python's ``reversed``; a 0-d Tensor is returned unchanged."""
    return flip(self, 0) if self.ndim else self


@operator(derivative="flipped")
def fliplr(input: Tensor) -> Tensor:
    """``flip(input, 1)``.

    Shape: (m, n, *), preserved.

    Raises:
        RuntimeError: there are fewer than two dimensions.

    >>> rg.fliplr(rg.tensor([[1, 2]]))
    tensor([[2, 1]])
    """
    x = operand(input)
    if x.ndim < 2:
        raise RuntimeError(f"expected at least 2 dimensions, got {describe(x)}")
    return flip(x, 1)


@operator(like=fliplr)
def flipud(input: Tensor) -> Tensor:
    """``flip(input, 0)``.

    Shape: (n, *), preserved.

    Raises:
        RuntimeError: the input is 0-d.

    >>> rg.flipud(rg.tensor([1, 2]))
    tensor([2, 1])
    """
    x = operand(input)
    if x.ndim < 1:
        raise RuntimeError(f"expected at least 1 dimension, got {describe(x)}")
    return flip(x, 0)


@operator(args="input 2-d")
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A copy rotated by ``k`` times 90 degrees in the plane of two dimensions, from the first towards the second.

    Derivative: ``g`` rotated back.
    Shape: at least two dimensions; for odd ``k`` the two lengths are exchanged.

    Args:
        k: the number of rotations; negative numbers rotate in the other direction.
        dims: the two dimensions.

    Raises:
        RuntimeError: ``dims`` are not two different dimensions.

    >>> rg.rot90(rg.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    x = operand(input)
    plane = integers((dims,), "dims")
    if len(plane) != 2 or x.ndim < 2:
        raise RuntimeError(f"expected two dimensions of an input with at least two, got {plane} of {describe(x)}")
    turns = integer(k, "k")
    return apply(ROT90, (x,), {"k": turns, "dims": dimensions(plane, x.ndim)})


@operator()
@also_named(axis="dims")
def roll(input: Tensor, shifts: Dims, dims: Dims | None = None) -> Tensor:
    """``out[.., (i + shifts) % n, ..] = input[.., i, ..]``: a circular shift.

    Derivative: ``g`` rolled back.

    Args:
        shifts: the shift for each dimension in ``dims``.
        dims: the dimensions; None rolls the flattened elements.

    Raises:
        RuntimeError: shifts and dims differ in length.
        TypeError: a shift is not an integer.

    >>> rg.roll(rg.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    x = operand(input)
    amounts = tuple(
        [integer(shift, "shifts") for shift in (shifts if isinstance(shifts, (tuple, list)) else (shifts,))]
    )
    if dims is None or isinstance(dims, (tuple, list)) and not dims:
        if len(amounts) != 1:
            raise RuntimeError(f"expected one shift without dims, got {amounts}")
        return reshape(apply(ROLL, (flatten(x),), {"shifts": amounts, "dims": (0,)}), x.array.shape)
    dims = dims if isinstance(dims, (tuple, list)) else (dims,)
    if len(dims) != len(amounts):
        raise RuntimeError(f"shifts {amounts} and dims {tuple(dims)} differ in length")
    places = tuple([dimension(dim, x.ndim) for dim in dims])
    if not x.ndim:
        raise IndexError(f"dims {tuple(dims)} are out of range for a 0-d input")
    return apply(ROLL, (x,), {"shifts": amounts, "dims": places})


# Triangles

SMALL = 1 << 12  # up to this number of elements, the mask of a matrix's triangle is cached
BAND = 32  # larger matrices are zeroed by blocks of this number of rows


@lru_cache(maxsize=64)
def _outside_triangle(rows: int, columns: int, diagonal: int, lower: bool) -> np.ndarray:
    return ~np.tri(rows, columns, diagonal, dtype=bool) if lower else np.tri(rows, columns, diagonal - 1, dtype=bool)


@lru_cache(maxsize=64)
def _zero(dtype: Any) -> np.ndarray:
    return np.zeros((), dtype)


def _kept(x: Array, diagonal: int, lower: bool) -> Array:
    if x.__class__ is np.ndarray and x.shape[-2] * x.shape[-1] <= SMALL:
        out = x.copy()
        np.copyto(out, _zero(x.dtype), where=_outside_triangle(x.shape[-2], x.shape[-1], diagonal, lower))
        return out
    xp = array_module(x)
    if type(x) is not np.ndarray:
        return row_major(xp.tril(x, diagonal) if lower else xp.triu(x, diagonal))
    out = copies.copied(x)
    rows, columns = x.shape[-2:]
    for row in range(0, rows, BAND):
        band = out[..., row : row + BAND, :]
        first, last = (min(max(row + diagonal + at, 0), columns) for at in (0, BAND))
        edge = band[..., first:last]
        np.copyto(edge, _zero(x.dtype), where=_outside_triangle(*edge.shape[-2:], row + diagonal - first, lower))
        if lower:
            band[..., last:] = 0
        else:
            band[..., :first] = 0
    return out


TRIL: Primitive = Primitive(
    "tril",
    lambda x, diagonal: _kept(x, diagonal, True),
    "x",
    [lambda g, diagonal: TRIL(g, diagonal=diagonal)],
    batch=batching.in_front,
    shaped=True,
)
TRIU: Primitive = Primitive(
    "triu",
    lambda x, diagonal: _kept(x, diagonal, False),
    "x",
    [lambda g, diagonal: TRIU(g, diagonal=diagonal)],
    batch=batching.in_front,
    shaped=True,
)


def _triangle(primitive: Primitive, input: Operand, diagonal: int) -> Tensor:
    x = operand(input)
    if x.array.ndim < 2:
        raise RuntimeError(f"expected at least 2 dimensions, got {describe(x)}")
    place = integer(diagonal, "diagonal")
    return apply(primitive, (x,), {"diagonal": place})


@operator(inplace=True, like=fliplr, args="input 2-d")
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """``out[.., i, j] = input[.., i, j] if j - i <= diagonal else 0``: the lower triangle of matrices.

    Derivative: the lower triangle of ``g``.
    Shape: (*, m, n), preserved.

    Args:
        diagonal: the diagonal that bounds the triangle: > 0 above the main diagonal, < 0 below.

    >>> rg.tril(rg.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return _triangle(TRIL, input, diagonal)


@operator(inplace=True, like=tril)
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """``out[.., i, j] = input[.., i, j] if j - i >= diagonal else 0``: the upper triangle of matrices.

    Derivative: the upper triangle of ``g``.

    >>> rg.triu(rg.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return _triangle(TRIU, input, diagonal)


# Grids


def _vectors(tensors: tuple[Operand | Sequence[Operand], ...]) -> list[Tensor]:
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    xs = tensor_list(list(tensors))
    for x in xs:
        if x.ndim > 1:
            raise RuntimeError(f"expected vectors and 0-d Tensors, got {', '.join(map(describe, xs))}")
    return [x if x.ndim else reshape(x, (1,)) for x in xs]


@operator(method=False)
def meshgrid(*tensors: Operand | Sequence[Operand], indexing: Literal["ij", "xy"] | None = None) -> tuple[Tensor, ...]:
    """``out[k][i, j, ..] = tensors[k][(i, j, ..)[k]]``: the coordinates of a grid, as views.

    Derivative: ``g`` summed over the dimensions along which a vector is repeated.
    Shape: vectors of n_0, n_1, .. elements to Tensors (n_0, n_1, ..).
    Dtype: any, the same for all.

    Args:
        tensors: vectors, as separate arguments or as one list.
        indexing: ``"ij"``, the default: the first vector runs along dimension 0; ``"xy"``: it runs along dimension 1,
            and the second one along dimension 0.

    Raises:
        RuntimeError: an input has more than one dimension, dtypes or devices differ, or ``indexing`` is unknown.

    >>> rg.meshgrid(rg.tensor([1, 2]), rg.tensor([3, 4]))
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))
    """
    xs = _vectors(tensors)
    if indexing is None:
        indexing = "ij"
        if not tensor.arrays_keep_dtype:  # under `retrograd run`, warn like PyTorch of a future change of the default
            text = "meshgrid: in an upcoming release of PyTorch, it will be required to pass the indexing argument"
            warnings.warn(text, UserWarning, stacklevel=3)
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"indexing must be 'xy' or 'ij', got {indexing!r}")
    for what in ("dtype", "device"):
        if len({getattr(x, what) for x in xs}) > 1:
            got = ", ".join(f"{describe(x)} with {what} {getattr(x, what)}" for x in xs)
            raise RuntimeError(f"all Tensors must have the same {what}, got {got}")
    places = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        places[:2] = 1, 0
    reshaped = [
        reshape(x, tuple([-1 if dim == place else 1 for dim in range(len(xs))])) for x, place in zip(xs, places)
    ]
    return broadcast_tensors(*reshaped)


@operator(method=False, dtype="promoted", derivative="summed over rows")
def cartesian_prod(*tensors: Operand) -> Tensor:
    """``x_1 × ... × x_n``: all combinations of one element per vector, as rows; a single vector is returned unchanged.

    Shape: vectors of n_0, .., n_k elements to (n_0 * ... * n_k, k + 1).

    Args:
        tensors: the vectors, as separate arguments.

    Raises:
        RuntimeError: an input is not a vector.

    >>> rg.cartesian_prod(rg.tensor([1, 2]), rg.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    for x in tensors:
        if operand(x).ndim != 1:
            raise RuntimeError(f"expected vectors, got {describe(x)}")
    xs = _vectors(tensors)
    if len(xs) == 1:
        return xs[0]
    return reshape(stack(meshgrid(*xs, indexing="ij"), -1), (prod(x.array.size for x in xs), len(xs)))


COMBINATIONS: Primitive = reading("combinations")


@operator(method=False, derivative="summed over rows")
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of ``r`` elements of a vector, as rows, in the order of their positions.

    Shape: (n,) to (binomial(n, r), r).

    Args:
        input: a vector.
        r: the number of elements per combination.
        with_replacement: whether an element may appear more than once.

    Raises:
        RuntimeError: the input is not a vector, or ``r`` is negative.

    >>> rg.combinations(rg.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    x = operand(input)
    if x.ndim != 1 or r < 0:
        raise RuntimeError(f"expected a vector and r >= 0, got {describe(x)} and r={r}")
    if r == 0:
        return x.new_empty(0)
    choose: Callable[..., Any] = _combinations_with_replacement if with_replacement else _combinations
    rows = np.array(list(choose(range(x.array.size), r)), np.int64).reshape(-1, r)
    return apply(COMBINATIONS, (x,), {"index": Index((backend_of(x.array).asarray(rows),))})
