"""``Program``: a call of an operator as a function of its differentiable Tensors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.arrays.dtypes import FLOATING, INEXACT, as_dtype
from ..core.errors import describe
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.make.generators import manual_seed
from ..ops.table.registry import Operator
from .case import Call, Case, Fixed


def make_tensor(array: object) -> Tensor:
    """Return a Tensor on a copy of the array with the same memory layout."""
    return new_tensor(np.array(array, copy=True, order="K"))


@dataclass
class Program:
    """A call of an operator as a function of its differentiable Tensors.

    ``arrays`` are the floating and complex arrays of the call, in order; ``make`` turns an array into a Tensor.
    """

    operator: Operator
    case: Case
    call: Call
    arrays: list[Any]
    make: Callable[[Any], Tensor] = make_tensor

    def __call__(self, *tensors: Tensor) -> Any:
        if self.case.random:
            manual_seed(0)
        rest = iter(tensors)
        args = self._filled(self.call.args, rest)
        kwargs = {name: self._filled(value, rest) for name, value in self.call.kwargs.items()}
        return self.case.wrapped(self.operator.function)(*args, **kwargs)

    def _filled(self, value: object, rest: Iterator[Tensor]) -> Any:
        return replaced(value, lambda array, differentiated: next(rest) if differentiated else self.make(array))

    def inputs(self, requires_grad: bool = True) -> list[Tensor]:
        """Return new leaves with the call's values."""
        leaves = [self.make(array) for array in self.arrays]
        for leaf in leaves:
            leaf._requires = requires_grad
        return leaves

    def __str__(self) -> str:
        return self._description

    @cached_property
    def _description(self) -> str:
        shown = [replaced(value, lambda array, differentiated: array) for value in self.call.args]
        named = {name: replaced(value, lambda array, differentiated: array) for name, value in self.call.kwargs.items()}
        parts = [describe(value) for value in shown] + [f"{name}={describe(value)}" for name, value in named.items()]
        return f"{self.operator.qualified_name}({', '.join(parts)})"


_PLAIN = {bool, int, float, str, type(None)}


def replaced(value: object, change: Callable[[Any, bool], object]) -> Any:
    """Return an argument with every array replaced by ``change(array, differentiated)``."""
    if type(value) in _PLAIN:
        return value
    if type(value) is np.ndarray:
        return change(value, value.dtype.kind in INEXACT)
    if isinstance(value, Fixed):
        return change(value.array, False)
    if isinstance(value, np.inexact):
        value = np.asarray(value)  # arithmetic on 0-d arrays gives NumPy scalars
    if isinstance(value, np.ndarray):
        return change(value, value.dtype.kind in INEXACT)
    if isinstance(value, (list, tuple)):
        items = [replaced(item, change) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


def programs(operator: Operator, case: Case, *, edges: bool = False, seed: int = 0) -> Iterator[Program]:
    """Yield the calls of a case, or its ``edge_calls``, as programs."""
    calls = case.edge_calls if edges else case.calls
    for call in () if calls is None else calls(np.random.default_rng(seed)):
        yield program_of(operator, case, call)


def program_of(operator: Operator, case: Case, call: Call, make: Callable[[Any], Tensor] = make_tensor) -> Program:
    arrays: list[Any] = []

    def collect(array: Array, differentiated: bool) -> Array:
        if differentiated:
            arrays.append(array)
        return array

    replaced(tuple(call.args), collect)
    for value in call.kwargs.values():
        replaced(value, collect)
    return Program(operator, case, call, arrays, make)


def cast(call: Call, dtype: Any) -> Call:
    """Return the call with its floating arrays cast to another precision, fixed ones included."""
    dtype = as_dtype(dtype)
    parts = {"bfloat16": "complex64", "float16": "complex64", "float32": "complex64", "float64": "complex128"}

    def change(array: Any, differentiated: bool) -> Any:
        kind = array.dtype.kind
        if kind not in INEXACT:
            return array
        narrow = array.astype(dtype if kind in FLOATING else parts[dtype.name])
        return narrow if differentiated else Fixed(narrow)

    return rewritten(call, change)


def rewritten(call: Call, change: Callable[[Any, bool], object]) -> Call:
    """Return the call with ``change`` applied to its arrays."""

    def change_and_fix(array: Array, differentiated: bool) -> Any:
        changed = change(array, differentiated)
        return (
            Fixed(changed)
            if not differentiated and isinstance(changed, np.ndarray) and changed.dtype.kind in INEXACT
            else changed
        )

    args = [replaced(value, change_and_fix) for value in call.args]
    return Call(*args, **{name: replaced(value, change_and_fix) for name, value in call.kwargs.items()})
