"""``utils._pytree``: nested containers as PyTorch flattens them, which packages register their own classes for.

It differs from ``func.nests``, which serves Retrograd's transforms: None and dataclasses are leaves here. A class that
a program registers here is also registered in ``func.nests``.
"""

from __future__ import annotations

import json
from collections import OrderedDict, defaultdict, deque, namedtuple
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from operator import attrgetter
from types import FunctionType
from typing import NamedTuple, NoReturn

from ....core.tensor.tensor import Size
from ....func import nests

Context = object
PyTree = object
KeyEntry = object
KeyPath = tuple[object, ...]
Children = list[object]
IsLeaf = Callable[[object], bool] | None
Flatten = Callable[..., tuple[Children, Context]]
Unflatten = Callable[[Iterable[object], Context], object]
FlattenWithKeys = Callable[..., tuple[list[tuple[KeyEntry, object]], Context]]


@dataclass(frozen=True)
class SequenceKey:
    """The position of a child in a sequence."""

    idx: int

    def __str__(self) -> str:
        return f"[{self.idx!r}]"

    def get(self, sequence: list[object]) -> object:
        """Return the child."""
        return sequence[self.idx]


@dataclass(frozen=True)
class MappingKey:
    """The key of a child in a mapping."""

    key: object

    def __str__(self) -> str:
        return f"[{self.key!r}]"

    def get(self, mapping: Mapping[object, object]) -> object:
        """Return the child."""
        return mapping[self.key]


@dataclass(frozen=True)
class GetAttrKey:
    """The attribute that holds a child."""

    name: str

    def __str__(self) -> str:
        return f".{self.name}"

    def get(self, obj: object) -> object:
        """Return the child."""
        return getattr(obj, self.name)


class NodeDef(NamedTuple):
    """The functions that flatten and rebuild containers of a class, and write their context as JSON."""

    type: object
    flatten_fn: Flatten
    unflatten_fn: Unflatten
    flatten_with_keys_fn: FlattenWithKeys | None = None
    serialized_type_name: str | None = None
    to_dumpable_context: Callable[[Context], object] | None = None
    from_dumpable_context: Callable[[object], Context] | None = None


def _list_flatten(d: list[object]) -> tuple[Children, Context]:
    return list(d), None


def _list_flatten_with_keys(d: list[object]) -> tuple[list[tuple[KeyEntry, object]], Context]:
    return [(SequenceKey(i), child) for i, child in enumerate(d)], None


def _list_unflatten(values: Iterable[object], context: Context) -> list[object]:
    return list(values)


def _tuple_unflatten(values: Iterable[object], context: Context) -> tuple[object, ...]:
    return tuple(values)


def _namedtuple_flatten(d: tuple[object, ...]) -> tuple[Children, Context]:
    return list(d), type(d)


def _names(d: tuple[object, ...]) -> tuple[str, ...]:
    return attrgetter("_fields")(d)


def _namedtuple_flatten_with_keys(d: tuple[object, ...]) -> tuple[list[tuple[KeyEntry, object]], Context]:
    return [(GetAttrKey(name), child) for name, child in zip(_names(d), d)], type(d)


def _namedtuple_unflatten(values: Iterable[object], context: Context) -> object:
    assert isinstance(context, type)
    return context(*values)


def _dict_flatten(d: Mapping[object, object]) -> tuple[Children, Context]:
    return list(d.values()), list(d.keys())


def _dict_flatten_with_keys(d: Mapping[object, object]) -> tuple[list[tuple[KeyEntry, object]], Context]:
    return [(MappingKey(key), child) for key, child in d.items()], list(d.keys())


def _keys(context: Context) -> list[object]:
    assert isinstance(context, list)
    return context


def _dict_unflatten(values: Iterable[object], context: Context) -> dict[object, object]:
    return dict(zip(_keys(context), values, strict=True))


def _ordereddict_unflatten(values: Iterable[object], context: Context) -> OrderedDict[object, object]:
    return OrderedDict(zip(_keys(context), values, strict=True))


def _defaultdict_flatten(d: defaultdict[object, object]) -> tuple[Children, Context]:
    return list(d.values()), [d.default_factory, list(d.keys())]


def _defaultdict_unflatten(values: Iterable[object], context: Context) -> defaultdict[object, object]:
    factory, keys = _keys(context)
    assert factory is None or callable(factory)
    return defaultdict(factory, _dict_unflatten(values, keys))


def _deque_flatten(d: deque[object]) -> tuple[Children, Context]:
    return list(d), d.maxlen


