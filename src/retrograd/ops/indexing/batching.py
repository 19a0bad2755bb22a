"""Batching rules of indexing: which index of all examples says what an index of one example does.

NumPy puts the dimensions of an index's arrays in the place of these where they stand together, and first where a slice
stands between them; an integer counts as one of these arrays, which in PyTorch's order of one example's result it does
not (see ``placing``). Where the examples need an array of their own in the index, these rules bring the results, or the
values that are written, from the one order to the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module, is_array
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.mapping.batched import Batched
from ...core.tensor.tensor import Tensor
from ..table.batching import aligned

if TYPE_CHECKING:
    from ...core.mapping.batching import Call


class Placed:
    """An index for all examples, and where the dimensions of its arrays are in one example's result.

    ``key`` is for an array with all examples along its first axis, or with ``alone`` for one that all examples share.
    ``count`` dimensions of the result come from arrays; ``before`` of one example's stand before these, but in the
    result of ``key`` behind them, where ``swapped``.
    """

    __slots__ = ("before", "count", "key", "leading", "swapped")

    def __init__(self, key: tuple[Any, ...], ndim: int, size: int, mapped_target: bool, xp: Any) -> None:
        items = _full_key(key, ndim, xp)
        places = [place for place, item in enumerate(items) if _is_advanced(item)]
        together = _together(items, places)
        leading = _before(items, places)
        arrays = [place for place in places if _ndim(items[place])]
        self.count = max([_ndim(items[place]) for place in places], default=0)
        self.before = _before(items, arrays)
        differs = any(isinstance(item, Tensor) for item in items)
        self.swapped = False
        self.leading = 0  # where the examples are in the result of ``key``
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
        """The result of ``key`` as all examples of one example's result."""
        if self.leading:
            x = x.movedim(self.leading, 0)
        if self.swapped:
            x = x.movedim(
                [1 + self.leading + place for place in range(self.count)],
                [1 + self.before + place for place in range(self.count)],
            )
        return x

    def written(self, value: Tensor) -> Tensor:
        """All examples of a value to be written, as ``key`` takes it."""
        if self.swapped:
            return value.movedim(
                [1 + self.before + place for place in range(self.count)], [1 + place for place in range(self.count)]
            )
        return value


def _together(items: list[Any], places: list[int]) -> bool:
    return not places or all(map(_is_advanced, items[places[0] : places[-1]]))


def _before(items: list[Any], places: list[int]) -> int:
    """How many dimensions of the result stand before those of the arrays at some places of an index."""
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


def _full_key(key: tuple[Any, ...], ndim: int, xp: object) -> list[Any]:
    """The key with slices for an ellipsis and for what it leaves out, and positions for masks."""
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
    """A mask that differs between the examples: each would have a result of another shape."""


def _placed(call: Call, ndim: int, mapped_target: bool) -> Any:
    index = call.params["index"]
    key = index if isinstance(index, tuple) else index.key
    x = next(x.array for x in call.values if isinstance(x, Tensor))
    try:
        placed = Placed(key, ndim, call.size, mapped_target, array_module(x))
    except _DataDependent:
        raise RuntimeError(
            "vmap: an index by a mask that differs between the examples has a result of another shape for each; write "
            "where(mask, x, y), a sum of masked values, or masked_fill"
        ) from None
    if isinstance(index, tuple):
        return placed, placed.key
    made = type(index)(placed.key, index.storages)
    if not index.repeats:
        made.repeats = False  # a mask's positions are different ones
    return placed, made


def reading(call: Call) -> Tensor:
    """Of what reads at an index."""
    placed, index = _placed(call, call.ndim(), call.mapped[0])
    return placed.read(call.below([call.values[0]], {**call.params, "index": index}))


def reading_last(call: Call) -> Any:
    """Of what reads at an index where one element may stand for several: each example has its own."""
    placed, index = _placed(call, call.ndim(), True)
    return placed.read(call.below([call.full(0)], {**call.params, "index": index}))


def placing(call: Call) -> Tensor:
    """Of what puts its input at an index of zeros of a shape."""
    shape = call.params["shape"]
    placed, index = _placed(call, len(shape), True)
    values = placed.written(call.full(0))
    return call.below([values], {**call.params, "index": index, "shape": (call.size, *shape)})


def writing(call: Call) -> Tensor:
    """Of what writes at an index of its first input; a second one is the value."""
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


def _result_ndim(key: tuple[Any, ...], ndim: int, placed: Placed) -> int:
    """The number of dimensions of what one example's index selects."""
    items = _full_key(key, ndim, np)
    return sum(not _is_advanced(item) for item in items) + placed.count


def filling(call: Call) -> Any:
    """Of what writes one value over all elements of its first input."""
    value = call.values[1]
    return call.below([call.full(0), aligned(value, call.ndim()) if call.mapped[1] else value])


def is_mapped_mask(index: object) -> bool:
    """Whether an index is one mask that differs between the examples of vmap."""
    array = getattr(index, "array", index)
    return type(array) is Batched and array.mapped and array.dtype.kind == "b" and array.ndim > 0


def write_masked(x: Tensor, mask: Any, value: Any) -> None:
    """Write one value where a mask of x's first dimensions says so."""
    mask = operand(mask)
    own, shape = mask.array.shape, x.array.shape
    if own != shape[: len(own)]:
        raise IndexError(f"the mask {describe(mask)} does not fit {describe(x)}")
    x.masked_fill_(mask.reshape((*own, *(1,) * (len(shape) - len(own)))), value)
