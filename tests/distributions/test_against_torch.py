"""Every family against PyTorch's: scores, moments, gradients, shapes and how it is shown."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from tests.distributions.families import EVERY_FAMILY, EXAMPLES, Example
from tests.helpers.together import check_each

torch = pytest.importorskip("torch")

# What PyTorch gets wrong, or does not do: tests against SciPy and of moments are for these.
KNOWN_DEFECTS = {
    # PyTorch's formula takes the logarithm of a negative number.
    ("Kumaraswamy", "mode"),
    # For concentrations below 1 the density is highest at 0, where PyTorch gives NaN.
    ("Weibull", "mode"),
    # PyTorch sums over the batch.
    ("Multinomial", "entropy"),
    ("Multinomial", "perplexity"),
}


def close(actual: Any, expected: Any, name: str = "", rtol: float = 1e-9) -> None:
    np.testing.assert_allclose(
        actual.detach().numpy(), expected.detach().numpy(), rtol=rtol, atol=1e-11, err_msg=name, equal_nan=True
    )
    assert actual.dtype.name == str(expected.dtype).rpartition(".")[2]


def called(function: Any) -> Any:
    """What the function returns; None where it is not implemented."""
    try:
        return function()
    except NotImplementedError:
        return None


def test_every_family_has_an_example():
    assert {example.family for example in EXAMPLES} == EVERY_FAMILY


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_moments_and_entropy_are_those_of_torch(example: Example):
    def of(library: Any, name: str) -> Any:
        value = getattr(example.make(library)[0], name)
        return value() if callable(value) else value

    def check(name: str) -> None:
        expected = called(lambda: of(torch, name))
        if expected is not None:
            close(of(rg, name), expected, rtol=1e-6 if example.family == "VonMises" else 1e-9)

    names = ["mean", "mode", "variance", "stddev", "entropy", "perplexity"]
    check_each(check, [name for name in names if (example.family, name) not in KNOWN_DEFECTS])


COMPARED = [example for example in EXAMPLES if example.family != "GeneralizedPareto"]  # PyTorch's takes float32 only


def tolerance(example: Example) -> float:
    """PyTorch's Bessel functions, of VonMises, have six digits."""
    return 1e-5 if example.family == "VonMises" else 1e-8


@pytest.mark.parametrize("example", COMPARED, ids=str)
def test_log_prob_and_its_gradients_are_those_of_torch(example: Example):
    values = example.values()
    ours, our_tensors = example.make(rg, requires_grad=True)
    theirs, their_tensors = example.make(torch, requires_grad=True)
    x, y = rg.tensor(values), torch.tensor(values)
    continuous = not example.is_discrete
    if continuous:
        x.requires_grad_()
        y.requires_grad_()
    actual, expected = ours.log_prob(x), theirs.log_prob(y)
    rtol = tolerance(example)
    close(actual, expected, rtol=rtol)
    actual.sum().backward()
    expected.sum().backward()
    for name, tensor, reference in zip(example.parameters, our_tensors, their_tensors):
        if reference.grad is None:
            assert tensor.grad is None
        elif name == "scale_tril":  # Above the diagonal PyTorch's gradients are what its solvers happen to give.
            np.testing.assert_allclose(tensor.grad.tril().numpy(), reference.grad.tril().numpy(), rtol=1e-7, atol=1e-9)
        elif name in ("covariance_matrix", "precision_matrix"):
            # Of a symmetric matrix only the symmetric part of a gradient means anything.
            both = [(g + g.mT).numpy() for g in (tensor.grad, reference.grad)]
            np.testing.assert_allclose(*both, rtol=1e-7, atol=1e-9)
        else:
            np.testing.assert_allclose(tensor.grad.numpy(), reference.grad.numpy(), rtol=rtol, atol=1e-9, err_msg=name)
    if y.grad is None:
        assert x.grad is None
    else:
        np.testing.assert_allclose(x.grad.numpy(), y.grad.numpy(), rtol=rtol, atol=1e-9)


