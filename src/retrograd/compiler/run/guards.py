"""Guards: what a function reads besides its arguments, and whether it is still what it was in the trace.

A function's surroundings are what its code can name: closure cells, globals, attributes of the objects found there, and
what functions and methods called from there can name in turn. Numbers and strings are compared, Tensors, functions and
other objects must be the same ones. ``Surroundings.holds`` is one compiled expression.
"""

from __future__ import annotations

import array
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from functools import partial
from operator import attrgetter
from threading import local
from typing import Any
from zlib import crc32

import numpy as np

from ...core.arrays.devices import is_array
from ...core.tensor.tensor import Tensor
from ...nn.base import global_hooks
from ..program import Value
from ..trace import code_names
from ..trace.effects import hooks_of
from ..trace.untrace import same_number

_PLAIN = (bool, int, float, complex, str, bytes, type(None), np.dtype)
_BUILTIN = frozenset((bool, int, float, complex, str, bytes, type(None)))
_CONTAINERS = (list, tuple, dict, set, frozenset, deque, bytearray, array.array)
_SMALL = 1 << 16  # bytes of an array whose elements are compared
_PACKAGE = __name__.partition(".")[0] + "."
_PARTS = "__code__", "__defaults__", "__kwdefaults__"
_OPTIONS = frozenset(("param_groups", "get_last_lr"))  # by which code reads an optimizer's options
_MANY = 4096
_DEEP = 24


