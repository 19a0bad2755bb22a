"""Effects of a program on the user's objects, other than writes to arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from ...core.arrays import Array
from ...core.arrays.layout import is_view
from ...core.tensor.storage import LOCAL_ONLY, is_saved, leave, sharers
from ...core.tensor.tensor import Tensor, new_tensor
from ..program import Value


def hooks_of(x: Tensor) -> tuple[Any, ...]:
    """Return the hooks that a backward pass calls at a Tensor."""
    hooks, node = x._hooks, x._node
    found = () if hooks is None else (*hooks.on_gradient.values(), None, *hooks.on_accumulation.values())
    return found if node is None or not node.hooks else (*found, *node.hooks.values())


def _history_of(x: Tensor) -> int | None:
    """Return the sequence number of the node that computed a Tensor."""
    node = x._node
    return None if node is None else node.sequence


class Outside:
    """A Tensor from outside of the function: its state when it was lifted, and what the trace did to it."""

    __slots__ = (
        "accumulated", "array", "cleared", "first", "grad", "history", "hooks", "node", "read", "requires",
        "start_grad", "tensor",
    )  # fmt: skip

    def __init__(self, tensor: Tensor, node: Value) -> None:
        self.tensor = tensor
        self.array = tensor.array
        self.node = self.first = node
        self.requires = tensor._requires
        self.history = _history_of(tensor)
        self.hooks = hooks_of(tensor) if tensor._requires else ()
        self.start_grad = self.grad = tensor._grad
        self.cleared = False  # the gradient was cleared before the function read or accumulated it
        self.accumulated = False
        self.read = False  # the function read the gradient from before the call


def unrepeatable_change(outside: Iterable[Outside]) -> str:
    """Describe a change to a Tensor from outside that a replay does not repeat; empty if there is none."""
    for entry in outside:
        x = entry.tensor
        if entry.requires and hooks_of(x) != entry.hooks:
            return "it registers or removes a hook on a Tensor from outside of the function"
        if x._node is None and x._requires is not entry.requires:
            return "it sets requires_grad of a Tensor from outside of the function"
        if x._node is not None and _history_of(x) != entry.history:
            return "it writes a value that requires grad into a Tensor from outside of the function"
    return ""


def set_grad(leaf: Tensor, array: Array) -> None:
    """Set a leaf's gradient to ``array``."""
    leaf._grad = new_tensor(array)


def reusable_grad(leaf: Tensor) -> Array | None:
    """Return the memory of a leaf's gradient for reuse, or None if another object may refer to it.

    The gradient is removed from the leaf first, so that the reference counts include holders on other threads.
    """
    grad, leaf._grad = leaf._grad, None
    if grad is None:
        return None
    array = grad.array
    if getrefcount(grad) == LOCAL_ONLY and type(array) is np.ndarray and getrefcount(array) == LOCAL_ONLY + 1:
        flags = array.flags
        mine = flags.owndata or not is_view(array)
        if (
            mine
            and flags.writeable
            and flags.c_contiguous
            and not (grad._requires or is_saved(grad) or len(sharers(grad)) > 1)
        ):
            return array
    leaf._grad = grad
    return None


def give_back(leaves: Sequence[Tensor | None], arrays: Sequence[Any]) -> None:
    """Restore gradients that ``reusable_grad`` removed from leaves."""
    for leaf, array in zip(leaves, arrays, strict=True):
        if leaf is not None and array is not None:
            set_grad(leaf, array)


def clear_grad(leaf: Tensor) -> None:
    leaf._grad = None


def give_array(x: Tensor, array: object) -> None:
    """Replace the memory of a Tensor."""
    leave(x)
    x.array = array


def run_step(
    optimizer: Any, step: Any, arrays: object = None, scaled: Sequence[Array] = (), factor: Array | None = None
) -> None:
    """Run an optimizer's step. ``arrays``, which the step reads and writes, only order the instructions.

    The gradients in ``scaled`` are multiplied by ``factor`` first.
    """
    if factor is None:
        step(optimizer)
    else:
        optimizer._step_with_scaling(step, scaled, factor)
