"""vmap of what reads, writes and encodes positions that are numbers of their own for each example."""

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.func import grad, vmap

torch = pytest.importorskip("torch")

AT_A_POSITION = {
    "alone": lambda L, x, i: x[i],
    "behind an ellipsis": lambda L, x, i: x[..., i],
    "beside a number": lambda L, x, i: x[0, i],
    "before a slice": lambda L, x, i: x[i, :2],
    "apart from a number": lambda L, x, i: x.reshape(4, 3, 1)[i, :, 0],
    "with a new dimension": lambda L, x, i: x[None, i],
    "twice": lambda L, x, i: x[i, i],
    "beside positions": lambda L, x, i: x[L.tensor([0, 3]), i],
    "of a Tensor shared by all": lambda L, x, i: x.sum() * L.arange(5.0)[i],
}


@pytest.mark.parametrize("where", AT_A_POSITION)
def test_each_example_reads_and_has_its_gradient_at_a_position_of_its_own(where):
    def f(x, i):
        return AT_A_POSITION[where](rg, x, i)

    x, positions = np.arange(24.0).reshape(2, 4, 3) ** 2, np.array([2, -1])
    values = vmap(f)(rg.Tensor(x), rg.Tensor(positions))
    gradients = vmap(grad(lambda x, i: (f(x, i) ** 2).sum()))(rg.Tensor(x), rg.Tensor(positions))
    for value, gradient, example, position in zip(values, gradients, x, positions.tolist(), strict=True):
        leaf = torch.tensor(example, requires_grad=True)
        wanted = AT_A_POSITION[where](torch, leaf, position)
        (wanted**2).sum().backward()
        np.testing.assert_allclose(value.numpy(), wanted.detach().numpy())
        np.testing.assert_allclose(gradient.numpy(), leaf.grad.numpy())


def test_each_example_writes_at_a_position_of_its_own():
    def write(x, i):
        x = x.clone()
        x[i] = x[i] * 10
        return x

    x = rg.arange(6.0).reshape(2, 3)
    assert vmap(write)(x, rg.tensor([0, -1])).tolist() == [[0, 1, 2], [3, 4, 50]]
    assert vmap(vmap(write))(x[:, None], rg.tensor([[1], [2]])).tolist() == [[[0, 10, 2]], [[3, 4, 50]]]


def test_a_position_written_over_after_it_was_read_at_leaves_the_gradient_alone():
    def f(x, i):
        y = x[i] ** 2
        i += 1
        return y

    assert vmap(grad(f))(rg.ones(2, 3), rg.tensor([0, 1])).tolist() == [[2, 0, 0], [0, 2, 0]]


def test_classes_are_encoded_for_each_example():
    numbers = rg.tensor([[0, 2], [1, 1]])
    assert vmap(lambda i: F.one_hot(i, 3))(numbers).tolist() == F.one_hot(numbers, 3).tolist()
    with pytest.raises(RuntimeError, match="class values must be smaller than num_classes = 2, got 2"):
        vmap(lambda i: F.one_hot(i, 2))(numbers)
    with pytest.raises(RuntimeError, match="one_hot.*vmap: .*another number for each"):
        vmap(F.one_hot)(numbers)


@pytest.mark.parametrize(("bare", "advice"), [(np.asarray, "np.stack"), (lambda x: np.array([x, x]), "np.stack")])
def test_numpy_arrays_of_an_example_are_refused_with_what_to_write_instead(bare, advice):
    with pytest.raises(RuntimeError, match=f"vmap: .*has no array for one of them.*{advice}"):
        vmap(bare)(rg.ones(3))


BESIDE_POSITIONS = {
    "a slice between": lambda x, i, j: x[i, :, j],
    "a slice before": lambda x, i, j: x[:, i, j],
    "None between": lambda x, i, j: x[i, None, j],
    "an ellipsis between": lambda x, i, j: x[i, ..., j],
    "a number between": lambda x, i, j: x[None, i, 0, j],
    "the integer behind": lambda x, i, j: x[:, j, :2, i],
}


