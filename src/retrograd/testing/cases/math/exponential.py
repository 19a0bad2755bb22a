"""Cases of exponentials and logarithms."""

from __future__ import annotations

import numpy as np

from ...case import Case, together
from .arithmetic import (
    INF,
    NAN,
    apart,
    at,
    at_pairs,
    binary_calls,
    complex_normal,
    normal,
    positive,
    unary_calls,
    uniform,
    unit,
)


def reference_xlogy(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.asarray(x) * np.log(y)


LOGADDEXP_EDGES = at_pairs((0.0, 0.0), (1000.0, -1000.0), (-1000.0, 1000.0), (1000.0, 1000.0), (INF, 1.0), (-INF, 1.0))

CASES = [
    Case("exp", unary_calls(also=complex_normal), np.exp, edge_calls=at(-INF, INF, NAN, 1000.0)),
    Case("exp2", unary_calls(), np.exp2, edge_calls=at(-INF, INF)),
    Case("expm1", unary_calls(), np.expm1, edge_calls=at(-INF, 1e-20, 0.0)),
    Case("log", unary_calls(positive, also=complex_normal), np.log, edge_calls=at(0.0, -1.0, INF)),
    Case("log2", unary_calls(positive), np.log2, edge_calls=at(0.0, -1.0, INF)),
    Case("log10", unary_calls(positive), np.log10, edge_calls=at(0.0, -1.0, INF)),
    Case("log1p", unary_calls(uniform(-0.7, 3.0)), np.log1p, edge_calls=at(-1.0, -2.0, 1e-20, INF)),
    Case("sigmoid", unary_calls(also=complex_normal), edge_calls=at(-1000.0, 1000.0, -INF, INF, NAN)),
    Case(
        "logaddexp",
        binary_calls(number=False, also=complex_normal),
        lambda x, y: np.log(np.exp(x) + np.exp(y)) if np.iscomplexobj(x) else np.logaddexp(x, y),
        edge_calls=LOGADDEXP_EDGES,
    ),
    Case("logaddexp2", binary_calls(number=False), np.logaddexp2, edge_calls=LOGADDEXP_EDGES),
    Case(
        "xlogy",
        binary_calls(normal, positive),
        reference_xlogy,
        edge_calls=at_pairs((0.0, 0.5), (0.0, NAN), (2.0, 1.0), (0.0, 3.0)),
    ),
    Case("special.xlogy", binary_calls(normal, positive), reference_xlogy),
    Case(
        "special.xlog1py",
        binary_calls(normal, uniform(-0.5, 2.0)),
        lambda x, y: x * np.log1p(y),
        edge_calls=at_pairs((0.0, 0.5), (0.0, NAN), (2.0, 1.0), (0.0, 3.0)),
    ),
    Case(
        "logit",
        together(unary_calls(unit), unary_calls(unit, eps=0.05), unary_calls(uniform(0.7, 0.9), eps=0.4)),
        edge_calls=together(at(0.25, 0.5), at(-0.5, 0.1, 0.9, 1.5, eps=0.1)),
    ),
    Case("special.logit", unary_calls(unit, eps=0.05)),
    Case("special.exp2", unary_calls(), np.exp2),
    Case("special.expm1", unary_calls(), np.expm1),
    Case("special.log1p", unary_calls(positive), np.log1p),
    Case("special.expit", unary_calls(apart(scale=3.0))),
    Case("nn.functional.sigmoid", unary_calls(apart(scale=3.0))),
]
