"""The right-hand side of a differential equation as a function of leaves, and errors of solvers."""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np

from ..core.arrays import Array
from ..core.arrays.devices import Wrapping, array_module
from ..core.errors import describe
from ..core.graph.modes import modes
from ..core.graph.primitive import operand
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.implicit.linear_solvers import NoSolution
from ..func.implicit.roots import unknowns
from ..func.implicit.vectors import Vectors
from ..func.nests import Mismatch
from .combine import Leaves


class SolveError(NoSolution):
    """An integration did not reach its end; the message says where and why it stopped."""


class System:
    """``dy/dt = f(t, y, *args)`` for nested states ``y``.

    Attributes:
        evaluations: the number of calls of ``f``.
        space: the space of states, for norms.
        dtype: of the time that ``f`` receives: real, with the precision of the state.
    """

    def __init__(self, caller: str, f: Callable[..., Any], y0: Any, args: tuple[Any, ...]) -> None:
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

    def __call__(self, t: float | Tensor, y: Leaves) -> Leaves:
        """Return the derivative at time t."""
        self.evaluations += 1
        time = t if isinstance(t, Tensor) else new_tensor(np.asarray(t, self.dtype))
        result = self.f(time, self.structure.unflatten(y), *self.args)
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
        if len(y) == 1 and modes.level is None:
            array = y[0].array
            if type(array) is np.ndarray and array.dtype == self.dtype:
                return array.reshape(-1)
        return self.space.vector(y)

    def norm(self, x: Array, scale: Array) -> float:
        """Return the root mean square of ``x / scale``, the largest over all examples of ``vmap``."""
        if not x.size:
            return 0.0
        ratio = x / scale
        return float(array_module(x).sqrt((ratio * ratio).mean(-1)).max())


def number(caller: str, value: Any, name: str) -> float:
    """Return a time as a float.

    Raises:
        TypeError: it is not a real number.
        ValueError: it is not finite.
        RuntimeError: it differs between the examples of ``vmap``.
    """
    if isinstance(value, Tensor):
        array: Any = value.array
        while isinstance(array, Wrapping):
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
