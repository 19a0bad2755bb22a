"""Steps of Rosenbrock methods, for stiff systems: linear systems with the exact Jacobian instead of iterations.

With ``J = df/dy`` and ``W = 1 / (h gamma) - J`` at the start of a step, the stages solve
``W u_i = f(t + c_i h, y + sum_j a_ij u_j) + sum_j C_ij / h u_j + h d_i df/dt``. The whole step is recorded,
including the Jacobian, so that derivatives are exact. A step runs the same operations for all values, so that equal
steps can be compiled.

Source: Steinebach 2023, *Construction of Rosenbrock-Wanner method Rodas5P and numerical benchmarks within the Julia
Differential Equations package*.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache, cached_property
from math import prod
from typing import TypeVar

import numpy as np

from ..core.arrays import Array
from ..core.arrays.dtypes import DType
from ..core.errors import LinAlgError
from ..core.graph.backward import Walk
from ..core.graph.modes import modes, no_grad, watchers
from ..core.graph.nodes import edge_of
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.forward import apply_jvp, linearize
from ..func.function_graph import ones_at, record, zeros_at
from ..func.implicit.attach import matrix_of
from ..func.implicit.linear_solvers import NoSolution
from ..func.implicit.vectors import bare
from ..func.mapping import vmap
from ..func.nests import flatten
from ..ops.linear.solving.inverses import INV
from ..ops.math.complex_numbers import view_as_complex, view_as_real
from ..ops.shape.joining import cat, stack
from .explicit import ExplicitMethod, Step
from .system import Leaves, Stages, System, combine
from .tableaus import Row, filled

X = TypeVar("X", Tensor, Array)


@dataclass(frozen=True)
class RosenbrockTableau:
    """The coefficients; the last row of ``a`` has the weights of the solution; the last stage is the error estimate.

    Attributes:
        interpolant: the weights of the stages in k_1, k_2, ... of the solution at ``t + theta h``, which is
            ``(1 - theta) y_0 + theta (y_1 + (1 - theta) (k_1 + theta k_2 + theta^2 k_3))``.
    """

    order: int
    gamma: float
    c: Row
    d: Row
    a: tuple[Row, ...]
    C: tuple[Row, ...]
    interpolant: tuple[Row, ...]

    @cached_property
    def matrices(self) -> tuple[Array, Array]:
        """Return ``a`` and ``C`` as matrices."""
        return filled(self.a), filled(self.C)


_A6 = (-7.502846399306121, 2.561846144803919, -11.627539656261098, -0.18268767659942256, 0.030198172008377946)

RODAS5P = RosenbrockTableau(
    order=5,
    gamma=0.21193756319429014,
    c=(0, 0.6358126895828704, 0.4095798393397535, 0.9769306725060716, 0.4288403609558664, 1, 1, 1),
    d=(0.21193756319429014, -0.42387512638858027, -0.3384627126235924, 1.8046452872882734, 2.325825639765069, 0, 0, 0),
    a=(
        (),
        (3.0,),
        (2.849394379747939, 0.45842242204463923),
        (-6.954028509809101, 2.489845061869568, -10.358996098473584),
        (2.8029986275628964, 0.5072464736228206, -0.3988312541770524, -0.04721187230404641),
        _A6,
        (*_A6, 1.0),
        (*_A6, 1.0, 1.0),
        (*_A6, 1.0, 1.0, 1.0),
    ),
    C=(
        (),
        (-14.155112264123755,),
        (-17.97296035885952, -2.859693295451294),
        (147.12150275711716, -1.41221402718213, 71.68940251302358),
        (165.43517024871676, -0.4592823456491126, 42.90938336958603, -5.961986721573306),
        (24.854864614690072, -3.0009227002832186, 47.4931110020768, 5.5814197821558125, -0.6610691825249471),
        (
            30.91273214028599, -3.1208243349937974, 77.79954646070892, 34.28646028294783, -19.097331116725623,
            -28.087943162872662,
        ),
        (
            37.80277123390563, -3.2571969029072276, 112.26918849496327, 66.9347231244047, -40.06618937091002,
            -54.66780262877968, -9.48861652309627,
        ),
    ),
    interpolant=(
        (
            25.948786856663858, -2.5579724845846235, 10.433815404888879, -2.3679251022685204, 0.524948541321073,
            1.1241088310450404, 0.4272876194431874, -0.17202221070155493,
        ),
        (
            -9.91568850695171, -0.9689944594115154, 3.0438037242978453, -24.495224566215796, 20.176138334709044,
            15.98066361424651, -6.789040303419874, -6.710236069923372,
        ),
        (
            11.419903575922262, 2.8879645146136994, 72.92137995996029, 80.12511834622643, -52.072871366152654,
            -59.78993625266729, -0.15582684282751913, 4.883087185713722,
        ),
    ),
)  # fmt: skip

# From this number of unknowns on, the columns of a Jacobian are computed by ``vmap``, else one by one.
_MAPPED = 12


class RosenbrockMethod(ExplicitMethod):
    """A Rosenbrock method; it computes with the state as one vector of real numbers."""

    adaptive = interpolates = True
    jacobians = 0
    reads_grad = False  # whether f was seen to read a Tensor that requires grad

    def __init__(self, name: str, coefficients: RosenbrockTableau) -> None:
        self.name, self.coefficients, self.order = name, coefficients, coefficients.order

    def step(self, system: System, t: float, h: float, y: Leaves, f0: Leaves | None) -> Step:
        """Return the step of length h from (t, y)."""
        if system.plain and not watchers and not self.reads_grad and not (modes.grad_enabled and y[0]._requires):
            step = self._step_on_arrays(system, t, h, y)
            if step is not None:
                return step
            self.reads_grad = True
        y1, us = self._stages(system, new_tensor(np.asarray(t, system.dtype)), h, y)
        return Step(t, h, y, y1, Stages(system, y, len(us), [_leaves(system, u) for u in us]), None)

    def _step_on_arrays(self, system: System, t: float, h: float, y: Leaves) -> Step | None:
        """Return a step that is not recorded, or None if f reads a Tensor that requires grad."""
        table = self.coefficients
        found = jacobian(system, t, y)
        self.jacobians += 1
        if found is None:
            return None
        f, slope, matrix = found
        inverse = _inverse(system, np.eye(len(f), dtype=f.dtype) / f.dtype.type(h * table.gamma) - matrix)
        stages = Stages(system, y, len(table.c))
        a, c = table.matrices
        c = c / h
        for i, (place, d) in enumerate(zip(table.c, table.d, strict=True)):
            if i > 0:
                (k,) = system(t + place * h, stages.combined(a[i, :i]))
                if k._requires and modes.grad_enabled:
                    return None
                f = k.array.reshape(-1) + stages.vector(system, c[i, :i])
            stages.append([new_tensor(inverse.dot(f + (h * d) * slope).reshape(system.shape))])
        return Step(t, h, y, stages.combined(a[-1]), stages, None)

    def step_at(self, system: System, t: Tensor, h: float, y: Leaves) -> Leaves:
        return self._stages(system, t, h, y)[0]

    def _stages(self, system: System, t: Tensor, h: float, y: Leaves) -> tuple[Leaves, list[Tensor]]:
        table = self.coefficients
        start = _vector(system, y)
        f, inverse, slope = self._linearized(system, t, h, start)
        us: list[Tensor] = []
        for i, (c, d) in enumerate(zip(table.c, table.d, strict=True)):
            if i > 0:
                (stage,) = combine([1.0, *table.a[i]], [[start], *[[u] for u in us]])
                f = _vector(system, system(t + c * h, _leaves(system, stage)))
            (right,) = combine([1.0, *[x / h for x in table.C[i]], h * d], [[f], *[[u] for u in us], [slope]])
            us.append(inverse @ right)
        (end,) = combine([1.0, *table.a[-1]], [[start], *[[u] for u in us]])
        return _leaves(system, end), us

    def _linearized(self, system: System, t: Tensor, h: float, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return f, the inverse of W, and the derivative of f with respect to t."""

        def f(point: Tensor) -> Tensor:
            return _vector(system, system(point[0], _leaves(system, point[1:])))

        self.jacobians += 1
        n = y.shape[0]
        point = cat([t.reshape(1).astype(y.dtype), y])
        value, product = linearize(f, point)
        basis = _identity(n + 1, y.dtype)
        if modes.tracer is None and n >= _MAPPED:
            matrix = vmap(product)(basis)
        else:
            matrix = stack([product(basis[i]) for i in range(n + 1)])
        w = _identity(n, y.dtype) * (1 / (h * self.coefficients.gamma)) - matrix[1:].mT
        return value, _inverse(system, w), matrix[0]

    def at(self, system: System, step: Step, t: float) -> Leaves:
        """Return the state at a time inside the step by the method's interpolant, of order 4."""
        theta = (t - step.t) / step.h
        if theta == 1:
            return step.y1
        rest = theta * (1 - theta)
        ks = step.stages.ks
        weights = [
            rest * sum(row[i] * theta**power for power, row in enumerate(self.coefficients.interpolant))
            for i in range(len(ks))
        ]
        return combine([1 - theta, theta, *weights], [step.y0, step.y1, *ks])

    def errors(self, system: System, step: Step) -> list[Array]:
        """Return the error estimate of a step, its last stage."""
        return [system.vector(step.stages.ks[-1])]


