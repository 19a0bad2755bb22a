"""In-place writes: memory is written, and the graph is the one of an equivalent program without mutation.

A write to x creates a node for the new value x'. If x is a view, the history of its base becomes ``overwrite(base,
x')``: the base with the elements of the view replaced by x'. Other views of the base lose their history and derive it
from the new base when their history is next read (``refresh``). If a live node has saved the memory, the write goes to
a copy (see tensor.storage).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from sys import getrefcount
from threading import RLock
from typing import Any
from weakref import ref

import numpy as np

from ...core.arrays import Array
from ..arrays.devices import backend_of
from ..arrays.dtypes import INEXACT, DType, can_cast, get_default_dtype, promoted, result_type
from ..arrays.fp_warnings import silenced
from ..arrays.half_precision import in_float32
from ..arrays.layout import broadcast_shapes
from ..arrays.unbuffered import ufunc_at
from ..errors import call_error, describe, operator_error
from ..graph.call_node import saved_of
from ..graph.modes import modes, watchers
from ..graph.nodes import NOTHING, Node, edge_of, new_node, next_sequence, saved_by
from ..graph.plan import Params, Plan
from ..graph.primitive import ZEROS, Primitive
from ..named_tuples import NamedTuple
from .storage import (
    LOCAL_ONLY,
    Storage,
    byte_span,
    has_saved_token,
    is_saved,
    is_writable,
    living,
    overlaps_itself,
    storage_of,
    unrecorded_source,
    unshare,
)
from .tensor import Tensor, new_tensor


class Layout(NamedTuple):
    """The layout of an array in a buffer; ``start`` is the offset of its first element in bytes."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    start: int

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)


class Place(NamedTuple):
    """The layouts of a base and its view in a common buffer of ``extent`` bytes.

    The dtypes differ for the real view of complex numbers and the complex view of real numbers.
    """

    base: Layout
    view: Layout
    extent: int


def place_of(view: Array, base: Array) -> Place:
    """Return the place of an array in the base that it is a view of."""
    base_start, view_start = backend_of(base).address(base), backend_of(view).address(view)  # one may be a traced array
    (base_low, base_high), (low, high) = byte_span(base, base_start), byte_span(view, view_start)
    low, high = min(low, base_low), max(high, base_high)  # as_strided may reach beyond a base that is itself a slice
    base_layout = Layout(base.shape, base.strides, base.dtype, base_start - low)
    return Place(base_layout, Layout(view.shape, view.strides, view.dtype, view_start - low), high - low)


def _in_memory(memory: Array, layout: Layout) -> Array:
    """Return the array with the given layout in the memory of another array."""
    return backend_of(memory).strided(memory, layout.start, layout.shape, layout.strides, layout.dtype)


