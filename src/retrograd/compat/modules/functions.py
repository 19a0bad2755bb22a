"""Operators under further names of PyTorch's top level and of ``nn.functional``.

These are operators that PyTorch has in both places, functions that write in place, operators by names that PyTorch
uses internally, names that PyTorch removed, and its calls of the loops and branches in ``func``.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar, cast

import numpy as np

from ..._generated import functional as F
from ..._generated import linalg as _linalg
from ..._generated import toplevel as _ops
from ...core.arrays import Array
from ...core.arrays.devices import backend_for, backend_of
from ...core.graph.modes import modes
from ...core.tensor.tensor import Tensor, new_tensor
from ...func import associative_scan as _associative_scan
from ...func import cond as _cond
from ...func import map as _map
from ...func import scan as _scan
from ...func import vmap as vmap
from ...func import while_loop as _while_loop
from ...func.nests import mapped
from ...ops.make.creation import dtype_or_default
from ...ops.make.dlpack import from_dlpack as from_dlpack
from ...ops.make.dlpack import to_dlpack as to_dlpack
from ...ops.make.generators import Generator
from ...ops.table.types import DeviceLike, Dims, DTypeLike
from .cuda import Event as Event
from .cuda import OutOfMemoryError as OutOfMemoryError
from .cuda import Stream as Stream

Value = TypeVar("Value")

# Operators that PyTorch also has as functions that write in place: ``abs_``. Those in ``_NO_METHOD`` are not methods.
_IN_PLACE = """
    abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh asin asinh atan atanh ceil clamp clamp_max
    clamp_min clip cos cosh deg2rad detach erf erfc exp exp2 expm1 fill fix floor frac i0 index_put ldexp log log10
    log1p log2 logit nan_to_num neg negative rad2deg reciprocal relu round rsqrt sigmoid sin sinc sinh sqrt square
    tan tanh trunc xlogy zero
"""
_NO_METHOD = "alpha_dropout as_strided celu conj_physical dropout feature_dropout gcd lcm rrelu selu threshold"

# Operators that PyTorch has in ``nn.functional`` and at its top level.
_IN_BOTH = """
    conv_tbc adaptive_avg_pool1d adaptive_max_pool1d alpha_dropout avg_pool1d batch_norm bilinear
    binary_cross_entropy_with_logits celu channel_shuffle conv1d conv2d conv3d conv_transpose1d conv_transpose2d
    conv_transpose3d cosine_embedding_loss cosine_similarity ctc_loss dropout embedding embedding_bag
    feature_alpha_dropout group_norm hinge_embedding_loss instance_norm kl_div layer_norm margin_ranking_loss
    max_pool1d max_pool2d max_pool3d pairwise_distance pdist pixel_shuffle pixel_unshuffle poisson_nll_loss prelu
    rms_norm rrelu selu softmax threshold triplet_margin_loss relu tanh sigmoid log_softmax
"""


def is_nonzero(input: Tensor) -> bool:
    """Return whether the only element is not zero."""
    return bool(input)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Return whether both Tensors have the same shape."""
    return input.shape == other.shape


def is_signed(input: Tensor) -> bool:
    """Return whether the dtype has negative numbers."""
    return input.dtype.kind in "ifcV"  # bfloat16 has kind V


def get_device(input: Tensor) -> int:
    """Return the index of the Tensor's GPU, -1 for the CPU."""
    return -1 if input.device.index is None else input.device.index


def chain_matmul(*matrices: Tensor) -> Tensor:
    """Return the product of matrices, from left to right; ``linalg.multi_dot`` chooses the best order."""
    result = matrices[0]
    for matrix in matrices[1:]:
        result = result @ matrix
    return result


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: DTypeLike) -> Tensor:
    """Return the gradient of softmax with respect to its input: ``output * (g - sum(g * output))``."""
    product = grad_output * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """Return the powers of the elements of a vector as columns, by default the highest power first."""
    if x.ndim != 1:
        raise RuntimeError(f"vander: x must be a one-dimensional Tensor, got {tuple(x.shape)}")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError(f"vander: N must not be negative, got {count}")
    x = x.long() if x.dtype.kind in "biu" else x
    powers = [x ** int(power) for power in range(count)]
    return _ops.stack(powers if increasing else powers[::-1], 1) if powers else x.new_empty((len(x), 0))


