"""Operators of ``nn.functional`` that PyTorch has at its top level, too, and the reverse; in-place names of both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .._generated import functional as _functional
from .._generated import toplevel as _toplevel
from ..core.tensor.tensor import Tensor
from ..ops.make.dlpack import from_dlpack as from_dlpack
from ..ops.make.dlpack import to_dlpack as to_dlpack


def _inplace(name: str) -> Callable[..., Any]:
    method = name + "_"

    def function(input: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        return getattr(input, method)(*args, **kwargs)

    function.__name__ = function.__qualname__ = method
    function.__doc__ = f"In-place form of ``{name}``: the result replaces the values of ``input``, which is returned."
    return function


# In-place forms that PyTorch has as functions, and the operators that it has in both places.
_INPLACE = [
    "abs",
    "acos",
    "acosh",
    "addmv",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctanh",
    "asin",
    "asinh",
    "atan",
    "atanh",
    "ceil",
    "clamp",
    "clamp_max",
    "clamp_min",
    "clip",
    "cos",
    "cosh",
    "deg2rad",
    "detach",
    "erf",
    "erfc",
    "exp",
    "exp2",
    "expm1",
    "fill",
    "fix",
    "floor",
    "frac",
    "i0",
    "index_put",
    "ldexp",
    "log",
    "log10",
    "log1p",
    "log2",
    "logit",
    "nan_to_num",
    "neg",
    "negative",
    "rad2deg",
    "reciprocal",
    "relu",
    "round",
    "rsqrt",
    "sigmoid",
    "sin",
    "sinc",
    "sinh",
    "sqrt",
    "square",
    "tan",
    "tanh",
    "trunc",
    "xlogy",
    "zero",
]
_BOTH = [
    "conv_tbc",
    "adaptive_avg_pool1d",
    "adaptive_max_pool1d",
    "alpha_dropout",
    "avg_pool1d",
    "batch_norm",
    "bilinear",
    "binary_cross_entropy_with_logits",
    "celu",
    "channel_shuffle",
    "conv1d",
    "conv2d",
    "conv3d",
    "conv_transpose1d",
    "conv_transpose2d",
    "conv_transpose3d",
    "cosine_embedding_loss",
    "cosine_similarity",
    "ctc_loss",
    "dropout",
    "embedding",
    "embedding_bag",
    "feature_alpha_dropout",
    "group_norm",
    "hinge_embedding_loss",
    "instance_norm",
    "kl_div",
    "layer_norm",
    "margin_ranking_loss",
    "max_pool1d",
    "max_pool2d",
    "max_pool3d",
    "pairwise_distance",
    "pdist",
    "pixel_shuffle",
    "pixel_unshuffle",
    "poisson_nll_loss",
    "prelu",
    "rms_norm",
    "rrelu",
    "selu",
    "softmax",
    "threshold",
    "triplet_margin_loss",
    "relu",
    "tanh",
    "sigmoid",
    "log_softmax",
]


def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero."""
    return bool(input)


def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have one shape."""
    return input.shape == other.shape


def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers."""
    return input.dtype.kind in "ifc"


def get_device(input: Tensor) -> int:
    """The number of the GPU that holds the Tensor, -1 for the CPU."""
    return -1 if input.device.index is None else input.device.index


def detach_(input: Tensor) -> Tensor:
    """Forget the history of a Tensor."""
    return input.detach_()


def fill_(input: Tensor, value: Any) -> Tensor:
    """Set every element."""
    return input.fill_(value)


def chain_matmul(*matrices: Tensor) -> Tensor:
    """The product of matrices: ``linalg.multi_dot`` is the usual choice."""
    result = matrices[0]
    for matrix in matrices[1:]:
        result = result @ matrix
    return result


def _softmax_backward_data(grad_output: Tensor, output: Tensor, dim: int, input_dtype: Any) -> Tensor:
    """The gradient of ``softmax``'s input, from that of its output: ``output (g - sum(g output))``."""
    product = grad_output * output
    return (product - output * product.sum(dim, keepdim=True)).to(input_dtype)


def vander(x: Tensor, N: int | None = None, increasing: bool = False) -> Tensor:
    """The powers of the elements of a vector, one per column; the highest first unless ``increasing``."""
    if x.ndim != 1:
        raise RuntimeError(f"vander: x must be a one-dimensional Tensor, got {tuple(x.shape)}")
    count = x.shape[0] if N is None else N
    if count < 0:
        raise RuntimeError(f"vander: N must not be negative, got {count}")
    x = x.long() if x.dtype.kind in "biu" else x
    powers = [x ** int(power) for power in range(count)]
    return _toplevel.stack(powers if increasing else powers[::-1], 1) if powers else x.new_empty((len(x), 0))


def frombuffer(buffer: Any, *, dtype: Any, count: int = -1, offset: int = 0, requires_grad: bool = False) -> Tensor:
    """A vector on the memory of a bytes-like object."""
    from ..core.tensor.tensor import new_tensor

    tensor = new_tensor(np.frombuffer(buffer, np.dtype(dtype), count, offset))
    tensor.requires_grad = requires_grad
    return tensor


def _with_indices(name: str) -> Callable[..., Any]:
    plain = getattr(_functional, name)

    def function(*args: Any, **kwargs: Any) -> Any:
        return plain(*args, **{**kwargs, "return_indices": True})

    function.__name__ = function.__qualname__ = name + "_with_indices"
    function.__doc__ = f"``{name}`` with the places of the maxima."
    return function


def _gather() -> list[str]:
    names = []
    for name in _INPLACE:
        if hasattr(Tensor, name + "_") and name + "_" not in globals():
            globals()[name + "_"] = _inplace(name)
            names.append(name + "_")
    for name in [f"{kind}max_pool{axes}d" for kind in ("", "adaptive_") for axes in (1, 2, 3)]:
        globals()[name + "_with_indices"] = _with_indices(name)
        names.append(name + "_with_indices")
    for name in _BOTH:
        present = getattr(_functional, name, None) or getattr(_toplevel, name, None)
        if present is not None:
            globals()[name] = present
            names.append(name)
    return names


__all__ = [
    "_softmax_backward_data", "chain_matmul", "detach_", "fill_", "from_dlpack", "frombuffer", "get_device",
    "is_nonzero", "is_same_size", "is_signed", "to_dlpack", "vander",
]  # fmt: skip
__all__ += _gather()
