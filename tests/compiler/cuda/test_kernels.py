"""Generated CUDA: NVRTC compiles it, and what it computes, run by a processor, is what eager operators compute."""

import itertools
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.compiler.cuda import kernels
from retrograd.compiler.cuda.cpp_expressions import DTYPES, FUNCTIONS, expression, literal
from retrograd.compiler.cuda.kernel_fusion import part_of
from retrograd.compiler.cuda.kernels import OPTIONS, CudaLoop, Module
from retrograd.compiler.cuda.source import Kernel, Tile
from retrograd.compiler.passes.expressions import _ARITHMETIC, _COMPARISONS
from retrograd.compiler.passes.fused_loops import Group
from retrograd.compiler.program import Instruction, Value, method
from tests.compiler.cuda import nvrtc, processor
from tests.helpers.guarded import GuardedArray, cupy, guarded_backend

needs_compiler = pytest.mark.skipif(processor.compiler() is None, reason="no g++")
needs_nvrtc = pytest.mark.skipif(nvrtc.nvrtc() is None, reason="no NVRTC")

# What elements may be, that matters to some function.
REAL = [0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 1.5, -2.5, 3.0, 7.25, -7.25, 1e-3, 30.0, -30.0, np.inf, -np.inf, np.nan]
WHOLE = [0, 1, 2, 3, 5, 7, 31, 63, 100, 127]
SIGNED = [*WHOLE, -1, -2, -3, -7, -128]
UNARY = {np.negative, np.square, np.sqrt, np.absolute} | {
    getattr(np, name) for name, form in FUNCTIONS.items() if "{1}" not in form and hasattr(np, name)
}
UNARY = {function for function in UNARY if isinstance(function, np.ufunc)}
BINARY = {getattr(np, name) for name, form in FUNCTIONS.items() if "{1}" in form and hasattr(np, name)}
BINARY |= {function for function in (*_ARITHMETIC, *_COMPARISONS) if isinstance(function, np.ufunc)} - UNARY
# NumPy's and C's functions differ in the last digits, more so in single precision.
ROUNDING = {np.dtype(np.float16): 2e-3, np.dtype(np.float32): 4e-6, np.dtype(np.float64): 1e-13}


@pytest.fixture(autouse=True)
def backend():
    with guarded_backend() as backend, np.errstate(all="ignore"):
        yield backend


def numbers_of(dtype: Any, count: int) -> list[np.ndarray[Any, Any]]:
    """Arrays of interesting elements, in all combinations."""
    some = REAL if dtype.kind == "f" else [False, True] if dtype.kind == "b" else WHOLE if dtype.kind == "u" else SIGNED
    rows = itertools.product(np.array(some, dtype), repeat=count)
    return [cupy.asarray(np.array(column, dtype)) for column in zip(*rows, strict=True)]


def instruction_of(function: Any, arrays: Any, result: Any, kwargs: Any = None) -> Instruction:
    args = tuple(Value(n, x) if isinstance(x, GuardedArray) else x for n, x in enumerate(arrays))
    return Instruction("array", function, args, kwargs, (Value(len(args), result),))


def loop_of(instruction: Instruction, module: Module) -> CudaLoop | None:
    part = part_of(instruction)
    if part is None:
        return None
    return CudaLoop(Group((instruction,), part.shape, tuple(part.steps), (), instruction.outs), module)


def compare(got: Any, wanted: Any, what: str, rounding: bool = True) -> None:
    got, wanted = got.get(), wanted.get()
    assert got.dtype == wanted.dtype and got.shape == wanted.shape, what
    if wanted.dtype.kind == "f" and rounding:
        digits = ROUNDING[wanted.dtype]
        np.testing.assert_allclose(got.astype(float), wanted.astype(float), digits, digits * 1e-3, err_msg=what)
    else:
        np.testing.assert_array_equal(got, wanted, what)


