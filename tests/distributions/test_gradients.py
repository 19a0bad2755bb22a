"""Gradients of samples by their parameters, of log_prob, and of the implicitly reparameterized gamma samples."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import special

import retrograd as rg
from retrograd import distributions
from retrograd.autograd import gradcheck
from retrograd.distributions import Beta, Dirichlet, Gamma, Normal
from retrograd.distributions.sampling.draws import standard_gamma, standard_log_gamma
from retrograd.distributions.sampling.gamma_derivative import incomplete_gamma
from tests.distributions.families import REPARAMETERIZED, Example

SHAPES = [1e-3, 0.05, 0.3, 0.9, 1.0, 1.5, 3.0, 10.0, 80.0, 1e3, 1e5]


@pytest.mark.parametrize("shape", SHAPES)
def test_gamma_samples_move_along_the_quantiles(shape: float):
    """With the probability below it held, the sample is SciPy's quantile: its central difference is the gradient."""
    rg.manual_seed(0)
    a = rg.full((40,), shape, dtype=rg.float64, requires_grad=True)
    x = standard_gamma(a)
    x.sum().backward()
    samples, h = x.detach().numpy(), 1e-5 * shape
    upper = samples > shape  # SciPy's quantiles are as accurate as the smaller of the two probabilities

    def moved(to: float) -> np.ndarray:
        below = special.gammaincinv(to, special.gammainc(shape, samples))
        above = special.gammainccinv(to, special.gammaincc(shape, samples))
        return np.where(upper, above, below)

    differences = (moved(shape + h) - moved(shape - h)) / (2 * h)
    seen = samples > 1e-200
    assert seen.any() or shape < 0.01
    np.testing.assert_allclose(a.grad.numpy()[seen], differences[seen], rtol=2e-4, atol=1e-6)


def test_logarithms_of_gamma_samples_have_gradients_where_the_samples_are_zero():
    rg.manual_seed(0)
    a = rg.full((200,), 1e-3, dtype=rg.float64, requires_grad=True)
    log_x = standard_log_gamma(a)
    log_x.sum().backward()
    # Near 0, P = x^a / gamma(a + 1), so that d log(x) / da = (digamma(a + 1) - log(x)) / a.
    tiny = log_x.detach().numpy() < -40
    assert tiny.sum() > 100
    expected = (special.digamma(1.001) - log_x.detach().numpy()) / 1e-3
    np.testing.assert_allclose(a.grad.numpy()[tiny], expected[tiny], rtol=1e-9)


def test_the_incomplete_gamma_function_has_both_derivatives():
    a = rg.tensor([0.05, 0.7, 3.0, 40.0], dtype=rg.float64, requires_grad=True)
    x = rg.tensor([0.02, 1.5, 2.0, 45.0], dtype=rg.float64, requires_grad=True)
    assert gradcheck(incomplete_gamma, (a, x), eps=1e-6, atol=1e-6)


def test_gamma_samples_refuse_a_second_derivative():
    a = rg.tensor(2.0, requires_grad=True)
    (gradient,) = rg.autograd.grad(standard_gamma(a), a, create_graph=True)
    with pytest.raises(NotImplementedError, match="cannot be differentiated again"):
        gradient.backward()


MEANS_KNOWN = [
    example
    for example in REPARAMETERIZED
    if example.family
    in {
        "Normal", "Laplace", "Gumbel", "Uniform", "Exponential", "Gamma", "Chi2", "LogNormal", "HalfNormal", "Weibull",
        "Beta", "Kumaraswamy", "ContinuousBernoulli", "Dirichlet", "MultivariateNormal", "LowRankMultivariateNormal",
        "Wishart", "OneHotCategoricalStraightThrough",
    }
]  # fmt: skip


