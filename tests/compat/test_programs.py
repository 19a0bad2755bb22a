"""Programs written for PyTorch run as they are: by the command, with einops, with other people's optimizers."""

from __future__ import annotations

import subprocess
import sys
import textwrap

import numpy as np
import pytest

import retrograd as rg

PROGRAM = """
import sys
import torch
import torch.nn as nn, torch.nn.functional as F
from torch import Tensor, optim
from torch.autograd import Variable
from torch.nn.modules.batchnorm import _BatchNorm
from torch.utils.data.dataloader import DataLoader
from torch.utils.data import TensorDataset
import numpy as np

torch.manual_seed(0)
device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
x = torch.Tensor(np.ones((8, 3)))
assert x.dtype == torch.float32 and torch.__version__ >= "1.7" and torch.__version__ < (3, 0)
net = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1)).to(device)
assert any(isinstance(m, _BatchNorm) for m in net.modules())
optimizer = optim.SGD(net.parameters(), lr=0.1)
for batch, target in DataLoader(TensorDataset(x, torch.zeros(8, 1)), batch_size=4):
    optimizer.zero_grad()
    loss = F.mse_loss(net(Variable(batch)), target)
    loss.backward()
    optimizer.step()
torch.save(net.state_dict(), sys.argv[1])
net.load_state_dict(torch.load(sys.argv[1], map_location=lambda storage, loc: storage, weights_only=True))
print(torch.__name__, sys.argv[2:], __name__, type(torch).__name__, x.shape)
sys.exit(3)
"""


def _run(*command):
    return subprocess.run([sys.executable, *command], capture_output=True, text=True)


@pytest.mark.slow
@pytest.mark.parametrize("command", [["-m", "retrograd", "run"], ["-m", "retrograd.as_torch"]])
def test_a_script_runs_unchanged(tmp_path, command):
    pytest.importorskip("safetensors")
    script = tmp_path / "script.py"
    script.write_text(PROGRAM)
    run = _run(*command, str(script), str(tmp_path / "net.pt"), "--flag", "x")
    assert run.returncode == 3, run.stderr
    assert run.stdout == "torch ['--flag', 'x'] __main__ Torch torch.Size([8, 3])\n"


@pytest.mark.slow
def test_a_script_finds_its_neighbours_and_an_error_is_shown_from_its_first_line_on(tmp_path):
    (tmp_path / "helper.py").write_text("def fail():\n    raise ValueError('too bad')\n")
    script = tmp_path / "script.py"
    script.write_text("import helper\nimport torch\nhelper.fail()\n")
    run = _run("-m", "retrograd", "run", str(script))
    assert run.returncode == 1 and "ValueError: too bad" in run.stderr
    assert "as_torch" not in run.stderr and "runpy" not in run.stderr


@pytest.mark.slow
def test_a_missing_module_or_script_is_named(tmp_path):
    script = tmp_path / "script.py"
    script.write_text("import torch.no_such_part\n")
    run = _run("-m", "retrograd", "run", str(script))
    assert run.returncode == 1 and "No module named 'torch.no_such_part': " in run.stderr
    run = _run("-m", "retrograd", "run", str(tmp_path / "none.py"))
    assert run.returncode == 2 and "there is no file" in run.stderr and "Traceback" not in run.stderr
    run = _run("-m", "retrograd.as_torch")
    assert run.returncode == 2 and "usage" in run.stderr


def test_versions_compare():
    from retrograd.compat.modules.toplevel import TorchVersion

    version = TorchVersion("2.13.0")
    assert version > "2.9" and version >= (2, 13) and version < "2.13.1" and version == "2.13" and version != "2.14"
    assert version.startswith("2.") and sorted([version, TorchVersion("2.9.1+cpu")])[0] == "2.9.1"


# einops


