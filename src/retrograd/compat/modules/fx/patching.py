"""Functions that tracing records as calls (``wrap``), and the temporary replacement of attributes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import wraps
from types import TracebackType

from .immutable_collections import Value
from .proxy import tracer_of

# The globals of modules that registered a function with ``wrap``, by the id of these globals and the function's name.
_wrapped: dict[tuple[int, str], dict[str, Value]] = {}
# Methods that programs registered, as pairs of a class and a name.
_wrapped_methods: list[tuple[type, str]] = []


def wrap(fn_or_name: str | Callable[..., Value]) -> Value:
    """Make tracing record calls of a function instead of entering it. Call it at the top of a module.

    Args:
        fn_or_name: a function of the module, or the name of a global or builtin function. As a decorator it returns
            the function unchanged.

    Raises:
        RuntimeError: the argument is neither a function nor a name.
        NotImplementedError: the call is inside a function.
    """
    if not callable(fn_or_name) and not isinstance(fn_or_name, str):
        raise RuntimeError(f"Unsupported type for global function! Must be either a callable or string name, "
                           f"got {fn_or_name!r}")  # fmt: skip
    if callable(fn_or_name) and not isinstance(fn_or_name, str):
        name = fn_or_name.__name__
    else:
        name = str(fn_or_name)
    frame = inspect.currentframe()
    caller = None if frame is None else frame.f_back
    if caller is None:
        raise RuntimeError("wrap: the calling module is unknown")
    if caller.f_code.co_name != "<module>":
        raise NotImplementedError("wrap must be called at the top level of a module")
    _wrapped[id(caller.f_globals), name] = caller.f_globals
    return fn_or_name


def recording(function: Callable[..., Value]) -> Callable[..., Value]:
    """Return a function that records calls with Proxies, and computes calls without Proxies."""
    if getattr(function, "_fx_records", False):
        return function

    @wraps(function)
    def record(*args: Value, **kwargs: Value) -> Value:
        tracer = tracer_of((args, kwargs))
        if tracer is None:
            return function(*args, **kwargs)
        proxy = tracer.create_proxy("call_function", function, args, kwargs)
        proxy.node.meta["is_wrapped"] = True
        return proxy

    vars(record)["_fx_records"] = True
    return record


class Patcher:
    """Replaces attributes and names of modules until the end of a ``with`` statement."""

    def __init__(self) -> None:
        self._undo: list[Callable[[], object]] = []
        self._visited: set[int] = set()

    def method(self, owner: type, name: str, value: Value) -> None:
        """Replace an attribute of a class."""
        before = getattr(owner, name)
        own = name in vars(owner)
        setattr(owner, name, value)
        self._undo.append((lambda: setattr(owner, name, before)) if own else (lambda: delattr(owner, name)))

    def name(self, names: dict[str, Value], name: str, value: Value) -> None:
        """Replace a global name."""
        if name in names:
            before = names[name]
            self._undo.append(lambda: names.__setitem__(name, before))
        else:  # the name of a builtin function
            self._undo.append(lambda: names.pop(name, None))
        names[name] = value

    def visit_once(self, names: object) -> bool:
        """Return True at the first call with this object."""
        first = id(names) not in self._visited
        self._visited.add(id(names))
        return first

    def registered(self) -> None:
        """Replace the functions that modules registered with ``wrap``."""
        import builtins

        for (_, name), names in _wrapped.items():
            function = names.get(name, getattr(builtins, name, None))
            if function is not None:
                self.name(names, name, recording(function))
        for owner, name in _wrapped_methods:
            self.method(owner, name, recording(getattr(owner, name)))

    def functions(self, names: dict[str, Value], identities: set[int]) -> None:
        """Replace the functions with these ids among the global names of a module."""
        if not self.visit_once(names):
            return
        for name, value in list(names.items()):
            if not name.startswith("_") and callable(value) and id(value) in identities:
                self.name(names, name, recording(value))

    def __enter__(self) -> Patcher:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        while self._undo:
            self._undo.pop()()