EXACT = {np.add, np.subtract, np.multiply, np.true_divide, np.sqrt, np.floor, np.ceil, np.remainder, np.floor_divide}


@needs_compiler
@pytest.mark.parametrize("count", [1, 2])
def test_each_function_of_elements_is_numpys_in_each_dtype(count):
    """NaN, infinities, signed zeros, negative divisors, division by zero, shifts too far, integers that wrap around."""
    module, cases = Module(), []
    for function in sorted(UNARY if count == 1 else BINARY, key=lambda function: function.__name__):
        for dtype in sorted(DTYPES, key=str):
            arrays = numbers_of(dtype, count)
            if function.__name__ == "power" and dtype.kind in "iu":
                arrays[1] = np.maximum(arrays[1], 0).astype(dtype)  # NumPy refuses negative exponents of integers
            try:
                wanted = function(*arrays)
            except TypeError:
                continue
            loop = loop_of(instruction_of(function, arrays, wanted), module)
            if loop is not None:
                cases.append((function, dtype, loop, arrays, wanted))
    known = {(function.__name__, dtype.name) for function, dtype, *_ in cases}
    for name in (function.__name__ for function in (UNARY if count == 1 else BINARY)):
        integers = name in ("bitwise_and", "bitwise_or", "bitwise_xor", "invert", "left_shift", "right_shift")
        assert (name, "int32" if integers else "float32") in known, f"{name} is no part of kernels"
    assert len(cases) > 150
    for function, dtype, loop, arrays, wanted in cases:
        rounding = function not in EXACT
        compare(loop(*arrays), wanted, f"{function.__name__} of {dtype}", rounding)
        if not rounding and wanted.dtype.kind == "f":
            got, want = loop(*arrays).get(), wanted.get()
            zero = want == 0
            assert (np.signbit(got)[zero] == np.signbit(want)[zero]).all(), f"signed zeros of {function.__name__}"


@needs_compiler
def test_casts_between_all_dtypes_round_once():
    module, cases = Module(), []
    for old, new in itertools.permutations(sorted(DTYPES, key=str), 2):
        x = numbers_of(old, 1)[0]
        if old.kind == "f":
            x = cupy.asarray(np.array([0.0, 1.5, -2.7, 100.3, 1e-7, 65519.0, 2049.0, 4097.0 / 4096 + 1e-9], old))
            if new.kind in "iu":
                x = cupy.abs(x[:4])  # what does not fit is undefined in C, and in NumPy
        elif new.kind in "iu" and old.kind == "i":
            x = x[:10]
        wanted = x.astype(new)
        made = instruction_of(method("astype"), (x,), wanted)
        made.args = (*made.args, new)
        loop = loop_of(made, module)
        assert (loop is not None) == (new != np.bool_)
        if loop is not None:
            cases.append((loop, x, wanted, f"{old} to {new}"))
    for loop, x, wanted, what in cases:
        compare(loop(x), wanted, what, rounding=False)


@needs_compiler
def test_numbers_take_the_dtype_of_arrays():
    x, n = cupy.asarray(np.linspace(-2, 2, 9, dtype=np.float16)), cupy.arange(-4, 5)
    module = Module()
    for function, args in [
        (np.multiply, (x, 0.1)), (np.add, (n, 3)), (np.multiply, (n, 2.5)), (np.true_divide, (n, 3)),
        (np.less, (n, 1)), (np.maximum, (x, -0.3)), (np.power, (x, 3)), (np.subtract, (1, n)),
        (np.multiply, (x, np.inf)), (np.minimum, (x, np.nan)), (np.floor_divide, (n, 2)), (np.exp, (n,)),
        (np.multiply, (n, np.float32(0.5))), (np.greater, (n, 0.5)),
    ]:  # fmt: skip
        wanted = function(*args)
        loop = loop_of(instruction_of(function, args, wanted), module)
        assert loop is not None, function
        compare(loop(*[x for x in args if isinstance(x, GuardedArray)]), wanted, function.__name__)


