"""``__torch_function__``: classes that override operators on their instances, subclasses of Tensor, and modes.

Operators do not look for the protocol until a program defines a subclass or enters a mode: an object of any other class
makes an operator fail, and the error handler calls the object's override (``core.errors.answers``). The first subclass
of Tensor that a program defines, and the first mode that it enters, wrap all operators and methods (``install``), which
then check the types of their arguments.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from operator import attrgetter
from types import FunctionType
from typing import Any, TypeAlias, TypeVar

import retrograd

from ..core.tensor.tensor import Size, Tensor
from ..nn.parameter import Buffer, Parameter
from ..ops.make.filled import empty
from ..ops.table.registry import OPERATORS

Function: TypeAlias = Callable[..., Any]
Value: TypeAlias = Any  # an argument or a result of an operator
Returned = TypeVar("Returned")

# The slots that the engine keeps in a Tensor. A subclass cannot use their names.
_SLOTS = frozenset(("_hooks", "_node", "_requires", "_storage"))
# Types without the protocol. Most arguments have one of these types.
_WITHOUT = {Tensor, Parameter, Buffer, int, float, bool, complex, str, type(None), slice, Size}


class _State(threading.local):
    def __init__(self) -> None:
        self.modes: list[TorchFunctionMode] = []
        self.subclasses = True  # whether ``__torch_function__`` of subclasses of Tensor is called
        self.enabled = True  # whether any ``__torch_function__`` is called


_state = _State()
_known: dict[type, bool] = {}


def _disabled_torch_function_impl(
    func: Function, types: Iterable[type], args: tuple[Value, ...] = (), kwargs: dict[str, Value] | None = None
) -> Value:
    """Return the function's result without overrides: the protocol of classes that disable it."""
    with DisableTorchFunctionSubclass():
        return func(*args, **(kwargs or {}))


def _overrides_operators(kind: type) -> bool:
    found = _known.get(kind)
    if found is None:
        protocol = getattr(kind, "__torch_function__", None)
        inherits = getattr(protocol, "__func__", protocol) is getattr(_default, "__func__", _default)
        if isinstance(kind, type) and issubclass(kind, Tensor):
            off = inherits and (kind in _WITHOUT or issubclass(kind, (Parameter, Buffer)))
            off = off or _is_own(kind)
        else:
            off = protocol is None or issubclass(kind, type)
        found = _known[kind] = not off and protocol is not _disabled_torch_function_impl
    return found


def _overriding_values(values: Iterable[Value], depth: int = 2) -> Iterator[Value]:
    """Return the values whose ``__torch_function__`` may be called, including values within lists and tuples."""
    for value in values:
        kind = type(value)
        if kind in _WITHOUT:
            continue
        if kind is list or kind is tuple:
            if depth:
                yield from _overriding_values(value, depth - 1)
        elif _overrides_operators(kind) and (_state.subclasses or not isinstance(value, Tensor)):
            yield value


def _in_order(values: Iterable[Value]) -> list[Value]:
    """Return one value of each type, from left to right, subclasses before their bases."""
    found: list[Value] = []
    for value in values:
        kind = type(value)
        if any(type(other) is kind for other in found):
            continue
        place = next((i for i, other in enumerate(found) if issubclass(kind, type(other))), len(found))
        found.insert(place, value)
    return found


