"""Indices that PyTorch interprets differently from NumPy: integers combined with arrays of positions, and lists.

NumPy treats an integer next to an array as a position, so a slice between the two moves the dimensions of the positions
to the front: ``x[0, :, [1, 2]]`` of shape ``(2, 3, 4)`` has shape ``(2, 3)``. PyTorch selects by the integer first, and
the result has shape ``(3, 2)``. PyTorch interprets some lists as tuples.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from warnings import warn

from ...core.arrays.devices import all_examples, extent, is_array
from ...core.errors import describe
from ...core.source_location import user_level
from ...core.tensor.tensor import Tensor

WARNING = (
    "x[0, :, [1, 2]], an integer beside positions with a slice or None between, is read as x[0][:, [1, 2]], as PyTorch "
    "reads it; NumPy puts the dimensions of the positions first. Write x[0][:, [1, 2]] for the one, and "
    "x[[0], :, [1, 2]] for the other"
)

Key = tuple[Any, ...]


def selected_first(key: Key, ndim: int) -> tuple[Key, Key] | None:
    """Split an index into a basic index and an index of its result, to get PyTorch's result; None if NumPy's is equal.

    Args:
        key: integers, slices, None, Ellipsis, bools, and arrays of positions and masks.
        ndim: the number of dimensions of the indexed array.
    """
    taken = sum(_dimensions(item) for item in key)
    if taken > ndim:
        return None  # NumPy raises the error
    items: list[Any] = []
    for item in key:
        items += [slice(None)] * (ndim - taken) if item is Ellipsis else [item]
    places = [place for place, item in enumerate(items) if _is_position(item)]
    if not places or _together(key) or not _together(tuple(item for item in items if type(item) is not int)):
        return None
    before = [item for item in items[: places[0]] if type(item) is not int]
    if not before:
        return None
    view: list[Any] = []
    rest: list[object] = []
    for item in items:
        if not _is_position(item):
            view.append(item)
            rest += [] if type(item) is int else [slice(None)]
        else:
            view += [slice(None)] * _dimensions(item)
            rest.append(item)
    return (*view, Ellipsis), tuple(rest)


def _is_position(item: object) -> bool:
    return type(item) is bool or hasattr(item, "dtype")


def _dimensions(item: Any) -> int:
    """Return the number of dimensions of the indexed array that an item consumes."""
    if item is None or item is Ellipsis or type(item) is bool:
        return 0
    return int(item.ndim) if hasattr(item, "dtype") and item.dtype.kind == "b" else 1


def _together(items: Key) -> bool:
    """Return whether no slice, None or Ellipsis separates positions, so that NumPy leaves their dimensions in place."""
    places = [place for place, item in enumerate(items) if type(item) is int or _is_position(item)]
    return places[-1] - places[0] == len(places) - 1


LIST_WARNING = (
    "x[[a, b]], a list of lists, Tensors or slices, is read as x[a, b], as PyTorch reads it: write x[a, b]. NumPy "
    "reads one array of positions, and PyTorch will, too: for that write x[torch.tensor([a, b])] or x[np.array([a, b])]"
)


def is_read_as_tuple(index: list[int]) -> bool:
    """Return whether PyTorch interprets a list as a tuple of indices, with a warning, and not as positions."""
    if len(index) >= 32 or not any(map(_is_no_position, index)):
        return False
    warn(LIST_WARNING, UserWarning, stacklevel=user_level())
    return True


def _is_no_position(item: object) -> bool:
    return item is None or item is Ellipsis or isinstance(item, (slice, Sequence, Tensor)) or is_array(item)


def check_index(key: tuple[Any, ...], x: Tensor) -> None:
    """Check what NumPy does not check: masks without elements must have the shape of the dimensions that they index.

    On other backends also check that positions are in range: CuPy would wrap them around.
    """
    consumed = [item.ndim if hasattr(item, "dtype") and item.dtype.kind == "b" else 1 for item in key]
    spent = [
        0 if item is None or item is Ellipsis or type(item) is bool else count for item, count in zip(key, consumed)
    ]
    place = 0
    for item, count in zip(key, spent):
        if item is Ellipsis:
            place += x.array.ndim - sum(spent)
        elif not hasattr(item, "dtype") or place + count > x.array.ndim:
            pass
        elif item.dtype.kind == "b":
            wanted = x.array.shape[place : place + count]
            if item.shape != wanted and not getattr(item, "mapped", False):
                raise IndexError(
                    f"a mask of shape {item.shape} does not match the shape {wanted} of the elements of {describe(x)} "
                    f"from dimension {place} on"
                )
        elif all_examples(item).size:
            length = x.array.shape[place]
            low, high = extent(item)
            if low < -length or high >= length:
                wrong = low if low < -length else high
                raise IndexError(f"index {wrong} is out of bounds for dimension {place} of {describe(x)}")
        place += count