def test_what_a_kernel_cannot_compute_is_left_to_cupy():
    module = Module()
    z, x = cupy.ones(4, np.complex64), cupy.ones(4, np.float32)
    assert loop_of(instruction_of(np.add, (z, z), z), module) is None
    assert loop_of(instruction_of(np.add, (cupy.ones(4, bool), cupy.ones(4, bool)), cupy.ones(4, bool)), module) is None
    assert loop_of(instruction_of(np.add, (x, x), x, {"dtype": np.float64}), module) is None
    on_processor = Instruction("array", np.add, (Value(0, x), Value(1, np.ones(4, np.float32))), None, (Value(2, x),))
    assert part_of(on_processor) is None


def test_literals_and_forms_of_c():
    half, single, long = map(np.dtype, (np.float16, np.float32, np.int64))
    assert literal(0.1, single) == f"(float){float(np.float32(0.1))!r}"
    assert literal(-(1 << 63), long) == "(long long)(-9223372036854775807LL - 1)"
    assert literal(-np.inf, half) == "(float)-infinity()"
    assert expression("({0} + {1})", ["x", "y"], half) == "rounded(plus(x, y))"
    assert expression("({0} if {1} else {zero})", ["x", "c"], single) == "(c ? x : (float)0.0)"
    with pytest.raises(TypeError, match="no CUDA"):
        expression("[{0}]", ["x"], single)


# Sums

SHAPES = [
    ((7,), (0,)), ((5000,), (0,)), ((3, 5), (0,)), ((3, 5), (1,)), ((1000, 3), (0,)), ((3, 1000), (1,)),
    ((300, 300), (0,)), ((300, 300), (0, 1)), ((4, 6, 5), (1,)), ((4, 6, 5), (0, 2)), ((2, 300, 7), (1,)),
    ((2, 5000), (1,)), ((1, 1), (0,)), ((6, 1, 5), (0, 1)), ((70, 40, 3), (0, 1, 2)),
]  # fmt: skip


@needs_compiler
@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16])
def test_sums_over_any_axes_beside_their_terms(dtype):
    """With broadcast, transposed and strided operands, and what is summed a result, too."""
    module, cases = Module(), []
    rng = np.random.default_rng(0)
    for shape, axes in SHAPES:
        x = cupy.asarray(rng.standard_normal((*shape[::-1], 2)).astype(dtype))[..., 1].T
        row = cupy.asarray(rng.standard_normal(shape[-1:]).astype(dtype))
        for mean in (False, True):
            product = np.multiply(x, row)
            total = (product.mean if mean else product.sum)(axis=axes)
            first = instruction_of(np.multiply, (x, row), cupy.ascontiguousarray(product))
            name = "mean" if mean else "sum"
            second = Instruction("array", method(name), (first.outs[0],), {"axis": axes}, (Value(9, total),))
            parts = [part_of(first), part_of(second)]
            group = Group((first, second), shape, tuple(parts[0].steps), (parts[1].total,), first.outs)
            loop = CudaLoop(group, module)
            cases.append((loop, x, row, product))
    assert any(loop.second for loop, *_ in cases) and not all(loop.second for loop, *_ in cases)
    for loop, x, row, product in cases:
        got, summed = loop(x, row)
        np.testing.assert_array_equal(got.get(), product.get())
        exact = product.get().astype(np.float64)
        (sum_,) = loop.group.sums
        wanted = (exact.mean if sum_.mean else exact.sum)(axis=tuple(sum_.axes))
        kind = np.finfo(dtype)
        near = float(kind.smallest_subnormal) + np.finfo(np.float64).eps * np.abs(exact).sum()
        np.testing.assert_allclose(summed.get(), wanted, float(kind.eps), near, err_msg=str(loop.group.shape))
        again = loop(x, row)[1]
        assert again.get().tobytes() == summed.get().tobytes()


