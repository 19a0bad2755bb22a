"""Devices and backends: ``accelerator``, ``cpu``, ``mps``, ``cuda.nvtx`` and ``backends``.

``mps``, ``xpu``, ``mtia`` and the backends of PyTorch's own kernels are absent, so their functions return constants,
and their switches can be set without effect. ``NAMES`` lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from types import SimpleNamespace

from ...core.arrays.devices import Device, is_cuda_available
from ...ops.table.types import DeviceLike
from . import cuda


def constants(value: object, names: str) -> dict[str, Callable[..., object]]:
    """Return functions of the given names that accept any arguments and return a constant."""

    def function_named(name: str) -> Callable[..., object]:
        def constant(*args: object, **kwargs: object) -> object:
            return value

        constant.__name__ = constant.__qualname__ = name
        constant.__doc__ = f"Return {value!r}."
        return constant

    return {name: function_named(name) for name in names.split()}


@contextmanager
def flags(*args: object, **kwargs: object) -> Iterator[None]:
    """Return a context manager that has no effect."""
    yield


@contextmanager
def cudnn_flags(**settings: object) -> Iterator[None]:
    """Set switches of ``backends.cudnn`` inside a ``with`` statement."""
    import retrograd.backends.cudnn as module  # type: ignore[import-not-found]

    before = {name: getattr(module, name) for name in settings}
    vars(module).update(settings)
    try:
        yield
    finally:
        vars(module).update(before)


# Attention on GPUs. The switches of PyTorch's kernels are stored and have no effect.

_attention_kernels = {"flash": False, "mem_efficient": False, "math": True}


def _attention_switches(kernel: str) -> dict[str, Callable[..., object]]:
    def is_enabled() -> bool:
        """Return the last value set. The value has no effect: attention has one implementation."""
        return _attention_kernels[kernel]

    def enable(enabled: bool) -> None:
        """Store the value. It has no effect: attention has one implementation."""
        _attention_kernels[kernel] = bool(enabled)

    is_enabled.__name__ = is_enabled.__qualname__ = f"{kernel}_sdp_enabled"
    enable.__name__ = enable.__qualname__ = f"enable_{kernel}_sdp"
    return {function.__name__: function for function in (is_enabled, enable)}


# ``accelerator``


def current_accelerator(check_available: bool = False) -> Device | None:
    """Return the device type of the GPU, None without one."""
    return Device("cuda") if cuda.is_available() else None


class device_index(cuda.device):
    """A context manager that selects the current GPU by its index. None has no effect."""

    def __enter__(self) -> None:
        if self.idx >= 0 and not cuda.is_available():
            raise RuntimeError(f"device_index({self.idx}): no GPU is available")
        super().__enter__()


def synchronize(device: DeviceLike | int | None = None) -> None:
    """Wait until the GPU has finished, if one is available."""
    if cuda.is_available():
        cuda.synchronize(device)


# ``cuda.nvtx``


def range_push(msg: str) -> int:
    """Begin a range in the profiles of NVIDIA's tools."""
    cuda._cupy().cuda.nvtx.RangePush(msg)
    return 0


def range_pop() -> int:
    """End the last range."""
    cuda._cupy().cuda.nvtx.RangePop()
    return 0


@contextmanager
def named_range(msg: str, *args: object, **kwargs: object) -> Iterator[None]:
    """Name a part of the program in the profiles of NVIDIA's tools. Without a GPU it has no effect."""
    if not cuda.is_available():
        yield
        return
    range_push(msg.format(*args, **kwargs))
    try:
        yield
    finally:
        range_pop()


def mark(msg: str) -> None:
    """Mark this moment in the profiles of NVIDIA's tools."""
    cuda._cupy().cuda.nvtx.Mark(msg)


_MEMORY = """
    empty_cache max_memory_allocated max_memory_reserved memory_allocated memory_reserved memory_stats
    reset_peak_memory_stats
"""
NAMES: Mapping[str, str | Mapping[str, object]] = {
    "accelerator": {
        "is_available": cuda.is_available,
        "device_count": cuda.device_count,
        "current_accelerator": current_accelerator,
        **dict.fromkeys(("current_device_index", "current_device_idx"), cuda.current_device),
        **dict.fromkeys(("set_device_index", "set_device_idx"), cuda.set_device),
        "device_index": device_index,
        "synchronize": synchronize,
        "get_memory_info": cuda.mem_get_info,
        **{name: getattr(cuda, name) for name in _MEMORY.split()},
    },
    "cpu": {
        **constants(True, "is_available"),
        **constants(1, "device_count"),
        **constants("cpu", "current_device"),
        **constants(None, "set_device synchronize"),
        **constants(nullcontext(), "stream"),
    },
    "cuda.nvtx": "mark range=named_range range_pop range_push",
    "mps": {
        **constants(False, "is_available"),
        **constants(0, "current_allocated_memory device_count driver_allocated_memory recommended_max_memory"),
        **constants(None, "empty_cache manual_seed synchronize"),
    },
    "xpu": {
        **constants(False, "is_available is_bf16_supported is_initialized"),
        **constants(
            0, "current_device device_count max_memory_allocated max_memory_reserved memory_allocated memory_reserved"
        ),
        **constants(None, "empty_cache manual_seed manual_seed_all reset_peak_memory_stats set_device synchronize"),
    },
    "backends.quantized": {"engine": "none", "supported_engines": ["none"]},
    "absent": {
        "enabled": False,
        "allow_tf32": False,
        "strategy": None,
        **constants(False, "is_available is_built is_macos13_or_newer is_macos_or_newer"),
        "flags": flags,
    },
    "backends.cpu": constants("DEFAULT", "get_cpu_capability"),
    "backends.cuda": {
        "matmul": SimpleNamespace(
            allow_tf32=False,
            allow_fp16_reduced_precision_reduction=True,
            allow_bf16_reduced_precision_reduction=True,
        ),
        "cufft_plan_cache": SimpleNamespace(max_size=0, size=0, clear=lambda: None),
        "is_built": is_cuda_available,
        "sdp_kernel": flags,
        **_attention_switches("flash"),
        **_attention_switches("math"),
        **_attention_switches("mem_efficient"),
    },
    "backends.cudnn": {
        "enabled": True,
        "benchmark": False,
        "deterministic": False,
        "allow_tf32": True,
        "benchmark_limit": 10,
        **constants(False, "is_acceptable is_available"),
        **constants(None, "version"),
        "flags": cudnn_flags,
    },
}
