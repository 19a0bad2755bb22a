"""Layers without parameters: elementwise functions, and the softmax family along one axis.

Each takes a floating-point array of any shape and keeps its dtype; any other input raises TypeError, and a ``dim`` out
of range IndexError. The softmax family subtracts the maximum before exp, so that large entries cannot overflow
(Blanchard, Higham, Higham, "Accurately computing the log-sum-exp and softmax functions", IMA J. Numer. Anal. 41, 2021).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .base import Array, BaseLayer


class ReLU(BaseLayer):
    """``y = max(x, 0)``.

    Gradient: ``dy/dx`` is 1 where ``x > 0`` and 0 where ``x < 0``. At 0, where no derivative exists, it is 0 as in
        PyTorch:

        ``dx = dout [y > 0]``

    (Nair, Hinton, "Rectified linear units improve restricted Boltzmann machines", ICML 2010.)

    Shapes: x any, floating; y as x. Raises TypeError for another dtype.

    >>> from retrograd import manual
    >>> layer = manual.ReLU()
    >>> layer.forward(np.array([-1.0, 0.0, 2.0]))
    array([0., 0., 2.])
    >>> layer.backward(np.array([5.0, 5.0, 5.0]))
    array([0., 0., 5.])
    """

    def forward(self, x: Array) -> Array:
        self._require_float(x)
        y: Array = np.maximum(x, 0)
        return self._save(y, y)

    def backward(self, dout: Array) -> Array:
        y = self._recall(dout)
        dx: Array = dout * (y > 0)
        return dx


class Tanh(BaseLayer):
    """``y = tanh(x) = (eˣ - e⁻ˣ) / (eˣ + e⁻ˣ)``.

    Gradient: by the quotient rule ``dy/dx = 1 - ((eˣ - e⁻ˣ) / (eˣ + e⁻ˣ))² = 1 - y²``, so

        ``dx = dout (1 - y²)``

    (LeCun, Bottou, Orr, Müller, "Efficient BackProp", 1998.)

    Shapes: x any, floating; y as x. Raises TypeError for another dtype.

    >>> from retrograd import manual
    >>> layer = manual.Tanh()
    >>> layer.forward(np.array([0.0, 1000.0]))
    array([0., 1.])
    >>> layer.backward(np.array([3.0, 3.0]))
    array([3., 0.])
    """

    def forward(self, x: Array) -> Array:
        self._require_float(x)
        y: Array = np.tanh(x)
        return self._save(y, y)

    def backward(self, dout: Array) -> Array:
        y = self._recall(dout)
        dx: Array = 1 - np.square(y)
        dx *= dout
        return dx


class Sigmoid(BaseLayer):
    """``y = σ(x) = 1 / (1 + e⁻ˣ)``.

    Gradient: ``dy/dx = e⁻ˣ / (1 + e⁻ˣ)² = y (1 - y)``, so

        ``dx = dout y (1 - y)``

    For ``x < 0`` the equivalent form ``eˣ / (1 + eˣ)`` is used: neither overflows, and a small y keeps its precision.
    (Rumelhart, Hinton, Williams, 1986.)

    Shapes: x any, floating; y as x. Raises TypeError for another dtype.

    >>> from retrograd import manual
    >>> layer = manual.Sigmoid()
    >>> layer.forward(np.array([-1000.0, 0.0, 1000.0]))
    array([0. , 0.5, 1. ])
    >>> layer.backward(np.array([4.0, 4.0, 4.0]))
    array([0., 1., 0.])
    """

    def forward(self, x: Array) -> Array:
        self._require_float(x)
        decay: Array = np.exp(-np.abs(x))
        y: Array = np.where(x >= 0, x.dtype.type(1), decay) / (1 + decay)
        return self._save(y, y)

    def backward(self, dout: Array) -> Array:
        y = self._recall(dout)
        dx: Array = 1 - y
        dx *= y
        dx *= dout
        return dx


class Softmax(BaseLayer):
    """``y_i = exp(x_i) / (Σ_j exp(x_j))`` along ``dim``.

    Gradient: ``∂y_i/∂x_k = y_i (δ_ik - y_k)``, so

        ``dx_k = Σ_i dout_i y_i (δ_ik - y_k) = y_k (dout_k - Σ_i dout_i y_i)``

    (Bridle, "Probabilistic interpretation of feedforward classification network outputs", 1990.)

    Args:
        dim: the axis.

    Shapes: x any, floating; y as x. Raises TypeError for another dtype, IndexError for a ``dim`` out of range.

    >>> from retrograd import manual
    >>> layer = manual.Softmax()
    >>> layer.forward(np.array([1000.0, 1000.0]))
    array([0.5, 0.5])
    >>> layer.backward(np.array([4.0, 0.0]))
    array([ 1., -1.])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__(f"{dim=}")
        self.dim = dim

    def forward(self, x: Array) -> Array:
        self._require_float(x)
        self._require_dim(x, self.dim)
        y: Array = np.exp(x - x.max(axis=self.dim, keepdims=True))
        y /= y.sum(axis=self.dim, keepdims=True)
        return self._save(y, y)

    def backward(self, dout: Array) -> Array:
        y = self._recall(dout)
        return y * (dout - (dout * y).sum(axis=self.dim, keepdims=True))


