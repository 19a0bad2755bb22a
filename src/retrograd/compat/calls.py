"""Legacy forms of calls, tried after a call has failed: sparse inputs, ``out=``, numbers before Tensors.

A result for ``out`` is computed separately and then copied, so that it is right for any memory of ``out``. PyTorch
computes in place and checks arguments, so it raises errors for overlapping memory and for some dtypes. Tables list the
operators for which PyTorch raises them; there is no general rule.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from inspect import signature
from typing import Any

import numpy as np

from ..core.arrays.devices import Wrapping, array_module
from ..core.arrays.dtypes import as_dtype, can_cast
from ..core.errors import describe
from ..core.graph.modes import modes, no_grad
from ..core.tensor.storage import overlaps_itself
from ..core.tensor.tensor import Tensor
from ..ops.linear.sparse.methods import cat
from ..ops.linear.sparse.sparse import SparseTensor, mm, sparse_coo_tensor
from ..ops.make.creation import shape_of
from ..ops.make.filled import full
from ..ops.table.types import DeviceLike, DTypeLike
from .storages import resize

# Keywords that have no effect, and a test for the values that may be ignored.
_IGNORED: dict[str, Callable[[Any], bool]] = {
    "memory_format": lambda value: True,
    "layout": lambda value: value is None or str(value) == "torch.strided",
    "pin_memory": lambda value: not value,
    "non_blocking": lambda value: True,
    "async": lambda value: True,
    "names": lambda value: value is None,
    "out": lambda value: value is None,
}
_NUMPYS_NAMES = {"x": "input", "a": "input", "x1": "input", "x2": "other"}
_RANKS = {"torch.channels_last": 4, "torch.channels_last_3d": 5}
_RENAMED = {
    ("split", "split_size"): "split_size_or_sections",
    ("tile", "reps"): "dims",
    ("tensor_split", "sections"): "indices_or_sections",
}
_NUMBER_FIRST = {"add": "alpha", "sub": "alpha", "addcmul": "value", "addcdiv": "value"}
_MANY_INTEGERS = (
    "broadcast_to",
    "count_nonzero",
    "squeeze",
)  # methods that also take sizes or dims as separate arguments
_TWO_NUMBERS_FIRST = ("addmm", "addmv", "addr", "addbmm", "baddbmm")


def call(name: str, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of a call in its present form, or NotImplemented if the call is not a legacy form."""
    if args and not isinstance(args[0], Tensor) and _is_attribute(type(args[0]), function):
        return function(*args[1:], **kwargs)
    listed = args[0] if args and isinstance(args[0], (list, tuple)) else ()
    if any(isinstance(value, SparseTensor) for value in (*args, *listed)):
        return sparse_call(name, args, kwargs)
    ignored = [key for key, may_ignore in _IGNORED.items() if key in kwargs and may_ignore(kwargs[key])]
    renamed = {key: new for (operator, key), new in _RENAMED.items() if operator == name and key in kwargs}
    renamed |= _from_numpys_names(function, kwargs)
    if ignored or renamed:
        kept = {renamed.get(key, key): value for key, value in kwargs.items() if key not in ignored}
        result = function(*args, **kept)
        rank = _RANKS.get(str(kwargs.get("memory_format")))
        if rank is not None and getattr(result, "ndim", rank) != rank:
            raise RuntimeError(f"{name}: required rank {rank} tensor to use {kwargs['memory_format']} format")
        return result
    if "layout" in kwargs and str(kwargs["layout"]) == "torch.sparse_coo" and name in ("empty", "zeros"):
        return _sparse_zeros(name, *args, **kwargs)
    if "out" in kwargs:
        return call_into(name, function, args, dict(kwargs))
    if name in _MANY_INTEGERS and len(args) > 2 and not kwargs and all(type(value) is int for value in args[1:]):
        return function(args[0], args[1:])
    operator = name.removesuffix("_")
    keyword = _NUMBER_FIRST.get(operator)
    if keyword and len(args) > 2 and not kwargs and _is_number(args[1]) and isinstance(args[2], Tensor):
        _warn(name, f"{name}({keyword}, ...)", f"{name}(..., {keyword}=...)")
        return function(args[0], *args[2:], **{keyword: args[1]})
    alpha = args[1] if keyword == "alpha" and len(args) == 3 and not kwargs and _is_number(args[2]) else None
    if isinstance(alpha, Tensor) and alpha.array.ndim == 0:  # a 0-d Tensor counts as a number
        _warn(name, f"{name}({keyword}, ...)", f"{name}(..., {keyword}=...)")
        return function(args[0], args[2], alpha=alpha.item())
    if operator in _TWO_NUMBERS_FIRST and not kwargs and len(args) in (4, 5):
        numbers = [value for value in args if _is_number(value)]
        tensors = [value for value in args if isinstance(value, Tensor)]
        if len(tensors) == 3 and 1 <= len(numbers) <= 2:
            _warn(name, f"{name}(beta, input, alpha, ...)", f"{name}(input, ..., beta=..., alpha=...)")
            return function(*tensors, **dict(zip(("beta", "alpha"), numbers)))
    return NotImplemented


