"""``export``: write a model to an ONNX file."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from .. import nn
from ..core.tensor.tensor import Tensor
from ..files import replacing
from ..func.nests import flatten
from .building import CODES, Builder, Symbol
from .graph import UnsupportedError
from .loading import load
from .model_calls import ModelCalls, calls_of, resized
from .writing import PRIMITIVES, WHOLE

OLDEST, DEFAULT = 14, 17

_IGNORED = {
    "autograd_inlining", "custom_opsets", "do_constant_folding", "dynamo", "export_modules_as_functions",
    "export_params", "keep_initializers_as_inputs", "operator_export_type", "optimize", "training", "verbose", "verify",
}  # fmt: skip


def export(
    model: Any,
    args: object,
    path: Any = None,
    *,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    dynamic_axes: Mapping[str, object] | None = None,
    opset_version: int | None = None,
    kwargs: Mapping[str, object] | None = None,
    f: object = None,
    **options: object,
) -> None:
    """Write a model to an ONNX file, which onnxruntime and other runtimes execute.

    The model runs on ``args`` in evaluation mode and its operators are recorded: loops are unrolled, and only the
    branches taken are in the file. With dynamic axes the model runs again on longer inputs, to find which numbers
    depend on the lengths. Before the file is saved, it is loaded and compared with the model on all these inputs and
    on inputs of one more length.

    Args:
        model: a Module, or a function of Tensors.
        args: a Tensor, or a tuple of arguments; each Tensor in a nested argument is one input.
        path: the file name, or a stream open for binary writing.
        input_names: names of the Tensors in ``args``, in order; by default the argument names.
        output_names: names of the Tensors that the model returns; by default ``output``, or ``output_0`` and so on.
        dynamic_axes: for each input or output the axes of variable length: ``{"x": {0: "batch"}}``, or ``{"x": [0]}``.
            Axes with the same name have the same length.
        opset_version: the version of the ONNX operators, at least 14; 17 by default.
        kwargs: keyword arguments of the model.
        f: PyTorch's name of ``path``.
        options: ``export_params`` and ``do_constant_folding`` of PyTorch, which have no effect.

    Raises:
        ImportError: the onnx library (extra ``onnx``) is not installed.
        UnsupportedError: an operator, which the message names, cannot be written; or the written graph computes
            something else, because the model's control flow depends on values. No file is left.
        ValueError: names or axes do not match the model.
        OSError: the file cannot be written.

    >>> import tempfile, os
    >>> path = os.path.join(tempfile.mkdtemp(), "model.onnx")
    >>> model = rg.nn.Sequential(rg.nn.Linear(3, 2), rg.nn.Softmax(-1))
    >>> rg.onnx.export(model, rg.ones(1, 3), path, input_names=["x"], dynamic_axes={"x": {0: "batch"}})
    >>> rg.onnx.load(path)(rg.ones(5, 3)).shape
    (5, 2)
    """
    try:
        import onnx
    except ImportError:
        raise ImportError("onnx.export needs the onnx library: pip install 'retrograd[onnx]'") from None
    unknown = sorted(set(options) - _IGNORED)
    if unknown:
        raise TypeError(f"export: unexpected argument {unknown[0]!r}")
    path = f if path is None else path
    if not hasattr(path, "write") and not isinstance(path, (str, bytes, os.PathLike)):
        raise TypeError(f"export: path must be a file name or a stream, got {type(path).__name__}")
    if not callable(model):
        raise TypeError(f"export: model must be a Module or a function, got {type(model).__name__}")
    args = args if isinstance(args, tuple) else (args,)
    named = dict(kwargs or {})
    if kwargs is None and args and isinstance(args[-1], dict) and all(isinstance(key, str) for key in args[-1]):
        args, named = args[:-1], args[-1]
    opset = DEFAULT if opset_version is None else opset_version
    newest = onnx.defs.onnx_opset_version()
    if not isinstance(opset, int) or not OLDEST <= opset <= newest:
        raise ValueError(f"export: opset_version must be between {OLDEST} and {newest}, got {opset!r}")
    leaves, _ = flatten((args, named))
    tensors = [x for x in leaves if isinstance(x, Tensor)]
    if not tensors:
        raise ValueError("export: args must contain at least one Tensor")
    names = _input_names(model, input_names, args, named, len(tensors))
    trained = [part for part in model.modules() if part.training] if isinstance(model, nn.Module) else []
    weights = {id(x): name for name, x in _weights(model).items()}
    try:
        if trained:
            model.eval()
        base = calls_of(model, args, named, _is_whole)
        outputs = _output_names(output_names, len(base.outputs), names)
        symbols, axes = _symbols(dynamic_axes, names, outputs, tensors)
        others = [
            calls_of(model, *resized(args, named, _changes([symbol], symbol.other)), _is_whole) for symbol in symbols
        ]  # fmt: skip
        proto = _built(base, others, symbols, axes, opset, names, outputs, weights)
        _check(proto, base, others, names)
        if symbols:
            third = resized(args, named, _changes(symbols, None))
            _check(proto, calls_of(model, *third, _is_whole), [], names)
    finally:
        for part in trained:
            part.training = True
    content = proto.SerializeToString()
    if hasattr(path, "write"):
        path.write(content)
        return
    with replacing(os.fspath(path)) as stream:
        stream.write(content)


def _is_whole(name: str, args: tuple[object, ...], named: dict[str, object]) -> bool:
    if name not in WHOLE:
        return False
    try:
        return WHOLE[name][0](*args, **named)
    except TypeError:
        return False


def _weights(model: object) -> dict[str, Tensor]:
    if not isinstance(model, nn.Module):
        return {}
    return {**dict(model.named_parameters()), **dict(model.named_buffers())}


def _input_names(
    model: Any, given: Sequence[str] | None, args: tuple[object, ...], named: dict[str, object], count: int
) -> list[str]:
    if given is None:
        import inspect

        function = model.forward if isinstance(model, nn.Module) else model
        try:
            parameters = [*inspect.signature(function).parameters]
        except (TypeError, ValueError):
            parameters = []
        found = []
        for place, value in enumerate(args):
            stem = parameters[place] if place < len(parameters) else f"input_{place}"
            paths = flatten(value)[1].paths(stem)
            found += [path for path, x in zip(paths, flatten(value)[0], strict=True) if isinstance(x, Tensor)]
        for key, value in named.items():
            paths = flatten(value)[1].paths(key)
            found += [path for path, x in zip(paths, flatten(value)[0], strict=True) if isinstance(x, Tensor)]
        return found
    names = list(given)
    if len(names) != count or len(set(names)) != count or not all(isinstance(n, str) and n for n in names):
        raise ValueError(f"export: input_names must be {count} distinct names, got {names}")
    return names


def _output_names(given: Sequence[str] | None, count: int, inputs: list[str]) -> list[str]:
    names = list(given) if given is not None else ["output"] if count == 1 else [f"output_{i}" for i in range(count)]
    if len(names) != count or len({*names, *inputs}) != count + len(inputs):
        raise ValueError(f"export: output_names must be {count} distinct names unlike the inputs', got {names}")
    return names


def _symbols(
    dynamic: Mapping[str, Any] | None, names: list[str], outputs: list[str], tensors: list[Tensor]
) -> tuple[list[Symbol], dict[str, dict[int, str]]]:
    """Return the symbols of dynamic lengths, and the names of axes by value and axis."""
    axes: dict[str, dict[int, str]] = {}
    found: dict[str, Symbol] = {}
    for name, given in (dynamic or {}).items():
        if name not in names and name not in outputs:
            raise ValueError(
                f"export: the keys of dynamic_axes must be among {', '.join([*names, *outputs])}, got {name!r}"
            )
        entries = given.items() if isinstance(given, Mapping) else [(axis, f"{name}_{axis}") for axis in given]
        for axis, label in entries:
            axes.setdefault(name, {})[axis] = str(label)
            if name in outputs:
                continue
            number = names.index(name)
            rank = tensors[number].ndim
            if not isinstance(axis, int) or not -rank <= axis < rank:
                raise ValueError(f"export: an axis of {name!r} in dynamic_axes must be in range({rank}), got {axis!r}")
            axes[name].pop(axis)
            axes[name][axis % rank] = str(label)
            length = tensors[number].shape[axis]
            symbol = found.setdefault(str(label), Symbol(str(label), [], length, 2 * length if length else 1))
            if symbol.length != length:
                raise ValueError(f"export: axes named {label!r} must have one length, got {symbol.length} and {length}")
            symbol.places.append((number, axis % rank))
    return list(found.values()), axes


def _changes(symbols: list[Symbol], length: int | None) -> dict[int, dict[int, int]]:
    """Return the new lengths by input and axis; by default lengths that no other run has."""
    found: dict[int, dict[int, int]] = {}
    for symbol in symbols:
        for number, axis in symbol.places:
            found.setdefault(number, {})[axis] = 3 * symbol.length if length is None else length
    return found


def _built(
    base: ModelCalls, others: list[ModelCalls], symbols: list[Symbol], axes: dict[str, dict[int, str]], opset: int,
    names: list[str], outputs: list[str], weights: dict[int, str]
) -> Any:  # fmt: skip
    """Return the model's proto."""
    import onnx
    from onnx import helper

    for other, symbol in zip(others, symbols, strict=True):
        if [call.name for call in other.calls] != [call.name for call in base.calls]:
            raise UnsupportedError(
                f"export: the model makes other operator calls when the axis {symbol.name!r} is longer"
            )
    builder = Builder(base, others, symbols, opset, names, weights)
    for number in range(len(base.calls)):
        call = builder.at(number)
        live = any(builder.is_live(x) for x in flatten((call.inputs, call.params))[0])
        if not live and not builder.differs():
            continue  # the call's results are equal in all runs: they become constants where they are used
        _write(builder, call)
    found = []
    for place, (x, name) in enumerate(zip(base.outputs, outputs, strict=True)):
        theirs = [other.outputs[place] for other in others]
        builder.nodes.append(helper.make_node("Identity", [builder.name(x, None, theirs)], [name], name=name))
        shape: list[Any] = [
            axes.get(name, {}).get(axis) or (int(n) if all(o.shape[axis] == n for o in theirs) else f"{name}_{axis}")
            for axis, n in enumerate(x.shape)
        ]
        for axis, n in enumerate(x.shape):  # name an output axis after the input axis that determines its length
            for symbol, long in zip(symbols, theirs, strict=True):
                alone = all(o.shape[axis] == n for s, o in zip(symbols, theirs, strict=True) if s is not symbol)
                if long.shape[axis] == symbol.other and n == symbol.length and alone and n != symbol.other:
                    shape[axis] = symbol.name
        found.append(helper.make_tensor_value_info(name, CODES[x.dtype.name], shape))
    inputs = []
    for x, name in zip(base.inputs, names, strict=True):
        if x.dtype.name not in CODES:
            raise UnsupportedError(f"export: the input {name!r} has dtype {x.dtype}, which ONNX does not support")
        lengths = [axes.get(name, {}).get(axis, int(n)) for axis, n in enumerate(x.shape)]
        inputs.append(helper.make_tensor_value_info(name, CODES[x.dtype.name], lengths))
    graph = helper.make_graph(builder.nodes, "main", inputs, found, builder.initializers)
    opsets = [helper.make_opsetid("", opset)]
    proto = helper.make_model(
        graph, opset_imports=opsets, ir_version=helper.find_min_ir_version_for(opsets), producer_name="retrograd"
    )
    try:
        onnx.checker.check_model(proto, full_check=True)
    except Exception as error:  # the checker has its own types of errors, and shape inference has others
        raise UnsupportedError(f"export: {str(error).strip().splitlines()[0]}") from None
    return proto


