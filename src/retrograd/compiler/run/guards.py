"""Guards: compare the objects that a function reads, other than its arguments, with the objects of the trace.

The surroundings of a function are the objects that its code can name: closure cells, globals, attributes of the objects
found there, and recursively the objects that functions and methods called from there can name. Numbers and strings must
be equal; Tensors, functions and other objects must be identical. A program compiles all guards to one function.
"""

from __future__ import annotations

import array
import random
import sys
import types
from collections import deque
from collections.abc import Callable, Collection, Iterator
from contextvars import ContextVar
from functools import partial
from operator import attrgetter
from threading import local
from typing import Any
from zlib import crc32

import numpy as np

from ...core.arrays.devices import is_array
from ...core.tensor.tensor import Tensor, is_dense
from ...nn.base import global_hooks
from ..trace import code_names
from ..trace.effects import hooks_of
from ..trace.untrace import same_number

_PLAIN: tuple[type, ...] = (bool, int, float, complex, str, bytes, type(None), np.dtype)
_BUILTIN = frozenset(_PLAIN[:-1])
_CONTAINERS = (list, tuple, dict, set, frozenset, deque, bytearray, array.array)
_MAX_COMPARED_BYTES = 1 << 16  # maximum bytes of an array whose elements are compared
_PACKAGE = __name__.partition(".")[0] + "."
_PARTS = "__code__", "__defaults__", "__kwdefaults__"
_OPTIONS = frozenset(("param_groups", "get_last_lr"))  # names by which code reads an optimizer's options
_MAX_OBJECTS = 4096
_MAX_DEPTH = 24


class Missing:
    """The value of a place without a value."""

    def __repr__(self) -> str:
        return "<missing>"


MISSING = Missing()


class Place:
    """A location of a value: an entry of a dict or a closure cell."""

    __slots__ = ("holder", "key")

    def __init__(self, holder: Any, key: Any = None) -> None:
        self.holder = holder
        self.key = key

    @property
    def value(self) -> Any:
        """The current value."""
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
        """A key: equal keys mean equal places."""
        return id(self.holder), self.key


