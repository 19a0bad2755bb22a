"""Parse and type the arguments of modules."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, TypeAlias

import numpy as np

from ...core.arrays.devices import Device
from ...core.arrays.dtypes import INEXACT
from ...core.tensor.tensor import Tensor
from ...ops.shape.conversion import _as_dtype
from ...ops.table import types

Size: TypeAlias = int | tuple[int, ...]  # one number for all dimensions, or one number per dimension
DeviceLike: TypeAlias = types.DeviceLike | None
DTypeLike: TypeAlias = types.DTypeLike | None


# Sentences that docstrings of modules share.
DESCRIPTIONS = {
    "bias": "whether a bias is added.",
    "device": "the device of the parameters, by default the default device.",
    "dtype": "the dtype of the parameters, by default the default dtype.",
    "ignore_index": "targets of this class do not contribute to the loss.",
    "inplace": "overwrite the input.",
    "out_channels": "the number C' of the output's channels.",
    "reduce": "deprecated form of ``reduction``.",
    "reduction": '``"none"``, ``"mean"`` or ``"sum"``.',
    "return_indices": "also return the positions of the maxima.",
    "size_average": "deprecated form of ``reduction``.",
}


def is_buffer(value: object) -> bool:
    """Return whether a value may be a buffer: a Tensor or a sparse matrix."""
    if isinstance(value, Tensor):
        return True
    from ...ops.linear.sparse.sparse import SparseTensor

    return isinstance(value, SparseTensor)


def ntuple(value: int | Iterable[int], count: int) -> tuple[int, ...]:
    """Return ``value`` repeated, or ``value`` itself if it is a tuple.

    >>> ntuple(3, 2), ntuple((1, 2), 2)
    ((3, 3), (1, 2))
    """
    return tuple(value) if isinstance(value, Iterable) else (value,) * count


def device_and_dtype(*args: Any, **kwargs: Any) -> tuple[Any, np.dtype | None]:
    """Return the device and the dtype, or None, that ``Module.to(device, dtype)`` and its other forms request.

    Each form accepts ``non_blocking`` as its last argument and ``memory_format`` as a keyword. Neither has an effect.

    Raises:
        TypeError: the arguments match no form, or the dtype is neither floating nor complex.
        RuntimeError: ``copy`` is passed.

    >>> device_and_dtype("cpu", np.float64)
    ('cpu', dtype('float64'))
    """
    first = args[0] if args else None
    if isinstance(first, Tensor) or "tensor" in kwargs:
        names = ["tensor", "non_blocking", "copy"]
    elif first is None or isinstance(first, (str, int, Device)):
        names = ["device", "dtype", "non_blocking", "copy"]
    else:
        names = ["dtype", "non_blocking", "copy"]
    given = {**dict(zip(names, args, strict=False)), **kwargs}
    if (
        len(given) != len(args) + len(kwargs)
        or given.keys() - {*names, "memory_format"}
        or not isinstance(given.get("non_blocking", False), bool)
    ):
        raise TypeError(
            "Module.to: expected (device, dtype, non_blocking), (dtype, non_blocking) or (tensor, non_blocking), got "
            + ", ".join([*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())])
        )
    if "copy" in given:
        raise RuntimeError("Module.to: copy is not supported; use copy.deepcopy")
    other = given.get("tensor")
    device, dtype = given.get("device"), given.get("dtype")
    if other is not None:
        device, dtype = other.device, other.dtype
    if dtype is not None:
        dtype = _as_dtype(dtype)
        if dtype.kind not in INEXACT:
            raise TypeError(f"Module.to: the dtype must be floating or complex, got {dtype}")
    return device, dtype
