"""p-norms over sliding windows."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, prod

from ....core.graph.primitive import operand
from ....core.tensor.tensor import Tensor, new_tensor
from ...indexing.selection import where
from ...table.types import Size
from ..spatial.sliding_windows import for_axes, per_axis
from .average import average_pool
from .maximum import maximum_pool


def _lp_pool(
    axes: int, input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None, ceil_mode: bool
) -> Tensor:
    x = operand(input)
    if norm_type in (inf, -inf):
        sign = 1 if norm_type > 0 else -1
        return sign * maximum_pool(axes, sign * abs(x), kernel_size, stride, 0, 1, ceil_mode)
    mean = average_pool(axes, x**norm_type, kernel_size, stride, 0, ceil_mode, True)
    total = mean * prod(per_axis("kernel_size", kernel_size, axes, 1))
    # The gradient is 0 where the sum is 0 and the root has no derivative.
    return where(new_tensor(total.array != 0), total, 0.0) ** (1.0 / norm_type)


def _define(axes: int) -> Callable[..., Tensor]:
    """``(sum_k x_k^p)^(1/p)`` over windows of {dimensions}; the largest (smallest) ``|x_k|`` for p (minus) infinite.

    As in PyTorch no absolute value is taken: an odd p with negative elements gives other numbers than a norm, and NaN
    for a negative sum.

    Derivative: each element gets ``g (x / ans)^(p - 1)`` of every window that reads it, 0 where the sum is 0.
    Shape: {input}; per axis
    ``L' = (L - kernel_size) // stride + 1`` windows, with ``ceil_mode`` rounded up.
    Dtype: real floating; the result has the input's dtype.

    Args:
        norm_type: ``p``.
        kernel_size: elements of a window; {integers}, as for ``stride``.
    """

    def lp_pool(
        input: Tensor, norm_type: float, kernel_size: Size, stride: Size | None = None, ceil_mode: bool = False
    ) -> Tensor:
        return _lp_pool(axes, input, norm_type, kernel_size, stride, ceil_mode)

    return lp_pool


lp_pool1d, lp_pool2d, lp_pool3d = for_axes(
    _define,
    {
        1: """>>> F.lp_pool1d(rg.tensor([[[3.0, 4.0]]]), 2, 2)
    tensor([[[5.]]])""",
        2: """>>> F.lp_pool2d(rg.ones(1, 1, 2, 2), 2, 2)
    tensor([[[[2.]]]])""",
        3: """>>> F.lp_pool3d(rg.ones(1, 1, 2, 2, 2), 1, 2)
    tensor([[[[[8.]]]]])""",
    },
    raises="windows",
)