def _deque_unflatten(values: Iterable[object], context: Context) -> deque[object]:
    assert context is None or isinstance(context, int)
    return deque(values, maxlen=context)


SUPPORTED_NODES: dict[object, NodeDef] = {
    node.type: node
    for node in (
        NodeDef(tuple, _list_flatten, _tuple_unflatten, _list_flatten_with_keys, "builtins.tuple"),
        NodeDef(list, _list_flatten, _list_unflatten, _list_flatten_with_keys, "builtins.list"),
        NodeDef(dict, _dict_flatten, _dict_unflatten, _dict_flatten_with_keys, "builtins.dict"),
        NodeDef(namedtuple, _namedtuple_flatten, _namedtuple_unflatten, _namedtuple_flatten_with_keys),
        NodeDef(OrderedDict, _dict_flatten, _ordereddict_unflatten, _dict_flatten_with_keys, "collections.OrderedDict"),
        NodeDef(defaultdict, _defaultdict_flatten, _defaultdict_unflatten),
        NodeDef(deque, _deque_flatten, _deque_unflatten, _list_flatten_with_keys, "collections.deque"),
        # A Size becomes a tuple, whose leaves need not be integers, as in PyTorch.
        NodeDef(Size, _list_flatten, _tuple_unflatten, _list_flatten_with_keys),
    )
}
BUILTIN_TYPES = frozenset(SUPPORTED_NODES)


def is_namedtuple_instance(obj: object) -> bool:
    """Return whether the object is a named tuple."""
    return isinstance(obj, tuple) and isinstance(getattr(obj, "_fields", None), tuple)


def is_structseq_instance(obj: object) -> bool:
    """Return False: results of operators are named tuples here."""
    return False


def _get_node_type(tree: object) -> object:
    kind = type(tree)
    return namedtuple if kind not in SUPPORTED_NODES and is_namedtuple_instance(tree) else kind


def tree_is_leaf(tree: object, is_leaf: IsLeaf = None) -> bool:
    """Return whether an object is a leaf: not a registered container."""
    return is_leaf is not None and is_leaf(tree) or _get_node_type(tree) not in SUPPORTED_NODES


_is_leaf = tree_is_leaf


@dataclass(frozen=True)
class TreeSpec:
    """A tree without its leaves. ``type`` is None for a leaf."""

    type: object
    context: Context = None
    children_specs: list[TreeSpec] = field(default_factory=list)

    @property
    def num_leaves(self) -> int:
        """The number of leaves."""
        return 1 if self.is_leaf() else sum(child.num_leaves for child in self.children_specs)

    @property
    def num_children(self) -> int:
        """The number of children."""
        return len(self.children_specs)

    @property
    def num_nodes(self) -> int:
        """The number of containers and leaves."""
        return 1 + sum(child.num_nodes for child in self.children_specs)

    def children(self) -> list[TreeSpec]:
        """Return the structures of the children."""
        return list(self.children_specs)

    def child(self, index: int) -> TreeSpec:
        """Return the structure of a child."""
        return self.children_specs[index]

    def is_leaf(self) -> bool:
        """Return whether the structure is that of a leaf."""
        return self.type is None

    def unflatten(self, leaves: Iterable[object]) -> PyTree:
        """Return a tree of this structure."""
        values = list(leaves)
        if len(values) != self.num_leaves:
            raise ValueError(
                f"treespec.unflatten(leaves): `leaves` has length {len(values)} but the spec refers to a pytree that "
                f"holds {self.num_leaves} items ({self})."
            )
        return self._rebuild(iter(values))

    def _rebuild(self, leaves: Iterator[object]) -> PyTree:
        if self.is_leaf():
            return next(leaves)
        children = [child._rebuild(leaves) for child in self.children_specs]
        return SUPPORTED_NODES[self.type].unflatten_fn(children, self.context)

    def flatten_up_to(self, tree: PyTree) -> list[object]:
        """Return the parts of a tree at the positions of this structure's leaves.

        Raises:
            ValueError: the tree has another structure.
        """
        if self.is_leaf():
            return [tree]
        kind = _get_node_type(tree)
        if kind != self.type:
            raise ValueError(f"Node type mismatch; expected {self.type!r}, but got {kind!r}.")
        children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
        if len(children) != len(self.children_specs):
            raise ValueError(f"Node arity mismatch; expected {len(self.children_specs)}, but got {len(children)}.")
        if context != self.context and kind in (dict, OrderedDict):
            if set(_keys(context)) != set(_keys(self.context)):
                raise ValueError(f"Node keys mismatch; expected {self.context}, but got {context}.")
            assert isinstance(tree, dict)
            children = [tree[key] for key in _keys(self.context)]
        elif context != self.context:
            raise ValueError(f"Node context mismatch for custom node type {kind!r}.")
        return [leaf for child, spec in zip(children, self.children_specs) for leaf in spec.flatten_up_to(child)]

    def __repr__(self) -> str:
        if self.is_leaf():
            return "*"
        children = ",\n".join(map(repr, self.children_specs)).replace("\n", "\n  ")
        return f"TreeSpec({getattr(self.type, '__name__', self.type)}, {self.context}, [{children}])"


