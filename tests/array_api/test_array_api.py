"""The namespace of the array API standard: names, values against NumPy, gradients, and libraries that call it."""

import copy
import inspect
import os
import subprocess
import sys

import numpy as np
import pytest

import retrograd as rg
import retrograd.array_api as xp

# All names of the standard 2025.12, by room.
NAMES = """
abs acos acosh add all any arange argmax argmin argsort asarray asin asinh astype atan atan2 atanh bitwise_and
bitwise_invert bitwise_left_shift bitwise_or bitwise_right_shift bitwise_xor bool broadcast_arrays broadcast_shapes
broadcast_to can_cast ceil clip complex128 complex64 concat conj copysign cos cosh count_nonzero cumulative_prod
cumulative_sum diff divide e empty empty_like equal exp expand_dims expm1 eye finfo flip float32 float64 floor
floor_divide from_dlpack full full_like greater greater_equal hypot iinfo imag inf int16 int32 int64 int8 isdtype
isfinite isin isinf isnan less less_equal linspace log log10 log1p log2 logaddexp logical_and logical_not logical_or
logical_xor matmul matrix_transpose max maximum mean meshgrid min minimum moveaxis multiply nan negative newaxis
nextafter nonzero not_equal ones ones_like permute_dims pi positive pow prod real reciprocal remainder repeat reshape
result_type roll round searchsorted sign signbit sin sinh sort sqrt square squeeze stack std subtract sum take
take_along_axis tan tanh tensordot tile tril triu trunc uint16 uint32 uint64 uint8 unique_all unique_counts
unique_inverse unique_values unstack var vecdot where zeros zeros_like __array_api_version__ __array_namespace_info__
fft.fft fft.fftfreq fft.fftn fft.fftshift fft.hfft fft.ifft fft.ifftn fft.ifftshift fft.ihfft fft.irfft fft.irfftn
fft.rfft fft.rfftfreq fft.rfftn linalg.cholesky linalg.cross linalg.det linalg.diagonal linalg.eig linalg.eigh
linalg.eigvals linalg.eigvalsh linalg.inv linalg.matmul linalg.matrix_norm linalg.matrix_power linalg.matrix_rank
linalg.matrix_transpose linalg.outer linalg.pinv linalg.qr linalg.slogdet linalg.solve linalg.svd linalg.svdvals
linalg.tensordot linalg.trace linalg.vecdot linalg.vector_norm
""".split()  # noqa: SIM905
METHODS = """__abs__ __add__ __and__ __array_namespace__ __bool__ __complex__ __dlpack__ __dlpack_device__ __eq__
__float__ __floordiv__ __ge__ __getitem__ __gt__ __iadd__ __index__ __int__ __invert__ __le__ __lshift__ __lt__
__matmul__ __mod__ __mul__ __ne__ __neg__ __or__ __pos__ __pow__ __radd__ __rmatmul__ __rshift__ __setitem__ __sub__
__truediv__ __xor__ to_device T mT device dtype ndim shape""".split()  # noqa: SIM905


def test_the_namespace_has_every_name_of_the_standard():
    def found(name):
        room, _, last = name.rpartition(".")
        return hasattr(getattr(xp, room) if room else xp, last)

    assert [name for name in NAMES if not found(name)] == []
    assert [name for name in METHODS if not hasattr(rg.Tensor, name)] == []
    assert str(inspect.signature(xp.sum)) == "(x, /, *, axis=None, dtype=None, keepdims=False)"
    with pytest.raises(TypeError, match="positional"):
        xp.sum(rg.ones(2), 0)


def test_a_tensor_names_its_namespace_for_known_versions():
    x = rg.ones(2)
    assert x.__array_namespace__() is xp
    assert x.__array_namespace__(api_version="2023.12") is xp
    with pytest.raises(ValueError, match="'2019'"):
        x.__array_namespace__(api_version="2019")
    assert x.to_device("cpu").shape == (2,)
    with pytest.raises(ValueError, match="stream"):
        x.to_device("cpu", stream=1)


