"""Results share memory with the input where PyTorch's or NumPy's do, and then writes to either give right gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg

EINSUMS: list[tuple[str, tuple[int, ...]]] = [
    ("ij", (3, 3)),
    ("ij->ij", (2, 3)),
    ("ij->ji", (2, 3)),
    ("ji", (2, 3)),
    ("ii->i", (3, 3)),
    ("ii", (3, 3)),
    ("ij->i", (2, 3)),
    ("ij->", (2, 3)),
    ("...", (2, 3)),
    ("...ij->...ji", (2, 2, 3)),
    ("i...->...i", (2, 2, 3)),
    ("bii->ib", (2, 3, 3)),
    ("bii->b", (2, 3, 3)),
    ("iji->ij", (2, 3, 2)),
    ("iii->i", (2, 2, 2)),
    ("", ()),
]
SUBLISTS: list[tuple[list[Any], list[Any], tuple[int, ...]]] = [
    ([0, 1], [1, 0], (2, 3)),
    ([0, 1, 1], [1, 0], (2, 3, 3)),
    ([..., 0], [0, ...], (2, 2, 3)),
    ([0, 0], [], (3, 3)),
]


def forms() -> list[Any]:
    strings = [pytest.param(lambda m, x, e=equation: m.einsum(e, x), shape, id=equation) for equation, shape in EINSUMS]
    lists = [
        pytest.param(lambda m, x, a=letters, b=out: m.einsum(x, a, b), shape, id=f"{letters} {out}")
        for letters, out, shape in SUBLISTS
    ]
    return strings + lists


@pytest.mark.parametrize("call, shape", forms())
def test_einsum_of_one_operand_is_a_view_where_pytorchs_is(call, shape):
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(0).standard_normal(shape)
    x, t = rg.tensor(values), torch.from_numpy(values.copy())
    ours, theirs = call(rg, x), call(torch, t)
    np.testing.assert_array_equal(ours.numpy(), theirs.numpy())
    is_view = theirs.untyped_storage().data_ptr() == t.untyped_storage().data_ptr()
    assert np.shares_memory(ours.array, x.array) == is_view
    assert (ours._base is x) == is_view


def through_a_write(call: Callable[..., Any], weights: Any) -> Callable[[Any], Any]:
    """A number of x: the result is written, and it and what was its input are used afterwards."""

    def value(x: Any) -> Any:
        y = x * 1
        view = call(rg, y)
        before = (view * view).sum()
        view *= 3
        return before + (view**3).sum() + (y * y * weights).sum()

    return value


@pytest.mark.parametrize("call, shape", forms())
def test_a_write_through_einsum_of_one_operand_reaches_its_input_and_its_gradient(call, shape):
    rng = np.random.default_rng(1)
    values, weights = rng.standard_normal(shape), rng.standard_normal(shape)
    value = through_a_write(call, weights)
    x = rg.tensor(values, requires_grad=True)
    value(x).backward()
    for place in np.ndindex(*shape):
        up, down = values.copy(), values.copy()
        up[place] += 1e-6
        down[place] -= 1e-6
        difference = (value(rg.tensor(up)) - value(rg.tensor(down))).item() / 2e-6
        assert x.grad.numpy()[place] == pytest.approx(difference, rel=1e-6, abs=1e-7)


@pytest.mark.parametrize("call, shape", forms())
def test_a_write_to_the_input_reaches_its_einsum_and_its_gradient(call, shape):
    torch = pytest.importorskip("torch")
    values = np.random.default_rng(2).standard_normal(shape)
    grads = []
    for module, make in ((rg, rg.tensor), (torch, torch.tensor)):
        x = make(values, requires_grad=True)
        y = x * 1
        view = call(module, y)
        y *= y.detach() + 2
        (view**2).sum().backward()
        grads.append(x.grad.numpy())
    np.testing.assert_allclose(grads[0], grads[1], rtol=1e-12)


def test_einsum_refuses_a_diagonal_of_different_lengths():
    with pytest.raises(RuntimeError, match=r"einsum\(.*repeats the subscript 'i' over different lengths"):
        rg.einsum("ii->i", rg.ones(1, 3))


COPIES = {
    "matrix_power(x, 1)": lambda x: rg.matrix_power(x, 1),
    "linalg.matrix_power(x, 1)": lambda x: rg.linalg.matrix_power(x, 1),
    "diff(x, 0)": lambda x: rg.diff(x, 0),
    "fft.fftshift(x, ())": lambda x: rg.fft.fftshift(x, ()),
    "fft.ifftshift(x, ())": lambda x: rg.fft.ifftshift(x, ()),
    "np.prod(x, axis=())": lambda x: np.prod(x, axis=()),
    "np.sum(x, axis=())": lambda x: np.sum(x, axis=()),
    "np.max(x, axis=())": lambda x: np.max(x, axis=()),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_write_to_a_result_that_is_a_copy_leaves_the_input_alone(name):
    x = rg.tensor([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    y = COPIES[name](x)
    assert y is not x and not np.shares_memory(y.array, x.array)
    np.testing.assert_array_equal(y.detach().numpy(), x.detach().numpy())
    y *= 5
    (y.sum() + x.sum()).backward()
    np.testing.assert_array_equal(x.detach().numpy(), [[1, 2], [3, 4]])
    np.testing.assert_array_equal(x.grad.numpy(), np.full((2, 2), 6.0))


REDUCTIONS = ("sum", "prod", "mean", "max", "min", "amax", "amin", "ptp", "var", "std")


@pytest.mark.parametrize("name", [*REDUCTIONS, "nansum", "nanmean", "nanmax", "nanmin"])
def test_numpys_reductions_over_no_dimension_reduce_nothing(name):
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    got = getattr(np, name)(rg.tensor(values), axis=())
    np.testing.assert_array_equal(got.numpy(), getattr(np, name)(values, axis=()))


@pytest.mark.parametrize("ufunc", [np.add, np.multiply, np.maximum, np.minimum])
def test_reduce_of_a_ufunc_over_no_dimension_reduces_nothing(ufunc):
    values = np.array([[1.0, 2.0], [3.0, 4.0]])
    np.testing.assert_array_equal(ufunc.reduce(rg.tensor(values), axis=()).numpy(), values)


def test_numpys_einsum_takes_lists_of_numbers():
    x, y = rg.tensor(np.ones((2, 3))), rg.tensor(np.ones((3, 4)))
    np.testing.assert_array_equal(np.einsum(x, [0, 1], y, [1, 2], [0, 2]).numpy(), np.full((2, 4), 3.0))


def test_powers_of_infinite_numbers_to_0_are_1():
    x = rg.tensor([[np.inf, 1.0], [np.nan, 2.0]], requires_grad=True)
    power = rg.matrix_power(x, 0)
    np.testing.assert_array_equal(power.detach().numpy(), np.eye(2))
    power.sum().backward()
    np.testing.assert_array_equal(x.grad.numpy(), np.zeros((2, 2)))
    np.testing.assert_array_equal(rg.linalg.vander(rg.tensor([np.inf, 2.0])).numpy(), [[1, np.inf], [1, 2]])
