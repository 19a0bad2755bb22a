"""Pooling: the maximum, mean or norm of each window.

The size of a window is one number for all dimensions, or one number per dimension. A dimension of length ``L`` becomes

    L' = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1

rounded up instead with ``ceil_mode``. The batch dimension ``N`` is optional; dtypes are preserved.
"""

from __future__ import annotations

from dataclasses import field
from typing import Any, ClassVar

from ...core.tensor.tensor import Tensor
from ...ops.table.documentation import like
from .. import functional as F
from ..base.arguments import Size, ntuple
from ..base.fields import calls, calls_with_fields, init_from_fields
from ..base.module import Module


@init_from_fields
class _MaxPoolNd(Module):
    kernel_size: Size
    stride: Size | None = None
    padding: Size = 0
    dilation: Size = 1
    return_indices: bool = field(default=False, repr=False)
    ceil_mode: bool = False

    def __post_init__(self) -> None:
        if self.stride is None:
            self.stride = self.kernel_size


@calls(F.max_pool1d)
class MaxPool1d(_MaxPoolNd):
    """The maximum of each window: ``(N, C, L)`` to ``(N, C, L')``.

    ``L' = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``, rounded up with ``ceil_mode``.

    Raises:
        RuntimeError: when called, the input has a wrong number of dimensions or is smaller than a window, or
            ``padding`` is more than half a window.

    >>> rg.nn.MaxPool1d(2)(rg.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """


@calls(F.max_pool2d)
class MaxPool2d(_MaxPoolNd):
    """The maximum of each window: ``(N, C, H, W)`` to ``(N, C, H', W')``; arguments as ``MaxPool1d``.

    >>> rg.nn.MaxPool2d(2)(rg.arange(4.0).reshape(1, 2, 2))
    tensor([[[3.]]])
    """


@calls(F.max_pool3d)
class MaxPool3d(_MaxPoolNd):
    """The maximum of each window: ``(N, C, D, H, W)`` to ``(N, C, D', H', W')``; arguments as ``MaxPool1d``.

    >>> rg.nn.MaxPool3d(2)(rg.ones(1, 2, 4, 4, 4)).shape
    (1, 2, 2, 2, 2)
    """


@init_from_fields
class _MaxUnpoolNd(Module):
    rank: ClassVar[int]

    kernel_size: Size
    stride: Size | None = None
    padding: Size = 0

    def __post_init__(self) -> None:
        self.stride = ntuple(self.kernel_size if self.stride is None else self.stride, self.rank)
        self.kernel_size = ntuple(self.kernel_size, self.rank)
        self.padding = ntuple(self.padding, self.rank)


@calls(F.max_unpool1d, "output_size")
class MaxUnpool1d(_MaxUnpoolNd):
    """Places maxima at their positions, and zeros elsewhere: ``(N, C, L')`` to ``(N, C, L)``.

    The partial inverse of ``MaxPool1d(return_indices=True)``. Call it with the maxima and their indices, and with
    ``output_size`` unless ``L = (L' - 1) * stride - 2 * padding + kernel_size`` is the length before pooling.

    Raises:
        ValueError: when called, ``output_size`` differs by more than a stride from this length.

    >>> pooled, indices = rg.nn.MaxPool1d(2, return_indices=True)(rg.tensor([[1.0, 3.0, 2.0, 0.0]]))
    >>> rg.nn.MaxUnpool1d(2)(pooled, indices)
    tensor([[0., 3., 2., 0.]])
    """

    rank = 1


@calls(F.max_unpool2d, "output_size")
class MaxUnpool2d(_MaxUnpoolNd):
    """As ``MaxUnpool1d``: ``(N, C, H', W')`` to ``(N, C, H, W)``.

    >>> pooled, indices = rg.nn.MaxPool2d(2, return_indices=True)(rg.arange(4.0).reshape(1, 2, 2))
    >>> rg.nn.MaxUnpool2d(2)(pooled, indices)
    tensor([[[0., 0.],
             [0., 3.]]])
    """

    rank = 2


