"""A stand-in for CuPy on machines without a GPU: NumPy arrays behind CuPy's interface, and no more than that.

``GuardedArray`` is no subclass of ``numpy.ndarray``. It has the members that CuPy's ndarray has, its module offers the
names and takes the parameters that CuPy's modules do (``cupy_api.txt``, read off the library), and it refuses what
CuPy refuses: implicit conversion to NumPy, arithmetic with NumPy arrays, being an index of Python's. Results that
NumPy gives as scalars are 0-d arrays. So a call that only NumPy would understand fails here, and not on a user's GPU.

``guarded_backend()`` enters it in the place of CuPy: device ``cuda``.
"""

from __future__ import annotations

import contextlib
import importlib.machinery
import re
import sys
import types
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from retrograd.core.arrays.devices import (
    CupyBackend,
    get_default_device,
    register_backend,
    set_default_device,
    unregister_backend,
)
from tests.compiler.cuda.processor import RawModule

# What takes NumPy arrays on purpose: CuPy's explicit transfers.
TRANSFERS = {"array", "asarray", "asanyarray", "ascontiguousarray"}
# What asks about arrays and answers with plain Python values.
QUESTIONS = {"may_share_memory", "shares_memory", "result_type", "can_cast", "ndim", "size", "shape", "iscomplexobj"}
QUESTIONS |= {"isrealobj", "isscalar", "promote_types", "common_type", "broadcast_shapes", "min_scalar_type"}


# The dtypes that CuPy's atomic operations have.
AT_TYPES = "ilqefdILQ"


class NotOffered(TypeError):
    """NumPy would do this, CuPy does not."""


def read_api() -> dict[str, dict[str, tuple[str, ...] | str | None]]:
    """Per section of the list its names, with their parameters, ``"ufunc"``, or None for constants and classes."""
    api: dict[str, dict[str, tuple[str, ...] | str | None]] = {}
    names: dict[str, tuple[str, ...] | str | None] = {}
    for line in (Path(__file__).parent / "cupy_api.txt").read_text().splitlines():
        if line.startswith("["):
            names = api[line.strip("[]")] = {}
        elif line.endswith(" ufunc"):
            names[line.removesuffix(" ufunc")] = "ufunc"
        elif line and not line.startswith("#"):
            match = re.fullmatch(r"(\w+)(?:\((.*)\))?", line)
            assert match, line
            names[match[1]] = None if match[2] is None else tuple(match[2].split())
    return api


API = read_api()


