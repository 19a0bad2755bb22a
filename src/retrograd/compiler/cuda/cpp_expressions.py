"""Element expressions (``passes/expressions.py``) in CUDA C++, and functions that only loops on a GPU have.

Each operation is rounded to its dtype, as by a separate kernel: float16 is computed in float32 and rounded after each
operation, products and sums are not contracted (``--fmad=false``), integers wrap around.
"""

from __future__ import annotations

import ast
import math
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np

from ...core.arrays.dtypes import DType
from ..passes.expressions import Capabilities

_INTEGERS = (np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32, np.uint64)
DTYPES = frozenset(map(np.dtype, (np.float16, np.float32, np.float64, np.bool_, *_INTEGERS)))
HALF = np.dtype(np.float16)

_STORED = {
    "float16": "half16", "float32": "float", "float64": "double", "bool": "bool", "int8": "signed char",
    "int16": "short", "int32": "int", "int64": "long long", "uint8": "unsigned char", "uint16": "unsigned short",
    "uint32": "unsigned int", "uint64": "unsigned long long",
}  # fmt: skip

# C++ functions, by the names of ufuncs.
_SAME = "exp exp2 expm1 log log2 log10 log1p sin cos tan sinh cosh tanh cbrt floor ceil trunc rint erf erfc"
_RENAMED = {
    "arcsin": "asin", "arccos": "acos", "arctan": "atan", "arcsinh": "asinh", "arccosh": "acosh", "arctanh": "atanh",
    "sign": "sign_of",
}  # fmt: skip
_OF_TWO = {
    "arctan2": "atan2", "hypot": "hypot", "copysign": "copysign", "fmax": "fmax", "fmin": "fmin", "fmod": "fmod",
    "power": "power_of", "floor_divide": "floor_divided", "remainder": "remainder_of", "heaviside": "heaviside",
    "logaddexp": "log_add_exp", "logaddexp2": "log_add_exp2",
}  # fmt: skip
FUNCTIONS: Mapping[str, str] = {
    **{name: f"{name}({{0}})" for name in _SAME.split()},
    **{name: f"{other}({{0}})" for name, other in _RENAMED.items()},
    **{name: f"{other}({{0}}, {{1}})" for name, other in _OF_TWO.items()},
    "reciprocal": "(1 / {0})", "positive": "{0}",
    "deg2rad": f"({{0}} * {math.pi / 180!r})", "rad2deg": f"({{0}} * {180 / math.pi!r})",
    "radians": f"({{0}} * {math.pi / 180!r})", "degrees": f"({{0}} * {180 / math.pi!r})",
    "isnan": "({0} != {0})", "isfinite": "({0} - {0} == {zero})",
    "isinf": "({0} == {0} and {0} - {0} != {zero})",
    "bitwise_and": "({0} & {1})", "bitwise_or": "({0} | {1})", "bitwise_xor": "({0} ^ {1})", "invert": "(~{0})",
    "left_shift": "shifted_left({0}, {1})", "right_shift": "shifted_right({0}, {1})",
}  # fmt: skip

_REAL = frozenset(FUNCTIONS[name] for name in ("floor", "ceil", "trunc", "rint", "reciprocal", "fmod", "fmax", "fmin"))
GPU = Capabilities(FUNCTIONS, _REAL, DTYPES, DTYPES - {np.dtype(np.bool_)}, False)

