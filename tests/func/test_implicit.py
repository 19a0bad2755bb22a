"""custom_root, custom_linear_solve, fixed_point and argmin: derivatives by the implicit function theorem."""

import gc
import weakref

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd import gradcheck, gradgradcheck
from retrograd.autograd.checkpoint import checkpoint
from retrograd.func import (
    argmin,
    custom_linear_solve,
    custom_root,
    fixed_point,
    grad,
    hessian,
    jacfwd,
    jacrev,
    jvp,
    vmap,
)

RNG = np.random.default_rng(0)


def double(values, **options):
    return rg.tensor(values, dtype=rg.float64, **options)


def cube_root(a):
    return custom_root(lambda x: x**3 - a, double(1.0))


def values(x):
    return x.detach().numpy()


A = double([1.0, 8.0, 27.0])
FIRST, SECOND, THIRD = (c * values(A) ** p for c, p in ((1 / 3, -2 / 3), (-2 / 9, -5 / 3), (10 / 27, -8 / 3)))


@pytest.mark.parametrize(
    ("transformed", "expected"),
    [
        (lambda a: vmap(cube_root)(a), values(A) ** (1 / 3)),
        (lambda a: vmap(grad(cube_root))(a), FIRST),
        (lambda a: grad(lambda a: vmap(cube_root)(a).sum())(a), FIRST),
        (lambda a: vmap(hessian(cube_root))(a), SECOND),
        (lambda a: hessian(lambda a: vmap(cube_root)(a).sum())(a).diagonal(), SECOND),
        (lambda a: grad(lambda a: vmap(grad(cube_root))(a).sum())(a), SECOND),
        (lambda a: jvp(vmap(grad(cube_root)), (a,), (rg.ones_like(a),))[1], SECOND),
        (lambda a: vmap(jacfwd(jacrev(cube_root)))(a), SECOND),
        (lambda a: vmap(jacrev(jacfwd(cube_root)))(a), SECOND),
        (lambda a: vmap(jacfwd(jacfwd(cube_root)))(a), SECOND),
        (lambda a: vmap(grad(grad(grad(cube_root))))(a), THIRD),
        (lambda a: vmap(vmap(cube_root))(a[None])[0], values(A) ** (1 / 3)),
        (lambda a: vmap(lambda s: grad(lambda a: vmap(cube_root)(a).sum())(s * a))(double([1.0]))[0], FIRST),
    ],
)
def test_a_root_has_the_derivatives_of_the_formula_under_nested_transforms(transformed, expected):
    found = transformed(A)
    assert not found.requires_grad
    np.testing.assert_allclose(values(found), expected, rtol=1e-9)


def test_a_root_of_a_nest_has_gradients_by_captured_tensors():
    def root(p):
        found = custom_root(
            lambda s: {"u": s["u"] ** 2 + s["v"].sum() - p[0], "v": s["v"] * p[1] - s["u"]},
            {"u": double(1.0), "v": double([1.0, 1.0])},
        )
        return rg.cat([found["u"][None], found["v"]])

    p = double([3.0, 2.0], requires_grad=True)
    assert gradcheck(root, (p,)) and gradgradcheck(root, (p,), fast_mode=True)


@pytest.mark.parametrize("conjugated", [0.0, 0.3])
def test_a_complex_root_has_gradients_also_where_the_equation_is_not_holomorphic(conjugated):
    z = rg.tensor(1.0 + 2.0j, dtype=rg.complex128, requires_grad=True)

    def root(z):
        start = rg.tensor(1.0 + 0.5j, dtype=rg.complex128)
        return custom_root(lambda x: x**2 + conjugated * x.conj() - z, start)

    assert gradcheck(root, (z,)) and gradgradcheck(root, (z,), fast_mode=True)


def test_a_tangent_solve_of_the_user_gets_one_example_inside_vmap():
    shapes = []

    def solve(g, y):
        shapes.append(y.shape)
        return y / g(double(1.0))

    def root(a):
        return custom_root(lambda x: x**3 - a, double(1.0), tangent_solve=solve)

    np.testing.assert_allclose(values(vmap(grad(root))(A)), FIRST, rtol=1e-9)
    np.testing.assert_allclose(values(grad(lambda a: vmap(root)(a).sum())(A)), FIRST, rtol=1e-9)
    assert set(shapes) == {()}


MATRIX = RNG.standard_normal((4, 4)) + 4 * np.eye(4)


@pytest.mark.parametrize("method", ["dense", "cg", "gmres", "bicgstab"])
def test_a_linear_solution_has_gradients_by_matrix_and_right_hand_side(method):
    def solution(a, b):
        a = a @ a.mT if method == "cg" else a
        return custom_linear_solve(lambda x: a @ x, b, method, symmetric=method == "cg")

    a, b = double(MATRIX, requires_grad=True), double(RNG.standard_normal(4), requires_grad=True)
    matrix = MATRIX @ MATRIX.T if method == "cg" else MATRIX
    np.testing.assert_allclose(values(solution(a, b)), np.linalg.solve(matrix, values(b)), rtol=1e-7)
    assert gradcheck(solution, (a, b)) and gradgradcheck(solution, (a, b), fast_mode=True)
    inverse = vmap(jacfwd(lambda b: solution(a.detach(), b)))(double(RNG.standard_normal((2, 4))))
    np.testing.assert_allclose(values(inverse[1]), np.linalg.inv(matrix), rtol=1e-6)


