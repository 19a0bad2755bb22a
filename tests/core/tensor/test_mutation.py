"""In-place programs: value and gradient as if the program had been written without mutation.

Most of these are refused by PyTorch ("modified by an inplace operation"); here each must agree
with central differences.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import retrograd as rg
from retrograd import Tensor
from retrograd.core.graph.primitive import Primitive

Program = Callable[[Tensor, Tensor], Tensor]
PROGRAMS: dict[str, Program] = {}


def program(function: Program) -> Program:
    PROGRAMS[function.__name__] = function
    return function


@program
def overwrite_what_mul_saved(x, y):
    z = x * 1
    w = z * y
    z.add_(1)
    return (w * z).sum()


@program
def overwrite_what_exp_saved(x, y):
    z = x.exp()
    z += 1
    return (z * y).sum()


@program
def overwrite_what_tanh_saved_then_use(x, y):
    z = (x * y).tanh()
    w = z * z
    z.mul_(y)
    return (w + z).sum()


@program
def square_in_place(x, y):
    z = x * y
    z *= z
    z *= z
    return z.sum()


@program
def exponential_in_place_twice(x, y):
    z = x * 0.1 + y * 0
    z.exp_()
    z.exp_()
    return z.sum()


@program
def set_element_after_use(x, y):
    z = x * 2
    w = z * z
    z[0] = y[1]
    return (w * z).sum()


@program
def slice_times_two(x, y):
    z = x * y
    w = z.exp()
    z[1:3] *= 2
    return (w * z * z).sum()


@program
def write_through_a_row(x, y):
    z = (x * 1).reshape(2, 2)
    before = z * z
    z[0].copy_(y[:2])
    return (before * z).sum()


@program
def write_through_a_view_of_a_view(x, y):
    z = (x * 1).reshape(2, 2)
    before = (z * z).sum()
    row = z[1]
    row[0:1].mul_(y[:1])
    return before * (z * z * z).sum() + (row * y[:2]).sum()


@program
def read_a_view_after_its_base_was_written(x, y):
    z = x * 1
    view = z[1:]
    used = view * view
    z.mul_(y)
    return used.sum() + (view * view * view).sum()


@program
def read_one_view_after_another_was_written(x, y):
    z = (x * y).reshape(2, 2)
    column, row = z[:, 0], z[0]
    row.mul_(3)
    return (column * column).sum() + (z * y.reshape(2, 2)).sum()


@program
def transposed_view(x, y):
    z = (x * 1).reshape(2, 2)
    t = z.t()
    t[0].add_(y[2:])
    used = z * t
    t.mul_(2)
    return (used * z).sum()


@program
def base_without_gradient_becomes_one(x, y):
    buffer = rg.zeros(4, dtype=rg.float64)
    view = buffer[1:3]
    buffer[0] = x[0] * y[0]
    view.copy_(x[2:] * y[:2])
    buffer[3] = x[1]
    return (buffer * buffer * y).sum()


@program
def a_loop_that_fills_a_buffer(x, y):
    buffer = rg.zeros(5, dtype=rg.float64)
    for i in range(4):
        buffer[i + 1] = buffer[i] * y[i] + x[i].sin()
    return (buffer * buffer).sum()


@program
def an_in_place_recurrence(x, y):
    state = x * 1
    for _ in range(4):
        state.mul_(y).sin_()
        state[::2] += 0.5
    return state.sum()


@program
def write_with_repeated_indices(x, y):
    z = x * 1
    w = z * z
    z[rg.tensor([0, 2, 0])] = y[:3]
    return (w * z * z).sum()


@program
def add_with_an_index_array(x, y):
    z = x * 1
    used = z.exp()
    z[[0, 2]] += y[[1, 1]]
    return (used * z).sum()


@program
def write_under_a_mask(x, y):
    z = x * 1
    used = z * z
    z[rg.tensor([True, False, True, False])] = y[1:3]
    return (used * z * z).sum()


@program
def masked_fill_and_clamp(x, y):
    z = x * y
    used = z * z
    z.masked_fill_(rg.tensor([True, False, False, False]), 0.25)
    z.clamp_(-0.5, 2.0)
    return (used * z * z).sum()


@program
def fill_forgets(x, y):
    z = x * y
    used = (z * z).sum()
    z.fill_(2.0)
    z[1:] = x[1:]
    return used + (z * z * y).sum()


@program
def zero_a_view(x, y):
    z = (x * y).reshape(2, 2)
    used = z * z
    z[:, 1].zero_()
    return (used + z * z).sum()


@program
def an_overlapping_shift(x, y):
    z = x * y
    used = z * z
    z[1:] += z[:-1]
    return (used * z).sum()


@program
def an_operand_that_is_the_target(x, y):
    z = x * y
    z.add_(z)
    z.mul_(z)
    z.sub_(z[0])
    return (z * z * y).sum()


@program
def softmax_of_logits_written_afterwards(x, y):
    z = x * y
    p = z.softmax(0)
    z.zero_()
    p += z
    p.mul_(y)
    return (p * p).sum()


@program
def a_split_piece(x, y):
    z = x * 1
    used = z * z
    left, right = z.split(2)
    left.mul_(right)
    right.add_(y[:2])
    return (used * z).sum() + (left * right).sum()


@program
def rows_of_unbind(x, y):
    z = (x * 1).reshape(2, 2)
    first, second = z.unbind(0)
    first.mul_(y[:2])
    second.add_(first)
    return (z * z).sum() + (first * second).sum()


@program
def a_negative_step(x, y):
    z = x * 1
    backwards = z.flip(0)
    z[0:2] = z[2:4] * y[:2]
    return (z * backwards).sum() + (z[::2] * z[1::2]).sum()


@program
def a_detached_constant(x, y):
    z = x * y
    constant = z.detach().clone()
    w = z * constant.fill_(3.0)
    return (w * w).sum()


WEIGHTS = np.arange(1.0, 13.0).reshape(4, 3) / 7


@program
def a_column_of_an_expanded_view(x, y):
    z = (x * 1).reshape(4, 1)
    wide = z.expand(4, 3)
    used = wide * wide
    wide[:, 0] = y
    return (used * wide * WEIGHTS).sum() + (z * z * z).sum()


@program
def a_row_of_expanded_rows_used_by_another(x, y):
    z = x * y
    rows = z.expand(2, 4)
    first = rows[0]
    rows[-1] *= first * y
    return (first * z).sum() + (rows * rows).sum()


@program
def an_expanded_view_filled(x, y):
    z = x * y
    rows = z.expand(3, 4)
    used = rows * rows
    rows[:, 1:].fill_(y[0] * x[3])
    return (used * rows).sum() + (z * z * y).sum()


@program
def part_of_an_expanded_column(x, y):
    z = (x * y).reshape(4, 1)
    wide = z.expand(4, 3)
    wide[1:3, 2].copy_(y[:2])
    wide[0, 1] = x[3]
    return (wide * wide * WEIGHTS).sum()


def expanded_constant() -> Tensor:
    """A Tensor without a base whose elements share memory by rows."""
    with rg.no_grad():
        return rg.tensor([[1.0], [2.0], [3.0], [4.0]], dtype=rg.float64).expand(4, 3)


@program
def a_base_that_overlaps_itself(x, y):
    wide = expanded_constant()
    last = wide[:, 2]
    wide[:, 1] = x * y
    wide[2:, 0].mul_(x[2:])
    return (wide * wide * WEIGHTS).sum() + (last * last * y).sum()


@program
def views_of_a_base_that_overlaps_itself_between_writes(x, y):
    wide = expanded_constant()
    column, corner = wide[:, 1], wide[:2, 2]
    column *= x
    used = corner * corner
    corner.mul_(y[:2])
    return (used * corner).sum() + (column * column * x).sum() + (wide * WEIGHTS).sum()


@program
def windows_that_overlap(x, y):
    z = x * 1
    windows = z.unfold(0, 2, 1)
    used = windows * windows
    windows[1] = y[:2] * x[:2]
    windows[0] *= y[2:]
    return (used * windows).sum() + (z * z * y).sum()


def _repeated(x):
    return np.broadcast_to(x.copy()[:, None], (4, 3))


REPEATED = Primitive("repeated", _repeated, "x", [lambda g: g.sum(axis=1)])


@program
def a_result_that_overlaps_itself(x, y):
    wide = REPEATED(x * x)
    view = wide[1:, 2]
    wide[:3, 0] *= y[:3]
    return (wide * wide * WEIGHTS).sum() + (view * view * x[1:]).sum()


def evaluate(function: Program, x: np.ndarray, y: np.ndarray) -> float:
    return function(rg.tensor(x), rg.tensor(y)).item()


def gradients(function: Program, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    a, b = rg.tensor(x, requires_grad=True), rg.tensor(y, requires_grad=True)
    function(a, b).backward()
    return (
        np.zeros(4) if a.grad is None else a.grad.numpy(),
        np.zeros(4) if b.grad is None else b.grad.numpy(),
    )


def central_differences(function: Program, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    results = []
    for which in range(2):
        difference = np.zeros(4)
        for index in range(4):
            values = []
            for step in (1e-6, -1e-6):
                arrays = [x.copy(), y.copy()]
                arrays[which][index] += step
                values.append(evaluate(function, *arrays))
            difference[index] = (values[0] - values[1]) / 2e-6
        results.append(difference)
    return results[0], results[1]


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_gradient_is_that_of_the_program_without_mutation(name):
    x, y = np.array([0.7, -0.3, 1.2, 0.4]), np.array([1.1, 0.6, -0.8, 0.9])
    function = PROGRAMS[name]
    for mine, numeric in zip(gradients(function, x, y), central_differences(function, x, y), strict=True):
        np.testing.assert_allclose(mine, numeric, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_the_same_gradient_twice_and_inputs_untouched(name):
    x, y = np.array([0.7, -0.3, 1.2, 0.4]), np.array([1.1, 0.6, -0.8, 0.9])
    kept = x.copy(), y.copy()
    first, second = gradients(PROGRAMS[name], x, y), gradients(PROGRAMS[name], x, y)
    for mine, again in zip(first, second, strict=True):
        np.testing.assert_array_equal(mine, again)
    np.testing.assert_array_equal(x, kept[0])
    np.testing.assert_array_equal(y, kept[1])


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_second_order(name):
    """The gradient of the squared norm of the gradient, against central differences of the gradient."""
    x, y = np.array([0.7, -0.3, 1.2, 0.4]), np.array([1.1, 0.6, -0.8, 0.9])
    function = PROGRAMS[name]
    a, b = rg.tensor(x, requires_grad=True), rg.tensor(y, requires_grad=True)
    ga, gb = rg.autograd.grad(function(a, b), (a, b), create_graph=True, materialize_grads=True)
    total = (ga * ga).sum() + (gb * gb).sum()
    if not total.requires_grad:
        pytest.skip("linear program")
    (mine,) = rg.autograd.grad(total, a, materialize_grads=True)

    def squared(values: np.ndarray) -> float:
        return sum(float((g * g).sum()) for g in gradients(function, values, y))

    steps = np.eye(4) * 1e-6
    numeric = [(squared(x + step) - squared(x - step)) / 2e-6 for step in steps]
    np.testing.assert_allclose(mine.numpy(), numeric, rtol=1e-5, atol=1e-6)


EXPANDED_WRITES = [
    lambda x: x.reshape(4, 1).expand(4, 3)[:, 0].mul_(3),
    lambda x: x.reshape(4, 1).expand(4, 3)[1:3, 1].copy_(x[:2].clone()),
    lambda x: x.expand(3, 4)[-1].add_(x.detach()),
    lambda x: x.expand(2, 3, 4)[0, 1, ::2].zero_(),
    lambda x: x.expand(3, 4).__setitem__(-1, 0.75),
    lambda x: x.reshape(4, 1).expand(4, 3).__setitem__((slice(2), 0), 2.0),
    lambda x: x.expand(3, 4).add_(1),
    lambda x: x.expand(3, 4).__setitem__(slice(2), x.detach().expand(2, 4).clone()),
    lambda x: x.expand(3, 4)[:, 1:].mul_(2),
]


@pytest.mark.parametrize("write", EXPANDED_WRITES)
def test_writes_to_expanded_tensors_are_those_of_pytorch(write):
    torch = pytest.importorskip("torch")
    outcomes = []
    for library in (rg, torch):
        leaf = library.tensor([0.7, -0.3, 1.2, 0.4], requires_grad=True)
        x = leaf * 2
        try:
            write(x)
        except RuntimeError as error:
            assert "single memory location" in str(error) or "share one memory location" in str(error)
            outcomes.append("refused")
            continue
        (x * x * x.detach()).sum().backward()
        outcomes.append((x.tolist(), leaf.grad.tolist()))
    assert outcomes[0] == outcomes[1]


def test_expanded_tensors_are_filled_as_pytorch_does():
    torch = pytest.importorskip("torch")  # whose backward walk then fails
    outcomes = []
    for library in (rg, torch):
        x = library.tensor([0.7, -0.3, 1.2, 0.4])
        rows = x.expand(3, 4)
        rows[:, 1:3].fill_(0.5)
        rows[1:, 3:].zero_()
        outcomes.append((x.tolist(), rows.tolist()))
    assert outcomes[0] == outcomes[1]


def test_a_write_to_part_of_an_expanded_tensor_reaches_the_array_it_was_made_of():
    array = np.ones((3, 1))
    rg.from_numpy(array).expand(3, 4)[:, 1] = 4.0
    assert array.tolist() == [[4.0]] * 3


def test_a_write_is_in_place_when_nothing_holds_the_buffer():
    x = rg.ones(4)
    address = x.array.__array_interface__["data"][0]
    x.add_(1).mul_(3)
    x[1:3] = 0
    assert x.array.__array_interface__["data"][0] == address
    assert x.tolist() == [6.0, 0.0, 0.0, 6.0]


def test_a_write_after_backward_is_in_place_again():
    x = rg.ones(4, requires_grad=True)
    z = x * 2
    (z * z).sum().backward()
    address = z.array.__array_interface__["data"][0]
    with rg.no_grad():
        z.add_(1)
    assert z.array.__array_interface__["data"][0] == address


def test_from_numpy_shares_memory_until_a_node_needs_it():
    array = np.ones(3)
    x = rg.from_numpy(array)
    x.mul_(2)
    assert array.tolist() == [2.0, 2.0, 2.0]


def test_data_writes_reach_the_tensor_but_not_its_graph():
    x = rg.ones(3, requires_grad=True)
    y = x * 2
    loss = (y * y).sum()
    y.data.zero_()
    assert y.tolist() == [0.0, 0.0, 0.0]
    loss.backward()
    assert x.grad.tolist() == [8.0, 8.0, 8.0]


def test_optimizer_idiom():
    p = rg.ones(3, requires_grad=True)
    (p * p).sum().backward()
    p.data -= 0.5 * p.grad
    assert p.tolist() == [0.0, 0.0, 0.0]
    with rg.no_grad():
        p += 1
    assert p.tolist() == [1.0, 1.0, 1.0] and p.is_leaf and p.requires_grad


def test_errors():
    leaf = rg.ones(3, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"add_.*leaf"):
        leaf.add_(1)
    with pytest.raises(RuntimeError, match="view of a leaf"):
        leaf[0].zero_()
    with pytest.raises(RuntimeError, match="share one memory location"):
        rg.ones(1).expand(3).add_(1)
    with pytest.raises(RuntimeError, match=r"add_\(float32\(3,\), float32\(2, 3\)\).*does not fit"):
        rg.ones(3).add_(rg.ones(2, 3))
    with pytest.raises(RuntimeError, match="can't be cast"):
        rg.ones(3, dtype=rg.int64).add_(0.5)
    with pytest.raises(RuntimeError, match="broadcast"):
        rg.ones(3).add_(rg.ones(2))


@pytest.mark.slow
def test_many_views_and_writes_stay_linear():
    z = rg.zeros(2000, requires_grad=True) * 1
    rows = z.unbind(0)
    for row in rows:
        row.add_(1)
    z.sum().backward()
    assert z.sum().item() == 2000


def test_a_view_chain_does_not_keep_itself():
    import weakref

    x = rg.ones(4)
    first = x[:]
    watched = weakref.ref(first)
    second = first[:]
    del first
    assert watched() is None
    second.zero_()
    assert x.tolist() == [0.0] * 4


def test_inplace_forms_take_their_arguments_by_name():
    x = rg.tensor([1.0, 2.0])
    assert x.mul_(other=3).pow_(exponent=2).tolist() == [9.0, 36.0]
    with pytest.raises(TypeError, match="mul_"):
        x.mul_(bogus=3)


@pytest.mark.parametrize("dtype", [rg.int64, rg.bool])
def test_an_integer_tensor_takes_no_history(dtype):
    x = rg.tensor([1.5, 2.5], requires_grad=True)
    t = rg.zeros(2, dtype=dtype)
    t.copy_(x)
    t[:1] = x[:1]
    t[1] = x[0]
    assert not t.requires_grad and not t.float().requires_grad


def test_a_write_to_a_transposed_tensor_that_a_graph_has_saved_keeps_its_strides():
    b = rg.ones(6, requires_grad=True)
    h = rg.zeros(6, 4).t().clone()
    y = h * b
    h[3] = 1.0
    assert h.stride() == (1, 4) and y.stride() == (1, 4)
    y.sum().backward()
    assert b.grad.tolist() == [0.0] * 6
