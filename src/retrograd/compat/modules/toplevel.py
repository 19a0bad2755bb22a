"""Names of PyTorch's top level: constants, limits of dtypes, global settings; and ``random`` and ``version``."""

from __future__ import annotations

import math
import re
import sys
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from types import ModuleType
from typing import Any, cast

import numpy as np

from ...core.arrays.dtypes import INEXACT, DType, as_dtype
from ...core.arrays.public_dtypes import NAMED_ONLY, dtype
from ...core.errors import describe
from ...core.tensor.tensor import Size, Tensor
from ...kernels.runtime.cores import count
from ...kernels.runtime.denormals import set_flush
from ...kernels.runtime.threads import set_count
from ...ops.make.filled import memory_fills
from ...ops.make.generators import default_generator as default_generator
from ...ops.make.generators import get_rng_state as get_rng_state
from ...ops.make.generators import initial_seed as initial_seed
from ...ops.make.generators import manual_seed as manual_seed
from ...ops.make.generators import seed as seed
from ...ops.make.generators import set_rng_state as set_rng_state
from ...ops.shape.conversion import get_default_dtype
from ...ops.table.types import DTypeLike, Number
from .. import storages
from ..types import layout as layout
from ..types import memory_format as memory_format
from .precision import GradScaler as GradScaler
from .precision import autocast as autocast
from .precision import clear_autocast_cache as clear_autocast_cache
from .precision import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from .precision import get_autocast_dtype as get_autocast_dtype
from .precision import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from .precision import is_autocast_available as is_autocast_available
from .precision import is_autocast_cache_enabled as is_autocast_cache_enabled
from .precision import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from .precision import is_autocast_enabled as is_autocast_enabled
from .precision import set_autocast_cache_enabled as set_autocast_cache_enabled
from .precision import set_autocast_dtype as set_autocast_dtype
from .precision import set_autocast_enabled as set_autocast_enabled

pi, e, inf, nan = math.pi, math.e, math.inf, math.nan
newaxis = None
chalf = NAMED_ONLY["complex32"]
bit = NAMED_ONLY["uint1"]
strided, sparse_coo, sparse_csr = layout("strided"), layout("sparse_coo"), layout("sparse_csr")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")


# (eps, max, min, tiny) of each dtype; finfo.resolution is 1 for all of them
_LIMITS = {
    "float8_e4m3fn": (2.0**-3, 448.0, -448.0, 2.0**-6),
    "float8_e4m3fnuz": (2.0**-3, 240.0, -240.0, 2.0**-7),
    "float8_e5m2": (2.0**-2, 57344.0, -57344.0, 2.0**-14),
    "float8_e5m2fnuz": (2.0**-3, 57344.0, -57344.0, 2.0**-15),
    "float8_e8m0fnu": (1.0, 2.0**127, 2.0**-127, 2.0**-127),
    "bfloat16": (2.0**-7, 2.0**128 - 2.0**120, -(2.0**128) + 2.0**120, 2.0**-126),
}


