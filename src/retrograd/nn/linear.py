"""Affine maps, and layers that only change the shape."""

from __future__ import annotations

from math import sqrt
from typing import Any

from ..core.tensor import Size, Tensor
from . import functional as F
from . import init
from .module import Module
from .parameter import Parameter, new_parameter


class Identity(Module):
    """Returns its input; takes and ignores any arguments.

    >>> import retrograd as rg
    >>> rg.nn.Identity(54, unused=True)(rg.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """``x @ weight.T + bias``: ``(*, in_features)`` to ``(*, out_features)``.

    Args:
        in_features: the length of the last dimension of the input.
        out_features: the length of the last dimension of the output.
        bias: whether there is an offset.

    Attributes:
        weight: ``(out_features, in_features)``, uniform in ``±1 / sqrt(in_features)`` at first.
        bias: ``(out_features,)``, likewise, or None.

    >>> import retrograd as rg
    >>> rg.nn.Linear(3, 2)(rg.ones(5, 3)).shape
    (5, 2)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: Any = None, dtype: Any = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = new_parameter((out_features, in_features), device, dtype)
        self.register_parameter("bias", new_parameter((out_features,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values."""
        init.kaiming_uniform_(self.weight, a=sqrt(5))
        if self.bias is not None:
            bound = 1 / sqrt(self.in_features) if self.in_features > 0 else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


class Bilinear(Module):
    """``y_k = x1 @ weight_k @ x2 + bias_k``: ``(*, in1_features)`` and ``(*, in2_features)`` to ``(*, out_features)``.

    Attributes:
        weight: ``(out_features, in1_features, in2_features)``, uniform in ``±1 / sqrt(in1_features)`` at first.
        bias: ``(out_features,)``, likewise, or None.

    >>> import retrograd as rg
    >>> rg.nn.Bilinear(3, 4, 2)(rg.ones(5, 3), rg.ones(5, 4)).shape
    (5, 2)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in1_features: int,
        in2_features: int,
        out_features: int,
        bias: bool = True,
        device: Any = None,
        dtype: Any = None,
    ) -> None:
        super().__init__()
        if in1_features <= 0:
            raise ValueError(f"Bilinear: in1_features must be positive, got {in1_features}")
        self.in1_features = in1_features
        self.in2_features = in2_features
        self.out_features = out_features
        self.weight = new_parameter((out_features, in1_features, in2_features), device, dtype)
        self.register_parameter("bias", new_parameter((out_features,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw the initial values."""
        bound = 1 / sqrt(self.in1_features)
        init.uniform_(self.weight, -bound, bound)
        if self.bias is not None:
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input1: Tensor, input2: Tensor) -> Tensor:
        return F.bilinear(input1, input2, self.weight, self.bias)

    def extra_repr(self) -> str:
        return (
            f"in1_features={self.in1_features}, in2_features={self.in2_features}, out_features={self.out_features}, "
            f"bias={self.bias is not None}"
        )


class Flatten(Module):
    """The dimensions from ``start_dim`` to ``end_dim`` as one; by default all but the first.

    >>> import retrograd as rg
    >>> rg.nn.Flatten()(rg.ones(2, 3, 4)).shape
    (2, 12)
    """

    def __init__(self, start_dim: int = 1, end_dim: int = -1) -> None:
        super().__init__()
        self.start_dim = start_dim
        self.end_dim = end_dim

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)

    def extra_repr(self) -> str:
        return f"start_dim={self.start_dim}, end_dim={self.end_dim}"


class Unflatten(Module):
    """One dimension as several, whose lengths multiply to its own; one of them may be -1.

    >>> import retrograd as rg
    >>> rg.nn.Unflatten(1, (3, 4))(rg.ones(2, 12)).shape
    (2, 3, 4)
    """

    def __init__(self, dim: int, unflattened_size: tuple[int, ...] | list[int] | Size) -> None:
        super().__init__()
        if not isinstance(dim, int):
            raise TypeError(f"Unflatten: dim must be an integer, got {type(dim).__name__}")
        if not isinstance(unflattened_size, (tuple, list)) or not all(isinstance(n, int) for n in unflattened_size):
            raise TypeError(f"Unflatten: unflattened_size must be a tuple of integers, got {unflattened_size!r}")
        self.dim = dim
        self.unflattened_size = unflattened_size

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)

    def extra_repr(self) -> str:
        return f"dim={self.dim}, unflattened_size={self.unflattened_size}"
