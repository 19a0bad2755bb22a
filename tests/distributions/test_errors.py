"""Bad parameters and values: refused by name, unless validation is off."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable, Iterator

import pytest

import retrograd as rg
from retrograd import distributions as D
from retrograd.distributions import Distribution


@pytest.fixture
def default_restored() -> Iterator[None]:
    before = Distribution._validate_args
    yield
    Distribution._validate_args = before


REFUSED: list[tuple[Callable[[], object], str]] = [
    (lambda: D.Normal(0.0, -1.0), r"parameter scale .* of distribution Normal\(loc: 0.0, scale: -1.0\) .*GreaterThan"),
    (lambda: D.Normal(rg.zeros(2), rg.tensor([1.0, 0.0])), r"parameter scale \(Tensor of shape \(2,\)\)"),
    (lambda: D.Normal(float("nan"), 1.0), r"parameter loc .*Real\(\)"),
    (lambda: D.Normal("a", 1.0), "must be Tensors, arrays or numbers, got str"),
    (lambda: D.Bernoulli(1.5), r"parameter probs .*Interval\(lower_bound=0.0, upper_bound=1.0\)"),
    (lambda: D.Bernoulli(), "Either `probs` or `logits` must be specified, but not both"),
    (lambda: D.Bernoulli(0.5, 0.0), "Either `probs` or `logits` must be specified, but not both"),
    (lambda: D.Categorical(rg.tensor(0.5)), "`probs` parameter must be at least one-dimensional"),
    (lambda: D.Categorical(rg.tensor([-0.5, 1.5])), r"parameter probs .*Simplex\(\)"),
    (lambda: D.Categorical(logits=rg.tensor([float("nan"), 0.0])), "parameter logits"),
    (lambda: D.Geometric(rg.tensor([0.0, 0.5])), "parameter probs .*positive"),
    (lambda: D.Binomial(2.5, 0.5), "parameter total_count .*IntegerGreaterThan"),
    (lambda: D.ContinuousBernoulli(1.5), "parameter probs"),
    (lambda: D.Uniform(1.0, 0.0), r"parameter low .*LessThan\(upper_bound=0.0\)"),
    (lambda: D.Poisson(-1.0), "parameter rate .*GreaterThanEq"),
    (lambda: D.Pareto(1.0, -1.0), "parameter alpha"),
    (lambda: D.HalfNormal(-1.0), "parameter scale"),
    (lambda: D.LogNormal(0.0, -1.0), "parameter scale"),
    (lambda: D.RelaxedBernoulli(rg.tensor(1.0), probs=2.0), "parameter probs"),
    (lambda: D.Dirichlet(rg.tensor(1.0)), "`concentration` parameter must be at least one-dimensional"),
    (lambda: D.Dirichlet(rg.tensor([1.0, -1.0])), "parameter concentration"),
    (lambda: D.MultivariateNormal(rg.zeros(2)), "Exactly one of covariance_matrix .* got none"),
    (lambda: D.MultivariateNormal(rg.zeros(2), rg.eye(2), scale_tril=rg.eye(2)), "Exactly one of"),
    (lambda: D.MultivariateNormal(rg.zeros(2), rg.ones(2)), "covariance_matrix must be at least two-dimensional"),
    (lambda: D.MultivariateNormal(rg.tensor(0.0), rg.eye(2)), "loc must be at least one-dimensional"),
    (lambda: D.MultivariateNormal(rg.zeros(2), rg.tensor([[1.0, 2.0], [2.0, 1.0]])), r"PositiveDefinite\(\)"),
    (lambda: D.MultivariateNormal(rg.zeros(2), scale_tril=rg.ones(2, 2)), r"LowerCholesky\(\)"),
    (lambda: D.LowRankMultivariateNormal(rg.zeros(2), rg.ones(3, 1), rg.ones(2)), "matrices with shape 2 x m"),
    (lambda: D.LowRankMultivariateNormal(rg.zeros(2), rg.ones(2, 1), rg.ones(3)), "vectors with shape"),
    (lambda: D.LowRankMultivariateNormal(rg.zeros(3, 2), rg.ones(4, 2, 1), rg.ones(2)), "Incompatible batch shapes"),
    (lambda: D.Wishart(0.5, rg.eye(2)), "expected to be greater than ndim - 1 = 1"),
    (lambda: D.LKJCholesky(1), "greater than or equal to 2"),
    (lambda: D.Independent(D.Normal(rg.zeros(2), 1.0), 2), "Expected reinterpreted_batch_ndims"),
    (lambda: D.MixtureSameFamily(D.Normal(0.0, 1.0), D.Normal(rg.zeros(2), 1.0)), "Mixture distribution needs"),
    (lambda: D.MixtureSameFamily(D.Categorical(rg.ones(2)), rg.zeros(2)), "Component distribution needs"),
    (lambda: D.MixtureSameFamily(D.Categorical(rg.ones(3)), D.Normal(rg.zeros(2), 1.0)), "does not equal"),
    (lambda: D.MixtureSameFamily(D.Categorical(rg.ones(3, 2)), D.Normal(rg.zeros(4, 2), 1.0)), "not compatible"),
    (lambda: D.TransformedDistribution(D.Normal(0.0, 1.0), [3]), "transforms must be a Transform or a list"),
    (lambda: Distribution.set_default_validate_args(3), "must be True or False, got 3"),
    (lambda: D.Exponential(1.0).log_prob(rg.tensor(-1.0)), r"within the support \(GreaterThanEq\(lower_bound=0.0\)\)"),
    (lambda: D.Beta(2.0, 2.0).log_prob(rg.tensor(1.5)), "within the support"),
    (lambda: D.Gamma(2.0, 2.0).cdf(rg.tensor(-1.5)), "within the support"),
    (lambda: D.LogNormal(0.0, 1.0).cdf(rg.tensor(-1.5)), "within the support"),
    (lambda: D.Normal(0.0, 1.0).log_prob(0.5), "must be a Tensor, not float"),
    (lambda: D.Normal(rg.zeros(3), 1.0).log_prob(rg.zeros(2)), "not broadcastable"),
    (lambda: D.MultivariateNormal(rg.zeros(3), rg.eye(3)).log_prob(rg.zeros(2)), "must match event_shape"),
    (lambda: D.MultivariateNormal(rg.zeros(3), rg.eye(3)).log_prob(rg.tensor(0.0)), "must match event_shape"),
    (lambda: D.Categorical(rg.ones(3)).log_prob(rg.tensor(3)), "within the support"),
    (lambda: D.Bernoulli(0.5).log_prob(rg.tensor(0.5)), r"within the support \(Boolean\(\)\)"),
    (lambda: D.Multinomial(3, rg.ones(2)).log_prob(rg.tensor([2.0, 2.0])), "within the support"),
]  # fmt: skip


@pytest.mark.parametrize(("call", "message"), REFUSED, ids=[str(i) for i in range(len(REFUSED))])
def test_bad_parameters_and_values_are_refused_by_name(call: Callable[[], object], message: str):
    with pytest.raises(ValueError, match=message):
        call()


NOT_IMPLEMENTED: list[tuple[Callable[[], object], str]] = [
    (lambda: D.Multinomial(rg.tensor(3), rg.ones(2)), "total_count must be an int"),
    (lambda: D.Poisson(1.0).entropy(), "Poisson does not implement entropy"),
    (lambda: D.Bernoulli(0.5).rsample(), "Bernoulli does not implement rsample"),
    (lambda: D.Beta(1.0, 1.0).cdf(rg.tensor(0.5)), "Beta does not implement cdf"),
    (lambda: D.Beta(1.0, 1.0).icdf(rg.tensor(0.5)), "Beta does not implement icdf"),
    (lambda: D.Independent(D.Bernoulli(rg.ones(2) / 2), 1).enumerate_support(), "cartesian product"),
    (lambda: D.Binomial(rg.tensor([2.0, 3.0]), rg.tensor([0.5, 0.5])).entropy(), "Inhomogeneous total count"),
    (lambda: Distribution().mean, "Distribution does not implement mean"),
]


@pytest.mark.filterwarnings("ignore:.*does not define `arg_constraints`")
@pytest.mark.parametrize(("call", "message"), NOT_IMPLEMENTED, ids=[message for _, message in NOT_IMPLEMENTED])
def test_what_a_family_lacks_is_said_by_name(call: Callable[[], object], message: str):
    with pytest.raises(NotImplementedError, match=message):
        call()


def test_a_number_is_no_sample_shape():
    with pytest.raises(TypeError, match=r"sequence of lengths such as \(5,\)"):
        D.Normal(0.0, 1.0).sample(5)  # type: ignore[arg-type]


def test_distributions_survive_copies_and_pickles():
    for distribution in (
        D.LogNormal(rg.zeros(2), 1.0),
        D.Categorical(rg.ones(3)),
        D.Independent(D.Normal(rg.zeros(2), 1.0), 1),
    ):
        value = distribution.sample()
        for same in (copy.deepcopy(distribution), pickle.loads(pickle.dumps(distribution))):
            assert same.log_prob(value).tolist() == distribution.log_prob(value).tolist()


def test_transforms_can_be_modules_too():
    class Shift(rg.nn.Module, D.Transform):
        domain = codomain = D.constraints.real
        bijective = True

        def __init__(self) -> None:
            rg.nn.Module.__init__(self)
            D.Transform.__init__(self)
            self.by = rg.nn.Parameter(rg.tensor(1.0))

        def _call(self, x: rg.Tensor) -> rg.Tensor:
            return x + self.by

        __call__ = D.Transform.__call__

        def _inverse(self, y: rg.Tensor) -> rg.Tensor:
            return y - self.by

        def log_abs_det_jacobian(self, x: rg.Tensor, y: rg.Tensor) -> rg.Tensor:
            return rg.zeros_like(x)

    shift = Shift()
    D.TransformedDistribution(D.Normal(0.0, 1.0), shift).log_prob(rg.tensor(2.0)).backward()
    assert [parameter.grad.item() for parameter in shift.parameters()] == [1.0]


def test_validation_can_be_turned_off_for_one_distribution():
    assert D.Exponential(1.0, validate_args=False).log_prob(rg.tensor(-1.0)).item() == 1
    assert D.Normal(0.0, -1.0, validate_args=False).expand((2,))._validate_args is False


def test_validation_can_be_turned_off_by_default(default_restored: None):
    Distribution.set_default_validate_args(False)
    assert D.Normal(0.0, -1.0).scale.item() == -1
    with pytest.raises(ValueError):
        D.Normal(0.0, -1.0, validate_args=True)


def test_numbers_beside_integers_stay_what_they_are():
    assert D.Normal(rg.tensor([0, 1]), 0.5).scale.tolist() == [0.5, 0.5]
    assert D.Normal(rg.tensor([0, 1]), rg.tensor([1, 2])).sample().dtype == rg.float32
    assert D.Binomial(rg.tensor([3, 4]), 0.25).mean.tolist() == [0.75, 1.0]


def test_a_low_number_of_degrees_of_freedom_is_warned_of():
    with pytest.warns(UserWarning, match="Low df values"):
        D.Wishart(1.5, rg.eye(2))


class Triangle(Distribution):
    """A family of a user's, as programs for PyTorch define them."""

    arg_constraints = {"width": D.constraints.positive}
    support = D.constraints.real
    has_rsample = True

    def __init__(self, width: rg.Tensor, validate_args: bool | None = None) -> None:
        self.width = width
        super().__init__(width.shape, validate_args=validate_args)

    def rsample(self, sample_shape: tuple[int, ...] = ()) -> rg.Tensor:
        shape = self._extended_shape(sample_shape)
        return self.width * (rg.rand(shape) + rg.rand(shape) - 1)

    def log_prob(self, value: rg.Tensor) -> rg.Tensor:
        if self._validate_args:
            self._validate_sample(value)
        return (1 - (value / self.width).abs()).log() - self.width.log()