def test_tiles_share_what_is_long_and_fit_in_a_block():
    for kept, count, along in itertools.product([1, 3, 64, 1000, 1 << 20], [1, 5, 256, 1 << 22], [False, True]):
        tile = Tile.of(kept, count, along)
        assert tile.across * tile.along == 256 and tile.shares >= 1
        assert -(-kept // tile.across) * tile.shares <= max(1024, -(-kept // tile.across))
        assert tile.shares == 1 or count >= tile.shares * tile.along * 16
    assert Tile.of(1, 1 << 22, True).shares == 1024


# NVRTC


def large_values() -> list[Instruction]:
    """An instruction over more elements than 32 bits count."""
    x = Value(0, cupy.ones((2, 2), np.float32))
    row = Value(1, cupy.ones(2, np.float32))
    out = Value(2, cupy.ones((2, 2), np.float32))
    for value in (x, out):
        value.shape, value.strides = (1 << 16, 1 << 17), (1 << 19, 4)
    row.shape = (1 << 17,)
    return [Instruction("array", np.add, (x, row), None, (out,))]


def test_indices_have_64_bits_where_32_do_not_do():
    module = Module()
    loop_of(large_values()[0], module)
    assert "long long i" in module.source and "int i =" not in module.source
    small = instruction_of(np.add, (cupy.ones(4), cupy.ones(4)), cupy.ones(4))
    module = Module()
    loop_of(small, module)
    assert "for (int i" in module.source


@needs_nvrtc
@pytest.mark.slow
def test_nvrtc_compiles_every_function_in_every_dtype(pytestconfig):
    module, dtypes = Module(), DTYPES if pytestconfig.getoption("--long") else ["float16", "float32", "int32"]
    for count, functions in ((1, UNARY), (2, BINARY)):
        for function in sorted(functions, key=lambda function: function.__name__):
            for dtype in sorted(map(np.dtype, dtypes), key=str):
                arrays = numbers_of(dtype, count)
                try:
                    wanted = function(*[x[:1] for x in arrays])
                except TypeError:
                    continue
                loop_of(instruction_of(function, [x[:1] for x in arrays], wanted), module)
    loop_of(large_values()[0], module)
    assert len(module) > 40 * len(dtypes) // 2
    ptx = nvrtc.compiled(module.source, OPTIONS)
    assert all(f".entry k{number}(" in ptx for number in range(len(module)))


@needs_nvrtc
def test_nvrtc_contracts_no_product_and_sum():
    x = cupy.ones(4, np.float32)
    product = instruction_of(np.multiply, (x, x), x)
    add = Instruction("array", np.add, (product.outs[0], Value(0, x)), None, (Value(7, x),))
    parts = [part_of(product), part_of(add)]
    module = Module()
    CudaLoop(Group((product, add), (4,), (*parts[0].steps, *parts[1].steps), (), add.outs), module)
    assert "fma.rn" not in nvrtc.compiled(module.source, OPTIONS)
    assert "fma.rn" in nvrtc.compiled(module.source, OPTIONS[:1])


@needs_nvrtc
def test_nvrtc_refuses_what_is_wrong():
    with pytest.raises(RuntimeError, match="undefined"):
        nvrtc.compiled('extern "C" __global__ void k(float* x) { *x = missing; }', OPTIONS)


# Programs


def random_program(seed: int) -> Any:
    """A function of three Tensors made of elementwise operators, broadcasting and sums."""
    rng = np.random.default_rng(seed)
    one = [rg.sigmoid, rg.tanh, rg.nn.functional.gelu, rg.nn.functional.silu, rg.relu, lambda x: x * 0.3 + 1, rg.abs,
           lambda x: rg.where(x > 0, x, 0.1 * x), lambda x: rg.exp(-x * x), lambda x: rg.sqrt(x * x + 1),
           lambda x: rg.clamp(x, -1, 1), rg.nn.functional.softplus, rg.sin]  # fmt: skip
    two = [rg.add, rg.sub, rg.mul, rg.maximum, rg.minimum, lambda x, y: x / (1 + y * y), rg.atan2, rg.hypot]
    choices = [(int(rng.integers(len(one))), int(rng.integers(len(two))), *rng.integers(0, 4, 2)) for _ in range(8)]

    def run(*given: Any) -> Any:
        made = list(given)
        for first, second, left, right in choices:
            made.append(two[second](one[first](made[-1 - left % len(made)]), made[-1 - right % len(made)]))
        return made[-1].sum(0), (made[-2] * made[-1]).mean(), made[-3]

    return run


@needs_compiler
@pytest.mark.parametrize("seed", range(6))
def test_random_programs_and_their_gradients(seed):
    rng = np.random.default_rng(seed)
    arrays = [rng.standard_normal(shape) for shape in ((6, 9), (9,), (6, 1))]
    dtype = (np.float64, np.float32)[seed % 2]
    function = random_program(seed)

    def run(compiled: bool) -> list[Any]:
        xs = [rg.tensor(array.astype(dtype), device="cuda").requires_grad_() for array in arrays]

        def step(*xs: Any) -> Any:
            outputs = function(*xs)
            sum(output.sum() for output in outputs).backward()
            return tuple(output.detach() for output in outputs)

        step = rg.compile(step) if compiled else step
        for _ in range(2):
            for x in xs:
                x.grad = None
            outputs = step(*xs)
        if compiled:
            (entry,) = step.entries
            assert entry.kernels is not None and len(entry.kernels), step.explain()
            for name in ("CUDA kernel", "on a GPU"):
                assert name in step.explain()
        return [None if x is None else x.cpu().numpy() for x in (*outputs, *[x.grad for x in xs])]

    for got, wanted in zip(run(True), run(False), strict=True):
        if wanted is None:
            assert got is None
            continue
        digits = 1e-10 if dtype is np.float64 else 2e-4
        np.testing.assert_allclose(got, wanted, rtol=digits, atol=digits * max(1, abs(wanted).max()))


# The tests themselves


def remainder_of_some(module: Module) -> None:
    x, y = numbers_of(np.dtype(np.int32), 2)
    loop = loop_of(instruction_of(np.remainder, (x, y), np.remainder(x, y)), module)
    assert loop is not None
    compare(loop(x, y), np.remainder(x, y), "remainder")


@needs_compiler
def test_a_wrong_function_is_noticed(monkeypatch):
    remainder_of_some(Module())
    rule = "return r != (T)0 && (r < (T)0) != (y < (T)0) ? (T)(r + y) : r;"
    assert rule in kernels.PRELUDE
    monkeypatch.setattr(kernels, "PRELUDE", kernels.PRELUDE.replace(rule, "return r;"))
    with pytest.raises(AssertionError, match="remainder"):
        remainder_of_some(Module())


@needs_compiler
def test_threads_that_do_not_wait_are_noticed(monkeypatch):
    def total(module: Module) -> float:
        x = cupy.ones(1000, np.float32)
        first = instruction_of(np.multiply, (x, x), x)
        second = Instruction("array", method("sum"), (first.outs[0],), None, (Value(9, x.sum()),))
        parts = [part_of(first), part_of(second)]
        loop = CudaLoop(Group((first, second), (1000,), tuple(parts[0].steps), (parts[1].total,), ()), module)
        return float(loop(x, x))

    assert total(Module()) == 1000
    text = Kernel.text
    monkeypatch.setattr(Kernel, "text", lambda self, name: text(self, name).replace("__syncthreads();", ""))
    assert total(Module()) != 1000


@needs_compiler
def test_a_launch_with_an_array_of_another_dtype_is_noticed():
    module = Module()
    x = cupy.ones(4, np.float32)
    loop = loop_of(instruction_of(np.add, (x, x), x), module)
    with pytest.raises(AssertionError, match="float"):
        loop(cupy.ones(4, np.float64))
