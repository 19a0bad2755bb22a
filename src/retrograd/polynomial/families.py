"""Functions of ``numpy.polynomial`` for Tensors, written once for all six bases by their three-term recurrences.

With ``P[n + 1] = (a[n] x + b[n]) P[n] - c[n] P[n - 1]`` a series is evaluated by Clenshaw's algorithm. The product of
two series is computed by the same algorithm, with the matrix that multiplies a series by ``x`` in place of ``x``.
Derivatives, integrals and conversions are linear in the coefficients; NumPy's results for unit vectors are the columns
of their matrices.
"""

from __future__ import annotations

import functools
import sys
import warnings
from collections.abc import Callable, Sequence
from types import ModuleType
from typing import cast

import numpy as np

from .._generated import functional, linalg
from .._generated import toplevel as ops
from ..core.arrays import Array
from ..core.arrays.devices import Wrapping
from ..core.arrays.dtypes import precision
from ..core.tensor.tensor import Tensor
from ..ops.numpy.arguments import alike, tensor
from ..ops.numpy.rules.linear_algebra import eigenvalues
from ..ops.table.types import Operand
from ..scipy.decorators import ArrayLike, detached, differentiable, floats

Recurrence = Callable[[int], tuple[float, float, float]]


def is_series(value: object) -> bool:
    """Return whether a value is a polynomial of one of NumPy's classes."""
    return hasattr(value, "coef") and hasattr(value, "has_samecoef")


class Family(ModuleType):
    """A module with the functions of a module of ``numpy.polynomial`` for Tensors, such as ``chebyshev.chebval``.

    Without a Tensor among the arguments, NumPy's function is called. Names without a derivative are NumPy's. Zeros at
    the end of the coefficients, which NumPy removes, are preserved, since their derivatives are not zero.

    >>> from retrograd.polynomial import chebyshev
    >>> chebyshev.chebval(0.5, rg.tensor([1.0, 2.0, 3.0]))
    tensor(0.5)
    """

    def __init__(self, name: str, prefix: str, recurrence: Recurrence) -> None:
        super().__init__(f"retrograd.polynomial.{name}", Family.__doc__)
        self.name, self.prefix, self.recurrence = name, prefix, recurrence
        sys.modules[self.__name__] = self  # ``from retrograd.polynomial.chebyshev import chebval`` works

    def __repr__(self) -> str:
        return f"<functions of numpy.polynomial.{self.name} for Tensors>"

    def __dir__(self) -> list[str]:
        return sorted({*dir(self._numpys), *(f"{self.prefix}{name}" for name in _FUNCTIONS)})

    def __getattr__(self, name: str) -> object:
        if name.startswith("__"):
            raise AttributeError(name)
        original = getattr(self._numpys, name)
        chosen: Callable[..., object] | None = _FUNCTIONS.get(name.removeprefix(self.prefix))
        if name in (f"poly2{self.prefix}", f"{self.prefix}2poly"):
            function = functools.partial(cast("Callable[..., object]", _converted), self, name)
        elif name.startswith(self.prefix) and chosen is not None:
            function = functools.partial(chosen, self)
        else:
            return original
        call = differentiable(f"numpy.polynomial.{self.name}", name)(functools.update_wrapper(function, original))
        self.__dict__[name] = call
        return call

    @functools.cached_property
    def _numpys(self) -> ModuleType:
        return getattr(np.polynomial, self.name)

    @functools.lru_cache(64)  # noqa: B019  the six families live as long as the process
    def matrix(self, name: str, n: int, *args: int) -> Array:
        """Return the matrix of NumPy's linear function of ``n`` coefficients."""
        columns = [np.atleast_1d(getattr(self._numpys, name)(unit, *args)) for unit in np.eye(n)]
        length = max(map(len, columns))
        return np.stack([np.pad(column, (0, length - len(column))) for column in columns], 1)

    @functools.lru_cache(64)  # noqa: B019
    def times_x(self, n: int) -> Array:
        """Return the matrix that multiplies a series by x, without the coefficient of degree ``n``."""
        found = np.zeros((n, n))
        for k in range(n):
            a, b, c = self.recurrence(k)
            for row, value in ((k + 1, 1.0), (k, -b), (k - 1, c)):
                if 0 <= row < n and value:
                    found[row, k] = value / a
        return found

    def clenshaw(self, coefficients: Sequence[Tensor], times: Callable[[Tensor], Tensor], one: Tensor) -> Tensor:
        """Return the sum of ``coefficients[k] * P[k](x)`` applied to ``one``; ``times`` multiplies by ``x``."""
        ahead: Tensor | None = None
        total = coefficients[-1] * one
        for k in range(len(coefficients) - 2, -1, -1):
            a, b, _ = self.recurrence(k)
            found = coefficients[k] * one + a * times(total)
            found = found + b * total if b else found
            c = self.recurrence(k + 1)[2]
            ahead, total = total, found - c * ahead if c and ahead is not None else found
        return total


