"""Smooth activation functions: gates, soft rectifiers and soft signs."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TypeAlias

import numpy as np
from numpy import ndarray

from ....core.arrays import Array
from ....core.arrays.dtypes import FLOATING, float32, get_default_dtype
from ....core.arrays.layout import order_like
from ....core.graph.primitive import Primitive, apply, apply1, apply2, operand
from ....core.graph.recomputed import over_cotangent
from ....core.tensor.mutation import apply_inplace
from ....core.tensor.tensor import Tensor
from ....kernels import SEVERAL, mapped
from ....kernels.loops.elements.elementwise import with_value
from ...math.arithmetic import ABS, SUB
from ...math.exponential import SIGMOID
from ...math.trigonometric import TANH
from ...shape.joining import CAT
from ...table.arguments import dimension, floating_operand
from ...table.batching import along
from ...table.blocks import in_blocks, in_single, wide, widened
from ...table.elementwise_primitives import WHERE, elementwise, select, unary
from ...table.registry import operator
from .application import FUNCTIONS, RULES, activate

Loop: TypeAlias = Callable[[Callable[..., Array]], Callable[..., Array]]


def _smooth(name: str, of: str, loop: Loop, backward_loop: Loop) -> Primitive:
    """Return the primitive of the function ``of`` of ``elements/activations.py``, with its compiled loops."""
    slope = in_blocks(widened(RULES[f"{of}_slope"]))
    backward, forward = backward_loop(lambda g, x: g * slope(x)), loop(in_blocks(FUNCTIONS[of]))
    over_cotangent[of, f"{of}_backward"] = with_value(of, forward, backward)
    return unary(name, in_single(forward), backward, signals=True, compiled="fE", halves=forward)


SILU = _smooth("silu", "silu", mapped("silu", SEVERAL, True), mapped("silu_backward", SEVERAL, True))


@operator(namespace="nn.functional", method=False, dtype="kept")
def silu(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * sigmoid(input)``, elementwise; also called swish.

    Derivative: ``g s (1 + input (1 - s))`` with ``s = sigmoid(input)``.

    Raises:
        NotImplementedError: the input holds integers or bools.

    Source: Elfwing, Uchibe, Doya, "Sigmoid-weighted linear units", 2018.

    >>> F.silu(rg.tensor([-1.0, 2.0]))
    tensor([-0.2689,  1.7616])
    """
    x = operand(input)
    if x.array.dtype.kind == "c":
        return apply_inplace(SILU, x) if inplace else apply1(SILU, x)
    return activate(SILU, x, inplace)


FEW = 128  # up to this number of elements, one call of a slow function is faster than several of fast functions


@mapped("log1p_exp", SEVERAL)
@in_blocks
def log1p_exp(x: Array) -> Array:
    """``log(1 + exp(x))``, without overflow."""
    if type(x) is ndarray and x.size <= FEW:
        return np.logaddexp(x, 0)
    # log1p(e) = log(u) e / (u - 1) with u = 1 + e rounded (W. Kahan) is as accurate as np.log1p and five times faster.
    e = np.exp(-np.abs(x))
    u = 1 + e
    excess = u - 1
    tiny = excess == 0
    return np.maximum(x, 0) + np.where(tiny, e, np.log(u) * (e / (excess + tiny)))


def _softplus(x: Array, beta: float, threshold: float) -> Array:
    if beta == 1:
        y = log1p_exp(x)
        # For x > 17, log(1 + exp(x)) is x in float32.
        return y if x.dtype is float32 and threshold >= 17 else select(x > threshold, x, y)
    z = beta * x
    return select(z > threshold, x, log1p_exp(z) * (1 / beta if beta else np.inf))


def _softplus_rule(g: Array, x: Array, beta: float, threshold: float) -> Array:
    z = beta * x
    return WHERE(z > threshold, g, g * SIGMOID(z))


SOFTPLUS = elementwise("softplus", _softplus, "x", [_softplus_rule], signals=True)


@operator(namespace="nn.functional", method=False, dtype="real")
def softplus(input: Tensor, beta: float = 1.0, threshold: float = 20.0) -> Tensor:
    """``log(1 + exp(beta input)) / beta``: a smooth relu; the input itself where ``beta input > threshold``.

    Derivative: ``g sigmoid(beta input)``; ``g`` above the threshold.

    Args:
        beta: larger values make the function more like relu.
        threshold: where ``beta * x`` is larger, the function is the identity.

    >>> F.softplus(rg.tensor([0.0, 100.0]))
    tensor([  0.6931, 100.    ])
    """
    return activate(SOFTPLUS, input, False, beta=beta, threshold=threshold)


LOGSIGMOID = unary(
    "logsigmoid", in_single(lambda x: -log1p_exp(-x)), lambda g, x: g * SIGMOID(-x), signals=True, contiguous=True
)


@operator(namespace="nn.functional", method=False, dtype="real")
def logsigmoid(input: Tensor) -> Tensor:
    """``log(sigmoid(input)) = -log(1 + exp(-input))``, elementwise, without overflow.

    Derivative: ``g sigmoid(-input)``.

    >>> F.logsigmoid(rg.tensor([0.0, -100.0]))
    tensor([  -0.6931, -100.    ])
    """
    return apply1(LOGSIGMOID, floating_operand(input))


@in_blocks
@widened
def _mish_slope(x: Array) -> Array:
    t = TANH(SOFTPLUS(x, beta=1.0, threshold=math.inf))
    return t + x * SIGMOID(x) * (1 - t * t)


