"""Forward mode: propagate tangents along the recorded graph, from inputs to outputs.

The function is recorded as for a backward pass; then the nodes are visited in the order in which they ran. The rule of
an elementwise primitive multiplies by the derivative, so it applies to tangents unchanged. Any other rule is a linear
map of the cotangent; the map of tangents is its transpose, which is found by differentiating the rule. Primitives
therefore need no second set of rules. Products have forward rules (``jvps``) for speed.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import array_module
from ..core.arrays.dtypes import DType, is_differentiable
from ..core.arrays.fp_warnings import silent
from ..core.errors import describe
from ..core.graph.backward import Walk, as_array, without_history
from ..core.graph.modes import enable_grad, modes, recording
from ..core.graph.nodes import NOTHING, Node, edge_of, leading_to, new_node, oldest, reachable, saved_by
from ..core.graph.plan import pull
from ..core.tensor.storage import shares_memory
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.table.documentation import like
from ..ops.table.elementwise_primitives import IDENTITY
from .function_graph import Edge, FunctionGraph, as_point, leaves_like, record, zeros_at
from .nests import Structure, flatten

Tangent = Tensor | Array


def jvp(
    func: Callable[..., object],
    primals: Sequence[object],
    tangents: Sequence[object],
    *,
    strict: bool = False,
    has_aux: bool = False,
) -> Any:
    """Return the value of ``func`` and its directional derivative: ``f(x)`` and ``J(x) @ t``.

    This costs one pass over the graph of ``func``, for any number of outputs. The results can be differentiated with
    respect to primals, tangents, and any other Tensor that ``func`` reads, so ``jvp`` can be nested.

    Args:
        func: takes and returns nests of Tensors.
        primals: its arguments, a tuple or list.
        tangents: the direction: a nest like the primals.
        strict: raise an error for outputs that do not depend on the primals, instead of returning zeros.
        has_aux: ``func`` returns a pair ``(output, aux)``.

    Returns:
        ``(output, tangent)``, or ``(output, tangent, aux)`` with ``has_aux``; the tangent is a nest like the output.

    Raises:
        RuntimeError: primals or tangents are not tuples of nests of Tensors, or differ in structure or shape; the
            function returned something that is not a Tensor; or, with ``strict``, an output is constant.
        ValueError: a primal is not floating or complex.

    >>> from retrograd.func import jvp
    >>> jvp(lambda x: x * x, (rg.tensor([1.0, 2.0]),), (rg.tensor([1.0, 10.0]),))
    (tensor([1., 4.]), tensor([ 2., 40.]))
    """
    for name, values in (("primals", primals), ("tangents", tangents)):
        if not isinstance(values, (tuple, list)):
            raise RuntimeError(f"jvp: {name} must be a tuple of the function's arguments, got {type(values).__name__}")
    points, structure = points_of("jvp", tuple(primals))
    directions = leaves_like("jvp", tuple(tangents), "tangents", points, structure, "primals")
    recorded = record("jvp", func, points, structure, has_aux)
    if strict:
        moving = _dependent_nodes(recorded)
        for y, path in zip(recorded.outputs, recorded.structure.paths("output"), strict=True):
            if edge_of(y) not in moving:
                raise RuntimeError(
                    f"jvp: {path}, {describe(y)}, does not depend on the primals, which strict=True refuses"
                )
    value, tangent = recorded.value(), recorded.structure.unflatten(apply_jvp(recorded, directions))
    return (value, tangent, recorded.aux) if has_aux else (value, tangent)


@like(jvp, raises="ValueError")
def linearize(func: Callable[..., object], *primals: object) -> tuple[Any, Callable[..., Any]]:
    """Return the value of ``func`` and its derivative as a linear function: ``f(x)`` and ``t -> J(x) @ t``.

    ``func`` runs once; each call of the linear function is one pass over the recorded graph.

    Args:
        primals: its arguments.

    Returns:
        The output, and a function that takes one tangent per primal and returns a nest like the output.

    Raises:
        RuntimeError: as for ``jvp``.

    >>> from retrograd.func import linearize
    >>> value, derivative = linearize(lambda x: x * x, rg.tensor([1.0, 2.0]))
    >>> derivative(rg.tensor([1.0, 0.0])), derivative(rg.tensor([0.0, 1.0]))
    (tensor([2., 0.]), tensor([0., 4.]))
    """
    points, structure = points_of("linearize", primals)
    recorded = record("linearize", func, points, structure)

    def jvp_fn(*tangents: object) -> object:
        directions = leaves_like("linearize", tangents, "tangents", points, structure, "primals")
        return recorded.structure.unflatten(apply_jvp(recorded, directions))

    return recorded.value(), jvp_fn


def _dependent_nodes(recorded: FunctionGraph) -> set[Edge]:
    starts = set(recorded.starts)
    edges = (edge_of(y) for y in recorded.outputs)
    order, _ = reachable((edge for edge in edges if edge is not None), oldest(starts))
    return starts | leading_to(starts, order)


def points_of(transform: str, primals: tuple[object, ...]) -> tuple[list[Tensor], Structure]:
    """Return the leaves of primals as Tensors that derivatives can be taken with respect to, and their structure."""
    leaves, structure = flatten(primals)
    if not leaves:
        raise RuntimeError(f"{transform}: primals must contain at least one Tensor, got none")
    paths = structure.paths("primals")
    return [
        as_point(transform, x, path, RuntimeError, ValueError) for x, path in zip(leaves, paths, strict=True)
    ], structure


def apply_jvp(recorded: FunctionGraph, tangents: Sequence[Tensor]) -> list[Tensor]:
    """Return the tangents of the outputs of a recorded function, given tangents of its points."""
    differentiable = recorded.differentiable(tangents)
    pairs = zip(recorded.starts, tangents, strict=True)
    seeds: dict[Edge, Tangent] = {start: t if differentiable else t.array for start, t in pairs}
    found = jvp_through([edge_of(x) for x in recorded.outputs], seeds, differentiable)

    def tangent(x: Tensor) -> Tensor:
        t = found.get(edge_of(x))
        if t is None:
            return zeros_at(x)
        t = t if isinstance(t, Tensor) else new_tensor(as_array(t, x))
        # The tangent of an input that the function returns unchanged is the caller's Tensor: return a copy.
        return t.clone() if any(shares_memory(t.array, given.array) for given in tangents) else t

    results = [tangent(x) for x in recorded.outputs]
    return recorded.keep_history(results, tangents) if differentiable else results


def jvp_through(
    edges: Sequence[Edge | None], seeds: dict[Edge, Tangent], differentiable: bool = False
) -> dict[Edge, Any]:
    """Return the tangents of every node between ``seeds`` and ``edges``.

    Args:
        edges: the nodes or leaves whose tangents are computed.
        seeds: the tangents of the nodes and leaves where the function starts: arrays, or Tensors if
            ``differentiable``.
        differentiable: record the computation of the tangents.
    """
    order, _ = reachable((edge for edge in edges if edge is not None), oldest(seeds))
    tangents: dict[Edge, Any] = dict(seeds)
    layered = modes.level is not None  # inside vmap, tangents are Tensors, as cotangents are in a backward pass
    if layered and not differentiable:
        tangents = {edge: new_tensor(t) for edge, t in seeds.items()}
    with recording(differentiable or layered and modes.grad_enabled), silent():
        _push(order, tangents, differentiable, layered)
    return tangents


def _push(order: Sequence[Node], tangents: dict[Edge, Tangent], differentiable: bool, layered: bool) -> None:
    for node in reversed(order):
        if node in tangents:
            continue
        if node.plan.select is not None:
            together = tangents.get(node.parents[0])
            if together is not None:
                tangents[node] = together[node.plan.select]
            continue
        moving = [index for index, parent in enumerate(node.parents) if parent in tangents]
        if moving:
            t = tangent_through(node, {index: tangents[node.parents[index]] for index in moving}, differentiable)
            if t is not None:
                tangents[node] = without_history(t) if layered and not differentiable else t


def has_forward_rule(node: Node) -> bool:
    """Return whether the tangent of a node is a sum of rules, one per input, so that no rule has to be transposed."""
    primitive = node.plan.primitive
    if primitive.jvp is not None or node.plan.select is not None:
        return False
    if primitive.jvps is not None:
        return True
    dtypes = [node.dtype, *(parent.dtype for parent in node.parents if parent is not None)]
    return primitive.elementwise and primitive.outputs == 1 and all(dtype.kind != "c" for dtype in dtypes)


def tangent_through(
    node: Node, tangents: Mapping[int, Tangent], differentiable: bool, saved: tuple[object, ...] | None = None
) -> Any:
    """Return the tangent of a node's output, or a tuple for several outputs, given the tangents of its inputs.

    Args:
        saved: Tensors to use instead of the values that the node saved.
    """
    primitive = node.plan.primitive
    saved_by(node)
    if primitive.jvp is not None:
        return primitive.jvp(node, tangents, differentiable or modes.level is not None)
    return (_summed if has_forward_rule(node) else _transposed)(node, tangents, differentiable, saved)


def _rules(node: Node, g: object, saved: tuple[object, ...], wanted: Container[int]) -> Iterator[tuple[int, Any]]:
    """Yield the index and the rule's value at the cotangent ``g`` for each input in ``wanted``."""
    plan = node.plan
    together: Any = None
    if plan.joint is not None:
        together = plan.joint(g, saved, tuple(parent is not None for parent in node.parents))
    for index, rule, place in plan.rules:
        if index in wanted:
            value = together[index] if rule is None else pull(rule, place, g, saved)
            if value is not None:
                yield index, value


