"""NumPy's indexing, for reading and writing, and the primitives on which gather and scatter are built.

There are four primitives with a parameter ``Index``, in pairs of adjoints:
* ``GETITEM`` reads a basic index as a view, ``PLACE`` writes values to zeros (the last of several values remains);
* ``READ`` reads at arrays of positions as a copy, ``ACCUMULATE`` adds values to zeros at such an index.
``setting`` and ``adding`` create primitives that replace, or add to, elements of a given Tensor.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from math import prod
from operator import index as as_integer
from typing import Any
from warnings import warn

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module, backend_of, is_array
from ...core.arrays.dtypes import FLOATING
from ...core.arrays.layout import order_like, row_major
from ...core.arrays.unbuffered import ufunc_at
from ...core.errors import describe
from ...core.graph.modes import modes, watchers
from ...core.graph.primitive import Primitive, apply
from ...core.source_location import user_level
from ...core.tensor import tensor
from ...core.tensor.mutation import apply_inplace, memory_of_its_own
from ...core.tensor.storage import Storage, overlaps_itself, storage_of
from ...core.tensor.tensor import Tensor, to_array
from ...kernels import SEVERAL, or_reference
from ...kernels.loops.layout import copies, lanes
from ...kernels.loops.sequences import lookups
from ...kernels.runtime.result_arrays import empty
from ..shape.shape import apply_view
from ..table.registry import operator
from ..table.types import IndexLike, Operand
from . import batching
from .placing import WARNING, check_index, is_read_as_tuple, selected_first
from .writing import byte_mask, refuse_filling_bytes, written_value

_ELLIPSIS = type(Ellipsis)
_BASIC = frozenset((int, slice, type(None), _ELLIPSIS))
SMALL = 1 << 12  # up to this number of elements, positions that follow from the shape of an index are cached
_BOUNDS = frozenset((int, type(None)))


class Index:
    """An index in NumPy's form.

    ``repeats`` says whether the index may contain an element twice (with integer arrays); a ``basic`` index selects a
    view. ``storages`` are the storages of the Tensors in the index: while a node refers to them, a write to such a
    Tensor goes to a copy. ``along`` is set if compiled loops can be used: the array of dimension ``along`` is known to
    be in range, and the arrays of the other dimensions are the positions themselves, as in gather.
    """

    __slots__ = ("along", "basic", "key", "repeats", "storages")

    def __init__(self, key: tuple[Any, ...], storages: tuple[Storage, ...] = (), basic: bool = False) -> None:
        self.along: int | None = None
        kinds = [] if basic else [value.dtype.kind for value in key if hasattr(value, "dtype")]
        self.key = key
        self.storages = storages
        self.repeats = "i" in kinds or "u" in kinds
        self.basic = basic or not kinds and not any(type(value) is bool for value in key)

    def __repr__(self) -> str:
        return describe(self.key)

    def with_key(self, key: tuple[Any, ...]) -> Index:
        """Return the index with another key."""
        index = Index.__new__(Index)
        index.key, index.storages, index.repeats, index.basic = key, self.storages, self.repeats, self.basic
        index.along = None
        return index

    @classmethod
    def of_positions(cls, key: tuple[Any, ...], storage: Storage, along: int | None = None) -> Index:
        """Return an index of slices and integer arrays, one of which belongs to a Tensor with this storage."""
        index = cls.__new__(cls)
        index.key, index.storages, index.along = key, (storage,), along
        index.repeats, index.basic = True, False
        return index


def index_of(x: Tensor, index: IndexLike) -> Index:
    """Return the index of ``x[index]`` as an Index."""
    items: tuple[Any, ...] = index if isinstance(index, tuple) else (index,)
    if isinstance(index, list) and is_read_as_tuple(index):
        items = tuple(index)
    key: list[Any] = []
    storages: list[Storage] = []
    for item in items:
        kind = type(item)
        if kind is slice:
            item = _settled(item)
        elif kind not in _BASIC:
            if isinstance(item, Tensor):
                array = item.array
                if array.ndim or getattr(array, "mapped", False):
                    storages.append(storage_of(item))
                    if array.dtype.char in _TOO_SMALL:
                        raise IndexError(
                            f"Tensors used as indices must be int64, int32, uint8 or bool, not {describe(item)}"
                        )
                item = _position(array, x)
            elif isinstance(item, (bool, np.bool_)):
                item = bool(item)
            elif is_array(item):
                item = _position(item, x)
            elif isinstance(item, (list, tuple, range)):
                item = _position(_listed(item, x), x)
            elif hasattr(item, "__array__") and not hasattr(item, "__index__"):  # such as a pandas Series
                item = _position(np.asarray(item), x)
            else:
                try:
                    item = as_integer(item)
                except TypeError:
                    raise IndexError(
                        f"only integers, slices (`:`), ellipsis (`...`), None, and integer or bool Tensors, "
                        f"arrays and lists are valid indices, not {type(item).__name__}"
                    ) from None
        key.append(item)
    result = Index(tuple(key), tuple(storages))
    if result.basic and Ellipsis not in result.key:
        result.key = (*result.key, Ellipsis)  # NumPy then returns a 0-d view, not a scalar.
    if not result.basic and (backend_of(x.array).name != "numpy" or 0 in [getattr(k, "size", 1) for k in result.key]):
        check_index(result.key, x)
    return result


_TOO_SMALL = frozenset("bhH")  # int8, int16 and uint16, which PyTorch refuses in an index


def _is_settled(part: slice) -> bool:
    """Return whether the bounds of a slice are Python numbers; a Tensor may be overwritten before backward."""
    return type(part.start) in _BOUNDS and type(part.stop) in _BOUNDS and type(part.step) in _BOUNDS


def _is_basic(key: tuple[Any, ...]) -> bool:
    """Return whether the key consists of numbers, None, Ellipsis and slices with Python numbers."""
    for item in key:
        kind = type(item)
        if kind not in _BASIC or kind is slice and not _is_settled(item):
            return False
    return True


def _settled(part: slice) -> slice:
    """Return the slice with its bounds as Python numbers."""

    def number(bound: object) -> object:
        return as_integer(bound) if isinstance(bound, Tensor) or is_array(bound) else bound

    return slice(number(part.start), number(part.stop), number(part.step))


def _listed(values: Any, x: Tensor) -> Any:
    array = to_array(list(values), device=x.device, copy=False)
    return array if array.size else array.astype(np.int64)


def _position(array: Array, x: Tensor) -> Array:
    """Return an index array on x's device, and a 0-d integer array as a number."""
    kind = array.dtype.kind
    if kind not in "iub":
        raise IndexError(f"arrays used as indices must be of integer or bool dtype, not {describe(array)}")
    if array.dtype == np.uint8:
        array = byte_mask(array) if array.ndim else array != 0
    # Inside vmap, an index that differs between examples has no single number.
    if array.ndim == 0 and not getattr(array, "mapped", False):
        return array.item()
    backend = backend_of(x.array)
    if backend_of(array).name != backend.name:
        if backend.name == "numpy":
            raise RuntimeError(f"the index {describe(array)} is on another device than {describe(x)}")
        array = backend.asarray(array)
    return array


