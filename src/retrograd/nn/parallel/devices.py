"""Data parallelism over the devices of one process, of which one is used."""

from __future__ import annotations

from typing import Any

from ..._generated.toplevel import cat, stack
from ...core.tensor import Tensor
from ..module import Module


class DataParallel(Module):
    """A module that computes on one device what PyTorch splits over several: the numbers are the same.

    Args:
        module: the module; it is the submodule ``module`` here, and so in the names of the state dict.
        device_ids: taken for compatibility.

    >>> import retrograd as rg
    >>> list(rg.nn.DataParallel(rg.nn.Linear(2, 1)).state_dict())
    ['module.weight', 'module.bias']
    """

    def __init__(self, module: Module, device_ids: Any = None, output_device: Any = None, dim: int = 0) -> None:
        super().__init__()
        self.module = module
        self.device_ids: list[int] = []
        self.output_device = output_device
        self.dim = dim

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        return self.module(*args, **kwargs)


def replicate(network: Module, devices: Any, detach: bool = False) -> list[Module]:
    """The module, once per device: they are all one."""
    return [network] * max(1, len(devices))


def scatter(inputs: Any, target_gpus: Any, dim: int = 0) -> Any:
    """Parts of a batch, one per device; nests are taken apart."""
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


def scatter_kwargs(inputs: Any, kwargs: Any, target_gpus: Any, dim: int = 0) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """Parts of positional and keyword arguments, one per device, as many of one as of the other."""
    parts = scatter(inputs, target_gpus, dim) if inputs else []
    options = scatter(kwargs, target_gpus, dim) if kwargs else []
    count = max(len(parts), len(options))
    return (*parts, *[()] * (count - len(parts))), (*options, *[{}] * (count - len(options)))


def parallel_apply(modules: Any, inputs: Any, kwargs_tup: Any = None, devices: Any = None) -> list[Any]:
    """Each module's result for its part of the batch, one after the other."""
    options = kwargs_tup or [{}] * len(modules)
    parts = [part if isinstance(part, (list, tuple)) else (part,) for part in inputs]
    return [module(*part, **option) for module, part, option in zip(modules, parts, options, strict=True)]


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


def gather(outputs: Any, target_device: Any = None, dim: int = 0) -> Any:
    """One batch of parts; nests are joined within."""
    first = outputs[0]
    if isinstance(first, Tensor):
        return stack(list(outputs)) if first.ndim == 0 else cat(list(outputs), dim)
    if isinstance(first, dict):
        return type(first)((key, gather([output[key] for output in outputs], target_device, dim)) for key in first)
    if isinstance(first, (list, tuple)):
        return type(first)(gather(list(part), target_device, dim) for part in zip(*outputs, strict=True))
    return first


def data_parallel(
    module: Module,
    inputs: Any,
    device_ids: Any = None,
    output_device: Any = None,
    dim: int = 0,
    module_kwargs: dict[str, Any] | None = None,
) -> Any:
    """``module(*inputs)``, on one device."""
    return module(*(inputs if isinstance(inputs, tuple) else (inputs,)), **(module_kwargs or {}))


def _broadcast_coalesced_reshape(tensors: Any, devices: Any, detach: bool = False) -> list[list[Tensor]]:
    """The Tensors, once per device: all of them are the same."""
    return [[x.detach() if detach else x for x in tensors] for _ in range(max(1, len(devices)))]
