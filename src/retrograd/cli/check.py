"""`retrograd check`: the gradients of every operator against central differences, to the second order.

Every operator of the table runs on its example calls in float64. An operator's outputs are projected on fixed random
weights, which makes a number of them; its gradient with respect to each element of each input is compared with
(f(x + h) - f(x - h)) / 2h. The second order does the same with the projected gradient in the place of the outputs.
"""

import argparse
import difflib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

import retrograd as rg
from retrograd.autograd.cases import Call, Case, Fixed, all_cases
from retrograd.ops.registry import OPERATORS

from .arguments import seed
from .console import Progress, Table, UserError, print_table

STEP = 1e-6

Array = NDArray[Any]
Scalar = Callable[[Sequence[rg.Tensor]], rg.Tensor]


def add_parser(subparsers: Any) -> None:
    parser = subparsers.add_parser(
        "check",
        help="check the gradients of every operator",
        description="Compare the gradients of operators with central differences; exit code 1 when one differs.",
    )
    parser.add_argument("operators", nargs="*", metavar="OPERATOR", help="names as in 'linalg.inv'; default: all")
    parser.add_argument("--seed", type=seed, default=0, help="of the example calls (default: 0)")
    parser.set_defaults(run=run)


def run(options: argparse.Namespace) -> int:
    cases = chosen_cases(options.operators)
    checked = []
    with Progress("operator", len(cases)) as progress:
        for count, case in enumerate(cases, start=1):
            checked.append(check_case(case, options.seed))
            progress.update(count)
    print_table(
        Table("Gradients", ["operator", "max difference", "second order", "passed"], [c.row() for c in checked])
    )
    for result in checked:
        if result.failure:
            print(f"{result.case.name}: {result.failure}")
    failed = [result.case.name for result in checked if not result.passed]
    worst = [max((result.errors[order] for result in checked if order in result.errors), default=0) for order in (1, 2)]
    print(f"{len(checked) - len(failed)} of {len(checked)} operators passed")
    print(f"worst relative difference: {worst[0]:.1e} in first order, {worst[1]:.1e} in second")
    return 1 if failed else 0


@dataclass(frozen=True)
class Checked:
    """What the check of one operator found: by order the worst relative difference, or why it could not be run."""

    case: Case
    errors: dict[int, float]
    failure: str = ""

    @property
    def passed(self) -> bool:
        return not self.failure and all(error <= self.case.tolerance for error in self.errors.values())

    def row(self) -> list[str]:
        shown = [f"{self.errors[order]:.1e}" if order in self.errors else "-" for order in (1, 2)]
        return [self.case.name, *shown, "yes" if self.passed else "NO"]


def chosen_cases(names: Sequence[str]) -> list[Case]:
    """The cases of the named operators, or all; UserError for a name that no operator has."""
    cases = sorted(all_cases(), key=lambda case: case.name)
    known = {case.name for case in cases}
    for name in names:
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            raise UserError(f"no operator is called {name!r}" + (f"; did you mean {near[0]!r}?" if near else ""))
    return [case for case in cases if not names or case.name in names]


def check_case(case: Case, seed: int) -> Checked:
    """Run every example call of the case and compare its gradients up to the case's order."""
    operator = OPERATORS[case.name].function
    errors: dict[int, float] = {}
    for call in case.calls(np.random.default_rng(seed)):
        try:
            for order, error in call_errors(operator, call, case.order).items():
                errors[order] = max(errors.get(order, 0.0), error)
        except Exception as error:  # whatever an operator raises is a finding about it, not the end of the check
            return Checked(case, errors, f"{call}: {type(error).__name__}: {error}")
    return Checked(case, errors)


def call_errors(operator: Callable[..., Any], call: Call, highest_order: int) -> dict[int, float]:
    """By order the largest difference between analytic and numerical gradients, relative to the numerical ones."""

    def value(tensors: Sequence[rg.Tensor]) -> rg.Tensor:
        rg.manual_seed(0)
        args, kwargs = filled((call.args, call.kwargs), iter(tensors))
        return projected(tensors_in(operator(*args, **kwargs)), seed=1)

    def slope(tensors: Sequence[rg.Tensor]) -> rg.Tensor:
        grads = rg.autograd.grad(value(tensors), tensors, create_graph=True, allow_unused=True)
        return projected(grads, seed=2)

    inputs = list(floating_arrays((call.args, call.kwargs)))
    functions = dict(zip(range(1, highest_order + 1), (value, slope)))
    return {order: relative_difference(function, inputs) for order, function in functions.items() if inputs}


