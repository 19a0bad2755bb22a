"""``memory_budget``: limit the memory that a graph saves for the backward pass."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Iterator
from math import ceil, isfinite
from typing import TYPE_CHECKING, Any
from weakref import ref
from zlib import crc32

import numpy as np
from numpy import ndarray

from ...autograd.context import Context
from ...core.arrays import Array
from ...core.arrays.bfloat16 import bfloat16
from ...core.arrays.devices import Wrapping, is_array
from ...core.arrays.dtypes import DType
from ...core.graph.modes import Mode, modes
from ...core.graph.nodes import Node
from ...core.graph.observers import Observer
from ...core.graph.primitive import Primitive
from ...core.nests import leaves
from ...core.tensor.mutation import EXTRACT, OVERWRITE
from ...core.tensor.storage import Storage, storage_of
from ...core.tensor.tensor import Tensor
from .ledger import Budget
from .recipes import Call, Layout, Recreatable, Source, Value, producer, recreated
from .segments import Pool, Segment

if TYPE_CHECKING:
    from ...core.graph.plan import Inputs, Params, Recordable

SMALL = 1024  # bytes below which a constant is kept in memory instead of recreated
MAX_DEPTH = 4  # the most calls that are repeated to recreate a constant

_UNITS = {"": 1, "b": 1}
for _power, _letter in enumerate("kmgt", 1):
    _UNITS[_letter + "b"] = 1000**_power
    _UNITS[_letter + "ib"] = 1024**_power
_SIZE = re.compile(r"\s*([0-9]+(?:\.[0-9]*)?|\.[0-9]+)\s*([a-z]*)\s*", re.IGNORECASE)


class memory_budget(Mode, Budget):
    """Limit the memory that the graph saves for the backward pass; gradients stay equal to the last bit.

    Use it around a training step. When the operators inside save more than ``limit`` bytes, the arrays that the oldest
    operators saved are freed, and the backward pass recomputes them in segments: it repeats all operators of a segment
    from the values that the segment reads, and keeps what they save until it has left the segment. Each operator is
    repeated once if a segment and the values between segments fit in the budget together, and a few times below that.
    The program needs no changes. A recomputation uses the original inputs: dropout draws its mask again from the saved
    state of the generator, running statistics are updated once, and arrays that were overwritten get their old values.

    The budget counts all memory that nodes of the graph hold between two operators, and the values between segments.
    It does not count gradients, parameters, arrays that only the running operators of a recomputation read, or other
    memory that Tensors of the user use. Two kinds of memory are counted but cannot be freed: inputs of the graph that
    nothing else refers to, unless they were created or drawn inside the block, and values that a custom
    ``autograd.Function`` saves. Blocks can be nested; the smallest budget applies.

    A backward pass after the block still recomputes the values that were freed inside the block.

    With ``saved_dtype=rg.bfloat16``, what the oldest operators saved is first kept in bfloat16, and only freed and
    recomputed if that does not make enough room. This trades accuracy for time: results and losses are the same, but
    derivative rules read the saved values with a relative error of up to 2^-8 (0.4 %) each, and recomputations start
    from such values. Parameters, small arrays and arrays of other dtypes than float32 stay exact.

    Args:
        limit: the number of bytes, or a string such as ``"200 MB"`` or ``"1.5 GiB"``.
        saved_dtype: ``rg.bfloat16``, or None to keep all saved values exact.

    Attributes:
        peak: the maximum number of bytes held.
        halved: the number of operators whose saved values were kept in bfloat16.
        recomputations: the number of repeated calls.
        seconds: the time of the repeated calls.

    Raises:
        RuntimeError: at the end of a backward pass, if the budget was exceeded. The gradients are complete. The message
            names a sufficient budget for the step up to the end of this pass: the memory that cannot be freed, plus
            the most that one operator saves. This may be too small if the step also calls ``checkpoint``. If the memory
            that cannot be freed exceeds the budget, the backward pass may hold twice as much as that memory.
        TypeError: ``limit`` is neither a number nor a string.
        ImportError: ``saved_dtype`` is given, and ml_dtypes is not installed.
        ValueError: ``limit`` is not a positive size, or ``saved_dtype`` is neither ``rg.bfloat16`` nor None.

    Source: Griewank and Walther, "Algorithm 799: Revolve", 2000; Chen et al., "Training Deep Nets with Sublinear Memory
    Cost", 2016.

    >>> x = rg.linspace(0.0, 1.0, 1000, requires_grad=True)
    >>> with rg.memory_budget("20 kB") as budget:
    ...     y = x
    ...     for _ in range(10):
    ...         y = y.sin()
    ...     y.sum().backward()
    >>> budget.peak <= 20_000 and budget.recomputations > 0
    True
    """

    def __init__(self, limit: int | float | str, saved_dtype: DType | None = None) -> None:
        super().__init__()
        self.limit = _bytes_of_limit(limit)
        if saved_dtype is not None and saved_dtype != bfloat16():
            raise ValueError(f"memory_budget: saved_dtype must be retrograd.bfloat16 or None, got {saved_dtype!r}")
        self.saved_dtype = saved_dtype

    @property
    def changes(self) -> dict[str, Any]:  # type: ignore[override]
        """Return the thread's observers, with one that enforces this budget and the enclosing budgets."""
        outer = next((observer for observer in modes.observers if isinstance(observer, _Keeper)), None)
        if outer is None:
            return {"observers": (*modes.observers, _Keeper(Pool(), (self,)))}
        inner = _Keeper(outer.pool, (*outer.budgets, self))
        return {"observers": tuple([inner if observer is outer else observer for observer in modes.observers])}

    def _clone(self) -> Mode:
        return memory_budget(self.limit, self.saved_dtype)

    def __repr__(self) -> str:
        kept = "" if self.saved_dtype is None else ", retrograd.bfloat16"
        return f"memory_budget({_size_text(self.limit)!r}{kept})"


