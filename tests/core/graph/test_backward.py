"""The graph and its walk: order, pruning, freeing, hooks, errors."""

from __future__ import annotations

import gc
import threading
import time
import weakref

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd import grad
from retrograd.core.graph.primitive import Primitive


@pytest.mark.slow
def test_a_chain_of_100_000_operators():
    x = rg.ones(3, requires_grad=True)
    y = x
    for _ in range(100_000):
        y = y + 1
    start = time.perf_counter()
    y.sum().backward()
    assert time.perf_counter() - start < 10
    assert x.grad.tolist() == [1.0] * 3
    del y


def test_a_graph_with_exponentially_many_paths():
    x = rg.ones(1, dtype=rg.float64, requires_grad=True)
    y = x
    for _ in range(60):
        y = y + y
    y.backward()
    assert x.grad.item() == 2.0**60


def test_graph_and_arrays_are_freed_without_the_collector():
    gc.collect()
    gc.disable()
    try:
        x = rg.ones(3, requires_grad=True)
        y = (x * 2).exp().sum()
        node = weakref.ref(y.grad_fn)
        y.backward()
        del y
        assert node() is None
    finally:
        gc.enable()


def test_the_collector_sees_one_object_per_recorded_call():
    """A pass of the garbage collector over a large graph would otherwise take longer than the graph's operators."""
    x, c = rg.rand(4, 4).requires_grad_(), rg.rand(4, 4).requires_grad_()

    def record():
        y = x
        for _ in range(50):
            y = (1.0 - (y * c + 1.0).sin()) @ (c / y[0])
        return y

    record()
    before = gc.get_objects()  # held, so that no new object has the id of one of them
    graph = record()
    counts = [_tracked_below(graph, before)]
    while len(counts) < 3 or counts[-1] < counts[-2]:  # a tuple of tuples is untracked one pass after its parts
        gc.collect()
        counts.append(_tracked_below(graph, before))
    assert 350 <= counts[-1] < 350 + 40  # one object is the node


def _tracked_below(root, known):
    """Count the objects that the collector visits, that are reachable from ``root``, and that are not in ``known``."""
    new = set(map(id, gc.get_objects())).difference(map(id, known))
    seen, waiting, count = set(), [root], 0
    while waiting:
        for value in gc.get_referents(waiting.pop()):
            tracked = gc.is_tracked(value)
            if id(value) not in seen and (not tracked or id(value) in new):
                seen.add(id(value))
                waiting.append(value)
                count += tracked
    return count


def test_saved_arrays_are_freed_by_the_walk_though_the_graph_lives():
    x = rg.ones(3, requires_grad=True)
    y = x.exp()
    z = (y * y).sum()
    mul = z.grad_fn.parents[0]
    assert mul.saved is not None
    z.backward()
    assert mul.saved is None


def test_second_backward():
    x = rg.ones(3, requires_grad=True)
    y = (x * x).sum()
    y.backward(retain_graph=True)
    y.backward()
    assert x.grad.tolist() == [4.0] * 3
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.backward()


def test_errors_name_operator():
    x = rg.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"only for scalar outputs; the output of mul is float32\(3,\)"):
        (x * 2).backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        rg.ones(1).backward()
    with pytest.raises(RuntimeError, match="mismatch in shape"):
        (x * 2).backward(rg.ones(2))
    with pytest.raises(RuntimeError, match=r"mul\(float32\(3,\), float32\(2,\)\)"):
        x * rg.ones(2)
    with pytest.raises(TypeError, match="mul"):
        rg.mul(x, "two")
    with pytest.raises(RuntimeError, match="not used in the graph"):
        grad((x * 2).sum(), rg.ones(3, requires_grad=True))


def test_grad_prunes_and_leaves_dot_grad_alone():
    x, y = rg.ones(3, requires_grad=True), rg.ones(3, requires_grad=True)
    called = []
    y.register_hook(lambda g: called.append(g))
    (gx,) = grad((x * y).sum(), x)
    assert gx.tolist() == [1.0] * 3 and x.grad is None and y.grad is None and not called


