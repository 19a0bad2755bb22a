"""What NumPy's functions mean where PyTorch's and NumPy's differ, and where NumPy does not ask a Tensor."""

import inspect

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops.table.registry import OPERATORS

X = np.array([[1.0, 2.0, 4.0], [3.0, -1.0, 0.5]])


@pytest.mark.parametrize("name", ["std", "var"])
def test_numpys_function_divides_by_n_and_ours_by_n_less_1_whatever_the_keyword(name):
    x = rg.tensor(X)
    function = getattr(np, name)
    np.testing.assert_allclose(function(x, axis=0).numpy(), function(X, axis=0))
    np.testing.assert_allclose(getattr(x, name)(axis=0).numpy(), function(X, axis=0, ddof=1))
    np.testing.assert_allclose(getattr(rg, name)(x, dim=0).numpy(), function(X, axis=0, ddof=1))
    np.testing.assert_allclose(getattr(rg, name)(x, axis=0, correction=0).numpy(), function(X, axis=0))


@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_of_complex_numbers_are_ordered_as_numpys_and_ties_share_the_gradient(name):
    z = np.array([1 + 2j, 1 - 1j, 0.5 + 9j, 1 + 2j, 0.5 - 3j, 0.5 - 3j])
    t = rg.tensor(z, requires_grad=True)
    y = getattr(np, name)(t)
    assert y.item() == getattr(np, name)(z)
    y.real.backward()
    np.testing.assert_array_equal(t.grad.numpy(), (z == y.item()) * 0.5)


GATHERINGS = [
    lambda t: np.array([t, t]),
    lambda t: np.r_[t, t],
    lambda t: np.c_[t, t],
    lambda t: np.mean([t, t]),
    lambda t: np.sum([t[0], 1.0]),
]


@pytest.mark.parametrize("gather", GATHERINGS)
def test_lists_of_tensors_where_numpy_makes_bare_arrays_say_what_to_use(gather):
    with pytest.raises(RuntimeError, match=r"np\.stack, np\.concatenate, retrograd\.r_, .* like=tensor"):
        gather(rg.tensor([1.0, 2.0], requires_grad=True))


def test_each_function_of_numpy_that_makes_a_bare_array_is_named():
    x, a, rng = rg.tensor([1.0, 2.0], requires_grad=True), np.eye(2), np.random.default_rng(0)
    for call, words in (
        (lambda: np.asarray(x, float), "np.asarray makes a bare array; use a single Tensor as it is"),
        (lambda: np.ascontiguousarray(x), "np.ascontiguousarray makes a bare array"),
        (lambda: np.linalg.det([[x[0], 0.0], [0.0, x[1]]]), "np.linalg.det computes with bare arrays .* of a list"),
        (lambda: np.exp([x[0], 1.0]), "np.exp computes with bare arrays"),
        (lambda: np.diag([x[0], x[1]]), "np.diag computes with bare arrays"),
        (lambda: np.float64(x[0]), "np.float64 makes a number"),
        (lambda: a.dot(x), r"the method dot of an array .*np\.dot\(array, tensor\) or array @ tensor"),
        (lambda: np.eye(2).dot(x), r"np\.dot\(array, tensor\) for array\.dot\(tensor\)"),
        (lambda: rng.normal(x, 1.0), "random numbers are drawn with constant parameters"),
    ):
        with pytest.raises(RuntimeError, match=words):
            call()


def test_methods_that_do_not_take_numpys_arguments_name_the_function_that_does():
    x = rg.ones(2, 3)
    for call, name in (
        (lambda: x.flatten(order="F"), "ravel"),
        (lambda: x.reshape((3, 2), order="F"), "reshape"),
        (lambda: x.std(axis=0, ddof=0), "std"),
        (lambda: x.cumsum(), "cumsum"),
        (lambda: x.repeat(2, axis=0), "repeat"),
        (lambda: x.take([0, 2], axis=1), "take"),
        (lambda: x.round(1), "round"),
    ):
        with pytest.raises(TypeError, match=rf"; np\.{name}\(tensor, \.\.\.\) takes NumPy's arguments$"):
            call()
    for call in (lambda: x.std(axes=0), lambda: x.unfold(), lambda: x.cumsum("a"), lambda: rg.relu(x, 3)):
        with pytest.raises(TypeError, match=r"^(?!.*NumPy)"):
            call()


def test_the_method_dot_of_matrices_names_numpys_function():
    a = rg.ones(2, 2)
    for call in (lambda: a.dot(a), lambda: a[0].dot(a), lambda: a[0].dot(rg.tensor(2.0))):
        with pytest.raises(RuntimeError, match=r"must be a vector, got .* np\.dot\(input, tensor\)"):
            call()
    assert np.dot(a, a).tolist() == [[2, 2], [2, 2]]


