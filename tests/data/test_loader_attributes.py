"""What programs written for PyTorch read from a DataLoader, set on it, and seed in its workers."""

import random

import numpy as np
import pytest

import retrograd as rg
from retrograd.data import DataLoader, Dataset, get_worker_info


def test_a_loader_and_its_iterator_have_one_length_and_what_they_follow_from_is_fixed():
    loader = DataLoader(range(5), batch_size=2)
    batches = iter(loader)
    next(batches)
    assert len(batches) == len(loader) == 3 and len(list(batches)) == 2
    for name in ("batch_size", "batch_sampler", "sampler", "drop_last", "dataset", "persistent_workers"):
        with pytest.raises(ValueError, match=f"{name} cannot be set"):
            setattr(loader, name, getattr(loader, name))
    loader.collate_fn = len
    assert list(loader) == [2, 2, 1]


class OwnGenerator(Dataset):
    """Draws from a generator that each worker seeds for itself."""

    def __len__(self):
        return 4

    def __getitem__(self, index):
        return self.seen


def seed_by_initial_seed(worker):
    drawn = random.random(), np.random.rand()  # noqa: NPY002 (programs draw from it)
    get_worker_info().dataset.seen = rg.initial_seed(), get_worker_info().seed, *drawn


def test_each_worker_begins_with_a_seed_of_its_own():
    rg.manual_seed(0)
    loader = DataLoader(OwnGenerator(), batch_size=None, num_workers=2, worker_init_fn=seed_by_initial_seed)
    first, second = list(loader)[:2]
    assert first[0] == first[1] == second[0] - 1 == second[1] - 1
    assert first[2] != second[2] and first[3] != second[3]