def _series(*values: ArrayLike) -> list[Tensor]:
    return [ops.atleast_1d(x) for x in floats(*values)]


def _constant(array: Array, beside: Tensor) -> Tensor:
    """Return a constant in the precision of a Tensor."""
    return ops.tensor(array, dtype=beside.real.dtype if array.dtype.kind != "c" else beside.dtype, device=beside.device)


def _along(matrix: Array, c: Tensor, axis: int = 0) -> Tensor:
    moved = ops.movedim(c, axis, 0)
    constant = _constant(matrix, c).astype(c.dtype)
    result = ops.matmul(constant, moved.reshape(moved.shape[0], -1)).reshape(matrix.shape[0], *moved.shape[1:])
    return ops.movedim(result, 0, axis)


def _val(self: Family, x: ArrayLike, c: ArrayLike, tensor: bool = True) -> Tensor:
    if is_series(x):  # a composition of series
        series = cast("Tensor", x)
        return self.clenshaw(list(_series(c)[0]), lambda total: series * total, series**0)
    points, coefficients = floats(x, _series(c)[0])
    if tensor:
        coefficients = coefficients.reshape(tuple(coefficients.shape) + (1,) * points.ndim)
    return self.clenshaw(ops.unbind(coefficients), lambda total: points * total, ops.ones_like(points))


def _val_nd(self: Family, *args: ArrayLike) -> Tensor:
    *points, c = args
    places = ops.broadcast_tensors(*floats(*points))
    result = _val(self, places[0], c)
    for place in places[1:]:
        result = _val(self, place, result, tensor=False)
    return result


def _grid(self: Family, *args: ArrayLike) -> Tensor:
    *points, c = args
    return functools.reduce(lambda total, place: _val(self, place, total), points, _series(c)[0])


def _vander(self: Family, x: ArrayLike, deg: int) -> Tensor:
    if deg < 0 or deg != int(deg):
        raise ValueError("deg must be non-negative")
    (points,) = _series(x)
    values = [ops.ones_like(points)]
    for k in range(int(deg)):
        a, b, c = self.recurrence(k)
        following = a * points * values[-1]
        following = following + b * values[-1] if b else following
        values.append(following - c * values[-2] if c and k else following)
    return ops.stack(values, -1)


def _vander_nd(self: Family, *args: ArrayLike) -> Tensor:
    *points, last = args
    degrees = np.atleast_1d(np.asarray(last, int))
    if len(degrees) != len(points):
        raise ValueError(f"expected {len(points)} degrees, got {len(degrees)}")
    factors = [_vander(self, x, n) for x, n in zip(ops.broadcast_tensors(*_series(*points)), degrees, strict=True)]
    result = factors[0]
    for factor in factors[1:]:
        result = (result[..., :, None] * factor[..., None, :]).reshape(*result.shape[:-1], -1)
    return result


def _padded(x: Tensor, length: int) -> Tensor:
    return functional.pad(x, [0, length - len(x)])


def _add(self: Family, c1: ArrayLike, c2: ArrayLike) -> Tensor:
    x, y = _series(c1, c2)
    length = max(len(x), len(y))
    return _padded(x, length) + _padded(y, length)


def _sub(self: Family, c1: ArrayLike, c2: ArrayLike) -> Tensor:
    return _add(self, c1, -_series(c2)[0])


