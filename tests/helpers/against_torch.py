"""Operators against PyTorch: forward and gradients of the same calls. PyTorch is imported only when a check runs."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
from numpy.lib.stride_tricks import as_strided

from retrograd.autograd.gradcheck import differentiable_outputs, gradients, random_like
from retrograd.autograd.gradients import grad
from retrograd.core.graph.modes import enable_grad
from retrograd.core.tensor.tensor import Tensor, new_tensor
from retrograd.ops.table.registry import Operator
from retrograd.testing.case import Call, Case
from retrograd.testing.comparison import assert_close, numbers, to_numpy
from retrograd.testing.programs import Program, program_of, programs, replaced, rewritten


def torch_function(operator: Operator, case: Case) -> Callable[..., Any] | None:
    """PyTorch's function of the operator, None where the case says that it has none.

    Raises:
        AssertionError: PyTorch has no function of that name.
    """
    import torch

    if case.torch == "":
        return None
    if case.torch is not None:
        path = case.torch.removeprefix("torch.")
    else:
        path = f"{operator.namespace}.{operator.name}" if operator.namespace else operator.name
    found: Any = torch
    for part in path.split("."):
        found = getattr(found, part, None)
        assert found is not None, f"{operator.qualified_name}: PyTorch has no torch.{path}; say which in torch="
    return case.wrapped(found)


def torch_value(value: Any) -> Any:
    """An argument as PyTorch takes it."""
    import torch

    if isinstance(value, np.dtype) or isinstance(value, type) and issubclass(value, np.generic):
        return torch.from_numpy(np.zeros((), value)).dtype
    if isinstance(value, (list, tuple)) and not isinstance(value, Tensor):
        items = [torch_value(item) for item in value]
        return type(value)(*items) if hasattr(value, "_fields") else type(value)(items)
    return value


class NoDerivative(Exception):
    """PyTorch does not implement the derivative of an operator; here central differences check it."""


def torch_gradients(outputs: Sequence[Any], inputs: Sequence[Any], cotangents: Sequence[Any], **options: bool) -> Any:
    """Return PyTorch's gradients, None for unused inputs.

    Raises:
        NoDerivative: PyTorch does not implement them.
    """
    import torch

    try:
        return torch.autograd.grad(outputs, inputs, cotangents, allow_unused=True, **options)
    except NotImplementedError as error:
        raise NoDerivative(str(error)) from None


def compare_with_torch(program: Program) -> float:
    """Forward and gradients of one call against PyTorch's; the largest relative error."""
    function = torch_function(program.operator, program.case)
    if function is None or program.case.random:
        return 0.0
    tolerance = program.case.torch_tolerance
    inputs = program.inputs()
    with enable_grad():
        result = program(*inputs)
    try:
        wanted, theirs = torch_call(function, program, range(len(inputs)))
    except RuntimeError as error:
        if "is not implemented" not in str(error):
            raise
        # PyTorch has the derivative for some of the inputs only, and refuses all if another one requires grad.
        wanted, theirs = torch_call(function, program, [])
    got = numbers(result)
    assert len(got) == len(wanted), f"{program}: {len(got)} results, PyTorch gives {len(wanted)}"
    worst = 0.0
    for a, b in zip(got, wanted, strict=True):
        if hasattr(a, "dtype") and hasattr(b, "dtype"):
            dtype = str(b.dtype).rpartition(".")[2]
            assert a.dtype.name == dtype, f"{program}: the result has dtype {a.dtype}, PyTorch's {dtype}"
        worst = max(worst, assert_close(a, b, tolerance, f"{program}: forward against PyTorch"))
    if theirs:
        with suppress(NoDerivative):
            worst = max(worst, compare_gradients(program, inputs, differentiable_outputs(result), wanted, theirs))
    return worst


