"""The standard's functions whose arguments differ from NumPy's: creation, dtypes, sorting, inspection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Literal, NamedTuple, TypeAlias

import numpy as np

from .._generated import fft as spectra
from .._generated import linalg as ops_linalg
from .._generated import special as ops_special
from .._generated import toplevel as ops
from ..core.arrays.devices import Device, get_default_device, is_cuda_available
from ..core.arrays.dtypes import limits
from ..core.arrays.public_dtypes import dtype as PublicDType
from ..core.tensor.tensor import Tensor
from ..ops.make.dlpack import from_dlpack
from ..ops.numpy.scipy_special import RULES
from ..ops.shape.conversion import get_default_dtype
from .table import as_tensors

Scalar: TypeAlias = bool | int | float | complex
Shape: TypeAlias = int | tuple[int, ...]
DeviceLike: TypeAlias = Device | str | None

_KINDS = {
    "bool": "b",
    "signed integer": "i",
    "unsigned integer": "u",
    "integral": "iu",
    "real floating": "f",
    "complex floating": "c",
    "numeric": "iufc",
}
DTYPES = {
    name: PublicDType(name)
    for name in (
        "bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64",
        "complex64", "complex128",
    )
}  # fmt: skip


# Creation


def asarray(
    obj: object, /, *, dtype: PublicDType | None = None, device: DeviceLike = None, copy: bool | None = None
) -> Tensor:
    """Convert a number, nested lists, an array or a Tensor to a Tensor, which shares memory and history if possible."""
    if not isinstance(obj, Tensor):
        return ops.asarray(obj, dtype=dtype, device=device, copy=copy)
    place, kind = device or obj.device, dtype or obj.dtype
    if copy is False and (kind != obj.dtype or str(place) != str(obj.device)):
        raise ValueError(f"asarray: copy=False, but {obj.dtype} on {obj.device} must be copied to {kind} on {place}")
    return obj.to(device=place, dtype=kind, copy=bool(copy))


def arange(
    start: float,
    /,
    stop: float | None = None,
    step: float = 1,
    *,
    dtype: PublicDType | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return the numbers from ``start`` up to, but without, ``stop``; ``arange(stop)`` starts at 0."""
    first, end = (0, start) if stop is None else (start, stop)
    if (end - first) / step <= 0:
        numbers = isinstance(first, float) or isinstance(end, float) or isinstance(step, float)
        return ops.empty(0, dtype=dtype or (get_default_dtype() if numbers else DTYPES["int64"]), device=device)
    return ops.arange(first, end, step, dtype=dtype, device=device)


def empty(shape: Shape, *, dtype: PublicDType | None = None, device: DeviceLike = None) -> Tensor:
    """Return a Tensor of unspecified numbers."""
    return ops.empty(shape, dtype=dtype, device=device)


def empty_like(x: Tensor, /, *, dtype: PublicDType | None = None, device: DeviceLike = None) -> Tensor:
    """Return a Tensor of unspecified numbers in the shape of ``x``."""
    return ops.empty_like(x, dtype=dtype, device=device)


def eye(
    n_rows: int,
    n_cols: int | None = None,
    /,
    *,
    k: int = 0,
    dtype: PublicDType | None = None,
    device: DeviceLike = None,
) -> Tensor:
    """Return ones on the k-th diagonal and zeros elsewhere."""
    array = np.eye(n_rows, n_cols, k, dtype=(dtype or get_default_dtype()).dtype)
    return ops.asarray(array, device=device)


def full(shape: Shape, fill_value: Scalar, *, dtype: PublicDType | None = None, device: DeviceLike = None) -> Tensor:
    """Return a Tensor of one number."""
    return ops.full(shape, fill_value, dtype=dtype, device=device)


def full_like(
    x: Tensor, /, fill_value: Scalar, *, dtype: PublicDType | None = None, device: DeviceLike = None
) -> Tensor:
    """Return a Tensor of one number in the shape of ``x``."""
    return ops.full_like(x, fill_value, dtype=dtype, device=device)


