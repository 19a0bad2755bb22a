"""A replay as a CUDA graph: CuPy's stream captures the launches of a program once, and later launches them together.

A program is split into three parts. ``before`` runs on the CPU: checks of inputs, the numbers of an optimizer's step,
and random draws, so that generators advance. ``inside`` is captured. ``after`` has the effects on Python objects, such
as gradients of leaves. The first call is an ordinary replay. The second runs in the graph's memory pool, so that
capturing allocates nothing. The third captures the graph and compares its first launch with an ordinary replay, whose
writes are undone before the launch.

A graph contains addresses. Arguments are copied to the graph's buffers, and results out of them. Parameters, and other
memory that the program writes, are used in place; if their addresses change, a new graph is captured.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from threading import Lock, get_ident
from types import ModuleType
from typing import Any

import numpy as np

from ...core.arrays.devices import cupy_backend
from ...core.nests import leaves
from ..program import Instruction, Source, Value, shaped_by_data
from ..run.replay import Replay
from ..trace.effects import clear_grad, give_array, run_step, set_grad
from .captured_products import captured_products
from .kernels import Copies, Module

MAX_CAPTURES = 3  # maximum number of graphs that are captured for changed addresses
_PURE = ("array", "primitive", "whole", "loop")


class Refused(RuntimeError):
    """A program cannot be captured; the message says why."""


class Graph:
    """A replay that is a CUDA graph from its third call on, unless ``reason`` says why it cannot be captured.

    Args:
        replay: the ordinary replay.
        takes: the values of its inputs.
        sources: the sources of the inputs.
        gives: the values of its results.
        module: receives the kernel that copies results.
        has_backward: whether a backward pass reads values that the call saves.
    """

    def __init__(
        self,
        replay: Replay,
        takes: Sequence[Value],
        sources: Sequence[Source],
        gives: Sequence[Value],
        module: Module,
        has_backward: bool,
    ) -> None:
        self.replay = replay
        self.reason = ""
        self.calls = 0
        self.captures = 0
        self.graph: Any = None
        self._stream: Any = None
        self._lock = Lock()
        try:
            if has_backward:
                raise Refused("a backward pass reads values that the call saves")
            self._split(takes, sources, gives, module)
        except Refused as why:
            self.reason = str(why)

    @property
    def description(self) -> str:
        """A description for ``explain``."""
        if self.reason:
            return f"no CUDA graph: {self.reason}"
        if self.graph is None:
            return "a CUDA graph is captured at the third call"
        return f"a CUDA graph, captured {self.captures} times; {len(self.static)} arrays are copied into it"

    # Split

    def _split(self, takes: Sequence[Value], sources: Sequence[Source], gives: Sequence[Value], module: Module) -> None:
        instructions = self.replay.instructions
        checks, fetches, effects = self._of_the_processor(instructions)
        special = {id(step) for step in (*checks, *fetches, *effects)}
        only_checks = {id(step) for step in checks}
        wanted = {x for step in effects for x in step.reads()} | set(gives)
        inside: list[Instruction] = []
        for step in reversed(instructions):  # instructions that only checks need are not repeated inside
            if step.kind == "native" and not wanted.isdisjoint(step.outs):
                raise Refused("results that the CPU computes are used on the GPU")
            if id(step) in special and id(step) not in only_checks or step.kind in ("guard", "native"):
                continue
            if step.writes or not wanted.isdisjoint(step.outs):
                inside.append(step)
                wanted.update(step.reads())
        inside.reverse()
        made = {x for step in inside for x in step.outs}
        fetched = [x for step in fetches for x in step.outs]
        if not made and not any(step.writes for step in inside):
            raise Refused("no instruction runs on the GPU")
        written = {x.root for step in inside for x in step.writes}
        read = {x for step in inside for x in step.reads()}
        self.static: list[int] = []  # the indices of inputs that are copied
        if any(value.shape is None for value in takes if value in read):
            raise Refused("a number varies between calls")
        for step in inside:
            _capturable(step)
        self.fixed: list[int] = []  # the indices of inputs that are used in place
        for place, (value, (kind, _)) in enumerate(zip(takes, sources, strict=True)):
            if value not in read:
                continue
            (self.static if kind in ("argument", "grad") and value.root not in written else self.fixed).append(place)
        # Fetched values that are new in each call.
        numbers = {x for step in fetches for x in (step.outs if step.kind == "draw" else step.outs[:1])}
        for place, value in enumerate(fetched, len(takes)):
            (self.static if value in numbers else self.fixed).append(place)
        everything = [*takes, *fetched]
        self.written = [place for place in self.fixed if everything[place].root in written]
        copied = {everything[place].root for place in self.static}
        out = list(dict.fromkeys(x for x in (*gives, *[v for step in effects for v in step.reads()]) if x in made))
        roots = [x.root for x in out if x.root in made]
        if len(roots) != len(set(roots)):
            raise Refused("results share memory")
        if any(x.root in copied for x in out):
            raise Refused("a result is a view of an argument")
        self.own = [x.root in made for x in out]  # False for a view of an input
        self._copies = Copies([x for x in out if x.root in made], module)
        label = self.replay.file.strip("<>")
        self.before = Replay([*checks, *fetches], takes, fetched, f"checks of {label}")
        self.inside = Replay(inside, everything, out, f"graph of {label}")
        self.after = Replay(effects, [*everything, *out], gives, f"effects of {label}")

    def _of_the_processor(self, instructions: Sequence[Instruction]) -> tuple[list[Instruction], ...]:
        """Return the guards with all instructions that they need, the fetches and random draws, and the effects."""
        makers = {x: step for step in instructions for x in step.outs}
        needed: dict[int, Instruction] = {}
        waiting = [step for step in instructions if step.kind in ("guard", "native")]
        while waiting:
            step = waiting.pop()
            if id(step) not in needed:
                needed[id(step)] = step
                waiting += [makers[x] for x in step.reads() if x in makers]
        written: set[Value] = set()
        fetches: list[Instruction] = []
        effects: list[Instruction] = []
        for step in instructions:
            if id(step) in needed:
                if step.writes or step.kind not in (*_PURE, "guard", "native"):
                    raise Refused(f"a check needs {step.name}")
                if not written.isdisjoint(x.root for x in step.reads()):
                    raise Refused("a check reads what the program has written")
            elif step.kind == "draw":
                if any(x in makers or x.root in written for x in step.reads()):
                    raise Refused("a random draw depends on a value of the program")
                fetches.append(step)
            elif step.kind == "effect" and step.outs:
                if any(other.function not in (set_grad, clear_grad) for other in effects):
                    raise Refused("an optimizer's step comes after other effects")
                fetches.append(step)
            elif step.kind == "effect":
                if step.function in (run_step, give_array):
                    raise Refused("an optimizer's step that is not a kernel" if step.function is run_step
                                  else "the memory of a Tensor is replaced")  # fmt: skip
                effects.append(step)
            written.update(x.root for x in step.writes)
        if not written.isdisjoint(x for step in fetches if step.kind == "draw" for x in step.outs):
            raise Refused("a random draw is written to")
        return [step for step in instructions if id(step) in needed], fetches, effects

    # Calls

    def __call__(self, arrays: Sequence[object]) -> Any:
        self.calls += 1
        if self.reason or self.calls == 1:
            return self.replay(arrays)
        everything = [*arrays, *self.before(arrays)]
        try:
            with self._lock:  # all threads share the graph's buffers
                found = self._found(everything)
        except Refused as why:
            self.reason = str(why)
            self._forget()
            found = self.inside(everything)
        return self.after([*everything, *found])

    def _found(self, everything: list[Any]) -> Sequence[Any]:
        xp = cupy_backend().xp
        if self.calls == 2:
            return self._warm(xp, everything)
        places = tuple([everything[place].data.ptr for place in self.fixed])
        if self.graph is not None and places == self._captured_addresses:
            self._launch(everything)
            return self._results()
        if self.captures == MAX_CAPTURES:
            raise Refused("the addresses of its inputs change in each call")
        self._capture(xp, everything, places)
        return self._compared(xp, everything)

    def _warm(self, xp: ModuleType, everything: list[Any]) -> Sequence[Any]:
        """Run a call in the memory pool and on the stream of the graph."""
        try:
            self._stream, self._pool = xp.cuda.Stream(), xp.cuda.MemoryPool()
        except Exception as error:
            raise Refused(f"no stream can capture: {error}") from error
        xp.cuda.get_current_stream().synchronize()
        with xp.cuda.using_allocator(self._pool.malloc), self._stream, captured_products(xp, self._stream):
            self._outs = self.inside(everything)
        self._stream.synchronize()
        found = self._results()  # copies, so that results that the caller keeps occupy no memory of the pool
        self._outs = ()
        return found

    def _reserve(self) -> None:
        """Leave one free block in the pool, as large as a call needs: no memory can be allocated during a capture."""
        size = self._pool.total_bytes()
        self._pool.free_all_blocks()
        self._pool.malloc(size + size // 4)

    def _capture(self, xp: ModuleType, everything: list[Any], places: tuple[int, ...]) -> None:
        self._forget()
        self.captures += 1
        self._captured_addresses = places
        self._buffers = own = {place: everything[place].copy() for place in self.static}
        given = [own.get(place, x) for place, x in enumerate(everything)]
        xp.cuda.get_current_stream().synchronize()
        try:
            with (
                xp.cuda.using_allocator(self._pool.malloc),
                self._stream as stream,
                captured_products(xp, stream),
                _no_copies_from_host(xp),
            ):
                self._reserve()
                stream.begin_capture(mode=xp.cuda.runtime.streamCaptureModeThreadLocal)
                try:
                    self._outs = self.inside(given)
                except BaseException:
                    with contextlib.suppress(Exception):  # raise the first error, not an error of ``end_capture``
                        stream.end_capture()
                    raise
                self.graph = stream.end_capture()
        except Exception as error:
            raise Refused(f"it cannot be captured: {type(error).__name__}: {error}") from error

    def _compared(self, xp: ModuleType, everything: list[Any]) -> Sequence[Any]:
        """Return the results of the graph's first launch, if they equal the results of an ordinary replay."""
        memory = [everything[place] for place in self.written]
        earlier = [x.copy() for x in memory]
        plain = self.inside(everything)
        wanted = [x.copy() for x in (*plain, *memory)]
        for x, before in zip(memory, earlier, strict=True):
            x[...] = before
        self._launch(everything)
        found = self._results()
        if all(_alike(xp, a, b) for a, b in zip((*found, *memory), wanted, strict=True)):
            return found
        for x, right in zip(memory, wanted[len(plain) :], strict=True):
            x[...] = right
        self._forget()
        self.reason = "its first launch gave other results than the replay"
        return tuple(wanted[: len(plain)])

    def _launch(self, everything: list[Any]) -> None:
        for place, buffer in self._buffers.items():
            buffer[...] = everything[place]
        self.graph.launch()

    def _results(self) -> tuple[Any, ...]:
        """Return copies of the graph's results, which the next launch overwrites."""
        copies = iter(self._copies([x for x, own in zip(self._outs, self.own, strict=True) if own]))
        return tuple([next(copies) if own else x for x, own in zip(self._outs, self.own, strict=True)])

    def _forget(self) -> None:
        self.graph, self._outs, self._buffers = None, (), {}


