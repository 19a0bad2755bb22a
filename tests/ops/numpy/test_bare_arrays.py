"""Python numbers and bare arrays made of Tensors: an error where a gradient would be lost, PyTorch's warning else."""

import cmath
import contextlib
import io
import math
import warnings

import numpy as np
import pytest

import retrograd as rg
from retrograd import func
from retrograd.core.errors import ConversionError

integrate, optimize = pytest.importorskip("scipy.integrate"), pytest.importorskip("scipy.optimize")

X = np.array([0.3, 1.2, -0.7])


def stored_item(x):
    u = np.zeros(3)
    for i in range(3):
        u[i] = x[i] ** 2
    return rg.tensor(u).sum() * x.sum()


def stored_slice(x):
    u = np.zeros(3)
    u[1:] = x[1:] ** 2
    return rg.tensor(u).sum() * x.sum()


def stored_by_mask(x):
    u = np.zeros(3)
    u[np.array([True, False, True])] = x[0]
    return rg.tensor(u).sum() * x.sum()


def stored_complex(x):
    u = np.zeros(3, complex)
    u[0] = x[0]
    return rg.tensor(u.real).sum() * x.sum()


def filled(x):
    u = np.zeros(3)
    u.fill(x[0])
    return rg.tensor(u).sum() * x.sum()


def a_half(x):
    u = np.zeros(3, np.float16)
    u[0] = x[0]
    return rg.tensor(u).sum() * x.sum()


STORES = [stored_item, stored_slice, stored_by_mask, stored_complex, a_half]
NUMBERS = [
    filled,
    lambda x: x.sum() * math.sin(x[0]),
    lambda x: x.sum() * math.pow(2.0, x[0] if len(x) else 1.0),
    lambda x: x.sum() * cmath.exp(x[0]).real,
    lambda x: x.sum() * math.fsum([x[0], x[1]]),
    lambda x: x.sum() * np.float64(x[0]),
    lambda x: x.sum() * np.array([x[0], 1.0]).sum(),
    lambda x: x.sum() * integrate.quad(lambda t: x[0] * t, 0, 1)[0],
    lambda x: x.sum() * np.random.default_rng(0).normal(x[0]),
]
TRANSFORMS = [
    lambda f: func.grad(f)(rg.tensor(X)),
    lambda f: func.vjp(f, rg.tensor(X)),
    lambda f: func.jvp(f, (rg.tensor(X),), (rg.tensor(X),)),
    lambda f: func.jacrev(f)(rg.tensor(X)),
    lambda f: func.jacfwd(f)(rg.tensor(X)),
    lambda f: func.hessian(f)(rg.tensor(X)),
    lambda f: func.vmap(func.grad(f))(rg.tensor(X)[None]),
    lambda f: rg.compile(func.grad(f))(rg.tensor(X)),
    lambda f: rg.autograd.functional.jacobian(f, rg.tensor(X)),
]


@pytest.mark.parametrize("function", STORES)
@pytest.mark.parametrize("transform", TRANSFORMS)
def test_a_store_in_a_bare_array_inside_a_transform_says_what_to_do(transform, function):
    with pytest.raises(ConversionError, match=r"np\.zeros_like\(x\).*np\.stack"):
        transform(function)


@pytest.mark.parametrize("function", NUMBERS)
def test_functions_of_numbers_inside_a_transform_are_errors(function):
    for transform in TRANSFORMS[:3]:
        with pytest.raises(ConversionError, match="gradient"):
            transform(function)


@pytest.mark.parametrize("function", STORES + NUMBERS)
def test_outside_of_transforms_too_no_gradient_is_lost_through_numpy(function):
    with pytest.raises((ConversionError, ValueError, SystemError)) as caught:
        function(rg.tensor(X, requires_grad=True))
    errors = caught.value, caught.value.__cause__  # NumPy makes an error of its own of one that a store met
    assert any(isinstance(error, ConversionError) for error in errors)


@pytest.mark.parametrize("function", [*STORES, *NUMBERS[:5]])
def test_what_requires_no_grad_becomes_a_number(function):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        expected = function(X)
        assert float(function(rg.tensor(X))) == pytest.approx(float(expected), rel=1e-3)
    with rg.no_grad(), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        if function not in (stored_slice, stored_by_mask):  # np.asarray(t), which PyTorch refuses there, too
            assert float(function(rg.tensor(X, requires_grad=True))) == pytest.approx(float(expected), rel=1e-3)


