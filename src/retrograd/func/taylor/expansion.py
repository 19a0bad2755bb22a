"""Taylor coefficients of every node of a recorded graph, order by order.

Coefficient k is computed for all nodes, in the order in which they ran, before coefficient k + 1 of any node. A node
uses the first of these methods that applies:

* its primitive is linear in the inputs that move: each coefficient is the tangent of the inputs' coefficients;
* a recurrence of ``recurrences``, or the product rule of a bilinear primitive;
* its derivative rule. From ``y' = f'(x) x'`` follows ``k y_k = [f'(x) x']_(k-1)``. The rule is called once with
  Tensors and recorded, and the series of this smaller graph are computed along with the outer series, one order behind.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from ...core.graph.backward import without_history
from ...core.graph.modes import enable_grad, recording
from ...core.graph.nodes import Node, edge_of, oldest, reachable, saved_by
from ...core.graph.plan import rule_arguments
from ...core.graph.primitive import Primitive
from ...core.tensor.tensor import Tensor, new_tensor
from ..forward import tangent_through
from ..function_graph import Edge, begin
from .recurrences import BILINEAR, RULES, Coefficient, Expanded, Recurrence, Series, at, plus

Saved: TypeAlias = tuple[Any, ...]  # in the order of a primitive's layout


class NoSeries(Exception):
    """A node has no Taylor series, because its rule accepts only the saved values and not their series."""


class Expansion:
    """The series of the nodes between the seeds and some edges.

    Args:
        edges: the nodes or leaves whose series are computed.
        seeds: the series of the edges where the function starts. The caller appends their coefficients.
        differentiable: record the computation of the coefficients.

    Raises:
        NoSeries: a node has no Taylor series.
    """

    def __init__(self, edges: Sequence[Edge | None], seeds: Mapping[Edge, Series], differentiable: bool) -> None:
        self.series: dict[Edge, Series] = dict(seeds)
        self.differentiable, self.order = differentiable, 0
        self.recurrences: list[tuple[Series, Recurrence]] = []
        order, _ = reachable((edge for edge in edges if edge is not None), oldest(seeds))
        with recording(differentiable):
            for node in reversed(order):
                if node not in self.series:
                    self._add(node)

    def advance(self) -> None:
        """Compute the coefficients of the next order."""
        self.order += 1
        with recording(self.differentiable):
            for series, recurrence in self.recurrences:
                series.append(recurrence(self.order))

    def _add(self, node: Node) -> None:
        if node.plan.select is not None:
            together, index = self.series.get(node.parents[0]), node.plan.select
            if together is not None:
                self.series[node] = [None]
                self.recurrences.append((self.series[node], _selected(together, index)))
            return
        moving = {i: self.series[parent] for i, parent in enumerate(node.parents) if parent in self.series}
        if moving:
            y: Series = [None]
            self.series[node] = y
            self.recurrences.append((y, self._recurrence(node, moving, y)))

    def _recurrence(self, node: Node, moving: dict[int, Series], y: Series) -> Recurrence:
        plan = node.plan
        primitive = plan.primitive
        if not isinstance(primitive, Primitive) or not primitive.fills:
            raise NoSeries  # a Function or an implicit solution: its rule reads objects that depend on the inputs
        saved_by(node)
        saved = primitive.saved_tensors(node)
        saved = saved if self.differentiable else without_history(saved)
        if _is_linear(primitive, moving):
            return self._tangent(node, moving, saved)
        values = saved[0] if primitive.variadic else saved[: len(primitive.inputs)]
        if values is not None:
            for index, series in moving.items():
                if series[0] is None:
                    series[0] = values[index]
        if primitive in BILINEAR and {0, 1} <= moving.keys():
            return self._product(node, moving, saved)
        if primitive in RULES:
            width = len(primitive.inputs)
            y[0] = saved[width]
            xs = [moving.get(i, [x]) for i, x in enumerate(values)]
            params = dict(zip(primitive.layout[width + 1 :], saved[width + 1 :], strict=False))
            recurrence = RULES[primitive](Expanded(xs, y, params))
            if recurrence is not None:
                return _fitted(node, recurrence)
        return self._by_derivative(node, moving, y, saved)

    def _through(self, node: Node, tangents: dict[int, Tensor], saved: Saved) -> Coefficient:
        t = tangent_through(node, tangents, True, saved)
        return t if self.differentiable else without_history(t)

    def _tangent(self, node: Node, moving: dict[int, Series], saved: Saved) -> Recurrence:
        def coefficient(k: int) -> Coefficient:
            tangents = {i: x for i, series in moving.items() if (x := at(series, k)) is not None}
            return self._through(node, tangents, saved) if tangents else None

        return coefficient

    def _product(self, node: Node, moving: dict[int, Series], saved: Saved) -> Recurrence:
        """Return the recurrence of ``y = B(x, w) + L(b)``, with B bilinear and L linear."""
        x, w = moving[0], moving[1]
        ends = self._tangent(node, moving, saved)

        def coefficient(k: int) -> Coefficient:
            total = ends(k)
            for j in range(1, k):
                if at(x, j) is not None and at(w, k - j) is not None:
                    total = plus(total, self._through(node, {0: x[j]}, (saved[0], w[k - j], *saved[2:])))
            return total

        return coefficient

    def _by_derivative(self, node: Node, moving: dict[int, Series], y: Series, saved: Saved) -> Recurrence:
        """Return the recurrence that expands the node's derivative rule, one order behind."""
        behind: _Behind | None = None

        def coefficient(k: int) -> Coefficient:
            nonlocal behind
            if behind is None:
                behind = _Behind(node, moving, saved, self.differentiable)
                return behind.value
            return behind.next(k, moving, y)

        return coefficient


