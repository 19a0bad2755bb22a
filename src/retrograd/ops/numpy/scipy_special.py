"""SciPy's special functions on Tensors: ``scipy.special.beta(a, b)`` arrives as a ufunc, which is known by its name.

What Retrograd has itself is called; every other function is SciPy's own with its derivative beside it. SciPy is
imported by whoever calls its functions, never for the table. Sources of the derivatives: NIST Digital Library of
Mathematical Functions (DLMF), by the numbers given.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from ..._generated import functional, special
from ...core.graph.plan import Rule
from ...core.graph.primitive import Primitive, apply
from ...core.tensor.tensor import Tensor
from ..math.arithmetic import ABS, SIGN
from ..math.exponential import EXP, LOG, LOG1P, XLOG1PY, XLOGY
from ..math.powers import POW, RSQRT, SQRT
from ..math.special.bessel import J0, J1, K0, K0E, K1, K1E, Y0, Y1
from ..math.special.gamma import DIGAMMA, LGAMMA
from ..math.special.libraries import from_library, library_for
from ..math.special.zeta import IGAMMA, IGAMMAC, ZETA
from ..math.trigonometric import COS, COSH, SIN, SINC
from ..table.elementwise import elementwise
from ..table.masks import WHERE, zero_rule
from .arguments import tensors

_PI = math.pi
_SQRT_PI = math.sqrt(_PI)
_DEGREE = _PI / 180


# By SciPy's name of the ufunc: what it computes with Tensors among its arguments.
RULES: dict[str, Callable[..., Any]] = {}


def _function(
    name: str, inputs: str, *rules: Rule | None, output: int | None = None, forward: Rule | None = None
) -> Primitive:
    """A function of SciPy with a derivative by each input, None where none is known; of several outputs one."""

    def unknown(g: object) -> NoReturn:
        raise NotImplementedError(f"{qualified}: the derivative by an order or a shape is not known; detach() it")

    qualified = f"scipy.special.{name}"
    vjps: list[Rule | None] = [rule or unknown for rule in rules]
    forward = forward or from_library(name, output)
    primitive = elementwise(qualified, forward, inputs, vjps, promote="float", signals=True)
    RULES[name] = _of(primitive)
    return primitive


def _of(primitive: Primitive) -> Callable[..., Tensor]:
    return lambda *inputs: apply(primitive, inputs, {})


def _of_integer_order(name: str, primitive: Primitive) -> Callable[..., Tensor]:
    """A Bessel function of whole orders; SciPy's drops the fractions of others."""

    def rule(n: Any, x: Any) -> Tensor:
        order = n.array if isinstance(n, Tensor) else n
        if bool(np.any(order != np.trunc(order))):
            raise ValueError(f"scipy.special.{name}: the orders must be integers; use {name[0]}v for others")
        return apply(primitive, (n, x), {})

    return rule


# Gamma and beta functions (DLMF 5)

_function("gamma", "x", lambda g, x, ans: g * ans * DIGAMMA(x))
_function("rgamma", "x", lambda g, x, ans: -g * ans * DIGAMMA(x))
_function("loggamma", "x", lambda g, x: g * DIGAMMA(x))
_function(
    "beta",
    "a b",
    lambda g, a, b, ans: g * ans * (DIGAMMA(a) - DIGAMMA(a + b)),
    lambda g, a, b, ans: g * ans * (DIGAMMA(b) - DIGAMMA(a + b)),
)
BETALN = _function(
    "betaln",
    "a b",
    lambda g, a, b: g * (DIGAMMA(a) - DIGAMMA(a + b)),
    lambda g, a, b: g * (DIGAMMA(b) - DIGAMMA(a + b)),
)
_function(
    "binom",
    "n k",
    lambda g, n, k, ans: g * ans * (DIGAMMA(n + 1) - DIGAMMA(n - k + 1)),
    lambda g, n, k, ans: g * ans * (DIGAMMA(n - k + 1) - DIGAMMA(k + 1)),
)
_function(
    "poch",
    "z m",
    lambda g, z, m, ans: g * ans * (DIGAMMA(z + m) - DIGAMMA(z)),
    lambda g, z, m, ans: g * ans * DIGAMMA(z + m),
)

# Incomplete gamma and beta functions (DLMF 8), the distribution functions made of them, and inverses


