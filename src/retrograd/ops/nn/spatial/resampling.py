"""Linear maps along single axes, for adaptive average pooling and interpolation.

Each output of such a map is a weighted sum of a few inputs. The transpose is a map of the same kind, so RESAMPLE is its
own derivative.
"""

from __future__ import annotations

from cmath import isfinite
from functools import cached_property, lru_cache
from math import prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.arrays.dtypes import DType
from ....core.arrays.summation import total_of
from ....core.graph.primitive import Primitive
from ....kernels import or_reference
from ....kernels.loops.images import resampling
from ...table.batching import folded

FASTER_THAN_LOOPS = 1024  # up to this number of matrix elements, BLAS is faster than the compiled loop
JOINT = 1 << 12  # up to this number of elements, one matrix for all axes is faster than a matrix per axis
DENSE = 1 << 18  # up to this number of elements, a map is applied as a dense matrix: BLAS is faster than gathering


class AxisMap:
    """``out[i] = sum_j weight[j, i] x[index[j, i]]`` along an axis of length ``size``.

    ``index`` and ``weight`` are ``(terms, outputs)``; without ``weight`` there is one term, of weight 1. With
    ``counts`` output i has only the first ``counts[i]`` terms; padding terms have weight 0.
    """

    def __init__(
        self, index: np.ndarray, weight: np.ndarray | None, size: int, counts: np.ndarray | None = None
    ) -> None:
        self.index = index
        self.weight = weight
        self.size = size
        self.counts = counts
        self.out = index.shape[1]  # the number of outputs

    @cached_property
    def terms(self) -> tuple[np.ndarray, np.ndarray | None]:
        """Index and weight without padding terms, since 0 times infinity is NaN.

        Padding terms repeat the first term of their output and share its weight.
        """
        if self.counts is None or self.weight is None:
            return self.index, self.weight
        spare = len(self.index) - self.counts
        beyond = np.arange(len(self.index))[:, None] >= self.counts
        share = self.weight[0] / 2.0 ** np.ceil(np.log2(spare + 1))  # a power of two divides without rounding
        weight = np.where(beyond, share, self.weight)
        weight[0] -= spare * share
        return np.where(beyond, self.index[0], self.index), weight

    @cached_property
    def unread(self) -> np.ndarray | None:
        """The outputs without terms, which are 0."""
        return None if self.counts is None or self.counts.all() else np.flatnonzero(self.counts == 0)

    @cached_property
    def merged_weights(self) -> np.ndarray:
        """The weights; if an output reads an input twice, at a border, the first term gets the sum."""
        assert self.weight is not None
        weights = self.weight.copy()
        for later in range(1, len(weights)):
            for earlier in range(later):
                same = self.index[later] == self.index[earlier]
                weights[earlier] += np.where(same, weights[later], 0)
                weights[later][same] = 0
        return weights

    @cached_property
    def matrix(self) -> np.ndarray:
        """The map as a matrix ``(outputs, inputs)``."""
        matrix = np.zeros((self.out, self.size))
        rows = np.broadcast_to(np.arange(self.out), self.index.shape)
        np.add.at(matrix, (rows, self.index), 1.0 if self.weight is None else self.weight)
        return matrix

    @cached_property
    def transposed(self) -> AxisMap:
        """The transposed map, from cotangents of outputs to those of inputs."""
        weight = np.ones(self.index.shape) if self.weight is None else self.weight
        used = weight != 0
        targets = self.index[used]
        sources = np.broadcast_to(np.arange(self.out), self.index.shape)[used]
        order = np.argsort(targets, kind="stable")
        targets, sources, values = targets[order], sources[order], weight[used][order]
        counts = np.bincount(targets, minlength=self.size)
        term = np.arange(len(targets)) - np.repeat(np.cumsum(counts) - counts, counts)
        shape = (max(1, int(counts.max(initial=0))), self.size)
        index, back = np.zeros(shape, np.intp), np.zeros(shape)
        index[term, targets] = sources
        back[term, targets] = values
        result = AxisMap(index, back, self.out, counts)
        result.__dict__["transposed"] = self
        return result

    def as_matrix(self, x: Array, axis: int) -> Array:
        """Apply the map along ``axis`` of x as one matrix product."""
        matrix = self.matrix.astype(x.dtype, copy=False)
        if axis == x.ndim - 1:
            return x.reshape((-1, self.size)).dot(matrix.T).reshape((*x.shape[:-1], self.out))
        shape = x.shape
        rest = prod(shape[axis + 1 :])
        return np.matmul(matrix, x.reshape((-1, self.size, rest))).reshape(
            (*shape[:axis], self.out, *shape[axis + 1 :])
        )

    def by_terms(self, x: Array, axis: int) -> Array:
        """Apply the map along ``axis`` of x term by term, so that outputs depend only on their own inputs."""
        xp = array_module(x)
        indices, weights = self.terms
        if weights is None:
            return xp.take(x, xp.asarray(indices[0]), axis=axis)
        shape = (self.out,) + (1,) * (x.ndim - 1 - axis)
        total: Any = None
        for index, weight in zip(indices, weights):
            term = xp.take(x, xp.asarray(index), axis=axis)
            term *= xp.asarray(weight.astype(x.dtype, copy=False).reshape(shape))
            total = term if total is None else xp.add(total, term, out=total)
        return total


