"""The vector registers of the processor that loops run on."""

from __future__ import annotations

from functools import cache

from ..runtime.levels import target


@cache
def width() -> int:
    """Bytes of a register: of the target's, of the library's level where one is open, else of this processor's."""
    if target:
        return target[0].width
    from ..runtime import library

    opened = library.opened()
    if opened is not None:  # what is compiled beside it has to agree with it
        return opened.level.width
    import llvmlite.binding as llvm

    features = llvm.get_host_cpu_features()
    return 64 if features.get("avx512f") else 32 if features.get("avx2") else 16


def wide(features: str) -> str:
    """A processor's features for LLVM, which else takes half of a register where it has 64 bytes."""
    return f"{features},-prefer-256-bit" if "+avx512f" in features else features
