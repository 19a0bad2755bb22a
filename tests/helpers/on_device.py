"""An operator's cases on the arrays of another library, against the same on NumPy."""

from typing import Any

import numpy as np

from retrograd.autograd.gradcheck import differentiable_outputs, gradient_function, gradients, random_like, tensors_of
from retrograd.core.graph.modes import enable_grad
from retrograd.core.tensor.tensor import Tensor, new_tensor
from retrograd.ops.table.registry import Operator
from retrograd.testing.case import Case
from retrograd.testing.comparison import assert_close, numbers, to_numpy
from retrograd.testing.programs import Program, program_of, programs


def compare_with_numpy(operator: Operator, case: Case, xp: Any, tolerance: float) -> None:
    """Run every call, first and second order included, on arrays of ``xp``: NumPy's numbers, in arrays of ``xp``."""

    def to_device(array: Any) -> Tensor:
        return new_tensor(xp.asarray(array.copy()))

    for edges in (False, True):
        for program in programs(operator, case, edges=edges):
            got = results(program_of(operator, case, program.call, to_device), xp.ndarray)
            if case.random or not program.arrays:
                continue
            wanted = results(program, np.ndarray)
            for index, (a, b) in enumerate(zip(got, wanted, strict=True)):
                assert_close(a, b, tolerance, f"{program}: value {index} on {xp.__name__}", scale=1.0)


def results(program: Program, array_type: type) -> list[Any]:
    """What the program gives, its gradients, and the gradients of those, as NumPy arrays."""
    inputs = program.inputs()
    with enable_grad():
        result = program(*inputs)
        for tensor in () if moves_away(program) else tensors_of(result):
            assert type(tensor.array) is array_type, f"{program}: the result is a {type(tensor.array).__name__}"
        outputs = differentiable_outputs(result)
        values = [to_numpy(value) for value in numbers(result)]
        if not outputs or program.case.order == 0:
            return values
        cotangents = random_like(outputs, np.random.default_rng(3))
        found = gradients(outputs, inputs, cotangents)
        if program.case.order > 1:
            slopes = differentiable_outputs(gradient_function(program, len(inputs))(*inputs, *cotangents))
            found += slopes
            if slopes:
                found += gradients(slopes, inputs, random_like(slopes, np.random.default_rng(4)))
    for g in found:
        if g is not None:
            assert isinstance(g.array, (array_type, np.generic)), f"{program}: a gradient is a {type(g.array).__name__}"
            values.append(to_numpy(g))
    return values


def moves_away(program: Program) -> bool:
    """Whether the call asks for a result on the CPU."""
    arguments = (*program.call.args, *program.call.kwargs.values())
    return program.operator.name == "cpu" or any(type(value) is str and value == "cpu" for value in arguments)
