"""Linear algebra where PyTorch is no reference, and its errors."""

from __future__ import annotations

import math

import numpy as np
import pytest

import retrograd as rg


def test_the_gradient_of_the_determinant_of_a_singular_matrix_is_its_cofactors():
    x = rg.tensor(np.array([[1.0, 2.0], [2.0, 4.0]]), requires_grad=True)
    rg.linalg.det(x).backward()
    np.testing.assert_allclose(x.grad.numpy(), [[4.0, -2.0], [-2.0, 1.0]], atol=1e-12)


def test_pivoted_lu_puts_the_matrix_together_again():
    rng = np.random.default_rng(0)
    for shape in ((4, 4), (5, 3), (3, 5), (2, 3, 3)):
        a = rng.standard_normal(shape)
        p, lower, upper = rg.linalg.lu(rg.tensor(a))
        np.testing.assert_allclose((p @ lower @ upper).numpy(), a, atol=1e-12)


def test_lu_solve_solves():
    rng = np.random.default_rng(0)
    a, b = rng.standard_normal((2, 4, 4)), rng.standard_normal((2, 4, 3))
    x = rg.linalg.lu_solve(*rg.linalg.lu_factor(rg.tensor(a)), rg.tensor(b))
    np.testing.assert_allclose(a @ x.numpy(), b, atol=1e-12)


def test_matrix_exponential_of_a_large_rotation():
    angle = 20.0
    x = rg.tensor(np.array([[0.0, -angle], [angle, 0.0]]))
    c, s = np.cos(angle), np.sin(angle)
    np.testing.assert_allclose(rg.matrix_exp(x).numpy(), [[c, -s], [s, c]], atol=1e-12)