class finfo:
    """The limits of a floating-point dtype: ``eps``, ``max``, ``min``, ``tiny``, ``resolution``, ``bits``.

    >>> import retrograd as rg
    >>> rg.finfo(rg.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: DTypeLike | None = None) -> None:
        kind = get_default_dtype() if type is None else dtype(type)
        if not kind.is_floating_point and not kind.is_complex:
            raise TypeError(f"finfo: expected a floating-point dtype, got {kind.name}; use iinfo")
        part = kind.to_real()
        self.bits, self.dtype = 8 * part.itemsize, part.name
        self.resolution = 1.0
        if part.name in _LIMITS:
            self.eps, self.max, self.min, self.tiny = _LIMITS[part.name]
            if part.name == "bfloat16":
                self.resolution = 0.01
        else:
            limits = np.finfo(part)
            self.eps, self.max, self.min = float(limits.eps), float(limits.max), float(limits.min)
            self.tiny = float(limits.smallest_normal)
            self.resolution = 10.0**-limits.precision
        self.smallest_normal = self.tiny

    def __repr__(self) -> str:
        names = ["resolution", "min", "max", "eps", "smallest_normal", "tiny"]
        return f"finfo({', '.join(f'{name}={getattr(self, name):.6g}' for name in names)}, dtype={self.dtype})"


class iinfo:
    """The limits of an integer dtype: ``max``, ``min``, ``bits``.

    >>> import retrograd as rg
    >>> rg.iinfo(rg.int8).max
    127
    """

    def __init__(self, type: DTypeLike) -> None:
        kind = dtype(type)
        if kind.kind not in "iu":
            raise TypeError(f"iinfo: expected an integer dtype, got {kind.name}; use finfo")
        limits = np.iinfo(kind)
        self.bits, self.dtype = int(limits.bits), kind.name
        self.max, self.min = int(limits.max), int(limits.min)

    def __repr__(self) -> str:
        return f"iinfo(min={self.min}, max={self.max}, dtype={self.dtype})"


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Set how Tensors are printed.

    Args:
        precision: number of digits after the decimal point (4).
        threshold: number of elements above which the middle is omitted (1000).
        edgeitems: number of elements at each end of an abbreviated Tensor (3).
        linewidth: number of characters per line (75).
        profile: ``"default"``, ``"short"`` (2 digits, 2 elements at the ends) or ``"full"`` (all elements).
        sci_mode: True for scientific notation, False for none.
    """
    from ...core.tensor.printing import print_options

    profiles: dict[str, dict[str, object]] = {
        "default": {"precision": 4, "threshold": 1000, "edgeitems": 3},
        "short": {"precision": 2, "threshold": 1000, "edgeitems": 2},
        "full": {"precision": 4, "threshold": 2**62, "edgeitems": 3},
    }
    if profile is not None:
        if profile not in profiles:
            raise ValueError(f"set_printoptions: profile must be default, short or full, got {profile!r}")
        print_options.update(profiles[profile])
    given = {"precision": precision, "edgeitems": edgeitems, "max_line_width": linewidth}
    if threshold is not None:
        given["threshold"] = 2**62 if threshold == inf else int(threshold)
    print_options.update({key: value for key, value in given.items() if value is not None})
    if sci_mode:
        print_options["formatter"] = {"float_kind": lambda x: f"{x:.{print_options['precision']}e}"}
    elif sci_mode is False:
        print_options["suppress_small"] = True
        print_options.pop("formatter", None)


# Global settings. On the CPU all operators are deterministic and use full precision, whatever the settings are.

