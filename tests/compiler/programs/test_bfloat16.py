"""Compiled programs on bfloat16 give results of the dtypes that the eager program gives."""

from __future__ import annotations

import pytest

import retrograd as rg


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("convert", [lambda x: x.float(), lambda x: (x * 2, (x * 2).float()), lambda x: x.double() + 1])
def test_a_replay_keeps_the_dtype_of_results_converted_from_bfloat16(convert, requires_grad):
    compiled = rg.compile(convert)
    for scale in (1.0, 3.0, 5.0):
        x = (rg.ones(3) * scale).to(rg.bfloat16)
        outs = []
        for function in (compiled, convert):
            leaf = x.clone().requires_grad_(requires_grad)
            found = function(leaf)
            found = found if isinstance(found, tuple) else (found,)
            if requires_grad:
                sum(y.double().sum() for y in found).backward()
                assert leaf.grad.dtype is rg.bfloat16
            outs.append([(y.dtype, y.tolist(), None if leaf.grad is None else leaf.grad.tolist()) for y in found])
        assert outs[0] == outs[1]


@pytest.mark.parametrize("results", [1, 2])
def test_a_replayed_backward_pass_gets_a_cotangent_of_bfloat16_as_the_traced_one_did(results):
    """Of a float32 cotangent the product would be the memory of its sums, in which the next instruction works."""
    rows = rg.linspace(-1, 1, 63).to(rg.bfloat16)
    cotangent = rg.linspace(-1, 2, 510 * 47).reshape(510, 47).to(rg.bfloat16)

    def function(x, w):
        return [rg.nn.functional.linear(x * (k + 1), w) for k in range(results)]

    compiled = rg.compile(function)
    for scale in (1.0, 3.0, 5.0):
        found = []
        for call in (function, compiled):
            x = (rg.linspace(-1, 1, 510 * 63).reshape(510, 63) * scale).to(rg.bfloat16).requires_grad_()
            w = rows.expand(47, 63).detach().requires_grad_()
            found.append([g.tolist() for g in rg.autograd.grad(call(x, w), [x, w], [cotangent] * results)])
        assert found[0] == found[1]


@pytest.mark.parametrize("gradient", [False, True])
def test_a_compiled_scan_rounds_each_carry_as_the_eager_one_does(gradient):
    def function(c, xs, w):
        last, ys = rg.func.scan(lambda c, x: ((w @ c + x).sin(), c.exp()), c, xs)
        return last.sum() + (ys * ys).sum() if gradient else (last, ys)

    function = rg.func.grad(function, (0, 1, 2)) if gradient else function
    compiled = rg.compile(function)
    for seed in range(3):
        rg.manual_seed(seed)
        inputs = [rg.randn(*shape).to(rg.bfloat16) for shape in ((4,), (20, 4), (4, 4))]
        assert [y.tolist() for y in compiled(*inputs)] == [y.tolist() for y in function(*inputs)]
    assert "a loop of 20 steps" in compiled.explain()
