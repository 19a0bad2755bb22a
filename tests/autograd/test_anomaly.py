"""Anomaly mode: the operator, the line, the first non-finite gradient, and writes to saved memory."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd import func
from retrograd.autograd import detect_anomaly
from retrograd.autograd.anomaly import is_anomaly_enabled
from retrograd.core.tensor import tensor


def test_names_operator_and_line():
    x = rg.tensor([0.0, 1.0], requires_grad=True)
    with detect_anomaly():
        y = (x * 2).sqrt()  # the line
        with pytest.raises(RuntimeError) as caught:
            (y * 3).sum().backward()
    message = str(caught.value)
    assert message.startswith("sqrt: its gradient for input 0 is not finite (1 infinite")
    assert "y = (x * 2).sqrt()  # the line" in message and __file__ in message
    assert "at (0,) it is inf: the derivative of sqrt, 1 / (2 sqrt(x)), is infinite at x = 0" in message


def test_stops_at_the_first_operator():
    x = rg.tensor([0.0], requires_grad=True)
    with detect_anomaly(), pytest.raises(RuntimeError, match="^div"):
        ((x * 1) / (x * 2)).sum().backward()


def test_a_program_of_pytorch_stops_at_nan_only(monkeypatch):
    monkeypatch.setattr(tensor, "arrays_keep_dtype", False)
    x = rg.zeros(1, requires_grad=True)
    with detect_anomaly():
        assert rg.autograd.grad(x.sqrt().sum(), x)[0].tolist() == [float("inf")]
        with pytest.raises(RuntimeError, match="0 infinite, 1 NaN"):
            rg.autograd.grad((x.sqrt() * 0).sum(), x)


def test_silent_on_finite_gradients():
    x = rg.ones(3, requires_grad=True)
    with detect_anomaly():
        x.exp().sum().backward()
    assert np.isfinite(x.grad.numpy()).all()


def test_memory_changed_behind_the_back():
    array = np.ones(3)
    x = rg.from_numpy(array).requires_grad_()
    with detect_anomaly():
        y = (x * x).sum()
        array[0] = 7.0
        with pytest.raises(RuntimeError, match="bypasses copy on write"):
            y.backward()


def test_leaves_nothing_behind():
    from retrograd.core.graph.modes import watchers

    with pytest.raises(ValueError, match="out"), detect_anomaly():
        raise ValueError("out")
    assert not is_anomaly_enabled() and not watchers

    @detect_anomaly()
    def function() -> bool:
        return is_anomaly_enabled()

    assert function() and not is_anomaly_enabled()
    with rg.autograd.set_detect_anomaly(True):
        assert is_anomaly_enabled()
    assert not is_anomaly_enabled() and not watchers
    rg.autograd.set_detect_anomaly(True)
    rg.autograd.set_detect_anomaly(False)
    assert not is_anomaly_enabled() and not watchers


# Transformed functions, whose backward passes are of all examples at once
MAPPED = {
    "vmap of grad": lambda f, x: func.vmap(func.grad(f))(x),
    "vmap of vmap": lambda f, x: func.vmap(func.vmap(func.grad(f)))(x[None]),
    "grad of vmap": lambda f, x: func.grad(lambda x: func.vmap(f)(x).sum())(x),
    "jacrev": lambda f, x: func.jacrev(f)(x),
    "hessian": lambda f, x: func.hessian(lambda x: f(x).sum())(x),
}


@pytest.mark.parametrize("transform", MAPPED)
def test_a_mapped_walk_is_watched_for_all_examples(transform):
    wanted = MAPPED[transform](rg.sqrt, rg.tensor([1.0, 4.0]))
    with rg.autograd.detect_anomaly():
        found = MAPPED[transform](rg.sqrt, rg.tensor([1.0, 4.0]))
        assert found.tolist() == wanted.tolist()
        with pytest.raises(RuntimeError, match=r"sqrt: its gradient for input 0 is not finite(.|\n)*rg.sqrt"):
            MAPPED[transform](lambda x: rg.sqrt(x), rg.tensor([1.0, 0.0]))
