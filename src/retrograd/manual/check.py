"""check_layer: compare a hand-written backward with central differences."""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from .base import Array, Layer, Loss, named_arrays

# Below this, errors are absolute: central differences of numbers of size 1 have an error of about 1e-11.
_SMALLEST = 1e-4


@dataclass(frozen=True)
class GradientCheck:
    """The largest ``|analytic - numerical|`` of one array's gradient, absolute and relative to the gradient."""

    name: str
    max_difference: float
    relative_error: float
    passed: bool


@dataclass(frozen=True)
class CheckReport:
    """The result of check_layer; ``str`` gives the printed table."""

    layer: str
    checks: tuple[GradientCheck, ...]

    @property
    def passed(self) -> bool:
        """Whether every gradient agrees."""
        return all(check.passed for check in self.checks)

    def __str__(self) -> str:
        width = max(len("gradient"), *(len(check.name) for check in self.checks))
        lines = [self.layer, f"  {'gradient':{width}}  max difference  relative error"]
        for check in self.checks:
            verdict = "passed" if check.passed else "FAILED"
            numbers = f"{check.max_difference:14.1e}  {check.relative_error:14.1e}"
            lines.append(f"  {check.name:{width}}  {numbers}  {verdict}")
        return "\n".join(lines)


def check_layer(
    layer: Layer | Loss, x: Array, *target: Array, tolerance: float = 1e-6, seed: int = 0, quiet: bool = False
) -> CheckReport:
    """Compare the gradient of every parameter, and of x, with central differences, and print both errors.

    With a random v as ``dout``, each element ``θ`` of a parameter or of x has the derivative

        ``⟨v, ∂f/∂θ⟩ ≈ ⟨v, f(θ + h) - f(θ - h)⟩ / (2 h)``, ``h = ε^(1/3) max(1, |θ|)``

    with an error of about ``ε^(2/3)``, where ε is the machine epsilon. The relative error of an element is the
    difference of both values divided by the larger value, or by a thousandth of the array's largest gradient (at least
    1e-4) if that is larger. The check passes if no relative error exceeds ``tolerance``. (Griewank, Walther,
    "Evaluating derivatives", 2nd ed., 2008, chapter 1.)

    The check works on copies of the layer, so that the layer does not change and Dropout uses one mask throughout. A
    loss takes its target after x. An integer x has no gradient and is skipped. Choose an x where the layer is
    differentiable.

    Raises TypeError unless x and the parameters are float64 (float32 is too coarse for the differences), ValueError for
    an empty x, for a gradient that is missing or has another shape than its array, or if there is nothing to check.

    Args:
        layer: a Layer or a Loss, in float64.
        x: the input; a float64 or integer array.
        target: the target of a Loss.
        tolerance: the largest relative error that passes.
        seed: the seed of the random v.
        quiet: print nothing.

    Returns:
        The errors of every gradient, and whether all ``passed``.

    >>> from retrograd import manual
    >>> report = manual.check_layer(manual.Linear(3, 2, dtype=np.float64, rng=0), np.ones((4, 3)))  # doctest: +ELLIPSIS
    Linear(3, 2)
      gradient  max difference  relative error
      weight           ...  passed
      bias             ...  passed
      x                ...  passed
    >>> report.passed
    True
    """
    probe: Any = copy.deepcopy(layer)
    x = x.copy()
    values = dict(named_arrays(probe, "parameters")) | ({"x": x} if x.dtype.kind == "f" else {})
    _require_float64(layer, values)

    subject: Any = copy.deepcopy(layer)
    y = subject.forward(x, *target)
    rng = np.random.default_rng(seed)
    dout = np.asarray(rng.uniform(1, 2, np.shape(y)) * rng.choice([-1.0, 1.0], np.shape(y)))
    dx = subject.backward(float(dout) if type(y) is float else dout)
    gradients = {**named_arrays(subject, "gradients"), "x": dx}
    if dx is None:
        values.pop("x", None)
    if not values:
        raise ValueError(f"check_layer: {layer!r} has neither a parameter nor an input gradient to check")

    def output() -> Array:
        # A fresh copy each time, so that random state and running statistics start equal.
        return np.asarray(copy.deepcopy(probe).forward(x, *target))

    checks = []
    for name, value in values.items():
        if name not in gradients:
            raise ValueError(f"check_layer: {layer!r} has a parameter {name!r} but no gradient of that name")
        gradient = np.asarray(gradients[name])
        if gradient.shape != value.shape:
            raise ValueError(
                f"check_layer: {layer!r} has {name} of shape {value.shape}, but its gradient has {gradient.shape}"
            )
        checks.append(_compare(name, gradient, _central_differences(output, value, dout), tolerance))
    plain = type(layer).__repr__ is object.__repr__  # the repr would show the address of the object
    report = CheckReport(type(layer).__name__ if plain else repr(layer), tuple(checks))
    if not quiet:
        print(report)
    return report


def _central_differences(output: Callable[[], Array], value: Array, dout: Array) -> Array:
    """Return the gradient of ⟨dout, output()⟩ with respect to ``value``, which is perturbed in place and restored."""
    gradient = np.empty_like(value)
    for place in np.ndindex(value.shape):
        kept = value[place]
        h = np.cbrt(np.finfo(value.dtype).eps) * max(1.0, abs(kept))
        value[place] = kept + h
        above, high = output(), value[place]
        value[place] = kept - h
        below, low = output(), value[place]
        value[place] = kept
        gradient[place] = np.sum(dout * (above - below)) / (high - low)
    return gradient


def _compare(name: str, analytic: Array, numerical: Array, tolerance: float) -> GradientCheck:
    difference = np.abs(analytic - numerical)
    size = np.maximum(np.abs(analytic), np.abs(numerical))
    relative = difference / np.maximum(size, max(size.max() / 1000, _SMALLEST))
    # Not written as "not > tolerance", so that NaN fails.
    return GradientCheck(name, float(difference.max()), float(relative.max()), bool(relative.max() <= tolerance))


def _require_float64(layer: Layer | Loss, values: dict[str, Array]) -> None:
    for name, value in values.items():
        if value.dtype != np.float64:
            raise TypeError(
                f"check_layer: {layer!r} must be checked in float64, but {name} has {value.dtype}: "
                f"build the layer with dtype=numpy.float64 and pass a float64 x"
            )
        if not value.size:
            raise ValueError(f"check_layer: {layer!r} has an empty {name} of shape {value.shape}: nothing to check")
