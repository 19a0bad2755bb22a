"""Nests of Tensors as JSON and arrays by name, and back: what a safetensors file holds besides its numbers.

Every Tensor has an array of its own in the file. Which Tensors were one object, or lay in another's memory, is told in
their entries of the structure: readers that do not know of it still find all arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from . import safetensors_format
from .core.arrays.devices import backend_of, is_array
from .core.tensor.storage import byte_span, share
from .core.tensor.tensor import Tensor, new_tensor
from .safetensors_format import Arrays

_DEEPEST = 100  # what is saved at one depth of the stack must be readable at any other


class _Place(NamedTuple):
    """The addresses of an array's first byte and of the one after its last."""

    low: int
    high: int
    name: str
    array: Any


class Packed:
    """Arrays by name, as a file holds them, and the entries that name them.

    Attributes:
        arrays: contiguous, little-endian, on the CPU.
    """

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._sources: dict[str, Any] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        self._names_of_tensors: dict[int, tuple[Tensor, str]] = {}

    def enter(self, value: Any, array: Any, kind: str, path: str) -> dict[str, Any]:
        """Take an array under a name made of its path; its entry."""
        name = (path or "tensor").encode(errors="replace").decode()  # no half of a surrogate pair: files are UTF-8
        while name in self.arrays or name == "__metadata__":
            name += "_"
        source, array = array, backend_of(array).to_numpy(array)
        if array.dtype == np.complex128:
            raise TypeError(f"save: {name} is complex128, which safetensors files cannot hold; convert it to complex64")
        if not safetensors_format.holds(array.dtype):
            raise TypeError(f"save: {name} is an array of dtype {array.dtype}, which safetensors files cannot hold")
        # The bytes are written as they lie. (np.ascontiguousarray would give 0-d arrays an axis.)
        self.arrays[name] = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        entry = {"$": kind, "name": name}
        known = self._names_of_tensors.setdefault(id(value), (value, name))[1]
        if known != name:
            entry["same"] = known
        else:
            self._sources[name], self._entries[name] = source, entry
        return entry

    def tie(self) -> None:
        """Say in the entries which arrays lie in the memory of contiguous ones of their dtype."""
        places = [_Place(*byte_span(array), name, array) for name, array in self._sources.items() if array.size]
        holders: dict[tuple[Any, str], _Place] = {}  # by dtype and device, the one whose memory reaches farthest
        for place in sorted(places, key=lambda place: (place.low, -place.high, not place.array.flags.c_contiguous)):
            kind = place.array.dtype, str(backend_of(place.array).device(place.array))
            holder = holders.get(kind)
            if holder is not None and place.high <= holder.high:
                view = _view_of(holder, place)
                if view is not None:
                    self._entries[place.name]["view"] = view
            elif place.array.flags.c_contiguous:
                holders[kind] = place


def _view_of(holder: _Place, place: _Place) -> list[Any] | None:
    """The holder's name, and offset and strides in its elements."""
    width = place.array.dtype.itemsize
    strides = [stride if length > 1 else 0 for length, stride in zip(place.array.shape, place.array.strides)]
    numbers = [place.low - holder.low, *strides]
    if any(number < 0 or number % width for number in numbers):
        return None
    offset, *strides = [number // width for number in numbers]
    return [holder.name, offset, strides]


def pack(value: object, path: str, packed: Packed, depth: int = 0) -> Any:
    """The value as JSON, with its arrays entered in ``packed``."""
    if depth > _DEEPEST:
        raise ValueError(f"save: {path[:80]}... is nested more than {_DEEPEST} deep, or contains itself")
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Tensor):
        return packed.enter(value, value.array, "tensor", path)
    if is_array(value):
        return packed.enter(value, value, "array", path)

    def inside(key: Any, item: object) -> Any:
        return pack(item, f"{path}.{key}" if path else str(key), packed, depth + 1)

    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, (bool, int, float, str)):
                raise TypeError(f"save: {path or 'the state'} has a key of type {type(key).__name__}: {key!r}")
        items = [(key, inside(key, item)) for key, item in value.items()]
        if all(isinstance(key, str) and key != "$" for key, _ in items):
            return dict(items)
        return {"$": "items", "items": items}
    if isinstance(value, (list, tuple)):
        nest = [inside(index, item) for index, item in enumerate(value)]
        return nest if isinstance(value, list) else {"$": "tuple", "items": nest}
    raise TypeError(
        f"save: {path or 'the state'} is a {type(value).__name__}; wanted Tensors, numbers, texts, None, or dicts, "
        "lists and tuples of these (a module's state_dict(), not the module)"
    )


