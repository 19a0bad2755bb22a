"""The compiled loops of convolution against their references."""

from __future__ import annotations

import numpy as np
import pytest

import retrograd as rg
import retrograd.nn.functional as F
from retrograd import kernels
from retrograd.kernels.loops.images import convolution
from retrograd.kernels.runtime import threads
from retrograd.ops.nn.spatial import convolution_primitives

pytestmark = pytest.mark.slow  # all of them compile loops

if not kernels.available():
    pytest.skip("there are no compiled loops", allow_module_level=True)
if not kernels.multiplies():
    pytest.skip("no BLAS of NumPy's found", allow_module_level=True)

# Images, channels, outs, groups, kernel, size, options
SHAPES = {
    "one element": (1, 1, 1, 1, (1,), (1,), {}),
    "as in most networks": (5, 3, 4, 1, (3, 3), (9, 14), {"padding": 1}),
    "small images side by side": (19, 4, 3, 1, (3, 3), (4, 5), {"padding": 1}),
    "small images, many channels": (70, 130, 140, 1, (3, 3), (3, 3), {"padding": 1, "stride": 2}),
    "groups": (3, 8, 12, 4, (3, 2), (9, 8), {"stride": (2, 1), "dilation": (1, 2)}),
    "depthwise": (3, 6, 12, 6, (3, 3), (12, 11), {"padding": 1}),
    "depthwise with steps": (3, 6, 6, 6, (3, 5), (12, 11), {"padding": (0, 3), "stride": 2, "dilation": (2, 1)}),
    "single elements": (3, 5, 70, 1, (1, 1), (13, 12), {}),
    "single elements with steps": (20, 5, 7, 1, (1, 1), (5, 5), {"stride": 2}),
    "one axis": (3, 4, 5, 1, (5,), (700,), {"stride": 3, "dilation": 2}),
    "more padding than image": (2, 3, 4, 1, (5,), (3,), {"padding": 40}),
    "three axes": (
        2,
        3,
        4,
        1,
        (2, 3, 3),
        (4, 5, 6),
        {"stride": (1, 2, 1), "padding": (1, 1, 0), "dilation": (2, 1, 1)},
    ),
    "many lines": (1, 16, 5, 1, (3, 3), (120, 90), {"padding": 1}),
    "kernel as large as the padded image": (70, 2, 3, 1, (7, 7), (5, 5), {"padding": 1}),
    "kernels as large as the image": (70, 4, 6, 2, (7, 7), (7, 7), {}),
    "short lines by turns": (19, 4, 3, 1, (3, 3), (4, 4), {"padding": 1}),
    "short lines by turns, with steps": (21, 8, 12, 4, (4, 3), (8, 8), {"padding": (1, 1), "stride": 2}),
    "steps of two": (2, 3, 20, 1, (3, 3), (24, 75), {"padding": 1, "stride": 2}),
    "along lines, with more padding than kernel": (
        2,
        3,
        4,
        1,
        (5, 3),
        (20, 37),
        {"padding": (7, 3), "dilation": (2, 3)},
    ),
    "along lines of planes": (2, 3, 4, 1, (3, 3, 3), (5, 8, 20), {"padding": 1, "stride": (2, 1, 1)}),
    "short lines of planes by turns": (17, 3, 4, 1, (2, 3, 3), (3, 2, 4), {"padding": (0, 1, 1)}),
}


