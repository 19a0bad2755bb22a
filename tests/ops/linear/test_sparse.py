"""Sparse matrices in the programs that use them, against dense ones and PyTorch's."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import nn

EDGES = np.array([[0, 1, 1, 2, 3, 0], [1, 0, 2, 1, 0, 1]])
WEIGHTS = np.array([0.5, 1.0, -2.0, 3.0, 0.25, 4.0])


def matrix(**options):
    return rg.sparse_coo_tensor(EDGES, WEIGHTS, (4, 3), **options)


def as_dense():
    dense = np.zeros((4, 3))
    np.add.at(dense, tuple(EDGES), WEIGHTS)
    return dense


def test_products_from_either_side_are_those_of_the_dense_matrix():
    a, x = matrix(), np.random.default_rng(0).standard_normal((3, 2))
    for product in (a @ rg.tensor(x), rg.sparse.mm(a, rg.tensor(x)), rg.spmm(a, rg.tensor(x)), a.mm(rg.tensor(x))):
        assert np.allclose(product.numpy(), as_dense() @ x)
    y = np.random.default_rng(1).standard_normal((2, 4))
    assert np.allclose((rg.tensor(y) @ a).numpy(), y @ as_dense())
    assert np.allclose((a.t() @ rg.tensor(y.T)).numpy(), as_dense().T @ y.T)
    assert np.allclose((a @ rg.tensor(x[:, 0])).numpy(), as_dense() @ x[:, 0])
    assert np.allclose(rg.sparse.addmm(rg.ones(4, 2), a, rg.tensor(x), beta=2).numpy(), 2 + as_dense() @ x)


def test_coalescing_adds_up_and_sorts():
    a = matrix()
    assert not a.is_coalesced() and a._nnz() == 6
    with pytest.raises(RuntimeError, match="coalesce"):
        a.values()
    b = a.coalesce()
    assert b.is_coalesced() and b._nnz() == 5
    assert b.indices().tolist() == [[0, 1, 1, 2, 3], [1, 0, 2, 1, 0]]
    assert b.values().tolist() == [4.5, 1.0, -2.0, 3.0, 0.25]
    assert np.array_equal(b.to_dense().numpy(), as_dense())
    assert a.is_sparse and not rg.ones(1).is_sparse
    assert a.shape == (4, 3) and a.size(0) == 4 and a.dtype == np.float64


def test_gradients_reach_values_and_dense_matrices_in_first_and_second_order():
    def loss(values, x):
        a = rg.sparse_coo_tensor(EDGES, values, (4, 3))
        return ((a @ x) ** 2).sum() + (a.coalesce() * 2 + a).to_dense().pow(3).sum()

    values = rg.tensor(WEIGHTS, requires_grad=True)
    x = rg.tensor(np.random.default_rng(0).standard_normal((3, 2)), requires_grad=True)
    assert rg.autograd.gradcheck(loss, (values, x))
    assert rg.autograd.gradgradcheck(loss, (values, x))


def test_a_sparse_leaf_keeps_its_gradient():
    a = matrix(requires_grad=True)
    (a @ rg.ones(3, 2, dtype=rg.float64)).sum().backward()
    assert a.requires_grad and a.grad._values().tolist() == [2.0] * 6


def test_arithmetic_and_sums():
    a = matrix()
    assert np.allclose((a + a * 0.5 - a / 4).to_dense().numpy(), as_dense() * 1.25)
    assert np.allclose((-a).to_dense().numpy(), -as_dense())
    assert a.sum().item() == pytest.approx(as_dense().sum())
    assert np.allclose(rg.sparse.sum(a, 0).to_dense().numpy(), as_dense().sum(0))
    assert np.allclose(rg.tensor(as_dense()).to_sparse().to_dense().numpy(), as_dense())
    assert a.float().dtype == np.float32


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda: matrix() @ rg.ones(4, 2, dtype=rg.float64), "cannot be multiplied"),
        (lambda: matrix() @ rg.ones(3, 2), "one dtype"),
        (lambda: rg.sparse_coo_tensor([[0, 4], [0, 0]], [1.0, 2.0], (4, 3)), "outside of dimension 0"),
        (lambda: rg.sparse_coo_tensor([[0, -1], [0, 0]], [1.0, 2.0], (4, 3)), "outside of dimension 0"),
        (lambda: rg.sparse_coo_tensor([[0, 1]], [1.0], (4,)), "nnz"),
        (lambda: rg.sparse_coo_tensor([[0.5]], [1.0], (4,)), "integers"),
        (lambda: matrix() + rg.sparse_coo_tensor([[0]], [1.0], (4,)), "shapes"),
    ],
)
def test_what_does_not_fit_is_named(call, message):
    with pytest.raises(RuntimeError, match=message):
        call()


def test_a_sparse_and_a_dense_matrix_are_not_added_by_accident():
    with pytest.raises(RuntimeError, match="dense"):
        matrix() + rg.ones(4, 3, dtype=rg.float64)
    total = rg.ones(4, 3, dtype=rg.float64) + matrix()
    assert total.tolist() == (matrix().to_dense() + 1).tolist()


def test_a_graph_convolution_trains_as_with_the_dense_matrix():
    rng = np.random.default_rng(0)
    at = np.unique(rng.integers(0, 20, (2, 60)), axis=1)
    weights, x = rng.random(at.shape[1]).astype(np.float32), rg.tensor(rng.standard_normal((20, 5)).astype(np.float32))
    a = rg.sparse_coo_tensor(at, weights, (20, 20))
    target = rg.tensor(rng.integers(0, 3, 20))
    losses = []
    for adjacency in (a, a.to_dense()):
        rg.manual_seed(0)
        first, second = nn.Linear(5, 8), nn.Linear(8, 3)
        optimizer = rg.optim.Adam([*first.parameters(), *second.parameters()], lr=0.1)
        for _ in range(20):
            optimizer.zero_grad()
            loss = F.cross_entropy(rg.spmm(adjacency, second(rg.spmm(adjacency, first(x)).relu())), target)
            loss.backward()
            optimizer.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-3)


def test_empty_ones():
    a = rg.sparse_coo_tensor(np.zeros((2, 0), np.int64), np.zeros(0), (3, 4))
    assert not (a @ rg.ones(4, 2, dtype=rg.float64)).any()
    assert a.coalesce().to_dense().shape == (3, 4)


def test_the_gradient_of_a_sparse_leaf_is_set_and_forgotten():
    a = rg.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (2, 2)).requires_grad_()
    (a @ rg.ones(2, 1)).sum().backward()
    gradient = a.grad
    a.grad = None
    assert a.grad is None
    a.grad = gradient
    (a @ rg.ones(2, 1)).sum().backward()
    assert rg.equal(a.grad.to_dense(), rg.tensor([[0.0, 2.0], [2.0, 0.0]]))
    elsewhere = rg.sparse_coo_tensor([[0, 1], [0, 1]], [1.0, 2.0], (2, 2))
    for wrong in (rg.ones(2, 2), elsewhere, rg.sparse_coo_tensor([[0, 1], [1, 0]], [1.0, 2.0], (3, 2))):
        with pytest.raises(RuntimeError, match="grad: expected"):
            a.grad = wrong


def test_the_error_of_a_wrong_sparse_dim_names_the_valid_ones():
    with pytest.raises(RuntimeError, match="expected 1 <= sparse_dim <= 2, the number of dimensions, got 3"):
        rg.eye(2).to_sparse(3)
    with pytest.raises(RuntimeError, match="expected a Tensor with dimensions, got float32"):
        rg.tensor(1.0).to_sparse()
