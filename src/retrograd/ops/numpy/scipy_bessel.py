"""Further ufuncs of scipy.special on Tensors: functions of order ``n``, of complex numbers, integrals and inverses.

The derivatives are from the NIST Digital Library of Mathematical Functions (DLMF), whose section numbers are given.
"""

from __future__ import annotations

import math

import numpy as np

from ...core.arrays import Array
from ...core.graph.plan import Rule
from ...core.graph.primitive import Primitive, apply
from ...core.tensor.tensor import Tensor
from ..math.exponential import EXP
from ..math.powers import POW, SQRT
from ..math.special.bessel import J0, K0, Y0
from ..math.special.orders import by_order
from ..table.elementwise_primitives import WHERE
from .arguments import tensor
from .scipy_special import AIRY, BETAINC, ELLIPEINC, IV, RULES, define, floor, outputs_of, real, with_integer_first

_PI = math.pi
_SQRT_PI = math.sqrt(_PI)

# Lambert's function (DLMF 4.13.4), the Faddeeva function (7.10.2) and the Voigt profile

LAMBERTW = define("lambertw", "z k tol", lambda g, ans: g * EXP(-ans) / (1 + ans), None, None, loops=True)
RULES["_lambertw"] = RULES.pop("lambertw")
WOFZ: Primitive = define("wofz", "z", lambda g, z, ans: g * (2j / _SQRT_PI - 2 * z * ans))


def _faddeeva(x: Array, sigma: Array, gamma: Array) -> tuple[Array, Array]:
    """Return ``z = (x + i gamma) / (sigma sqrt(2))`` and the derivative of the Faddeeva function at z."""
    z = (x + 1j * gamma) / (math.sqrt(2) * sigma)
    return z, 2j / _SQRT_PI - 2 * z * WOFZ(z)


def _voigt_by_sigma(g: Array, x: Array, sigma: Array, gamma: Array, ans: Array) -> Array:
    z, slope = _faddeeva(x, sigma, gamma)
    return -g * (ans + (z * slope).real / (math.sqrt(2 * _PI) * sigma)) / sigma


define(
    "voigt_profile",
    "x sigma gamma",
    lambda g, x, sigma, gamma: g * _faddeeva(x, sigma, gamma)[1].real / (2 * _SQRT_PI * sigma * sigma),
    _voigt_by_sigma,
    lambda g, x, sigma, gamma: -g * _faddeeva(x, sigma, gamma)[1].imag / (2 * _SQRT_PI * sigma * sigma),
)

# Bessel, Hankel, Struve and Kelvin functions (DLMF 10.6.1, 11.4.24, 11.4.25, 10.61)

JVE: Primitive = define("jve", "v x", by_order(lambda: JVE), lambda g, v, x: g * (JVE(v - 1, x) - JVE(v + 1, x)) / 2)
YVE: Primitive = define("yve", "v x", by_order(lambda: YVE), lambda g, v, x: g * (YVE(v - 1, x) - YVE(v + 1, x)) / 2)
RULES |= {"jve": real(JVE), "yve": real(YVE)}


def _hankel(name: str, factor: complex) -> None:
    """Define Hankel's function times ``exp(-factor x)``; the derivative contains ``-factor`` times the result."""

    def slope(g: Array, v: Array, x: Array, ans: Array) -> Array:
        return g * ((primitive(v - 1, x) - primitive(v + 1, x)) / 2 - factor * ans)

    primitive: Primitive = define(name, "v x", by_order(lambda: primitive), slope, loops=True)


for _name, _factor in (("hankel1", 0), ("hankel2", 0), ("hankel1e", 1j), ("hankel2e", -1j)):
    _hankel(_name, _factor)


def _struve_excess(v: Array, x: Array) -> Array:
    """``(x / 2)^v / (sqrt(pi) gamma(v + 3/2))``."""
    return POW(x / 2, v) * RULES["rgamma"](v + 1.5) / _SQRT_PI


STRUVE: Primitive = define(
    "struve",
    "v x",
    by_order(lambda: STRUVE),
    lambda g, v, x: g * (STRUVE(v - 1, x) - STRUVE(v + 1, x) + _struve_excess(v, x)) / 2,
)
MODSTRUVE: Primitive = define(
    "modstruve",
    "v x",
    by_order(lambda: MODSTRUVE),
    lambda g, v, x: g * (MODSTRUVE(v - 1, x) + MODSTRUVE(v + 1, x) + _struve_excess(v, x)) / 2,
)

BER: Primitive = define("ber", "x", lambda g, x: g * BERP(x))
BEI: Primitive = define("bei", "x", lambda g, x: g * BEIP(x))
KER: Primitive = define("ker", "x", lambda g, x: g * KERP(x))
KEI: Primitive = define("kei", "x", lambda g, x: g * KEIP(x))
BERP: Primitive = define("berp", "x", lambda g, x, ans: -g * (BEI(x) + ans / x))
BEIP: Primitive = define("beip", "x", lambda g, x, ans: g * (BER(x) - ans / x))
KERP: Primitive = define("kerp", "x", lambda g, x, ans: -g * (KEI(x) + ans / x))
KEIP: Primitive = define("keip", "x", lambda g, x, ans: g * (KER(x) - ans / x))


