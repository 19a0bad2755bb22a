"""Compare Retrograd with PyTorch eager and other libraries, on the same training steps with equal numbers.

    python -m benchmarks [--only mlp_small cnn ...] [--threads 2] [--rounds 15] [--seconds 0.2]
                         [--json FILE] [--plot FILE] [--page FILE]

Every library runs each workload in its own process. The libraries alternate, so that other load on the machine
affects all of them, and are compared round by round; quartiles show the uncertainty. ``retrograd-numpy`` is Retrograd
without compiled loops, ``retrograd-compiled`` runs steps under ``compile``, and ``torch-compiled`` (with
``--torch-compile`` and a C++ compiler) under ``torch.compile``, which takes minutes. Libraries that are not installed
are skipped.

A run with ``--only`` updates the results in the JSON file, so the measurement can be split. ``setup`` measures imports,
sizes and first steps, ``alone`` the training steps with one thread, ``neighbor`` a step with a competing process on
one core, ``half`` the larger steps in bfloat16, ``language`` a language model of 124 million parameters, ``llama`` text
of a Llama from a GGUF file, ``small`` calls on small tensors, and ``graph`` a graph of a million operators; ``--only``
without names measures nothing. ``--page`` writes all results in the JSON file to docs/performance.md.
"""

from __future__ import annotations

import argparse
import datetime
import json
import os
import platform
import statistics
import subprocess
import sys
import time
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from shutil import which
from typing import Any

from . import language, long_graph, operators, page, setup_costs
from .others import OTHERS
from .ratios import ratio
from .workloads import PARTS, STEPS

ROOT = Path(__file__).resolve().parent.parent
LIBRARIES = (
    "retrograd", "retrograd-compiled", "retrograd-numpy", "torch", "torch-compiled", "jax", "autograd", "mygrad",
)  # fmt: skip
# The sections of a record.
MEASURED = ("steps", "alone", "setup", "neighbor", "half", "language", "llama", "small", "graph")
HALF_STEPS = ("mlp_large", "gpt_small", "gpt_middle", "cnn", "lstm")  # measured under ``autocast``, too
LIBRARIES_ALONE = ("retrograd", "retrograd-numpy", "torch")
PAUSE = 0.25  # seconds until the previous worker's threads sleep: OpenMP's threads spin for 0.2 s
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "NUMBA_NUM_THREADS")


