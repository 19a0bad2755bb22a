"""The vector registers of this processor."""

from __future__ import annotations

from functools import cache


@cache
def width() -> int:
    """Bytes of a register."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16
