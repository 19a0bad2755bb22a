"""Signatures of instructions, by which repeated blocks of a program are found.

Instructions with equal signatures perform one operation on values of the same shapes, dtypes and layouts. A *loose*
signature omits what may depend on the number of the step: the first index of ``x[i, ...]``, and a plain number among
the operands of an elementwise operator.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from functools import partial
from types import FunctionType
from typing import Any

import numpy as np

from ...core.arrays import Array
from ..passes.constants import key_of
from ..program import Arguments, Instruction, Keywords, Value, replaced

MAX_PERIODS_TRIED = 12
MIN_EQUAL = 4  # minimum number of equal instructions that are replaced by one
_WINDOW = 8  # number of successive instructions that are compared to find periods
_OPEN = "depends on the step"
_INDEXED = frozenset(("index", "store", "place", "erase"))
_ARITHMETIC = frozenset((np.add, np.subtract, np.multiply, np.true_divide, np.maximum, np.minimum))


class Signatures:
    """Numbers for instructions, which are equal for equal signatures."""

    def __init__(self) -> None:
        self._codes: dict[object, int] = {}
        self._forms: dict[object, int] = {}  # the numbers are negative, unlike all other parts of a key
        self._functions: dict[int, tuple[object, object]] = {}  # the key of a function, by its id

    def of(self, step: Instruction, loose: bool = False) -> int:
        """Return the number of the instruction's signature."""
        args: Arguments = step.args
        kwargs: Keywords = step.kwargs
        if loose and (place := place_of_number(step)) is not None:
            if place[0] == "operand":
                args = tuple([_OPEN if type(x) is not Value else x for x in args])
            else:
                index = index_of(step)
                args = (*step.read, _OPEN, index[1:] if type(index) is tuple else ())
                kwargs = {name: x for name, x in kwargs.items() if name != "index"}
        function = step.function
        whole = type(function) in (FunctionType, partial)
        key: list[object] = [step.kind, self._function(function) if whole else id(function)]
        for x in args:
            key.append(self._form(x) if type(x) is Value else self._key(x))
        if kwargs:
            key += [(name, self._key(x)) for name, x in kwargs.items()]
        for value in step.outs:
            key.append(self._form(value))
            key.append(value.root is value)
        if step.several:
            key.append(step.paths)
        codes = self._codes
        return codes.setdefault(tuple(key), len(codes))

    def _form(self, value: Value) -> object:
        form = value.shape, value.dtype, value.strides
        found = self._forms.get(form)
        if found is None:
            found = self._forms[form] = -1 - len(self._forms)
        return found

    def _key(self, x: Any) -> object:
        kind = type(x)
        if kind is Value:
            return kind, self._form(x)
        if kind is int or kind is float or kind is bool:
            return kind, x, str(x) if not x else ""  # 0.0 is not -0.0
        if kind is tuple or kind is list or isinstance(x, tuple):
            return kind, tuple([self._key(item) for item in x])
        if kind is FunctionType:
            return self._function(x)
        return key_of(x, self._key_of_object)

    def _function(self, function: Any) -> object:
        if type(function) is partial:  # a new object in each call
            return partial, self._function(function.func), self._key(function.args), self._key(function.keywords)
        if type(function) is not FunctionType or not function.__closure__:
            return id(function)
        known = self._functions.get(id(function))
        if known is None:
            cells = [cell.cell_contents for cell in function.__closure__]
            keys = tuple(id(x) if callable(x) else self._key(x) for x in cells)
            known = self._functions[id(function)] = function, (function.__code__, function.__defaults__, keys)
        return known[1]

    def _key_of_object(self, nest: Any) -> object:
        kind = type(nest)
        if kind is Value:
            return "value", self._form(nest)
        if isinstance(nest, tuple):
            return self._key(nest)
        if isinstance(nest, (np.ndarray, np.generic)) and nest.nbytes <= 1 << 12:
            return kind, nest.shape, nest.dtype.str, nest.tobytes()
        if hasattr(kind, "with_key"):
            return kind, self._key(nest.key)
        return kind, self._function(nest)


def place_of_number(step: Instruction) -> tuple[str, Any] | None:
    """Return the kind and value of an instruction's number that may depend on the step.

    Returns:
        ``("index", i)`` for ``x[i, ...]``, ``("store", i)`` for ``x[i] = y``, ``("place", i)`` and ``("erase", i)`` for
        the gradients of these; ``("operand", number)`` for an elementwise operator; else None.
    """
    index = index_of(step)
    if index is not None:
        first = index[0] if type(index) is tuple and index else index
        rest = index[1:] if type(index) is tuple else ()
        if type(first) is not int:
            return None
        if all(k is Ellipsis or _is_full(k) for k in rest):
            return str(step.computes), first
        if step.computes == "index" and all(type(k) is int or k is Ellipsis or _is_full(k) for k in rest):
            return "index", first
        return None
    if len(step.args) == 2 and not step.kwargs and len(step.outs) == 1:
        function, a, b = step.elementary, *step.args
        arithmetic = isinstance(function, np.ufunc) and function in _ARITHMETIC
        if arithmetic and (type(a) is Value) is not (type(b) is Value):
            number, value = (b, a) if type(a) is Value else (a, b)
            if type(number) in (int, float) and value.shape is not None and value.dtype.kind == "f":
                return "operand", number
    return None


