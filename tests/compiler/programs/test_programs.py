"""Random programs and the operator table's calls, compiled: values and gradients are the eager ones."""

import gc
import warnings
import weakref
from typing import Any

import numpy as np
import pytest

import retrograd as rg
from retrograd.compiler import Compiled
from retrograd.compiler.cpu import machine_code
from retrograd.core.tensor.tensor import Tensor
from retrograd.func.nests import flatten
from retrograd.ops.make.generators import manual_seed
from retrograd.ops.table.registry import OPERATORS
from retrograd.testing.programs import programs
from tests.compiler.programs.composed import CASES, EAGER, NAMES, check_composed
from tests.compiler.programs.fuzz import check_fuzzed


def compiled(function: Any) -> Compiled:
    return Compiled(function, fallback=False, dynamic=False)


@pytest.mark.slow
@pytest.mark.parametrize("varied", [False, True], ids=["one size", "several sizes"])
@pytest.mark.parametrize("seed", range(2))
def test_random_programs(seed, varied):
    check_fuzzed(seed, varied)


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.parametrize("varied", [False, True], ids=["one size", "several sizes"])
@pytest.mark.parametrize("first", range(2, 98, 24))
def test_more_random_programs(first, varied, pytestconfig):
    for seed in range(first, first + (24 if pytestconfig.getoption("--long") else 2)):
        check_fuzzed(seed, varied)


