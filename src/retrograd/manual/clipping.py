"""Clip gradients by their common norm or elementwise."""

from __future__ import annotations

import numpy as np

from .base import Array, Layer, named_arrays, require_parameters


def clip_grad_norm_(layer: Layer, max_norm: float) -> float:
    """``g ← g min(1, max_norm / ‖g‖)``, in place, where g is all gradients of the layer as one vector.

    The direction of the step is unchanged, and its length is at most ``max_norm``. As in PyTorch, 1e-6 is added to the
    norm in the denominator. (Pascanu, Mikolov, Bengio, "On the difficulty of training recurrent neural networks",
    ICML 2013.)

    Args:
        layer: any Layer, including a Net.
        max_norm: greater than 0.

    Returns:
        The Euclidean norm ``‖g‖`` before clipping, summed in float64.

    Raises:
        TypeError: ``layer`` lacks parameters and gradients.
        ValueError: ``max_norm`` is not greater than 0.
        RuntimeError: a gradient is infinite or NaN; the gradients are unchanged.

    >>> from retrograd import manual
    >>> layer = manual.Linear(2, 1, bias=False, dtype=np.float64)
    >>> layer.gradients["weight"][...] = [[3.0, 4.0]]
    >>> manual.clip_grad_norm_(layer, 1.0)
    5.0
    >>> layer.gradients["weight"].round(3)
    array([[0.6, 0.8]])
    """
    gradients, norm = _gradients_and_norm("clip_grad_norm_", layer, max_norm=max_norm)
    if norm + 1e-6 > max_norm:
        for g in gradients:
            g *= max_norm / (norm + 1e-6)
    return norm


def clip_grad_value_(layer: Layer, clip_value: float) -> float:
    """``g_i ← min(max(g_i, -clip_value), clip_value)``, in place, for every element of the gradients of the layer.

    Args:
        layer: any Layer, including a Net.
        clip_value: greater than 0.

    Returns:
        The Euclidean norm ``‖g‖`` before clipping, summed in float64.

    Raises:
        TypeError: ``layer`` lacks parameters and gradients.
        ValueError: ``clip_value`` is not greater than 0.
        RuntimeError: a gradient is infinite or NaN; the gradients are unchanged.

    >>> from retrograd import manual
    >>> layer = manual.Linear(2, 1, bias=False, dtype=np.float64)
    >>> layer.gradients["weight"][...] = [[3.0, -4.0]]
    >>> manual.clip_grad_value_(layer, 3.5)
    5.0
    >>> layer.gradients["weight"]
    array([[ 3. , -3.5]])
    """
    gradients, norm = _gradients_and_norm("clip_grad_value_", layer, clip_value=clip_value)
    for g in gradients:
        if float(np.abs(g).max(initial=0)) > clip_value:  # the limit may not be representable in the gradient's dtype
            np.clip(g, -clip_value, clip_value, out=g)
    return norm


def _gradients_and_norm(function: str, layer: Layer, **limit: float) -> tuple[list[Array], float]:
    require_parameters(function, layer)
    for name, value in limit.items():
        if not value > 0:
            raise ValueError(f"{function}: {name} must be greater than 0, got {value}")
    gradients = named_arrays(layer, "gradients")
    for name, g in gradients.items():
        if not np.isfinite(g).all():
            raise RuntimeError(f"{function}: the gradient of {name!r} is not finite, so it cannot be clipped")
    largest = max((float(np.abs(g).max(initial=0)) for g in gradients.values()), default=0.0)
    if not largest:
        return list(gradients.values()), 0.0
    # Division by the largest element avoids overflow and underflow of the squares.
    squares = (np.square(g.astype(np.float64) / largest).sum() for g in gradients.values())
    return list(gradients.values()), largest * float(np.sqrt(sum(squares)))
