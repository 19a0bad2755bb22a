"""``minimize``: SciPy's optimization methods on nested containers of Tensors, with derivatives by backward passes."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from functools import partial
from math import prod
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import is_array
from ..core.arrays.dtypes import is_array_or_number
from ..core.errors import describe
from ..core.graph.modes import modes, no_grad
from ..core.graph.primitive import operand
from ..core.tensor.tensor import Tensor, new_tensor, to_array
from ..func import hessian, jacrev, value_and_grad, vjp
from ..func.nests import flatten
from ..func.reverse import grad
from ..ops.shape.joining import stack

_WITHOUT_GRADIENT = {"nelder-mead", "powell", "cobyla", "cobyqa"}
_WITH_PRODUCTS = {"newton-cg", "trust-ncg", "trust-krylov", "trust-constr"}
_WITH_HESSIAN = {"dogleg", "trust-exact"}


def minimize(
    fun: Callable[..., object],
    x0: object,
    args: tuple[object, ...] = (),
    method: object = None,
    *,
    hess: bool = False,
    bounds: object = None,
    constraints: object = (),
    tol: float | None = None,
    callback: Callable[..., object] | None = None,
    options: dict[str, object] | None = None,
) -> Any:
    r"""Minimize ``f(x)`` by SciPy's methods, with gradients and Hessian-vector products by differentiation.

    No finite differences are used: BFGS, L-BFGS-B, CG, TNC and SLSQP get the gradient; Newton-CG, trust-ncg,
    trust-krylov and trust-constr also Hessian-vector products; dogleg and trust-exact the whole Hessian.
    SciPy works on one float64 vector of all numbers in ``x0``; ``fun`` is called with Tensors of the dtypes of ``x0``.
    Line searches work best in float64.

    Args:
        fun: a function of a value like ``x0``, and of ``args``, that returns a real Tensor of one element.
        x0: the initial point: a Tensor, an array, or a nested container of them (dicts, lists, tuples, named tuples,
            dataclasses). A number, or a list of numbers, is an array of float64, as for SciPy.
        args: further arguments of ``fun``.
        method: a name of SciPy; by default BFGS, L-BFGS-B with bounds, or SLSQP with constraints.
        hess: form the whole Hessian even for methods that can use Hessian-vector products.
        bounds: ``scipy.optimize.Bounds``, or a pair ``(lower, upper)`` for each number, in order, with None for no
            bound; or a container like ``x0`` with one pair for each Tensor: numbers, or arrays that broadcast to it.
        constraints: as for SciPy: dictionaries, ``LinearConstraint`` (of the numbers in order) and
            ``NonlinearConstraint``, or a list of them. Their functions take a value like ``x0`` and are differentiated.
        tol: the tolerance of the method's stopping criterion.
        callback: called after each iteration, as by SciPy, with a value like ``x0`` in place of the vector.
        options: the options of the method, as SciPy documents them.

    Returns:
        SciPy's ``OptimizeResult``; ``x`` is a value like ``x0``, everything else (``fun``, ``jac``, ``success``,
        ``message``, ``nit``) is what SciPy returns, with gradients as one vector.

    Raises:
        ImportError: SciPy (extra ``special``) is not installed.
        TypeError: ``x0`` contains something that is neither Tensor, array nor number, or integer or complex Tensors;
            ``fun`` does not return a Tensor.
        ValueError: ``x0`` is empty, SciPy has no such method, or the bounds do not have the structure of ``x0``.
        RuntimeError: ``fun`` returns more than one number, or a complex number.

    Source: Nocedal and Wright, Numerical Optimization, 2006; scipy.optimize.

    >>> def rosenbrock(p):
    ...     return (1 - p["x"]) ** 2 + 100 * (p["y"] - p["x"] ** 2) ** 2
    >>> result = rg.optim.minimize(rosenbrock, {"x": np.array(-1.0), "y": np.array(2.0)}, method="trust-ncg")
    >>> {name: round(float(value), 5) for name, value in result.x.items()}
    {'x': 1.0, 'y': 1.0}
    """
    try:
        from scipy import optimize
    except ImportError:
        raise ImportError("minimize needs SciPy: pip install 'retrograd[special]'") from None
    if not callable(fun):
        raise TypeError(f"minimize: fun must be a function, got {type(fun).__name__}")
    if not (method is None or isinstance(method, str) or callable(method)):
        raise TypeError(f"minimize: method must be the name of a SciPy method or a function, got {method!r}")
    nest = _Nest(x0)
    args = args if isinstance(args, tuple) else (args,)
    objective = _Function("fun", lambda x: fun(x, *args), nest)
    name = method.lower() if isinstance(method, str) else method
    wanted: dict[str, object] = {"jac": None if name in _WITHOUT_GRADIENT else True}
    if name in _WITH_HESSIAN or hess:
        wanted["hess"] = objective.hessian
    elif name in _WITH_PRODUCTS or callable(name):
        wanted["hessp"] = objective.hessian_product
    result = optimize.minimize(
        objective.value if name in _WITHOUT_GRADIENT else objective.value_and_gradient,
        nest.vector(),
        method=method,
        **wanted,
        bounds=nest.bounds(bounds),
        constraints=_constraints(constraints, nest, optimize),
        tol=tol,
        callback=None if callback is None else _callback(callback, nest),
        options=options,
    )
    result.x = nest.given(result.x)
    return result


def _is_numbers(part: object) -> bool:
    """Return whether a value is a list of numbers, or a list of such lists."""
    return (
        isinstance(part, (list, tuple))
        and bool(part)
        and all(isinstance(item, (int, float, np.number)) or _is_numbers(item) for item in part)
    )


class _Nest:
    """Converts between the nest of the user's function and SciPy's vector."""

    def __init__(self, x0: object) -> None:
        leaves, self.structure = flatten(x0, _is_numbers)
        self.is_tensor = [isinstance(leaf, Tensor) for leaf in leaves]
        self.points = [
            self._point(leaf, path) for leaf, path in zip(leaves, self.structure.paths("x0"), strict=True)
        ]  # fmt: skip
        self.sizes = [prod(point.shape) for point in self.points]
        if not sum(self.sizes):
            raise ValueError("minimize: x0 contains no numbers")

    @staticmethod
    def _point(leaf: object, path: str) -> Tensor:
        if not isinstance(leaf, Tensor) and not is_array(leaf):
            if not _is_numbers(leaf) and not is_array_or_number(leaf):
                raise TypeError(f"minimize: {path} must be a Tensor, an array or numbers, got {type(leaf).__name__}")
            leaf = np.asarray(leaf)
        if not isinstance(leaf, Tensor):
            leaf = new_tensor(leaf.astype(np.float64) if leaf.dtype.kind in "iu" else leaf)
        if leaf.dtype.kind not in "fV":
            raise TypeError(f"minimize: {path} must be of floating dtype, got {describe(leaf)}")
        return leaf.detach()

    def vector(self, leaves: Any = None) -> np.ndarray:
        """Return the numbers of all leaves, in order, as a vector."""
        leaves = self.points if leaves is None else leaves
        return np.concatenate([leaf.detach().cpu().numpy().astype(np.float64).reshape(-1) for leaf in leaves])

    def leaves(self, vector: Any) -> tuple[Tensor, ...]:
        """Return the leaves as new Tensors with the numbers of a vector."""
        found: list[Tensor] = []
        start = 0
        for point, size in zip(self.points, self.sizes, strict=True):
            part = np.array(vector[start : start + size], np.float64).reshape(point.shape)
            found.append(new_tensor(to_array(part, dtype=point.dtype, device=point.device, copy=False)))
            start += size
        return tuple(found)

    def given(self, vector: Array) -> Any:
        """Return the numbers of a vector as a nest, with Tensors where ``x0`` has Tensors, and arrays elsewhere."""
        leaves = self.leaves(vector)
        return self.structure.unflatten(
            [leaf if kept else leaf.array for leaf, kept in zip(leaves, self.is_tensor, strict=True)]
        )

    def bounds(self, bounds: object) -> Any:
        """Return SciPy's form of bounds that are given for each Tensor of the nest."""
        if bounds is None or hasattr(bounds, "lb") or self._is_by_number(bounds):
            return bounds
        pairs = self.structure.leaves_of(bounds, "bounds")
        lower: list[Any] = []
        upper: list[Any] = []
        for pair, point, path in zip(pairs, self.points, self.structure.paths("bounds"), strict=True):
            if not isinstance(pair, (tuple, list)) or len(pair) != 2:
                raise ValueError(f"minimize: {path} must be a pair (lower, upper), got {pair!r:.60}")
            for values, side, none in ((lower, pair[0], -np.inf), (upper, pair[1], np.inf)):
                side = np.asarray(none if side is None else side.tolist() if isinstance(side, Tensor) else side, float)
                try:
                    values.append(np.broadcast_to(side, point.shape).reshape(-1))
                except ValueError:
                    raise ValueError(
                        f"minimize: {path} has shape {side.shape}, which does not broadcast to {tuple(point.shape)}"
                    ) from None
        return list(zip(np.concatenate(lower).tolist(), np.concatenate(upper).tolist(), strict=True))

    def _is_by_number(self, bounds: object) -> bool:
        """Return whether bounds are one pair of numbers per number of the nest."""
        return (
            isinstance(bounds, (list, tuple, np.ndarray, zip))
            and not (self.structure.type is not None and not isinstance(bounds, list))
            and (isinstance(bounds, zip) or all(_is_pair(pair) for pair in bounds))
        )


