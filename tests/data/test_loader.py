"""The DataLoader: order, workers, errors, clean ends, and resuming."""

import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import time
import traceback
from multiprocessing import active_children, get_context

import numpy as np
import pytest

from retrograd.data import (
    DataLoader,
    Dataset,
    IterableDataset,
    RandomSampler,
    Subset,
    SubsetRandomSampler,
    TensorDataset,
    WeightedRandomSampler,
    batch_generator,
    get_worker_info,
)

PATIENCE = 20.0  # seconds that a test waits for what must happen; none waits this long when all is well

FORK = pytest.param("fork", marks=pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform"))
CONTEXTS = ["thread", FORK]


class Plain(DataLoader):
    """A loader whose batches are lists, so that these tests need no Tensor; seeded unless told otherwise."""

    def __init__(self, dataset, *args, **kwargs):
        kwargs.setdefault("collate_fn", list if kwargs.get("batch_size", 1) else as_it_is)
        kwargs.setdefault("generator", np.random.default_rng(0))
        super().__init__(dataset, *args, **kwargs)


def as_it_is(sample):
    return sample


def workers(context, count=2, **more):
    return {"num_workers": count, "multiprocessing_context": context, **more} if count else {}


def children() -> set[int]:
    """The processes that this one has started and that still live."""
    return {process.pid for process in active_children()}


def worker_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name.startswith("DataLoader")]


@pytest.fixture(autouse=True)
def no_worker_is_left_over():
    before = children()
    yield
    assert children() == before
    assert worker_threads() == []


# ---------------------------------------------------------------------------------------------------- order


@pytest.mark.parametrize("size", [0, 1, 7, 12])
@pytest.mark.parametrize("batch_size", [1, 3, 20])
@pytest.mark.parametrize("drop_last", [False, True])
@pytest.mark.parametrize("count", [0, 2])
def test_batches_are_torch_s(size, batch_size, drop_last, count):
    torch_data = pytest.importorskip("torch.utils.data")
    theirs = torch_data.DataLoader(range(size), batch_size=batch_size, drop_last=drop_last, collate_fn=list)
    ours = Plain(range(size), batch_size=batch_size, drop_last=drop_last, **workers("thread", count))
    assert list(ours) == list(theirs)
    assert len(ours) == len(theirs)


def test_a_subclass_with_its_own_iteration_gets_the_loaders_iterators():
    class Endless(DataLoader):
        def __iter__(self):
            while True:
                yield from self._get_iterator()

    values = iter(Endless([1, 2, 3], batch_size=2))
    assert [next(values).tolist() for _ in range(4)] == [[1, 2], [3], [1, 2], [3]]


def test_unbatched_and_batch_sampler_are_torch_s():
    torch_data = pytest.importorskip("torch.utils.data")
    for arguments in ({"batch_size": None}, {"batch_sampler": [[3, 1], [0]]}, {"sampler": [2, 0, 1], "batch_size": 2}):
        collate = as_it_is if "batch_size" in arguments and arguments["batch_size"] is None else list
        theirs = torch_data.DataLoader(range(4), collate_fn=collate, **arguments)
        ours = Plain(range(4), collate_fn=collate, **arguments)
        assert list(ours) == list(theirs)
        assert len(ours) == len(theirs)


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("count", [1, 2, 3])
def test_any_number_of_workers_gives_the_same_batches(context, count):
    def epochs(**arguments):
        loader = Plain(range(23), batch_size=4, shuffle=True, **arguments)
        return [list(loader) for _ in range(2)]

    expected = epochs()
    assert expected[0] != expected[1]
    assert sorted(i for batch in expected[0] for i in batch) == list(range(23))
    assert epochs(**workers(context, count)) == expected
    assert epochs(**workers(context, count, prefetch_factor=5, persistent_workers=True)) == expected


def test_spawned_workers():
    assert list(Plain(range(5), batch_size=2, **workers("spawn", 1))) == [[0, 1], [2, 3], [4]]


def test_seeds():
    def order(seed):
        return list(Plain(range(50), shuffle=True, generator=np.random.default_rng(seed)))

    assert order(1) == order(1) != order(2)