A = np.array([[3.0, -1.0, 0.5], [0.25, 2.0, -0.75], [1.0, 0.5, 2.5]])
CALLS = [
    lambda m, x: m.cumulative_sum(x, axis=1, include_initial=True),
    lambda m, x: m.cumulative_prod(x, axis=0, include_initial=True),
    lambda m, x: m.where(x > 0, x, 2.0),
    lambda m, x: m.clip(x, -0.6, 1.9),
    lambda m, x: m.std(x, axis=0, correction=1.0),
    lambda m, x: m.take_along_axis(x, m.argsort(x, axis=1), axis=1),
    lambda m, x: m.stack(m.unstack(x, axis=1)),
    lambda m, x: m.permute_dims(m.expand_dims(x, axis=(0, 2)), (3, 1, 0, 2)),
    lambda m, x: m.reshape(m.repeat(x, 2, axis=0), (-1,)),
    lambda m, x: m.diff(x, axis=0, n=2),
    lambda m, x: m.concat(m.broadcast_arrays(x, m.sum(x, axis=0))),
    lambda m, x: m.astype(x, m.float64) @ m.linalg.inv(x),
    lambda m, x: m.linalg.vector_norm(x, axis=1, keepdims=True),
    lambda m, x: m.linalg.matrix_norm(x),
    lambda m, x: m.linalg.svdvals(x),
    lambda m, x: m.vecdot(x, x, axis=0),
    lambda m, x: m.abs(m.fft.rfft(x)),
    lambda m, x: m.meshgrid(x[0], x[1])[1] * m.eye(3, k=1),
    lambda m, x: m.sort(x, axis=0, descending=True) if m is xp else m.flip(m.sort(x, axis=0), axis=0),
]


@pytest.mark.parametrize("call", CALLS, ids=[str(index) for index in range(len(CALLS))])
def test_functions_have_numpys_values_and_gradients_by_differences(call):
    try:
        wanted = call(np, A)
    except AttributeError as missing:
        pytest.skip(f"this NumPy has less of the standard: {missing}")
    x = rg.tensor(A, requires_grad=True)
    value = call(xp, x)
    np.testing.assert_allclose(value.detach().numpy(), wanted, rtol=1e-12, atol=1e-12)
    weights = np.cos(np.arange(value.numel())).reshape(value.shape)
    (value * rg.tensor(weights)).sum().backward()
    step = 1e-6 * np.sin(np.arange(9.0)).reshape(3, 3)
    slope = ((call(np, A + step) - call(np, A - step)) * weights).sum() / 2e-6
    assert (x.grad.numpy() * step).sum() * 1e6 == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_dtypes_promote_by_the_standard_and_answer_questions():
    assert xp.result_type(xp.int8, xp.uint8, 1) == xp.int16
    assert xp.result_type(rg.ones(1, dtype=rg.float32), 2.0) == xp.float32
    assert (rg.ones(2, dtype=rg.int32).__array_namespace__().sum(rg.ones(2, dtype=rg.int32))).dtype == xp.int64
    assert xp.can_cast(xp.int8, xp.int16)
    assert not xp.can_cast(xp.float64, xp.float32)
    assert xp.isdtype(xp.complex64, ("real floating", "complex floating"))
    assert not xp.isdtype(xp.float32, "integral")
    with pytest.raises(ValueError, match="'floating'"):
        xp.isdtype(xp.float32, "floating")
    assert xp.finfo(xp.complex64).dtype == xp.float32
    assert isinstance(xp.finfo(xp.float32).eps, float)
    assert xp.iinfo(rg.zeros(1, dtype=rg.uint8)).max == 255
    info = xp.__array_namespace_info__()
    assert set(info.dtypes(kind="complex floating")) == {"complex64", "complex128"}
    assert info.default_dtypes()["real floating"] == rg.get_default_dtype()
    assert info.default_device() in info.devices()
    assert info.capabilities()["boolean indexing"]


def test_asarray_keeps_the_history_and_shares_memory_unless_told_otherwise():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    xp.asarray(x * 3, dtype=xp.float64).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]
    array = np.arange(3.0)
    assert np.shares_memory(xp.asarray(array).numpy(), array)
    assert not np.shares_memory(xp.asarray(array, copy=True).numpy(), array)
    assert np.shares_memory(np.from_dlpack(xp.from_dlpack(array)), array)
    with pytest.raises(ValueError, match="copy=False"):
        xp.asarray(x, dtype=xp.float64, copy=False)
    with pytest.raises(ValueError, match="copy=False"):
        xp.reshape(xp.matrix_transpose(rg.ones(2, 3)), (6,), copy=False)
    with pytest.raises(ValueError, match="repeated"):
        xp.expand_dims(x, (0, 0))


