"""Rank and world size from the environment variables of a launcher: mpiexec of MPICH or Open MPI, srun."""

from __future__ import annotations

import os


def launched() -> tuple[int, int]:
    """Return this process's rank and the number of processes; ``(0, 1)`` without a launcher."""
    for rank, size in (
        ("PMI_RANK", "PMI_SIZE"),
        ("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"),
        ("PMIX_RANK", "PMIX_SIZE"),
        ("SLURM_PROCID", "SLURM_NTASKS"),
    ):
        if rank in os.environ and size in os.environ and (rank != "SLURM_PROCID" or "SLURM_STEP_ID" in os.environ):
            return integer_of(rank), integer_of(size)
    return 0, 1


def local_rank() -> int | None:
    """This process's rank on its machine, None if the environment does not define it."""
    return _number("LOCAL_RANK", "MPI_LOCALRANKID", "OMPI_COMM_WORLD_LOCAL_RANK", "SLURM_LOCALID")


def local_size() -> int:
    """The number of processes of the job on this machine, 1 if the environment does not define it."""
    return _number("MPI_LOCALNRANKS", "OMPI_COMM_WORLD_LOCAL_SIZE") or 1


def _number(*names: str) -> int | None:
    return next((integer_of(name) for name in names if name in os.environ), None)


def integer_of(name: str) -> int:
    """Return the integer in an environment variable.

    Raises:
        RuntimeError: the value of the variable is not an integer.
    """
    try:
        return int(os.environ[name])
    except ValueError:
        raise RuntimeError(f"environment variable {name} must be an integer, got {os.environ[name]!r:.80}") from None
