"""Forward mode with dual Tensors: set the tangents of some Tensors and get the tangents of results.

Inside ``dual_level`` the program is recorded as for a backward pass, and ``unpack_dual`` propagates the tangents along
the graph (see ``func.jvp``). A dual Tensor therefore requires grad. A Tensor computed from it under ``no_grad`` has no
tangent, and ``unpack_dual`` raises an error for it.
"""

from __future__ import annotations

import threading
from weakref import WeakKeyDictionary, WeakSet

from ..core.arrays.dtypes import is_differentiable
from ..core.errors import describe
from ..core.graph.backward import as_array
from ..core.graph.modes import modes
from ..core.graph.nodes import NOTHING, Node, edge_of, new_node, reachable
from ..core.graph.observers import Observer, attach, detach
from ..core.graph.plan import Inputs, Params, Recordable
from ..core.missing_names import legacy_names
from ..core.named_tuples import NamedTuple
from ..core.tensor.printing import details
from ..core.tensor.storage import share, storage_of
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.forward import Tangent, jvp_through
from ..func.function_graph import Edge
from ..ops.table.elementwise_primitives import IDENTITY


class _Level(Observer):
    """The tangents set inside the level, and the results that were computed from dual Tensors but not recorded."""

    def __init__(self) -> None:
        self.tangents: WeakKeyDictionary[Node, Tensor] = WeakKeyDictionary()  # freed with their dual Tensors
        self.moving: WeakSet[Node] = WeakSet()  # nodes whose results have tangents
        self.lost: WeakSet[object] = WeakSet()  # unrecorded results, whose tangents are lost
        self.lost_gradients = False

    def recorded(self, node: Node) -> None:
        if any(type(parent) is Node and parent in self.moving for parent in node.parents):
            self.moving.add(node)

    def called(
        self, primitive: Recordable, inputs: Inputs, params: Params, outputs: tuple[Tensor, ...], node: Node | None
    ) -> None:
        unrecorded = node is None and not modes.grad_enabled
        for x in inputs:
            if isinstance(x, Tensor) and (x._storage in self.lost or unrecorded and x._node in self.moving):
                for y in outputs:
                    if is_differentiable(y.array.dtype):
                        self.lost.add(storage_of(y))
                return
        if node is not None:  # for a Function: only its forward was unrecorded
            for y in outputs:
                self.lost.discard(storage_of(y))

    def began(self) -> None:
        if self.tangents and not modes.grad_enabled:
            self.lost_gradients = True


def _tangent_shown(x: Tensor) -> str | None:
    here = _thread_state.level
    if here is None or x._node not in here.moving or x._storage in here.lost:
        return None
    return f"tangent={unpack_dual(x).tangent}"


details.append(_tangent_shown)


class _ThreadState(threading.local):
    level: _Level | None = None


_thread_state = _ThreadState()


_legacy_name = legacy_names(__name__)


def __getattr__(name: str) -> object:
    if name == "_current_level":  # PyTorch's level number, by which programs test whether a level is active
        return -1 if _thread_state.level is None else 0
    return _legacy_name(name)


class UnpackedDualTensor(NamedTuple):
    """A Tensor and its tangent, None if the Tensor has no tangent."""

    primal: Tensor
    tangent: Tensor | None


def enter_dual_level() -> int:
    """Enter a level, inside which Tensors can have tangents; ``dual_level`` is its context manager.

    Raises:
        RuntimeError: this thread is already inside a level.
    """
    if _thread_state.level is not None:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    _thread_state.level = _Level()
    attach(_thread_state.level)
    return 0


def exit_dual_level(*, level: int | None = None) -> None:
    """Exit the level and remove all its tangents.

    Args:
        level: 0, the number of the only level.

    Raises:
        RuntimeError: the thread is not inside a level.
    """
    if _thread_state.level is None or level not in (None, 0):
        raise RuntimeError("Trying to exit a forward AD level that was not the last one that was created.")
    detach(_thread_state.level)
    _thread_state.level.tangents.clear()
    _thread_state.level = None


