"""Arguments at the edges of SciPy's functions, where values or derivatives were once silently different."""

from importlib import import_module

import numpy as np
import pytest

import retrograd as rg
from retrograd.func import grad, vmap

scipy = pytest.importorskip("scipy")
special = pytest.importorskip("scipy.special")


def _slope(function, x, step=1e-6):
    return (function(x + step) - function(x - step)) / (2 * step)


def _real(x):
    return x.real if x.is_complex() else x


@pytest.mark.parametrize("degree", [-4, -3, -2, -1, 0, 3])
@pytest.mark.parametrize("name", ["eval_legendre", "eval_chebyt", "eval_chebyu", "eval_sh_chebyt", "eval_chebys"])
def test_polynomials_of_negative_degree_have_their_derivative(name, degree):
    x, f = np.array([0.3, 0.7]), getattr(special, name)
    found = grad(lambda t: f(degree, t).sum())(rg.tensor(x))
    assert np.allclose(found.numpy(), _slope(lambda t: f(degree, t), x), atol=1e-7)


@pytest.mark.parametrize("name", ["struve", "modstruve"])
def test_struve_functions_of_negative_order_have_their_derivative(name):
    x, f = np.array([0.4, 1.3]), getattr(special, name)
    for order in (-3.0, -2.0, -1.5, 0.5):
        found = grad(lambda t, order=order: f(order, t).sum())(rg.tensor(x))
        assert np.allclose(found.numpy(), _slope(lambda t, order=order: f(order, t), x), rtol=1e-6)


def test_spherical_harmonics_beyond_the_poles_have_their_derivative():
    f = getattr(special, "sph_legendre_p", None)
    if f is None:
        pytest.skip("needs SciPy 1.15")
    theta = np.array([-0.7, 0.7, 4.0])
    for degree, order in ((2, -1), (3, 3), (2, 2), (1, 3)):
        ours = grad(lambda t, n=degree, m=order: rg.scipy.special.sph_legendre_p(n, m, t).sum())(rg.tensor(theta))
        assert np.allclose(ours.numpy(), _slope(lambda t, n=degree, m=order: f(n, m, t)[0], theta), atol=1e-7)


def test_what_scipy_special_refuses_or_truncates_is_an_error():
    x = rg.tensor([0.2, 0.3], dtype=rg.float64)
    with pytest.raises(ValueError, match="condition a"):
        rg.scipy.special.multigammaln(x, 3)
    for call in (lambda: rg.scipy.special.polygamma(1.5, x), lambda: rg.scipy.special.spherical_jn(1.5, x, True)):
        with pytest.raises(ValueError, match="integers"):
            call()
    below = rg.scipy.special.spherical_yn(-1, x, derivative=True)
    assert np.isnan(below.numpy()).all() and np.isnan(special.pdtr(-1, x).numpy()).all()
    assert np.isnan(rg.scipy.special.softmax(rg.tensor([1.0, np.inf])).numpy()).all()
    assert grad(lambda k: rg.scipy.special.comb(-1, k).sum())(x).tolist() == [0, 0]


@pytest.mark.parametrize(("shape", "dtype"), [((3, 3), float), ((2, 4), complex), ((5, 3), float)])
def test_a_pseudo_inverse_that_drops_singular_values_has_its_derivative(shape, dtype):
    rng = np.random.default_rng(0)
    draw = lambda s: rng.normal(size=s) + (1j * rng.normal(size=s) if dtype is complex else 0.0)  # noqa: E731
    a, weights, direction = draw(shape), draw(shape[::-1]), draw(shape)
    values = np.linalg.svd(a, compute_uv=False)
    cut = (values[-1] + values[-2]) / 2 / values[0]

    def f(x):
        return _real((rg.scipy.linalg.pinv(x, rtol=cut) * rg.tensor(weights)).sum())

    along = lambda g: _real((g * rg.tensor(direction.conj())).sum())  # noqa: E731
    first = lambda x: along(grad(f)(x))  # noqa: E731
    step = 1e-6
    for function in (f, first):
        sides = [function(rg.tensor(a + sign * step * direction)) for sign in (1, -1)]
        expected = (sides[0] - sides[1]).item() / (2 * step)
        assert along(grad(function)(rg.tensor(a))).item() == pytest.approx(expected, rel=1e-5)
    assert np.allclose(vmap(grad(f))(rg.tensor(a)[None])[0].numpy(), grad(f)(rg.tensor(a)).numpy())
    b = rg.tensor(draw((shape[0], 2)))
    solved = grad(lambda x: _real(rg.scipy.linalg.lstsq(x, b, cond=cut).x.sum()))(rg.tensor(a))
    inverted = grad(lambda x: _real((rg.linalg.pinv(x, rtol=cut) @ b).sum()))(rg.tensor(a))
    assert np.allclose(solved.numpy(), inverted.numpy())


