"""Cases of interpolate, grid_sample and affine_grid."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np

from ...case import Call, Calls, Case

SHAPES = ((1, 2, 5), (1, 2, 4, 3), (1, 1, 3, 2, 4))


def interpolations(rng: np.random.Generator) -> Iterator[Call]:
    """Every mode, larger and smaller, by size and by factor."""
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
    """An infinity reaches its neighbours only; a batch of no images."""
    x = rng.standard_normal((1, 1, 4, 4))
    x[0, 0, 1, 2] = np.inf
    yield Call(x, scale_factor=2, mode="bilinear")
    yield Call(np.ones((0, 2, 3)), size=4, mode="linear")


def upsamplings(*several: dict[str, object]) -> Calls:
    """A batch of images with each of the keywords."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for keywords in several:
            yield Call(rng.standard_normal((1, 2, 3, 4)), **keywords)

    return calls


def samplings(rng: np.random.Generator) -> Iterator[Call]:
    """Every mode and padding, with points inside and outside."""
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
    """Two and three dimensions, an axis of length one included."""
    for align in (False, True):
        yield Call(rng.standard_normal((2, 2, 3)), (2, 1, 3, 1), align_corners=align)
        yield Call(rng.standard_normal((1, 3, 4)), (1, 2, 2, 3, 2), align_corners=align)


CASES = [
    Case("nn.functional.interpolate", interpolations, edge_calls=not_finite),
    Case("nn.functional.upsample", upsamplings({"size": (5, 2)}, {"scale_factor": 2, "mode": "bilinear"})),
    Case("nn.functional.upsample_nearest", upsamplings({"size": (5, 2)}, {"scale_factor": 2})),
    Case("nn.functional.upsample_bilinear", upsamplings({"size": (5, 2)}, {"scale_factor": 2})),
    Case("nn.functional.grid_sample", samplings, dtypes=("float32",)),
    Case("nn.functional.affine_grid", affine),
]
