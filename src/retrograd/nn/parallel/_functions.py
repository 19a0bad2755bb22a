"""Operators between devices, under the names that programs take them by."""

from __future__ import annotations

from typing import Any

from ...core.tensor.tensor import Tensor


class Broadcast:
    """Copies of Tensors, one per device: on one device the Tensors themselves."""

    @staticmethod
    def apply(target_gpus: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
        """The Tensors, once per device."""
        return inputs * max(1, len(target_gpus))


class ReduceAddCoalesced:
    """Sums over devices of Tensors."""

    @staticmethod
    def apply(destination: Any, num_inputs: int, *grads: Tensor) -> tuple[Tensor, ...]:
        """Per place among ``num_inputs`` the sum of every device's Tensor."""
        groups = [grads[start : start + num_inputs] for start in range(0, len(grads), num_inputs)]
        return tuple(sum(column[1:], start=column[0]) for column in zip(*groups, strict=True))
