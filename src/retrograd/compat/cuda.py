"""``cuda``: what there is of GPUs, truthfully. Without CuPy or a GPU everything answers as PyTorch's CPU build does."""

from __future__ import annotations

from typing import Any

from ..core.arrays.devices import Device, cupy_backend, is_cuda_available
from ..core.tensor.tensor import Tensor
from ..ops.make.generators import default_generator
from .constructors import CUDA_TYPES

globals().update(CUDA_TYPES)  # cuda.FloatTensor and its kind

has_half = True
has_magma = False


class OutOfMemoryError(RuntimeError):
    """The GPU's memory is used up. CuPy raises an error of its own, ``cupy.cuda.memory.OutOfMemoryError``."""


def _cupy() -> Any:
    if not is_cuda_available():
        raise AssertionError("Retrograd finds no GPU: CuPy is not installed, or no GPU answers")
    return cupy_backend().xp


def _index(device: Any) -> int:
    if device is None:
        return int(_cupy().cuda.runtime.getDevice())
    if isinstance(device, int):
        return device
    index = Device(device).index
    return int(_cupy().cuda.runtime.getDevice()) if index is None else index


def is_available() -> bool:
    """Whether CuPy is installed and a GPU answers."""
    return is_cuda_available()


def is_initialized() -> bool:
    """Whether a GPU is in use: as ``is_available``, which finds out."""
    return is_cuda_available()


def is_bf16_supported(including_emulation: bool = True) -> bool:
    """Whether bfloat16 can be used on the GPU: not by CuPy."""
    return False


def is_tf32_supported() -> bool:
    """Whether products of float32 can be computed in TF32: no operator here does."""
    return False


def init() -> None:
    """See that there is a GPU."""
    _cupy()


def device_count() -> int:
    """The number of GPUs."""
    return int(_cupy().cuda.runtime.getDeviceCount()) if is_cuda_available() else 0


def current_device() -> int:
    """The number of the GPU that ``"cuda"`` means."""
    return _index(None)


def set_device(device: Any) -> None:
    """Let ``"cuda"`` mean this GPU."""
    _cupy().cuda.runtime.setDevice(_index(device))


class device:
    """A context manager in which ``"cuda"`` means another GPU; None and negative numbers change nothing."""

    def __init__(self, device: Any) -> None:
        self.idx = -1 if device is None else device if isinstance(device, int) else Device(device).index or 0
        self._entered: Any = None

    def __enter__(self) -> None:
        if self.idx >= 0 and is_cuda_available():
            self._entered = _cupy().cuda.Device(self.idx)
            self._entered.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._entered is not None:
            self._entered.__exit__(*error)
            self._entered = None


class device_of(device):
    """As ``device``, of the GPU that holds a Tensor."""

    def __init__(self, obj: Tensor) -> None:
        super().__init__(obj.device.index if obj.is_cuda else -1)


def get_device_name(device: Any = None) -> str:
    """The GPU's name."""
    name = get_device_properties(device)["name"]
    return name.decode() if isinstance(name, bytes) else str(name)


def get_device_capability(device: Any = None) -> tuple[int, int]:
    """The GPU's compute capability, major and minor."""
    capability = _cupy().cuda.Device(_index(device)).compute_capability
    return int(capability[:-1]), int(capability[-1])


class DeviceProperties(dict[str, Any]):
    """What CUDA says of a GPU, as items and as attributes."""

    def __getattr__(self, name: str) -> Any:
        other = {"total_memory": "totalGlobalMem", "multi_processor_count": "multiProcessorCount"}
        try:
            return self[other.get(name, name)]
        except KeyError:
            raise AttributeError(name) from None


def get_device_properties(device: Any = None) -> DeviceProperties:
    """What CUDA says of a GPU: ``name``, ``total_memory``, ``major``, ``minor``, ``multi_processor_count``."""
    return DeviceProperties(_cupy().cuda.runtime.getDeviceProperties(_index(device)))


def synchronize(device: Any = None) -> None:
    """Wait until the GPU has done what it was given."""
    _cupy().cuda.Device(_index(device)).synchronize()


# Memory, of CuPy's pool


def _pool() -> Any:
    return _cupy().get_default_memory_pool()


def empty_cache() -> None:
    """Give memory back that no array uses."""
    if is_cuda_available():
        _pool().free_all_blocks()


def memory_allocated(device: Any = None) -> int:
    """Bytes of GPU memory in use; 0 without a GPU."""
    return int(_pool().used_bytes()) if is_cuda_available() else 0


def memory_reserved(device: Any = None) -> int:
    """Bytes of GPU memory held; 0 without a GPU."""
    return int(_pool().total_bytes()) if is_cuda_available() else 0


memory_cached = memory_reserved


def max_memory_allocated(device: Any = None) -> int:
    """Bytes of GPU memory held, which is at least what was ever in use; 0 without a GPU."""
    return memory_reserved(device)


max_memory_reserved = max_memory_cached = max_memory_allocated


def reset_peak_memory_stats(device: Any = None) -> None:
    """Give memory back that no array uses, so that the peak starts from what is in use."""
    empty_cache()


