"""NumPy's functions on Tensors of every dtype: the dtype and the value are NumPy's, or there is an error."""

import warnings

import numpy as np
import pytest

import retrograd as rg
from retrograd import func
from retrograd.ops.numpy.ufunc_calls import ufunc_rule
from tests.ops.numpy.against_numpy import array

DTYPES = [
    np.dtype(name)
    for name in "bool int8 int32 int64 uint8 uint64 float16 float32 float64 complex64 complex128".split()  # noqa: SIM905
]
UFUNCS = sorted({u for u in vars(np).values() if isinstance(u, np.ufunc)}, key=lambda u: u.__name__)
ELEMENTWISE = [u for u in UFUNCS if u.signature is None]
FIRST, SECOND = [1, 2, 3, 2, 1, 4], [2, 1, 2, 3, 1, 2]

# NumPy 2.4 loses a factor where its vectorized loops reduce.
WRONG_IN_NUMPY = ("arctan2", "power")


def numbers(values, dtype):
    values = np.array(values)
    if dtype.kind == "b":
        return values % 2 == 0
    return (values * (1 + 0.5j)).astype(dtype) if dtype.kind == "c" else values.astype(dtype)


def outcome(function, *arguments):
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return function(*arguments)
    except (TypeError, ValueError, RuntimeError, OverflowError, NotImplementedError, IndexError) as error:
        return error


def check(label, got, wanted):
    """NumPy's result, or an error; where NumPy refuses, an error."""
    if isinstance(wanted, Exception):
        assert isinstance(got, Exception), f"{label}: NumPy refuses it, we answer {got}"
        return
    assert not isinstance(got, Exception), f"{label}: {got}"
    if isinstance(wanted, tuple):
        for mine, other in zip(got, wanted, strict=True):
            check(label, mine, other)
        return
    wanted, got = np.asarray(wanted), array(got)
    assert got.dtype == wanted.dtype, f"{label}: {got.dtype}, NumPy's is {wanted.dtype}"
    digits = {2: 2e-2, 4: 2e-5, 8: 1e-11, 1: 0}[wanted.real.dtype.itemsize] if wanted.dtype.kind in "fc" else 0
    np.testing.assert_allclose(got, wanted, rtol=digits, atol=digits, err_msg=label)


@pytest.mark.parametrize("ufunc", [u for u in ELEMENTWISE if u.nin == 1], ids=lambda u: u.__name__)
def test_a_ufunc_of_one_operand_has_numpys_dtype(ufunc):
    for dtype in DTYPES:
        x = numbers(FIRST, dtype)
        if ufunc_rule(ufunc) is None and dtype.kind in "fc":
            continue
        check(f"{ufunc.__name__}({dtype})", outcome(ufunc, rg.tensor(x)), outcome(ufunc, x))


@pytest.mark.every(2)
@pytest.mark.parametrize("ufunc", [u for u in UFUNCS if u.nin == 2], ids=lambda u: u.__name__)
def test_a_ufunc_of_two_operands_has_numpys_dtype(ufunc):
    for dtype in DTYPES:
        for other in DTYPES:
            x, y = numbers(FIRST, dtype), numbers(SECOND, other)
            if ufunc.__name__ == "matvec":
                x = x.reshape(1, 6)
            elif ufunc.__name__ == "vecmat":
                y = y.reshape(6, 1)
            wanted = outcome(ufunc, x, y)
            for left, right in ((rg.tensor(x), rg.tensor(y)), (rg.tensor(x), y), (x, rg.tensor(y))):
                check(f"{ufunc.__name__}({dtype}, {other})", outcome(ufunc, left, right), wanted)


@pytest.mark.parametrize("ufunc", [u for u in ELEMENTWISE if u.nin == 2], ids=lambda u: u.__name__)
def test_numbers_beside_tensors_are_weak_as_in_numpy(ufunc):
    for dtype in DTYPES:
        x = numbers(FIRST, dtype)
        for number in (True, 3, 2.5, 1.5j):
            for arguments, given in (((x, number), (rg.tensor(x), number)), ((number, x), (number, rg.tensor(x)))):
                check(f"{ufunc.__name__}({dtype}, {number})", outcome(ufunc, *given), outcome(ufunc, *arguments))


@pytest.mark.parametrize("ufunc", [u for u in ELEMENTWISE if u.nin == 2 and u.nout == 1], ids=lambda u: u.__name__)
def test_methods_of_ufuncs_have_numpys_dtype_and_value(ufunc):
    mask = np.array([True, False, True])
    methods = [
        ("reduce", lambda x: ufunc.reduce(x, axis=0)),
        ("reduce", lambda x: ufunc.reduce(x, axis=None)),
        ("reduce", lambda x: ufunc.reduce(x, axis=1, keepdims=True)),
        ("reduce", lambda x: ufunc.reduce(x, axis=1, initial=2)),
        ("reduce", lambda x: ufunc.reduce(x, axis=1, initial=1, where=mask)),
        ("accumulate", lambda x: ufunc.accumulate(x, axis=1)),
        ("reduceat", lambda x: ufunc.reduceat(x, [0, 2, 1], axis=1)),
        ("outer", lambda x: ufunc.outer(x, x)),
    ]
    for dtype in DTYPES:
        x = numbers(FIRST, dtype).reshape(2, 3)
        for name, method in methods:
            wanted = outcome(method, x)
            if ufunc.__name__ in WRONG_IN_NUMPY and dtype.kind in "fc" and name.startswith("reduce"):
                continue
            check(f"{ufunc.__name__}.{name}({dtype})", outcome(method, rg.tensor(x)), wanted)


