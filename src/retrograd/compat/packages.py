"""What einops and torchvision need: a backend and layers for Tensors, and operators of a C library.

einops' backend, and its layers as Modules, are added when a program imports einops.

torchvision's models, transforms and checks of arguments are Python. Its library adds the operators below, which it
cannot run without PyTorch's own library (``torch.ops.torchvision``). Pooling of regions (RoI: region of interest) is
separable: a region of an image is averaged or interpolated along its rows by one matrix, and along its columns by
another. The matrices depend on the regions only, which have no derivative, as in torchvision.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any, NoReturn

import numpy as np
from numpy import ndarray

from .._generated.toplevel import as_tensor, cat, einsum, zeros
from ..core.arrays.dtypes import FLOATING
from ..core.tensor.tensor import Tensor, new_tensor
from ..nn.base.module import Module
from ..nn.parameter import Parameter


def find_spec(name: str, path: Any) -> ModuleSpec | None:
    """Return the spec of a module of einops that is extended or created here."""
    if name == "einops._backends":
        spec = PathFinder.find_spec(name, path)
        if spec is not None and spec.loader is not None:
            spec.loader = _BackendLoader(spec.loader)  # type: ignore[assignment]
        return spec
    return ModuleSpec(name, _Layers())  # type: ignore[arg-type]


class _BackendLoader:
    def __init__(self, loader: Any) -> None:
        self._loader = loader

    def __getattr__(self, name: str) -> Any:
        return getattr(self._loader, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        return self._loader.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        self._loader.exec_module(module)
        define_backend(module)


def define_backend(backends: Any) -> None:
    """Define einops' backend for Tensors. einops finds it among the subclasses of its ``AbstractBackend``."""
    from .._generated import toplevel as rg

    class RetrogradBackend(backends.AbstractBackend):  # type: ignore[misc]
        framework_name = "retrograd"

        def is_appropriate_type(self, tensor: object) -> bool:
            return isinstance(tensor, Tensor)

        def from_numpy(self, x: object) -> Tensor:
            tensor = new_tensor(x)
            tensor.requires_grad = self.is_float_type(tensor)
            return tensor

        def to_numpy(self, x: Tensor) -> ndarray:
            return x.detach().cpu().numpy()

        def arange(self, start: int, stop: int) -> Tensor:
            return rg.arange(start, stop)

        def reduce(self, x: object, operation: str, reduced_axes: Any) -> Any:
            if operation in ("min", "max"):
                return getattr(x, f"a{operation}")(tuple(reduced_axes))
            if operation in ("sum", "mean"):
                return getattr(x, operation)(tuple(reduced_axes))
            for axis in sorted(reduced_axes, reverse=True):
                x = getattr(x, operation)(axis)
            return x

        def transpose(self, x: Tensor, axes: Any) -> Tensor:
            return x.permute(axes)

        def stack_on_zeroth_dimension(self, tensors: list[Tensor]) -> Tensor:
            return rg.stack(tensors)

        def add_axes(self, x: Tensor, n_axes: int, pos2len: dict[int, int]) -> Tensor:
            lengths = [-1] * n_axes
            for place, length in pos2len.items():
                x = x.unsqueeze(place)
                lengths[place] = length
            return x.expand(lengths)

        def tile(self, x: Tensor, repeats: Any) -> Tensor:
            return x.repeat(repeats)

        def concat(self, tensors: list[Tensor], axis: int) -> Tensor:
            return rg.cat(tensors, axis)

        def add_axis(self, x: Tensor, new_position: int) -> Tensor:
            return x.unsqueeze(new_position)

        def is_float_type(self, x: Tensor) -> bool:
            return x.dtype.kind in FLOATING

        def layers(self) -> ModuleType:
            return import_module("einops.layers.retrograd")

        def einsum(self, pattern: str, *x: Tensor) -> Tensor:
            return rg.einsum(pattern, *x)

    backends.RetrogradBackend = RetrogradBackend  # a strong reference: __subclasses__ has only weak references


