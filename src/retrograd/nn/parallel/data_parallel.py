"""Data parallelism over the devices of one process, of which one is used."""

from __future__ import annotations

from typing import Any

from ..base.module import Module


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
