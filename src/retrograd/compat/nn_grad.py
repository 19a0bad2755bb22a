"""``nn.grad``: the gradients of convolutions, as functions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .._generated import functional as F
from .._generated.toplevel import zeros
from ..autograd.gradients import grad
from ..core.tensor.tensor import Tensor


def _input(convolution: Callable[..., Tensor], axes: int) -> Callable[..., Tensor]:
    def function(
        input_size: Any,
        weight: Tensor,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        x = zeros(*input_size, dtype=weight.dtype, device=weight.device, requires_grad=True)
        y = convolution(x, weight, None, stride, padding, dilation, groups)
        return grad(y, x, grad_output, create_graph=grad_output.requires_grad or weight.requires_grad)[0]

    function.__name__ = function.__qualname__ = f"conv{axes}d_input"
    function.__doc__ = f"""The gradient of ``conv{axes}d`` with respect to an input of the given size."""
    return function


def _weight(convolution: Callable[..., Tensor], axes: int) -> Callable[..., Tensor]:
    def function(
        input: Tensor,
        weight_size: Any,
        grad_output: Tensor,
        stride: Any = 1,
        padding: Any = 0,
        dilation: Any = 1,
        groups: int = 1,
    ) -> Tensor:
        w = zeros(*weight_size, dtype=input.dtype, device=input.device, requires_grad=True)
        y = convolution(input, w, None, stride, padding, dilation, groups)
        return grad(y, w, grad_output, create_graph=grad_output.requires_grad or input.requires_grad)[0]

    function.__name__ = function.__qualname__ = f"conv{axes}d_weight"
    function.__doc__ = f"""The gradient of ``conv{axes}d`` with respect to a weight of the given size."""
    return function


conv1d_input, conv2d_input, conv3d_input = _input(F.conv1d, 1), _input(F.conv2d, 2), _input(F.conv3d, 3)
conv1d_weight, conv2d_weight, conv3d_weight = _weight(F.conv1d, 1), _weight(F.conv2d, 2), _weight(F.conv3d, 3)
