"""What a compiled step does to Tensors, modes and optimizers from outside: in replays the same as in eager calls."""

import pytest

import retrograd as rg
from retrograd import nn

Optimizers = pytest.mark.parametrize("kind", ["SGD", "Adam"])


@Optimizers
@pytest.mark.parametrize("own", [True, False], ids=["own", "other"])
def test_a_backward_after_a_step_adds_to_the_gradient_that_is_there(kind, own):
    def losses(compiled):
        w, x = rg.ones(3, requires_grad=True), rg.ones(3, requires_grad=True)
        optimizer = getattr(rg.optim, kind)([w] if own else [x.clone().detach().requires_grad_()], lr=0.1)

        def step(x):
            w.grad = x.grad = None
            (w * x * 2).sum().backward()
            optimizer.step()
            (w * x * 3).sum().backward()

        step = rg.compile(step) if compiled else step
        found = []
        for _ in range(4):
            step(x)
            found.append((w.grad.tolist(), x.grad.tolist(), w.tolist()))
        return found

    assert losses(True) == losses(False)


def test_a_discriminator_also_gets_the_gradient_of_the_generators_loss():
    def gradients(compiled):
        rg.manual_seed(0)
        first, second = nn.Linear(2, 2), nn.Linear(2, 1)
        of_second, of_first = rg.optim.SGD(second.parameters(), 0.1), rg.optim.SGD(first.parameters(), 0.1)

        def step(x):
            of_second.zero_grad()
            second(first(x).detach()).square().mean().backward()
            of_second.step()
            of_first.zero_grad()
            second(first(x)).mean().backward()
            of_first.step()

        step = rg.compile(step) if compiled else step
        found = []
        for seed in range(4):
            step(rg.full((3, 2), 1.0 + seed))
            found += [p.grad.tolist() for p in (*first.parameters(), *second.parameters())]
        return found

    for one, other in zip(gradients(True), gradients(False), strict=True):
        rg.testing.assert_close(rg.tensor(one), rg.tensor(other))


def test_memory_that_a_tensor_was_given_is_written_afterwards():
    def values(compiled):
        w = rg.zeros(3)

        def step(x):
            fresh = x * 2
            w.data = fresh
            fresh.add_(1.0)

        step = rg.compile(step) if compiled else step
        found = []
        for k in range(3):
            step(rg.full((3,), float(k)))
            found.append(w.tolist())
        return found

    assert values(True) == values(False)
