"""Triangular systems: by BLAS from some rows on, whatever lies in the half that is not read."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.kernels.loops.matrices import triangular

SHAPES = [((3, 3), (3, 2)), ((20, 20), (20, 1)), ((20, 20), (20, 7)), ((2, 9, 9), (9, 4)), ((9, 9), (5, 2, 9, 4))]
SHAPES += [((4, 1, 12, 12), (3, 12, 12)), ((0, 9, 9), (9, 2)), ((9, 9), (9, 0))]


def system(a_shape, b_shape, kind, upper, unit):
    draw = np.random.default_rng(0)
    real = [draw.standard_normal(shape) for shape in (a_shape, b_shape)]
    a, b = [x + 1j * draw.standard_normal(x.shape) if kind in "FD" else x for x in real]
    a = (0.3 * a + 2 * np.eye(a.shape[-1])).astype(kind)
    half = np.triu(a, int(unit)) if upper else np.tril(a, -int(unit))
    return a, b.astype(kind), (half + np.eye(a.shape[-1]) if unit else half).astype(kind)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("kind", "fdFD")
@pytest.mark.parametrize("shapes", SHAPES)
@pytest.mark.parametrize("blas", [True, False])
def test_solutions_are_those_of_the_triangle(shapes, kind, upper, unit, blas, monkeypatch):
    if not blas:
        monkeypatch.setattr(triangular, "_function", lambda kind: None)
    a, b, half = system(*shapes, kind, upper, unit)
    wanted = np.linalg.solve(half, b)
    a[(half == 0) | bool(unit) * np.eye(a.shape[-1], dtype=bool)] = np.nan  # nobody reads it
    for given in (a, np.swapaxes(np.ascontiguousarray(np.swapaxes(a, -1, -2)), -1, -2)):
        x = rg.linalg.solve_triangular(rg.tensor(given), rg.tensor(b), upper=upper, unitriangular=unit)
        assert x.numpy().dtype == b.dtype and x.is_contiguous()
        np.testing.assert_allclose(x.numpy(), wanted, rtol=0, atol=200 * np.finfo(kind).eps)
    turned = rg.linalg.solve_triangular(
        rg.tensor(half).mT, rg.tensor(b).mT, upper=not upper, left=False, unitriangular=unit
    )
    np.testing.assert_allclose(turned.numpy(), np.swapaxes(wanted, -1, -2), rtol=0, atol=200 * np.finfo(kind).eps)


@pytest.mark.parametrize("unit", [False, True])
@pytest.mark.parametrize("upper", [False, True])
@pytest.mark.parametrize("n", [3, 12])
def test_derivatives_are_those_of_differences(n, upper, unit):
    a, b, _ = system((2, n, n), (n, 2), "d", upper, unit)
    leaves = [rg.tensor(x, requires_grad=True) for x in (a, b)]

    def solve(a, b):
        return rg.linalg.solve_triangular(a, b, upper=upper, unitriangular=unit)

    assert rg.autograd.gradcheck(solve, leaves)
    assert n > 3 or rg.autograd.gradgradcheck(solve, leaves)


@pytest.mark.parametrize("n", [2, 10])
def test_a_zero_on_the_diagonal_is_an_error(n):
    a = rg.eye(n)
    a[1, 1] = 0
    with pytest.raises(rg.linalg.LinAlgError, match="solve_triangular.*no unique solution"):
        rg.linalg.solve_triangular(a, rg.ones(n, 1), upper=True)
    with pytest.raises(RuntimeError, match="B must have as many rows as A"):
        rg.linalg.solve_triangular(rg.eye(n), rg.ones(n + 1, 1), upper=True)


@pytest.mark.parametrize("n", [4, 24])
def test_factorizations_pull_back_through_triangles(n):
    draw = np.random.default_rng(1)
    x = draw.standard_normal((n, n))
    x = rg.tensor(x @ x.T + n * np.eye(n), requires_grad=True)
    for function in (
        lambda x: rg.linalg.cholesky((x + x.mT) / 2),
        lambda x: rg.linalg.qr(x)[1],
        lambda x: rg.linalg.lu_factor(x)[0],
    ):
        assert rg.autograd.gradcheck(function, [x], fast_mode=n > 4)
