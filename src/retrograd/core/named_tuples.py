"""A replacement of ``typing.NamedTuple`` that creates equivalent classes in a fifth of the time.

``typing`` compiles each annotation and the source code of each constructor; importing Retrograd defines fifty classes.
"""

from __future__ import annotations

import collections
from collections.abc import Iterable
from functools import cache
from operator import itemgetter
from types import CodeType, FunctionType
from typing import TYPE_CHECKING, Any

# CPython's fast getter is private, so it may be missing.
_getter = vars(collections).get("_tuplegetter") or (lambda place, doc: property(itemgetter(place), doc=doc))
_SCOPE = {"__builtins__": {}, "new": tuple.__new__}


@cache
def _constructor(count: int) -> CodeType:
    names = "".join(f", _{place}" for place in range(count))
    return eval(f"lambda _cls{names}: new(_cls, ({names[2:]},))", dict(_SCOPE)).__code__


class _Methods:
    @classmethod
    def _make(cls: Any, values: Iterable[object]) -> Any:
        """Return a tuple with the values of an iterable."""
        return cls(*values)

    def _replace(self: Any, /, **changes: object) -> Any:
        """Return a tuple with other values of some fields."""
        return type(self)(**(self._asdict() | changes))

    def _asdict(self: Any) -> dict[str, object]:
        """Return a dictionary from the fields to their values."""
        return dict(zip(self._fields, self))

    def __repr__(self: Any) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._asdict().items())})"

    def __getnewargs__(self: Any) -> tuple[object, ...]:
        return tuple(self)


_METHODS = {name: value for name, value in vars(_Methods).items() if callable(value) or isinstance(value, classmethod)}


class _NamedTupleMeta(type):
    def __new__(meta, name: str, bases: tuple[type, ...], namespace: dict[str, Any]) -> Any:
        fields = tuple(namespace["__annotations__"])
        defaults = {field: namespace.pop(field) for field in fields if field in namespace}
        code = _constructor(len(fields)).replace(co_varnames=("_cls", *fields), co_qualname=f"{name}.__new__")
        constructor = FunctionType(code, _SCOPE, "__new__", tuple(defaults.values()))
        constructor.__annotations__ = namespace["__annotations__"]
        getters = {field: _getter(place, f"Alias for field number {place}") for place, field in enumerate(fields)}
        own = {"__slots__": (), "_fields": fields, "_field_defaults": defaults, "__match_args__": fields}
        return type(name, (tuple,), {"__new__": constructor, **_METHODS, **own, **getters, **namespace})


if TYPE_CHECKING:
    from typing import NamedTuple as NamedTuple
else:
    NamedTuple = type.__new__(_NamedTupleMeta, "NamedTuple", (), {})
