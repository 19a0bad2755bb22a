"""SciPy's special functions on Tensors: ``scipy.special.beta(a, b)`` is a ufunc, which is looked up by its name.

Functions that exist in Retrograd are called directly; the others are SciPy's with a derivative defined here. This
module does not import SciPy, since a program that calls SciPy's functions has imported it. The derivatives are from the
NIST Digital Library of Mathematical Functions (DLMF), whose section numbers are given.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
from typing import NoReturn

import numpy as np

from ..._generated import functional, special
from ...core.arrays import Array
from ...core.graph.plan import Rule
from ...core.graph.primitive import Primitive, apply
from ...core.tensor.tensor import Tensor
from ..math.arithmetic import ABS, SIGN
from ..math.exponential import EXP, LOG, LOG1P, XLOG1PY, XLOGY
from ..math.powers import POW, RSQRT, SQRT
from ..math.special.bessel import J0, J1, K0, K0E, K1, K1E, Y0, Y1
from ..math.special.gamma import DIGAMMA, LGAMMA
from ..math.special.libraries import from_library, library_for
from ..math.special.orders import by_order, difference, double, step_of
from ..math.special.zeta import IGAMMA, IGAMMAC, ZETA, gamma_slope
from ..math.trigonometric import COS, COSH, SIN, SINC
from ..table.elementwise_primitives import WHERE, elementwise, zero_rule
from .arguments import tensors

_PI = math.pi
_SQRT_PI = math.sqrt(_PI)
_DEGREE = _PI / 180


# By the name of SciPy's ufunc: the function on Tensors.
RULES: dict[str, Rule] = {}


def define(
    name: str,
    inputs: str,
    *rules: Rule | None,
    output: int | None = None,
    forward: Rule | None = None,
    loops: bool = False,
) -> Primitive:
    """Define a SciPy function, or one of its outputs, with the derivative for each input (None if unknown).

    With ``loops``, inputs and result have the dtypes of SciPy's loop, whose inputs may have different dtypes.
    """

    def unknown(g: object) -> NoReturn:
        raise NotImplementedError(
            f"{qualified}: the derivative with respect to this order or degree is not known; detach() the argument"
        )

    def called(*arrays: Array) -> Array:
        return getattr(library_for(arrays[-1] if hasattr(arrays[-1], "dtype") else arrays[0]), name)(*arrays)

    qualified = f"scipy.special.{name}"
    vjps: list[Rule | None] = [rule or unknown for rule in rules]
    forward = forward or (called if loops else from_library(name, output))
    primitive = elementwise(qualified, forward, inputs, vjps, promote=None if loops else "float", signals=True)
    RULES[name] = _of(primitive)
    return primitive


def _of(primitive: Primitive) -> Callable[..., Tensor]:
    return lambda *inputs: apply(primitive, inputs, {})


def _of_integer_order(name: str, primitive: Primitive) -> Callable[..., Tensor]:
    """Define a Bessel function of integer order; for other orders, which SciPy truncates, raise an error."""

    def rule(n: Array, x: Array) -> Tensor:
        order = n.array if isinstance(n, Tensor) else n
        if bool(np.any(order != np.trunc(order))):
            raise ValueError(f"scipy.special.{name}: the orders must be integers; use {name[0]}v for others")
        return apply(primitive, (n, x), {})

    return rule


# Gamma and beta functions (DLMF 5)

define("gamma", "x", lambda g, x, ans: g * ans * DIGAMMA(x))
define("rgamma", "x", lambda g, x, ans: -g * ans * DIGAMMA(x))
define("loggamma", "x", lambda g, x: g * DIGAMMA(x))
define(
    "beta",
    "a b",
    lambda g, a, b, ans: g * ans * (DIGAMMA(a) - DIGAMMA(a + b)),
    lambda g, a, b, ans: g * ans * (DIGAMMA(b) - DIGAMMA(a + b)),
)
BETALN = define(
    "betaln",
    "a b",
    lambda g, a, b: g * (DIGAMMA(a) - DIGAMMA(a + b)),
    lambda g, a, b: g * (DIGAMMA(b) - DIGAMMA(a + b)),
)
define(
    "binom",
    "n k",
    lambda g, n, k, ans: g * ans * (DIGAMMA(n + 1) - DIGAMMA(n - k + 1)),
    lambda g, n, k, ans: g * ans * (DIGAMMA(n - k + 1) - DIGAMMA(k + 1)),
)
define(
    "poch",
    "z m",
    lambda g, z, m, ans: g * ans * (DIGAMMA(z + m) - DIGAMMA(z)),
    lambda g, z, m, ans: g * ans * DIGAMMA(z + m),
)

# Incomplete gamma and beta functions (DLMF 8), distribution functions based on them, and inverses


def _gamma_density(a: Array, x: Array) -> Array:
    return EXP(XLOGY(a - 1, x) - x - LGAMMA(a))


def _beta_density(a: Array, b: Array, x: Array) -> Array:
    return EXP(XLOGY(a - 1, x) + XLOG1PY(b - 1, -x) - BETALN(a, b))


def _gamma_quantile_by_shape(g: Array, a: Array, ans: Array) -> Array:
    return -g * gamma_slope(a, ans) / _gamma_density(a, ans)


def _beta_slopes(a: Array, b: Array, x: Array) -> tuple[Rule, Rule]:
    """Return the derivatives of ``betainc`` with respect to ``a`` and ``b``, from the smaller of it and 1 minus it."""
    a, b, x = double(a), double(b), double(x)

    def part(a: Array, b: Array) -> Array:
        return WHERE(low, BETAINC(a, b, x), -BETAINCC(a, b, x))

    low = x * (a + b) < a
    return (
        lambda: difference(lambda a: part(a, b), a, step_of(x, of=a, growing=True)),
        lambda: difference(lambda b: part(a, b), b, step_of(1 - x, of=b, growing=True)),
    )


def _t_density(df: Array, t: Array) -> Array:
    return EXP(-(df + 1) / 2 * LOG1P(t * t / df) - BETALN(df / 2, 0.5)) * RSQRT(df)


def _t_slope(df: Array, t: Array) -> Array:
    """The derivative of Student's distribution function with respect to ``df``, from the smaller tail."""
    df, t = double(df), double(t)
    tail = difference(lambda df: STDTR(df, -ABS(t)), df, step_of(1 + t * t / df, of=df, growing=True))
    return -np.sign(t) * tail


