"""``distributed.fsdp``: modules whose parameters are spread over processes. None is: programs ask whether one is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn


class FSDPModule:
    """A module whose parameters are spread over processes: there is none."""


@dataclass
class MixedPrecisionPolicy:
    """The dtypes that such a module would compute in."""

    param_dtype: Any = None
    reduce_dtype: Any = None
    output_dtype: Any = None
    cast_forward_inputs: bool = True


def fully_shard(module: Any, **options: Any) -> NoReturn:
    """Not to be had.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError(
        "fully_shard: parameters stay whole here; nn.parallel.DistributedDataParallel trains with them in many "
        "processes, and distributed.optim.ZeroRedundancyOptimizer spreads the optimizer's state"
    )


class FullyShardedDataParallel(FSDPModule):
    """Not to be had.

    Raises:
        RuntimeError: always.
    """

    def __init__(self, module: Any, *args: Any, **options: Any) -> None:
        fully_shard(module)
