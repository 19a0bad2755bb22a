"""Elementwise code for an accumulator in vector registers, in regions and in loops over large arrays."""

import numpy as np
import pytest

import retrograd as rg
from retrograd import kernels
from retrograd.compiler.cpu import machine_code
from retrograd.compiler.cpu.interpreter import region_program, step_code
from retrograd.compiler.passes.accumulators import accumulated, with_extremes
from retrograd.compiler.passes.fused_loops import is_there
from retrograd.kernels.loops.elements import fused_steps as steps
from retrograd.kernels.loops.regions import accumulator_code as at
from retrograd.kernels.tiles.vector_width import width


def bits(x):
    """The elements of an array as integers, with one number for all NaN."""
    x = np.asarray(x)
    return x if x.dtype == bool else np.where(np.isnan(x), -1, x.view(f"i{x.itemsize}"))


def test_a_value_that_only_the_next_row_reads_is_not_stored():
    x, y, z, out, one, two = range(6)
    modes = {one: at.STILL, two: at.STILL}
    chain = [[steps.MULTIPLY, one, x, y, x], [steps.SUBTRACT, out, z, one, z]]
    code = accumulated(chain, lambda slot: modes.get(slot, at.MOVING), {out})
    assert [row[0] for row in code] == [
        at.with_operand(at.LOAD, at.MOVING), at.with_operand(steps.MULTIPLY, at.MOVING),
        at.with_operand(at.SUBTRACT_FROM, at.MOVING), at.STORE, at.END,
    ]  # fmt: skip
    shared = [*chain[:1], [steps.ADD, two, one, one, one], [steps.DIVIDE, out, one, two, one]]
    code = accumulated(shared, lambda slot: modes.get(slot, at.MOVING), {out})
    assert [row[:2] for row in code if row[0] == at.STORE_STILL] == [[at.STORE_STILL, one]]
    selection = [
        [steps.GREATER_EQUAL, 6, x, y, x], [steps.NOT_EQUAL, 7, x, x, x], [steps.OR, 8, 6, 7, 6],
        [steps.CHOOSE, out, 8, x, y],
    ]  # fmt: skip
    assert with_extremes(selection) == [[steps.MAXIMUM, out, x, y, x]]
    assert with_extremes([*selection, [steps.COPY, z, 8, 8, 8]])[: len(selection)] == selection


def arithmetic(x, y, s):
    """Every operation of an accumulator, with operands in both orders, and values that several operations read."""
    mask = (x > y) | (y <= s)
    a = rg.where(mask, x * y + s, y - x / s)
    b = rg.minimum(rg.maximum(a, y), rg.maximum(x * 2, s))
    c = (a.abs().sqrt() - b * b) / (y + 3) - 1 / (1 + x * x)
    same = (c == c) & ~(x < 0) & (y != s) | (x >= 1.5)
    x -= c * 0.25
    return c, -b, same, rg.where(same, c, 0.0), x


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_regions_have_the_bits_of_eager_calls_for_all_lengths(dtype, monkeypatch):
    if region_program.execute() is None:
        pytest.skip("needs the library of loops")
    monkeypatch.setattr(machine_code, "available", lambda: False)
    lanes = width() // np.dtype(dtype).itemsize
    rng = np.random.default_rng(0)
    shapes = [
        ((), ()), ((1,), (1,)), ((lanes - 1,), (1,)), ((lanes * at.VECTORS + 1,), (lanes * at.VECTORS + 1,)),
        ((3, 5), (5,)), ((4, 300), (4, 1)), ((2, 3, lanes * at.VECTORS), (3, 1)),
    ]  # fmt: skip
    for shape, other in shapes:
        x, y = rng.standard_normal(shape).astype(dtype), rng.standard_normal(other).astype(dtype)
        x = np.where(rng.random(shape) < 0.1, np.nan, np.where(rng.random(shape) < 0.1, -0.0, x)).astype(dtype)
        given = [[rg.tensor(a) for a in (x, y, np.asarray(0.5, dtype))] for _ in range(3)]
        compiled = rg.compile(arithmetic)
        compiled(*given[0])
        wanted, found = arithmetic(*given[1]), compiled(*given[2])
        assert any(step.kind == "native" for step in compiled.entries[0].replay.instructions)
        for one, two in zip(wanted, found, strict=True):
            np.testing.assert_array_equal(bits(two.numpy()), bits(one.numpy()), f"{shape}, {other}")


def test_loops_over_large_arrays_have_the_bits_of_eager_calls():
    if not (kernels.available() and is_there(np.dtype("float32"))):
        pytest.skip("needs the library of loops")

    def steps_with_functions(x, y):
        a = rg.tanh(x * 1.5 + 0.5) * x
        mask = a > y
        return rg.where(mask, a, x - a / y), mask, rg.sigmoid(a - y) * a, (a * y).sum(0)

    x, y = [rg.tensor(np.random.default_rng(k).standard_normal((3, 20_011)).astype("float32")) for k in range(2)]
    compiled = rg.compile(steps_with_functions)
    compiled(x, y)
    *wanted, _ = steps_with_functions(x, y)
    *found, total = compiled(x, y)
    for one, two in zip(wanted, found, strict=True):
        np.testing.assert_array_equal(bits(two.numpy()), bits(one.numpy()))
    np.testing.assert_allclose(total.numpy(), (rg.tanh(x * 1.5 + 0.5) * x * y).sum(0).numpy(), rtol=1e-5, atol=1e-6)
    assert any(step.kind == "loop" for step in compiled.entries[0].replay.instructions)


def test_an_interpreted_loop_has_the_bits_of_the_eager_one(monkeypatch):
    if region_program.execute() is None:
        pytest.skip("needs the library of loops")
    monkeypatch.setattr(machine_code, "available", lambda: False)

    begun = []
    begin = step_code.StepCode.begin
    monkeypatch.setattr(step_code.StepCode, "begin", lambda *given: begun.append(given) or begin(*given))

    def oscillation(x, k):
        for _ in range(100):
            x = x + 0.1 * (x.flip(0) * k - 0.5 * x)
        return x

    x, k = rg.tensor([1.0, -2.0, 0.5]), rg.tensor(0.7)
    compiled = rg.compile(oscillation)
    compiled(x, k)
    np.testing.assert_array_equal(bits(compiled(x, k).numpy()), bits(oscillation(x, k).numpy()))
    assert begun
