"""``retrograd.polynomial`` against ``numpy.polynomial``: values, and derivatives by differences of NumPy's."""

import pickle
from importlib import import_module

import numpy as np
import pytest

import retrograd as rg
from retrograd import func, polynomial
from retrograd.polynomial import Chebyshev, Laguerre, Legendre, Polynomial

RNG = np.random.default_rng(0)
C, D, X = RNG.normal(size=4), RNG.normal(size=3), RNG.normal(size=(2, 3))
CALLS = [
    ("val", X, C),
    ("val", X[0], RNG.normal(size=(3, 3)), False),
    ("val2d", X[0], X[1], RNG.normal(size=(3, 2))),
    ("grid2d", X[0], X[1], RNG.normal(size=(2, 2))),
    ("sub", C, D),
    ("mul", C, D),
    ("mulx", C),
    ("div", C, D),
    ("pow", C, 3),
    ("der", C, 2, 0.5),
    ("int", C, 2, [1.0, 2.0], 0.3, 0.7),
    ("roots", C[:3] + np.array([-9, 0, 0])),
    ("fromroots", C),
    ("vander2d", X[0], X[1], [1, 2]),
    ("fit", np.linspace(-1, 1, 5), RNG.normal(size=5), 2),
    ("fit", np.linspace(-1, 1, 5), RNG.normal(size=(5, 2)), [0, 2], None, False, np.arange(1.0, 6.0)),
]


def total(result):
    """Return a number that depends on all results, Tensors or arrays."""
    parts = result if isinstance(result, tuple) else (result,)
    return sum((x * np.cos(np.arange(np.size(x))).reshape(np.shape(x))).sum() for x in map(np.asarray, parts))


def number(result):
    parts = result if isinstance(result, tuple) else (result,)
    return sum((x * rg.tensor(np.cos(np.arange(x.numel()))).reshape(x.shape)).sum() for x in parts)


@pytest.mark.parametrize("name", ["polynomial", "chebyshev", "legendre", "laguerre", "hermite", "hermite_e"])
def test_functions_have_numpys_values_and_derivatives_of_them(name):
    ours, numpys = getattr(polynomial, name), getattr(np.polynomial, name)
    for call, *args in CALLS:
        function, theirs = (getattr(module, ours.prefix + call) for module in (ours, numpys))
        places = [i for i, x in enumerate(args) if isinstance(x, np.ndarray)]
        given = [args[i] for i in places]

        def of(*xs, function=function, args=args, places=places):
            return function(*[xs[places.index(i)] if i in places else x for i, x in enumerate(args)])

        tensors, steps = tuple(map(rg.tensor, given)), [np.sin(1 + np.arange(x.size)).reshape(x.shape) for x in given]
        np.testing.assert_allclose(number(of(*tensors)).item(), total(theirs(*args)), rtol=1e-8, err_msg=call)
        value, slope = func.jvp(lambda *xs: number(of(*xs)), tensors, tuple(map(rg.tensor, steps)))
        ends = [total(of(*[x + h * step for x, step in zip(given, steps, strict=True)])) for h in (1e-6, -1e-6)]
        np.testing.assert_allclose(slope.item(), (ends[0] - ends[1]) / 2e-6, rtol=1e-5, err_msg=call)
        gradients = func.grad(lambda *xs: number(of(*xs)), argnums=tuple(range(len(given))))(*tensors)
        back = sum((g.numpy() * step).sum() for g, step in zip(gradients, steps, strict=True))
        np.testing.assert_allclose(back, slope.item(), rtol=1e-9, err_msg=call)


