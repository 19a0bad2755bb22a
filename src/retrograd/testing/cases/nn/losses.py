"""Cases of the losses."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ....core.arrays import Array
from ...case import Call, Calls, Case, Fixed

REDUCTIONS = ("mean", "sum", "none")


def signs(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return np.where(rng.random(shape) < 0.5, -1.0, 1.0)


def probabilities(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.uniform(0.1, 0.9, shape)


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> Array:
    return rng.standard_normal(shape)


def fixed(draw: Callable[..., object]) -> Callable[..., Any]:
    return lambda rng, shape: Fixed(np.asarray(draw(rng, shape)))


def pairs(*draws: Callable[..., object], options: tuple[dict[str, Any], ...] = ()) -> Calls:
    """Return calls with each reduction on arrays of one shape, a 0-d call, and calls with each of the options."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        for reduction in REDUCTIONS:
            yield Call(*(draw(rng, (2, 3)) for draw in draws), reduction=reduction)
        yield Call(*(np.asarray(draw(rng, ())) if draw in (normal, probabilities) else draw(rng, ()) for draw in draws))
        for option in options:
            yield Call(*(draw(rng, (2, 3)) for draw in draws), **option)

    return calls


def weighted_pairs(*draws: Callable[..., object], **options: object) -> Calls:
    """Return the calls of ``pairs``, and calls with a weight."""

    def calls(rng: np.random.Generator) -> Iterator[Call]:
        yield from pairs(*draws)(rng)
        for reduction in REDUCTIONS:
            weight = Fixed(rng.uniform(0.5, 2, (2, 3)))
            yield Call(*(draw(rng, (2, 3)) for draw in draws), weight=weight, reduction=reduction, **options)

    return calls


def equal_pair(rng: np.random.Generator) -> Iterator[Call]:
    x = rng.standard_normal((2, 3))
    for reduction in REDUCTIONS:
        yield Call(x, x.copy(), reduction=reduction)
    for reduction in ("sum", "none"):
        yield Call(np.zeros((0, 3)), np.zeros((0, 3)), reduction=reduction)


def logits_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield from weighted_pairs(normal, probabilities)(rng)
    weight, positive = Fixed(rng.uniform(0.5, 2, (2, 3))), Fixed(rng.uniform(0.5, 2, 3))
    yield Call(normal(rng, (2, 3)), probabilities(rng, (2, 3)), weight, pos_weight=positive)


