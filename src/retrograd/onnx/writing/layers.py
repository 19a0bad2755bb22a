"""ONNX rules of layers: products, convolutions, pooling, normalization, attention and recurrence."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...core.tensor.tensor import Tensor
from ..building import Builder
from ..model_calls import Call
from .reductions import reduced
from .rules import primitive, whole


@primitive("matmul", "mm", "outer")
def matmul(b: Builder, call: Call) -> str:
    dtype = call.outputs[0].dtype
    x, y = b.input(0, dtype), b.input(1, dtype)
    if call.name == "outer":
        x, y = b.node("Unsqueeze", [x, b.ints(1)]), b.node("Unsqueeze", [y, b.ints(0)])
    return b.node("MatMul", [x, y])


@primitive("linear")
def linear(b: Builder, call: Call) -> str:
    x, w = b.input(0), b.input(1)
    bias = [b.input(2)] if len(call.inputs) > 2 and call.inputs[2] is not None else []
    if call.inputs[0].ndim == 2:
        return b.node("Gemm", [x, w, *bias], transB=1)
    y = b.node("MatMul", [x, b.node("Transpose", [w], perm=[1, 0])])
    return b.node("Add", [y, *bias]) if bias else y


@whole("einsum", accepts=lambda equation, *args: isinstance(equation, str))
def einsum(b: Builder, equation: str, *operands: object) -> str:
    parts = operands[0] if len(operands) == 1 and isinstance(operands[0], (list, tuple)) else operands
    return b.node("Einsum", [b.argument(x) for x in parts], equation=equation.replace(" ", ""))


def _window(b: Builder, call: Call) -> tuple[Any, list[int], bool]:
    """Return the window, the padding before and after, and whether the last window is truncated."""
    window = call.params["window"]
    others = b.others_of(lambda twin: twin.params["window"])
    for name in ("kernel", "stride", "padding", "dilation"):
        b.fixed(getattr(window, name), *[getattr(other, name) for other in others])
    ends, short = [], False
    parts = zip(window.kernel, window.stride, window.padding, window.dilation, strict=True)
    for axis, (k, s, p, d) in enumerate(parts):
        ways = set()
        for w in (window, *others):
            size, out = w.size[axis], w.out[axis]
            whole_ = (size + 2 * p - d * (k - 1) - 1) // s + 1
            ways.add(p if out == whole_ else max((out - 1) * s + d * (k - 1) + 1 - size - p, 0))
            short = short or out > whole_
        if len(ways) > 1 and not short:
            raise b.fail("the padding depends on the length of a dynamic axis")
        ends.append(p if short else max(ways))
    return window, [*window.padding, *ends], short


@primitive("convolution")
def convolution(b: Builder, call: Call) -> str:
    window, pads, short = _window(b, call)
    if short:
        w = window
        sides = zip(w.size, w.kernel, w.stride, w.padding, w.dilation, w.out, strict=True)
        ends = [max((o - 1) * s + d * (k - 1) + 1 - n - p, 0) for n, k, s, p, d, o in sides]
        pads = [*window.padding, *ends]
    inputs = [b.input(0), b.input(1)]
    if len(call.inputs) > 2 and call.inputs[2] is not None:
        inputs.append(b.input(2))
    return b.node(
        "Conv", inputs, kernel_shape=list(window.kernel), strides=list(window.stride), pads=list(pads),
        dilations=list(window.dilation), group=int(b.param("groups")),
    )  # fmt: skip


@primitive("convolution_transpose")
def convolution_transpose(b: Builder, call: Call) -> str:
    window = call.params["window"]  # the layer is the transpose of a convolution with this window
    others = b.others_of(lambda twin: twin.params["window"])
    for name in ("kernel", "stride", "padding", "dilation"):
        b.fixed(getattr(window, name), *[getattr(other, name) for other in others])

    def extra(w: Any) -> list[int]:
        parts = zip(w.size, w.out, w.kernel, w.stride, w.padding, w.dilation, strict=True)
        return [n - ((o - 1) * s - 2 * p + d * (k - 1) + 1) for n, o, k, s, p, d in parts]

    padding = b.fixed(extra(window), *map(extra, others))
    inputs = [b.input(0), b.input(1)]
    if len(call.inputs) > 2 and call.inputs[2] is not None:
        inputs.append(b.input(2))
    return b.node(
        "ConvTranspose", inputs, kernel_shape=list(window.kernel), strides=list(window.stride),
        pads=[*window.padding, *window.padding], output_padding=padding, dilations=list(window.dilation),
        group=int(b.param("groups")),
    )  # fmt: skip


@primitive("max_pool")
def max_pool(b: Builder, call: Call) -> str:
    window, pads, short = _window(b, call)
    return b.node(
        "MaxPool", [b.input(0)], kernel_shape=list(window.kernel), strides=list(window.stride), pads=pads,
        dilations=list(window.dilation) if set(window.dilation) != {1} else None, ceil_mode=int(short) or None,
    )  # fmt: skip


@primitive("avg_pool")
def avg_pool(b: Builder, call: Call) -> str:
    window, pads, short = _window(b, call)
    divisor, area = call.params["divisor"], float(np.prod(window.kernel))
    number = isinstance(divisor, (int, float))
    y = b.node(
        "AveragePool", [b.input(0)], kernel_shape=list(window.kernel), strides=list(window.stride), pads=pads,
        count_include_pad=int(number), ceil_mode=int(short) or None,
    )  # fmt: skip
    if number and divisor != area:
        y = b.node("Mul", [y, b.constant(np.asarray(area / divisor, call.outputs[0].dtype))])
    return y


def _to_one(input: Tensor, output_size: object, *args: object, **kwargs: object) -> bool:
    return set(output_size if isinstance(output_size, (tuple, list)) else (output_size,)) == {1}


def _spatial(b: Builder) -> int:
    assert b._call is not None
    return int(b._call.name[-2])


@whole("adaptive_avg_pool1d", "adaptive_avg_pool2d", "adaptive_avg_pool3d", accepts=_to_one)
def adaptive_average(b: Builder, input: Tensor, output_size: object) -> str:
    return reduced(b, "ReduceMean", b.argument(input), [*range(-_spatial(b), 0)], True)


@whole("adaptive_max_pool1d", "adaptive_max_pool2d", "adaptive_max_pool3d", accepts=_to_one)
def adaptive_maximum(b: Builder, input: Tensor, output_size: object, return_indices: bool = False) -> str:
    if return_indices:
        raise b.fail("return_indices=True is not supported")
    return reduced(b, "ReduceMax", b.argument(input), [*range(-_spatial(b), 0)], True)


@whole("batch_norm", accepts=lambda x, mean=None, var=None, w=None, b=None, training=False, *args, **kw: not training)
def batch_norm(
    b: Builder, input: Tensor, running_mean: Tensor, running_var: Tensor, weight: Tensor | None = None,
    bias: Tensor | None = None, training: bool = False, momentum: float = 0.1, eps: float = 1e-5
) -> str:  # fmt: skip
    inputs = [*_per_channel(b, input, weight, bias), b.argument(running_mean), b.argument(running_var)]
    return b.node("BatchNormalization", inputs, epsilon=float(eps))


def _per_channel(b: Builder, input: Tensor, weight: Tensor | None, bias: Tensor | None) -> list[str]:
    """Return the names of the input, and of a scale and an offset per channel."""
    count, dtype = input.shape[1], input.dtype
    scale = b.constant(np.ones(count, dtype)) if weight is None else b.argument(weight)
    shift = b.constant(np.zeros(count, dtype)) if bias is None else b.argument(bias)
    return [b.argument(input), scale, shift]


@whole("layer_norm")
def layer_norm(
    b: Builder, input: Tensor, normalized_shape: Any, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5
) -> str:  # fmt: skip
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    x, axis = b.argument(input), -len(shape)
    if b.opset >= 17:
        scale = b.constant(np.ones(shape, input.dtype)) if weight is None else b.argument(weight)
        inputs = [x, scale] if bias is None else [x, scale, b.argument(bias)]
        return b.node("LayerNormalization", inputs, axis=axis, epsilon=float(eps))
    axes = list(range(axis, 0))
    centered = b.node("Sub", [x, reduced(b, "ReduceMean", x, axes, True)])
    spread = reduced(b, "ReduceMean", b.node("Mul", [centered, centered]), axes, True)
    return _scaled(b, centered, spread, eps, weight, bias, input.dtype)


def _scaled(b: Builder, x: str, square: str, eps: float, weight: object, bias: object, dtype: Any) -> str:
    y = b.node("Div", [x, b.node("Sqrt", [b.node("Add", [square, b.constant(np.asarray(eps, dtype))])])])
    y = y if weight is None else b.node("Mul", [y, b.argument(weight)])
    return y if bias is None else b.node("Add", [y, b.argument(bias)])


@whole("rms_norm")
def rms_norm(
    b: Builder, input: Tensor, normalized_shape: Any, weight: Tensor | None = None, eps: float | None = None
) -> str:
    shape = (normalized_shape,) if isinstance(normalized_shape, int) else tuple(normalized_shape)
    x, dtype = b.argument(input), input.dtype
    eps = float(np.finfo(dtype).eps) if eps is None else eps
    square = reduced(b, "ReduceMean", b.node("Mul", [x, x]), [*range(-len(shape), 0)], True)
    return _scaled(b, x, square, eps, weight, None, dtype)


@whole("group_norm")
def group_norm(
    b: Builder, input: Tensor, num_groups: int, weight: Tensor | None = None, bias: Tensor | None = None,
    eps: float = 1e-5
) -> str:  # fmt: skip
    dtype = input.dtype
    groups = b.node("Reshape", [b.argument(input), b.ints(0, num_groups, -1)])
    scale, shift = b.constant(np.ones(num_groups, dtype)), b.constant(np.zeros(num_groups, dtype))
    y = b.node("InstanceNormalization", [groups, scale, shift], epsilon=float(eps))
    y = b.node("Reshape", [y, b.target()])
    column = b.ints(-1, *[1] * (input.ndim - 2))
    for kind, x in (("Mul", weight), ("Add", bias)):
        y = y if x is None else b.node(kind, [y, b.node("Reshape", [b.argument(x), column])])
    return y


@whole("instance_norm")
def instance_norm(
    b: Builder, input: Tensor, running_mean: object = None, running_var: object = None, weight: Tensor | None = None,
    bias: Tensor | None = None, use_input_stats: bool = True, momentum: float = 0.1, eps: float = 1e-5
) -> str:  # fmt: skip
    if not use_input_stats:
        return batch_norm(b, input, running_mean, running_var, weight, bias, eps=eps)
    if input.ndim < 3:
        raise b.fail("an input without a batch dimension is not supported")
    return b.node("InstanceNormalization", _per_channel(b, input, weight, bias), epsilon=float(eps))


@whole("mse_loss", "l1_loss")
def distance(
    b: Builder, input: Tensor, target: Tensor, *args: object, reduction: str = "mean", **kwargs: object
) -> str:
    assert b._call is not None
    if args or kwargs:
        raise b.fail("weights and legacy arguments are not supported")
    y = b.node("Sub", [b.argument(input), b.argument(target)])
    y = b.node("Abs", [y]) if b._call.name == "l1_loss" else b.node("Mul", [y, y])
    if reduction == "none":
        return y
    return reduced(b, "ReduceMean" if reduction == "mean" else "ReduceSum", y, None, False)


@whole("cross_entropy")
def cross_entropy(
    b: Builder, input: Tensor, target: Tensor, weight: Tensor | None = None, *args: object, ignore_index: int = -100,
    reduction: str = "mean", label_smoothing: float = 0.0, **kwargs: object
) -> str:  # fmt: skip
    if args or kwargs or label_smoothing or target.dtype.kind == "f" or input.ndim < 2:
        raise b.fail("class probabilities, label smoothing and legacy arguments are not supported")
    inputs = [b.argument(input), b.argument(target, np.int64)] + ([] if weight is None else [b.argument(weight)])
    return b.node("SoftmaxCrossEntropyLoss", inputs, reduction=reduction, ignore_index=ignore_index)


@whole("interpolate")
def interpolate(
    b: Builder, input: Tensor, size: object = None, scale_factor: object = None, mode: str = "nearest",
    align_corners: bool | None = None, recompute_scale_factor: bool | None = None, antialias: bool = False
) -> str:  # fmt: skip
    assert b._call is not None
    kinds = {"nearest": "nearest", "linear": "linear", "bilinear": "linear", "trilinear": "linear", "bicubic": "cubic"}
    if mode not in kinds or antialias:
        raise b.fail(f"mode {mode!r}{' with antialias' if antialias else ''} is not supported")
    kind = kinds[mode]
    places = "align_corners" if align_corners else "pytorch_half_pixel"
    options: dict[str, Any] = {
        "mode": kind,
        "coordinate_transformation_mode": "asymmetric" if kind == "nearest" else places,
        "nearest_mode": "floor" if kind == "nearest" else None,
        "cubic_coeff_a": -0.75 if kind == "cubic" else None,
    }
    x = b.argument(input)
    if scale_factor is not None and not recompute_scale_factor:
        rank = input.ndim - 2
        factors = list(scale_factor) if isinstance(scale_factor, (tuple, list)) else [scale_factor] * rank
        scales = b.constant(np.asarray([1, 1, *factors], np.float32))
        return b.node("Resize", [x, "", scales], **options)
    return b.node("Resize", [x, "", "", b.shape()], **options)


@primitive("scaled_dot_product_attention")
def attention(b: Builder, call: Call) -> str:
    q, k = call.inputs[:2]
    dtype = q.dtype
    if call.params.get("dropout_p"):
        raise b.fail("dropout is not supported")
    scale = b.constant(np.asarray(b.param("scale"), dtype))
    order = [*range(k.ndim - 2), k.ndim - 1, k.ndim - 2]
    scores = b.node("MatMul", [b.node("Mul", [b.input(0), scale]), b.node("Transpose", [b.input(1)], perm=order)])
    least = b.constant(np.asarray(-np.inf, dtype))
    if b.param("causal"):
        theirs = b.others_of(lambda twin: (twin.inputs[0].shape[-2], twin.inputs[1].shape[-2]))
        shape = b.sizes((q.shape[-2], k.shape[-2]), theirs)
        ones = b.node("Expand", [b.constant(np.asarray(1, np.float32)), shape])
        below = b.node("Cast", [b.node("Trilu", [ones], upper=0)], to=9)
        scores = b.node("Where", [below, scores, least])
    mask = call.inputs[3] if len(call.inputs) > 3 else None
    if mask is not None:
        if mask.dtype.kind == "b":
            scores = b.node("Where", [b.input(3), scores, least])
        else:
            scores = b.node("Add", [scores, b.input(3, dtype)])
    weights = b.node("Softmax", [scores], axis=-1)
    if mask is not None and mask.dtype.kind == "b":  # an entirely masked row is zero
        weights = b.node("Where", [b.node("IsNaN", [weights]), b.constant(np.asarray(0, dtype)), weights])
    return b.node("MatMul", [weights, b.input(2)])


def _weights(b: Builder, place: int, order: list[int], hidden: int, axes: list[int]) -> str:
    """Return the rows of a weight in ONNX's gate order, with a leading axis for the direction."""
    x = b.input(place)
    if len(order) > 1:
        parts = b.node("Split", [x, b.ints(*[hidden] * len(order))], outputs=len(order), axis=0)
        x = b.node("Concat", [parts[gate] for gate in order], axis=0)
    return b.node("Unsqueeze", [x, b.ints(*axes)])


