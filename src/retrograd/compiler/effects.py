"""What a program does to the objects that its user holds, besides writing into arrays."""

from __future__ import annotations

from typing import Any

from ..core.storage import leave
from ..core.tensor import Tensor, new_tensor


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
