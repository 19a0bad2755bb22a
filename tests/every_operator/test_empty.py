"""Tensors without elements, and without dimensions, through every operator.

The example calls of every operator are repeated with the arrays cut to no elements along one dimension or
another, and with one element and no dimensions. Whatever comes of it must be a result with gradients of the right
shapes, or an error of PyTorch's kinds; and where PyTorch gives an answer, it must be that one, but for the
operators in ``DIFFERENT``.
"""

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd.autograd.gradcheck import differentiable_outputs
from retrograd.ops.table.registry import OPERATORS, Operator
from retrograd.testing.case import Case
from retrograd.testing.cases import all_cases
from retrograd.testing.comparison import numbers, to_numpy
from retrograd.testing.programs import Program, program_of, programs, rewritten
from tests.helpers.against_torch import torch_call, torch_function

try:
    import torch
except ImportError:  # then only ours is checked
    torch = None

CASES = {case.name: case for case in all_cases() if not case.random}
ERRORS = (RuntimeError, IndexError, ValueError, TypeError, AssertionError)

DIFFERENT = {
    "adaptive_avg_pool": "the mean of no pixels is refused, whatever the output size",
    "batch_norm": "the running statistics are checked also where there is nothing to normalize",
    "channel_shuffle": "PyTorch's backward raises",
    "conv": "PyTorch takes kernels of length 0, and derives the number of channels from an empty weight",
    "cov": "weights without dimensions",
    "cross_entropy": "without classes each row's loss is an empty sum, 0",
    "fft": "PyTorch transforms no dimension at all",
    "group_norm": "the gradient of the weight is a sum of nothing, 0; PyTorch's is NaN",
    "index_add": "indices out of range are refused, also where there is nothing to add to",
    "logdet": "the gradient of a singular matrix is an error",
    "margin_loss": "a 0-d input is refused; PyTorch's mean of nothing reads memory that was never written",
    "pdist": "PyTorch crashes",
    "pixel": "PyTorch forgets to change the shape, or its backward raises",
    "scaled_dot_product_attention": "masks and batches that do not broadcast are refused, empty or not",
    "scatter": "an index of other dimensions than the input is refused, also where it is empty",
    "as_strided": "PyTorch reads beyond the memory",
    "to_sparse": "a number has no coordinates",
    "unfold": "a window of length 0 over a number",
    "vander": "a number is no vector",
}


def cut(place: Any) -> Callable[[Any, bool], Any]:
    """Change an array to what the index ``place(array)`` leaves of it, and leave it where that is None."""

    def change(array: Any, differentiated: bool) -> Any:
        index = place(array)
        return array if index is None else np.array(array[index])

    return change


def without_length(n: int) -> Any:
    """Every dimension of length n to 0."""
    return lambda a: tuple([slice(0 if length == n else None) for length in a.shape]) if n in a.shape else None


def first(a: Any) -> Any:
    return (slice(0),) if a.ndim else None


def last(a: Any) -> Any:
    return (..., slice(0)) if a.ndim else None


def no_dimensions(a: Any) -> Any:
    return (0,) * a.ndim if a.size else None


def shrunk(operator: Operator, case: Case) -> Iterator[Program]:
    """The operator's example calls without elements and without dimensions, each once."""
    seen = set()
    for program in programs(operator, case):
        lengths: set[int] = set()
        rewritten(program.call, lambda a, differentiated, found=lengths: found.update(a.shape) or a)
        for place in (first, last, no_dimensions, *map(without_length, sorted(lengths - {0}))):
            call = rewritten(program.call, cut(place))
            small = program_of(program.operator, program.case, call)
            if str(small) not in seen and str(small) != str(program):
                seen.add(str(small))
                yield small


def outcome(program: Program) -> tuple[list[Any], Any]:
    """The results, and the gradients of their sums as arrays; None instead where nothing is differentiable."""
    inputs = program.inputs()
    results = program(*inputs)
    outputs = differentiable_outputs(results)
    if not inputs or not outputs:
        return numbers(results), None
    found = rg.autograd.grad(outputs, inputs, [rg.ones_like(y) for y in outputs], allow_unused=True)
    return numbers(results), [np.zeros(x.shape) if g is None else to_numpy(g) for g, x in zip(found, inputs)]


