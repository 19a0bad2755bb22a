"""``Interpreter`` runs a graph node by node; ``Transformer`` builds another graph by running it on Proxies."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ....nn.base.module import Module
from .graph import Graph
from .graph_module import GraphModule
from .node import Argument, Node, Target, Value, map_arg
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
