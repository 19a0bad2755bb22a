"""``jet``: a function of truncated power series."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import factorial
from typing import Any

import numpy as np

from ...core.graph.nodes import edge_of
from ...core.tensor.storage import shares_memory
from ...core.tensor.tensor import Tensor, new_tensor
from ...ops.table.documentation import like
from ..forward import jvp, points_of
from ..function_graph import Edge, FunctionGraph, leaves_like, ones_at, record, zeros_at
from ..nests import flatten
from .expansion import Expansion, NoSeries
from .recurrences import Series, at


@like(jvp, raises="ValueError")
def jet(
    func: Callable[..., object], primals: Sequence[object], series: Sequence[Sequence[object]]
) -> tuple[Any, list[Any]]:
    """Return the value of ``func`` and its derivatives along a curve, as ``jax.experimental.jet.jet``.

    Let x(t) be the curve through the primals whose k-th derivative at t = 0 is the k-th entry of ``series``. The result
    is y(0) and the derivatives ``[y'(0), y''(0), ...]`` of ``y(t) = func(x(t))``.

    ``func`` runs once, and the Taylor coefficients of all its operators are computed by recurrences, so that the time
    grows with the square of the order. An operator without a recurrence is expanded by its derivative rule. If
    ``func`` calls a user-defined ``Function``, nested forward mode is used, whose time doubles with each order.

    Args:
        primals: its arguments, a tuple or list of Tensors.
        series: per primal a sequence of derivatives of the curve, each with the shape of the primal; all of one length.

    Raises:
        RuntimeError: ``primals`` or ``series`` has a wrong form or shape.

    >>> from retrograd.func import jet
    >>> jet(lambda x: x**3, (rg.tensor(2.0),), ([1.0, 0.0, 0.0],))
    (tensor(8.), [tensor(12.), tensor(12.), tensor(6.)])
    """
    points, structure = points_of("jet", tuple(primals))
    if len(points) != len(primals):
        raise RuntimeError("jet: primals must be a tuple of Tensors, got nests")
    lengths = {len(terms) for terms in series}
    if len(series) != len(points) or len(lengths) != 1 or 0 in lengths:
        raise RuntimeError(
            f"jet: series must have, for each of {len(points)} primals, the same number of derivatives, got lengths "
            f"{[len(terms) for terms in series]}"
        )
    (order,) = lengths
    leaves = flatten(points)[1]
    terms = [
        leaves_like("jet", [row[k] for row in series], f"series[:][{k}]", points, leaves, "primals")
        for k in range(order)
    ]
    recorded = record("jet", func, points, structure)
    try:
        rest = _expanded(recorded, terms)
    except NoSeries:
        return _nested(func, points, terms)
    return recorded.value(), [recorded.structure.unflatten(found) for found in rest]


def _expanded(recorded: FunctionGraph, terms: list[list[Tensor]]) -> list[list[Tensor]]:
    """Return the derivatives of every order of a recorded function, by its Taylor coefficients."""
    order = len(terms)
    directions = [x for row in terms for x in row]
    differentiable = recorded.differentiable(directions)
    seeds: dict[Edge, Series] = {}
    for index, start in enumerate(recorded.starts):
        scaled = [row[index] * (1 / factorial(k)) if k > 1 else row[index] for k, row in enumerate(terms, 1)]
        seeds[start] = [None, *[None if _is_zero(x) else x for x in scaled]]
    edges = [edge_of(x) for x in recorded.outputs]
    expansion = Expansion(edges, seeds, differentiable)
    results: list[list[Tensor]] = []
    for k in range(1, order + 1):
        expansion.advance()
        found = []
        for x, edge in zip(recorded.outputs, edges, strict=True):
            coefficient = None if edge is None else at(expansion.series.get(edge, []), k)
            if coefficient is None:
                found.append(zeros_at(x))
            else:
                own = coefficient * float(factorial(k)) if k > 1 else coefficient
                found.append(own.clone() if any(shares_memory(own.array, t.array) for t in directions) else own)
        results.append(recorded.keep_history(found, directions) if differentiable else found)
    return results


def _is_zero(x: Tensor) -> bool:
    return not x._requires and type(x.array) is np.ndarray and not x.array.any()


def _nested(
    func: Callable[..., object], points: list[Tensor], terms: list[list[Tensor]]
) -> tuple[object, list[object]]:
    order = len(terms)

    def curve(t: Tensor) -> list[Tensor]:
        moved = [0 * x for x in points]
        for k in range(order, 0, -1):
            moved = [(m + c) * (t.astype(c.dtype) / k) for m, c in zip(moved, terms[k - 1], strict=True)]
        return [x + m for x, m in zip(points, moved, strict=True)]

    def derivatives(k: int) -> Callable[[Tensor], tuple[object, ...]]:
        if k == 0:
            return lambda t: (func(*curve(t)),)
        lower = derivatives(k - 1)

        def with_next(t: Tensor) -> tuple[object, ...]:
            value, tangent = jvp(lower, (t,), (ones_at(t),))
            return (*value, tangent[-1])

        return with_next

    real = np.result_type(*[x.real.dtype for x in points])
    value, *rest = derivatives(order)(new_tensor(np.zeros((), real)))
    return value, rest
