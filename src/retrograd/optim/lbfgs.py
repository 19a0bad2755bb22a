"""LBFGS: a quasi-Newton method with limited memory, and a line search for the strong Wolfe conditions."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from ..core.arrays import Array
from ..core.arrays.blas import beside_pool
from ..core.arrays.devices import array_module
from ..core.arrays.fp_warnings import silent
from ..core.graph.modes import enable_grad
from ..core.missing_names import legacy_names
from ..core.tensor.tensor import Tensor, new_tensor
from .hyperparameters import LearningRate, hyperparameters, number
from .optimizer import Optimizer, ParamsT, writable


class Trial(NamedTuple):
    """A point of the line search: the step length, the loss, its gradient, and the directional derivative."""

    t: float
    loss: float
    gradient: Any
    slope: float


class LBFGS(Optimizer):
    r"""L-BFGS: approximates the inverse Hessian by the last steps and gradient differences.

    The direction is computed by the two-loop recursion from at most ``history_size`` pairs ``s`` (step) and ``y``
    (gradient difference) with ``<s, y> > 1e-10``, starting from ``<s, y> / <y, y>`` times the identity. ``step`` needs
    a closure, which it calls several times. One parameter group only.

    Args:
        params: the parameters.
        lr: the step length (with a line search, its first trial).
        max_iter: iterations per ``step``.
        max_eval: calls of the closure per ``step``; by default ``max_iter * 5 / 4``.
        tolerance_grad: stop when the largest absolute gradient is below this bound.
        tolerance_change: stop when the loss or the parameters change by less than this bound.
        history_size: the number of pairs to store.
        line_search_fn: None or ``"strong_wolfe"``.

    Raises:
        ValueError: ``lr`` is negative, or there are several groups.
        RuntimeError: ``line_search_fn`` is not supported.

    Source: Nocedal and Wright, Numerical Optimization, 2006, algorithms 7.4, 3.5 and 3.6.

    >>> x = rg.tensor([-1.5, 2.0], requires_grad=True)
    >>> optimizer = rg.optim.LBFGS([x], line_search_fn="strong_wolfe")
    >>> def closure():
    ...     optimizer.zero_grad()
    ...     loss = (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2
    ...     loss.backward()
    ...     return loss
    >>> for _ in range(5):
    ...     loss = optimizer.step(closure)
    >>> [round(value, 2) for value in x.tolist()]
    [1.0, 1.0]
    """

    def __init__(
        self,
        params: ParamsT,
        lr: LearningRate = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if line_search_fn not in (None, "strong_wolfe"):
            raise RuntimeError(f"LBFGS: only 'strong_wolfe' is supported as line_search_fn, got {line_search_fn!r}")
        max_eval = max_iter * 5 // 4 if max_eval is None else max_eval
        super().__init__(params, hyperparameters(locals()))
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")

    def _state_shape(self, key: str, parameter: Tensor) -> tuple[int, ...] | None:
        return None

    @property
    def _params(self) -> list[Tensor]:
        return self.param_groups[0]["params"]

    def _flat_gradient(self) -> Array:
        """Return all gradients as one vector; complex numbers count as pairs, missing gradients as zeros."""
        pieces = []
        for parameter in self._params:
            array = parameter.array
            grad, zeros = parameter._grad, array_module(array).zeros_like(array)
            g = zeros if grad is None else grad.array if grad.is_dense else (new_tensor(zeros) + grad).array
            pieces.append(_as_real(g).reshape(-1))
        return np.concatenate(pieces)

    def _move(self, t: float, direction: Array) -> None:
        start = 0
        for parameter in self._params:
            p = writable(parameter)
            size = p.size * (2 if p.dtype.kind == "c" else 1)
            move = t * direction[start : start + size]
            if p.dtype.kind == "c":
                move = move[::2] + 1j * move[1::2]
            p += move.reshape(p.shape).astype(p.dtype, copy=False)
            start += size

    def step(self, closure: Callable[[], Any] | None = None) -> Any:
        """Run up to ``max_iter`` iterations; the closure clears the gradients, computes the loss and its gradients.

        Returns:
            The closure's first result.
        """
        if closure is None:
            raise TypeError("LBFGS.step() needs a closure that computes the loss and its gradients")
        group = self.param_groups[0]
        lr, max_iter, max_eval = number(group["lr"]), group["max_iter"], group["max_eval"]
        tolerance_grad, tolerance_change = group["tolerance_grad"], group["tolerance_change"]
        state = self.state[self._params[0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)

        def evaluate() -> tuple[Any, float, Any]:
            with enable_grad():
                result = closure()
            state["func_evals"] += 1
            return result, float(result.detach() if isinstance(result, Tensor) else result), self._flat_gradient()

        with silent():
            first_loss, loss, gradient = evaluate()
            evaluations = 1
            if _largest(gradient) <= tolerance_grad:
                return first_loss
            for iteration in range(1, max_iter + 1):
                state["n_iter"] += 1
                direction = self._direction(state, gradient, group["history_size"])
                state["prev_flat_grad"] = new_tensor(gradient.copy())
                state["prev_loss"] = last_loss = loss
                t = lr / max(1.0, float(np.abs(gradient).sum())) if state["n_iter"] == 1 else lr
                slope = _dot(gradient, direction)
                state["d"], state["t"] = new_tensor(direction), t
                if slope > -tolerance_change:
                    break
                if group["line_search_fn"] is not None:
                    here = [parameter.array.copy() for parameter in self._params]

                    def trial(t: float, here: list[Array] = here, direction: Array = direction) -> Trial:
                        self._move(t, direction)
                        _, loss, gradient = evaluate()
                        for parameter, values in zip(self._params, here):
                            writable(parameter)[...] = values
                        return Trial(t, loss, gradient, _dot(gradient, direction))

                    start = Trial(0.0, loss, gradient, slope)
                    before = state["func_evals"]
                    found = strong_wolfe(trial, start, t, _largest(direction), max_eval - evaluations)
                    evaluations += state["func_evals"] - before
                    t, loss, gradient = found.t, found.loss, found.gradient
                    state["t"] = t
                    self._move(t, direction)
                else:
                    self._move(t, direction)
                    if iteration != max_iter:
                        _, loss, gradient = evaluate()
                        evaluations += 1
                if (
                    evaluations >= max_eval
                    or _largest(gradient) <= tolerance_grad
                    or _largest(direction) * abs(t) <= tolerance_change
                    or abs(loss - last_loss) < tolerance_change
                ):
                    break
        return first_loss

    def _direction(self, state: dict[str, Any], gradient: Array, history_size: int) -> Array:
        """Return minus the approximate inverse Hessian times the gradient, by the two-loop recursion."""
        if state["n_iter"] == 1:
            state["old_dirs"], state["old_stps"], state["ro"], state["H_diag"] = [], [], [], 1.0
            return -gradient
        y = gradient - state["prev_flat_grad"].array
        s = state["d"].array * float(state["t"])
        curvature = _dot(y, s)
        differences, moves, inverses = state["old_dirs"], state["old_stps"], state["ro"]
        if curvature > 1e-10:
            if len(differences) == history_size:
                for history in (differences, moves, inverses):
                    del history[0]
            differences.append(new_tensor(y))
            moves.append(new_tensor(s))
            inverses.append(1.0 / curvature)
            state["H_diag"] = curvature / _dot(y, y)
        direction = -gradient
        weights = []
        for y, s, inverse in zip(reversed(differences), reversed(moves), reversed(inverses)):
            weights.append(_dot(s.array, direction) * float(inverse))
            direction -= weights[-1] * y.array
        direction *= float(state["H_diag"])
        for y, s, inverse, weight in zip(differences, moves, inverses, reversed(weights)):
            direction += (weight - _dot(y.array, direction) * float(inverse)) * s.array
        return direction


def strong_wolfe(
    trial: Callable[[float], Trial],
    start: Trial,
    t: float,
    longest: float,
    max_trials: int,
    c1: float = 1e-4,
    c2: float = 0.9,
    tolerance_change: float = 1e-9,
) -> Trial:
    """Find t with ``f(t) <= f(0) + c1 t f'(0)`` and ``|f'(t)| <= c2 |f'(0)|`` (the strong Wolfe conditions).

    The bracket is extended until it contains such a point, then reduced by cubic interpolation. ``longest`` is the
    largest component of the direction; the search stops when the bracket changes no parameter by more than
    ``tolerance_change``. After ``max_trials`` the best point so far is returned.
    """

    def decreases_too_little(point: Trial) -> bool:
        return point.loss > start.loss + c1 * point.t * start.slope

    def is_flat(point: Trial) -> bool:
        return abs(point.slope) <= -c2 * start.slope

    last, point = start, trial(t)
    trials = 0
    while True:
        if trials >= max_trials:
            return min(start, point, key=lambda end: end.loss)
        if decreases_too_little(point) or (trials > 1 and point.loss >= last.loss):
            break
        if is_flat(point):
            return point
        if point.slope >= 0:
            break
        bounds = (point.t + 0.01 * (point.t - last.t), point.t * 10)
        last, point = point, trial(cubic_minimum(last, point, bounds))
        trials += 1

    low, high = (last, point) if last.loss <= point.loss else (point, last)
    progressed = True
    while trials < max_trials and abs(high.t - low.t) * longest >= tolerance_change:
        left, right = min(low.t, high.t), max(low.t, high.t)
        # `low` and `high` are swapped with their losses; the interpolation works in either order.
        t = cubic_minimum(low, high, (left, right))
        margin = 0.1 * (right - left)
        if min(right - t, t - left) < margin:
            # If the trial is close to an end of the bracket twice in a row, or on it, move it away from the end.
            if not progressed or t >= right or t <= left:
                t = right - margin if abs(t - right) < abs(t - left) else left + margin
                progressed = True
            else:
                progressed = False
        else:
            progressed = True
        point = trial(t)
        trials += 1
        if decreases_too_little(point) or point.loss >= low.loss:
            high = point
            if high.loss < low.loss:
                low, high = high, low
        else:
            if is_flat(point):
                return point
            if point.slope * (high.t - low.t) >= 0:
                high = low
            low = point
    return low


def cubic_minimum(first: Trial, second: Trial, bounds: tuple[float, float]) -> float:
    """Return the minimizer, within the bounds, of the cubic through two losses and slopes, or else the midpoint.

    Source: Nocedal and Wright, Numerical Optimization, 2006, equation 3.59.
    """
    if first.t > second.t:
        first, second = second, first
    if first.t == second.t:  # both steps have underflowed, after a gradient that is not finite
        return (bounds[0] + bounds[1]) / 2
    d1 = first.slope + second.slope - 3 * (first.loss - second.loss) / (first.t - second.t)
    square = d1 * d1 - first.slope * second.slope
    if not square >= 0:
        return (bounds[0] + bounds[1]) / 2
    d2 = sqrt(square)
    step = (second.t - first.t) * ((second.slope + d2 - d1) / (second.slope - first.slope + 2 * d2))
    return min(max(second.t - step, bounds[0]), bounds[1])


def _as_real(array: Array) -> Array:
    if array.dtype.kind != "c":
        return array
    return np.stack([array.real, array.imag], axis=-1)


def _dot(x: Array, y: Array) -> float:
    return float(beside_pool(np.dot, x, y))


def _largest(x: Array) -> float:
    return float(np.abs(x).max()) if x.size else 0.0


if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)  # private names of PyTorch
