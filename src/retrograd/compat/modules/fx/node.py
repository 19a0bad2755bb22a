"""``Node``: one step of a graph, in a doubly linked list, with the nodes that it reads and the nodes that read it."""

from __future__ import annotations

import builtins
import inspect
import operator
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, NoReturn, Protocol, TypeAlias

import numpy as np

from ....func import nests
from ....nn.base.module import Module
from .names import Namespace, qualified_name, root

Value: TypeAlias = Any  # an argument or a result of a function of PyTorch

# Lists and dicts that nodes hold as arguments. They cannot be changed in place: a node counts its users.


def _refuse(self: object, *args: object, **kwargs: object) -> NoReturn:
    raise TypeError(
        f"{type(self).__name__!r} object does not support mutation. If you are attempting to modify the kwargs or args "
        "of a torch.fx.Node object,\ninstead create a new copy of it and assign the copy to the node:\n\n"
        "    new_args = ...  # copy and mutate args\n    node.args = new_args"
    )


class immutable_list(list[Value]):
    """A list that refuses changes in place."""

    def __reduce__(self) -> tuple[Value, ...]:
        return immutable_list, (tuple(self),)


class immutable_dict(dict[Value, Value]):
    """A dict that refuses changes in place."""

    def __reduce__(self) -> tuple[Value, ...]:
        return immutable_dict, (tuple(self.items()),)


_IN_PLACE = {
    immutable_list: "__delitem__ __iadd__ __imul__ __setitem__ append clear extend insert pop remove reverse sort",
    immutable_dict: "__delitem__ __ior__ __setitem__ clear pop popitem setdefault update",
}
for _kind, _names in _IN_PLACE.items():
    for _name in _names.split():
        setattr(_kind, _name, _refuse)
for _kind, _hash in (
    (immutable_list, lambda x: hash(tuple(x))),
    (immutable_dict, lambda x: hash(frozenset(x.items()))),
):
    _kind.__hash__ = _hash  # type: ignore[assignment]

nests.register(immutable_list, lambda x: (list(x), None), lambda _, children: immutable_list(children))
nests.register(
    immutable_dict,
    lambda x: (list(x.values()), tuple(x)),
    lambda keys, children: immutable_dict(zip(keys, children, strict=True)),
)

# Arguments are nodes, constants, and tuples, lists, dicts and slices of them.
Argument: TypeAlias = Value
Target: TypeAlias = Callable[..., Value] | str

OPCODES = ("placeholder", "get_attr", "call_function", "call_method", "call_module", "output")


def map_arg(a: Argument, fn: Callable[[Node], Argument]) -> Argument:
    """Return the argument with ``fn`` applied to each node in it.

    >>> from retrograd.compat.modules import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> fx.map_arg([x, 1], lambda node: node.name)
    ['x', 1]
    """
    return map_aggregate(a, lambda value: fn(value) if isinstance(value, Node) else value)


def map_aggregate(a: Argument, fn: Callable[[Argument], Argument]) -> Argument:
    """Return the argument with ``fn`` applied to everything in it that is not a container."""
    if isinstance(a, tuple):
        parts = [map_aggregate(value, fn) for value in a]
        return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
    if isinstance(a, list):
        return immutable_list([map_aggregate(value, fn) for value in a])
    if isinstance(a, dict):
        return immutable_dict({key: map_aggregate(value, fn) for key, value in a.items()})
    if isinstance(a, slice):
        return slice(map_aggregate(a.start, fn), map_aggregate(a.stop, fn), map_aggregate(a.step, fn))
    return fn(a)


def nodes_in(a: Argument) -> list[Node]:
    """Return the nodes in an argument, in order."""
    found: list[Node] = []
    map_arg(a, found.append)
    return found


class Owner(Protocol):
    """The part of a graph's interface that a node needs."""

    names: Namespace
    owning_module: Value

    def moved(self) -> None:
        """Forget the positions of nodes."""

    def position(self, node: Node) -> int:
        """Return the position of a node."""


