"""Compiled programs on a real GPU, wherever one answers: kernels, updates and graphs against eager operators."""

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.arrays.devices import get_default_device, is_cuda_available, set_default_device
from tests.compiler.cuda import test_programs as programs

F = rg.nn.functional
pytestmark = [pytest.mark.gpu, pytest.mark.skipif(not is_cuda_available(), reason="no GPU answers")]


@pytest.fixture(autouse=True)
def gpu_by_default():
    before = get_default_device()
    set_default_device("cuda")
    yield
    set_default_device(before)


def train(make: Any, optimizer: Any, compiled: bool, steps: int) -> tuple[list[float], Any]:
    rg.manual_seed(0)
    net, x, y = make()
    opt = optimizer(net.parameters())

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        output = net(x)
        loss = F.cross_entropy(output.reshape(-1, output.shape[-1]), y.reshape(-1))
        loss.backward()
        opt.step()
        return loss.detach()

    run = rg.compile(step) if compiled else step
    return [run(x, y).item() for _ in range(steps)], run


def net_without_draws() -> Any:
    net = rg.nn.Sequential(rg.nn.Linear(64, 256), rg.nn.GELU(), rg.nn.LayerNorm(256), rg.nn.Linear(256, 8))
    return net, rg.randn(512, 64), rg.randint(0, 8, (512,))


@pytest.mark.parametrize("make", [programs.mlp, programs.cnn, programs.gpt, net_without_draws])
def test_a_training_step_is_the_eager_one(make):
    wanted, _ = train(make, programs.adamw, False, 8)
    got, step = train(make, programs.adamw, True, 8)
    np.testing.assert_allclose(got, wanted, rtol=2e-3)
    assert len(step.entries) == 1 and "CUDA kernel" in step.explain()


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: rg.optim.SGD(p, lr=0.1, momentum=0.9),
        lambda p: rg.optim.AdamW(p, lr=0.01),
        lambda p: rg.optim.RMSprop(p, lr=0.01),
    ],
)
def test_updates_are_those_of_the_optimizer(optimizer):
    wanted, _ = train(net_without_draws, optimizer, False, 8)
    got, _ = train(net_without_draws, optimizer, True, 8)
    np.testing.assert_allclose(got, wanted, rtol=2e-3)


def test_a_step_without_draws_is_a_graph():
    _, step = train(net_without_draws, programs.adamw, True, 6)
    (entry,) = step.entries
    assert entry.forward.reason == "" and entry.forward.captures == 1, step.explain()


@pytest.mark.parametrize("dtype", [rg.float16, rg.float32, rg.float64])
@pytest.mark.parametrize("shape, dim", [((5000, 3), 0), ((3, 5000), 1), ((64, 65, 66), 1), ((1 << 20,), 0)])
def test_sums_of_chains(dtype, shape, dim):
    def f(x: Any) -> Any:
        y = F.silu(x * 0.5) + 1
        return y, y.sum(dim), y.mean()

    x = rg.randn(*shape).to(dtype)
    fast = rg.compile(f)
    for _ in range(4):
        for got, wanted in zip(fast(x), f(x), strict=True):
            digits = {rg.float16: 4e-3, rg.float32: 1e-5, rg.float64: 1e-12}[dtype]
            np.testing.assert_allclose(got.cpu().numpy(), wanted.cpu().numpy(), rtol=digits, atol=digits)
    again = [fast(x)[1].cpu().numpy().tobytes() for _ in range(3)]
    assert len(set(again)) == 1


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", programs.SOME)
def test_operators_in_a_program(name):
    programs.check_operator(name, 4)