def test_right_hand_sides_are_vectors_only_if_they_have_one_dimension():
    a = rg.tensor(np.random.default_rng(0).normal(size=(2, 3, 3)))
    with pytest.raises((ValueError, RuntimeError)):
        rg.scipy.linalg.solve(a, rg.ones(2, 3, dtype=rg.float64))
    assert rg.scipy.linalg.solve(a, rg.ones(3, 2, dtype=rg.float64)).shape == (2, 3, 2)
    with pytest.raises(NotImplementedError, match=r"mode='economic'.* got .*\(1, 3\)"):
        rg.scipy.linalg.rq(rg.ones(1, 3, requires_grad=True), mode="r")


def test_integers_have_the_dtypes_and_roundings_of_scipy():
    from scipy import linalg, ndimage, signal

    image = np.arange(12).reshape(3, 4) ** 2
    kernel = np.array([[0.3, 0.6]])
    for name, args in {"correlate": (kernel,), "gaussian_filter": (1.3,), "sobel": (), "zoom": (1.5,)}.items():
        found, expected = getattr(rg.scipy.ndimage, name)(rg.tensor(image), *args), getattr(ndimage, name)(image, *args)
        assert found.array.dtype == expected.dtype and np.array_equal(found.numpy(), expected)
    assert rg.scipy.ndimage.correlate(rg.tensor(image), rg.tensor(kernel, requires_grad=True)).dtype == rg.float64
    square = np.array([[4, 1], [1, 3]])
    for name in ("cholesky", "eigvalsh", "det", "inv"):
        found = getattr(rg.scipy.linalg, name)(rg.tensor(square))
        assert found.dtype == rg.float64 and np.allclose(found.numpy(), getattr(linalg, name)(square), rtol=1e-14)
    assert rg.scipy.signal.convolve(rg.tensor([1, 2]), rg.tensor([1, 3])).numpy().tolist() == [1, 5, 6]
    assert signal.convolve([1, 2], [1, 3]).tolist() == [1, 5, 6]


@pytest.mark.filterwarnings("ignore:It is recommended to use mode")
def test_images_and_signals_at_the_edges_are_scipys():
    from scipy import ndimage, signal

    rng = np.random.default_rng(0)
    image, kernel = rng.normal(size=(4, 5)), rng.normal(size=(2, 3)) + 1j * rng.normal(size=(2, 3))
    complex_image = image + 1j * rng.normal(size=(4, 5))
    for ours, theirs, args, options in (
        (rg.scipy.ndimage.correlate, ndimage.correlate, (complex_image, kernel), {}),
        (rg.scipy.ndimage.correlate1d, ndimage.correlate1d, (complex_image, kernel[0]), {"axis": 0}),
        (rg.scipy.ndimage.gaussian_filter, ndimage.gaussian_filter, (complex_image, 1.1), {}),
        (rg.scipy.ndimage.gaussian_filter, ndimage.gaussian_filter, (image, 1.1), {"axes": 0}),
        (rg.scipy.ndimage.zoom, ndimage.zoom, (image, 1.6), {"grid_mode": True, "order": 1}),
        (rg.scipy.ndimage.map_coordinates, ndimage.map_coordinates, (image, np.array([[-1.2, 5.0], [2.2, 1.0]])),
         {"mode": "nearest", "prefilter": False}),
        (rg.scipy.signal.correlate2d, signal.correlate2d, (complex_image[:1, :2], kernel), {"mode": "valid"}),
    ):  # fmt: skip
        assert np.allclose(ours(*map(rg.tensor, args), **options).numpy(), theirs(*args, **options)), ours