class Node:
    """One step of a graph.

    The meaning of ``target``, ``args`` and ``kwargs`` depends on ``op``:

    * ``placeholder``: an input of the function, with the name ``target`` and, in ``args``, its default
    * ``get_attr``: the attribute of the module at the path ``target``
    * ``call_function``: a call of the function ``target``
    * ``call_method``: a call of the method named ``target`` of the first argument
    * ``call_module``: a call of the submodule at the path ``target``
    * ``output``: the result, ``args[0]``

    ``users`` are the nodes that read the node, and ``all_input_nodes`` the nodes that it reads. ``meta`` belongs to
    the program. Create nodes with the methods of ``Graph``.
    """

    def __init__(
        self,
        graph: Owner,
        name: str,
        op: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: Mapping[str, Argument],
        return_type: Value = None,
    ) -> None:
        if op not in OPCODES:
            raise ValueError(f"Node: op must be one of {', '.join(OPCODES)}, got {op!r}")
        if op == "call_function":
            if not callable(target):
                raise ValueError(
                    f"Node [graph = {graph}, name = {name!r}] target {target!r} has type {type(target)} "
                    "but a Callable is expected"
                )
        elif not isinstance(target, str):
            raise ValueError(
                f"Node [graph = {graph}, name = {name!r}] target {target!r} has type {type(target)} "
                "but a str is expected"
            )
        self.graph, self.name, self.op, self.target, self.type = graph, name, op, target, return_type
        self.users: dict[Node, None] = {}
        self.meta: dict[str, Value] = {}
        self._inputs: dict[Node, None] = {}
        self._previous = self._following = self
        self._erased = False
        self.position = 0
        self._args: tuple[Argument, ...] = ()
        self._kwargs: dict[str, Argument] = {}
        self._set_arguments(tuple(args), dict(kwargs))

    # The list of nodes

    @property
    def next(self) -> Node:
        """The following node. The list is a ring, which begins and ends at a node with the op ``root``."""
        return self._following

    @property
    def prev(self) -> Node:
        """The node before this node."""
        return self._previous

    def _link(self, node: Node) -> None:
        if node.graph is not self.graph:
            raise AssertionError("Attempting to move a Node into a different Graph")
        if node is self:
            return
        node._unlink()
        before = self._previous
        before._following, node._previous = node, before
        node._following, self._previous = self, node
        self.graph.moved()

    def _unlink(self) -> None:
        # The node keeps its own pointers, so that a loop over the nodes can continue from an erased node.
        self._previous._following, self._following._previous = self._following, self._previous

    def prepend(self, x: Node) -> None:
        """Move the node ``x`` in front of this node."""
        self._link(x)

    def append(self, x: Node) -> None:
        """Move the node ``x`` behind this node."""
        if x is not self._following:
            self._following._link(x)

    def __lt__(self, other: Node) -> bool:
        return self.graph.position(self) < self.graph.position(other)

    def __gt__(self, other: Node) -> bool:
        return self.graph.position(self) > self.graph.position(other)

    def __le__(self, other: Node) -> bool:
        return self is other or self < other

    def __ge__(self, other: Node) -> bool:
        return self is other or self > other

    # Arguments

    @property
    def args(self) -> tuple[Argument, ...]:
        """The positional arguments. Assign a new tuple to change them."""
        return self._args

    @args.setter
    def args(self, a: tuple[Argument, ...]) -> None:
        self._set_arguments(a, self._kwargs)

    @property
    def kwargs(self) -> dict[str, Argument]:
        """The keyword arguments. Assign a new dict to change them."""
        return self._kwargs

    @kwargs.setter
    def kwargs(self, k: dict[str, Argument]) -> None:
        self._set_arguments(self._args, k)

    def _set_arguments(self, args: tuple[Argument, ...], kwargs: dict[str, Argument]) -> None:
        for node in self._inputs:
            node.users.pop(self, None)
        self._args = map_aggregate(tuple(args), lambda value: value)
        self._kwargs = map_aggregate(dict(kwargs), lambda value: value)
        self._inputs = dict.fromkeys(nodes_in((self._args, self._kwargs)))
        for node in self._inputs:
            node.users[self] = None

    @property
    def all_input_nodes(self) -> list[Node]:
        """The nodes that this node reads, once each."""
        return list(self._inputs)

    def update_arg(self, idx: int, arg: Argument) -> None:
        """Replace one positional argument."""
        args = list(self._args)
        args[idx] = arg
        self.args = tuple(args)

    def insert_arg(self, idx: int, arg: Argument) -> None:
        """Insert a positional argument at a position between 0 and the number of arguments."""
        if not 0 <= idx <= len(self._args):
            raise AssertionError("insert_args index must be between 0 and len(self.args)")
        self.args = (*self._args[:idx], arg, *self._args[idx:])

    def update_kwarg(self, key: str, arg: Argument) -> None:
        """Set one keyword argument."""
        self.kwargs = {**self._kwargs, key: arg}

    def replace_input_with(self, old_input: Node, new_input: Node) -> None:
        """Read ``new_input`` wherever this node reads ``old_input``."""
        args, kwargs = map_arg((self._args, self._kwargs), lambda node: new_input if node is old_input else node)
        self._set_arguments(args, kwargs)

    def replace_all_uses_with(
        self, replace_with: Node, delete_user_cb: Callable[[Node], bool] | None = None, *, propagate_meta: bool = False
    ) -> list[Node]:
        """Replace this node by another in all nodes that read it, and return these nodes.

        Args:
            replace_with: the node to read.
            delete_user_cb: returns False for users that stay as they are.
            propagate_meta: copy ``meta`` to ``replace_with``, whose own has to be empty.
        """
        if propagate_meta:
            if replace_with.meta:
                raise AssertionError(
                    "replace_all_uses_with: propagate_meta=True, but replace_with already has .meta keys"
                )
            replace_with.meta.update(self.meta)
        users = [user for user in self.users if delete_user_cb is None or delete_user_cb(user)]
        for user in users:
            user.replace_input_with(self, replace_with)
        return users

    # Properties

    @property
    def stack_trace(self) -> str | None:
        """The lines of the program that created the node, if the tracer recorded them."""
        return self.meta.get("stack_trace")

    @stack_trace.setter
    def stack_trace(self, trace: str | None) -> None:
        self.meta["stack_trace"] = trace

    def is_impure(self, impure_random: bool = True) -> bool:
        """Return whether the node must stay in the graph even if nothing reads it."""
        if self.op in ("placeholder", "output"):
            return True
        if self.op == "call_function":
            return self.target in SIDE_EFFECTS or impure_random and self._draws()
        if self.op == "call_module":
            module = self.graph.owning_module and self.graph.owning_module.get_submodule(str(self.target))
            return module is None or bool(getattr(module, "_is_impure", False))
        return False

    def _draws(self) -> bool:
        name = str(getattr(self.target, "__name__", ""))
        return name in (
            "bernoulli",
            "dropout",
            "multinomial",
            "normal",
            "poisson",
            "rand",
            "randint",
            "randn",
            "randperm",
        )

    def normalized_arguments(
        self,
        root: Value,
        arg_types: tuple[Value, ...] | None = None,
        kwarg_types: dict[str, Value] | None = None,
        normalize_to_only_use_kwargs: bool = False,
    ) -> Value:
        """Return the arguments as ``ArgsKwargsPair``, bound to the signature of the target; None if there is none."""
        if self.op == "call_function" and callable(self.target):
            return normalize_function(self.target, self._args, self._kwargs, arg_types, kwarg_types,
                                      normalize_to_only_use_kwargs)  # fmt: skip
        if self.op == "call_module":
            return normalize_module(root, str(self.target), self._args, self._kwargs, normalize_to_only_use_kwargs)
        return None

    def _rename(self, candidate: str) -> None:
        if candidate != self.name:
            self.name = self.graph.names.create_name(candidate, None)
            self.graph.names.associate(self.name, self)

    # Printing

    def __repr__(self) -> str:
        return self.name

    @staticmethod
    def _pretty_print_target(target: Target) -> str:
        if isinstance(target, str):
            return target
        own = str(getattr(target, "__name__", target))
        if getattr(builtins, own, None) is target:
            return f"builtins.{own}"
        return qualified_name(target)

    def format_node(
        self,
        placeholder_names: list[str] | None = None,
        maybe_return_typename: list[str] | None = None,
        *,
        include_tensor_metadata: bool = False,
    ) -> str | None:
        """Return the line of the node in ``print(graph)``. The lists, if given, receive placeholders and the output."""
        kind = f": {type_repr(self.type)} " if self.type is not None else ": "
        if self.op == "placeholder":
            if placeholder_names is not None:
                placeholder_names.append(f"{self.target} {kind}".rstrip(" :"))
                return None
            default = f"(default={self._args[0]})" if self._args else ""
            return f"%{self.name} {kind}[num_users={len(self.users)}] = {self.op}[target={self.target}]{default}"
        if self.op == "get_attr":
            return f"%{self.name} {kind}[num_users={len(self.users)}] = {self.op}[target={self.target}]"
        if self.op == "output":
            if self.type is not None and maybe_return_typename is not None:
                maybe_return_typename[0] = f" -> {type_repr(self.type)}"
            return f"return {self._args[0]}"
        keywords = ", ".join(f"{key}: {_shown(value)}" for key, value in self._kwargs.items())
        positional = _shown(self._args) if self._args else "()"
        return (
            f"%{self.name} {kind}[num_users={len(self.users)}] = {self.op}[target="
            f"{self._pretty_print_target(self.target)}](args = {positional}, kwargs = {{{keywords}}})"
        )