class Augmented(Dataset):
    """Adds noise to its samples, from the batch's own generator or from NumPy's global one."""

    def __init__(self, own=True):
        self.own = own

    def __len__(self):
        return 12

    def __getitem__(self, index):
        return index + (batch_generator().random() if self.own else np.random.random() + random.random())  # noqa: NPY002


@pytest.mark.parametrize("context", CONTEXTS)
def test_augmentation_does_not_depend_on_the_workers(context):
    expected = list(Plain(Augmented(), batch_size=3, shuffle=True))
    noise = [sample % 1 for batch in expected for sample in batch]
    assert len(set(noise)) == len(noise)
    for count in (1, 2):
        assert list(Plain(Augmented(), batch_size=3, shuffle=True, **workers(context, count))) == expected
    with pytest.raises(RuntimeError, match="batch_generator"):
        batch_generator()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_global_generators_differ_between_batches_and_not_between_runs():
    def noise(count):
        return [
            sample for batch in Plain(Augmented(own=False), batch_size=3, **workers("fork", count)) for sample in batch
        ]

    first = noise(2)
    assert len({sample % 1 for sample in first}) == 12
    assert noise(1) == noise(3) == first


# ---------------------------------------------------------------------------------------------------- streams


class Count(IterableDataset):
    """0 to `stop - 1`, shared out among the workers."""

    def __init__(self, stop):
        self.stop = stop

    def __iter__(self):
        info = get_worker_info()
        return iter(range(self.stop) if info is None else range(info.id, self.stop, info.num_workers))

    def __len__(self):
        return self.stop


class TorchCount:
    """The same for PyTorch."""

    def __new__(cls, stop):
        torch_data = pytest.importorskip("torch.utils.data")

        class Numbers(torch_data.IterableDataset):
            def __iter__(self):
                info = torch_data.get_worker_info()
                return iter(range(stop) if info is None else range(info.id, stop, info.num_workers))

            def __len__(self):
                return stop

        return Numbers()


@pytest.mark.parametrize("batch_size, drop_last", [(None, False), (1, False), (3, False), (3, True)])
@pytest.mark.parametrize("count", [0, 2])
def test_streams_are_torch_s(batch_size, drop_last, count):
    torch_data = pytest.importorskip("torch.utils.data")
    collate = list if batch_size else as_it_is
    arguments = {"batch_size": batch_size, "drop_last": drop_last, "collate_fn": collate}
    theirs = torch_data.DataLoader(TorchCount(11), num_workers=count, **arguments)
    expected = list(theirs)
    ours = Plain(Count(11), **arguments, **workers("thread", count))
    assert list(ours) == list(ours) == expected
    assert len(ours) == len(theirs)


@pytest.mark.parametrize("context", CONTEXTS)
def test_streams_of_persistent_workers_begin_again(context):
    loader = Plain(Count(7), batch_size=2, **workers(context, persistent_workers=True))
    assert list(loader) == list(loader) == [[0, 2], [1, 3], [4, 6], [5]]


# ---------------------------------------------------------------------------------------------------- overlap


class Signalling(Dataset):
    """Says when its sample `announced` is loaded."""

    def __init__(self, event, announced):
        self.event = event
        self.announced = announced

    def __len__(self):
        return 8

    def __getitem__(self, index):
        if index == self.announced:
            self.event.set()
        return index


def event_and_barrier(context):
    maker = threading if context == "thread" else get_context(context)
    return maker.Event(), maker.Barrier(2)


@pytest.mark.parametrize("context", CONTEXTS)
def test_batches_are_loaded_while_the_caller_works(context):
    event, _ = event_and_barrier(context)
    batches = iter(Plain(Signalling(event, announced=3), **workers(context, 1, prefetch_factor=3)))
    assert next(batches) == [0]
    assert event.wait(PATIENCE)  # nobody has asked for batch 3 yet
    batches.close()


def test_no_more_is_loaded_ahead_than_asked_for():
    event = threading.Event()
    loader = Plain(Signalling(event, announced=4), **workers("thread", 1, prefetch_factor=3))
    for batch in loader:
        time.sleep(0.05)
        assert event.is_set() <= (batch[0] + 3 >= 4)
    assert event.is_set()