class _Layers:
    """Loads ``einops.layers.retrograd``, which is also ``einops.layers.torch`` unless PyTorch is imported."""

    def create_module(self, spec: ModuleSpec) -> None:
        return None

    def exec_module(self, module: ModuleType) -> None:
        mixins = import_module("einops.layers")
        einmix = import_module("einops.layers._einmix")

        class Rearrange(mixins.RearrangeMixin, Module):  # type: ignore[misc, name-defined]
            def forward(self, input: Tensor) -> Any:
                return self._apply_recipe(input)

        rearrange: Any = Rearrange  # Any, because the constructor is that of the mixin

        class Reduce(mixins.ReduceMixin, Module):  # type: ignore[misc, name-defined]
            def forward(self, input: Tensor) -> Any:
                return self._apply_recipe(input)

        class EinMix(einmix._EinmixMixin, Module):  # type: ignore[misc, name-defined]
            def _create_parameters(
                self, weight_shape: Any, weight_bound: Any, bias_shape: Any, bias_bound: Any
            ) -> None:
                self.weight = _uniform(weight_shape, weight_bound)
                self.bias = None if bias_shape is None else _uniform(bias_shape, bias_bound)

            def _create_rearrange_layers(
                self,
                pre_reshape_pattern: Any,
                pre_reshape_lengths: Any,
                post_reshape_pattern: Any,
                post_reshape_lengths: Any,
            ) -> None:
                self.pre_rearrange = pre_reshape_pattern and rearrange(pre_reshape_pattern, **pre_reshape_lengths)
                self.post_rearrange = post_reshape_pattern and rearrange(post_reshape_pattern, **post_reshape_lengths)

            def forward(self, input: Tensor) -> Any:
                from .._generated import toplevel as rg

                x = input if self.pre_rearrange is None else self.pre_rearrange(input)
                x = rg.einsum(self.einsum_pattern, x, self.weight)
                x = x if self.bias is None else x + self.bias
                return x if self.post_rearrange is None else self.post_rearrange(x)

        for layer in (Rearrange, Reduce, EinMix):
            layer.__module__ = module.__name__
            layer.__qualname__ = layer.__name__
            setattr(module, layer.__name__, layer)


def _uniform(shape: Any, bound: float) -> Parameter:
    from .._generated.toplevel import empty
    from ..nn import init

    return Parameter(init.uniform_(empty(tuple(shape)), -bound, bound))


Array = np.ndarray
REGIONS_AT_ONCE = 64
"""Regions whose matrices and intermediate results are in memory at the same time."""


def nms(dets: Tensor, scores: Tensor, iou_threshold: float) -> Tensor:
    """Return the indices of the boxes that remain after non-maximum suppression, by descending score.

    A box is removed if its intersection over union with a box of a higher score exceeds the threshold.

    Args:
        dets: boxes (N, 4): x1, y1, x2, y2.
        scores: their scores (N,).
        iou_threshold: the threshold.
    """
    boxes, values = dets.numpy(force=True), scores.numpy(force=True)
    if boxes.ndim != 2 or boxes.shape[1] != 4 or values.shape != boxes.shape[:1]:
        raise RuntimeError(
            f"nms: expected boxes of shape (N, 4) and scores of shape (N,), got {boxes.shape} and {values.shape}"
        )
    low, high = boxes[:, :2], boxes[:, 2:]
    areas = (high - low).prod(1)
    remaining, kept = np.argsort(-values, kind="stable"), []
    while remaining.size:
        best, rest = remaining[0], remaining[1:]
        kept.append(best)
        sides = np.minimum(high[best], high[rest]) - np.maximum(low[best], low[rest])
        shared = np.clip(sides, 0, None).prod(1)
        with np.errstate(divide="ignore", invalid="ignore"):  # 0 / 0 for boxes without area
            overlap = shared / (areas[best] + areas[rest] - shared)
        remaining = rest[~(overlap > iou_threshold)]
    return as_tensor(np.array(kept, np.int64), device=dets.device)


def _interpolation(start: Array, size: Array, bins: int, sampling_ratio: int, length: int) -> Array:
    """Return matrices (regions, bins, length) that average linear interpolations at the points of each bin."""
    matrices = np.zeros((len(start), bins, length), start.dtype)
    points = np.ceil(size / bins).astype(int) if sampling_ratio <= 0 else np.full(len(start), sampling_ratio)
    for count in np.unique(points):
        chosen = np.flatnonzero(points == count)
        if count <= 0:
            continue
        offsets = np.arange(bins)[:, None] + (np.arange(count) + 0.5) / count
        at = start[chosen, None, None] + offsets * (size[chosen, None, None] / bins)
        inside = (at >= -1) & (at <= length)
        at = np.clip(at, 0, length - 1)
        below = np.floor(at).astype(int)
        above = np.minimum(below + 1, length - 1)
        region, row = chosen[:, None, None], np.arange(bins)[:, None]
        np.add.at(matrices, (region, row, below), inside * (1 - (at - below)) / count)
        np.add.at(matrices, (region, row, above), inside * (at - below) / count)
    return matrices


