"""Compiled loops as Python functions, from the library or compiled by Numba.

The library contains machine code for each combination of argument types (kinds) of a loop, behind one C function per
combination that takes Python objects. The C function checks the types of its arguments, reads arrays in place, releases
the GIL and runs the loop; for arguments of other types it returns ``NotImplemented``. If no library is open, Numba
compiles the loop. A missing loop raises ``LoopMissing`` before anything is written.
"""

from __future__ import annotations

import ctypes
import os
import struct
import warnings
from collections.abc import Callable
from functools import cache
from threading import RLock

import numpy as np

from ...core.opaque_calls import LoopMissing
from ...core.source_location import user_level
from . import library
from .object_layout import OBJECTS, Kind, kind_of_array

_table = struct.pack(f"{len(OBJECTS)}P", *map(id, OBJECTS))
_lock = RLock()
_warned: list[str] = []


class _Method(ctypes.Structure):
    _fields_ = (("name", ctypes.c_char_p), ("meth", ctypes.c_void_p), ("flags", ctypes.c_int), ("doc", ctypes.c_char_p))


class Loop:
    """A compiled loop, ``loop(*args)``, identified by its module and its name in the module.

    ``recipe`` is the function that Numba compiles. If it is None, the module is imported when Numba compiles the loop.
    """

    def __init__(self, module: str, name: str, recipe: object = None) -> None:
        self.module = module
        self.name = name
        self.recipe = recipe
        self.entries: list[Callable[..., object]] = []
        self._found: dict[tuple[Kind, ...], Callable[..., object] | None] = {}

    def __call__(self, *args: object) -> None:
        for entry in self.entries:
            if entry(*args) is not NotImplemented:
                return
        args = tuple(map(plain, args))
        self.entry(*args)(*args)

    def entry(self, *args: object) -> Callable[..., object]:
        """Return the function for arguments of these kinds.

        Raises:
            LoopMissing: no loop was compiled for these kinds.
        """
        kinds = tuple(map(kind_of, args))
        with _lock:
            if kinds not in self._found:
                self._found[kinds] = self._find_or_compile(kinds, args)
            found = self._found[kinds]
        if found is None:
            raise LoopMissing(f"there is no compiled loop {self.full_name} for {kinds}")
        return found

    def _find_or_compile(self, kinds: tuple[Kind, ...], args: tuple[object, ...]) -> Callable[..., object] | None:
        opened = library.opened()
        if opened is not None:
            address = opened.address(library.symbol(self.full_name, repr(kinds)))
            if address is None:
                return None
            self.entries.append(python_function(address))
            return self.entries[-1]
        try:
            from .numba_functions import compiled

            return compiled(self.module, self.name, self.recipe, args)
        except ImportError:
            return None
        except Exception as error:
            warn_of(self.full_name, error)
            return None

    @property
    def full_name(self) -> str:
        return f"{self.module.rpartition('.')[2]}.{self.name}"


class Loops:
    """The loops of a module as attributes, without importing the module."""

    def __init__(self, module: str) -> None:
        self._module = f"retrograd.kernels.{module}"

    def __getattr__(self, name: str) -> Loop:
        loop = self.__dict__[name] = Loop(self._module, name)
        return loop


loops = cache(Loops)


def warn_of(name: str, error: Exception) -> None:
    """Warn, once per process, that a loop could not be compiled."""
    if not _warned:
        _warned.append(name)
        warnings.warn(
            f"the loop {name} could not be compiled ({type(error).__name__}: {error}); NumPy is used instead",
            RuntimeWarning,
            stacklevel=user_level(),
        )


def plain(value: object) -> object:
    """Convert an argument to a type that machine code supports."""
    if isinstance(value, np.ndarray):
        value = value.view(np.ndarray) if type(value) is not np.ndarray else value
        plain_dtype = np.dtype(value.dtype.str)
        return value if value.dtype is plain_dtype else value.view(plain_dtype)
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, np.bool_):
        return bool(value)
    return int(value) if isinstance(value, np.integer) else value


def kind_of(value: object) -> Kind:
    """Return the kind of an argument: its type, as far as machine code depends on it."""
    kind = type(value)
    if type(value) is np.ndarray:
        return kind_of_array(value.dtype, value.ndim, value.flags.c_contiguous, value.flags.aligned)
    if isinstance(value, tuple) and kind is tuple:
        return ("tuple", *map(kind_of, value))
    if kind in (int, bool):
        return kind.__name__
    if kind in (float, np.float64):
        return "float64"
    if kind is np.float32:
        return "float32"
    raise TypeError(f"compiled loops take arrays, numbers and tuples of them, not {kind.__name__}")


_methods: list[_Method] = []  # kept alive: Python functions point to them


def python_function(address: int) -> Callable[..., object]:
    """Return a Python function for the C function at an address, with the table of objects as its self."""
    method = _Method(b"loop", address, 0x80, None)  # METH_FASTCALL
    _methods.append(method)
    make = ctypes.pythonapi.PyCFunction_NewEx
    make.restype, make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    function: Callable[..., object] = make(ctypes.addressof(method), _table, None)
    return function


def _after_fork() -> None:
    global _lock
    _lock = RLock()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
