"""Nests: tuples, lists, dicts, named tuples and dataclasses of Tensors (JAX: pytrees), flattened and rebuilt.

``flatten`` returns the leaves in order and the ``Structure`` of the nest, with the path of each leaf as Python
code would write it (``['layer.0']['weight']``). ``None`` is an empty container. Values of unregistered types are
leaves, subclasses of dict and list included, since their constructors are unknown.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

Parts = tuple[Sequence[tuple[str, object]], Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """How to flatten and rebuild containers of one type.

    ``parts`` returns pairs of a path (``"[0]"``, ``".name"``) and a child, and the context that ``make`` needs in
    addition to the children.
    """

    parts: Callable[[Any], Parts]
    make: Callable[[Any, list[object]], object]


def _items(nest: Iterable[object]) -> list[tuple[str, object]]:
    return [(f"[{index}]", child) for index, child in enumerate(nest)]


def _entries(nest: Mapping[object, object]) -> list[tuple[str, object]]:
    return [(f"[{key!r}]", child) for key, child in nest.items()]


def _dict(make: Callable[[Any, Iterable[tuple[object, object]]], object], extra: Callable[[Any], object]) -> Kind:
    def parts(nest: Any) -> Parts:
        return _entries(nest), (extra(nest), tuple(nest))

    return Kind(parts, lambda context, children: make(context[0], zip(context[1], children, strict=True)))


def _rebuild_dataclass(kind: type, children: list[object]) -> Any:
    """Return a dataclass with these fields. ``__init__`` and ``__post_init__``, which may check values, do not run."""
    nest: Any = object.__new__(kind)
    for field, child in zip(fields(kind), children, strict=True):
        object.__setattr__(nest, field.name, child)
    return nest


def _named(nest: Any) -> Parts:
    return [(f".{name}", child) for name, child in zip(nest._fields, nest, strict=True)], type(nest)


def _fields(nest: Any) -> Parts:
    return [(f".{field.name}", getattr(nest, field.name)) for field in fields(nest)], type(nest)


_NAMED_TUPLE = Kind(_named, lambda kind, children: kind(*children))
_DATACLASS = Kind(_fields, _rebuild_dataclass)
_KINDS: dict[type, Kind] = {
    tuple: Kind(lambda nest: (_items(nest), None), lambda _, children: tuple(children)),
    list: Kind(lambda nest: (_items(nest), None), lambda _, children: children),
    deque: Kind(lambda nest: (_items(nest), nest.maxlen), lambda length, children: deque(children, length)),
    dict: _dict(lambda _, entries: dict(entries), lambda nest: None),
    OrderedDict: _dict(lambda _, entries: OrderedDict(entries), lambda nest: None),
    defaultdict: _dict(defaultdict, lambda nest: nest.default_factory),
    type(None): Kind(lambda nest: ((), None), lambda _, children: None),
}


def register(
    kind: type, parts: Callable[[Any], tuple[Sequence[object], object]], make: Callable[[Any, list[Any]], object]
) -> None:
    """Register a class whose instances are containers in nests.

    Args:
        kind: the class; subclasses are not registered.
        parts: takes an instance and returns its children and a context.
        make: takes the context and new children and returns an instance.

    Raises:
        ValueError: the class is registered already.

    >>> from retrograd.func import nests
    >>> class Pair:
    ...     def __init__(self, a, b):
    ...         self.a, self.b = a, b
    >>> nests.register(Pair, lambda pair: ((pair.a, pair.b), None), lambda _, children: Pair(*children))
    >>> nests.flatten({"pair": Pair(1, 2)})[1].paths("x")
    ["x['pair'][0]", "x['pair'][1]"]
    """
    if kind in _KINDS:
        raise ValueError(f"register: {kind.__name__} is registered already")

    def pairs(nest: object) -> Parts:
        children, context = parts(nest)
        return _items(children), context

    _KINDS[kind] = Kind(pairs, make)


def kind_of(nest: object) -> Kind | None:
    """Return the Kind of a container, None for a leaf."""
    kind = _KINDS.get(type(nest))
    if kind is None:
        if isinstance(nest, tuple) and hasattr(nest, "_fields"):
            return _NAMED_TUPLE
        if is_dataclass(nest) and not isinstance(nest, type):
            return _DATACLASS
    return kind


@dataclass(frozen=True, slots=True)
class Structure:
    """A nest without its leaves; equal for nests with the same containers, keys and lengths.

    ``type`` is None for a leaf; ``context`` is the context that the Kind's ``make`` takes.
    """

    type: type | None
    steps: tuple[str, ...] = ()
    children: tuple[Structure, ...] = ()
    context: Any = None

    def __repr__(self) -> str:
        if self.type is None:
            return "*"
        inside = ", ".join(f"{step}: {child!r}" for step, child in zip(self.steps, self.children, strict=True))
        return f"{self.type.__name__}({inside})"

    @property
    def size(self) -> int:
        """Return the number of leaves."""
        return 1 if self.type is None else sum(child.size for child in self.children)

    def paths(self, root: str = "") -> list[str]:
        """Return the path of each leaf, in order, each prefixed with ``root``."""
        if self.type is None:
            return [root]
        return [
            path
            for step, child in zip(self.steps, self.children, strict=True)
            for path in child.paths(root + step)
        ]  # fmt: skip

    def unflatten(self, leaves: Iterable[object]) -> Any:
        """Return a nest of this structure with the given leaves."""
        remaining = iter(leaves)
        nest = self._rebuild(remaining)
        if next(remaining, remaining) is not remaining:
            raise ValueError(f"unflatten: more leaves than the {self.size} of {self!r}")
        return nest

    def _rebuild(self, leaves: Iterator[object]) -> object:
        if self.type is None:
            for leaf in leaves:
                return leaf
            raise ValueError("unflatten: fewer leaves than the structure has")
        children = [child._rebuild(leaves) for child in self.children]
        kind = _KINDS.get(self.type) or (_NAMED_TUPLE if issubclass(self.type, tuple) else _DATACLASS)
        return kind.make(self.context, children)

    def leaves_of(self, nest: object, root: str = "") -> list[Any]:
        """Return the parts of a nest at the positions of this structure's leaves. The order of dict keys is free.

        Raises:
            Mismatch: the nest differs in containers, keys or lengths; the message begins with the path.
        """
        if self.type is None:
            return [nest]
        if type(nest) is not self.type:
            wanted = "None" if self.type is type(None) else f"a {self.type.__name__}"
            raise Mismatch(f"{root}: expected {wanted}, got {type(nest).__name__}")
        kind = kind_of(nest)
        assert kind is not None
        given = dict(kind.parts(nest)[0])
        if len(given) != len(self.steps) and self.type in (tuple, list):
            raise Mismatch(f"{root}: expected {len(self.steps)} elements, got {len(given)}")
        if given.keys() != set(self.steps):
            only = sorted(set(self.steps) - given.keys()) or sorted(given.keys() - set(self.steps))
            verb = "is missing" if only[0] in self.steps else "was not expected"
            raise Mismatch(f"{root}{only[0]} {verb}")
        return [
            leaf
            for step, child in zip(self.steps, self.children, strict=True)
            for leaf in child.leaves_of(given[step], root + step)
        ]  # fmt: skip


class Mismatch(ValueError):
    """Two nests have different structures."""


LEAF = Structure(None)


def flatten(nest: object, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Structure]:
    """Return the leaves of a nest in order, and its structure.

    Args:
        nest: nested containers, or one leaf.
        is_leaf: returns True for values to treat as leaves whatever their type.

    >>> from retrograd.func import nests
    >>> leaves, structure = nests.flatten({"a": (1, 2), "b": None})
    >>> leaves
    [1, 2]
    >>> structure.unflatten("xy")
    {'a': ('x', 'y'), 'b': None}
    """
    leaves: list[Any] = []
    return leaves, _structure(nest, is_leaf, leaves)


def _structure(part: object, is_leaf: Callable[[Any], bool] | None, leaves: list[object]) -> Structure:
    kind = None if is_leaf is not None and is_leaf(part) else kind_of(part)
    if kind is None:
        leaves.append(part)
        return LEAF
    pairs, context = kind.parts(part)
    children = tuple([_structure(child, is_leaf, leaves) for _, child in pairs])
    return Structure(type(part), tuple([step for step, _ in pairs]), children, context)


def mapped(function: Callable[[Any], object], nest: object, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """Return the nest with the function applied to every leaf.

    >>> from retrograd.func import nests
    >>> nests.mapped(str, [1, {"a": 2}])
    ['1', {'a': '2'}]
    """
    leaves, structure = flatten(nest, is_leaf)
    return structure.unflatten([function(leaf) for leaf in leaves])