def bare(value: Any) -> Any:
    """The value with NumPy arrays for guarded ones. NumPy arrays themselves are refused."""
    if isinstance(value, GuardedArray):
        return value._array
    if isinstance(value, np.ndarray):
        raise NotOffered("Unsupported type <class 'numpy.ndarray'>: NumPy arrays do not mix with arrays on the device")
    if isinstance(value, (list, tuple)):
        items = [bare(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    if isinstance(value, dict):
        return {key: bare(item) for key, item in value.items()}
    return value


def guarded(value: Any, *sources: Any) -> Any:
    """The result of a NumPy function with its arrays guarded; a view of a source's memory has it as its base."""
    if isinstance(value, GuardedArray):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        array = np.asarray(value)
        with contextlib.suppress(ValueError):
            array.flags.writeable = True  # no array on the device is read-only
        base = None
        if array.base is not None:
            for source in flat(sources):
                if array is source._array:
                    return source
                if np.may_share_memory(array, source._array):
                    base = source if source.base is None else source.base
                    break
        return GuardedArray._on(array, base)
    if isinstance(value, (list, tuple)):
        # CuPy's functions return plain tuples where NumPy's have named ones.
        items = [guarded(item, *sources) for item in value]
        return items if isinstance(value, list) else tuple(items)
    return value


def flat(values: Any) -> Iterator[GuardedArray]:
    """The guarded arrays among nested arguments."""
    for value in values:
        if isinstance(value, GuardedArray):
            yield value
        elif isinstance(value, (list, tuple)):
            yield from flat(value)


def check_parameters(name: str, offered: tuple[str, ...], kwargs: dict[str, Any]) -> None:
    if not any(parameter.startswith("**") for parameter in offered):
        for keyword in kwargs:
            if keyword not in offered:
                raise NotOffered(f"{name}() got an unexpected keyword argument {keyword!r}: CuPy's takes {offered}")


class Function:
    """One of CuPy's functions, computed by NumPy's of the same name."""

    def __init__(self, name: str, numpy_function: Any, parameters: tuple[str, ...]) -> None:
        self.name, self.function, self.parameters = name, numpy_function, parameters
        self.__name__ = name.rpartition(".")[2]

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        self.check(args, kwargs)
        if self.__name__ in TRANSFERS:
            return guarded(self.function(transferred(args[0]), *args[1:], **kwargs), args)
        result = self.function(*bare(args), **bare(kwargs))
        if self.__name__ in QUESTIONS:
            return result
        if kwargs.get("out") is not None:
            return kwargs["out"]
        return guarded(result, args, tuple(kwargs.values()))

    def check(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Refuse arguments that CuPy's function does not take. Its sorts are stable always."""
        if self.__name__ in ("sort", "argsort"):
            if kwargs.get("kind") not in (None, "stable"):
                raise NotOffered(f"{self.name}: kind can only be None or 'stable'")
            kwargs["kind"] = "stable"
        of_an_array = self.parameters[:1] in (("a",), ("array",), ("condition",)) and self.__name__ not in TRANSFERS
        if of_an_array and args and not isinstance(args[0], GuardedArray):
            raise NotOffered(f"{self.name}: expected an array on the device, got {type(args[0]).__name__}")
        if self.__name__ == "solve" and args[0].shape[:-2] != args[1].shape[:-2]:
            raise NotOffered("linalg.solve: a must have (..., M, M) shape and b must have (..., M, K)")
        if not any(parameter.startswith("*") for parameter in self.parameters) and len(args) > len(self.parameters):
            raise NotOffered(f"{self.name}() takes {len(self.parameters)} arguments, got {len(args)}")
        check_parameters(self.name, self.parameters, kwargs)


def transferred(data: Any) -> Any:
    """The data of an explicit transfer, from the host or on the device already."""
    if isinstance(data, GuardedArray):
        return data._array
    return [transferred(item) for item in data] if isinstance(data, (list, tuple)) else data


class Ufunc:
    """One of CuPy's ufuncs: ``out``, ``dtype`` and ``casting`` are all it takes."""

    def __init__(self, name: str, ufunc: Any) -> None:
        self.__name__, self.ufunc = name, ufunc
        self.nin = getattr(ufunc, "nin", 1)
        self.nout = getattr(ufunc, "nout", 1)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        check_parameters(self.__name__, ("out", "dtype", "casting"), kwargs)
        for value in args:
            if isinstance(value, (list, tuple)):
                raise NotOffered(f"Unsupported type {type(value)} for ufunc {self.__name__}")
        out = kwargs.pop("out", None)
        if out is not None:
            out = out[0] if isinstance(out, tuple) else out
            kwargs["out"] = bare(out)
        result = self.ufunc(*bare(args), **kwargs)
        return guarded(result) if out is None else out

    def at(self, a: GuardedArray, indices: Any, b: Any = None) -> None:
        if self.__name__ not in ("add", "subtract", "maximum", "minimum", "bitwise_and", "bitwise_or", "bitwise_xor"):
            raise NotOffered(f"`{self.__name__}.at` is not supported yet")
        if a.dtype.char not in AT_TYPES:
            raise NotOffered(f"cupy.{self.__name__}.at only supports {AT_TYPES} as data type, got {a.dtype}")
        if a.dtype.kind == "f" and self.__name__ in ("maximum", "minimum"):
            raise NotOffered(f"CuPy's {self.__name__}.at ignores NaN, and rounds float64 to float32")
        self.ufunc.at(a._array, index_of(indices), bare(b))

    def __getattr__(self, name: str) -> Any:
        if name not in API["cupy.ufunc"]:
            raise AttributeError(f"CuPy's ufunc has no {name!r}")
        method = getattr(self.ufunc, name)
        parameters = API["cupy.ufunc"][name]
        return Function(f"{self.__name__}.{name}", method, parameters) if isinstance(parameters, tuple) else method


class Module(types.ModuleType):
    """A module that offers CuPy's names only; what a name does is asked of ``source``."""

    def __init__(self, name: str, source: Any) -> None:
        super().__init__(name)
        self._source = source

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        section = API[self.__name__]
        if f"{self.__name__}.{name}" in API:
            made: Any = Module(f"{self.__name__}.{name}", getattr(self._source, name))
        elif name not in section:
            raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")
        else:
            found = getattr(self._source, name, None)
            if found is None:
                raise NotImplementedError(f"the guarded {self.__name__} has no {name}")
            parameters = section[name]
            if parameters == "ufunc":
                made = Ufunc(name, found)
            elif isinstance(parameters, tuple):
                made = Function(f"{self.__name__}.{name}", found, parameters)
            else:
                made = found
        setattr(self, name, made)
        return made


class Pointer:
    """``array.data``: an address in an allocation, ``mem``, that offsets can be added to."""

    def __init__(self, mem: object, owner: np.ndarray[Any, Any], ptr: int) -> None:
        self.mem, self.owner, self.ptr = mem, owner, ptr

    def __add__(self, offset: int) -> Pointer:
        return Pointer(self.mem, self.owner, self.ptr + offset)


class _Memory:
    def __init__(self, interface: dict[str, Any], owner: Any) -> None:
        self.__array_interface__, self.owner = interface, owner


class Flags:
    """CuPy's flags: no ``writeable``."""

    def __init__(self, array: np.ndarray[Any, Any], owns: bool) -> None:
        self.c_contiguous = array.flags.c_contiguous
        self.f_contiguous = array.flags.f_contiguous
        self.forc = array.flags.forc
        self.fnc = array.flags.fnc
        self.owndata = owns


class _Device:
    """``array.device`` and ``cupy.cuda.Device``: number 0, there is no other."""

    def __init__(self, id: int = 0) -> None:
        if id != 0:
            raise RuntimeError(f"cudaErrorInvalidDevice: there is no device {id}")
        self.id = id

    def synchronize(self) -> None:
        pass

    def __enter__(self) -> _Device:
        return self

    def __exit__(self, *error: object) -> None:
        pass


def index_of(index: Any) -> Any:
    """An index that CuPy understands. NumPy index arrays are copied to the device there, so they pass."""
    parts = index if isinstance(index, tuple) else (index,)
    masks = [part for part in parts if getattr(part, "dtype", None) == np.bool_ and getattr(part, "ndim", 0)]
    if len(masks) > 1:
        raise NotOffered("CuPy does not support an index of more than one boolean array")
    plain = tuple(part._array if isinstance(part, GuardedArray) else part for part in parts)
    return plain if isinstance(index, tuple) else plain[0]


class GuardedArray:
    """An array with the members of CuPy's ndarray, in NumPy's memory."""

    __slots__ = ("__weakref__", "_array", "_mem", "base")
    __hash__ = None  # type: ignore[assignment]
    __array_priority__ = 100

    _array: np.ndarray[Any, Any]
    _mem: object  # the allocation, which views share
    base: GuardedArray | None  # None for an array at a pointer, too

    def __init__(
        self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C"
    ) -> None:
        self.base = None
        self._mem = object() if memptr is None else memptr.mem
        if memptr is None:
            self._array = np.empty(shape, dtype)  # type: ignore[call-overload]
            return
        dtype = np.dtype(dtype)
        strides = np.empty(shape, dtype).strides if strides is None else strides
        interface = {
            "data": (memptr.ptr, False),
            "shape": shape,
            "strides": strides,
            "typestr": dtype.str,
            "version": 3,
        }
        self._array = np.asarray(_Memory(interface, memptr.owner))

    @classmethod
    def _on(cls, array: np.ndarray[Any, Any], base: GuardedArray | None) -> GuardedArray:
        made = cls.__new__(cls)
        made._array, made.base = array, base
        made._mem = object() if base is None else base._mem
        return made

    # NumPy's protocols

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise NotOffered("Implicit conversion to a NumPy array is not allowed. Please use `.get()`.")

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        if method != "__call__" or API["cupy"].get(ufunc.__name__, "") == "":
            return NotImplemented
        if "out" in kwargs:
            (kwargs["out"],) = kwargs["out"]
        return getattr(cupy, ufunc.__name__)(*inputs, **kwargs)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        module: Any = cupy
        try:
            for part in func.__module__.split(".")[1:]:
                module = getattr(module, part)
            offered = getattr(module, func.__name__)
        except AttributeError:
            return NotImplemented
        if any(not issubclass(kind, (GuardedArray, np.ndarray)) for kind in types):
            return NotImplemented
        return offered(*args, **kwargs)

    # What it is

    shape = property(lambda self: self._array.shape)
    strides = property(lambda self: self._array.strides)
    dtype = property(lambda self: self._array.dtype)
    ndim = property(lambda self: self._array.ndim)
    size = property(lambda self: self._array.size)
    itemsize = property(lambda self: self._array.itemsize)
    nbytes = property(lambda self: self._array.nbytes)
    flags = property(lambda self: Flags(self._array, self.base is None))
    device = property(lambda self: _Device())
    data = property(lambda self: Pointer(self._mem, self._array, self._array.__array_interface__["data"][0]))
    T = property(lambda self: self if self.ndim < 2 else guarded(self._array.T, self))
    mT = property(lambda self: guarded(self._array.mT, self))
    real = property(lambda self: guarded(self._array.real, self))
    imag = property(lambda self: guarded(self._array.imag, self))

    @real.setter
    def real(self, value: Any) -> None:
        self._array.real = bare(value)

    @imag.setter
    def imag(self, value: Any) -> None:
        self._array.imag = bare(value)

    # Explicit conversion

    def get(self) -> np.ndarray[Any, Any]:
        return self._array.copy()

    def item(self) -> Any:
        return self._array.item()

    def tolist(self) -> Any:
        return self._array.tolist()

    def tobytes(self) -> bytes:
        return self._array.tobytes()

    def __bool__(self) -> bool:
        return bool(self._array)

    def __int__(self) -> int:
        return int(self._array)

    def __float__(self) -> float:
        return float(self._array)

    def __complex__(self) -> complex:
        return complex(self._array)

    def __repr__(self) -> str:
        return repr(self._array)

    def __format__(self, spec: str) -> str:
        return format(self._array, spec)

    # A container

    def __len__(self) -> int:
        return len(self._array)

    def __iter__(self) -> Iterator[GuardedArray]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index: Any) -> GuardedArray:
        key = index_of(index)
        found = self._array[key]
        if isinstance(found, np.generic):  # CuPy has a view of one element where NumPy has a scalar
            found = self._array[(*key, ...) if isinstance(key, tuple) else (key, ...)]
        return guarded(found, self)

    def __setitem__(self, index: Any, value: Any) -> None:
        self._array[index_of(index)] = bare(value)

    def __pos__(self) -> GuardedArray:
        return self

    def __copy__(self) -> GuardedArray:
        return guarded(self._array.copy())

    def __deepcopy__(self, memo: Any) -> GuardedArray:
        return guarded(self._array.copy())

    def __reduce__(self) -> Any:
        return cupy.array, (self.get(),)

    def fill(self, value: Any) -> None:
        self._array.fill(bare(value))

    def scatter_add(self, slices: Any, value: Any) -> None:
        np.add.at(self._array, index_of(slices), bare(value))


def _add_methods() -> None:
    """The methods that NumPy's ndarray has, too."""

    def method(name: str, parameters: tuple[str, ...]) -> Any:
        offered = Function(f"ndarray.{name}", None, parameters)

        def call(self: GuardedArray, *args: Any, **kwargs: Any) -> Any:
            offered.check(args, kwargs)
            if "axis" in parameters and not self.ndim and isinstance(kwargs.get("axis"), int):
                raise IndexError(f"{name}: axis {kwargs['axis']} is out of bounds for array of dimension 0")
            return guarded(getattr(self._array, name)(*bare(args), **bare(kwargs)), self)

        call.__name__ = name
        return call

    for name, parameters in API["cupy.ndarray"].items():
        if isinstance(parameters, tuple) and hasattr(np.ndarray, name) and not hasattr(GuardedArray, name):
            setattr(GuardedArray, name, method(name, parameters))


BINARY = {
    "add": np.add,
    "sub": np.subtract,
    "mul": np.multiply,
    "matmul": np.matmul,
    "truediv": np.true_divide,
    "floordiv": np.floor_divide,
    "mod": np.remainder,
    "divmod": np.divmod,
    "pow": np.power,
    "lshift": np.left_shift,
    "rshift": np.right_shift,
    "and": np.bitwise_and,
    "or": np.bitwise_or,
    "xor": np.bitwise_xor,
}
COMPARISONS = {
    "lt": np.less,
    "le": np.less_equal,
    "eq": np.equal,
    "ne": np.not_equal,
    "gt": np.greater,
    "ge": np.greater_equal,
}
UNARY = {"neg": np.negative, "abs": np.absolute, "invert": np.invert}


def _add_operators() -> None:
    def forward(name: str) -> Any:
        def call(self: GuardedArray, other: Any) -> Any:
            if isinstance(other, (GuardedArray, bool, int, float, complex, np.generic, np.ndarray)):
                return getattr(cupy, name)(self, other)
            return NotImplemented

        return call

    def reflected(name: str) -> Any:
        def call(self: GuardedArray, other: Any) -> Any:
            return getattr(cupy, name)(other, self)

        return call

    def inplace(name: str) -> Any:
        def call(self: GuardedArray, other: Any) -> Any:
            getattr(cupy, name)(self, other, out=self)
            return self

        return call

    def alone(name: str) -> Any:
        return lambda self: getattr(cupy, name)(self)

    for symbol, ufunc in (*BINARY.items(), *COMPARISONS.items()):
        setattr(GuardedArray, f"__{symbol}__", forward(ufunc.__name__))
    for symbol, ufunc in BINARY.items():
        setattr(GuardedArray, f"__r{symbol}__", reflected(ufunc.__name__))
        if symbol not in ("matmul", "divmod"):
            setattr(GuardedArray, f"__i{symbol}__", inplace(ufunc.__name__))
    for symbol, ufunc in UNARY.items():
        setattr(GuardedArray, f"__{symbol}__", alone(ufunc.__name__))


_add_methods()
_add_operators()

cupy = Module("cupy", np)
cupy.__spec__ = importlib.machinery.ModuleSpec("cupy", None)
cupy.ndarray = GuardedArray  # type: ignore[attr-defined]
cupy.asnumpy = lambda array: array.get() if isinstance(array, GuardedArray) else np.asarray(array)  # type: ignore[attr-defined]
cupy.cuda = types.SimpleNamespace(Device=_Device, is_available=lambda: True)  # type: ignore[attr-defined]
cupy.RawModule = RawModule  # type: ignore[attr-defined]
cupy.get_array_module = lambda *arrays: cupy if any(flat(arrays)) else np  # type: ignore[attr-defined]


class GuardedBackend(CupyBackend):
    """CuPy's backend on guarded arrays: its own code, but for the import."""

    def __init__(self) -> None:
        self._use(cupy, GuardedArray)


def _cupyx() -> dict[str, Any]:
    """``cupyx`` and the parts of ``cupyx.scipy`` that operators may use, computed by SciPy."""
    import scipy.linalg
    import scipy.special

    cupyx, scipy_ = types.ModuleType("cupyx"), types.ModuleType("cupyx.scipy")
    special, linalg = Module("cupyx.scipy.special", scipy.special), Module("cupyx.scipy.linalg", scipy.linalg)
    cupyx.scipy, scipy_.special, scipy_.linalg = scipy_, special, linalg  # type: ignore[attr-defined]
    cupyx.scatter_add = lambda a, slices, value: a.scatter_add(slices, value)  # type: ignore[attr-defined]
    return {"cupyx": cupyx, "cupyx.scipy": scipy_, "cupyx.scipy.special": special, "cupyx.scipy.linalg": linalg}


@contextlib.contextmanager
def guarded_backend() -> Iterator[GuardedBackend]:
    """Inside, ``cuda`` is the default device and its arrays are guarded ones."""
    backend, device = GuardedBackend(), get_default_device()
    modules = {"cupy": cupy}
    with contextlib.suppress(ImportError):
        modules |= _cupyx()
    before = {name: sys.modules.get(name) for name in modules}
    register_backend(backend)
    sys.modules.update(modules)
    set_default_device("cuda")
    try:
        yield backend
    finally:
        set_default_device(device)
        unregister_backend(backend)
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module
