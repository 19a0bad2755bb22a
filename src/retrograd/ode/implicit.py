"""Steps of diagonally implicit Runge-Kutta methods, for stiff systems.

A stage Y solves ``Y = base + h g f(t, Y)``. Its value comes from simplified Newton iterations on arrays, which reuse
one Jacobian; its derivative from the implicit function theorem at the solution, so that no iteration is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import nullcontext
from math import isfinite

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import array_module
from ..core.graph.modes import modes, no_grad, watchers
from ..func.forward import apply_jvp
from ..func.function_graph import record
from ..func.implicit.attach import LinearSolve, attached, matrix_of
from ..func.implicit.linear_solvers import MAX_DENSE, NoSolution, gmres
from ..func.nests import flatten
from . import tableaus
from .explicit import ExplicitMethod, Step
from .rosenbrock import RODAS5P, RosenbrockMethod, jacobian
from .system import Leaves, Stages, System, Tolerance, combine, requires_grad

MAX_ITERATIONS = 10


class ImplicitMethod(ExplicitMethod):
    """An ESDIRK method: the first stage is explicit, the other stages share one coefficient on the diagonal.

    Args:
        rtol, atol: tolerances of the integration; Newton iterations end at 1/100 of the tolerances.
    """

    interpolates = compiles = False

    def prepare(self, rtol: float, atol: Tolerance) -> None:
        """Set the tolerances, and discard the Jacobian of another integration."""
        self.rtol, self.atol = rtol, atol
        self.jacobian: Callable[[Array], Array] | Array | None = None  # a matrix J, or the function x -> J x
        self.fresh = False  # whether the Jacobian was computed at the start of the current step
        self.inverse: tuple[float, Array] | None = None  # h g and the matrix (1 - h g J)^-1
        self.jacobians = 0
        self.reads_grad = False  # whether f was seen to read a Tensor that requires grad
        self.slow = False  # whether an iteration converged slowly with this Jacobian

    def step(self, system: System, t: float, h: float, y: Leaves, f0: Leaves | None) -> Step:
        """Return the step of length h from (t, y); raise NoSolution if the equation of a stage has no solution."""
        tableau = self.tableau
        gamma = h * tableau.a[1][1]
        stages = Stages(system, y, len(tableau.c), [system(t, y) if f0 is None else f0])
        if self.jacobian is None:
            self._evaluate(system, t, y)
        weights = h * tableau.matrix
        stage = y
        for i, c in enumerate(tableau.c[1:], 1):
            base = stages.combined(weights[i, :i])
            stage, k = self._solved(system, t + c * h, gamma, base, stages.ks[-1])
            stages.append(k)
        return Step(t, h, y, stage, stages, stages.ks[-1])

    def failed(self, h: float) -> float:
        """Return the next trial's length after a failed Newton iteration: h with a new Jacobian, or a smaller h."""
        self.inverse = None
        if self.fresh:
            return h / 4
        self.jacobian = None
        return h

    def accepted(self) -> None:
        """Record that the step was taken; a Jacobian with which iterations converge slowly is computed again."""
        self.fresh = False
        if self.slow:
            self.jacobian, self.slow = None, False

    def _evaluate(self, system: System, t: float, y: Leaves) -> None:
        """Compute the Jacobian of f at (t, y)."""
        with no_grad():
            dense = system.plain and not watchers and system.space.size <= MAX_DENSE
            if dense and (found := jacobian(system, t, y)) is not None:
                self.jacobian = found[2]
            else:
                self.jacobian = self._of_leaves(system, t, y)
        self.inverse, self.fresh = None, True
        self.jacobians += 1

    def _of_leaves(self, system: System, t: float, y: Leaves) -> Callable[[Array], Array] | Array:
        """Return the Jacobian of f at (t, y) for all kinds of states, as a matrix or as a function."""
        points, space = [x.detach() for x in y], system.space
        structure = flatten(tuple(points))[1]
        recorded = record(system.caller, lambda *leaves: tuple(system(t, list(leaves))), points, structure)

        def product(tangents: Leaves) -> Leaves:
            return apply_jvp(recorded, tangents)

        if space.size <= MAX_DENSE:
            return matrix_of(product, space)
        return lambda v: space.vector(product(space.leaves(v)))

    def _newton_step(self, system: System, gamma: float, r: Array) -> Array:
        """Return (1 - h g J)^-1 r."""
        jacobian = self.jacobian
        if callable(jacobian):
            return gmres(lambda v: v - gamma * jacobian(v), r, 1e-3, 200, system.caller)
        assert jacobian is not None
        if self.inverse is None or self.inverse[0] != gamma:
            xp = array_module(jacobian)
            matrix = xp.eye(jacobian.shape[-1], dtype=jacobian.dtype) - gamma * jacobian
            if not bool(xp.isfinite(matrix).all()):
                raise NoSolution(f"{system.caller}: the Jacobian of f has entries that are not finite")
            try:
                self.inverse = gamma, xp.linalg.inv(matrix)
            except np.linalg.LinAlgError:
                raise NoSolution(f"{system.caller}: a matrix 1 - h J is singular") from None
        if r.ndim == 1:
            return self.inverse[1].dot(r)
        return (self.inverse[1] @ r[..., None])[..., 0]

    def _solved(self, system: System, t: float, gamma: float, base: Leaves, k: Leaves) -> tuple[Leaves, Leaves]:
        """Return the solution Y of ``Y = base + gamma f(t, Y)``, and f(t, Y); ``k`` is an estimate of f(t, Y)."""
        differentiated = modes.grad_enabled and requires_grad(base)
        # Call f in grad mode until a result requires grad, which shows that f reads a Tensor that requires grad.
        with no_grad() if differentiated or self.reads_grad else nullcontext():
            origin = system.vector(base)
            y = origin + gamma * system.vector(k)
            scale = self.atol + self.rtol * abs(origin)
            before = None
            for iteration in range(MAX_ITERATIONS):
                found = system(t, system.leaves_of(y))
                if not self.reads_grad and requires_grad(found):
                    self.reads_grad = True
                change = self._newton_step(system, gamma, origin + gamma * system.vector(found) - y)
                size = system.norm(change, scale)
                if not isfinite(size):
                    raise NoSolution("a stage is not finite")
                y = y + change
                rate = None if before is None or before == 0 else size / before
                if size == 0 or (rate is not None and rate < 1 and size * rate / (1 - rate) < 1e-2) or size < 1e-4:
                    self.slow = self.slow or iteration > 3
                    break
                if rate is not None and rate >= 1 and iteration > 1:
                    raise NoSolution("the Newton iteration of a stage diverges")
                before = size
            else:
                raise NoSolution("the Newton iteration of a stage does not converge")
        solution = system.leaves_of(y)
        if not modes.grad_enabled or not (differentiated or self.reads_grad):
            return solution, system.leaves_of((y - origin) / gamma)

        def residual(stage: Leaves) -> Leaves:
            return combine([1.0, -1.0, -gamma], [stage, base, system(t, stage)])

        stage = attached(solution, residual, LinearSolve(system.caller, flatten(tuple(base))[1]))
        return stage, combine([1 / gamma, -1 / gamma], [stage, base])


_TABLEAUS = {
    "bosh3": tableaus.BOSH3,
    "dopri5": tableaus.DOPRI5,
    "dopri8": tableaus.DOPRI8,
    "euler": tableaus.EULER,
    "heun": tableaus.HEUN,
    "kvaerno3": tableaus.KVAERNO3,
    "kvaerno5": tableaus.KVAERNO5,
    "midpoint": tableaus.MIDPOINT,
    "rk4": tableaus.RK4,
    "tsit5": tableaus.TSIT5,
}

_ROSENBROCK = {"rodas5p": RODAS5P}

METHODS = (*_TABLEAUS, *_ROSENBROCK)


def method_named(name: str) -> ExplicitMethod:
    """Return a new method object by name.

    Raises:
        ValueError: the method is unknown.
    """
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(f"solve: method must be one of {', '.join(METHODS)}, got {name!r}")
    if name in _ROSENBROCK:
        return RosenbrockMethod(name, _ROSENBROCK[name])
    tableau = _TABLEAUS[name]
    return (ImplicitMethod if tableau.implicit else ExplicitMethod)(name, tableau)
