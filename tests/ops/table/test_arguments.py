"""Arguments by each of the names that PyTorch and NumPy have for them, and calls that the cases do not draw."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from inspect import signature
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops.table.registry import OPERATORS

MATRIX = [[4.0, 1.0], [1.0, 3.0]]
VECTOR = [[1.0], [2.0]]


@pytest.mark.parametrize(
    "call",
    [
        lambda m, a, b: m.flip(a, dims=(0, 1)),
        lambda m, a, b: a.flip(dims=[1]),
        lambda m, a, b: m.roll(a, shifts=1, dims=0),
        lambda m, a, b: a.roll(1, dims=(1,)),
        lambda m, a, b: m.tile(a, dims=(2, 1)),
        lambda m, a, b: a.tile(dims=(3,)),
        lambda m, a, b: a.repeat(repeats=(1, 2)),
        lambda m, a, b: a.sum_to_size(size=(1, 2)),
        lambda m, a, b: m.tensor_split(a, sections=2, dim=1)[0],
        lambda m, a, b: m.tensor_split(a, indices=(1,))[1],
        lambda m, a, b: m.hsplit(a, sections=2)[1],
        lambda m, a, b: m.vsplit(a, indices=[1])[0],
        lambda m, a, b: m.cholesky_solve(b, input2=a),
        lambda m, a, b: m.nn.functional.one_hot(input=m.tensor([1, 0]), num_classes=3),
        lambda m, a, b: m.linalg.norm(input=a),
        lambda m, a, b: m.linalg.vector_norm(input=a, ord=1, dim=0),
        lambda m, a, b: m.linalg.matrix_norm(input=a, ord="nuc"),
        lambda m, a, b: m.linalg.cond(input=a, p=1),
        lambda m, a, b: m.linalg.cholesky(input=a),
        lambda m, a, b: m.linalg.eigvalsh(input=a),
        lambda m, a, b: m.linalg.pinv(input=a),
        lambda m, a, b: m.linalg.matrix_power(input=a, n=2),
        lambda m, a, b: m.linalg.matrix_exp(input=a),
        lambda m, a, b: m.linalg.lstsq(a, b, driver="gelsd").singular_values,
        lambda m, a, b: m.linalg.lstsq(a, b, driver="gels").rank,
        lambda m, a, b: m.linalg.svd(a, driver=None).S,
        lambda m, a, b: m.einsum(a, [0, 1], b, [1, 2]),
        lambda m, a, b: m.einsum(a, [0, 1], b, [1, 2], [2, 0]),
        lambda m, a, b: m.linalg.cond(a[:0]),
        lambda m, a, b: m.linalg.cond(m.stack([a, a * 0 + 1]), "fro"),
        lambda m, a, b: m.nn.functional.grid_sample(
            a[None, None], b[None, None].mT * 9, "bicubic", "border", align_corners=False
        ),
        lambda m, a, b: (a > 2).conj_physical(),
        lambda m, a, b: (a > 2).square(),
        lambda m, a, b: (a > 2) ** True,
    ],
)
def test_as_pytorch(call: Callable[..., Any]) -> None:
    torch = pytest.importorskip("torch")
    ours, theirs = (call(m, m.tensor(MATRIX, dtype=m.float64), m.tensor(VECTOR, dtype=m.float64)) for m in (rg, torch))
    assert ours.dtype.name == str(theirs.dtype).rpartition(".")[2]
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=1e-12)


@pytest.mark.parametrize(
    "index",
    [
        (0, slice(None), [0, 1]),
        ([0, 1], slice(None), 1),
        (slice(None), [0, 1], slice(1, 3), -1),
        (0, None, [0, 1]),
        (1, ..., [1, 0]),
        (np.array(1), slice(None), [1, 0]),
        (0, slice(None), [[0, 1], [2, 2]], slice(None)),
        (-1, slice(None), np.array([[True, False], [True, True], [False, True], [False, False]])),
    ],
)
@pytest.mark.filterwarnings("ignore:.*an integer beside positions:UserWarning")
def test_integers_select_before_positions_as_in_pytorch(index: Any) -> None:
    torch = pytest.importorskip("torch")
    array = np.random.default_rng(0).standard_normal((2, 3, 4, 2))
    x, theirs = rg.tensor(array, requires_grad=True), torch.tensor(array, requires_grad=True)
    y, expected = x[index], theirs[index]
    np.testing.assert_array_equal(y.detach().numpy(), expected.detach().numpy())
    weights = np.arange(float(y.numel())).reshape(y.shape)
    (y * rg.tensor(weights)).sum().backward()
    (expected * torch.tensor(weights)).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), theirs.grad.numpy())
    written, theirs = x.detach().clone(), theirs.detach().clone()
    written[index], theirs[index] = rg.arange(y.shape[-1]), torch.arange(y.shape[-1]).double()
    np.testing.assert_array_equal(written.numpy(), theirs.numpy())


def test_an_integer_beside_positions_warns_that_numpy_reads_it_otherwise() -> None:
    x = rg.arange(24).reshape(1, 2, 3, 4)
    with pytest.warns(UserWarning, match="an integer beside positions"):
        y = x[:, 0, :, [1, 2]]
    assert y.equal(x[:, 0][:, :, [1, 2]])
    assert x[:, 0, [1, 2]].shape == (1, 2, 4)  # nothing stands between: both read it alike


def test_numpys_names() -> None:
    x = rg.arange(6).reshape(2, 3)
    assert x.flip(axis=1).equal(x.flip(1))
    assert x.roll(1, axis=0).equal(x.roll(1, 0))
    with pytest.raises(TypeError, match="both dims and axis"):
        x.roll(1, dims=0, axis=0)


def test_the_bounds_of_randint_by_name() -> None:
    assert set(rg.randint(high=3, size=(200,)).tolist()) == {0, 1, 2}
    assert set(rg.randint(low=1, high=3, size=(200,)).tolist()) == {1, 2}
    generator = rg.Generator().manual_seed(0)
    first = rg.randint_like(rg.zeros(20), high=9, generator=generator)
    assert first.equal(rg.randint_like(rg.zeros(20), 9, generator=rg.Generator().manual_seed(0)))


@pytest.mark.parametrize("norm_type", [1.0, 2.0, 3.0, float("inf")])
def test_max_norm_of_every_norm(norm_type: float) -> None:
    weight = rg.tensor([[3.0, -4.0], [0.1, 0.2]], dtype=rg.float64)
    rg.nn.functional.embedding(rg.tensor([0, 1]), weight, max_norm=1.0, norm_type=norm_type)
    assert np.linalg.norm(weight.numpy()[0], norm_type) == pytest.approx(1.0, abs=1e-6)
    assert weight[1].tolist() == [0.1, 0.2]


SINGULAR = np.ones((2, 2))


@pytest.mark.parametrize(
    ("call", "kind"),
    [
        (lambda: rg.linalg.inv(rg.tensor(SINGULAR)), rg.linalg.LinAlgError),
        (lambda: rg.linalg.solve(rg.tensor(SINGULAR), rg.ones(2)), RuntimeError),
        (lambda: rg.linalg.cholesky(rg.tensor(-SINGULAR)), rg.linalg.LinAlgError),
        (lambda: rg.linalg.cond(rg.tensor(SINGULAR * np.nan)), rg.linalg.LinAlgError),
        (lambda: rg.linalg.lstsq(rg.ones(2, 2), rg.ones(2), driver="x"), RuntimeError),
        (lambda: rg.einsum(rg.ones(2), [52]), ValueError),
        (lambda: rg.einsum(rg.ones(2), rg.ones(2)), TypeError),
        (lambda: rg.add(rg.tensor([1]), rg.tensor([2]), alpha=0.5), RuntimeError),
        (lambda: rg.tensor([1]).sub_(rg.tensor([2]), alpha=0.5), RuntimeError),
        (lambda: rg.sign(rg.tensor([1j])), NotImplementedError),
        (lambda: rg.diagonal(rg.ones(3)), IndexError),
        (lambda: rg.norm(rg.ones(2, 2), "nuc", 1), RuntimeError),
        (
            lambda: rg.nn.functional.scaled_dot_product_attention(
                *[rg.ones(2, 2)] * 3, attn_mask=rg.ones(2, 2), is_causal=True
            ),
            RuntimeError,
        ),
    ],
)
def test_errors(call: Callable[..., Any], kind: type[Exception]) -> None:
    with pytest.raises(kind):
        call()


def test_operators_introduce_themselves() -> None:
    """help() shows the public name, and pickle finds the function where it stands."""
    assert (rg.sum.__name__, rg.nn.functional.softmax.__name__, rg.linalg.inv.__name__) == ("sum", "softmax", "inv")
    assert list(signature(rg.sum).parameters) == ["input", "dim", "keepdim", "dtype"]
    assert list(signature(rg.Tensor.scatter_).parameters)[1:4] == ["dim", "index", "src"]
    for entry in OPERATORS.values():
        if not entry.namespace:
            assert pickle.loads(pickle.dumps(getattr(rg, entry.name))) is getattr(rg, entry.name)


def test_an_element_is_found_in_a_tensor():
    x = rg.tensor([[1.0, 2.0], [3.0, 4.0]])
    assert 3.0 in x and 5.0 not in x and rg.tensor(2.0) in x
    with pytest.raises(RuntimeError, match="got str"):
        assert "a" in x


def test_a_pair_of_values_and_indices_says_what_it_is():
    pair = rg.tensor([[1.0, 2.0]]).max(axis=1)
    with pytest.raises(AttributeError, match=r"a pair of values and indices, take \.values\.sum"):
        pair.sum()
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'$"):
        pair.no_such_name
    assert pair.values.sum().item() == 2.0 and copy.copy(pair).indices is pair.indices


def test_a_layer_says_which_number_of_features_it_takes():
    layer = rg.nn.Linear(784, 10)
    with pytest.raises(RuntimeError, match=r"is 28, and weight takes 784, as input.flatten\(1\) has$"):
        layer(rg.ones(2, 1, 28, 28))
    with pytest.raises(RuntimeError, match="the last dimension of input is 3, and weight takes 784$"):
        layer(rg.ones(2, 3))
    with pytest.raises(RuntimeError, match=r"LSTM: expected a pair of states \(h, c\), got float32\(1, 3, 8\)"):
        rg.nn.LSTM(4, 8)(rg.ones(5, 3, 4), rg.zeros(1, 3, 8))
