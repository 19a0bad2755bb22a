"""Memory that a backward pass reuses: logits, gradients that two operators share, inputs that it computes again."""

import tracemalloc
from contextlib import nullcontext
from weakref import ref

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.arrays.summation import LARGE, adding
from retrograd.core.graph.nodes import reachable
from retrograd.nn import functional as F
from retrograd.ops.linear.products import affine

ROWS, WIDTH, CLASSES = 528, 16, 512


@pytest.fixture(autouse=True)
def _loops():
    rg.ones(LARGE) + rg.ones(LARGE)
    if not adding:
        pytest.skip("there are no compiled loops")


def drawn(*shape, seed=0):
    return rg.from_numpy(np.random.default_rng(seed).standard_normal(shape).astype(np.float32))


def test_a_pass_that_frees_the_graph_gives_the_gradients_of_one_that_retains_it():
    table, inner = drawn(LARGE // 256, 256).requires_grad_(), drawn(256, 256, seed=1).requires_grad_()
    index, target = rg.arange(ROWS) % 300, rg.arange(ROWS) % 7
    found = []
    for retain in (True, False):
        hidden = F.linear(F.gelu(F.embedding(index, table) * 0.1), inner)
        logits = F.linear(F.layer_norm(hidden, (256,)), table)
        options = {"label_smoothing": 0.1, "weight": rg.linspace(0.5, 1, len(table))}
        (F.cross_entropy(logits, target, **options) + F.cross_entropy(logits * 0.5, target)).backward(
            retain_graph=retain
        )
        found.append([table.grad.numpy(), inner.grad.numpy()])
        table.grad = inner.grad = None
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=1e-5, atol=1e-9)
    np.testing.assert_array_equal(found[1][1], found[0][1])