class Meeting(Dataset):
    """A sample is loaded only while another worker loads one."""

    def __init__(self, barrier):
        self.barrier = barrier

    def __len__(self):
        return 6

    def __getitem__(self, index):
        self.barrier.wait(PATIENCE)
        return index


@pytest.mark.parametrize("context", CONTEXTS)
def test_workers_load_at_the_same_time(context):
    _, barrier = event_and_barrier(context)
    assert list(Plain(Meeting(barrier), **workers(context, 2))) == [[i] for i in range(6)]


# ---------------------------------------------------------------------------------------------------- errors


class Unbuildable(Exception):
    """Cannot be made again from its arguments, so that it cannot be pickled."""

    def __init__(self, first, second):
        super().__init__(f"{first} and {second}")


class Failing(Dataset):
    def __init__(self, error, at=5):
        self.error = error
        self.at = at

    def __len__(self):
        return 10

    def __getitem__(self, index):
        if index == self.at:
            self.fail_here()
        return index

    def fail_here(self):
        raise self.error


@pytest.mark.parametrize("context", CONTEXTS)
@pytest.mark.parametrize("persistent", [False, True])
def test_an_error_in_a_worker_is_raised_with_its_traceback(context, persistent):
    loader = Plain(Failing(KeyError("lost")), batch_size=2, **workers(context, persistent_workers=persistent))
    seen = []
    with pytest.raises(KeyError) as caught:
        for batch in loader:
            seen.append(batch)
    assert seen == [[0, 1], [2, 3]]
    assert caught.value.args == ("lost",)
    text = "".join(traceback.format_exception(caught.value))
    assert "fail_here" in text and "raise self.error" in text
    assert f"DataLoader worker {'thread' if context == 'thread' else 'process'} 0" in text
    loader.dataset.at = None
    if not persistent:
        assert len(list(loader)) == 5


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_errors_that_cannot_be_pickled_are_told_in_words():
    with pytest.raises(RuntimeError, match="(?s)Unbuildable: one and two.*fail_here"):
        list(Plain(Failing(Unbuildable("one", "two")), **workers("fork")))
    with pytest.raises(Exception, match="lambda"):
        list(Plain([lambda: 0], **workers("fork")))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_a_killed_worker_is_reported():
    class Killed(Failing):
        def fail_here(self):
            os.kill(os.getpid(), signal.SIGKILL)

    with pytest.raises(RuntimeError, match="exit code -9"):
        list(Plain(Killed(None), **workers("fork")))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
def test_timeout(monkeypatch):
    monkeypatch.setattr("retrograd.data.worker.SECONDS_TO_FINISH_A_BATCH", 0.1)

    class Stuck(Failing):
        def fail_here(self):
            time.sleep(10 * PATIENCE)

    with pytest.raises(RuntimeError, match="within 0.2 seconds"):
        list(Plain(Stuck(None), timeout=0.2, **workers("fork")))


def test_worker_init_fn():
    started = []
    list(Plain(range(4), worker_init_fn=lambda i: started.append((i, get_worker_info().id)), **workers("thread")))
    assert sorted(started) == [(0, 0), (1, 1)]
    assert get_worker_info() is None


@pytest.mark.parametrize(
    "arguments, error",
    [
        ({"num_workers": -1}, ValueError),
        ({"timeout": -1}, ValueError),
        ({"timeout": 1, "num_workers": 1, "multiprocessing_context": "thread"}, ValueError),
        ({"prefetch_factor": 2}, ValueError),
        ({"persistent_workers": True}, ValueError),
        ({"multiprocessing_context": "fork"}, ValueError),
        ({"num_workers": 1, "prefetch_factor": 0}, ValueError),
        ({"shuffle": True, "sampler": [0]}, ValueError),
        ({"batch_sampler": [[0]], "batch_size": 2}, ValueError),
        ({"batch_sampler": [[0]], "shuffle": True}, ValueError),
        ({"batch_sampler": [[0]], "drop_last": True}, ValueError),
        ({"batch_size": None, "drop_last": True}, ValueError),
        ({"batch_size": 0}, ValueError),
        ({"generator": 3}, TypeError),
    ],
)
def test_arguments_that_do_not_fit(arguments, error):
    with pytest.raises(error):
        DataLoader(range(3), **arguments)


