"""Compiled loops of attention, recurrent layers, cross entropy and tables against their references."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import kernels
from retrograd.kernels.loops.sequences import attention, lookups, recurrent
from retrograd.kernels.runtime import library, threads

pytestmark = pytest.mark.slow  # all of them compile loops

if not kernels.available():
    pytest.skip("there are no compiled loops", allow_module_level=True)
if not kernels.multiplies():
    pytest.skip("NumPy's BLAS was not found", allow_module_level=True)

TOLERANCE = {"float32": {"rtol": 2e-4, "atol": 2e-5}, "float64": {"rtol": 1e-9, "atol": 1e-11}}
DTYPES = ["float32", pytest.param("float64", marks=pytest.mark.slow)]  # compiled for each
CHOICES = [
    (attention, "takes"),
    (recurrent, "takes"),
    (lookups, "takes_table"),
    (lookups, "takes_logits"),
]


@pytest.fixture
def compare(monkeypatch):
    """Run a program by loops on one thread and on three, and by references: what it returns must agree."""

    def run(program, dtype, loops=True):
        with monkeypatch.context() as patch:
            answers = []
            for module, name in CHOICES:
                takes = getattr(module, name)
                patch.setattr(
                    module, name, lambda *args, takes=takes: answers.append(loops and takes(*args)) or answers[-1]
                )
            found = [value.detach().numpy() for value in program(getattr(rg, dtype))]
        assert any(answers) == loops
        return found

    def check(program, dtype):
        results = []
        for count in (1, 3):
            for module in (threads, recurrent):
                monkeypatch.setattr(module, "count", lambda count=count: count)
            results.append(run(program, dtype))
        for one, three, reference in zip(*results, run(program, dtype, False), strict=True):
            assert one.dtype == reference.dtype == dtype and one.shape == reference.shape
            np.testing.assert_array_equal(one, three)
            np.testing.assert_allclose(one, reference, **TOLERANCE[dtype])

    return check


def draw(seed, *shape, dtype):
    return rg.tensor(np.random.default_rng(seed).standard_normal(shape), dtype=dtype)


MASKS = {
    "none": lambda dtype: {},
    "causal": lambda dtype: {"is_causal": True},
    "bool": lambda dtype: {"attn_mask": draw(5, 3, 1, 170, 170, dtype=dtype) > -0.5},
    "keys": lambda dtype: {"attn_mask": draw(5, 3, 1, 1, 170, dtype=dtype) > -0.5},
    "rows": lambda dtype: {"attn_mask": draw(5, 170, 1, dtype=dtype) > -2},
    "added": lambda dtype: {"attn_mask": draw(5, 170, 170, dtype=dtype).log()},
}


def to_second_order(out, inputs):
    """The gradients of a Tensor's product with a cotangent, and those of theirs by the inputs and the cotangent."""
    g = draw(1, *out.shape, dtype=out.dtype).requires_grad_()
    first = rg.autograd.grad(out, inputs, g, create_graph=True)
    along = [draw(seed, *x.shape, dtype=x.dtype) for seed, x in enumerate(first, 2)]
    return *first, *rg.autograd.grad(first, (g, *inputs), along)


@pytest.mark.filterwarnings("ignore:invalid value")
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("mask", MASKS)
def test_attention_of_heads_split_off_one_projection(mask, dtype, compare):
    def program(dtype):
        qkv = draw(0, 3, 170, 3 * 2 * 9, dtype=dtype).requires_grad_()
        q, k, v = qkv.view(3, 170, 3, 2, 9).permute(2, 0, 3, 1, 4).unbind(0)
        options = MASKS[mask](dtype)
        if mask == "added":
            options["attn_mask"] = options["attn_mask"].nan_to_num(-float("inf"))
        out = F.scaled_dot_product_attention(q, k, v, **options)
        return out, *to_second_order(out, [qkv])

    compare(program, dtype)


