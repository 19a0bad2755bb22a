"""Activation functions at their corners, of integers, in place, and in blocks."""

import numpy as np
import pytest

import retrograd as rg
from tests.helpers.values import gradients

F = rg.nn.functional


def test_the_slope_of_hardsigmoid_is_a_sixth_in_float64_where_pytorch_rounds_it_to_float32():
    assert gradients(F.hardsigmoid, [-1.0, 2.0])[0].tolist() == [1 / 6, 1 / 6]


def test_hardsigmoid_at_its_corners():
    (g,) = gradients(F.hardsigmoid, [-3.0, 3.0, 0.0])
    np.testing.assert_allclose(g, [0, 0, 1 / 6])


def test_hardtanh_of_integers():
    counts = rg.tensor([-3, 0, 1, 9])
    assert F.hardtanh(counts).dtype is rg.int64 and F.hardtanh(counts).tolist() == [-1, 0, 1, 1]
    assert F.hardtanh(counts, -2.5, 1.5).tolist() == [-2, 0, 1, 1]  # the bounds, cut
    assert F.relu6(counts.to(rg.uint8)).dtype is rg.uint8
    for refused in (counts.to(rg.uint8), counts.to(rg.bool)):
        with pytest.raises(NotImplementedError, match="hardtanh"):
            F.hardtanh(refused)
    with pytest.raises(NotImplementedError, match="bool"):
        F.relu6(counts > 0)


@pytest.mark.parametrize(
    "call",
    [
        F.relu,
        F.relu6,
        F.elu,
        F.selu,
        F.celu,
        F.leaky_relu,
        F.silu,
        F.mish,
        F.hardswish,
        F.hardsigmoid,
        F.hardtanh,
        lambda x, inplace=False: F.threshold(x, 0.2, -1.0, inplace=inplace),
    ],
)
def test_activations_in_place(call):
    values = np.array([-1.5, 0.5, 2.0])
    results = []
    for inplace in (False, True):
        x = rg.Tensor(values, requires_grad=True)
        y = x * 2
        z = call(y, inplace=inplace)
        assert (z is y) == inplace
        (z * z).sum().backward()
        results.append((z.tolist(), x.grad.tolist()))
    assert results[0] == results[1]


def test_block_by_block_is_the_same(monkeypatch):
    from retrograd.ops.table import blocks

    x = np.linspace(-5, 5, 5000).reshape(50, 100)
    whole = [f(rg.Tensor(x)).numpy() for f in (rg.erf, F.gelu, F.silu, F.mish)]
    monkeypatch.setattr(blocks, "BLOCK", 64)
    parts = [f(rg.Tensor(x)).numpy() for f in (rg.erf, F.gelu, F.silu, F.mish)]
    for a, b in zip(whole, parts, strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-15)