def _averages(start: Array, end: Array, bins: int, length: int) -> Array:
    """Return matrices (regions, bins, length) that average the whole pixels of each bin."""
    first, last = _edges(start, np.maximum(end - start, 1), bins, length - 1)
    place = np.arange(length)
    inside = (place >= first[..., None]) & (place < last[..., None])
    return inside / np.maximum(inside.sum(-1, keepdims=True), 1)


def _edges(start: Array, size: Array, bins: int, limit: int) -> tuple[Array, Array]:
    """Return the first pixel of each bin of each region, and the pixel after the bin's last pixel."""
    width = size / bins
    number = np.arange(bins)
    first = np.floor(number * width[:, None]) + start[:, None]
    last = np.ceil((number + 1) * width[:, None]) + start[:, None]
    return np.clip(first, 0, limit).astype(int), np.clip(last, 0, limit).astype(int)


def _pooled(input: Tensor, image: Array, rows: Array, columns: Array, equation: str) -> Tensor:
    """Apply the matrices of each region to its image, for some regions at a time."""
    parts = []
    for first in range(0, len(image), REGIONS_AT_ONCE):
        part = slice(first, first + REGIONS_AT_ONCE)
        y, x = (as_tensor(m[part].astype(input.array.dtype), device=input.device) for m in (rows, columns))
        parts.append(einsum(equation, y, x, input[as_tensor(image[part], device=input.device)]))
    return cat(parts)


def _regions(name: str, input: Tensor, rois: Tensor) -> tuple[Array, Array, Array]:
    """Return the image of each region, and its corners (regions, 2), x before y."""
    if input.ndim != 4 or rois.ndim != 2 or rois.shape[1] != 5:
        raise RuntimeError(
            f"{name}: expected an input (N, C, H, W) and regions (K, 5), "
            f"got {tuple(input.shape)} and {tuple(rois.shape)}"
        )
    if input.dtype != rois.dtype:
        raise RuntimeError(f"{name}: input and rois must have the same dtype, got {input.dtype} and {rois.dtype}")
    values = rois.numpy(force=True)
    image = values[:, 0].astype(np.int64)
    if image.size and not 0 <= image.min() <= image.max() < input.shape[0]:
        raise RuntimeError(f"{name}: rois refer to images {image.min()} to {image.max()} of {input.shape[0]}")
    return image, values[:, 1:3], values[:, 3:]


def roi_align(
    input: Tensor,
    rois: Tensor,
    spatial_scale: float,
    pooled_height: int,
    pooled_width: int,
    sampling_ratio: int,
    aligned: bool,
) -> Tensor:
    """Average linear interpolations of regions of images (He et al. 2017, Mask R-CNN).

    Args:
        input: images (N, C, H, W).
        rois: regions (K, 5): the number of the image, x1, y1, x2, y2.
        spatial_scale: factor from the coordinates of the regions to those of the images.
        pooled_height, pooled_width: size of the result.
        sampling_ratio: points per bin and dimension; 0 or less for one point per pixel.
        aligned: whether pixels have their centers at half-integer coordinates.

    Returns:
        A Tensor (K, C, pooled_height, pooled_width).
    """
    image, low, high = _regions("roi_align", input, rois)
    if not len(image):
        return zeros(0, input.shape[1], pooled_height, pooled_width, dtype=input.dtype, device=input.device)
    start = low * spatial_scale - 0.5 * aligned
    size = high * spatial_scale - 0.5 * aligned - start
    if not aligned:
        size = np.maximum(size, 1)
    rows = _interpolation(start[:, 1], size[:, 1], pooled_height, sampling_ratio, input.shape[2])
    columns = _interpolation(start[:, 0], size[:, 0], pooled_width, sampling_ratio, input.shape[3])
    return _pooled(input, image, rows, columns, "kiy,kjx,kcyx->kcij")


