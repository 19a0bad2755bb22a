"""Gather, scatter, sort and search."""

from __future__ import annotations

from typing import Any

import numpy as np

from ... import _generated
from ...core.tensor.tensor import Tensor, new_tensor
from ...nn import functional as F
from ..table import Attributes, checked_shape, constant, ints, operator

rg = _generated.toplevel


def _positive(index: Tensor, length: int) -> Tensor:
    return rg.where(index < 0, index + length, index).to(np.int64)


@operator("Gather")
def gather(at: Attributes, x: Tensor, index: Tensor) -> Tensor:
    axis = at("axis", 0) % x.ndim
    places = _positive(index, x.shape[axis])
    if not axis and x.ndim == 2 and x.dtype.kind in "fV":
        return F.embedding(places, x)
    if not index.ndim:
        return rg.select(x, axis, int(places.item()))
    found = rg.index_select(x, axis, places.reshape(-1))
    return found.reshape([*x.shape[:axis], *index.shape, *x.shape[axis + 1 :]])


@operator("GatherElements")
def gather_elements(at: Attributes, x: Tensor, index: Tensor) -> Tensor:
    axis = at("axis", 0) % x.ndim
    return rg.gather(x, axis, _positive(index, x.shape[axis]))


@operator("GatherND")
def gather_nd(at: Attributes, x: Tensor, index: Tensor) -> Tensor:
    batch, depth = at("batch_dims", 0), index.shape[-1]
    lead = np.indices(index.shape[:batch], dtype=np.int64)
    places = [constant(axis.reshape([*axis.shape, *[1] * (index.ndim - 1 - batch)]), np.int64, x) for axis in lead]
    places += [_positive(index[..., k], x.shape[batch + k]) for k in range(depth)]
    return x[tuple(places)]


_REDUCE = {"add": "sum", "mul": "prod", "max": "amax", "min": "amin"}