define("gammaincinv", "a y", _gamma_quantile_by_shape, lambda g, a, ans: g / _gamma_density(a, ans))
define("gammainccinv", "a y", _gamma_quantile_by_shape, lambda g, a, ans: -g / _gamma_density(a, ans))
BETAINC: Primitive = define(
    "betainc",
    "a b x",
    lambda g, a, b, x: g * _beta_slopes(a, b, x)[0](),
    lambda g, a, b, x: g * _beta_slopes(a, b, x)[1](),
    lambda g, a, b, x: g * _beta_density(a, b, x),
)
BETAINCC: Primitive = define(
    "betaincc",
    "a b x",
    lambda g, a, b, x: -g * _beta_slopes(a, b, x)[0](),
    lambda g, a, b, x: -g * _beta_slopes(a, b, x)[1](),
    lambda g, a, b, x: -g * _beta_density(a, b, x),
)
define(
    "betaincinv",
    "a b y",
    lambda g, a, b, ans: -g * _beta_slopes(a, b, ans)[0]() / _beta_density(a, b, ans),
    lambda g, a, b, ans: -g * _beta_slopes(a, b, ans)[1]() / _beta_density(a, b, ans),
    lambda g, a, b, ans: g / _beta_density(a, b, ans),
)
STDTR: Primitive = define("stdtr", "df t", lambda g, df, t: g * _t_slope(df, t), lambda g, df, t: g * _t_density(df, t))
define(
    "stdtrit",
    "df p",
    lambda g, df, ans: -g * _t_slope(df, ans) / _t_density(df, ans),
    lambda g, df, ans: g / _t_density(df, ans),
)


def _ratio(dfn: Array, dfd: Array, x: Array) -> Array:
    return dfn * x / (dfd + dfn * x)


# Error functions (DLMF 7)

