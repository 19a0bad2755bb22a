"""Adaptive quadrature on Tensors, by the Gauss-Kronrod pair of 10 and 21 points."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from math import isinf

import numpy as np

from .._generated import toplevel as ops
from ..core.errors import describe
from ..core.graph.modes import no_grad
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.implicit.vectors import bare
from ..func.mapping import vmap
from ..ops.numpy.arguments import tensor
from .decorators import ArrayLike, Function, floating_tensor


@cache
def _kronrod() -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Return the nodes in [0, 1] of the Gauss-Kronrod pair of 10 and 21 points, and the weights of both rules.

    The Kronrod nodes and weights are those of QUADPACK (Piessens et al. 1983).
    """
    positive = [
        0.9956571630258081, 0.9739065285171717, 0.9301574913557082, 0.8650633666889845, 0.7808177265864169,
        0.6794095682990244, 0.5627571346686047, 0.4333953941292472, 0.2943928627014602, 0.14887433898163122,
        0.0,
    ]  # fmt: skip
    kronrod = [
        0.011694638867371874, 0.032558162307964725, 0.054755896574351995, 0.07503967481091996, 0.0931254545836976,
        0.10938715880229764, 0.12349197626206584, 0.13470921731147334, 0.14277593857706009, 0.14773910490133849,
        0.1494455540029169,
    ]  # fmt: skip
    half, weights = np.array(positive), np.array(kronrod)
    nodes = np.concatenate([-half, half[-2::-1]])
    full = np.concatenate([weights, weights[-2::-1]])
    gauss = np.zeros(21)
    gauss[1::2] = np.polynomial.legendre.leggauss(10)[1]
    return (nodes + 1) / 2, full / 2, gauss / 2


class Integral:
    """The integral of ``f`` from a to b, as an integral over [0, 1] of a transformed function.

    The integration variable s is mapped to x by a function of the limits, so that limits have derivatives.
    """

    def __init__(self, caller: str, f: Function, a: ArrayLike, b: ArrayLike) -> None:
        self.caller, self.f = caller, f
        self.a, self.b = floating_tensor(a), floating_tensor(b)
        dtype = np.result_type(self.a.dtype, self.b.dtype)
        if np.dtype(dtype).kind == "c":
            raise TypeError(f"{caller}: limits must be real, got {describe(self.a)} and {describe(self.b)}")
        self.a, self.b, self.dtype = self.a.astype(dtype), self.b.astype(dtype), np.dtype(dtype)
        self.infinite = tuple(isinf(one_number(caller, x)) for x in (self.a, self.b))
        self.together = True  # whether f is evaluated at all nodes in one call

    def point(self, s: Tensor) -> tuple[Tensor, Tensor]:
        """Return x and dx/ds at s in (0, 1)."""
        a, b = self.a, self.b
        if self.infinite == (False, False):
            # The map's derivative is zero at both ends, where integrands are often singular.
            return a + (b - a) * (s * s * (3 - 2 * s)), (b - a) * (6 * s * (1 - s))
        if self.infinite == (True, True):
            sign = ops.sign(b.detach())
            u = 2 * s - 1
            rest = 1 - u * u
            return sign * u / rest, 2 * sign * (1 + u * u) / (rest * rest)
        if self.infinite[1]:
            sign = ops.sign(b.detach())
            return a + sign * s / (1 - s), sign / (1 - s) ** 2
        sign = ops.sign(a.detach())
        return b + sign * (1 - s) / s, -sign / (s * s)

    def values(self, s: np.ndarray) -> Tensor:
        """Return the transformed function at 1-D nodes, along the first axis."""

        def at(s: Tensor) -> Tensor:
            x, slope = self.point(s)
            value = self.f(x)
            y = value if isinstance(value, Tensor) else tensor(value)
            return y * slope

        nodes = new_tensor(np.asarray(s, self.dtype))
        if self.together:
            try:
                return vmap(at, randomness="same")(nodes)
            except RuntimeError as error:
                if "vmap" not in str(error):
                    raise
                self.together = False  # f branches on the value of x
        return ops.stack([at(x) for x in ops.unbind(nodes)])


def one_number(caller: str, x: Tensor) -> float:
    values = np.asarray(bare(x.detach())).reshape(-1)
    if x.array.size != 1:
        raise ValueError(f"{caller}: limits must be single numbers, got {describe(x)}")
    if len(set(np.isinf(values).tolist())) > 1:
        raise ValueError(f"{caller}: inside vmap a limit must be infinite for all examples or for none")
    return float(values[0]) if values.size else 0.0


def adaptive(
    integral: Integral, epsabs: float, epsrel: float, limit: int, points: Sequence[float] = ()
) -> tuple[Tensor, float, bool]:
    """Return the integral, an estimate of its error, and whether the error is below the tolerance.

    Subintervals of [0, 1] are bisected, the one with the largest error first, as in QUADPACK's QAGS, without recording.
    The rule is then evaluated once more on all subintervals as a recorded sum, which is differentiable.
    """
    nodes, kronrod, gauss = _kronrod()
    with no_grad():
        ndim = integral.values(np.array([0.5])).ndim - 1

    def estimate(parts: list[tuple[float, float]]) -> list[tuple[float, float, float, np.ndarray]]:
        s = np.concatenate([start + width * nodes for start, width in parts])
        y = np.moveaxis(np.asarray(bare(integral.values(s))), -1 - ndim, 0)
        found = []
        for index, (start, width) in enumerate(parts):
            piece = y[index * 21 : index * 21 + 21]
            total = np.tensordot(kronrod, piece, 1) * width
            error = abs(total - np.tensordot(gauss, piece, 1) * width)
            spread = np.tensordot(kronrod, abs(piece - total / width), 1) * width
            with np.errstate(all="ignore"):
                scaled = np.where(spread > 0, spread * np.minimum(1, (200 * error / spread) ** 1.5), error)
            found.append((float(scaled.max()) if scaled.size else 0.0, start, width, total))
        return found

    edges = sorted({0.0, 1.0, *points})
    with no_grad():
        parts = estimate([(a, b - a) for a, b in zip(edges, edges[1:], strict=False)])
        while True:
            total = sum(part[3] for part in parts)
            error = sum(part[0] for part in parts)
            size = float(abs(np.asarray(total)).max()) if np.size(total) else 0.0
            done = error <= max(epsabs, epsrel * size) or not np.isfinite(error)
            if done or len(parts) >= limit:
                break
            parts.sort(key=lambda part: part[0])
            _, start, width, _ = parts.pop()
            if width < 1e-14:
                break
            parts += estimate([(start, width / 2), (start + width / 2, width / 2)])
    parts.sort(key=lambda part: part[1])
    s = np.concatenate([start + width * nodes for _, start, width, _ in parts])
    weights = np.concatenate([width * kronrod for _, _, width, _ in parts])
    y = integral.values(s)
    scale = new_tensor(weights.astype(y.real.dtype if y.dtype.kind == "c" else y.dtype))
    value = (y * scale.reshape((-1,) + (1,) * (y.ndim - 1))).sum(0)
    return value, float(error), bool(done and np.isfinite(error))