class Attribute(Place):
    """An attribute of a class, or of an object with ``__slots__``."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        if isinstance(self.holder, type):
            return self.holder.__dict__.get(self.key, MISSING)
        return getattr(self.holder, self.key, MISSING)

    @value.setter
    def value(self, value: Any) -> None:
        setattr(self.holder, self.key, value)


class Context(Place):
    """The value of a context variable on this thread."""

    __slots__ = ()

    @property
    def value(self) -> Any:
        return self.holder.get(MISSING)

    @value.setter
    def value(self, value: Any) -> None:
        self.holder.set(value)


class Wrapper:
    """A callable that calls its ``function``; guards ignore its other attributes."""

    function: Callable[..., Any]


class Surroundings:
    """The objects that a function can read, in their current state.

    Attributes:
        places: the places that are read, with their values.
        numbers: the places that hold an int or a float.
        tensors: the Tensors found.
    """

    def __init__(self, function: Callable[..., object], arguments: Any = ()) -> None:
        self.places: dict[tuple[int, object], tuple[Place, object]] = {}
        self.lists: list[tuple[object, object]] = []  # containers and objects whose contents are compared
        self.tensors: list[Tensor] = []
        self.arrays: list[tuple[Any, Any]] = []  # arrays, with copies or checksums of their elements
        self.absent: list[tuple[dict[str, object], frozenset[str]]] = []  # names that an object must not gain
        self.options: list[tuple[dict[str, Any], str, Any]] = []  # options of optimizers that the function reads
        # Functions, with code and defaults.
        self.functions: list[tuple[Any, dict[str, object]]] = []
        self.kinds: list[tuple[object, type]] = []  # objects with their classes
        self.random: list[Any] = [random, np.random]  # random generators, from which a replay would not draw
        self.exact: frozenset[type] = frozenset()  # number types for which the code needs plain objects
        self.unseen = False  # whether containers have iterators, whose advance cannot be detected
        self._seen: dict[int, object] = {}
        self._codes: set[object] = set()
        self._names: set[str] = {"forward"}
        self._objects: list[object] = []
        self._classes: list[type] = []  # classes whose code is yet to be searched, after all other code
        self._optimizers: list[Any] = []
        self._member_name = ""  # the class attribute whose functions are being visited
        self._method_names: list[tuple[str, frozenset[str]]] = []  # names in methods; "forward" stands for other code
        self._class_depth = 0  # above 0 while methods are visited, not all of which are called
        self._visit(function, 0)
        for x in arguments:
            if is_dense(x):
                self._hooks(x, 1)
            elif not is_array(x):
                self._visit(x, 1)
        known = -1
        while self._classes or known != (known := len(self._names)):  # objects found by a name may mention more names
            while self._classes:
                self._code_of_class(self._classes.pop())
            for x in self._objects:  # visit the attributes that the code names
                self._attributes(x)
        if self._optimizers and not _OPTIONS.isdisjoint(code_names.reachable_names(self._method_names, {"forward"})):
            for group in [group for x in self._optimizers for group in x.param_groups]:
                self.options += [(group, name, value) for name, value in group.items() if name != "params"]
        for x in self._objects:
            if hasattr(x, "__dict__") and not isinstance(x, (type, types.ModuleType, local)):
                self.absent.append((vars(x), frozenset(self._names.difference(vars(x)))))
            if not isinstance(x, (type, types.ModuleType)) and not _module_of(type(x)).startswith(_PACKAGE):
                self.kinds.append((x, type(x)))
        self._random_states = list(map(_random_state, self.random))

    # Search

    def _visit(self, x: Any, depth: int) -> None:
        kind = type(x)
        if kind in _BUILTIN or id(x) in self._seen or depth > _MAX_DEPTH or len(self._seen) > _MAX_OBJECTS:
            return
        self._seen[id(x)] = x
        if isinstance(x, (*_PLAIN, *_CONTAINERS)) and _module_of(kind) not in ("builtins", "collections", "array"):
            self._visit(kind, depth + 1)  # methods of a subclass may read anything
        if isinstance(x, _PLAIN):
            return
        if is_dense(x):
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
            if _length(x) <= _MAX_OBJECTS:
                self.lists.append((x, _contents(x)))
                for item in [*iter(x.values() if isinstance(x, dict) else x)]:
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
            self._optimizers.append(x)  # an optimizer reads its options in each replay
            for parameters in (x.param_groups, *[group["params"] for group in x.param_groups]):
                self.lists.append((parameters, _contents(parameters)))
        elif hasattr(x, "__dict__") or hasattr(kind, "__slots__"):
            self._objects.append(x)
            self._methods(x, depth)

    def _hooks(self, x: Tensor, depth: int) -> None:
        for hook in hooks_of(x):  # the program compares the hooks themselves
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
        called = {code.co_name, self._member_name} if self._class_depth else {"forward"}
        self._method_names += [(name, code_names.mentioned_in(code)) for name in called]
        self._code(code, function.__globals__, depth)

    def _code(self, code: types.CodeType, names: dict[str, object], depth: int) -> None:
        if code in self._codes:
            return
        self._codes.add(code)
        self.exact |= code_names.exact_number_types(code)
        texts = list(code_names.strings_in(code.co_consts))
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

    def _methods(self, x: object, depth: int) -> None:
        self._class_depth += 1
        self._visit_methods(x, depth)
        self._class_depth -= 1

    def _visit_methods(self, x: object, depth: int) -> None:
        for base in type(x).__mro__:
            if not _module_of(base).startswith(_PACKAGE) and base is not object:
                for self._member_name, member in vars(base).items():
                    if self._member_name == "__init__":
                        continue
                    for found in code_names.functions_in(member):
                        self._visit(found, depth + 1)

    def _code_of_class(self, kind: type) -> None:
        """Visit the code that may run if a class is named: methods of the class and of its metaclass."""
        self._class_depth += 1
        for base in (*kind.__mro__, *type.mro(type(kind))):
            where = _module_of(base)
            if where.startswith((_PACKAGE, "numpy.")) or where in ("builtins", "numpy", "typing"):
                continue
            self._names.update(vars(base).get("__match_args__", ()))
            for self._member_name, member in list(vars(base).items()):
                for found in code_names.functions_in(member):
                    if not code_names.is_stdlib(found.__code__.co_filename):
                        self._visit(found, 3)
        self._class_depth -= 1

    def _module(self, module: object, depth: int) -> None:
        """Visit a module: parameters and buffers by identity, plain attributes, children.

        A list or dict counts only if the code names it, because some programs collect results of steps there.
        """
        fields = vars(module)
        if id(global_hooks) not in self._seen:  # hooks of all modules
            self._seen[id(global_hooks)] = global_hooks
            for hooks in (*global_hooks.at_calls, global_hooks.listeners):
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

    def _attributes(self, x: object) -> None:
        if isinstance(x, type) or not isinstance(x, types.ModuleType):
            self._class(x if isinstance(x, type) else type(x), x)
            if not self._names.isdisjoint(("type", "__class__")):
                self._visit(type(x), 3)  # type(x)() creates another object
        if isinstance(x, type) or not hasattr(x, "__dict__"):
            return
        fields = vars(x)
        if hasattr(type(x), "__getattr__") and "_modules" not in fields and id(fields) not in self._seen:
            self._seen[id(fields)] = fields  # __getattr__ may read any attribute
            self.lists.append((fields, _contents(fields)))
        plain = "_modules" not in fields and not isinstance(x, (type, types.ModuleType))
        if plain and id(fields) not in self._seen and not self._names.isdisjoint(("vars", "__dict__")):
            self._seen[id(fields)] = fields
            self.lists.append((fields, _contents(fields)))
        for name in sorted(self._names.intersection(fields)):
            value = fields[name]
            if isinstance(x, types.ModuleType) and x.__name__.startswith(("retrograd", "numpy")):
                continue
            # A ``threading.local`` has other attributes on each thread.
            place = Attribute(x, name) if isinstance(x, local) else Place(fields, name)
            self.places.setdefault(place.identity, (place, value))
            self._visit(value, 3)

    def _class(self, kind: type, x: object) -> None:
        """Visit attributes of the class by name, and an object's slots."""
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

    # Comparison

    @property
    def numbers(self) -> Iterator[Place]:
        """The places that hold numbers."""
        for place, value in self.places.values():
            if type(value) in (int, float):
                yield place

    @property
    def large_arrays(self) -> Iterator[Place]:
        """The places of arrays that are too large to compare; programs read them in each call."""
        for place, value in self.places.values():
            if type(value) is np.ndarray and value.nbytes > _MAX_COMPARED_BYTES and not value.dtype.hasobject:
                yield place

    @property
    def iterators(self) -> Iterator[Place]:
        """The places of generators and other iterators, whose state cannot be compared."""
        for place, value in self.places.values():
            if is_iterator(value):
                yield place

    def changed(self) -> str:
        """Describe the first change; empty if there is none."""
        for place, value in self.places.values():
            if not _is_unchanged(place.value, value):
                what = "a variable of an enclosing function" if place.key is None else f"{place.key!r}"
                return f"{what} is {_describe(place.value)}, it was {_describe(value)}"
        for x, contents in self.lists:
            if _contents(x) != contents:
                return f"a {type(x).__name__} has other contents"
        for fields, names in self.absent:
            for name in names.intersection(fields):
                return f"the attribute {name!r} is new"
        for group, name, before in self.options:
            if not _is_unchanged(group.get(name), before):
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

    def random_draws(self) -> str:
        """Describe random draws outside of Retrograd since the start; empty if there are none."""
        for x, before in zip(self.random, self._random_states, strict=True):
            if not _same_state(_random_state(x), before):
                name = getattr(x, "__name__", f"a {type(x).__name__}")
                return f"it draws random numbers from {name}, which a replay does not; it does repeat Retrograd's draws"
        return ""

    def describe(self, free: set[tuple[int, Any]]) -> list[str]:
        """List the names that are compared, with the number of their places."""
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

    def check(self, free: set[tuple[int, Any]], taken: set[int], constants: dict[str, object]) -> list[str]:
        """Return expressions that are true while nothing has changed, and add the objects they name to ``constants``.

        The values of the places ``free``, and the elements of arrays with ids in ``taken``, are not compared.
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
            if identity in free:  # the value is an input: only its type must be equal
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
        constants.update(alike=_is_unchanged, contents=_contents, same_elements=_same_elements, missing=MISSING)
        return lines


def _module_of(kind: type) -> str:
    """Return the module of a class; a class made by ``exec`` may have none, or that of the built-in types."""
    where = str(getattr(kind, "__module__", ""))
    return "" if where == "builtins" and kind.__flags__ >> 9 & 1 else where  # bit 9: a heap type, no built-in one


def is_iterator(x: object) -> bool:
    """Return whether ``x`` is an iterator of Python itself: a generator, ``count()``, ``iter(a_list)``."""
    return hasattr(type(x), "__next__") and _module_of(type(x)) in ("builtins", "itertools")


_RANDOM = (random.Random, np.random.Generator, np.random.RandomState, np.random.BitGenerator)


def _random_state(x: Any) -> Any:
    if isinstance(x, np.random.Generator):
        return x.bit_generator.state
    if isinstance(x, np.random.BitGenerator):
        return x.state
    return x.getstate() if x is random or isinstance(x, random.Random) else x.get_state()


def _same_state(x: object, y: Any) -> bool:
    if isinstance(x, dict):
        return x.keys() == y.keys() and all(_same_state(x[key], y[key]) for key in x)
    if isinstance(x, np.ndarray):
        return np.array_equal(x, y)
    return all(map(_same_state, x, y)) if isinstance(x, tuple) else bool(x == y)


def _is_unchanged(now: object, before: object) -> bool:
    return now is before or isinstance(before, _PLAIN) and type(now) is type(before) and same_number(now, before)


def _length(x: Collection[object]) -> int:
    """Return the number of items of a container, even if its class refuses ``len``, as e3nn's Irrep does."""
    try:
        return len(x)
    except Exception:
        return sum(1 for _ in x)


