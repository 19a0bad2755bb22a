"""Conventions of modules that PyTorch's own tests hold: what ``to`` takes, loading by subclasses, order and counts."""

from __future__ import annotations

import copy
import gc
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.nn import functional as F


@pytest.mark.parametrize(
    "args",
    [(rg.long,), (rg.bool,), ("cpu", True), (None, True), ("cpu", rg.long), ([],), (rg.tensor(3),), ("cpu", 5, 6, 7)],
)
def test_module_to_refuses_what_is_no_floating_dtype_before_it_converts_anything(args: Any) -> None:
    layer = nn.Linear(2, 2)
    with pytest.raises(TypeError):
        layer.to(*args)
    assert layer.weight.dtype == rg.float32


def test_module_to_takes_a_tensor_a_dtype_or_a_device_and_no_copy() -> None:
    layer = nn.BatchNorm1d(2)
    assert layer.to("cpu", rg.float64).weight.dtype == rg.float64
    assert layer.to(rg.tensor(1.0)).weight.dtype == rg.float32
    assert layer.to(tensor=rg.tensor(1.0, dtype=rg.float64)).running_mean.dtype == rg.float64
    assert layer.to(dtype=rg.half, non_blocking=True).num_batches_tracked.dtype == rg.int64
    with pytest.raises(RuntimeError, match="copy"):
        layer.to("cpu", copy=True)


def test_batch_norm_that_stops_tracking_changes_no_buffer() -> None:
    bn = nn.BatchNorm1d(4)
    bn.track_running_stats = False
    bn(rg.rand(8, 4))
    assert int(bn.num_batches_tracked) == 0 and not bn.running_mean.any() and bool((bn.running_var == 1).all())


def test_a_parameter_dict_sorts_new_keys_of_plain_dictionaries_alone() -> None:
    def parameters(*names: str) -> dict[str, Any]:
        return {name: nn.Parameter(rg.ones(1)) for name in names}

    assert list(nn.ParameterDict(parameters("b", "a"))) == ["a", "b"]
    assert list(nn.ParameterDict(list(parameters("b", "a").items()))) == ["b", "a"]
    assert list(nn.ParameterDict(nn.ParameterDict(list(parameters("b", "a").items())))) == ["b", "a"]


