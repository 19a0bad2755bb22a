"""PyTorch's types other than Tensor: layouts, legacy constructors, Variable, storages, aliases for annotations."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Mapping
from operator import methodcaller
from typing import Any

from ..autograd.context import Context
from ..autograd.function import Function
from ..core.arrays.devices import Device, is_cuda_available, set_default_device
from ..core.arrays.dtypes import set_default_dtype
from ..core.arrays.public_dtypes import dtype as PublicDType
from ..core.errors import describe
from ..core.tensor.tensor import Tensor, constructed, new_tensor
from .storages import TypedStorage, UntypedStorage

# Layouts and memory formats


class _Named:
    """A constant with a name. Programs compare with ``is``, so each name has one instance."""

    name: str

    def __new__(cls, name: str) -> _Named:
        if (cls, name) not in _instances:
            _instances[cls, name] = instance = object.__new__(cls)
            instance.name = name
        return _instances[cls, name]

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name,)


_instances: dict[tuple[type[_Named], str], _Named] = {}


class layout(_Named):
    """A storage layout. Every Tensor is ``strided``."""


class memory_format(_Named):
    """An order of elements in memory. Operators accept the argument and ignore it: results have NumPy's order."""


# Legacy constructors: ``FloatTensor([1, 2])``, ``LongTensor(2, 3)``, ``cuda.FloatTensor``


class LegacyType(type):
    """The metaclass of legacy types. A call returns a Tensor of the dtype; isinstance checks dtype and device."""

    dtype: PublicDType
    is_cuda: bool

    def __new__(cls, name: str, bases: tuple[type, ...], fields: dict[str, object]) -> LegacyType:
        if bases:
            raise TypeError(f"type 'torch.{bases[0].__name__}' is not an acceptable base type; use torch.Tensor")
        return super().__new__(cls, name, bases, fields)

    def __call__(cls, *data: Any, device: Any = None) -> Tensor:
        _check_available(cls)
        if len(data) == 1 and isinstance(data[0], Tensor) and data[0].dtype != cls.dtype:
            raise TypeError(
                f"{cls.__name__}: expected a Tensor of {cls.dtype.name}, got {describe(data[0])}; convert it with .to()"
            )
        if len(data) == 1 and isinstance(data[0], Tensor) and data[0].is_cuda == cls.is_cuda and device is None:
            return data[0].detach()
        if len(data) == 1 and isinstance(data[0], (TypedStorage, UntypedStorage)):
            return methodcaller("set_", data[0])(new_tensor(constructed(cls.__name__, (), cls.dtype, "cpu")))
        place = "cuda" if cls.is_cuda and device is None else device
        return new_tensor(constructed(cls.__name__, data, cls.dtype, place or "cpu"))

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and x.array.dtype == cls.dtype and x.is_cuda == cls.is_cuda

    def __repr__(cls) -> str:
        return f"<class 'torch.{'cuda.' if cls.is_cuda else ''}{cls.__name__}'>"


def _check_available(kind: LegacyType) -> None:
    if kind.is_cuda and not is_cuda_available():
        raise TypeError(f"type torch.cuda.{kind.__name__} not available: CuPy is not installed, or no GPU was found")


def _types(is_cuda: bool) -> dict[str, LegacyType]:
    dtypes = {
        "BoolTensor": "bool", "ByteTensor": "uint8", "CharTensor": "int8", "ShortTensor": "int16",
        "IntTensor": "int32", "LongTensor": "int64", "HalfTensor": "float16", "FloatTensor": "float32",
        "DoubleTensor": "float64", "ComplexFloatTensor": "complex64", "ComplexDoubleTensor": "complex128",
    }  # fmt: skip
    fields = {"is_cuda": is_cuda, "__module__": "torch.cuda" if is_cuda else "torch"}
    return {name: LegacyType(name, (), {"dtype": PublicDType(dtype), **fields}) for name, dtype in dtypes.items()}


CPU_TYPES = _types(False)
CUDA_TYPES = _types(True)