def _summed(
    node: Node, tangents: Mapping[int, Tangent], differentiable: bool, saved: tuple[object, ...] | None
) -> Array:
    """Return the sum of the inputs' forward rules; an elementwise primitive uses its derivative rules."""
    jvps = node.plan.primitive.jvps
    if saved is None:
        saved = node.saved
        if differentiable or modes.level is not None:
            saved = node.plan.primitive.saved_tensors(node)
            saved = saved if differentiable else without_history(saved)
    total: Any = None
    for index, t in tangents.items():
        if jvps is not None:
            rule, place = jvps[index]
            values: Iterable[tuple[int, Any]] = [(index, pull(rule, place, t, saved))]
        else:
            values = _rules(node, t if t.shape == node.shape else np.broadcast_to(t, node.shape), saved, (index,))
        for _, value in values:
            if value.dtype != node.dtype:
                value = value.astype(node.dtype)
            total = value if total is None else total + value
    if total is not None and total.shape != node.shape:
        total = np.broadcast_to(total, node.shape)
    return total


def _transposed(
    node: Node, tangents: Mapping[int, Tangent], differentiable: bool, saved: tuple[object, ...] | None
) -> Any:
    """Apply the transpose of the node's rule, which is a linear map of the cotangent, to the tangents."""
    primitive = node.plan.primitive
    xp = array_module(next(iter(tangents.values())))

    def cotangent(shape: tuple[int, ...], dtype: DType) -> Tensor:
        u = new_tensor(xp.zeros(shape, dtype))
        if modes.level is not None:
            u = modes.level.lift(u)
        if is_differentiable(dtype):
            # A new node, not a leaf: the backward pass then skips older nodes, such as the history of the saved values.
            u._requires, u._node = True, new_node(IDENTITY.plan(0), (None,), NOTHING, shape, dtype)
        return u

    several = primitive.outputs != 1
    us = tuple(map(cotangent, node.shape, node.dtype)) if several else (cotangent(node.shape, node.dtype),)
    with enable_grad():
        if saved is None:
            saved = primitive.saved_tensors(node)
            saved = saved if differentiable else without_history(saved)
        roots = [
            (edge_of(value), _as_cotangent_of(tangents[index], value))
            for index, value in _rules(node, us if several else us[0], saved, tangents)
            if isinstance(value, Tensor) and value._requires
        ]
    walk = Walk({u._node for u in us if u._requires}, differentiable, differentiable, copied=False)
    found = walk.run(roots) if roots else {}
    results = []
    for u in us:
        t = found.get(u._node)
        if differentiable or modes.level is not None:
            results.append(without_history(u) if t is None else t)
        else:
            results.append(u.array if t is None else as_array(t))
    return tuple(results) if several else results[0]


def _as_cotangent_of(t: Tangent, value: Tensor) -> Tangent:
    """Return a tangent cast and broadcast to the rule's value, as a cotangent of that value."""
    if t.dtype != value.dtype:
        t = (t.real if t.dtype.kind == "c" and value.dtype.kind != "c" else t).astype(value.dtype)
    return t if t.shape == value.shape else np.broadcast_to(t, value.shape)