def test_attention_of_other_lengths_widths_and_groups_with_dropout(compare):
    def program(dtype):
        rg.manual_seed(0)
        q, k, v = (
            draw(seed, *shape, dtype=dtype).requires_grad_()
            for seed, shape in enumerate([(2, 4, 70, 8), (2, 2, 150, 8), (1, 2, 150, 5)])
        )
        out = F.scaled_dot_product_attention(q, k, v, dropout_p=0.3, enable_gqa=True, is_causal=True)
        return out, *to_second_order(out, [q, k, v])

    compare(program, "float32")


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "rows, columns", [(5, 5), (15, 17), (16, 16), (17, 15), (33, 90), (65, 63), (81, 64), (130, 131)]
)
def test_attention_of_lengths_around_blocks(rows, columns, dtype, compare):
    def program(dtype):
        found = []
        for width, options in (
            (7, {"is_causal": True}),
            (32, {"is_causal": True, "dropout_p": 0.2}),
            (49, {"dropout_p": 0.2}),
            (64, {"attn_mask": draw(5, rows, columns, dtype=dtype) > 1}),  # some rows see no column
        ):
            rg.manual_seed(0)
            q = draw(0, 2, 3, rows, width, dtype=dtype).requires_grad_()
            k, v = [draw(seed, 2, 3, columns, width, dtype=dtype).requires_grad_() for seed in (1, 2)]
            out = F.scaled_dot_product_attention(q, k, v, **options)
            found += out, *rg.autograd.grad(out, (q, k, v), draw(3, *out.shape, dtype=dtype))
        return found

    compare(program, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
def test_columns_that_a_causal_mask_hides_do_not_count(dtype, compare):
    def program(dtype):
        q, k, v = [draw(seed, 2, n, 20, dtype=dtype) for seed, n in enumerate((40, 70, 70))]
        k[:, 40:], v[:, 40:] = float("nan"), float("nan")  # after the last row
        k[:, 39] = 1e6  # seen by the last row alone
        for x in (q, k, v):
            x.requires_grad_()
        out = F.scaled_dot_product_attention(q, k, v, is_causal=True, scale=0.1)
        dq, dk, dv = rg.autograd.grad(out, (q, k, v), draw(3, *out.shape, dtype=dtype))
        return out[:, :39], dq[:, :39], dk[:, :39], dv[:, :39], dk[:, 40:], dv[:, 40:]

    compare(program, dtype)


def test_scores_far_below_the_largest_have_no_weight(compare):
    def program(dtype):
        q = rg.tensor([[1.0, 0.0]], dtype=dtype).expand(40, 2).clone().requires_grad_()
        k = rg.stack([-rg.arange(40, dtype=dtype) * 30, rg.ones(40, dtype=dtype)], 1).requires_grad_()
        v = draw(0, 40, 2, dtype=dtype).requires_grad_()
        out = F.scaled_dot_product_attention(q, k, v, scale=1.0)
        return out, *rg.autograd.grad(out, (q, k, v), rg.ones(40, 2, dtype=dtype))

    compare(program, "float32")


LAYERS = {
    "LSTM": lambda **options: rg.nn.LSTM(20, 70, **options),
    "GRU": lambda **options: rg.nn.GRU(20, 70, **options),
    "tanh": lambda **options: rg.nn.RNN(20, 70, **options),
    "relu": lambda **options: rg.nn.RNN(20, 70, nonlinearity="relu", **options),
}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch_first", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_recurrent_layers_in_both_directions(name, batch_first, dtype, compare):
    def program(dtype):
        rg.manual_seed(0)
        options = {"bias": dtype == rg.float32, "batch_first": batch_first, "dtype": dtype}
        layer = LAYERS[name](num_layers=2, bidirectional=True, **options)
        x = draw(1, 30, 19, 20, dtype=dtype).requires_grad_()
        out, states = layer(x)
        states = states if isinstance(states, tuple) else (states,)
        rg.autograd.backward(
            (out, *states), [draw(seed, *y.shape, dtype=dtype) for seed, y in enumerate((out, *states))]
        )
        return out, *states, x.grad, *[weight.grad for weight in layer.parameters()]

    compare(program, dtype)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("batch, steps", [(1, 5), (7, 4), (8, 3), (9, 2)])
@pytest.mark.parametrize("name", LAYERS)
def test_threads_share_the_steps_of_a_small_batch(name, batch, steps, dtype, compare):
    def program(dtype):
        rg.manual_seed(0)
        size = 130 if name in ("LSTM", "GRU") else 520 if batch == 1 else 200  # with the work that is worth sharing
        layer = getattr(rg.nn, name, rg.nn.RNN)(
            5, size, bidirectional=True, dtype=dtype, **({"nonlinearity": name} if name.islower() else {})
        )
        x = draw(1, steps, batch, 5, dtype=dtype).requires_grad_()
        out, states = layer(x)
        (out * draw(2, *out.shape, dtype=dtype)).sum().backward()
        last = states if isinstance(states, tuple) else (states,)
        return out, *last, x.grad, *[weight.grad for weight in layer.parameters()]

    compare(program, dtype)


@pytest.mark.parametrize("was_there", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_a_thread_computes_the_parts_of_a_thread_that_does_not_come(name, was_there, monkeypatch):
    rg.manual_seed(0)
    layer = getattr(rg.nn, name, rg.nn.RNN)(5, 200, **({"nonlinearity": name} if name.islower() else {}))
    x, g = draw(1, 3, 8, 5, dtype=rg.float32), draw(2, 3, 8, 200, dtype=rg.float32)

    def results():
        for parameter in layer.parameters():
            parameter.grad = None
        out, _ = layer(x)
        out.backward(g)
        return [out.detach().numpy(), *[parameter.grad.numpy() for parameter in layer.parameters()]]

    def launch_first_part(loop, total, least, *args):
        parts, words = args[2][0], args[3]
        launched.append(parts)
        if was_there:
            words[1:, 16] = 1  # ``_PRESENT``: as if the other threads had been preempted
        loop(0, 1, 0, 1, 0, *args)

    launched = []
    wanted = results()
    monkeypatch.setattr(recurrent, "count", lambda: 3)
    monkeypatch.setattr(recurrent, "launch_products", launch_first_part)
    for found, want in zip(results(), wanted, strict=True):
        np.testing.assert_array_equal(found, want)
    assert launched == [3, 3]


@pytest.mark.parametrize("name", LAYERS)
@pytest.mark.parametrize("reverse", [False, True])
def test_a_recurrent_layer_has_the_same_outputs_and_the_order_of_its_input_with_the_batch_first(name, reverse):
    rg.manual_seed(0)
    layer = LAYERS[name](bidirectional=reverse)
    layer.batch_first = True
    x = draw(1, 19, 30, 20, dtype=rg.float32).requires_grad_()
    g = draw(2, 19, 30, 140 if reverse else 70, dtype=rg.float32)

    def results():
        out, _ = layer(x)
        out.backward(g)
        found = [out.detach().array, x.grad.array, *[weight.grad.array for weight in layer.parameters()]]
        for tensor in (x, *layer.parameters()):
            tensor.grad = None
        return found

    first = results()
    assert reverse or first[0].flags.c_contiguous
    layer.batch_first, x, g = False, x.detach().transpose(0, 1).contiguous().requires_grad_(), g.transpose(0, 1)
    second = results()
    np.testing.assert_array_equal(first[0], second[0].transpose(1, 0, 2))
    for one, two in zip(first[1:], second[1:], strict=True):
        two = two.transpose(1, 0, 2) if two.ndim == 3 else two
        np.testing.assert_allclose(one, two, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
@pytest.mark.parametrize("reduction", ["mean", "none"])
def test_cross_entropy(dtype, weighted, smoothing, reduction, compare):
    def program(dtype):
        x = (10 * draw(0, 700, 50, dtype=dtype)).requires_grad_()
        y = rg.arange(700) % 50
        y[3:20] = -100
        weight = draw(1, 50, dtype=dtype).exp() if weighted else None
        loss = F.cross_entropy(x, y, weight, label_smoothing=smoothing, reduction=reduction)
        loss.backward(draw(2, *loss.shape, dtype=dtype))
        return loss, x.grad

    compare(program, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "none"])
@pytest.mark.parametrize("places", [(20, 31), (600,), (3, 2, 90)])
def test_cross_entropy_of_images(dtype, weighted, reduction, places, compare):
    def program(dtype):
        x = (10 * draw(0, 4, 9, *places, dtype=dtype)).requires_grad_()
        y = rg.from_numpy(np.random.default_rng(1).integers(9, size=(4, *places)))
        y[1, 1] = -100
        weight = draw(1, 9, dtype=dtype).exp() if weighted else None
        loss = F.cross_entropy(x, y, weight, reduction=reduction)
        loss.backward(draw(2, *loss.shape, dtype=dtype))
        return loss, x.grad

    compare(program, dtype)


@pytest.mark.parametrize("dtype", TOLERANCE)
def test_rows_of_a_table(dtype, compare):
    def program(dtype):
        table = draw(0, 40, 70, dtype=dtype).requires_grad_()
        numbers = rg.from_numpy(np.random.default_rng(1).integers(40, size=(30, 20)))
        rows = F.embedding(numbers, table, padding_idx=3)
        rows.backward(draw(2, *rows.shape, dtype=dtype))
        return rows, table.grad

    compare(program, dtype)


def test_a_number_that_is_out_of_range_is_told_as_ever():
    x = rg.ones(100, 500)
    with pytest.raises(IndexError):
        x[rg.arange(50, 150)]
    np.testing.assert_array_equal(x[rg.arange(-100, 0)].numpy(), x.numpy())


@pytest.mark.every(2)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_functions_of_one_number(dtype, monkeypatch):
    pytest.importorskip("numba")
    monkeypatch.setattr(library, "opened", lambda: None)  # Numba compiles
    from retrograd.kernels.loops.elements import scalar_functions as numbers
    from retrograd.kernels.runtime.loop_calls import Loop
    from retrograd.kernels.runtime.numba_functions import njit

    @njit(fastmath={"contract"}, error_model="numpy")
    def loop(x, exponentials, tangents):
        for j in range(x.size):
            exponentials[j] = numbers.exp(x[j])
            tangents[j] = numbers.tanh(x[j])

    both = Loop(__name__, "both", loop)
    edge = 1000 if dtype == np.float64 else 100
    x = np.concatenate((np.linspace(-edge, edge, 9999), np.linspace(-1, 1, 9999), [np.inf, -np.inf])).astype(dtype)
    found = np.empty((2, x.size), dtype)
    both(x, *found)
    exact = np.longdouble(x)
    with np.errstate(over="ignore", under="ignore"):
        wanted = np.exp(exact).astype(dtype), np.tanh(exact).astype(dtype)
    for values, right in zip(found, wanted, strict=True):
        np.testing.assert_allclose(
            values, right, rtol=8 * np.finfo(dtype).eps, atol=2 * np.finfo(dtype).smallest_subnormal
        )
    both(np.full(1, np.nan, dtype), *found[:, :1])
    assert np.isnan(found[:, 0]).all()


@pytest.mark.parametrize("reduction", ["none", "mean", "sum"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["multi_margin_loss", "multilabel_margin_loss"])
def test_margins_of_classes_agree_with_the_reference(name, dtype, reduction, monkeypatch):
    rng = np.random.default_rng(5)
    x = rng.standard_normal((9, 7)).astype(dtype)
    x[0, 2], x[1] = np.nan, 0.0
    single = name == "multi_margin_loss"
    target = rng.integers(7, size=9) if single else np.where(rng.random((9, 7)) < 0.3, -1, rng.integers(7, size=(9, 7)))
    options = {"weight": rg.tensor(rng.random(7).astype(dtype))} if single else {}

    def run():
        leaf = rg.tensor(x, requires_grad=True)
        loss = getattr(F, name)(leaf, rg.tensor(target), reduction=reduction, **options)
        loss.nansum().backward()
        return loss.detach().numpy(), leaf.grad.numpy()

    launched = []
    launch = lookups.launch
    monkeypatch.setattr(lookups, "launch", lambda *args: launched.append(args[0].name) or launch(*args))
    ours = run()
    assert launched == ["class_margins"]
    for found, wanted in zip(ours, kernels.by_reference(run, (), {}), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=8 * np.finfo(dtype).eps)


def lstm(x, w, u):
    state = rg.zeros(1, 4, 5, device=x.device)
    return rg.lstm(x, (state, state), (w, u), False, 1, 0.0, False, False, True)[0]


PROGRAMS = {
    "attention": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), *[(2, 3, 33, 8)] * 3),
    "lstm": (lstm, (4, 9, 6), (20, 6), (20, 5)),
    "cross entropy": (lambda x: F.cross_entropy(x, rg.arange(130, device=x.device) % 70), (130, 70)),
    "rows of a table": (lambda x: F.embedding(rg.arange(200, device=x.device) % 11, x), (11, 40)),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_sequences_are_their_references_on_either_backend(name, on_backend):
    function, *shapes = PROGRAMS[name]
    rng = np.random.default_rng(3)
    on_backend(function, *[rng.standard_normal(shape).astype("f") for shape in shapes], rtol=1e-4)
