"""Recipes for recomputing saved values: a ``Call`` has all that is needed to repeat it, except its input values.

A value is named by its Call, or by the pair (Call, index) if the call has several outputs. A ``Source``
is an input that no recipe computes: a leaf, a constant, or the result of a custom Function.

Values never change: every reference to an array comes with a reference to its Storage, so a write goes to fresh memory.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple, Protocol, TypeAlias, TypeGuard
from weakref import ref

from numpy import ndarray

from ...core.arrays import Array
from ...core.arrays.devices import backend_of, is_array
from ...core.arrays.dtypes import DType, promoted
from ...core.graph.backward import as_array
from ...core.graph.nodes import NOTHING, Node
from ...core.graph.plan import Plan
from ...core.graph.primitive import Primitive
from ...core.tensor.mutation import COPY, EXTRACT, OVERWRITE, REPLACE, Place
from .ledger import Memory

Value: TypeAlias = "Call | tuple[Call, int]"


class Part(Protocol):
    """The part of a segment's interface that its calls need."""

    def restore(self, target: Call) -> None:
        """Recompute what the node of ``target`` saved."""

    def replace(self, old: Node, new: Node) -> None:
        """Move the call of a node to another node."""


class Source(NamedTuple):
    """An input that is not the result of a recorded call. Its array is never freed."""

    array: Array
    storage: object


class Recreatable:
    """An input that an operator created or drew, such as zeros or noise, and that recomputations recreate.

    ``depth`` is the number of calls that computed the input from the created array.
    """

    __slots__ = ("_latest", "depth", "make")

    def __init__(self, make: Callable[[], Array], depth: int = 0) -> None:
        self.make = make
        self.depth = depth
        self._latest: ref[Array] | None = None

    def get(self) -> Array:
        """Return the array, in new memory unless a recomputation still uses it."""
        array = None if self._latest is None else self._latest()
        if array is None:
            array = self.make()
            self._latest = ref(array)
        return array


class Layout(NamedTuple):
    """The memory layout of an array. The rounding of a sum depends on it."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType

    @classmethod
    def of(cls, array: Array) -> Layout:
        return cls(array.shape, array.strides, array.dtype)

    def empty(self, like: Array) -> Array:
        """Return a new array with this layout, on the device of ``like``."""
        reach = [(length - 1) * step for length, step in zip(self.shape, self.strides, strict=True)]
        low, high = sum(min(step, 0) for step in reach), sum(max(step, 0) for step in reach)
        backend = backend_of(like)
        memory = backend.xp.empty(high - low + self.dtype.itemsize, "u1")
        return backend.strided(memory, -low, self.shape, self.strides, self.dtype)


class Call:
    """One recorded call, which can be repeated. It takes the place of ``node.saved`` while the node's arrays are freed.

    ``handles`` are the inputs: a tuple of values, Sources and plain numbers, or just the Call if the only input is a
    Call. ``layout`` is the layout of the written Tensor if the call was in place. ``count`` is the number of outputs,
    or 0 if the primitive has one. A Tensor with the call's node still has the value that the call returned if the
    version of the Tensor's memory equals ``version``. ``held`` is the memory of the node's saved arrays, ``segment``
    the part of the tape with the call. ``made`` says whether a parameter is Recreatable.

    A loop over small arrays records thousands of calls, so a Call refers to few objects that Python's garbage
    collector visits.
    """

    __slots__ = ("count", "handles", "held", "layout", "made", "params", "partial", "primitive", "segment", "version")

    def __init__(
        self,
        primitive: Primitive,
        handles: tuple[object, ...] | Call,
        params: dict[str, object],
        count: int = 0,
        version: int = 0,
        layout: Layout | None = None,
        made: bool = False,
    ) -> None:
        self.primitive = primitive
        self.handles = handles
        self.params = params
        self.count = count
        self.version = version
        self.layout = layout
        self.made = made
        self.partial: list[object] | None = None
        self.held: tuple[Memory, ...] = NOTHING
        self.segment: Part | None = None

    @property
    def inputs(self) -> tuple[Any, ...]:
        """The values, Sources and plain numbers that the call read."""
        handles = self.handles
        return (handles,) if isinstance(handles, Call) else handles

    @property
    def outputs(self) -> Sequence[Value]:
        """The names of the values that the call returns."""
        return [(self, index) for index in range(self.count)] if self.primitive.outputs != 1 else (self,)

    def forget(self) -> None:
        """Record that a Tensor with the call's node got another array, which is not the value of the call."""
        self.version = -1

    def run(self, arrays: tuple[Any, ...]) -> tuple[tuple[Any, ...], list[Array], Sequence[Array]]:
        """Repeat the call on these arrays; return the inputs after promotion, the outputs and the residuals."""
        primitive, params, first = self.primitive, self.params, arrays[0]
        if primitive.promote is not None:
            arrays = promoted(primitive.name, primitive.promote, arrays, arrays)
        if self.made:
            params = {name: recreated(x) for name, x in params.items()}
        if self.layout is not None:
            out = self.layout.empty(next(x for x in arrays if is_array(x)))
            if primitive is not COPY and primitive is not REPLACE:
                out[...] = first
            assert primitive.write is not None
            primitive.write(out, *arrays, **params)
            return arrays, [out], ()
        forward = _PLACED.get(primitive, primitive.forward)
        results = forward(*arrays, **params)
        residuals: Sequence[Array] = ()
        if primitive.residuals:
            results, *residuals = results
        if type(results) is ndarray:
            return arrays, [results], residuals
        outs = results if primitive.outputs != 1 else (results,)
        return arrays, [x if is_array(x) else as_array(x, first) for x in outs], residuals

    def promoted(self, arrays: tuple[object, ...]) -> tuple[Any, ...]:
        """Return the inputs in the dtypes in which the call computes."""
        primitive = self.primitive
        return arrays if primitive.promote is None else promoted(primitive.name, primitive.promote, arrays, arrays)

    def strip(self, node: Node) -> None:
        """Free the arrays that the node saved."""
        plan, width = node.plan, len(self.primitive.inputs)
        values = list(node.saved.values if type(node.saved) is not tuple else node.saved)[: len(self.primitive.layout)]
        for place in plan.kept_inputs:
            values[place] = None
        if plan.keep_ans:
            values[width] = None
        for place, _ in plan.kept_residuals:
            values[place] = None
        for place, name in plan.kept_params if self.made else ():
            if type(self.params.get(name)) is Recreatable:
                values[place] = None
        self.partial, node.saved = values, self

    def fill(
        self,
        node: Node,
        arrays: tuple[object, ...],
        outs: list[Array],
        residuals: Sequence[Array],
        storages: list[object],
    ) -> None:
        """Restore the node's saved values; ``storages`` has the Storages of the inputs, then those of the outputs."""
        plan, primitive, values = node.plan, self.primitive, self.partial
        assert values is not None
        width, arity = len(primitive.inputs), len(self.inputs)
        kept: list[object] = []
        if plan.kept_inputs:
            if primitive.variadic:
                values[0], kept = tuple(arrays), storages[:arity]
            else:
                kept = [None] * arity
                for place in plan.kept_inputs:
                    values[place], kept[place] = arrays[place], storages[place]
        if plan.keep_ans:
            values[width] = outs[0] if primitive.outputs == 1 else tuple(outs)
            kept += storages[arity:]
        for place, index in plan.kept_residuals:
            values[place] = residuals[index]
        for place, name in plan.kept_params if self.made else ():
            if type(made := self.params.get(name)) is Recreatable:
                values[place] = made.get()
        node.saved, self.partial = (*values, *kept), None

    def move(self, old: Node, new: Node) -> None:
        """Make this call the recipe of ``new`` instead of ``old``, whose saved values ``new`` has taken over."""
        del old.recipe
        new.recipe = self
        if self.segment is not None:
            self.segment.replace(old, new)

    def restore(self) -> None:
        """Recompute what the node saved, with the rest of its segment."""
        assert self.segment is not None
        self.segment.restore(self)


