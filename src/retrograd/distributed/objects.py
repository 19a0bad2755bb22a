"""Collectives of Python objects: pickled, so only among processes that trust each other, as those of one job do."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.tensor.tensor import new_tensor
from .collectives import all_gather, all_reduce, broadcast
from .groups import ProcessGroup, get_rank, get_world_size, group_of, is_initialized
from .reductions import ReduceOp


def all_gather_object(object_list: list[Any], obj: object, group: Any = None) -> None:
    """Give every rank the objects of all: ``object_list[i]`` becomes that of the group's rank i.

    Raises:
        RuntimeError: the list has another length than the group.
    """
    where = group_of(group)
    if where is None:
        return
    if len(object_list) != where.size():
        raise RuntimeError(f"all_gather_object: object_list must have {where.size()} places, got {len(object_list)}")
    object_list[:] = everyones(where, obj)


def gather_object(obj: object, object_gather_list: list[Any] | None = None, dst: int = 0, group: Any = None) -> None:
    """Give rank ``dst`` the objects of all, in ``object_gather_list``, which is None elsewhere."""
    where = group_of(group)
    if where is None:
        return
    at_root = where.place("gather_object", dst, "dst") == where.rank()
    if at_root != (object_gather_list is not None):
        raise ValueError(f"gather_object: object_gather_list must be given on dst={dst} and nowhere else")
    found = everyones(where, obj)
    if object_gather_list is not None:
        object_gather_list[:] = found


def broadcast_object_list(object_list: list[Any], src: int = 0, group: Any = None, device: Any = None) -> None:
    """Give every rank the objects in rank ``src``'s list, which are as many as in every other's."""
    where = group_of(group)
    if where is None:
        return
    at_root = where.place("broadcast_object_list", src, "src") == where.rank()
    data = np.frombuffer(pickle.dumps(object_list), np.uint8).copy() if at_root else None
    size = new_tensor(np.array([0 if data is None else data.size, len(object_list) if at_root else 0]))
    broadcast(size, src, group)
    if len(object_list) != int(size.array[1]):
        raise RuntimeError(
            f"broadcast_object_list: object_list has {len(object_list)} places, rank {src}'s {int(size.array[1])}"
        )
    row = new_tensor(np.empty(int(size.array[0]), np.uint8) if data is None else data)
    broadcast(row, src, group)
    if not at_root:
        object_list[:] = pickle.loads(row.array)


def scatter_object_list(
    scatter_object_output_list: list[Any],
    scatter_object_input_list: list[Any] | None = None,
    src: int = 0,
    group: Any = None,
) -> None:
    """Write to the output list's first place this rank's object of rank ``src``'s input list."""
    where = group_of(group)
    if where is None:
        return
    whole = [scatter_object_input_list]
    broadcast_object_list(whole, src, group)
    given = whole[0]
    if given is None or len(given) != where.size() or not scatter_object_output_list:
        raise RuntimeError("scatter_object_list: wanted an object for each rank on src, and a place for the output")
    scatter_object_output_list[0] = given[where.rank()]


def everyones(where: ProcessGroup, obj: object) -> list[Any]:
    """The objects of all ranks of the group."""
    data = np.frombuffer(pickle.dumps(obj), np.uint8)
    sizes = [new_tensor(np.zeros(1, np.int64)) for _ in where.ranks]
    all_gather(sizes, new_tensor(np.array([data.size])), where)
    lengths = [int(size.array[0]) for size in sizes]
    padded = np.zeros(max(lengths), np.uint8)
    padded[: data.size] = data
    rows = [new_tensor(np.empty_like(padded)) for _ in where.ranks]
    all_gather(rows, new_tensor(padded), where)
    return [pickle.loads(row.array[:length]) for row, length in zip(rows, lengths, strict=True)]


def by_first(function: Callable[[], Any]) -> Any:
    """What ``function()`` gives on rank 0, on all ranks; what it raises there is raised on all."""
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
    """Whether the flag is set on any rank; where there is one rank, the flag."""
    if not is_initialized() or get_world_size() == 1:
        return flag
    flags = new_tensor(np.array([flag]))
    all_reduce(flags, ReduceOp.MAX)
    return bool(flags.array[0])


__all__ = ["all_gather_object", "broadcast_object_list", "gather_object", "scatter_object_list"]