reset_max_memory_allocated = reset_max_memory_cached = reset_peak_memory_stats


def mem_get_info(device: Any = None) -> tuple[int, int]:
    """Bytes of GPU memory that are free, and all."""
    with _cupy().cuda.Device(_index(device)) as place:
        free, total = place.mem_info
    return int(free), int(total)


def memory_stats(device: Any = None) -> dict[str, int]:
    """Bytes in use and held, under PyTorch's names; empty without a GPU."""
    if not is_cuda_available():
        return {}
    return {
        "allocated_bytes.all.current": memory_allocated(device),
        "reserved_bytes.all.current": memory_reserved(device),
    }


def memory_summary(device: Any = None, abbreviated: bool = False) -> str:
    """Bytes in use and held, in words."""
    return f"allocated: {memory_allocated(device)} bytes, reserved: {memory_reserved(device)} bytes"


def ipc_collect() -> None:
    """Give memory back that other processes have released."""
    _cupy()


# Random numbers come from one generator, wherever they go


def manual_seed(seed: int) -> None:
    """Seed the random numbers of the GPU; without one nothing changes, as in PyTorch."""
    if is_cuda_available():
        default_generator.manual_seed(int(seed))


manual_seed_all = manual_seed


def seed() -> None:
    """Seed the random numbers of the GPU from the system."""
    if is_cuda_available():
        default_generator.seed()


seed_all = seed


def initial_seed() -> int:
    """What the random numbers were seeded with."""
    _cupy()
    return int(default_generator.initial_seed())


def get_rng_state(device: Any = "cuda") -> Tensor:
    """The state of the random numbers."""
    _cupy()
    return default_generator.get_state()


def set_rng_state(new_state: Tensor, device: Any = "cuda") -> None:
    """Set the state of the random numbers."""
    _cupy()
    default_generator.set_state(new_state)


def get_rng_state_all() -> list[Tensor]:
    """The state of the random numbers per GPU: none without one."""
    return [default_generator.get_state()] * device_count()


def set_rng_state_all(new_states: list[Tensor]) -> None:
    """Set the state of the random numbers per GPU."""
    for state in new_states[:1]:
        default_generator.set_state(state)


# Streams and events


class Stream:
    """A queue of work on the GPU, which runs beside the others.

    Raises:
        RuntimeError: there is no GPU.
    """

    def __init__(self, device: Any = None, priority: int = 0, stream: Any = None) -> None:
        if not is_cuda_available():
            raise RuntimeError("cuda.Stream requires a GPU: CuPy is not installed, or no GPU answers")
        self._stream = _cupy().cuda.Stream(non_blocking=True, priority=priority) if stream is None else stream

    def synchronize(self) -> None:
        """Wait until its work is done."""
        self._stream.synchronize()

    def query(self) -> bool:
        """Whether its work is done."""
        return bool(self._stream.done)

    def wait_stream(self, stream: Stream) -> None:
        """Begin further work after the other stream's."""
        self._stream.wait_event(stream._stream.record())

    def wait_event(self, event: Event) -> None:
        """Begin further work after the event."""
        self._stream.wait_event(event._event)

    def record_event(self, event: Event | None = None) -> Event:
        """An event after the work so far."""
        event = Event() if event is None else event
        event.record(self)
        return event


def current_stream(device: Any = None) -> Stream:
    """The stream that work goes to."""
    return Stream(stream=_cupy().cuda.get_current_stream())


def default_stream(device: Any = None) -> Stream:
    """The stream that work goes to where nothing else is said."""
    return Stream(stream=_cupy().cuda.Stream.null)


class stream:
    """A context manager in which work goes to a stream; None changes nothing."""

    def __init__(self, stream: Stream | None) -> None:
        self._chosen = stream

    def __enter__(self) -> None:
        if self._chosen is not None:
            self._chosen._stream.__enter__()

    def __exit__(self, *error: Any) -> None:
        if self._chosen is not None:
            self._chosen._stream.__exit__(*error)


StreamContext = stream


class Event:
    """A point in the work of a stream, which can be waited for and timed.

    Raises:
        RuntimeError: there is no GPU.
    """

    def __init__(self, enable_timing: bool = False, blocking: bool = False, interprocess: bool = False) -> None:
        if not is_cuda_available():
            raise RuntimeError("cuda.Event requires a GPU: CuPy is not installed, or no GPU answers")
        self._event = _cupy().cuda.Event(block=blocking, disable_timing=not enable_timing, interprocess=interprocess)

    def record(self, stream: Stream | None = None) -> None:
        """Put the event after the work so far."""
        self._event.record(None if stream is None else stream._stream)

    def wait(self, stream: Stream | None = None) -> None:
        """Let a stream begin further work after the event."""
        (current_stream() if stream is None else stream).wait_event(self)

    def synchronize(self) -> None:
        """Wait for the event."""
        self._event.synchronize()

    def query(self) -> bool:
        """Whether it has happened."""
        return bool(self._event.done)

    def elapsed_time(self, end_event: Event) -> float:
        """Milliseconds from this event to another."""
        return float(_cupy().cuda.get_elapsed_time(self._event, end_event._event))
