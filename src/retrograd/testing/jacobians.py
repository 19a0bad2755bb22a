"""Compare the Jacobians of a program with central differences: elements, or one random projection of each."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..autograd.gradcheck import analytic_jacobian, gradients, random_like, report
from ..autograd.numerical import as_real, directional_differences, numerical_jacobian, real_size
from ..core.arrays.fp_warnings import silent
from ..core.tensor.tensor import Tensor
from .comparison import relative_errors, scale_of
from .programs import Program


def seed_of(program: Program) -> np.random.Generator:
    return np.random.default_rng([len(program.arrays), *map(len, (program.operator.name, program.call.args))])


def sample(size: int, most: int, rng: np.random.Generator) -> list[int]:
    """Return all indices below ``size``, or ``most`` of them at random."""
    if size <= most:
        return list(range(size))
    return sorted(rng.choice(size, most, replace=False).tolist())


def projected_error(
    inputs: list[Tensor], outputs: list[Tensor], function: Callable[..., Sequence[Tensor]], rng: np.random.Generator
) -> float:
    """Return the largest relative error of ``v^T J t``, for one random t per input and one random v per output.

    The result depends on every element of each Jacobian. The error is relative as in ``relative_errors``: a result
    smaller than 1e-3 of its largest term, or of the largest output, is compared relative to that bound.
    """
    with silent():
        along = [directional_differences(function, inputs, x, rng.standard_normal(real_size(x))) for x in inputs]
    scale, worst = scale_of(outputs), 0.0
    for index, (output, cotangent) in enumerate(zip(outputs, random_like(outputs, rng), strict=True)):
        found = gradients([output], inputs, [cotangent]) if output._requires else [None] * len(inputs)
        weights = as_real(cotangent.array)
        for g, (derivatives, direction) in zip(found, along, strict=True):
            terms = weights * derivatives[index]
            analytic = 0.0 if g is None else float(as_real(g.array) @ direction)
            bound = max(scale, float(np.abs(terms).max(initial=0.0)))
            error = float(relative_errors(np.asarray(analytic), np.asarray(terms.sum()), bound))
            worst = max(worst, error)
    return worst


def compare_jacobians(
    program: Program,
    inputs: list[Tensor],
    outputs: list[Tensor],
    function: Callable[..., Sequence[Tensor]],
    tolerance: float,
    most: int,
    what: str,
) -> float:
    """Return the largest relative error between the Jacobians by derivative rules and by central differences."""
    rng = seed_of(program)
    columns = [sample(real_size(x), most, rng) for x in inputs]

    def differences(eps: float) -> list[list[np.ndarray]]:
        with silent():
            return numerical_jacobian(function, inputs, eps, columns)

    numerical = differences(6e-6)
    scale = scale_of(outputs)
    worst = 0.0
    retried: dict[float, Any] = {}
    for index, output in enumerate(outputs):
        rows = sample(real_size(output), most, rng)
        jacobians = analytic_jacobian(output, inputs, rows) if output._requires else None
        for position, x in enumerate(inputs):
            kept = columns[position]
            n = numerical[index][position][rows]
            a = np.zeros(n.shape) if jacobians is None else jacobians[position][:, kept]
            if not n.size:
                continue
            errors = relative_errors(a, n, scale)
            # Retry with other steps: truncation may require a smaller step, rounding a larger one.
            for eps in (1e-4, 3e-7, 1e-3):
                if float(errors.max()) <= tolerance:
                    break
                if eps not in retried:
                    retried[eps] = differences(eps)
                errors = np.minimum(errors, relative_errors(a, retried[eps][index][position][rows], scale))
            error = float(errors.max())
            if error > tolerance:
                detail = report(a, n, errors > tolerance, output, x, kept, rows)
                raise AssertionError(
                    f"{program}: {what} of output {index} for input {position} has relative error {error:.2e}, "
                    f"allowed {tolerance:.0e}:\n{detail}"
                )
            worst = max(worst, error)
    return worst