def test_families_of_users_have_what_the_base_class_gives():
    triangle = Triangle(rg.tensor([1.0, 2.0]))
    assert repr(triangle) == "Triangle(width: (2,))"
    assert triangle.expand((3, 2)).sample((4,)).shape == (4, 3, 2)
    assert D.Independent(triangle, 1).log_prob(rg.zeros(2)).shape == ()
    with pytest.raises(ValueError, match="parameter width"):
        Triangle(rg.tensor([-1.0]))


class Bare(Distribution):
    def log_prob(self, value: rg.Tensor) -> rg.Tensor:
        self._validate_sample(value)
        return value


def test_families_without_constraints_or_support_are_warned_of():
    with pytest.warns(UserWarning, match="does not define `arg_constraints`"):
        bare = Bare()
    with pytest.warns(UserWarning, match="does not define `support`"):
        bare.log_prob(rg.tensor(1.0))


def test_without_checks_a_point_outside_of_the_support_is_no_error():
    weibull = D.Weibull(rg.tensor([1.0]), rg.tensor([2.0]), validate_args=False)
    assert weibull.log_prob(rg.tensor([-1.0, 1.0])).shape == (2,)
    three, zero = rg.tensor(3.0), rg.zeros(())
    densities = [D.FisherSnedecor(rg.tensor(a), three, validate_args=False).log_prob(zero) for a in (0.5, 2.0, 5.0)]
    assert [densities[0].item(), densities[2].item()] == [float("inf"), float("-inf")]
    assert densities[1].isfinite()
