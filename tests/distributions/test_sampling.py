"""Samples of Beta, Dirichlet and families like them: off the bounds, with implicit reparameterization gradients."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.distributions.sampling.beta_derivative import SCALED_SLOPE
from retrograd.distributions.sampling.draws import dirichlet
from retrograd.distributions.sampling.von_mises_derivative import SLOPE as VON_MISES_SLOPE

D = rg.distributions
special = pytest.importorskip("scipy.special")


def drawn(low, high, count=400):
    """Concentrations over some powers of ten, and a beta sample of each pair."""
    rng = np.random.default_rng(0)
    a, b = 10 ** rng.uniform(low, high, (2, count))
    x = rng.beta(a, b)
    inside = (x > 1e-300) & (x < 1 - 1e-15)
    return x[inside], a[inside], b[inside]


@pytest.mark.parametrize(("low", "high"), [(-3, -1), (-2, 2), (0, 3), (3, 6), (-3, 6)])
def test_the_slope_is_that_of_the_distribution_function_over_the_density(low, high):
    x, a, b = drawn(low, high)
    step = 1e-5 * a
    left, right = special.betainc(a, b, x), special.betaincc(a, b, x)
    below = special.betainc(a + step, b, x) - special.betainc(a - step, b, x)
    above = special.betaincc(a - step, b, x) - special.betaincc(a + step, b, x)
    log_density = special.xlogy(a - 1, x) + special.xlog1py(b - 1, -x) - special.betaln(a, b)
    wanted = -np.where(left < right, below, above) / (2 * step) / np.exp(log_density) / (1 - x)
    # For the largest concentrations it is the differences that lose digits.
    np.testing.assert_allclose(SCALED_SLOPE(x, a, b), wanted, rtol=1e-4 if high > 3 else 1e-7)


@pytest.mark.parametrize(
    ("x", "a", "b", "wanted"),
    [
        (0.3, 1e-3, 2.0, 308.7620044989485),
        (0.9, 0.01, 0.01, 4510.751120904871),
        (1e-5, 0.01, 0.01, 0.06149683179022888),
        (0.999999999, 0.01, 0.003, 7693.925396992796),
    ],
)
def test_the_slope_at_small_concentrations_equals_that_found_with_40_digits(x, a, b, wanted):
    got = SCALED_SLOPE(*[np.array([value]) for value in (x, a, b)])
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


@pytest.mark.parametrize(("low", "high"), [(-3, -1), (-1, 1), (0, 3), (3, 6)])
def test_the_slope_is_the_one_that_pytorch_approximates(low, high):
    torch = pytest.importorskip("torch")
    x, a, b = drawn(low, high)
    theirs = torch._dirichlet_grad(*[torch.tensor(value) for value in (x, a, a + b)]).numpy()
    np.testing.assert_allclose(SCALED_SLOPE(x, a, b), theirs, rtol=3e-3)


def test_a_dirichlet_sample_has_the_gradient_that_pytorchs_has():
    torch = pytest.importorskip("torch")
    rng = np.random.default_rng(0)
    concentration, g = rng.uniform(0.2, 4, (50, 4)), rng.standard_normal((50, 4))
    a = rg.tensor(concentration, requires_grad=True)
    x = D.Dirichlet(a).rsample()
    (ours,) = rg.autograd.grad(x, a, rg.tensor(g))
    x, total = torch.tensor(x.detach().numpy()), torch.tensor(concentration.sum(-1, keepdims=True)).expand(50, 4)
    slope = torch._dirichlet_grad(x, torch.tensor(concentration), total.contiguous())
    theirs = slope * (torch.tensor(g) - (x * torch.tensor(g)).sum(-1, keepdim=True))
    np.testing.assert_allclose(ours.numpy(), theirs.numpy(), rtol=3e-3, atol=1e-5)


def test_a_beta_sample_follows_its_quantile():
    a, b = (rg.tensor(value, requires_grad=True) for value in (np.full(200, 2.5), np.full(200, 0.7)))
    x = D.Beta(a, b).rsample()
    by_a, by_b = rg.autograd.grad(x.sum(), (a, b))
    at, step = special.betainc(2.5, 0.7, x.detach().numpy()), 1e-6
    wanted_a = (special.betaincinv(2.5 + step, 0.7, at) - special.betaincinv(2.5 - step, 0.7, at)) / (2 * step)
    wanted_b = (special.betaincinv(2.5, 0.7 + step, at) - special.betaincinv(2.5, 0.7 - step, at)) / (2 * step)
    np.testing.assert_allclose(by_a.numpy(), wanted_a, rtol=1e-5, atol=1e-8)
    np.testing.assert_allclose(by_b.numpy(), wanted_b, rtol=1e-5, atol=1e-8)


def test_forward_mode_and_vmap_agree_with_the_gradients_of_dirichlet_samples():
    a = rg.tensor(np.random.default_rng(0).uniform(0.3, 3, (5, 3)))
    t, g = (rg.tensor(np.random.default_rng(seed).standard_normal((5, 3))) for seed in (1, 2))

    def sample(a):
        rg.manual_seed(0)
        return dirichlet(a)

    _, tangent = rg.func.jvp(sample, (a,), (t,))
    _, pull = rg.func.vjp(sample, a)
    np.testing.assert_allclose((tangent * g).sum().item(), (pull(g)[0] * t).sum().item(), rtol=1e-10)
    rows = rg.func.vmap(dirichlet, randomness="different")(a)
    np.testing.assert_allclose(rows.sum(-1).numpy(), 1, rtol=1e-12)


@pytest.mark.parametrize("concentration", 10.0 ** np.arange(-1, 8))
def test_a_von_mises_sample_moves_as_the_differences_of_its_distribution_function_say(concentration):
    z = np.random.default_rng(0).vonmises(0, concentration, 60)
    z = np.append(z, np.array([1e-9, 0.5, -1.0]) / np.sqrt(concentration + 1))
    nodes, weights = np.polynomial.legendre.leggauss(200)
    half_squares = np.sin(z[:, None] * (nodes + 1) / 4) ** 2

    def from_zero(k):  # the distribution function less 1/2
        return z / 2 * (np.exp(-2 * k * half_squares) @ weights) / (2 * np.pi * special.i0e(k))

    step = 1e-5 * concentration
    density = np.exp(-2 * concentration * np.sin(z / 2) ** 2) / (2 * np.pi * special.i0e(concentration))
    wanted = -(from_zero(concentration + step) - from_zero(concentration - step)) / (2 * step) / density
    got = VON_MISES_SLOPE(np.full_like(z, concentration), z)
    np.testing.assert_allclose(got, wanted, rtol=1e-6, atol=1e-8 * abs(wanted).max())


def test_von_mises_gradients_are_those_of_its_moments_and_turn_with_the_mean_direction():
    loc, k = (rg.tensor(value, dtype=rg.float64, requires_grad=True) for value in (3.0, 2.0))
    rg.manual_seed(0)
    angles = D.VonMises(loc, k).rsample((100_000,))
    assert bool((angles.abs() <= np.pi).all()) and bool((angles < 0).any())
    by_loc, by_k = rg.autograd.grad((angles - loc.detach()).cos().mean(), (loc, k))
    ratio = special.i1e(2.0) / special.i0e(2.0)  # the mean of the cosine
    np.testing.assert_allclose([by_loc.item(), by_k.item()], [0, 1 - ratio / 2 - ratio**2], atol=5e-3)
    (by_loc,) = rg.autograd.grad(D.VonMises(loc, k).rsample((5,)).sum(), loc)
    assert by_loc.item() == 5
    concentrations = rg.tensor([0.3, 2.0, 2.0, 2.0, 60.0], dtype=rg.float64, requires_grad=True)
    samples = rg.tensor([1.0, 0.2, -1.5, 3.1, 0.2], dtype=rg.float64, requires_grad=True)
    assert rg.autograd.gradcheck(
        lambda k, z: VON_MISES_SLOPE(k, z), (concentrations, samples), atol=1e-7
    )  # second order
    (by_k,) = rg.autograd.grad(D.VonMises(loc, k).rsample(), k, create_graph=True)
    (bent,) = rg.autograd.grad(by_k, k, create_graph=True)
    with pytest.raises(NotImplementedError, match="cannot be differentiated again"):
        bent.backward()
    slopes = rg.func.vmap(
        rg.func.grad(lambda k: D.VonMises(0.0, k, validate_args=False).rsample().cos()), randomness="different"
    )(rg.full((20_000,), 2.0, dtype=rg.float64))
    np.testing.assert_allclose(slopes.mean().item(), 1 - ratio / 2 - ratio**2, atol=1e-2)


def test_the_derivative_of_a_dirichlet_sample_says_that_it_has_none():
    a = rg.tensor([1.0, 2.0], requires_grad=True)
    (gradient,) = rg.autograd.grad(D.Dirichlet(a).rsample()[0], a, create_graph=True)
    with pytest.raises(NotImplementedError, match="cannot be differentiated again"):
        gradient.sum().backward()


SMALL = (1e-3, 0.01)
FAMILIES = [
    *[("Beta", pair) for pair in [(1e-3, 1e-3), (0.01, 1.0), (1.0, 0.01), (0.01, 1e6), (1e6, 1e6)]],
    *[("Gamma", (a, 1.0)) for a in (*SMALL, 1e6)],
    *[("Chi2", (df,)) for df in (*SMALL, 1e6)],
    *[("StudentT", (df,)) for df in (*SMALL, 1.0, 1e6)],
    *[("FisherSnedecor", pair) for pair in [(1e-3, 1e-3), (0.01, 1e-3), (1e6, 0.01), (1e6, 1e6)]],
    *[("Kumaraswamy", pair) for pair in [(1e-3, 1e-3), (0.01, 1.0), (1.0, 0.01), (0.01, 1e6), (1e6, 0.01), (1e6, 1e6)]],
    ("LogNormal", (0.0, 40.0)),
    ("Pareto", (1.0, 1e-3)),
    ("ContinuousBernoulli", (1e-6,)),
    ("VonMises", (0.0, 1e6)),
]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(("family", "parameters"), FAMILIES)
def test_samples_lie_where_the_density_is_finite(family, parameters, dtype):
    distribution = getattr(D, family)(*[rg.tensor(value, dtype=getattr(rg, dtype)) for value in parameters])
    for x in (distribution.sample((2000,)), distribution.rsample((200,)) if distribution.has_rsample else None):
        if x is not None:
            assert np.isfinite(x.numpy()).all()
            assert np.isfinite(distribution.log_prob(x).numpy()).all()  # which also checks the support


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("concentration", [[1e-3] * 3, [0.01] * 5, [1e-3, 1.0, 1e6], [1e6] * 3])
def test_components_of_dirichlet_samples_are_neither_0_nor_1(concentration, dtype):
    distribution = D.Dirichlet(rg.tensor(concentration, dtype=getattr(rg, dtype)))
    x = distribution.sample((2000,))
    assert bool(((x > 0) & (x < 1)).all())
    assert np.isfinite(distribution.log_prob(x).numpy()).all()
    np.testing.assert_allclose(x.mean(0).numpy(), distribution.mean.numpy(), atol=0.05)


def test_weibull_samples_are_positive():
    x = D.Weibull(rg.tensor(1.0), rg.tensor(1e-3)).sample((2000,)).numpy()
    assert np.isfinite(x).all() and (x > 0).all()


def test_the_densities_of_student_and_fisher_are_finite_at_large_numbers():
    x = rg.tensor([1e30, 3e38, 1.0])
    at = x.double().numpy()
    stats = pytest.importorskip("scipy.stats")
    np.testing.assert_allclose(D.StudentT(rg.tensor(0.01)).log_prob(x).numpy(), stats.t.logpdf(at, 0.01), rtol=1e-5)
    got = D.FisherSnedecor(rg.tensor(3.0), rg.tensor(0.01)).log_prob(x).numpy()
    np.testing.assert_allclose(got, stats.f.logpdf(at, 3.0, 0.01), rtol=1e-4)
    assert np.isfinite(D.FisherSnedecor(rg.tensor(1e6), rg.tensor(0.01)).log_prob(x).numpy()).all()


def test_the_density_of_kumaraswamy_is_its_formula_at_small_concentrations():
    x = np.array([1e-30, 1e-3, 0.5, 0.999])
    for a, b in [(0.01, 0.02), (2.0, 3.0), (1.0, 1.0), (0.001, 50.0)]:
        above = -np.expm1(a * np.log(x))
        wanted = np.log(a * b) + (a - 1) * np.log(x) + (b - 1) * np.log(above)
        got = D.Kumaraswamy(rg.tensor(a).double(), rg.tensor(b).double()).log_prob(rg.tensor(x)).numpy()
        np.testing.assert_allclose(got, wanted, rtol=1e-6)


def test_distributions_of_bfloat16_have_the_limits_of_its_dtype():
    pytest.importorskip("ml_dtypes")
    probs = rg.tensor([0.25, 0.25, 0.5], dtype=rg.bfloat16)
    for distribution in (D.Categorical(probs), D.Bernoulli(probs)):
        wanted = type(distribution)(probs.float()).entropy()
        assert distribution.entropy().dtype is rg.bfloat16
        np.testing.assert_allclose(distribution.entropy().float(), wanted, rtol=2**-8)
    assert D.transforms.SigmoidTransform()(probs * 400).max() == 1 - 2**-7
    assert (D.Gamma(probs / 100, probs).rsample() > 0).all()