_LEAF_SPEC = TreeSpec(None)


class _LeafSpecType(type):
    def __call__(cls) -> TreeSpec:
        return _LEAF_SPEC

    def __instancecheck__(cls, spec: object) -> bool:
        return isinstance(spec, TreeSpec) and spec.is_leaf()


class LeafSpec(metaclass=_LeafSpecType):
    """The structure of a leaf."""


def _flatten(tree: PyTree, is_leaf: IsLeaf, leaves: list[object]) -> TreeSpec:
    if tree_is_leaf(tree, is_leaf):
        leaves.append(tree)
        return _LEAF_SPEC
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    return TreeSpec(kind, context, [_flatten(child, is_leaf, leaves) for child in children])


def tree_flatten(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[object], TreeSpec]:
    """Return the leaves of a tree, and the structure that ``tree_unflatten`` needs."""
    leaves: list[object] = []
    return leaves, _flatten(tree, is_leaf, leaves)


def tree_unflatten(leaves: Iterable[object], treespec: TreeSpec) -> PyTree:
    """Return a tree of the given structure with other leaves."""
    return treespec.unflatten(leaves)


def tree_iter(tree: PyTree, is_leaf: IsLeaf = None) -> Iterator[object]:
    """Iterate over the leaves of a tree."""
    return iter(tree_leaves(tree, is_leaf))


def tree_leaves(tree: PyTree, is_leaf: IsLeaf = None) -> list[object]:
    """Return the leaves of a tree, in order."""
    return tree_flatten(tree, is_leaf)[0]


def arg_tree_leaves(*args: PyTree, **kwargs: PyTree) -> list[object]:
    """Return the leaves of all arguments."""
    return [leaf for tree in (*args, *kwargs.values()) for leaf in tree_leaves(tree)]


def tree_structure(tree: PyTree, is_leaf: IsLeaf = None) -> TreeSpec:
    """Return the structure of a tree."""
    return tree_flatten(tree, is_leaf)[1]