DISPATCH = """
import numpy as np
import scipy.signal, scipy.special, scipy.stats
import sklearn
from sklearn.linear_model import Ridge
from sklearn.metrics.pairwise import rbf_kernel
import retrograd as rg

sklearn.set_config(array_api_dispatch=True)
calls = {
    "expit": lambda x: scipy.special.expit(x),
    "skew": lambda x: scipy.stats.skew(x, axis=0),
    "p-value": lambda x: scipy.stats.ttest_1samp(x, 0.5)[1],
    "fftconvolve": lambda x: scipy.signal.fftconvolve(x, x),
    "rbf_kernel": lambda x: rbf_kernel(x),
    "Ridge": lambda x: Ridge(solver="svd").fit(x[:, :2], x[:, 2]).coef_,
}
a = np.random.default_rng(0).normal(size=(6, 3))
step = 1e-6 * np.sin(np.arange(18.0)).reshape(6, 3)
for name, call in calls.items():
    x = rg.tensor(a, requires_grad=True)
    value = call(x)
    weights = np.cos(np.arange(value.numel())).reshape(tuple(value.shape))
    np.testing.assert_allclose(value.detach().numpy(), call(a), rtol=1e-9, err_msg=name)
    (value * rg.tensor(weights)).sum().backward()
    slope = ((call(a + step) - call(a - step)) * weights).sum() / 2e-6
    np.testing.assert_allclose((x.grad.numpy() * step).sum() * 1e6, slope, rtol=1e-5, atol=1e-7, err_msg=name)
"""


@pytest.mark.slow  # another process, which imports SciPy and scikit-learn: 4 s
def test_scipy_and_scikit_learn_compute_on_tensors_and_their_gradients():
    for name in ("scipy", "sklearn"):
        pytest.importorskip(name)
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    subprocess.run([sys.executable, "-W", "ignore", "-c", DISPATCH], env=environment, check=True)


def test_functions_that_xarray_calls_on_a_namespace_are_numpys_on_tensors_and_others_are_missing():
    x = rg.tensor(np.arange(6.0).reshape(2, 3), requires_grad=True)
    xp = x.__array_namespace__()
    windows = xp.lib.stride_tricks.sliding_window_view(x, 2, axis=1)
    for result, wanted in [
        (xp.einsum("ij,ij->i", x, x), [5.0, 50.0]),
        (xp.pad(x, ((0, 0), (1, 0)))[:, 0], [0.0, 0.0]),
        (xp.gradient(x, axis=1).sum(1), [3.0, 3.0]),
        (windows.sum((1, 2)), [4.0, 16.0]),
        (xp.transpose(x, (1, 0))[0], [0.0, 3.0]),
        (xp.cumsum(x, axis=1)[:, -1], [3.0, 12.0]),
    ]:
        assert result.requires_grad
        np.testing.assert_allclose(result.detach().numpy(), wanted)
    assert "einsum" not in dir(xp) and not hasattr(xp, "fromfunction")
    assert bool(xp.any(x > 4, out=None)) and not xp.all(x > 4, out=None)  # as np.any(DataArray) calls them


def test_pandas_iterates_over_the_numbers_of_a_tensor_because_it_compares_objects_by_identity():
    theirs = {"__name__": "pandas.core.algorithms"}
    exec("def listed(x): return list(x)", theirs)
    assert [type(x) for x in theirs["listed"](rg.tensor([1.0, 3.0]))] == [np.float32] * 2
    with pytest.raises(RuntimeError, match="without losing its gradient"):
        theirs["listed"](rg.ones(2, requires_grad=True))


def test_a_deep_copy_that_xarray_makes_keeps_the_gradient():
    theirs = {"__name__": "xarray.core.variable", "copy": copy}
    exec("def copied(x): return copy.deepcopy(x)", theirs)
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    for value, slope in ((x, 1.0), (x * 2, 2.0)):
        assert rg.autograd.grad(theirs["copied"](value).sum(), x)[0].tolist() == [slope, slope]
    assert copy.deepcopy(x)._node is None and copy.deepcopy(x).requires_grad


def test_the_limits_of_the_array_api_include_bfloat16():
    for dtype, other in ((rg.bfloat16, "bfloat16"), (rg.float16, np.float16), (rg.complex64, np.float32)):
        info = xp.finfo(dtype)
        wanted = pytest.importorskip("ml_dtypes").finfo(other)
        assert (info.bits, info.eps, info.max, info.min, info.smallest_normal) == (
            wanted.bits, float(wanted.eps), float(wanted.max), float(wanted.min), float(wanted.smallest_normal),
        )  # fmt: skip
