"""Operators between sparse matrices of SciPy, which are constants, and Tensors; and what SciPy does not let through."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.errors import ConversionError
from retrograd.func import grad, hessian, jacfwd, vmap
from retrograd.scipy import sparse as ours

theirs = pytest.importorskip("scipy.sparse")

DENSE = np.array([[2.0, 0.0, 1.0], [0.0, 0.0, 3.0], [4.0, 5.0, 0.0]])
VECTOR = np.array([0.5, -1.5, 2.5])
SQUARE = np.array([[1.0, 2.0, -3.0], [0.5, 4.0, 1.5], [-2.0, 2.5, 0.25]])
WEIGHTS = np.cos(np.arange(9.0)).reshape(3, 3)

PRODUCTS = {
    "A @ x": lambda a, x, s: a @ x,
    "A @ X": lambda a, x, s: a @ s[:, :2],
    "x @ A": lambda a, x, s: x @ a,
    "X @ A": lambda a, x, s: s[:2] @ a,
    "A.dot(x)": lambda a, x, s: a.dot(x),
    "A.T @ x": lambda a, x, s: a.T @ x,
    "A * x": lambda a, x, s: a * x,
    "X * A": lambda a, x, s: s * a,
    "A * number": lambda a, x, s: a * s[0, 1],
    "A / X": lambda a, x, s: a / s,
}
SUMS = {
    "A + X": lambda a, x, s: a + s,
    "X + A": lambda a, x, s: s + a,
    "A - X": lambda a, x, s: a - s,
    "X - A": lambda a, x, s: s - a,
    "A > X": lambda a, x, s: a > s,
    "A == X": lambda a, x, s: a == s,
}


def dense(value):
    value = value.toarray() if hasattr(value, "toarray") else value
    return value if isinstance(value, rg.Tensor) else np.asarray(value)


def weighted(value):
    value = dense(value)
    return (
        value
        * WEIGHTS.reshape(-1)[: value.size if isinstance(value, np.ndarray) else value.numel()].reshape(value.shape)
    ).sum()


@pytest.mark.parametrize("format", ["csr", "csc", "coo", "bsr", "dia", "lil", "dok"])
@pytest.mark.parametrize("kind", ["array", "matrix"])
def test_operators_of_scipys_matrices_differentiate_by_the_tensor(format, kind):
    a = getattr(theirs, f"{format}_{kind}")(DENSE)
    for name, call in {**PRODUCTS, **(SUMS if kind == "array" else {})}.items():
        expected = dense(call(a, VECTOR, SQUARE))
        x, s = rg.tensor(VECTOR, requires_grad=True), rg.tensor(SQUARE, requires_grad=True)
        found = call(a, x, s)
        np.testing.assert_allclose(dense(found).detach().numpy(), expected, rtol=1e-14, err_msg=name)
        plain = call(a, rg.tensor(VECTOR), rg.tensor(SQUARE))
        assert type(plain) is type(found), name  # whether or not a gradient is wanted
        if expected.dtype == bool:
            continue
        weighted(found).backward()
        step = [np.zeros(3) if x.grad is None else VECTOR / 1e6, np.zeros((3, 3)) if s.grad is None else SQUARE / 1e6]
        slope = weighted(call(a, VECTOR + step[0], SQUARE + step[1])) - weighted(
            call(a, VECTOR - step[0], SQUARE - step[1])
        )
        along = sum((t.grad.numpy() * by).sum() for t, by in zip((x, s), step, strict=True) if t.grad is not None)
        assert 2e6 * along == pytest.approx(1e6 * slope, rel=1e-6), name


def test_a_product_with_scipys_matrix_copies_nothing_and_goes_through_every_transform():
    a = theirs.csr_array(DENSE)
    product = a @ rg.tensor(VECTOR, requires_grad=True)
    places = ours.csr_array(a).places
    assert places.source is a and "rows" not in vars(places) and np.shares_memory(places.columns, a.indices)
    assert product.grad_fn is not None

    def loss(x):
        return ((a @ x) ** 3).sum()

    u = DENSE @ VECTOR
    x, many = rg.tensor(VECTOR), rg.tensor(SQUARE)
    np.testing.assert_allclose(hessian(loss)(x).numpy(), DENSE.T @ np.diag(6 * u) @ DENSE)
    np.testing.assert_allclose(jacfwd(lambda x: x @ a)(x).numpy(), DENSE.T)
    np.testing.assert_allclose(vmap(lambda x: a @ x)(many).numpy(), SQUARE @ DENSE.T)
    np.testing.assert_allclose(vmap(grad(loss))(many).numpy(), [DENSE.T @ (3 * (DENSE @ v) ** 2) for v in SQUARE])
    np.testing.assert_allclose(vmap(lambda x: (a * x).toarray())(many).numpy(), SQUARE[:, None] * DENSE)
    z = rg.tensor(VECTOR + 1j, requires_grad=True)
    ((a * 1j) @ z).abs().square().sum().backward()
    np.testing.assert_allclose(z.grad.numpy(), 2 * DENSE.T @ DENSE @ (VECTOR + 1j))
    s = rg.tensor(SQUARE)
    memory = s.array
    s += a
    assert s.array is memory and s.tolist() == (SQUARE + DENSE).tolist()
    with pytest.raises(
        ValueError, match=r"rmatmul: a sparse array of SciPy must have 2 dimensions .* got shape \(3,\)"
    ):
        theirs.coo_array(VECTOR) @ x


REFUSED = {
    "csr_array of columns": (lambda x: theirs.csr_array((x, ([0, 1, 2], [0, 1, 2]))), "scipy.sparse.csr_array"),
    "diags": (lambda x: theirs.diags([x], [0]), "scipy.sparse.diags"),
    "diags of one": (lambda x: theirs.diags(x), "scipy.sparse.diags"),
    "diags_array of one": (lambda x: theirs.diags_array(x, offsets=1), "scipy.sparse.diags_array"),
    "cg of values": (lambda x: theirs.linalg.cg(x[0] * theirs.eye_array(3), np.ones(3)), "scipy.sparse.linalg.cg"),
    "diags_array of several": (lambda x: theirs.diags_array([x, x[:2]], offsets=[0, 1]), "scipy.sparse.diags_array"),
    "spdiags": (lambda x: theirs.spdiags(x, 0, 3, 3), "scipy.sparse.spdiags"),
    "multiply": (lambda x: theirs.csr_array(DENSE).multiply(x), r"operators \(A @ x, A \* x\).*csr_array\(A\)"),
    "maximum": (lambda x: theirs.csr_array(DENSE).maximum(x), r"csr_array\(A\)"),
    "np.arange": (lambda x: np.arange(x[0]), r"np.linspace\(0, x, n\)"),
    "np.full": (lambda x: np.full(3, x[0]), r"np.full\(shape, x, like=x\)"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_would_lose_the_gradient_names_what_to_use(name):
    call, words = REFUSED[name]
    with pytest.raises(ConversionError, match=f"use .*{words}"):
        call(rg.tensor(VECTOR, requires_grad=True))


def test_a_write_inside_a_function_of_scipy_names_what_to_use():
    inside = {"__name__": "scipy.sparse.linalg._isolve.iterative"}
    exec("def cg(A, b):\n    b += A", inside)
    with pytest.raises(ConversionError, match=r"scipy\.sparse\.linalg\.cg .*use retrograd\.scipy\.sparse\.linalg\.cg"):
        inside["cg"](rg.tensor(VECTOR, requires_grad=True), np.ones(3))


def test_transforms_name_what_to_use_where_scipy_fails_before_it_asks_for_an_array():
    x, factors = rg.tensor(VECTOR), theirs.linalg.splu(theirs.csc_array(DENSE))
    with pytest.raises(ConversionError, match=r"use retrograd\.scipy\.sparse\.linalg\.splu"):
        grad(lambda x: theirs.linalg.splu((x[0] * theirs.csc_array(DENSE)).tocsc()))(x)
    for call, words in (
        (lambda x: factors.solve(x), "splu(A).solve(b)"),
        (lambda x: theirs.linalg.eigsh(x[:, None] * x, 1)[0], "use retrograd.scipy.sparse.linalg.eigsh"),
        (lambda x: theirs.linalg.norm(x[0] * theirs.csc_array(DENSE)), "use retrograd.scipy.sparse.linalg.norm"),
    ):
        for transform in (grad, jacfwd, vmap):
            with pytest.raises((TypeError, ConversionError)) as caught:  # SciPy 1.18 asks for an array more often
                transform(call)(x if transform is not vmap else rg.stack([x, x]))
            assert words in "".join([str(caught.value), *getattr(caught.value, "__notes__", ())])
    with pytest.raises(TypeError) as caught:
        grad(lambda x: x + len(3))(x)
    assert not hasattr(caught.value, "__notes__")


def test_triangular_systems_take_the_triangle_that_they_are_told():
    x = rg.tensor(VECTOR, requires_grad=True)
    low = ours.tril(x[0] * theirs.csr_array(DENSE + 9 * np.eye(3)))
    given = low.detach().to_scipy().tocsr()
    for options in ({}, {"unit_diagonal": True}):
        expected = theirs.linalg.spsolve_triangular(given, VECTOR, **options)
        found = ours.linalg.spsolve_triangular(low, VECTOR, **options)
        np.testing.assert_allclose(found.detach().numpy(), expected)
        transposed = ours.linalg.spsolve_triangular(low.T, VECTOR, lower=False, **options)
        np.testing.assert_allclose(
            transposed.detach().numpy(),
            theirs.linalg.spsolve_triangular(given.T.tocsr(), VECTOR, lower=False, **options),
        )
        assert found.requires_grad and transposed.requires_grad
    with pytest.raises(ValueError, match=r"below its diagonal; pass triu\(A\), or lower=True"):
        ours.linalg.spsolve_triangular(low, VECTOR, lower=False)
    assert vmap(lambda v: ours.linalg.spsolve(ours.diags(v), v))(rg.zeros(0, 3)).shape == (0, 3)


MADE = {
    "diags": lambda m, x: m.diags([x, 2 * x[:2], x[1]], [0, 1, -1], (3, 3)),
    "diags_array of numbers": lambda m, x: m.diags_array([x[0], x[1], x[2]]),
    "spdiags": lambda m, x: m.spdiags(x, 1, 3, 3),
    "floating indices": lambda m, x: m.csr_matrix((x, (np.array([0.0, 1, 1]), np.array([2.0, 0, 2]))), (3, 3)),
    "values in a list": lambda m, x: m.coo_matrix(([x[0], x[1] * x[2]], ([0, 1], [1, 0]))),
    "bmat": lambda m, x: m.bmat([[m.diags(x), None], [None, m.diags(2 * x)]]),
    "hstack": lambda m, x: m.hstack([m.diags(x), m.diags(2 * x)]),
    "hstack of arrays": lambda m, x: m.hstack([m.diags_array(x), m.diags(2 * x)]),
    "kron": lambda m, x: m.kron(m.diags(x), theirs.csr_matrix(DENSE)),
    "tril": lambda m, x: m.tril(m.diags_array(x)),
    "maximum": lambda m, x: m.csr_array(DENSE).maximum(m.diags_array(x)),
}


@pytest.mark.filterwarnings("ignore:Input has data type int64")
@pytest.mark.parametrize("name", MADE)
def test_constructors_take_tensors_and_make_a_matrix_where_scipy_makes_one(name):
    x = rg.tensor(VECTOR, requires_grad=True)
    expected, found = MADE[name](theirs, VECTOR), MADE[name](ours, x)
    np.testing.assert_array_equal(found.toarray().detach().numpy(), expected.toarray())
    assert found.requires_grad and found.is_matrix == isinstance(expected, theirs.spmatrix)