def _gamma_density(a: Any, x: Any) -> Any:
    """``x^(a - 1) e^-x / gamma(a)``."""
    return EXP(XLOGY(a - 1, x) - x - LGAMMA(a))


def _beta_density(a: Any, b: Any, x: Any) -> Any:
    """``x^(a - 1) (1 - x)^(b - 1) / B(a, b)``."""
    return EXP(XLOGY(a - 1, x) + XLOG1PY(b - 1, -x) - BETALN(a, b))


_function("gammaincinv", "a y", None, lambda g, a, ans: g / _gamma_density(a, ans))
_function("gammainccinv", "a y", None, lambda g, a, ans: -g / _gamma_density(a, ans))
BETAINC = _function("betainc", "a b x", None, None, lambda g, a, b, x: g * _beta_density(a, b, x))
BETAINCC = _function("betaincc", "a b x", None, None, lambda g, a, b, x: -g * _beta_density(a, b, x))
_function("betaincinv", "a b y", None, None, lambda g, a, b, ans: g / _beta_density(a, b, ans))
_function(
    "stdtr",
    "df t",
    None,
    lambda g, df, t: g * EXP(-(df + 1) / 2 * LOG1P(t * t / df) - BETALN(df / 2, 0.5)) * RSQRT(df),
)
_function(
    "stdtrit",
    "df p",
    None,
    lambda g, df, p, ans: g * EXP((df + 1) / 2 * LOG1P(ans * ans / df) + BETALN(df / 2, 0.5)) * SQRT(df),
)


def _ratio(dfn: Any, dfd: Any, x: Any) -> Any:
    return dfn * x / (dfd + dfn * x)


# Error functions (DLMF 7)

ERF = _function("erf", "x", lambda g, x: g * (2 / _SQRT_PI) * EXP(-x * x))
ERFC = _function("erfc", "x", lambda g, x: g * (-2 / _SQRT_PI) * EXP(-x * x))
_function("erfi", "x", lambda g, x: g * (2 / _SQRT_PI) * EXP(x * x))
_function("erfcinv", "y", lambda g, ans: g * (-_SQRT_PI / 2) * EXP(ans * ans))
_function("dawsn", "x", lambda g, x, ans: g * (1 - 2 * x * ans))
_function("ndtri_exp", "y", lambda g, y, ans: g * math.sqrt(2 * _PI) * EXP(y + ans * ans / 2))
_function(
    "owens_t",
    "h a",
    lambda g, h, a: g * ERF(a * h / math.sqrt(2)) * EXP(-h * h / 2) / (-2 * math.sqrt(2 * _PI)),
    lambda g, h, a: g * EXP(-h * h * (1 + a * a) / 2) / (2 * _PI * (1 + a * a)),
)
FRESNEL = (
    _function("fresnel", "x", lambda g, x: g * SIN(_PI / 2 * x * x), output=0),
    _function("fresnel", "x", lambda g, x: g * COS(_PI / 2 * x * x), output=1),
)

# Bessel functions (DLMF 10.6.1, 10.29.1) and Airy functions (DLMF 9.2.1)

JV: Primitive = _function("jv", "v x", None, lambda g, v, x: g * (JV(v - 1, x) - JV(v + 1, x)) / 2)
YV: Primitive = _function("yv", "v x", None, lambda g, v, x: g * (YV(v - 1, x) - YV(v + 1, x)) / 2)
IV: Primitive = _function("iv", "v x", None, lambda g, v, x: g * (IV(v - 1, x) + IV(v + 1, x)) / 2)
KV: Primitive = _function("kv", "v x", None, lambda g, v, x: g * (KV(v - 1, x) + KV(v + 1, x)) / -2)
IVE: Primitive = _function(
    "ive", "v x", None, lambda g, v, x, ans: g * ((IVE(v - 1, x) + IVE(v + 1, x)) / 2 - SIGN(x) * ans)
)
KVE: Primitive = _function("kve", "v x", None, lambda g, v, x, ans: g * (ans - (KVE(v - 1, x) + KVE(v + 1, x)) / 2))
AIRY: tuple[Primitive, ...] = (
    _function("airy", "z", lambda g, z: g * AIRY[1](z), output=0),
    _function("airy", "z", lambda g, z: g * z * AIRY[0](z), output=1),
    _function("airy", "z", lambda g, z: g * AIRY[3](z), output=2),
    _function("airy", "z", lambda g, z: g * z * AIRY[2](z), output=3),
)