@pytest.mark.parametrize("ufunc", [u for u in ELEMENTWISE if u.nout == 1], ids=lambda u: u.__name__)
def test_at_updates_an_element_once_for_each_time_its_index_comes(ufunc):
    for dtype in DTYPES:
        x = numbers(FIRST, dtype)
        rest = [numbers(SECOND[:4], dtype)] if ufunc.nin == 2 else []
        if ufunc_rule(ufunc) is None and dtype.kind in "fc":
            continue
        target, plain = rg.tensor(x), x.copy()
        wanted = outcome(ufunc.at, plain, [0, 2, 2, 5], *rest)
        got = outcome(ufunc.at, target, [0, 2, 2, 5], *map(rg.tensor, rest))
        check(f"{ufunc.__name__}.at({dtype})", got or target, wanted or plain)


def test_at_refuses_a_result_that_does_not_fit():
    with pytest.raises(TypeError, match=r"np\.add\.at.*complex128.*float64"):
        np.add.at(rg.zeros(3, dtype=rg.float64), [0], 1j)
    with pytest.raises(IndexError, match=r"np\.multiply\.at"):
        np.multiply.at(rg.zeros(3), [3], 2.0)


X, V = np.array([0.7, 1.3, 2.1, 0.4]), np.array([1.5, 0.6, 0.9, 1.1, 0.8])
INDEX = np.array([0, 2, 2, 1, 2])

WRITES = [
    lambda x, v: np.multiply.at(x, INDEX, v),
    lambda x, v: np.maximum.at(x, INDEX, v),
    lambda x, v: np.minimum.at(x, INDEX, v),
    lambda x, v: np.divide.at(x, INDEX, v),
    lambda x, v: np.power.at(x, INDEX, v),
    lambda x, v: np.add.at(x, INDEX, v),
    lambda x, v: np.subtract.at(x, INDEX, v),
    lambda x, v: np.hypot.at(x, INDEX, v),
    lambda x, v: np.sin.at(x, INDEX),
    lambda x, v: np.negative.at(x, INDEX),
    lambda x, v: np.multiply.at(x, [-1], v[0]),
]


def differences(function, x):
    step = 1e-6 * np.eye(x.size).reshape(-1, *x.shape)
    return np.array([(function(x + e) - function(x - e)) / 2e-6 for e in step]).reshape(x.shape)


@pytest.mark.parametrize("write", WRITES)
def test_the_gradient_of_updates_at_indices(write):
    def program(x, v):
        y = x * 1.0
        write(y, v)
        return np.sum(y * y * np.arange(1.0, 5))

    x, v = rg.tensor(X, requires_grad=True), rg.tensor(V, requires_grad=True)
    program(x, v).backward()
    np.testing.assert_allclose(x.grad.numpy(), differences(lambda x: program(x, V), X), rtol=1e-6, atol=1e-8)
    if v.grad is not None:
        np.testing.assert_allclose(v.grad.numpy(), differences(lambda v: program(X, v), V), rtol=1e-6, atol=1e-8)
    mapped = func.vmap(func.grad(lambda x: program(x, rg.tensor(V))))(rg.tensor(np.stack([X, X])))
    np.testing.assert_allclose(mapped.numpy(), np.stack([x.grad.numpy()] * 2))


M = np.array([[0.7, -1.3, 2.1], [0.4, 0.9, -0.6]])
FOLDS = [
    lambda x: np.subtract.reduce(x, axis=1),
    lambda x: np.divide.reduce(x, axis=0),
    lambda x: np.hypot.reduce(x, axis=None),
    lambda x: np.hypot.reduce(x, axis=1, keepdims=True),
    lambda x: np.fmax.reduce(x, axis=1),
    lambda x: np.subtract.reduce(x, axis=1, initial=2.0),
    lambda x: np.multiply.reduce(x, axis=1, where=M > 0, initial=3.0),
    lambda x: np.logaddexp.reduce(x, axis=1, where=M > 0),
    lambda x: np.logaddexp2.reduce(x, axis=(0, 1)),
    lambda x: np.subtract.accumulate(x, axis=1),
    lambda x: np.divide.accumulate(x, axis=1),
    lambda x: np.hypot.accumulate(x),
    lambda x: np.subtract.reduceat(x, [0, 2], axis=1),
    lambda x: np.hypot.outer(x, x[0]),
]


@pytest.mark.parametrize("fold", FOLDS)
def test_the_gradient_of_methods_without_an_operator_of_their_own(fold):
    def program(x):
        y = fold(x)
        return np.sum(y * np.cos(np.arange(1.0, 1 + np.size(y)).reshape(np.shape(y))))

    found = func.grad(program)(rg.tensor(M))
    np.testing.assert_allclose(found.numpy(), differences(program, M), rtol=1e-6, atol=1e-8)


