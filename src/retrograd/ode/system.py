"""The right-hand side of a differential equation as a function of leaves, and linear combinations of states."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from math import isfinite, sqrt
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import Wrapping, array_module, is_array
from ..core.errors import describe
from ..core.graph.modes import modes, no_grad, watchers
from ..core.graph.nodes import Node
from ..core.graph.primitive import Primitive, apply, operand
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.implicit.linear_solvers import NoSolution
from ..func.implicit.roots import unknowns
from ..func.implicit.vectors import Vectors
from ..func.nests import Mismatch
from ..ops.table.types import Operand

if TYPE_CHECKING:
    from ..core.mapping.batching import Call

Leaves = list[Tensor]
MAX_ROWS = 4096  # larger states are combined term by term, because a matrix of derivatives takes much memory
Times: TypeAlias = Sequence[Operand] | Array | Tensor  # a vector of times
Tolerance: TypeAlias = float | Array


def _forward(*xs: Array, weights: Sequence[float], value: Array | None = None) -> Array:
    if value is not None:
        return value
    total = weights[0] * xs[0] if weights[0] != 1 else xs[0]
    for weight, x in zip(weights[1:], xs[1:], strict=True):
        total = total + weight * x
    dtype = xs[0].dtype
    if not is_array(total):
        return np.asarray(total, dtype)  # NumPy returns scalars instead of 0-d arrays
    return total.astype(dtype) if total.dtype != dtype or total is xs[0] else total


def _vjp(g: Array, weights: Sequence[float], needs: tuple[bool, ...]) -> list[Array | None]:
    if type(g) is np.ndarray and g.size <= MAX_ROWS:
        products = np.multiply.outer(np.array(weights, g.dtype), g)
        return [products[i, ...] if need else None for i, need in enumerate(needs)]
    return [_scaled(weight, g) if need else None for weight, need in zip(weights, needs, strict=True)]


def _scaled(weight: float, g: Array) -> Array:
    product = weight * g
    return product if isinstance(product, Tensor) or is_array(product) else np.asarray(product, g.dtype)


def _jvp(node: Node, tangents: dict[int, Array], as_tensors: bool) -> Array | Tensor:
    weights = node.saved[COMBINE.position["weights"]]
    terms = [_scaled(weights[index], t) for index, t in tangents.items()]
    total = terms[0]
    for term in terms[1:]:
        total = total + term
    total = total if isinstance(total, Tensor) or is_array(total) else np.asarray(total, node.dtype)
    return new_tensor(total) if as_tensors and not isinstance(total, Tensor) else total


def _batch(call: Call) -> Tensor:
    return call.below([call.full(index) for index in range(len(call.values))])


COMBINE = Primitive("linear_combination", _forward, "*xs", vjp=_vjp, batch=_batch)
COMBINE.jvp = _jvp


def combine(weights: Sequence[float], states: Sequence[Leaves]) -> Leaves:
    """Return the sum of ``weight * state`` per leaf; states with weight 0 are left out, except for the first."""
    used = [i for i, weight in enumerate(weights) if weight != 0 or i == 0]
    chosen = tuple([float(weights[i]) for i in used])
    return [_combined(tuple([states[i][leaf] for i in used]), chosen) for leaf in range(len(states[0]))]


def _combined(xs: tuple[Tensor, ...], weights: tuple[float, ...]) -> Tensor:
    if watchers or modes.grad_enabled and requires_grad(xs):
        return apply(COMBINE, xs, {"weights": weights})
    return new_tensor(_forward(*[x.array for x in xs], weights=weights))


def requires_grad(xs: Iterable[Tensor]) -> bool:
    """Return whether any of the Tensors requires grad."""
    return any(x._requires for x in xs)


class Stages:
    """The derivatives k_i of one step, and their combinations with the state y at its start.

    If the state is one small NumPy array, the k_i are also stored as the rows of a matrix, so that a combination is one
    matrix product.
    """

    __slots__ = ("ks", "recorded", "rows", "y")

    def __init__(self, system: System, y: Leaves, count: int, ks: Sequence[Leaves] = ()) -> None:
        self.y = y
        self.ks: list[Leaves] = []
        self.rows = None
        self.recorded = False  # whether a row has a history
        if system.plain and not watchers:
            self.rows = np.empty((count, system.space.size), system.dtype)
        for k in ks:
            self.append(k)

    def append(self, k: Leaves) -> None:
        """Add the next derivative."""
        if self.rows is not None:
            self.rows[len(self.ks)] = k[0].array.reshape(-1)
            self.recorded = self.recorded or k[0]._requires
        self.ks.append(k)

    def combined(self, weights: Array) -> Leaves:
        """Return the sum of y and of ``weight * k`` over the derivatives so far."""
        rows = self.rows
        if rows is None:
            return combine([1.0, *weights.tolist()], [self.y, *self.ks])
        y = self.y[0]
        array = y.array
        if weights.dtype is not rows.dtype:
            weights = weights.astype(rows.dtype)
        value = weights.dot(rows[: len(weights)])
        value += array.reshape(-1)
        value = value.reshape(array.shape)
        if modes.grad_enabled and (self.recorded or y._requires):
            moving = [(k, w) for (k,), w in zip(self.ks, weights.tolist(), strict=False) if k._requires and w != 0]
            chosen = {"weights": [1.0, *[w for _, w in moving]], "value": value}
            return [apply(COMBINE, (y, *[k for k, _ in moving]), chosen)]
        return [new_tensor(value)]

    def vector(self, system: System, weights: Array) -> Array:
        """Return the sum of ``weight * k`` as an array of real numbers, without a history."""
        count = len(self.ks)
        if self.rows is not None:
            return weights.astype(self.rows.dtype, copy=False)[:count].dot(self.rows[: len(weights)])
        with no_grad():
            return system.vector(combine(weights[:count].tolist(), self.ks[: len(weights)]))


class SolveError(NoSolution):
    """An integration did not reach its end; the message says where and why it stopped."""


class System:
    """``dy/dt = f(t, y, *args)`` for nested states ``y``.

    Attributes:
        evaluations: the number of calls of ``f``.
        space: the space of states, for norms.
        dtype: the dtype of the time that ``f`` receives: real, with the precision of the state.
        single: whether the state is one Tensor instead of a nest.
        plain: whether the state is one small NumPy array of real numbers.
    """

    def __init__(self, caller: str, f: Callable[..., object], y0: object, args: tuple[object, ...]) -> None:
        if not callable(f):
            raise TypeError(f"{caller}: f must be a function of (t, y), got {describe(f)}")
        if not isinstance(args, tuple):
            raise TypeError(f"{caller}: args must be a tuple, got {describe(args)}")
        self.caller, self.f, self.args = caller, f, args
        self.leaves, self.structure = unknowns(caller, y0, "y0")
        self.paths = self.structure.paths("f(t, y)")
        self.space = Vectors.of(self.leaves)
        self.dtype = self.space.dtype
        self.evaluations = 0
        first = self.leaves[0].array if self.structure.type is None else None
        self.single = first is not None
        self.plain = type(first) is np.ndarray and first.dtype == self.dtype and 0 < first.size <= MAX_ROWS
        self.shape = () if first is None else first.shape

    def __call__(self, t: float | Tensor, y: Leaves) -> Leaves:
        """Return the derivative at time t."""
        self.evaluations += 1
        time = t if isinstance(t, Tensor) else new_tensor(np.asarray(t, self.dtype))
        result = self.f(time, y[0] if self.single else self.structure.unflatten(y), *self.args)
        if self.plain and type(result) is Tensor:
            array = result.array
            if type(array) is np.ndarray and array.shape == self.shape and array.dtype is self.dtype:
                return [result]
        try:
            leaves = self.structure.leaves_of(result, "f(t, y)")
        except Mismatch as error:
            raise ValueError(f"{self.caller}: f must return a nest like y0; {error}") from None
        found = []
        for value, like, path in zip(leaves, self.leaves, self.paths, strict=True):
            k = value if isinstance(value, Tensor) else operand(value)
            if k.shape != like.shape:
                raise ValueError(f"{self.caller}: {path} is {describe(k)}, but y0 has shape {tuple(like.shape)} there")
            if k.dtype != like.dtype:
                if k.dtype.kind == "c" and like.dtype.kind != "c":
                    raise TypeError(f"{self.caller}: {path} is complex, but y0 is {like.dtype}: pass a complex y0")
                k = k.astype(like.dtype)
            found.append(k)
        return found

    def vector(self, y: Leaves) -> Array:
        """Return a state as an array (*examples, n) of real numbers."""
        if self.plain and modes.level is None:
            return y[0].array.reshape(-1)
        with no_grad():
            return self.space.vector(y)

    def leaves_of(self, vector: Array) -> Leaves:
        """Return an array (*examples, n) as a state."""
        if self.plain and vector.ndim == 1:
            return [new_tensor(vector.reshape(self.shape))]
        return self.space.leaves(vector)

    def norm(self, x: Array, scale: Array) -> float:
        """Return the root mean square of ``x / scale``, the largest over all examples of ``vmap``."""
        if not x.size:
            return 0.0
        ratio = x / scale
        if ratio.ndim == 1 and type(ratio) is np.ndarray:
            return sqrt(ratio.dot(ratio) / ratio.size)
        return float(array_module(x).sqrt((ratio * ratio).mean(-1)).max())


def number(caller: str, value: Any, name: str) -> float:
    """Return a time as a float.

    Raises:
        TypeError: the time is not a real number.
        ValueError: the time is not finite.
        RuntimeError: the time differs between the examples of ``vmap``.
    """
    if isinstance(value, Tensor):
        array: Any = value.array
        while isinstance(array, Wrapping) and hasattr(type(array), "mapped"):
            if array.mapped:
                raise RuntimeError(
                    f"{caller}: {name} differs between the examples of vmap, which share their steps; integrate over "
                    "s in [0, 1] with t = t0 + (t1 - t0) * s instead"
                )
            array = array.value.array
        value = array.item() if array.size == 1 else array
    try:
        found = float(value)
    except (TypeError, ValueError):
        raise TypeError(f"{caller}: {name} must be a real number, got {describe(value)}") from None
    if not isfinite(found):
        raise ValueError(f"{caller}: {name} must be finite, got {found}")
    return found
