"""Batching rules of indexing: translate an index of one example to an index of all examples.

NumPy puts the dimensions of adjacent index arrays in their place, and moves them to the front if a slice separates
them. In NumPy an integer counts as an index array; in PyTorch it does not (see ``placing``). If the index of all
examples needs an additional array for the examples, these rules permute the results, or the written values, between the
two orders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module, is_array
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor
from ..table.batching import aligned

if TYPE_CHECKING:
    from ...core.mapping.batching import Call


class Placed:
    """An index for all examples of ``vmap``, and where its arrays' dimensions are in the result of one example.

    ``key`` indexes an array whose first axis is that of the examples, or, if all examples share the array, the array
    itself.
    ``count`` dimensions of the result come from index arrays. These dimensions follow the first ``before`` dimensions
    in the result of one example; in the result of ``key`` they come first if ``swapped``.
    """

    __slots__ = ("before", "count", "key", "leading", "swapped")

    def __init__(self, key: tuple[object, ...], ndim: int, size: int, mapped_target: bool, xp: Any) -> None:
        items = _full_key(key, ndim)
        places = [place for place, item in enumerate(items) if _is_advanced(item)]
        together = _together(items, places)
        leading = _before(items, places)
        arrays = [place for place in places if _ndim(items[place])]
        self.count = max([_ndim(items[place]) for place in places], default=0)
        self.before = _before(items, arrays)
        differs = any(isinstance(item, Tensor) for item in items)
        self.swapped = False
        self.leading = 0  # the axis of the examples in the result of ``key``
        if not differs and (together or not mapped_target):
            self.key = (slice(None), *items) if mapped_target else tuple(items)
            return
        keyed = [_batched_item(item, self.count) if _is_advanced(item) else item for item in items]
        if mapped_target:
            examples = xp.arange(size).reshape((size,) + (1,) * self.count)
            self.key = (examples, *keyed)
            self.swapped = self.before > 0
        else:
            self.key = tuple(keyed)
            self.leading = leading
            self.swapped = self.before != leading

    def read(self, x: Tensor) -> Tensor:
        """Index x by ``key`` and permute the result to the order of one example's result."""
        if self.leading:
            x = x.movedim(self.leading, 0)
        if self.swapped:
            x = x.movedim(
                [1 + self.leading + place for place in range(self.count)],
                [1 + self.before + place for place in range(self.count)],
            )
        return x

    def written(self, value: Tensor) -> Tensor:
        """Permute a value to be written, with all examples, to the order of ``key``."""
        if self.swapped:
            return value.movedim(
                [1 + self.before + place for place in range(self.count)], [1 + place for place in range(self.count)]
            )
        return value


def _together(items: list[Any], places: list[int]) -> bool:
    return not places or all(map(_is_advanced, items[places[0] : places[-1]]))


def _before(items: list[Any], places: list[int]) -> int:
    """Return the number of the result's dimensions before those of the index arrays at ``places``."""
    return sum(not _is_advanced(item) for item in items[: places[0]]) if places and _together(items, places) else 0


def _is_advanced(item: object) -> bool:
    return isinstance(item, (Tensor, int)) and not isinstance(item, bool) or is_array(item)


def _ndim(item: object) -> int:
    if isinstance(item, Tensor):
        return item.array.ndim - 1
    return getattr(item, "ndim", 0)


def _batched_item(item: Tensor, count: int) -> Array:
    if not isinstance(item, Tensor):
        return item
    array = item.array
    return array.reshape((array.shape[0],) + (1,) * (count + 1 - array.ndim) + array.shape[1:])


def _full_key(key: tuple[object, ...], ndim: int) -> list[Any]:
    """Replace an ellipsis and missing dimensions of the key by explicit slices, and masks by positions."""
    items: list[Any] = []
    for item in key:
        if isinstance(item, Tensor) and item.array.dtype.kind == "b" or isinstance(item, (bool, np.bool_)):
            raise _DataDependent
        if is_array(item) and item.dtype.kind == "b":
            items += list(item.nonzero())
        else:
            items.append(item)
    spent = sum(item is not None and item is not Ellipsis for item in items)
    rest = [slice(None)] * (ndim - spent)
    if Ellipsis in [item for item in items if item is Ellipsis]:
        place = next(place for place, item in enumerate(items) if item is Ellipsis)
        return [*items[:place], *rest, *items[place + 1 :]]
    return items + rest


