"""``jit``, ``ops.aten``, ``onnx`` and ``_C``: decorators for PyTorch's compilers, which return their argument."""

from __future__ import annotations

import functools
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import Enum
from inspect import isfunction, unwrap
from io import BytesIO
from pickle import PicklingError
from typing import Any, NoReturn, TypeVar
from typing import Final as Final

from ...autograd.function import Function
from ...core.arrays.devices import Device
from ...core.arrays.public_dtypes import dtype as PublicDType
from ...core.graph.modes import no_grad
from ...core.tensor.tensor import Size, Tensor
from ...files import File, replacing
from ...nn.base.module import Module as Module
from ...ops.make.generators import Generator
from ...ops.table.types import DeviceLike, DTypeLike, IndexLike
from ...serialization import MapLocation, load
from ..files import pt_writer

Marked = TypeVar("Marked")

# ``jit``: marks


def unchanged(*args: object, **kwargs: object) -> Any:
    """Return the first argument unchanged: a function, class, module, value or name."""
    return next(iter((*args, *kwargs.values())))


class Error(RuntimeError):
    """An error that a scripted or traced function or module raised: ``builtins.ValueError: message``."""


# Errors of Python, and of operators, that TorchScript raises as RuntimeError or as ``jit.Error``.
_TRANSLATED = frozenset([
    ArithmeticError, AssertionError, AttributeError, IndexError, KeyError, TypeError, ValueError, ZeroDivisionError,
])  # fmt: skip


def _translating(function: Callable[..., object]) -> Callable[..., Any]:
    """Return the function with the types of errors that a function of TorchScript raises."""

    @functools.wraps(function)
    def scripted(*args: object, **kwargs: object) -> Any:
        try:
            return function(*args, **kwargs)
        except Exception as error:
            if type(error) in _TRANSLATED:
                raise Error(f"builtins.{type(error).__name__}: {error}") from error
            raise

    return scripted


def _scripted(obj: object) -> Any:
    """Return a function that translates errors, or the module, whose ``forward`` then translates errors."""
    if isinstance(obj, Module):
        own = obj.__getstate__().get("forward")  # a forward that the program assigned to this instance
        obj._replace("forward", _translating(own if callable(own) else type(obj).forward.__get__(obj)))
        if not hasattr(obj, "save"):
            obj._replace("save", functools.partial(jit_save, obj))
        return obj
    if isfunction(obj):
        scripted = _translating(obj)
        scripted.__dict__["save"] = functools.partial(jit_save, scripted)
        return scripted
    return obj


def script(obj: Marked, *args: object, **kwargs: object) -> Marked:
    """Return the function, class or module, which stays Python. Its errors have TorchScript's types.

    A Python error inside a scripted function or module, such as ``AssertionError``, is raised as ``jit.Error``, a
    RuntimeError.

    >>> import retrograd as rg
    >>> @rg.jit.script
    ... def double(x):
    ...     return 2 * x
    >>> double(rg.ones(1))
    tensor([2.])
    """
    return _scripted(obj)


def trace(func: Marked, example_inputs: object = None, *args: object, **kwargs: object) -> Marked:
    """Return the function or module as ``script`` does, after one call with the example inputs."""
    if example_inputs is not None and callable(func):
        with no_grad():
            func(*example_inputs) if isinstance(example_inputs, (tuple, list)) else func(example_inputs)
    return script(func)


def ignore(fn: object = None, **kwargs: object) -> object:
    """Return the function unchanged, or a decorator that does."""
    return fn if callable(fn) else lambda function: function


def annotate(the_type: object, the_value: Marked) -> Marked:
    """Return the value."""
    return the_value


def is_scripting() -> bool:
    """Return False: PyTorch's compiler never runs."""
    return False


def optimized_execution(should_optimize: bool) -> AbstractContextManager[None]:
    """Return a context manager that has no effect."""
    return nullcontext()


_FORMAT = "retrograd.jit"  # the key by which ``jit_load`` recognizes its files


def jit_save(m: Callable[..., object], f: File, _extra_files: Mapping[str, str | bytes] | None = None) -> None:
    """Write a scripted or traced module or function to a file, which ``jit.load`` reads.

    The file has Parameters, buffers and other attributes. It names classes and functions and does not contain their
    code, so that ``jit.load`` needs the program's modules, and PyTorch cannot read the file.

    Args:
        m: the module or function.
        f: the file name, or a stream open for binary writing.
        _extra_files: texts or bytes to store with the module, by name.

    Raises:
        TypeError: ``m`` is neither a Module nor a function.
        RuntimeError: a class or function has no name that can be imported, or an attribute cannot be stored.

    >>> import io, retrograd as rg
    >>> model, file = rg.nn.Linear(2, 1), io.BytesIO()
    >>> rg.jit.script(model).save(file)
    >>> _ = file.seek(0)
    >>> rg.equal(rg.jit.load(file).weight, model.weight)
    True
    """
    if not (isinstance(m, Module) or isfunction(m)):
        raise TypeError(f"jit.save: expected a module or a function, got {type(m).__name__}")
    extra = {name: text.encode() if isinstance(text, str) else text for name, text in (_extra_files or {}).items()}
    content = BytesIO()
    try:
        pt_writer.write({_FORMAT: m if isinstance(m, Module) else _named(m), "extra": extra}, content, whole=True)
    except (PicklingError, AttributeError, TypeError) as error:
        raise RuntimeError(
            f"jit.save: {error}; classes and functions are stored by name, so that they must be at the top level of a "
            "module. Or save module.state_dict() with torch.save"
        ) from error
    with replacing(f) if isinstance(f, (str, os.PathLike)) else nullcontext(f) as stream:
        stream.write(content.getbuffer())


