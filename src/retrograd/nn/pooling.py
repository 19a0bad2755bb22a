"""Pooling: the maximum, mean or norm of each window."""

from __future__ import annotations

from typing import Any

from ..core.tensor import Tensor
from . import functional as F
from .arguments import ntuple
from .module import Module


class _MaxPool(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        dilation: Any = 1,
        return_indices: bool = False,
        ceil_mode: bool = False,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.dilation = dilation
        self.return_indices = return_indices
        self.ceil_mode = ceil_mode

    def _pool(self, function: Any, input: Tensor) -> Any:
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.dilation,
            ceil_mode=self.ceil_mode,
            return_indices=self.return_indices,
        )

    def extra_repr(self) -> str:
        return (
            f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}, dilation={self.dilation}, "
            f"ceil_mode={self.ceil_mode}"
        )


class MaxPool1d(_MaxPool):
    """The maximum of each window: ``(N, C, L)`` to ``(N, C, L')``.

    ``L' = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, rounded up with ``ceil_mode``.

    Args:
        kernel_size: the length of a window, a number or one per dimension (as all that follow).
        stride: from window to window; by default kernel_size.
        padding: minus infinities at both ends.
        dilation: the step inside a window.
        return_indices: also return where each maximum stood, for ``MaxUnpool1d``.
        ceil_mode: keep a last window that reaches beyond the end.

    >>> import retrograd as rg
    >>> rg.nn.MaxPool1d(2)(rg.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """

    def forward(self, input: Tensor) -> Any:
        return self._pool(F.max_pool1d, input)


class MaxPool2d(_MaxPool):
    """The maximum of each window: ``(N, C, H, W)`` to ``(N, C, H', W')``; arguments as ``MaxPool1d``.

    >>> import retrograd as rg
    >>> rg.nn.MaxPool2d(2)(rg.arange(4.0).reshape(1, 2, 2))
    tensor([[[3.]]])
    """

    def forward(self, input: Tensor) -> Any:
        return self._pool(F.max_pool2d, input)


class MaxPool3d(_MaxPool):
    """The maximum of each window: ``(N, C, D, H, W)`` to ``(N, C, D', H', W')``; arguments as ``MaxPool1d``.

    >>> import retrograd as rg
    >>> rg.nn.MaxPool3d(2)(rg.ones(1, 2, 4, 4, 4)).shape
    (1, 2, 2, 2, 2)
    """

    def forward(self, input: Tensor) -> Any:
        return self._pool(F.max_pool3d, input)


class _MaxUnpool(Module):
    rank: int

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0) -> None:
        super().__init__()
        self.kernel_size = ntuple(kernel_size, self.rank)
        self.stride = ntuple(kernel_size if stride is None else stride, self.rank)
        self.padding = ntuple(padding, self.rank)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class MaxUnpool1d(_MaxUnpool):
    """Puts maxima back where they stood, zeros elsewhere: the partial inverse of ``MaxPool1d(return_indices=True)``.

    >>> import retrograd as rg
    >>> pooled, places = rg.nn.MaxPool1d(2, return_indices=True)(rg.tensor([[1.0, 3.0, 2.0, 0.0]]))
    >>> rg.nn.MaxUnpool1d(2)(pooled, places)
    tensor([[0., 3., 2., 0.]])
    """

    rank = 1

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool1d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool2d(_MaxUnpool):
    """As ``MaxUnpool1d``, for ``(N, C, H, W)``.

    >>> import retrograd as rg
    >>> pooled, places = rg.nn.MaxPool2d(2, return_indices=True)(rg.arange(4.0).reshape(1, 2, 2))
    >>> rg.nn.MaxUnpool2d(2)(pooled, places)
    tensor([[[0., 0.],
             [0., 3.]]])
    """

    rank = 2

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool2d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class MaxUnpool3d(_MaxUnpool):
    """As ``MaxUnpool1d``, for ``(N, C, D, H, W)``.

    >>> import retrograd as rg
    >>> pooled, places = rg.nn.MaxPool3d(2, return_indices=True)(rg.arange(8.0).reshape(1, 2, 2, 2))
    >>> rg.nn.MaxUnpool3d(2)(pooled, places).sum()
    tensor(7.)
    """

    rank = 3

    def forward(self, input: Tensor, indices: Tensor, output_size: Any = None) -> Tensor:
        return F.max_unpool3d(input, indices, self.kernel_size, self.stride, self.padding, output_size)