def jacobian(system: System, t: float, y: Leaves) -> tuple[Array, Array, Array] | None:
    """Return f, df/dt and df/dy of a plain system as arrays, or None if f reads a Tensor that requires grad."""
    time = new_tensor(np.asarray(t, system.dtype))
    points, shape = [time, y[0].detach()], system.shape
    recorded = record(system.caller, lambda t, y: system(t, [y])[0], points, flatten(tuple(points))[1])
    if recorded.outside and modes.grad_enabled:
        return None
    value, n = recorded.outputs[0].array.reshape(-1), system.space.size
    slope, matrix = np.zeros(n, system.dtype), np.zeros((n, n), system.dtype)
    if n < _MAPPED:  # row by row, in reverse mode
        root, starts = edge_of(recorded.outputs[0]), recorded.starts
        for i, seed in enumerate(np.eye(n, dtype=system.dtype) if root is not None else ()):
            row = Walk(set(starts), True, False, copied=False).run([(root, seed.reshape(shape))])
            slope[i] = row.get(starts[0], 0)
            matrix[i] = row[starts[1]].reshape(-1) if starts[1] in row else 0
        return value, slope, matrix
    with no_grad():
        slope = apply_jvp(recorded, [ones_at(time), zeros_at(y[0])])[0].array.reshape(-1)
        matrix = matrix_of(lambda leaves: apply_jvp(recorded, [zeros_at(time), *leaves]), system.space)
    return value, slope, matrix


