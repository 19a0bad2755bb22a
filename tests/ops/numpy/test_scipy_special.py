"""SciPy's ufuncs on Tensors: the value is SciPy's, both derivatives those of the same call by differences."""

import subprocess
import sys

import numpy as np
import pytest

import retrograd as rg
from retrograd.func import jvp, vmap
from retrograd.ops.numpy.scipy_bessel import RULES

special = pytest.importorskip("scipy.special")

rng = np.random.default_rng(3)


def u(low, high):
    return rng.uniform(low, high, 4)


COUNTS = np.arange(4.0)
POWERS = np.array([0.0, 0.5, -1.0, 2.0])

# Of functions of one array: the interval of the points.
INTERVALS = {
    "gamma rgamma loggamma gammaln psi": (0.3, 4),
    "erf erfc erfcx erfi dawsn ndtr expit wrightomega cosm1 fresnel i0 i1": (-2, 2),
    "j0 j1 y0 y1 k0 k1 k0e k1e i0e i1e": (0.2, 9),
    "sindg cosdg tandg cotdg": (10, 80),
    "expi exp1 cbrt sici shichi entr spence": (0.2, 3),
    "exp2 exp10 expm1": (-1, 1),
    "ellipk ellipe": (-3, 0.9),
    "ndtri logit": (0.1, 0.9),
    "log_expit exprel": (-3, 3),
    "erfinv": (-0.9, 0.9),
    "erfcinv": (0.1, 1.9),
    "log_ndtr": (-4, 2),
    "ndtri_exp": (-3, -0.1),
    "ellipkm1": (0.1, 2),
    "log1p": (-0.5, 1),
    "gammasgn": (-0.9, -0.1),
    "round": (1.1, 1.4),
    "airy": (-3, 2),
    "itairy": (1, 2),
    "airye lambertw ber bei ker kei berp beip kerp keip kelvin it2struve0": (0.2, 4),
    "itj0y0 iti0k0 it2j0y0 it2i0k0 itstruve0 itmodstruve0": (0.2, 4),
    "wofz": (-1, 1),
}

