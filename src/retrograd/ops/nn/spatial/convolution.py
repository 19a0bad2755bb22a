"""Convolutions in one to three dimensions, and their transposes."""

from __future__ import annotations

from collections.abc import Callable

from ....core.errors import describe
from ....core.graph.primitive import Primitive, apply, operand
from ....core.tensor.tensor import Tensor
from ...table.registry import operator
from ...table.types import Operand, Size
from .convolution_primitives import CONV, CONV_BIAS, CONV_TRANSPOSE, CONV_TRANSPOSE_BIAS
from .sliding_windows import Window, for_axes, per_axis, with_batch


def _operands(
    axes: int, input: Operand, weight: Operand, bias: Operand | None, groups: int, transposed: bool
) -> tuple[Tensor, Tensor, Tensor | None, bool]:
    x, single = with_batch(operand(input), axes)
    w = operand(weight, "weight")
    if w.array.ndim != axes + 2:
        raise RuntimeError(f"expected a {axes + 2}D weight for input {describe(input)}, but got {describe(w)}")
    if groups < 1:
        raise RuntimeError(f"non-positive groups is not supported, got {groups}")
    first, second = w.array.shape[:2]
    if first < groups or first % groups:
        raise RuntimeError(
            f"given groups={groups}, expected weight to be divisible by {groups} at dimension 0, and at least "
            f"that long, but got {describe(w)}"
        )
    wanted = first if transposed else second * groups
    if x.array.shape[1] != wanted:
        places = range(1, axes + 1)
        order = ", ".join(map(str, (0, axes + 1, *places) if not single else (axes, *range(axes))))
        last = f"; if the channels stand last, input.permute({order})" if x.array.shape[-1] == wanted else ""
        raise RuntimeError(
            f"given groups={groups} and weight {describe(w)}, expected input to have {wanted} channels, "
            f"but got {describe(input)}{last}"
        )
    if bias is None:
        return x, w, None, single
    b = operand(bias, "bias")
    channels = second * groups if transposed else first
    if b.array.shape != (channels,):
        raise RuntimeError(
            f"given weight {describe(w)}, expected bias to be 1-dimensional with {channels} elements, "
            f"but got {describe(b)}"
        )
    return x, w, b, single


def _recorded(
    plain: Primitive, biased: Primitive, x: Tensor, w: Tensor, b: Tensor | None, single: bool, params: dict[str, object]
) -> Tensor:
    result = apply(plain, (x, w), params) if b is None else apply(biased, (x, w, b), params)
    return result[0] if single else result


