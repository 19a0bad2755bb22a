"""The operator harness: what every operator of the table must fulfil, one function per property.

Each ``check_...`` takes an ``Operator`` and its ``Case`` and raises AssertionError, with the call and the element,
where the property does not hold. Those that measure return the largest relative error they met. Tests and ``retrograd
check`` run the same functions.
"""

from __future__ import annotations

import gc
import sys
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from ..autograd.gradcheck import (
    analytic_jacobian,
    differentiable_outputs,
    gradient_function,
    gradients,
    random_like,
    report,
    tensors_of,
)
from ..autograd.gradients import backward
from ..autograd.numerical import as_real, numerical_jacobian, real_size
from ..core.arrays.devices import is_array
from ..core.arrays.dtypes import INEXACT, can_cast
from ..core.arrays.fp_warnings import silent
from ..core.errors import describe
from ..core.graph.modes import enable_grad, no_grad
from ..core.graph.primitive import Primitive, apply1
from ..core.tensor.mutation import COPY, apply_inplace
from ..core.tensor.storage import overlaps_itself
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.forward import jvp
from ..ops.math.arithmetic import MUL
from ..ops.table.registry import Operator
from .case import Case
from .comparison import assert_close, assert_near, numbers, relative_errors, scale_of, to_numpy
from .programs import Program, cast, make_tensor, program_of, programs, replaced, rewritten

# A Jacobian with more rows or columns than this is checked in that many of them, drawn at random; half as many for
# the second order.
MOST_ROWS = 48

EXACT = 1e-10
SECOND_ORDER_TOLERANCE = 5e-6
DTYPE_TOLERANCE = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}

# Operators that need particular strides of their input and may refuse others, and those that are about strides.
NEED_STRIDES = {"view", "view_as"}
# Their results share memory on purpose, without a history.
WITHOUT_HISTORY = {"detach"}
SHOW_STRIDES = {"as_strided", "data_ptr", "is_contiguous", "storage_offset", "stride"}


def seed_of(program: Program) -> np.random.Generator:
    return np.random.default_rng([len(program.arrays), *map(len, (program.operator.name, program.call.args))])


def sample(size: int, most: int, rng: np.random.Generator) -> list[int]:
    """All places of ``size``, or ``most`` of them."""
    if size <= most:
        return list(range(size))
    return sorted(rng.choice(size, most, replace=False).tolist())


# Values


def check_forward(operator: Operator, case: Case) -> None:
    """The result equals the reference's (NumPy or SciPy); a random operator gives the same for the same seed."""
    for program in programs(operator, case):
        with no_grad():
            got = numbers(program(*program.inputs(False)))
        for x in got:  # NumPy makes scalars of results without axes
            assert not isinstance(x, Tensor) or is_array(x.array), f"{program}: gives a Tensor of {type(x.array)}"
        if case.random:
            wanted = numbers(program(*program.inputs(False)))
        elif case.reference is None:
            continue
        else:
            plain = rewritten(program.call, lambda array, differentiated: array)
            args = [replaced(value, lambda array, differentiated: array) for value in plain.args]
            kwargs = {
                name: replaced(value, lambda array, differentiated: array) for name, value in plain.kwargs.items()
            }
            with np.errstate(all="ignore"):
                wanted = numbers(case.wrapped(case.reference)(*args, **kwargs))
        assert len(got) == len(wanted), f"{program}: {len(got)} results, the reference has {len(wanted)}"
        for a, b in zip(got, wanted, strict=True):
            assert_close(a, b, EXACT, f"{program}: forward")


# Derivatives


def check_gradient(operator: Operator, case: Case, most: int = MOST_ROWS) -> float:
    """First order: the Jacobian by the rules against central differences; the largest relative error."""
    return max((first_order(program, most) for program in programs(operator, case)), default=0.0)


def first_order(program: Program, most: int = MOST_ROWS) -> float:
    inputs = program.inputs()
    if not inputs:
        return 0.0
    with enable_grad():
        results = list(tensors_of(program(*inputs)))
    outputs, flows = differentiable_outputs(results), [x._requires for x in results]
    assert outputs or not list(floating(results)), f"{program}: no gradient flows through the result"

    def differentiable(*values: Tensor) -> list[Tensor]:
        return list(compress(tensors_of(program(*values)), flows))

    return compare_jacobians(program, inputs, outputs, differentiable, program.case.tolerance, most, "gradient")


