"""In-place writes: the memory is written, and for the graph the program reads as if nothing was mutated.

A write to x makes a node for the new value. Where x is a view, its base becomes ``overwrite(base, x')``: the base with
the view's place taken by the new value. Other views of the base lose their history and derive it again from the new
base when they are next used (``refresh``). Memory that a live node has saved is left to that node (see core.storage).
"""

from __future__ import annotations

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
from ..graph.modes import modes, watchers
from ..graph.nodes import NOTHING, Node, edge_of, new_node, next_sequence, saved_by
from ..graph.plan import Plan
from ..graph.primitive import Primitive
from ..graph.record import saved_of
from ..named_tuples import NamedTuple
from .storage import LOCAL_ONLY, Storage, byte_span, is_saved, is_writable, living, overlaps_itself, storage_of, unshare
from .tensor import Tensor


class Layout(NamedTuple):
    """How an array lies in a buffer: ``start`` is its first element's place, in bytes from the buffer's lowest."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: DType
    start: int

    @property
    def size(self) -> int:
        """The number of elements."""
        return prod(self.shape)


class Place(NamedTuple):
    """Where a view lies in its base: how both lie in a buffer of ``extent`` bytes.

    The dtypes differ for the real view of complex numbers, and the reverse.
    """

    base: Layout
    view: Layout
    extent: int


def place_of(view: Array, base: Array) -> Place:
    """The place of one array in another whose memory it views."""
    address = backend_of(base).address
    base_start, view_start = address(base), address(view)
    (base_low, base_high), (low, high) = byte_span(base, base_start), byte_span(view, view_start)
    low, high = min(low, base_low), max(high, base_high)  # as_strided may reach beyond a base that is itself a part
    base_layout = Layout(base.shape, base.strides, base.dtype, base_start - low)
    return Place(base_layout, Layout(view.shape, view.strides, view.dtype, view_start - low), high - low)


def _in_memory(memory: Array, layout: Layout) -> Array:
    """The array that lies in the memory, an array itself, as the layout says."""
    return backend_of(memory).strided(memory, layout.start, layout.shape, layout.strides, layout.dtype)


def _move(x: Any, source: Layout, target: Layout, extent: int) -> Any:
    """The elements put into a zeroed buffer as ``source`` lies there, and read as ``target`` does.

    Elements that share a place are added, so the adjoint is the way back.
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


def _mean_of_shared(x: Any, base: Layout, extent: int) -> Any:
    """The elements divided by the number of those that share their place: added up there, they are their mean."""
    if not overlaps_itself(base):
        return x
    xp = backend_of(x).xp
    return x / _move(xp.ones(base.shape, base.dtype), base, base, extent).real


def _extract(x: Array, place: Place) -> Array:
    return _move(_mean_of_shared(x, place.base, place.extent), place.base, place.view, place.extent)


def _embed(x: Array, place: Place) -> Array:
    return _mean_of_shared(_move(x, place.view, place.base, place.extent), place.base, place.extent)


def _erase(x: Any, place: Place) -> Any:
    xp = backend_of(x).xp
    memory = xp.zeros(place.extent, "u1")
    whole, part = _in_memory(memory, place.base), _in_memory(memory, place.view)
    if not overlaps_itself(place.base):
        whole[...] = x
        part[...] = 0
        return whole.copy()
    # Elements of x that share a place in memory may differ, x being a cotangent: zero by a mask.
    part[...] = 1 + 1j if part.dtype.kind == "c" else 1
    out, real = xp.array(x, order="C"), x.real.dtype
    out.reshape(-1).view(real)[whole.reshape(-1).view(real) != 0] = 0
    return out


def _overwrite(x: Any, y: Any, place: Place) -> Any:
    memory = backend_of(x).xp.zeros(place.extent, "u1")
    whole, part = _in_memory(memory, place.base), _in_memory(memory, place.view)
    whole[...] = x
    part[...] = y
    return whole.copy()


# A move of real and imaginary parts in memory is its own adjoint for PyTorch's gradients, the conjugates of cotangents.
def _move_conjugate(g: Array, source: Layout, target: Layout, extent: int) -> Array:
    return MOVE(g.conj(), source=target, target=source, extent=extent).conj()


def _extract_conjugate(g: Array, place: Place) -> Array:
    return EXTRACT(g.conj(), place=place).conj()


def _embed_conjugate(g: Array, place: Place) -> Array:
    return EMBED(g.conj(), place=place).conj()


def _erase_conjugate(g: Array, place: Place) -> Array:
    return ERASE(g.conj(), place=place).conj()


def _written_conjugate(g: Array, place: Place) -> Array:
    """The cotangent of the written values: each is read by every element of the base that shares its place."""
    return MOVE(g.conj(), source=place.base, target=place.view, extent=place.extent).conj()


MOVE: Primitive = Primitive("move", _move, "x", [_move_conjugate])
EXTRACT: Primitive = Primitive("view", _extract, "x", [_embed_conjugate])
EMBED: Primitive = Primitive("embed", _embed, "x", [_extract_conjugate])
ERASE: Primitive = Primitive("erase", _erase, "x", [_erase_conjugate])
OVERWRITE: Primitive = Primitive("overwrite", _overwrite, "x y", [_erase_conjugate, _written_conjugate])


