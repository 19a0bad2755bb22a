"""Tensors on the device ``meta`` have a shape, a dtype and strides, take no memory, and never give a number."""

import copy
import pickle
import subprocess
import sys

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.core.graph.primitive import Primitive
from retrograd.nn import functional as F
from retrograd.ops.table.registry import OPERATORS
from retrograd.testing.cases import all_cases
from retrograd.testing.meta import NEED_NUMBERS, check_meta
from tests.helpers.together import check_all

CASES = {case.name: case for case in all_cases() if case.name in OPERATORS}
FAMILIES = sorted({name.rpartition(".")[0] for name in CASES})


@pytest.mark.parametrize("family", FAMILIES)
def test_an_operator_gives_the_shape_dtype_and_strides_of_its_result_with_numbers(family):
    names = [name for name in CASES if name.rpartition(".")[0] == family]
    check_all((name, lambda name=name: check_meta(OPERATORS[name], CASES[name])) for name in names)


def test_the_check_finds_a_wrong_shape(monkeypatch):
    from retrograd.ops.linear.products.matmul import MATMUL

    check_meta(OPERATORS["matmul"], CASES["matmul"])
    monkeypatch.setattr(MATMUL, "shaped", lambda make, x, y: make(x.shape, x.dtype))
    with pytest.raises((AssertionError, RuntimeError)):
        check_meta(OPERATORS["matmul"], CASES["matmul"])


def test_operators_that_need_numbers_are_few():
    assert len(NEED_NUMBERS) <= 19 and set(CASES) >= NEED_NUMBERS


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_large_tensors_take_no_memory():
    program = """if True:
        import retrograd as rg
        from retrograd import nn
        x = rg.randn(100_000, 100_000, device="meta")
        layer = nn.Linear(100_000, 100_000, device="meta")
        y = layer(x).relu_()[::2].t()
        y.add_(1), y.normal_(), y.zero_(), x.uniform_()
        x[0] = 1
        z = rg.cat([x[:2], x[3:5]]).softmax(-1)
        assert y.shape == (100_000, 50_000) and z.shape == (4, 100_000) and layer.weight.is_meta
        print([line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM")][0])
    """
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=100)
    assert run.returncode == 0, run.stderr
    assert int(run.stdout) < 300_000, run.stdout  # kilobytes


def test_what_asks_for_a_number_raises():
    x = rg.ones(2, 3, device="meta")
    for ask in (lambda: x[0, 0].item(), lambda: bool(x.sum()), lambda: int(x[0, 0]), lambda: float(x[0, 0])):
        with pytest.raises(RuntimeError, match="item"):
            ask()
    for ask in (x.cpu, x.tolist, lambda: x.to("cpu"), lambda: rg.zeros(2, 3).copy_(x), lambda: pickle.dumps(x)):
        with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor; no data!"):
            ask()
    for ask in (x.numpy, lambda: np.asarray(x), lambda: np.array(x), lambda: np.array([x])):
        with pytest.raises(TypeError, match="meta"):
            ask()
    target = rg.zeros(2, 3)
    for ask in (lambda: target.add_(x), lambda: target.__setitem__(0, x[0]), lambda: target[x[0].long()]):
        with pytest.raises(RuntimeError):
            ask()
    assert target.tolist() == [[0.0] * 3] * 2


def test_what_has_a_shape_that_depends_on_numbers_raises():
    x = rg.ones(2, 3, device="meta")
    chosen = Primitive("chosen", lambda x: x[x > 0], shaped=False)
    asks = x.nonzero, x.unique, lambda: x[x > 0], lambda: x.masked_select(x > 0), lambda: chosen(x)
    for ask in asks:
        with pytest.raises(NotImplementedError, match="depends on the elements"):
            ask()


def test_a_list_that_contains_itself_is_still_a_type_error():
    rg.ones(2, device="meta")
    endless = [rg.ones(1)]
    endless.append(endless)
    with pytest.raises(TypeError, match="contain themselves"):
        rg.tensor(endless)


def test_shapes_that_do_not_fit_are_errors():
    x = rg.ones(2, 3, device="meta")
    for call in (
        lambda: x + rg.ones(2, device="meta"),
        lambda: x @ x,
        lambda: F.linear(x, rg.ones(4, 2, device="meta")),
        lambda: rg.einsum("ij,ij->i", x, rg.ones(2, 4, device="meta")),
        lambda: x.add_(rg.ones(4, 2, 3, device="meta")),
        lambda: x.view(5),
        lambda: rg.cat([x, rg.ones(2, 4, device="meta")]),
    ):
        with pytest.raises(RuntimeError):
            call()


def test_a_tensor_with_numbers_does_not_stand_beside_one_without():
    x = rg.ones(2, 3, device="meta")
    with pytest.raises(RuntimeError, match="same device"):
        x + rg.ones(2, 3)
    with pytest.raises(RuntimeError, match="same device"):
        F.linear(rg.ones(2, 3), rg.ones(4, 3, device="meta"))
    assert (x * rg.tensor(2.0)).is_meta and (x * 2).is_meta