# Of functions of several: arguments, and by which of them to differentiate.
ARGUMENTS = {
    "beta betaln rel_entr kl_div xlogy xlog1py": ([u(0.3, 3), u(0.3, 3)], (0, 1)),
    "binom poch": ([u(3, 5), u(0.3, 2)], (0, 1)),
    "gammainc gammaincc chdtr chdtrc": ([u(0.5, 3), u(0.3, 3)], (0, 1)),
    "gammaincinv gammainccinv": ([u(0.5, 3), u(0.1, 0.9)], (0, 1)),
    "betainc betaincc betaincinv": ([u(0.5, 3), u(0.5, 3), u(0.1, 0.9)], (0, 1, 2)),
    "jv yv iv kv ive kve": ([u(0, 3), u(0.3, 5)], (0, 1)),
    "yn kn expn": ([2, u(0.3, 5)], (1,)),
    "huber pseudo_huber": ([u(0.5, 1), u(-2, 2)], (0, 1)),
    "boxcox boxcox1p": ([u(0.5, 3), POWERS], (0, 1)),
    "inv_boxcox inv_boxcox1p": ([u(0.1, 0.6), POWERS], (0, 1)),
    "ellipkinc ellipeinc": ([u(0.2, 1.4), u(0.1, 0.8)], (0, 1)),
    "gdtr gdtrc": ([u(0.5, 2), u(0.5, 3), u(0.5, 3)], (0, 1, 2)),
    "pdtr pdtrc": ([COUNTS, u(0.5, 3)], (1,)),
    "bdtr bdtrc": ([COUNTS, 5, u(0.1, 0.9)], (2,)),
    "fdtr fdtrc": ([u(2, 5), u(2, 5), u(0.5, 3)], (0, 1, 2)),
    "stdtr": ([u(2, 9), u(-2, 2)], (0, 1)),
    "owens_t": ([u(-2, 2), u(-2, 2)], (0, 1)),
    "hyp0f1": ([u(1, 3), u(-2, 2)], (0, 1)),
    "hyp1f1": ([u(1, 3), u(1, 3), u(-2, 2)], (0, 1, 2)),
    "hyp2f1": ([u(1, 3), u(1, 3), u(1, 3), u(-0.8, 0.8)], (0, 1, 2, 3)),
    "eval_legendre eval_chebyt eval_chebyu eval_laguerre": ([COUNTS, u(-0.9, 0.9)], (1,)),
    "eval_hermite eval_hermitenorm": ([np.arange(4), u(-2, 2)], (1,)),
    "eval_genlaguerre": ([COUNTS, u(0.3, 2), u(0.2, 3)], (2,)),
    "eval_gegenbauer": ([COUNTS, u(0.3, 2), u(-0.9, 0.9)], (2,)),
    "eval_jacobi": ([COUNTS, u(0.3, 2), u(0.3, 2), u(-0.9, 0.9)], (3,)),
    "stdtrit": ([u(2, 9), u(0.1, 0.9)], (0, 1)),
    "powm1": ([u(0.5, 3), u(-2, 2)], (0, 1)),
    "radian": ([u(0.5, 3), u(0.5, 3), u(0.5, 3)], (0, 1, 2)),
    "zeta": ([u(1.5, 4), u(0.5, 3)], (0, 1)),
    "voigt_profile": ([u(-1, 1), u(0.5, 1), u(0.3, 1)], (0, 1, 2)),
    "jve yve struve modstruve": ([u(0, 3), u(0.3, 3)], (0, 1)),
    "pbdv pbvv": ([u(0, 3), u(0.3, 3)], (1,)),
    "hankel1 hankel2 hankel1e hankel2e": ([u(0, 3), u(0.3, 3)], (0, 1)),
    "ellipj": ([u(0.2, 1.4), u(0.1, 0.8)], (0, 1)),
    "agm": ([u(0.5, 3), u(0.5, 3)], (0, 1)),
    "pbwa": ([u(0.1, 2), u(0.2, 2)], (1,)),
    "hyperu": ([u(1, 3), u(1, 3), u(0.5, 2)], (2,)),
    "lpmv": ([1.0, COUNTS + 1, u(-0.8, 0.8)], (2,)),
    "eval_sh_legendre eval_sh_chebyt eval_sh_chebyu eval_chebyc eval_chebys": ([COUNTS, u(0.1, 0.9)], (1,)),
    "eval_sh_jacobi": ([COUNTS, 2.5, 1.5, u(0.1, 0.9)], (3,)),
    "betainccinv": ([u(0.5, 3), u(0.5, 3), u(0.1, 0.9)], (0, 1, 2)),
    "chdtri": ([u(2, 5), u(0.1, 0.9)], (0, 1)),
    "gdtrix": ([u(0.5, 2), u(0.5, 3), u(0.1, 0.9)], (0, 1, 2)),
    "fdtri": ([u(2, 5), u(2, 5), u(0.1, 0.9)], (0, 1, 2)),
    "bdtri nbdtr nbdtrc nbdtri": ([COUNTS, 5, u(0.1, 0.9)], (2,)),
    "pdtri": ([COUNTS, u(0.1, 0.9)], (1,)),
}
CALLS = {name: ([u(*interval)], (0,)) for names, interval in INTERVALS.items() for name in names.split()}
CALLS |= {name: call for names, call in ARGUMENTS.items() for name in names.split()}


def test_every_rule_is_tested():
    """But for the spherical Bessel functions, which SciPy wraps: tests/scipy tests them."""
    assert {name.lstrip("_") for name in RULES if "spherical" not in name} == set(CALLS)


@pytest.mark.parametrize("name, place", [(name, place) for name, (_, places) in CALLS.items() for place in places])
def test_value_and_two_derivatives(name, place):
    if not hasattr(special, name):
        pytest.skip("not in this SciPy")
    function, arguments = getattr(special, name), CALLS[name][0]

    def outputs(x):
        result = function(*arguments[:place], x, *arguments[place + 1 :])
        results = result if isinstance(result, tuple) else (result,)
        return tuple(y.real + 2 * y.imag if y.dtype.kind == "c" else y for y in results)

    def gradient(x, output, create_graph=False):
        t = rg.tensor(x, requires_grad=True)
        return t, rg.autograd.grad(outputs(t)[output].sum(), t, create_graph=create_graph)[0]

    x, h = arguments[place], 1e-5
    rtol = 1e-5 if name == "itairy" else 1e-6  # SciPy's itairy has six digits
    for output, (wanted, above, below) in enumerate(zip(outputs(x), outputs(x + h), outputs(x - h), strict=True)):
        np.testing.assert_allclose(outputs(rg.tensor(x))[output].numpy(), wanted, rtol=1e-12, atol=1e-15)
        t, first = gradient(x, output, create_graph=True)
        numeric = (above - below) / (2 * h)
        np.testing.assert_allclose(
            first.detach().numpy(), numeric, rtol=rtol, atol=rtol / 10 * max(1, abs(numeric).max())
        )
        if first.requires_grad:
            (second,) = rg.autograd.grad(first.sum(), t)
            numeric = (gradient(x + h, output)[1].numpy() - gradient(x - h, output)[1].numpy()) / (2 * h)
            np.testing.assert_allclose(second.numpy(), numeric, rtol=1e-6, atol=1e-6 * max(1, abs(numeric).max()))


