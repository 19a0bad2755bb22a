"""Give each example a copy of a Tensor created inside ``vmap``, when a mapped value is written to the Tensor."""

from __future__ import annotations

from typing import Any, cast
from weakref import ref

import numpy as np

from ..arrays.devices import backend_of
from ..graph.modes import modes
from ..graph.primitive import Primitive, apply
from ..tensor.mutation import refresh
from ..tensor.storage import Storage, byte_span, enter, share, sharers, storage_of
from ..tensor.tensor import Tensor, new_tensor
from .batched import Batched, snapshot
from .layers import Layer

# A copy in row-major order, one for each example.
REPEAT = Primitive(
    "repeat_for_examples",
    lambda x, size: np.broadcast_to(x, (size, *x.shape)).copy(),
    "x",
    [lambda g: g.sum(axis=0)],
    batch=lambda call: call.looped(),
)


def created_inside(x: Tensor, level: Layer) -> bool:
    """Return whether x's memory was allocated inside ``level``."""
    layer: Any = storage_of(x).created_in
    while layer is not None and layer is not level:
        layer = layer.below
    return layer is level


def spread(x: Tensor, level: Layer) -> bool:
    """Make x, its base and their views mapped Tensors of the level, with a copy of the memory for each example.

    Returns:
        False, without a change, if the memory was not allocated inside the level, or if a view cannot be recreated on
        the copy.
    """
    if not created_inside(x, level):
        return False
    root = x if x._base is None else x._base
    views = [tensor for tensor in sharers(x) if tensor is not root]
    array, backend = root.array, backend_of(root.array)
    offsets = []
    if views:
        low, high = byte_span(array)
        if not array.flags.c_contiguous or type(array) is Batched:
            return False
        for view in views:
            start, end = byte_span(view.array)
            if start < low or end > high or view._base is not root and (view._requires or root._requires):
                return False
            offsets.append(backend.address(view.array) - low)
    above, modes.level = modes.level, level.below
    try:
        memory = cast("Tensor", apply(REPEAT, (snapshot(root),), {"size": level.size}))
        values = []
        for view, offset in zip(views, offsets, strict=True):
            part = backend.strided(
                memory.array,
                offset,
                (level.size, *view.array.shape),
                (array.nbytes, *view.array.strides),
                view.array.dtype,
            )
            value = new_tensor(part)
            share(value, memory, related=view._base is root)
            if view._base is root:
                refresh(value)
            values.append(value)
    finally:
        modes.level = above
    storage = Storage()
    storage.created_in = storage_of(x).created_in
    for tensor, value in zip([root, *views], [memory, *values], strict=True):
        tensor._requires, tensor._node = False, None
        tensor.array = Batched(level, value, True)
        tensor._storage = storage
    if views:
        enter(storage, [root, *views])
        storage.derived = [ref(view) for view in views if view._base is root]
    return True
