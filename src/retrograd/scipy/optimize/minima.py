"""Minima of functions, least squares, assignment and linear programs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._generated import linalg
from ..._generated import toplevel as ops
from ...core.arrays import Array
from ...core.graph.modes import modes, no_grad
from ...core.tensor.tensor import Tensor
from ...func.implicit.minimize import minimize as minimized
from ...func.jacobians import jacrev
from ...func.reverse import grad
from ...ops.numpy.arguments import tensor
from ..decorators import ArrayLike, Function, detached, has_tensor, is_mapped, scipys
from .problem import Limits, Method, OnArrays, Problem

if TYPE_CHECKING:
    from scipy.optimize import Bounds, OptimizeResult


def minimize(
    fun: Function,
    x0: ArrayLike,
    args: object = (),
    method: Method | None = None,
    jac: bool | str | Function | None = None,
    hess: str | Function | None = None,
    hessp: Function | None = None,
    bounds: Limits | None = None,
    constraints: object = (),
    tol: float | None = None,
    callback: Function | None = None,
    options: dict[str, object] | None = None,
) -> OptimizeResult:
    """Return a local minimum, as scipy.optimize.minimize; ``x`` and ``fun`` of the result are differentiable.

    Gradients and Hessians, if the method uses them, are exact. The derivatives of ``x`` follow from the gradient
    being zero at the minimum; an unknown that is at a bound has the derivative of the bound. Constraints are not
    supported.

    >>> from retrograd.scipy import optimize
    >>> a = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimize.minimize(lambda x, a: ((x - a) ** 2).sum(), rg.zeros(2), (a,)).x
    tensor([1., 2.], grad_fn=<implicit>)
    """
    problem = Problem("minimize", fun, x0, args)
    scipy = scipys("scipy.optimize")
    if not problem.ours:
        return scipy.minimize(
            fun, x0, args, method, jac, hess, hessp, bounds, constraints, tol, callback, options
        )  # fmt: skip
    if constraints is not None and not (isinstance(constraints, (tuple, list, dict)) and not constraints):
        raise NotImplementedError(
            "minimize: a minimum with constraints has no derivative here; write the constraints into the function, or "
            "detach the Tensors and call scipy.optimize.minimize"
        )
    if jac is True:
        pair: Callable[..., Any] = problem.fun
        problem.fun = lambda x, *args: pair(x, *args)[0]
    gradient = grad(problem.scalar)
    lower, upper = _bounds(bounds, problem)
    if problem.mapped:
        if bounds is not None:
            raise NotImplementedError("minimize: bounds are not supported inside vmap; loop over the examples")
        return _mapped_minimum(problem, problem.scalar, tol)
    flat = problem.on_arrays(problem.scalar)
    slope = problem.on_arrays(lambda x: gradient(x).reshape(-1))
    size = problem.x0.array.size
    settings: dict[str, OnArrays] = {"jac": slope}
    if method in ("Nelder-Mead", "Powell", "COBYLA", "COBYQA"):
        settings = {}
    elif method in ("Newton-CG", "dogleg", "trust-ncg", "trust-exact", "trust-krylov"):
        settings["hess"] = problem.on_arrays(lambda x: jacrev(gradient)(x).reshape(size, size))
    plain = None if bounds is None else list(zip(detached(lower).ravel(), detached(upper).ravel(), strict=True))
    result = scipy.minimize(
        flat, detached(problem.x0).reshape(-1), (), method, bounds=plain, tol=tol, callback=callback, options=options,
        **settings,
    )  # fmt: skip
    return _with_minimum(problem, result, problem.scalar, lower, upper)


def _mapped_minimum(problem: Problem, value: Callable[[Tensor], Tensor], tol: float | None) -> OptimizeResult:
    """Return the minimum of every example of ``vmap``, found by Retrograd's solver."""
    gradient = grad(value)
    with no_grad():
        (x,) = minimized(
            problem.caller,
            lambda leaves: value(leaves[0]),
            lambda leaves: [gradient(leaves[0])],
            [problem.x0],
            tol,
            500,
        )
    found = problem.attach(x, gradient)
    optimized = scipys("scipy.optimize").OptimizeResult
    return optimized(x=found, fun=value(found), success=True, status=0, message="Converged.")