def test_grad_of_an_intermediate():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    y = x * x
    z = (y * y).sum()
    gy, gx = grad(z, (y, x))
    assert gy.tolist() == [2.0, 8.0] and gx.tolist() == [4.0, 32.0]


def test_grad_options():
    x, unused = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
    assert grad(x.sum(), (x, unused), allow_unused=True)[1] is None
    assert grad(x.sum(), (x, unused), materialize_grads=True)[1].tolist() == [0.0, 0.0]
    (batched,) = grad(x * 2, x, rg.eye(2), is_grads_batched=True)
    assert batched.tolist() == [[2.0, 0.0], [0.0, 2.0]]


def test_higher_orders():
    x = rg.tensor(2.0, dtype=rg.float64, requires_grad=True)
    y = x**5
    for expected in (80.0, 160.0, 240.0, 240.0, 120.0):
        (y,) = grad(y, x, create_graph=True)
        assert y.item() == pytest.approx(expected)


def test_backward_inputs():
    x, y = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
    (x * y).sum().backward(inputs=[x])
    assert x.grad.tolist() == [1.0, 1.0] and y.grad is None


def test_gradients_do_not_share_memory():
    x, y = rg.ones(3, requires_grad=True), rg.ones(3, requires_grad=True)
    seed = rg.ones(3)
    (x + y).backward(seed)
    arrays = [x.grad.array, y.grad.array, seed.array]
    for i, a in enumerate(arrays):
        for b in arrays[i + 1 :]:
            assert not np.shares_memory(a, b)


def test_accumulation_into_grad_is_in_place():
    x = rg.ones(3, requires_grad=True)
    (x * 2).sum().backward()
    first = x.grad
    (x * 3).sum().backward()
    assert x.grad is first and first.tolist() == [5.0] * 3


def test_hooks():
    x = rg.ones(2, requires_grad=True)
    y = x * 3
    seen = []
    y.register_hook(lambda g: seen.append(("y", g.tolist())))
    handle = x.register_hook(lambda g: g * 2)
    x.register_post_accumulate_grad_hook(lambda t: seen.append(("x", t.grad.tolist())))
    y.retain_grad()
    y.sum().backward()
    assert seen == [("y", [1.0, 1.0]), ("x", [6.0, 6.0])]
    assert y.grad.tolist() == [1.0, 1.0] and y.retains_grad
    handle.remove()
    x.grad = None
    (x * 3).sum().backward()
    assert x.grad.tolist() == [3.0, 3.0]


def test_leaf_hook_sees_the_sum_once():
    x = rg.ones(2, requires_grad=True)
    calls = []
    x.register_hook(lambda g: calls.append(g.tolist()))
    (x * 2 + x * 3).sum().backward()
    assert calls == [[5.0, 5.0]]


def test_hook_errors():
    x = rg.ones(2, requires_grad=True)
    x.register_hook(lambda g: rg.ones(3))
    with pytest.raises(RuntimeError, match="hook"):
        (x * 2).sum().backward()
    with pytest.raises(RuntimeError, match="does not require grad"):
        rg.ones(2).register_hook(print)


def test_a_hook_may_not_change_the_dtype():
    x = rg.ones(2, requires_grad=True)
    x.register_hook(lambda g: g.double())
    with pytest.raises(RuntimeError, match="hook.*float32.*float64"):
        (x * 2).sum().backward()
    assert x.grad is None


def test_retain_grad_keeps_what_the_hooks_made():
    x = rg.ones(2, requires_grad=True)
    y = x * 3
    y.retain_grad()
    y.register_hook(lambda g: g * 10)
    y.sum().backward()
    assert y.grad.tolist() == [10.0, 10.0] and x.grad.tolist() == [30.0, 30.0]


def test_backward_inputs_that_retain_their_gradient_get_it_once():
    x = rg.ones(2, requires_grad=True)
    y = x * 3
    y.retain_grad()
    (y * y).sum().backward(inputs=[y])
    assert y.grad.tolist() == [6.0, 6.0] and x.grad is None


