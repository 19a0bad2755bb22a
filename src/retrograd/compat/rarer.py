"""Rarer names of PyTorch's top level: operators as they are named inside, in-place forms, removed ones, dtypes."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from typing import Any, NoReturn

import numpy as np

from .._generated import functional as F
from .._generated import linalg as _linalg
from .._generated import toplevel as _ops
from ..core.arrays.devices import backend_for, backend_of
from ..core.graph.modes import modes
from ..core.tensor.tensor import Tensor, new_tensor
from ..func import vmap as vmap
from ..ops.make.creation import dtype_or_default
from .cuda import Event as Event
from .cuda import OutOfMemoryError as OutOfMemoryError
from .cuda import Stream as Stream
from .storage import TypedStorage as TypedStorage
from .storage import UntypedStorage as UntypedStorage

uint16, uint32, uint64 = np.dtype(np.uint16), np.dtype(np.uint32), np.dtype(np.uint64)


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: Any = None,
    device: Any = None,
    requires_grad: bool = False,
    **options: Any,
) -> Tensor:
    """A Tensor of the given strides, in elements, on memory of its own that is not set."""
    if len(size) != len(stride):
        raise RuntimeError(f"empty_strided: dimensionality of sizes {size} must match that of strides {stride}")
    if min(size, default=0) < 0 or min(stride, default=0) < 0:
        raise RuntimeError(f"empty_strided: sizes {size} and strides {stride} must not be negative")
    kind = dtype_or_default(dtype)
    count = 0 if 0 in size else 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    backend = backend_for(device)
    memory = backend.asarray(np.empty(count, kind))
    steps = tuple(step * kind.itemsize for step in stride)
    array = backend.strided(memory, 0, tuple(size), steps, kind) if count else memory.reshape(tuple(size))
    tensor = new_tensor(array)
    tensor.requires_grad = requires_grad
    return tensor


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: Any) -> Tensor:
    """A Tensor whose dimensions lie in memory in the given order, on memory that is not set."""
    if sorted(physical_layout) != list(range(len(size))):
        raise RuntimeError(f"empty_permuted: {physical_layout} is no order of {len(size)} dimensions")
    strides, step = [0] * len(size), 1
    for place in reversed(physical_layout):
        strides[place] = step
        step *= max(1, size[place])
    return empty_strided(size, strides, **options)


def binomial(count: Tensor, prob: Tensor, generator: Any = None) -> Tensor:
    """Numbers from the binomial distributions of ``count`` trials with probability ``prob``."""
    from ..ops.make.random_arrays import drawn_from, source_of

    def on_host(trials: Any, chances: Any) -> Any:
        backend = backend_of(trials)
        trials, chances = backend.to_numpy(trials), backend.to_numpy(chances)
        if not (trials >= 0).all() or not ((chances >= 0) & (chances <= 1)).all():
            raise RuntimeError("binomial: wanted counts of at least 0 and probabilities between 0 and 1")
        drawn = source_of(generator).numpy.binomial(trials.astype(np.int64), chances.astype(np.float64))
        return backend.asarray(np.asarray(drawn, count.dtype))

    return new_tensor(drawn_from(on_host, count.array, prob.array))


def frobenius_norm(input: Tensor, dim: Any = (), keepdim: bool = False) -> Tensor:
    """``linalg.norm`` over two dimensions, or one."""
    return _linalg.vector_norm(input, 2, dim if dim != () else None, keepdim)


def nuclear_norm(input: Tensor, dim: Any = (-2, -1), keepdim: bool = False) -> Tensor:
    """``linalg.matrix_norm(input, "nuc")``: the sum of the singular values."""
    return _linalg.matrix_norm(input, "nuc", tuple(dim), keepdim)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """The norm over all dimensions but one, as ``weight_norm`` takes it."""
    if dim == -1:
        return v.norm(pow)
    return _linalg.vector_norm(v, pow, [d for d in range(v.ndim) if d != dim % v.ndim], True)


def native_layer_norm(input: Tensor, normalized_shape: Any, weight: Any, bias: Any, eps: float) -> tuple[Tensor, ...]:
    """``layer_norm`` with the mean and the reciprocal of the deviation."""
    dims = list(range(-len(normalized_shape), 0))
    mean, variance = input.mean(dims, True), input.var(dims, correction=0, keepdim=True)
    return F.layer_norm(input, normalized_shape, weight, bias, eps), mean, (variance + eps).rsqrt()


def native_group_norm(
    input: Tensor, weight: Any, bias: Any, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, ...]:
    """``group_norm`` with the mean and the reciprocal of the deviation."""
    grouped = input.reshape(N, group, -1)
    mean, variance = grouped.mean(-1), grouped.var(-1, correction=0)
    return F.group_norm(input, group, weight, bias, eps), mean, (variance + eps).rsqrt()


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """``dropout`` with the mask of what stays."""
    if not train:
        return input.clone(), _ops.ones_like(input, dtype=np.bool_)
    mask = _ops.rand_like(input) >= p
    return input * mask * (1 / (1 - p) if p < 1 else 0.0), mask


def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align: bool) -> Tensor:
    """``grid_sample`` with its modes as numbers."""
    mode, padding = ("bilinear", "nearest", "bicubic")[interpolation_mode], ("zeros", "border", "reflection")
    return F.grid_sample(input, grid, mode, padding[padding_mode], align)


grid_sampler_2d = grid_sampler_3d = grid_sampler


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """``affine_grid`` under its inner name."""
    return F.affine_grid(theta, list(size), align_corners)


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: Any,
    stride: Any,
    padding: Any,
    dilation: Any,
    transposed: bool,
    output_padding: Any,
    groups: int,
) -> Tensor:
    """Any of the convolutions, by the dimensions of the weight."""
    axes = weight.ndim - 2
    if transposed:
        function = getattr(F, f"conv_transpose{axes}d")
        result: Tensor = function(input, weight, bias, stride, padding, output_padding, groups, dilation)
        return result
    result = getattr(F, f"conv{axes}d")(input, weight, bias, stride, padding, dilation, groups)
    return result


def max_pool1d_with_indices(input: Tensor, *args: Any, **kwargs: Any) -> Any:
    """``max_pool1d`` with the places of the maxima."""
    return F.max_pool1d(input, *args, return_indices=True, **kwargs)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """``dropout2d`` on any number of dimensions: whole channels are dropped."""
    if not train:
        return input
    mask = _ops.rand(*input.shape[:2], *(1,) * (input.ndim - 2), dtype=input.dtype, device=input.device) >= p
    return input * mask * (1 / (1 - p) if p < 1 else 0.0)


def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Shorten, in place, the rows that are named and longer than ``max_norm``."""
    F.embedding(indices, weight, max_norm=max_norm, norm_type=norm_type)
    return weight