def _with_minimum(
    problem: Problem, result: OptimizeResult, value: Callable[[Tensor], Tensor], lower: Tensor, upper: Tensor
) -> OptimizeResult:
    """Return SciPy's result with a minimum of ``value`` that has derivatives."""
    gradient = grad(value)
    point = problem.point(result.x)
    with no_grad():
        slope = gradient(point)
    # Status 2: rounding errors ended the line search; the point is a minimum if the gradient is below SciPy's default
    # tolerance.
    if not result.success and not (getattr(result, "status", 0) == 2 and float(abs(detached(slope)).max()) <= 1e-5):
        result.x = problem.attach_none(point, result.message)
        return result
    low = (point <= lower + 1e-9 * (1 + abs(point))) & (slope > 0)
    high = (point >= upper - 1e-9 * (1 + abs(point))) & (slope < 0)
    bounded = bool((low | high).any())

    def residual(x: Tensor) -> Tensor:
        free: Tensor = gradient(x)
        if not bounded:
            return free
        return ops.where(low, x - ops.where(low, lower, 0), ops.where(high, x - ops.where(high, upper, 0), free))

    result.x = problem.attach(point, residual)
    result.fun = value(result.x)
    return result


def _bounds(bounds: Limits | None, problem: Problem) -> tuple[Tensor, Tensor]:
    """Return the lower and upper bounds as Tensors of the unknowns' shape; infinite where there is no bound."""
    shape, dtype = problem.x0.shape, problem.x0.dtype
    if bounds is None:
        low: ArrayLike = -np.inf
        high: ArrayLike = np.inf
    elif hasattr(bounds, "lb") and hasattr(bounds, "ub"):
        low, high = bounds.lb, bounds.ub
    else:
        pairs = list(bounds)
        low = ops.stack([tensor(-np.inf if a is None else a).astype(dtype) for a, _ in pairs])
        high = ops.stack([tensor(np.inf if b is None else b).astype(dtype) for _, b in pairs])

    def whole(bound: ArrayLike) -> Tensor:
        x = tensor(bound).astype(dtype)
        return ops.broadcast_to(x.reshape(shape if x.ndim else ()), shape)

    return whole(low), whole(high)


def minimize_scalar(
    fun: Function,
    bracket: Sequence[ArrayLike] | None = None,
    bounds: tuple[ArrayLike, ArrayLike] | None = None,
    args: object = (),
    method: Method | None = None,
    **options: object,
) -> OptimizeResult:
    """Return a minimum of a function of one number, as scipy.optimize.minimize_scalar; ``x`` is differentiable.

    >>> from retrograd.scipy import optimize
    >>> a = rg.tensor(2.0, dtype=rg.float64, requires_grad=True)
    >>> optimize.minimize_scalar(lambda x, a: (x - a) ** 2, args=(a,)).x
    tensor(2., dtype=float64, grad_fn=<implicit>)
    """
    start = 0.0 if bounds is None else (float(detached(tensor(bounds[0]))) + float(detached(tensor(bounds[1])))) / 2
    problem = Problem("minimize_scalar", fun, np.float64(start), args)
    scipy = scipys("scipy.optimize")
    if not problem.ours:
        return scipy.minimize_scalar(fun, bracket, bounds, args, method, **options)
    if problem.mapped and bounds is None:
        return _mapped_minimum(problem, problem.scalar, None)
    problem.not_mapped()
    function = problem.on_arrays(problem.scalar)
    result = scipy.minimize_scalar(function, detached(bracket), detached(bounds), (), method, **options)
    limits = [(None, None)] if bounds is None else [tuple(bounds)]
    lower, upper = (x.reshape(()) for x in _bounds(limits, Problem("minimize_scalar", fun, [start], args)))
    return _with_minimum(problem, result, problem.scalar, lower, upper)


