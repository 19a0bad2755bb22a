"""Gradients that lie in memory as the slices of one array, and are joined without a copy."""

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.core.arrays import adjacent


def heads(x):
    n, t, c = x.shape
    q, k, v = x.view(n, t, 3, 2, c // 6).permute(2, 0, 3, 1, 4).unbind(0)
    return F.scaled_dot_product_attention(q, k, v, is_causal=True)


def pieces(x):
    n, t, c = x.shape
    q, k, v = (y.view(n, t, 2, c // 6).transpose(1, 2) for y in x.split(c // 3, dim=2))
    return F.scaled_dot_product_attention(q, k, v)


def copies(attention, x):
    """The same of arrays that have nothing to do with each other in memory."""

    def apart(*parts, dim):
        return tuple(part.contiguous() for part in parts)

    n, t, c = x.shape
    if attention is heads:
        parts = apart(*x.view(n, t, 3, 2, c // 6).permute(2, 0, 3, 1, 4).unbind(0), dim=0)
        return F.scaled_dot_product_attention(*parts, is_causal=True)
    parts = apart(*x.split(c // 3, dim=2), dim=2)
    q, k, v = (y.view(n, t, 2, c // 6).transpose(1, 2).contiguous() for y in parts)
    return F.scaled_dot_product_attention(q, k, v)


def counted(monkeypatch):
    found = []
    view = adjacent._as_one

    def run(*xs, **kwargs):
        found.append(view(*xs, **kwargs))
        return found[-1]

    monkeypatch.setattr(adjacent, "_as_one", run)
    return found


@pytest.mark.parametrize("attention", [heads, pieces])
def test_gradients_of_attention_are_joined_without_a_copy(monkeypatch, attention):
    joined = counted(monkeypatch)
    x = rg.randn(2, 16, 24, requires_grad=True)
    weight = rg.randn(*attention(x).shape)
    (attention(x) * weight).sum().backward()
    assert len(joined) == 1 and joined[0].base is not None and joined[0].flags.writeable
    y = x.detach().clone().requires_grad_()
    (copies(attention, y) * weight).sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), y.grad.numpy())


@pytest.mark.parametrize("attention", [heads, pieces])
def test_gradients_that_are_kept_are_not_those_that_go_on(attention):
    x = rg.randn(2, 16, 24, requires_grad=True)
    y = x * 1
    parts = []

    def seen(g):
        parts.append(g.clone())

    q = y.split(8, dim=2)[0]
    q.register_hook(seen)
    q.retain_grad()
    (attention(y).sum() + (q * q).sum()).backward()
    kept = q.grad.clone()
    x.grad.zero_()
    np.testing.assert_array_equal(q.grad.numpy(), kept.numpy())
    np.testing.assert_array_equal(parts[0].numpy(), kept.numpy())


def test_a_cotangent_of_the_users_is_not_the_gradient_of_what_it_came_to():
    x = rg.randn(3, 4, requires_grad=True)
    g = rg.randn(3, 4)
    before = g.clone()
    rg.autograd.backward(x.unbind(0), g.unbind(0))
    np.testing.assert_array_equal(x.grad.numpy(), before.numpy())
    x.grad.add_(1)
    np.testing.assert_array_equal(g.numpy(), before.numpy())


@pytest.mark.parametrize(
    "parts",
    [
        lambda g: [g[0], g[2], g[1]],  # in another order
        lambda g: [g[2], g[1], g[0]],
        lambda g: [g[0], g[0], g[0]],
        lambda g: [g[0, :2], g[0, 1:3], g[0, 2:4]],  # that overlap
        lambda g: [g[0], g[1], g[2].copy()],
        lambda g: [g[0, ::2], g[1, ::2], g[2, ::2]],  # with gaps
    ],
)
def test_what_does_not_lie_so_is_stacked(parts):
    g = np.random.default_rng(0).standard_normal((3, 4))
    xs = tuple(parts(g))

    def stack(*xs, dim):
        return np.stack(xs, dim)

    found = adjacent.joined(xs, 0, stack, new=True)
    np.testing.assert_array_equal(found, np.stack(xs))
    assert not np.shares_memory(found, g)


@pytest.mark.slow
@pytest.mark.parametrize("attention", [heads, pieces])
def test_a_compiled_step_joins_them_as_well(attention):
    rng = np.random.default_rng(0)
    xs = [rg.tensor(rng.standard_normal((2, 16, 24)).astype(np.float32)) for _ in range(4)]
    layer = rg.nn.Linear(24, 24)

    def step(x):
        layer.zero_grad()
        attention(layer(x)).square().sum().backward()
        return layer.weight.grad.clone()

    compiled = rg.compile(step)
    for x in xs:
        np.testing.assert_allclose(compiled(x).numpy(), step(x).numpy(), rtol=1e-5, atol=1e-5)
