"""Probability distributions under the names of ``torch.distributions``.

Samples are drawn from the library's default generator, so that ``retrograd.manual_seed`` repeats a run. ``rsample``
lets gradients flow to the parameters, ``log_prob`` scores values, ``kl_divergence`` compares two distributions. Only
programs and ``compat`` import it.

>>> normal = rg.distributions.Normal(rg.zeros(2), 1.0)
>>> normal.log_prob(normal.sample((5,))).shape
(5, 2)
"""

from typing import TYPE_CHECKING

from ..core.missing_names import explain_calls as _explain_calls
from ..core.missing_names import legacy_names
from ..ops.table.documentation import complete as _complete
from . import constraints, transforms, utils
from .constraint_registry import ConstraintRegistry, biject_to, transform_to
from .distribution import Distribution, ExponentialFamily
from .families.binary import (
    Bernoulli,
    Binomial,
    ContinuousBernoulli,
    Geometric,
    LogitRelaxedBernoulli,
    NegativeBinomial,
    Poisson,
)
from .families.categorical import (
    Categorical,
    ExpRelaxedCategorical,
    Multinomial,
    OneHotCategorical,
    OneHotCategoricalStraightThrough,
)
from .families.multivariate import LKJCholesky, LowRankMultivariateNormal, MultivariateNormal, Wishart
from .families.positive import (
    Chi2,
    Exponential,
    FisherSnedecor,
    Gamma,
    GeneralizedPareto,
    InverseGamma,
    LogNormal,
    Pareto,
    Weibull,
)
from .families.real_line import Cauchy, Gumbel, HalfCauchy, HalfNormal, Laplace, Normal, StudentT, Uniform, VonMises
from .families.simplex import Beta, Dirichlet, Kumaraswamy, LogisticNormal, RelaxedBernoulli, RelaxedOneHotCategorical
from .independent import Independent
from .kl import kl_divergence, register_kl
from .mixture_same_family import MixtureSameFamily
from .transformed_distribution import TransformedDistribution
from .transforms import (
    AbsTransform,
    AffineTransform,
    CatTransform,
    ComposeTransform,
    CorrCholeskyTransform,
    CumulativeDistributionTransform,
    ExpTransform,
    IndependentTransform,
    LowerCholeskyTransform,
    PositiveDefiniteTransform,
    PowerTransform,
    ReshapeTransform,
    SigmoidTransform,
    SoftmaxTransform,
    SoftplusTransform,
    StackTransform,
    StickBreakingTransform,
    TanhTransform,
    Transform,
    identity_transform,
)

__all__ = [
    "AbsTransform", "AffineTransform", "Bernoulli", "Beta", "Binomial", "CatTransform", "Categorical", "Cauchy",
    "Chi2", "ComposeTransform", "ConstraintRegistry", "ContinuousBernoulli", "CorrCholeskyTransform",
    "CumulativeDistributionTransform", "Dirichlet", "Distribution", "ExpRelaxedCategorical", "ExpTransform",
    "Exponential", "ExponentialFamily", "FisherSnedecor", "Gamma", "GeneralizedPareto", "Geometric", "Gumbel",
    "HalfCauchy", "HalfNormal", "Independent", "IndependentTransform", "InverseGamma", "Kumaraswamy", "LKJCholesky",
    "Laplace", "LogNormal", "LogisticNormal", "LogitRelaxedBernoulli", "LowRankMultivariateNormal",
    "LowerCholeskyTransform", "MixtureSameFamily", "Multinomial", "MultivariateNormal", "NegativeBinomial", "Normal",
    "OneHotCategorical", "OneHotCategoricalStraightThrough", "Pareto", "Poisson", "PositiveDefiniteTransform",
    "PowerTransform", "RelaxedBernoulli", "RelaxedOneHotCategorical", "ReshapeTransform", "SigmoidTransform",
    "SoftmaxTransform", "SoftplusTransform", "StackTransform", "StickBreakingTransform", "StudentT", "TanhTransform",
    "Transform", "TransformedDistribution", "Uniform", "VonMises", "Weibull", "Wishart", "biject_to", "constraints",
    "identity_transform", "kl_divergence", "register_kl", "transform_to", "transforms", "utils",
]  # fmt: skip

_complete(globals(), object, utils.ARGUMENTS, utils.ERRORS)
_explain_calls(globals())

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)