class _Plan:
    """The maps along single axes, counted from the last, in the order in which to apply them."""

    def __init__(self, maps: tuple[AxisMap | None, ...]) -> None:
        steps = [(axis - len(maps), linear) for axis, linear in enumerate(maps) if linear is not None]
        # Shrink axes first and grow axes last, so that intermediate arrays are small.
        self.steps = sorted(steps, key=lambda step: step[1].out / max(step[1].size, 1))
        self.empty = any(not linear.out for _, linear in steps)
        self.weighted = any(linear.weight is not None for _, linear in steps)
        # the number of elements of the largest matrix
        self.largest = max([linear.out * linear.size for _, linear in steps], default=0)
        self.unread = [(axis, linear.unread) for axis, linear in steps if linear.unread is not None]


_plan = lru_cache(maxsize=256)(_Plan)


@lru_cache(maxsize=256)
def _joint_matrix(
    maps: tuple[AxisMap | None, ...], size: tuple[int, ...], dtype: DType
) -> tuple[np.ndarray | None, tuple[int, ...]]:
    """Return all maps as one matrix ``(inputs, outputs)``, None if it is large, and the size of the result."""
    out = tuple([length if linear is None else linear.out for linear, length in zip(maps, size, strict=True)])
    if prod(size) * prod(out) > JOINT:
        return None, out
    matrix = np.ones((1, 1))
    for linear, length in zip(maps, size, strict=True):
        matrix = np.kron(matrix, np.eye(length) if linear is None else linear.matrix.T)
    return matrix.astype(dtype), out


def resampled(x: Array, maps: tuple[AxisMap | None, ...]) -> Array:
    """Apply maps along the last axes of x; None leaves an axis unchanged."""
    plan, dtype = _plan(maps), x.dtype
    if not plan.steps:
        return x.copy()
    if not x.size or plan.empty:
        shape = list(x.shape)
        for axis, linear in plan.steps:
            shape[axis] = linear.out
        return array_module(x).zeros(tuple(shape), dtype=dtype)
    out = _applied(x, maps, plan) if dtype.char != "e" else _applied(x.astype(np.float32), maps, plan).astype(dtype)
    for axis, unread in plan.unread:
        out[(..., array_module(out).asarray(unread)) + (slice(None),) * (-1 - axis)] = 0
    return out


@or_reference
def _applied(x: Array, maps: tuple[AxisMap | None, ...], plan: _Plan) -> Array:
    looped = resampling.takes(x, maps)
    if plan.weighted and plan.largest <= (FASTER_THAN_LOOPS if looped else DENSE) and array_module(x) is np:
        matrix, size = _joint_matrix(maps, x.shape[-len(maps) :], x.dtype)
        if matrix is None:
            out = x
            for axis, linear in plan.steps:
                out = linear.as_matrix(out, x.ndim + axis)
        else:
            out = x.reshape((-1, len(matrix))).dot(matrix).reshape(x.shape[: -len(maps)] + size)
        # A matrix product would propagate an infinity or NaN to whole rows.
        if isfinite(total_of(out)):
            return out
    if looped:
        return resampling.resample(x, maps)
    for axis, linear in plan.steps:
        x = linear.by_terms(x, x.ndim + axis)
    return x


def in_fixed_point(x: Array, maps: tuple[AxisMap | None, ...]) -> Array:
    """Apply maps to a uint8 image as Pillow and PyTorch do: rows first, each pass rounded to uint8."""
    xp = array_module(x)
    for axis, linear in reversed(list(zip(range(x.ndim - len(maps), x.ndim), maps))):
        if linear is None or linear.weight is None:
            continue
        merged = linear.merged_weights
        bits, largest = 0, float(merged.max())
        while bits < 22 and int(0.5 + largest * (1 << (bits + 1))) < 1 << 15:
            bits += 1
        weights = np.trunc(merged * (1 << bits) + np.copysign(0.5, merged)).astype(np.int64)
        shape = (linear.out,) + (1,) * (x.ndim - 1 - axis)
        total: Any = 1 << (bits - 1)
        for index, weight in zip(linear.index, weights):
            total = total + xp.take(x, xp.asarray(index), axis=axis) * xp.asarray(weight.reshape(shape))
        x = xp.clip(total >> bits, 0, 255).astype(np.uint8)
    return x.copy() if all(linear is None for linear in maps) else x


RESAMPLE: Primitive = Primitive(
    "resample",
    resampled,
    "x",
    [lambda g, maps: RESAMPLE(g, maps=tuple([None if linear is None else linear.transposed for linear in maps]))],
    signals=True,
    piecewise_linear=True,
    batch=folded(),
)