def _is_full(k: object) -> bool:
    return type(k) is slice and k == slice(None)


def index_of(step: Instruction) -> Any:
    """Return the index of ``x[index]`` and of similar instructions; None for others."""
    if step.computes not in _INDEXED or step.kind not in ("array", "primitive", "whole"):
        return None
    index = step.kwargs.get("index")
    if index is None and step.kind == "array" and len(step.args) > 1:
        index = step.args[1]
    return getattr(index, "key", index)


def likely_periods(codes: Array) -> list[int]:
    """Return likely periods: frequent distances between equal windows of codes."""
    hashes = _windows(codes)
    if len(hashes) < 2:
        return []
    order = np.argsort(hashes, kind="stable")
    equal = hashes[order][1:] == hashes[order][:-1]
    distances = Counter((order[1:] - order[:-1])[equal].tolist())
    return [period for period, _ in distances.most_common(MAX_PERIODS_TRIED) if period < len(codes)]


def count_distinct(instructions: Sequence[Instruction]) -> int:
    """Return the approximate number of instructions if each repeated block counts once."""
    signatures = Signatures()
    return len(np.unique(_windows(np.array([signatures.of(step, True) for step in instructions], np.int64))))


def without_equal(
    steps: Sequence[Instruction], codes: Sequence[int], gives: Sequence[Value]
) -> tuple[list[Instruction], list[int]]:
    """Remove instructions that repeat others, such as a computation of a loop invariant in each step.

    Fewer than ``MIN_EQUAL`` equal instructions stay: steps must not differ by chance.

    Args:
        steps: the instructions in their order.
        codes: the numbers of their signatures.

    Returns:
        The instructions that are left, and their codes.
    """
    fixed = {value.root for value in gives}  # memory that may change, or that the caller gets
    for step in steps:
        if step.writes:
            fixed.update([value.root for value in step.writes])
        if step.kind == "effect":
            fixed.update([value.root for value in step.read])
    groups: dict[tuple[int, ...], list[int]] = {}
    first_of: dict[Value, int] = {}  # the index of the first of the values that are equal to a value
    for number, (step, code) in enumerate(zip(steps, codes, strict=True)):
        pure = step.kind in _PURE and step.outs and step.read and not step.writes
        if pure and fixed.isdisjoint([value.root for value in (*step.read, *step.outs)]):
            key = code, step.run, *[first_of.get(value, value.index) for value in step.read]
            group = groups.setdefault(key, [])
            group.append(number)
            if len(group) > 1:
                first_of.update(zip(step.outs, [out.index for out in steps[group[0]].outs], strict=True))
    equal = {number: group[0] for group in groups.values() if len(group) >= MIN_EQUAL for number in group[1:]}
    if not equal:
        return list(steps), list(codes)
    same: dict[Value, Value] = {}
    left: list[Instruction] = []
    left_codes: list[int] = []

    def renamed(x: object) -> Any:
        return same.get(x, x) if type(x) is Value else x

    for number, (step, code) in enumerate(zip(steps, codes, strict=True)):
        first = equal.get(number)
        if first is not None:
            same.update(zip(step.outs, steps[first].outs, strict=True))
            continue
        if same and not same.keys().isdisjoint(step.read):
            step = step.changed(
                args=replaced(step.args, renamed),
                kwargs=replaced(step.kwargs, renamed),
                writes=tuple([same.get(value, value) for value in step.writes]),
            )
        for out in step.outs:
            if out.root in same:
                out.root = same[out.root]
        left.append(step)
        left_codes.append(code)
    return left, left_codes


_PURE = frozenset(("array", "primitive", "whole"))


def _windows(codes: Array) -> Array:
    """Return a hash of each window of successive codes."""
    factors = np.random.default_rng(0).integers(1, 1 << 62, _WINDOW, dtype=np.int64)
    count = max(len(codes) - _WINDOW + 1, 0)
    with np.errstate(over="ignore"):
        found: Array = sum(codes[k : k + count] * factors[k] for k in range(_WINDOW))
    return found


__all__ = ["Signatures", "count_distinct", "index_of", "likely_periods", "place_of_number", "without_equal"]
