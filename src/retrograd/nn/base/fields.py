"""Declare modules that call a function of ``nn.functional`` with their attributes as settings.

    @calls_with_fields(F.softplus)
    class Softplus(Module):
        beta: float = 1.0
        threshold: float = 20.0

The fields are declared as in a dataclass. Each field is an argument of ``Softplus(...)``, in order of declaration, and
a mutable attribute. ``extra_repr`` shows the fields, and ``forward(input)`` returns
``F.softplus(input, beta=self.beta, threshold=self.threshold)``.
"""

from __future__ import annotations

import dataclasses
import inspect
from collections.abc import Callable
from functools import wraps
from typing import Any, TypeVar, dataclass_transform

from ...ops.table.arguments import with_checked_options
from ...ops.table.documentation import like
from .module import Module

M = TypeVar("M", bound=type[Module])


@dataclass_transform(eq_default=False, field_specifiers=(dataclasses.field,))
def init_from_fields(cls: M) -> M:
    """Generate the ``__init__`` of a module from its fields. A field of type ``Tensor | None`` is a buffer.

    ``__post_init__``, ``InitVar`` and ``KW_ONLY`` work as in ``dataclasses``; ``field(repr=False)`` hides a field from
    ``extra_repr``. Subclasses are not affected: they write their own ``__init__``.
    """
    # Use a separate dataclass: if the module were a dataclass, dataclasses.asdict would recurse into it.
    own = inspect.get_annotations(cls)
    members = {name: cls.__dict__[name] for name in own if name in cls.__dict__}
    for name in members:  # a class attribute would hide the buffer of the same name
        delattr(cls, name)
    # Set a docstring: without one, dataclasses composes it from the signature, which takes longer than the other steps.
    members |= {
        "__annotations__": own, "__module__": cls.__module__, "__qualname__": cls.__qualname__, "__doc__": cls.__name__,
    }  # fmt: skip
    if hasattr(cls, "__post_init__"):
        members["__post_init__"] = cls.__post_init__
    base = cls._declaration
    cls._declaration = dataclasses.dataclass(eq=False, repr=False)(
        type(cls.__name__, () if base is None else (base,), members)
    )
    assign = cls._declaration.__dict__["__init__"]
    fields = dataclasses.fields(cls._declaration)
    buffers = [field.name for field in fields if field.type == "Tensor | None"]

    @wraps(assign)
    def __init__(self: Module, *args: object, **kwargs: object) -> None:
        Module.__init__(self)
        assign(self, *args, **kwargs)
        for name in buffers:
            value = getattr(self, name)
            delattr(self, name)
            self.register_buffer(name, value)

    cls.__init__ = with_checked_options(__init__)  # type: ignore[method-assign]
    cls._settings = tuple(field.name for field in fields)
    if cls.extra_repr is Module.extra_repr:
        cls.extra_repr = _extra_repr  # type: ignore[method-assign]
    return cls


def _extra_repr(self: Module) -> str:
    """The fields with their values; ``inplace`` is shown only if True."""
    assert self._declaration is not None
    values = {field.name: getattr(self, field.name) for field in dataclasses.fields(self._declaration) if field.repr}
    return ", ".join(
        f"{name}={value!r}" if isinstance(value, str) else f"{name}={value}"
        for name, value in values.items()
        if name != "inplace" or value
    )


def calls(function: Callable[..., object], *optional: str) -> Callable[[M], M]:
    """Generate a ``forward`` that calls ``function`` with the module's settings as keyword arguments.

    The arguments of ``forward`` are the function's required arguments that are not settings, and those named in
    ``optional``. Settings that the module's docstring does not describe are described as in the function's docstring.
    """

    def decorate(cls: M) -> M:
        parameters = inspect.signature(function).parameters.values()
        required = [p.name for p in parameters if p.default is p.empty and p.name not in cls._settings]
        inputs = [*required, *(f"{name}=None" for name in optional)]
        arguments = [*required, *(f"{name}={name}" for name in optional), *(f"{n}=self.{n}" for n in cls._settings)]
        # Generate source code, so that the signature is explicit and a call has no overhead.
        source = f"def forward(self, {', '.join(inputs)}):\n    return function({', '.join(arguments)})"
        namespace: dict[str, Any] = {"function": function, "__name__": cls.__module__}
        exec(compile(source, __file__, "exec"), namespace)
        forward = namespace["forward"]
        forward.__qualname__ = f"{cls.__qualname__}.forward"
        forward.__doc__ = f"``nn.functional.{function.__name__}`` with the module's settings."
        types = inspect.get_annotations(function)
        forward.__annotations__ = {n: types[n] for n in (*required, *optional, "return") if n in types}
        cls.forward = forward  # type: ignore[method-assign]
        return like(function)(cls)

    return decorate


@dataclass_transform(eq_default=False, field_specifiers=(dataclasses.field,))
def calls_with_fields(function: Callable[..., object], *optional: str) -> Callable[[M], M]:
    """Decorate a class with ``init_from_fields``, then with ``calls``."""
    call = calls(function, *optional)
    return lambda cls: call(init_from_fields(cls))
