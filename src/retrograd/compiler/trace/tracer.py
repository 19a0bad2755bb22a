"""The tracer: runs a function on Traced arrays and writes down the program that it is.

The tracer is an observer of its thread, and what primitives, random numbers and ``whole`` functions ask there
(``modes.tracer``). Tensors from outside of the function are lifted when they are first met: their array becomes Traced,
until the trace is over. What it cannot write down breaks the trace: the call goes on and ends as an eager one.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence
from functools import partial
from threading import get_ident
from types import FrameType
from typing import Any
from weakref import ref

import numpy as np

from ...core.arrays.bfloat16 import write_for
from ...core.arrays.devices import Device, backend_of, is_array
from ...core.graph.nodes import reachable
from ...core.graph.observers import Observer
from ...core.source_location import Site, user_site
from ...core.tensor.storage import Storage, is_saved, is_writable, unshare
from ...core.tensor.tensor import Tensor
from ...kernels.runtime.result_arrays import noted
from ..program import SHAPED_BY_DATA, Asked, Instruction, Program, Value, replaced
from .checkpoint_replay import Twice
from .effects import Outside, clear_grad, give_array, run_step, set_grad
from .escapes import KEPT, put_real
from .listening import without
from .rules import Rules, Whole
from .scalars import as_array
from .traced import Number, Traced, TracedModule, asks_facts
from .untrace import as_real, is_ours, is_real, lies_in, made_real, numbers_of, owner_of, same_number

ELSEWHERE = "another thread works with an array or number of the function"
_NUMBERS = (bool, int, float, complex)
_STORAGE = Storage()
_UNKNOWN = -1
_PLAIN = frozenset((type(None), str, bytes, bool, int, float, complex, np.dtype, type, slice, type(Ellipsis), Device))


class DataDependent(RuntimeError):
    """The function reads numbers of a Tensor and may act on them, which no program that is replayed would see."""


class Tracer(Observer):
    """One trace."""

    def __init__(self, strict: bool = True, longest: int = sys.maxsize, exact: frozenset[type] = frozenset()) -> None:
        self.program = Program()
        self.strict = strict
        self.longest = longest
        self.exact = exact  # the types of numbers for which the function is given no stand-ins
        self.too_long = False
        self.broken = ""
        self.refusal: DataDependent | None = None  # an error that was raised, and that the function may catch
        self.has_numbers = False  # whether it gave the function a Number
        self.rules = Rules(self)
        self.made: list[ref[Any]] = []
        self.outside: dict[int, Outside] = {}
        self.arguments: dict[int, int] = {}  # the numbers of Tensors among the leaves of the arguments
        self._holders: dict[int, Value] = {}
        self.known: dict[int, Any] = {}  # NumPy arrays of the program's own, taken by reference
        self.from_python: set[Value] = set()  # what depends on numbers and large arrays outside, not on Tensors
        self.twice: Twice | None = None  # the part that is running which may run twice
        self.second_runs = 0
        self._thread = get_ident()
        self._busy = 0
        self._roots: dict[int, tuple[ref[Any], Value]] = {}
        self._allocations: dict[int, Value] = {}  # of Tensors on a GPU, where views may not know their base
        self._sites: dict[int, Site] = {}
        self._node: Any = None
        self._active = True

    @property
    def recording(self) -> bool:
        """Whether what happens on this thread now belongs in the program."""
        return self._active and not self._busy and not self.broken and get_ident() == self._thread

    def breaks(self, reason: str) -> None:
        """Give the program up; the call goes on."""
        if self.recording:
            site = user_site(2)
            self.broken = f"{reason} ({site})"

    def _elsewhere(self) -> bool:
        """Whether another thread runs, which met what is traced here: what it makes of that, nobody writes down."""
        if get_ident() == self._thread:
            return False
        self.broken = self.broken or (ELSEWHERE if self._active else "")
        return True

    def refuses(self, what: str) -> bool:
        """What was asked cannot be recorded: a rule becomes one instruction for that, all else breaks the trace."""
        if self.recording:
            if self.rules.attempts:
                raise Whole
            self.breaks(f"{what} was called with an array that is being traced")
        return False

    def takes_loops(self) -> bool:
        """Whether a function may give traced arrays to its compiled loops: it calls them as a whole."""
        return self.refuses("a compiled loop")

    def has_acted(self) -> bool:
        """Whether what ran so far has, or may have, changed anything that is there without the call."""
        outer = {value.root for value, _ in self.program.inputs}
        return bool(self.broken) or any(
            step.kind in ("draw", "effect") or any(value.root in outer for value in step.writes)
            for step in self.program.instructions
        )

    # Instructions

    def call(
        self,
        function: Callable[..., Any],
        args: tuple[Any, ...],
        kwargs: dict[str, Any],
        writes: tuple[Any, ...] = (),
        kind: str = "",
        primitive: Any = None,
    ) -> Any:
        """Call the function with the real arrays, and record it."""
        bare_args, bare_kwargs = replaced(args, numbers_of), replaced(kwargs, numbers_of)
        if self._elsewhere():
            return function(*bare_args, **bare_kwargs)
        recording = self.recording
        if recording and kind != "draw" and bare_args is args and bare_kwargs is kwargs and kind != "new":
            recording = False
        self._busy += 1
        try:
            if not recording:  # what it asks for, a call around it is noted to ask for
                return function(*bare_args, **bare_kwargs)
            result, asked = noted(function, *bare_args, **bare_kwargs)
        finally:
            self._busy -= 1
        if not self.recording:
            return result
        if not kind:
            whole = not isinstance(function, np.ufunc) and is_ours(function)
            kind = "whole" if whole else "array"
        elif kind == "new":
            kind = "array"
        if any(is_real(numbers_of(x)) and type(x) is not Traced for x in writes):
            self.breaks(f"{function!r} writes into an array from outside of the function")
            return result
        nodes, named = replaced(args, self._node_of), replaced(kwargs, self._node_of)
        instruction = Instruction(kind, function, nodes, named, primitive=primitive)
        instruction.writes = tuple([x.node for x in writes if type(x) is Traced])
        if writes:
            self._append(instruction)
            return result
        made = self._with_results(instruction, result)
        instruction.asked = tuple([Asked(x.shape, x.dtype, self._out_of(instruction, x, result)) for x in asked])
        instruction.asked = () if any(x.out == _UNKNOWN for x in instruction.asked) else instruction.asked
        return made

    def _out_of(self, instruction: Instruction, array: Any, result: Any) -> int | None:
        """Which of the results owns an array's memory; None where no part of the result lies there."""
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
            instruction.site = user_site(3)
            instruction.operator = instruction.name
        instruction.number = len(self.program.instructions)
        instruction.run = 0 if self.twice is None else self.twice.number
        self.program.instructions.append(instruction)
        if len(self.program.instructions) > self.longest:
            self.too_long = True
            self.breaks(f"it has more than {self.longest:,} operators")

    def _with_results(self, instruction: Instruction, result: Any) -> Any:
        """The results of a call as Traced arrays and Numbers, and the instruction in the program."""
        outs: list[Value] = []
        paths: list[tuple[int, ...]] = []
        inputs = list(instruction.reads())
        python = bool(inputs) and all(value in self.from_python for value in inputs)

        def wrapped(x: Any, path: tuple[int, ...]) -> Any:
            kind = type(x)
            if kind is np.ndarray or isinstance(x, np.generic) or is_real(x):
                node = self._value(x, instruction.args[0].root if instruction.name == "strided" else None)
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
                self.breaks(f"{instruction.name} gives {kind.__name__}")
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
        kinds = {value.dtype.kind for value in inputs if value.shape is not None}
        if not isinstance(instruction.function, np.ufunc) and (
            kinds & set("biu") or instruction.name in SHAPED_BY_DATA
        ):
            instruction.checks = True
        self._append(instruction)
        return made.asked() if type(made) is Number and type(made.numbers) in self.exact else made

    def _value(self, array: Any, root: Value | None = None) -> Value:
        """A new value for an array, with its place among those that share memory."""
        if not is_real(array):
            return self.program.value(array)
        if root is None and type(array) is not np.ndarray:
            root = self._allocations.get(id(backend_of(array).allocation(array)))
        if root is not None:
            return self.program.value(array, root)
        owner = owner_of(array)
        entry = self._roots.get(id(owner))
        if entry is not None and entry[0]() is owner:
            return self.program.value(array, entry[1])
        node = self.program.value(array)
        self._roots[id(owner)] = ref(owner), node
        return node

    def _node_of(self, x: Any) -> Any:
        """What stands in an instruction for an argument."""
        kind = type(x)
        if kind is Traced or kind is Number:
            if x.tracer is not self:
                self.breaks("an array of another trace")
            return x.node
        if is_real(x):
            if id(x) in self.known or x.nbytes > 1 << 20:
                self.known[id(x)] = x
                return x
            return self.program.snapshot(x)
        if kind is Storage:  # a node's, of which replays have no need
            return _STORAGE
        if isinstance(x, Tensor):
            self.breaks("a Tensor as an argument of NumPy's")
        return x

    # What primitives, random numbers and new arrays ask for

    def forward_of(self, primitive: Any) -> Callable[..., Any]:
        """A primitive's forward on Traced arrays."""

        def run(*arrays: Any, **params: Any) -> Any:
            result = self.call(primitive.forward, arrays, params, kind="primitive", primitive=primitive)
            if type(result) is tuple:
                return tuple([self._as_array(x) for x in result])
            return self._as_array(result)

        return run

    def _as_array(self, x: Any) -> Any:
        """A Tensor's memory may be viewed and written, which NumPy's scalars have not."""
        if type(x) is Traced and isinstance(x.numbers, np.generic):
            return self.call(as_array, (x,), {}, kind="array")
        return x

    def write_of(self, primitive: Any) -> Callable[..., Any]:
        """A primitive's in-place form on Traced arrays."""

        def run(out: Any, *arrays: Any, **params: Any) -> Any:
            if type(out) is not Traced:
                self.breaks(f"{primitive.name} writes into an array from outside of the function")
            write = write_for(primitive, (out, *arrays))
            if primitive.ufunc is not None and isinstance(getattr(write, "args", (None,))[0], np.ufunc):
                self.call(write.args[0], arrays, {"out": out, "casting": "unsafe"}, writes=(out,))
            else:
                self.call(write, (out, *arrays), params, writes=(out,), kind="whole", primitive=primitive)

        return run

    def drawn(self, draw: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> Any:
        """Random numbers: drawn again in each replay, once for both runs of a checkpoint."""
        draw = partial(self.call, draw, tuple(args), kwargs, kind="draw")
        return draw() if self.twice is None else self.twice.drawn(draw)

    def runs_twice(self) -> Twice:
        """What a part tells its runs to that may run a second time."""
        return Twice(self)

    def module(self, xp: Any) -> Any:
        """The array module for what makes new arrays."""
        return TracedModule(self, xp) if self.recording else xp

    def made_by(self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A new array, made again in each replay; and what else is made of traced arrays: numbers, tuples of arrays."""
        bare_args, bare_kwargs = replaced(args, numbers_of), replaced(kwargs, numbers_of)
        bare = function(*bare_args, **bare_kwargs)
        plain = bare_args is args and bare_kwargs is kwargs or asks_facts(function)
        if not self.recording or plain and not is_real(bare):
            return bare
        if bare is None:
            self.breaks(f"{function.__name__} writes into an array")
        return self.call(function, args, kwargs, kind="new")

    # Numbers that leave the program

    def asked(self, number: Any) -> Any:
        """The number itself. The package's own checks become guards; so do arguments; all else is the user's choice."""
        if not self._elsewhere() and self.recording:
            if number.node in self.from_python or not self._by_user():
                instruction = Instruction("guard", same_number, (number.node, number.numbers))
                self._append(instruction)
            else:
                self._refuse_choice(f"the number {number.numbers!r}")
        return number.numbers

    def departs(self, how: str, result: Any) -> Any:
        """Elements that leave the program by ``numpy()`` and the like."""
        if not self._elsewhere() and self.recording:
            if self._by_user():
                self._refuse_choice(f"what {how} gives")
            else:
                self.refuses(how)
        return result

    def _refuse_choice(self, what: str) -> None:
        site = user_site(3)
        if self.strict:
            self.refusal = DataDependent(
                f"compile: {site.in_traceback()}\nreads {what}, which depends on the elements of a Tensor; a compiled "
                "program would keep it forever. Choose by where(condition, a, b), clamp or masks; return the Tensor "
                "and read it outside; or compile the parts before and after. With fallback=True it runs eagerly"
            )
            raise self.refusal
        self.breaks(f"reads {what}, which depends on elements of a Tensor")

    def _by_user(self) -> bool:
        """Whether the user's program, and not the package, asked."""
        frame: FrameType | None = sys._getframe(2)
        while frame is not None and frame.f_code.co_filename.endswith(_PASSED):
            frame = frame.f_back
        return frame is None or not frame.f_code.co_filename.startswith(_PACKAGE)

    # Tensors from outside

    def lift(self, x: Tensor, source: tuple[str, Any] | None = None) -> None:
        """Let the program read the Tensor's array."""
        array = x.array
        if type(array) is Traced or not self.recording:
            return
        if not is_real(array):
            if is_array(array):
                self.breaks(f"an array of type {type(array).__name__}")
            return
        if id(x) in self.outside:
            self.breaks("the memory of a Tensor from outside of the function was exchanged")
            return
        node = self._value(array)
        self.outside[id(x)] = Outside(x, node)
        if node.on_gpu:
            self._allocations[id(backend_of(array).allocation(array))] = node.root
        x.array = Traced(self, array, node)
        self.program.inputs.append((node, source or ("tensor", x)))

    def lift_grad(self, leaf: Tensor) -> None:
        """Let the program read a leaf's gradient."""
        if leaf._grad is not None:
            self.lift(leaf._grad, ("grad", leaf))

    def lift_nest(self, nest: Any) -> None:
        """Lift the Tensors in the arguments of a call."""
        if isinstance(nest, Tensor):
            self.lift(nest)
        elif type(nest) in (tuple, list):
            for item in nest:
                self.lift_nest(item)
        elif type(nest) is dict:
            for item in nest.values():
                self.lift_nest(item)

    def reads_grad(self, leaf: Tensor) -> None:
        """A leaf's gradient is read: whether it has one is guarded, where that is not of the program's making."""
        if self.recording:
            self.lift(leaf)
            self.lift_grad(leaf)
            entry = self.outside.get(id(leaf))
            if entry is not None and leaf._grad is entry.start_grad and not (entry.accumulated or entry.cleared):
                entry.read = True

    def clears(self, leaf: Tensor, to_none: bool = True) -> None:
        """A leaf's gradient is about to be set."""
        if self.recording:
            self.lift(leaf)
            entry = self.outside.get(id(leaf))
            if not to_none:
                self.lift_grad(leaf)
            elif entry is not None and not entry.accumulated:
                entry.cleared = True
                self.program.cleared = len(self.program.instructions)

    def sync(self) -> None:
        """Write down what happened to the Tensors from outside as objects: their memory and their gradients."""
        if not self.recording:
            return
        for entry in list(self.outside.values()):
            x, array = entry.tensor, entry.tensor.array
            if type(array) is not Traced:
                self.breaks("the memory of a Tensor from outside of the function was exchanged")
            elif array.node is not entry.node:
                self._effect(give_array, (self._holder(x), array.node))
                entry.node = array.node
            grad = x._grad
            if grad is entry.grad and not (entry.cleared and grad is None):
                continue
            if grad is None:
                self._effect(clear_grad, (self._holder(x),))
            elif type(grad.array) is not Traced:
                self.breaks("a gradient was set to a Tensor from outside of the function")
            else:
                self._effect(set_grad, (self._holder(x), grad.array.node))
            entry.grad = grad

    def _holder(self, x: Tensor) -> Any:
        """What stands for a Tensor as an object: itself, or an input where it is an argument."""
        index = self.arguments.get(id(x))
        if index is None:
            return x
        holder = self._holders.get(index)
        if holder is None:
            holder = self._holders[index] = self.program.value(None)
            self.program.inputs.append((holder, ("object", index)))
        return holder

    def _effect(self, function: Callable[..., Any], args: tuple[Any, ...]) -> Instruction:
        instruction = Instruction("effect", function, args)
        self._append(instruction)
        return instruction

    def takes_over(self, optimizer: Any, step: Callable[..., Any], args: Any, kwargs: dict[str, Any]) -> bool:
        """An optimizer's step: in a replay it is made by the optimizer, which reads its options then."""
        if not self.recording:
            return False
        if args or kwargs:
            self.breaks("an optimizer's step with a closure")
            return False
        parameters = [p for group in optimizer.param_groups for p in group["params"]]
        for p in parameters:
            self.lift(p)
            self.lift_grad(p)
            if p._grad is not None and (is_saved(p) or not is_writable(p.array)):
                unshare(p, keep_values=True)  # a live graph needs the old values; the step itself would do it unseen
        self.sync()
        tensors = [x for p in parameters for x in (p, p._grad) if x is not None]
        before = [x.array for x in tensors]
        self._busy += 1
        try:
            for x in tensors:
                if type(x.array) is Traced:
                    x.array = x.array.numbers
            with without(self):
                step(optimizer)
        finally:
            self._busy -= 1
            for x, array in zip(tensors, before, strict=True):
                if type(array) is Traced and x.array is array.numbers:
                    x.array = array
                elif x.array is not array:
                    self.breaks("an optimizer gave a parameter other memory")
        if self.recording:
            nodes = [array.node for array in before if type(array) is Traced]
            instruction = self._effect(run_step, (optimizer, step))
            instruction.args = (optimizer, step, tuple(nodes))
            instruction.writes = tuple([p.array.node for p in parameters if type(p.array) is Traced])
        return True

    def acts(self, function: Callable[..., Any], args: tuple[Any, ...]) -> bool:
        """What changes Python objects alone, such as a schedule: done now, and again in each replay."""
        if not self.recording:
            return False
        self.sync()
        self._busy += 1
        mode = without(self)
        try:
            with mode:
                function(*args)
        finally:
            self._busy -= 1
        self._effect(function, args)
        return True

    # As an observer

    def calling(self, primitive: Any, inputs: tuple[Any, ...], params: dict[str, Any]) -> None:
        for value in inputs:
            if isinstance(value, Tensor):
                self.lift(value)

    def opened(self, what: object, inputs: tuple[Any, ...]) -> None:
        self.lift_nest(inputs)

    def closed(self, what: object, inputs: tuple[Any, ...], result: Any) -> None:
        """Tensors that were made of numbers or NumPy arrays are made again in each replay."""
        if not self.recording or isinstance(result, BaseException):
            return
        for x in result if type(result) in (tuple, list) else (result,):
            if isinstance(x, Tensor) and is_real(x.array) and id(x) not in self.outside:
                array = x.array
                if owner_of(array) is array:
                    x.array = self.call(backend_of(array).xp.array, (array,), {}, kind="new")
                else:
                    self.lift(x)

    def called(
        self, primitive: Any, inputs: tuple[Any, ...], params: dict[str, Any], outputs: tuple[Tensor, ...], node: Any
    ) -> None:
        if node is not None and self.recording:
            self._sites[node.sequence] = user_site(2)
            if node.plan.primitive is primitive:
                node.plan = self.rules.traced(node.plan)

    def entered(self, node: Any, g: Any) -> None:
        self._node = node
        if self.recording and node.sequence not in self._sites and any(map(is_array, node.saved or ())):
            self.breaks("backward goes through a graph that was recorded outside of the function")

    def left(self, node: Any) -> None:
        self._node = None

    def finished(self, leaf: Tensor, g: Any) -> None:
        if self.recording:
            self._node = None
            self.lift(leaf)
            self.lift_grad(leaf)
            entry = self.outside.get(id(leaf))
            if entry is not None:
                entry.accumulated = True

    # The end

    def finish(self) -> list[Tensor]:
        """Give all Tensors their real arrays back.

        Returns:
            The gradients of leaves that were made in the call.
        """
        self._active = False
        gradients = []
        for entry in self.outside.values():
            x, grad = entry.tensor, entry.tensor._grad
            if grad is not None and grad is not entry.start_grad and type(grad.array) is Traced:
                gradients.append(grad)
            entry.grad = None
            for held in (x, grad):
                if held is not None and type(held.array) is Traced:
                    held.array = as_real(held.array)
        return gradients

    def release(self, results: Sequence[Any]) -> None:
        """Let the graph of the results be an ordinary one."""
        order, _ = reachable(x._node for x in results if isinstance(x, Tensor) and x._requires)
        for node in order:
            node.plan = self.rules.plan_of(node)
            if type(node.saved) is tuple:
                node.saved = replaced(node.saved, as_real)
                for ctx in node.saved:
                    if hasattr(ctx, "save_for_backward"):  # a Function's, with what the user put there
                        vars(ctx).update(replaced(vars(ctx), made_real))

    def look_for_escapes(self) -> None:
        """Find what the program made and somebody outside keeps: a replay would not put anything there."""
        if any(made() is not None for made in self.made):
            gc.collect()
        escaped = [x for made in self.made if (x := made()) is not None]
        self.made.clear()
        if escaped and not self.broken:
            self.broken = KEPT
        for x in escaped:
            self.release(put_real(x))

    def node_of_result(self, x: Any) -> Value | None:
        """The value of a Tensor, array or number that the function returns; None for what is constant."""
        array = x.array if isinstance(x, Tensor) else x
        return array.node if type(array) in (Traced, Number) else None


_PACKAGE = __file__[: -len("compiler/trace/tracer.py")]
_PASSED = ("compiler/trace/traced.py", "compiler/trace/tracer.py", "core/tensor/tensor.py", "ops/numpy/bare_arrays.py")
