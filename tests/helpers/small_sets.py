"""A few made-up samples in place of the named data sets: training on them, and evaluating, takes a moment."""

from __future__ import annotations

import numpy as np
import pytest

from retrograd import data
from retrograd.cli.tasks import language
from retrograd.data import ImageData


def use_small_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    labels = random.integers(10, size=320)
    images = random.integers(0, 40, size=(320, 28, 28)).astype(np.uint8)
    images[np.arange(320), labels * 2 + 4] = 255  # each class lights a row of its own
    digits = ImageData(images[:256], labels[:256], images[256:], labels[256:])
    monkeypatch.setattr(data, "mnist", lambda: digits)
    monkeypatch.setattr(data, "fashion_mnist", lambda: digits)
    monkeypatch.setattr(data, "shakespeare", lambda: "to be, or not to be: that is the question\n" * 60)
    monkeypatch.setattr(data, "names", lambda: ["anna", "emma", "otto", "ada", "bob", "eve"] * 30)
    monkeypatch.setattr(language, "STEPS_PER_EPOCH", 4)
    monkeypatch.setattr(language, "SAMPLE_CHARACTERS", 20)
