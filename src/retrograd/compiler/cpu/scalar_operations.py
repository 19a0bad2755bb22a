"""NumPy's elementwise functions as LLVM instructions on single elements, with equal bits.

Functions without an instruction call NumPy's inner loops.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from ...core.arrays.dtypes import DType
from .emission import Body, constant, type_of

Scalar = Callable[[Body, Sequence[str]], str]

_FLOATS = {"add": "fadd", "subtract": "fsub", "multiply": "fmul", "divide": "fdiv"}
_INTEGERS = {"add": "add", "subtract": "sub", "multiply": "mul", "bitwise_and": "and", "bitwise_or": "or"}
_INTEGERS["bitwise_xor"] = "xor"
_BOOLS = {
    "logical_and": "and", "logical_or": "or", "logical_xor": "xor", "bitwise_and": "and", "bitwise_or": "or",
    "bitwise_xor": "xor", "add": "or", "multiply": "and", "maximum": "or", "minimum": "and", "not_equal": "xor",
}  # fmt: skip
_COMPARISONS = {
    "less": ("olt", "lt"), "less_equal": ("ole", "le"), "greater": ("ogt", "gt"), "greater_equal": ("oge", "ge"),
    "equal": ("oeq", "eq"), "not_equal": ("une", "ne"),
}  # fmt: skip
_ROUNDING = {"floor": "floor", "ceil": "ceil", "trunc": "trunc", "rint": "rint", "sqrt": "sqrt", "absolute": "fabs"}
_ROUNDING["fabs"] = "fabs"


def scalar(name: str, dtype: DType) -> Scalar | None:
    """Return a function that emits a ufunc for elements of a dtype, or None if LLVM has no instructions for it."""
    dtype = np.dtype(dtype)
    kind, typ = dtype.kind, type_of(dtype)
    if kind == "b":
        if name == "logical_not" or name == "invert":
            return lambda b, x: b.give(f"xor i1 {x[0]}, true")
        if name in _BOOLS:
            return lambda b, x: b.give(f"{_BOOLS[name]} i1 {x[0]}, {x[1]}")
        if name == "equal":
            return lambda b, x: b.give(f"icmp eq i1 {x[0]}, {x[1]}")
        return (lambda b, x: x[0]) if name in ("positive", "absolute") else None
    zero, one = constant(0, dtype), constant(1, dtype)
    compare = "fcmp une" if kind == "f" else "icmp ne"
    if name == "positive" or name == "conjugate":
        return lambda b, x: x[0]
    if name == "logical_not":
        equal = "fcmp oeq" if kind == "f" else "icmp eq"
        return lambda b, x: b.give(f"{equal} {typ} {x[0]}, {zero}")
    if name in ("logical_and", "logical_or"):

        def logical(b: Body, x: Sequence[str]) -> str:
            left, right = [b.give(f"{compare} {typ} {value}, {zero}") for value in x]
            return b.give(f"{'and' if name == 'logical_and' else 'or'} i1 {left}, {right}")

        return logical
    if name in _COMPARISONS:
        of_floats, of_integers = _COMPARISONS[name]
        if kind == "f":
            how = f"fcmp {of_floats}"
        else:
            how = f"icmp {of_integers if of_integers in ('eq', 'ne') else ('s' if kind == 'i' else 'u') + of_integers}"
        return lambda b, x: b.give(f"{how} {typ} {x[0]}, {x[1]}")
    if name == "square":
        return lambda b, x: b.give(f"{'fmul' if kind == 'f' else 'mul'} {typ} {x[0]}, {x[0]}")
    if kind != "f":
        if name in _INTEGERS:
            return lambda b, x: b.give(f"{_INTEGERS[name]} {typ} {x[0]}, {x[1]}")
        if name == "negative":
            return lambda b, x: b.give(f"sub {typ} 0, {x[0]}")
        if name == "invert":
            return lambda b, x: b.give(f"xor {typ} {x[0]}, -1")
        if name in ("maximum", "minimum"):
            sign = "s" if kind == "i" else "u"
            return _chosen(f"icmp {sign}{'ge' if name == 'maximum' else 'le'}", typ)
        return None
    if name in _FLOATS:
        return lambda b, x: b.give(f"{_FLOATS[name]} {typ} {x[0]}, {x[1]}")
    if name == "negative":
        return lambda b, x: b.give(f"fneg {typ} {x[0]}")
    if name == "reciprocal":
        return lambda b, x: b.give(f"fdiv {typ} {one}, {x[0]}")
    if name == "isnan":
        return lambda b, x: b.give(f"fcmp uno {typ} {x[0]}, {x[0]}")
    if name in _ROUNDING:
        return _intrinsic(_ROUNDING[name], typ)
    if name in ("maximum", "minimum"):  # NaN propagates
        how = "oge" if name == "maximum" else "ole"

        def extreme(b: Body, x: Sequence[str]) -> str:
            first, missing = b.give(f"fcmp {how} {typ} {x[0]}, {x[1]}"), b.give(f"fcmp uno {typ} {x[0]}, {x[0]}")
            either = b.give(f"or i1 {first}, {missing}")
            return b.give(f"select i1 {either}, {typ} {x[0]}, {typ} {x[1]}")

        return extreme
    return None


def _chosen(how: str, typ: str) -> Scalar:
    def choose(b: Body, x: Sequence[str]) -> str:
        first = b.give(f"{how} {typ} {x[0]}, {x[1]}")
        return b.give(f"select i1 {first}, {typ} {x[0]}, {typ} {x[1]}")

    return choose


def _intrinsic(name: str, typ: str) -> Scalar:
    bits = "f32" if typ == "float" else "f64"

    def call(b: Body, x: Sequence[str]) -> str:
        b.declared.add(f"declare {typ} @llvm.{name}.{bits}({typ})")
        return b.give(f"call {typ} @llvm.{name}.{bits}({typ} {x[0]})")

    return call


def choice(dtype: DType) -> Scalar:
    """Return ``where`` as a function of a bool and two elements."""
    typ = type_of(dtype)
    return lambda b, x: b.give(f"select i1 {x[0]}, {typ} {x[1]}, {typ} {x[2]}")
