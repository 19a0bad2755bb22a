"""NumPy's functions of several arrays with Tensors in some places and Python numbers or lists in the others."""

from functools import partial

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops.numpy.function_table import RULES
from tests.helpers.together import check_all, in_one_test


def written(function, target, *args):
    """What a function that writes leaves in a copy of its target, which is a Tensor where the arguments are."""
    if function is np.copyto:
        target = (
            rg.zeros(2, 3, dtype=args[0].dtype)
            if isinstance(args[0], rg.Tensor)
            else np.zeros((2, 3), np.asarray(args[0]).dtype)
        )
    else:
        target = target.clone() if isinstance(target, rg.Tensor) else np.array(target)
    function(target, *args)
    return target


M = [[0.1, 0.7, -0.3], [1.3, -0.9, 0.6]]
K = [[0.2, -0.4], [1.1, 0.3], [-0.7, 0.9]]
U, V, W = [0.1, 0.2, 0.4], [0.3, -1.1, 0.7], [0.6, 0.9]
SQUARE = [[2.1, 0.3], [-0.4, 1.7]]
CONDITION = [True, False, True]

# Per function of several arrays: the call on them, and example arrays as lists and numbers.
CALLS = {
    "atleast_3d": [(lambda a, b: np.atleast_3d(a, b)[1], U, 0.1)],
    "bincount": [(lambda w: np.bincount([0, 2, 2], w), U)],
    "choose": [(lambda a, b: np.choose([0, 1, 0], [a, b]), U, V)],
    "copyto": [(lambda a: written(np.copyto, np.zeros((2, 3)), a), U)],
    "correlate": [(np.correlate, V, W), (np.correlate, W, V)],
    "fill_diagonal": [(lambda a: written(np.fill_diagonal, a, 0.1), SQUARE)],
    "geomspace": [(lambda a, b: np.geomspace(a, b, 4), U, 3.0), (lambda a, b: np.geomspace(a, b, 4), [0.1, 0.7], W)],
    "insert": [(lambda a, b: np.insert(a, 1, b), U, 0.1), (lambda a, b: np.insert(a, [0, 2], b), V, W)],
    "linalg.cross": [(lambda a, b: np.linalg.cross(a, b), U, V)],
    "lib.scimath.logn": [(np.emath.logn, [0.3, 0.2, 0.7], [0.2, 3.0, -0.1]), (np.emath.logn, 0.3, V)],
    "lib.scimath.power": [(np.emath.power, V, U), (np.emath.power, V, 0.3)],
    "linalg.lstsq": [(lambda a, b: np.linalg.lstsq(a, b)[0], SQUARE, W)],
    "linalg.tensordot": [(lambda a, b: np.linalg.tensordot(a, b, axes=1), M, K)],
    "linspace": [(lambda a, b: np.linspace(a, b, 4), U, 0.1), (lambda a, b: np.linspace(a, b, 4), U, V)],
    "logspace": [(lambda a, b: np.logspace(a, b, 4), U, 0.1), (lambda a, b: np.logspace(a, b, 4, base=2.0), U, V)],
    "piecewise": [(lambda a: np.piecewise(a, CONDITION, [lambda x: x * 2, 0.1]), U)],
    "place": [(lambda a: written(np.place, a, CONDITION, [0.1, 0.2]), U)],
    "poly": [(np.poly, U)],
    "polyadd": [(np.polyadd, U, W), (np.polyadd, U, 0.1)],
    "polydiv": [(lambda a, b: np.polydiv(a, b)[0], U, W), (lambda a, b: np.polydiv(a, b)[1], U, W)],
    "polyfit": [(lambda a, b: np.polyfit(a, b, 1), V, U)],
    "polyint": [(lambda a: np.polyint(a, 2, [0.1, 0.2]), U), (lambda a: np.polyint(a, k=0.1), U)],
    "polymul": [(np.polymul, U, W), (np.polymul, U, 0.1)],
    "polysub": [(np.polysub, U, W), (np.polysub, W, V)],
    "put": [(lambda a: written(np.put, a, [0, -1], [0.1, 0.2]), U)],
    "put_along_axis": [(lambda a: written(np.put_along_axis, a, np.array([[0], [1]]), 0.1, 1), M)],
    "putmask": [(lambda a: written(np.putmask, a, CONDITION, [0.1, 0.2, 0.3]), U)],
    "setdiff1d": [(np.setdiff1d, U, W)],
    "setxor1d": [(np.setxor1d, U, W)],
    "union1d": [(np.union1d, U, W)],
    "intersect1d": [(np.intersect1d, U, [0.1, 0.4])],
    "append": [(np.append, U, 0.1), (np.append, U, W), (lambda a, b: np.append(a, b, axis=0), M, [V])],
    "average": [(lambda a, w: np.average(a, weights=w), V, U), (lambda a, w: np.average(a, 1, w), M, U)],
    "broadcast_arrays": [(lambda a, b: np.broadcast_arrays(a, b)[0], U, 0.1)],
    "atleast_1d": [(lambda a, b: np.atleast_1d(a, b)[1], U, 0.1)],
    "atleast_2d": [(lambda a, b: np.atleast_2d(a, b)[1], U, 0.1)],
    "clip": [(np.clip, V, -0.1, 0.3), (np.clip, V, [-0.1, -0.2, -0.3], U)],
    "column_stack": [(lambda a, b: np.column_stack([a, b]), U, V)],
    "concatenate": [
        (lambda a, b: np.concatenate([a, b]), U, W),
        (lambda a, b: np.concatenate((a, b), axis=None), M, 0.1),
    ],
    "convolve": [(np.convolve, U, W), (np.convolve, W, V)],
    "corrcoef": [(np.corrcoef, U, V)],
    "cov": [(np.cov, U, V), (lambda a, b: np.cov(a, b, rowvar=False), K, [[0.4], [0.8], [0.1]])],
    "cross": [(np.cross, U, V), (np.cross, M, V)],
    "diff": [(lambda a, b: np.diff(a, prepend=b), U, 0.1), (lambda a, b: np.diff(a, append=b), U, W)],
    "dot": [(np.dot, M, U), (np.dot, M, K), (np.dot, U, 0.1), (np.dot, U, V)],
    "dstack": [(lambda a, b: np.dstack([a, b]), U, V)],
    "einsum": [
        (lambda a, b: np.einsum("ij,j->i", a, b), M, U),
        (lambda a, b: np.einsum(a, [0, 1], b, [1]), M, U),
        (lambda a, b: np.einsum(a, [0, 1], b, [1, 2], [2, 0]), M, K),
    ],
    "full_like": [(lambda a: np.full_like(a, 0.1), M), (lambda a: np.full_like(a, U), M)],
    "gradient": [(np.gradient, V, 0.1), (np.gradient, V, [0.1, 0.4, 0.6])],
    "hstack": [(lambda a, b: np.hstack([a, b]), U, V)],
    "inner": [(np.inner, M, U), (np.inner, U, 0.1)],
    "interp": [(np.interp, V, [-0.9, 0.1, 0.6], U), (np.interp, 0.3, U, V)],
    "kron": [(np.kron, U, W)],
    "linalg.matmul": [(np.linalg.matmul, M, K)],
    "linalg.multi_dot": [(lambda a, b, c: np.linalg.multi_dot([a, b, c]), M, K, M)],
    "linalg.outer": [(np.linalg.outer, U, V)],
    "linalg.solve": [(np.linalg.solve, SQUARE, W)],
    "linalg.tensorsolve": [(np.linalg.tensorsolve, SQUARE, W)],
    "linalg.vecdot": [(np.linalg.vecdot, M, U)],
    "meshgrid": [(lambda a, b: np.meshgrid(a, b)[0], U, W), (lambda a, b: np.meshgrid(a, b)[1], U, W)],
    "nan_to_num": [(lambda a: np.nan_to_num(a, nan=0.1), [0.3, np.nan])],
    "outer": [(np.outer, U, W), (np.outer, U, 0.1)],
    "pad": [(lambda a: np.pad(a, 1, constant_values=0.1), U)],
    "polyval": [(np.polyval, U, W), (np.polyval, U, 0.1)],
    "select": [(lambda a, b: np.select([CONDITION, [False] * 3], [a, b], 0.1), U, V)],
    "stack": [(lambda a, b: np.stack([a, b]), U, V)],
    "tensordot": [(lambda a, b: np.tensordot(a, b, 1), M, K)],
    "trapezoid": [(np.trapezoid, V, U), (lambda a: np.trapezoid(a, dx=0.1), V)],
    "vdot": [(np.vdot, U, V)],
    "vstack": [(lambda a, b: np.vstack([a, b]), M, U)],
    "where": [(lambda a, b: np.where(CONDITION, a, b), U, V), (lambda a, b: np.where(CONDITION, a, b), U, 0.1)],
}
UFUNCS = [np.add, np.multiply, np.divide, np.maximum, np.arctan2, np.matmul, np.less, np.vecdot]

