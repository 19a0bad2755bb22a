"""torchvision's compiled operators: against loops over single pixels, and by their derivatives."""

from __future__ import annotations

import math

import numpy as np
import pytest

import retrograd as rg
from retrograd.autograd import gradcheck
from retrograd.compat import packages as tv

RNG = np.random.default_rng(0)
IMAGES = RNG.standard_normal((2, 8, 11, 9))
LOW = RNG.uniform(-2, 8, (6, 2))
REGIONS = np.concatenate([RNG.integers(0, 2, (6, 1)), LOW, LOW + RNG.uniform(0.2, 12, (6, 2))], 1)


def interpolated(image, y, x):
    """One value between pixels, as torchvision's documentation of RoIAlign has it."""
    height, width = image.shape
    if y < -1 or y > height or x < -1 or x > width:
        return 0.0
    y, x = min(max(y, 0), height - 1), min(max(x, 0), width - 1)
    top, left = int(y), int(x)
    bottom, right = min(top + 1, height - 1), min(left + 1, width - 1)
    upper = image[top, left] * (1 - (x - left)) + image[top, right] * (x - left)
    lower = image[bottom, left] * (1 - (x - left)) + image[bottom, right] * (x - left)
    return upper * (1 - (y - top)) + lower * (y - top)


def aligned_by_loops(scale, bins, ratio, aligned, own_channels=False):
    channels = IMAGES.shape[1] // (bins[0] * bins[1] if own_channels else 1)
    result = np.zeros((len(REGIONS), channels, *bins))
    for k, (image, x1, y1, x2, y2) in enumerate(REGIONS):
        start = np.array([y1, x1]) * scale - 0.5 * aligned
        size = np.array([y2, x2]) * scale - 0.5 * aligned - start
        if not aligned:
            size = np.maximum(size, 1)
        points = [ratio if ratio > 0 else math.ceil(size[d] / bins[d]) for d in (0, 1)]
        for c, i, j in np.ndindex(channels, *bins):
            plane = IMAGES[int(image), (c * bins[0] + i) * bins[1] + j if own_channels else c]
            values = [
                interpolated(
                    plane,
                    start[0] + (i + (a + 0.5) / points[0]) * size[0] / bins[0],
                    start[1] + (j + (b + 0.5) / points[1]) * size[1] / bins[1],
                )
                for a in range(points[0])
                for b in range(points[1])
            ]
            result[k, c, i, j] = np.mean(values)
    return result


def pooled_by_loops(scale, bins, function, last, extra, own_channels=False):
    channels = IMAGES.shape[1] // (bins[0] * bins[1] if own_channels else 1)
    result = np.zeros((len(REGIONS), channels, *bins))
    height, width = IMAGES.shape[2] - last, IMAGES.shape[3] - last
    for k, (image, *corners) in enumerate(REGIONS):
        x1, y1, x2, y2 = (math.floor(abs(v * scale) + 0.5) * (1 if v > 0 else -1) for v in corners)
        rows, columns = max(y2 - y1 + extra, 1), max(x2 - x1 + extra, 1)
        for c, i, j in np.ndindex(channels, *bins):
            plane = IMAGES[int(image), (c * bins[0] + i) * bins[1] + j if own_channels else c]
            top, bottom = (
                min(max(round_(n * rows / bins[0]) + y1, 0), height)
                for n, round_ in ((i, math.floor), (i + 1, math.ceil))
            )
            left, right = (
                min(max(round_(n * columns / bins[1]) + x1, 0), width)
                for n, round_ in ((j, math.floor), (j + 1, math.ceil))
            )
            if bottom > top and right > left:
                result[k, c, i, j] = function(plane[top:bottom, left:right])
    return result


def tensors(**options):
    return rg.tensor(IMAGES, **options), rg.tensor(REGIONS)


