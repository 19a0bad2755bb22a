"""Type promotion: PyTorch's table."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.arrays.dtypes import can_cast, promote_types, result_type

NAMES = ("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "complex64", "complex128")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


def named(dtype) -> str:
    """PyTorch's dtype by NumPy's name, which has no complex numbers of half precision."""
    return str(dtype).rpartition(".")[2].replace("complex32", "complex64")


@pytest.mark.parametrize("first", NAMES)
def test_promote_types(torch, first):
    for second in NAMES:
        ours, theirs = (first, second), (getattr(torch, first), getattr(torch, second))
        assert str(promote_types(*ours)) == named(torch.promote_types(*theirs)), ours
        assert can_cast(*ours) == torch.can_cast(*theirs), ours


@pytest.mark.parametrize("first", NAMES)
def test_zero_dimensional_operands(torch, first):
    for second in NAMES:
        theirs = torch.ones(2, dtype=getattr(torch, first)), torch.ones((), dtype=getattr(torch, second))
        assert str(result_type(np.ones(2, first), np.ones((), second))) == named(torch.result_type(*theirs)), second


@pytest.mark.parametrize("dtype", NAMES)
def test_numbers(torch, dtype):
    for number in (True, 2, 1.5, 1j):
        expected = torch.result_type(torch.ones(2, dtype=getattr(torch, dtype)), number)
        if expected is not torch.complex32:
            assert str(result_type(np.ones(2, dtype), number)) == named(expected), number


@pytest.mark.parametrize("first", NAMES)
@pytest.mark.parametrize("name", ["add", "mul", "div"])
def test_operators(torch, name, first):
    for second in NAMES:
        theirs = torch.ones(2, dtype=getattr(torch, first)), torch.ones(2, dtype=getattr(torch, second))
        try:
            expected = getattr(torch, name)(*theirs)
        except RuntimeError:  # PyTorch has no such kernel
            continue
        if expected.dtype is not torch.complex32:
            mine = getattr(rg, name)(rg.tensor(np.ones(2, first)), rg.tensor(np.ones(2, second)))
            assert mine.dtype.name == named(expected.dtype), second


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


@pytest.mark.parametrize(
    ("call", "advice"),
    [
        (lambda x, m: m(x), "call .float() on the float64 Tensor, or .double() on the float32 Tensor or its module"),
        (lambda x, m: m(x.long()), "call .float() on the Tensor of int64"),
        (lambda x, m: rg.nn.LSTM(3, 2)(x[None]), "call .float() on the float64 Tensor"),
        (lambda x, m: rg.nn.LayerNorm(3)(x), "call .float() on the float64 Tensor"),
        (
            lambda x, m: rg.nn.functional.scaled_dot_product_attention(x, x.float(), x),
            "call .float() on the float64 Tensor",
        ),
        (lambda x, m: rg.einsum("ij,kj->ik", x, m.weight), "call .float() on the float64 Tensor"),
        (
            lambda x, m: m.bfloat16()(x.half()),
            "call .bfloat16() on the float16 Tensor, or .half() on the bfloat16 Tensor",
        ),
    ],
)
def test_an_error_about_two_dtypes_says_how_to_convert(call, advice):
    x = rg.from_numpy(np.ones((4, 3)))
    with pytest.raises(RuntimeError, match="dtype") as raised:
        call(x, rg.nn.Linear(3, 2))
    assert advice in str(raised.value)
