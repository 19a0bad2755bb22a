"""``load``: read an ONNX file as a Module."""

from __future__ import annotations

import os
from collections import ChainMap
from typing import Any

import numpy as np

from .. import nn
from ..core.errors import describe
from ..core.graph.primitive import operand
from ..core.tensor.tensor import Tensor, new_tensor
from ..files import open_regular
from .graph import CONTROL, ITERATIONS, Graph, UnsupportedError, check_functions, check_names, nodes_of
from .table import OPERATORS, dtype_of

__all__ = ["ONNXModule", "UnsupportedError", "load"]

OLDEST = 11


class _Numbers(nn.Module):
    """A submodule for the weights under one component of their dotted names."""


class ONNXModule(nn.Module):
    """A Module that executes an ONNX graph; call it with the graph's inputs, in order or by name.

    The result is the output, or a tuple of several outputs. Weights are Parameters under their names in the file, so
    the graph is differentiable and can be trained further. ``load`` creates instances.

    A call raises TypeError for invalid inputs. An error in a node names the node; its type is the operator's TypeError,
    ValueError or IndexError, else RuntimeError. RuntimeError is also raised when loops exceed 2^16 iterations.

    Attributes:
        input_names, output_names: the names of the graph's inputs and outputs.
        opset_version: the version of the ONNX operators.
    """

    def __init__(self, proto: Any) -> None:
        super().__init__()
        versions = {entry.domain: entry.version for entry in proto.opset_import}
        self.opset_version: int = versions.get("", versions.get("ai.onnx", 0))
        self._check(proto)
        self._dtypes: dict[object, object] = {}
        self._owners: dict[str, tuple[nn.Module, str]] = {}
        self._floating: np.dtype | None = None
        self.graph = Graph(proto.graph, self.opset_version, self._dtypes, self._enter)
        self.input_names, self.output_names = list(self.graph.inputs), list(self.graph.outputs)
        self._wanted = {value.name: _type_of(value) for value in proto.graph.input}

    def _check(self, proto: Any) -> None:
        check_names(proto.graph)
        if self.opset_version < OLDEST:
            raise UnsupportedError(f"opset {self.opset_version} is not supported; it must be {OLDEST} or later")
        unknown = {
            f"{node.domain}.{node.op_type}" if node.domain not in ("", "ai.onnx") else node.op_type
            for node in nodes_of(proto.graph)
            if node.domain not in ("", "ai.onnx") or node.op_type not in OPERATORS and node.op_type not in CONTROL
        }
        if unknown:
            kind = "operator" if len(unknown) == 1 else "operators"
            raise UnsupportedError(f"the {kind} {', '.join(sorted(unknown))} of ONNX cannot be loaded")

    def _enter(self, name: str, array: np.ndarray, trained: bool) -> str:
        """Register an array as a Parameter or buffer; dots in its name become submodules."""
        value = new_tensor(array.copy())
        holder: nn.Module = self
        *path, last = name.split(".")
        for step in path:
            child = holder._modules.get(step)
            if child is None:
                if not step or hasattr(holder, step):
                    break
                child = _Numbers()
                holder.add_module(step, child)
            holder = child
        else:
            path = []
        if path or not last or hasattr(holder, last):
            holder, last = self, name.replace(".", "_")
            while not last or hasattr(holder, last):
                last += "_"
        if trained and array.dtype.kind in "fV":
            holder.register_parameter(last, nn.Parameter(value))
            self._floating = self._floating or array.dtype
        else:
            holder.register_buffer(last, value)
        self._owners[name] = holder, last
        return name

    def forward(self, *inputs: object, **named: object) -> Any:
        names = self.input_names
        if len(inputs) > len(names):
            raise TypeError(f"expected {len(names)} inputs ({', '.join(names)}), got {len(inputs)}")
        given = dict(zip(names, inputs, strict=False))
        for name, value in named.items():
            if name not in names or name in given:
                known = "was given twice" if name in given else f"must be one of {', '.join(names)}"
                raise TypeError(f"the input {name!r} {known}")
            given[name] = value
        missing = [name for name in names if name not in given]
        if missing and not all(self._wanted[name] is None for name in missing):
            raise TypeError(f"expected {len(names)} inputs ({', '.join(names)}); {missing[0]!r} is missing")
        values = {name: getattr(holder, last) for name, (holder, last) in self._owners.items()}
        self._computed_with(values)
        values[ITERATIONS] = [0]
        checked = [self._checked(name, given.get(name)) for name in names]
        outputs = self.graph.run(values, ChainMap(), checked)
        return outputs[0] if len(outputs) == 1 else tuple(outputs)

    def _computed_with(self, values: dict[str, Any]) -> None:
        """Record the dtype that replaces the file's float dtypes after ``double()`` or ``to(dtype)``."""
        self._dtypes.clear()
        if self._floating is None:
            return
        now = next(x.dtype for x in values.values() if isinstance(x, nn.Parameter))
        if now != self._floating:
            self._dtypes[self._floating] = now

    def _checked(self, name: str, value: object) -> Any:
        if value is None or isinstance(value, (list, tuple)) and self._wanted[name] is None:
            return value
        x = operand(value) if not isinstance(value, Tensor) else value
        wanted = self._wanted[name]
        if wanted is None:
            return x
        dtype, shape = wanted
        dtype = self._dtypes.get(dtype, dtype)
        fits = shape is None or len(shape) == x.ndim and all(n is None or n == m for n, m in zip(shape, x.shape))
        if x.dtype != dtype or not fits:
            sizes = "" if shape is None else f"({', '.join('*' if n is None else str(n) for n in shape)})"
            raise TypeError(f"the input {name!r} must be {dtype}{sizes}, got {describe(x)}")
        return x

    def extra_repr(self) -> str:
        """The graph's inputs and outputs."""
        return f"{', '.join(self.input_names)} -> {', '.join(self.output_names)}, opset {self.opset_version}"


