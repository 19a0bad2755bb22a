"""The guard: what does not stop it, the walks that vanish or explode, and that nothing stays behind."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd import func, inspect, nn
from retrograd.core.errors import GuardError
from retrograd.core.graph.modes import watchers
from retrograd.models import CharTransformer
from retrograd.nn import functional as F

HERE = Path(__file__).name


def line_of(text):
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}"))


def test_infinities_that_are_put_there_on_purpose_do_not_stop_it():
    inf = float("inf")
    scores = rg.randn(4, 4, requires_grad=True)
    with inspect.guard() as g:
        causal = rg.full((4, 4), -inf).triu(1)
        F.softmax(scores + causal, dim=-1).sum().backward()
        masked = scores.masked_fill(rg.ones(4, 4).triu(1) > 0, -inf)
        F.log_softmax(masked, dim=-1).exp().sum().backward()
        masked = scores.masked_fill(rg.ones(4, 4).triu(1) > 0, -inf)
        (rg.logsumexp(masked, dim=1) + masked.amax(1)).sum().backward()
        best = rg.tensor(-inf)
        for score in scores.detach().reshape(-1):
            best = rg.maximum(best, score)
        rg.where(rg.eye(4) > 0, -inf, scores).max(dim=1)
        masked[0, 1:] = inf
        rg.tensor([0.0, 1.0]).log()  # a mask
        rg.tensor([1.0, inf]).clamp(max=5.0).exp().reciprocal()
        (rg.zeros(2) + inf).exp()
        F.scaled_dot_product_attention(rg.randn(1, 4, 2), rg.randn(1, 4, 2), rg.randn(1, 4, 2), is_causal=True)
    assert g.story == ""


def test_nan_that_marks_what_is_missing_may_be_moved_and_replaced():
    data = rg.tensor(np.array([[1.0, np.nan], [3.0, 4.0]]))
    with inspect.guard():
        rows = data[rg.tensor([1, 0])].T.reshape(4)
        rg.where(rows.isnan(), 0.0, rows).sum()
        rows.nan_to_num(0.0) + 1
        data.masked_fill(data.isnan(), 0.0).exp()
        data[~data.isnan()].mean()
        (data == data).all()
        rg.nanmean(data)
        rg.nansum(data)


def test_healthy_training_is_left_alone():
    rg.manual_seed(0)
    model = CharTransformer(vocabulary=11, context=8, layers=2, heads=2, channels=16, dropout=0.1)
    optimizer = rg.optim.AdamW(model.parameters(), lr=1e-3)
    with inspect.guard(vanishing=1e-7, exploding=1e4) as g:
        for _ in range(4):
            x = rg.randint(0, 11, (3, 8))
            optimizer.zero_grad()
            F.cross_entropy(model(x).reshape(-1, 11), x.reshape(-1)).backward()
            nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            optimizer.step()
    assert g.story == "" and "cross_entropy" in g.chart and not watchers


def test_second_derivatives_are_left_alone_and_watched():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    with inspect.guard():
        (g,) = rg.autograd.grad((x.log() * x.sqrt()).sum(), x, create_graph=True)
        (g**2).sum().backward()
    y = rg.tensor([0.0, 2.0], requires_grad=True)
    with pytest.raises(GuardError, match="the gradient of sqrt"), inspect.guard():
        rg.autograd.grad(y.sqrt().sum(), y, create_graph=True)


def deep(activation, layers=30, width=8):
    rg.manual_seed(1)
    return nn.Sequential(*[part for _ in range(layers) for part in (nn.Linear(width, width), activation())])


def test_a_vanishing_gradient_is_told_with_a_chart():
    model = deep(nn.Sigmoid)
    with pytest.raises(RuntimeError) as caught, inspect.guard(vanishing=1e-7) as g:
        model(rg.randn(4, 8)).mean().backward()  # the model
    story = str(caught.value)
    assert g.story == story and g.chart in story
    assert "the gradient vanished" in story.splitlines()[0] and "sigmoid" in story
    assert "less than 1e-07 times as much" in story and "0.weight" in story and "█" in story
    assert f"{HERE}:{line_of('the model')}" in story and "sigmoid x30" in story
    assert all(parameter.grad is not None for parameter in model.parameters()), "the walk is complete"


def test_an_exploding_gradient_is_told_with_a_chart():
    model = deep(nn.Identity, layers=12)
    with rg.no_grad():
        for layer in model[::2]:
            layer.weight.mul_(20)
    with pytest.raises(RuntimeError, match="the gradient exploded") as caught, inspect.guard(exploding=1e3):
        model(rg.randn(4, 8)).mean().backward()
    story = str(caught.value)
    assert "more than 1000 times as much" in story and "linear x12" in story and "clip_grad_norm_" in story


def test_dead_units_are_told_as_what_they_are():
    model = nn.Sequential(nn.Linear(4, 16), nn.ReLU(), nn.Linear(16, 1))
    with rg.no_grad():
        model[0].bias.fill_(-100.0)
    with pytest.raises(RuntimeError) as caught, inspect.guard(vanishing=1e-7):
        model(rg.randn(8, 4)).sum().backward()
    story = str(caught.value)
    assert "All 128 outputs of relu in 1" in story and "are 0 for every example: its units are dead" in story
    assert "100% of units dead" in story and "reaches 0.weight" in story


def test_a_gradient_that_cancels_has_not_vanished():
    scale = rg.ones(3, requires_grad=True)
    with inspect.guard(vanishing=1e-9) as g:
        s = scale.exp()
        (s.log().sum() - s.log().sum() + (s * 0.5).sum() - (s * 0.5).sum()).backward()
    assert g.story == "" and (scale.grad == 0).all()
    with pytest.raises(GuardError, match="the gradient vanished, most at mul"), inspect.guard(vanishing=1e-9):
        (scale.exp() * 0.0).sum().backward()


def test_norms_are_those_of_the_gradients():
    x = rg.randn(5, 3, requires_grad=True)
    with inspect.guard(exploding=1e9) as g:
        y = x.sin()
        y.retain_grad()
        (y * 100).sum().backward()
    wanted = float(np.linalg.norm(y.grad.numpy()))
    row = next(line for line in g.chart.splitlines() if line.split()[0] == "sin")
    assert float(row.split()[2]) == pytest.approx(wanted, rel=1e-2)


def test_bounds_must_be_positive():
    with pytest.raises(ValueError, match="guard: vanishing must be positive, got -1"):
        inspect.guard(vanishing=-1)
    with pytest.raises(ValueError, match="guard: exploding must be positive, got 0"):
        inspect.guard(exploding=0)
    with pytest.raises(TypeError, match="guard: vanishing must be a number or None, got str"):
        inspect.guard(vanishing="a")


def test_forward_and_backward_can_be_left_out():
    x = rg.tensor([0.0], requires_grad=True)
    with inspect.guard(backward=False):
        x.sqrt().backward()
    with inspect.guard(forward=False):
        rg.tensor([-1.0]).sqrt()


def test_what_is_caught_by_the_program_is_told_once_and_the_guard_can_be_entered_again():
    guard = inspect.guard()
    with guard as g:
        with pytest.raises(GuardError):
            rg.tensor([-1.0]).sqrt()
        first = g.story
        rg.tensor([-1.0]).log()
    assert g.story == first and not watchers
    with pytest.raises(GuardError, match="log gave NaN"), guard:
        rg.tensor([-1.0]).log()
    with guard, pytest.raises(RuntimeError, match="already active"), guard:
        pass
    assert not watchers


def test_it_decorates_functions():
    @inspect.guard()
    def root(x):
        return x.sqrt()

    assert root(rg.tensor([4.0])).item() == 2
    with pytest.raises(GuardError, match="square root of a negative number"):
        root(rg.tensor([-4.0]))


def test_a_trace_around_or_inside_goes_on():
    with inspect.trace() as t, pytest.raises(GuardError), inspect.guard():
        (rg.ones(2, requires_grad=True) * -1).sqrt()
    assert [record.operator for record in t] == ["ones", "mul", "sqrt"]
    with pytest.raises(GuardError), inspect.guard(), inspect.trace() as t:
        (rg.ones(2, requires_grad=True) * -1).sqrt()
    assert [record.operator for record in t][:2] == ["ones", "mul"] and not watchers


def test_other_threads_are_not_guarded():
    found = []

    def work():
        found.append(rg.tensor([-1.0]).sqrt())

    with inspect.guard():
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
    assert len(found) == 1


def test_old_calls_are_let_go():
    w = rg.randn(100, 100, requires_grad=True)
    references = []
    with inspect.guard() as g:
        for _ in range(6):
            y = w * 2
            references.append(weakref.ref(y.array))
            y.sum().backward()
            del y
        gc.collect()
        assert sum(reference() is not None for reference in references) <= 4
        assert len(g._watch.records) <= 4 * 2
    for _ in range(3):
        with rg.no_grad(), inspect.guard() as g:
            for _ in range(200):
                w.exp()
            assert len(g._watch.history._calls) <= 250


def test_gradients_are_the_same_under_the_guard():
    model = deep(nn.Tanh, layers=3)
    x = rg.randn(4, 8)
    model(x).sum().backward()
    plain = [parameter.grad.numpy().copy() for parameter in model.parameters()]
    model.zero_grad()
    with inspect.guard(vanishing=1e-30, exploding=1e30):
        model(x).sum().backward()
    for parameter, wanted in zip(model.parameters(), plain, strict=True):
        np.testing.assert_array_equal(parameter.grad.numpy(), wanted)


def test_a_story_that_fails_does_not_hide_what_it_is_about(monkeypatch):
    from retrograd.inspect.guarding import guard_mode

    def fails(*args):
        raise KeyError("a table")

    monkeypatch.setattr(guard_mode, "rule_forward", fails)
    with pytest.raises(GuardError, match=r"sqrt gave a number that is not finite; .*KeyError"), inspect.guard():
        rg.tensor([-1.0]).sqrt()


def test_what_was_written_over_since_is_not_told_as_what_was_read():
    x = rg.tensor([5.0, 1.0])
    with pytest.raises(GuardError) as caught, inspect.guard():
        y = x - 3  # read
        x.array += 10  # by no operator, which would have been seen
        y.log()
    story = str(caught.value)
    assert f"it came from sub at {HERE}:{line_of('read')}: it gave -2.0; its inputs have been overwritten" in story
    assert "11.0 - 3" not in story


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    "operator", ["mul", "matmul", "linear", "conv", "getitem", "cat", "sum", "split", "unbind", "max"]
)
def test_the_first_bad_index_leads_to_the_elements_that_made_it(operator):
    """One element of an input is out of range; whatever the operator, the story names just that element."""
    rng = np.random.default_rng(3)
    array = rng.uniform(0.5, 1, (4, 6)).astype(np.float32)
    array[2, 3] = 1000.0
    x = rg.tensor(array)
    w = rg.tensor(rng.uniform(0.5, 1, (6, 6)).astype(np.float32))
    y = {
        "mul": lambda: x * w[:4],
        "matmul": lambda: x @ w,
        "linear": lambda: F.linear(x, w),
        "conv": lambda: F.conv1d(x.reshape(1, 4, 6), w.reshape(6, 6, 1)[:, :4]),
        "getitem": lambda: x[1:, 2:5],
        "cat": lambda: rg.cat([w, x]),
        "sum": lambda: x.sum(0),
        "split": lambda: x.split(3, dim=1)[1],
        "unbind": lambda: x.unbind(0)[2],
        "max": lambda: x.max(dim=1)[0],
    }[operator]
    with pytest.raises(GuardError) as caught, inspect.guard():
        y().exp()
    story = str(caught.value)
    assert "input x at (2, 3)" in story and "which held 1000.0" in story


def test_a_gradient_inside_vmap_is_told_with_its_cause():
    def distance(x):
        d = x - 9.0  # mapped cause
        return (d * d).sqrt().sum()  # mapped birth

    with pytest.raises(GuardError) as caught, inspect.guard():
        func.vmap(func.grad(distance))(rg.tensor([[1.0, 4.0], [9.0, 0.0]]))
    story = str(caught.value)
    assert story.startswith(
        f"{HERE}:{line_of('mapped birth')}: the gradient of sqrt for its input 0 is inf at (1, 0), "
    )
    assert "1 of 4 elements of all examples, whose number is the first index" in story
    assert "9.0 - 9.0 = 0.0" in story and f"cause: sub at {HERE}:{line_of('mapped cause')}" in story


def test_a_gradient_of_a_jacobian_is_told_with_its_cause():
    with pytest.raises(GuardError) as caught, inspect.guard():
        func.jacrev(lambda x: (x * 2).sqrt())(rg.tensor([[1.0, 4.0], [9.0, 0.0]]))
    story = str(caught.value)
    assert "is NaN at (1, 1), 1 of 4 elements in example 0 of vmap" in story
    assert "0.0 * 2 = 0.0" in story and "0 * inf is NaN" in story


def test_only_what_the_sentence_says_is_counted():
    with (
        pytest.raises(GuardError, match=r"gave -inf at \(0,\), 2 of 6 elements \(1 more is not finite\)"),
        inspect.guard(),
    ):
        rg.tensor([0.0, -1.0, 3.0, 1.0, 0.0, 2.0]).log()


def test_the_end_of_a_report_says_what_is_known_of_the_cause():
    x = rg.tensor([1.0, 3.0], requires_grad=True)
    stories = []
    for compute in (
        lambda: (x - 1.0).sqrt().sum().backward(),  # the value is fine, and its derivative is not
        lambda: (x.detach() - 1.0).log(),
        lambda: x.detach() * float("nan"),
    ):
        with inspect.guard() as g, pytest.raises(GuardError):
            compute()
        stories.append(g.story)
    derivative, value, operand = stories
    assert ", at whose result the derivative of sqrt is not finite" in derivative and "in range" not in derivative
    assert "whose inputs were still in range" in value
    assert "1.0 * NaN is NaN, because input 1 is" in operand and "inf" not in operand
    with inspect.guard() as g, pytest.raises(GuardError):
        y = rg.tensor([1.0, 3.0])
        z = y - 1.0
        y.array[:] = 5.0  # the guard does not see this write
        z.log()
    assert "whose inputs are no longer known" in g.story
