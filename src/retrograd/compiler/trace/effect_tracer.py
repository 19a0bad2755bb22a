"""The part of a tracer that writes effects: changes to Tensors from outside, gradients, and steps of optimizers.

It also gives the calls of a primitive to the follower of Python loops, which records them before any other effect.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from threading import get_ident
from typing import Any, Protocol

from ...core.arrays import Array
from ...core.arrays.devices import Wrapping, backend_of, is_array
from ...core.graph.nodes import Node
from ...core.graph.observers import Observer
from ...core.graph.primitive import Primitive
from ...core.tensor.storage import is_saved, is_writable, unshare
from ...core.tensor.tensor import Tensor, is_dense
from ..program import Arguments, Function, Instruction, Keywords, Program, Source, Value
from .effects import Outside, clear_grad, give_array, run_step, set_grad
from .trace_modes import tracing_paused
from .traced_arrays import Number, Traced
from .untrace import is_real


class Bypassed(BaseException):
    """The function needs the steps of a loop that was followed one by one.

    For example, it differentiates with respect to a result on which later steps depend, although no node refers to it.
    If a step has raised an error, that is the cause.

    Not an Exception, so that ``except Exception`` in the function does not catch it.
    """


class Follower(Protocol):
    """The part of ``loops/following`` that the tracer uses."""

    def note(
        self,
        primitive: Primitive,
        inputs: Arguments,
        params: Keywords,
        outputs: Sequence[Tensor],
        before: int,
        site: object,
    ) -> None:
        """Log a call that the program has recorded."""

    def settle(self) -> None:
        """Record the loop that is being followed."""

    def interrupt(self) -> None:
        """Record the loop that is being followed, and forget the calls before."""

    def numbers_of(self, x: Traced) -> Array:
        """Return the array of a result of a loop that is being followed."""


class EffectTracer(Observer):
    """A tracer's Tensors from outside, and the effects on them.

    Attributes:
        outside: the Tensors from outside that the function reads, by their ids.
        arguments: the index among the argument leaves, by the id of the Tensor.
        broken: why there is no program; empty if there is one.
        follower: follows the steps of a Python loop without recording them.
        follow: returns the result of a call of the loop that is being followed, NotImplemented for another call; None
            if no loop is being followed.
        has_followed: whether the follower has recorded a loop.
        bypassed: nodes of results on which a loop that was followed depends, too.
    """

    def __init__(self) -> None:
        self.program = Program()
        self.outside: dict[int, Outside] = {}
        self.arguments: dict[int, int] = {}
        self._holders: dict[int, Value] = {}
        self._allocations: dict[int, Value] = {}  # memory of GPU Tensors, whose views may not know their base
        self._busy = 0
        self._thread = get_ident()
        self.broken = ""
        self.follower: Follower | None = None
        self.follow: Callable[[Primitive, Arguments, Keywords], object] | None = None
        self.has_followed = False
        self.bypassed: set[Node] = set()

    @property
    def tracing(self) -> bool:
        """Whether the operations of this thread now become instructions."""
        raise NotImplementedError

    def breaks(self, reason: str) -> None:
        """End the trace without a program."""
        raise NotImplementedError

    def _value(self, array: Array, root: Value | None = None) -> Value:
        """Return a new value for an array."""
        raise NotImplementedError

    def _traced(self, array: Array, node: Value) -> Traced:
        """Return the Traced array of a value."""
        raise NotImplementedError

    def _append(self, instruction: Instruction) -> None:
        raise NotImplementedError

    def settle(self) -> None:
        """Record the loop that is being followed. Call this before recording or reading anything else."""
        if self.follower is not None and get_ident() == self._thread:
            self.follower.settle()

    def computed(self, x: Traced) -> Array:
        """Return the real array of a result that is not recorded yet; called on threads other than the trace's."""
        assert self.follower is not None
        return self.follower.numbers_of(x)

    def departed(self, x: Tensor, how: str, result: Tensor | None) -> None:
        if how == "detach_" and self.follower is not None:
            self.follower.interrupt()

    def began(self) -> None:
        self.settle()
        if any(node.hooks is not None or node.plan.node_hooks is not None for node in self.bypassed):
            raise Bypassed

    def seeks(self, wanted: set[object]) -> None:
        """Record that a backward pass computes the gradients of these nodes and leaves."""
        if self.bypassed and not self.bypassed.isdisjoint(wanted):
            raise Bypassed

    def depends_on_elements(self, x: object) -> bool:
        """Return whether a value, such as the condition of ``cond``, is known only when the program runs."""
        array: object = x.array if isinstance(x, Tensor) else x
        while isinstance(array, Wrapping) and type(array) is not Traced:
            array = array.value.array
        return type(array) in (Traced, Number)

    def has_acted(self) -> bool:
        """Return whether the call so far has changed, or may have changed, an object that exists without the call."""
        outer = {value.root for value, _ in self.program.inputs}
        return bool(self.broken) or any(
            step.kind in ("draw", "effect") or any(value.root in outer for value in step.writes)
            for step in self.program.instructions
        )

    def lift(self, x: Tensor, source: Source | None = None) -> None:
        """Make the Tensor's array Traced, so that the program reads it."""
        array = x.array
        if type(array) is Traced or not self.tracing:
            return
        if not is_real(array):
            if is_array(array):
                if self.has_followed and not self.has_acted():
                    raise Bypassed  # no rule maps a loop that is one instruction; steps are mapped one by one
                if not isinstance(array, Wrapping):
                    self.breaks(f"an array of type {type(array).__name__} cannot be traced")
            return
        if id(x) in self.outside:
            self.breaks("the memory of a Tensor from outside of the function was replaced")
            return
        node = self._value(array)
        self.outside[id(x)] = Outside(x, node)
        if node.on_gpu:
            self._allocations[id(backend_of(array).allocation(array))] = node.root
        x.array = self._traced(array, node)
        self.program.inputs.append((node, source or ("tensor", x)))

    def lift_grad(self, leaf: Tensor) -> None:
        """Make the array of a leaf's gradient Traced."""
        if leaf._grad is None:
            return
        if leaf._grad.is_dense:
            self.lift(leaf._grad, ("grad", leaf))
        else:
            self.breaks("it uses a sparse gradient")

    def lift_nest(self, nest: Any) -> None:
        """Lift the Tensors in the arguments of a call."""
        if is_dense(nest):
            self.lift(nest)
        elif type(nest) in (tuple, list):
            for item in nest:
                self.lift_nest(item)
        elif type(nest) is dict:
            for item in nest.values():
                self.lift_nest(item)

    def reads_grad(self, leaf: Tensor) -> None:
        """Record that the function reads ``leaf.grad``: a guard checks whether a gradient from before exists."""
        self.settle()
        if self.tracing:
            self.lift(leaf)
            self.lift_grad(leaf)
            entry = self.outside.get(id(leaf))
            if entry is not None and leaf._grad is entry.start_grad and not (entry.accumulated or entry.cleared):
                entry.read = True

    def clears(self, leaf: Tensor, to_none: bool = True) -> None:
        """Record that the gradient of a leaf is about to be set."""
        self.settle()
        if self.tracing:
            self.lift(leaf)
            entry = self.outside.get(id(leaf))
            if not to_none:
                self.lift_grad(leaf)
            elif entry is not None and not entry.accumulated:
                entry.cleared = True
                self.program.cleared = len(self.program.instructions)

    def sync(self) -> None:
        """Append effects for the changes to Tensors from outside: new memory and new gradients."""
        self.settle()
        if not self.tracing:
            return
        for entry in list(self.outside.values()):
            x, array = entry.tensor, entry.tensor.array
            if type(array) is not Traced:
                self.breaks("the memory of a Tensor from outside of the function was replaced")
            elif array.node is not entry.node:
                self._effect(give_array, (self._holder(x), array.node))
                entry.node = array.node
            grad = x._grad
            if grad is entry.grad and not (entry.cleared and grad is None):
                continue
            if grad is None:
                self._effect(clear_grad, (self._holder(x),))
            elif not grad.is_dense or type(grad.array) is not Traced:
                self.breaks("an untraced gradient was assigned to a Tensor from outside of the function")
            else:
                self._effect(set_grad, (self._holder(x), grad.array.node))
            entry.grad = grad

    def _holder(self, x: Tensor) -> Any:
        """Return the representation of a Tensor object in an effect: the Tensor, or an input if it is an argument."""
        index = self.arguments.get(id(x))
        if index is None:
            return x
        holder = self._holders.get(index)
        if holder is None:
            holder = self._holders[index] = self.program.value(None)
            self.program.inputs.append((holder, ("object", index)))
        return holder

    def _effect(self, function: Function, args: Arguments) -> Instruction:
        instruction = Instruction("effect", function, args)
        self._append(instruction)
        return instruction

    def takes_over(self, optimizer: Any, step: Function, args: object, kwargs: Keywords) -> bool:
        """Append an optimizer's step as one effect: a replay runs the optimizer with its current options."""
        self.settle()
        if not self.tracing:
            return False
        if args or kwargs:
            self.breaks("an optimizer's step has arguments, such as a closure")
            return False
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        for p in parameters:
            self.lift(p)
            self.lift_grad(p)
            if p._grad is not None and (is_saved(p) or not is_writable(p.array)):
                unshare(p, keep_values=True)  # a live graph needs the old values; the step would copy them untraced
        if not self.tracing:
            return False
        self.sync()
        tensors = [x for p in parameters for x in (p, p._grad) if x is not None]
        before = [x.array for x in tensors]
        self._busy += 1
        try:
            self._step_untraced(optimizer, step, tensors)
        finally:
            self._busy -= 1
            for x, array in zip(tensors, before, strict=True):
                if type(array) is Traced and x.array is array.numbers:
                    x.array = array
                elif x.array is not array:
                    self.breaks("an optimizer replaced the memory of a parameter")
        if self.tracing:
            nodes = [array.node for array in before if type(array) is Traced]
            instruction = self._effect(run_step, (optimizer, step))
            instruction.give((optimizer, step, tuple(nodes)), {})
            instruction.writes = tuple([p.array.node for p in parameters if type(p.array) is Traced])
        return True

    def _step_untraced(self, optimizer: object, step: Function, tensors: list[Tensor]) -> None:
        for x in tensors:
            if type(x.array) is Traced:
                x.array = x.array.numbers
        with tracing_paused(self):
            step(optimizer)

    def acts(self, function: Function, args: Arguments) -> bool:
        """Run a function that only changes Python objects, such as a schedule, now and in each replay."""
        self.settle()
        if not self.tracing:
            return False
        self.sync()
        self._busy += 1
        mode = tracing_paused(self)
        try:
            with mode:
                function(*args)
        finally:
            self._busy -= 1
        self._effect(function, args)
        return True