def relative_difference(function: Scalar, inputs: Sequence[Array]) -> float:
    """The largest |analytic - numerical| over all elements, divided by the largest |numerical| where that exceeds 1."""
    differences, sizes = [0.0], [1.0]
    for analytic, numerical in zip(analytic_gradients(function, inputs), numerical_gradients(function, inputs)):
        differences.append(float(np.max(np.abs(analytic - numerical), initial=0.0)))
        sizes.append(float(np.max(np.abs(numerical), initial=0.0)))
    # max() would lose a NaN, which must fail the check.
    return float(np.max(differences) / np.max(sizes))


def analytic_gradients(function: Scalar, inputs: Sequence[Array]) -> list[Array]:
    tensors = differentiable(inputs)
    value = function(tensors)
    if not value.requires_grad:
        return [np.zeros_like(array) for array in inputs]
    grads = rg.autograd.grad(value, tensors, allow_unused=True)
    return [np.zeros_like(a) if grad is None else grad.detach().numpy() for a, grad in zip(inputs, grads)]


def numerical_gradients(function: Scalar, inputs: Sequence[Array]) -> list[Array]:
    """Central differences; for a complex element along both its axes, as df/dx + i df/dy."""
    gradients = [np.zeros_like(array) for array in inputs]
    for array, gradient in zip(inputs, gradients):
        for index in np.ndindex(array.shape):
            original = array[index]
            for axis in (1, 1j) if array.dtype.kind == "c" else (1,):
                step = STEP * max(1.0, float(abs(original)))
                array[index] = original + axis * step
                above = function(differentiable(inputs)).item()
                array[index] = original - axis * step
                below = function(differentiable(inputs)).item()
                array[index] = original
                gradient[index] += axis * (above - below) / (2 * step)
    return gradients


def projected(tensors: Iterable[rg.Tensor | None], seed: int) -> rg.Tensor:
    """The sum of all elements, each multiplied by a fixed random weight; of complex ones the real part."""
    random = np.random.default_rng(seed)
    total = rg.tensor(0.0, dtype=rg.float64, device="cpu")
    for tensor in tensors:
        if tensor is not None and tensor.dtype.kind in "fc":
            weights = np.asarray(random.standard_normal(tuple(tensor.shape)))
            if tensor.dtype.kind == "c":
                weights = weights + 1j * random.standard_normal(weights.shape)
            weighted = tensor * rg.from_numpy(weights)
            total = total + (weighted.real if tensor.dtype.kind == "c" else weighted).sum()
    return total


def differentiable(arrays: Iterable[Array]) -> list[rg.Tensor]:
    return [rg.from_numpy(array.copy()).requires_grad_() for array in arrays]


def floating_arrays(value: Any) -> Iterator[Array]:
    """The floating and complex arrays in a nest of lists, tuples and dictionaries."""
    if isinstance(value, np.ndarray):
        if value.dtype.kind in "fc":
            yield value
    elif isinstance(value, (list, tuple, dict)):
        for item in value.values() if isinstance(value, dict) else value:
            yield from floating_arrays(item)


def filled(value: Any, tensors: Iterator[rg.Tensor]) -> Any:
    """The nest with the next of `tensors` in the place of each floating array, and a constant Tensor for the others."""
    if isinstance(value, np.ndarray):
        return next(tensors) if value.dtype.kind in "fc" else rg.from_numpy(value)
    if isinstance(value, Fixed):
        return rg.from_numpy(value.array)
    if isinstance(value, dict):
        return {name: filled(item, tensors) for name, item in value.items()}
    if isinstance(value, (list, tuple)):
        return type(value)(filled(item, tensors) for item in value)
    return value


def tensors_in(outputs: Any) -> Iterator[rg.Tensor]:
    if isinstance(outputs, rg.Tensor):
        yield outputs
    elif isinstance(outputs, (list, tuple)):
        for output in outputs:
            yield from tensors_in(output)