def torch_outcome(program: Program) -> tuple[list[Any], Any] | None:
    """The same from PyTorch; None where it refuses the call or has no such function."""
    function = torch_function(program.operator, program.case)
    if function is None:
        return None
    try:
        results, inputs = torch_call(function, program, range(len(program.arrays)))
    except Exception as error:
        if "not implemented" not in str(error) and "not differentiable" not in str(error):
            return None
        try:
            results, inputs = torch_call(function, program, ())
        except Exception:
            return None
    outputs = [y for y in results if hasattr(y, "requires_grad") and y.requires_grad]
    if not outputs or not inputs:
        return results, None
    try:
        found = torch.autograd.grad(outputs, inputs, [torch.ones_like(y) for y in outputs], allow_unused=True)
    except RuntimeError:
        return results, None
    return results, [np.zeros(x.shape) if g is None else to_numpy(g) for g, x in zip(found, inputs)]


def same(a: Any, b: Any) -> bool:
    a, b = to_numpy(a), to_numpy(b)
    return a.shape == b.shape and np.allclose(a, b, equal_nan=True)


@pytest.mark.parametrize("name", sorted(set(CASES) & set(OPERATORS)))
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_operator(name, few):
    compared = torch is not None and not any(part in name for part in DIFFERENT)
    for program in shrunk(OPERATORS[name], few(CASES[name])):
        try:
            results, gradients = outcome(program)
            refused = None
        except ERRORS as error:
            refused, gradients = error, None
            assert not (type(error) is ValueError and "cannot reshape" in str(error)), f"{program}: {error}"
        for g, x in zip(gradients or (), program.arrays):
            assert g.shape == x.shape, f"{program}: the gradient has shape {g.shape}, the input {x.shape}"
        if not compared:
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = torch_outcome(program)
        if theirs is None:
            continue
        assert refused is None, f"{program}: refused ({refused}), where PyTorch gives {theirs[0]}"
        wanted, wanted_gradients = theirs
        assert len(results) == len(wanted) and all(map(same, results, wanted)), f"{program}: {results}, not {wanted}"
        if gradients is not None and wanted_gradients is not None:
            assert all(map(same, gradients, wanted_gradients)), f"{program}: {gradients}, not {wanted_gradients}"


# Without PyTorch

