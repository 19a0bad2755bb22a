"""Legacy and rarer names of PyTorch's top level: constants, limits of dtypes, switches of how programs run."""

from __future__ import annotations

import math
import warnings
from typing import Any, cast

import numpy as np

from ..core.arrays.dtypes import INEXACT, as_dtype, get_default_dtype
from ..core.tensor.tensor import Tensor
from ..kernels.runtime.cores import count
from ..kernels.runtime.denormals import set_flush
from ..kernels.runtime.threads import set_count
from .amp import GradScaler as GradScaler
from .amp import autocast as autocast
from .autocast import clear_autocast_cache as clear_autocast_cache
from .autocast import get_autocast_cpu_dtype as get_autocast_cpu_dtype
from .autocast import get_autocast_dtype as get_autocast_dtype
from .autocast import get_autocast_gpu_dtype as get_autocast_gpu_dtype
from .autocast import is_autocast_available as is_autocast_available
from .autocast import is_autocast_cache_enabled as is_autocast_cache_enabled
from .autocast import is_autocast_cpu_enabled as is_autocast_cpu_enabled
from .autocast import is_autocast_enabled as is_autocast_enabled
from .autocast import set_autocast_cache_enabled as set_autocast_cache_enabled
from .autocast import set_autocast_dtype as set_autocast_dtype
from .autocast import set_autocast_enabled as set_autocast_enabled
from .bfloat16 import bfloat16 as bfloat16
from .types import layout as layout
from .types import memory_format as memory_format

pi, e, inf, nan = math.pi, math.e, math.inf, math.nan
newaxis = None
dtype = np.dtype
strided, sparse_coo, sparse_csr = layout("strided"), layout("sparse_coo"), layout("sparse_csr")
contiguous_format, preserve_format = memory_format("contiguous_format"), memory_format("preserve_format")
channels_last, channels_last_3d = memory_format("channels_last"), memory_format("channels_last_3d")


class finfo:
    """The limits of a floating dtype: ``eps``, ``max``, ``min``, ``tiny``, ``resolution``, ``bits``.

    >>> import retrograd as rg
    >>> rg.finfo(rg.float32).eps
    1.1920928955078125e-07
    """

    def __init__(self, type: Any = None) -> None:
        kind = get_default_dtype() if type is None else np.dtype(type)
        if kind.kind not in INEXACT:
            raise TypeError(f"finfo: wanted a floating dtype, got {kind}; use iinfo")
        limits: Any = np.finfo(kind) if kind.kind == "f" else _ml_dtypes().finfo(kind)
        self.bits = int(limits.bits)
        self.dtype = str(limits.dtype)
        self.eps, self.max, self.min = float(limits.eps), float(limits.max), float(limits.min)
        self.tiny = self.smallest_normal = float(limits.smallest_normal)
        self.resolution = float(limits.resolution)

    def __repr__(self) -> str:
        return f"finfo({', '.join(f'{name}={value}' for name, value in vars(self).items())})"


def _ml_dtypes() -> Any:
    import ml_dtypes

    return ml_dtypes