def only_positions(key: tuple[Any, ...]) -> int | None:
    """Return the dimension of the only integer array in the key if all other items are full slices, else None."""
    place = None
    for dim, item in enumerate(key):
        if type(item) is slice:
            if item != slice(None):
                return None
        elif item is Ellipsis:
            if dim != len(key) - 1:
                return None
        elif place is not None or not hasattr(item, "dtype") or item.dtype.kind == "b":
            return None
        else:
            place = dim
    return place


@or_reference
def read_at(x: Array, index: Index) -> Array:
    """Return a copy of the elements at the index."""
    along = index.along
    if along is not None and lanes.takes(x, index.key[along], along):
        return lanes.take(x, index.key[along], along)
    place = None if along is not None and x.ndim > 1 else only_positions(index.key)
    if place is None:
        out = x[index.key]
        return out.copy() if index.basic else row_major(out)  # converts a NumPy scalar to a 0-d array
    if place >= x.ndim:
        raise IndexError(f"too many indices for {describe(x)}")
    return x.take(index.key[place], axis=place)  # take is several times faster than NumPy's indexing


def linear_positions(key: tuple[Any, ...], shape: tuple[int, ...], xp: Any) -> Any:
    """Return the positions of the indexed elements in the flattened array of the given shape."""
    place = only_positions(key)
    if place is not None:
        index, length, inner = key[place], shape[place], prod(shape[place + 1 :])
        index = xp.where(index < 0, index + length, index).astype(np.intp, copy=False)
        outer = xp.arange(prod(shape[:place])) * (inner * length)
        return outer.reshape(-1, 1, 1) + index.reshape(1, -1, 1) * inner + xp.arange(inner)
    if len(key) == len(shape) and all(hasattr(item, "dtype") and item.dtype.kind in "iu" for item in key):
        positions, stride = 0, 1
        for length, item in zip(reversed(shape), reversed(key)):
            positions = positions + xp.where(item < 0, item + length, item).astype(np.intp, copy=False) * stride
            stride *= length
        return positions
    return xp.arange(prod(shape)).reshape(shape)[key]


