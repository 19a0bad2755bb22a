"""DistributedSampler: which rank gets which examples."""

from __future__ import annotations

import pytest
from retrograd.utils.data.distributed import DistributedSampler as Same

from retrograd.data import DistributedSampler


@pytest.mark.parametrize("length", [1, 2, 7, 8, 9, 100])
@pytest.mark.parametrize("ranks", [1, 2, 3, 8])
@pytest.mark.parametrize("drop_last", [False, True])
def test_parts_are_those_of_torch(length, ranks, drop_last):
    torch = pytest.importorskip("torch")
    data = range(length)
    for rank in range(ranks):
        own = DistributedSampler(data, ranks, rank, shuffle=False, drop_last=drop_last)
        theirs = torch.utils.data.DistributedSampler(data, ranks, rank, shuffle=False, drop_last=drop_last)
        assert list(own) == list(theirs) and len(own) == len(theirs)
        assert (own.num_samples, own.total_size) == (theirs.num_samples, theirs.total_size)


def test_orders_are_permutations_that_all_ranks_draw_alike_anew_for_each_epoch():
    def epoch(number, **options):
        parts = [DistributedSampler(range(10), 3, rank, **options) for rank in range(3)]
        for part in parts:
            part.set_epoch(number)
        rows = list(zip(*map(list, parts)))
        return [index for row in rows for index in row]

    first = epoch(0)
    assert sorted(first[:10]) == list(range(10)) and first[10:] == first[:2]
    assert first == epoch(0) and first != epoch(1) and first != epoch(0, seed=1)
    dropped = epoch(0, drop_last=True)
    assert len(dropped) == len(set(dropped)) == 9 and dropped == first[:9]


def test_bad_ranks_and_a_missing_group_are_refused():
    assert Same is DistributedSampler
    with pytest.raises(ValueError, match=r"rank should be in the interval \[0, 2\]"):
        DistributedSampler(range(4), 3, 3)
    with pytest.raises(ValueError, match="init_process_group"):
        DistributedSampler(range(4))
