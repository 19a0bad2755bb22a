"""Copies and casts of large arrays on several threads, by NumPy's copies of parts; float16 by ``copy_loops.py``."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ....core.arrays import Array
from ....core.arrays.devices import array_module
from ....core.arrays.fp_warnings import silent
from ....core.arrays.layout import LARGE as LARGE
from ....core.arrays.layout import memory_order, order_like, row_major
from ... import WORTH_SHARING, compiled, loop, or_reference
from ...runtime.result_arrays import empty
from ...runtime.threads import in_shares, launch
from .lanes import WORDS

LINE = 16  # minimum number of contiguous elements for a copy line by line
TILE = 128  # side of a tile, in elements, of two dimensions whose memory order differs between the arrays
# Loops that convert half precision, by the dtypes' letters (E is bfloat16), and the words that they convert.
_HALF_LOOPS: dict[str, tuple[str, type, type]] = {
    "fe": ("narrow", np.float32, np.uint16),
    "de": ("narrow_double", np.float64, np.uint16),
    "ef": ("widen", np.uint16, np.float32),
    "ed": ("widen", np.uint16, np.float64),
    "fE": ("narrow_bfloat16", np.uint32, np.uint16),
    "Ef": ("widen_bfloat16", np.uint16, np.uint32),
}


def copied(x: Array) -> Any:
    """Return ``x.copy(order="C")``, by several threads."""
    return _filled(empty(x.shape, x.dtype), x)


def cloned(x: Array) -> Any:
    """Return a copy in x's memory order; in row-major order if elements of x share memory."""
    return _filled(np.empty_like(x, order=order_like(x)), x)


def converted(x: Array, dtype: Any) -> Any:
    """Return a copy in another dtype, in the memory order of ``cloned``."""
    out: Array = np.empty_like(x, dtype, order=order_like(x))
    if x.dtype.char + out.dtype.char not in _HALF_LOOPS or x.flags.forc:
        return _filled(out, x)
    order = memory_order(out)  # the loops convert adjacent numbers
    x = x.transpose(order)
    _filled(out.transpose(order), x if x.flags.c_contiguous else copied(x))
    return out


def joined(xs: Sequence[Array], dim: int) -> Any:
    """Concatenate arrays along ``dim`` in row-major order."""
    if sum([x.size for x in xs]) >= LARGE and all(type(x) is np.ndarray for x in xs):
        before, after, dtype = xs[0].shape[:dim], xs[0].shape[dim + 1 :], xs[0].dtype
        lengths = [x.shape[dim] for x in xs if x.ndim == xs[0].ndim]
        if [x.shape for x in xs] == [(*before, n, *after) for n in lengths] and all(x.dtype == dtype for x in xs):
            out = empty((*before, sum(lengths), *after), dtype)
            stop = 0
            for x, length in zip(xs, lengths, strict=True):
                start, stop = stop, stop + length
                write(out[(*(slice(None),) * dim, slice(start, stop))], x)
            return out
    return row_major(array_module(xs[0]).concatenate(xs, dim))


@or_reference
def write(out: Array, value: Any) -> None:
    """Compute ``out[...] = value`` for an array that broadcasts, or a number."""
    if type(out) is not np.ndarray or out.size < LARGE:
        out[...] = value
        return
    x = np.asarray(value)
    if np.may_share_memory(out, x) or x.ndim > out.ndim:
        out[...] = x
    elif x.size > 1:
        _filled(out, x if x.shape == out.shape else np.broadcast_to(x, out.shape))
    elif out.flags.carray and _are_words(out):
        word: Any = WORDS[out.itemsize]
        number = x.astype(out.dtype).reshape(1).view(word)[0]
        launch(loop("loops.layout.copy_loops", "fill"), out.size, WORTH_SHARING, out.ravel().view(word), number)
    else:
        longest = max(range(out.ndim), key=out.shape.__getitem__)
        parts = np.moveaxis(out, longest, 0)
        in_shares(lambda start, stop: np.copyto(parts[start:stop], x.reshape(()), casting="unsafe"), len(parts), 1)