def _lane_positions(shape: tuple[int, ...], own: tuple[int, ...], dim: int) -> Array:
    """Return the flat positions at which the slices of an index along ``dim`` begin in an array of shape ``own``."""
    begins = np.zeros((1,) * len(shape), np.intp)
    for axis, length in enumerate(shape):
        if axis != dim:
            begins = begins + (np.arange(length) * prod(own[axis + 1 :])).reshape(
                [-1 if axis == other else 1 for other in range(len(shape))]
            )
    begins.flags.writeable = False
    return begins


_known_lane_positions = lru_cache(maxsize=64)(_lane_positions)


@or_reference
def add_at(out: Any, index: Index, values: Any) -> None:
    """Compute ``out[index] += values``; values at repeated positions are summed."""
    if not index.repeats:
        out[index.key] += values
        return
    xp = array_module(out)
    if xp is not np or not out.flags.c_contiguous or out.dtype.kind not in FLOATING or out.dtype.itemsize < 4:
        if xp is np and out.ndim == 1:  # NumPy 2.4 reads out of bounds if it must broadcast the values
            values = np.broadcast_to(values, out[index.key].shape)
        ufunc_at("add", out, index.key, values)
        return
    values = np.asarray(values, dtype=out.dtype)
    along = index.along
    if along is not None:
        place = index.key[along]
        if lanes.writes(out, place, along):
            lanes.add(out, place, values, along)
        else:
            begins = _known_lane_positions if place.size <= SMALL else _lane_positions
            step = prod(out.shape[along + 1 :])
            positions = begins(place.shape, out.shape, along) + (place if step == 1 else place * step)
            if values.shape != positions.shape:
                values = np.broadcast_to(values, positions.shape)
            np.add.at(out.reshape(-1), positions.reshape(-1), values.reshape(-1))
        return
    first = index.key[0]
    if (
        only_positions(index.key) == 0
        and lookups.takes_table(out, first, values.size, SEVERAL)
        and values.shape == first.shape + out.shape[1:]
    ):
        lookups.add_rows(out, first, values)
        return
    # NumPy's add.at is fast only at flat positions.
    positions = linear_positions(index.key, out.shape, np)
    place = only_positions(index.key)
    selected = positions.shape
    if place is not None:
        selected = (*out.shape[:place], *index.key[place].shape, *out.shape[place + 1 :])
    if values.shape != selected:
        values = np.broadcast_to(values, selected)
    np.add.at(out.reshape(-1), positions.reshape(-1), values.reshape(-1))


# Reading


