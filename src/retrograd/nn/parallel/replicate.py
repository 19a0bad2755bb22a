"""Replicas of a module and of its Tensors, one per device."""

from __future__ import annotations

from typing import Any

from ...core.tensor.tensor import Tensor
from ..base.module import Module


def replicate(network: Module, devices: Any, detach: bool = False) -> list[Module]:
    """Return the module, once per device (not copied)."""
    return [network] * max(1, len(devices))


def _broadcast_coalesced_reshape(tensors: Any, devices: Any, detach: bool = False) -> list[list[Tensor]]:
    """Return the Tensors, once per device (not copied)."""
    return [[x.detach() if detach else x for x in tensors] for _ in range(max(1, len(devices)))]
