"""The processor levels for which the library of loops is compiled: those of the x86-64 psABI, and aarch64."""

from __future__ import annotations

import platform
import sys
from functools import cache

from ...core.named_tuples import NamedTuple


class Level(NamedTuple):
    """The processors that support a set of instructions."""

    name: str
    machine: str  # the result of ``platform.machine``
    width: int  # bytes of a vector register
    flags: frozenset[str]  # the required flags in /proc/cpuinfo
    cpu: str  # LLVM's name of the processor with exactly these instructions
    features: str  # additional LLVM features
    triple: str  # LLVM's target triple


_V3 = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave", "popcnt", "sse4_2", "ssse3", "cx16"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS = (  # in descending order of preference
    Level("x86-64-v4", "x86_64", 64, frozenset(_V4), "x86-64-v4", "-prefer-256-bit", "x86_64-unknown-linux-gnu"),
    Level("x86-64-v3", "x86_64", 32, frozenset(_V3), "x86-64-v3", "", "x86_64-unknown-linux-gnu"),
    Level("aarch64", "aarch64", 16, frozenset({"fp", "asimd"}), "generic", "", "aarch64-unknown-linux-gnu"),
)
target: list[Level] = []  # the level for which this process builds a library, if it builds a library


def machine() -> str:
    """Return the processor for which this process compiles loops, in the form of ``platform.machine``."""
    return target[0].machine if target else platform.machine()


def named(name: str) -> Level:
    """Return the level with a name.

    Raises:
        ValueError: no level has this name.
    """
    for level in LEVELS:
        if level.name == name:
            return level
    raise ValueError(f"expected one of the levels {[level.name for level in LEVELS]}, got {name!r}")


def _flags() -> frozenset[str]:
    """Return the flags that all cores of this processor have; none without /proc/cpuinfo."""
    if sys.platform != "linux":
        return frozenset()
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line.partition(":")[2].split() for line in file if line.startswith(("flags", "Features"))]
    except OSError:
        return frozenset()
    return frozenset.intersection(*map(frozenset, lines)) if lines else frozenset()


@cache
def usable() -> tuple[Level, ...]:
    """Return the levels that this processor supports, best first; an empty tuple without /proc/cpuinfo."""
    return tuple(level for level in LEVELS if level.machine == platform.machine() and level.flags <= _flags())


@cache
def multiplies_bfloat16() -> bool:
    """Return whether this processor has an instruction for products of bfloat16, in registers of 64 bytes."""
    return "avx512_bf16" in _flags() and bool(usable()) and usable()[0].width == 64