def _named(function: Callable[..., object]) -> Callable[..., object]:
    """Return the function, or if it is not found by its name, the function that it wraps."""
    found: object = sys.modules.get(function.__module__)
    for part in function.__qualname__.split("."):
        found = getattr(found, part, None)
    return function if found is function else unwrap(function)


def jit_load(
    f: File, map_location: MapLocation = "cpu", _extra_files: dict[str, object] | None = None, **options: object
) -> Callable[..., object]:
    """Read a module or function that ``jit.save`` wrote. This runs code that the file names: load only trusted files.

    Args:
        f: the file name, or a stream open for binary reading.
        map_location: the device of the Tensors, as in ``load``.
        _extra_files: a dictionary, whose values are replaced by the bytes stored under its keys.

    Raises:
        ValueError: the file does not exist.
        RuntimeError: the file is not one of ``jit.save``, or the code that it names does not exist. PyTorch's compiled
            modules cannot be run.
    """
    if isinstance(f, (str, os.PathLike)) and not os.path.exists(f):
        raise ValueError(f"The provided filename {os.fsdecode(f)} does not exist")
    try:
        content = load(f, "cpu" if map_location is None else map_location, weights_only=False)
    except (AttributeError, ImportError) as error:
        raise RuntimeError(
            f"jit.load: {error}; the file names this class or function, whose code must exist"
        ) from error
    if not isinstance(content, dict) or _FORMAT not in content:
        raise RuntimeError("jit.load: the file was not written by jit.save; read other files with torch.load")
    for name in _extra_files or {}:
        _extra_files[name] = content["extra"].get(name, b"")  # type: ignore[index]  # not None inside the loop
    return _scripted(content[_FORMAT])


class TracerWarning(Warning):
    """The category of warnings of PyTorch's tracer."""


def jit_isinstance(obj: object, target_type: Any) -> bool:
    """Return ``isinstance(obj, target_type)``, which may be a generic type such as ``list[int]``."""
    return isinstance(obj, getattr(target_type, "__origin__", target_type))


def fork(func: Callable[..., Marked], *args: object, **kwargs: object) -> Marked:
    """Return the result of the call, which runs at once."""
    return func(*args, **kwargs)


def wait(future: Marked) -> Marked:
    """Return the result of ``fork``."""
    return future


# ``ops.aten``


class Packet:
    """``ops.aten.exp``. Each overload, such as ``ops.aten.exp.default``, is the public function ``exp``."""

    is_packet = True

    def __init__(self, name: str, function: Callable[..., object]) -> None:
        self._name, self._function = name, function

    def __repr__(self) -> str:
        return f"<ops.aten.{self._name}>"

    def __call__(self, *args: object, **kwargs: object) -> object:
        return self._function(*args, **kwargs)

    def __getattr__(self, overload: str) -> Callable[..., object]:
        if overload.startswith("__"):
            raise AttributeError(overload)
        return self._function


# Functions that PyTorch's dispatcher calls by other names than users do.
_ATTENTION = "nn.functional.scaled_dot_product_attention"
_DISPATCHED = {
    "_softmax": "nn.functional.softmax",
    "_sparse_addmm": "sparse.addmm",
    "_log_softmax": "nn.functional.log_softmax",
    "native_layer_norm": "nn.functional.layer_norm",
    "native_group_norm": "nn.functional.group_norm",
    "native_batch_norm": "nn.functional.batch_norm",
    "native_dropout": "nn.functional.dropout",
    "_scaled_dot_product_flash_attention": _ATTENTION,
    "_scaled_dot_product_flash_attention_for_cpu": _ATTENTION,
    "_scaled_dot_product_efficient_attention": _ATTENTION,
    "_scaled_dot_product_cudnn_attention": _ATTENTION,
}


def _to_copy(
    self: Tensor,
    *,
    dtype: DTypeLike | None = None,
    layout: object = None,
    device: DeviceLike | None = None,
    **options: object,
) -> Tensor:
    """Return a copy in another dtype or on another device."""
    return self.to(dtype=dtype, device=device, copy=True)


def alias(self: Tensor) -> Tensor:
    """Return a view of the whole Tensor."""
    return self.view_as(self)


def slice_along(self: Tensor, dim: int = 0, start: object = None, end: object = None, step: int = 1) -> Tensor:
    """Return ``self[start:end:step]`` along a dimension."""
    return self[(slice(None),) * (dim % self.ndim) + (slice(start, end, step),)]