def test_what_scipy_refuses_is_refused():
    x = rg.tensor(np.arange(8.0))
    for call in (
        lambda: rg.scipy.signal.sosfilt([[1.0, 0, 0, 2.0, 0, 0]], x),
        lambda: rg.scipy.signal.lfilter([1.0], rg.tensor([0.0, 1.0], dtype=rg.float64), x),
        lambda: rg.scipy.fft.dct(x, n=-1),
        lambda: rg.scipy.fft.fft(x, n=-1),
        lambda: rg.scipy.fft.dctn(x.reshape(2, 4), axes=(1, -1)),
        lambda: rg.scipy.stats.linregress(x.reshape(4, 2), x[:2]),
        lambda: rg.scipy.interpolate.interp1d(np.arange(8.0), x, fill_value=0.0)(9.0),
        lambda: rg.scipy.interpolate.RegularGridInterpolator([np.arange(3.0)], x[:3], method="cubic"),
        lambda: rg.scipy.interpolate.RegularGridInterpolator([np.arange(3.0)], x[:3])([[0.5]], method="cubic"),
    ):
        with pytest.raises(ValueError):
            call()
    with pytest.raises(RuntimeError):
        rg.scipy.ndimage.spline_filter(x, order=1)
    z = (x[:2] + 1j).requires_grad_()
    slope = rg.autograd.grad(special.gamma(z).sum().real, z, create_graph=True)[0]
    with pytest.raises(NotImplementedError, match="complex"):
        rg.autograd.grad(slope.real.sum(), z)


def test_integrals_of_points_that_repeat_and_of_none_are_scipys():
    from scipy import integrate

    y = np.array([1.0, 4.0, 2.0, 5.0, 3.0, 7.0])
    for points in ([0.0, 0.0, 1.0, 2.0, 4.0, 5.0], [0.0, 1.0, 1.0, 2.0, 2.5, 2.5], [0.0, 1.0, 2.0, 2.5, 2.5, 3.0]):
        for count in (3, 5, 6):
            x = np.array(points[:count])
            found = rg.scipy.integrate.simpson(rg.tensor(y[:count]), x)
            assert found.item() == pytest.approx(integrate.simpson(y[:count], x=x))
    assert rg.scipy.integrate.trapezoid(rg.ones(2, 0)).tolist() == [0, 0]
    with pytest.raises(ValueError, match="At least one point"):
        rg.scipy.integrate.cumulative_trapezoid(rg.ones(0), rg.ones(0))


def test_statistics_at_the_edges_are_scipys():
    from scipy import stats

    for name, args in {"uniform": (0.0, -1.0), "f": (3.0, 3.5), "invgamma": (1.5,), "pareto": (-1.0,)}.items():
        for method in ("mean", "var", "std"):
            found = getattr(getattr(rg.scipy.stats, name), method)(*map(rg.tensor, args))
            expected = getattr(getattr(stats, name), method)(*args)
            assert np.allclose(found.numpy(), expected, equal_nan=True), (name, method)
    p, q = np.random.default_rng(0).uniform(0.1, 1, (2, 3, 4)), np.array([0.1, 0.2, 0.3, 0.4])
    for axis in (0, -1):
        assert np.allclose(rg.scipy.stats.entropy(rg.tensor(p), q, axis=axis).numpy(), stats.entropy(p, q, axis=axis))
    assert np.isnan(rg.scipy.stats.zscore(rg.tensor([1.0, 2.0]), ddof=2).numpy()).all()
    line = rg.scipy.stats.linregress(rg.tensor([0.0, 1.0]), rg.tensor([1.0, 3.0]))
    assert line.pvalue.item() == 0 and line.stderr.item() == 0


STATISTICS = ["entropy", "gmean", "hmean", "kurtosis", "skew", "moment", "sem", "variation", "zmap", "zscore"]


