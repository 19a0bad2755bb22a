"""Explain by which rule of arithmetic a value or a derivative became NaN or infinite."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ..core.arrays.dtypes import FLOATING, INEXACT, DType, limits
from ..core.graph.plan import Params
from ..core.named_tuples import NamedTuple

Array = np.ndarray
Predicate = Callable[[Array], Array]


class Finding(NamedTuple):
    """Why a result is not finite.

    ``culprit`` is the index of the input that caused the non-finite result, and ``place`` the index of the element in
    that input. ``bad`` returns which values of an input cause such a result. ``overflow`` is True if the result would
    be finite for smaller values.
    """

    sentence: str
    culprit: int | None = None
    place: int = 0
    bad: Predicate = lambda x: ~np.isfinite(x)
    advice: str = ""
    overflow: bool = False


def shown(value: object) -> str:
    """Return a number as text, with the digits of its dtype."""
    value = np.asarray(value)[()]
    if value.dtype.kind in FLOATING and not np.isfinite(value):
        return "NaN" if value != value else "inf" if value > 0 else "-inf"
    return str(value)


def largest(dtype: DType) -> str:
    """Return the largest number of a floating dtype as text."""
    return "65504" if dtype == np.float16 else str(_largest_number(dtype))


def _largest_number(dtype: Any) -> Any:
    dtype = np.dtype(dtype)
    return dtype.type(limits(dtype).max)


def grown(dtype: DType) -> Predicate:
    """Return a predicate for values so large that their products and sums may overflow."""
    limit = 256.0 if dtype == np.float16 else 1e6
    return lambda x: np.abs(x) > limit


# Advice, with constants that depend on the dtype: smaller constants vanish in float16, or their reciprocals overflow.
_LOG_ADVICE = "keep what goes into log above 0: x.clamp(min={log}), or log_softmax and logsigmoid for logits"
_LOG1P_ADVICE = "keep what goes into log1p above -1: x.clamp(min=-1 + {unit})"
_UNIT_ADVICE = "clamp the argument into the open interval: x.clamp(-1 + {unit}, 1 - {unit})"
_ACOSH_ADVICE = "clamp the argument: x.clamp(min=1 + {unit})"
_DIVISOR_ADVICE = "replace the zeros of the divisor before the division: x / where(y == 0, 1, y)"
_NEAR_ADVICE = "keep the divisor away from 0: x / where(abs(y) < {near}, 1, y)"
_RECIPROCAL_ADVICE = "replace what is nearly 0 before the division: 1 / where(abs(x) < {near}, 1, x)"
_NEGATIVE_ADVICE = "clamp the argument from below: x.clamp(min={near}); or look where it became negative"
_SQRT_ADVICE = "add a small number inside, sqrt(x + {root}), or clamp x from below"
_RSQRT_ADVICE = "add a small number inside: rsqrt(x + {inverse})"
_NAN_ADVICE = "find where this NaN comes from, or replace it: nan_to_num"
_LOGIT_ADVICE = "give it eps, which clamps: logit(x, eps={unit})"

_NUMBERS = {"log": "1e-8", "unit": "1e-6", "near": "1e-6", "root": "1e-12", "inverse": "1e-12", "mask": "-1e9"}
_NUMBERS_OF = {
    "float16": {"log": "1e-4", "unit": "1e-3", "near": "1e-2", "root": "1e-4", "inverse": "1e-2", "mask": "-1e4"},
    "bfloat16": {**_NUMBERS, "unit": "1e-2"},
}


def _advised(advice: str, dtype: Any) -> str:
    """Return an advice with the constants for a dtype."""
    return advice.format_map(_NUMBERS_OF.get(np.dtype(dtype).name, _NUMBERS))


# By operator: a predicate for invalid arguments, the explanation, and the advice.
_DOMAINS: dict[str, list[tuple[Predicate, str, str]]] = {
    "log": [
        (lambda x: x < 0, "the logarithm of a negative number is NaN", _LOG_ADVICE),
        (lambda x: x == 0, "the logarithm of 0 is -inf", _LOG_ADVICE),
    ],
    "log1p": [
        (lambda x: x < -1, "log1p of a number below -1 is NaN", _LOG1P_ADVICE),
        (lambda x: x == -1, "log1p of -1 is -inf", _LOG1P_ADVICE),
    ],
    "sqrt": [(lambda x: x < 0, "the square root of a negative number is NaN", _NEGATIVE_ADVICE)],
    "rsqrt": [
        (lambda x: x < 0, "the square root of a negative number is NaN", _NEGATIVE_ADVICE),
        (lambda x: x == 0, "1 / sqrt(0) is a division by 0", _RSQRT_ADVICE),
    ],
    "reciprocal": [(lambda x: x == 0, "1 / 0 is inf", _RECIPROCAL_ADVICE)],
    "acos": [(lambda x: np.abs(x) > 1, "acos is defined from -1 to 1", _UNIT_ADVICE)],
    "acosh": [(lambda x: x < 1, "acosh is defined from 1 on", _ACOSH_ADVICE)],
    "atanh": [
        (lambda x: np.abs(x) > 1, "atanh is defined between -1 and 1", _UNIT_ADVICE),
        (lambda x: np.abs(x) == 1, "atanh of -1 and 1 is infinite", _UNIT_ADVICE),
    ],
    "erfinv": [
        (lambda x: np.abs(x) > 1, "erfinv is defined between -1 and 1", _UNIT_ADVICE),
        (lambda x: np.abs(x) == 1, "erfinv of -1 and 1 is infinite", _UNIT_ADVICE),
    ],
    "logit": [
        (lambda x: (x < 0) | (x > 1), "logit is defined between 0 and 1", _LOGIT_ADVICE),
        (lambda x: (x == 0) | (x == 1), "logit of 0 and 1 is infinite", _LOGIT_ADVICE),
    ],
    "lgamma": [(lambda x: (x <= 0) & (x == np.floor(x)), "lgamma has poles at 0, -1, -2, ...", "")],
    "digamma": [(lambda x: (x <= 0) & (x == np.floor(x)), "digamma has poles at 0, -1, -2, ...", "")],
}
for _same, _as in (("log2", "log"), ("log10", "log"), ("asin", "acos")):
    _DOMAINS[_same] = [(bad, text.replace("acos", _same), advice) for bad, text, advice in _DOMAINS[_as]]
_DOMAINS["xlogy"] = _DOMAINS["log"]

# By operator: a and b for which large results are b * exp(a * abs(x)).
_EXPONENTIALS = {
    "exp": (1.0, 1.0), "expm1": (1.0, 1.0), "sinh": (1.0, 0.5), "cosh": (1.0, 0.5), "exp2": (np.log(2), 1.0)
}  # fmt: skip
_SYMBOLS = {"add": "+", "sub": "-", "mul": "*", "div": "/", "pow": "**"}
_STD_AND_VAR = {"std", "var"}
_NORMALIZATIONS = {"layer_norm", "batch_norm", "group_norm", "instance_norm", "rms_norm"}
_ROWS = {"softmax", "log_softmax", "logsumexp", "scaled_dot_product_attention", "cross_entropy"}


def rule_forward(name: str, values: list[Array | None], out: object, dtype: DType, params: Params) -> Finding:
    """Explain why an operator returned ``out`` (NaN or infinite) for the given values of its inputs."""
    known = [(number, x) for number, x in enumerate(values) if x is not None and x.size and x.dtype.kind in "fcViub"]
    finding = _forward(name, known, values, out, dtype, params)
    return finding._replace(advice=_advised(finding.advice, dtype))


def _forward(
    name: str, known: list[tuple[int, Array]], values: list[Array | None], out: Any, dtype: DType, params: Params
) -> Finding:
    expression = written(name, values, params)
    pairs = [x for _, x in known]
    if name in _SYMBOLS and len(values) == 2 and len(known) == 2 and all(x.size == 1 for x in pairs):
        return _binary(name, pairs[0][0], pairs[1][0], out, dtype, expression)
    for bad, text, advice in _DOMAINS.get(name, ()):
        number, x = known[-1] if name == "xlogy" else known[0]
        if bad(x).any():
            return Finding(f"{expression}: {text}", number, int(np.argmax(bad(x))), bad, advice)
    if name == "cast" and np.isinf(out):
        number, x = known[0]
        return _overflow(f"{shown(x[0])} does not fit in {dtype}", number, 0, dtype)
    finite = all(bool(np.isfinite(x).all()) for x in pairs)
    if name in _EXPONENTIALS and finite:
        exponent, factor = _EXPONENTIALS[name]
        limit = float(np.log(float(_largest_number(dtype))) - np.log(factor)) / exponent
        most = f"{dtype}, whose largest number is {largest(dtype)}"
        text = f"{expression} overflows {most}: {name}(x) overflows for x above {limit:.4g}"
        low = f"{-int(limit - 0.5)}, " if factor < 1 else "max="
        advice = f"clamp the argument: x.clamp({low}{int(limit - 0.5)})"
        if name == "exp":
            advice = f"subtract the maximum first, as softmax and logsumexp do, or {advice}"
        return Finding(text, known[0][0], 0, lambda x: np.abs(x) >= limit, advice)
    if not known or name in _STD_AND_VAR | {"mean", "cross_entropy", "nll_loss"} and not any(x.size for x in pairs):
        if name in ("cross_entropy", "nll_loss"):
            return Finding("the mean over no target (all are ignored) is 0 / 0", advice="skip batches without targets")
        return Finding(f"the {name} of no elements is 0 / 0", advice="skip empty selections: check numel() first")
    if name in _STD_AND_VAR:
        finding = _std_or_var(name, known, params)
        if finding is not None:
            return finding
    if finite:
        return _of_finite(name, known, out, dtype, expression)
    return _of_infinite(name, known, expression)


def _binary(name: str, x: Any, y: Any, out: Any, dtype: Any, expression: str) -> Finding:
    finite = np.isfinite(x) and np.isfinite(y)
    to_zero = f"{expression} is a division by 0"
    if name == "div" and y == 0:
        text = f"{expression}: 0 / 0 is NaN" if x == 0 else to_zero
        return Finding(text, 1, 0, lambda v: v == 0, _DIVISOR_ADVICE)
    if name == "pow" and finite:
        if x == 0 and y < 0:
            return Finding(
                f"{expression}: 0 to a negative power is a division by 0", 0, 0, lambda v: v == 0,
                "replace the zeros of the base: where(x == 0, 1, x) ** p",
            )  # fmt: skip
        if x < 0 and y != np.floor(y):
            text = f"{expression}: a negative number to a non-integer power is NaN"
            return Finding(text, 0, 0, lambda v: v < 0, "keep the base above 0: x.clamp(min={near}) ** p")
    if finite:
        near = float(_advised("{near}", dtype))
        if name == "div" and abs(y) < near:
            text = f"{expression} overflows {dtype}, whose largest number is {largest(dtype)}: the divisor is nearly 0"
            return Finding(text, 1, 0, lambda v: np.abs(v) < near, _NEAR_ADVICE)
        blamed = 0 if name in ("div", "pow") else int(abs(y) > abs(x))
        return _overflow(f"{expression} overflows {dtype}", blamed, 0, dtype)
    if x != x or y != y:
        number = int(x == x)
        return Finding(f"{expression} is NaN, because input {number} is", number, 0, np.isnan, _NAN_ADVICE)
    infinite = 1 if not np.isfinite(y) else 0
    why = {
        "add": "inf - inf is NaN", "sub": "inf - inf is NaN", "mul": "0 * inf is NaN", "div": "inf / inf is NaN",
        "pow": "a power of infinities is NaN",
    }[name]  # fmt: skip
    advice = ""
    if name == "mul":
        advice = (
            "multiplying by a mask does not remove inf: select with where(mask, x, 0) instead; for a finite gradient, "
            "also replace the values that produce inf before that operator"
        )
    return Finding(f"{expression}: {why}", infinite, 0, np.isinf, advice)


def _overflow(text: str, culprit: int, place: int, dtype: DType) -> Finding:
    advice = "scale the values down before"
    if dtype == np.float16:
        advice = "compute this in float32, or scale the values down before"
    return Finding(f"{text}, whose largest number is {largest(dtype)}", culprit, place, grown(dtype), advice)


def _std_or_var(name: str, known: list[tuple[int, Array]], params: Params) -> Finding | None:
    number, x = known[0]
    correction = params.get("correction", 1)
    if x.size - correction > 0:
        return None
    elements = f"{x.size} element{'s' if x.size > 1 else ''}"
    text = f"the {name} of {elements} divides by n - {correction} = {x.size - correction}"
    return Finding(text, None, 0, advice=f"use {name}(correction=0), or skip such batches")


def _of_finite(name: str, known: list[tuple[int, Array]], out: Any, dtype: Any, expression: str) -> Finding:
    """Explain a result for finite inputs without a specific rule: an overflow, or a division inside the operator."""
    top, number, place = _largest_of(known) or (0.0, known[0][0], 0)
    if name in _NORMALIZATIONS and not grown(dtype)(np.asarray(top)):
        return Finding(
            f"{name} divides by the standard deviation, which is 0: all values are {shown(known[0][1][0])}",
            known[0][0], 0, lambda x: np.ones(x.shape, bool), "give it an eps above 0",
        )  # fmt: skip
    if name == "reciprocal":
        text = f"1 / {shown(known[0][1][0])} overflows {dtype}, whose largest number is {largest(dtype)}"
        near = float(_advised("{near}", dtype))
        return Finding(text, known[0][0], 0, lambda x: np.abs(x) < near, _RECIPROCAL_ADVICE)
    if np.isinf(out) or grown(dtype)(np.asarray(top)):
        count = max(x.size for _, x in known)
        of = f" of {count} values" if count > 1 else ""
        what = expression if count == 1 else name
        note = f" (the largest is {top:.6g})" if count > 1 else ""
        return _overflow(f"{what}{of} overflows {dtype}{note}", number, place, dtype)
    if name in ("fmod", "remainder", "floor_divide"):
        text = f"{expression}: the remainder of a division by 0 is NaN"
        return Finding(text, 1, 0, lambda x: x == 0, _DIVISOR_ADVICE)
    return Finding(f"{expression} is {shown(out)}", known[0][0], 0, lambda x: np.ones(x.shape, bool))


def _largest_of(known: list[tuple[int, Array]]) -> tuple[float, int, int] | None:
    """Return the largest magnitude among the inputs, the index of that input, and the index within its values."""
    floats = [(number, np.abs(x)) for number, x in known if x.dtype.kind in INEXACT]
    return max([(float(x.max()), number, int(x.argmax())) for number, x in floats], default=None)


def _of_infinite(name: str, known: list[tuple[int, Array]], expression: str) -> Finding:
    number, x = next((number, x) for number, x in known if not np.isfinite(x).all())
    place = int(np.argmax(~np.isfinite(x)))
    if x[place] != x[place]:
        return Finding(f"{expression} is NaN, because input {number} has a NaN", number, place, np.isnan, _NAN_ADVICE)
    if name in _ROWS:
        if (x == -np.inf).all() or name == "scaled_dot_product_attention":
            text = f"{name} of a row in which all values are -inf: every exp is 0, and 0 / 0 is NaN"
            advice = "leave at least one element per row unmasked, or use masked_fill with {mask} instead of -inf"
            return Finding(text, number, place, np.isinf, advice)
        return Finding(f"{name} subtracts the row's maximum, and inf - inf is NaN", number, place, np.isinf)
    if (x == np.inf).any() and (x == -np.inf).any():
        return Finding(f"{name} adds inf and -inf: inf - inf is NaN", number, place, np.isinf)
    if len(known) > 1:
        why = "0 * inf or inf - inf is NaN"
        return Finding(f"{name} multiplies and adds {shown(x[place])}: {why}", number, place, np.isinf)
    if x.size > 1:
        return Finding(f"{name} of values that include {shown(x[place])}: inf - inf is NaN", number, place, np.isinf)
    return Finding(f"{expression} is NaN", number, place, np.isinf)


def written(name: str, values: list[Array | None], params: Params) -> str:
    """Return the call as text: ``0.99999994 - 1.0``, ``log(-3.1e-08)``, ``sum(5 values from 0.0 to 3.0)``."""
    parts = []
    for x in values:
        if x is None or not x.size:
            continue
        if x.size == 1:
            parts.append(shown(x[0]))
        elif x.dtype.kind in "fViu":
            numbers = x[x == x]
            ends = f"from {shown(numbers.min())} to {shown(numbers.max())}" if numbers.size else "that are NaN"
            parts.append(f"{x.size} values {ends}")
        else:
            parts.append(f"{x.size} values")
    if name in _SYMBOLS and len(parts) == 2:
        right = f"({parts[1]})" if parts[1].startswith("-") else parts[1]
        left = f"({parts[0]})" if name == "pow" and parts[0].startswith("-") else parts[0]
        return f"{left} {_SYMBOLS[name]} {right}"
    return f"{name}({', '.join(parts)})"


_BACKWARD: dict[str, tuple[str, Predicate, str]] = {
    "sqrt": ("1 / (2 sqrt(x)), is infinite at x = 0", lambda x: x == 0, _SQRT_ADVICE),
    "rsqrt": ("-1 / (2 x sqrt(x)), is infinite at x = 0", lambda x: x == 0, _RSQRT_ADVICE),
    "log": ("1 / x, is infinite at x = 0", lambda x: x == 0, _LOG_ADVICE),
    "acos": ("-1 / sqrt(1 - x^2), is infinite at x = -1 and 1", lambda x: np.abs(x) >= 1, _UNIT_ADVICE),
    "asin": ("1 / sqrt(1 - x^2), is infinite at x = -1 and 1", lambda x: np.abs(x) >= 1, _UNIT_ADVICE),
    "acosh": ("1 / sqrt(x^2 - 1), is infinite at x = 1", lambda x: x <= 1, _ACOSH_ADVICE),
    "atan2": (
        "(x, -y) / (x^2 + y^2), is 0 / 0 at (0, 0)", lambda x: x == 0,
        "move the point away from the origin where both are 0: atan2(y, x + {inverse})",
    ),
    "hypot": ("x / hypot(x, y), is 0 / 0 at (0, 0)", lambda x: x == 0, "add a small number: sqrt(x*x + y*y + {root})"),
    "norm": (
        "x / |x|, is 0 / 0 where all elements are 0", lambda x: x == 0,
        "add a small number inside: sqrt((x * x).sum() + {root})",
    ),
    "std": (
        "(x - mean) / std, is 0 / 0 where all elements are equal", lambda x: np.ones(x.shape, bool),
        "use var(), whose derivative is finite, and sqrt(var + {root})",
    ),
    "pow": (
        "p x^(p - 1), is infinite at x = 0 for p below 1",
        lambda x: x <= 0, "keep the base above 0: x.clamp(min={near}) ** p",
    ),
    "reciprocal": ("-1 / x^2, overflows near x = 0", lambda x: x == 0, _RECIPROCAL_ADVICE),
    "div": ("1 / y, and -x / y^2 for the divisor, overflow near y = 0", lambda x: x == 0, _NEAR_ADVICE),
    "linalg.eigh": (
        "it divides by differences of eigenvalues, and two are equal", lambda x: np.ones(x.shape, bool),
        "add a small random diagonal, or use functions of the matrix whose derivative does not need eigenvectors",
    ),
    "linalg.svd": (
        "it divides by differences of squared singular values, and two are equal or one is 0",
        lambda x: np.ones(x.shape, bool), "add a small random matrix, or differentiate only singular values (svdvals)",
    ),
    "linalg.eig": (
        "it divides by differences of eigenvalues, and two are equal", lambda x: np.ones(x.shape, bool),
        "add a small random matrix, or use functions of the matrix whose derivative does not need eigenvectors",
    ),
    "cdist": ("(x - y) / |x - y|, is 0 / 0 where both points are the same", lambda x: np.ones(x.shape, bool), ""),
}  # fmt: skip
_BACKWARD["log2"] = _BACKWARD["log10"] = _BACKWARD["log"]


def rule_backward(name: str, values: list[Array | None], number: int, g: object, out: object, dtype: DType) -> Finding:
    """Explain why the derivative for input ``number`` is ``out`` for the upstream gradient ``g``, None if unknown."""
    finding = _backward(name, values, number, g, out, dtype)
    return finding._replace(advice=_advised(finding.advice, dtype))


def _backward(name: str, values: list[Array | None], number: int, g: object, out: Any, dtype: DType) -> Finding:
    masked = g is not None and g == 0
    if name in _BACKWARD:
        text, bad, advice = _BACKWARD[name]
        if name in ("div", "reciprocal"):
            near = float(_advised("{near}", dtype))
            bad = lambda x: np.abs(x) < near  # noqa: E731
        culprits = [i for i, x in enumerate(values) if x is not None and x.size and bool(bad(x).any())]
        if name == "div":
            culprits = [i for i in culprits if i == 1]
        if name == "pow":
            culprits = [i for i in culprits if i == 0]
            text = text if number == 0 else "x^p log(x) for the exponent, is not finite at x = 0 or below"
        if culprits or all(x is None or not x.size for x in values):
            culprit = culprits[0] if culprits else None
            place = 0 if culprit is None else int(np.argmax(bad(values[culprit])))  # type: ignore[arg-type]
            sentence = f"the derivative of {name}, {text}" if not name.startswith("linalg") else f"{name}: {text}"
            if masked and "0 / 0" not in text:
                sentence += "; the upstream gradient is 0, and 0 * inf is NaN"
            return Finding(sentence, culprit, place, bad, advice)
    expression = written(name, values, {})
    known = [(i, x) for i, x in enumerate(values) if x is not None and x.size]
    infinite = [(i, x) for i, x in known if x.dtype.kind in INEXACT and not np.isfinite(x).all()]
    if infinite:
        i, x = infinite[0]
        place = int(np.argmax(~np.isfinite(x)))
        why = "; the upstream gradient is 0, and 0 * inf is NaN" if masked else ""
        return Finding(f"the derivative of {expression} multiplies by {shown(x[place])}{why}", i, place)
    incoming = "" if g is None else f" with an upstream gradient of {shown(g)}"
    if np.isinf(out):
        top = _largest_of(known)
        text = f"the derivative of {expression}{incoming} overflows {dtype}, whose largest number is {largest(dtype)}"
        _, culprit, place = top or (0.0, None, 0)
        return Finding(text, culprit, place, grown(dtype), overflow=True)
    return Finding(f"the derivative of {expression}{incoming} is {shown(out)}", known[0][0] if known else None)
