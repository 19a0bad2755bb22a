"""Passes over graphs: shapes of values (``ShapeProp``), division into submodules (``split_module``), base class,
and ``replace_pattern``, which replaces the subgraphs that match a pattern by another graph."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import NamedTuple

from ....core.arrays.dtypes import DType
from ....core.tensor.tensor import Tensor
from ....nn.base.module import Module
from .graph import Graph
from .graph_module import GraphModule
from .interpreter import Interpreter
from .node import Argument, Node, Value, map_aggregate, map_arg
from .tracer import Tracer


class TensorMetadata(NamedTuple):
    """The properties of a Tensor other than its values."""

    shape: Value
    dtype: DType
    requires_grad: bool
    stride: tuple[int, ...]
    memory_format: Value
    is_quantized: bool
    qparams: dict[str, Value]


def _extract_tensor_metadata(result: Tensor, include_contiguity: bool = True) -> TensorMetadata:
    from ...types import memory_format

    contiguous = memory_format("contiguous_format") if include_contiguity and result.is_contiguous() else None
    return TensorMetadata(result.shape, result.dtype, result.requires_grad, result.stride(), contiguous, False, {})


class ShapeProp(Interpreter):
    """Runs a module once, and stores shapes and dtypes in ``node.meta["tensor_meta"]``.

    >>> import retrograd as rg
    >>> from retrograd.compat.modules import fx
    >>> from retrograd.compat.modules.fx.passes import ShapeProp
    >>> traced = fx.symbolic_trace(lambda x: x.sum(0))
    >>> result = ShapeProp(traced).propagate(rg.ones(2, 3))
    >>> [tuple(node.meta["tensor_meta"].shape) for node in traced.graph.nodes]
    [(2, 3), (3,), (3,)]
    """

    def run_node(self, n: Node) -> Value:
        """Run a node and store what is known of its result."""
        result = super().run_node(n)
        found = False

        def describe(value: Value) -> Value:
            nonlocal found
            if isinstance(value, Tensor):
                found = True
                return _extract_tensor_metadata(value)
            return value

        described = map_aggregate(result, describe)
        if found:
            n.meta["tensor_meta"] = described
        n.meta["type"] = type(result)
        return result

    def propagate(self, *args: Value) -> Value:
        """Run the module with these arguments, and return its result."""
        return super().run(*args)


class PassResult(NamedTuple):
    """The result of a pass: the module, and whether the pass changed it."""

    graph_module: GraphModule
    modified: bool


class PassBase(ABC):
    """The base class of passes over a module, with checks before (``requires``) and after it (``ensures``)."""

    def __call__(self, graph_module: GraphModule) -> PassResult | None:
        """Return the result of ``call``, with a check before and after it."""
        self.requires(graph_module)
        result = self.call(graph_module)
        self.ensures(graph_module)
        return result

    @abstractmethod
    def call(self, graph_module: GraphModule) -> PassResult | None:
        """Run the pass."""

    def requires(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Check the module before the pass. Subclasses override it."""

    def ensures(self, graph_module: GraphModule) -> None:  # noqa: B027
        """Check the module after the pass. Subclasses override it."""