class LogSoftmax(BaseLayer):
    """``y_i = x_i - log(Σ_j exp(x_j))`` along ``dim``.

    Gradient: ``∂y_i/∂x_k = δ_ik - exp(y_k)``, so

        ``dx_k = dout_k - exp(y_k) Σ_i dout_i``

    (Bishop, "Pattern recognition and machine learning", 2006, section 4.3.4.)

    Args:
        dim: the axis.

    Shapes: x any, floating; y as x. Raises TypeError for another dtype, IndexError for a ``dim`` out of range.

    >>> from retrograd import manual
    >>> layer = manual.LogSoftmax()
    >>> layer.forward(np.array([0.0, 1000.0]))
    array([-1000.,     0.])
    >>> layer.backward(np.array([1.0, 0.0]))
    array([ 1., -1.])
    """

    def __init__(self, dim: int = -1) -> None:
        super().__init__(f"{dim=}")
        self.dim = dim

    def forward(self, x: Array) -> Array:
        self._require_float(x)
        self._require_dim(x, self.dim)
        y: Array = x - x.max(axis=self.dim, keepdims=True)
        y -= np.log(np.exp(y).sum(axis=self.dim, keepdims=True))
        return self._save(y, y)

    def backward(self, dout: Array) -> Array:
        y = self._recall(dout)
        return dout - np.exp(y) * dout.sum(axis=self.dim, keepdims=True)


class LogSumExp(BaseLayer):
    """``y = log(Σ_j exp(x_j))`` along ``dim``. The axis has length 1 in y with ``keepdim`` and is removed without it.

    Gradient: ``∂y/∂x_k = exp(x_k) / (Σ_j exp(x_j)) = exp(x_k - y)``, the softmax, so

        ``dx_k = dout exp(x_k - y)``

    Args:
        dim: the axis.
        keepdim: keep the axis, with length 1.

    Shapes: x any, floating; y as x, without the axis ``dim`` unless ``keepdim`` is set. Raises TypeError for another
    dtype, IndexError for a ``dim`` out of range.

    >>> from retrograd import manual
    >>> layer = manual.LogSumExp()
    >>> layer.forward(np.array([[1000.0, 0.0]]))
    array([1000.])
    >>> layer.backward(np.array([2.0]))
    array([[2., 0.]])
    """

    def __init__(self, dim: int = -1, keepdim: bool = False) -> None:
        super().__init__(f"{dim=}", f"{keepdim=}")
        self.dim = dim
        self.keepdim = keepdim

    def forward(self, x: Array) -> Array:
        self._require_float(x)
        self._require_dim(x, self.dim)
        y = log_sum_exp(x, self.dim)
        output = y if self.keepdim else np.squeeze(y, axis=self.dim)
        return self._save(output, (x, y))

    def backward(self, dout: Array) -> Array:
        x, y = self._recall(dout)
        dx: Array = np.exp(x - y)
        dx *= dout.reshape(y.shape)
        return dx


def log_sum_exp(x: Array, dim: int) -> Array:
    """Return ``log(Σ_j exp(x_j))`` along ``dim``, which is kept with length 1.

    The result is -inf if all entries are -inf, and inf if any entry is inf.
    """
    largest: Array = x.max(axis=dim, keepdims=True)
    shift: Array = np.where(np.isfinite(largest), largest, x.dtype.type(0))
    with np.errstate(divide="ignore"):
        y: Any = np.log(np.exp(x - shift).sum(axis=dim, keepdims=True))
    return y + shift
