"""Programs of CuPy's arrays, traced, fused and replayed on the guarded type: what eager operators give there."""

from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.arrays.devices import CPU, cupy_backend, register_backend, unregister_backend
from retrograd.models import CharTransformer
from retrograd.ops.table.registry import OPERATORS
from retrograd.testing.cases import all_cases
from retrograd.testing.programs import program_of, programs
from tests.compiler.cuda import nvrtc, processor
from tests.compiler.cuda.streams import streams
from tests.compiler.programs.test_programs import EAGER
from tests.helpers.guarded import GuardedArray, cupy, guarded_backend
from tests.helpers.on_device import moves_away

F = rg.nn.functional
pytestmark = pytest.mark.skipif(processor.compiler() is None, reason="no g++")
CASES = {case.name: case for case in all_cases()}


@pytest.fixture(autouse=True)
def backend(monkeypatch):
    with guarded_backend() as backend, streams(monkeypatch):
        yield backend


def mlp() -> Any:
    net = rg.nn.Sequential(
        rg.nn.Linear(6, 16), rg.nn.GELU(), rg.nn.LayerNorm(16), rg.nn.Dropout(0.2), rg.nn.Linear(16, 4)
    )
    return net, rg.randn(8, 6), rg.randint(0, 4, (8,))


def cnn() -> Any:
    net = rg.nn.Sequential(
        rg.nn.Conv2d(3, 4, 3, padding=1, bias=False), rg.nn.BatchNorm2d(4), rg.nn.ReLU(), rg.nn.MaxPool2d(2),
        rg.nn.Conv2d(4, 4, 3), rg.nn.SiLU(), rg.nn.Flatten(), rg.nn.Linear(16, 4),
    )  # fmt: skip
    return net, rg.randn(4, 3, 8, 8), rg.randint(0, 4, (4,))


def gpt() -> Any:
    tokens = rg.randint(0, 11, (3, 9))
    net = CharTransformer(vocabulary=11, context=8, layers=2, heads=2, channels=16, dropout=0.1)
    return net, tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def train(make: Any, optimizer: Any, compiled: bool, steps: int = 5) -> tuple[list[float], Any, Any]:
    """The losses, all Tensors of the net, and the step."""
    rg.manual_seed(0)
    net, x, y = make()
    opt = optimizer(net.parameters())
    schedule = rg.optim.lr_scheduler.StepLR(opt, 2, 0.5)

    def step(x: Any, y: Any) -> Any:
        opt.zero_grad()
        output = net(x)
        loss = F.cross_entropy(output.reshape(-1, output.shape[-1]), y.reshape(-1))
        loss.backward()
        rg.nn.utils.clip_grad_norm_(net.parameters(), 1.0)
        opt.step()
        return loss.detach()

    run = rg.compile(step) if compiled else step
    losses = []
    for _ in range(steps):
        losses.append(run(x, y).item())
        schedule.step()
    assert all(type(p.array) is GuardedArray and type(p.grad.array) is GuardedArray for p in net.parameters())
    return losses, {name: x.cpu().numpy() for name, x in net.state_dict().items()}, run


def check_training(make: Any, optimizer: Any, steps: int = 5) -> Any:
    losses, state, _ = train(make, optimizer, False, steps)
    got, reached, step = train(make, optimizer, True, steps)
    np.testing.assert_allclose(got, losses, rtol=1e-5)
    for name, wanted in state.items():
        np.testing.assert_allclose(reached[name], wanted, rtol=1e-4, atol=1e-5, err_msg=name)
    assert step.traces == 1 and len(step.entries) == 1, step.why
    assert step.entries[0].calls == steps - 1
    return step


def adamw(params: Any) -> Any:
    return rg.optim.AdamW(params, lr=1e-2)


@pytest.mark.slow
@pytest.mark.parametrize("make", [mlp, cnn, gpt])
def test_a_training_step_on_the_device_is_the_eager_one(make):
    step = check_training(make, adamw)
    text = step.explain()
    assert "CUDA kernel" in text and "on a GPU" in text and "run_step" not in text
    if nvrtc.nvrtc() is not None:
        assert ".entry k0(" in nvrtc.compiled(step.entries[0].kernels.source)


@pytest.mark.parametrize(
    "optimizer",
    [
        lambda p: rg.optim.SGD(p, lr=0.1),
        lambda p: rg.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
        lambda p: rg.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5, maximize=True),
        lambda p: rg.optim.Adam(p, lr=0.01, weight_decay=0.1),
        lambda p: rg.optim.RMSprop(p, lr=0.01, momentum=0.5, weight_decay=0.01),
        lambda p: rg.optim.RMSprop(p, lr=0.01),
        lambda p: rg.optim.AdamW([{"params": [x]} for x in p], lr=0.01),
    ],
)
def test_each_update_with_a_form_is_one_launch_for_all_parameters(optimizer):
    step = check_training(mlp, optimizer)
    assert "one CUDA kernel (k" in step.explain() and "for 6 parameters" in step.explain()


