"""Examples of every family, which the tests run through one harness."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from scipy import stats

import retrograd as rg
from retrograd import distributions

rng = np.random.default_rng(5)
MATRICES = rng.normal(size=(2, 3, 3))
COVARIANCE = MATRICES @ MATRICES.swapaxes(-1, -2) + np.eye(3)
TRIL = np.linalg.cholesky(COVARIANCE)
FACTOR = rng.normal(size=(2, 3, 2))


@dataclass
class Example:
    """A family with parameters (numbers, lists for Tensors) and, where SciPy has it, the same distribution there."""

    family: str
    parameters: dict[str, Any]
    scipy: Any = None
    options: dict[str, Any] = field(default_factory=dict)  # what is no Tensor
    scored: Any = None  # values to score where samples of the distribution will not do

    def __str__(self) -> str:
        return f"{self.family}-{'-'.join(self.parameters)}"

    def make(self, library: Any = rg, dtype: str = "float64", requires_grad: bool = False) -> tuple[Any, list[Any]]:
        """The distribution in a library, and its Tensors."""
        kind = getattr(library, dtype)
        tensors = {
            name: library.tensor(np.asarray(value, dtype).tolist(), dtype=kind, requires_grad=requires_grad)
            for name, value in self.parameters.items()
        }
        # PyTorch leaves two families in their modules.
        module = {"LogitRelaxedBernoulli": "relaxed_bernoulli", "ExpRelaxedCategorical": "relaxed_categorical"}
        place = library.distributions
        if not hasattr(place, self.family):
            place = getattr(place, module[self.family])
        return getattr(place, self.family)(**self.options, **tensors), list(tensors.values())

    def values(self) -> np.ndarray:
        """Values to score, of shape (4, *batch, *event)."""
        if self.scored is not None:
            return np.asarray(self.scored)
        rg.manual_seed(3)
        return self.make()[0].sample((4,)).numpy()

    @property
    def is_discrete(self) -> bool:
        return bool(self.make()[0].support.is_discrete)


def sum_of(*arrays: Any) -> list[np.ndarray]:
    return [np.asarray(array, float) for array in arrays]


LOC, SCALE, POSITIVE = [-1.0, 0.0, 2.5], [0.3, 1.0, 4.0], [0.4, 1.7, 6.0]
ODDS, LOG_ODDS = [0.1, 0.5, 0.8], [-2.0, 0.5, 3.0]
WEIGHTS = [[0.2, 0.3, 0.5], [1.0, 4.0, 5.0]]
LOG_WEIGHTS = [[-1.0, 0.0, 2.0], [0.5, 0.5, 0.5]]
loc, scale, positive, odds = sum_of(LOC, SCALE, POSITIVE, ODDS)

NUMBERS = [
    Example("Normal", {"loc": LOC, "scale": SCALE}, stats.norm(loc, scale)),
    Example("Normal", {"loc": 0.5, "scale": SCALE}, stats.norm(0.5, scale)),
    Example("Laplace", {"loc": LOC, "scale": SCALE}, stats.laplace(loc, scale)),
    Example("Cauchy", {"loc": LOC, "scale": SCALE}, stats.cauchy(loc, scale)),
    Example("Gumbel", {"loc": LOC, "scale": SCALE}, stats.gumbel_r(loc, scale)),
    Example("StudentT", {"df": [0.8, 1.5, 7.0], "loc": LOC, "scale": SCALE}, stats.t([0.8, 1.5, 7.0], loc, scale)),
    Example("Uniform", {"low": LOC, "high": [0.5, 0.25, 8.0]}, stats.uniform(loc, [1.5, 0.25, 5.5])),
    Example("VonMises", {"loc": LOC, "concentration": POSITIVE}, stats.vonmises(positive, loc)),
    Example("Exponential", {"rate": POSITIVE}, stats.expon(scale=1 / positive)),
    Example("Gamma", {"concentration": POSITIVE, "rate": SCALE}, stats.gamma(positive, scale=1 / scale)),
    Example("Chi2", {"df": POSITIVE}, stats.chi2(positive)),
    Example("InverseGamma", {"concentration": POSITIVE, "rate": SCALE}, stats.invgamma(positive, scale=scale)),
    Example("LogNormal", {"loc": LOC, "scale": [0.3, 1.0, 0.5]}, stats.lognorm([0.3, 1.0, 0.5], scale=np.exp(loc))),
    Example("HalfNormal", {"scale": SCALE}, stats.halfnorm(scale=scale)),
    Example("HalfCauchy", {"scale": SCALE}, stats.halfcauchy(scale=scale)),
    Example("Weibull", {"scale": SCALE, "concentration": POSITIVE}, stats.weibull_min(positive, scale=scale)),
    Example("Pareto", {"scale": SCALE, "alpha": POSITIVE}, stats.pareto(positive, scale=scale)),
    Example(
        "GeneralizedPareto",
        {"loc": LOC, "scale": SCALE, "concentration": [-0.4, 0.0, 0.3]},
        stats.genpareto([-0.4, 0.0, 0.3], loc, scale),
    ),
    Example("FisherSnedecor", {"df1": POSITIVE, "df2": [3.0, 5.0, 9.0]}, stats.f(positive, [3.0, 5.0, 9.0])),
    Example(
        "Beta", {"concentration1": POSITIVE, "concentration0": [0.7, 3.0, 1.5]}, stats.beta(positive, [0.7, 3, 1.5])
    ),
    Example("Kumaraswamy", {"concentration1": POSITIVE, "concentration0": [0.7, 3.0, 1.5]}),
    Example("ContinuousBernoulli", {"probs": [0.1, 0.4999, 0.8]}),
    Example("ContinuousBernoulli", {"logits": LOG_ODDS}),
    Example("Bernoulli", {"probs": ODDS}, stats.bernoulli(odds)),
    Example("Bernoulli", {"logits": LOG_ODDS}, stats.bernoulli(1 / (1 + np.exp(-np.asarray(LOG_ODDS))))),
    Example("Geometric", {"probs": ODDS}, stats.geom(odds, -1)),
    Example("Geometric", {"logits": LOG_ODDS}, stats.geom(1 / (1 + np.exp(-np.asarray(LOG_ODDS))), -1)),
    Example("Binomial", {"total_count": 7.0, "probs": ODDS}, stats.binom(7, odds)),
    Example("Binomial", {"total_count": [7.0, 7.0, 7.0], "logits": LOG_ODDS}),
    Example("NegativeBinomial", {"total_count": POSITIVE, "probs": ODDS}, stats.nbinom(positive, 1 - odds)),
    Example("NegativeBinomial", {"total_count": 3.0, "logits": LOG_ODDS}),
    Example("Poisson", {"rate": POSITIVE}, stats.poisson(positive)),
    Example("Categorical", {"probs": WEIGHTS}),
    Example("Categorical", {"logits": LOG_WEIGHTS}),
    Example("LogitRelaxedBernoulli", {"temperature": 0.7, "probs": ODDS}),
    Example("RelaxedBernoulli", {"temperature": 0.7, "logits": LOG_ODDS}),
]

VECTORS = [
    Example("OneHotCategorical", {"probs": WEIGHTS}),
    Example("OneHotCategorical", {"logits": LOG_WEIGHTS}),
    Example("OneHotCategoricalStraightThrough", {"probs": WEIGHTS}),
    Example("Multinomial", {"probs": WEIGHTS}, options={"total_count": 5}),
    Example("Multinomial", {"logits": LOG_WEIGHTS}, options={"total_count": 5}),
    Example("ExpRelaxedCategorical", {"temperature": 0.7, "probs": WEIGHTS}),
    Example("RelaxedOneHotCategorical", {"temperature": 0.7, "logits": LOG_WEIGHTS}),
    Example("Dirichlet", {"concentration": [[0.4, 1.7, 6.0], [0.5, 0.6, 0.7]]}),
    Example("LogisticNormal", {"loc": [[-1.0, 0.5], [0.0, 2.0]], "scale": [0.5, 1.5]}),
    Example("MultivariateNormal", {"loc": LOC, "scale_tril": TRIL}),
    Example("MultivariateNormal", {"loc": [LOC, SCALE], "scale_tril": TRIL[0]}),
    Example("MultivariateNormal", {"loc": LOC, "covariance_matrix": COVARIANCE}),
    Example("MultivariateNormal", {"loc": [LOC, SCALE], "precision_matrix": COVARIANCE}),
    Example("LowRankMultivariateNormal", {"loc": LOC, "cov_factor": FACTOR, "cov_diag": SCALE}),
    Example("Wishart", {"df": [4.0, 7.5], "scale_tril": TRIL}),
    Example("Wishart", {"df": 4.5, "covariance_matrix": COVARIANCE}),
    Example("Wishart", {"df": [4.0, 7.5], "precision_matrix": COVARIANCE[0]}),
    Example("LKJCholesky", {"concentration": [0.6, 3.0]}, options={"dim": 3}),
]

EXAMPLES = NUMBERS + VECTORS
REPARAMETERIZED = [example for example in EXAMPLES if example.make()[0].has_rsample]
EVERY_FAMILY = {
    name
    for name in distributions.__all__
    if isinstance(kind := getattr(distributions, name), type)
    and issubclass(kind, distributions.Distribution)
    and name not in ("Distribution", "ExponentialFamily", "Independent", "TransformedDistribution", "MixtureSameFamily")
}
