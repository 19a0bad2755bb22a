"""Cases of the normalizations."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...case import Call, Case, Fixed


def layer_norm_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = rng.standard_normal
    yield Call(draw((3, 4)), (4,), draw(4), draw(4))
    yield Call(draw((2, 3, 4)), (3, 4), draw((3, 4)), draw((3, 4)), eps=0.1)
    yield Call(draw((2, 3)), [3])
    yield Call(draw((2, 3)), (3,), draw(3))
    yield Call(draw(4), (4,))


def layer_norm_edges(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(np.ones((2, 3)), (3,))
    yield Call(rng.standard_normal((0, 3)), (3,))
    yield Call(1e3 + rng.standard_normal((2, 8)), (8,))


def rms_norm_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = rng.standard_normal
    yield Call(draw((3, 4)), (4,), draw(4), eps=1e-5)
    yield Call(draw((2, 3, 4)), (3, 4), draw((3, 4)), 0.1)
    yield Call(draw((2, 3)), [3], eps=1e-5)


def group_norm_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = rng.standard_normal
    yield Call(draw((2, 4, 3)), 2, draw(4), draw(4))
    yield Call(draw((3, 4)), 1, draw(4), draw(4))
    yield Call(draw((1, 4, 2, 2)), 4, eps=0.1)


def batch_norm_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = rng.standard_normal
    for shape in ((4, 2), (3, 2, 4), (2, 2, 2, 3)):
        yield Call(draw(shape), None, None, draw(2), draw(2), training=True)
    yield Call(draw((4, 2)), None, None, training=True, eps=0.1)
    mean, var = draw(2), rng.uniform(0.5, 2, 2)
    yield Call(draw((3, 2, 2)), Fixed(mean), Fixed(var), draw(2), draw(2))
    yield Call(draw((3, 2)), Fixed(mean), Fixed(var))


def instance_norm_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = rng.standard_normal
    yield Call(draw((2, 3, 4)), None, None, draw(3), draw(3))
    yield Call(draw((2, 2, 2, 3)), eps=0.1)
    mean, var = draw(3), rng.uniform(0.5, 2, 3)
    yield Call(draw((2, 3, 4)), Fixed(mean), Fixed(var), draw(3), draw(3), use_input_stats=False)


def normalize_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = rng.standard_normal
    yield Call(draw((3, 4)))
    yield Call(draw((3, 4)), 3.0, 0)
    yield Call(draw((2, 3, 4)), p=1.0, dim=-1)


def normalize_edges(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(np.zeros((2, 3)))
    yield Call(rng.standard_normal((0, 3)))


def response_calls(rng: np.random.Generator) -> Iterator[Call]:
    """Return calls with even and odd sizes, on inputs of three to five dimensions."""
    yield Call(rng.standard_normal((2, 4, 3)), 2)
    yield Call(rng.standard_normal((1, 5, 2, 3)), 3, alpha=0.5, beta=0.6, k=2.0)
    yield Call(rng.standard_normal((1, 3, 2, 1, 2)), 5, alpha=1.0)


CASES = [
    Case("nn.functional.layer_norm", layer_norm_calls, edge_calls=layer_norm_edges),
    Case("nn.functional.rms_norm", rms_norm_calls),
    Case("nn.functional.group_norm", group_norm_calls),
    Case("nn.functional.batch_norm", batch_norm_calls),
    Case("nn.functional.instance_norm", instance_norm_calls),
    Case("nn.functional.normalize", normalize_calls, edge_calls=normalize_edges),
    Case("nn.functional.local_response_norm", response_calls),
]
