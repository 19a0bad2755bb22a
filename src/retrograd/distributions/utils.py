"""Helpers of the families: broadcasting of parameters, conversion of probabilities and logits, triangular matrices."""

from __future__ import annotations

from collections.abc import Callable
from math import sqrt
from typing import TYPE_CHECKING, Any, Final, Generic, TypeVar, overload

import numpy as np

from .._generated.toplevel import arange, as_tensor, sigmoid, softmax, tensor, where
from ..core.arrays.devices import is_array
from ..core.arrays.dtypes import limits
from ..core.graph.modes import recording
from ..core.graph.primitive import operand
from ..core.missing_names import legacy_names
from ..core.tensor.tensor import Size, Tensor

euler_constant: Final = 0.57721566490153286060

Number = bool | int | float

Value = TypeVar("Value")


def is_number(value: object) -> bool:
    """Return whether the value is a Python or NumPy number, which takes the dtype of other operands."""
    return isinstance(value, (bool, int, float, np.number))


def broadcast_all(*values: Tensor | Number) -> tuple[Tensor, ...]:
    """Broadcast values to Tensors of one shape; numbers take the dtype and device of the first Tensor.

    Raises:
        ValueError: a value is neither a Tensor, nor an array, nor a number.
        RuntimeError: the shapes do not broadcast.

    >>> rg.distributions.utils.broadcast_all(0.5, rg.ones(2))
    (tensor([0.5, 0.5]), tensor([1., 1.]))
    """
    for value in values:
        if not isinstance(value, Tensor) and not is_array(value) and not is_number(value):
            raise ValueError(f"parameters must be Tensors, arrays or numbers, got {type(value).__name__}")
    first = next((as_tensor(value) for value in values if not is_number(value)), None)
    # If all Tensors have integer dtypes, numbers become floats: 0.5 must not be truncated to 0.
    like = tensor(0.0) if first is None or not first.is_floating_point() else first
    tensors = [
        tensor(value, dtype=like.dtype, device=like.device) if is_number(value) else as_tensor(value)
        for value in values
    ]
    shape = broadcast_shapes(*[x.shape for x in tensors])
    # A Tensor that already has the shape is returned as it is: expand would record a node, which backward frees.
    return tuple([x if x.shape == shape else x.expand(shape) for x in tensors])


def parameter_text(value: object) -> str:
    """Return the text of a parameter in a repr; a 0-d Tensor is shown as a number."""
    return str(value.item() if isinstance(value, Tensor) and value.dim() == 0 else value)


def broadcast_shapes(*shapes: tuple[int, ...]) -> Size:
    """Return the shape to which the shapes broadcast; raise RuntimeError if they do not broadcast."""
    try:
        return Size(np.broadcast_shapes(*shapes))
    except ValueError:
        raise RuntimeError(f"shapes {', '.join(map(str, shapes))} do not broadcast") from None


def sum_rightmost(value: Tensor, dims: int) -> Tensor:
    """Return the sum over the last ``dims`` dimensions."""
    return value.sum(tuple(range(-dims, 0))) if dims else value


def eps_of(x: Tensor) -> float:
    """Return the machine epsilon of the dtype."""
    return limits(x.dtype).eps


def tiny_of(x: Tensor) -> float:
    """Return the smallest positive normal number of the dtype."""
    return limits(x.dtype).tiny


def max_of(x: Tensor) -> float:
    """Return the largest finite number of the dtype."""
    return limits(x.dtype).max


def clamp_probs(probs: Tensor) -> Tensor:
    """Clamp probabilities to ``[eps, 1 - eps]``, where eps is the machine epsilon."""
    eps = eps_of(probs)
    return probs.clamp(min=eps, max=1 - eps)


def logits_to_probs(logits: Tensor, is_binary: bool = False) -> Tensor:
    """Convert logits to probabilities: log-odds if binary, else log-probabilities along the last dimension."""
    return sigmoid(logits) if is_binary else softmax(logits, dim=-1)


