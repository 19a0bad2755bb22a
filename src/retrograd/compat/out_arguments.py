"""The keyword ``out=``: a call whose result is written to Tensors that the caller gives.

Results are computed apart and copied, so that they are right whatever memory they are written to. What PyTorch refuses,
because it computes in place or checks its arguments, is refused here, too: overlapping memory, and dtypes that do not
fit. The tables below say for which operators; PyTorch has no rule for it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any

import numpy as np

from ..core.arrays.devices import Wrapping, array_module
from ..core.arrays.dtypes import as_dtype, can_cast
from ..core.errors import describe
from ..core.graph.modes import modes, no_grad
from ..core.tensor.storage import overlaps_itself
from ..core.tensor.tensor import Tensor
from .storage import resize


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


_JOINED = _names("cat column_stack concat concatenate dstack hstack row_stack stack vstack")

# Operators whose out= may not even be the input itself, and those where it may be their first input alone.
_APART = _JOINED | _names("cross gather index_select kthvalue linalg.cross masked_select nonzero take take_along_dim")
_FIRST_INPUT_ALONE = _names("index_add index_copy index_reduce scatter scatter_add scatter_reduce")

# Operators that PyTorch computes apart, too, so that memory may overlap in part.
_COPIED = _names(
    """amax amin bmm chain_matmul cummax cummin diag diff dot histc histogram inner inverse linear log_softmax
    logsigmoid logsumexp lu_solve lu_unpack matmul matrix_power mean mm mv mvlgamma nanmean nanquantile nansum norm
    orgqr ormqr quantile slice_scatter slogdet softmax special.logsumexp special.multigammaln special.ndtr std
    tensordot threshold triangular_solve tril triu var vdot"""
)

# Operators with one result whose out= must have the result's dtype; so must that of operators with several results.
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
_CAST_EACH = _names("geqrf")  # has several results whose dtypes may differ from those of out=
_REAL = _names("fft.hfft fft.hfft2 fft.hfftn fft.irfft fft.irfft2 fft.irfftn nanmean nansum")  # not complex

# Operators that make Tensors, in the dtype of out=; and sums, computed in an integer dtype of out=.
_MADE = _names("arange empty eye full linspace logspace ones rand randint randn randperm range zeros")
_SUMMED = _names("cumprod cumsum prod sum")

# Operators whose out= keeps its shape where it has as many elements as the result.
_ALONG_A_LINE = _names("arange linspace logspace range")


def call_into(name: str, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
    """The call with its result written to ``out``, which takes the result's size.

    Raises:
        TypeError: ``out`` is no Tensor, or not as many as there are results.
        RuntimeError: an input requires grad, memory overlaps, or a dtype does not fit.
    """
    out = kwargs.pop("out")
    outs = list(out) if isinstance(out, (tuple, list)) else [out]
    for target in outs:
        if not isinstance(target, Tensor):
            raise TypeError(f"{name}: out must be a Tensor, not {type(target).__name__}")
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
        raise TypeError(f"{name}: out must hold {len(results)} Tensors, got {len(outs)}")
    for target, value in zip(outs, results, strict=True):
        _check_dtype(name, target, value, len(outs))
    for target, value in zip(outs, results, strict=True):
        _write(name, target, value)
    return out


def _tensors(value: Any) -> Iterator[Tensor]:
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
            may_be_input = name not in _APART and (name not in _FIRST_INPUT_ALONE or number == 0)
            if copied or may_be_input and _are_alike(target, x) or not _share_memory(target.array, x.array):
                continue
            raise RuntimeError(
                f"{name}: unsupported operation: some elements of the input {describe(x)} and of out "
                f"{describe(target)} refer to a single memory location; clone() the input first"
            )


def _are_alike(x: Tensor, y: Tensor) -> bool:
    """Whether both are the same elements in the same order."""
    a, b = x.array, y.array
    if a is b:
        return True
    return bool(a.shape == b.shape and a.strides == b.strides and a.dtype == b.dtype and x.data_ptr() == y.data_ptr())


def _share_memory(a: Any, b: Any) -> bool:
    if isinstance(a, Wrapping) or isinstance(b, Wrapping) or type(a) is not type(b):
        return False
    if not array_module(a).may_share_memory(a, b):
        return False
    if type(a) is not np.ndarray:
        return True
    try:
        return np.shares_memory(a, b, max_work=1 << 16)  # type: ignore[arg-type]  # any number is taken
    except np.exceptions.TooHardError:
        return True


def _in_dtype_of(
    name: str, out: Tensor, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]
) -> Any:
    """Operators that make Tensors make them in the dtype of ``out``; integer sums are sums of integers."""
    dtype = kwargs.get("dtype")
    if name in _MADE:
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
    # A truth value may be written as a byte.
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
                    f"{name}: out {describe(out)} is the same for all examples of vmap, so it cannot be resized to "
                    "hold a result that differs between them; return the result from the function instead"
                )
            if out.array.size:
                warnings.warn(
                    f"{name}: out {describe(out)} was resized to the result's size {tuple(result.shape)}; this is "
                    "deprecated for an out that has elements",
                    UserWarning,
                    stacklevel=6,
                )
            resize(out, result.array.shape)
        out.copy_(result)
