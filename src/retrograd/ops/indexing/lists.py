"""A list between brackets: positions, or as PyTorch reads it a tuple."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any
from warnings import warn

from ...core.arrays.devices import is_array
from ...core.tensor.tensor import Tensor

WARNING = (
    "x[[a, b]], a list of lists, Tensors or slices, is read as x[a, b], as PyTorch reads it: write x[a, b]. NumPy "
    "reads one array of positions, and PyTorch will, too: for that write x[torch.tensor([a, b])] or x[np.array([a, b])]"
)


def is_read_as_tuple(index: list[Any]) -> bool:
    """Whether PyTorch takes a list for all that stands between the brackets, and not for positions; then it warns."""
    if len(index) >= 32 or not any(map(_is_no_position, index)):
        return False
    warn(WARNING, UserWarning, stacklevel=5)
    return True


def _is_no_position(item: Any) -> bool:
    return item is None or item is Ellipsis or isinstance(item, (slice, Sequence, Tensor)) or is_array(item)
