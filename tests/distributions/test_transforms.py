"""Transforms: inverses, log-determinants, shapes, equality, caches; and the registries that lead to them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import distributions
from retrograd.distributions import biject_to, constraints, transform_to, transforms
from retrograd.distributions.transforms import (
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

f64 = rg.float64
VECTOR = rg.tensor([0.3, -1.2, 0.8], dtype=f64)
POSITIVE = rg.tensor([0.3, 1.2, 2.8], dtype=f64)
SCALES = rg.tensor([0.5, 2.0, -3.0], dtype=f64)

ELEMENTWISE: list[tuple[Transform, rg.Tensor]] = [
    (ExpTransform(), VECTOR),
    (ExpTransform().inv, POSITIVE),
    (PowerTransform(2.5), POSITIVE),
    (PowerTransform(rg.tensor([-1.0, 0.5, 3.0], dtype=f64)), POSITIVE),
    (SigmoidTransform(), VECTOR),
    (SoftplusTransform(), VECTOR),
    (TanhTransform(), VECTOR),
    (AffineTransform(1.0, -2.0), VECTOR),
    (AffineTransform(VECTOR, SCALES), VECTOR),
    (ComposeTransform([AffineTransform(0.5, 2.0), SigmoidTransform(), AffineTransform(-1.0, 2.0)]), VECTOR),
    (CumulativeDistributionTransform(distributions.Normal(rg.tensor(0.1, dtype=f64), 2.0)), VECTOR),
    (identity_transform, VECTOR),
    (CatTransform([ExpTransform(), identity_transform], lengths=[1, 2]), VECTOR),
    (StackTransform([ExpTransform(), SigmoidTransform(), TanhTransform()]), VECTOR),
]


@pytest.mark.parametrize(("transform", "x"), ELEMENTWISE, ids=lambda value: type(value).__name__)
def test_elementwise_transforms_have_inverse_and_derivative(transform: Transform, x: rg.Tensor):
    x = x.clone().requires_grad_()
    y = transform(x)
    np.testing.assert_allclose(transform.inv(y).detach().numpy(), x.detach().numpy(), rtol=1e-7)
    log_det = transform.log_abs_det_jacobian(x, y)
    (slope,) = rg.autograd.grad(y.sum(), x)
    np.testing.assert_allclose(log_det.detach().numpy(), slope.abs().log().numpy(), rtol=1e-7, atol=1e-12)
    inverse_log_det = transform.inv.log_abs_det_jacobian(y, x)
    np.testing.assert_allclose(inverse_log_det.detach().numpy(), -log_det.detach().numpy(), rtol=1e-7, atol=1e-12)
    assert bool(transform.codomain.check(y).all()) and bool(transform.domain.check(x).all())
    assert transform.forward_shape(x.shape) == y.shape and transform.inverse_shape(y.shape) == x.shape
    assert transform.bijective and transform.inv.inv is transform


def jacobian(transform: Any, x: rg.Tensor, chosen: Any) -> np.ndarray:
    """The Jacobian of chosen elements of the output."""
    rows = []
    for index in range(chosen(transform(x)).numel()):
        leaf = x.clone().requires_grad_()
        rows.append(rg.autograd.grad(chosen(transform(leaf)).flatten()[index], leaf)[0].flatten().numpy())
    return np.stack(rows)


def test_stick_breaking_maps_onto_the_simplex_with_its_determinant():
    transform = StickBreakingTransform()
    y = transform(VECTOR)
    assert y.shape == (4,) and bool(constraints.simplex.check(y))
    np.testing.assert_allclose(transform.inv(y).numpy(), VECTOR.numpy(), rtol=1e-9)
    expected = np.linalg.slogdet(jacobian(transform, VECTOR, lambda y: y[:-1]))[1]
    np.testing.assert_allclose(transform.log_abs_det_jacobian(VECTOR, y).item(), expected, rtol=1e-9)


def test_correlation_factors_have_their_determinant():
    transform = CorrCholeskyTransform()
    x = rg.tensor([0.3, -0.5, 0.2, 0.7, -0.1, 0.4], dtype=f64)
    y = transform(x)
    assert y.shape == (4, 4) and bool(constraints.corr_cholesky.check(y))
    np.testing.assert_allclose(transform.inv(y).numpy(), x.numpy(), rtol=1e-9)
    lower = np.tril_indices(4, -1)
    expected = np.linalg.slogdet(jacobian(transform, x, lambda y: y[lower]))[1]
    np.testing.assert_allclose(transform.log_abs_det_jacobian(x, y).item(), expected, rtol=1e-9)
    assert transform.forward_shape((5, 6)) == (5, 4, 4) and transform.inverse_shape((5, 4, 4)) == (5, 6)
    for call, message in (
        (lambda: transform.forward_shape((4,)), "flattened lower-diagonal"),
        (lambda: transform.inverse_shape((2, 3)), "not square"),
        (lambda: transform.inverse_shape((2,)), "Too few dimensions"),
    ):
        with pytest.raises(ValueError, match=message):
            call()


def test_matrix_transforms_lead_to_their_regions_and_back():
    x = rg.tensor(np.random.default_rng(0).normal(size=(2, 3, 3)))
    factor = LowerCholeskyTransform()(x)
    assert bool(constraints.lower_cholesky.check(factor).all())
    np.testing.assert_allclose(LowerCholeskyTransform().inv(factor).numpy(), x.tril().numpy(), rtol=1e-9)
    definite = PositiveDefiniteTransform()(x)
    assert bool(constraints.positive_definite.check(definite).all())
    np.testing.assert_allclose(
        PositiveDefiniteTransform().inv(definite).numpy(), x.tril().numpy(), rtol=1e-7, atol=1e-9
    )


def test_transforms_that_are_not_bijective_have_a_pseudoinverse():
    for transform in (SoftmaxTransform(), AbsTransform()):
        y = transform(VECTOR)
        assert not transform.bijective
        np.testing.assert_allclose(transform(transform.inv(y)).numpy(), y.numpy(), rtol=1e-9)


def test_reshaping_and_independence_change_the_event():
    reshape = ReshapeTransform((2, 3), (6,))
    x = rg.zeros(4, 2, 3)
    assert reshape(x).shape == (4, 6) and reshape.inv(reshape(x)).shape == (4, 2, 3)
    assert reshape.log_abs_det_jacobian(x, reshape(x)).shape == (4,)
    with pytest.raises(ValueError, match="different numbers of elements"):
        ReshapeTransform((2,), (3,))
    with pytest.raises(ValueError, match="Shape mismatch"):
        reshape.forward_shape((3, 2))
    independent = IndependentTransform(ExpTransform(), 1)
    assert independent.log_abs_det_jacobian(x, x.exp()).shape == (4, 2)
    assert independent.domain.event_dim == 1
    with pytest.raises(ValueError, match="Too few dimensions"):
        independent(rg.tensor(1.0))


def test_compositions_sum_the_log_determinants_over_the_event():
    chain = ComposeTransform([ExpTransform(), AffineTransform(0.0, 2.0, event_dim=1), ReshapeTransform((6,), (2, 3))])
    assert chain.domain.event_dim == 1 and chain.codomain.event_dim == 2
    x = rg.tensor(np.random.default_rng(0).normal(size=(4, 6)))
    y = chain(x)
    expected = x.sum(-1) + 6 * np.log(2)
    np.testing.assert_allclose(chain.log_abs_det_jacobian(x, y).numpy(), expected.numpy(), rtol=1e-9)
    np.testing.assert_allclose(chain.inv.log_abs_det_jacobian(y, x).numpy(), -expected.numpy(), rtol=1e-9)


def test_a_cache_returns_the_tensor_that_was_transformed():
    transform = TanhTransform(cache_size=1)
    x = rg.tensor([30.0])
    y = transform(x)
    assert transform.inv(y) is x and transform(x) is y
    assert bool(TanhTransform().inv(y).isinf())
    assert transform.with_cache(0)._cache_size == 0 and transform.with_cache(1) is transform
    chain = ComposeTransform([TanhTransform(), ExpTransform()]).with_cache(1)
    assert chain.inv(chain(x)) is x
    with pytest.raises(ValueError, match="cache_size must be 0 or 1"):
        ExpTransform(cache_size=2)


def test_transforms_are_equal_by_kind_and_parameters():
    assert ExpTransform() == ExpTransform() and ExpTransform() != SigmoidTransform()
    assert ExpTransform().inv == ExpTransform().inv and ExpTransform().inv != ExpTransform()
    assert AffineTransform(1.0, VECTOR) == AffineTransform(1.0, VECTOR.clone())
    assert AffineTransform(1.0, 2.0) != AffineTransform(1.0, 3.0)
    assert ComposeTransform([ExpTransform()]) == ComposeTransform([ExpTransform()])
    assert PowerTransform(2.0) != PowerTransform(3.0)
    normal = distributions.Normal(0.0, 1.0)
    assert CumulativeDistributionTransform(normal) != CumulativeDistributionTransform(normal)


def test_signs_tell_whether_transforms_increase():
    assert ExpTransform().sign == 1 and AffineTransform(0.0, -2.0).sign == -1
    assert ComposeTransform([AffineTransform(0.0, -1.0), AffineTransform(0.0, -1.0)]).sign == 1
    assert AffineTransform(0.0, SCALES).sign.tolist() == [1, 1, -1]
    with pytest.raises(NotImplementedError, match="SoftmaxTransform does not implement sign"):
        SoftmaxTransform().sign


@pytest.mark.parametrize("dim", [0, 1, -1])
def test_pieces_are_transformed_and_their_determinants_joined(dim: int):
    torch = pytest.importorskip("torch")
    x = np.random.default_rng(0).normal(size=(3, 3))
    results = []
    for library in (rg, torch):
        t = library.distributions.transforms
        value = library.tensor(x)
        for transform in (
            t.CatTransform([t.ExpTransform(), t.AffineTransform(1.0, 2.0)], dim, [1, 2]),
            t.StackTransform([t.ExpTransform(), t.identity_transform, t.TanhTransform()], dim),
        ):
            y = transform(value)
            results.append((y, transform.inv(y), transform.log_abs_det_jacobian(value, y)))
    for ours, theirs in zip(results[:2], results[2:]):
        for a, b in zip(ours, theirs):
            np.testing.assert_allclose(a.numpy(), b.numpy(), rtol=1e-9)


def test_pieces_that_do_not_fit_are_refused():
    with pytest.raises(ValueError, match="must have length 2"):
        CatTransform([ExpTransform(), ExpTransform()])(VECTOR)
    with pytest.raises(ValueError, match="out of range"):
        StackTransform([ExpTransform()] * 3, dim=1)(VECTOR)
    with pytest.raises(TypeError, match="sequence of Transforms"):
        StackTransform([1])  # type: ignore[list-item]
    with pytest.raises(ValueError, match="1 transforms and 2 lengths"):
        CatTransform([ExpTransform()], lengths=[1, 2])


REGIONS = [
    constraints.real,
    constraints.positive,
    constraints.nonnegative,
    constraints.greater_than(2.0),
    constraints.greater_than_eq(-1.0),
    constraints.less_than(-3.0),
    constraints.unit_interval,
    constraints.interval(-2.0, 5.0),
    constraints.half_open_interval(1.0, 2.0),
    constraints.simplex,
    constraints.corr_cholesky,
    constraints.independent(constraints.positive, 1),
    constraints.cat([constraints.positive, constraints.unit_interval], lengths=[1, 2]),
    constraints.stack([constraints.positive, constraints.real, constraints.unit_interval]),
]


@pytest.mark.parametrize("constraint", REGIONS, ids=repr)
@pytest.mark.parametrize("registry", [biject_to, transform_to], ids=["biject_to", "transform_to"])
def test_registered_transforms_lead_into_the_region(registry: Any, constraint: constraints.Constraint):
    transform = registry(constraint)
    y = transform(VECTOR)
    assert bool(constraint.check(y).all())
    if registry is biject_to:
        assert transform.bijective
        np.testing.assert_allclose(transform.inv(y).numpy(), VECTOR.numpy(), rtol=1e-6)
        transform.log_abs_det_jacobian(VECTOR, y)


def test_constraints_without_a_transform_are_refused_and_own_ones_registered():
    with pytest.raises(NotImplementedError, match="Cannot transform Boolean constraints"):
        biject_to(constraints.boolean)
    with pytest.raises(TypeError, match="Expected constraint"):
        biject_to.register(3, lambda c: ExpTransform())  # type: ignore[arg-type]

    class Even(constraints.Constraint):
        pass

    registry = distributions.ConstraintRegistry()

    @registry.register(Even)
    def _even(constraint: Even) -> Transform:
        return ExpTransform()

    assert registry(Even()) == ExpTransform()


def test_transformed_distributions_take_the_shape_of_their_transforms():
    base = distributions.Normal(rg.zeros(3), 1.0)
    broadcast = distributions.TransformedDistribution(base, AffineTransform(rg.zeros(2, 1), 1.0))
    assert broadcast.batch_shape == (2, 3) and broadcast.sample().shape == (2, 3)
    simplex = distributions.TransformedDistribution(base, [StickBreakingTransform()])
    assert simplex.batch_shape == () and simplex.event_shape == (4,)
    assert simplex.log_prob(simplex.sample((5,))).shape == (5,)
    reshaped = distributions.TransformedDistribution(base.expand((2, 3)), ReshapeTransform((3,), (3, 1)))
    assert reshaped.batch_shape == (2,) and reshaped.event_shape == (3, 1)
    assert reshaped.expand((4, 2)).sample().shape == (4, 2, 3, 1)
    with pytest.raises(ValueError, match="size at least 1"):
        distributions.TransformedDistribution(distributions.Normal(0.0, 1.0), StickBreakingTransform())
    assert set(transforms.__all__) <= set(distributions.__all__)
