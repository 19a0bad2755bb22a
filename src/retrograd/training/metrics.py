"""Metrics that are accumulated over batches."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, SupportsFloat, overload

import numpy as np

from ..core.arrays.devices import backend_of
from ..core.tensor.tensor import Tensor

Array = np.ndarray


class AverageMeter:
    """A running mean, weighted by the sizes of the batches.

    >>> from retrograd.training import AverageMeter
    >>> loss = AverageMeter()
    >>> loss.update(1.0, n=3)
    >>> loss.update(5.0, n=1)
    >>> loss.val, loss.avg, loss.count
    (5.0, 2.0, 4)
    """

    def __init__(self) -> None:
        self.reset()

    def reset(self) -> None:
        """Forget all values."""
        self.val = 0.0
        self.sum = 0.0
        self.count = 0

    def update(self, value: SupportsFloat, n: int = 1) -> None:
        """Add a mean of ``n`` values."""
        self.val = _number(value)
        self.sum += self.val * n
        self.count += n

    @property
    def avg(self) -> float:
        """The mean of all values, NaN before the first."""
        return self.sum / self.count if self.count else float("nan")


@overload
def accuracy(output: object, target: object, topk: int = 1) -> float: ...
@overload
def accuracy(output: object, target: object, topk: Sequence[int]) -> list[float]: ...
def accuracy(output: object, target: object, topk: int | Sequence[int] = 1) -> float | list[float]:
    """Return the share of examples whose target is among the ``topk`` classes with the largest scores.

    Args:
        output: scores, of shape (examples, classes).
        target: classes, of shape (examples,).
        topk: a number, or several numbers for a list of shares.

    Raises:
        ValueError: shapes do not fit, or ``topk`` is larger than the number of classes.

    >>> from retrograd.training import accuracy
    >>> scores = rg.tensor([[0.1, 0.7, 0.2], [0.5, 0.2, 0.3]])
    >>> accuracy(scores, rg.tensor([1, 2])), accuracy(scores, rg.tensor([1, 2]), topk=(1, 2))
    (0.5, [0.5, 1.0])
    """
    scores, classes = _numpy(output), _numpy(target)
    if scores.ndim != 2 or classes.shape != scores.shape[:1]:
        raise ValueError(
            f"accuracy: expected shapes (examples, classes) and (examples,), got {scores.shape} and {classes.shape}"
        )
    wanted = [topk] if isinstance(topk, int) else list(topk)
    for k in wanted:
        if not 1 <= k <= scores.shape[1]:
            raise ValueError(f"accuracy: topk must be between 1 and {scores.shape[1]}, got {k}")
    if not len(classes):
        shares = [float("nan")] * len(wanted)
    else:
        # The rank of the target: classes with a larger score, and earlier classes with the same score, come before it.
        own = np.take_along_axis(scores, classes.astype(np.int64)[:, None], axis=1)
        earlier = np.arange(scores.shape[1]) < classes[:, None]
        rank = ((scores > own) | ((scores == own) & earlier)).sum(axis=1)
        rank[np.isnan(own[:, 0])] = scores.shape[1]
        shares = [float((rank < k).mean()) for k in wanted]
    return shares[0] if isinstance(topk, int) else shares


class ConfusionMatrix:
    """Counts how often each class (row) was predicted as each class (column).

    Args:
        classes: the number of classes, or their names.

    >>> from retrograd.training import ConfusionMatrix
    >>> confusion = ConfusionMatrix(2)
    >>> confusion.update([0, 1, 1, 1], [0, 0, 1, 1])
    >>> confusion.matrix
    array([[1, 1],
           [0, 2]])
    >>> confusion.accuracy, confusion.recall.tolist()
    (0.75, [0.5, 1.0])
    """

    def __init__(self, classes: int | Sequence[str]) -> None:
        self.names = [str(index) for index in range(classes)] if isinstance(classes, int) else list(classes)
        self.matrix: Array = np.zeros((len(self.names), len(self.names)), np.int64)

    def update(self, prediction: object, target: object) -> None:
        """Add a batch of predicted and true classes; predictions may also be scores, (examples, classes).

        Raises:
            ValueError: shapes do not fit, or a class is out of range.
        """
        predicted, true = _numpy(prediction), _numpy(target)
        if predicted.ndim == true.ndim + 1:
            predicted = predicted.argmax(axis=-1)
        if predicted.shape != true.shape:
            raise ValueError(
                f"ConfusionMatrix: expected classes of shape {true.shape}, as the targets, got {predicted.shape}"
            )
        for name, values in (("prediction", predicted), ("target", true)):
            if values.size and not (values.min() >= 0 and values.max() < len(self.names)):
                raise ValueError(f"ConfusionMatrix: a {name} is outside [0, {len(self.names)})")
        np.add.at(self.matrix, (true.astype(np.int64).reshape(-1), predicted.astype(np.int64).reshape(-1)), 1)

    @property
    def accuracy(self) -> float:
        """The share of examples on the diagonal, NaN if there are none."""
        total = int(self.matrix.sum())
        return float(np.trace(self.matrix)) / total if total else float("nan")

    @property
    def recall(self) -> Array:
        """Per class, the share of its examples that were predicted correctly; NaN for classes without examples."""
        return _shares(np.diag(self.matrix), self.matrix.sum(axis=1))

    @property
    def precision(self) -> Array:
        """Per class, the share of its predictions that are correct; NaN for classes without predictions."""
        return _shares(np.diag(self.matrix), self.matrix.sum(axis=0))

    def __str__(self) -> str:
        width = max([len(name) for name in self.names] + [len(str(self.matrix.max(initial=0)))]) + 1
        rows = ["".join(f"{name:>{width}}" for name in ["", *self.names])]
        for name, row in zip(self.names, self.matrix):
            rows.append(f"{name:>{width}}" + "".join(f"{count:>{width}}" for count in row))
        return "\n".join(rows)


class R2Score:
    """The share of the targets' variance that predictions explain.

    It is ``1 - (sum_i (y_i - p_i)^2) / (sum_i (y_i - mean(y))^2)`` of predictions p and targets y.

    Sums are accumulated in float64 around the running mean, so that large offsets cause no cancellation.

    >>> from retrograd.training import R2Score
    >>> score = R2Score()
    >>> score.update([1.0, 2.0], [1.0, 3.0])
    >>> score.update([5.0], [5.0])
    >>> score.value
    0.875
    """

    def __init__(self) -> None:
        self.count = 0
        self._mean = 0.0
        self._deviations = 0.0
        self._residual = 0.0

    def update(self, prediction: object, target: object) -> None:
        """Add a batch; raise ValueError if the shapes differ."""
        p, y = _numpy(prediction), _numpy(target)
        if p.shape != y.shape:
            raise ValueError(f"R2Score: expected predictions of shape {y.shape}, as the targets, got {p.shape}")
        if not y.size:
            return
        p, y = p.astype(np.float64), y.astype(np.float64)
        # Chan, Golub and LeVeque, Updating formulae and a pairwise algorithm for computing sample variances, 1979.
        mean = float(y.mean())
        total = self.count + y.size
        self._deviations += float(((y - mean) ** 2).sum()) + (mean - self._mean) ** 2 * self.count * y.size / total
        self._mean += (mean - self._mean) * y.size / total
        self._residual += float(((y - p) ** 2).sum())
        self.count = total

    @property
    def value(self) -> float:
        """R2 so far; NaN if the targets do not vary."""
        return 1 - self._residual / self._deviations if self._deviations else float("nan")


def _numpy(value: object) -> Array:
    if isinstance(value, Tensor):
        return backend_of(value.array).to_numpy(value.array)
    return np.asarray(value)


def _number(value: Any) -> float:
    return float(value.item()) if isinstance(value, Tensor) else float(value)


def _shares(parts: Array, wholes: Array) -> Array:
    return np.divide(parts, wholes, out=np.full(len(parts), np.nan), where=wholes > 0)
