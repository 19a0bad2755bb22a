"""The levels of processors for which the library of loops is compiled: those of the psABI of x86-64, and aarch64."""

from __future__ import annotations

import platform
import sys
from functools import cache
from typing import NamedTuple


class Level(NamedTuple):
    """Processors that have all of some instructions."""

    name: str
    machine: str  # as ``platform.machine`` says it
    width: int  # bytes of a vector register
    flags: frozenset[str]  # what /proc/cpuinfo says of such a processor
    cpu: str  # LLVM's name of a processor that has just these instructions
    features: str  # that LLVM is to be told in addition
    triple: str  # LLVM's name of the system


_V3 = {"avx", "avx2", "bmi1", "bmi2", "f16c", "fma", "abm", "movbe", "xsave", "popcnt", "sse4_2", "ssse3", "cx16"}
_V4 = _V3 | {"avx512f", "avx512bw", "avx512cd", "avx512dq", "avx512vl"}
LEVELS = (  # the best ones first
    Level("x86-64-v4", "x86_64", 64, frozenset(_V4), "x86-64-v4", "-prefer-256-bit", "x86_64-unknown-linux-gnu"),
    Level("x86-64-v3", "x86_64", 32, frozenset(_V3), "x86-64-v3", "", "x86_64-unknown-linux-gnu"),
    Level("aarch64", "aarch64", 16, frozenset({"fp", "asimd"}), "generic", "", "aarch64-unknown-linux-gnu"),
)
target: list[Level] = []  # the level that a library is compiled for, in a process that compiles it


def machine() -> str:
    """The processor for which loops are compiled in this process, as ``platform.machine`` says it."""
    return target[0].machine if target else platform.machine()


def named(name: str) -> Level:
    """The level of a name.

    Raises:
        ValueError: there is none.
    """
    for level in LEVELS:
        if level.name == name:
            return level
    raise ValueError(f"expected one of the levels {[level.name for level in LEVELS]}, got {name!r}")


@cache
def usable() -> tuple[Level, ...]:
    """The levels whose code this processor runs, the best one first. None where there is no /proc/cpuinfo."""
    if sys.platform != "linux":
        return ()
    try:
        with open("/proc/cpuinfo") as file:
            lines = [line.partition(":")[2].split() for line in file if line.startswith(("flags", "Features"))]
    except OSError:
        return ()
    flags = frozenset.intersection(*map(frozenset, lines)) if lines else frozenset()  # what all its cores have
    return tuple(level for level in LEVELS if level.machine == platform.machine() and level.flags <= flags)
