"""Roots and fixed points."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np

from ..._generated import toplevel as ops
from ...core.arrays import Array
from ...core.graph.modes import no_grad
from ...core.tensor.tensor import Tensor
from ...func.implicit.newton import newton as newtons_method
from ...func.jacobians import jacrev
from ...ops.numpy.arguments import tensor
from ..decorators import ArrayLike, Function, detached, has_tensor, scipys
from .problem import Found, OnArrays, Problem, Root

if TYPE_CHECKING:
    from scipy.optimize import OptimizeResult, RootResults


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

    The root is differentiable with respect to args and Tensors that ``fun`` reads (implicit function theorem). Without
    ``jac`` the methods "hybr" and "lm" get the exact Jacobian. Differentiating a failed result raises an error.

    >>> from retrograd.scipy import optimize
    >>> a = rg.tensor([4.0, 9.0], requires_grad=True)
    >>> optimize.root(lambda x, a: x**2 - a, rg.ones(2), (a,)).x
    tensor([2., 3.], grad_fn=<implicit>)
    """
    problem = Problem("root", fun, x0, args)
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
    x = problem.point(result.x)
    result.x = problem.attach(x, problem.residual) if result.success else problem.attach_none(x, result.message)
    with no_grad():
        result.fun = problem.residual(result.x.detach())
    return result


def _scalar_root(
    caller: str, solve: Callable[[OnArrays], Found], f: Function, x: ArrayLike, args: object
) -> tuple[Tensor, RootResults | None]:
    """Return the root that ``solve`` finds as a differentiable Tensor, and the rest of its result."""
    problem = Problem(caller, f, x, args)
    if problem.mapped:
        with no_grad():
            (found,) = newtons_method(caller, lambda leaves: [problem.residual(leaves[0])], [problem.x0], None)
        return problem.attach(found, problem.residual), None
    result = solve(problem.on_arrays(problem.residual))
    rest = None
    if isinstance(result, tuple):
        result, rest = result
    return problem.attach(result, problem.residual), rest


def _bisected(problem: Problem, a: ArrayLike, b: ArrayLike) -> Tensor:
    """Return the root in a bracket for every example of ``vmap``, NaN for those without a change of sign."""
    with no_grad():
        low, high = [tensor(x).detach().astype(problem.x0.dtype).reshape(problem.x0.shape) for x in (a, b)]
        below, above = problem.residual(low), problem.residual(high)
        high = ops.where(below * above > 0, math.nan, high)
        for _ in range(64):
            middle = (low + high) / 2
            right = problem.residual(middle) * below > 0  # the root is to the right of the midpoint
            low, high = ops.where(right, middle, low), ops.where(right, high, middle)
    return problem.attach((low + high) / 2, problem.residual)


def _bracketing(name: str) -> Callable[..., Root]:
    """Return SciPy's bracketing method of this name, with a differentiable root."""

    def method(f: Function, a: ArrayLike, b: ArrayLike, args: object = (), **options: object) -> Root:
        scipy = scipys("scipy.optimize")
        solve = getattr(scipy, name)
        middle = (
            (tensor(a).detach() + tensor(b).detach()) / 2
            if has_tensor((a, b))
            else np.asarray([a, b], np.float64).mean()
        )
        problem = Problem(name, f, middle, args)
        if not has_tensor((a, b)) and not problem.ours:
            return solve(f, a, b, args, **options)
        if problem.mapped and not options.get("full_output"):
            return _bisected(problem, a, b)
        problem.not_mapped()

        def find(function: OnArrays) -> Found:
            return solve(function, float(detached(tensor(a))), float(detached(tensor(b))), **options)

        found, rest = _scalar_root(name, find, f, middle, args)
        if rest is None:
            return found
        rest.root = found
        return found, rest

    method.__name__ = method.__qualname__ = name
    method.__doc__ = f"""Return a root of a scalar function in the bracket [a, b], as scipy.optimize.{name}.

    The root is differentiable with respect to args and Tensors that ``f`` reads; the bracket is constant. A
    bracket without a change of sign raises SciPy's ValueError; inside ``vmap``, which bisects the bracket, the root is
    NaN.

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
    problem = Problem("newton", func, x0, args)
    scipy = scipys("scipy.optimize")
    if not problem.ours:
        return scipy.newton(func, x0, fprime, args, tol, maxiter, fprime2, x1, rtol, full_output, disp)
    if full_output:
        problem.not_mapped()
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
    problem = Problem("root_scalar", f, start, args)
    if not problem.ours:
        return scipy.root_scalar(f, args, method, **options)
    if problem.mapped:
        found = brentq(f, *bracket, args) if x0 is None and bracket is not None else newton(f, start, args=args)
        return scipy.RootResults(found, 0, 0, 0, method)
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
    problem = Problem("fixed_point", func, x0, args)
    scipy = scipys("scipy.optimize")
    if not problem.ours:
        return scipy.fixed_point(func, x0, args, xtol, maxiter, method)
    if problem.mapped:
        from ...func.implicit.optima import fixed_point as ours

        return ours(lambda x: problem.residual(x), problem.x0, tol=xtol, maxiter=maxiter)
    x = scipy.fixed_point(problem.on_arrays(problem.residual), detached(problem.x0), (), xtol, maxiter, method)
    return problem.attach(x, lambda x: x - problem.residual(x))


def fsolve(
    func: Function,
    x0: ArrayLike,
    args: object = (),
    fprime: Function | None = None,
    full_output: bool = False,
    col_deriv: bool = False,
    xtol: float = 1.49012e-08,
    maxfev: int = 0,
    band: tuple[int, int] | None = None,
    epsfcn: float | None = None,
    factor: float = 100,
    diag: ArrayLike | None = None,
) -> Tensor | Array | tuple[object, ...]:
    """Return a root of a vector function, as scipy.optimize.fsolve; computed by ``root``.

    >>> from retrograd.scipy import optimize
    >>> a = rg.tensor([4.0], requires_grad=True)
    >>> optimize.fsolve(lambda x, a: x**2 - a, rg.ones(1), (a,))
    tensor([2.], grad_fn=<implicit>)
    """
    if not Problem("fsolve", func, x0, args).ours:
        scipy = scipys("scipy.optimize")
        return scipy.fsolve(func, x0, args, fprime, full_output, col_deriv, xtol, maxfev, band, epsfcn, factor, diag)
    if full_output or col_deriv:
        raise NotImplementedError("fsolve: full_output and col_deriv are not supported with Tensors; use optimize.root")
    return root(func, x0, args, jac=fprime, tol=xtol).x