def test_post_accumulate_hooks_run_for_the_inputs_of_backward():
    x, y = rg.ones(2, requires_grad=True), rg.ones(2, requires_grad=True)
    seen = []
    for name, leaf in (("x", x), ("y", y)):
        leaf.register_post_accumulate_grad_hook(lambda t, name=name: seen.append((name, t.grad.tolist())))
    (x * y * 2).sum().backward(inputs=[x])
    rg.autograd.backward((x * y).sum(), inputs=y)
    assert seen == [("x", [2.0, 2.0]), ("y", [1.0, 1.0])]


def test_post_accumulate_hooks_run_in_the_mode_of_the_walk():
    x = rg.ones(2, requires_grad=True)
    seen = []
    x.register_post_accumulate_grad_hook(lambda t: seen.append(rg.is_grad_enabled()))
    (x * x).sum().backward()
    (x * x).sum().backward(create_graph=True)
    (x * x).sum().backward(inputs=[x])
    assert seen == [False, True, False]


def test_a_gradient_with_history_keeps_it_when_more_is_added():
    x = rg.tensor([2.0], requires_grad=True)
    (x**3).backward(create_graph=True)
    grad_before = x.grad
    (x * 5).backward()
    assert x.grad is grad_before and x.grad.tolist() == [17.0]
    assert grad(x.grad, x)[0].tolist() == [12.0]


def test_gradients_that_cannot_be_are_refused():
    x = rg.tensor([2.0], requires_grad=True)
    with pytest.raises(RuntimeError, match="is complex"):
        grad(x * x, x, rg.tensor([1j]))
    with pytest.raises(RuntimeError, match="inputs is empty"):
        grad(x * x, [])
    with pytest.raises(RuntimeError, match="its own gradient"):
        x.grad = x
    (x * x).backward()
    x.data = rg.ones(3)
    with pytest.raises(RuntimeError, match=r"float32\(3,\).*float32\(1,\)"):
        (x * x).sum().backward()


def test_mixed_dtypes_give_gradients_in_each_input_dtype():
    x = rg.ones(3, dtype=rg.float32, requires_grad=True)
    y = rg.ones(3, dtype=rg.float64, requires_grad=True)
    z = x * y
    assert z.dtype == rg.float64
    z.sum().backward()
    assert x.grad.dtype == rg.float32 and y.grad.dtype == rg.float64


def test_broadcasting_is_summed_back():
    x = rg.ones(3, 1, requires_grad=True)
    y = rg.ones(2, 1, 4, requires_grad=True)
    (x * y).sum().backward()
    assert x.grad.shape == (3, 1) and x.grad[0, 0].item() == 8.0
    assert y.grad.shape == (2, 1, 4) and y.grad[0, 0, 0].item() == 3.0


def test_create_graph_gradients_are_tensors_with_history():
    x = rg.tensor([3.0], requires_grad=True)
    (x**3).backward(create_graph=True)
    first = x.grad
    assert first.requires_grad
    x.grad = None
    first.backward()
    assert x.grad.item() == 18.0