def operands(name, dtype=np.float32):
    n, channels, outs, groups, kernel, size, options = SHAPES[name]
    rng = np.random.default_rng(0)
    x, w = rng.standard_normal((n, channels, *size)), rng.standard_normal((outs, channels // groups, *kernel))
    return x.astype(dtype), w.astype(dtype), rng.standard_normal(outs).astype(dtype), options | {"groups": groups}


def with_gradients(function, *arrays, **options):
    leaves = [rg.tensor(array, requires_grad=True) for array in arrays]
    y = function(*leaves, **options)
    g = np.random.default_rng(1).standard_normal(y.shape).astype(arrays[0].dtype)
    y.backward(rg.tensor(g))
    return [y.detach().numpy(), *[leaf.grad.numpy() for leaf in leaves]]


@pytest.fixture
def compiled(monkeypatch):
    monkeypatch.setattr(convolution, "WORTHWHILE", 1)
    monkeypatch.setattr(convolution, "CACHED", 1 << 14)  # several tiles
    monkeypatch.setattr(convolution, "DEEP", 9)
    convolution._tile.cache_clear()


@pytest.mark.parametrize("dtype", [np.float32, pytest.param(np.float64, marks=pytest.mark.slow)])
@pytest.mark.parametrize("transposed", [False, True], ids=["convolution", "transposed"])
@pytest.mark.parametrize("name", SHAPES)
def test_loops_agree_with_the_reference(name, transposed, dtype, compiled, monkeypatch):
    x, w, b, options = operands(name, dtype)
    axes = x.ndim - 2
    function = getattr(F, f"conv{axes}d")
    if transposed:
        x = function(rg.tensor(x), rg.tensor(w), **options).numpy()
        b = np.resize(b, w.shape[1] * options["groups"])
        function = getattr(F, f"conv_transpose{axes}d")
    found = with_gradients(function, x, w, b, **options)
    monkeypatch.setattr(convolution, "WORTHWHILE", 1 << 60)
    for ours, reference in zip(found, with_gradients(function, x, w, b, **options), strict=True):
        assert ours.dtype == reference.dtype and ours.shape == reference.shape
        tolerance = 4 * np.sqrt(x.size) * np.finfo(dtype).eps
        np.testing.assert_allclose(ours, reference, rtol=0, atol=tolerance * np.abs(reference).max())


@pytest.mark.parametrize("name", ["as in most networks", "small images, many channels", "depthwise", "many lines"])
def test_the_number_of_threads_does_not_show(name, compiled, monkeypatch):
    x, w, b, options = operands(name)
    results = []
    for count in (1, 3):
        monkeypatch.setattr(threads, "count", lambda count=count: count)
        results.append(with_gradients(F.conv2d, x, w, b, **options))
    for one, three in zip(*results, strict=True):
        np.testing.assert_array_equal(one, three)


@pytest.mark.parametrize("shape", [(5, 3, 4, 6), (40, 64, 4, 4), (40, 64, 9)])
def test_a_window_that_is_the_whole_image_is_a_product(shape):
    draw = np.random.default_rng(0)
    x, w, b = [draw.standard_normal(s).astype("f") for s in [shape, (7, *shape[1:]), (7,)]]
    axes = len(shape) - 2
    letters = "chwd"[: axes + 1]
    wanted = with_gradients(lambda x, w, b: rg.einsum(f"n{letters},o{letters}->no", x, w) + b, x, w, b)
    found = with_gradients(lambda *args: getattr(F, f"conv{axes}d")(*args).flatten(1), x, w, b)
    for ours, reference in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=0, atol=1e-5 * abs(reference).max())
    y, b = draw.standard_normal((shape[0], 7)).astype("f"), draw.standard_normal(shape[1]).astype("f")
    back = getattr(F, f"conv_transpose{axes}d")
    wanted = with_gradients(
        lambda y, w, b: rg.einsum(f"no,o{letters}->n{letters}", y, w) + b.reshape(-1, *(1,) * axes), y, w, b
    )
    found = with_gradients(lambda y, w, b: back(y.reshape(*y.shape, *(1,) * axes), w, b), y, w, b)
    for ours, reference in zip(found, wanted, strict=True):
        np.testing.assert_allclose(ours, reference, rtol=0, atol=1e-5 * abs(reference).max())


FEW_WINDOWS = {
    "one image": (1, 32, 64, 1, (3, 3), (4, 4), {"padding": 1}),
    "some images": (3, 48, 64, 1, (3, 3), (4, 3), {"padding": 1}),
    "steps": (2, 40, 50, 1, (3, 2), (7, 8), {"stride": (3, 2), "dilation": (1, 2), "padding": (0, 1)}),
    "a line": (2, 60, 64, 1, (5,), (11,), {"padding": 1}),
    "a volume": (1, 16, 32, 1, (2, 3, 3), (3, 4, 4), {"padding": (0, 1, 0)}),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("transposed", [False, True], ids=["convolution", "transposed"])
@pytest.mark.parametrize("name", FEW_WINDOWS)
def test_few_windows_are_one_product(name, transposed, dtype, monkeypatch):
    monkeypatch.setitem(SHAPES, name, FEW_WINDOWS[name])
    x, w, b, options = operands(name, dtype)
    function = getattr(F, f"conv{x.ndim - 2}d")
    if transposed:
        x = function(rg.tensor(x), rg.tensor(w), **options).numpy()
        b = np.resize(b, w.shape[1])
        function = getattr(F, f"conv_transpose{x.ndim - 2}d")
    chosen = []
    is_narrow = convolution_primitives._is_narrow
    monkeypatch.setattr(
        convolution_primitives, "_is_narrow", lambda *args: chosen.append(is_narrow(*args)) or chosen[-1]
    )
    found = with_gradients(function, x, w, b, **options)
    assert chosen and all(chosen)
    monkeypatch.setattr(convolution_primitives, "_is_narrow", lambda *args: False)
    for ours, reference in zip(found, with_gradients(function, x, w, b, **options), strict=True):
        assert ours.dtype == reference.dtype and ours.shape == reference.shape and ours.flags.c_contiguous
        tolerance = 4 * np.sqrt(x.size) * np.finfo(dtype).eps
        np.testing.assert_allclose(ours, reference, rtol=0, atol=tolerance * np.abs(reference).max())


def test_operands_may_lie_anyhow(compiled):
    x, w, b, options = operands("as in most networks")
    wanted = with_gradients(F.conv2d, x, w, b, **options)
    channels_last = np.ascontiguousarray(x.transpose(0, 2, 3, 1)).transpose(0, 3, 1, 2)
    strided = np.repeat(w, 2, axis=3)[..., ::2]
    for ours, reference in zip(with_gradients(F.conv2d, channels_last, strided, b, **options), wanted, strict=True):
        np.testing.assert_array_equal(ours, reference)
    leaf = rg.tensor(x, requires_grad=True)
    F.conv2d(leaf, rg.tensor(w), **options).sum().backward()  # a cotangent without strides
    dense = rg.tensor(x, requires_grad=True)
    F.conv2d(dense, rg.tensor(w), **options).backward(rg.ones(5, 4, 9, 14))
    np.testing.assert_array_equal(leaf.grad.numpy(), dense.grad.numpy())


def test_no_image_needs_no_loop_and_an_empty_one_is_refused(compiled):
    y, dx, dw, db = with_gradients(F.conv2d, *[np.ones(s, np.float32) for s in [(0, 3, 5, 5), (4, 3, 3, 3), (4,)]])
    assert y.shape == (0, 4, 3, 3) and dx.shape == (0, 3, 5, 5) and not dw.any() and not db.any()
    with pytest.raises(RuntimeError, match="only the batch and the channels"):
        F.conv2d(rg.ones(2, 3, 0, 5), rg.ones(4, 3, 2, 3), padding=2)


@pytest.mark.parametrize("name", ["as in most networks", "groups", "depthwise", "single elements", "one axis"])
def test_convolutions_are_their_references_on_either_backend(name, compiled, on_backend):
    x, w, b, options = operands(name)
    on_backend(lambda *given: getattr(F, f"conv{x.ndim - 2}d")(*given, **options), x, w, b, rtol=1e-4)
