"""Convert nested containers of Tensors to JSON and named arrays, for safetensors files, and back.

Every Tensor has its own array in the file. The JSON records which Tensors were one object or shared memory; readers
that ignore the JSON still find all arrays.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np

from .core.arrays.devices import backend_of, is_array
from .core.tensor.storage import byte_span, share
from .core.tensor.tensor import Tensor, new_tensor
from .safetensors_format import Arrays, holds

_MAX_DEPTH = 100  # a fixed limit, so that a file that can be saved can be loaded at any stack depth


class _Place(NamedTuple):
    """An array, and the addresses of its first byte and of the byte after its last."""

    low: int
    high: int
    name: str
    array: Any


class Packed:
    """Arrays by name, as in the file, and the JSON entries that refer to them.

    Attributes:
        arrays: contiguous, little-endian, on the CPU.
    """

    def __init__(self) -> None:
        self.arrays: Arrays = {}
        self._sources: dict[str, Any] = {}
        self._entries: dict[str, dict[str, Any]] = {}
        self._names_of_tensors: dict[int, tuple[Tensor, str]] = {}

    def enter(self, value: Any, array: object, kind: str, path: str) -> dict[str, str]:
        """Store an array under a name derived from its path, and return its entry."""
        name = (path or "tensor").encode(errors="replace").decode()  # UTF-8 has no lone surrogates
        while name in self.arrays or name == "__metadata__":
            name += "_"
        source, array = array, backend_of(array).to_numpy(array)
        if array.dtype == np.complex128:
            raise TypeError(f"save: {name} is complex128, which safetensors does not support; convert it to complex64")
        if not holds(array.dtype):
            raise TypeError(
                f"save: {name} is an array of dtype {array.dtype}, which safetensors does not support; convert it"
            )
        # The bytes are written in memory order. (np.ascontiguousarray would add an axis to 0-d arrays.)
        self.arrays[name] = np.asarray(array, array.dtype.newbyteorder("<"), order="C")
        entry = {"$": kind, "name": name}
        known = self._names_of_tensors.setdefault(id(value), (value, name))[1]
        if known != name:
            entry["same"] = known
        else:
            self._sources[name], self._entries[name] = source, entry
        return entry

    def tie(self) -> None:
        """Record in the entries which arrays are views of contiguous arrays with their dtype."""
        places = [_Place(*byte_span(array), name, array) for name, array in self._sources.items() if array.size]
        holders: dict[tuple[object, str], _Place] = {}  # per dtype and device the array whose memory ends last
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
    """Describe ``place`` as a view of ``holder``: its name, the offset and strides in elements. None if impossible."""
    width = place.array.dtype.itemsize
    strides = [stride if length > 1 else 0 for length, stride in zip(place.array.shape, place.array.strides)]
    numbers = [place.low - holder.low, *strides]
    if any(number < 0 or number % width for number in numbers):
        return None
    offset, *strides = [number // width for number in numbers]
    return [holder.name, offset, strides]


def pack(value: object, path: str, packed: Packed, depth: int = 0) -> Any:
    """Return the value as JSON, and store its arrays in ``packed``."""
    if depth > _MAX_DEPTH:
        raise ValueError(f"save: {path[:80]}... is nested more than {_MAX_DEPTH} levels deep or contains itself")
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, Tensor):
        return packed.enter(value, value.array, "tensor", path)
    if is_array(value):
        return packed.enter(value, value, "array", path)

    def pack_item(key: object, item: object) -> Any:
        return pack(item, f"{path}.{key}" if path else str(key), packed, depth + 1)

    if isinstance(value, Mapping):
        for key in value:
            if not isinstance(key, (bool, int, float, str)):
                raise TypeError(
                    f"save: {path or 'the state'} has a key of type {type(key).__name__}, not a string or number"
                )
        items = [(key, pack_item(key, item)) for key, item in value.items()]
        if all(isinstance(key, str) and key != "$" for key, _ in items):
            return dict(items)
        return {"$": "items", "items": items}
    if isinstance(value, (list, tuple)):
        nest = [pack_item(index, item) for index, item in enumerate(value)]
        return nest if isinstance(value, list) else {"$": "tuple", "items": nest}
    raise TypeError(
        f"save: {path or 'the state'} must be a Tensor, number, string, None, dict, list or tuple, got "
        f"{type(value).__name__}; save a module's state_dict(), not the module"
    )


def unpack(structure: object, tensors: dict[str, Tensor]) -> Any:
    """Restore the value from ``pack``'s structure; ValueError if the structure is invalid."""
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
    raise ValueError(f"invalid entry in the structure: {structure!r:.80}")


def tied(structure: object, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the Tensors by name, with shared memory restored; ValueError if the entries are inconsistent."""
    found = dict(tensors)
    for entry in _tied_entries(structure):
        name, view = entry.get("name"), entry.get("view")
        if not isinstance(name, str) or name not in tensors:
            raise ValueError(f"invalid entry in the structure: {entry!r:.80}")
        if isinstance(view, list):
            found[name] = _viewed(tensors[name], view, tensors)
    for entry in _tied_entries(structure):
        same = entry.get("same", entry["name"])
        if not isinstance(same, str) or same not in found:
            raise ValueError(f"invalid entry in the structure: {entry!r:.80}")
        found[entry["name"]] = found[same]
    return found


def _tied_entries(structure: object) -> list[dict[str, Any]]:
    entries, pending = [], [structure]
    while pending:
        value = pending.pop()
        if isinstance(value, dict) and value.get("$") in ("tensor", "array"):
            if "same" in value or "view" in value:
                entries.append(value)
        elif isinstance(value, (dict, list)):
            pending += value.values() if isinstance(value, dict) else value
    return entries


def _viewed(own: Tensor, view: list[object], tensors: dict[str, Tensor]) -> Tensor:
    """Return a Tensor as a view of another Tensor; ``own`` is its copy in the file."""
    match view:
        case [str(name), int(offset), list(strides)] if name in tensors and len(strides) == own.ndim and own.numel():
            base, shape = tensors[name], tuple(own.shape)
        case _:
            raise ValueError(f"invalid entry in the structure: {view!r:.80}")
    size, array = base.numel(), base.array
    inside = all(type(number) is int and 0 <= number <= size for number in (offset, *strides))
    if not inside or offset + sum((n - 1) * step for n, step in zip(shape, strides)) >= size:
        raise ValueError(f"a view exceeds the memory of its base: {view!r:.80}")
    if base is own or own.dtype != base.dtype:
        raise ValueError(f"a view must have the dtype of its base, a different Tensor: {view!r:.80}")
    steps = tuple(step * array.dtype.itemsize for step in strides)
    viewed = backend_of(array).strided(array, offset * array.dtype.itemsize, shape, steps, array.dtype)
    made = new_tensor(viewed)
    share(made, base, related=False)
    return made


def _is_item(item: object) -> bool:
    return isinstance(item, list) and len(item) == 2 and isinstance(item[0], (bool, int, float, str))