def check_second_order(operator: Operator, case: Case, most: int = MOST_ROWS // 2) -> float:
    """Second order: the Jacobian of the gradient, by inputs and cotangents, against differences of the gradient."""
    return max((second_order(program, most) for program in programs(operator, case)), default=0.0)


def second_order(program: Program, most: int = MOST_ROWS // 2) -> float:
    leaves = program.inputs()
    if not leaves:
        return 0.0
    with enable_grad():
        outputs = differentiable_outputs(program(*leaves))
    if not outputs:
        return 0.0
    cotangents = random_like(outputs, seed_of(program))
    for g in cotangents:
        g._requires = True
    inputs = [*leaves, *cotangents]
    gradient = gradient_function(program, len(leaves))
    with enable_grad():
        found = list(gradient(*inputs))
    tolerance = max(SECOND_ORDER_TOLERANCE, program.case.tolerance)
    return compare_jacobians(program, inputs, found, gradient, tolerance, most, "second order")


def compare_jacobians(
    program: Program,
    inputs: list[Tensor],
    outputs: list[Tensor],
    function: Callable[..., Sequence[Tensor]],
    tolerance: float,
    most: int,
    what: str,
) -> float:
    """The largest relative error between the rules' Jacobians and central differences of ``function``."""
    rng = seed_of(program)
    columns = [sample(real_size(x), most, rng) for x in inputs]

    def differences(eps: float) -> Any:
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
            # Where a step is too long for the curvature or too short for the rounding, another one serves.
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


def check_forward_mode(operator: Operator, case: Case) -> float:
    """Forward mode against reverse: ``<v, J t> = <J^T v, t>`` for random t and v."""
    return max((forward_mode(program) for program in programs(operator, case)), default=0.0)


def forward_mode(program: Program) -> float:
    inputs = program.inputs()
    with enable_grad():
        outputs = differentiable_outputs(program(*inputs))
    if not outputs:
        return 0.0
    rng = seed_of(program)
    tangents, cotangents = random_like(inputs, rng), random_like(outputs, rng)

    def function(*values: Tensor) -> list[Tensor]:
        return differentiable_outputs(program(*values))

    with no_grad():
        values, moved = jvp(function, program.inputs(False), tangents)
    backward = gradients(outputs, inputs, cotangents)
    ahead = sizes = 0.0
    for output, value, t, v in zip(outputs, values, moved, cotangents, strict=True):
        assert t.shape == output.shape and t.dtype == output.dtype, (
            f"{program}: forward mode gives {describe(t)} for an output of {describe(output)}"
        )
        assert_close(value, output, EXACT, f"{program}: forward mode's value")
        terms = as_real(t.array) * as_real(v.array)
        ahead, sizes = ahead + float(terms.sum()), sizes + float(np.abs(terms).sum())
    back = 0.0
    for g, t in zip(backward, tangents, strict=True):
        if g is not None:
            terms = as_real(g.array) * as_real(t.array)
            back, sizes = back + float(terms.sum()), sizes + float(np.abs(terms).sum())
    error = abs(ahead - back) / max(sizes, 1e-300)
    assert error <= 1e-9, f"{program}: forward mode gives <v, J t> = {ahead:.12g}, reverse <J^T v, t> = {back:.12g}"
    return error


# Precision and layout


def floating(result: Any) -> Iterator[Tensor]:
    """The Tensors of a result with floating or complex numbers."""
    return (x for x in tensors_of(result) if x.dtype.kind in INEXACT)


def evaluated(program: Program, inputs: list[Tensor]) -> tuple[list[Any], list[Tensor | None]]:
    """The results, and the gradients for cotangents that are the same for every precision and layout."""
    with enable_grad():
        result = program(*inputs)
        outputs = differentiable_outputs(result)
    if not outputs:
        return numbers(result), [None] * len(inputs)
    cotangents = random_like(outputs, np.random.default_rng(3))
    return numbers(result), gradients(outputs, inputs, cotangents)


def check_dtypes(operator: Operator, case: Case) -> None:
    """In each lower precision: results keep the inputs' dtype, gradients their input's, both close to float64's."""
    for dtype in case.dtypes:
        tolerance = DTYPE_TOLERANCE[dtype]
        for program in programs(operator, case):
            if (
                not program.arrays
                or dtype in ("float16", "bfloat16")
                and any(array.dtype.kind == "c" for array in program.arrays)
            ):
                continue  # there are no complex numbers of half precision
            narrow = program_of(operator, case, cast(program.call, dtype))
            wide = program_of(operator, case, cast(cast(program.call, dtype), "float64"))
            inputs = narrow.inputs()
            got, got_gradients = evaluated(narrow, inputs)
            wanted, wanted_gradients = evaluated(wide, wide.inputs())
            for a, b in zip(got, wanted, strict=True):
                if hasattr(a, "dtype") and b.dtype.kind in INEXACT and "dtype" not in program.call.kwargs:
                    wanted_dtype = "complex64" if b.dtype.kind == "c" else dtype
                    assert a.dtype.name == wanted_dtype, (
                        f"{narrow}: the result has dtype {a.dtype}, wanted {wanted_dtype}"
                    )
                if not case.random and hasattr(a, "dtype") and a.dtype.kind in INEXACT:
                    assert_near(a, b, tolerance, f"{narrow}: forward in {dtype}")
            for x, a, b in zip(inputs, got_gradients, wanted_gradients, strict=True):
                assert (a is None) == (b is None), f"{narrow}: gradients exist in one precision only"
                if a is not None and b is not None:
                    assert a.dtype == x.dtype, f"{narrow}: the gradient has dtype {a.dtype}, its input {x.dtype}"
                    if not case.random:
                        assert_near(a, b, 10 * tolerance, f"{narrow}: gradient in {dtype}")


def transposed(array: Any) -> Any:
    """The same values with the axes in reverse order in memory."""
    return array.T.copy().T


def strided(array: Any) -> Any:
    """The same values at every second place of each axis of a larger array."""
    if array.ndim == 0:
        return array
    wide = np.full([2 * length for length in array.shape], 7, array.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def reversed_(array: Any) -> Any:
    """The same values with negative strides."""
    backwards = tuple(slice(None, None, -1) for _ in array.shape)
    return array[backwards].copy()[backwards] if array.ndim else array


LAYOUTS: tuple[Callable[[Any], Any], ...] = (transposed, strided, reversed_)


def on_layout(layout: Callable[[Any], Any], array: Any, differentiated: bool) -> Any:
    return layout(array)


def check_layouts(operator: Operator, case: Case) -> None:
    """Inputs that are transposed, strided or reversed in memory give the same results and gradients."""
    if operator.name in SHOW_STRIDES:
        return
    for program in programs(operator, case):
        wanted, wanted_gradients = evaluated(program, program.inputs())
        for layout in LAYOUTS:
            call = rewritten(program.call, partial(on_layout, layout))
            other = program_of(operator, case, call, new_tensor)
            try:
                got, got_gradients = evaluated(other, other.inputs())
            except RuntimeError:
                if operator.name in NEED_STRIDES:
                    continue
                raise
            for a, b in zip(got, wanted, strict=True):
                assert_close(a, b, EXACT, f"{program} on {layout.__name__} inputs: forward")
            for g, h in zip(got_gradients, wanted_gradients, strict=True):
                if g is not None and h is not None:
                    assert_close(g, h, EXACT, f"{program} on {layout.__name__} inputs: gradient")


# Memory


def check_inputs_unchanged(operator: Operator, case: Case) -> None:
    """Neither the call nor its backward walk writes into the arrays it was given, cotangents included."""
    if operator.name == "__setitem__" or operator.name.endswith("_") and not operator.name.endswith("__"):
        return  # it is there to write
    for program in programs(operator, case):
        given: list[tuple[Any, Any]] = []

        def make(array: Any, given: list[tuple[Any, Any]] = given) -> Tensor:
            tensor = make_tensor(array)
            given.append((tensor.array, array))
            return tensor

        watched = program_of(operator, case, program.call, make)
        inputs = watched.inputs()
        with enable_grad():
            outputs = differentiable_outputs(watched(*inputs))
        assert_unchanged(given, f"{program}: the call changed an input")
        if outputs:
            cotangents = random_like(outputs, np.random.default_rng(3))
            before = [(g.array, g.array.copy()) for g in cotangents]
            gradients(outputs, inputs, cotangents)
            assert_unchanged(given, f"{program}: the backward walk changed an input")
            assert_unchanged(before, f"{program}: the backward walk changed a cotangent")


def assert_unchanged(pairs: Iterable[tuple[Any, Any]], what: str) -> None:
    for array, before in pairs:
        same = array.tobytes() == before.tobytes()
        assert same, f"{what}: from {before.tolist()} to {array.tolist()}"


def check_no_aliasing(operator: Operator, case: Case) -> None:
    """``.grad`` of different inputs, the cotangents, the inputs and the results are different memory."""
    for program in programs(operator, case):
        inputs = program.inputs()
        with enable_grad():
            outputs = differentiable_outputs(program(*inputs))
        if not outputs:
            continue
        cotangents = random_like(outputs, np.random.default_rng(3))
        backward(outputs, cotangents)
        others = [("a cotangent", g.array) for g in cotangents]
        others += [("a result", x.array) for x in outputs] + [("an input", x.array) for x in inputs]
        seen: list[tuple[str, Any]] = []
        for index, x in enumerate(inputs):
            if x.grad is not None and x.grad.array.size:
                for name, array in (*others, *seen):
                    assert not np.shares_memory(x.grad.array, array), (
                        f"{program}: the gradient of input {index} shares memory with {name}"
                    )
                assert x.grad.array.flags.writeable, f"{program}: the gradient of input {index} is read-only"
                seen.append((f"the gradient of input {index}", x.grad.array))


def check_views(operator: Operator, case: Case) -> None:
    """A result that shares memory with an input is that input, or a view that the graph knows: writes are seen."""
    if operator.qualified_name in WITHOUT_HISTORY:
        return
    for program in programs(operator, case):
        inputs = program.inputs()
        with enable_grad():
            results = [x for x in numbers(program(*inputs)) if isinstance(x, Tensor)]
        for place, y in enumerate(results):
            for index, x in enumerate(inputs):
                if y is x or not np.shares_memory(y.array, x.array):
                    continue
                base = x if x._base is None else x._base
                assert y._base is base and y._storage is x._storage, (
                    f"{program}: result {place} shares memory with input {index} and is no view of it"
                )


def check_freed(operator: Operator, case: Case) -> None:
    """After the walk and the last reference, graph and results are gone at once, without the cycle collector."""
    for program in programs(operator, case):
        inputs = program.inputs()
        enabled = gc.isenabled()
        gc.disable()
        try:
            with enable_grad():
                result = program(*inputs)
            outputs = [x for x in differentiable_outputs(result) if x._node is not None]
            del result
            if not outputs:
                continue
            watched = [(f"the node of output {index}", weakref.ref(x._node)) for index, x in enumerate(outputs)]
            given = {id(x.array) for x in inputs}
            watched += [
                (f"the array of output {index}", weakref.ref(x.array))
                for index, x in enumerate(outputs)
                if id(x.array) not in given
            ]
            backward(outputs, random_like(outputs, np.random.default_rng(3)))
            outputs.clear()
            alive = [name for name, reference in watched if reference() is not None]
            assert not alive, f"{program}: {', '.join(alive)} is still alive after backward"
        finally:
            if enabled:
                gc.enable()


def check_mutation(operator: Operator, case: Case) -> None:
    """Inputs, constants and integer results written in place after the call do not change its gradients.

    What the graph saved must be protected (copied on write), whichever way the operator saves it.
    """
    for program in programs(operator, case):
        _, wanted = evaluated(program, program.inputs())
        leaves = program.inputs()
        constants: list[Tensor] = []  # indices, masks, weights that have no gradient

        def make(array: Any, constants: list[Tensor] = constants) -> Tensor:
            constants.append(make_tensor(array))
            return constants[-1]

        with enable_grad():
            inputs = [apply1(CLONE, x) for x in leaves]
            result = program_of(operator, case, program.call, make)(*inputs)
            outputs = differentiable_outputs(result)
            if not outputs:
                continue
            results = list(tensors_of(result))
            for x in inputs + constants:
                if not any(aliased(x, y) for y in results):
                    apply_inplace(COPY, x, 0.0)
            for x in results:
                if x.dtype.kind == "i" and not any(aliased(x, y) for y in inputs):
                    apply_inplace(COPY, x, 0)
            got = gradients(outputs, leaves, random_like(outputs, np.random.default_rng(3)))
        for index, (g, h) in enumerate(zip(got, wanted, strict=True)):
            if g is not None and h is not None:
                what = f"{program}: gradient of input {index} after inputs or integer results were written"
                assert_close(g, h, EXACT, what)


CLONE = Primitive("clone", lambda x: x.copy(), "x", [lambda g: g])


def aliased(x: Tensor, y: Tensor) -> bool:
    """Whether the Tensors are one, or share memory."""
    return x is y or x._storage is not None and x._storage is y._storage or np.may_share_memory(x.array, y.array)


def check_written_result(operator: Operator, case: Case) -> None:
    """Gradients through a result that is then scaled in place are scaled, whatever the graph saved of it."""
    for program in programs(operator, case):
        _, wanted = evaluated(program, program.inputs())
        leaves = program.inputs()
        with enable_grad():
            inputs = [apply1(CLONE, x) for x in leaves]
            outputs = differentiable_outputs(program(*inputs))
            if not outputs or any(overlaps_itself(x.array) for x in outputs):
                continue
            cotangents = random_like(outputs, np.random.default_rng(3))
            if any(x is y for x in outputs for y in inputs):
                continue
            if any(aliased(x, y) for index, x in enumerate(outputs) for y in outputs[:index]):
                continue
            try:
                for x in outputs:
                    apply_inplace(MUL, x, 3.0)
            except RuntimeError as error:
                if "view of another dtype" in str(error):
                    continue  # refused, which is right, too
                raise
            got = gradients(outputs, leaves, cotangents)
        for index, (g, h) in enumerate(zip(got, wanted, strict=True)):
            if g is not None and h is not None:
                what = f"{program}: gradient of input {index} through a result scaled in place by 3"
                assert_close(g, to_numpy(h) * 3, EXACT, what)


def check_inplace(operator: Operator, case: Case) -> int:
    """The in-place form gives the function's values and gradients, in the Tensor's own memory; how many calls ran."""
    ran = 0
    form = getattr(Tensor, operator.name + "_", None)
    assert form is not None, f"{operator.qualified_name}: has no method {operator.name}_"
    for program in programs(operator, case):
        target = program.call.args[0] if program.call.args else None
        if case.random or not isinstance(target, np.ndarray):
            continue
        results, wanted = evaluated(program, program.inputs())
        if len(results) != 1 or results[0].shape != target.shape or not can_cast(results[0].dtype, target.dtype):
            continue
        inplace = program_of(Operator(operator.name + "_", form, "Tensor"), case, program.call)
        leaves = program.inputs()
        with enable_grad():
            inputs = [apply1(CLONE, x) for x in leaves]
            result = inplace(*inputs)
            returned = isinstance(result, Tensor) and (result is inputs[0] if is_floating(target) else True)
            assert returned, f"{inplace}: must return the Tensor it was called on"
            assert result.dtype == target.dtype, f"{inplace}: changed the dtype from {target.dtype} to {result.dtype}"
            assert_close(result, results[0].astype(target.dtype), EXACT, f"{inplace}: forward")
            outputs = differentiable_outputs(result) if result.dtype == results[0].dtype else []
            got = gradients(outputs, leaves, random_like(outputs, np.random.default_rng(3))) if outputs else []
        for index, (g, h) in enumerate(zip(got, wanted, strict=False)):
            if g is not None and h is not None:
                assert_close(g, h, EXACT, f"{inplace}: gradient of input {index}")
        ran += 1
    return ran


def is_floating(value: object) -> bool:
    return isinstance(value, np.ndarray) and value.dtype.kind in INEXACT


def check_chain(operator: Operator, case: Case) -> bool:
    """A chain of calls longer than Python's recursion limit differentiates; whether the operator can be chained."""
    for program in programs(operator, case):
        if len(program.arrays) != 1 or program.arrays[0].size > 16 or case.random:
            continue
        (x,) = program.inputs()
        with enable_grad(), silent():
            first = program(x)
            if not isinstance(first, Tensor) or first is x or not first._requires:
                continue
            if first.shape != x.shape or first.dtype != x.dtype:
                continue
            with recursion_limit() as limit:
                value = x
                for _ in range(limit + 100):
                    value = program(value)
                gradients([value], [x], random_like([value], np.random.default_rng(3)))
        return True
    return False


@contextmanager
def recursion_limit(room: int = 300) -> Iterator[int]:
    """A limit ``room`` calls above here: under a lower limit, shorter chains are longer than it."""
    before, depth, frame = sys.getrecursionlimit(), 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(min(before, depth + room))
    try:
        yield sys.getrecursionlimit()
    finally:
        sys.setrecursionlimit(before)
