"""Places in the recorded graph, which stand for Tensors where gradients are asked for."""

from __future__ import annotations

from typing import Any, NamedTuple

from ..core.arrays.devices import backend_for
from ..core.graph.nodes import AccumulateGrad, Node, edge_of, output_number, shown
from ..core.tensor.tensor import Tensor, new_tensor


class GradientEdge(NamedTuple):
    """Where the gradient of a Tensor is computed: ``autograd.grad`` and ``backward`` take it for the Tensor.

    Attributes:
        node: the node that made the Tensor, or what stands for it among nodes where it is a leaf.
        output_nr: which of the outputs of its operator the Tensor is.
        ownership_token: taken for compatibility: the node holds what lies below it.
    """

    node: Any
    output_nr: int
    ownership_token: Any = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The place of a Tensor in the graph, which outlives the Tensor and holds no values of it.

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
            "gradients"
        )
    edge = edge_of(tensor)
    return GradientEdge(shown(edge), output_number(edge))


def tensor_at(edge: GradientEdge) -> Tensor:
    """A Tensor at the place in the graph, with the shape and dtype of the one that was there; its values are zeros."""
    node = edge.node
    if isinstance(node, AccumulateGrad):
        leaf: Tensor = node.variable
        return leaf
    if not isinstance(node, Node):
        raise TypeError(f"GradientEdge: wanted a node, got {type(node).__name__}")
    if node.plan.several:
        raise RuntimeError(f"GradientEdge: {node!r} has several outputs; take the edge with get_gradient_edge")
    xp = backend_for("cpu").xp
    place = new_tensor(xp.broadcast_to(xp.zeros((), node.dtype), node.shape))
    place._requires, place._node = True, node
    return place
