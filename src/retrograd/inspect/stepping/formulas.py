"""The mathematics of a derivative rule: the formula from the operator's documentation, and one element worked out."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Callable, Mapping
from functools import cache
from operator import add, mul, neg, pow, sub, truediv
from typing import Protocol

import numpy as np

from ...core.arrays.devices import is_array
from ...core.tensor.tensor import Tensor
from ...ops.nn.losses.classes import Classes
from ...ops.table.registry import OPERATORS, Operator
from ..drawing.figures import number, numbers_of


class Step(Protocol):
    """The data of one operator of a backward pass: see ``Event``."""

    operator: str
    call: str
    inputs: tuple[str, ...]
    incoming: Tensor | tuple[Tensor | None, ...]
    outgoing: list[Tensor | None]
    summed_over: list[tuple[int, ...]]

    @property
    def read(self) -> dict[str, object]:
        """The values that the rule read, by name."""

    def read_for(self, place: int) -> list[str]:
        """Return the names of the values that the rule of the input at ``place`` read."""


_DERIVATIVE = re.compile(r"^Derivatives?: (.*?)(?=^\s*$|^[A-Z][a-z]+:|\Z)", re.MULTILINE | re.DOTALL)
_TERMS = 3  # the most terms of a sum that are shown


def formula(operator: str, call: str) -> str:
    """Return the derivative that the operator's documentation states; "" if there is none.

    >>> formula("mm", "matmul")
    'input: g @ mat2^T; mat2: input^T @ g.'
    """
    for name in (operator, call):
        found = _by_name().get(name)
        stated = None if found is None else _DERIVATIVE.search(found.function.__doc__ or "")
        if stated is not None:
            return " ".join(stated[1].replace("``", "").split())
    return ""


@cache
def _by_name() -> dict[str, Operator]:
    """Return the operators by name and by alias, without namespace."""
    usual = ("nn.functional", "")  # if two operators have one name, the last of these namespaces wins
    ranked = sorted(OPERATORS.values(), key=lambda one: usual.index(one.namespace) if one.namespace in usual else -1)
    found = {alias: one for one in ranked for alias in one.aliases}
    return found | {one.name: one for one in ranked}


def worked_element(event: Step) -> str:
    """Return how the largest element of the gradient of an input follows from what the rule read; "" if none does."""
    for place, g in enumerate(event.outgoing):
        if g is None or not g.array.size:
            continue
        values = numbers_of(g)
        at = np.unravel_index(int(np.argmax(np.where(np.isnan(values), np.inf, np.abs(values)))), values.shape)
        index = tuple([int(i) for i in at])
        name = event.inputs[place]
        result = f"gradient of {_at(name, index)} = {_number(values[index])}"
        came = event.incoming if isinstance(event.incoming, Tensor) else None
        upstream = None if came is None else numbers_of(came)
        read = event.read
        arrays = {key: numbers_of(read[key]) for key in event.read_for(place) if is_array(read[key])}
        product = None if upstream is None else _product(event.operator, place, index, upstream, arrays)
        if product is None and upstream is not None and values.dtype.kind in "fViu" and not event.summed_over[place]:
            stated = formula(event.operator, event.call)
            product = substituted(stated, place, _terms(event, place, index, values, upstream), float(values[index]))
        if product is not None:
            return f"{result} = {product}"
        about = index, values.shape, event.summed_over[place], values[index]
        parts = [] if upstream is None else _element("g", upstream, *about)
        for key, array in arrays.items():
            parts += _element(key, array, *about)
        return f"{result}, from {', '.join(parts)}" if parts else ""
    return ""


def substituted(stated: str, place: int, terms: Mapping[str, float], result: float) -> str | None:
    """Return the formula of an input with numbers in place of its terms, if it is arithmetic and gives the result.

    >>> substituted("input: g * other; other: g * input.", 0, {"g": 0.5, "other": 3.0, "n": 1}, 1.5)
    'g * other = 0.5 * 3'
    >>> substituted("g where the input is positive, else 0.", 0, {"g": 0.5, "n": 1}, 0.5)
    """
    clauses = [clause.strip() for clause in stated.rstrip(".").split(";")]
    labeled = [clause.partition(": ") for clause in clauses if re.match(r"\w+: ", clause)]
    clause = labeled[place][2] if place < len(labeled) else clauses[0] if not labeled and place == 0 else ""
    clause = re.split(r",|\bfor\b", re.sub(r"^with \w the result ", "", clause))[0].strip()
    numbers = {name: f"({_number(value)})" if value < 0 else _number(value) for name, value in terms.items()}
    for text in (clause, f"{clause} / n"):
        if np.isclose(_value(text, terms), result, rtol=1e-3, atol=0):
            return text if text in terms else f"{text} = {_filled(text, numbers)}"
    return None


def _filled(text: str, terms: Mapping[str, str]) -> str:
    """Return a formula with its terms replaced by ``terms``; a space between factors becomes ``*``."""
    for name in sorted(terms, key=len, reverse=True):
        text = re.sub(rf"(?<![\w.]){re.escape(name)}(?![\w(])", terms[name], text)
    return re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", text)


def _value(text: str, terms: Mapping[str, float]) -> float:
    """Return the value of a formula; NaN of text that is not arithmetic."""
    values = {f"_{i}": value for i, value in enumerate(terms.values())}
    try:
        filled = _filled(text, dict(zip(terms, values, strict=True))).replace("^", "**")
        return _evaluated(ast.parse(filled, mode="eval").body, values)
    except (SyntaxError, KeyError, ArithmeticError, ValueError):
        return math.nan


_ARITHMETIC: dict[type[ast.AST], Callable[..., float]] = {
    ast.Add: add, ast.Sub: sub, ast.Mult: mul, ast.Div: truediv, ast.Pow: pow, ast.USub: neg,
}  # fmt: skip
_FUNCTIONS: dict[str, Callable[[float], float]] = {
    "exp": math.exp, "log": math.log, "sqrt": math.sqrt, "sin": math.sin, "cos": math.cos, "tanh": math.tanh,
    "sgn": lambda x: float(np.sign(x)),
}  # fmt: skip


def _evaluated(node: ast.expr, values: Mapping[str, float]) -> float:
    """Return the value of an expression of numbers, names, arithmetic and a few functions.

    Raises:
        KeyError: the expression has anything else.
    """
    if isinstance(node, ast.BinOp):
        return _ARITHMETIC[type(node.op)](_evaluated(node.left, values), _evaluated(node.right, values))
    if isinstance(node, ast.UnaryOp):
        return _ARITHMETIC[type(node.op)](_evaluated(node.operand, values))
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and len(node.args) == 1:
        return _FUNCTIONS[node.func.id](_evaluated(node.args[0], values))
    if isinstance(node, ast.Constant) and isinstance(node.value, (int, float)):
        return float(node.value)
    return values[node.id if isinstance(node, ast.Name) else ""]


def _terms(
    event: Step, place: int, index: tuple[int, ...], values: np.ndarray, upstream: np.ndarray
) -> dict[str, float]:
    """Return the numbers at an element of a gradient, by the names that formulas use."""
    read, shape = event.read, values.shape
    labels = re.findall(r"(?:^|; )(\w+): ", formula(event.operator, event.call)) or ["input"]
    dims = read.get("dim")
    reduced = [axis % len(shape) for axis in dims] if isinstance(dims, tuple) and upstream.ndim < len(shape) else []
    at = {shape: index, (): (), tuple(np.delete(shape, reduced)): tuple(np.delete(index, reduced))}.get(upstream.shape)
    terms = {"n": values.size / max(1, upstream.size)}
    if at is not None:
        terms["g"] = float(upstream[at])
    for name, value in read.items():
        array = numbers_of(value) if is_array(value) else np.asarray(value if isinstance(value, (int, float)) else None)
        if array.dtype.kind not in "fViu" or array.shape not in (shape, ()):
            continue
        number_at = float(array[index if array.shape else ()])
        if name in event.inputs and event.inputs.index(name) < len(labels):
            terms[labels[event.inputs.index(name)]] = number_at
        elif name == "ans":
            result = re.match(r"with (\w) the result", formula(event.operator, event.call))
            terms |= {name: number_at, f"{event.operator}(input)": number_at}
            terms |= {result[1]: number_at} if result else {}
        if array.shape and event.operator in ("cross_entropy", "log_softmax", "softmax") and name in ("x", "ans"):
            along = dims if isinstance(dims, int) else min(1, len(shape) - 1)
            row = np.moveaxis(array, along, -1)[tuple(np.delete(index, along))].astype(np.float64)
            shares = row if event.operator == "softmax" else np.exp(row - row.max()) / np.exp(row - row.max()).sum()
            terms["softmax(input)"] = float(shares[index[along]])
            if upstream.shape == shape:
                gs = np.moveaxis(upstream, along, -1)[tuple(np.delete(index, along))]
                terms |= {"sum(g)": float(gs.sum()), "sum(g ans)": float((gs * row).sum())}
    classes = read.get("classes")
    if isinstance(classes, Classes) and values.ndim == 2:
        terms |= {"y": float(numbers_of(classes.index)[index[0]] == index[1])}
        terms |= {"n": float(classes.divisor)} if classes.divisor is not None else {}
    return terms


def _product(
    operator: str, place: int, index: tuple[int, ...], g: np.ndarray, arrays: dict[str, np.ndarray]
) -> str | None:
    """Return the sum of products that gives an element of the gradient of a matrix product."""
    if operator == "linear" and place < 2:
        if place == 0 and "w" in arrays:
            return _dot(("g", g[index[:-1]]), ("w", arrays["w"][:, index[-1]]))
        if place == 1 and "x" in arrays and g.ndim:
            rows = arrays["x"].reshape(-1, arrays["x"].shape[-1])
            return _dot(("g", g.reshape(-1, g.shape[-1])[:, index[0]]), ("x", rows[:, index[1]]))
    if operator == "mm" and g.ndim == 2:
        if place == 0 and "y" in arrays:
            return _dot(("g", g[index[0]]), ("y", arrays["y"][index[1]]))
        if place == 1 and "x" in arrays:
            return _dot(("x", arrays["x"][:, index[0]]), ("g", g[:, index[1]]))
    return None


def _dot(a: tuple[str, np.ndarray], b: tuple[str, np.ndarray]) -> str:
    """Return the inner product of two vectors, with its largest terms."""
    (_, x), (_, y) = a, b
    order = np.argsort(-np.abs(x * y), kind="stable")[:_TERMS]
    terms = " + ".join(f"{_number(x[k])} * {_number(y[k])}" for k in order)
    rest = f" + {len(x) - len(order)} smaller terms" if len(x) > len(order) else ""
    return f"sum of {a[0]} * {b[0]} over {len(x)}: {terms}{rest}"


def _element(
    name: str, array: np.ndarray, index: tuple[int, ...], shape: tuple[int, ...], summed: tuple[int, ...], result: float
) -> list[str]:
    """Return the element of an array that belongs to an element of the gradient, if shapes determine it."""
    if array.shape == () and array.dtype.kind in "fcViu":
        return [f"{name} = {_number(array[()])}"]
    if summed:
        count = int(np.prod([array.shape[axis] for axis in summed if axis < array.ndim]))
        if name != "g" or array.ndim <= max(summed):
            return []
        added = array.sum(axis=summed).size == math.prod(shape) and array.sum(axis=summed).reshape(shape)[index]
        return [f"{'the sum of ' if np.isclose(added, result) else ''}{count:,} elements of g"]
    if array.shape == shape and array.dtype.kind in "fcViub":
        return [f"{_at(name, index)} = {_number(array[index])}"]
    return []


def _at(name: str, index: tuple[int, ...]) -> str:
    return f"{name}[{', '.join(map(str, index))}]" if index else name


def _number(value: object) -> str:
    return number(float(value)) if isinstance(value, (int, float, np.integer, np.floating)) else str(value)
