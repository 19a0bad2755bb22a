"""Linear and bilinear layers, and layers that change the shape."""

from __future__ import annotations

from math import sqrt

from ...core.tensor.tensor import Size, Tensor
from ...ops.table.documentation import like
from .. import functional as F
from .. import init
from ..base.arguments import DeviceLike, DTypeLike
from ..base.fields import init_from_fields
from ..base.module import Module
from ..parameter import Parameter, new_parameter


class Identity(Module):
    """Returns its input; ignores all arguments.

    >>> rg.nn.Identity(54, unused=True)(rg.ones(2))
    tensor([1., 1.])
    """

    def __init__(self, *args: object, **kwargs: object) -> None:
        super().__init__()

    def forward(self, input: Tensor) -> Tensor:
        return input


class Linear(Module):
    """``x @ weight^T + bias``: ``(*, in_features)`` to ``(*, out_features)``.

    Args:
        in_features: the length of the last dimension of the input.
        out_features: the length of the last dimension of the output.

    Raises:
        RuntimeError: when called, the last dimension of the input is not ``in_features``, or its dtype differs.

    Attributes:
        weight: ``(out_features, in_features)``, initially uniform in ``±1 / sqrt(in_features)``.
        bias: ``(out_features,)``, initialized like ``weight``, or None.

    >>> rg.nn.Linear(3, 2)(rg.ones(5, 3)).shape
    (5, 2)
    """

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self, in_features: int, out_features: int, bias: bool = True, device: DeviceLike = None, dtype: DTypeLike = None
    ) -> None:
        super().__init__()
        self.in_features = in_features
        self.out_features = out_features
        self.weight = new_parameter((out_features, in_features), device, dtype)
        self.register_parameter("bias", new_parameter((out_features,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the parameters."""
        init.kaiming_uniform_(self.weight, a=sqrt(5))
        if self.bias is not None:
            bound = 1 / sqrt(self.in_features) if self.in_features > 0 else 0.0
            init.uniform_(self.bias, -bound, bound)

    def forward(self, input: Tensor) -> Tensor:
        return F.linear(input, self.weight, self.bias)

    def extra_repr(self) -> str:
        return f"in_features={self.in_features}, out_features={self.out_features}, bias={self.bias is not None}"


@like(Linear)
class Bilinear(Module):
    """``y_k = x1 @ weight_k @ x2 + bias_k``: ``(*, in1_features)`` and ``(*, in2_features)`` to ``(*, out_features)``.

    Args:
        in1_features, in2_features, out_features: the lengths of the last dimensions.

    Raises:
        ValueError: ``in1_features`` is not positive.

    Attributes:
        weight: ``(out_features, in1_features, in2_features)``, initially uniform in ``±1 / sqrt(in1_features)``.
        bias: ``(out_features,)``, initialized like ``weight``, or None.

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
        device: DeviceLike = None,
        dtype: DTypeLike = None,
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
        """Initialize the parameters."""
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


@init_from_fields
class Flatten(Module):
    """Flatten the dimensions from ``start_dim`` to ``end_dim``: ``(*, A, ..., B, *)`` to ``(*, A ... B, *)``.

    Args:
        start_dim, end_dim: the first and the last dimension to flatten; by default 1 and -1.

    >>> rg.nn.Flatten()(rg.ones(2, 3, 4)).shape
    (2, 12)
    """

    start_dim: int = 1
    end_dim: int = -1

    def forward(self, input: Tensor) -> Tensor:
        return input.flatten(self.start_dim, self.end_dim)


@init_from_fields
class Unflatten(Module):
    """Split a dimension into several: ``(*, A B, *)`` to ``(*, A, B, *)``.

    Args:
        dim: the dimension to split.
        unflattened_size: the lengths of the new dimensions; one length may be -1 and is then inferred.

    Raises:
        TypeError: ``dim`` or a length is not an integer.
        RuntimeError: when called, the product of the lengths is not the length of the dimension.

    >>> rg.nn.Unflatten(1, (3, 4))(rg.ones(2, 12)).shape
    (2, 3, 4)
    """

    dim: int
    unflattened_size: tuple[int, ...] | list[int] | Size

    def __post_init__(self) -> None:
        size = self.unflattened_size
        if not isinstance(self.dim, int):
            raise TypeError(f"Unflatten: dim must be an integer, got {type(self.dim).__name__}")
        if not isinstance(size, (tuple, list)) or not all(isinstance(length, int) for length in size):
            raise TypeError(f"Unflatten: unflattened_size must be a tuple of integers, got {size!r}")

    def forward(self, input: Tensor) -> Tensor:
        return input.unflatten(self.dim, self.unflattened_size)