_deterministic = {"mode": False, "warn_only": False}
_matmul_precision = ["highest"]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Request deterministic results. On the CPU all results are deterministic, on a GPU those of scatters may vary.

    While the mode is on, ``empty`` and ``resize_`` fill new memory with NaN or the largest integer, unless
    ``torch.utils.deterministic.fill_uninitialized_memory`` is False.
    """
    for name, value in (("mode", mode), ("warn_only", warn_only)):
        if not isinstance(value, bool):
            raise TypeError(f"use_deterministic_algorithms: {name} must be a bool, got {describe(value)}")
    _deterministic.update(mode=mode, warn_only=warn_only)
    memory_fills[:] = [_memory_fill] if mode else []


def _memory_fill(dtype: DType) -> Number | None:
    module = sys.modules.get("retrograd.utils.deterministic")
    if not getattr(module, "fill_uninitialized_memory", True):
        return None
    if dtype.kind in INEXACT:
        return nan
    return True if dtype.kind == "b" else int(np.iinfo(dtype).max)


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """Call ``use_deterministic_algorithms`` for a mode: ``"default"``, ``"warn"`` or ``"error"``, or 0, 1 or 2."""
    modes = ("default", "warn", "error")
    if debug_mode not in (*modes, 0, 1, 2):
        raise RuntimeError(f"set_deterministic_debug_mode: expected default, warn or error, got {debug_mode!r}")
    level = modes.index(debug_mode) if isinstance(debug_mode, str) else debug_mode
    use_deterministic_algorithms(level > 0, warn_only=level == 1)


def get_deterministic_debug_mode() -> int:
    """Return 0 if deterministic algorithms are not requested, 1 if requested with ``warn_only``, else 2."""
    return 0 if not _deterministic["mode"] else 1 if _deterministic["warn_only"] else 2


def are_deterministic_algorithms_enabled() -> bool:
    """Return the last value of ``use_deterministic_algorithms``."""
    return _deterministic["mode"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """Return the last ``warn_only`` of ``use_deterministic_algorithms``."""
    return _deterministic["warn_only"]


def set_float32_matmul_precision(precision: str) -> None:
    """Set the precision of float32 products: ``"highest"``, ``"high"`` or ``"medium"``. It has no effect."""
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current setFloat32MatmulPrecision call has "
            "no effect",
            stacklevel=2,
        )
        return
    _matmul_precision[0] = precision


def get_float32_matmul_precision() -> str:
    """Return the last value of ``set_float32_matmul_precision``."""
    return _matmul_precision[0]


def _check_threads(function: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise RuntimeError(f"{function} expects an int, but got {type(number).__name__}")
    if number >= 2**31:
        raise ValueError(f"{function}: expected a number of threads below 2**31, got {number}")
    if number < 1:
        raise RuntimeError(f"{function}: expected a positive number, got {number}")


def set_num_threads(int: int) -> None:
    """Set the number of threads of Retrograd and of NumPy's BLAS, even for calls of NumPy outside Retrograd.

    Raises:
        RuntimeError: the number is not a positive integer.
        ValueError: the number is 2**31 or larger.

    >>> import retrograd.compat.modules.toplevel as torch
    >>> before = torch.get_num_threads()
    >>> torch.set_num_threads(1)
    >>> torch.get_num_threads()
    1
    >>> torch.set_num_threads(before)
    """
    _check_threads("set_num_threads", int)
    set_count(int)


def get_num_threads() -> int:
    """Return the number of threads: set by ``set_num_threads``, else ``OMP_NUM_THREADS``, else one per core."""
    return count()


def get_num_interop_threads() -> int:
    """Return 1: operators do not run in parallel with each other."""
    return 1


def set_num_interop_threads(int: int) -> None:
    """Check the number. It has no effect: operators do not run in parallel with each other."""
    _check_threads("set_num_interop_threads", int)


def set_flush_denormal(mode: bool) -> bool:
    """Flush subnormal numbers to zero on all threads that compute, or stop doing so.

    On x86, float32 products of at least 2^18 multiplications, convolutions, attention and recurrent layers always flush
    subnormal numbers: such numbers are frequent there, and an operation on one takes about 100 times as long.

    Returns:
        Whether the platform supports it: Linux, and macOS with an Intel processor.

    >>> import retrograd as rg, retrograd.compat.modules.toplevel as torch
    >>> if torch.set_flush_denormal(True):
    ...     print(float(rg.tensor(1e-38) * 0.01))
    ...     torch.set_flush_denormal(False)
    0.0
    True
    """
    return set_flush(mode)


def is_storage(obj: object) -> bool:
    """Return whether the object is a storage, as ``Tensor.storage()`` returns."""
    return isinstance(obj, (storages.TypedStorage, storages.UntypedStorage))


def typename(obj: object) -> str:
    """Return the name of an object's type: ``torch.FloatTensor`` for a Tensor of float32."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    return f"{type(obj).__module__}.{type(obj).__qualname__}"


def is_anomaly_enabled() -> bool:
    """Return whether anomaly mode is enabled."""
    from ...autograd.anomaly import is_anomaly_enabled

    return is_anomaly_enabled()


def broadcast_shapes(*shapes: int | Sequence[int]) -> Size:
    """Return the shape to which the given shapes broadcast.

    >>> import retrograd as rg
    >>> tuple(rg.broadcast_shapes((2, 1), (3,)))
    (2, 3)
    """
    try:
        return Size(np.broadcast_shapes(*[(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]))
    except ValueError as error:
        raise RuntimeError(f"broadcast_shapes: {error}") from None


def range(start: float = 0, end: float | None = None, step: float = 1, **options: Any) -> Tensor:
    """Return the numbers from start to end, both included. Deprecated in favor of ``arange``."""
    from ..._generated.toplevel import arange

    warnings.warn("torch.range is deprecated, since it includes its end; use torch.arange", UserWarning, stacklevel=2)
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) / step < 0:
        raise RuntimeError(f"range: step {step} does not lead from start {start} to end {end}")
    count = math.floor((end - start) / step) + 1

    def create(
        dtype: DTypeLike | None = None, device: Any = None, requires_grad: bool = False, layout: object = None
    ) -> Tensor:
        """Return the numbers. Floating-point numbers are computed in float64."""
        dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
        whole = dtype.kind in "iu" and isinstance(start, int) and isinstance(step, int)
        places = arange(count, dtype=np.int64 if whole else np.float64, device=device)
        return (places * step + start).to(dtype).requires_grad_(requires_grad)

    if "out" in options:
        from ..calls import call_into

        return cast("Tensor", call_into("range", create, (), options))
    return create(**options)


