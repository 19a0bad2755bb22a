"""Retrograd: automatic differentiation and neural networks over NumPy and CuPy, with the gradients in plain sight."""

from importlib import import_module as _import_module

from .core.tensor import Tensor as Tensor
from . import ops as ops
from . import autograd as autograd
from .core.modes import no_grad as no_grad, enable_grad as enable_grad, inference_mode as inference_mode, set_grad_enabled as set_grad_enabled, is_grad_enabled as is_grad_enabled, is_inference_mode_enabled as is_inference_mode_enabled
from .core.dtypes import *
from .core.devices import Device as device, get_default_device as get_default_device, set_default_device as set_default_device
from .core.tensor import Size as Size

__version__ = "0.1.0"


def __getattr__(name: str):
    if name in ("nn", "optim", "data", "func", "inspect", "scalar", "manual", "linalg", "special", "fft", "utils"):
        return _import_module(f"{__name__}.{name}")
    for entry in ops.registry.OPERATORS.values():
        if not entry.namespace and (entry.name == name or name in entry.aliases):
            return entry.function
    raise AttributeError(f"module 'retrograd' has no attribute {name!r}")