def _removed(name: str, instead: str) -> Callable[..., NoReturn]:
    def function(*args: Any, **kwargs: Any) -> NoReturn:
        raise RuntimeError(f"torch.{name} is deprecated and was removed; use {instead}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Removed from PyTorch: ``{instead}`` took its place."
    return function


symeig, solve, matrix_rank, lstsq = (
    _removed(name, instead)
    for name, instead in (
        ("symeig", "torch.linalg.eigh"), ("solve", "torch.linalg.solve"),
        ("matrix_rank", "torch.linalg.matrix_rank"), ("lstsq", "torch.linalg.lstsq"),
    )
)  # fmt: skip
eig = _removed("eig", "torch.linalg.eig")


def sym_int(a: Any) -> int:
    """The number as an int: shapes are numbers here."""
    return math.floor(a) if a >= 0 else math.ceil(a)


def sym_float(a: Any) -> float:
    """The number as a float."""
    return float(a)


def sym_not(a: Any) -> bool:
    """The opposite truth."""
    return not a


def sym_max(a: Any, b: Any) -> Any:
    """The greater number."""
    return max(a, b)


def sym_min(a: Any, b: Any) -> Any:
    """The smaller number."""
    return min(a, b)


def sym_ite(b: Any, t: Any, f: Any) -> Any:
    """One of two by a truth."""
    return t if b else f


def sym_sum(args: Sequence[Any]) -> Any:
    """The sum of numbers."""
    return sum(args)


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off."""
    from ..autograd.anomaly import set_detect_anomaly

    set_detect_anomaly(enabled, check_nan)


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """``channel_shuffle`` under its inner name."""
    return F.channel_shuffle(input, groups)


def native_batch_norm(
    input: Tensor, weight: Any, bias: Any, mean: Any, var: Any, training: bool, momentum: float, eps: float
) -> tuple[Tensor, ...]:
    """``batch_norm`` with the mean and the reciprocal of the deviation of the batch."""
    out = F.batch_norm(input, mean, var, weight, bias, training, momentum, eps)
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    dims = [0, *range(2, input.ndim)]
    return out, input.mean(dims), (input.var(dims, correction=0) + eps).rsqrt()


_debug = ["default"]
_always = [False]


def set_deterministic_debug_mode(debug_mode: int | str) -> None:
    """As ``use_deterministic_algorithms``: ``"default"``, ``"warn"`` or ``"error"``."""
    from .toplevel import use_deterministic_algorithms

    mode = debug_mode if isinstance(debug_mode, str) else ("default", "warn", "error")[debug_mode]
    if mode not in ("default", "warn", "error"):
        raise RuntimeError(f"set_deterministic_debug_mode: wanted default, warn or error, got {debug_mode!r}")
    _debug[0] = mode
    use_deterministic_algorithms(mode != "default", warn_only=mode == "warn")


def get_deterministic_debug_mode() -> int:
    """What ``set_deterministic_debug_mode`` said, as 0, 1 or 2."""
    return ("default", "warn", "error").index(_debug[0])


def set_warn_always(b: bool) -> None:
    """Let warnings that come once come always."""
    _always[0] = bool(b)
    if b:
        warnings.simplefilter("always", UserWarning)


def is_warn_always_enabled() -> bool:
    """What ``set_warn_always`` said last."""
    return _always[0]


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode looks for NaN: it always does."""
    return modes.anomaly is not None


def is_inference(input: Tensor) -> bool:
    """Whether the Tensor was made in inference mode: that leaves no mark here."""
    return False


is_conj = is_neg = is_distributed = is_inference


def resolve_conj(input: Tensor) -> Tensor:
    """The Tensor: conjugates are computed at once."""
    return input


resolve_neg = resolve_conj


def resize_as_(input: Tensor, the_template: Tensor) -> Tensor:
    """Give the Tensor the size of another, in place."""
    return input.resize_as_(the_template)  # type: ignore[attr-defined]


def _in_place(name: str, function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    def write(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        method = getattr(input, name, None)
        if method is not None:
            written: Tensor = method(*args, **kwargs)
            return written
        return input.copy_(function(input, *args, **kwargs))

    write.__name__ = write.__qualname__ = name
    write.__doc__ = f"In-place form of ``{name.rstrip('_')}``."
    return write


celu_, selu_ = _in_place("celu_", F.celu), _in_place("selu_", F.selu)
threshold_ = _in_place("threshold_", F.threshold)
dropout_, alpha_dropout_ = _in_place("dropout_", F.dropout), _in_place("alpha_dropout_", F.alpha_dropout)
rrelu_, feature_dropout_ = _in_place("rrelu_", F.rrelu), _in_place("feature_dropout_", feature_dropout)
gcd_, lcm_ = _in_place("gcd_", _ops.gcd), _in_place("lcm_", _ops.lcm)
as_strided_ = _in_place("as_strided_", _ops.as_strided)
conj_physical_ = _in_place("conj_physical_", _ops.conj_physical)

__all__ = [
    "Event", "OutOfMemoryError", "Stream",
    "TypedStorage", "UntypedStorage", "affine_grid_generator", "alpha_dropout_", "as_strided_", "binomial", "celu_",
    "conj_physical_", "convolution", "dropout_", "eig", "embedding_renorm_", "empty_permuted", "empty_strided",
    "feature_dropout", "feature_dropout_", "frobenius_norm", "gcd_", "get_deterministic_debug_mode", "grid_sampler",
    "grid_sampler_2d", "grid_sampler_3d", "is_anomaly_check_nan_enabled", "is_conj", "is_distributed", "is_inference",
    "is_neg", "is_warn_always_enabled", "lcm_", "lstsq", "matrix_rank", "max_pool1d_with_indices", "native_batch_norm",
    "native_channel_shuffle", "native_dropout", "native_group_norm", "native_layer_norm", "norm_except_dim",
    "nuclear_norm", "resize_as_", "resolve_conj", "resolve_neg", "rrelu_", "selu_", "set_anomaly_enabled",
    "set_deterministic_debug_mode", "set_warn_always", "solve", "sym_float", "sym_int", "sym_ite", "sym_max", "sym_min",
    "sym_not", "sym_sum", "symeig", "threshold_", "uint16", "uint32", "uint64", "vmap",
]  # fmt: skip