def _kelvin(x: Array) -> tuple[Tensor, ...]:
    at = tensor(x)
    return tuple([a(at) + 1j * b(at) for a, b in ((BER, BEI), (KER, KEI), (BERP, BEIP), (KERP, KEIP))])


RULES["kelvin"] = _kelvin

# Spherical Bessel functions (DLMF 10.51), whose order is an integer


# By name, the function and its derivative, as functions of an order and a point; SciPy's functions convert to arrays.
SPHERICAL: dict[str, tuple[Rule, Rule]] = {}


def _spherical(name: str, below: int, above: int) -> None:
    """``f_n' = (below n f_(n - 1) + above (n + 1) f_(n + 1)) / (2 n + 1)``, which is finite at 0."""

    def slope(n: Array, x: Array) -> Array:
        lower = primitive(np.maximum(n - 1, 0), x)  # for n = 0 this term has the factor 0
        result = (below * n * lower + above * (n + 1) * primitive(n + 1, x)) / (2 * n + 1)
        return WHERE(n < 0, math.nan, result) if np.any(n < 0) else result

    primitive: Primitive = define(
        name, "n x", None, lambda g, n, x: g * slope(n, x), loops=True, forward=with_integer_first(name)
    )
    del RULES[name]
    RULES["_" + name] = lambda n, x: apply(primitive, (_in_dtype_of(n, x), x), {})
    RULES[f"_{name}_d"] = lambda n, x: slope(_in_dtype_of(n, x), x)
    SPHERICAL[name] = RULES["_" + name], RULES[f"_{name}_d"]


def _in_dtype_of(n: Array, x: Array) -> Array:
    """The orders in the dtype of the point, so that they do not affect promotion."""
    orders = np.asarray(n.array if isinstance(n, Tensor) else n)
    if bool((orders != np.trunc(orders)).any()):
        raise ValueError(f"the orders of spherical Bessel functions must be integers, got {orders}")
    return orders.astype(tensor(x).array.real.dtype)


for _name, _below, _above in (("jn", 1, -1), ("yn", 1, -1), ("in", 1, 1), ("kn", -1, -1)):
    _spherical(f"spherical_{_name}", _below, _above)

# Airy functions times exponentials, of real numbers (DLMF 9.2.1), and integrals of Airy, Bessel and Struve functions


def _root(z: Array) -> Array:
    return WHERE(z > 0, SQRT(WHERE(z > 0, z, 1.0)), 0.0)


AIRYE: tuple[Primitive, ...] = (
    define("airye", "z", lambda g, z, ans: g * (AIRYE[1](z) + _root(z) * ans), output=0),
    define("airye", "z", lambda g, z, ans: g * (z * AIRYE[0](z) + _root(z) * ans), output=1),
    define("airye", "z", lambda g, z, ans: g * (AIRYE[3](z) - _root(z) * ans), output=2),
    define("airye", "z", lambda g, z, ans: g * (z * AIRYE[2](z) - _root(z) * ans), output=3),
)
RULES["airye"] = outputs_of(AIRYE)

_INTEGRANDS: dict[str, tuple[Rule, ...]] = {
    "itj0y0": (lambda g, x: g * J0(x), lambda g, x: g * Y0(x)),
    "iti0k0": (lambda g, x: g * IV(0.0, x), lambda g, x: g * K0(x)),
    "it2j0y0": (lambda g, x: g * (1 - J0(x)) / x, lambda g, x: -g * Y0(x) / x),
    "it2i0k0": (lambda g, x: g * (IV(0.0, x) - 1) / x, lambda g, x: -g * K0(x) / x),
    "itairy": (
        lambda g, x: g * AIRY[0](x),
        lambda g, x: g * AIRY[2](x),
        lambda g, x: g * AIRY[0](-x),
        lambda g, x: g * AIRY[2](-x),
    ),
}
for _name, _rules in _INTEGRANDS.items():
    RULES[_name] = outputs_of(tuple([define(_name, "x", rule, output=i) for i, rule in enumerate(_rules)]))

define("itstruve0", "x", lambda g, x: g * STRUVE(0.0, x))
define("it2struve0", "x", lambda g, x: -g * STRUVE(0.0, x) / x)
define("itmodstruve0", "x", lambda g, x: g * MODSTRUVE(0.0, x))

# Jacobi's elliptic functions (DLMF 22.13.1; derivative with respect to m: Lawden, Elliptic Functions, 3.10)


def _elliptic(u: Array, m: Array) -> tuple[Array, Array, Array, Array]:
    """Return ``sn``, ``cn``, ``dn``, and the derivative of the amplitude with respect to ``m``, divided by ``dn``."""
    sn, cn, dn, ph = [ELLIPJ[i](u, m) for i in range(4)]
    return sn, cn, dn, ((1 - m) * u - ELLIPEINC(ph, m) + m * sn * cn / dn) / (2 * m * (1 - m))


