"""``memory_budget``: limit the memory that a graph saves for the backward pass."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Iterator
from math import ceil, isfinite
from time import perf_counter
from typing import TYPE_CHECKING, Any
from weakref import ref

from ..autograd.context import Context
from ..core.arrays import Array
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
    """Limit the memory that the graph saves for the backward pass; gradients stay equal to the last bit.

    Use it around a training step. When the operators inside save more than ``limit`` bytes, saved arrays are freed, and
    the backward pass recomputes them when it needs them. The memory with the smallest

        ``cost / (bytes * age)``

    is freed first. ``cost`` is the time of the calls that computed the memory's arrays and the freed arrays next to
    them; ``age`` is the number of operators since the memory was last used. Arrays that could not be recomputed within
    the budget stay, so whether a budget is feasible depends on array sizes only, not on time. The program needs no
    changes. A recomputation uses the original inputs: dropout keeps its mask, running statistics are updated once, and
    arrays that were overwritten get their old values.

    The budget counts all memory that nodes of the graph hold between two operators, and intermediate results of a
    recomputation. It does not count gradients, parameters, or other memory that Tensors of the user use. These cannot
    be freed: inputs of the graph that nothing else refers to, masks, values that a custom ``autograd.Function`` saves,
    and views whose base was written. Blocks can be nested; the smallest budget applies.

    A backward pass after the block still recomputes values that were freed inside.

    Args:
        limit: the number of bytes, or a string such as ``"200 MB"`` or ``"1.5 GiB"``.

    Attributes:
        peak: the maximum number of bytes held.
        recomputations: the number of repeated calls.
        seconds: the time of the repeated calls.

    Raises:
        RuntimeError: at the end of a backward pass, if the budget was exceeded. The message names the smallest budget
            for the step up to there: every larger budget works and no smaller one does, unless part of the graph is
            freed before a backward pass visits it. The gradients are complete.
        TypeError: ``limit`` is neither a number nor a string.
        ValueError: ``limit`` is not a positive size.

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
        """Return the thread's observers, with one that enforces this budget and the enclosing ones."""
        outer = next((observer for observer in modes.observers if isinstance(observer, _Keeper)), None)
        if outer is None:
            return {"observers": (*modes.observers, _Keeper(Pool(), (self,)))}
        inner = _Keeper(outer.pool, (*outer.budgets, self))
        return {"observers": tuple([inner if observer is outer else observer for observer in modes.observers])}

    def _clone(self) -> Mode:
        return memory_budget(self.limit)

    def __repr__(self) -> str:
        return f"memory_budget({_size_text(self.limit)!r})"


def _parsed(limit: float | str) -> int:
    if isinstance(limit, str):
        match = _SIZE.fullmatch(limit)
        unit = None if match is None else _UNITS.get(match[2].lower())
        if match is None or unit is None:
            raise ValueError(
                f"memory_budget: {limit!r} is not a size; pass a number of bytes or a string like '200 MB' or '1.5 GiB'"
            )
        size: int | float = float(match[1]) * unit
    elif isinstance(limit, bool) or not hasattr(limit, "__index__") and not isinstance(limit, float):
        raise TypeError(f"memory_budget: limit must be a number of bytes or a string, not {type(limit).__name__}")
    else:
        size = limit if isinstance(limit, float) else limit.__index__()
    if not isfinite(size) or size < 1:
        raise ValueError(f"memory_budget: limit must be a positive number of bytes, got {limit!r}")
    return int(size)


def _size_text(size: int) -> str:
    """Return the size with its unit, rounded up to three digits."""
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            digits = max(0, 3 - len(str(int(size)))) if unit != "B" else 0
            return f"{ceil(size * 10**digits) / 10**digits:g} {unit}"
        size /= 1000  # type: ignore[assignment]
    raise AssertionError


_CAST = Primitive("cast", lambda x, dtype: x.astype(dtype))