@pytest.mark.parametrize("keep", ["logits", "view", "array", "nothing"])
def test_the_gradient_overwrites_logits_only_if_nothing_refers_to_them(keep):
    x, weight, target = drawn(2, ROWS // 2, WIDTH), drawn(CLASSES, WIDTH, seed=1), rg.arange(ROWS) % CLASSES
    x.requires_grad_()
    logits = F.linear(x, weight)
    expected, kept = logits.detach().numpy().copy(), logits.view(-1, CLASSES).detach()
    gradient = (F.softmax(kept, -1) - F.one_hot(target, CLASSES)).numpy() / ROWS @ weight.numpy()
    loss = F.cross_entropy(logits.view(-1, CLASSES), target)
    address = logits.array.ctypes.data
    cotangents = []
    logits.register_hook(lambda g: cotangents.append(g.array.ctypes.data))
    kept = {"logits": logits, "view": kept, "array": kept.array[3:], "nothing": None}[keep]
    del logits
    loss.backward()
    assert (cotangents == [address]) is (keep == "nothing")
    if keep != "nothing":
        rows = (kept.detach().numpy() if isinstance(kept, rg.Tensor) else kept).reshape(-1, CLASSES)
        np.testing.assert_array_equal(rows, expected.reshape(-1, CLASSES)[-len(rows) :])
    np.testing.assert_allclose(x.grad.numpy().reshape(-1, WIDTH), gradient, atol=2e-7)


ACTIVATIONS = {
    "gelu": F.gelu,
    "product": lambda x: F.silu(x) * x,
    "norm": lambda x: F.layer_norm(x, x.shape[1:], rg.ones(x.shape[1])),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_a_linear_layer_computes_a_cheap_input_again(name, monkeypatch):
    monkeypatch.setattr(affine, "RECOMPUTED", LARGE)
    x, weight = drawn(LARGE // 256, 256).requires_grad_(), drawn(8, 256, seed=1).requires_grad_()
    values = ACTIVATIONS[name](x * 1.0).detach().numpy()
    y = ACTIVATIONS[name](x * 1.0)
    array = ref(y.array)
    outs = [F.linear(y, weight), F.linear(y, weight * 2)]
    del y
    assert array() is None
    g = drawn(*outs[0].shape, seed=2)
    (outs[0] * g).sum().backward(inputs=[weight])
    np.testing.assert_array_equal(weight.grad.numpy(), F.linear(g.mT, rg.from_numpy(values).mT).numpy())
    (first,) = rg.autograd.grad((outs[1] * g).sum(), [x], create_graph=True)
    first.square().sum().backward()
    again = x.detach().clone().requires_grad_()
    with rg.inspect.trace():  # saves everything
        other = F.linear(ACTIVATIONS[name](again * 1.0), weight.detach() * 2)
        (second,) = rg.autograd.grad((other * g).sum(), [again], create_graph=True)
        second.square().sum().backward()
    np.testing.assert_array_equal(first.detach().numpy(), second.detach().numpy())
    np.testing.assert_allclose(x.grad.numpy(), again.grad.numpy(), rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("way", ["in place", "alias", "unrecorded", "later"])
def test_a_written_input_is_not_computed_again(way, monkeypatch):
    monkeypatch.setattr(affine, "RECOMPUTED", LARGE)
    x, weight = drawn(LARGE // 256, 256), drawn(8, 256, seed=1).requires_grad_()
    y = F.gelu(x.requires_grad_())
    if way == "in place":
        y += 1
    elif way == "alias":
        y.detach().numpy()[...] += 1
    elif way == "unrecorded":
        with rg.no_grad():
            y += 1
    values = y.detach().clone() if way != "later" else F.gelu(x).detach()
    out = F.linear(y, weight)
    if way == "later":
        y += 1
    del y
    out.sum().backward()
    np.testing.assert_allclose(weight.grad.numpy(), np.broadcast_to(values.sum(0).numpy(), (8, 256)), rtol=1e-4)


def test_an_optimizer_in_the_backward_pass_holds_one_gradient_at_a_time():
    rg.manual_seed(0)
    nets = [rg.nn.Sequential(*[rg.nn.Linear(8, 8) for _ in range(5)]) for _ in range(2)]
    nets[1].load_state_dict(nets[0].state_dict())
    x, alive = drawn(4, 8), []
    optimizers = {p: rg.optim.AdamW([p], lr=0.1) for p in nets[0].parameters()}

    def update(p):
        alive.append(sum(q.grad is not None for q in nets[0].parameters()))
        optimizers[p].step()
        optimizers[p].zero_grad()

    for p in nets[0].parameters():
        p.register_post_accumulate_grad_hook(update)
    whole = rg.optim.AdamW(nets[1].parameters(), lr=0.1)
    for _ in range(3):
        nets[0](x).square().mean().backward()
        whole.zero_grad()
        nets[1](x).square().mean().backward()
        whole.step()
    assert set(alive) == {1}
    for p, q in zip(*[net.parameters() for net in nets], strict=True):
        np.testing.assert_array_equal(p.detach().numpy(), q.detach().numpy())


def order_of(loss):
    return reachable([loss.grad_fn])[0]


def test_a_gradient_of_several_readers_is_computed_late_for_a_hook_on_it():
    table, inner = drawn(LARGE // 256, 256).requires_grad_(), drawn(256, 256, seed=1).requires_grad_()
    index, target = rg.arange(96), rg.arange(96) % 7

    def passed(budget=None):
        with nullcontext() if budget is None else rg.memory_budget(budget):
            hidden = F.linear(F.embedding(index, table) * 0.1, inner)
            begins = []
            hidden.register_hook(lambda _: begins.append(tracemalloc.get_traced_memory()[0]))
            loss = F.cross_entropy(F.linear(hidden, table), target)
            edges = [node.parents for node in order_of(loss)]
            tracemalloc.start()
            loss.backward()
            tracemalloc.stop()
            assert [node.parents for node in order_of(loss)] == edges
        found = table.grad.numpy(), inner.grad.numpy()
        table.grad = inner.grad = None
        return found, begins[0]

    plain, held = passed()
    handle = table.register_post_accumulate_grad_hook(lambda leaf: None)
    for budget in (None, "1 GB"):
        late, held_late = passed(budget)
        assert held_late < held - 0.5 * table.nbytes
        for one, other in zip(late, plain, strict=True):
            np.testing.assert_array_equal(one, other)
    handle.remove()


def test_logits_that_a_linear_layer_computes_again_are_not_overwritten(monkeypatch):
    monkeypatch.setattr(affine, "RECOMPUTED", LARGE)
    h, w = drawn(512, LARGE // 256).requires_grad_(), drawn(8, LARGE // 256, seed=1).requires_grad_()
    found = []
    for retain in (True, False):
        x = F.gelu(h)
        product = F.linear(x, w).square().mean()
        loss = F.cross_entropy(x, rg.arange(512) % 7)
        del x
        (product + loss).backward(retain_graph=retain)
        found.append(w.grad.numpy())
        w.grad = h.grad = None
    np.testing.assert_array_equal(found[1], found[0])
