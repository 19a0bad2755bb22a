"""Compare long loops with JAX and PyTorch: gradients through ODE, PDE, N-body, Kalman and Sinkhorn iterations.

Each library runs in its own process with one thread, alternating. Times are CPU time: the median of the rounds' best
calls, and the first call, which compiles. ``retrograd`` and ``jax`` run compiled, with ``scan``; ``retrograd-python``
runs Python loops compiled, ``retrograd-eager`` and ``torch`` run them eagerly. All in float64. Libraries that are not
installed are skipped.

    python benchmarks/loops.py [--rounds 5] [--libraries retrograd jax] [--only kalman sinkhorn]
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Callable
from importlib import import_module
from typing import Any

import numpy as np

LIBRARIES = ("retrograd", "retrograd-python", "jax", "retrograd-eager", "torch")
PROGRAMS = ("rk4", "heat", "heat16", "nbody", "kalman", "sinkhorn")
SECONDS = 1.0  # of calls in a round


class Library:
    """The functions that the programs use, under one set of names."""

    def __init__(self, name: str) -> None:
        self.compiled = name in ("retrograd", "retrograd-python", "jax")
        if name == "jax":
            import jax

            jax.config.update("jax_enable_x64", True)
            self.xp: Any = jax.numpy
            self.grad: Any = jax.grad
            self.scan: Any = jax.lax.scan
            self.compile: Any = jax.jit
            self.array: Any = self.xp.asarray
            self.ready: Any = jax.block_until_ready
            return
        torch = import_module(name.partition("-")[0])
        if name == "torch":
            torch.set_num_threads(1)
        self.xp = torch
        self.grad = import_module(f"{torch.__name__}.func").grad
        self.array = lambda x: torch.tensor(x, dtype=torch.float64)
        self.scan = torch.func.scan if name == "retrograd" else self._loop
        self.compile = torch.compile if self.compiled else lambda function: function
        self.ready = lambda x: x

    def _loop(self, step: Callable[..., Any], carry: Any, xs: Any = None, length: int | None = None) -> Any:
        for x in [None] * (length or 0) if xs is None else xs:
            carry, _ = step(carry, x)
        return carry, None


Program = tuple[Callable[..., Any], tuple[Any, ...]]


def rk4(lib: Library, steps: int = 1000) -> Program:
    """Lotka-Volterra by Runge-Kutta, with the gradient with respect to its four parameters."""

    def slope(u: Any, p: Any) -> Any:
        x, y = u[0], u[1]
        return lib.xp.stack([p[0] * x - p[1] * x * y, p[2] * x * y - p[3] * y])

    def loss(p: Any, u: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            h = 0.01
            k1 = slope(u, p)
            k2 = slope(u + 0.5 * h * k1, p)
            k3 = slope(u + 0.5 * h * k2, p)
            k4 = slope(u + h * k3, p)
            return u + h / 6 * (k1 + 2 * k2 + 2 * k3 + k4), None

        return (lib.scan(step, u, None, length=steps)[0] ** 2).sum()

    return lib.grad(loss), (lib.array([1.5, 1.0, 1.0, 3.0]), lib.array([1.0, 1.0]))


def heat(lib: Library, size: int = 128, steps: int = 1000) -> Program:
    """The heat equation on a periodic grid, with the gradient with respect to the initial temperature."""
    roll = lib.xp.roll

    def loss(u: Any, k: Any) -> Any:
        def step(u: Any, _: Any) -> Any:
            return u + k * (roll(u, 1, 0) + roll(u, -1, 0) + roll(u, 1, 1) + roll(u, -1, 1) - 4 * u), None

        return ((lib.scan(step, u, None, length=steps)[0] - 1) ** 2).sum()

    return lib.grad(loss), (lib.array(np.random.default_rng(0).random((size, size))), lib.array(0.1))


def heat16(lib: Library) -> Program:
    """The heat equation on a small grid."""
    return heat(lib, 16)


def nbody(lib: Library, bodies: int = 64, steps: int = 500) -> Program:
    """Gravity between all pairs, with the gradient with respect to the initial positions."""

    def loss(x: Any, v: Any, mass: Any) -> Any:
        def step(state: Any, _: Any) -> Any:
            x, v = state
            d = x[None, :, :] - x[:, None, :]
            weight = mass[None, :] * ((d * d).sum(-1) + 0.1) ** -1.5
            v = v + 0.001 * (weight[:, :, None] * d).sum(1)
            return (x + 0.001 * v, v), None

        (x, v), _ = lib.scan(step, (x, v), None, length=steps)
        return (x * x).sum() + (v * v).sum()

    rng = np.random.default_rng(0)
    state = rng.standard_normal((bodies, 3)), 0.1 * rng.standard_normal((bodies, 3)), rng.random(bodies)
    return lib.grad(loss), tuple(map(lib.array, state))


def kalman(lib: Library, steps: int = 2000) -> Program:
    """The likelihood of a Kalman filter with four states, with the gradient with respect to the noise."""
    move = lib.array(np.array([[1, 0.1, 0, 0], [0, 1, 0, 0], [0, 0, 1, 0.1], [0, 0, 0, 1.0]]))
    seen = lib.array(np.array([[1, 0, 0, 0], [0, 0, 1, 0.0]]))
    drift, one = lib.array(0.01 * np.eye(4)), lib.array(np.eye(2))

    def loss(noise: Any, zs: Any) -> Any:
        def step(state: Any, z: Any) -> Any:
            x, p, total = state
            x, p = move @ x, move @ p @ move.T + drift
            s = seen @ p @ seen.T + noise * one
            inverse, y = lib.xp.linalg.inv(s), z - seen @ x
            gain = p @ seen.T @ inverse
            total = total + y @ (inverse @ y) + lib.xp.log(s[0, 0] * s[1, 1] - s[0, 1] * s[1, 0])
            return (x + gain @ y, p - gain @ seen @ p, total), None

        return lib.scan(step, (lib.array(np.zeros(4)), lib.array(np.eye(4)), lib.array(0.0)), zs)[0][2]

    return lib.grad(loss), (
        lib.array(0.5),
        lib.array(np.cumsum(0.1 * np.random.default_rng(0).standard_normal((steps, 2)), 0)),
    )


def sinkhorn(lib: Library, size: int = 200, steps: int = 200) -> Program:
    """Optimal transport between two clouds of points, with the gradient with respect to one of them."""
    weights = lib.array(np.full(size, 1 / size))

    def loss(x: Any, y: Any) -> Any:
        cost = ((x[:, None, :] - y[None, :, :]) ** 2).sum(-1)
        kernel = lib.xp.exp(-2 * cost)

        def step(state: Any, _: Any) -> Any:
            u = weights / (kernel @ state[1])
            return (u, weights / (kernel.T @ u)), None

        (u, v), _ = lib.scan(step, (0 * weights + 1, 0 * weights + 1), None, length=steps)
        return (u[:, None] * kernel * v[None, :] * cost).sum()

    rng = np.random.default_rng(0)
    return lib.grad(loss), tuple(lib.array(rng.standard_normal((size, 2))) for _ in range(2))


def work(library: str, program: str, rounds: int) -> None:
    """Print, for each line of input, the CPU time of the best call in a round; before, that of the first call."""
    lib = Library(library)
    function, arguments = globals()[program](lib)
    function = lib.compile(function)
    start = time.process_time()
    found = lib.ready(function(*arguments))
    print(json.dumps([time.process_time() - start, float((found * found).sum())]), flush=True)
    for _ in range(rounds):
        sys.stdin.readline()
        times: list[float] = []
        while not times or sum(times) < SECONDS and len(times) < 200:
            start = time.process_time()
            lib.ready(function(*arguments))
            times.append(time.process_time() - start)
        print(json.dumps(min(times)), flush=True)


def main() -> None:
    """Run the programs in alternating processes, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--libraries", nargs="+", default=LIBRARIES, choices=LIBRARIES)
    parser.add_argument("--only", nargs="+", default=PROGRAMS, choices=PROGRAMS)
    parser.add_argument("--jax-python", default=sys.executable, help="the Python that has JAX")
    parser.add_argument("--worker", nargs=2)
    options = parser.parse_args()
    if options.worker:
        work(*options.worker, options.rounds)
        return
    one = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
    one["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
    for program in options.only:
        workers: dict[str, Any] = {}
        firsts: dict[str, list[float]] = {}
        for library in options.libraries:
            python = options.jax_python if library == "jax" else sys.executable
            command = [python, __file__, "--worker", library, program, "--rounds", str(options.rounds)]
            worker = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
                env=os.environ | one,
            )  # fmt: skip
            line = worker.stdout.readline() if worker.stdout is not None else ""
            if line:
                workers[library], firsts[library] = worker, json.loads(line)
        times: dict[str, list[float]] = {library: [] for library in workers}
        for _ in range(options.rounds):
            for library, worker in workers.items():
                worker.stdin.write("\n")
                worker.stdin.flush()
                times[library].append(json.loads(worker.stdout.readline()))
        wanted = next(iter(firsts.values()))[1] if firsts else 0.0
        for library, found in times.items():
            first, value = firsts[library]
            same = "" if abs(value - wanted) <= 1e-6 * abs(wanted) else f"  another gradient: {value} and {wanted}"
            print(f"{program:9} {library:16} {1e3 * statistics.median(found):9.3f} ms, first {first:6.2f} s{same}")
        for ours, theirs in (("retrograd", "jax"), ("retrograd-python", "retrograd"), ("retrograd-eager", "torch")):
            if ours in times and theirs in times:
                ratios = [a / b for a, b in zip(times[ours], times[theirs], strict=True)]
                print(f"{program:9} {ours} / {theirs}: {statistics.median(ratios):.2f}", flush=True)


if __name__ == "__main__":
    main()