class _Keeper(Observer):
    """Records how to repeat every recorded call, and lets its pool make room after each."""

    def __init__(self, pool: Pool, budgets: tuple[memory_budget, ...]) -> None:
        self.pool = pool
        self.budgets = budgets
        self.before: tuple[Any, ...] = (None, (), 0.0)
        self.given: list[tuple[object, ...]] = []
        self.error: BaseException | None = None

    def calling(self, primitive: Recordable, inputs: tuple[object, ...], params: dict[str, object]) -> None:
        # Look up the Values before the call, since an in-place write changes its first input.
        values = [self._value_of(x) if isinstance(x, Tensor) else None for x in inputs] if modes.grad_enabled else []
        self.before = inputs, values, perf_counter()

    def _value_of(self, x: Tensor) -> Value | None:
        """Return the Value of a Tensor; None for leaves, constants, and Tensors written without a record."""
        node: Any = x._node if x._requires else None
        if type(node) is not Node:  # a leaf has no node
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
        inputs: tuple[object, ...],
        params: dict[str, object],
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
                self._record_call(primitive, inputs, values, params, outputs, node, seconds)
            pool.called()

    def _keep_context(self, node: Node) -> None:
        """Mark the values that a custom Function saved as never freed."""
        for context in node.saved or ():
            for entry in (context._saved or ()) if isinstance(context, Context) else ():
                if entry is not None:
                    edge = entry[3]
                    self.pool.fix(entry[0], edge if isinstance(edge, Tensor) else None)

    def _record_call(
        self,
        primitive: Primitive,
        inputs: tuple[Any, ...],
        values: list[Value | None],
        params: dict[str, object],
        outputs: tuple[Tensor, ...],
        node: Node,
        seconds: float,
    ) -> None:
        pool = self.pool
        inplace = outputs[0] is inputs[0]
        handles: list[object] = []
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
    def _input(call: Call, index: int, array: Array, values: list[Value | None]) -> Value | None:
        """Return the Value of a saved input, which may have been cast; None if it is never freed."""
        value, handle = values[index], call.inputs[index]
        if value is not None and value.reference() is array:
            return value
        if value is None and (call.inplace or type(handle) is not Source or handle.array.dtype is array.dtype):
            return None
        cast = Call(_CAST, (handle,), {"dtype": array.dtype}, False, call.seconds / 8)
        value = Value(cast, 0, array, 0)
        cast.makes(value, array, {})
        return value

    def _tensor_of(self, array: object) -> Tensor | None:
        """Return the argument of the running public operators whose array is ``array``, or None."""
        given = (x for inputs in reversed(self.given) for x in inputs)
        return next((x for x in given if isinstance(x, Tensor) and x.array is array), None)

    def opened(self, what: object, inputs: tuple[object, ...]) -> None:
        self.given.append(inputs)

    def closed(self, what: object, inputs: tuple[object, ...], result: object) -> None:
        if self.given and self.given[-1] is inputs:
            self.given.pop()

    def began(self) -> None:
        self.pool.budgets = self.budgets
        self.error = sys.exc_info()[1]

    def entered(self, node: Node, g: object) -> None:
        self.pool.entered(node)

    def left(self, node: Node) -> None:
        self.pool.passed = node

    def ended(self) -> None:
        pool = self.pool
        pool.forget_last_visited()
        wanted, limit = pool.reserve.least, pool.budget
        if wanted > limit or not pool.entries:
            pool.reserve = Reserve()
        if wanted > limit and sys.exc_info()[1] is self.error:
            raise RuntimeError(
                f"memory_budget: {_size_text(limit)} is too small; "
                f"the smallest budget for this step is {wanted:.0f} bytes, {_size_text(int(wanted))!r}"
            )


def _mapped(*tensors: Iterable[object]) -> bool:
    """Return whether a call is inside vmap; its counterpart on the layer below is recorded there."""
    return any(isinstance(x, Tensor) and isinstance(x.array, Wrapping) for each in tensors for x in each)


def _version(x: Tensor) -> int:
    """Return the number of in-place writes to the memory of a Tensor."""
    storage = x._storage
    while storage is not None and storage.origin is not None:
        storage = storage.origin
    return 0 if storage is None else storage.version


def _saved_arrays(node: Node) -> Iterator[tuple[int, int | None, Any, Any]]:
    """Yield each array that a node saved, as (position, index within the position's tuple, array, Storage)."""
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


def _arrays(params: dict[str, object]) -> Iterator[Any]:
    """Yield the arrays among the parameters of a call."""
    pending = list(params.values())
    while pending:
        value = pending.pop()
        if is_array(value):
            yield value
        elif isinstance(value, (tuple, list)):
            pending += value
        elif isinstance(value, Index):
            pending += value.key