ERF = define("erf", "x", lambda g, x: g * (2 / _SQRT_PI) * EXP(-x * x))
ERFC = define("erfc", "x", lambda g, x: g * (-2 / _SQRT_PI) * EXP(-x * x))
define("erfi", "x", lambda g, x: g * (2 / _SQRT_PI) * EXP(x * x))
define("erfcinv", "y", lambda g, ans: g * (-_SQRT_PI / 2) * EXP(ans * ans))
define("dawsn", "x", lambda g, x, ans: g * (1 - 2 * x * ans))
define("ndtri_exp", "y", lambda g, y, ans: g * math.sqrt(2 * _PI) * EXP(y + ans * ans / 2))
define(
    "owens_t",
    "h a",
    lambda g, h, a: g * ERF(a * h / math.sqrt(2)) * EXP(-h * h / 2) / (-2 * math.sqrt(2 * _PI)),
    lambda g, h, a: g * EXP(-h * h * (1 + a * a) / 2) / (2 * _PI * (1 + a * a)),
)
FRESNEL = (
    define("fresnel", "x", lambda g, x: g * SIN(_PI / 2 * x * x), output=0),
    define("fresnel", "x", lambda g, x: g * COS(_PI / 2 * x * x), output=1),
)

# Bessel functions (DLMF 10.6.1, 10.29.1) and Airy functions (DLMF 9.2.1)

JV: Primitive = define("jv", "v x", by_order(lambda: JV), lambda g, v, x: g * (JV(v - 1, x) - JV(v + 1, x)) / 2)
YV: Primitive = define("yv", "v x", by_order(lambda: YV), lambda g, v, x: g * (YV(v - 1, x) - YV(v + 1, x)) / 2)
IV: Primitive = define("iv", "v x", by_order(lambda: IV), lambda g, v, x: g * (IV(v - 1, x) + IV(v + 1, x)) / 2)
KV: Primitive = define("kv", "v x", by_order(lambda: KV), lambda g, v, x: g * (KV(v - 1, x) + KV(v + 1, x)) / -2)
IVE: Primitive = define(
    "ive", "v x", by_order(lambda: IVE), lambda g, v, x, ans: g * ((IVE(v - 1, x) + IVE(v + 1, x)) / 2 - SIGN(x) * ans)
)
KVE: Primitive = define(
    "kve", "v x", by_order(lambda: KVE), lambda g, v, x, ans: g * (ans - (KVE(v - 1, x) + KVE(v + 1, x)) / 2)
)
AIRY: tuple[Primitive, ...] = (
    define("airy", "z", lambda g, z: g * AIRY[1](z), output=0),
    define("airy", "z", lambda g, z: g * z * AIRY[0](z), output=1),
    define("airy", "z", lambda g, z: g * AIRY[3](z), output=2),
    define("airy", "z", lambda g, z: g * z * AIRY[2](z), output=3),
)

# Hypergeometric functions (DLMF 15.5.1, 13.3.15), and functions based on them without a quotient 0 / 0


def _lower_step(b: Array) -> Array:
    """The step of the difference for a parameter at whose values 0, -1, -2, ... the function has poles."""
    return np.minimum(1 / 32, step_of(of=WHERE(b > 0.5, b, ABS(b - np.round(b)))))


def _by_parameter(primitive: Primitive, place: int, step: Array | float, *inputs: Array) -> Array:
    fixed = [double(x) for x in inputs]
    return difference(lambda at: primitive(*fixed[:place], at, *fixed[place + 1 :]), fixed[place], step)


HYP0F1: Primitive = define(
    "hyp0f1",
    "v z",
    lambda g, v, z: g * _by_parameter(HYP0F1, 0, _lower_step(v), v, z),
    lambda g, v, z: g * HYP0F1(v + 1, z) / v,
)
HYP1F1: Primitive = define(
    "hyp1f1",
    "a b x",
    lambda g, a, b, x: g * _by_parameter(HYP1F1, 0, 1 / 32, a, b, x),
    lambda g, a, b, x: g * _by_parameter(HYP1F1, 1, _lower_step(b), a, b, x),
    lambda g, a, b, x: g * (a / b) * HYP1F1(a + 1, b + 1, x),
)
HYP2F1: Primitive = define(
    "hyp2f1",
    "a b c z",
    lambda g, a, b, c, z: g * _by_parameter(HYP2F1, 0, 1 / 32, a, b, c, z),
    lambda g, a, b, c, z: g * _by_parameter(HYP2F1, 1, 1 / 32, a, b, c, z),
    lambda g, a, b, c, z: g * _by_parameter(HYP2F1, 2, _lower_step(c), a, b, c, z),
    lambda g, a, b, c, z: g * (a * b / c) * HYP2F1(a + 1, b + 1, c + 1, z),
)
define("exprel", "x", lambda g, x: g * HYP1F1(2.0, 3.0, x) / 2)
define("spence", "z", lambda g, z: -g * HYP2F1(1.0, 1.0, 2.0, 1 - z))

