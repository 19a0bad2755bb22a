"""memory_budget with ``saved_dtype``: saved values in bfloat16 instead of a recomputation."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import nn
from retrograd.core.graph.nodes import Node
from retrograd.func.memory.halving import Halved, View
from retrograd.func.memory.recipes import Call

pytest.importorskip("ml_dtypes")


class Turned(nn.Module):
    """Reads and saves views: transposed, sliced and flattened."""

    def forward(self, x):
        left, right = x.T[:64], x.T[64:]
        return (left.tanh() * right.sigmoid()).T.reshape(-1).repeat(2).view(x.shape[0], -1).sin()


@pytest.fixture
def model():
    rg.manual_seed(0)
    layers = [layer for _ in range(8) for layer in (nn.Linear(128, 128), nn.Tanh(), nn.LayerNorm(128), Turned())]
    return nn.Sequential(*layers)


def gradients(model, budget, twice=False, dtype=rg.float32):
    rg.manual_seed(1)
    x, weights = rg.randn(96, 128, dtype=dtype), rg.randn(96, 128, dtype=dtype)
    model.zero_grad()
    with budget:
        loss = (model(x) * weights).mean()
        held = bytes_of(loss)
        loss.backward(retain_graph=twice)
        if twice:
            model.zero_grad()
            loss.backward()
    return loss.item(), [p.grad.array.copy() for p in model.parameters()], held


def bytes_of(loss):
    """The bytes of the arrays that the nodes of a graph hold, each memory once, without those of parameters."""
    found, nodes, met = {}, [loss._node], set()

    def owner(array):
        while getattr(array, "base", None) is not None:
            array = array.base
        return array

    parameters = set()
    while nodes:
        node = nodes.pop()
        if isinstance(node, rg.Tensor):
            parameters.add(id(owner(node.array)))
        if type(node) is not Node or node.sequence in met:
            continue
        met.add(node.sequence)
        nodes += node.parents
        saved = node.saved.partial if isinstance(node.saved, Call) else node.saved
        for value in saved.values if isinstance(saved, Halved) else saved or ():
            array = value.half.array if isinstance(value, View) else value
            if isinstance(array, np.ndarray):
                found[id(owner(array))] = array.nbytes
    return sum(size for key, size in found.items() if key not in parameters)


def test_saved_values_in_bfloat16_make_room_without_recomputing(model):
    whole = rg.memory_budget("1 GB")
    loss, wanted, held = gradients(model, whole)
    for share, recomputes in ((0.9, False), (0.8, False), (0.4, True)):
        budget = rg.memory_budget(int(share * whole.peak), rg.bfloat16)
        found_loss, found, found_held = gradients(model, budget)
        assert found_loss == loss, "results are exact"
        assert budget.peak <= share * whole.peak and budget.halved > 0
        assert (budget.recomputations > 0) is recomputes
        if not recomputes:
            assert found_held <= share * held
        errors = [np.abs(a - b).max() / np.abs(b).max() for a, b in zip(found, wanted, strict=True)]
        assert 0 < max(errors) < 3e-2
    exact = rg.memory_budget(int(0.8 * whole.peak))
    _, found, _ = gradients(model, exact)
    assert exact.recomputations > 0 and exact.halved == 0
    assert all((a == b).all() for a, b in zip(found, wanted, strict=True))


def test_a_gradient_is_that_of_the_rounded_value():
    rg.manual_seed(0)
    leaves = [rg.randn(4096, requires_grad=True) for _ in range(40)]
    with rg.memory_budget(30 * 4096 * 4, rg.bfloat16) as budget:
        sum((x * 3).square().sum() for x in leaves).backward()
    assert budget.halved > 0 and budget.recomputations == 0
    rounded = 0
    for x in leaves:
        y = (x.detach() * 3).array
        narrow = y.astype(rg.bfloat16).astype(np.float32)
        assert (np.abs(narrow - y) <= np.abs(y) * 2.0**-8).all()
        kept = (x.grad.array == 2 * narrow * 3).all()
        assert kept or (x.grad.array == 2 * y * 3).all()
        rounded += kept
    assert rounded == budget.halved


def test_a_retained_graph_gives_the_same_gradients_again(model):
    whole = rg.memory_budget("1 GB")
    gradients(model, whole)
    limit = int(0.8 * whole.peak)
    once = gradients(model, rg.memory_budget(limit, rg.bfloat16))
    twice = gradients(model, rg.memory_budget("1 GB", rg.bfloat16), twice=True)
    assert all(np.abs(a - b).max() <= 3e-2 * np.abs(b).max() for a, b in zip(once[1], twice[1], strict=True))
    with rg.memory_budget(limit, rg.bfloat16) as budget:
        rg.manual_seed(1)
        loss = (model(rg.randn(96, 128)) * rg.randn(96, 128)).mean()
        first = rg.autograd.grad(loss, list(model.parameters()), create_graph=True)
        sum(g.square().sum() for g in first).backward()
    assert budget.halved > 0
    assert all(np.isfinite(p.grad.array).all() for p in model.parameters())


def test_float64_stays_exact(model):
    model = model.double()
    whole = rg.memory_budget("1 GB")
    _, wanted, _ = gradients(model, whole, dtype=rg.float64)
    budget = rg.memory_budget(int(0.6 * whole.peak), rg.bfloat16)
    _, found, _ = gradients(model, budget, dtype=rg.float64)
    assert budget.halved == 0 and budget.recomputations > 0
    assert all((a == b).all() for a, b in zip(found, wanted, strict=True))


def test_another_dtype_is_an_error():
    with pytest.raises(ValueError, match=r"saved_dtype must be retrograd.bfloat16 or None, got .*float16"):
        rg.memory_budget("1 MB", rg.float16)
    assert repr(rg.memory_budget("1 MB", rg.bfloat16)) == "memory_budget('1 MB', retrograd.bfloat16)"
