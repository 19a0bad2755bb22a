"""Python's operators, sums with a factor, integers, and bools, which are not subtracted."""

import operator

import numpy as np
import pytest

import retrograd as rg
from tests.helpers.values import gradients

BINARY = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow]

COMPARISONS = [operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("function", BINARY + COMPARISONS, ids=lambda f: f.__name__)
def test_python_operators_on_either_side(function):
    x, y = np.array([1.5, -2.5, 4.0]), np.array([2.0, 3.0, 2.0])
    for a, b in ((x, y), (x, 2.0), (2.0, y), (x, 2), (3, y)):
        wanted = function(a, b)
        left = rg.Tensor(a) if isinstance(a, np.ndarray) else a
        right = rg.Tensor(b) if isinstance(b, np.ndarray) else b
        np.testing.assert_allclose(function(left, right).numpy(), wanted, rtol=1e-15)


BITS = [operator.and_, operator.or_, operator.xor, operator.lshift, operator.rshift]


@pytest.mark.parametrize("function", BITS, ids=lambda f: f.__name__)
def test_bits_on_either_side(function):
    x, y = np.array([1, 6, 5]), np.array([3, 0, 2])
    assert function(rg.Tensor(x), rg.Tensor(y)).tolist() == function(x, y).tolist()
    assert function(rg.Tensor(x), 2).tolist() == function(x, 2).tolist()
    assert function(5, rg.Tensor(y)).tolist() == function(5, y).tolist()


@pytest.mark.parametrize("name", ["iadd", "isub", "imul", "itruediv", "ifloordiv", "imod", "ipow"])
def test_augmented_assignment_writes_in_place_and_differentiates(name):
    function, plain = getattr(operator, name), getattr(operator, name[1:])
    x = rg.Tensor(np.array([1.5, 2.5]), requires_grad=True)
    y = x * 1
    same = y
    y = function(y, 3.0)
    assert y is same
    (y * y).sum().backward()
    (wanted,) = gradients(lambda x: plain(x, 3.0) ** 2, [1.5, 2.5])
    np.testing.assert_allclose(x.grad.numpy(), wanted)


@pytest.mark.parametrize("name", ["iand", "ior", "ixor", "ilshift", "irshift"])
def test_augmented_bits(name):
    x, y = np.array([1, 6, 5]), np.array([3, 0, 2])
    t = u = rg.Tensor(x)
    t = getattr(operator, name)(t, rg.Tensor(y))
    assert t is u and t.tolist() == getattr(operator, name)(x.copy(), y).tolist()


def test_unary_python_operators():
    x = rg.tensor([-1.5, 2.0])
    assert (-x).tolist() == [1.5, -2.0] and (+x) is x and abs(x).tolist() == [1.5, 2.0]
    assert (~rg.tensor([True, False])).tolist() == [False, True] and (~rg.tensor([5])).tolist() == [-6]
    assert round(rg.tensor([1.26]), 1).tolist() == pytest.approx([1.3])


def test_comparison_with_what_is_no_number():
    x = rg.tensor([1.0])
    assert (x == None) is False and (x != "a") is True  # noqa: E711
    with pytest.raises(TypeError):
        operator.lt(x, None)


def test_add_and_sub_scale_in_place():
    x = rg.tensor([1.0, 2.0])
    before = x.array
    assert x.add_(rg.tensor([1.0, 1.0]), alpha=3) is x and x.tolist() == [4.0, 5.0]
    assert x.sub_(1, alpha=2).tolist() == [2.0, 3.0] and x.array is before


def test_integers():
    x = rg.tensor([7, -7, 0])
    assert (x // 2).tolist() == [3, -4, 0] and (x % 3).tolist() == [1, 2, 0]
    assert x.div(2, rounding_mode="trunc").tolist() == [3, -3, 0] and x.fmod(3).tolist() == [1, -1, 0]
    assert x.div(rg.tensor([-2, -2, 5]), rounding_mode="trunc").tolist() == [-3, 3, 0]
    assert (x / 2).dtype == rg.float32 and x.exp().dtype == rg.float32 and (x**2).dtype == rg.int64
    assert x.floor().dtype == rg.int64 and x.relu().tolist() == [7, 0, 0] and (x * 1.5).dtype == rg.float32
    y = x.floor()
    y += 1
    assert x.tolist() == [7, -7, 0]


def test_bools_are_not_subtracted_and_the_error_says_what_to_write():
    mask, number = rg.tensor([True, False]), rg.tensor([1.0, 2.0])
    calls = [
        lambda: 1 - mask, lambda: mask - 1, lambda: 1.5 - mask, lambda: number - mask, lambda: mask - number[0],
        lambda: True - mask, lambda: rg.sub(1, mask), lambda: rg.rsub(mask, 1), lambda: number.sub(mask, alpha=2),
        lambda: rg.arange(2) - mask, lambda: number.sub_(mask),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(RuntimeError, match=r"~ or logical_not\(\) inverts a mask"):
            call()
    for call in (lambda: mask - mask, lambda: mask.sub_(mask), lambda: rg.sub(mask, mask, alpha=2)):
        with pytest.raises(RuntimeError, match="logical_xor"):
            call()
    with pytest.raises(RuntimeError, match="logical_not"):
        -mask
    assert rg.equal(mask + 1, rg.tensor([2, 1])) and rg.equal(number * mask, rg.tensor([1.0, 0.0]))
