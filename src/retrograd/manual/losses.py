"""Losses: a number from a batch of predictions and targets."""

from __future__ import annotations

import numpy as np

from .activations import log_sum_exp
from .base import Array, BaseLayer


class CrossEntropyLoss(BaseLayer):
    """``L = -(1/N) Σ_n log p_n[t_n]``, with ``p_n = softmax(x_n)``, the mean negative log-likelihood.

    Gradient: for one row, ``L_n = log(Σ_j exp(x_j)) - x_t``, and ``∂L_n/∂x_k = p_k - δ_kt``. Over the batch

        ``dx_nk = dout (p_nk - [k = t_n]) / N``

    (Bishop, "Pattern recognition and machine learning", 2006, section 4.3.4.)

    Shapes: x (N, C) floating, target (N,) of integers; the loss is a float.
    Raises TypeError for a wrong dtype, ValueError for a wrong shape or an empty batch, IndexError for a class outside
    ``[0, C)``.

    >>> from retrograd import manual
    >>> loss = manual.CrossEntropyLoss()
    >>> round(loss.forward(np.array([[0.0, 0.0]]), np.array([1])), 6)
    0.693147
    >>> loss.backward()
    array([[ 0.5, -0.5]])
    """

    def forward(self, x: Array, target: Array) -> float:
        self._require_float(x)
        self._require_shape(x, x.ndim == 2 and x.size > 0, "(N, C), not empty")
        if not isinstance(target, np.ndarray) or target.dtype.kind not in "iu":
            got = f"dtype {target.dtype}" if isinstance(target, np.ndarray) else type(target).__name__
            raise TypeError(f"{self!r}.forward: target must be an array of integer classes, got {got}")
        if target.shape != x.shape[:1]:
            raise ValueError(
                f"{self!r}.forward: target must have shape {x.shape[:1]} for x of {x.shape}, got {target.shape}"
            )
        if not (target.min() >= 0 and target.max() < x.shape[1]):
            raise IndexError(
                f"{self!r}.forward: target has classes from {target.min()} to {target.max()}, outside [0, {x.shape[1]})"
            )
        log_total = log_sum_exp(x, 1)
        self._saved = x, target, log_total
        return float((log_total[:, 0] - x[np.arange(len(x)), target]).mean())

    def backward(self, dout: float = 1.0) -> Array:
        self._require_forward()
        x, target, log_total = self._saved
        dx: Array = np.exp(x - log_total)
        dx[np.arange(len(x)), target] -= 1
        dx *= dout / len(x)
        return dx


class MSELoss(BaseLayer):
    """``L = (1/n) Σ_i (x_i - t_i)²`` over all n elements.

    Gradient: by the chain rule

        ``dx_i = 2 dout (x_i - t_i) / n``

    (Bishop, "Pattern recognition and machine learning", 2006, section 3.1.)

    Shapes: x and target of the same shape and floating dtype, without broadcasting; the loss is a float.
    Raises TypeError for a wrong dtype, ValueError for different or empty shapes.

    >>> from retrograd import manual
    >>> loss = manual.MSELoss()
    >>> loss.forward(np.array([1.0, 5.0]), np.array([1.0, 3.0]))
    2.0
    >>> loss.backward()
    array([0., 2.])
    """

    def forward(self, x: Array, target: Array) -> float:
        self._require_float(x)
        if not isinstance(target, np.ndarray) or target.dtype != x.dtype:
            got = f"dtype {target.dtype}" if isinstance(target, np.ndarray) else type(target).__name__
            raise TypeError(f"{self!r}.forward: target must be an array of x's dtype {x.dtype}, got {got}")
        if target.shape != x.shape or not x.size:
            raise ValueError(
                f"{self!r}.forward: x and target must have the same, nonempty shape, got {x.shape} and {target.shape}"
            )
        self._saved = x - target
        return float(np.square(self._saved).mean())

    def backward(self, dout: float = 1.0) -> Array:
        self._require_forward()
        difference: Array = self._saved
        return difference * (2 * dout / difference.size)