class dual_level:
    """A context manager inside which Tensors can have tangents.

    >>> import retrograd.autograd.forward_ad as fwAD
    >>> with fwAD.dual_level():
    ...     x = fwAD.make_dual(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 10.0]))
    ...     fwAD.unpack_dual(x * x).tangent
    tensor([ 2., 40.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *error: object) -> None:
        exit_dual_level()


def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """Return a Tensor on the same memory with the given tangent.

    Args:
        tensor: the values, floating or complex.
        tangent: the direction, with the shape and dtype of ``tensor``. If ``tangent`` requires grad, the tangents of
            results require grad as well.
        level: 0, the number of the only level.

    Raises:
        RuntimeError: the thread is not inside a level, or shapes or dtypes differ.
        ValueError: ``tensor`` or ``tangent`` is neither floating nor complex.
        TypeError: one of them is not a Tensor.
    """
    if _thread_state.level is None or level not in (None, 0):
        raise RuntimeError(
            "Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first."
        )
    for name, x in (("primal", tensor), ("tangent", tangent)):
        if not isinstance(x, Tensor):
            raise TypeError(f"make_dual: expected {name} to be a Tensor, got {type(x).__name__}")
        if not is_differentiable(x.array.dtype):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {x.dtype}")
    if tensor.array.shape != tangent.array.shape:
        raise RuntimeError(
            "make_dual: Trying to set a forward gradient that has a different size than that of the original Tensor, "
            f"this is not supported. Tensor is {describe(tensor)}, the tangent {describe(tangent)}."
        )
    if tensor.array.dtype != tangent.array.dtype:
        raise RuntimeError(
            f"make_dual: expected the tangent to have the dtype of {describe(tensor)}, got {describe(tangent)}"
        )
    dual = new_tensor(tensor.array)
    share(dual, tensor, related=False)
    edge = edge_of(tensor)
    node = new_node(IDENTITY.plan(int(edge is not None)), (edge,), NOTHING, tensor.array.shape, tensor.array.dtype)
    dual._requires, dual._node = True, node
    _thread_state.level.tangents[node] = tangent
    _thread_state.level.moving.add(node)
    return dual


def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """Return the Tensor without its tangent, and the tangent: None outside of a level, or if the Tensor has none.

    Args:
        tensor: any Tensor.
        level: 0, the number of the only level.

    Raises:
        RuntimeError: the Tensor was computed from dual Tensors without a record: under ``no_grad``, or by a backward
            pass without ``create_graph=True``.
    """
    here = _thread_state.level
    if here is None or level not in (None, 0):
        return UnpackedDualTensor(tensor, None)
    if tensor._storage in here.lost:
        raise RuntimeError(
            f"unpack_dual: {describe(tensor)} was computed from dual Tensors under no_grad(), so it has no tangent; "
            "call the program under enable_grad()"
        )
    edge = edge_of(tensor)
    if type(edge) is not Node or edge not in here.moving:
        if edge is None and here.lost_gradients:
            raise RuntimeError(
                "unpack_dual: gradients of an unrecorded backward pass have no tangents; call grad or backward with "
                "create_graph=True"
            )
        return UnpackedDualTensor(tensor, None)
    _, leaves = reachable([edge])
    primal = tensor if leaves else tensor.detach()
    if edge in here.tangents:
        return UnpackedDualTensor(primal, here.tangents[edge])
    differentiable = modes.grad_enabled and (
        bool(leaves) or any(tangent._requires for tangent in here.tangents.values())
    )
    seeds: dict[Edge, Tangent] = {
        node: tangent if differentiable else tangent.array for node, tangent in here.tangents.items()
    }
    lost_gradients = here.lost_gradients
    found = jvp_through([edge], seeds, differentiable).get(edge)
    here.lost_gradients = lost_gradients  # jvp_through itself runs backward passes
    if found is None:
        tangent = tensor.new_zeros(tensor.shape)
    else:
        tangent = found if isinstance(found, Tensor) else new_tensor(as_array(found, tensor))
    return UnpackedDualTensor(primal, tangent)
