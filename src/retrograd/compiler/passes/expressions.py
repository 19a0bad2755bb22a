"""Elementwise instructions as Python expressions of one element of each operand.

An expression performs NumPy's operations one by one, so that fusion changes no bit. Functions such as exp and tanh are
those of kernels/loops/elements/basic_loops.py if the eager operator runs the compiled loop; otherwise NumPy runs them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from ...kernels import USEFUL
from ...kernels.loops.elements.fused_steps import FUNCTIONS
from ...ops.nn.losses.classes import CROSS_ENTROPY
from ..program import Instruction, Method, Value, method, replaced
from ..trace.trace_modes import tracing_with
from ..trace.traced_arrays import Number, Traced
from ..trace.tracer import Tracer

# By ufunc. ``{0}`` is the first operand, ``{zero}`` a zero of the operands' dtype.
_ARITHMETIC: dict[object, str] = {
    np.add: "({0} + {1})", np.subtract: "({0} - {1})", np.multiply: "({0} * {1})", np.true_divide: "({0} / {1})",
    np.negative: "(-{0})", np.square: "({0} * {0})", np.sqrt: "sqrt({0})", np.absolute: "abs({0})",
    np.maximum: "({0} if {0} >= {1} or {0} != {0} else {1})", np.minimum: "({0} if {0} <= {1} or {0} != {0} else {1})",
}  # fmt: skip
_COMPARISONS: dict[object, str] = {
    np.less: "({0} < {1})", np.less_equal: "({0} <= {1})", np.greater: "({0} > {1})",
    np.greater_equal: "({0} >= {1})", np.equal: "({0} == {1})", np.not_equal: "({0} != {1})",
}  # fmt: skip
_LOGIC: dict[object, str] = {
    np.logical_not: "(not {0})", np.logical_and: "({0} and {1})", np.logical_or: "({0} or {1})",
    np.invert: "(not {0})", np.bitwise_and: "({0} and {1})", np.bitwise_or: "({0} or {1})",
}  # fmt: skip
_QUESTIONS = frozenset(("({0} != {0})", "({0} - {0} == {zero})", "({0} == {0} and {0} - {0} != {zero})"))
_FLOATS = (np.dtype(np.float32), np.dtype(np.float64))
_READ: frozenset[np.dtype] = frozenset((*_FLOATS, *map(np.dtype, (np.bool_, np.int64, np.int32, np.uint8))))
_BOOL = np.dtype(np.bool_)
_ASTYPE = method("astype")


class Capabilities(NamedTuple):
    """The operations and dtypes of compiled code.

    Attributes:
        functions: the forms other than arithmetic, by the names of ufuncs.
        real: the forms among them that do not accept integers.
        reads: the dtypes of operands.
        computes: the dtypes of computations.
        loops: whether elementwise functions may come from ``kernels/loops/elements/basic_loops.py``.
    """

    functions: Mapping[str, str]
    real: frozenset[str]
    reads: frozenset[np.dtype]
    computes: frozenset[np.dtype]
    loops: bool


PROCESSOR = Capabilities({}, frozenset(), _READ, frozenset(_FLOATS), True)


class Step(NamedTuple):
    """``out = form(operands)`` for each element, computed in ``dtype``; operands in ``tests`` are conditions."""

    out: Value
    form: str
    operands: tuple[object, ...]
    dtype: np.dtype
    tests: tuple[int, ...] = ()


def steps_of(instruction: Instruction, capabilities: Capabilities = PROCESSOR, depth: int = 0) -> list[Step] | None:
    """Return an instruction as steps of a loop, or None if it is not elementwise or not among the capabilities."""
    if instruction.writes or instruction.several or len(instruction.outs) != 1 or depth > 4:
        return None
    if instruction.checks and not keeps_shapes(instruction):
        return None
    (out,) = instruction.outs
    function, primitive, args = instruction.elementary, instruction.primitive, instruction.args
    if isinstance(function, Method):
        return _cast(instruction, capabilities) if function is _ASTYPE else None
    if primitive is not None and (not primitive.elementwise or primitive.view):
        return None
    if not instruction.kwargs and type(function).__hash__ is not None:
        if function in _ARITHMETIC:
            return _step(out, _ARITHMETIC[function], args, capabilities)
        if function in _COMPARISONS:
            return _step(out, _COMPARISONS[function], args, capabilities)
        if function in _LOGIC and all(isinstance(x, Value) and x.dtype == _BOOL for x in args):
            return [Step(out, _LOGIC[function], args, _BOOL)]
        if function is np.where and len(args) == 3:
            return _step(out, "({1} if {0} else {2})", args, capabilities, tests=(0,))
        if isinstance(function, np.ufunc) and function.__name__ in capabilities.functions:
            return _step(out, capabilities.functions[function.__name__], args, capabilities)
    looped = next((cell for cell in wrapped(function) if hasattr(cell, "loop")), None)
    if looped is not None and not instruction.kwargs and capabilities.loops and _runs_loop(args, out):
        if looped.loop not in FUNCTIONS:
            return None  # NumPy's operations in place of the loop would give other bits
        form = f"{looped.loop}({', '.join(f'{{{index}}}' for index in range(len(args)))})"
        return _step(out, form, args, capabilities)
    if looped is None and primitive is None:
        return None
    steps: list[Step] = []
    for inner in _expanded(instruction, function if looped is None else looped.reference):
        found = steps_of(inner, capabilities, depth + 1)
        if found is None:
            return None
        steps += found
    return steps or None


def keeps_shapes(instruction: Instruction) -> bool:
    """Return whether the shape of the result depends only on shapes, although the tracer set ``checks``."""
    function, primitive = instruction.function, instruction.primitive
    if primitive is not None:
        return bool(primitive.elementwise) or primitive is CROSS_ENTROPY
    return function is np.where and len(instruction.args) == 3 or function is _ASTYPE


def _runs_loop(args: tuple[object, ...], out: Value) -> bool:
    """Return whether the eager operator runs its compiled loop."""
    return out.size >= USEFUL and all(
        isinstance(x, Value) and x.dtype == np.float32 and x.shape == out.shape and row_major(x) for x in args
    )


def _step(
    out: Value, form: str, operands: tuple[object, ...], capabilities: Capabilities, tests: tuple[int, ...] = ()
) -> list[Step] | None:
    """Return the step in the dtype that NumPy computes in, or None."""
    kinds: list[Any] = []
    weak: list[Any] = []
    for index, x in enumerate(operands):
        if isinstance(x, Value):
            if x.shape is not None and x.dtype not in capabilities.reads or x.shape is None and x.dtype not in _WEAK:
                return None
        elif not isinstance(x, (bool, int, float)) and not (isinstance(x, (np.generic, np.ndarray)) and x.size == 1):
            return None
        if index in tests:
            if not isinstance(x, Value) or x.dtype != _BOOL:
                return None
        elif isinstance(x, Value):
            (kinds if x.shape is not None else weak).append(x.dtype if x.shape is not None else _WEAK[x.dtype])
        else:
            (kinds if isinstance(x, (np.generic, np.ndarray)) else weak).append(getattr(x, "dtype", x))
    if not kinds:
        return None
    try:
        dtype = np.result_type(*kinds, *weak)
    except OverflowError:
        return None
    if out.dtype.kind == "f" and dtype.kind in "biu" and form not in _COMPARISONS.values():
        dtype = out.dtype  # a quotient, or another real function, of integers
    compares = form in _COMPARISONS.values()
    if form in capabilities.real and dtype.kind != "f":
        return None
    if dtype not in capabilities.computes and not (compares and dtype in capabilities.reads and not weak):
        return None
    if out.dtype != dtype and not (out.dtype == _BOOL and (compares or form in _QUESTIONS)):
        return None
    return [Step(out, form, operands, dtype, tests)]


_WEAK: dict[object, object] = {bool: True, int: 0, float: 0.5}


def _cast(instruction: Instruction, capabilities: Capabilities) -> list[Step] | None:
    """Return the step of ``x.astype(dtype)``, or None."""
    (out,) = instruction.outs
    x = instruction.args[0]
    if instruction.view or out.dtype not in capabilities.computes or x.dtype not in capabilities.reads:
        return None
    if len(instruction.args) != 2 or set(instruction.kwargs) - {"copy"}:
        return None
    return [Step(out, "{0}", (x,), out.dtype)]


def row_major(value: Value) -> bool:
    """Return whether the elements are contiguous in row-major order."""
    step = value.dtype.itemsize
    for length, stride in zip(reversed(value.shape), reversed(value.strides), strict=True):
        if length > 1 and stride != step:
            return False
        step *= length
    return True


def wrapped(function: object) -> list[Any]:
    """Return a function followed by the functions that it wraps."""
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


def _expanded(instruction: Instruction, reference: Callable[..., object]) -> list[Instruction]:
    """Return the NumPy instructions of a forward, or of a kernel's reference; empty if they are unknown."""
    tracer = Tracer(strict=False)

    def given(x: object) -> Any:
        if not isinstance(x, Value):
            return x
        if x.shape is None:
            return Number(tracer, x.dtype(1), x)
        return Traced(tracer, np.ones((2,) if x.size != 1 else (), x.dtype), x)

    try:
        with tracing_with(tracer):
            result = reference(*map(given, instruction.args), **replaced(instruction.kwargs, given))
    except Exception:
        return []
    steps = tracer.program.instructions
    if tracer.broken or type(result) is not Traced or not steps or steps[-1].outs != (result.node,):
        return []
    if len(steps) == 1 and steps[0].function is instruction.function:
        return []
    steps[-1].outs = instruction.outs
    return steps