@pytest.mark.parametrize("aligned", [False, True])
@pytest.mark.parametrize("ratio", [-1, 2])
def test_roi_align_averages_interpolations(ratio, aligned):
    x, regions = tensors()
    result = tv.roi_align(x, regions, 0.7, 3, 2, ratio, aligned)
    np.testing.assert_allclose(result.numpy(), aligned_by_loops(0.7, (3, 2), ratio, aligned), atol=1e-12)


def test_position_sensitive_roi_align_reads_a_channel_per_bin():
    x, regions = tensors()
    result, mapping = tv.ps_roi_align(x, regions, 0.7, 2, 2, 2)
    np.testing.assert_allclose(result.numpy(), aligned_by_loops(0.7, (2, 2), 2, True, True), atol=1e-12)
    assert mapping[0].flatten().tolist() == list(range(8)) and mapping.dtype == rg.int32


def test_roi_pool_takes_maxima_and_their_positions():
    x, regions = tensors()
    result, position = tv.roi_pool(x, regions, 0.7, 3, 2)
    np.testing.assert_allclose(result.numpy(), pooled_by_loops(0.7, (3, 2), np.max, 0, 1), atol=1e-12)
    image = x[int(REGIONS[0, 0]), 0].flatten()
    assert all(v == 0 if at < 0 else v == image[at] for v, at in zip(result[0, 0].flatten(), position[0, 0].flatten()))


def test_position_sensitive_roi_pool_averages_whole_pixels():
    x, regions = tensors()
    result, _ = tv.ps_roi_pool(x, regions, 0.7, 2, 2)
    np.testing.assert_allclose(result.numpy(), pooled_by_loops(0.7, (2, 2), np.mean, 1, 0, True), atol=1e-12)


@pytest.mark.parametrize("name", ["roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool"])
def test_pooling_of_regions_has_the_derivative_of_its_value(name):
    options = {"roi_align": (2, True), "ps_roi_align": (2,)}.get(name, ())
    x = rg.tensor(IMAGES[:, :4, :5, :5], requires_grad=True)
    regions = rg.tensor(REGIONS[:3])

    def value(x):
        result = getattr(tv, name)(x, regions, 0.5, 2, 2, *options)
        return result[0] if isinstance(result, tuple) else result

    assert gradcheck(value, (x,))


@pytest.mark.parametrize("name", ["roi_align", "ps_roi_align", "roi_pool", "ps_roi_pool"])
def test_no_regions_give_an_empty_result(name):
    options = {"roi_align": (2, True), "ps_roi_align": (2,)}.get(name, ())
    result = getattr(tv, name)(rg.tensor(IMAGES), rg.zeros(0, 5, dtype=rg.float64), 1.0, 2, 2, *options)
    result = result[0] if isinstance(result, tuple) else result
    assert tuple(result.shape) == (0, 8 if name in ("roi_align", "roi_pool") else 2, 2, 2)


def test_regions_that_do_not_fit_are_refused():
    x, regions = tensors()
    with pytest.raises(RuntimeError, match=r"roi_align: expected an input \(N, C, H, W\) and regions \(K, 5\)"):
        tv.roi_align(x, regions[:, 1:], 1.0, 2, 2, 2, True)
    with pytest.raises(RuntimeError, match="same dtype"):
        tv.roi_align(x, regions.float(), 1.0, 2, 2, 2, True)
    with pytest.raises(RuntimeError, match="rois refer to images 5 to 5 of 2"):
        tv.roi_align(x, rg.tensor([[5.0, 0, 0, 1, 1]], dtype=rg.float64), 1.0, 2, 2, 2, True)
    with pytest.raises(RuntimeError, match="multiple of pooling"):
        tv.ps_roi_align(x, regions, 1.0, 3, 3, 2)


