"""Sparse Tensors in all layouts, their slices, and functions that keep zeros, against PyTorch's."""

import warnings

import numpy as np
import pytest

import retrograd as rg

torch = pytest.importorskip("torch")

DENSE = np.array([[0.0, 2.0, 0.0, -1.0], [0.0, 0.0, 0.0, 0.0], [0.5, 0.0, 3.0, 0.25]])


def sparse(library, layout):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        x = library.tensor(DENSE, requires_grad=True)
        return x, x.to_sparse(layout=getattr(library, f"sparse_{layout}"))


CALLS = {
    "transpose": lambda L, a: a.t(),
    "product": lambda L, a: a @ L.tensor(DENSE.T.copy()),
    "product of its own": lambda L, a: a @ a.t(),
    "sum": lambda L, a: a + a,
    "number": lambda L, a: a * 2.0,
    "negative": lambda L, a: -a,
    "sine": lambda L, a: L.sin(a),
    "rectifier": lambda L, a: L.relu(a),
    "absolute": lambda L, a: L.abs(a),
    "row": lambda L, a: a[0],
    "column": lambda L, a: a.select(1, -1),
    "with compressed rows": lambda L, a: a.to_sparse_csr(),
    "with compressed columns": lambda L, a: a.to_sparse_csc(),
    "with coordinates": lambda L, a: a.to_sparse_coo(),
    "all": lambda L, a: a.sum(),
}
OF_COORDINATES = {
    "element": lambda L, a: a[2, 3],
    "chosen columns": lambda L, a: L.index_select(a, 1, L.tensor([3, 0])),
    "chosen rows": lambda L, a: a.index_select(0, L.tensor([2, 1])),
    "dimensions in another order": lambda L, a: a.permute(1, 0),
    "a new dimension": lambda L, a: a.unsqueeze(1),
    "joined": lambda L, a: L.cat([a, a * 2], 1),
    "power": lambda L, a: a**3,
}
CASES = [(name, layout) for name in CALLS for layout in ("coo", "csr", "csc")]
CASES += [(name, "coo") for name in OF_COORDINATES]


@pytest.mark.parametrize(("name", "layout"), CASES)
def test_operators_on_every_layout_have_pytorchs_values_gradients_and_layouts(name, layout):
    call, found = {**CALLS, **OF_COORDINATES}[name], []
    for library in (rg, torch):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            x, a = sparse(library, layout)
            try:
                result = call(library, a)
            except (RuntimeError, NotImplementedError):
                assert library is torch  # which lacks it, where ours has a value
                return
            dense = result.to_dense() if str(result.layout) != "torch.strided" else result
            values, kind = dense.detach().numpy(), str(result.layout)
            gradient = None
            try:
                (dense * library.tensor(np.cos(np.arange(values.size)).reshape(values.shape))).sum().backward()
                gradient = x.grad.to_dense() if str(x.grad.layout) != "torch.strided" else x.grad
            except (RuntimeError, NotImplementedError):
                assert library is torch
            found.append((values, gradient, kind))
    (ours, g, kind), (theirs, h, wanted) = found
    np.testing.assert_allclose(ours, theirs, rtol=1e-6)
    assert kind == wanted
    if h is not None:
        np.testing.assert_allclose(g.numpy(), h.numpy() * (DENSE != 0), rtol=1e-6)


def test_slices_with_steps_masks_and_repeated_positions_are_those_of_the_dense_matrix():
    x = rg.tensor(DENSE, requires_grad=True)
    a = x.to_sparse()
    mask = np.array([True, False, True])
    for key in (np.s_[::2], np.s_[:, 1:3], np.s_[[2, 0, 2]], np.s_[-1, ::-1], np.s_[mask], np.s_[:, [-1, 0]]):
        np.testing.assert_array_equal(a[key].to_dense().detach().numpy(), DENSE[key])
    assert a.narrow(1, 1, 2).to_dense().tolist() == DENSE[:, 1:3].tolist()
    (a[[2, 0, 2]].to_dense() ** 2).sum().backward()
    np.testing.assert_allclose(x.grad.numpy(), 2 * DENSE * np.array([[1], [0], [2]]))


def test_methods_of_values_answer_and_sums_with_numbers_are_refused():
    a = rg.sparse_coo_tensor([[0, 0, 1]], [1.0, 2.0, 4.0], (3,))
    assert a.norm().item() == 5.0
    assert a.is_floating_point() and not a.is_complex()
    assert a.add(a, alpha=3).to_dense().tolist() == [12.0, 16.0, 0.0]
    assert a.sub(a, alpha=3).to_dense().tolist() == [-6.0, -8.0, 0.0]
    for layout in ("sparse_coo", "sparse_csr", "sparse_csc"):
        with pytest.raises(TypeError, match="unsupported operand"):
            rg.eye(2).to_sparse(layout=layout).add(2.0)


def test_compressed_columns_are_made_and_read_as_pytorchs():
    arguments = [0, 1, 1, 3], [2, 0, 2], [1.0, 2.0, 3.0], (3, 3)
    ours = rg.sparse_csc_tensor(*arguments)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch.sparse_csc_tensor(*(torch.tensor(x) for x in arguments[:3]), arguments[3])
    for name in ("ccol_indices", "row_indices", "values", "to_dense"):
        assert getattr(ours, name)().tolist() == getattr(theirs, name)().tolist()
    assert str(ours.layout) == str(theirs.layout)
    assert not ours.is_sparse
    assert "ccol_indices" in repr(ours)
    assert str(ours.t().layout) == "torch.sparse_csr"
    assert ours.t().crow_indices().tolist() == arguments[0]


@pytest.mark.parametrize(
    ("call", "kind", "message"),
    [
        (
            lambda: rg.sparse_csc_tensor([0, 2, 1], [0, 1], [1.0, 2.0]),
            RuntimeError,
            "expected ccol_indices to increase from 0 to the length of row_indices and values",
        ),
        (
            lambda: rg.sparse_csc_tensor([0, 1], [5], [1.0], (2, 1)),
            RuntimeError,
            "expected a size with 1 columns, by ccol_indices, and rows for all row_indices",
        ),
        (lambda: rg.sparse_csc_tensor([0.5, 1], [5], [1.0]), RuntimeError, "vector of integers"),
        (lambda: rg.ones(2).to_sparse_csc(), RuntimeError, "matrix"),
        (lambda: rg.ones(2, 2).to_sparse(layout="sparse_bsr"), RuntimeError, "layout"),
        (lambda: rg.eye(2).to_sparse()[2], IndexError, "out of range"),
        (lambda: rg.eye(2).to_sparse().index_select(0, rg.tensor([2])), IndexError, "out of range"),
        (lambda: rg.eye(2).to_sparse().narrow(0, 1, 2), RuntimeError, "narrow"),
        (lambda: rg.eye(2).to_sparse()[None], NotImplementedError, "integers, slices and vectors"),
        (lambda: rg.eye(2).to_sparse().permute(0, 0), RuntimeError, "permute"),
        (lambda: rg.eye(2).to_sparse() ** 0, RuntimeError, "positive"),
        (lambda: rg.cat([rg.eye(2).to_sparse(), rg.eye(3).to_sparse()]), RuntimeError, "cat"),
    ],
)
def test_what_does_not_fit_is_named(call, kind, message):
    with pytest.raises(kind, match=message):
        call()