class Missing:
    """Stands for what is not there."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING = Missing()


class Place:
    """Where a value is read: an entry of a dict or a closure cell."""

    __slots__ = ("holder", "key")

    def __init__(self, holder: Any, key: Any = None) -> None:
        self.holder = holder
        self.key = key

    @property
    def value(self) -> Any:
        """What stands there now."""
        if isinstance(self.holder, types.CellType):
            try:
                return self.holder.cell_contents
            except ValueError:
                return MISSING
        return self.holder.get(self.key, MISSING)

    @value.setter
    def value(self, value: Any) -> None:
        if isinstance(self.holder, types.CellType):
            self.holder.cell_contents = value
        else:
            self.holder[self.key] = value

    @property
    def identity(self) -> tuple[int, Any]:
        """What tells two places apart."""
        return id(self.holder), self.key


class Attribute(Place):
    """A value that a class holds, or an object in one of its ``__slots__``."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """What stands there now."""
        if isinstance(self.holder, type):
            return self.holder.__dict__.get(self.key, MISSING)
        return getattr(self.holder, self.key, MISSING)

    @value.setter
    def value(self, value: Any) -> None:
        setattr(self.holder, self.key, value)


class Context(Place):
    """A value that a context variable has on this thread."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        """What stands there now."""
        return self.holder.get(MISSING)

    @value.setter
    def value(self, value: Any) -> None:
        self.holder.set(value)


class Wrapper:
    """A callable that calls its ``function``; what else it holds is no part of the program."""

    function: Callable[..., Any]


class Surroundings:
    """What a function can read, as it is now.

    Attributes:
        places: the places that are read, with the value that stood there.
        numbers: those of them that hold an int or a float.
        tensors: the Tensors found.
    """

    def __init__(self, function: Callable[..., Any], arguments: Any = ()) -> None:
        self.places: dict[tuple[int, Any], tuple[Place, Any]] = {}
        self.lists: list[tuple[Any, Any]] = []  # containers and objects whose contents must stay
        self.tensors: list[Tensor] = []
        self.arrays: list[tuple[Any, Any]] = []  # with what is compared of their elements, of which nothing tells
        self.absent: list[tuple[dict[str, Any], frozenset[str]]] = []  # attributes that objects have not, yet
        self.options: list[tuple[dict[str, Any], str, Any]] = []  # of optimizers, where the function reads them
        self.functions: list[tuple[Any, dict[str, Any]]] = []  # with code and defaults, which tools replace
        self.kinds: list[tuple[Any, type]] = []  # objects with their classes
        self.random: list[Any] = [random, np.random]  # what draws random numbers that no replay would draw
        self.exact: frozenset[type] = frozenset()  # of which the code wants no stand-ins
        self.unseen = False  # whether there are iterators in containers, which cannot be watched
        self._seen: dict[int, Any] = {}
        self._codes: set[Any] = set()
        self._names: set[str] = {"forward"}
        self._objects: list[Any] = []
        self._classes: list[type] = []  # whose code is searched last, which may be much
        self._optimizers: list[Any] = []
        self._member = ""  # the name in a class of the method that is visited
        self._of_methods: list[tuple[str, frozenset[str]]] = []  # what they mention; "forward" for all other code
        self._of_class = 0  # of whose methods not all are called
        self._visit(function, 0)
        for x in arguments:
            if isinstance(x, Tensor):
                self._hooks(x, 1)
            elif not is_array(x):
                self._visit(x, 1)
        known = -1
        while self._classes or known != (known := len(self._names)):  # what is found by a name may mention further ones
            while self._classes:
                self._code_of_class(self._classes.pop())
            for x in self._objects:  # attributes by the names that any of the codes mentions
                self._attributes(x)
        if self._optimizers and not _OPTIONS.isdisjoint(code_names.reached(self._of_methods, {"forward"})):
            for group in [group for x in self._optimizers for group in x.param_groups]:
                self.options += [(group, name, value) for name, value in group.items() if name != "params"]
        for x in self._objects:
            if hasattr(x, "__dict__") and not isinstance(x, (type, types.ModuleType, local)):
                self.absent.append((vars(x), frozenset(self._names.difference(vars(x)))))
            if not isinstance(x, (type, types.ModuleType)) and not _module_of(type(x)).startswith(_PACKAGE):
                self.kinds.append((x, type(x)))
        self._drawn = list(map(_random_state, self.random))

    # Finding

    def _visit(self, x: Any, depth: int) -> None:
        kind = type(x)
        if kind in _BUILTIN or id(x) in self._seen or depth > _DEEP or len(self._seen) > _MANY:
            return
        self._seen[id(x)] = x
        if isinstance(x, (*_PLAIN, *_CONTAINERS)) and _module_of(kind) not in ("builtins", "collections", "array"):
            self._visit(kind, depth + 1)  # whose methods may read whatever there is
        if isinstance(x, _PLAIN):
            return
        if isinstance(x, Tensor):
            self.tensors.append(x)
            self._hooks(x, depth)
            if x.__dict__:
                self._objects.append(x)
        elif isinstance(x, Wrapper):
            self._visit(x.function, depth)
        elif kind is types.FunctionType:
            if not str(x.__module__).startswith(_PACKAGE) or x.__closure__:
                self._function(x, depth)
        elif kind is types.MethodType:
            self._visit(x.__func__, depth)
            self._visit(x.__self__, depth)
        elif isinstance(x, ContextVar):
            self._place(Context(x), depth)
        elif _module_of(kind) == "functools" and hasattr(x, "__wrapped__"):  # lru_cache
            self._visit(x.__wrapped__, depth + 1)
        elif isinstance(x, partial):
            for part in (x.func, x.keywords, *x.args):
                self._visit(part, depth + 1)
        elif kind is types.BuiltinMethodType:
            if not isinstance(x.__self__, types.ModuleType):
                self._visit(x.__self__, depth + 1)
        elif is_array(x):
            self.arrays.append((x, _elements(x)))
        elif isinstance(x, _RANDOM):
            self.random.append(x)
        elif isinstance(x, _CONTAINERS):
            if len(x) <= _MANY:
                self.lists.append((x, _contents(x)))
                for item in list(x.values() if isinstance(x, dict) else x):
                    self.unseen = self.unseen or is_iterator(item)
                    self._visit(item, depth + 1)
        elif isinstance(x, attrgetter):
            self._names.update(".".join(x.__reduce__()[1]).split("."))
        elif isinstance(x, (types.ModuleType, type, local)):
            self._objects.append(x)
            if isinstance(x, type):
                self._classes.append(x)
        elif _module_of(kind) in ("builtins", "numpy", "threading", "_thread", "logging"):
            return
        elif {"_modules", "_parameters", "_buffers"} <= getattr(x, "__dict__", {}).keys():
            self._module(x, depth)
        elif "param_groups" in getattr(x, "__dict__", ()) and hasattr(kind, "step"):
            self._optimizers.append(x)  # which reads its options itself in each replay
            for parameters in (x.param_groups, *[group["params"] for group in x.param_groups]):
                self.lists.append((parameters, _contents(parameters)))
        elif hasattr(x, "__dict__") or hasattr(kind, "__slots__"):
            self._objects.append(x)
            self._methods(x, depth)

    def _hooks(self, x: Tensor, depth: int) -> None:
        for hook in hooks_of(x):  # which of them there are, the program itself compares
            self._visit(hook, depth + 1)

    def _function(self, function: Any, depth: int) -> None:
        code = function.__code__
        for cell in function.__closure__ or ():
            self._place(Place(cell), depth)
        pythons = code_names.is_stdlib(code.co_filename)
        if str(function.__module__).startswith(_PACKAGE) or pythons and "." not in function.__qualname__:
            return
        if not pythons:
            parts = _PARTS if code.co_kwonlyargcount else _PARTS[:2]
            self.functions.append((function, {part: getattr(function, part) for part in parts}))
        if function.__kwdefaults__:
            self.lists.append((function.__kwdefaults__, _contents(function.__kwdefaults__)))
        if function.__dict__:
            self._objects.append(function)
        for default in (*(function.__defaults__ or ()), *(function.__kwdefaults__ or {}).values()):
            self._visit(default, depth + 1)
        called = {code.co_name, self._member} if self._of_class else {"forward"}
        self._of_methods += [(name, code_names.mentioned_in(code)) for name in called]
        self._code(code, function.__globals__, depth)

    def _code(self, code: types.CodeType, names: dict[str, Any], depth: int) -> None:
        if code in self._codes:
            return
        self._codes.add(code)
        self.exact |= code_names.asks_exactly(code)
        texts = list(code_names.texts_in(code.co_consts))
        self._names.update(code.co_names, texts)  # getattr(x, "name")
        for name in (*code_names.globals_of(code), *(texts if "globals" in code.co_names else ())):
            if name in names:
                self._place(Place(names, name), depth)
        for name in code_names.imports_of(code):
            if name in sys.modules:
                self._visit(sys.modules[name], depth + 1)
        for constant in code.co_consts:
            if isinstance(constant, types.CodeType):
                self._code(constant, names, depth)

    def _place(self, place: Place, depth: int) -> None:
        value = place.value
        if (
            value is MISSING
            or isinstance(value, types.ModuleType)
            and value.__name__.startswith(("retrograd", "numpy"))
        ):
            return
        self.places.setdefault(place.identity, (place, value))
        self._visit(value, depth + 1)

    def _methods(self, x: Any, depth: int) -> None:
        self._of_class += 1
        self._visit_methods(x, depth)
        self._of_class -= 1

    def _visit_methods(self, x: Any, depth: int) -> None:
        for base in type(x).__mro__:
            if not _module_of(base).startswith(_PACKAGE) and base is not object:
                for self._member, member in vars(base).items():
                    if self._member == "__init__":
                        continue
                    for found in code_names.functions_in(member):
                        self._visit(found, depth + 1)

    def _code_of_class(self, kind: type) -> None:
        """What code can run where a class is named: that of its methods and of its metaclass."""
        self._of_class += 1
        metaclass: type = type(kind)
        for base in (*kind.__mro__, *metaclass.__mro__):
            where = _module_of(base)
            if where.startswith((_PACKAGE, "numpy.")) or where in ("builtins", "numpy", "typing"):
                continue
            self._names.update(vars(base).get("__match_args__", ()))
            for self._member, member in list(vars(base).items()):
                for found in code_names.functions_in(member):
                    if not code_names.is_stdlib(found.__code__.co_filename):
                        self._visit(found, 3)
        self._of_class -= 1

    def _module(self, module: Any, depth: int) -> None:
        """A module: its parameters and buffers by identity, its plain attributes, its children.

        A list or dict is seen only where the code names it: some programs collect there what their steps return.
        """
        fields = vars(module)
        if id(global_hooks) not in self._seen:  # hooks on all modules
            self._seen[id(global_hooks)] = global_hooks
            for hooks in global_hooks.at_calls:
                self._visit(hooks, depth)
        for table in ("_parameters", "_buffers", "_modules"):
            entries = fields[table]
            self.lists.append((entries, _contents(entries)))
            for child in entries.values():
                if table == "_modules" and child is not None and id(child) not in self._seen:
                    self._seen[id(child)] = child
                    self._module(child, depth)
                elif table != "_modules":
                    self._visit(child, depth + 1)
        for name, value in fields.items():
            if name.startswith("_") and name.endswith("hooks"):
                self.lists.append((value, _contents(value)))
                for hook in list(value.values()):
                    self._visit(hook, depth + 1)
            elif type(value) in (list, dict, set, deque) and not _module_of(type(module)).startswith(_PACKAGE):
                continue
            elif name not in ("_parameters", "_buffers", "_modules", "_non_persistent_buffers_set"):
                self.places.setdefault((id(fields), name), (Place(fields, name), value))
                self._visit(value, depth + 1)
        self._objects.append(module)
        self._methods(module, depth)

    def _attributes(self, x: Any) -> None:
        if isinstance(x, type) or not isinstance(x, types.ModuleType):
            self._class(x if isinstance(x, type) else type(x), x)
            if not self._names.isdisjoint(("type", "__class__")):
                self._visit(type(x), 3)  # type(x)() makes another
        if isinstance(x, type) or not hasattr(x, "__dict__"):
            return
        fields = vars(x)
        if hasattr(type(x), "__getattr__") and "_modules" not in fields and id(fields) not in self._seen:
            self._seen[id(fields)] = fields  # which may read whatever there is
            self.lists.append((fields, _contents(fields)))
        plain = "_modules" not in fields and not isinstance(x, (type, types.ModuleType))
        if plain and id(fields) not in self._seen and not self._names.isdisjoint(("vars", "__dict__")):
            self._seen[id(fields)] = fields
            self.lists.append((fields, _contents(fields)))
        for name in sorted(self._names.intersection(fields)):
            value = fields[name]
            if isinstance(x, types.ModuleType) and x.__name__.startswith(("retrograd", "numpy")):
                continue
            place = Attribute(x, name) if isinstance(x, local) else Place(fields, name)  # each thread has its own
            self.places.setdefault(place.identity, (place, value))
            self._visit(value, 3)

    def _class(self, kind: type, x: Any) -> None:
        """What stands in the classes themselves, by name, and an object's slots."""
        for base in kind.__mro__:
            where = _module_of(base)
            if where.startswith((_PACKAGE, "numpy.")) or where in ("builtins", "numpy", "typing"):
                continue
            for name in sorted(self._names.intersection(vars(base))):
                holder = x if x is not kind and isinstance(vars(base)[name], types.MemberDescriptorType) else base
                place = Attribute(holder, name)
                if place.value is not MISSING:
                    self.places.setdefault(place.identity, (place, place.value))
                    self._visit(place.value, 3)

    # Checking

    @property
    def numbers(self) -> Iterator[Place]:
        """The places that hold numbers."""
        for place, value in self.places.values():
            if type(value) in (int, float):
                yield place

    @property
    def large_arrays(self) -> Iterator[Place]:
        """The places that hold arrays which are too large to compare: programs read them anew in each call."""
        for place, value in self.places.values():
            if type(value) is np.ndarray and value.nbytes > _SMALL and not value.dtype.hasobject:
                yield place

    @property
    def iterators(self) -> Iterator[Place]:
        """The places that hold generators and other iterators, whose state nobody can compare."""
        for place, value in self.places.values():
            if is_iterator(value):
                yield place

    def changed(self) -> str:
        """What is no longer as it was, in words; empty where all is."""
        for place, value in self.places.values():
            if not _alike(place.value, value):
                what = "a variable of an enclosing function" if place.key is None else f"{place.key!r}"
                return f"{what} is {_shown(place.value)}, it was {_shown(value)}"
        for x, contents in self.lists:
            if _contents(x) != contents:
                return f"a {type(x).__name__} has other contents"
        for fields, names in self.absent:
            for name in names.intersection(fields):
                return f"{name!r} is there, it was not"
        for group, name, before in self.options:
            if not _alike(group.get(name), before):
                return f"{name!r} of an optimizer is {group.get(name)!r}, it was {before!r}"
        for function, parts in self.functions:
            if any(getattr(function, part) is not value for part, value in parts.items()):
                return f"{function.__qualname__}() has other code or default arguments"
        for x, before in self.arrays:
            if before is not None and not _same_elements(x, before):
                return "a NumPy array has other elements"
        for x, kind in self.kinds:
            if type(x) is not kind:
                return f"a {kind.__name__} is a {type(x).__name__} now"
        return ""

    def drawn(self) -> str:
        """Which random numbers were drawn meanwhile that are not Retrograd's, in words; empty where none were."""
        for x, before in zip(self.random, self._drawn, strict=True):
            if not _same_state(_random_state(x), before):
                name = x.__name__ if isinstance(x, types.ModuleType) else f"a {type(x).__name__}"
                return (
                    f"it draws random numbers from {name}, which a replay would not; those of Retrograd it draws again"
                )
        return ""

    def words(self, free: set[tuple[int, Any]]) -> list[str]:
        """What is compared, by name, with how many places have it."""
        plain: dict[str, int] = {}
        objects: dict[str, int] = {}
        for identity, (place, value) in self.places.items():
            name = "a variable of an enclosing function" if place.key is None else str(place.key)
            if identity in free:
                name += " (an input)"
            table = plain if isinstance(value, _PLAIN) else objects
            table[name] = table.get(name, 0) + 1
        found = []
        for what, table in (("the values of", plain), ("the identities of", objects)):
            if table:
                found.append(f"{what} {', '.join(f'{n} ({k})' if k > 1 else n for n, k in table.items())}")
        if self.lists:
            found.append(f"the contents of {len(self.lists)} containers: parameters, buffers, children, hooks, lists")
        return found

    def check(self, free: set[tuple[int, Any]], taken: set[int], constants: dict[str, Any]) -> list[str]:
        """Expressions that are true while all is as it was; ``constants`` is given what they name.

        But for the values of the places ``free``, and the elements of the arrays whose identities are ``taken``.
        """
        lines: list[str] = []

        def named(value: object) -> str:
            name = f"g{len(constants)}"
            constants[name] = value
            return name

        for identity, (place, value) in self.places.items():
            if isinstance(place, Attribute) and not isinstance(place.holder, type):
                read = f"getattr({named(place.holder)}, {place.key!r}, missing)"
            elif isinstance(place, Attribute):
                read = f"{named(place.holder.__dict__)}.get({place.key!r})"
            elif isinstance(place, Context):
                read = f"{named(place.holder)}.get(missing)"
            elif place.key is None:
                read = f"{named(place.holder)}.cell_contents"
            else:
                read = f"{named(place.holder)}.get({place.key!r})"
            wanted = named(value)
            if identity in free:  # a number of the same type may have any value
                lines.append(f"type({read}) is {named(type(value))}")
            elif isinstance(value, _PLAIN):
                lines.append(f"({read} is {wanted} or alike({read}, {wanted}))")
            else:
                lines.append(f"{read} is {wanted}")
        for x, contents in self.lists:
            lines.append(_contents_check(named(x), x, contents, named) if contents else f"not {named(x)}")
        for group, name, before in self.options:
            lines.append(f"alike({named(group)}.get({name!r}), {named(before)})")
        for function, parts in self.functions:
            lines += [f"{named(function)}.{part} is {named(value)}" for part, value in parts.items()]
        lines += [f"{named(x)}.__class__ is {named(kind)}" for x, kind in self.kinds]
        for fields, names in self.absent:
            lines.append(f"(len({named(fields)}) == {len(fields)} or {named(names)}.isdisjoint({named(fields)}))")
        for x, before in self.arrays:
            if before is not None and id(x) not in taken:
                lines.append(f"same_elements({named(x)}, {named(before)})")
        constants.update(alike=_alike, contents=_contents, same_elements=_same_elements, missing=MISSING)
        return lines


