"""Collectives of Python objects, by pickle: unpickling runs code, so all ranks must trust each other."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor.tensor import new_tensor
from .collectives import all_gather, all_reduce, broadcast
from .groups import ProcessGroup, get_rank, get_world_size, group_of, is_initialized
from .reduce_ops import ReduceOp


def all_gather_object(object_list: list[object], obj: object, group: object = None) -> None:
    """Gather the objects of all ranks: ``object_list[i]`` receives the object of group rank i.

    Raises:
        RuntimeError: the length of ``object_list`` is not the size of the group.
    """
    process_group = group_of(group)
    if process_group is None:
        return
    if len(object_list) != process_group.size():
        raise RuntimeError(
            f"all_gather_object: object_list must have {process_group.size()} entries, got {len(object_list)}"
        )
    object_list[:] = gather_from_all(process_group, obj)


def gather_object(
    obj: object, object_gather_list: list[object] | None = None, dst: int = 0, group: object = None
) -> None:
    """Gather the objects of all ranks on rank ``dst``; ``object_gather_list`` must be None elsewhere."""
    process_group = group_of(group)
    if process_group is None:
        return
    at_root = process_group.group_rank_of("gather_object", dst, "dst") == process_group.rank()
    if at_root != (object_gather_list is not None):
        raise ValueError(f"gather_object: object_gather_list must be given on rank dst={dst} and on no other rank")
    found = gather_from_all(process_group, obj)
    if object_gather_list is not None:
        object_gather_list[:] = found


def broadcast_object_list(object_list: list[Any], src: int = 0, group: object = None, device: object = None) -> None:
    """Broadcast the objects in rank ``src``'s list to all ranks, whose lists must have the same length."""
    process_group = group_of(group)
    if process_group is None:
        return
    at_root = process_group.group_rank_of("broadcast_object_list", src, "src") == process_group.rank()
    data = np.frombuffer(pickle.dumps(object_list), np.uint8).copy() if at_root else None
    size = new_tensor(np.array([0 if data is None else data.size, len(object_list) if at_root else 0]))
    broadcast(size, src, group)
    if len(object_list) != int(size.array[1]):
        raise RuntimeError(
            f"broadcast_object_list: object_list has {len(object_list)} entries, rank {src}'s has {int(size.array[1])}"
            "; pass lists of the same length"
        )
    row = new_tensor(np.empty(int(size.array[0]), np.uint8) if data is None else data)
    broadcast(row, src, group)
    if not at_root:
        object_list[:] = pickle.loads(row.array)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int = 0,
    group: object = None,
) -> None:
    """Send one object of rank ``src``'s input list to each rank, into the first entry of its output list."""
    process_group = group_of(group)
    if process_group is None:
        return
    whole = [scatter_object_input_list]
    broadcast_object_list(whole, src, group)
    given = whole[0]
    if given is None or len(given) != process_group.size() or not scatter_object_output_list:
        raise RuntimeError(
            f"scatter_object_list: rank src={src} must pass one object for each of {process_group.size()} ranks, "
            "and each rank an output list with at least one entry"
        )
    scatter_object_output_list[0] = given[process_group.rank()]


def gather_from_all(process_group: ProcessGroup, obj: object) -> list[Any]:
    data = np.frombuffer(pickle.dumps(obj), np.uint8)
    sizes = [new_tensor(np.zeros(1, np.int64)) for _ in process_group.ranks]
    all_gather(sizes, new_tensor(np.array([data.size])), process_group)
    lengths = [int(size.array[0]) for size in sizes]
    padded = np.zeros(max(lengths), np.uint8)
    padded[: data.size] = data
    rows = [new_tensor(np.empty_like(padded)) for _ in process_group.ranks]
    all_gather(rows, new_tensor(padded), process_group)
    return [pickle.loads(row.array[:length]) for row, length in zip(rows, lengths, strict=True)]


def by_first(function: Callable[[], object]) -> Any:
    """Call a function on rank 0 and return its result, or raise its exception, on all ranks."""
    if not is_initialized() or get_world_size() == 1:
        return function()
    outcome: list[Any] = [None, None]
    if get_rank() == 0:
        try:
            outcome[0] = function()
        except Exception as error:
            outcome[1] = error
    broadcast_object_list(outcome)
    if outcome[1] is not None:
        raise outcome[1]
    return outcome[0]


def on_any_rank(flag: bool) -> bool:
    """Whether the flag is set on any rank."""
    if not is_initialized() or get_world_size() == 1:
        return flag
    flags = new_tensor(np.array([flag]))
    all_reduce(flags, ReduceOp.MAX)
    return bool(flags.array[0])


__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"]