def _inverse(system: System, w: X) -> X:
    """Return the inverse of a Tensor or an array."""
    if modes.tracer is None and not np.isfinite(bare(w) if isinstance(w, Tensor) else w).all():
        raise NoSolution(f"{system.caller}: the Jacobian of f has entries that are not finite")
    try:
        return INV(w)
    except LinAlgError:
        raise NoSolution(f"{system.caller}: a matrix 1 - h J is singular") from None


@cache
def _identity(n: int, dtype: DType) -> Tensor:
    """Return the identity matrix, the same object in every step of a compiled loop."""
    return new_tensor(np.eye(n, dtype=dtype))


def _vector(system: System, y: Leaves) -> Tensor:
    """Return a state as one vector of real numbers; complex numbers count twice."""
    parts = [(view_as_real(x) if x.dtype.kind == "c" else x).reshape(-1).astype(system.dtype) for x in y]
    return parts[0] if len(parts) == 1 else cat(parts)


def _leaves(system: System, vector: Tensor) -> Leaves:
    """Return a vector as the leaves of a state."""
    found, place = [], 0
    for like in system.leaves:
        twice = like.dtype.kind == "c"
        size = prod(like.shape) * (2 if twice else 1)
        part = vector if size == vector.shape[0] else vector[place : place + size]
        place += size
        x = view_as_complex(part.reshape(*like.shape, 2)) if twice else part.reshape(like.shape)
        found.append(x if x.dtype == like.dtype else x.astype(like.dtype))
    return found
