"""A language model of GPT-2's size (124 million parameters): memory and time of training, and time of generation.

    python -m benchmarks.language [--threads 2] [--rounds 3] [--steps 3] [--tokens 60]

Training is ``workloads.gpt_124m``, in these ways: ``before`` clears gradients before the forward pass, ``after`` does
so after it (then old gradients are in memory beside the activations), ``hooks`` updates each parameter in a hook as
soon as its gradient is complete and frees the gradient, without clipping. Generation is greedy with a cache of keys
and values, after a prompt of 32 tokens; the tokens of both libraries are compared. Each measurement runs in its own
process, alternating. ``cpu`` is user time of the processor, which other load on the machine affects less.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

from .worker import number, resident
from .workloads import GPT_124M, Step, floats, gpt

ROOT = Path(__file__).resolve().parent.parent
WAYS = ("before", "after", "hooks")
LIBRARIES = ("retrograd", "retrograd-compiled", "torch")


def training(lib: Any, way: str) -> Step:
    """Return a training step."""

    def made(lib: Any, model: Any, optimizer: Any, x: Any, y: Any, clip: float) -> Step:
        F = lib.nn.functional
        if way == "hooks":
            settings = {name: optimizer.defaults[name] for name in ("lr", "betas", "weight_decay")}
            optimizers = {p: lib.optim.AdamW([p], **settings) for p in model.parameters()}

            def update(parameter: Any) -> None:
                optimizers[parameter].step()
                optimizers[parameter].zero_grad()

            for parameter in optimizers:
                parameter.register_post_accumulate_grad_hook(update)

        def step() -> Any:
            if way == "before":
                optimizer.zero_grad()
            loss = F.cross_entropy(model(x).flatten(0, -2), y)
            if way == "after":
                optimizer.zero_grad()
            loss.backward()
            if way != "hooks":
                lib.nn.utils.clip_grad_norm_(model.parameters(), clip)
                optimizer.step()
            return loss

        return step

    return gpt(lib, **GPT_124M, step_of=made)


def train(library: str, way: str, steps: int) -> dict[str, Any]:
    """Measure a training step."""
    lib, compiled = import_module(library.partition("-")[0]), library.endswith("compiled")
    step = training(lib, way)
    step = lib.compile(step) if compiled else step
    figures: dict[str, Any] = {"first": number(step())}
    Path("/proc/self/clear_refs").write_text("5")  # reset the peak: state and programs exist from now on
    step()
    cpu, start = resource.getrusage(resource.RUSAGE_SELF).ru_utime, time.perf_counter()
    for _ in range(steps):
        step()
    figures["seconds"] = (time.perf_counter() - start) / steps
    figures["cpu"] = (resource.getrusage(resource.RUSAGE_SELF).ru_utime - cpu) / steps
    return figures | {"peak": resident("VmHWM")}


def generate(library: str, tokens: int) -> dict[str, Any]:
    """Measure a token of greedy generation."""
    import retrograd
    from retrograd.models import GPT2

    ours = GPT2(vocabulary=50257, context=1024, layers=12, heads=12, channels=768)
    with retrograd.no_grad():
        for seed, (name, parameter) in enumerate(ours.named_parameters()):
            if "norm" not in name:
                parameter.copy_(retrograd.from_numpy(floats(seed, *parameter.shape) * 0.02))
    prompt = [464, 3290, 318, 257] * 8
    if library == "torch":
        from .in_torch import generator

        run = generator({name: value.numpy() for name, value in ours.state_dict().items()})
    else:

        def run(prompt: list[int], count: int) -> list[int]:
            return retrograd.models.generate(ours, prompt, count, temperature=0)

    run(prompt, 2)
    cpu, start = resource.getrusage(resource.RUSAGE_SELF).ru_utime, time.perf_counter()
    found = run(prompt, tokens)
    seconds, used = time.perf_counter() - start, resource.getrusage(resource.RUSAGE_SELF).ru_utime - cpu
    return {"seconds": seconds / tokens, "cpu": used / tokens, "first": found, "peak": resident("VmHWM")}


def child(library: str, way: str, count: int, threads: int) -> dict[str, Any]:
    """Run a measurement in a new process."""
    variables = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")
    command = [sys.executable, "-m", "benchmarks.language", "--measure", library, way, str(count)]
    environment = os.environ | dict.fromkeys(variables, str(threads))
    result = subprocess.run(command, cwd=ROOT, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(result.stdout)
    return found


def measure(
    ways: Sequence[str], libraries: Sequence[str], threads: int, rounds: int, steps: int, tokens: int
) -> dict[str, dict[str, dict[str, Any]]]:
    """Return results by way and library: medians, and the seconds of each round. Report first results that differ."""
    results: dict[str, dict[str, dict[str, Any]]] = {}
    for way in ways:
        count = tokens if way == "generation" else steps
        used = [x for x in libraries if x != "retrograd-compiled" or way not in ("generation", "hooks")]
        runs: dict[str, list[dict[str, Any]]] = {library: [] for library in used}
        for _ in range(rounds):
            for library, found in runs.items():
                found.append(child(library, way, count, threads))
        first = {library: found[0]["first"] for library, found in runs.items()}
        if len({str(x if isinstance(x, list) else round(x, 4)) for x in first.values()}) > 1:
            print(f"{way}: first results differ: {first}", file=sys.stderr)
        results[way] = {
            library: {name: statistics.median(x[name] for x in found) for name in ("peak", "cpu")}
            | {
                "rounds": [x["seconds"] for x in found],
                "seconds_median": statistics.median(x["seconds"] for x in found),
            }
            for library, found in runs.items()
        }
    return results


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.language", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, "generation"], default=[*WAYS, "generation"])
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=LIBRARIES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        library, way, count = options.measure
        if library == "torch":
            import_module("torch").set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        print(json.dumps(generate(library, int(count)) if way == "generation" else train(library, way, int(count))))
        return
    results = measure(options.ways, options.libraries, options.threads, options.rounds, options.steps, options.tokens)
    print("| what | library | peak, MB | over PyTorch's | seconds | over PyTorch's | cpu over PyTorch's |")
    print("|---|---|---:|---:|---:|---:|---:|")
    for way, found in results.items():
        for library, mine in found.items():
            over = {name: mine[name] / found.get("torch", mine)[name] for name in ("peak", "seconds_median", "cpu")}
            print(
                f"| {way} | {library} | {mine['peak'] / 1e6:.0f} | {over['peak']:.2f} | {mine['seconds_median']:.3f} | "
                f"{over['seconds_median']:.2f} | {over['cpu']:.2f} |"
            )


if __name__ == "__main__":
    main()