# Hypergeometric functions (DLMF 15.5.1, 13.3.15), and what is made of them without a quotient 0 / 0

HYP0F1: Primitive = _function("hyp0f1", "v z", None, lambda g, v, z: g * HYP0F1(v + 1, z) / v)
HYP1F1: Primitive = _function("hyp1f1", "a b x", None, None, lambda g, a, b, x: g * (a / b) * HYP1F1(a + 1, b + 1, x))
HYP2F1: Primitive = _function(
    "hyp2f1",
    "a b c z",
    None,
    None,
    None,
    lambda g, a, b, c, z: g * (a * b / c) * HYP2F1(a + 1, b + 1, c + 1, z),
)
_function("exprel", "x", lambda g, x: g * HYP1F1(2.0, 3.0, x) / 2)
_function("spence", "z", lambda g, z: -g * HYP2F1(1.0, 1.0, 2.0, 1 - z))

# Orthogonal polynomials (DLMF 18.9.15 to 18.9.27)


def _lower(polynomial: Callable[..., Any], n: Any, *rest: Any) -> Any:
    """The polynomial of the next lower degree; 0 for the degree 0 and what is below, whose derivative is 0."""
    least = (n <= 0) & (np.floor(n) == n)
    return WHERE(least, 0.0, polynomial(WHERE(least, 0.0, n - 1), *rest))


def _of_whole_degree(name: str) -> Rule:
    """SciPy has Hermite's polynomials for degrees that are integers by their dtype."""

    def forward(n: Any, x: Any) -> Any:
        function = getattr(library_for(x if hasattr(x, "dtype") else n, name), name)
        result = function(np.asarray(n).astype(np.int64), x)
        return result.astype(x.dtype) if hasattr(x, "dtype") else result

    return forward


JACOBI: Primitive = _function(
    "eval_jacobi",
    "n alpha beta x",
    None,
    None,
    None,
    lambda g, n, alpha, beta, x: g * (n + alpha + beta + 1) / 2 * _lower(JACOBI, n, alpha + 1, beta + 1, x),
)
GEGENBAUER: Primitive = _function(
    "eval_gegenbauer",
    "n alpha x",
    None,
    None,
    lambda g, n, alpha, x: g * 2 * alpha * _lower(GEGENBAUER, n, alpha + 1, x),
)
LAGUERRE: Primitive = _function(
    "eval_genlaguerre", "n alpha x", None, None, lambda g, n, alpha, x: -g * _lower(LAGUERRE, n, alpha + 1, x)
)
_function("eval_laguerre", "n x", None, lambda g, n, x: -g * _lower(LAGUERRE, n, 1.0, x))
_function("eval_legendre", "n x", None, lambda g, n, x: g * (n + 1) / 2 * _lower(JACOBI, n, 1.0, 1.0, x))
_function("eval_chebyt", "n x", None, lambda g, n, x: g * n * _lower(GEGENBAUER, n, 1.0, x))
_function("eval_chebyu", "n x", None, lambda g, n, x: g * 2 * _lower(GEGENBAUER, n, 2.0, x))
HERMITE: Primitive = _function(
    "eval_hermite",
    "n x",
    None,
    lambda g, n, x: g * 2 * n * _lower(HERMITE, n, x),
    forward=_of_whole_degree("eval_hermite"),
)
HERMITENORM: Primitive = _function(
    "eval_hermitenorm",
    "n x",
    None,
    lambda g, n, x: g * n * _lower(HERMITENORM, n, x),
    forward=_of_whole_degree("eval_hermitenorm"),
)

# Elliptic integrals (DLMF 19.4); the derivatives of the incomplete ones by m are 0 / 0 at m = 0

_function("ellipk", "m", lambda g, m: g * (_PI / 8) * HYP2F1(1.5, 1.5, 2.0, m))
_function("ellipkm1", "p", lambda g, p: g * (-_PI / 8) * HYP2F1(1.5, 1.5, 2.0, 1 - p))
_function("ellipe", "m", lambda g, m: g * (-_PI / 8) * HYP2F1(0.5, 1.5, 2.0, m))


def _legendre(phi: Any, m: Any) -> Any:
    """``1 - m sin^2 phi``."""
    sine = SIN(phi)
    return 1 - m * sine * sine


