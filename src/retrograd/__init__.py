"""Retrograd: automatic differentiation and neural networks over NumPy and CuPy, with the gradients in plain sight."""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING
from typing import Any as _Any

from . import autograd as autograd
from . import ops as ops
from .core.devices import Device as device
from .core.devices import get_default_device as get_default_device
from .core.devices import is_cuda_available as is_cuda_available
from .core.devices import set_default_device as set_default_device
from .core.dtypes import bool_ as bool_
from .core.dtypes import can_cast as can_cast
from .core.dtypes import complex64 as complex64
from .core.dtypes import complex128 as complex128
from .core.dtypes import float16 as float16
from .core.dtypes import float32 as float32
from .core.dtypes import float64 as float64
from .core.dtypes import get_default_dtype as get_default_dtype
from .core.dtypes import int8 as int8
from .core.dtypes import int16 as int16
from .core.dtypes import int32 as int32
from .core.dtypes import int64 as int64
from .core.dtypes import promote_types as promote_types
from .core.dtypes import result_type as result_type
from .core.dtypes import set_default_dtype as set_default_dtype
from .core.dtypes import uint8 as uint8
from .core.modes import enable_grad as enable_grad
from .core.modes import inference_mode as inference_mode
from .core.modes import is_grad_enabled as is_grad_enabled
from .core.modes import is_inference_mode_enabled as is_inference_mode_enabled
from .core.modes import no_grad as no_grad
from .core.modes import set_grad_enabled as set_grad_enabled
from .core.tensor import Size as Size
from .core.tensor import Tensor as Tensor
from .ops.generators import Generator as Generator
from .ops.generators import default_generator as default_generator
from .ops.generators import get_rng_state as get_rng_state
from .ops.generators import initial_seed as initial_seed
from .ops.generators import manual_seed as manual_seed
from .ops.generators import seed as seed
from .ops.generators import set_rng_state as set_rng_state

if TYPE_CHECKING:
    from . import cli as cli
    from . import data as data
    from . import fft as fft
    from . import func as func
    from . import linalg as linalg
    from . import manual as manual
    from . import nn as nn
    from . import optim as optim
    from . import scalar as scalar
    from . import special as special
    from . import utils as utils

__version__ = "0.1.0"

# PyTorch's other names of the dtypes. `bool` must not hide the builtin inside this module's importers, so it is given
# by __getattr__ with what is imported when first asked for.
half, float, double, short, int, long, cfloat, cdouble = (
    float16, float32, float64, int16, int32, int64, complex64, complex128,
)  # fmt: skip

_LAZY = ("cli", "data", "fft", "func", "linalg", "manual", "nn", "optim", "scalar", "special", "training", "utils")


def __getattr__(name: str) -> _Any:
    if name in _LAZY:
        return _import_module(f"{__name__}.{name}")
    if name == "bool":
        return bool_
    if name in ("save", "load"):
        return getattr(_import_module(f"{__name__}.serialization"), name)
    for entry in ops.registry.OPERATORS.values():
        if not entry.namespace and (entry.name == name or name in entry.aliases):
            return entry.function
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


