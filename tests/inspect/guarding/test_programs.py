"""Programs in which a number stops being finite, birth and symptom apart: each story has the line of the birth (marked
so in the program), that of the cause, and what is to be said of them."""

from __future__ import annotations

import inspect as source_of
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd import inspect, nn
from retrograd.nn import functional as F

HERE = Path(__file__).name
PROGRAMS = {}

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")


def program(*fragments):
    def enter(function):
        PROGRAMS[function.__name__] = function, fragments
        return function

    return enter


def marked(function, mark):
    lines, first = source_of.getsourcelines(function)
    return [first + number for number, line in enumerate(lines) if line.rstrip().endswith(f"# {mark}")]


# Logarithms, roots, divisions, powers


@program("log gave NaN at (1,), 1 of 3 elements", "log(-5.9604645e-08)", "0.99999994 - 1.0 = -5.9604645e-08")
def log_of_a_difference_that_rounds_below_zero():
    p = rg.tensor([1.5, 1.0 - 2**-24, 2.0])
    q = p - 1.0  # cause
    loss = q.log()  # birth
    return loss.mean()


@program("log gave NaN at (0, 0)", "-0.25 - 3.0 = -3.25", "cause: sub at")
def log_of_scores_less_their_maximum():
    layer = nn.Linear(1, 2)
    layer.weight.data = rg.tensor([[-0.25], [3.0]])
    layer.bias.data.zero_()
    scores = layer(rg.ones(1, 1))
    scores = scores - scores.max()  # cause
    return rg.log(scores + 1e-8).sum()  # birth


@program("acos gave NaN", "3.4 / 3.39 = 1.0029498", "cause: div at")
def angle_by_a_quotient_that_rounds_above_one():
    a, b = rg.tensor([3.4], requires_grad=True), rg.tensor([3.39])
    cosine = a / b  # cause
    return cosine.acos()  # birth


@program("log gave NaN", "cause: linear in Linear at")
def log_of_what_a_layer_gives():
    layer = nn.Linear(2, 1)
    layer.weight.data = rg.tensor([[-1.0, -2.0]])
    scores = layer(rg.ones(1, 2))  # cause
    return scores.log()  # birth


@program("log gave -inf at (0, 2)", "the logarithm of 0 is -inf", "softmax(", "log_softmax")
def log_of_a_softmax_that_underflows():
    logits = rg.tensor([[0.0, 1.0, -200.0]], requires_grad=True)
    p = F.softmax(logits, dim=1)  # cause
    nll = -p.log()  # birth
    nll[0, 2].backward()


@program("the gradient of sqrt for its input 0 is inf", "1 / (2 sqrt(x)), is infinite at x = 0", "3.0 - 3.0 = 0.0")
def distance_of_a_point_to_itself():
    a, b = rg.tensor([3.0, 1.0], requires_grad=True), rg.tensor([3.0, 1.0])
    d = a - b  # cause
    distance = (d * d).sum().sqrt()  # birth
    (distance * 2).backward()


@program("sqrt gave NaN at (0,), 1 of 3", "the square root of a negative number is NaN", "clamp")
def variance_by_the_textbook_formula():
    x = rg.tensor([[6.8] * 3, [1.0, 2.0, 3.0], [4.0, 4.0, 5.0]])
    mean_of_squares, mean = (x * x).mean(1), x.mean(1)
    variance = mean_of_squares - mean * mean  # cause
    return variance.sqrt()  # birth


@program("div gave NaN at (1, 0), 2 of 4 elements", "0.0 / 0.0: 0 / 0 is NaN", "sum(2 values from 0.0 to 0.0) = 0.0")
def rows_normalized_by_their_sums():
    counts = rg.tensor([[1.0, 3.0], [0.0, 0.0]])
    total = counts.sum(1, keepdim=True)
    share = counts / total  # birth
    return share.max()


@program("div gave inf at (2,)", "1.0 / 0.0 is a division by 0", "5.0 - 5.0 = 0.0")
def inverse_of_a_range():
    low, high = rg.tensor([0.0, 1.0, 5.0]), rg.tensor([1.0, 2.0, 5.0])
    width = high - low  # cause
    scale = rg.ones(3) / width  # birth
    return scale * 2


@program("pow gave NaN at (0,), 1 of 2", "(-8.0) ** 0.3", "a negative number to a non-integer power is NaN")
def cube_root_by_a_power():
    x = rg.tensor([8.0, 27.0])
    y = x * rg.tensor([-1.0, 1.0])  # cause
    return y**0.3  # birth


@program("the gradient of pow for its input 0", "is inf at (1,)", "infinite at x = 0 for p below 1")
def fourth_root_as_a_power():
    x = rg.tensor([4.0, 2.0], requires_grad=True)
    y = x - rg.tensor([1.0, 2.0])  # cause
    (y**0.25).sum().backward()  # birth