def test_a_store_through_numpys_flat_iterator_is_an_error_of_numpys():
    def stored(x):
        u = np.zeros(3)
        u.flat[2] = x[0]
        return rg.tensor(u).sum() * x.sum()

    for transform in TRANSFORMS[:3]:
        with pytest.raises(ValueError, match="setting"):
            transform(stored)


def test_a_store_in_vmap_says_what_to_do():
    for function in STORES:
        with pytest.raises(ConversionError, match=r"vmap.*np\.zeros_like\(x\)"):
            func.vmap(function)(rg.tensor(np.stack([X, X])))


@pytest.mark.parametrize("like", [np.zeros_like, np.empty_like, np.ones_like, lambda x: np.full_like(x, 2.0)])
def test_the_advised_loops_have_the_gradient(like):
    def loop(x):
        u = like(x)
        for i in range(3):
            u[i] = x[i] ** 2 + (u[i - 1] if i else 0)
        return (u * u).sum()

    def listed(x):
        u = []
        for i in range(3):
            u.append(x[i] ** 2 + (u[i - 1] if i else 0))
        return (np.stack(u) * np.stack(u)).sum()

    steps = np.eye(3) * 1e-6
    wanted = [(loop(X + step) - loop(X - step)) / 2e-6 for step in steps]
    for function in (loop, listed):
        np.testing.assert_allclose(func.grad(function)(rg.tensor(X)).numpy(), wanted, rtol=1e-6)
        mapped = func.vmap(func.grad(function))(rg.tensor(np.stack([X, X])))
        np.testing.assert_allclose(mapped.numpy(), [wanted, wanted], rtol=1e-6)
    np.testing.assert_allclose(func.hessian(loop)(rg.tensor(X)).numpy(), func.hessian(listed)(rg.tensor(X)).numpy())


WRITTEN = [
    lambda t: float(t),
    lambda t: [float(v) for v in [t]][0],
    lambda t: list(map(float, [t]))[0],
    lambda t: complex(t).real,
    lambda t: float("%.15f" % t),  # noqa: UP031
    lambda t: t.item() if math.isfinite(t) else 0.0,
]


@pytest.mark.parametrize("convert", WRITTEN)
def test_a_number_that_the_program_makes_itself_warns(convert):
    t = rg.tensor(X, requires_grad=True)[1]
    with pytest.warns(UserWarning, match="requires_grad=True to a scalar"):
        assert convert(t) == pytest.approx(convert(X[1]))


@pytest.mark.parametrize("convert", WRITTEN[:4])
def test_inside_a_transform_it_is_an_error_that_names_item(convert):
    with pytest.raises(ConversionError, match=r"grad: .*tensor\.item\(\)"):
        func.grad(lambda x: x.sum() * convert(x[0]))(rg.tensor(X))
    found = func.grad(lambda x: x.sum() * x[0].item())(rg.tensor(X))
    np.testing.assert_allclose(found.numpy(), np.full(3, X[0]))


def test_numbers_that_have_no_derivative_and_text_are_allowed_everywhere():
    def logged(x):
        assert not math.isnan(x[0]) and math.isfinite(x[0]) and f"{x[0]:.1f}" == "0.3"
        assert "%.1f" % x[0] == "0.3"  # noqa: UP031
        assert int(x[1]) == math.floor(x[1]) == 1
        u = np.zeros(3, int)
        u[0] = x[1]
        return (x * u[0]).sum()

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        np.testing.assert_array_equal(func.grad(logged)(rg.tensor(X)).numpy(), np.ones(3))


def test_a_list_of_tensors_does_not_become_a_constant_inside_a_transform():
    with pytest.raises(ConversionError, match="stack"):
        func.grad(lambda x: rg.tensor([x[0], 1.0]).sum() * x.sum())(rg.tensor(X))


@pytest.mark.parametrize(
    "save",
    [
        np.save,
        np.savez,
        np.savez_compressed,
        np.savetxt,
        lambda file, x: np.savez(file, np.ones(2), x=x),
        lambda file, x: np.save(file, [x[0], x[1]]),
    ],
)
def test_a_file_takes_no_tensor_that_requires_grad(save):
    x, kept = rg.tensor(X, requires_grad=True), io.BytesIO()
    with pytest.raises(ConversionError, match="detach"):
        save(io.BytesIO(), x)
    save(kept, x.detach())
    assert kept.tell() > 0
    with rg.no_grad():
        save(io.BytesIO(), x)


