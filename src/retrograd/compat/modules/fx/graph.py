"""``Graph``: a list of nodes in the order in which they run."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from ....nn.base.module import Module
from .code import CodeGen, PythonCode, TransformCode, python_code
from .names import Namespace, qualified_name
from .node import SIDE_EFFECTS, Argument, Node, Target, Value, map_arg, nodes_in, ring

if TYPE_CHECKING:
    from contextlib import AbstractContextManager

_NONE_GIVEN = object()


class _NodeList(Sequence[Node]):
    """The nodes of a graph, in order. A loop may erase and insert nodes."""

    def __init__(self, graph: Graph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return self._graph._count

    def __iter__(self) -> Iterator[Node]:
        return ring(self._graph._root)

    def __reversed__(self) -> Iterator[Node]:
        return ring(self._graph._root, reverse=True)

    def __getitem__(self, index: Value) -> Value:
        return list(self)[index]


class _InsertPoint:
    """Lets new nodes be inserted at another place, until the end of a ``with`` statement."""

    def __init__(self, graph: Graph, insert: Callable[[Node], None]) -> None:
        self._graph, self._before = graph, graph._insert
        graph._insert = insert

    def __enter__(self) -> None:
        pass

    def __exit__(self, *error: object) -> None:
        self._graph._insert = self._before


class Graph:
    """A function as a list of nodes: its inputs, calls, and result.

    >>> import retrograd as rg
    >>> from retrograd.compat.modules import fx
    >>> graph = fx.Graph()
    >>> x = graph.placeholder("x")
    >>> y = graph.call_function(rg.exp, (x,))
    >>> result = graph.output(y)
    >>> print(graph)
    graph():
        %x : [num_users=1] = placeholder[target=x]
        %exp : [num_users=1] = call_function[target=retrograd.exp](args = (%x,), kwargs = {})
        return exp
    >>> fx.GraphModule(rg.nn.Module(), graph)(rg.zeros(2))
    tensor([1., 1.])
    """

    def __init__(
        self, owning_module: Module | None = None, tracer_cls: Value = None, tracer_extras: Value = None
    ) -> None:
        self.owning_module = owning_module
        self.names = Namespace()
        self._count = 0
        self._numbered = True
        self._codegen = CodeGen()
        self._tracer_cls, self._tracer_extras = tracer_cls, tracer_extras
        self._root = Node(self, "", "output", "root", (), {})
        self._root.op = "root"
        self._insert: Callable[[Node], None] = self._root.prepend

    # Order

    @property
    def nodes(self) -> _NodeList:
        """The nodes, in order."""
        return _NodeList(self)

    def moved(self) -> None:
        """Forget the positions of nodes, because one moved."""
        self._numbered = False

    def position(self, node: Node) -> int:
        """Return the position of a node in the list."""
        if not self._numbered:
            for number, each in enumerate(self.nodes):
                each.position = number
            self._numbered = True
        return node.position

    def inserting_before(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes before ``n``, or at the beginning. Use it in a ``with`` statement to restore the place."""
        if n is None:
            return self.inserting_after(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert before is not in graph.")
        return _InsertPoint(self, n.prepend)

    def inserting_after(self, n: Node | None = None) -> _InsertPoint:
        """Insert new nodes after ``n``, or at the end. Use it in a ``with`` statement to restore the place."""
        if n is None:
            return self.inserting_before(self._root)
        if n.graph is not self:
            raise AssertionError("Node to insert after is not in graph.")
        place = [n]

        def insert(node: Node) -> None:
            place[0].append(node)
            place[0] = node

        return _InsertPoint(self, insert)

    def find_nodes(self, *, op: str, target: Target | None = None, sort: bool = True) -> list[Node]:
        """Return the nodes with an op, and with a target if it is given."""
        return [node for node in self.nodes if node.op == op and (target is None or node.target == target)]

    def output_node(self) -> Node:
        """Return the output node."""
        return next(node for node in reversed(self.nodes) if node.op == "output")

    # New nodes

    def create_node(
        self,
        op: str,
        target: Target,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        name: str | None = None,
        type_expr: Value = None,
    ) -> Node:
        """Insert a node at the place of insertion. A name that is in use gets a number."""
        if not isinstance(args or (), tuple):
            raise AssertionError("args must be a tuple")
        if not isinstance(kwargs or {}, dict):
            raise AssertionError("kwargs must be a dict")
        candidate = name if name is not None else self._target_to_str(target)
        unique = self.names.create_name(candidate, None)
        node = Node(self, unique, op, target, args or (), kwargs or {}, type_expr)
        if op == "call_module" and self.owning_module is not None:
            self._warn_unless_present(str(target))
        self.names.associate(unique, node)
        self._insert(node)
        self._count += 1
        return node

    def _warn_unless_present(self, target: str) -> None:
        try:
            assert self.owning_module is not None
            self.owning_module.get_submodule(target)
        except AttributeError:
            import warnings

            warnings.warn(
                "Attempted to insert a call_module Node with no underlying reference in the owning GraphModule! Call "
                "GraphModule.add_submodule to add the necessary submodule",
                stacklevel=4,
            )

    def _target_to_str(self, target: Target) -> str:
        if callable(target):
            name = str(getattr(target, "__name__", type(target).__name__))
        else:
            name = target
            if name.startswith("__") and name.endswith("__"):
                name = name[2:-2]
        return _snake_case(name.lstrip("*") if name.startswith("*") else name)

    def placeholder(self, name: str, type_expr: Value = None, default_value: Value = _NONE_GIVEN) -> Node:
        """Insert an input."""
        args = () if default_value is _NONE_GIVEN or _is_empty(default_value) else (default_value,)
        return self.create_node("placeholder", name, args=args, type_expr=type_expr)

    def get_attr(self, qualified_name: str, type_expr: Value = None) -> Node:
        """Insert a node for the attribute of the module at a path."""
        return self.create_node("get_attr", qualified_name, type_expr=type_expr)

    def call_module(
        self,
        module_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Value = None,
    ) -> Node:
        """Insert a call of the submodule at a path."""
        return self.create_node("call_module", module_name, args, kwargs, type_expr=type_expr)

    def call_method(
        self,
        method_name: str,
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Value = None,
    ) -> Node:
        """Insert a call of a method of the first argument."""
        return self.create_node("call_method", method_name, args, kwargs, type_expr=type_expr)

    def call_function(
        self,
        the_function: Callable[..., Value],
        args: tuple[Argument, ...] | None = None,
        kwargs: dict[str, Argument] | None = None,
        type_expr: Value = None,
        name: str | None = None,
    ) -> Node:
        """Insert a call of a function."""
        return self.create_node("call_function", the_function, args, kwargs, name=name, type_expr=type_expr)

    def output(self, result: Argument, type_expr: Value = None) -> Node:
        """Insert the result."""
        return self.create_node("output", "output", args=(result,), type_expr=type_expr)

    # Copies

    def node_copy(self, node: Node, arg_transform: Callable[[Node], Argument] = lambda x: x) -> Node:
        """Insert a copy of a node, of this or another graph. ``arg_transform`` maps the nodes in its arguments."""
        args, kwargs = map_arg((node.args, node.kwargs), arg_transform)
        copied = self.create_node(node.op, node.target, tuple(args), dict(kwargs), node.name, node.type)
        copied.meta = dict(node.meta)
        return copied

    def graph_copy(self, g: Graph, val_map: dict[Node, Node], return_output_node: bool = False) -> Argument:
        """Insert copies of all nodes of a graph but its output, and return the value of the output in this graph.

        Args:
            g: the graph to copy.
            val_map: maps nodes of ``g`` to nodes of this graph; receives the copied nodes.
            return_output_node: also return the output node of ``g``, as the second of a pair.
        """
        for node in g.nodes:
            if node in val_map:
                continue
            if node.op == "output":
                result = map_arg(node.args[0], val_map.__getitem__)
                return (result, node) if return_output_node else result
            val_map[node] = self.node_copy(node, val_map.__getitem__)
        return None

    def __deepcopy__(self, memo: dict[int, Value] | None = None) -> Graph:
        copied = Graph(tracer_cls=self._tracer_cls, tracer_extras=self._tracer_extras)
        memo = {} if memo is None else memo
        memo[id(self)] = copied
        val_map: dict[Node, Node] = {}
        for node in self.nodes:
            val_map[node] = copied.node_copy(node, val_map.__getitem__)
            memo[id(node)] = val_map[node]
        copied._codegen = self._codegen
        return copied

    def __reduce__(self) -> tuple[Value, ...]:
        nodes = list(self.nodes)
        numbers = {node: _Reference(number) for number, node in enumerate(nodes)}
        steps = [
            (node.op, node.target, *map_arg((node.args, node.kwargs), numbers.__getitem__), node.name, node.type)
            for node in nodes
        ]
        return _rebuilt, (steps, self._codegen, self._tracer_cls)

    # Changes

    def erase_node(self, to_erase: Node) -> None:
        """Remove a node that nothing reads.

        Raises:
            RuntimeError: another node reads it.
        """
        if to_erase.users:
            raise RuntimeError(
                f"Tried to erase Node {to_erase} but it still had {len(to_erase.users)} users in the graph: "
                f"{to_erase.users}!"
            )
        if to_erase.graph is not self:
            raise RuntimeError(f"Attempting to remove {to_erase} from wrong graph!")
        if to_erase._erased:
            import warnings

            warnings.warn(f"erase_node({to_erase}) on an already erased node", stacklevel=2)
            return
        to_erase._unlink()
        to_erase._erased = True
        self._count -= 1
        self.moved()
        to_erase.args, to_erase.kwargs = (), {}

    def eliminate_dead_code(self, is_impure_node: Callable[[Node], bool] | None = None) -> bool:
        """Erase the nodes that nothing reads, and return whether there were any.

        Inputs, the output, functions marked by ``has_side_effect``, random functions and assertions stay.

        >>> import retrograd as rg
        >>> from retrograd.compat.modules import fx
        >>> def function(x):
        ...     unused = x + 1
        ...     return x * 2
        >>> graph = fx.symbolic_trace(function).graph
        >>> graph.eliminate_dead_code(), len(graph.nodes)
        (True, 3)
        """
        self.lint()
        count = self._count
        for node in reversed(self.nodes):
            impure = node.is_impure() if is_impure_node is None else is_impure_node(node)
            if not impure and not node.users:
                self.erase_node(node)
        return self._count < count

    def lint(self) -> None:
        """Check that the graph is well formed: order, names, and that modules and attributes exist.

        Raises:
            RuntimeError: an argument comes from another graph, is used before it is defined, or a name or target is
                defined twice or absent.
        """
        names: set[str] = set()
        seen: set[Node] = set()
        for node in self.nodes:
            if node.graph is not self:
                raise RuntimeError(f"Node '{node}' does not belong to this Graph!")
            for used in nodes_in((node.args, node.kwargs)):
                if used.graph is not self:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' does not belong to this Graph, but was used as an "
                        "argument! If you are copying nodes from another graph, make sure to use `arg_transform` on "
                        f"node_copy() to remap values\n{self}"
                    )
                if used not in seen:
                    raise RuntimeError(
                        f"Argument '{used}' of Node '{node}' was used before it has been defined! Please check that "
                        f"Nodes in the graph are topologically ordered\n{self}"
                    )
            if node.name in names:
                raise RuntimeError(f"Node redefined name {node.name}!")
            names.add(node.name)
            seen.add(node)
            if self.owning_module is not None and node.op in ("get_attr", "call_module"):
                _check_target(self.owning_module, node)

    # Code

    def python_code(self, root_module: str, **options: Value) -> PythonCode:
        """Return the code of the graph as a function of a module, which the code names ``root_module``.

        ``verbose`` and the other options of PyTorch, which add comments to the code, have no effect.
        """
        namespace = Namespace()
        for node in self.nodes:
            namespace.associate(node.name, node)
        return python_code(self, root_module, namespace)

    def set_codegen(self, codegen: CodeGen) -> None:
        """Generate code with another ``CodeGen``."""
        self._codegen = codegen

    def on_generate_code(
        self, make_transformer: Callable[[TransformCode | None], TransformCode]
    ) -> AbstractContextManager[None]:
        """Register a function that changes the lines of the generated code.

        Args:
            make_transformer: takes the present function or None, and returns a function from lines to lines.

        Returns:
            A context manager whose end restores the present function.
        """
        before = self._codegen._body_transformer
        self._codegen._body_transformer = make_transformer(before)

        @contextmanager
        def restoring() -> Iterator[None]:
            try:
                yield
            finally:
                self._codegen._body_transformer = before

        return restoring()

    def process_inputs(self, *args: Value) -> Value:
        """Convert the arguments of a call to the values of the placeholders."""
        return self._codegen.process_inputs(*args)

    def process_outputs(self, out: Value) -> Value:
        """Convert the value of the output node to the result of a call."""
        return self._codegen.process_outputs(out)

    # Printing

    def __str__(self) -> str:
        lines = [node.format_node() for node in self.nodes]
        return "graph():" + "".join(f"\n    {line}" for line in lines if line)

    def print_tabular(self) -> None:
        """Print the nodes as a table."""
        head = ("opcode", "name", "target", "args", "kwargs")
        rows = [tuple(map(str, (node.op, node.name, node.target, node.args, node.kwargs))) for node in self.nodes]
        widths = [max(map(len, column)) for column in zip(head, *rows, strict=True)]
        for row in (head, tuple("-" * width for width in widths), *rows):
            print("  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip())


class _Reference:
    """A node in a pickled graph, by its number."""

    def __init__(self, number: int) -> None:
        self.number = number


def _rebuilt(steps: list[tuple[Value, ...]], codegen: CodeGen, tracer_cls: Value) -> Graph:
    from .node import map_aggregate

    graph = Graph(tracer_cls=tracer_cls)
    graph._codegen = codegen
    nodes: list[Node] = []
    for op, target, args, kwargs, name, kind in steps:
        args, kwargs = map_aggregate(
            (args, kwargs), lambda value: nodes[value.number] if isinstance(value, _Reference) else value
        )
        nodes.append(graph.create_node(op, target, tuple(args), dict(kwargs), name, kind))
    return graph


def _is_empty(value: object) -> bool:
    import inspect

    return value is inspect.Signature.empty


def _snake_case(name: str) -> str:
    """Return ``SomeName`` as ``some_name``, and other names unchanged."""
    parts: list[str] = []
    for place, char in enumerate(name):
        if char.isupper() and place and name[place - 1].islower():
            parts.append("_")
        parts.append(char.lower())
    return "".join(parts)


def _check_target(module: Module, node: Node) -> None:
    """Raise RuntimeError unless the target of a node exists in the module; warn if it has an unusual type."""
    import warnings

    where: Value = module
    parts = str(node.target).split(".")
    for place, part in enumerate(parts):
        if not hasattr(where, part):
            path = ".".join(parts[:place])
            raise RuntimeError(
                f"Node {node} target {node.target} references nonexistent attribute {part} of {path or 'the module'}"
            )
        where = getattr(where, part)
    if node.op == "call_module" and not isinstance(where, Module):
        raise RuntimeError(f"Node {node} target {node.target} {where} does not reference an nn.Module")
    if node.op == "get_attr" and where is None:
        warnings.warn(f"Node {node} target {node.target} of the owning module is None", stacklevel=3)


__all__ = ["SIDE_EFFECTS", "CodeGen", "Graph", "PythonCode", "qualified_name"]