def torch_call(
    function: Callable[..., Any], program: Program, differentiated: Iterable[int], order: str = "K"
) -> tuple[list[Any], Any]:
    """PyTorch's results, and its inputs; those of the given places require grad.

    The inputs are copies in the ``order`` of NumPy's name, with ``""`` the call's arrays themselves.
    """
    import torch

    theirs: list[Any] = []
    places = set(differentiated)

    def change(array: Any, requires_grad: bool) -> Any:
        tensor = torch.from_numpy(np.array(array, order=order) if order else array)
        if requires_grad:
            tensor.requires_grad_(len(theirs) in places)
            theirs.append(tensor)
        return tensor

    def called(convert: Callable[[Any], Any]) -> Any:
        theirs.clear()
        args = [convert(torch_value(replaced(value, change))) for value in program.call.args]
        kwargs = {name: convert(torch_value(replaced(value, change))) for name, value in program.call.kwargs.items()}
        with warnings.catch_warnings():
            # PyTorch's own deprecations and notes are not ours to pass on.
            warnings.simplefilter("ignore")
            return function(*args, **kwargs)

    def wrapped(value: Any) -> Any:
        return (
            torch.tensor(value, dtype=torch.float64 if isinstance(value, float) else None)
            if is_number(value)
            else value
        )

    try:
        result = called(lambda value: value)
    except TypeError:
        # Where PyTorch takes Tensors only, a number is a Tensor without dimensions.
        result = called(wrapped)
    return [x for x in numbers(result) if x is not None], theirs if places else []


def is_number(value: Any) -> bool:
    return isinstance(value, (bool, int, float, complex))


def compare_gradients(program: Program, inputs: list[Tensor], outputs: list[Tensor], wanted: Any, theirs: Any) -> float:
    """The gradients for the same random cotangents."""
    import torch

    their_outputs = [x for x in wanted if getattr(x, "requires_grad", False)]
    assert len(outputs) == len(their_outputs), (
        f"{program}: gradients flow through {len(outputs)} results, in PyTorch through {len(their_outputs)}"
    )
    if not outputs:
        return 0.0
    cotangents = random_like(outputs, np.random.default_rng(1003))
    ours = gradients(outputs, inputs, cotangents)
    vectors = [torch.from_numpy(to_numpy(g)) for g in cotangents]
    found = torch_gradients(their_outputs, theirs, vectors)
    worst = 0.0
    for index, (a, b) in enumerate(zip(ours, found, strict=True)):
        zeros = np.zeros(inputs[index].shape)
        what = f"{program}: gradient of input {index} against PyTorch"
        error = assert_close(zeros if a is None else a, zeros if b is None else b, program.case.torch_tolerance, what)
        worst = max(worst, error)
    return worst


def check_torch(operator: Operator, case: Case, seeds: Iterable[int] = (0,)) -> float:
    """Forward and gradients of every call against PyTorch's, for several draws; the largest relative error."""
    worst = 0.0
    for seed in seeds:
        for program in programs(operator, case, seed=seed):
            worst = max(worst, compare_with_torch(program))
    return worst


def shared_places(results: Iterable[Any], inputs: Sequence[Any], memory: Callable[[Any], int]) -> set[tuple[int, int]]:
    """Pairs of a result and an input that live in the same memory."""
    return {
        (place, index) for place, y in enumerate(results) for index, x in enumerate(inputs) if memory(y) == memory(x)
    }


def check_memory(operator: Operator, case: Case) -> None:
    """Results share memory with inputs exactly where PyTorch's do."""
    function = torch_function(operator, case)
    if function is None or case.random:
        return
    for program in programs(operator, case):
        inputs = program.inputs()
        with enable_grad():
            results = [x for x in numbers(program(*inputs)) if isinstance(x, Tensor)]
        wanted, theirs = torch_call(function, program, range(len(inputs)))
        if not differentiable_outputs(results) or any(x.array.size == 0 for x in (*inputs, *results)):
            continue
        ours = shared_places(results, inputs, lambda x: id(x._storage or x))
        assert ours == shared_places(wanted, theirs, lambda x: x.untyped_storage().data_ptr()), (
            f"{program}: pairs of result and input in the same memory: {sorted(ours)}, not as in PyTorch"
        )


def check_attached(operator: Operator, case: Case) -> None:
    """Under create_graph a gradient is attached to the graph where PyTorch's is, if only with a derivative of zero."""
    import torch

    function = torch_function(operator, case)
    if function is None or case.random:
        return
    for program in programs(operator, case):
        places = range(len(program.arrays))
        # All inputs together, and each with the others constant: a product's gradient depends on the other factor.
        for differentiated in (places, *([place] for place in places if len(places) > 1)):
            inputs = program.inputs(requires_grad=False)
            moving = [inputs[place].requires_grad_() for place in differentiated]
            with enable_grad():
                outputs = differentiable_outputs(program(*inputs))
            wanted, theirs = torch_call(function, program, differentiated)
            their_outputs = [x for x in wanted if getattr(x, "requires_grad", False)]
            if not outputs or len(outputs) != len(their_outputs):
                continue
            ones = [new_tensor(np.ones_like(x.array)) for x in outputs]
            ours = grad(outputs, moving, ones, create_graph=True, allow_unused=True)
            their_ones = list(map(torch.ones_like, their_outputs))
            their_moving = [theirs[place] for place in differentiated]
            try:
                found = torch_gradients(their_outputs, their_moving, their_ones, create_graph=True)
            except NoDerivative:
                continue
            for place, a, b in zip(differentiated, ours, found, strict=True):
                if a is not None and b is not None and b.requires_grad:
                    assert a.requires_grad, f"{program}: the gradient of input {place} is not attached to the graph"


