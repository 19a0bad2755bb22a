"""Padding of the trailing dimensions: constant, by reflection, by replication, or circular.

``padding`` is one width for all ends, or ``(left, right, top, bottom, front, back)``: a pair of widths per dimension,
beginning with the last dimension. A negative width crops.
"""

from __future__ import annotations

from typing import ClassVar

from ...core.errors import describe
from ...core.tensor.tensor import Tensor
from ...ops.table.documentation import like
from .. import functional as F
from ..base.arguments import Size, ntuple
from ..base.fields import init_from_fields
from ..base.module import Module


@init_from_fields
class _Pad(Module):
    """The base class of padding of ``rank`` dimensions; the widths begin with those of the last dimension."""

    rank: ClassVar[int]
    mode: ClassVar[str]

    padding: Size

    def __post_init__(self) -> None:
        self.padding = ntuple(self.padding, 2 * self.rank)

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, self.mode)

    def extra_repr(self) -> str:
        return str(self.padding)


@init_from_fields
class _ConstantPadNd(_Pad):
    value: float

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _Zero(_ConstantPadNd):
    def __init__(self, padding: Size) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return str(self.padding)


class _ReflectionPadNd(_Pad):
    mode = "reflect"


class _ReplicationPadNd(_Pad):
    mode = "replicate"


class _CircularPadNd(_Pad):
    mode = "circular"

    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise ValueError(
                f"{type(self).__name__}: expected an input of {self.rank + 1} or {self.rank + 2} dimensions, "
                f"got {describe(input)}"
            )
        return super().forward(input)


class ConstantPad1d(_ConstantPadNd):
    """Pads the last dimension with the number ``value``.

    Shape: ``(*, W)`` to ``(*, left + W + right)``.

    Args:
        padding: one width for all ends, or ``(left, right)``.
        value: the number to pad with.

    >>> rg.nn.ConstantPad1d((2, 1), 3.5)(rg.tensor([[1.0, 2.0, 3.0]]))[0]
    tensor([3.5, 3.5, 1. , 2. , 3. , 3.5])
    """

    rank = 1


class ConstantPad2d(_ConstantPadNd):
    """As ``ConstantPad1d`` in two dimensions, with ``padding=(left, right, top, bottom)``.

    >>> rg.nn.ConstantPad2d((1, 1, 2, 0), 3.5)(rg.ones(1, 3, 3)).shape
    (1, 5, 5)
    """

    rank = 2


class ConstantPad3d(_ConstantPadNd):
    """As ``ConstantPad1d`` in three dimensions, with ``padding=(left, right, top, bottom, front, back)``.

    >>> rg.nn.ConstantPad3d((1, 1, 2, 0, 0, 1), 3.5)(rg.ones(1, 3, 3, 3)).shape
    (1, 4, 5, 5)
    """

    rank = 3


@like(ConstantPad1d)
class ZeroPad1d(_Zero, ConstantPad1d):
    """Pads the last dimension with zeros.

    Shape: ``(*, W)`` to ``(*, left + W + right)``.

    >>> rg.nn.ZeroPad1d((2, 1))(rg.tensor([[1.0, 2.0, 3.0]]))[0]
    tensor([0., 0., 1., 2., 3., 0.])
    """

    rank = 1


class ZeroPad2d(_Zero, ConstantPad2d):
    """As ``ZeroPad1d`` in two dimensions, with ``padding=(left, right, top, bottom)``.

    >>> rg.nn.ZeroPad2d((1, 1, 2, 0))(rg.ones(1, 3, 3)).shape
    (1, 5, 5)
    """

    rank = 2


class ZeroPad3d(_Zero, ConstantPad3d):
    """As ``ZeroPad1d`` in three dimensions, with ``padding=(left, right, top, bottom, front, back)``.

    >>> rg.nn.ZeroPad3d((1, 1, 2, 0, 0, 1))(rg.ones(1, 3, 3, 3)).shape
    (1, 4, 5, 5)
    """

    rank = 3