def _view_at(x: Array, index: tuple[Any, ...]) -> Array:
    try:
        return x[index]
    except IndexError:
        if x.ndim:
            raise
        raise IndexError("a 0-d Tensor cannot be indexed by position; use item() for its number") from None


GETITEM: Primitive = Primitive(
    "getitem",
    _view_at,
    "x",
    [lambda g, index, x_shape: PLACE(g, index=Index(index, (), True), shape=x_shape)],
    view=True,
    batch=lambda call: call.below([call.full(0)], {"index": (slice(None), *call.params["index"])}),
    computes="index",
)


def reading(name: str, **options: Any) -> Primitive:
    """Return a primitive that reads at arrays of positions; ``options`` as in ``Primitive``."""
    return Primitive(
        name,
        read_at,
        "x",
        [lambda g, index, x_shape: ACCUMULATE(g, index=index, shape=x_shape)],
        batch=batching.reading,
        **options,
    )


@or_reference
def _write_at(out: Array, index: Index, values: object) -> None:
    along = index.along
    if along is not None and lanes.writes(out, index.key[along], along):
        lanes.put(out, index.key[along], values, along)
    elif index.basic and type(out) is np.ndarray and out.size >= copies.LARGE:
        copies.write(out[index.key], values)
    else:
        out[index.key] = values


def _zeros(shape: tuple[int, ...], like: Array) -> Array:
    out = empty(shape, like.dtype, like)
    copies.write(out, 0)
    return out


def _place(x: Array, index: Index, shape: tuple[int, ...]) -> Array:
    if index.basic and type(x) is np.ndarray and prod(shape) <= SMALL:
        out = np.zeros(shape, x.dtype)
        out[index.key] = x
    else:
        out = empty(shape, x.dtype, x)
        copies.write(out, 0)
        _write_at(out, index, x)
    return out


def _accumulate(x: Array, index: Index, shape: tuple[int, ...]) -> Array:
    if not index.repeats:
        return _place(x, index, shape)
    out = _zeros(shape, x)
    add_at(out, index, x)
    return out


def copied(x: Array) -> Array:
    """Return a copy as an array, also of a NumPy scalar, whose method ``copy`` returns a scalar."""
    return x.copy(order=order_like(x)) if x.ndim else array_module(x).array(x)


def _erase(x: Array, index: Index) -> Array:
    out = copied(x)
    _write_at(out, index, x.dtype.type(0))
    return out


@lru_cache(maxsize=64)
def _order(shape: tuple[int, ...]) -> Array:
    """Return the positions in row-major order of an array of this shape; the cached array must not be written."""
    numbers = np.arange(prod(shape)).reshape(shape)
    numbers.flags.writeable = False
    return numbers


def _read_last(x: Array, index: Index) -> Array:
    """Read the values written by ``PLACE``, with zero for a value replaced by a later one at the same position."""
    out = x[index.key] if index.along is None else read_at(x, index)
    xp = array_module(x)
    order = _order(out.shape) if xp is np and out.size <= SMALL else xp.arange(out.size).reshape(out.shape)
    last = xp.empty(x.shape, order.dtype)
    _write_at(last, index, order)
    found = last[index.key] if index.along is None else read_at(last, index)
    return xp.where(found == order, out, x.dtype.type(0))


READ: Primitive = reading("getitem", computes="index")
ACCUMULATE: Primitive = Primitive(
    "getitem_backward", _accumulate, "x", [lambda g, index: READ(g, index=index)], batch=batching.placing
)
PLACE: Primitive = Primitive(
    "getitem_backward", _place, "x", [lambda g, index: _placed(g, index)], batch=batching.placing, computes="place"
)
ERASE: Primitive = Primitive(
    "setitem_backward", _erase, "x", [lambda g, index: ERASE(g, index=index)], batch=batching.writing, computes="erase"
)
READ_LAST: Primitive = Primitive(
    "setitem_backward",
    _read_last,
    "x",
    [lambda g, index, x_shape: PLACE(g, index=index, shape=x_shape)],
    batch=batching.reading_last,
)


