"""Layers with a weight matrix: Linear multiplies by it, Embedding selects its rows."""

from __future__ import annotations

import numpy as np
from numpy.typing import DTypeLike

from .base import Array, BaseLayer, Seed, floating, require_positive, uniform_by_fan_in


class Linear(BaseLayer):
    r"""``y = x Wᵀ + b``.

    Gradient: ``y_ni = Σ_j x_nj W_ij + b_i``, so with ``dy = dout``

        ``∂L/∂W_ij = Σ_n dy_ni x_nj``, ``dW = dyᵀ x``
        ``∂L/∂b_i = Σ_n dy_ni``, ``db = Σ_n dy_n``
        ``∂L/∂x_nj = Σ_i dy_ni W_ij``, ``dx = dy W``

    (Rumelhart, Hinton, Williams, "Learning representations by back-propagating errors", Nature 323, 1986.)

    Shapes: x (..., in_features), y (..., out_features), weight (out_features, in_features), bias (out_features,).
    Weight and bias start from ``U(-1/√in_features, 1/√in_features)``. The first layer of a net does not need dx: with
    ``input_gradient=False`` backward does not compute it and returns None.

    Raises TypeError for an x of another dtype than the layer, ValueError for a wrong last axis.

    Args:
        in_features, out_features: the lengths of the last axes of x and y.
        bias: whether there is a bias b.
        input_gradient: whether backward computes dx.
        dtype: the dtype of the parameters, and so of x and y: float32 or float64.
        rng: a NumPy generator or a seed; by default the initial weights differ from run to run.

    >>> from retrograd import manual
    >>> layer = manual.Linear(2, 1, rng=0)
    >>> layer.parameters["weight"][...] = [[3.0, 4.0]]
    >>> layer.parameters["bias"][...] = 5.0
    >>> layer.forward(np.array([[1.0, 2.0]], np.float32))
    array([[16.]], dtype=float32)
    >>> layer.backward(np.array([[1.0]], np.float32))
    array([[3., 4.]], dtype=float32)
    >>> layer.gradients["weight"]
    array([[1., 2.]], dtype=float32)
    """

    def __init__(
        self,
        in_features: int,
        out_features: int,
        bias: bool = True,
        *,
        input_gradient: bool = True,
        dtype: DTypeLike = np.float32,
        rng: Seed = None,
    ) -> None:
        super().__init__(in_features, out_features)
        require_positive("Linear", in_features=in_features, out_features=out_features)
        self.in_features = in_features
        self.out_features = out_features
        self.input_gradient = input_gradient
        rng = np.random.default_rng(rng)
        self._add_parameter("weight", uniform_by_fan_in((out_features, in_features), in_features, dtype, rng))
        if bias:
            self._add_parameter("bias", uniform_by_fan_in((out_features,), in_features, dtype, rng))

    def forward(self, x: Array) -> Array:
        self._require_float(x)
        self._require_shape(x, x.ndim > 0 and x.shape[-1] == self.in_features, f"(..., {self.in_features})")
        y = x @ self.parameters["weight"].T
        if "bias" in self.parameters:
            y += self.parameters["bias"]
        return self._save(y, x)

    def backward(self, dout: Array) -> Array | None:
        x = self._recall(dout)
        x_rows = x.reshape(-1, self.in_features)
        dout_rows = dout.reshape(-1, self.out_features)
        np.matmul(dout_rows.T, x_rows, out=self.gradients["weight"])
        if "bias" in self.gradients:
            dout_rows.sum(axis=0, out=self.gradients["bias"])
        return dout @ self.parameters["weight"] if self.input_gradient else None


class Embedding(BaseLayer):
    r"""``y = W[i]``: rows of a table, selected by index.

    Gradient: ``y_n = W[i_n]``, so row k of W receives the sum of the gradients of all positions with index k:

        ``dW_k = Σ_n [i_n = k] dout_n``

    Integers have no gradient, so backward returns None. (Bengio et al., "A neural probabilistic language model",
    JMLR 3, 2003.)

    Shapes: i (...) of integers, y (..., embedding_dim), weight (num_embeddings, embedding_dim), from ``N(0, 1)``.
    Raises TypeError for an i of another dtype, IndexError for an index outside [0, num_embeddings).

    Args:
        num_embeddings, embedding_dim: the number of rows, and their length.
        dtype: the dtype of the parameters, and so of y: float32 or float64.
        rng: a NumPy generator or a seed; by default the initial weights differ from run to run.

    >>> from retrograd import manual
    >>> layer = manual.Embedding(3, 2, rng=0)
    >>> y = layer.forward(np.array([2, 0, 2]))
    >>> layer.backward(np.ones_like(y))
    >>> layer.gradients["weight"]
    array([[1., 1.],
           [0., 0.],
           [2., 2.]], dtype=float32)
    """

    def __init__(
        self, num_embeddings: int, embedding_dim: int, *, dtype: DTypeLike = np.float32, rng: Seed = None
    ) -> None:
        super().__init__(num_embeddings, embedding_dim)
        require_positive("Embedding", num_embeddings=num_embeddings, embedding_dim=embedding_dim)
        self.num_embeddings = num_embeddings
        table = np.random.default_rng(rng).standard_normal((num_embeddings, embedding_dim))
        self._add_parameter("weight", table.astype(floating(dtype)))

    def forward(self, x: Array) -> Array:
        if not isinstance(x, np.ndarray) or x.dtype.kind not in "iu":
            got = f"dtype {x.dtype}" if isinstance(x, np.ndarray) else type(x).__name__
            raise TypeError(f"{self!r}.forward: x must be an array of integers, got {got}")
        if x.size and not (x.min() >= 0 and x.max() < self.num_embeddings):
            raise IndexError(
                f"{self!r}.forward: x has indices from {x.min()} to {x.max()}, outside [0, {self.num_embeddings})"
            )
        return self._save(self.parameters["weight"][x], x)

    def backward(self, dout: Array) -> None:
        indices = self._recall(dout)
        gradient = self.gradients["weight"]
        gradient.fill(0)
        np.add.at(gradient, indices, dout)