@program("rsqrt gave inf", "1 / sqrt(0) is a division by 0", "mean(3 values from 0.0 to 0.0)")
def rms_norm_without_eps():
    x = rg.zeros(3)
    square = (x * x).mean()
    return x * square.rsqrt()  # birth


@program("acos gave NaN at (0,), 1 of 2", "acos is defined from -1 to 1", "clamp")
def angle_between_vectors_that_are_parallel():
    a = rg.tensor([[0.6, 0.8], [1.0, 0.0]])
    cosine = (a * a).sum(1) + rg.tensor([1e-6, 0.0])  # cause
    return cosine.acos()  # birth


@program("the gradient of acos for its input 0", "is -inf at (1,)", "-1 / sqrt(1 - x^2), is infinite")
def angle_of_a_vector_with_itself():
    a = rg.tensor([[3.0, 4.0], [1.0, 0.0]], requires_grad=True)
    b = rg.tensor([[1.0, 0.0], [1.0, 0.0]])
    cosine = (a * b).sum(1) / 1.0
    (cosine / rg.tensor([5.0, 1.0])).acos().sum().backward()  # birth


@program("atanh gave inf at (1,)", "atanh of -1 and 1 is infinite")
def atanh_of_a_saturated_tanh():
    x = rg.tensor([0.5, 30.0])
    y = x.tanh()  # cause
    return y.atanh()  # birth


@program("logit gave inf at (1,)", "logit of 0 and 1 is infinite", "eps")
def logit_of_a_saturated_sigmoid():
    p = rg.tensor([0.5, 90.0]).sigmoid()  # cause
    return p.logit()  # birth


@program("xlogy", "the logarithm of a negative number is NaN")
def entropy_of_scores_that_are_no_probabilities():
    scores = rg.tensor([0.2, 0.9])
    p = scores - 0.5  # cause
    return -rg.xlogy(p, p).sum()  # birth


# Overflow


@program("exp gave inf at (1,), 1 of 2", "exp(100.0) overflows float32", "88.72", "20.0 * 5 = 100.0")
def exponentials_of_scores():
    scores = rg.tensor([1.0, 20.0], requires_grad=True)
    scaled = scores * 5  # cause
    weights = scaled.exp()  # birth
    (weights / weights.sum()).sum().backward()


@program("mul gave inf at (2,), 1 of 3", "overflows float16, whose largest number is 65504", "compute this in float32")
def half_precision_squares():
    x = rg.tensor([1.0, 2.0, 50.0], dtype=rg.float16)
    y = x * 10  # cause
    return y * y  # birth


@program("sum gave inf", "float16", "65504")
def half_precision_sum():
    x = rg.full((200,), 1.0, dtype=rg.float16)
    y = x * 1000  # cause
    return y.sum()  # birth


@program("gave inf", "70000.0 does not fit in float16, whose largest number is 65504")
def a_loss_scaled_and_cast_to_half():
    loss = rg.tensor([1.0, 70.0])
    scaled = loss * 1000  # cause
    return scaled.half()  # birth


@program("mm", "gave inf", "float16", "65504")
def half_precision_product_of_matrices():
    x = rg.ones(2, 64, dtype=rg.float16)
    w = rg.ones(64, 3, dtype=rg.float16)
    big = x * 400  # cause
    return big @ (w * 4)  # birth


@program("overflows float32", "1.0000001e+25 * 1.0000001e+25", "100000.0 * 1e+20 = 1.0000001e+25")
def a_product_of_large_factors():
    x = rg.tensor([1e5, 1.0])
    y = x * 1e20  # cause
    return y * y  # birth


@program(
    "square",
    "overflows float32",
    "its largest element at the last backward passes",
    "lower the learning rate",
    "parameter w",
)
def a_learning_rate_that_is_too_large():
    w = rg.ones(3, 1, requires_grad=True)
    optimizer = rg.optim.SGD([w], lr=1e4)
    x = rg.ones(4, 3)
    for _ in range(40):
        out = x @ w
        loss = (out**2).mean()  # birth
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


@program("cumprod gave inf", "overflows float32")
def a_product_that_accumulates():
    growth = rg.full((60,), 1.0) * 10  # not out of range
    return growth.cumprod(0)  # birth


@program("the gradient of exp", "overflows float32")
def a_gradient_that_overflows():
    x = rg.tensor([80.0], requires_grad=True)
    y = x.exp()  # birth
    (y * 1e3).sum().backward(rg.tensor(1e20))


