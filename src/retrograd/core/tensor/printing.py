"""The repr of Tensors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from ..arrays.devices import Device, backend_of
from ..arrays.dtypes import bool_, get_default_dtype, int64
from ..arrays.public_dtypes import dtype
from ..graph.nodes import Node

# Functions from a Tensor to a further part of its repr, or None; forward mode adds ``tangent=...``.
details: list[Callable[[Any], str | None]] = []

# Options of np.array2string, set by ``set_printoptions``.
print_options: dict[str, Any] = {"precision": 4, "threshold": 1000, "edgeitems": 3}


class Printable(Protocol):
    """The attributes of a Tensor that its repr reads."""

    array: Any
    _requires: bool
    _node: Node | None

    @property
    def device(self) -> Device:
        """The array's device."""


def tensor_repr(x: Printable) -> str:
    """Return ``tensor([...])`` with dtype, device, shape and history where the elements do not imply them."""
    meta = x.device.type == "meta"
    array = x.array if meta else backend_of(x.array).to_numpy(x.array)
    name = "tensor" if type(x).__module__.startswith("retrograd.core") else type(x).__name__
    shown = array.astype(np.float32) if array.dtype.kind == "V" else array
    with np.printoptions():  # without arguments, removes the formatters that a program has set for NumPy's arrays
        parts = ["..." if meta else np.array2string(shown, separator=", ", prefix=f"{name}(", **print_options)]
    if meta:
        parts.append("device='meta'")
    if array.size == 0 and array.shape != (0,) or meta:
        parts.append(f"size={tuple(array.shape)}")
    known = (get_default_dtype(),) if meta else (get_default_dtype(), int64, bool_)
    if array.dtype not in known or array.size == 0 and array.dtype != get_default_dtype():
        parts.append(f"dtype={'torch.' if dtype.package == 'torch' else ''}{array.dtype}")
    if x.device.type not in ("cpu", "meta"):
        parts.append(f"device='{x.device}'")
    if x._node is not None:
        parts.append(f"grad_fn=<{x._node.operator}>")
    elif x._requires:
        parts.append("requires_grad=True")
    parts += [text for show in details if (text := show(x)) is not None]
    return f"{name}({', '.join(parts)})"