def _type_of(value: Any) -> tuple[Any, list[int | None] | None] | None:
    """Return the dtype and shape that an input must have; None if it is not a Tensor."""
    if not value.type.HasField("tensor_type"):
        return None
    kind = value.type.tensor_type
    if not kind.HasField("shape"):
        return dtype_of(kind.elem_type), None
    return dtype_of(kind.elem_type), [axis.dim_value if axis.dim_value > 0 else None for axis in kind.shape.dim]


def load(path: Any) -> ONNXModule:
    """Load an ONNX file as a Module with differentiable parameters.

    Floating weights become Parameters under their names in the file; settings (sizes, epsilons, running statistics)
    become buffers. ``double()`` and ``to(dtype)`` work as for any Module. Batch normalization and dropout follow the
    file, not ``train()``.

    Args:
        path: the file, whose external data is in the same folder; or its content, as bytes or ONNX's ModelProto.

    Returns:
        The Module. Called with the graph's inputs in order, it returns its output, or a tuple of outputs.

    Raises:
        ImportError: the onnx library (extra ``onnx``) is not installed.
        OSError: the file cannot be read.
        ValueError: the file is not an ONNX file, or invalid.
        UnsupportedError: operators or dtypes, which the message names, are not supported, or the opset is older
            than 11.

    Source: https://onnx.ai/onnx/operators

    >>> from onnx import TensorProto, helper
    >>> info = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", 2]) for name in "xy"]
    >>> weight = helper.make_tensor("fc.weight", TensorProto.FLOAT, [2, 2], [1, 0, 0, 2])
    >>> node = helper.make_node("MatMul", ["x", "fc.weight"], ["y"])
    >>> graph = helper.make_graph([node], "double", info[:1], info[1:], [weight])
    >>> model = rg.onnx.load(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)]))
    >>> model(rg.ones(1, 2)).tolist(), [name for name, _ in model.named_parameters()]
    ([[1.0, 2.0]], ['fc.weight'])
    """
    try:
        import onnx
        import onnx.inliner
        from google.protobuf.message import DecodeError
    except ImportError:
        raise ImportError("ONNX files need the onnx library: pip install 'retrograd[onnx]'") from None
    where = "load"
    if isinstance(path, onnx.ModelProto):
        proto = path
    else:
        where = "load" if isinstance(path, bytes) else os.fspath(path)
        try:
            if isinstance(path, bytes):
                proto = onnx.load_from_string(path)
            else:
                open_regular(path).close()
                proto = onnx.load(os.fspath(path))
        except DecodeError:
            raise ValueError(f"{where}: not an ONNX file") from None
        except (OSError, MemoryError):
            raise
        except Exception as error:  # onnx raises errors of many types when it reads external data
            raise ValueError(f"{where}: {_line(error)}") from None
    if not proto.opset_import or not proto.HasField("graph"):
        raise ValueError(f"{where}: not an ONNX file")
    try:
        if proto.functions:
            check_functions(proto)
            proto = onnx.inliner.inline_local_functions(proto)
        return ONNXModule(proto)
    except (UnsupportedError, TypeError) as error:
        raise UnsupportedError(f"{where}: {_line(error)}") from None
    except (OSError, MemoryError):
        raise
    except ValueError as error:
        raise ValueError(f"{where}: {_line(error)}") from None
    except Exception as error:  # a file may be invalid in any way, and onnx may raise any error
        raise ValueError(f"{where}: invalid ONNX file: {type(error).__name__}: {_line(error)}") from None


def _line(error: Exception) -> str:
    """Return the first line of an error's message."""
    return (str(error).splitlines() or [type(error).__name__])[0]
