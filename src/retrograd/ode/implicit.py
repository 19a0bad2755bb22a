"""Steps of diagonally implicit Runge-Kutta methods, for stiff systems.

A stage Y solves ``Y = base + h g f(t, Y)``. Its value comes from simplified Newton iterations on arrays, which reuse
one Jacobian; its derivative from the implicit function theorem at the solution, so that no iteration is differentiated.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import array_module
from ..core.graph.modes import modes, no_grad
from ..func.forward import apply_jvp
from ..func.function_graph import record
from ..func.implicit.attach import LinearSolve, attached, matrix_of
from ..func.implicit.linear_solvers import MAX_DENSE, NoSolution, gmres
from ..func.nests import flatten
from . import tableaus
from .explicit import ExplicitMethod, Step
from .rosenbrock import RODAS5P, RosenbrockMethod
from .system import Leaves, System, Tolerance, combine

MAX_ITERATIONS = 10


class ImplicitMethod(ExplicitMethod):
    """An ESDIRK method: the first stage is explicit, the others have one coefficient on the diagonal.

    Args:
        rtol, atol: tolerances of the integration; the Newton iterations end below a hundredth of them.
    """

    interpolates = compiles = False

    def prepare(self, rtol: float, atol: Tolerance) -> None:
        """Set the tolerances, and forget the Jacobian of another integration."""
        self.rtol, self.atol = rtol, atol
        self.jacobian: Callable[[Array], Array] | Array | None = None  # a function that multiplies by it, or the matrix
        self.fresh = False  # whether the Jacobian was computed at the start of the current step
        self.inverse: tuple[float, Array] | None = None  # the matrix (1 - h g J)^-1, for one h g
        self.jacobians = 0
        self.slow = False  # whether an iteration converged slowly with this Jacobian

    def step(self, system: System, t: float, h: float, y: Leaves, f0: Leaves | None) -> Step:
        """Return the step of length h from (t, y); raises NoSolution if a stage has none."""
        tableau = self.tableau
        gamma = h * tableau.a[1][1]
        ks = [system(t, y) if f0 is None else f0]
        if self.jacobian is None:
            self._evaluate(system, t, y)
        stage = y
        for c, row in zip(tableau.c[1:], tableau.a[1:], strict=True):
            base = combine([1.0, *[h * a for a in row[:-1]]], [y, *ks])
            stage = self._solved(system, t + c * h, gamma, base, ks[-1])
            ks.append(combine([1 / gamma, -1 / gamma], [stage, base]))
        return Step(t, h, y, stage, ks, ks[-1])

    def failed(self, h: float) -> float:
        """Return the next trial's length after a failed Newton iteration: the same h with a new Jacobian, else less."""
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
            points = [x.detach() for x in y]
            structure = flatten(tuple(points))[1]
            recorded = record(system.caller, lambda *leaves: tuple(system(t, list(leaves))), points, structure)

            def product(tangents: Leaves) -> Leaves:
                return apply_jvp(recorded, tangents)

            space = system.space
            if space.size <= MAX_DENSE:
                self.jacobian = matrix_of(product, space)
            else:
                self.jacobian = lambda v: space.vector(product(space.leaves(v)))
        self.inverse, self.fresh = None, True
        self.jacobians += 1

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
        result: Array = (self.inverse[1] @ r[..., None])[..., 0]
        return result

    def _solved(self, system: System, t: float, gamma: float, base: Leaves, k: Leaves) -> Leaves:
        """Return the Y with ``Y = base + gamma f(t, Y)``; ``k`` is an estimate of f there."""
        space = system.space
        with no_grad():
            origin = space.vector(base)
            y = origin + gamma * space.vector(k)
            scale = self.atol + self.rtol * abs(origin)
            before = None
            for iteration in range(MAX_ITERATIONS):
                f = space.vector(system(t, space.leaves(y)))
                change = self._newton_step(system, gamma, origin + gamma * f - y)
                size = system.norm(change, scale)
                if not np.isfinite(size):
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
            solution = space.leaves(y)
        if not modes.grad_enabled:
            return solution

        def residual(stage: Leaves) -> Leaves:
            return combine([1.0, -1.0, -gamma], [stage, base, system(t, stage)])

        return attached(solution, residual, LinearSolve(system.caller, flatten(tuple(base))[1]))


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


def method_named(caller: str, name: str) -> ExplicitMethod:
    """Return a new object of the method.

    Raises:
        ValueError: the method is unknown.
    """
    if not isinstance(name, str) or name not in METHODS:
        raise ValueError(f"{caller}: method must be one of {', '.join(METHODS)}, got {name!r}")
    if name in _ROSENBROCK:
        return RosenbrockMethod(name, _ROSENBROCK[name])
    tableau = _TABLEAUS[name]
    return (ImplicitMethod if tableau.implicit else ExplicitMethod)(name, tableau)
