"""``autocast``: results have the dtypes that PyTorch's have, operator by operator, and gradients their leaves'."""

import copy
import warnings
from functools import partial
from itertools import islice
from threading import Thread

import numpy as np
import pytest

import retrograd as rg
from retrograd.ops.table.registry import OPERATORS
from retrograd.testing.cases import all_cases
from retrograd.testing.comparison import numbers
from retrograd.testing.programs import cast, program_of, programs, replaced
from tests.helpers.against_torch import torch_function, torch_value
from tests.helpers.together import check_each, namespaces

pytest.importorskip("ml_dtypes")

F = rg.nn.functional
CASES = {case.name: case for case in all_cases() if case.name in OPERATORS and case.torch != ""}

# Ours computes these as one operator, PyTorch as several, of which some cast.
OTHERWISE = {
    "corrcoef", "cov", "inner", "linalg.pinv", "nn.functional.affine_grid", "nn.functional.local_response_norm",
    "nn.functional.pad", "pca_lowrank", "svd_lowrank",
}  # fmt: skip


def floating_dtypes(results):
    return [str(x.dtype).rpartition(".")[2] for x in results if "float" in str(getattr(x, "dtype", ""))]


NAMES = namespaces(set(CASES) - OTHERWISE)


@pytest.mark.parametrize("names", NAMES.values(), ids=NAMES)
def test_an_operator_inside_autocast_gives_the_dtype_that_pytorch_gives(names, pytestconfig):
    pytest.importorskip("torch")
    check_each(partial(check_dtypes, calls=3 if pytestconfig.getoption("--long") else 1), names)


def check_dtypes(name, calls):
    import torch

    case, operator = CASES[name], OPERATORS[name]
    function = torch_function(operator, case)
    for program in islice(programs(operator, case), calls):
        for dtype in ("float32", "bfloat16"):
            narrow = cast(program.call, dtype)

            def theirs(array, differentiated):
                if array.dtype.name == "bfloat16":
                    return torch.from_numpy(array.astype(np.float32)).bfloat16()
                return torch.from_numpy(np.array(array))

            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                try:
                    with torch.autocast("cpu", torch.bfloat16):
                        wanted = function(
                            *[torch_value(replaced(value, theirs)) for value in narrow.args],
                            **{key: torch_value(replaced(value, theirs)) for key, value in narrow.kwargs.items()},
                        )
                except (RuntimeError, TypeError, ValueError):
                    continue  # PyTorch has not the operator in this dtype
            ours = program_of(operator, case, narrow)
            with rg.autocast("cpu", rg.bfloat16):
                got = ours(*ours.inputs())
            assert floating_dtypes(numbers(got)) == floating_dtypes(numbers(wanted)), f"{ours}"


def test_gradients_come_back_in_the_leaves_own_dtype_and_close_to_those_in_float32():
    rg.manual_seed(0)
    model = rg.nn.Sequential(rg.nn.Linear(8, 16), rg.nn.LayerNorm(16), rg.nn.GELU(), rg.nn.Linear(16, 4))
    x, t = rg.randn(32, 8), rg.randint(0, 4, (32,))
    exact = rg.autograd.grad(F.cross_entropy(model(x), t), list(model.parameters()))
    with rg.autocast("cpu", rg.bfloat16):
        y = model(x)
        loss = F.cross_entropy(y, t)
    assert y.dtype == rg.bfloat16 and loss.dtype == rg.float32
    for p, g, wanted in zip(model.parameters(), rg.autograd.grad(loss, list(model.parameters())), exact):
        assert g.dtype == p.dtype == rg.float32
        assert float((g - wanted).abs().max()) < 0.02 * float(wanted.abs().max()) + 1e-3


def test_a_training_run_in_bfloat16_follows_pytorchs():
    torch = pytest.importorskip("torch")
    torch.manual_seed(0)
    theirs = torch.nn.Sequential(torch.nn.Linear(6, 12), torch.nn.Tanh(), torch.nn.Linear(12, 3))
    ours = rg.nn.Sequential(rg.nn.Linear(6, 12), rg.nn.Tanh(), rg.nn.Linear(12, 3))
    ours.load_state_dict({name: rg.from_numpy(value.numpy().copy()) for name, value in theirs.state_dict().items()})
    x, t = np.random.default_rng(0).standard_normal((16, 6), np.float32), np.arange(16) % 3
    losses = []
    for lib, model in ((torch, theirs), (rg, ours)):
        optimizer = lib.optim.SGD(model.parameters(), lr=0.5)
        for _ in range(10):
            with lib.autocast("cpu", dtype=lib.bfloat16):
                loss = lib.nn.functional.cross_entropy(model(lib.from_numpy(x)), lib.from_numpy(t))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    np.testing.assert_allclose(losses[10:], losses[:10], rtol=5e-3)