@calls(F.max_unpool3d, "output_size")
class MaxUnpool3d(_MaxUnpoolNd):
    """As ``MaxUnpool1d``: ``(N, C, D', H', W')`` to ``(N, C, D, H, W)``.

    >>> pooled, indices = rg.nn.MaxPool3d(2, return_indices=True)(rg.arange(8.0).reshape(1, 2, 2, 2))
    >>> rg.nn.MaxUnpool3d(2)(pooled, indices).sum()
    tensor(7.)
    """

    rank = 3


@init_from_fields
class _AvgPoolNd(Module):
    kernel_size: Size
    stride: Size | None = None
    padding: Size = 0
    ceil_mode: bool = field(default=False, repr=False)
    count_include_pad: bool = field(default=True, repr=False)

    def __post_init__(self) -> None:
        if self.stride is None:
            self.stride = self.kernel_size


@calls(F.avg_pool1d)
class AvgPool1d(_AvgPoolNd):
    """The mean of each window: ``(N, C, L)`` to ``(N, C, L')``.

    Raises:
        RuntimeError: as ``MaxPool1d``.

    >>> rg.nn.AvgPool1d(2)(rg.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """

    def __post_init__(self) -> None:
        super().__post_init__()
        assert self.stride is not None
        self.kernel_size, self.stride, self.padding = (
            ntuple(value, 1) for value in (self.kernel_size, self.stride, self.padding)
        )


@calls_with_fields(F.avg_pool2d)
class AvgPool2d(_AvgPoolNd):
    """The mean of each window: ``(N, C, H, W)`` to ``(N, C, H', W')``.

    Raises:
        RuntimeError: as ``MaxPool1d``, or ``divisor_override`` is 0.

    >>> rg.nn.AvgPool2d(2)(rg.arange(4.0).reshape(1, 2, 2))
    tensor([[[1.5]]])
    """

    divisor_override: int | None = field(default=None, repr=False)


@calls_with_fields(F.avg_pool3d)
class AvgPool3d(_AvgPoolNd):
    """The mean of each window: ``(N, C, D, H, W)`` to ``(N, C, D', H', W')``; arguments as ``AvgPool2d``.

    >>> rg.nn.AvgPool3d(2)(rg.ones(1, 2, 4, 4, 4)).shape
    (1, 2, 2, 2, 2)
    """

    divisor_override: int | None = field(default=None, repr=False)


@init_from_fields
class _LPPoolNd(Module):
    norm_type: float
    kernel_size: Size
    stride: Size | None = None
    ceil_mode: bool = False


@calls(F.lp_pool1d)
class LPPool1d(_LPPoolNd):
    """``(sum_k x_k^p)^(1/p)`` of each window, where p is ``norm_type``: ``(N, C, L)`` to ``(N, C, L')``.

    >>> rg.nn.LPPool1d(2, 2)(rg.tensor([[3.0, 4.0]]))
    tensor([[5.]])
    """


@calls(F.lp_pool2d)
class LPPool2d(_LPPoolNd):
    """As ``LPPool1d``: ``(N, C, H, W)`` to ``(N, C, H', W')``.

    >>> rg.nn.LPPool2d(2, 2)(rg.ones(1, 2, 2))
    tensor([[[2.]]])
    """


@calls(F.lp_pool3d)
class LPPool3d(_LPPoolNd):
    """As ``LPPool1d``: ``(N, C, D, H, W)`` to ``(N, C, D', H', W')``.

    >>> rg.nn.LPPool3d(1, 2)(rg.ones(1, 2, 2, 2))
    tensor([[[[8.]]]])
    """


@init_from_fields
class _AdaptiveAvgPoolNd(Module):
    output_size: int | tuple[int | None, ...] | None


@calls(F.adaptive_avg_pool1d)
class AdaptiveAvgPool1d(_AdaptiveAvgPoolNd):
    """The means of ``output_size`` windows that cover the input evenly: ``(N, C, L)`` to ``(N, C, output_size)``.

    Raises:
        RuntimeError: when called, the input has a wrong number of dimensions.

    >>> rg.nn.AdaptiveAvgPool1d(2)(rg.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[2., 1.]])
    """


@calls(F.adaptive_avg_pool2d)
class AdaptiveAvgPool2d(_AdaptiveAvgPoolNd):
    """As ``AdaptiveAvgPool1d``: ``(N, C, H, W)`` to ``(N, C, *output_size)``.

    >>> rg.nn.AdaptiveAvgPool2d((None, 1))(rg.ones(1, 2, 5, 7)).shape
    (1, 2, 5, 1)
    """