class iinfo:
    """The limits of an integer dtype: ``max``, ``min``, ``bits``.

    >>> import retrograd as rg
    >>> rg.iinfo(rg.int8).max
    127
    """

    def __init__(self, type: Any) -> None:
        kind = np.dtype(type)
        if kind.kind not in "iu":
            raise TypeError(f"iinfo: wanted an integer dtype, got {kind}; use finfo")
        limits = np.iinfo(kind)
        self.bits, self.dtype = int(limits.bits), str(kind)
        self.max, self.min = int(limits.max), int(limits.min)

    def __repr__(self) -> str:
        return f"iinfo({', '.join(f'{name}={value}' for name, value in vars(self).items())})"


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
        precision: digits after the point (4).
        threshold: from how many elements on the middle is left out (1000).
        edgeitems: how many are shown at each end then (3).
        linewidth: characters per line (75).
        profile: ``"default"``, ``"short"`` (2 digits, 2 at the ends) or ``"full"`` (everything).
        sci_mode: always (True) or never (False) powers of ten.
    """
    from ..core.tensor.printing import print_options

    profiles: dict[str, dict[str, Any]] = {
        "default": {"precision": 4, "threshold": 1000, "edgeitems": 3},
        "short": {"precision": 2, "threshold": 1000, "edgeitems": 2},
        "full": {"precision": 4, "threshold": 2**62, "edgeitems": 3},
    }
    if profile is not None:
        if profile not in profiles:
            raise ValueError(f"set_printoptions: wanted the profile default, short or full, got {profile!r}")
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


# How programs run. On the CPU everything here is deterministic and in full precision, whatever is asked for.

_deterministic = {"mode": False, "warn_only": False}
_matmul_precision = ["highest"]


def use_deterministic_algorithms(mode: bool, *, warn_only: bool = False) -> None:
    """Say that results must not change from run to run: on the CPU they never do, on a GPU scatters may."""
    _deterministic.update(mode=bool(mode), warn_only=bool(warn_only))


def are_deterministic_algorithms_enabled() -> bool:
    """What ``use_deterministic_algorithms`` said last."""
    return _deterministic["mode"]


def is_deterministic_algorithms_warn_only_enabled() -> bool:
    """What ``use_deterministic_algorithms`` said last."""
    return _deterministic["warn_only"]


def set_float32_matmul_precision(precision: str) -> None:
    """Allow float32 products of less precision: ``"highest"``, ``"high"`` or ``"medium"``. All are computed in full."""
    if precision not in ("highest", "high", "medium"):
        warnings.warn(
            f"{precision} is not one of 'highest', 'high', or 'medium'; the current setFloat32MatmulPrecision call has "
            "no effect",
            stacklevel=2,
        )
        return
    _matmul_precision[0] = precision


def get_float32_matmul_precision() -> str:
    """What ``set_float32_matmul_precision`` said last."""
    return _matmul_precision[0]


def _check_threads(function: str, number: object) -> None:
    if isinstance(number, bool) or not isinstance(number, (int, np.integer)):
        raise RuntimeError(f"{function} expects an int, but got {type(number).__name__}")
    if number >= 2**31:
        raise ValueError(f"{function}: expected a number of threads below 2**31, got {number}")
    if number < 1:
        raise RuntimeError(f"{function}: wanted a positive number, got {number}")


def set_num_threads(int: int) -> None:
    """Set how many threads compute: those of Retrograd, and those of NumPy's BLAS, for the program's own calls as well.

    Raises:
        RuntimeError: the number is not positive, or no integer.
        ValueError: the number is 2**31 or larger.

    >>> import retrograd.compat.toplevel as torch
    >>> before = torch.get_num_threads()
    >>> torch.set_num_threads(1)
    >>> torch.get_num_threads()
    1
    >>> torch.set_num_threads(before)
    """
    _check_threads("set_num_threads", int)
    set_count(int)


def get_num_threads() -> int:
    """How many threads compute: what ``set_num_threads`` said, else ``OMP_NUM_THREADS``, else one per core."""
    return count()


def get_num_interop_threads() -> int:
    """How many operators run side by side: one."""
    return 1


def set_num_interop_threads(int: int) -> None:
    """Say how many operators may run side by side; here one does."""
    _check_threads("set_num_interop_threads", int)


def set_flush_denormal(mode: bool) -> bool:
    """Set numbers below the smallest of full precision to zero, on all threads that compute, or stop doing so.

    Large products of matrices in float32 do so in any case on x86: from 2^18 multiplications on, and in convolutions,
    attention and recurrent layers. There such numbers are frequent, and each takes as long as a hundred others.

    Returns:
        Whether that can be done here: on Linux, and on macOS with an Intel processor.

    >>> import retrograd as rg, retrograd.compat.toplevel as torch
    >>> if torch.set_flush_denormal(True):
    ...     print(float(rg.tensor(1e-38) * 0.01))
    ...     torch.set_flush_denormal(False)
    0.0
    True
    """
    return set_flush(mode)


def is_storage(obj: Any) -> bool:
    """Whether it is what ``Tensor.storage()`` gives."""
    from .storage import TypedStorage

    return isinstance(obj, TypedStorage)


def typename(obj: Any) -> str:
    """The name of a type as programs print it: ``torch.FloatTensor`` for a Tensor of float32."""
    if isinstance(obj, Tensor):
        return str(obj.type())
    return f"{type(obj).__module__}.{type(obj).__qualname__}"


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on."""
    from ..autograd.anomaly import is_anomaly_enabled

    return is_anomaly_enabled()