def test_integers_have_no_gradient_that_could_be_lost():
    x = rg.tensor([0.7, 2.9], requires_grad=True)
    assert np.int64(x).tolist() == np.asarray(x, np.int32).tolist() == [0, 2]
    assert np.arange(9)[np.int64(x)].tolist() == [0, 2]
    with pytest.raises(RuntimeError, match="losing its gradient"):
        np.asarray(x, np.float64)


def test_the_array_module_is_that_of_whatever_is_given():
    assert rg.get_array_module() is rg.get_array_module(rg.ones(2), X, 3.0, "x") is np


def test_products_of_mixed_dtypes_promote_through_numpy_and_are_refused_by_ours():
    x, y = rg.ones(2, 3, requires_grad=True), rg.ones(3, 2, dtype=rg.float64)
    products = [
        np.matmul(x, y),
        np.dot(x, y),
        np.einsum("ij,jk", x, y),
        np.einsum(x, [0, 1], y, [1, 2]),
        np.tensordot(x, y, 1),
        np.inner(x, y.T),
        np.linalg.multi_dot([x, y]),
    ]
    for product in products:
        assert product.dtype == rg.float64 and product.requires_grad
    with pytest.raises(RuntimeError, match="matmul"):
        x @ y


@pytest.mark.skipif(not hasattr(np, "matvec"), reason="of NumPy 2.2")
def test_products_of_matrices_and_vectors():
    z = X + 1j * X[::-1]
    v = np.array([1.0, 2j, -1.0])
    np.testing.assert_allclose(np.matvec(rg.tensor(z), v).numpy(), np.matvec(z, v))
    np.testing.assert_allclose(np.vecmat(v, rg.tensor(z.T)).numpy(), np.vecmat(v, z.T))
    assert np.matvec(rg.ones(2, 3, requires_grad=True), v.real).dtype == rg.float64


def derivative(function, x):
    t = rg.tensor(x, requires_grad=True)
    function(t).sum().backward()
    return t.grad.numpy()


STEPS = np.array([-2.5, -0.5, 0.0, 1.75])


@pytest.mark.parametrize("function", [lambda v: np.divmod(v, 0.7), lambda v: np.divmod(3.0, v + 5), np.modf])
def test_ufuncs_with_two_outputs(function):
    for mine, wanted in zip(function(rg.tensor(STEPS)), function(STEPS), strict=True):
        np.testing.assert_allclose(mine.numpy(), wanted, rtol=1e-14)
    np.testing.assert_array_equal(derivative(lambda t: np.divmod(t, 0.7)[1], STEPS), np.ones(4))
    np.testing.assert_array_equal(derivative(lambda t: np.modf(t)[0], STEPS), np.ones(4))


def test_modf_of_what_is_not_finite():
    ends = np.array([np.inf, -np.inf, np.nan])
    for mine, wanted in zip(np.modf(rg.tensor(ends)), np.modf(ends), strict=True):
        np.testing.assert_array_equal(mine.numpy(), wanted)
        np.testing.assert_array_equal(np.signbit(mine.numpy()), np.signbit(wanted))


def test_the_cube_root_and_the_step():
    x = STEPS - 0.1
    np.testing.assert_allclose(np.cbrt(rg.tensor(x)).numpy(), np.cbrt(x))
    np.testing.assert_allclose(derivative(np.cbrt, x), 1 / (3 * np.cbrt(x) ** 2))
    np.testing.assert_array_equal(np.heaviside(rg.tensor(STEPS), 0.25).numpy(), np.heaviside(STEPS, 0.25))
    np.testing.assert_array_equal(derivative(lambda t: np.heaviside(rg.tensor(STEPS), t), np.array(0.25)), 1.0)
    np.testing.assert_array_equal(derivative(lambda t: np.heaviside(t, 0.5), STEPS), np.zeros(4))


def test_ufuncs_without_a_derivative():
    i, j = np.array([12, -18, 7]), np.array([8, 12, 0])
    for function in (np.gcd, np.lcm):
        np.testing.assert_array_equal(function(rg.tensor(i), j).numpy(), function(i, j))
    np.testing.assert_array_equal(np.nextafter(rg.tensor(X), 9.0).numpy(), np.nextafter(X, 9.0))
    np.testing.assert_array_equal(np.spacing(rg.tensor(X)).numpy(), np.spacing(X))


def test_histograms_count_and_take_no_gradient():
    counts, edges = np.histogram(rg.tensor(X, requires_grad=True), bins=3)
    wanted = np.histogram(X, bins=3)
    np.testing.assert_array_equal(counts.numpy(), wanted[0])
    np.testing.assert_array_equal(edges.numpy(), wanted[1])
    assert not counts.requires_grad and len(np.histogram_bin_edges(rg.tensor(X), 4)) == 5


