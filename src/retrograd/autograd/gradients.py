"""``grad`` and ``backward`` for any number of outputs and inputs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, overload

from ..core.arrays.devices import array_module, backend_for
from ..core.errors import describe
from ..core.graph.backward import accumulate_gradients, conjugate, differentiate
from ..core.graph.nodes import AccumulateGrad, Node, edge_of, output_number, shown
from ..core.graph.primitive import attached
from ..core.named_tuples import NamedTuple
from ..core.tensor.tensor import Tensor, new_tensor


class GradientEdge(NamedTuple):
    """The position of a Tensor in the graph; ``autograd.grad`` and ``backward`` accept it instead of the Tensor.

    Attributes:
        node: the node that computed the Tensor, or the AccumulateGrad of a leaf.
        output_nr: the index of the Tensor among the outputs of its operator.
        ownership_token: accepted for compatibility; the node itself keeps the graph below it alive.
    """

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """Return the position of a Tensor in the graph, which does not keep the Tensor or its values alive.

    Raises:
        RuntimeError: the Tensor does not require grad.

    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> y = x * 3
    >>> edge = rg.autograd.graph.get_gradient_edge(y)
    >>> rg.autograd.grad((y * y).sum(), edge)
    (tensor([ 6., 12.]),)
    """
    if not tensor._requires:
        raise RuntimeError(
            "get_gradient_edge: it is not possible to get the gradient edge for a Tensor that does not require "
            "gradients; call requires_grad_() first"
        )
    edge = edge_of(tensor)
    return GradientEdge(shown(edge), output_number(edge))


def tensor_at(edge: GradientEdge) -> Tensor:
    """Return a Tensor of zeros at the position in the graph, with the shape and dtype of the original Tensor."""
    node = edge.node
    if isinstance(node, AccumulateGrad):
        return node.variable
    if not isinstance(node, Node):
        raise TypeError(f"GradientEdge: node must be a graph node, got {type(node).__name__}; use get_gradient_edge")
    if node.plan.several:
        raise RuntimeError(f"GradientEdge: {node!r} has several outputs; take the edge with get_gradient_edge")
    xp = backend_for("cpu").xp
    place = new_tensor(xp.broadcast_to(xp.zeros((), node.dtype), node.shape))
    place._requires, place._node = True, node
    return place


Tensors = Tensor | GradientEdge | Sequence[Tensor | GradientEdge]
Gradients = Tensor | Sequence[Tensor | None] | None


def _sequence(caller: str, argument: str, tensors: Tensors) -> list[Tensor]:
    given = [tensors] if isinstance(tensors, (Tensor, GradientEdge)) else list(tensors)
    listed = [tensor_at(x) if isinstance(x, GradientEdge) else x for x in given]
    for index, x in enumerate(listed):
        if not isinstance(x, Tensor):
            raise TypeError(f"{caller}: {argument}[{index}] must be a Tensor, not {type(x).__name__}")
    return listed


def _gradients(caller: str, outputs: list[Tensor], gradients: Gradients) -> list[Tensor | None]:
    if gradients is None:
        return [None] * len(outputs)
    listed: list[Tensor | None] = [gradients] if isinstance(gradients, Tensor) else list(gradients)
    if len(listed) != len(outputs):
        raise RuntimeError(f"{caller}: got {len(outputs)} outputs and {len(listed)} gradients")
    return listed


def backward(
    tensors: Tensors,
    grad_tensors: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    inputs: Tensors | None = None,
) -> None:
    """Add the gradient of the sum of ``<grad_tensors[i], tensors[i]>`` to the ``.grad`` of the leaves.

    Args:
        tensors: the Tensors to differentiate.
        grad_tensors: a cotangent per tensor; None means 1 for a tensor with one element.
        retain_graph, create_graph, inputs: as for ``Tensor.backward``.

    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> rg.autograd.backward([(x * 2).sum(), (x * 3).sum()])
    >>> x.grad
    tensor([5., 5.])
    """
    outputs = _sequence("backward", "tensors", tensors)
    gradients = _gradients("backward", outputs, grad_tensors)
    wanted = None if inputs is None else _sequence("backward", "inputs", inputs)
    accumulate_gradients(outputs, gradients, wanted, retain_graph, create_graph)


@overload
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: Literal[False] | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor, ...]: ...


@overload
def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]: ...


def grad(
    outputs: Tensors,
    inputs: Tensors,
    grad_outputs: Gradients = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of the sum of ``<grad_outputs[i], outputs[i]>``; ``.grad`` does not change.

    Args:
        outputs: the Tensors to differentiate.
        inputs: leaves or intermediate Tensors.
        grad_outputs: a cotangent per output; None means 1 for an output with one element.
        retain_graph: keep the saved values of the graph; by default only with ``create_graph``.
        create_graph: record the backward pass, so that the gradients are differentiable.
        only_inputs: must be True.
        allow_unused: return None, instead of raising an error, for an input that no output depends on.
        is_grads_batched: the cotangents have a leading dimension; ``vmap`` maps one backward pass over it.
        materialize_grads: return zeros for an input that no output depends on; with ``create_graph``, zeros whose
            derivative with respect to that input is zero.

    Raises:
        RuntimeError: an input does not require grad, or is unused and ``allow_unused`` is not set.

    >>> x = rg.tensor(3.0, requires_grad=True)
    >>> (first,) = rg.autograd.grad(x**3, x, create_graph=True)
    >>> (second,) = rg.autograd.grad(first, x)
    >>> first.item(), second.item()
    (27.0, 18.0)
    """
    if not only_inputs:
        raise ValueError("grad: only_inputs=False is not supported; use autograd.backward to add to .grad")
    if materialize_grads and allow_unused is False:
        raise ValueError("grad: materialize_grads=True needs allow_unused to be True or left out")
    differentiated = _sequence("grad", "outputs", outputs)
    wanted = _sequence("grad", "inputs", inputs)
    if not wanted:
        raise RuntimeError("grad: inputs is empty; pass at least one Tensor")
    if not all(x.is_dense for x in wanted):
        return _with_sparse(differentiated, wanted, grad_outputs, retain_graph, create_graph, allow_unused)
    gradients = _gradients("grad", differentiated, grad_outputs)
    if is_grads_batched:
        return _batched(differentiated, wanted, gradients, retain_graph, create_graph, allow_unused, materialize_grads)
    found = differentiate("grad", differentiated, gradients, wanted, retain_graph, create_graph)
    results: list[Tensor | None] = []
    for index, x in enumerate(wanted):
        g = found.get(edge_of(x))
        if g is None and not (allow_unused or materialize_grads):
            raise RuntimeError(
                f"grad: inputs[{index}], {describe(x)}, was not used in the graph of the outputs. "
                "Set allow_unused=True if this is the desired behavior."
            )
        if g is None and materialize_grads:
            zeros = new_tensor(array_module(x).zeros(x.array.shape, x.array.dtype))
            results.append(attached(zeros, edge_of(x)) if create_graph else zeros)
        elif g is None:
            results.append(None)
        else:
            results.append(conjugate(g if create_graph else new_tensor(g)))
    return tuple(results)


