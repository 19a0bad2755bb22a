"""Names of the kinds of arguments that operators take, for signatures."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Literal, TypeAlias

import numpy as np

from ...core.arrays.devices import Device
from ...core.tensor.tensor import Tensor

Number: TypeAlias = bool | int | float | complex

# What stands beside a Tensor in an operation; arrays are NumPy's or CuPy's.
Operand: TypeAlias = Tensor | Number | np.ndarray[Any, Any] | np.generic

# What stands between the brackets of ``x[...]``: one of these, or a tuple of them.
Position: TypeAlias = Tensor | int | slice | EllipsisType | np.ndarray[Any, Any] | np.generic | Sequence[Any] | None
IndexLike: TypeAlias = Position | tuple[Position, ...]

# One dimension, or any number of them.
Dim: TypeAlias = int
Dims: TypeAlias = int | Sequence[int]

# A shape.
Size: TypeAlias = int | Sequence[int]

# A dtype, its name or its type; a device or its name.
DTypeLike: TypeAlias = np.dtype[Any] | type[Any] | str
DeviceLike: TypeAlias = Device | str

# How Fourier transforms are scaled.
Norm: TypeAlias = Literal["backward", "ortho", "forward"]
