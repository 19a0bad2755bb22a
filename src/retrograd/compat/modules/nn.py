"""Legacy and private names of ``nn`` and ``optim`` that programs use."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from enum import IntEnum
from functools import wraps
from inspect import signature
from itertools import repeat
from math import sqrt
from typing import Any, TypeVar, cast

from ..._generated import functional as F
from ..._generated.toplevel import zeros
from ...autograd.gradients import grad
from ...core.graph.modes import no_grad
from ...core.tensor.tensor import Tensor
from ...nn import init as _init
from ...nn.base.arguments import DeviceLike
from ...nn.base.module import Module
from ...nn.base.state import IncompatibleKeys
from ...nn.base.uninitialized import UninitializedBuffer as UninitializedBuffer
from ...nn.base.uninitialized import UninitializedParameter as UninitializedParameter
from ...nn.base.uninitialized import is_lazy as is_lazy
from ...nn.layers.convolution import _ConvTransposeNd
from ...nn.layers.linear import Linear
from ...nn.layers.normalization import LocalResponseNorm
from ...nn.losses.losses import NLLLoss
from ...nn.parallel.data_parallel import DataParallel as DataParallel
from ...nn.utils import clip_grad as _clip_grad
from ...optim.lr_scheduler.base import LRScheduler
from ...optim.optimizer import _Required

Result = TypeVar("Result")

# Modules

_ConvTransposeMixin = _ConvTransposeNd
_IncompatibleKeys = IncompatibleKeys
NonDynamicallyQuantizableLinear = Linear


def _addindent(s_: str, numSpaces: int) -> str:
    return s_.replace("\n", "\n" + " " * numSpaces)


class CrossMapLRN2d(LocalResponseNorm):
    """``LocalResponseNorm`` under its older name."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)


class NLLLoss2d(NLLLoss):
    """``NLLLoss``, which also accepts images."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn("NLLLoss2d is deprecated; use NLLLoss", FutureWarning, stacklevel=2)
        super().__init__(*args, **kwargs)


class Container(Module):
    """A Module with the submodules given by keyword."""

    def __init__(self, **kwargs: Module) -> None:
        super().__init__()
        warnings.warn("nn.Container is deprecated. All of its functionality is in nn.Module", stacklevel=2)
        for name, module in kwargs.items():
            self.add_module(name, module)


# Deprecated names of ``nn.utils`` and ``nn.init``


def _deprecated(module: str, name: str, present: Callable[..., Result]) -> Callable[..., Result]:

    @wraps(present)
    def function(*args: object, **kwargs: object) -> Result:
        message = f"{module}{name} is now deprecated in favor of {module}{name}_."
        warnings.warn(message, FutureWarning, stacklevel=2)
        return present(*args, **kwargs)

    function.__name__ = function.__qualname__ = name
    return function


clip_grad_norm = _deprecated("", "clip_grad_norm", _clip_grad.clip_grad_norm_)
clip_grad_value = _deprecated("", "clip_grad_value", _clip_grad.clip_grad_value_)


def skip_init(module_cls: Callable[..., Module], *args: object, device: DeviceLike = "cpu", **kwargs: object) -> Module:
    """Return a new module whose parameters and buffers are uninitialized.

    Raises:
        RuntimeError: the class is not a Module, or has no argument ``device``.
    """
    if not issubclass(cast(type, module_cls), Module):
        raise RuntimeError(f"skip_init: expected a Module, got {module_cls}")
    if "device" not in signature(module_cls).parameters:
        raise RuntimeError(f"skip_init: {module_cls.__name__} must have an argument 'device'")
    return module_cls(*args, **kwargs, device="meta").to_empty(device=device)


_INITIALIZERS = (
    "constant dirac eye kaiming_normal kaiming_uniform normal orthogonal sparse uniform xavier_normal xavier_uniform"
)


# ``nn.modules.utils``: arguments that are one value or one value per dimension


def _ntuple(n: int, name: str = "parse") -> Callable[[object], tuple[object, ...]]:
    def parse(x: object) -> tuple[object, ...]:
        return tuple(x) if isinstance(x, Iterable) else tuple(repeat(x, n))

    parse.__name__ = name
    return parse


_single, _pair = _ntuple(1, "_single"), _ntuple(2, "_pair")
_triple, _quadruple = _ntuple(3, "_triple"), _ntuple(4, "_quadruple")


def _reverse_repeat_tuple(t: tuple[Result, ...], n: int) -> tuple[Result, ...]:
    return tuple(x for x in reversed(t) for _ in range(n))


def _list_with_default(out_size: int | list[int] | None, defaults: list[int]) -> int | list[int]:
    if isinstance(out_size, int):
        return out_size
    if len(defaults) <= len(out_size or ()):
        raise ValueError(f"Input dimension should be at least {len(out_size or ()) + 1}")
    return [v if v is not None else d for v, d in zip(out_size or (), defaults[-len(out_size or ()) :])]


def consume_prefix_in_state_dict_if_present(state_dict: dict[str, object], prefix: str) -> None:
    """Remove a prefix, such as that of ``DataParallel``, from the keys of a state dict, in place."""
    for key in list(state_dict):
        if key.startswith(prefix):
            state_dict[key[len(prefix) :]] = state_dict.pop(key)


# ``nn.grad``


def _gradient(convolution: Callable[..., Tensor], axes: int) -> tuple[Callable[..., Tensor], Callable[..., Tensor]]:

    def with_respect_to_input(
        input_size: Sequence[int],
        weight: Tensor,
        grad_output: Tensor,
        stride: object = 1,
        padding: object = 0,
        dilation: object = 1,
        groups: int = 1,
    ) -> Tensor:
        x = zeros(*input_size, dtype=weight.dtype, device=weight.device, requires_grad=True)
        y = convolution(x, weight, None, stride, padding, dilation, groups)
        return grad(y, x, grad_output, create_graph=grad_output.requires_grad or weight.requires_grad)[0]

    def with_respect_to_weight(
        input: Tensor,
        weight_size: Sequence[int],
        grad_output: Tensor,
        stride: object = 1,
        padding: object = 0,
        dilation: object = 1,
        groups: int = 1,
    ) -> Tensor:
        w = zeros(*weight_size, dtype=input.dtype, device=input.device, requires_grad=True)
        y = convolution(input, w, None, stride, padding, dilation, groups)
        return grad(y, w, grad_output, create_graph=grad_output.requires_grad or input.requires_grad)[0]

    for function, argument in ((with_respect_to_input, "input"), (with_respect_to_weight, "weight")):
        function.__name__ = function.__qualname__ = f"conv{axes}d_{argument}"
        function.__doc__ = f"Return the gradient of ``conv{axes}d`` with respect to {argument}, given its size."
    return with_respect_to_input, with_respect_to_weight


conv1d_input, conv1d_weight = _gradient(F.conv1d, 1)
conv2d_input, conv2d_weight = _gradient(F.conv2d, 2)
conv3d_input, conv3d_weight = _gradient(F.conv3d, 3)


# ``nn.attention``: attention has one implementation, whichever kernel is selected


class SDPBackend(IntEnum):
    """PyTorch's attention kernels."""

    ERROR = -1
    MATH = 0
    FLASH_ATTENTION = 1
    EFFICIENT_ATTENTION = 2
    CUDNN_ATTENTION = 3
    OVERRIDEABLE = 4


