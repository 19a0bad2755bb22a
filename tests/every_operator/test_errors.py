"""What operators do with bad input, for every operator of the table: its example calls, spoilt in every argument.

A spoilt call either gives PyTorch's answer or an error of PyTorch's type that names the operator. Where PyTorch is not
installed, the answers are not compared.
"""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from typing import Any, NamedTuple

import numpy as np
import pytest

import retrograd as rg
from retrograd.core.errors import describe
from retrograd.ops.table.registry import OPERATORS, Operator
from retrograd.testing.case import Call, Case, Fixed
from retrograd.testing.cases import all_cases
from retrograd.testing.comparison import assert_close, numbers
from retrograd.testing.programs import make_tensor, replaced, rewritten
from tests.helpers.against_torch import torch_function, torch_value

try:
    import torch
except ImportError:
    torch = None

CASES = {case.name: case for case in all_cases() if case.name in OPERATORS}

# How to spoil a call


def spoilt_array(value: Any) -> Iterator[tuple[str, Any]]:
    a = np.asarray(value.array if isinstance(value, Fixed) else value)
    yield from [("kind: None", None), ("kind: text", "text"), ("kind: object", {}), ("kind: texts", ["a", "b"])]
    if a.dtype.kind == "f":
        yield "dtype: integers", np.nan_to_num(a, nan=0, posinf=9, neginf=-9).astype(np.int64)
        yield "dtype: bools", a > 0
        yield "dtype: complex", a + 0.5j
        yield "dtype: float32", a.astype(np.float32)
    elif a.dtype.kind == "c":
        yield "dtype: real", a.real.copy()
    elif a.dtype.kind == "b":
        yield "dtype: floats", a.astype(np.float64)
        yield "dtype: integers", a.astype(np.int64)
    else:
        yield "dtype: floats", a.astype(np.float64)
        yield "dtype: int32", a.astype(np.int32)
        yield "dtype: bools", a.astype(bool)
        yield "index: too large", a + 1000
        yield "index: too negative", a - 1000
    yield from [("rank: first axis", a[None]), ("rank: last axis", a[..., None]), ("rank: two axes", a[None, None])]
    if a.ndim:
        yield "rank: no axes", a.ravel()[0] if a.size else a
        yield "rank: one less", a[0] if len(a) else a
        yield "size: first longer", np.concatenate([a, a[:1]])
        yield "size: first empty", a[:0]
    if a.ndim > 1:
        yield "size: last longer", np.concatenate([a, a[..., :1]], -1)
        yield "size: last shorter", a[..., :-1]
        yield "size: last empty", a[..., :0]


def spoilt(value: Any) -> Iterator[tuple[str, Any]]:
    """What to put in the place of an argument, and in what way it is wrong."""
    if isinstance(value, (np.ndarray, Fixed, np.generic)):
        for what, new in spoilt_array(value):
            new = np.asarray(new) if isinstance(new, np.generic) else new
            yield what, Fixed(new) if isinstance(value, Fixed) and isinstance(new, np.ndarray) else new
    elif isinstance(value, bool):
        return
    elif isinstance(value, int):
        yield from ((f"number: {new}", new) for new in (40, -40, -1, 0) if new != value)
        yield from ((f"kind: {new!r}", new) for new in (1.5, "a", None, (0, 0), (40,), [0.5]))
    elif isinstance(value, float):
        yield from [("kind: text", "a"), ("kind: None", None), ("kind: tuple", (1.0,)), ("number: -1.0", -1.0)]
    elif isinstance(value, str):
        yield from [("choice: unknown", "unknown"), ("kind: 3", 3), ("kind: None", None)]
    elif isinstance(value, (list, tuple)) and value and not hasattr(value, "_fields"):
        if all(isinstance(item, int) for item in value):
            yield from ((f"sizes: {new!r}", (new, *value[1:])) for new in (40, -40, -2, 0))
            yield from ((f"kind: {new!r} among integers", (new, *value[1:])) for new in (0.5, "a", None))
            yield from [("sizes: repeated", (value[0], *value)), ("sizes: one fewer", value[1:])]
            yield from [("kind: text", "a"), ("kind: None", None), ("single: -40", -40), ("kind: 0.5", 0.5)]
        elif any(isinstance(item, (np.ndarray, Fixed)) for item in value):
            yield from [("list: empty", type(value)()), ("kind: None", None), ("kind: text", "a")]
            for place in range(min(2, len(value))):
                for what, new in spoilt(value[place]):
                    yield what, type(value)([*value[:place], new, *value[place + 1 :]])