def _write_copy(out: Array, x: Array, y: Array) -> None:
    out[...] = y


# The value of x is replaced by that of y; x's own gradient ends here.
COPY = Primitive("copy_", lambda x, y: y, "x y", [None, lambda g: g], write=_write_copy, overwrites=True)


class TensorWithoutHistory(Tensor):
    """A view whose base was written: asked for its history it derives it, and is a plain Tensor again.

    A class of its own, because a ``__getattr__`` on Tensor would slow every look-up of every Tensor.
    """

    __slots__ = ()

    def __getattr__(self, name: str) -> bool:
        if name not in ("_requires", "_node"):
            raise AttributeError(f"{Tensor.__name__!r} object has no attribute {name!r}")
        with _recalling:  # another thread may ask, too
            if type(self) is TensorWithoutHistory:
                refresh(self)
                self.__class__ = Tensor  # type: ignore[assignment]
        return getattr(self, name)


TensorWithoutHistory.__name__ = TensorWithoutHistory.__qualname__ = Tensor.__name__
_recalling = RLock()


def forget_history(view: Tensor) -> None:
    """Leave a view without history until that is next asked for."""
    view.__class__ = TensorWithoutHistory
    del view._requires, view._node


def refresh(view: Tensor) -> None:
    """Derive a view's history from its base's, after the base or another view was written."""
    _set(view, _derived_node(view))
    storage = storage_of(view)
    if storage.derived is None:
        storage.derived = []
    storage.derived.append(ref(view))


def _derived_node(view: Tensor) -> Node | None:
    base = view._base
    if base is None or not base._requires:
        return None
    return _place_node(EXTRACT, (edge_of(base),), place_of(view.array, base.array), view.array)


def _place_node(primitive: Primitive, parents: tuple[object, ...], place: Place, array: Any) -> Node:
    plan = primitive.plan(tuple(parent is not None for parent in parents))
    saved = [None] * len(primitive.layout)
    saved[primitive.position["place"]] = place  # type: ignore[call-overload]
    return new_node(plan, parents, tuple(saved), array.shape, array.dtype)


def _set(x: Tensor, node: Node | None) -> None:
    x._node = node
    x._requires = node is not None


def check_writable(name: str, x: Tensor) -> None:
    """Refuse what PyTorch refuses: a write to a leaf that requires grad, or to elements that share a place.

    A base whose elements share places may be written through a view whose own elements do not.
    """
    if not isinstance(x, Tensor):
        raise TypeError(f"{name}: wanted a Tensor to write to, got {type(x).__name__}")
    if modes.grad_enabled and x._requires and x._node is None:
        raise _refusal(
            name,
            "a leaf Variable that requires grad is being used in an in-place operation; write under no_grad(), or to a "
            "result computed from it",
        )
    base = x._base
    if modes.grad_enabled and base is not None and base._requires and base._node is None:
        raise _refusal(name, "a view of a leaf Variable that requires grad is being used in an in-place operation")
    if overlaps_itself(x.array):
        raise _refusal(
            name,
            f"several elements of the written Tensor {describe(x)} share one memory location (expand); "
            "clone() it before writing",
        )


def _refusal(name: str, reason: str) -> RuntimeError:
    """The error of a write; an operator that writes finds the bare ``reason``, to report its own call."""
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
    check_writable(name, x)
    if fitting is not None and x.array.dtype.kind in "iu":
        fitting = None  # a number beyond the dtype's range wraps around
    inputs = (x, *others)
    if primitive.wide and fitting is None and (wide := in_float32(primitive, *inputs)) is not None:
        return apply_inplace(COPY, x, wide)
    observers = modes.observers if watchers else ()
    for observer in observers:
        observer.calling(primitive, inputs, params)
        observer.writing(x)
    try:
        node: Any = NotImplemented
        if watchers and modes.level is not None:
            node = modes.level.write(primitive, x, inputs, params)
        if node is NotImplemented:
            node = _write(primitive, name, x, inputs, fitting, params)
    except BaseException as error:
        for observer in observers:
            observer.failed(primitive, inputs, params, error)
        raise
    for observer in observers:
        observer.called(primitive, inputs, params, (x,), node)
    return x


