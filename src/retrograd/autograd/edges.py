"""Edges of the computational graph, which ``grad`` and ``backward`` accept instead of Tensors."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.arrays.devices import backend_for
from ..core.graph.nodes import AccumulateGrad, Node, edge_of, output_number, shown
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
        leaf: Tensor = node.variable
        return leaf
    if not isinstance(node, Node):
        raise TypeError(f"GradientEdge: node must be a graph node, got {type(node).__name__}; use get_gradient_edge")
    if node.plan.several:
        raise RuntimeError(f"GradientEdge: {node!r} has several outputs; take the edge with get_gradient_edge")
    xp = backend_for("cpu").xp
    place = new_tensor(xp.broadcast_to(xp.zeros((), node.dtype), node.shape))
    place._requires, place._node = True, node
    return place