def spoilt_calls(call: Call) -> Iterator[tuple[str, Call]]:
    args, kwargs = call.args, call.kwargs
    yield "count: none", Call()
    if len(args) > 1:
        yield "count: one missing", Call(*args[:-1], **kwargs)
    yield "count: too many", Call(*args, *[{}] * 12, **kwargs)
    yield "count: unknown keyword", Call(*args, bogus=1, **kwargs)
    for place, value in enumerate(args):
        for what, new in spoilt(value):
            yield f"{what} at {place}", Call(*args[:place], new, *args[place + 1 :], **kwargs)
    for key, value in kwargs.items():
        for what, new in spoilt(value):
            yield f"{what} at {key}", Call(*args, **{**kwargs, key: new})


# Where we differ on purpose


class Difference(NamedTuple):
    """Whose calls (patterns of an operator's name, of a way to spoil it, of PyTorch's error), and why."""

    names: str
    ways: str
    theirs: str
    reason: str

    def covers(self, name: str, what: str, theirs: str) -> bool:
        return bool(re.fullmatch(self.names, name) and re.match(self.ways, what) and re.match(self.theirs, theirs))


ANSWERS = [  # we answer where PyTorch refuses
    Difference("unique.*", "dtype: complex", "NotImplementedError", "complex numbers are ordered as NumPy orders them"),
    Difference(
        "arange|eye|sparse_coo_tensor|squeeze(_copy)?|(special.)?logsumexp|linalg.matrix_norm|(cumulative_)?trapezoid|Tensor.random_|.*adaptive_.*",
        "kind: None",
        "TypeError",
        "None stands for an argument that is not given",
    ),
    Difference(
        ".*(fold|unfold|max_unpool.*|adaptive_.*)",
        r"kind: \(40,\)|sizes: one fewer",
        "RuntimeError",
        "one length stands for all axes, as it does for PyTorch's convolutions",
    ),
    Difference("repeat_interleave", r"kind: \(40,\)", "TypeError", "a sequence of integers is as good as a Tensor"),
    Difference("Tensor.__setitem__", "kind: tuple", "TypeError", "a sequence can be assigned, as in NumPy"),
    Difference("index_put", "kind: None|list: empty", "", "None, or nothing, selects a whole dimension"),
    Difference("linalg.lstsq", "rank", "RuntimeError", "batches are broadcast"),
    Difference("kthvalue|topk", "dtype: bools", "", "bools have an order; equal ones come in any"),
    Difference("linalg.lu_factor", "size", ".*zero", "a singular matrix has its factors, too"),
    Difference("combinations", "number: 40", ".*overflow", "there are none"),
    Difference(r"fft\.i?fftshift", "rank", "RuntimeError: `shifts` required", "without dimensions nothing is shifted"),
    Difference(".*embedding_bag|.*instance_norm|view_as_complex|.*unfold", "size: .* empty", "", "nothing of nothing"),
    Difference(".*cross_entropy", "rank", "RuntimeError: output with", "one class index may stand in a vector"),
    Difference(".*avg_pool3d", "", ".*smaller than kernel size", "PyTorch forgets the padding"),
]

_LOOKED = (
    "IndexError: (Dimension|tuple index|slice)|"
    "ValueError: (Input|invalid output_size|output_size should|max_unpooling|not enough values)"
)
TYPES = [  # both refuse, with errors of different types
    Difference(".*", "single", "TypeError", "one integer stands for a sequence of one, as in NumPy; it is wrong then"),
    Difference(".*", "rank|size|number|kind", _LOOKED, "PyTorch looks at a dimension before it knows that it is there"),
    Difference(".*batch_norm", "rank", "RuntimeError", "PyTorch counts weights before it counts dimensions"),
    Difference("sparse.mm|spmm", "dtype", "IndexError: Dimension", "PyTorch looks at a dimension before it is there"),
    Difference("diagonal_copy", "rank: no axes", "RuntimeError", "PyTorch compares dimensions that are not there"),
    Difference("narrow_copy", "", "RuntimeError: Expected dim <", "a dimension out of range is an IndexError"),
    Difference(".*linear_cross_entropy", "rank", "ValueError", "shapes that do not fit are a RuntimeError"),
    Difference("unravel_index", "sizes: 0", "RuntimeError: ZeroDivision", "positions out of range are a ValueError"),
    Difference(
        "index_.*|take.*|.*embedding.*|Tensor.__.etitem__",
        "rank|size|number|index|dtype",
        "RuntimeError|IndexError",
        "an index that does not fit is an IndexError or a RuntimeError, in PyTorch by the kernel",
    ),
    Difference(".*_loss", "kind: .* at reduction", "TypeError: unsupported", "an unknown reduction is a ValueError"),
    Difference("Tensor.__.etitem__", "kind", "TypeError", "what is no index is an IndexError, as in most of PyTorch"),
    Difference(
        "repeat_interleave|movedim|tensordot|bernoulli|randint|transpose|index_put",
        "kind|count",
        "TypeError",
        "another form of the call is tried, which fails for its values",
    ),
]

