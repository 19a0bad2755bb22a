"""Split batches between devices, and concatenate the results."""

from __future__ import annotations

from typing import Any

from ..._generated.toplevel import cat, stack
from ...core.tensor.tensor import Tensor


def scatter(inputs: object, target_gpus: Any, dim: int = 0) -> Any:
    """Split a batch into one part per device, recursively in nested containers."""
    count = max(1, len(target_gpus))
    if isinstance(inputs, Tensor):
        return inputs.chunk(count, dim)
    if isinstance(inputs, (list, tuple)) and inputs:
        parts = [scatter(value, target_gpus, dim) for value in inputs]
        return [type(inputs)(part) for part in zip(*parts, strict=True)]
    if isinstance(inputs, dict) and inputs:
        pairs = [[(key, part) for part in scatter(value, target_gpus, dim)] for key, value in inputs.items()]
        return [type(inputs)(part) for part in zip(*pairs, strict=True)]
    return [inputs] * count


def scatter_kwargs(
    inputs: object, kwargs: object, target_gpus: object, dim: int = 0
) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Split positional and keyword arguments into one part per device."""
    parts = scatter(inputs, target_gpus, dim) if inputs else []
    options = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(parts), len(options))
    return (*parts, *[()] * (count - len(parts))), (*options, *[{}] * (count - len(options)))


def gather(outputs: Any, target_device: Any = None, dim: int = 0) -> Any:
    """Concatenate parts of a batch, recursively in nested containers."""
    first = outputs[0]
    if isinstance(first, Tensor):
        return stack(list(outputs)) if first.ndim == 0 else cat(list(outputs), dim)
    if isinstance(first, dict):
        return type(first)((key, gather([output[key] for output in outputs], target_device, dim)) for key in first)
    if isinstance(first, (list, tuple)):
        return type(first)(gather(list(part), target_device, dim) for part in zip(*outputs, strict=True))
    return first
