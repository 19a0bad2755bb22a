"""Trace, guard and profile around and inside the transforms: vmap, grad, Jacobians, forward mode, checkpoints."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import retrograd as rg
from retrograd import func, inspect
from retrograd.autograd.checkpoint import checkpoint
from retrograd.core.graph.modes import watchers

HERE = Path(__file__).name


def line_of(text):
    lines = Path(__file__).read_text().splitlines()
    return next(number for number, line in enumerate(lines, 1) if line.endswith(f"# {text}"))


def loss(w, x):
    return (x @ w).sin().sum()


TRANSFORMS = {
    "grad": lambda w, x: func.grad(loss)(w, x),
    "vmap": lambda w, x: func.vmap(lambda row: (row @ w).exp().sum())(x),
    "vmap of grad": lambda w, x: func.vmap(func.grad(loss), in_dims=(None, 0))(w, x),
    "jvp": lambda w, x: func.jvp(lambda w: loss(w, x), (w,), (rg.ones_like(w),))[1],
    "jacrev": lambda w, x: func.jacrev(lambda w: x @ w)(w),
    "hessian": lambda w, x: func.hessian(lambda w: loss(w, x))(w),
    "checkpoint": lambda w, x: rg.autograd.grad(checkpoint(lambda x: (x @ w).exp(), x).sum(), w)[0],
    "double backward": lambda w, x: rg.autograd.grad(
        rg.autograd.grad(loss(w, x), w, create_graph=True)[0].square().sum(), w
    )[0],
}


@pytest.mark.parametrize("tool", [inspect.trace, inspect.guard, inspect.profile])
@pytest.mark.parametrize("name", list(TRANSFORMS))
def test_transforms_give_the_same_with_observers(name, tool):
    w, x = rg.randn(3, 2, requires_grad=True), rg.randn(4, 3, requires_grad=True)
    plain = TRANSFORMS[name](w, x)
    with tool() as found:
        result = TRANSFORMS[name](w, x)
    np.testing.assert_array_equal(result.numpy(force=True), plain.numpy(force=True))
    assert not watchers
    if tool is not inspect.guard:
        assert len(found) > 2 and str(found)
        assert all(isinstance(record.values.mean, float) for record in found if record.values is not None)


def test_a_mapped_function_is_told_with_all_examples():
    x = rg.randn(4, 3)
    with inspect.trace() as t:
        result = func.vmap(lambda row: row.exp().sum())(x)  # mapped
    exp, total = t.records
    assert (exp.operator, exp.shape, total.shape) == ("exp", (4, 3), (4,))
    assert exp.line == line_of("mapped")
    assert total.values.mean == pytest.approx(float(result.numpy().mean()))


def test_a_number_that_is_not_finite_inside_a_mapped_function_is_told_with_its_line():
    x = rg.tensor([[1.0, 2.0], [3.0, -1.0]])
    with pytest.raises(RuntimeError) as caught, inspect.guard():
        func.vmap(lambda row: row.log().sum())(x)  # logarithm
    story = str(caught.value)
    assert story.startswith(f"{HERE}:{line_of('logarithm')}: log gave NaN at (1, 1), 1 of 4 elements")
    assert "log(-1.0)" in story


def test_a_gradient_inside_a_transform_is_watched():
    with pytest.raises(RuntimeError, match=r"the gradient of sqrt.* is inf"), inspect.guard():
        func.grad(lambda x: x.sqrt().sum())(rg.tensor([0.0, 1.0]))


@pytest.mark.parametrize("observer", [inspect.trace, inspect.profile])
def test_what_a_checkpoint_computes_again_is_not_counted_as_kept(observer):
    w, x = rg.randn(30, 20, requires_grad=True), rg.randn(40, 30, requires_grad=True)
    with observer() as t:
        y = checkpoint(lambda x: (x @ w).exp(), x)
        between = t.kept
        y.sum().backward()
    again = t.filter(operator="exp", phase="backward")[0]
    assert again.briefly and again.kept == 40 * 20 * 4
    assert t.kept == between == x.array.nbytes


def test_what_a_walk_records_for_a_second_one_is_kept():
    x = rg.randn(50, requires_grad=True)
    with inspect.trace() as t:
        (g,) = rg.autograd.grad(x.exp().sum(), x, create_graph=True)
        (g * g).sum().backward()
    (rule,) = t.filter(operator="mul", phase="backward")[:1]
    assert not rule.briefly and rule.kept and t.kept >= sum(record.kept for record in t.filter(operator="mul"))


def test_what_a_checkpoint_computes_again_is_told_as_part_of_the_walk():
    w, x = rg.randn(3, 2, requires_grad=True), rg.randn(4, 3)
    with inspect.trace() as t:
        checkpoint(lambda x: (x @ w).exp(), x).sum().backward()  # again
    assert [record.phase for record in t.filter(operator="exp")] == ["forward", "backward"]
    assert {record.line for record in t.filter(operator="exp")} == {line_of("again")}
