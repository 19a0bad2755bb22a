"""Batched: the array of a Tensor inside ``vmap``, with the shape of one example and the elements of all examples.

A mapped function runs once, on Tensors whose ``array`` is a ``Batched``. A Batched has the shape and dtype of one
example and wraps a Tensor of the level below, which has all examples along its first axis. Levels nest:

    Tensor(Batched(Tensor(Batched(Tensor(ndarray)))))

Each level records a separate graph: calls on a level are recorded there, and the calls of batching rules are recorded
on the level below. Derivatives inside and outside of a mapped function are therefore independent.

NumPy functions, ufuncs and operators on Batched arrays call the operators on Tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import lru_cache
from sys import getrefcount
from typing import Any

import numpy as np

from ..arrays import Array
from ..arrays.devices import Backend, Device, Wrapping, backend_of, is_array
from ..arrays.layout import Flags
from ..graph.modes import modes
from ..graph.nodes import edge_of
from ..nests import leaves, replaced
from ..tensor.storage import ARGUMENT_ONLY, LOCAL_ONLY, borrowed, overlaps_itself, storage_of
from ..tensor.tensor import Tensor, new_tensor
from .layers import Layer

DATA_DEPENDENT = "vmap: It looks like you're {how}. Inside vmap a Tensor stands for all examples, and {instead}."


class Batched(Wrapping):
    """The array of a Tensor inside ``vmap``.

    ``value`` is a Tensor of the level below. If ``mapped``, its first axis is that of the examples; otherwise all
    examples have the same value. A Batched is immutable; writes go to the memory of ``value``.
    """

    __slots__ = ("__weakref__", "dtype", "level", "mapped", "shape", "value")
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    level: Layer
    value: Tensor
    mapped: bool
    shape: tuple[int, ...]
    dtype: np.dtype

    def __init__(self, level: Layer, value: Tensor, mapped: bool) -> None:
        array = value.array
        self.level = level
        self.value = value
        self.mapped = mapped
        self.shape = array.shape[1:] if mapped else array.shape
        self.dtype = array.dtype

    def __repr__(self) -> str:
        place = "0" if self.mapped else "None"
        return f"BatchedTensor(lvl={self.level.depth}, bdim={place}, value={self.value!r})"

    # Attributes of one example

    ndim = property(lambda self: len(self.shape))
    itemsize = property(lambda self: self.dtype.itemsize)

    @property
    def size(self) -> int:
        """The number of elements of one example."""
        size = 1
        for length in self.shape:
            size *= length
        return size

    @property
    def nbytes(self) -> int:
        """Bytes of one example."""
        return self.size * self.dtype.itemsize

    @property
    def strides(self) -> tuple[int, ...]:
        """The strides of one example."""
        strides = self.value.array.strides
        return strides[1:] if self.mapped else strides

    @property
    def flags(self) -> Flags:
        """The flags of one example."""
        return Flags(self, getattr(self.value.array.flags, "writeable", True))

    @property
    def base(self) -> object:
        """An object that is the same for all Batched arrays on the same memory; None if the memory is not shared."""
        return self.value._storage

    @property
    def backend(self) -> Backend:
        """The backend of the array."""
        return batched_backend(backend_of(self.value.array))

    @property
    def examples(self) -> Array:
        """The numbers of all examples, in an array that is not Batched."""
        array = self.value.array
        return array.examples if isinstance(array, Wrapping) else array

    def unshared(self, holders: int) -> bool:
        """Return whether only ``holders`` references to this array, including the caller's, reach its memory."""
        value = self.value
        if getrefcount(self) > ARGUMENT_ONLY + holders - 1 or getrefcount(value) > LOCAL_ONLY + 1:
            return False
        array = value.array
        if value._storage is not None or isinstance(array, Wrapping):
            return value._storage is None and array.unshared(2)
        if getrefcount(array) > LOCAL_ONLY + 1 or not array.flags.c_contiguous:
            return False
        base = array.base
        # A view of an entire array that has no other reference counts as the owner of the memory.
        return base is None or getattr(base, "size", -1) == array.size and getrefcount(base) == LOCAL_ONLY + 1

    def overlaps(self) -> bool:
        """Return whether several elements, of one example or of different examples, may share memory."""
        return overlaps_itself(self.value.array)

    def detached(self) -> Batched:
        """Return a Batched on the same memory without a history on any level."""
        return Batched(self.level, self.value.detach(), self.mapped)

    # Conversions, which depend on the values

    def __bool__(self) -> bool:
        how = "attempting to use a Tensor in some data-dependent control flow (if, while, and, or, not, assert)"
        return bool(self._single(how, "its truth differs between them: write where(condition, a, b), &, | and ~"))

    def item(self) -> Any:
        """Return the number of a single element that is the same for all examples."""
        how = "calling .item() on a Tensor, or converting it to a Python number or an index"
        return self._single(how, "it is another number for each: compute with the Tensor (x[tensor]), or return it")

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def _check_not_mapped(self, how: str, instead: str) -> None:
        if self.mapped:
            raise RuntimeError(DATA_DEPENDENT.format(how=how, instead=instead))

    def _single(self, how: str, instead: str) -> Any:
        self._check_not_mapped(how, instead)
        return self.value.array.item()

    def __array__(self, dtype: Any = None, copy: Any = None) -> np.ndarray:
        how = "calling .numpy() or .tolist() on a Tensor, or a function that needs a NumPy array"
        instead = "has no array for one of them: use functions of Tensors (stack for a list of them), or return it"
        self._check_not_mapped(how, instead)
        return np.asarray(backend_of(self.value.array).to_numpy(self.value.array), dtype)

    # NumPy's functions, ufuncs and operators

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if any(isinstance(value, Tensor) for value in inputs):
            return NotImplemented
        if method == "at":
            return _write_at(ufunc, *inputs)
        if kwargs.get("out") is not None:
            (out,) = kwargs.pop("out") if isinstance(kwargs["out"], tuple) else (kwargs.pop("out"),)
            out[...] = getattr(ufunc, method)(*inputs, **kwargs)
            return out
        return _call_on_tensors(getattr(ufunc, method), inputs, kwargs)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if any(issubclass(kind, Tensor) for kind in types):
            return NotImplemented
        if function.__name__ in ALONG_AXES:
            return _along_axis(function, *args, **kwargs)
        if function in FACTS:
            return FACTS[function](*args)
        if function in LIKE:
            return _filled_like(function, *args, **kwargs)
        return _call_on_tensors(function, args, kwargs)

    def __getitem__(self, key: Any) -> Any:
        return new_tensor(self)[_as_tensors(key)].array

    def __setitem__(self, key: Any, value: object) -> None:
        new_tensor(self)[_as_tensors(key)] = _as_tensors(value)

    def __len__(self) -> int:
        return len(new_tensor(self))

    def __iter__(self) -> Any:
        if not self.shape:
            raise TypeError("iteration over a 0-d array")
        return (self[index] for index in range(self.shape[0]))

    def astype(self, dtype: Any, *args: Any, **kwargs: Any) -> Batched:
        """Return the array in another dtype."""
        return self if self.dtype == dtype and not kwargs.get("copy", True) else new_tensor(self).astype(dtype).array

    def copy(self, order: str = "C") -> Batched:
        """Return a copy of all examples."""
        return new_tensor(self).clone().array

    def reshape(self, *shape: Any, order: str = "C") -> Batched:
        """Return the array in another shape."""
        return new_tensor(self).reshape(*shape).array

    def conj(self) -> Array:
        """Return the complex conjugate."""
        return np.conj(self)

    @property
    def real(self) -> Array:
        """The real part."""
        return np.real(self)

    @property
    def imag(self) -> Array:
        """The imaginary part."""
        return np.imag(self)

    @property
    def T(self) -> Array:
        """The axes in reverse order."""
        return np.transpose(self)

    @property
    def mT(self) -> Array:
        """The last two axes exchanged."""
        return np.swapaxes(self, -1, -2)