COMPLEX = ["gamma", "loggamma", "rgamma", "erf", "erfc", "erfi", "dawsn", "expi", "exp1", "wrightomega"]


@pytest.mark.parametrize("name", COMPLEX)
def test_derivatives_of_complex_numbers(name):
    function, z, h = getattr(special, name), np.array([0.7 + 0.3j, 1.2 - 0.5j]), 1e-6
    t = rg.tensor(z, requires_grad=True)
    y = function(t)
    np.testing.assert_allclose(y.detach().numpy(), function(z), rtol=1e-12)
    (g,) = rg.autograd.grad(y, t, rg.ones_like(t))
    np.testing.assert_allclose(np.conj(g.numpy()), (function(z + h) - function(z - h)) / (2 * h), rtol=1e-8)


SLOPES = [("exprel", 0.0, 0.5), ("spence", 1.0, -1.0), ("ellipk", 0.0, np.pi / 8), ("ellipe", 0.0, -np.pi / 8)]


@pytest.mark.parametrize("name, at, slope", [*SLOPES, ("j1", 0.0, 0.5)])
def test_slopes_where_the_usual_formulas_are_0_by_0(name, at, slope):
    x = rg.tensor(at, dtype=rg.float64, requires_grad=True)
    getattr(special, name)(x).backward()
    assert x.grad.item() == pytest.approx(slope, rel=1e-12)


def test_numbers_arrays_and_lists_stand_beside_tensors_in_every_place():
    x, twos = rg.tensor([0.5, 1.5], requires_grad=True), np.float32([2.0, 2.0])
    for a, b in ((x, 2.0), (2.0, x), (x, twos), (twos, x), (x, [2.0, 2.0]), ([2.0, 2.0], x)):
        y = special.beta(a, b)
        assert y.dtype == rg.float32 and y.requires_grad
        np.testing.assert_allclose(y.detach().numpy(), special.beta([0.5, 1.5], 2.0), rtol=1e-6)
    (slope,) = rg.autograd.grad(special.gammainc(2.0, x).sum(), x)
    np.testing.assert_allclose(slope.numpy(), np.array([0.5, 1.5]) * np.exp([-0.5, -1.5]), rtol=1e-6)
    assert special.gammaln(x, dtype=np.float64).dtype == rg.float64
    assert special.jn(1, x).requires_grad and special.digamma(x).requires_grad


def test_results_have_scipys_dtype():
    n, half = np.array([1, 2, 3]), np.array([0.5, 0.25], np.float16)
    for function in (special.expit, special.gammaln, special.erf, lambda x: special.beta(x, x), special.elliprc):
        wanted = function(n) if function is not special.elliprc else function(n, n)
        got = function(rg.tensor(n)) if function is not special.elliprc else function(rg.tensor(n), rg.tensor(n))
        assert got.dtype == wanted.dtype == np.float64
        np.testing.assert_allclose(got.numpy(), wanted)
    for function in (special.expit, special.gammaln, special.erf, lambda x: special.beta(x, x)):
        assert function(rg.tensor(half, requires_grad=True)).dtype == function(half).dtype


def test_bessel_functions_of_whole_orders_refuse_others():
    for name in ("kn", "yn"):
        function = getattr(special, name)
        np.testing.assert_allclose(function(2.0, rg.tensor([1.5])).numpy(), function(2, np.float32([1.5])), rtol=1e-6)
        with pytest.raises(ValueError, match=f"{name}.*integers.*{name[0]}v"):
            function(0.5, rg.tensor([1.5]))


