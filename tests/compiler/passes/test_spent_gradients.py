"""New gradients in the memory of the last ones: only where nobody else can see that."""

import threading

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels, nn
from retrograd.compiler.cpu import machine_code
from retrograd.nn import functional as F

pytestmark = pytest.mark.skipif(
    not (kernels.available() and machine_code.available()), reason="needs the library of loops and LLVM"
)


def normal(seed, *shape):
    return rg.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def made(size=96, set_to_none=True, optimizer=rg.optim.SGD):
    """A model, and a step of its training on inputs and labels."""
    rg.manual_seed(0)
    model = nn.Sequential(nn.Linear(size, 80), nn.ReLU(), nn.Linear(80, 10))
    moving = optimizer(model.parameters(), lr=0.1)

    def step(x, y):
        loss = F.cross_entropy(model(x), y)
        moving.zero_grad(set_to_none=set_to_none)
        loss.backward()
        moving.step()
        return loss.detach()

    return model, step


X, Y = normal(1, 64, 96), rg.from_numpy(np.arange(64) % 10)
LARGE = normal(2, 1024, 512), rg.from_numpy(np.arange(1024) % 10)


def places(model):
    return [p.grad.array.ctypes.data for p in model.parameters() if p.grad.array.nbytes >= 4096]


@pytest.mark.parametrize("x, y", [(X, Y), LARGE], ids=["a region", "calls"])
def test_gradients_lie_where_the_last_ones_did(x, y):
    (model, step), (other, eager) = made(x.shape[1]), made(x.shape[1])
    compiled = rg.compile(step)
    for _ in range(3):
        compiled(x, y), eager(x, y)
    before = places(model)
    for _ in range(3):
        loss, wanted = compiled(x, y), eager(x, y)
        assert places(model) == before
        np.testing.assert_allclose(loss.numpy(), wanted.numpy(), rtol=1e-5)
        for p, q in zip(model.parameters(), other.parameters(), strict=True):
            np.testing.assert_allclose(p.grad.numpy(), q.grad.numpy(), rtol=1e-4, atol=1e-6)


HOLD = {
    "the Tensor": lambda p: p.grad,
    "a detached one": lambda p: p.grad.detach(),
    "a view": lambda p: p.grad[1:],
    "a view of a view": lambda p: p.grad.T[1:].detach(),
    "its data": lambda p: p.grad.data,
    "an array": lambda p: p.grad.numpy(),
    "asarray": lambda p: np.asarray(p.grad),
    "a row of the array": lambda p: p.grad.numpy()[0],
    "a memoryview": lambda p: memoryview(p.grad.numpy()),
    "another's gradient": lambda p: holder(p),
    "a parameter of that memory": lambda p: nn.Parameter(p.grad),
    "by DLPack": lambda p: np.from_dlpack(p.grad.numpy()),
}


def holder(p):
    other = rg.zeros(p.shape, requires_grad=True)
    other.grad = p.grad
    return other


def numbers_of(held):
    held = held.grad if isinstance(held, rg.Tensor) and held.grad is not None else held
    return np.array(held.detach().numpy() if isinstance(held, rg.Tensor) else held)


@pytest.mark.parametrize("how", HOLD)
@pytest.mark.parametrize("set_to_none", [True, False])
@pytest.mark.parametrize(
    "x, y", [pytest.param(X, Y, id="a region"), pytest.param(*LARGE, id="calls", marks=pytest.mark.slow)]
)
def test_a_gradient_that_somebody_holds_stays(how, set_to_none, x, y):
    (model, step), (other, eager) = made(x.shape[1], set_to_none), made(x.shape[1], set_to_none)
    compiled = rg.compile(step)
    for _ in range(3):
        compiled(x, y), eager(x, y)
    held, wanted = [[HOLD[how](p) for p in m.parameters() if p.ndim == 2] for m in (model, other)]
    for _ in range(3):
        compiled(x, y), eager(x, y)
    for one, two in zip(held, wanted, strict=True):
        np.testing.assert_allclose(numbers_of(one), numbers_of(two), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("x, y", [(X, Y), LARGE], ids=["a region", "calls"])
def test_a_call_that_fails_leaves_the_gradients_it_found(x, y):
    model, step = made(x.shape[1])
    compiled = rg.compile(step)
    for _ in range(3):
        compiled(x, y)
    before = [p.grad.numpy().copy() for p in model.parameters()]
    wrong = y.clone()
    wrong[3] = 10
    with pytest.raises(IndexError):
        compiled(x, wrong)
    for p, grad in zip(model.parameters(), before, strict=True):
        assert (p.grad.numpy() == grad).all()
    compiled(x, y)
    assert all((p.grad.numpy() != grad).any() for p, grad in zip(model.parameters(), before, strict=True))


def test_a_gradient_that_the_function_reads_is_not_written_meanwhile():
    def run(wrap):
        w = normal(3, 64, 64).requires_grad_()

        def step(x):
            before = None if w.grad is None else w.grad * 2
            w.grad = None
            (x @ w).square().mean().backward()
            return (w.grad if before is None else w.grad + before).detach()

        f = wrap(step)
        return [f(normal(k, 64, 64)).numpy().copy() for k in range(6)]

    for one, two in zip(run(rg.compile), run(lambda f: f), strict=True):
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-6)


def test_two_backward_passes_in_one_step_do_not_share_a_gradient():
    def run(wrap):
        w = normal(3, 64, 64).requires_grad_()

        def step(x):
            w.grad = None
            (x @ w).square().mean().backward()
            first = w.grad
            w.grad = None
            (first @ w).sum().backward()
            return first.sum() + w.grad.sum(), (first * w.grad).sum()

        f = wrap(step)
        return [[t.numpy().copy() for t in (*f(normal(k, 64, 64)), w.grad)] for k in range(6)]

    for one, two in zip(run(rg.compile), run(lambda f: f), strict=True):
        for a, b in zip(one, two, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-4, atol=1e-5)


def test_gradients_returned_by_a_step_are_its_own():
    w = normal(3, 64, 64).requires_grad_()

    def step(x):
        w.grad = None
        (x @ w).square().mean().backward()
        return w.grad

    compiled = rg.compile(step)
    kept = [compiled(normal(k, 64, 64)) for k in range(6)]
    for k, grad in enumerate(kept):
        x = normal(k, 64, 64).numpy()
        np.testing.assert_allclose(grad.numpy(), x.T @ (x @ w.detach().numpy()) * 2 / 64**2, rtol=1e-4, atol=1e-6)


def test_a_gradient_read_on_another_thread_does_not_change():
    model, step = made()
    compiled = rg.compile(step)
    for _ in range(3):
        compiled(X, Y)
    (weight, *_), seen, over = model.parameters(), [], threading.Event()

    def watch():
        while not over.is_set():
            grad = weight.grad
            if grad is not None:
                seen.append((grad, grad.numpy().copy()))
                del seen[:-50]

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        for _ in range(200):
            compiled(X, Y)
    finally:
        over.set()
        watcher.join()
    assert seen and all((grad.numpy() == numbers).all() for grad, numbers in seen)


def test_explain_measures_a_step_whose_region_writes_to_the_last_gradients():
    _, step = made()
    compiled = rg.compile(step)
    for _ in range(3):
        compiled(X, Y)
    assert "measured: " in compiled.explain(X, Y)
