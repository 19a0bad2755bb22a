"""The layout of Python and NumPy objects that machine code relies on, and the objects it refers to by address."""

from __future__ import annotations

from typing import Any

import numpy as np

PREFIX = "retrograd_"  # prefix of the symbols that machine code calls
ROUTINE = PREFIX + "routine."  # prefix of functions that many loops call
DTYPES = "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"
# The objects whose addresses are passed to machine code in a table.
OBJECTS = [np.ndarray, int, float, np.float64, np.float32, tuple, True, False, None, NotImplemented]
OBJECTS += [np.dtype(name) for name in DTYPES]
HEAD = object.__basicsize__  # bytes of the object header, which ends with the pointer to the type
TABLE_AT = bytes.__basicsize__ - 1  # offset of the content of a bytes object
DATA, AXES, SHAPE, STRIDES, _, DTYPE, FLAGS = range(HEAD, HEAD + 56, 8)  # offsets of PyArrayObject's fields
CONTIGUOUS, ALIGNED = 0x1, 0x100  # bits of FLAGS

Kind = Any  # the kind of an argument: a type's name, or for an array (dtype, axes, contiguous, aligned)


def kind_of_array(dtype: np.dtype, axes: int, contiguous: bool = True, aligned: bool = True) -> Kind:
    """Return the kind of an array argument; ``contiguous`` means C-contiguous.

    Raises:
        TypeError: loops do not support the dtype.
    """
    name = dtype.str.lstrip("<|=>")
    name = "?" if name == "b1" else name
    if not dtype.isnative or name not in DTYPES:
        raise TypeError(f"compiled loops do not support arrays of dtype {dtype}")
    return name, axes, contiguous, aligned


def routine_symbol(module: str, name: str, letters: str) -> str:
    """Return the library's symbol of a routine for argument types (see ``numba_functions.routine_address``)."""
    return f"{ROUTINE}{module}.{name}.{letters}"