def test_an_update_without_a_form_is_made_by_the_optimizer():
    step = check_training(mlp, lambda p: rg.optim.Adagrad(p, lr=0.1))
    assert "run_step" in step.explain() and "no CUDA graph: an optimizer's step that is not a kernel" in step.explain()


@pytest.mark.slow
def test_more_parameters_than_a_launch_takes():
    def deep() -> Any:
        net = rg.nn.Sequential(*[rg.nn.Linear(4, 4) for _ in range(80)])
        return net, rg.randn(2, 4), rg.randint(0, 4, (2,))

    step = check_training(deep, adamw, 3)
    assert "2 CUDA kernels" in step.explain() and "for 160 parameters" in step.explain()


def test_eager_and_compiled_steps_share_the_optimizers_state():
    rg.manual_seed(0)
    net, x, y = mlp()
    net.eval()
    other = rg.nn.Sequential(*mlp()[0]).eval()
    other.load_state_dict(net.state_dict())
    for model, compiled in ((net, True), (other, False)):
        opt = adamw(model.parameters())

        def step(x: Any, model: Any = model, opt: Any = opt) -> Any:
            opt.zero_grad()
            loss = model(x).square().mean()
            loss.backward()
            opt.step()
            return loss.detach()

        run = rg.compile(step) if compiled else step
        for k in range(6):
            (step if k == 3 else run)(x)
        assert int(opt.state[next(iter(model.parameters()))]["step"].item()) == 6
    for a, b in zip(net.parameters(), other.parameters(), strict=True):
        np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().cpu().numpy(), rtol=1e-5, atol=1e-7)


def test_results_that_require_grad_walk_back_through_kernels():
    rg.manual_seed(0)
    w = rg.randn(5, 7).requires_grad_()

    def f(x: Any) -> Any:
        return rg.exp(-F.silu(x * w) * 0.5).sum(0)

    x = rg.randn(5, 7)
    f(x).square().sum().backward()
    wanted, w.grad = w.grad.cpu().numpy(), None
    fast = rg.compile(f)
    for _ in range(2):
        w.grad = None
        y = fast(x)
        assert y.device.type == "cuda" and y.requires_grad
        y.square().sum().backward()
        np.testing.assert_allclose(w.grad.cpu().numpy(), wanted, rtol=1e-5)
    assert "no CUDA graph: a backward pass reads" in fast.explain() and len(fast.entries[0].kernels) >= 2


def test_a_program_of_one_device_does_not_run_on_another():
    def f(x: Any) -> Any:
        return rg.relu(x * 2) + x.sum()

    fast = rg.compile(f)
    for device in ("cuda", "cpu", "cuda", "cpu"):
        x = rg.tensor([[1.0, -2.0], [3.0, 4.0]], device=device)
        assert fast(x).device.type == device
        np.testing.assert_array_equal(fast(x).cpu().numpy(), f(x).cpu().numpy())
    assert len(fast.entries) == 2
    net = rg.nn.Linear(2, 2)
    fast = rg.compile(lambda x: net(x).detach())
    fast(rg.ones(1, 2))
    net.to("cpu")  # the same Tensors, elsewhere
    assert fast(rg.ones(1, 2, device="cpu")).device == CPU
    net.to("cuda")
    assert fast(rg.ones(1, 2)).device.type == "cuda" and len(fast.entries) == 2


def test_random_numbers_new_arrays_and_views_of_the_device():
    def f(x: Any) -> Any:
        x = x + rg.randn(4, 6) + rg.arange(6) + rg.tensor(2.0)
        x[1:3] *= 3
        return x.T[::2].contiguous(), rg.nn.functional.dropout(x, 0.5), x.unfold(0, 2, 1).sum(-1)

    fast, x = rg.compile(f), rg.ones(4, 6)
    for seed in range(3):
        rg.manual_seed(seed)
        wanted = [y.cpu().numpy() for y in f(x)]
        rg.manual_seed(seed)
        for got, want in zip(fast(x), wanted, strict=True):
            assert got.device.type == "cuda"
            np.testing.assert_allclose(got.cpu().numpy(), want, rtol=1e-6)
    assert fast.traces == 1, fast.why