@pytest.mark.parametrize("order", ["import einops\nimport retrograd as rg", "import retrograd as rg\nimport einops"])
def test_einops_takes_tensors_whichever_is_imported_first(order):
    pytest.importorskip("einops")
    program = order + textwrap.dedent(
        """
        from einops import rearrange, reduce, repeat, einsum, pack
        from einops.layers.torch import Rearrange, Reduce, EinMix
        x = rg.arange(6.0).reshape(2, 3).requires_grad_()
        assert rearrange(x, "a b -> b a").tolist() == x.T.tolist()
        assert reduce(x, "a b -> a", "max").tolist() == [2, 5] and repeat(x, "a b -> a b c", c=2).shape == (2, 3, 2)
        assert einsum(x, x, "a b, c b -> a c").shape == (2, 2) and reduce(x, "a b -> ", "mean").item() == 2.5
        net = rg.nn.Sequential(Rearrange("a b -> (a b)"), Reduce("(a b) -> a", "sum", b=3))
        net(x).sum().backward()
        assert x.grad.tolist() == [[1.0] * 3] * 2
        mix = EinMix("a b -> a c", weight_shape="b c", bias_shape="c", b=3, c=4)
        assert rg.nn.Sequential(mix)(x).shape == (2, 4) and len(list(mix.parameters())) == 2
        """
    )
    run = _run("-c", program)
    assert run.returncode == 0, run.stderr


def test_nobody_imports_einops_for_the_user():
    run = _run("-c", "import sys, retrograd, retrograd.nn; print('einops' in sys.modules)")
    assert run.stdout == "False\n"


# Mixed precision


def test_a_scaler_scales_skips_shrinks_and_grows_as_pytorchs():
    torch = pytest.importorskip("torch")
    results = []
    for library in (rg, torch):
        scaler = library.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        x = library.ones(2, requires_grad=True)
        optimizer = library.optim.SGD([x], lr=0.25)
        seen = []
        for factor in (1.0, float("inf"), 1.0, 2.0, 1.0):
            optimizer.zero_grad()
            scaler.scale((x * factor).sum()).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            seen.append((x.tolist(), scaler.get_scale(), scaler.state_dict()["_growth_tracker"]))
        results.append(seen)
    assert results[0] == results[1]


