"""The primitives of sampling at the points of a grid.

With a cotangent y of the result, sampling is a bilinear form in x and y,

    S(x, grid, y) = sum over n, c, p, t of  y[n, c, p] w[t, n, p] x[n, c, index[t, n, p]]

whose indices and weights are functions of the grid. Its derivatives with respect to y, x and the grid are the
primitives SAMPLE, SAMPLE_TRANSPOSE and SAMPLE_SLOPE.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.graph.primitive import Primitive
from ....core.named_tuples import NamedTuple
from ....core.tensor.tensor import Tensor, new_tensor
from ....kernels import or_reference
from ....kernels.loops.images import sampling
from ...indexing.gather import gather
from ...table.batching import folded
from ...table.composites import raw, second_order
from .convolution_primitives import in_single_precision
from .interpolation import CUBIC
from .sliding_windows import Ints

AT_ONCE = 1 << 12  # up to this number of elements, all terms are read together instead of one by one


class Way(NamedTuple):
    """The spatial size of the input and the options of the operator."""

    size: Ints
    mode: str
    padding: str
    align: bool


class Places(NamedTuple):
    """The positions that points read along each axis: ``place`` and ``inside (terms, axes, N, P)``.

    The weights are functions of ``fraction (axes, N, P)``, whose derivative with respect to the grid is ``slope``.
    """

    place: Any
    inside: Any
    fraction: Any
    slope: Any


def _sample_positions(grid: Any, way: Way) -> Places:
    xp = array_module(grid)
    axes = len(way.size)
    points = np.moveaxis(grid.reshape((grid.shape[0], prod(grid.shape[1:-1]), axes))[..., ::-1], -1, 0)
    lengths = xp.asarray(np.array(way.size, grid.dtype).reshape((axes, 1, 1)))
    slope = (lengths - 1) / 2 if way.align else lengths / 2
    x = (points + 1) * slope if way.align else (points + 1) * slope - 0.5
    if way.mode != "bicubic":
        x, turned = _brought_inside(x, lengths, way)
        slope = slope * turned
    if way.mode == "nearest":
        place, fraction = np.rint(x)[None], x
    else:
        low = np.floor(x)
        fraction = x - low
        offsets = (0, 1) if way.mode == "bilinear" else (-1, 0, 1, 2)
        place = low + xp.asarray(np.array(offsets, grid.dtype).reshape((-1, 1, 1, 1)))
        if way.mode == "bicubic" and way.padding != "zeros":
            place = np.rint(_brought_inside(place, lengths, way)[0])
    inside = (place >= 0) & (place < lengths)
    return Places(np.where(inside, place, 0).astype(np.intp), inside, fraction, slope)


def _brought_inside(x: Array, lengths: Any, way: Way) -> tuple[Any, Any]:
    """Apply the padding mode to coordinates; return them and their derivatives: 1, -1 if reflected, 0 if clipped."""
    if way.padding == "zeros":
        return x, 1
    turned: Any = 1
    if way.padding == "reflection":
        low, span = (0, np.maximum(lengths - 1, 1)) if way.align else (-0.5, lengths)
        away = abs(x - low)
        turns = np.floor(away / span)
        odd = turns % 2 == 1
        away = away - turns * span
        turned = np.where(odd != (x < low), x.dtype.type(-1), x.dtype.type(1))
        x = np.where(odd, span - away, away) + low
    last = lengths - 1
    turned = np.where((x > 0) & (x < last), turned, x.dtype.type(0))
    # NaN becomes the first position in an image, the last one in a volume, as in PyTorch.
    return (np.fmin(np.fmax(x, 0), last) if len(way.size) == 2 else np.fmax(np.fmin(x, last), 0)), turned


def _weights(t: Any, mode: str) -> list[Any]:
    """Return the interpolation weights of the neighbors at the fractional position t, an array or a Tensor."""
    if mode == "nearest":
        return [t * 0 + 1]
    if mode == "bilinear":
        return [1 - t, t]
    return [_cubic(t + 1, True), _cubic(t, False), _cubic(1 - t, False), _cubic(2 - t, True)]


def _cubic(d: Array, far: bool) -> Array:
    return (((d - 5) * d + 8) * d - 4) * CUBIC if far else ((CUBIC + 2) * d - (CUBIC + 3)) * d * d + 1


def _slopes(t: Array, mode: str) -> list[Array]:
    if mode == "bilinear":
        return [t * 0 - 1, t * 0 + 1]
    return [_cubic_slope(t + 1, True), _cubic_slope(t, False), -_cubic_slope(1 - t, False), -_cubic_slope(2 - t, True)]


def _cubic_slope(d: Array, far: bool) -> Array:
    return ((3 * d - 10) * d + 8) * CUBIC if far else (3 * (CUBIC + 2) * d - 2 * (CUBIC + 3)) * d


def _flat(found: Places, size: Ints) -> tuple[Array, Array]:
    """Return the flat positions of samples in a plane, and whether they are in the input, both ``(terms, N, P)``."""
    index, inside = found.place[:, 0], found.inside[:, 0]
    for axis in range(1, len(size)):
        shape = (len(index) * found.place.shape[0], *index.shape[1:])
        index = ((index * size[axis])[:, None] + found.place[:, axis]).reshape(shape)
        inside = (inside[:, None] & found.inside[:, axis]).reshape(shape)
    return index, inside


def _multiplied(weights: list[Array]) -> Any:
    product = weights[0]
    for more in weights[1:]:
        product = (product[:, None] * more).reshape((len(product) * len(more), *product.shape[1:]))
    return product


def _along_axes(found: Places, weights: list[Array], way: Way) -> list[Array]:
    """Regroup weights ``(axes, N, P)`` of each term by axis; in a volume, weights outside the input are 0."""
    along = np.stack(weights)
    if len(way.size) == 3:
        along = np.where(found.inside, along, along.dtype.type(0))
    return [along[:, axis] for axis in range(len(way.size))]


def _terms(x: Array, index: Any, inside: Any) -> Iterator[tuple[slice, Any, Any]]:
    """Yield groups of terms: their positions in ``x (N, C, L)``, and whether these are inside the input."""
    n, channels, length = x.shape
    rows = (array_module(x).arange(n * channels) * length).reshape((n, channels, 1))
    step = len(index) if index.size * channels <= AT_ONCE else 1
    for start in range(0, len(index), step):
        some = slice(start, start + step)
        yield some, rows + index[some, :, None], inside[some, :, None]


def _planes(x: Array) -> Array:
    return x.reshape((*x.shape[:2], prod(x.shape[2:])))


@in_single_precision()
@or_reference
def _sample(x: Array, grid: Any, *, way: Way) -> Any:
    """The derivative of S with respect to y: the input at the points."""
    shape = (*x.shape[:2], *grid.shape[1:-1])
    if sampling.takes(x, grid, grid.size * x.shape[1]):
        return sampling.sample(x, grid, way)
    xp = array_module(x)
    found = _sample_positions(grid, way)
    index, inside = _flat(found, way.size)
    weight = _multiplied(_along_axes(found, _weights(found.fraction, way.mode), way))
    x = _planes(x)
    total: Any = 0
    for some, places, valid in _terms(x, index, inside):
        values = np.where(valid, xp.take(x.reshape((-1,)), places), x.dtype.type(0))
        if way.mode != "nearest":
            values *= weight[some, :, None]
        total = total + values.sum(axis=0)
    return total.reshape(shape)


@in_single_precision()
@or_reference
def _sample_transpose(y: Array, grid: Any, *, way: Way) -> Any:
    """The derivative of S with respect to x: each point adds to the elements it reads."""
    shape = (*y.shape[:2], *way.size)
    if sampling.takes(y, grid, y.size):
        return sampling.transpose(y, grid, way)
    xp = array_module(y)
    found = _sample_positions(grid, way)
    index, inside = _flat(found, way.size)
    weight = _multiplied(_along_axes(found, _weights(found.fraction, way.mode), way))
    y = _planes(y)
    x = xp.zeros(shape, dtype=y.dtype)
    total: Any = 0
    for some, places, valid in _terms(_planes(x), index, inside):
        values = y if way.mode == "nearest" else y * weight[some, :, None]
        values = np.where(valid, values, y.dtype.type(0))
        total = total + xp.bincount(places.reshape((-1,)), weights=values.reshape((-1,)), minlength=x.size)
    return total.astype(y.dtype).reshape(shape)


@in_single_precision()
@or_reference
def _sample_slope(y: Array, x: Array, grid: Any, *, way: Way) -> Any:
    """The derivative of S with respect to the grid."""
    xp = array_module(x)
    if way.mode == "nearest":
        return xp.zeros(grid.shape, dtype=grid.dtype)
    if sampling.takes(x, grid, y.size):
        return sampling.slope(y, x, grid, way)
    found = _sample_positions(grid, way)
    index, inside = _flat(found, way.size)
    x, y = _planes(x), _planes(y)
    worth = xp.concatenate(
        [
            (np.where(valid, xp.take(x.reshape((-1,)), places), x.dtype.type(0)) * y).sum(axis=2)
            for _, places, valid in _terms(x, index, inside)
        ]
    )
    weights = _along_axes(found, _weights(found.fraction, way.mode), way)
    slopes = _along_axes(found, [each * found.slope for each in _slopes(found.fraction, way.mode)], way)
    axes = range(len(way.size))
    by_axis = [
        (worth * _multiplied([(slopes if a == axis else weights)[a] for a in axes])).sum(axis=0) for axis in axes
    ]
    return np.stack(by_axis[::-1], axis=-1).reshape(grid.shape)


def _composite(x: Tensor, grid: Tensor, *, way: Way) -> Tensor:
    """SAMPLE in plain operators: the weights as functions of the grid, with fixed positions."""
    found = _sample_positions(raw(grid), way)
    index, inside = _flat(found, way.size)
    n, channels, axes = x.shape[0], x.shape[1], len(way.size)
    points = grid.reshape(n, prod(grid.shape[1:-1]), axes).flip(-1).movedim(-1, 0)
    fraction = new_tensor(found.fraction) + new_tensor(found.slope) * (points - points.detach())
    weight = _multiplied(_along_axes(found, _weights(fraction, way.mode), way))
    places = new_tensor(index).movedim(0, 1)
    reads, count = places.shape[1:]
    places = places.reshape(n, 1, prod(places.shape[1:])).expand(n, channels, -1)
    values = gather(x.reshape(n, channels, prod(way.size)), 2, places).reshape(n, channels, reads, count)
    read: Any = np.where(new_tensor(inside).movedim(0, 1)[:, None], values, 0.0)
    return (read * weight.movedim(0, 1)[:, None]).sum(2).reshape(n, channels, *grid.shape[1:-1])


SAMPLE: Primitive = Primitive(
    "grid_sample",
    _sample,
    "x grid",
    [
        lambda g, grid, way: SAMPLE_TRANSPOSE(g, grid, way=way),
        lambda g, x, grid, way: SAMPLE_SLOPE(g, x, grid, way=way),
    ],
    promote="strict",
    signals=True,
    batch=folded(),
    piecewise_linear=True,
)
SAMPLE_TRANSPOSE: Primitive = Primitive(
    "grid_sample_transpose",
    _sample_transpose,
    "y grid",
    [
        lambda g, grid, way: SAMPLE(g, grid, way=way),
        lambda g, y, grid, way: SAMPLE_SLOPE(y, g, grid, way=way),
    ],
    promote="strict",
    signals=True,
    batch=folded(),
)
SAMPLE_SLOPE: Primitive = Primitive(
    "grid_sample_slope",
    _sample_slope,
    "y x grid",
    vjp=lambda g, y, x, grid, way, needs: second_order(
        lambda x, grid: _composite(x, grid, way=way), (g,), y, (x, grid), (False, True), needs
    ),
    promote="strict",
    signals=True,
    batch=folded(),
)
