"""``replace_pattern``: replace the subgraphs that match a pattern by another graph."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ....nn.base.module import Module
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Node, Value, map_arg
from .tracer import Tracer


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
