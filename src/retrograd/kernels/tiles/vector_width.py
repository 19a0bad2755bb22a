"""The width of the vector registers that loops use."""

from __future__ import annotations

from functools import cache

from ..runtime.levels import target


@cache
def width() -> int:
    """Return the bytes of a vector register: of the target, the open library's level, or this processor."""
    if target:
        return target[0].width
    from ..runtime import library

    opened = library.opened()
    if opened is not None:  # code compiled in memory must agree with the library
        return opened.level.width
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16


def wide(features: str) -> str:
    """Return a processor's features for LLVM, which by default uses half of a 64-byte register."""
    return f"{features},-prefer-256-bit" if "+avx512f" in features else features