MISH = unary(
    "mish", in_single(in_blocks(lambda x: x * np.tanh(log1p_exp(x)))), lambda g, x: g * _mish_slope(x), signals=True
)


@operator(namespace="nn.functional", method=False, dtype="real")
def mish(input: Tensor, inplace: bool = False) -> Tensor:
    """``input * tanh(log(1 + exp(input)))``, elementwise.

    Derivative: ``g (t + input sigmoid(input) (1 - t^2))`` with ``t = tanh(log(1 + exp(input)))``.

    Source: Misra, "Mish: a self regularized non-monotonic activation function", 2019.

    >>> F.mish(rg.tensor([-1.0, 2.0]))
    tensor([-0.3034,  1.944 ])
    """
    return activate(MISH, input, inplace)


GELU = _smooth("gelu", "gelu", mapped("gelu", SEVERAL, True), mapped("gelu_backward", SEVERAL, True))
GELU_TANH = _smooth(
    "gelu", "gelu_tanh", mapped("gelu_tanh", SEVERAL, True), mapped("gelu_tanh_backward", SEVERAL, True)
)


@operator(namespace="nn.functional", method=False, dtype="real")
def gelu(input: Tensor, approximate: str = "none") -> Tensor:
    """``input * Phi(input)`` with the normal distribution function Phi, elementwise.

    Derivative: ``g (Phi(input) + input phi(input))`` with the normal density phi; with ``"tanh"`` that of the
    approximation itself.

    Args:
        approximate: ``"none"`` for Phi by the error function, ``"tanh"`` for
            ``(1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2``.

    Raises:
        RuntimeError: ``approximate`` is neither ``"none"`` nor ``"tanh"``.

    Source: Hendrycks, Gimpel, "Gaussian error linear units", 2016.

    >>> F.gelu(rg.tensor([-1.0, 2.0]))
    tensor([-0.1587,  1.9545])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"approximate must be 'none' or 'tanh', got {approximate!r}")
    return apply1(GELU if approximate == "none" else GELU_TANH, floating_operand(input))


@operator(namespace="nn.functional", method=False, dtype="float or complex")
def tanhshrink(input: Tensor) -> Tensor:
    """``input - tanh(input)``, elementwise.

    Derivative: ``g tanh(input)^2``.

    >>> F.tanhshrink(rg.tensor([0.0, 2.0]))
    tensor([0.   , 1.036])
    """
    return apply2(SUB, input, apply1(TANH, input))


SOFTSIGN = unary("softsign", lambda x: x / (1 + np.abs(x)), lambda g, x: g / _square(1 + ABS(x)), signals=True)


def _square(x: Array) -> Array:
    return x * x


@operator(namespace="nn.functional", method=False, dtype="float or complex")
def softsign(input: Tensor) -> Tensor:
    """``input / (1 + |input|)``, elementwise.

    Derivative: ``g / (1 + |input|)^2``.

    >>> F.softsign(rg.tensor([-1.0, 3.0]))
    tensor([-0.5 ,  0.75])
    """
    input = operand(input)
    if input.array.dtype.kind == "c":
        return input / (1 + apply1(ABS, input))
    return apply1(SOFTSIGN, input)


def _halves(x: Array, dim: int) -> tuple[Array, Array]:
    before, half = (slice(None),) * dim, x.shape[dim] // 2
    b = x[(*before, slice(half, None))]
    strided = type(b) is ndarray and not b.flags.c_contiguous
    return x[(*before, slice(half))], b.copy(order_like(b)) if strided else b  # the loops accept only contiguous arrays


@in_single
def _glu(x: Array, dim: int) -> Array:
    a, b = _halves(x, dim)
    return a * SIGMOID(b)


def _glu_vjp(g: Array, x: Array, dim: int) -> Array:
    a, b = _halves(wide(x), dim)
    s = SIGMOID(b)
    along_a = g * s
    return CAT(along_a, along_a * a * (1 - s), dim=dim)


GLU = Primitive("glu", _glu, "x", [_glu_vjp], signals=True, batch=along("dim"))


@operator(namespace="nn.functional", method=False, real=True)
def glu(input: Tensor, dim: int = -1) -> Tensor:
    """``a * sigmoid(b)``, where a and b are the two halves along a dimension: the gated linear unit.

    Derivative: a: ``g sigmoid(b)``; b: ``g a sigmoid(b) (1 - sigmoid(b))``.
    Shape: the result has half of the input's length along ``dim``.
    Dtype: real floating, preserved; integers become the default dtype.

    Args:
        dim: the dimension that is halved, of even length.

    Raises:
        RuntimeError: the input is 0-d, or the dimension has an odd length.
        IndexError: the dimension does not exist.

    Source: Dauphin, Fan, Auli, Grangier, "Language modeling with gated convolutional networks", 2017.

    >>> F.glu(rg.tensor([2.0, 4.0, 0.0, 0.0]))
    tensor([1., 2.])
    """
    input = operand(input)
    shape = input.array.shape
    if not shape:
        raise RuntimeError("does not support 0-d Tensors")
    dim = dimension(dim, len(shape))
    if shape[dim] % 2:
        raise RuntimeError(f"the halved axis must have an even length, but axis {dim} of {shape} has {shape[dim]}")
    if input.array.dtype.kind not in FLOATING:
        input = input.astype(get_default_dtype())
    return apply(GLU, (input,), {"dim": dim})