def dispatch(func: Function, values: Iterable[Value], args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
    """Return the result of the innermost mode, or else of the first of the types that does not return NotImplemented.

    Raises:
        TypeError: all of them return NotImplemented.
    """
    overloaded = _in_order(values)
    types = tuple(map(type, overloaded))
    if _state.modes:
        with _pop_mode_temporarily() as mode:
            result = mode.__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    for value in overloaded:
        result = type(value).__torch_function__(func, types, args, kwargs)
        if result is not NotImplemented:
            return result
    name = resolve_name(func) or getattr(func, "__name__", repr(func))
    asked = [kind.__name__ for kind in types] + [type(mode).__name__ for mode in _state.modes]
    raise TypeError(f"no implementation of {name} found: __torch_function__ of {', '.join(asked)} gave NotImplemented")


def answer(function: Function, args: tuple[Value, ...], kwargs: dict[str, Value]) -> Value:
    """Return the result of an argument's override of an operator that failed, or NotImplemented."""
    if not _state.enabled:
        return NotImplemented
    values = [value for value in _overriding_values((*args, *kwargs.values())) if not isinstance(value, Tensor)]
    return dispatch(function, values, args, kwargs) if values else NotImplemented


def _overridable(inner: Function, public: Function) -> Function:
    """Return a version of the operator ``public`` that first calls ``__torch_function__`` of modes and argument
    types."""

    @wraps(inner)
    def call(*args: Value, **kwargs: Value) -> Value:
        if not kwargs and not _state.modes:
            for value in args:
                if type(value) not in _WITHOUT:
                    break
            else:
                return inner(*args)
        if _state.enabled:
            values = list(_overriding_values((*args, *kwargs.values()) if kwargs else args))
            if values or _state.modes:
                return dispatch(public, values, args, kwargs)
        return inner(*args, **kwargs)

    return call


# Subclasses of Tensor


def _default(
    cls: type,
    func: Function,
    types: Iterable[type],
    args: tuple[Value, ...] = (),
    kwargs: dict[str, Value] | None = None,
) -> Value:
    """Call the function on plain Tensors, and return its Tensors as instances of the subclass."""
    if not all(issubclass(cls, kind) for kind in types):
        return NotImplemented
    with DisableTorchFunctionSubclass():
        result = func(*args, **(kwargs or {}))
        return result if func in get_default_nowrap_functions() else _convert(result, cls, args)


def _convert(result: Value, cls: type, args: tuple[Value, ...]) -> Value:
    if isinstance(result, Tensor):
        if cls is Tensor or isinstance(result, cls):
            return result
        if type(result) is Tensor and not any(result is value for value in args):
            result.__class__ = cls
            return result
        return as_subclass(result, cls)
    if isinstance(result, (list, tuple)) and not isinstance(result, Size):
        items = [_convert(item, cls, args) for item in result]
        return type(result)(*items) if hasattr(result, "_fields") else type(result)(items)
    return result


def as_subclass(self: Tensor, cls: type) -> Value:
    """Return an instance of a subclass on the same memory and with the same history."""
    result = self.view_as(self)
    result.__class__ = cls
    return result


def _make_subclass(cls: type, data: Tensor, require_grad: bool = False, **options: object) -> Value:
    """Return a leaf of a subclass on the memory of a Tensor."""
    result = data.detach()
    result.__class__ = cls
    result.requires_grad = require_grad
    return result


def _make_wrapper_subclass(
    cls: type,
    size: Iterable[int],
    strides: Iterable[int] | None = None,
    storage_offset: int | None = None,
    *,
    dtype: Value = None,
    requires_grad: bool = False,
    **options: object,
) -> Value:
    """Return an instance of a subclass that has a shape and a dtype, and no numbers: a meta tensor."""
    result = empty(tuple(size), dtype=dtype, device="meta")
    if strides is not None:
        result = result.as_strided(tuple(size), tuple(strides))
    result.__class__ = cls
    result.requires_grad = requires_grad
    return result


def _construct_at_once(kind: type) -> None:
    """Create the whole Tensor in ``kind.__new__`` if a subclass calls it with data; ``__init__`` then keeps the Tensor.

    In PyTorch a Tensor is complete after ``__new__``, and ``__init__`` accepts any arguments of a subclass.
    """
    initialize = vars(kind)["__init__"]

    def __new__(cls: type, *args: Value, **kwargs: Value) -> Value:
        self: Value = object.__new__(cls)
        if args and cls is not kind and any("__new__" in vars(base) for base in cls.__mro__[: cls.__mro__.index(kind)]):
            initialize(self, *args, **kwargs)
        return self

    @wraps(initialize)
    def __init__(self: Tensor, *args: Value, **kwargs: Value) -> None:
        if type(self) is kind or _is_own(type(self)) or not hasattr(self, "array"):
            initialize(self, *args, **kwargs)

    for name, function in {"__new__": staticmethod(__new__), "__init__": __init__}.items():
        setattr(kind, name, function)


def _is_own(kind: type) -> bool:
    return kind.__module__.startswith("retrograd.")


_constructors: list[type] = []


def subclass_defined(cls: type) -> None:
    """Prepare for instances of a subclass of Tensor that a program defines.

    Raises:
        TypeError: the class defines an attribute that the engine uses on Tensors.
    """
    taken = sorted(_SLOTS & vars(cls).keys())
    if taken:
        raise TypeError(
            f"class {cls.__name__}: the attribute {taken[0]} of Tensors is Retrograd's own; use another name"
        )
    if "array" in vars(cls):  # programs define ``array`` as the NumPy array, which the engine's ``array`` already is
        type.__delattr__(cls, "array")
    while len(_constructors) < 3:
        kind: type = (Tensor, Parameter, Buffer)[len(_constructors)]
        _construct_at_once(kind)
        _constructors.append(kind)
    if not issubclass(cls, (Parameter, Buffer)) or "__torch_function__" in vars(cls):
        install()


_installed = False


def install() -> None:
    """Make each operator and method call ``__torch_function__`` of modes and of the types of its arguments."""
    global _installed
    if _installed:
        return
    _installed = True
    entries: dict[str, Value] = {
        "as_subclass": as_subclass,
        "_make_subclass": staticmethod(_make_subclass), "_make_wrapper_subclass": staticmethod(_make_wrapper_subclass),
        "__torch_function__": classmethod(_default),
    }  # fmt: skip
    for name, value in entries.items():
        setattr(Tensor, name, value)
    done: set[int] = set()
    for operator in list(OPERATORS.values()):
        if operator.name == "is_tensor":  # PyTorch's ``is_tensor`` only checks the type and cannot be overridden
            continue
        public = _public(operator.namespace, operator.name, operator.function)
        if id(public) not in done and hasattr(public, "exchange"):
            done.add(id(public))
            public.exchange(lambda inner, public=public: _overridable(inner, public))
        for name in (operator.name, *operator.aliases):
            method = vars(Tensor).get(name)
            if type(method) is FunctionType and method is operator.function and not hasattr(method, "exchange"):
                setattr(Tensor, name, _overridable(method, public))
    for name, method in list(vars(Tensor).items()):
        if type(method) is FunctionType and name not in entries and id(method) not in done:
            if hasattr(method, "exchange"):
                done.add(id(method))
                method.exchange(lambda inner, method=method: _overridable(inner, method))
            elif name in _DUNDERS:
                setattr(Tensor, name, _overridable(method, _of_dunder(name, method)))
        elif isinstance(method, property) and name in _PROPERTIES and method.fget is not None:
            setattr(Tensor, name, property(_overridable(method.fget, method.fget), method.fset, doc=method.__doc__))


_PROPERTIES = frozenset(("T", "mT", "H", "mH", "real", "imag", "data"))
_BINARY = {
    "add": "add", "sub": "sub", "mul": "mul", "truediv": "div", "floordiv": "floor_divide", "mod": "remainder",
    "pow": "pow", "matmul": "matmul", "and": "bitwise_and", "or": "bitwise_or", "xor": "bitwise_xor", "eq": "eq",
    "ne": "ne", "lt": "lt", "le": "le", "gt": "gt", "ge": "ge", "neg": "neg", "abs": "abs", "invert": "bitwise_not",
}  # fmt: skip
_DUNDERS = frozenset(
    [f"__{kind}{name}__" for name in _BINARY for kind in ("", "r", "i")] + ["__getitem__", "__setitem__", "backward"]
)


def _of_dunder(name: str, method: Function) -> Function:
    """Return the function that ``__torch_function__`` receives for a Python operator, as in PyTorch: ``add`` for
    ``+``."""
    found = OPERATORS.get(_BINARY.get(name.strip("_"), ""))
    return method if found is None else _public(found.namespace, found.name, found.function)


def _public(namespace: str, name: str, function: Function) -> Function:
    """Return the function that users find in a namespace."""
    if namespace == "Tensor":
        return function
    home = retrograd if not namespace else attrgetter(namespace)(retrograd)
    return getattr(home, name, function)


# Modes


class TorchFunctionMode:
    """A context manager whose ``__torch_function__`` is called instead of every operator on its thread.

    >>> import retrograd as rg
    >>> class Count(rg.overrides.TorchFunctionMode):
    ...     calls = 0
    ...     def __torch_function__(self, func, types, args=(), kwargs=None):
    ...         self.calls += 1
    ...         return func(*args, **(kwargs or {}))
    >>> with Count() as count:
    ...     rg.exp(rg.ones(2)) + 1
    tensor([3.7183, 3.7183])
    >>> count.calls
    3
    """

    def __torch_function__(
        self,
        func: Function,
        types: Iterable[type],
        args: tuple[Value, ...] = (),
        kwargs: dict[str, Value] | None = None,
    ) -> Value:
        """Return the result of a call of ``func``. Operators that it calls are not intercepted by this mode."""
        raise NotImplementedError

    def __enter__(self) -> TorchFunctionMode:
        install()
        _state.modes.append(self)
        return self

    def __exit__(self, *error: object) -> None:
        _state.modes.pop()


class BaseTorchFunctionMode(TorchFunctionMode):
    """A mode that calls every operator as it is."""

    def __torch_function__(
        self,
        func: Function,
        types: Iterable[type],
        args: tuple[Value, ...] = (),
        kwargs: dict[str, Value] | None = None,
    ) -> Value:
        """Return the result of a call of ``func``."""
        return func(*args, **(kwargs or {}))


@contextmanager
def _pop_mode_temporarily() -> Iterator[TorchFunctionMode]:
    mode = _state.modes.pop()
    try:
        yield mode
    finally:
        _state.modes.append(mode)


def _get_current_function_mode() -> TorchFunctionMode | None:
    """Return the innermost mode, or None."""
    return _state.modes[-1] if _state.modes else None


def _get_current_function_mode_stack() -> list[TorchFunctionMode]:
    """Return the modes from the outermost to the innermost."""
    return list(_state.modes)


class _Switch:
    """A context manager that switches a setting of the thread off."""

    name: str

    def __enter__(self) -> None:
        self._before = getattr(_state, self.name)
        setattr(_state, self.name, False)

    def __exit__(self, *error: object) -> None:
        setattr(_state, self.name, self._before)


class DisableTorchFunctionSubclass(_Switch):
    """A context manager in which subclasses of Tensor are plain Tensors to operators."""

    name = "subclasses"


class DisableTorchFunction(_Switch):
    """A context manager in which operators call no ``__torch_function__``, neither of modes nor of arguments."""

    name = "enabled"


# ``overrides``


def has_torch_function(relevant_args: Iterable[Value]) -> bool:
    """Return whether a mode is entered, or one of the arguments overrides operators."""
    return _state.enabled and (bool(_state.modes) or any(True for _ in _overriding_values(relevant_args, 0)))


def has_torch_function_unary(relevant_arg: Value) -> bool:
    """Return ``has_torch_function`` of one argument."""
    return has_torch_function((relevant_arg,))


def has_torch_function_variadic(*relevant_args: Value) -> bool:
    """Return ``has_torch_function`` of the arguments."""
    return has_torch_function(relevant_args)


def handle_torch_function(public_api: Function, relevant_args: Iterable[Value], *args: Value, **kwargs: Value) -> Value:
    """Return the result of ``__torch_function__`` of a mode or of the arguments for a call of ``public_api``.

    Raises:
        TypeError: every ``__torch_function__`` returned NotImplemented.
    """
    return dispatch(public_api, _overriding_values(relevant_args, 0), args, kwargs)


def wrap_torch_function(dispatcher: Callable[..., Iterable[Value]]) -> Callable[[Function], Function]:
    """Decorate a function so that arguments selected by ``dispatcher`` can override it."""

    def decorate(func: Function) -> Function:
        @wraps(func)
        def wrapped(*args: Value, **kwargs: Value) -> Value:
            relevant = tuple(dispatcher(*args, **kwargs))
            if has_torch_function(relevant):
                return handle_torch_function(wrapped, relevant, *args, **kwargs)
            return func(*args, **kwargs)

        return wrapped

    return decorate


def is_tensor_like(inp: object) -> bool:
    """Return whether the object is a Tensor, or has ``__torch_function__``."""
    return isinstance(inp, Tensor) or hasattr(inp, "__torch_function__")


def get_overridable_functions() -> dict[object, list[Function]]:
    """Return the functions and methods that call ``__torch_function__``, by their namespace."""
    found: dict[object, list[Function]] = {}
    root = sys.modules.get("torch", retrograd)
    if not hasattr(root, "is_retrograd"):
        root = retrograd
    for operator in OPERATORS.values():
        home: object = Tensor
        if operator.namespace != "Tensor":
            home = attrgetter(operator.namespace)(retrograd) if operator.namespace else root
        found.setdefault(home, []).append(_public(operator.namespace, operator.name, operator.function))
    methods = [value for value in vars(Tensor).values() if hasattr(value, "exchange")]
    found[Tensor] = list(dict.fromkeys([*found.get(Tensor, []), *methods]))
    return found


def get_testing_overrides() -> dict[Function, Function]:
    """Return for each overridable function a function that takes any arguments and returns -1."""
    return {
        function: lambda *args, **kwargs: -1
        for functions in get_overridable_functions().values()
        for function in functions
    }


def get_ignored_functions() -> set[Function]:
    """Return the functions that do not call ``__torch_function__``; none of them is listed, because they are not
    operators."""
    return set()


def get_default_nowrap_functions() -> set[Function]:
    """Return functions whose results do not become instances of a subclass: none."""
    return set()


def is_tensor_method_or_property(func: Function) -> bool:
    """Return whether the function is a method or property of Tensor."""
    return any(func is value or func is getattr(value, "fget", None) for value in vars(Tensor).values())


def resolve_name(f: Function) -> str | None:
    """Return the full name of an overridable function, such as ``torch.add`` or ``torch.Tensor.add_``."""
    for home, functions in get_overridable_functions().items():
        if any(f is function for function in functions):
            place = "torch.Tensor" if home is Tensor else vars(home)["__name__"].replace("retrograd", "torch", 1)
            return f"{place}.{f.__name__}"
    return None


def enable_reentrant_dispatch() -> _Switch:
    """Return a context manager without effect: operators inside ``__torch_function__`` dispatch like all others."""
    return _Nothing()


class _Nothing(_Switch):
    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        pass


NAMES: dict[str, str | dict[str, Value]] = {
    "overrides": """
        BaseTorchFunctionMode DisableTorchFunction DisableTorchFunctionSubclass TorchFunctionMode
        _disabled_torch_function_impl _get_current_function_mode _get_current_function_mode_stack _pop_mode_temporarily
        enable_reentrant_dispatch get_default_nowrap_functions get_ignored_functions get_overridable_functions
        get_testing_overrides handle_torch_function has_torch_function has_torch_function_unary
        has_torch_function_variadic is_tensor_like is_tensor_method_or_property resolve_name wrap_torch_function
    """,
    "_C": "DisableTorchFunction DisableTorchFunctionSubclass _disabled_torch_function_impl",
}