# Orthogonal polynomials (DLMF 18.9.15 to 18.9.27)


def _lower(polynomial: Rule, n: Array, *rest: Array | float) -> Array:
    """The polynomial of the next lower degree; 0 for the degree 0, whose derivative is 0."""
    constant = np.equal(n, 0)
    return WHERE(constant, 0.0, polynomial(WHERE(constant, 0.0, n - 1), *rest))


def with_integer_first(name: str) -> Rule:
    """Define a function whose first argument must have an integer dtype."""

    def forward(n: Array, x: Array) -> Array:
        function = getattr(library_for(x if hasattr(x, "dtype") else n), name)
        result = function(np.asarray(n).astype(np.int64), x)
        return result.astype(x.dtype) if hasattr(x, "dtype") else result

    return forward


JACOBI: Primitive = define(
    "eval_jacobi",
    "n alpha beta x",
    None,
    None,
    None,
    lambda g, n, alpha, beta, x: g * (n + alpha + beta + 1) / 2 * _lower(JACOBI, n, alpha + 1, beta + 1, x),
)
GEGENBAUER: Primitive = define(
    "eval_gegenbauer",
    "n alpha x",
    None,
    None,
    lambda g, n, alpha, x: g * 2 * alpha * _lower(GEGENBAUER, n, alpha + 1, x),
)
LAGUERRE: Primitive = define(
    "eval_genlaguerre", "n alpha x", None, None, lambda g, n, alpha, x: -g * _lower(LAGUERRE, n, alpha + 1, x)
)
define("eval_laguerre", "n x", None, lambda g, n, x: -g * _lower(LAGUERRE, n, 1.0, x))


def _legendre_slope(g: Array, n: Array, x: Array) -> Array:
    n = np.where(n < 0, -n - 1, n)  # P_n = P_(-n - 1)
    return g * (n + 1) / 2 * _lower(JACOBI, n, 1.0, 1.0, x)


def _chebyt_slope(g: Array, n: Array, x: Array) -> Array:
    n = np.abs(n)  # T_n = T_(-n)
    return g * n * _lower(GEGENBAUER, n, 1.0, x)


def _chebyu_slope(g: Array, n: Array, x: Array) -> Array:
    below = n < -1  # U_n = -U_(-n - 2)
    n = np.where(below, -n - 2, n)
    return g * np.where(below, -2.0, 2.0) * _lower(GEGENBAUER, np.where(np.equal(n, -1), 0.0, n), 2.0, x)


define("eval_legendre", "n x", None, _legendre_slope)
define("eval_chebyt", "n x", None, _chebyt_slope)
define("eval_chebyu", "n x", None, _chebyu_slope)
HERMITE: Primitive = define(
    "eval_hermite",
    "n x",
    None,
    lambda g, n, x: g * 2 * n * _lower(HERMITE, n, x),
    forward=with_integer_first("eval_hermite"),
)
HERMITENORM: Primitive = define(
    "eval_hermitenorm",
    "n x",
    None,
    lambda g, n, x: g * n * _lower(HERMITENORM, n, x),
    forward=with_integer_first("eval_hermitenorm"),
)

# Elliptic integrals (DLMF 19.4); the derivatives of incomplete integrals with respect to m are 0 / 0 at m = 0

define("ellipk", "m", lambda g, m: g * (_PI / 8) * HYP2F1(1.5, 1.5, 2.0, m))
define("ellipkm1", "p", lambda g, p: g * (-_PI / 8) * HYP2F1(1.5, 1.5, 2.0, 1 - p))
define("ellipe", "m", lambda g, m: g * (-_PI / 8) * HYP2F1(0.5, 1.5, 2.0, m))


def _legendre(phi: Array, m: Array) -> Array:
    sine = SIN(phi)
    return 1 - m * sine * sine


