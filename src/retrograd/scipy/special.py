"""Functions of scipy.special on Tensors. Its ufuncs take Tensors themselves, and are SciPy's own in this module."""

from __future__ import annotations

from typing import TYPE_CHECKING

from .._generated import toplevel as ops
from ..ops.numpy.arguments import axes_of, floating, tensor
from .arguments import ArrayLike, differentiable, other_names

if TYPE_CHECKING:
    from ..core.tensor.tensor import Tensor

__all__ = ["log_softmax", "softmax"]

__getattr__ = other_names(__name__)


@differentiable("scipy.special")
def log_softmax(x: ArrayLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Return the logarithm of ``softmax``, computed without overflow.

    >>> rg.scipy.special.log_softmax(rg.tensor([0.0, 1000.0]))
    tensor([-1000.,     0.])
    """
    values = floating(tensor(x))
    return values - ops.logsumexp(values, axes_of(values, axis), keepdim=True)


@differentiable("scipy.special")
def softmax(x: ArrayLike, axis: int | tuple[int, ...] | None = None) -> Tensor:
    """Return ``exp(x) / sum(exp(x))``, over all elements for ``axis=None``.

    >>> rg.scipy.special.softmax(rg.tensor([0.0, 0.0]))
    tensor([0.5, 0.5])
    """
    return ops.exp(log_softmax(x, axis))
