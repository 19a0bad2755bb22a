"""``distributed._tensor``: Tensors that are spread over processes. None is: programs ask whether one is."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any


class DTensor:
    """A Tensor that is spread over processes: there is none."""


class Placement:
    """How a Tensor is spread."""


class Replicate(Placement):
    """Each process has it whole."""


class Shard(Placement):
    """Each process has a part, along a dimension."""

    def __init__(self, dim: int) -> None:
        self.dim = dim


class DeviceMesh:
    """Processes in rows and columns: there is one."""


def implicit_replication() -> Any:
    """A context manager that changes nothing: all Tensors are whole."""
    return nullcontext()
