"""Normalization by compiled loops: of rows, of groups of channels, and of channels over the batch.

The common reference is in ops/nn/normalization/fused.py. Each kind has two functions: one computes the result, mean and
1 / sqrt(var + eps) from x, weight, bias and eps, the other the gradients of x, weight and bias.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ... import WORTH_SHARING, loop, shaped, shortest
from ...runtime.result_arrays import empty
from ...runtime.threads import launch

BLOCK = 64  # number of rows whose contributions to the gradients of weight and bias one thread sums, in order
SHORTEST = 16  # minimum elements of one channel of one image for which loops along these elements are fast
# For batches with fewer elements, even slow loops are faster than NumPy, whose overhead dominates.
FEW = 1 << 13


def _or(value: Any, number: float, *shape: int) -> Any:
    """Return a weight or bias in a shape, by default filled with the neutral number."""
    if value is None:
        return _constant(number, shape)
    array = shaped(value, shape)
    return array if array.flags.c_contiguous else np.ascontiguousarray(array)


@lru_cache(maxsize=64)
def _constant(number: float, shape: tuple[int, ...]) -> Array:
    array = np.full(shape, number, np.float32)
    array.flags.writeable = False
    return array


class Rows:
    """Normalization over the last axes, with a weight for each element along them."""

    def __init__(self, axes: int, centred: bool) -> None:
        self.axes = axes
        self.centred = centred

    def normalize(
        self, x: Array, w: Array | None, b: Array | None, eps: float, plus: Array | None = None
    ) -> tuple[Any, Any, Any]:
        """Normalize ``x``, to which ``plus`` is added in place before, if given."""
        kept, width = x.shape[: -self.axes], prod(x.shape[-self.axes :])
        rows, shape = (prod(kept), width), kept + (1,) * self.axes
        out, mean, rstd = empty(x.shape, np.float32), empty(shape, np.float32), empty(shape, np.float32)
        found = shaped(out, rows), shaped(mean, (rows[0], 1)), shaped(rstd, (rows[0], 1))
        given = shaped(x, rows), self._rows(plus, rows), _or(w, 1, width), _or(b, 0, width), float(eps), self.centred
        launch(loop("loops.statistics.norm_loops", "layer_norm"), rows[0], shortest(width), *given, *found)
        return out, mean if self.centred else None, rstd

    def normalize_backward(
        self,
        dy: Array,
        x: Array,
        w: Array | None,
        mean: Array,
        rstd: Array,
        bias: bool = True,
        total: Array | None = None,
        y: Array | None = None,
        b: Array | None = None,
    ) -> tuple[Array, ...]:
        """Return the gradients of x, the weight and, with ``bias``, the bias.

        The gradient of x is added to ``total``, if given, and the result of ``normalize`` is written to ``y``.
        """
        shape = x.shape[-self.axes :]
        width = prod(shape)
        rows = rstd.size, width
        rstd = shaped(rstd, (rows[0], 1))
        mean = shaped(mean, (rows[0], 1)) if self.centred else _constant(0, (rows[0], 1))
        dx = empty(x.shape, np.float32) if total is None else total
        blocks = -(-rows[0] // BLOCK)
        sums = empty((1 + bias, blocks, width), float)
        given = shaped(dy, rows), shaped(x, rows), _or(w, 1, width), mean, rstd, _or(b, 0, width), self.centred
        found = shaped(dx, rows), sums[0], sums[-1, :, : bias * width], self._rows(y, rows)
        least = max(1, shortest(width) // BLOCK)
        launch(
            loop("loops.statistics.norm_loops", "layer_norm_backward"), blocks, least, *given, total is not None, *found
        )
        by_parameters = (sums[:, 0] if blocks == 1 else np.add.reduce(sums, 1)).astype(np.float32)
        return dx, *[shaped(gradient, shape) for gradient in by_parameters]

    @staticmethod
    def _rows(x: Array | None, rows: tuple[int, int]) -> Array:
        """Return an array as rows, and None as no rows."""
        return _constant(0, (0, rows[1])) if x is None else shaped(x, rows)

    def normalize_second(
        self, g: tuple[Any, Any, Any], dy: Array, x: Array, w: Array, mean: Array, rstd: Array
    ) -> tuple[Any, Any, Any]:
        """Return the gradients of dy, x and the weight from the cotangents of ``normalize_backward``'s results."""
        width = prod(x.shape[x.ndim - self.axes :])
        gx, gw, gb = g
        flat, rstd = x.reshape(-1, width), rstd.reshape(-1, 1)
        mean = mean.reshape(-1, 1) if self.centred else _constant(0, rstd.shape)
        by_dy, by_x = empty(flat.shape, np.float32), empty(flat.shape, np.float32)
        by_w = empty((-(-len(flat) // BLOCK), width), float)
        given = _or(gx, 0, *flat.shape), _or(gw, 0, width), _or(gb, 0, width), _or(dy, 0, *flat.shape), flat
        args = *given, _or(w, 1, width), mean, rstd, self.centred, by_dy, by_x, by_w
        launch(
            loop("loops.statistics.norm_loops", "layer_norm_second"), len(by_w), max(1, shortest(width) // BLOCK), *args
        )
        shape = x.shape[x.ndim - self.axes :]
        return by_dy.reshape(x.shape), by_x.reshape(x.shape), by_w.sum(axis=0).astype(np.float32).reshape(shape)


rows_of = lru_cache(Rows)


class Groups:
    """Normalization over all elements of each group of channels of each example, with a weight per channel."""

    def __init__(self, groups: int, statistics: tuple[int, ...]) -> None:
        self.groups = groups
        self.statistics = statistics  # the shape of mean and 1 / sqrt(var + eps)

    def _laid_out(self, x: Array) -> Array:
        return x.reshape(len(x) * self.groups, x.shape[1] // self.groups, prod(x.shape[2:]))

    def normalize(self, x: Array, w: Array | None, b: Array | None, eps: float) -> tuple[Array, Array, Array]:
        rows = self._laid_out(x)
        shape = self.groups, rows.shape[1]
        out, (mean, rstd) = empty(rows.shape, np.float32), empty((2, len(rows)), np.float32)
        args = rows, _or(w, 1, *shape), _or(b, 0, *shape), float(eps), out, mean, rstd
        launch(
            loop("loops.statistics.norm_loops", "group_norm"), len(rows), max(1, WORTH_SHARING // rows[0].size), *args
        )
        return out.reshape(x.shape), mean.reshape(self.statistics), rstd.reshape(self.statistics)

    def normalize_backward(self, dy: Array, x: Array, w: Array, mean: Array, rstd: Array) -> tuple[Array, Array, Array]:
        rows, channels = self._laid_out(x), x.shape[1]
        dx = empty(rows.shape, np.float32)
        sums = empty((2, *rows.shape[:2]), float)
        args = self._laid_out(dy), rows, _or(w, 1, self.groups, rows.shape[1]), mean.ravel(), rstd.ravel()
        least = max(1, WORTH_SHARING // rows[0].size)
        launch(loop("loops.statistics.norm_loops", "group_norm_backward"), len(rows), least, *args, dx, *sums)
        dw, db = sums.reshape(2, len(x), channels).sum(axis=1).astype(np.float32)
        return dx.reshape(x.shape), dw, db


class Channels:
    """Normalization over the batch and all elements of each channel, with a weight per channel; bfloat16, too."""

    def normalize(self, x: Array, w: Array, b: Array, eps: float, moments: Any = None) -> tuple[Array, Array, Array]:
        channels, out = x.shape[1], empty(x.shape, x.dtype)
        mean, rstd = np.empty(channels, np.float32), np.empty(channels, np.float32)
        weights = _or(w, 1, channels), _or(b, 0, channels)
        _over_channels(
            "channel_norm", x, *(moments or channel_moments(x)), float(eps), *weights, _planes(out), mean, rstd
        )
        shape = (1, channels) + (1,) * (x.ndim - 2)
        return out, mean.reshape(shape), rstd.reshape(shape)

    def maxima(
        self, x: Array, w: Array | None, b: Array | None, eps: float, moments: tuple[Array, Array] | None
    ) -> tuple[Array, Array, Array, Array]:
        """Return the maxima of adjacent 2 x 2 windows of the result, their winners, the mean and 1 / deviation."""
        channels, shape = x.shape[1], (*x.shape[:2], x.shape[2] // 2, x.shape[3] // 2)
        out, winners = empty(shape, x.dtype), empty(shape, np.uint8)
        mean, rstd = np.empty(channels, np.float32), np.empty(channels, np.float32)
        given = *(moments or channel_moments(x)), float(eps), _or(w, 1, channels), _or(b, 0, channels)
        _over_channels("channel_norm_max", x, *given, _bits(out), winners, mean, rstd)
        return out, winners, mean.reshape(1, channels, 1, 1), rstd.reshape(1, channels, 1, 1)

    def maxima_backward(
        self, g: Array, winners: Array, x: Array, w: Array | None, mean: Array, rstd: Array
    ) -> tuple[Array, Array, Array]:
        """Return the gradients of x, weight and bias from the cotangent of ``maxima``."""
        channels, dx = x.shape[1], empty(x.shape, x.dtype)
        dw, db = np.empty(channels), np.empty(channels)
        args = mean.ravel(), rstd.ravel(), _or(w, 1, channels), _planes(dx), dw, db
        _over_channels("channel_norm_max_backward", x, _bits(g), winners, *args)
        return dx, dw.astype(np.float32), db.astype(np.float32)

    def normalize_backward(self, dy: Any, x: Array, w: Array, mean: Any, rstd: Any) -> tuple[Any, Any, Any]:
        channels, dx = x.shape[1], empty(x.shape, x.dtype)
        dw, db = np.empty(channels), np.empty(channels)
        args = mean.ravel(), rstd.ravel(), _or(w, 1, channels), _planes(dx), dw, db
        _over_channels("channel_norm_backward", dy, _planes(x), *args)
        return dx, dw.astype(np.float32), db.astype(np.float32)


CHANNELS = Channels()


def along_channels(x: Array) -> bool:
    """Return whether the loops over channels are faster than NumPy for an array (N, C, ...)."""
    return x.size < FEW or prod(x.shape[2:]) >= SHORTEST


def channel_moments(x: Array, running: tuple[Array, Array] | None = None, momentum: float = 0.0) -> tuple[Array, Array]:
    """Return the mean and the sum of squared deviations per channel, in double precision.

    The float32 ``running`` mean and variance are updated to ``(1 - momentum) * running + momentum * statistic``, with
    the unbiased variance.
    """
    mean, squares = np.empty(x.shape[1]), np.empty(x.shape[1])
    none = _constant(0, (0,))
    _over_channels("channel_moments", x, mean, squares, *(running or (none, none)), float(momentum))
    return mean, squares


def channel_sums(x: Array) -> Any:
    """Return the sum over all axes but the channels."""
    out = np.empty(x.shape[1], np.float32)
    _over_channels("channel_sums", x, out)
    return out


def _bits(x: Array) -> Array:
    return x.view(np.uint16) if x.itemsize == 2 else x


def _planes(x: Array) -> Array:
    shape = x.shape
    return _bits(x if len(shape) == 3 else x.reshape(*shape[:2], prod(shape[2:])))


def _over_channels(name: str, x: Array, *args: Any) -> None:
    least = max(1, WORTH_SHARING * x.shape[1] // x.size)
    launch(loop("loops.statistics.norm_loops", name), x.shape[1], least, _planes(x), *args)
