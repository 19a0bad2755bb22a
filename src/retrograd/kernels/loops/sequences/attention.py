"""Attention by compiled loops, which read heads in place, without a copy.

The references, with the same signatures, are in ops/nn/attention/scaled_dot_product.py.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from ....core.arrays import Array
from ... import USEFUL, loop, multiplies
from ...runtime.levels import multiplies_bfloat16
from ...runtime.threads import launch, launch_products

NO_MASK, CHOOSING, ADDED = 0, 1, 2  # kinds of masks: none, bool, added to the scores

PAIRED = 1 << 10  # minimum number of scores for which products of pairs save more time than packing costs
MANY = 1 << 5  # minimum number of scores for which the loops save more time than their call costs


def takes(q: Array, k: Array, v: Array, mask: Array | None) -> bool:
    """Return whether to use the loops: for NumPy arrays with enough scores, of float32 or float64."""
    return (
        type(q) is type(k) is type(v) is np.ndarray
        and (mask is None or type(mask) is np.ndarray)
        and q.dtype.char in "fd"
        and q.size * k.shape[-2] >= MANY * q.shape[-1] > 0
        and multiplies()
    )


def takes_pairs(q: Array, k: Array, v: Array, mask: Array | None) -> bool:
    """Return whether to use the loops that multiply pairs on these arrays of bfloat16, with equal leading axes."""
    return (
        type(q) is type(k) is type(v) is np.ndarray
        and (mask is None or type(mask) is np.ndarray)
        and q.dtype.char == k.dtype.char == v.dtype.char == "E"
        and q.shape[:-2] == k.shape[:-2] == v.shape[:-2]
        and q.shape[-1] % 2 == v.shape[-1] % 2 == 0
        and q.size * k.shape[-2] >= PAIRED * q.shape[-1] > 0
        and multiplies_bfloat16()
        and multiplies()
    )


def forward(
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    keep: Any,
    out: Any,
    top: Any,
    total: Any,
    scale: float,
    causal: bool,
    dropout_p: float,
) -> None:
    """Fill the output, and the maximum and sum of exponentials of each row of scores."""
    q, k, v = _by_rows(q), _by_rows(k), _by_rows(v)
    mask, keep = _over_columns(mask, k), _over_columns(keep, k)
    _run("attention", (q, k, v, mask, keep, out, top, total), out.shape[:-2], scale, causal, dropout_p)


def backward(
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    keep: Any,
    out: Any,
    top: Any,
    total: Any,
    dq: Any,
    dk: Any,
    dv: Any,
    scale: float,
    causal: bool,
    dropout_p: float,
) -> None:
    """Fill dq, dk and dv, the gradients of q, k and v; their leading axes are not broadcast."""
    q, k, v, out, dout = map(_by_rows, (q, k, v, out, dout))
    top, total = np.ascontiguousarray(top), np.ascontiguousarray(total)
    mask, keep = _over_columns(mask, k), _over_columns(keep, k)
    arrays = q, k, v, mask, keep, out, top, total, dout, dq, dk, dv
    _run("attention_backward", arrays, dq.shape[:-2], scale, causal, dropout_p)


def second(
    g: tuple[Any, Any, Any],
    dout: Array,
    q: Array,
    k: Array,
    v: Array,
    mask: Any,
    keep: Any,
    top: Array,
    total: Array,
    by_dout: Array,
    by_q: Array,
    by_k: Array,
    by_v: Array,
    scale: float,
    causal: bool,
    dropout_p: float,
) -> None:
    """Fill the gradients of ``backward``'s inputs for cotangents of dq, dk and dv; no leading axis is broadcast."""
    q, k, v, dout, gq, gk, gv = map(_by_rows, (q, k, v, dout, *g))
    top, total = np.ascontiguousarray(top), np.ascontiguousarray(total)
    mask, keep = _over_columns(mask, k), _over_columns(keep, k)
    arrays = q, k, v, mask, keep, dout, top, total, gq, gk, gv, by_q, by_k, by_v, by_dout
    _run("attention_second", arrays, by_q.shape[:-2], scale, causal, dropout_p)


def _by_rows(x: Array) -> Array:
    """Return the array if BLAS can read its matrices, otherwise a copy."""
    step, along = x.strides[-2:]
    size = x.itemsize
    fits = along == size and step >= size * x.shape[-1] and not step % max(size, 4) and x.flags.aligned
    return x if fits else np.ascontiguousarray(x)


def _over_columns(mask: Any, k: Any) -> Any:
    """Return a mask that is broadcast to all columns and contiguous along them."""
    if mask is None:
        return None
    columns = k.shape[-2]
    if mask.shape[-1] != columns:
        mask = np.broadcast_to(mask, (*mask.shape[:-1], columns))
    return mask if mask.strides[-1] == mask.itemsize and mask.flags.aligned else np.ascontiguousarray(mask)


def _run(
    name: str, arrays: tuple[Any, ...], lead: tuple[int, ...], scale: float, causal: bool, dropout_p: float
) -> None:
    """Launch a loop on all problems.

    The loop gets the addresses of array objects, from which it reads data pointers (any object for None), and strides.
    """
    q, mask = arrays[0], arrays[3]
    kind = NO_MASK if mask is None else CHOOSING if mask.dtype == np.bool_ else ADDED
    axes = tuple([None if x is None else (x.shape, x.strides) for x in arrays])
    offsets, form = _layout(lead, axes, kind, q.itemsize)
    addresses = tuple([id(q if x is None else x) for x in arrays])
    least = max(1, USEFUL // (form[0] * form[1]))
    number, module = (np.float32, "attention_pairs_loops") if q.itemsize == 2 else (q.dtype.type, "attention_loops")
    work = loop(f"loops.sequences.{module}", name)
    run = launch_products if name == "attention_second" else launch  # the others multiply without BLAS
    run(work, len(offsets), least, addresses, offsets, form, causal, number(scale), number(1 - dropout_p))


Axes = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides of an array


@lru_cache(16)
def _layout(
    lead: tuple[int, ...], axes: tuple[Axes | None, ...], kind: int, itemsize: int
) -> tuple[Any, tuple[int, ...]]:
    """Return the offsets of each problem's matrices, and the form of all problems."""
    steps = [[0] * len(lead) if own is None else _steps_of(*own, len(lead)) for own in axes]
    places = np.indices(lead, np.int64).reshape(len(lead), prod(lead)).T
    offsets = np.ascontiguousarray(places @ np.array(steps, np.int64).T)
    (q, _), (k, _), (v, _), mask, keep = [own or ((), ()) for own in axes[:5]]
    lengths = q[-2], k[-2], q[-1], v[-1]
    masks = kind, 0 if kind == NO_MASK or mask[0][-2] == 1 else mask[1][-2], keep[1][-2] if keep[1] else 0
    rows = [own[1][-2] // itemsize for own in (*axes[:3], *axes[5:6], *axes[8:]) if own is not None]
    return offsets, (*lengths, *rows[:4], *masks, *rows[4:])


def _steps_of(lengths: tuple[int, ...], strides: tuple[int, ...], axes: int) -> list[int]:
    """Return the strides along the leading axes: 0 for axes that broadcast."""
    own = [step if length > 1 else 0 for length, step in zip(lengths[:-2], strides[:-2], strict=True)]
    return [0] * (axes - len(own)) + own