class AvgPool1d(Module):
    """The mean of each window: ``(N, C, L)`` to ``(N, C, L')``.

    Args:
        kernel_size, stride, padding, ceil_mode: as for ``MaxPool1d``, the padding with zeros.
        count_include_pad: whether the zeros of the padding count.

    >>> import retrograd as rg
    >>> rg.nn.AvgPool1d(2)(rg.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
    ) -> None:
        super().__init__()
        self.kernel_size = ntuple(kernel_size, 1)
        self.stride = ntuple(kernel_size if stride is None else stride, 1)
        self.padding = ntuple(padding, 1)
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad

    def forward(self, input: Tensor) -> Tensor:
        return F.avg_pool1d(input, self.kernel_size, self.stride, self.padding, self.ceil_mode, self.count_include_pad)

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class _AvgPool(Module):
    def __init__(
        self,
        kernel_size: Any,
        stride: Any = None,
        padding: Any = 0,
        ceil_mode: bool = False,
        count_include_pad: bool = True,
        divisor_override: int | None = None,
    ) -> None:
        super().__init__()
        self.kernel_size = kernel_size
        self.stride = kernel_size if stride is None else stride
        self.padding = padding
        self.ceil_mode = ceil_mode
        self.count_include_pad = count_include_pad
        self.divisor_override = divisor_override

    def _pool(self, function: Any, input: Tensor) -> Tensor:
        return function(
            input,
            self.kernel_size,
            self.stride,
            self.padding,
            self.ceil_mode,
            self.count_include_pad,
            self.divisor_override,
        )

    def extra_repr(self) -> str:
        return f"kernel_size={self.kernel_size}, stride={self.stride}, padding={self.padding}"


class AvgPool2d(_AvgPool):
    """The mean of each window: ``(N, C, H, W)`` to ``(N, C, H', W')``; arguments as ``AvgPool1d``.

    ``divisor_override`` divides the sums by a number of one's own.

    >>> import retrograd as rg
    >>> rg.nn.AvgPool2d(2)(rg.arange(4.0).reshape(1, 2, 2))
    tensor([[[1.5]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(F.avg_pool2d, input)


class AvgPool3d(_AvgPool):
    """The mean of each window: ``(N, C, D, H, W)`` to ``(N, C, D', H', W')``; arguments as ``AvgPool2d``.

    >>> import retrograd as rg
    >>> rg.nn.AvgPool3d(2)(rg.ones(1, 2, 4, 4, 4)).shape
    (1, 2, 2, 2, 2)
    """

    def forward(self, input: Tensor) -> Tensor:
        return self._pool(F.avg_pool3d, input)


class _LPPool(Module):
    def __init__(self, norm_type: float, kernel_size: Any, stride: Any = None, ceil_mode: bool = False) -> None:
        super().__init__()
        self.norm_type = norm_type
        self.kernel_size = kernel_size
        self.stride = stride
        self.ceil_mode = ceil_mode

    def extra_repr(self) -> str:
        return (
            f"norm_type={self.norm_type}, kernel_size={self.kernel_size}, stride={self.stride}, "
            f"ceil_mode={self.ceil_mode}"
        )


class LPPool1d(_LPPool):
    """``(sum of x^p)^(1/p)`` of each window, p being ``norm_type``: ``(N, C, L)`` to ``(N, C, L')``.

    >>> import retrograd as rg
    >>> rg.nn.LPPool1d(2, 2)(rg.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool1d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool2d(_LPPool):
    """As ``LPPool1d``, for ``(N, C, H, W)``.

    >>> import retrograd as rg
    >>> rg.nn.LPPool2d(2, 2)(rg.ones(1, 2, 2))
    tensor([[[2.]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool2d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class LPPool3d(_LPPool):
    """As ``LPPool1d``, for ``(N, C, D, H, W)``.

    >>> import retrograd as rg
    >>> rg.nn.LPPool3d(1, 2)(rg.ones(1, 2, 2, 2))
    tensor([[[[8.]]]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.lp_pool3d(input, float(self.norm_type), self.kernel_size, self.stride, self.ceil_mode)


class _AdaptivePool(Module):
    def __init__(self, output_size: Any) -> None:
        super().__init__()
        self.output_size = output_size

    def extra_repr(self) -> str:
        return f"output_size={self.output_size}"


class AdaptiveAvgPool1d(_AdaptivePool):
    """The means of ``output_size`` windows that cover the input evenly: ``(N, C, L)`` to ``(N, C, output_size)``.

    >>> import retrograd as rg
    >>> rg.nn.AdaptiveAvgPool1d(2)(rg.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool1d(input, self.output_size)


class AdaptiveAvgPool2d(_AdaptivePool):
    """As ``AdaptiveAvgPool1d``, for ``(N, C, H, W)``; None keeps the length of a dimension.

    >>> import retrograd as rg
    >>> rg.nn.AdaptiveAvgPool2d((None, 1))(rg.ones(1, 2, 5, 7)).shape
    (1, 2, 5, 1)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool2d(input, self.output_size)


class AdaptiveAvgPool3d(_AdaptivePool):
    """As ``AdaptiveAvgPool1d``, for ``(N, C, D, H, W)``; None keeps the length of a dimension.

    >>> import retrograd as rg
    >>> rg.nn.AdaptiveAvgPool3d(1)(rg.ones(1, 2, 3, 5, 7)).shape
    (1, 2, 1, 1, 1)
    """

    def forward(self, input: Tensor) -> Tensor:
        return F.adaptive_avg_pool3d(input, self.output_size)


class _AdaptiveMaxPool(_AdaptivePool):
    def __init__(self, output_size: Any, return_indices: bool = False) -> None:
        super().__init__(output_size)
        self.return_indices = return_indices


class AdaptiveMaxPool1d(_AdaptiveMaxPool):
    """The maxima of ``output_size`` windows that cover the input evenly: ``(N, C, L)`` to ``(N, C, output_size)``.

    >>> import retrograd as rg
    >>> rg.nn.AdaptiveMaxPool1d(2)(rg.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool1d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool2d(_AdaptiveMaxPool):
    """As ``AdaptiveMaxPool1d``, for ``(N, C, H, W)``; None keeps the length of a dimension.

    >>> import retrograd as rg
    >>> rg.nn.AdaptiveMaxPool2d((None, 1))(rg.ones(1, 2, 5, 7)).shape
    (1, 2, 5, 1)
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool2d(input, self.output_size, self.return_indices)


class AdaptiveMaxPool3d(_AdaptiveMaxPool):
    """As ``AdaptiveMaxPool1d``, for ``(N, C, D, H, W)``; None keeps the length of a dimension.

    >>> import retrograd as rg
    >>> rg.nn.AdaptiveMaxPool3d(1)(rg.ones(1, 2, 3, 5, 7)).shape
    (1, 2, 1, 1, 1)
    """

    def forward(self, input: Tensor) -> Any:
        return F.adaptive_max_pool3d(input, self.output_size, self.return_indices)