@like(ConstantPad1d)
class ReflectionPad1d(_ReflectionPadNd):
    """Pads the last dimension with reflections about the border.

    Shape: ``(N, C, W)`` or ``(C, W)`` to ``(..., left + W + right)``.

    Raises:
        RuntimeError: when called, a width is not less than the length of its dimension.
        NotImplementedError: when called, the input has a wrong number of dimensions.

    >>> rg.nn.ReflectionPad1d((2, 1))(rg.tensor([[1.0, 2.0, 3.0]]))[0]
    tensor([3., 2., 1., 2., 3., 2.])
    """

    rank = 1


class ReflectionPad2d(_ReflectionPadNd):
    """As ``ReflectionPad1d`` in two dimensions, with ``padding=(left, right, top, bottom)``.

    >>> rg.nn.ReflectionPad2d((1, 1, 2, 0))(rg.ones(1, 3, 3)).shape
    (1, 5, 5)
    """

    rank = 2


class ReflectionPad3d(_ReflectionPadNd):
    """As ``ReflectionPad1d`` in three dimensions, with ``padding=(left, right, top, bottom, front, back)``.

    >>> rg.nn.ReflectionPad3d((1, 1, 2, 0, 0, 1))(rg.ones(1, 3, 3, 3)).shape
    (1, 4, 5, 5)
    """

    rank = 3


@like(ReflectionPad1d, raises="NotImplementedError")
class ReplicationPad1d(_ReplicationPadNd):
    """Pads the last dimension with copies of the border.

    Shape: ``(N, C, W)`` or ``(C, W)`` to ``(..., left + W + right)``.

    >>> rg.nn.ReplicationPad1d((2, 1))(rg.tensor([[1.0, 2.0, 3.0]]))[0]
    tensor([1., 1., 1., 2., 3., 3.])
    """

    rank = 1


class ReplicationPad2d(_ReplicationPadNd):
    """As ``ReplicationPad1d`` in two dimensions, with ``padding=(left, right, top, bottom)``.

    >>> rg.nn.ReplicationPad2d((1, 1, 2, 0))(rg.ones(1, 3, 3)).shape
    (1, 5, 5)
    """

    rank = 2


class ReplicationPad3d(_ReplicationPadNd):
    """As ``ReplicationPad1d`` in three dimensions, with ``padding=(left, right, top, bottom, front, back)``.

    >>> rg.nn.ReplicationPad3d((1, 1, 2, 0, 0, 1))(rg.ones(1, 3, 3, 3)).shape
    (1, 4, 5, 5)
    """

    rank = 3


@like(ReflectionPad1d)
class CircularPad1d(_CircularPadNd):
    """Pads the last dimension with the values from its other end.

    Shape: ``(N, C, W)`` or ``(C, W)`` to ``(..., left + W + right)``.

    Raises:
        RuntimeError: when called, a width is greater than the length of its dimension.
        ValueError: when called, the input has a wrong number of dimensions.

    >>> rg.nn.CircularPad1d((2, 1))(rg.tensor([[1.0, 2.0, 3.0]]))[0]
    tensor([2., 3., 1., 2., 3., 1.])
    """

    rank = 1


class CircularPad2d(_CircularPadNd):
    """As ``CircularPad1d`` in two dimensions, with ``padding=(left, right, top, bottom)``.

    >>> rg.nn.CircularPad2d((1, 1, 2, 0))(rg.ones(1, 3, 3)).shape
    (1, 5, 5)
    """

    rank = 2


class CircularPad3d(_CircularPadNd):
    """As ``CircularPad1d`` in three dimensions, with ``padding=(left, right, top, bottom, front, back)``.

    >>> rg.nn.CircularPad3d((1, 1, 2, 0, 0, 1))(rg.ones(1, 3, 3, 3)).shape
    (1, 4, 5, 5)
    """

    rank = 3
