"""Leaves of the arguments of loops: conversion to Tensors, and comparison between steps."""

from __future__ import annotations

from typing import Any

from ...core.arrays.dtypes import INEXACT, is_array_or_number
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor
from ..nests import Mismatch, Structure, flatten


def tensors_of(caller: str, nest: object, name: str) -> tuple[list[Tensor], Structure]:
    """Return the leaves of an argument as Tensors, and its structure.

    Raises:
        TypeError: a leaf is not a Tensor, an array or a number.
    """
    leaves, structure = flatten(nest)
    for place, leaf in enumerate(leaves):
        if not isinstance(leaf, Tensor):
            if not is_array_or_number(leaf):
                path = structure.paths(name)[place]
                raise TypeError(f"{caller}: {path} must be a Tensor, an array or a number, got {type(leaf).__name__}")
            leaves[place] = operand(leaf)
    return leaves, structure


def numbers_of(nest: object) -> list[bool]:
    """Return for each leaf whether it is a Python number, whose dtype follows the first step."""
    return [isinstance(leaf, (int, float, complex)) for leaf in flatten(nest)[0]]


class Carry:
    """The form of a carried value: its structure, and the shape and dtype of each leaf.

    Args:
        caller: the function's name, for errors.
        nest: the initial value.
        name: the name of the argument that is the initial value.
        function: how errors name the function that returns the next value.
    """

    def __init__(self, caller: str, nest: object, name: str, function: str) -> None:
        self.caller, self.name, self.function = caller, name, function
        self.leaves, self.structure = tensors_of(caller, nest, name)
        self._loose = numbers_of(nest)
        self._forms = [(x.shape, x.dtype) for x in self.leaves]

    @property
    def value(self) -> Any:
        """The initial value, as a nest of Tensors."""
        return self.structure.unflatten(self.leaves)

    def adopt(self, nest: object) -> None:
        """Convert Python numbers of the initial value to the dtypes that the first step returns."""
        if not self.loose or flatten(nest)[1] != self.structure:
            return
        for place, (loose, leaf) in enumerate(zip(self._loose, flatten(nest)[0], strict=True)):
            shape, now = self._forms[place]
            dtype = leaf.dtype if isinstance(leaf, Tensor) else now
            if loose and dtype != now:
                self.leaves[place] = self.leaves[place].to(dtype=dtype)
                self._forms[place] = shape, dtype

    @property
    def loose(self) -> bool:
        """Whether a leaf is a Python number, so that the first step decides its dtype."""
        return any(self._loose)

    def checked(self, nest: object) -> list[Tensor]:
        """Return the leaves of the next value, which must have the form of the initial one.

        Raises:
            TypeError: the structure, a shape or a dtype differs.
        """
        leaves, structure = flatten(nest)
        if structure is not self.structure and structure != self.structure:
            try:
                leaves = self.structure.leaves_of(nest, "carry")
            except Mismatch as error:
                raise TypeError(
                    f"{self.caller}: {self.function} must return a carry with the structure of {self.name}; {error}"
                ) from None
        for place, (leaf, form) in enumerate(zip(leaves, self._forms, strict=True)):
            if not isinstance(leaf, Tensor):
                leaf = leaves[place] = self._operand(leaf, place, form[1])
            if (leaf.array.shape, leaf.array.dtype) != form:
                raise self._differs(place, leaf)
        return leaves

    def _operand(self, leaf: object, place: int, dtype: Any) -> Tensor:
        if not is_array_or_number(leaf):
            path = self.structure.paths("carry")[place]
            raise TypeError(f"{self.caller}: {self.function} must return Tensors, got {path} = {type(leaf).__name__}")
        x = operand(leaf)
        return x.to(dtype=dtype) if isinstance(leaf, (int, float)) and dtype.kind in INEXACT else x

    def _differs(self, place: int, leaf: Tensor) -> TypeError:
        path = self.structure.paths("carry")[place]
        start = self.structure.paths(self.name)[place]
        return TypeError(
            f"{self.caller}: the carry must have the same shape and dtype in every step; {self.function} returned "
            f"{path} = {describe(leaf)}, but {start} is {describe(self.leaves[place])}; convert {start} or the result"
        )