class OwnLayout(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.param = nn.Parameter(rg.ones(1))
        self.sub = nn.Linear(2, 2)

    def _save_to_state_dict(self, destination: Any, prefix: str, keep_vars: bool) -> None:
        destination[prefix + "packed"] = self.param.detach() + 1

    def _load_from_state_dict(self, state_dict: Any, prefix: str, *rest: Any) -> None:
        self.param.data.copy_(state_dict[prefix + "packed"] - 1)


def test_a_module_with_a_layout_of_its_own_loads_it() -> None:
    model, other = nn.Sequential(OwnLayout()), nn.Sequential(OwnLayout())
    model[0].param.data.fill_(10.0)
    state = model.state_dict()
    assert list(state) == ["0.packed", "0.sub.weight", "0.sub.bias"]
    other.load_state_dict(state)
    assert other[0].param.tolist() == [10.0]
    with pytest.raises(RuntimeError, match="Unexpected"):
        other.load_state_dict({**state, "0.sub.more": rg.ones(1)})


def test_extra_state_is_wanted_by_classes_that_set_it_and_saved_by_those_that_get_it() -> None:
    class Sets(nn.Module):
        def set_extra_state(self, state: Any) -> None:
            self.state = state

    class Gets(nn.Module):
        def get_extra_state(self) -> Any:
            return None

    assert Sets().state_dict() == {} and Gets().state_dict() == {"_extra_state": None}
    with pytest.raises(RuntimeError, match="Missing"):
        Sets().load_state_dict({})
    with pytest.raises(RuntimeError, match="Unexpected"):
        Gets().load_state_dict({"_extra_state": 1})


def test_loading_a_state_makes_no_reference_cycle() -> None:
    model = nn.LSTM(3, 3)
    state = copy.deepcopy(model).state_dict()
    gc.collect()
    model.load_state_dict(state)
    assert gc.collect() == 0


@pytest.mark.parametrize("dtype", [rg.float16, rg.bfloat16])
@pytest.mark.parametrize("weight_dtype", [rg.float32, None])
@pytest.mark.parametrize(
    "name", ["batch_norm", "batch_norm given", "instance_norm", "group_norm", "layer_norm", "rms_norm"]
)
def test_normalization_keeps_half_precision_beside_float32_weights(name: str, weight_dtype: Any, dtype: Any) -> None:
    functions = {
        "batch_norm": lambda x, w: F.batch_norm(x, mean, var, w, w, training=True),
        "batch_norm given": lambda x, w: F.batch_norm(x, mean, var, w, w),
        "instance_norm": lambda x, w: F.instance_norm(x, None, None, w, w),
        "group_norm": lambda x, w: F.group_norm(x, 2, w, w),
        "layer_norm": lambda x, w: F.layer_norm(x, (4,), w, w),
        "rms_norm": lambda x, w: F.rms_norm(x, (4,), w, eps=1e-5),
    }
    rg.manual_seed(0)
    x = rg.randn(3, 4, 4).to(dtype).requires_grad_()
    w = (rg.rand(4) + 0.5).to(weight_dtype or dtype).requires_grad_()
    mean, var = rg.zeros(4, dtype=w.dtype), rg.ones(4, dtype=w.dtype)
    y = functions[name](x, w)
    a, b = rg.autograd.grad((y * y).sum(), (x, w), create_graph=True)
    assert (y.dtype, a.dtype, b.dtype) == (dtype, dtype, w.dtype)
    (a.sum() + b.sum()).backward()
    assert x.grad.dtype == dtype and w.grad.dtype == w.dtype
    mean, var = rg.zeros(4, dtype=rg.float64), rg.ones(4, dtype=rg.float64)
    exact = functions[name](x.detach().double(), w.detach().double())
    assert rg.allclose(y.detach().double(), exact, atol=2e-2, rtol=2e-2)


@pytest.mark.parametrize("name", ["gelu", "silu", "mish", "hardswish"])
def test_activations_of_float16_are_rounded_once(name: str) -> None:
    x = np.linspace(-6, 6, 481).astype(np.float16)
    narrow, wide = rg.tensor(x, requires_grad=True), rg.tensor(x.astype(np.float64), requires_grad=True)
    for z in (narrow, wide):
        getattr(F, name)(z).sum().backward()
    wanted = wide.grad.numpy()
    assert np.allclose(narrow.grad.numpy(), wanted, rtol=1e-3, atol=1e-6)
    assert np.allclose(getattr(F, name)(narrow).detach().numpy(), getattr(F, name)(wide).detach().numpy(), 2e-3, 1e-6)


@pytest.mark.parametrize("mode", ["constant", "reflect", "replicate", "circular"])
def test_padding_by_nothing_gives_memory_of_its_own(mode: str) -> None:
    for dtype in (rg.float32, rg.complex64):
        x = rg.ones(1, 2, 3, 3, dtype=dtype)
        F.pad(x, (0, 0, 0, 0), mode=mode).fill_(4.0)
        assert bool((x == 1).all())


def test_l1_loss_of_complex_numbers_is_the_mean_distance() -> None:
    x = rg.tensor([3 + 4j, 1j], requires_grad=True)
    loss = F.l1_loss(x, rg.tensor([0j, 0j]))
    loss.backward()
    assert loss.tolist() == 3.0 and rg.allclose(x.grad, rg.tensor([0.3 + 0.4j, 0.5j]))
    assert F.l1_loss(x, rg.zeros(2), reduction="none").tolist() == [5.0, 1.0]


def test_pools_of_no_channels_or_steps_are_refused_and_of_no_examples_are_empty() -> None:
    for function in (F.adaptive_max_pool2d, lambda x, n: F.fractional_max_pool2d(x, 2, output_size=n)):
        assert function(rg.ones(0, 2, 5, 5), 3).shape == (0, 2, 3, 3)
        with pytest.raises(RuntimeError, match="non-zero"):
            function(rg.ones(2, 0, 5, 5), 3)
    assert F.fractional_max_pool2d(rg.ones(2, 3, 5, 5), 2, output_size=(0, 1)).shape == (2, 3, 0, 1)
    with pytest.raises(ValueError, match="output_ratio"):
        F.fractional_max_pool2d(rg.ones(2, 3, 5, 5), 2, output_ratio=(0.5, 0.5, 0.6))
    for layer in (nn.RNN(2, 3), nn.LSTM(2, 3), nn.GRU(2, 3)):
        with pytest.raises(RuntimeError, match="at least one step"):
            layer(rg.ones(0, 4, 2))


def test_embedding_bag_refuses_numbers_out_of_range_and_weights_of_another_dtype() -> None:
    with pytest.raises(RuntimeError, match="out of range"):
        F.embedding_bag(rg.tensor([[0, 9]]), rg.ones(3, 2))
    with pytest.raises(RuntimeError, match="per_sample_weights"):
        F.embedding_bag(rg.tensor([[0, 1]]), rg.ones(3, 2), mode="sum", per_sample_weights=rg.ones(1, 2).double())


@pytest.mark.parametrize("fast_mode", [True, False])
@pytest.mark.parametrize("apart", [True, False])
def test_gradgradcheck_checks_forward_over_reverse(apart: bool, fast_mode: bool) -> None:
    x = rg.randn(3, dtype=rg.float64, requires_grad=True)
    scalar = rg.tensor(0.5, dtype=rg.float64, requires_grad=True)
    for rev in (True, False):
        assert rg.autograd.gradgradcheck(
            lambda a, b: (a * a * b).sin(),
            (x, scalar),
            check_fwd_over_rev=True,
            check_rev_over_rev=rev,
            gen_non_contig_grad_outputs=apart,
            fast_mode=fast_mode,
        )


def test_the_fast_mode_finds_a_wrong_rule_of_forward_mode() -> None:
    class Square(rg.autograd.Function):
        @staticmethod
        def forward(x: Any) -> Any:
            return x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(*inputs)
            ctx.save_for_forward(*inputs)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return 2 * g * ctx.saved_tensors[0]

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return 3 * t * ctx.saved_tensors[0]

    x = rg.randn(3, dtype=rg.float64, requires_grad=True)
    assert rg.autograd.gradcheck(Square.apply, (x,), fast_mode=True)
    with pytest.raises(RuntimeError, match="forward mode"):
        rg.autograd.gradcheck(Square.apply, (x,), fast_mode=True, check_forward_ad=True)


def test_a_state_without_the_count_of_batches_leaves_it_as_it_is() -> None:
    bn = nn.BatchNorm1d(2)
    bn.num_batches_tracked.fill_(10)
    bn.load_state_dict({}, strict=False)
    assert int(bn.num_batches_tracked) == 10


def test_storages_say_whether_processes_share_them() -> None:
    layer = nn.Linear(2, 2)
    assert not layer.weight.storage().is_shared()
    assert layer.share_memory().weight.storage().is_shared()


def test_the_norm_of_the_padding_is_limited_too():
    weight, places, offsets = rg.tensor([[3.0, 4.0], [6.0, 8.0]]), rg.tensor([0, 1]), rg.tensor([0])
    F.embedding_bag(places, weight, offsets, max_norm=1.0, padding_idx=1)
    assert np.allclose(weight.numpy(), [[0.6, 0.8], [0.6, 0.8]])


def test_extra_state_may_create_the_submodules_of_other_entries_as_in_pytorch():
    torch = pytest.importorskip("torch")

    def program(lib):
        class Grows(lib.nn.Module):
            def __init__(self, sizes=()):
                super().__init__()
                self.set_extra_state(sizes)

            def get_extra_state(self):
                return self.sizes

            def set_extra_state(self, state):
                self.sizes = state
                self.layers = lib.nn.ModuleList([lib.nn.Linear(size, 1) for size in state])
                if 3 in state:
                    self.three = lib.nn.Linear(1, 3)

        same = []
        for sizes in ([2], [2, 3]):
            source, target = Grows(sizes), Grows()
            target.load_state_dict(source.state_dict())
            pairs = zip(source.parameters(), target.parameters(), strict=True)
            same += [bool((a == b).all()) for a, b in pairs]
        with pytest.raises(RuntimeError, match="Unexpected key.*other.weight"):
            target.load_state_dict({**source.state_dict(), "other.weight": lib.ones(1)})
        with pytest.raises(RuntimeError, match="Unexpected key.*layers.0.weight"):
            Grows().load_state_dict({**source.state_dict(), "_extra_state": []})
        return same

    assert program(rg) == program(torch) == [True] * 8