def check_edges(operator: Operator, case: Case) -> None:
    """At kinks, ties, zeros, infinities: forward and gradients are PyTorch's."""
    for program in programs(operator, case, edges=True):
        compare_with_torch(program)


# Arrays of the same shape (and but for ``expanded`` of the same values) that lie otherwise in memory.
LAYOUTS: dict[str, Callable[[Any], Any]] = {
    "contiguous": lambda x: x,
    "transposed": lambda x: x.swapaxes(-1, -2).copy().swapaxes(-1, -2) if x.ndim > 1 else x,
    "permuted": lambda x: (
        x.transpose(-1, *range(x.ndim - 1)).copy().transpose(*range(1, x.ndim), 0) if x.ndim > 2 else x
    ),
    "sliced": lambda x: np.repeat(x, 2, axis=-1)[..., ::2] if x.ndim else x,
    "expanded": lambda x: as_strided(x, strides=(0, *x.strides[1:])) if x.ndim > 1 and x.size else x,
    "channels last": lambda x: x.transpose(0, 2, 3, 1).copy().transpose(0, 3, 1, 2) if x.ndim == 4 else x,
}


def laid_out(call: Call, layout: Callable[[Any], Any], only_first: bool) -> tuple[Call, list[tuple[Any, Any]]]:
    """The call with its arrays, or only the first of them, in a layout; and its arrays before and after."""
    arrays: list[tuple[Any, Any]] = []

    def change(array: Any, requires_grad: bool) -> Any:
        arrays.append((array, array if only_first and arrays else layout(array)))
        return arrays[-1][1]

    return rewritten(call, change), arrays


def layouts(call: Call) -> Iterator[tuple[str, Call, bool]]:
    """The call with all its arrays, and with only the first of them, in each layout; whether all lie alike."""
    for name, layout in LAYOUTS.items():
        for which in ("all", "first"):
            changed, arrays = laid_out(call, layout, which == "first")
            differs = any(before.strides != after.strides for before, after in arrays)
            if which == "all" and (differs or name == "contiguous") or differs and len(arrays) > 1:
                yield f"{which} {name}", changed, len({(x.shape, x.strides) for _, x in arrays if x.ndim}) <= 1


def steps(x: Any) -> tuple[int, ...]:
    """The strides, in elements, of the dimensions longer than 1."""
    return tuple([step for step, length in zip(x.stride(), x.shape, strict=True) if length > 1])


def layout_differences(operator: Operator, case: Case) -> tuple[list[str], list[str]]:
    """Calls whose results lie otherwise in memory than PyTorch's, as texts.

    Returns:
        Those whose result is contiguous in PyTorch only, and others with the strides of both. The latter are compared
        where all arrays of a call lie alike: of operands that lie differently NumPy chooses another order.
    """
    function = torch_function(operator, case)
    lost: list[str] = []
    others: list[str] = []
    for plain in programs(operator, case) if function is not None else ():
        for layout, call, alike in layouts(plain.call):
            program = program_of(operator, case, call, new_tensor)
            try:
                wanted, _ = torch_call(function, program, (), order="")
            except RuntimeError:  # PyTorch has no such view, or wants another order
                continue
            try:
                ours = numbers(program(*program.inputs(requires_grad=False)))
            except RuntimeError:
                if "expanded" in layout:  # whose repeated rows are no regular matrix, and cannot be written to
                    continue
                raise
            for x, y in zip(ours, wanted, strict=True):
                if not isinstance(x, Tensor) or not x.array.size:
                    continue
                only_theirs = y.is_contiguous() and not x.is_contiguous()
                if only_theirs or alike and (steps(x) != steps(y) or x.is_contiguous() != y.is_contiguous()):
                    text = f"{layout} {program}: {steps(x)}, in PyTorch {steps(y)}"
                    (lost if only_theirs else others).append(text)
    return lost, others
