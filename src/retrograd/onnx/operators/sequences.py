"""Sequences of Tensors, and optional values."""

from __future__ import annotations

import numpy as np

from ... import _generated
from ...core.tensor.tensor import Tensor
from ..table import Attributes, constant, ints, operator

rg = _generated.toplevel


@operator("SequenceConstruct")
def construct(at: Attributes, *xs: Tensor) -> list[Tensor]:
    return list(xs)


@operator("SequenceEmpty")
def empty(at: Attributes) -> list[Tensor]:
    return []


@operator("SequenceAt")
def at_place(at: Attributes, xs: list[Tensor], place: Tensor) -> Tensor:
    return xs[int(place.item())]


@operator("SequenceLength")
def length(at: Attributes, xs: list[Tensor]) -> Tensor:
    return constant(len(xs), np.int64)


@operator("SequenceInsert")
def insert(at: Attributes, xs: list[Tensor], x: Tensor, place: Tensor | None = None) -> list[Tensor]:
    where = len(xs) if place is None else int(place.item())
    where = where + len(xs) if where < 0 else where
    return [*xs[:where], x, *xs[where:]]


@operator("SequenceErase")
def erase(at: Attributes, xs: list[Tensor], place: Tensor | None = None) -> list[Tensor]:
    where = (-1 if place is None else int(place.item())) % len(xs)
    return [*xs[:where], *xs[where + 1 :]]


@operator("ConcatFromSequence")
def concat(at: Attributes, xs: list[Tensor]) -> Tensor:
    return (rg.stack if at("new_axis", 0) else rg.cat)(xs, at("axis"))


@operator("SplitToSequence")
def split(at: Attributes, x: Tensor, sizes: Tensor | None = None) -> list[Tensor]:
    axis = at("axis", 0)
    if sizes is None:
        parts = rg.split(x, 1, axis)
        return [part if at("keepdims", 1) else part.squeeze(axis) for part in parts]
    return list(rg.split(x, ints(sizes) if sizes.ndim else int(sizes.item()), axis))


@operator("Optional")
def optional(at: Attributes, x: object = None) -> object:
    return x


@operator("OptionalHasElement")
def has_element(at: Attributes, x: object = None) -> Tensor:
    return constant(x is not None, bool)


@operator("OptionalGetElement")
def get_element(at: Attributes, x: object) -> object:
    return x
