"""Data parallelism over the devices of one process; only one device is used."""

from __future__ import annotations

from typing import Any

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
