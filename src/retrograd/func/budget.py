"""The memory of a graph as a number that the user sets: ``memory_budget``."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from math import ceil, isfinite
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..autograd.context import Context
from ..core.arrays.devices import Wrapping, is_array
from ..core.graph.modes import Mode, modes
from ..core.graph.nodes import Node
from ..core.graph.observers import Observer
from ..core.graph.primitive import Primitive
from ..core.tensor.storage import storage_of
from ..core.tensor.tensor import Tensor
from ..ops.indexing.indexing import Index
from .recipes import Call, Record, Source, Value, append
from .rematerialization import Pool
from .reserve import Reserve

if TYPE_CHECKING:
    from ..core.graph.plan import Recordable

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", 1):
    _UNITS[_letter + "b"] = 1000**_power
    _UNITS[_letter + "ib"] = 1024**_power
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]*)\s*", re.IGNORECASE)


class memory_budget(Mode):
    """Keep what the graph has saved for backward within a number of bytes; the gradients stay the same to the last bit.

    Around a training step: where the operators inside have saved more, saved arrays that can be computed again are let
    go of, and the walk computes them again when it comes to them. First goes the memory with the least

        ``cost / (bytes * age)``

    where ``cost`` is the time that its own calls took and those next to them whose results are not there either, and
    ``age`` is counted in operators since it was last used. What could not be computed again within the budget stays:
    the sizes of arrays decide whether a budget can be kept, not how long anything took. Nothing has to be marked, and
    a call is made again with what it was made with: the mask of a dropout is kept, running statistics are updated once,
    values that were written over come back as they were.

    What counts is each piece of memory that nodes of the graph hold, between two operators, and what stands ready in
    between while something is computed again. Parameters and whatever else Tensors of the user's live in do not count,
    nor do gradients. What cannot be let go of: inputs of the graph that nobody else holds, masks, what a custom
    ``autograd.Function`` saves, and views whose base was written. Blocks may be nested; the smallest budget holds.

    A walk after the block computes again what was let go of in it.

    Args:
        limit: the bytes, as a number or in words: ``"200 MB"``, ``"1.5 GiB"``.

    Attributes:
        peak: the most bytes that were held at any time.
        recomputations: how many calls were made again.
        seconds: how long these took.

    Raises:
        RuntimeError: at the end of a walk, if the budget could not be kept. It names the smallest budget for the step
            up to there: that one and every larger one can be kept, no smaller one can, unless some of the graph is let
            go of before a walk comes to it. The gradients are complete.
        TypeError: ``limit`` is neither a number nor a string.
        ValueError: it is no positive size.

    Source: Kirisame et al., "Dynamic Tensor Rematerialization", ICLR 2021 (its heuristic h_DTR).

    >>> x = rg.linspace(0.0, 1.0, 1000, requires_grad=True)
    >>> with rg.memory_budget("20 kB") as budget:
    ...     y = x
    ...     for _ in range(10):
    ...         y = y.sin()
    ...     y.sum().backward()
    >>> budget.peak <= 20_000 and budget.recomputations > 0
    True
    """

    def __init__(self, limit: int | float | str) -> None:
        super().__init__()
        self.limit = _parsed(limit)
        self.peak = 0
        self.recomputations = 0
        self.seconds = 0.0

    @property
    def changes(self) -> dict[str, Any]:  # type: ignore[override]
        """The observers of the thread, with one that keeps this budget and those around it."""
        outer = next((observer for observer in modes.observers if isinstance(observer, _Keeper)), None)
        if outer is None:
            return {"observers": (*modes.observers, _Keeper(Pool(), (self,)))}
        inner = _Keeper(outer.pool, (*outer.budgets, self))
        return {"observers": tuple([inner if observer is outer else observer for observer in modes.observers])}

    def _clone(self) -> Mode:
        return memory_budget(self.limit)

    def __repr__(self) -> str:
        return f"memory_budget({_said(self.limit)!r})"


def _parsed(limit: Any) -> int:
    if isinstance(limit, str):
        match = _SIZE.fullmatch(limit)
        unit = None if match is None else _UNITS.get(match[2].lower())
        if match is None or unit is None:
            raise ValueError(
                f"memory_budget: {limit!r} is no size; wanted a number of bytes or words like '200 MB' or '1.5 GiB'"
            )
        size: Any = float(match[1]) * unit
    elif isinstance(limit, bool) or not hasattr(limit, "__index__") and not isinstance(limit, float):
        raise TypeError(f"memory_budget: limit must be a number of bytes or a string, not {type(limit).__name__}")
    else:
        size = limit if isinstance(limit, float) else limit.__index__()
    if not isfinite(size) or size < 1:
        raise ValueError(f"memory_budget: limit must be a positive number of bytes, got {limit!r}")
    return int(size)


def _said(size: int) -> str:
    """The size in words, rounded up to three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            digits = max(0, 3 - len(str(int(size)))) if unit != "B" else 0
            return f"{ceil(size * 10**digits) / 10**digits:g} {unit}"
        size /= 1000  # type: ignore[assignment]
    raise AssertionError


