"""Record a function of Values once and replay it for many inputs at once on Tensors."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.shape.joining import stack
from .value import Value, _births, as_value

_UNARY = ("neg", "abs", "relu", "exp", "log", "sqrt", "sin", "cos", "tanh", "sigmoid")
_BINARY = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "**": "pow"}


class DataDependent(TypeError):
    """The function reads a number, so its expression may depend on the input, which a recording cannot represent."""


class Symbol(Value):
    """A Value without a number: operators on Symbols record the expression and compute nothing."""

    __slots__ = ()

    def __init__(self, children: Sequence[Value] = (), op: str = "") -> None:
        self._children, self._op, self._birth = tuple(children), op, next(_births)

    @property
    def data(self) -> NoReturn:  # type: ignore[override]
        raise DataDependent(
            "scalar.compile: the function reads the number of a Value that depends on its input (`if`, a "
            "comparison, float() or .data), so its expression may differ between inputs; remove the read, "
            "or call it on Values"
        )

    def __pow__(self, other: object) -> Symbol:
        return Symbol((self,), f"**{other}") if not isinstance(other, Value) else Symbol((self, other), "**")

    @staticmethod
    def dot(weights: Sequence[Value], inputs: Sequence[Value], bias: Value) -> Symbol:
        return Symbol((*weights, *inputs, bias), "dot")

    def _refuse(self, *other: object) -> Any:
        return self.data

    __lt__ = __le__ = __gt__ = __ge__ = __eq__ = __ne__ = __bool__ = __float__ = __int__ = __round__ = _refuse
    __hash__ = object.__hash__

    def __repr__(self) -> str:
        return f"Symbol({self._op or 'input'})"


def _define_operators() -> None:
    def unary(op: str) -> Callable[[Symbol], Symbol]:
        return lambda self: Symbol((self,), op)

    def binary(op: str) -> Callable[[Symbol, Any], Symbol]:
        return lambda self, other: Symbol((self, as_value(other)), op)

    def reflected(op: str) -> Callable[[Symbol, Any], Symbol]:
        return lambda self, other: Symbol((as_value(other), self), op)

    for name in _UNARY:
        method = f"__{name}__" if name in ("neg", "abs") else name
        setattr(Symbol, method, unary("ReLU" if name == "relu" else name))
    for op, name in _BINARY.items():
        if op != "**":
            setattr(Symbol, f"__{name}__", binary(op))
        setattr(Symbol, f"__r{name}__", reflected(op))


_define_operators()


class Compiled:
    """A compiled function; call it with arrays where the function takes Values.

    Attributes:
        parameters: the Values that the function uses besides its arguments; every call reads their ``data``, and
            differentiating a result adds to their ``grad``.
    """

    def __init__(self, function: Callable[..., object]) -> None:
        self._function = function
        self._structure: Any = None
        self.parameters: list[Value] = []

    def __call__(self, *args: object) -> Any:
        """Evaluate for all inputs at once: every number in the arguments may be an array of the common batch shape.

        Returns:
            A float64 Tensor of the batch shape if the function returns a Value, and lists of them for lists.

        Raises:
            DataDependent: the function reads numbers of its arguments.
            ValueError: a result is not finite, for which Values raise an error; or the arguments are nested differently
                than the arguments of the first call.
        """
        leaves: list[Any] = []
        structure = _flatten(args, leaves)
        if self._structure is None:
            self._record(structure, len(leaves))
            self._structure = structure
        elif structure != self._structure:
            raise ValueError(f"scalar.compile: recorded for arguments {self._structure}, got {structure}")
        return self._replay(leaves)

    def _record(self, structure: object, count: int) -> None:
        start = next(_births)
        self._inputs = [Symbol() for _ in range(count)]
        self._output = self._function(*_unflatten(structure, iter(self._inputs)))
        outputs: list[Any] = []
        self._output_structure = _flatten(self._output, outputs)
        self._outputs = [as_value(value) for value in outputs]
        nodes = {id(node): node for node in self._outputs}
        pending = list(self._outputs)
        while pending:
            for child in pending.pop()._children:
                if id(child) not in nodes:
                    nodes[id(child)] = child
                    pending.append(child)
        self._steps = sorted(nodes.values(), key=lambda node: node._birth)
        inputs = {id(node) for node in self._inputs}
        free = [node for node in self._steps if not node._children and id(node) not in inputs]
        self._constants = [node for node in free if node._birth > start]
        self.parameters = [node for node in free if node._birth < start]
        self._place = {id(node): index for index, node in enumerate(self.parameters)}
        self._layers = self._group_dots()
        # Parameters that are used only in grouped dots are read together from the vector of parameters.
        alone = {id(child) for node in self._steps if id(node) not in self._layers for child in node._children}
        self._read_alone = [id_ for id_ in self._place if id_ in alone | set(map(id, self._outputs))]

    def _group_dots(self) -> dict[int, list[Value]]:
        """Group dots of parameters with the same inputs, as in neurons of one layer: a group is one matrix product."""
        layers: dict[tuple[int, ...], list[Value]] = {}
        for node in self._steps:
            if node._op == "dot":
                weights, inputs, bias = _dot_parts(node)
                if all(id(leaf) in self._place for leaf in (*weights, bias)):
                    layers.setdefault(tuple(map(id, inputs)), []).append(node)
        return {id(node): layer for layer in layers.values() for node in layer}

    def _replay(self, leaves: list[object]) -> Any:
        tensors = [x.double() if isinstance(x, Tensor) else new_tensor(np.array(x, np.float64)) for x in leaves]
        shape = np.broadcast_shapes(*(x.array.shape for x in tensors))
        known: dict[int, object] = {}
        for symbol, x in zip(self._inputs, tensors, strict=True):
            known[id(symbol)] = x.expand(shape)
        theta = new_tensor(np.array([node.data for node in self.parameters], np.float64))
        theta.requires_grad = bool(self.parameters)
        if self.parameters:
            theta.register_post_accumulate_grad_hook(self._add_gradients)
        for node in self._constants:
            known[id(node)] = node.data
        for id_ in self._read_alone:
            known[id_] = theta[self._place[id_]]
        stacked: dict[tuple[int, ...], Tensor] = {}
        for node in self._steps:
            if id(node) in known or not node._children:
                continue
            if id(node) in self._layers:
                layer = self._layers[id(node)]
                inputs = _dot_parts(node)[1]
                key = tuple(map(id, inputs))
                if key not in stacked:
                    columns = [_expanded(known[id(x)], shape).reshape(-1) for x in inputs]
                    stacked[key] = stack(columns)
                for neuron, row in zip(layer, self._layer(theta, layer, stacked[key]).unbind(0), strict=True):
                    known[id(neuron)] = row.reshape(shape)
            else:
                known[id(node)] = _evaluate(node, [known[id(child)] for child in node._children])
        results = [_expanded(known[id(node)], shape) for node in self._outputs]
        for x in results:
            if not np.isfinite(x.array).all():
                raise ValueError(
                    "scalar.compile: a result is not finite; call the function on Values to see which operator fails"
                )
        return _unflatten(self._output_structure, iter(results))

    def _layer(self, theta: Tensor, layer: list[Value], inputs: Tensor) -> Tensor:
        parts = [_dot_parts(node) for node in layer]
        weights = theta[np.array([[self._place[id(w)] for w in part[0]] for part in parts])]
        biases = theta[np.array([[self._place[id(part[2])]] for part in parts])]
        return weights @ inputs + biases

    def _add_gradients(self, theta: Tensor) -> None:
        assert theta.grad is not None
        for node, gradient in zip(self.parameters, theta.grad.tolist(), strict=True):
            node.grad += gradient


def _dot_parts(node: Value) -> tuple[Sequence[Value], Sequence[Value], Value]:
    count = len(node._children) // 2
    return node._children[:count], node._children[count:-1], node._children[-1]


def _expanded(x: object, shape: tuple[int, ...]) -> Tensor:
    if not isinstance(x, Tensor):
        x = new_tensor(np.array(x, dtype=np.float64))
    return x.expand(shape)


def _evaluate(node: Value, operands: list[Any]) -> Any:
    op = node._op
    if op == "dot":
        count = len(operands) // 2
        total = operands[-1]
        for weight, x in zip(operands[:count], operands[count:-1], strict=True):
            total = total + weight * x
        return total
    if op in _BINARY:
        a, b = operands
        if not isinstance(a, Tensor) and not isinstance(b, Tensor):
            a = new_tensor(np.array(a, dtype=np.float64))
        return getattr(operator, _BINARY[op])(a, b)
    (x,) = operands
    if not isinstance(x, Tensor):
        x = new_tensor(np.array(x, dtype=np.float64))
    if op.startswith("**"):
        return x ** float(op[2:])
    return getattr(x, op.lower())()


def _flatten(value: object, leaves: list[object]) -> Any:
    """Return the nesting of lists and tuples, with None for each leaf."""
    if isinstance(value, (list, tuple)):
        return type(value)(_flatten(item, leaves) for item in value)
    leaves.append(value)
    return None


def _unflatten(structure: Any, leaves: Any) -> Any:
    if structure is None:
        return next(leaves)
    return type(structure)(_unflatten(item, leaves) for item in structure)


def compile(function: Callable[..., object]) -> Compiled:
    """Record the expression that ``function`` builds from Values, and replay it for many inputs at once.

    The first call runs the function once, on Values without numbers. Calls evaluate the recorded expression on float64
    Tensors, for all inputs at once. Differentiating a result adds the sum over all inputs to the ``grad`` of the Values
    that the function uses besides its arguments (a network's parameters).

    Args:
        function: takes Values, or lists of them, and returns a Value or lists of them.

    Raises:
        DataDependent: in the first call, if the function reads a number (an ``if`` on a Value).

    >>> from retrograd import scalar
    >>> w = scalar.Value(3.0)
    >>> line = scalar.compile(lambda x: w * x + 1)
    >>> y = line(np.array([0.0, 1.0, 2.0]))
    >>> y.tolist()
    [1.0, 4.0, 7.0]
    >>> y.sum().backward()
    >>> w.grad
    3.0
    """
    return Compiled(function)