@pytest.mark.filterwarnings("ignore:x.0, :UserWarning")
@pytest.mark.parametrize("where", BESIDE_POSITIONS)
@pytest.mark.parametrize("dims", [(None, 0, None), (0, 0, None), (None, 0, 0), (0, 0, 0)])
def test_an_integer_of_each_example_beside_positions_has_the_order_that_one_example_has(where, dims):
    x, i, j = np.arange(144.0).reshape(2, 2, 3, 4, 3), np.array([1, 0]), np.array([[0, 1, 1], [1, 0, 1]])
    arguments = [rg.tensor(a if dim == 0 else a[0]) for a, dim in zip((x, i, j), dims, strict=True)]

    def write(x, i, j):
        out = x.clone()
        out[i, :, j] = BESIDE_POSITIONS["a slice between"](x, i, j) + 1
        return out

    for function in (BESIDE_POSITIONS[where], write):
        if function is write and dims[0] is None:
            continue
        mapped = vmap(function, dims)(*arguments)
        for k in range(2):
            example = [a[k] if dim == 0 else a for a, dim in zip(arguments, dims, strict=True)]
            assert mapped[k].tolist() == function(*example).tolist()


# Calls of operators that read values of an argument that vmap maps, for checks, counts or factors.
READING_VALUES = {
    "index_put under a mask": (lambda L, m: L.ones(3).index_put((m,), L.tensor(2.0), True), [[True, False, True]] * 2),
    "segment_reduce": (lambda L, n: L.segment_reduce(L.arange(4.0), "max", lengths=n), [[1, 3], [2, 2]]),
    "istft": (lambda L, w: L.istft(L.ones(3, 5) + 0j, 4, 2, window=w), [[1.0, 2.0, 3.0, 1.0], [1.0] * 4]),
    "unravel_index": (lambda L, i: L.stack(L.unravel_index(i, (2, 3))), [[1, 5], [0, 3]]),
    "geqrf": (lambda L, x: L.geqrf(x)[0], [[[3.0, 1.0], [4.0, 2.0]], [[1.0, 1.0], [0.0, 2.0]]]),
    "embedding with max_norm": (
        lambda L, w: L.nn.functional.embedding(L.tensor([0, 0]), w.clone(), max_norm=1.0),
        [[[3.0, 4.0], [6.0, 8.0]], [[0.3, 0.4], [6.0, 8.0]]],
    ),
}


@pytest.mark.parametrize("name", READING_VALUES)
def test_operators_that_read_values_answer_under_vmap_as_pytorch_does_for_each_example(name):
    call, data = READING_VALUES[name]
    got = vmap(lambda x: call(rg, x))(rg.tensor(data))
    wanted = torch.stack([call(torch, x) for x in torch.tensor(data)])
    np.testing.assert_allclose(got.numpy(), wanted.numpy(), rtol=1e-6)


def test_histograms_and_ldl_factors_of_each_example_are_those_of_separate_calls():
    x = rg.arange(16.0).reshape(2, 4, 2) ** 2
    edges = rg.tensor([[0.0, 50.0, 250.0], [0.0, 150.0, 250.0]])
    hist = vmap(lambda x, e: rg.histogramdd(x, [e, e]).hist)(x, edges)
    a = rg.tensor([[[2.0, 1.0], [1.0, 3.0]], [[1.0, 4.0], [4.0, 2.0]]])
    solved = vmap(lambda a, b: rg.linalg.ldl_solve(*rg.linalg.ldl_factor(a), b))(a, x[:, :2])
    for i in range(2):
        assert rg.equal(hist[i], rg.histogramdd(x[i], [edges[i], edges[i]]).hist)
        assert rg.allclose(a[i] @ solved[i], x[i, :2], atol=1e-4)
