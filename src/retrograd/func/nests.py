"""Nests: tuples, lists, dicts, named tuples and dataclasses of Tensors, taken apart into leaves and put together again.

``flatten`` gives the leaves in order and the ``Structure`` they came from, which knows the path of each leaf as a
program would write it (``['layer.0']['weight']``). Containers may hold containers; ``None`` is one that holds nothing;
whatever is of no registered kind is a leaf. A subclass of a dict or list is a leaf, since nobody knows how to make it.
"""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

Parts = tuple[Sequence[tuple[str, Any]], Any]


@dataclass(frozen=True, slots=True)
class Kind:
    """How containers of one type are taken apart and made.

    ``parts`` gives pairs of a path (``"[0]"``, ``".name"``) and a child, and what else ``make`` needs besides children.
    """

    parts: Callable[[Any], Parts]
    make: Callable[[Any, list[Any]], Any]


def _items(nest: Any) -> list[tuple[str, Any]]:
    return [(f"[{index}]", child) for index, child in enumerate(nest)]


def _entries(nest: Any) -> list[tuple[str, Any]]:
    return [(f"[{key!r}]", child) for key, child in nest.items()]


def _dict(make: Callable[[Any, Iterable[tuple[Any, Any]]], Any], extra: Callable[[Any], Any]) -> Kind:
    def parts(nest: Any) -> Parts:
        return _entries(nest), (extra(nest), tuple(nest))

    return Kind(parts, lambda context, children: make(context[0], zip(context[1], children, strict=True)))


def _made_of_fields(kind: type, children: list[Any]) -> Any:
    """A dataclass with these fields; neither its ``__init__`` nor ``__post_init__``, which may check values, is run."""
    nest: Any = object.__new__(kind)
    for field, child in zip(fields(kind), children, strict=True):
        object.__setattr__(nest, field.name, child)
    return nest


def _named(nest: Any) -> Parts:
    return [(f".{name}", child) for name, child in zip(nest._fields, nest, strict=True)], type(nest)


def _fields(nest: Any) -> Parts:
    return [(f".{field.name}", getattr(nest, field.name)) for field in fields(nest)], type(nest)


_NAMED_TUPLE = Kind(_named, lambda kind, children: kind(*children))
_DATACLASS = Kind(_fields, _made_of_fields)
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
    kind: type, parts: Callable[[Any], tuple[Sequence[Any], Any]], make: Callable[[Any, list[Any]], Any]
) -> None:
    """Let instances of a class be containers of nests.

    Args:
        kind: the class; its subclasses are not meant.
        parts: an instance to its children, and to whatever else ``make`` needs.
        make: the latter and new children to an instance.

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
    """How a value is taken apart, None for a leaf."""
    kind = _KINDS.get(type(nest))
    if kind is None:
        if isinstance(nest, tuple) and hasattr(nest, "_fields"):
            return _NAMED_TUPLE
        if is_dataclass(nest) and not isinstance(nest, type):
            return _DATACLASS
    return kind


@dataclass(frozen=True, slots=True)
class Structure:
    """What remains of a nest without its leaves; equal for nests of the same containers, keys and lengths.

    ``type`` is None for a leaf; ``context`` is what its kind needs to make an instance again.
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
        """The number of leaves."""
        return 1 if self.type is None else sum(child.size for child in self.children)

    def paths(self, root: str = "") -> list[str]:
        """The path of each leaf, in order, after ``root``."""
        if self.type is None:
            return [root]
        return [
            path
            for step, child in zip(self.steps, self.children, strict=True)
            for path in child.paths(root + step)
        ]  # fmt: skip

    def unflatten(self, leaves: Iterable[Any]) -> Any:
        """A nest of this structure with the given leaves."""
        remaining = iter(leaves)
        nest = self._made(remaining)
        if next(remaining, remaining) is not remaining:
            raise ValueError(f"unflatten: more leaves than the {self.size} of {self!r}")
        return nest

    def _made(self, leaves: Iterator[Any]) -> Any:
        if self.type is None:
            for leaf in leaves:
                return leaf
            raise ValueError("unflatten: fewer leaves than the structure has")
        children = [child._made(leaves) for child in self.children]
        kind = _KINDS.get(self.type) or (_NAMED_TUPLE if issubclass(self.type, tuple) else _DATACLASS)
        return kind.make(self.context, children)

    def leaves_of(self, nest: object, root: str = "") -> list[Any]:
        """The parts of a nest at the places of this structure's leaves; dicts may name their keys in any order.

        Raises:
            Mismatch: the nest has other containers, keys or lengths; the message begins with the path.
        """
        if self.type is None:
            return [nest]
        if type(nest) is not self.type:
            wanted = "None" if self.type is type(None) else f"a {self.type.__name__}"
            raise Mismatch(f"{root}: wanted {wanted}, got {type(nest).__name__}")
        kind = kind_of(nest)
        assert kind is not None
        given = dict(kind.parts(nest)[0])
        if len(given) != len(self.steps) and self.type in (tuple, list):
            raise Mismatch(f"{root} has {len(given)} parts instead of {len(self.steps)}")
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
    """Two nests are not of one structure."""


LEAF = Structure(None)


def flatten(nest: object, is_leaf: Callable[[Any], bool] | None = None) -> tuple[list[Any], Structure]:
    """The leaves of a nest in order, and its structure.

    Args:
        nest: containers of containers of leaves, or one leaf.
        is_leaf: says of a part that it is a leaf, whatever its type.

    >>> from retrograd.func import nests
    >>> leaves, structure = nests.flatten({"a": (1, 2), "b": None})
    >>> leaves
    [1, 2]
    >>> structure.unflatten("xy")
    {'a': ('x', 'y'), 'b': None}
    """
    leaves: list[Any] = []
    return leaves, _structure(nest, is_leaf, leaves)


def _structure(part: object, is_leaf: Callable[[Any], bool] | None, leaves: list[Any]) -> Structure:
    kind = None if is_leaf is not None and is_leaf(part) else kind_of(part)
    if kind is None:
        leaves.append(part)
        return LEAF
    pairs, context = kind.parts(part)
    children = tuple([_structure(child, is_leaf, leaves) for _, child in pairs])
    return Structure(type(part), tuple([step for step, _ in pairs]), children, context)


def mapped(function: Callable[[Any], Any], nest: object, is_leaf: Callable[[Any], bool] | None = None) -> Any:
    """The nest with every leaf replaced by the function's value.

    >>> from retrograd.func import nests
    >>> nests.mapped(str, [1, {"a": 2}])
    ['1', {'a': '2'}]
    """
    leaves, structure = flatten(nest, is_leaf)
    return structure.unflatten([function(leaf) for leaf in leaves])