def frombuffer(
    buffer: bytes | bytearray | memoryview | Array,
    *,
    dtype: DTypeLike,
    count: int = -1,
    offset: int = 0,
    requires_grad: bool = False,
) -> Tensor:
    """Return a 1-d Tensor that shares memory with a bytes-like object."""
    tensor = new_tensor(np.frombuffer(buffer, np.dtype(dtype), count, offset))
    tensor.requires_grad = requires_grad
    return tensor


def empty_strided(
    size: Sequence[int],
    stride: Sequence[int],
    *,
    dtype: DTypeLike | None = None,
    device: DeviceLike | None = None,
    requires_grad: bool = False,
    **options: object,
) -> Tensor:
    """Return an uninitialized Tensor with the given strides, in elements."""
    if len(size) != len(stride):
        raise RuntimeError(f"empty_strided: dimensionality of sizes {size} must match that of strides {stride}")
    if min(size, default=0) < 0 or min(stride, default=0) < 0:
        raise RuntimeError(f"empty_strided: sizes {size} and strides {stride} must not be negative")
    kind = dtype_or_default(dtype)
    count = 0 if 0 in size else 1 + sum((length - 1) * step for length, step in zip(size, stride, strict=True))
    backend = backend_for(device)
    memory = _ops.empty((count,), dtype=kind, device=device).array
    steps = tuple(step * kind.itemsize for step in stride)
    array = backend.strided(memory, 0, tuple(size), steps, kind)
    tensor = new_tensor(array)
    tensor.requires_grad = requires_grad
    return tensor


def empty_permuted(size: Sequence[int], physical_layout: Sequence[int], **options: Any) -> Tensor:
    """Return an uninitialized Tensor whose dimensions have the given order in memory."""
    if sorted(physical_layout) != list(range(len(size))):
        raise RuntimeError(
            f"empty_permuted: physical_layout must be a permutation of range({len(size)}), got {physical_layout}"
        )
    strides, step = [0] * len(size), 1
    for place in reversed(physical_layout):
        strides[place] = step
        step *= max(1, size[place])
    return empty_strided(size, strides, **options)


def binomial(count: Tensor, prob: Tensor, generator: Generator | None = None) -> Tensor:
    """Draw from binomial distributions of ``count`` trials with probability ``prob``."""
    from ...ops.make.random_arrays import drawn_from, source_of

    def draw(trials: Array, chances: Array) -> Array:
        backend = backend_of(trials)
        trials, chances = backend.to_numpy(trials), backend.to_numpy(chances)
        if not (trials >= 0).all() or not ((chances >= 0) & (chances <= 1)).all():
            raise RuntimeError("binomial: counts must be at least 0, and probabilities between 0 and 1")
        drawn = source_of(generator).numpy.binomial(trials.astype(np.int64), chances.astype(np.float64))
        return backend.asarray(np.asarray(drawn, count.dtype))

    return new_tensor(drawn_from(draw, count.array, prob.array))


def frobenius_norm(input: Tensor, dim: Dims = (), keepdim: bool = False) -> Tensor:
    """Return the 2-norm over one or two dimensions."""
    return _linalg.vector_norm(input, 2, dim if dim != () else None, keepdim)


def nuclear_norm(
    input: Tensor, dim: Sequence[int] = (-2, -1), keepdim: bool = False, *, out: Tensor | None = None
) -> Tensor:
    """Return the sum of the singular values: ``linalg.matrix_norm(input, "nuc")``."""
    if out is not None:
        from ..calls import call_into

        return cast("Tensor", call_into("nuclear_norm", nuclear_norm, (input, dim, keepdim), {"out": out}))
    return _linalg.matrix_norm(input, "nuc", tuple(dim), keepdim)


def norm_except_dim(v: Tensor, pow: int = 2, dim: int = 0) -> Tensor:
    """Return the norm over all dimensions but one, as ``weight_norm`` uses it."""
    if dim == -1:
        return v.norm(pow)
    return _linalg.vector_norm(v, pow, [d for d in range(v.ndim) if d != dim % v.ndim], True)


def native_layer_norm(
    input: Tensor, normalized_shape: Sequence[int], weight: Tensor | None, bias: Tensor | None, eps: float
) -> tuple[Tensor, ...]:
    """Return ``layer_norm``, the mean, and the reciprocal standard deviation."""
    dims = list(range(-len(normalized_shape), 0))
    mean, variance = input.mean(dims, True), input.var(dims, correction=0, keepdim=True)
    return F.layer_norm(input, normalized_shape, weight, bias, eps), mean, (variance + eps).rsqrt()