def test_a_scaler_is_used_in_order():
    scaler = rg.amp.GradScaler("cpu")
    x = rg.ones(1, requires_grad=True)
    optimizer = rg.optim.SGD([x], lr=1.0)
    scaler.scale(x.sum()).backward()
    scaler.unscale_(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.unscale_(optimizer)
    scaler.step(optimizer)
    with pytest.raises(RuntimeError, match="already been called"):
        scaler.step(optimizer)
    scaler.update()
    with pytest.raises(AssertionError, match="No inf checks"):
        scaler.update()
    other = rg.amp.GradScaler("cpu")
    other.load_state_dict({**scaler.state_dict(), "scale": 3.0})
    assert other.get_scale() == 3.0


def test_mixed_precision_without_a_gpu_is_disabled_with_a_warning():
    if rg.cuda.is_available():
        pytest.skip("there is a GPU")
    with pytest.warns(UserWarning, match="CUDA is not available"):
        scaler = rg.cuda.amp.GradScaler()
    assert not scaler.is_enabled() and scaler.get_scale() == 1.0 and scaler.state_dict() == {}
    with pytest.warns(UserWarning, match="CUDA is not available"), rg.cuda.amp.autocast():
        assert not rg.is_autocast_enabled()


def test_autocast_nests_and_decorates():
    assert not rg.is_autocast_enabled("cpu")
    with rg.autocast("cpu", dtype=rg.float16):
        assert rg.is_autocast_enabled("cpu") and rg.get_autocast_dtype("cpu") == rg.float16
        with rg.autocast("cpu", enabled=False):
            assert not rg.is_autocast_enabled("cpu")
        assert rg.is_autocast_enabled("cpu")

    @rg.autocast("cpu")
    def inside():
        return rg.is_autocast_enabled("cpu")

    assert inside() and not rg.is_autocast_enabled("cpu")


# Other people's optimizers and schedulers


class Descent(rg.optim.Optimizer):
    """As programs write them, in the style of PyTorch 1.0."""

    def __init__(self, params, lr=rg.optim.optimizer.required, momentum=0.9):
        super().__init__(params, {"lr": lr, "momentum": momentum})

    def __setstate__(self, state):
        super().__setstate__(state)

    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if len(state) == 0:
                    state["buffer"] = rg.zeros_like(p.data)
                state["buffer"].mul_(group["momentum"]).add_(p.grad.data)
                p.data.add_(state["buffer"], alpha=-group["lr"])
        return loss


class Wrapper(rg.optim.Optimizer):
    """One that never calls ``Optimizer.__init__``."""

    def __init__(self, optimizer):
        self.optimizer = optimizer
        self.param_groups = optimizer.param_groups
        self.state = optimizer.state
        self.defaults = optimizer.defaults

    def step(self, closure=None):
        return self.optimizer.step(closure)


class Halving(rg.optim.lr_scheduler._LRScheduler):
    def __init__(self, optimizer, last_epoch=-1):
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        return [base * 0.5**self.last_epoch for base in self.base_lrs]


def test_optimizers_and_schedulers_written_for_pytorch():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    optimizer = Wrapper(Descent([x], lr=0.1))
    scheduler = Halving(optimizer)
    for _ in range(2):
        optimizer.zero_grad()
        (x * x).sum().backward()
        optimizer.step()
        scheduler.step()
    assert optimizer.param_groups[0]["lr"] == pytest.approx(0.025)
    assert np.allclose(x.detach(), [0.63, 1.26])
    state = optimizer.state_dict()
    assert state["param_groups"][0]["momentum"] == 0.9 and "buffer" in state["state"][0]
    optimizer.load_state_dict(state)
    with pytest.raises(ValueError, match="required"):
        Descent([x])


def test_deprecated_names_of_initializations_and_clipping_warn_and_work():
    with pytest.warns(FutureWarning, match="deprecated"):
        assert rg.nn.init.constant(rg.zeros(2), 3.0).tolist() == [3.0, 3.0]
    x = rg.ones(4, requires_grad=True)
    x.sum().backward()
    with pytest.warns(FutureWarning, match="deprecated"):
        assert rg.nn.utils.clip_grad_norm([x], 1.0).item() == pytest.approx(2.0)


def test_skip_init_initializes_parameters_on_the_meta_device_only():
    class Seeing(rg.nn.Linear):
        def reset_parameters(self):
            assert self.weight.is_meta
            super().reset_parameters()

    module = rg.nn.utils.skip_init(Seeing, 5, out_features=1)
    assert module.weight.device.type == "cpu" and module.weight.requires_grad and module.weight.shape == (1, 5)
    with pytest.raises(RuntimeError, match="must have an argument 'device'"):
        rg.nn.utils.skip_init(rg.nn.ReLU)


def test_parallel_modules_compute_on_one_device():
    parallel = rg.nn.parallel
    model = rg.nn.Linear(2, 3)
    x = rg.randn(4, 2)
    assert rg.nn.DataParallel(model)(x).tolist() == parallel.data_parallel(model, x).tolist() == model(x).tolist()
    parts = parallel.scatter((x, {"a": x}), [0, 1])
    assert len(parts) == 2 and parts[1][1]["a"].tolist() == x[2:].tolist()
    results = parallel.parallel_apply(parallel.replicate(model, [0, 1]), [part[0] for part in parts])
    assert np.allclose(parallel.gather(results).detach(), model(x).detach(), atol=1e-6)
    with pytest.raises(ValueError, match="init_process_group"):
        parallel.DistributedDataParallel(model)


def test_sparse_matrices_have_gradients():
    indices, values = rg.tensor([[0, 1, 0], [1, 0, 1]]), rg.ones(3, requires_grad=True)
    matrix = rg.sparse_coo_tensor(indices, values, (2, 2))
    assert matrix.to_dense().tolist() == [[0, 2], [1, 0]] and rg.spmm(matrix, rg.ones(2, 1)).tolist() == [[2], [1]]
    (matrix * rg.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert values.grad.tolist() == [2.0, 3.0, 2.0]
    assert rg.sparse.FloatTensor(indices, values.detach(), rg.ones(2, 2).shape).coalesce().shape == (2, 2)


@pytest.mark.slow
def test_a_function_keeps_its_name_where_a_module_has_it_too(tmp_path):
    script = tmp_path / "script.py"
    script.write_text(
        "import torch\n"
        "from torch.autograd.gradcheck import GradcheckError\n"
        "import torch.autograd.gradcheck, torch.autograd.graph, torch.autograd.forward_ad, torch.quasirandom\n"
        "x = torch.tensor(2.0, dtype=torch.double, requires_grad=True)\n"
        "for fast in (False, True):\n"
        "    print(torch.autograd.gradcheck(lambda x: x**2, x, fast_mode=fast, masked=True))\n"
        "print(torch.autograd.graph.Node, torch.quasirandom.SobolEngine(2).draw(1).shape)\n"
        "print(torch.autograd.forward_ad._current_level)\n"
    )
    run = _run("-m", "retrograd.as_torch", str(script))
    assert run.returncode == 0, run.stderr
    assert run.stdout.split("\n")[:2] == ["True", "True"] and run.stdout.endswith("torch.Size([1, 2])\n-1\n")
