"""Python's numbers beside Tensors whose dtype may not hold them: wrapped, widened or refused as PyTorch does."""

import operator
import warnings

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F

INTEGERS = ["uint8", "int8", "int16", "int32", "int64"]
DTYPES = ["bool", *INTEGERS, "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
INFINITY, NAN = float("inf"), float("nan")
NUMBERS = [0, -1, 1, 3, 200, -200, 300, 1e5, 1e-5, 1e10, 3.5, -0.5, 0.1, INFINITY, NAN, True, 2**40, 1 + 2j]


# Half precision


def test_halves_are_multiplied_and_divided_by_numbers_in_float32():
    x = rg.tensor([100.0], dtype=rg.float16)
    assert (x / 1e5).item() == float(np.float16(1e-3))
    assert (rg.tensor([1e-5], dtype=rg.float16) * 1e5).item() == pytest.approx(1, rel=1e-2)
    assert (1e5 * rg.tensor([1e-5, 0.0], dtype=rg.float16)).tolist()[1] == 0
    assert (x / rg.tensor(1e5)).dtype == rg.float16 and (x / rg.tensor(1e5)).item() == float(np.float16(1e-3))
    assert (1e5 / rg.tensor([2.0], dtype=rg.float16)).item() == float(np.float16(5e4))
    assert (rg.tensor([1.0], dtype=rg.float16) // 0.1).item() == 9


def test_halves_are_written_in_place_as_out_of_place():
    x = rg.tensor([100.0, 200.0], dtype=rg.float16)
    y = x.clone()
    assert y.div_(1e5) is y and y.tolist() == (x / 1e5).tolist()
    view = x[1:]
    view *= 1e-7
    assert x.tolist() == [100.0, float(np.float16(200 * np.float32(1e-7)))]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_gradients_of_halves_go_through_float32(dtype):
    pytest.importorskip("ml_dtypes")
    x = rg.tensor([1e-4], dtype=getattr(rg, dtype), requires_grad=True)
    y = x * 1e5
    y.backward(rg.tensor([0.5], dtype=x.dtype))
    assert x.grad.dtype == x.dtype and x.grad.item() == pytest.approx(5e4, rel=1e-2)
    z = rg.tensor([2.0], dtype=x.dtype, requires_grad=True)
    (z.clone().div_(1e5)).backward(rg.tensor([100.0], dtype=x.dtype))
    assert z.grad.item() == pytest.approx(1e-3, rel=1e-2)


def test_sums_with_products_of_halves_are_rounded_once():
    one, large, small = (rg.tensor([value], dtype=rg.float16) for value in (1.0, 300.0, 1e-4))
    assert rg.addcmul(one, large, large, value=1e-5).item() == pytest.approx(1.9, rel=1e-3)
    assert rg.addcdiv(one, large, small, value=1e-3).item() == pytest.approx(3000, rel=1e-2)
    assert rg.lerp(one, large, 1e-5).item() == pytest.approx(1.003, rel=1e-3)
    assert one.clone().addcmul_(large, large, value=1e-5).item() == pytest.approx(1.9, rel=1e-3)
    assert F.leaky_relu(rg.tensor([0.0, -1e-4], dtype=rg.float16), 1e5).tolist() == pytest.approx([0, -10], rel=1e-2)


@pytest.mark.parametrize(
    "call",
    [
        lambda x: x.clamp(1e5),
        lambda x: x.clamp(0, 1e5),
        lambda x: rg.add(x, x, alpha=1e5),
        lambda x: x**1e5,
        lambda x: x.fill_(1e5),
        lambda x: rg.full_like(x, 1e5),
        lambda x: x.masked_fill(x > 0, -1e9),
        lambda x: rg.linspace(0, 1e5, 3, dtype=x.dtype),
    ],
)
def test_numbers_that_float16_does_not_hold_are_refused_where_they_stay_in_it(call):
    with pytest.raises(RuntimeError, match=r"cannot be converted to float16 without overflow"):
        call(rg.tensor([1.0, 2.0], dtype=rg.float16))


# Integers


def test_arithmetic_of_integers_wraps_numbers_around():
    x = rg.tensor([0, 1, 200], dtype=rg.uint8)
    assert (x + (-1)).tolist() == [255, 0, 199]
    assert (rg.tensor([1, 2], dtype=rg.int8) * 200).tolist() == [-56, -112]
    assert x.add_(-1).tolist() == [255, 0, 199]
    assert rg.tensor([5], dtype=rg.int64).add(2**63).item() == 5 - 2**63
    with pytest.raises(OverflowError, match="64 bits"):
        rg.tensor([1]) + 2**70


def test_comparisons_of_integers_wrap_numbers_around_as_with_tensors():
    x = rg.tensor([0, 1, 255], dtype=rg.uint8)
    assert (x > -1).tolist() == (x > rg.tensor(-1)).tolist() == [False, False, False]
    assert (rg.tensor([-56], dtype=rg.int8) == 200).tolist() == [True]


def test_what_is_written_into_integers_must_fit():
    x = rg.zeros(2, dtype=rg.uint8)
    assert x.fill_(-100).tolist() == [156, 156]
    assert rg.full((1,), 3.7, dtype=rg.int32).tolist() == [3]
    assert x.clamp(-1, 3).tolist() == [3, 3]
    for call in (
        lambda: rg.tensor([300], dtype=rg.uint8),
        lambda: rg.tensor([[1, -200]], dtype=rg.int8),
        lambda: rg.tensor([1e10], dtype=rg.int32),
        lambda: rg.tensor([float("nan")], dtype=rg.int64),
        lambda: rg.tensor(-0.5, dtype=rg.uint8),
        lambda: rg.full((2,), 1e10, dtype=rg.int32),
        lambda: x.fill_(300),
        lambda: x.__setitem__(0, 300),
        lambda: x.masked_fill(x > 0, rg.tensor(300)),
        lambda: rg.arange(3, dtype=rg.int8).index_fill(0, rg.tensor([0]), 200),
        lambda: rg.where(x > 0, x, 300),
        lambda: F.threshold(x, 1, 300),
        lambda: x.clamp(max=300),
    ):
        with pytest.raises(RuntimeError, match="without overflow"):
            call()


def test_complex_numbers_are_not_cut_to_real_ones_unless_they_are_tensors():
    for dtype in (rg.int32, rg.float32):
        with pytest.raises(TypeError, match="complex"):
            rg.tensor([1 + 2j], dtype=dtype)
        with pytest.raises(RuntimeError, match="complex"):
            rg.zeros(2, dtype=dtype).fill_(1 + 2j)
        with pytest.warns(UserWarning, match="imaginary"):
            assert rg.zeros(2, dtype=dtype).copy_(rg.tensor([1 + 2j, 3])).tolist() == [1, 3]
    assert rg.zeros(1, dtype=rg.bool).fill_(1j).tolist() == [True]


def test_integers_beyond_64_bits_are_refused():
    with pytest.raises(ValueError, match="int64"):
        rg.tensor([2**63])
    with pytest.raises(RuntimeError, match="overflow"):
        rg.full((1,), 2**63)


def test_factors_of_sums_follow_the_dtype_of_the_sum():
    x = rg.tensor([[1]])
    assert rg.addmm(x, rg.tensor([[2]]), rg.tensor([[3]]), alpha=1.5).tolist() == [[7]]
    assert rg.addcmul(rg.tensor([1]), rg.tensor([2]), rg.tensor([3]), value=1.5).dtype == rg.int64
    assert rg.index_add(rg.tensor([1, 2]), 0, rg.tensor([0]), rg.tensor([5]), alpha=1.5).tolist() == [6, 2]
    b = rg.tensor([True, False])
    assert rg.add(b, b, alpha=3).dtype == rg.bool
    for alpha in (1.5, 1j, True):
        with pytest.raises(RuntimeError, match="alpha"):
            rg.add(x, x, alpha=alpha)
    with pytest.raises(RuntimeError, match="overflow"):
        rg.addmm(x.float(), x.float(), x.float(), alpha=1e300)


def test_full_writes_into_an_out_of_another_dtype():
    out = rg.zeros(2, dtype=rg.int64)
    assert rg.full((2,), 3.5, out=out) is out and out.tolist() == [3, 3]


def test_negative_powers_of_integers_are_cut_to_integers():
    x = rg.tensor([1, -1, 2, 0])
    assert (x ** rg.tensor(-1)).tolist() == [1, -1, 0, 0]
    assert (x ** rg.tensor([-2, -2, 3, -1])).tolist() == [1, 1, 8, 0]
    assert (2 ** rg.tensor([-1, 3])).tolist() == [0, 8]
    with pytest.raises(RuntimeError, match="negative integer powers"):
        x**-1
    assert rg.float_power(0.1, rg.tensor([1.0], dtype=rg.float64)).item() == 0.1


def test_even_spacing_takes_complex_ends_and_refuses_what_does_not_fit():
    assert rg.linspace(1j, 2, 3).tolist() == [1j, 1 + 0.5j, 2]
    assert rg.logspace(0, 1j, 2).dtype == rg.complex64
    assert rg.linspace(-3, 3, 4, dtype=rg.uint8).tolist() == [253, 169, 86, 3]
    assert rg.linspace(-10, 10, 7, dtype=rg.int32).tolist() == [-10, -6, -3, 0, 3, 6, 10]
    assert rg.logspace(0, 3, 4, dtype=rg.int8).tolist() == [1, 10, 100, -24]
    for call in (
        lambda: rg.linspace(1j, 2, 3, dtype=rg.float32),
        lambda: rg.linspace(0, 300, 3, dtype=rg.uint8),
        lambda: rg.linspace(0, 1e300, 3),
    ):
        with pytest.raises(RuntimeError):
            call()


# All of it against PyTorch


def _functions(names):
    for name in names:
        yield name, lambda lib, x, s, name=name: getattr(lib, name)(x, s)
        yield name + "_", lambda lib, x, s, name=name: getattr(x, name + "_")(s)


def _operators(names):
    for name in names:
        function = getattr(operator, name)
        yield f"x {name} s", lambda lib, x, s, function=function: function(x, s)
        yield f"s {name} x", lambda lib, x, s, function=function: function(s, x)


def _written(lib, x, s):
    x[lib.tensor([True] + [False] * (len(x) - 1))] = s
    return x


CALLS = dict(
    _functions(
        ["add", "sub", "mul", "div", "floor_divide", "remainder", "fmod", "pow", "eq", "lt", "ge", "bitwise_and"]
    )
)
CALLS |= dict(_operators(["add", "sub", "mul", "mod", "eq", "lt", "gt", "and_", "xor", "lshift"]))
CALLS |= {
    "add alpha": lambda lib, x, s: lib.add(x, x, alpha=s),
    "sub alpha": lambda lib, x, s: lib.sub(x, x, alpha=s),
    "addcmul": lambda lib, x, s: lib.addcmul(x, x, x, value=s),
    "addcdiv": lambda lib, x, s: lib.addcdiv(x, x + 1, x + 1, value=s),
    "lerp": lambda lib, x, s: lib.lerp(x, x.clone(), s),
    "clamp min": lambda lib, x, s: lib.clamp(x, min=s),
    "clamp max": lambda lib, x, s: lib.clamp(x, max=s),
    "clamp": lambda lib, x, s: lib.clamp(x, s, 3),
    "clamp_": lambda lib, x, s: x.clamp_(1, s),
    "where": lambda lib, x, s: lib.where(x == 1, x, s),
    "masked_fill": lambda lib, x, s: x.masked_fill(x == 1, s),
    "fill_": lambda lib, x, s: x.fill_(s),
    "full_like": lambda lib, x, s: lib.full_like(x, s),
    "full": lambda lib, x, s: lib.full((2,), s, dtype=x.dtype),
    "tensor": lambda lib, x, s: lib.tensor([s], dtype=x.dtype),
    "tensor of rows": lambda lib, x, s: lib.tensor([[s, 1], [0, s]], dtype=x.dtype),
    "setitem": _written,
    "index_fill": lambda lib, x, s: x.index_fill(0, lib.tensor([0]), s),
    "index_add": lambda lib, x, s: lib.index_add(x, 0, lib.tensor([0]), x[1:2].clone(), alpha=s),
    "scatter": lambda lib, x, s: x.scatter(0, lib.tensor([0]), s),
    "addmm": lambda lib, x, s: lib.addmm(x[:1, None], x[1:2, None], x[1:2, None], alpha=s, beta=s),
    "linspace": lambda lib, x, s: lib.linspace(0, s, 3, dtype=x.dtype),
    "mul 0-d": lambda lib, x, s: x * lib.tensor(s),
    "div 0-d": lambda lib, x, s: x / lib.tensor(s),
    "lt 0-d": lambda lib, x, s: x < lib.tensor(s),
}

# PyTorch's complex sums multiply their second term by 1 + 0i, which makes NaN of infinities.
COMPLEX_SUMS = {"add", "add_", "sub", "sub_", "x add s", "s add x", "x sub s", "s sub x", "add alpha", "sub alpha"}
TOLERANCE = {"float16": 1e-3, "bfloat16": 8e-3, "float32": 2e-5, "complex64": 2e-5}


def _made(lib, dtype):
    values = np.array([0, 1, 1] if dtype == "bool" else [0.0, 1.0, 2.0, 100.0])
    if lib is rg:
        return rg.tensor(values.astype(getattr(rg, dtype)))
    return lib.tensor(values).to(getattr(lib, dtype))


def _answer(lib, call, dtype, number):
    x = _made(lib, dtype)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            result = call(lib, x, number)
            name = str(result.dtype).rpartition(".")[2]
            return name, result.to(dtype=lib.float32).numpy() if name == "bfloat16" else result.numpy()
    except Exception as error:
        return error


@pytest.mark.every(3)
@pytest.mark.parametrize("name", CALLS)
def test_values_dtypes_and_errors_of_numbers_beside_tensors_are_pytorchs(name):
    torch = pytest.importorskip("torch")
    pytest.importorskip("ml_dtypes")
    different = []
    for dtype in DTYPES:
        for number in NUMBERS:
            wanted, got = (_answer(lib, CALLS[name], dtype, number) for lib in (torch, rg))
            if isinstance(wanted, Exception) and ("not implemented" in str(wanted) or "ComplexHalf" in str(wanted)):
                continue  # PyTorch has no kernel
            if name in COMPLEX_SUMS and dtype.startswith("complex") and number == INFINITY:
                continue
            if isinstance(wanted, Exception) or isinstance(got, Exception):
                same = isinstance(wanted, Exception) and isinstance(got, type(wanted))
            elif wanted[0] != got[0]:
                same = False
            else:
                rtol = TOLERANCE.get(got[0], 1e-9)
                same = np.allclose(wanted[1], got[1], rtol=rtol, atol=0, equal_nan=True)
            if not same:
                different.append((dtype, number, wanted, got))
    assert not different