def test_an_accumulated_difference_neither_overflows_nor_rounds_otherwise():
    for x in (np.array([1e308, 1e308, 1e308]), np.array([0.1, 0.2, 0.3, 0.4])):
        np.testing.assert_array_equal(np.subtract.accumulate(rg.tensor(x)).numpy(), np.subtract.accumulate(x))


def test_sums_and_products_of_small_integers_are_numpys():
    for dtype in DTYPES:
        x = numbers([200, 100, 3, 2], dtype)
        for function in (np.sum, np.prod, np.cumsum, np.cumprod, np.nansum, np.nancumprod, np.trace):
            given = x.reshape(2, 2) if function is np.trace else x
            check(f"{function.__name__}({dtype})", outcome(function, rg.tensor(given)), outcome(function, given))


def test_functions_of_pytorchs_names_keep_pytorchs_dtypes():
    n = rg.tensor([1, 2, 3])
    assert rg.sin(n).dtype == n.sin().dtype == (n / 3).dtype == rg.sqrt(n).dtype == rg.float32
    assert np.sin(n).dtype == np.divide(n, 3).dtype == np.sqrt(n).dtype == np.float64
    byte = rg.tensor([200, 100], dtype=rg.uint8)
    assert byte.sum().dtype == rg.int64 and np.sum(byte).dtype == np.uint64


def test_inside_vmap_and_compiled_programs_integers_have_the_same_dtypes():
    n = rg.tensor([[1, 2, 3], [4, 5, 6]], dtype=rg.uint8)
    for function in (np.sin, np.sum, lambda n: np.divide(n, 3), lambda n: np.cumsum(n), lambda n: np.add(n, 1.5)):
        eager = np.stack([function(row) for row in n.numpy()])
        for result in (func.vmap(function)(n), rg.stack([rg.compile(function)(row) for row in n])):
            assert result.dtype == eager.dtype
            np.testing.assert_allclose(result.numpy(), eager)


def test_an_integer_divided_by_zero_is_numpys_result_with_numpys_warning():
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        assert np.floor_divide(rg.tensor([1, 2]), 0).tolist() == [0, 0]


def test_products_with_arrays_promote_on_both_sides_alike():
    for dtype in DTYPES:
        for other in DTYPES:
            x, y = numbers(FIRST, dtype).reshape(2, 3), numbers(SECOND, other).reshape(3, 2)
            wanted = x @ y
            for product in (rg.tensor(x) @ y, x @ rg.tensor(y)):
                check(f"{dtype} @ {other}", product, wanted)
    with pytest.raises(RuntimeError, match="matmul"):  # of two Tensors, as in PyTorch
        rg.ones(2, 2) @ rg.ones(2, 2, dtype=rg.float64)


def test_the_gradient_of_a_promoted_product_has_the_dtype_of_the_leaf():
    t = rg.ones(2, 2, requires_grad=True)
    y = t @ np.array([[1, 2], [3, 4]])
    assert y.dtype == np.float64
    y.sum().backward()
    assert t.grad.dtype == rg.float32 and t.grad.tolist() == [[3.0, 7.0], [3.0, 7.0]]


def test_extremes_of_complex_numbers_are_numpys_and_have_their_gradient():
    z, w = np.array([1 + 2j, 1 - 1j, 3 + 0j]), np.array([1 + 1j, 2 - 1j, np.nan])
    for ufunc in (np.maximum, np.minimum, np.fmax, np.fmin):
        t = rg.tensor(z, requires_grad=True)
        y = ufunc(t, w)
        np.testing.assert_array_equal(array(y), ufunc(z, w))
        y.real.sum().backward()
        np.testing.assert_array_equal(array(t.grad), (ufunc(z, w) == z).astype(complex))
    assert np.max(rg.tensor(z), initial=9).item() == 9 == np.max(z, initial=9)


def test_a_real_dtype_for_the_deviation_of_complex_numbers_is_refused():
    for function in (np.std, np.var, np.nanstd, np.nanvar):
        with pytest.raises(TypeError, match="imaginary"):
            function(rg.tensor([1 + 2j, 3.0]), dtype=np.float32)


def test_functions_of_numpy_accept_bfloat16():
    bfloat16 = pytest.importorskip("ml_dtypes").bfloat16
    rows, values = [[1, 1], [2, 1], [3, 1], [4, 1]], [2, 4, 6, 8]
    found = np.linalg.lstsq(rg.tensor(rows, dtype=rg.bfloat16), rg.tensor(values, dtype=rg.bfloat16), rcond=None)[0]
    assert found.dtype == rg.bfloat16
    np.testing.assert_allclose(found.numpy().astype(float), [2, 0], atol=0.05)
    x, numbers = rg.tensor(values, dtype=rg.bfloat16), [bfloat16(1), bfloat16(3)]
    assert np.concatenate([x, numbers]).tolist() == [*values, 1, 3]
    assert np.concatenate([x, numbers]).dtype == rg.bfloat16
