"""``Proxy``: the value of a node while a function is traced. Operations on a Proxy become nodes."""

from __future__ import annotations

import dis
import operator
import sys
import traceback
from collections.abc import Callable, Iterator
from dataclasses import fields, is_dataclass
from enum import Enum
from typing import NoReturn, cast

import numpy as np

from ....core.arrays.devices import Device
from ....core.tensor.tensor import Tensor
from ...torch_function import install
from ...types import layout, memory_format
from .graph import Graph
from .node import Argument, Node, Target, Value, map_aggregate

_CONSTANTS = (str, int, float, complex, Enum, Tensor, Device, np.dtype, layout, memory_format, type(None), type(...))


class TraceError(ValueError):
    """A program needs the value of a Proxy, which has none."""


class TracerBase:
    """Creates nodes and Proxies. ``Tracer`` adds the tracing of functions and modules."""

    graph: Graph
    record_stack_traces = False
    check_mutable_operations = False
    trace_asserts = False
    proxy_buffer_attributes = False
    traced_func_name = "forward"

    def create_node(
        self,
        kind: str,
        target: Target,
        args: tuple[Argument, ...],
        kwargs: dict[str, Argument],
        name: str | None = None,
        type_expr: Value = None,
    ) -> Node:
        """Insert a node into the graph. Override it to check or change what is recorded."""
        node = self.graph.create_node(kind, target, args, kwargs, name, type_expr)
        if self.record_stack_traces:
            node.stack_trace = "".join(traceback.format_list(traceback.extract_stack(sys._getframe(2))))
        return node

    def proxy(self, node: Node) -> Proxy:
        """Return the Proxy of a node."""
        return Proxy(node, self)

    def create_proxy(
        self,
        kind: str,
        target: Target,
        args: tuple[Value, ...],
        kwargs: dict[str, Value],
        name: str | None = None,
        type_expr: Value = None,
        proxy_factory_fn: Callable[[Node], Proxy] | None = None,
    ) -> Proxy:
        """Insert a node whose arguments may be Proxies, and return its Proxy."""
        args_, kwargs_ = self.create_arg(args), self.create_arg(kwargs)
        node = self.create_node(kind, target, args_, kwargs_, name, type_expr)
        return (proxy_factory_fn or self.proxy)(node)

    def create_arg(self, a: Value) -> Argument:
        """Return a value as the argument of a node: Proxies become nodes.

        Raises:
            NotImplementedError: nodes cannot hold a value of this type.
        """
        if isinstance(a, Proxy):
            return a.node
        if isinstance(a, tuple):
            parts = [self.create_arg(value) for value in a]
            return type(a)(*parts) if hasattr(a, "_fields") else tuple(parts)
        if isinstance(a, list):
            return [self.create_arg(value) for value in a]
        if isinstance(a, dict):
            for key in a:
                if isinstance(key, Proxy):
                    raise RuntimeError(
                        f"Keys for dictionaries used as an argument cannot contain a Node. Got key: {key}"
                    )
            return {key: self.create_arg(value) for key, value in a.items()}
        if isinstance(a, slice):
            return slice(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if isinstance(a, range):
            return range(self.create_arg(a.start), self.create_arg(a.stop), self.create_arg(a.step))
        if is_dataclass(a) and not isinstance(a, type):
            entries = {field.name: self.create_arg(getattr(a, field.name)) for field in fields(a)}
            return self.create_node("call_function", type(a), (), entries)
        if isinstance(a, _CONSTANTS) or a is ... or callable(a):
            return a
        raise NotImplementedError(f"argument of type: {type(a)}")

    def to_bool(self, obj: Proxy) -> bool:
        """Raise TraceError: a Proxy has no truth value. Override the method to choose a truth value."""
        raise TraceError("symbolically traced variables cannot be used as inputs to control flow")

    def iter(self, obj: Proxy) -> Iterator[Value]:
        """Raise TraceError: the length of a Proxy is unknown. Override the method to choose a length."""
        raise TraceError(
            "Proxy object cannot be iterated. This can be attempted when the Proxy is used in a loop or as a *args or "
            "**kwargs function argument. See the torch.fx docs on pytorch.org for a more detailed explanation of what "
            "types of control flow can be traced, and check out the Proxy docstring for help troubleshooting Proxy "
            "iteration errors"
        )

    def keys(self, obj: Proxy) -> Value:
        """Return a Proxy of ``obj.keys()``."""
        return Attribute(obj, "keys")()


class GraphAppendingTracer(TracerBase):
    """Inserts nodes at the place where the graph inserts new nodes."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph


class Proxy:
    """Stands for the value of a node. Operators, methods and functions that take it become nodes of the graph.

    >>> import retrograd as rg
    >>> from retrograd.compat.modules import fx
    >>> graph = fx.Graph()
    >>> x = fx.Proxy(graph.placeholder("x"))
    >>> (x + 1).sum()
    Proxy(sum_1)
    """

    node: Node
    tracer: TracerBase

    def __init__(self, node: Node, tracer: TracerBase | None = None) -> None:
        install()  # operators must dispatch on a Proxy before they read its attributes: a Proxy has every attribute
        self.node = node
        self.tracer = GraphAppendingTracer(cast("Graph", node.graph)) if tracer is None else tracer

    def __repr__(self) -> str:
        return f"Proxy({self.node.name})"

    def __getattr__(self, k: str) -> Attribute:
        # NumPy and operators look for protocols, which a Proxy does not have.
        if k.startswith("__array_") or k in ("__cuda_array_interface__", "__deepcopy__", "__len__"):
            raise AttributeError(k)
        return Attribute(self, k)

    def __getstate__(self) -> dict[str, Value]:
        return self.__dict__

    def __setstate__(self, state: dict[str, Value]) -> None:
        self.__dict__.update(state)

    def __call__(self, *args: Value, **kwargs: Value) -> Proxy:
        return self.tracer.create_proxy("call_method", "__call__", (self, *args), kwargs)

    def __iter__(self) -> Iterator[Value]:
        count = _unpacked_by(sys._getframe(1))
        if count is None:
            return self.tracer.iter(self)
        item = getattr(self, "__getitem__")  # noqa: B009  entered on the class by a loop
        return (item(place) for place in range(count))

    def __bool__(self) -> bool:
        if self.tracer.trace_asserts and _is_assertion(sys._getframe(1)):
            from ..toplevel import _assert

            self.tracer.create_proxy("call_function", _assert, (self, ""), {})
            return True
        return self.tracer.to_bool(self)

    def keys(self) -> Value:
        """Return the tracer's result for ``keys``, which ``**proxy`` calls."""
        return self.tracer.keys(self)

    def __len__(self) -> NoReturn:
        raise RuntimeError(
            "'len' is not supported in symbolic tracing by default. If you want this call to be recorded, please call "
            "torch.fx.wrap('len') at module scope"
        )

    @classmethod
    def __torch_function__(cls, orig_method: Value, types: Value, args: Value = None, kwargs: Value = None) -> Proxy:
        args, kwargs = args or (), kwargs or {}
        tracer = tracer_of((args, kwargs))
        if tracer is None:
            raise AssertionError("Expected at least one tracer but found none")
        name = getattr(orig_method, "__name__", "")
        if name == "einsum" and len(args) == 2 and isinstance(args[1], (tuple, list)):
            args = (args[0], *args[1])  # PyTorch records the operands as separate arguments
        if getattr(Tensor, name, None) is orig_method and not hasattr(orig_method, "exchange"):
            return tracer.create_proxy("call_method", name, args, kwargs)
        return tracer.create_proxy("call_function", orig_method, args, kwargs)


class Attribute(Proxy):
    """An attribute of a Proxy. It becomes a node when it is used as a value; a call becomes a call of a method."""

    def __init__(self, root: Proxy, attr: str) -> None:
        self.root, self.attr, self.tracer = root, attr, root.tracer
        self._node: Node | None = None

    @property
    def node(self) -> Node:  # type: ignore[override]
        """The node of ``getattr``, created at first use."""
        if self._node is None:
            self._node = self.tracer.create_proxy("call_function", getattr, (self.root, self.attr), {}).node
        return self._node

    def __call__(self, *args: Value, **kwargs: Value) -> Proxy:
        return self.tracer.create_proxy("call_method", self.attr, (self.root, *args), kwargs)


class ParameterProxy(Proxy):
    """A Proxy of a Parameter, whose shape is known."""

    def __init__(self, tracer: TracerBase, node: Node, name: str, param: Tensor) -> None:
        super().__init__(node, tracer)
        self.param, self._name = param, name

    def __repr__(self) -> str:
        return f"ParameterProxy({self._name})"

    @property
    def shape(self) -> Value:
        """The shape of the Parameter."""
        return self.param.shape

    def size(self, dim: int | None = None) -> Value:
        """Return the shape of the Parameter, or one of its sizes."""
        return self.param.shape if dim is None else self.param.shape[dim]

    def dim(self) -> int:
        """Return the number of dimensions of the Parameter."""
        return self.param.ndim

    @property
    def ndim(self) -> int:
        """The number of dimensions of the Parameter."""
        return self.param.ndim

    def numel(self) -> int:
        """Return the number of elements of the Parameter."""
        return self.param.numel()


def tracer_of(values: Value) -> TracerBase | None:
    """Return the tracer of the Proxies among values, or None without Proxies.

    Raises:
        RuntimeError: the Proxies have different tracers.
    """
    found: dict[int, TracerBase] = {}

    def visit(value: Value) -> Value:
        if isinstance(value, Proxy):
            found[id(value.tracer)] = value.tracer
        return value

    map_aggregate(values, visit)
    tracers = list(found.values())
    if any(isinstance(tracer, GraphAppendingTracer) for tracer in tracers):
        graphs = {id(tracer.graph) for tracer in tracers}
        tracers = tracers[:1] if len(graphs) == 1 else tracers
    if len(tracers) > 1:
        raise RuntimeError(
            f"Found multiple different tracers {tracers} while trying to trace operations {values}; the Proxies of one "
            "call must come from one tracer"
        )
    return tracers[0] if tracers else None


def _unpacked_by(frame: Value) -> int | None:
    """Return the number of values if the frame is at an unpacking (``a, b = proxy``), else None."""
    instruction = next((i for i in dis.get_instructions(frame.f_code) if i.offset == frame.f_lasti), None)
    if instruction is not None and instruction.opname == "UNPACK_SEQUENCE":
        return int(instruction.argval)
    return None


def _is_assertion(frame: Value) -> bool:
    """Return whether the frame is at the test of an ``assert`` statement."""
    instructions = list(dis.get_instructions(frame.f_code))
    at = next((number for number, i in enumerate(instructions) if i.offset == frame.f_lasti), None)
    if at is None or not instructions[at].opname.startswith("POP_JUMP"):
        return False
    return at + 1 < len(instructions) and instructions[at + 1].opname == "LOAD_ASSERTION_ERROR"


_OPERATORS = (
    "add and_ eq floordiv ge getitem gt invert le lshift lt matmul mod mul ne neg or_ pos pow rshift sub truediv xor"
)
_REFLECTED = "add and_ floordiv lshift matmul mod mul or_ pow rshift sub truediv xor"


def _python_method(name: str) -> Value:
    function = getattr(operator, name)

    def method(self: Proxy, *others: Value) -> Proxy:
        tracer = tracer_of((self, others)) or self.tracer
        return tracer.create_proxy("call_function", function, (self, *others), {})

    method.__name__ = f"__{name.strip('_')}__"
    method.__doc__ = f"Record ``operator.{name}``."
    return method


def _reflected_method(name: str) -> Value:
    function = getattr(operator, name)

    def method(self: Proxy, other: Value) -> Proxy:
        return self.tracer.create_proxy("call_function", function, (other, self), {})

    method.__name__ = f"__r{name.strip('_')}__"
    method.__doc__ = f"Record ``operator.{name}`` with the operands in reverse order."
    return method


for _name in _OPERATORS.split():
    setattr(Proxy, f"__{_name.strip('_')}__", _python_method(_name))
for _name in _REFLECTED.split():
    setattr(Proxy, f"__r{_name.strip('_')}__", _reflected_method(_name))
setattr(Proxy, "__hash__", object.__hash__)  # noqa: B010  __eq__ records
setattr(Proxy, "__array_ufunc__", None)  # noqa: B010  NumPy's operators leave Proxies to their own methods
