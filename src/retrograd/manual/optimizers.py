"""SGD and RMSprop, written as one walk over the memory of each parameter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .base import Array, Layer, named_arrays, require_parameters

_BLOCK = 1 << 15  # elements; the blocks of a parameter, its gradient and its state stay in the processor's cache


class Optimizer:
    """Changes the parameters of a layer in place, by the gradients of its last backward.

    An optimizer of your own defines ``step``.

    Raises TypeError for what has no parameters and gradients, ValueError where there are none of them or for an ``lr``
    that is not greater than 0.

    Args:
        layer: any Layer, a Net included.
        lr: the learning rate.
    """

    def __init__(self, layer: Layer, lr: float) -> None:
        require_parameters(type(self).__name__, layer)
        if not lr > 0:
            raise ValueError(f"{type(self).__name__}: lr must be greater than 0, got {lr}")
        self.layer = layer
        self.lr = lr

    def step(self) -> None:
        """Moves every parameter once, in place."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def zero_grad(self) -> None:
        """Fills every gradient with 0; ``backward`` does not need it, since it overwrites them."""
        for gradient in named_arrays(self.layer, "gradients").values():
            gradient.fill(0)


class SGD(Optimizer):
    """Gradient descent with momentum and weight decay.

        ``g ← ∂L/∂θ + weight_decay θ``
        ``b ← momentum b + g``
        ``θ ← θ - lr b``

    (Polyak, "Some methods of speeding up the convergence of iteration methods", 1964; in the form of Sutskever et al.,
    "On the importance of initialization and momentum in deep learning", ICML 2013, as in PyTorch.)

    Raises TypeError for what has no parameters, ValueError unless ``lr > 0`` and the others are not negative.

    Args:
        layer: any Layer, a Net included.
        lr: the learning rate, greater than 0.
        momentum: how much of b is kept at each step, 0 for none.
        weight_decay: the factor of ``θ`` in g.

    >>> from retrograd import manual
    >>> layer = manual.Linear(1, 1, bias=False, dtype=np.float64)
    >>> layer.parameters["weight"][...] = 1.0
    >>> layer.gradients["weight"][...] = 2.0
    >>> manual.SGD(layer, lr=0.25).step()
    >>> layer.parameters["weight"]
    array([[0.5]])
    """

    def __init__(self, layer: Layer, lr: float = 1e-3, momentum: float = 0.0, weight_decay: float = 0.0) -> None:
        super().__init__(layer, lr)
        _require_not_negative("SGD", momentum=momentum, weight_decay=weight_decay)
        self.momentum = momentum
        self.weight_decay = weight_decay
        self.momentum_buffers = _zeros_like_parameters(layer) if momentum else {}

    def step(self) -> None:
        """Moves every parameter once, in place."""
        state = [self.momentum_buffers] if self.momentum else []
        for theta, g, *velocity in _blocks(self.layer, *state):
            if self.weight_decay:
                g = g + self.weight_decay * theta
            if velocity:
                velocity[0] *= self.momentum
                velocity[0] += g
                g = velocity[0]
            theta -= self.lr * g


class RMSprop(Optimizer):
    """Gradient descent with every component divided by the root of its mean square, with momentum and weight decay.

        ``g ← ∂L/∂θ + weight_decay θ``
        ``v ← alpha v + (1 - alpha) g²``
        ``b ← momentum b + g / (√v + eps)``
        ``θ ← θ - lr b``

    (Tieleman, Hinton, "Neural networks for machine learning", lecture 6e, 2012; with momentum: Graves, "Generating
    sequences with recurrent neural networks", 2013, as in PyTorch.)

    Raises TypeError for what has no parameters, ValueError unless ``lr > 0`` and the others are not negative.

    Args:
        layer: any Layer, a Net included.
        lr: the learning rate, greater than 0.
        alpha: how much of v is kept at each step.
        eps: added to ``√v``.
        weight_decay: the factor of ``θ`` in g.
        momentum: how much of b is kept at each step, 0 for none.

    >>> from retrograd import manual
    >>> layer = manual.Linear(1, 1, bias=False, dtype=np.float64)
    >>> layer.parameters["weight"][...] = 1.0
    >>> layer.gradients["weight"][...] = 2.0
    >>> manual.RMSprop(layer, lr=0.25, alpha=0.75, eps=0.0).step()
    >>> layer.parameters["weight"]
    array([[0.5]])
    """

    def __init__(
        self,
        layer: Layer,
        lr: float = 1e-2,
        alpha: float = 0.99,
        eps: float = 1e-8,
        weight_decay: float = 0.0,
        momentum: float = 0.0,
    ) -> None:
        super().__init__(layer, lr)
        _require_not_negative("RMSprop", alpha=alpha, eps=eps, weight_decay=weight_decay, momentum=momentum)
        self.alpha = alpha
        self.eps = eps
        self.weight_decay = weight_decay
        self.momentum = momentum
        self.mean_squares = _zeros_like_parameters(layer)
        self.momentum_buffers = _zeros_like_parameters(layer) if momentum else {}

    def step(self) -> None:
        """Moves every parameter once, in place."""
        state = [self.mean_squares, self.momentum_buffers] if self.momentum else [self.mean_squares]
        for theta, g, mean_square, *velocity in _blocks(self.layer, *state):
            if self.weight_decay:
                g = g + self.weight_decay * theta
            squared = np.square(g)
            squared *= 1 - self.alpha
            mean_square *= self.alpha
            mean_square += squared
            root = np.sqrt(mean_square, out=squared)
            root += self.eps
            move = np.divide(g, root, out=root)
            if velocity:
                velocity[0] *= self.momentum
                velocity[0] += move
                move = velocity[0]
            theta -= self.lr * move


def _blocks(layer: Layer, *state: dict[str, Array]) -> Iterator[list[Array]]:
    """For every parameter, matching views of it, of its gradient and of its state, a block at a time."""
    dictionaries = [named_arrays(layer, "parameters"), named_arrays(layer, "gradients"), *state]
    for name in dictionaries[0]:
        arrays = [dictionary[name] for dictionary in dictionaries]
        if not all(array.flags.c_contiguous for array in arrays):
            raise ValueError(f"parameter {name!r} and its gradient must be contiguous in memory")
        flat = [array.reshape(-1) for array in arrays]
        for start in range(0, flat[0].size, _BLOCK):
            yield [array[start : start + _BLOCK] for array in flat]


def _zeros_like_parameters(layer: Layer) -> dict[str, Array]:
    return {name: np.zeros_like(value) for name, value in named_arrays(layer, "parameters").items()}


def _require_not_negative(optimizer: str, **values: float) -> None:
    for name, value in values.items():
        if not value >= 0:
            raise ValueError(f"{optimizer}: {name} must not be negative, got {value}")
