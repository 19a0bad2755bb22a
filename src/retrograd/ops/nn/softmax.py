"""Log-sum-exp and the softmax family, without overflow."""

from __future__ import annotations

from typing import Any
from warnings import warn

import numpy as np

from ...core.devices import array_module
from ...core.dtypes import get_default_dtype
from ...core.primitive import Primitive, apply, operand
from ...core.summation import accurate_sum
from ...core.tensor import Tensor
from ...kernels import by_rows
from ..reduce.common import converted, kept, reduce_
from ..table.arguments import dimension
from ..table.blocks import in_single
from ..table.registry import numpy_names, operator


@in_single
def _logsumexp(x: Any, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> Any:
    xp = array_module(x)
    if x.size == 0:
        return xp.log(accurate_sum(x, dim, keepdim))
    top = x.max(axis=dim, keepdims=True)
    top = xp.where(xp.isfinite(top), top, x.dtype.type(0))
    out = xp.log(accurate_sum(xp.exp(x - top), dim, keepdim))
    return out + (top if keepdim else top.reshape(out.shape))


def _logsumexp_vjp(g: Any, x: Any, ans: Any, dim: tuple[int, ...] | None, keepdim: bool) -> Any:
    """``g softmax(x)``; NaN where all elements are -inf, as in PyTorch."""
    p = np.exp(x - kept(ans, x.shape, dim, keepdim))
    total = p.sum(axis=dim, keepdims=True)  # 1, but for the rounding of ans, which large logits feel
    return kept(g, x.shape, dim, keepdim) / np.where(total == total, total, 1) * p


LOGSUMEXP = Primitive("logsumexp", _logsumexp, "x", [_logsumexp_vjp], signals=True)


@by_rows("softmax")
@in_single
def _softmax(x: Any, dim: int) -> Any:
    if x.size == 0:
        return x.copy()
    xp = array_module(x)
    out = x - x.max(axis=dim, keepdims=True)
    out = xp.exp(out, out=out) if x.ndim else xp.exp(out)
    total = accurate_sum(out, (dim,) if x.ndim else None, True)
    return xp.divide(out, total, out=out) if x.ndim else out / total


@by_rows("log_softmax")
@in_single
def _log_softmax(x: Any, dim: int) -> Any:
    if x.size == 0:
        return x.copy()
    xp = array_module(x)
    out = x - x.max(axis=dim, keepdims=True)
    total = xp.log(accurate_sum(xp.exp(out), (dim,) if x.ndim else None, True))
    return xp.subtract(out, total, out=out) if x.ndim else out - total


@by_rows("softmax_backward")
def _softmax_backward(g: Any, ans: Any, dim: int) -> Any:
    """``y (g - sum(g y))``."""
    weighted = g * ans
    return weighted - ans * weighted.sum(axis=dim, keepdims=True)


@by_rows("log_softmax_backward")
def _log_softmax_backward(g: Any, ans: Any, dim: int) -> Any:
    """``g - softmax(x) sum(g)``."""
    return g - np.exp(ans) * g.sum(axis=dim, keepdims=True)


SOFTMAX = Primitive("softmax", _softmax, "x", [lambda g, ans, dim: _softmax_backward(g, ans, dim=dim)], signals=True)
LOG_SOFTMAX = Primitive(
    "log_softmax",
    _log_softmax,
    "x",
    [lambda g, ans, dim: _log_softmax_backward(g, ans, dim=dim)],
    signals=True,
)


@operator()
@numpy_names
def logsumexp(input: Tensor, dim: Any, keepdim: bool = False) -> Tensor:
    """``log(sum(exp(x)))`` over one dimension or several, without overflow; -inf where all elements are.

    Raises:
        IndexError: a dimension is out of range.

    >>> rg.logsumexp(rg.tensor([100.0, 100.0]), 0)
    tensor(100.6931)
    """
    x = operand(input)
    return reduce_(LOGSUMEXP, converted(x, get_default_dtype()) if x.array.dtype.kind in "biu" else x, dim, keepdim)


def _softmax_along(primitive: Primitive, input: Any, dim: Any, dtype: Any) -> Tensor:
    x = input if isinstance(input, Tensor) else operand(input)
    if dtype is not None:
        x = converted(x, dtype)
    if x.array.dtype.kind != "f":
        raise NotImplementedError(f"{primitive.name}: wanted a floating dtype, got {x.dtype}; give dtype=")
    return apply(primitive, (x,), {"dim": dimension(dim, x.array.ndim)})


def _implicit(name: str, input: Any, dim: int | None) -> int:
    """The dimension that PyTorch's nn.functional takes where none is given, with its warning."""
    if dim is not None:
        return dim
    warn(f"{name}: give dim; the implicit choice of a dimension is deprecated", UserWarning, stacklevel=4)
    return 0 if np.ndim(getattr(input, "array", input)) in (0, 1, 3) else 1


@operator()
@numpy_names
def softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """``exp(x_i) / sum_j exp(x_j)`` along ``dim``, without overflow.

    Args:
        input: a floating Tensor.
        dim: the dimension along which the result sums to 1.
        dtype: converts the input first.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: the input holds integers and no ``dtype`` is given.

    >>> rg.softmax(rg.tensor([1000.0, 1000.0]), 0)
    tensor([0.5, 0.5])
    """
    return _softmax_along(SOFTMAX, input, dim, dtype)


@operator()
@numpy_names
def log_softmax(input: Tensor, dim: int, dtype: Any = None) -> Tensor:
    """The logarithm of ``softmax``: ``x_i - log(sum_j exp(x_j))`` along ``dim``.

    Raises:
        IndexError: ``dim`` is out of range.
        NotImplementedError: the input holds integers and no ``dtype`` is given.

    >>> rg.log_softmax(rg.tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """
    return _softmax_along(LOG_SOFTMAX, input, dim, dtype)


for _each in (logsumexp, softmax, log_softmax):
    operator(namespace="special", method=False)(_each)


@operator(namespace="nn.functional", method=False, name="softmax")
@numpy_names
def functional_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """As ``softmax``; without ``dim`` the one that PyTorch chooses, with a warning.

    >>> rg.nn.functional.softmax(rg.tensor([0.0, 0.0]), dim=0)
    tensor([0.5, 0.5])
    """
    return _softmax_along(SOFTMAX, input, _implicit("softmax", input, dim), dtype)


@operator(namespace="nn.functional", method=False, name="log_softmax")
@numpy_names
def functional_log_softmax(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """As ``log_softmax``; without ``dim`` the one that PyTorch chooses, with a warning.

    >>> rg.nn.functional.log_softmax(rg.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    return _softmax_along(LOG_SOFTMAX, input, _implicit("log_softmax", input, dim), dtype)


@operator(namespace="nn.functional", method=False)
@numpy_names
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Tensor:
    """``softmax(-x)``: ``exp(-x_i) / sum_j exp(-x_j)`` along ``dim``.

    Raises:
        IndexError: ``dim`` is out of range.

    >>> rg.nn.functional.softmin(rg.tensor([0.0, 0.0]), dim=0)
    tensor([0.5, 0.5])
    """
    return _softmax_along(SOFTMAX, -operand(input), _implicit("softmin", input, dim), dtype)
