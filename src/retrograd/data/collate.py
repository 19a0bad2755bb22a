"""Collate samples into a batch of Tensors."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from ..core.tensor.tensor import Tensor
from ..ops.make.creation import from_numpy
from ..ops.shape.joining import stack
from ..ops.table.documentation import like

CollateMap = dict[Any, Callable[..., Any]]

_NUMBER_KINDS = "biufc"


def default_collate(batch: Sequence[object]) -> Any:
    """Stack samples into a batch, preserving their structure.

    Tensors and NumPy arrays of one shape ``(...)`` become one Tensor of shape ``(len(batch), ...)``; numbers become a
    Tensor of shape ``(len(batch),)``, Python floats in float64; strings and bytes stay as they are; mappings, named
    tuples and sequences are collated field by field, plain tuples into a list. Arrays of different shapes and sequences
    of different lengths raise RuntimeError, anything else TypeError. The rules are the same as in ``torch.utils.data``.

    Args:
        batch: a non-empty sequence of samples of one type.

    >>> from retrograd.data import default_collate
    >>> x, name = default_collate([(np.ones(2), "a"), (np.zeros(2), "b")])
    >>> x.tolist(), name
    ([[1.0, 1.0], [0.0, 0.0]], ('a', 'b'))
    """
    return collate(batch, collate_fn_map=default_collate_fn_map)


@like(default_collate)
def collate(batch: Sequence[Any], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Stack samples into a batch, with functions for the types of the samples.

    Args:
        collate_fn_map: functions by type or tuple of types, called as ``function(batch, collate_fn_map=...)``. An exact
            type precedes the base classes. ``default_collate`` uses ``default_collate_fn_map``, to which a program may
            add its own types. Mappings and sequences are otherwise collated as by ``default_collate``.

    Raises:
        RuntimeError: arrays have different shapes, or sequences different lengths.
        TypeError: no function fits the samples.

    >>> from retrograd.data.collate import collate
    >>> collate([{"a": 1}, {"a": 2}], collate_fn_map={int: lambda batch, *, collate_fn_map: sum(batch)})
    {'a': 3}
    """
    first = batch[0]
    if collate_fn_map is not None:
        function = collate_fn_map.get(type(first))
        if function is None:
            function = next((f for kind, f in collate_fn_map.items() if isinstance(first, kind)), None)
        if function is not None:
            return function(batch, collate_fn_map=collate_fn_map)

    def collate_samples(samples: Sequence[object]) -> Any:
        return collate(samples, collate_fn_map=collate_fn_map)

    if isinstance(first, Mapping):
        return _rebuild(first, {key: collate_samples([sample[key] for sample in batch]) for key in first})
    if isinstance(first, Sequence):
        if any(len(sample) != len(first) for sample in batch):
            raise RuntimeError(
                f"default_collate: samples must have one length, got lengths {[len(sample) for sample in batch]}; "
                "pad them or pass a collate_fn"
            )
        fields = [collate_samples(field) for field in zip(*batch)]
        return fields if type(first) is tuple else _rebuild(first, fields)
    raise _unknown(first)


def collate_tensor_fn(batch: Sequence[Tensor], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Return a batch of Tensors of one shape."""
    _check_shapes([tuple(tensor.shape) for tensor in batch])
    return stack(list(batch))


def collate_numpy_array_fn(batch: Sequence[object], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Return a batch of NumPy arrays or scalars of one shape as a Tensor."""
    arrays = [np.asarray(item) for item in batch]
    if arrays[0].dtype.kind not in _NUMBER_KINDS:
        raise _unknown(batch[0])
    _check_shapes([array.shape for array in arrays])
    return from_numpy(np.stack(arrays))


def collate_number_fn(batch: Sequence[object], *, collate_fn_map: CollateMap | None = None) -> Tensor:
    """Return a batch of Python numbers as a 1-D Tensor."""
    numbers = np.array(batch)
    if numbers.dtype.kind not in _NUMBER_KINDS:
        raise _unknown(batch[0])
    return from_numpy(numbers)


def collate_str_fn(batch: Sequence[object], *, collate_fn_map: CollateMap | None = None) -> Any:
    """Return a batch of strings unchanged."""
    return batch


default_collate_fn_map: CollateMap = {
    Tensor: collate_tensor_fn,
    **dict.fromkeys((str, bytes), collate_str_fn),
    **dict.fromkeys((np.ndarray, np.generic), collate_numpy_array_fn),
    **dict.fromkeys((int, float, complex), collate_number_fn),
}


def _unknown(sample: object) -> TypeError:
    return TypeError(
        f"default_collate: a batch must consist of Tensors, arrays, numbers, strings, mappings or sequences, "
        f"got {_describe(sample)}"
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
    make: Callable[[Any], object] = getattr(type(like), "_make", type(like))
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
