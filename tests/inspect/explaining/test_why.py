"""Why a gradient is zero or missing, told for programs as people ask about them."""

from __future__ import annotations

import re
import time
import warnings

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.inspect import explain, trace
from retrograd.nn import functional as F

HERE = r"test_why\.py:\d+"
ASKED = []


@pytest.fixture(autouse=True)
def wide(monkeypatch):
    """A terminal so wide that no line of an explanation is wrapped."""
    monkeypatch.setenv("COLUMNS", "5000")


def asked(text):
    """A program that makes a loss and a Tensor (and an index), and what is to be said of its gradient."""

    def enter(program):
        ASKED.append(pytest.param(program, text.replace("HERE", HERE), id=program.__name__))
        return program

    return enter


# Missing


@asked("not a leaf, but the result of mul at HERE; call retain_grad")
def a_leaf_times_a_constant():
    a = rg.tensor(5.0, requires_grad=True) * 0.1
    return a + rg.tensor(2.0, requires_grad=True), a


@asked("not a leaf, but the result of view at HERE; call retain_grad")
def a_name_that_now_is_a_view():
    x = rg.rand(5).requires_grad_()
    x = x.view(-1, 1)
    return x.sum(), x


@asked("not a leaf, but the result of clamp at HERE; call retain_grad")
def a_name_that_now_is_clamped():
    a = rg.rand(1, requires_grad=True)
    a = rg.clamp(a, 0, 1)
    return 2 * a, a


@asked("detached at HERE")
def a_target_that_was_detached():
    w, v = rg.ones(3, requires_grad=True), rg.ones(3, requires_grad=True)
    return ((w * 2).detach() * v).sum(), w


@asked("detached at HERE")
def data_taken_and_differentiated():
    x = rg.ones(3, requires_grad=True)
    y = x.data
    y.requires_grad = True
    return (y * 2).sum(), x


@asked(r"by item\(\) at HERE")
def a_loss_of_a_number():
    x = rg.tensor([1.0], requires_grad=True)
    return rg.tensor(rg.sin(x).item(), requires_grad=True), x


@asked(r"by tolist\(\) at HERE")
def a_loss_of_a_list():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    return rg.tensor((x * 2).tolist()).sum().requires_grad_(), x


@asked("detached at HERE")
def a_round_trip_through_numpy():
    layer = nn.Linear(4, 3)
    out = np.abs(layer(rg.randn(6, 4)).detach().numpy())
    return rg.from_numpy(out).sum().requires_grad_(), layer.weight


