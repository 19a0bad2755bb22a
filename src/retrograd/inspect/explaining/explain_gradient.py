"""``explain``: say where a gradient comes from."""

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
from .explanation import Explanation
from .flow import Flow
from .freed_graph import FreedGraphExplanation

if TYPE_CHECKING:
    from ...nn import Module


def explain(
    loss: Tensor,
    tensor: Tensor,
    index: int | tuple[int, ...] | None = None,
    *,
    gradient: Tensor | None = None,
    batch: Tensor | Sequence[Tensor] | None = None,
    params: Module | None = None,
) -> Explanation:
    """Explain where the gradient of ``loss`` with respect to ``tensor`` comes from, or why it is zero or missing.

    ``explain`` fills no ``.grad`` and keeps the graph. It knows lines and modules if ``inspect.trace()`` was active
    during the forward pass.

    Args:
        loss: the Tensor to differentiate.
        tensor: a parameter, another leaf, or an intermediate Tensor.
        index: the element to explain; by default the Tensor as a whole.
        gradient: the upstream gradient, of the loss's shape; optional for a loss with one element.
        batch: one or several inputs whose axis 0 is the batch axis; by default the inputs that share a first axis with
            the loss's unreduced terms.
        params: a module whose parameter names are printed.

    Returns:
        An ``Explanation``; print it for a short text.

    Raises:
        TypeError: loss or tensor is not a Tensor.
        IndexError: the index is out of range.
        RuntimeError: the loss has no graph, or the graph was freed and ``gradient`` is given. After ``backward()``
            without ``gradient``, the explanation has ``.grad``, the operators that read the Tensor, and the records of
            a trace, but no parts.

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
    marked: list[Any] | None = None if batch is None else list(batch) if isinstance(batch, (list, tuple)) else [batch]
    for x in marked or ():
        if not is_array(getattr(x, "array", x)):
            raise TypeError(f"explain: batch must be a Tensor or a sequence of Tensors, not {type(x).__name__}")
    if index is not None:
        index = _checked_index(tensor, index)
    known = [recorder.names for recorder in recorders]
    if not loss._requires:
        if not any(recorder.source(loss) or recorder.source(tensor) for recorder in recorders):
            raise RuntimeError(
                f"explain: the loss, {describe(loss)}, has no graph: it does not require grad. Run the "
                "forward pass under inspect.trace() to see where the graph was cut"
            )
        return Explanation(loss, tensor, index, None, marked, leaf_names([tensor], known, params))
    roots = root_cotangents("explain", [loss], [gradient])
    order, _ = reachable([edge for edge, _ in roots])
    if any(node.saved is None for node in order):
        seen = [recorder for recorder in recorders if any(recorder.record_of(node) for node in order)]
        if gradient is not None:
            check_graph("explain", [edge for edge, _ in roots])
        return FreedGraphExplanation(
            loss, tensor, index, order, seen, leaf_names([tensor, *leaves_below(order)], known, params)
        )
    names = leaf_names([tensor, *leaves_below(order)], known, params)
    return Explanation(loss, tensor, index, Flow(roots, edge_of(tensor)), marked, names)


def _checked_index(tensor: Tensor, index: object) -> tuple[int, ...]:
    place = index if isinstance(index, tuple) else (index,)
    if len(place) != tensor.ndim:
        raise IndexError(f"explain: index {index!r} does not select one element of {describe(tensor)}")
    for number, length in zip(place, tensor.shape, strict=True):
        if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
            raise TypeError(f"explain: index must consist of integers, got {index!r}")
        if not -length <= number < length:
            raise IndexError(f"explain: index {index!r} is out of range for {describe(tensor)}")
    return tuple([int(number) % length for number, length in zip(place, tensor.shape, strict=True)])