def sdpa_kernel(backends: object, set_priority: bool = False) -> AbstractContextManager[None]:
    """Return a context manager that has no effect."""
    return nullcontext()


# Private names of ``optim.optimizer`` that third-party optimizers import, and of ``optim.lr_scheduler``

_RequiredParameter = _Required
ParamsT = params_t = Iterable[object]
_params_doc = _foreach_doc = _maximize_doc = _capturable_doc = _differentiable_doc = _fused_doc = ""
_LRScheduler = LRScheduler


def _use_grad_for_differentiable(func: Callable[..., Result]) -> Callable[..., Result]:
    """Return an optimizer's step that records no computational graph."""

    @wraps(func)
    def step(self: object, *args: object, **kwargs: object) -> Result:
        with no_grad():
            return func(self, *args, **kwargs)

    return step


def _get_value(x: object) -> object:
    return x.item() if isinstance(x, Tensor) else x


def _stack_if_compiling(x: Result) -> Result:
    return x


def _dispatch_sqrt(x: Tensor | float) -> Tensor | float:
    return x.sqrt() if isinstance(x, Tensor) else sqrt(x)


def _default_to_fused_or_foreach(params: object, differentiable: bool, use_fused: bool = False) -> tuple[bool, bool]:
    return False, False


_NN = "Container CrossMapLRN2d DataParallel NLLLoss2d UninitializedBuffer UninitializedParameter is_lazy"
NAMES: Mapping[str, str | Mapping[str, object]] = {
    "nn": _NN,
    "nn.modules": f"{_NN} Linear LocalResponseNorm Module NLLLoss NonDynamicallyQuantizableLinear "
    "_ConvTransposeMixin _ConvTransposeNd _IncompatibleKeys _addindent",
    "nn.attention": "SDPBackend sdpa_kernel",
    "nn.grad": "conv1d_input conv1d_weight conv2d_input conv2d_weight conv3d_input conv3d_weight",
    "nn.init": {name: _deprecated("nn.init.", name, getattr(_init, f"{name}_")) for name in _INITIALIZERS.split()},
    "nn.modules.utils": "_list_with_default _ntuple _pair _quadruple _reverse_repeat_tuple _single _triple "
    "consume_prefix_in_state_dict_if_present",
    "nn.utils": "clip_grad_norm clip_grad_value skip_init",
    "optim.lr_scheduler": "_LRScheduler",
    "optim.optimizer": "ParamsT _RequiredParameter _capturable_doc _default_to_fused_or_foreach _differentiable_doc "
    "_dispatch_sqrt _foreach_doc _fused_doc _get_value _maximize_doc _params_doc _stack_if_compiling "
    "_use_grad_for_differentiable params_t",
}
