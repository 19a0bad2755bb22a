"""``accelerator``: the GPU, if one answers, under names that fit any."""

from __future__ import annotations

from typing import Any

from ..core.arrays.devices import Device
from . import cuda


def is_available() -> bool:
    """Whether a GPU answers."""
    return cuda.is_available()


def device_count() -> int:
    """How many GPUs there are."""
    return cuda.device_count()


def current_accelerator(check_available: bool = False) -> Device | None:
    """The kind of the GPU, None where there is none."""
    return Device("cuda") if cuda.is_available() else None


def current_device_index() -> int:
    """The number of the current GPU."""
    return cuda.current_device()


def set_device_index(device: Any) -> None:
    """Choose the current GPU."""
    cuda.set_device(device)


class device_index(cuda.device):
    """A context manager in which another GPU is the current one; None changes nothing."""

    def __enter__(self) -> None:
        if self.idx >= 0 and not cuda.is_available():
            raise RuntimeError(f"device_index({self.idx}): no GPU answers")
        super().__enter__()


def synchronize(device: Any = None) -> None:
    """Wait for the GPU, if there is one."""
    if cuda.is_available():
        cuda.synchronize(device)


current_device_idx, set_device_idx = current_device_index, set_device_index
