"""Cases of convolutions, of unfold and fold, of padding, and of interpolate, grid_sample and affine_grid."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import product
from typing import Any

import numpy as np

from ...case import Call, Calls, Case
from ..shape import normals

Shape = tuple[int, ...]


def convolutions(axes: int, several: list[tuple[Shape, Shape, bool, dict[str, Any]]]) -> Callable[..., Iterator[Call]]:
    """Return calls from (input shape, weight shape, whether there is a bias, keywords), given for one dimension.

    Every axis after the first is a little shorter, so that exchanged axes cause an error.
    """

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for shape, weight, bias, keywords in several:
            kernel = weight[2:] * axes if len(weight) == 3 else weight[2:]
            length = shape[-1]
            size = tuple(max(length - axis, 1) for axis in range(axes))
            x, w = rng.standard_normal(shape[:-1] + size), rng.standard_normal((*weight[:2], *kernel))
            channels = weight[1] * keywords.get("groups", 1) if "output_padding" in keywords else weight[0]
            yield Call(x, w, rng.standard_normal(channels), **keywords) if bias else Call(x, w, **keywords)

    return calls


STRAIGHT: list[tuple[Shape, Shape, bool, dict[str, object]]] = [
    ((2, 2, 4), (3, 2, 2), True, {}),
    ((2, 2, 4), (2, 2, 3), False, {"stride": 2, "padding": 1}),
    ((2, 4, 5), (2, 2, 2), True, {"dilation": 2, "padding": 2, "groups": 2}),
    ((1, 3, 4), (3, 1, 3), False, {"groups": 3, "padding": "same"}),
    ((1, 1, 4), (6, 1, 2), False, {"padding": "valid"}),
    ((2, 3, 3), (2, 3, 1), True, {}),
    ((2, 4), (3, 2, 2), True, {"stride": 3, "padding": 1}),
]
TRANSPOSED: list[tuple[Shape, Shape, bool, dict[str, object]]] = [
    ((2, 2, 3), (2, 3, 2), True, {"output_padding": 0}),
    ((1, 2, 3), (2, 2, 3), False, {"stride": 2, "padding": 1, "output_padding": 1}),
    ((1, 4, 3), (4, 2, 2), True, {"dilation": 2, "groups": 2, "output_padding": 1}),
    ((1, 6, 4), (6, 1, 2), False, {"padding": 1}),
    ((2, 3), (2, 1, 3), False, {"stride": 3}),
]


def empty_batches(axes: int, transposed: bool = False) -> Callable[[np.random.Generator], Iterator[Call]]:
    """A batch of no images."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        weight = (2, 3) if transposed else (3, 2)
        yield Call(np.ones((0, 2) + (4,) * axes), rng.standard_normal(weight + (2,) * axes))

    return calls


def unfolds(rng: np.random.Generator) -> Iterator[Call]:
    """Each option of unfold."""
    yield Call(rng.standard_normal((2, 2, 4, 3)), 2)
    yield Call(rng.standard_normal((1, 2, 5, 4)), (2, 3), padding=(1, 2), stride=(2, 1))
    yield Call(rng.standard_normal((2, 5, 4)), 2, dilation=(3, 2))


def folds(rng: np.random.Generator) -> Iterator[Call]:
    """Each option of fold."""
    yield Call(rng.standard_normal((2, 8, 6)), (4, 3), 2)
    yield Call(rng.standard_normal((1, 12, 18)), (5, 4), (2, 3), padding=(1, 2), stride=(2, 1))
    yield Call(rng.standard_normal((8, 4)), (5, 4), 2, dilation=(3, 2))


CASES = [
    *[
        Case(
            f"nn.functional.conv{axes}d",
            convolutions(axes, STRAIGHT),
            edge_calls=empty_batches(axes),
            dtypes=("float32",),
        )
        for axes in (1, 2, 3)
    ],
    *[
        Case(
            f"nn.functional.conv_transpose{axes}d",
            convolutions(axes, TRANSPOSED),
            edge_calls=empty_batches(axes, transposed=True),
            dtypes=("float32",),
        )
        for axes in (1, 2, 3)
    ],
    Case("nn.functional.unfold", unfolds),
    Case("nn.functional.fold", folds),
]


def conv_tbc_calls(rng: np.random.Generator) -> Iterator[Call]:
    for pad in (0, 2):
        yield Call(rng.standard_normal((5, 2, 3)), rng.standard_normal((2, 3, 4)), rng.standard_normal(4), pad)


CASES.append(Case("conv_tbc", conv_tbc_calls, torch=""))


# padding