def test_a_matrix_is_never_formed_for_many_unknowns():
    size = 3000
    sides = double(RNG.standard_normal(size))

    def laplacian(x):
        return 2.5 * x - rg.nn.functional.pad(x[1:], (0, 1)) - rg.nn.functional.pad(x[:-1], (1, 0))

    def energy(scale):
        return (custom_linear_solve(lambda x: scale * laplacian(x), sides, "cg", symmetric=True) * sides).sum()

    scale = double(2.0, requires_grad=True)
    value = energy(scale)
    value.backward()
    np.testing.assert_allclose(scale.grad.item(), -value.item() / 2, rtol=1e-8)


def test_a_fixed_point_of_a_layer_has_gradients_by_its_weights():
    w, x = double(0.2 * RNG.standard_normal((4, 4)), requires_grad=True), double(RNG.standard_normal(4))

    def equilibrium(w):
        return fixed_point(lambda z: rg.tanh(w @ z + x), rg.zeros(4, dtype=rg.float64))

    assert gradcheck(equilibrium, (w,)) and gradgradcheck(equilibrium, (w,), fast_mode=True)


def test_a_minimum_has_gradients_by_a_hyperparameter_and_examples_converge_together():
    x = double(RNG.standard_normal((20, 3)))
    y = (x.sum(1) > 0).astype(rg.float64)

    def fitted(log_weight):
        def loss(w):
            return rg.nn.functional.softplus(-(2 * y - 1) * (x @ w)).mean() + rg.exp(log_weight) * (w * w).sum()

        return argmin(loss, rg.zeros(3, dtype=rg.float64))

    assert gradcheck(fitted, (double(-2.0, requires_grad=True),), atol=1e-4)
    slope = grad(lambda log_weight: fitted(log_weight).sum())
    both = double([-2.0, -1.0])
    np.testing.assert_allclose(values(vmap(slope)(both)), [slope(b).item() for b in both], rtol=1e-6)


def test_a_root_inside_a_root_is_differentiated():
    def inner(b, a):
        return custom_root(lambda y: y**3 - b * a, double(1.0))

    def outer(a):
        return custom_root(lambda x: x - grad(inner)(x + 1, a), double(0.5))

    assert gradcheck(outer, (double(2.0, requires_grad=True),))


def test_a_checkpoint_runs_an_implicit_solution_again():
    a = double(8.0, requires_grad=True)
    checkpoint(lambda a: cube_root(a * 1) ** 2, a).backward()
    np.testing.assert_allclose(a.grad.item(), 2 * 2 / 12, rtol=1e-9)


def test_a_solution_that_is_not_differentiated_is_freed_without_the_garbage_collector():
    gc.collect()
    gc.disable()
    try:
        a = double(8.0, requires_grad=True)
        x = cube_root(a)
        node = weakref.ref(x._node.parents[0])
        del x
        assert node() is None
    finally:
        gc.enable()


def test_a_solution_that_depends_on_nothing_is_a_constant():
    assert not cube_root(double(8.0)).requires_grad
    with rg.no_grad():
        assert not cube_root(double(8.0, requires_grad=True)).requires_grad


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: custom_root(lambda x: x**2 + 1, double(0.5)), "did not converge"),
        (lambda: custom_root(lambda x: x * float("nan"), double(0.5)), "not finite"),
        (lambda: custom_root(lambda x: rg.zeros(3), double(0.5)), r"the result of f is float32\(3,\)"),
        (lambda: custom_root(lambda x: x * 0 + 1, double([0.5, 1.0])), "singular"),
        (lambda: fixed_point(lambda x: 3 * x + 1, double(0.5), memory=0, maxiter=5000), "diverged|converge"),
        (lambda: argmin(lambda x: x.sum(), double([0.5])), "did not converge"),
        (lambda: custom_linear_solve(lambda x: -x, double([1.0]), "cg"), "positive definite"),
        (lambda: custom_linear_solve(lambda x: 0 * x, double([1.0]), "gmres"), "did not solve"),
        (lambda: custom_linear_solve(lambda x: x, double([1.0]), "lu"), "linear solver must be"),
        (lambda: custom_root(lambda x: x, 3), "must be a Tensor"),
        (lambda: custom_root(lambda x: x, []), "at least one Tensor"),
    ],
)
def test_what_has_no_solution_or_a_wrong_form_is_an_error(call, message):
    with pytest.raises((RuntimeError, ValueError), match=message):
        call()


def test_a_singular_jacobian_at_the_root_is_an_error_of_the_backward_pass():
    a = double(0.0, requires_grad=True)
    x = custom_root(lambda x: x**2 - a, double(0.0), solve=lambda f, x: x)
    with pytest.raises(RuntimeError, match="singular"):
        x.backward()


def test_a_derivative_inside_jacrev_leaves_no_history_on_a_constant_result():
    @rg.func.custom_vjp
    def sine(x):
        return x.sin()

    sine.defvjp(lambda x: (x.sin(), x), lambda x, g: (g * x.cos(),))
    assert not jacrev(sine)(A).requires_grad and not jacrev(vmap(cube_root))(A).requires_grad