# The robust losses of least_squares as functions of squared residuals. The clamp in huber avoids the infinite
# derivative of the square root at 0.
_LOSSES: dict[object, Callable[[Tensor], Tensor]] = {
    "soft_l1": lambda z: 2 * ((1 + z) ** 0.5 - 1),
    "huber": lambda z: ops.where(z > 1, 2 * ops.clamp(z, min=1.0) ** 0.5 - 1, z),
    "cauchy": lambda z: ops.log1p(z),
    "arctan": lambda z: ops.atan(z),
}


def least_squares(
    fun: Function,
    x0: ArrayLike,
    jac: str | Function = "2-point",
    bounds: Bounds | tuple[ArrayLike, ArrayLike] = (-np.inf, np.inf),
    *,
    args: object = (),
    **options: Any,
) -> OptimizeResult:
    """Minimize the sum of squares of a vector function, as scipy.optimize.least_squares; ``x`` is differentiable.

    The Jacobian is exact unless ``jac`` is a function. The derivative of x, also with respect to ``f_scale``,
    is computed with the exact Hessian of SciPy's cost, ``0.5 * |fun|^2`` or the cost of a robust ``loss``.

    >>> from retrograd.scipy import optimize
    >>> y = rg.tensor([1.0, 3.0], requires_grad=True)
    >>> optimize.least_squares(lambda x, y: x - y, rg.zeros(1), args=(y,)).x
    tensor([2.], grad_fn=<implicit>)
    """
    problem = Problem("least_squares", fun, x0, args)
    scipy = scipys("scipy.optimize")
    kwargs = options.pop("kwargs", None) or {}
    if not problem.ours:
        return scipy.least_squares(fun, x0, jac, bounds, args=args, kwargs=kwargs, **options)
    loss, scale = options.get("loss", "linear"), tensor(options.get("f_scale", 1.0))
    if not callable(loss) and loss not in ("linear", *_LOSSES):
        raise ValueError(f"least_squares: loss must be 'linear', {str([*_LOSSES])[1:-1]} or a function, got {loss!r}")
    options |= {"f_scale": float(detached(scale))} if "f_scale" in options else {}
    if kwargs:
        inner = problem.fun
        problem.fun = lambda x, *args: inner(x, *args, **kwargs)

    def half(x: Tensor) -> Tensor:
        r = problem(x).reshape(-1)
        if loss == "linear":
            return (r * r).sum() / 2
        squares = (r / scale) ** 2
        return scale**2 * (loss(squares)[0] if callable(loss) else _LOSSES[loss](squares)).sum() / 2

    if problem.mapped and bounds == (-np.inf, np.inf):
        result = _mapped_minimum(problem, half, None)
        result.cost, result.fun = result.fun, problem(result.x)
        return result
    problem.not_mapped()
    size = problem.x0.array.size
    slope = jac if callable(jac) else None

    def exact(x: Tensor) -> Tensor:
        if slope is None:
            return jacrev(lambda x: problem(x).reshape(-1))(x).reshape(-1, size)
        found: Any = slope(x, *problem.args, **kwargs)
        return tensor(found.toarray() if hasattr(found, "toarray") else found).reshape(-1, size)

    lower, upper = _bounds(_pairs(bounds, problem), problem)
    plain = (detached(lower).ravel(), detached(upper).ravel())
    residuals = problem.on_arrays(lambda x: problem(x).reshape(-1))
    start = detached(problem.x0).reshape(-1)
    result = scipy.least_squares(residuals, start, problem.on_arrays(exact), plain, **options)
    result = _with_minimum(problem, result, half, lower, upper)
    result.fun, result.cost = problem(result.x), half(result.x)
    return result


def _pairs(bounds: Bounds | tuple[ArrayLike, ArrayLike], problem: Problem) -> Limits:
    if hasattr(bounds, "lb"):
        return bounds
    low, high = (ops.broadcast_to(tensor(x), (problem.x0.array.size,)) for x in bounds)
    return list(zip(low, high, strict=True))