def linspace(
    start: complex,
    stop: complex,
    /,
    num: int,
    *,
    dtype: PublicDType | None = None,
    device: DeviceLike = None,
    endpoint: bool = True,
) -> Tensor:
    """Return ``num`` evenly spaced numbers from ``start`` to ``stop``."""
    if dtype is None:
        dtype = get_default_dtype()
        dtype = dtype.to_complex() if isinstance(start, complex) or isinstance(stop, complex) else dtype
    return ops.asarray(np.linspace(start, stop, num, endpoint, dtype=dtype.dtype), device=device)


def meshgrid(*arrays: Tensor, indexing: Literal["xy", "ij"] = "xy") -> tuple[Tensor, ...]:
    """Return the coordinates of the points of a grid."""
    return tuple(ops.meshgrid(*arrays, indexing=indexing))


def ones(shape: Shape, *, dtype: PublicDType | None = None, device: DeviceLike = None) -> Tensor:
    """Return a Tensor of ones."""
    return ops.ones(shape, dtype=dtype, device=device)


def ones_like(x: Tensor, /, *, dtype: PublicDType | None = None, device: DeviceLike = None) -> Tensor:
    """Return ones in the shape of ``x``."""
    return ops.ones_like(x, dtype=dtype, device=device)


def zeros(shape: Shape, *, dtype: PublicDType | None = None, device: DeviceLike = None) -> Tensor:
    """Return a Tensor of zeros."""
    return ops.zeros(shape, dtype=dtype, device=device)


def zeros_like(x: Tensor, /, *, dtype: PublicDType | None = None, device: DeviceLike = None) -> Tensor:
    """Return zeros in the shape of ``x``."""
    return ops.zeros_like(x, dtype=dtype, device=device)


# Dtypes and linear algebra


class EigResult(NamedTuple):
    """Eigenvalues, and eigenvectors as columns."""

    eigenvalues: Tensor
    eigenvectors: Tensor


class FInfo(NamedTuple):
    """The limits of a floating dtype."""

    bits: int
    eps: float
    max: float
    min: float
    smallest_normal: float
    dtype: PublicDType


class IInfo(NamedTuple):
    """The limits of an integer dtype."""

    bits: int
    max: int
    min: int
    dtype: PublicDType


def _dtype_of(value: Tensor | PublicDType) -> PublicDType:
    return value.dtype if isinstance(value, Tensor) else PublicDType(value)


def astype(x: Tensor, dtype: PublicDType, /, *, copy: bool = True, device: DeviceLike = None) -> Tensor:
    """Return ``x`` in another dtype."""
    return x.to(device=device or x.device, dtype=dtype, copy=copy)


def can_cast(from_: Tensor | PublicDType, to: PublicDType, /) -> bool:
    """Return whether NumPy's rule ``safe`` allows a cast from ``from_`` to the dtype ``to``."""
    return bool(np.can_cast(_dtype_of(from_).dtype, PublicDType(to).dtype))


def finfo(type: Tensor | PublicDType, /) -> FInfo:
    """Return the limits of a floating dtype, or of the parts of a complex one."""
    dtype = _dtype_of(type).to_real()
    eps, tiny, largest = limits(dtype.dtype)
    return FInfo(8 * dtype.itemsize, eps, largest, -largest, tiny, dtype)


def iinfo(type: Tensor | PublicDType, /) -> IInfo:
    """Return the limits of an integer dtype."""
    dtype = _dtype_of(type)
    info = np.iinfo(dtype.dtype)
    return IInfo(info.bits, int(info.max), int(info.min), dtype)


def isdtype(dtype: PublicDType, kind: PublicDType | str | tuple[PublicDType | str, ...]) -> bool:
    """Return whether a dtype equals ``kind`` or belongs to it; a tuple stands for any of its kinds."""
    if isinstance(kind, tuple):
        return any(isdtype(dtype, part) for part in kind)
    if not isinstance(kind, str):
        return PublicDType(dtype) == PublicDType(kind)
    if kind not in _KINDS:
        raise ValueError(f"isdtype: expected a dtype or a kind of {', '.join(_KINDS)}, got {kind!r}")
    code = "f" if PublicDType(dtype).is_floating_point else PublicDType(dtype).kind
    return code in _KINDS[kind]


def result_type(*arrays_and_dtypes: Tensor | PublicDType | Scalar) -> PublicDType:
    """Return the dtype to which arrays, dtypes and Python numbers promote."""
    operands = [
        value if isinstance(value, (bool, int, float, complex)) else _dtype_of(value).dtype
        for value in arrays_and_dtypes
    ]
    return PublicDType(np.result_type(*operands))