def _mul(self: Family, c1: ArrayLike, c2: ArrayLike) -> Tensor:
    x, y = _series(c1, c2)
    x, y = (x, y) if len(x) <= len(y) else (y, x)
    length = len(x) + len(y) - 1
    matrix = _constant(self.times_x(length), y).astype(y.dtype)
    return self.clenshaw(ops.unbind(x), lambda total: ops.matmul(matrix, total), _padded(y, length))


def _mulx(self: Family, c: ArrayLike) -> Tensor:
    (x,) = _series(c)
    return _along(self.times_x(len(x) + 1), _padded(x, len(x) + 1))


def _div(self: Family, c1: ArrayLike, c2: ArrayLike) -> tuple[Tensor, Tensor]:
    rest, divisor = _series(c1, c2)
    if not isinstance(divisor.array, Wrapping) and not divisor[-1].item():
        raise ZeroDivisionError
    quotient: list[Tensor] = []
    for k in range(len(rest) - len(divisor), -1, -1):
        product = _mul(self, np.eye(k + 1)[k], divisor)
        quotient.insert(0, rest[-1] / product[-1])
        rest = rest[:-1] - quotient[0] * product[:-1]
    nothing = ops.zeros_like(divisor[:1])
    return ops.stack(quotient) if quotient else nothing, rest if len(rest) else nothing


def _pow(self: Family, c: ArrayLike, pow: int, maxpower: int | None = 16) -> Tensor:
    if pow != int(pow) or pow < 0 or maxpower is not None and pow > maxpower:
        raise ValueError("Power must be a non-negative integer" if pow != int(pow) or pow < 0 else "Power is too large")
    (x,) = _series(c)
    return functools.reduce(lambda total, _: _mul(self, total, x), range(int(pow)), ops.ones_like(x[:1]))


def _der(self: Family, c: ArrayLike, m: int = 1, scl: Operand = 1, axis: int = 0) -> Tensor:
    (x,) = _series(c)
    return _along(self.matrix(f"{self.prefix}der", x.shape[axis], m), x, axis) * _tensor(scl) ** m if m else x


def _int(
    self: Family, c: ArrayLike, m: int = 1, k: ArrayLike = (), lbnd: Operand = 0, scl: Operand = 1, axis: int = 0
) -> Tensor:  # fmt: skip
    (x,) = _series(c)
    constants = list(ops.atleast_1d(alike(x, k)[1])) if np.size(k) else []
    if m < 0 or len(constants) > m:
        raise ValueError("Too many integration constants")
    x = ops.movedim(x, axis, 0)
    for constant in constants + [ops.zeros_like(x[:1].sum())] * (m - len(constants)):
        x = _along(self.matrix(f"{self.prefix}int", len(x)), x) * scl
        x = ops.cat([x[:1] + (constant - _val(self, lbnd, x)), x[1:]])
    return ops.movedim(x, 0, axis)


def _line(self: Family, off: ArrayLike, scl: ArrayLike) -> Tensor:
    start, slope = floats(off, scl)
    a, b, _ = self.recurrence(0)
    return ops.stack([start - slope * (b / a), slope / a])


def _companion(self: Family, c: ArrayLike) -> Tensor:
    """Return the companion matrix of ``P[n]``, minus multiples of ``c[i] / c[n]`` in the last column."""
    (x,) = _series(c)
    n = len(x) - 1
    if n < 1:
        raise ValueError("Series must have maximum degree of at least 1.")
    function = getattr(self._numpys, f"{self.prefix}companion")
    start = function(np.eye(n + 1)[n])
    column = (start - function(np.ones(n + 1)))[:, -1]
    last = _constant(np.eye(n)[n - 1], x)
    return _constant(start, x) - (_constant(column, x) * x[:-1] / x[-1])[:, None] * last


def _roots(self: Family, c: ArrayLike) -> Tensor:
    (x,) = _series(c)
    if not isinstance(x.array, Wrapping):
        kept = np.flatnonzero(detached(x))
        x = x[: int(kept[-1]) + 1 if len(kept) else 1]
    if len(x) < 2:
        return x[:0]
    found = eigenvalues(ops.flip(_companion(self, x), (0, 1)))
    return found if isinstance(found.array, Wrapping) else found[np.argsort(detached(found))]