def _with_sparse(
    outputs: list[Tensor],
    wanted: list[Any],
    gradients: Gradients,
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
) -> tuple[Tensor | None, ...]:
    """Return the gradients of the inputs; the gradient of a sparse input is sparse, with the input's coordinates."""
    values = [x if x.is_dense else x._values() for x in wanted]
    found = grad(outputs, values, gradients, retain_graph, create_graph, allow_unused=allow_unused)
    return tuple([g if g is None or x.is_dense else x._with(g) for x, g in zip(wanted, found, strict=True)])


def _batched(
    outputs: list[Tensor],
    wanted: list[Tensor],
    gradients: list[Tensor | None],
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Tensor | None, ...]:
    lengths = {len(g) for g in gradients if g is not None}
    if len(lengths) != 1:
        raise RuntimeError(
            f"grad: with is_grads_batched=True, lengths of grad_outputs must agree, got {sorted(lengths)}"
        )
    from ..func.mapping import vmap  # loaded at first use

    def one_backward_pass(*mapped: Tensor) -> list[Tensor | None]:
        given = iter(mapped)
        cotangents = [None if g is None else next(given) for g in gradients]
        found = grad(
            outputs, wanted, cotangents, retain_graph, create_graph, True, allow_unused, False, materialize_grads
        )
        return list(found)

    return tuple(vmap(one_backward_pass)(*[g for g in gradients if g is not None]))