@pytest.mark.parametrize(
    "arguments", [{"shuffle": True}, {"sampler": [0]}, {"batch_sampler": [[0]]}, {"batch_size": 0}]
)
def test_streams_have_no_order(arguments):
    with pytest.raises(ValueError):
        DataLoader(Count(3), **arguments)


# ---------------------------------------------------------------------------------------------------- clean ends


@pytest.mark.parametrize("context", CONTEXTS)
def test_leaving_early_ends_the_workers(context):
    before = children()
    for _ in Plain(range(100), batch_size=2, **workers(context, 2)):
        assert len(worker_threads()) == 2
        assert len(children() - before) == (0 if context == "thread" else 2)
        break
    assert children() == before and worker_threads() == []


@pytest.mark.parametrize("context", CONTEXTS)
def test_persistent_workers_stay_and_go_with_the_loader(context):
    class Who(Dataset):
        def __len__(self):
            return 4

        def __getitem__(self, index):
            return os.getpid(), threading.get_ident()

    loader = Plain(Who(), **workers(context, 2, persistent_workers=True))
    first, second = list(loader), list(loader)
    assert first == second and first[0] != first[1]
    for _ in loader:
        break
    assert list(loader) == first
    assert len(worker_threads()) == 2
    del loader
    assert worker_threads() == []


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork on this platform")
@pytest.mark.parametrize("ending", ["pass", "os._exit(0)", "os.kill(os.getpid(), signal.SIGKILL)"])
@pytest.mark.parametrize("persistent", [False, True])
def test_no_process_outlives_the_program(ending, persistent):
    """Whether the program ends in the middle of an epoch, without cleaning up, or is killed."""
    program = textwrap.dedent(
        f"""
        import multiprocessing, os, signal, sys
        import numpy as np
        from retrograd.data import DataLoader
        loader = DataLoader([np.zeros(100_000)] * 50, batch_size=2, collate_fn=np.stack, num_workers=2,
            multiprocessing_context="fork", persistent_workers={persistent}, generator=np.random.default_rng(0))
        batches = iter(loader)
        next(batches)
        print(*(child.pid for child in multiprocessing.active_children()), flush=True)
        {ending}
        """
    )
    # The workers inherit the ends of these pipes, so that run() returns once the last of them has ended.
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=PATIENCE)
    assert len(done.stdout.split()) == 2
    assert done.stderr == ""
    assert done.returncode == (-9 if "SIGKILL" in ending else 0)


# ---------------------------------------------------------------------------------------------------- resuming


def samplers(kind, generator):
    return {
        "shuffle": {"shuffle": True},
        "sequential": {},
        "replacement": {"sampler": RandomSampler(range(20), replacement=True, generator=generator)},
        "subset": {"sampler": SubsetRandomSampler(range(20), generator=generator)},
        "weighted": {"sampler": WeightedRandomSampler(np.arange(20.0), 20, generator=generator)},
        "own generator": {"sampler": RandomSampler(range(20), generator=np.random.default_rng(99))},
    }[kind]


KINDS = ["shuffle", "sequential", "replacement", "subset", "weighted", "own generator"]


class Noisy(Dataset):
    def __len__(self):
        return 20

    def __getitem__(self, index):
        return index + batch_generator().random()


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("count, resumed_count", [(0, 0), (2, 0), (0, 2)])
@pytest.mark.parametrize("shared", [False, True], ids=["own", "shared"])
def test_resuming_goes_on_as_if_nothing_had_happened(kind, count, resumed_count, shared):
    """From every second position of three epochs, with a generator that the training loop draws from too, or not."""

    def start(workers_count):
        generator = np.random.default_rng(7)
        arguments = {**samplers(kind, generator), **workers("thread", workers_count)}
        loader = Plain(Noisy(), batch_size=6, generator=generator, **arguments)
        return loader, generator if shared else np.random.default_rng(8)

    def train(loader, dropout, log, epochs, saved=None):
        for epoch in epochs:
            for batch in loader:
                log.append((epoch, batch, dropout.random()))
                if saved is not None:
                    saved.append((epoch, json.dumps(loader.state_dict()), dropout.bit_generator.state))
            if saved is not None:
                saved.append((epoch + 1, json.dumps(loader.state_dict()), dropout.bit_generator.state))

    expected, saved = [], []
    train(*start(count), expected, range(3), saved)
    assert len(expected) == 12 and len(saved) == 15
    for number in range(0, 15, 2):
        epoch, state, dropout_state = saved[number]
        loader, dropout = start(resumed_count)
        dropout.bit_generator.state = dropout_state
        loader.load_state_dict(json.loads(state))
        assert json.dumps(loader.state_dict()) == state
        log = []
        train(loader, dropout, log, range(epoch, 3))
        steps_done = number + 1 - number // 5 - (number % 5 == 4)
        assert log == expected[steps_done:]