def test_autocast_nests_switches_off_and_ends_where_it_is_left():
    x = rg.ones(2, 2)

    def dtype():
        return (x @ x).dtype

    with rg.autocast("cpu", rg.bfloat16):
        with rg.autocast("cpu", enabled=False):
            assert dtype() == rg.float32 and not rg.is_autocast_enabled("cpu")
        with rg.autocast("cpu", rg.float16):
            assert dtype() == rg.get_autocast_dtype("cpu") == rg.float16
        assert dtype() == rg.bfloat16 and rg.is_autocast_enabled("cpu") and not rg.is_autocast_enabled()
        with pytest.raises(KeyError), rg.autocast("cpu", rg.float16):
            raise KeyError
        assert dtype() == rg.bfloat16
    assert dtype() == rg.float32

    @rg.autocast("cpu", dtype=rg.float16)
    def inside():
        return dtype()

    assert inside() == rg.float16 and dtype() == rg.float32


def test_one_autocast_may_be_entered_twice():
    mode = rg.autocast("cpu", rg.float16)
    with mode:
        with mode:
            assert rg.is_autocast_enabled("cpu")
        assert rg.is_autocast_enabled("cpu")
    assert not rg.is_autocast_enabled("cpu")


def test_autocast_is_of_one_thread():
    found = []
    with rg.autocast("cpu", rg.bfloat16):
        thread = Thread(target=lambda: found.append((rg.ones(2, 2) @ rg.ones(2, 2)).dtype))
        thread.start()
        thread.join()
    assert found == [rg.float32]


def test_float64_integers_and_numbers_stay_as_they_are():
    with rg.autocast("cpu", rg.bfloat16):
        assert (rg.ones(2, 2, dtype=rg.float64) @ rg.ones(2, 2, dtype=rg.float64)).dtype == rg.float64
        assert (rg.ones(2, 2, dtype=rg.int64) @ rg.ones(2, 2, dtype=rg.int64)).dtype == rg.int64
        assert (rg.ones(2) + 1).dtype == rg.float32


@pytest.mark.parametrize(
    ("arguments", "message"), [(("cuda",), "CUDA is not available"), (("cpu", rg.float32), "not in float32")]
)
def test_what_autocast_cannot_do_is_warned_of_and_off(arguments, message):
    if arguments[0] == "cuda" and rg.cuda.is_available():
        pytest.skip("a GPU answers")
    with pytest.warns(UserWarning, match=message), rg.autocast(*arguments):
        assert not rg.is_autocast_enabled(arguments[0])


def test_a_function_marked_custom_fwd_gets_its_inputs_cast_and_runs_without_autocast():
    class Double(rg.autograd.Function):
        @staticmethod
        @rg.amp.custom_fwd(device_type="cpu", cast_inputs=rg.float32)
        def forward(ctx, x):
            assert not rg.is_autocast_enabled("cpu")
            return x * 2

        @staticmethod
        @rg.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            return g * 2

    with rg.autocast("cpu", rg.bfloat16):
        assert Double.apply(rg.ones(2, dtype=rg.bfloat16)).dtype == rg.float32


def test_a_scaler_skips_and_grows_as_pytorchs_does_and_hands_its_state_on():
    torch = pytest.importorskip("torch")
    histories = []
    for lib in (rg, torch):
        x = lib.tensor([1.0, 2.0], requires_grad=True)
        optimizer = lib.optim.SGD([x], lr=0.1)
        scaler = lib.amp.GradScaler("cpu", init_scale=8.0, growth_interval=2)
        history = []
        for factor in (1.0, 1.0, float("inf"), 1.0, float("nan"), 1.0, 1.0):
            optimizer.zero_grad()
            scaler.scale((x * x).sum() * factor).backward()
            scaler.unscale_(optimizer)
            scaler.step(optimizer)
            scaler.update()
            history.append((scaler.get_scale(), x.tolist(), scaler.state_dict()["_growth_tracker"]))
        again = lib.amp.GradScaler("cpu")
        again.load_state_dict(scaler.state_dict())
        history.append(again.get_scale())
        histories.append(history)
    assert histories[0] == histories[1]


def test_float16_with_a_scaler_and_float32_weights_follows_training_in_float32():
    rg.manual_seed(0)
    x, t = rg.randn(64, 6), rg.randint(0, 3, (64,))
    start = rg.nn.Sequential(rg.nn.Linear(6, 12), rg.nn.Tanh(), rg.nn.Linear(12, 3)).state_dict()
    losses = {}
    for enabled in (False, True):
        model = rg.nn.Sequential(rg.nn.Linear(6, 12), rg.nn.Tanh(), rg.nn.Linear(12, 3))
        model.load_state_dict(start)
        optimizer = rg.optim.Adam(model.parameters(), lr=0.02)
        scaler = rg.amp.GradScaler("cpu", init_scale=2.0**12, growth_interval=5, enabled=enabled)
        for _ in range(30):
            optimizer.zero_grad()
            with rg.autocast(device_type="cpu", dtype=rg.float16, enabled=enabled):
                loss = F.cross_entropy(model(x), t)
            scaler.scale(loss).backward()
            scaler.unscale_(optimizer)
            rg.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            losses.setdefault(enabled, []).append(loss.item())
        assert all(parameter.dtype == rg.float32 for parameter in model.parameters())
    np.testing.assert_allclose(losses[True], losses[False], rtol=5e-3)
    assert losses[True][-1] < 0.8 * losses[True][0] and scaler.get_scale() > 2.0**12


