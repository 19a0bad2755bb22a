"""Run a function on Traced arrays and write its program.

The tracer is an observer of its thread, and primitives, random generators and ``whole`` functions call it there
(``modes.tracer``). A Tensor from outside of the function is lifted when the function first reads it: its array becomes
Traced until the trace is over. An operation that cannot be traced breaks the trace, and the call ends as an eager call.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from types import BuiltinFunctionType, FunctionType, MethodType
from typing import Any
from weakref import ref

import numpy as np

from ...core.arrays import Array
from ...core.arrays.bfloat16 import write_for
from ...core.arrays.devices import Backend, Device, backend_of, is_array
from ...core.graph.nodes import reachable
from ...core.graph.observers import Given
from ...core.source_location import Site, user_site
from ...core.tensor.storage import Storage, Token
from ...core.tensor.tensor import Tensor, is_dense
from ...kernels.runtime.result_arrays import noted
from ..program import Arguments, Asked, Function, Instruction, Keywords, Method, Value, replaced, shaped_by_values
from .checkpoint_replay import CheckpointRuns
from .derivative_rules import Rules, Whole
from .effect_tracer import EffectTracer
from .escapes import ESCAPED, replace_by_real
from .numpy_scalars import as_array
from .traced_arrays import Number, Traced, TracedModule, is_metadata_function
from .untrace import (
    as_real,
    called_by_user,
    is_real,
    kind_of,
    lies_in,
    owner_of,
    same_number,
    separated,
    untrace_in_place,
    unwrap,
)  # fmt: skip

OTHER_THREAD = "another thread works with an array or number of the function"
MAX_REPEATS = 100  # a trace has at most this many times the instructions that a program may have
_NUMBERS = (bool, int, float, complex)
_TOKEN = Token()
_UNKNOWN = -1
_ONE_RESULT = ((),)  # the paths of a result that is an array
_PLAIN = frozenset((type(None), str, bytes, bool, int, float, complex, np.dtype, type, slice, type(Ellipsis), Device))


_REQUESTS_NOTHING = (np.ufunc, BuiltinFunctionType, Method)  # types of functions that request no memory


class DataDependent(RuntimeError):
    """A compiled function reads elements of a Tensor as plain numbers, which a replay would repeat."""


class Tracer(EffectTracer):
    """One trace.

    Attributes:
        roll: makes a loop of the function one instruction (``compiler/loops``); None runs it step by step.
        distinct: returns the number of instructions without repetitions of blocks; None if all count.
        suspended: the tracer of a loop's body, while that runs.
    """

    roll: Function | None = None
    distinct: Callable[[Sequence[Instruction]], int] | None = None
    suspended: Tracer | None = None

    def __init__(self, strict: bool = True, longest: int = sys.maxsize, exact: frozenset[type] = frozenset()) -> None:
        super().__init__()
        self.strict = strict
        self.longest = self._limit = longest  # maximum number of instructions; repeated blocks count once
        self.exact = exact  # number types for which the function gets plain numbers and no Number
        self.too_long = False
        self.refusal: DataDependent | None = None  # an error that was raised, and that the function may catch
        self.has_numbers = False  # whether the function got a Number
        self.rules = Rules(self)
        self.traced_objects: list[ref[Any]] = []  # all Traced arrays and Numbers of the trace
        self.known: dict[int, Any] = {}  # NumPy arrays that the program reads by reference
        self.from_python: set[Value] = set()  # values that depend on outside numbers and large arrays, not on Tensors
        self.checkpoint_runs: CheckpointRuns | None = None  # the runs of the innermost checkpointed part
        self.checkpoint_reruns = 0
        self._roots: dict[int, tuple[ref[object], Value]] = {}
        self._sites: dict[int, Site] = {}  # the sites of nodes, by sequence number
        self._site: Any = None  # the site of the last instruction of the forward pass
        self._count = 0  # the number of instructions before the last call of a primitive
        self.loops: list[Any] = []  # the rolled loops
        self._node: Any = None
        self._active = True

    @property
    def tracing(self) -> bool:
        return (
            self._active
            and not self._busy
            and not self.broken
            and self.suspended is None
            and get_ident() == self._thread
        )

    def rolled(self, *loop: object) -> Any:
        """Return a function that runs the steps of a ``scan`` as one instruction, or None."""
        self.settle()
        return self.roll(self, *loop) if self.roll is not None and self.tracing else None

    def breaks(self, reason: str) -> None:
        """End the trace without a program; the call continues eagerly."""
        self.settle()
        if self.tracing:
            site = user_site(2)
            self.broken = f"{reason} ({site})"

    def _on_other_thread(self) -> bool:
        """Return whether another thread uses a traced array; if so, break the trace, which misses operations."""
        if get_ident() == self._thread:
            return False
        self.broken = self.broken or (OTHER_THREAD if self._active else "")
        return True

    def cannot_trace(self, what: str) -> bool:
        """Report an untraceable operation: a derivative rule becomes one instruction; elsewhere the trace breaks."""
        if self.suspended is not None:
            self.suspended.breaks(f"{what} was called with an array from outside of the loop")
        if self.tracing:
            if self.rules.attempts:
                raise Whole
            self.breaks(f"{what} was called with an array that is being traced")
        return False

    def takes_loops(self) -> bool:
        """Return whether a function may pass Traced arrays to compiled loops: never, such a call is a ``whole``."""
        return self.cannot_trace("a compiled loop")

    # Instructions

    def call(
        self,
        function: Function,
        args: Arguments,
        kwargs: Keywords,
        writes: Arguments = (),
        kind: str = "",
        primitive: object = None,
    ) -> Any:
        """Call the function with the real arrays, and append the call as an instruction."""
        if not self._busy:
            self.settle()
        if self.suspended is not None:
            return self.suspended.call(function, args, kwargs, writes, kind, primitive)
        if not kind and type(function) is FunctionType and any(isinstance(x, Tensor) for x in args):
            return function(*args, **kwargs)  # a derivative rule on Tensors, whose operators are recorded
        read: list[Value] = []
        parts = separated((*args, *kwargs.values()), self, read) if self.tracing else None
        if parts is None or not read and kind not in ("draw", "new"):
            return self._call_any(function, args, kwargs, writes, kind, primitive)
        for x in writes:
            if type(x) is not Traced:
                return self._call_any(function, args, kwargs, writes, kind, primitive)
        bare, nodes = parts
        bare_kwargs: Keywords = {}
        named: Keywords = {}
        if kwargs:
            count = len(args)
            bare_kwargs, named = (
                dict(zip(kwargs, bare[count:], strict=True)),
                dict(zip(kwargs, nodes[count:], strict=True)),
            )
            del bare[count:], nodes[count:]
        asked: Sequence[Any] = ()
        self._busy += 1
        try:
            if type(function) in _REQUESTS_NOTHING:
                result = function(*bare, **bare_kwargs)
            else:
                result, asked = noted(function, *bare, **bare_kwargs)
        finally:
            self._busy -= 1
        if self.broken:
            return result
        instruction = Instruction(kind_of(function, kind), function, tuple(nodes), named, primitive=primitive)
        instruction.know_reads(tuple(read))
        if not (writes or asked) and (type(result) is np.ndarray or isinstance(result, np.generic)):
            return self._with_array(instruction, result)
        return self._called(instruction, writes, result, asked)

    def _call_any(
        self,
        function: Function,
        args: Arguments,
        kwargs: Keywords,
        writes: Arguments,
        kind: str,
        primitive: object,
    ) -> Any:
        """Make a call with arguments of any type, some of which may not be traced."""
        bare_args, bare_kwargs = replaced(args, unwrap), replaced(kwargs, unwrap)
        if self._on_other_thread():
            return function(*bare_args, **bare_kwargs)
        tracing = self.tracing
        if tracing and kind != "draw" and bare_args is args and bare_kwargs is kwargs and kind != "new":
            tracing = False
        self._busy += 1
        try:
            if not tracing:  # an enclosing call notes the arrays that the function requests
                return function(*bare_args, **bare_kwargs)
            result, asked = noted(function, *bare_args, **bare_kwargs)
        finally:
            self._busy -= 1
        if not self.tracing:
            return result
        kind = kind_of(function, kind)
        if any(is_real(unwrap(x)) and type(x) is not Traced for x in writes):
            self.breaks(f"{function!r} writes into an array from outside of the function")
            return result
        nodes, named = replaced(args, self._node_of), replaced(kwargs, self._node_of)
        return self._called(Instruction(kind, function, nodes, named, primitive=primitive), writes, result, asked)

    def _called(self, instruction: Instruction, writes: Arguments, result: Any, asked: Sequence[Any]) -> Any:
        """Append an instruction that has returned ``result``."""
        if writes:
            instruction.writes = tuple([x.node for x in writes if type(x) is Traced])
            self._append(instruction)
            return result
        kind = type(result)
        if kind is np.ndarray or isinstance(result, np.generic):
            made = self._with_array(instruction, result)
        else:
            made = self._with_results(instruction, result)
        if asked:
            found = [Asked(x.shape, x.dtype, self._out_of(instruction, x, result)) for x in asked]
            instruction.asked = () if any(x.out == _UNKNOWN for x in found) else tuple(found)
        return made

    def _out_of(self, instruction: Instruction, array: Any, result: Any) -> int | None:
        """Return the index of the result that owns the array's memory, or None if no result lies there."""
        entry = self._roots.get(id(array))
        if entry is not None and entry[0]() is array and entry[1] in instruction.outs:
            return instruction.outs.index(entry[1])
        return _UNKNOWN if lies_in(array, result) else None

    def _append(self, instruction: Instruction) -> None:
        node = self._node
        if node is not None:
            instruction.operator, instruction.backward = node.operator, True
            instruction.site = self._sites.get(node.sequence) or user_site(3)
        else:
            if instruction.function is not as_array:  # ``as_array`` belongs to the previous instruction
                self._site = user_site(3)
            instruction.site = self._site
            instruction.operator = instruction.name
        instructions = self.program.instructions
        instruction.number = len(instructions)
        if self.checkpoint_runs is not None:
            instruction.run = self.checkpoint_runs.number
        instructions.append(instruction)
        if len(instructions) > self._limit and not self._repeats():
            self.too_long = True
            self.breaks(f"it has more than {self.longest:,} operators")

    def _repeats(self) -> bool:
        """Return whether the program is short if repeated blocks count once; if so, double its limit."""
        instructions = self.program.instructions
        room = self.longest * MAX_REPEATS > len(instructions)
        if self.distinct is None or not room or self.distinct(instructions) > self.longest:
            return False
        self._limit = 2 * len(instructions)
        return True

    def _with_array(self, instruction: Instruction, result: Any) -> Traced:
        """Wrap the array that a call has returned as a Traced array, and append the instruction."""
        program, root = self.program, None
        if type(result) is not np.ndarray:
            node = Value(program.count, result)
        elif type(instruction.function) is MethodType:  # the method ``strided`` of a backend
            node = self._value(result, _strided_root(instruction))
        else:
            owner = result if result.base is None else owner_of(result)
            entry = self._roots.get(id(owner))
            if entry is not None and entry[0]() is owner:
                root = entry[1]
            node = Value(program.count, result, root)
            if root is None:
                self._roots[id(owner)] = ref(owner), node
        program.count += 1
        instruction.view = node.root is not node
        instruction.outs, instruction.paths = (node,), _ONE_RESULT
        if type(instruction.function) is not np.ufunc:
            instruction.checks = shaped_by_values(instruction)
        if self.from_python and self._from_python(instruction):
            self.from_python.add(node)
        self._append(instruction)
        return Traced(self, result, node)

    def _traced(self, array: Array, node: Value) -> Traced:
        return Traced(self, array, node)

    def _from_python(self, instruction: Instruction) -> bool:
        """Return whether all arguments depend only on outside numbers and large arrays."""
        return bool(instruction.read) and self.from_python.issuperset(instruction.read)

    def _with_results(self, instruction: Instruction, result: object) -> Any:
        """Wrap the results of a call as Traced arrays and Numbers, and append the instruction."""
        python = bool(self.from_python) and self._from_python(instruction)
        outs: list[Value] = []
        paths: list[tuple[int, ...]] = []

        def wrapped(x: Any, path: tuple[int, ...]) -> Any:
            kind = type(x)
            if kind is np.ndarray or isinstance(x, np.generic) or is_real(x):
                node = self._value(x, _strided_root(instruction))
                instruction.view = instruction.view or node.root is not node and node.root not in outs
                made: Any = Traced(self, x, node)
            elif kind in _NUMBERS:
                node = self.program.value(x)
                made = Number(self, x, node)
            elif kind in (tuple, list) or isinstance(x, tuple) and hasattr(x, "_fields"):
                items = [wrapped(item, (*path, index)) for index, item in enumerate(x)]
                return type(x)(*items) if hasattr(x, "_fields") else kind(items)
            elif kind in _PLAIN or kind in (Traced, Number):
                return x
            else:
                self.breaks(f"{instruction.name} returns a {kind.__name__}, which cannot be traced")
                return x
            outs.append(node)
            if python:
                self.from_python.add(node)
            paths.append(path)
            return made

        made = wrapped(result, ())
        instruction.outs = tuple(outs)
        instruction.several = type(made) not in (Traced, Number)
        instruction.paths = tuple(paths)
        instruction.checks = shaped_by_values(instruction)
        self._append(instruction)
        return made.plain() if type(made) is Number and type(made.numbers) in self.exact else made

    def _value(self, array: Any, root: Value | None = None) -> Value:
        """Return a new value for an array, with the root whose memory the array shares."""
        if type(array) is not np.ndarray and not is_real(array):
            return self.program.value(array)
        if root is None and type(array) is not np.ndarray:
            root = self._allocations.get(id(backend_of(array).allocation(array)))
        if root is not None:
            return self.program.value(array, root)
        owner = array if type(array) is np.ndarray and array.base is None else owner_of(array)
        entry = self._roots.get(id(owner))
        if entry is not None and entry[0]() is owner:
            return self.program.value(array, entry[1])
        node = self.program.value(array)
        self._roots[id(owner)] = ref(owner), node
        return node

    def _node_of(self, x: Any) -> Any:
        """Return what an instruction stores for an argument."""
        kind = type(x)
        if kind is Traced or kind is Number:
            if x.tracer is not self:
                self.breaks("an array belongs to another trace")
            return x.node
        if is_real(x):
            if id(x) in self.known or x.nbytes > 1 << 20:
                self.known[id(x)] = x
                return x
            return self.program.snapshot(x)
        if kind is Token or kind is Storage:  # an attribute of a graph node, which replays do not need
            return _TOKEN
        if is_dense(x):
            self.breaks("a Tensor is an argument of a NumPy function")
        return x

    # Called by primitives, random generators and functions that create arrays

    def forward_of(self, primitive: Any) -> Function:
        """Return the primitive's forward for Traced arrays."""

        def trace_forward(*arrays: object, **params: object) -> Any:
            kind = getattr(primitive.forward, "kind", "primitive")
            rolled = kind == "rolled"  # a loop's derivative rule belongs to this trace
            result = self.call(primitive.forward, arrays, params, kind=kind, primitive=None if rolled else primitive)
            if type(result) is tuple:
                return tuple([self._as_array(x) for x in result])
            return self._as_array(result)

        return trace_forward

    def _as_array(self, x: Any) -> Any:
        """Return a 0-d array for a NumPy scalar: views of a Tensor and in-place writes need memory."""
        if type(x) is not Traced or not isinstance(x.numbers, np.generic):
            return x
        if x.tracer is not self or not self.tracing:
            return self.call(as_array, (x,), {}, kind="array")
        instruction = Instruction("array", as_array, (x.node,))
        instruction.know_reads((x.node,))
        return self._with_array(instruction, np.asarray(x.numbers))

    def write_of(self, primitive: Any) -> Function:
        """Return the primitive's in-place form for Traced arrays."""

        def trace_write(out: object, *arrays: object, **params: object) -> Any:
            if type(out) is not Traced:
                self.breaks(f"{primitive.name} writes into an array from outside of the function")
            write = write_for(primitive, (out, *arrays))
            if primitive.ufunc is not None and isinstance(getattr(write, "args", (None,))[0], np.ufunc):
                self.call(write.args[0], arrays, {"out": out, "casting": "unsafe"}, writes=(out,))
            else:
                self.call(write, (out, *arrays), params, writes=(out,), kind="whole", primitive=primitive)

        return trace_write

    def drawn(self, draw: Function, args: Any, kwargs: Keywords) -> Any:
        """Draw random numbers: again in each replay, but once for both runs of a checkpoint."""
        draw = partial(self.call, draw, tuple(args), kwargs, kind="draw")
        return draw() if self.checkpoint_runs is None else self.checkpoint_runs.drawn(draw)

    def runs_twice(self) -> CheckpointRuns:
        """Return an object that marks the two runs of a checkpointed part."""
        return CheckpointRuns(self)

    def module(self, xp: object) -> Any:
        """Return the array module for functions that create arrays."""
        return TracedModule(self, xp) if self.tracing else xp

    def made_by(self, function: Function, args: Arguments, kwargs: Keywords) -> Any:
        """Call a function that creates an array, and record the call, so that each replay creates a new array.

        With Traced arguments the function may also return a number or a tuple of arrays.
        """
        bare_args, bare_kwargs = replaced(args, unwrap), replaced(kwargs, unwrap)
        bare = function(*bare_args, **bare_kwargs)
        plain = bare_args is args and bare_kwargs is kwargs or is_metadata_function(function)
        if not self.tracing or plain and not is_real(bare):
            return bare
        if bare is None:
            self.breaks(f"{function.__name__} writes into an array")
        return self.call(function, args, kwargs, kind="new")

    # Numbers that leave the program

    def read_number(self, number: Any) -> Any:
        """Return the plain number.

        If the package reads the number, or the number is an argument of the function, a guard compares it in each
        replay. If the user's program reads a computed number, the function cannot be traced.
        """
        if self.suspended is not None:
            self.suspended.breaks("the body of a loop reads a number from outside")
        self.settle()
        if not self._on_other_thread() and self.tracing:
            if number.node in self.from_python or not called_by_user():
                instruction = Instruction("guard", same_number, (number.node, number.numbers))
                self._append(instruction)
            else:
                self._refuse_read(f"the number {number.numbers!r}")
        return number.numbers

    def read_elements(self, how: str, result: object) -> Any:
        """Return elements that leave the program through ``numpy()`` and similar methods."""
        if self.suspended is not None:
            self.suspended.breaks(f"the body of a loop reads elements through {how}")
        self.settle()
        if not self._on_other_thread() and self.tracing:
            if called_by_user():
                self._refuse_read(f"what {how} gives")
            else:
                self.cannot_trace(how)
        return result

    def _refuse_read(self, what: str) -> None:
        site = user_site(3)
        if self.strict:
            self.refusal = DataDependent(
                f"compile: {site.in_traceback()}\nreads {what}, which depends on the elements of a Tensor; a compiled "
                "program would always use the values of its trace. Use where(condition, a, b), clamp or masks; return "
                "the Tensor and read it outside; or compile the parts before and after the read. With fallback=True "
                "the function runs eagerly"
            )
            raise self.refusal
        self.breaks(f"reads {what}, which depends on elements of a Tensor")

    # Observer

    def calling(self, primitive: object, inputs: Arguments, params: Keywords) -> None:
        self.settle()
        self._count = len(self.program.instructions)
        for value in inputs:
            if is_dense(value) and getattr(value.array, "tracer", None) is not self:
                self.lift(value)

    def opened(self, what: object, inputs: Arguments) -> None:
        if type(inputs) is not Given:  # primitives lift the arguments of an operator
            self.lift_nest(inputs)

    def closed(self, what: object, inputs: Arguments, result: Any) -> None:
        """Trace the creation of Tensors from numbers or NumPy arrays, so that each replay creates them."""
        if is_dense(result) and type(result.array) is Traced:
            return
        if not self.tracing or isinstance(result, BaseException):
            return
        for x in result if type(result) in (tuple, list) else (result,):
            if is_dense(x) and is_real(x.array) and id(x) not in self.outside:
                array = x.array
                if owner_of(array) is array:
                    x.array = self.call(backend_of(array).xp.array, (array,), {}, kind="new")
                else:
                    self.lift(x)

    def called(
        self, primitive: Any, inputs: Arguments, params: Keywords, outputs: tuple[Tensor, ...], node: Any
    ) -> None:
        if node is not None and self.tracing:
            traced = len(self.program.instructions) > self._count
            self._sites[node.sequence] = self._site if traced else user_site(2)
            if node.plan.primitive is primitive:
                node.plan = self.rules.traceable(node.plan)
        if self.follower is not None and self._node is None and self.tracing:
            self.follower.note(primitive, inputs, params, outputs, self._count, self._site)

    def entered(self, node: Any, g: object) -> None:
        self._node = node
        if self.tracing and node.sequence not in self._sites and any(map(is_array, node.saved or ())):
            self.breaks("the backward pass goes through a graph from outside of the function")

    def left(self, node: object) -> None:
        self._node = None

    def finished(self, leaf: Tensor, g: object) -> None:
        if self.tracing:
            self._node = None
            self.lift(leaf)
            self.lift_grad(leaf)
            entry = self.outside.get(id(leaf))
            if entry is not None:
                entry.accumulated = True

    # End of the trace

    def finish(self) -> list[Tensor]:
        """Restore the real arrays of all Tensors; return the gradients that the call created."""
        self._active = False
        self.follower = None
        self.bypassed.clear()
        for loop in self.loops:
            loop.end()
        gradients = []
        for entry in self.outside.values():
            x, grad = entry.tensor, entry.tensor._grad
            grad = grad if is_dense(grad) else None
            if grad is not None and grad is not entry.start_grad and type(grad.array) is Traced:
                gradients.append(grad)
            entry.grad = None
            for held in (x, grad):
                if held is not None and type(held.array) is Traced:
                    held.array = as_real(held.array)
        return gradients

    def release(self, results: Sequence[object]) -> None:
        """Restore the plans and saved arrays of the results' graph."""
        order, _ = reachable(x._node for x in results if is_dense(x) and x._requires)
        for node in order:
            node.plan = self.rules.plan_of(node)
            if type(node.saved) is tuple:
                node.saved = replaced(node.saved, as_real)
                for ctx in node.saved:
                    if hasattr(ctx, "save_for_backward"):  # the context of a Function, with the user's attributes
                        vars(ctx).update(replaced(vars(ctx), untrace_in_place))

    def look_for_escapes(self) -> None:
        """Break the trace if an outside object keeps a result of the call: a replay would store no new result there."""
        if any(reference() is not None for reference in self.traced_objects):
            gc.collect()
        escaped = [x for reference in self.traced_objects if (x := reference()) is not None]
        self.traced_objects.clear()
        if escaped and not self.broken:
            self.broken = ESCAPED
        for x in escaped:
            self.release(replace_by_real(x))

    def node_of_result(self, x: Any) -> Value | None:
        """Return the value of a Tensor, array or number that the function returns, or None for a constant."""
        array = x.array if is_dense(x) else x
        return array.node if type(array) in (Traced, Number) else None


def _strided_root(instruction: Instruction) -> Value | None:
    """Return the root of the array of which a call of ``Backend.strided`` returns a view; None for other calls."""
    backend = getattr(instruction.function, "__self__", None)
    strided = isinstance(backend, Backend) and instruction.function == backend.strided
    return instruction.args[0].root if strided else None
