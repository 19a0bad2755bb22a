"""Formulas of docstrings, ``g / sqrt(1 - input^2)``, in TeX; what is code rather than a formula stays as it is."""

from __future__ import annotations

import ast
import re

LITERAL = re.compile(r"(?<!\w)``([^`]+)``(?!\w)")
WORDS = re.compile(r"\b(for|if|all|any|of|else|with|over|where|and|or|not|in|is|the|lambda|dim|axis)\b")
GREEK = ("alpha", "beta", "gamma", "delta", "theta", "lambda", "mu", "nu", "rho", "sigma", "pi", "phi", "psi")
KNOWN = re.compile("log|sin|cos|tan|sinh|cosh|tanh|arcsin|arccos|arctan|exp|max|min|det|arg")
NAMED = re.compile("sigmoid|softmax|softplus|erf|erfc|sgn|sign|gamma|digamma|polygamma|sinc|diag|tr|log1p|expm1|Re|Im")
AROUND = {
    "sqrt": r"\sqrt{%s}",
    "abs": r"\left|%s\right|",
    "norm": r"\left\lVert %s\right\rVert",
    "conj": r"\overline{%s}",
    "floor": r"\left\lfloor %s\right\rfloor",
    "ceil": r"\left\lceil %s\right\rceil",
}
TURNED = {"T": r"\top", "H": r"\mathsf{H}"}
SIGNS = {ast.Lt: "<", ast.LtE: r"\le", ast.Gt: ">", ast.GtE: r"\ge", ast.Eq: "=", ast.NotEq: r"\ne"}
SUM, PRODUCT, POWER, ATOM = range(4)  # how strongly a formula holds together


class Code(Exception):
    """What stands there is no formula."""


def typeset(text: str) -> str:
    """A docstring's text with its formulas in Sphinx's role for mathematics."""
    return LITERAL.sub(lambda literal: role(literal[1]) or literal[0], text)


def role(formula: str) -> str | None:
    try:
        return f":math:`{tex(formula)}`"
    except (Code, SyntaxError):
        return None


def tex(formula: str) -> str:
    """A formula in TeX.

    Raises:
        Code, SyntaxError: it is none.
    """
    if WORDS.search(formula) or re.fullmatch(r"\w{2,}|[a-z]_?|.*[\"'\[{].*", formula) and formula != "g":
        raise Code
    python = re.sub(r"\|\|([^|]+)\|\|", r"norm(\1)", formula)
    python = re.sub(r"\|([^|]+)\|", r"abs(\1)", python).replace("^", "**")
    python = re.sub(r"(?<=[\w)]) (?=[\w(])", " * ", python)  # what stands side by side is multiplied
    return " = ".join(written(ast.parse(side.strip(), mode="eval").body)[0] for side in python.split(" = "))


def written(node: ast.expr) -> tuple[str, int]:
    """TeX, and how strongly it holds together."""
    match node:
        case ast.Constant(value=int() | float() as value) if not isinstance(value, bool):
            return f"{value}", ATOM
        case ast.Name(id=name):
            return named(name), ATOM
        case ast.Tuple(elts=parts):
            return rf"\left({', '.join(written(part)[0] for part in parts)}\right)", ATOM
        case ast.UnaryOp(op=ast.USub(), operand=operand):
            return f"-{held(operand, PRODUCT)}", PRODUCT
        case ast.BinOp(left=left, op=ast.Add() | ast.Sub() as sign, right=right):
            sign = "+" if isinstance(sign, ast.Add) else "-"
            return f"{held(left, SUM)} {sign} {held(right, PRODUCT)}", SUM
        case ast.BinOp(left=left, op=ast.Mult() | ast.MatMult(), right=right):
            dot = r"\cdot" if isinstance(right, ast.Constant) else r"\,"
            least = ATOM if isinstance(right, ast.UnaryOp) else PRODUCT
            return f"{held(left, PRODUCT)} {dot} {held(right, least)}", PRODUCT
        case ast.BinOp(left=left, op=ast.Div(), right=right):
            return rf"\frac{{{written(left)[0]}}}{{{written(right)[0]}}}", PRODUCT
        case ast.BinOp(left=left, op=ast.Pow(), right=right):
            above = re.sub(r"^(-?)([TH])$", lambda t: t[1] + TURNED[t[2]], written(right)[0])
            return f"{held(left, ATOM)}^{{{above}}}", POWER
        case ast.Compare(left=left, ops=signs, comparators=others):
            text = written(left)[0]
            for sign, other in zip(signs, others, strict=True):
                if type(sign) not in SIGNS:
                    raise Code
                text += f" {SIGNS[type(sign)]} {written(other)[0]}"
            return text, SUM - 1
        case ast.Call(func=ast.Name(id=name), args=[_, *_] as arguments, keywords=[]):
            return called(name, ", ".join(written(argument)[0] for argument in arguments))
    raise Code


def held(node: ast.expr, least: int) -> str:
    """TeX, in brackets if it would fall apart."""
    text, holds = written(node)
    return text if holds >= least else rf"\left({text}\right)"


def called(name: str, arguments: str) -> tuple[str, int]:
    if name in AROUND:
        return AROUND[name] % arguments, ATOM
    if KNOWN.fullmatch(name) or NAMED.fullmatch(name):
        return rf"{function(name)}\left({arguments}\right)", ATOM
    if len(name) > 1:
        raise Code
    return rf"{name} \left({arguments}\right)", PRODUCT


def function(name: str) -> str:
    return rf"\{name}" if KNOWN.fullmatch(name) else rf"\operatorname{{{name}}}"


def named(name: str) -> str:
    """A variable: a letter, with an index perhaps, or a word."""
    if name in GREEK:
        return rf"\{name}"
    if KNOWN.fullmatch(name) or NAMED.fullmatch(name):
        return function(name)
    if found := re.fullmatch(r"(sum|prod)_([a-z]+)", name):
        return rf"\{found[1]}_{{{found[2]}}}"
    if name in ("inf", "eps"):
        return {"inf": r"\infty", "eps": r"\varepsilon"}[name]
    if found := re.fullmatch(r"([A-Za-z])_?(\d+|[a-z]{0,3})", name):
        letter, below = found.groups()
        if below.isdigit() or "_" in name or not below:
            return f"{letter}_{{{below}}}" if below else letter
    if not re.fullmatch(r"[A-Za-z]+\d?", name):
        raise Code
    return rf"\mathrm{{{name}}}"