def native_group_norm(
    input: Tensor, weight: Tensor | None, bias: Tensor | None, N: int, C: int, HxW: int, group: int, eps: float
) -> tuple[Tensor, ...]:
    """Return ``group_norm``, the mean, and the reciprocal standard deviation."""
    grouped = input.reshape(N, group, -1)
    mean, variance = grouped.mean(-1), grouped.var(-1, correction=0)
    return F.group_norm(input, group, weight, bias, eps), mean, (variance + eps).rsqrt()


def native_dropout(input: Tensor, p: float, train: bool | None) -> tuple[Tensor, Tensor]:
    """Return ``dropout``, and the mask of the remaining elements."""
    if not train:
        return input.clone(), _ops.ones_like(input, dtype=np.bool_)
    mask = _ops.rand_like(input) >= p
    return input * mask * (1 / (1 - p) if p < 1 else 0.0), mask


def grid_sampler(input: Tensor, grid: Tensor, interpolation_mode: int, padding_mode: int, align: bool) -> Tensor:
    """Return ``grid_sample``, with modes given as numbers."""
    mode, padding = ("bilinear", "nearest", "bicubic")[interpolation_mode], ("zeros", "border", "reflection")
    return F.grid_sample(input, grid, mode, padding[padding_mode], align)


grid_sampler_2d = grid_sampler_3d = grid_sampler


def affine_grid_generator(theta: Tensor, size: Sequence[int], align_corners: bool) -> Tensor:
    """Return ``affine_grid(theta, size, align_corners)``."""
    return F.affine_grid(theta, list(size), align_corners)


def convolution(
    input: Tensor,
    weight: Tensor,
    bias: object,
    stride: object,
    padding: object,
    dilation: object,
    transposed: bool,
    output_padding: object,
    groups: int,
) -> Tensor:
    """Return the convolution, or transposed convolution, that fits the dimensions of the weight."""
    axes = weight.ndim - 2
    if transposed:
        function = getattr(F, f"conv_transpose{axes}d")
        return function(input, weight, bias, stride, padding, output_padding, groups, dilation)
    return getattr(F, f"conv{axes}d")(input, weight, bias, stride, padding, dilation, groups)


def feature_dropout(input: Tensor, p: float, train: bool) -> Tensor:
    """Drop whole channels: ``dropout2d`` for any number of dimensions."""
    if not train:
        return input
    mask = _ops.rand(*input.shape[:2], *(1,) * (input.ndim - 2), dtype=input.dtype, device=input.device) >= p
    return input * mask * (1 / (1 - p) if p < 1 else 0.0)


def embedding_renorm_(weight: Tensor, indices: Tensor, max_norm: float, norm_type: float) -> Tensor:
    """Scale the indexed rows in place, so that no norm exceeds ``max_norm``."""
    F.embedding(indices, weight, max_norm=max_norm, norm_type=norm_type)
    return weight


def _removed(name: str, instead: str) -> Callable[..., NoReturn]:
    def function(*args: object, **kwargs: object) -> NoReturn:
        raise RuntimeError(f"torch.{name} is deprecated and was removed; use {instead}")

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Raise an error: PyTorch removed this function; use ``{instead}``."
    return function


_REMOVED = {"eig": "eig", "lstsq": "lstsq", "matrix_rank": "matrix_rank", "solve": "solve", "symeig": "eigh"}


def sym_int(a: float) -> int:
    """Return the number as an int. Shapes are always numbers, never symbols."""
    return math.floor(a) if a >= 0 else math.ceil(a)


def sym_float(a: float) -> float:
    """Return the number as a float."""
    return float(a)


def sym_not(a: object) -> bool:
    """Return ``not a``."""
    return not a


def sym_max(a: float, b: float) -> float:
    """Return the greater number."""
    return max(a, b)


def sym_min(a: float, b: float) -> float:
    """Return the smaller number."""
    return min(a, b)


def sym_ite(b: object, t: Value, f: Value) -> Value:
    """Return ``t if b else f``."""
    return t if b else f


