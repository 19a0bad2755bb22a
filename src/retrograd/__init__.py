"""Retrograd: automatic differentiation and neural networks over NumPy and CuPy."""

from . import _command  # noqa: F401  isort: skip  before all other imports, during which Ctrl-C may come

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from . import _hooks, ops
from ._generated import toplevel as _operators
from .core.arrays.devices import Device as device
from .core.arrays.devices import get_array_module, get_default_device, is_cuda_available, set_default_device
from .core.arrays.dtypes import can_cast, set_default_dtype
from .core.arrays.memory import empty_cache
from .core.arrays.public_dtypes import (
    bfloat16,
    bool_,
    complex64,
    complex128,
    dtype,
    float16,
    float32,
    float64,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from .core.graph import backward as _backward  # noqa: F401  adds its methods to Tensor
from .core.graph import hooks as _graph_hooks  # noqa: F401
from .core.graph.modes import (
    enable_grad,
    inference_mode,
    is_grad_enabled,
    is_inference_mode_enabled,
    no_grad,
    set_grad_enabled,
)
from .core.missing_names import legacy_names as _legacy_names
from .core.missing_names import operator_names as _operator_names
from .core.missing_names import repr_html as _repr_html
from .core.tensor.tensor import Size, Tensor
from .core.tensor.tensor import tensor_method as _tensor_method
from .ops.make.generators import (
    Generator,
    default_generator,
    get_rng_state,
    initial_seed,
    manual_seed,
    seed,
    set_rng_state,
)
from .ops.shape.conversion import get_default_dtype, promote_types, result_type

if TYPE_CHECKING:
    from . import array_api as array_api
    from . import autograd as autograd
    from . import cli as cli
    from . import data as data
    from . import distributed as distributed
    from . import distributions as distributions
    from . import fft as fft
    from . import func as func
    from . import inspect as inspect
    from . import linalg as linalg
    from . import manual as manual
    from . import nn as nn
    from . import ode as ode
    from . import onnx as onnx
    from . import optim as optim
    from . import polynomial as polynomial
    from . import random as random
    from . import scalar as scalar
    from . import scipy as scipy
    from . import signal as signal
    from . import sklearn as sklearn
    from . import sparse as sparse
    from . import special as special
    from . import testing as testing
    from . import training as training
    from . import utils as utils
    from . import weights as weights
    from ._generated.toplevel import *  # noqa: F403
    from .compiler import compile as compile
    from .func.memory.budget import memory_budget as memory_budget
    from .ops.numpy.index_tricks import c_ as c_
    from .ops.numpy.index_tricks import r_ as r_
    from .serialization import load as load
    from .serialization import save as save

    bool = bool_

__version__ = "0.1.0"

# PyTorch's other names of the dtypes. __getattr__ returns `bool`, which would hide the builtin in this module.
half, float, double, short, int, long, cfloat, cdouble = (
    float16, float32, float64, int16, int32, int64, complex64, complex128,
)  # fmt: skip

_LAZY = (
    "array_api", "autograd", "cli", "compiler", "data", "distributed", "distributions", "fft", "func", "inspect",
    "linalg", "manual", "nn", "ode", "onnx", "optim", "polynomial", "random", "scalar", "scipy", "signal", "sklearn",
    "sparse", "special", "testing", "training", "utils", "weights",
)  # fmt: skip


if not TYPE_CHECKING:  # hide __getattr__ from type checkers, so that they report unknown names

    def _further_name(name: str) -> _Any:
        if name in _LAZY:
            return _import_module(f"{__name__}.{name}")
        if name == "bool":
            return bool_
        if name == "compile":
            return _import_module(f"{__name__}.compiler").compile
        if name == "memory_budget":
            return _import_module(f"{__name__}.func").memory_budget
        if name in ("save", "load"):
            return getattr(_import_module(f"{__name__}.serialization"), name)
        if name in ("c_", "r_"):
            return getattr(_import_module(f"{__name__}.ops.numpy.index_tricks"), name)
        return _legacy_name(name)

    __getattr__, __dir__ = _operator_names(__name__, _operators.HOMES, _further_name)


_legacy_name = _legacy_names(__name__)
_hooks.enter_legacy_methods(Tensor)
_tensor_method(_repr_html("tensor_html"), "_repr_html_")


__all__ = [
    "Generator", "Size", "Tensor", "autograd", "bfloat16", "bool_", "c_", "can_cast", "complex64", "complex128",
    "default_generator", "device", "dtype", "empty_cache", "enable_grad", "float16", "float32", "float64",
    "get_array_module", "get_default_device", "get_default_dtype", "get_rng_state", "inference_mode", "initial_seed",
    "int8", "int16", "int32", "int64", "is_cuda_available", "is_grad_enabled", "is_inference_mode_enabled",
    "manual_seed", "no_grad", "ops", "promote_types", "r_", "result_type", "seed", "set_default_device",
    "set_default_dtype", "set_grad_enabled", "set_rng_state", "uint8", "uint16", "uint32", "uint64",
]  # fmt: skip
__all__ += _operators.__all__

_hooks.enter_finders()