def _placed(g: Array, index: Index) -> Array:
    """Return the cotangent of values written at the index: g there, and 0 for a value that was replaced."""
    if index.basic:
        return GETITEM(g, index=index.key)
    return READ_LAST(g, index=index) if index.repeats else READ(g, index=index)


@operator(namespace="Tensor", name="__getitem__", reads_elements=True)
def getitem(self: Tensor, index: IndexLike) -> Tensor:
    """``self[index]``, with any index of NumPy: integers, slices, None, Ellipsis, arrays of positions, masks.

    Integers, slices, None and Ellipsis select a view; positions (Tensors, arrays or lists, also repeated) and masks a
    copy. Slices may have a negative step. A list of lists, Tensors or slices is interpreted as a tuple, with a
    warning, as in PyTorch; NumPy interprets it as an array of positions.

    Derivative: ``g`` at the positions, summed for repeated positions, 0 elsewhere.
    Shape: as in PyTorch: the dimensions of positions replace the indexed dimensions, and come first if a slice
        separates two arrays of positions. Unlike in NumPy, an integer is not a position: ``x[0, :, [1, 2]]`` is
        ``x[0][:, [1, 2]]``.

    Args:
        index: the index.

    Raises:
        IndexError: there are too many indices, one is out of range or not an index, or a mask has another shape.

    >>> x = rg.arange(6).reshape(2, 3)
    >>> x[1, ::-1], x[:, [0, 0, 2]], x[x > 3]
    (tensor([5, 4, 3]), tensor([[0, 0, 2],
            [3, 3, 5]]), tensor([4, 5]))
    """
    key: Any = index
    kind = type(key)
    if kind is int or kind is slice and _is_settled(key):
        return apply_view(GETITEM, self, {"index": (key, Ellipsis)})
    if key is None:
        return apply_view(GETITEM, self, {"index": (None, Ellipsis)})
    if kind is tuple and _is_basic(key):
        return apply_view(GETITEM, self, {"index": key if Ellipsis in key else (*key, Ellipsis)})
    checked = index_of(self, index)
    if checked.basic:
        return apply_view(GETITEM, self, {"index": checked.key})
    self, checked = _as_pytorch(self, checked)
    return apply(READ, (self,), {"index": checked})


def _as_pytorch(x: Tensor, index: Index) -> tuple[Tensor, Index]:
    """Return a view of x and an index; indexing the view gives a result with PyTorch's order of dimensions."""
    if len(index.key) < 3 or (parts := selected_first(index.key, x.array.ndim)) is None:
        return x, index
    if tensor.arrays_keep_dtype:  # no warning for PyTorch programs under ``retrograd run``, which expect this order
        warn(WARNING, UserWarning, stacklevel=user_level())
    return apply_view(GETITEM, x, {"index": parts[0]}), index.with_key(parts[1])


# Writing


def _copy_if_overlapping(out: Array, value: object, index: Index) -> object:
    """Return the value, copied if it overlaps ``out``. NumPy does this itself, except where the index is a mask."""
    if not is_array(value) or index.basic and array_module(out) is np:
        return value
    return value.copy() if array_module(out).may_share_memory(out, value) else value


def _assign(out: Array, x: Array, value: object, index: Index) -> None:
    _write_at(out, index, _copy_if_overlapping(out, value, index))


def _assigned(x: Array, value: Array, index: Index) -> Array:
    out = copied(x)
    _assign(out, x, value, index)
    return out


def _add(out: Array, x: Array, value: object, index: Index) -> None:
    add_at(out, index, _copy_if_overlapping(out, value, index))


def _added(x: Array, value: Array, index: Index) -> Array:
    out = copied(x)
    add_at(out, index, value)
    return out


def setting(name: str, **options: Any) -> Primitive:
    """Return a primitive that replaces the elements of x at an index; at a repeated position the last value remains."""
    return Primitive(
        name,
        _assigned,
        "x value",
        [lambda g, index: ERASE(g, index=index), lambda g, index: _placed(g, index)],
        write=_assign,
        batch=batching.writing,
        **options,
    )