def set_default_tensor_type(t: object) -> None:
    """Set the default dtype and the default device by a legacy type or its name (``"torch.DoubleTensor"``).

    >>> import retrograd as rg
    >>> with warnings.catch_warnings(action="ignore"):  # PyTorch and Retrograd warn that it is deprecated
    ...     rg.set_default_tensor_type("torch.FloatTensor")
    >>> rg.get_default_dtype()
    retrograd.float32

    Raises:
        TypeError: the type does not exist, is not floating point, or needs a GPU that is not available.
    """
    kind = t
    if isinstance(t, str):
        path = t.removeprefix("torch.").removeprefix("retrograd.")
        kind = CUDA_TYPES.get(path[5:]) if path.startswith("cuda.") else CPU_TYPES.get(path)
    if kind is Tensor:
        kind = CPU_TYPES["FloatTensor"]
    if not isinstance(kind, LegacyType):
        raise TypeError(f"set_default_tensor_type: invalid type name: {t!r}")
    _check_available(kind)
    warnings.warn(
        "torch.set_default_tensor_type() is deprecated as of PyTorch 2.1, please use torch.set_default_dtype() and "
        "torch.set_default_device() as alternatives",
        UserWarning,
        stacklevel=2,
    )
    set_default_dtype(kind.dtype)
    set_default_device("cuda" if kind.is_cuda else "cpu")


# ``autograd.Variable`` and other names of ``autograd``


class _VariableType(type):
    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor)

    def __call__(cls, data: object = None, requires_grad: bool = False, volatile: bool = False) -> Tensor:
        if data is None:
            data = Tensor()
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable: data has to be a Tensor, but got {type(data).__name__}")
        result = data.detach()
        result.requires_grad = bool(requires_grad) and not volatile
        return result


class Variable(metaclass=_VariableType):
    """``Variable(x)`` is a Tensor that shares the memory of x and is detached from it. Every Tensor is a Variable.

    >>> import retrograd as rg
    >>> x = rg.autograd.Variable(rg.ones(2), requires_grad=True)
    >>> x, isinstance(x, rg.autograd.Variable)
    (tensor([1., 1.], requires_grad=True), True)
    """


class InplaceFunction(Function):
    """A Function that may write to its input, with ``mark_dirty``."""


class NestedIOFunction(Function):
    """A Function. Tensors inside nested arguments are not extracted."""


def traceable(cls: Callable[..., object]) -> Callable[..., Any]:
    """Return the class unchanged."""
    return cls


class _Threads(threading.local):
    enabled = True


_threads = _Threads()


class set_multithreading_enabled:
    """Accepted for compatibility: a backward pass runs on the calling thread with either value.

    The value is set at once; the end of a ``with`` statement restores the previous value.
    """

    def __init__(self, mode: bool) -> None:
        self._before, _threads.enabled = _threads.enabled, bool(mode)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        _threads.enabled = self._before


def is_multithreading_enabled() -> bool:
    """Return the last value of ``set_multithreading_enabled`` on this thread, by default True."""
    return _threads.enabled


FunctionCtx = Context


# Aliases that programs use in annotations

_ALIASES = {
    "Number": bool | int | float,
    "_int": int,
    "_bool": bool,
    "_dtype": PublicDType,
    "_device": Device,
    "_size_1_t": int | tuple[int],
    "_size_2_t": int | tuple[int, int],
    "_size_3_t": int | tuple[int, int, int],
    "_size_any_t": int | tuple[int, ...],
    "_ratio_2_t": float | tuple[float, float],
    "_ratio_any_t": float | tuple[float, ...],
    "_collate_fn_t": Callable[[list[Any]], Any],
    "_worker_init_fn_t": Callable[[int], None],
}

_AUTOGRAD = "InplaceFunction NestedIOFunction Variable is_multithreading_enabled set_multithreading_enabled traceable"
NAMES: Mapping[str, str | Mapping[str, object]] = {
    "retrograd": {**CPU_TYPES, "set_default_tensor_type": set_default_tensor_type},
    "autograd": f"FunctionCtx {_AUTOGRAD}",
    "types": {**_ALIASES, "Device": Device, "layout": layout, "memory_format": memory_format},
}
