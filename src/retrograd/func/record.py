"""A function recorded from identities of its arguments on: what every derivative in this room starts from.

All derivatives share one graph. An argument of a transformed function enters as an identity node of its own, no search
goes below these nodes, and a result keeps its history only where that leads to something older: a Tensor that requires
grad outside, or an argument of an enclosing transform. So levels need no numbers and cannot be confused.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any
from weakref import ref

from ..core.arrays.devices import array_module
from ..core.arrays.dtypes import is_array_or_number, is_differentiable
from ..core.errors import conversion_behind, describe
from ..core.graph.modes import differentiating, modes
from ..core.graph.nodes import NOTHING, Node, edge_of, leading_to, new_node, oldest, reachable
from ..core.graph.primitive import operand
from ..core.tensor.storage import borrowed, share, storage_of
from ..core.tensor.tensor import Tensor, new_tensor
from ..ops.table.elementwise import IDENTITY
from .nests import Mismatch, Structure, flatten


@dataclass(slots=True)
class Recorded:
    """A call of a function, with the nodes where it starts and what its results depend on besides.

    ``outside`` has the edges of the results, and the nodes on the way to them, that depend on what requires grad
    outside of the function. ``attached`` says whether the results keep that history: not so under ``no_grad``, under
    which derivatives may be asked for later, and then have one.
    """

    transform: str
    points: list[Tensor]
    starts: list[Node]
    outputs: list[Tensor]
    structure: Structure
    aux: Any
    outside: set[Any]
    attached: bool

    def value(self) -> Any:
        """What the function returned; Tensors without a history where it leads to its arguments alone."""
        return self.structure.unflatten([self.seen(x) for x in self.outputs])

    def seen(self, x: Any) -> Any:
        """A leaf of what the function returned, as the caller gets it."""
        return _outside_only(x, self.outside if self.attached else ()) if isinstance(x, Tensor) else x

    def made(self, edge: Any) -> bool:
        """Whether a node is the function's own, not one that it only handed on."""
        return type(edge) is Node and edge.sequence >= oldest(self.starts)

    def differentiable(self, directions: Iterable[Tensor]) -> bool:
        """Whether a derivative in these directions has itself a derivative that anybody could want."""
        return modes.grad_enabled and (bool(self.outside) or any(t._requires for t in directions))

    def attached_only(self, results: list[Tensor]) -> list[Tensor]:
        """Derivatives that were computed on a layer above, with a history where it leads to the outside."""
        return self.kept(results, ()) if self.differentiable(()) else results

    def kept(self, results: list[Tensor], directions: Iterable[Tensor]) -> list[Tensor]:
        """Derivatives, with a history where it leads to the outside or to the directions."""
        edges = [edge_of(t) for t in directions if t._requires]
        outside = read_from_outside([edge_of(x) for x in results], self.starts, edges)
        return [_outside_only(x, outside) for x in results]


def _outside_only(x: Tensor, outside: Collection[Any]) -> Tensor:
    if edge_of(x) in outside:
        return x
    alias = new_tensor(x.array)  # what detach() gives has no history on the layers below either
    share(alias, x, related=False)
    return alias


def record(
    transform: str, function: Callable[..., Any], points: list[Tensor], structure: Structure, has_aux: bool = False
) -> Recorded:
    """Call ``function(*nest)`` on a nest of identities of the points.

    Args:
        transform: who calls, for errors.
        function: to a nest of Tensors; with ``has_aux`` to a pair of this and of anything else.
        points: the leaves of its arguments.
        structure: that of the arguments, a sequence.
        has_aux: see above.

    Raises:
        RuntimeError: the function returned something else, or nothing.
    """
    attached = modes.grad_enabled
    inputs = [begin(x) for x in points]
    starts: list[Any] = [x._node for x in inputs]  # now: the function may write to its arguments
    mode = differentiating(transform)
    try:
        with mode:
            result = function(*structure.unflatten(inputs))
    except (ValueError, SystemError) as error:
        raise conversion_behind(error)  # noqa: B904  it is the error itself, or what caused it
    aux = None
    if has_aux:
        if not isinstance(result, tuple) or len(result) != 2:
            raise RuntimeError(
                f"{transform}: with has_aux=True the function must return a tuple (output, aux), got {_kind(result)}"
            )
        result, aux = result
    outputs, output_structure = flatten(result)
    if not outputs:
        raise RuntimeError(f"{transform}: the function must return at least one Tensor, got {describe(result)}")
    for x, path in zip(outputs, output_structure.paths("output"), strict=True):
        if not isinstance(x, Tensor):
            raise RuntimeError(f"{transform}: the function must return Tensors, got {path} = {_kind(x)}")
    others, aux_structure = flatten(aux)
    if mode.written:
        outputs, others = [_apart(x) for x in outputs], [_apart(x) for x in others]
        _release_captured([x for written in mode.written if (x := written()) is not None], starts)
    outside = read_from_outside([edge_of(x) for x in (*outputs, *others) if isinstance(x, Tensor)], starts)
    recorded = Recorded(transform, points, starts, outputs, output_structure, None, outside, attached)
    recorded.aux = aux_structure.unflatten(map(recorded.seen, others))
    return recorded