def test_arrays_of_the_device_as_arguments_and_in_closures():
    held = cupy.asarray(np.arange(3.0))

    def f(x: Any, y: Any) -> Any:
        return rg.as_tensor(x) * y + rg.as_tensor(held)

    fast, y = rg.compile(f), rg.tensor([1.0, 2.0, 3.0], dtype=rg.float64)
    for k in range(3):
        x = cupy.asarray(np.full(3, k + 0.5))
        np.testing.assert_array_equal(fast(x, y).cpu().numpy(), f(x, y).cpu().numpy())
    assert fast.traces == 1, fast.why


def test_elements_do_not_leave_a_program_unseen():
    def f(x: Any) -> Any:
        return x * 2 if x.sum() > 0 else x

    with pytest.raises(rg.compiler.DataDependent):
        rg.compile(f, fallback=False)(rg.ones(3))
    with pytest.raises(rg.compiler.DataDependent):
        rg.compile(lambda x: x + x.numpy().sum(), fallback=False)(rg.ones(3, device="cpu"))
    with pytest.raises(rg.compiler.DataDependent):
        rg.compile(lambda x: x + float(x.cpu().numpy().sum()), fallback=False)(rg.ones(3))


# Every operator

SOME = [
    "add", "sub", "mul", "div", "pow", "maximum", "clamp", "where", "exp", "log1p", "sigmoid", "tanh", "erf", "floor",
    "remainder", "floor_divide", "fmod", "atan2", "logaddexp", "isnan", "sign", "lerp", "nn.functional.gelu",
    "nn.functional.elu", "nn.functional.softplus", "nn.functional.layer_norm", "nn.functional.cross_entropy",
    "bitwise_xor", "mean", "var", "softmax", "nn.functional.dropout", "index_select", "scatter_add", "einsum", "cumsum",
]  # fmt: skip

# A C++ compiler takes seconds for each.
OTHERS = sorted(name for name in CASES if name in OPERATORS and name not in SOME)


def to_device(array: Any) -> Any:
    return rg.as_tensor(cupy_backend().asarray(array.copy()))


def check_operator(name: str, most: int) -> None:
    operator, case = OPERATORS[name], CASES[name]
    calls = [program for program in programs(operator, case) if program.arrays and not moves_away(program)]
    for program in calls[:most]:
        program = program_of(operator, case, program.call, to_device)

        def run(*tensors: Any, program: Any = program) -> Any:
            rest = iter(tensors)
            args = program._filled(program.call.args, rest)
            kwargs = {key: program._filled(value, rest) for key, value in program.call.kwargs.items()}
            return case.wrapped(operator.function)(*args, **kwargs)

        def numbers(function: Any, program: Any = program) -> list[Any]:
            rg.manual_seed(0)
            inputs = program.inputs(operator.differentiable)
            leaves = [x for x in rg.func.nests.flatten(function(*inputs))[0] if isinstance(x, rg.Tensor)]
            outputs = [x for x in leaves if x.requires_grad]
            if outputs:
                rg.autograd.backward(outputs, [rg.ones_like(x) for x in outputs])
            return [x.detach().cpu().numpy() for x in (*leaves, *[x.grad for x in inputs if x.grad is not None])]

        wanted, function = numbers(run), rg.compile(run, fallback=True)
        for _ in range(2):
            for got, want in zip(numbers(function), wanted, strict=True):
                assert got.dtype == want.dtype
                if want.dtype.kind in "fc":
                    np.testing.assert_allclose(got, want, rtol=1e-9, atol=1e-9, err_msg=str(program))
                elif want.dtype.kind != "V":
                    np.testing.assert_array_equal(got, want)
        assert function.entries or name in EAGER, function.why


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", SOME[::3])
def test_operators_in_a_program_on_the_device(name):
    check_operator(name, 2)


@pytest.mark.every(2)
@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", [name for name in SOME if name not in SOME[::3]] + OTHERS[::10])
def test_more_operators_in_a_program_on_the_device(name):
    check_operator(name, 4)


def test_without_a_gpu_nothing_of_it_is_asked_for(backend):
    unregister_backend(backend)
    try:
        fast = rg.compile(lambda x: rg.relu(x) * 2)
        fast(rg.ones(3, device="cpu"))
        assert fast.entries[0].kernels is None
    finally:
        register_backend(backend)


def test_sums_at_indices_are_cupys_own():
    """``np.add.at`` is nothing that NumPy would hand over to CuPy."""

    def f(x: Any, index: Any) -> Any:
        out = rg.zeros(4, 3)
        cupy_like = rg.get_array_module(x)
        cupy_like.add.at(out.array, index.array, x.array)
        return out * 2

    fast, x, index = rg.compile(f), rg.ones(5, 3), rg.tensor([0, 1, 1, 3, 3], device="cuda")
    for _ in range(3):
        assert fast(x, index)[:, 0].cpu().numpy().tolist() == [2.0, 4.0, 0.0, 4.0]
    assert fast.traces == 1, fast.why
