"""Log-sum-exp, the softmax family, and gumbel_softmax, without overflow."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, ParamSpec
from warnings import warn

import numpy as np

from ...core.arrays import Array
from ...core.arrays.devices import array_module
from ...core.arrays.dtypes import FLOATING, get_default_dtype
from ...core.arrays.fp_warnings import silently
from ...core.arrays.layout import in_row_major
from ...core.arrays.summation import accurate_sum
from ...core.graph.primitive import Primitive, apply, operand
from ...core.source_location import user_level
from ...core.tensor.tensor import Tensor
from ...kernels import by_rows
from ...kernels.chunked import by_lanes
from ..make.filled import empty_like, zeros_like
from ..math.arithmetic import MUL, SUB
from ..math.exponential import EXP
from ..reduce.common import converted, kept, reduce_
from ..reduce.reductions import SUM
from ..table import batching
from ..table.arguments import dimension
from ..table.blocks import in_single
from ..table.composites import raw
from ..table.registry import operator
from ..table.types import Dims, DTypeLike, Operand

P = ParamSpec("P")


@by_lanes
@in_single
def _logsumexp(x: Array, dim: tuple[int, ...] | None = None, keepdim: bool = False) -> Array:
    xp = array_module(x)
    if x.size == 0:
        return xp.log(accurate_sum(x, dim, keepdim))
    top = x.max(axis=dim, keepdims=True)
    top = xp.where(xp.isfinite(top), top, x.dtype.type(0))
    out = xp.log(accurate_sum(EXP.forward(SUB.forward(x, top)), dim, keepdim))
    return out + (top if keepdim else top.reshape(out.shape))


def _logsumexp_vjp(g: Array, x: Array, ans: Array, dim: tuple[int, ...] | None, keepdim: bool) -> Array:
    """``g softmax(x)``; NaN where all elements are -inf, as in PyTorch."""
    p = EXP(SUB(x, kept(ans, x.shape, dim, keepdim)))
    if 0 in x.shape:
        return MUL(kept(g, x.shape, dim, keepdim), p)
    total = SUM(p, dim=dim, keepdim=True)  # 1, up to the rounding error of ans, which matters for large logits
    return MUL(kept(g, x.shape, dim, keepdim) / np.where(total == total, total, 1), p)


LOGSUMEXP = Primitive(
    "logsumexp",
    _logsumexp,
    "x",
    [_logsumexp_vjp],
    signals=True,
    contiguous=True,
    batch=batching.along("dim"),
    by_rows=True,
)


def _by_numpy(forward: Callable[P, object]) -> Callable[P, Any]:
    """Wrap the NumPy reference: suppress its warnings for infinite logits and return row-major results."""
    return wraps(forward)(silently(in_row_major(forward)))


@by_rows("softmax")
@_by_numpy
@by_lanes
@in_single
def _softmax(x: Array, dim: int) -> Array:
    if x.size == 0:
        return x.copy()
    xp = array_module(x)
    out = x - x.max(axis=dim, keepdims=True)
    out = xp.exp(out, out=out)
    return xp.divide(out, accurate_sum(out, (dim,), True), out=out)


@by_rows("log_softmax")
@_by_numpy
@by_lanes
@in_single
def _log_softmax(x: Array, dim: int) -> Array:
    if x.size == 0:
        return x.copy()
    xp = array_module(x)
    out = x - x.max(axis=dim, keepdims=True)
    return xp.subtract(out, xp.log(accurate_sum(xp.exp(out), (dim,), True)), out=out)


@by_rows("softmax_backward")
@by_lanes
def _softmax_backward(g: Array, ans: Array, dim: int) -> Array:
    """``y (g - sum(g y))``."""
    weighted = g * ans
    return weighted - ans * weighted.sum(axis=dim, keepdims=True)


@by_rows("log_softmax_backward")
@by_lanes
def _log_softmax_backward(g: Array, ans: Array, dim: int) -> Array:
    """``g - softmax(x) sum(g)``."""
    return g - np.exp(ans) * g.sum(axis=dim, keepdims=True)


SOFTMAX = Primitive(
    "softmax",
    _softmax,
    "x",
    [lambda g, ans, dim: _softmax_backward(g, ans, dim=dim)],
    batch=batching.along("dim"),
    by_rows=True,
)
LOG_SOFTMAX = Primitive(
    "log_softmax",
    _log_softmax,
    "x",
    [lambda g, ans, dim: _log_softmax_backward(g, ans, dim=dim)],
    batch=batching.along("dim"),
    by_rows=True,
)


@operator()
def logsumexp(input: Tensor, dim: Dims, keepdim: bool = False) -> Tensor:
    """``log(sum(exp(input)))`` over one dimension or several, without overflow; -inf where all elements are -inf.

    Derivative: ``g softmax(input)``; NaN where all elements are -inf.
    Shape: the input's without the dimensions ``dim``, which with ``keepdim`` have length 1.
    Dtype: floating; integers and bools become the default dtype.

    >>> rg.logsumexp(rg.tensor([100.0, 100.0]), 0)
    tensor(100.6931)
    """
    x = operand(input)
    return reduce_(LOGSUMEXP, converted(x, get_default_dtype()) if x.array.dtype.kind in "biu" else x, dim, keepdim)


def _softmax_along(primitive: Primitive, input: Operand, dim: int, dtype: DTypeLike | None) -> Tensor:
    x = converted(operand(input), dtype)
    place = dimension(dim, x.array.ndim)
    if x.array.dtype.kind not in FLOATING:
        if not x.array.size:
            return x.clone()  # as in PyTorch, integers are accepted if there are no elements
        raise NotImplementedError(f"expected a floating dtype, got {x.dtype}; pass dtype")
    if not x.array.ndim:
        return apply(primitive, (x.reshape(1),), {"dim": 0}).reshape(())
    return apply(primitive, (x,), {"dim": place})


def _implicit(name: str, input: Operand, dim: int | None) -> int:
    """Return the dimension that PyTorch's nn.functional uses by default, with its warning."""
    if dim is not None:
        return dim
    warn(f"{name}: pass dim; the implicit choice of a dimension is deprecated", UserWarning, stacklevel=user_level())
    return 0 if np.ndim(raw(input)) in (0, 1, 3) else 1