# Functions of one array; other arguments are counts, axes, positions and levels.
OF_ONE_ARRAY = set(
    """sum mean prod amax amin max min ptp var std median quantile percentile nanquantile nanpercentile nansum nanmean
    nanmax nanmin cumsum cumprod sort ediff1d real imag angle round around fix sinc i0 reshape ravel transpose
    matrix_transpose linalg.matrix_transpose swapaxes moveaxis rollaxis squeeze expand_dims broadcast_to split
    array_split vsplit hsplit dsplit unstack tile repeat flip fliplr flipud roll rot90 tril triu diag diagflat diagonal
    copy astype zeros_like ones_like empty_like take take_along_axis delete compress trace linalg.norm
    linalg.vector_norm linalg.matrix_norm linalg.inv linalg.pinv linalg.det linalg.slogdet linalg.tensorinv
    linalg.cholesky linalg.qr linalg.svd linalg.svdvals linalg.eigh linalg.eigvalsh linalg.matrix_power linalg.cond
    linalg.trace linalg.diagonal fft.fft fft.ifft fft.rfft fft.irfft fft.hfft fft.ihfft fft.fft2 fft.ifft2 fft.rfft2
    fft.irfft2 fft.fftn fft.ifftn fft.rfftn fft.irfftn fft.fftshift fft.ifftshift shape ndim size array_repr array_str
    array2string linalg.eig linalg.eigvals roots
    nanprod nanvar nanstd nanmedian nancumsum nancumprod cumulative_sum cumulative_prod sort_complex
    partition unwrap real_if_close vander polyder trim_zeros extract resize lib.stride_tricks.sliding_window_view
    apply_along_axis apply_over_axes unique unique_values unique_all unique_counts unique_inverse histogram histogram2d
    histogramdd histogram_bin_edges block""".split()  # noqa: SIM905
) | {f"lib.scimath.{name}" for name in ("sqrt", "log", "log2", "log10", "arccos", "arcsin", "arctanh")}
ALWAYS_DOUBLE = {
    "interp",
    "cov",
    "corrcoef",
    "bincount",
    "geomspace",
    "polyfit",
    "poly",
    "polyint",
}  # in NumPy, whatever the arguments