VALUES = [  # both answer, differently
    Difference("empty|.*new_empty", "", "", "unset memory"),
    Difference("searchsorted|bucketize", "size: first longer", "", "boundaries out of order"),
    Difference("kthvalue", "size: first longer", "", "of equal elements, the index of another one"),
    Difference("linalg.lu_factor_ex", "size: last longer", "", "a column that is there twice has a pivot by rounding"),
    Difference(".*pixel_unshuffle", "size: .* empty", "", "PyTorch returns an empty input as it is"),
    Difference(".*hinge_embedding_loss", "dtype: integers", "", "PyTorch rounds the losses of integers"),
    Difference("triangular_solve", "rank", "", "the coefficients, which are returned too, are not broadcast"),
]

REFUSALS = [  # we refuse where PyTorch answers
    Difference(".*", "dtype: complex", "", "a real operator refuses what PyTorch converts or happens to compute"),
    Difference(
        "linalg.solve_triangular|.*conv_transpose.*|.*rms_norm|.*matrix_power|.*ctc_loss|lstm_cell",
        "dtype",
        "",
        "PyTorch does not look at the dtype where it makes no difference to a kernel",
    ),
    Difference(
        ".*_cell|.*linear|.*batch_norm|.*_loss|tensordot|.*multi_head_attention_forward|.*scaled_dot_product_attention",
        "rank|size|count|kind: None",
        "",
        "nothing is broadcast or filled in by accident",
    ),
    Difference(".*adaptive_avg_pool.*", "rank", "", "PyTorch takes other ranks than it documents"),
    Difference("take_along_dim|index_add|.*ctc_loss", "index|size|number", "", "PyTorch reads outside of its memory"),
    Difference("Tensor.__.etitem__", r"kind: \[0.5\]", "", "PyTorch cuts off the fraction of an index"),
    Difference(".*hardtanh_", "number", "", "bounds in the wrong order, which PyTorch's hardtanh refuses, too"),
    Difference("gradient|meshgrid|.*normalize", "kind: None", "", "None stands for nothing that is documented"),
    Difference(".*cross_entropy", "number: -1.0", "", "PyTorch checks label_smoothing only for batches"),
    Difference("sparse_coo_tensor", "dtype|index|sizes|rank", "", "PyTorch does not look where coordinates lie"),
    Difference("Tensor.to_sparse", "rank", "", "a number has no coordinates"),
    Difference("unravel_index", "index|sizes", "", "PyTorch takes positions out of range by their remainders"),
    Difference(
        "(linalg.)?lu(_factor)?(_ex)?",
        "size: last longer",
        "",
        "what is below the square part needs that to be invertible",
    ),
    Difference(
        "cholesky|bincount|.*adaptive_.*|.*(group|instance)_norm|.*bilinear|fft.*|.*max_unpool.*",
        r"size: .* empty|rank: (no axes|one less)|number|kind: \(0, 0\)",
        "",
        "of nothing there is no answer",
    ),
]

CRASHES = {"lstm", "gru", "lu_unpack", "rnn_tanh", "rnn_relu"}  # PyTorch ends the process on some of these calls


# What became of a call

TYPES_OF_ERRORS = (RuntimeError, TypeError, IndexError, ValueError, AssertionError, rg.linalg.LinAlgError)