# The beginning of every module's source. Tests compile it for the CPU too.
PRELUDE = r"""
__device__ __forceinline__ double infinity() { return 1e308 * 10; }
__device__ __forceinline__ double not_a_number() { return infinity() - infinity(); }
struct half16 { unsigned short bits; };
typedef unsigned long long word;
#ifdef __CUDACC__
__device__ __forceinline__ float wide(half16 x) {
  float y; asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits)); return y;
}
__device__ __forceinline__ half16 narrow(float x) {
  half16 y; asm("cvt.rn.f16.f32 %0, %1;" : "=h"(y.bits) : "f"(x)); return y;
}
__device__ __forceinline__ half16 narrow(double x) {
  half16 y; asm("cvt.rn.f16.f64 %0, %1;" : "=h"(y.bits) : "d"(x)); return y;
}
#endif
__device__ __forceinline__ float rounded(float x) { return wide(narrow(x)); }
__device__ __forceinline__ float rounded(double x) { return wide(narrow(x)); }

template <class T> __device__ __forceinline__ T plus(T x, T y) { return (T)((word)x + (word)y); }
template <> __device__ __forceinline__ float plus(float x, float y) { return x + y; }
template <> __device__ __forceinline__ double plus(double x, double y) { return x + y; }
template <class T> __device__ __forceinline__ T minus(T x, T y) { return (T)((word)x - (word)y); }
template <> __device__ __forceinline__ float minus(float x, float y) { return x - y; }
template <> __device__ __forceinline__ double minus(double x, double y) { return x - y; }
template <class T> __device__ __forceinline__ T times(T x, T y) { return (T)((word)x * (word)y); }
template <> __device__ __forceinline__ float times(float x, float y) { return x * y; }
template <> __device__ __forceinline__ double times(double x, double y) { return x * y; }

template <class T> __device__ __forceinline__ T absolute(T x) { return x < (T)0 ? minus((T)0, x) : x; }
template <> __device__ __forceinline__ float absolute(float x) { return fabsf(x); }
template <> __device__ __forceinline__ double absolute(double x) { return fabs(x); }
template <class T> __device__ __forceinline__ T sign_of(T x) {
  return x != x ? x : (T)((x > (T)0) - (x < (T)0));
}
template <class T> __device__ __forceinline__ T heaviside(T x, T y) {
  return x != x ? x : x == (T)0 ? y : (T)(x > (T)0);
}

// NumPy's: the remainder has the sign of the divisor, and integers give 0 for a divisor of 0.
template <class T> __device__ __forceinline__ T remainder_of(T x, T y) {
  if (y == (T)0 || y == (T)-1) return (T)0;
  T r = (T)(x % y);
  return r != (T)0 && (r < (T)0) != (y < (T)0) ? (T)(r + y) : r;
}
template <class T> __device__ __forceinline__ T floor_divided(T x, T y) {
  if (y == (T)0) return (T)0;
  if (y == (T)-1 && (T)-1 < (T)0) return minus((T)0, x);
  T q = (T)(x / y);
  return x % y != (T)0 && (x < (T)0) != (y < (T)0) ? (T)(q - 1) : q;
}
#define REAL(T, fmod_, floor_, copysign_)                                              \
  template <> __device__ __forceinline__ T remainder_of(T x, T y) {                    \
    T r = fmod_(x, y);                                                                 \
    if (y == 0) return r;                                                              \
    return r != 0 ? ((r < 0) != (y < 0) ? r + y : r) : copysign_((T)0, y);             \
  }                                                                                    \
  template <> __device__ __forceinline__ T floor_divided(T x, T y) {                   \
    if (y == 0) return x / y;                                                          \
    T r = fmod_(x, y), q = (x - r) / y;                                                \
    if (r != 0 && (r < 0) != (y < 0)) q -= 1;                                          \
    if (q == 0) return copysign_((T)0, x / y);                                         \
    T f = floor_(q);                                                                   \
    return q - f > (T)0.5 ? f + 1 : f;                                                 \
  }
REAL(float, fmodf, floorf, copysignf)
REAL(double, fmod, floor, copysign)

template <class T> __device__ __forceinline__ T power_of(T x, T n) {
  if (n < (T)0) return x == (T)1 ? (T)1 : x == (T)-1 ? ((n & 1) ? x : (T)1) : (T)0;
  T y = 1;
  for (; n > (T)0; n = (T)(n >> 1)) { if (n & 1) y = times(y, x); x = times(x, x); }
  return y;
}
template <> __device__ __forceinline__ float power_of(float x, float y) { return powf(x, y); }
template <> __device__ __forceinline__ double power_of(double x, double y) { return pow(x, y); }
template <class T> __device__ __forceinline__ T shifted_left(T x, T n) {
  return n < (T)0 || n >= (T)(8 * sizeof(T)) ? (T)0 : (T)((word)x << n);
}
template <class T> __device__ __forceinline__ T shifted_right(T x, T n) {
  return n < (T)0 || n >= (T)(8 * sizeof(T)) ? (T)(x < (T)0 ? -1 : 0) : (T)(x >> n);
}
template <class T> __device__ __forceinline__ T log_add_exp(T x, T y) {
  if (x == y) return x + (T)0.693147180559945309417232121458;
  T d = x - y;
  return d > 0 ? x + log1p(exp(-d)) : d <= 0 ? y + log1p(exp(d)) : d;
}
template <class T> __device__ __forceinline__ T log_add_exp2(T x, T y) {
  if (x == y) return x + (T)1;
  T d = x - y, c = (T)1.442695040888963407359924681002;
  return d > 0 ? x + c * log1p(exp2(-d)) : d <= 0 ? y + c * log1p(exp2(d)) : d;
}
"""


