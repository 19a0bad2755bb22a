"""``Context``, the ``ctx`` argument of a Function's methods."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any
from warnings import warn
from weakref import ref

from ..core.graph.nodes import NOTHING, Node, edge_of, new_node
from ..core.graph.primitive import select_plan
from ..core.tensor.storage import borrowed, share, storage_of
from ..core.tensor.tensor import Tensor, new_tensor

_OF_THE_NODE = frozenset(["metadata", "name", "next_functions", "register_hook", "register_prehook"])


def _assigned(attribute: str, method: Callable[..., None]) -> property:
    """Return a property: the Tensors that ``forward`` passed to ``method``, or None; assigning it calls ``method``."""

    def assign(self: Context, tensors: Iterable[Tensor] | None) -> None:
        method(self, *(tensors or ()))

    return property(lambda self: getattr(self, attribute) or None, assign)


class Context:
    """Passes values from ``forward`` to ``backward`` and ``jvp``.

    Attributes:
        needs_input_grad: a bool per argument of ``forward``.
        saved_tensors: the arguments of ``save_for_backward``; in ``jvp``, those of ``save_for_forward``, if any.
    """

    needs_input_grad: tuple[bool, ...] = ()
    materialize_grads: bool = True
    _inputs: tuple[tuple[object, object] | None, ...] = ()
    _outputs: tuple[tuple[Any, Any], ...] = ()
    _node: Any = None
    _packed: Any = None
    _clears: bool = False  # ``clear_saved_tensors_on_access`` of the Function
    _marked: tuple[Tensor, ...] | None = None

    def __init__(self) -> None:
        self._to_save: tuple[Any, ...] = ()
        self._to_save_forward: tuple[object, ...] | None = None
        self._saved: tuple[Any, ...] | None = None
        self._saved_forward: tuple[Any, ...] | None = None
        self._given: tuple[object, ...] | None = None  # inside vmap, the saved Tensors of all examples
        self._non_differentiable: set[int] = set()
        self._dirty: tuple[Tensor, ...] = ()
        self._differentiable: set[int] = set()

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save inputs, outputs or intermediate Tensors for ``backward``; they are freed with the graph."""
        self._to_save = _savable("save_for_backward", tensors)

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save inputs, outputs or intermediate Tensors for ``jvp``; they are freed with the graph."""
        self._to_save_forward = _savable("save_for_forward", tensors)

    def mark_non_differentiable(self, *tensors: Tensor) -> None:
        """Declare that these outputs have no gradient."""
        self._non_differentiable.update(id(tensor) for tensor in tensors)
        self._marked = tensors

    def mark_dirty(self, *tensors: Tensor) -> None:
        """Declare that ``forward`` wrote these inputs in place; ``forward`` must return them."""
        self._dirty = tensors

    def set_materialize_grads(self, value: bool) -> None:
        """Set whether ``backward`` receives missing gradients as zeros (the default) or as None."""
        self.materialize_grads = value

    to_save = _assigned("_to_save", save_for_backward)
    saved_for_forward = _assigned("_to_save_forward", save_for_forward)
    non_differentiable = _assigned("_marked", mark_non_differentiable)
    dirty_tensors = _assigned("_dirty", mark_dirty)

    def mark_shared_storage(self, *pairs: tuple[Tensor, Tensor]) -> None:
        """Do nothing: shared memory is tracked. Deprecated."""
        warn("mark_shared_storage is deprecated: shared memory is tracked", FutureWarning, stacklevel=2)

    @property
    def requires_grad(self) -> bool:
        """Whether an argument of ``forward`` requires grad."""
        return any(self.needs_input_grad)

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """``saved_tensors``. Deprecated."""
        warn("saved_variables is deprecated; use saved_tensors", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    def maybe_clear_saved_tensors(self) -> None:
        """Free the saved Tensors if the Function sets ``clear_saved_tensors_on_access``."""
        if self._clears:
            self._saved = self._packed = None

    def __getattr__(self, name: str) -> object:
        """Return the attributes of the node of the recorded call: in PyTorch, the context is that node."""
        if name == "saved_variables":
            warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
            return self.saved_tensors
        node = None if self._node is None or name not in _OF_THE_NODE else self._node()
        if node is None:
            raise AttributeError(
                f"ctx has no attribute {name!r}; assign it in forward or setup_context: ctx.{name} = ..."
            )
        return getattr(node, name)

    @property
    def saved_tensors(self) -> tuple[Any, ...]:
        if self._given is not None:
            return self._given
        if self._saved is None:
            raise RuntimeError("saved_tensors: freed by an earlier backward; pass retain_graph=True to that backward")
        if self._packed is not None:  # saved_tensors_hooks: unpack_hook returns arrays and storages
            entries = zip(self._saved, self._packed, strict=True)
            restored = tuple(
                None if entry is None else self._restore(*packed.restored(), *entry) for entry, packed in entries
            )
        else:
            restored = tuple(None if entry is None else self._restore(*entry) for entry in self._saved)
        self.maybe_clear_saved_tensors()
        return restored

    def pack(self, packing: Any) -> None:
        """Pack the Tensors saved for ``backward`` with ``saved_tensors_hooks``."""
        saved = self._saved or ()
        node = self._node()
        self._packed = [
            None if entry is None else packing.packed(entry[0], node if entry[3] is None else entry[3], entry[1])
            for entry in saved
        ]
        self._saved = tuple(None if entry is None else entry[2:] for entry in saved)

    def move(self, node: Node, counterparts: dict[Node, Node]) -> None:
        """Attach this context to another node, and map the nodes of saved Tensors by ``counterparts``."""
        self._node = ref(node)

        def moved(entries: tuple[Any, ...] | None) -> tuple[Any, ...] | None:
            return entries and tuple([x and (*x[:-1], counterparts.get(x[-1], x[-1])) for x in entries])

        self._saved, self._saved_forward = moved(self._saved), moved(self._saved_forward)

    def _keep(self, outputs: list[Any], node: Node) -> None:
        # Save an output as its array and index: node -> ctx -> output -> node would be a reference cycle.
        places = {id(x): index for index, x in enumerate(outputs) if isinstance(x, Tensor)}
        self._node = ref(node)

        def kept(tensors: tuple[Any, ...]) -> tuple[Any, ...]:
            return tuple(
                None
                if x is None
                else (x.array, storage_of(x), places.get(id(x)), None if id(x) in places else edge_of(x))
                for x in tensors
            )

        self._saved = kept(self._to_save)
        self._saved_forward = None if self._to_save_forward is None else kept(self._to_save_forward)
        self._to_save = ()
        self._to_save_forward = None
        self._marked = None

    def _restore(self, array: Any, storage: Any, output: int | None, edge: Any) -> Tensor:
        if isinstance(edge, Tensor) and edge.array is array:
            return edge
        tensor = new_tensor(array)
        tensor._storage = borrowed(storage)
        if output is not None and output in self._differentiable:
            edge = new_node(select_plan(output), (self._node(),), NOTHING, array.shape, array.dtype)
        if edge is not None:
            tensor._requires = True
            tensor._node = edge
        return tensor


def _savable(caller: str, tensors: tuple[object, ...]) -> tuple[Any, ...]:
    for index, tensor in enumerate(tensors):
        if tensor is not None and not isinstance(tensor, Tensor):
            raise TypeError(
                f"{caller}: argument {index} must be a Tensor or None, not {type(tensor).__name__}; keep other values "
                "as attributes of ctx"
            )
    return tensors


def alias(x: Tensor, ctx: Context) -> Tensor:
    """Return a new Tensor on the memory of x, for an input that ``forward`` returns unchanged."""
    other = new_tensor(x.array)
    share(other, x, related=False)
    if id(x) in ctx._non_differentiable:
        ctx._non_differentiable.add(id(other))
    return other