def test_lstsq_gives_numpys_four_results():
    a, b = X.T, np.array([1.0, 2.0, 5.0])
    for mine, wanted in zip(np.linalg.lstsq(rg.tensor(a), b), np.linalg.lstsq(a, b), strict=True):
        np.testing.assert_allclose(np.asarray(mine), wanted, rtol=1e-12)
    flat = np.ones((3, 2))
    solution, residuals, rank, _ = np.linalg.lstsq(rg.tensor(flat), b)
    np.testing.assert_allclose(solution.numpy(), np.linalg.lstsq(flat, b)[0])
    assert rank == 1 and residuals.shape == (0,)


def test_arrays_are_written_where_no_gradient_is_lost():
    bare = np.zeros((2, 3))
    np.copyto(bare, rg.tensor(X))
    np.testing.assert_array_equal(bare, X)
    np.putmask(bare, X > 0, rg.tensor(9.0))
    assert (bare == 9).sum() == 5
    with pytest.raises(TypeError, match="cast"):
        np.copyto(rg.ones(3, dtype=rg.int64), rg.ones(3))


REFUSED = [
    lambda x: np.linspace(x, 1.0, -1),
    lambda x: np.geomspace(0 * x, 1.0),
    lambda x: np.resize(x, (-1, 2)),
    lambda x: np.choose([5], [x, x]),
    lambda x: np.block([x, [x]]),
    lambda x: np.piecewise(x, [X > 0], []),
    lambda x: np.max(x, where=X > 0),
    lambda x: np.interp(x, X[0], X[1], period=0),
    lambda x: np.lib.stride_tricks.sliding_window_view(x, (2, 2, 2)),
    lambda x: np.linalg.eigh(x[:, :2], "X"),
    lambda x: np.fill_diagonal(x[0], 1.0),
    lambda x: np.insert(x[0], 7, 1.0),
    lambda x: np.place(x, X[0], 1.0),
]

if hasattr(np, "cumulative_sum"):  # from NumPy 2.1 on
    REFUSED.append(lambda x: np.cumulative_sum(x))


@pytest.mark.parametrize("call", REFUSED)
def test_wrong_arguments_are_refused_where_numpy_refuses_them(call):
    with pytest.raises((ValueError, IndexError)):
        call(X.copy())
    with pytest.raises((ValueError, RuntimeError, IndexError)):
        call(rg.tensor(X))


def test_every_operator_with_dim_and_keepdim_takes_numpys_names_of_them():
    for name, entry in OPERATORS.items():
        parameters = inspect.signature(inspect.unwrap(entry.function)).parameters
        taken = {other for other, own in (("axis", "dim"), ("keepdims", "keepdim")) if own in parameters}
        assert taken <= set(getattr(entry.function, "other_names", {})), name
    x = rg.tensor(X)
    np.testing.assert_array_equal(rg.unsqueeze(x, axis=1).numpy(), X[:, None])
    np.testing.assert_allclose(
        rg.linalg.norm(x, axis=0, keepdims=True).numpy(), np.linalg.norm(X, axis=0, keepdims=True)
    )
    np.testing.assert_allclose(rg.fft.rfft(x, axis=0).numpy(), np.fft.rfft(X, axis=0))
    with pytest.raises(TypeError, match="dim and axis"):
        rg.sum(x, dim=0, axis=0)


BRACKETS = [
    lambda join, x, c: join[x],
    lambda join, x, c: join[x, c],
    lambda join, x, c: join[c, x, 1:7:3, x, 2.5],
    lambda join, x, c: join[0:1:5j, x[0], [1, 2], c[1]],
    lambda join, x, c: join["0,2", x, c],
    lambda join, x, c: join["1,2,0", x, c],
    lambda join, x, c: join["-1", x[:, None], c[:, None]],
]


@pytest.mark.parametrize("brackets", BRACKETS)
@pytest.mark.parametrize("name", ["r_", "c_"])
def test_brackets_join_tensors_as_numpys_join_arrays(brackets, name):
    c = np.array([0.5, -1.0, 2.0])
    try:
        wanted = brackets(getattr(np, name), X[0], c)
    except ValueError:  # not of one length
        with pytest.raises(RuntimeError, match=f"{name} of the shapes"):
            brackets(getattr(rg, name), rg.tensor(X[0]), c)
        return
    t = rg.tensor(X[0], requires_grad=True)
    joined = brackets(getattr(rg, name), t, c)
    assert joined.dtype == wanted.dtype
    np.testing.assert_array_equal(joined.detach().numpy(), wanted)
    weights = np.random.default_rng(0).standard_normal(wanted.shape)
    (joined * weights).sum().backward()
    step = np.eye(3)
    slopes = [((brackets(getattr(np, name), X[0] + e, c) - wanted) * weights).sum() for e in step]
    np.testing.assert_allclose(t.grad.numpy(), slopes, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("key", ["r", ("c", [1.0]), {}, (object(), 1.0)])
def test_brackets_refuse_what_they_do_not_join(key):
    with pytest.raises((TypeError, ValueError), match="r_"):
        rg.r_[key]
