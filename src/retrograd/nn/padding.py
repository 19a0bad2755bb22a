"""Padding of the trailing dimensions: by a number, by reflection, by the border, around a circle."""

from __future__ import annotations

from typing import Any, ClassVar

from ..core.errors import describe
from ..core.tensor import Tensor
from . import functional as F
from .arguments import ntuple
from .module import Module


class _Pad(Module):
    """``rank`` dimensions padded; the widths are given last dimension first, before and after."""

    rank: ClassVar[int]

    def __init__(self, padding: Any) -> None:
        super().__init__()
        self.padding = ntuple(padding, 2 * self.rank)

    def extra_repr(self) -> str:
        return str(self.padding)


class _ConstantPad(_Pad):
    def __init__(self, padding: Any, value: float) -> None:
        super().__init__(padding)
        self.value = value

    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "constant", self.value)

    def extra_repr(self) -> str:
        return f"padding={self.padding}, value={self.value}"


class _ZeroPad(_ConstantPad):
    def __init__(self, padding: Any) -> None:
        super().__init__(padding, 0.0)

    def extra_repr(self) -> str:
        return str(self.padding)


class _ReflectionPad(_Pad):
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "reflect")


class _ReplicationPad(_Pad):
    def forward(self, input: Tensor) -> Tensor:
        return F.pad(input, self.padding, "replicate")


class _CircularPad(_Pad):
    def forward(self, input: Tensor) -> Tensor:
        if input.ndim not in (self.rank + 1, self.rank + 2):
            raise ValueError(
                f"{type(self).__name__}: expected an input of {self.rank + 1} or {self.rank + 2} dimensions, "
                f"got {describe(input)}"
            )
        return F.pad(input, self.padding, "circular")


class ConstantPad1d(_ConstantPad):
    """Pads the last dimension with the number ``value``.

    ``padding`` is ``(left, right)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.ConstantPad1d((2, 1), 3.5)(rg.tensor([[1.0, 2.0, 3.0]]))[0]
    tensor([3.5, 3.5, 1. , 2. , 3. , 3.5])
    """

    rank = 1


class ConstantPad2d(_ConstantPad):
    """Pads the last two dimensions with the number ``value``.

    ``padding`` is ``(left, right, top, bottom)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.ConstantPad2d((1, 1, 2, 0), 3.5)(rg.ones(1, 3, 3)).shape
    (1, 5, 5)
    """

    rank = 2


class ConstantPad3d(_ConstantPad):
    """Pads the last three dimensions with the number ``value``.

    ``padding`` is ``(left, right, top, bottom, front, back)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.ConstantPad3d((1, 1, 2, 0, 0, 1), 3.5)(rg.ones(1, 3, 3, 3)).shape
    (1, 4, 5, 5)
    """

    rank = 3


class ZeroPad1d(_ZeroPad):
    """Pads the last dimension with zeros.

    ``padding`` is ``(left, right)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.ZeroPad1d((2, 1))(rg.tensor([[1.0, 2.0, 3.0]]))[0]
    tensor([0., 0., 1., 2., 3., 0.])
    """

    rank = 1


class ZeroPad2d(_ZeroPad):
    """Pads the last two dimensions with zeros.

    ``padding`` is ``(left, right, top, bottom)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.ZeroPad2d((1, 1, 2, 0))(rg.ones(1, 3, 3)).shape
    (1, 5, 5)
    """

    rank = 2


class ZeroPad3d(_ZeroPad):
    """Pads the last three dimensions with zeros.

    ``padding`` is ``(left, right, top, bottom, front, back)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.ZeroPad3d((1, 1, 2, 0, 0, 1))(rg.ones(1, 3, 3, 3)).shape
    (1, 4, 5, 5)
    """

    rank = 3


class ReflectionPad1d(_ReflectionPad):
    """Pads the last dimension with reflections about the border.

    ``padding`` is ``(left, right)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.ReflectionPad1d((2, 1))(rg.tensor([[1.0, 2.0, 3.0]]))[0]
    tensor([3., 2., 1., 2., 3., 2.])
    """

    rank = 1


class ReflectionPad2d(_ReflectionPad):
    """Pads the last two dimensions with reflections about the border.

    ``padding`` is ``(left, right, top, bottom)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.ReflectionPad2d((1, 1, 2, 0))(rg.ones(1, 3, 3)).shape
    (1, 5, 5)
    """

    rank = 2


class ReflectionPad3d(_ReflectionPad):
    """Pads the last three dimensions with reflections about the border.

    ``padding`` is ``(left, right, top, bottom, front, back)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.ReflectionPad3d((1, 1, 2, 0, 0, 1))(rg.ones(1, 3, 3, 3)).shape
    (1, 4, 5, 5)
    """

    rank = 3


class ReplicationPad1d(_ReplicationPad):
    """Pads the last dimension with copies of the border.

    ``padding`` is ``(left, right)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.ReplicationPad1d((2, 1))(rg.tensor([[1.0, 2.0, 3.0]]))[0]
    tensor([1., 1., 1., 2., 3., 3.])
    """

    rank = 1


class ReplicationPad2d(_ReplicationPad):
    """Pads the last two dimensions with copies of the border.

    ``padding`` is ``(left, right, top, bottom)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.ReplicationPad2d((1, 1, 2, 0))(rg.ones(1, 3, 3)).shape
    (1, 5, 5)
    """

    rank = 2


class ReplicationPad3d(_ReplicationPad):
    """Pads the last three dimensions with copies of the border.

    ``padding`` is ``(left, right, top, bottom, front, back)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.ReplicationPad3d((1, 1, 2, 0, 0, 1))(rg.ones(1, 3, 3, 3)).shape
    (1, 4, 5, 5)
    """

    rank = 3


class CircularPad1d(_CircularPad):
    """Pads the last dimension with what stands at the other end.

    ``padding`` is ``(left, right)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.CircularPad1d((2, 1))(rg.tensor([[1.0, 2.0, 3.0]]))[0]
    tensor([2., 3., 1., 2., 3., 1.])
    """

    rank = 1


class CircularPad2d(_CircularPad):
    """Pads the last two dimensions with what stands at the other end.

    ``padding`` is ``(left, right, top, bottom)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.CircularPad2d((1, 1, 2, 0))(rg.ones(1, 3, 3)).shape
    (1, 5, 5)
    """

    rank = 2


class CircularPad3d(_CircularPad):
    """Pads the last three dimensions with what stands at the other end.

    ``padding`` is ``(left, right, top, bottom, front, back)``, or one number for all.

    >>> import retrograd as rg
    >>> rg.nn.CircularPad3d((1, 1, 2, 0, 0, 1))(rg.ones(1, 3, 3, 3)).shape
    (1, 4, 5, 5)
    """

    rank = 3
