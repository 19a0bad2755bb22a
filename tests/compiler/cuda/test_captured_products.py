"""Products inside CUDA graphs: the arguments of cuBLAS, computed by a stand-in that reads memory by columns."""

import ctypes
import threading
from typing import Any

import numpy as np
import pytest

from retrograd.compiler.cuda import captured_products as products
from tests.helpers.guarded import cupy, guarded_backend

KINDS = {2: np.float16, 0: np.float32, 1: np.float64}


def matrix(address: Any, kind: int, rows: int, columns: int, stride: int) -> Any:
    """A matrix stored by columns at an address."""
    dtype = np.dtype(KINDS[kind])
    memory = (ctypes.c_char * (((columns - 1) * stride + rows) * dtype.itemsize)).from_address(address)
    flat = np.frombuffer(memory, dtype)
    return np.lib.stride_tricks.as_strided(flat, (rows, columns), (dtype.itemsize, stride * dtype.itemsize))


def gemm(handle, trans_a, trans_b, m, n, k, alpha, a, a_kind, lda, a_step, b, b_kind, ldb, b_step, beta, c, c_kind, ldc,
         c_step, batch, compute, algorithm):  # fmt: skip
    """``cublasGemmStridedBatchedEx`` by its documentation."""
    assert handle.value == 7 and algorithm == -1 and alpha._obj.value == 1 and beta._obj.value == 0
    assert compute == {2: 68, 0: 68, 1: 70}[c_kind] and a_kind == b_kind == c_kind
    rows_a, columns_a = (k, m) if trans_a else (m, k)
    rows_b, columns_b = (n, k) if trans_b else (k, n)
    assert lda >= rows_a and ldb >= rows_b and ldc >= m
    size = np.dtype(KINDS[c_kind]).itemsize
    for index in range(batch):
        left = matrix(a.value + index * a_step.value * size, a_kind, rows_a, columns_a, lda)
        right = matrix(b.value + index * b_step.value * size, b_kind, rows_b, columns_b, ldb)
        out = matrix(c.value + index * c_step.value * size, c_kind, m, n, ldc)
        out[...] = (left.T if trans_a else left) @ (right.T if trans_b else right)
        gemm.calls += 1
    return 0


class Library:
    cublasGemmStridedBatchedEx = staticmethod(gemm)

    @staticmethod
    def cublasSetStream_v2(handle: Any, stream: Any) -> int:
        return 0 if stream.value == 5 else 13


class Stream:
    ptr = 5


@pytest.fixture(autouse=True)
def cublas(monkeypatch):
    gemm.calls = 0
    monkeypatch.setattr(products, "_library", Library)
    monkeypatch.setattr(cupy.cuda.Device, "cublas_handle", 7, raising=False)
    with guarded_backend():
        yield


def drawn(shape: tuple[int, ...], dtype: Any = np.float64) -> Any:
    return cupy.asarray(np.random.default_rng(sum(shape)).standard_normal(shape).astype(dtype))


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize(
    "left, right",
    [
        ((3, 4), (4, 5)), ((1, 4), (4, 5)), ((3, 1), (1, 5)), ((3, 4), (4, 1)), ((4,), (4, 5)), ((3, 4), (4,)),
        ((4,), (4,)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)), ((2, 3, 4), (2, 4, 5)), ((2, 1, 3, 4), (6, 4, 5)),
        ((7, 2, 3, 4), (7, 1, 4, 5)), ((0, 4), (4, 5)), ((3, 0), (0, 5)), ((0, 3, 4), (0, 4, 5)),
    ],
)  # fmt: skip
def test_products_of_all_shapes(left, right, dtype):
    x, y = drawn(left, dtype), drawn(right, dtype)
    with products.captured_products(cupy, Stream()):
        got = np.matmul(x, y)
    np.testing.assert_allclose(got.get(), np.matmul(x.get(), y.get()), rtol=1e-2 if dtype is np.float16 else 1e-5)
    assert got.dtype == dtype and (gemm.calls > 0) == bool(got.size and x.size)


@pytest.mark.parametrize(
    "view",
    [
        lambda x: x.swapaxes(-1, -2), lambda x: x.transpose(1, 0, 2, 3), lambda x: x[::2], lambda x: x[..., ::2],
        lambda x: x[..., :3], lambda x: x[:, :, 1:],
        lambda x: x[:, :, ::-1], lambda x: cupy.broadcast_to(x[0], x.shape),
        lambda x: x[:1], lambda x: x.transpose(3, 0, 1, 2), lambda x: x[..., :1].swapaxes(-1, -2), lambda x: x[:, 1],
    ],
)  # fmt: skip
def test_products_of_views(view):
    x = view(drawn((6, 5, 4, 8)))
    y = drawn((x.shape[-1], 3))
    with products.captured_products(cupy, Stream()):
        got = [np.matmul(x, y), np.matmul(y.T, x.swapaxes(-1, -2)), np.matmul(x, x.swapaxes(-1, -2))]
    a, b = x.get(), y.get()
    for result, wanted in zip(got, [a @ b, b.T @ a.swapaxes(-1, -2), a @ a.swapaxes(-1, -2)], strict=True):
        np.testing.assert_allclose(result.get(), wanted, rtol=1e-12)


def test_the_result_is_written_to_out():
    x, y, out = drawn((3, 4)), drawn((4, 5)), cupy.zeros((5, 3)).T
    with products.captured_products(cupy, Stream()):
        assert np.matmul(x, y, out=out) is out
    np.testing.assert_allclose(out.get(), x.get() @ y.get())


@pytest.mark.parametrize("dtype", [np.int64, np.complex128])
def test_other_dtypes_go_to_cupy(dtype):
    x = cupy.asarray(np.arange(9).reshape(3, 3).astype(dtype))
    with products.captured_products(cupy, Stream()):
        np.testing.assert_array_equal(np.matmul(x, x).get(), x.get() @ x.get())
    assert gemm.calls == 0


def test_only_the_capturing_thread_calls_cublas_and_afterwards_none_does():
    x = drawn((3, 3))
    with products.captured_products(cupy, Stream()):
        thread = threading.Thread(target=lambda: np.matmul(x, x))
        thread.start()
        thread.join()
        assert gemm.calls == 0
    np.matmul(x, x)
    assert gemm.calls == 0


def test_without_cublas_products_are_cupys(monkeypatch):
    def missing() -> None:
        raise products.NoProducts("not loaded")

    monkeypatch.setattr(products, "_library", missing)
    x = drawn((3, 3))
    with products.captured_products(cupy, Stream()):
        np.testing.assert_allclose(np.matmul(x, x).get(), x.get() @ x.get())
