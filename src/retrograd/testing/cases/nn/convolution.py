"""Cases of the convolutions, and of unfold and fold."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ...case import Call, Case

Shape = tuple[int, ...]


def convolutions(axes: int, several: list[tuple[Shape, Shape, bool, dict[str, Any]]]) -> Callable[..., Iterator[Call]]:
    """Calls from (shape of the input, shape of the weight, whether there is a bias, keywords), along one axis given.

    Every axis after the first is a little shorter, so that exchanged axes are found out.
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