@program("float16", "the gradient of", "65504")
def a_gradient_that_overflows_in_half():
    w = rg.tensor([2.0], dtype=rg.float16, requires_grad=True)
    x = rg.tensor([300.0], dtype=rg.float16)
    loss = w * x  # birth
    loss.backward(rg.tensor([1024.0], dtype=rg.float16))


# Infinities that were put there on purpose, and the NaN that comes of them


@program("softmax gave NaN at (1, 0), 3 of 6 elements", "all values are -inf", "masked_fill")
def attention_to_nothing():
    scores = rg.zeros(2, 3, requires_grad=True)
    padding = rg.tensor([[False, False, True], [True, True, True]])
    scores = scores.masked_fill(padding, float("-inf"))  # cause
    weights = F.softmax(scores, dim=-1)  # birth
    weights.sum().backward()


@program("sub gave NaN at (1,), 1 of 2", "inf - inf is NaN", "passed on by amax at")
def a_maximum_over_nothing_but_infinities():
    x = rg.tensor([[1.0, 2.0], [3.0, 4.0]])
    x = x.masked_fill(rg.tensor([[False, False], [True, True]]), float("-inf"))  # cause
    top = x.amax(1)
    return top - top  # birth


@program("mul gave NaN at (0,), 1 of 2", "inf * 0.0: 0 * inf is NaN", "where(mask, x, 0)")
def a_mask_that_multiplies():
    x = rg.full((2,), float("inf"))
    x[1] = 1.0
    keep = rg.tensor([0.0, 1.0])
    return (x * keep).sum()  # birth


@program("div gave NaN", "inf / inf is NaN")
def a_ratio_of_infinities():
    best = rg.full((3,), float("inf"))
    worst = best.clone()
    return worst / best  # birth


@program("sub gave NaN at (0,)", "inf - inf is NaN")
def the_difference_of_two_masked_scores():
    x = rg.tensor([1.0, 2.0])
    y = x.masked_fill(rg.tensor([True, False]), float("inf"))  # cause
    z = y - y.masked_fill(rg.tensor([True, False]), float("inf"))  # birth
    return z.logsumexp(0)


@program("cross_entropy", "0 / 0", "ignored")
def every_target_ignored():
    logits = rg.randn(3, 4, requires_grad=True)
    targets = rg.full((3,), -100, dtype=rg.int64)
    loss = F.cross_entropy(logits, targets)  # birth
    loss.backward()


# Masks


@program(
    "sqrt for its input 0 (x) is NaN at (0,)",
    "where at",
    "a NaN under a mask",
    "where(mask, sqrt(where(mask, x, 1.0)), 0.0)",
)
def where_around_a_square_root():
    x = rg.tensor([0.0, 4.0], requires_grad=True)
    root = x.sqrt()  # birth
    y = rg.where(x > 0, root, rg.zeros(2))  # cause
    y.sum().backward()


@program("log gave NaN at (0,)", "put a harmless value in front", "where(mask, log(where(mask, x, 1.0)), 0.0)")
def where_around_a_logarithm():
    x = rg.tensor([-1.0, 4.0], requires_grad=True)
    y = rg.where(x > 0, x.log(), rg.zeros(2))  # birth
    y.sum().backward()


@program("the gradient of sqrt", "0 * inf is NaN", "masked_fill at")
def masked_fill_over_a_norm():
    x = rg.tensor([[0.0, 0.0], [3.0, 4.0]], requires_grad=True)
    norm = (x * x).sum(1).sqrt()  # birth
    norm = norm.masked_fill(rg.tensor([True, False]), 0.0)  # cause
    norm.sum().backward()


@program("the gradient of sqrt", "NaN", "mul at")
def zero_times_a_distance():
    x = rg.tensor([0.0, 4.0], requires_grad=True)
    d = x.sqrt()  # birth
    (d * rg.tensor([0.0, 1.0])).sum().backward()  # cause


# Counts


@program("std gave NaN at (0, 0), 5 of 5", "the std of 1 element divides by n - 1 = 0")
def standard_deviation_of_one_element():
    features = rg.randn(5, 1)
    spread = features.std(1, keepdim=True)  # birth
    return (features / spread).sum()


@program("var gave NaN", "the var of 1 element")
def batch_statistics_of_a_batch_of_one():
    batch = rg.randn(1, 3)
    variance = batch.var(0)  # birth
    return (batch - batch.mean(0)) / (variance + 1e-5).sqrt()


@program("mean gave NaN", "the mean of no elements is 0 / 0")
def mean_of_an_empty_selection():
    losses = rg.tensor([0.1, 0.2, 0.3])
    hard = losses[losses > 1.0]
    return hard.mean()  # birth


@program("gave NaN", "divides by the standard deviation, which is 0")
def layer_norm_of_a_constant_without_eps():
    x = rg.ones(2, 4)
    h = x * 3
    return F.layer_norm(h, (4,), eps=0.0)  # birth


