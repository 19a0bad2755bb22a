"""Functions of scipy.integrate on Tensors: initial value problems, adaptive quadrature, and rules for samples."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Sequence
from math import inf, isinf
from typing import TYPE_CHECKING, Any

import numpy as np

from .._generated import toplevel as ops
from ..core.arrays import Array
from ..core.graph.modes import no_grad
from ..core.tensor.tensor import Tensor, new_tensor
from ..ode.integrate import solve
from ..ode.solution import Solution
from ..ode.system import SolveError, Times
from ..ops.numpy.arguments import tensor
from ..ops.table.types import Operand
from .decorators import ArrayLike, Function, detached, differentiable, floating_tensor, has_tensor, other_names, scipys
from .quadrature import Integral, adaptive, one_number

__all__ = [
    "cumulative_simpson", "cumulative_trapezoid", "dblquad", "fixed_quad", "odeint", "quad", "quad_vec", "romb",
    "simpson", "solve_ivp", "trapezoid",
]  # fmt: skip

__getattr__ = other_names(__name__)

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult

# Initial value problems

_METHODS = {
    "RK45": "dopri5", "RK23": "bosh3", "DOP853": "dopri8", "Radau": "kvaerno5", "BDF": "kvaerno5", "LSODA": "kvaerno5",
}  # fmt: skip


def _is_ours(fun: Function, *values: object, call: Callable[[], object]) -> bool:
    """Return whether the values or the result of ``call()`` contain a Tensor (the result, if ``fun`` reads one)."""
    if has_tensor(values):
        return True
    with no_grad():
        return has_tensor([call()])


def solve_ivp(
    fun: Function,
    t_span: Sequence[Operand],
    y0: ArrayLike,
    method: str = "RK45",
    t_eval: Iterable[Operand] | None = None,
    dense_output: bool = False,
    events: Function | Sequence[Function] | None = None,
    vectorized: bool = False,
    args: Iterable[object] | None = None,
    **options: Any,
) -> OptimizeResult:
    """Solve an initial value problem, as scipy.integrate.solve_ivp, by the solvers of ``retrograd.ode``.

    ``y``, ``sol``, ``t_events`` and ``y_events`` of the result are differentiable with respect to y0, args, times, and
    Tensors that ``fun`` reads. "RK45" is ``dopri5``, "RK23" ``bosh3``, "DOP853" ``dopri8``; "Radau", "BDF" and "LSODA"
    are the method ``kvaerno5`` for stiff systems. The steps are not bitwise equal to SciPy's.

    Args:
        options: rtol (by default 1e-3), atol (1e-6), first_step, max_step; other options, as ``jac``, are ignored.

    Raises:
        SolveError: the integration did not reach the end. SciPy returns a result with ``success=False``.

    >>> from retrograd.scipy import integrate
    >>> rate = rg.tensor(2.0, requires_grad=True)
    >>> result = integrate.solve_ivp(lambda t, y, a: -a * y, (0, 1), [1.0], args=(rate,), rtol=1e-6)
    >>> result.y[:, -1]
    tensor([0.1353], dtype=float64, grad_fn=<getitem>)
    """
    given = () if args is None else tuple(args)
    scipy = scipys("scipy.integrate")

    def call() -> ArrayLike:
        return fun(detached(t_span[0]), np.asarray(detached(y0), float), *given)

    if not _is_ours(fun, t_span, y0, t_eval, given, call=call):
        return scipy.solve_ivp(fun, t_span, y0, method, t_eval, dense_output, events, vectorized, args, **options)
    if method not in _METHODS:
        raise ValueError(f"solve_ivp: method must be one of {', '.join(_METHODS)}, got {method!r}")
    known = {name: options[name] for name in ("first_step", "max_step") if options.get(name) is not None}
    start, end = t_span
    times = [start, end] if t_eval is None else _inside(start, end, t_eval)
    functions = [events] if callable(events) else list(events or [])
    solution = solve(
        _with_arrays(fun), floating_tensor(y0), times, given, method=_METHODS[method], rtol=options.get("rtol", 1e-3),
        atol=options.get("atol", 1e-6), events=functions, dense=dense_output, every_step=t_eval is None, **known,
    )  # fmt: skip
    y, t = solution.y, solution.t
    if t_eval is not None:
        first, last = _evaluation_range(times, solution)
        y, t = y[first:last], t[first:last]
    return _result(solution, t, y, functions)


def _with_arrays(fun: Function) -> Callable[..., Tensor]:
    """Wrap a function, which may return a list of numbers, in a function that returns a Tensor."""

    def f(t: Tensor, y: Tensor, *args: object) -> Tensor:
        value = fun(t, y, *args)
        found = value if isinstance(value, Tensor) else tensor(value)
        return found.reshape(y.shape) if found.shape != y.shape and found.array.size == y.array.size else found

    return f


def _inside(start: Operand, end: Operand, t_eval: Iterable[Operand]) -> list[Operand]:
    values = list(t_eval)
    numbers = [float(detached(x)) for x in (start, *values, end)]
    low, high = sorted((numbers[0], numbers[-1]))
    if not all(low <= x <= high for x in numbers):
        raise ValueError("solve_ivp: values in `t_eval` are not within `t_span`")
    return [start, *values, end]


def _evaluation_range(times: Sequence[Operand], solution: Solution) -> tuple[int, int]:
    """Return the first and the end index of the times ``t_eval`` among all times that the solver reached."""
    count = len(times) - 2
    reached = solution.t.shape[0] - (solution.status == 1)
    return 1, min(1 + count, reached)


def _result(solution: Solution, t: Tensor, y: Tensor, functions: list[Function]) -> OptimizeResult:
    from scipy.optimize import OptimizeResult

    def dense(t: ArrayLike) -> Tensor:
        found: Tensor = solution(t)
        return found.movedim(0, -1) if found.ndim > 1 else found

    messages = "The solver successfully reached the end of the integration interval.", "A termination event occurred."
    return OptimizeResult(
        t=t, y=y.movedim(0, -1), sol=None if solution.dense is None else dense,
        t_events=solution.t_events if functions else None, y_events=solution.y_events if functions else None,
        nfev=solution.evaluations, njev=solution.jacobians, nlu=solution.jacobians, status=solution.status,
        message=messages[solution.status], success=True,
    )  # fmt: skip


def odeint(
    func: Function,
    y0: ArrayLike,
    t: Times,
    args: object = (),
    Dfun: Function | None = None,
    col_deriv: int = 0,
    full_output: int = 0,
    ml: int | None = None,
    mu: int | None = None,
    rtol: float | None = None,
    atol: ArrayLike | None = None,
    tcrit: ArrayLike | None = None,
    h0: float = 0.0,
    hmax: float = 0.0,
    hmin: float = 0.0,
    ixpr: int = 0,
    mxstep: int = 0,
    mxhnil: int = 0,
    mxordn: int = 12,
    mxords: int = 5,
    printmessg: int = 0,
    tfirst: bool = False,
) -> Tensor | Array | tuple[Array, dict[str, object]]:
    """Solve an initial value problem at the times ``t``, as scipy.integrate.odeint: ``dy/dt = func(y, t, *args)``.

    The method is ``dopri8`` of ``retrograd.ode``, or ``kvaerno5`` if ``dopri8`` needs more than 500 steps per time.

    >>> from retrograd.scipy import integrate
    >>> rate = rg.tensor(2.0, requires_grad=True)
    >>> integrate.odeint(lambda y, t, a: -a * y, 1.0, [0.0, 1.0], (rate,))
    tensor([[1.    ],
            [0.1353]], dtype=float64, grad_fn=<stack>)
    """
    given = args if isinstance(args, tuple) else (args,)

    def f(t: Tensor | float, y: Tensor | Array, *args: object) -> ArrayLike:
        return func(t, y, *args) if tfirst else func(y, t, *args)

    start = np.atleast_1d(np.asarray(detached(y0), float))
    if not _is_ours(func, y0, t, given, call=lambda: f(float(detached(t[0])), start, *given)):
        return scipys("scipy.integrate").odeint(
            func, y0, t, args, Dfun, col_deriv, full_output, ml, mu, rtol, atol, tcrit, h0, hmax, hmin, ixpr, mxstep,
            mxhnil, mxordn, mxords, printmessg, tfirst,
        )  # fmt: skip
    if full_output:
        raise ValueError("odeint: full_output describes LSODA, which is not used with Tensors; pass full_output=0")
    state = floating_tensor(y0)
    settings: dict[str, Any] = {
        "rtol": 1.49012e-8 if rtol is None else rtol, "atol": 1.49012e-8 if atol is None else atol,
        "first_step": h0 or None, "max_step": hmax or inf, "min_step": hmin,
    }  # fmt: skip
    state = state.reshape(1) if state.ndim == 0 else state
    limit = (mxstep or 500) * max(1, len(t) - 1)
    try:
        return solve(_with_arrays(f), state, t, given, method="dopri8", max_steps=limit, **settings).y
    except SolveError:
        return solve(_with_arrays(f), state, t, given, method="kvaerno5", max_steps=10 * limit, **settings).y


# Quadrature of functions


def quad(
    func: Function,
    a: ArrayLike,
    b: ArrayLike,
    args: object = (),
    full_output: int = 0,
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
    limit: int = 50,
    points: Iterable[float] | None = None,
    weight: str | None = None,
    **options: object,
) -> tuple[Tensor | float, float]:
    """Return the integral of a function of one number and an estimate of its error, as scipy.integrate.quad.

    The integral is differentiable with respect to limits, args and Tensors that ``func`` reads. The method is
    SciPy's QAGS, 21 Gauss-Kronrod points on bisected intervals, without extrapolation; infinite limits are transformed.

    Raises:
        ValueError: an option is not supported with Tensors: ``weight``, or ``full_output``.

    >>> from retrograd.scipy import integrate
    >>> a = rg.tensor(2.0, requires_grad=True)
    >>> value, error = integrate.quad(lambda x: rg.exp(-a * x), 0, float("inf"))
    >>> value
    tensor(0.5, dtype=float64, grad_fn=<sum>)
    """
    given = args if isinstance(args, tuple) else (args,)
    middle = float(np.clip(np.mean(np.clip([_first(a), _first(b)], -1e3, 1e3)), -1e3, 1e3))
    if not _is_ours(func, a, b, given, call=lambda: func(middle, *given)):
        return scipys("scipy.integrate").quad(
            func, a, b, args, full_output, epsabs, epsrel, limit, points, weight, **options
        )  # fmt: skip
    if weight is not None or full_output:
        raise ValueError("quad: weight and full_output are not supported with Tensors; write the weight into func")
    integral = Integral("quad", lambda x: func(x, *given), a, b)
    inner: list[float] = []
    if points is not None:
        if any(integral.infinite):
            raise ValueError("quad: Infinity inputs cannot be used with break points.")
        low, high = _first(a), _first(b)
        shares = [(float(p) - low) / (high - low) for p in points if min(low, high) < float(p) < max(low, high)]
        inner = [0.5 - float(np.sin(np.arcsin(1 - 2 * share) / 3)) for share in shares]  # inverse of Integral.point
    value, error, done = adaptive(integral, epsabs, epsrel, limit, inner)
    if not done:
        warnings.warn(
            f"quad: the estimated error is {error:.3g} after {limit} subintervals; the integral may "
            "diverge, or its integrand may be singular: pass its singular points as points, or a larger limit",
            scipys("scipy.integrate").IntegrationWarning,
            stacklevel=2,
        )
    return value, error


def _first(x: ArrayLike) -> float:
    return one_number("quad", floating_tensor(x))


def quad_vec(
    f: Function,
    a: ArrayLike,
    b: ArrayLike,
    epsabs: float = 1e-200,
    epsrel: float = 1e-8,
    limit: int = 10_000,
    **options: Any,
) -> tuple[Tensor | Array, float]:
    """Return the integral of a function that returns an array, and its estimated error, as scipy.integrate.quad_vec.

    >>> from retrograd.scipy import integrate
    >>> a = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> integrate.quad_vec(lambda x: a * x, 0.0, 1.0)[0]
    tensor([0.5, 1. ], grad_fn=<sum>)
    """
    if not _is_ours(f, a, b, options.get("args", ()), call=lambda: f(0.5, *options.get("args", ()))):
        return scipys("scipy.integrate").quad_vec(f, a, b, epsabs, epsrel, limit=limit, **options)
    given = options.pop("args", ())
    integral = Integral("quad_vec", lambda x: f(x, *given), a, b)
    value, error, _ = adaptive(integral, epsabs, epsrel, limit)
    return value, error


def dblquad(
    func: Function,
    a: ArrayLike,
    b: ArrayLike,
    gfun: Function | ArrayLike,
    hfun: Function | ArrayLike,
    args: object = (),
    epsabs: float = 1.49e-8,
    epsrel: float = 1.49e-8,
) -> tuple[Tensor | float, float]:
    """Return the integral of ``func(y, x)`` for x from a to b, y from gfun(x) to hfun(x), as scipy.integrate.dblquad.

    >>> from retrograd.scipy import integrate
    >>> a = rg.tensor(3.0, requires_grad=True)
    >>> integrate.dblquad(lambda y, x: a * x * y, 0.0, 1.0, 0.0, lambda x: x)[0]
    tensor(0.375, dtype=float64, grad_fn=<sum>)
    """
    low: Function = gfun if callable(gfun) else lambda x: gfun
    high: Function = hfun if callable(hfun) else lambda x: hfun
    given = args if isinstance(args, tuple) else (args,)
    if not _is_ours(func, a, b, given, call=lambda: (func(0.5, 0.5, *given), low(0.5), high(0.5))):
        return scipys("scipy.integrate").dblquad(func, a, b, gfun, hfun, args, epsabs, epsrel)

    def inner(x: Tensor) -> Tensor:
        integral = Integral("dblquad", lambda y: func(y, x, *given), low(x), high(x))
        return adaptive(integral, epsabs, epsrel, 50)[0]

    value, error, _ = adaptive(Integral("dblquad", inner, a, b), epsabs, epsrel, 50)
    return value, error


def fixed_quad(
    func: Function, a: ArrayLike, b: ArrayLike, args: object = (), n: int = 5
) -> tuple[Tensor | Array, None]:
    """Return the integral by Gauss-Legendre quadrature of order n, as scipy.integrate.fixed_quad.

    >>> from retrograd.scipy import integrate
    >>> b = rg.tensor(1.0, requires_grad=True)
    >>> integrate.fixed_quad(lambda x: x**3, 0.0, b)[0]
    tensor(0.25, grad_fn=<mul>)
    """
    given = args if isinstance(args, tuple) else (args,)
    nodes, weights = np.polynomial.legendre.leggauss(n)
    if not _is_ours(func, a, b, given, call=lambda: func(np.array([0.5]), *given)):
        return scipys("scipy.integrate").fixed_quad(func, a, b, args, n)
    low, high = floating_tensor(a), floating_tensor(b)
    dtype = next((x.dtype for x in (low, high) if isinstance(a if x is low else b, Tensor)), low.dtype)
    low, high = low.astype(dtype), high.astype(dtype)
    if any(isinf(one_number("fixed_quad", x)) for x in (low, high)):
        raise ValueError("Gaussian quadrature is only available for finite limits.")
    x = new_tensor(nodes.astype(dtype))
    y = tensor(func((high - low) * (x + 1) / 2 + low, *given))
    return (high - low) / 2 * (new_tensor(weights.astype(y.dtype)) * y).sum(-1), None


# Rules for samples


def _samples(y: ArrayLike, x: ArrayLike | None, dx: ArrayLike, axis: int) -> tuple[Tensor, Tensor]:
    """Return the samples with their axis last, and the lengths of the intervals between them."""
    values = floating_tensor(y).movedim(axis, -1)
    if x is None:
        count = max(values.shape[-1] - 1, 0)
        return values, tensor(dx).astype(values.real.dtype) * ops.ones(count, dtype=values.real.dtype)
    points = floating_tensor(x)
    points = points if points.ndim == 1 else points.movedim(axis, -1)
    if points.shape[-1] != values.shape[-1]:
        raise ValueError(
            f"x and y must have equal lengths along axis {axis}, got {points.shape[-1]} and {values.shape[-1]}"
        )
    return values, points[..., 1:] - points[..., :-1]


def _quotient(a: Tensor | float, b: Tensor) -> Tensor:
    """Return ``a / b``, and 0 for ``b = 0``, as SciPy does for repeated points."""
    repeats = b.detach() == 0
    return ops.where(repeats, 0.0, a / ops.where(repeats, 1.0, b))


@differentiable("scipy.integrate")
def trapezoid(y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1) -> Tensor:
    """Return the integral by the trapezoidal rule, as scipy.integrate.trapezoid.

    >>> from retrograd.scipy import integrate
    >>> integrate.trapezoid(rg.tensor([1.0, 2.0, 3.0]))
    tensor(4.)
    """
    values, steps = _samples(y, x, dx, axis)
    return (steps * (values[..., 1:] + values[..., :-1])).sum(-1) / 2


@differentiable("scipy.integrate")
def cumulative_trapezoid(
    y: ArrayLike, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1, initial: ArrayLike | None = None
) -> Tensor:
    """Return the cumulative integral by the trapezoidal rule, as scipy.integrate.cumulative_trapezoid.

    >>> from retrograd.scipy import integrate
    >>> integrate.cumulative_trapezoid(rg.tensor([1.0, 2.0, 3.0]), initial=0)
    tensor([0. , 1.5, 4. ])
    """
    values, steps = _samples(y, x, dx, axis)
    if not values.shape[-1]:
        raise ValueError("At least one point is required along `axis`.")
    if initial is not None and initial != 0:
        raise ValueError("`initial` must be `None` or `0`.")
    return _with_initial((steps * (values[..., 1:] + values[..., :-1]) / 2).cumsum(-1), initial, axis)


def _with_initial(total: Tensor, initial: ArrayLike | None, axis: int) -> Tensor:
    if initial is not None:
        first = tensor(initial).astype(total.dtype)
        first = first if first.ndim == 0 else first.movedim(axis, -1)
        total = ops.cat([ops.broadcast_to(first, (*total.shape[:-1], 1)), total + first], -1)
    return total.movedim(-1, axis)


@differentiable("scipy.integrate")
def simpson(y: ArrayLike, x: ArrayLike | None = None, *, dx: ArrayLike = 1.0, axis: int = -1) -> Tensor:
    """Return the integral by Simpson's rule, as scipy.integrate.simpson.

    >>> from retrograd.scipy import integrate
    >>> integrate.simpson(rg.tensor([0.0, 1.0, 4.0]))
    tensor(2.6667)
    """
    values, h = _samples(y, x, dx, axis)
    count = values.shape[-1]
    if count < 3:
        return (h * (values[..., 1:] + values[..., :-1])).sum(-1) / 2
    end = count - 1 if count % 2 else count - 2
    h0, h1 = h[..., 0:end:2], h[..., 1:end:2]
    y0, y1, y2 = values[..., 0:end:2], values[..., 1 : end + 1 : 2], values[..., 2 : end + 1 : 2]
    both, ratio = h0 + h1, _quotient(h0, h1)
    middle = y1 * both * _quotient(both, h0 * h1)
    total = (both / 6 * (y0 * (2 - _quotient(1.0, ratio)) + middle + y2 * (2 - ratio))).sum(-1)
    if count % 2:
        return total
    a, b = h[..., -2], h[..., -1]
    last = _quotient(2 * b * b + 3 * a * b, 6 * (a + b)) * values[..., -1]
    last = last + _quotient(b * b + 3 * a * b, 6 * a) * values[..., -2]
    return total + last - _quotient(b**3, 6 * a * (a + b)) * values[..., -3]


@differentiable("scipy.integrate")
def cumulative_simpson(
    y: ArrayLike, *, x: ArrayLike | None = None, dx: ArrayLike = 1.0, axis: int = -1, initial: ArrayLike | None = None
) -> Tensor:
    """Return the cumulative integral by Simpson's rule, as scipy.integrate.cumulative_simpson.

    >>> from retrograd.scipy import integrate
    >>> integrate.cumulative_simpson(rg.tensor([0.0, 1.0, 4.0, 9.0]))
    tensor([0.3333, 2.6667, 9.    ])
    """
    values, h = _samples(y, x, dx, axis)
    if not values.shape[-1]:
        raise ValueError("At least one point is required along `axis`.")
    if values.shape[-1] < 3:
        return _with_initial((h * (values[..., 1:] + values[..., :-1]) / 2).cumsum(-1), initial, axis)
    first = _first_of_two(values, h)
    last = _first_of_two(values.flip(-1), h.flip(-1)).flip(-1)
    # As in SciPy, intervals 0, 2, ... use the parabola through the interval and the next one; intervals 1, 3, ... and
    # the last interval use the parabola through the interval and the previous one.
    size = h.shape[-1]
    even = new_tensor((np.arange(size) % 2 == 0) & (np.arange(size) < size - 1))
    begins = ops.cat([first, last[..., -1:]], -1)
    ends = ops.cat([first[..., :1], last], -1)
    return _with_initial(ops.where(even, begins, ends).cumsum(-1), initial, axis)


def _first_of_two(y: Tensor, h: Tensor) -> Tensor:
    """Return the integral of the parabola through each three successive points, over the first of its two intervals."""
    a, b = h[..., :-1], h[..., 1:]
    y1, y2, y3 = y[..., :-2], y[..., 1:-1], y[..., 2:]
    both = a + b
    ratio = a * a / (both * b)
    return a / 6 * ((3 - a / both) * y1 + (3 + ratio + a / both) * y2 - ratio * y3)


@differentiable("scipy.integrate")
def romb(y: ArrayLike, dx: ArrayLike = 1.0, axis: int = -1, show: bool = False) -> Tensor:
    """Return the integral by Romberg's method of 2^k + 1 samples, as scipy.integrate.romb.

    >>> from retrograd.scipy import integrate
    >>> integrate.romb(rg.tensor([0.0, 1.0, 4.0]))
    tensor(2.6667)
    """
    values = floating_tensor(y).movedim(axis, -1)
    intervals = values.shape[-1] - 1
    if intervals < 1 or intervals & (intervals - 1):
        raise ValueError("Number of samples must be one plus a non-negative power of 2.")
    row: list[Tensor] = []
    step = intervals
    while step:
        chosen = values[..., ::step]
        row.append((chosen[..., 1:] + chosen[..., :-1]).sum(-1) * (step * tensor(dx).astype(values.real.dtype)) / 2)
        step //= 2
    power = 4
    while len(row) > 1:
        row = [(power * fine - coarse) / (power - 1) for coarse, fine in zip(row, row[1:], strict=False)]
        power *= 4
    return row[0]