CASES += [
    Case(
        "constant_pad_nd",
        normals(
            lambda n: Call(n(2, 3), (1, 2)),
            lambda n: Call(n(2, 3), (1, -1, 0, 2), 1.5),
            lambda n: Call(n(0), (1, 1), 2),
        ),
    ),
    Case(
        "nn.functional.pad",
        normals(
            lambda n: Call(n(2, 3), (1, 0)),
            lambda n: Call(n(2, 3), (-1, 1, 2, 0), value=3.0),
            lambda n: Call(n(2, 4), (3, 2), "reflect"),
            lambda n: Call(n(1, 3, 3), (1, 2, 2, 1), "reflect"),
            lambda n: Call(n(1, 2, 2, 2), (1, 1, 0, 1, 1, 0), "reflect"),
            lambda n: Call(n(2, 3), (2, 4), mode="replicate"),
            lambda n: Call(n(1, 1, 3, 2), (1, 2, -1, 1), "replicate"),
            lambda n: Call(n(2, 3), (3, 1), "circular"),
            lambda n: Call(n(1, 2, 3), (-1, 2, 0, 1), "circular"),
            lambda n: Call(n(1, 1, 2, 2, 3), (1, 1, 1, 1, 1, 1), "replicate"),
        ),
    ),
]


# interpolation and sampling

SHAPES = ((1, 2, 5), (1, 2, 4, 3), (1, 1, 3, 2, 4))


def interpolations(rng: np.random.Generator) -> Iterator[Call]:
    """Return calls of every mode to a larger and to a smaller image, by size and by factor."""
    for axes, shape in enumerate(SHAPES, 1):
        for mode in ("nearest", "nearest-exact", "area"):
            yield Call(rng.standard_normal(shape), size=(7, 2, 3)[:axes], mode=mode)
            yield Call(rng.standard_normal(shape), scale_factor=1.7, mode=mode)
        for mode in {1: ("linear",), 2: ("bilinear", "bicubic"), 3: ("trilinear",)}[axes]:
            for align in (None, True):
                yield Call(rng.standard_normal(shape), size=(7, 2, 3)[:axes], mode=mode, align_corners=align)
            yield Call(rng.standard_normal(shape), scale_factor=1.7, mode=mode, recompute_scale_factor=True)
            yield Call(rng.standard_normal(shape), scale_factor=2.5, mode=mode, recompute_scale_factor=False)
    for mode in ("bilinear", "bicubic", "lanczos"):
        yield Call(rng.standard_normal((1, 2, 7, 6)), size=(3, 9), mode=mode, antialias=True)


def not_finite(rng: np.random.Generator) -> Iterator[Call]:
    """Return calls on an image with an infinity, which must only change its neighbors, and on a batch of no images."""
    x = rng.standard_normal((1, 1, 4, 4))
    x[0, 0, 1, 2] = np.inf
    yield Call(x, scale_factor=2, mode="bilinear")
    yield Call(np.ones((0, 2, 3)), size=4, mode="linear")


def upsamplings(*several: dict[str, object]) -> Calls:
    """Return calls on a batch of images with each of the keywords."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for keywords in several:
            yield Call(rng.standard_normal((1, 2, 3, 4)), **keywords)

    return calls


def samplings(rng: np.random.Generator) -> Iterator[Call]:
    """Return calls of every mode and padding, with points inside and outside of the image."""
    for mode, padding, align in product(
        ("bilinear", "nearest", "bicubic"), ("zeros", "border", "reflection"), (False, True)
    ):
        keywords = {"mode": mode, "padding_mode": padding, "align_corners": align}
        yield Call(rng.standard_normal((2, 2, 3, 4)), rng.uniform(-1.7, 1.7, (2, 2, 2, 2)), **keywords)
        if mode != "bicubic":
            yield Call(rng.standard_normal((1, 2, 3, 2, 4)), rng.uniform(-1.7, 1.7, (1, 1, 2, 2, 3)), **keywords)
        if padding == "reflection":
            yield Call(rng.standard_normal((1, 1, 3, 4)), rng.uniform(5.0, 40.0, (1, 2, 2, 2)), **keywords)


def affine(rng: np.random.Generator) -> Iterator[Call]:
    """Return calls in two and three dimensions, also with an axis of length one."""
    for align in (False, True):
        yield Call(rng.standard_normal((2, 2, 3)), (2, 1 + align, 3, 1 + align), align_corners=align)
        yield Call(rng.standard_normal((1, 3, 4)), (1, 2, 2, 3, 2), align_corners=align)


CASES += [
    Case("nn.functional.interpolate", interpolations, edge_calls=not_finite),
    Case("nn.functional.upsample", upsamplings({"size": (5, 2)}, {"scale_factor": 2, "mode": "bilinear"})),
    Case("nn.functional.upsample_nearest", upsamplings({"size": (5, 2)}, {"scale_factor": 2})),
    Case("nn.functional.upsample_bilinear", upsamplings({"size": (5, 2)}, {"scale_factor": 2})),
    Case("nn.functional.grid_sample", samplings, dtypes=("float32",)),
    Case("nn.functional.affine_grid", affine),
]
