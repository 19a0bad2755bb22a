"""What is kept out of training, to be measured after each epoch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

Indices = np.ndarray


class ValidSplit:
    """Keeps a part of the samples for validation.

    Args:
        cv: the part: a share below 1, or one in so many; or a splitter of scikit-learn's, whose first split is taken.
        stratified: each class in the same proportion on both sides.
        random_state: draw the samples by this seed; without one they are the last of a fold, in order.

    Raises:
        ValueError: neither a share, a number above 1 nor a splitter.

    >>> from retrograd.sklearn import ValidSplit
    >>> train, valid = ValidSplit(5)(10, None)
    >>> len(train), len(valid)
    (8, 2)
    """

    def __init__(self, cv: Any = 5, stratified: bool = False, random_state: Any = None) -> None:
        if not hasattr(cv, "split") and not (0 < cv < 1 or cv == int(cv) > 1):
            raise ValueError(f"ValidSplit: cv must be a share below 1, a number of folds or a splitter, got {cv!r}")
        self.cv, self.stratified, self.random_state = cv, stratified, random_state

    def __call__(self, count: int, y: Any) -> tuple[Indices, Indices]:
        """The numbers of the samples to train on, and of those for validation."""
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


def predefined_split(dataset: Any) -> Callable[..., Any]:
    """Validation on samples of one's own: ``train_split=predefined_split((X_valid, y_valid))``.

    Args:
        dataset: the pair of inputs and targets.
    """
    return Predefined(dataset)


class Predefined:
    """Samples of validation apart from those of training; what ``predefined_split`` gives."""

    def __init__(self, dataset: Any) -> None:
        self.dataset = dataset

    def __call__(self, count: int, y: Any) -> tuple[Indices, Indices]:
        """All samples are for training."""
        return np.arange(count), np.arange(0)
