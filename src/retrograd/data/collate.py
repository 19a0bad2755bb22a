"""Collate samples into a batch of Tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.tensor.tensor import Tensor
from ..ops.make.creation import from_numpy
from ..ops.shape.joining import stack

_NUMBER_KINDS = "biufc"


def default_collate(batch: Sequence[Any]) -> Any:
    """Stack samples into a batch, preserving their structure.

    Tensors and NumPy arrays of one shape ``(...)`` become one Tensor of shape ``(len(batch), ...)``; numbers become a
    Tensor of shape ``(len(batch),)``, Python floats in float64; strings and bytes stay as they are; mappings, named
    tuples and sequences are collated field by field, plain tuples into a list. Arrays of different shapes and sequences
    of different lengths raise RuntimeError, anything else TypeError. The rules are those of ``torch.utils.data``.

    Args:
        batch: a non-empty sequence of samples of one type.

    >>> from retrograd.data import default_collate
    >>> x, name = default_collate([(np.ones(2), "a"), (np.zeros(2), "b")])
    >>> x.tolist(), name
    ([[1.0, 1.0], [0.0, 0.0]], ('a', 'b'))
    """
    first = batch[0]
    if isinstance(first, Tensor):
        _check_shapes([tuple(tensor.shape) for tensor in batch])
        return stack(list(batch))
    if isinstance(first, (np.ndarray, np.generic)):
        arrays = [np.asarray(item) for item in batch]
        if arrays[0].dtype.kind in _NUMBER_KINDS:
            _check_shapes([array.shape for array in arrays])
            return from_numpy(np.stack(arrays))
    elif isinstance(first, (int, float, complex)):
        numbers = np.array(batch)
        if numbers.dtype.kind in _NUMBER_KINDS:
            return from_numpy(numbers)
    elif isinstance(first, (str, bytes)):
        return batch
    elif isinstance(first, Mapping):
        return _rebuild(first, {key: default_collate([sample[key] for sample in batch]) for key in first})
    elif isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError(
                f"default_collate: samples must have one length, got lengths {[len(sample) for sample in batch]}; "
                "pad them or pass a collate_fn"
            )
        fields = [default_collate(field) for field in zip(*batch)]
        return fields if type(first) is tuple else _rebuild(first, fields)
    raise TypeError(
        f"default_collate: a batch must consist of Tensors, arrays, numbers, strings, mappings or sequences, "
        f"got {_describe(first)}"
    )


def default_convert(data: object) -> Any:
    """Convert the NumPy arrays and numbers inside ``data`` to Tensors and leave everything else unchanged.

    Args:
        data: a sample: an array, a number, or mappings and sequences of these.

    >>> from retrograd.data import default_convert
    >>> default_convert({"x": np.ones(2, np.float32), "name": "a"})
    {'x': tensor([1., 1.]), 'name': 'a'}
    """
    if isinstance(data, (np.ndarray, np.generic)):
        return from_numpy(np.asarray(data)) if data.dtype.kind in _NUMBER_KINDS else data
    if isinstance(data, Mapping):
        return _rebuild(data, {key: default_convert(value) for key, value in data.items()})
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes)):
        items = [default_convert(item) for item in data]
        return items if type(data) is tuple else _rebuild(data, items)
    return data


def _rebuild(like: object, content: object) -> Any:
    """Return ``content`` in a container of the type of ``like``, or unchanged if that type cannot be constructed."""
    make: Callable[[Any], Any] = getattr(type(like), "_make", type(like))
    try:
        return make(content)
    except TypeError:
        return content


def _check_shapes(shapes: list[tuple[int, ...]]) -> None:
    for i, shape in enumerate(shapes):
        if shape != shapes[0]:
            raise RuntimeError(
                f"default_collate: samples must have one shape, got {shapes[0]} at entry 0 and {shape} at entry {i}; "
                "pad them or pass a collate_fn"
            )


def _describe(value: object) -> str:
    dtype = getattr(value, "dtype", None)
    return type(value).__name__ if dtype is None else f"{type(value).__name__} of dtype {dtype}"
