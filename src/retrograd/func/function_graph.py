"""Record the computational graph of a function, starting at identity nodes of its arguments.

All function transforms share one graph. Each argument of a transformed function gets a new identity node, at which
searches of the function's graph end. A result keeps its history only if the history leads to an older Tensor that
requires grad: one outside of the function, or an argument of an enclosing transform. Nested transforms therefore need
no level numbers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard
from weakref import ref

from ..core.arrays.devices import array_module
from ..core.arrays.dtypes import is_array_or_number, is_differentiable
from ..core.errors import describe
from ..core.graph.modes import differentiating, modes
from ..core.graph.nodes import NOTHING, Node, edge_of, leading_to, new_node, oldest, reachable
from ..core.graph.primitive import operand
from ..core.tensor.storage import borrowed, share, storage_of
from ..core.tensor.tensor import Tensor, is_dense, new_tensor
from ..ops.numpy.bare_arrays import explained
from ..ops.table.elementwise_primitives import IDENTITY
from .nests import Mismatch, Structure, flatten

Edge = Node | Tensor  # a node or a leaf of the graph


@dataclass(slots=True)
class FunctionGraph:
    """A recorded call of a function.

    Attributes:
        starts: the identity nodes of the arguments, ``points``.
        outside: the edges of the results, and the nodes on the way to them, that depend on Tensors outside of the
            function that require grad.
        attached: whether the results keep their history outside of the function; False if called under ``no_grad``.
    """

    transform: str
    points: list[Tensor]
    starts: list[Node]
    outputs: list[Tensor]
    structure: Structure
    aux: object
    outside: set[Edge]
    attached: bool

    def value(self) -> Any:
        """Return the function's result; Tensors that depend on its arguments only are detached."""
        return self.structure.unflatten([self.exported(x) for x in self.outputs])

    def exported(self, x: Tensor) -> Tensor:
        """Return a leaf of the function's result as the caller gets it."""
        return _outside_only(x, self.outside if self.attached else ()) if is_dense(x) else x

    def is_recorded(self, edge: Edge | None) -> bool:
        """Return whether the function recorded a node; False for nodes of Tensors that it returns unchanged."""
        return type(edge) is Node and edge.sequence >= oldest(self.starts)

    def differentiable(self, directions: Iterable[Tensor]) -> bool:
        """Return whether derivatives in these directions must be differentiable themselves."""
        return modes.grad_enabled and (bool(self.outside) or any(t._requires for t in directions))

    def keep_outside_history(self, results: list[Tensor]) -> list[Tensor]:
        """Detach the derivatives that do not depend on anything outside of the function."""
        # Inside vmap, a user-defined rule may be recorded even if nothing outside of the function requires grad.
        return self.keep_history(results, ()) if self.differentiable(()) else [_outside_only(x, ()) for x in results]

    def keep_history(self, results: list[Tensor], directions: Iterable[Tensor]) -> list[Tensor]:
        """Detach the derivatives that depend neither on anything outside of the function nor on the directions."""
        edges = [edge_of(t) for t in directions if t._requires]
        outside = read_from_outside([edge_of(x) for x in results], self.starts, edges)
        return [_outside_only(x, outside) for x in results]


def _outside_only(x: Tensor, outside: Collection[Edge]) -> Tensor:
    if not x._requires or edge_of(x) in outside:
        return x
    alias = new_tensor(x.array)  # detach() would also remove the history on the layers below
    share(alias, x, related=False)
    return alias


def record(
    transform: str, function: Callable[..., object], points: list[Tensor], structure: Structure, has_aux: bool = False
) -> FunctionGraph:
    """Call ``function`` on identities of ``points`` and record it.

    Args:
        transform: the name of the calling transform, for errors.
        function: returns a nest of Tensors; with ``has_aux`` a pair of a nest of Tensors and anything else.
        points: the leaves of its arguments.
        structure: the structure of the tuple of arguments.
        has_aux: whether ``function`` returns a pair.

    Raises:
        RuntimeError: the function returned no Tensor, or something that is not a Tensor.
    """
    attached = modes.grad_enabled
    inputs = [begin(x) for x in points]
    starts: list[Any] = [x._node for x in inputs]  # before the call, since the function may write to its arguments
    mode = differentiating(transform)
    try:
        with mode:
            result = function(*structure.unflatten(inputs))
    except (ValueError, TypeError, SystemError) as error:
        raise explained(error)  # noqa: B904  it is the error itself, or what caused it
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
        if not is_dense(x):
            raise RuntimeError(f"{transform}: the function must return Tensors, got {path} = {_kind(x)}")
    others, aux_structure = flatten(aux)
    if mode.written:
        outputs, others = [_alias(x) for x in outputs], [_alias(x) for x in others]
        _release_captured([x for written in mode.written if (x := written()) is not None], starts)
    outside = read_from_outside([edge_of(x) for x in (*outputs, *others) if is_dense(x)], starts)
    recorded = FunctionGraph(transform, points, starts, outputs, output_structure, None, outside, attached)
    recorded.aux = aux_structure.unflatten(map(recorded.exported, others))
    return recorded


