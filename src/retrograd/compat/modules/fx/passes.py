"""Run graphs node by node (``Interpreter``, ``Transformer``, ``ShapeProp``), divide them into submodules
(``split_module``), and replace the subgraphs that match a pattern (``replace_pattern``)."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import reduce
from typing import NamedTuple

from ....core.arrays.dtypes import DType
from ....core.tensor.tensor import Tensor
from ....nn.base.module import Module
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Node, Target, Value, map_aggregate, map_arg
from .proxy import Proxy
from .tracer import Tracer


class Interpreter:
    """Runs the graph of a module node by node. Override a method to change what nodes of one kind do.

    Args:
        module: a ``GraphModule``, or any module together with ``graph``.
        garbage_collect_values: release values after their last use.
        graph: the graph to run, by default that of the module.

    >>> import retrograd as rg
    >>> from retrograd.compat.modules import fx
    >>> class Negated(fx.Interpreter):
    ...     def call_function(self, target, args, kwargs):
    ...         return -super().call_function(target, args, kwargs)
    >>> Negated(fx.symbolic_trace(lambda x: x + 1)).run(rg.ones(2))
    tensor([-2., -2.])
    """

    def __init__(self, module: Module, garbage_collect_values: bool = True, graph: Graph | None = None) -> None:
        self.module = module
        self.submodules = dict(module.named_modules())
        self.graph: Graph = graph if graph is not None else module.graph
        self.env: dict[Node, Value] = {}
        self.name = "Interpreter"
        self.garbage_collect_values = garbage_collect_values
        self.extra_traceback = True
        self.user_to_last_uses: dict[Node, list[Node]] = {}
        if garbage_collect_values:
            self._find_last_uses()

    def _find_last_uses(self) -> None:
        seen: set[Node] = set()
        for node in reversed(self.graph.nodes):
            for used in node.all_input_nodes:
                if used not in seen:
                    seen.add(used)
                    self.user_to_last_uses.setdefault(node, []).append(used)

    def run(
        self, *args: Value, initial_env: dict[Node, Value] | None = None, enable_io_processing: bool = True
    ) -> Value:
        """Return the result of the graph for these arguments.

        Args:
            args: the values of the placeholders.
            initial_env: values of nodes, which are then not run.
            enable_io_processing: convert arguments and results as the generated code does.
        """
        self.env = dict(initial_env or {})
        given = self.graph.process_inputs(*args) if enable_io_processing else args
        self.args_iter: Iterator[Value] = iter(given)
        for node in self.graph.nodes:
            if node not in self.env:
                self.env[node] = self._run_named(node)
            for used in self.user_to_last_uses.get(node, ()):
                del self.env[used]
            if node.op == "output":
                result = self.env[node]
                return self.graph.process_outputs(result) if enable_io_processing else result
        return None

    def boxed_run(self, args_list: list[Value]) -> Value:
        """Run with a list of arguments, which is emptied so that the arguments can be released."""
        args = list(args_list)
        args_list.clear()
        return self.run(*args)

    def _run_named(self, node: Node) -> Value:
        try:
            return self.run_node(node)
        except Exception as error:
            if self.extra_traceback:
                message = f"While executing {node.format_node()}"
                if node.stack_trace:
                    message += f"\nOriginal traceback:\n{node.stack_trace}"
                error.add_note(message) if hasattr(error, "add_note") else None
            raise

    @contextmanager
    def _set_current_node(self, node: Node) -> Iterator[None]:
        yield

    def run_node(self, n: Node) -> Value:
        """Return the value of one node."""
        args, kwargs = self.fetch_args_kwargs_from_env(n)
        return getattr(self, n.op)(n.target, args, kwargs)

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Value]) -> Value:
        """Return the next argument, or the default."""
        if str(target).startswith("*"):
            return list(self.args_iter)
        try:
            return next(self.args_iter)
        except StopIteration:
            if args:
                return args[0]
            raise RuntimeError(
                f"Expected positional argument for parameter {target}, but one was not passed in!"
            ) from None

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Value]) -> Value:
        """Return an attribute of the module."""
        return self.fetch_attr(str(target))

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Value]) -> Value:
        """Call a function."""
        assert callable(target)
        return target(*args, **kwargs)

    def call_method(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Value]) -> Value:
        """Call a method of the first argument."""
        first, *rest = args
        return getattr(first, str(target))(*rest, **kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Value]) -> Value:
        """Call a submodule."""
        return self.fetch_attr(str(target))(*args, **kwargs)

    def output(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Value]) -> Value:
        """Return the result."""
        return args[0]

    def fetch_attr(self, target: str) -> Value:
        """Return the value at a path of the module.

        Raises:
            RuntimeError: the path does not exist.
        """
        value: Value = self.module
        for place, part in enumerate(parts := target.split(".")):
            if not hasattr(value, part):
                raise RuntimeError(f"Node referenced nonexistent target {'.'.join(parts[: place + 1])}")
            value = getattr(value, part)
        return value

    def fetch_args_kwargs_from_env(self, n: Node) -> tuple[tuple[Value, ...], dict[str, Value]]:
        """Return the values of a node's arguments."""
        return tuple(self.map_nodes_to_values(n.args, n)), dict(self.map_nodes_to_values(n.kwargs, n))

    def map_nodes_to_values(self, args: Argument, n: Node) -> Argument:
        """Return arguments with the values of the nodes in them."""

        def value(node: Node) -> Value:
            if node not in self.env:
                raise RuntimeError(
                    f"Node {n} referenced nonexistent value {node}! Run Graph.lint() to diagnose such issues"
                )
            return self.env[node]

        return map_arg(args, value)