def _from_numpys_names(function: Callable[..., object], kwargs: Mapping[str, object]) -> dict[str, str]:
    """Return PyTorch's names of the arguments that are passed by NumPy's names."""
    if _NUMPYS_NAMES.keys().isdisjoint(kwargs):
        return {}
    own = signature(function).parameters
    return {key: new for key, new in _NUMPYS_NAMES.items() if key in kwargs and key not in own and new in own}


def _is_attribute(kind: type, function: Callable[..., object]) -> bool:
    """Return whether a class has the function as an attribute, such as ``conv = torch.conv2d``.

    PyTorch's functions are builtins: ``self.conv(x)`` calls them without ``self``. Our functions would get ``self``.
    """
    return kind.__module__ != "builtins" and any(function in vars(base).values() for base in kind.__mro__[:-1])


def _is_number(value: object) -> bool:
    return isinstance(value, (bool, int, float, complex))


def _warn(name: str, old: str, new: str) -> None:
    warnings.warn(f"This overload of {name} is deprecated: {old}; use {new}", UserWarning, stacklevel=5)


# Sparse Tensors


class _SparseType:
    """A legacy constructor of one dtype: ``sparse.FloatTensor(indices, values, size)``."""

    def __init__(self, name: str, dtype: str) -> None:
        self.__name__, self.dtype = name, dtype

    def __call__(self, *args: Any) -> SparseTensor:
        if len(args) in (2, 3) and isinstance(args[0], Tensor) and isinstance(args[1], Tensor):
            return sparse_coo_tensor(*args, dtype=self.dtype)
        size = args[0] if len(args) == 1 and isinstance(args[0], (tuple, list)) else args
        size = tuple(size) or (0,)
        return sparse_coo_tensor(np.zeros((len(size), 0), np.int64), np.zeros(0), size, dtype=self.dtype)


_SPARSE_DTYPES = {
    "HalfTensor": "float16",
    "FloatTensor": "float32",
    "DoubleTensor": "float64",
    "LongTensor": "int64",
    "IntTensor": "int32",
}


_SPARSE_OPERATORS = {"div": "__truediv__", "divide": "__truediv__", "true_divide": "__truediv__", "neg": "__neg__"}


def _sparse_zeros(
    name: str,
    *size: Any,
    layout: object,
    out: Tensor | None = None,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
) -> SparseTensor:
    """Return a sparse Tensor without values, for ``zeros(size, layout=torch.sparse_coo)``."""
    if out is not None:
        raise RuntimeError(f"{name}: layout={layout} does not match the layout of out, {describe(out)}")
    shape = shape_of(size)
    values = full((0,), 0.0, dtype=dtype, device=device, requires_grad=requires_grad)
    return sparse_coo_tensor(np.zeros((len(shape), 0), np.int64), values, shape)


