"""Data parallelism over the devices of one process, of which only one is used, and PyTorch's helper functions."""

from __future__ import annotations

from typing import Any

from ..._generated.toplevel import cat, stack
from ...core.tensor.tensor import Tensor
from ..base.module import Module


class DataParallel(Module):
    """PyTorch's ``DataParallel`` on one device; the results are the same.

    Args:
        module: the module, registered as the submodule ``module``, whose name begins all names of the state dict.
        device_ids: ignored; for compatibility.

    >>> import retrograd as rg
    >>> list(rg.nn.DataParallel(rg.nn.Linear(2, 1)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module: Module, device_ids: object = None, output_device: object = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []
        self.output_device = output_device
        self.dim = dim

    def forward(self, *args: object, **kwargs: object) -> Any:
        return self.module(*args, **kwargs)


def data_parallel(
    module: Module,
    inputs: object,
    device_ids: object = None,
    output_device: object = None,
    dim: int = 0,
    module_kwargs: dict[str, object] | None = None,
) -> Any:
    """Return ``module(*inputs)``, computed on one device."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


def parallel_apply(modules: Any, inputs: Any, kwargs_tup: Any = None, devices: Any = None) -> list[Any]:
    """Return each module's result for its part of the batch, computed sequentially."""
    options = kwargs_tup or [{}] * len(modules)
    parts = [part if isinstance(part, (list, tuple)) else (part,) for part in inputs]
    return [module(*part, **option) for module, part, option in zip(modules, parts, options, strict=True)]


def replicate(network: Module, devices: Any, detach: bool = False) -> list[Module]:
    """Return the module, once per device (not copied)."""
    return [network] * max(1, len(devices))


def _broadcast_coalesced_reshape(tensors: Any, devices: Any, detach: bool = False) -> list[list[Tensor]]:
    """Return the Tensors, once per device (not copied)."""
    return [[x.detach() if detach else x for x in tensors] for _ in range(max(1, len(devices)))]


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
