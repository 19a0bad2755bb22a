"""Transforms of transforms: against PyTorch, with and without outer Tensors that require grad captured inside.

The list NESTINGS is the list of what was tried.
"""

import numpy as np
import pytest

import retrograd as rg
from retrograd import func
from tests.func.programs import QUIET, SCALAR, assert_same, bound, of, point, vector
from tests.helpers.together import check_each

torch = pytest.importorskip("torch")
pytestmark = QUIET


def directional(F, f, t):
    return lambda x: F.jvp(f, (x,), (t,))[1]


def pulled(F, f, v=None):
    """The first row of the Jacobian, or of a scalar its gradient, by vjp."""

    def product(x):
        value, vjp_fn = F.vjp(f, x)
        return vjp_fn(value * 0 + 1 if v is None else v)[0]

    return product


def linear(F, f, t):
    # PyTorch's own is a traced graph, through which nothing else is differentiated.
    return (lambda x: F.linearize(f, x)[1](t)) if F is func else directional(F, f, t)


# Per name a transform of a scalar function: (F, f, t) -> a function of x.
NESTINGS = {
    "grad": lambda F, f, t: F.grad(f),
    "grad_and_value": lambda F, f, t: F.grad_and_value(f),
    "vjp": lambda F, f, t: pulled(F, f),
    "jvp": lambda F, f, t: directional(F, f, t),
    "linearize": lambda F, f, t: linear(F, f, t),
    "jacrev": lambda F, f, t: F.jacrev(f),
    "jacfwd": lambda F, f, t: F.jacfwd(f),
    "hessian": lambda F, f, t: F.hessian(f),
    "grad(sum(grad))": lambda F, f, t: F.grad(lambda x: F.grad(f)(x).sum()),
    "grad(<grad, t>)": lambda F, f, t: F.grad(lambda x: (F.grad(f)(x) * t).sum()),
    "grad(jvp)": lambda F, f, t: F.grad(directional(F, f, t)),
    "grad(vjp)": lambda F, f, t: F.grad(lambda x: (pulled(F, f)(x) ** 2).sum()),
    "jvp(grad)": lambda F, f, t: directional(F, F.grad(f), t),
    "jvp(jvp)": lambda F, f, t: directional(F, directional(F, f, t), t),
    "jvp(vjp)": lambda F, f, t: directional(F, pulled(F, f), t),
    "vjp(jvp)": lambda F, f, t: pulled(F, directional(F, f, t)),
    "vjp(grad)": lambda F, f, t: pulled(F, F.grad(f), t),
    "jacfwd(jacrev)": lambda F, f, t: F.jacfwd(F.jacrev(f)),
    "jacrev(jacfwd)": lambda F, f, t: F.jacrev(F.jacfwd(f)),
    "jacrev(jacrev)": lambda F, f, t: F.jacrev(F.jacrev(f)),
    "jacfwd(jacfwd)": lambda F, f, t: F.jacfwd(F.jacfwd(f)),
    "jacrev(grad)": lambda F, f, t: F.jacrev(F.grad(f)),
    "jacfwd(grad)": lambda F, f, t: F.jacfwd(F.grad(f)),
    "jacrev(jvp)": lambda F, f, t: F.jacrev(directional(F, f, t)),
    "grad(sum(jacfwd(jacrev)))": lambda F, f, t: F.grad(lambda x: F.jacfwd(F.jacrev(f))(x).pow(2).sum()),
    "jacfwd(hessian)": lambda F, f, t: F.jacfwd(F.hessian(f)),
    "grad(jvp(grad))": lambda F, f, t: F.grad(lambda x: (directional(F, F.grad(f), t)(x) * t).sum()),
    "jvp(grad(jvp))": lambda F, f, t: directional(F, F.grad(directional(F, f, t)), t),
    "grad(grad(grad))": lambda F, f, t: F.grad(
        lambda x: F.grad(lambda x: (F.grad(f)(x) * t).sum())(x).pow(2).sum()
    ),
    "hessian of a gradient's norm": lambda F, f, t: F.hessian(lambda x: F.grad(f)(x).pow(2).sum()),
    "a function of inner and outer": lambda F, f, t: F.grad(
        lambda x: f(x) * F.grad(lambda y: f(x * y))(x).sum() + directional(F, lambda y: f(x + y) * f(y), x)(t)
    ),
}  # fmt: skip


@pytest.mark.every(2)
@pytest.mark.parametrize("nesting", NESTINGS)
@pytest.mark.parametrize("function", SCALAR)
def test_a_nesting_of_transforms_is_pytorchs(nesting, function):
    x, t = point(1), point(2)
    transform = NESTINGS[nesting]
    mine = transform(func, bound(function, rg), of(rg, t))(of(rg, x))
    wanted = transform(torch.func, bound(function, torch), of(torch, t))(of(torch, x))
    assert_same(mine, wanted)
    assert not any(y.requires_grad for y in func.nests.flatten(mine)[0])


@pytest.mark.parametrize("nesting", NESTINGS)
def test_a_nesting_is_differentiated_by_what_the_function_captures(nesting):
    x, t, w = point(1), point(2), point(3)

    def gradient(m, F):
        weight = of(m, w).requires_grad_()
        result = NESTINGS[nesting](F, lambda x: (m.sin(x * weight) * weight).sum() ** 2, of(m, t))(of(m, x))
        results = result if isinstance(result, tuple) else (result,)
        return m.autograd.grad(sum((y**2).sum() for y in results), weight)

    assert_same(gradient(rg, func), gradient(torch, torch.func))


