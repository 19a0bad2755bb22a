"""Errors of linear algebra."""

from __future__ import annotations

import pytest

import retrograd as rg


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


@pytest.mark.parametrize("name", ["matrix_rank", "pinv"])
def test_a_tolerance_that_is_a_number_does_not_change_the_type_of_an_error(name):
    torch = pytest.importorskip("torch")
    for lib in (torch, rg):
        with pytest.raises(RuntimeError, match="2 (or more )?dimensions|at least 2"):
            getattr(lib.linalg, name)(lib.ones(5), rtol=1.0)
