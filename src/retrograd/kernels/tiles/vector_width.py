"""The vector registers of this processor."""

from __future__ import annotations

from functools import cache


@cache
def width() -> int:
    """Bytes of a register."""
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16


def wide(features: str) -> str:
    """A processor's features for LLVM, which else takes half of a register where it has 64 bytes."""
    return f"{features},-prefer-256-bit" if "+avx512f" in features else features