def _write(builder: Builder, call: Any) -> None:
    """Add the nodes of a call, and record the names of its outputs."""
    if call.whole:
        result = WHOLE[call.name][1](builder, *call.inputs, **call.params)
    else:
        rule = PRIMITIVES.get(call.name)
        if rule is None:
            raise UnsupportedError(f"export: {call.name} cannot be written as ONNX")
        result = rule(builder, call)
    results = [result] if isinstance(result, str) else result
    for x, name in zip(call.outputs, results, strict=False):
        builder.names[id(x)] = name


def _check(proto: object, base: ModelCalls, others: list[ModelCalls], names: list[str]) -> None:
    """Load the graph and compare its results with the model's."""
    graph = load(proto)
    for run in (base, *others):
        found = graph(**dict(zip(names, [x.detach() for x in run.inputs], strict=True)))
        for mine, wanted in zip(found if isinstance(found, tuple) else (found,), run.outputs, strict=True):
            x, y = mine.detach().cpu().numpy(), wanted.detach().cpu().numpy()
            tolerance, nan = 1e-2 if x.dtype.itemsize < 4 else 1e-4, y.dtype.kind == "f"
            if x.shape != y.shape or not np.allclose(x, y, tolerance, tolerance * _size(y), nan):
                raise UnsupportedError(
                    "export: the graph computes something else than the model, whose control flow may depend on values "
                    "or on lengths, or which may draw random numbers"
                )


def _size(y: Any) -> float:
    finite = np.abs(y[np.isfinite(y)]) if y.dtype.kind == "f" else np.zeros(0)
    return float(finite.max()) if finite.size else 0.0