def tree_map(func: Callable[..., object], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Apply a function to every leaf, and to the leaves of further trees of the same structure."""
    leaves, spec = tree_flatten(tree, is_leaf)
    return spec.unflatten(map(func, leaves, *[spec.flatten_up_to(rest) for rest in rests]))


def tree_map_(func: Callable[..., object], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Call a function with every leaf, and return the tree itself."""
    tree_map(func, tree, *rests, is_leaf=is_leaf)
    return tree


Condition = type | tuple[type, ...] | Callable[[object], bool]


def _holds(condition: Condition) -> Callable[[object], bool]:
    if isinstance(condition, (type, tuple)):
        return lambda leaf: isinstance(leaf, condition)
    return condition


def map_only(type_or_types_or_pred: Condition, /) -> Callable[[Callable[[object], object]], Callable[[object], object]]:
    """Return a decorator: the decorated function returns leaves of other types unchanged."""
    holds = _holds(type_or_types_or_pred)
    return lambda func: lambda leaf: func(leaf) if holds(leaf) else leaf


def tree_map_only(
    type_or_types_or_pred: Condition, /, func: Callable[[object], object], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Apply a function to the leaves of some types, and leave others unchanged."""
    return tree_map(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_map_only_(
    type_or_types_or_pred: Condition, /, func: Callable[[object], object], tree: PyTree, is_leaf: IsLeaf = None
) -> PyTree:
    """Call a function with the leaves of some types, and return the tree itself."""
    return tree_map_(map_only(type_or_types_or_pred)(func), tree, is_leaf=is_leaf)


def tree_all(pred: Callable[[object], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Return whether the predicate is true for every leaf."""
    return all(map(pred, tree_leaves(tree, is_leaf)))


def tree_any(pred: Callable[[object], bool], tree: PyTree, is_leaf: IsLeaf = None) -> bool:
    """Return whether the predicate is true for any leaf."""
    return any(map(pred, tree_leaves(tree, is_leaf)))


def tree_all_only(
    type_or_types: Condition, /, pred: Callable[[object], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Return whether the predicate is true for every leaf of some types."""
    return all(map(pred, filter(_holds(type_or_types), tree_leaves(tree, is_leaf))))


def tree_any_only(
    type_or_types: Condition, /, pred: Callable[[object], bool], tree: PyTree, is_leaf: IsLeaf = None
) -> bool:
    """Return whether the predicate is true for any leaf of some types."""
    return any(map(pred, filter(_holds(type_or_types), tree_leaves(tree, is_leaf))))


def _broadcast_to_and_flatten(tree: PyTree, treespec: TreeSpec, is_leaf: IsLeaf = None) -> list[object] | None:
    """Return the leaves of a tree, repeated for the subtrees at their positions; None if the trees differ."""
    if tree_is_leaf(tree, is_leaf):
        return [tree] * treespec.num_leaves
    kind = _get_node_type(tree)
    children, context = SUPPORTED_NODES[kind].flatten_fn(tree)
    if (kind, context, len(children)) != (treespec.type, treespec.context, treespec.num_children):
        return None
    parts = [_broadcast_to_and_flatten(*pair, is_leaf) for pair in zip(children, treespec.children_specs)]
    return None if None in parts else [leaf for part in parts for leaf in part or ()]


# Paths to leaves


def _with_paths(tree: PyTree, is_leaf: IsLeaf, path: KeyPath) -> Iterator[tuple[KeyPath, object]]:
    if tree_is_leaf(tree, is_leaf):
        yield path, tree
        return
    kind = _get_node_type(tree)
    keyed = SUPPORTED_NODES[kind].flatten_with_keys_fn
    if keyed is not None:
        pairs = keyed(tree)[0]
    else:
        keys: Iterable[KeyEntry] = (
            map(MappingKey, tree) if isinstance(tree, Mapping) else map(SequenceKey, range(2**62))
        )
        pairs = list(zip(keys, SUPPORTED_NODES[kind].flatten_fn(tree)[0]))
    for key, child in pairs:
        yield from _with_paths(child, is_leaf, (*path, key))


def tree_leaves_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> list[tuple[KeyPath, object]]:
    """Return pairs of a path and a leaf."""
    return list(_with_paths(tree, is_leaf, ()))


def tree_flatten_with_path(tree: PyTree, is_leaf: IsLeaf = None) -> tuple[list[tuple[KeyPath, object]], TreeSpec]:
    """Return pairs of a path and a leaf, and the structure."""
    return tree_leaves_with_path(tree, is_leaf), tree_structure(tree, is_leaf)


def tree_map_with_path(func: Callable[..., object], tree: PyTree, *rests: PyTree, is_leaf: IsLeaf = None) -> PyTree:
    """Apply a function to the path of every leaf and the leaf."""
    pairs, spec = tree_flatten_with_path(tree, is_leaf)
    paths, leaves = [path for path, _ in pairs], [leaf for _, leaf in pairs]
    return spec.unflatten(map(func, paths, leaves, *[spec.flatten_up_to(rest) for rest in rests]))


def keystr(kp: KeyPath) -> str:
    """Return a path as Python code would write it."""
    return "".join(map(str, kp))


def key_get(obj: object, kp: KeyPath) -> object:
    """Return the part of an object at a path."""
    for key in kp:
        assert isinstance(key, (SequenceKey, MappingKey, GetAttrKey))
        get: Callable[..., object] = key.get
        obj = get(obj)
    return obj


# Registration


def register_pytree_node(
    cls: type,
    flatten_fn: Flatten,
    unflatten_fn: Unflatten,
    *,
    serialized_type_name: str | None = None,
    to_dumpable_context: Callable[[Context], object] | None = None,
    from_dumpable_context: Callable[[object], Context] | None = None,
    flatten_with_keys_fn: FlattenWithKeys | None = None,
) -> None:
    """Register a class as a container.

    Args:
        cls: the class; subclasses are not registered.
        flatten_fn: takes an instance and returns its children and a context.
        unflatten_fn: takes children and a context and returns an instance.
        serialized_type_name, to_dumpable_context, from_dumpable_context: for ``treespec_dumps``.
        flatten_with_keys_fn: like ``flatten_fn``, with pairs of a key and a child.

    Raises:
        ValueError: the class is registered already.
    """
    if cls in SUPPORTED_NODES:
        raise ValueError(f"{cls} is already registered as pytree node.")
    SUPPORTED_NODES[cls] = NodeDef(
        cls, flatten_fn, unflatten_fn, flatten_with_keys_fn, serialized_type_name, to_dumpable_context,
        from_dumpable_context,
    )  # fmt: skip
    with suppress(ValueError):  # the program has registered the class in ``func.nests``
        nests.register(cls, flatten_fn, lambda context, children: unflatten_fn(children, context))


def _register_pytree_node(cls: type, flatten_fn: Flatten, unflatten_fn: Unflatten, **options: object) -> None:
    """Register a class again or for the first time: the former name of ``register_pytree_node``."""
    SUPPORTED_NODES.pop(cls, None)
    register: Callable[..., None] = register_pytree_node
    register(cls, flatten_fn, unflatten_fn, **options)


_private_register_pytree_node = _register_pytree_node


def _deregister_pytree_node(cls: type) -> None:
    del SUPPORTED_NODES[cls]


def register_dataclass(cls: type, *, field_names: list[str] | None = None, **options: object) -> None:
    """Register a dataclass as a container of its fields."""
    names = field_names or list(attrgetter("__dataclass_fields__")(cls))
    register_pytree_node(
        cls,
        lambda obj: ([getattr(obj, name) for name in names], names),
        lambda values, context: cls(**dict(zip(names, values))),
        flatten_with_keys_fn=lambda obj: ([(GetAttrKey(name), getattr(obj, name)) for name in names], names),
    )


# Structures as JSON


def _type_name(kind: object) -> str | None:
    if kind is None:
        return None
    given = SUPPORTED_NODES[kind].serialized_type_name
    assert isinstance(kind, (type, FunctionType))  # collections.namedtuple is a function
    return given or f"{kind.__module__}.{kind.__qualname__}"


def _to_json(spec: TreeSpec) -> dict[str, object]:
    node = SUPPORTED_NODES.get(spec.type)
    context = node.to_dumpable_context(spec.context) if node and node.to_dumpable_context else spec.context
    return {
        "type": _type_name(spec.type),
        "context": None if spec.is_leaf() else json.dumps(context, default=_not_json),
        "children_spec": [_to_json(child) for child in spec.children_specs],
    }


def _not_json(value: object) -> NoReturn:
    raise TypeError(
        f"treespec_dumps: a context has a {type(value).__name__}, which JSON has no form for; register the class with "
        "to_dumpable_context and from_dumpable_context"
    )


def treespec_dumps(treespec: TreeSpec, protocol: int | None = None) -> str:
    """Return a structure as text."""
    return json.dumps([1, _to_json(treespec)])


def treespec_loads(serialized: str) -> TreeSpec:
    """Return the structure that ``treespec_dumps`` has written."""
    return _from_json(json.loads(serialized)[1])


def _from_json(entry: dict[str, object]) -> TreeSpec:
    if entry["type"] is None:
        return _LEAF_SPEC
    kind = next((kind for kind in SUPPORTED_NODES if _type_name(kind) == entry["type"]), None)
    if kind is None:
        module, _, name = str(entry["type"]).rpartition(".")
        raise NotImplementedError(f"Deserializing {entry['type']} in pytree is not registered in {module}: {name}")
    context = json.loads(str(entry["context"]))
    loads = SUPPORTED_NODES[kind].from_dumpable_context
    children = entry["children_spec"]
    assert isinstance(children, list)
    return TreeSpec(kind, loads(context) if loads else context, [_from_json(child) for child in children])


NAMES: dict[str, str | dict[str, object]] = {
    "utils._pytree": """
        BUILTIN_TYPES Context GetAttrKey KeyEntry KeyPath LeafSpec MappingKey NodeDef PyTree SUPPORTED_NODES SequenceKey
        TreeSpec _LEAF_SPEC _broadcast_to_and_flatten _defaultdict_flatten _defaultdict_unflatten _deque_flatten
        _deque_unflatten _deregister_pytree_node _dict_flatten _dict_flatten_with_keys _dict_unflatten _get_node_type
        _is_leaf _is_namedtuple_instance=is_namedtuple_instance _list_flatten _list_flatten_with_keys _list_unflatten
        _namedtuple_flatten _namedtuple_unflatten _ordereddict_flatten=_dict_flatten _ordereddict_unflatten
        _private_register_pytree_node _register_pytree_node _tuple_flatten=_list_flatten
        _tuple_flatten_with_keys=_list_flatten_with_keys _tuple_unflatten arg_tree_leaves is_namedtuple_instance
        is_structseq_instance key_get keystr map_only register_dataclass register_pytree_node tree_all tree_all_only
        tree_any tree_any_only tree_flatten tree_flatten_with_path tree_is_leaf tree_iter tree_leaves
        tree_leaves_with_path tree_map tree_map_ tree_map_only tree_map_only_ tree_map_with_path tree_structure
        tree_unflatten treespec_dumps treespec_loads
    """,
}
