"""Sparse arrays with SciPy's interface: values against SciPy, gradients, higher orders, forward mode and vmap."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.func import grad, vmap
from retrograd.scipy import sparse as ours

theirs = pytest.importorskip("scipy.sparse")

RNG = np.random.default_rng(0)
ROWS = np.array([0, 2, 1, 0, 3, 1, 4, 2])
COLUMNS = np.array([1, 0, 3, 2, 3, 0, 2, 2])
DATA = RNG.uniform(0.2, 0.9, 8)
X = RNG.normal(size=(4, 3))
OTHER = theirs.random_array((5, 4), density=0.4, rng=RNG, format="csr")
INNER = theirs.random_array((4, 6), density=0.4, rng=RNG, format="csr")
FORMATS = ("coo", "csr", "csc")


def made(library, data, format="csr", kind="array"):
    return getattr(library, f"{format}_{kind}")((data, (ROWS, COLUMNS)), shape=(5, 4))


def dense(value):
    """The numbers of a result of either library."""
    value = value.toarray() if hasattr(value, "toarray") else value
    return value.detach().numpy() if isinstance(value, rg.Tensor) else np.asarray(value)


CALLS = {
    "matrix product": lambda m, a: a @ X,
    "vector product": lambda m, a: a @ X[:, 0],
    "product from the left": lambda m, a: X[:, :2].T @ a.T,
    "vector from the left": lambda m, a: RNG_VECTOR @ a,
    "dot": lambda m, a: a.dot(X),
    "sparse product": lambda m, a: a @ INNER,
    "product of its own": lambda m, a: a.T @ a,
    "transpose": lambda m, a: a.T,
    "sum of all": lambda m, a: a.sum(),
    "sums of columns": lambda m, a: a.sum(axis=0),
    "sums of rows": lambda m, a: a.sum(axis=1),
    "means": lambda m, a: a.mean(axis=0),
    "rows": lambda m, a: a.tocsr()[1:4],
    "rows and columns": lambda m, a: a.tocsr()[1:, 2:4],
    "steps": lambda m, a: a.tocsr()[::2, ::-1],
    "rows by number": lambda m, a: a.tocsr()[[3, 0, 3]],
    "columns by number": lambda m, a: a.tocsc()[:, np.array([2, 1])],
    "one row": lambda m, a: a.tocsr()[2],
    "one column": lambda m, a: a.tocsr()[:, 2],
    "one element": lambda m, a: a.tocsr()[2, 0],
    "an element that is not stored": lambda m, a: a.tocsr()[4, 0],
    "elements": lambda m, a: a.tocsr()[[0, 2, 4], [2, 0, 0]],
    "a mask of rows": lambda m, a: a.tocsr()[np.array([True, False, True, True, False])],
    "diagonal": lambda m, a: a.diagonal(),
    "diagonal above": lambda m, a: a.diagonal(k=2),
    "diagonal below": lambda m, a: a.diagonal(k=-1),
    "trace": lambda m, a: a.trace(),
    "reshape": lambda m, a: a.reshape((2, 10)),
    "number": lambda m, a: a * 2.5,
    "number from the left": lambda m, a: 2.5 * a,
    "quotient": lambda m, a: a / 4.0,
    "negative": lambda m, a: -a,
    "absolute": lambda m, a: abs(a),
    "power": lambda m, a: a.power(3),
    "sine": lambda m, a: a.sin(),
    "square root": lambda m, a: a.sqrt(),
    "element by element": lambda m, a: a.multiply(OTHER),
    "by a dense array": lambda m, a: a.multiply(X.T[:1] + 2.0),
    "sum": lambda m, a: a + OTHER,
    "sum from the left": lambda m, a: (a - 3 * OTHER) + a,
    "difference with a dense array": lambda m, a: a - np.ones((5, 4)),
    "side by side": lambda m, a: m.hstack([a, OTHER]),
    "on top of each other": lambda m, a: m.vstack([OTHER, a, a]),
    "blocks": lambda m, a: m.block_array([[a, None], [None, a.T]]),
    "block diagonal": lambda m, a: m.block_diag([a, OTHER]),
    "kronecker": lambda m, a: m.kron(a, INNER),
    "lower triangle": lambda m, a: m.tril(a, -1),
    "upper triangle": lambda m, a: m.triu(a),
}
RNG_VECTOR = RNG.normal(size=5)


@pytest.mark.parametrize("format", FORMATS)
@pytest.mark.parametrize("name", CALLS)
def test_values_are_scipys_and_gradients_those_of_differences(name, format):
    call = CALLS[name]

    def number(library, data):
        value = call(library, made(library, data, format))
        weights = np.cos(np.arange(dense(value).size, dtype=float)).reshape(dense(value).shape)
        value = value.toarray() if hasattr(value, "toarray") else value
        return (value * (rg.tensor(weights) if library is ours else weights)).sum()

    expected = call(theirs, made(theirs, DATA, format))
    got = call(ours, made(ours, rg.tensor(DATA), format))
    assert tuple(got.shape) == tuple(np.shape(expected))
    np.testing.assert_allclose(dense(got), dense(expected), rtol=1e-12, atol=1e-15)
    gradient = grad(lambda data: number(ours, data))(rg.tensor(DATA)).numpy()
    step = 1e-6 * np.sin(np.arange(8.0))
    slope = (number(theirs, DATA + step) - number(theirs, DATA - step)) / 2e-6
    assert gradient @ step * 1e6 == pytest.approx(slope, rel=1e-6, abs=1e-8)


def test_values_at_one_place_add_up_in_every_format():
    rows, columns, data = [1, 0, 1], [2, 1, 2], [1.0, 2.0, 4.0]
    for format in FORMATS:
        values = rg.tensor(data, requires_grad=True)
        a = getattr(ours, f"{format}_array")((values, (rows, columns)), shape=(2, 3))
        assert a.toarray().tolist() == [[0.0, 2.0, 0.0], [0.0, 0.0, 5.0]]
        a.power(2).sum().backward()
        assert values.grad.tolist() == [10.0, 4.0, 10.0]
    unsorted = ours.csr_array((rg.tensor([1.0, 2.0, 4.0]), [2, 0, 2], [0, 3]))
    assert unsorted.sum_duplicates().indices.tolist() == [0, 2]
    assert unsorted[:, 1:].toarray().tolist() == [[0.0, 5.0]]


@pytest.mark.parametrize("format", FORMATS)
def test_arrays_of_scipy_are_taken_and_given_without_a_copy(format):
    a = theirs.random_array((6, 5), density=0.5, rng=RNG, format=format)
    b = getattr(ours, f"{format}_array")(a)
    c = b.to_scipy()
    names = ("row", "col") if format == "coo" else ("indices", "indptr")
    assert np.shares_memory(b.data.numpy(), a.data)
    assert np.shares_memory(c.data, a.data)
    for name in names:
        assert np.shares_memory(getattr(b, name), getattr(a, name))
        assert np.shares_memory(getattr(c, name), getattr(a, name))
    np.testing.assert_array_equal(c.toarray(), a.toarray())
    with pytest.raises(RuntimeError, match="detach"):
        made(ours, rg.tensor(DATA, requires_grad=True)).to_scipy()
    assert ours.issparse(b) and ours.issparse(a) and not ours.issparse(DATA)


def test_conversions_to_and_from_pytorchs_sparse_tensors():
    values = rg.tensor(DATA, requires_grad=True)
    a = made(ours, values)
    csr = a.to_sparse_csr()
    assert csr.crow_indices().tolist() == a.indptr.tolist()
    again = ours.csc_array(csr)
    (again.toarray() * a.to_sparse_coo().to_dense()).sum().backward()
    np.testing.assert_allclose(values.grad.numpy(), 2 * DATA)
    np.testing.assert_array_equal(ours.csr_array(rg.tensor(dense(a))).toarray().numpy(), dense(a))
    assert ours.csr_array((3, 2)).toarray().tolist() == [[0.0, 0.0]] * 3


@pytest.mark.slow
def test_second_order_forward_mode_and_vmap():
    def loss(data, x):
        a = made(ours, data, "csc")
        return ((a @ x) ** 2).sum() + ((a.T @ a).toarray() ** 3).sum() + a.tocsr()[1:3].sum(1).sin().sum()

    data, x = rg.tensor(DATA, requires_grad=True), rg.tensor(X, requires_grad=True)
    assert rg.autograd.gradcheck(loss, (data, x), check_forward_ad=True)
    assert rg.autograd.gradgradcheck(loss, (data, x))
    several, xs = rg.tensor(np.stack([DATA, DATA * 1.5, DATA + 1])), rg.tensor(np.stack([X, X + 1, -X]))
    for dims, arguments in (((0, None), (several, x)), ((None, 0), (data, xs)), ((0, 0), (several, xs))):
        got = vmap(grad(loss, (0, 1)), dims)(*arguments)
        for i in range(3):
            chosen = [value[i] if dim == 0 else value for value, dim in zip(arguments, dims, strict=True)]
            for part, expected in zip(got, grad(loss, (0, 1))(*chosen), strict=True):
                np.testing.assert_allclose(part[i].detach().numpy(), expected.detach().numpy(), rtol=1e-10)


def test_the_products_of_large_matrices_are_scipys_own_loops():
    a = theirs.random_array((300, 200), density=0.05, rng=RNG, format="csr")
    b, x = ours.csr_array(a), RNG.normal(size=(200, 2))
    for array, reference in ((b, a), (b.tocsc(), a), (b.tocoo(), a)):
        np.testing.assert_allclose((array @ x).numpy(), reference @ x, rtol=1e-12)
        np.testing.assert_allclose((array.T @ (reference @ x)).numpy(), reference.T @ (reference @ x), rtol=1e-10)
    data = b.data.requires_grad_()
    ((b @ rg.tensor(x)) ** 2).sum().backward()
    rows, columns = a.tocoo().coords
    np.testing.assert_allclose(data.grad.numpy(), (2 * (a @ x)[rows] * x[columns]).sum(1), rtol=1e-10)


def test_a_matrix_multiplies_by_its_star_and_an_array_element_by_element():
    matrix, array = made(ours, rg.tensor(DATA), kind="matrix"), made(ours, rg.tensor(DATA))
    np.testing.assert_allclose((matrix * X[:, 0]).numpy(), dense(matrix) @ X[:, 0])
    np.testing.assert_allclose(dense(array * array), dense(array) ** 2)
    assert matrix.sum(0).shape == (1, 4)
    assert matrix.tocsr()[1].shape == (1, 4)
    assert isinstance(matrix.T, ours.csc_matrix)
    assert "csr_array of shape (5, 4) with 8 values of float64" in repr(array)


BAD = {
    "an index beyond": (lambda: ours.csr_array((DATA, (ROWS, COLUMNS)), shape=(5, 3)), r"col must lie in \[0, 3\)"),
    "a negative index": (lambda: ours.coo_array(([1.0], ([-1], [0]))), "row must lie in"),
    "indices of floats": (lambda: ours.csr_array(([1.0], [0.5], [0, 1])), "vector of integers"),
    "starts that descend": (lambda: ours.csr_array(([1.0, 2.0], [0, 1], [0, 2, 1, 2])), "ascend from 0 to 2"),
    "starts that end early": (lambda: ours.csr_array(([1.0, 2.0], [0, 1], [0, 1]), shape=(1, 2)), "ascend from 0 to 2"),
    "too few starts": (lambda: ours.csr_array(([1.0], [0], [0, 1]), shape=(2, 2)), "3 numbers"),
    "lengths that differ": (lambda: ours.csr_array(([1.0, 2.0], [0], [0, 1])), "one length"),
    "another length of coordinates": (lambda: ours.coo_array(([1.0, 2.0], ([0], [0]))), "one length"),
    "another shape": (lambda: ours.csr_array(np.eye(2), shape=(3, 3)), r"\(2, 2\).*\(3, 3\)"),
    "three dimensions": (lambda: ours.csr_array(np.ones((2, 2, 2))), "two dimensions"),
    "a product that does not fit": (lambda: made(ours, DATA) @ np.ones(5), "cannot be multiplied"),
    "a sparse product that does not fit": (lambda: made(ours, DATA) @ OTHER, "expected . rows for"),
    "a sum of other shapes": (lambda: made(ours, DATA) + INNER, "inconsistent shapes"),
    "another format": (lambda: made(ours, DATA).asformat("bsr"), "'bsr'"),
    "an axis": (lambda: made(ours, DATA).sum(axis=2), "axis"),
}


@pytest.mark.parametrize("name", BAD)
def test_arguments_that_do_not_fit_are_refused(name):
    call, message = BAD[name]
    with pytest.raises(ValueError, match=message):
        call()


def test_what_would_be_dense_is_refused_with_advice():
    a = made(ours, DATA)
    with pytest.raises(NotImplementedError, match="toarray"):
        a + 1
    with pytest.raises(NotImplementedError, match="positive"):
        a.power(-1)
    with pytest.raises(TypeError, match="toarray"):
        a / a
    with pytest.raises(TypeError, match="ambiguous"):
        len(a)
