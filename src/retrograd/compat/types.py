"""What PyTorch calls layouts and memory formats, and types of arguments that programs name in annotations."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from ..core.arrays.devices import Device
from ..core.arrays.dtypes import DType


class _Named:
    """One object per name: programs ask with ``is``."""

    name: str

    def __new__(cls, name: str) -> _Named:
        return _made(cls, name)  # type: ignore[arg-type]  # mypy takes instances for the class

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.name,)


@cache
def _made(cls: type[_Named], name: str) -> _Named:
    made = object.__new__(cls)
    made.name = name
    return made


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