def _module_of(kind: type) -> str:
    """The module of a class, which one made by ``exec`` may not have."""
    return str(getattr(kind, "__module__", ""))


def is_iterator(x: Any) -> bool:
    """Whether it is an iterator of Python's own: a generator, ``count()``, ``iter(a_list)``."""
    return hasattr(type(x), "__next__") and _module_of(type(x)) in ("builtins", "itertools")


_RANDOM = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)


def _random_state(x: Any) -> Any:
    if isinstance(x, np.random.Generator):
        return x.bit_generator.state
    if isinstance(x, np.random.BitGenerator):
        return x.state
    return x.getstate() if x is random or isinstance(x, random.Random) else x.get_state()


def _same_state(x: Any, y: Any) -> bool:
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(_same_state(x[key], y[key]) for key in x)
    if isinstance(x, np.ndarray):
        return np.array_equal(x, y)
    return all(map(_same_state, x, y)) if isinstance(x, tuple) else bool(x == y)


def _alike(now: Any, before: object) -> bool:
    if now is before:
        return True
    return isinstance(before, _PLAIN) and type(now) is type(before) and same_number(now, before)


def _contents(x: Any) -> Any:
    """What of a container is compared: plain values themselves, the identities of others."""
    if not x:
        return ()
    if isinstance(x, (set, frozenset)):
        return frozenset(map(_mark, x))
    if isinstance(x, dict):
        return tuple(x), tuple(map(_mark, x.values()))
    return tuple(map(_mark, x))


