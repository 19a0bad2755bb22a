"""``torch.masked``: reductions and normalizations that skip the elements where a mask is False.

Each function replaces the skipped elements with the identity of its operation and calls the operator of the same name,
so the gradient of a skipped element is 0, even where the element is NaN. A mask broadcasts to the shape of the input,
None selects all elements. ``dtype`` converts as in PyTorch. Sparse inputs and ``MaskedTensor`` are not supported.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..._generated import functional as F
from ..._generated import linalg as _linalg
from ..._generated import toplevel as _ops
from ...core.arrays.dtypes import FLOATING, INEXACT, as_dtype, float32, int64
from ...core.errors import describe
from ...core.graph.primitive import operand
from ...core.tensor.tensor import Tensor
from ...ops.table.arguments import dimensions
from ...ops.table.types import Dims, DTypeLike

_REDUCTIONS = ["sum", "prod", "amax", "amin", "argmax", "argmin", "mean", "median", "norm", "var", "std", "logsumexp"]
_NORMALIZATIONS = ["softmax", "log_softmax", "softmin", "normalize", "cumsum", "cumprod"]


def _reduction_identity(op_name: str, input: Tensor, *args: float) -> Tensor | None:
    """Return the 0-d Tensor that leaves the result of an operation unchanged; None if no number does."""
    name, kind = op_name.rpartition(".")[2], input.array.dtype.kind
    if name in ("mean", "var", "std"):
        return None
    if name == "median":
        return _ops.tensor(np.nan, dtype=input.dtype if kind in FLOATING else float32, device=input.device)
    value: float | complex | None = None
    if name in ("sum", "cumsum", "normalize"):
        value = 0
    elif name in ("prod", "cumprod"):
        value = 1
    elif name == "norm":
        value = np.inf if args and args[0] < 0 else 0
    elif name in ("amax", "argmax", "logaddexp", "softmax", "log_softmax", "logsumexp"):
        value = _extreme(input, -1)
        if name == "logsumexp" and kind == "c":
            value = complex(-np.inf, 0)
    elif name in ("amin", "argmin", "softmin"):
        value = _extreme(input, 1)
    if value is None:
        raise NotImplementedError(f"masked.{name}: the operation has no identity for {describe(input)}")
    return _ops.tensor(value, dtype=input.dtype, device=input.device)


def _extreme(x: Tensor, sign: int) -> float | None:
    """Return the smallest (``sign`` -1) or largest number of the dtype; None for bool and complex dtypes."""
    kind = x.array.dtype.kind
    if kind in FLOATING:
        return sign * np.inf
    if kind not in "iu":
        return None
    limits = np.iinfo(x.array.dtype)
    return limits.min if sign < 0 else limits.max


def _input_mask(input: Tensor, *args: object, mask: Tensor | None = None, **kwargs: object) -> Tensor:
    """Return the mask as bools of the input's shape.

    Raises:
        ValueError: there is no mask.
        IndexError: the mask has more dimensions than the input.
        RuntimeError: the mask does not broadcast to the shape of the input.
    """
    if mask is None:
        raise ValueError("masked: expected a mask, got None")
    mask = operand(mask, "mask")
    if mask.ndim > input.ndim:
        raise IndexError(f"masked: the mask has more dimensions than the input: {describe(mask)}, {describe(input)}")
    return _ops.broadcast_to(mask.bool(), input.shape)


def _output_mask(
    op: Callable[..., Tensor],
    input: Tensor,
    *args: Dims | float | None,
    dim: Dims | None = None,
    keepdim: bool | None = False,
    mask: Tensor | None = None,
    **kwargs: object,
) -> Tensor:
    """Return where the result of an operation on the other arguments depends on an element that the mask selects."""
    name = getattr(op, "__name__", str(op))
    if name not in (*_REDUCTIONS, *_NORMALIZATIONS):
        raise ValueError(f"masked: expected a reduction or normalization of torch.masked, got {op!r}")
    selected = _input_mask(input, mask=mask)
    if name in _NORMALIZATIONS:
        return selected
    place = 1 if name == "norm" else 0
    dims = args[place] if len(args) > place else dim
    return _ops.any(selected, _canonical_dim(dims, input.ndim), bool(keepdim))


def _canonical_dim(dim: Dims | float | None, ndim: int) -> tuple[int, ...]:
    """Return the dimensions to reduce, sorted; all of them for None and ``()``, none for ``[]``, as in PyTorch."""
    if dim is None or dim == ():
        return tuple(range(ndim))
    return tuple(sorted(dimensions(dim, ndim)))


def _combine_input_and_mask(op: Callable[..., Tensor], input: Tensor, mask: Tensor | None, *args: float) -> Tensor:
    """Return the input with the identity of ``op`` where the mask is False."""
    return _filled(op.__name__, input, mask, *args)


def _filled(name: str, input: Tensor, mask: Tensor | None, *args: float) -> Tensor:
    if mask is None:
        return input
    selected = _input_mask(input, mask=mask)
    identity = _reduction_identity(name, input, *args)
    if identity is None:
        raise ValueError(f"masked.{name}: the operation has no identity")
    return _ops.where(selected, input, identity)


def _summed_dtype(input: Tensor, dtype: DTypeLike | None) -> DTypeLike:
    """Return the dtype of a sum or product: int64 for integers and bools unless ``dtype`` is given."""
    if dtype is None:
        return input.dtype if input.array.dtype.kind in INEXACT else int64
    return dtype


def sum(
    input: Tensor,
    dim: Dims | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the sum of the selected elements; 0 if the mask selects none."""
    x = _filled("sum", input, mask)
    return _ops.sum(x, _canonical_dim(dim, x.ndim), bool(keepdim), dtype=_summed_dtype(x, dtype))