_CAST = Primitive("cast", lambda x, dtype: x.astype(dtype))


class _Keeper(Observer):
    """Takes down how every recorded call can be made again, and lets its pool make room after each."""

    def __init__(self, pool: Pool, budgets: tuple[memory_budget, ...]) -> None:
        self.pool = pool
        self.budgets = budgets
        self.before: tuple[Any, ...] = (None, (), 0.0)
        self.given: list[tuple[Any, ...]] = []
        self.error: BaseException | None = None

    def calling(self, primitive: Recordable, inputs: tuple[Any, ...], params: dict[str, Any]) -> None:
        # A write in place changes its first input: what that was is known only now.
        values = [self._value_of(x) if isinstance(x, Tensor) else None for x in inputs] if modes.grad_enabled else []
        self.before = inputs, values, perf_counter()

    def _value_of(self, x: Tensor) -> Value | None:
        """The Value that a Tensor has; None for leaves, constants, and what was written without a record."""
        node: Any = x._node if x._requires else None
        if type(node) is not Node:  # a leaf that was saved stands in the place of its own node
            return None
        index = node.plan.select
        entry = self.pool.entries.get(node if index is None else node.parents[0])
        if entry is None or not entry[0]:
            return None
        value = entry[0][index or 0]
        return value if value.reference() is x.array and value.version == _version(x) else None

    def called(
        self,
        primitive: Recordable,
        inputs: tuple[Any, ...],
        params: dict[str, Any],
        outputs: tuple[Tensor, ...],
        node: Node | None,
    ) -> None:
        now = perf_counter()
        (known, values, began), self.before = self.before, (None, (), 0.0)
        if node is None:
            return
        pool = self.pool
        with pool.lock:
            pool.budgets = self.budgets
            pool.clock += 1
            if "ctx" in primitive.position:
                self._keep_context(node)
            elif known is inputs and isinstance(primitive, Primitive) and not _mapped(inputs, outputs):
                seconds = pool.timed(primitive, node.shape, now - began)
                self._take_down(primitive, inputs, values, params, outputs, node, seconds)
            pool.called()

    def _keep_context(self, node: Node) -> None:
        """What a custom Function saved is its own affair, and stays."""
        for context in node.saved or ():
            for entry in (context._saved or ()) if isinstance(context, Context) else ():
                if entry is not None:
                    edge = entry[3]
                    self.pool.fix(entry[0], edge if isinstance(edge, Tensor) else None)

    def _take_down(
        self,
        primitive: Primitive,
        inputs: tuple[Any, ...],
        values: list[Value | None],
        params: dict[str, Any],
        outputs: tuple[Tensor, ...],
        node: Node,
        seconds: float,
    ) -> None:
        pool = self.pool
        inplace = outputs[0] is inputs[0]
        handles: list[Any] = []
        again = not inplace or values[0] is not None
        for x, value in zip(inputs, values, strict=True):
            if value is not None:
                handles.append(value)
                if value.memory is not None:
                    value.memory.used = pool.clock
            elif isinstance(x, Tensor):
                storage = storage_of(x)
                again = again and not (inplace and storage is outputs[0]._storage)
                if x is not outputs[0] and is_array(x.array):
                    pool.fix(x.array, x)
                handles.append(Source(x.array, storage))
            elif is_array(x):
                pool.fix(x)
                handles.append(Source(x, None))
            else:
                handles.append(x)
        for array in _arrays(params):
            pool.fix(array, self._tensor_of(array))
        call = Call(primitive, tuple(handles), params, inplace, seconds)
        made: list[Value] = []
        homes: dict[int, Value] = {}
        if again:
            made = [Value(call, index, x.array, _version(x)) for index, x in enumerate(outputs)]
            viewed = inputs[0]._storage if primitive.view and isinstance(inputs[0], Tensor) else None
            for x, value in zip(outputs, made, strict=True):
                if viewed is None or x._storage is not viewed:
                    call.makes(value, x.array, homes)
                elif values[0] is not None:
                    value.base = values[0].home
        record = Record(node, pool)
        for place, part, array, storage in _saved_arrays(node):
            value = None
            if place < len(primitive.inputs):
                value = self._input(call, place if part is None else part, array, values)
            elif place == len(primitive.inputs):
                value = made[part or 0] if made else None
            elif made and primitive.layout[place] in primitive.residuals and primitive.layout[place] not in params:
                index = len(outputs) + primitive.residuals.index(primitive.layout[place])
                value = Value(call, index, array, 0)
                call.makes(value, array, homes)
            if value is None:
                pool.fix(array)
                continue
            value.storage = value.storage or storage or True
            record.places.append((place, part, value))
            append(value.slots, (ref(record), place, part), lambda slot: slot[0]() is not None)
            pool.settle(value, array)
        pool.entries[node] = tuple(made), record if record.places else None
        record.fixed = pool.fixed
        if pool.scarce:
            pool.reserve.judge(record, pool.limit)

    @staticmethod
    def _input(call: Call, index: int, array: Any, values: list[Value | None]) -> Value | None:
        """The Value of a saved input, perhaps in another dtype; None where it stays."""
        value, handle = values[index], call.inputs[index]
        if value is not None and value.reference() is array:
            return value
        if value is None and (call.inplace or type(handle) is not Source or handle.array.dtype is array.dtype):
            return None
        cast = Call(_CAST, (handle,), {"dtype": array.dtype}, False, call.seconds / 8)
        value = Value(cast, 0, array, 0)
        cast.makes(value, array, {})
        return value

    def _tensor_of(self, array: Any) -> Tensor | None:
        """The Tensor with this very array that the public operators being called were given."""
        given = (x for inputs in reversed(self.given) for x in inputs)
        return next((x for x in given if isinstance(x, Tensor) and x.array is array), None)

    def opened(self, what: object, inputs: tuple[Any, ...]) -> None:
        self.given.append(inputs)

    def closed(self, what: object, inputs: tuple[Any, ...], result: Any) -> None:
        if self.given and self.given[-1] is inputs:
            self.given.pop()

    def began(self) -> None:
        self.pool.budgets = self.budgets
        self.error = sys.exc_info()[1]

    def entered(self, node: Node, g: Any) -> None:
        self.pool.entered(node)

    def left(self, node: Node) -> None:
        self.pool.passed = node

    def ended(self) -> None:
        pool = self.pool
        pool.let_pass()
        wanted, limit = pool.reserve.least, pool.budget
        if wanted > limit or not pool.entries:
            pool.reserve = Reserve()
        if wanted > limit and sys.exc_info()[1] is self.error:
            raise RuntimeError(
                f"memory_budget: {_said(limit)} cannot be kept; "
                f"the smallest budget for this step is {wanted:.0f} bytes, in words {_said(int(wanted))!r}"
            )