@pytest.mark.parametrize("name", STATISTICS)
def test_statistics_take_axes_and_keep_dimensions_as_scipys(name):
    from scipy import stats

    x, y = np.random.default_rng(0).uniform(0.2, 3, (2, 2, 3, 4))
    ours, theirs = getattr(rg.scipy.stats, name), getattr(stats, name)
    calls = [((x, y) if name == "zmap" else (x,), {})]
    calls += [((x, y), {})] if name == "entropy" else [((x,), {"weights": y})] if name in ("gmean", "hmean") else []
    for args, named in calls:
        tensors, tensors_named = [*map(rg.tensor, args)], {key: rg.tensor(value) for key, value in named.items()}
        for axis in (0, -1, None, (1,), (0, 2), (2, -2)):
            for options in ({},) if name.startswith("z") else ({"keepdims": True}, {}):
                wanted = theirs(*args, **named, axis=axis, **options)
                found = ours(*tensors, **tensors_named, axis=axis, **options)
                assert found.shape == np.shape(wanted), (axis, options)
                np.testing.assert_allclose(found.numpy(), wanted, 1e-9, 1e-12, err_msg=f"{axis} {options}")
        for axis in (3, (0, 0)):
            with pytest.raises((ValueError, IndexError), match="axis|axes"):
                ours(*tensors, **tensors_named, axis=axis)


def test_lines_and_correlations_take_axes_as_scipys():
    from scipy import stats

    x, y = np.random.default_rng(0).uniform(0.2, 3, (2, 3, 4))
    line = rg.scipy.stats.linregress(rg.tensor(x), rg.tensor(y), axis=(1, 0), keepdims=True)
    wanted = stats.linregress(x.ravel(), y.ravel())
    for found, number in zip((*line, line.intercept_stderr), (*wanted, wanted.intercept_stderr), strict=True):
        assert found.shape == (1, 1) and found.item() == pytest.approx(number)
    rows = rg.scipy.stats.linregress(rg.tensor(x), rg.tensor(y), axis=-1)
    assert rows.slope.tolist() == pytest.approx([stats.linregress(*row).slope for row in zip(x, y, strict=True)])
    found = rg.scipy.stats.pearsonr(rg.tensor(x), rg.tensor(y), axis=None)
    wanted = stats.pearsonr(x.ravel(), y.ravel())
    assert (found.statistic.item(), found.pvalue.item()) == pytest.approx((wanted.statistic, wanted.pvalue))


@pytest.mark.filterwarnings("ignore:Comparing")
def test_sparse_arrays_are_compared_and_divided_as_scipys():
    from scipy import sparse

    dense = np.array([[1.0, 0.0, 3.0], [0.0, 2.0, 0.0]])
    theirs, ours = sparse.csr_array(dense), rg.scipy.sparse.csr_array(rg.tensor(dense, requires_grad=True))
    for compare in (
        lambda a: a == 2, lambda a: a != 0, lambda a: a > 1, lambda a: a < 2, lambda a: a >= 1, lambda a: a != a.T.T,
    ):  # fmt: skip
        assert np.array_equal(compare(ours).toarray().numpy(), compare(theirs).toarray())
    assert (ours == rg.tensor(dense)).all() and ours in {ours} and ours.count_nonzero() == 3
    assert np.array_equal((ours / 3).toarray().detach().numpy(), dense / 3)
    counts = rg.scipy.sparse.csr_array(rg.tensor([[1, 0], [0, 2]]))
    assert (counts / 3).dtype == counts.mean(0).dtype == rg.float64
    assert (rg.ones(2, 0) @ rg.scipy.sparse.csr_array((0, 3))).shape == (2, 3)


@pytest.mark.parametrize("name", ["laplace", "gaussian_laplace", "gaussian_gradient_magnitude"])
def test_filters_of_an_image_without_axes_return_it(name):
    from scipy import ndimage

    sigma = () if name == "laplace" else (1.0,)
    for value in (2.0, -3.0):
        x = rg.tensor(value, dtype=rg.float64, requires_grad=True)
        found = getattr(rg.scipy.ndimage, name)(x, *sigma)
        assert found.item() == getattr(ndimage, name)(np.float64(value), *sigma) and found is not x
        assert rg.autograd.grad(found, x)[0].item() == 1.0


