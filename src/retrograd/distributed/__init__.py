"""Distributed training by MPI, and NCCL on GPUs, under PyTorch's names.

``mpiexec -n 4 retrograd run program.py`` starts four processes; each calls ``init_process_group("mpi")``. ``data``,
``nn``, ``training`` and the command import it.
"""

from typing import TYPE_CHECKING

from ..core.missing_names import legacy_names
from .collectives import *  # noqa: F403
from .collectives import __all__ as _collectives
from .errors import DistBackendError, DistError
from .groups import (
    GroupMember,
    ProcessGroup,
    get_backend,
    get_default_backend_for_device,
    get_global_rank,
    get_group_rank,
    get_node_local_rank,
    get_process_group_ranks,
    get_rank,
    get_world_size,
    is_initialized,
)
from .launch import (
    destroy_process_group,
    init_process_group,
    is_available,
    is_gloo_available,
    is_mpi_available,
    is_nccl_available,
    is_torchelastic_launched,
    new_group,
)
from .launcher import launched
from .objects import *  # noqa: F403
from .objects import __all__ as _objects
from .point_to_point import *  # noqa: F403
from .point_to_point import __all__ as _messages
from .reduce_ops import ReduceOp
from .work import Work

__all__ = [
    "DistBackendError", "DistError", "GroupMember", "ProcessGroup", "ReduceOp", "Work", "destroy_process_group",
    "get_backend", "get_default_backend_for_device", "get_global_rank", "get_group_rank", "get_node_local_rank",
    "get_process_group_ranks", "get_rank", "get_world_size", "init_process_group", "is_available",
    "is_gloo_available", "is_initialized", "is_mpi_available", "is_nccl_available", "is_torchelastic_launched",
    "launched", "new_group",
]  # fmt: skip
__all__ += [*_collectives, *_objects, *_messages]

reduce_op = ReduceOp  # PyTorch's older name

if TYPE_CHECKING:
    from . import nn as nn
    from . import optim as optim
else:
    _legacy_names = legacy_names(__name__)

    def __getattr__(name: str) -> object:
        if name == "group":
            return GroupMember
        return _legacy_names(name)
