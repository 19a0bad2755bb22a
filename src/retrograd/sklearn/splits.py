"""Split validation samples from training samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

Indices: TypeAlias = np.ndarray
Split: TypeAlias = Callable[[int, ArrayLike | None], tuple[Indices, Indices]]
Seed: TypeAlias = int | np.random.RandomState | None


class Splitter(Protocol):
    """A splitter of scikit-learn."""

    def split(self, X: ArrayLike, y: ArrayLike | None) -> Iterator[tuple[Indices, Indices]]: ...


class ValidSplit:
    """Select a part of the samples for validation.

    Args:
        cv: the part: a fraction below 1, or the number of folds, of which one is used; or a scikit-learn splitter,
            whose first split is used.
        stratified: preserve the proportions of the classes.
        random_state: draw the samples with this seed; None takes the last samples of a fold, in order.

    Raises:
        ValueError: ``cv`` is not a fraction, a number above 1 or a splitter.

    >>> from retrograd.sklearn import ValidSplit
    >>> train, valid = ValidSplit(5)(10, None)
    >>> len(train), len(valid)
    (8, 2)
    """

    def __init__(self, cv: float | Splitter = 5, stratified: bool = False, random_state: Seed = None) -> None:
        if not hasattr(cv, "split") and not (0 < cv < 1 or cv == int(cv) > 1):
            raise ValueError(f"ValidSplit: cv must be a fraction below 1, a number of folds or a splitter, got {cv!r}")
        self.cv, self.stratified, self.random_state = cv, stratified, random_state

    def __call__(self, count: int, y: ArrayLike | None) -> tuple[Indices, Indices]:
        """Return the indices of the training samples, and of the validation samples."""
        from sklearn import model_selection as library

        splitter, seed = self.cv, self.random_state
        if not hasattr(splitter, "split"):
            if splitter < 1:
                kind = library.StratifiedShuffleSplit if self.stratified else library.ShuffleSplit
                splitter = kind(n_splits=1, test_size=splitter, random_state=seed)
            else:
                kind = library.StratifiedKFold if self.stratified else library.KFold
                splitter = kind(int(splitter), shuffle=seed is not None, random_state=seed)
        train, valid = next(iter(splitter.split(np.zeros((count, 1)), y if self.stratified else None)))
        return train, valid


def predefined_split(dataset: tuple[object, object]) -> Predefined:
    """Validate on given samples: ``train_split=predefined_split((X_valid, y_valid))``.

    Args:
        dataset: the (inputs, targets) pair.
    """
    return Predefined(dataset)


class Predefined:
    """The result of ``predefined_split``: validation samples that are separate from the training samples."""

    def __init__(self, dataset: tuple[object, object]) -> None:
        self.dataset = dataset

    def __call__(self, count: int, y: object) -> tuple[Indices, Indices]:
        """Return all samples for training."""
        return np.arange(count), np.arange(0)
