"""Formulas of docstrings are set as mathematics, every one of them, and code is left as it is."""

import importlib
import inspect
import re
import sys
import types
from pathlib import Path

import pytest

from retrograd.ops.table.registry import OPERATORS
from tools.pages import formulas, reference
from tools.pages.formulas.notation import Unreadable, tex

TABLE = Path(__file__).parents[2] / "docs" / "operators.md"


@pytest.mark.parametrize(
    ("formula", "expected"),
    [
        ("g / sqrt(1 - input^2)", r"\dfrac{g}{\sqrt{1 - \mathrm{input}^{2}}}"),
        ("-g x / C", r"-\dfrac{g x}{C}"),
        ("a (b - -c)", "a (b - -c)"),
        ("(a + b) * -c", "(a + b) -c"),
        ("L^-H P", r"L^{-\mathsf{H}} P"),
        ("(sum_i |x_i|^p)^(1/p)", r"\left(\sum_{i} \lvert x_{i}\rvert ^{p}\right)^{1 / p}"),
        ("s = sigmoid(beta x)", r"s = \operatorname{sigmoid}(\beta x)"),
        ("||x1|| <= 2", r"\lVert x_{1}\rVert \le 2"),
        ("sum_(j=0)^(n-1) x_j / j!", r"\sum_{j = 0}^{n - 1} \dfrac{x_{j}}{j!}"),
        ("exp(x_i) / (sum_j exp(x_j) y_j)", r"\dfrac{\exp(x_{i})}{\sum_{j} \exp(x_{j}) y_{j}}"),
        ("integral_0^x e^(-t^2) dt", r"\int_{0}^{x} e^{-t^{2}}\, \mathrm{d}t"),
        ("0 if x < 0 else 1", r"\begin{cases}0 & \text{if } x < 0 \\ 1 & \text{else}\end{cases}"),
        ("y = 1 if x > 0 else 0", r"y = \begin{cases}1 & \text{if } x > 0 \\ 0 & \text{else}\end{cases}"),
        ("x[i, .., a:b]", r"x[i, \ldots , a{:}b]"),
        ("(N, C, *)", "(N, C, *)"),
        ("(n,)", "(n{,})"),
        ("[0, 1)", "[0, 1)"),
        ("(-pi, pi]", r"(-\pi, \pi]"),
        ("[[a, b], [0, c]]", r"\begin{bmatrix}a & b \\ 0 & c\end{bmatrix}"),
        ("y_k = x_(k + n // 2)", r"y_{k} = x_{k + \left\lfloor n / 2\right\rfloor}"),
        ("T^*_n'(x)", "{T^{*}_{n}}'(x)"),
        ("f^(n)(x)", "f^{(n)}(x)"),
        ("v -> v @ J(x)", r"v \mapsto v J(x)"),
        ("<s, y> > 1e-10", r"\langle s, y\rangle > 10^{-10}"),
        ("m += (1 - beta1) * (g - m)", r"m \leftarrow m + (1 - \beta_{1}) (g - m)"),
        ("p -= a + b", r"p \leftarrow p - (a + b)"),
        ("min(max(x, min), max)", r"\min(\max(x, \mathrm{min}), \mathrm{max})"),
        ("dtype in (float16, float32)", r"\mathrm{dtype} \in (\mathrm{float16}, \mathrm{float32})"),
        ("a != 0 and ... and not b", r"a \ne 0 \land \ldots \land \lnot b"),
        ("2 * 3 x", r"2 \cdot 3 x"),
        ("W_ih x + b_in", r"W_{ih} x + b_{\mathrm{in}}"),
    ],
)
def test_a_formula_is_set(formula, expected):
    assert tex(formula).replace(r"\allowbreak ", "") == expected


