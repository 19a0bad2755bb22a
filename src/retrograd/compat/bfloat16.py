"""bfloat16 as a dtype: that of ml_dtypes where it is installed (extra ``bfloat16``), else a name whose use is an error."""

from __future__ import annotations

from typing import Any


class MissingDType:
    """A dtype that NumPy has not: it can be named and compared, and using it raises ImportError."""

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    def __str__(self) -> str:
        return self.name

    @property
    def dtype(self) -> Any:  # what np.dtype asks for
        raise ImportError(f"dtype {self.name}: NumPy has it not; install retrograd[bfloat16] (ml_dtypes)")


def _bfloat16() -> Any:
    try:
        import ml_dtypes
    except ImportError:
        return MissingDType("bfloat16")
    import numpy as np

    return np.dtype(ml_dtypes.bfloat16)


bfloat16: Any = _bfloat16()
