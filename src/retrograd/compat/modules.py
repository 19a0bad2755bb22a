"""Names of ``nn`` that are deprecated, or of PyTorch's inside, and that programs use."""

from __future__ import annotations

import warnings
from typing import Any

from ..nn.base.module import Module
from ..nn.base.state import IncompatibleKeys
from ..nn.base.uninitialized import UninitializedBuffer, UninitializedParameter, is_lazy
from ..nn.layers.convolution import _ConvTransposeNd
from ..nn.layers.linear import Linear
from ..nn.layers.normalization import LocalResponseNorm
from ..nn.losses.losses import NLLLoss
from ..nn.parallel.data_parallel import DataParallel as DataParallel

_ConvTransposeMixin = _ConvTransposeNd
_IncompatibleKeys = IncompatibleKeys


def _addindent(s_: str, numSpaces: int) -> str:
    return s_.replace("\n", "\n" + " " * numSpaces)


NonDynamicallyQuantizableLinear = Linear


class CrossMapLRN2d(LocalResponseNorm):
    """``LocalResponseNorm`` under its older name."""

    def __init__(self, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1) -> None:
        super().__init__(size, alpha, beta, k)


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


__all__ = [
    "Container",
    "CrossMapLRN2d",
    "DataParallel",
    "NLLLoss2d",
    "UninitializedBuffer",
    "UninitializedParameter",
    "is_lazy",
]