def sym_sum(args: Sequence[float]) -> float:
    """Return the sum of numbers."""
    return sum(args)


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Enable or disable anomaly mode."""
    from ...autograd.anomaly import set_detect_anomaly

    set_detect_anomaly(enabled, check_nan)


def native_channel_shuffle(input: Tensor, groups: int) -> Tensor:
    """Return ``channel_shuffle(input, groups)``."""
    return F.channel_shuffle(input, groups)


def native_batch_norm(
    input: Tensor,
    weight: Tensor | None,
    bias: Tensor | None,
    mean: Tensor | None,
    var: Tensor | None,
    training: bool,
    momentum: float,
    eps: float,
) -> tuple[Tensor, ...]:
    """Return ``batch_norm``, and the mean and reciprocal standard deviation of the batch."""
    out = F.batch_norm(input, mean, var, weight, bias, training, momentum, eps)
    if not training:
        return out, input.new_empty(0), input.new_empty(0)
    dims = [0, *range(2, input.ndim)]
    return out, input.mean(dims), (input.var(dims, correction=0) + eps).rsqrt()


_always = [False]


def set_warn_always(b: bool) -> None:
    """Show every warning, not only the first one from each line of code."""
    _always[0] = bool(b)
    if b:
        warnings.simplefilter("always", UserWarning)


def is_warn_always_enabled() -> bool:
    """Return the last value of ``set_warn_always``."""
    return _always[0]


def is_anomaly_check_nan_enabled() -> bool:
    """Return whether anomaly mode is enabled. Anomaly mode always checks for NaN."""
    return modes.anomaly is not None


def is_inference(input: Tensor) -> bool:
    """Return False: Tensors are not marked in inference mode, conjugated lazily, or distributed."""
    return False


is_conj = is_neg = is_distributed = is_inference


def resolve_conj(input: Tensor) -> Tensor:
    """Return the Tensor: conjugates are computed at once."""
    return input


resolve_neg = resolve_conj


def resize_as_(input: Tensor, the_template: Tensor) -> Tensor:
    """Give the Tensor the size of another, in place."""
    return input.resize_as_(the_template)  # type: ignore[attr-defined]


def _in_place(name: str, function: Callable[..., Tensor] | None = None) -> Callable[..., Tensor]:
    """Return the in-place form of an operator: the Tensor's method, or a copy of the function's result."""

    def write(input: Tensor, *args: object, **kwargs: object) -> Tensor:
        if function is not None and not hasattr(input, f"{name}_"):
            return input.copy_(function(input, *args, **kwargs))
        return getattr(input, f"{name}_")(*args, **kwargs)

    write.__name__ = write.__qualname__ = f"{name}_"
    write.__doc__ = f"In-place form of ``{name}``: writes the result to ``input`` and returns it."
    return write


def _with_indices(name: str) -> Callable[..., tuple[Tensor, Tensor]]:
    """Return a max pooling that also returns the indices of the maxima."""
    pooling = getattr(F, name)

    def function(*args: object, **kwargs: object) -> tuple[Tensor, Tensor]:
        return pooling(*args, **{**kwargs, "return_indices": True})

    function.__name__ = function.__qualname__ = f"{name}_with_indices"
    function.__doc__ = f"Return ``{name}`` and the indices of the maxima."
    return function


_POOLINGS = [f"{kind}max_pool{axes}d" for kind in ("", "adaptive_") for axes in (1, 2, 3)]
_FUNCTIONAL: dict[str, object] = {
    **{f"{name}_": _in_place(name) for name in _IN_PLACE.split()},
    **{f"{name}_with_indices": _with_indices(name) for name in _POOLINGS},
    **{name: getattr(F, name, None) or getattr(_ops, name) for name in _IN_BOTH.split()},
    **{
        function.__name__: function
        for function in (
            _softmax_backward_data, chain_matmul, from_dlpack, frombuffer, get_device, is_nonzero, is_same_size,
            is_signed, to_dlpack, vander,
        )
    },
}  # fmt: skip


def _not_in_functional() -> dict[str, object]:
    names = """
        Event OutOfMemoryError Stream affine_grid_generator binomial convolution
        embedding_renorm_ empty_permuted empty_strided feature_dropout frobenius_norm
        grid_sampler grid_sampler_2d grid_sampler_3d is_anomaly_check_nan_enabled is_conj is_distributed is_inference
        is_neg is_warn_always_enabled native_batch_norm native_channel_shuffle native_dropout native_group_norm
        native_layer_norm norm_except_dim nuclear_norm resize_as_ resolve_conj resolve_neg set_anomaly_enabled
        set_warn_always sym_float sym_int sym_ite sym_max sym_min sym_not sym_sum vmap
    """
    return {
        **{name: globals()[name] for name in names.split()},
        **{name: _removed(name, f"torch.linalg.{instead}") for name, instead in _REMOVED.items()},
        **{
            f"{name}_": _in_place(name, getattr(F, name, None) or getattr(_ops, name, None) or globals()[name])
            for name in _NO_METHOD.split()
        },
    }


# ``cond`` and ``_higher_order_ops``: PyTorch's calls of the loops and branches in ``func``

Result = TypeVar("Result")


def cond(
    pred: bool | int | float | Tensor,
    true_fn: Callable[..., Result],
    false_fn: Callable[..., Result],
    operands: Sequence[object] = (),
) -> Result:
    """Return ``true_fn(*operands)`` or ``false_fn(*operands)``, as ``func.cond``.

    Args:
        pred: a bool, or a Tensor with one element.
        true_fn, false_fn: take the operands.
        operands: a tuple or list of nests of Tensors.

    Raises:
        RuntimeError: ``operands`` is neither a tuple nor a list.
    """
    if not isinstance(operands, (tuple, list)):
        raise RuntimeError(f"cond: operands must be a tuple or list of Tensors, got {type(operands).__name__}")
    return _cond(pred, true_fn, false_fn, *operands)


def while_loop(
    cond_fn: Callable[..., object], body_fn: Callable[..., object], carried_inputs: Sequence[object]
) -> tuple[object, ...]:
    """Run ``values = body_fn(*values)`` while ``cond_fn(*values)`` is true, as ``func.while_loop``.

    Args:
        cond_fn, body_fn: take the values; ``body_fn`` returns a tuple of the new values.
        carried_inputs: a tuple or list of the initial values.

    Raises:
        RuntimeError: ``carried_inputs`` is neither a tuple nor a list.
    """
    if not isinstance(carried_inputs, (tuple, list)):
        raise RuntimeError(f"while_loop: carried_inputs must be a tuple or list, got {type(carried_inputs).__name__}")

    def body(values: tuple[object, ...]) -> tuple[object, ...]:
        following = body_fn(*values)
        return tuple(following) if isinstance(following, (tuple, list)) else (following,)

    return _while_loop(lambda values: cond_fn(*values), body, tuple(carried_inputs))


def scan(
    combine_fn: Callable[[Any, Any], tuple[object, object]],
    init: object,
    xs: object,
    *,
    dim: int = 0,
    reverse: bool = False,
) -> tuple[Any, Any]:
    """Run ``carry, y = combine_fn(carry, x)`` for the slices of ``xs`` along ``dim``, as ``func.scan``.

    Args:
        combine_fn, init, xs, reverse: as for ``func.scan``.
        dim: the dimension that is sliced, and along which results are stacked.
    """
    if dim:
        xs = mapped(lambda x: x.movedim(dim, 0), xs)
    carry, ys = _scan(combine_fn, init, xs, reverse=reverse)
    return carry, mapped(lambda y: y.movedim(0, dim), ys) if dim else ys


def associative_scan(
    combine_fn: Callable[[Any, Any], object],
    xs: object,
    dim: int,
    reverse: bool = False,
    combine_mode: str = "pointwise",
) -> Any:
    """Return the results of combining the first ``1, 2, ..., n`` slices along ``dim``, as ``func.associative_scan``.

    Args:
        combine_fn, reverse: as for ``func.associative_scan``.
        xs: a nest of Tensors.
        dim: the dimension along which slices are combined.
        combine_mode: accepted for compatibility.
    """
    return _associative_scan(combine_fn, xs, reverse, dim)


def map(f: Callable[..., object], xs: object, *args: object) -> Any:
    """Return the stacked results of ``f(x, *args)`` for the slices of ``xs`` along the first dimension."""
    return _map(lambda x: f(x, *args), xs)


NAMES: Mapping[str, str | Mapping[str, object]] = {
    "nn.functional": _FUNCTIONAL,
    "retrograd": {**_not_in_functional(), **_FUNCTIONAL, "cond": cond},
    "_higher_order_ops": "associative_scan cond map scan while_loop",
}
