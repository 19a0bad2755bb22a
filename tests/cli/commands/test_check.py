"""`retrograd check` passes right gradients, and finds a wrong rule in either order, an error and a NaN."""

import pytest

import retrograd as rg
from retrograd.cli import main
from retrograd.cli.commands import check
from retrograd.ops.table.registry import OPERATORS

EXP = OPERATORS["exp"].function


def wrong_exp(backward):
    """An exponential whose derivative rule is `backward(g, ans)`."""

    class Exp(rg.autograd.Function):
        generate_vmap_rule = True

        @staticmethod
        def forward(ctx, x):
            ans = EXP(x)
            ctx.save_for_backward(ans)
            return ans

        @staticmethod
        def backward(ctx, g):
            return backward(g, *ctx.saved_tensors)

    return Exp.apply


def detached(g, ans):
    """Right in first order only."""
    return g * ans.detach().conj()


def check_exp_as(function, monkeypatch, capsys):
    monkeypatch.setitem(OPERATORS, "exp", OPERATORS["exp"]._replace(function=function))
    code = main(["check", "exp"])
    return code, capsys.readouterr().out.splitlines()


def table_row(lines, operator):
    """The operator's cells after its name and the number of its calls."""
    (row,) = [line.split() for line in lines if line.split()[:1] == [operator]]
    assert int(row[1]) >= 1
    return row[2:]


def test_right_rules_pass(capsys):
    assert main(["check", "exp", "mul"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for operator in ("exp", "mul"):
        first, second, forward, mapped, passed = table_row(lines, operator)
        assert 0 < float(first) < 1e-6 and 0 < float(second) < 5e-6 and float(forward) < 1e-9 and float(mapped) < 1e-9
        assert passed == "yes"
    assert lines[-1] == "2 of 2 operators passed"


def test_a_rule_scaled_by_1001_thousandths_fails(monkeypatch, capsys):
    code, lines = check_exp_as(wrong_exp(lambda g, ans: g * ans * 1.001), monkeypatch, capsys)
    assert code == 1
    assert table_row(lines, "exp")[0] == "FAILED" and table_row(lines, "exp")[-1] == "no"
    assert any("analytic" in line and "numerical" in line for line in lines)
    assert lines[-1] == "0 of 1 operator passed"


def test_a_rule_right_in_first_order_only_fails(monkeypatch, capsys):
    code, lines = check_exp_as(wrong_exp(detached), monkeypatch, capsys)
    assert code == 1
    assert float(table_row(lines, "exp")[0]) < 1e-6
    assert table_row(lines, "exp")[1] == "FAILED"


def test_a_lower_order_leaves_the_second_out(monkeypatch, capsys):
    monkeypatch.setitem(OPERATORS, "exp", OPERATORS["exp"]._replace(function=wrong_exp(detached)))
    assert main(["check", "exp", "--order", "1"]) == 0
    assert table_row(capsys.readouterr().out.splitlines(), "exp")[1] == "-"


def test_failed_only_shows_what_failed(monkeypatch, capsys):
    monkeypatch.setitem(OPERATORS, "exp", OPERATORS["exp"]._replace(function=wrong_exp(detached)))
    assert main(["check", "exp", "mul", "--failed-only"]) == 1
    lines = capsys.readouterr().out.splitlines()
    assert table_row(lines, "exp")[-1] == "no"
    assert not any(line.split()[:1] == ["mul"] for line in lines)
    assert lines[-1] == "1 of 2 operators passed"


def test_a_nan_fails(monkeypatch, capsys):
    code, lines = check_exp_as(wrong_exp(lambda g, ans: g * ans * float("nan")), monkeypatch, capsys)
    assert code == 1
    assert table_row(lines, "exp")[0] == "FAILED"


def test_an_operator_that_raises_is_a_finding(monkeypatch, capsys):
    def broken(x):
        raise RuntimeError("out of order")

    code, lines = check_exp_as(broken, monkeypatch, capsys)
    assert code == 1
    assert any(line.startswith("exp, ") and "RuntimeError: out of order" in line for line in lines)


def test_unknown_operator_is_one_line_with_a_suggestion(capsys):
    assert main(["check", "expp"]) == 2
    captured = capsys.readouterr()
    assert captured.err.count("\n") == 1
    assert "'expp'" in captured.err and "'exp'" in captured.err


def operators_of(lines):
    start = next(index for index, line in enumerate(lines) if line.startswith("operator  "))
    return [line.split()[0] for line in lines[start + 1 :] if line.endswith("  yes")]


def chosen(capsys, *names):
    assert main(["check", *names, "--order", "1"]) == 0
    return operators_of(capsys.readouterr().out.splitlines())


def test_an_operator_is_found_by_the_last_part_of_its_name(capsys):
    assert chosen(capsys, "gelu") == ["nn.functional.gelu"]
    assert chosen(capsys, "exp") == ["exp"]


@pytest.mark.slow
def test_a_namespace_and_a_family_stand_for_their_operators(capsys):
    fft = chosen(capsys, "fft")
    assert "fft.fft" in fft and "fft.irfft2" in fft and all(name.startswith("fft.") for name in fft)
    assert {"nn.functional.dropout", "nn.functional.alpha_dropout"} <= set(chosen(capsys, "dropout", "alpha_dropout"))
    scans = chosen(capsys, "scans")
    assert "cumsum" in scans and "exp" not in scans


def test_a_misspelt_name_is_hinted_at_by_the_nearest_spelling(capsys):
    for name, near in (("geluu", "gelu"), ("linlag", "linalg"), ("nn.functional.geluu", "nn.functional.gelu")):
        assert main(["check", name]) == 2
        captured = capsys.readouterr()
        assert captured.err.count("\n") == 1
        assert f"did you mean {near!r}?" in captured.err


def test_the_summary_has_a_row_for_each_family_and_verbose_one_for_each_operator(monkeypatch, capsys):
    few = [case for case in check.all_cases() if case.name in ("exp", "log", "add", "cumsum")]
    monkeypatch.setattr(check, "all_cases", lambda: few)
    assert main(["check"]) == 0
    lines = capsys.readouterr().out.splitlines()
    start = next(index for index, line in enumerate(lines) if line.startswith("family  "))
    families = {line.split()[0]: line.split()[1] for line in lines[start + 1 : start + 4]}
    assert families["exponential"] == "2" and families["scans"] == "1" and len(families) == 3
    assert main(["check", "-v"]) == 0
    assert operators_of(capsys.readouterr().out.splitlines()) == ["add", "cumsum", "exp", "log"]


def test_the_summary_names_the_family_and_the_operator_that_failed(monkeypatch, capsys):
    few = [case for case in check.all_cases() if case.name in ("exp", "log")]
    monkeypatch.setattr(check, "all_cases", lambda: few)
    wrong = OPERATORS["exp"]._replace(function=wrong_exp(lambda g, ans: g * ans * 1.001))
    monkeypatch.setitem(OPERATORS, "exp", wrong)
    monkeypatch.setattr(check, "family", lambda case: "exponential")  # the wrong function stands in a test
    assert main(["check"]) == 1
    out = capsys.readouterr().out
    (row,) = [line for line in out.splitlines() if line.startswith("exponential")]
    assert "FAILED" in row and row.endswith("1 of 2")
    assert "exp, max difference: " in out
