"""Composites: fused operators written in plain operators, from which their higher derivatives follow.

A fused operator has a forward kernel and a backward kernel, each a primitive. The backward kernel computes the
vector-Jacobian product of the operator. Differentiating the same product of the composite gives the rule of the
backward kernel, for any order, without a second formula.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterable, Sequence
from typing import Any, cast

from ...core.arrays import Array
from ...core.graph.backward import as_array, differentiate
from ...core.graph.modes import enable_grad, modes
from ...core.graph.nodes import NOTHING, edge_of, new_node
from ...core.graph.primitive import Primitive, apply1, select_plan
from ...core.tensor.tensor import Tensor, new_tensor
from .elementwise_primitives import IDENTITY


def one_node(name: str) -> Callable[..., tuple[Tensor, ...]]:
    """Return a function that makes the results of the composite ``name`` the numbered outputs of one node.

    The results must be Tensors to which nothing else refers yet. Results that are not recorded are unchanged.
    """
    primitive = Primitive(name, lambda *xs: xs, "*xs", vjp=lambda g: g, outputs=-1)
    primitive.fills = False

    def joined(*results: Tensor) -> tuple[Tensor, ...]:
        edges = tuple([edge_of(x) for x in results])
        if any(edge is not None for edge in edges):
            shapes, dtypes = tuple([x.array.shape for x in results]), tuple([x.array.dtype for x in results])
            node = new_node(primitive.plan(tuple([x._requires for x in results])), edges, NOTHING, shapes, dtypes)
            for index, x in enumerate(results):
                if x._requires:
                    x._node = new_node(select_plan(index), (node,), NOTHING, shapes[index], dtypes[index])
        return results

    return joined


def where_needed(values: Iterable[Array], needs: Sequence[bool]) -> list[Array | None]:
    """Return the values, with None in place of those that are not needed."""
    values = iter(values)
    return [next(values) if need else None for need in needs]


def raw(x: object) -> Any:
    """Return the array of a Tensor, for arguments of kernels that are constants."""
    return x.array if isinstance(x, Tensor) else x


def second_order(
    composite: Callable[..., object],
    g: tuple[Array, ...],
    dy: object,
    inputs: Sequence[Array | None],
    wanted: Sequence[bool],
    needs: Sequence[bool],
) -> list[Array | None]:
    """Compute the rule of a backward kernel by the composite of its operator.

    Args:
        composite: the operator in plain operators: a function of Tensors that returns a Tensor or a tuple of them.
        g: the cotangents of the kernel's results, which are the gradients of the ``wanted`` inputs.
        dy: the cotangent passed to the kernel, a tuple for several outputs.
        inputs: the operator's inputs; None for those left out.
        wanted: for each input whether the kernel returns its gradient.
        needs: for each ``dy`` and each input whether its cotangent is needed.

    Returns:
        The cotangents of each ``dy`` and of the inputs; None where not needed.
    """
    dys = dy if isinstance(dy, tuple) else (dy,)
    record = any(isinstance(value, Tensor) for value in (*g, *dys, *inputs))
    with enable_grad():
        differentiated_inputs = [need or want for need, want in zip(needs, (*[False] * len(dys), *wanted), strict=True)]
        starts = [
            _begin(x, differentiated) for x, differentiated in zip((*dys, *inputs), differentiated_inputs, strict=True)
        ]
        points = starts[len(dys) :]
        outputs = composite(*points)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        first = _gradients(
            outputs, starts[: len(dys)], [x for x, want in zip(points, wanted, strict=True) if want], True
        )
        # A gradient that depends on none of the needed arguments has no history.
        pairs = [(value, u) for value, u in zip(first, g, strict=True) if value is not None and value._requires]
        if not pairs:
            return [None] * len(starts)
        values, cotangents = zip(*pairs, strict=True)
        needed = [x for x, need in zip(starts, needs, strict=True) if need]
        found = _gradients(values, [_tensor(u) for u in cotangents], needed, record)
    return where_needed(found, needs)


def by_example(name: str, function: Callable[..., object], outputs: int = 1) -> Primitive:
    """Return the primitive of a function in differentiable operators whose code depends on values of its arguments.

    ``vmap`` runs it once per example. Its rule is itself a primitive that ``by_example`` creates, from the derivative
    of the function, so derivatives of any order also run once per example.

    Args:
        name: the primitive's name.
        function: takes arrays or Tensors, and returns ``outputs`` of them.
    """

    @functools.cache
    def derivative(needs: tuple[bool, ...]) -> Primitive:
        def pulled(*given: Array) -> object:
            found = _pulled(function, given[:outputs], given[outputs:], needs)
            return found if len(found) != 1 else found[0]

        return by_example(f"derivative of {name}", pulled, sum(needs))

    def rule(g: object, xs: tuple[Array, ...], needs: tuple[bool, ...]) -> list[Array | None]:
        found = derivative(needs)(*(g if isinstance(g, tuple) else (g,)), *xs)
        return where_needed(found if sum(needs) != 1 else (found,), needs)

    return Primitive(name, function, "*xs", vjp=rule, outputs=outputs, batch=lambda call: call.looped())


def _pulled(
    function: Callable[..., object], gs: Sequence[Array], inputs: Sequence[Array], needs: Sequence[bool]
) -> tuple[Array, ...]:
    record = any(isinstance(value, Tensor) for value in (*gs, *inputs))
    with enable_grad():
        starts = [_begin(x, need) for x, need in zip(inputs, needs, strict=True)]
        returned = function(*starts)
    results: Sequence[Tensor] = returned if isinstance(returned, tuple) else (cast("Tensor", returned),)
    wanted = [x for x, need in zip(starts, needs, strict=True) if need]
    pairs = [(x, _tensor(g).conj()) for x, g in zip(results, gs, strict=True) if x._requires]
    found: list[Array | None] = [None] * len(wanted)
    if pairs:
        found = _gradients([x for x, _ in pairs], [g for _, g in pairs], wanted, record)
    nothing = [x.detach() * 0 if record else x.array * 0 for x in wanted]
    return tuple([zeros if g is None else g for g, zeros in zip(found, nothing, strict=True)])


def gradients_of(composite: Callable[..., object], outputs: int, *left_out: str) -> Callable[..., tuple[Tensor, ...]]:
    """Return the function computed by a backward kernel, from the composite of its operator.

    Args:
        composite: the operator in plain operators.
        outputs: the number of its outputs, whose cotangents are the function's first arguments.
        left_out: parameters of the kernel that the composite does not have.
    """

    def kernel(*tensors: object, wanted: Sequence[bool] | None = None, **params: object) -> tuple[Tensor, ...]:
        dys, inputs = tensors[:outputs], tensors[outputs:]
        wanted = [True] * len(inputs) if wanted is None else wanted
        for name in left_out:
            params.pop(name, None)
        recorded = modes.grad_enabled
        with enable_grad():
            points = [_begin(x, want) for x, want in zip(inputs, wanted, strict=True)]
            results = composite(*points, **params)
        results = results if isinstance(results, tuple) else (results,)
        chosen = [x for x, want in zip(points, wanted, strict=True) if want]
        pairs = [(x, dy) for x, dy in zip(results, dys, strict=True) if x._requires]
        found = [None] * len(chosen)
        if pairs:
            found = _gradients([x for x, _ in pairs], [_tensor(dy) for _, dy in pairs], chosen, False)
        gradients = [x.detach() * 0 if g is None else new_tensor(g) for x, g in zip(chosen, found, strict=True)]
        return tuple(gradients if recorded else [g.detach() for g in gradients])

    return kernel


def _tensor(value: object) -> Tensor:
    return value if isinstance(value, Tensor) else new_tensor(as_array(value))


def _begin(x: object, differentiated: bool) -> Any:
    """Return an input of the composite; a differentiated input is a new node, at which the backward pass ends."""
    if x is None:
        return None
    if modes.level is not None:
        x = modes.level.lift(x if isinstance(x, Tensor) else new_tensor(x))
    if not (isinstance(x, Tensor) and x._requires):
        x = new_tensor(x.array if isinstance(x, Tensor) else x)
        x._requires = differentiated
    return apply1(IDENTITY, x) if x._requires else x


def _gradients(
    outputs: Sequence[Tensor], cotangents: Sequence[Tensor], inputs: Sequence[Tensor], record: bool
) -> list[Any]:
    found = differentiate("backward of a backward", outputs, cotangents, inputs, True, record)
    return [found.get(edge_of(x)) for x in inputs]
