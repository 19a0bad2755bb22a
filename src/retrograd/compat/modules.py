"""Names of ``nn`` that are private, deprecated, or of PyTorch's own division of the layers, and that programs use."""

from __future__ import annotations

import warnings
from typing import Any

from ..nn.convolution import _Convolution, _Transposed
from ..nn.dropout import _Dropout
from ..nn.losses import NLLLoss
from ..nn.module import IncompatibleKeys, Module
from ..nn.normalization import _RunningNorm
from ..nn.padding import _CircularPad, _ConstantPad, _ReflectionPad, _ReplicationPad
from ..nn.pooling import _AdaptiveMaxPool, _AdaptivePool, _AvgPool, _LPPool, _MaxPool, _MaxUnpool
from .parallel import DataParallel as DataParallel

_ConvNd, _ConvTransposeNd, _ConvTransposeMixin = _Convolution, _Transposed, _Transposed
_NormBase, _DropoutNd = _RunningNorm, _Dropout
_MaxPoolNd, _MaxUnpoolNd, _AvgPoolNd, _LPPoolNd = _MaxPool, _MaxUnpool, _AvgPool, _LPPool
_AdaptiveAvgPoolNd, _AdaptiveMaxPoolNd = _AdaptivePool, _AdaptiveMaxPool
_CircularPadNd, _ConstantPadNd, _ReflectionPadNd, _ReplicationPadNd = (
    _CircularPad, _ConstantPad, _ReflectionPad, _ReplicationPad,
)  # fmt: skip
_IncompatibleKeys = IncompatibleKeys


def _addindent(s_: str, numSpaces: int) -> str:
    return s_.replace("\n", "\n" + " " * numSpaces)


class NLLLoss2d(NLLLoss):
    """``NLLLoss``, which takes images, too."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn("NLLLoss2d is deprecated; use NLLLoss", FutureWarning, stacklevel=2)
        super().__init__(*args, **kwargs)


class Container(Module):
    """A Module with the submodules given by name."""

    def __init__(self, **kwargs: Module) -> None:
        super().__init__()
        warnings.warn("nn.Container is deprecated. All of its functionality is in nn.Module", stacklevel=2)
        for name, module in kwargs.items():
            self.add_module(name, module)


__all__ = ["Container", "DataParallel", "NLLLoss2d"]