class _DataDependent(Exception):
    """An index contains a mask that differs between examples, so their results would differ in shape."""


def _placed(call: Call, ndim: int, mapped_target: bool) -> Any:
    index = call.params["index"]
    key = index if isinstance(index, tuple) else index.key
    x = next(x.array for x in call.values if isinstance(x, Tensor))
    try:
        placed = Placed(key, ndim, call.size, mapped_target, array_module(x))
    except _DataDependent:
        raise RuntimeError(
            "vmap: an index by a mask that differs between the examples gives results of different shapes; use "
            "where(mask, x, y), a sum of masked values, or masked_fill"
        ) from None
    if isinstance(index, tuple):
        return placed, placed.key
    made = type(index)(placed.key, index.storages)
    if not index.repeats:
        made.repeats = False  # the positions of a mask are distinct
    return placed, made


def reading(call: Call) -> Tensor:
    """Batch primitives that read at an index."""
    placed, index = _placed(call, call.ndim(), call.mapped[0])
    return placed.read(call.below([call.values[0]], {**call.params, "index": index}))


def reading_last(call: Call) -> Any:
    """Batch ``_read_last`` with one array per example: a value of one example does not replace a value of another."""
    placed, index = _placed(call, call.ndim(), True)
    return placed.read(call.below([call.full(0)], {**call.params, "index": index}))


def placing(call: Call) -> Tensor:
    """Batch primitives that write their input at an index of an array of zeros."""
    shape = call.params["shape"]
    placed, index = _placed(call, len(shape), True)
    values = placed.written(call.full(0))
    return call.below([values], {**call.params, "index": index, "shape": (call.size, *shape)})


def writing(call: Call) -> Tensor:
    """Batch primitives that write at an index of their first input; a second input is the value."""
    placed, index = _placed(call, call.ndim(), True)
    values = [call.full(0)]
    for place in range(1, len(call.values)):
        value = call.values[place]
        if isinstance(value, Tensor) and (call.mapped[place] or value.array.ndim):
            value = call.full(place)
            ndim = _result_ndim(call.params["index"].key, call.ndim(), placed)
            shape = value.array.shape
            if len(shape) - 1 < ndim:
                value = value.reshape((shape[0],) + (1,) * (ndim + 1 - len(shape)) + shape[1:])
            value = placed.written(value)
        values.append(value)
    return call.below(values, {**call.params, "index": index})


def _result_ndim(key: tuple[object, ...], ndim: int, placed: Placed) -> int:
    items = _full_key(key, ndim)
    return sum(not _is_advanced(item) for item in items) + placed.count


def filling(call: Call) -> Any:
    """Batch primitives that fill their first input with one value."""
    value = call.values[1]
    return call.below([call.full(0), aligned(value, call.ndim()) if call.mapped[1] else value])


def is_mapped_mask(index: object) -> bool:
    """Return whether an index is a single mask that differs between the examples of vmap."""
    from ...core.mapping.batched import Batched  # loaded by vmap, not with the package

    array = getattr(index, "array", index)
    return type(array) is Batched and array.mapped and array.dtype.kind == "b" and array.ndim > 0


def write_masked(x: Tensor, mask: Any, value: Any) -> None:
    """Write one value where a mask of x's first dimensions is True."""
    mask = operand(mask)
    own, shape = mask.array.shape, x.array.shape
    if own != shape[: len(own)]:
        raise IndexError(f"the mask {describe(mask)} does not have the shape of the first dimensions of {describe(x)}")
    x.masked_fill_(mask.reshape((*own, *(1,) * (len(shape) - len(own)))), value)
