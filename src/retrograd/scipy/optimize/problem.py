"""Wrap the user's function, for SciPy's solvers and for the derivatives of the solution."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeAlias

import numpy as np

from ...core.arrays import Array
from ...core.arrays.dtypes import is_differentiable
from ...core.errors import describe
from ...core.graph.modes import modes, no_grad
from ...core.tensor.tensor import Tensor, new_tensor
from ...func.implicit.attach import LinearSolve, attached
from ...func.nests import LEAF
from ...ops.numpy.arguments import tensor
from ..decorators import ArrayLike, Function, detached, has_tensor, is_mapped, unsolved

if TYPE_CHECKING:
    from scipy.optimize import Bounds, OptimizeResult, RootResults

# Lower and upper bounds: SciPy's class, or a pair for each unknown, None for no bound.
Limits: TypeAlias = "Bounds | Sequence[tuple[ArrayLike | None, ArrayLike | None]]"
Method: TypeAlias = "str | Callable[..., OptimizeResult]"
OnArrays: TypeAlias = Callable[..., Array]  # a function of arrays, for SciPy to call
Found: TypeAlias = "Array | float | tuple[Array | float, RootResults]"  # SciPy's root, perhaps with a RootResults
Root: TypeAlias = "Tensor | Found | tuple[Tensor, RootResults]"


class Problem:
    """The user's function of one array of unknowns, its start point, and the derivatives of its solution."""

    def __init__(self, caller: str, fun: Function, x0: ArrayLike, args: object) -> None:
        if not callable(fun):
            raise TypeError(f"{caller}: expected a function, got {describe(fun)}")
        self.caller, self.fun = caller, fun
        self.args = args if isinstance(args, tuple) else (args,)
        x = tensor(x0)
        if not is_differentiable(x.dtype):
            x = x.astype(np.float64)
        self.x0 = x.detach()
        # If neither an argument is a Tensor nor the function reads one, SciPy solves the problem without derivatives.
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
        """Return the value of a function that returns one number."""
        value = self(x)
        if value.array.size != 1:
            raise ValueError(f"{self.caller}: the function must return one number, got {describe(value)}")
        return value.reshape(())

    def residual(self, x: Tensor) -> Tensor:
        """Return the value of a function that returns as many numbers as there are unknowns."""
        value = self(x)
        if value.array.size != x.array.size:
            raise ValueError(
                f"{self.caller}: the function must return as many numbers as there are unknowns, got {describe(value)} "
                f"for unknowns of shape {x.shape}"
            )
        return value.reshape(x.shape)

    def on_arrays(self, function: Callable[[Tensor], ArrayLike]) -> OnArrays:
        """Return a function of Tensors as a function of arrays or numbers, without recording."""

        def call(x: Array | float, *_: object) -> Array:
            with no_grad():
                value = detached(tensor(function(new_tensor(np.asarray(x, self.x0.dtype).reshape(self.x0.shape)))))
            return value if value.ndim else value[()]

        return call

    def derivative(self, function: Function | None) -> OnArrays | None:
        """Return the user's derivative as a function of arrays."""
        return None if function is None else self.on_arrays(lambda x: function(x, *self.args))

    def point(self, x: Array | float) -> Tensor:
        """Return a point that SciPy found as a Tensor."""
        return new_tensor(np.asarray(x, self.x0.dtype).reshape(self.x0.shape))

    def attach_none(self, x: Tensor, message: str) -> Tensor:
        """Return a point that is not a solution; differentiating it raises an error."""
        return unsolved(x, self(x), f"{self.caller}: the point has no derivative, since the search failed: {message}")

    def not_mapped(self) -> None:
        """Raise a RuntimeError inside of ``vmap``."""
        if self.mapped:
            raise RuntimeError(
                f"{self.caller}: SciPy cannot iterate inside vmap; use optimize.root, optimize.minimize or "
                "func.custom_root"
            )

    def attach(self, x: Tensor | Array | float, residual: Callable[[Tensor], Tensor]) -> Tensor:
        """Return the solution that SciPy found, with its derivatives."""
        leaf = x if isinstance(x, Tensor) else self.point(x)
        solver = LinearSolve(self.caller, LEAF)
        return attached([leaf], lambda leaves: [residual(leaves[0]).astype(leaf.dtype)], solver)[0]