class Worker:
    """A process that runs a library on a workload."""

    def __init__(self, library: str, workload: str, threads: int, half: bool = False) -> None:
        environment = os.environ | {name: str(threads) for name in THREADS}
        if library == "jax":
            environment["XLA_FLAGS"] = f"--xla_cpu_multi_thread_eigen={str(threads > 1).lower()}"
        if library == "retrograd-numpy":
            environment["RETROGRAD_KERNELS"] = "reference"
        if library.endswith("-compiled"):
            environment["BENCHMARK_COMPILED"] = "1"
        if half:
            environment["BENCHMARK_BFLOAT16"] = "1"
        command = [sys.executable, "-m", "benchmarks.worker", library.partition("-")[0], workload]
        self.process = subprocess.Popen(
            command, cwd=ROOT, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.times: list[float] = []
        self.rounds: list[float] = []  # the median of each round
        self.first_step = self.answer()

    def answer(self) -> Any:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise SystemExit(f"{self.process.args} ended with {self.process.wait()}")
        return json.loads(line)

    def tell(self, command: object) -> Any:
        assert self.process.stdin is not None
        print(command, file=self.process.stdin, flush=True)
        return self.answer()

    def work(self, seconds: float) -> None:
        """Run one round."""
        times = self.tell(seconds)
        self.times += times
        self.rounds.append(statistics.median(times))

    def stop(self) -> Any:
        """End the process; return the first and last loss, and the peak memory."""
        result = self.tell("end")
        self.process.wait()
        return result

    def end(self) -> dict[str, Any]:
        """Return the results of ``stop``, and the times of steps."""
        result = self.stop()
        quartiles = statistics.quantiles(self.times if len(self.times) > 1 else 2 * self.times, n=4)
        times = {"median": quartiles[1], "lower": quartiles[0], "upper": quartiles[2], "first": self.first_step}
        counted = {"steps": len(self.times), "rounds": self.rounds}
        return result | {f"seconds_{name}": value for name, value in times.items()} | counted


def can(library: str, workload: str) -> bool:
    """Whether the library is installed and supports the workload."""
    name = library.partition("-")[0]
    if library == "torch-compiled" and workload not in STEPS:
        return False
    return find_spec(name) is not None and (name in ("retrograd", "torch") or (name, workload) in OTHERS)


def measure(
    workload: str,
    threads: int,
    rounds: int,
    seconds: float,
    libraries: tuple[str, ...] = LIBRARIES,
    half: bool = False,
) -> dict[str, dict[str, Any]]:
    """Measure libraries on one workload; return their results by name."""
    libraries = tuple(library for library in libraries if can(library, workload))
    for library in {"retrograd", "retrograd-compiled"}.intersection(libraries):
        Worker(
            library, workload, threads, half
        ).stop()  # warm up, so that a compiler's memory does not count as a step's
    workers = {library: Worker(library, workload, threads, half) for library in libraries}
    for worker in workers.values():
        worker.tell(seconds / 2)
    for number in range(rounds):
        for worker in list(workers.values())[:: -1 if number % 2 else 1]:  # alternate the order
            time.sleep(PAUSE)
            worker.work(seconds)
    results = {library: worker.end() for library, worker in workers.items()}
    compare_losses(workload, results, 2e-2 if half else 1e-3)
    return results


def compare_losses(workload: str, results: dict[str, dict[str, Any]], tolerance: float) -> None:
    """Report libraries whose losses differ."""
    reference = results["retrograd"]["first"]
    for library, result in results.items():
        if abs(result["first"] - reference) > tolerance * max(1.0, abs(reference)):
            print(f"{workload}: the first loss of {library} is {result['first']:.6g}, not {reference:.6g}")


def table(all_results: dict[str, dict[str, dict[str, Any]]], figure: str) -> str:
    """Return a table of ratios to PyTorch, one line per workload, and their geometric means over the training steps."""
    libraries = [library for library in LIBRARIES if library != "torch"]
    lines = [f"{'':12}" + "".join(f"{library:>17}" for library in libraries)]
    columns: dict[str, list[float]] = {library: [] for library in libraries}
    for workload, results in all_results.items():
        cells = []
        for library in libraries:
            value = ratio(results, library, figure)
            cells.append(f"{'-' if value is None else format(value, '.2f'):>17}")
            if value is not None and workload in STEPS:
                columns[library].append(value)
        lines.append(f"{workload:12}" + "".join(cells))
    whole = sum(workload in STEPS for workload in all_results)
    means = [
        format(statistics.geometric_mean(values), ".2f") if whole and len(values) == whole else "-"
        for values in columns.values()
    ]
    return "\n".join([*lines, f"{'mean':12}" + "".join(f"{mean:>17}" for mean in means)])


def machine() -> dict[str, Any]:
    """Describe the hardware and software."""
    model = platform.processor()
    try:
        with open("/proc/cpuinfo") as info:
            model = next(line.partition(":")[2].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        pass
    versions = {"python": platform.python_version()}
    for package in ("numpy", "numba", "torch", "jax", "autograd", "mygrad"):
        try:
            versions[package] = version(package)
        except PackageNotFoundError:
            continue
    return {
        "date": datetime.date.today().isoformat(),
        "processor": model,
        "cores": os.cpu_count(),
        "system": platform.system(),
        "versions": versions,
    }


def plot(all_results: dict[str, dict[str, dict[str, Any]]], path: Path) -> None:
    """Plot times relative to PyTorch's as bars."""
    import matplotlib

    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(9, 4.5), layout="constrained")
    names = list(all_results)
    for place, library in enumerate(("retrograd", "retrograd-numpy")):
        heights = [ratio(results, library, "seconds_median") or 0 for results in all_results.values()]
        axes.bar([index + 0.4 * place - 0.2 for index in range(len(names))], heights, 0.38, label=library)
    axes.axhline(1, color="black", linewidth=1)
    axes.set_xticks(range(len(names)), names, rotation=20)
    axes.set_ylabel("time of a step / PyTorch eager's")
    axes.legend()
    figure.savefig(path)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=(__doc__ or "").splitlines()[0])
    everything = [*STEPS, *PARTS, "alone", "setup", "neighbor", "half", "language", "llama", "small", "graph"]
    parser.add_argument("--only", nargs="*", choices=everything, default=everything, metavar="WORKLOAD")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--seconds", type=float, default=0.2, help="per library and round")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--page", type=Path)
    parser.add_argument("--torch-compile", action="store_true", help="measure torch.compile, too")
    options = parser.parse_args()
    if options.torch_compile and not (which("g++") or which("clang++")):
        parser.error("torch.compile needs a C++ compiler, g++ or clang++")
    libraries = tuple(name for name in LIBRARIES if name != "torch-compiled" or options.torch_compile)
    record = load(options.json, options.threads)
    results = record["steps"]
    for workload in options.only:
        if workload == "setup":
            record["setup"] = setup_costs.measure()
            continue
        if workload == "neighbor":
            from .neighbor import slow_downs

            record["neighbor"] = slow_downs("gpt_small", options.threads, 8 * options.seconds)
            continue
        if workload == "half":
            for name in HALF_STEPS:
                record["half"][name] = measure(
                    name, options.threads, options.rounds, options.seconds, ("retrograd", "torch"), half=True
                )
            keep(record, options.json)
            continue
        if workload == "language":
            record["language"] = language.measure(
                [*language.WAYS, "generation"], language.LIBRARIES, options.threads, rounds=3, steps=3, tokens=60
            )
            keep(record, options.json)
            continue
        if workload == "llama":
            record["llama"] = language.measure(language.LLAMA, language.LIBRARIES, 1, rounds=3, steps=0, tokens=60)
            keep(record, options.json)
            continue
        if workload == "small":
            record["small"] = operators.measure_small(options.threads, rounds=3)
            continue
        if workload == "graph":
            record["graph"] = long_graph.measure()
            continue
        if workload == "alone":
            for name in STEPS:
                record["alone"][name] = measure(name, 1, options.rounds, options.seconds, LIBRARIES_ALONE)
            continue
        results[workload] = measure(workload, options.threads, options.rounds, options.seconds, libraries)
        figures = [f"{name} {1e3 * one['seconds_median']:.3g} ms" for name, one in results[workload].items()]
        print(f"{workload}: {', '.join(figures)}", file=sys.stderr, flush=True)
        keep(record, options.json)
    record["steps"] = results = {name: results[name] for name in (*STEPS, *PARTS) if name in results}
    keep(record, options.json)
    print(f"time of a step over PyTorch eager's, {options.threads} threads\n{table(results, 'seconds_median')}")
    print(f"\npeak of memory beyond the import, over PyTorch's\n{table(results, 'beyond_import')}")
    print(f"\npeak of memory with the import, over PyTorch's\n{table(results, 'peak')}")
    if record["alone"]:
        print(f"\ntime of a step over PyTorch eager's, one thread\n{table(record['alone'], 'seconds_median')}")
    for library, (alone, beside) in record["neighbor"].items():
        print(f"with a competing process on one core, {library} takes {beside / alone:.1f} times as long")
    if record["setup"]:
        print("\n" + setup_costs.table(record["setup"]))
    if options.plot:
        plot(results, options.plot)
    if options.page:
        before = options.page.read_text() if options.page.exists() else ""
        options.page.write_text(page.written(record) + page.by_hand(before))


def load(path: Path | None, threads: int) -> dict[str, Any]:
    """Load the results of an earlier run with the same number of threads, or an empty record."""
    if path is not None and path.exists():
        record: dict[str, Any] = json.loads(path.read_text())
        if record["threads"] == threads:
            return {name: {} for name in MEASURED} | record | {"machine": machine()}
    return {"machine": machine(), "threads": threads} | {name: {} for name in MEASURED}


def keep(record: dict[str, Any], path: Path | None) -> None:
    """Write the record, also during a run."""
    if path is not None:
        path.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