class _Rebuilding(Tracer):
    """Inserts nodes into a new graph."""

    def __init__(self, graph: Graph) -> None:
        super().__init__()
        self.graph = graph

    def is_leaf_module(self, m: Module, module_qualified_name: str) -> bool:
        return True


class Transformer(Interpreter):
    """Builds a new module from a ``GraphModule``. Override the methods of ``Interpreter`` to change nodes.

    >>> import operator
    >>> import retrograd as rg
    >>> from retrograd.compat.modules import fx
    >>> class Doubled(fx.Transformer):
    ...     def call_function(self, target, args, kwargs):
    ...         return super().call_function(target, args, kwargs) * 2
    >>> Doubled(fx.symbolic_trace(lambda x: x + 1)).transform()(rg.ones(1))
    tensor([4.])
    """

    def __init__(self, module: GraphModule) -> None:
        super().__init__(module)
        self.new_graph = Graph()
        self.new_graph.set_codegen(module.graph._codegen)
        self.tracer = _Rebuilding(self.new_graph)
        self.tracer.root = module

    def placeholder(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Value]) -> Proxy:
        """Return the Proxy of an input of the new graph."""
        default = (args[0],) if args else ()
        return Proxy(self.new_graph.create_node("placeholder", target, default), self.tracer)

    def get_attr(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Value]) -> Proxy:
        """Return the Proxy of an attribute."""
        return self.tracer.create_proxy("get_attr", target, args, kwargs)

    def call_module(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Value]) -> Value:
        """Return the Proxy of a call of a submodule."""
        return self.tracer.create_proxy("call_module", target, args, kwargs)

    def call_function(self, target: Target, args: tuple[Argument, ...], kwargs: dict[str, Value]) -> Value:
        """Return the Proxy of a call of a function."""
        return self.tracer.create_proxy("call_function", target, args, kwargs)

    def transform(self) -> GraphModule:
        """Return the new module."""
        result = super().run(enable_io_processing=False)
        if result is not None:
            as_argument: Callable[[Value], Value] = self.tracer.create_arg
            self.new_graph.output(as_argument(result))
        return GraphModule(self.module, self.new_graph, self.module._get_name())


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
        found: list[Tensor] = []

        def describe(value: Value) -> Value:
            if not isinstance(value, Tensor):
                return value
            found.append(value)
            return _extract_tensor_metadata(value)

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
            if used.op != "get_attr" and home.get(used) != number:
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
    return reduce(getattr, path.split("."), module)


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
        if (found := _match_at(node, searched)) is None:
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
            if not same or given in found.values():
                return False
            if len(wanted.args) != len(given.args) or wanted.kwargs.keys() != given.kwargs.keys():
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
        value = _value_at(source, target)
        if isinstance(value, Module):
            try:
                gm.get_submodule(target)
            except AttributeError:
                gm.add_submodule(target, value)
        elif not hasattr(gm, target.split(".")[0]):
            setattr(gm, target, value)
