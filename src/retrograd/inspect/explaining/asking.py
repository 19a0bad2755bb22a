"""``explain``: what is asked of a gradient, and who answers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ...core.arrays.devices import is_array
from ...core.errors import describe
from ...core.graph.backward import root_cotangents
from ...core.graph.nodes import edge_of, reachable
from ...core.tensor.tensor import Tensor
from ..names import leaf_names
from ..stepping.stepper import check_graph, leaves_below, refuse_batched
from ..tracing import recorders
from .afterwards import Afterwards
from .explanation import Explanation
from .flow import Flow

if TYPE_CHECKING:
    from ...nn import Module


def explain(
    loss: Tensor,
    tensor: Tensor,
    index: Any = None,
    *,
    gradient: Tensor | None = None,
    batch: Tensor | Sequence[Tensor] | None = None,
    params: Module | None = None,
) -> Explanation:
    """Where the gradient of ``loss`` with respect to ``tensor`` comes from, or why it is zero or missing.

    Nothing is written: no ``.grad`` is filled and the graph is kept. Lines and modules are known where
    ``inspect.trace()`` was around the forward.

    Args:
        loss: what is differentiated.
        tensor: a parameter, another leaf, or an intermediate Tensor.
        index: the element to explain; by default the Tensor as a whole.
        gradient: the cotangent, of the loss's shape; may be left out for a single element.
        batch: an input (or several) whose axis 0 counts the examples; by default the inputs that share a first axis
            with the loss's unreduced terms.
        params: a module whose parameters are called by their names.

    Returns:
        An ``Explanation``; its text is short.

    Raises:
        TypeError: loss or tensor is no Tensor.
        IndexError: the index is none of the Tensor.
        RuntimeError: the loss has no graph and no trace saw how it was made; or the graph was freed, and no trace saw
            it. Of a graph that was freed under a trace the text tells what the trace knows, without the parts.

    >>> w = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> loss = (w * 5).sum() - (w * w).sum()
    >>> e = rg.inspect.explain(loss, w)
    >>> e.total
    array([3., 1.], dtype=float32)
    >>> e.by("term")
    {'sum': array([5., 5.], dtype=float32), '-sum': array([-2., -4.], dtype=float32)}
    """
    for name, value in (("loss", loss), ("tensor", tensor)):
        if not isinstance(value, Tensor):
            raise TypeError(f"explain: {name} must be a Tensor, not {type(value).__name__}")
        refuse_batched("explain", value)
    marked = None if batch is None else list(batch) if isinstance(batch, (list, tuple)) else [batch]
    for x in marked or ():
        if not is_array(getattr(x, "array", x)):
            raise TypeError(f"explain: batch must be a Tensor or several, not {type(x).__name__}")
    if index is not None:
        index = _checked_index(tensor, index)
    known = [recorder.names for recorder in recorders]
    if not loss._requires:
        if not any(recorder.source(loss) or recorder.source(tensor) for recorder in recorders):
            raise RuntimeError(
                f"explain: the loss, {describe(loss)}, has no graph: it does not require grad, and no recorded "
                "operator made it; under inspect.trace() explain can say where it was lost"
            )
        return Explanation(loss, tensor, index, None, marked, leaf_names([tensor], known, params))
    roots = root_cotangents("explain", [loss], [gradient])
    order, _ = reachable([edge for edge, _ in roots])
    if any(node.saved is None for node in order):
        seen = [recorder for recorder in recorders if any(recorder.record_of(node) for node in order)]
        if not seen or gradient is not None:
            check_graph("explain", [edge for edge, _ in roots])
        return Afterwards(loss, tensor, index, order, seen, leaf_names([tensor, *leaves_below(order)], known, params))
    names = leaf_names([tensor, *leaves_below(order)], known, params)
    return Explanation(loss, tensor, index, Flow(roots, edge_of(tensor)), marked, names)


def _checked_index(tensor: Tensor, index: Any) -> Any:
    place = index if isinstance(index, tuple) else (index,)
    if len(place) != tensor.ndim:
        raise IndexError(f"explain: index {index!r} is no element of {describe(tensor)}")
    for number, length in zip(place, tensor.shape, strict=True):
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise TypeError(f"explain: index must be of whole numbers, got {index!r}")
        if not -length <= number < length:
            raise IndexError(f"explain: index {index!r} is out of range for {describe(tensor)}")
    return tuple([int(number) % length for number, length in zip(place, tensor.shape, strict=True)])