@pytest.mark.parametrize("example", MEANS_KNOWN, ids=str)
def test_gradients_of_mean_samples_are_those_of_the_mean(example: Example):
    rg.manual_seed(2)
    weights = rg.tensor(np.random.default_rng(1).normal(size=example.make()[0].mean.shape))
    blocks = []
    for _ in range(16):
        distribution, tensors = example.make(requires_grad=True)
        (distribution.rsample((800,)).mean(0) * weights).sum().backward()
        blocks.append([np.zeros(t.shape) if t.grad is None else t.grad.numpy() for t in tensors])
    distribution, tensors = example.make(requires_grad=True)
    (distribution.mean * weights).sum().backward()
    for index, tensor in enumerate(tensors):
        estimates = np.stack([block[index] for block in blocks])
        expected = np.zeros(tensor.shape) if tensor.grad is None else tensor.grad.numpy()
        if "covariance_matrix" in example.parameters and tensor.dim() > 1 and tensor.shape[-1] == tensor.shape[-2]:
            # Of a symmetric matrix only the symmetric part of a gradient means anything.
            estimates, expected = estimates + estimates.swapaxes(-1, -2), expected + expected.swapaxes(-1, -2)
        error = estimates.std(0, ddof=1) / 4
        assert (np.abs(estimates.mean(0) - expected) <= 6 * error + 1e-9 + 1e-6 * np.abs(expected)).all()


@pytest.mark.parametrize("example", REPARAMETERIZED, ids=str)
def test_gradients_flow_from_samples_to_every_parameter(example: Example):
    distribution, tensors = example.make(requires_grad=True)
    sample = distribution.rsample((3,))
    assert sample.requires_grad
    (sample * rg.tensor(np.random.default_rng(0).normal(size=sample.shape))).sum().backward()
    for tensor in tensors:
        assert tensor.grad is not None and bool(tensor.grad.isfinite().all())
        if example.family != "OneHotCategoricalStraightThrough":
            assert bool((tensor.grad != 0).any())


@pytest.mark.slow
def test_pathwise_gradients_of_second_moments_are_right_for_gamma_beta_and_dirichlet():
    """d E[x^2] / da against the formula, of which the variance of x is a part."""
    rg.manual_seed(0)
    for family, parameters in (
        (Gamma, ([0.3, 2.0], [1.5, 0.5])),
        (Beta, ([0.3, 2.0], [0.7, 5.0])),
        (lambda a: Dirichlet(a), ([[0.3, 1.0, 4.0]],)),
    ):
        sampled = [rg.tensor(p, dtype=rg.float64, requires_grad=True) for p in parameters]
        exact = [rg.tensor(p, dtype=rg.float64, requires_grad=True) for p in parameters]
        family(*sampled).rsample((60_000,)).square().mean(0).sum().backward()
        distribution = family(*exact)
        (distribution.variance + distribution.mean.square()).sum().backward()
        for estimate, expected in zip(sampled, exact):
            np.testing.assert_allclose(estimate.grad.numpy(), expected.grad.numpy(), rtol=0.1, atol=0.02)


def test_a_distribution_of_leaves_serves_many_steps():
    """As with PyTorch: programs make a distribution of parameters once, before the loop."""
    loc, scale = rg.zeros(2, requires_grad=True), rg.ones(2, requires_grad=True)
    distribution = Normal(loc, scale)
    optimizer = rg.optim.Adam([loc, scale], lr=0.1)
    data = rg.tensor([[3.0, -1.0], [5.0, -1.5]])
    losses = []
    for _ in range(150):
        optimizer.zero_grad()
        loss = -distribution.log_prob(data).mean()
        loss.backward()
        optimizer.step()
        losses.append(loss.item())
    assert losses[-1] < losses[0]
    np.testing.assert_allclose(distribution.mean.detach().numpy(), [4.0, -1.25], atol=0.2)


def test_samples_give_no_gradients():
    loc = rg.zeros(3, requires_grad=True)
    assert not Normal(loc, 1.0).sample().requires_grad


def test_scores_inside_no_grad_leave_later_ones_their_gradients():
    """What is derived lazily is recorded even where it is first read without gradients."""
    logits = rg.zeros(3, requires_grad=True)
    distribution = distributions.Categorical(logits=logits)
    with rg.no_grad():
        distribution.sample((2,))
    distribution.probs[0].backward()
    assert logits.grad is not None


def test_policies_climb_by_score_functions():
    """REINFORCE: the gradient of log_prob times reward is an unbiased gradient of the mean reward."""
    rg.manual_seed(0)
    logits = rg.zeros(3, requires_grad=True)
    reward = rg.tensor([0.0, 1.0, 2.0])
    policy = distributions.Categorical(logits=logits)
    actions = policy.sample((40_000,))
    (policy.log_prob(actions) * reward[actions]).mean().backward()
    expected = np.array([1 / 3] * 3) * (np.array([0.0, 1.0, 2.0]) - 1.0)
    np.testing.assert_allclose(logits.grad.numpy(), expected, atol=0.02)
