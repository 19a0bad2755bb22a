"""Memory that several Tensors, nodes or users hold: what each may see of a write. Found by fuzzing; see test_fuzz."""

from __future__ import annotations

import copy
import pickle
import sys
import threading

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.tensor.tensor import new_tensor


def leaf(*values: float) -> rg.Tensor:
    return rg.tensor(values, dtype=rg.float64, requires_grad=True)


def gradient(output: rg.Tensor, x: rg.Tensor) -> list[float]:
    return rg.autograd.grad(output, x, retain_graph=True)[0].tolist()


def test_a_write_that_fails_leaves_the_values():
    x = leaf(1, 2, 3)
    z = x * 1
    (z * z).sum()
    with pytest.raises(RuntimeError):
        z.copy_(rg.ones(2))
    assert z.tolist() == [1.0, 2.0, 3.0]


def test_a_view_taken_before_its_base_became_a_leaf_that_requires_grad():
    base = rg.zeros(3)
    view = base[:2]
    base.requires_grad_()
    with pytest.raises(RuntimeError, match="view of a leaf"):
        view.mul_(2)
    assert base.is_leaf


def test_data_of_a_tensor_whose_old_memory_others_share():
    p, y = leaf(1, 2), leaf(1, 1)
    shared = p.detach()
    p.data = rg.tensor([5.0, 6.0], dtype=rg.float64)
    loss = (shared * y).sum()
    shared.add_(10)
    assert gradient(loss, y) == [1.0, 2.0]
    assert p.tolist() == [5.0, 6.0]


def test_data_set_many_times_still_protects_what_is_saved():
    p = leaf(1, 2)
    for _ in range(3):
        p.data -= 0.0
    loss = p.sin().sum()
    with rg.no_grad():
        p.add_(100)
    np.testing.assert_allclose(gradient(loss, p), np.cos([1.0, 2.0]))


def test_views_stay_on_the_memory_that_data_left():
    x = leaf(1, 2, 3)
    z = x * 2
    first, second = z[:2], z[1:]
    z.data = rg.tensor([7.0, 8.0, 9.0], dtype=rg.float64)
    first.mul_(3)
    assert (z.tolist(), first.tolist(), second.tolist()) == ([7.0, 8.0, 9.0], [6.0, 12.0], [12.0, 6.0])
    assert gradient(first.sum(), x) == [6.0, 6.0, 0.0]
    assert gradient(second.sum(), x) == [0.0, 6.0, 2.0]
    assert gradient(z.sum(), x) == [2.0, 2.0, 2.0]


def test_a_write_after_detach_reaches_the_views_as_a_constant():
    z = leaf(1, 2, 3) * 2
    view = z[:2]
    z.detach_()
    assert view.requires_grad
    z.add_(1)
    assert not view.requires_grad


def test_as_strided_beyond_a_detached_part():
    whole, y = rg.arange(10, dtype=rg.float64), leaf(2)
    part = whole[4:6].detach()
    part.as_strided((10,), (1,), 0).mul_(y)
    assert part.tolist() == [8.0, 10.0]
    assert gradient((part * part).sum(), y) == [164.0]


def test_a_base_whose_elements_share_memory_is_written_through_a_view_whose_own_do_not():
    rows, y = rg.ones(2, dtype=rg.float64).expand(3, 2).detach(), leaf(3, 4)
    rows[0].mul_(y)
    assert rows.tolist() == [[3.0, 4.0]] * 3
    assert gradient((rows * rows).sum(), y) == [18.0, 24.0]
    with pytest.raises(RuntimeError, match="share one memory location"):
        rows[:2].mul_(2)


def test_overlapping_views_derived_again_after_a_write():
    x = leaf(1, 2, 3)
    z = x * 1
    windows, rows, strided = z.unfold(0, 2, 1), z.expand(4, 3), z.as_strided((2, 2), (1, 1))
    z.mul_(2)
    assert gradient(windows.sum(), x) == [2.0, 4.0, 2.0]
    assert gradient(rows.sum(), x) == [8.0, 8.0, 8.0]
    assert gradient(strided.sum(), x) == [2.0, 4.0, 2.0]


