"""Copies of a module and of its Tensors, one per device."""

from __future__ import annotations

from typing import Any

from ...core.tensor.tensor import Tensor
from ..base.module import Module


def replicate(network: Module, devices: Any, detach: bool = False) -> list[Module]:
    """The module, once per device: they are all one."""
    return [network] * max(1, len(devices))


def _broadcast_coalesced_reshape(tensors: Any, devices: Any, detach: bool = False) -> list[list[Tensor]]:
    """The Tensors, once per device: all of them are the same."""
    return [[x.detach() if detach else x for x in tensors] for _ in range(max(1, len(devices)))]