class _Part:
    """One submodule of ``split_module``."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.graph = Graph()
        self.nodes: list[Node] = []
        self.inputs: dict[Node, None] = {}
        self.outputs: dict[Node, None] = {}
        self.copies: dict[Node, Node] = {}


def split_module(
    m: GraphModule,
    root_m: Module,
    split_callback: Callable[[Node], int],
    qualname_map: dict[str, str] | None = None,
    keep_original_order: bool | None = False,
    **options: Value,
) -> GraphModule:
    """Return a module that calls submodules ``submod_0``, ``submod_1``, ..., each with a part of the graph.

    Args:
        m: the module to divide.
        root_m: the module with the attributes that the graph names.
        split_callback: the number of the part for each node.
        qualname_map: filled with the present path for each path in the new modules.
        keep_original_order: call the parts in the order in which they first appear in the graph.
        options: PyTorch's further options, which have no effect.

    Raises:
        RuntimeError: parts need each other's values in both directions.
    """
    parts: dict[int, _Part] = {}
    home: dict[Node, int] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "output", "get_attr"):
            continue
        number = home[node] = split_callback(node)
        parts.setdefault(number, _Part(f"submod_{number}")).nodes.append(node)
    needs: dict[int, set[int]] = {number: set() for number in parts}
    for node, number in home.items():
        for used in node.all_input_nodes:
            if used.op == "get_attr":
                continue
            if home.get(used) != number:
                parts[number].inputs[used] = None
                if used in home:
                    parts[home[used]].outputs[used] = None
                    needs[number].add(home[used])
    for used in m.graph.output_node().all_input_nodes:
        if used in home:
            parts[home[used]].outputs[used] = None
    order = _ordered(needs)
    whole = Graph()
    values: dict[Node, Value] = {}
    modules: dict[str, Value] = {}
    for node in m.graph.nodes:
        if node.op in ("placeholder", "get_attr"):
            values[node] = whole.node_copy(node)
            if node.op == "get_attr":
                modules[str(node.target)] = _value_at(root_m, str(node.target))
    for number in order:
        part = parts[number]
        modules[part.name] = _build(part, root_m, qualname_map)
        call = whole.call_module(part.name, tuple(values[used] for used in part.inputs))
        if len(part.outputs) == 1:
            values[next(iter(part.outputs))] = call
        else:
            import operator

            for place, used in enumerate(part.outputs):
                values[used] = whole.call_function(operator.getitem, (call, place))
    whole.output(map_arg(m.graph.output_node().args[0], values.__getitem__))
    whole.eliminate_dead_code()
    return GraphModule(modules, whole)


def _ordered(needs: dict[int, set[int]]) -> list[int]:
    order: list[int] = []
    waiting = dict(needs)
    while waiting:
        ready = [number for number, needed in waiting.items() if needed <= set(order)]
        if not ready:
            raise RuntimeError("cycle exists between partitions!")
        order.append(ready[0])
        del waiting[ready[0]]
    return order


def _build(part: _Part, root_m: Module, qualname_map: dict[str, str] | None) -> GraphModule:
    targets: dict[str, Value] = {}
    for used in part.inputs:
        part.copies[used] = part.graph.placeholder(used.name)
    for node in part.nodes:
        for used in node.all_input_nodes:
            if used.op == "get_attr" and used not in part.copies:
                part.copies[used] = _copy_named(part, used, root_m, targets, qualname_map)
        if node.op == "call_module":
            part.copies[node] = _copy_named(part, node, root_m, targets, qualname_map)
        else:
            part.copies[node] = part.graph.node_copy(node, part.copies.__getitem__)
    results = tuple(part.copies[used] for used in part.outputs)
    part.graph.output(results[0] if len(results) == 1 else results)
    return GraphModule(targets, part.graph)


def _copy_named(
    part: _Part, node: Node, root_m: Module, targets: dict[str, Value], qualname_map: dict[str, str] | None
) -> Node:
    name = str(node.target).replace(".", "_")
    targets[name] = _value_at(root_m, str(node.target))
    if qualname_map is not None:
        qualname_map[f"{part.name}.{name}"] = str(node.target)
    args, kwargs = map_arg((node.args, node.kwargs), part.copies.__getitem__)
    return part.graph.create_node(node.op, name, tuple(args), dict(kwargs), node.name, node.type)


def _value_at(module: Module, path: str) -> Value:
    value: Value = module
    for part in path.split("."):
        value = getattr(value, part)
    return value


class Match(NamedTuple):
    """A place where the pattern was found: its last node, and the node of the graph for each node of the pattern."""

    anchor: Node
    nodes_map: dict[Node, Node]


def replace_pattern(
    gm: GraphModule, pattern: Callable[..., Value] | GraphModule, replacement: Callable[..., Value] | GraphModule
) -> list[Match]:
    """Replace each match of a pattern in the graph of a module, and return the matches.

    Args:
        gm: the module; its code is generated again.
        pattern: a function or module whose graph is searched.
        replacement: a function or module with the same number of inputs.

    Raises:
        RuntimeError: pattern and replacement have different numbers of inputs.

    >>> import retrograd as rg
    >>> from retrograd.compat.modules import fx
    >>> traced = fx.symbolic_trace(lambda x: (x + 1).relu())
    >>> len(fx.replace_pattern(traced, lambda x: x.relu(), lambda x: x.sigmoid()))
    1
    >>> print(traced.code.strip())
    def forward(self, x):
        add = x + 1;  x = None
        sigmoid = add.sigmoid();  add = None
        return sigmoid
    """
    searched, inserted = _graph_of(pattern), _graph_of(replacement)
    inputs, new_inputs = _inputs(searched), _inputs(inserted)
    if len(inputs) != len(new_inputs):
        raise RuntimeError(
            f"replace_pattern: the pattern has {len(inputs)} inputs and the replacement {len(new_inputs)}; "
            "they must have the same number"
        )
    matches: list[Match] = []
    taken: set[Node] = set()
    for node in list(gm.graph.nodes):
        found = _match_at(node, searched)
        if found is None:
            continue
        inner = [found[each] for each in found if each.op not in ("placeholder", "output")]
        if taken & set(inner) or not _is_closed(searched, found):
            continue
        taken |= set(inner)
        matches.append(Match(node, found))
    if isinstance(replacement, Module):
        _take_modules(gm, inserted, replacement)
    changed: dict[Node, Node] = {}
    for match in matches:
        _replace(gm.graph, searched, inserted, match, changed)
    gm.recompile()
    return matches


def _graph_of(function: Value) -> Graph:
    return function.graph if isinstance(function, GraphModule) else Tracer().trace(function)


def _inputs(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if node.op == "placeholder"]


def _results(graph: Graph) -> list[Node]:
    found: list[Node] = []
    map_arg(graph.output_node().args[0], found.append)
    return found


def _match_at(node: Node, pattern: Graph) -> dict[Node, Node] | None:
    """Map the nodes of the pattern, whose last result is ``node``, to nodes of the graph; None if they do not match."""
    results = _results(pattern)
    found: dict[Node, Node] = {}
    if not results or results[-1].op == "placeholder" or not _matches(results[-1], node, found):
        return None
    for other in results[:-1]:  # further results read nodes that have been matched
        if other not in found and not _match_among_users(other, found):
            return None
    return found


def _match_among_users(result: Node, found: dict[Node, Node]) -> bool:
    """Match a further result of the pattern with a user of the nodes that its inputs matched."""
    known = [found[used] for used in result.all_input_nodes if used in found]
    for candidate in known[0].users if known else ():
        trial = dict(found)
        if _matches(result, candidate, trial):
            found.update(trial)
            return True
    return False


def _matches(wanted: Argument, given: Argument, found: dict[Node, Node]) -> bool:
    if isinstance(wanted, Node):
        if not isinstance(given, Node):
            return False
        if wanted in found:
            return found[wanted] is given
        if wanted.op != "placeholder":
            same = wanted.op == given.op and wanted.target == given.target
            if not same or len(wanted.args) != len(given.args) or wanted.kwargs.keys() != given.kwargs.keys():
                return False
            if given in found.values():
                return False
            if not all(_matches(a, b, found) for a, b in zip(wanted.args, given.args, strict=True)):
                return False
            if not all(_matches(value, given.kwargs[key], found) for key, value in wanted.kwargs.items()):
                return False
        found[wanted] = given
        return True
    if isinstance(wanted, (tuple, list)):
        same = isinstance(given, (tuple, list)) and len(wanted) == len(given)
        return same and all(_matches(a, b, found) for a, b in zip(wanted, given, strict=True))
    if isinstance(wanted, dict):
        same = isinstance(given, dict) and wanted.keys() == given.keys()
        return same and all(_matches(value, given[key], found) for key, value in wanted.items())
    if isinstance(wanted, slice):
        return isinstance(given, slice) and _matches(
            (wanted.start, wanted.stop, wanted.step), (given.start, given.stop, given.step), found
        )
    return bool(type(wanted) is type(given) and wanted == given)


def _is_closed(pattern: Graph, found: dict[Node, Node]) -> bool:
    """Return whether only the results of the match are read outside of it."""
    inner = {found[node] for node in found if node.op not in ("placeholder", "output")}
    results = {found[node] for node in _results(pattern) if node in found}
    return all(node in results or all(user in inner for user in node.users) for node in inner)


def _replace(graph: Graph, pattern: Graph, replacement: Graph, match: Match, changed: dict[Node, Node]) -> None:
    inputs, new_inputs = _inputs(pattern), _inputs(replacement)
    values = {}
    for wanted, new in zip(inputs, new_inputs, strict=True):
        node = match.nodes_map.get(wanted)
        if node is not None:
            while node in changed:  # an earlier replacement has replaced this node
                node = changed[node]
            values[new] = node
    inner = [match.nodes_map[node] for node in match.nodes_map if node.op not in ("placeholder", "output")]
    olds = [match.nodes_map[node] for node in _results(pattern)]
    users = [user for old in olds for user in old.users if user not in inner]
    first = min(users) if users else graph.output_node()
    with graph.inserting_before(first):
        result = graph.graph_copy(replacement, values)
    news: list[Node] = []
    map_arg(result, news.append)
    for old, new in zip(olds, news, strict=True):
        old.replace_all_uses_with(new)
        changed[old] = new
    for node in sorted(set(inner), reverse=True):
        if not node.users:
            graph.erase_node(node)


def _take_modules(gm: GraphModule, graph: Graph, source: Module) -> None:
    """Copy the attributes that the replacement's nodes name to the module, unless it has them."""
    for node in graph.nodes:
        if node.op not in ("call_module", "get_attr"):
            continue
        target = str(node.target)
        value: Value = source
        for part in target.split("."):
            value = getattr(value, part)
        if isinstance(value, Module):
            try:
                gm.get_submodule(target)
            except AttributeError:
                gm.add_submodule(target, value)
        elif not hasattr(gm, target.split(".")[0]):
            setattr(gm, target, value)
