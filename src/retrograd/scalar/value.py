"""A number that records the operators that computed it, and computes derivatives from this record."""

import math
import operator
from collections.abc import Callable, Iterable, Sequence
from itertools import count
from typing import Union

Number = Union["Value", float]
Nodes = Sequence["Value"]
Reals = Sequence[float]
_births = count()


def _operator(
    op: str, function: Callable[..., float], slopes: Callable[..., Reals], doc: str | None = None
) -> Callable[..., "Value"]:
    """Return a method that computes function(a, ...), with slopes(a, ..., result) = (d(result)/da, ...)."""

    def method(*operands: Number) -> "Value":
        try:
            nodes = [v if type(v) is Value else as_value(v) for v in operands]
        except TypeError:
            if any(getattr(v, "ndim", 0) > 0 for v in operands):
                return NotImplemented  # so that NumPy applies the operator to each element of an array
            raise
        numbers = [node.data for node in nodes]
        try:
            result = function(*numbers)
        except (ValueError, ArithmeticError) as error:
            raise type(error)(f"{op} of {numbers}: {error.args[-1]}") from None
        try:
            return Value(result, nodes, op, slopes(*numbers, result))
        except (ValueError, ArithmeticError):  # no finite derivative, as for sqrt at 0: backward raises the error
            return Value(result, nodes, op, (math.inf,) * len(nodes))

    method.__doc__ = doc
    return method


def _comparison(compare: Callable[..., bool]) -> Callable[["Value", object], bool]:
    return lambda self, other: compare(self.data, other)


class Value:
    """A float ``data`` and, after ``backward()`` of a result, the derivative ``grad`` of the result with respect to it.

    Operators (+ - * / ** abs) and methods (exp log sqrt sin cos tanh sigmoid relu) return a new Value with its operands
    and the derivative d(result)/d(operand) for each. Comparisons compare numbers. Errors name the operator: ValueError
    (log of 0), ZeroDivisionError (0 ** -1), OverflowError (exp of 1000).

    Args:
        data: a real number.
        label: a name for drawings.

    >>> x, y = Value(2.0), Value(-3.0)
    >>> (x * y + x**3).backward()
    >>> x.grad, y.grad  # y + 3 x**2, x
    (9.0, 2.0)
    """

    __slots__ = ("_birth", "_children", "_op", "_slopes", "data", "grad", "label")

    def __init__(self, data: float, _children: Nodes = (), _op: str = "", _slopes: Reals = (), label: str = "") -> None:
        if type(data) is not float:
            data = _as_float(data)
        if len(_slopes) != len(_children):
            raise TypeError(f"Value: {len(_children)} operands of {_op!r} need as many slopes, got {len(_slopes)}")
        if _children and not math.isfinite(data) and all(math.isfinite(child.data) for child in _children):
            raise OverflowError(f"{_op} of {[child.data for child in _children]}: too large for a float")
        self.data: float = data
        self.grad, self.label, self._birth = 0.0, label, next(_births)
        self._children, self._slopes, self._op = _children, _slopes, _op

    @property
    def _prev(self) -> set["Value"]:
        return set(self._children)

    def backward(self) -> None:
        """Add d(self)/d(node) to the ``grad`` of every node that self was computed from, and of self.

        Raises OverflowError if a derivative is not finite, as for sqrt at 0; every grad is then unchanged.
        """
        flow = dict.fromkeys(nodes_of(self), 0.0)
        flow[self] = 1.0
        for node, grad in flow.items():
            if not math.isfinite(grad):
                users = [user for user in flow if any(child is node for child in user._children)]
                blame = ", ".join(f"{user._op} of {[child.data for child in user._children]}" for user in users)
                raise OverflowError(f"backward: the gradient of {node._op or 'leaf'} {node} is {grad}, from {blame}")
            if grad:  # skip zeros, which would give NaN with an infinite derivative
                for child, slope in zip(node._children, node._slopes):
                    flow[child] += grad * slope
        for node, grad in flow.items():
            node.grad += grad

    def _backward(self) -> None:
        """One step of the chain rule, under micrograd's name: add grad * d(self)/d(operand) to each operand's grad."""
        for child, slope in zip(self._children, self._slopes):
            child.grad += self.grad * slope

    def __pow__(self, other: Number) -> "Value":
        if getattr(other, "ndim", 0) > 0:
            return NotImplemented
        b = as_value(other).data
        if self.data < 0 and not b.is_integer():
            raise ValueError(f"** of {[self.data, b]}: a negative base needs an integer exponent")
        if not isinstance(other, Value):
            return _operator(f"**{other}", lambda a: a**b, lambda a, y: (b and b * a ** (b - 1),))(self)
        return _operator("**", pow, lambda a, b, y: (b and b * a ** (b - 1), y and y * math.log(a)))(self, other)

    __add__ = __radd__ = _operator("+", operator.add, lambda a, b, y: (1.0, 1.0))
    __mul__ = __rmul__ = _operator("*", operator.mul, lambda a, b, y: (b, a))
    __sub__ = _operator("-", operator.sub, lambda a, b, y: (1.0, -1.0))
    __truediv__ = _operator("/", operator.truediv, lambda a, b, y: (1 / b, -y / b))
    __rsub__, __rtruediv__ = lambda a, b: as_value(b) - a, lambda a, b: as_value(b) / a
    __rpow__: Callable[..., "Value"] = lambda a, b: as_value(b) ** a
    __pos__: Callable[["Value"], "Value"] = lambda a: a
    __neg__ = _operator("neg", operator.neg, lambda a, y: (-1.0,))
    __abs__ = _operator("abs", abs, lambda a, y: (a and a / y,))
    relu = _operator(
        "ReLU", lambda a: max(a, 0.0), lambda a, y: (float(a > 0),), "``max(a, 0)``, with derivative 1 above 0, else 0."
    )
    exp = _operator("exp", math.exp, lambda a, y: (y,), "``e^a``, which is its own derivative.")
    log = _operator("log", math.log, lambda a, y: (1 / a,), "The natural logarithm; its derivative is ``1 / a``.")
    sqrt = _operator("sqrt", math.sqrt, lambda a, y: (0.5 / y,), "``sqrt(a)``; its derivative is ``1 / (2 sqrt(a))``.")
    sin = _operator("sin", math.sin, lambda a, y: (math.cos(a),), "``sin(a)``; its derivative is ``cos(a)``.")
    cos = _operator("cos", math.cos, lambda a, y: (-math.sin(a),), "``cos(a)``; its derivative is ``-sin(a)``.")
    tanh = _operator("tanh", math.tanh, lambda a, y: (1 - y * y,), "``tanh(a)``; its derivative is ``1 - tanh(a)^2``.")
    # 1 / (1 + exp(-a)), written so that exp never gets a positive argument
    sigmoid = _operator(
        "sigmoid",
        lambda a: math.exp(min(a, 0)) / (1 + math.exp(-abs(a))),
        lambda a, y: (y * (1 - y),),
        "``s = 1 / (1 + e^-a)``; its derivative is ``s (1 - s)``.",
    )
    __lt__, __le__, __gt__, __ge__ = map(_comparison, (operator.lt, operator.le, operator.gt, operator.ge))
    __eq__ = _comparison(operator.eq)
    __hash__ = object.__hash__  # by identity: equal numbers are still different nodes

    def __float__(self) -> float:
        return self.data

    def __repr__(self) -> str:
        return f"Value(data={self.data}, grad={self.grad})"