# Manipulation


def broadcast_arrays(*arrays: Tensor) -> tuple[Tensor, ...]:
    """Return the arrays in the shape to which they broadcast."""
    return tuple(ops.broadcast_tensors(*arrays))


def broadcast_shapes(*shapes: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape to which shapes broadcast."""
    return np.broadcast_shapes(*shapes)


def repeat(x: Tensor, repeats: int | Tensor, /, *, axis: int | None = None) -> Tensor:
    """Return each element, or each slice along ``axis``, repeated."""
    times = repeats.detach().numpy() if isinstance(repeats, Tensor) else repeats
    return as_tensors(np.repeat(x, times, axis))


def reshape(x: Tensor, /, shape: tuple[int, ...], *, copy: bool | None = None) -> Tensor:
    """Return the elements in another shape.

    Raises:
        ValueError: ``copy`` is False, and the memory of ``x`` has no view of that shape.
    """
    if copy:
        return x.clone().reshape(shape)
    result: Tensor = x.reshape(shape)
    if copy is False and x.numel() and not np.shares_memory(x.detach(), result.detach()):
        raise ValueError(f"reshape: copy=False, but {tuple(x.shape)} must be copied to get shape {tuple(shape)}")
    return result


def unstack(x: Tensor, /, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Return the slices along an axis."""
    return tuple(ops.unbind(x, axis))


def diff(
    x: Tensor, /, n: int = 1, axis: int = -1, prepend: Tensor | None = None, append: Tensor | None = None
) -> Tensor:
    """Return the n-th differences of neighbors along an axis."""
    return ops.diff(x, n, axis, prepend, append)


# Searching, sorting, sums


def unique_values(x: Tensor, /) -> Tensor:
    """Return each distinct element once, in ascending order; scikit-learn relies on the order."""
    return as_tensors(np.unique(x))


def where(
    condition: Tensor, x1: Tensor | Scalar | None = None, x2: Tensor | Scalar | None = None, /
) -> Tensor | tuple[Tensor, ...]:
    """Return the elements of ``x1`` where the condition is True, and of ``x2`` elsewhere; without both, ``nonzero``.

    Raises:
        TypeError: only one of ``x1`` and ``x2`` is given.
    """
    if x1 is None and x2 is None:
        return tuple(ops.nonzero(condition, as_tuple=True))
    if x1 is None or x2 is None:
        raise TypeError("where: pass both x1 and x2, or neither")
    dtype = result_type(x1, x2)
    first, second = (x if isinstance(x, Tensor) else ops.asarray(x, dtype=dtype) for x in (x1, x2))
    return as_tensors(np.where(condition, first, second))


def clip(
    x: Tensor, /, min: Tensor | float | None = None, max: Tensor | float | None = None
) -> Tensor:  # fmt: skip
    """Return the elements, with those below ``min`` or above ``max`` replaced by that bound."""
    return x.clone() if min is None and max is None else as_tensors(np.clip(x, min, max))


def sort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the elements in order along an axis."""
    return ops.sort(x, axis, descending, stable)[0]


def argsort(x: Tensor, /, *, axis: int = -1, descending: bool = False, stable: bool = True) -> Tensor:
    """Return the positions that put the elements in order along an axis."""
    return ops.argsort(x, axis, descending, stable)


def _cumulative(
    function: Callable[..., Tensor],
    start: int,
    x: Tensor,
    axis: int | None,
    dtype: PublicDType | None,
    include_initial: bool,
) -> Tensor:
    if axis is None and x.ndim != 1:
        raise ValueError(
            f"cumulative_{function.__name__.removeprefix('cum')}: pass axis for an array of {x.ndim} dimensions"
        )
    place = axis or 0
    result = as_tensors(function(x, axis=place, dtype=dtype))
    if not include_initial:
        return result
    shape = list(result.shape)
    shape[place] = 1
    return ops.cat([ops.full(tuple(shape), start, dtype=result.dtype, device=result.device), result], place)


def cumulative_sum(
    x: Tensor, /, *, axis: int | None = None, dtype: PublicDType | None = None, include_initial: bool = False
) -> Tensor:
    """Return the cumulative sums along an axis; with ``include_initial`` a 0 comes first."""
    return _cumulative(np.cumsum, 0, x, axis, dtype, include_initial)


def cumulative_prod(
    x: Tensor, /, *, axis: int | None = None, dtype: PublicDType | None = None, include_initial: bool = False
) -> Tensor:
    """Return the cumulative products along an axis; with ``include_initial`` a 1 comes first."""
    return _cumulative(np.cumprod, 1, x, axis, dtype, include_initial)


def eig(x: Tensor, /) -> EigResult:
    """Return the complex eigenvalues and eigenvectors of square matrices."""
    return EigResult(*ops_linalg.eig(x))


def eigvals(x: Tensor, /) -> Tensor:
    """Return the complex eigenvalues of square matrices."""
    return ops_linalg.eigvals(x)


def fftfreq(n: int, /, *, d: float = 1.0, dtype: PublicDType | None = None, device: DeviceLike = None) -> Tensor:
    """Return the frequencies of a Fourier transform of ``n`` samples at distance ``d``."""
    return spectra.fftfreq(n, d, dtype=dtype, device=device)


def rfftfreq(n: int, /, *, d: float = 1.0, dtype: PublicDType | None = None, device: DeviceLike = None) -> Tensor:
    """Return the frequencies of a Fourier transform of ``n`` real samples at distance ``d``."""
    return spectra.rfftfreq(n, d, dtype=dtype, device=device)


class Special:
    """SciPy's special functions as an extension of the namespace, where SciPy looks for them.

    With ``SCIPY_ARRAY_API=1``, ``scipy.special`` and the distributions of ``scipy.stats`` call these functions, so that
    gradients flow through them.
    """

    def __getattr__(self, name: str) -> Callable[..., Tensor]:
        from ..scipy import decorators, special  # SciPy is imported when the first function is called

        if name == "zeta":
            return ops_special.zeta
        ufunc = getattr(decorators.scipys("scipy.special._ufuncs"), name, None)
        if isinstance(ufunc, np.ufunc) and ufunc.__name__ in RULES:
            return ufunc
        if name in special.__all__:
            return getattr(special, name)
        raise AttributeError(f"special functions of Tensors do not include {name!r}")


# Inspection


class Info:
    """The result of ``__array_namespace_info__()``: capabilities, devices and dtypes of the namespace."""

    def capabilities(self) -> dict[str, bool | int]:
        """Return which optional parts of the standard exist."""
        return {"boolean indexing": True, "data-dependent shapes": True, "max dimensions": 64}

    def default_device(self) -> Device:
        """Return the device on which Tensors are created by default."""
        return get_default_device()

    def default_dtypes(self, *, device: DeviceLike = None) -> dict[str, PublicDType]:
        """Return the dtypes of Tensors created from Python numbers, which ``set_default_dtype`` changes."""
        real = get_default_dtype()
        integers = DTYPES["int64"]
        return {
            "real floating": real,
            "complex floating": real.to_complex(),
            "integral": integers,
            "indexing": integers,
        }

    def dtypes(self, *, device: DeviceLike = None, kind: str | tuple[str, ...] | None = None) -> dict[str, PublicDType]:
        """Return the standard's dtypes by name, or only the dtypes of the given kinds."""
        return {name: dtype for name, dtype in DTYPES.items() if kind is None or isdtype(dtype, kind)}

    def devices(self) -> tuple[Device, ...]:
        """Return the devices."""
        return (Device("cpu"), Device("cuda")) if is_cuda_available() else (Device("cpu"),)


def __array_namespace_info__() -> Info:
    """Return the capabilities, devices and dtypes of the namespace."""
    return Info()


MAIN = {
    function.__name__: function
    for function in (
        arange, argsort, asarray, astype, broadcast_arrays, broadcast_shapes, can_cast, clip, cumulative_prod,
        cumulative_sum, diff, empty, empty_like, eye, finfo, from_dlpack, full, full_like, iinfo, isdtype, linspace,
        meshgrid, ones, ones_like, repeat, reshape, result_type, sort, unique_values, unstack, where, zeros, zeros_like,
        __array_namespace_info__,
    )
}  # fmt: skip
LINALG = {"eig": eig, "eigvals": eigvals}
FFT = {"fftfreq": fftfreq, "rfftfreq": rfftfreq}