def _contents(x: Any) -> Any:
    """Return the state of a container to compare: plain values, and the ids of other objects."""
    try:
        if not x:
            return ()
    except Exception:  # a class that refuses ``len``
        pass
    if isinstance(x, (set, frozenset)):
        return frozenset(map(_comparison_key, x))
    if isinstance(x, dict):
        return tuple(x), tuple(map(_comparison_key, x.values()))
    return tuple(map(_comparison_key, x))


def _comparison_key(value: object) -> object:
    """Return a key that is equal for equal plain values of one type and sign, or for the same object."""
    kind = type(value)
    if kind is str or kind is int or value is None:
        return value
    if isinstance(value, _PLAIN):
        return kind, repr(value) if kind is complex else value or repr(value)
    return id(value)


def _contents_check(name: str, x: Any, contents: Any, named: Callable[[Any], str]) -> str:
    """Return the condition that the contents of the container ``name`` are unchanged, if possible without a call."""
    items = contents[1] if isinstance(x, dict) else contents
    values = [*iter(x.values() if isinstance(x, dict) else x)]
    if type(x) not in (dict, list, tuple) or any(isinstance(value, _PLAIN) for value in values):
        return f"contents({name}) == {named(contents)}"
    if type(x) is dict:
        keys, ids = named(list(contents[0])), named(list(items))
        return f"list({name}) == {keys} and list(map(id, {name}.values())) == {ids}"
    return f"list(map(id, {name})) == {named(list(items))}"


def _elements(array: Any) -> Any:
    """Return the state of an array to compare: a copy, a checksum of a large array, or None on a GPU."""
    if type(array) is not np.ndarray:
        return None
    if array.nbytes <= _MAX_COMPARED_BYTES or array.dtype.hasobject:
        return array.copy()
    return array.shape, array.dtype, crc32(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)


def _same_elements(array: Any, before: Any) -> bool:
    if type(before) is tuple:
        return bool(_elements(array) == before)
    return array.shape == before.shape and array.dtype == before.dtype and array.tobytes() == before.tobytes()


def _describe(value: object) -> str:
    return repr(value) if isinstance(value, _PLAIN) else f"a {type(value).__name__}"
