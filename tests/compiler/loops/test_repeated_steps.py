"""Python loops in compiled functions: repeated instructions become loops of the program."""

import numpy as np
import pytest

import retrograd as rg
from retrograd.func import grad

RNG = np.random.default_rng(0)


def drawn(*shape: int) -> rg.Tensor:
    return rg.tensor(RNG.standard_normal(shape) * 0.3)


def runge_kutta(u, p, h=0.01):
    def slope(u):
        return rg.stack([p[0] * u[0] - p[1] * u[0] * u[1], p[2] * u[0] * u[1] - p[3] * u[1]])

    k1 = slope(u)
    k2 = slope(u + 0.5 * h * k1)
    k3 = slope(u + 0.5 * h * k2)
    return u + h / 6 * (k1 + 2 * k2 + 2 * k3 + slope(u + h * k3))


def orbit(p, u):
    for _ in range(12):
        u = runge_kutta(u, p)
    return (u**2).sum()


def trajectory(p, u):
    points = []
    for _ in range(12):
        u = runge_kutta(u, p)
        points.append(u)
    return (rg.stack(points) * rg.arange(12.0, dtype=u.dtype)[:, None]).sum() + points[3].sum() * u[0]


def recurrent(weight, h, xs):
    for x in xs:
        h = (h @ weight + x).tanh() * 0.9 + h.sin() * 0.1 - h.exp().log1p() * 0.01
    return h.sum()


def heat(u):
    for _ in range(50):
        w = u.clone()
        w[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u = w * 0.99 + 0.001 * w.sin()
    return (u**2).sum()


def in_place(u):
    u = u * 1
    for _ in range(100):
        u[1:-1] += 0.1 * (u[2:] - 2 * u[1:-1] + u[:-2])
        u *= 0.99
    return (u**2).sum()


def one_step_without_the_state_before(p, u):
    before = u
    for step in range(30):
        u, before = runge_kutta(u, p) + 0.1 * (u if step == 10 else before).sin(), u
    return (u**2).sum()


def columns(p, u, xs):
    for step in range(12):
        u = runge_kutta(u, p) + xs[step, 1] * xs[step, ..., 0].sin()
    return (u**2).sum()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("function", "shapes", "loops"),
    [
        pytest.param(orbit, ((4,), (2,)), 1, marks=pytest.mark.slow),
        (grad(orbit, argnums=(0, 1)), ((4,), (2,)), 2),
        pytest.param(grad(trajectory, argnums=(0, 1)), ((4,), (2,)), 2, marks=pytest.mark.slow),
        pytest.param(recurrent, ((4, 4), (4,), (60, 4)), 1, marks=pytest.mark.slow),
        (grad(recurrent, argnums=(0, 1, 2)), ((4, 4), (4,), (60, 4)), 2),
        (heat, ((8,),), 1),
        pytest.param(in_place, ((8,),), 1, marks=pytest.mark.slow),
        (one_step_without_the_state_before, ((4,), (2,)), 2),
        (columns, ((4,), (2,), (12, 2, 2)), 1),
    ],
)
def test_repeated_steps_become_loops_with_the_numbers_of_eager_calls(function, shapes, loops):
    compiled = rg.compile(function)
    for _ in range(3):
        arguments = [drawn(*shape) for shape in shapes]
        for got, want in zip(_leaves(compiled(*arguments)), _leaves(function(*arguments)), strict=True):
            np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-10, atol=1e-12)
    (entry,) = compiled.entries
    assert sum(step.kind == "rolled" for step in entry.trace.program.instructions) == loops


def _leaves(found):
    return found if isinstance(found, tuple) else (found,)


@pytest.mark.slow
def test_steps_of_a_forward_and_a_backward_part_become_loops():
    compiled, u = rg.compile(orbit), drawn(2)
    for _ in range(3):
        p = drawn(4).requires_grad_()
        compiled(p, u).backward()
        assert rg.allclose(p.grad, grad(orbit)(p.detach(), u), rtol=1e-10)
    assert sum(step.kind == "rolled" for step in compiled.entries[0].trace.program.instructions) == 2


@pytest.mark.slow
@pytest.mark.parametrize("rolls", [True, False])
def test_equal_layers_in_training_are_rolled_unless_their_weights_are_large(rolls, monkeypatch):
    monkeypatch.setattr("retrograd.compiler.loops.repeated_steps.MIN_INSTRUCTIONS", 60)
    if not rolls:
        monkeypatch.setattr("retrograd.compiler.loops.repeated_steps.MAX_COPIED_BYTES", 100)
    losses = []
    for compiles in (False, True):
        rg.manual_seed(0)
        net = rg.nn.Sequential(*[m for _ in range(8) for m in (rg.nn.Linear(6, 6), rg.nn.Tanh(), rg.nn.LayerNorm(6))])
        optimizer = rg.optim.SGD(net.parameters(), lr=0.1)

        def step(x, net=net, optimizer=optimizer):
            optimizer.zero_grad()
            loss = net(x).pow(2).mean()
            loss.backward()
            optimizer.step()
            return loss.detach()

        run = rg.compile(step) if compiles else step
        losses.append([run(rg.full((3, 6), 0.1 * k)).item() for k in range(1, 4)])
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
    (entry,) = run.entries
    assert any(step.kind == "rolled" for step in entry.trace.program.instructions) is rolls
