"""The axes of a loop: adjacent axes are merged if all operands are contiguous across them.

An operand has only the merged axes along which its address changes; it is broadcast along the others.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import prod
from typing import Any, NamedTuple

import numpy as np

from ..program import Value


class Operand(NamedTuple):
    """An operand; ``array[key].reshape(shape)`` is the array that the loop receives."""

    axes: tuple[int, ...]  # axes of the loop that the operand has
    key: tuple[Any, ...] | None  # None: the whole array
    shape: tuple[int, ...]
    row_major: bool  # whether the array that the loop receives is row-major

    def bind(self, array: Any) -> Any:
        """Return the array that the loop receives."""
        return (array if self.key is None else array[self.key]).reshape(self.shape)


class Layout:
    """The axes of a loop over arrays of a shape.

    Args:
        shape: the shape that all operands are broadcast to; results are row-major.
        values: the operands.
        reduced: the sets of axes that are summed over; an axis inside a set is not merged with an axis outside.
        apart: an axis that is not merged with the axes before it.
    """

    def __init__(
        self,
        shape: tuple[int, ...],
        values: Iterable[Value],
        reduced: Iterable[frozenset[int]] = (),
        apart: int | None = None,
    ) -> None:
        self.shape = shape
        reduced = list(reduced)
        axes = [axis for axis, length in enumerate(shape) if length > 1]
        steps = {value: strides_in(value, shape) for value in values}
        row_major = [prod(shape[axis + 1 :]) for axis in range(len(shape))]
        groups: list[list[int]] = []
        for axis in axes:
            before = groups[-1][-1] if groups else -1
            if (
                groups
                and axis != apart
                and row_major[before] == row_major[axis] * shape[axis]
                and all(s[before] == s[axis] * shape[axis] for s in steps.values())
                and all((before in r) == (axis in r) for r in reduced)
            ):
                groups[-1].append(axis)
            else:
                groups.append([axis])
        self.groups = [tuple(group) for group in groups]
        self.lengths = tuple(prod(shape[axis] for axis in group) for group in self.groups)
        self.operands = {value: self._operand(value, steps[value]) for value in steps}

    def _operand(self, value: Value, steps: Sequence[int]) -> Operand:
        offset = len(self.shape) - len(value.shape)
        axes = tuple(number for number, group in enumerate(self.groups) if any(steps[axis] for axis in group))
        key = tuple(slice(None) if steps[axis + offset] else 0 for axis in range(len(value.shape)))
        whole = all(part == slice(None) or value.shape[axis] == 1 for axis, part in enumerate(key))
        lengths, strides = [tuple(found[axis] for axis in axes) for found in (self.lengths, self._strides(steps))]
        row_major = all(s == value.dtype.itemsize * prod(lengths[n + 1 :]) for n, s in enumerate(strides))
        return Operand(axes, None if whole else key, lengths, row_major)

    def _strides(self, steps: Sequence[int]) -> list[int]:
        """Return the stride of an operand, in bytes, along each of the loop's axes."""
        return [steps[group[-1]] for group in self.groups]

    def last_stride(self, value: Value) -> int:
        """Return the stride of an operand, in bytes, along the loop's last axis."""
        return strides_in(value, self.shape)[self.groups[-1][-1]]

    def reduces(self, axes: frozenset[int]) -> tuple[int, ...]:
        """Return the loop's axes that a sum reduces."""
        return tuple(number for number, group in enumerate(self.groups) if group[0] in axes)


def strides_in(value: Value, shape: tuple[int, ...]) -> list[int]:
    """Return the stride of a value, in bytes, along each axis of a shape that it is broadcast to."""
    offset = len(shape) - len(value.shape)
    steps = [0] * offset
    for axis, (length, stride) in enumerate(zip(value.shape, value.strides, strict=True)):
        steps.append(0 if length == 1 or shape[axis + offset] == 1 else stride)
    return steps


def fits(value: Value, shape: tuple[int, ...]) -> bool:
    """Return whether a value can be broadcast to a shape without extending the shape."""
    if len(value.shape) > len(shape):
        return False
    try:
        return np.broadcast_shapes(value.shape, shape) == shape
    except ValueError:
        return False
