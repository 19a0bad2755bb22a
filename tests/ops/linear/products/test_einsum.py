"""einsum: views of one operand and writes to them, dtypes, and NumPy's form with lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import retrograd as rg


@pytest.mark.parametrize("equation, shapes", [("ij,jk->ijk", ((2, 3), (3, 4))), ("ij,k->i", ((2, 3), (4,)))])
def test_einsum_promotes_dtypes_where_no_products_are_summed(equation, shapes):
    x = rg.ones(shapes[0], dtype=rg.float64, requires_grad=True)
    y = rg.full(shapes[1], 2.0, requires_grad=True)
    result = rg.einsum(equation, x, y)
    assert result.dtype == rg.float64
    result.sum().backward()
    assert (x.grad.dtype, y.grad.dtype) == (rg.float64, rg.float32)
    with pytest.raises(RuntimeError, match="operands must have the same dtype"):
        rg.einsum("ij,kj->ik", x, rg.ones(4, 3))


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


def test_numpys_einsum_takes_lists_of_numbers():
    x, y = rg.tensor(np.ones((2, 3))), rg.tensor(np.ones((3, 4)))
    np.testing.assert_array_equal(np.einsum(x, [0, 1], y, [1, 2], [0, 2]).numpy(), np.full((2, 4), 3.0))