def curve_fit(
    f: Function,
    xdata: ArrayLike,
    ydata: ArrayLike,
    p0: ArrayLike | None = None,
    sigma: ArrayLike | None = None,
    absolute_sigma: bool = False,
    check_finite: bool = True,
    bounds: Bounds | tuple[ArrayLike, ArrayLike] = (-np.inf, np.inf),
    method: str | None = None,
    jac: str | Function | None = None,
    **options: Any,
) -> tuple[Tensor | Array, Tensor | Array]:
    """Fit ``f(xdata, *parameters)`` to ``ydata``, as scipy.optimize.curve_fit, differentiable with respect to the data.

    The covariance is also differentiable. ``sigma`` is None or has one standard deviation per data point.

    >>> from retrograd.scipy import optimize
    >>> x, y = rg.tensor([0.0, 1.0, 2.0]), rg.tensor([1.0, 3.0, 5.0], requires_grad=True)
    >>> optimize.curve_fit(lambda x, a, b: a * x + b, x, y)[0]
    tensor([2., 1.], grad_fn=<implicit>)
    """
    scipy = scipys("scipy.optimize")
    if not has_tensor((xdata, ydata, p0, sigma)):
        return scipy.curve_fit(f, xdata, ydata, p0, sigma, absolute_sigma, check_finite, bounds, method, jac, **options)
    x, y = tensor(xdata), tensor(ydata)
    mapped = is_mapped((xdata, ydata, p0, sigma))
    if check_finite and not mapped and not (np.isfinite(detached(x)).all() and np.isfinite(detached(y)).all()):
        raise ValueError("curve_fit: xdata and ydata must not contain infinities or NaN")
    if p0 is None:
        from inspect import signature

        p0 = np.ones(len(signature(f).parameters) - 1)
    scale = None if sigma is None else tensor(sigma)
    if scale is not None and scale.ndim > 1:
        raise NotImplementedError("curve_fit of Tensors: sigma must be one-dimensional, not a covariance matrix")
    start = tensor(p0).astype(y.dtype)

    def residuals(p: Tensor) -> Tensor:
        r = tensor(f(x, *[p[index] for index in range(p.shape[0])])) - y
        return (r if scale is None else r / scale).reshape(-1)

    bounded = not (np.isinf(detached(bounds[0])).all() and np.isinf(detached(bounds[1])).all())
    chosen = method or ("trf" if bounded else "lm")
    result = least_squares(residuals, start.detach(), bounds=bounds, method=chosen, **options)
    if not result.success:
        raise RuntimeError(f"Optimal parameters not found: {result.message}")
    p = result.x
    j = jacrev(residuals)(p)
    covariance = linalg.inv(j.mT @ j)
    if not absolute_sigma:
        freedom = result.fun.shape[0] - p.shape[0]
        covariance = covariance * (2 * result.cost / freedom if freedom > 0 else np.inf)
    return p, covariance


def linear_sum_assignment(cost_matrix: ArrayLike, maximize: bool = False) -> tuple[Array, Array]:
    """Return the assignment of least cost, as scipy.optimize.linear_sum_assignment: index arrays, which are constants.

    >>> from retrograd.scipy import optimize
    >>> cost = rg.tensor([[4.0, 1.0], [2.0, 0.0]], requires_grad=True)
    >>> cost[optimize.linear_sum_assignment(cost)].sum()
    tensor(3., grad_fn=<sum>)
    """
    return scipys("scipy.optimize").linear_sum_assignment(detached(cost_matrix), maximize)


def linprog(c: ArrayLike, *args: object, **options: object) -> OptimizeResult:
    """Solve a linear program, as scipy.optimize.linprog; its solution has no derivative.

    Raises:
        NotImplementedError: an argument requires grad.

    >>> from retrograd.scipy import optimize
    >>> float(optimize.linprog(rg.tensor([1.0]), bounds=[(2, 3)]).x[0])
    2.0
    """
    for value in (c, *args, *options.values()):
        for x in value if isinstance(value, (list, tuple)) else (value,):
            if isinstance(x, Tensor) and x.requires_grad and modes.grad_enabled:
                raise NotImplementedError(
                    "linprog: the solution of a linear program has no derivative here, but an argument requires grad; "
                    "detach it, or minimize a smooth function"
                )
    return scipys("scipy.optimize").linprog(detached(c), *detached(args), **detached(options))
