"""The operator harness: the properties that every operator of the table must satisfy, one function per property.

Each ``check_...`` takes an ``Operator`` and its ``Case`` and raises an AssertionError that names the call and the
element if the property does not hold. Numerical checks return the largest relative error. Tests and ``retrograd
check`` run the same functions.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import compress
from typing import Any

import numpy as np

from ..autograd.gradcheck import differentiable_outputs, gradient_function, gradients, random_like, tensors_of
from ..autograd.gradients import backward
from ..autograd.numerical import as_real
from ..core.arrays import Array
from ..core.arrays.devices import is_array
from ..core.arrays.dtypes import INEXACT, can_cast
from ..core.arrays.fp_warnings import silent
from ..core.arrays.memory import collector_paused
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
from .comparison import assert_close, assert_near, numbers, to_numpy
from .jacobians import compare_jacobians, projected_error, seed_of
from .programs import Program, cast, make_tensor, program_of, programs, replaced, rewritten

# The maximum number of rows and columns of a Jacobian to check; a larger Jacobian is sampled. Second-order checks use
# half this number. ``quick`` checks compare one random projection of each Jacobian, and elements if that differs.
MOST_ROWS = 48
# The recursion limit above the current depth while a longer chain of calls is differentiated. Every operator needs less
# than 40.
ROOM = 100

EXACT = 1e-10
SECOND_ORDER_TOLERANCE = 5e-6
DTYPE_TOLERANCE = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 1e-1}

# Operators that may raise an error for some strides of their input.
NEED_STRIDES = {"view", "view_as"}
# Operators whose results share memory with the input but have no history.
WITHOUT_HISTORY = {"detach"}
# Operators whose results depend on strides.
SHOW_STRIDES = {"as_strided", "data_ptr", "is_contiguous", "storage_offset", "stride"}


# Values


def check_forward(operator: Operator, case: Case) -> None:
    """The result equals the result of NumPy or SciPy; a random operator returns equal results for equal seeds."""
    for program in programs(operator, case):
        with no_grad():
            got = numbers(program(*program.inputs(False)))
        for x in got:  # NumPy returns scalars instead of 0-d arrays
            assert not isinstance(x, Tensor) or is_array(x.array), f"{program}: returns a Tensor of {type(x.array)}"
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
        assert len(got) == len(wanted), f"{program}: {len(got)} results, but the reference has {len(wanted)}"
        for a, b in zip(got, wanted, strict=True):
            assert_close(a, b, EXACT, f"{program}: forward")


# Derivatives


def check_gradient(operator: Operator, case: Case, most: int = MOST_ROWS, *, quick: bool = False) -> float:
    """Compare the Jacobian with central differences; return the largest relative error."""
    return max((first_order(program, most, quick) for program in programs(operator, case)), default=0.0)


def first_order(program: Program, most: int = MOST_ROWS, quick: bool = False) -> float:
    inputs = program.inputs()
    if not inputs:
        return 0.0
    with enable_grad():
        results = list(tensors_of(program(*inputs)))
    outputs, flows = differentiable_outputs(results), [x._requires for x in results]
    assert outputs or not list(floating(results)), f"{program}: no gradient flows through the result"

    def differentiable(*values: Tensor) -> list[Tensor]:
        return list(compress(tensors_of(program(*values)), flows))

    tolerance = program.case.tolerance
    if quick and (error := projected_error(inputs, outputs, differentiable, seed_of(program))) <= tolerance:
        return error
    return compare_jacobians(program, inputs, outputs, differentiable, tolerance, most, "gradient")


def check_second_order(operator: Operator, case: Case, most: int = MOST_ROWS // 2, *, quick: bool = False) -> float:
    """Compare the Jacobian of the gradient, with respect to inputs and cotangents, with central differences."""
    return max((second_order(program, most, quick) for program in programs(operator, case)), default=0.0)


def second_order(program: Program, most: int = MOST_ROWS // 2, quick: bool = False) -> float:
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
    if quick and (error := projected_error(inputs, found, gradient, seed_of(program))) <= tolerance:
        return error
    return compare_jacobians(program, inputs, found, gradient, tolerance, most, "second order")


def check_forward_mode(operator: Operator, case: Case) -> float:
    """Compare forward mode with reverse mode: ``<v, J t> = <J^T v, t>`` for random t and v."""
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
            f"{program}: forward mode gives the tangent {describe(t)} for the output {describe(output)}"
        )
        assert_close(value, output, EXACT, f"{program}: value in forward mode")
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


def floating(result: object) -> Iterator[Tensor]:
    """Yield the floating and complex Tensors of a result."""
    return (x for x in tensors_of(result) if x.dtype.kind in INEXACT)


def evaluated(program: Program, inputs: list[Tensor]) -> tuple[list[Any], list[Tensor | None]]:
    """Return the results, and the gradients for cotangents that are the same for every precision and layout."""
    with enable_grad():
        result = program(*inputs)
        outputs = differentiable_outputs(result)
    if not outputs:
        return numbers(result), [None] * len(inputs)
    cotangents = random_like(outputs, np.random.default_rng(3))
    return numbers(result), gradients(outputs, inputs, cotangents)


def check_dtypes(operator: Operator, case: Case) -> None:
    """In lower precision, results and gradients have the dtype of the inputs and are close to those in float64."""
    for dtype in case.dtypes:
        tolerance = DTYPE_TOLERANCE[dtype]
        for program in programs(operator, case):
            if (
                not program.arrays
                or dtype in ("float16", "bfloat16")
                and any(array.dtype.kind == "c" for array in program.arrays)
            ):
                continue  # NumPy has no half-precision complex dtype
            narrow = program_of(operator, case, cast(program.call, dtype))
            wide = program_of(operator, case, cast(cast(program.call, dtype), "float64"))
            inputs = narrow.inputs()
            got, got_gradients = evaluated(narrow, inputs)
            wanted, wanted_gradients = evaluated(wide, wide.inputs())
            for a, b in zip(got, wanted, strict=True):
                if hasattr(a, "dtype") and b.dtype.kind in INEXACT and "dtype" not in program.call.kwargs:
                    wanted_dtype = "complex64" if b.dtype.kind == "c" else dtype
                    assert a.dtype.name == wanted_dtype, (
                        f"{narrow}: the result has dtype {a.dtype.name}, expected {wanted_dtype}"
                    )
                if not case.random and hasattr(a, "dtype") and a.dtype.kind in INEXACT:
                    assert_near(a, b, tolerance, f"{narrow}: forward in {dtype}")
            for x, a, b in zip(inputs, got_gradients, wanted_gradients, strict=True):
                assert (a is None) == (b is None), f"{narrow}: a gradient exists in {dtype} or in float64, but not both"
                if a is not None and b is not None:
                    assert a.dtype == x.dtype, (
                        f"{narrow}: the gradient has dtype {a.dtype.name}, its input {x.dtype.name}"
                    )
                    if not case.random:
                        assert_near(a, b, 10 * tolerance, f"{narrow}: gradient in {dtype}")


def transposed(array: Any) -> Any:
    """Return a copy in Fortran order."""
    return array.T.copy().T


def strided(array: Any) -> Any:
    """Return a copy that occupies every second element of each axis of a larger array."""
    if array.ndim == 0:
        return array
    wide = np.full([2 * length for length in array.shape], 7, array.dtype)
    view = wide[tuple(slice(None, None, 2) for _ in array.shape)]
    view[...] = array
    return view


def reversed_(array: Array) -> Array:
    """Return a copy with negative strides."""
    backwards = tuple(slice(None, None, -1) for _ in array.shape)
    return array[backwards].copy()[backwards] if array.ndim else array


LAYOUTS: tuple[Callable[[Any], object], ...] = (transposed, strided, reversed_)


def on_layout(layout: Callable[[Any], Any], array: Array, differentiated: bool) -> Array:
    return layout(array)


def check_layouts(operator: Operator, case: Case) -> None:
    """Results and gradients do not depend on the memory layout of the inputs: transposed, strided or reversed."""
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
    """Neither the call nor its backward pass writes to its arguments or cotangents."""
    if operator.name == "__setitem__" or operator.name.endswith("_") and not operator.name.endswith("__"):
        return  # an in-place operator
    for program in programs(operator, case):
        given: list[tuple[object, object]] = []

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
            assert_unchanged(given, f"{program}: the backward pass changed an input")
            assert_unchanged(before, f"{program}: the backward pass changed a cotangent")


def assert_unchanged(pairs: Iterable[tuple[Any, Any]], what: str) -> None:
    for array, before in pairs:
        same = array.tobytes() == before.tobytes()
        assert same, f"{what}: from {before.tolist()} to {array.tolist()}"


def check_no_aliasing(operator: Operator, case: Case) -> None:
    """The ``.grad`` of an input shares no memory with other gradients, cotangents, inputs or results."""
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
        seen: list[tuple[str, object]] = []
        for index, x in enumerate(inputs):
            if x.grad is not None and x.grad.array.size:
                for name, array in (*others, *seen):
                    assert not np.shares_memory(x.grad.array, array), (
                        f"{program}: the gradient of input {index} shares memory with {name}"
                    )
                assert x.grad.array.flags.writeable, f"{program}: the gradient of input {index} is read-only"
                seen.append((f"the gradient of input {index}", x.grad.array))


def check_views(operator: Operator, case: Case) -> None:
    """A result that shares memory with an input is that input or its registered view, so that writes are tracked."""
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
                    f"{program}: result {place} shares memory with input {index} but is not its view"
                )


def check_freed(operator: Operator, case: Case) -> None:
    """The graph and the results are freed by reference counts after the backward pass, without garbage collection."""
    for program in programs(operator, case):
        inputs = program.inputs()
        with collector_paused():
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


def check_mutation(operator: Operator, case: Case) -> None:
    """In-place writes to inputs, constants and integer results after the call do not change its gradients.

    All saved arrays must be protected by copy on write.
    """
    for program in programs(operator, case):
        _, wanted = evaluated(program, program.inputs())
        leaves = program.inputs()
        constants: list[Tensor] = []  # Tensors without a gradient: indices, masks, weights

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


CLONE = Primitive("clone", lambda x: x.copy(), "x", [lambda g: g], bfloat16="native")


def aliased(x: Tensor, y: Tensor) -> bool:
    """Return whether two Tensors are the same or share memory."""
    return x is y or x._storage is not None and x._storage is y._storage or np.may_share_memory(x.array, y.array)


def check_written_result(operator: Operator, case: Case) -> None:
    """Scaling a result in place scales the gradients, even if the graph saved the result."""
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
                    continue  # an error is correct, too
                raise
            got = gradients(outputs, leaves, cotangents)
        for index, (g, h) in enumerate(zip(got, wanted, strict=True)):
            if g is not None and h is not None:
                what = f"{program}: gradient of input {index} through a result scaled in place by 3"
                assert_close(g, to_numpy(h) * 3, EXACT, what)


def check_inplace(operator: Operator, case: Case) -> int:
    """Compare the in-place form with the function, in values and gradients; return the number of checked calls."""
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
    """Differentiate a chain of calls longer than the recursion limit; return whether the operator can be chained."""
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
            with recursion_limit(ROOM):
                value = x
                for _ in range(ROOM + 20):
                    value = program(value)
                gradients([value], [x], random_like([value], np.random.default_rng(3)))
        return True
    return False


@contextmanager
def recursion_limit(room: int) -> Iterator[None]:
    """Lower Python's recursion limit to ``room`` calls above the current depth, so that shorter chains suffice."""
    before, depth, frame = sys.getrecursionlimit(), 0, sys._getframe()
    while frame.f_back is not None:
        depth, frame = depth + 1, frame.f_back
    sys.setrecursionlimit(min(before, depth + room))
    try:
        yield
    finally:
        sys.setrecursionlimit(before)