@or_reference
def _filled(out: Any, x: Any) -> Any:
    """Copy x to ``out`` and return ``out``."""
    if x.flags.c_contiguous and out.flags.c_contiguous:
        _fill_flat(out.ravel(), x.ravel())
    elif x.flags.f_contiguous and out.flags.f_contiguous:
        _fill_flat(out.T.ravel(), x.T.ravel())
    elif _is_transposed(x) and x.dtype == out.dtype and out.flags.c_contiguous and compiled() is not None:
        word = WORDS[x.dtype.itemsize]
        matrices = np.swapaxes(x, -1, -2).reshape(-1, x.shape[-1], x.shape[-2]).view(word)
        results = out.view(word).reshape(-1, *x.shape[-2:])
        total, least = len(results) * x.shape[-2], max(1, WORTH_SHARING // x.shape[-1])
        launch(loop("loops.layout.copy_loops", "transpose"), total, least, matrices, results)
    elif not _fill_lines(out, x):
        _fill_tiles(out, x)
    return out


def _are_words(*arrays: Array) -> bool:
    """Return whether the arrays have one dtype that loops can move as integers."""
    dtype = arrays[0].dtype
    same = all(array.dtype == dtype and array.flags.aligned for array in arrays)
    return same and dtype.itemsize in WORDS and not dtype.hasobject and compiled() is not None


def _is_transposed(x: Array) -> bool:
    """Return whether matrices are in column-major order."""
    return x.ndim > 1 and np.swapaxes(x, -1, -2).flags.c_contiguous and x.dtype.itemsize in WORDS and x.flags.aligned


def _fill_lines(out: Array, x: Array) -> bool:
    """Copy lines; return False unless lines are contiguous in ``out``, and in x contiguous, reversed or one element."""
    item, length, way = x.itemsize, x.shape[-1], x.strides[-1] // x.itemsize
    if not _are_words(x, out) or length < LINE or out.strides[-1] != item or x.strides[-1] not in (item, 0, -item):
        return False
    axes: list[tuple[int, int, int]] = []  # the lengths of axes, and their strides in both arrays
    for count, step, step_out in zip(x.shape[:-1], x.strides, out.strides, strict=False):
        if step_out < 0 or step % item or step_out % item:
            return False
        if count == 1:
            continue
        if axes and axes[-1][1:] == (count * step, count * step_out):
            count *= axes.pop()[0]
        axes.append((count, step, step_out))
    if len(axes) > 3:
        return False
    axes = [(1, 0, 0)] * (3 - len(axes)) + axes
    counts, steps, steps_out = zip(*axes, strict=True)
    begin = -sum((count - 1) * min(0, step) for count, step in zip(counts, steps, strict=True)) // item
    memory = x[tuple([slice(None, None, -1 if step < 0 else 1) for step in x.strides])]
    shape = *counts[1:], length
    places = tuple([step // item for step in steps]), tuple([step // item for step in steps_out])
    total, least = x.size // length, max(1, WORTH_SHARING // length)
    words = _words(memory), _words(out)
    launch(loop("loops.layout.copy_loops", "lines"), total, least, *words, begin, way, shape, places)
    return True


def _words(x: Any) -> Any:
    """Return the memory from the first to the last element of an array without negative strides."""
    extent = sum((count - 1) * step for count, step in zip(x.shape, x.strides, strict=True)) // x.itemsize + 1
    return as_strided(x, (extent,), (x.itemsize,)).view(WORDS[x.itemsize])


def _fill_flat(out: Any, x: Any) -> None:
    if _are_words(x, out):
        word = WORDS[x.itemsize]
        launch(loop("loops.layout.copy_loops", "flat"), x.size, WORTH_SHARING, x.view(word), out.view(word))
        return
    if (found := _HALF_LOOPS.get(x.dtype.char + out.dtype.char)) and x.flags.aligned and compiled() is not None:
        name, old, new = found
        launch(loop("loops.layout.copy_loops", name), x.size, WORTH_SHARING, x.view(old), out.view(new))
        return

    def share(start: int, stop: int) -> None:
        with silent():
            np.copyto(out[start:stop], x[start:stop], casting="unsafe")

    in_shares(share, x.size, WORTH_SHARING)


def _fill_tiles(out: Array, x: Array) -> None:
    """Copy tiles of the two dimensions with the smallest strides in x and in ``out``, so that both fit in the cache."""
    steps = [[abs(step) or inf for step in array.strides] for array in (out, x)]  # ignore dimensions with stride 0
    near, far = [min(range(x.ndim), key=found.__getitem__) for found in steps]
    longest = max(range(x.ndim), key=x.shape.__getitem__)
    step = TILE if near != far else x.shape[near]

    def share(start: int, stop: int) -> None:
        place = [slice(None)] * x.ndim
        place[longest] = slice(start, stop)
        part, target = x[tuple(place)], out[tuple(place)]
        tile = [slice(None)] * x.ndim
        with silent():
            for i in range(0, part.shape[near], step):
                tile[near] = slice(i, i + step)
                for j in range(0, part.shape[far] if far != near else 1, step):
                    if far != near:
                        tile[far] = slice(j, j + step)
                    np.copyto(target[tuple(tile)], part[tuple(tile)], casting="unsafe")

    in_shares(share, x.shape[longest], 1)