def _mapped(*tensors: Any) -> bool:
    """Whether a call is one inside vmap: what it stands for on the layer below is recorded there."""
    return any(isinstance(x, Tensor) and isinstance(x.array, Wrapping) for each in tensors for x in each)


def _version(x: Tensor) -> int:
    """How often the memory of a Tensor was written in place."""
    storage = x._storage
    while storage is not None and storage.origin is not None:
        storage = storage.origin
    return 0 if storage is None else storage.version


def _saved_arrays(node: Node) -> Iterator[tuple[int, int | None, Any, Any]]:
    """Every array that a node saved: its place, its part of what stands there, itself and its Storage."""
    saved, primitive = node.saved or (), node.plan.primitive
    width, arity = len(primitive.layout), len(primitive.inputs)
    storages = saved[width:]
    outputs = len(storages) - (primitive.outputs if primitive.outputs > 0 else len(node.shape))
    for place, held in enumerate(saved[:width]):
        offset = outputs if place == arity else place
        for part, array in enumerate(held) if type(held) is tuple and place <= arity else ((None, held),):
            if is_array(array):
                known = 0 <= offset + (part or 0) < len(storages) and place <= arity
                yield place, part, array, storages[offset + (part or 0)] if known else None


def _arrays(params: dict[str, Any]) -> Iterator[Any]:
    """The arrays among the parameters of a call."""
    pending = list(params.values())
    while pending:
        value = pending.pop()
        if is_array(value):
            yield value
        elif isinstance(value, (tuple, list)):
            pending += value
        elif isinstance(value, Index):
            pending += value.key
