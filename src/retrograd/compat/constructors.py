"""PyTorch's legacy constructors: ``FloatTensor([1, 2])``, ``LongTensor(2, 3)``, ``cuda.FloatTensor``."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..core.arrays.devices import is_cuda_available, set_default_device
from ..core.arrays.dtypes import set_default_dtype
from ..core.errors import describe
from ..core.tensor.tensor import Tensor, constructed, new_tensor


class LegacyType(type):
    """The type of legacy types: they make plain Tensors of their dtype, and know them by ``isinstance``."""

    dtype: np.dtype[Any]
    is_cuda: bool

    def __call__(cls, *data: Any, device: Any = None) -> Any:
        if cls.is_cuda and not is_cuda_available():
            raise TypeError(f"type torch.cuda.{cls.__name__} not available: CuPy is not installed, or no GPU answers")
        if len(data) == 1 and isinstance(data[0], Tensor) and data[0].dtype != cls.dtype:
            raise TypeError(f"{cls.__name__}: wanted a Tensor of {cls.dtype}, got {describe(data[0])}; use .to()")
        place = "cuda" if cls.is_cuda and device is None else device
        return new_tensor(constructed(cls.__name__, data, cls.dtype, place or "cpu"))

    def __instancecheck__(cls, x: object) -> bool:
        return isinstance(x, Tensor) and x.array.dtype == cls.dtype and x.is_cuda == cls.is_cuda

    def __repr__(cls) -> str:
        return f"<class 'torch.{'cuda.' if cls.is_cuda else ''}{cls.__name__}'>"


def _types(is_cuda: bool) -> dict[str, LegacyType]:
    dtypes = {
        "BoolTensor": "bool", "ByteTensor": "uint8", "CharTensor": "int8", "ShortTensor": "int16",
        "IntTensor": "int32", "LongTensor": "int64", "HalfTensor": "float16", "FloatTensor": "float32",
        "DoubleTensor": "float64", "ComplexFloatTensor": "complex64", "ComplexDoubleTensor": "complex128",
    }  # fmt: skip
    fields = {"is_cuda": is_cuda, "__module__": "torch.cuda" if is_cuda else "torch"}
    return {name: LegacyType(name, (), {"dtype": np.dtype(dtype), **fields}) for name, dtype in dtypes.items()}


CPU_TYPES = _types(False)
CUDA_TYPES = _types(True)
globals().update(CPU_TYPES)


def set_default_tensor_type(t: Any) -> None:
    """Set the default dtype, and the default device, by a legacy type or its name (``"torch.DoubleTensor"``).

    >>> import retrograd as rg
    >>> rg.set_default_tensor_type("torch.FloatTensor")
    >>> rg.get_default_dtype()
    dtype('float32')

    Raises:
        TypeError: there is no such type, it is not of floating numbers, or no GPU is there.
    """
    kind = t
    if isinstance(t, str):
        path = t.removeprefix("torch.").removeprefix("retrograd.")
        kind = CUDA_TYPES.get(path[5:]) if path.startswith("cuda.") else CPU_TYPES.get(path)
    if kind is Tensor:
        kind = CPU_TYPES["FloatTensor"]
    if not isinstance(kind, LegacyType):
        raise TypeError(f"set_default_tensor_type: invalid type name: {t!r}")
    if kind.is_cuda and not is_cuda_available():
        raise TypeError(f"type torch.cuda.{kind.__name__} not available: CuPy is not installed, or no GPU answers")
    set_default_dtype(kind.dtype)
    set_default_device("cuda" if kind.is_cuda else "cpu")


__all__ = [*CPU_TYPES, "set_default_tensor_type"]