class _Behind:
    """The series of ``f'(x) x'`` for a node ``y = f(x)``.

    Attributes:
        value: coefficient 0 of this series, which equals coefficient 1 of y.
    """

    def __init__(self, node: Node, moving: dict[int, Series], saved: Saved, differentiable: bool) -> None:
        primitive = node.plan.primitive
        width = len(primitive.inputs)
        values = list(saved)
        self.directions: dict[int, Series] = {i: [None] for i in moving}
        self.answers: list[Series] = []
        seeds: dict[Edge, Series] = {}

        def started(value: Tensor, series: Series) -> Tensor:
            start = begin(value)
            seeds[edge_of(start)] = series
            return start

        with enable_grad():
            tangents = {
                i: started(_zeros_like(node.parents[i]) if at(series, 1) is None else series[1], self.directions[i])
                for i, series in moving.items()
            }
            if primitive.variadic:
                if values[0] is not None:
                    values[0] = tuple([started(x, moving[i]) if i in moving else x for i, x in enumerate(values[0])])
            else:
                for i, series in moving.items():
                    if values[i] is not None:
                        values[i] = started(values[i], series)
            answer = values[width]
            if isinstance(answer, Tensor):
                self.answers.append([None])
                values[width] = started(answer, self.answers[0])
            elif answer is not None:
                self.answers = [[None] for _ in answer]
                values[width] = tuple(
                    [x if x is None else started(x, own) for x, own in zip(answer, self.answers, strict=True)]
                )
            found = tangent_through(node, tangents, True, tuple(values))
        self.several = isinstance(found, tuple)
        outputs = found if self.several else (found,)
        self.edges = [None if x is None else edge_of(x) for x in outputs]
        self.expansion = Expansion(self.edges, seeds, differentiable)
        self.value = found if differentiable else without_history(found)

    def next(self, k: int, moving: dict[int, Series], y: Series) -> Coefficient:
        """Return the coefficient k of y, for the orders k = 2, 3, ... one after the other."""
        for i, series in moving.items():
            x = at(series, k)
            self.directions[i].append(None if x is None else k * x)
        for index, own in enumerate(self.answers):
            own.append(y[k - 1][index] if self.several and y[k - 1] is not None else y[k - 1])
        self.expansion.advance()
        found = [
            None if edge is None or (x := at(self.expansion.series.get(edge, []), k - 1)) is None else x * (1 / k)
            for edge in self.edges
        ]
        if all(x is None for x in found):
            return None
        return tuple(found) if self.several else found[0]


def _is_linear(primitive: Primitive, moving: Mapping[int, Series]) -> bool:
    """Return whether the derivative with respect to varying inputs depends neither on them nor on the output."""
    if primitive.joint is not None:
        read = set(rule_arguments(primitive.joint))
    else:
        assert primitive.rules is not None
        rules = [primitive.rules[0 if primitive.variadic else i] for i in moving]
        read = {name for rule in rules if rule is not None for name in rule_arguments(rule)}
    changing = {"ans"} | (set(primitive.inputs) if primitive.variadic else {primitive.inputs[i] for i in moving})
    return not read & changing


def _selected(together: Series, index: int) -> Recurrence:
    return lambda k: None if together[k] is None else together[k][index]


def _fitted(node: Node, recurrence: Recurrence) -> Recurrence:
    """Return a recurrence whose coefficients have the shape and dtype of the node's output."""

    def coefficient(k: int) -> Coefficient:
        found = recurrence(k)
        if found is None:
            return None
        if found.shape != node.shape:
            found = np.broadcast_to(found, node.shape)
        return found if found.dtype == node.dtype else found.astype(node.dtype)

    return coefficient


def _zeros_like(edge: Edge) -> Tensor:
    dtype = edge.array.dtype if isinstance(edge, Tensor) else edge.dtype
    return new_tensor(np.zeros(edge.shape, dtype))
