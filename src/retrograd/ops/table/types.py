"""Type aliases for the signatures of operators."""

from __future__ import annotations

from collections.abc import Sequence
from types import EllipsisType
from typing import Any, Literal, TypeAlias

import numpy as np

from ...core.arrays.devices import Device
from ...core.tensor.tensor import Tensor

Number: TypeAlias = bool | int | float | complex

# The other operand of an operation on a Tensor; arrays are NumPy's or CuPy's.
Operand: TypeAlias = Tensor | Number | np.ndarray[Any, Any] | np.generic

# The index in ``x[...]``: one of these types, or a tuple of them.
Position: TypeAlias = Tensor | int | slice | EllipsisType | np.ndarray[Any, Any] | np.generic | Sequence[Any] | None
IndexLike: TypeAlias = Position | tuple[Position, ...]

# One dimension or several.
Dim: TypeAlias = int
Dims: TypeAlias = int | Sequence[int]

# A shape.
Size: TypeAlias = int | Sequence[int]

# A dtype, its name or its type; a device or its name.
DTypeLike: TypeAlias = np.dtype[Any] | type[Any] | str
DeviceLike: TypeAlias = Device | str

# The scaling of Fourier transforms.
Norm: TypeAlias = Literal["backward", "ortho", "forward"]