def probs_to_logits(probs: Tensor, is_binary: bool = False) -> Tensor:
    """Convert probabilities, clamped so that results are finite, to log-odds if binary, else to log-probabilities."""
    clamped = clamp_probs(probs)
    return clamped.log() - (-clamped).log1p() if is_binary else clamped.log()


def choose(condition: Tensor, x: Tensor | Number, y: Tensor | Number) -> Tensor:
    """Return ``where(condition, x, y)``; a number takes the dtype of the other value."""
    like = x if isinstance(x, Tensor) else operand(y)
    x, y = (tensor(v, dtype=like.dtype, device=like.device) if is_number(v) else v for v in (x, y))
    return where(condition, x, y)


class lazy_property(Generic[Value]):
    """A property that is computed on first access and cached in the instance's dictionary.

    The computation is recorded even inside ``no_grad``, since a later access may need gradients.
    """

    def __init__(self, compute: Callable[[Any], Value]) -> None:
        self.compute = compute
        self.name = compute.__name__
        self.__doc__ = compute.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> lazy_property[Value]: ...

    @overload
    def __get__(self, instance: object, owner: type | None = None) -> Value: ...

    def __get__(self, instance: object | None, owner: type | None = None) -> Value | lazy_property[Value]:
        if instance is None:
            return self
        with recording(True):
            value = self.compute(instance)
        instance.__dict__[self.name] = value
        return value


def _below(n: int, diag: int, like: Tensor) -> Tensor:
    """Return an n x n mask that is True up to diagonal ``diag``."""
    index = arange(n, device=like.device)
    return index < index.unsqueeze(-1) + (diag + 1)


def tril_matrix_to_vec(mat: Tensor, diag: int = 0) -> Tensor:
    """Return the lower triangle of square matrices, up to diagonal ``diag``, as vectors, row by row.

    Raises:
        ValueError: the matrix has no such diagonal.

    >>> rg.distributions.utils.tril_matrix_to_vec(rg.tensor([[1, 2], [3, 4]]))
    tensor([1, 3, 4])
    """
    n = mat.shape[-1]
    if not -n <= diag < n:
        raise ValueError(f"tril_matrix_to_vec: diag ({diag}) is outside [{-n}, {n - 1}]")
    return mat[..., _below(n, diag, mat)]


def vec_to_tril_matrix(vec: Tensor, diag: int = 0) -> Tensor:
    """Return square matrices with the vectors as lower triangle, else 0: the inverse of ``tril_matrix_to_vec``.

    Raises:
        ValueError: no triangle has this number of elements.

    >>> rg.distributions.utils.vec_to_tril_matrix(rg.tensor([1, 3, 4]))
    tensor([[1, 0],
            [3, 4]])
    """
    length = vec.shape[-1]
    # The positive root of n^2 + (1 + 2 diag) n - |diag| (diag + 1) - 2 length = 0.
    side = (sqrt((1 + 2 * diag) ** 2 + 8 * length + 4 * abs(diag) * (diag + 1)) - (1 + 2 * diag)) / 2
    n = round(side)
    if abs(side - n) > 1e-9:
        raise ValueError(f"vec_to_tril_matrix: no lower triangle of a square matrix has {length} elements")
    matrices = vec.new_zeros((*vec.shape[:-1], n, n))
    matrices[..., _below(n, diag, vec)] = vec
    return matrices


# Sentences that docstrings of distributions and transforms share, and the errors that an argument raises.
ARGUMENTS = {
    "validate_args": "whether to check the parameters and the values.",
    "cache_size": "the size of the cache, 0 or 1.",
    "logits": "its log-odds.",
    "scale": "positive.",
}
ERRORS = {
    "logits": "ValueError: not exactly one of probs and logits is passed, or a value is invalid.",
    "validate_args": "ValueError: a parameter is invalid.",
}

if not TYPE_CHECKING:
    __getattr__ = legacy_names(__name__)  # private names of PyTorch