def test_overlapping_complex_view_derived_again_after_a_write():
    x = leaf(1, 2)
    z = x * (1 + 2j)
    rows = z.expand(3, 2)
    z.mul_(1j)
    np.testing.assert_allclose(gradient(rows.imag.sum(), x), [3.0, 3.0])


def test_retain_grad_follows_the_tensor_through_a_write():
    z = leaf(1, 2) * 2
    z.retain_grad()
    z.mul_(3)
    (z * 5).sum().backward()
    assert z.retains_grad and z.grad is not None and z.grad.tolist() == [5.0, 5.0]


@pytest.mark.parametrize("create_graph", [False, True])
@pytest.mark.parametrize("returns", [False, True])
def test_a_hook_that_writes_to_its_gradient_changes_that_one_alone(create_graph, returns):
    a, b = leaf(1), leaf(1)
    p = a * 1

    def hook(g: rg.Tensor) -> rg.Tensor | None:
        g.mul_(10)
        return g if returns else None

    p.register_hook(hook)
    grads = rg.autograd.grad((p + b * 1).sum(), (a, b), create_graph=create_graph)
    assert [g.tolist() for g in grads] == [[10.0], [1.0]]


def test_gradients_with_a_graph_have_memory_of_their_own():
    a, b, seed = leaf(1, 1), leaf(1, 1), rg.ones(2, dtype=rg.float64)
    (a + b).backward(seed, create_graph=True)
    a.grad.zero_()
    assert (a.grad.tolist(), b.grad.tolist(), seed.tolist()) == ([0.0, 0.0], [1.0, 1.0], [1.0, 1.0])
    (a + b).sum().backward(create_graph=True)
    (a + b).sum().backward()
    assert (a.grad.tolist(), b.grad.tolist()) == ([2.0, 2.0], [3.0, 3.0])


def test_a_gradient_set_to_an_expanded_tensor():
    x = leaf(1, 2)
    x.grad = rg.ones(1, dtype=rg.float64).expand(2)
    x.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]


def test_second_order_when_the_first_graph_is_gone():
    x = leaf(2)
    z = x * 1
    (g,) = rg.autograd.grad(z.sin().sum(), x, create_graph=True)  # nobody but g's graph holds z's values now
    with rg.no_grad():
        z.mul_(100)
    np.testing.assert_allclose(gradient(g, x), -np.sin([2.0]))


