"""Divergences: every registered pair against PyTorch's and against integrals, and how the registry finds a function."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import distributions
from retrograd.distributions import Distribution, Independent, Normal, kl_divergence, register_kl
from retrograd.distributions.kl.registry import _registry
from tests.distributions.families import COVARIANCE, FACTOR, TRIL

# Two members of each family; p of one family and q of another meet in every order.
PARAMETERS: dict[str, list[dict[str, Any]]] = {
    "Bernoulli": [{"probs": [0.2, 0.7]}, {"probs": [0.5, 0.9]}],
    "Beta": [
        {"concentration1": [0.7, 3.0], "concentration0": [2.0, 1.5]},
        {"concentration1": 1.3, "concentration0": 0.8},
    ],
    "Binomial": [{"total_count": 5.0, "probs": [0.2, 0.7]}, {"total_count": 5.0, "probs": [0.5, 0.9]}],
    "Categorical": [{"probs": [[0.2, 0.8], [0.5, 0.5]]}, {"logits": [[0.0, 1.0], [3.0, 1.0]]}],
    "Cauchy": [{"loc": [0.0, 1.0], "scale": 2.0}, {"loc": -1.0, "scale": [0.5, 3.0]}],
    "ContinuousBernoulli": [{"probs": [0.2, 0.7]}, {"probs": [0.6, 0.9]}],
    "Dirichlet": [{"concentration": [[0.5, 2.0], [3.0, 1.0]]}, {"concentration": [1.0, 4.0]}],
    "Exponential": [{"rate": [0.5, 3.0]}, {"rate": 1.5}],
    "Gamma": [{"concentration": [0.7, 3.0], "rate": [2.0, 0.5]}, {"concentration": 1.5, "rate": 1.2}],
    "Geometric": [{"probs": [0.2, 0.7]}, {"probs": [0.5, 0.9]}],
    "Gumbel": [{"loc": [0.0, 1.0], "scale": 2.0}, {"loc": -1.0, "scale": [0.9, 3.0]}],
    "HalfNormal": [{"scale": [0.5, 3.0]}, {"scale": 1.5}],
    "Laplace": [{"loc": [0.0, 1.0], "scale": 2.0}, {"loc": -1.0, "scale": [0.5, 3.0]}],
    "LogNormal": [{"loc": [0.0, 1.0], "scale": 2.0}, {"loc": -1.0, "scale": [0.5, 3.0]}],
    "LowRankMultivariateNormal": [
        {"loc": [0.0, 1.0, 2.0], "cov_factor": FACTOR, "cov_diag": [0.5, 1.0, 2.0]},
        {"loc": [0.5, 0.0, 2.0], "cov_factor": FACTOR[1], "cov_diag": [1.5, 1.0, 0.7]},
    ],
    "MultivariateNormal": [
        {"loc": [0.0, 1.0, 2.0], "scale_tril": TRIL},
        {"loc": [0.5, 0.0, 2.0], "covariance_matrix": COVARIANCE[1]},
    ],
    "Normal": [{"loc": [0.0, 1.0], "scale": 2.0}, {"loc": -1.0, "scale": [0.5, 3.0]}],
    "OneHotCategorical": [{"probs": [[0.2, 0.8], [0.5, 0.5]]}, {"logits": [[0.0, 1.0], [3.0, 1.0]]}],
    "Pareto": [{"scale": [1.5, 2.0], "alpha": [3.0, 4.0]}, {"scale": 0.3, "alpha": 2.5}],
    "Poisson": [{"rate": [0.5, 3.0]}, {"rate": 1.5}],
    "Uniform": [{"low": [0.4, 0.5], "high": [0.9, 0.8]}, {"low": 0.0, "high": 1.0}],
    "Wishart": [{"df": [4.0, 5.0], "scale_tril": TRIL}, {"df": 6.0, "covariance_matrix": COVARIANCE[1]}],
}
GENERAL = {"Independent", "TransformedDistribution", "ExponentialFamily"}
PAIRS = sorted(
    {(p.__name__, q.__name__) for p, q in _registry if not {p.__name__, q.__name__} & GENERAL}
    | {("LogNormal", "LogNormal")}
)
DEFECTS_OF_TORCH = {
    # PyTorch says infinity where the uniform distribution has just the bounds 0 and 1.
    ("ContinuousBernoulli", "Uniform"),
    ("Uniform", "ContinuousBernoulli"),
    # PyTorch's divergence is negative for some parameters.
    ("Wishart", "Wishart"),
}


def make(library: Any, name: str, which: int, requires_grad: bool = False) -> tuple[Distribution, list[Any]]:
    tensors = {
        key: library.tensor(np.asarray(value, float).tolist(), dtype=library.float64, requires_grad=requires_grad)
        for key, value in PARAMETERS[name][which].items()
    }
    return getattr(library.distributions, name)(**tensors), list(tensors.values())


@pytest.mark.parametrize(("p", "q"), PAIRS)
def test_divergences_and_their_gradients_are_those_of_torch(p: str, q: str):
    torch = pytest.importorskip("torch")
    if (p, q) in DEFECTS_OF_TORCH:
        pytest.skip("a defect of PyTorch's")
    results = []
    for library, divergence in ((rg, kl_divergence), (torch, torch.distributions.kl_divergence)):
        (first, first_tensors), (second, second_tensors) = make(library, p, 0, True), make(library, q, 1, True)
        value = divergence(first, second)
        if bool(value.isfinite().all()):
            value.sum().backward()
        grads = [
            None if t.grad is None else t.grad.tril() if t.dim() > 1 else t.grad for t in first_tensors + second_tensors
        ]
        results.append((value.detach().numpy(), [None if g is None else g.numpy() for g in grads]))
    (value, grads), (expected, expected_grads) = results
    np.testing.assert_allclose(value, expected, rtol=1e-9, atol=1e-12)
    for grad, reference in zip(grads, expected_grads):
        if reference is not None and np.ndim(reference) < 2:
            np.testing.assert_allclose(grad, reference, rtol=1e-7, atol=1e-10)


NUMERIC = [
    pair for pair in PAIRS if not {"Categorical", "Dirichlet", "OneHotCategorical", "Cauchy"} & set(pair)
]  # fmt: skip


@pytest.mark.parametrize(("p", "q"), NUMERIC)
def test_divergences_are_means_of_log_ratios(p: str, q: str):
    """Over many samples, except where they are infinite, since p has samples beyond the support of q."""
    first, second = make(rg, p, 0)[0], make(rg, q, 1)[0]
    divergence = kl_divergence(first, second).numpy()
    second._validate_args = False
    rg.manual_seed(0)
    with rg.no_grad():
        samples = first.sample((40_000,))
        if (finite := np.isfinite(divergence)).any():
            ratios = (first.log_prob(samples) - second.log_prob(samples)).numpy()[:, finite]
            error = ratios.std(0) / np.sqrt(len(ratios))
            assert (np.abs(ratios.mean(0) - divergence[finite]) <= 6 * error + 1e-9).all()
    if not finite.all():
        assert not bool(second.support.check(samples).all())


def test_divergences_are_infinite_where_q_has_no_density():
    uniform, beta = (
        distributions.Uniform(rg.tensor([0.0, 0.2, -0.1]), rg.tensor([1.0, 1.5, 0.5])),
        distributions.Beta(2.0, 2.0),
    )
    assert kl_divergence(uniform, beta).isfinite().tolist() == [True, False, False]
    unit, half = distributions.Uniform(0.0, 1.0), distributions.ContinuousBernoulli(0.3)
    assert bool(kl_divergence(half, unit).isfinite()) and bool(kl_divergence(unit, half).isfinite())
    assert bool(kl_divergence(half, distributions.Uniform(0.1, 1.0)).isinf())
    never = distributions.Bernoulli(rg.tensor([0.0, 0.5, 0.0]))
    np.testing.assert_allclose(
        kl_divergence(never, distributions.Bernoulli(rg.tensor([0.0, 0.0, 0.5]))).numpy(),
        [0, np.inf, np.log(2)],
        atol=1e-6,
    )


def test_divergences_of_a_distribution_from_itself_are_zero():
    for name in PARAMETERS:
        if (name, name) in PAIRS:
            one = make(rg, name, 0)[0]
            np.testing.assert_allclose(kl_divergence(one, one).numpy(), 0, atol=1e-10)


def test_independents_sum_the_divergences():
    p, q = Normal(rg.zeros(2, 3), 1.0), Normal(rg.ones(2, 3), 2.0)
    both = kl_divergence(Independent(p, 1), Independent(q, 1))
    np.testing.assert_allclose(both.numpy(), kl_divergence(p, q).sum(-1).numpy())
    with pytest.raises(NotImplementedError, match="reinterpreted_batch_ndims"):
        kl_divergence(Independent(p, 1), Independent(q, 2))


class ExponentialByItself(distributions.ExponentialFamily):
    """The exponential distribution by its log normalizer alone."""

    arg_constraints = {"rate": distributions.constraints.positive}
    _mean_carrier_measure = 0.0

    def __init__(self, rate: rg.Tensor) -> None:
        self.rate = rate
        super().__init__(rate.shape)

    @property
    def _natural_params(self) -> tuple[rg.Tensor, ...]:
        return (-self.rate,)

    def _log_normalizer(self, theta: rg.Tensor) -> rg.Tensor:
        return -(-theta).log()


def test_exponential_families_follow_from_their_normalizers():
    rates = [rg.tensor([0.5, 3.0], requires_grad=True), rg.tensor([1.5, 2.0], requires_grad=True)]
    again = [rate.detach().requires_grad_() for rate in rates]
    p, q = (ExponentialByItself(rate) for rate in rates)
    known_p, known_q = (distributions.Exponential(rate) for rate in again)
    (kl_divergence(p, q) + p.entropy()).sum().backward()
    (kl_divergence(known_p, known_q) + known_p.entropy()).sum().backward()
    np.testing.assert_allclose(
        kl_divergence(p, q).detach().numpy(), kl_divergence(known_p, known_q).detach().numpy(), rtol=1e-5
    )
    for rate, known in zip(rates, again):
        np.testing.assert_allclose(rate.grad.numpy(), known.grad.numpy(), rtol=1e-5)


def test_pairs_without_a_function_are_refused_by_name():
    with pytest.raises(NotImplementedError, match="p type Cauchy and q type Normal"):
        kl_divergence(distributions.Cauchy(0.0, 1.0), Normal(0.0, 1.0))
    with pytest.raises(TypeError, match="register_kl"):
        register_kl(1, Normal)  # type: ignore[arg-type]


def test_the_most_special_function_is_taken_and_ambiguity_warned_of():
    class Narrow(Normal):
        pass

    class Wide(Normal):
        pass

    before = dict(_registry)
    try:
        register_kl(Narrow, Normal)(lambda p, q: rg.tensor(1.0))
        assert kl_divergence(Narrow(0.0, 1.0), Wide(0.0, 1.0)).item() == 1
        assert kl_divergence(Wide(0.0, 1.0), Narrow(0.0, 1.0)).item() == 0
        register_kl(Normal, Wide)(lambda p, q: rg.tensor(2.0))
        with pytest.warns(RuntimeWarning, match=r"Ambiguous kl_divergence\(Narrow, Wide\)"):
            kl_divergence(Narrow(0.0, 1.0), Wide(0.0, 1.0))
    finally:
        _registry.clear()
        _registry.update(before)


def test_every_pair_that_torch_registers_is_here():
    pytest.importorskip("torch")
    from torch.distributions.kl import _KL_REGISTRY

    ours = {(p.__name__, q.__name__) for p, q in _registry}
    assert {(p.__name__, q.__name__) for p, q in _KL_REGISTRY} - ours == set()