def _bytes_of_limit(limit: float | str) -> int:
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
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000 or unit == "GB":
            digits = max(0, 3 - len(str(int(size)))) if unit != "B" else 0
            return f"{ceil(size * 10**digits) / 10**digits:g} {unit}"
        size /= 1000  # type: ignore[assignment]
    raise AssertionError


class _Keeper(Observer):
    """Records how to repeat every recorded call, and frees memory after each if necessary."""

    late = True  # ``calling`` stores the inputs for ``writing``

    def __init__(self, pool: Pool, budgets: tuple[memory_budget, ...]) -> None:
        self.pool = pool
        self.budgets = budgets
        self.inputs: tuple[object, ...] = ()
        self.written: tuple[object, ...] | None = None  # for an in-place call: its inputs before the call
        self.segment: Segment | None = None  # for an in-place call: its segment
        self.base: object = None  # for an in-place call on a view: the base before the call
        self.error: BaseException | None = None

    def calling(self, primitive: Recordable, inputs: Inputs, params: Params) -> None:
        self.inputs = inputs

    def made(self, array: Array, make: Callable[[], Array]) -> None:
        if type(array) is ndarray and array.nbytes >= SMALL and id(array) not in self.pool.made:
            self._note(array, Recreatable(make))

    def _note(self, array: Array, made: Recreatable) -> None:
        known, key = self.pool.made, id(array)
        known[key] = ref(array, lambda _: known.pop(key, None)), made, None

    def _recreatable(self, array: Array, version: int) -> Recreatable | None:
        """Return the recipe that recreates an array, unless the program has written to it."""
        entry = self.pool.made.get(id(array))
        if entry is None or entry[0]() is not array or version:
            return None
        reference, made, known = entry
        checksum = crc32(array.tobytes())  # NumPy may have written to the array, which no version counter shows
        if known is None:
            again = made.get()
            known = crc32(again.tobytes()) if Layout.of(again) == Layout.of(array) else None
            self.pool.made[id(array)] = reference, made, known
        return made if known == checksum else None

    def _derived(self, primitive: Recordable, inputs: Inputs, params: Params, out: Array) -> None:
        """Record that a call's result can be recreated, if all its inputs can."""
        if not isinstance(primitive, Primitive) or primitive.view or primitive.outputs != 1 or out.nbytes < SMALL:
            return
        handles: list[object] = []
        for x in inputs:
            made = self._recreatable(x.array, _version(x)) if isinstance(x, Tensor) else None
            if made is None and type(x) not in (float, int):
                return
            handles.append(x if made is None else made)
        depth = 1 + max([x.depth for x in handles if isinstance(x, Recreatable)], default=MAX_DEPTH)
        if depth <= MAX_DEPTH and not any(True for x in params.values() for _ in _arrays_within(x)):
            call = Call(primitive, tuple(handles), params)
            self._note(out, Recreatable(lambda: call.run(tuple(map(recreated, handles)))[1][0], depth))

    def writing(self, x: Tensor) -> None:
        self.written, self.base = None, None
        base = x._base
        needs = [value for value in self.inputs if isinstance(value, Tensor) and value._requires]
        if modes.grad_enabled and (needs or base is not None and base._requires):
            with self.pool.lock:
                if self.pool.budgets is not self.budgets:
                    self.pool.enforce(self.budgets)
                segment = self.segment = self.pool.segment()
                self.written = self._handles(self.inputs, segment, x)
                if base is not None:
                    (self.base,) = self._handles((base,), segment, base)

    def called(
        self, primitive: Recordable, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        written, self.written = self.written, None
        segment, self.segment = self.segment, None
        self.inputs = ()  # do not keep the memory of a Tensor that the program has dropped
        if node is None and written is None:
            if self.pool.made and modes.level is None and type(outputs[0].array) is ndarray:
                self._derived(primitive, inputs, params, outputs[0].array)
            return
        pool = self.pool
        with pool.lock:
            if pool.budgets is not self.budgets:
                pool.enforce(self.budgets)
            if node is not None and "ctx" in primitive.position:
                self._keep_context(node)
            elif isinstance(primitive, Primitive) and (modes.level is None or not _mapped(inputs, outputs)):
                self._record(primitive, inputs, params, outputs, node, written, segment or pool.segment())
            if pool.bytes > pool.limit:
                pool.make_room()
            if pool.bytes > pool.observed:
                pool.observe()

    def told(self, primitive: Recordable, inputs: Inputs, params: Params, result: Tensor, node: Node | None) -> None:
        pool = self.pool
        if (
            node is None
            or pool.made
            or pool.budgets is not self.budgets
            or params
            and not all(type(x) in _NO_ARRAYS or type(x) is tuple and _is_plain(x) for x in params.values())
        ):
            self.called(primitive, inputs, params, (result,), node)
            return
        with pool.lock:  # as in ``_record``, for a call that is not a write
            segment = pool.segment()
            handles: Any = self._handles(inputs, segment)
            if len(handles) == 1 and type(handles[0]) is Call:
                (handles,) = handles
            assert isinstance(primitive, Primitive)
            version = _version(result) if primitive.view else 0
            pool.append(Call(primitive, handles, params, 0, version), node, segment)
            if pool.bytes > pool.limit:
                pool.make_room()
            if pool.bytes > pool.observed:
                pool.observe()

    def failed(self, primitive: Recordable, inputs: Inputs, params: Params, error: BaseException) -> None:
        self.inputs, self.written, self.base, self.segment = (), None, None, None

    def _record(
        self, primitive: Primitive, inputs: tuple[Any, ...], params: dict[str, object], outputs: tuple[Tensor, ...],
        node: Node | None, written: tuple[object, ...] | None, segment: Segment,
    ) -> None:  # fmt: skip
        pool, out = self.pool, outputs[0]
        if node is not None:
            made = False
            if params:
                if pool.made:
                    recipes = {name: self._recreatable(x, 0) for name, x in params.items() if type(x) is ndarray}
                    made = any(recipes.values())
                    params = params | {name: x for name, x in recipes.items() if x is not None}
                for value in params.values():
                    if type(value) not in _NO_ARRAYS and (type(value) is not tuple or not _is_plain(value)):
                        for array in _arrays_within(value):
                            pool.fix(array)
            handles: Any = self._handles(inputs, segment) if written is None else written
            if len(handles) == 1 and type(handles[0]) is Call:
                (handles,) = handles
            layout = None if written is None else Layout.of(out.array)
            count = 0 if primitive.outputs == 1 else len(outputs)
            call = Call(primitive, handles, params, count, _version(out), layout, made)
            pool.append(call, node, segment)
        if written is None:
            return
        base = out._base
        if base is not None and self.base is not None:
            whole: Any = base._node  # the write to a view has replaced its base's value, without a call
            if whole is not None and whole.plan.primitive is OVERWRITE and not hasattr(whole, "recipe"):
                part: Call | Source
                if node is not None:
                    part = call
                else:
                    part = Source(out.array.copy(), None)
                    pool.fix(part.array)
                params = {"place": whole.saved[OVERWRITE.position["place"]]}
                pool.append(Call(OVERWRITE, (self.base, part), params, 0, _version(base)), whole, segment)

    def _handles(self, inputs: tuple[Any, ...], segment: Segment, written: Tensor | None = None) -> tuple[object, ...]:
        """Return a call's inputs as values and Sources; the segment then holds the values of earlier segments."""
        handles: list[object] = []
        pool = self.pool
        for x in inputs:
            kind = type(x)
            if kind is Tensor and x._requires:  # a fast path for the frequent case: ``_value_of`` and ``take``, inlined
                parent, storage = x._node, x._storage
                call = getattr(parent, "recipe", None)
                if (
                    call is not None
                    and call.segment is segment
                    and call.version == (storage.version if type(storage) is Storage else 0)
                    and (type(storage) is not Storage or storage.origin is None)
                ):
                    handles.append(call)
                    continue
            elif kind is float or kind is int:
                handles.append(x)
                continue
            if isinstance(x, Tensor):
                value = self._value_of(x) if x._requires else None
                if value is not None:
                    if producer(value).segment is not segment:
                        segment.take(value, x)
                    handles.append(value)
                    continue
                made = self._recreatable(x.array, _version(x)) if pool.made else None
                if made is not None:
                    if x is not written:
                        pool.note_user(x.array, x)
                    handles.append(made)
                    continue
                if type(x.array) is ndarray or is_array(x.array):
                    pool.fix(x.array, None if x is written else x)
                handles.append(Source(x.array, storage_of(x)))
            elif is_array(x):
                pool.fix(x)
                handles.append(Source(x, None))
            else:
                handles.append(x)
        return tuple(handles)

    def _value_of(self, x: Tensor) -> Value | None:
        """Return the name of the value that a Tensor has; None for leaves, and Tensors written without a record."""
        node: Any = x._node
        if type(node) is not Node:  # a leaf has no node
            return None
        index = node.plan.select
        call = getattr(node if index is None else node.left, "recipe", None)
        if call is None and node.plan.primitive is EXTRACT:
            call = self._recipe_of_view(x, node)
        if call is None or call.segment is None or call.version != _version(x):
            return None
        return call if index is None else (call, index)

    def _recipe_of_view(self, x: Tensor, node: Node) -> Call | None:
        """Return a new recipe for a node that the engine created, without a call, for a view of a written base."""
        base = x._base
        value = None if base is None else self._value_of(base)
        if base is None or value is None or node.parents[0] is not base._node:
            return None
        segment = self.pool.segment()
        segment.take(value, base)
        call = Call(EXTRACT, (value,), {"place": node.saved[EXTRACT.position["place"]]}, 0, _version(x))
        self.pool.append(call, node, segment)
        return call

    def _keep_context(self, node: Node) -> None:
        """Mark the values that a custom Function saved as never freed."""
        for context in node.saved or ():
            for entry in (context._saved or ()) if isinstance(context, Context) else ():
                if entry is not None:
                    edge = entry[3]
                    self.pool.fix(entry[0], edge if isinstance(edge, Tensor) else None)

    def released(self, nodes: list[Node]) -> None:
        for node in nodes:
            call = getattr(node, "recipe", None)
            if call is not None:
                self.pool.uncount(call)

    def began(self) -> None:
        self.pool.enforce(self.budgets, self.pool.wanted if self.pool.budgets is self.budgets else 0)
        self.error = sys.exc_info()[1]

    def entered(self, node: Node, g: object) -> None:
        pool = self.pool
        call = pool.visited = getattr(node, "recipe", None)
        if pool.bytes > pool.budget:
            pool.need(0, call)

    def ended(self) -> None:
        pool = self.pool
        pool.visited = None
        for segment in pool.live():
            pool.finish(segment)
        wanted, limit = pool.wanted, pool.budget
        pool.enforce(self.budgets)
        pool.most_fixed = pool.fixed
        if wanted > limit and sys.exc_info()[1] is self.error:
            raise RuntimeError(
                f"memory_budget: {_size_text(limit)} is too small; "
                f"a budget of {wanted:.0f} bytes, {_size_text(int(wanted))!r}, suffices for this step"
            )


def _mapped(*tensors: Iterable[object]) -> bool:
    """Return whether a call is inside vmap; its counterpart on the layer below is recorded there."""
    return any(isinstance(x, Tensor) and isinstance(x.array, Wrapping) for each in tensors for x in each)


def _version(x: Tensor) -> int:
    storage = x._storage
    if type(storage) is not Storage:
        return 0
    while isinstance(storage, Storage) and storage.origin is not None:
        storage = storage.origin
    return storage.version if isinstance(storage, Storage) else 0


_NO_ARRAYS = frozenset((int, float, bool, str, type(None), slice, type(Ellipsis), np.dtype))


def _is_plain(values: tuple[object, ...]) -> bool:
    """Return whether a tuple, such as a basic index, has neither arrays nor tuples in it."""
    return _NO_ARRAYS.issuperset(map(type, values))


def _arrays_within(param: object) -> Iterator[Array]:
    return filter(is_array, leaves(param))
