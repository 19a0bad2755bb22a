"""Data sets, splits, samplers and collation, beside PyTorch where the result is not random."""

import warnings
from collections import namedtuple

import numpy as np
import pytest

from retrograd.data import (
    BatchSampler,
    ChainDataset,
    ConcatDataset,
    Dataset,
    IterableDataset,
    RandomSampler,
    SequentialSampler,
    StackDataset,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    default_collate,
    default_convert,
    random_split,
)


def rng(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


class Stream(IterableDataset):
    def __init__(self, *items):
        self.items = items

    def __iter__(self):
        return iter(self.items)

    def __len__(self):
        return len(self.items)


# ---------------------------------------------------------------------------------------------------- data sets


def test_joined_data_sets_are_indexed_from_both_ends():
    joined = ConcatDataset(["ab", "", "cde"])
    assert [joined[i] for i in range(5)] == list("abcde")
    assert [joined[i] for i in range(-5, 0)] == list("abcde")
    for index in (5, -6):
        with pytest.raises(IndexError, match="out of range"):
            joined[index]


def test_plus_joins():
    class Squares(Dataset):
        def __len__(self):
            return 3

        def __getitem__(self, index):
            return index**2

    assert [(Squares() + Squares())[i] for i in range(6)] == [0, 1, 4, 0, 1, 4]
    assert list(Stream(1, 2) + Stream(3)) == [1, 2, 3]
    assert len(ChainDataset([Stream(1, 2), Stream(3)])) == 3


def test_wrong_kinds_are_refused():
    with pytest.raises(ValueError, match="ChainDataset"):
        ConcatDataset([Stream(1)])
    with pytest.raises(TypeError, match="list"):
        ChainDataset([[1]])
    with pytest.raises(ValueError, match="empty"):
        ConcatDataset([])
    with pytest.raises(ValueError, match="length"):
        StackDataset([1], [1, 2])
    with pytest.raises(ValueError, match="position"):
        StackDataset()


def test_stacked_data_sets():
    assert StackDataset("ab", [1, 2])[1] == ("b", 2)
    assert StackDataset(x="ab", y=[1, 2])[0] == {"x": "a", "y": 1}


def test_subset_asks_for_several_samples_at_once_where_the_data_set_can():
    class Many(Dataset):
        calls: list = []

        def __len__(self):
            return 10

        def __getitems__(self, indices):
            self.calls.append(indices)
            return [10 * i for i in indices]

    data = Many()
    assert Subset(Subset(data, [9, 8, 7]), [2, 0]).__getitems__([0, 1]) == [70, 90]
    assert data.calls == [[7, 9]]


# ---------------------------------------------------------------------------------------------------- random_split


@pytest.mark.parametrize(
    "size, lengths",
    [(10, [7, 3]), (10, [0.7, 0.3]), (11, [0.5, 0.25, 0.25]), (7, [1 / 3, 1 / 3, 1 / 3]), (29, [0.15, 0.8, 0.05])],
)
def test_random_split_lengths_are_torch_s(size, lengths):
    torch_data = pytest.importorskip("torch.utils.data")
    expected = [len(subset) for subset in torch_data.random_split(range(size), lengths)]
    parts = random_split(range(size), lengths, generator=rng())
    assert [len(part) for part in parts] == expected
    assert sorted(sample for part in parts for sample in part) == list(range(size))


def test_random_split_follows_the_generator():
    first, again, other = (
        [list(part) for part in random_split(range(100), [60, 40], generator=rng(seed))] for seed in (1, 1, 2)
    )
    assert first == again != other


@pytest.mark.parametrize("lengths", [[5, 4], [0.5, 0.6], [-1, 11], [1.5, -0.5], [2.5, 7.5]])
def test_random_split_refuses_lengths_that_do_not_fit(lengths):
    with pytest.raises(ValueError, match="random_split"):
        random_split(range(10), lengths, generator=rng())


def test_random_split_warns_of_an_empty_part():
    with pytest.warns(UserWarning, match="subset 1 is empty"):
        random_split(range(1), [0.5, 0.5], generator=rng())


# ---------------------------------------------------------------------------------------------------- samplers


@pytest.mark.parametrize("size", [0, 1, 7, 8, 9])
@pytest.mark.parametrize("batch_size", [1, 3, 8])
@pytest.mark.parametrize("drop_last", [False, True])
def test_batch_sampler_is_torch_s(size, batch_size, drop_last):
    torch_data = pytest.importorskip("torch.utils.data")
    theirs = torch_data.BatchSampler(torch_data.SequentialSampler(range(size)), batch_size, drop_last)
    ours = BatchSampler(SequentialSampler(range(size)), batch_size, drop_last)
    assert list(ours) == list(theirs)
    assert len(ours) == len(theirs)


@pytest.mark.parametrize("batch_size", [0, -1, 2.0, True, None])
def test_batch_sampler_refuses_batch_sizes(batch_size):
    with pytest.raises(ValueError, match="batch_size"):
        BatchSampler(range(3), batch_size, False)


def test_random_sampler_permutes():
    sampler = RandomSampler(range(50), generator=rng())
    first, second = list(sampler), list(sampler)
    assert sorted(first) == sorted(second) == list(range(50))
    assert first != second
    assert all(type(index) is int for index in first)
    assert list(RandomSampler(range(50), generator=rng())) == first


def test_random_sampler_takes_more_samples_than_there_are():
    drawn = list(RandomSampler(range(4), num_samples=10, generator=rng()))
    assert sorted(drawn[:4]) == sorted(drawn[4:8]) == list(range(4))
    assert len(drawn) == 10 and len(set(drawn[8:])) == 2
    drawn = list(RandomSampler(range(4), replacement=True, num_samples=100, generator=rng()))
    assert len(drawn) == 100 and set(drawn) == set(range(4))


def test_random_sampler_of_nothing():
    assert list(RandomSampler([], generator=rng())) == []
    with pytest.raises(ValueError, match="empty"):
        list(RandomSampler([], num_samples=3, generator=rng()))
    with pytest.raises(ValueError, match="num_samples"):
        RandomSampler([1], num_samples=0)


def test_subset_random_sampler():
    assert sorted(SubsetRandomSampler([5, 9, 2], generator=rng())) == [2, 5, 9]


def test_weighted_random_sampler_draws_by_weight():
    drawn = np.bincount(list(WeightedRandomSampler([1, 0, 3], 20_000, generator=rng())), minlength=3)
    assert drawn[1] == 0
    assert abs(drawn[2] / drawn[0] - 3) < 0.15
    assert sorted(WeightedRandomSampler([1, 0, 3], 2, replacement=False, generator=rng())) == [0, 2]


@pytest.mark.parametrize(
    "weights, count, replacement",
    [
        ([1, -1], 1, True),
        ([0, 0], 1, True),
        ([1, np.nan], 1, True),
        ([[1]], 1, True),
        ([1, 0], 2, False),
        ([1], 0, True),
    ],
)
def test_weighted_random_sampler_refuses(weights, count, replacement):
    with pytest.raises(ValueError, match="WeightedRandomSampler"):
        WeightedRandomSampler(weights, count, replacement)


def test_generators_of_both_kinds():
    class Generator:
        numpy = rng(3)

    assert list(RandomSampler(range(9), generator=Generator())) == list(RandomSampler(range(9), generator=rng(3)))
    with pytest.raises(TypeError, match="RandomState"):
        list(RandomSampler(range(9), generator=np.random.RandomState(0)))


def test_the_global_generator_is_the_default():
    import retrograd

    orders = []
    for _ in range(2):
        retrograd.manual_seed(5)
        orders.append(list(RandomSampler(range(20))))
    assert orders[0] == orders[1] != list(range(20))


# ---------------------------------------------------------------------------------------------------- Tensors


def test_tensor_dataset():
    import retrograd

    x, y = np.arange(12.0).reshape(6, 2), np.arange(6)
    data = TensorDataset(x, retrograd.tensor(y))
    assert len(data) == 6
    assert [field.tolist() for field in data[4]] == [[8.0, 9.0], 4]
    assert np.shares_memory(data.tensors[0].numpy(), x)
    for wrong in ([], [x, y[:-1]], [np.array(1.0)]):
        with pytest.raises(AssertionError, match="dimension 0"):
            TensorDataset(*wrong)


Point = namedtuple("Point", "x y")


@pytest.mark.parametrize(
    "batch",
    [
        [1, 2],
        [True, False],
        [1.5, 2],
        ["a", "b"],
        [b"a", b"b"],
        [(1, 2.0), (3, 4.0)],
        [[1, "x"], [3, "y"]],
        [{"a": 1, "b": (2, 3)}, {"a": 4, "b": (5, 6)}],
        [np.float32(1), np.float32(2)],
        [np.ones((2, 3), np.float32), np.zeros((2, 3), np.float32)],
        [(np.array([1, 2]), 0), (np.array([3, 4]), 1)],
        [np.array(1.0), np.array(2.0)],
        [np.array([True]), np.array([False])],
    ],
)
def test_collation_is_torch_s(batch):
    torch_data = pytest.importorskip("torch.utils.data")

    def check(ours, theirs):
        if hasattr(theirs, "dtype"):
            assert str(ours.dtype).split(".")[-1] == str(theirs.dtype).split(".")[-1]
            assert tuple(ours.shape) == tuple(theirs.shape)
            assert ours.tolist() == theirs.tolist()
        elif isinstance(theirs, dict):
            assert list(ours) == list(theirs)
            for key in theirs:
                check(ours[key], theirs[key])
        elif isinstance(theirs, (list, tuple)):
            assert type(ours) is type(theirs) and len(ours) == len(theirs)
            for a, b in zip(ours, theirs):
                check(a, b)
        else:
            assert type(ours) is type(theirs) and ours == theirs

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        theirs = torch_data.default_collate(batch)
    check(default_collate(batch), theirs)
    check(default_convert(batch), torch_data.default_convert(batch))


def test_collation_of_tensors_and_named_tuples():
    import retrograd

    points = [Point(retrograd.tensor([1.0, 2.0]), 1), Point(retrograd.tensor([3.0, 4.0]), 2)]
    batch = default_collate(points)
    assert type(batch) is Point
    assert batch.x.tolist() == [[1.0, 2.0], [3.0, 4.0]] and batch.y.tolist() == [1, 2]


@pytest.mark.parametrize(
    "batch, error",
    [
        ([np.ones(2), np.ones(3)], RuntimeError),
        ([[1, 2], [1]], RuntimeError),
        ([None, None], TypeError),
        ([object()], TypeError),
        ([np.array(["a"])], TypeError),
        ([1, "a"], TypeError),
    ],
)
def test_collation_refuses(batch, error):
    with pytest.raises(error, match="default_collate"):
        default_collate(batch)
