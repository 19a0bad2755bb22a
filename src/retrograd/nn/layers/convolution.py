"""Convolutions, transposed convolutions, and the extraction of patches."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod, sqrt
from typing import ClassVar

from ...core.errors import describe
from ...core.tensor.tensor import Tensor
from .. import functional as F
from .. import init
from ..base.arguments import DeviceLike, DTypeLike, Size, ntuple
from ..base.fields import calls_with_fields
from ..base.module import Module
from ..parameter import Parameter, new_parameter

PADDING_MODES = ("zeros", "reflect", "replicate", "circular")


class _ConvNd(Module):
    """The base class of all convolutions, with the arguments of PyTorch's class of this name."""

    weight: Parameter
    bias: Parameter | None

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: tuple[int, ...],
        stride: tuple[int, ...],
        padding: tuple[int, ...] | str,
        dilation: tuple[int, ...],
        transposed: bool,
        output_padding: tuple[int, ...],
        groups: int,
        bias: bool,
        padding_mode: str,
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__()
        name = type(self).__name__
        if groups <= 0:
            raise ValueError(f"{name}: groups must be a positive integer, got {groups}")
        if in_channels % groups or out_channels % groups:
            raise ValueError(
                f"{name}: groups={groups} must divide in_channels={in_channels} and out_channels={out_channels}"
            )
        if padding_mode not in PADDING_MODES:
            raise ValueError(f"{name}: padding_mode must be one of {PADDING_MODES}, got {padding_mode!r}")
        self.in_channels = in_channels
        self.out_channels = out_channels
        self.kernel_size = kernel_size
        self.stride = stride
        self.padding = padding
        self.dilation = dilation
        self.transposed = transposed
        self.output_padding = output_padding
        self.groups = groups
        self.padding_mode = padding_mode
        if isinstance(padding, str):
            if padding not in ("same", "valid"):
                raise ValueError(f"{name}: padding must be 'same', 'valid' or numbers, got {padding!r}")
            if padding == "same" and any(step != 1 for step in self.stride):
                raise ValueError(
                    f"{name}: padding='same' is not supported for strided convolutions, got stride={stride}"
                )
        channels = (in_channels, out_channels // groups) if transposed else (out_channels, in_channels // groups)
        self.weight = new_parameter((*channels, *self.kernel_size), device, dtype)
        self.register_parameter("bias", new_parameter((out_channels,), device, dtype) if bias else None)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize the parameters."""
        init.kaiming_uniform_(self.weight, a=sqrt(5))
        fan_in = prod(self.weight.shape[1:])
        if self.bias is not None and fan_in:
            init.uniform_(self.bias, -1 / sqrt(fan_in), 1 / sqrt(fan_in))

    def extra_repr(self) -> str:
        rank = len(self.kernel_size)
        parts = [f"{self.in_channels}, {self.out_channels}, kernel_size={self.kernel_size}, stride={self.stride}"]
        for name, default in (("padding", 0), ("dilation", 1), ("output_padding", 0)):
            value = getattr(self, name)
            if value != (default,) * rank:
                parts.append(f"{name}={value}")
        if self.groups != 1:
            parts.append(f"groups={self.groups}")
        if self.bias is None:
            parts.append("bias=False")
        if self.padding_mode != "zeros":
            parts.append(f"padding_mode={self.padding_mode}")
        return ", ".join(parts)


class _Conv(_ConvNd):
    """A convolution over ``rank`` dimensions."""

    rank: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
        bias: bool = True,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        super().__init__(
            in_channels,
            out_channels,
            ntuple(kernel_size, self.rank),
            ntuple(stride, self.rank),
            padding if isinstance(padding, str) else ntuple(padding, self.rank),
            ntuple(dilation, self.rank),
            False,
            (0,) * self.rank,
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def _borders(self) -> tuple[int, ...]:
        """Return the widths of the padding in the order of ``F.pad``: last dimension first, before and after."""
        widths: list[int] = []
        for place in reversed(range(self.rank)):
            if self.padding == "same":
                total = self.dilation[place] * (self.kernel_size[place] - 1)
                widths += [total // 2, total - total // 2]
            elif isinstance(self.padding, str):
                widths += [0, 0]
            else:
                widths += [self.padding[place], self.padding[place]]
        return tuple(widths)

    def _conv_forward(self, input: Tensor, weight: Tensor, bias: Tensor | None) -> Tensor:
        """Return the convolution with the given weight and bias; subclasses call this method of PyTorch's name."""
        padding: Size | str = self.padding
        if self.padding_mode != "zeros":
            input = F.pad(input, self._borders(), mode=self.padding_mode)
            padding = 0
        return self.function(input, weight, bias, self.stride, padding, self.dilation, self.groups)

    def forward(self, input: Tensor) -> Tensor:
        return self._conv_forward(input, self.weight, self.bias)


class Conv1d(_Conv):
    """Cross-correlation with learned kernels: ``(N, C, L)`` to ``(N, C', L')``.

    ``L' = (L + 2 * padding - dilation * (kernel_size - 1) - 1) // stride + 1``. The batch dimension N is optional.

    Args:
        in_channels, out_channels: C and C'.
        kernel_size, stride, padding, dilation: a number, or one per dimension; padding also ``"same"`` or ``"valid"``.
        groups: the number of independent groups into which the channels are split.
        bias: whether to add a learned bias per output channel.
        padding_mode: ``"zeros"``, ``"reflect"``, ``"replicate"`` or ``"circular"``.

    Raises:
        ValueError: ``groups`` does not divide C and C', the padding or its mode is unknown, or ``"same"`` is strided.
        RuntimeError: when called, the input has a wrong number of channels or dimensions, or is too small.

    Attributes:
        weight: ``(C', C / groups, *kernel_size)``, initially uniform in ``±1 / sqrt(C / groups * prod(kernel_size))``.
        bias: ``(C',)``, initialized like ``weight``, or None.

    >>> rg.nn.Conv1d(3, 8, 5, padding=2)(rg.ones(2, 3, 10)).shape
    (2, 8, 10)
    """

    rank = 1
    function = staticmethod(F.conv1d)


class Conv2d(_Conv):
    """Cross-correlation with learned kernels: ``(N, C, H, W)`` to ``(N, C', H', W')``; arguments as ``Conv1d``.

    >>> rg.nn.Conv2d(3, 8, 3, stride=2, padding=1)(rg.ones(2, 3, 8, 8)).shape
    (2, 8, 4, 4)
    """

    rank = 2
    function = staticmethod(F.conv2d)


class Conv3d(_Conv):
    """Cross-correlation with learned kernels: ``(N, C, D, H, W)`` to ``(N, C', D', H', W')``; arguments as ``Conv1d``.

    >>> rg.nn.Conv3d(1, 2, 3)(rg.ones(2, 1, 5, 5, 5)).shape
    (2, 2, 3, 3, 3)
    """

    rank = 3
    function = staticmethod(F.conv3d)


class _ConvTransposeNd(_ConvNd):
    """The transpose of a convolution over ``rank`` dimensions."""

    rank: ClassVar[int]
    function: ClassVar[Callable[..., Tensor]]
    padding: tuple[int, ...]

    def __init__(
        self,
        in_channels: int,
        out_channels: int,
        kernel_size: Size,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        bias: bool = True,
        dilation: Size = 1,
        padding_mode: str = "zeros",
        device: DeviceLike = None,
        dtype: DTypeLike = None,
    ) -> None:
        if padding_mode != "zeros":
            raise ValueError(f"{type(self).__name__}: only padding_mode 'zeros' is supported, got {padding_mode!r}")
        if isinstance(padding, str):
            raise ValueError(f"{type(self).__name__}: padding must be numbers, got {padding!r}")
        super().__init__(
            in_channels,
            out_channels,
            ntuple(kernel_size, self.rank),
            ntuple(stride, self.rank),
            ntuple(padding, self.rank),
            ntuple(dilation, self.rank),
            True,
            ntuple(output_padding, self.rank),
            groups,
            bias,
            padding_mode,
            device,
            dtype,
        )

    def forward(self, input: Tensor, output_size: Sequence[int] | None = None) -> Tensor:
        extra = self.output_padding if output_size is None else self._output_padding(input, output_size)
        return self.function(
            input, self.weight, self.bias, self.stride, self.padding, extra, self.groups, self.dilation
        )

    def _output_padding(self, input: Tensor, output_size: Sequence[int]) -> tuple[int, ...]:
        """Return the output padding for which the output has the requested size."""
        wanted = tuple(output_size)[-self.rank :]
        if len(output_size) not in (self.rank, input.ndim) or input.ndim not in (self.rank + 1, self.rank + 2):
            raise ValueError(
                f"{type(self).__name__}: output_size must have {self.rank} or {input.ndim} elements, "
                f"got {tuple(output_size)}"
            )
        extra = []
        for place, length in enumerate(input.shape[-self.rank :]):
            smallest = (length - 1) * self.stride[place] - 2 * self.padding[place]
            smallest += self.dilation[place] * (self.kernel_size[place] - 1) + 1
            if not smallest <= wanted[place] < smallest + self.stride[place]:
                raise ValueError(
                    f"{type(self).__name__}: output_size {wanted} is not possible for the input {describe(input)}: "
                    f"dimension {place} may be {smallest} to {smallest + self.stride[place] - 1}"
                )
            extra.append(wanted[place] - smallest)
        return tuple(extra)


class ConvTranspose1d(_ConvTransposeNd):
    """The transpose of ``Conv1d`` as a linear map: ``(N, C, L)`` to ``(N, C', L')``.

    ``L' = (L - 1) * stride - 2 * padding + dilation * (kernel_size - 1) + output_padding + 1``. ``forward``
    also accepts ``output_size``, from which it computes the output padding.

    Args:
        in_channels, out_channels, kernel_size, stride, padding, groups, bias, dilation, device, dtype: as for
            ``Conv1d``, but ``padding`` must be numbers.
        output_padding: the size added at one end; less than the stride or the dilation.
        padding_mode: only ``"zeros"``.

    Raises:
        ValueError: as ``Conv1d``; when called, ``output_size`` is not possible.

    Attributes:
        weight: ``(C, C' / groups, *kernel_size)``.
        bias: ``(C',)``, or None.

    >>> up = rg.nn.ConvTranspose1d(3, 8, 4, stride=2, padding=1)
    >>> up(rg.ones(2, 3, 5)).shape, up(rg.ones(2, 3, 5), output_size=[11]).shape
    ((2, 8, 10), (2, 8, 11))
    """

    rank = 1
    function = staticmethod(F.conv_transpose1d)


class ConvTranspose2d(_ConvTransposeNd):
    """The transpose of ``Conv2d``: ``(N, C, H, W)`` to ``(N, C', H', W')``; arguments as ``ConvTranspose1d``.

    >>> rg.nn.ConvTranspose2d(3, 8, 2, stride=2)(rg.ones(2, 3, 4, 4)).shape
    (2, 8, 8, 8)
    """

    rank = 2
    function = staticmethod(F.conv_transpose2d)


class ConvTranspose3d(_ConvTransposeNd):
    """The transpose of ``Conv3d``: ``(N, C, D, H, W)`` to ``(N, C', D', H', W')``; arguments as ``ConvTranspose1d``.

    >>> rg.nn.ConvTranspose3d(1, 2, 2, stride=2)(rg.ones(1, 1, 2, 2, 2)).shape
    (1, 2, 4, 4, 4)
    """

    rank = 3
    function = staticmethod(F.conv_transpose3d)


@calls_with_fields(F.unfold)
class Unfold(Module):
    """Extract the patches of a convolution as columns: ``(N, C, H, W)`` to ``(N, C * prod(kernel_size), L)``.

    ``L`` is the number of patches, the product of the output lengths of ``Conv2d`` with these arguments.

    Raises:
        RuntimeError: when called, the input is smaller than a patch.

    >>> rg.nn.Unfold(2)(rg.ones(1, 3, 4, 4)).shape
    (1, 12, 9)
    """

    kernel_size: Size
    dilation: Size = 1
    padding: Size = 0
    stride: Size = 1


@calls_with_fields(F.fold)
class Fold(Module):
    """Add patches at their positions in an image ``(N, C, *output_size)``: the transpose of ``Unfold``.

    Raises:
        RuntimeError: when called, the number or the length of the columns is wrong.

    >>> rg.nn.Fold((4, 4), 2)(rg.ones(1, 12, 9)).shape
    (1, 3, 4, 4)
    """

    output_size: Size
    kernel_size: Size
    dilation: Size = 1
    padding: Size = 0
    stride: Size = 1
