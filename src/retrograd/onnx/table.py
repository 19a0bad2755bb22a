"""What an operator of ONNX is here: a function of a node's attributes and of the Tensors that it reads."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ..core.arrays.bfloat16 import bfloat16
from ..core.tensor.tensor import Tensor, new_tensor

Operator = Callable[..., Any]

MOST_ELEMENTS = 2**30  # of a result whose size is a number in the file: 4 GiB of float32

# By name; what is here is supported.
OPERATORS: dict[str, Operator] = {}

# Inputs, by operator and position, that say how to compute and are never trained.
SETTINGS: dict[str, set[int]] = {
    "BatchNormalization": {3, 4}, "Resize": {1, 2}, "Clip": {1, 2}, "Pow": {1}, "Pad": {1}, "Dropout": {1},
    "Range": {0, 1, 2}, "LSTM": {4}, "GRU": {4}, "RNN": {4}, "OneHot": {2},
}  # fmt: skip

# The dtypes by their number in ONNX.
DTYPES: dict[int, str] = {
    1: "float32", 2: "uint8", 3: "int8", 4: "uint16", 5: "int16", 6: "int32", 7: "int64", 9: "bool", 10: "float16",
    11: "float64", 12: "uint32", 13: "uint64", 14: "complex64", 15: "complex128", 16: "bfloat16",
}  # fmt: skip


def dtype_of(code: int) -> np.dtype:
    """The dtype with a number of ONNX's; TypeError for one that is not computed with here."""
    name = DTYPES.get(code)
    if name is None:
        import onnx

        names = {value: key for key, value in onnx.TensorProto.DataType.items()}
        raise TypeError(f"the dtype {names.get(code, code)} is not supported")
    return bfloat16() if name == "bfloat16" else np.dtype(name)


def array_of(proto: Any) -> np.ndarray:
    """A TensorProto's array."""
    import onnx.numpy_helper

    dtype = dtype_of(proto.data_type)
    return np.asarray(onnx.numpy_helper.to_array(proto)).astype(dtype, copy=False)


class Attributes:
    """A node's attributes, with the version of the operators that the file is written in."""

    def __init__(self, node: Any, version: int, dtypes: dict[np.dtype, np.dtype]) -> None:
        self.type, self.name, self.version = node.op_type, node.name, version
        self.outputs = len(node.output)
        self.wanted = [bool(name) for name in node.output]
        self._dtypes = dtypes
        self._values = {attribute.name: _value(attribute) for attribute in node.attribute}

    def __call__(self, name: str, default: Any = None) -> Any:
        return self._values.get(name, default)

    def set_default(self, name: str, value: object) -> None:
        """What the attribute is where the node does not say."""
        self._values.setdefault(name, value)

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def dtype(self, name: str, default: int = 1) -> np.dtype:
        """The dtype that an attribute says; after ``module.double()`` its double for the file's floats."""
        return self.actual(dtype_of(self(name, default)))

    def actual(self, dtype: np.dtype) -> np.dtype:
        """What is computed with where the file says this dtype."""
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
    """Enter a function ``f(attributes, *inputs)`` under names of ONNX's operators."""

    def enter(function: Operator) -> Operator:
        for name in names:
            assert name not in OPERATORS, name
            OPERATORS[name] = function
        return function

    return enter


def checked_shape(operator: str, shape: Sequence[float]) -> list[int]:
    """The lengths of a result that the file asks for, before it takes the machine's memory.

    Raises:
        ValueError: there would be more than ``MOST_ELEMENTS`` elements.
    """
    if math.prod(max(length, 0) for length in shape) > MOST_ELEMENTS:
        raise ValueError(
            f"{operator}: the file asks for a result of shape {tuple(shape)}, more than {MOST_ELEMENTS} elements"
        )
    return [int(length) for length in shape]


def plain(function: Callable[..., Any]) -> Operator:
    """A function of Tensors alone as an operator."""
    return lambda at, *inputs: function(*inputs)


def ints(x: Tensor | None) -> list[int]:
    """A Tensor of integers as a list; an absent one as none."""
    return [] if x is None else [int(value) for value in np.asarray(x.detach().cpu().numpy()).reshape(-1)]


def constant(values: Any, dtype: Any, like: Tensor | None = None) -> Tensor:
    """A Tensor on the device of another one."""
    x = new_tensor(np.asarray(values).astype(dtype))
    return x if like is None else x.to(device=like.device)
