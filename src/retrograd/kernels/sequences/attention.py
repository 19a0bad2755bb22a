"""Attention by compiled loops, which read heads where they lie in memory.

The references, of the same signatures, stand in ops/nn/attention/scaled_dot_product.py.
"""

from __future__ import annotations

from functools import lru_cache
from math import prod
from typing import Any

import numpy as np

from .. import USEFUL, loop, multiplies
from ..machine.threads import launch

NO_MASK, CHOOSING, ADDED = 0, 1, 2  # what a mask does: nothing, choose (bool), be added

MANY = 1 << 5  # scores from which the loops gain more than their call costs


def takes(q: Any, k: Any, v: Any, mask: Any) -> bool:
    """Whether the loops are to be used: for enough scores, of float32 or float64 in NumPy's memory."""
    return (
        type(q) is type(k) is type(v) is np.ndarray
        and (mask is None or type(mask) is np.ndarray)
        and q.dtype.char in "fd"
        and q.size * k.shape[-2] >= MANY * q.shape[-1] > 0
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
    """Fill the output, and of each row of scores the maximum and the sum of exponentials."""
    q, k, v = map(_by_rows, (q, k, v))
    mask, keep = _over_columns(mask, k.shape[-2]), _over_columns(keep, k.shape[-2])
    table = _problems((q, k, v, mask, keep, out, top, total), out.shape[:-2])
    form = _form(q, k, v, out, mask, keep)
    _run("attention", table, form, causal, q.dtype.type(scale), q.dtype.type(1 - dropout_p))


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
    """Fill the gradients of q, k and v, which have all leading axes."""
    q, k, v, out, dout = map(_by_rows, (q, k, v, out, dout))
    top, total = np.ascontiguousarray(top), np.ascontiguousarray(total)
    mask, keep = _over_columns(mask, k.shape[-2]), _over_columns(keep, k.shape[-2])
    table = _problems((q, k, v, mask, keep, out, top, total, dout, dq, dk, dv), dq.shape[:-2])
    form = _form(q, k, v, out, mask, keep, dout, dq, dk, dv)
    _run("attention_backward", table, form, causal, q.dtype.type(scale), q.dtype.type(1 - dropout_p))


def second(
    g: tuple[Any, Any, Any],
    dout: Any,
    q: Any,
    k: Any,
    v: Any,
    mask: Any,
    keep: Any,
    top: Any,
    total: Any,
    by_dout: Any,
    by_q: Any,
    by_k: Any,
    by_v: Any,
    scale: float,
    causal: bool,
    dropout_p: float,
) -> None:
    """Fill what the rule of ``backward`` makes of the cotangents of dq, dk and dv; all have all leading axes."""
    q, k, v, dout, gq, gk, gv = map(_by_rows, (q, k, v, dout, *g))
    top, total = np.ascontiguousarray(top), np.ascontiguousarray(total)
    mask, keep = _over_columns(mask, k.shape[-2]), _over_columns(keep, k.shape[-2])
    others = gq, gk, gv, by_q, by_k, by_v, by_dout
    table = _problems((q, k, v, mask, keep, dout, top, total, *others), by_q.shape[:-2])
    form = _form(q, k, v, dout, mask, keep, *others)
    _run("attention_second", table, form, causal, q.dtype.type(scale), q.dtype.type(1 - dropout_p))


def _by_rows(x: Any) -> Any:
    """The array itself where BLAS can read its matrices, else a copy."""
    step, along = x.strides[-2:]
    size = x.itemsize
    fits = along == size and step >= size * x.shape[-1] and not step % size and x.flags.aligned
    return x if fits else np.ascontiguousarray(x)


def _over_columns(mask: Any, columns: int) -> Any:
    """A mask with all columns, one beside the other."""
    if mask is None:
        return None
    if mask.shape[-1] != columns:
        mask = np.broadcast_to(mask, (*mask.shape[:-1], columns))
    return mask if mask.strides[-1] == mask.itemsize and mask.flags.aligned else np.ascontiguousarray(mask)


def _problems(arrays: tuple[Any, ...], lead: tuple[int, ...]) -> tuple[Any, Any]:
    """The arrays' own addresses, where the loop finds those of their numbers, and per problem how far its matrices lie
    from these; whatever for None.
    """
    first = arrays[0]
    ids = np.array([id(first if x is None else x) for x in arrays], np.int64)
    return ids, _offsets(lead, tuple([None if x is None else (x.shape[:-2], x.strides[:-2]) for x in arrays]))


@lru_cache(16)
def _offsets(lead: tuple[int, ...], axes: tuple[tuple[tuple[int, ...], tuple[int, ...]] | None, ...]) -> Any:
    steps = [[0] * len(lead) if own is None else _steps_of(*own, len(lead)) for own in axes]
    places = np.indices(lead, np.int64).reshape(len(lead), prod(lead)).T
    return np.ascontiguousarray(places @ np.array(steps, np.int64).T)


def _steps_of(lengths: tuple[int, ...], strides: tuple[int, ...], axes: int) -> list[int]:
    """How far neighbours along each leading axis lie apart: 0 where there is one for all."""
    own = [step if length > 1 else 0 for length, step in zip(lengths, strides, strict=True)]
    return [0] * (axes - len(own)) + own


def _form(q: Any, k: Any, v: Any, out: Any, mask: Any, keep: Any, *others: Any) -> tuple[int, ...]:
    kind = NO_MASK if mask is None else CHOOSING if mask.dtype == np.bool_ else ADDED
    lengths = q.shape[-2], k.shape[-2], q.shape[-1], v.shape[-1]
    masks = kind, _step(mask), 0 if keep is None else keep.strides[-2]
    steps = [x.strides[-2] // x.itemsize for x in (q, k, v, out)]
    return (*lengths, *steps, *masks, *[x.strides[-2] // x.itemsize for x in others])


def _step(mask: Any) -> int:
    return 0 if mask is None or mask.shape[-2] == 1 else mask.strides[-2]


def _run(name: str, table: tuple[Any, Any], form: tuple[int, ...], *numbers: Any) -> None:
    least = max(1, USEFUL // (form[0] * form[1]))
    launch(loop("sequences.attention_loops", name), len(table[1]), least, *table, form, *numbers)