def _is_pair(pair: object) -> bool:
    return (
        isinstance(pair, (tuple, list, np.ndarray))
        and len(pair) == 2
        and all(side is None or np.ndim(side) == 0 for side in pair)
    )


class _Function:
    """A user's function of a nest, called with SciPy's vector; results are Python numbers or arrays."""

    def __init__(self, name: str, function: Callable[[Any], object], nest: _Nest) -> None:
        self.name, self.function, self.nest = name, function, nest
        self._product: tuple[bytes, Any] = (b"", None)

    def tensor(self, *leaves: Tensor) -> Tensor:
        """Return the function's value as one Tensor; it may be a number only if no derivative is needed."""
        y = self.function(self.nest.structure.unflatten(leaves))
        if isinstance(y, (list, tuple)) and any(isinstance(part, Tensor) for part in y):
            y = stack([operand(part) for part in y])
        if not isinstance(y, Tensor) and (modes.grad_enabled or not is_array_or_number(y)):
            hint = ", which has no gradient" if is_array_or_number(y) else ""
            raise TypeError(f"minimize: {self.name} must return a Tensor, got {type(y).__name__}{hint}")
        return operand(y)

    def scalar(self, *leaves: Tensor) -> Tensor:
        y = self.tensor(*leaves)
        if y.numel() != 1 or y.dtype.kind == "c":
            raise RuntimeError(f"minimize: {self.name} must return one real number, got {describe(y)}")
        return y.reshape(())

    def value(self, vector: np.ndarray) -> float:
        with no_grad():
            return float(self.scalar(*self.nest.leaves(vector)).item())

    def value_and_gradient(self, vector: Array) -> tuple[float, np.ndarray]:
        value, found = value_and_grad(self._traced, self._everything)(*self.nest.leaves(vector))
        return float(value.item()), self.nest.vector(found)

    def _traced(self, *leaves: Tensor) -> Tensor:
        y = self.scalar(*leaves)
        if y.dtype.kind not in "fV":
            raise TypeError(f"minimize: {self.name} must return a floating Tensor, got {describe(y)}")
        return y

    @property
    def _everything(self) -> tuple[int, ...]:
        return tuple(range(len(self.nest.points)))

    def hessian_product(self, vector: Array, direction: Array) -> np.ndarray:
        """``H(x) @ v``; the recorded gradient at a point serves all directions ``v`` at that point."""
        point = np.asarray(vector).tobytes()
        if self._product[0] != point:
            self._product = point, vjp(grad(self._traced, self._everything), *self.nest.leaves(vector))[1]
        return self.nest.vector(self._product[1](self.nest.leaves(direction)))

    def hessian(self, vector: np.ndarray) -> np.ndarray:
        blocks = hessian(self._traced, self._everything)(*self.nest.leaves(vector))
        sizes = self.nest.sizes
        rows = [
            [block.cpu().numpy().reshape(rows, columns) for block, columns in zip(row, sizes, strict=True)]
            for row, rows in zip(blocks, sizes, strict=True)
        ]
        return np.block(rows).astype(np.float64)

    def values(self, vector: np.ndarray) -> np.ndarray:
        with no_grad():
            return np.atleast_1d(self.tensor(*self.nest.leaves(vector)).cpu().numpy().astype(np.float64))

    def jacobian(self, vector: np.ndarray) -> np.ndarray:
        columns = jacrev(lambda *leaves: self.tensor(*leaves).reshape(-1), self._everything)(*self.nest.leaves(vector))
        parts = [
            column.cpu().numpy().reshape(column.shape[0], size)
            for column, size in zip(columns, self.nest.sizes, strict=True)
        ]
        return np.concatenate(parts, 1).astype(np.float64)

    def weighted(self, vector: np.ndarray, weights: object) -> np.ndarray:
        """Return the Hessian of the weighted sum of the values, as SciPy expects for constraints."""

        def total(nest: object) -> Tensor:
            y = self.tensor(*self.nest.structure.leaves_of(nest)).reshape(-1)
            return (y * operand(np.asarray(weights).astype(y.dtype))).sum()

        return _Function(self.name, total, self.nest).hessian(vector)