def _as_tensors(value: Any) -> Any:
    """Replace Batched arrays by Tensors; also CuPy arrays, whose ``__array_function__`` would otherwise be called."""
    if type(value) is Batched or type(value) is not np.ndarray and is_array(value):
        return new_tensor(value)
    if type(value) in (tuple, list):
        return type(value)([_as_tensors(item) for item in value])
    return value


def _as_arrays(value: object) -> Any:
    return replaced(value, lambda x: x.array if isinstance(x, Tensor) else x)


def _call_on_tensors(function: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> Any:
    """Call a NumPy function on Tensors in place of Batched arrays; return arrays."""
    if modes.level is None:
        for value in args:
            if type(value) is Batched:
                value.level.check()
        raise RuntimeError("vmap: a Tensor of a mapped function was used outside of the function")
    asked = modes.level.asked
    if function in asked:
        return _on_examples(function, args, kwargs)  # the operator on Tensors calls the NumPy function itself
    asked.append(function)
    try:
        return _as_arrays(
            function(*_as_tensors(tuple(args)), **{name: _as_tensors(value) for name, value in kwargs.items()})
        )
    finally:
        asked.pop()


def _on_examples(function: Callable[..., object], args: Sequence[Array], kwargs: dict[str, object]) -> Any:
    """Call a function without a derivative on the bare arrays of each example; stack the results."""
    level = max((x.level for x in _batched((args, kwargs))), key=lambda level: level.depth)
    mapped = any(x.mapped for x in _batched((args, kwargs)) if x.level is level)

    def example(x: Any, index: int) -> Any:
        if type(x) is not Batched or x.level is not level:
            return x
        array = x.value.array
        if not x.mapped:
            return array
        return array[index] if level.size else np.zeros(array.shape[1:], array.dtype)

    def call_at(index: int) -> Any:
        some, named = replaced((args, kwargs), lambda x: example(x, index))
        return function(*some, **named)

    if function.__name__ in DATA_DEPENDENT_SHAPES and mapped:
        how = f"calling {function.__name__}"
        instead = "the shape of its result differs between them: use where(), or sums over the elements of a mask"
        raise RuntimeError(DATA_DEPENDENT.format(how=how, instead=instead))
    together = _element_by_element(function, args, kwargs, level) if mapped else NotImplemented
    if together is not NotImplemented:
        return together
    count = (level.size if mapped else 1) or 1
    results = [call_at(index) for index in range(count)]

    def joined(column: Sequence[object]) -> Any:
        if isinstance(column[0], (tuple, list)):
            return tuple([joined(part) for part in zip(*column, strict=True)])
        backend = backend_of(next(_batched((args, kwargs))).examples)
        arrays = [backend.asarray(x) for x in column]
        return Batched(level, new_tensor(np.stack(arrays)[: level.size] if mapped else arrays[0]), mapped)

    return joined(results)


# Functions without a derivative that are elementwise in the arguments at these places. ``__call__`` is that of ufuncs,
# which are elementwise in all arguments.
ELEMENTWISE = {"__call__": (0, 1, 2), "isin": (0,), "searchsorted": (1,), "unravel_index": (0,)}


def _element_by_element(
    function: Callable[..., Any], args: Sequence[object], kwargs: dict[str, object], level: Layer
) -> Any:
    """Compute an elementwise function on all examples by one call.

    Return NotImplemented if an argument in which the function is not elementwise differs between examples.
    """
    places = ELEMENTWISE.get(function.__name__, ())
    mapped = [index for index, x in enumerate(args) if any(part.mapped for part in _batched(x))]
    if not places or not set(places).issuperset(mapped) or any(True for _ in _batched(kwargs)):
        return NotImplemented
    ndim = max(len(getattr(args[index], "shape", ())) for index in places if index < len(args))

    def all_of(x: Any) -> Any:
        if type(x) is not Batched or x.level is not level:
            return x
        array = x.value.array
        return array.reshape((level.size,) + (1,) * (ndim - x.ndim) + x.shape) if x.mapped else array

    results = function(*map(all_of, args), **kwargs)
    several = isinstance(results, tuple)
    backend = backend_of(next(_batched(args)).examples)
    found = [Batched(level, new_tensor(backend.asarray(x)), True) for x in (results if several else (results,))]
    return tuple(found) if several else found[0]


def _batched(value: object) -> Any:
    return (x for x in leaves(value) if type(x) is Batched)


# Functions whose results have data-dependent shapes.
DATA_DEPENDENT_SHAPES = frozenset((
    "argwhere", "extract", "flatnonzero", "intersect1d", "nonzero", "setdiff1d", "setxor1d", "trim_zeros", "union1d",
    "unique",
))  # fmt: skip


def _write_at(ufunc: np.ufunc, out: Any, indices: Any, values: Any = None) -> None:
    if type(out) is not Batched or not out.mapped:
        raise TypeError(f"np.{ufunc.__name__}.at inside vmap needs a mapped array, got one shared by all examples")
    for index in range(out.level.size):

        def at(value: object, index: int = index) -> Any:
            if type(value) is Batched and value.level is out.level:
                return value.value.array[index] if value.mapped else value.value.array
            return tuple(map(at, value)) if type(value) is tuple else value

        ufunc.at(at(out), at(indices), at(values))


def _along_axis(function: Callable[..., object], x: Any, *args: Any, **kwargs: Any) -> Batched:
    """Call a function without a derivative, along axes of its first argument, on all examples at once."""
    axis: Any = -1 if function.__name__ in ("argsort", "argpartition") else None
    if args and function.__name__ != "argpartition":
        axis, *args = args  # type: ignore[assignment]
    axis = kwargs.pop("axis", axis)
    array = x.value.array
    if not x.mapped:
        result = backend_of(array).asarray(function(array, *args, axis=axis, **kwargs))
        return Batched(x.level, new_tensor(result), False)
    if axis is None and kwargs.get("keepdims"):
        axis = tuple(range(1, array.ndim))
    elif axis is None:
        array = array.reshape((array.shape[0], x.size))
        axis = 1
    elif isinstance(axis, tuple):
        axis = tuple([1 + place % max(x.ndim, 1) for place in axis])
    else:
        axis = 1 + axis % max(x.ndim, 1)
        if x.ndim == 0:
            array = array.reshape(-1, 1)
    result = backend_of(array).asarray(function(array, *args, axis=axis, **kwargs))
    return Batched(x.level, new_tensor(result), True)


# Functions of one array along axes whose results are bools or indices.
ALONG_AXES = frozenset(("all", "any", "argmax", "argmin", "argsort", "argpartition", "count_nonzero"))


def _share_memory(a: Any, b: Any, *_: object) -> bool:
    if type(a) is not Batched or type(b) is not Batched:
        return False
    storage = a.value._storage
    return a.value is b.value or storage is not None and storage is b.value._storage


LIKE = frozenset((np.empty_like, np.zeros_like, np.ones_like, np.full_like))


def _filled_like(function: Callable[..., object], x: Any, *args: Any, shape: Any = None, **kwargs: Any) -> Batched:
    if x.mapped and shape is not None:
        shape = (x.level.size, *((shape,) if isinstance(shape, int) else shape))
    return Batched(x.level, new_tensor(function(x.value.array, *args, shape=shape, **kwargs)), x.mapped)


FACTS: dict[object, Callable[..., object]] = {
    np.may_share_memory: _share_memory,
    np.shares_memory: _share_memory,
    np.shape: lambda x: x.shape,
    np.ndim: lambda x: x.ndim,
    np.size: lambda x, axis=None: x.size if axis is None else x.shape[axis],
    np.iscomplexobj: lambda x: x.dtype.kind == "c",
    np.result_type: lambda *xs: np.result_type(*[x.dtype if type(x) is Batched else x for x in xs]),
}


def _numpy_method(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def call_numpy(self: Batched, *args: Any, **kwargs: Any) -> Any:
        return function(self, *args, **kwargs)

    call_numpy.__name__ = name
    call_numpy.__doc__ = f"``np.{name}``."
    return call_numpy


_METHODS = (
    "all any argmax argmin argsort clip cumprod cumsum diagonal max mean min nonzero prod ravel repeat round squeeze "
    "std sum swapaxes take trace var"
)
for _name in _METHODS.split():
    setattr(Batched, _name, _numpy_method(_name))


def _transposed(self: Batched, *axes: Any) -> Array:
    return np.transpose(self, (axes[0] if len(axes) == 1 else axes) or None)


Batched.transpose = _transposed  # type: ignore[attr-defined]

_OPERATORS = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "matmul": "matmul",
    "truediv": "true_divide",
    "floordiv": "floor_divide",
    "mod": "remainder",
    "pow": "power",
    "lshift": "left_shift",
    "rshift": "right_shift",
    "and": "bitwise_and",
    "or": "bitwise_or",
    "xor": "bitwise_xor",
    "lt": "less",
    "le": "less_equal",
    "eq": "equal",
    "ne": "not_equal",
    "gt": "greater",
    "ge": "greater_equal",
    "neg": "negative",
    "abs": "absolute",
    "invert": "invert",
}


def _enter_operators() -> None:
    def forward(ufunc: np.ufunc) -> Callable[..., Any]:
        if ufunc.nin == 1:
            return lambda self: ufunc(self)
        # A direct call, since NumPy might dispatch to the __array_ufunc__ of a CuPy array.
        return lambda self, other: self.__array_ufunc__(ufunc, "__call__", self, other)

    def reflected(ufunc: np.ufunc) -> Callable[..., Any]:
        return lambda self, other: self.__array_ufunc__(ufunc, "__call__", other, self)

    def inplace(ufunc: np.ufunc) -> Callable[..., Any]:
        def write(self: Batched, other: Any) -> Batched:
            self[...] = ufunc(self, other)
            return self

        return write

    for name, ufunc_name in _OPERATORS.items():
        ufunc = getattr(np, ufunc_name)
        setattr(Batched, f"__{name}__", forward(ufunc))
        if ufunc.nin == 2 and name not in ("lt", "le", "eq", "ne", "gt", "ge"):
            setattr(Batched, f"__r{name}__", reflected(ufunc))
            setattr(Batched, f"__i{name}__", inplace(ufunc))


_enter_operators()


# Functions that create arrays without an array argument, which are called on the wrapped library.
MAKING = frozenset(
    ("arange", "empty", "eye", "full", "identity", "indices", "linspace", "ones", "random", "tri", "zeros")
)


class BatchedModule:
    """The array module of Batched arrays: NumPy's functions, and the wrapped library's to create arrays."""

    def __init__(self, xp: Any) -> None:
        self._xp = xp

    def __getattr__(self, name: str) -> Any:
        return getattr(self._xp if name in MAKING or not hasattr(np, name) else np, name)

    def asarray(self, data: Any, dtype: Any = None) -> Any:
        """Return the data as an array."""
        if type(data) is Batched:
            return data if dtype is None else data.astype(dtype, copy=False)
        return self._xp.asarray(data, dtype=dtype)

    ascontiguousarray = asarray

    def array(self, data: Any, dtype: Any = None, order: str = "K", copy: bool = True) -> Any:
        """Return a copy of the data as an array."""
        if type(data) is Batched:
            return (data if dtype is None else data.astype(dtype)).copy()
        return self._xp.array(data, dtype=dtype, order=order, copy=copy)

    def may_share_memory(self, a: Any, b: Any) -> bool:
        """Return whether two arrays share memory."""
        return _share_memory(a, b) if Batched in (type(a), type(b)) else self._xp.may_share_memory(a, b)


class BatchedBackend(Backend):
    """The backend of Batched arrays that wrap arrays of another backend."""

    array_type = Batched

    def __init__(self, below: Backend) -> None:
        self.below = below
        self.name = below.name
        self.xp = BatchedModule(below.xp)

    def device(self, array: Any) -> Device:
        return self.below.device(array.examples) if type(array) is Batched else self.below.device(array)

    def asarray(self, data: Any, dtype: Any = None, device: Device | None = None) -> Any:
        if type(data) is Batched:
            return data if dtype is None else data.astype(dtype, copy=False)
        return self.below.asarray(data, dtype, device)

    def to_numpy(self, array: Any) -> Any:
        return array.__array__() if type(array) is Batched else self.below.to_numpy(array)

    def address(self, array: Any) -> int:
        if type(array) is Batched:
            return self.below.address(array.examples)
        return self.below.address(array)

    def strided(self, owner: Any, offset: int, shape: Any, strides: Any, dtype: Any) -> Any:
        if type(owner) is Batched:
            raise NotImplementedError("vmap: a view of all examples by strides is not supported")
        return self.below.strided(owner, offset, shape, strides, dtype)

    def owner(self, array: Any) -> Any:
        return array.base


@lru_cache(None)
def batched_backend(below: Backend) -> BatchedBackend:
    """Return the backend of Batched arrays that wrap arrays of ``below``."""
    return below if isinstance(below, BatchedBackend) else BatchedBackend(below)


def snapshot(x: Tensor) -> Tensor:
    """Return a Tensor with x's current value and history, unaffected by later writes to x."""
    kept = new_tensor(snapshot_of(x.array))
    kept._storage = borrowed(storage_of(x))
    if x._requires:
        kept._requires, kept._node = True, edge_of(x)
    return kept


def snapshot_of(array: Any) -> Any:
    """Return the form in which a node saves an array: a Batched with its current examples."""
    if type(array) is Batched:
        return Batched(array.level, snapshot(array.value), array.mapped)
    return array
