"""Type promotion: PyTorch's table."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.dtypes import can_cast, promote_types, result_type

NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128")
PAIRS = list(itertools.product(NAMES, NAMES))


@pytest.mark.parametrize("first, second", PAIRS)
def test_promote_types(first, second):
    torch = pytest.importorskip("torch")
    expected = torch.promote_types(getattr(torch, first), getattr(torch, second))
    if expected is torch.complex32:
        expected = torch.complex64  # NumPy has no complex numbers of half precision
    assert str(promote_types(first, second)) == str(expected).removeprefix("torch.")
    assert can_cast(first, second) == torch.can_cast(getattr(torch, first), getattr(torch, second))


@pytest.mark.parametrize("first, second", PAIRS)
def test_zero_dimensional_operands(first, second):
    torch = pytest.importorskip("torch")
    expected = torch.result_type(
        torch.ones(2, dtype=getattr(torch, first)), torch.ones((), dtype=getattr(torch, second))
    )
    if expected is torch.complex32:
        expected = torch.complex64
    assert str(result_type(np.ones(2, first), np.ones((), second))) == str(expected).removeprefix("torch.")


@pytest.mark.parametrize("dtype", NAMES)
@pytest.mark.parametrize("number", [True, 2, 1.5, 1j])
def test_numbers(dtype, number):
    torch = pytest.importorskip("torch")
    if dtype == "float16" and number == 1j:
        pytest.skip("NumPy has no complex numbers of half precision")
    expected = torch.result_type(torch.ones(2, dtype=getattr(torch, dtype)), number)
    assert str(result_type(np.ones(2, dtype), number)) == str(expected).removeprefix("torch.")


@pytest.mark.parametrize("first, second", PAIRS)
@pytest.mark.parametrize("name", ["add", "mul", "div"])
def test_operators(name, first, second):
    torch = pytest.importorskip("torch")
    try:
        expected = getattr(torch, name)(
            torch.ones(2, dtype=getattr(torch, first)), torch.ones(2, dtype=getattr(torch, second))
        )
    except RuntimeError:
        pytest.skip("PyTorch has no such kernel")
    if expected.dtype is torch.complex32:
        pytest.skip("NumPy has no complex numbers of half precision")
    mine = getattr(rg, name)(rg.tensor(np.ones(2, first)), rg.tensor(np.ones(2, second)))
    assert str(mine.dtype) == str(expected.dtype).removeprefix("torch.")


def test_tensor_of_python_numbers():
    assert rg.tensor([1.0, 2.0]).dtype == rg.float32
    assert rg.tensor([1, 2]).dtype == rg.int64
    assert rg.tensor([True]).dtype == rg.bool_
    assert rg.tensor([1j]).dtype == rg.complex64
    assert rg.tensor(np.ones(2)).dtype == rg.float64
    assert rg.tensor([]).dtype == rg.float32
    with pytest.raises(ValueError, match="ragged"):
        rg.tensor([[1.0], [1.0, 2.0]])
    with pytest.raises(TypeError, match="tensor"):
        rg.tensor("text")
    with pytest.raises(TypeError, match="tensor"):
        rg.tensor([None])


def test_default_dtype():
    rg.set_default_dtype(rg.float64)
    try:
        assert rg.tensor([1.0]).dtype == rg.float64
        assert (rg.tensor([1, 2]) / 2).dtype == rg.float64
    finally:
        rg.set_default_dtype(rg.float32)
    with pytest.raises(TypeError, match="set_default_dtype"):
        rg.set_default_dtype(rg.int64)


@pytest.mark.parametrize("name", ["hypot", "logaddexp", "atan2"])
def test_floating_functions_of_integers_have_the_default_dtype(name):
    for dtype in (rg.int8, rg.int64, rg.bool):
        x = rg.ones(2, dtype=dtype)
        assert getattr(rg, name)(x, x).dtype == rg.float32
