"""The guard around training: optimizers, GradScalers, writes in place, and masks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd import inspect, nn
from retrograd.core.errors import GuardError

HERE = Path(__file__).name


def line_of(text):
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}"))


def story_of(program):
    with pytest.raises(GuardError) as caught, inspect.guard():
        program()
    return str(caught.value)


def test_a_step_that_makes_nan_is_told_as_the_optimizers():
    p = nn.Parameter(rg.ones(3))
    optimizer = rg.optim.Adam([p], lr=1e-3, eps=0.0)

    def program():
        (p * rg.tensor([1.0, 0.0, 2.0])).sum().backward()
        optimizer.step()  # the step

    story = story_of(program)
    assert story.startswith(f"{HERE}:{line_of('the step')}: the step of Adam made parameter p NaN at (1,), 1 of 3")
    assert "before the step it was 1.0, its gradient is 0.0" in story and "exp_avg_sq 0.0" in story


def test_a_gradient_that_was_written_nan_is_told_at_the_step():
    p = nn.Parameter(rg.ones(2))
    optimizer = rg.optim.SGD([p], lr=0.1)

    def program():
        p.sum().backward()
        p.grad.array[1] = np.nan
        optimizer.step()

    story = story_of(program)
    assert "the step of SGD made parameter p NaN at (1,)" in story and "its gradient is NaN" in story
    assert "no operator under this guard computed this gradient" in story


def test_a_parameter_that_something_else_has_written_is_no_data_that_was_always_so():
    p = nn.Parameter(rg.ones(2))

    def program():
        p.sum().backward()
        p.array[0] = np.nan
        p * 2

    story = story_of(program)
    assert "parameter p at (0,) is NaN" in story and "it was finite at the last backward pass" in story
    assert "before any operator" not in story and "loaded" not in story


def test_a_step_of_any_optimizer_keeps_what_history_has_read():
    p = nn.Parameter(rg.tensor([2.0, 3.0]))
    optimizer = rg.optim.SGD([p], lr=1.0)

    def program():
        y = p - 5  # read
        p.sum().backward()
        optimizer.step()
        y.log()

    assert f"it came from sub at {HERE}:{line_of('read')}: 2.0 - 5 = -3.0" in story_of(program)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize("clips", [False, True])
def test_overflow_that_a_grad_scaler_expects_does_not_stop_it(clips):
    rg.manual_seed(0)
    scaler = rg.amp.GradScaler("cpu", init_scale=2.0**18)
    model = nn.Sequential(nn.Linear(3, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = rg.optim.SGD(model.parameters(), lr=0.01)
    x, scales = rg.randn(8, 3), []
    with inspect.guard() as g:
        for _ in range(6):
            optimizer.zero_grad()
            with rg.autocast("cpu", dtype=rg.float16):
                loss = (model(x) - 1).square().mean()
            for _ in range(2):
                scaler.scale(loss / 2).backward(retain_graph=True)
            if clips:
                scaler.unscale_(optimizer)
                nn.utils.clip_grad_norm_(model.parameters(), 1.0)
            scaler.step(optimizer)
            scaler.update()
            scales.append(scaler.get_scale())
    assert g.story == "" and scales[0] < 2.0**18 and scales[-1] == scales[-2]


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_overflow_under_a_grad_scaler_that_reaches_the_optimizer_is_told():
    p = nn.Parameter(rg.ones(3, dtype=rg.float16))
    optimizer = rg.optim.SGD([p], lr=0.1)

    def program():
        rg.amp.GradScaler("cpu", init_scale=2.0**10).scale((p * 100).sum()).backward()  # too large
        optimizer.step()

    story = story_of(program)
    assert story.startswith(f"{HERE}:") and "overflows float16" in story


def test_nan_under_a_grad_scaler_is_no_overflow():
    x = rg.zeros(3, requires_grad=True)
    scaler = rg.amp.GradScaler("cpu", init_scale=2.0**10)
    story = story_of(lambda: scaler.scale(x.sqrt().sum()).backward())
    assert "1 / (2 sqrt(x)), is infinite at x = 0" in story


def test_what_was_written_in_place_is_told_as_it_was_read():
    g = rg.zeros(4)

    def program():
        nonlocal g
        g /= g.norm()

    story = story_of(program)
    assert "norm(4 values from 0.0 to 0.0) = 0.0" in story and "from NaN" not in story
    x = rg.tensor([5.0, 1.0])

    def program():
        y = x - 3  # sub
        x.add_(10)
        x[0] = 7.0
        y.log()

    story = story_of(program)
    assert f"it came from sub at {HERE}:{line_of('sub')}: 1.0 - 3 = -2.0" in story


@pytest.mark.filterwarnings("ignore:overflow")
def test_bfloat16_is_watched():
    story = story_of(lambda: rg.tensor([1.0, -1.0], dtype=rg.bfloat16).sqrt())
    assert "sqrt(-1.0): the square root of a negative number is NaN" in story
    story = story_of(lambda: rg.tensor([3e38], dtype=rg.bfloat16) * 10)
    assert "overflows bfloat16, whose largest number is 3.38953e+38" in story


def test_only_an_operator_that_drops_the_element_is_called_a_mask():
    x = rg.tensor([0.0, 4.0], requires_grad=True)
    story = story_of(lambda: rg.where(x > 1, x.sqrt() * 3, 0.0).sum().backward())
    assert "where at" in story and "mul at" not in story.partition("drops this element")[0].splitlines()[-1]
    y = rg.tensor([0.0, 4.0], requires_grad=True)
    zero = rg.zeros(2, requires_grad=True)
    story = story_of(lambda: ((y.sqrt() * 3) * zero).sum().backward())
    assert "drops this element" in story