def test_a_derivative_that_is_not_known_is_an_error_and_the_others_are_there():
    degree, x = rg.tensor(1.5, requires_grad=True), rg.tensor(0.5, requires_grad=True)
    rg.autograd.grad(special.eval_legendre(degree, x), x)
    with pytest.raises(NotImplementedError, match="scipy.special.eval_legendre: the derivative with respect to"):
        special.eval_legendre(degree, x).backward()


# By an order, a shape or a parameter, computed by mpmath with 40 digits.
BY_ORDER = [
    ("jv", 0, (20.5, 0.25), -1.416776766403475e-37),
    ("jv", 0, (1.5, 30.0), 0.21772719573292054),
    ("yv", 0, (0.25, 0.125), -1.4968381467215843),
    ("iv", 0, (2.5, 4.0), -3.121080812209462),
    ("kv", 0, (0.5, 0.0078125), 51.407472061191456),
    ("kve", 0, (3.5, 80.0), 0.006562030453559815),
    ("struve", 0, (1.5, 6.0), 1.193239772874267),
    ("gammainc", 0, (0.03125, 0.5), -0.5771829243447743),
    ("gammainc", 0, (300.0, 250.0), -0.0002300431820719598),
    ("gammaincc", 0, (2.5, 40.0), 2.5267860704828765e-15),
    ("betainc", 0, (0.5, 20.0, 0.03125), -0.565722935707619),
    ("betaincc", 1, (11.0, 3.0, 0.96875), -0.014757187361766677),
    ("stdtr", 0, (2.5, -20.0), -0.000881464676536737),
    ("stdtr", 0, (7.0, 1.5), 0.0030115824951819337),
    ("zeta", 0, (1.0625, 3.0), -255.59591371244233),
    ("zeta", 0, (30.0, 1.0), -6.45548953880003e-10),
    ("hyp1f1", 0, (3.25, 1.75, -6.0), 0.010710531651269596),
    ("hyp1f1", 1, (0.5, -1.875, 2.0), -465.1050831780488),
    ("hyp2f1", 2, (1.0, 0.5, 2.25, -3.0), 0.0844201790936207),
]


@pytest.mark.parametrize("name, place, arguments, slope", BY_ORDER)
def test_derivatives_by_orders_and_shapes_have_nine_digits(name, place, arguments, slope):
    if not hasattr(special, name):
        pytest.skip("not in this SciPy")

    def by_place(x):
        return getattr(special, name)(*arguments[:place], x, *arguments[place + 1 :])

    for dtype, rtol in ((rg.float64, 1e-9), (rg.float32, 2e-6)):
        at = rg.tensor(arguments[place], dtype=dtype, requires_grad=True)
        (found,) = rg.autograd.grad(by_place(at), at)
        assert found.dtype == dtype
        np.testing.assert_allclose(found.item(), slope, rtol=rtol)
    at = rg.tensor([arguments[place]], dtype=rg.float64)
    moved = vmap(lambda x: jvp(by_place, (x,), (rg.ones_like(x),))[1])(at)
    np.testing.assert_allclose(moved.numpy(), [slope], rtol=1e-9)


@pytest.mark.parametrize(
    "call, error, words",
    [
        (lambda x: special.kolmogorov(x), TypeError, "scipy.special.kolmogorov has no rule for Tensors"),
        (lambda x: special.logsumexp(x), RuntimeError, "use retrograd.scipy.special.logsumexp"),
        (lambda x: special.polygamma(1, x), RuntimeError, "use retrograd.scipy.special.polygamma"),
        (
            lambda x: special.ive(1.0, x + 1j),
            NotImplementedError,
            "scipy.special.ive: complex Tensors are not supported",
        ),
        (lambda x: special.gammaln(x, out=np.zeros(2)), TypeError, "scipy.special.gammaln: the result"),
    ],
)
def test_what_does_not_go_names_the_right_module(call, error, words):
    with pytest.raises(error, match=words):
        call(rg.tensor([0.5, 1.5], requires_grad=True))


def test_a_ufunc_of_somebody_else_is_not_taken_for_ours_by_its_name():
    theirs = np.frompyfunc(lambda x: x + 1, 1, 1)
    with pytest.raises(TypeError, match="has no rule for Tensors"):
        theirs(rg.tensor([1.0]))


def test_scipy_is_not_imported_before_one_of_its_functions_is_called():
    program = "import sys, numpy, retrograd; numpy.exp(retrograd.ones(2)); print('scipy' in sys.modules)"
    shown = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True).stdout
    assert shown.strip() == "False"