def test_every_rule_is_of_one_array_or_called_here():
    assert set(RULES) == set(CALLS) | OF_ONE_ARRAY and not set(CALLS) & OF_ONE_ARRAY


# Name, function, arrays, and the place of the Tensor among them.
PROGRAMS = [
    (name, function, arrays, place)
    for name, calls in CALLS.items()
    for function, *arrays in calls
    for place in range(len(arrays))
] + [(ufunc.__name__, ufunc, [U, V], place) for ufunc in UFUNCS for place in range(2)]


@in_one_test("name, function, arrays, place", PROGRAMS)
def test_lists_and_numbers_beside_floating_tensors_take_their_dtype(name, function, arrays, place):
    dtypes = ["float64", "float32"]
    # NumPy has no linear algebra in float16, nor complex numbers for it, and keeps it in quotients.
    if not (name in ("linalg.lstsq", "polyfit", "polydiv") or "solve" in name or "scimath" in name):
        dtypes.append("float16")
    check_all((dtype, partial(check_mixed, name, function, arrays, place, dtype)) for dtype in dtypes)


def check_mixed(name, function, arrays, place, dtype):
    # One Tensor among lists, and one list or number among Tensors.
    plain = [np.asarray(value, dtype) for value in arrays]
    wanted = function(*plain)
    for alone in (True, False):
        mixed = [
            rg.tensor(array) if (index == place) is alone else value
            for index, (array, value) in enumerate(zip(plain, arrays, strict=True))
        ]
        if not any(isinstance(value, rg.Tensor) for value in mixed):
            continue
        got = function(*mixed)
        assert isinstance(got, rg.Tensor)
        if name not in ALWAYS_DOUBLE:
            assert got.dtype == wanted.dtype
        tolerance = {"float64": 1e-14, "float32": 3e-6, "float16": 2e-2}[dtype]
        np.testing.assert_allclose(got.numpy(), wanted, rtol=tolerance, atol=tolerance)


