"""bfloat16: a dtype that programs name, and that NumPy has not; using it is an error."""

from __future__ import annotations

from typing import NoReturn


class MissingDType:
    """A dtype that NumPy has not: it can be named and compared, and using it raises TypeError."""

    is_floating_point = True

    def __init__(self, name: str) -> None:
        self.name = name

    def __repr__(self) -> str:
        return f"torch.{self.name}"

    @property
    def dtype(self) -> NoReturn:  # what np.dtype asks for
        raise TypeError(f"dtype {self.name}: NumPy has it not, and no operator computes in it; use float32 or float16")


bfloat16 = MissingDType("bfloat16")
