"""linear_cross_entropy in chunks of classes: the same as of whole logits, in less memory."""

# ruff: noqa: B023

import itertools
import tracemalloc

import numpy as np
import pytest

import retrograd as rg
from retrograd.nn import functional as F
from retrograd.ops.nn.losses import linear_cross_entropy as module


@pytest.fixture
def chunked(monkeypatch):
    """Call a function with logits in chunks of three classes, and with whole logits."""

    def both(function):
        found = []
        for least in (0, 1 << 40):
            monkeypatch.setattr(module, "MIN_CHUNKED", least)
            monkeypatch.setattr(module, "CHUNK", 18)
            found.append(function())
        return zip(*found, strict=True)

    return both


def arguments(dtype=rg.float64):
    rg.manual_seed(0)
    x, w, b = [rg.randn(*shape, dtype=dtype, requires_grad=True) for shape in ((6, 5), (11, 5), (11,))]
    return x, w, b, rg.tensor([0, 10, 3, -100, 5, 3])


@pytest.mark.parametrize("dtype", [rg.float64, rg.float32])
def test_values_and_derivatives_are_those_of_whole_logits(chunked, dtype):
    x, w, b, t = arguments(dtype)
    class_weight, tolerance = rg.rand(11, dtype=dtype), 1e-10 if dtype == rg.float64 else 2e-4
    options = itertools.product(("mean", "sum", "none"), (None, b), (None, class_weight), (0.0, 0.2))
    for reduction, bias, weight, smoothing in options:
        given = (x, w) if bias is None else (x, w, b)

        def loss(x, w, b=None):
            return F.linear_cross_entropy(
                x,
                w,
                t,
                linear_bias=b,
                weight=weight,
                reduction=reduction,
                label_smoothing=smoothing,
            )

        def all_of_it():
            y = loss(*given)
            first = rg.autograd.grad((y * (y.detach() + 1)).sum(), given, create_graph=True)
            second = rg.autograd.grad(sum(g.sin().sum() for g in first), given)
            return y, *first, *second, rg.func.jvp(loss, given, given)[1]

        for found, wanted in chunked(all_of_it):
            assert rg.allclose(found, wanted, rtol=tolerance, atol=tolerance), (reduction, smoothing)


def test_only_the_wanted_gradients_are_computed(chunked):
    x, w, b, t = arguments()
    for needs in itertools.product((False, True), repeat=3):
        given = [value.detach().requires_grad_(need) for value, need in zip((x, w, b), needs, strict=True)]
        wanted = [value for value in given if value.requires_grad]

        def gradients():
            loss = F.linear_cross_entropy(given[0], given[1], t, linear_bias=given[2])
            return rg.autograd.grad(loss, wanted) if wanted else (loss,)

        assert all(rg.allclose(one, two) for one, two in chunked(gradients))


def test_classes_that_cannot_occur_and_what_is_not_finite(chunked):
    """A chunk without a finite logit counts nothing; an infinite or missing logit gives what whole logits give."""
    x, w, b, t = arguments()
    masked = b.detach().clone()
    masked[6:9] = -np.inf
    for bias in (masked, rg.full((11,), -np.inf, dtype=rg.float64), b + np.inf, b * np.nan):

        def rows():
            return (F.linear_cross_entropy(x, w, rg.tensor([0, 10, 3, 2, 5, 3]), linear_bias=bias, reduction="none"),)

        ((found, wanted),) = chunked(rows)
        assert rg.allclose(found, wanted, equal_nan=True)


def test_vmap_and_compiled_programs(chunked):
    x, w, _, t = arguments()

    def rows(x, w):
        return F.linear_cross_entropy(x, w, t, reduction="none")

    def batched():
        return rg.autograd.grad(rows(x, w), (x, w), rg.eye(6, dtype=rg.float64), is_grads_batched=True)

    def step(x, w):
        loss = F.linear_cross_entropy(x, w, t)
        return loss, *rg.autograd.grad(loss, (x, w))

    def compiled():
        program = rg.compile(step)
        return [program(x, w) for _ in range(3)][-1]

    for function in (batched, compiled, lambda: (rg.func.vmap(rows, (0, None))(rg.stack([x, 2 * x]), w),)):
        assert all(rg.allclose(found, wanted) for found, wanted in chunked(function))


def test_errors_are_those_of_whole_logits(chunked):
    x, w, _, t = arguments()
    for call in (
        lambda: F.linear_cross_entropy(x, w, t + 11),
        lambda: F.linear_cross_entropy(x, w, t[:5]),
        lambda: F.linear_cross_entropy(x, w, t, weight=rg.ones(3)),
        lambda: F.linear_cross_entropy(x, w, t, reduction="all"),
        lambda: F.linear_cross_entropy(x, w, t, label_smoothing=2.0),
    ):

        def error():
            with pytest.raises((RuntimeError, ValueError, IndexError)) as caught:
                call()
            return (f"{type(caught.value).__name__}: {caught.value}",)

        ((found, wanted),) = chunked(error)
        assert found == wanted


def test_large_logits_are_never_in_memory_at_once():
    x, w = rg.randn(256, 16, requires_grad=True), rg.randn(1 << 16, 16, requires_grad=True)
    t = rg.arange(256)
    tracemalloc.start()
    F.linear_cross_entropy(x, w, t).backward()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 0.5 * 4 * 256 * (1 << 16)  # half of the logits
