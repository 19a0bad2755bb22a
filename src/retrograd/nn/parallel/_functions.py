"""Operators between devices, under PyTorch's names."""

from __future__ import annotations

from typing import Any

from ...core.tensor.tensor import Tensor


class Broadcast:
    """Broadcast Tensors to devices; a single device returns the Tensors themselves."""

    @staticmethod
    def apply(target_gpus: Any, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the Tensors, once per device."""
        return inputs * max(1, len(target_gpus))


class ReduceAddCoalesced:
    """Sum Tensors over devices."""

    @staticmethod
    def apply(destination: object, num_inputs: int, *grads: Tensor) -> tuple[Tensor, ...]:
        """Return, for each of ``num_inputs`` positions, the sum of the devices' Tensors."""
        groups = [grads[start : start + num_inputs] for start in range(0, len(grads), num_inputs)]
        return tuple(sum(column[1:], start=column[0]) for column in zip(*groups, strict=True))