# The others write the number in the array's dtype.
@in_one_test("name, function, arrays, place", [x for x in PROGRAMS if x[0] not in ("full_like", "pad", "nan_to_num")])
def test_floating_lists_and_numbers_beside_integer_tensors_are_in_float64(name, function, arrays, place):
    whole = np.asarray(np.round(np.asarray(arrays[place]) * 10), np.int64)
    if name == "interp" and whole.ndim:
        whole = np.sort(whole)
    mixed, plain = list(arrays), list(arrays)
    mixed[place], plain[place] = rg.tensor(whole), whole
    wanted = np.asarray(function(*plain))
    got = function(*mixed)
    np.testing.assert_allclose(got.numpy(), wanted, rtol=1e-14, atol=1e-14)
    assert got.dtype == wanted.dtype


def test_lists_of_tensors_and_numbers_keep_the_gradient_and_the_dtype():
    x = rg.tensor(0.5, dtype=rg.float64, requires_grad=True)
    y = np.concatenate([[x, 0.1], rg.tensor([0.2], dtype=rg.float64)])
    assert y.dtype == np.float64 and y.tolist() == [0.5, 0.1, 0.2]
    (y * y).sum().backward()
    assert x.grad.item() == 1.0


def test_lists_that_hold_arrays_keep_the_dtype_of_these():
    t = rg.ones(2, dtype=rg.float16)
    assert np.append(t, [np.float32(0.1)]).dtype == np.float32
    assert np.append(t, np.array([0.1])).dtype == np.float64
    assert np.append(t, [0.1, 1j]).dtype == np.complex64


def test_a_list_that_is_ragged_or_holds_no_numbers_is_refused_by_name():
    with pytest.raises((RuntimeError, TypeError), match="np.dot"):
        np.dot(rg.ones(2), ["a", "b"])
    with pytest.raises((RuntimeError, TypeError), match="np.append"):
        np.append(rg.ones(2), [[1.0], [1.0, 2.0]])


def test_arguments_once_ignored():
    t = rg.tensor(M, dtype=rg.float64)
    assert np.stack([t, t], axis=0, dtype=np.float32).dtype == np.float32
    assert np.median(rg.tensor([1, 2, 4, 9])).item() == 3.0
    np.testing.assert_allclose(np.einsum(t, [0, 1], t, [0, 1]).item(), np.sum(np.array(M) ** 2))


REDUCTIONS = """sum mean average prod amax amin max min ptp var std median nansum nanmean nanmax nanmin any all
    count_nonzero""".split()  # noqa: SIM905


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_no_axes_reduce_nothing(name, keepdims):
    values = np.array(M)
    t = rg.tensor(values, requires_grad=True)
    wanted = getattr(np, name)(values, axis=(), keepdims=keepdims)
    got = getattr(np, name)(t, axis=(), keepdims=keepdims)
    assert got.shape == wanted.shape and got.dtype == wanted.dtype
    np.testing.assert_allclose(got.numpy(force=True), wanted, rtol=1e-15)
    assert got is not t and not np.shares_memory(got.array, t.array)
    if got.requires_grad and name not in ("ptp", "var", "std"):
        (got * got).sum().backward()
        np.testing.assert_allclose(t.grad.numpy(), 2 * values)


