"""Dropout."""

from __future__ import annotations

import numpy as np

from .base import Array, BaseLayer, Seed


class Dropout(BaseLayer):
    """``y = m x / (1 - p)`` in training, with m = 0 with probability p, else 1; ``y = x`` if ``training`` is False.

    Gradient: every element is multiplied by a constant, so the same constants multiply ``dout``:

        ``dx = m dout / (1 - p)``

    The division by ``1 - p`` makes the expectation of y equal x. (Srivastava et al., "Dropout: a simple way to prevent
    neural networks from overfitting", JMLR 15, 2014.)

    Shapes: any; x must be floating (else TypeError), y has its dtype. A p outside ``[0, 1]`` is a ValueError.

    Args:
        p: the probability that an element becomes 0.
        rng: a NumPy generator or a seed; by default the masks differ from run to run.

    >>> from retrograd import manual
    >>> layer = manual.Dropout(0.5, rng=0)
    >>> y = layer.forward(np.ones(8))
    >>> sorted(set(y.tolist()))
    [0.0, 2.0]
    >>> np.array_equal(layer.backward(np.ones(8)), y)
    True
    """

    def __init__(self, p: float = 0.5, *, rng: Seed = None) -> None:
        super().__init__(f"{p=}")
        if not 0 <= p <= 1:
            raise ValueError(f"Dropout: p must lie in [0, 1], got {p}")
        self.p = p
        self.rng = np.random.default_rng(rng)

    def forward(self, x: Array) -> Array:
        self._require_float(x)
        scale = np.ones_like(x)
        if self.training:
            kept = self.rng.random(x.shape, dtype=np.float32) >= self.p
            scale = kept.astype(x.dtype)
            if self.p < 1:
                scale /= 1 - self.p
        return self._save(x * scale, scale)

    def backward(self, dout: Array) -> Array:
        scale: Array = self._recall(dout)
        return dout * scale