def _shown(a: Argument) -> str:
    """Return an argument as text, with ``%`` before the names of nodes."""
    if isinstance(a, tuple) and not hasattr(a, "_fields"):
        return f"({', '.join(map(_shown, a))}{',' if len(a) == 1 else ''})"
    if isinstance(a, list):
        return f"[{', '.join(map(_shown, a))}]"
    if isinstance(a, dict):
        return f"{{{', '.join(f'{key}: {_shown(value)}' for key, value in a.items())}}}"
    return f"%{a}" if isinstance(a, Node) else str(a)


def type_repr(kind: Value) -> str:
    """Return an annotation as code: ``int``, ``torch.Tensor``, ``list[int]``."""
    if isinstance(kind, type) and not isinstance(kind, types.GenericAlias):
        if kind.__module__ == "builtins":
            return kind.__qualname__
        if kind.__module__.partition(".")[0] == "retrograd":
            return f"{root()}.{kind.__name__}"
        return f"{kind.__module__}.{kind.__qualname__}"
    if isinstance(kind, np.dtype):
        return f"{root()}.{kind}".replace(f"{root()}.{root()}.", f"{root()}.")
    return "..." if kind is ... else str(kind)


# Functions that are called for their effect: dead code elimination leaves them.
SIDE_EFFECTS: set[Value] = {operator.setitem, setattr, print}


