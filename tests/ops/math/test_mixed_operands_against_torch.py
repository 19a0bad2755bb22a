"""Operands of different dtypes, numbers of NumPy, empty and infinite ones: dtypes, values and errors as PyTorch's."""

import operator

import numpy as np
import pytest

import retrograd as rg
from tests.helpers.together import in_one_test

torch = pytest.importorskip("torch")

INFINITY, NAN = float("inf"), float("nan")
DTYPES = ["uint8", "int8", "int16", "int64", "float16", "float32", "float64", "complex64", "complex128"]


def same(call):
    """Check that a call of either library gives one dtype, one shape, and the same values."""
    mine, other = call(rg), call(torch)
    assert mine.dtype.name == str(other.dtype).rpartition(".")[2] and mine.shape == tuple(other.shape)
    np.testing.assert_allclose(mine.numpy(), other.numpy(), rtol=2e-3 if mine.dtype == rg.float16 else 1e-6)


@pytest.mark.parametrize("name", ["addcmul", "addcdiv"])
def test_sums_with_products_and_quotients_promote_all_three_operands_at_once(name):
    rng = np.random.default_rng(0)
    for _ in range(150):
        kinds = [DTYPES[place] for place in rng.integers(len(DTYPES), size=3)]
        shapes = [(2,) if rng.integers(2) else () for _ in kinds]
        values = [rng.integers(1, 100, shape).tolist() for shape in shapes]
        if name == "addcdiv" and all("int" in kind for kind in kinds[1:]):
            continue
        if "float16" in kinds and any("complex" in kind for kind in kinds):
            continue  # may be complex32 in PyTorch
        if "float16" in kinds:
            values = [(np.array(value) % 9 + 1).tolist() for value in values]

        def call(library, kinds=kinds, values=values):
            x = [library.tensor(v, dtype=getattr(library, kind)) for v, kind in zip(values, kinds, strict=True)]
            return getattr(library, name)(*x)

        same(call)


def test_a_negative_number_of_int16_times_one_of_uint8_does_not_wrap_in_addcmul():
    x, factor = rg.tensor([1, 2], dtype=rg.int16), rg.tensor(-3, dtype=rg.int16)
    result = rg.addcmul(x, factor, rg.tensor([2, 2], dtype=rg.uint8))
    assert result.tolist() == [-5, -4] and result.dtype == rg.int16


@pytest.mark.parametrize("cotangent", [INFINITY, NAN, 2.0])
@pytest.mark.parametrize("name", ["min", "max", "median", "nanmedian"])
@pytest.mark.parametrize("values", [[1.0, 2.0, 0.5], [1.0, 1.0, 1.0, 3.0], [[-1.0, 4.0], [4.0, 0.0]]])
def test_a_cotangent_that_is_not_finite_reaches_the_extreme_or_median_alone(name, values, cotangent):
    gradients = []
    for library in (rg, torch):
        x = library.tensor(values, requires_grad=True)
        getattr(x, name)().backward(library.tensor(cotangent))
        gradients.append(x.grad.numpy())
    np.testing.assert_array_equal(*gradients)


@pytest.mark.parametrize("name", ["min", "max", "median", "nanmedian"])
def test_the_mapped_extreme_gives_the_gradient_of_the_one_that_is_not(name):
    x = rg.tensor([[1.0, 2.0, 0.5], [3.0, 3.0, 3.0], [INFINITY, INFINITY, 1.0]])
    assert rg.equal(rg.func.vmap(lambda x: getattr(x, name)())(x), rg.stack([getattr(row, name)() for row in x]))
    pull = rg.func.grad(lambda x: getattr(x, name)() * INFINITY)
    assert rg.equal(rg.func.vmap(pull)(x), rg.stack([pull(row) for row in x]))


