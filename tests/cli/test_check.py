"""`retrograd check` passes right gradients, and finds a wrong rule in either order, an error and a NaN."""

import dataclasses

import pytest

import retrograd as rg
from retrograd.cli import main
from retrograd.ops.registry import OPERATORS


def wrong_exp(backward):
    """An exponential whose derivative rule is `backward(g, ans)`."""

    class Exp(rg.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ans = rg.exp(x)
            ctx.save_for_backward(ans)
            return ans

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    return Exp.apply


def check_exp_as(function, monkeypatch, capsys):
    monkeypatch.setitem(OPERATORS, "exp", dataclasses.replace(OPERATORS["exp"], function=function))
    code = main(["check", "exp"])
    return code, capsys.readouterr().out.splitlines()


def table_row(lines, operator):
    (row,) = [line.split() for line in lines if line.split()[:1] == [operator]]
    return float(row[1]), float(row[2]), row[3]


def test_right_rules_pass(capsys):
    assert main(["check", "exp", "mul"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for operator in ("exp", "mul"):
        first, second, passed = table_row(lines, operator)
        assert 0 < first < 1e-7 and 0 < second < 1e-7 and passed == "yes"
    assert "2 of 2 operators passed" in lines


def test_a_rule_scaled_by_1001_thousandths_fails(monkeypatch, capsys):
    code, lines = check_exp_as(wrong_exp(lambda g, ans: g * ans * 1.001), monkeypatch, capsys)
    first, second, passed = table_row(lines, "exp")
    assert code == 1 and passed == "NO"
    assert first == pytest.approx(1e-3, rel=0.1)


def test_a_rule_right_in_first_order_only_fails(monkeypatch, capsys):
    code, lines = check_exp_as(wrong_exp(lambda g, ans: g * ans.detach()), monkeypatch, capsys)
    first, second, passed = table_row(lines, "exp")
    assert code == 1 and passed == "NO"
    assert first < 1e-7 and second > 0.1


def test_a_nan_fails(monkeypatch, capsys):
    code, lines = check_exp_as(wrong_exp(lambda g, ans: g * ans * float("nan")), monkeypatch, capsys)
    assert code == 1
    assert table_row(lines, "exp")[2] == "NO"


def test_an_operator_that_raises_is_a_finding(monkeypatch, capsys):
    def broken(x):
        raise RuntimeError("out of order")

    code, lines = check_exp_as(broken, monkeypatch, capsys)
    assert code == 1
    assert any(line.startswith("exp: ") and "RuntimeError: out of order" in line for line in lines)


def test_unknown_operator_is_one_line_with_a_suggestion(capsys):
    assert main(["check", "expp"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "'expp'" in captured.err and "'exp'" in captured.err
