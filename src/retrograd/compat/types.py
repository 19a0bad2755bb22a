"""What PyTorch calls layouts and memory formats, and types of arguments that programs name in annotations."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ..core.devices import Device
from ..core.dtypes import DType


class _Named:
    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name,)

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and repr(self) == repr(other)

    def __hash__(self) -> int:
        return hash(self.name)


class layout(_Named):
    """How the elements of a Tensor are kept: here always ``strided``."""


class memory_format(_Named):
    """In which order the elements of a Tensor lie in memory. It is asked for in vain: results have NumPy's order."""


Number = bool | int | float
_int = int
_bool = bool
_dtype = DType
_device = Device
_size_1_t = int | tuple[int]
_size_2_t = int | tuple[int, int]
_size_3_t = int | tuple[int, int, int]
_size_any_t = int | tuple[int, ...]
_ratio_2_t = float | tuple[float, float]
_ratio_any_t = float | tuple[float, ...]

_collate_fn_t = Callable[[list[Any]], Any]
_worker_init_fn_t = Callable[[int], None]
