"""Traced arrays and numbers, which compute at once and append each operation to the program.

A function is traced while it runs: the array of each Tensor that it reads is a ``Traced`` around the real array. An
operation on a Traced is applied to the real array at once and becomes an instruction. So the first call of a compiled
function is an eager call with real values, and an operation that cannot be traced is detected where it happens.
"""

from __future__ import annotations

import operator
from collections.abc import Callable
from functools import cache
from sys import getrefcount
from types import ModuleType
from typing import Any, Protocol
from weakref import ref

import numpy as np
from numpy.lib.stride_tricks import as_strided

from ...core.arrays import Array
from ...core.arrays.devices import NUMPY, Backend, Device, Wrapping, backend_of, cupy_backend
from ...core.tensor.printing import tensor_repr
from ...core.tensor.storage import LOCAL_ONLY, overlaps_itself
from ...core.tensor.tensor import Tensor
from ..program import UFUNCS, Value, method, replaced


class Tracing(Protocol):
    """The part of the tracer that traced arrays and numbers use."""

    traced_objects: list[ref[Any]]
    has_numbers: bool

    def call(
        self,
        function: Callable[..., Any],
        args: tuple[object, ...],
        kwargs: dict[str, object],
        writes: tuple[object, ...] = (),
        kind: str = "",
    ) -> Any:
        """Call a function with the real arrays, and record it."""

    def made_by(self, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """Return the result of a function of traced arrays; each replay computes it again."""

    def read_number(self, number: object) -> Any:
        """Return the plain number of a traced number."""

    def breaks(self, reason: str) -> None:
        """Stop the trace."""

    def settle(self) -> None:
        """Record the calls of a loop that is being followed."""

    def computed(self, x: Traced) -> Array:
        """Return the real array of a result that has none yet; other threads than the trace's call this."""

    def read_elements(self, how: str, result: object) -> Any:
        """Return elements that leave the program."""

    def cannot_trace(self, what: str) -> bool:
        """Report that an operation cannot be recorded."""

    def takes_loops(self) -> bool:
        """Whether a compiled loop may take traced arrays."""


class Traced(Wrapping):
    """An array of a trace: ``numbers`` is the real array, ``node`` its value in the program.

    The result of a call in a loop that is being followed (``compiler/loops/following``) has no node yet. If ``form`` is
    set, it has no numbers yet either: ``form`` has their shape, dtype and strides.
    """

    __slots__ = ("__weakref__", "form", "node", "numbers", "tracer")
    __array_priority__ = 100

    def __init__(self, tracer: Tracing, numbers: Any, node: Value) -> None:
        self.tracer = tracer
        self.numbers = numbers
        self.node = node
        self.form: Value | None = None
        tracer.traced_objects.append(ref(self))

    # Metadata

    shape = property(lambda self: (self.form or self.numbers).shape)
    dtype = property(lambda self: (self.form or self.numbers).dtype)
    ndim = property(lambda self: len(self.shape))
    size = property(lambda self: (self.form or self.numbers).size)
    itemsize = property(lambda self: self.dtype.itemsize)
    nbytes = property(lambda self: (self.form or self.numbers).nbytes)
    strides = property(lambda self: (self.form or self.numbers).strides)
    flags = property(lambda self: _like(self).flags)
    base = property(lambda self: backend_of(self.numbers).owner(self.numbers))
    examples = property(lambda self: self)  # value checks read the Traced array, and become guards

    @property
    def backend(self) -> Backend:
        """The backend for Traced arrays, which wraps the backend of the real array."""
        return traced_backend(backend_of(self.numbers) if self.form is None else NUMPY)

    def __len__(self) -> int:
        return len(_like(self))

    def takes_loops(self) -> bool:
        return self.tracer.takes_loops()

    def unshared(self, holders: int) -> bool:
        numbers = self.numbers
        if getrefcount(numbers) > LOCAL_ONLY + 1:  # the caller accounts for this Traced, which holds one reference
            return False
        return not isinstance(numbers, np.generic) and self.base is None and numbers.flags.c_contiguous

    def overlaps(self) -> bool:
        return overlaps_itself(self.numbers)

    def detached(self) -> Traced:
        return self

    # Conversions, which depend on the elements

    def _read_elements(self, how: str) -> Any:
        return self.tracer.read_elements(how, self.numbers)

    def __repr__(self) -> str:
        return repr(self._read_elements("repr() or str()"))

    def __str__(self) -> str:
        return str(self._read_elements("repr() or str()"))

    def __format__(self, spec: str) -> str:
        return format(self._read_elements("a format"), spec)

    def __hash__(self) -> int:
        if not isinstance(self.numbers, np.generic):
            raise TypeError("unhashable type: 'numpy.ndarray'")
        return hash(self._read_elements("hash()"))

    def __round__(self, digits: int | None = None) -> Any:
        return round(self._read_elements("round()"), digits)

    def tensor_repr(self, x: Tensor) -> str:
        x.array = self._read_elements("repr() or str()")
        try:
            return tensor_repr(x)
        finally:
            x.array = self

    def __getattr__(self, name: str) -> Any:
        if name in ("node", "numbers"):  # the result of a call that is not recorded yet
            self.tracer.settle()
            if name == "numbers" and self.form is not None:
                return self.tracer.computed(self)
            return Traced.__dict__[name].__get__(self)
        if name.startswith("_") or not hasattr(self.numbers, name):
            raise AttributeError(f"{type(self.numbers).__name__!r} object has no attribute {name!r}")
        return getattr(self._read_elements(f"{name} of an array"), name)

    def __array__(self, dtype: Any = None, copy: object = None) -> Array:
        self.tracer.cannot_trace("a function that needs a NumPy array")
        return np.asarray(self.numbers, dtype)

    def item(self, *args: object) -> Any:
        """Return an element as a Number."""
        return self.tracer.call(method("item"), (self, *args), {})

    def tolist(self) -> Any:
        """Return the elements as nested lists."""
        return self.tracer.read_elements("tolist()", self.numbers.tolist())

    def __bool__(self) -> bool:
        return bool(self.item() if self.size == 1 else self.numbers)

    def __int__(self) -> int:
        return int(self.item())

    def __float__(self) -> float:
        return float(self.item())

    def __complex__(self) -> complex:
        return complex(self.item())

    def __index__(self) -> int:
        return operator.index(self.item())

    # Operations that become instructions

    def __array_ufunc__(self, ufunc: np.ufunc, how: str, *inputs: object, **kwargs: object) -> Any:
        if any(isinstance(value, Tensor) for value in inputs):
            return NotImplemented
        function = ufunc if how == "__call__" else getattr(ufunc, how)
        if how == "at":
            if type(inputs[0]) is Traced and type(inputs[0].numbers) is not np.ndarray:  # np.ufunc.at ignores CuPy
                function = getattr(backend_of(inputs[0].numbers).xp, ufunc.__name__).at
            return self.tracer.call(function, inputs, kwargs, writes=inputs[:1])
        out = kwargs.get("out")
        if out is None:
            return self.tracer.call(function, inputs, kwargs)
        outs = out if isinstance(out, tuple) else (out,)
        if len(outs) == 1:
            kwargs["out"] = outs[0]
        self.tracer.call(function, inputs, kwargs, writes=tuple([x for x in outs if x is not None]))
        return outs[0] if len(outs) == 1 else outs

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if any(issubclass(kind, Tensor) for kind in types):
            return NotImplemented
        if function in _METADATA_FUNCTIONS:
            return _METADATA_FUNCTIONS[function](*_unwrap(args), **_unwrap(kwargs))
        if function in (np.copyto, np.put, np.place, np.putmask, np.fill_diagonal, np.put_along_axis):
            return self.tracer.call(function, args, kwargs, writes=args[:1])
        if function is np.nan_to_num and kwargs.get("copy") is False:
            args[0][...] = self.tracer.call(function, args, {**kwargs, "copy": True})
            return args[0]
        if "overwrite_input" in kwargs:
            kwargs = {**kwargs, "overwrite_input": False}
        out = kwargs.get("out")
        if out is None:
            return self.tracer.call(function, args, kwargs)
        self.tracer.call(function, args, kwargs, writes=(out,))
        return out

    def __getitem__(self, key: Any) -> Any:
        return self.tracer.call(operator.getitem, (self, key), {})

    def __setitem__(self, key: object, value: object) -> None:
        self.tracer.call(operator.setitem, (self, key, value), {}, writes=(self,))

    def fill(self, value: object) -> None:
        """Set all elements."""
        self.tracer.call(operator.setitem, (self, Ellipsis, value), {}, writes=(self,))

    def sort(self, *args: object, **kwargs: object) -> None:
        """Sort in place."""
        self.tracer.call(method("sort"), (self, *args), kwargs, writes=(self,))

    def __iter__(self) -> Any:
        return (self[index] for index in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())

    def _attribute(name: str) -> property:  # type: ignore[misc]
        return property(lambda self: self.tracer.call(_ATTRIBUTES[name], (self,), {}))

    T, mT, real, imag, flat = map(_attribute, ("T", "mT", "real", "imag", "flat"))
    del _attribute


def _getter(name: str) -> Callable[[Any], Any]:
    def get(x: object) -> Any:
        return getattr(x, name)

    get.__name__ = name
    return get


_ATTRIBUTES = {name: _getter(name) for name in ("T", "mT", "real", "imag", "flat")}


def _like(x: Traced) -> Array:
    """Return an array whose metadata are those of the real array."""
    form = x.form
    return x.numbers if form is None else as_strided(np.empty(1, form.dtype), form.shape, form.strides)


def _unwrap(value: object) -> Any:
    """Return the real arrays for a function in _METADATA_FUNCTIONS."""
    return replaced(value, lambda x: x.numbers if type(x) is Traced else x)


# Functions of arrays whose result does not depend on the elements.
_METADATA_FUNCTIONS: dict[Any, Callable[..., Any]] = {
    function: function
    for function in (
        np.may_share_memory, np.shares_memory, np.shape, np.ndim, np.size, np.iscomplexobj, np.isrealobj,
        np.result_type, np.can_cast, np.min_scalar_type, np.common_type, np.einsum_path,
    )
}  # fmt: skip

_METADATA_NAMES = frozenset(function.__name__ for function in _METADATA_FUNCTIONS)


def is_metadata_function(function: object) -> bool:
    """Return whether the result of a NumPy or CuPy function does not depend on the elements of its arrays."""
    return getattr(function, "__name__", "") in _METADATA_NAMES


_METHODS = (
    "all any argmax argmin argpartition argsort astype choose clip compress conj conjugate copy cumprod cumsum "
    "diagonal dot flatten max mean min nonzero prod ravel repeat reshape round searchsorted squeeze std sum swapaxes "
    "take trace transpose var view"
)
_UNARY = "neg pos abs invert"
_BINARY = "add sub mul truediv floordiv mod pow matmul lshift rshift and_ or_ xor"
_COMPARISONS = "lt le eq ne gt ge"


def _define_operators() -> None:
    def called(name: str) -> Callable[..., Any]:
        def call(self: Traced, *args: Any, **kwargs: object) -> Any:
            out = kwargs.get("out")
            result = self.tracer.call(method(name), (self, *args), kwargs, writes=() if out is None else (out,))
            return result if out is None else out

        call.__name__, call.__doc__ = name, f"``numpy.ndarray.{name}``."
        return call

    for name in _METHODS.split():
        setattr(Traced, name, called(name))

    def unary(function: Callable[..., object]) -> Callable[..., Any]:
        def call(self: Any) -> Any:
            if function is operator.invert and type(self.numbers) is bool:  # ~True is an int in Python, a bool in NumPy
                return ~int(self)
            return self.tracer.call(function, (self,), {})

        return call

    def binary(function: Callable[..., object]) -> Callable[..., Any]:
        return lambda self, other: _binary(self.tracer, function, self, other)

    def reflected(function: Callable[..., object]) -> Callable[..., Any]:
        return lambda self, other: _binary(self.tracer, function, other, self)

    def inplace(function: Callable[..., object], kind: type) -> Callable[..., Any]:
        def write(self: Any, other: object) -> Any:
            if kind is Traced and not isinstance(self.numbers, np.generic):
                self.tracer.call(_UFUNCS[function], (self, other), {"out": self}, writes=(self,))
                return self
            return _binary(self.tracer, function, self, other)

        return write

    for kind in (Traced, Number):
        for name in _UNARY.split():
            setattr(kind, f"__{name}__", unary(getattr(operator, name)))
        for name in (*_BINARY.split(), *_COMPARISONS.split()):
            if name == "pow" and kind is Number:
                continue
            function, plain = getattr(operator, name), name.rstrip("_")
            setattr(kind, f"__{plain}__", binary(function))
            if name not in _COMPARISONS.split():
                setattr(kind, f"__r{plain}__", reflected(function))
                setattr(kind, f"__i{plain}__", inplace(function, kind))
        setattr(kind, "__divmod__", lambda self, other: (self // other, self % other))  # noqa: B010
        setattr(kind, "__rdivmod__", lambda self, other: (other // self, other % self))  # noqa: B010


def _binary(tracer: Tracing, function: Callable[..., object], left: object, right: object) -> Any:
    if isinstance(left, Tensor) or isinstance(right, Tensor):
        is_numpys = type(left) is Traced and function in _UFUNCS  # array * tensor has the meaning and dtype of NumPy
        return _UFUNCS[function](left, right) if is_numpys else NotImplemented
    for x, other in ((left, right), (right, left)) if type(left) is Number or type(right) is Number else ():
        if type(x) is Number and not isinstance(other, _OPERANDS):  # "ab" * n, [0] * n, Decimal(2) * n
            number = x.plain()
            return function(number, right) if x is left else function(left, number)
    return tracer.call(function, (left, right), {})


_OPERANDS = (bool, int, float, complex, np.ndarray, np.generic, Wrapping)


_UFUNCS = UFUNCS | {operator.matmul: np.matmul}


class Number:
    """A Python number that depends on arrays, or on an argument that varies.

    ``__class__`` is ``int``, ``float`` or ``bool``, so ``isinstance`` accepts a Number as one. Arithmetic becomes
    instructions. The conversions below read the plain number through the tracer.
    """

    __slots__ = ("__weakref__", "node", "numbers", "tracer")

    def __init__(self, tracer: Tracing, numbers: Any, node: Value) -> None:
        self.tracer = tracer
        self.numbers = numbers
        self.node = node
        tracer.traced_objects.append(ref(self))
        tracer.has_numbers = True

    @property  # type: ignore[misc]
    def __class__(self) -> type:
        return type(self.numbers)

    def plain(self) -> Any:
        """Return the plain number through the tracer."""
        return self.tracer.read_number(self)

    def __bool__(self) -> bool:
        return bool(self.plain())

    def __int__(self) -> int:
        return int(self.plain())

    def __float__(self) -> float:
        return float(self.plain())

    def __complex__(self) -> complex:
        return complex(self.plain())

    def __index__(self) -> int:
        return operator.index(self.plain())

    def __round__(self, digits: int | None = None) -> Any:
        return round(self.plain(), digits)

    def __trunc__(self) -> int:
        return int(self.plain())

    def __hash__(self) -> int:
        return hash(self.plain())

    def __array__(self, dtype: Any = None, copy: object = None) -> Array:
        return np.asarray(self.plain(), dtype)

    def __repr__(self) -> str:
        return repr(self.plain())

    def __format__(self, spec: str) -> str:
        return format(self.plain(), spec)

    def __pow__(self, other: object, modulo: object = None) -> Any:
        if modulo is not None:
            return pow(self.plain(), other, modulo)
        return _binary(self.tracer, operator.pow, self, other)

    def __rpow__(self, other: Any, modulo: Any = None) -> Any:
        if modulo is not None:
            return pow(other, self.plain(), modulo)
        return _binary(self.tracer, operator.pow, other, self)

    def __copy__(self) -> Number:
        return self

    def __deepcopy__(self, memo: object) -> Number:
        return self

    def __reduce_ex__(self, protocol: object) -> Any:
        number = self.plain()
        return type(number), (number,)

    def __getattr__(self, name: str) -> Any:
        if not hasattr(type(self.numbers), name):
            raise AttributeError(f"{type(self.numbers).__name__!r} object has no attribute {name!r}")
        return getattr(self.plain(), name)

    def __array_ufunc__(self, ufunc: np.ufunc, how: str, *inputs: object, **kwargs: object) -> Any:
        if any(isinstance(value, Tensor) for value in inputs):
            return NotImplemented
        return Traced.__array_ufunc__(self, ufunc, how, *inputs, **kwargs)  # type: ignore[arg-type]


class WatchedIterator:
    """An iterator from outside of the function during a trace. Advancing it breaks the trace: a replay would not."""

    def __init__(self, iterator: Any, tracer: Tracing) -> None:
        self._iterator = iterator
        self._tracer = tracer

    def __iter__(self) -> WatchedIterator:
        return self

    def __next__(self) -> Any:
        self._tracer.breaks(f"it advances a {type(self._iterator).__name__} from outside of the function")
        return next(self._iterator)

    def __getattr__(self, name: str) -> Any:
        self._tracer.breaks(f"it advances a {type(self._iterator).__name__} from outside of the function")
        return getattr(self._iterator, name)


_define_operators()


class TracedModule:
    """NumPy, or CuPy, for a traced function: functions that create arrays become instructions."""

    def __init__(self, tracer: Tracing | None = None, xp: Any = np) -> None:
        self._xp = xp
        self._tracer = tracer

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._xp, name)
        if self._xp is not np:
            if isinstance(found, ModuleType):
                return TracedModule(self._tracer, found)
            numpy_function = getattr(np, name, None)
            if isinstance(numpy_function, np.ufunc) or name in _DISPATCHED:  # arrays dispatch it, and passes know it
                return numpy_function
        if isinstance(found, (type, np.ufunc)) or not callable(found) or name in _PLAIN:
            return found

        def call(*args: Any, **kwargs: object) -> Any:
            tracer = self._tracer or current()
            return found(*args, **kwargs) if tracer is None else tracer.made_by(found, args, kwargs)

        return call

    def asarray(self, data: object, dtype: object = None) -> Any:
        """Return the data as an array."""
        return traced_backend(self._backend).asarray(data, dtype)

    ascontiguousarray = asarray

    def array(self, data: Any, dtype: Any = None, order: str = "K", copy: bool = True) -> Any:
        """Return a copy of the data."""
        tracer = self._tracer or current()
        if tracer is None:
            return self._xp.array(_unwrap(data), dtype=dtype, order=order, copy=copy)
        return tracer.made_by(self._xp.array, (data,), {"dtype": dtype, "order": order, "copy": copy})

    def may_share_memory(self, a: Any, b: Any) -> bool:
        """Return whether two arrays may share memory; an empty view shares the memory of its base."""
        a, b = _unwrap(a), _unwrap(b)
        if a.size and b.size:
            return bool(self._xp.may_share_memory(a, b))
        allocation = self._backend.allocation
        return allocation(a) is allocation(b)

    @property
    def _backend(self) -> Backend:
        return NUMPY if self._xp is np else cupy_backend()


_PLAIN = frozenset(
    (
        "dtype", "finfo", "iinfo", "errstate", "broadcast_shapes", "result_type", "promote_types", "can_cast",
        "may_share_memory",
    )
)  # fmt: skip
_DISPATCHED = frozenset(("where", "may_share_memory", "shares_memory"))


def current() -> Tracing | None:
    """Return the tracer of this thread."""
    from ...core.graph.modes import modes

    return modes.tracer


class TracedBackend(Backend):
    """A backend of Traced arrays that wraps the backend of the real arrays."""

    array_type = Traced

    def __init__(self, real: Backend) -> None:
        self.real = real
        self.name = real.name
        self.xp = TracedModule(None, real.xp)

    def device(self, array: object) -> Device:
        return self.real.device(_like(array) if type(array) is Traced else array)

    def asarray(self, data: Any, dtype: object = None, device: Device | None = None) -> Any:
        if type(data) is Traced:
            if isinstance(data.numbers, np.generic):
                data = data.tracer.call(np.asarray, (data,), {})
            if type(data.numbers) is not self.real.array_type:
                return data.tracer.call(self.real.asarray, (data, dtype, device), {})
            return data if dtype is None else data.astype(dtype, copy=False)
        if type(data) is Number:
            return data.tracer.call(self.real.xp.asarray, (data,), {} if dtype is None else {"dtype": dtype})
        return self.real.asarray(data, dtype, device)

    def to_numpy(self, array: Any) -> Any:
        if type(array) is not Traced:
            return array
        return array.tracer.read_elements("numpy(), tolist() or printing", self.real.to_numpy(array.numbers))

    def address(self, array: Array) -> int:
        return self.real.address(_unwrap(array))

    def strided(self, owner: Any, offset: int, shape: Any, strides: Any, dtype: Any) -> Any:
        if type(owner) is not Traced:
            return self.real.strided(owner, offset, shape, strides, dtype)
        return owner.tracer.call(self.real.strided, (owner, offset, shape, strides, dtype), {})

    def owner(self, array: Any) -> Any:
        return array.base

    def allocation(self, array: object) -> Any:
        return self.real.allocation(_unwrap(array))


traced_backend: Callable[[Backend], Backend] = cache(TracedBackend)
