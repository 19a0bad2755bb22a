"""SGD and RMSprop, each as one pass over the memory of each parameter."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from .base import Array, Layer, named_arrays, require_parameters

_BLOCK = 1 << 15  # elements; blocks of a parameter, its gradient and its state fit the processor's cache


class Optimizer:
    """Updates the parameters of a layer in place, from the gradients of its last backward.

    A user-defined optimizer overrides ``step``.

    Raises TypeError for an object without parameters and gradients, ValueError if there are no parameters or ``lr`` is
    not greater than 0.

    Args:
        layer: any Layer, including a Net.
        lr: the learning rate.
    """

    def __init__(self, layer: Layer, lr: float) -> None:
        require_parameters(type(self).__name__, layer)
        if not lr > 0:
            raise ValueError(f"{type(self).__name__}: lr must be greater than 0, got {lr}")
        self.layer = layer
        self.lr = lr

    def step(self) -> None:
        """Update every parameter once, in place."""
        raise NotImplementedError(f"{type(self).__name__}: step is not implemented")

    def zero_grad(self) -> None:
        """Fill every gradient with 0; not needed before ``backward``, which overwrites them."""
        for gradient in named_arrays(self.layer, "gradients").values():
            gradient.fill(0)


class SGD(Optimizer):
    """Gradient descent with momentum and weight decay.

        ``g ← ∂L/∂θ + weight_decay θ``
        ``b ← momentum b + g``
        ``θ ← θ - lr b``

    (Polyak, "Some methods of speeding up the convergence of iteration methods", 1964; in the form of Sutskever et al.,
    "On the importance of initialization and momentum in deep learning", ICML 2013, as in PyTorch.)

    Raises TypeError for an object without parameters, ValueError unless ``lr > 0`` and no other number is negative.

    Args:
        layer: any Layer, including a Net.
        lr: the learning rate, greater than 0.
        momentum: the factor of b from the previous step, 0 for none.
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
    """Gradient descent with every component divided by its root mean square, with momentum and weight decay.

        ``g ← ∂L/∂θ + weight_decay θ``
        ``v ← alpha v + (1 - alpha) g²``
        ``b ← momentum b + g / (√v + eps)``
        ``θ ← θ - lr b``

    (Tieleman, Hinton, "Neural networks for machine learning", lecture 6e, 2012; with momentum: Graves, "Generating
    sequences with recurrent neural networks", 2013, as in PyTorch.)

    Raises TypeError for an object without parameters, ValueError unless ``lr > 0`` and no other number is negative.

    Args:
        layer: any Layer, including a Net.
        lr: the learning rate, greater than 0.
        alpha: the factor of v from the previous step.
        eps: added to ``√v``.
        weight_decay: the factor of ``θ`` in g.
        momentum: the factor of b from the previous step, 0 for none.

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
    """Yield matching blocks of every parameter, its gradient and its state, as views."""
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