@calls(F.adaptive_avg_pool3d)
class AdaptiveAvgPool3d(_AdaptiveAvgPoolNd):
    """As ``AdaptiveAvgPool1d``: ``(N, C, D, H, W)`` to ``(N, C, *output_size)``.

    >>> rg.nn.AdaptiveAvgPool3d(1)(rg.ones(1, 2, 3, 5, 7)).shape
    (1, 2, 1, 1, 1)
    """


@init_from_fields
class _AdaptiveMaxPoolNd(Module):
    output_size: int | tuple[int | None, ...] | None
    return_indices: bool = field(default=False, repr=False)


@like(AdaptiveAvgPool1d, raises="RuntimeError")
@calls(F.adaptive_max_pool1d)
class AdaptiveMaxPool1d(_AdaptiveMaxPoolNd):
    """The maxima of ``output_size`` windows that cover the input evenly: ``(N, C, L)`` to ``(N, C, output_size)``.

    >>> rg.nn.AdaptiveMaxPool1d(2)(rg.tensor([[1.0, 3.0, 2.0, 0.0]]))
    tensor([[3., 2.]])
    """


@calls(F.adaptive_max_pool2d)
class AdaptiveMaxPool2d(_AdaptiveMaxPoolNd):
    """As ``AdaptiveMaxPool1d``: ``(N, C, H, W)`` to ``(N, C, *output_size)``.

    >>> rg.nn.AdaptiveMaxPool2d((None, 1))(rg.ones(1, 2, 5, 7)).shape
    (1, 2, 5, 1)
    """


@calls(F.adaptive_max_pool3d)
class AdaptiveMaxPool3d(_AdaptiveMaxPoolNd):
    """As ``AdaptiveMaxPool1d``: ``(N, C, D, H, W)`` to ``(N, C, *output_size)``.

    >>> rg.nn.AdaptiveMaxPool3d(1)(rg.ones(1, 2, 3, 5, 7)).shape
    (1, 2, 1, 1, 1)
    """


class _FractionalMaxPoolNd(Module):
    axes: ClassVar[int]

    def __init__(
        self,
        kernel_size: Any,
        output_size: Any = None,
        output_ratio: Any = None,
        return_indices: bool = False,
        _random_samples: Tensor | None = None,
    ) -> None:
        super().__init__()
        if (output_size is None) == (output_ratio is None):
            raise ValueError(f"{type(self).__name__}: pass exactly one of output_size and output_ratio")
        for ratio in output_ratio if isinstance(output_ratio, (tuple, list)) else [output_ratio]:
            if ratio is not None and not 0 < ratio < 1:
                raise ValueError(f"{type(self).__name__}: output_ratio must be between 0 and 1, got {output_ratio}")
        self.kernel_size = ntuple(kernel_size, self.axes)
        self.output_size = None if output_size is None else ntuple(output_size, self.axes)
        self.output_ratio = None if output_ratio is None else ntuple(output_ratio, self.axes)
        self.return_indices = return_indices
        self.register_buffer("_random_samples", _random_samples)


@like(F.fractional_max_pool2d)
class FractionalMaxPool2d(_FractionalMaxPoolNd):
    """The maxima of windows at random positions (``nn.functional.fractional_max_pool2d``).

    Raises:
        ValueError: neither or both of output_size and output_ratio are given, or a ratio is not in ``(0, 1)``.

    >>> nn.FractionalMaxPool2d(2, output_ratio=0.5)(rg.ones(1, 1, 8, 8)).shape
    (1, 1, 4, 4)
    """

    axes = 2

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool2d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )


@like(FractionalMaxPool2d, raises="ValueError")
@like(F.fractional_max_pool3d)
class FractionalMaxPool3d(_FractionalMaxPoolNd):
    """The maxima of windows at random positions (``nn.functional.fractional_max_pool3d``).

    >>> nn.FractionalMaxPool3d(2, output_size=2)(rg.ones(1, 1, 4, 4, 4)).shape
    (1, 1, 2, 2, 2)
    """

    axes = 3

    def forward(self, input: Tensor) -> Any:
        return F.fractional_max_pool3d(
            input, self.kernel_size, self.output_size, self.output_ratio, self.return_indices, self._random_samples
        )
