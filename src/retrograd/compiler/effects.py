"""What a program does to the objects that its user holds, besides writing into arrays."""

from __future__ import annotations

from typing import Any

from ..core.storage import leave
from ..core.tensor import Tensor, new_tensor
from .program import Value


class Outside:
    """A Tensor from outside of the function: what it was when it was lifted, and what the program knows of it."""

    __slots__ = ("accumulated", "array", "cleared", "first", "grad", "node", "requires", "start_grad", "tensor")

    def __init__(self, tensor: Tensor, node: Value) -> None:
        self.tensor = tensor
        self.array = tensor.array
        self.node = self.first = node
        self.requires = tensor._requires
        self.start_grad = self.grad = tensor._grad
        self.cleared = False  # its gradient, before anybody read or added to it
        self.accumulated = False


def set_grad(leaf: Tensor, array: Any) -> None:
    """Give a leaf a new gradient."""
    leaf._grad = new_tensor(array)


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