def _move(x: Array, source: Layout, target: Layout, extent: int) -> Array:
    """Write x to a zeroed buffer in the layout ``source`` and return the elements read in the layout ``target``.

    Elements of the source that share a place are added, so the adjoint of a move is the move with the layouts swapped.
    """
    xp = backend_of(x).xp
    if overlaps_itself(source):
        real = x.real.dtype
        memory = xp.zeros(extent // real.itemsize, real)
        numbers = xp.arange(memory.size)
        start, *strides = [step // real.itemsize * numbers.itemsize for step in (source.start, *source.strides)]
        positions = _in_memory(numbers, Layout(source.shape, tuple(strides), numbers.dtype, start))
        if x.dtype.kind == "c":
            positions, x = xp.stack((positions, positions + 1)), xp.stack((x.real, x.imag))
        ufunc_at("add", memory, positions, x)
    else:
        memory = xp.zeros(extent, "u1")
        _in_memory(memory, source)[...] = x
    return _in_memory(memory, target).copy()


def _mean_of_shared(x: Array, base: Layout, extent: int) -> Array:
    """Divide each element by the number of elements that share its place, so that adding them gives their mean."""
    if not overlaps_itself(base):
        return x
    xp = backend_of(x).xp
    return x / _move(xp.ones(base.shape, base.dtype), base, base, extent).real


def _extract(x: Array, place: Place) -> Array:
    return _move(_mean_of_shared(x, place.base, place.extent), place.base, place.view, place.extent)


def _embed(x: Array, place: Place) -> Array:
    return _mean_of_shared(_move(x, place.view, place.base, place.extent), place.base, place.extent)


def _erase(x: Array, place: Place) -> Array:
    xp = backend_of(x).xp
    memory = xp.zeros(place.extent, "u1")
    whole, part = _in_memory(memory, place.base), _in_memory(memory, place.view)
    if not overlaps_itself(place.base):
        whole[...] = x
        part[...] = 0
        return whole.copy()
    # x is a cotangent, whose elements may differ where those of the base share a place: use a mask.
    part[...] = 1 + 1j if part.dtype.kind == "c" else 1
    out, real = xp.array(x, order="C"), x.real.dtype
    out.reshape(-1).view(real)[whole.reshape(-1).view(real) != 0] = 0
    return out


def _overwrite(x: Array, y: Array, place: Place) -> Array:
    memory = backend_of(x).xp.zeros(place.extent, "u1")
    whole, part = _in_memory(memory, place.base), _in_memory(memory, place.view)
    whole[...] = x
    part[...] = y
    return whole.copy()


# A real view moves real and imaginary parts. The adjoint of the move holds for PyTorch's gradients, which are the
# conjugates of cotangents.
def _move_conjugate(g: Array, source: Layout, target: Layout, extent: int) -> Array:
    return MOVE(g.conj(), source=target, target=source, extent=extent).conj()


def _extract_conjugate(g: Array, place: Place) -> Array:
    return EXTRACT(g.conj(), place=place).conj()


def _embed_conjugate(g: Array, place: Place) -> Array:
    return EMBED(g.conj(), place=place).conj()


def _erase_conjugate(g: Array, place: Place) -> Array:
    return ERASE(g.conj(), place=place).conj()


def _written_conjugate(g: Array, place: Place) -> Array:
    """Return the cotangent of the written values: the sum over all elements of the base that share a place."""
    return MOVE(g.conj(), source=place.base, target=place.view, extent=place.extent).conj()


MOVE: Primitive = Primitive("move", _move, "x", [_move_conjugate], bfloat16="native")
EXTRACT: Primitive = Primitive("view", _extract, "x", [_embed_conjugate])
EMBED: Primitive = Primitive("embed", _embed, "x", [_extract_conjugate], bfloat16="native")
ERASE: Primitive = Primitive("erase", _erase, "x", [_erase_conjugate], bfloat16="native")
OVERWRITE: Primitive = Primitive(
    "overwrite", _overwrite, "x y", [_erase_conjugate, _written_conjugate], bfloat16="native"
)


def _write_copy(out: Array, x: Array, y: Array) -> None:
    out[...] = y


def _replacing(old: Callable[[Array], Array] | None) -> Primitive:
    rules = [old, lambda g: g]
    return Primitive("copy_", lambda x, y: y, "x y", rules, write=_write_copy, overwrites=True, bfloat16="native")


# COPY writes y over x, whose gradient is 0, as in PyTorch. REPLACE writes a y that was computed from x, and gives the
# old value of x no gradient.
COPY, REPLACE = _replacing(lambda g: ZEROS(g)), _replacing(None)


class TensorWithoutHistory(Tensor):
    """A view whose base was written. Reading its history derives the history and restores the class Tensor.

    This is a separate class because a ``__getattr__`` on Tensor would slow down every attribute access.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> bool:
        if name not in ("_requires", "_node"):
            raise AttributeError(f"{Tensor.__name__!r} object has no attribute {name!r}")
        with _history_lock:  # another thread may read the history at the same time
            if type(self) is TensorWithoutHistory:
                refresh(self)
                self.__class__ = Tensor  # type: ignore[assignment]
        return getattr(self, name)


TensorWithoutHistory.__name__ = TensorWithoutHistory.__qualname__ = Tensor.__name__
_history_lock = RLock()


def forget_history(view: Tensor) -> None:
    """Remove a view's history, which is derived again when it is next read."""
    view.__class__ = TensorWithoutHistory
    del view._requires, view._node


def refresh(view: Tensor) -> None:
    """Derive a view's history from that of its base, after a write to the base or to another view."""
    _set_node(view, _derived_node(view))
    storage = storage_of(view)
    if storage.derived is None:
        storage.derived = []
    storage.derived.append(ref(view))


def _derived_node(view: Tensor) -> Node | None:
    base = view._base
    if base is None or not base._requires:
        return None
    return _place_node(EXTRACT, (edge_of(base),), place_of(view.array, base.array), view.array)


def past_hooks(x: Tensor) -> Tensor:
    """Return the Tensor that a write to x takes as its input: x, or an alias of x if a view in x's history has a hook.

    The gradient that flows back through a write to a view reaches the old value of the base. As in PyTorch, hooks on
    the old value of the view are not called, so the history of the alias derives the view from the base without them.
    """
    base = x._base
    if base is not None and base._requires:
        node, end = x._node, edge_of(base)
        while node is not end and type(node) is Node and _is_view(node.plan):
            if node.hooks or node.plan.node_hooks is not None:
                alias = new_tensor(x.array)
                alias._storage = storage_of(x)
                _set_node(alias, _derived_node(x))
                return alias
            node = node.parents[0]
    return x


def _is_view(plan: Plan) -> bool:
    """Return whether a node is a view of its parent, or selects one of its parent's views."""
    return plan.primitive.view or plan.primitive is EXTRACT or plan.select is not None


def _place_node(primitive: Primitive, parents: tuple[object, ...], place: Place, array: Array | _Shaped) -> Node:
    plan = primitive.plan(tuple(parent is not None for parent in parents))
    saved = [None] * len(primitive.layout)
    saved[primitive.position["place"]] = place  # type: ignore[call-overload]
    return new_node(plan, parents, tuple(saved), array.shape, array.dtype)


def _set_node(x: Tensor, node: Node | None) -> None:
    x._node = node
    x._requires = node is not None


def check_writable(name: str, x: Tensor, others: Sequence[object] = ()) -> None:
    """Raise an error for writes whose gradient or value is not defined (docs/decisions/143).

    These are writes to a leaf that requires grad, to elements that share memory, and recorded writes to a view that
    was created under ``no_grad``. A base whose elements share memory may be written through a view whose elements do
    not.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: expected a Tensor to write to, got {type(x).__name__}")
    if modes.grad_enabled and x._requires and x._node is None:
        raise _refusal(
            name,
            "a leaf Variable that requires grad is being used in an in-place operation; write under no_grad(), or to a "
            "result computed from it",
        )
    base = x._base
    if modes.grad_enabled and base is not None and base._node is None and (base._requires or x._requires):
        raise _refusal(name, "a view of a leaf Variable that requires grad is being used in an in-place operation")
    source = unrecorded_source(x) if modes.grad_enabled and not x._requires else None
    if source is not None and any(isinstance(value, Tensor) and value._requires for value in (source, *others)):
        raise _refusal(
            name,
            "a view that was created under no_grad() is written while gradients are recorded, and its base would not "
            "follow; create the view and write to it both inside or both outside of no_grad()",
        )
    if overlaps_itself(x.array):
        raise _refusal(
            name,
            f"several elements of the written Tensor {describe(x)} share one memory location (expand); "
            "clone() it before writing",
        )


def _refusal(name: str, reason: str) -> RuntimeError:
    """Return the error of a write. An operator that catches it reports ``reason`` with its own call."""
    error = RuntimeError(f"{name}: {reason}")
    error.reason = reason  # type: ignore[attr-defined]
    return error


def apply_inplace(primitive: Primitive, x: Tensor, *others: Any, **params: Any) -> Tensor:
    """Run ``primitive.write`` on x's memory and give x the history of the primitive's result.

    Raises:
        RuntimeError: the result's shape or dtype does not fit x, or x cannot be written (see ``check_writable``).
    """
    fitting = None if watchers else _fitting(primitive, x, others)
    if fitting is not None and _written_at_once(primitive, x, others, fitting, params):
        return x
    name = primitive.name if primitive.name.endswith("_") else primitive.name + "_"
    check_writable(name, x, others)
    if fitting is not None and x.array.dtype.kind in "iu":
        fitting = None  # the general path wraps numbers beyond the dtype's range
    inputs = (x, *others)
    if primitive.wide and fitting is None and (wide := in_float32(primitive, past_hooks(x), *others)) is not None:
        return apply_inplace(REPLACE, x, wide)
    observers = modes.observers if watchers else ()
    for observer in observers:
        observer.calling(primitive, inputs, params)
        observer.writing(x)
    try:
        node: Any = NotImplemented
        if watchers and modes.level is not None:
            node = modes.level.write(primitive, x, inputs, params)
        if node is NotImplemented:
            node = _write_first_input(primitive, name, x, inputs, fitting, params)
    except BaseException as error:
        for observer in observers:
            observer.failed(primitive, inputs, params, error)
        raise
    for observer in observers:
        observer.called(primitive, inputs, params, (x,), node)
    return x


def _write_first_input(
    primitive: Primitive, name: str, x: Tensor, inputs: tuple[Any, ...], fitting: Any, params: Params
) -> Node | None:
    """Write to x, the first input; return the node of the write, or None if the write is not recorded."""
    assert primitive.write is not None, f"{name} has no in-place form"
    if fitting is None:
        arrays = tuple([value.array if isinstance(value, Tensor) else value for value in inputs])
        check_fits(primitive, name, x, inputs, arrays)
        if primitive.promote is not None:
            arrays = promoted(primitive.name, primitive.promote, inputs, arrays)
    else:
        arrays = (x.array, *fitting)
    recording = modes.grad_enabled
    plan, parents = None, []
    if recording and primitive.differentiable and x.array.dtype.kind in INEXACT:
        mask = 0
        for index, value in enumerate(inputs):
            needed = isinstance(value, Tensor) and value._requires
            mask |= needed << index
            parents.append(edge_of(value) if needed else None)
        if mask:
            if mask & 1 and x._base is not None:
                parents[0] = edge_of(past_hooks(x))
            plan = primitive.plan(mask)
            if not plan.rules:
                plan = None

    def node_of(plan: Plan) -> Node:
        saved = saved_of(plan, inputs, arrays, params, (), x.array, (x,)) if plan.saves else NOTHING
        return new_node(plan, tuple(parents), saved, x.array.shape, x.array.dtype)

    node, before = None, x.array
    if plan is not None and not plan.keep_ans:
        # Create the node before the write, so that is_saved counts the inputs that it saves.
        node = node_of(plan)
    elif plan is not None:
        pairs = zip(inputs, plan.keep, strict=False)
        kept = [storage_of(value) for value, keep in pairs if keep and isinstance(value, Tensor)]
        if x._storage in kept:
            unshare(x, keep_values=not primitive.overwrites)
        del kept
    if is_saved(x) or not is_writable(x.array):
        unshare(x, keep_values=not primitive.overwrites)
    try:
        write = primitive.write
        if watchers and modes.tracer is not None:
            write = modes.tracer.write_of(primitive)
        silenced(write, x.array, *arrays, **params)
    except Exception as error:
        if x.array is not before:
            x.array[...] = before
        raise operator_error(name, inputs, params, error) from None
    if plan is not None and plan.keep_ans:
        node = node_of(plan)
    storage_of(x).version += 1
    if recording:
        rewrite_history(x, node)
    return node


def memory_of_its_own(x: Tensor) -> Any:
    """Count a write to x and return its array, if the write changes nothing but elements; otherwise return None.

    The array must be NumPy's, and no node may have saved it; neither x nor the Tensors that share its memory may have
    a history.
    """
    if not isinstance(x, Tensor):
        return None
    recording = modes.grad_enabled
    base = x._base
    if recording and (x._requires or base is not None and base._requires):
        return None
    array = x.array
    if type(array) is not np.ndarray:
        return None
    flags = array.flags
    if not flags.carray and (not flags.behaved or overlaps_itself(array)):
        return None
    storage = x._storage
    if not isinstance(storage, Storage):
        if storage is not None and is_saved(x):
            return None
        storage = storage_of(x)
    elif storage.origin is not None or storage.token is not None and has_saved_token(storage):
        return None
    elif storage.members is not None:
        if getrefcount(storage) - LOCAL_ONLY > living(storage.members):
            return None
        if recording and unrecorded_source(x) is not None:
            return None
        if recording and storage.derived:
            for member in storage.derived:
                view = member()
                if view is not None and view._node is not None:  # a view created before detach_()
                    return None
    elif getrefcount(storage) - LOCAL_ONLY > 1:
        return None
    storage.version += 1
    return array


def _fitting(primitive: Primitive, x: Tensor, others: tuple[object, ...]) -> list[object] | None:
    """Return the other inputs as arrays and numbers if none needs a conversion or an error; otherwise None."""
    if not isinstance(x, Tensor) or len(others) + 1 != len(primitive.inputs):
        return None
    dtype = x.array.dtype
    if primitive.floats and dtype.kind not in INEXACT:
        return None
    values = []
    for value in others:
        if isinstance(value, Tensor):
            value = value.array
        if type(value) is np.ndarray or isinstance(value, np.generic):
            if value.dtype is not dtype and primitive.promote is not None:
                return None
            if primitive.elementwise and value.ndim and value.shape != x.array.shape and not _stretches(value, x.array):
                return None
        elif dtype.char not in ("fd" if type(value) is float else "fdbBhHiIlLqQ" if type(value) is int else ""):
            return None
        values.append(value)
    return values


def _stretches(value: Array | np.generic, x: Array) -> bool:
    """Return whether the value broadcasts to the shape of x."""
    shape = x.shape[x.ndim - value.ndim :]
    return value.ndim <= x.ndim and all(length in (1, own) for length, own in zip(value.shape, shape, strict=True))


def _written_at_once(
    primitive: Primitive, x: Tensor, others: tuple[object, ...], fitting: list[object], params: dict[str, object]
) -> bool:
    """Try the fast path of ``apply_inplace``, for a write without gradients to unshared memory."""
    if modes.grad_enabled:
        for value in others:
            if isinstance(value, Tensor) and value._requires:
                return False
    array = memory_of_its_own(x)
    if array is None:
        return False
    try:
        if primitive.ufunc is not None:
            primitive.ufunc(array, *fitting, array)
        elif primitive.signals:
            assert primitive.write is not None
            silenced(primitive.write, array, array, *fitting, **params)
        else:
            assert primitive.write is not None
            primitive.write(array, array, *fitting, **params)
    except Exception:  # the general path raises the error
        storage_of(x).version -= 1
        return False
    return True


def rewrite_history(x: Tensor, node: Node | None) -> None:
    """Make ``node`` the history of x, and update the histories of x's base and of the base's other views."""
    base = x._base
    root = x if base is None else base
    constant = node is None and not x._requires and not root._requires
    if modes.written is not None and node is not None:
        modes.written += (ref(root),) if root is x else (ref(root), ref(x))
    if base is not None and (node is not None or base._requires):
        place = place_of(x.array, base.array)
        _replace_history(base, _place_node(OVERWRITE, (edge_of(base), node), place, base.array))
        next_sequence()  # reserves the number of the node that ``read_through_base`` may insert
    if node is not None or x._requires:
        _replace_history(x, node)
        if base is not None and (x.retains_grad or base.retains_grad):
            read_through_base(x)
    storage = storage_of(x)
    still: list[Any] = []
    derived, storage.derived = storage.derived or (), still
    for member in derived:
        tensor = member()
        if tensor is None:
            continue
        # If the memory holds constants, only views created before detach_() have a history.
        if tensor is x or tensor._base is not root or constant and tensor._node is None:
            still.append(member)
        elif type(tensor) is Tensor and not tensor.retains_grad:
            forget_history(tensor)
        else:  # Subclasses must not change their class, and retain_grad needs the node.
            _replace_history(tensor, _derived_node(tensor))
            still.append(member)


def read_through_base(x: Tensor) -> None:
    """Rewire the graph before a hook is set on a written view or its base, so that the view is computed from the base.

    A write to a view creates two nodes: one of the written values, which is also the history of the view, and an
    ``overwrite`` node for the base. Gradients of leaves do not depend on whether the view is read from the values or
    from the base. A hook on the base, however, must get the contribution of the view, and a hook on the view only that
    contribution. Therefore the values' node is changed in place to extract the values from the base, and a copy of the
    original node computes the values.
    """
    root = x if x._base is None else x._base
    write = root._node
    if write is None or not root.is_dense or write.plan.primitive is not OVERWRITE:
        return
    values = write.parents[1]
    if values is None or getrefcount(values) == LOCAL_ONLY + 1:  # only the ``overwrite`` node reads the values
        return
    if values.saved is not None:
        saved_by(values)  # a checkpoint would restore released values to this node, not to the copy
    maker = new_node(values.plan, values.parents, values.saved, values.shape, values.dtype)
    maker.sequence, maker.site = values.sequence, values.site
    recipe = getattr(values, "recipe", None)
    if recipe is not None:
        recipe.move(values, maker)
    place: Place = write.saved[OVERWRITE.position["place"]]
    extracted = _place_node(EXTRACT, (write,), place, _Shaped(values.shape, values.dtype))
    values.plan, values.parents, values.saved = extracted.plan, extracted.parents, extracted.saved
    values.sequence = write.sequence + 1
    write.parents = (write.parents[0], maker)


class _Shaped(NamedTuple):
    """The attributes of an array that ``_place_node`` reads."""

    shape: tuple[int, ...]
    dtype: DType


def _replace_history(x: Tensor, node: Node | None) -> None:
    """Give x a new history. The hook of ``retain_grad`` moves to the new node; other hooks stay with the old value."""
    old = x._node
    _set_node(x, node)
    retained = old.hooks.pop(-id(x), None) if old is not None and old.hooks else None
    if retained is not None and node is not None:
        node.hooks = {-id(x): retained}


def check_fits(primitive: Primitive, name: str, x: Tensor, inputs: tuple[object, ...], arrays: tuple[Any, ...]) -> None:
    """Raise an error unless the result has x's shape and a dtype that can be cast to x's."""
    if primitive.promote is not None:  # first, since promotion raises an error for values that are not numbers
        dtype = result_type(*arrays)
        if primitive.promote == "float" and dtype.kind not in INEXACT:
            dtype = get_default_dtype()
        if not can_cast(dtype, x.array.dtype):
            reason = f"the result type {dtype} can't be cast to the written Tensor's {x.array.dtype}"
            raise call_error(RuntimeError, name, inputs, None, reason)
    if primitive.elementwise:
        try:
            shape = broadcast_shapes(*(np.shape(array) for array in arrays))
        except ValueError as error:
            raise operator_error(name, inputs, None, error) from None
        if shape != x.array.shape:
            reason = f"the result has shape {shape}, which does not fit in the written Tensor of shape {x.array.shape}"
            raise call_error(RuntimeError, name, inputs, None, reason)
