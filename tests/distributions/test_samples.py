"""Samples: their distribution, moments, shapes, dtypes, and that a seed repeats them."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import retrograd as rg
from retrograd import distributions
from retrograd.distributions import Categorical, Independent, MixtureSameFamily, Normal, TransformedDistribution
from tests.distributions.families import EXAMPLES, NUMBERS, Example

# For VonMises SciPy's distribution function is that of angles which are not wrapped.
CONTINUOUS = [e for e in NUMBERS if not e.is_discrete and e.scipy is not None and e.family != "VonMises"]
COUNTS = [e for e in NUMBERS if e.is_discrete and e.scipy is not None]


def many(example: Example, count: int = 4000, dtype: str = "float64") -> np.ndarray:
    rg.manual_seed(11)
    return example.make(dtype=dtype)[0].sample((count,)).numpy()


@pytest.mark.parametrize("example", CONTINUOUS, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_samples_follow_the_distribution(example: Example, dtype: str):
    samples = many(example, dtype=dtype).astype(float)
    for column in range(samples.shape[1]):
        expected = type(example.scipy)(
            example.scipy.dist,
            *[np.broadcast_to(a, samples.shape[1])[column] for a in example.scipy.args],
            **{key: np.broadcast_to(a, samples.shape[1])[column] for key, a in example.scipy.kwds.items()},
        )
        assert stats.kstest(samples[:, column], expected.cdf).pvalue > 1e-4


@pytest.mark.parametrize("example", COUNTS, ids=str)
def test_counts_follow_the_distribution(example: Example):
    samples = many(example)
    values = np.arange(samples.max() + 1)[:, None]
    observed = (samples[None] == values[:, None]).mean(1)
    expected = example.scipy.pmf(values)
    spread = np.sqrt(expected * (1 - expected) / len(samples))
    assert (np.abs(observed - expected) <= 5 * spread + 2 / len(samples)).all()


WITH_MOMENTS = [e for e in EXAMPLES if e.family not in ("Cauchy", "HalfCauchy", "VonMises", "Categorical")]


@pytest.mark.parametrize("example", WITH_MOMENTS, ids=str)
def test_samples_have_mean_and_variance(example: Example):
    distribution = example.make()[0]
    try:
        mean, variance = distribution.mean.numpy(), distribution.variance.numpy()
    except NotImplementedError:
        pytest.skip("the family gives none, as in PyTorch")
    samples = many(example, 20_000)
    finite = np.isfinite(variance) & (variance < 1e3)
    error = np.abs(samples.mean(0) - mean)
    # Of a fourth moment we know nothing: heavy tails are left to the test of the distribution.
    assert (error <= 6 * np.sqrt(variance / len(samples)))[finite].all()
    light = stats.kurtosis(samples.reshape(len(samples), -1), axis=0).reshape(variance.shape) < 20
    np.testing.assert_allclose(samples.var(0)[finite & light], variance[finite & light], rtol=0.2, atol=1e-12)


def test_angles_follow_the_von_mises_distribution():
    rg.manual_seed(0)
    angles = distributions.VonMises(0.0, 2.0).sample((5000,)).double().numpy()
    assert stats.kstest(angles, stats.vonmises(2.0).cdf).pvalue > 1e-3


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_samples_lie_in_the_support_and_have_the_shape(example: Example):
    distribution = example.make()[0]
    for shape in ((), (1,), (2, 0), (3, 2)):
        sample = distribution.sample(shape)
        assert sample.shape == (*shape, *distribution.batch_shape, *distribution.event_shape)
        assert bool(distribution.support.check(sample).all())
        assert not sample.requires_grad


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_samples_keep_the_dtype(example: Example, dtype: str):
    sample = example.make(dtype=dtype)[0].sample((2,))
    assert sample.dtype == ("int64" if example.family == "Categorical" else dtype)


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_a_seed_repeats_the_samples(example: Example):
    rg.manual_seed(5)
    first = example.make()[0].sample((3,)).numpy()
    rg.manual_seed(5)
    np.testing.assert_array_equal(example.make()[0].sample((3,)).numpy(), first)
    if first.dtype != np.int64 and not example.is_discrete:
        assert (example.make()[0].sample((3,)).numpy() != first).any()


def test_small_concentrations_give_samples_in_the_simplex():
    rg.manual_seed(0)
    samples = distributions.Dirichlet(rg.full((4,), 1e-4)).sample((500,))
    assert bool(distributions.constraints.simplex.check(samples).all())
    assert bool((distributions.Gamma(rg.tensor(1e-4), 1.0).sample((500,)) > 0).all())


def test_mixtures_draw_from_their_components():
    rg.manual_seed(0)
    weights = Categorical(rg.tensor([0.25, 0.75]))
    mixture = MixtureSameFamily(weights, Normal(rg.tensor([-3.0, 2.0], dtype=rg.float64), rg.tensor([0.5, 1.0])))
    samples = mixture.sample((4000,)).numpy()

    def cdf(x: np.ndarray) -> np.ndarray:
        return 0.25 * stats.norm(-3, 0.5).cdf(x) + 0.75 * stats.norm(2, 1).cdf(x)

    assert stats.kstest(samples, cdf).pvalue > 1e-3
    np.testing.assert_allclose(mixture.cdf(rg.tensor([0.0, 2.5])).numpy(), cdf(np.array([0.0, 2.5])), rtol=1e-6)


def test_mixtures_of_vectors_draw_whole_vectors():
    rg.manual_seed(0)
    loc = rg.tensor([[[-9.0, 9.0], [9.0, -9.0]]]).expand((3, 2, 2))
    mixture = MixtureSameFamily(Categorical(rg.ones(3, 2)), Independent(Normal(loc, 1.0), 1))
    samples = mixture.sample((500,))
    assert samples.shape == (500, 3, 2)
    assert bool((samples[..., 0] * samples[..., 1] < 0).all())


def test_transformed_samples_follow_the_transformed_distribution():
    rg.manual_seed(0)
    transforms = [distributions.AffineTransform(1.0, -2.0), distributions.SigmoidTransform()]
    distribution = TransformedDistribution(Normal(rg.tensor(0.0, dtype=rg.float64), 1.0), transforms)
    samples = distribution.sample((3000,))
    assert stats.kstest(samples.numpy(), lambda x: distribution.cdf(rg.tensor(x)).numpy()).pvalue > 1e-3
    levels = rg.tensor([0.1, 0.5, 0.8], dtype=rg.float64)
    np.testing.assert_allclose(distribution.cdf(distribution.icdf(levels)).numpy(), levels.numpy(), rtol=1e-6)