def test_nms_keeps_the_best_of_boxes_that_overlap():
    boxes = rg.tensor([[0.0, 0, 10, 10], [1, 1, 11, 11], [20, 20, 30, 30], [0, 0, 10, 10.5], [5, 5, 5, 5]])
    scores = rg.tensor([0.5, 0.9, 0.1, 0.7, 0.2])
    kept = tv.nms(boxes, scores, 0.5)
    assert kept.tolist() == [1, 4, 2] and kept.dtype == rg.int64
    assert tv.nms(boxes, scores, 1.0).tolist() == [1, 3, 0, 4, 2]
    assert tv.nms(rg.zeros(0, 4), rg.zeros(0), 0.5).tolist() == []
    with pytest.raises(RuntimeError, match=r"nms: expected boxes of shape \(N, 4\)"):
        tv.nms(scores, scores, 0.5)


def deformed(x, weight, offset, mask, bias, options, groups=1, offset_groups=1):
    return tv.deform_conv2d(x, weight, offset, mask, bias, *options, groups, offset_groups, mask.numel() > 1)


def test_deform_conv2d_without_offsets_is_conv2d():
    x, weight, bias = (rg.tensor(RNG.standard_normal(s)) for s in ((2, 4, 7, 8), (6, 2, 3, 2), (6,)))
    size = rg.nn.functional.conv2d(x, weight, bias, (2, 1), (1, 2), (1, 2), groups=2)
    offset = rg.zeros(2, 2 * 2 * 6, *size.shape[2:], dtype=rg.float64)
    result = deformed(x, weight, offset, rg.zeros(1), bias, (2, 1, 1, 2, 1, 2), 2, 2)
    np.testing.assert_allclose(result.numpy(), size.numpy(), atol=1e-12)


def test_deform_conv2d_samples_at_moved_positions():
    x, weight, bias = RNG.standard_normal((1, 2, 6, 5)), RNG.standard_normal((3, 2, 2, 2)), RNG.standard_normal(3)
    offset, mask = 1.5 * RNG.standard_normal((1, 8, 5, 4)), RNG.uniform(0, 1, (1, 4, 5, 4))
    result = deformed(*map(rg.tensor, (x, weight, offset, mask, bias)), (1, 1, 0, 0, 1, 1))
    padded = np.pad(x[0], ((0, 0), (1, 1), (1, 1)))
    expected = np.zeros((3, 5, 4))
    for o, i, j in np.ndindex(3, 5, 4):
        expected[o, i, j] = bias[o]
        for c, a, b in np.ndindex(2, 2, 2):
            tap = a * 2 + b
            y, z = i + a + offset[0, 2 * tap, i, j], j + b + offset[0, 2 * tap + 1, i, j]
            inside = -1 < y < 6 and -1 < z < 5
            value = interpolated(padded[c], y + 1, z + 1) if inside else 0.0
            expected[o, i, j] += weight[o, c, a, b] * mask[0, tap, i, j] * value
    np.testing.assert_allclose(result[0].numpy(), expected, atol=1e-12)


def test_deform_conv2d_has_derivatives_in_all_inputs():
    shapes = (1, 2, 4, 4), (2, 2, 2, 2), (1, 8, 3, 3), (1, 4, 3, 3), (2,)
    inputs = tuple(rg.tensor(0.7 * RNG.standard_normal(shape), requires_grad=True) for shape in shapes)
    assert gradcheck(lambda *given: deformed(*given, (1, 1, 0, 0, 1, 1)), inputs)
    with pytest.raises(RuntimeError, match=r"offset must have shape \(1, 8, 3, 3\), got \(1, 8, 3, 2\)"):
        deformed(inputs[0], inputs[1], inputs[2][..., :2], *inputs[3:], (1, 1, 0, 0, 1, 1))


def test_the_derivative_at_a_whole_offset_is_the_one_from_the_right():
    x = rg.tensor([[[[0.0, 1.0, 3.0]]]], dtype=rg.float64)
    offset = rg.zeros(1, 2, 1, 3, dtype=rg.float64, requires_grad=True)
    one = rg.ones(1, 1, 1, 1, dtype=rg.float64)
    deformed(x, one, offset, rg.zeros(1), rg.zeros(1, dtype=rg.float64), (1, 1, 0, 0, 1, 1)).sum().backward()
    assert offset.grad[0, 1, 0].tolist() == [1.0, 2.0, -3.0]