def _slope_of_ellipkinc(g: Array, phi: Array, m: Array, ans: Array) -> Array:
    ends = SIN(2 * phi) * RSQRT(_legendre(phi, m)) / (4 * (1 - m))
    return g * (ELLIPEINC(phi, m) / (2 * m * (1 - m)) - ans / (2 * m) - ends)


ELLIPKINC = define("ellipkinc", "phi m", lambda g, phi, m: g * RSQRT(_legendre(phi, m)), _slope_of_ellipkinc)
ELLIPEINC: Primitive = define(
    "ellipeinc",
    "phi m",
    lambda g, phi, m: g * SQRT(_legendre(phi, m)),
    lambda g, phi, m, ans: g * (ans - ELLIPKINC(phi, m)) / (2 * m),
)

# Exponential, sine and cosine integrals (DLMF 6.2, 8.19.13)

define("expi", "x", lambda g, x: g * EXP(x) / x)
define("exp1", "x", lambda g, x: -g * EXP(-x) / x)
define("expn", "n x", None, lambda g, n, x, ans: g * ((n - 1) * ans - EXP(-x)) / x)
SICI = (
    define("sici", "x", lambda g, x: g * SINC(x / _PI), output=0),
    define("sici", "x", lambda g, x: g * COS(x) / x, output=1),
)
SHICHI = (
    define("shichi", "x", lambda g, x: g * HYP0F1(1.5, x * x / 4), output=0),
    define("shichi", "x", lambda g, x: g * COSH(x) / x, output=1),
)
define("wrightomega", "z", lambda g, ans: g * ans / (1 + ans))

# Entropies, losses, powers, angles

define("rel_entr", "x y", lambda g, x, y: g * (LOG(x / y) + 1), lambda g, x, y: -g * x / y)
define("kl_div", "x y", lambda g, x, y: g * LOG(x / y), lambda g, x, y: g * (1 - x / y))
define(
    "huber",
    "delta r",
    lambda g, delta, r: g * WHERE(ABS(r) <= delta, 0.0, ABS(r) - delta),
    lambda g, delta, r: g * WHERE(ABS(r) <= delta, r, delta * SIGN(r)),
)
define(
    "pseudo_huber",
    "delta r",
    lambda g, delta, r, ans: g * (2 * ans / delta - r * r * RSQRT(delta * delta + r * r)),
    lambda g, delta, r: g * r * delta * RSQRT(delta * delta + r * r),
)


def _slope_by_power(logarithm: Array, lam: Array) -> Array:
    """The derivative of ``(e^(lam logarithm) - 1) / lam`` with respect to ``lam``."""
    return logarithm * logarithm * HYP1F1(2.0, 3.0, lam * logarithm) / 2


def _slope_of_inverse(y: Array, lam: Array) -> Array:
    """The derivative of ``log(1 + lam y) / lam`` with respect to ``lam``."""
    return -y * y * HYP2F1(2.0, 2.0, 3.0, -lam * y) / 2


define("boxcox", "x lam", lambda g, x, lam: g * POW(x, lam - 1), lambda g, x, lam: g * _slope_by_power(LOG(x), lam))
define(
    "boxcox1p",
    "x lam",
    lambda g, x, lam: g * POW(1 + x, lam - 1),
    lambda g, x, lam: g * _slope_by_power(LOG1P(x), lam),
)
define(
    "inv_boxcox",
    "y lam",
    lambda g, y, lam, ans: g * ans / (1 + lam * y),
    lambda g, y, lam, ans: g * ans * _slope_of_inverse(y, lam),
)
define(
    "inv_boxcox1p",
    "y lam",
    lambda g, y, lam, ans: g * (ans + 1) / (1 + lam * y),
    lambda g, y, lam, ans: g * (ans + 1) * _slope_of_inverse(y, lam),
)
define("powm1", "x y", lambda g, x, y: g * y * POW(x, y - 1), lambda g, x, y, ans: g * (ans + 1) * LOG(x))
define("cbrt", "x", lambda g, ans: g / (3 * ans * ans))
define("exp10", "x", lambda g, ans: g * math.log(10) * ans)
define("cosm1", "x", lambda g, x: -g * SIN(x))
SINDG = define("sindg", "x", lambda g, x: g * _DEGREE * COSDG(x))
COSDG: Primitive = define("cosdg", "x", lambda g, x: -g * _DEGREE * SINDG(x))
define("tandg", "x", lambda g, ans: g * _DEGREE * (1 + ans * ans))
define("cotdg", "x", lambda g, ans: -g * _DEGREE * (1 + ans * ans))
define("radian", "d m s", lambda g: g * _DEGREE, lambda g: g * (_DEGREE / 60), lambda g: g * (_DEGREE / 3600))