@pytest.mark.parametrize("kind", ["Polynomial", "Chebyshev", "Legendre", "Laguerre", "Hermite", "HermiteE"])
def test_classes_compute_as_numpys_with_tensors_for_coefficients_points_and_domains(kind):
    ours, numpys = getattr(polynomial, kind), getattr(np.polynomial, kind)
    p, q, x = ours(rg.tensor(C), domain=[0, 3]), numpys(C, domain=[0, 3]), np.linspace(0, 3, 4)
    assert isinstance(p, numpys) and str(p) == str(q) and p._repr_latex_() == q._repr_latex_()
    for mine, theirs in (
        (p(x), q(x)),
        (p(rg.tensor(x)), q(x)),
        (ours(C, domain=[0, 3])(rg.tensor(x)), q(x)),
        ((2 * p - p * p + q)(x), (2 * q - q * q + q)(x)),
        ((q - p**2)(x), (q - q**2)(x)),
        ((q % (p - 1))(x), (q % (q - 1))(x)),
        ((p / rg.tensor(2.0))(x), (q / 2)(x)),
        (p.deriv()(x), q.deriv()(x)),
        (p.integ(1, [0.5], lbnd=0.2)(x), q.integ(1, [0.5], lbnd=0.2)(x)),
        (p.convert(kind=np.polynomial.Polynomial).coef, q.convert(kind=np.polynomial.Polynomial).coef),
        (p(p)(x), q(q)(x)),
        (ours.cast(np.polynomial.Polynomial(D))(rg.tensor(x)), np.polynomial.Polynomial(D)(x)),
        (p.cutdeg(2).coef, q.cutdeg(2).coef),
        (ours.fit(rg.tensor(x), x**2, 2)(x), x**2),
        (ours.fromroots(rg.tensor(C), domain=None)(x), numpys.fromroots(C, domain=None)(x)),
        (
            rg.func.vmap(lambda c: ours(c).roots())(rg.tensor(np.array([[-2.0, 0.5, 1.0]]))).real.sum(),
            numpys([-2, 0.5, 1]).roots().sum(),
        ),
    ):
        np.testing.assert_allclose(mine.detach().numpy(), theirs, rtol=1e-7, atol=1e-9)
    slope = func.grad(lambda end: ours(C, domain=np.stack([0 * end, end])).deriv()(0.7))(
        rg.tensor(3.0, dtype=rg.float64)
    )
    ends = [numpys(C, domain=[0, 3 + h]).deriv()(0.7) for h in (1e-6, -1e-6)]
    np.testing.assert_allclose(slope.item(), (ends[0] - ends[1]) / 2e-6, rtol=1e-6)


def test_a_zero_at_the_end_keeps_its_derivative():
    c = rg.tensor([1.0, 2.0, 0.0])
    assert func.grad(lambda c: (Polynomial(c) + 1)(3.0))(c).tolist() == [1, 3, 9]
    assert len((Polynomial(c) + 1).trim().coef) == 2


def test_second_derivatives_of_a_fit_and_its_status():
    x, y = np.linspace(-1, 1, 5), rg.tensor(RNG.normal(size=5))
    series, (residual, rank, *_) = Chebyshev.fit(x, y, 2, full=True)
    np.testing.assert_allclose(residual[0].item(), ((series(x) - y) ** 2).sum().item())
    assert rank == 3
    rows = func.jacrev(lambda y: Chebyshev.fit(x, y, 2)(x))(y)  # the projection on three polynomials
    np.testing.assert_allclose(func.hessian(lambda y: (Chebyshev.fit(x, y, 2)(x) ** 2).sum())(y), 2 * rows, atol=1e-9)
    with pytest.warns(np.exceptions.RankWarning, match="poorly conditioned"):
        Legendre.fit(np.zeros(3), rg.tensor([1.0, 2.0, 3.0]), 2)


def test_names_without_a_tensor_are_numpys():
    assert isinstance(import_module("retrograd.polynomial.chebyshev").chebval(0.5, [1, 2, 3]), float)
    assert polynomial.legendre.leggauss is np.polynomial.legendre.leggauss
    assert "lagval" in dir(polynomial.laguerre)
    assert pickle.loads(pickle.dumps(Laguerre([1.0, 2.0])))(1.5) == np.polynomial.Laguerre([1.0, 2.0])(1.5)
    with pytest.raises(ValueError, match="Power must be a non-negative integer"):
        Polynomial(rg.tensor([1.0, 2.0])) ** -1
    with pytest.raises(ZeroDivisionError):
        polynomial.polynomial.polydiv(rg.tensor([1.0, 2.0]), rg.tensor([1.0, 0.0]))
    with pytest.raises(TypeError, match="Domains differ"):
        Polynomial(rg.tensor([1.0])) + Polynomial([1.0], domain=[0, 2])
