"""A sampler that partitions a data set between processes."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sized

from ..ops.make.generators import Generator
from ..ops.make.random import randperm
from .sampler import Sampler


class DistributedSampler(Sampler[int]):
    """This process's part of a data set, in an order that is the same for all processes.

    Args:
        dataset: an object with a length.
        num_replicas: the number of processes; by default the size of the default process group.
        rank: the index of this process; by default its rank in the default process group.
        shuffle: draw a new order for each ``set_epoch``.
        seed: the seed of the random order.
        drop_last: drop samples until the number is divisible by ``num_replicas``, instead of repeating the first.

    Raises:
        ValueError: ``rank`` is not below ``num_replicas``; or ``rank`` or ``num_replicas`` is missing, without a group.

    >>> import retrograd as rg
    >>> from retrograd.utils.data.distributed import DistributedSampler
    >>> list(DistributedSampler(range(5), num_replicas=2, rank=1, shuffle=False))
    [1, 3, 0]
    """

    def __init__(
        self,
        dataset: Sized,
        num_replicas: int | None = None,
        rank: int | None = None,
        shuffle: bool = True,
        seed: int = 0,
        drop_last: bool = False,
    ) -> None:
        if num_replicas is None or rank is None:
            from ..distributed import get_rank, get_world_size

            num_replicas = get_world_size() if num_replicas is None else num_replicas
            rank = get_rank() if rank is None else rank
        if not 0 <= rank < num_replicas:
            raise ValueError(f"Invalid rank {rank}, rank should be in the interval [0, {num_replicas - 1}]")
        self.dataset, self.num_replicas, self.rank = dataset, num_replicas, rank
        self.shuffle, self.seed, self.drop_last = shuffle, seed, drop_last
        self.epoch = 0
        length = len(dataset)
        if drop_last and length % num_replicas:
            self.num_samples = math.ceil((length - num_replicas) / num_replicas)
        else:
            self.num_samples = math.ceil(length / num_replicas)
        self.total_size = self.num_samples * num_replicas

    def __iter__(self) -> Iterator[int]:
        order = list(range(len(self.dataset)))
        if self.shuffle:
            generator = Generator()
            generator.manual_seed(self.seed + self.epoch)
            order = randperm(len(order), generator=generator).tolist()
        if not self.drop_last:
            missing = self.total_size - len(order)
            order += (order * math.ceil(missing / max(1, len(order))))[:missing]
        return iter(order[self.rank : self.total_size : self.num_replicas])

    def __len__(self) -> int:
        return self.num_samples

    def set_epoch(self, epoch: int) -> None:
        """Draw another order from the next iteration on."""
        self.epoch = epoch