def check_operator(name: str, most: int | None) -> None:
    """Compile so many of the operator's example calls, of ``None`` all."""
    operator, case = OPERATORS[name], CASES[name]
    calls = list(programs(operator, case))
    for program in calls[:: 1 if most is None else max(1, -(-len(calls) // most))]:

        def run(*tensors: Tensor, program: Any = program) -> Any:
            rest = iter(tensors)
            args = program._filled(program.call.args, rest)
            kwargs = {key: program._filled(value, rest) for key, value in program.call.kwargs.items()}
            return case.wrapped(operator.function)(*args, **kwargs)

        def numbers(function: Any, program: Any = program) -> list[Any]:
            manual_seed(0)
            inputs = program.inputs(operator.differentiable)
            leaves = flatten(function(*inputs))[0]
            found = [np.array(x.detach().numpy()) if isinstance(x, Tensor) else x for x in leaves]
            outputs = [x for x in leaves if isinstance(x, Tensor) and x.requires_grad]
            if outputs:
                rg.autograd.backward(outputs, [rg.ones_like(x) for x in outputs])
            return found + [None if x.grad is None else np.array(x.grad.numpy()) for x in inputs]

        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            wanted, function = numbers(run), compiled(run)
            for _ in range(2):
                for got, want in zip(numbers(function), wanted, strict=True):
                    if isinstance(want, np.ndarray) and want.dtype.kind in "fc":
                        np.testing.assert_allclose(got, want, rtol=1e-12, atol=1e-12)
                    elif isinstance(want, np.ndarray) and want.dtype.kind != "V":
                        np.testing.assert_array_equal(got, want)
        assert function.entries or name in EAGER, function.why


@pytest.mark.parametrize("name", NAMES[::20])
def test_operators_alone(name):
    check_operator(name, most=1)


@pytest.mark.slow
@pytest.mark.every(6)
@pytest.mark.parametrize("name", NAMES)
def test_calls_of_the_operator_table(name, pytestconfig):
    check_operator(name, most=None if pytestconfig.getoption("--long") else 1)


@pytest.mark.slow
def test_recompiling_leaks_nothing():
    def made() -> weakref.ref[Any]:
        @rg.compile
        def f(x):
            return (x * 2).sum()

        x = rg.ones(3, requires_grad=True)
        f(x).backward()
        f(x).backward()
        return weakref.ref(f)

    first = [made() for _ in range(20)]
    gc.collect()
    assert all(f() is None for f in first)
    objects = len(gc.get_objects())
    for _ in range(100):
        made()
    gc.collect()
    assert len(gc.get_objects()) - objects < 500


def test_second_derivatives_go_through_a_compiled_function():
    x = rg.tensor([1.0, 2.0, 3.0], requires_grad=True)
    cube = rg.compile(lambda x: (x**3).sum())
    for _ in range(2):
        (first,) = rg.autograd.grad(cube(x), x, create_graph=True)
        (second,) = rg.autograd.grad(first.sum(), x)
        assert second.tolist() == [6, 12, 18]


def test_views_of_arguments_are_views_of_them():
    view = rg.compile(lambda x: x.reshape(3, 1))
    for _ in range(3):
        x = rg.ones(3)
        view(x).zero_()
        assert x.tolist() == [0, 0, 0]


def test_an_argument_that_is_written_is_written():
    @rg.compile
    def add(x, y):
        return x.add_(y)

    for _ in range(3):
        x = rg.ones(2)
        assert add(x, rg.ones(2)) is x and x.tolist() == [2, 2] and x._version == 1


@pytest.mark.parametrize("seed", [14473, 14553])
def test_programs_that_were_wrong_once(seed):
    check_fuzzed(seed)


def test_a_number_that_an_operator_gives_has_memory_to_be_written_through_views():
    @rg.compile
    def f(x):
        total = x.sum()
        total.reshape(1)[0] = 5.0
        return total + x.prod(), total

    for _ in range(3):
        assert [y.item() for y in f(rg.ones(3))] == [6.0, 5.0]


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.parametrize("varied", [False, True], ids=["one size", "several sizes"])
@pytest.mark.parametrize("seed", range(2))
def test_rich_random_programs(seed, varied):
    check_fuzzed(seed, varied, rich=True)


@pytest.mark.skipif(not machine_code.available(), reason="there is no LLVM to compile regions with")
@pytest.mark.parametrize("dtype", [np.float64, np.float32])
@pytest.mark.parametrize("way", ["regions", "loops", "mixed"])
def test_random_programs_compiled_as_large_ones_are(way, dtype):
    check_fuzzed(1000, varied=True, rich=True, dtype=dtype, way=way)


@pytest.mark.parametrize("seed", range(5))
def test_calls_of_the_operator_table_one_behind_the_other(seed):
    check_composed(seed)


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.parametrize("way", ["usual", "mixed"])
@pytest.mark.parametrize("first", range(5, 105, 25))
def test_hundreds_of_calls_of_the_operator_table_one_behind_the_other(first, way, pytestconfig):
    if way == "mixed" and not machine_code.available():
        pytest.skip("there is no LLVM to compile regions with")
    for seed in range(first, first + (25 if pytestconfig.getoption("--long") else 4)):
        check_composed(seed, way)


@pytest.mark.every(3)
@pytest.mark.slow
@pytest.mark.skipif(not machine_code.available(), reason="there is no LLVM to compile regions with")
@pytest.mark.parametrize("way", ["regions", "loops", "mixed"])
@pytest.mark.parametrize("first", range(1001, 1101, 50))
def test_more_random_programs_compiled_as_large_ones_are(first, way, pytestconfig):
    for seed in range(first, first + (50 if pytestconfig.getoption("--long") else 6)):
        check_fuzzed(seed, seed % 2 == 0, rich=seed % 3 == 0, way=way)


def test_numbers_that_stand_for_nan_replace_it_in_a_result_without_dimensions():
    f = rg.compile(lambda x: x.mean().nan_to_num(0.5))
    assert [f(rg.tensor([k, 1.0])).item() for k in (np.nan, 3.0, np.nan)] == [0.5, 2.0, 0.5]


def test_and_among_other_instructions_on_small_arrays():
    f = rg.compile(lambda x: (x * 1.0 * 2.0).nan_to_num(1.0, 2.0, 3.0) + 0.0)
    for _ in range(3):
        assert f(rg.tensor([np.nan, np.inf, -np.inf, 4.0])).tolist() == [1.0, 2.0, 3.0, 8.0]


def test_numpy_functions_that_may_write_into_their_argument_write_in_replays_too():
    def f(x):
        z = x.array + 1.0
        pair = np.nan_to_num(z, copy=False, nan=5.0) * 0.5 + z * 1.5
        return rg.as_tensor(pair), rg.as_tensor(np.median(z, overwrite_input=True))

    program = rg.compile(f)
    for _ in range(3):
        pair, median = program(rg.tensor([np.nan, 1.0, 2.0]))
        assert pair.tolist() == [10.0, 4.0, 6.0] and median.item() == 3.0


def test_sorts_are_stable_in_programs_too():
    x = rg.tensor(np.random.default_rng(0).integers(0, 4, (50, 20)) * 1.0)
    for function in (lambda x: x.argsort(-1), lambda x: x.sort(0, descending=True)[1], lambda x: x.median(1)[1]):
        program = rg.compile(function)
        for _ in range(2):
            assert rg.equal(program(x), function(x))