@pytest.mark.parametrize("example", COMPARED, ids=str)
def test_cdf_and_icdf_are_those_of_torch(example: Example):
    ours, theirs = example.make(rg)[0], example.make(torch)[0]
    values, levels = example.values(), np.linspace(0.01, 0.99, 12).reshape(4, 3)
    compared = False
    for name, x in (("cdf", values), ("icdf", levels)):
        expected = called(lambda name=name, x=x: getattr(theirs, name)(torch.tensor(x)))
        if expected is not None:
            # Near 1/2 PyTorch's continuous Bernoulli leaves out what depends on the parameter.
            rtol = 1e-3 if example.family == "ContinuousBernoulli" else 1e-7
            close(getattr(ours, name)(rg.tensor(x)), expected, name, rtol=rtol)
            compared = True
    if not compared:
        pytest.skip("PyTorch has neither")


@pytest.mark.filterwarnings("ignore:Singular sample detected")  # PyTorch warns of Wishart samples that are regular
@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_shapes_and_flags_are_those_of_torch(example: Example):
    ours, theirs = example.make(rg)[0], example.make(torch)[0]
    assert tuple(ours.batch_shape) == tuple(theirs.batch_shape)
    assert tuple(ours.event_shape) == tuple(theirs.event_shape)
    assert ours.has_enumerate_support == theirs.has_enumerate_support
    if example.family == "VonMises":  # PyTorch has no rsample
        assert ours.has_rsample and not theirs.has_rsample
    elif example.family != "LogitRelaxedBernoulli":  # PyTorch has its rsample, and forgets to say so
        assert ours.has_rsample == theirs.has_rsample
    assert tuple(ours.sample((2, 1)).shape) == tuple(theirs.sample((2, 1)).shape)
    assert ours.sample().dtype.name == str(theirs.sample().dtype).removeprefix("torch.")
    assert ours.support.event_dim == theirs.support.event_dim
    assert ours.support.is_discrete == theirs.support.is_discrete


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
def test_families_are_shown_as_torch_shows_them(example: Example):
    shown = repr(example.make(torch)[0])
    if shown == f"{example.family}()" and "()" not in repr(example.make(rg)[0]):
        pytest.skip("PyTorch shows no parameters of families that delegate to others")
    plain = re.sub(r"torch\.Size\(\[([\d, ]*)\]\)", lambda size: str(rg.Size(map(int, size[1].split(", ")))), shown)
    assert repr(example.make(rg)[0]) == plain.replace(", dtype=torch.float64", ", dtype=float64")


@pytest.mark.parametrize("example", EXAMPLES, ids=str)
@pytest.mark.parametrize("expand", [True, False])
def test_enumerated_supports_are_those_of_torch(example: Example, expand: bool):
    ours, theirs = example.make(rg)[0], example.make(torch)[0]
    if not theirs.has_enumerate_support:
        with pytest.raises(NotImplementedError):
            ours.enumerate_support(expand)
        return
    np.testing.assert_array_equal(ours.enumerate_support(expand).numpy(), theirs.enumerate_support(expand).numpy())


@pytest.mark.parametrize("example", COMPARED, ids=str)
def test_expanded_distributions_score_like_those_of_torch(example: Example):
    ours, theirs = example.make(rg)[0], example.make(torch)[0]
    shape = (2, 2, *ours.batch_shape)
    ours, theirs = ours.expand(shape), theirs.expand(shape)
    assert tuple(ours.batch_shape) == shape and tuple(ours.event_shape) == tuple(theirs.event_shape)
    rg.manual_seed(1)
    values = ours.sample((3,))
    assert values.shape == (3, *shape, *ours.event_shape)
    close(ours.log_prob(values), theirs.log_prob(torch.tensor(values.numpy())), rtol=tolerance(example))


@pytest.mark.parametrize("example", [e for e in EXAMPLES if e.family not in ("Wishart",)], ids=str)
def test_float32_scores_are_those_of_float64(example: Example):
    values = example.values()
    wide = example.make(dtype="float64")[0].log_prob(rg.tensor(values)).numpy()
    distribution = example.make(dtype="float32")[0]
    x = rg.tensor(values) if values.dtype == np.int64 else rg.tensor(values.astype(np.float32))
    if distribution.event_shape and not distribution.support.is_discrete:
        distribution._validate_args = False  # rounding may leave a simplex
    narrow = distribution.log_prob(x)
    assert narrow.dtype == np.float32
    np.testing.assert_allclose(narrow.numpy(), wide, rtol=3e-3, atol=3e-3)
