"""Detect steps of programs without an optimizer, which update parameters themselves, as in ``w -= lr * w.grad``.

The gradients come from ``backward`` or from ``autograd.grad``.
"""

from __future__ import annotations

import math
from collections.abc import Container, Iterable, Sequence

from ...core.arrays.dtypes import FLOATING
from ...core.source_location import Site
from ...core.tensor.tensor import Tensor, is_dense
from ...nn.parameter import Parameter
from ...optim.sgd import SGD
from .run import Optimized, Run, StepHistory
from .step_recorder import Array, Step, beginning, start_of

_TRIES = 3  # the number of backward passes after which all leaves are examined, until one of them has been updated
_ROUNDING = 1e-7  # the rounding error of an update, relative to the largest element of the parameter
_PARALLEL = 1e-3  # the largest difference of an update from a multiple of the gradient, relative to the update


class OwnUpdate(SGD):
    """Represents the program's own update in trials, as an optimizer of the parameters that the program changed."""


class OwnUpdates:
    """Detects updates by comparing the values of leaves between two backward passes."""

    def __init__(self, run: Run) -> None:
        self.run = run
        self.optimized: Optimized | None = None
        self._tries = 0
        self._seen: list[tuple[Tensor, Array, Array]] = []  # leaves, and their values and gradients after a backward
        self._returned = False  # whether ``autograd.grad`` returned these gradients

    @property
    def alone(self) -> bool:
        """Whether the program has no optimizer."""
        found = self.run.optimizers
        return not found or len(found) == 1 and found[0] is self.optimized

    def after_grad(self, leaves: Sequence[Tensor], gradients: Sequence[Tensor | None]) -> None:
        """Store the values of leaves whose gradients ``autograd.grad`` returned: first of all, later of the probe."""
        self._seen = []
        probe = None if self.optimized is None else self.optimized.probe
        if probe is None and self._tries >= _TRIES:
            return
        self._tries += probe is None
        pairs = zip(leaves, gradients, strict=True)
        self._seen = [
            (p, p.array.copy(), g.array.copy())
            for p, g in pairs
            if g is not None and p.array.dtype.kind in FLOATING and (probe is None or p is probe)
        ]
        self._returned = True

    def after_backward(self, step: Step | None) -> None:
        """Store the values of leaves with gradients: first of all that the loss depends on, later of the probe."""
        self._seen = []
        self._returned = False
        if not self.alone:
            return
        leaves: list[Tensor] = []
        if self.optimized is not None and self.optimized.probe is not None:
            leaves = [self.optimized.probe]
        elif self.optimized is None and step is not None and step.roots and self._tries < _TRIES:
            self._tries += 1
            leaves = step.leaves(step.roots[-1].source)
        graded = [(p, p._grad) for p in leaves if p._grad is not None and p.array.dtype.kind in FLOATING]
        self._seen = [(p, p.array.copy(), grad.array.copy()) for p, grad in graded]

    def before_backward(self, step: Step | None) -> None:
        """Record a step if the stored values have changed."""
        if not self._seen:
            return
        changed = [x for x in self._seen if bool((x[0].array != x[1]).any())]
        self._seen = []
        if not changed or not self.run.losses:
            return
        if self.optimized is None:
            if step is None or not _trains(step, [p for p, _, _ in changed]):
                return
            if self._returned and not math.isfinite(_rate(*changed[0])):
                return  # derivatives that are not used for descent, such as forces of a simulation
            self.optimized = self._begin(step, changed)
        x = self.optimized
        p, before, gradient = changed[0]
        rate = _rate(p, before, gradient)
        uphill = math.isnan(rate) and math.isfinite(_rate(p, 2 * p.array - before, gradient))
        self.run.uphill += uphill
        x.history.append(StepHistory(x.steps, self.run.losses[-1], [rate]))
        x.rates.append(rate)
        x.losses.append(self.run.losses[-1])
        x.used = self.run.backward_site
        x.steps += 1
        x.carried += x.is_carried
        x.is_carried = False
        x.left = gradient

    def _begin(self, step: Step, changed: list[tuple[Tensor, Array, Array]]) -> Optimized:
        changed.sort(key=lambda x: int(x[0].array.size))
        rate = _rate(*changed[0])
        x = self.run.add(OwnUpdate([p for p, _, _ in changed], lr=rate if rate > 0 else 0.01))
        x.name = "the program's own update"
        x.start = {id(p): before for p, before, _ in changed}
        x.graded = set(x.start)
        x.probe = changed[0][0]
        x.before = beginning(x.probe)
        x.stepped = x.created = _site(step, x.graded) or self.run.backward_site
        return x


def _rate(p: Tensor, before: Array, gradient: Array) -> float:
    """Return the factor of the gradient in an update, NaN if the update is not a multiple of it."""
    change, g = (before - p.array).reshape(-1), gradient.reshape(-1)
    square = float(g.dot(g))
    if not square or not math.isfinite(square):
        return math.nan
    factor = float(change.dot(g)) / square
    rest, size = (float(abs(x).max()) for x in (change - factor * g, change))
    rounding = _ROUNDING * float(abs(before).max())
    return factor if factor > 0 and rest <= _PARALLEL * size + rounding and size > rounding else math.nan


def _trains(step: Step, changed: list[Tensor]) -> bool:
    """Return whether the changed leaves are parameters of a model, and not only data, such as an optimized image."""
    inputs = {id(x.leaf) for entry in step.modules for x in entry.inputs if x.leaf is not None}
    if all(id(p) in inputs for p in changed):
        return False
    of_modules = any(True for entry in step.modules for p in entry.module.parameters() if p._requires)
    return not of_modules or any(isinstance(p, Parameter) for p in changed)


def _site(step: Step, keys: set[int]) -> Site | None:
    """Return the line that changes one of these leaves in place."""
    for call in step.calls:
        source = call.inputs[0] if call.inplace and call.inputs else None
        if source is not None and id(source.leaf) in keys and (source.cut or not call.record.grad_enabled):
            return call.site
    return None


def values_of(parameters: Iterable[Tensor], read: Container[int]) -> dict[int, Array]:
    """Return the values of the parameters that a step has read, by id."""
    return {id(p): p.array.copy() for p in parameters if id(p) in read}


def keep_gradients(kept: dict[int, tuple[Array, int]], parameters: Iterable[Tensor]) -> None:
    """Store copies of the parameters' gradients, and the addresses of the gradients' memory, by id of the parameter."""
    graded = [(p, p._grad.array) for p in parameters if p._grad is not None and is_dense(p._grad)]
    kept.update((id(p), (array.copy(), start_of(array))) for p, array in graded)


def equal(a: Array, b: Array, nan: bool) -> bool:
    """Return whether arrays of one shape are equal; with ``nan``, NaN equals NaN."""
    return bool((a == b).all()) or nan and bool(((a == b) | (a != a) & (b != b)).all())
