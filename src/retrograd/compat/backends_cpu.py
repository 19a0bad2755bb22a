"""``backends.cpu``."""

from __future__ import annotations


def get_cpu_capability() -> str:
    """The vector instructions that PyTorch's own loops would use; Retrograd's are compiled for this machine."""
    return "DEFAULT"
