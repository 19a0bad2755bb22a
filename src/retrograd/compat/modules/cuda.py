"""``cuda``: GPUs through CuPy. Without CuPy or a GPU, functions behave as in PyTorch's CPU build."""

from __future__ import annotations

from typing import Any

from ...core.arrays.devices import Device, cupy_backend, is_cuda_available
from ...core.tensor.tensor import Tensor
from ...ops.make.generators import default_generator
from ...ops.table.types import DeviceLike
from ..storages import CUDA_STORAGES
from ..types import CUDA_TYPES

globals().update(CUDA_TYPES)  # cuda.FloatTensor and other legacy constructors
globals().update(CUDA_STORAGES)

has_half = True
has_magma = False


class OutOfMemoryError(RuntimeError):
    """PyTorch's error for exhausted GPU memory. CuPy raises ``cupy.cuda.memory.OutOfMemoryError`` instead."""


def _cupy() -> Any:
    if not is_cuda_available():
        raise AssertionError("Retrograd found no GPU: CuPy is not installed, or no GPU is available")
    return cupy_backend().xp


def _index(device: DeviceLike | int | None) -> int:
    if device is None:
        return int(_cupy().cuda.runtime.getDevice())
    if isinstance(device, int):
        return device
    index = Device(device).index
    return int(_cupy().cuda.runtime.getDevice()) if index is None else index


def is_available() -> bool:
    """Return whether CuPy is installed and a GPU is available."""
    return is_cuda_available()


def is_initialized() -> bool:
    """Return ``is_available()``, which also initializes CUDA."""
    return is_cuda_available()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Return False: CuPy does not support bfloat16."""
    return False


def is_tf32_supported() -> bool:
    """Return False: no operator uses TF32."""
    return False


def init() -> None:
    """Raise an error unless a GPU is available."""
    _cupy()


def device_count() -> int:
    """Return the number of GPUs."""
    return int(_cupy().cuda.runtime.getDeviceCount()) if is_cuda_available() else 0


def current_device() -> int:
    """Return the index of the current GPU, which ``"cuda"`` refers to."""
    return _index(None)


def set_device(device: DeviceLike | int | None) -> None:
    """Select the current GPU."""
    _cupy().cuda.runtime.setDevice(_index(device))


class device:
    """A context manager that selects the current GPU. None and negative indices have no effect."""

    def __init__(self, device: DeviceLike | int | None) -> None:
        self.idx = -1 if device is None else device if isinstance(device, int) else Device(device).index or 0
        self._entered: Any = None

    def __enter__(self) -> None:
        if self.idx >= 0 and is_cuda_available():
            self._entered = _cupy().cuda.Device(self.idx)
            self._entered.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._entered is not None:
            self._entered.__exit__(*error)
            self._entered = None


class device_of(device):
    """A context manager that selects the GPU of a Tensor."""

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.device.index if obj.is_cuda else -1)


def get_device_name(device: DeviceLike | int | None = None) -> str:
    """Return the GPU's name."""
    name = get_device_properties(device)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def get_device_capability(device: DeviceLike | int | None = None) -> tuple[int, int]:
    """Return the GPU's compute capability, major and minor."""
    capability = _cupy().cuda.Device(_index(device)).compute_capability
    return int(capability[:-1]), int(capability[-1])


class DeviceProperties(dict[str, Any]):
    """CUDA's properties of a GPU, as items and as attributes."""

    def __getattr__(self, name: str) -> Any:
        other = {"total_memory": "totalGlobalMem", "multi_processor_count": "multiProcessorCount"}
        try:
            return self[other.get(name, name)]
        except KeyError:
            raise AttributeError(name) from None


def get_device_properties(device: DeviceLike | int | None = None) -> DeviceProperties:
    """Return CUDA's properties of a GPU, such as ``name``, ``total_memory`` and ``multi_processor_count``."""
    return DeviceProperties(_cupy().cuda.runtime.getDeviceProperties(_index(device)))


def synchronize(device: DeviceLike | int | None = None) -> None:
    """Wait until the GPU has finished its work."""
    _cupy().cuda.Device(_index(device)).synchronize()


# Memory of CuPy's pool


def _pool() -> Any:
    return _cupy().get_default_memory_pool()


def empty_cache() -> None:
    """Free cached memory that no array uses."""
    if is_cuda_available():
        _pool().free_all_blocks()


def memory_allocated(device: DeviceLike | int | None = None) -> int:
    """Return the bytes of GPU memory in use, 0 without a GPU."""
    return int(_pool().used_bytes()) if is_cuda_available() else 0


def memory_reserved(device: DeviceLike | int | None = None) -> int:
    """Return the bytes of GPU memory that the pool has reserved, 0 without a GPU."""
    return int(_pool().total_bytes()) if is_cuda_available() else 0


memory_cached = memory_reserved


def max_memory_allocated(device: DeviceLike | int | None = None) -> int:
    """Return the reserved bytes, an upper bound of the peak memory in use; 0 without a GPU."""
    return memory_reserved(device)


