"""Cases of the recurrent layers and cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ....core.arrays import Array
from ...case import Call, Case


def cell_calls(gates: int, states: int) -> Callable[[np.random.Generator], Iterator[Call]]:
    def calls(rng: np.random.Generator) -> Iterator[Call]:
        draw = rng.standard_normal
        for biases in (0, 2):
            hx = tuple(draw((2, 3)) for _ in range(states))
            weights = [draw((3 * gates, 2)), draw((3 * gates, 3)), *(draw(3 * gates) for _ in range(biases))]
            yield Call(draw((2, 2)), hx if states > 1 else hx[0], *weights)

    return calls


def sequence_calls(gates: int, states: int) -> Callable[[np.random.Generator], Iterator[Call]]:
    def calls(rng: np.random.Generator) -> Iterator[Call]:
        def draw(*shape: int) -> Array:
            return 0.7 * rng.standard_normal(shape)

        size, features, batch, steps = 2, 1, 2, 3
        for layers, biases, bidirectional, batch_first in (
            (1, True, False, False),
            (1, False, True, True),
            (2, True, False, True),
        ):
            directions = 2 if bidirectional else 1
            params = []
            for layer in range(layers):
                for _ in range(directions):
                    params += [draw(size * gates, directions * size if layer else features), draw(size * gates, size)]
                    params += [draw(size * gates), draw(size * gates)] if biases else []
            hx = tuple(draw(layers * directions, batch, size) for _ in range(states))
            x = draw(batch, steps, features) if batch_first else draw(steps, batch, features)
            yield Call(x, hx if states > 1 else hx[0], params, biases, layers, 0.0, True, bidirectional, batch_first)

    return calls


def projected_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield from sequence_calls(4, 2)(rng)
    draw = rng.standard_normal
    params = [draw((12, 1)), draw((12, 2)), draw((2, 3))]
    yield Call(draw((2, 2, 1)), (draw((1, 2, 2)), draw((1, 2, 3))), params, False, 1, 0.0, False, False, False)


CASES = [
    Case("lstm", projected_calls),
    Case("gru", sequence_calls(3, 1)),
    Case("rnn_tanh", sequence_calls(1, 1)),
    Case("rnn_relu", sequence_calls(1, 1)),
    Case("lstm_cell", cell_calls(4, 2)),
    Case("gru_cell", cell_calls(3, 1)),
    Case("rnn_tanh_cell", cell_calls(1, 1)),
    Case("rnn_relu_cell", cell_calls(1, 1)),
]
