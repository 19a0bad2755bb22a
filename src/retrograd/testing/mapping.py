"""The harness's check of ``vmap``: compare every example call under ``vmap`` with a Python loop over the examples.

Each argument is mapped separately, and all of them together, along the first and the last axis, with zero and two
examples. Gradients per example, forward mode inside ``vmap``, and the gradient of ``vmap`` are checked, too. Both sides
run the same function, so the comparison tests only the batching rules.
"""

from __future__ import annotations

import math
import re
import warnings
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import numpy as np

from ..autograd.gradcheck import tensors_of
from ..core.arrays import Array
from ..core.arrays.dtypes import DType, is_differentiable
from ..core.arrays.fp_warnings import silent
from ..core.graph.modes import no_grad
from ..core.tensor.tensor import Tensor, new_tensor
from ..func.forward import jvp
from ..func.mapping import vmap
from ..func.reverse import vjp
from ..ops.make.generators import manual_seed
from ..ops.table.registry import Operator
from .case import Case
from .comparison import assert_close, scale_of
from .programs import Program, make_tensor, programs, replaced

# A batching rule may sum in another order than the loop.
TOLERANCE = 1e-9
EXAMPLES = 2
MOST_CALLS = 6  # the maximum number of calls per operator; of more calls, every second, third, ... call is checked
SCALE = 0.97  # the factor of the second example, chosen so that its values stay in the operator's domain

# ``vmap`` calls these operators once per example, since the shape of the result depends on values.
SHAPED_BY_VALUES = {"argwhere", "bincount", "repeat_interleave"}
# The operators that raise an error for some mapped arguments, as torch.func does, with the reason.
REFUSED = {
    **dict.fromkeys(
        ("masked_select", "nonzero", "unique", "unique_consecutive", "nn.functional.one_hot", "Tensor.to_sparse",
         "Tensor.to_sparse_csc", "Tensor.to_sparse_csr"),
        "the shape of the result depends on the mapped values",
    ),
    "Tensor.__getitem__": "the shape depends on a mapped mask",
    "sparse_coo_tensor": "the examples of a mapped sparse Tensor share their indices",
    "sparse_csc_tensor": "the examples of a mapped sparse Tensor share their indices",
    "sparse_csr_tensor": "the examples of a mapped sparse Tensor share their indices",
    "Tensor.copy_": "a Tensor that is the same for all examples cannot store a value per example",
    "poisson": "randomness='same' cannot draw from rates that differ",
    # Of retrograd.scipy:
    **dict.fromkeys(
        ("special.spherical_jn", "special.spherical_yn", "special.spherical_in", "special.spherical_kn",
         "special.legendre_p", "special.assoc_legendre_p", "special.sph_legendre_p", "special.sph_harm_y"),
        "a mapped order selects the function",
    ),
    **dict.fromkeys(
        ("ndimage.gaussian_filter1d", "ndimage.gaussian_filter", "ndimage.gaussian_laplace",
         "ndimage.gaussian_gradient_magnitude", "signal.sosfiltfilt"),
        "the length of the window or of the padding depends on mapped values",
    ),
    **dict.fromkeys(
        ("interpolate.interp1d", "interpolate.RegularGridInterpolator"), "a mapped grid is checked to ascend"
    ),
    **dict.fromkeys(("linalg.lstsq", "linalg.solve_circulant"), "the rank of mapped matrices decides what is returned"),
}  # fmt: skip
REFUSAL = re.compile(r"vmap: (It looks like|an index by a mask|inplace arithmetic|does not support the same random)")

Function = Callable[..., list[Tensor]]


