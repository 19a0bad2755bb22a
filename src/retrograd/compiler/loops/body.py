"""Trace one step of a loop as a program of its own.

The step runs once, on arrays of a separate tracer, while the enclosing trace is suspended. Everything that it reads
from outside, Tensors as well as arrays and numbers of the enclosing trace, becomes an input of the step's program.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.graph.modes import enable_grad, modes, no_grad
from ...core.tensor.tensor import Tensor, new_tensor
from ..program import Instruction, Program, Value
from ..trace.effects import Outside
from ..trace.trace_modes import tracing_with
from ..trace.traced_arrays import Number, Traced
from ..trace.tracer import Tracer
from ..trace.untrace import as_real

Leaves = list[Tensor]
StepFunction = Callable[[Leaves, Leaves, Leaves], tuple[Sequence[object], Sequence[object]]]
MAX_OPERATORS = 10_000  # maximum number of operators of one step


class Unrollable(BaseException):
    """Ends the trace of a step that cannot be compiled once, before it has acted on anything outside.

    Not an Exception, so that ``except Exception`` in the step does not catch it.
    """


class BodyTracer(Tracer):
    """The tracer of a step. ``found`` has the outside objects that the step reads, and their values in the program."""

    def __init__(self, enclosing: Tracer) -> None:
        super().__init__(False, MAX_OPERATORS)
        self.roll = enclosing.roll
        self.found: list[tuple[object, Value]] = []
        self._known_outside: dict[int, Value] = {}
        self._enclosing_arrays: list[tuple[Tensor, Array]] = []

    def breaks(self, reason: str) -> None:
        if self.tracing:
            self.broken = reason
            raise Unrollable

    def call(
        self,
        function: Callable[..., object],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        writes: tuple[object, ...] = (),
        kind: str = "",
        primitive: object = None,
    ) -> Any:
        if kind == "draw":
            self.breaks("the body of a loop draws random numbers")
        if writes and self.tracing:
            inputs = {value.root for value, _ in self.program.inputs}
            if any(type(x) is Traced and (x.tracer is not self or x.node.root in inputs) for x in writes):
                self.breaks("the body of a loop writes to its arguments or to a Tensor from outside")
        return super().call(function, args, kwargs, writes, kind, primitive)

    def read_number(self, number: object) -> object:
        self.breaks("the body of a loop decides by elements of a Tensor")
        return super().read_number(number)

    def takes_over(
        self, optimizer: object, step: Callable[..., object], args: object, kwargs: dict[str, object]
    ) -> bool:
        self.breaks("the body of a loop runs an optimizer")
        return False

    def acts(self, function: Callable[..., object], args: tuple[object, ...]) -> bool:
        self.breaks("the body of a loop changes a schedule")
        return False

    def lift(self, x: Tensor, source: tuple[str, object] | None = None) -> None:
        array = x.array
        if not self.tracing or type(array) is Traced and array.tracer is self:
            return
        real = as_real(array)
        if type(real) is not np.ndarray:
            self.breaks(f"an array of type {type(real).__name__} in the body of a loop")
            return
        real = np.asarray(real, order="C")
        node = self._value(real)
        entry = Outside(x, node)
        self.outside[id(x)] = entry
        self._enclosing_arrays.append((x, array))
        self.found.append((x, node))
        self.program.inputs.append((node, ("outside", x)))
        x.array = Traced(self, real, node)

    def restore(self) -> None:
        """Restore the arrays of Tensors from outside."""
        self.finish()
        for x, array in self._enclosing_arrays:
            x.array = array

    def _node_of(self, x: Any) -> Value:
        if type(x) in (Traced, Number) and x.tracer is not self:
            node = self._known_outside.get(id(x))
            if node is None:
                real = x.numbers if type(x) is Number else np.asarray(x.numbers, order="C")
                node = self._known_outside[id(x)] = self._value(real)
                self.found.append((x, node))
                self.program.inputs.append((node, ("outside", x)))
            return node
        return super()._node_of(x)


class Body:
    """The program of a step.

    Attributes:
        program: its inputs are in the order of carries, slices, constants, and what was ``found`` outside; all are
            arrays in row-major order, or numbers.
        found: the Tensors, arrays and numbers from outside that the step reads, other than the constants. They belong
            to the enclosing trace, so the caller clears the list.
        carries, results: the values of the next carry and of the results.
        forms: shape and dtype of each result.
    """

    def __init__(self, program: Program, found: list[object], carries: list[Value], results: list[Value]) -> None:
        self.program, self.found, self.carries, self.results = program, found, carries, results
        self.forms = [(value.shape or (), np.dtype(value.dtype)) for value in results]


def trace_body(
    step: StepFunction,
    enclosing: Tracer,
    carry: Sequence[Array],
    x: Sequence[Array],
    constants: Sequence[Array],
    differentiates: bool = False,
) -> Body | str:
    """Trace a step on real arrays; if it cannot be traced, return the reason.

    Args:
        step: a function of the leaves of carry, slice and constants, which returns the leaves of the next carry
            and of the results.
        enclosing: the tracer of the function that runs the loop.
        carry, x, constants: arrays like those of each step.
        differentiates: whether the step computes derivatives itself.
    """
    tracer = BodyTracer(enclosing)
    program = tracer.program

    def taken(arrays: Sequence[Array]) -> Leaves:
        made = []
        for array in arrays:
            array = np.array(array, order="C")
            node = tracer._value(array)
            program.inputs.append((node, ("given", None)))
            made.append(new_tensor(Traced(tracer, array, node)))
        return made

    enclosing.suspended, before = tracer, enclosing.suspended
    mode = enable_grad() if differentiates else no_grad()
    carries: list[Value] = []
    results: list[Value] = []
    # A loop's derivative may be traced inside vmap, but its step handles one example, outside of any vmap.
    level, modes.level = modes.level, None
    try:
        with tracing_with(tracer), mode:
            given = taken(carry), taken(x), taken(constants)
            arrays = [t.array for leaves in given for t in leaves]
            following, ys = step(*given)
            for leaves, values in ((following, carries), (ys, results)):
                for leaf in leaves:
                    values.append(_result(tracer, leaf))
            tracer.sync()
        if any(t.array is not array for t, array in zip((t for leaves in given for t in leaves), arrays, strict=True)):
            tracer.broken = tracer.broken or "the body of a loop writes to its arguments"
    except Unrollable:
        return tracer.broken
    finally:
        modes.level = level
        tracer.restore()
        enclosing.suspended = before
    del given, arrays, following, ys, leaves
    leaf = None  # the last reference to a Tensor of the step
    tracer.look_for_escapes()
    why = tracer.broken or _unsuitable(program)
    found = [x for x, _ in tracer.found]
    program.inputs = [(value, (kind, None if kind == "outside" else what)) for value, (kind, what) in program.inputs]
    return why or Body(program, found, carries, results)


def _result(tracer: BodyTracer, leaf: object) -> Value:
    """Return the value of a leaf that the step returns; a constant becomes an input."""
    array = leaf.array if isinstance(leaf, Tensor) else leaf
    if type(array) in (Traced, Number):
        return tracer._node_of(array)
    array = np.asarray(array)
    node = tracer.program.value(array)
    tracer.program.inputs.append((node, ("constant", array.copy())))
    return node


def _unsuitable(program: Program) -> str:
    """Return why the steps of a program cannot be a loop; empty if they can."""
    for step in program.instructions:
        if step.kind in ("guard", "draw", "effect"):
            return f"the body of a loop has an instruction of the kind {step.kind!r}"
        if step.on_gpu:
            return "the body of a loop runs on a GPU"
    return ""


__all__ = ["Body", "Instruction", "trace_body"]
