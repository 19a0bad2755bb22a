"""Inside vmap: operators that check or read values, random operators with arrays of parameters, and ``out=``."""

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.compat.modules import functions
from retrograd.core.mapping.batched import _on_examples
from retrograd.core.tensor.tensor import new_tensor
from retrograd.func import grad, vmap

RNG = np.random.default_rng(0)


def uniform(*shape):
    return rg.Tensor(RNG.random(shape))


def ascending(*shape):
    return rg.Tensor(np.sort(RNG.random(shape)))


READ_VALUES = {
    "binary_cross_entropy": (F.binary_cross_entropy, (uniform(3, 4), uniform(3, 4))),
    "gradient of binary_cross_entropy": (grad(F.binary_cross_entropy), (uniform(3, 4), uniform(3, 4))),
    "quantile": (rg.quantile, (uniform(3, 4), uniform(3))),
    "lstsq": (lambda a, b: rg.linalg.lstsq(a, b).solution, (uniform(3, 4, 2), uniform(3, 4, 1))),
    "searchsorted": (rg.searchsorted, (ascending(3, 5), uniform(3, 4))),
    "bucketize": (rg.bucketize, (uniform(3, 4), ascending(3, 5))),
    "isin": (lambda x, y: rg.isin(x, y), (rg.arange(12).reshape(3, 4) % 5, rg.arange(6).reshape(3, 2))),
    "histc": (lambda x: rg.histc(x, 4, 0, 1), (uniform(3, 9),)),
    "histogram": (lambda x: rg.histogram(x, 4, range=(0.0, 1.0)), (uniform(3, 9),)),
    "histogram with weights": (
        lambda x, w: rg.histogram(x, 4, range=(0.0, 1.0), weight=w).hist,
        (uniform(3, 9), uniform(3, 9)),
    ),
    "polynomials of a degree each": (rg.special.hermite_polynomial_h, (uniform(3), rg.tensor([0, 2, 4]))),
    "index_reduce": (
        lambda x, i, s: rg.index_reduce(x, 0, i, s, "amax"),
        (uniform(3, 4), rg.tensor([[0, 0], [3, 1], [2, 2]]), uniform(3, 2)),
    ),
    "masked_scatter": (rg.masked_scatter, (uniform(3, 2, 4), uniform(3, 2, 4) > 0.5, uniform(3, 8))),
    "masked_scatter of a 0-d mask": (rg.masked_scatter, (uniform(3, 2), rg.tensor([True, False, True]), uniform(3, 2))),
    "repeat_interleave": (rg.repeat_interleave, (uniform(3, 3), rg.tensor([[1, 2, 1], [2, 2, 0], [0, 0, 4]]))),
    "nonzero_static": (lambda x: rg.nonzero_static(x, size=3), (rg.arange(12).reshape(3, 4) % 3,)),
    "argwhere": (rg.argwhere, (rg.tensor([[1, 0, 1], [0, 1, 1], [1, 1, 0]]),)),
    "lu": (rg.lu, (uniform(3, 4, 4),)),
    "linalg.lu": (rg.linalg.lu, (uniform(3, 4, 3),)),
    "lu_unpack": (lambda x: rg.lu_unpack(*rg.lu(x)), (uniform(3, 4, 4),)),
    "lu_solve": (lambda x, b: rg.lu_solve(b, *rg.lu(x)), (uniform(3, 4, 4), uniform(3, 4, 2))),
    "bincount": (lambda x: rg.bincount(x, minlength=5), (rg.arange(12).reshape(3, 4) % 5,)),
}


@pytest.mark.parametrize("name", READ_VALUES)
def test_operators_that_read_values_equal_a_loop_over_the_examples(name):
    function, inputs = READ_VALUES[name]
    mapped = vmap(function)(*inputs)
    wanted = [function(*[x[i] for x in inputs]) for i in range(3)]
    if not isinstance(mapped, tuple):
        mapped, wanted = (mapped,), [(x,) for x in wanted]
    for k, part in enumerate(mapped):
        np.testing.assert_allclose(part.numpy(), np.stack([x[k].numpy() for x in wanted]), rtol=1e-9)


def test_values_are_read_inside_two_mapped_functions():
    edges, points = ascending(2, 3, 5), uniform(2, 3, 4)
    out = vmap(vmap(rg.searchsorted))(edges, points)
    assert out.tolist() == [[rg.searchsorted(e, p).tolist() for e, p in zip(*pair)] for pair in zip(edges, points)]


def test_values_are_read_where_only_one_input_is_mapped():
    edges, points = ascending(5), uniform(3, 4)
    assert vmap(rg.bucketize, (0, None))(points, edges).tolist() == rg.bucketize(points, edges).tolist()
    assert vmap(rg.searchsorted, (None, 0))(edges, points[:0]).shape == (0, 4)


def test_a_probability_of_any_example_beyond_one_is_an_error():
    with pytest.raises(RuntimeError, match="between 0 and 1"):
        vmap(F.binary_cross_entropy)(rg.tensor([[0.5], [1.5]]), rg.ones(2, 1))


