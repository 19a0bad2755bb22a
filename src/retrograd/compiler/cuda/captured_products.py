"""Matrix products that a CUDA graph can contain.

CuPy refuses its own calls of cuBLAS while a stream captures. Inside ``captured_products`` the calling thread's
``cupy.matmul``, which ``numpy.matmul`` of CuPy's arrays calls, runs cuBLAS on the given stream through ``ctypes``.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from math import prod
from threading import Lock, get_ident
from types import ModuleType
from typing import NamedTuple, Protocol

import numpy as np

MAX_CALLS = 4  # maximum calls of cuBLAS per product; instead of more calls, operands are copied to uniform strides
DEFAULT_ALGORITHM = -1
_capturing = Lock()  # one thread at a time replaces cupy.matmul


class NoProducts(RuntimeError):
    """cuBLAS cannot be called; the message says why."""


class Precision(NamedTuple):
    """How cuBLAS names a dtype (``cudaDataType``) and the arithmetic for it (``cublasComputeType_t``)."""

    data: int
    compute: int
    scale: type[ctypes.c_float] | type[ctypes.c_double]


PRECISIONS = {
    "e": Precision(2, 68, ctypes.c_float),
    "f": Precision(0, 68, ctypes.c_float),
    "d": Precision(1, 70, ctypes.c_double),
}


class Stream(Protocol):
    """A stream of CUDA's."""

    ptr: int


class Pointer(Protocol):
    """An address in the memory of a device."""

    ptr: int


