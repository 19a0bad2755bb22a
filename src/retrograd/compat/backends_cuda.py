"""``backends.cuda``: switches for products and attention on GPUs, which may be set and change nothing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

from ..core.arrays.devices import is_cuda_available

matmul = SimpleNamespace(
    allow_tf32=False, allow_fp16_reduced_precision_reduction=True, allow_bf16_reduced_precision_reduction=True
)
cufft_plan_cache = SimpleNamespace(max_size=0, size=0, clear=lambda: None)
_sdp = {"flash": False, "mem_efficient": False, "math": True, "cudnn": False}


def is_built() -> bool:
    """Whether GPUs can be used: where CuPy is installed and one answers."""
    return is_cuda_available()


def flash_sdp_enabled() -> bool:
    """Whether attention may use this kernel: there is one way of computing it."""
    return _sdp["flash"]


def mem_efficient_sdp_enabled() -> bool:
    """Whether attention may use this kernel: there is one way of computing it."""
    return _sdp["mem_efficient"]


def math_sdp_enabled() -> bool:
    """Whether attention may be computed by plain products: it is."""
    return _sdp["math"]


def enable_flash_sdp(enabled: bool) -> None:
    """Allow a kernel; attention is computed in one way."""
    _sdp["flash"] = bool(enabled)


def enable_mem_efficient_sdp(enabled: bool) -> None:
    """Allow a kernel; attention is computed in one way."""
    _sdp["mem_efficient"] = bool(enabled)


def enable_math_sdp(enabled: bool) -> None:
    """Allow a kernel; attention is computed in one way."""
    _sdp["math"] = bool(enabled)


@contextmanager
def sdp_kernel(**allowed: Any) -> Iterator[None]:
    """Allowed kernels for the time of a block; attention is computed in one way."""
    yield