def broadcast_shapes(*shapes: Any) -> Any:
    """The shape that arrays of these shapes have together.

    >>> import retrograd as rg
    >>> tuple(rg.broadcast_shapes((2, 1), (3,)))
    (2, 3)
    """
    from ..core.tensor.tensor import Size

    try:
        return Size(np.broadcast_shapes(*[(shape,) if isinstance(shape, int) else tuple(shape) for shape in shapes]))
    except ValueError as error:
        raise RuntimeError(f"broadcast_shapes: {error}") from None


def range(start: float = 0, end: float | None = None, step: float = 1, **options: Any) -> Tensor:
    """The numbers from start to end, both included: ``arange`` is the usual choice."""
    from .._generated.toplevel import arange

    warnings.warn("torch.range is deprecated, since it includes its end; use torch.arange", UserWarning, stacklevel=2)
    if end is None:
        start, end = 0, start
    if step == 0 or (end - start) / step < 0:
        raise RuntimeError(f"range: the step {step} does not lead from {start} to {end}")
    count = math.floor((end - start) / step) + 1

    def numbers(dtype: Any = None, device: Any = None, requires_grad: bool = False, layout: Any = None) -> Tensor:
        """The numbers, computed in float64 but for integers."""
        dtype = get_default_dtype() if dtype is None else as_dtype(dtype)
        whole = dtype.kind in "iu" and isinstance(start, int) and isinstance(step, int)
        places = arange(count, dtype=np.int64 if whole else np.float64, device=device)
        return (places * step + start).to(dtype).requires_grad_(requires_grad)

    if "out" in options:
        from .out_arguments import call_into

        return cast("Tensor", call_into("range", numbers, (), options))
    return numbers(**options)


def scalar_tensor(s: Any, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """A 0-d Tensor of the default dtype."""
    from .._generated.toplevel import tensor

    return tensor(s, dtype=get_default_dtype() if dtype is None else dtype, device=device, requires_grad=requires_grad)


def _assert(condition: Any, message: str) -> None:
    """Python's ``assert``, which PyTorch's tracers see."""
    assert condition, message


def get_device_module(device: Any = None) -> Any:
    """The module that speaks of a device: ``retrograd.cuda``."""
    from importlib import import_module

    return import_module("retrograd.cuda")


__all__ = [
    "GradScaler", "_assert", "are_deterministic_algorithms_enabled", "autocast", "bfloat16", "broadcast_shapes",
    "channels_last", "channels_last_3d", "clear_autocast_cache", "compile", "contiguous_format", "dtype", "e", "finfo",
    "get_autocast_cpu_dtype", "get_autocast_dtype", "get_autocast_gpu_dtype", "get_device_module",
    "get_float32_matmul_precision", "get_num_interop_threads", "get_num_threads", "iinfo", "inf", "is_anomaly_enabled",
    "is_autocast_available", "is_autocast_cache_enabled", "is_autocast_cpu_enabled", "is_autocast_enabled",
    "is_deterministic_algorithms_warn_only_enabled", "is_storage", "layout", "memory_format", "nan", "newaxis", "pi",
    "preserve_format", "range", "scalar_tensor", "set_autocast_cache_enabled", "set_autocast_dtype",
    "set_autocast_enabled", "set_float32_matmul_precision", "set_flush_denormal", "set_num_interop_threads",
    "set_num_threads", "set_printoptions", "sparse_coo", "sparse_csr", "strided", "typename",
    "use_deterministic_algorithms",
]  # fmt: skip