def test_backward_in_threads():
    import threading

    results = {}

    def work(index: int) -> None:
        with rg.set_grad_enabled(index % 2 == 0):
            x = rg.ones(10, requires_grad=True)
            y = (x * index).sum()
            if y.requires_grad:
                y.backward()
            results[index] = None if x.grad is None else x.grad[0].item()

    threads = [threading.Thread(target=work, args=(index,)) for index in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert results == {index: float(index) if index % 2 == 0 else None for index in range(8)}


def visited_nodes(monkeypatch, program):
    """How many nodes all searches of the graph came upon while the program ran."""
    from retrograd.core.graph import backward

    count = 0
    search = backward.reachable

    def counted(*args):
        nonlocal count
        order, completes = search(*args)
        count += len(order)
        return order, completes

    with monkeypatch.context() as patch:
        patch.setattr(backward, "reachable", counted)
        program()
    return count


def test_a_gradient_in_each_step_of_a_loop_costs_the_same_however_long_the_history(monkeypatch):
    def leapfrog(steps):
        q, p = (rg.tensor(value, dtype=rg.float64, requires_grad=True) for value in ([1.0, 0.5], [0.0, 0.3]))
        for _ in range(steps):
            (force,) = grad((q**4).sum(), q, create_graph=True)
            p = p - 0.01 * force
            q = q + 0.01 * p

    short, long = (visited_nodes(monkeypatch, lambda steps=steps: leapfrog(steps)) for steps in (20, 40))
    assert long <= 2.1 * short


@pytest.mark.parametrize("layer", ["layer_norm", "scaled_dot_product_attention", "cross_entropy", "lstm_cell"])
def test_second_order_through_fused_layers_is_linear_in_depth(monkeypatch, layer):
    F = rg.nn.functional
    w = (0.1 * rg.eye(4, dtype=rg.float64)).requires_grad_()
    labels, zeros = rg.tensor([0, 1, 2, 3]), rg.zeros(4, 4, dtype=rg.float64)
    gates = rg.randn(16, 4, dtype=rg.float64)

    def apply_layer(h):
        if layer == "layer_norm":
            return F.layer_norm(h, (4,))
        if layer == "scaled_dot_product_attention":
            return F.scaled_dot_product_attention(h[None], h[None], h[None])[0]
        if layer == "lstm_cell":
            return rg.lstm_cell(h, (zeros, zeros), gates, gates)[0]
        return h + F.cross_entropy(h, labels)

    def second_order(depth):
        h = zeros + 1
        for _ in range(depth):
            h = apply_layer(h @ w)
        (first,) = grad((h**2).sum(), w, create_graph=True)
        grad((first**2).sum(), w, create_graph=True)

    short, long = (visited_nodes(monkeypatch, lambda depth=depth: second_order(depth)) for depth in (10, 20))
    assert long <= 2.2 * short


def test_a_gradient_towards_a_tensor_does_not_need_what_lies_below_it():
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    h = x.exp()
    h.sum().backward()  # frees what exp saved
    (g,) = grad((h * h).sum(), h)
    assert g.tolist() == (2 * h).tolist()


@pytest.mark.parametrize("size", [1000, 300_000])
def test_threads_that_walk_into_one_leaf_lose_no_gradient(size):
    for _ in range(10):
        x = rg.zeros(size, requires_grad=True)
        outputs, ones = [x * 1.0 for _ in range(20)], rg.ones(size)
        together = threading.Barrier(len(outputs))

        def walk(output, together=together, ones=ones):
            together.wait()
            output.backward(ones)

        threads = [threading.Thread(target=walk, args=(output,)) for output in outputs]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert set(x.grad.tolist()) == {20.0}


def test_out_of_memory_says_how_much_was_wanted():
    x = rg.ones(1, dtype=rg.float64)
    with pytest.raises(MemoryError, match=r"Unable to allocate .*iB"):
        x.expand(10**15) + 1
    with pytest.raises(MemoryError, match=r"Unable to allocate .*iB"):
        rg.zeros(10**15) + 1


def test_a_graph_that_saved_no_array_may_be_walked_again_as_in_pytorch():
    x = rg.ones(1, 3, requires_grad=True)
    y = x.expand(2, 3).reshape(6)[1:4].sum()
    y.backward()
    y.backward()
    assert x.grad.tolist() == [[2.0, 2.0, 2.0]]
    z = x.exp().sum()
    z.backward()
    with pytest.raises(RuntimeError, match="exp: backward through the graph a second time"):
        z.backward()


def test_a_parameter_that_is_not_passed_by_keyword_is_named():
    power = Primitive("power", lambda x, n: x**n, "x", [lambda g, x, n: g * n * x ** (n - 1)])
    x = rg.tensor([1.0, 2.0], requires_grad=True)
    with pytest.raises(TypeError, match=r"power: a rule reads the parameter 'n'; .* keyword: power\(x, n=\.\.\.\)"):
        power(x, 3)
    power(x, n=3).sum().backward()
    assert x.grad.tolist() == [3.0, 12.0]