def _position_sensitive(input: Tensor, image: Array, rows: Array, columns: Array) -> tuple[Tensor, Tensor]:
    """Pool every bin from its own channel (Dai et al. 2016, R-FCN). Also return the channel of each bin."""
    height, width = rows.shape[1], columns.shape[1]
    n, channels, *sides = input.shape
    if channels % (height * width):
        raise RuntimeError(
            f"input channels must be a multiple of pooling height * pooling width, got {channels} and {height}x{width}"
        )
    shape = len(image), channels // (height * width), height, width
    mapping = np.broadcast_to(np.arange(channels, dtype=np.int32).reshape(shape[1:]), shape)
    if not len(image):
        return zeros(shape, dtype=input.dtype, device=input.device), as_tensor(mapping.copy(), device=input.device)
    result = _pooled(input.reshape(n, *shape[1:], *sides), image, rows, columns, "kiy,kjx,kcijyx->kcij")
    return result, as_tensor(mapping.copy(), device=input.device)


def ps_roi_align(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int, sampling_ratio: int
) -> tuple[Tensor, Tensor]:
    """Return ``roi_align`` where every bin reads its own channel, and the channel of each bin."""
    image, low, high = _regions("ps_roi_align", input, rois)
    start, end = low * spatial_scale - 0.5, high * spatial_scale - 0.5
    size = end - start
    rows = _interpolation(start[:, 1], size[:, 1], pooled_height, sampling_ratio, input.shape[2])
    columns = _interpolation(start[:, 0], size[:, 0], pooled_width, sampling_ratio, input.shape[3])
    return _position_sensitive(input, image, rows, columns)


def _rounded(x: Array) -> Array:
    """Return the nearest integers; halves are rounded away from zero, as in C."""
    return np.trunc(x + np.copysign(0.5, x))