@pytest.mark.parametrize(
    "call, message",
    [
        (
            lambda: rg.linalg.inv(rg.ones(2, 3)),
            r"linalg\.inv\(.*: A must be batches of square matrices, got float32\(2, 3\)",
        ),
        (lambda: rg.linalg.inv(rg.zeros(2, 2)), "linalg.inv.*no inverse"),
        (lambda: rg.linalg.solve(rg.eye(2), rg.ones(3, 1)), "linalg.solve.*: B must have as many rows as A"),
        (lambda: rg.linalg.cholesky(-rg.eye(2)), "linalg.cholesky.*not positive-definite"),
        (lambda: rg.linalg.det(rg.eye(2, dtype=rg.int64)), "linalg.det.*: expected float32"),
        (lambda: rg.linalg.qr(rg.eye(2), "full"), "linalg.qr.*: mode must be"),
        (lambda: rg.linalg.matrix_norm(rg.eye(2), 3), "linalg.matrix_norm.*: order 3"),
        (lambda: rg.trace(rg.ones(3)), "trace.*: expected a matrix"),
        (lambda: rg.linalg.multi_dot([rg.ones(2, 3), rg.ones(2, 3)]), "linalg.multi_dot"),
        (lambda: rg.linalg.lstsq(rg.eye(2), rg.ones(3, 1)), "B must have as many rows as A"),
        (lambda: rg.linalg.lu_solve(*rg.linalg.lu_factor(rg.eye(2)), rg.ones(3, 1)), "B must have as many rows as LU"),
        (lambda: rg.linalg.ldl_solve(*rg.linalg.ldl_factor(rg.eye(2)), rg.ones(3)), r"pivots \(2,\) and matrices B"),
        (lambda: rg.cholesky_solve(rg.ones(3, 1), rg.eye(2)), "input must have as many rows as L"),
        (lambda: rg.ormqr(rg.ones(3, 2), rg.ones(2), rg.ones(4, 2)), "as many rows as input has rows"),
        (lambda: rg.ormqr(rg.ones(3, 2), rg.ones(2), rg.ones(2, 4), left=False), "as many columns as input has rows"),
    ],
)
def test_errors(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_qr_without_a_derivative_says_so():
    x = rg.ones(3, 2, requires_grad=True)
    q, _ = rg.linalg.qr(x, "complete")
    with pytest.raises(RuntimeError, match="mode='complete' only for square"):
        q.sum().backward()


def of_complex(*shape):
    rng = np.random.default_rng(0)
    return rng.standard_normal(shape) + 1j * rng.standard_normal(shape)


def test_cholesky_factors_of_complex_matrices_solve():
    a, b = of_complex(3, 3), of_complex(3, 2)
    a = a @ a.conj().T + np.eye(3)
    for upper in (False, True):
        factor = rg.linalg.cholesky(rg.tensor(a), upper=upper)
        np.testing.assert_allclose(a @ rg.cholesky_solve(rg.tensor(b), factor, upper).numpy(), b, atol=1e-12)
        np.testing.assert_allclose(a @ rg.cholesky_inverse(factor, upper).numpy(), np.eye(3), atol=1e-12)


@pytest.mark.parametrize("left", [True, False])
@pytest.mark.parametrize("adjoint", [True, False])
def test_lu_factors_of_complex_matrices_solve(left, adjoint):
    a, b = of_complex(3, 3), of_complex(3, 3)
    x = rg.linalg.lu_solve(*rg.linalg.lu_factor(rg.tensor(a)), rg.tensor(b), left=left, adjoint=adjoint).numpy()
    used = a.conj().T if adjoint else a
    np.testing.assert_allclose(used @ x if left else x @ used, b, atol=1e-12)


def test_factors_of_complex_matrices_put_them_together_again():
    a = of_complex(2, 4)
    q, r = rg.linalg.qr(rg.tensor(a))
    np.testing.assert_allclose((q @ r).numpy(), a, atol=1e-12)
    u, s, v = (factor.numpy() for factor in rg.svd(rg.tensor(a)))
    np.testing.assert_allclose(u * s @ v.conj().T, a, atol=1e-12)


def test_pseudo_inverse_of_a_hermitian_matrix_by_its_lower_triangle():
    a = of_complex(3, 3)
    a = a + a.conj().T
    inverse = rg.linalg.pinv(rg.tensor(np.tril(a)), hermitian=True).numpy()
    np.testing.assert_allclose(a @ inverse, np.eye(3), atol=1e-12)


def test_residuals_of_complex_least_squares_are_real():
    a, b = of_complex(4, 2), of_complex(4, 1)[::-1].copy()
    found = rg.linalg.lstsq(rg.tensor(a), rg.tensor(b))
    wanted = np.linalg.lstsq(a, b, rcond=None)[1]
    np.testing.assert_allclose(found.residuals.numpy(), wanted, rtol=1e-10)
    assert found.residuals.dtype == np.float64


@pytest.mark.parametrize("equation, shapes", [("ij,jk->ijk", ((2, 3), (3, 4))), ("ij,k->i", ((2, 3), (4,)))])
def test_einsum_promotes_dtypes_where_no_products_are_summed(equation, shapes):
    x = rg.ones(shapes[0], dtype=rg.float64, requires_grad=True)
    y = rg.full(shapes[1], 2.0, requires_grad=True)
    result = rg.einsum(equation, x, y)
    assert result.dtype == rg.float64
    result.sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (rg.float64, rg.float32)
    with pytest.raises(RuntimeError, match="operands must have the same dtype"):
        rg.einsum("ij,kj->ik", x, rg.ones(4, 3))


def test_pinv_measures_each_matrix_by_its_own_bounds():
    x = rg.stack([rg.diag(rg.tensor([1.0, 0.1])), rg.diag(rg.tensor([100.0, 0.1]))]).double()
    for bounds in ({"atol": 0.2}, {"rtol": rg.tensor([0.2, 0.002])}, {"atol": rg.tensor([0.2, 0.15])}):
        found = rg.linalg.pinv(x, **bounds)
        assert np.allclose(found.numpy(), [np.diag([1.0, 0.0]), np.diag([0.01, 0.0])])
    assert rg.linalg.pinv(x, atol=rg.tensor([0.01, 0.2]))[0, 1, 1].item() == pytest.approx(10)
    mapped = rg.func.vmap(lambda a: rg.linalg.pinv(a, atol=0.2))(x)
    assert np.allclose(mapped.numpy(), rg.linalg.pinv(x, atol=0.2).numpy())


def test_an_empty_matrix_has_an_empty_lu_decomposition():
    x = rg.zeros(0, 0, dtype=rg.float64, requires_grad=True)
    parts = rg.linalg.lu(x)
    assert [part.shape for part in parts] == [(0, 0)] * 3
    (gradient,) = rg.autograd.grad(parts[1].sum() + parts[2].sum(), x)
    assert gradient.shape == (0, 0)
    assert [part.shape for part in rg.linalg.lu_factor(x)] == [(0, 0), (0,)]


@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("dtype", [np.float64, np.complex128])
def test_cholesky_ex_returns_what_elimination_computed_before_the_bad_pivot(upper, dtype):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).standard_normal((5, 6, 6)).astype(dtype)
    x = x @ x.swapaxes(-1, -2) + (1j * np.tril(np.triu(np.ones((6, 6)), 1), 1) if dtype == np.complex128 else 0)
    x = (x + x.conj().swapaxes(-1, -2)) / 2
    for i in range(4):
        x[i, i + 1, i + 1] = -3.0
    x[4] += 10 * np.eye(6)
    mine, its = rg.linalg.cholesky_ex(rg.tensor(x), upper=upper), torch.linalg.cholesky_ex(torch.tensor(x), upper=upper)
    assert mine.info.tolist() == its.info.tolist() and mine.info[-1] == 0 and (mine.info[:-1] > 0).all()
    np.testing.assert_allclose(mine.L.numpy(), its.L.numpy(), rtol=1e-10, atol=1e-12)


def test_inverses_and_solutions_of_singular_matrices_divide_by_the_zero_pivots_as_pytorch_does():
    inf, nan = math.inf, math.nan
    a = rg.tensor([[[1.0, 2.0], [2.0, 4.0]], [[0.0, 1.0], [0.0, 2.0]], [[2.0, 0.0], [0.0, 4.0]], [[0.0, 0.0]] * 2])
    inverse, info = rg.linalg.inv_ex(a)
    assert info.tolist() == [2, 1, 0, 1]
    wanted = [[[-inf, inf], [inf, -inf]], [[inf, -inf], [0, 0.5]], [[0.5, 0], [0, 0.25]], [[nan, nan], [nan, inf]]]
    np.testing.assert_array_equal(inverse.array, wanted)
    result, info = rg.linalg.solve_ex(a, rg.ones(2))
    assert info.tolist() == [2, 1, 0, 1]
    np.testing.assert_array_equal(result.array, [[-inf, inf], [inf, 0.5], [0.5, 0.25], [nan, inf]])
    result = rg.linalg.solve_ex(a[1], rg.eye(2), left=False).result
    np.testing.assert_array_equal(result.array, [[nan, -inf], [nan, nan]])
    assert rg.isnan(rg.linalg.inv_ex(a[0].to(rg.complex64)).inverse).all()