def test_a_tensor_without_numbers_is_printed():
    assert repr(rg.ones(2, 3, device="meta")) == "tensor(..., device='meta', size=(2, 3))"
    x = rg.ones(2, dtype=rg.int64, device="meta")
    assert repr(x) == "tensor(..., device='meta', size=(2,), dtype=int64)" and "meta" in repr(rg.device("meta"))
    y = rg.ones(2, device="meta", requires_grad=True)
    assert repr(y * 2) == "tensor(..., device='meta', size=(2,), grad_fn=<mul>)"


def test_gradients_are_on_meta():
    layer = nn.Sequential(nn.Linear(3, 4, device="meta"), nn.ReLU(), nn.LayerNorm(4, device="meta"))
    x = rg.ones(5, 3, device="meta", requires_grad=True)
    F.cross_entropy(layer(x), rg.zeros(5, dtype=rg.int64, device="meta")).backward()
    assert x.grad.is_meta and x.grad.shape == (5, 3)
    assert all(p.grad.is_meta and p.grad.shape == p.shape for p in layer.parameters())


def test_modules_are_built_on_meta_and_filled_later():
    with rg.device("meta"):
        model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
        positions = rg.arange(5)
    assert all(p.is_meta for p in model.parameters()) and positions.is_meta
    assert model(rg.rand(2, 5, 8, device="meta")).shape == (2, 5, 8)
    assert all(p.is_meta for p in copy.deepcopy(model).parameters())
    with pytest.raises(NotImplementedError, match="to_empty"):
        model.to("cpu")

    source = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    with pytest.warns(UserWarning, match="no-op; pass assign=True"):
        model.load_state_dict(source.state_dict())
    assert model.linear1.weight.is_meta
    model.load_state_dict(source.state_dict(), assign=True)
    x = rg.randn(2, 5, 8)
    assert rg.equal(model.eval()(x), source.eval()(x))
    assert isinstance(model.linear1.weight, nn.Parameter) and model.linear1.weight.requires_grad


def test_to_empty_makes_memory_of_modules():
    model = nn.BatchNorm1d(3, device="meta").to_empty(device="cpu")
    assert model.weight.device == model.running_mean.device == rg.device("cpu")
    model.reset_parameters(), model.reset_running_stats()
    assert model(rg.ones(4, 3)).shape == (4, 3)


def test_views_share_their_memory_and_layout():
    x = rg.empty(4, 6, device="meta")
    assert x.t().stride() == (1, 6) and not x.t().is_contiguous() and x[1:, ::2].stride() == (6, 2)
    assert x[1].storage_offset() == 6 and x.view(3, 8)._base is x and (x.t() * 2).stride() == (1, 6)
    assert x.to("meta") is x and x.clone().is_meta and rg.zeros_like(x).is_meta and x.new_ones(2).is_meta
    assert rg.ones(2, 3).t().to("meta").stride() == (1, 3) and rg.empty_like(x, device="cpu").device.type == "cpu"
    with pytest.raises(RuntimeError, match="meta"):
        rg.device("metal")


def test_bfloat16_has_tensors_without_numbers():
    pytest.importorskip("ml_dtypes")
    x = rg.ones(2, 3, dtype=rg.bfloat16, device="meta")
    assert (x + x).dtype is rg.bfloat16 and (x @ x.t()).dtype is rg.bfloat16 and (x * 2).is_meta
    assert x.float().dtype is rg.float32 and nn.Linear(3, 2, dtype=rg.bfloat16, device="meta")(x).dtype is rg.bfloat16


@pytest.mark.parametrize(
    ("write", "error"),
    [
        (lambda x: x.copy_(rg.empty(2, 2, device=x.device)), RuntimeError),
        (lambda x: x.add_(rg.empty(2, 2, 3, device=x.device)), RuntimeError),
        (lambda x: x.__setitem__(0, rg.empty(2, device=x.device)), RuntimeError),
        (lambda x: x.__setitem__(([0, 1, 1], [0, 1, 1]), rg.empty(2, device=x.device)), RuntimeError),
        (lambda x: x.__setitem__((slice(None), 0), rg.empty(3, device=x.device)), RuntimeError),
        (lambda x: x[:0].__setitem__(0, 1.0), IndexError),
        (lambda x: x.bool().neg_(), RuntimeError),
        (lambda x: x.requires_grad_().zero_(), RuntimeError),
        (lambda x: x.requires_grad_().erfinv_(), RuntimeError),
        (lambda x: x.requires_grad_().__setitem__(x > 0, 1.0), RuntimeError),
        (lambda x: x.t_().view(-1)[:2].add_(1), RuntimeError),
        (lambda x: x.requires_grad_().view(-1)[:2].add_(1), RuntimeError),
        (lambda x: x.set_(rg.empty(2, dtype=rg.int64, device=x.device)), RuntimeError),
    ],
)
@pytest.mark.parametrize("device", ["meta", "cpu"])
def test_a_write_that_is_refused_with_numbers_is_refused_without(write, error, device):
    with pytest.raises(error):
        write(rg.zeros(2, 3, device=device))


def test_nothing_has_an_address_on_the_device_meta():
    assert rg.empty(2, device="meta").data_ptr() == 0