def ps_roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Return averages of the whole pixels of regions, where every bin reads its own channel, and the bins' channels.

    As in torchvision, the last row and the last column of an image belong to no bin.
    """
    image, low, high = _regions("ps_roi_pool", input, rois)
    start, end = _rounded(low * spatial_scale), _rounded(high * spatial_scale)
    rows = _averages(start[:, 1], end[:, 1], pooled_height, input.shape[2])
    columns = _averages(start[:, 0], end[:, 0], pooled_width, input.shape[3])
    return _position_sensitive(input, image, rows, columns)


def roi_pool(
    input: Tensor, rois: Tensor, spatial_scale: float, pooled_height: int, pooled_width: int
) -> tuple[Tensor, Tensor]:
    """Return the maxima of the whole pixels of regions (Girshick 2015, Fast R-CNN), and their positions.

    A bin without pixels gives 0 and the position -1.
    """
    image, low, high = _regions("roi_pool", input, rois)
    height, width = input.shape[2:]
    start, end = _rounded(low * spatial_scale), _rounded(high * spatial_scale)
    size = np.maximum(end - start + 1, 1)
    tops, bottoms = _edges(start[:, 1], size[:, 1], pooled_height, height)
    lefts, rights = _edges(start[:, 0], size[:, 0], pooled_width, width)
    pixels = input.numpy(force=True)
    position = np.full((len(image), input.shape[1], pooled_height, pooled_width), -1, np.int32)
    for k, i, j in np.ndindex(len(image), pooled_height, pooled_width):
        top, bottom, left, right = tops[k, i], bottoms[k, i], lefts[k, j], rights[k, j]
        if bottom > top and right > left:
            window = pixels[image[k], :, top:bottom, left:right].reshape(input.shape[1], -1)
            y, x = np.divmod(window.argmax(1), right - left)
            position[k, :, i, j] = (top + y) * width + left + x
    argmax = as_tensor(position, device=input.device)
    flat = input.flatten(2)[as_tensor(image, device=input.device)]
    maxima = flat.gather(2, argmax.long().clamp(min=0).flatten(2)).reshape(argmax.shape)
    return maxima * (argmax >= 0), argmax


def deform_conv2d(
    input: Tensor,
    weight: Tensor,
    offset: Tensor,
    mask: Tensor,
    bias: Tensor,
    stride_h: int,
    stride_w: int,
    pad_h: int,
    pad_w: int,
    dilation_h: int,
    dilation_w: int,
    groups: int,
    offset_groups: int,
    use_mask: bool,
) -> Tensor:
    """Convolve at positions that are moved by ``offset`` and weighted by ``mask`` (Dai et al. 2017, Zhu et al. 2018).

    Values between pixels are interpolated linearly, and pixels outside of the image are 0.

    Args:
        input: images (N, C, H, W).
        weight: (out channels, C / groups, kernel height, kernel width).
        offset: (N, 2 * offset_groups * kernel size, out height, out width), y before x.
        mask: (N, offset_groups * kernel size, out height, out width), used if ``use_mask``.
        bias: (out channels,).
        stride_h, stride_w, pad_h, pad_w, dilation_h, dilation_w, groups: as in ``conv2d``.
        offset_groups: number of groups of channels with their own offsets.
        use_mask: whether ``mask`` is used.
    """
    n, channels, height, width = input.shape
    out_channels, _, kernel_h, kernel_w = weight.shape
    taps = kernel_h * kernel_w
    out_h, out_w = offset.shape[2:]
    expected = (
        (height + 2 * pad_h - dilation_h * (kernel_h - 1) - 1) // stride_h + 1,
        (width + 2 * pad_w - dilation_w * (kernel_w - 1) - 1) // stride_w + 1,
    )
    if (out_h, out_w) != expected or offset.shape[1] != 2 * offset_groups * taps:
        wanted = (n, 2 * offset_groups * taps, *expected)
        raise RuntimeError(f"deform_conv2d: offset must have shape {wanted}, got {tuple(offset.shape)}")
    moved = offset.reshape(n, offset_groups, taps, 2, out_h, out_w)
    grid_h = np.arange(kernel_h).repeat(kernel_w)[:, None] * dilation_h - pad_h + np.arange(out_h) * stride_h
    grid_w = np.tile(np.arange(kernel_w), kernel_h)[:, None] * dilation_w - pad_w + np.arange(out_w) * stride_w
    dtype = input.array.dtype
    y = moved[:, :, :, 0] + as_tensor(grid_h[:, :, None].astype(dtype), device=input.device)
    x = moved[:, :, :, 1] + as_tensor(grid_w[:, None, :].astype(dtype), device=input.device)
    flat = input.reshape(n, offset_groups, channels // offset_groups, height * width)
    top, left = y.detach().floor(), x.detach().floor()
    columns = zeros(1, dtype=input.dtype, device=input.device)
    for down, right in ((0, 0), (0, 1), (1, 0), (1, 1)):
        row, column = top + down, left + right
        share = (y - top if down else 1 - (y - top)) * (x - left if right else 1 - (x - left))
        inside = (row >= 0) & (row < height) & (column >= 0) & (column < width)
        place = (row.clamp(0, height - 1) * width + column.clamp(0, width - 1)).long().flatten(2)
        values = flat.gather(3, place.unsqueeze(2).expand(-1, -1, channels // offset_groups, -1))
        columns = columns + values * (share * inside).flatten(2).unsqueeze(2)
    if use_mask:
        columns = columns * mask.reshape(n, offset_groups, 1, taps * out_h * out_w)
    columns = columns.reshape(n, groups, channels // groups * taps, out_h * out_w)
    kernels = weight.reshape(groups, out_channels // groups, channels // groups * taps)
    result = (kernels @ columns).reshape(n, out_channels, out_h, out_w)
    return result + bias.reshape(-1, 1, 1)


def _cuda_version() -> int:
    return -1


def _missing(name: str) -> Callable[..., NoReturn]:
    def function(*args: object, **kwargs: object) -> NoReturn:
        raise NotImplementedError(f"torch.ops.torchvision.{name} is not available in Retrograd")

    return function


_BACKWARDS = "roi_align roi_pool ps_roi_align ps_roi_pool deform_conv2d"
_OTHERS = [f"_{name}_backward" for name in _BACKWARDS.split()] + ["qnms", "qroi_align", "box_iou_rotated"]
OPERATORS: dict[str, Callable[..., object]] = {
    **{
        function.__name__: function
        for function in (_cuda_version, deform_conv2d, nms, ps_roi_align, ps_roi_pool, roi_align, roi_pool)
    },
    **{name: _missing(name) for name in _OTHERS},
}