def _slope_of_ellipkinc(g: Any, phi: Any, m: Any, ans: Any) -> Any:
    ends = SIN(2 * phi) * RSQRT(_legendre(phi, m)) / (4 * (1 - m))
    return g * (ELLIPEINC(phi, m) / (2 * m * (1 - m)) - ans / (2 * m) - ends)


ELLIPKINC = _function("ellipkinc", "phi m", lambda g, phi, m: g * RSQRT(_legendre(phi, m)), _slope_of_ellipkinc)
ELLIPEINC: Primitive = _function(
    "ellipeinc",
    "phi m",
    lambda g, phi, m: g * SQRT(_legendre(phi, m)),
    lambda g, phi, m, ans: g * (ans - ELLIPKINC(phi, m)) / (2 * m),
)

# Exponential, sine and cosine integrals (DLMF 6.2, 8.19.13)

_function("expi", "x", lambda g, x: g * EXP(x) / x)
_function("exp1", "x", lambda g, x: -g * EXP(-x) / x)
_function("expn", "n x", None, lambda g, n, x, ans: g * ((n - 1) * ans - EXP(-x)) / x)
SICI = (
    _function("sici", "x", lambda g, x: g * SINC(x / _PI), output=0),
    _function("sici", "x", lambda g, x: g * COS(x) / x, output=1),
)
SHICHI = (
    _function("shichi", "x", lambda g, x: g * HYP0F1(1.5, x * x / 4), output=0),
    _function("shichi", "x", lambda g, x: g * COSH(x) / x, output=1),
)
_function("wrightomega", "z", lambda g, ans: g * ans / (1 + ans))

# Entropies, losses, powers, angles

_function("rel_entr", "x y", lambda g, x, y: g * (LOG(x / y) + 1), lambda g, x, y: -g * x / y)
_function("kl_div", "x y", lambda g, x, y: g * LOG(x / y), lambda g, x, y: g * (1 - x / y))
_function(
    "huber",
    "delta r",
    lambda g, delta, r: g * WHERE(ABS(r) <= delta, 0.0, ABS(r) - delta),
    lambda g, delta, r: g * WHERE(ABS(r) <= delta, r, delta * SIGN(r)),
)
_function(
    "pseudo_huber",
    "delta r",
    lambda g, delta, r, ans: g * (2 * ans / delta - r * r * RSQRT(delta * delta + r * r)),
    lambda g, delta, r: g * r * delta * RSQRT(delta * delta + r * r),
)


def _slope_by_power(logarithm: Any, lam: Any) -> Any:
    """The derivative of ``(e^(lam logarithm) - 1) / lam`` by ``lam``."""
    return logarithm * logarithm * HYP1F1(2.0, 3.0, lam * logarithm) / 2


def _slope_of_inverse(y: Any, lam: Any) -> Any:
    """The derivative of ``log(1 + lam y) / lam`` by ``lam``."""
    return -y * y * HYP2F1(2.0, 2.0, 3.0, -lam * y) / 2


_function("boxcox", "x lam", lambda g, x, lam: g * POW(x, lam - 1), lambda g, x, lam: g * _slope_by_power(LOG(x), lam))
_function(
    "boxcox1p",
    "x lam",
    lambda g, x, lam: g * POW(1 + x, lam - 1),
    lambda g, x, lam: g * _slope_by_power(LOG1P(x), lam),
)
_function(
    "inv_boxcox",
    "y lam",
    lambda g, y, lam, ans: g * ans / (1 + lam * y),
    lambda g, y, lam, ans: g * ans * _slope_of_inverse(y, lam),
)
_function(
    "inv_boxcox1p",
    "y lam",
    lambda g, y, lam, ans: g * (ans + 1) / (1 + lam * y),
    lambda g, y, lam, ans: g * (ans + 1) * _slope_of_inverse(y, lam),
)
_function("powm1", "x y", lambda g, x, y: g * y * POW(x, y - 1), lambda g, x, y, ans: g * (ans + 1) * LOG(x))
_function("cbrt", "x", lambda g, ans: g / (3 * ans * ans))
_function("exp10", "x", lambda g, ans: g * math.log(10) * ans)
_function("cosm1", "x", lambda g, x: -g * SIN(x))
SINDG = _function("sindg", "x", lambda g, x: g * _DEGREE * COSDG(x))
COSDG: Primitive = _function("cosdg", "x", lambda g, x: -g * _DEGREE * SINDG(x))
_function("tandg", "x", lambda g, ans: g * _DEGREE * (1 + ans * ans))
_function("cotdg", "x", lambda g, ans: -g * _DEGREE * (1 + ans * ans))
_function("radian", "d m s", lambda g: g * _DEGREE, lambda g: g * (_DEGREE / 60), lambda g: g * (_DEGREE / 3600))

