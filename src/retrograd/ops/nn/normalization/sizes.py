"""Normalization of vectors to unit norm, and of channels by neighboring channels."""

from __future__ import annotations

from math import prod

from ....core.errors import InvalidValue, describe
from ....core.graph.primitive import apply, operand
from ....core.missing_names import legacy_call
from ....core.tensor.tensor import Tensor
from ...table.arguments import dimension, integer
from ...table.registry import operator
from ...table.types import Dims
from ..pooling.average import AVG_POOL
from ..spatial.sliding_windows import Window


@operator(namespace="nn.functional", method=False, args="p norm", dtype="kept")
def normalize(input: Tensor, p: float = 2.0, dim: Dims = 1, eps: float = 1e-12, out: Tensor | None = None) -> Tensor:
    """``x / max(||x||_p, eps)``: vectors along ``dim`` scaled to unit p-norm.

    Derivative: ``(g - ans sum(g ans)) / ||x||_2`` for ``p = 2``; ``g / eps`` where the norm is below ``eps``. Zero
    vectors stay zero.

    Args:
        dim: the dimension of the vectors, or several.
        eps: the least divisor.
        out: the Tensor to write the result into.

    >>> F.normalize(rg.tensor([[3.0, 4.0]]))
    tensor([[0.6, 0.8]])
    """
    if out is not None:
        return legacy_call("normalize", normalize, (input, p, dim, eps), {"out": out})
    x = operand(input)
    if not isinstance(dim, (tuple, list)):
        dim = dimension(dim, x.array.ndim)
    return x / x.norm(p, dim, keepdim=True).clamp(min=eps)


@operator(namespace="nn.functional", method=False, real=True, dtype="floating")
def local_response_norm(input: Tensor, size: int, alpha: float = 1e-4, beta: float = 0.75, k: float = 1.0) -> Tensor:
    """``x_c / (k + alpha / size * sum_j x_j^2)^beta``, where j runs over the ``size`` channels around c.

    Derivative: ``g / d^beta - 2 alpha beta / size x_c sum_j g_j x_j / d_j^(beta + 1)`` where d is the base of the power
    and j runs over the channels whose windows contain c.
    Shape: ``(N, C, *)`` with at least three dimensions; the result has the input's shape.

    Args:
        size: the number of channels, of which ``size // 2`` come before c; channels beyond the ends count as 0.
        alpha, beta, k: the constants of the formula.

    Raises:
        ValueError: the input has fewer than three dimensions.
        RuntimeError: ``size`` is not positive, or the input holds bools.

    Source: Krizhevsky, Sutskever, Hinton, "ImageNet classification with deep convolutional neural networks", 2012.

    >>> F.local_response_norm(rg.ones(1, 1, 2), 1, alpha=3.0, beta=0.5)
    tensor([[[0.5, 0.5]]])
    """
    x = operand(input)
    shape = x.array.shape
    if len(shape) < 3:
        raise InvalidValue(f"expected 3D or higher dimensionality input, got {describe(x)}")
    length = integer(size, "size")
    if length < 1:
        raise RuntimeError(f"size must be positive, got {length}")
    if x.array.dtype.kind == "b":
        raise RuntimeError(f"bools are not supported, got {describe(x)}")
    if x.array.size == 0:
        return x
    rest = prod(shape[2:])
    sizes, kernel = (shape[1], rest), (length, 1)
    window = Window(sizes, kernel, (1, 1), (length // 2, 0), (1, 1), sizes)
    mean = apply(AVG_POOL, ((x * x).reshape(shape[0], 1, *sizes),), {"window": window, "divisor": float(length)})
    return x / (mean.reshape(shape) * alpha + k) ** beta
