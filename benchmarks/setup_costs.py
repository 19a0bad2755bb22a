"""Costs before the first step: import time, size on disk, and the first step of a transformer."""

from __future__ import annotations

import compileall
import statistics
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, distribution
from importlib.util import find_spec
from pathlib import Path

from . import scalar

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = "import time, numpy; t = time.perf_counter(); import {module}; print(time.perf_counter() - t)"
FIRST_STEP = """
import sys
sys.modules["numba"] = sys.modules["llvmlite"] = None
sys.argv = ["worker", "retrograd", "gpt_small"]
from benchmarks import worker
worker.main()
"""
NEEDS = {
    "retrograd": ("retrograd", "numpy"),
    "retrograd[fast]": ("retrograd", "numpy", "llvmlite"),
    "torch": ("torch", "numpy", "sympy", "mpmath", "networkx", "jinja2", "fsspec", "typing_extensions", "filelock"),
    "jax": ("jax", "jaxlib", "numpy", "scipy", "ml_dtypes", "opt_einsum"),
}


def import_times(rounds: int = 15) -> dict[str, float]:
    """Return the seconds that an import takes beyond ``import numpy``: medians of alternating fresh processes."""
    modules = [name for name in ("retrograd", "torch", "jax", "autograd", "mygrad") if find_spec(name)]
    times: dict[str, list[float]] = {module: [] for module in modules}
    for _ in range(rounds):
        for module in modules:
            command = [sys.executable, "-c", PROGRAM.format(module=module)]
            run = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
            times[module].append(float(run.stdout))
    return {module: statistics.median(values) for module, values in times.items()}


def installed_bytes(package: str) -> int:
    """Return the size of an installed package's files; of Retrograd, of what its wheel would install."""
    if package == "retrograd":
        files = [path for path in (ROOT / "src" / "retrograd").rglob("*") if path.suffix != ".pyc"]
        files += [*(ROOT / "build" / "kernels").glob("x86-64-*.*")]
        return sum(path.stat().st_size for path in files if path.is_file())
    located = [Path(str(file.locate())) for file in distribution(package).files or ()]
    return sum(path.stat().st_size for path in located if path.is_file() and path.suffix != ".pyc")


def install_sizes() -> dict[str, float]:
    """Return the bytes on disk of each library with its required dependencies."""
    sizes = {}
    for name, packages in NEEDS.items():
        try:
            sizes[name] = float(sum(map(installed_bytes, packages)))
        except PackageNotFoundError:
            continue
    return sizes


def first_steps(rounds: int = 5) -> dict[str, float]:
    """Return the seconds from after the import to the end of a transformer's first step, without Numba and llvmlite.

    Nothing is cached between processes. The result is the median of several processes.
    """

    def first_step() -> float:
        command = [sys.executable, "-c", FIRST_STEP]
        run = subprocess.run(command, cwd=ROOT, input="end\n", capture_output=True, text=True, check=True)
        return float(run.stdout.split()[0])

    return {"retrograd": statistics.median(first_step() for _ in range(rounds))}


def measure() -> dict[str, dict[str, float]]:
    """Measure all costs, and an epoch of the scalar engine, after compiling bytecode as an installation does."""
    compileall.compile_dir(ROOT / "src", quiet=1)
    costs = {"import": import_times(), "bytes": install_sizes(), "first transformer step": first_steps()}
    libraries = [library for library in scalar.MODULES if library != "micrograd" or find_spec("micrograd")]
    costs["scalar epoch"] = {library: scalar.seconds_per_epoch(library, 5)[0] for library in libraries}
    return costs


def figure(value: float) -> str:
    """Format a number with three digits, but without an exponent.

    >>> figure(0.62449), figure(83.04), figure(2064.2)
    ('0.624', '83', '2064')
    """
    return f"{value:.0f}" if value >= 1000 else f"{value:.3g}"


def table(costs: dict[str, dict[str, float]]) -> str:
    lines = []
    for name, values in costs.items():
        unit, scale = ("MB", 1e-6) if name == "bytes" else ("ms", 1e3)
        figures = [f"{library} {figure(scale * value)} {unit}" for library, value in values.items()]
        lines.append(f"{name}: {', '.join(figures)}")
    return "\n".join(lines)