def _sn_by_m(g: Array, u: Array, m: Array) -> Array:
    _, cn, dn, a = _elliptic(u, m)
    return g * cn * dn * a


def _cn_by_m(g: Array, u: Array, m: Array) -> Array:
    sn, _, dn, a = _elliptic(u, m)
    return -g * sn * dn * a


def _dn_by_m(g: Array, u: Array, m: Array) -> Array:
    sn, cn, dn, a = _elliptic(u, m)
    return -g * (sn * sn / (2 * dn) + m * sn * cn * a)


def _ph_by_m(g: Array, u: Array, m: Array) -> Array:
    _, _, dn, a = _elliptic(u, m)
    return g * dn * a


ELLIPJ: tuple[Primitive, ...] = (
    define("ellipj", "u m", lambda g, u, m: g * ELLIPJ[1](u, m) * ELLIPJ[2](u, m), _sn_by_m, output=0),
    define("ellipj", "u m", lambda g, u, m: -g * ELLIPJ[0](u, m) * ELLIPJ[2](u, m), _cn_by_m, output=1),
    define("ellipj", "u m", lambda g, u, m: -g * m * ELLIPJ[0](u, m) * ELLIPJ[1](u, m), _dn_by_m, output=2),
    define("ellipj", "u m", lambda g, u, m: g * ELLIPJ[2](u, m), _ph_by_m, output=3),
)
RULES["ellipj"] = outputs_of(ELLIPJ)


def _agm(a: Array, b: Array) -> Array:
    """The arithmetic-geometric mean as a complete elliptic integral (DLMF 19.8.5)."""
    total = a + b
    return _PI / 4 * total / RULES["ellipkm1"](4 * a * b / (total * total))


RULES["agm"] = _agm

# Parabolic cylinder functions (DLMF 12.2.2), Tricomi's function (13.3.22) and Legendre's on the cut (14.10.5)


def _parabolic(name: str, curvature: Rule) -> None:
    """Define a solution of ``w'' = curvature(v, x) w`` and its derivative."""
    pair: tuple[Primitive, ...] = (
        define(name, "v x", None, lambda g, v, x: g * pair[1](v, x), output=0),
        define(name, "v x", None, lambda g, v, x: g * curvature(v, x) * pair[0](v, x), output=1),
    )
    RULES[name] = outputs_of(pair)


_parabolic("pbdv", lambda v, x: x * x / 4 - v - 0.5)
_parabolic("pbvv", lambda v, x: x * x / 4 - v - 0.5)
_parabolic("pbwa", lambda a, x: a - x * x / 4)
HYPERU: Primitive = define("hyperu", "a b x", None, None, lambda g, a, b, x: -g * a * HYPERU(a + 1, b + 1, x))
LPMV: Primitive = define(
    "lpmv",
    "m v x",
    None,
    None,
    lambda g, m, v, x, ans: g * ((m - v - 1) * LPMV(m, v + 1, x) + (v + 1) * x * ans) / (1 - x * x),
)

# Polynomials in a shifted or scaled variable (DLMF 18.7, 18.1.3)

RULES |= {
    f"eval_sh_{name}": (lambda of: lambda n, x: RULES[of](n, 2 * tensor(x) - 1))(f"eval_{name}")
    for name in ("legendre", "chebyt", "chebyu")
}
RULES |= {
    "eval_chebyc": lambda n, x: 2 * RULES["eval_chebyt"](n, tensor(x) / 2),
    "eval_chebys": lambda n, x: RULES["eval_chebyu"](n, tensor(x) / 2),
    "eval_sh_jacobi": lambda n, p, q, x: (
        RULES["eval_jacobi"](n, p - q, q - 1, 2 * tensor(x) - 1) / RULES["binom"](2 * n + p - 1, n)
    ),
}

# Inverses of distribution functions, and the negative binomial distribution


def _fdtri(dfn: Array, dfd: Array, p: Array) -> Array:
    y = RULES["betaincinv"](dfn / 2, dfd / 2, p)
    return dfd * y / (dfn * (1 - y))


RULES |= {
    "betainccinv": lambda a, b, y: 1 - RULES["betaincinv"](b, a, y),
    "chdtri": lambda v, p: 2 * RULES["gammainccinv"](v / 2, p),
    "gdtrix": lambda a, b, p: RULES["gammaincinv"](b, p) / a,
    "fdtri": _fdtri,
    "bdtri": lambda k, n, y: 1 - RULES["betaincinv"](n - floor(k), floor(k) + 1, y),
    "pdtri": lambda k, y: RULES["gammainccinv"](floor(k) + 1, y),
    "nbdtr": lambda k, n, p: apply(BETAINC, (n, floor(k) + 1, p), {}),
    "nbdtrc": lambda k, n, p: apply(BETAINC, (floor(k) + 1, n, 1 - p), {}),
    "nbdtri": lambda k, n, y: RULES["betaincinv"](n, floor(k) + 1, y),
}
