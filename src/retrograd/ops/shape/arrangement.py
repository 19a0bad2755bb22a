"""The elements in another arrangement, copied: repeated, turned, rolled, kept in a triangle, on a grid."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import combinations as _combinations
from itertools import combinations_with_replacement as _combinations_with_replacement
from math import prod
from typing import Any

import numpy as np

from ...core.devices import array_module, backend_of
from ...core.errors import describe
from ...core.primitive import Primitive, apply, operand
from ...core.tensor import Tensor
from ..indexing.indexing import Index, reading
from ..table.arguments import dimension, dimensions, integer, integers, only_keyword, tensor_list
from ..table.registry import also_named, numpy_names, operator
from .joining import stack
from .shape import broadcast_tensors, flatten, permute, reshape, transpose

# Repeating


def _repeat(x: Any, sizes: tuple[int, ...]) -> Any:
    return array_module(x).tile(x, sizes)


def _repeat_rule(g: Any, sizes: tuple[int, ...], x_shape: tuple[int, ...]) -> Any:
    """The sum over the copies: each dimension of g is split into (copies, length)."""
    lengths = (1,) * (len(sizes) - len(x_shape)) + x_shape
    split = tuple([length for pair in zip(sizes, lengths) for length in pair])
    return g.reshape(split).sum(axis=tuple(range(0, len(split), 2))).reshape(x_shape)


REPEAT: Primitive = Primitive("repeat", _repeat, "x", [_repeat_rule])


@operator(namespace="Tensor")
def repeat(self: Tensor, *repeats: Any, **keywords: Any) -> Tensor:
    """Copies side by side, ``repeats`` of them along each dimension; more numbers than dimensions add some in front.

    Raises:
        RuntimeError: there are fewer numbers than dimensions, or one is negative.

    >>> rg.tensor([1, 2]).repeat(2, 2)
    tensor([[1, 2, 1, 2],
            [1, 2, 1, 2]])
    """
    if keywords:
        repeats = (only_keyword("repeats", repeats, keywords),)
    sizes = integers(repeats, "repeats")
    if len(sizes) < self.array.ndim:
        raise RuntimeError(f"wanted a number for each of the dimensions of {describe(self)}, got {sizes}")
    return _tiled(self, sizes)


def _tiled(x: Tensor, sizes: tuple[int, ...]) -> Tensor:
    if any(size < 0 for size in sizes):
        raise RuntimeError(f"the numbers of repeats must not be negative, got {sizes}")
    return apply(REPEAT, (x,), {"sizes": sizes})


@operator()
def tile(input: Tensor, *dims: Any, **keywords: Any) -> Tensor:
    """Copies side by side, as ``repeat``; where there are fewer numbers than dimensions, 1 is put in front of them.

    >>> rg.tile(rg.tensor([[1], [2]]), (3,))
    tensor([[1, 1, 1],
            [2, 2, 2]])
    """
    if keywords:
        dims = (only_keyword("dims", dims, keywords),)
    x = operand(input)
    sizes = integers(dims, "dims")
    return _tiled(x, (1,) * (x.array.ndim - len(sizes)) + sizes)


def _repeat_interleave_rule(g: Any, repeats: int, dim: int, x_shape: tuple[int, ...]) -> Any:
    return g.reshape((*x_shape[:dim], x_shape[dim], repeats, *x_shape[dim + 1 :])).sum(axis=dim + 1)


REPEAT_INTERLEAVE: Primitive = Primitive(
    "repeat_interleave", lambda x, repeats, dim: x.repeat(repeats, axis=dim), "x", [_repeat_interleave_rule]
)
REPEAT_EACH: Primitive = reading("repeat_interleave")


@operator()
@numpy_names
def repeat_interleave(
    input: Tensor, repeats: Any = None, dim: int | None = None, *, output_size: int | None = None
) -> Tensor:
    """Each element repeated in its place: ``repeats`` times, or each as often as a vector says.

    Without ``dim`` the input is flattened first. With the vector alone, ``repeat_interleave(repeats)``, the result
    are the positions 0, 1, ... repeated.

    Raises:
        RuntimeError: a number of repeats is negative, or there are not as many as elements along ``dim``.

    >>> rg.repeat_interleave(rg.tensor([1, 2]), 2), rg.repeat_interleave(rg.tensor([1, 2]), rg.tensor([1, 2]))
    (tensor([1, 1, 2, 2]), tensor([1, 2, 2]))
    """
    if repeats is None:
        counts = operand(input)
        return repeat_interleave(Tensor(array_module(counts).arange(counts.array.size)), counts, 0)
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
    xp = array_module(x)
    each = backend_of(x.array).asarray(repeats.array if isinstance(repeats, Tensor) else repeats)
    length = x.array.shape[place]
    if each.dtype.kind not in "iu" or each.ndim > 1 or each.size not in (1, length):
        raise RuntimeError(f"wanted {length} integers for the repeats of {describe(x)}, got {describe(each)}")
    if each.size and int(each.min().item()) < 0:
        raise RuntimeError("repeats must not be negative")
    ends = xp.broadcast_to(each, (length,)).cumsum()
    total = int(ends[-1].item()) if length else 0
    if output_size is not None and output_size != total:
        raise RuntimeError(f"output_size {output_size} does not match the sum of repeats {total}")
    source = xp.searchsorted(ends, xp.arange(total), side="right")
    return apply(REPEAT_EACH, (x,), {"index": Index((*(slice(None),) * place, source))})


# Turning


def _flip(x: Any, dims: tuple[int, ...]) -> Any:
    backwards, same = slice(None, None, -1), slice(None)
    return x[tuple([backwards if dim in dims else same for dim in range(x.ndim)])].copy()


def _roll(x: Any, shifts: tuple[int, ...], dims: tuple[int, ...]) -> Any:
    return array_module(x).roll(x, shifts, dims)


FLIP: Primitive = Primitive("flip", _flip, "x", [lambda g, dims: FLIP(g, dims=dims)])
ROLL: Primitive = Primitive(
    "roll", _roll, "x", [lambda g, shifts, dims: ROLL(g, shifts=tuple([-shift for shift in shifts]), dims=dims)]
)
ROT90: Primitive = Primitive(
    "rot90",
    lambda x, k, dims: array_module(x).rot90(x, k, dims).copy(),
    "x",
    [lambda g, k, dims: ROT90(g, k=-k, dims=dims)],
)


@operator()
@also_named(axis="dims")
def flip(input: Tensor, *dims: Any, **keywords: Any) -> Tensor:
    """A copy with the order of the elements reversed along the given dimensions.

    Raises:
        RuntimeError: a dimension appears twice.
        IndexError: a dimension is out of range.

    >>> rg.flip(rg.tensor([[1, 2], [3, 4]]), (0,))
    tensor([[3, 4],
            [1, 2]])
    """
    if keywords:
        dims = (only_keyword("dims", dims, keywords),)
    x = operand(input)
    return apply(FLIP, (x,), {"dims": dimensions(integers(dims, "dims"), x.ndim)})


@operator()
def fliplr(input: Tensor) -> Tensor:
    """A copy with dimension 1 reversed.

    Raises:
        RuntimeError: there are fewer than two dimensions.

    >>> rg.fliplr(rg.tensor([[1, 2]]))
    tensor([[2, 1]])
    """
    x = operand(input)
    if x.ndim < 2:
        raise RuntimeError(f"wanted at least 2 dimensions, got {describe(x)}")
    return flip(x, 1)


@operator()
def flipud(input: Tensor) -> Tensor:
    """A copy with dimension 0 reversed.

    Raises:
        RuntimeError: the input is 0-d.

    >>> rg.flipud(rg.tensor([1, 2]))
    tensor([2, 1])
    """
    x = operand(input)
    if x.ndim < 1:
        raise RuntimeError(f"wanted at least 1 dimension, got {describe(x)}")
    return flip(x, 0)


@operator()
def rot90(input: Tensor, k: int = 1, dims: Sequence[int] = (0, 1)) -> Tensor:
    """A copy turned ``k`` times by 90 degrees in the plane of two dimensions, from the first towards the second.

    Raises:
        RuntimeError: not two different dimensions are given.

    >>> rg.rot90(rg.tensor([[1, 2], [3, 4]]))
    tensor([[2, 4],
            [1, 3]])
    """
    x = operand(input)
    plane = integers((dims,), "dims")
    if len(plane) != 2 or x.ndim < 2:
        raise RuntimeError(f"wanted two dimensions of an input with at least two, got {plane} of {describe(x)}")
    turns = integer(k, "k")
    return apply(ROT90, (x,), {"k": turns, "dims": dimensions(plane, x.ndim)})


@operator()
@also_named(axis="dims")
def roll(input: Tensor, shifts: Any, dims: Any = None) -> Tensor:
    """The elements moved on by ``shifts`` places along ``dims``; those that leave come in again at the other end.

    Without ``dims`` the flattened elements are rolled. Several dimensions take as many shifts.

    Raises:
        RuntimeError: shifts and dimensions differ in number.

    >>> rg.roll(rg.tensor([1, 2, 3]), 1)
    tensor([3, 1, 2])
    """
    x = operand(input)
    moves = integers((shifts,) if not isinstance(shifts, (tuple, list)) else tuple(shifts), "shifts")
    if dims is None or dims == ():
        if len(moves) != 1:
            raise RuntimeError(f"wanted one shift without dims, got {moves}")
        return reshape(apply(ROLL, (flatten(x),), {"shifts": moves, "dims": (0,)}), x.array.shape)
    places = tuple([dimension(each, x.ndim) for each in (dims if isinstance(dims, (tuple, list)) else (dims,))])
    if len(places) != len(moves):
        raise RuntimeError(f"shifts {moves} and dims {places} differ in number")
    return apply(ROLL, (x,), {"shifts": moves, "dims": places}) if x.ndim else x.clone()


# Triangles

TRIL: Primitive = Primitive(
    "tril", lambda x, diagonal: array_module(x).tril(x, diagonal), "x", [lambda g, diagonal: TRIL(g, diagonal=diagonal)]
)
TRIU: Primitive = Primitive(
    "triu", lambda x, diagonal: array_module(x).triu(x, diagonal), "x", [lambda g, diagonal: TRIU(g, diagonal=diagonal)]
)


def _triangle(primitive: Primitive, input: Any, diagonal: Any) -> Tensor:
    x = operand(input)
    if x.ndim < 2:
        raise RuntimeError(f"wanted at least 2 dimensions, got {describe(x)}")
    place = integer(diagonal, "diagonal")
    return apply(primitive, (x,), {"diagonal": place})


@operator(inplace=True)
def tril(input: Tensor, diagonal: int = 0) -> Tensor:
    """The lower triangle of the matrices in the last two dimensions: zero above the given diagonal.

    Raises:
        RuntimeError: there are fewer than two dimensions.

    >>> rg.tril(rg.ones(2, 2))
    tensor([[1., 0.],
            [1., 1.]])
    """
    return _triangle(TRIL, input, diagonal)


@operator(inplace=True)
def triu(input: Tensor, diagonal: int = 0) -> Tensor:
    """The upper triangle of the matrices in the last two dimensions: zero below the given diagonal.

    Raises:
        RuntimeError: there are fewer than two dimensions.

    >>> rg.triu(rg.ones(2, 2))
    tensor([[1., 1.],
            [0., 1.]])
    """
    return _triangle(TRIU, input, diagonal)


# Grids


def _vectors(tensors: tuple[Any, ...]) -> list[Tensor]:
    if len(tensors) == 1 and isinstance(tensors[0], (list, tuple)):
        tensors = tuple(tensors[0])
    xs = tensor_list(list(tensors))
    for x in xs:
        if x.ndim > 1:
            raise RuntimeError(f"wanted vectors and 0-d Tensors, got {', '.join(map(describe, xs))}")
    return [x if x.ndim else reshape(x, (1,)) for x in xs]


@operator(method=False)
def meshgrid(*tensors: Any, indexing: str = "ij") -> tuple[Tensor, ...]:
    """The coordinates of a grid: per vector a Tensor that varies along one dimension and is expanded along the others.

    Args:
        tensors: vectors (or one list of them).
        indexing: ``"ij"`` gives the first vector dimension 0, ``"xy"`` exchanges the first two.

    Raises:
        RuntimeError: an input has more than one dimension, or ``indexing`` is neither.

    >>> rg.meshgrid(rg.tensor([1, 2]), rg.tensor([3, 4]))
    (tensor([[1, 1],
            [2, 2]]), tensor([[3, 4],
            [3, 4]]))
    """
    xs = _vectors(tensors)
    if indexing not in ("ij", "xy"):
        raise RuntimeError(f"indexing must be 'xy' or 'ij', got {indexing!r}")
    places = list(range(len(xs)))
    if indexing == "xy" and len(xs) > 1:
        places[:2] = 1, 0
    lone = [reshape(x, tuple([-1 if dim == place else 1 for dim in range(len(xs))])) for x, place in zip(xs, places)]
    return broadcast_tensors(*lone)


@operator(method=False)
def cartesian_prod(*tensors: Any) -> Tensor:
    """All combinations of one element of each vector, as rows; of a single vector, itself.

    >>> rg.cartesian_prod(rg.tensor([1, 2]), rg.tensor([3, 4]))
    tensor([[1, 3],
            [1, 4],
            [2, 3],
            [2, 4]])
    """
    for x in tensors:
        if operand(x).ndim != 1:
            raise RuntimeError(f"wanted vectors, got {describe(x)}")
    xs = _vectors(tensors)
    return xs[0] if len(xs) == 1 else reshape(stack(meshgrid(*xs), -1), (prod(x.array.size for x in xs), len(xs)))


COMBINATIONS: Primitive = reading("combinations")


@operator(method=False)
def combinations(input: Tensor, r: int = 2, with_replacement: bool = False) -> Tensor:
    """All combinations of ``r`` elements of a vector, as rows, in the order of their positions.

    Raises:
        RuntimeError: the input is no vector, or ``r`` is negative.

    >>> rg.combinations(rg.tensor([1, 2, 3]))
    tensor([[1, 2],
            [1, 3],
            [2, 3]])
    """
    x = operand(input)
    if x.ndim != 1 or r < 0:
        raise RuntimeError(f"wanted a vector and r >= 0, got {describe(x)} and r={r}")
    if r == 0:
        return x.new_empty(0)
    choose: Callable[..., Any] = _combinations_with_replacement if with_replacement else _combinations
    rows = np.array(list(choose(range(x.array.size), r)), np.int64).reshape(-1, r)
    return apply(COMBINATIONS, (x,), {"index": Index((backend_of(x.array).asarray(rows),))})


# Channels and pixels


def _channels(input: Any, factor: Any, argument: str) -> tuple[Tensor, tuple[int, ...], int, int, int, int]:
    x = operand(input)
    r = integer(factor, argument)
    if x.ndim < 3:
        raise RuntimeError(f"wanted at least 3 dimensions, got {describe(x)}")
    if r <= 0:
        raise RuntimeError(f"{argument} must be positive, got {r}")
    *batch, channels, height, width = x.array.shape
    return x, tuple(batch), channels, height, width, r


@operator(namespace="nn.functional", method=False)
def pixel_shuffle(input: Tensor, upscale_factor: int) -> Tensor:
    """Channels spread over pixels: shape (*, C r², H, W) becomes (*, C, H r, W r) (Shi et al., 2016).

    Raises:
        RuntimeError: the number of channels is no multiple of r².

    >>> rg.nn.functional.pixel_shuffle(rg.arange(4).reshape(4, 1, 1), 2)
    tensor([[[0, 1],
             [2, 3]]])
    """
    x, batch, channels, height, width, r = _channels(input, upscale_factor, "upscale_factor")
    if channels % (r * r):
        raise RuntimeError(f"the channels of {describe(x)} must be a multiple of upscale_factor² = {r * r}")
    n = len(batch)
    x = reshape(x, (*batch, channels // (r * r), r, r, height, width))
    x = permute(x, (*range(n), n, n + 3, n + 1, n + 4, n + 2))
    return reshape(x, (*batch, channels // (r * r), height * r, width * r))


@operator(namespace="nn.functional", method=False)
def pixel_unshuffle(input: Tensor, downscale_factor: int) -> Tensor:
    """Pixels gathered in channels, the inverse of ``pixel_shuffle``: (*, C, H r, W r) becomes (*, C r², H, W).

    Raises:
        RuntimeError: height or width is no multiple of r.

    >>> rg.nn.functional.pixel_unshuffle(rg.arange(4).reshape(1, 2, 2), 2).shape
    (4, 1, 1)
    """
    x, batch, channels, height, width, r = _channels(input, downscale_factor, "downscale_factor")
    if height % r or width % r:
        raise RuntimeError(f"height and width of {describe(x)} must be multiples of downscale_factor = {r}")
    n = len(batch)
    x = reshape(x, (*batch, channels, height // r, r, width // r, r))
    x = permute(x, (*range(n), n, n + 2, n + 4, n + 1, n + 3))
    return reshape(x, (*batch, channels * r * r, height // r, width // r))


@operator(namespace="nn.functional", method=False)
def channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Channels (dimension 1) dealt out over groups: (N, g k, *) is read as (N, g, k, *) and transposed.

    Raises:
        RuntimeError: the number of channels is no multiple of ``groups``.

    >>> rg.nn.functional.channel_shuffle(rg.arange(4).reshape(1, 4, 1), 2).reshape(-1)
    tensor([0, 2, 1, 3])
    """
    x = operand(input)
    count = integer(groups, "groups")
    if x.ndim < 3 or count <= 0 or x.array.shape[1] % count:
        raise RuntimeError(f"wanted at least 3 dimensions and channels that {count} divides, got {describe(x)}")
    n, channels, *rest = x.array.shape
    x = reshape(x, (n, count, channels // count, *rest))
    return reshape(transpose(x, 1, 2), (n, channels, *rest))