def as_value(number: Number) -> Value:
    return number if isinstance(number, Value) else Value(number)


def _as_float(data: object) -> float:
    """Return a real number as a float; raise TypeError for text and for objects with gradients, which would be lost."""
    try:
        if isinstance(data, (str, bytes)) or hasattr(data, "backward") or getattr(data, "ndim", 0) > 0:
            raise TypeError
        return float(data)  # type: ignore[arg-type]
    except (TypeError, ValueError):
        kind = f"{data!r}" if isinstance(data, (str, bytes, Value)) else f"a {type(data).__name__}: {data!r}"
        raise TypeError(f"Value: data must be a real number, got {kind}") from None


def dot(weights: Iterable[Number], inputs: Iterable[Number], bias: Number = 0.0) -> Value:
    """Return weights[0] * inputs[0] + weights[1] * inputs[1] + ... + bias as one node; ValueError if lengths differ.

    Args:
        weights, inputs: numbers or Values, of the same length.
        bias: a number or Value.

    >>> dot([2.0, 3.0], [10.0, 100.0], 1.0).data
    321.0
    """
    w, x, b = [as_value(weight) for weight in weights], [as_value(number) for number in inputs], as_value(bias)
    if len(w) != len(x):
        raise ValueError(f"dot: expected a weight for each input, got {len(w)} weights and {len(x)} inputs")
    for kind in {*map(type, (*w, *x, b))} - {Value}:
        if hasattr(kind, "dot"):  # symbols of `compile` have no numbers
            return kind.dot(w, x, b)
    w_data, x_data = [weight.data for weight in w], [number.data for number in x]
    return Value(sum(map(operator.mul, w_data, x_data), b.data), (*w, *x, b), "dot", (*x_data, *w_data, 1.0))


def nodes_of(root: Value, max_nodes: float = math.inf) -> list[Value]:
    """Return root and every node that it was computed from, latest first, so that results come before operands."""
    nodes, seen = [root], {root}
    for node in nodes:
        new = set(node._children) - seen
        seen |= new
        nodes += new
        if len(nodes) > max_nodes:
            raise ValueError(f"the graph has more than max_nodes = {max_nodes} nodes")
    return sorted(nodes, key=lambda node: node._birth, reverse=True)