def _apart(x: Any) -> Any:
    """Another Tensor with the history of x, which x itself may lose."""
    if not isinstance(x, Tensor):
        return x
    alias = new_tensor(x.array)
    share(alias, x, related=False)
    alias._requires, alias._node = x._requires, x._node
    return alias


def _release_captured(written: list[Tensor], starts: Sequence[Node]) -> None:
    """Let Tensors that the function wrote, and that are still there, keep what they depend on outside of it alone.

    They hold the values, as constants where these come from the function's arguments: so do its results.
    """
    if modes.written is not None:
        modes.written += [ref(x) for x in written]
    outside = read_from_outside([edge_of(x) for x in written], starts)
    for x in written:
        if x._node is not None and x._node not in outside:
            x._requires, x._node = False, None


def begin(x: Tensor) -> Tensor:
    """A Tensor with x's value and history at which a recorded function starts; writes to it leave x alone."""
    if modes.level is not None:
        x = modes.level.lift(x)  # inside vmap all is recorded on its layer
    start = new_tensor(x.array)
    start._storage = borrowed(storage_of(x))
    start._requires = True
    edge = edge_of(x)
    start._node = new_node(IDENTITY.plan(int(edge is not None)), (edge,), NOTHING, x.array.shape, x.array.dtype)
    return start


def read_from_outside(edges: list[Any], starts: Sequence[Node], directions: Iterable[Any] = ()) -> set[Any]:
    """Of the edges, and of the nodes below them, those that depend on what requires grad outside of the function.

    ``directions`` count as outside, too, however young they are.
    """
    since = oldest(starts)
    order, _ = reachable((edge for edge in edges if edge is not None), since)
    outside = set(directions)

    def is_outside(edge: Any) -> bool:
        return edge is not None and (type(edge) is not Node or edge.sequence < since)

    outside.update(edge for node in order for edge in node.parents if is_outside(edge))
    outside.update(edge for edge in edges if is_outside(edge))
    return outside | leading_to(outside, order) if outside else outside


def zeros_at(x: Tensor) -> Tensor:
    """Zeros of x's shape and dtype."""
    return new_tensor(array_module(x).zeros(x.array.shape, x.array.dtype))


def as_point(
    transform: str,
    value: object,
    path: str,
    wrong_type: type[Exception] = ValueError,
    wrong_dtype: type[Exception] = RuntimeError,
) -> Tensor:
    """A leaf of an argument to differentiate by: a Tensor, an array or a number, floating or complex.

    Raises:
        ValueError, RuntimeError: it is something else, or an integer; forward mode has it the other way round, as in
            PyTorch.
    """
    if not isinstance(value, Tensor) and (not is_array_or_number(value) or isinstance(value, int)):
        raise wrong_type(f"{transform}: {path} must be a Tensor, got {_kind(value)}")
    x = operand(value)
    if not is_differentiable(x.dtype):
        raise wrong_dtype(
            f"{transform}: only Tensors of floating point and complex dtype have gradients, {path} is {describe(x)}"
        )
    return x


def directions_of(
    transform: str, nest: object, name: str, likes: list[Tensor], structure: Structure, what: str
) -> list[Tensor]:
    """The leaves of tangents or cotangents, checked against what they belong to; the names are for errors."""
    try:
        leaves = structure.leaves_of(nest, name)
    except Mismatch as error:
        raise RuntimeError(f"{transform}: {name} must be a nest like the {what}; {error}") from None
    return [
        _direction(transform, t, x, name + path, what + path)
        for t, x, path in zip(leaves, likes, structure.paths(), strict=True)
    ]


def _direction(transform: str, value: object, like: Tensor, path: str, what: str) -> Tensor:
    """A Tensor, an array or a number as a Tensor of the shape and dtype of what it belongs to."""
    if not isinstance(value, Tensor) and not is_array_or_number(value):
        raise RuntimeError(f"{transform}: {path} must be a Tensor, got {_kind(value)}")
    t = operand(value)
    if t.shape != like.shape:
        raise RuntimeError(f"{transform}: {path} is {describe(t)}, but {what} {describe(like)}")
    if t.dtype != like.dtype:
        if t.dtype.kind == "c" and like.dtype.kind != "c":
            raise RuntimeError(f"{transform}: {path} is complex, {describe(t)}, but {what} {describe(like)}")
        t = t.astype(like.dtype)
    return t


def _kind(value: object) -> str:
    return f"{type(value).__name__}: {describe(value)}"


def ones_at(x: Tensor) -> Tensor:
    """Ones of x's shape and dtype."""
    return new_tensor(array_module(x).ones(x.array.shape, x.array.dtype))