def sparse_call(name: str, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """Return the result of an operator on sparse Tensors, or NotImplemented if it does not support them."""
    first, rest = args[0], args[1:]
    if name in ("cat", "concat", "concatenate"):
        return cat(*args, **kwargs)
    if name in ("mm", "matmul", "mv", "dot", "spmm", "smm", "hspmm") and len(args) == 2:
        if name in ("mv", "dot") and np.ndim(rest[0]) != 1:
            return NotImplemented
        return first @ rest[0] if isinstance(first, SparseTensor) else rest[0].__rmatmul__(first)
    if name == "addmm" and len(args) == 3:
        return first * kwargs.get("beta", 1) + mm(*rest) * kwargs.get("alpha", 1)
    if isinstance(first, SparseTensor):
        name = _SPARSE_OPERATORS.get(name, name)
        own = type(first).__mro__[: type(first).__mro__.index(Tensor)]  # methods of Tensor need an array
        if not any(name in vars(kind) for kind in own):
            return NotImplemented
        return getattr(first, name)(*rest, **kwargs)
    if name in ("add", "sub"):
        dense = rest[0].to_dense() * kwargs.get("alpha", 1)
        return first + dense if name == "add" else first - dense
    return rest[0] * first if name == "mul" and not kwargs else NotImplemented


def _by_row(input: SparseTensor, dim: int) -> tuple[SparseTensor, Tensor, int]:
    if input.ndim != 2 or input.dense_dim():
        raise RuntimeError(f"softmax: expected a sparse matrix, got a sparse Tensor of shape {tuple(input.shape)}")
    a = input.coalesce()
    across = 1 - dim % 2
    return a, a.indices()[across], a.shape[across]


def log_softmax(input: SparseTensor, dim: int, *, dtype: object = None) -> SparseTensor:
    """Return ``log(softmax)`` of a sparse matrix along one dimension, over the specified values only."""
    a, row, count = _by_row(input if dtype is None else input.to(dtype), dim)
    values = a.values()
    highest = values.detach().new_full((count,), -np.inf).scatter_reduce(0, row, values.detach(), "amax")
    shifted = values - highest[row]
    total = values.new_zeros(count).index_add(0, row, shifted.exp())
    return a._with(shifted - total[row].log())


def softmax(input: SparseTensor, dim: int, *, dtype: object = None) -> SparseTensor:
    """Return ``exp(x_i) / (sum_j exp(x_j))`` of a sparse matrix along one dimension, over the specified values only."""
    logarithm = log_softmax(input, dim, dtype=dtype)
    return logarithm._with(logarithm.values().exp())


def sampled_addmm(
    input: SparseTensor, mat1: Tensor, mat2: Tensor, *, beta: float = 1.0, alpha: float = 1.0
) -> SparseTensor:
    """Return ``beta * input + alpha * mat1 @ mat2`` at the specified positions of a sparse matrix."""
    a = input.coalesce()
    rows, columns = a._indices()[0], a._indices()[1]
    return a._with(a.values() * beta + (mat1[rows] * mat2.mT[columns]).sum(-1) * alpha)


# The argument ``out``


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_JOINED = _names("cat column_stack concat concatenate dstack hstack row_stack stack vstack")

# Operators whose out must not overlap any input, and operators whose out may only be their first input.
_APART = _JOINED | _names("cross gather index_select kthvalue linalg.cross masked_select nonzero take take_along_dim")
_ONLY_FIRST_INPUT = _names("index_add index_copy index_reduce scatter scatter_add scatter_reduce")

# Operators that PyTorch also computes separately, so that memory may overlap in part.
_COPIED = _names(
    """amax amin bmm chain_matmul cummax cummin diag diff dot histc histogram inner inverse linear log_softmax
    logsigmoid logsumexp lu_solve lu_unpack matmul matrix_power mean mm mv mvlgamma nanmean nanquantile nansum norm
    orgqr ormqr quantile slice_scatter slogdet softmax special.logsumexp special.multigammaln special.ndtr std
    tensordot threshold triangular_solve tril triu var vdot"""
)

# Operators with one result whose out must have the result's dtype, as for all operators with several results.
_EXACT = _names(
    """abs addbmm addmm addmv amax amin argmax argmin avg_pool2d avg_pool3d baddbmm bitwise_not bmm bucketize ceil
    chain_matmul clamp clip complex conj_physical cross diag dot elu float_power floor frac gather gelu hardshrink
    heaviside histc index_add index_copy index_reduce index_select inner inverse isin isneginf isposinf lerp
    linalg.cholesky linalg.cross linalg.det linalg.eigvalsh linalg.inv linalg.lu_solve linalg.matmul linalg.matrix_norm
    linalg.multi_dot linalg.norm linalg.solve linalg.solve_triangular linalg.svdvals linalg.vecdot linalg.vector_norm
    linear log_softmax logcumsumexp logsigmoid lu_solve masked_select matmul mm msort multinomial mv nan_to_num
    nanquantile neg negative nonzero nonzero_static norm ormqr polar quantile renorm round scatter scatter_add
    scatter_reduce searchsorted sgn sign signbit slice_scatter softmax softplus softshrink special.round take
    take_along_dim tensordot tril triu trunc vdot where"""
)
_CAST_EACH = _names("geqrf")  # operators with several results that ``out`` may convert to other dtypes
# Operators whose ``out`` must not be complex.
_REAL = _names("fft.hfft fft.hfft2 fft.hfftn fft.irfft fft.irfft2 fft.irfftn nanmean nansum")

# Creation functions, which use the dtype of out; and sums, which use the dtype of out if it is an integer.
_CREATED = _names("arange empty eye full linspace logspace ones rand randint randn randperm range zeros")
_SUMMED = _names("cumprod cumsum prod sum")

# Operators whose out keeps its shape if it has as many elements as the result.
_ALONG_A_LINE = _names("arange linspace logspace range")


def call_into(name: str, function: Callable[..., object], args: tuple[object, ...], kwargs: dict[str, Any]) -> Any:
    """Write the result of a call to ``out``, resize ``out`` if needed, and return it.

    Raises:
        TypeError: ``out`` is not a Tensor, or has another number of Tensors than the result.
        RuntimeError: an input requires grad, memory overlaps, or a dtype does not match.
    """
    out = kwargs.pop("out")
    outs = list(out) if isinstance(out, (tuple, list)) else [out]
    for target in outs:
        if not isinstance(target, Tensor):
            raise TypeError(f"{name}: out must be a Tensor, got {type(target).__name__}")
    if name == "nonzero" and kwargs.get("as_tuple"):
        raise RuntimeError("nonzero: expected no out with as_tuple=True")
    requires_grad = name in _CREATED and kwargs.pop("requires_grad", False)
    inputs = [x for value in (*args, *kwargs.values()) for x in _tensors(value)]
    if modes.grad_enabled and any(x.requires_grad for x in (*inputs, *outs)):
        raise RuntimeError(
            f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the "
            "arguments requires grad."
        )
    _check_memory(name, outs, inputs)
    result = _in_dtype_of(name, outs[0], function, args, kwargs)
    results = list(result) if isinstance(result, (tuple, list)) else [result]
    if len(results) != len(outs):
        raise TypeError(f"{name}: out must be {len(results)} Tensors, got {len(outs)}")
    for target, value in zip(outs, results, strict=True):
        _check_dtype(name, target, value, len(outs))
    for target, value in zip(outs, results, strict=True):
        _write(name, target, value)
        if requires_grad:
            target.requires_grad = True
    return out


def _tensors(value: object) -> Iterator[Tensor]:
    for x in value if isinstance(value, (tuple, list)) else [value]:
        if isinstance(x, Tensor):
            yield x


def _check_memory(name: str, outs: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
    copied = name in _COPIED or name.endswith("_copy") or name.startswith(("fft.", "linalg.")) and name not in _APART
    for place, target in enumerate(outs):
        if overlaps_itself(target.array):
            raise RuntimeError(
                f"{name}: unsupported operation: more than one element of out {describe(target)} refers to a single "
                "memory location; clone() it first"
            )
        if any(_share_memory(target.array, other.array) for other in outs[:place]):
            raise RuntimeError(f"{name}: unsupported operation: the Tensors of out share memory; clone() one first")
        for number, x in enumerate(inputs):
            may_be_input = name not in _APART and (name not in _ONLY_FIRST_INPUT or number == 0)
            if copied or may_be_input and _are_alike(target, x) or not _share_memory(target.array, x.array):
                continue
            raise RuntimeError(
                f"{name}: unsupported operation: some elements of the input {describe(x)} and of out "
                f"{describe(target)} refer to a single memory location; clone() the input first"
            )


def _are_alike(x: Tensor, y: Tensor) -> bool:
    a, b = x.array, y.array
    if a is b:
        return True
    return bool(a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype and x.data_ptr() == y.data_ptr())


def _share_memory(a: object, b: object) -> bool:
    if isinstance(a, Wrapping) or isinstance(b, Wrapping) or type(a) is not type(b):
        return False
    if not array_module(a).may_share_memory(a, b):
        return False
    if type(a) is not np.ndarray:
        return True
    try:
        return np.shares_memory(a, b, max_work=1 << 16)  # type: ignore[arg-type]  # NumPy accepts any int
    except np.exceptions.TooHardError:
        return True


def _in_dtype_of(
    name: str, out: Tensor, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Return the result of the call, with dtype set to that of ``out`` for creation functions and integer sums."""
    dtype = kwargs.get("dtype")
    if name in _CREATED:
        if dtype is not None and as_dtype(dtype) != out.dtype:
            raise RuntimeError(f"{name}: dtype {as_dtype(dtype)} does not match out's dtype {out.dtype}")
        return function(*args, **{**kwargs, "dtype": out.dtype})
    if name in _SUMMED and dtype is not None and as_dtype(dtype) != out.dtype:
        raise RuntimeError(f"{name}: dtype {as_dtype(dtype)} does not match out's dtype {out.dtype}")
    if name in _SUMMED and dtype is None and out.dtype.kind in "biu":
        return function(*args, **{**kwargs, "dtype": out.dtype})
    if name == "bernoulli" and out.dtype.kind in "biu":
        return function(*args, **kwargs).to(out.dtype)
    if "dtype" not in kwargs and not any(isinstance(value, (Tensor, tuple, list)) for value in args):
        with suppress(TypeError):
            return function(*args, dtype=out.dtype, **kwargs)
    return function(*args, **kwargs)


def _check_dtype(name: str, out: Tensor, result: Tensor, count: int) -> None:
    source, target = result.dtype, out.dtype
    if source == target:
        return
    exact = count > 1 and name not in _CAST_EACH or name in _EXACT or name.endswith("_copy")
    # A bool result may be written to uint8.
    if exact or name in ("all", "any") and target != np.uint8 or name in _REAL and target.kind == "c":
        raise RuntimeError(f"{name}: expected out to have dtype {source}, got {target}")
    if not can_cast(source, target):
        error = TypeError if name in _JOINED else RuntimeError
        raise error(f"{name}: result type {source} can't be cast to the desired output type {target}")


def _write(name: str, out: Tensor, result: Tensor) -> None:
    with no_grad():
        if name in _ALONG_A_LINE and out.array.size == result.array.size:
            result = result.view(out.array.shape)
        if out.array.shape != result.array.shape:
            if getattr(result.array, "level", None) is not getattr(out.array, "level", None):
                raise RuntimeError(
                    f"{name}: out {describe(out)} is not batched by vmap, so it cannot be resized to a batched result; "
                    "return the result from the function instead"
                )
            if out.array.size:
                warnings.warn(
                    f"{name}: out {describe(out)} was resized to the result's size {tuple(result.shape)}; resizing a "
                    "non-empty out is deprecated",
                    UserWarning,
                    stacklevel=6,
                )
            resize(out, result.array.shape)
        out.copy_(result)


NAMES: Mapping[str, str | Mapping[str, object]] = {
    "sparse": {
        **{name: _SparseType(name, dtype) for name, dtype in _SPARSE_DTYPES.items()},
        **{function.__name__: function for function in (log_softmax, sampled_addmm, softmax)},
    }
}