@pytest.mark.parametrize(
    "call",
    [
        lambda lib: lib.add(lib.tensor([3], dtype=lib.int16), lib.tensor([True]), alpha=2),
        lambda lib: lib.add(lib.tensor([True]), lib.tensor([3], dtype=lib.uint8), alpha=2),
        lambda lib: lib.tensor([3], dtype=lib.int16).add_(lib.tensor([True]), alpha=2),
        lambda lib: lib.add(lib.tensor([3.0], dtype=lib.float64), lib.tensor([100], dtype=lib.int8), alpha=2),
        lambda lib: lib.add(lib.tensor([3.0], dtype=lib.float64), lib.tensor([100], dtype=lib.int8), alpha=2.5),
        lambda lib: lib.sub(lib.tensor([3]), lib.tensor([100], dtype=lib.int8), alpha=2),
        lambda lib: lib.add(lib.tensor([3]), lib.tensor([0.5], dtype=lib.float16), alpha=3),
        lambda lib: lib.ldexp(lib.tensor(1j, dtype=lib.complex128), lib.tensor([1], dtype=lib.uint8)),
        lambda lib: lib.ldexp(lib.tensor([1j]), lib.tensor([3])),
        lambda lib: lib.ldexp(lib.tensor([3]), lib.tensor([1], dtype=lib.uint8)),
        lambda lib: lib.tensor([3], dtype=lib.uint8).clamp(max=1, min=lib.tensor(0, dtype=lib.bfloat16)),
        lambda lib: lib.tensor([3], dtype=lib.uint8).clamp(max=lib.tensor(1), min=0),
        lambda lib: lib.tensor([3, 9], dtype=lib.int16).clamp(max=lib.tensor(4.5), min=0),
        lambda lib: lib.tensor([3.0], dtype=lib.float16).clamp(max=lib.tensor(2.0, dtype=lib.float64), min=0),
        lambda lib: lib.tensor(5, dtype=lib.int32) // lib.tensor([0.5, 0.0], dtype=lib.float16),
        lambda lib: lib.div(lib.tensor(7), lib.tensor([2.0, 0.0], dtype=lib.float16), rounding_mode="trunc"),
        lambda lib: lib.tensor([7.0, -7.0], dtype=lib.float16) // lib.tensor(2),
        lambda lib: lib.zeros(0, dtype=lib.int64) % lib.tensor(0),
        lambda lib: lib.zeros(0, dtype=lib.int64) // 0,
        lambda lib: lib.fmod(lib.zeros(0, 2, dtype=lib.int64), lib.tensor([0, 0])),
        lambda lib: lib.div(lib.zeros(0, dtype=lib.int64), 0, rounding_mode="trunc"),
    ],
)
def test_values_shapes_and_dtypes_of_mixed_operands_are_pytorchs(call):
    pytest.importorskip("ml_dtypes")
    same(call)


@pytest.mark.parametrize("value", [np.float32(3), np.int64(3), np.float16(2), np.bool_(True), np.uint8(200)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "float16"])
def test_numpys_scalars_fill_under_a_mask(value, dtype):
    def filled(library):
        x = library.zeros(2, dtype=getattr(library, dtype))
        mask = library.tensor([True, False])
        return library.stack([x.masked_fill(mask, value), x.clone().masked_fill_(mask, value)])

    same(filled)


@pytest.mark.parametrize("value", [np.float32(3), np.int64(3), np.float16(2), np.uint8(200)])
@pytest.mark.parametrize("dtype", ["float32", "int64", "uint8", "float16"])
def test_numpys_scalars_are_scattered_as_numbers(value, dtype):
    def scattered(library):
        x, index = library.ones(3, dtype=getattr(library, dtype)), library.tensor([2, 0])
        return library.stack([x.scatter(0, index, value), x.clone().scatter_(0, index, value, reduce="add")])

    same(scattered)


@in_one_test(
    "scalar, dtype, name",
    [
        (scalar, dtype, name)
        for scalar in [np.float32(1.5), np.float64(1.5), np.float16(2), np.int64(3), np.uint8(5)]
        for dtype in ["bool", "uint8", "int64", "float16", "float32", "complex64"]
        for name in ["add", "sub", "mul", "truediv", "floordiv", "mod", "pow"]
        if dtype != "bool" or name in ("add", "mul", "truediv")
        if dtype != "complex64" or name not in ("floordiv", "mod")  # which PyTorch refuses
    ],
)
def test_numpys_scalar_in_front_of_a_tensor_gives_pytorchs_dtype(scalar, dtype, name):
    same(lambda lib: getattr(operator, name)(scalar, lib.tensor([1, 3]).to(getattr(lib, dtype))))


def test_a_dimension_out_of_range_is_refused_before_a_dtype_as_in_pytorch():
    names = ["sort", "median", "mode", "amax", "cummax", "max", "softmax", "log_softmax"]
    for library in (rg, torch):
        for name in names:
            with pytest.raises(IndexError):
                getattr(library, name)(library.zeros(3, dtype=library.complex64), 4)
            with pytest.raises((NotImplementedError, RuntimeError)):
                getattr(library, name)(library.zeros(3, dtype=library.complex64), 0)
        with pytest.raises(IndexError):
            library.log_softmax(library.tensor([1]), -3)


@pytest.mark.parametrize("convert", [int, float, complex])
@pytest.mark.parametrize("grad", [False, True])
def test_a_tensor_of_no_or_several_elements_is_no_python_number(convert, grad):
    for shape in ((0,), (2,)):
        with pytest.raises(ValueError, match="one element"):
            convert(torch.zeros(shape))
        with pytest.raises(ValueError, match="only a Tensor of one element"):
            convert(rg.zeros(shape, requires_grad=grad))
    assert convert(rg.ones(1, 1)) == 1


def test_selection_where_there_are_no_elements_is_refused_as_in_pytorch():
    for library in (rg, torch):
        empty, wrong = library.zeros(0, 2), library.tensor([0])
        with pytest.raises(RuntimeError):
            empty.index_select(0, wrong)
        with pytest.raises(IndexError):
            library.zeros(3, 2).index_select(0, library.tensor([5]))
        assert empty.index_select(0, wrong[:0]).shape == (0, 2)