@operator(args="dtype converts")
def softmax(input: Tensor, dim: int, dtype: DTypeLike | None = None) -> Tensor:
    """``exp(input_i) / (sum_j exp(input_j))`` along ``dim``, without overflow.

    Derivative: ``ans (g - sum(g ans))``, the sum along ``dim``.
    Dtype: real floating, preserved; with ``dtype`` any, which is converted first.

    Args:
        dim: the dimension along which the result sums to 1.

    Raises:
        NotImplementedError: the input is not real floating, and no ``dtype`` is given.

    >>> rg.softmax(rg.tensor([1000.0, 1000.0]), 0)
    tensor([0.5, 0.5])
    """
    return _softmax_along(SOFTMAX, input, dim, dtype)


@operator(like=softmax)
def log_softmax(input: Tensor, dim: int, dtype: DTypeLike | None = None) -> Tensor:
    """``input_i - log(sum_j exp(input_j))`` along ``dim``: the logarithm of ``softmax``, without overflow.

    Derivative: ``g - softmax(input) sum(g)``, the sum along ``dim``.

    Args:
        dim: the dimension of the sum.

    >>> rg.log_softmax(rg.tensor([0.0, 0.0]), 0)
    tensor([-0.6931, -0.6931])
    """
    return _softmax_along(LOG_SOFTMAX, input, dim, dtype)


for _function in (logsumexp, softmax, log_softmax):
    operator(namespace="special", method=False)(_function)


@operator(namespace="nn.functional", method=False, name="softmax", like=softmax)
def functional_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None
) -> Tensor:
    """``exp(input_i) / (sum_j exp(input_j))`` along ``dim``, without overflow.

    Args:
        dim: the dimension along which the result sums to 1; None is deprecated and means 0 for inputs of 0, 1 or 3
            dimensions, else 1.

    >>> F.softmax(rg.tensor([0.0, 0.0]), dim=0)
    tensor([0.5, 0.5])
    """
    return _softmax_along(SOFTMAX, input, _implicit("softmax", input, dim), dtype)


@operator(namespace="nn.functional", method=False, name="log_softmax", like=log_softmax)
def functional_log_softmax(
    input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None
) -> Tensor:
    """``input_i - log(sum_j exp(input_j))`` along ``dim``: the logarithm of ``softmax``, without overflow.

    Args:
        dim: the dimension of the sum; None is deprecated and means 0 for 0, 1 or 3 dimensions, else 1.

    >>> F.log_softmax(rg.tensor([0.0, 0.0]), dim=0)
    tensor([-0.6931, -0.6931])
    """
    return _softmax_along(LOG_SOFTMAX, input, _implicit("log_softmax", input, dim), dtype)


@operator(namespace="nn.functional", method=False, like=functional_softmax)
def softmin(input: Tensor, dim: int | None = None, _stacklevel: int = 3, dtype: DTypeLike | None = None) -> Tensor:
    """``exp(-input_i) / (sum_j exp(-input_j))`` along ``dim``: the ``softmax`` of the negated input.

    Derivative: ``-ans (g - sum(g ans))``, the sum along ``dim``.

    >>> F.softmin(rg.tensor([0.0, 0.0]), dim=0)
    tensor([0.5, 0.5])
    """
    return _softmax_along(SOFTMAX, -operand(input), _implicit("softmin", input, dim), dtype)


@operator(namespace="nn.functional", method=False)
def gumbel_softmax(logits: Tensor, tau: float = 1, hard: bool = False, eps: float = 1e-10, dim: int = -1) -> Tensor:
    """``softmax((logits + noise) / tau)`` with Gumbel noise: a soft sample of the categorical distribution.

    As ``tau`` goes to 0 the samples become one-hot.

    Derivative: that of the soft sample, for fixed noise; also with ``hard``.
    Dtype: real floating; the result has the input's dtype.

    Args:
        logits: unnormalized log-probabilities along ``dim``.
        tau: the temperature.
        hard: return a one-hot sample, which has the gradient of the soft one.
        eps: without effect, as in PyTorch.
        dim: the dimension of the classes.

    Source: Jang, Gu, Poole, "Categorical reparameterization with Gumbel-softmax", 2017; Maddison, Mnih, Teh, "The
        concrete distribution", 2017.

    >>> F.gumbel_softmax(rg.tensor([[0.0, 1000.0]]), hard=True)
    tensor([[0., 1.]])
    """
    x = operand(logits, "logits")
    noise = -empty_like(x.detach()).exponential_().log()
    soft = ((x + noise) / tau).softmax(dim)
    if not hard:
        return soft
    values = soft.detach()
    winner = values.argmax(dim, keepdim=True)
    one_hot = zeros_like(values).scatter(dim, winner, 1.0)
    return one_hot - values + soft