max_memory_reserved = max_memory_cached = max_memory_allocated


def reset_peak_memory_stats(device: DeviceLike | int | None = None) -> None:
    """Free cached memory, so that the peak starts from the memory in use."""
    empty_cache()


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def mem_get_info(device: DeviceLike | int | None = None) -> tuple[int, int]:
    """Return the free and the total bytes of GPU memory."""
    with _cupy().cuda.Device(_index(device)) as place:
        free, total = place.mem_info
    return int(free), int(total)


def memory_stats(device: DeviceLike | int | None = None) -> dict[str, int]:
    """Return the bytes in use and reserved, under PyTorch's names; empty without a GPU."""
    if not is_cuda_available():
        return {}
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
    }


def memory_summary(device: DeviceLike | int | None = None, abbreviated: bool = False) -> str:
    """Return the bytes in use and reserved as text."""
    return f"allocated: {memory_allocated(device)} bytes, reserved: {memory_reserved(device)} bytes"


def ipc_collect() -> None:
    """Do nothing but check for a GPU: memory is not shared between processes."""
    _cupy()


# Random numbers. One generator serves all devices.


def manual_seed(seed: int) -> None:
    """Seed the generator; without a GPU do nothing, as in PyTorch."""
    if is_cuda_available():
        default_generator.manual_seed(int(seed))


manual_seed_all = manual_seed


def seed() -> None:
    """Seed the generator from the operating system."""
    if is_cuda_available():
        default_generator.seed()


seed_all = seed


def initial_seed() -> int:
    """Return the seed of the generator."""
    _cupy()
    return int(default_generator.initial_seed())


def get_rng_state(device: DeviceLike | int = "cuda") -> Tensor:
    """Return the state of the generator."""
    _cupy()
    return default_generator.get_state()


def set_rng_state(new_state: Tensor, device: DeviceLike | int = "cuda") -> None:
    """Set the state of the generator."""
    _cupy()
    default_generator.set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """Return the state of the generator once per GPU."""
    return [default_generator.get_state()] * device_count()


def set_rng_state_all(new_states: list[Tensor]) -> None:
    """Set the state of the generator."""
    for state in new_states[:1]:
        default_generator.set_state(state)


# Streams and events


class Stream:
    """A queue of work on the GPU that runs concurrently with other streams.

    Raises:
        RuntimeError: no GPU is available.
    """

    def __init__(self, device: DeviceLike | int | None = None, priority: int = 0, stream: Any = None) -> None:
        if not is_cuda_available():
            raise RuntimeError("cuda.Stream requires a GPU: CuPy is not installed, or no GPU is available")
        self._stream = _cupy().cuda.Stream(non_blocking=True, priority=priority) if stream is None else stream

    def synchronize(self) -> None:
        """Wait until the stream's work is done."""
        self._stream.synchronize()

    def query(self) -> bool:
        """Return whether the stream's work is done."""
        return bool(self._stream.done)

    def wait_stream(self, stream: Stream) -> None:
        """Make further work wait for the other stream."""
        self._stream.wait_event(stream._stream.record())

    def wait_event(self, event: Event) -> None:
        """Make further work wait for the event."""
        self._stream.wait_event(event._event)

    def record_event(self, event: Event | None = None) -> Event:
        """Record an event after the work so far, and return it."""
        event = Event() if event is None else event
        event.record(self)
        return event


def current_stream(device: DeviceLike | int | None = None) -> Stream:
    """Return the current stream."""
    return Stream(stream=_cupy().cuda.get_current_stream())


def default_stream(device: DeviceLike | int | None = None) -> Stream:
    """Return the default stream."""
    return Stream(stream=_cupy().cuda.Stream.null)


class stream:
    """A context manager that selects the current stream. None has no effect."""

    def __init__(self, stream: Stream | None) -> None:
        self._chosen = stream

    def __enter__(self) -> None:
        if self._chosen is not None:
            self._chosen._stream.__enter__()

    def __exit__(self, *error: object) -> None:
        if self._chosen is not None:
            self._chosen._stream.__exit__(*error)


StreamContext = stream


class Event:
    """A point in the work of a stream. Programs can wait for it and measure the time between two events.

    Raises:
        RuntimeError: no GPU is available.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if not is_cuda_available():
            raise RuntimeError("cuda.Event requires a GPU: CuPy is not installed, or no GPU is available")
        self._event = _cupy().cuda.Event(block=blocking, disable_timing=not enable_timing, interprocess=interprocess)

    def record(self, stream: Stream | None = None) -> None:
        """Record the event after the work so far."""
        self._event.record(None if stream is None else stream._stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Make further work of a stream wait for the event."""
        (current_stream() if stream is None else stream).wait_event(self)

    def synchronize(self) -> None:
        """Wait for the event."""
        self._event.synchronize()

    def query(self) -> bool:
        """Return whether the event has happened."""
        return bool(self._event.done)

    def elapsed_time(self, end_event: Event) -> float:
        """Return the milliseconds from this event to another."""
        return float(_cupy().cuda.get_elapsed_time(self._event, end_event._event))