@pytest.mark.parametrize("place", ["both", "mean", "std"])
def test_normal_takes_means_and_deviations_that_differ_between_examples(place):
    mean = rg.tensor([[0.0] * 4000, [100.0] * 4000]) if place != "std" else 5.0
    std = rg.tensor([[1.0] * 4000, [3.0] * 4000]) if place != "mean" else 2.0
    dims = (None if place == "std" else 0, None if place == "mean" else 0)
    out = vmap(rg.normal, dims, randomness="different")(mean, std)
    assert out.shape == (2, 4000)
    np.testing.assert_allclose(out.mean(1).numpy(), [5, 5] if place == "std" else [0, 100], atol=0.3)
    np.testing.assert_allclose(out.std(1).numpy(), [2, 2] if place == "mean" else [1, 3], rtol=0.1)


def test_binomial_takes_counts_that_differ_between_examples():
    counts = rg.tensor([[10.0] * 4000, [100.0] * 4000])
    out = vmap(functions.binomial, (0, None), randomness="different")(counts, rg.full((4000,), 0.5))
    np.testing.assert_allclose(out.mean(1).numpy(), [5, 50], rtol=0.1)


def test_an_out_that_all_examples_share_is_not_resized_to_hold_them():
    shared = rg.ones(3)
    with pytest.raises(RuntimeError, match="not batched by vmap"):
        vmap(lambda x: rg.cat([x, x], out=shared))(rg.ones(2, 3))
    assert shared.tolist() == [1, 1, 1]


def test_numpy_takes_a_tensor_that_requires_grad_where_nothing_is_recorded():
    x = rg.ones(2, requires_grad=True)
    with rg.no_grad():
        assert x.numpy().tolist() == [1, 1]
    with pytest.raises(RuntimeError, match="requires grad"):
        x.numpy()


INTO_WHAT_IS_SHARED = {
    "diagonal_scatter": (rg.diagonal_scatter, uniform(4, 4), uniform(3, 4)),
    "as_strided_scatter": (lambda x, y: rg.as_strided_scatter(x, y, (2, 2), (1, 2)), uniform(4, 4), uniform(3, 2, 2)),
    "masked_scatter": (lambda x, m: rg.masked_scatter(x, m, -x), uniform(4, 4), uniform(3, 4, 4) > 0.5),
    "quantile": (rg.quantile, uniform(5), uniform(3, 2)),
    "nanquantile": (lambda x, q: rg.nanquantile(x, q, dim=0, keepdim=True), uniform(5, 2), uniform(3, 2)),
    "repeat_interleave": (
        lambda x, n: rg.repeat_interleave(x, n, 0),
        uniform(2, 3),
        rg.tensor([[1, 2], [3, 0], [0, 3]]),
    ),
    "index_reduce": (
        lambda x, i: rg.index_reduce(x, 1, i, x[:, :2], "prod"),
        uniform(2, 4),
        rg.tensor([[0, 0], [3, 1], [2, 2]]),
    ),
}


@pytest.mark.parametrize("name", INTO_WHAT_IS_SHARED)
def test_an_input_that_all_examples_share_meets_an_argument_of_each(name):
    function, shared, own = INTO_WHAT_IS_SHARED[name]
    mapped = vmap(function, (None, 0))(shared, own)
    np.testing.assert_allclose(mapped.numpy(), np.stack([function(shared, y).numpy() for y in own]), rtol=1e-9)
    gradients = vmap(grad(lambda x, y: (function(x, y) ** 2).sum()), (None, 0))(shared, own)
    wanted = [grad(lambda x, y: (function(x, y) ** 2).sum())(shared, y).numpy() for y in own]
    np.testing.assert_allclose(gradients.numpy(), np.stack(wanted), rtol=1e-9)


def test_results_whose_shape_depends_on_the_values_must_be_of_one_shape():
    with pytest.raises(RuntimeError, match="differ in shape"):
        vmap(rg.argwhere)(rg.tensor([[1, 0], [1, 1]]))
    with pytest.raises(RuntimeError, match="differ in shape"):
        vmap(rg.repeat_interleave)(rg.ones(2, 2), rg.tensor([[1, 0], [1, 1]]))
    with pytest.raises(RuntimeError, match="fewer elements"):
        vmap(lambda m: rg.masked_scatter(rg.zeros(2), m, rg.ones(1)))(rg.tensor([[True, False], [True, True]]))


def test_in_dims_is_a_tuple_that_has_the_containers_of_the_arguments():
    with pytest.raises(ValueError, match="in_dims"):
        vmap(rg.mul, [0, 0])(rg.ones(3), rg.ones(3))
    with pytest.raises(ValueError, match="in_dims"):
        vmap(lambda pair: pair[0] + pair[1], ((0, 0),))([rg.ones(3), rg.ones(3)])
    assert vmap(lambda pair: pair[0] + pair[1], ([0, 0],))([rg.ones(3), rg.ones(3)]).tolist() == [2, 2, 2]


def test_an_array_of_another_holder_is_not_taken_for_unshared():
    said = []

    def run(x):
        array = (x * 2).array
        said.append(array.unshared(1))
        holder = [array]
        said.append(array.unshared(1))
        return x + len(holder)

    vmap(run)(rg.ones(2, 3))
    assert said == [True, False]  # on Python 3.14, too, where a parameter borrows the caller's reference


def test_a_function_that_is_elementwise_runs_once_for_all_examples():
    shapes = []

    def isin(x, y):
        shapes.append(x.shape)
        return np.isin(x, y)

    found = vmap(lambda x: new_tensor(_on_examples(isin, (x.array, np.arange(2)), {})))(rg.arange(3))
    assert found.tolist() == [True, True, False]
    assert shapes == [(3,)]
