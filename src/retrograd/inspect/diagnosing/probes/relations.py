"""Measure how labels depend on inputs: on similar inputs, on single numbers of the input, and on tokens."""

from __future__ import annotations

import math

import numpy as np

_SHIFTS = (1, -1, 2, -2)  # the shifts of labels relative to inputs that are tried
_PERMUTATIONS = 19


def correlations(x: np.ndarray, y: np.ndarray) -> tuple[float, float]:
    """Return the correlation of targets with the mean target of similar inputs, and the largest with a single input."""
    z, t = (x - x.mean(0)) / (x.std(0) + 1e-8), (y - y.mean()) / y.std()
    around = t[nearest(z)].mean(axis=1)
    spread = float(around.std())
    return float((around * t).mean() / spread) if spread else 0.0, float(np.abs(z.T @ t / len(t)).max())


def guessing(labels: np.ndarray) -> float | None:
    if not len(labels):
        return None
    shares = np.bincount(labels) / len(labels)
    shares = shares[shares > 0]
    return float(-(shares * np.log(shares)).sum())


def information(tokens: np.ndarray, labels: np.ndarray) -> float:
    """Return the mutual information of tokens and labels, in nats."""
    table = np.zeros((int(tokens.max()) + 1, int(labels.max()) + 1))
    np.add.at(table, (tokens, labels), 1 / len(labels))
    chance = table.sum(axis=1, keepdims=True) * table.sum(axis=0)
    return float((table[table > 0] * np.log(table[table > 0] / chance[table > 0])).sum())


def separation(x: np.ndarray, y: np.ndarray) -> float:
    """Return the largest share of an input's variance that lies between the means of the classes."""
    z = (x - x.mean(0)) / (x.std(0) + 1e-8)
    means = np.stack([z[y == value].mean(0) * math.sqrt((y == value).mean()) for value in np.unique(y)])
    return float((means * means).sum(0).max())


def agreement(x: np.ndarray, y: np.ndarray) -> float:
    """Return the share of the five nearest other examples that have the same label, averaged over all examples."""
    z = (x - x.mean(0)) / (x.std(0) + 1e-8)
    return float((y[nearest(z)] == y[:, None]).mean())


def nearest(z: np.ndarray) -> np.ndarray:
    """Return for each row the indices of the five nearest other rows."""
    squares = (z * z).sum(1)
    distances = squares[:, None] + squares[None] - 2 * z @ z.T
    np.fill_diagonal(distances, np.inf)
    near: np.ndarray = np.argpartition(distances, min(5, len(z) - 2), axis=1)[:, :5]
    return near


def related(x: np.ndarray, y: np.ndarray) -> float:
    """Return how far the best relation of one input with labels is above the mean for permuted labels.

    The unit is the standard deviation of the relation for permuted labels.
    """

    def best(values: np.ndarray) -> float:
        if y.dtype.kind in "iub":
            return separation(x, values)
        z, t = (x - x.mean(0)) / (x.std(0) + 1e-8), (values - values.mean()) / (values.std() + 1e-12)
        return float(np.abs(z.T @ t / len(t)).max())

    rng = np.random.default_rng(0)
    permuted = [best(rng.permutation(y)) for _ in range(_PERMUTATIONS)]
    return (best(y) - float(np.mean(permuted))) / (float(np.std(permuted)) + 1e-9)


def shifted(x: np.ndarray, y: np.ndarray, of_classes: bool) -> tuple[float, int, float]:
    """Return how well labels agree with those of similar inputs, the best shift of the labels, and the agreement then.

    Agreement is measured in standard deviations above the mean for permuted labels.
    """

    def related(values: np.ndarray) -> float:
        return agreement(x, values) if of_classes else correlations(x, values)[0]

    rng = np.random.default_rng(0)
    permuted = [related(rng.permutation(y)) for _ in range(_PERMUTATIONS)]
    mean, spread = float(np.mean(permuted)), float(np.std(permuted)) + 1e-9
    now = (related(y) - mean) / spread
    found = {n: (related(np.roll(y, n)) - mean) / spread for n in _SHIFTS}
    best = max(found, key=lambda n: found[n])
    return now, best, found[best]