def _fromroots(self: Family, roots: ArrayLike) -> Tensor:
    (zeros,) = _series(roots)
    lines = [_line(self, -zero, ops.ones_like(zero)) for zero in zeros]
    return functools.reduce(lambda total, line: _mul(self, total, line), lines, ops.ones(1, dtype=zeros.dtype))


def _fit(
    self: Family,
    x: ArrayLike,
    y: ArrayLike,
    deg: int | Sequence[int],
    rcond: float | None = None,
    full: bool = False,
    w: ArrayLike | None = None,
) -> Tensor | tuple[Tensor, list[object]]:
    """Solve the least-squares problem of the Vandermonde matrix, whose columns are scaled to length 1."""
    places, values = _series(x, y)
    degrees = np.arange(deg + 1) if isinstance(deg, (int, np.integer)) else np.sort(deg)
    if places.ndim != 1 or values.ndim not in (1, 2) or len(places) != len(values) or degrees[0] < 0:
        raise ValueError("expected x, y and deg of matching shapes")
    rows = _vander(self, places, int(degrees[-1]))[:, degrees]
    values = values if values.ndim == 2 else values[:, None]
    if w is not None:
        weights = _series(w)[0]
        rows, values = rows * weights[:, None], values * weights[:, None]
    scale = ops.sqrt((rows * rows.conj()).real.sum(0))
    if not isinstance(scale.array, Wrapping):
        scale = ops.where(scale == 0, 1.0, scale)
    cutoff = len(places) * precision(places.array.dtype) if rcond is None else rcond
    found = ops.matmul(linalg.pinv(rows / scale, rtol=cutoff), values) / scale[:, None]
    status: list[object] = []
    if not isinstance(rows.array, Wrapping):
        singular = linalg.svdvals(rows / scale)
        rank = int((singular > cutoff * singular[0]).sum())
        exact = rank < len(degrees) or len(rows) <= len(degrees)
        residual = ((values - ops.matmul(rows, found)).abs() ** 2).sum(0)
        status = [residual[:0] if exact else residual, rank, singular, precision]
        if rank != len(degrees) and not full:
            warnings.warn("The fit may be poorly conditioned", np.exceptions.RankWarning, stacklevel=4)
    found = _along(np.eye(int(degrees[-1]) + 1)[:, degrees], found)
    found = found if _tensor(y).ndim == 2 else found[:, 0]
    return (found, status) if full else found


def _converted(self: Family, name: str, c: ArrayLike) -> Tensor:
    (x,) = _series(c)
    return _along(self.matrix(name, len(x)), x)


_tensor = tensor  # NumPy's function has a parameter of this name

_FUNCTIONS: dict[str, Callable[..., object]] = {
    "add": _add, "companion": _companion, "der": _der, "div": _div, "fit": _fit, "fromroots": _fromroots,
    "grid2d": _grid, "grid3d": _grid, "int": _int, "line": _line, "mul": _mul, "mulx": _mulx, "pow": _pow,
    "roots": _roots, "sub": _sub, "val": _val, "val2d": _val_nd, "val3d": _val_nd, "vander": _vander,
    "vander2d": _vander_nd, "vander3d": _vander_nd,
}  # fmt: skip


polynomial = Family("polynomial", "poly", lambda n: (1.0, 0.0, 0.0))
chebyshev = Family("chebyshev", "cheb", lambda n: (2.0 if n else 1.0, 0.0, 1.0 if n else 0.0))
legendre = Family("legendre", "leg", lambda n: ((2 * n + 1) / (n + 1), 0.0, n / (n + 1)))
laguerre = Family("laguerre", "lag", lambda n: (-1 / (n + 1), (2 * n + 1) / (n + 1), n / (n + 1)))
hermite = Family("hermite", "herm", lambda n: (2.0, 0.0, 2.0 * n))
hermite_e = Family("hermite_e", "herme", lambda n: (1.0, 0.0, float(n)))