KNOTS, CURVE = np.array([0.0, 0.7, 1.5, 2.1, 3.0, 3.6]), np.sin(np.arange(6.0)) + 1j * np.cos(np.arange(6.0))
INSIDE, PICTURE = np.array([0.3, 1.1, 2.4]), (np.arange(12.0) + 1j * np.arange(12.0)[::-1]).reshape(3, 4) ** 1.2
# Of complex values or a complex image, and real places: the module, and a function of both.
LOCATED = {
    "CubicSpline": ("interpolate", lambda m, y, x: m.CubicSpline(KNOTS, y)(x), CURVE, INSIDE),
    "CubicHermiteSpline": ("interpolate", lambda m, y, x: m.CubicHermiteSpline(KNOTS, y, 2 * y)(x), CURVE, INSIDE),
    "BSpline": ("interpolate", lambda m, y, x: m.BSpline(np.arange(10.0) - 3, y, 3)(x), CURVE, INSIDE),
    "make_interp_spline": ("interpolate", lambda m, y, x: m.make_interp_spline(KNOTS, y)(x), CURVE, INSIDE),
    "interp1d": ("interpolate", lambda m, y, x: m.interp1d(KNOTS, y)(x), CURVE, INSIDE),
    "interpn": ("interpolate", lambda m, y, x: m.interpn((KNOTS,), y, x[:, None]), CURVE, INSIDE),
    "map_coordinates": ("ndimage", lambda m, y, x: m.map_coordinates(y, x[:2, None]), PICTURE, INSIDE),
    "affine_transform": ("ndimage", lambda m, y, x: m.affine_transform(y, x[:2]), PICTURE, INSIDE),
    "shift": ("ndimage", lambda m, y, x: m.shift(y, x[:2], order=1), PICTURE, INSIDE),
    "gaussian_filter": ("ndimage", lambda m, y, x: m.gaussian_filter(y, x[:2]), PICTURE, INSIDE),
}


@pytest.mark.parametrize("name", LOCATED)
def test_values_may_be_complex_and_places_may_not(name):
    module, call, values, places = LOCATED[name]
    ours, theirs = (import_module(f"{root}scipy.{module}") for root in ("retrograd.", ""))
    weights = np.cos(np.arange(12.0))

    def loss(y, x):
        found = call(ours, y, x).reshape(-1)
        return (found.real * weights[: len(found)] + found.imag).sum()

    y, x = rg.tensor(values, requires_grad=True), rg.tensor(places, requires_grad=True)
    np.testing.assert_allclose(call(ours, y, x).detach().numpy(), call(theirs, values, places), rtol=1e-9)
    slopes = rg.autograd.grad(loss(y, x), (y, x))
    steps = 1e-6 * (1 + 0.5j) * np.cos(values.real), 1e-6 * np.sin(1 + places)
    with rg.no_grad():
        change = loss(y + steps[0], x + steps[1]) - loss(y - steps[0], x - steps[1])
    along = sum((g.numpy().conj() * d).sum().real for g, d in zip(slopes, steps, strict=True))
    assert 2 * along == pytest.approx(change.item(), rel=1e-5)
    with pytest.raises((ValueError, TypeError), match=r"must be real, got complex128\(\d|Complex type not supp"):
        call(ours, y, rg.tensor(places + 0.1j, requires_grad=True))


def test_splines_of_fitpack_and_real_images_refuse_complex_values():
    y = rg.tensor(CURVE, requires_grad=True)
    for call in (
        lambda: rg.scipy.interpolate.splev(0.5, (np.arange(10.0) - 3, y, 3)),
        lambda: rg.scipy.interpolate.UnivariateSpline(KNOTS, y, s=0),
        lambda: rg.scipy.interpolate.make_smoothing_spline(KNOTS, y, lam=0.1),
        lambda: rg.scipy.ndimage.shift(rg.ones(3, requires_grad=True), 0.5, cval=1j),
    ):
        with pytest.raises((ValueError, TypeError), match="real"):
            call()
