"""Solutions of sparse systems and eigenvalues: values against dense ones, implicit gradients of every kind."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.errors import LinAlgError
from retrograd.func import grad, hessian, jvp, vmap
from retrograd.scipy import sparse
from retrograd.scipy.sparse import linalg

pytest.importorskip("scipy.sparse")

RNG = np.random.default_rng(0)
N = 7
DOWN, UP = np.arange(1, N), np.arange(N - 1)
ROWS = np.concatenate([np.arange(N), DOWN, UP, [0]])
COLUMNS = np.concatenate([np.arange(N), UP, DOWN, [5]])
DATA = np.concatenate([4 + RNG.uniform(size=N), RNG.uniform(-1, 1, 2 * N - 2), [0.7]])
B = RNG.normal(size=(N, 2))


def matrix(data, format="csr"):
    return getattr(sparse, f"{format}_array")((data, (ROWS, COLUMNS)), shape=(N, N))


def as_dense(data):
    """The matrix by dense operators, which are differentiated otherwise."""
    return rg.zeros(N * N, dtype=rg.float64).index_add(0, rg.tensor(ROWS * N + COLUMNS), data).reshape(N, N)


def symmetric(data, format="csr"):
    a = matrix(data, format)
    return a + a.T


def dense_symmetric(data):
    a = as_dense(data)
    return a + a.T


EXACT = {"rtol": 1e-13}
SOLVERS = {
    "spsolve": lambda a, b: linalg.spsolve(a, b),
    "factorized": lambda a, b: linalg.factorized(a)(b),
    "gmres": lambda a, b: linalg.gmres(a, b, **EXACT)[0],
    "bicgstab": lambda a, b: linalg.bicgstab(a, b, **EXACT)[0],
    "cg": lambda a, b: linalg.cg(a, b, **EXACT)[0],
    "minres": lambda a, b: linalg.minres(a, b, **EXACT)[0],
}
SYMMETRIC = ("cg", "minres")


def problem(name, free=False):
    """A scalar function of the values and the right-hand side, and the same by dense operators."""
    of, dense = (symmetric, dense_symmetric) if name in SYMMETRIC else (matrix, as_dense)

    def loss(data, b):
        a = of(data)
        if free:
            whole = dense(data)
            a = linalg.LinearOperator((N, N), lambda x: whole @ x)
        return (SOLVERS[name](a, b).sin() * rg.arange(N, dtype=rg.float64)).sum()

    def reference(data, b):
        return (rg.linalg.solve(dense(data), b).sin() * rg.arange(N, dtype=rg.float64)).sum()

    return loss, reference


# Each solver on a sparse array; all but the factorizations also on a function.
PROBLEMS = [(name, free) for name in SOLVERS for free in (False, True) if not (free and name in list(SOLVERS)[:2])]


@pytest.mark.parametrize(("name", "free"), PROBLEMS)
def test_solutions_have_the_derivatives_of_dense_ones_in_every_transform(name, free):
    loss, reference = problem(name, free)
    data, b = rg.tensor(DATA), rg.tensor(B[:, 0])
    directions = rg.tensor(np.sin(np.arange(len(DATA)))), rg.tensor(B[:, 1])

    def close(got, wanted):
        np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-7, atol=1e-9)

    close(loss(data, b), reference(data, b))
    for got, wanted in zip(grad(loss, (0, 1))(data, b), grad(reference, (0, 1))(data, b), strict=True):
        close(got, wanted)
    close(jvp(loss, (data, b), directions)[1], jvp(reference, (data, b), directions)[1])
    close(hessian(lambda b: loss(data, b))(b), hessian(lambda b: reference(data, b))(b))

    def slope(function):
        return grad(lambda data: (grad(function)(data, b) * directions[0]).sum())(data)

    close(slope(loss), slope(reference))
    sides = rg.tensor(B.T)
    several = rg.tensor(np.stack([DATA, DATA * 1.1]))
    for dims, arguments in (((None, 0), (data, sides)), ((0, 0), (several, sides))):
        close(vmap(loss, dims)(*arguments), vmap(reference, dims)(*arguments))
        close(vmap(grad(loss), dims)(*arguments), vmap(grad(reference), dims)(*arguments))


@pytest.mark.parametrize("format", ["coo", "csr", "csc"])
def test_factors_solve_for_several_sides_and_with_the_transpose(format):
    data = rg.tensor(DATA, requires_grad=True)
    lu = linalg.splu(matrix(data, format))
    for trans in ("N", "T", "H"):
        whole = as_dense(data) if trans == "N" else as_dense(data).T
        got, wanted = lu.solve(rg.tensor(B), trans), rg.linalg.solve(whole, rg.tensor(B))
        np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-12)
        first, second = (rg.autograd.grad((x**2).sum(), data)[0].numpy() for x in (got, wanted))
        np.testing.assert_allclose(first, second, rtol=1e-10)
    assert lu.shape == (N, N)


def test_complex_systems_follow_the_dense_convention():
    data = rg.tensor(DATA * (1 + 0.3j), requires_grad=True)
    b = rg.tensor(B[:, 0] + 1j * B[:, 1], requires_grad=True)
    found = [
        rg.autograd.grad((x.abs() ** 2 * rg.arange(N)).sum(), (data, b))
        for x in (
            linalg.spsolve(matrix(data), b),
            linalg.splu(matrix(data)).solve(b),
            rg.linalg.solve(
                rg.zeros(N * N, dtype=rg.complex128).index_add(0, rg.tensor(ROWS * N + COLUMNS), data).reshape(N, N), b
            ),
        )
    ]
    for part in range(2):
        np.testing.assert_allclose(found[0][part].numpy(), found[2][part].numpy(), rtol=1e-10)
        np.testing.assert_allclose(found[1][part].numpy(), found[2][part].numpy(), rtol=1e-10)
    real = linalg.spsolve(matrix(rg.tensor(DATA)), b.detach())
    np.testing.assert_allclose(real.numpy(), np.linalg.solve(as_dense(rg.tensor(DATA)).numpy(), b.detach().numpy()))


def test_the_factors_are_computed_once_for_forward_and_backward(monkeypatch):
    import scipy.sparse.linalg

    counted, splu = [], scipy.sparse.linalg.splu
    monkeypatch.setattr(
        scipy.sparse.linalg, "splu", lambda *args, **options: counted.append(1) or splu(*args, **options)
    )
    data = rg.tensor(DATA, requires_grad=True)
    lu = linalg.splu(matrix(data))
    (lu.solve(rg.tensor(B)).sum() + lu.solve(rg.tensor(B[:, 0]), "T").sum()).backward()
    assert len(counted) == 1


@pytest.mark.parametrize("mass", [False, True], ids=["plain", "generalized"])
@pytest.mark.parametrize("free", [False, True], ids=["sparse", "matrix-free"])
def test_eigenvalues_and_vectors_have_the_derivatives_of_dense_ones(free, mass):
    scale = rg.arange(N, dtype=rg.float64) * 0.1 + 1

    def loss(data, which):
        a = symmetric(data)
        if free:
            whole = dense_symmetric(data)
            a = linalg.LinearOperator((N, N), lambda x: whole @ x)
        m = sparse.diags_array(scale * data[0]) if mass else None
        w, v = linalg.eigsh(a, k=3, M=m, which=which, return_eigenvectors=True)
        return (w * rg.tensor([1.0, -2.0, 0.5], dtype=rg.float64)).sum() + (v**4).sum()

    def reference(data, which):
        root = (scale * data[0]).sqrt() if mass else rg.ones(N, dtype=rg.float64)
        w, v = rg.linalg.eigh(dense_symmetric(data) / root[:, None] / root)
        v = v / root[:, None]
        w, v = (w[:3], v[:, :3]) if which == "SA" else (w[-3:], v[:, -3:])
        return (w * rg.tensor([1.0, -2.0, 0.5], dtype=rg.float64)).sum() + (v**4).sum()

    data, direction = rg.tensor(DATA), rg.tensor(np.cos(np.arange(len(DATA))))
    for which in ("SA", "LA"):
        found = []
        for function in (loss, reference):

            def f(data, function=function, which=which):
                return function(data, which)

            def slope(data, f=f):
                return (grad(f)(data) * direction).sum()

            found.append((f(data), grad(f)(data), jvp(f, (data,), (direction,))[1], grad(slope)(data)))
        for got, wanted in zip(*found, strict=True):
            np.testing.assert_allclose(got.detach().numpy(), wanted.detach().numpy(), rtol=1e-5, atol=1e-7)


def test_eigenvalues_next_to_a_number_are_found_by_factorization():
    data = rg.tensor(DATA, requires_grad=True)
    (w,) = linalg.eigsh(symmetric(data), k=1, sigma=8.0, return_eigenvectors=False)
    all_of = np.linalg.eigvalsh(dense_symmetric(data.detach()).numpy())
    assert w.item() == pytest.approx(all_of[abs(all_of - 8).argmin()])
    w.backward()
    assert abs(data.grad.numpy()).max() > 0


def test_a_preconditioner_and_a_start_change_the_iterations_and_not_the_gradient():
    found = []
    for options in ({}, {"M": sparse.diags_array(1 / rg.tensor(2 * DATA[:N])), "x0": B[:, 1]}):
        data, steps = rg.tensor(DATA, requires_grad=True), []
        x, info = linalg.cg(symmetric(data), rg.tensor(B[:, 0]), callback=steps.append, rtol=1e-12, **options)
        assert info == 0
        assert len(steps) > 0
        (x**2).sum().backward()
        found.append(data.grad.numpy())
    np.testing.assert_allclose(found[0], found[1], rtol=1e-8)
    y = linalg.minres(symmetric(rg.tensor(DATA)), rg.tensor(B[:, 0]), shift=0.5, rtol=1e-12)[0]
    shifted = dense_symmetric(rg.tensor(DATA)).numpy() - 0.5 * np.eye(N)
    np.testing.assert_allclose(y.numpy(), np.linalg.solve(shifted, B[:, 0]), rtol=1e-8)


def test_operators_multiply_and_find_their_transposes():
    whole = rg.tensor(RNG.normal(size=(3, 4)))
    operator = linalg.LinearOperator((3, 4), lambda x: whole @ x)
    y, x = RNG.normal(size=3), RNG.normal(size=(4, 2))
    np.testing.assert_allclose((operator @ x).numpy(), whole.numpy() @ x)
    np.testing.assert_allclose(operator.T.matvec(y).numpy(), whole.numpy().T @ y)
    np.testing.assert_allclose(
        linalg.aslinearoperator(matrix(DATA)).H.matvec(B[:, 0]).numpy(), as_dense(rg.tensor(DATA)).numpy().T @ B[:, 0]
    )
    with pytest.raises(ValueError, match="length 4"):
        operator.matvec(y)
    assert linalg.norm(matrix(rg.tensor(DATA))).item() == pytest.approx(np.linalg.norm(DATA))


def test_singular_matrices_and_systems_that_do_not_converge_are_errors():
    singular = np.where((ROWS == 3) | (COLUMNS == 3), 0.0, DATA)
    with pytest.raises(LinAlgError, match=r"\(7, 7\) is singular"):
        linalg.spsolve(matrix(rg.tensor(singular)), rg.tensor(B))
    hard = sparse.diags_array(rg.tensor(np.logspace(0, 8, 60), requires_grad=True))
    with pytest.raises(RuntimeError, match="cg: did not converge in 3 iterations"):
        linalg.cg(hard, np.ones(60), maxiter=3)
    with rg.no_grad():
        assert linalg.cg(hard, np.ones(60), maxiter=3)[1] == 3
    equal = sparse.diags_array(rg.tensor([1.0, 1.0, 2.0, 3.0, 4.0], dtype=rg.float64, requires_grad=True))
    w, v = linalg.eigsh(equal, k=2, which="SA")
    with pytest.raises(LinAlgError, match="eigenvalue 0, 1"):
        v[0, 0].backward()


BAD = {
    "a rectangle": (lambda: linalg.spsolve(sparse.csr_array(np.ones((2, 3))), np.ones(2)), ValueError, "square"),
    "a side of another length": (lambda: linalg.spsolve(matrix(DATA), np.ones(3)), ValueError, "7 rows"),
    "a dense matrix": (lambda: linalg.splu(rg.eye(2)), TypeError, "sparse array"),
    "another transpose": (lambda: linalg.splu(matrix(DATA)).solve(B, "X"), ValueError, "'X'"),
    "several sides": (lambda: linalg.cg(matrix(DATA), B), ValueError, "vmap"),
    "complex eigenvalues": (lambda: linalg.eigsh(matrix(DATA * 1j)), ValueError, "real"),
    "a shape of one length": (lambda: linalg.LinearOperator((3,), lambda x: x), ValueError, "two lengths"),
    "another norm": (lambda: linalg.norm(matrix(DATA), "nuc"), NotImplementedError, "Frobenius"),
}


@pytest.mark.parametrize("name", BAD)
def test_arguments_that_do_not_fit_are_refused(name):
    call, kind, message = BAD[name]
    with pytest.raises(kind, match=message):
        call()


def test_scipys_other_functions_refuse_sparse_arrays_of_tensors():
    array = rg.scipy.sparse.csr_array(rg.eye(2))
    with pytest.raises(NotImplementedError, match=r"scipy.sparse.linalg.lsqr: .* pass A.detach\(\).to_scipy\(\)"):
        rg.scipy.sparse.linalg.lsqr(array, np.ones(2))
    assert rg.scipy.sparse.linalg.lsqr(array.to_scipy(), np.ones(2))[1] == 1