def adding(name: str, *, contiguous: bool = False) -> Primitive:
    """Return a primitive that adds to the elements of x at an index; at a repeated position all values are added."""
    return Primitive(
        name,
        _added,
        "x value",
        [lambda g: g, lambda g, index: READ(g, index=index)],
        write=_add,
        contiguous=contiguous,
        batch=batching.writing,
    )


SETITEM: Primitive = setting("setitem", computes="store")


@operator(namespace="Tensor", name="__setitem__", differentiable=False, like=getitem)
def setitem(self: Tensor, index: IndexLike, value: Operand | Sequence[Any]) -> None:
    """``self[index] = value``, with any index of NumPy.

    Derivative: self: ``g``, 0 at the written elements. value: ``g`` at the index, summed over broadcast dimensions; for
    a repeated position only the last value.
    Shape: the value broadcasts to the indexed elements.
    Dtype: any; the value is converted to the dtype of ``self``.

    Args:
        value: a Tensor, an array, a number, or a list of numbers.

    Raises:
        IndexError: the index is invalid (see ``__getitem__``).
        RuntimeError: the value does not broadcast to the indexed elements, or ``self`` is a leaf that requires grad.

    >>> x = rg.zeros(4)
    >>> x[1:3] = rg.tensor([5.0, 6.0])
    >>> x
    tensor([0., 5., 6., 0.])
    """
    if not watchers and (type(index) is int or type(index) is slice or type(index) is tuple and _is_basic(index)):
        number: Any = value
        dtype = self.array.dtype
        if isinstance(value, Tensor):
            if value._storage is not None and value._storage is self._storage:
                key = index if type(index) is tuple else (index,)
                if _is_that_view(self, key if Ellipsis in key else (*key, Ellipsis), value):
                    return  # `x[1:3] *= 2` ends with x[1:3] = the view that has been written.
                number = None
            elif value._requires and modes.grad_enabled or value.array.dtype is not dtype:
                number = None
            else:
                number = value.array if type(value.array) is np.ndarray else None
        elif dtype.char not in "fd" or type(value) is not float and type(value) is not int or not -3e38 < value < 3e38:
            number = None
        array = None if number is None else memory_of_its_own(self)
        if array is not None and array.ndim:
            try:
                array[index] = number
                return
            except Exception:  # the general path raises the error
                pass
    if watchers and batching.is_mapped_mask(index) and getattr(value, "ndim", 0) == 0:
        return batching.write_masked(self, index, value)
    place = index_of(self, index)
    if not (place.basic or place.repeats):  # all arrays are masks
        refuse_filling_bytes(index, value)
    if place.basic and isinstance(value, Tensor) and _is_that_view(self, place.key, value):
        return
    if not place.basic:
        self, place = _as_pytorch(self, place)
    elif overlaps_itself(self.array):  # The indexed part may have no overlap.
        self, place = apply_view(GETITEM, self, {"index": place.key}), Index((Ellipsis,))
    apply_inplace(SETITEM, self, written_value(self, value, item=True), index=place)


def _is_that_view(x: Tensor, key: tuple[Any, ...], value: Tensor) -> bool:
    """Return whether ``value`` is the view that x's basic index selects."""
    if value._storage is None or value._storage is not x._storage:
        return False
    root = x if x._base is None else x._base
    if modes.grad_enabled and (value._base is not root or value._requires is not x._requires):
        return False  # a detached view, whose assignment removes the history
    part, array = x.array[key], value.array
    if part.shape != array.shape or part.strides != array.strides or part.dtype != array.dtype:
        return False
    if type(part) is np.ndarray and part.size:
        first = (0,) * part.ndim + (Ellipsis,)
        return np.may_share_memory(part[first], array[first])  # ten times faster than comparing addresses
    address = backend_of(array).address
    return address(part) == address(array)