@pytest.mark.parametrize(
    ("arguments", "error"),
    [
        ({"device": "tpu"}, RuntimeError),
        ({"init_scale": -1.0}, ValueError),
        ({"init_scale": float("inf")}, ValueError),
        ({"growth_interval": 0}, ValueError),
        ({"growth_factor": 1.0}, AssertionError),
    ],
)
def test_a_scaler_refuses_what_cannot_scale(arguments, error):
    with pytest.raises(error, match="(?i)gradscaler|growth|device"):
        rg.amp.GradScaler(**{"device": "cpu", **arguments})


def test_a_scaler_names_what_its_state_lacks():
    with pytest.raises(RuntimeError, match="no '_growth_tracker'"):
        rg.amp.GradScaler("cpu").load_state_dict({"scale": 1.0})


def test_a_scaler_takes_no_step_with_gradients_that_it_did_not_scale():
    x = rg.ones(2, requires_grad=True)
    scaler, optimizer = rg.amp.GradScaler("cpu", init_scale=4.0), rg.optim.SGD([x], lr=0.25)

    def refused(call, match):
        with pytest.raises(AssertionError, match=match):
            call()

    x.sum().backward()
    for call in (lambda: scaler.step(optimizer), lambda: scaler.unscale_(optimizer), lambda: scaler.update(2.0)):
        refused(call, "no loss was scaled")
    assert x.grad.tolist() == [1, 1] and scaler.get_scale() == 4
    scaler.scale(x.sum())
    x.grad = None
    refused(lambda: scaler.step(optimizer), "No inf checks were recorded for this optimizer")
    scaler.update(8.0)
    half = rg.ones(2, requires_grad=True, dtype=rg.float16)
    half.grad = rg.ones(2, dtype=rg.float16)
    with pytest.raises(ValueError, match="unscale FP16 gradients"):
        scaler.unscale_(rg.optim.SGD([half], lr=0.1))
    scaler.scale(x.sum()).backward()
    scaler.unscale_(optimizer)
    refused(lambda: copy.deepcopy(scaler), "only be pickled at the beginning")
    scaler.step(optimizer)
    scaler.update()
    assert x.tolist() == [0.75, 0.75]
    again = copy.deepcopy(scaler)
    refused(lambda: again.step(optimizer), "no loss was scaled")


def test_a_scale_is_a_number_of_float32():
    scaler = rg.amp.GradScaler("cpu", init_scale=2.0**127, growth_interval=1, backoff_factor=0.1)
    x = rg.ones(1, requires_grad=True)
    optimizer = rg.optim.SGD([x], lr=0.1)
    loss = scaler.scale(rg.tensor(2.0**-100, dtype=rg.float16))
    assert loss.dtype == rg.float32 and scaler.scale(rg.ones(1, dtype=rg.float16)).dtype == rg.float16
    x.grad = rg.ones(1)
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == 2.0**127  # it does not grow to infinity
    x.grad = rg.tensor([np.inf])
    scaler.step(optimizer)
    scaler.update()
    assert scaler.get_scale() == float(np.float32(2.0**127 * 0.1))
    assert [y.item() for y in scaler.scale(iter([rg.tensor(0.0)]))] == [0]


def test_a_checkpoint_inside_autocast_computes_again_as_it_did_wherever_backward_is_called():
    from retrograd.utils.checkpoint import checkpoint

    weight = rg.randn(3, 3, requires_grad=True)
    x = rg.randn(2, 3, requires_grad=True)

    def part(x):
        return (x @ weight).relu() @ weight

    with rg.autocast("cpu", dtype=rg.bfloat16):
        part(x).sum().backward()
        expected, weight.grad = weight.grad, None
        result = checkpoint(part, x).sum()
    result.backward()
    np.testing.assert_array_equal(weight.grad.numpy(), expected.numpy())
    weight.grad = None
    result = checkpoint(part, x).sum()  # and outside, where backward is called inside
    with rg.autocast("cpu", dtype=rg.bfloat16):
        result.backward()
    assert weight.grad.dtype == rg.float32


def test_a_backward_marked_custom_bwd_runs_inside_autocast_as_its_forward_did():
    dtypes = []

    class Product(rg.autograd.Function):
        @staticmethod
        @rg.amp.custom_fwd(device_type="cpu")
        def forward(ctx, a, b):
            ctx.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @rg.amp.custom_bwd(device_type="cpu")
        def backward(ctx, g):
            a, b = ctx.saved_tensors
            dtypes.append((a @ b).dtype)
            return g.float() @ b.T, a.T @ g.float()

    a, b = rg.randn(2, 2, requires_grad=True), rg.randn(2, 2, requires_grad=True)
    with rg.autocast("cpu", dtype=rg.bfloat16):
        y = Product.apply(a, b)
    y.sum().backward()
    assert dtypes[0].name == "bfloat16"
