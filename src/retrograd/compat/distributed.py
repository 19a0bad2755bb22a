"""``distributed`` where no group of processes can be made: programs ask, and go on with one process."""

from __future__ import annotations

from typing import Any, NoReturn


def is_available() -> bool:
    """Whether processes can work together: they cannot."""
    return False


def is_initialized() -> bool:
    """Whether this process works with others: no."""
    return False


is_nccl_available = is_gloo_available = is_mpi_available = is_torchelastic_launched = is_available


def init_process_group(*args: Any, **kwargs: Any) -> NoReturn:
    """Not to be had.

    Raises:
        RuntimeError: always.
    """
    raise RuntimeError("init_process_group: groups of processes are not had here; run the program in one process")


def destroy_process_group(*args: Any, **kwargs: Any) -> None:
    """Nothing: there is no group of processes."""


def _no_group(*args: Any, **kwargs: Any) -> NoReturn:
    raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")


get_rank = get_world_size = barrier = all_reduce = all_gather = broadcast = reduce = send = recv = _no_group
