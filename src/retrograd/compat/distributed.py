"""``distributed`` where no group of processes can be made: programs ask, and go on with one process."""

from __future__ import annotations


def is_available() -> bool:
    """Whether processes can work together: they cannot."""
    return False


def is_initialized() -> bool:
    """Whether this process works with others: no."""
    return False


def is_torchelastic_launched() -> bool:
    """Whether PyTorch's launcher started this process: no."""
    return False