EMPTY = [
    # name, function, shapes of the inputs, value or shape
    ("sum", rg.sum, [(0, 3)], 0.0),
    ("sum along the empty dimension", lambda x: x.sum(0), [(0, 3)], [0.0, 0.0, 0.0]),
    ("sum along the other", lambda x: x.sum(1), [(0, 3)], (0,)),
    ("prod", rg.prod, [(0, 3)], 1.0),
    ("prod along the empty dimension", lambda x: x.prod(0), [(0, 2)], [1.0, 1.0]),
    ("mean", rg.mean, [(0, 3)], np.nan),
    ("mean along the empty dimension", lambda x: x.mean(0), [(0, 2)], [np.nan, np.nan]),
    ("var", rg.var, [(0,)], np.nan),
    ("std", rg.std, [(0,)], np.nan),
    ("norm", rg.norm, [(0,)], 0.0),
    ("logsumexp", lambda x: x.logsumexp(0), [(0,)], -np.inf),
    ("median", rg.median, [(0,)], np.nan),
    ("max along the other dimension", lambda x: x.max(1).values, [(0, 3)], (0,)),
    ("softmax", lambda x: x.softmax(1), [(2, 0)], (2, 0)),
    ("log_softmax", lambda x: x.log_softmax(0), [(0, 2)], (0, 2)),
    ("cumsum", lambda x: x.cumsum(0), [(0, 2)], (0, 2)),
    ("cumprod", lambda x: x.cumprod(0), [(0, 2)], (0, 2)),
    ("sort", lambda x: x.sort(0).values, [(0, 2)], (0, 2)),
    ("cat", lambda x, y: rg.cat([x, y]), [(0, 2), (0, 2)], (0, 2)),
    ("stack", lambda x, y: rg.stack([x, y]), [(0, 2), (0, 2)], (2, 0, 2)),
    ("add", rg.add, [(0, 2), (1, 2)], (0, 2)),
    ("where", lambda x: rg.where(x > 0, x, 0.0), [(0, 2)], (0, 2)),
    ("index by mask", lambda x: x[x > 9], [(3,)], (0,)),
    ("matmul without inner elements", rg.matmul, [(2, 0), (0, 3)], [[0.0] * 3] * 2),
    ("matmul without rows", rg.matmul, [(0, 2), (2, 3)], (0, 3)),
    ("batched matmul", rg.matmul, [(0, 4, 2), (2, 3)], (0, 4, 3)),
    ("linear", F.linear, [(0, 5, 2), (3, 2), (3,)], (0, 5, 3)),
    ("linear of nothing", F.linear, [(2, 0), (3, 0)], [[0.0] * 3] * 2),
    ("einsum", lambda x, y: rg.einsum("ij,jk->ik", x, y), [(2, 0), (0, 3)], [[0.0] * 3] * 2),
    ("conv2d", F.conv2d, [(0, 2, 5, 5), (3, 2, 3, 3), (3,)], (0, 3, 3, 3)),
    ("max_pool2d", lambda x: F.max_pool2d(x, 2), [(0, 2, 4, 4)], (0, 2, 2, 2)),
    ("attention without keys", F.scaled_dot_product_attention, [(2, 4), (0, 4), (0, 2)], [[0.0] * 2] * 2),
    ("layer_norm", lambda x: F.layer_norm(x, (3,)), [(0, 3)], (0, 3)),
    ("mse_loss", F.mse_loss, [(0, 3), (0, 3)], np.nan),
    ("mse_loss, sum", lambda x, y: F.mse_loss(x, y, reduction="sum"), [(0, 3), (0, 3)], 0.0),
    ("cross_entropy", lambda x: F.cross_entropy(x, rg.zeros(0, dtype=rg.int64)), [(0, 3)], np.nan),
    ("nuclear norm", lambda x: rg.linalg.matrix_norm(x, "nuc"), [(0, 3)], 0.0),
    ("det", rg.linalg.det, [(0, 0)], 1.0),
]


@pytest.mark.parametrize(
    ("function", "shapes", "wanted"), [case[1:] for case in EMPTY], ids=[case[0] for case in EMPTY]
)
def test_without_elements(function, shapes, wanted):
    inputs = [rg.ones(*shape, dtype=rg.float64, requires_grad=True) for shape in shapes]
    y = function(*inputs)
    if isinstance(wanted, tuple):
        assert y.shape == wanted
    else:
        np.testing.assert_array_equal(y.detach().numpy(), wanted)
    for x, g in zip(inputs, rg.autograd.grad(y.sum(), inputs)):
        assert g.shape == x.shape and not g.numpy()[np.isfinite(g.numpy())].any()


WITHOUT_IDENTITY = [
    (RuntimeError, rg.max),
    (RuntimeError, rg.min),
    (RuntimeError, rg.amax),
    (RuntimeError, rg.aminmax),
    (RuntimeError, lambda x: x.norm(np.inf)),
    (RuntimeError, lambda x: x.norm(-1)),
    (RuntimeError, lambda x: x.quantile(0.5)),
    (IndexError, rg.argmax),
    (IndexError, lambda x: x.max(0)),
    (IndexError, lambda x: x.amin(0)),
    (IndexError, lambda x: x.argmin(0)),
    (IndexError, lambda x: x.median(0)),
    (IndexError, lambda x: x.mode(0)),
    (RuntimeError, lambda x: x.norm(-2, 0)),
]


@pytest.mark.parametrize(("error", "function"), WITHOUT_IDENTITY)
def test_reductions_without_identity_raise(error, function):
    with pytest.raises(error):
        function(rg.zeros(0, 3))