# Data and weights


@program("input batch at (1, 2)", "is NaN", "linear in Linear computed with it", "1 of 6 elements")
def nan_in_the_data():
    batch = rg.tensor(np.array([[1, 2, 3], [4, 5, np.nan]], np.float32))
    layer = nn.Linear(3, 2)
    return layer(batch)  # birth


@program("parameter 0.weight at (1, 2) is NaN", "linear in 0 computed with it")
def nan_in_loaded_weights():
    model = nn.Sequential(nn.Linear(3, 2), nn.ReLU())
    state = model.state_dict()
    weight = state["0.weight"].numpy().copy()
    weight[1, 2] = np.nan
    model.load_state_dict({**state, "0.weight": rg.tensor(weight)})
    return model(rg.ones(4, 3))  # birth


@program("parameter weight at (7, 1)", "is NaN", "passed on by embedding in Embedding")
def garbage_in_an_embedding():
    embedding = nn.Embedding(10, 4)
    with rg.no_grad():
        embedding.weight[7, 1] = float("nan")
    tokens = rg.tensor([[1, 7], [2, 3]])
    vectors = embedding(tokens)
    return (vectors * 2.0).sum()  # birth


@program("input prices at (2,)", "is inf", "inf - inf")
def infinity_in_the_data():
    prices = rg.from_numpy(np.array([1.0, 2.0, np.inf]))
    centred = prices - prices.mean()  # birth
    return centred.std()


@program("cast", "input scores at (1,)", "arbitrary integer")
def nan_cast_to_an_index():
    scores = rg.tensor([1.0, float("nan")])
    return scores.long()  # birth


@program("the gradient passed to backward", "is NaN at (1,), 1 of 2")
def nan_in_the_first_gradient():
    x = rg.ones(2, requires_grad=True)
    y = x * 2  # birth
    y.backward(rg.tensor([1.0, float("nan")]))


# Modules, Functions, operators without gradient, in-place writes


@program("exp in decoder.1.act gave inf", "in decoder.0", "overflows float32")
def a_deep_module():
    class Exp(nn.Module):
        def forward(self, x):
            return x.exp()  # birth

    class Head(nn.Module):
        def __init__(self):
            super().__init__()
            self.act = Exp()

        def forward(self, x):
            return self.act(x)

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.decoder = nn.Sequential(nn.Linear(2, 2), Head())

        def forward(self, x):
            return self.decoder(x)  # cause

    model = Model()
    with rg.no_grad():
        model.decoder[0].weight.fill_(100.0)
    return model(rg.ones(1, 2))


@program("Root", "the gradient of")
def a_function_with_a_careless_backward():
    class Root(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            y = x.numpy(force=True) ** 0.5
            ctx.y = y
            return rg.tensor(y)

        @staticmethod
        def backward(ctx, g):
            return rg.tensor(g.numpy() * 0.5 * np.array([np.inf, 1.0], np.float32))

    x = rg.tensor([0.0, 1.0], requires_grad=True)
    y = Root.apply(x)  # birth
    y.sum().backward()


@program("log gave NaN at (1,)", "the logarithm of a negative number")
def evaluation_without_gradients():
    with rg.no_grad():
        x = rg.tensor([2.0, 1.0])
        y = x - 1.5  # cause
        return y.log()  # birth


@program("fmod gave NaN at (0,)", "division by 0")
def a_remainder_that_has_no_gradient_to_speak_of():
    period = rg.tensor([0.0, 2.0])
    return rg.fmod(rg.tensor([3.0, 3.0]), period)  # birth


@program("div gave NaN at (1,)", "0.0 / 0.0")
def a_division_in_place():
    x = rg.tensor([1.0, 0.0])
    norm = x.abs()  # cause
    x.div_(norm)  # birth
    return x


@program("xlogy (of kl_div) gave NaN at (0,)", "0.5 - 0.75 = -0.25")
def a_divergence_of_negative_weights():
    p = rg.tensor([0.5, 0.5])
    q = p - 0.75  # cause
    return F.kl_div(p.log(), q, log_target=False) + (q.log() * q).sum()  # birth


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_the_story_is_told(name):
    function, fragments = PROGRAMS[name]
    with pytest.raises(RuntimeError) as caught, inspect.guard() as g:
        function()
    story = str(caught.value)
    assert g.story == story
    (birth,) = marked(function, "birth")
    assert story.startswith(f"{HERE}:{birth}: "), story
    for line in marked(function, "cause"):
        assert f"{HERE}:{line}" in story.partition("\n")[2], story
    missing = [fragment for fragment in fragments if fragment not in story]
    assert not missing, f"{missing} not in\n{story}"


def test_there_are_programs_enough():
    assert len(PROGRAMS) >= 45