@operator("ScatterElements", "Scatter")
def scatter_elements(at: Attributes, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    axis, reduction = at("axis", 0) % x.ndim, at("reduction", "none")
    index = _positive(index, x.shape[axis])
    if reduction == "none":
        return rg.scatter(x, axis, index, updates)
    return rg.scatter_reduce(x, axis, index, updates, _REDUCE[reduction], include_self=True)


@operator("ScatterND")
def scatter_nd(at: Attributes, x: Tensor, index: Tensor, updates: Tensor) -> Tensor:
    depth, reduction = index.shape[-1], at("reduction", "none")
    kept = x.shape[depth:]
    strides = [int(np.prod(x.shape[k + 1 : depth], dtype=int)) for k in range(depth)]
    flat = sum((_positive(index[..., k], x.shape[k]) * strides[k] for k in range(depth)), start=0)
    assert isinstance(flat, Tensor)
    rows = flat.reshape(-1, *[1] * len(kept))
    places = rg.broadcast_to(rows, (flat.numel(), *kept))
    base, new = x.reshape(-1, *kept), updates.reshape(flat.numel(), *kept)
    if reduction == "none":
        found = rg.scatter(base, 0, places, new)
    else:
        found = rg.scatter_reduce(base, 0, places, new, _REDUCE[reduction], include_self=True)
    return found.reshape(x.shape)


@operator("TensorScatter")
def tensor_scatter(at: Attributes, cache: Tensor, update: Tensor, starts: Tensor | None = None) -> Tensor:
    axis = at("axis", -2) % cache.ndim
    length, new = cache.shape[axis], update.shape[axis]
    first = np.zeros(cache.shape[0], np.int64) if starts is None else np.asarray(ints(starts))
    places = first[:, None] + np.arange(new)
    if at("mode", "linear") == "circular":
        places = places % length
    shape = [1] * cache.ndim
    shape[0], shape[axis] = places.shape
    index = rg.broadcast_to(constant(places.reshape(shape), np.int64, cache), update.shape)
    return rg.scatter(cache, axis, index, update)


@operator("OneHot")
def one_hot(at: Attributes, index: Tensor, depth: Tensor, values: Tensor) -> Tensor:
    count, axis = int(depth.item()), at("axis", -1)
    checked_shape("OneHot", [*index.shape, count])
    numbers = index.to(np.int64).unsqueeze(axis)
    numbers = rg.where(numbers < 0, numbers + count, numbers)
    shape = [1] * numbers.ndim
    shape[axis] = count
    here = numbers == constant(np.arange(count).reshape(shape), np.int64, index)
    return rg.where(here, values[1], values[0]).to(values.dtype)


@operator("NonZero")
def non_zero(at: Attributes, x: Tensor) -> Tensor:
    return new_tensor(np.stack(np.nonzero(np.atleast_1d(x.array))).astype(np.int64))


@operator("Compress")
def compress(at: Attributes, x: Tensor, condition: Tensor) -> Tensor:
    places = new_tensor(np.flatnonzero(condition.array))
    axis = at("axis")
    return rg.index_select(x.reshape(-1) if axis is None else x, 0 if axis is None else axis, places)


@operator("TopK")
def top_k(at: Attributes, x: Tensor, k: Tensor) -> tuple[Tensor, Tensor]:
    axis, count = at("axis", -1) % x.ndim, int(k.item())
    if not 0 <= count <= x.shape[axis]:
        raise ValueError(f"TopK: k must be at most {x.shape[axis]}, got {count}")
    array = x.array
    # Equal elements are ordered by index, for both largest and smallest.
    keys = array if not at("largest", 1) else -array.astype(np.float64 if array.dtype.kind == "f" else np.int64)
    order = np.argsort(keys, axis=axis, kind="stable").take(range(count), axis)
    places = constant(order, np.int64, x)
    return rg.gather(x, axis, places), places


@operator("ArgMax", "ArgMin")
def argument(at: Attributes, x: Tensor) -> Tensor:
    axis, array = at("axis", 0), x.array
    find = np.argmax if at.type == "ArgMax" else np.argmin
    if at("select_last_index", 0):
        found = array.shape[axis] - 1 - find(np.flip(array, axis), axis=axis)
    else:
        found = find(array, axis=axis)
    return new_tensor(np.asarray(np.expand_dims(found, axis) if at("keepdims", 1) else found, np.int64))


@operator("Unique")
def unique(at: Attributes, x: Tensor) -> Any:
    values, first, inverse, counts = np.unique(
        x.array, return_index=True, return_inverse=True, return_counts=True, axis=at("axis")
    )
    inverse = inverse.reshape(-1)
    if not at("sorted", 1):
        order = np.argsort(first)
        places = np.empty_like(order)
        places[order] = np.arange(len(order))
        axis = at("axis")
        values = values[order] if axis is None else np.take(values, order, axis)
        first, counts, inverse = first[order], counts[order], places[inverse]
    return tuple(new_tensor(np.asarray(part)) for part in (values, first, inverse, counts))


@operator("NonMaxSuppression")
def non_max_suppression(
    at: Attributes, boxes: Tensor, scores: Tensor, most: Tensor | None = None, overlap: Tensor | None = None,
    threshold: Tensor | None = None
) -> Tensor:  # fmt: skip
    limit = 0 if most is None else int(most.item())
    allowed = 0.0 if overlap is None else float(overlap.item())
    b, s = boxes.detach().numpy().astype(np.float64), scores.detach().numpy()
    if at("center_point_box", 0):
        low, high = b[..., :2] - b[..., 2:] / 2, b[..., :2] + b[..., 2:] / 2
    else:
        low, high = np.minimum(b[..., :2], b[..., 2:]), np.maximum(b[..., :2], b[..., 2:])
    area = (high - low).prod(-1)
    found = []
    for n in range(s.shape[0]):
        for c in range(s.shape[1]):
            kept: list[int] = []
            for i in np.argsort(-s[n, c], kind="stable"):
                if len(kept) == limit or threshold is not None and s[n, c, i] <= threshold.item():
                    break
                both = (np.minimum(high[n, kept], high[n, i]) - np.maximum(low[n, kept], low[n, i])).clip(0).prod(-1)
                if not (both / (area[n, kept] + area[n, i] - both) > allowed).any():
                    kept.append(int(i))
            found += [[n, c, i] for i in kept]
    return new_tensor(np.asarray(found, np.int64).reshape(-1, 3))