def _constraints(constraints: Any, nest: _Nest, optimize: Any) -> Any:
    """Return the constraints as functions of the flat vector, with Jacobians by backward passes."""
    if isinstance(constraints, dict) or not isinstance(constraints, (list, tuple)):
        constraints = [constraints]
    found = []
    for index, given in enumerate(constraints):
        name = f"constraints[{index}]"
        if isinstance(given, optimize.NonlinearConstraint):
            function = _Function(name, given.fun, nest)
            found.append(
                optimize.NonlinearConstraint(
                    function.values, given.lb, given.ub, function.jacobian, function.weighted, given.keep_feasible
                )
            )
        elif isinstance(given, dict):
            if not callable(given.get("fun")):
                raise ValueError(f"minimize: the dictionary {name} must have a function under the key 'fun'")
            function = _Function(name, partial(_with, given["fun"], given.get("args", ())), nest)
            found.append({"type": given.get("type"), "fun": function.values, "jac": function.jacobian})
        else:
            found.append(given)
    return found


def _with(function: Callable[..., object], args: tuple[object, ...], nest: object) -> Any:
    return function(nest, *args)


def _callback(callback: Callable[..., object], nest: _Nest) -> Callable[..., Any]:
    """Return the callback with an argument name that SciPy recognizes."""
    try:
        names = list(inspect.signature(callback).parameters)
    except ValueError:
        names = []
    if names == ["intermediate_result"]:

        def told(intermediate_result: Any) -> Any:
            result = type(intermediate_result)(intermediate_result)
            result.x = nest.given(intermediate_result.x)
            return callback(intermediate_result=result)

        return told
    return lambda x, *state: callback(nest.given(x), *state)
