"""Cases of attention, and of recurrent layers and cells."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from ....core.arrays import Array
from ...case import Call, Case, Fixed


def attention_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = rng.standard_normal
    yield Call(draw((2, 2, 3)), draw((2, 3, 3)), draw((2, 3, 2)))
    yield Call(draw((3, 2)), draw((3, 2)), draw((3, 2)), is_causal=True)
    yield Call(draw((3, 2)), draw((2, 2)), draw((2, 2)), is_causal=True, scale=0.5)
    yield Call(draw((2, 2)), draw((3, 2)), draw((3, 2)), attn_mask=np.array([[True, False, True], [True, True, False]]))
    yield Call(draw((2, 2)), draw((3, 2)), draw((3, 2)), attn_mask=draw((2, 3)))
    yield Call(draw((2, 2, 2)), draw((2, 3, 2)), draw((2, 3, 1)), attn_mask=draw((1, 3)))
    yield Call(draw((1, 4, 2, 2)), draw((1, 2, 2, 2)), draw((1, 2, 2, 2)), enable_gqa=True)
    yield Call(draw((2, 1, 2, 2)), draw((1, 2, 2, 2)), draw((2, 2, 2, 2)))


def attention_edges(rng: np.random.Generator) -> Iterator[Call]:
    draw = rng.standard_normal
    nothing = np.array([[True, True], [False, False]])
    yield Call(draw((2, 2)), draw((2, 2)), draw((2, 2)), attn_mask=nothing)
    yield Call(draw((2, 2)), draw((2, 2)), draw((2, 2)), attn_mask=Fixed(np.where(nothing, 0.0, -np.inf)))
    yield Call(Fixed(1000 * draw((2, 2))), Fixed(1000 * draw((2, 2))), draw((2, 2)))
    yield Call(draw((1, 300, 2)), draw((1, 300, 2)), draw((1, 300, 2)), is_causal=True)


def multihead_calls(rng: np.random.Generator) -> Iterator[Call]:
    draw = rng.standard_normal
    width, heads = 4, 2

    def call(separate: bool = False, extra: bool = False, bias: bool = True, **options: object) -> Call:
        query, key, value = draw((2, 2, width)), draw((3, 2, width)), draw((3, 2, width))
        packed = None
        if separate:
            weights = [draw((width, width)) / 2 for _ in range(3)]
            options |= dict(zip(("q_proj_weight", "k_proj_weight", "v_proj_weight"), weights, strict=True))
            options["use_separate_proj_weight"] = True
        else:
            packed = draw((3 * width, width)) / 2
        more = (draw((1, 1, width)), draw((1, 1, width)), True) if extra else (None, None, False)
        out = (draw((width, width)), draw(width) if bias else None)
        return Call(
            query, key, value, width, heads, packed, draw(3 * width) if bias else None, *more, 0.0, *out, **options
        )

    padding = np.array([[False, True, False], [False, False, False]])
    yield call()
    yield call(need_weights=False, separate=True, bias=False)
    yield call(extra=True, key_padding_mask=padding, average_attn_weights=False)
    yield call(extra=True, need_weights=False, attn_mask=np.array([[False, True, False], [False, False, True]]))
    yield call(attn_mask=Fixed(draw((4, 2, 3))))


CASES = [
    Case("nn.functional.scaled_dot_product_attention", attention_calls, edge_calls=attention_edges),
    Case("nn.functional.multi_head_attention_forward", multihead_calls),
]


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


CASES += [
    Case("lstm", projected_calls),
    Case("gru", sequence_calls(3, 1)),
    Case("rnn_tanh", sequence_calls(1, 1)),
    Case("rnn_relu", sequence_calls(1, 1)),
    Case("lstm_cell", cell_calls(4, 2)),
    Case("gru_cell", cell_calls(3, 1)),
    Case("rnn_tanh_cell", cell_calls(1, 1)),
    Case("rnn_relu_cell", cell_calls(1, 1)),
]