@pytest.mark.parametrize("function", [np.quantile, np.percentile, np.nanquantile])
def test_quantiles_over_no_axes_are_the_elements(function):
    values = np.array(M)
    for level in (0.3, [0.2, 0.7]):
        wanted = function(values, level, axis=())
        np.testing.assert_allclose(function(rg.tensor(values), level, axis=()).numpy(), wanted)


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.minimum, np.logical_and, np.logaddexp])
def test_reduce_of_ufuncs_over_no_axes(ufunc):
    values = np.array(M)
    t = rg.tensor(values)
    got = ufunc.reduce(t, axis=())
    np.testing.assert_allclose(got.numpy(), ufunc.reduce(values, axis=()))
    assert got is not t and not np.shares_memory(got.array, t.array)


@pytest.mark.parametrize("name", "sum mean std var amax amin nansum nanmean".split())  # noqa: SIM905
def test_our_own_reductions_take_an_empty_dim_as_pytorch_does(name):
    torch = pytest.importorskip("torch")
    wanted = getattr(torch, name)(torch.tensor(M), dim=())
    got = getattr(rg, name)(rg.tensor(M), dim=())
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-6)
    assert got.shape == tuple(wanted.shape)


def test_broadcast_arrays_takes_none_which_matplotlib_gives_it():
    x, y, nothing = np.broadcast_arrays(rg.tensor([1.0, 2.0]), 3.0, None)
    assert x.tolist() == [1.0, 2.0] and y.tolist() == [3.0, 3.0] and nothing.tolist() == [None, None]


def test_einsum_path_of_tensors_is_that_of_their_arrays_and_leads_einsum():
    shapes = [(3, 40), (40, 5), (5, 20), (20, 2)]
    arrays = [np.random.default_rng(0).standard_normal(shape) for shape in shapes]
    tensors = [rg.tensor(array, requires_grad=True) for array in arrays]
    for options in ({}, {"optimize": "optimal"}, {"optimize": ["einsum_path", (0, 1), (0, 1), (0, 1)]}):
        path, description = np.einsum_path("ab,bc,cd,de->ae", *tensors, **options)
        wanted = np.einsum_path("ab,bc,cd,de->ae", *arrays, **options)
        assert (path, description) == wanted
        product = np.einsum("ab,bc,cd,de->ae", *tensors, optimize=path)
        np.testing.assert_allclose(product.detach().numpy(), np.linalg.multi_dot(arrays))
        assert product.requires_grad


def test_apply_along_axis_differentiates_and_maps_whatever_shape_the_function_gives():
    x = rg.tensor(np.random.default_rng(0).standard_normal((2, 3, 4)))
    functions = [lambda v: v @ v, lambda v: v * v.sum(), lambda v: np.outer(v, v[:2]) * 2.0, lambda v, c: c * v[-1]]
    for function in functions:
        extra = () if function is not functions[-1] else (3.0,)
        for axis in (0, 1, -1):
            got = np.apply_along_axis(function, axis, x, *extra)
            wanted = np.apply_along_axis(function, axis, x.numpy(), *extra)
            np.testing.assert_allclose(got.numpy(), wanted)
            assert rg.autograd.gradcheck(lambda a, f=function, k=axis, e=extra: np.apply_along_axis(f, k, a, *e),
                                         (x[:, :2, :2].clone().requires_grad_(),))  # fmt: skip
        mapped = rg.func.vmap(lambda a, f=function, e=extra: np.apply_along_axis(f, 0, a, *e))(x)
        np.testing.assert_allclose(mapped[1].numpy(), np.apply_along_axis(function, 0, x[1].numpy(), *extra))