def prod(
    input: Tensor,
    dim: Dims | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the product of the selected elements; 1 if the mask selects none."""
    x = _filled("prod", input, mask)
    result = x.to(_summed_dtype(x, dtype))
    for axis in reversed(_canonical_dim(dim, x.ndim)):
        result = _ops.prod(result, axis, bool(keepdim))
    return result


def cumsum(input: Tensor, dim: int, *, dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the cumulative sums of the selected elements along a dimension."""
    dtype = input.dtype if dtype is None else dtype
    return _ops.cumsum(_filled("cumsum", input, mask), dim, dtype=dtype)


def cumprod(input: Tensor, dim: int, *, dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """Return the cumulative products of the selected elements along a dimension."""
    dtype = input.dtype if dtype is None else dtype
    return _ops.cumprod(_filled("cumprod", input, mask), dim, dtype=dtype)


def amax(
    input: Tensor,
    dim: Dims | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the largest selected element; -inf, or the smallest integer of the dtype, if there is none."""
    x = _filled("amax", input, mask)
    return _converted(_ops.amax(x, _canonical_dim(dim, x.ndim), bool(keepdim)), dtype)


def amin(
    input: Tensor,
    dim: Dims | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the smallest selected element; inf, or the largest integer of the dtype, if there is none."""
    x = _filled("amin", input, mask)
    return _converted(_ops.amin(x, _canonical_dim(dim, x.ndim), bool(keepdim)), dtype)


def argmax(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the index of the largest selected element, in the dtype of the input unless ``dtype`` is given."""
    dtype = input.dtype if dtype is None else dtype
    return _ops.argmax(_filled("argmax", input, mask), dim, bool(keepdim)).to(dtype)


def argmin(
    input: Tensor,
    dim: int | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the index of the smallest selected element, in the dtype of the input unless ``dtype`` is given."""
    dtype = input.dtype if dtype is None else dtype
    return _ops.argmin(_filled("argmin", input, mask), dim, bool(keepdim)).to(dtype)


def _converted(x: Tensor, dtype: DTypeLike | None) -> Tensor:
    return x if dtype is None else x.to(dtype)


def _count(input: Tensor, dim: tuple[int, ...], keepdim: bool, mask: Tensor | None) -> Tensor:
    selected = _ops.ones_like(input, dtype=bool) if mask is None else _input_mask(input, mask=mask)
    return _ops.sum(selected, dim, keepdim)


def mean(
    input: Tensor,
    dim: Dims | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the mean of the selected elements; NaN if there are none.

    Raises:
        ValueError: the dtype is not floating or complex.
    """
    kind = as_dtype(input.dtype if dtype is None else dtype).kind
    if kind not in INEXACT:
        raise ValueError(f"masked.mean: expected a floating or complex dtype, got {describe(input)} and dtype={dtype}")
    dims = _canonical_dim(dim, input.ndim)
    total = sum(input, dims, keepdim=keepdim, dtype=dtype, mask=mask)
    return total / _count(input, dims, bool(keepdim), mask)


def median(
    input: Tensor, dim: int = -1, *, keepdim: bool = False, dtype: DTypeLike | None = None, mask: Tensor | None = None
) -> Tensor:
    """Return the median of the selected elements; NaN if there are none.

    Raises:
        ValueError: the input holds integers, and a row of it has no selected element.
    """
    if input.array.dtype.kind in FLOATING:
        return _ops.nanmedian(_filled("median", input, mask), dim, keepdim)[0]
    result = _ops.nanmedian(_filled("median", input.to(float32), mask), dim, keepdim)[0]
    if bool(_ops.any(_ops.isnan(result))):
        raise ValueError("masked.median: a row without selected elements has no median among integers")
    return result.to(input.dtype if dtype is None else dtype)


def logsumexp(
    input: Tensor,
    dim: Dims | None = None,
    *,
    keepdim: bool = False,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return ``log(sum(exp(x)))`` of the selected elements, in the dtype of the input unless ``dtype`` is given."""
    dtype = input.dtype if dtype is None else dtype
    x = _filled("logsumexp", input, mask)
    return _ops.logsumexp(x, _canonical_dim(dim, x.ndim), keepdim).to(dtype)


def logaddexp(
    input: Tensor,
    other: Tensor,
    *,
    dtype: DTypeLike | None = None,
    input_mask: Tensor | None = None,
    other_mask: Tensor | None = None,
) -> Tensor:
    """Return ``log(exp(input) + exp(other))``, where each operand counts only where its mask is True."""
    dtype = input.dtype if dtype is None else dtype
    pair = _filled("logaddexp", input, input_mask), _filled("logaddexp", other, other_mask)
    return _ops.logaddexp(*pair).to(dtype)


def norm(
    input: Tensor,
    ord: float | None = 2.0,
    dim: Dims | None = None,
    *,
    keepdim: bool | None = False,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the vector norm of the selected elements; if there are none 0, or inf for a negative ``ord``."""
    order = 2.0 if ord is None else ord
    x = _filled("norm", input, mask, order)
    return _linalg.vector_norm(x, order, _canonical_dim(dim, x.ndim), bool(keepdim), dtype=dtype)


def var(
    input: Tensor,
    dim: Dims | None = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the variance of the selected elements; NaN if there are none.

    Raises:
        TypeError: both ``unbiased`` and ``correction`` are given.
    """
    if unbiased is not None and correction is not None:
        raise TypeError("masked.var: got both unbiased and correction")
    if correction is None:
        correction = 1 if unbiased is None or unbiased else 0
    if dtype is None:
        dtype = input.dtype if input.array.dtype.kind in INEXACT else float32
    computed = dtype if as_dtype(dtype).kind in INEXACT else float32
    dims = _canonical_dim(dim, input.ndim)
    x = _filled("sum", input, mask).to(computed)
    count = _count(input, dims, True, mask)
    deviation = x - _ops.sum(x, dims, True) / count
    total = sum(deviation * deviation.conj(), dims, keepdim=keepdim, mask=mask)
    freedom = _ops.clamp(count.to(total.real.dtype) - correction, 0).reshape(total.shape)
    return (total / freedom).to(dtype)


def std(
    input: Tensor,
    dim: Dims | None = None,
    unbiased: bool | None = None,
    *,
    correction: float | None = None,
    keepdim: bool | None = False,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the standard deviation of the selected elements; NaN if there are none. See ``var``."""
    variance = var(input, dim, unbiased, correction=correction, keepdim=keepdim, dtype=dtype, mask=mask)
    zero = variance == 0  # where the variance is 0, the gradient of std is 0, as in torch.std
    return _ops.where(zero, _ops.zeros_like(variance), _ops.sqrt(_ops.where(zero, _ops.ones_like(variance), variance)))


def softmax(input: Tensor, dim: int, *, dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """Return ``exp(x) / sum(exp(x))`` among the selected elements along a dimension; 0 for the others."""
    return F.softmax(_filled("softmax", input, mask), dim, dtype=dtype)


def log_softmax(input: Tensor, dim: int, *, dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """Return ``log(softmax(input, dim, mask=mask))``; -inf for the elements that the mask excludes."""
    return F.log_softmax(_filled("log_softmax", input, mask), dim, dtype=dtype)


def softmin(input: Tensor, dim: int, *, dtype: DTypeLike | None = None, mask: Tensor | None = None) -> Tensor:
    """Return ``softmax(-input, dim, mask=mask)``."""
    return F.softmin(_filled("softmin", input, mask), dim, dtype=dtype)


def normalize(
    input: Tensor,
    ord: float,
    dim: int,
    *,
    eps: float = 1e-12,
    dtype: DTypeLike | None = None,
    mask: Tensor | None = None,
) -> Tensor:
    """Return the selected elements divided by their vector norm, or by ``eps`` if this is larger; 0 for the others."""
    length = norm(input, ord, dim, keepdim=True, dtype=dtype, mask=mask)
    return _filled("normalize", input, mask) / _ops.clamp(length, eps)


NAMES = {
    "masked": " ".join(
        (
            *_REDUCTIONS,
            *_NORMALIZATIONS,
            "logaddexp _canonical_dim _combine_input_and_mask _input_mask _output_mask _reduction_identity",
        )
    )
}
