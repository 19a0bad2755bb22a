"""The table of ONNX operators: functions of a node's attributes and its input Tensors."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.arrays.bfloat16 import bfloat16
from ..core.tensor.tensor import Tensor, new_tensor

Operator = Callable[..., Any]

MAX_ELEMENTS = 2**30  # maximum elements of a result whose size the file states: 4 GiB of float32

# Supported operators by name
OPERATORS: dict[str, Operator] = {}

# Inputs, by operator and position, that are settings and never trained
SETTINGS: dict[str, set[int]] = {
    "BatchNormalization": {3, 4}, "Resize": {1, 2}, "Clip": {1, 2}, "Pow": {1}, "Pad": {1}, "Dropout": {1},
    "Range": {0, 1, 2}, "LSTM": {4}, "GRU": {4}, "RNN": {4}, "OneHot": {2},
}  # fmt: skip

# Dtypes by ONNX's numbers
DTYPES: dict[int, str] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
}  # fmt: skip


def dtype_of(code: int) -> np.dtype:
    """Return the dtype with this number in ONNX; raise TypeError if the dtype is not supported."""
    name = DTYPES.get(code)
    if name is None:
        import onnx

        names = {value: key for key, value in onnx.TensorProto.DataType.items()}
        raise TypeError(f"the dtype {names.get(code, code)} is not supported")
    return bfloat16() if name == "bfloat16" else np.dtype(name)


def array_of(proto: Any) -> np.ndarray:
    import onnx.numpy_helper

    dtype = dtype_of(proto.data_type)
    return np.asarray(onnx.numpy_helper.to_array(proto)).astype(dtype, copy=False)


class Attributes:
    """The attributes of a node, and the version of the operators."""

    def __init__(self, node: Any, version: int, dtypes: dict[np.dtype, np.dtype]) -> None:
        self.type, self.name, self.version = node.op_type, node.name, version
        self.outputs = len(node.output)
        self.wanted = [bool(name) for name in node.output]
        self._dtypes = dtypes
        self._values = {attribute.name: _value(attribute) for attribute in node.attribute}

    def __call__(self, name: str, default: object = None) -> Any:
        return self._values.get(name, default)

    def set_default(self, name: str, value: object) -> None:
        """Set the value of an attribute that the node omits."""
        self._values.setdefault(name, value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def dtype(self, name: str, default: int = 1) -> np.dtype:
        """Return the dtype in an attribute; after ``module.double()`` float64 for the file's float dtypes."""
        return self.actual(dtype_of(self(name, default)))

    def actual(self, dtype: np.dtype) -> np.dtype:
        """Return the dtype to compute with for a dtype of the file."""
        return self._dtypes.get(dtype, dtype)


def _value(attribute: Any) -> Any:
    kind = attribute.type
    if kind == 1:
        return float(attribute.f)
    if kind == 2:
        return int(attribute.i)
    if kind == 3:
        return attribute.s.decode()
    if kind == 4:
        return array_of(attribute.t)
    if kind == 6:
        return [float(value) for value in attribute.floats]
    if kind == 7:
        return [int(value) for value in attribute.ints]
    if kind == 8:
        return [value.decode() for value in attribute.strings]
    return attribute.g if kind == 5 else None


def operator(*names: str) -> Callable[[Operator], Operator]:
    """Register a function ``f(attributes, *inputs)`` under ONNX operator names."""

    def register(function: Operator) -> Operator:
        for name in names:
            assert name not in OPERATORS, name
            OPERATORS[name] = function
        return function

    return register


def checked_shape(operator: str, shape: Sequence[float]) -> list[int]:
    """Check the size of a result whose shape the file specifies, and return its shape.

    Raises:
        ValueError: the result would have more than ``MAX_ELEMENTS`` elements.
    """
    if math.prod(max(length, 0) for length in shape) > MAX_ELEMENTS:
        raise ValueError(f"{operator}: the result must have at most {MAX_ELEMENTS} elements, got shape {tuple(shape)}")
    return [int(length) for length in shape]


def plain(function: Callable[..., Any]) -> Operator:
    """Return an operator for a function of Tensors that has no attributes."""
    return lambda at, *inputs: function(*inputs)


def ints(x: Tensor | None) -> list[int]:
    """Return a Tensor of integers as a list; an empty list if the Tensor is absent."""
    return [] if x is None else [int(value) for value in np.asarray(x.detach().cpu().numpy()).reshape(-1)]


def constant(values: Any, dtype: Any, like: Tensor | None = None) -> Tensor:
    """Return a Tensor on the device of ``like``."""
    x = new_tensor(np.asarray(values).astype(dtype))
    return x if like is None else x.to(device=like.device)