class DeviceArray(Protocol):
    """The attributes of CuPy's arrays that this module reads."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    ndim: int
    itemsize: int
    dtype: np.dtype[np.generic]
    data: Pointer

    def __getitem__(self, index: object) -> DeviceArray: ...

    def __setitem__(self, index: object, value: object) -> None: ...


@cache
def _library() -> ctypes.CDLL:
    """Return the cuBLAS that CuPy has loaded."""
    try:
        with open("/proc/self/maps") as maps:
            paths = {line.split()[-1] for line in maps if "libcublas.so" in line}
        return ctypes.CDLL(next(iter(paths)))
    except (OSError, StopIteration) as error:
        raise NoProducts(f"the loaded cuBLAS is not found: {error}") from error


def layout(x: DeviceArray) -> tuple[bool, int] | None:
    """Return whether a matrix, the last two dimensions of an array, is stored by columns, and the row stride in
    elements; None if cuBLAS cannot read it."""
    (rows, columns), (down, along), size = x.shape[-2:], x.strides[-2:], x.itemsize
    for by_columns, (length, near, far) in enumerate(((columns, along, down), (rows, down, along))):
        count = columns if by_columns else rows
        if (near == size or length == 1) and (far % size == 0 and far // size >= length or count == 1):
            return bool(by_columns), max(far // size if count > 1 else length, 1)
    return None


def uniform_stride(x: DeviceArray) -> int | None:
    """Return the stride, in elements, between consecutive matrices of a stack; None if it varies."""
    stride = None
    reach = 0
    for length, step in reversed(list(zip(x.shape[:-2], x.strides[:-2], strict=True))):
        if length == 1:
            continue
        if stride is None:
            stride, reach = step, step * length
        elif step != reach:
            return None
        else:
            reach = step * length
    return 0 if stride is None else stride // x.itemsize


class Products:
    """``matmul`` by cuBLAS on a stream.

    Args:
        xp: CuPy.
        stream: the stream; its current device holds all operands.
        multiply: computes the products that cuBLAS does not support.
    """

    def __init__(self, xp: ModuleType, stream: Stream, multiply: Callable[..., DeviceArray]) -> None:
        self.xp, self.multiply = xp, multiply
        self.handle = ctypes.c_void_p(xp.cuda.Device().cublas_handle)
        self.gemm = _library().cublasGemmStridedBatchedEx
        self._check(_library().cublasSetStream_v2(self.handle, ctypes.c_void_p(stream.ptr)))

    @staticmethod
    def _check(status: int) -> None:
        if status:
            raise NoProducts(f"cuBLAS returned status {status}")

    def __call__(self, x: DeviceArray, y: DeviceArray, out: DeviceArray | None = None, **kwargs: object) -> DeviceArray:
        if kwargs or x.dtype != y.dtype or x.dtype.char not in PRECISIONS:
            return self.multiply(x, y, out=out, **kwargs)
        if x.ndim == 0 or y.ndim == 0 or x.shape[-1] != y.shape[0 if y.ndim == 1 else -2]:
            return self.multiply(x, y, out=out)  # raises the error for these shapes
        left = x[None] if x.ndim == 1 else x
        right = y[:, None] if y.ndim == 1 else y
        result = self._stacks(left, right)
        if y.ndim == 1:
            result = result[..., 0]
        if x.ndim == 1:
            result = result[..., 0, :] if y.ndim > 1 else result[..., 0]
        if out is None:
            return result
        out[...] = result
        return out

    def _stacks(self, x: DeviceArray, y: DeviceArray) -> DeviceArray:
        xp = self.xp
        lead = np.broadcast_shapes(x.shape[:-2], y.shape[:-2])
        (m, k), n = x.shape[-2:], y.shape[-1]
        if not (m * n * k * prod(lead)):
            return xp.zeros((*lead, m, n), x.dtype)
        out = xp.empty((*lead, m, n), x.dtype)
        x, y = [z if layout(z) else xp.ascontiguousarray(z) for z in (x, y)]
        x, y = [xp.broadcast_to(z, lead + z.shape[-2:]) for z in (x, y)]
        axes = len(lead)  # one call multiplies the matrices along this many of the last axes of ``lead``
        while axes and any(uniform_stride(z[(0,) * (len(lead) - axes)]) is None for z in (x, y)):
            axes -= 1
        if prod(lead[: len(lead) - axes]) > MAX_CALLS:
            x, y = xp.ascontiguousarray(x), xp.ascontiguousarray(y)
            axes = len(lead)
        for index in np.ndindex(*lead[: len(lead) - axes]):
            self._multiply(x[index], y[index], out[index])
        return out

    def _multiply(self, x: DeviceArray, y: DeviceArray, out: DeviceArray) -> None:
        """Write a stack of products to C-contiguous ``out``.

        cuBLAS stores matrices by columns, so it computes the transposed product, ``y.T @ x.T``.
        """
        kind = PRECISIONS[x.dtype.char]
        one, zero = kind.scale(1), kind.scale(0)
        operands: list[object] = []
        turns: list[int] = []
        for z in (y, x):
            by_columns, stride = layout(z) or (False, z.shape[-1])
            turns.append(int(by_columns))
            operands += [ctypes.c_void_p(z.data.ptr), kind.data, stride, ctypes.c_longlong(uniform_stride(z) or 0)]
        m, n = out.shape[-2:]
        self._check(
            self.gemm(
                self.handle, *turns, n, m, x.shape[-1], ctypes.byref(one), *operands, ctypes.byref(zero),
                ctypes.c_void_p(out.data.ptr), kind.data, n, ctypes.c_longlong(m * n), prod(out.shape[:-2]),
                kind.compute, DEFAULT_ALGORITHM,
            )
        )  # fmt: skip


@contextmanager
def captured_products(xp: ModuleType, stream: Stream) -> Iterator[None]:
    """A context manager in which products of this thread call cuBLAS on ``stream``, which a capture allows."""
    with _capturing:
        multiply, thread = xp.matmul, get_ident()
        try:
            products = Products(xp, stream, multiply)
        except (NoProducts, AttributeError):
            yield  # CuPy's own products, which CuPy refuses during a capture
            return

        def matmul(x: DeviceArray, y: DeviceArray, **kwargs: DeviceArray) -> DeviceArray:
            return (products if get_ident() == thread else multiply)(x, y, **kwargs)

        setattr(xp, "matmul", matmul)  # noqa: B010 a module's attribute
        try:
            yield
        finally:
            setattr(xp, "matmul", multiply)  # noqa: B010