def stored(dtype: DType) -> str:
    """Return the type of an element in memory."""
    return _STORED[np.dtype(dtype).name]


def held(dtype: DType) -> str:
    """Return the type of an element in a register, which is float for float16."""
    return "float" if dtype == HALF else stored(dtype)


def load(text: str, dtype: DType) -> str:
    """Convert an element from memory to a register."""
    return f"wide({text})" if dtype == HALF else text


def store(text: str, dtype: DType) -> str:
    """Convert an element from a register to memory."""
    return f"narrow({text})" if dtype == HALF else text


def cast(text: str, old: DType, new: DType) -> str:
    """Cast an element to another dtype."""
    if old == new:
        return text
    if new == HALF:
        return f"rounded({text if old.kind == 'f' else f'(double){text}'})"
    return text if held(old) == held(new) else f"({held(new)}){text}"


def literal(value: Any, dtype: DType) -> str:
    """Return a number as a constant of a dtype."""
    dtype = np.dtype(dtype)
    value = dtype.type(value).item()
    if dtype.kind == "b":
        return "true" if value else "false"
    if dtype.kind in "iu":
        whole = f"({value + 1}LL - 1)" if value == -(1 << 63) else f"{value}{'ULL' if dtype.kind == 'u' else 'LL'}"
        return f"({stored(dtype)}){whole}"
    if math.isnan(value):
        return f"({held(dtype)})not_a_number()"
    if math.isinf(value):
        return f"({held(dtype)}){'-' if value < 0 else ''}infinity()"
    return f"({held(dtype)}){value!r}"


def expression(form: str, operands: list[str], dtype: DType) -> str:
    """Return a form applied to operands of the dtype; operands that are conditions are bools."""
    return _translated(form)(operands, dtype)


_SIGNS: dict[type, str] = {
    ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">=", ast.Eq: "==", ast.NotEq: "!=",
    ast.BitAnd: "&", ast.BitOr: "|", ast.BitXor: "^", ast.And: "&&", ast.Or: "||",
}  # fmt: skip
_SUMS: dict[type, str] = {ast.Add: "plus", ast.Sub: "minus", ast.Mult: "times"}


@cache
def _translated(form: str) -> Callable[[list[str], Any], str]:
    names = {str(number): f"x{number}" for number in range(10)}
    tree = ast.parse(form.format(*names.values(), zero="zero"), mode="eval").body

    def write(operands: list[str], dtype: DType) -> str:
        real = dtype.kind == "f"

        def rounded(text: str) -> str:
            return f"rounded({text})" if dtype == HALF else text

        def visit(node: Any) -> str:
            match node:
                case ast.Name(id="zero"):
                    return literal(0, dtype)
                case ast.Name(id=name):
                    return operands[int(name[1:])]
                case ast.Constant(value=value):
                    return literal(value, dtype)
                case ast.IfExp(test=test, body=body, orelse=other):
                    return f"({visit(test)} ? {visit(body)} : {visit(other)})"
                case ast.BoolOp(op=op, values=values):
                    return "(" + f" {_SIGNS[type(op)]} ".join(map(visit, values)) + ")"
                case ast.Compare(left=left, ops=[op], comparators=[right]):
                    return f"({visit(left)} {_SIGNS[type(op)]} {visit(right)})"
                case ast.UnaryOp(op=ast.Not(), operand=x):
                    return f"(!{visit(x)})"
                case ast.UnaryOp(op=ast.Invert(), operand=x):
                    return f"({stored(dtype)})(~{visit(x)})"
                case ast.UnaryOp(op=ast.USub(), operand=x):
                    return f"(-{visit(x)})" if real else f"minus({literal(0, dtype)}, {visit(x)})"
                case ast.BinOp(left=left, op=ast.Div(), right=right):
                    return rounded(f"({visit(left)} / {visit(right)})")
                case ast.BinOp(left=left, op=op, right=right) if type(op) in _SUMS:
                    return rounded(f"{_SUMS[type(op)]}({visit(left)}, {visit(right)})")
                case ast.BinOp(left=left, op=op, right=right):
                    return f"({stored(dtype)})({visit(left)} {_SIGNS[type(op)]} {visit(right)})"
                case ast.Call(func=ast.Name(id=name), args=args):
                    name = "absolute" if name == "abs" else name
                    return rounded(f"{name}({', '.join(map(visit, args))})")
            raise TypeError(f"no CUDA for {ast.dump(node)}")

        return visit(tree)

    return write
