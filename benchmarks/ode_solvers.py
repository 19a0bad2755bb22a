"""Solvers of ordinary differential equations, beside SciPy's, torchdiffeq's and diffrax's.

    python -m benchmarks.ode_solvers [--rounds 3] [--problems lotka ...]

In float64, rtol 1e-6 and atol 1e-9 (Robertson 1e-11). ``error`` is the largest relative error at the end, against
SciPy's Radau or DOP853 at 1e-12; of ``gradient``, against central differences of SciPy's. ``calls`` counts calls of the
right-hand side, without those of Jacobians and of backward passes; of diffrax, whose solver is compiled, steps times
stages. ``f compiled`` calls ``rg.compile(f)``.
``time`` is the minimum of the CPU time, without compilation. Libraries that are not installed are left out.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from functools import partial
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from scipy.integrate import solve_ivp

import retrograd as rg
from retrograd.ode import solve

Slope = Callable[[Any, Any, Any, Any], Any]
RTOL, STEPS = 1e-6, np.eye(4) * 1e-5
RATES = (1.5, 1.0, 3.0, 1.0)


def lotka(lib: Any, t: Any, y: Any, p: Any) -> Any:
    """Prey and predators."""
    return lib.stack([p[0] * y[0] - p[1] * y[0] * y[1], p[3] * y[0] * y[1] - p[2] * y[1]])


def bodies(lib: Any, t: Any, y: Any, p: Any) -> Any:
    """Three equal masses in the plane, on a figure of eight."""
    x = y.reshape(2, 3, 2)
    apart = x[0][None] - x[0][:, None]
    pull = apart / ((apart**2).sum(-1)[..., None] + 1e-30) ** 1.5
    return lib.stack([x[1], pull.sum(1)]).reshape(12)


def robertson(lib: Any, t: Any, y: Any, p: Any) -> Any:
    """Three chemical reactions of very different speed."""
    slow, fast, square = 0.04 * y[0], 1e4 * y[1] * y[2], 3e7 * y[1] ** 2
    return lib.stack([fast - slow, slow - fast - square, square])


def vanderpol(lib: Any, t: Any, y: Any, p: Any) -> Any:
    """An oscillator with damping 1000."""
    return lib.stack([y[1], 1000.0 * (1 - y[0] ** 2) * y[1] - y[0]])


EIGHT = [0.97000436, -0.24308753, -0.97000436, 0.24308753, 0.0, 0.0]
EIGHT += [0.466203685, 0.43236573, 0.466203685, 0.43236573, -0.93240737, -0.86473146]


class Problem(NamedTuple):
    """A right-hand side, its initial values, the last time, the absolute tolerance, and whether it is stiff."""

    f: Slope
    y0: list[float]
    end: float
    atol: float = 1e-9
    stiff: bool = False


PROBLEMS = {
    "lotka": Problem(lotka, [1.0, 1.0], 10.0),
    "bodies": Problem(bodies, EIGHT, 6.0),
    "robertson": Problem(robertson, [1.0, 0.0, 0.0], 1e5, 1e-11, True),
    "vanderpol": Problem(vanderpol, [2.0, 0.0], 2000.0, 1e-9, True),
}
Answer = tuple[np.ndarray[Any, Any], int]
Solver = Callable[[], Answer]


def in_scipy(given: Problem, method: str, rtol: float = RTOL, p: Any = RATES) -> Answer:
    atol = given.atol if rtol == RTOL else 1e-14
    found = solve_ivp(lambda t, y: given.f(np, t, y, p), (0, given.end), given.y0, method, rtol=rtol, atol=atol)
    return found.y[:, -1], found.nfev


def in_retrograd(given: Problem, method: str, adjoint: Any = None, f: Any = None) -> Answer:
    start, p = rg.tensor(given.y0), rg.tensor(RATES, requires_grad=adjoint is not None)
    options: dict[str, Any] = {"method": method, "rtol": RTOL, "atol": given.atol, "adjoint": adjoint or "direct"}
    found = solve(f or (lambda t, y, p: given.f(rg, t, y, p)), start, (0.0, given.end), (p,), **options)
    if adjoint is None:
        return found.y[-1].numpy(), found.evaluations
    return rg.autograd.grad((found.y[-1] ** 2).sum(), p)[0].numpy(), found.evaluations


def in_torchdiffeq(given: Problem, adjoint: Any = None) -> Answer:
    import torch
    from torchdiffeq import odeint, odeint_adjoint

    p, calls = torch.tensor(RATES, dtype=torch.float64, requires_grad=adjoint is not None), [0]

    class Right(torch.nn.Module):
        def forward(self, t: Any, y: Any) -> Any:
            calls[0] += 1
            return given.f(torch, t, y, p)

    start, times = (torch.tensor(x, dtype=torch.float64) for x in (given.y0, [0.0, given.end]))
    solver, options = (odeint_adjoint, {"adjoint_params": (p,)}) if adjoint == "backsolve" else (odeint, {})
    final = solver(Right(), start, times, rtol=RTOL, atol=given.atol, method="dopri5", **options)[-1]
    forward = calls[0]
    if adjoint is None:
        return final.numpy(), forward
    return torch.autograd.grad((final**2).sum(), p)[0].numpy(), forward


def in_diffrax(given: Problem, adjoint: bool = False) -> Solver:
    import diffrax
    import jax
    import jax.numpy as jnp

    jax.config.update("jax_enable_x64", True)
    term, start = diffrax.ODETerm(lambda t, y, p: given.f(jnp, t, y, p)), jnp.asarray(given.y0)
    solver, stages = (diffrax.Kvaerno5(), 7) if given.stiff else (diffrax.Tsit5(), 6)
    options: dict[str, Any] = {
        "stepsize_controller": diffrax.PIDController(rtol=RTOL, atol=given.atol),
        "max_steps": 100_000,
    }

    def final(p: Any) -> Any:
        found = diffrax.diffeqsolve(term, solver, 0.0, given.end, None, start, p, **options)
        return (found.ys[-1] ** 2).sum() if adjoint else found.ys[-1], found.stats["num_steps"]

    run = jax.jit(jax.grad(final, has_aux=True) if adjoint else final)

    def solved() -> Answer:
        y, steps = run(jnp.asarray(RATES))
        return np.asarray(y), int(steps) * stages

    solved()
    return solved


def ways(name: str) -> tuple[np.ndarray[Any, Any], dict[str, Solver]]:
    """Return the reference and the solvers of a problem, by name."""
    torch, jax = find_spec("torchdiffeq"), find_spec("diffrax")
    given = PROBLEMS["lotka" if name == "gradient" else name]
    found: dict[str, Solver] = {}
    if name == "gradient":
        rows = [[in_scipy(given, "DOP853", 1e-12, np.add(RATES, sign * h))[0] for sign in (1, -1)] for h in STEPS]
        for adjoint in ("direct", "checkpoint", "backsolve"):
            found[f"retrograd tsit5, {adjoint}"] = partial(in_retrograd, given, "tsit5", adjoint)
        compiled = rg.compile(lambda t, y, p: given.f(rg, t, y, p))
        found["retrograd tsit5, direct, f compiled"] = partial(in_retrograd, given, "tsit5", "direct", compiled)
        for adjoint in ("direct", "backsolve") if torch else ():
            found[f"torchdiffeq dopri5, {adjoint}"] = partial(in_torchdiffeq, given, adjoint)
        if jax:
            found["diffrax Tsit5, compiled"] = in_diffrax(given, adjoint=True)
        return np.array([((a**2).sum() - (b**2).sum()) / 2e-5 for a, b in rows]), found
    for method in ("kvaerno5", "rodas5p") if given.stiff else ("tsit5", "dopri8"):
        found[f"retrograd {method}"] = partial(in_retrograd, given, method)
        compiled = rg.compile(lambda t, y, p: given.f(rg, t, y, p))
        found[f"retrograd {method}, f compiled"] = partial(in_retrograd, given, method, f=compiled)
    for method in ("Radau", "BDF") if given.stiff else ("RK45", "DOP853"):
        found[f"scipy {method}"] = partial(in_scipy, given, method)
    if torch and not given.stiff:
        found["torchdiffeq dopri5"] = partial(in_torchdiffeq, given)
    if jax:
        found[f"diffrax {'Kvaerno5' if given.stiff else 'Tsit5'}, compiled"] = in_diffrax(given)
    return in_scipy(given, "Radau" if given.stiff else "DOP853", 1e-12)[0], found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--problems", nargs="+", default=[*PROBLEMS, "gradient"])
    options = parser.parse_args()
    rg.set_default_dtype(rg.float64)
    print("| problem | solver | error | calls | time, ms |\n|---|---|---|---|---|")
    for name in options.problems:
        reference, solvers = ways(name)
        for solver, solved in solvers.items():
            times = []
            for _ in range(options.rounds):
                start = time.process_time()
                value, calls = solved()
                times.append(1e3 * (time.process_time() - start))
            error = (np.abs(value - reference) / np.abs(reference)).max()
            print(f"| {name} | {solver} | {error:.1e} | {calls:,} | {min(times):.1f} |", flush=True)


if __name__ == "__main__":
    main()
