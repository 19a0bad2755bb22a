"""Formulas of docstrings are set as mathematics, and code is left as it is."""

import pytest

from tools.pages.formulas import typeset


@pytest.mark.parametrize(
    ("formula", "tex"),
    [
        ("g / sqrt(1 - input^2)", r"\frac{g}{\sqrt{1 - \mathrm{input}^{2}}}"),
        ("-g x / C", r"\frac{-g \, x}{C}"),
        ("a (b - -c)", r"a \, \left(b - -c\right)"),
        ("(a + b) * -c", r"\left(a + b\right) \, \left(-c\right)"),
        ("L^-H P", r"L^{-\mathsf{H}} \, P"),
        ("(sum_i |x_i|^p)^(1/p)", r"\left(\sum_{i} \, \left|x_{i}\right|^{p}\right)^{\frac{1}{p}}"),
        ("s = sigmoid(beta x)", r"s = \operatorname{sigmoid}\left(\beta \, x\right)"),
        ("||x1|| <= 2", r"\left\lVert x_{1}\right\rVert \le 2"),
    ],
)
def test_a_formula_is_set(formula, tex):
    assert typeset(f"It is ``{formula}``.") == f"It is :math:`{tex}`."


@pytest.mark.parametrize(
    "code", ["input", "cat(tensors, 0)", "x[1:3]", "dim=None", "None", "x if y else z", "a.b", "x_i, ..."]
)
def test_code_is_left_as_it_is(code):
    assert typeset(f"``{code}`` of") == f"``{code}`` of"