def _alias(x: Tensor) -> Tensor:
    """Return another Tensor with the memory and history of x, since `_release_captured` may remove the history of x."""
    if not is_dense(x):
        return x
    alias = new_tensor(x.array)
    share(alias, x, related=False)
    alias._requires, alias._node = x._requires, x._node
    return alias


def _release_captured(written: list[Tensor], starts: Sequence[Node]) -> None:
    """Detach captured Tensors that the function wrote in place, except those that depend on Tensors outside of it."""
    if modes.written is not None:
        modes.written += [ref(x) for x in written]
    outside = read_from_outside([edge_of(x) for x in written], starts)
    for x in written:
        if x._node is not None and x._node not in outside:
            x._requires, x._node = False, None


def begin(x: Tensor) -> Tensor:
    """Return an identity of x at which a recorded function starts. Writes to the result do not change x."""
    if modes.level is not None:
        x = modes.level.lift(x)  # inside vmap, the function is recorded on the layer of the level
    start = new_tensor(x.array)
    start._storage = borrowed(storage_of(x))
    start._requires = True
    edge = edge_of(x)
    start._node = new_node(IDENTITY.plan(int(edge is not None)), (edge,), NOTHING, x.array.shape, x.array.dtype)
    return start


def read_from_outside(edges: list[Edge | None], starts: Sequence[Node], directions: Iterable[Edge] = ()) -> set[Edge]:
    """Return the edges, and the nodes below them, that depend on Tensors outside of the function that require grad.

    ``directions`` count as outside, even if they were created after the function started.
    """
    since = oldest(starts)
    order, _ = reachable((edge for edge in edges if edge is not None), since)
    outside = set(directions)

    def is_outside(edge: Edge | None) -> TypeGuard[Edge]:
        return edge is not None and (type(edge) is not Node or edge.sequence < since)

    outside.update(edge for node in order for edge in node.parents if is_outside(edge))
    outside.update(edge for edge in edges if is_outside(edge))
    return outside | leading_to(outside, order) if outside else outside


def zeros_at(x: Tensor) -> Tensor:
    """Return zeros with the shape and dtype of x."""
    return new_tensor(array_module(x).zeros(x.array.shape, x.array.dtype))


def as_point(
    transform: str,
    value: object,
    path: str,
    wrong_type: type[Exception] = ValueError,
    wrong_dtype: type[Exception] = RuntimeError,
) -> Tensor:
    """Return a leaf of an argument as a Tensor that derivatives can be taken with respect to.

    Raises:
        wrong_type: the leaf is not a Tensor, an array or a float. Forward mode swaps the two errors, as PyTorch does.
        wrong_dtype: its dtype is neither floating nor complex.
    """
    if not is_dense(value) and (not is_array_or_number(value) or isinstance(value, int)):
        raise wrong_type(f"{transform}: {path} must be a Tensor, got {_kind(value)}")
    x = operand(value)
    if not is_differentiable(x.dtype):
        raise wrong_dtype(
            f"{transform}: only Tensors of floating point and complex dtype have gradients, {path} is {describe(x)}; "
            "convert it to floating point, with astype(float) or .float()"
        )
    return x


def leaves_like(
    transform: str, nest: object, name: str, likes: list[Tensor], structure: Structure, what: str
) -> list[Tensor]:
    """Return the leaves of a nest with the structure, shapes and dtypes of ``likes``.

    Raises:
        RuntimeError: they differ; ``name`` is the nest in the message, and ``what`` that of ``likes``.
    """
    try:
        leaves = structure.leaves_of(nest, name)
    except Mismatch as error:
        raise RuntimeError(f"{transform}: {name} must be a nest like the {what}; {error}") from None
    return [
        _leaf_like(transform, t, x, name + path, what + path)
        for t, x, path in zip(leaves, likes, structure.paths(), strict=True)
    ]


def _leaf_like(transform: str, value: object, like: Tensor, path: str, what: str) -> Tensor:
    """Return a leaf as a Tensor with the shape and dtype of ``like``."""
    if not is_dense(value) and not is_array_or_number(value):
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
    """Return ones with the shape and dtype of x."""
    return new_tensor(array_module(x).ones(x.array.shape, x.array.dtype))