def _capturable(step: Instruction) -> None:
    """Raise Refused if a graph cannot repeat an instruction with equal results."""
    if step.kind not in _PURE:
        raise Refused(f"{step.name} runs on the CPU")
    arrays = [x for x in (*step.reads(), *step.outs) if x.shape is not None]
    if any(x.shape is None for x in (*step.reads(), *step.outs)):
        raise Refused(f"{step.name} reads or returns a number on the CPU")
    if not all(x.on_gpu for x in arrays):
        raise Refused(f"{step.name} computes on the CPU")
    if any(isinstance(x, np.ndarray) and x.ndim for x in leaves((step.args, step.kwargs))):
        raise Refused(f"{step.name} copies an array from the CPU")
    if shaped_by_data(step) or step.checks and any(x.dtype == np.bool_ for x in arrays):
        raise Refused(f"the shape of the result of {step.name} depends on elements")


@contextlib.contextmanager
def _no_copies_from_host(xp: ModuleType) -> Iterator[None]:
    """Refuse copies from the CPU: CuPy copies through pinned memory that it reuses, which a graph must not read."""
    pool, thread = xp.get_default_pinned_memory_pool(), get_ident()

    def alloc(size: int) -> object:
        if get_ident() == thread:
            raise Refused("it copies from CPU memory")
        return pool.malloc(size)

    set_allocator: Callable[[object], None] = xp.cuda.set_pinned_memory_allocator
    set_allocator(alloc)
    try:
        yield
    finally:
        set_allocator(pool.malloc)


def _alike(xp: ModuleType, a: Any, b: Any) -> bool:
    """Return whether results agree within the rounding of a library's summation order."""
    if a.dtype.kind not in "fc":
        return bool((a == b).all())
    scale = xp.abs(b)
    size = xp.where(xp.isfinite(scale), scale, 0).max() if b.size else 0
    near = xp.abs(a - b) <= 1e-2 * scale + 1e-3 * size
    return bool((near | (a == b) | (xp.isnan(a) & xp.isnan(b))).all())