@pytest.mark.parametrize("count", [0, 2])
def test_streams_resume(count):
    def start():
        return Plain(Count(20), batch_size=3, **workers("thread", count))

    loader = start()
    expected = list(loader)
    states = [loader.state_dict() for _ in loader]
    for position, state in enumerate(states, 1):
        resumed = start()
        resumed.load_state_dict(state)
        assert list(resumed) == expected[position:]
        assert list(resumed) == expected


def test_a_run_interrupted_before_its_first_batch_resumes():
    expected = list(Plain(range(10), shuffle=True))
    loader = Plain(Failing(KeyboardInterrupt(), at=expected[0][0]), shuffle=True)
    with pytest.raises(KeyboardInterrupt):
        list(loader)
    resumed = Plain(range(10), shuffle=True, generator=np.random.default_rng(5))
    resumed.load_state_dict(loader.state_dict())
    assert list(resumed) == expected


def test_leaving_an_epoch_keeps_the_position_for_a_checkpoint_only():
    loader = Plain(range(10), batch_size=2, shuffle=True)
    for number, _ in enumerate(loader):
        if number == 2:
            break
    state = loader.state_dict()
    assert state["batches_given"] == 3
    assert len(list(loader)) == 5
    loader.load_state_dict(state)
    assert len(list(loader)) == 2


@pytest.mark.parametrize("bits", [np.random.MT19937, np.random.Philox, np.random.SFC64, np.random.PCG64])
def test_states_of_every_numpy_generator_pass_through_json(bits):
    loader = Plain(range(10), shuffle=True, generator=np.random.Generator(bits(1)))
    next(iter(loader))
    state = json.loads(json.dumps(loader.state_dict()))
    expected = [list(loader), list(loader)]
    loader.load_state_dict(state)
    assert len(list(loader)) == 9
    assert [list(loader), list(loader)] == expected


def test_a_state_of_another_loader_is_refused():
    state = Plain(range(10), batch_size=2).state_dict()
    with pytest.raises(ValueError, match="5 batches"):
        Plain(range(12), batch_size=2).load_state_dict(state)
    own = SubsetRandomSampler(range(10), generator=np.random.default_rng(0))
    with pytest.raises(ValueError, match="generators"):
        Plain(range(10), batch_size=2, sampler=own).load_state_dict(state)


# ---------------------------------------------------------------------------------------------------- Tensors


@pytest.mark.parametrize("context", [None, *CONTEXTS])
def test_tensor_batches(context):
    x, y = np.arange(20, dtype=np.float32).reshape(10, 2), np.arange(10)
    data = TensorDataset(x, y)
    loader = DataLoader(
        Subset(data, range(9, 0, -1)),
        batch_size=4,
        generator=np.random.default_rng(0),
        **workers(context, 2 if context else 0),
    )
    batches = list(loader)
    assert [type(batch) for batch in batches] == [list] * 3
    assert [labels.tolist() for _, labels in batches] == [[9, 8, 7, 6], [5, 4, 3, 2], [1]]
    for images, labels in batches:
        assert images.numpy().dtype == np.float32
        np.testing.assert_array_equal(images.numpy(), x[labels.numpy()])


def test_a_changed_getitem_is_not_passed_over():
    class Doubled(TensorDataset):
        def __getitem__(self, index):
            return tuple(2 * field for field in super().__getitem__(index))

    (batch,) = DataLoader(Doubled(np.arange(3)), batch_size=3, generator=np.random.default_rng(0))
    assert batch[0].tolist() == [0, 2, 4]
