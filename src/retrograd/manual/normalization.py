"""LayerNorm and BatchNorm1d: the same formula over different axes."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from .base import Array, BaseLayer, floating, require_positive


class LayerNorm(BaseLayer):
    """``y = w x̂ + b`` with ``x̂ = (x - μ) / √(σ² + ε)``, mean ``μ`` and variance ``σ²`` over each example's last axes.

    Gradient: with ``g = w dout``, ``s = 1/√(σ² + ε)`` and n elements in the mean, ``x_k`` affects every ``x̂_i``
    directly, through ``μ`` and through ``σ²``: ``∂x̂_i/∂x_k = s (δ_ik - 1/n - x̂_i x̂_k / n)``. Summed over i with g,

        ``dx = s (g - mean(g) - x̂ mean(g x̂))``
        ``dw = Σ_n dout_n x̂_n``, ``db = Σ_n dout_n``

    (Ba, Kiros, Hinton, "Layer normalization", 2016.)

    Shapes: x and y (..., *normalized_shape), weight (initially ones) and bias (zeros) normalized_shape.
    Raises TypeError for an x of another dtype than the layer, ValueError for wrong last axes.

    Args:
        normalized_shape: the lengths of the last axes, or of the last one.
        eps: ``ε``, added to the variance.
        dtype: the dtype of the parameters, and so of x and y: float32 or float64.

    >>> from retrograd import manual
    >>> layer = manual.LayerNorm(2, eps=0.0, dtype=np.float64)
    >>> layer.forward(np.array([[1.0, 3.0]]))
    array([[-1.,  1.]])
    >>> layer.backward(np.array([[1.0, 1.0]]))
    array([[0., 0.]])
    """

    def __init__(
        self, normalized_shape: int | tuple[int, ...], eps: float = 1e-5, *, dtype: DTypeLike = np.float32
    ) -> None:
        super().__init__(normalized_shape)
        shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
        if not shape:
            raise ValueError("LayerNorm: normalized_shape must have at least one axis")
        require_positive("LayerNorm", normalized_shape=min(shape))
        self.normalized_shape = shape
        self.eps = eps
        self._axes = tuple(range(-len(shape), 0))
        self._add_parameter("weight", np.ones(shape, floating(dtype)))
        self._add_parameter("bias", np.zeros(shape, floating(dtype)))

    def forward(self, x: Array) -> Array:
        self._require_float(x)
        wanted = ", ".join(["...", *map(str, self.normalized_shape)])
        self._require_shape(x, x.shape[-len(self.normalized_shape) :] == self.normalized_shape, f"({wanted})")
        mean = x.mean(axis=self._axes, keepdims=True)
        x_hat = x - mean
        scale = 1 / np.sqrt(np.square(x_hat).mean(axis=self._axes, keepdims=True) + self.eps)
        x_hat *= scale
        return self._save(self.parameters["weight"] * x_hat + self.parameters["bias"], (x_hat, scale))

    def backward(self, dout: Array) -> Array:
        x_hat, scale = self._recall(dout)
        examples = tuple(range(dout.ndim - len(self.normalized_shape)))
        np.sum(dout * x_hat, axis=examples, out=self.gradients["weight"])
        np.sum(dout, axis=examples, out=self.gradients["bias"])
        return _through_standardization(self.parameters["weight"] * dout, x_hat, scale, self._axes)


class BatchNorm1d(BaseLayer):
    """``y = w x̂ + b`` with ``x̂ = (x - μ) / √(σ² + ε)``, mean ``μ`` and variance ``σ²`` of each channel over the batch.

    Gradient in training, derived as for LayerNorm but with the means over the batch (and the length):

        ``dx = s (g - mean(g) - x̂ mean(g x̂))``, ``g = w dout``, ``s = 1/√(σ² + ε)``
        ``dw = Σ_n dout_n x̂_n``, ``db = Σ_n dout_n``

    Training also updates the running statistics, ``r ← (1 - momentum) r + momentum batch``, where the batch's variance
    has n - 1 in the denominator. If ``training`` is False, the running statistics replace ``μ`` and ``σ²``; as they do
    not depend on x, ``dx = s g``.
    (Ioffe, Szegedy, "Batch normalization", ICML 2015.)

    Shapes: x and y (N, C) or (N, C, L); weight (initially ones), bias (zeros), running_mean and running_var (C,).
    Raises TypeError for an x of another dtype than the layer, ValueError for a wrong shape or, in training,
    for fewer than two values per channel.

    Args:
        num_features: the length of axis 1.
        eps: ``ε``, added to the variance.
        momentum: the weight of the batch in the updated running statistics.
        dtype: the dtype of the parameters, and so of x and y: float32 or float64.

    >>> from retrograd import manual
    >>> layer = manual.BatchNorm1d(1, eps=0.0, dtype=np.float64)
    >>> layer.forward(np.array([[1.0], [3.0]]))
    array([[-1.],
           [ 1.]])
    >>> layer.running_mean, layer.running_var
    (array([0.2]), array([1.1]))
    """

    def __init__(
        self, num_features: int, eps: float = 1e-5, momentum: float = 0.1, *, dtype: DTypeLike = np.float32
    ) -> None:
        super().__init__(num_features)
        require_positive("BatchNorm1d", num_features=num_features)
        self.num_features = num_features
        self.eps = eps
        self.momentum = momentum
        self._add_parameter("weight", np.ones(num_features, floating(dtype)))
        self._add_parameter("bias", np.zeros(num_features, floating(dtype)))
        self.running_mean: Array = np.zeros(num_features, floating(dtype))
        self.running_var: Array = np.ones(num_features, floating(dtype))

    def forward(self, x: Array) -> Array:
        self._require_float(x)
        channels = self.num_features
        self._require_shape(
            x, x.ndim in (2, 3) and x.shape[1] == channels, f"(N, {channels}) or (N, {channels}, length)"
        )
        axes = (0,) if x.ndim == 2 else (0, 2)
        if self.training:
            x_hat, variance = self._standardize_by_batch(x, axes)
        else:
            x_hat, variance = x - _per_channel(self.running_mean, x), _per_channel(self.running_var, x)
        scale = 1 / np.sqrt(variance + self.eps)
        x_hat *= scale
        y = _per_channel(self.parameters["weight"], x) * x_hat + _per_channel(self.parameters["bias"], x)
        return self._save(y, (x_hat, scale, axes, self.training))

    def _standardize_by_batch(self, x: Array, axes: tuple[int, ...]) -> tuple[Array, Array]:
        """Return x - μ and σ²; update the running statistics."""
        count = x.size // self.num_features
        if count < 2:
            raise ValueError(f"{self!r}.forward: training needs at least 2 values per channel, got x of {x.shape}")
        mean = x.mean(axis=axes, keepdims=True)
        centered = x - mean
        variance = np.square(centered).mean(axis=axes, keepdims=True)
        self.running_mean += self.momentum * (mean.reshape(-1) - self.running_mean)
        self.running_var += self.momentum * (variance.reshape(-1) * (count / (count - 1)) - self.running_var)
        return centered, variance

    def backward(self, dout: Array) -> Array:
        x_hat, scale, axes, by_batch = self._recall(dout)
        np.sum(dout * x_hat, axis=axes, out=self.gradients["weight"])
        np.sum(dout, axis=axes, out=self.gradients["bias"])
        g = _per_channel(self.parameters["weight"], dout) * dout
        if not by_batch:
            return g * scale
        return _through_standardization(g, x_hat, scale, axes)


def _through_standardization(g: Array, x_hat: Array, scale: Array, axes: tuple[int, ...]) -> Array:
    """Return s (g - mean(g) - x̂ mean(g x̂)) in the memory of g, which is overwritten."""
    correlation = (g * x_hat).mean(axis=axes, keepdims=True)
    g -= g.mean(axis=axes, keepdims=True)
    g -= x_hat * correlation
    g *= scale
    return g


def _per_channel(values: Array, x: Array) -> Array:
    """Return (C,) as (C,) or (C, 1), to broadcast against (N, C) or (N, C, L)."""
    return values.reshape((-1,) + (1,) * (x.ndim - 2))