@pytest.mark.parametrize(
    "formula",
    [
        "a +",
        "(a",
        "a)",
        "f(x]",
        "sum of x",
        "x for all i",
        "a & b",
        "x, if y",
        "|x",
        "a ? b",
        "",
        "[[a, b], c]",
        "x_",
        "1 2.",
        "x / 2h",
        "exp(x_i) / sum_j exp(x_j)",
        "+",
    ],
)
def test_what_is_no_formula_is_refused(formula):
    with pytest.raises(Unreadable):
        tex(formula)


@pytest.mark.parametrize(
    "code", ['"none"', "input", "cat(tensors, 0)", "dim=None", "None", "loss.backward()", "a.bc", "+=", "**kwargs"]
)
def test_code_is_left_as_it_is(code):
    assert formulas.typeset(f"``{code}`` of") == f"``{code}`` of"


def test_a_call_is_a_formula_where_a_docstring_says_what_is_computed():
    text = "``cat(x)`` is made.\n\nDerivative: ``cat(g)``.\nShape: (n,) to (n, n).\n\n``cat(x)``\n\n>>> ``x + y``"
    set_ = formulas.typeset(text, says=True)
    assert re.findall(":math:`(.*?)`", set_) == [
        *(r"\operatorname{cat}(x)", r"\operatorname{cat}(g)", "(n{,})", "(n, n)"),
    ]
    assert set_.endswith("``cat(x)``\n\n>>> ``x + y``")


def shown():
    """Every docstring of the reference, and whether it says first what is computed."""
    operators = {entry.function for entry in OPERATORS.values()}
    for name, entry in OPERATORS.items():
        yield name, inspect.getdoc(entry.function), True
    for room in reference.ROOMS:
        for name, value in reference.public(importlib.import_module(room)):
            if value not in operators:
                for one, own in reference.documented(f"{room}.{name}", value):
                    yield one, inspect.getdoc(own) or "", reference.says(one)


@pytest.mark.slow
def test_every_formula_of_the_reference_is_set():
    count = 0
    for name, docstring, says in shown():
        for formula in re.findall(":math:`(.*?)`", formulas.typeset(docstring, says)):
            count += 1
            for piece in formula.split(r"\allowbreak "):
                assert piece.count("{") == piece.count("}"), (name, formula)
                assert piece.count(r"\left") - piece.count(r"\leftarrow") == piece.count(r"\right"), (name, formula)
    assert count > 2900


def test_every_formula_of_the_operator_table_is_set():
    table = formulas.table(TABLE.read_text(encoding="utf-8"))
    rows = [line for line in table.splitlines() if line.startswith("| [`")]
    assert len(rows) == len(OPERATORS)
    assert sum(row.count("{math}`") for row in rows) > 1000
    for row in rows:
        cells = formulas.CELL.split(row)
        left = re.findall("(?<!})`([^`]+)`", re.sub("{math}`[^`]*`", "", cells[2] + cells[3]))
        assert all(re.fullmatch(r'"[\w-]+"|[+%]=?|[\w.]+(\(\))?', code) for code in left), left


@pytest.mark.parametrize(
    ("docstring", "complaint"),
    [
        ("``a + (b``: a formula.", "retrograd.invented.planted: 'a + (b' at '': wants )"),
        (
            "A thing.\n\nIt is ``sum of x_i``.",
            "retrograd.invented.planted: 'sum of x_i' at 'of': is a word of a sentence",
        ),
    ],
)
def test_a_formula_that_cannot_be_read_fails_the_build(docstring, complaint, tmp_path, monkeypatch):
    def planted(): ...

    module = types.ModuleType("retrograd.invented", "A room.")
    module.__file__, module.planted = __file__, planted
    planted.__module__, planted.__doc__ = "retrograd.invented", docstring
    monkeypatch.setitem(sys.modules, "retrograd.invented", module)
    monkeypatch.setattr(reference, "FAMILIES", {})
    monkeypatch.setattr(reference, "ROOMS", {"retrograd.invented": "Invented"})
    with pytest.raises(reference.Undocumented) as error:
        reference.write(tmp_path)
    assert complaint in str(error.value)