def _mark(value: object) -> Any:
    """What is equal for the same plain values, of one type and sign, and for the same other objects."""
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if isinstance(value, _PLAIN):
        return kind, repr(value) if kind is complex else value or repr(value)
    return id(value)


def _contents_check(name: str, x: Any, contents: Any, named: Callable[[Any], str]) -> str:
    """The condition that ``contents`` of what the name stands for is as it was, without a call where that can be."""
    items = contents[1] if isinstance(x, dict) else contents
    values = list(x.values() if isinstance(x, dict) else x)
    if type(x) not in (dict, list, tuple) or any(isinstance(value, _PLAIN) for value in values):
        return f"contents({name}) == {named(contents)}"
    if type(x) is dict:
        keys, ids = named(list(contents[0])), named(list(items))
        return f"list({name}) == {keys} and list(map(id, {name}.values())) == {ids}"
    return f"list(map(id, {name})) == {named(list(items))}"


def _elements(array: Any) -> Any:
    """What is compared of an array's elements: a copy of few, a checksum of many; None where they are on a GPU."""
    if type(array) is not np.ndarray:
        return None
    if array.nbytes <= _SMALL or array.dtype.hasobject:
        return array.copy()
    return array.shape, array.dtype, crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _same_elements(array: Any, before: Any) -> bool:
    if type(before) is tuple:
        return bool(_elements(array) == before)
    return array.shape == before.shape and array.dtype == before.dtype and array.tobytes() == before.tobytes()


def _shown(value: object) -> str:
    return repr(value) if isinstance(value, _PLAIN) else f"a {type(value).__name__}"


def shape_of(value: Value) -> str:
    """The condition on an array that it is as the value was, in terms of ``a``."""
    return f"a.shape == {value.shape!r} and a.strides == {value.strides!r}"