def _write(
    primitive: Primitive, name: str, x: Tensor, inputs: tuple[Any, ...], fitting: Any, params: dict[str, Any]
) -> Node | None:
    """Write to x, of the inputs the first; the node of the write, where it is recorded."""
    assert primitive.write is not None, f"{name} has no in-place form"
    if fitting is None:
        arrays = tuple([value.array if isinstance(value, Tensor) else value for value in inputs])
        _check_fits(primitive, name, x, inputs, arrays)
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
            plan = primitive.plan(mask)
            if not plan.rules:
                plan = None

    def node_of(plan: Plan) -> Node:
        saved = saved_of(plan, inputs, arrays, params, (), x.array, (x,)) if plan.saves else NOTHING
        return new_node(plan, tuple(parents), saved, x.array.shape, x.array.dtype)

    node, before = None, x.array
    if plan is not None and not plan.keep_ans:
        # The node holds what it saves before the write, so is_saved sees it, whichever input it is.
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
    """The array of a Tensor to which a write changes nothing but elements: no history, here or in the base and views it
    shares memory with, no node that saved it, no other array library; else None. The write is counted.
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
    if storage is None:
        storage = x._storage = Storage()
    elif storage.origin is not None:
        return None
    elif storage.members is not None:
        if getrefcount(storage) - LOCAL_ONLY > living(storage.members):
            return None
        if recording and storage.derived:
            for member in storage.derived:
                view = member()
                if view is not None and view._node is not None:  # taken before detach_()
                    return None
    elif getrefcount(storage) - LOCAL_ONLY > 1:
        return None
    storage.version += 1
    return array


def _fitting(primitive: Primitive, x: Tensor, others: tuple[object, ...]) -> list[Any] | None:
    """The other inputs as arrays and numbers, where nothing is to be converted or refused; else None."""
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


def _stretches(value: Any, x: Any) -> bool:
    """Whether the value broadcasts to the shape of x."""
    shape = x.shape[x.ndim - value.ndim :]
    return value.ndim <= x.ndim and all(length in (1, own) for length, own in zip(value.shape, shape, strict=True))


def _written_at_once(
    primitive: Primitive, x: Tensor, others: tuple[object, ...], fitting: list[object], params: dict[str, object]
) -> bool:
    """The fast path of ``apply_inplace``: no gradient, and x in memory of its own."""
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
    except Exception:  # the general path tells what is wrong
        x._storage.version -= 1  # type: ignore[union-attr]
        return False
    return True


def rewrite_history(x: Tensor, node: Node | None) -> None:
    """Make ``node`` the maker of x, and let x's base and the base's other views follow."""
    base = x._base
    root = x if base is None else base
    constant = node is None and not x._requires and not root._requires
    if modes.written is not None and node is not None:
        modes.written += (ref(root),) if root is x else (ref(root), ref(x))
    if base is not None and (node is not None or base._requires):
        place = place_of(x.array, base.array)
        _replace(base, _place_node(OVERWRITE, (edge_of(base), node), place, base.array))
        next_sequence()  # left free for ``read_through_base``
    if node is not None or x._requires:
        _replace(x, node)
        if base is not None and (x.retains_grad or base.retains_grad):
            read_through_base(x)
    storage = storage_of(x)
    still: list[Any] = []
    derived, storage.derived = storage.derived or (), still
    for member in derived:
        tensor = member()
        if tensor is None:
            continue
        # Of what holds constants only those views have a history that were taken before detach_().
        if tensor is x or tensor._base is not root or constant and tensor._node is None:
            still.append(member)
        elif type(tensor) is Tensor and not tensor.retains_grad:
            forget_history(tensor)
        else:  # A subclass keeps its class, and retain_grad follows the Tensor.
            _replace(tensor, _derived_node(tensor))
            still.append(member)


def read_through_base(x: Tensor) -> None:
    """Before a hook is set on a written view or its base: let all that has read the view read it from the base.

    A write to a view leaves two nodes: that of the written values, from which the view is read at no further cost, and
    ``overwrite``, of the base. For gradients of leaves it makes no difference that reading the view goes past the base.
    A hook on the base, however, is to see what the view contributes, and one on the view nothing but that. So the
    values' node becomes, in place, one that extracts them from the base, and a copy of it makes the values.
    """
    root = x if x._base is None else x._base
    write = root._node
    if write is None or write.plan.primitive is not OVERWRITE:
        return
    values = write.parents[1]
    if values is None or getrefcount(values) == LOCAL_ONLY + 1:  # only ``write`` reads them
        return
    if values.saved is not None:
        saved_by(values)  # a checkpoint gives what it let go to this node, not to a copy
    maker = new_node(values.plan, values.parents, values.saved, values.shape, values.dtype)
    maker.sequence, maker.site = values.sequence, values.site
    place: Place = write.saved[OVERWRITE.position["place"]]
    extracted = _place_node(EXTRACT, (write,), place, _Shaped(values.shape, values.dtype))
    values.plan, values.parents, values.saved = extracted.plan, extracted.parents, extracted.saved
    values.sequence = write.sequence + 1
    write.parents = (write.parents[0], maker)


class _Shaped(NamedTuple):
    """What ``_place_node`` asks of an array."""

    shape: tuple[int, ...]
    dtype: DType


def _replace(x: Tensor, node: Node | None) -> None:
    """Give x a new history; ``retain_grad`` means x as it is now, other hooks the value they were registered on."""
    old = x._node
    _set(x, node)
    retained = old.hooks.pop(-id(x), None) if old is not None and old.hooks else None
    if retained is not None and node is not None:
        node.hooks = {-id(x): retained}


def _check_fits(primitive: Primitive, name: str, x: Tensor, inputs: tuple[Any, ...], arrays: tuple[Any, ...]) -> None:
    """The result of the write must have x's shape, and a dtype that may be written to x's."""
    if primitive.promote is not None:  # first, since it refuses what is no number
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