def _recurrent(b: Builder, call: Call, kind: str, states: int, order: list[int], **options: object) -> list[str]:
    hidden = call.inputs[1].shape[-1]
    first = 1 + states
    w, r = (_weights(b, first + i, order, hidden, [0]) for i in range(2))
    bias = ""
    if len(call.inputs) > first + 2 and call.inputs[first + 2] is not None:
        bias = b.node("Concat", [_weights(b, first + 2 + i, order, hidden, [0]) for i in range(2)], axis=1)
    starts = [b.node("Unsqueeze", [b.input(1 + i), b.ints(0)]) for i in range(states)]
    found = b.node(
        kind, [b.input(0), w, r, bias, "", *starts], outputs=1 + states, hidden_size=hidden,
        direction="reverse" if b.param("reverse") else "forward", **options,
    )  # fmt: skip
    return [b.node("Squeeze", [found[0], b.ints(1)]), *[b.node("Squeeze", [x, b.ints(0)]) for x in found[1:]]]


@primitive("lstm")
def lstm(b: Builder, call: Call) -> list[str]:
    return _recurrent(b, call, "LSTM", 2, [0, 3, 1, 2])


@primitive("gru")
def gru(b: Builder, call: Call) -> list[str]:
    return _recurrent(b, call, "GRU", 1, [1, 0, 2], linear_before_reset=1)


@primitive("rnn")
def rnn(b: Builder, call: Call) -> list[str]:
    return _recurrent(b, call, "RNN", 1, [0], activations=["Relu" if b.param("relu") else "Tanh"])


@whole("dropout", "dropout1d", "dropout2d", "dropout3d", "alpha_dropout", "feature_alpha_dropout",
       accepts=lambda input, p=0.5, training=True, *args, **kwargs: not training or not p)  # fmt: skip
def dropout(b: Builder, input: Tensor, *args: object, **kwargs: object) -> str:
    return b.argument(input)