define("gammasgn", "x", zero_rule)


def outputs_of(primitives: tuple[Primitive, ...]) -> Callable[..., tuple[Tensor, ...]]:
    return lambda *inputs: tuple([apply(primitive, inputs, {}) for primitive in primitives])


def _also_complex(ours: Callable[[Tensor], Tensor], theirs: Primitive) -> Callable[[Tensor], Tensor]:
    return lambda x: apply(theirs, (x,), {}) if x.array.dtype.kind == "c" else ours(x)


def real(primitive: Primitive) -> Callable[..., Tensor]:
    """Wrap a function whose derivative is not valid for complex numbers: complex arguments raise an error."""

    def function(*inputs: Array) -> Tensor:
        for value in inputs:
            if np.iscomplexobj(value):
                raise NotImplementedError(f"{primitive.name}: complex Tensors are not supported")
        return apply(primitive, inputs, {})

    return function


def floor(k: object) -> Array:
    return np.floor(tensors(k)[0])


_OURS = """entr erfcx erfinv exp2 expit expm1 gammaln i0 i0e i1 i1e log1p log_ndtr logit ndtr ndtri psi round xlog1py
    xlogy""".split()  # noqa: SIM905

_PRIMITIVES = {
    "gammainc": IGAMMA, "gammaincc": IGAMMAC, "_zeta": ZETA,  # zeta(x, q) is a function that calls _zeta
    "j0": J0, "j1": J1, "y0": Y0, "y1": Y1, "k0": K0, "k1": K1, "k0e": K0E, "k1e": K1E,
}  # fmt: skip

RULES |= {
    **{name: getattr(special, name) for name in _OURS},
    **{name: _of(primitive) for name, primitive in _PRIMITIVES.items()},
    "erf": _also_complex(special.erf, ERF),
    "erfc": _also_complex(special.erfc, ERFC),
    "log_expit": functional.logsigmoid,
    "ive": real(IVE),
    "yn": _of_integer_order("yn", YV),
    "kn": _of_integer_order("kn", KV),
    "fresnel": outputs_of(FRESNEL),
    "sici": outputs_of(SICI),
    "shichi": outputs_of(SHICHI),
    "airy": outputs_of(AIRY),
    "chdtr": lambda v, x: apply(IGAMMA, (v / 2, x / 2), {}),
    "chdtrc": lambda v, x: apply(IGAMMAC, (v / 2, x / 2), {}),
    "gdtr": lambda a, b, x: apply(IGAMMA, (b, a * x), {}),
    "gdtrc": lambda a, b, x: apply(IGAMMAC, (b, a * x), {}),
    "pdtr": lambda k, m: WHERE(floor(k) < 0, math.nan, apply(IGAMMAC, (np.maximum(floor(k), 0.0) + 1, m), {})),
    "pdtrc": lambda k, m: apply(IGAMMA, (floor(k) + 1, m), {}),
    "bdtr": lambda k, n, p: apply(BETAINC, (n - floor(k), floor(k) + 1, 1 - p), {}),
    "bdtrc": lambda k, n, p: apply(BETAINC, (floor(k) + 1, n - floor(k), p), {}),
    "fdtr": lambda dfn, dfd, x: apply(BETAINC, (dfn / 2, dfd / 2, _ratio(dfn, dfd, x)), {}),
    "fdtrc": lambda dfn, dfd, x: apply(BETAINCC, (dfn / 2, dfd / 2, _ratio(dfn, dfd, x)), {}),
}


def is_scipys(ufunc: np.ufunc) -> bool:
    """Return whether a ufunc belongs to scipy.special; the module is already imported if it does."""
    for name in ("scipy.special", "scipy.special._ufuncs", "scipy.special._special_ufuncs"):
        if getattr(sys.modules.get(name), ufunc.__name__, None) is ufunc:
            return True
    return False