class Cube(rg.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * x * x

    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 3 * x * x


def test_second_order_of_a_function_when_the_first_graph_is_gone():
    x = leaf(2)
    z = x * 1
    (g,) = rg.autograd.grad(Cube.apply(z).sum(), x, create_graph=True)
    z.mul_(100)
    assert gradient(g, x) == [12.0]


def test_a_backward_that_writes_to_saved_tensors():
    class Square(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            (x,) = ctx.saved_tensors
            return g * x.mul_(2)

    x = leaf(2)
    z = x * 1
    loss = Square.apply(z).sum()
    assert gradient(loss, x) == gradient(loss, x) == [4.0]
    assert z.tolist() == [2.0]


def test_a_function_that_returns_a_view_of_its_input():
    """PyTorch refuses the write; here the output has memory of its own."""

    class Same(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x.view_as(x)

        @staticmethod
        def backward(ctx, g):
            return g

    x = leaf(1, 2)
    z = x * 1
    y = Same.apply(z)
    y.mul_(3)
    assert (z.tolist(), y.tolist()) == ([1.0, 2.0], [3.0, 6.0])
    assert gradient((z * z).sum() + y.sum(), x) == [5.0, 7.0]


def test_a_function_that_writes_to_a_leaf_is_refused():
    class Double(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx, g):
            return g * 2

    with pytest.raises(RuntimeError, match=r"Double.*leaf"):
        Double.apply(leaf(1, 2))


def test_a_stop_of_the_gradient_by_setitem():
    x = leaf(1, 2, 3)
    z = x * 1
    z[:2] = z[:2].detach()
    assert gradient(z.sum(), x) == [0.0, 0.0, 1.0]


def test_setitem_of_a_view_that_became_a_leaf():
    base = rg.zeros(3)
    view = base[:2].requires_grad_()
    base[:2] = view
    assert base.requires_grad


def test_no_grad_writes_through_brackets_stay_in_place():
    x = leaf(1, 2, 3)
    with rg.no_grad():
        x[1:] *= 2
    assert x._version == 1 and x.tolist() == [1.0, 4.0, 6.0]


@pytest.mark.parametrize(
    "write",
    [
        lambda x: x.add_(1),
        lambda x: x.relu_(),
        lambda x: x.lerp_(rg.ones(3, 3), 0.5),
        lambda x: x[1].mul_(2),
        lambda x: x[:, 1].add_(rg.ones(3)),
        lambda x: x.__setitem__((0, 1), 5.0),
        lambda x: x.__setitem__(slice(0, 2), rg.ones(2, 3)),
    ],
)
def test_a_write_to_constants_is_in_place_while_they_have_views(write):
    x = rg.arange(9.0).reshape(3, 3)
    views, array = [x[0], x[:, 1]], x.array
    version = x._version
    expected = x.numpy().copy()
    write(rg.from_numpy(expected))
    write(x)
    assert x.array is array and x._version == version + 1
    assert np.array_equal(x.numpy(), expected)
    assert views[0].tolist() == expected[0].tolist() and views[1].tolist() == expected[:, 1].tolist()


def test_a_write_to_constants_spares_what_a_node_saved_of_a_view():
    x, w = rg.arange(4.0), rg.ones(2, requires_grad=True)
    loss = (x[:2] * w).sum()
    x.add_(10.0)
    x[0] = 7.0
    assert gradient(loss, w) == [0.0, 1.0] and x.tolist() == [7.0, 11.0, 12.0, 13.0]


def test_a_view_taken_before_its_base_was_detached_keeps_to_the_base():
    w = leaf(1, 2)
    x = w * 2
    view = x[:1]
    x.detach_()
    x.mul_(3.0)
    assert view.tolist() == [6.0] and not view.requires_grad


def test_rows_written_over_by_their_neighbours_are_no_write_of_the_same_view():
    x = rg.arange(6.0).reshape(3, 2)
    x[:2] = x[1:]
    assert x.tolist() == [[2.0, 3.0], [4.0, 5.0], [4.0, 5.0]] and x._version == 1


def test_a_value_that_broadcasts_may_be_added_in_place_and_a_larger_one_not():
    x = rg.zeros(2, 3)
    x.add_(rg.ones(3)).lerp_(rg.ones(3), 0.5)
    assert x.tolist() == [[1.0] * 3] * 2
    with pytest.raises(RuntimeError, match="shape"):
        x.add_(rg.ones(1, 2, 3))
    with pytest.raises(RuntimeError, match="shape"):
        rg.zeros(3).mul_(rg.ones(2, 3))


def test_a_shallow_copy_of_a_result_keeps_its_history():
    x = leaf(1, 2)
    y = copy.copy(x * x)
    y.sum().backward()
    assert x.grad.tolist() == [2, 4]


def test_a_shallow_copy_shares_memory_and_protects_what_is_saved():
    x = leaf(1, 2)
    shallow = copy.copy(x)
    loss = (x * x).sum()
    with rg.no_grad():
        shallow.add_(10)
    assert gradient(loss, x) == [2.0, 4.0]
    assert x.tolist() == shallow.tolist() == [11.0, 12.0] and shallow.requires_grad


def test_negation_in_place_of_elements_64_bytes_apart():
    """NumPy 2.4's own ``np.negative(v, out=v)`` reads the wrong elements here."""
    x = rg.arange(16, dtype=rg.float64).reshape(2, 8)
    x[:, 4].neg_()
    assert x[:, 4].tolist() == [-4.0, -12.0]


def test_retain_grad_of_a_view_follows_it_when_its_base_is_written():
    x = leaf(1, 2, 3)
    y = x * 1
    view = y[1:]
    view.retain_grad()
    y.mul_(2)
    y.mul_(1)
    (view * view).sum().backward()
    assert view.retains_grad and view.grad.tolist() == [8.0, 12.0]
    assert x.grad.tolist() == [0.0, 16.0, 24.0]


class Marked(rg.Tensor):
    __slots__ = ()

    def __getattr__(self, name: str) -> str:
        if name.startswith("_"):
            raise AttributeError(name)
        return f"my {name}"


def test_a_view_of_a_subclass_stays_one_when_its_base_is_written():
    x = leaf(1, 2, 3)
    y = x * 1
    view = y[1:]
    view.__class__ = Marked
    y.mul_(2)
    assert type(view) is Marked and view.colour == "my colour"
    assert gradient(view.sum(), x) == [0.0, 2.0, 2.0]


def test_a_view_whose_base_was_written_calls_itself_a_tensor():
    y = leaf(1, 2, 3) * 1
    view = y[1:]
    y.mul_(2)
    assert isinstance(view, rg.Tensor) and type(view).__name__ == "Tensor"
    with pytest.raises(AttributeError, match="'Tensor' object has no attribute 'colour'"):
        view.colour
    assert view.requires_grad and type(view) is rg.Tensor


def test_threads_may_ask_a_view_for_its_history_at_once():
    failures = []
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        for _ in range(40):
            y = leaf(*range(40)) * 1
            views = [y[start:] for start in range(40)]
            y.mul_(2)
            barrier = threading.Barrier(3)

            def ask(views=views, barrier=barrier) -> None:
                barrier.wait()
                try:
                    assert all(view.requires_grad and view.grad_fn is not None for view in views)
                except Exception as error:
                    failures.append(error)

            threads = [threading.Thread(target=ask) for _ in range(3)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
            y.mul_(2)
    finally:
        sys.setswitchinterval(interval)
    assert not failures


def test_a_new_shape_under_no_grad_leaves_the_history():
    x = rg.ones(2, 3, requires_grad=True)
    y = x * 2
    with rg.no_grad():
        x.t_()
        y.t_()
    assert x.is_leaf and x.requires_grad and x.shape == y.shape == (3, 2)
    (x * x).sum().backward()
    assert x.grad.shape == (3, 2)
    assert rg.autograd.grad(y.sum(), y)[0].shape == (3, 2)


def test_inside_no_grad_a_tensor_that_requires_grad_is_an_array():
    x = rg.ones(2, requires_grad=True)
    with rg.no_grad():
        assert x.numpy().tolist() == np.asarray(x).tolist() == [1, 1]
    for convert in (rg.Tensor.numpy, np.asarray):
        with pytest.raises(RuntimeError, match="requires grad"):
            convert(x)


def test_a_pickle_of_an_operators_result_comes_back_as_a_leaf():
    y = rg.ones(2, requires_grad=True) * 3
    loaded = pickle.loads(pickle.dumps(y))
    assert loaded.tolist() == [3, 3] and loaded.is_leaf and loaded.requires_grad


def test_unpickled_numbers_have_numpys_own_dtype_object():
    sent = pickle.loads(pickle.dumps(np.ones(3, np.float32)))
    assert sent.dtype is not np.dtype(np.float32)  # why Tensors replace it
    for x in (rg.from_numpy(sent), rg.tensor(sent), pickle.loads(pickle.dumps(rg.ones(3)))):
        assert x.array.dtype is np.dtype(np.float32)
        assert rg.einsum("i,i->", x, rg.ones(3)).item() == 3
    rg.from_numpy(sent)[0] = 5
    assert sent[0] == 5 and rg.from_numpy(np.array([1, 2], ">i4")).tolist() == [1, 2]
    assert rg.einsum("i,i->", new_tensor(sent), rg.ones(3)).item() == 7
    with pytest.raises(RuntimeError, match="operands must have the same dtype"):
        rg.einsum("i,i->", rg.ones(3), rg.ones(3, dtype=rg.float64))


def test_memory_that_a_node_saved_before_it_had_views_is_written_in_place_once_the_node_is_gone():
    x = rg.ones(4, requires_grad=True)
    y = x * 2
    z = y.sin()  # saves y
    view = y[1:]
    start = y.data_ptr()
    view.mul_(3)
    assert y.data_ptr() != start
    assert y.tolist() == [2, 6, 6, 6]
    np.testing.assert_allclose(rg.autograd.grad(z.sum(), x)[0].array, 2 * np.cos(np.full(4, 2.0)), rtol=1e-6)
    a = rg.ones(4) * 2
    b = (x * a).sum()  # saves a
    part, start = a[1:], a.data_ptr()
    b.backward()
    del b
    part.mul_(3)
    assert a.data_ptr() == start and a.tolist() == [2, 6, 6, 6]
