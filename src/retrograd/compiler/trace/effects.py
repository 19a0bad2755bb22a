"""What a program does to the objects that its user holds, besides writing into arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from sys import getrefcount
from typing import Any

import numpy as np

from ...core.tensor.storage import LOCAL_ONLY, is_saved, leave, sharers
from ...core.tensor.tensor import Tensor, new_tensor
from ..program import Value


def hooks_of(x: Tensor) -> tuple[Any, ...]:
    """The hooks that walks call at a Tensor."""
    hooks, node = x._hooks, x._node
    found = () if hooks is None else (*hooks.on_gradient.values(), None, *hooks.on_accumulation.values())
    return found if node is None or not node.hooks else (*found, *node.hooks.values())


class Outside:
    """A Tensor from outside of the function: what it was when it was lifted, and what the program knows of it."""

    __slots__ = (
        "accumulated", "array", "cleared", "first", "grad", "hooks", "node", "read", "requires", "start_grad", "tensor",
    )  # fmt: skip

    def __init__(self, tensor: Tensor, node: Value) -> None:
        self.tensor = tensor
        self.array = tensor.array
        self.node = self.first = node
        self.requires = tensor._requires
        self.hooks = hooks_of(tensor) if tensor._requires else ()
        self.start_grad = self.grad = tensor._grad
        self.cleared = False  # its gradient, before anybody read or added to it
        self.accumulated = False
        self.read = False  # its gradient, as it was before the function


def unrepeated(outside: Iterable[Outside]) -> str:
    """What a call did to Tensors from outside that no replay repeats, in words; empty where it did nothing such."""
    for entry in outside:
        x = entry.tensor
        if entry.requires and hooks_of(x) != entry.hooks:
            return "it registers or removes a hook on a Tensor from outside of the function"
        if x._node is None and x._requires is not entry.requires:
            return "it sets requires_grad of a Tensor from outside of the function"
    return ""


def set_grad(leaf: Tensor, array: Any) -> None:
    """Give a leaf a new gradient."""
    leaf._grad = new_tensor(array)


def spent_grad(leaf: Tensor) -> Any:
    """The memory of a leaf's gradient that is about to be another, where nobody else can see it; else None.

    It is taken off the leaf first: whoever holds it by then is counted, on whatever thread.
    """
    grad, leaf._grad = leaf._grad, None
    if grad is None:
        return None
    array = grad.array
    if getrefcount(grad) == LOCAL_ONLY and type(array) is np.ndarray and getrefcount(array) == LOCAL_ONLY + 1:
        flags = array.flags
        if flags.owndata and flags.writeable and not (grad._requires or is_saved(grad) or len(sharers(grad)) > 1):
            return array
    leaf._grad = grad
    return None


def give_back(leaves: Sequence[Tensor | None], arrays: Sequence[Any]) -> None:
    """Let leaves have the gradients again that were taken off them for their memory."""
    for leaf, array in zip(leaves, arrays, strict=True):
        if leaf is not None and array is not None:
            set_grad(leaf, array)


def clear_grad(leaf: Tensor) -> None:
    """Take a leaf's gradient away."""
    leaf._grad = None


def give_array(x: Tensor, array: Any) -> None:
    """Give a Tensor other memory."""
    leave(x)
    x.array = array


def run_step(optimizer: Any, step: Any, arrays: Any = None) -> None:
    """Let an optimizer make a step; ``arrays`` are what it reads and writes, for the order of instructions."""
    step(optimizer)