def test_a_package_that_draws_says_that_it_takes_numbers():
    drawing = {"__name__": "matplotlib.axes", "np": np}
    exec("def plot(t):\n    return np.atleast_1d([t])", drawing)
    with pytest.raises(ConversionError, match=r"matplotlib takes numbers; give it tensor\.detach\(\)"):
        drawing["plot"](rg.tensor(1.0, requires_grad=True))
    assert drawing["plot"](rg.tensor(1.0)).tolist() == [1.0]


def test_a_conversion_of_xarray_names_the_function_of_scipy_that_wanted_it():
    theirs = {
        "__name__": "xarray.core.variable",
        "np": np,
        "interp1d": pytest.importorskip("scipy.interpolate").interp1d,
    }
    exec(
        "class Variable:\n    def __array__(self, dtype=None, copy=None):\n        return np.asarray(self.data)", theirs
    )
    exec("def interp(v):\n    return interp1d([0.0, 1.0], v)(0.5)", theirs)
    variable = theirs["Variable"]()
    variable.data = rg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(
        ConversionError, match=r"xarray calls scipy.interpolate.interp1d.*use retrograd.scipy.interpolate"
    ):
        theirs["interp"](variable)
    with pytest.raises(ConversionError, match=r"array\.data is the Tensor"):
        np.asarray(variable)


def test_an_error_of_the_program_itself_passes_as_it_is():
    def wrong(x):
        raise ValueError("mine") from KeyError("reason")

    for transform in TRANSFORMS[:7]:
        with pytest.raises(ValueError, match="mine") as caught:
            transform(wrong)
        assert isinstance(caught.value.__cause__, KeyError)


def test_only_a_tensor_without_dimensions_is_formatted_as_a_number():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    assert f"{x.sum():.3f}" == "3.000" and f"{x.detach():>20}" == "    tensor([1., 2.])"
    with pytest.raises(TypeError, match=r"'.3f' of float32\(2,\)"):
        format(x, ".3f")


def test_a_plot_of_a_tensor_that_requires_grad_asks_for_detach():
    lines = pytest.importorskip("matplotlib.lines")
    with pytest.raises(ConversionError, match=r"matplotlib takes numbers; give it tensor.detach\(\)"):
        lines.Line2D([0, 1], rg.ones(2, 1, requires_grad=True)[:, 0]).get_path()


def root(x):
    return x.sum() * optimize.brentq(lambda t: x[0] - t, -3, 3)


def root_of_a_function_that_clears_errors(x):
    def function(t):
        with contextlib.suppress(KeyError):
            raise KeyError
        return x[0] - t

    return x.sum() * optimize.brentq(function, -3, 3)


@pytest.mark.parametrize("function", [root, root_of_a_function_that_clears_errors])
@pytest.mark.parametrize("transform", [*TRANSFORMS[:3], lambda f: f(rg.tensor(X, requires_grad=True))])
def test_scipy_s_root_finder_raises_too(transform, function):
    # SciPy calls the function again while the refused conversion's error is set, which CPython leaves undefined. The
    # error that arrives is that one, a SystemError, or, where code at that moment handles an error of its own (an
    # import at first use does), SciPy's ValueError about f(a) and f(b).
    with pytest.raises((ConversionError, ValueError, SystemError)):
        transform(function)


def test_a_function_of_numbers_that_has_often_been_called_still_refuses_a_tensor():
    def north(x):
        return [0.1 * math.cos(x[0])]

    for _ in range(50):  # Python 3.11 then calls math.cos at another instruction
        north([0.5])
    with pytest.raises(ConversionError, match="use np.cos"):
        north(rg.tensor([0.5], requires_grad=True))


def test_array_with_like_copies_and_asarray_shares():
    bare, x = np.zeros(2), rg.zeros(1)
    np.array(bare, like=x)[0] = 5
    assert bare.tolist() == [0, 0]
    np.asarray(bare, like=x)[0] = 5
    assert bare.tolist() == [5, 0]
