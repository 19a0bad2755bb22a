"""Families against SciPy's, where it has them: another reference than PyTorch, and one for what PyTorch lacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from scipy import integrate, stats

import retrograd as rg
from retrograd.distributions import LKJCholesky, LowRankMultivariateNormal, MultivariateNormal, Wishart
from tests.distributions.families import COVARIANCE, FACTOR, LOC, NUMBERS, SCALE, Example

KNOWN = [example for example in NUMBERS if example.scipy is not None]


def implemented(function: Any) -> Any:
    try:
        return function()
    except NotImplementedError:
        pytest.skip("the family has none, as in PyTorch")


@pytest.mark.parametrize("example", KNOWN, ids=str)
def test_log_prob_is_that_of_scipy(example: Example):
    values = example.values()
    expected = example.scipy.logpmf(values) if example.is_discrete else example.scipy.logpdf(values)
    np.testing.assert_allclose(example.make()[0].log_prob(rg.tensor(values)).numpy(), expected, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("example", KNOWN, ids=str)
def test_cdf_is_that_of_scipy(example: Example):
    values = example.values()
    cdf = implemented(lambda: example.make()[0].cdf(rg.tensor(values)))
    np.testing.assert_allclose(cdf.numpy(), example.scipy.cdf(values), rtol=1e-9, atol=1e-14)


@pytest.mark.parametrize("example", KNOWN, ids=str)
def test_icdf_is_that_of_scipy(example: Example):
    levels = np.array([[1e-9, 1e-3, 0.02], [0.3, 0.5, 0.7], [0.98, 0.999, 1 - 1e-9]])
    icdf = implemented(lambda: example.make()[0].icdf(rg.tensor(levels)))
    np.testing.assert_allclose(icdf.numpy(), example.scipy.ppf(levels), rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("example", KNOWN, ids=str)
@pytest.mark.parametrize(("ours", "theirs"), [("mean", "mean"), ("variance", "var"), ("entropy", "entropy")])
def test_moments_and_entropy_are_those_of_scipy(example: Example, ours: str, theirs: str):
    if example.family == "VonMises" and ours == "variance":
        pytest.skip("ours is circular, as PyTorch's")
    value = implemented(lambda: getattr(example.make()[0], ours))
    value = implemented(value) if callable(value) else value
    with np.errstate(all="ignore"):
        expected = np.broadcast_to(getattr(example.scipy, theirs)(), value.shape)
    # SciPy says infinity for moments that PyTorch says do not exist, or the other way round.
    both = np.isfinite(expected) & np.isfinite(value.numpy())
    assert (np.isfinite(expected) == np.isfinite(value.numpy())).all()
    np.testing.assert_allclose(value.numpy()[both], expected[both], rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize("example", NUMBERS, ids=str)
def test_densities_integrate_to_one(example: Example):
    distribution = example.make()[0]
    distribution._validate_args = False
    if example.is_discrete:
        if distribution.has_enumerate_support:
            values = distribution.enumerate_support()
        else:
            values = rg.arange(4000, dtype=rg.float64).unsqueeze(-1)
        np.testing.assert_allclose(distribution.log_prob(values).exp().sum(0).numpy(), 1, rtol=1e-9)
        return
    for index in range(3):

        def density(x: float, index: int = index) -> float:
            return float(distribution.log_prob(rg.full((3,), x, dtype=rg.float64))[index].exp())

        support = distribution.support
        low, high = getattr(support, "lower_bound", -np.inf), getattr(support, "upper_bound", np.inf)
        low, high = (float(b[index]) if isinstance(b, rg.Tensor) else float(b) for b in (low, high))
        if example.family == "VonMises":
            low, high = -np.pi, np.pi
        median = float(np.median(distribution.sample((101,))[:, index].numpy()))
        below, above = (integrate.quad(density, *ends, limit=200)[0] for ends in ((low, median), (median, high)))
        assert below + above == pytest.approx(1, rel=1e-5)
        try:
            cdf = distribution.cdf(rg.full((3,), median, dtype=rg.float64))[index].item()
        except NotImplementedError:
            continue
        assert cdf == pytest.approx(below, rel=1e-5, abs=1e-9)


def test_multivariate_normals_score_as_those_of_scipy():
    points = np.random.default_rng(0).normal(size=(5, 3))
    for parameter, matrix in (("covariance_matrix", COVARIANCE[0]), ("precision_matrix", np.linalg.inv(COVARIANCE[0]))):
        ours = MultivariateNormal(rg.tensor(LOC, dtype=rg.float64), **{parameter: rg.tensor(matrix)})
        theirs = stats.multivariate_normal(LOC, COVARIANCE[0])
        np.testing.assert_allclose(ours.log_prob(rg.tensor(points)).numpy(), theirs.logpdf(points), rtol=1e-9)
        np.testing.assert_allclose(ours.entropy().numpy(), theirs.entropy(), rtol=1e-9)
        np.testing.assert_allclose(ours.covariance_matrix.numpy(), COVARIANCE[0], rtol=1e-9)
        np.testing.assert_allclose(ours.precision_matrix.numpy(), np.linalg.inv(COVARIANCE[0]), rtol=1e-9)


def test_low_rank_normals_are_the_full_ones():
    loc, factor, diag = rg.tensor(LOC, dtype=rg.float64), rg.tensor(FACTOR), rg.tensor(SCALE, dtype=rg.float64)
    low = LowRankMultivariateNormal(loc, factor, diag)
    full = MultivariateNormal(loc, factor @ factor.mT + diag.diag_embed())
    points = rg.tensor(np.random.default_rng(0).normal(size=(5, 1, 3)))
    for name in ("covariance_matrix", "precision_matrix", "scale_tril", "variance", "mean"):
        np.testing.assert_allclose(getattr(low, name).numpy(), getattr(full, name).numpy(), rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(low.log_prob(points).numpy(), full.log_prob(points).numpy(), rtol=1e-9)
    np.testing.assert_allclose(low.entropy().numpy(), full.entropy().numpy(), rtol=1e-9)


def test_wishart_scores_as_that_of_scipy():
    ours = Wishart(rg.tensor(5.5, dtype=rg.float64), rg.tensor(COVARIANCE[0]))
    theirs = stats.wishart(5.5, COVARIANCE[0])
    samples = ours.sample((4,))
    np.testing.assert_allclose(ours.log_prob(samples).numpy(), [theirs.logpdf(x) for x in samples.numpy()], rtol=1e-9)
    np.testing.assert_allclose(ours.entropy().item(), theirs.entropy(), rtol=1e-9)
    np.testing.assert_allclose(ours.mean.numpy(), theirs.mean(), rtol=1e-9)
    np.testing.assert_allclose(ours.variance.numpy(), theirs.var(), rtol=1e-9)


def test_correlations_drawn_by_lkj_have_beta_marginals():
    """Each correlation r is 2 Beta(a, a) - 1 with a = concentration + (dim - 2) / 2 (Lewandowski and others, 2009)."""
    rg.manual_seed(0)
    for dim, concentration in ((2, 0.7), (4, 2.0)):
        factors = LKJCholesky(dim, concentration).expand((3000,)).sample().double()
        correlations = (factors @ factors.mT).numpy()
        shape = concentration + (dim - 2) / 2
        for i in range(dim):
            for j in range(i):
                assert stats.kstest((correlations[:, i, j] + 1) / 2, stats.beta(shape, shape).cdf).pvalue > 1e-3