@asked("copies the values into a new Tensor")
def a_new_tensor_of_results():
    x = rg.tensor([1.5, 2.5], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        y = rg.tensor([x[0] * 2, x[1] * 3])
    return y.sum().requires_grad_(), x


@asked("argmax at HERE returns int64, which has no gradient")
def hard_predictions():
    layer = nn.Linear(4, 3)
    predictions = layer(rg.randn(6, 4)).softmax(1).argmax(1).float()
    return F.mse_loss(predictions, rg.ones(6)), layer.weight


@asked("max at HERE returns int64|argmax at HERE returns int64")
def places_of_a_maximum():
    first, second = nn.Linear(4, 3), nn.Linear(1, 2)
    places = rg.max(first(rg.randn(6, 4)), 1)[1]
    return second(places.float().view(-1, 1)).sum(), first.weight


@asked("requires_grad was set on the loss itself")
def an_accuracy_made_to_require_grad():
    layer = nn.Linear(4, 3)
    accuracy = (layer(rg.randn(6, 4)).argmax(1) == 0).float().mean()
    accuracy.requires_grad = True
    return accuracy, layer.weight


@asked("lt at HERE returns bool, which has no gradient")
def a_threshold_of_a_mask():
    x, threshold = rg.randn(100, 3, requires_grad=True), rg.tensor(2.0, requires_grad=True)
    return x[x.norm(dim=1) < threshold].norm(dim=1).mean(), threshold


@asked("integer cast at HERE: int64")
def positions_cast_to_integers():
    x = rg.tensor([1.5, 2.5], requires_grad=True)
    return rg.arange(10.0)[x.long()].sum(), x


@asked(r"no_grad since line \d+: linear at HERE")
def a_body_under_no_grad():
    body, head = nn.Linear(4, 3), nn.Linear(3, 1)
    with rg.no_grad():
        features = body(rg.randn(2, 4))
    return head(features).sum(), body.weight


@asked("the inputs are (used.)?weight")
def a_branch_that_was_not_taken():
    model = nn.ModuleDict({"used": nn.Linear(2, 2, bias=False), "unused": nn.Linear(2, 2)})
    return model["used"](rg.ones(1, 2)).sum(), model["unused"].weight


@asked("the nearest input is (w|a leaf float32.3,.), from which mul at HERE computed it")
def what_was_made_of_an_input_and_not_used():
    w = rg.ones(3, requires_grad=True)
    v = w * 2
    return (w * 3).sum(), v


@asked("which has the same values")
def a_copy_of_the_parameters():
    from copy import deepcopy

    model = nn.Linear(3, 2)
    return deepcopy(model)(rg.ones(1, 3)).sum(), model.weight


@asked("does not require grad")
def a_frozen_layer():
    model = nn.Sequential(nn.Linear(4, 3), nn.Linear(3, 1)).train()
    model[0].requires_grad_(False)
    return model(rg.randn(2, 4)).sum(), model[0].weight


@asked("only floating and complex numbers have gradients")
def an_index():
    tokens = rg.tensor([1, 2])
    return nn.Embedding(4, 2)(tokens).sum(), tokens


class Constant(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return None


@asked("the rule of Constant at HERE gives no gradient for it")
def a_function_that_returns_none():
    x = rg.ones(3, requires_grad=True)
    return Constant.apply(x).sum() + rg.ones(1, requires_grad=True).sum(), x


# Zero


@asked("all 4,096 inputs of relu at HERE are negative")
def a_dead_layer():
    body, head = nn.Linear(8, 64), nn.Linear(64, 1)
    with rg.no_grad():
        body.bias.fill_(-100)
    return head(F.relu(body(rg.randn(64, 8)))).sum(), body.weight


@asked("all 32 inputs of relu at HERE that depend on it are negative")
def a_dead_unit():
    body, head = nn.Linear(8, 4), nn.Linear(4, 1)
    with rg.no_grad():
        body.bias[2] = -100
    return head(F.relu(body(rg.randn(32, 8)))).sum(), body.weight, (2, 5)


@asked("all 20 inputs of relu at HERE are exactly 0")
def zeros_into_a_rectifier():
    w = rg.zeros(3, 4, requires_grad=True)
    return F.relu(rg.randn(5, 3) @ w).sum(), w


@asked("all 6 outputs of sigmoid at HERE that matter are 0 or 1: it is saturated")
def a_saturated_sigmoid():
    layer = nn.Linear(4, 1)
    return rg.sigmoid(layer(rg.randn(6, 4)) + 5000).sum(), layer.weight


@asked("softmax at HERE is over a single element")
def a_softmax_of_one_output():
    layer = nn.Linear(4, 1)
    return F.mse_loss(F.softmax(layer(rg.randn(6, 4)), dim=1), rg.zeros(6, 1)), layer.weight


@asked("cross_entropy at HERE is over a single element")
def a_cross_entropy_of_one_class():
    layer = nn.Linear(4, 1)
    return F.cross_entropy(layer(rg.randn(6, 4)), rg.zeros(6).long()), layer.weight


@asked("outputs sum to a constant")
def a_sum_of_probabilities():
    x = rg.zeros(3, 4, requires_grad=True)
    return F.softmax(x, 1).sum(), x


@asked("softmax at HERE that matter are 0 or 1")
def certain_probabilities_into_cross_entropy():
    layer = nn.Linear(10, 5)
    return F.cross_entropy(F.softmax(layer(rg.randn(1, 10) * 1e5), 1), rg.tensor([2])), layer.weight


@asked("only rounding errors arrive: the upstream gradient changes only mean and scale, which batch_norm at HERE")
def a_sum_after_batch_norm():
    layer, norm = nn.Linear(3, 4), nn.BatchNorm1d(4)
    return norm(layer(rg.randn(5, 3))).sum(), layer.weight


@asked("the derivative of round at HERE is zero everywhere")
def rounded_outputs():
    layer = nn.Linear(4, 1)
    return (rg.round(layer(rg.randn(6, 4))) ** 2).sum() + 0 * layer.bias.sum(), layer.weight


@asked("all inputs of clamp at HERE lie outside its bounds")
def clamped_outputs():
    x = rg.tensor([1.5, 2.5], requires_grad=True)
    return x.clamp(0, 1).sum(), x


@asked("all inputs of clamp at HERE that receive a gradient lie outside its bounds")
def clamped_outputs_of_which_some_are_not_read():
    x = rg.tensor([0.5, 2.5], requires_grad=True)
    return (x.clamp(0, 1) * rg.tensor([0.0, 1.0])).sum(), x


@asked("the probabilities of log_softmax at HERE round to 0 and 1")
def certain_log_probabilities():
    x = rg.tensor([[1000.0, 0.0]], requires_grad=True)
    return F.nll_loss(x.log_softmax(1), rg.tensor([0])), x


@asked("batch_norm at HERE multiplies by w, a constant, which is all 0")
def a_normalization_with_a_scale_of_zeros():
    x = rg.randn(3, 4, requires_grad=True)
    return F.batch_norm(x, None, None, rg.zeros(4), training=True).exp().sum(), x


@asked("all inputs of norm at HERE are 0, where its derivative is 0")
def a_norm_of_zeros():
    x = rg.zeros(3, requires_grad=True)
    return x.norm(), x


@asked("the class weights of all targets of cross_entropy at HERE are 0")
def classes_without_a_weight():
    x = rg.randn(2, 3, requires_grad=True)
    return F.cross_entropy(x, rg.tensor([1, 1]), weight=rg.tensor([1.0, 0.0, 1.0]), reduction="sum"), x


@asked("the derivative of gelu at HERE is 0 at all inputs, from -502 to -501")
def an_activation_that_underflows():
    x = rg.tensor([-1.0, -2.0], requires_grad=True)
    return F.gelu(x - 500).sum(), x


@asked("mul at HERE multiplies by y, a constant, which is 0 where it matters")
def two_masks_without_a_common_element():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    return (x * rg.tensor([0.0, 1.0]) * rg.tensor([1.0, 0.0])).sum(), x


@asked("the other input of maximum at HERE is larger at all elements")
def a_floor_above_everything():
    x = rg.randn(3, requires_grad=True)
    return x.maximum(rg.full((3,), 100.0)).sum(), x


@asked("sum at HERE reads no elements")
def a_sum_of_nothing():
    x = rg.randn(3, requires_grad=True)
    return x[:0].sum(), x


@asked("not an input of the loss: the inputs are y")
def a_comparison_that_the_loss_does_not_read():
    x, y = rg.randn(3, requires_grad=True), rg.randn(3, requires_grad=True)
    rg.where(x > 0, x, 0 * x)
    return y.sum(), x


@asked("linear at HERE multiplies by w, .*weight, which is all 0")
def a_last_layer_of_zeros():
    body, head = nn.Linear(4, 5), nn.Linear(5, 1)
    nn.init.zeros_(head.weight)
    return head(rg.tanh(body(rg.randn(6, 4)))).pow(2).sum(), body.weight


@asked("mul at HERE multiplies by y, a constant, which is all 0")
def a_mask_of_zeros():
    x = rg.ones(3, requires_grad=True)
    return (x * rg.zeros(3)).sum(), x


@asked("linear at HERE multiplies by x, a constant, which is all 0")
def a_batch_of_zeros():
    layer = nn.Linear(4, 2)
    nn.init.zeros_(layer.weight)
    return layer(rg.zeros(3, 4)).pow(2).sum() + layer.bias.sum(), layer.weight


@asked("both inputs of mse_loss at HERE are equal")
def a_loss_at_its_minimum():
    x = rg.ones(3, requires_grad=True)
    return F.mse_loss(x * 1, rg.ones(3)), x


@asked("embedding at HERE does not read it")
def a_word_that_does_not_occur():
    table = nn.Embedding(10, 3)
    return table(rg.tensor([1, 2])).sum(), table.weight, (5, 0)


@asked("no gradient to row padding_idx")
def a_row_of_padding():
    table = nn.Embedding(10, 3, padding_idx=0)
    return table(rg.tensor([0, 2])).sum(), table.weight, (0, 1)


@asked("getitem at HERE does not read the elements it affects")
def one_output_of_two():
    layer = nn.Linear(4, 2)
    losses = F.mse_loss(layer(rg.ones(4)), rg.ones(2), reduction="none")
    return losses[1], layer.weight, (0, 1)


@asked("getitem at HERE does not read it")
def an_element_below_the_threshold():
    a = rg.tensor([3.0, 4.0, 5.0], requires_grad=True)
    return a[a > 4].sum(), a, 0


@asked("the gradients of 2 uses .* cancel")
def a_difference_of_equals():
    x = rg.ones(3, requires_grad=True)
    return (x * 2).sum() - (x + x.detach()).sum() * 2, x


@asked("fill_? at HERE|overwrite|replaces its values")
def what_is_written_over():
    x = rg.ones(3, requires_grad=True)
    y = x * 2
    y[:] = 0
    return y.sum() + rg.ones(1, requires_grad=True).sum(), x


@asked("mul at HERE multiplies by the number 0")
def a_loss_times_zero():
    x = rg.ones(3, requires_grad=True)
    return (x * 2).sum() * 0, x


@pytest.mark.parametrize(("program", "text"), ASKED)
def test_the_reason_is_told(program, text):
    with trace() as t:
        loss, tensor, *index = program()
    assert t.records
    told = str(explain(loss, tensor, *index))
    assert re.search(text, told), told


def test_as_much_as_can_be_known_is_told_without_a_trace():
    for program in (a_dead_layer, rounded_outputs, a_softmax_of_one_output, clamped_outputs, a_leaf_times_a_constant):
        loss, tensor = program()
        told = str(explain(loss, tensor))
        assert re.search(r"of relu|derivative of round|softmax is over|of clamp lie|the result of mul", told), told
    loss, tensor = a_body_under_no_grad()
    assert "not an input of the loss" in str(explain(loss, tensor))
    with pytest.raises(RuntimeError, match=r"under inspect.trace\(\) to see where"):
        explain(*hard_predictions())


def test_a_gradient_that_is_there_has_no_reasons():
    layer = nn.Linear(4, 1)
    e = explain(layer(rg.ones(2, 4)).sum(), layer.weight)
    assert e.reasons == [] and "zero" not in str(e)


def test_not_a_number_is_pointed_out():
    x = rg.tensor([0.0, 1.0], requires_grad=True)
    e = explain((x.sqrt() * 0).sum() + (x * x).sum(), x)
    assert "1 element of it is NaN" in str(e) and "by use: not finite: sqrt\n" in str(e) + "\n"
    assert "paths" in str(explain((x.sqrt() * 2).sum() + (x * x).sum(), x, 1))


def test_a_leaf_is_known_whatever_it_is_called_and_though_it_was_written_since():
    def program(x):
        return rg.tensor((x * 2).tolist()).sum().requires_grad_()

    with trace() as t:
        others = [rg.ones(2, requires_grad=True) for _ in range(3)]
        losses = [program(x) if index == 1 else (x * 3).sum() for index, x in enumerate(others)]
    with rg.no_grad():
        others[1].add_(1)
    assert t.records
    assert re.search(rf"by tolist\(\) at {HERE}", str(explain(losses[1], others[1])))
    assert "tolist" not in str(explain(losses[1], others[0]))


def test_a_trace_without_a_name_tells_what_left_the_graph():
    w = rg.randn(4, 3, requires_grad=True)
    with trace():
        p = (rg.randn(5, 3) @ w.T).argmax(1).float()
        loss = (p.requires_grad_() * 2).sum()
    assert "argmax at test_why.py:" in str(explain(loss, w)) and "int64" in str(explain(loss, w))


def test_after_backward_under_a_trace_it_tells_what_the_trace_saw():
    model, other = nn.Sequential(nn.Linear(3, 4), nn.ReLU(), nn.Linear(4, 1)), nn.Linear(2, 2)
    nn.init.constant_(model[0].bias, -100.0)
    with trace():
        h = model[0](rg.randn(5, 3))
        loss = model[2](model[1](h)).sum()
        loss.backward()
    dead = str(explain(loss, model[0].weight))
    assert "for 0.weight, float32(4, 3): norm 0" in dead and dead.startswith(".grad after backward()")
    assert "relu at test_why.py" in dead and "passed on only zeros; it returned 20 numbers" in dead
    alive = explain(loss, model[2].bias)
    np.testing.assert_array_equal(alive.total, [5.0])
    assert "zero:" not in str(alive) and "freed" in str(alive) and alive.paths == []
    assert "linear at test_why.py" in str(explain(loss, h)) and "retain_grad()" in str(explain(loss, h))
    assert "the trace saw no operator between" in str(explain(loss, other.weight))
    with pytest.raises(RuntimeError, match=r"parts of the gradient are not known: backward\(\) has freed"):
        alive.by("use")


@pytest.mark.parametrize("kind", ["chain", "terms", "uses", "stack"])
def test_the_text_is_linear_in_the_graph(kind):
    def seconds(count):
        w = rg.randn(3, requires_grad=True)
        x = w
        if kind == "chain":
            for _ in range(count):
                x = x.tanh()
        elif kind == "uses":
            for _ in range(count):
                x = x + w
        elif kind == "terms":
            x = sum((w * 2).sum().square() for _ in range(count // 4))
        else:
            x = rg.stack([(w * 2).sum() for _ in range(count // 2)]).mean()
        loss = x.sum()
        began = time.process_time()
        str(explain(loss, w))
        return time.process_time() - began

    seconds(100)
    assert seconds(2000) < 1  # two seconds before, and four times as much with each doubling


def test_many_parts_have_the_figures_that_a_walk_each_would_find(monkeypatch):
    w, h, loss = rg.randn(4, 4, requires_grad=True), rg.zeros(8, 4), 0.0
    for x in rg.randn(6, 8, 4):
        h = rg.tanh(x + h @ w)
        loss = loss + h.square().sum()
    one_by_one = str(explain(loss, w))
    monkeypatch.setattr("retrograd.inspect.explaining.explanation.MAX_VISITS", 0)
    assert str(explain(loss, w)) == one_by_one and "by term" in one_by_one and "by example" in one_by_one


def test_gradients_that_cancel_on_the_way_are_told_with_the_place():
    w = rg.randn(4, requires_grad=True)
    with trace():
        x = w.tanh()  # here
        y = x - x
        loss = y.sum()
    text = str(explain(loss, w))
    assert re.search(rf"it is zero: the gradients of 2 uses of tanh at {HERE} \(sub at {HERE}\) cancel", text), text
