"""Shuffled batches of a memory-mapped data set, compared with PyTorch's DataLoader.

    python -m benchmarks.large_data_set FILE [--gigabytes 10] [--workers 0 2] [--batches 2000] [--rounds 3]

FILE is a NumPy file of images of 3 x 32 x 32 bytes, which is written if it does not exist. ``TensorDataset`` reads it,
64 images in a batch. The overhead of a batch is its time beyond ``images[indices]``, the bare reading of as many
random images; medians of groups of 50 batches, and of rounds in which the libraries alternate.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import time
from importlib import import_module
from itertools import islice
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parent.parent
IMAGE = (3, 32, 32)
BATCH = 64
GROUP = 50  # batches


def write(file: Path, size: int) -> None:
    """Write ``size`` bytes of random images."""
    count, part = size // int(np.prod(IMAGE)), 1 << 16
    images = np.lib.format.open_memmap(file, mode="w+", dtype=np.uint8, shape=(count, *IMAGE))
    some = np.random.default_rng(0).integers(0, 256, (part, *IMAGE), dtype=np.uint8)
    for start in range(0, count, part):
        images[start : start + part] = some[: count - start]
    images.flush()


def overhead(library: str, file: Path, workers: int, batches: int) -> tuple[float, float]:
    """Return the median seconds of a batch, and those beyond the bare reading of its images."""
    lib = import_module(library)
    data = import_module("torch.utils.data" if library == "torch" else "retrograd.data")
    images = np.load(file, mmap_mode="c")  # copy on write: PyTorch warns of arrays that cannot be written
    loader = data.DataLoader(
        data.TensorDataset(lib.from_numpy(images), lib.arange(len(images))),
        batch_size=BATCH, shuffle=True, num_workers=workers,
    )  # fmt: skip
    rng = np.random.default_rng()  # other images in each run, as the loader reads, so that no side finds them cached
    given = iter(loader)
    next(given)  # starts the workers
    loaded, bare = [], []
    for _ in range(batches // GROUP):
        start = time.perf_counter()
        for _ in islice(given, GROUP):
            pass
        loaded.append((time.perf_counter() - start) / GROUP)
        start = time.perf_counter()
        for _ in range(GROUP):
            images[rng.integers(0, len(images), BATCH)]
        bare.append((time.perf_counter() - start) / GROUP)
    seconds = statistics.median(loaded)
    return seconds, seconds - statistics.median(bare)


def main() -> None:
    """Write the data set if needed; measure both libraries in processes of their own and print the ratios."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("--gigabytes", type=float, default=10.0)
    parser.add_argument("--workers", type=int, nargs="*", default=[0, 2])
    parser.add_argument("--batches", type=int, default=2000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--library", choices=("retrograd", "torch"), help=argparse.SUPPRESS)  # in its own process
    options = parser.parse_args()
    if options.library:
        print(json.dumps(overhead(options.library, options.file, options.workers[0], options.batches)))
        return
    if not options.file.exists():
        write(options.file, round(options.gigabytes * 2**30))
    for workers in options.workers:
        found: dict[str, list[tuple[float, float]]] = {"torch": [], "retrograd": []}
        for library in list(found) * options.rounds:
            command = [sys.executable, "-m", "benchmarks.large_data_set", str(options.file), "--library", library]
            command += ["--workers", str(workers), "--batches", str(options.batches)]
            output = subprocess.run(command, cwd=ROOT, check=True, stdout=subprocess.PIPE, text=True).stdout
            found[library].append(json.loads(output))
        medians = {library: [statistics.median(each) for each in zip(*runs)] for library, runs in found.items()}
        for library, (seconds, beyond) in medians.items():
            print(f"{workers} workers, {library}: {1e6 * seconds:.0f} us a batch, {1e6 * beyond:.0f} of them overhead")
        times, beyond = (mine / theirs for mine, theirs in zip(medians["retrograd"], medians["torch"]))
        print(f"{workers} workers: {times:.2f} of PyTorch's time, {beyond:.2f} of its overhead")


if __name__ == "__main__":
    main()
