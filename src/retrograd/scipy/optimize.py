"""Functions of scipy.optimize whose solutions are differentiable by the implicit function theorem.

SciPy finds the solution on arrays, with exact derivatives where it takes them; ``func.implicit`` attaches the
derivatives of the solution. Inside ``vmap``, where SciPy cannot compute, ``root`` and ``minimize`` use our own solvers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from .._generated import linalg
from .._generated import toplevel as ops
from ..core.arrays import Array
from ..core.arrays.dtypes import is_differentiable
from ..core.errors import describe
from ..core.graph.modes import modes, no_grad
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.implicit.attach import LinearSolve, attached
from ..func.implicit.minimize import minimize as minimized
from ..func.implicit.newton import newton as newtons_method
from ..func.jacobians import jacrev
from ..func.nests import LEAF
from ..func.reverse import grad
from ..ops.numpy.arguments import tensor
from .arguments import ArrayLike, Function, detached, has_tensor, is_mapped, other_names, scipys

__all__ = [
    "bisect", "brenth", "brentq", "curve_fit", "fixed_point", "least_squares", "linear_sum_assignment", "linprog",
    "minimize", "minimize_scalar", "newton", "ridder", "root", "root_scalar", "toms748",
]  # fmt: skip

__getattr__ = other_names(__name__)

if TYPE_CHECKING:
    from scipy.optimize import Bounds, OptimizeResult, RootResults

# Lower and upper bounds: SciPy's class, or a pair for each unknown, None for no bound.
Limits: TypeAlias = "Bounds | Sequence[tuple[ArrayLike | None, ArrayLike | None]]"
Method: TypeAlias = "str | Callable[..., OptimizeResult]"
OnArrays: TypeAlias = Callable[..., Array]  # a function that SciPy calls
Found: TypeAlias = "Array | float | tuple[Array | float, RootResults]"  # of SciPy, a root and maybe how it was found
Root: TypeAlias = "Tensor | Found | tuple[Tensor, RootResults]"


class _Problem:
    """A function of one array of unknowns, as SciPy calls it and as derivatives need it."""

    def __init__(self, caller: str, fun: Function, x0: ArrayLike, args: object) -> None:
        if not callable(fun):
            raise TypeError(f"{caller}: expected a function, got {describe(fun)}")
        self.caller, self.fun = caller, fun
        self.args = args if isinstance(args, tuple) else (args,)
        x = tensor(x0)
        if not is_differentiable(x.dtype):
            x = x.astype(np.float64)
        self.x0 = x.detach()
        # Without a Tensor among the arguments, and none that the function reads, the problem is SciPy's alone.
        self.ours = has_tensor((x0, self.args))
        if not self.ours:
            with no_grad():
                self.ours = has_tensor([fun(detached(self.x0), *self.args)])
        self.mapped = self.ours and (is_mapped((x0, self.args)) or self._gives_mapped())

    def _gives_mapped(self) -> bool:
        if modes.level is None:
            return False
        with no_grad():
            return is_mapped([self.fun(self.x0, *self.args)])

    def __call__(self, x: Tensor) -> Tensor:
        return tensor(self.fun(x, *self.args))

    def scalar(self, x: Tensor) -> Tensor:
        """Return the value of a function that gives one number."""
        value = self(x)
        if value.array.size != 1:
            raise ValueError(f"{self.caller}: the function must return one number, got {describe(value)}")
        return value.reshape(())

    def residual(self, x: Tensor) -> Tensor:
        """Return the value of a function that gives as many numbers as there are unknowns."""
        value = self(x)
        if value.array.size != x.array.size:
            raise ValueError(f"{self.caller}: {describe(value)} cannot be solved for unknowns of shape {x.shape}")
        return value.reshape(x.shape)

    def on_arrays(self, function: Callable[[Tensor], ArrayLike]) -> OnArrays:
        """Return a function of Tensors as one of arrays, or of numbers, without recording."""

        def call(x: Array | float, *_: object) -> Array:
            with no_grad():
                value = detached(tensor(function(new_tensor(np.asarray(x, self.x0.dtype).reshape(self.x0.shape)))))
            return value if value.ndim else value[()]

        return call

    def derivative(self, function: Function | None) -> OnArrays | None:
        """Return the user's derivative as a function of arrays."""
        return None if function is None else self.on_arrays(lambda x: function(x, *self.args))

    def attach_none(self, x: Array) -> Tensor:
        """Return a point that is not a solution, without derivatives."""
        return new_tensor(np.asarray(x, self.x0.dtype).reshape(self.x0.shape))

    def attach(self, x: Tensor | Array | float, residual: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the solution that SciPy found, with its derivatives."""
        leaf = x if isinstance(x, Tensor) else new_tensor(np.asarray(x, self.x0.dtype).reshape(self.x0.shape))
        solver = LinearSolve(self.caller, LEAF)
        return attached([leaf], lambda leaves: [residual(leaves[0]).astype(leaf.dtype)], solver)[0]


def root(
    fun: Function,
    x0: ArrayLike,
    args: object = (),
    method: str = "hybr",
    jac: bool | Function | None = None,
    tol: float | None = None,
    callback: Function | None = None,
    options: dict[str, object] | None = None,
) -> OptimizeResult:
    """Return a root of a vector function, as scipy.optimize.root; ``x`` of the result is differentiable.

    The derivative is that of the implicit function theorem, by args and all Tensors that ``fun`` reads. Without ``jac``
    the methods "hybr" and "lm" get the exact Jacobian. A result without success has no derivative.

    >>> from retrograd.scipy import optimize
    >>> a = rg.tensor([4.0, 9.0], requires_grad=True)
    >>> optimize.root(lambda x, a: x**2 - a, rg.ones(2), (a,)).x
    tensor([2., 3.], grad_fn=<implicit>)
    """
    problem = _Problem("root", fun, x0, args)
    scipy = scipys("scipy.optimize")
    if not problem.ours:
        return scipy.root(fun, x0, args, method, jac, tol, callback, options)
    if problem.mapped:
        with no_grad():
            (x,) = newtons_method("root", lambda leaves: [problem.residual(leaves[0])], [problem.x0], tol)
        found = problem.attach(x, problem.residual)
        return scipy.OptimizeResult(x=found, success=True, status=1, message="Newton's method converged.")
    flat = problem.on_arrays(lambda x: problem.residual(x).reshape(-1))
    if jac is True:
        raise ValueError("root: jac=True is not supported with Tensors; pass jac=None for the exact Jacobian")
    if callable(jac):
        theirs: OnArrays | None = problem.on_arrays(lambda x: jac(x, *problem.args))
    elif method in ("hybr", "lm"):
        size = problem.x0.array.size
        theirs = problem.on_arrays(lambda x: jacrev(problem.residual)(x).reshape(size, size))
    else:
        theirs = None
    start = detached(problem.x0).reshape(-1)
    result = scipy.root(flat, start, (), method, theirs, tol, callback, options)
    result.x = problem.attach(result.x, problem.residual) if result.success else problem.attach_none(result.x)
    with no_grad():
        result.fun = problem.residual(result.x.detach())
    return result


def _scalar_root(
    caller: str, solve: Callable[[OnArrays], Found], f: Function, x: ArrayLike, args: object
) -> tuple[Tensor, RootResults | None]:
    """Return the root that ``solve`` finds as a Tensor with derivatives, and what else it returned."""
    problem = _Problem(caller, f, x, args)
    if problem.mapped:
        raise RuntimeError(f"{caller}: SciPy cannot iterate inside vmap; use func.custom_root or optimize.root")
    result = solve(problem.on_arrays(problem.residual))
    rest = None
    if isinstance(result, tuple):
        result, rest = result
    return problem.attach(result, problem.residual), rest


def _bracketing(name: str) -> Callable[..., Root]:
    """Return SciPy's bracketing method of this name, with a differentiable root."""

    def method(f: Function, a: ArrayLike, b: ArrayLike, args: object = (), **options: object) -> Root:
        scipy = scipys("scipy.optimize")
        solve = getattr(scipy, name)
        middle = (tensor(detached(a)) + tensor(detached(b))) / 2
        if not has_tensor((a, b)) and not _Problem(name, f, np.float64(detached(middle)), args).ours:
            return solve(f, a, b, args, **options)

        def find(function: OnArrays) -> Found:
            return solve(function, float(detached(tensor(a))), float(detached(tensor(b))), **options)

        found, rest = _scalar_root(name, find, f, middle, args)
        if rest is None:
            return found
        rest.root = found
        return found, rest

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"""Return a root of a scalar function in the bracket [a, b], as scipy.optimize.{name}.

    The derivative is that of the implicit function theorem, by args and all Tensors that ``f`` reads; the bracket has
    none. A bracket without a change of sign is SciPy's ValueError.

    >>> from retrograd.scipy import optimize
    >>> a = rg.tensor(2.0, requires_grad=True)
    >>> optimize.{name}(lambda x, a: x * x - a, 0.0, 2.0, (a,))
    tensor(1.4142, dtype=float64, grad_fn=<implicit>)
    """
    return method


bisect, brenth, brentq, ridder, toms748 = map(_bracketing, ("bisect", "brenth", "brentq", "ridder", "toms748"))


def newton(
    func: Function,
    x0: ArrayLike,
    fprime: Function | None = None,
    args: object = (),
    tol: float = 1.48e-08,
    maxiter: int = 50,
    fprime2: Function | None = None,
    x1: ArrayLike | None = None,
    rtol: float = 0.0,
    full_output: bool = False,
    disp: bool = True,
) -> Root:
    """Return a root of a scalar function near ``x0``, as scipy.optimize.newton; the root is differentiable.

    >>> from retrograd.scipy import optimize
    >>> a = rg.tensor(2.0, requires_grad=True)
    >>> optimize.newton(lambda x, a: x * x - a, 1.0, args=(a,))
    tensor(1.4142, dtype=float64, grad_fn=<implicit>)
    """
    problem = _Problem("newton", func, x0, args)
    scipy = scipys("scipy.optimize")
    if not problem.ours:
        return scipy.newton(func, x0, fprime, args, tol, maxiter, fprime2, x1, rtol, full_output, disp)
    if problem.x0.ndim and full_output:
        raise ValueError("newton: full_output is for scalar unknowns, pass full_output=False")
    slopes = [problem.derivative(f) for f in (fprime, fprime2)]

    def solve(function: OnArrays) -> Found:
        start = detached(problem.x0)
        return scipy.newton(
            function, start if start.ndim else float(start), slopes[0], (), tol, maxiter, slopes[1], detached(x1),
            rtol, full_output, disp,
        )  # fmt: skip

    found, rest = _scalar_root("newton", solve, func, x0, args)
    return found if rest is None else (found, rest)


def root_scalar(f: Function, args: object = (), method: str | None = None, **options: Any) -> RootResults:
    """Return a root of a scalar function, as scipy.optimize.root_scalar; ``root`` of the result is differentiable.

    >>> from retrograd.scipy import optimize
    >>> a = rg.tensor(2.0, requires_grad=True)
    >>> optimize.root_scalar(lambda x, a: x * x - a, (a,), bracket=[0.0, 2.0]).root
    tensor(1.4142, dtype=float64, grad_fn=<implicit>)
    """
    scipy = scipys("scipy.optimize")
    bracket, x0 = options.get("bracket"), options.get("x0")
    start = x0 if x0 is not None else 0.0 if bracket is None else (bracket[0] + bracket[1]) / 2
    problem = _Problem("root_scalar", f, start, args)
    if not problem.ours:
        return scipy.root_scalar(f, args, method, **options)
    if options.get("fprime") is True or options.get("fprime2") is True:
        raise ValueError("root_scalar: fprime=True is not supported with Tensors; pass a function or None")
    for name in ("fprime", "fprime2"):
        if callable(options.get(name)):
            options[name] = problem.derivative(options[name])
    plain = {name: detached(value) for name, value in options.items()}
    result = scipy.root_scalar(problem.on_arrays(problem.residual), (), method, **plain)
    if result.converged:
        result.root = problem.attach(result.root, problem.residual)
    return result


def fixed_point(
    func: Function, x0: ArrayLike, args: object = (), xtol: float = 1e-08, maxiter: int = 500, method: str = "del2"
) -> Tensor | Array:
    """Return x with ``func(x, *args) = x``, as scipy.optimize.fixed_point; x is differentiable.

    >>> from retrograd.scipy import optimize
    >>> a = rg.tensor(0.5, requires_grad=True)
    >>> optimize.fixed_point(lambda x, a: rg.cos(a * x), 1.0, (a,))
    tensor(0.9004, dtype=float64, grad_fn=<implicit>)
    """
    problem = _Problem("fixed_point", func, x0, args)
    scipy = scipys("scipy.optimize")
    if not problem.ours:
        return scipy.fixed_point(func, x0, args, xtol, maxiter, method)
    if problem.mapped:
        from ..func.implicit.optima import fixed_point as ours

        return ours(lambda x: problem.residual(x), problem.x0, tol=xtol, maxiter=maxiter)
    x = scipy.fixed_point(problem.on_arrays(problem.residual), detached(problem.x0), (), xtol, maxiter, method)
    return problem.attach(x, lambda x: x - problem.residual(x))


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

    Gradients and, for the methods that need one, Hessians are exact. At the minimum the gradient is zero, except along
    unknowns at a bound, which move with that bound. A minimum with constraints has no derivative here.

    >>> from retrograd.scipy import optimize
    >>> a = rg.tensor([1.0, 2.0], requires_grad=True)
    >>> optimize.minimize(lambda x, a: ((x - a) ** 2).sum(), rg.zeros(2), (a,)).x
    tensor([1., 2.], grad_fn=<implicit>)
    """
    problem = _Problem("minimize", fun, x0, args)
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
            raise NotImplementedError("minimize: bounds are not supported inside vmap")
        with no_grad():
            (x,) = minimized(
                "minimize",
                lambda leaves: problem.scalar(leaves[0]),
                lambda leaves: [gradient(leaves[0])],
                [problem.x0],
                tol,
                500,
            )
        found = problem.attach(x, gradient)
        return scipy.OptimizeResult(x=found, fun=problem.scalar(found), success=True, status=0, message="Converged.")
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


def _with_minimum(
    problem: _Problem, result: OptimizeResult, value: Callable[[Tensor], Tensor], lower: Tensor, upper: Tensor
) -> OptimizeResult:
    """Return SciPy's result with a minimum of ``value`` that has derivatives."""
    gradient = grad(value)
    if not result.success:
        result.x = problem.attach_none(result.x)
        return result
    point = new_tensor(np.asarray(result.x, problem.x0.dtype).reshape(problem.x0.shape))
    with no_grad():
        slope = gradient(point)
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


def _bounds(bounds: Limits | None, problem: _Problem) -> tuple[Tensor, Tensor]:
    """Return the lower and upper bounds as Tensors of the unknowns' shape; infinite for none."""
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
    problem = _Problem("minimize_scalar", fun, np.float64(start), args)
    scipy = scipys("scipy.optimize")
    if not problem.ours:
        return scipy.minimize_scalar(fun, bracket, bounds, args, method, **options)
    result = scipy.minimize_scalar(
        problem.on_arrays(problem.scalar), detached(bracket), detached(bounds), (), method, **options
    )  # fmt: skip
    limits = [(None, None)] if bounds is None else [tuple(bounds)]
    lower, upper = (x.reshape(()) for x in _bounds(limits, _Problem("minimize_scalar", fun, [start], args)))
    return _with_minimum(problem, result, problem.scalar, lower, upper)


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

    The Jacobian is exact unless ``jac`` is a function. The derivative of x is that of the minimum of ``0.5 * |fun|^2``,
    with the exact Hessian. Only ``loss="linear"`` has a derivative.

    >>> from retrograd.scipy import optimize
    >>> y = rg.tensor([1.0, 3.0], requires_grad=True)
    >>> optimize.least_squares(lambda x, y: x - y, rg.zeros(1), args=(y,)).x
    tensor([2.], grad_fn=<implicit>)
    """
    problem = _Problem("least_squares", fun, x0, args)
    scipy = scipys("scipy.optimize")
    kwargs = options.pop("kwargs", None) or {}
    if not problem.ours:
        return scipy.least_squares(fun, x0, jac, bounds, args=args, kwargs=kwargs, **options)
    if options.get("loss", "linear") != "linear":
        raise NotImplementedError(f"least_squares: only loss='linear' has a derivative, got {options['loss']!r}")
    if kwargs:
        inner = problem.fun
        problem.fun = lambda x, *args: inner(x, *args, **kwargs)

    def half(x: Tensor) -> Tensor:
        r = problem(x).reshape(-1)
        return (r * r).sum() / 2

    size = problem.x0.array.size
    slope = jac if callable(jac) else None

    def exact(x: Tensor) -> Tensor:
        found = tensor(slope(x, *problem.args)) if slope else jacrev(lambda x: problem(x).reshape(-1))(x)
        return found.reshape(-1, size)

    lower, upper = _bounds(_pairs(bounds, problem), problem)
    plain = (detached(lower).ravel(), detached(upper).ravel())
    residuals = problem.on_arrays(lambda x: problem(x).reshape(-1))
    result = scipy.least_squares(
        residuals, detached(problem.x0).reshape(-1), problem.on_arrays(exact), plain, **options
    )
    result = _with_minimum(problem, result, half, lower, upper)
    result.fun, result.cost = problem(result.x), half(result.x)
    return result


def _pairs(bounds: Bounds | tuple[ArrayLike, ArrayLike], problem: _Problem) -> Limits:
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
    """Fit ``f(xdata, *parameters)`` to ``ydata``, as scipy.optimize.curve_fit, with derivatives by the data.

    The covariance is a function of the parameters and the data, so it is differentiable, too. ``sigma`` is None or has
    one standard deviation per datum.

    >>> from retrograd.scipy import optimize
    >>> x, y = rg.tensor([0.0, 1.0, 2.0]), rg.tensor([1.0, 3.0, 5.0], requires_grad=True)
    >>> optimize.curve_fit(lambda x, a, b: a * x + b, x, y)[0]
    tensor([2., 1.], grad_fn=<implicit>)
    """
    scipy = scipys("scipy.optimize")
    if not has_tensor((xdata, ydata, p0, sigma)):
        return scipy.curve_fit(
            f, xdata, ydata, p0, sigma, absolute_sigma, check_finite, bounds, method, jac, **options
        )  # fmt: skip
    x, y = tensor(xdata), tensor(ydata)
    if check_finite and not (np.isfinite(detached(x)).all() and np.isfinite(detached(y)).all()):
        raise ValueError("curve_fit: xdata and ydata must not contain infinities or NaN")
    if p0 is None:
        from inspect import signature

        p0 = np.ones(len(signature(f).parameters) - 1)
    scale = None if sigma is None else tensor(sigma)
    if scale is not None and scale.ndim > 1:
        raise NotImplementedError("curve_fit: sigma must be one-dimensional with Tensors")
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