def unpack(structure: Any, tensors: dict[str, Tensor]) -> Any:
    """The value that ``pack`` took apart; ValueError where ``pack`` never made such a structure."""
    if isinstance(structure, list):
        return [unpack(item, tensors) for item in structure]
    if not isinstance(structure, dict):
        return structure
    if "$" not in structure:
        return {key: unpack(item, tensors) for key, item in structure.items()}
    kind, name, items = structure["$"], structure.get("name"), structure.get("items")
    if kind == "items" and isinstance(items, list) and all(_is_item(item) for item in items):
        return {key: unpack(item, tensors) for key, item in items}
    if kind == "tuple" and isinstance(items, list):
        return tuple(unpack(item, tensors) for item in items)
    if kind in ("tensor", "array") and isinstance(name, str) and name in tensors:
        found = tensors[name]
        return found if kind == "tensor" else found.array
    raise ValueError(f"an entry of the structure is unknown: {structure!r:.80}")


def tied(structure: Any, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """The Tensors by name, tied as the structure's entries say; ValueError where these cannot be true."""
    found = dict(tensors)
    for entry in _tied_entries(structure):
        name, view = entry.get("name"), entry.get("view")
        if not isinstance(name, str) or name not in tensors:
            raise ValueError(f"an entry of the structure is unknown: {entry!r:.80}")
        if isinstance(view, list):
            found[name] = _viewed(tensors[name], view, tensors)
    for entry in _tied_entries(structure):
        same = entry.get("same", entry["name"])
        if not isinstance(same, str) or same not in found:
            raise ValueError(f"an entry of the structure is unknown: {entry!r:.80}")
        found[entry["name"]] = found[same]
    return found


def _tied_entries(structure: Any) -> list[dict[str, Any]]:
    entries, pending = [], [structure]
    while pending:
        value = pending.pop()
        if isinstance(value, dict) and value.get("$") in ("tensor", "array"):
            if "same" in value or "view" in value:
                entries.append(value)
        elif isinstance(value, (dict, list)):
            pending += value.values() if isinstance(value, dict) else value
    return entries


def _viewed(own: Tensor, view: list[Any], tensors: dict[str, Tensor]) -> Tensor:
    """The Tensor that an entry calls a view of another one; ``own`` is the copy that the file has of it."""
    match view:
        case [str(name), int(offset), list(strides)] if name in tensors and len(strides) == own.ndim and own.numel():
            base, shape = tensors[name], tuple(own.shape)
        case _:
            raise ValueError(f"an entry of the structure is unknown: {view!r:.80}")
    size, array = base.numel(), base.array
    inside = all(type(number) is int and 0 <= number <= size for number in (offset, *strides))
    if not inside or offset + sum((n - 1) * step for n, step in zip(shape, strides)) >= size:
        raise ValueError(f"a Tensor lies outside the one that it is a view of: {view!r:.80}")
    if base is own or own.dtype != base.dtype:
        raise ValueError(f"a Tensor cannot be a view of what it is said to be: {view!r:.80}")
    steps = tuple(step * array.dtype.itemsize for step in strides)
    viewed = backend_of(array).strided(array, offset * array.dtype.itemsize, shape, steps, array.dtype)
    made = new_tensor(viewed)
    share(made, base, related=False)
    return made


def _is_item(item: object) -> bool:
    return isinstance(item, list) and len(item) == 2 and isinstance(item[0], (bool, int, float, str))
