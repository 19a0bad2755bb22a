"""The operator table, in which the decorator ``operator`` registers every public operator.

The methods and in-place methods of Tensor, the public names of modules, NumPy's ufuncs on Tensors, the operator
harness, the type stubs and the table in docs are derived from it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable
from inspect import signature
from typing import TYPE_CHECKING, Any, TypeVar

from ...core.arrays.dtypes import can_cast
from ...core.errors import GuardError, answers, describe
from ...core.graph.modes import modes, watchers
from ...core.graph.observers import Given
from ...core.graph.primitive import Primitive
from ...core.missing_names import legacy_call, provided
from ...core.named_tuples import NamedTuple
from ...core.tensor.mutation import COPY, REPLACE, apply_inplace, check_writable, past_hooks
from ...core.tensor.tensor import Tensor, tensor_method
from .arguments import bool_options, check_options, dimension, first_option
from .errors import failure

Function = TypeVar("Function", bound=Callable[..., Any])


class Operator(NamedTuple):
    """A public operator.

    ``namespace`` is the module of the function: ``""`` for the top level, ``"linalg"``, ``"nn.functional"`` and so on,
    or ``"Tensor"`` for a method only.
    """

    name: str
    function: Callable[..., Any]
    namespace: str = ""
    method: bool = False
    inplace: bool = False
    differentiable: bool = True
    note: str = ""
    aliases: tuple[str, ...] = ()

    @property
    def qualified_name(self) -> str:
        """The name with its namespace: ``linalg.inv``."""
        return f"{self.namespace}.{self.name}" if self.namespace else self.name


_operators: dict[str, Operator] = {}

if TYPE_CHECKING:
    OPERATORS: dict[str, Operator]
else:

    def __getattr__(name: str) -> dict[str, Operator]:
        if name != "OPERATORS":
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        provided["all_operators"]()  # load all operators before the table is read
        globals()["OPERATORS"] = _operators
        return _operators


# The operators called by np.sin(tensor) etc.; ``ops.numpy`` adds functions whose arguments differ from PyTorch's.
UFUNCS: dict[object, Callable[..., object]] = {}


# By qualified name: the docstrings that tools/generate.py has composed, which are decoded when needed, and the
# definitions from which they are composed.
_Definition = tuple[Any, ...]  # the fields of ``documentation.Definition``
_COMPOSED: dict[bytes, bytes] = {}
DEFINITIONS: dict[str, _Definition] = {}


def _read_docstrings() -> None:
    path = os.path.join(os.path.dirname(__file__), "..", "..", "_generated", "docstrings.txt")
    with contextlib.suppress(OSError), open(path, "rb") as file:
        for part in file.read().split(b"\f\n")[1:]:
            name, text = part.split(b"\n", 1)
            _COMPOSED[name] = text


if sys.flags.optimize < 2:
    _read_docstrings()


def _docstring(name: str, definition: _Definition) -> str:
    """Return the complete docstring of operator ``name``, composed ahead of time or, for a new operator, now."""
    DEFINITIONS[name] = definition
    composed = _COMPOSED.get(name.encode())
    if composed is not None:
        return composed[:-1].decode()
    from .documentation import Definition, compose

    like = definition[-1]
    return compose(Definition(*definition), like.__doc__ if like else "")


# What ``functools.wraps`` copies, so that functions which wrap an operator also have its annotations.
_ANNOTATIONS = "__annotate__" if sys.version_info >= (3, 14) else "__annotations__"


def wraps(function: Callable[..., object]) -> Callable[[Any], Any]:
    """Replace ``functools.wraps`` with a version that is 3x faster; importing the package calls it a thousand times."""

    def enter(wrapper: Any) -> Any:
        wrapper.__module__ = function.__module__
        wrapper.__name__ = function.__name__
        wrapper.__qualname__ = function.__qualname__
        wrapper.__doc__ = function.__doc__
        setattr(wrapper, _ANNOTATIONS, getattr(function, _ANNOTATIONS))
        wrapper.__dict__.update(function.__dict__)
        wrapper.__wrapped__ = function
        return wrapper

    return enter


def operator(
    *,
    namespace: str = "",
    method: bool = True,
    inplace: bool | Primitive = False,
    numpy: object = None,
    aliases: tuple[str, ...] = (),
    differentiable: bool = True,
    note: str = "",
    name: str | None = None,
    real: bool = False,
    direct: bool = False,
    also: tuple[str, ...] = (),
    shape: str = "",
    dtype: str = "",
    derivative: str = "",
    args: str = "",
    raises: str = "",
    like: Callable[..., object] | None = None,
    reads_elements: bool = False,
) -> Callable[[Function], Function]:
    """Register a function in the operator table, and as a method of Tensor.

    Args:
        namespace: the module of the function; ``"Tensor"`` for a method only.
        method: also a method of Tensor.
        inplace: also a method ``name_``: True copies the function's result to the Tensor; a primitive writes to the
            Tensor directly.
        numpy: the equivalent NumPy ufunc (or several).
        aliases: further public names.
        differentiable: whether any gradient exists.
        note: the gradient chosen at points without a derivative, for the table in docs.
        name: the public name, by default the function's.
        real: complex inputs raise an error, though NumPy would accept them.
        direct: the function only passes its arguments to a primitive of the same name, which reports errors itself.
        also: further qualified names of the operator, in other namespaces.
        shape: the line ``Shape:`` of the docstring, a key of ``wording.SHAPES``; by default from the arguments.
        dtype: the line ``Dtype:``, a key of ``wording.DTYPES``; by default from the primitive.
        derivative: the line ``Derivative:``, a key of ``wording.DERIVATIVES``.
        args: descriptions of arguments, keys of ``wording.PARTICULAR_ARGUMENTS``: ``"input 1-d, dtype converts"``.
        raises: further errors, keys of ``wording.REFUSALS``: ``"square, singular"``.
        like: an operator whose docstring provides missing sections.
        reads_elements: elements decide the result's shape, or leave the device: meta tensors have none.
    """

    def enter(plain: Function) -> Function:
        _take_numpys_names(plain)
        if reads_elements:
            plain.__dict__["reads_elements"] = True
        public = name or plain.__name__.rstrip("_")
        if plain.__doc__:  # not with python -OO
            definition = (
                plain, plain.__doc__, inplace, namespace == "Tensor", real, differentiable, shape, dtype,
                derivative, args, raises, like,
            )  # fmt: skip
            plain.__doc__ = _docstring(f"{namespace}.{public}" if namespace else public, definition)
        shown = f"{namespace}.{public}" if namespace in ("linalg", "fft", "special") else public
        function = plain if direct else named_errors(shown, plain, real)
        entry = Operator(public, function, namespace, method, bool(inplace), differentiable, note, aliases)
        same = _operators.get(entry.qualified_name, entry)  # already registered if an earlier import was interrupted
        assert same.function.__module__ == function.__module__, f"{entry.qualified_name} is defined twice"
        _operators[entry.qualified_name] = entry
        for qualified in also:
            other, _, last = qualified.rpartition(".")
            _operators[qualified] = Operator(last, function, other, False, False, differentiable, note)
        for ufunc in numpy if isinstance(numpy, tuple) else () if numpy is None else (numpy,):
            UFUNCS.setdefault(ufunc, function)  # a rule of ``ops.numpy`` takes precedence
        for method_name in (public, *aliases):
            if method or namespace == "Tensor":
                tensor_method(function, method_name)
            if inplace:
                tensor_method(_inplace_form(method_name, plain, inplace, real), method_name + "_")
        return _with_out(plain) if direct else function

    return enter


def _with_out(plain: Function) -> Function:
    """Add the keyword ``out`` to a direct function. Other operators support ``out`` by a fallback; methods do not."""
    name = plain.__name__
    if name == "clone":

        @wraps(plain)
        def clone(*args: object, **kwargs: object) -> Any:
            try:
                return plain(*args, **kwargs)
            except TypeError:
                return _answered("clone", clone, args, kwargs)

        return clone

    if plain.__code__.co_argcount == 1:

        @wraps(plain)
        def function(input: object, *, out: object = None) -> Any:
            try:
                return plain(input) if out is None else legacy_call(name, plain, (input,), {"out": out})
            except TypeError:
                return _answered(name, function, (input,), {} if out is None else {"out": out})

    else:

        @wraps(plain)
        def function(input: object, other: object, *, out: object = None) -> Any:
            try:
                return plain(input, other) if out is None else legacy_call(name, plain, (input, other), {"out": out})
            except TypeError:
                return _answered(name, function, (input, other), {} if out is None else {"out": out})

    def exchange(change: Callable[[Function], Function]) -> None:
        nonlocal plain
        plain = change(plain)

    function.exchange = exchange
    return function


def _answered(name: str, function: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
    """Return the result of the first fallback that accepts a failed call; otherwise raise the current error again."""
    for answer in (legacy_call, *answers):
        result = answer(name, function, args, kwargs)
        if result is not NotImplemented:
            return result
    raise


def _inplace_form(
    name: str, function: Callable[..., Any], inplace: bool | Primitive, real: bool
) -> Callable[..., Tensor]:
    if isinstance(inplace, Primitive):
        primitive = inplace

        @wraps(function)
        def write(self: Tensor, *others: object, **named: object) -> Tensor:
            if named:
                others = signature(function).bind(self, *others, **named).args[1:]
            return apply_inplace(primitive, self, *others)
    else:

        @wraps(function)
        def write(self: Tensor, *args: object, **kwargs: object) -> Tensor:
            return assign(name, self, function(past_hooks(self), *args, **kwargs))

    return inplace_method(name, write, real)


def inplace_method(name: str, write: Callable[..., Tensor], real: bool = False) -> Callable[..., Tensor]:
    """Add ``write`` to Tensor as the method ``name_``."""
    write.__name__ = write.__qualname__ = name + "_"
    write.__doc__ = f"In-place form of ``{name}``: the result replaces the values of the Tensor, which is returned."
    return named_errors(name + "_", write, real)


def assign(name: str, x: Tensor, result: Tensor) -> Tensor:
    """Copy the result of operator ``name`` to x, which must have its shape and a dtype that it can be cast to."""
    primitive = REPLACE if result._requires else COPY
    if result.array.shape == x.array.shape and result.array.dtype is x.array.dtype:
        return apply_inplace(primitive, x, result)
    check_writable(name + "_", x)
    if result.array.shape != x.array.shape:
        raise RuntimeError(f"the result {describe(result)} does not have the shape of the written Tensor {describe(x)}")
    if not can_cast(result.dtype, x.dtype):
        raise RuntimeError(f"the result type {result.dtype} can't be cast to the written Tensor's {x.dtype}")
    return apply_inplace(primitive, x, result)


def named_errors(name: str, function: Function, real: bool = False) -> Function:
    """Wrap a function so that errors name the operator and its arguments, and arguments accept their other names."""
    other_names: dict[str, str] = getattr(function, "other_names", {})
    options = bool_options(function)
    option_names, first = tuple(options), first_option(options)

    @wraps(function)
    def named(*args: object, **kwargs: object) -> Any:
        try:
            if real:
                for value in (*args, *kwargs.values()) if kwargs else args:
                    if value.array.dtype.kind == "c" if isinstance(value, Tensor) else value.__class__ not in _REAL:
                        _refuse_complex(name, function, args, kwargs)
                        break
            if kwargs:
                if other_names:
                    _rename(name, other_names, kwargs)
                for option in option_names:
                    if option in kwargs and kwargs[option].__class__ is not bool:
                        check_options(options, args, kwargs)
            if len(args) > first:
                for value in args[first:]:
                    if value.__class__ is not bool:
                        check_options(options, args, kwargs)
            if watchers:
                return _watched(name, function, args, kwargs)
            return function(*args, **kwargs) if kwargs else function(*args)
        except Exception as error:
            result = NotImplemented
            if isinstance(error, (TypeError, RuntimeError)) and not isinstance(error, GuardError):
                result = legacy_call(name, named, args, kwargs)
            for answer in answers:
                result = answer(name, named, args, kwargs) if result is NotImplemented else result
            if result is NotImplemented:
                raise failure(name, function, args, kwargs, error)  # noqa: B904  its cause is set
            return result

    def exchange(change: Callable[[Function], Function]) -> None:
        nonlocal function, real
        if real:  # the replacement must check the arguments first
            function, real = _of_real_numbers(name, function), False
        function = change(function)

    named.exchange = exchange  # called by autocast and by TorchFunctionMode to wrap the function
    # help(retrograd.sum) shows the name sum; __qualname__ stays sum_, which pickle looks up.
    named.__name__ = name.rpartition(".")[2]
    return named


def _watched(name: str, function: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
    """Run a call of a public operator and notify the observers; its primitives are nested in the call."""
    observers = [observer for observer in modes.observers if observer.nested]
    if not observers:
        return function(*args, **kwargs)
    inputs = Given((*args, *kwargs.values()) if kwargs else args)
    inputs.names = tuple(kwargs)
    for observer in observers:
        observer.opened(name, inputs)
    try:
        result = function(*args, **kwargs)
    except BaseException as error:
        for observer in observers:
            observer.closed(name, inputs, error)
        raise
    for observer in observers:
        observer.closed(name, inputs, result)
    return result


_REAL = frozenset({int, bool, float, str, type(None)})


def _refuse_complex(name: str, function: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    for value in (*args, *kwargs.values()) if kwargs else args:
        if isinstance(value, Tensor):
            kind = value.array.dtype.kind
        elif value.__class__ in _REAL:
            continue
        else:
            kind = "c" if isinstance(value, complex) else getattr(getattr(value, "dtype", None), "kind", None)
        if kind == "c":
            _check_dimension(function, args, kwargs)
            raise NotImplementedError(f"{name}: is not defined for complex numbers")


def _of_real_numbers(name: str, function: Function) -> Function:

    @wraps(function)
    def checked(*args: object, **kwargs: object) -> Any:
        _refuse_complex(name, function, args, kwargs)
        return function(*args, **kwargs)

    return checked


def _check_dimension(function: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
    """Raise an error for a dimension out of range before any error about dtypes, as PyTorch does."""
    try:
        given = signature(function).bind(*args, **kwargs).arguments
    except TypeError:
        return
    x, dim = given.get("input"), given.get("dim")
    if isinstance(x, Tensor) and type(dim) is int:
        dimension(dim, x.array.ndim)


def _rename(name: str, other_names: dict[str, str], kwargs: dict[str, object]) -> None:
    for other_name, own_name in other_names.items():
        if other_name in kwargs:
            if own_name in kwargs:
                raise TypeError(f"{name}: got both {own_name} and {other_name}")
            kwargs[own_name] = kwargs.pop(other_name)


_NUMPYS_NAMES = {"axis": "dim", "keepdims": "keepdim"}


def _take_numpys_names(function: Function) -> None:
    code = getattr(function, "__code__", None)
    if code is not None:
        taken = code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
        names = {other: own for other, own in _NUMPYS_NAMES.items() if own in taken and other not in taken}
        if names:
            function.other_names = names | getattr(function, "other_names", {})  # type: ignore[attr-defined]


def also_named(**other_names: str) -> Callable[[Function], Function]:
    """Let an operator accept an argument by another name: with ``axis="dim"``, ``axis=0`` means ``dim=0``."""

    def enter(function: Function) -> Function:
        function.other_names = other_names  # type: ignore[attr-defined]
        return function

    return enter