def producer(value: Value) -> Call:
    """Return the Call that computes a value."""
    return value if isinstance(value, Call) else value[0]


def is_value(handle: object) -> TypeGuard[Value]:
    """Return whether an input of a call is the result of another call."""
    return type(handle) is Call or type(handle) is tuple


def recreated(x: object) -> Any:
    """Return an input or parameter of a call; recreate it if it is Recreatable."""
    return x.get() if type(x) is Recreatable else x


def must_run(plan: Plan) -> bool:
    """Return whether nodes save an output or a residual, so that restoring them means running the call."""
    return plan.keep_ans or bool(plan.kept_residuals)


def saved_places(plan: Plan) -> tuple[int, ...]:
    """Return the places of saved arrays among the saved values, without those of parameters."""
    places = list(plan.kept_inputs)
    if plan.keep_ans:
        places.append(len(plan.primitive.inputs))
    return (*places, *[place for place, _ in plan.kept_residuals])


def _overwritten(x: Array, y: Array, place: Place) -> Array:
    """Return a copy of x, in the layout of the base, with the elements of the view replaced by y."""
    whole, part = _base_and_view(x, place)
    part[...] = y
    return whole


def _extracted(x: Array, place: Place) -> Array:
    """Return the view of x: without a copy if x has the layout of the base."""
    base = place.base
    if x.strides == base.strides and base.start == 0 and x.nbytes == place.extent:
        return backend_of(x).strided(x, place.view.start, *place.view[:3])
    return _base_and_view(x, place)[1]


def _base_and_view(x: Array, place: Place) -> tuple[Array, Array]:
    backend = backend_of(x)
    memory = backend.xp.empty(place.extent, "u1")
    whole, part = [backend.strided(memory, at.start, at.shape, at.strides, at.dtype) for at in (place.base, place.view)]
    whole[...] = x
    return whole, part


_PLACED: dict[Primitive, Callable[..., Array]] = {OVERWRITE: _overwritten, EXTRACT: _extracted}