def index(self: Tensor, indices: Sequence[IndexLike]) -> Tensor:
    """Return ``self[indices]``, where None stands for a whole dimension."""
    return self[tuple(slice(None) if place is None else place for place in indices)]


def _pin_memory(self: Tensor, device: object = None) -> Tensor:
    """Return the Tensor: copies to a GPU do not need pinned memory here."""
    return self


def _sparse_mm_reduce_impl(self: object, other: object, reduce: str) -> NoReturn:
    """Raise an error: packages only ask whether this operator exists."""
    raise NotImplementedError("aten._sparse_mm_reduce_impl: use sparse.mm, or scatter_reduce for other reductions")


_ATEN: dict[str, Callable[..., object]] = {
    "_pin_memory": _pin_memory, "_sparse_mm_reduce_impl": _sparse_mm_reduce_impl, "_to_copy": _to_copy, "alias": alias,
    "index": index, "slice": slice_along,
}  # fmt: skip

# Names of the dispatcher that have no public form. Programs enter functions for them in tables.
_INTERNAL = frozenset(["alias", "copy", "index", "lift_fresh", "slice", "slice_copy"])


class Aten:
    """``ops.aten``: PyTorch's operators by name. Programs use them in policies of selective checkpoints."""

    def __getattr__(self, name: str) -> Packet:
        if name in _ATEN:
            return Packet(name, _ATEN[name])
        dispatched = _DISPATCHED.get(name)
        for qualified in (dispatched,) if dispatched else (name, f"nn.functional.{name}"):
            function: Any = sys.modules["retrograd"]
            for part in qualified.split("."):
                function = getattr(function, part, None)
            if callable(function):
                return Packet(name, function)
        method = getattr(Tensor, name, None)
        internal = name in _INTERNAL or name.startswith(("_", "sym_"))
        if internal and not callable(method) and not name.startswith("__"):
            return Packet(name, functools.partial(_absent, name))
        if not callable(method) or name.startswith("__"):
            raise AttributeError(f"ops.aten has no operator {name!r}; use the public function")
        return Packet(name, method)


def _absent(name: str, *args: object, **kwargs: object) -> NoReturn:
    """Raise an error: programs fill tables with operators of PyTorch's dispatcher, and do not call all of them."""
    raise NotImplementedError(f"torch.ops.aten.{name} has no public form to call in Retrograd; use the public function")


aten = Aten()


# ``onnx``: enumerations for arguments of PyTorch's ``export``, which have no effect here


class TrainingMode(Enum):
    """The mode in which a model is exported. Retrograd always uses evaluation mode."""

    EVAL = 0
    PRESERVE = 1
    TRAINING = 2


class OperatorExportTypes(Enum):
    """Which operators a file may contain. Retrograd writes only operators of ONNX."""

    ONNX = 0
    ONNX_ATEN = 1
    ONNX_ATEN_FALLBACK = 2
    ONNX_FALLTHROUGH = 3


def is_in_onnx_export() -> bool:
    """Return False: a model runs the same way while it is exported."""
    return False


# ``_C`` and ``_utils``: private names that programs import


def _get_tracing_state() -> None:
    return None


def _log_api_usage_once(message: str) -> None:
    """Do nothing: usage is not counted."""


def _element_size(dtype: PublicDType) -> int:
    """Return the bytes of one element."""
    return dtype.itemsize


def _flatten_dense_tensors(tensors: Iterable[Tensor]) -> Tensor:
    from ..._generated.toplevel import cat

    return cat([x.contiguous().view(-1) for x in tensors])


def _unflatten_dense_tensors(flat: Tensor, tensors: Iterable[Tensor]) -> tuple[Tensor, ...]:
    result, offset = [], 0
    for x in tensors:
        result.append(flat[offset : offset + x.numel()].view(x.shape))
        offset += x.numel()
    return tuple(result)


NAMES: Mapping[str, str | Mapping[str, object]] = {
    "jit": """
        Attribute=unchanged Error Final ScriptFunction=Callable TracerWarning _overload=ignore
        _overload_method=ignore annotate export=ignore fork freeze=unchanged fuser=optimized_execution ignore
        interface=unchanged is_scripting is_tracing=is_scripting isinstance=jit_isinstance load=jit_load
        optimize_for_inference=unchanged optimized_execution save=jit_save script script_if_tracing=ignore
        _script_if_tracing=ignore script_method=ignore trace trace_module=script unused=ignore wait
    """,
    "onnx": "OperatorExportTypes TrainingMode is_in_onnx_export",
    "_C": {
        "Generator": Generator, "Size": Size, "TensorBase": Tensor, "_TensorBase": Tensor, "_FunctionBase": Function,
        "device": Device, "dtype": PublicDType, "_get_tracing_state": _get_tracing_state,
        "_log_api_usage_once": _log_api_usage_once, "_element_size": _element_size,
        "_flatten_dense_tensors": _flatten_dense_tensors, "_unflatten_dense_tensors": _unflatten_dense_tensors,
    },
}  # fmt: skip
