"""Find results of a traced call that an object outside keeps: a replay would not store new results there."""

from __future__ import annotations

import gc
import sys
import types
from collections import Counter
from collections.abc import Sequence, Set
from typing import Any

from ...core.arrays import Array
from ...core.tensor.storage import LOCAL_ONLY
from ...core.tensor.tensor import Tensor, is_dense
from .untrace import as_real

ESCAPED = "it stores a Tensor or number made in the call in an object outside"


def replace_by_real(x: Array) -> list[Tensor]:
    """Replace a Traced array or Number by the real array or number in every object that refers to it.

    Returns:
        The Tensors among these objects.
    """
    tensors: list[Tensor] = []
    real = as_real(x)
    for holder in gc.get_referrers(x):
        if is_dense(holder):
            if holder.array is x:
                holder.array = real
                tensors.append(holder)
        elif type(holder) is list:
            for index, item in enumerate(holder):  # a comprehension's cell would refer to x too in Python 3.11
                if item is x:
                    holder[index] = real
        elif isinstance(holder, dict):
            for key, item in list(holder.items()):
                if item is x:
                    holder[key] = real
        elif type(holder) is types.CellType:
            holder.cell_contents = real
        elif not isinstance(holder, (types.FrameType, tuple)):
            _put_into_attributes(holder, x, real)
    return tensors


def _put_into_attributes(holder: object, x: object, real: object) -> None:
    names = list(getattr(holder, "__dict__", ()))
    names += [name for base in type(holder).__mro__ for name in getattr(base, "__slots__", ()) if type(name) is str]
    for name in names:
        if getattr(holder, name, None) is x:
            object.__setattr__(holder, name, real)


def is_referenced_outside(
    tensors: Sequence[Tensor], found: list[object], nests: list[object], gradients: Set[int]
) -> bool:
    """Return whether an object outside of the call refers to a Tensor that the call created.

    Args:
        tensors: results, Tensors that share memory with them, and new gradients.
        found: the leaves of the result; one more variable or container refers to each of them.
        nests: the containers of the result.
        gradients: the ids of Tensors that are the ``.grad`` of a leaf.
    """
    times = Counter(map(id, found))
    bases = Counter(id(x._base) for x in tensors if x._base is not None)
    suspects = []
    for x in tensors:
        # References from `tensors`, from `found` and the result (or a caller's variable), from views, from `.grad`.
        known = 1 + 2 * times[id(x)] + bases[id(x)] + (id(x) in gradients)
        if sys.getrefcount(x) - LOCAL_ONLY > known:
            suspects.append(x)
    if not suspects:
        return False
    gc.collect()
    inside = {id(nest) for nest in (tensors, found, suspects, *nests)}
    inside |= {id(x) for x in tensors if x._base is not None and not x.__dict__}
    ours = _running()
    for x in suspects:
        known = 2 + 2 * times[id(x)] + bases[id(x)] + (id(x) in gradients)  # `suspects` holds one more reference
        if sys.getrefcount(x) - LOCAL_ONLY <= known:
            continue
        for holder in gc.get_referrers(x):
            if id(holder) in inside or id(holder) in ours or is_dense(holder) and holder._grad is x:
                continue
            return True
    return False


def containers(nest: object) -> list[Any]:
    """Return the tuples, lists, dicts and objects in a result."""
    if isinstance(nest, dict):
        return [nest, *[x for item in nest.values() for x in containers(item)]]
    if isinstance(nest, (tuple, list)):
        return [nest, *[x for item in nest for x in containers(item)]]
    return [nest, *containers(vars(nest))] if hasattr(nest, "__dataclass_fields__") else []


def _running() -> set[int]:
    """Return the ids of the frames of this thread."""
    frames: set[int] = set()
    frame: types.FrameType | None = sys._getframe(1)
    while frame is not None:
        frames.add(id(frame))
        frame = frame.f_back
    return frames