def _convolve(
    axes: int, input: Operand, weight: Operand, bias: Operand | None, stride: Size, padding: Size | str,
    dilation: Size, groups: int,
) -> Tensor:  # fmt: skip
    x, w, b, single = _operands(axes, input, weight, bias, groups, False)
    size, kernel = tuple(x.array.shape[2:]), tuple(w.array.shape[2:])
    strides = per_axis("stride", stride, axes, 1)
    dilations = per_axis("dilation", dilation, axes, 1)
    reach = tuple([d * (k - 1) for d, k in zip(dilations, kernel)])
    if isinstance(padding, str):
        if padding not in ("same", "valid"):
            raise RuntimeError(f"invalid padding string {padding!r}; expected 'same' or 'valid'")
        if padding == "same" and max(strides) > 1:
            raise RuntimeError(f"padding='same' is not supported for strided convolutions, got stride={strides}")
        total = reach if padding == "same" else (0,) * axes
        paddings = tuple([p // 2 for p in total])
    else:
        paddings = per_axis("padding", padding, axes, 0)
        total = tuple([2 * p for p in paddings])
    out = tuple([(length + p - r - 1) // s + 1 for length, p, r, s in zip(size, total, reach, strides)])
    if 0 in size and x.array.shape[0]:
        raise RuntimeError(f"only the batch and the channels of an input may be empty, got {describe(x)}")
    if min(out) < 1 or 0 in kernel:
        raise RuntimeError(
            f"calculated padded input size {tuple(length + p for length, p in zip(size, total))} for input "
            f"{describe(input)}; the kernel of {describe(w)} with dilation={dilations} can't be greater, or empty"
        )
    window = Window(size, kernel, strides, paddings, dilations, out)
    return _recorded(CONV, CONV_BIAS, x, w, b, single, {"window": window, "groups": groups})


def _empty(shape: tuple[int, ...], *inputs: Tensor | None) -> Tensor:
    nothing = [x.reshape((-1,))[:0] for x in inputs if x is not None]
    return sum(nothing[1:], nothing[0]).reshape(shape)


def _convolve_transposed(
    axes: int, input: Operand, weight: Operand, bias: Operand | None, stride: Size, padding: Size,
    output_padding: Size, groups: int, dilation: Size,
) -> Tensor:  # fmt: skip
    y, w, b, single = _operands(axes, input, weight, bias, groups, True)
    out, kernel = tuple(y.array.shape[2:]), tuple(w.array.shape[2:])
    strides = per_axis("stride", stride, axes, 1)
    dilations = per_axis("dilation", dilation, axes, 1)
    paddings = per_axis("padding", padding, axes, 0)
    extra = per_axis("output_padding", output_padding, axes, 0)
    count = y.array.shape[0]
    if count and any(e >= s and e >= d for e, s, d in zip(extra, strides, dilations)):
        raise RuntimeError(
            f"output padding must be smaller than either stride or dilation, but got output_padding={extra}, "
            f"stride={strides}, dilation={dilations}"
        )
    size = tuple(
        [
            (t - 1) * s - 2 * p + d * (k - 1) + e + 1
            for t, s, p, d, k, e in zip(out, strides, paddings, dilations, kernel, extra)
        ]
    )
    if min(size) < 0 or 0 in kernel or 0 in out and count:
        raise RuntimeError(
            f"input {describe(input)} and weight {describe(w)} with stride={strides}, padding={paddings}, "
            f"dilation={dilations}, output_padding={extra} give the output size {size}, which is too small, or a "
            "kernel or input is empty"
        )
    if 0 in size or not count:  # PyTorch raises errors for some empty results, depending on its backend
        result = _empty((count, w.array.shape[1] * groups, *size), y, w, b)
        return result[0] if single else result
    window = Window(size, kernel, strides, paddings, dilations, out)
    return _recorded(CONV_TRANSPOSE, CONV_TRANSPOSE_BIAS, y, w, b, single, {"window": window, "groups": groups})


def _conv(axes: int) -> Callable[..., Tensor]:
    """``bias[o] + sum_ck weight[o, c, k] input[n, c, t * stride + k * dilation - padding]``: the cross-correlation.

    t and k run over the windows and their elements, one index per axis; the input counts as zero outside its bounds.
    With ``groups``, the channels are divided into that many groups, which are convolved separately.

    Derivative: input: ``conv_transpose{n}d`` of g with the weight; weight: the cross-correlation of the input with g,
    summed over the batch; bias: the sum of g over all dimensions but the channels.
    Shape: {input}, to O channels; per axis
    ``{length}' = ({length} + 2 * padding - dilation * ({k} - 1) - 1) // stride + 1``.

    Args:
        weight: ``(O, C / groups, {kernel})``.
        bias: a number per output channel, ``(O,)``.
        stride: the distance between windows; {integers}, like ``padding`` and ``dilation``.
        padding: the number of zeros on each side; ``"valid"`` means none, ``"same"`` as many as preserve the input's
            size (if their number is odd, one more at the end).
        dilation: the distance between the elements of a window.
        groups: the number of groups; it divides ``C`` and ``O``.

    Raises:
        RuntimeError: the shapes or dtypes do not match, the kernel is larger than the padded input, or an argument is
            out of range.
    """

    def conv(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Size = 1,
        padding: Size | str = 0,
        dilation: Size = 1,
        groups: int = 1,
    ) -> Tensor:
        return _convolve(axes, input, weight, bias, stride, padding, dilation, groups)

    return conv


conv1d, conv2d, conv3d = for_axes(
    _conv,
    {
        1: """>>> F.conv1d(rg.tensor([[[1.0, 2.0, 4.0, 8.0]]]), rg.tensor([[[-1.0, 1.0]]]))
    tensor([[[1., 2., 4.]]])""",
        2: """>>> F.conv2d(rg.arange(9.0).reshape(1, 1, 3, 3), rg.ones(1, 1, 2, 2))
    tensor([[[[ 8., 12.],
              [20., 24.]]]])""",
        3: """>>> F.conv3d(rg.ones(1, 2, 4, 4, 4), rg.ones(3, 2, 3, 3, 3)).shape
    (1, 3, 2, 2, 2)""",
    },
    dtype="equal floating",
)


def _conv_transpose(axes: int) -> Callable[..., Tensor]:
    """The transpose of ``conv{n}d`` as a linear map of its input, with the same weight: also called deconvolution.

    Each element of the input adds a multiple of the kernel to the result; neighbors are ``stride`` positions apart.
    ``padding`` positions are then cropped on each side.

    Derivative: input: ``conv{n}d`` of g with the weight; weight: the cross-correlation of g with the input, summed over
    the batch; bias: the sum of g over all dimensions but the channels.
    Shape: {input}, to O channels; per axis
    ``{length}' = ({length} - 1) * stride - 2 * padding + dilation * ({k} - 1) + output_padding + 1``.

    Args:
        weight: ``(C, O / groups, {kernel})``.
        stride: the distance between kernels in the result; {integers}, like the paddings and ``dilation``.
        padding: the number of positions that are cropped on each side.
        output_padding: the number of positions to add at the end of the result. It selects one of several sizes that
            ``conv{n}d`` maps to the input's size.
        dilation: the distance between the elements of the kernel.

    Raises:
        RuntimeError: the shapes or dtypes do not match, the result is empty, an argument is out of range, or
            ``output_padding`` is neither below ``stride`` nor below ``dilation``.

    Source: Zeiler, Krishnan, Taylor, Fergus, "Deconvolutional networks", 2010.
    """

    def conv_transpose(
        input: Tensor,
        weight: Tensor,
        bias: Tensor | None = None,
        stride: Size = 1,
        padding: Size = 0,
        output_padding: Size = 0,
        groups: int = 1,
        dilation: Size = 1,
    ) -> Tensor:
        return _convolve_transposed(axes, input, weight, bias, stride, padding, output_padding, groups, dilation)

    return conv_transpose


conv_transpose1d, conv_transpose2d, conv_transpose3d = for_axes(
    _conv_transpose,
    {
        1: """>>> F.conv_transpose1d(rg.tensor([[[1.0, 2.0]]]), rg.tensor([[[1.0, 10.0]]]), stride=2)
    tensor([[[ 1., 10.,  2., 20.]]])""",
        2: """>>> F.conv_transpose2d(rg.ones(1, 1, 2, 2), rg.ones(1, 1, 2, 2))
    tensor([[[[1., 2., 1.],
              [2., 4., 2.],
              [1., 2., 1.]]]])""",
        3: """>>> F.conv_transpose3d(rg.ones(1, 2, 2, 2, 2), rg.ones(2, 3, 3, 3, 3)).shape
    (1, 3, 4, 4, 4)""",
    },
    like=conv1d,
)


@operator(method=False)
def conv_tbc(input: Operand, weight: Operand, bias: Tensor | None = None, pad: int = 0) -> Tensor:
    """``y[t, b, o] = bias[o] + sum_kc input[t + k - pad, b, c] weight[k, c, o]``: a convolution along time.

    Derivative: that of ``conv1d``.
    Shape: input ``(T, B, C_in)``, weight ``(K, C_in, C_out)``, bias ``(C_out)``; the result
        ``(T + 2 pad - K + 1, B, C_out)``.
    Dtype: floating, the same for all arguments and the result.

    Args:
        input: the sequences.
        weight: the filters.
        bias: added to each channel.
        pad: the number of zeros added on both ends.

    Raises:
        RuntimeError: input or weight does not have three dimensions, or the shapes do not match.

    >>> rg.conv_tbc(rg.ones(5, 2, 3), rg.ones(2, 3, 4)).shape
    (4, 2, 4)
    """
    x, w = operand(input), operand(weight, "weight")
    if x.array.ndim != 3 or w.array.ndim != 3:
        raise RuntimeError(f"expected inputs of three dimensions, got {describe(x)} and {describe(w)}")
    return conv1d(x.permute(1, 2, 0), w.permute(2, 1, 0), bias, padding=pad).permute(2, 0, 1).contiguous()
