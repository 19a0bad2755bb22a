"""``utils.checkpoint``: what programs with blocks of their own ask for, beside ``checkpoint`` itself."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ..core.tensor.tensor import Tensor
from . import cuda


def get_device_states(*args: Any) -> tuple[list[int], list[Tensor]]:
    """The GPUs of the arguments, and the states of their random numbers."""
    devices = sorted({x.device.index or 0 for x in args if isinstance(x, Tensor) and x.is_cuda})
    return devices, [cuda.get_rng_state(device) for device in devices]


def set_device_states(devices: Sequence[int], states: Sequence[Tensor], **options: Any) -> None:
    """Set back what ``get_device_states`` gave."""
    for device, state in zip(devices, states, strict=True):
        cuda.set_rng_state(state, device)


def detach_variable(inputs: tuple[Any, ...]) -> tuple[Any, ...]:
    """The Tensors among the inputs detached, requiring grad as they did."""
    return tuple(x.detach().requires_grad_(x.requires_grad) if isinstance(x, Tensor) else x for x in inputs)


__all__ = ["detach_variable", "get_device_states", "set_device_states"]
