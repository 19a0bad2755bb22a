"""What machine code knows of Python's and NumPy's objects: where their fields lie, and some of them by address."""

from __future__ import annotations

from typing import Any

import numpy as np

PREFIX = "retrograd_"  # of names that machine code calls
ROUTINE = PREFIX + "routine."  # of functions that many loops call
DTYPES = "?", "i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8", "f2", "f4", "f8", "c8", "c16"
# The objects that machine code knows by their addresses, in a table.
OBJECTS = [np.ndarray, int, float, np.float64, np.float32, tuple, True, False, None, NotImplemented]
OBJECTS += [np.dtype(name) for name in DTYPES]
HEAD = object.__basicsize__  # bytes of an object before its own fields; the last of them is its type
TABLE_AT = bytes.__basicsize__ - 1  # where a bytes object has its bytes
DATA, AXES, SHAPE, STRIDES, _, DTYPE, FLAGS = range(HEAD, HEAD + 56, 8)  # of an array: the fields of NumPy's interface
CONTIGUOUS, ALIGNED = 0x1, 0x100  # of the flags

Kind = Any  # of an argument: its name, or for an array dtype, axes, and whether it is contiguous and aligned


def kind_of_array(dtype: np.dtype, axes: int, contiguous: bool = True, aligned: bool = True) -> Kind:
    """The kind of an array as an argument. Contiguous is what NumPy calls C-contiguous.

    Raises:
        TypeError: there are no loops over such numbers.
    """
    name = dtype.str.lstrip("<|=>")
    name = "?" if name == "b1" else name
    if not dtype.isnative or name not in DTYPES:
        raise TypeError(f"compiled loops take no arrays of {dtype}")
    return name, axes, contiguous, aligned


def routine_symbol(module: str, name: str, letters: str) -> str:
    """The name in the library of a routine for numbers of some kinds (see ``numba_functions.routine_address``)."""
    return f"{ROUTINE}{module}.{name}.{letters}"
