"""What an elementwise instruction computes from one element of each operand, as an expression of Python's."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from .program import Instruction, Method, Value
from .traced import Traced
from .tracer import Tracer, tracing_with

# By ufunc or operator; ``{0}`` is the first operand. Comparisons and ``&|~`` give bools.
_FORMS: dict[Any, str] = {
    np.add: "({0} + {1})", np.subtract: "({0} - {1})", np.multiply: "({0} * {1})", np.true_divide: "({0} / {1})",
    np.negative: "(-{0})", np.square: "({0} * {0})", np.sqrt: "np.sqrt({0})", np.absolute: "abs({0})",
    np.maximum: "({0} if {0} >= {1} or {0} != {0} else {1})", np.minimum: "({0} if {0} <= {1} or {0} != {0} else {1})",
    np.less: "({0} < {1})", np.less_equal: "({0} <= {1})", np.greater: "({0} > {1})",
    np.greater_equal: "({0} >= {1})", np.equal: "({0} == {1})", np.not_equal: "({0} != {1})",
    np.logical_not: "(not {0})", np.logical_and: "({0} and {1})", np.logical_or: "({0} or {1})",
    np.where: "({1} if {0} else {2})",
    operator.add: "({0} + {1})", operator.sub: "({0} - {1})", operator.mul: "({0} * {1})",
    operator.truediv: "({0} / {1})", operator.neg: "(-{0})", operator.abs: "abs({0})",
    operator.lt: "({0} < {1})", operator.le: "({0} <= {1})", operator.gt: "({0} > {1})", operator.ge: "({0} >= {1})",
    operator.eq: "({0} == {1})", operator.ne: "({0} != {1})",
}  # fmt: skip
_PRIMITIVES = {"keep": "({0} if {1} else zero)", "keep_where_not_zero": "({0} if {1} != zero else zero)"}
# Of single precision, by the name of the kernel; in double precision NumPy's functions, which Numba knows.
_LOOPS = {"exp": "_exp({0})", "tanh": "_tanh({0})", "sigmoid": "_sigmoid({0})", "erf": "_erf({0})"}
_DOUBLE = {"exp": "np.exp({0})", "tanh": "np.tanh({0})"}
_DOUBLE_UFUNCS = {np.exp: "np.exp({0})", np.tanh: "np.tanh({0})", np.log: "np.log({0})", np.log1p: "np.log1p({0})"}

Form = tuple[str, tuple[Any, ...]]


def expression(instruction: Instruction, dtype: Any) -> Form | list[Instruction] | None:
    """The expression and its operands; or the instructions that it stands for; None where it is not elementwise."""
    if instruction.writes or instruction.several or instruction.checks or len(instruction.outs) != 1:
        return None
    function, primitive = instruction.function, instruction.primitive
    args = instruction.args
    if instruction.kwargs and primitive is None:
        return None
    if isinstance(function, Method):
        return None
    if primitive is not None:
        if not primitive.elementwise or primitive.view:
            return None
        if primitive.name in _PRIMITIVES:
            return _PRIMITIVES[primitive.name], (*args, *instruction.kwargs.values())
        if primitive.ufunc is not None:
            function = next((cell for cell in _wrapped(primitive.forward) if isinstance(cell, np.ufunc)), function)
    form = _FORMS.get(function) if _hashable(function) else None
    if form is not None and not instruction.kwargs:
        return form, args
    if dtype == np.float64 and _hashable(function) and function in _DOUBLE_UFUNCS:
        return _DOUBLE_UFUNCS[function], args
    loop = next((name for cell in _wrapped(function) if (name := getattr(cell, "loop", None))), None)
    if loop is not None and len(args) == 1:
        table = _LOOPS if dtype == np.float32 else _DOUBLE
        if loop in table:
            return table[loop], args
    if loop is not None or primitive is not None:
        return expanded(instruction)
    return None


def _hashable(function: Any) -> bool:
    return type(function).__hash__ is not None


def _wrapped(function: Any) -> list[Any]:
    """A function, and what it is a wrapper of."""
    found = [function]
    while len(found) < 8:
        inner = getattr(found[-1], "__wrapped__", None)
        if inner is None:
            cells = [cell.cell_contents for cell in getattr(found[-1], "__closure__", None) or ()]
            inner = next((x for x in cells if callable(x)), None)
        if inner is None:
            break
        found.append(inner)
    return found


def expanded(instruction: Instruction) -> list[Instruction] | None:
    """The instructions of NumPy's functions that a primitive's forward, or a kernel's reference, consists of."""
    function = instruction.function
    reference: Callable[..., Any] = function
    for candidate in _wrapped(function):
        if getattr(candidate, "loop", None):
            reference = (
                candidate.__wrapped__.__wrapped__ if hasattr(candidate.__wrapped__, "__wrapped__") else candidate
            )
            break
    tracer = Tracer(strict=False)
    given: list[Any] = []
    for x in instruction.args:
        if isinstance(x, Value):
            if x.shape is None:
                return None
            stand_in = np.ones((2,) if x.size != 1 else (), x.dtype)
            given.append(Traced(tracer, stand_in, x))
        else:
            given.append(x)
    named = dict(instruction.kwargs)
    if any(isinstance(x, Value) for x in named.values()):
        return None
    try:
        with tracing_with(tracer):
            result = reference(*given, **named)
    except Exception:
        return None
    steps = tracer.program.instructions
    if tracer.broken or type(result) is not Traced or not steps or steps[-1].outs != (result.node,):
        return None
    steps[-1].outs = instruction.outs
    return None if len(steps) == 1 and steps[0].function is function else steps