def finite_difference(f, x, step=1e-6):
    steps = np.eye(len(x)) * step
    return np.array([(f(x + h) - f(x - h)) / (2 * step) for h in steps])


@pytest.mark.parametrize("nesting", NESTINGS)
def test_a_nesting_by_a_point_that_requires_grad_goes_on_outside(nesting):
    """Another order by plain backward: the derivative of the nesting by its own argument."""
    x, t = of(rg, point(1)).requires_grad_(), of(rg, point(2))
    transform = NESTINGS[nesting](func, bound(SCALAR[0], rg), t)

    def total(x):
        result = transform(x)
        return sum((y**2).sum() for y in (result if isinstance(result, tuple) else (result,)))

    (found,) = rg.autograd.grad(total(x), x, allow_unused=True)
    numerical = finite_difference(lambda x: total(of(rg, x)).item(), point(1))
    np.testing.assert_allclose(found.numpy(), numerical, rtol=1e-5)


VECTOR_NESTINGS = {
    "jacrev": lambda F, f: F.jacrev(f),
    "jacfwd": lambda F, f: F.jacfwd(f),
    "hessian": lambda F, f: F.hessian(f),
    "jacrev(jacrev)": lambda F, f: F.jacrev(F.jacrev(f)),
    "jacrev(jacfwd)": lambda F, f: F.jacrev(F.jacfwd(f)),
    "jacfwd(jacfwd)": lambda F, f: F.jacfwd(F.jacfwd(f)),
    "grad of the determinant": lambda F, f: F.grad(lambda x: (F.jacrev(f)(x).T @ F.jacfwd(f)(x)).det()),
}


@pytest.mark.parametrize("nesting", VECTOR_NESTINGS)
def test_a_nesting_of_jacobians_of_a_vector_is_pytorchs(nesting):
    transform = VECTOR_NESTINGS[nesting]
    mine = transform(func, bound(vector, rg))(of(rg, point(4)))
    assert_same(mine, transform(torch.func, bound(vector, torch))(of(torch, point(4))))


# Perturbation confusion (Siskind and Pearlmutter 2005, 2008; Manzyuk et al. 2019)


def by_grad(f):
    return func.grad(f)


def by_jvp(f):
    return lambda x: func.jvp(f, (x,), (1.0,))[1]


def by_vjp(f):
    return lambda x: func.vjp(f, x)[1](1.0)[0]


def by_linearize(f):
    return lambda x: func.linearize(f, x)[1](1.0)


def by_jacrev(f):
    return func.jacrev(f)


def by_jacfwd(f):
    return func.jacfwd(f)


DERIVATIVES = [by_grad, by_jvp, by_vjp, by_linearize, by_jacrev, by_jacfwd]
CONFUSING = {
    "x d(x + y)/dy": (lambda D, E: D(lambda x: x * E(lambda y: x + y)(1.0)), 1.0, 1.0),
    "x d(x y)/dy": (lambda D, E: D(lambda x: x * E(lambda y: x * y)(2.0)), 3.0, 6.0),
    "d(x^2 y^2)/dy at 2 x": (lambda D, E: D(lambda x: E(lambda y: x * x * y * y)(x * 2)), 3.0, 108.0),
    "three levels": (lambda D, E: D(lambda x: E(lambda y: D(lambda z: x * y * z * z)(y))(x)), 2.0, 16.0),
    "inner that ignores the outer": (lambda D, E: D(lambda x: x * E(lambda y: y * y)(3.0)), 5.0, 6.0),
    "inner that ignores itself": (lambda D, E: D(lambda x: x * E(lambda y: x * x + 0 * y)(3.0)), 5.0, 0.0),
    "the outer as the place": (lambda D, E: D(lambda x: E(lambda y: y**3)(x) * x), 2.0, 36.0),
}


@pytest.mark.parametrize("outer", DERIVATIVES)
@pytest.mark.parametrize("inner", DERIVATIVES)
def test_two_levels_are_not_confused(outer, inner):
    def check(name):
        make, at, wanted = CONFUSING[name]
        assert make(outer, inner)(of(rg, at)).item() == pytest.approx(wanted)

    check_each(check, CONFUSING)


@pytest.mark.parametrize("outer", DERIVATIVES)
@pytest.mark.parametrize("inner", DERIVATIVES)
def test_a_function_that_returns_functions_is_not_confused(outer, inner):
    """Manzyuk et al. 2019, section 2: a curried shift, whose inner derivative is taken twice."""

    def shifted(u):
        return lambda f: lambda x: f(x + u)

    h = lambda x: x**3  # noqa: E731
    # d/du of (d/dx of the function shifted by u) at x = 1 is the second derivative of h.
    found = outer(lambda u: inner(shifted(u)(h))(of(rg, 1.0)))(of(rg, 0.5))
    assert found.item() == pytest.approx(9.0)


@pytest.mark.parametrize("late", DERIVATIVES)
def test_a_vjp_made_outside_is_a_function_inside_of_another_transform(late):
    """The cotangent is younger than the record: vjp_fn(v) = v f'(2) is linear in v, and so is jvp_fn."""
    _, vjp_fn = func.vjp(lambda x: x**3, of(rg, 2.0))
    _, jvp_fn = func.linearize(lambda x: x**3, of(rg, 2.0))
    assert late(lambda v: vjp_fn(v * v)[0])(of(rg, 5.0)).item() == pytest.approx(120.0)
    assert late(lambda v: jvp_fn(v * v))(of(rg, 5.0)).item() == pytest.approx(120.0)