def result_of(function: Any, call: Call, make: Any, convert: Any = lambda value: value) -> Any:
    args = [convert(replaced(value, make)) for value in call.args]
    kwargs = {key: convert(replaced(value, make)) for key, value in call.kwargs.items()}
    try:
        return function(*args, **kwargs)
    except Exception as error:
        return error


def torch_result(function: Any, call: Call) -> Any:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return result_of(function, call, lambda array, differentiated: torch.from_numpy(np.array(array)), torch_value)


def difference(ours: Any, theirs: Any) -> str:
    """How two answers differ; empty where they do not."""
    got, wanted = ([x for x in numbers(result) if x is not None] for result in (ours, theirs))
    if len(got) != len(wanted):
        return f"{len(got)} results, PyTorch gives {len(wanted)}"
    try:
        with np.errstate(all="ignore"):  # what ``empty`` finds in memory may be any number
            for a, b in zip(got, wanted, strict=True):
                assert_close(a, b, 1e-4, "the value")
    except AssertionError as error:
        return str(error)
    return ""


def promoted(call: Call, good: Call) -> Call:
    """The spoilt call with the dtype that each array had before, and all of them complex where one was made so."""
    dtypes: list[Any] = []
    rewritten(good, lambda array, differentiated: dtypes.append(array.dtype) or array)
    kinds: set[str] = set()
    rewritten(call, lambda array, differentiated: kinds.add(array.dtype.kind) or array)
    rest = iter(dtypes)

    def change(array: Any, differentiated: bool) -> Any:
        dtype = next(rest)
        return array.astype(np.complex128 if "c" in kinds and dtype.kind == "f" else dtype)

    return rewritten(call, change)


def named(operator: Operator, message: str) -> bool:
    name = operator.name.removeprefix("__").removesuffix("__")
    return re.match(rf"([\w.]*\.)?(__)?{name}(?![a-z0-9])", message) is not None


