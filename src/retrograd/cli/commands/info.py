"""`retrograd info`: versions, backend, device, BLAS and threads, which training reports contain, too."""

import argparse
import importlib.metadata
import importlib.util
import os
import platform
from typing import Any

import numpy as np

import retrograd
from retrograd import kernels
from retrograd.core.arrays.devices import backend_for, get_default_device
from retrograd.kernels.runtime import library

from ..console import Table, UserError, print_table
from ..parser import Subparsers

# Each optional package: its import name, the extra that installs it, and its distributions' names.
OPTIONAL = (
    ("llvmlite", "fast", ("llvmlite",)),
    ("numba", "jit", ("numba",)),
    ("cupy", "gpu", ("cupy-cuda12x", "cupy-cuda13x", "cupy")),  # for CUDA 13, the extra gpu13
    ("rich", "cli", ("rich",)),
    ("threadpoolctl", "cli", ("threadpoolctl",)),
    ("matplotlib", "plots", ("matplotlib",)),
    ("safetensors", "weights", ("safetensors",)),
    ("scipy", "special", ("scipy",)),
    ("sklearn", "sklearn", ("scikit-learn",)),
    ("onnx", "onnx", ("onnx",)),
    ("tokenizers", "tokenizers", ("tokenizers",)),
    ("gguf", "gguf", ("gguf",)),
    ("tensorboardX", "tensorboard", ("tensorboardX",)),
    ("ml_dtypes", "bfloat16", ("ml_dtypes",)),
    ("mpi4py", "mpi", ("mpi4py",)),
)
INSTALL = "install an extra with: python -m pip install 'retrograd[EXTRA]'"


def add_parser(subparsers: Subparsers) -> None:
    parser = subparsers.add_parser(
        "info",
        help="show versions, backend, device, BLAS and threads",
        description="Show versions, backend, device, BLAS and threads, and which optional packages are installed.",
        examples="  retrograd info\n",
    )
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    for index, table in enumerate(environment()):
        if index:
            print()
        print_table(table)
    print(INSTALL)
    return 0


def environment() -> list[Table]:
    """Return tables of all that a result depends on: versions, the backend, and threads."""
    return [
        Table("Environment", ["what", "value"], [*_versions(), *_machine()]),
        Table("Optional packages", ["package", "version", "extra"], [_optional(*package) for package in OPTIONAL]),
    ]


def _versions() -> list[tuple[str, str]]:
    return [
        ("retrograd", retrograd.__version__),
        ("python", f"{platform.python_version()} ({platform.python_implementation()})"),
        ("numpy", np.__version__),
        ("platform", platform.platform()),
    ]


def _machine() -> list[tuple[str, str]]:
    return [
        ("backend", _backend()),
        ("device", str(get_default_device())),
        ("processors", str(_processors())),
        ("kernels", _kernels()),
        ("BLAS", _blas()),
        ("BLAS threads", _blas_threads()),
    ]


def _optional(module: str, extra: str, distributions: tuple[str, ...]) -> tuple[str, str, str]:
    """Return the package's row without importing it: imports are slow, and a broken package must not break `info`."""
    for distribution in distributions:
        try:
            return module, importlib.metadata.version(distribution), extra
        except importlib.metadata.PackageNotFoundError:
            continue
    return module, "not installed", extra


def _backend() -> str:
    """The array library of new tensors, and the GPU's name for CuPy."""
    try:
        backend, device = backend_for(None), get_default_device()
    except RuntimeError as error:
        raise UserError(str(error)) from None
    if device.type == "cpu":
        return backend.name
    properties = backend.xp.cuda.runtime.getDeviceProperties(device.index or 0)
    return f"{backend.name} {backend.xp.__version__} on {properties['name'].decode()}"


def _kernels() -> str:
    if not kernels.available():
        return "NumPy"
    found = library.found()
    return "compiled by Numba" if found is None else f"compiled ahead of time for {found[0].name}"


def _processors() -> int:
    """Return the number of processors available to this process."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _blas() -> str:
    build: Any = np.show_config(mode="dicts")
    blas = build["Build Dependencies"]["blas"]
    return f"{blas['name']} {blas.get('version', '')}".strip()


def _blas_threads() -> str:
    """Return the thread count of the running BLAS if threadpoolctl is installed, else the environment's setting."""
    if importlib.util.find_spec("threadpoolctl") is not None:
        from threadpoolctl import threadpool_info

        pools = [pool for pool in threadpool_info() if pool["user_api"] == "blas"]
        if pools:
            return ", ".join(f"{pool['num_threads']} ({pool['internal_api']} {pool['version']})" for pool in pools)
    for variable in ("OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "OMP_NUM_THREADS"):
        if variable in os.environ:
            return f"{os.environ[variable]} ({variable})"
    return "the BLAS's default (install threadpoolctl to see the number)"