_function("gammasgn", "x", zero_rule)


def _outputs_of(primitives: tuple[Primitive, ...]) -> Callable[..., tuple[Tensor, ...]]:
    return lambda x: tuple([apply(primitive, (x,), {}) for primitive in primitives])


def _also_complex(ours: Callable[[Tensor], Tensor], theirs: Primitive) -> Callable[[Tensor], Tensor]:
    """Our function of real numbers, SciPy's of complex ones."""
    return lambda x: apply(theirs, (x,), {}) if x.array.dtype.kind == "c" else ours(x)


def _real(primitive: Primitive) -> Callable[..., Tensor]:
    """A function whose derivative does not hold for complex numbers."""

    def function(*inputs: Any) -> Tensor:
        for value in inputs:
            if np.iscomplexobj(value):
                raise NotImplementedError(f"{primitive.name}: is not defined for complex numbers here")
        return apply(primitive, inputs, {})

    return function


def _floor(k: object) -> Any:
    return np.floor(tensors(k)[0])


_OURS = """entr erfcx erfinv exp2 expit expm1 gammaln i0 i0e i1 i1e log1p log_ndtr logit ndtr ndtri psi round xlog1py
    xlogy""".split()  # noqa: SIM905

_PRIMITIVES = {
    "gammainc": IGAMMA, "gammaincc": IGAMMAC, "_zeta": ZETA,  # of which zeta(x, q), a function, is made
    "j0": J0, "j1": J1, "y0": Y0, "y1": Y1, "k0": K0, "k1": K1, "k0e": K0E, "k1e": K1E,
}  # fmt: skip

RULES |= {
    **{name: getattr(special, name) for name in _OURS},
    **{name: _of(primitive) for name, primitive in _PRIMITIVES.items()},
    "erf": _also_complex(special.erf, ERF),
    "erfc": _also_complex(special.erfc, ERFC),
    "log_expit": functional.logsigmoid,
    "ive": _real(IVE),
    "yn": _of_integer_order("yn", YV),
    "kn": _of_integer_order("kn", KV),
    "fresnel": _outputs_of(FRESNEL),
    "sici": _outputs_of(SICI),
    "shichi": _outputs_of(SHICHI),
    "airy": _outputs_of(AIRY),
    "chdtr": lambda v, x: apply(IGAMMA, (v / 2, x / 2), {}),
    "chdtrc": lambda v, x: apply(IGAMMAC, (v / 2, x / 2), {}),
    "gdtr": lambda a, b, x: apply(IGAMMA, (b, a * x), {}),
    "gdtrc": lambda a, b, x: apply(IGAMMAC, (b, a * x), {}),
    "pdtr": lambda k, m: apply(IGAMMAC, (_floor(k) + 1, m), {}),
    "pdtrc": lambda k, m: apply(IGAMMA, (_floor(k) + 1, m), {}),
    "bdtr": lambda k, n, p: apply(BETAINC, (n - _floor(k), _floor(k) + 1, 1 - p), {}),
    "bdtrc": lambda k, n, p: apply(BETAINC, (_floor(k) + 1, n - _floor(k), p), {}),
    "fdtr": lambda dfn, dfd, x: apply(BETAINC, (dfn / 2, dfd / 2, _ratio(dfn, dfd, x)), {}),
    "fdtrc": lambda dfn, dfd, x: apply(BETAINCC, (dfn / 2, dfd / 2, _ratio(dfn, dfd, x)), {}),
}


def is_scipys(ufunc: np.ufunc) -> bool:
    """Whether the ufunc is one of scipy.special, which is imported where its ufuncs are."""
    for name in ("scipy.special", "scipy.special._ufuncs"):
        if getattr(sys.modules.get(name), ufunc.__name__, None) is ufunc:
            return True
    return False