def check_vmap(operator: Operator, case: Case, *, long: bool = False) -> float:
    """Compare ``vmap`` with a loop; return the largest relative error.

    ``long`` checks all calls, more arguments and axes, and the gradient of ``vmap`` in every call instead of every
    second one.
    """
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", "vmap: .* has no batching rule")  # the fallback is checked, too
        chosen = list(programs(operator, case))
        if not long:
            chosen = chosen[:: 1 + len(chosen) // MOST_CALLS]
        return max((mapped_program(program, number, long=long) for number, program in enumerate(chosen)), default=0.0)


def mapped_program(program: Program, number: int = 0, *, long: bool = False) -> float:
    """Check one call of an operator, the ``number``-th, and return the largest relative error."""
    arrays, function = as_function(program)
    randomness = "same" if program.case.random else "error"
    with no_grad(), silent():
        base = function(*map(make_tensor, arrays)) if arrays else []
    if not base:
        return 0.0
    examples = [_examples(array, arrays, index, function, base) for index, array in enumerate(arrays)]
    worst = 0.0
    known: dict[tuple[Function, tuple[int, ...]], list[Tensor]] = {(function, (0,) * len(arrays)): base}

    def separate(f: Function, chosen: Sequence[int], row: int) -> list[Tensor]:
        which = tuple([row if index in chosen else 0 for index in range(len(arrays))])
        if (f, which) not in known:
            known[f, which] = f(*[make_tensor(rows[row]) for rows, row in zip(examples, which, strict=True)])
        return known[f, which]

    def mapped(f: Function, in_dims: object) -> Function:
        return vmap(f, in_dims, randomness=randomness)

    def against_loop(what: str, f: Function, chosen: Sequence[int], dim: int = 0, size: int = EXAMPLES) -> float:
        inputs = [
            np.stack(examples[index][:size] or examples[index][:1], dim)[(slice(None),) * (dim % (array.ndim + 1))
            + (slice(size),)] if index in chosen else array
            for index, array in enumerate(arrays)
        ]  # fmt: skip
        in_dims = tuple([dim if index in chosen else None for index in range(len(arrays))])
        got = mapped(f, in_dims)(*map(make_tensor, inputs))
        if not size:
            for a, b in zip(got, separate(f, chosen, 0), strict=True):
                expected = (0, *a.shape[1:]) if program.operator.name in SHAPED_BY_VALUES else (0, *b.shape)
                assert a.shape == expected, f"{program}: {what} of no examples has shape {a.shape}"
            return 0.0
        rows = [separate(f, chosen, row) for row in range(size)]
        return _compare(f"{program}: {what}, arguments {list(chosen)} mapped along {dim}", got, rows)

    every = list(range(len(arrays)))
    try:
        with no_grad(), silent():
            for index in every:
                worst = max(worst, against_loop("vmap", function, [index]))
            if len(arrays) > 1 or arrays[0].ndim:
                worst = max(worst, against_loop("vmap", function, every, -1))
            worst = max(worst, against_loop("vmap", function, every, 0, 0))
            if long:
                worst = max(worst, against_loop("vmap", function, every, 0, 1))
                worst = max(worst, against_loop("vmap", function, every, 0))
                for index in every if len(every) > 1 else ():
                    worst = max(worst, against_loop("vmap", function, [index], -1))
        if program.case.order:
            outside = mapped if long or number % 2 == 0 else None
            worst = max(worst, _derivatives(program, arrays, examples, function, against_loop, separate, outside))
    except RuntimeError as error:
        if program.case.name not in REFUSED or not REFUSAL.search(str(error)):
            raise
    return worst


def _derivatives(
    program: Program,
    arrays: list[Any],
    examples: list[list[Any]],
    function: Function,
    against_loop: Callable[..., float],
    separate: Callable[[Function, Sequence[int], int], list[Tensor]],
    mapped: Callable[[Function, Any], Function] | None,
) -> float:
    """Compare gradients and tangents under ``vmap`` with a loop, and, given ``mapped``, gradients of ``vmap``."""
    points = [
        index for index, array in enumerate(arrays) if array.dtype.kind in "fc" and index in program_points(program)
    ]
    flows = [index for index, x in enumerate(separate(function, (), 0)) if is_differentiable(x.dtype)]
    if not points or not flows:
        return 0.0

    def at_points(f: Function, tensors: Sequence[Tensor]) -> tuple[Function, list[Tensor]]:
        """Return the differentiable outputs of f as a function of the points, and the points."""

        def at(*moving: Tensor) -> list[Tensor]:
            inputs = list(tensors)
            for index, x in zip(points, moving, strict=True):
                inputs[index] = x
            outputs = f(*inputs)
            return [outputs[index] for index in flows]

        return at, [tensors[index] for index in points]

    def gradients(*tensors: Tensor) -> list[Tensor]:
        at, primals = at_points(function, tensors)
        outputs, pull = vjp(at, *primals)
        return list(pull([new_tensor(_waves(np.cos, x.shape, x.dtype)) for x in outputs]))

    def forward_tangents(*tensors: Tensor) -> list[Tensor]:
        at, primals = at_points(function, tensors)
        _, tangents = jvp(at, tuple(primals), tuple([new_tensor(_waves(np.sin, x.shape, x.dtype)) for x in primals]))
        return tangents

    every = list(range(len(arrays)))
    with silent():
        worst = against_loop("vmap(grad)", gradients, every)
        worst = max(worst, against_loop("jvp under vmap", forward_tangents, points, -1))
        if mapped is None:
            return worst
        stacked = [np.stack(rows) if index in points else arrays[index] for index, rows in enumerate(examples)]
        in_dims = tuple([0 if index in points else None for index in every])
        at, primals = at_points(mapped(function, in_dims), [*map(make_tensor, stacked)])
        outputs, pull = vjp(at, *primals)
        got = pull([new_tensor(np.stack([_waves(np.cos, x.shape[1:], x.dtype)] * EXAMPLES)) for x in outputs])
        rows = [separate(gradients, points, row) for row in range(EXAMPLES)]
    return max(worst, _compare(f"{program}: grad of vmap", got, rows))


def _waves(wave: Callable[[Array], Array], shape: tuple[int, ...], dtype: DType) -> Array:
    """Return numbers between -1 and 1 that all differ, the same for each example."""
    numbers = wave(np.arange(math.prod(shape)) + 1.0)
    return (numbers * (1 + 0.5j) if dtype.kind == "c" else numbers).reshape(shape).astype(dtype)


def program_points(program: Program) -> set[int]:
    """Return the indices of the differentiable arrays among all arrays of a call."""
    places: set[int] = set()
    count = 0

    def collect(array: object, differentiated: bool) -> object:
        nonlocal count
        if differentiated:
            places.add(count)
        count += 1
        return array

    for value in (*program.call.args, *program.call.kwargs.values()):
        replaced(value, collect)
    return places


def as_function(program: Program) -> tuple[list[Any], Function]:
    """Return all arrays of a call, and the call as a function of Tensors that replace them."""
    arrays: list[Any] = []

    def collect(array: object, differentiated: bool) -> object:
        arrays.append(array)
        return array

    for value in (*program.call.args, *program.call.kwargs.values()):
        replaced(value, collect)

    def function(*tensors: Tensor) -> list[Tensor]:
        if program.case.random:
            manual_seed(0)
        rest: Iterator[Tensor] = iter(tensors)
        args = [replaced(value, lambda array, differentiated: next(rest)) for value in program.call.args]
        kwargs = {
            name: replaced(value, lambda array, differentiated: next(rest))
            for name, value in program.call.kwargs.items()
        }
        return list(tensors_of(program.case.wrapped(program.operator.function)(*args, **kwargs)))

    return arrays, function


def _examples(array: Array, arrays: list[object], index: int, function: Function, base: list[Tensor]) -> list[Array]:
    """Return two values of one argument: its own, and another value that the operator accepts."""
    if array.dtype.kind in "fc":
        return [array, (array * SCALE).astype(array.dtype)]
    other = np.flip(array).copy() if array.dtype.kind != "b" else ~array
    try:
        with warnings.catch_warnings(), no_grad(), silent():
            warnings.simplefilter("ignore")
            results = function(*[make_tensor(other if i == index else a) for i, a in enumerate(arrays)])
    except Exception:  # for example, an index out of range, or offsets that are not increasing
        return [array, array]
    return [array, other if [x.shape for x in results] == [x.shape for x in base] else array]


def _compare(what: str, got: Sequence[Tensor], rows: Sequence[Sequence[Tensor]]) -> float:
    worst = 0.0
    for index, (a, column) in enumerate(zip(got, zip(*rows, strict=True), strict=True)):
        wanted = np.stack([x.array for x in column])
        assert a.dtype == wanted.dtype, f"{what}: output {index} has dtype {a.dtype}, but {wanted.dtype} in a loop"
        scale = scale_of(list(column))
        tolerance = TOLERANCE if wanted.dtype != np.float32 else 1e-4
        if scale < 1e-12:  # the values are rounding errors of zero
            continue
        worst = max(worst, assert_close(a, wanted, tolerance, f"{what}: output {index}"))
    return worst
