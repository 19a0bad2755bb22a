"""The public interface to the computational graph: hooks for saved Tensors, gradient edges, multi-gradient hooks."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any, Literal
from weakref import ref

from ..core.arrays.devices import Device
from ..core.graph.backward import Walk, walking
from ..core.graph.handles import RemovableHandle
from ..core.graph.nodes import Node as Node
from ..core.graph.nodes import edge_of
from ..core.graph.observers import observing
from ..core.tensor.storage import storage_of
from ..core.tensor.tensor import Tensor
from .gradients import GradientEdge as GradientEdge
from .gradients import get_gradient_edge as get_gradient_edge
from .packing import Packing


class _Disabled(threading.local):
    message: str | None = None


_disabled = _Disabled()


class saved_tensors_hooks(observing):
    """A context manager that packs the Tensors saved for the backward pass with ``pack_hook``.

    ``pack_hook(tensor)`` is called for each saved Tensor when an operator is recorded, and its result is saved instead
    of the Tensor. ``unpack_hook(packed)`` returns the Tensor when a derivative needs it. Of nested contexts, only the
    innermost applies. The hooks are not recorded. In a retained graph, each value is unpacked only once.

    Args:
        pack_hook: takes a Tensor, returns any object.
        unpack_hook: takes that object, returns a Tensor of the original shape and dtype.

    Raises:
        RuntimeError: inside ``disable_saved_tensors_hooks``; by backward, if ``unpack_hook`` returns another shape or
            dtype.
        TypeError: by backward, if ``unpack_hook`` does not return a Tensor.

    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> with rg.autograd.graph.saved_tensors_hooks(lambda t: t.numpy(force=True).copy(), rg.from_numpy):
    ...     y = x.exp()
    >>> y.sum().backward()
    >>> x.grad
    tensor([2.7183, 7.3891])
    """

    def __init__(self, pack_hook: Callable[[Tensor], object], unpack_hook: Callable[[Any], Tensor]) -> None:
        packing = Packing(pack_hook, unpack_hook)
        super().__init__(packing)
        packing.context = ref(self)
        self.pack_hook, self.unpack_hook = pack_hook, unpack_hook

    def __enter__(self) -> Any:
        if _disabled.message is not None:
            raise RuntimeError(_disabled.message)
        return super().__enter__()

    def _clone(self) -> saved_tensors_hooks:
        return saved_tensors_hooks(self.pack_hook, self.unpack_hook)


class save_on_cpu(saved_tensors_hooks):
    """A context manager that moves Tensors saved for the backward pass to the CPU until a derivative needs them.

    Args:
        pin_memory: accepted for compatibility; CuPy copies through its own pinned memory.
        device_type: accepted for compatibility.

    >>> x = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> with rg.autograd.graph.save_on_cpu():
    ...     y = x.exp()
    >>> y.sum().backward()
    >>> x.grad
    tensor([2.7183, 7.3891])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        def pack(tensor: Tensor) -> tuple[Device, Tensor]:
            return tensor.device, tensor.cpu()

        def unpack(packed: tuple[Device, Tensor]) -> Tensor:
            device, tensor = packed
            return tensor.to(device)

        super().__init__(pack, unpack)

    def _clone(self) -> save_on_cpu:
        return save_on_cpu()


@contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """A context manager inside which entering ``saved_tensors_hooks`` raises a RuntimeError with the given message.

    >>> with rg.autograd.graph.disable_saved_tensors_hooks("not here"):
    ...     try:
    ...         with rg.autograd.graph.save_on_cpu():
    ...             pass
    ...     except RuntimeError as error:
    ...         print(error)
    not here
    """
    before, _disabled.message = _disabled.message, error_message
    try:
        yield
    finally:
        _disabled.message = before


class _Mutations:
    """The value of ``with allow_mutation_on_saved_tensors()``."""

    def clear(self) -> None:
        """Do nothing: copies of saved Tensors are freed with their graphs."""


@contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_Mutations]:
    """Do nothing; accepted for compatibility. Writes to saved Tensors always go to a fresh copy.

    >>> x = rg.ones(2, requires_grad=True)
    >>> with rg.autograd.graph.allow_mutation_on_saved_tensors():
    ...     y = x * 2
    ...     z = y * y
    ...     _ = y.mul_(10)
    ...     z.sum().backward()
    >>> x.grad
    tensor([8., 8.])
    """
    yield _Mutations()


def increment_version(tensor: Tensor | Sequence[Tensor]) -> None:
    """Increment the version of Tensors whose memory was written without the engine's knowledge.

    >>> x = rg.ones(2)
    >>> rg.autograd.graph.increment_version(x)
    >>> x._version
    1
    """
    for x in (tensor,) if isinstance(tensor, Tensor) else tensor:
        storage_of(x).version += 1


class _Handles:
    """The handles of one hook that is registered on several Tensors."""

    def __init__(self, handles: list[RemovableHandle]) -> None:
        self.handles = handles

    def remove(self) -> None:
        """Remove the hook from all Tensors."""
        for handle in self.handles:
            handle.remove()

    def __enter__(self) -> _Handles:
        return self

    def __exit__(self, *error: object) -> None:
        self.remove()


def register_multi_grad_hook(
    tensors: Sequence[Tensor],
    fn: Callable[[Sequence[Tensor | None]], None] | Callable[[Tensor], None],
    *,
    mode: Literal["all", "any"] = "all",
) -> _Handles:
    """Register a hook that is called once per backward pass, when the gradients of several Tensors are known.

    Args:
        tensors: Tensors that require grad.
        fn: with ``"all"``, called with the list of gradients, None for Tensors that the pass does not reach; with
            ``"any"``, called with the first gradient.
        mode: ``"all"`` waits for all gradients, ``"any"`` for the first.

    Returns:
        A handle whose ``remove()`` removes the hook.

    Raises:
        ValueError: ``mode`` is neither ``"all"`` nor ``"any"``.
        RuntimeError: a Tensor does not require grad.

    >>> a, b = rg.ones(1, requires_grad=True), rg.ones(1, requires_grad=True)
    >>> handle = rg.autograd.graph.register_multi_grad_hook([a, b], lambda gradients: print(len(gradients)))
    >>> (a * b).sum().backward()
    2
    """
    if mode not in ("all", "any"):
        raise ValueError(f"register_multi_grad_hook: expects mode to be one of ('all', 'any') but got {mode!r}")
    found: dict[int, Tensor] = {}
    passed: list[ref[Walk]] = []  # the backward pass that computed ``found``

    def received(index: int, g: Tensor) -> None:
        now = walking()
        assert now is not None
        begun = bool(passed) and passed[0]() is now
        if not begun:
            passed[:] = [ref(now)]
            found.clear()
        if mode == "any":
            if not begun:
                fn(g)  # type: ignore[arg-type]
            return
        found[index] = g
        if len(found) == sum(now.reaches(edge_of(x)) for x in tensors):
            gradients = [found.get(place) for place in range(len(tensors))]
            found.clear()
            fn(gradients)  # type: ignore[arg-type]

    return _Handles([x.register_hook(partial(received, index)) for index, x in enumerate(tensors)])
