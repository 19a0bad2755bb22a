"""``overrides``: PyTorch's protocol for tensors of other libraries, which Retrograd has not; NumPy's it has."""

from __future__ import annotations

from typing import Any


def has_torch_function(relevant_args: Any) -> bool:
    """Whether an argument overrides operators by ``__torch_function__``: that is not asked for."""
    return False


has_torch_function_unary = has_torch_function


def has_torch_function_variadic(*args: Any) -> bool:
    """Whether an argument overrides operators by ``__torch_function__``: that is not asked for."""
    return False


def is_tensor_like(inp: Any) -> bool:
    """Whether it is a Tensor."""
    from ..core.tensor.tensor import Tensor

    return isinstance(inp, Tensor)