def has_side_effect(fn: Callable[..., Value]) -> Callable[..., Value]:
    """Mark a function as called for its effect, so that dead code elimination leaves its calls."""
    SIDE_EFFECTS.add(fn)
    return fn


def ring(start: Node, reverse: bool = False) -> Iterator[Node]:
    """Yield the nodes of a list, without its root. Nodes may be erased or inserted meanwhile."""
    node = start.prev if reverse else start.next
    while node is not start:
        if not node._erased:
            yield node
        node = node.prev if reverse else node.next


# Arguments of calls, bound to the signatures of their targets


class ArgsKwargsPair(NamedTuple):
    """Positional and keyword arguments of a call."""

    args: tuple[Value, ...]
    kwargs: dict[str, Value]


def signature_of(function: Callable[..., Value]) -> inspect.Signature | None:
    """Return the signature of a function, or None if it has none."""
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):
        return None


def normalize_function(
    target: Callable[..., Value],
    args: tuple[Value, ...],
    kwargs: dict[str, Value] | None = None,
    arg_types: tuple[Value, ...] | None = None,
    kwarg_types: dict[str, Value] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a call as the signature of the function names them, with defaults.

    Args:
        target: the function.
        args: the positional arguments.
        kwargs: the keyword arguments.
        arg_types: not needed: each function has one signature.
        kwarg_types: not needed.
        normalize_to_only_use_kwargs: pass all arguments by keyword.

    Returns:
        The arguments, or None if the function has no signature or does not accept them.

    >>> import retrograd as rg
    >>> from retrograd.compat.modules.fx.node import normalize_function
    >>> normalize_function(rg.nn.functional.relu, (1,), normalize_to_only_use_kwargs=True).kwargs["input"]
    1
    """
    signature = signature_of(target)
    return None if signature is None else _bound(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def normalize_module(
    root: Module,
    target: str,
    args: tuple[Value, ...],
    kwargs: dict[str, Value] | None = None,
    normalize_to_only_use_kwargs: bool = False,
) -> ArgsKwargsPair | None:
    """Return the arguments of a call of a submodule as the signature of its ``forward`` names them, with defaults."""
    signature = signature_of(root.get_submodule(target).forward)
    return None if signature is None else _bound(signature, args, kwargs or {}, normalize_to_only_use_kwargs)


def _bound(
    signature: inspect.Signature, args: tuple[Value, ...], kwargs: dict[str, Value], by_keyword: bool
) -> ArgsKwargsPair | None:
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError:
        return None
    bound.apply_defaults()
    if not by_keyword:
        positional = len(args)
        names = list(bound.arguments)
        return ArgsKwargsPair(
            tuple(bound.arguments[name] for name in names[:positional]),
            {name: bound.arguments[name] for name in names[positional:]},
        )
    kinds = signature.parameters
    starred = [
        name for name in bound.arguments if kinds[name].kind in (kinds[name].VAR_POSITIONAL, kinds[name].VAR_KEYWORD)
    ]
    return None if any(bound.arguments[name] for name in starred) else ArgsKwargsPair(
        (), {name: value for name, value in bound.arguments.items() if name not in starred}
    )  # fmt: skip
