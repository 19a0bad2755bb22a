"""Trace, guard and profile on arrays that behave as CuPy's: none of them becomes an array of NumPy's by accident."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import inspect
from retrograd.nn import functional as F
from tests.helpers.guarded import cupy, guarded_backend


def step(x, w):
    h = F.softmax(x @ w, dim=1).log().clamp(min=-20)
    loss = (h * h).sum(1).sqrt().mean() + w[1:].abs().max()
    loss.backward()
    return loss


@pytest.fixture
def on_device():
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal(shape).astype("f4") for shape in ((5, 3), (3, 4))]
    with guarded_backend():
        yield [rg.Tensor(cupy.array(array)).requires_grad_() for array in arrays], arrays


def test_the_trace_is_that_of_numpy(on_device):
    (x, w), arrays = on_device
    with inspect.trace(keep="values") as t:
        step(x, w)
    with inspect.trace(keep="values") as u:
        step(*[rg.tensor(array, requires_grad=True) for array in arrays])
    assert u.records[0].operator == "tensor" and str(t) and t.to_json()
    assert t.kept == u.kept
    difference = t.diff(u.filter(lambda record: record.operator != "tensor"))
    assert not difference, str(difference)


def test_the_guard_tells_its_story(on_device):
    (x, w), _ = on_device
    with inspect.guard(vanishing=1e-12, exploding=1e12) as g:
        step(x, w)
    assert g.story == "" and "mean" in g.chart
    with pytest.raises(RuntimeError) as caught, inspect.guard():
        ((x @ w - 100).sum(1) * 2).sqrt()
    assert "sqrt gave NaN at (0,), 5 of 5" in str(caught.value) and "it came from mul" in str(caught.value)
    with pytest.raises(RuntimeError, match=r"the gradient of sqrt .*is inf"), inspect.guard():
        (x - x).sqrt().sum().backward()


def test_the_profile_measures(on_device, tmp_path):
    (x, w), _ = on_device
    with inspect.profile() as p:
        step(x, w)
    assert p.seconds > 0 and str(p)
    p.save(tmp_path / "p.html")