def verdict(operator: Operator, case: Case, what: str, call: Call, good: Call, function: Any) -> tuple[bool, str]:
    """Whether the answer to a spoilt call is right, and in which way it is, or is not."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*differ in shape and are broadcast")  # PyTorch's warnings, too
        warnings.filterwarnings("ignore", message=".*implicit choice of a dimension")
        warnings.filterwarnings("ignore", message="Casting complex values")
        warnings.filterwarnings("ignore", message="dropout[23]d: ")
        if case.random:
            rg.manual_seed(0)
        ours = result_of(operator.function, call, lambda array, differentiated: make_tensor(array))
    refused = isinstance(ours, Exception)
    if refused:
        shown = f"{type(ours).__name__}: {ours}"
        if type(ours) not in (*TYPES_OF_ERRORS, NotImplementedError):
            return False, f"a stray {shown}"
        if not named(operator, str(ours)):
            return False, f"the message does not name the operator: {shown}"
    if function is None:
        return True, "not compared"
    theirs = torch_result(function, call)
    told = f"{type(theirs).__name__}: {theirs}" if isinstance(theirs, Exception) else ""

    def on_purpose(table: list[Difference], fault: str) -> tuple[bool, str]:
        reasons = [row.reason for row in table if row.covers(case.name, what, told)]
        return (True, reasons[0]) if reasons else (False, fault)

    if not refused and not told:
        if case.random or case.wrap is not None:
            return True, "not compared"
        found = difference(ours, theirs)
        return on_purpose(VALUES, found) if found else (True, "PyTorch's answer")
    if not refused:
        if what.startswith("dtype"):
            proper = torch_result(function, promoted(call, good))
            if not isinstance(proper, Exception) and (case.random or not difference(ours, proper)):
                return True, "dtypes are promoted: PyTorch's answer in the dtype it wants"
        return on_purpose(ANSWERS, f"answers {describe(ours)}, PyTorch raises {told}")
    if not told:
        return on_purpose(REFUSALS, f"{shown}, PyTorch answers")
    if isinstance(ours, AssertionError) and not isinstance(theirs, AssertionError):
        return False, f"{shown}, PyTorch raises {told}"
    wanted = tuple(kind for kind in TYPES_OF_ERRORS if isinstance(theirs, kind))
    if wanted and isinstance(ours, wanted):
        return True, "PyTorch's type of error"
    if isinstance(ours, TypeError) and what.startswith(("kind", "count")):
        return True, "what is of the wrong kind is a TypeError"
    if not wanted:
        return True, "PyTorch's error has no type for bad input"
    return on_purpose(TYPES, f"{shown}, PyTorch raises {told}")


def faults(operator: Operator, case: Case, function: Any, count: int) -> Iterator[str]:
    """The ways to spoil the first example calls whose answers are not right, each with the reason."""
    for good in islice(case.calls(np.random.default_rng(0)), count):
        for what, bad in spoilt_calls(good):
            fine, why = verdict(operator, case, what, bad, good, function)
            if not fine:
                yield f"{shown(operator.qualified_name, bad)} [{what}]: {why}"


def shown(name: str, call: Call) -> str:
    def plain(value: Any) -> str:
        return describe(replaced(value, lambda array, differentiated: array))

    arguments = [*map(plain, call.args), *(f"{key}={plain(value)}" for key, value in call.kwargs.items())]
    return f"{name}({', '.join(arguments)})"


def faults_on(name: str, count: int) -> Iterator[str]:
    case, operator = CASES[name], OPERATORS[name]
    compared = torch is not None and case.torch != "" and name not in CRASHES
    return faults(operator, case, torch_function(operator, replace(case, wrap=None)) if compared else None, count)


def faults_in_place(name: str, count: int) -> Iterator[str]:
    method = OPERATORS[name].name + "_"
    operator = OPERATORS[name]._replace(name=method, function=getattr(rg.Tensor, method), namespace="Tensor")
    return faults(operator, CASES[name], getattr(torch.Tensor, method, None) if torch is not None else None, count)


@pytest.fixture
def count(pytestconfig: pytest.Config) -> int:
    """How many example calls of an operator are spoilt."""
    return 2 if pytestconfig.getoption("--long") else 1


@pytest.mark.parametrize("name", sorted(CASES))
def test_bad_input_never_passes_silently(name, count):
    found = [*faults_on(name, count)]
    assert not found, "\n".join(found)


@pytest.mark.every(2)
@pytest.mark.parametrize("name", [name for name in sorted(CASES) if OPERATORS[name].inplace])
def test_bad_input_is_never_written(name, count):
    found = [*faults_in_place(name, count)]
    assert not found, "\n".join(found)


# What users get to read: the call, the type of its error, and what the message says beside the operator's name

x = rg.ones(2, 3)
image = rg.ones(1, 3, 8, 8)
square = rg.ones(3, 3)
classes = rg.tensor([0, 7])
whole = rg.tensor([0, 1])
leaf = rg.ones(3, requires_grad=True)
F = rg.nn.functional

EXAMPLES = {
    "wrong rank": [
        ("mm", lambda: rg.mm(x, rg.ones(3)), RuntimeError, ["mat2", "float32(3,)", "2 dimensions"]),
        ("bmm", lambda: rg.bmm(x, x), RuntimeError, ["float32(2, 3)", "3 dimensions"]),
        ("matmul", lambda: rg.matmul(x, rg.tensor(1.0)), RuntimeError, ["float32(2, 3)", "float32()"]),
        ("conv2d", lambda: F.conv2d(x, rg.ones(4, 3, 3, 3)), RuntimeError, ["3D", "4D", "float32(2, 3)"]),
        ("max_pool2d", lambda: F.max_pool2d(x, 2), RuntimeError, ["3D", "4D", "float32(2, 3)"]),
        ("batch_norm", lambda: F.batch_norm(rg.ones(3), None, None, training=True), IndexError, ["float32(3,)"]),
        ("interpolate", lambda: F.interpolate(x, scale_factor=2), NotImplementedError, ["nearest", "float32(2, 3)"]),
        (
            "linalg.cholesky",
            lambda: rg.linalg.cholesky(rg.ones(3)),
            RuntimeError,
            ["2 dimensions", "float32(3,)"],
        ),
        ("linalg.inv", lambda: rg.linalg.inv(x), RuntimeError, ["square", "float32(2, 3)"]),
        ("t", lambda: rg.ones(2, 3, 4).t(), RuntimeError, ["float32(2, 3, 4)", "2"]),
        ("index_select", lambda: x.index_select(0, rg.tensor([[0]])), IndexError, ["vector", "int64(1, 1)"]),
        ("pad", lambda: F.pad(x, (1, 1, 1, 1, 1, 1)), RuntimeError, ["float32(2, 3)"]),
        ("fft.fft", lambda: rg.fft.fft(rg.tensor(1.0)), IndexError, ["float32()"]),
    ],
    "mismatched sizes": [
        (
            "linear_cross_entropy",
            lambda: F.linear_cross_entropy(x, square[:, :2], classes),
            RuntimeError,
            ["expected linear_weight (..., 3)", "got float32(3, 2)"],
        ),
        (
            "cosine_embedding_loss",
            lambda: F.cosine_embedding_loss(square, square, rg.ones(2)),
            RuntimeError,
            ["a target for each of 3 pairs", "got float32(2,)"],
        ),
        (
            "fractional_max_pool2d",
            lambda: F.fractional_max_pool2d(image, 2, output_size=8),
            RuntimeError,
            ["at most the length of each axis", "output_size=(8, 8)", "kernel_size=(2, 2)"],
        ),
        (
            "segment_reduce",
            lambda: rg.segment_reduce(leaf, "sum", lengths=rg.ones(2, 2).long()),
            RuntimeError,
            ["expected integers (segments)", "int64(2, 2)"],
        ),
        (
            "sparse_coo_tensor",
            lambda: rg.sparse_coo_tensor([[0], [0]], [1.0], (2,)),
            RuntimeError,
            ["expected a size of 2 lengths and the shape ()", "got (2,)"],
        ),
        ("add", lambda: x + rg.ones(4), RuntimeError, ["float32(2, 3)", "float32(4,)"]),
        ("add_", lambda: x.clone().add_(rg.ones(4)), RuntimeError, ["float32(2, 3)", "float32(4,)"]),
        ("add_", lambda: rg.ones(3).add_(x), RuntimeError, ["float32(3,)", "float32(2, 3)"]),
        ("where", lambda: rg.where(x > 0, x, rg.ones(4)), RuntimeError, ["float32(2, 3)", "float32(4,)"]),
        ("matmul", lambda: x @ x, RuntimeError, ["float32(2, 3), float32(2, 3)"]),
        ("linear", lambda: F.linear(rg.ones(4), x), RuntimeError, ["weight", "float32(4,)", "float32(2, 3)"]),
        ("linear", lambda: rg.nn.Linear(3, 2)(rg.ones(4)), RuntimeError, ["float32(4,)", "float32(2, 3)"]),
        ("conv2d", lambda: F.conv2d(image, rg.ones(4, 2, 3, 3)), RuntimeError, ["float32(1, 3, 8, 8)", "channels"]),
        ("cat", lambda: rg.cat([x, square, rg.ones(2, 4)]), RuntimeError, ["float32(2, 3)", "float32(2, 4)"]),
        ("stack", lambda: rg.stack([x, square]), RuntimeError, ["float32(2, 3)", "float32(3, 3)"]),
        ("einsum", lambda: rg.einsum("ij,jk->ik", x, x), RuntimeError, ["ij,jk->ik", "float32(2, 3)"]),
        ("reshape", lambda: x.reshape(4, 2), RuntimeError, ["float32(2, 3)", "4, 2"]),
        ("view", lambda: x.view(-1, 4), RuntimeError, ["float32(2, 3)", "-1, 4"]),
        ("expand", lambda: x.expand(2, 4), RuntimeError, ["float32(2, 3), 2, 4"]),
        ("split", lambda: x.split([1, 3], 1), RuntimeError, ["float32(2, 3)", "(1, 3)"]),
        ("nll_loss", lambda: F.nll_loss(x, rg.tensor([0])), ValueError, ["float32(2, 3)", "int64(1,)"]),
        ("cross_entropy", lambda: F.cross_entropy(x, rg.tensor([0])), ValueError, ["float32(2, 3)", "int64(1,)"]),
        ("layer_norm", lambda: F.layer_norm(x, (4,)), RuntimeError, ["normalized_shape", "float32(2, 3)"]),
        (
            "batch_norm",
            lambda: F.batch_norm(image, rg.zeros(2), rg.ones(2)),
            RuntimeError,
            ["running_mean", "float32(2,)", "float32(1, 3, 8, 8)"],
        ),
        ("scatter", lambda: x.scatter(1, rg.zeros(2, 2).long(), rg.ones(1, 1)), RuntimeError, ["src", "int64(2, 2)"]),
    ],
    "axis out of range": [
        ("sum", lambda: rg.sum(x, 7), IndexError, ["float32(2, 3)", "7", "[-2, 1]"]),
        ("sum", lambda: x.sum(dim=7), IndexError, ["float32(2, 3)", "dim=7", "[-2, 1]"]),
        ("sum", lambda: x.sum(axis=-3), IndexError, ["float32(2, 3)", "-3", "[-2, 1]"]),
        ("softmax", lambda: x.softmax(2), IndexError, ["float32(2, 3)", "[-2, 1]"]),
        ("cat", lambda: rg.cat([x, x], 2), IndexError, ["float32(2, 3)", "[-2, 1]"]),
        ("stack", lambda: rg.stack([x, x], 3), IndexError, ["float32(2, 3)", "[-3, 2]"]),
        ("chunk", lambda: x.chunk(2, 5), IndexError, ["float32(2, 3)", "5"]),
        ("topk", lambda: x.topk(1, 4), IndexError, ["float32(2, 3)", "4"]),
        ("permute", lambda: x.permute(0, 2), IndexError, ["float32(2, 3)", "2"]),
        ("fft.fft", lambda: rg.fft.fft(x, dim=2), IndexError, ["float32(2, 3)", "[-2, 1]"]),
        ("squeeze_", lambda: x.clone().squeeze_(4), IndexError, ["float32(2, 3)", "[-2, 1]"]),
    ],
    "index out of range": [
        ("getitem", lambda: x[100], IndexError, ["float32(2, 3)", "100"]),
        ("setitem", lambda: x.__setitem__((0, 3), 1.0), IndexError, ["float32(2, 3)", "3"]),
        ("gather", lambda: x.gather(1, rg.tensor([[3]])), RuntimeError, ["index 3", "float32(2, 3)"]),
        ("index_select", lambda: x.index_select(0, rg.tensor([2])), IndexError, ["index 2", "float32(2, 3)"]),
        ("scatter_", lambda: x.scatter_(1, rg.tensor([[-1]]), 1.0), RuntimeError, ["index -1", "float32(2, 3)"]),
        ("embedding", lambda: F.embedding(classes, x), IndexError, ["index 7", "float32(2, 3)"]),
        ("nll_loss", lambda: F.nll_loss(x, classes), IndexError, ["7", "float32(2, 3)"]),
        ("cross_entropy", lambda: F.cross_entropy(x, classes), IndexError, ["7", "float32(2, 3)"]),
        ("one_hot", lambda: F.one_hot(classes, 3), RuntimeError, ["int64(2,)", "3"]),
        ("topk", lambda: x.topk(9), RuntimeError, ["float32(2, 3)", "9"]),
        ("select", lambda: x.select(1, 3), IndexError, ["float32(2, 3)", "3"]),
        ("getitem", lambda: x.sum()[0], IndexError, ["float32()", "item()"]),
    ],
    "wrong dtype": [
        ("gather", lambda: x.gather(1, x), RuntimeError, ["integer", "index", "float32(2, 3)"]),
        ("embedding", lambda: F.embedding(rg.ones(2), x), RuntimeError, ["integers", "float32(2,)"]),
        ("one_hot", lambda: F.one_hot(x), RuntimeError, ["float32(2, 3)"]),
        ("nll_loss", lambda: F.nll_loss(x, rg.ones(2)), RuntimeError, ["integer", "float32(2,)"]),
        ("matmul", lambda: x @ rg.ones(3, 1, dtype=rg.float64), RuntimeError, ["float32(2, 3)", "float64(3, 1)"]),
        ("mean", lambda: whole.mean(), RuntimeError, ["int64(2,)"]),
        ("softmax", lambda: whole.softmax(0), NotImplementedError, ["int64(2,)"]),
        ("max", lambda: rg.tensor([1j]).max(), NotImplementedError, ["complex64(1,)"]),
        ("erf", lambda: rg.tensor([1j]).erf(), NotImplementedError, ["complex64(1,)"]),
        ("linalg.cholesky", lambda: rg.linalg.cholesky(square.long()), RuntimeError, ["int64(3, 3)"]),
        ("add_", lambda: whole.add_(0.5), RuntimeError, ["int64(2,)", "float32"]),
        ("where", lambda: rg.where(x, x, x), RuntimeError, ["condition", "float32(2, 3)"]),
        ("bitwise_not", lambda: ~x, TypeError, ["float32(2, 3)"]),
        ("sum", lambda: rg.sum("text"), TypeError, ["input", "Tensor", "str"]),
        ("reshape", lambda: x.reshape(1.5, 4), TypeError, ["shape", "integers", "float"]),
        ("mse_loss", lambda: F.mse_loss([1.0], x), TypeError, ["input", "Tensor", "list"]),
    ],
    "negative sizes": [
        ("zeros", lambda: rg.zeros(2, -3), RuntimeError, ["negative", "(2, -3)"]),
        ("reshape", lambda: x.reshape(-1, -1), RuntimeError, ["float32(2, 3)", "-1, -1"]),
        ("expand", lambda: x.expand(-2, 3), RuntimeError, ["float32(2, 3)", "(-2, 3)"]),
        ("split", lambda: x.split(-1), RuntimeError, ["float32(2, 3)", "-1"]),
        ("chunk", lambda: x.chunk(-2), RuntimeError, ["greater than 0", "-2"]),
        ("pad", lambda: F.pad(x, (-2, -2)), RuntimeError, ["float32(2, 3)", "-2"]),
        ("conv2d", lambda: F.conv2d(image, rg.ones(4, 3, 3, 3), padding=-1), RuntimeError, ["negative", "padding"]),
        ("conv2d", lambda: F.conv2d(image, rg.ones(4, 3, 9, 9)), RuntimeError, ["float32(4, 3, 9, 9)", "(8, 8)"]),
        ("max_pool2d", lambda: F.max_pool2d(image, 0), RuntimeError, ["kernel_size", "0"]),
        ("interpolate", lambda: F.interpolate(image, size=-1), RuntimeError, ["size", "-1"]),
        ("topk", lambda: x.topk(-1), RuntimeError, ["float32(2, 3)", "-1"]),
        ("fft.fft", lambda: rg.fft.fft(x, n=-4), RuntimeError, ["-4", "float32(2, 3)"]),
        ("eye", lambda: rg.eye(-1), RuntimeError, ["negative", "-1"]),
    ],
    "unknown choice": [
        ("mse_loss", lambda: F.mse_loss(x, x, reduction="avg"), ValueError, ["avg", "'none', 'mean' or 'sum'"]),
        ("cross_entropy", lambda: F.cross_entropy(x, whole, reduction="avg"), ValueError, ["avg", "'mean'"]),
        ("nll_loss", lambda: rg.nn.NLLLoss(reduction="avg")(x, whole), ValueError, ["avg", "float32(2, 3)"]),
        ("scatter_reduce", lambda: x.scatter_reduce(1, whole[None], x, "avg"), RuntimeError, ["avg", "amax"]),
        ("pad", lambda: F.pad(x, (1, 1), "mirror"), NotImplementedError, ["mirror", "reflect"]),
        ("interpolate", lambda: F.interpolate(image, size=4, mode="best"), NotImplementedError, ["best", "bilinear"]),
        ("fft.fft", lambda: rg.fft.fft(x, norm="big"), RuntimeError, ["big", "ortho"]),
        ("sum", lambda: rg.sum(x, axes=0), TypeError, ["axes", "float32(2, 3)"]),
        ("softmax", lambda: x.softmax(), TypeError, ["dim"]),
    ],
    "refused write": [
        ("relu", lambda: F.relu(leaf, inplace=True), RuntimeError, ["(float32(3,), inplace=True): a leaf Variable"]),
        ("setitem", lambda: leaf.__setitem__(0, 1.0), RuntimeError, ["(float32(3,), 0, 1.0): a leaf Variable"]),
        ("normal_", lambda: leaf.expand(2, 3).detach().normal_(), RuntimeError, ["(float32(2, 3)): several elements"]),
        ("add_", lambda: whole.add_(1.5), RuntimeError, ["(int64(2,), 1.5): the result type float32"]),
        ("mul_", lambda: whole.mul_(x), RuntimeError, ["(int64(2,), float32(2, 3)): the result"]),
    ],
}


@pytest.mark.parametrize(
    ("name", "call", "kind", "words"),
    [pytest.param(*example, id=f"{what}: {example[0]}") for what, examples in EXAMPLES.items() for example in examples],
)
def test_error_tells(name, call, kind, words):
    with pytest.raises(kind) as caught:
        call()
    message = str(caught.value)
    assert type(caught.value) is kind
    assert re.match(rf"{re.escape(name)}[(:]", message), message
    assert [word for word in words if word not in message] == [], message