def logits_edges(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(np.array([-1000.0, 0.0, 1000.0]), Fixed(np.array([1.0, 0.0, 1.0])), reduction="none")


def bce_edges(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(np.array([0.0, 1.0, 0.0, 1.0]), Fixed(np.array([1.0, 0.0, 0.0, 1.0])), reduction="none")


def gaussian_calls(rng: np.random.Generator) -> Iterator[Call]:
    for reduction in REDUCTIONS:
        for shape in ((2, 3), (2,), (2, 1)):
            yield Call(
                normal(rng, (2, 3)), normal(rng, (2, 3)), rng.uniform(0.5, 2, shape), reduction=reduction, full=True
            )
    yield Call(normal(rng, (2, 3)), normal(rng, (2, 3)), 0.5)


def poisson_calls(rng: np.random.Generator) -> Iterator[Call]:
    counts = Fixed(np.array([[0.0, 1.0, 2.0], [5.0, 3.0, 1.0]]))
    for reduction in REDUCTIONS:
        for full in (False, True):
            yield Call(normal(rng, (2, 3)), counts, full=full, reduction=reduction)
        yield Call(rng.uniform(0.5, 2, (2, 3)), counts, log_input=False, reduction=reduction)


def kl_edges(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(normal(rng, (3,)), Fixed(np.array([0.0, 0.5, 0.5])), reduction="sum")


def class_calls(rng: np.random.Generator, smoothing: tuple[float, ...] = (0.0,)) -> Iterator[Call]:
    classes = 4
    for shape in ((classes,), (3, classes), (2, classes, 3), (2, classes, 1, 2)):
        target = rng.integers(0, classes, shape[:1] + shape[2:] if len(shape) > 1 else ())
        for reduction in REDUCTIONS:
            for label_smoothing in smoothing:
                options: dict[str, Any] = {"label_smoothing": label_smoothing} if label_smoothing else {}
                yield Call(normal(rng, shape), np.asarray(target), reduction=reduction, **options)
                weight = Fixed(rng.uniform(0.5, 2, classes))
                if len(shape) == 2:
                    target[0] = 1
                    yield Call(
                        normal(rng, shape), target, weight=weight, ignore_index=1, reduction=reduction, **options
                    )


def cross_entropy_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield from class_calls(rng, (0.0, 0.3))
    for reduction in REDUCTIONS:
        yield Call(normal(rng, (2, 3)), probabilities(rng, (2, 3)), reduction=reduction)
        weight = Fixed(rng.uniform(0.5, 2, 3))
        yield Call(
            normal(rng, (2, 3, 2)), probabilities(rng, (2, 3, 2)), weight, reduction=reduction, label_smoothing=0.2
        )


def class_edges(rng: np.random.Generator) -> Iterator[Call]:
    yield Call(np.array([[1e4, 0.0], [0.0, -1e4]]), np.array([1, 0]))
    yield Call(normal(rng, (2, 3)), np.array([-100, -100]))
    yield Call(np.zeros((0, 3)), np.zeros(0, np.int64), reduction="sum")


def hinge_embedding_calls(rng: np.random.Generator) -> Iterator[Call]:
    for reduction in REDUCTIONS:
        yield Call(normal(rng, (3, 4)), Fixed(signs(rng, (3, 4))), margin=0.5, reduction=reduction)


def ranking_calls(rng: np.random.Generator) -> Iterator[Call]:
    for reduction in REDUCTIONS:
        yield Call(normal(rng, (6,)), normal(rng, (6,)), Fixed(signs(rng, (6,))), margin=0.2, reduction=reduction)


def cosine_calls(rng: np.random.Generator) -> Iterator[Call]:
    for reduction in REDUCTIONS:
        yield Call(normal(rng, (3, 4)), normal(rng, (3, 4)), np.array([1, -1, 1]), margin=0.1, reduction=reduction)
    yield Call(normal(rng, (4,)), normal(rng, (4,)), np.asarray(-1), margin=-0.9)


def multi_margin_calls(rng: np.random.Generator) -> Iterator[Call]:
    for reduction in REDUCTIONS:
        for p in (1, 2):
            yield Call(normal(rng, (3, 4)), np.array([0, 3, 1]), p=p, margin=0.7, reduction=reduction)
    yield Call(normal(rng, (3, 4)), np.array([0, 3, 1]), weight=Fixed(rng.uniform(0.5, 2, 4)))
    yield Call(normal(rng, (4,)), np.asarray(2))


def multilabel_margin_calls(rng: np.random.Generator) -> Iterator[Call]:
    target = np.array([[1, 2, -1, 0], [3, 0, 1, -1], [-1, 1, 2, 3]])
    for reduction in REDUCTIONS:
        yield Call(normal(rng, (3, 4)), target, reduction=reduction)
    yield Call(normal(rng, (4,)), target[0])


def multilabel_soft_margin_calls(rng: np.random.Generator) -> Iterator[Call]:
    for reduction in REDUCTIONS:
        yield Call(normal(rng, (2, 3)), probabilities(rng, (2, 3)), reduction=reduction)
    yield Call(normal(rng, (2, 3)), Fixed(probabilities(rng, (2, 3))), Fixed(rng.uniform(0.5, 2, 3)))


def triplet_calls(rng: np.random.Generator) -> Iterator[Call]:
    for reduction in REDUCTIONS:
        yield Call(*(normal(rng, (3, 4)) for _ in range(3)), margin=2.0, reduction=reduction)
    yield Call(*(normal(rng, (3, 4)) for _ in range(3)), margin=2.0, swap=True)


def triplet_norm_calls(rng: np.random.Generator) -> Iterator[Call]:
    yield from triplet_calls(rng)
    yield Call(*(normal(rng, (3, 4)) for _ in range(3)), p=3.0, eps=1e-3)


def ctc_calls(rng: np.random.Generator) -> Iterator[Call]:
    # The gradient of ctc_loss is the derivative only after log_softmax: tests/ops/nn/losses/test_ctc.py composes both.
    for call in ctc_edges(rng):
        yield Call(Fixed(call.args[0]), *call.args[1:], **call.kwargs)


def ctc_edges(rng: np.random.Generator) -> Iterator[Call]:
    x = rng.standard_normal((6, 2, 4))
    x -= np.log(np.exp(x).sum(-1, keepdims=True))
    for reduction in REDUCTIONS:
        yield Call(x, np.array([[1, 1, 2], [3, 2, 1]]), (6, 4), (3, 2), reduction=reduction)
    yield Call(x, np.array([1, 2, 3]), (6, 5), (1, 2))
    yield Call(x, np.array([[1, 1, 3], [3, 0, 1]]), (3, 5), (3, 0), blank=2, zero_infinity=True)
    yield Call(x[:, 0], np.array([1, 2]), (6,), (2,), reduction="none")


def named(name: str, calls: Calls, **options: Any) -> Case:
    return Case(f"nn.functional.{name}", calls, **options)


CASES = [
    named("mse_loss", weighted_pairs(normal, normal), edge_calls=equal_pair),
    named("l1_loss", weighted_pairs(normal, normal), edge_calls=equal_pair),
    named("smooth_l1_loss", pairs(normal, normal, options=({"beta": 0.3}, {"beta": 5.0})), edge_calls=equal_pair),
    named("huber_loss", weighted_pairs(normal, normal, delta=0.3), edge_calls=equal_pair),
    # PyTorch's bound 1e-12 of p (1 - p) is a float32 constant.
    named(
        "binary_cross_entropy", weighted_pairs(probabilities, probabilities), edge_calls=bce_edges, torch_tolerance=1e-8
    ),
    named("binary_cross_entropy_with_logits", logits_calls, edge_calls=logits_edges),
    named("soft_margin_loss", pairs(normal, fixed(signs))),
    named(
        "kl_div",
        pairs(normal, probabilities, options=({"log_target": True}, {"reduction": "batchmean"})),
        edge_calls=kl_edges,
    ),
    named("poisson_nll_loss", poisson_calls),
    named("gaussian_nll_loss", gaussian_calls),
    named("cross_entropy", cross_entropy_calls, edge_calls=class_edges),
    named("nll_loss", class_calls, edge_calls=class_edges),
    named("hinge_embedding_loss", hinge_embedding_calls),
    named("margin_ranking_loss", ranking_calls),
    named("cosine_embedding_loss", cosine_calls),
    named("multi_margin_loss", multi_margin_calls),
    named("multilabel_margin_loss", multilabel_margin_calls),
    named("multilabel_soft_margin_loss", multilabel_soft_margin_calls),
    named("triplet_margin_loss", triplet_norm_calls),
    named("triplet_margin_with_distance_loss", triplet_calls),
    named("ctc_loss", ctc_calls, edge_calls=ctc_edges, order=1, dtypes=("float32",)),
]