def scalar_tensor(s: Any, *, dtype: DTypeLike | None = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """Return a 0-d Tensor, by default of the default dtype."""
    from ..._generated.toplevel import tensor

    return tensor(s, dtype=get_default_dtype() if dtype is None else dtype, device=device, requires_grad=requires_grad)


def _assert(condition: Any, message: str) -> None:
    """Assert a condition, as a function that tracers can record."""
    if hasattr(type(condition), "__torch_function__") and not isinstance(condition, Tensor):
        type(condition).__torch_function__(_assert, (type(condition),), (condition, message), {})
    else:
        assert condition, message


def get_device_module(device: object = None) -> ModuleType:
    """Return the module of a device type: ``retrograd.cuda``."""
    return import_module("retrograd.cuda")


# ``random``


@contextmanager
def fork_rng(devices: object = None, enabled: bool = True, **options: object) -> Iterator[None]:
    """Restore the state of the random number generator at the end of a ``with`` statement.

    >>> import retrograd as rg
    >>> _ = rg.manual_seed(0)
    >>> with rg.random.fork_rng():
    ...     first = rg.rand(1)
    >>> bool(first == rg.rand(1))
    True
    """
    state = get_rng_state() if enabled else None
    try:
        yield
    finally:
        if state is not None:
            set_rng_state(state)


# ``version``: the version of PyTorch whose names and semantics Retrograd follows


class TorchVersion(str):
    """A version that compares with strings and tuples by its numbers.

    >>> from retrograd.compat.modules.toplevel import TorchVersion
    >>> TorchVersion("2.13.0") > "2.9", TorchVersion("2.13.0") >= (2, 13)
    (True, True)
    """

    __slots__ = ()

    def _numbers_of_both(self, other: object) -> tuple[list[int], list[int]]:
        pair = [_numbers(self), _numbers(other)]
        length = max(map(len, pair))
        own, others = (numbers + [0] * (length - len(numbers)) for numbers in pair)
        return own, others

    def __lt__(self, other: object) -> bool:
        own, others = self._numbers_of_both(other)
        return own < others

    def __le__(self, other: object) -> bool:
        own, others = self._numbers_of_both(other)
        return own <= others

    def __gt__(self, other: object) -> bool:
        return not self <= other

    def __ge__(self, other: object) -> bool:
        return not self < other

    def __eq__(self, other: object) -> bool:
        return isinstance(other, (str, tuple)) and self._numbers_of_both(other)[0] == self._numbers_of_both(other)[1]

    def __hash__(self) -> int:
        return str.__hash__(self)


def _numbers(version: object) -> list[int]:
    if isinstance(version, (tuple, list)):
        return [int(part) for part in version]
    return [int(part) for part in re.findall(r"\d+", str(version).partition("+")[0])]


__version__ = TorchVersion("2.13.0+retrograd")

NAMES: Mapping[str, str | Mapping[str, object]] = {
    "random": "default_generator fork_rng get_rng_state initial_seed manual_seed seed set_rng_state",
    "retrograd": """
        GradScaler _assert are_deterministic_algorithms_enabled autocast bit broadcast_shapes chalf channels_last
        channels_last_3d clear_autocast_cache contiguous_format e finfo get_autocast_cpu_dtype get_autocast_dtype
        get_autocast_gpu_dtype get_deterministic_debug_mode get_device_module get_float32_matmul_precision
        get_num_interop_threads get_num_threads iinfo inf is_anomaly_enabled is_autocast_available
        is_autocast_cache_enabled is_autocast_cpu_enabled is_autocast_enabled
        is_deterministic_algorithms_warn_only_enabled is_storage layout memory_format nan newaxis pi preserve_format
        range scalar_tensor set_autocast_cache_enabled set_autocast_dtype set_autocast_enabled
        set_deterministic_debug_mode set_float32_matmul_precision set_flush_denormal set_num_interop_threads
        set_num_threads set_printoptions sparse_coo sparse_csr strided typename use_deterministic_algorithms
    """,
    "retrograd.dtypes": NAMED_ONLY,
    "version": {"TorchVersion": TorchVersion, "cuda": None, "debug": False, "git_version": "unknown", "hip": None},
}
